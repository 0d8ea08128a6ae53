//! Reductions over any axes.

use super::rows::{Accumulator, Cut, RowFamily, RowFinish, RowKernel, Rows, beside};
use crate::call::Call;
use crate::names::{
    AccumulatorFromLane, AccumulatorFromWords, AccumulatorType, AccumulatorWords, Bases, Finish, Gather,
    Merge, PositionBetter, ReduceEnter, ReduceLeave, SlotName, Start,
};
use crate::slots::Store;
use ternion_core::backend::View;
use ternion_core::ops::reduce::{Reduce, ReduceOp, Variance};
use ternion_core::{AxisSet, DType, Error, Op, Result};

/// The functions of a reduction, of those in reduce.wgsl.
struct Reducer {
    accumulator: Accumulator,
    gather: Gather,
    enter: ReduceEnter,
    leave: ReduceLeave,
    /// Which of two positions is better.
    better: Option<PositionBetter>,
}

/// The accumulator of a value and where it is.
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
            gather: Gather::Reduce,
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
            ReduceOp::SumSquares => Reducer { enter: ReduceEnter::Square, ..sum() },
            ReduceOp::MaxAbs => {
                Reducer { enter: ReduceEnter::Abs, ..Reducer::plain(Start::Zero, Merge::Larger) }
            }
            ReduceOp::Norm => Reducer { enter: ReduceEnter::Square, leave: ReduceLeave::SquareRoot, ..sum() },
            ReduceOp::LogSumExp => Reducer {
                gather: Gather::Exponentials,
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
            gather: self.gather,
            finish: RowFinish::Row(Finish::Reduce),
        }
    }
}

/// Axes that are kept, with strides in y and x, and axes that are reduced.
struct Spaces {
    kept: Vec<(usize, Vec<i64>)>,
    over: Vec<(usize, Vec<i64>)>,
}

/// Whether elements are counted in row-major order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    RowMajor,
    Any,
}

impl Spaces {
    fn of(x: &View<'_>, y: &View<'_>, axes: AxisSet, keep: bool, order: Order) -> Spaces {
        let dims = x.layout.shape().dims();
        let (mut kept, mut over) = (Vec::new(), Vec::new());
        let mut target = 0;
        for (axis, &size) in dims.iter().enumerate() {
            let stride = x.layout.strides()[axis] as i64;
            let is_reduced = axes.contains(axis);
            match is_reduced {
                true => over.push((size, vec![0, stride])),
                false => kept.push((size, vec![y.layout.strides()[target] as i64, stride])),
            }
            target += usize::from(!is_reduced || keep);
        }
        // What lies together in x is read together.
        kept.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[1].unsigned_abs()));
        if order == Order::Any {
            over.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[1].unsigned_abs()));
        }
        Spaces { kept, over }
    }

    fn results(&self) -> usize {
        self.kept.iter().map(|(size, _)| size).product()
    }

    fn reduced(&self) -> usize {
        self.over.iter().map(|(size, _)| size).product()
    }
}

fn reduce(call: &Call<'_>, reducer: &Reducer, spaces: &Spaces, number: f64) -> Result<()> {
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let class = Store::of(x.dtype).class();
    let cut = Cut::of(call.name, spaces.results(), spaces.reduced(), beside(&spaces.kept, &spaces.over))?;
    Rows::new(call.gpu, call.name, class, cut, reducer.kernel())
        .space(&spaces.kept)
        .over(&spaces.over)
        .float(0, number)
        .output(SlotName::Y, 0, y)?
        .input(SlotName::X, 1, x)?
        .launch_reduction()
}

pub(crate) fn run_reduce(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Reduce(Reduce { op, axes, keep }) = op else {
        return Err(Error::invalid(call.name, "is not a reduction"));
    };
    let order = match op {
        ReduceOp::ArgMax | ReduceOp::ArgMin => Order::RowMajor,
        _ => Order::Any,
    };
    let spaces = Spaces::of(&call.inputs[0], &call.outputs[0], *axes, *keep, order);
    let reducer = Reducer::of(*op, call.inputs[0].dtype);
    reduce(call, &reducer, &spaces, spaces.reduced() as f64)
}

pub(crate) fn run_variance(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Variance(Variance { axes, keep, correction }) = op else {
        return Err(Error::invalid(call.name, "is not a variance"));
    };
    let spaces = Spaces::of(&call.inputs[0], &call.outputs[0], *axes, *keep, Order::Any);
    let reducer = Reducer {
        gather: Gather::Moments,
        leave: ReduceLeave::Variance,
        ..Reducer::of_accumulator(Accumulator::MOMENTS)
    };
    reduce(call, &reducer, &spaces, (spaces.reduced() as f64 - correction).max(0.0))
}
