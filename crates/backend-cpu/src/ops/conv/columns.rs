//! Image patches as columns of a matrix, and back: one row of the matrix contains one position in
//! the window and one channel, for all windows.

use crate::access::Locked;
use crate::dense::{DenseOutput, dense};
use crate::float::Float;
use crate::threads::{Cost, for_ranges};
use std::ops::Range;
use ternion_core::geometry::{SlidingWindow, sliding_windows};
use ternion_core::ops::conv::{Col2im, Im2col};
use ternion_core::{Error, Op, Result};

/// Calls `visit(image row, windows in the window row, index of the first in the range)` for all
/// windows in `positions` whose tap `[i, j]` is inside the image.
#[inline(always)]
fn for_runs(
    [down, across]: [SlidingWindow; 2],
    [i, j]: [usize; 2],
    positions: Range<usize>,
    mut visit: impl FnMut(usize, Range<usize>, usize),
) {
    let mut at = positions.start;
    while at < positions.end {
        let (row, column) = (at / across.count, at % across.count);
        let end = across.count.min(column + positions.end - at);
        if let Some(place) = down.index(row, i) {
            let columns = across.outputs(j, column..end);
            if !columns.is_empty() {
                let first = at - positions.start + (columns.start - column);
                visit(place, columns, first);
            }
        }
        at += end - column;
    }
}

/// Computes `target[p] = image[tap [i, j] of window positions.start + p]`, or 0 outside the image.
pub(super) fn patch_row<T: Float>(
    image: &[T],
    slides: [SlidingWindow; 2],
    tap: [usize; 2],
    positions: Range<usize>,
    target: &mut [T],
) {
    let across = slides[1];
    target.fill(T::ZERO);
    for_runs(slides, tap, positions, |row, columns, first| {
        let Some(start) = across.index(columns.start, tap[1]) else { return };
        let (target, line) = (&mut target[first..first + columns.len()], &image[row * across.size + start..]);
        match across.stride {
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
    slides: [SlidingWindow; 2],
    tap: [usize; 2],
    positions: Range<usize>,
    image: &mut [T],
) {
    let across = slides[1];
    for_runs(slides, tap, positions, |row, columns, first| {
        let Some(start) = across.index(columns.start, tap[1]) else { return };
        let (source, line) = (&source[first..first + columns.len()], &mut image[row * across.size + start..]);
        match across.stride {
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
pub(super) fn place_of(row: usize, [down, across]: [SlidingWindow; 2]) -> (usize, [usize; 2]) {
    let taps = down.kernel * across.kernel;
    (row / taps, [row % taps / across.kernel, row % across.kernel])
}

pub(super) fn im2col<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Im2col(Im2col { window }) = op else { return Err(Error::invalid(op.name(), "is not im2col")) };
    let [_, channels, height, width] = inputs[0].layout.shape().to_array(op.name())?;
    let [batch, rows, places] = outputs[0].layout.shape().to_array(op.name())?;
    let slides = sliding_windows(window, [height, width], window.output_size(op.name(), [height, width])?);
    let (x, mut y) = (dense::<T>(op.name(), &inputs[0])?, DenseOutput::<T>::new(op.name(), &outputs[0])?);
    let parts = y.parts();
    for_ranges(batch * rows, pieces_of(places), |range| {
        for row in range {
            let (channel, tap) = place_of(row % rows, slides);
            let plane = (row / rows * channels + channel) * height * width;
            // SAFETY: the row is used only by this thread.
            let target = unsafe { parts.part(row * places..(row + 1) * places) };
            patch_row(&x[plane..plane + height * width], slides, tap, 0..places, target);
        }
    });
    y.finish();
    Ok(())
}

pub(super) fn col2im<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Col2im(Col2im { window, size }) = op else {
        return Err(Error::invalid(op.name(), "is not col2im"));
    };
    let [_, _, places] = inputs[0].layout.shape().to_array(op.name())?;
    let [batch, channels, height, width] = outputs[0].layout.shape().to_array(op.name())?;
    let slides = sliding_windows(window, *size, window.output_size(op.name(), *size)?);
    let taps = window.kernel[0] * window.kernel[1];
    let (columns, mut image) =
        (dense::<T>(op.name(), &inputs[0])?, DenseOutput::<T>::new(op.name(), &outputs[0])?);
    let parts = image.parts();
    for_ranges(batch * channels, pieces_of(taps * places), |range| {
        for plane in range {
            // SAFETY: the plane is used only by this thread.
            let pixels = unsafe { parts.part(plane * height * width..(plane + 1) * height * width) };
            pixels.fill(T::ZERO);
            for place in 0..taps {
                let row = (plane * taps + place) * places;
                add_patch_row(
                    &columns[row..row + places],
                    slides,
                    place_of(place, slides).1,
                    0..places,
                    pixels,
                );
            }
        }
    });
    image.finish();
    Ok(())
}

/// Returns the number of rows of `width` elements that form a piece of work.
fn pieces_of(width: usize) -> usize {
    (Cost::Light.piece() / width.max(1)).max(1)
}
