//! Copies between tensors whose axes with stride 1 differ. A plain loop would use one element of
//! each cache line that it loads. These functions copy squares as wide as a cache line, so that
//! each line is read once and written once.

use crate::access::{Locked, Pointer};
use crate::elementwise::{Operand, Scratch};
use crate::memory::zeros;
use crate::storage::Compute;
use crate::strided_iter::{Cursor, OperandLayout, StridedIter};
use crate::threads::for_pieces;
use smallvec::SmallVec;
use ternion_core::{Layout, MAX_RANK};

/// The number of elements below which the plain loop is equally fast: all lines stay in the cache.
const MIN_ELEMENTS: usize = 1 << 12;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The maximum side of a square, in elements, so that it fits a block of scratch memory.
const MAX_SIDE: usize = 32;
/// The number of squares that one piece of work copies.
const TILES_PER_PIECE: usize = 64;

/// The two axes that are exchanged, as indices into the common index space: the input has stride 1
/// along `dense_in`, the output along `last`.
struct Axes {
    dense_in: usize,
    last: usize,
}

/// Returns the axes to exchange, if the output (operand 0) has stride 1 along the last axis and the
/// input (operand 1) along another one.
fn axes(output: OperandLayout<'_>, input: OperandLayout<'_>) -> Option<Axes> {
    let last = output.dims.len().checked_sub(1)?;
    let long = |axis: usize| output.dims[axis] >= 8;
    let dense_in = (0..last).find(|&axis| input.strides[axis] == 1 && long(axis))?;
    (output.strides[last] == 1 && long(last) && !matches!(input.strides[last], -1..=1))
        .then_some(Axes { dense_in, last })
}

/// Copies `input` to `output` (same shape, elements of the size of `C`) if they are transposed
/// relative to each other. Returns whether it did.
pub(crate) fn copy_transposed<C: Compute>(input: &Locked<'_>, output: &Locked<'_>) -> bool {
    if output.layout.elements() < MIN_ELEMENTS {
        return false;
    }
    let iter = StridedIter::new([output.layout, input.layout]);
    let (to, from) = (iter.operand(0), iter.operand(1));
    let Some(axes) = axes(to, from) else { return false };
    let outer: SmallVec<[(usize, [isize; 2]); MAX_RANK]> = (0..axes.last)
        .filter(|&axis| axis != axes.dense_in)
        .map(|axis| (to.dims[axis], [to.strides[axis], from.strides[axis]]))
        .collect();
    let plane = Plane {
        from: Pointer(input.first().cast::<C>()),
        to: Pointer(output.first().cast::<C>()),
        rows: to.dims[axes.dense_in],
        columns: to.dims[axes.last],
        from_stride: from.strides[axes.last],
        to_stride: to.strides[axes.dense_in],
    };
    plane.copy_all(&StridedIter::from_axes(&outer));
    true
}

/// A matrix: `to[row * to_stride + column] = from[row + column * from_stride]`.
#[derive(Clone, Copy)]
struct Plane<C> {
    from: Pointer<C>,
    to: Pointer<C>,
    rows: usize,
    columns: usize,
    from_stride: isize,
    to_stride: isize,
}

impl<C: Compute> Plane<C> {
    /// Copies this plane and all further planes along the outer axes.
    fn copy_all(&self, outer: &StridedIter<2>) {
        let side = MAX_SIDE.min(LINE / size_of::<C>());
        let (vertical, horizontal) = (self.rows.div_ceil(side), self.columns.div_ceil(side));
        let tiles = outer.elements() * vertical * horizontal;
        for_pieces(tiles.div_ceil(TILES_PER_PIECE), |piece| {
            for tile_index in piece * TILES_PER_PIECE..tiles.min((piece + 1) * TILES_PER_PIECE) {
                let (plane, tile) =
                    (tile_index / (vertical * horizontal), tile_index % (vertical * horizontal));
                let offsets = [0, 1].map(|operand| Cursor::new(outer.operand(operand), plane).position);
                self.copy_tile(offsets, [tile / horizontal * side, tile % horizontal * side], side);
            }
        });
    }

    /// Copies a square of the plane at `offsets` (in output and input). `start` is its first row
    /// and column.
    fn copy_tile(&self, offsets: [isize; 2], start: [usize; 2], side: usize) {
        let (rows, columns) = (side.min(self.rows - start[0]), side.min(self.columns - start[1]));
        let mut scratch = Scratch::new();
        let tile = scratch.slice(MAX_SIDE * MAX_SIDE);
        for column in 0..columns {
            let position = offsets[1] + start[0] as isize + (start[1] + column) as isize * self.from_stride;
            // SAFETY: a contiguous run inside the input; the target is local to this function.
            let run = unsafe { std::slice::from_raw_parts(self.from.get().offset(position), rows) };
            tile[column * side..column * side + rows].copy_from_slice(run);
        }
        for row in 0..rows {
            let position = offsets[0] + start[1] as isize + (start[0] + row) as isize * self.to_stride;
            // SAFETY: a contiguous run inside the output that no other square has.
            let run = unsafe { std::slice::from_raw_parts_mut(self.to.get().offset(position), columns) };
            for (column, value) in run.iter_mut().enumerate() {
                *value = tile[column * side + row];
            }
        }
    }
}

/// A contiguous copy of a tensor, made if reading the tensor itself would access a different cache
/// line for each element.
pub(crate) struct ContiguousCopy(Option<(Vec<u64>, Layout)>);

impl ContiguousCopy {
    /// Copies `view` in the memory order of `like`, if that is faster.
    #[inline]
    pub(crate) fn of(view: &Locked<'_>, like: &Locked<'_>) -> ContiguousCopy {
        let small = like.layout.elements() < MIN_ELEMENTS;
        ContiguousCopy(if small || view.layout.is_contiguous() { None } else { copy_contiguous(view, like) })
    }

    /// Returns the operand to read instead of `operand`.
    #[inline]
    pub(crate) fn or<'a, C: Compute>(&'a mut self, operand: Operand<'a, C>) -> Operand<'a, C> {
        match &mut self.0 {
            Some((words, layout)) => {
                Operand { view: Locked::of_words(words, operand.view.dtype, layout), ..operand }
            }
            None => operand,
        }
    }
}

fn copy_contiguous(view: &Locked<'_>, like: &Locked<'_>) -> Option<(Vec<u64>, Layout)> {
    let iter = StridedIter::new([like.layout, view.layout]);
    axes(iter.operand(0), iter.operand(1))?;
    let layout = like.layout.dense_like();
    let mut words = zeros::<u64>((layout.elements() * view.dtype.size()).div_ceil(8)).ok()?;
    let dense = Locked::of_words(&mut words, view.dtype, &layout);
    let copied = match view.dtype.size() {
        8 => copy_transposed::<i64>(view, &dense),
        4 => copy_transposed::<i32>(view, &dense),
        2 => copy_transposed::<u16>(view, &dense),
        _ => copy_transposed::<u8>(view, &dense),
    };
    copied.then_some((words, layout))
}
