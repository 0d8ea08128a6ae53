//! Variants of reductions and running sums.

use super::dtypes::numbers;
use ternion_core::DType;
use ternion_core::ops::reduce::ReduceOp;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReductionVariant {
    Reduce { op: ReduceOp, dtype: DType },
    CumulativeSum(DType),
}

/// Reducers for every dtype that has an order.
const REDUCERS: [ReduceOp; 6] =
    [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin];
/// Reducers of floats.
const FLOAT_REDUCERS: [ReduceOp; 5] =
    [ReduceOp::Mean, ReduceOp::SumSquares, ReduceOp::MaxAbs, ReduceOp::Norm, ReduceOp::LogSumExp];

pub(super) fn variants() -> Vec<ReductionVariant> {
    let reduce = |dtype: DType, ops: &'static [ReduceOp]| {
        ops.iter().map(move |&op| ReductionVariant::Reduce { op, dtype })
    };
    let mut all: Vec<ReductionVariant> = numbers().flat_map(|dtype| reduce(dtype, &REDUCERS)).collect();
    all.extend(reduce(DType::Bool, &[ReduceOp::Max, ReduceOp::Min]));
    all.extend(DType::FLOATS.into_iter().flat_map(|dtype| reduce(dtype, &FLOAT_REDUCERS)));
    all.extend(numbers().map(ReductionVariant::CumulativeSum));
    all
}
