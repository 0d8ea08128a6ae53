//! Softmax, its logarithm, and their gradients: a row along the axis is read once, worked on in the cache, and written once.

use crate::access::Locked;
use crate::float::Float;
use crate::lanes;
use crate::rows::{Rows, Scratch, for_rows};
use crate::select::Variant;
use crate::simd::vectorized;
use crate::threads::Cost;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::{DType, Error, Op, Result};

/// All four ops, any axis, all floats.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let order = match op {
        Op::Softmax(_) | Op::LogSoftmax(_) => 0,
        _ => 1,
    };
    let run = match inputs[order].dtype {
        DType::F64 => run::<f64>,
        _ => run::<f32>,
    };
    Ok(Variant { plan: Plan::like(order), run })
}

fn run<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    match op {
        Op::Softmax(softmax) => forward::<T>(op, softmax.axis, inputs[0], outputs[0], softmax_row),
        Op::LogSoftmax(softmax) => forward::<T>(op, softmax.axis, inputs[0], outputs[0], log_softmax_row),
        Op::SoftmaxGrad(grad) => gradient::<T>(op, grad.axis, [inputs[0], inputs[1]], outputs[0], softmax_grad_row),
        Op::LogSoftmaxGrad(grad) => {
            gradient::<T>(op, grad.axis, [inputs[0], inputs[1]], outputs[0], log_softmax_grad_row)
        }
        _ => Err(Error::invalid(op.name(), "is not softmax")),
    }
}

/// Applies `kernel` to each row of x.
fn forward<T: Float>(
    op: &Op,
    axis: usize,
    x: Locked<'_>,
    y: Locked<'_>,
    kernel: impl Fn(&mut [T]) + Sync,
) -> Result<()> {
    let x = Rows::<T>::new(op.name(), &x, |other| other == axis)?;
    let y = Rows::<T>::new(op.name(), &y, |other| other == axis)?;
    for_rows(y.count(), y.width(), Cost::Heavy, |rows| {
        let mut scratch = Scratch::new();
        for row in rows {
            // SAFETY: the row is this thread's; x and y have one shape, and are apart or the same view.
            unsafe {
                let buffer = y.buffer(row, 0..y.width(), &mut scratch);
                x.copy(row, 0, buffer.values);
                kernel(buffer.values);
                y.write(row, 0, buffer);
            }
        }
    });
    Ok(())
}

/// Applies `kernel` to each row of y and dy, which it overwrites with dx.
fn gradient<T: Float>(
    op: &Op,
    axis: usize,
    [y, dy]: [Locked<'_>; 2],
    dx: Locked<'_>,
    kernel: impl Fn(&[T], &mut [T]) + Sync,
) -> Result<()> {
    let rows_of = |view: &Locked<'_>| Rows::<T>::new(op.name(), view, |other| other == axis);
    let (y, dy, dx) = (rows_of(&y)?, rows_of(&dy)?, rows_of(&dx)?);
    for_rows(dx.count(), dx.width(), Cost::Heavy, |rows| {
        let (mut scratch, mut scratch_y) = (Scratch::new(), Scratch::new());
        for row in rows {
            // SAFETY: the row is this thread's; all have one shape; dx is apart from y, and apart from dy or the same view.
            unsafe {
                let buffer = dx.buffer(row, 0..dx.width(), &mut scratch);
                dy.copy(row, 0, buffer.values);
                kernel(y.read(row, 0..y.width(), &mut scratch_y), buffer.values);
                dx.write(row, 0, buffer);
            }
        }
    });
    Ok(())
}

/// `exp(x - max x) / sum exp(x - max x)`.
fn softmax_row<T: Float>(row: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            let max = lanes::max(row);
            for x in row.iter_mut() {
                *x = (*x - max).exp();
            }
            let sum = lanes::sum(row, |e| e);
            for e in row.iter_mut() {
                *e /= sum;
            }
        },
    );
}

/// `(x - max x) - log sum exp(x - max x)`.
fn log_softmax_row<T: Float>(row: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            let max = lanes::max(row);
            let log_sum = lanes::sum(row, |x| (x - max).exp()).log();
            for x in row.iter_mut() {
                *x = (*x - max) - log_sum;
            }
        },
    );
}

/// `y * (dy - sum(y * dy))`, in the place of dy.
fn softmax_grad_row<T: Float>(y: &[T], row: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            let sum = lanes::dot(y, row);
            for (dy, &y) in row.iter_mut().zip(y) {
                *dy = y * (*dy - sum);
            }
        },
    );
}

/// `dy - exp(y) * sum(dy)`, in the place of dy.
fn log_softmax_grad_row<T: Float>(y: &[T], row: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            let sum = lanes::sum(row, |dy| dy);
            for (dy, &y) in row.iter_mut().zip(y) {
                *dy -= y.exp() * sum;
            }
        },
    );
}
