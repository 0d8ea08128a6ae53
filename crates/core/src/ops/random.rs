//! Random numbers from Philox4x32-10: a counter gives 128 random bits, the same on every backend.
//!
//! Every op has an input `state`, an i64 tensor `[seed, base]` on the device, and a static
//! `offset`. Word `w` of the op's stream is word `w % 4` of
//! `philox(counter = base + offset + w / 4, key = seed)`, both 64-bit: counter words 0 and 1
//! contain the block index (low word first), words 2 and 3 are 0; the key words are those of the
//! seed (low word first). A captured step advances `base` between replays.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::{Error, Result, Text};
use crate::op::{Differentiability, Output, Outputs, Rule, check};
use crate::ops::create::integer_range;
use crate::tensor::Tensor;
use crate::{DType, Device, IntoShape, Shape, text};

/// `y[i] = word[i] >> (32 - bits)` as i32, i in row-major order. Input: state. Primitive.
#[derive(Clone, Debug)]
pub struct RandomBits {
    /// The shape of the output.
    pub shape: Shape,
    /// The number of random bits, 1 to 31.
    pub bits: u8,
    /// The number of blocks of four words to skip.
    pub offset: u64,
}

/// `y[i] = (word[i] >> 8) * 2^-24`: uniform over [0, 1). Input: state. dtype f32 or f64.
#[derive(Clone, Debug)]
pub struct Uniform {
    /// The shape of the output.
    pub shape: Shape,
    /// The dtype: f32 or f64.
    pub dtype: DType,
    /// The number of blocks of four words to skip.
    pub offset: u64,
}

/// The standard normal distribution (Box and Muller 1958): `y[i] = sqrt(-2 ln u) * cos(2 pi v)`
/// with `u = ((word[2i] >> 8) + 1) * 2^-24`, `v = (word[2i + 1] >> 8) * 2^-24`. Input: state.
/// dtype f32 or f64.
#[derive(Clone, Debug)]
pub struct Normal {
    /// The shape of the output.
    pub shape: Shape,
    /// The dtype: f32 or f64.
    pub dtype: DType,
    /// The number of blocks of four words to skip.
    pub offset: u64,
}

/// `y = x / (1 - p)` where `word[i] >> 8 >= p * 2^24` (rounded up), else 0 (Srivastava et al.
/// 2014). Inputs: x (floating), state. Output: x's shape and dtype, may reuse x's buffer.
///
/// Linear in x: its gradient is the same op with the same offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The probability that an element is zeroed, in `0..=1`.
    pub p: f64,
    /// The number of blocks of four words to skip.
    pub offset: u64,
}

impl Dropout {
    /// Returns the smallest 24-bit number for which an element is kept: `ceil(p * 2^24)`.
    pub fn threshold(&self) -> u32 {
        (self.p * 16_777_216.0).ceil() as u32
    }

    /// Returns the factor of kept elements: `1 / (1 - p)`, 0 if none is kept.
    pub fn scale(&self) -> f64 {
        if self.p < 1.0 { 1.0 / (1.0 - self.p) } else { 0.0 }
    }
}

/// The distance between neighboring 24-bit uniform numbers: exact in f32.
const UNIT: f64 = 1.0 / 16_777_216.0;

pub(super) fn check_state(op: &'static str, state: &Meta<'_>) -> Result<()> {
    check::dtype(op, "state", state, DType::I64)?;
    check::shape(op, "state", state, Shape::unchecked(&[2]))
}

fn infer_float(op: &'static str, inputs: &[Meta<'_>], shape: Shape, dtype: DType) -> Result<Outputs> {
    check::count(op, inputs, 1)?;
    check_state(op, &inputs[0])?;
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(Error::dtype(op, "output", dtype, text![DType::F32, " or ", DType::F64]));
    }
    Ok(Outputs::from_buf([Output::fresh(shape, dtype)]))
}

impl Rule for RandomBits {
    fn name(&self) -> &'static str {
        "random_bits"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("random_bits", inputs, 1)?;
        check_state("random_bits", &inputs[0])?;
        if !(1..=31).contains(&self.bits) {
            return Err(Error::invalid("random_bits", format!("{} bits, expected 1 to 31", self.bits)));
        }
        Ok(Outputs::from_buf([Output::fresh(self.shape, DType::I32)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

impl Rule for Uniform {
    fn name(&self) -> &'static str {
        "uniform"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_float("uniform", inputs, self.shape, self.dtype)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let bits = RandomBits { shape: self.shape, bits: 24, offset: self.offset };
        Ok(vec![apply_one(bits, &[&inputs[0]])?.to_dtype(self.dtype)?.mul_scalar(UNIT)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

impl Rule for Normal {
    fn name(&self) -> &'static str {
        "normal"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_float("normal", inputs, self.shape, self.dtype)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let pairs = Shape::new(&[self.shape.elements(), 2])?;
        let bits = RandomBits { shape: pairs, bits: 24, offset: self.offset };
        let numbers = apply_one(bits, &[&inputs[0]])?.to_dtype(self.dtype)?;
        // u is in (0, 1], so that its logarithm is finite.
        let u = numbers.select(1, 0)?.add_scalar(1.0)?.mul_scalar(UNIT)?;
        let v = numbers.select(1, 1)?.mul_scalar(UNIT)?;
        let radius = u.log()?.mul_scalar(-2.0)?.sqrt()?;
        let angle = v.mul_scalar(std::f64::consts::TAU)?;
        Ok(vec![radius.mul(&angle.cos()?)?.reshape(self.shape)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

impl Rule for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("dropout", inputs, 2)?;
        check::float("dropout", "input", &inputs[0])?;
        check_state("dropout", &inputs[1])?;
        check_probability("dropout", self.p)?;
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let bits = RandomBits { shape: *x.shape(), bits: 24, offset: self.offset };
        let dropped = apply_one(bits, &[&inputs[1]])?.lt_scalar(i64::from(self.threshold()))?;
        let scaled = x.to_dtype(x.dtype().accumulator())?.mul_scalar(self.scale())?;
        Ok(vec![scaled.masked_fill(&dropped, 0.0)?.to_dtype(x.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(crate::op::Saves { inputs: 0b10, outputs: 0 })
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        if let Some(grad) = &grad_outputs[0] {
            grads[0] = Some(apply_one(*self, &[grad, context.input(1)?])?);
        }
        Ok(grads)
    }
}

impl Tensor {
    /// Returns random numbers, uniform over [0, 1). Half precision is computed in f32 and rounded,
    /// and stays below 1. See [`Uniform`].
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, or if there is not enough memory.
    pub fn rand(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        check_random_dtype("rand", dtype)?;
        let (state, offset) = device.draw(shape.elements())?;
        let y = apply_one(Uniform { shape, dtype: dtype.accumulator(), offset }, &[&state])?;
        if dtype.is_half() { y.minimum_scalar(below_one(dtype))?.to_dtype(dtype) } else { Ok(y) }
    }

    /// Returns random numbers from the normal distribution with mean 0 and variance 1. Half
    /// precision is computed in f32 and rounded. See [`Normal`].
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, or if there is not enough memory.
    pub fn randn(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        check_random_dtype("randn", dtype)?;
        let (state, offset) = device.draw(2 * shape.elements())?;
        apply_one(Normal { shape, dtype: dtype.accumulator(), offset }, &[&state])?.to_dtype(dtype)
    }

    /// Returns 1 with the probability given by each element of this tensor, else 0, with this
    /// tensor's shape and dtype. Values above 1 are treated as 1, negative values and NaN as 0. The
    /// result has no gradient.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, or if there is not enough memory.
    pub fn bernoulli(&self) -> Result<Tensor> {
        check::float("bernoulli", "probability", &self.meta())?;
        let wide = self.detach().to_dtype(self.dtype().accumulator())?;
        let (state, offset) = self.device().draw(self.elements())?;
        let uniform = apply_one(Uniform { shape: *self.shape(), dtype: wide.dtype(), offset }, &[&state])?;
        uniform.lt(&wide)?.to_dtype(self.dtype())
    }

    /// Returns a tensor whose elements are 1 with probability `p`, else 0.
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`, or if there is not enough memory.
    pub fn bernoulli_scalar(p: f64, shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        check_probability("bernoulli", p)?;
        let shape = shape.into_shape()?;
        let (state, offset) = device.draw(shape.elements())?;
        // The 24-bit numbers below p * 2^24 are selected, as in `Dropout`.
        let threshold = i64::from(Dropout { p, offset }.threshold());
        apply_one(RandomBits { shape, bits: 24, offset }, &[&state])?.lt_scalar(threshold)?.to_dtype(dtype)
    }

    /// Returns random integers, uniform over `low..high`, with the same bits on every backend.
    ///
    /// A word of 31 bits is reduced modulo the number of values. The remainder is extended with
    /// further random bits and reduced again, so that the probabilities of the values differ by at
    /// most one part in a million (up to 2^20 values: in i32; above, up to 2^40: in i64).
    ///
    /// # Errors
    /// Returns an error if the range is empty or has more than 2^40 values, if the dtype cannot
    /// represent the bounds, if the dtype is not an integer, or if there is not enough memory.
    pub fn randint(
        low: i64,
        high: i64,
        shape: impl IntoShape,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        let value_count = check_range(low, high, dtype)?;
        let bits_of = |bits: u8| {
            let (state, offset) = device.draw(shape.elements())?;
            apply_one(RandomBits { shape, bits, offset }, &[&state])
        };
        let first = bits_of(31)?;
        let width = (value_count as u64).next_power_of_two().ilog2();
        let remainder = if width <= 20 {
            let carried = (31 - width).min(16);
            let rest = first.remainder_scalar(value_count)?.mul_scalar(1i64 << carried)?;
            rest.add(&bits_of(carried as u8)?)?.remainder_scalar(value_count)?
        } else {
            let upper = first.to_dtype(DType::I64)?.mul_scalar(1i64 << 31)?;
            upper.add(&bits_of(31)?.to_dtype(DType::I64)?)?.remainder_scalar(value_count)?
        };
        // All values are below 2^40 and fit i64. A narrower dtype can represent the difference of
        // any two of its values, with wrapping.
        remainder.to_dtype(dtype)?.add_scalar(low)
    }

    /// Returns the numbers `0..count` in random order, i32.
    ///
    /// # Errors
    /// Returns an error if `count` exceeds the maximum of i32, or if there is not enough memory.
    pub fn permutation(count: usize, device: &Device) -> Result<Tensor> {
        if i32::try_from(count).is_err() {
            return Err(Error::invalid(
                "permutation",
                text![format!("{count} numbers, at most {} fit ", i32::MAX), DType::I32],
            ));
        }
        let keys = || {
            let (state, offset) = device.draw(count)?;
            apply_one(RandomBits { shape: Shape::new(&[count])?, bits: 31, offset }, &[&state])
        };
        // Keys of 31 bits can be equal; the second, stable sort leaves these in the random order of
        // the first.
        let first = keys()?.sort(0, false)?.1;
        let second = keys()?.sort(0, false)?.1;
        first.index_select(0, &second)
    }

    /// Sets each element to 0 with probability `p`, and to `x / (1 - p)` otherwise: for training.
    /// See [`Dropout`].
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`, or if the dtype is not floating.
    pub fn dropout(&self, p: f64) -> Result<Tensor> {
        check::float("dropout", "input", &self.meta())?;
        check_probability("dropout", p)?;
        if p == 0.0 {
            return Ok(self.clone());
        }
        let (state, offset) = self.device().draw(self.elements())?;
        apply_one(Dropout { p, offset }, &[self, &state])
    }
}

pub(crate) fn check_probability(op: &'static str, p: f64) -> Result<()> {
    match (0.0..=1.0).contains(&p) {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("probability {p}, expected 0 to 1"))),
    }
}

fn check_random_dtype(op: &'static str, dtype: DType) -> Result<()> {
    match dtype.is_float() {
        true => Ok(()),
        false => Err(Error::dtype(op, "output", dtype, "a floating dtype")),
    }
}

/// Returns the largest number below 1 of a half-precision dtype.
fn below_one(dtype: DType) -> f64 {
    1.0 - dtype.epsilon() / 2.0
}

/// Returns the number of values in `low..high`.
fn check_range(low: i64, high: i64, dtype: DType) -> Result<i64> {
    let fail = |detail: Text| Err(Error::invalid("randint", detail));
    let Some((min, max)) = integer_range(dtype) else {
        return Err(Error::dtype("randint", "output", dtype, "an integer dtype"));
    };
    if low >= high {
        return fail(format!("no integer from {low} up to, not including, {high}").into());
    }
    // The maximum of i64 is the only value that no range can contain.
    if i128::from(low) < min || i128::from(high) > max + 1 {
        return fail(text![format!("{low}..{high} does not fit "), dtype]);
    }
    match high.checked_sub(low) {
        Some(values) if values <= 1 << 40 => Ok(values),
        _ => fail(format!("{low}..{high} has more than 2^40 values").into()),
    }
}
