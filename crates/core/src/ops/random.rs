//! Random numbers from Philox4x32-10: a counter in, 128 random bits out, the same on every backend.
//!
//! Every op takes `state`, an i64 tensor `[seed, base]` on the device, and a static `offset`. Word `w` of the op's stream is word `w % 4` of
//! `philox(counter = base + offset + w / 4, key = seed)`, both 64-bit: counter words 0 and 1 hold the block number (low first), words 2 and 3 are
//! 0; key words are the seed's (low first). A captured step advances `base` between replays.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, check};
use crate::tensor::Tensor;
use crate::{DType, Shape};

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
#[derive(Clone, Debug)]
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

fn check_state(op: &'static str, state: &Meta<'_>) -> Result<()> {
    check::dtype(op, "state", state, DType::I64)?;
    check::shape(op, "state", state, Shape::unchecked(&[2]))
}

fn real(op: &'static str, inputs: &[Meta<'_>], shape: Shape, dtype: DType) -> Result<Outputs> {
    check::count(op, inputs, 1)?;
    check_state(op, &inputs[0])?;
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(Error::DType { op, what: "output", got: dtype, expected: "f32 or f64" });
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
        if !(0.0..=1.0).contains(&self.p) {
            return Err(Error::invalid("dropout", format!("probability {}, expected 0 to 1", self.p)));
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(crate::op::Saves { inputs: 0b10, outputs: 0 })
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        if let Some(grad) = &grad_outputs[0] {
            grads[0] = Some(crate::dispatch::apply_one(self.clone(), &[grad, context.input(1)?])?);
        }
        Ok(grads)
    }
}
