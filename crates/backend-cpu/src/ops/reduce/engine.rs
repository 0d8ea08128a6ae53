//! The two loops of every reduction. The partition and the order of combination depend only on the
//! shape, so that results are the same for any number of threads. Partial results are combined
//! pairwise, so that rounding errors grow with the logarithm of the number of elements.

use super::plan::{LoopAxis, ReductionPlan};
use super::reducers::Reducer;
use crate::elementwise::{BLOCK, Operand, Reader, Scratch, Writer};
use crate::storage::Compute;
use crate::threads::{Cost, for_pieces};
use std::ops::Range;

/// The number of elements of a row that one piece of work reduces.
const ROW_SEGMENT: usize = 64 * BLOCK;
/// The minimum number of rows that one piece of work sums column by column, and the minimum number
/// of elements.
const COLUMN_SEGMENT: [usize; 2] = [256, 1 << 15];
/// The number of rows that are added before the sum is added to a larger one.
const COLUMN_STEP: usize = 32;
/// The number of elements from which on several threads are used.
const PARALLEL_FROM: usize = 1 << 15;

/// Returns the reduced values in the order of the plan's output.
pub(crate) fn reduce<R: Reducer>(
    reducer: R,
    plan: &ReductionPlan,
    input: &Operand<'_, R::In>,
    shifts: &[R::In],
) -> Vec<R::Acc> {
    if plan.reduced == 0 {
        return vec![reducer.empty(); plan.outputs];
    }
    let segments = match plan.loop_axis {
        LoopAxis::Rows => plan.reduced.div_ceil(ROW_SEGMENT),
        LoopAxis::Columns { width } => plan.reduced.div_ceil(rows_of_segment(width)),
    };
    let mut partials = vec![reducer.empty(); segments * plan.outputs];
    if !partials.is_empty() {
        let loops = Loops { reducer, plan, input, shifts };
        match plan.loop_axis {
            LoopAxis::Rows => loops.reduce_rows(segments, &mut partials),
            LoopAxis::Columns { width } => loops.reduce_columns(width, &mut partials),
        }
    }
    merge(reducer, partials, plan.outputs)
}

/// Returns the number of rows of `width` elements that one piece of work sums.
fn rows_of_segment(width: usize) -> usize {
    COLUMN_SEGMENT[0].max(COLUMN_SEGMENT[1] / width.max(1))
}

/// Combines the partial results `[segments, outputs]` over the segments, pairwise.
pub(super) fn merge<R: Reducer>(reducer: R, mut partials: Vec<R::Acc>, outputs: usize) -> Vec<R::Acc> {
    let mut segments = partials.len().checked_div(outputs).unwrap_or(0);
    while segments > 1 {
        let half = segments.div_ceil(2);
        for pair in 0..segments / 2 {
            for output in 0..outputs {
                let (left, right) =
                    (partials[2 * pair * outputs + output], partials[(2 * pair + 1) * outputs + output]);
                partials[pair * outputs + output] = reducer.combine(left, right);
            }
        }
        if segments % 2 == 1 {
            partials.copy_within((segments - 1) * outputs..segments * outputs, (half - 1) * outputs);
        }
        segments = half;
    }
    partials.truncate(outputs);
    partials
}

/// Partial results that several threads write, each a different range.
struct Partials<A>(*mut A);
// SAFETY: each element is written by one piece of work only.
unsafe impl<A: Send> Sync for Partials<A> {}

impl<A> Partials<A> {
    /// # Safety
    /// The range must be inside the vector from which this value was created, and no other piece of
    /// work may use it.
    #[allow(clippy::mut_from_ref, reason = "pieces of work have separate ranges")]
    unsafe fn range(&self, range: Range<usize>) -> &mut [A] {
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

struct Loops<'a, R: Reducer> {
    reducer: R,
    plan: &'a ReductionPlan,
    input: &'a Operand<'a, R::In>,
    shifts: &'a [R::In],
}

/// A range of rows of a range of columns.
struct Tile<'a, T> {
    /// The index of the first element of row 0 in the plan's input.
    start: usize,
    /// The distance from row to row.
    width: usize,
    rows: Range<usize>,
    shifts: &'a [T],
}

impl<R: Reducer> Loops<'_, R> {
    /// Fills the partial results `[segments, outputs]`, row by row.
    fn reduce_rows(&self, segments: usize, partials: &mut [R::Acc]) {
        let (outputs, reduced) = (self.plan.outputs, self.plan.reduced);
        let group = if segments > 1 { 1 } else { (PARALLEL_FROM / reduced).max(1) };
        let groups = outputs.div_ceil(group);
        let partials = Partials(partials.as_mut_ptr());
        for_pieces(groups * segments, |piece| {
            let (segment, rows) =
                (piece / groups, piece % groups * group..outputs.min((piece % groups + 1) * group));
            let (from, to) = (segment * ROW_SEGMENT, reduced.min((segment + 1) * ROW_SEGMENT));
            let mut scratch = Scratch::new();
            let mut reader = self.reader(&mut scratch);
            // SAFETY: pieces have different segments or rows.
            let sums =
                unsafe { partials.range(segment * outputs + rows.start..segment * outputs + rows.end) };
            if reduced <= BLOCK / 2 {
                return self.reduce_short_rows(&mut reader, rows, sums);
            }
            for (row, sum) in rows.zip(sums) {
                *sum = self.reduce_row(&mut reader, row, from..to);
            }
        });
    }

    /// Reduces short rows, several of which fit a block.
    fn reduce_short_rows(&self, reader: &mut Reader<'_, R::In>, rows: Range<usize>, sums: &mut [R::Acc]) {
        let reduced = self.plan.reduced;
        let rows_per_block = BLOCK / reduced;
        for first in rows.clone().step_by(rows_per_block) {
            let count = rows_per_block.min(rows.end - first);
            let block = reader.block(first * reduced, count * reduced);
            for (index, row) in block.chunks_exact(reduced).enumerate() {
                sums[first - rows.start + index] = self.reduce_short_row(row, self.shift(first + index));
            }
        }
    }

    #[inline(always)]
    fn reduce_short_row(&self, row: &[R::In], shift: R::In) -> R::Acc {
        if row.len() > 16 {
            return self.reducer.fold(row, 0, shift);
        }
        let mut sum = self.reducer.of_element(row[0], 0, shift);
        for (index, &x) in row.iter().enumerate().skip(1) {
            sum = self.reducer.combine(sum, self.reducer.of_element(x, index, shift));
        }
        sum
    }

    /// Reduces a range of a row, which is split in half recursively until it fits a block.
    fn reduce_row(&self, reader: &mut Reader<'_, R::In>, row: usize, range: Range<usize>) -> R::Acc {
        if range.len() <= BLOCK {
            let block = reader.block(row * self.plan.reduced + range.start, range.len());
            return self.reducer.fold(block, range.start, self.shift(row));
        }
        let middle = range.start + range.len().div_ceil(BLOCK).div_ceil(2) * BLOCK;
        let left = self.reduce_row(reader, row, range.start..middle);
        self.reducer.combine(left, self.reduce_row(reader, row, middle..range.end))
    }

    /// Fills the partial results `[segments, outer, width]` from tiles of at most [`BLOCK`]
    /// columns.
    fn reduce_columns(&self, width: usize, partials: &mut [R::Acc]) {
        let (outputs, reduced) = (self.plan.outputs, self.plan.reduced);
        let segment_rows = rows_of_segment(width);
        let (segments, tiles, outer) =
            (reduced.div_ceil(segment_rows), width.div_ceil(BLOCK), outputs / width);
        let partials = Partials(partials.as_mut_ptr());
        let work = |piece: usize| {
            let (segment, in_segment) = (piece / (outer * tiles), piece % (outer * tiles));
            let (outer, tile) = (in_segment / tiles, in_segment % tiles * BLOCK);
            let first = outer * width + tile;
            let length = BLOCK.min(width - tile);
            let rows = segment * segment_rows..reduced.min((segment + 1) * segment_rows);
            // SAFETY: pieces have different segments, outer indices or tiles.
            let sums =
                unsafe { partials.range(segment * outputs + first..segment * outputs + first + length) };
            let shifts = self.shifts.get(first..first + length).unwrap_or(&[]);
            self.reduce_tile(sums, Tile { start: outer * reduced * width + tile, width, rows, shifts });
        };
        if outputs * reduced < PARALLEL_FROM {
            (0..segments * outer * tiles).for_each(work);
        } else {
            for_pieces(segments * outer * tiles, work);
        }
    }

    /// Reduces the rows of a tile: first within groups of [`COLUMN_STEP`] rows, then over the
    /// groups.
    fn reduce_tile(&self, sums: &mut [R::Acc], tile: Tile<'_, R::In>) {
        let mut scratch = Scratch::new();
        let mut reader = self.reader(&mut scratch);
        let length = sums.len();
        if length * 4 <= BLOCK && length == tile.width && !R::USES_INDEX {
            return self.reduce_narrow_tile(&mut reader, sums, tile);
        }
        let mut add = |sums: &mut [R::Acc], rows: Range<usize>| {
            for row in rows {
                let elements = reader.block(tile.start + row * tile.width, length);
                self.reducer.fold_row(sums, elements, row, tile.shifts);
            }
        };
        if tile.rows.len() <= COLUMN_STEP {
            return add(sums, tile.rows);
        }
        let mut step_sums = vec![self.reducer.empty(); length];
        for start in tile.rows.clone().step_by(COLUMN_STEP) {
            step_sums.fill(self.reducer.empty());
            add(&mut step_sums, start..tile.rows.end.min(start + COLUMN_STEP));
            for (sum, &step_sum) in sums.iter_mut().zip(&step_sums) {
                *sum = self.reducer.combine(*sum, step_sum);
            }
        }
    }

    /// Processes several adjacent rows as one long row, and combines their results at the end.
    fn reduce_narrow_tile(&self, reader: &mut Reader<'_, R::In>, sums: &mut [R::Acc], tile: Tile<'_, R::In>) {
        let width = tile.width;
        let rows_per_block = BLOCK / width;
        let shifts = tile.shifts.repeat(rows_per_block);
        let mut wide = vec![self.reducer.empty(); rows_per_block * width];
        for row in tile.rows.clone().step_by(rows_per_block) {
            let length = rows_per_block.min(tile.rows.end - row) * width;
            let elements = reader.block(tile.start + row * width, length);
            let shifts = shifts.get(..length).unwrap_or(&[]);
            self.reducer.fold_row(&mut wide[..length], elements, row, shifts);
        }
        // Pairwise, as segments are: in sequence, hundreds of roundings could all have the same
        // direction.
        for (sum, part) in sums.iter_mut().zip(merge(self.reducer, wide, width)) {
            *sum = self.reducer.combine(*sum, part);
        }
    }

    fn reader<'s>(&'s self, scratch: &'s mut Scratch<R::In>) -> Reader<'s, R::In> {
        Reader::new(self.input, self.plan.input.operand(0), std::ptr::null_mut(), scratch)
    }

    #[inline(always)]
    fn shift(&self, output: usize) -> R::In {
        self.shifts.get(output).copied().unwrap_or_default()
    }
}

/// Writes `finish(accs[i])` to the outputs, in the order of `plan`.
pub(crate) fn write<A: Copy + Sync, Y: Compute>(
    plan: &ReductionPlan,
    output: &Operand<'_, Y>,
    accs: &[A],
    finish: impl Fn(A) -> Y + Sync,
) {
    crate::threads::for_ranges(accs.len(), Cost::Light.piece(), |range| {
        let mut scratch = Scratch::new();
        let mut writer = Writer::new(output, plan.output.operand(0), &mut scratch);
        for start in range.clone().step_by(BLOCK) {
            let length = BLOCK.min(range.end - start);
            writer.block(start, length, |block| {
                for (value, &acc) in block.iter_mut().zip(&accs[start..]) {
                    *value = finish(acc);
                }
            });
        }
    });
}
