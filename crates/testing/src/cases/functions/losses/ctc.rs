//! Rows of connectionist temporal classification. The oracle is the definition: it sums the
//! probabilities of all sequences of symbols that collapse to a target when repetitions and then
//! blanks are removed.

use crate::prelude::*;
use ternion_core::{CtcOptions, Reduction};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    vec![padded(), sequential_targets(), single_sequence(), means(), infeasible(), infinite()]
}

/// Returns the collapsed sequence.
fn collapsed(sequence: &[usize], blank: usize) -> Vec<usize> {
    let mut symbols = sequence.to_vec();
    symbols.dedup();
    symbols.retain(|&symbol| symbol != blank);
    symbols
}

/// Returns the loss of the first `steps` steps of one row of `[time, batch, classes]`.
fn loss(x: &Array, row: usize, steps: usize, target: &[usize], blank: usize) -> f64 {
    let [_, _, classes] = x.sizes();
    let mut probability = 0.0;
    for number in 0..classes.pow(steps as u32) {
        let sequence: Vec<usize> = (0..steps).map(|step| number / classes.pow(step as u32) % classes).collect();
        if collapsed(&sequence, blank) == target {
            let logarithms = sequence.iter().enumerate().map(|(step, &symbol)| x.at(&[step, row, symbol]));
            probability += logarithms.sum::<f64>().exp();
        }
    }
    -probability.ln()
}

/// The numbers of steps of the three sequences of a batch, and the lengths of their targets.
const INPUT_LENGTHS: [usize; 3] = [5, 3, 4];
const TARGET_LENGTHS: [usize; 3] = [2, 1, 0];
/// The targets as a matrix `[batch, length]`. Padding after the end of a target is never read.
const PADDED: [i64; 6] = [1, 1, 2, 77, -5, -1];

/// Returns the targets of the three sequences.
fn labels(blank: usize) -> [Vec<usize>; 3] {
    // The first target needs a blank between its repeated symbols.
    if blank == 0 { [vec![1, 1], vec![2], vec![]] } else { [vec![0, 0], vec![1], vec![]] }
}

fn losses(x: &Array, blank: usize) -> Array {
    let all = (0..3).map(|row| loss(x, row, INPUT_LENGTHS[row], &labels(blank)[row], blank));
    Array::new(&[3], all.collect())
}

fn row(parameters: &str) -> OpCase {
    OpCase::new("ctc_loss", parameters).input(Uniform(-3.0, 0.0)).f32_limit(4e-6, 2e-6)
}

fn none(blank: usize) -> CtcOptions {
    CtcOptions { blank, reduction: Reduction::None, zero_infinity: false }
}

fn padded() -> OpCase {
    row("padded")
        .on([&[5, 3, 3]])
        .double_backward()
        .run(|x| {
            let targets = Tensor::from_slice(&PADDED, [3, 2], x[0].device())?;
            x[0].ctc_loss(&targets, &INPUT_LENGTHS, &TARGET_LENGTHS, none(0))
        })
        .oracle(|x| losses(&x[0], 0))
        .rejects("ctc_loss: an input length of 6 for 5 steps", rejected_call(&[6, 1], &[1, 1], 0))
        .rejects("ctc_loss: a target length of 3 for targets of shape [2, 2]", rejected_call(&[5, 1], &[3, 1], 0))
        .rejects("ctc_loss: 1 target lengths for a batch of 2", rejected_call(&[5, 1], &[1], 0))
        .rejects("ctc_loss: blank 3 of 3 classes", rejected_call(&[5, 5], &[1, 1], 3))
        .rejects("ctc_loss: index 7 is out of range for size 3", |device| {
            let targets = Tensor::from_slice(&[1i64, 7], [1, 2], device)?;
            Tensor::zeros([5, 1, 3], F32, device)?.ctc_loss(&targets, &[5], &[2], CtcOptions::default())
        })
        .rejects("ctc_loss: target lengths of 3 together for 4 targets", |device| {
            let targets = Tensor::zeros([4], I64, device)?;
            Tensor::zeros([5, 1, 3], F32, device)?.ctc_loss(&targets, &[5], &[3], CtcOptions::default())
        })
        .rejects("ctc_loss: log_probs of shape [5] and targets of [4]", |device| {
            let targets = Tensor::zeros([4], I64, device)?;
            Tensor::zeros([5], F32, device)?.ctc_loss(&targets, &[5], &[3], CtcOptions::default())
        })
}

fn rejected_call(
    input_lengths: &'static [usize],
    target_lengths: &'static [usize],
    blank: usize,
) -> impl Fn(&Device) -> Result<Tensor> + Send + Sync + 'static {
    move |device| {
        let labels = Tensor::zeros([2, 2], I64, device)?;
        Tensor::zeros([5, 2, 3], F32, device)?.ctc_loss(&labels, input_lengths, target_lengths, none(blank))
    }
}

fn sequential_targets() -> OpCase {
    row("one after the other, blank=2")
        .on([&[5, 3, 3]])
        .run(|x| {
            let targets = Tensor::from_slice(&[0i32, 0, 1], [3], x[0].device())?;
            x[0].ctc_loss(&targets, &INPUT_LENGTHS, &TARGET_LENGTHS, none(2))
        })
        .oracle(|x| losses(&x[0], 2))
}

fn single_sequence() -> OpCase {
    row("without a batch")
        .on([&[4, 3]])
        .run(|x| {
            let targets = Tensor::from_slice(&[2i64, 1], [2], x[0].device())?;
            x[0].ctc_loss(&targets, &[4], &[2], none(0))
        })
        .oracle(|x| Array::scalar(loss(&x[0].reshape(&[4, 1, 3]), 0, 4, &[2, 1], 0)))
}

/// Each loss is first divided by the length of its target, or by 1 for an empty one.
fn means() -> OpCase {
    row("mean")
        .on([&[5, 3, 3]])
        .run(|x| {
            let targets = Tensor::from_slice(&PADDED, [3, 2], x[0].device())?;
            x[0].ctc_loss(&targets, &INPUT_LENGTHS, &TARGET_LENGTHS, CtcOptions::default())
        })
        .oracle(|x| {
            let losses = losses(&x[0], 0);
            Array::scalar(losses.data.iter().zip([2.0, 1.0, 1.0]).map(|(loss, length)| loss / length).sum::<f64>() / 3.0)
        })
}

/// Repetitions that need more steps than the input has, no steps at all, and NaN after the end of
/// the input.
fn infeasible() -> OpCase {
    row("unfit, none").on([&[3, 3, 2]]).forward_only("infinite").run(|x| {
        let targets = Tensor::from_slice(&[1i64, 1, 1, 0, 0, 0], [3, 2], x[0].device())?;
        let end = Tensor::full([1, 3, 2], f64::NAN, x[0].dtype(), x[0].device())?;
        let x = Tensor::concat(&[&x[0], &end], 0)?;
        x.ctc_loss(&targets, &[2, 0, 0], &[2, 1, 0], none(0))
    })
    .oracle(|_| Array::new(&[3], vec![f64::INFINITY, f64::INFINITY, 0.0]))
}

/// With `zero_infinity`, an infinite loss is replaced by 0 and has no gradient.
fn infinite() -> OpCase {
    row("zero_infinity sum")
        .on([&[2, 2, 2]])
        .double_backward()
        .run(|x| {
            let targets = Tensor::from_slice(&[1i64, 1, 1, 0], [2, 2], x[0].device())?;
            let options = CtcOptions { blank: 0, reduction: Reduction::Sum, zero_infinity: true };
            x[0].ctc_loss(&targets, &[2, 2], &[2, 1], options)
        })
        .oracle(|x| Array::scalar(loss(&x[0], 1, 2, &[1], 0)))
}
