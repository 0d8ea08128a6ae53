//! Sorting along an axis, with the original positions of the values.

use crate::access::Locked;
use crate::elementwise::{BLOCK, Operand, Reader, Scratch, Writer};
use crate::kernel::Variant;
use crate::number::Number;
use crate::storage::with_compute;
use crate::strided_iter::StridedIter;
use crate::threads::for_pieces;
use smallvec::SmallVec;
use std::cmp::Ordering;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::index::Sort;
use ternion_core::{Error, MAX_RANK, Op, Result};

/// Supports every dtype.
pub(crate) fn select_sort(_: &Sort, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_sort })
}

fn run_sort(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Sort(payload) = op else { return Err(Error::invalid(op.name(), "is not sort")) };
    with_compute!(inputs[0].dtype, T => {
        let x = Operand::<T>::new("sort", inputs[0])?;
        let values = Operand::<T>::new("sort", outputs[0])?;
        let positions = Operand::<i32>::new("sort", outputs[1])?;
        sort(payload, &x, &values, &positions);
        Ok(())
    })
}

/// Compares by value; NaN is larger than everything and equal to itself.
fn order<T: Number>(left: T, right: T) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Sorts each line along `payload.axis`, which is traversed as the last axis.
fn sort<T: Number>(
    payload: &Sort,
    x: &Operand<'_, T>,
    values: &Operand<'_, T>,
    positions: &Operand<'_, i32>,
) {
    let shape = x.view.layout.shape();
    let last = |axis: &usize| *axis == payload.axis;
    let axis_order = (0..shape.rank()).filter(|axis| !last(axis)).chain([payload.axis]);
    let axes: SmallVec<[(usize, [isize; 3]); MAX_RANK]> = axis_order
        .map(|axis| {
            let strides = [x.view.layout, values.view.layout, positions.view.layout];
            (shape.dim(axis), strides.map(|layout| layout.strides()[axis]))
        })
        .collect();
    let iter = StridedIter::from_axes(&axes);
    let length = shape.dim(payload.axis);
    if iter.elements() == 0 {
        return;
    }
    let work = |line: usize| sort_line(payload, &iter, (x, values, positions), line * length, length);
    let lines = iter.elements() / length;
    if iter.elements() < 1 << 12 { (0..lines).for_each(work) } else { for_pieces(lines, work) }
}

fn sort_line<T: Number>(
    payload: &Sort,
    iter: &StridedIter<3>,
    (x, values, positions): (&Operand<'_, T>, &Operand<'_, T>, &Operand<'_, i32>),
    first: usize,
    length: usize,
) {
    let mut pairs: Vec<(T, i32)> = Vec::with_capacity(length);
    let mut scratch = Scratch::new();
    let mut reader = Reader::new(x, iter.operand(0), std::ptr::null_mut(), &mut scratch);
    for start in (0..length).step_by(BLOCK) {
        let block = reader.block(first + start, BLOCK.min(length - start));
        pairs.extend(block.iter().zip(start as i32..).map(|(&value, position)| (value, position)));
    }
    match payload.descending {
        false => pairs.sort_by(|left, right| order(left.0, right.0)),
        true => pairs.sort_by(|left, right| order(right.0, left.0)),
    }
    let (mut scratch_values, mut scratch_positions) = (Scratch::new(), Scratch::new());
    let mut values = Writer::new(values, iter.operand(1), &mut scratch_values);
    let mut positions = Writer::new(positions, iter.operand(2), &mut scratch_positions);
    for (index, chunk) in pairs.chunks(BLOCK).enumerate() {
        let start = first + index * BLOCK;
        values.block(start, chunk.len(), |block| {
            block.iter_mut().zip(chunk).for_each(|(value, pair)| *value = pair.0);
        });
        positions.block(start, chunk.len(), |block| {
            block.iter_mut().zip(chunk).for_each(|(position, pair)| *position = pair.1);
        });
    }
}
