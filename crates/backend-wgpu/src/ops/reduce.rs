//! Reductions over any axes.

use super::rows::{Accumulator, Cut, Finish, Rows, beside};
use crate::select::Call;
use crate::slots::Store;
use ternion_core::backend::View;
use ternion_core::geometry::{ReductionAxes, ReductionOrder};
use ternion_core::ops::reduce::{Reduce, ReduceOp, Variance};
use ternion_core::{AxisSet, DType, Error, Op, Result};

/// The functions of a reduction, of those in reduce.wgsl.
struct Reducer {
    accumulator: Accumulator,
    gather: &'static str,
    enter: &'static str,
    leave: &'static str,
    /// Which of two positions is better.
    better: &'static str,
}

impl Reducer {
    fn plain(start: &'static str, merge: &'static str) -> Reducer {
        let accumulator = Accumulator::number(start, merge);
        Reducer {
            accumulator,
            gather: "reduce_gather",
            enter: "reduce_plain",
            leave: "reduce_itself",
            better: "",
        }
    }

    fn position(better: &'static str) -> Reducer {
        let accumulator = Accumulator {
            dtype: "Position",
            start: "position_start",
            merge: "position_merge",
            words: "position_words",
            from: "position_from",
            from_lane: "position_from_lane",
        };
        Reducer {
            accumulator,
            enter: "position_enter",
            leave: "position_leave",
            better,
            ..Reducer::plain("", "")
        }
    }

    fn of(op: ReduceOp, dtype: DType) -> Reducer {
        let sum = || Reducer::plain("zero", "sum_of");
        match op {
            ReduceOp::Sum => sum(),
            ReduceOp::Prod => Reducer::plain("one", "product_of"),
            ReduceOp::Max => Reducer::plain("lowest", "larger"),
            ReduceOp::Min if dtype == DType::Bool => Reducer::plain("one", "smaller"),
            ReduceOp::Min => Reducer::plain("highest", "smaller"),
            ReduceOp::ArgMax => Reducer::position("position_larger"),
            ReduceOp::ArgMin => Reducer::position("position_smaller"),
            ReduceOp::Mean => Reducer { leave: "reduce_mean", ..sum() },
            ReduceOp::SumSquares => Reducer { enter: "reduce_square", ..sum() },
            ReduceOp::MaxAbs => Reducer { enter: "reduce_size", ..Reducer::plain("zero", "larger") },
            ReduceOp::Norm => Reducer { enter: "reduce_square", leave: "reduce_root", ..sum() },
            ReduceOp::LogSumExp => Reducer {
                accumulator: Accumulator::EXPONENTIALS,
                gather: "exponentials_gather",
                leave: "reduce_log_sum",
                ..sum()
            },
        }
    }
}

/// Axes that are kept, with strides in y and x, and axes that are reduced, with the same.
struct Spaces {
    kept: Vec<(usize, Vec<i64>)>,
    over: Vec<(usize, Vec<i64>)>,
    results: usize,
    reduced: usize,
}

impl Spaces {
    fn of(x: &View<'_>, y: &View<'_>, axes: AxisSet, order: ReductionOrder) -> Spaces {
        let axes = ReductionAxes::<i64>::new(x.layout, y.layout, axes, order);
        Spaces {
            results: axes.results(),
            reduced: axes.elements_of_each(),
            kept: axes.kept.into_iter().map(|(size, strides)| (size, strides.to_vec())).collect(),
            over: axes.reduced.into_iter().map(|(size, [stride])| (size, vec![0, stride])).collect(),
        }
    }
}

fn reduce(call: &Call<'_>, reducer: &Reducer, spaces: &Spaces, number: f64) -> Result<()> {
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let class = Store::of(x.dtype).class();
    let cut = Cut::of(call.name, spaces.results, spaces.reduced, beside(&spaces.kept, &spaces.over))?;
    Rows::new(call.gpu, call.name, class, cut, reducer.accumulator)
        .with("BASES", "two_bases")
        .with("ENTER", reducer.enter)
        .with("LEAVE", reducer.leave)
        .with("BETTER", reducer.better)
        .space(&spaces.kept)
        .over(&spaces.over)
        .float(0, number)
        .output("y", 0, y)?
        .input("x", 1, x)?
        .launch_reduction(reducer.gather, Finish::Result("reduce_finish"))
}

pub(crate) fn run_reduce(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Reduce(Reduce { op, axes, .. }) = op else {
        return Err(Error::invalid(call.name, "is not a reduction"));
    };
    let order = match op {
        ReduceOp::ArgMax | ReduceOp::ArgMin => ReductionOrder::RowMajor,
        _ => ReductionOrder::Memory,
    };
    let spaces = Spaces::of(&call.inputs[0], &call.outputs[0], *axes, order);
    let reducer = Reducer::of(*op, call.inputs[0].dtype);
    reduce(call, &reducer, &spaces, spaces.reduced as f64)
}

pub(crate) fn run_variance(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Variance(Variance { axes, correction, .. }) = op else {
        return Err(Error::invalid(call.name, "is not a variance"));
    };
    let spaces = Spaces::of(&call.inputs[0], &call.outputs[0], *axes, ReductionOrder::Memory);
    let reducer = Reducer {
        accumulator: Accumulator::MOMENTS,
        gather: "moments_gather",
        leave: "reduce_variance",
        ..Reducer::plain("", "")
    };
    reduce(call, &reducer, &spaces, (spaces.reduced as f64 - correction).max(0.0))
}
