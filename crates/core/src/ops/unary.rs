//! Unary elementwise functions: their list, with formulas and gradients, and their shape rule.
//! Formulas longer than a line are in `formulas`.

mod formulas;

use crate::DType;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply_into, apply_one};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::precision;
use crate::tensor::Tensor;
use crate::text;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

unary_ops! {
    /// `-x`. Integers wrap.
    Neg = "neg" (neg neg_) {
        takes: Numbers,
        autocast: Unchanged,
        grad: Constant |_x, dy| dy.neg(),
    }
    /// `|x|`. Gradient 0 at 0.
    Abs = "abs" (abs abs_) {
        takes: Numbers,
        autocast: Unchanged,
        grad: FromInput |x, dy| dy.mul(&x.sign()?),
    }
    /// -1, 0 or 1; NaN stays NaN. Gradient 0.
    Sign = "sign" (sign sign_) {
        takes: Numbers,
        autocast: Unchanged,
        grad: Zero |_x, dy| dy.zeros_like(),
    }
    /// `e^x`.
    Exp = "exp" (exp exp_) {
        takes: Floats,
        autocast: ToF32,
        grad: FromOutput |y, dy| dy.mul(y),
    }
    /// Natural logarithm.
    Log = "log" (log log_) {
        takes: Floats,
        autocast: ToF32,
        grad: FromInput |x, dy| dy.div(x),
    }
    /// `log(1 + x)`, accurate near 0.
    Log1p = "log1p" (log1p log1p_) {
        takes: Floats,
        autocast: ToF32,
        grad: FromInput |x, dy| dy.div(&x.add_scalar(1i64)?),
    }
    /// `e^x - 1`, accurate near 0.
    Expm1 = "expm1" (expm1 expm1_) {
        takes: Floats,
        autocast: ToF32,
        grad: FromOutput |y, dy| dy.mul(&y.add_scalar(1i64)?),
    }
    /// Square root.
    Sqrt = "sqrt" (sqrt sqrt_) {
        takes: Floats,
        autocast: Unchanged,
        grad: FromOutput |y, dy| dy.div(&y.mul_scalar(2i64)?),
    }
    /// `1 / sqrt(x)`.
    Rsqrt = "rsqrt" (rsqrt rsqrt_) {
        takes: Floats,
        autocast: ToF32,
        // d/dx x^-1/2 = -y^3 / 2, with y^3 as a product
        grad: FromOutput |y, dy| dy.mul(&y.square()?.mul(y)?.mul_scalar(-0.5)?),
    }
    /// Sine, x in radians.
    Sin = "sin" (sin sin_) {
        takes: Floats,
        autocast: Unchanged,
        grad: FromInput |x, dy| dy.mul(&x.cos()?),
    }
    /// Cosine, x in radians.
    Cos = "cos" (cos cos_) {
        takes: Floats,
        autocast: Unchanged,
        grad: FromInput |x, dy| dy.mul(&x.sin()?.neg()?),
    }
    /// Hyperbolic tangent.
    Tanh = "tanh" (tanh tanh_) {
        takes: Floats,
        autocast: Unchanged,
        grad: FromOutput |y, dy| dy.mul(&y.square()?.rsub_scalar(1i64)?),
    }
    /// `1 / (1 + e^-x)`.
    Sigmoid = "sigmoid" (sigmoid sigmoid_) {
        takes: Floats,
        autocast: Unchanged,
        grad: FromOutput |y, dy| dy.mul(&y.mul(&y.rsub_scalar(1i64)?)?),
    }
    /// `max(x, 0)`; NaN stays NaN. Gradient 0 at 0.
    Relu = "relu" (relu relu_) {
        takes: Numbers,
        autocast: Unchanged,
        grad: FromOutput |y, dy| y.gt_scalar(0i64)?.where_(dy, &dy.scalar_like(0i64)?),
    }
    /// Error function.
    Erf = "erf" (erf erf_) {
        takes: Floats,
        autocast: Unchanged,
        grad: FromInput |x, dy| dy.mul(&x.square()?.neg()?.exp()?.mul_scalar(FRAC_2_SQRT_PI)?),
    }
    /// `x * x`.
    Square = "square" (square square_) {
        takes: Numbers,
        autocast: Unchanged,
        // Doubled last: 2x could overflow where the product does not.
        grad: FromInput |x, dy| dy.mul(x)?.mul_scalar(2i64),
    }
    /// `1 / x`.
    Recip = "recip" (recip recip_) {
        takes: Floats,
        autocast: ToF32,
        grad: FromOutput |y, dy| dy.mul(&y.square()?.neg()?),
    }
    /// Largest integer not above x. Gradient 0.
    Floor = "floor" (floor floor_) {
        takes: Floats,
        autocast: Unchanged,
        grad: Zero |_x, dy| dy.zeros_like(),
    }
    /// Smallest integer not below x. Gradient 0.
    Ceil = "ceil" (ceil ceil_) {
        takes: Floats,
        autocast: Unchanged,
        grad: Zero |_x, dy| dy.zeros_like(),
    }
    /// Nearest integer, ties to even. Gradient 0.
    Round = "round" (round round_) {
        takes: Floats,
        autocast: Unchanged,
        grad: Zero |_x, dy| dy.zeros_like(),
    }
    /// `!x` of a bool.
    Not = "logical_not" (logical_not logical_not_) {
        takes: Bools,
        autocast: Unchanged,
        grad: None |_x, _dy| Err(Error::autograd("not has no gradient")),
    }
    /// `x` if `x > 0`, else `slope * x`. Gradient `slope` at 0.
    LeakyRelu {
        /// Slope for negative x.
        slope: 0.1
    } = "leaky_relu" (leaky_relu leaky_relu_) {
        takes: Floats,
        autocast: Unchanged,
        value: |x| x.gt_scalar(0i64)?.where_(x, &x.mul_scalar(slope)?),
        grad: FromInput |x, dy| x.gt_scalar(0i64)?.where_(dy, &dy.mul_scalar(slope)?),
    }
    /// `x` if `x > 0`, else `alpha * (e^x - 1)` (Clevert et al. 2015, eq. 15).
    Elu {
        /// Scale for negative x.
        alpha: 1.0
    } = "elu" (elu elu_) {
        takes: Floats,
        autocast: Unchanged,
        value: |x| x.gt_scalar(0i64)?.where_(x, &x.expm1()?.mul_scalar(alpha)?),
        grad: FromInput |x, dy| formulas::elu_grad(x, dy, alpha),
    }
    /// `x * Phi(x)` with the cumulative normal distribution `Phi`: `x/2 * (1 + erf(x / sqrt 2))`
    /// (Hendrycks and Gimpel 2016).
    GeluErf = "gelu_erf" (gelu gelu_) {
        takes: Floats,
        autocast: Unchanged,
        value: |x| x.mul_scalar(0.5)?.mul(&x.mul_scalar(FRAC_1_SQRT_2)?.erf()?.add_scalar(1i64)?),
        grad: FromInput |x, dy| dy.mul(&formulas::gelu_erf_derivative(x)?),
    }
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`, which approximates
    /// [`gelu`](Tensor::gelu).
    GeluTanh = "gelu_tanh" (gelu_tanh gelu_tanh_) {
        takes: Floats,
        autocast: Unchanged,
        value: |x| x.mul_scalar(0.5)?.mul(&formulas::gelu_inner(x)?.tanh()?.add_scalar(1i64)?),
        grad: FromInput |x, dy| dy.mul(&formulas::gelu_tanh_derivative(x)?),
    }
    /// `x * sigmoid(x)`.
    Silu = "silu" (silu silu_) {
        takes: Floats,
        autocast: Unchanged,
        value: |x| x.mul(&x.sigmoid()?),
        grad: FromInput |x, dy| formulas::silu_grad(x, dy),
    }
    /// `log(1 + e^x)`, as `max(x, 0) + log1p(e^-|x|)`.
    Softplus = "softplus" (softplus softplus_) {
        takes: Floats,
        autocast: ToF32,
        value: |x| x.relu()?.add(&x.abs()?.neg()?.exp()?.log1p()?),
        grad: FromInput |x, dy| dy.mul(&x.sigmoid()?),
    }
    /// `min(max(x, low), high)`; NaN stays NaN. Gradient 1 inside and at the bounds, 0 outside.
    /// Integers: bounds must be integers or infinite; a bound outside the range of the dtype is
    /// replaced by the dtype's minimum or maximum.
    Clamp {
        /// Lower bound, possibly -infinity.
        low: 0.0,
        /// Upper bound, possibly infinity.
        high: 1.0
    } = "clamp" (clamp clamp_) {
        takes: Numbers,
        autocast: Unchanged,
        value: |x| formulas::clamp(x, low, high),
        grad: FromInput |x, dy| formulas::clamp_grad(x, dy, low, high),
    }
}

impl UnaryOp {
    /// Returns the name of the function.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the name of the gradient op.
    pub const fn grad_name(self) -> &'static str {
        self.facts().grad_name
    }

    /// Returns whether every backend must implement this function.
    pub const fn is_primitive(self) -> bool {
        self.facts().is_primitive
    }

    /// Returns whether integers are supported in addition to floats.
    pub const fn takes_integers(self) -> bool {
        matches!(self.facts().domain, Domain::Numbers)
    }

    /// Returns whether the derivative is computed from the output instead of the input.
    pub const fn saves_output(self) -> bool {
        matches!(self.facts().derivative, Derivative::FromOutput)
    }

    /// Returns whether the function is piecewise constant, so that its gradient is 0 wherever it
    /// exists.
    pub const fn is_stepwise(self) -> bool {
        matches!(self.facts().derivative, Derivative::Zero)
    }

    /// Returns whether there is a [`UnaryGrad`] of this function. There is none if the gradient is
    /// 0 or does not exist.
    pub const fn has_grad_op(self) -> bool {
        !matches!(self.facts().derivative, Derivative::Zero | Derivative::None)
    }

    /// Returns whether a precision scope computes the function in f32.
    pub(crate) const fn autocasts_to_f32(self) -> bool {
        matches!(self.facts().autocast, Autocast::ToF32)
    }
}

/// The properties of a function other than its formulas.
struct Facts {
    name: &'static str,
    grad_name: &'static str,
    /// Whether every backend must implement it. Otherwise it is composed on backends without a
    /// kernel.
    is_primitive: bool,
    domain: Domain,
    autocast: Autocast,
    derivative: Derivative,
}

/// The input dtypes that a function supports.
enum Domain {
    Floats,
    /// Floats and integers.
    Numbers,
    Bools,
}

/// The effect of a precision scope on the input.
enum Autocast {
    Unchanged,
    ToF32,
}

/// The tensor from which the derivative is computed.
enum Derivative {
    FromInput,
    FromOutput,
    /// The derivative is constant.
    Constant,
    /// The derivative is 0 wherever it exists.
    Zero,
    /// There is no derivative.
    None,
}

/// Pads `constants`, at most two, with zeros.
fn pad_with_zeros(constants: &[f64]) -> [f64; 2] {
    [constants.first().copied().unwrap_or(0.0), constants.get(1).copied().unwrap_or(0.0)]
}

/// `y = f(x)`. Input: x. Output: y, same shape and dtype, may reuse x's buffer. Half precision is
/// computed in f32 and rounded once.
#[derive(Clone, Debug)]
pub struct Unary {
    /// The function.
    pub op: UnaryOp,
}

impl Rule for Unary {
    fn name(&self) -> &'static str {
        self.op.name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count(self.name(), inputs, 1)?;
        let dtype = inputs[0].dtype;
        match self.op {
            UnaryOp::Not => check::dtype("logical_not", "input", &inputs[0], DType::Bool)?,
            UnaryOp::Clamp { low, high } if dtype.is_int() => check_integer_bounds(low, high, dtype)?,
            op if op.takes_integers() && dtype.is_int() => {}
            op if op.takes_integers() && !dtype.is_float() => {
                return Err(Error::dtype(op.name(), "input", dtype, "a number"));
            }
            op => check::float(op.name(), "input", &inputs[0])?,
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), dtype, 0)]))
    }
    fn elementwise(&self, inputs: &[Meta<'_>]) -> Option<DType> {
        match inputs {
            [x] if x.dtype.is_float() && self.op != UnaryOp::Not => Some(x.dtype),
            _ => None,
        }
    }
    fn is_primitive(&self) -> bool {
        self.op.is_primitive()
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let input = &inputs[0];
        let output = compose(self.op, &input.to_accumulator()?)?;
        Ok(vec![output.to_dtype(input.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        match self.op {
            UnaryOp::Not => Differentiability::NonDifferentiable,
            UnaryOp::Neg => Differentiability::Stated(Saves::NOTHING),
            op if op.is_stepwise() => Differentiability::Stated(Saves::NOTHING),
            op if op.saves_output() => Differentiability::Stated(Saves::OUTPUTS),
            _ => Differentiability::Stated(Saves::INPUTS),
        }
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let dx = match self.op {
            UnaryOp::Neg => dy.neg()?,
            op if op.is_stepwise() => dy.zeros_like()?,
            op if op.saves_output() => apply_one(UnaryGrad { op }, &[context.output(0)?, dy])?,
            op => apply_one(UnaryGrad { op }, &[context.input(0)?, dy])?,
        };
        Ok(Grads::from_elem(Some(dx), 1))
    }
}

fn check_integer_bounds(low: f64, high: f64, dtype: DType) -> Result<()> {
    match [low, high].into_iter().find(|bound| bound.is_nan() || (bound.is_finite() && bound.fract() != 0.0))
    {
        Some(bound) => {
            Err(Error::invalid("clamp", text![format!("{bound:?} is not an integer, tensor is "), dtype]))
        }
        None => Ok(()),
    }
}

/// `dx = f'(x) * dy`. Inputs: saved (y if [`UnaryOp::saves_output`], else x), dy. Output: dx, same
/// shape and dtype, may reuse dy's buffer. Floating dtypes only.
#[derive(Clone, Debug)]
pub struct UnaryGrad {
    /// The function that is differentiated.
    pub op: UnaryOp,
}

impl Rule for UnaryGrad {
    fn name(&self) -> &'static str {
        self.op.grad_name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 2)?;
        check::float(name, "input", &inputs[0])?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        check::shape(name, "grad_output", &inputs[1], *inputs[0].shape())?;
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 1)]))
    }
    fn elementwise(&self, inputs: &[Meta<'_>]) -> Option<DType> {
        match inputs {
            [x, dy] if x.dtype.is_float() && x.dtype == dy.dtype => Some(x.dtype),
            _ => None,
        }
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (saved, dy) = (inputs[0].to_accumulator()?, inputs[1].to_accumulator()?);
        let dx = gradient(self.op, &saved, &dy)?;
        Ok(vec![dx.to_dtype(inputs[1].dtype())?])
    }
}

impl Tensor {
    /// Computes `log(1 + e^(beta x)) / beta`: [`softplus`](Tensor::softplus), which approaches
    /// `max(x, 0)` as `beta` increases. Where `beta x` is above `threshold`, the result is `x`,
    /// with gradient 1.
    ///
    /// With an infinite threshold nothing overflows. PyTorch's default is 20.
    ///
    /// # Errors
    /// Same as [`softplus`](Tensor::softplus), and an error if `beta` is not finite and above 0.
    pub fn softplus_with(&self, beta: f64, threshold: f64) -> Result<Tensor> {
        check::float("softplus", "input", &self.meta())?;
        if !(beta.is_finite() && beta > 0.0) {
            return Err(Error::invalid("softplus", format!("beta {beta}, expected a finite number above 0")));
        }
        // In the accumulator dtype: half precision is rounded once, at the end.
        let input = precision::cast_to_f32(self)?;
        let x = input.to_dtype(input.dtype().accumulator())?;
        let scaled = x.mul_scalar(beta)?;
        let y = scaled.softplus()?.div_scalar(beta)?;
        // Above this value the function and its derivative round to x and 1.
        let linear_above = if x.dtype() == DType::F64 { 37.0 } else { 20.0 };
        if threshold == f64::INFINITY || (beta == 1.0 && threshold >= linear_above) {
            return y.to_dtype(input.dtype());
        }
        scaled.detach().gt_scalar(threshold)?.where_(&x, &y)?.to_dtype(input.dtype())
    }
}

/// A unary function, regardless of its constants. Kernels are compiled for it and receive the
/// constants as launch parameters.
#[derive(Clone, Copy)]
pub struct UnaryFunction(pub UnaryOp);

impl PartialEq for UnaryFunction {
    #[inline]
    fn eq(&self, other: &UnaryFunction) -> bool {
        discriminant(&self.0) == discriminant(&other.0)
    }
}

impl Eq for UnaryFunction {}

impl Hash for UnaryFunction {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        discriminant(&self.0).hash(state);
    }
}

impl fmt::Debug for UnaryFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}
