//! Image patches as columns of a matrix, and back: a row of the matrix contains the pixels of one
//! channel and one tap, for all windows.

use crate::access::Locked;
use crate::dense::{DenseOutput, dense};
use crate::float::Float;
use crate::threads::{Cost, for_ranges};
use std::ops::Range;
use ternion_core::geometry::{SlidingWindow, sliding_windows};
use ternion_core::ops::conv::{Col2im, Im2col};
use ternion_core::{Error, Op, Result};

/// Calls `visit(image_row, columns, first)` for each row of windows in `positions`. `columns` are
/// the windows of the row whose tap `[i, j]` is inside the image, and `first` is the index of the
/// first of them in `positions`.
#[inline(always)]
fn for_runs(
    [vertical, horizontal]: [SlidingWindow; 2],
    [i, j]: [usize; 2],
    positions: Range<usize>,
    mut visit: impl FnMut(usize, Range<usize>, usize),
) {
    let mut at = positions.start;
    while at < positions.end {
        let (row, column) = (at / horizontal.count, at % horizontal.count);
        let end = horizontal.count.min(column + positions.end - at);
        if let Some(image_row) = vertical.index(row, i) {
            let columns = horizontal.outputs(j, column..end);
            if !columns.is_empty() {
                let first = at - positions.start + (columns.start - column);
                visit(image_row, columns, first);
            }
        }
        at += end - column;
    }
}

/// Computes `target[p] = image[tap [i, j] of window positions.start + p]`, or 0 outside the image.
pub(super) fn patch_row<T: Float>(
    image: &[T],
    windows: [SlidingWindow; 2],
    tap: [usize; 2],
    positions: Range<usize>,
    target: &mut [T],
) {
    let horizontal = windows[1];
    target.fill(T::ZERO);
    for_runs(windows, tap, positions, |row, columns, first| {
        let Some(start) = horizontal.index(columns.start, tap[1]) else { return };
        let (target, line) =
            (&mut target[first..first + columns.len()], &image[row * horizontal.size + start..]);
        match horizontal.stride {
            1 => target.copy_from_slice(&line[..columns.len()]),
            stride => {
                for (target, &pixel) in target.iter_mut().zip(line.iter().step_by(stride)) {
                    *target = pixel;
                }
            }
        }
    });
}

/// Computes `image[tap [i, j] of window positions.start + p] += source[p]`; taps outside the image
/// are dropped.
pub(super) fn add_patch_row<T: Float>(
    source: &[T],
    windows: [SlidingWindow; 2],
    tap: [usize; 2],
    positions: Range<usize>,
    image: &mut [T],
) {
    let horizontal = windows[1];
    for_runs(windows, tap, positions, |row, columns, first| {
        let Some(start) = horizontal.index(columns.start, tap[1]) else { return };
        let (source, line) =
            (&source[first..first + columns.len()], &mut image[row * horizontal.size + start..]);
        match horizontal.stride {
            1 => {
                for (pixel, &value) in line.iter_mut().zip(source) {
                    *pixel += value;
                }
            }
            stride => {
                for (pixel, &value) in line.iter_mut().step_by(stride).zip(source) {
                    *pixel += value;
                }
            }
        }
    });
}

/// Returns row `row` of the patch matrix as `(channel, [i, j])`.
#[inline]
pub(super) fn channel_and_tap(row: usize, [vertical, horizontal]: [SlidingWindow; 2]) -> (usize, [usize; 2]) {
    let taps = vertical.kernel * horizontal.kernel;
    (row / taps, [row % taps / horizontal.kernel, row % horizontal.kernel])
}

pub(super) fn im2col<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Im2col(Im2col { window }) = op else { return Err(Error::invalid(op.name(), "is not im2col")) };
    let [_, channels, height, width] = inputs[0].layout.shape().to_array(op.name())?;
    let [batch, rows, positions] = outputs[0].layout.shape().to_array(op.name())?;
    let windows = sliding_windows(window, [height, width], window.output_size(op.name(), [height, width])?);
    let (x, mut y) = (dense::<T>(op.name(), &inputs[0])?, DenseOutput::<T>::new(op.name(), &outputs[0])?);
    let slices = y.disjoint_slices();
    for_ranges(batch * rows, rows_per_piece(positions), |range| {
        for row in range {
            let (channel, tap) = channel_and_tap(row % rows, windows);
            let plane = (row / rows * channels + channel) * height * width;
            // SAFETY: the row is used only by this thread.
            let target = unsafe { slices.slice_mut(row * positions..(row + 1) * positions) };
            patch_row(&x[plane..plane + height * width], windows, tap, 0..positions, target);
        }
    });
    y.finish();
    Ok(())
}

pub(super) fn col2im<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Col2im(Col2im { window, size }) = op else {
        return Err(Error::invalid(op.name(), "is not col2im"));
    };
    let [_, _, positions] = inputs[0].layout.shape().to_array(op.name())?;
    let [batch, channels, height, width] = outputs[0].layout.shape().to_array(op.name())?;
    let windows = sliding_windows(window, *size, window.output_size(op.name(), *size)?);
    let taps = window.kernel[0] * window.kernel[1];
    let (columns, mut image) =
        (dense::<T>(op.name(), &inputs[0])?, DenseOutput::<T>::new(op.name(), &outputs[0])?);
    let slices = image.disjoint_slices();
    for_ranges(batch * channels, rows_per_piece(taps * positions), |range| {
        for plane in range {
            // SAFETY: the plane is used only by this thread.
            let pixels = unsafe { slices.slice_mut(plane * height * width..(plane + 1) * height * width) };
            pixels.fill(T::ZERO);
            for tap in 0..taps {
                let row = (plane * taps + tap) * positions;
                add_patch_row(
                    &columns[row..row + positions],
                    windows,
                    channel_and_tap(tap, windows).1,
                    0..positions,
                    pixels,
                );
            }
        }
    });
    image.finish();
    Ok(())
}

/// Returns the number of rows of `width` elements in a piece of work.
fn rows_per_piece(width: usize) -> usize {
    (Cost::Light.piece() / width.max(1)).max(1)
}
