//! Conversion between bytes in memory and compute types: half precision is converted to f32 and
//! rounded once, and bool becomes 0 or 1.

use crate::access::Raw;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ternion_core::DType;

/// A bool in memory: zero is false, every other byte is true.
#[derive(Clone, Copy, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct BoolByte(u8);

impl Raw for BoolByte {}

/// The type of elements in memory.
pub(crate) trait Storage: Raw {
    /// The type that kernels see.
    type Compute: Compute;
    /// Converts elements from memory to the compute type.
    fn widen(source: &[Self], target: &mut [Self::Compute]);
    /// Converts elements from the compute type to the type in memory.
    fn narrow(source: &[Self::Compute], target: &mut [Self]);
    /// Converts one element from memory to the compute type.
    fn widen_one(self) -> Self::Compute;
    /// Converts one element from the compute type to the type in memory.
    fn narrow_one(value: Self::Compute) -> Self;
}

/// Reads `to.len()` elements with stride `stride`, in elements.
pub(crate) type Load<C> = unsafe fn(*const u8, isize, &mut [C]);

/// Writes `from.len()` elements with stride `stride`, in elements.
pub(crate) type Store<C> = unsafe fn(&[C], *mut u8, isize);

/// The conversion of elements of a dtype between memory and kernels.
pub(crate) struct Conversion<C: 'static> {
    /// The size of an element in memory in bytes.
    pub(crate) size: usize,
    /// Whether kernels may read the memory without conversion.
    pub(crate) read_directly: bool,
    /// Whether kernels may write the memory without conversion.
    pub(crate) write_directly: bool,
    pub(crate) load: Load<C>,
    pub(crate) store: Store<C>,
}

impl<C> Clone for Conversion<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Conversion<C> {}

/// A type in which kernels compute.
pub(crate) trait Compute: Raw + Storage<Compute = Self> + Default + PartialEq + PartialOrd {
    /// Returns the conversion of elements of `dtype`, if they are computed in this type.
    fn conversion(dtype: DType) -> Option<Conversion<Self>>;

    /// Returns the conversion that copies bits unchanged.
    fn raw() -> Conversion<Self> {
        unconverted::<Self>()
    }
}

#[inline(always)]
fn unconverted<C: Compute>() -> Conversion<C> {
    Conversion {
        size: size_of::<C>(),
        read_directly: true,
        write_directly: true,
        load: load::<C>,
        store: store::<C>,
    }
}

#[inline(always)]
fn converting<S: Storage>() -> Conversion<S::Compute> {
    Conversion {
        size: size_of::<S>(),
        read_directly: false,
        write_directly: false,
        load: load::<S>,
        store: store::<S>,
    }
}

/// # Safety
/// The `to.len()` elements from `from` on, with stride `stride`, must be readable as `S`.
unsafe fn load<S: Storage>(from: *const u8, stride: isize, to: &mut [S::Compute]) {
    let from = from.cast::<S>();
    match stride {
        // SAFETY: guaranteed by the caller; `to` does not overlap this slice while it lives.
        1 => S::widen(unsafe { std::slice::from_raw_parts(from, to.len()) }, to),
        // SAFETY: guaranteed by the caller; read only if an element is requested.
        0 if !to.is_empty() => to.fill(unsafe { from.read() }.widen_one()),
        _ => {
            for (index, value) in to.iter_mut().enumerate() {
                // SAFETY: guaranteed by the caller.
                *value = unsafe { from.offset(index as isize * stride).read() }.widen_one();
            }
        }
    }
}

/// # Safety
/// The `from.len()` elements from `to` on, with stride `stride`, must be writable as `S`.
unsafe fn store<S: Storage>(from: &[S::Compute], to: *mut u8, stride: isize) {
    let to = to.cast::<S>();
    if stride == 1 {
        // SAFETY: guaranteed by the caller; there is no other reference to these elements.
        S::narrow(from, unsafe { std::slice::from_raw_parts_mut(to, from.len()) });
        return;
    }
    for (index, &value) in from.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        unsafe { to.offset(index as isize * stride).write(S::narrow_one(value)) };
    }
}

macro_rules! computed_as_stored {
    ($($plain:ty: $($dtype:pat => $storage:ty),*;)*) => {
        $(impl Storage for $plain {
            type Compute = $plain;
            #[inline(always)]
            fn widen(source: &[Self], target: &mut [Self]) {
                target.copy_from_slice(source);
            }
            #[inline(always)]
            fn narrow(source: &[Self], target: &mut [Self]) {
                target.copy_from_slice(source);
            }
            #[inline(always)]
            fn widen_one(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow_one(value: Self) -> Self {
                value
            }
        }
        impl Compute for $plain {
            #[inline(always)]
            fn conversion(dtype: DType) -> Option<Conversion<Self>> {
                match dtype {
                    $($dtype => Some(<$storage as HasConversion>::conversion()),)*
                    _ => None,
                }
            }
        })*
    };
}

/// The conversion of a storage type.
trait HasConversion: Storage {
    fn conversion() -> Conversion<Self::Compute>;
}

macro_rules! conversions {
    ($($storage:ty => $conversion:expr),* $(,)?) => {
        $(impl HasConversion for $storage {
            #[inline(always)]
            fn conversion() -> Conversion<Self::Compute> { $conversion }
        })*
    };
}

conversions! {
    f64 => unconverted::<f64>(),
    f32 => unconverted::<f32>(),
    i64 => unconverted::<i64>(),
    i32 => unconverted::<i32>(),
    i16 => unconverted::<i16>(),
    i8 => unconverted::<i8>(),
    u64 => unconverted::<u64>(),
    u32 => unconverted::<u32>(),
    u16 => unconverted::<u16>(),
    u8 => unconverted::<u8>(),
    f16 => converting::<f16>(),
    bf16 => converting::<bf16>(),
    // Kernels write only 0 and 1, but memory from other sources may contain any byte.
    BoolByte => Conversion { write_directly: true, ..converting::<BoolByte>() },
}

computed_as_stored! {
    f64: DType::F64 => f64;
    f32: DType::F32 => f32, DType::F16 => f16, DType::BF16 => bf16;
    i64: DType::I64 => i64;
    i32: DType::I32 => i32;
    i16: DType::I16 => i16;
    i8: DType::I8 => i8;
    u8: DType::U8 => u8, DType::Bool => BoolByte;
    u64: DType::U64 => u64;
    u32: DType::U32 => u32;
    u16: DType::U16 => u16;
}

impl Storage for f16 {
    type Compute = f32;
    fn widen(source: &[Self], target: &mut [f32]) {
        source.convert_to_f32_slice(target);
    }
    fn narrow(source: &[f32], target: &mut [Self]) {
        target.convert_from_f32_slice(source);
    }
    fn widen_one(self) -> f32 {
        self.to_f32()
    }
    fn narrow_one(value: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Storage for bf16 {
    type Compute = f32;
    fn widen(source: &[Self], target: &mut [f32]) {
        for (value, wide) in source.iter().zip(target) {
            *wide = value.widen_one();
        }
    }
    fn narrow(source: &[f32], target: &mut [Self]) {
        for (&wide, value) in source.iter().zip(target) {
            *value = bf16::narrow_one(wide);
        }
    }
    #[inline(always)]
    fn widen_one(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    /// Rounds to nearest, ties to even; a NaN stays NaN.
    #[inline(always)]
    fn narrow_one(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 | 0x40;
        bf16::from_bits(if value.is_nan() { quiet } else { rounded } as u16)
    }
}

impl Storage for BoolByte {
    type Compute = u8;
    fn widen(source: &[Self], target: &mut [u8]) {
        for (value, byte) in source.iter().zip(target) {
            *byte = u8::from(value.0 != 0);
        }
    }
    fn narrow(source: &[u8], target: &mut [Self]) {
        for (&byte, value) in source.iter().zip(target) {
            *value = BoolByte::narrow_one(byte);
        }
    }
    #[inline(always)]
    fn widen_one(self) -> u8 {
        u8::from(self.0 != 0)
    }
    #[inline(always)]
    fn narrow_one(value: u8) -> Self {
        BoolByte(u8::from(value != 0))
    }
}

/// Runs `$body` with `$compute` naming the compute type of elements of `$dtype`.
macro_rules! with_compute {
    ($dtype:expr, $compute:ident => $body:expr) => {
        match $dtype {
            ternion_core::DType::F64 => {
                type $compute = f64;
                $body
            }
            ternion_core::DType::F32 | ternion_core::DType::F16 | ternion_core::DType::BF16 => {
                type $compute = f32;
                $body
            }
            ternion_core::DType::I64 => {
                type $compute = i64;
                $body
            }
            ternion_core::DType::I32 => {
                type $compute = i32;
                $body
            }
            ternion_core::DType::I16 => {
                type $compute = i16;
                $body
            }
            ternion_core::DType::I8 => {
                type $compute = i8;
                $body
            }
            ternion_core::DType::U64 => {
                type $compute = u64;
                $body
            }
            ternion_core::DType::U32 => {
                type $compute = u32;
                $body
            }
            ternion_core::DType::U16 => {
                type $compute = u16;
                $body
            }
            ternion_core::DType::U8 | ternion_core::DType::Bool => {
                type $compute = u8;
                $body
            }
        }
    };
}
pub(crate) use with_compute;

/// Returns `value` as f32, rounded to odd: a further rounding to 16 bits gives the same result as
/// rounding `value` itself (Boldo and Melquiond 2008, theorem 1).
#[inline(always)]
pub(crate) fn f64_to_f32_odd(value: f64) -> f32 {
    let near = value as f32;
    let error = value - f64::from(near);
    // If the result is inexact and its last bit is even, the odd neighbor is on the other side of
    // `value`.
    let even = near.to_bits() & 1 == 0 && error != 0.0 && near.is_finite();
    let away_from_zero = (error > 0.0) == near.is_sign_positive();
    let bits = near.to_bits();
    f32::from_bits(match (even, away_from_zero) {
        (false, _) => bits,
        (true, true) => bits.wrapping_add(1),
        (true, false) => bits.wrapping_sub(1),
    })
}

/// Returns `value` as f32, rounded to odd; see [`f64_to_f32_odd`].
#[inline(always)]
pub(crate) fn i64_to_f32_odd(value: i64) -> f32 {
    let near = u64_to_f32_odd(value.unsigned_abs());
    if value < 0 { -near } else { near }
}

/// Returns `magnitude` as f32, rounded to odd; see [`f64_to_f32_odd`].
#[inline(always)]
pub(crate) fn u64_to_f32_odd(magnitude: u64) -> f32 {
    // The lowest 12 bits of a number above 2^53 cannot decide a rounding to 16 bits individually:
    // one sticky bit represents all of them.
    let sticky = if magnitude >> 53 == 0 {
        magnitude
    } else {
        (magnitude & !0xfff) | u64::from(magnitude & 0xfff != 0) << 12
    };
    f64_to_f32_odd(sticky as f64)
}
