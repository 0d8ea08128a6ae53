//! Sets of dtypes that kernels are compiled for, and the width of their accesses.

use ternion_core::DType;

/// Dtypes that represent all dtypes of their size, for kernels that only move bits.
pub(super) const SIZES: [DType; 4] = [DType::I64, DType::I32, DType::F16, DType::U8];

/// The integer dtypes, without those that [`wrapping_like`] maps to others.
const INTEGERS: [DType; 5] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];

/// Dtypes that [`wrapping_like`] maps to others.
pub(super) const UNSIGNED: [DType; 3] = [DType::U64, DType::U32, DType::U16];

/// Returns the dtypes that sums, differences and products are compiled for.
pub(super) fn arithmetic_dtypes() -> impl Iterator<Item = DType> {
    DType::FLOATS.into_iter().chain(INTEGERS)
}

/// Returns the dtype that represents all dtypes of this size, for kernels that only move bits.
#[inline]
pub(crate) fn bits_like(dtype: DType) -> DType {
    match dtype.size() {
        8 => DType::I64,
        4 => DType::I32,
        2 => DType::F16,
        _ => DType::U8,
    }
}

/// Returns the dtype whose kernels are used for `dtype` where the sign does not matter: sums,
/// differences and products of integers wrap to the same bits.
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

/// Returns the elements of a pack of these dtypes: as many as one access of the widest dtype has.
#[inline]
pub(crate) fn pack_of(dtypes: &[DType]) -> usize {
    ACCESS / dtypes.iter().map(|dtype| dtype.size()).max().unwrap_or(1)
}
