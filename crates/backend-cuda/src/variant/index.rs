//! Variants that gather, scatter and sort.

use super::dtypes::{SIZES, arithmetic_dtypes};
use ternion_core::DType;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum IndexVariant {
    /// `bits`: elements of the size of this dtype.
    Gather {
        bits: DType,
        index: DType,
    },
    /// For elements of the size of this dtype.
    ScatterSet(DType),
    ScatterAdd(DType),
    Sort(DType),
    /// Sorts pairs of a key and an index.
    SortKeys,
}

pub(super) fn variants() -> Vec<IndexVariant> {
    let mut all = vec![IndexVariant::SortKeys];
    for bits in SIZES {
        all.push(IndexVariant::ScatterSet(bits));
        all.extend([DType::I32, DType::I64].map(|index| IndexVariant::Gather { bits, index }));
    }
    all.extend(arithmetic_dtypes().map(IndexVariant::ScatterAdd));
    all.extend(DType::ALL.map(IndexVariant::Sort));
    all
}
