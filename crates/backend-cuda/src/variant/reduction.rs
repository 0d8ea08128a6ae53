//! Variants of reductions and cumulative sums.

use super::dtypes::{arithmetic_dtypes, wrapping_like};
use ternion_core::DType;
use ternion_core::ops::reduce::ReduceOp;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReductionVariant {
    Reduce { op: ReduceOp, dtype: DType, output: DType },
    CumulativeSum(DType),
}

impl ReductionVariant {
    /// Returns the variant for elements of `dtype` and results of `result_dtype`. In addition to
    /// core's result dtypes, half-precision sums can be stored in f32, in which they are computed.
    #[inline]
    pub(crate) fn reduce(op: ReduceOp, dtype: DType, result_dtype: DType) -> ReductionVariant {
        let is_wide = dtype.is_half() && result_dtype == DType::F32;
        let dtype = match op {
            ReduceOp::Sum | ReduceOp::Prod => wrapping_like(dtype),
            _ => dtype,
        };
        let output = match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I32,
            ReduceOp::Sum if is_wide => result_dtype,
            _ => dtype,
        };
        ReductionVariant::Reduce { op, dtype, output }
    }
}

pub(super) fn variants() -> Vec<ReductionVariant> {
    let dtypes = |op: ReduceOp| DType::ALL.into_iter().filter(move |&dtype| op.takes(dtype));
    let reduce = |op: ReduceOp| {
        let is_compiled = |&(requested, variant): &(DType, ReductionVariant)| matches!(variant, ReductionVariant::Reduce { dtype, .. } if dtype == requested);
        let variants = dtypes(op).map(move |dtype| (dtype, ReductionVariant::reduce(op, dtype, dtype)));
        variants.filter(is_compiled).map(|(_, variant)| variant)
    };
    let half_dtypes = DType::ALL.into_iter().filter(|dtype| dtype.is_half());
    let wide_sums = half_dtypes.map(|dtype| ReductionVariant::reduce(ReduceOp::Sum, dtype, DType::F32));
    let cumulative = arithmetic_dtypes().map(ReductionVariant::CumulativeSum);
    ReduceOp::ALL.into_iter().flat_map(reduce).chain(wide_sums).chain(cumulative).collect()
}
