//! Variants of reductions and running sums.

use super::dtypes::{numbers, wrapping_like};
use ternion_core::DType;
use ternion_core::ops::reduce::ReduceOp;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReductionVariant {
    Reduce { op: ReduceOp, dtype: DType },
    CumulativeSum(DType),
}

impl ReductionVariant {
    #[inline]
    pub(crate) fn reduce(op: ReduceOp, dtype: DType) -> ReductionVariant {
        let dtype = match op {
            ReduceOp::Sum | ReduceOp::Prod => wrapping_like(dtype),
            _ => dtype,
        };
        ReductionVariant::Reduce { op, dtype }
    }
}

pub(super) fn variants() -> Vec<ReductionVariant> {
    let dtypes = |op: ReduceOp| DType::ALL.into_iter().filter(move |&dtype| op.takes(dtype));
    let reduce = |op: ReduceOp| {
        dtypes(op)
            .map(move |dtype| (ReductionVariant::Reduce { op, dtype }, ReductionVariant::reduce(op, dtype)))
            .filter_map(|(own, variant)| (own == variant).then_some(own))
    };
    ReduceOp::ALL.into_iter().flat_map(reduce).chain(numbers().map(ReductionVariant::CumulativeSum)).collect()
}
