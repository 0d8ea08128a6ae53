//! Padding and concatenation: copies into slices of the output.

use crate::access::Locked;
use crate::kernel::Variant;
use crate::ops::copy::copy_same_dtype;
use crate::ops::create::fill_view;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::assemble::{Concat, Pad};
use ternion_core::{Error, Layout, Op, Result};

/// Supports every dtype.
pub(crate) fn select_concat(_: &Concat, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_concat })
}

fn run_concat(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Concat(Concat { axis }) = op else { return Err(Error::invalid(op.name(), "is not concat")) };
    let mut start = 0;
    for input in inputs {
        let end = start + input.layout.shape().dim(*axis);
        let target = range(outputs[0].layout, *axis, start, end)?;
        copy_same_dtype(*input, outputs[0].with_layout(&target))?;
        start = end;
    }
    Ok(())
}

fn range(layout: &Layout, axis: usize, start: usize, end: usize) -> Result<Layout> {
    layout.slice(axis, start, end as isize, 1)
}

/// Supports every dtype.
pub(crate) fn select_pad(_: &Pad, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_pad })
}

fn run_pad(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Pad(Pad { amounts, value }) = op else { return Err(Error::invalid(op.name(), "is not pad")) };
    // The slabs before and after the input along each axis. They exclude the slabs of the previous
    // axes, so that each border element is written once.
    let mut inside = *outputs[0].layout;
    let mut slabs: SmallVec<[Layout; 16]> = SmallVec::new();
    for (axis, &[before, _]) in amounts.iter().enumerate() {
        let (size, total) = (inputs[0].layout.shape().dim(axis), inside.shape().dim(axis));
        slabs.push(range(&inside, axis, 0, before)?);
        slabs.push(range(&inside, axis, before + size, total)?);
        inside = range(&inside, axis, before, before + size)?;
    }
    for slab in slabs.iter().filter(|slab| slab.elements() > 0) {
        fill_view(outputs[0].with_layout(slab), *value)?;
    }
    copy_same_dtype(inputs[0], outputs[0].with_layout(&inside))
}
