//! Dropout: each block of elements is combined with a block of random words; both are numbered in
//! row-major order.

use crate::access::Locked;
use crate::float::Float;
use crate::kernel::Variant;
use crate::ops::random::Stream;
use crate::rows::{Rows, Scratch};
use crate::simd::vectorized;
use crate::threads::{Cost, for_ranges};
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::random::Dropout;
use ternion_core::{DType, Error, Op, Result};

/// The number of elements that are processed at a time; a multiple of the words in a random block.
const BLOCK: usize = 1024;

/// Supports all floats.
pub(crate) fn select(_: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant {
        plan: Plan::like(0),
        run: if inputs[0].dtype == DType::F64 { run::<f64> } else { run::<f32> },
    })
}

fn run<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Dropout(dropout) = op else { return Err(Error::invalid(op.name(), "is not dropout")) };
    let (x, y) =
        (Rows::<T>::as_single_row(op.name(), &inputs[0])?, Rows::<T>::as_single_row(op.name(), &outputs[0])?);
    let mask = DropoutMask::new(dropout, inputs[1]);
    for_ranges(y.width(), Cost::Heavy.piece(), |range| {
        let mut scratch = Scratch::new();
        for start in range.clone().step_by(BLOCK) {
            let block = start..range.end.min(start + BLOCK);
            // SAFETY: the elements are used only by this thread; x does not overlap y, or is the
            // same view.
            unsafe {
                let buffer = y.buffer(0, block, &mut scratch);
                x.copy(0, start, buffer.values);
                mask.apply(start, buffer.values);
                y.write(0, start, buffer);
            }
        }
    });
    Ok(())
}

/// The rule for which elements are dropped, and the scale of the others.
#[derive(Clone, Copy)]
pub(crate) struct DropoutMask<T> {
    stream: Stream,
    threshold: u32,
    scale: T,
}

impl<T: Float> DropoutMask<T> {
    pub(crate) fn new(dropout: &Dropout, state: Locked<'_>) -> DropoutMask<T> {
        DropoutMask {
            stream: Stream::new(state, dropout.offset),
            threshold: dropout.threshold(),
            scale: T::real(dropout.scale()),
        }
    }

    /// Scales the elements whose random word reaches the threshold, and sets the others to 0.
    /// `start` is the index of the first element.
    pub(crate) fn apply(&self, start: usize, values: &mut [T]) {
        let mut words = [[0u32; 4]; BLOCK / 4 + 1];
        for (start, values) in (start..).step_by(BLOCK).zip(values.chunks_mut(BLOCK)) {
            let (first, skipped) = (start / 4, start % 4);
            let words = &mut words[..(skipped + values.len()).div_ceil(4)];
            vectorized(
                #[inline(always)]
                || {
                    for (index, words) in words.iter_mut().enumerate() {
                        *words = self.stream.block(first + index);
                    }
                    for (value, &word) in values.iter_mut().zip(&words.as_flattened()[skipped..]) {
                        *value = if word >> 8 >= self.threshold { *value * self.scale } else { T::ZERO };
                    }
                },
            );
        }
    }
}

#[cfg(test)]
mod tests;
