//! Reductions over any axes.

use super::rows::{Accumulator, Partition, RowFamily, RowFinish, RowKernel, Rows, contiguous_axis};
use crate::call::Call;
use crate::names::{
    Accumulate, AccumulatorFromLane, AccumulatorFromWords, AccumulatorType, AccumulatorWords, Bases, Finish,
    Merge, PositionBetter, ReduceEnter, ReduceLeave, SlotName, Start,
};
use crate::slots::StorageFormat;
use ternion_core::backend::View;
use ternion_core::geometry::{ReductionAxes, ReductionOrder};
use ternion_core::ops::reduce::{Reduce, ReduceOp, Variance};
use ternion_core::{AxisSet, DType, Error, Op, Result};

/// The functions of a reduction, from reduce.wgsl.
struct Reducer {
    accumulator: Accumulator,
    accumulate: Accumulate,
    enter: ReduceEnter,
    leave: ReduceLeave,
    /// For argmax and argmin, which of two values is better.
    better: Option<PositionBetter>,
}

/// The accumulator of a value and its position.
const POSITION: Accumulator = Accumulator {
    dtype: AccumulatorType::Position,
    start: Start::Position,
    merge: Merge::Position,
    words: AccumulatorWords::Position,
    from_words: AccumulatorFromWords::Position,
    from_lane: AccumulatorFromLane::Position,
};

impl Reducer {
    fn of_accumulator(accumulator: Accumulator) -> Reducer {
        Reducer {
            accumulator,
            accumulate: Accumulate::Reduce,
            enter: ReduceEnter::Plain,
            leave: ReduceLeave::Plain,
            better: None,
        }
    }

    fn plain(start: Start, merge: Merge) -> Reducer {
        Reducer::of_accumulator(Accumulator::number(start, merge))
    }

    fn position(better: PositionBetter) -> Reducer {
        Reducer {
            enter: ReduceEnter::Position,
            leave: ReduceLeave::Position,
            better: Some(better),
            ..Reducer::of_accumulator(POSITION)
        }
    }

    fn of(op: ReduceOp, dtype: DType) -> Reducer {
        let sum = || Reducer::of_accumulator(Accumulator::SUM);
        match op {
            ReduceOp::Sum => sum(),
            ReduceOp::Prod => Reducer::plain(Start::One, Merge::Product),
            ReduceOp::Max => Reducer::plain(Start::Lowest, Merge::Larger),
            ReduceOp::Min if dtype == DType::Bool => Reducer::plain(Start::One, Merge::Smaller),
            ReduceOp::Min => Reducer::plain(Start::Highest, Merge::Smaller),
            ReduceOp::ArgMax => Reducer::position(PositionBetter::Larger),
            ReduceOp::ArgMin => Reducer::position(PositionBetter::Smaller),
            ReduceOp::Mean => Reducer { leave: ReduceLeave::Mean, ..sum() },
            // A norm is composed of this sum and other ops.
            ReduceOp::SumSquares | ReduceOp::Norm => Reducer { enter: ReduceEnter::Square, ..sum() },
            ReduceOp::MaxAbs => {
                Reducer { enter: ReduceEnter::Abs, ..Reducer::plain(Start::Zero, Merge::Larger) }
            }
            ReduceOp::LogSumExp => Reducer {
                accumulate: Accumulate::Exponentials,
                leave: ReduceLeave::LogSumExp,
                ..Reducer::of_accumulator(Accumulator::EXPONENTIALS)
            },
        }
    }

    fn kernel(&self) -> RowKernel {
        RowKernel {
            accumulator: self.accumulator,
            bases: Bases::Two,
            family: RowFamily::Reduction { enter: self.enter, leave: self.leave, better: self.better },
            accumulate: self.accumulate,
            finish: RowFinish::Row(Finish::Reduce),
        }
    }
}

/// The axes that are kept and those that are reduced, each with strides in y and x.
struct Spaces {
    kept: Vec<(usize, Vec<i64>)>,
    over: Vec<(usize, Vec<i64>)>,
    /// Number of results, and number of elements that are reduced to each of them.
    results: usize,
    reduced: usize,
}

impl Spaces {
    fn of(x: &View<'_>, y: &View<'_>, axes: AxisSet, order: ReductionOrder) -> Spaces {
        let axes = ReductionAxes::<i64>::new(x.layout, y.layout, axes, order);
        Spaces {
            results: axes.results(),
            reduced: axes.elements_of_each(),
            kept: axes.kept.iter().map(|&(size, strides)| (size, strides.to_vec())).collect(),
            over: axes.reduced.iter().map(|&(size, [stride])| (size, vec![0, stride])).collect(),
        }
    }
}

fn reduce(call: &Call<'_>, reducer: &Reducer, spaces: &Spaces, number: f64) -> Result<()> {
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let class = StorageFormat::of(x.dtype).class();
    let partition = Partition::of(
        call.name,
        spaces.results,
        spaces.reduced,
        contiguous_axis(&spaces.kept, &spaces.over),
    )?;
    Rows::new(call.gpu, call.name, class, partition, reducer.kernel())
        .space(&spaces.kept)
        .over(&spaces.over)
        .float(0, number)
        .output(SlotName::Y, 0, y)?
        .input(SlotName::X, 1, x)?
        .launch_reduction()
}

pub(crate) fn run_reduce(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Reduce(Reduce { op, axes, .. }) = op else {
        return Err(Error::invalid(call.name, "is not a reduction"));
    };
    let spaces = Spaces::of(&call.inputs[0], &call.outputs[0], *axes, ReductionOrder::of(*op));
    let reducer = Reducer::of(*op, call.inputs[0].dtype);
    reduce(call, &reducer, &spaces, spaces.reduced as f64)
}

pub(crate) fn run_variance(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Variance(Variance { axes, correction, .. }) = op else {
        return Err(Error::invalid(call.name, "is not a variance"));
    };
    let spaces = Spaces::of(&call.inputs[0], &call.outputs[0], *axes, ReductionOrder::Memory);
    let reducer = Reducer {
        accumulate: Accumulate::Deviations,
        leave: ReduceLeave::Variance,
        ..Reducer::of_accumulator(Accumulator::DEVIATIONS)
    };
    reduce(call, &reducer, &spaces, (spaces.reduced as f64 - correction).max(0.0))
}
