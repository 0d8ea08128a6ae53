//! Functions of one element: their names, their shape rule and their methods. Formulas and derivatives are in `formulas`.

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

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnaryOp {
    /// `-x`. Integers wrap.
    Neg,
    /// `|x|`. Gradient 0 at 0.
    Abs,
    /// -1, 0 or 1; NaN stays. Gradient 0.
    Sign,
    /// `e^x`.
    Exp,
    /// Natural logarithm.
    Log,
    /// `log(1 + x)`, accurate near 0.
    Log1p,
    /// `e^x - 1`, accurate near 0.
    Expm1,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// Sine, x in radians.
    Sin,
    /// Cosine, x in radians.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `max(x, 0)`; NaN stays. Gradient 0 at 0.
    Relu,
    /// Error function.
    Erf,
    /// `x * x`.
    Square,
    /// `1 / x`.
    Recip,
    /// Largest whole number not above x. Gradient 0.
    Floor,
    /// Smallest whole number not below x. Gradient 0.
    Ceil,
    /// Nearest whole number, halves to even. Gradient 0.
    Round,
    /// `!x` of a bool.
    Not,
    /// `x` if `x > 0`, else `slope * x`. Gradient `slope` at 0. Composite.
    LeakyRelu {
        /// Slope for negative x.
        slope: f64,
    },
    /// `x` if `x > 0`, else `alpha * (e^x - 1)` (Clevert et al. 2015, eq. 15). Composite.
    Elu {
        /// Scale for negative x.
        alpha: f64,
    },
    /// `x * Phi(x)` with the exact normal distribution function: `x/2 * (1 + erf(x / sqrt 2))` (Hendrycks and Gimpel 2016). Composite.
    GeluErf,
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`, the tanh form of the same. Composite.
    GeluTanh,
    /// `x * sigmoid(x)`. Composite.
    Silu,
    /// `log(1 + e^x)`, as `max(x, 0) + log1p(e^-|x|)`. Composite.
    Softplus,
    /// `min(max(x, low), high)`; NaN stays. Gradient 1 inside and at the bounds, 0 outside. Integers: bounds are whole
    /// numbers or infinite; one beyond the dtype is the dtype's own extreme. Composite.
    Clamp {
        /// Lower bound, possibly -infinity.
        low: f64,
        /// Upper bound, possibly infinity.
        high: f64,
    },
}

impl UnaryOp {
    /// The table: the compiler asks for a row when a variant is added.
    const fn facts(self) -> Facts {
        use {Derivative::*, Domain::*, Kind::*};
        match self {
            UnaryOp::Neg => Facts("neg", "neg_grad", Primitive, Numbers, Constant),
            UnaryOp::Abs => Facts("abs", "abs_grad", Primitive, Numbers, FromInput),
            UnaryOp::Sign => Facts("sign", "sign_grad", Primitive, Numbers, Zero),
            UnaryOp::Exp => Facts("exp", "exp_grad", Primitive, Floats, FromOutput),
            UnaryOp::Log => Facts("log", "log_grad", Primitive, Floats, FromInput),
            UnaryOp::Log1p => Facts("log1p", "log1p_grad", Primitive, Floats, FromInput),
            UnaryOp::Expm1 => Facts("expm1", "expm1_grad", Primitive, Floats, FromOutput),
            UnaryOp::Sqrt => Facts("sqrt", "sqrt_grad", Primitive, Floats, FromOutput),
            UnaryOp::Rsqrt => Facts("rsqrt", "rsqrt_grad", Primitive, Floats, FromOutput),
            UnaryOp::Sin => Facts("sin", "sin_grad", Primitive, Floats, FromInput),
            UnaryOp::Cos => Facts("cos", "cos_grad", Primitive, Floats, FromInput),
            UnaryOp::Tanh => Facts("tanh", "tanh_grad", Primitive, Floats, FromOutput),
            UnaryOp::Sigmoid => Facts("sigmoid", "sigmoid_grad", Primitive, Floats, FromOutput),
            UnaryOp::Relu => Facts("relu", "relu_grad", Primitive, Numbers, FromOutput),
            UnaryOp::Erf => Facts("erf", "erf_grad", Primitive, Floats, FromInput),
            UnaryOp::Square => Facts("square", "square_grad", Primitive, Numbers, FromInput),
            UnaryOp::Recip => Facts("recip", "recip_grad", Primitive, Floats, FromOutput),
            UnaryOp::Floor => Facts("floor", "floor_grad", Primitive, Floats, Zero),
            UnaryOp::Ceil => Facts("ceil", "ceil_grad", Primitive, Floats, Zero),
            UnaryOp::Round => Facts("round", "round_grad", Primitive, Floats, Zero),
            UnaryOp::Not => Facts("logical_not", "logical_not_grad", Primitive, TruthValues, None),
            UnaryOp::LeakyRelu { .. } => Facts("leaky_relu", "leaky_relu_grad", Composite, Floats, FromInput),
            UnaryOp::Elu { .. } => Facts("elu", "elu_grad", Composite, Floats, FromInput),
            UnaryOp::GeluErf => Facts("gelu_erf", "gelu_erf_grad", Composite, Floats, FromInput),
            UnaryOp::GeluTanh => Facts("gelu_tanh", "gelu_tanh_grad", Composite, Floats, FromInput),
            UnaryOp::Silu => Facts("silu", "silu_grad", Composite, Floats, FromInput),
            UnaryOp::Softplus => Facts("softplus", "softplus_grad", Composite, Floats, FromInput),
            UnaryOp::Clamp { .. } => Facts("clamp", "clamp_grad", Composite, Numbers, FromInput),
        }
    }

    /// The stem.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// The name of the gradient's op.
    pub fn grad_name(self) -> &'static str {
        self.facts().1
    }

    /// Whether this is one of the functions that every backend must have.
    pub fn is_primitive(self) -> bool {
        self.facts().2 == Kind::Primitive
    }

    /// Whether integers are taken as well as floats.
    pub fn takes_integers(self) -> bool {
        self.facts().3 == Domain::Numbers
    }

    /// The numbers that the function has beside x, in the order of its fields; zeros where it has none.
    pub fn constants(self) -> [f64; 2] {
        match self {
            UnaryOp::LeakyRelu { slope } => [slope, 0.0],
            UnaryOp::Elu { alpha } => [alpha, 0.0],
            UnaryOp::Clamp { low, high } => [low, high],
            _ => [0.0; 2],
        }
    }

    /// Whether the derivative is formed from the output (else from the input).
    pub fn saves_output(self) -> bool {
        self.facts().4 == Derivative::FromOutput
    }

    /// Whether the function is constant between jumps, so that its gradient is 0 wherever it exists.
    pub fn is_stepwise(self) -> bool {
        self.facts().4 == Derivative::Zero
    }
}

/// What there is to know of a function besides its formulas: its name, its gradient's, who computes it, what it takes, and what its derivative is formed from.
struct Facts(&'static str, &'static str, Kind, Domain, Derivative);

#[derive(PartialEq)]
enum Kind {
    /// Every backend must have it.
    Primitive,
    /// Composed of others where a backend lacks it: see `formulas::compose`.
    Composite,
}

#[derive(PartialEq)]
enum Domain {
    Floats,
    /// Floats and integers.
    Numbers,
    TruthValues,
}

#[derive(PartialEq)]
enum Derivative {
    FromInput,
    FromOutput,
    /// The same everywhere.
    Constant,
    /// 0 wherever it exists.
    Zero,
    /// There is none.
    None,
}

/// `y = f(x)`. Input: x. Output: y, same shape and dtype, may take x's place. Halves are computed in f32 and rounded once.
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
            UnaryOp::Clamp { low, high } if dtype.is_int() => whole_bounds(low, high, dtype)?,
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
        let output = formulas::compose(self.op, &input.to_accumulator()?)?;
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

fn whole_bounds(low: f64, high: f64, dtype: DType) -> Result<()> {
    match [low, high].into_iter().find(|bound| bound.is_nan() || (bound.is_finite() && bound.fract() != 0.0))
    {
        Some(bound) => {
            Err(Error::invalid("clamp", text![format!("{bound:?} is not a whole number, tensor is "), dtype]))
        }
        None => Ok(()),
    }
}

/// `dx = f'(x) * dy`. Inputs: saved (y if [`UnaryOp::saves_output`], else x), dy. Output: dx, same shape and dtype, may take dy's
/// place. Floating dtypes only.
#[derive(Clone, Debug)]
pub struct UnaryGrad {
    /// The function whose gradient this is.
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
        let dx = formulas::gradient(self.op, &saved, &dy)?;
        Ok(vec![dx.to_dtype(inputs[1].dtype())?])
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident $in_place:ident ($($argument:ident),*) => $op:expr;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// A dtype that the function does not take (see [`UnaryOp`]), no memory.
                #[inline]
                pub fn $name(&self $(, $argument: f64)*) -> Result<Tensor> {
                    apply_one(Unary { op: $op }, &[self])
                }

                #[doc = concat!("In place of this tensor: [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ") and [`apply_into`].")]
                #[inline]
                pub fn $in_place(&self $(, $argument: f64)*) -> Result<()> {
                    apply_into(Unary { op: $op }, &[self], self)
                }
            )*
        }
    };
}

unary_methods! {
    /// `-x`. Integers wrap.
    neg neg_ () => UnaryOp::Neg;
    /// `|x|`. Its gradient at 0 is 0.
    abs abs_ () => UnaryOp::Abs;
    /// -1, 0 or 1. Its gradient is 0.
    sign sign_ () => UnaryOp::Sign;
    /// `e^x`.
    exp exp_ () => UnaryOp::Exp;
    /// Natural logarithm.
    log log_ () => UnaryOp::Log;
    /// `log(1 + x)`, accurate near 0.
    log1p log1p_ () => UnaryOp::Log1p;
    /// `e^x - 1`, accurate near 0.
    expm1 expm1_ () => UnaryOp::Expm1;
    /// Square root.
    sqrt sqrt_ () => UnaryOp::Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt rsqrt_ () => UnaryOp::Rsqrt;
    /// Sine, x in radians.
    sin sin_ () => UnaryOp::Sin;
    /// Cosine, x in radians.
    cos cos_ () => UnaryOp::Cos;
    /// Hyperbolic tangent.
    tanh tanh_ () => UnaryOp::Tanh;
    /// `1 / (1 + e^-x)`.
    sigmoid sigmoid_ () => UnaryOp::Sigmoid;
    /// `max(x, 0)`. Its gradient at 0 is 0.
    relu relu_ () => UnaryOp::Relu;
    /// Error function.
    erf erf_ () => UnaryOp::Erf;
    /// `x * x`.
    square square_ () => UnaryOp::Square;
    /// `1 / x`.
    recip recip_ () => UnaryOp::Recip;
    /// Largest whole number not above x. Its gradient is 0.
    floor floor_ () => UnaryOp::Floor;
    /// Smallest whole number not below x. Its gradient is 0.
    ceil ceil_ () => UnaryOp::Ceil;
    /// Nearest whole number, halves to even. Its gradient is 0.
    round round_ () => UnaryOp::Round;
    /// `!x` of a bool.
    logical_not logical_not_ () => UnaryOp::Not;
    /// `x` if `x > 0`, else `slope * x`.
    leaky_relu leaky_relu_ (slope) => UnaryOp::LeakyRelu { slope };
    /// `x` if `x > 0`, else `alpha * (e^x - 1)` (Clevert et al. 2015, eq. 15).
    elu elu_ (alpha) => UnaryOp::Elu { alpha };
    /// `x/2 * (1 + erf(x / sqrt 2))` (Hendrycks and Gimpel 2016).
    gelu gelu_ () => UnaryOp::GeluErf;
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`, which approximates [`gelu`](Tensor::gelu).
    gelu_tanh gelu_tanh_ () => UnaryOp::GeluTanh;
    /// `x * sigmoid(x)`.
    silu silu_ () => UnaryOp::Silu;
    /// `log(1 + e^x)`.
    softplus softplus_ () => UnaryOp::Softplus;
    /// `min(max(x, low), high)`; a bound may be infinite. Its gradient is 1 at the bounds.
    clamp clamp_ (low, high) => UnaryOp::Clamp { low, high };
}

impl Tensor {
    /// `log(1 + e^(beta x)) / beta`: [`softplus`](Tensor::softplus) that comes the closer to `max(x, 0)` the larger `beta` is.
    ///
    /// PyTorch's `threshold` is not needed: nothing overflows.
    ///
    /// # Errors
    /// As [`softplus`](Tensor::softplus); a `beta` that is not finite and above 0.
    pub fn softplus_with(&self, beta: f64) -> Result<Tensor> {
        check::float("softplus", "input", &self.meta())?;
        if !(beta.is_finite() && beta > 0.0) {
            return Err(Error::invalid("softplus", format!("beta {beta}, expected a finite number above 0")));
        }
        // In the accumulator dtype: halves are rounded once, at the end.
        let input = precision::full(self)?;
        let x = input.to_dtype(input.dtype().accumulator())?;
        x.mul_scalar(beta)?.softplus()?.div_scalar(beta)?.to_dtype(input.dtype())
    }
}
