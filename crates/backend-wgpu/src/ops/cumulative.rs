//! Cumulative sums.

use super::rows::{Accumulator, Partition, RowFamily, RowFinish, RowKernel, Rows, axes_but, contiguous_axis};
use crate::call::Call;
use crate::names::{
    Accumulate, AccumulatorFromLane, AccumulatorFromWords, AccumulatorType, AccumulatorWords, Bases, Finish,
    Merge, ReduceEnter, ReduceLeave, SlotName, Start,
};
use crate::shaders::Class;
use crate::slots::StorageFormat;
use ternion_core::ops::reduce::CumulativeSum;
use ternion_core::{Error, Op, Result};

/// A float sum and its accumulated rounding error.
const PAIR: Accumulator = Accumulator {
    dtype: AccumulatorType::Vec2,
    start: Start::Pair,
    merge: Merge::Pair,
    words: AccumulatorWords::Pair,
    from_words: AccumulatorFromWords::Pair,
    from_lane: AccumulatorFromLane::Plain,
};

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CumulativeSum(CumulativeSum { axis }) = op else {
        return Err(Error::invalid(call.name, "is not a running sum"));
    };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    if x.layout.elements() == 0 {
        return Ok(());
    }
    let layouts = [y.layout, x.layout];
    let axes = axes_but(*axis, &layouts);
    let over = vec![(
        x.layout.shape().dim(*axis),
        layouts.iter().map(|layout| layout.strides()[*axis] as i64).collect(),
    )];
    let lines = axes.iter().map(|(size, _)| size).product();
    let partition = Partition::of(call.name, lines, over[0].0, contiguous_axis(&axes, &over))?;
    let class = StorageFormat::of(x.dtype).class();
    let (accumulator, enter, leave) = match class {
        Class::Float => (PAIR, ReduceEnter::Pair, ReduceLeave::Pair),
        _ => (Accumulator::SUM, ReduceEnter::Plain, ReduceLeave::Plain),
    };
    let kernel = RowKernel {
        accumulator,
        bases: Bases::Two,
        family: RowFamily::Reduction { enter, leave, better: None },
        accumulate: Accumulate::Reduce,
        finish: RowFinish::Row(Finish::Part),
    };
    Rows::new(call.gpu, call.name, class, partition, kernel)
        .space(&axes)
        .over(&over)
        .output(SlotName::Y, 0, y)?
        .input(SlotName::X, 1, x)?
        .launch_cumulative()
}
