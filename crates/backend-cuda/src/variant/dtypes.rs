//! Sets of dtypes that kernels are compiled for, and the width of their accesses.

use ternion_core::DType;

/// Dtypes that stand for all of their size, where only bits move.
pub(super) const SIZES: [DType; 4] = [DType::I64, DType::I32, DType::F16, DType::U8];

/// Numbers that are not floats.
const INTEGERS: [DType; 5] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];

/// Numbers that [`wrapping_like`] maps to others.
pub(super) const UNSIGNED: [DType; 3] = [DType::U64, DType::U32, DType::U16];

/// The dtypes that sums, differences and products are compiled for.
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

/// The dtype whose kernels serve `dtype` where the sign makes no difference: sums, differences and products of integers wrap to the same bits.
#[inline]
pub(crate) fn wrapping_like(dtype: DType) -> DType {
    match dtype {
        DType::U64 => DType::I64,
        DType::U32 => DType::I32,
        DType::U16 => DType::I16,
        other => other,
    }
}

/// Bytes of the widest access.
pub(crate) const ACCESS: usize = 16;

/// Elements of one access where the widest of these types fills it.
#[inline]
pub(crate) fn pack_of(dtypes: &[DType]) -> usize {
    ACCESS / dtypes.iter().map(|dtype| dtype.size()).max().unwrap_or(1)
}
