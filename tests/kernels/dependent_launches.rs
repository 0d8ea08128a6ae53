//! Kernels that begin before the previous launch has ended (programmatic dependent launch),
//! compared with kernels that begin after it. The tests are chains of small ops, eagerly and as
//! recorded steps: each op reads what the previous one wrote, or writes what it read. All bits are
//! the same in every run. Requires compute capability 9.0.

use super::launch::capable;
use super::{numbers, tensor};
use crate::recorded::Training;
use crate::shared_device;
use std::cell::RefCell;
use ternion::AttentionOptions;
use ternion::prelude::*;
use ternion_cuda::{CudaBackend, probe};

/// The number of ops in a chain.
const OPS: usize = 300;

/// The number of runs of a chain: eagerly, or by a recording and its replays.
const RUNS: usize = 3;

/// Returns the device's backend, if its kernels support overlapping launches.
fn overlapping(device: &Device) -> Option<&CudaBackend> {
    let backend = capable(device)?;
    if !probe::overlap_launches(backend, true) {
        println!("not tested: kernels do not overlap (an old driver, or an environment variable)");
        return None;
    }
    Some(backend)
}

/// A pseudorandom generator.
struct Generator(u64);

impl Generator {
    /// Returns a number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// The tensors that a chain changes in place.
struct State {
    /// `[rows, columns]` f32, with any number of columns.
    a: Tensor,
    b: Tensor,
    /// `[length]` f32, whose sum needs several blocks.
    long: Tensor,
    /// `[seven]` f32, processed by one block.
    short: Tensor,
    /// `[side, side]` bf16, for products with tensor maps.
    p: Tensor,
    q: Tensor,
    /// `[rows]` i64 below `rows`, some of them equal.
    index: Tensor,
}

impl State {
    fn new(device: &Device, seed: u64) -> Result<State> {
        let mut draw = Generator(seed);
        let (rows, columns) = (1 + draw.below(400), 1 + draw.below(900));
        let (length, side) = (100_000 + draw.below(500_000), 64 * (1 + draw.below(6)));
        let index: Vec<i64> = (0..rows).map(|_| draw.below(rows) as i64).collect();
        let square = |seed| tensor(&[side, side], DType::BF16, device, seed);
        Ok(State {
            a: tensor(&[rows, columns], DType::F32, device, seed + 1)?,
            b: tensor(&[rows, columns], DType::F32, device, seed + 2)?,
            long: tensor(&[length], DType::F32, device, seed + 3)?,
            short: tensor(&[7], DType::F32, device, seed + 4)?,
            p: square(seed + 5)?,
            q: square(seed + 6)?,
            index: Tensor::from_vec(index, [rows], device)?,
        })
    }

    /// Runs one op of the chain, or a few: each reads a tensor of the state and then writes it. The
    /// values stay below a few hundred.
    fn apply(&self, kind: usize) -> Result<()> {
        let State { a, b, long, short, p, q, index } = self;
        match kind {
            0 => a.copy_(&a.add(b)?.tanh()?),
            1 => b.copy_(&a.mul_scalar(0.5)?.softmax(1)?),
            2 => a.copy_(&a.layer_norm(None, None, 1e-5)?),
            3 => long.copy_(&long.add(&long.mean(0)?)?.tanh()?),
            4 => long.copy_(&long.mul_scalar(1e-3)?.cumsum(0)?.sin()?),
            5 => b.copy_(&b.add(&a.mean(0)?)?.tanh()?),
            6 => a.copy_(&a.index_select(0, index)?.sub(b)?),
            7 => a.index_add_(0, index, &b.mul_scalar(0.1)?).and_then(|()| a.copy_(&a.tanh()?)),
            8 => p.copy_(&p.matmul(q)?.tanh()?),
            9 => q.copy_(&q.transpose(0, 1)?.add(p)?.tanh()?),
            10 => b.copy_(&b.sort(1, false)?.0),
            11 => (0..6).try_for_each(|_| short.add_scalar_(0.7).and_then(|()| short.copy_(&short.sin()?))),
            12 => {
                let both = Tensor::concat(&[a, b], 0)?;
                let rows = a.dims()[0];
                b.copy_(&both.narrow(0, rows / 2, rows)?)
            }
            13 => a.copy_(&a.pad(&[[0, 0], [1, 0]], 0.5)?.narrow(1, 0, a.dims()[1])?),
            14 => long.mul_scalar_(0.9).and_then(|()| long.add_scalar_(0.1)),
            _ => short.copy_(&short.mul(&long.max(0)?)?.tanh()?),
        }
    }

    fn run(&self, seed: u64) -> Result<()> {
        let mut draw = Generator(seed ^ 0x5eed);
        no_grad(|| (0..OPS).try_for_each(|_| self.apply(draw.below(16))))
    }

    fn bits(&self) -> Result<Vec<Vec<u64>>> {
        [&self.a, &self.b, &self.long, &self.short, &self.p, &self.q].into_iter().map(bits).collect()
    }
}

fn bits(tensor: &Tensor) -> Result<Vec<u64>> {
    Ok(tensor.to_vec_f64()?.iter().map(|value| value.to_bits()).collect())
}

/// Returns the state after [`RUNS`] chains.
fn chains(device: &Device, seed: u64, is_recorded: bool) -> Result<Vec<Vec<u64>>> {
    let state = State::new(device, seed)?;
    let before = state.bits()?;
    if is_recorded {
        let mut step = device.capture(|| state.run(seed))?;
        assert!(step.is_recorded());
        (1..RUNS).try_for_each(|_| step.replay().map(drop))?;
    } else {
        (0..RUNS).try_for_each(|_| state.run(seed))?;
    }
    let after = state.bits()?;
    let is_sound = |values: &Vec<u64>| values.iter().all(|&bits| f64::from_bits(bits).is_finite());
    assert!(after.iter().all(is_sound), "seed {seed}: a number that is none");
    assert!(after.iter().zip(&before).all(|(after, before)| after != before), "seed {seed}: nothing changed");
    Ok(after)
}

/// Calls `f` with whether steps are recorded: first with kernels that run one after another; then
/// in every other way, several times. All results must be bit-identical.
fn same_every_way<T: PartialEq>(
    backend: &CudaBackend,
    what: &str,
    times: usize,
    f: impl Fn(bool) -> Result<T>,
) -> Result<()> {
    assert!(!probe::overlap_launches(backend, false));
    let expected = f(false)?;
    for time in 0..times {
        for (overlaps, is_recorded) in [(true, false), (true, true), (false, true)] {
            assert_eq!(probe::overlap_launches(backend, overlaps), overlaps);
            let found = f(is_recorded)?;
            assert!(
                found == expected,
                "{what}, time {time}: other bits where kernels overlap: {overlaps}, recorded: {is_recorded}"
            );
        }
    }
    probe::overlap_launches(backend, true);
    Ok(())
}

#[test]
fn chains_of_small_ops_give_the_same_bits() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let Some(backend) = overlapping(&device) else { return Ok(()) };
    for seed in 0..12 {
        same_every_way(backend, &format!("seed {seed}"), 3, |is_recorded| {
            chains(&device, seed, is_recorded)
        })?;
    }
    Ok(())
}

/// Trains a small network with dropout, clipping and an optimizer: returns losses and parameters.
fn trained(device: &Device, adam: bool, is_recorded: bool) -> Result<(Vec<f32>, Vec<f32>)> {
    const STEPS: usize = 40;
    let training = RefCell::new(Training::new(device, adam)?);
    let mut losses = Vec::new();
    if is_recorded {
        let mut step = device.capture(|| {
            let loss = training.borrow_mut().step()?;
            // The closure runs twice: eagerly, and while it is recorded. Only the first loss is
            // read; the second one is overwritten by the replays.
            losses.push(loss.clone());
            Ok(loss)
        })?;
        let mut values = Vec::new();
        for _ in 1..STEPS {
            values.push(step.replay()?.item::<f32>()?);
        }
        drop(step);
        values.insert(0, losses[0].item::<f32>()?);
        let parameters = training.borrow().parameters()?;
        return Ok((values, parameters));
    }
    for _ in 0..STEPS {
        losses.push(training.borrow_mut().step()?);
    }
    let values = losses.iter().map(|loss| loss.item::<f32>()).collect::<Result<_>>()?;
    let parameters = training.borrow().parameters()?;
    Ok((values, parameters))
}

#[test]
fn steps_of_training_give_the_same_bits() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let Some(backend) = overlapping(&device) else { return Ok(()) };
    for adam in [true, false] {
        same_every_way(backend, &format!("adam: {adam}"), 5, |is_recorded| {
            let (losses, parameters) = trained(&device, adam, is_recorded)?;
            assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
            let to_bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            Ok((to_bits(losses), to_bits(parameters)))
        })?;
    }
    Ok(())
}

/// Products and attention, forward and backward, with tensor maps and clusters where shapes allow.
/// The shapes are so small that launches take most of the time.
fn block(inputs: &[Tensor]) -> Result<Tensor> {
    let [x, weight, bias] = inputs else { unreachable!("three inputs") };
    let [batch, positions, width] = x.shape().to_array("block")?;
    let heads = |x: &Tensor| x.reshape([batch, positions, width / 64, 64])?.transpose(1, 2);
    let projected = x.layer_norm(None, None, 1e-5)?.matmul(weight)?.add(bias)?;
    let q = heads(&projected)?;
    let attended = q.scaled_dot_product_attention(&q, &heads(x)?, AttentionOptions::default())?;
    attended.transpose(1, 2)?.reshape([batch, positions, width])?.add(x)?.gelu()
}

#[test]
fn attention_and_products_give_the_same_bits() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let Some(backend) = overlapping(&device) else { return Ok(()) };
    for (dtype, [batch, positions, width]) in
        [(DType::BF16, [2, 256, 256]), (DType::F16, [1, 77, 128]), (DType::F32, [2, 50, 64])]
    {
        let inputs = [
            tensor(&[batch, positions, width], dtype, &device, 1)?,
            tensor(&[width, width], dtype, &device, 2)?.mul_scalar(0.05)?,
            Tensor::from_vec(numbers(width, 3), [width], &device)?.to_dtype(dtype)?,
        ];
        same_every_way(backend, &format!("{dtype}, {positions} positions"), 10, |is_recorded| {
            let results = if is_recorded {
                let mut step = device.capture(|| gradients_of_block(&inputs))?;
                step.replay()?.iter().map(bits).collect::<Result<Vec<_>>>()
            } else {
                gradients_of_block(&inputs)?.iter().map(bits).collect()
            }?;
            assert!(results.iter().flatten().all(|&bits| f64::from_bits(bits).is_finite()));
            Ok(results)
        })?;
    }
    Ok(())
}

/// Returns the output of the block and the gradients of its sum of squares, which does not depend
/// on host data.
fn gradients_of_block(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let leaves = inputs.iter().map(Tensor::requires_grad).collect::<Result<Vec<_>>>()?;
    let y = block(&leaves)?;
    let gradients = y.square()?.mean(..)?.backward()?;
    let mut all = vec![y.detach()];
    all.extend(leaves.iter().filter_map(|leaf| gradients.get(leaf)).cloned());
    assert_eq!(all.len(), 4, "every input has a gradient");
    Ok(all)
}
