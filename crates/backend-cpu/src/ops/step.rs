//! Optimizer steps: one pass over parameter, gradient and state.

use crate::access::Locked;
use crate::float::Float;
use crate::kernel::Variant;
use crate::rows::{Rows, Scratch, vector};
use crate::simd::vectorized;
use crate::threads::{Cost, for_ranges};
use std::ops::Range;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::{DType, Error, Op, Result};

/// The number of elements that are processed at a time: their parameter, gradient and state fit the
/// L1 cache.
const BLOCK: usize = 2048;

/// Supports both steps and all floats.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let run = match (op, inputs[0].dtype) {
        (Op::SgdStep(_), DType::F64) => for_each_parameter::<Sgd, f64>,
        (Op::SgdStep(_), _) => for_each_parameter::<Sgd, f32>,
        (_, DType::F64) => for_each_parameter::<Adam, f64>,
        _ => for_each_parameter::<Adam, f32>,
    };
    Ok(Variant { plan: Plan::ROW_MAJOR, run })
}

/// An update rule: the number of tensors of a parameter, and the step of one parameter.
trait Step {
    /// Returns the number of inputs of a parameter: the parameter, its gradient, the
    /// hyperparameters, and the other tensors that are changed.
    fn width(op: &Op) -> usize;
    fn update<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()>;
}

struct Sgd;
struct Adam;

impl Step for Sgd {
    fn width(op: &Op) -> usize {
        if let Op::SgdStep(step) = op { step.width() } else { 3 }
    }
    fn update<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
        sgd::<T>(op, inputs, outputs)
    }
}

impl Step for Adam {
    fn width(op: &Op) -> usize {
        if let Op::AdamStep(step) = op { step.width() } else { 3 + AdamStep::STATES }
    }
    fn update<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
        adam::<T>(op, inputs, outputs)
    }
}

/// Updates the parameters one after another: each with its gradient, hyperparameters, states and
/// half-precision copy.
fn for_each_parameter<S: Step, T: Float>(
    op: &Op,
    inputs: &[Locked<'_>],
    outputs: &[Locked<'_>],
) -> Result<()> {
    let width = S::width(op);
    let mut parameters = inputs.chunks(width).zip(outputs.chunks(width - 2));
    parameters.try_for_each(|(inputs, outputs)| S::update::<T>(op, inputs, outputs))
}

/// Calls `step(gradient, [parameter, states ..])` for blocks of all elements; all tensors except
/// the gradient are changed in place. Further outputs receive copies of the parameter.
fn for_blocks<T: Float, const N: usize>(
    op: &Op,
    gradient: &Locked<'_>,
    outputs: &[Locked<'_>],
    step: impl Fn(&[T], [&mut [T]; N]) + Sync,
) -> Result<()> {
    let gradient = Rows::<T>::as_single_row(op.name(), gradient)?;
    let rows =
        outputs.iter().map(|view| Rows::<T>::as_single_row(op.name(), view)).collect::<Result<Vec<_>>>()?;
    let Some((updated, copies)) = rows.split_first_chunk::<N>() else {
        return Err(Error::invalid(op.name(), format!("expected {N} outputs")));
    };
    for_ranges(gradient.width(), Cost::Light.piece(), |range| {
        let (mut scratch, mut scratch_updated) = (Scratch::new(), [(); N].map(|()| Scratch::new()));
        for start in range.clone().step_by(BLOCK) {
            let block = start..range.end.min(start + BLOCK);
            // SAFETY: the elements are used only by this thread; core has checked that no two of
            // the tensors share any.
            unsafe {
                update_block(&gradient, (updated, copies), block, (&mut scratch, &mut scratch_updated), &step)
            };
        }
    });
    Ok(())
}

/// Reads a block of each tensor, calls `step`, writes the changed ones back, and writes the
/// parameter to its copies.
///
/// # Safety
/// No other thread uses the elements of the block; the tensors share no elements.
unsafe fn update_block<T: Float, const N: usize>(
    gradient: &Rows<T>,
    (updated, copies): (&[Rows<T>; N], &[Rows<T>]),
    block: Range<usize>,
    (scratch, scratch_updated): (&mut Scratch<T>, &mut [Scratch<T>; N]),
    step: &impl Fn(&[T], [&mut [T]; N]),
) {
    // SAFETY: guaranteed by the caller.
    let gradient = unsafe { gradient.read(0, block.clone(), scratch) };
    let mut scratches = scratch_updated.iter_mut();
    let mut buffers = updated.each_ref().map(|rows| {
        let scratch = scratches.next().expect("one for each tensor");
        // SAFETY: guaranteed by the caller.
        let buffer = unsafe { rows.buffer(0, block.clone(), scratch) };
        // SAFETY: as above; the buffer is the elements themselves or other memory.
        unsafe { rows.copy(0, block.start, buffer.values) };
        buffer
    });
    step(gradient, buffers.each_mut().map(|buffer| &mut *buffer.values));
    for copy in copies {
        // SAFETY: guaranteed by the caller; the values are those of the parameter or scratch
        // memory.
        unsafe { copy.store(0, block.start, buffers[0].values) };
    }
    for (rows, buffer) in updated.iter().zip(buffers) {
        // SAFETY: guaranteed by the caller.
        unsafe { rows.write(0, block.start, buffer) };
    }
}

/// The coefficients of an SGD step.
struct SgdParams<T> {
    rate: T,
    clip: T,
    decay: T,
    momentum: T,
    /// The factor of the gradient in the update of the velocity.
    grad_factor: T,
    first: bool,
    nesterov: bool,
}

fn sgd<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::SgdStep(step) = op else {
        return Err(Error::invalid(op.name(), "is not sgd_step"));
    };
    let SgdStep { momentum, dampening, weight_decay, nesterov, half_copy: _ } = step;
    let hyper = vector::<T>(op.name(), &inputs[2])?;
    let params = SgdParams {
        rate: hyper[0],
        clip: hyper[1],
        decay: T::real(*weight_decay),
        momentum: T::real(*momentum),
        grad_factor: T::real(1.0 - dampening),
        first: hyper[2] != T::ZERO,
        nesterov: *nesterov,
    };
    match step.states() {
        0 => for_blocks(op, &inputs[1], outputs, |gradient, [parameter]| {
            sgd_block(gradient, parameter, &params)
        }),
        _ => for_blocks(op, &inputs[1], outputs, |gradient, [parameter, velocity]| {
            sgd_momentum_block(gradient, parameter, velocity, &params);
        }),
    }
}

/// Computes `grad * clip + decay * p`.
#[inline(always)]
fn with_weight_decay<T: Float>(gradient: T, parameter: T, clip: T, decay: T) -> T {
    let clipped = gradient * clip;
    // Without decay, an infinite parameter must not produce a NaN.
    if decay == T::ZERO { clipped } else { clipped + decay * parameter }
}

fn sgd_block<T: Float>(gradient: &[T], parameter: &mut [T], step: &SgdParams<T>) {
    vectorized(
        #[inline(always)]
        || {
            for (p, &gradient) in parameter.iter_mut().zip(gradient) {
                *p -= step.rate * with_weight_decay(gradient, *p, step.clip, step.decay);
            }
        },
    );
}

fn sgd_momentum_block<T: Float>(
    gradient: &[T],
    parameter: &mut [T],
    velocity: &mut [T],
    step: &SgdParams<T>,
) {
    let SgdParams { rate, clip, decay, momentum, grad_factor, first, nesterov } = *step;
    vectorized(
        #[inline(always)]
        || {
            for ((p, v), &gradient) in parameter.iter_mut().zip(velocity).zip(gradient) {
                let g = with_weight_decay(gradient, *p, clip, decay);
                // The value of the velocity before the first step is ignored, even if it is NaN.
                let new = if first { g } else { momentum * *v + grad_factor * g };
                *v = new;
                *p -= rate * if nesterov { g + momentum * new } else { new };
            }
        },
    );
}

/// The coefficients of an Adam step.
struct AdamParams<T> {
    clip: T,
    /// Coupled weight decay: the factor with which the parameter is added to the gradient.
    coupled: T,
    /// Decoupled weight decay: the factor by which the parameter is multiplied.
    param_factor: T,
    beta1: T,
    beta2: T,
    grad_factor1: T,
    grad_factor2: T,
    /// Learning rate over `1 - beta1^t`.
    rate: T,
    /// `sqrt(1 - beta2^t)`.
    correction2: T,
    eps: T,
}

fn adam<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::AdamStep(AdamStep { beta1, beta2, eps, weight_decay, decay_mode, half_copy: _ }) = op else {
        return Err(Error::invalid(op.name(), "is not adam_step"));
    };
    let hyper = vector::<T>(op.name(), &inputs[2])?;
    let decay = T::real(*weight_decay);
    let (coupled, param_factor) = match decay_mode {
        DecayMode::Coupled => (decay, T::ONE),
        DecayMode::Decoupled => (T::ZERO, T::ONE - hyper[0] * decay),
    };
    let params = AdamParams {
        clip: hyper[1],
        coupled,
        param_factor,
        beta1: T::real(*beta1),
        beta2: T::real(*beta2),
        grad_factor1: T::real(1.0 - beta1),
        grad_factor2: T::real(1.0 - beta2),
        rate: hyper[0] / hyper[2],
        correction2: hyper[3],
        eps: T::real(*eps),
    };
    for_blocks(op, &inputs[1], outputs, |gradient, [parameter, first, second]| {
        adam_block(gradient, parameter, first, second, &params);
    })
}

fn adam_block<T: Float>(
    gradient: &[T],
    parameter: &mut [T],
    first: &mut [T],
    second: &mut [T],
    step: &AdamParams<T>,
) {
    vectorized(
        #[inline(always)]
        || {
            for (((p, m), v), &gradient) in parameter.iter_mut().zip(first).zip(second).zip(gradient) {
                let g = with_weight_decay(gradient, *p, step.clip, step.coupled);
                *m = step.beta1 * *m + step.grad_factor1 * g;
                *v = step.beta2 * *v + step.grad_factor2 * (g * g);
                let denominator = v.sqrt() / step.correction2 + step.eps;
                *p = *p * step.param_factor - step.rate * (*m / denominator);
            }
        },
    );
}

#[cfg(test)]
mod tests;
