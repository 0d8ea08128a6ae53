//! Layer and RMS normalization and their gradients: each row is read into the cache once. RMS
//! normalization is computed as layer normalization with mean 0.

use crate::access::Locked;
use crate::column_sums::column_sums;
use crate::float::Float;
use crate::kernel::Variant;
use crate::lanes;
use crate::rows::{Rows, Scratch, for_rows, vector};
use crate::simd::vectorized;
use crate::threads::Cost;
use std::ops::Range;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::{DType, Error, Op, Result};

/// Supports both normalizations and their gradients, and all floats.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let is_fused_gradient = match op {
        Op::LayerNormGrad(grad) => grad.residual || grad.rounds,
        Op::RmsNormGrad(grad) => grad.residual || grad.rounds,
        _ => false,
    };
    if is_fused_gradient {
        return Err(Unsupported::because(
            "the residual's gradient is added, and the sum rounded, on its own",
        ));
    }
    let run = match (op, inputs[0].dtype) {
        (Op::LayerNorm(_) | Op::RmsNorm(_), DType::F64) => forward::<f64>,
        (Op::LayerNorm(_) | Op::RmsNorm(_), _) => forward::<f32>,
        (_, DType::F64) => gradient::<f64>,
        _ => gradient::<f32>,
    };
    Ok(Variant { plan: Plan::ROW_MAJOR, run })
}

/// The parameters of a forward op: whether the mean is subtracted, eps, weight, bias, and the
/// outputs for the statistics.
struct Forward<'a> {
    centered: bool,
    eps: f64,
    weight: Option<&'a Locked<'a>>,
    bias: Option<&'a Locked<'a>>,
    mean: Option<&'a Locked<'a>>,
    rstd: &'a Locked<'a>,
}

fn forward<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let norm = match op {
        Op::LayerNorm(norm) => Forward {
            centered: true,
            eps: norm.eps,
            weight: norm.weight.then(|| &inputs[1]),
            bias: norm.bias.then(|| &inputs[1 + usize::from(norm.weight)]),
            mean: Some(&outputs[1]),
            rstd: &outputs[2],
        },
        Op::RmsNorm(norm) => Forward {
            centered: false,
            eps: norm.eps,
            weight: norm.weight.then(|| &inputs[1]),
            bias: None,
            mean: None,
            rstd: &outputs[1],
        },
        _ => return Err(Error::invalid(op.name(), "is not a normalization of rows")),
    };
    normalize::<T>(op.name(), &norm, &inputs[0], &outputs[0])
}

fn normalize<T: Float>(op: &'static str, norm: &Forward<'_>, x: &Locked<'_>, y: &Locked<'_>) -> Result<()> {
    let (x, y) = (Rows::<T>::along_last_axis(op, x)?, Rows::<T>::along_last_axis(op, y)?);
    let weight = norm.weight.map(|view| vector::<T>(op, view)).transpose()?;
    let bias = norm.bias.map(|view| vector::<T>(op, view)).transpose()?;
    let rstds = Rows::<T>::as_single_row(op, norm.rstd)?;
    let means = norm.mean.map(|view| Rows::<T>::as_single_row(op, view)).transpose()?;
    for_rows(y.count(), y.width(), Cost::Light, |rows| {
        let mut scratch = Scratch::new();
        let mut statistics = [vec![T::ZERO; rows.len()], vec![T::ZERO; rows.len()]];
        for (index, row) in rows.clone().enumerate() {
            // SAFETY: the row is used only by this thread; y shares no memory with x.
            let buffer = unsafe { y.buffer(row, 0..y.width(), &mut scratch) };
            // SAFETY: as above.
            unsafe { x.copy(row, 0, buffer.values) };
            let (mean, rstd) = statistics_of(buffer.values, norm.centered, T::real(norm.eps));
            shift_and_scale(buffer.values, (mean, rstd), weight.as_deref(), bias.as_deref());
            (statistics[0][index], statistics[1][index]) = (mean, rstd);
            // SAFETY: as above.
            unsafe { y.write(row, 0, buffer) };
        }
        if let Some(means) = &means {
            store_vector(means, rows.clone(), &statistics[0]);
        }
        store_vector(&rstds, rows, &statistics[1]);
    });
    Ok(())
}

/// Writes `values` to the elements of `range`, which only this thread uses.
pub(super) fn store_vector<T: Float>(vector: &Rows<T>, range: Range<usize>, values: &[T]) {
    let (start, mut scratch) = (range.start, Scratch::new());
    // SAFETY: the elements exist, and no element belongs to two pieces of work.
    unsafe {
        let buffer = vector.buffer(0, range, &mut scratch);
        buffer.values.copy_from_slice(values);
        vector.write(0, start, buffer);
    }
}

/// Returns the mean (0 if not centered) and `1 / sqrt(mean (x - mean)^2 + eps)`, in two passes.
fn statistics_of<T: Float>(x: &[T], centered: bool, eps: T) -> (T, T) {
    let (mean, variance) = mean_and_variance(x, centered);
    (mean, T::ONE / (variance + eps).sqrt())
}

/// Returns the mean (0 if not centered) and `mean (x - mean)^2`, in two passes.
pub(super) fn mean_and_variance<T: Float>(x: &[T], centered: bool) -> (T, T) {
    let width = T::real(x.len() as f64);
    vectorized(
        #[inline(always)]
        || {
            let mean = if centered { lanes::sum(x, |x| x) / width } else { T::ZERO };
            (mean, lanes::sum(x, |x| (x - mean) * (x - mean)) / width)
        },
    )
}

/// Computes `x = (x - mean) * rstd * weight + bias` in place.
pub(super) fn shift_and_scale<T: Float>(
    x: &mut [T],
    (mean, rstd): (T, T),
    weight: Option<&[T]>,
    bias: Option<&[T]>,
) {
    vectorized(
        #[inline(always)]
        || match (weight, bias) {
            (None, None) => {
                for x in x.iter_mut() {
                    *x = (*x - mean) * rstd;
                }
            }
            (Some(weight), None) => {
                for (x, &weight) in x.iter_mut().zip(weight) {
                    *x = (*x - mean) * rstd * weight;
                }
            }
            (None, Some(bias)) => {
                for (x, &bias) in x.iter_mut().zip(bias) {
                    *x = (*x - mean) * rstd + bias;
                }
            }
            (Some(weight), Some(bias)) => {
                for ((x, &weight), &bias) in x.iter_mut().zip(weight).zip(bias) {
                    *x = (*x - mean) * rstd * weight + bias;
                }
            }
        },
    );
}

/// The tensors of a gradient op.
struct Gradient<'a> {
    x: &'a Locked<'a>,
    mean: Option<&'a Locked<'a>>,
    rstd: &'a Locked<'a>,
    dy: &'a Locked<'a>,
    weight: Option<&'a Locked<'a>>,
    dx: &'a Locked<'a>,
    dweight: Option<&'a Locked<'a>>,
    dbias: Option<&'a Locked<'a>>,
}

fn gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let gradient = match op {
        Op::LayerNormGrad(grad) => Gradient {
            x: &inputs[0],
            mean: Some(&inputs[1]),
            rstd: &inputs[2],
            dy: &inputs[3],
            weight: grad.weight.then(|| &inputs[4]),
            dx: &outputs[0],
            dweight: grad.weight.then(|| &outputs[1]),
            dbias: grad.bias.then(|| &outputs[1 + usize::from(grad.weight)]),
        },
        Op::RmsNormGrad(grad) => Gradient {
            x: &inputs[0],
            mean: None,
            rstd: &inputs[1],
            dy: &inputs[2],
            weight: grad.weight.then(|| &inputs[3]),
            dx: &outputs[0],
            dweight: grad.weight.then(|| &outputs[1]),
            dbias: None,
        },
        _ => return Err(Error::invalid(op.name(), "is not a gradient of a normalization of rows")),
    };
    differentiate::<T>(op.name(), &gradient)
}

fn differentiate<T: Float>(op: &'static str, grad: &Gradient<'_>) -> Result<()> {
    let (x, dy, dx) = (
        Rows::<T>::along_last_axis(op, grad.x)?,
        Rows::<T>::along_last_axis(op, grad.dy)?,
        Rows::<T>::along_last_axis(op, grad.dx)?,
    );
    let mean = grad.mean.map(|view| vector::<T>(op, view)).transpose()?;
    let rstd = vector::<T>(op, grad.rstd)?;
    let weight = grad.weight.map(|view| vector::<T>(op, view)).transpose()?;
    let width = dx.width();
    let dweight_len = if grad.dweight.is_some() { width } else { 0 };
    let dbias_len = if grad.dbias.is_some() { width } else { 0 };
    let sums = column_sums(dx.count(), width, dweight_len + dbias_len, |rows, sums: &mut [T]| {
        let mut scratch = [Scratch::new(), Scratch::new(), Scratch::new()];
        let [scratch_x, scratch_dy, scratch_dx] = &mut scratch;
        let (dweight, dbias) = sums.split_at_mut(dweight_len);
        for row in rows {
            let statistics = (mean.as_ref().map(|mean| mean[row]), rstd[row]);
            // SAFETY: the row is used only by this thread; dx shares no memory with the inputs.
            unsafe {
                let (x, dy) = (x.read(row, 0..width, scratch_x), dy.read(row, 0..width, scratch_dy));
                let buffer = dx.buffer(row, 0..width, scratch_dx);
                add_parameter_gradients(x, dy, statistics, dweight, dbias);
                row_gradient(x, dy, statistics, weight.as_deref(), buffer.values);
                dx.write(row, 0, buffer);
            }
        }
    });
    let (dweight, dbias) = sums.split_at(dweight_len);
    for (view, values) in [(grad.dweight, dweight), (grad.dbias, dbias)] {
        if let Some(view) = view {
            store_vector(&Rows::as_single_row(op, view)?, 0..width, values);
        }
    }
    Ok(())
}

/// Adds `dy * n` to `dweight` and `dy` to `dbias`, each if it is not empty, with `n = (x - mean) *
/// rstd`.
fn add_parameter_gradients<T: Float>(
    x: &[T],
    dy: &[T],
    (mean, rstd): (Option<T>, T),
    dweight: &mut [T],
    dbias: &mut [T],
) {
    let mean = mean.unwrap_or(T::ZERO);
    vectorized(
        #[inline(always)]
        || {
            if dbias.len() == dweight.len() {
                // In one pass, because the rows are read from memory outside the L1 cache.
                for (((weight, bias), &dy), &x) in dweight.iter_mut().zip(dbias).zip(dy).zip(x) {
                    *weight += dy * ((x - mean) * rstd);
                    *bias += dy;
                }
                return;
            }
            for ((sum, &dy), &x) in dweight.iter_mut().zip(dy).zip(x) {
                *sum += dy * ((x - mean) * rstd);
            }
            for (sum, &dy) in dbias.iter_mut().zip(dy) {
                *sum += dy;
            }
        },
    );
}

/// Computes `dx = rstd * (g - mean(g) - n * mean(g * n))` with `n = (x - mean) * rstd`,
/// `g = dy * weight`. Without a mean of x, `mean(g)` is omitted.
pub(super) fn row_gradient<T: Float>(
    x: &[T],
    dy: &[T],
    (mean, rstd): (Option<T>, T),
    weight: Option<&[T]>,
    dx: &mut [T],
) {
    let (centered, mean) = (mean.is_some(), mean.unwrap_or(T::ZERO));
    let width = T::real(x.len() as f64);
    vectorized(
        #[inline(always)]
        || {
            match weight {
                Some(weight) => {
                    for ((g, &dy), &weight) in dx.iter_mut().zip(dy).zip(weight) {
                        *g = dy * weight;
                    }
                }
                None => dx.copy_from_slice(dy),
            }
            let [sum_g, sum_g_n] = lanes::sums_of_pairs(x, dx, |x, g| [g, g * ((x - mean) * rstd)]);
            let mean_g = if centered { sum_g / width } else { T::ZERO };
            let mean_g_n = sum_g_n / width;
            for (g, &x) in dx.iter_mut().zip(x) {
                *g = rstd * ((*g - mean_g) - ((x - mean) * rstd) * mean_g_n);
            }
        },
    );
}

#[cfg(test)]
mod tests;
