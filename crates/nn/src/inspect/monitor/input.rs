//! Faults of the input of a model or loss: an input that is constant, too large or too small,
//! examples that are all the same, and inputs of a loss that are not log-probabilities.

use super::StatsConfig;
use super::faults::{Counts, DetectedFault, Fault, LayerSize, advice, describe_patience, format_factor};
use super::report::{LayerStats, StatsReport};
use ternion_core::{DeviceStats, Op, OpCall, Result, Stats, Tensor, no_grad, unobserved};

/// How the first op of a model uses its input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum InputUse {
    /// Any other use: the input may be scaled first.
    #[default]
    Other,
    /// A product with a weight uses it unchanged.
    Product,
    /// A norm divides it by the square root of its variance plus `eps`.
    Norm { eps: f64 },
}

impl InputUse {
    pub(super) fn from_call(call: &OpCall<'_>) -> InputUse {
        match call.op {
            Op::Matmul(_) | Op::Conv2d(_) if call.inputs.get(1).is_some_and(|weight| weight.needs_grad()) => {
                InputUse::Product
            }
            Op::BatchNorm(norm) => InputUse::Norm { eps: norm.eps },
            Op::LayerNorm(norm) => InputUse::Norm { eps: norm.eps },
            Op::RmsNorm(norm) => InputUse::Norm { eps: norm.eps },
            _ => InputUse::Other,
        }
    }
}

/// Returns statistics of the range (maximum minus minimum) of each element over the examples, which
/// are along the first axis. `None` for a single example.
pub(super) fn spread(input: &Tensor) -> Result<Option<DeviceStats>> {
    if input.rank() < 2 || input.dims()[0] < 2 || input.elements() == 0 {
        return Ok(None);
    }
    let input = input.detach();
    let range = || input.max(0)?.sub(&input.min(0)?);
    unobserved(|| no_grad(range))?.device_stats().map(Some)
}

/// Returns the log-sum-exp of rows, which is 0 if they are log-probabilities.
pub(super) fn log_sum_exp(rows: &Tensor) -> Result<DeviceStats> {
    unobserved(|| no_grad(|| rows.detach().logsumexp(1)))?.device_stats()
}

/// Rounding in half precision, and clipped or smoothed probabilities, stay below this limit.
const MAX_LOG_SUM_EXP: f64 = 0.1;

/// Reports rows that a loss treats as log-probabilities and that are not.
pub(super) fn log_probabilities(sums: &Stats) -> Option<String> {
    let worst = if sums.max.abs() > sums.min.abs() { sums.max } else { sums.min };
    (worst.abs() > MAX_LOG_SUM_EXP).then(|| {
        format!(
            "its output is taken for log-probabilities by nll_loss, but the exponentials of a row sum to {:.2e}: give nll_loss the output of log_softmax over the classes, or cross_entropy the logits",
            worst.exp()
        )
    })
}

/// Checks the input, if a layer multiplies it unchanged with its weights, or if a norm uses it.
pub(super) fn find_faults(
    report: &StatsReport,
    config: &StatsConfig,
    counts: &mut Counts,
) -> Option<DetectedFault> {
    let input = report.layers.iter().find(|layer| layer.kind == "input")?;
    let message = match input.input_use {
        InputUse::Other => return None,
        InputUse::Norm { eps } => too_small_for_a_norm(&input.output, eps)?,
        InputUse::Product => constant(input)
            .or_else(|| repeated(input, config, counts))
            .or_else(|| too_large(&input.output, config))
            .or_else(|| too_small(&input.output, config))?,
    };
    Some(DetectedFault::of_layer(Fault::UnscaledInput, "", input.output.rms(), message))
}

fn constant(input: &LayerStats) -> Option<String> {
    let Stats { elements, min, max, .. } = input.output;
    (elements > 1 && min == max)
        .then(|| format!("input: all of its {elements} numbers are {min:e}: look at how the data are loaded"))
}

/// Reports examples that are all the same in several readings; in the first step that may be
/// normal.
fn repeated(input: &LayerStats, config: &StatsConfig, counts: &mut Counts) -> Option<String> {
    let spread = input.spread.filter(|spread| spread.elements > 0 && spread.zeros == spread.elements)?;
    counts.persists(Fault::UnscaledInput, None, config).then(|| {
        let (examples, when) = (input.output.elements / spread.elements, describe_patience(config));
        format!("input: all of its {examples} examples were the same {when}: look at how the data are loaded")
    })
}

const SCALE_ADVICE: &str = "subtract the mean and divide by the standard deviation";

fn too_large(input: &Stats, config: &StatsConfig) -> Option<String> {
    let (size, Stats { min, max, .. }) = (input.rms(), input);
    (size > config.largest_input).then(|| {
        format!(
            "input: its root mean square is {size:.1} ({min:.2e} to {max:.2e}), where about 1 is what first weights are made for: {SCALE_ADVICE}, or divide bytes by 255"
        )
    })
}

/// Returns the root mean square of the nonzero elements: a sparse input is not too small.
fn size_without_zeros(input: &Stats) -> f64 {
    input.norm() / (input.finite().saturating_sub(input.zeros).max(1) as f64).sqrt()
}

fn too_small(input: &Stats, config: &StatsConfig) -> Option<String> {
    let (size, Stats { min, max, .. }) = (size_without_zeros(input), input);
    (size > 0.0 && size < config.smallest_input).then(|| {
        format!(
            "input: its root mean square is {size:.1e} ({min:.2e} to {max:.2e}), where about 1 is what first weights are made for, and the biases of the first layer cover it: {SCALE_ADVICE}"
        )
    })
}

/// A norm scales the input to 1 unless its variance is far below the eps that is added to it.
fn too_small_for_a_norm(input: &Stats, eps: f64) -> Option<String> {
    let (size, Stats { min, max, .. }) = (size_without_zeros(input), input);
    (size > 0.0 && size * size < 1e-2 * eps).then(|| {
        format!(
            "input: its root mean square is {size:.1e} ({min:.2e} to {max:.2e}), and its variance far less than the eps of the norm that takes it, {eps:e}, so that it stays small: {SCALE_ADVICE}"
        )
    })
}

/// Whether the input is too small. The sizes of outputs are then determined by the biases, and do
/// not characterize the layers.
pub(super) fn is_too_small(report: &StatsReport, config: &StatsConfig) -> bool {
    let input = report.layers.iter().find(|layer| layer.kind == "input");
    input.is_some_and(|input| match input.input_use {
        InputUse::Other => false,
        InputUse::Product => too_small(&input.output, config).is_some(),
        InputUse::Norm { eps } => too_small_for_a_norm(&input.output, eps).is_some(),
    })
}

/// Compares the outputs of the first layer with the input that it multiplies.
pub(super) fn exploding_first(
    report: &StatsReport,
    config: &StatsConfig,
    (first, first_rms): LayerSize<'_>,
) -> Option<DetectedFault> {
    let input =
        report.layers.iter().find(|layer| layer.kind == "input" && layer.input_use == InputUse::Product)?;
    let input = input.output.rms();
    if input.is_nan() || input <= 0.0 || first_rms / input <= config.growth {
        return None;
    }
    let message = format!(
        "{}: its outputs are {} times as large as the input (root mean square {first_rms:.2e} and {input:.2e}): they explode; {}",
        first.name(),
        format_factor(first_rms / input),
        advice(report)
    );
    Some(DetectedFault::of_layer(Fault::ExplodingOutputs, &first.key, first_rms / input, message))
}
