//! Functions of integers: divisors, multiples, and bits.

use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::create::integer_range;
use crate::{DType, Scalar, Tensor};

impl Tensor {
    /// The greatest common divisor of each pair, broadcast; 0 of two zeros. By Euclid's algorithm (Knuth, The Art of Computer Programming 2, 4.5.2, A).
    ///
    /// The magnitude of the smallest number of a signed dtype is none of it: where that is the divisor, it is wrapped.
    ///
    /// # Errors
    /// Dtypes that are not integers or differ, shapes that do not broadcast.
    pub fn gcd(&self, other: &Tensor) -> Result<Tensor> {
        check_integers("gcd", self, other)?;
        let shape = self.shape().broadcast(other.shape(), "gcd")?;
        let (mut a, mut b) = (magnitude(self)?.expand(shape)?, magnitude(other)?.expand(shape)?);
        for _ in 0..steps_of_euclid(self.dtype()) {
            let is_done = b.eq_scalar(0)?;
            // Modulo 0 is 0.
            (a, b) = (is_done.where_(&a, &b)?, a.remainder(&b)?);
        }
        magnitude(&a)?.contiguous()
    }

    /// The least common multiple of each pair, broadcast, wrapped; 0 where either is 0.
    ///
    /// # Errors
    /// Dtypes that are not integers or differ, shapes that do not broadcast.
    pub fn lcm(&self, other: &Tensor) -> Result<Tensor> {
        check_integers("lcm", self, other)?;
        self.shape().broadcast(other.shape(), "lcm")?;
        magnitude(&self.div(&self.gcd(other)?)?.mul(other)?)
    }

    /// The bits that both of each pair have, broadcast; of truth values whether both are true.
    ///
    /// # Errors
    /// Dtypes that are neither integers nor truth values or differ, shapes that do not broadcast.
    pub fn bitwise_and(&self, other: &Tensor) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_and(other),
            _ => common_bits("bitwise_and", self, other),
        }
    }

    /// The bits that either of each pair has, broadcast; of truth values whether either is true.
    ///
    /// # Errors
    /// As [`bitwise_and`](Tensor::bitwise_and).
    pub fn bitwise_or(&self, other: &Tensor) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_or(other),
            // Sums wrap, so that this holds of the bits of signed numbers, too.
            _ => {
                let common = common_bits("bitwise_or", self, other)?;
                self.add(other)?.sub(&common)
            }
        }
    }

    /// The bits that one of each pair has, broadcast; of truth values whether one alone is true.
    ///
    /// # Errors
    /// As [`bitwise_and`](Tensor::bitwise_and).
    pub fn bitwise_xor(&self, other: &Tensor) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_xor(other),
            _ => {
                let common = common_bits("bitwise_xor", self, other)?;
                self.add(other)?.sub(&common)?.sub(&common)
            }
        }
    }

    /// All bits but those of each element; of truth values the other one.
    ///
    /// # Errors
    /// Floats.
    pub fn bitwise_not(&self) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.logical_not(),
            dtype if dtype.is_unsigned() => {
                self.rsub_scalar(Scalar::whole(integer_range(dtype).map_or(0, |(_, most)| most)))
            }
            dtype if dtype.is_int() => self.rsub_scalar(-1),
            dtype => Err(Error::dtype("bitwise_not", "input", dtype, "an integer dtype or bool")),
        }
    }

    /// The bits of each element moved up by those of `other`, broadcast: times 2 to the power of that, wrapped. 0 by a negative number of bits, or by
    /// as many as the dtype has, as in PyTorch.
    ///
    /// # Errors
    /// Dtypes that are not integers or differ, shapes that do not broadcast.
    pub fn bitwise_left_shift(&self, other: &Tensor) -> Result<Tensor> {
        let name = "bitwise_left_shift";
        check_integers(name, self, other)?;
        self.shape().broadcast(other.shape(), name)?;
        let is_inside = other.lt_scalar(bits(self.dtype()))?;
        let is_inside = is_inside.logical_and(&other.ge_scalar(0)?)?;
        let power = other.masked_fill(&is_inside.logical_not()?, 0)?.rpow_scalar(2)?;
        self.mul(&power.masked_fill(&is_inside.logical_not()?, 0)?)
    }

    /// The bits of each element moved down by those of `other`, broadcast: divided by 2 to the power of that, rounded down. By a negative number of
    /// bits, or by as many as the dtype has: -1 of negative numbers, else 0, as in PyTorch.
    ///
    /// # Errors
    /// Dtypes that are not integers or differ, shapes that do not broadcast.
    pub fn bitwise_right_shift(&self, other: &Tensor) -> Result<Tensor> {
        let name = "bitwise_right_shift";
        check_integers(name, self, other)?;
        self.shape().broadcast(other.shape(), name)?;
        // The power of the last bit of a signed dtype is no number of it; what is left of such a shift is the sign.
        let last = bits(self.dtype()) - i64::from(!self.dtype().is_unsigned());
        let is_outside = other.ge_scalar(last)?.logical_or(&other.lt_scalar(0)?)?;
        let power = other.masked_fill(&is_outside, 0)?.rpow_scalar(2)?;
        let moved = self.sub(&self.remainder(&power)?)?.div(&power)?;
        let sign = match self.dtype() {
            dtype if dtype.is_unsigned() => self.zeros_like()?,
            dtype => self.lt_scalar(0)?.to_dtype(dtype)?.neg()?,
        };
        is_outside.where_(&sign, &moved)
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

fn bits(dtype: DType) -> i64 {
    8 * dtype.size() as i64
}

/// As many as any two numbers of the dtype need: those that need most are neighbors among Fibonacci's numbers, which grow by 1.618 = 2^0.694 (Lamé).
fn steps_of_euclid(dtype: DType) -> usize {
    (8.0 * dtype.size() as f64 / 0.694).ceil() as usize + 1
}

/// The bits that both have, four at a time from a table: all that is needed of them are remainders and exact quotients.
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
        let found = table.index_select(0, &pair)?;
        common = common.add(&found.mul_scalar(1_i64 << (4 * digit))?)?;
        (a, b) = (a.sub(&low)?.div_scalar(16)?, b.sub(&other)?.div_scalar(16)?);
    }
    common.reshape(shape)
}
