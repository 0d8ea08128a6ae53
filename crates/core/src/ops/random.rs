//! Random numbers from Philox4x32-10: a counter in, 128 random bits out, the same on every backend.
//!
//! Every op takes `state`, an i64 tensor `[seed, base]` on the device, and a static `offset`. Word `w` of the op's stream is word `w % 4` of
//! `philox(counter = base + offset + w / 4, key = seed)`, both 64-bit: counter words 0 and 1 hold the block number (low first), words 2 and 3 are
//! 0; key words are the seed's (low first). A captured step advances `base` between replays.

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
    /// The sizes.
    pub shape: Shape,
    /// How many random bits, 1 to 31.
    pub bits: u8,
    /// Blocks of four words to skip.
    pub offset: u64,
}

/// `y[i] = (word[i] >> 8) * 2^-24`: even over [0, 1). Input: state. dtype f32 or f64.
#[derive(Clone, Debug)]
pub struct Uniform {
    /// The sizes.
    pub shape: Shape,
    /// f32 or f64.
    pub dtype: DType,
    /// Blocks of four words to skip.
    pub offset: u64,
}

/// The standard normal distribution (Box and Muller 1958): `y[i] = sqrt(-2 ln u) * cos(2 pi v)` with
/// `u = ((word[2i] >> 8) + 1) * 2^-24`, `v = (word[2i + 1] >> 8) * 2^-24`. Input: state. dtype f32 or f64.
#[derive(Clone, Debug)]
pub struct Normal {
    /// The sizes.
    pub shape: Shape,
    /// f32 or f64.
    pub dtype: DType,
    /// Blocks of four words to skip.
    pub offset: u64,
}

/// `y = x / (1 - p)` where `word[i] >> 8 >= p * 2^24` (rounded up), else 0 (Srivastava et al. 2014). Inputs: x (floating), state. Output: as x, may take x's place.
///
/// Linear in x: its gradient is the same op with the same offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability of a zero, in `0..=1`.
    pub p: f64,
    /// Blocks of four words to skip.
    pub offset: u64,
}

impl Dropout {
    /// The smallest 24-bit number that is kept: `ceil(p * 2^24)`.
    pub fn threshold(&self) -> u32 {
        (self.p * 16_777_216.0).ceil() as u32
    }

    /// The factor of kept elements: `1 / (1 - p)`, 0 if none is kept.
    pub fn scale(&self) -> f64 {
        if self.p < 1.0 { 1.0 / (1.0 - self.p) } else { 0.0 }
    }
}

/// The distance of neighbouring 24-bit uniform numbers: exact in f32.
const UNIT: f64 = 1.0 / 16_777_216.0;

pub(super) fn check_state(op: &'static str, state: &Meta<'_>) -> Result<()> {
    check::dtype(op, "state", state, DType::I64)?;
    check::shape(op, "state", state, Shape::unchecked(&[2]))
}

fn real(op: &'static str, inputs: &[Meta<'_>], shape: Shape, dtype: DType) -> Result<Outputs> {
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
        real("uniform", inputs, self.shape, self.dtype)
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
        real("normal", inputs, self.shape, self.dtype)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let pairs = Shape::new(&[self.shape.elements(), 2])?;
        let bits = RandomBits { shape: pairs, bits: 24, offset: self.offset };
        let numbers = apply_one(bits, &[&inputs[0]])?.to_dtype(self.dtype)?;
        // From (0, 1]: the logarithm of 0 cannot come up.
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
    /// Random numbers, even over [0, 1). Halves are formed in f32 and rounded, and stay below 1. See [`Uniform`].
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn rand(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        check_random_dtype("rand", dtype)?;
        let (state, offset) = device.draw(shape.elements())?;
        let y = apply_one(Uniform { shape, dtype: dtype.accumulator(), offset }, &[&state])?;
        if dtype.is_half() { y.minimum_scalar(below_one(dtype))?.to_dtype(dtype) } else { Ok(y) }
    }

    /// Random numbers of the normal distribution with mean 0 and variance 1. Halves are formed in f32 and rounded. See [`Normal`].
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn randn(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        check_random_dtype("randn", dtype)?;
        let (state, offset) = device.draw(2 * shape.elements())?;
        apply_one(Normal { shape, dtype: dtype.accumulator(), offset }, &[&state])?.to_dtype(dtype)
    }

    /// 1 with the probability that this tensor holds, else 0; shape and dtype as this. A number above 1 counts as 1, below 0 (and NaN) as 0. Has no gradient.
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn bernoulli(&self) -> Result<Tensor> {
        check::float("bernoulli", "probability", &self.meta())?;
        let wide = self.detach().to_dtype(self.dtype().accumulator())?;
        let (state, offset) = self.device().draw(self.elements())?;
        let uniform = apply_one(Uniform { shape: *self.shape(), dtype: wide.dtype(), offset }, &[&state])?;
        uniform.lt(&wide)?.to_dtype(self.dtype())
    }

    /// 1 with probability `p`, else 0.
    ///
    /// # Errors
    /// A probability outside `0..=1`, no memory.
    pub fn bernoulli_scalar(p: f64, shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        check_probability("bernoulli", p)?;
        let shape = shape.into_shape()?;
        let (state, offset) = device.draw(shape.elements())?;
        // Of the 24-bit numbers those below p * 2^24, as in `Dropout`.
        let threshold = i64::from(Dropout { p, offset }.threshold());
        apply_one(RandomBits { shape, bits: 24, offset }, &[&state])?.lt_scalar(threshold)?.to_dtype(dtype)
    }

    /// Random integers, even over `low..high`: equal bits on every backend.
    ///
    /// A word of 31 bits is taken modulo the number of values, carried on with further bits, so that no value is favoured by more than one part in
    /// a million (up to 2^20 values: in i32; above, up to 2^40: in i64).
    ///
    /// # Errors
    /// An empty range, one of more than 2^40 values, bounds that the dtype cannot hold, a dtype that is no integer, no memory.
    pub fn randint(
        low: i64,
        high: i64,
        shape: impl IntoShape,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        let values = check_range(low, high, dtype)?;
        let bits_of = |bits: u8| {
            let (state, offset) = device.draw(shape.elements())?;
            apply_one(RandomBits { shape, bits, offset }, &[&state])
        };
        let first = bits_of(31)?;
        let width = (values as u64).next_power_of_two().ilog2();
        let below = if width <= 20 {
            let carried = (31 - width).min(16);
            let rest = first.remainder_scalar(values)?.mul_scalar(1i64 << carried)?;
            rest.add(&bits_of(carried as u8)?)?.remainder_scalar(values)?
        } else {
            let upper = first.to_dtype(DType::I64)?.mul_scalar(1i64 << 31)?;
            upper.add(&bits_of(31)?.to_dtype(DType::I64)?)?.remainder_scalar(values)?
        };
        // All values below 2^40 fit i64, and in a narrower dtype all differences of its values (wrapping) do too.
        below.to_dtype(dtype)?.add_scalar(low)
    }

    /// The numbers `0..count` in random order, i32.
    ///
    /// # Errors
    /// More numbers than i32 holds, no memory.
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
        // Keys of 31 bits meet; the second sort leaves those in the order of the first.
        let first = keys()?.sort(0, false)?.1;
        let second = keys()?.sort(0, false)?.1;
        first.index_select(0, &second)
    }

    /// Each element 0 with probability `p`, else `x / (1 - p)`: for training. See [`Dropout`].
    ///
    /// # Errors
    /// A probability outside `0..=1`, a dtype that is not floating.
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

/// The largest number below 1 of a half dtype.
fn below_one(dtype: DType) -> f64 {
    1.0 - dtype.epsilon() / 2.0
}

/// The number of values in `low..high`.
fn check_range(low: i64, high: i64, dtype: DType) -> Result<i64> {
    let fail = |detail: Text| Err(Error::invalid("randint", detail));
    let Some((least, most)) = integer_range(dtype) else {
        return Err(Error::dtype("randint", "output", dtype, "an integer dtype"));
    };
    if low >= high {
        return fail(format!("no integer from {low} up to, not including, {high}").into());
    }
    // Of i64 the greatest is the one value that no range reaches.
    if i128::from(low) < least || i128::from(high) > most + 1 {
        return fail(text![format!("{low}..{high} does not fit "), dtype]);
    }
    match high.checked_sub(low) {
        Some(values) if values <= 1 << 40 => Ok(values),
        _ => fail(format!("{low}..{high} has more than 2^40 values").into()),
    }
}
