//! Sets of dtypes that kernels are compiled for, and the width of their accesses.

use ternion_core::DType;

/// Dtypes that stand for all of their size, where only bits move.
pub(super) const SIZES: [DType; 4] = [DType::I64, DType::I32, DType::F16, DType::U8];

/// Numbers that are not floats.
const INTEGERS: [DType; 5] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];

/// Every dtype but bool.
pub(super) fn numbers() -> impl Iterator<Item = DType> {
    DType::FLOATS.into_iter().chain(INTEGERS)
}

/// The dtype that stands for all of the size of `dtype`, where only bits move.
#[inline]
pub(crate) fn bits_like(dtype: DType) -> DType {
    match dtype.size() {
        8 => DType::I64,
        4 => DType::I32,
        2 => DType::F16,
        _ => DType::U8,
    }
}

/// Bytes of the widest access.
pub(crate) const ACCESS: usize = 16;

/// Elements of one access where the widest of these types fills it.
#[inline]
pub(crate) fn pack_of(dtypes: &[DType]) -> usize {
    ACCESS / dtypes.iter().map(|dtype| dtype.size()).max().unwrap_or(1)
}
