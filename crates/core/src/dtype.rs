//! Element types: [`DType`] at run time, [`Element`] for host types, [`Scalar`] for a single value
//! of any dtype.

use half::{bf16, f16};
use std::fmt;

/// The element type of a tensor.
///
/// `Bool` is stored as one byte; zero is false, all other values are true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 double precision.
    F64,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16, the upper 16 bits of single precision: 8 bits of exponent, 7 of fraction.
    BF16,
    /// Signed 64-bit integer.
    I64,
    /// Signed 32-bit integer: the dtype of all indices that ops return.
    I32,
    /// Signed 16-bit integer.
    I16,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 64-bit integer.
    U64,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 8-bit integer.
    U8,
    /// Bool, one byte.
    Bool,
}

impl DType {
    /// Every dtype.
    pub const ALL: [DType; 13] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
    ];

    /// The floating dtypes, widest first.
    pub const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

    /// Returns the lower-case name that is used in messages, keys and kernel symbols.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// Returns the dtype with that name.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the size of `elements` elements in bytes, or `None` on overflow.
    pub const fn bytes_for(self, elements: usize) -> Option<usize> {
        elements.checked_mul(self.size())
    }

    /// Returns the size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns whether gradients can flow through this dtype.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    /// Returns whether this is a 16-bit float.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// Returns whether this is an integer (bool is not).
    pub const fn is_int(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::I16 | DType::I8) || self.is_unsigned()
    }

    /// Returns whether this is an unsigned integer.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, DType::U64 | DType::U32 | DType::U16 | DType::U8)
    }

    /// Returns whether tensors of this dtype can be indices: i32 or i64.
    pub const fn is_index(self) -> bool {
        matches!(self, DType::I64 | DType::I32)
    }

    /// Returns the dtype in which sums and products of this one are computed: f32 for half
    /// precision, itself otherwise.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// Returns the distance from 1 to the next larger value, for floats; 0 otherwise.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F64 => f64::EPSILON,
            DType::F32 => f32::EPSILON as f64,
            DType::F16 => 9.765625e-4,
            DType::BF16 => 7.8125e-3,
            _ => 0.0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A single value, as an argument of an op. Integers are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A floating-point number, which is rounded to the tensor's dtype where it is used.
    Float(f64),
    /// An integer, exact in every integer dtype that can represent it.
    Int(i64),
    /// An integer above the maximum of i64, which only u64 can represent. Smaller integers are
    /// [`Int`](Scalar::Int).
    UInt(u64),
    /// A bool.
    Bool(bool),
}

impl Scalar {
    /// Returns the value as a float; true is 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::UInt(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// Returns the value as an integer. Floats are truncated toward zero and saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(value) => value as i64,
            Scalar::Int(value) => value,
            Scalar::UInt(value) => i64::try_from(value).unwrap_or(i64::MAX),
            Scalar::Bool(value) => i64::from(value),
        }
    }

    /// Returns the value as an integer in the range of i64 and u64. Floats are truncated toward
    /// zero and saturate.
    pub fn as_i128(self) -> i128 {
        match self {
            Scalar::Float(value) => value as i128,
            Scalar::Int(value) => value.into(),
            Scalar::UInt(value) => value.into(),
            Scalar::Bool(value) => value.into(),
        }
    }

    /// Creates an integer, which saturates at the minimum of i64 and the maximum of u64.
    pub(crate) fn integer(value: i128) -> Scalar {
        match u64::try_from(value) {
            Ok(value) => Scalar::from(value),
            Err(_) if value > 0 => Scalar::UInt(u64::MAX),
            Err(_) => Scalar::Int(i64::try_from(value).unwrap_or(i64::MIN)),
        }
    }

    /// Returns the bits of the value as an element of `dtype`, rounded once, in the low bits of the
    /// word. Integers saturate.
    pub fn bits(self, dtype: DType) -> u64 {
        match dtype {
            DType::F64 => f64::from_scalar(self).to_bits(),
            DType::F32 => u64::from(f32::from_scalar(self).to_bits()),
            DType::F16 => u64::from(f16::from_scalar(self).to_bits()),
            DType::BF16 => u64::from(bf16::from_scalar(self).to_bits()),
            DType::I64 => i64::from_scalar(self) as u64,
            DType::I32 => u64::from(i32::from_scalar(self) as u32),
            DType::I16 => u64::from(i16::from_scalar(self) as u16),
            DType::I8 => u64::from(i8::from_scalar(self) as u8),
            DType::U64 => u64::from_scalar(self),
            DType::U32 => u64::from(u32::from_scalar(self)),
            DType::U16 => u64::from(u16::from_scalar(self)),
            DType::U8 => u64::from(u8::from_scalar(self)),
            DType::Bool => u64::from(self.as_bool()),
        }
    }

    /// Returns the value as a bool: all values except zero are true.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Float(value) => value != 0.0,
            Scalar::Int(value) => value != 0,
            Scalar::UInt(value) => value != 0,
            Scalar::Bool(value) => value,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(value) => write!(f, "{value:?}"),
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::UInt(value) => write!(f, "{value}"),
            Scalar::Bool(value) => write!(f, "{value}"),
        }
    }
}

macro_rules! scalar_from {
    ($($source:ty => $variant:ident as $target:ty),* $(,)?) => {
        $(impl From<$source> for Scalar {
            fn from(value: $source) -> Self { Scalar::$variant(<$target>::from(value)) }
        })*
    };
}
scalar_from! {
    f64 => Float as f64, f32 => Float as f64, f16 => Float as f64, bf16 => Float as f64,
    i64 => Int as i64, i32 => Int as i64, i16 => Int as i64, i8 => Int as i64, u8 => Int as i64,
    u32 => Int as i64, u16 => Int as i64, bool => Bool as bool,
}

impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Scalar::UInt(value), Scalar::Int)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A host type that corresponds to a [`DType`].
///
/// `bool` is transferred as a byte at the device boundary, so that memory from outside cannot
/// create an invalid `bool`.
pub trait Element: Copy + Send + Sync + fmt::Debug + PartialEq + sealed::Sealed + 'static {
    /// The dtype of tensors of this type.
    const DTYPE: DType;

    /// Returns the bytes of `values`, in the machine's byte order.
    fn to_bytes(values: &[Self]) -> std::borrow::Cow<'_, [u8]>;

    /// Returns the values with these bytes. The length of `bytes` is a multiple of the element
    /// size.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;

    /// Returns the nearest value of this type.
    fn from_scalar(value: Scalar) -> Self;

    /// Returns this value as an exact scalar.
    fn to_scalar(self) -> Scalar;
}

macro_rules! plain_element {
    ($($host:ty, $dtype:ident, $from:expr;)*) => {
        $(impl sealed::Sealed for $host {}
        impl Element for $host {
            const DTYPE: DType = DType::$dtype;
            fn to_bytes(values: &[Self]) -> std::borrow::Cow<'_, [u8]> {
                std::borrow::Cow::Borrowed(bytemuck::cast_slice(values))
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> { bytemuck::pod_collect_to_vec(bytes) }
            fn from_scalar(value: Scalar) -> Self { ($from)(value) }
            fn to_scalar(self) -> Scalar { Scalar::from(self) }
        })*
    };
}
plain_element! {
    f64, F64, Scalar::as_f64;
    f32, F32, |value: Scalar| value.as_f64() as f32;
    f16, F16, |value: Scalar| f16::from_f64(value.as_f64());
    bf16, BF16, |value: Scalar| bf16::from_f64(value.as_f64());
    i64, I64, Scalar::as_i64;
    i32, I32, |value: Scalar| value.as_i64().clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    i16, I16, |value: Scalar| value.as_i64().clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    i8, I8, |value: Scalar| value.as_i64().clamp(i8::MIN.into(), i8::MAX.into()) as i8;
    u64, U64, |value: Scalar| value.as_i128().clamp(0, u64::MAX.into()) as u64;
    u32, U32, |value: Scalar| value.as_i64().clamp(0, u32::MAX.into()) as u32;
    u16, U16, |value: Scalar| value.as_i64().clamp(0, u16::MAX.into()) as u16;
    u8, U8, |value: Scalar| value.as_i64().clamp(0, 255) as u8;
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn to_bytes(values: &[Self]) -> std::borrow::Cow<'_, [u8]> {
        std::borrow::Cow::Borrowed(bytemuck::cast_slice(values))
    }
    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
    fn from_scalar(value: Scalar) -> Self {
        value.as_bool()
    }
    fn to_scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
}

/// Runs `$body` with `$element` as the host type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F64 => {
                type $element = f64;
                $body
            }
            $crate::DType::F32 => {
                type $element = f32;
                $body
            }
            $crate::DType::F16 => {
                type $element = half::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $element = half::bf16;
                $body
            }
            $crate::DType::I64 => {
                type $element = i64;
                $body
            }
            $crate::DType::I32 => {
                type $element = i32;
                $body
            }
            $crate::DType::I16 => {
                type $element = i16;
                $body
            }
            $crate::DType::I8 => {
                type $element = i8;
                $body
            }
            $crate::DType::U64 => {
                type $element = u64;
                $body
            }
            $crate::DType::U32 => {
                type $element = u32;
                $body
            }
            $crate::DType::U16 => {
                type $element = u16;
                $body
            }
            $crate::DType::U8 => {
                type $element = u8;
                $body
            }
            $crate::DType::Bool => {
                type $element = bool;
                $body
            }
        }
    };
}
pub(crate) use with_element;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_above_those_of_i64_stay_exact() {
        let large = (1u64 << 63) + 5;
        assert_eq!(Scalar::from(large), Scalar::UInt(large));
        assert_eq!(Scalar::from(7u64), Scalar::Int(7));
        assert_eq!(u64::from_scalar(Scalar::from(large)), large);
        assert_eq!(Scalar::from(u64::MAX).bits(DType::U64), u64::MAX);
        assert_eq!(Scalar::from(u64::MAX).to_string(), "18446744073709551615");
        for number in [i128::from(i64::MIN), -1, 0, i128::from(i64::MAX), i128::from(u64::MAX)] {
            assert_eq!(Scalar::integer(number).as_i128(), number);
        }
        // Values outside the range of a dtype become its minimum or maximum.
        assert_eq!(i64::from_scalar(Scalar::from(large)), i64::MAX);
        assert_eq!(u32::from_scalar(Scalar::from(large)), u32::MAX);
        assert_eq!([u64::from_scalar(Scalar::Int(-1)), u64::from_scalar(Scalar::Float(1e30))], [0, u64::MAX]);
        assert_eq!(Scalar::Float(f64::NAN).bits(DType::U16), 0);
    }
}
