//! Batch normalization and its gradient: the elements of a channel are gathered into a contiguous
//! row, which is processed while it is in the cache.

use crate::access::Locked;
use crate::float::Float;
use crate::kernel::Variant;
use crate::lanes;
use crate::ops::norm::{mean_and_variance, row_gradient, shift_and_scale, store_vector};
use crate::rows::{Rows, Scratch, for_rows, vector};
use crate::simd::vectorized;
use crate::threads::Cost;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::norm::{BatchNorm, BatchNormGrad};
use ternion_core::{DType, Error, Op, Result};

/// Supports both ops and all floats.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let run = match (op, inputs[0].dtype) {
        (Op::BatchNorm(_), DType::F64) => forward::<f64>,
        (Op::BatchNorm(_), _) => forward::<f32>,
        (_, DType::F64) => gradient::<f64>,
        _ => gradient::<f32>,
    };
    Ok(Variant { plan: Plan::like(0), run })
}

/// Returns `[batch, channels, ..]` as one row for each channel.
fn channels<T: Float>(op: &'static str, view: &Locked<'_>) -> Result<Rows<T>> {
    Rows::new(op, view, |axis| axis != 1)
}

fn forward<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::BatchNorm(BatchNorm { eps, affine }) = op else {
        return Err(Error::invalid(op.name(), "is not batch_norm"));
    };
    let (x, y) = (channels::<T>(op.name(), &inputs[0])?, channels::<T>(op.name(), &outputs[0])?);
    let parameters = match affine {
        true => Some((vector::<T>(op.name(), &inputs[1])?, vector::<T>(op.name(), &inputs[2])?)),
        false => None,
    };
    let (means, variances) = (
        Rows::<T>::as_single_row(op.name(), &outputs[1])?,
        Rows::<T>::as_single_row(op.name(), &outputs[2])?,
    );
    for_rows(y.count(), y.width(), Cost::Light, |rows| {
        let mut scratch = Scratch::new();
        for channel in rows {
            // SAFETY: the channel is used only by this thread; y shares no memory with x.
            let buffer = unsafe { y.buffer(channel, 0..y.width(), &mut scratch) };
            // SAFETY: as above.
            unsafe { x.copy(channel, 0, buffer.values) };
            let (mean, variance) = mean_and_variance(buffer.values, true);
            let rstd = T::ONE / (variance + T::real(*eps)).sqrt();
            let parameters = parameters.as_ref().map(|(weight, bias)| (weight[channel], bias[channel]));
            scale_and_shift(buffer.values, (mean, rstd), parameters);
            store_vector(&means, channel..channel + 1, &[mean]);
            store_vector(&variances, channel..channel + 1, &[variance]);
            // SAFETY: as above.
            unsafe { y.write(channel, 0, buffer) };
        }
    });
    Ok(())
}

/// Computes `x = (x - mean) * rstd * weight + bias` in place.
fn scale_and_shift<T: Float>(x: &mut [T], statistics: (T, T), parameters: Option<(T, T)>) {
    shift_and_scale(x, statistics, None, None);
    let Some((weight, bias)) = parameters else { return };
    vectorized(
        #[inline(always)]
        || {
            for x in x.iter_mut() {
                *x = *x * weight + bias;
            }
        },
    );
}

fn gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::BatchNormGrad(BatchNormGrad { eps, affine }) = op else {
        return Err(Error::invalid(op.name(), "is not batch_norm_grad"));
    };
    let name = op.name();
    let (x, dy, dx) = (
        channels::<T>(name, &inputs[0])?,
        channels::<T>(name, &inputs[3])?,
        channels::<T>(name, &outputs[0])?,
    );
    let (means, variances) = (vector::<T>(name, &inputs[1])?, vector::<T>(name, &inputs[2])?);
    let weight = affine.then(|| vector::<T>(name, &inputs[4])).transpose()?;
    let sums = match affine {
        true => {
            Some((Rows::<T>::as_single_row(name, &outputs[1])?, Rows::<T>::as_single_row(name, &outputs[2])?))
        }
        false => None,
    };
    for_rows(dx.count(), dx.width(), Cost::Light, |rows| {
        let mut scratch = [Scratch::new(), Scratch::new(), Scratch::new()];
        let [scratch_x, scratch_dy, scratch_dx] = &mut scratch;
        for channel in rows {
            let (mean, rstd) = (means[channel], T::ONE / (variances[channel] + T::real(*eps)).sqrt());
            // SAFETY: the channel is used only by this thread; dx shares no memory with the inputs.
            unsafe {
                let (x, dy) =
                    (x.read(channel, 0..dx.width(), scratch_x), dy.read(channel, 0..dx.width(), scratch_dy));
                let buffer = dx.buffer(channel, 0..dx.width(), scratch_dx);
                // The weight is the same for the entire channel, so it is a common factor that is
                // applied after the row gradient.
                row_gradient(x, dy, (Some(mean), rstd), None, buffer.values);
                if let (Some(weight), Some((dweights, dbiases))) = (&weight, &sums) {
                    scale_and_shift(buffer.values, (T::ZERO, weight[channel]), None);
                    let [dbias, dweight] = parameter_gradients(x, dy, mean, rstd);
                    store_vector(dweights, channel..channel + 1, &[dweight]);
                    store_vector(dbiases, channel..channel + 1, &[dbias]);
                }
                dx.write(channel, 0, buffer);
            }
        }
    });
    Ok(())
}

/// Returns `[sum dy, sum dy * n]` of a channel, with `n = (x - mean) * rstd`.
fn parameter_gradients<T: Float>(x: &[T], dy: &[T], mean: T, rstd: T) -> [T; 2] {
    vectorized(
        #[inline(always)]
        || lanes::sums_of_pairs(x, dy, |x, dy| [dy, dy * ((x - mean) * rstd)]),
    )
}

#[cfg(test)]
mod tests;
