//! Softmax, its logarithm, and their gradients: rows along the axis are read once, processed in the
//! cache, and written once.

use crate::access::Locked;
use crate::float::Float;
use crate::kernel::Variant;
use crate::lanes;
use crate::rows::{PANEL, Panel, Rows, Scratch, for_rows};
use crate::simd::vectorized;
use crate::threads::{Cost, for_ranges};
use std::ops::Range;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::{DType, Error, Op, Result};

/// Supports all four ops, any axis, all floats.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let layout_input = match op {
        Op::Softmax(_) | Op::LogSoftmax(_) => 0,
        _ => 1,
    };
    let run = match inputs[layout_input].dtype {
        DType::F64 => run::<f64>,
        _ => run::<f32>,
    };
    Ok(Variant { plan: Plan::like(layout_input), run })
}

fn run<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    match op {
        Op::Softmax(softmax) => forward::<T, Softmax>(op, softmax.axis, inputs, outputs),
        Op::LogSoftmax(softmax) => forward::<T, LogSoftmax>(op, softmax.axis, inputs, outputs),
        Op::SoftmaxGrad(grad) => gradient::<T, Softmax>(op, grad.axis, inputs, outputs),
        Op::LogSoftmaxGrad(grad) => gradient::<T, LogSoftmax>(op, grad.axis, inputs, outputs),
        _ => Err(Error::invalid(op.name(), "is not softmax")),
    }
}

/// Softmax or log-softmax: a forward and a gradient kernel for one row, and for a [`Panel`] of
/// adjacent rows.
trait SoftmaxKernels {
    fn row<T: Float>(x: &mut [T]);
    fn panel<T: Float>(x: &mut Panel<T>);
    fn grad_row<T: Float>(y: &[T], dy: &mut [T]);
    fn grad_panel<T: Float>(y: &Panel<T>, dy: &mut Panel<T>);
}

/// Calls the forward kernel for each row of x.
fn forward<T: Float, F: SoftmaxKernels>(
    op: &Op,
    axis: usize,
    inputs: &[Locked<'_>],
    outputs: &[Locked<'_>],
) -> Result<()> {
    let x = Rows::<T>::new(op.name(), &inputs[0], |other| other == axis)?;
    let y = Rows::<T>::new(op.name(), &outputs[0], |other| other == axis)?;
    if y.prefers_panels() {
        for_panels(&y, |rows| {
            let mut panel = vec![[T::ZERO; PANEL]; y.width()];
            // SAFETY: the rows are used only by this thread; x and y have the same shape, and are
            // the same view or do not overlap.
            unsafe { x.copy_panel(rows.clone(), &mut panel) };
            F::panel(&mut panel);
            // SAFETY: as above.
            unsafe { y.write_panel(rows, &panel) };
        });
        return Ok(());
    }
    for_rows(y.count(), y.width(), Cost::Heavy, |rows| {
        let mut scratch = Scratch::new();
        for row in rows {
            // SAFETY: as above.
            let buffer = unsafe { y.buffer(row, 0..y.width(), &mut scratch) };
            // SAFETY: as above.
            unsafe { x.copy(row, 0, buffer.values) };
            F::row(buffer.values);
            // SAFETY: as above.
            unsafe { y.write(row, 0, buffer) };
        }
    });
    Ok(())
}

/// Calls the gradient kernel for each row of y and dy.
fn gradient<T: Float, F: SoftmaxKernels>(
    op: &Op,
    axis: usize,
    inputs: &[Locked<'_>],
    outputs: &[Locked<'_>],
) -> Result<()> {
    let rows_of = |view: &Locked<'_>| Rows::<T>::new(op.name(), view, |other| other == axis);
    let (y, dy, dx) = (rows_of(&inputs[0])?, rows_of(&inputs[1])?, rows_of(&outputs[0])?);
    if dx.prefers_panels() {
        for_panels(&dx, |rows| {
            let mut panels = [0, 1].map(|_| vec![[T::ZERO; PANEL]; dx.width()]);
            let [saved, panel] = &mut panels;
            // SAFETY: the rows are used only by this thread; all have the same shape; dx does not
            // overlap y, and is the same view as dy or does not overlap it.
            unsafe { y.copy_panel(rows.clone(), saved) };
            // SAFETY: as above.
            unsafe { dy.copy_panel(rows.clone(), panel) };
            F::grad_panel(saved, panel);
            // SAFETY: as above.
            unsafe { dx.write_panel(rows, panel) };
        });
        return Ok(());
    }
    for_rows(dx.count(), dx.width(), Cost::Heavy, |rows| {
        let (mut scratch, mut scratch_y) = (Scratch::new(), Scratch::new());
        for row in rows {
            // SAFETY: as above.
            let buffer = unsafe { dx.buffer(row, 0..dx.width(), &mut scratch) };
            // SAFETY: as above.
            unsafe { dy.copy(row, 0, buffer.values) };
            // SAFETY: as above.
            F::grad_row(unsafe { y.read(row, 0..y.width(), &mut scratch_y) }, buffer.values);
            // SAFETY: as above.
            unsafe { dx.write(row, 0, buffer) };
        }
    });
    Ok(())
}

/// Runs `work` on all rows, one panel of them at a time.
fn for_panels<T: Float>(rows: &Rows<T>, work: impl Fn(Range<usize>) + Sync) {
    for_ranges(rows.count(), PANEL, work);
}

/// `y = exp(x - max x) / sum exp(x - max x)`, `dx = y * (dy - sum(y * dy))`.
struct Softmax;

impl SoftmaxKernels for Softmax {
    fn row<T: Float>(row: &mut [T]) {
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

    fn panel<T: Float>(panel: &mut Panel<T>) {
        vectorized(
            #[inline(always)]
            || {
                let max = panel_max(panel);
                for_lanes(panel, |lane, x| *x = (*x - max[lane]).exp());
                let sum = panel_sum(panel, |_, _, e| e);
                for_lanes(panel, |lane, e| *e /= sum[lane]);
            },
        );
    }

    fn grad_row<T: Float>(y: &[T], row: &mut [T]) {
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

    fn grad_panel<T: Float>(y: &Panel<T>, panel: &mut Panel<T>) {
        vectorized(
            #[inline(always)]
            || {
                let sum = panel_sum(panel, |index, lane, dy| y[index][lane] * dy);
                for (dy, y) in panel.iter_mut().zip(y) {
                    for lane in 0..PANEL {
                        dy[lane] = y[lane] * (dy[lane] - sum[lane]);
                    }
                }
            },
        );
    }
}

/// `y = (x - max x) - log sum exp(x - max x)`, `dx = dy - exp(y) * sum(dy)`.
struct LogSoftmax;

impl SoftmaxKernels for LogSoftmax {
    fn row<T: Float>(row: &mut [T]) {
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

    fn panel<T: Float>(panel: &mut Panel<T>) {
        vectorized(
            #[inline(always)]
            || {
                let max = panel_max(panel);
                let log_sum = panel_sum(panel, |_, lane, x| (x - max[lane]).exp()).map(T::log);
                for_lanes(panel, |lane, x| *x = (*x - max[lane]) - log_sum[lane]);
            },
        );
    }

    fn grad_row<T: Float>(y: &[T], row: &mut [T]) {
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

    fn grad_panel<T: Float>(y: &Panel<T>, panel: &mut Panel<T>) {
        vectorized(
            #[inline(always)]
            || {
                let sum = panel_sum(panel, |_, _, dy| dy);
                for (dy, y) in panel.iter_mut().zip(y) {
                    for lane in 0..PANEL {
                        dy[lane] -= y[lane].exp() * sum[lane];
                    }
                }
            },
        );
    }
}

/// Calls `change` for every element, with its lane.
#[inline(always)]
fn for_lanes<T: Float>(panel: &mut Panel<T>, change: impl Fn(usize, &mut T)) {
    for elements in panel {
        for (lane, element) in elements.iter_mut().enumerate() {
            change(lane, element);
        }
    }
}

/// Returns the largest element of each lane; NaN is ignored.
#[inline(always)]
fn panel_max<T: Float>(panel: &Panel<T>) -> [T; PANEL] {
    let mut max = [T::NEG_INFINITY; PANEL];
    for elements in panel {
        for lane in 0..PANEL {
            max[lane] = if elements[lane] > max[lane] { elements[lane] } else { max[lane] };
        }
    }
    max
}

/// Returns for each lane the sum of `term(index, lane, element)`, accumulated in blocks.
#[inline(always)]
fn panel_sum<T: Float>(panel: &Panel<T>, term: impl Fn(usize, usize, T) -> T) -> [T; PANEL] {
    const BLOCK: usize = 64;
    let mut total = [T::ZERO; PANEL];
    for (block, chunk) in panel.chunks(BLOCK).enumerate() {
        let mut sum = [T::ZERO; PANEL];
        for (index, elements) in chunk.iter().enumerate() {
            for lane in 0..PANEL {
                sum[lane] += term(block * BLOCK + index, lane, elements[lane]);
            }
        }
        for lane in 0..PANEL {
            total[lane] += sum[lane];
        }
    }
    total
}

#[cfg(test)]
mod tests;
