//! Functions of integers: divisors, multiples and bits.

use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::create::integer_range;
use crate::{DType, Scalar, Tensor};

impl Tensor {
    /// Returns the greatest common divisor of each pair, with broadcasting, and 0 for two zeros.
    /// Uses Euclid's algorithm (Knuth, The Art of Computer Programming 2, 4.5.2, A).
    ///
    /// A signed dtype cannot represent the magnitude of its smallest value: if that is the divisor,
    /// it wraps around.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not integer dtypes, or if the shapes do not
    /// broadcast.
    pub fn gcd(&self, other: &Tensor) -> Result<Tensor> {
        check_integers("gcd", self, other)?;
        let shape = self.shape().broadcast(other.shape(), "gcd")?;
        let (mut a, mut b) = (magnitude(self)?.expand(shape)?, magnitude(other)?.expand(shape)?);
        for _ in 0..euclid_steps(self.dtype()) {
            let is_done = b.eq_scalar(0)?;
            // Integers modulo 0 are 0.
            (a, b) = (is_done.where_(&a, &b)?, a.remainder(&b)?);
        }
        magnitude(&a)?.contiguous()
    }

    /// Returns the least common multiple of each pair, with broadcasting, and 0 if either is 0.
    /// Results out of range wrap around.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not integer dtypes, or if the shapes do not
    /// broadcast.
    pub fn lcm(&self, other: &Tensor) -> Result<Tensor> {
        check_integers("lcm", self, other)?;
        self.shape().broadcast(other.shape(), "lcm")?;
        magnitude(&self.div(&self.gcd(other)?)?.mul(other)?)
    }

    /// Returns the bitwise AND of each pair, with broadcasting; for bool the logical AND.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are neither integers nor bool, or if the shapes do
    /// not broadcast.
    pub fn bitwise_and(&self, other: &Tensor) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_and(other),
            _ => common_bits("bitwise_and", self, other),
        }
    }

    /// Returns the bitwise OR of each pair, with broadcasting; for bool the logical OR.
    ///
    /// # Errors
    /// Same as [`bitwise_and`](Tensor::bitwise_and).
    pub fn bitwise_or(&self, other: &Tensor) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_or(other),
            // Sums wrap around, so this also holds for the bits of signed integers.
            _ => {
                let common = common_bits("bitwise_or", self, other)?;
                self.add(other)?.sub(&common)
            }
        }
    }

    /// Returns the bitwise XOR of each pair, with broadcasting; for bool the logical XOR.
    ///
    /// # Errors
    /// Same as [`bitwise_and`](Tensor::bitwise_and).
    pub fn bitwise_xor(&self, other: &Tensor) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_xor(other),
            _ => {
                let common = common_bits("bitwise_xor", self, other)?;
                self.add(other)?.sub(&common)?.sub(&common)
            }
        }
    }

    /// Inverts all bits of each element; for bool the logical NOT.
    ///
    /// # Errors
    /// Returns an error if the dtype is floating-point.
    pub fn bitwise_not(&self) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_not(),
            dtype if dtype.is_unsigned() => {
                self.rsub_scalar(Scalar::integer(integer_range(dtype).map_or(0, |(_, max)| max)))
            }
            dtype if dtype.is_int() => self.rsub_scalar(-1),
            dtype => Err(Error::dtype("bitwise_not", "input", dtype, "an integer dtype or bool")),
        }
    }

    /// Shifts the bits of each element left by `other`, with broadcasting: multiplies by a power of
    /// 2 and wraps around. The result is 0 if the number of bits is negative or at least the width
    /// of the dtype, as in PyTorch.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not integer dtypes, or if the shapes do not
    /// broadcast.
    pub fn bitwise_left_shift(&self, other: &Tensor) -> Result<Tensor> {
        let name = "bitwise_left_shift";
        check_integers(name, self, other)?;
        self.shape().broadcast(other.shape(), name)?;
        let is_inside = other.lt_scalar(bit_count(self.dtype()))?;
        let is_inside = is_inside.logical_and(&other.ge_scalar(0)?)?;
        let power = other.masked_fill(&is_inside.logical_not()?, 0)?.rpow_scalar(2)?;
        self.mul(&power.masked_fill(&is_inside.logical_not()?, 0)?)
    }

    /// Shifts the bits of each element right by `other`, with broadcasting: divides by a power of 2
    /// and rounds down. If the number of bits is negative or at least the width of the dtype, the
    /// result is -1 for negative elements and 0 for others, as in PyTorch.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not integer dtypes, or if the shapes do not
    /// broadcast.
    pub fn bitwise_right_shift(&self, other: &Tensor) -> Result<Tensor> {
        let name = "bitwise_right_shift";
        check_integers(name, self, other)?;
        self.shape().broadcast(other.shape(), name)?;
        // A signed dtype cannot represent 2 to the power of its sign bit. A shift by that many bits
        // leaves only the sign.
        let last = bit_count(self.dtype()) - i64::from(!self.dtype().is_unsigned());
        let is_outside = other.ge_scalar(last)?.logical_or(&other.lt_scalar(0)?)?;
        let power = other.masked_fill(&is_outside, 0)?.rpow_scalar(2)?;
        let shifted = self.sub(&self.remainder(&power)?)?.div(&power)?;
        let sign = match self.dtype() {
            dtype if dtype.is_unsigned() => self.zeros_like()?,
            dtype => self.lt_scalar(0)?.to_dtype(dtype)?.neg()?,
        };
        is_outside.where_(&sign, &shifted)
    }
}

fn check_integers(name: &'static str, a: &Tensor, b: &Tensor) -> Result<()> {
    check::same_dtype(name, &a.meta(), &b.meta())?;
    match a.dtype().is_int() {
        true => Ok(()),
        false => Err(Error::dtype(name, "operand", a.dtype(), "an integer dtype")),
    }
}

fn magnitude(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_unsigned() { Ok(x.clone()) } else { x.abs() }
}

fn bit_count(dtype: DType) -> i64 {
    8 * dtype.size() as i64
}

/// Returns a number of steps that suffices for any two numbers of the dtype. The worst case are
/// neighboring Fibonacci numbers, which grow by a factor of 1.618 = 2^0.694 (Lamé).
fn euclid_steps(dtype: DType) -> usize {
    (8.0 * dtype.size() as f64 / 0.694).ceil() as usize + 1
}

/// Returns the bits that are set in both, four at a time by a lookup in a table. This needs only
/// remainders and exact quotients.
fn common_bits(name: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_integers(name, a, b)?;
    let shape = a.shape().broadcast(b.shape(), name)?;
    let dtype = a.dtype();
    let table: Vec<i32> = (0..256).map(|pair: i32| (pair / 16) & (pair % 16)).collect();
    let table = Tensor::from_vec(table, [256], a.device())?.to_dtype(dtype)?;
    let (mut a, mut b) =
        (a.expand(shape)?.reshape([shape.elements()])?, b.expand(shape)?.reshape([shape.elements()])?);
    let mut common = a.zeros_like()?;
    for digit in 0..2 * dtype.size() {
        let (low, other) = (a.remainder_scalar(16)?, b.remainder_scalar(16)?);
        let pair = low.to_dtype(DType::I32)?.mul_scalar(16)?.add(&other.to_dtype(DType::I32)?)?;
        let result = table.index_select(0, &pair)?;
        common = common.add(&result.mul_scalar(1_i64 << (4 * digit))?)?;
        (a, b) = (a.sub(&low)?.div_scalar(16)?, b.sub(&other)?.div_scalar(16)?);
    }
    common.reshape(shape)
}
