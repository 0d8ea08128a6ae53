//! Pooling over windows of images, plane by plane.

use crate::access::Locked;
use crate::float::Float;
use crate::kernel::Variant;
use crate::rows::{Rows, Scratch, for_rows};
use crate::storage::Compute;
use crate::threads::Cost;
use std::sync::{Mutex, PoisonError};
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::geometry::{SlidingWindow, sliding_windows};
use ternion_core::{DType, Error, Op, Result};

/// Supports all four ops and all floats.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let dtype = match op {
        Op::MaxPool2dGrad(_) => inputs[1].dtype,
        _ => inputs[0].dtype,
    };
    Ok(Variant { plan: Plan::ROW_MAJOR, run: if dtype == DType::F64 { run::<f64> } else { run::<f32> } })
}

fn run<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let image = |view: &Locked<'_>| -> Result<[usize; 2]> {
        let [_, _, height, width] = view.layout.shape().to_array(op.name())?;
        Ok([height, width])
    };
    let unpooled = match op {
        Op::MaxPool2d(_) | Op::AvgPool2d(_) => image(&inputs[0])?,
        _ => image(&outputs[0])?,
    };
    let pooled = match op {
        Op::MaxPool2d(_) | Op::AvgPool2d(_) => image(&outputs[0])?,
        _ => image(&inputs[0])?,
    };
    match op {
        Op::MaxPool2d(pool) => max::<T>(op, sliding_windows(&pool.window, unpooled, pooled), inputs, outputs),
        Op::MaxPool2dGrad(_) => max_gradient::<T>(op, inputs, outputs),
        Op::AvgPool2d(pool) => {
            let windows = sliding_windows(&pool.window, unpooled, pooled);
            average::<T>(op, windows, inputs, outputs, |x, y| {
                mean_of_windows(x, y, windows, pool.count_include_pad)
            })
        }
        Op::AvgPool2dGrad(pool) => {
            let windows = sliding_windows(&pool.window, unpooled, pooled);
            average::<T>(op, windows, inputs, outputs, |dy, dx| {
                gradient_of_means(dy, dx, windows, pool.count_include_pad)
            })
        }
        _ => Err(Error::invalid(op.name(), "is not pooling")),
    }
}

/// Returns `[batch, channels, height, width]` as one row for each plane.
fn planes<C: Compute>(op: &Op, view: &Locked<'_>) -> Result<Rows<C>> {
    Rows::new(op.name(), view, |axis| axis >= 2)
}

/// Stores the error of the first plane that has one, whichever thread detects an error first.
#[derive(Default)]
struct FirstError(Mutex<Option<(usize, Error)>>);

impl FirstError {
    fn record(&self, plane: usize, result: Result<()>) {
        let Err(error) = result else { return };
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(other, _)| plane < *other) {
            *first = Some((plane, error));
        }
    }

    fn result(self) -> Result<()> {
        let first = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), |(_, error)| Err(error))
    }
}

fn max<T: Float>(
    op: &Op,
    windows: [SlidingWindow; 2],
    inputs: &[Locked<'_>],
    outputs: &[Locked<'_>],
) -> Result<()> {
    let (x, y) = (planes::<T>(op, &inputs[0])?, planes::<T>(op, &outputs[0])?);
    let positions = planes::<i32>(op, &outputs[1])?;
    let first_error = FirstError::default();
    for_rows(y.count(), x.width(), Cost::Heavy, |rows| {
        let (mut scratch_x, mut scratch_y, mut scratch_positions) =
            (Scratch::new(), Scratch::new(), Scratch::new());
        for plane in rows {
            // SAFETY: the plane is used only by this thread; the outputs share no memory with x or
            // each other.
            unsafe {
                let image = x.read(plane, 0..x.width(), &mut scratch_x);
                let largest = y.buffer(plane, 0..y.width(), &mut scratch_y);
                let winners = positions.buffer(plane, 0..y.width(), &mut scratch_positions);
                first_error.record(plane, largest_of_windows(image, largest.values, winners.values, windows));
                y.write(plane, 0, largest);
                positions.write(plane, 0, winners);
            }
        }
    });
    first_error.result()
}

/// Computes the largest element of each window and its position. Of equal elements, the first one
/// is taken; NaN is larger than any number.
fn largest_of_windows<T: Float>(
    image: &[T],
    y: &mut [T],
    positions: &mut [i32],
    [vertical, horizontal]: [SlidingWindow; 2],
) -> Result<()> {
    for (index, (y, position)) in y.iter_mut().zip(positions).enumerate() {
        let (row, column) = (index / horizontal.count, index % horizontal.count);
        let mut winner: Option<(T, usize)> = None;
        for image_row in vertical.taps(row).filter_map(|tap| vertical.index(row, tap)) {
            for at in horizontal.taps(column).filter_map(|tap| horizontal.index(column, tap)) {
                let (value, at) = (image[image_row * horizontal.size + at], image_row * horizontal.size + at);
                let wins = winner.is_none_or(|(best, _)| value > best || (value.is_nan() && !best.is_nan()));
                winner = if wins { Some((value, at)) } else { winner };
            }
        }
        let Some((value, at)) = winner else {
            return Err(Error::invalid("max_pool2d", "a window shows nothing but padding"));
        };
        (*y, *position) = (value, at as i32);
    }
    Ok(())
}

fn max_gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let (positions, dy, dx) =
        (planes::<i32>(op, &inputs[0])?, planes::<T>(op, &inputs[1])?, planes::<T>(op, &outputs[0])?);
    let first_error = FirstError::default();
    for_rows(dx.count(), dx.width(), Cost::Heavy, |rows| {
        let (mut scratch_positions, mut scratch_dy, mut scratch_dx) =
            (Scratch::new(), Scratch::new(), Scratch::new());
        for plane in rows {
            // SAFETY: the plane is used only by this thread; dx shares no memory with the inputs.
            unsafe {
                let winners = positions.read(plane, 0..dy.width(), &mut scratch_positions);
                let gradients = dy.read(plane, 0..dy.width(), &mut scratch_dy);
                let buffer = dx.buffer(plane, 0..dx.width(), &mut scratch_dx);
                first_error.record(plane, add_to_winners(winners, gradients, buffer.values));
                dx.write(plane, 0, buffer);
            }
        }
    });
    first_error.result()
}

fn add_to_winners<T: Float>(winners: &[i32], dy: &[T], dx: &mut [T]) -> Result<()> {
    dx.fill(T::ZERO);
    let size = dx.len();
    for (&winner, &dy) in winners.iter().zip(dy) {
        match usize::try_from(winner).ok().and_then(|winner| dx.get_mut(winner)) {
            Some(dx) => *dx += dy,
            None => return Err(Error::IndexOutOfRange { op: "max_pool2d_grad", index: winner.into(), size }),
        }
    }
    Ok(())
}

/// Calls `kernel` for each plane of the input and of the output.
fn average<T: Float>(
    op: &Op,
    windows: [SlidingWindow; 2],
    inputs: &[Locked<'_>],
    outputs: &[Locked<'_>],
    kernel: impl Fn(&[T], &mut [T]) + Sync,
) -> Result<()> {
    let (from, to) = (planes::<T>(op, &inputs[0])?, planes::<T>(op, &outputs[0])?);
    for_rows(to.count(), windows[0].size * windows[1].size, Cost::Heavy, |rows| {
        let (mut scratch_from, mut scratch_to) = (Scratch::new(), Scratch::new());
        for plane in rows {
            // SAFETY: the plane is used only by this thread; the output shares no memory with the
            // input.
            unsafe {
                let buffer = to.buffer(plane, 0..to.width(), &mut scratch_to);
                kernel(from.read(plane, 0..from.width(), &mut scratch_from), buffer.values);
                to.write(plane, 0, buffer);
            }
        }
    });
    Ok(())
}

/// Returns the divisor of the sum of a window.
fn divisor<T: Float>(
    [vertical, horizontal]: [SlidingWindow; 2],
    row: usize,
    column: usize,
    count_include_pad: bool,
) -> T {
    let elements = match count_include_pad {
        true => vertical.kernel * horizontal.kernel,
        false => vertical.taps(row).len() * horizontal.taps(column).len(),
    };
    T::real(elements as f64)
}

fn mean_of_windows<T: Float>(image: &[T], y: &mut [T], windows: [SlidingWindow; 2], count_include_pad: bool) {
    let [vertical, horizontal] = windows;
    for (index, y) in y.iter_mut().enumerate() {
        let (row, column) = (index / horizontal.count, index % horizontal.count);
        let mut sum = T::ZERO;
        for image_row in vertical.taps(row).filter_map(|tap| vertical.index(row, tap)) {
            for at in horizontal.taps(column).filter_map(|tap| horizontal.index(column, tap)) {
                sum += image[image_row * horizontal.size + at];
            }
        }
        *y = sum / divisor(windows, row, column, count_include_pad);
    }
}

fn gradient_of_means<T: Float>(dy: &[T], dx: &mut [T], windows: [SlidingWindow; 2], count_include_pad: bool) {
    let [vertical, horizontal] = windows;
    dx.fill(T::ZERO);
    for (index, &dy) in dy.iter().enumerate() {
        let (row, column) = (index / horizontal.count, index % horizontal.count);
        let term = dy / divisor(windows, row, column, count_include_pad);
        for image_row in vertical.taps(row).filter_map(|tap| vertical.index(row, tap)) {
            for at in horizontal.taps(column).filter_map(|tap| horizontal.index(column, tap)) {
                dx[image_row * horizontal.size + at] += term;
            }
        }
    }
}

#[cfg(test)]
mod tests;
