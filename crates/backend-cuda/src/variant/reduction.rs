//! Variants of reductions and running sums.

use super::dtypes::numbers;
use ternion_core::DType;
use ternion_core::ops::reduce::ReduceOp;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReductionVariant {
    Reduce { op: ReduceOp, dtype: DType },
    CumulativeSum(DType),
}

pub(super) fn variants() -> Vec<ReductionVariant> {
    let dtypes = |op: ReduceOp| DType::ALL.into_iter().filter(move |&dtype| op.takes(dtype));
    let reduce = |op: ReduceOp| dtypes(op).map(move |dtype| ReductionVariant::Reduce { op, dtype });
    ReduceOp::ALL.into_iter().flat_map(reduce).chain(numbers().map(ReductionVariant::CumulativeSum)).collect()
}
