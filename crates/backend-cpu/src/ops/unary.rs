//! Elementwise functions and their gradients.

use crate::access::Locked;
use crate::elementwise::{Operand, Rhs, map1, map2};
use crate::kernel::Variant;
use crate::number::{Number, Real};
use crate::simd::{Vectorize, each, vectorize};
use crate::threads::Cost;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::unary::{Unary, UnaryGrad, UnaryOp};
use ternion_core::{DType, Error, Op, Result, Scalar};

pub(crate) fn run_unary(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Unary(Unary { op }) = op else { return Err(Error::invalid(op.name(), "is not unary")) };
    match inputs[0].dtype {
        DType::F64 => unary_float::<f64>(*op, inputs[0], outputs[0]),
        DType::F32 | DType::F16 | DType::BF16 => unary_float::<f32>(*op, inputs[0], outputs[0]),
        DType::I64 => unary_integer::<i64>(*op, inputs[0], outputs[0]),
        DType::I32 => unary_integer::<i32>(*op, inputs[0], outputs[0]),
        DType::I16 => unary_integer::<i16>(*op, inputs[0], outputs[0]),
        DType::I8 => unary_integer::<i8>(*op, inputs[0], outputs[0]),
        DType::U64 => unary_integer::<u64>(*op, inputs[0], outputs[0]),
        DType::U32 => unary_integer::<u32>(*op, inputs[0], outputs[0]),
        DType::U16 => unary_integer::<u16>(*op, inputs[0], outputs[0]),
        DType::U8 | DType::Bool => unary_integer::<u8>(*op, inputs[0], outputs[0]),
    }
}

/// Returns the cost of an element of `op`.
pub(crate) fn cost(op: UnaryOp) -> Cost {
    use UnaryOp::*;
    match op {
        Neg
        | Abs
        | Sign
        | Sqrt
        | Relu
        | Square
        | Recip
        | Floor
        | Ceil
        | Round
        | Not
        | LeakyRelu { .. }
        | Clamp { .. } => Cost::Light,
        _ => Cost::Heavy,
    }
}

fn unary_float<T: Real>(op: UnaryOp, x: Locked<'_>, y: Locked<'_>) -> Result<()> {
    let (x, y) = (Operand::<T>::new(op.name(), x)?, Operand::<T>::new(op.name(), y)?);
    map1(cost(op), x, y, &|x, y| apply(op, x, y));
    Ok(())
}

fn unary_integer<T: Number>(op: UnaryOp, x: Locked<'_>, y: Locked<'_>) -> Result<()> {
    if !op.takes_integers() && op != UnaryOp::Not {
        return Err(Error::dtype(op.name(), "input", x.dtype, "a floating dtype"));
    }
    let (x, y) = (Operand::<T>::new(op.name(), x)?, Operand::<T>::new(op.name(), y)?);
    map1(Cost::Light, x, y, &|x, y| apply_integer(op, x, y));
    Ok(())
}

/// Computes `y = op(x)`.
pub(crate) fn apply<T: Real>(op: UnaryOp, x: &[T], y: &mut [T]) {
    vectorize(Apply { op, x, y });
}

/// Declares the loops of each function over `$x` into `$y`, and of its gradient over the saved
/// value and `$dy` into `$dx`. The saved value is y if [`UnaryOp::saves_output`], otherwise x.
macro_rules! loops {
    (
        ($x:ident => $y:ident), ($saved:ident, $dy:ident => $dx:ident):
        $($function:pat => $value:expr, $gradient:expr;)*
    ) => {
        struct Apply<'a, T> {
            op: UnaryOp,
            x: &'a [T],
            y: &'a mut [T],
        }

        impl<T: Real> Vectorize for Apply<'_, T> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                let ($x, $y) = (self.x, self.y);
                match self.op {
                    $($function => $value,)*
                }
            }
        }

        struct Gradient<'a, T> {
            op: UnaryOp,
            saved: &'a [T],
            dy: &'a [T],
            dx: &'a mut [T],
        }

        impl<T: Real> Vectorize for Gradient<'_, T> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                let ($saved, $dy, $dx) = (self.saved, self.dy, self.dx);
                match self.op {
                    $($function => $gradient,)*
                }
            }
        }
    };
}

loops! {
    (x => y), (s, dy => dx):
    UnaryOp::Neg => each!(x => y, |x| x.neg()), each!(dy => dx, |d| d.neg());
    UnaryOp::Abs => each!(x => y, |x| x.abs()), each!(s, dy => dx, |x, d| x.sign().mul(d));
    UnaryOp::Sign => each!(x => y, |x| x.sign()), dx.fill(T::ZERO);
    UnaryOp::Exp => each!(x => y, |x| x.exp()), each!(s, dy => dx, |y, d| y.mul(d));
    UnaryOp::Log => each!(x => y, |x| x.log()), each!(s, dy => dx, |x, d| d.div(x));
    UnaryOp::Log1p => each!(x => y, |x| x.log1p()), each!(s, dy => dx, |x, d| d.div(x.add(T::ONE)));
    UnaryOp::Expm1 => each!(x => y, |x| x.expm1()), each!(s, dy => dx, |y, d| y.add(T::ONE).mul(d));
    UnaryOp::Sqrt => each!(x => y, |x| x.sqrt()), each!(s, dy => dx, |y, d| T::real(0.5).mul(d).div(y));
    UnaryOp::Rsqrt =>
        each!(x => y, |x| T::ONE.div(x.sqrt())),
        each!(s, dy => dx, |y, d| T::real(0.5).neg().mul(y.mul(y).mul(y)).mul(d));
    UnaryOp::Sin => each!(x => y, |x| x.sin()), each!(s, dy => dx, |x, d| x.cos().mul(d));
    UnaryOp::Cos => each!(x => y, |x| x.cos()), each!(s, dy => dx, |x, d| x.sin().neg().mul(d));
    UnaryOp::Tanh => each!(x => y, |x| x.tanh()), each!(s, dy => dx, |y, d| T::ONE.sub(y.mul(y)).mul(d));
    UnaryOp::Sigmoid =>
        each!(x => y, |x| x.sigmoid()),
        each!(s, dy => dx, |y, d| y.mul(T::ONE.sub(y)).mul(d));
    UnaryOp::Relu =>
        each!(x => y, |x| x.maximum(T::ZERO)),
        each!(s, dy => dx, |y, d| if y > T::ZERO { d } else { T::ZERO });
    UnaryOp::Erf =>
        each!(x => y, |x| x.erf()),
        each!(s, dy => dx, |x, d| T::real(ERF_GRAD_AT_0).mul(x.mul(x).neg().exp()).mul(d));
    UnaryOp::Square => each!(x => y, |x| x.mul(x)), each!(s, dy => dx, |x, d| T::real(2.0).mul(x.mul(d)));
    UnaryOp::Recip => each!(x => y, |x| T::ONE.div(x)), each!(s, dy => dx, |y, d| y.mul(y).neg().mul(d));
    UnaryOp::Floor => each!(x => y, |x| x.floor()), dx.fill(T::ZERO);
    UnaryOp::Ceil => each!(x => y, |x| x.ceil()), dx.fill(T::ZERO);
    UnaryOp::Round => each!(x => y, |x| x.round()), dx.fill(T::ZERO);
    UnaryOp::Not => each!(x => y, |x| if x == T::ZERO { T::ONE } else { T::ZERO }), dx.fill(T::ZERO);
    UnaryOp::LeakyRelu { slope } =>
        {
            let slope = T::real(slope);
            each!(x => y, |x| if x > T::ZERO { x } else { slope.mul(x) })
        },
        {
            let slope = T::real(slope);
            each!(s, dy => dx, |x, d| if x > T::ZERO { d } else { slope.mul(d) })
        };
    UnaryOp::Elu { alpha } =>
        {
            let alpha = T::real(alpha);
            each!(x => y, |x| if x > T::ZERO { x } else { alpha.mul(x.expm1()) })
        },
        {
            let alpha = T::real(alpha);
            each!(s, dy => dx, |x, d| if x > T::ZERO { d } else { alpha.mul(x.exp()).mul(d) })
        };
    UnaryOp::GeluErf =>
        each!(x => y, |x| x.mul(x.normal_cdf())),
        each!(s, dy => dx, |x, d| gelu_erf_grad(x).mul(d));
    UnaryOp::GeluTanh =>
        each!(x => y, |x| T::real(0.5).mul(x).mul(T::ONE.add(gelu_inner(x).tanh()))),
        each!(s, dy => dx, |x, d| gelu_tanh_grad(x).mul(d));
    UnaryOp::Silu =>
        each!(x => y, |x| x.mul(x.sigmoid())),
        each!(s, dy => dx, |x, d| silu_grad(x).mul(d));
    UnaryOp::Softplus => each!(x => y, |x| softplus(x)), each!(s, dy => dx, |x, d| x.sigmoid().mul(d));
    UnaryOp::Clamp { low, high } =>
        {
            let (low, high) = (T::real(low), T::real(high));
            each!(x => y, |x| x.maximum(low).minimum(high))
        },
        {
            let (low, high) = (T::real(low), T::real(high));
            each!(s, dy => dx, |x, d| if x >= low && x <= high { d } else { T::ZERO })
        };
}

/// Computes `sqrt(2/pi) * (x + 0.044715 x^3)`.
#[inline(always)]
fn gelu_inner<T: Real>(x: T) -> T {
    let cube = x.mul(x).mul(x);
    T::real(SQRT_2_OVER_PI).mul(x.add(T::real(GELU_CUBIC).mul(cube)))
}

/// Computes `max(x, 0) + log(1 + e^-|x|)`.
#[inline(always)]
fn softplus<T: Real>(x: T) -> T {
    x.maximum(T::ZERO).add(x.abs().neg().exp().log1p())
}

const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
const GELU_CUBIC: f64 = 0.044_715;
/// `2 / sqrt(pi)`: the derivative of the error function at 0.
const ERF_GRAD_AT_0: f64 = std::f64::consts::FRAC_2_SQRT_PI;

fn apply_integer<T: Number>(op: UnaryOp, x: &[T], y: &mut [T]) {
    vectorize(ApplyInteger { op, x, y });
}

struct ApplyInteger<'a, T> {
    op: UnaryOp,
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Number> Vectorize for ApplyInteger<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (a, y) = (self.x, self.y);
        match self.op {
            UnaryOp::Neg => each!(a => y, |x| x.neg()),
            UnaryOp::Abs => each!(a => y, |x| x.abs()),
            UnaryOp::Sign => each!(a => y, |x| x.sign()),
            UnaryOp::Square => each!(a => y, |x| x.mul(x)),
            UnaryOp::Relu => each!(a => y, |x| x.maximum(T::ZERO)),
            UnaryOp::Not => each!(a => y, |x| if x == T::ZERO { T::ONE } else { T::ZERO }),
            UnaryOp::Clamp { low, high } => {
                let (low, high) = (T::from_number(Scalar::Float(low)), T::from_number(Scalar::Float(high)));
                each!(a => y, |x| x.maximum(low).minimum(high))
            }
            op => unreachable!("{} of integers was rejected before", op.name()),
        }
    }
}

/// Supports every gradient of a floating function.
pub(crate) fn select_unary_grad(payload: &UnaryGrad, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    match payload.op {
        UnaryOp::Not => Err(Unsupported::because("a bool has no gradient")),
        _ => Ok(Variant { plan: Plan::like(0), run: run_unary_grad }),
    }
}

fn run_unary_grad(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::UnaryGrad(UnaryGrad { op }) = op else {
        return Err(Error::invalid(op.name(), "is not a gradient of a unary function"));
    };
    match inputs[0].dtype {
        DType::F64 => gradient::<f64>(*op, inputs, outputs[0]),
        _ => gradient::<f32>(*op, inputs, outputs[0]),
    }
}

fn gradient<T: Real>(op: UnaryOp, inputs: &[Locked<'_>], dx: Locked<'_>) -> Result<()> {
    let name = op.grad_name();
    let (saved, dy) = (Operand::<T>::new(name, inputs[0])?, Operand::<T>::new(name, inputs[1])?);
    let cost = if op.saves_output() { Cost::Light } else { cost(op) };
    map2(cost, saved, Rhs::Tensor(dy), Operand::<T>::new(name, dx)?, &|saved, dy, dx| {
        vectorize(Gradient { op, saved, dy, dx })
    });
    Ok(())
}

/// Clamps x to -40..40. Beyond 40 the normal density is 0 and tanh is 1, also in f64: gradients
/// have reached their limits, and `x^2` must not overflow.
#[inline(always)]
fn gelu_bounded<T: Real>(x: T) -> T {
    x.maximum(T::real(-40.0)).minimum(T::real(40.0))
}

/// Computes `Phi(x) + x * phi(x)`.
#[inline(always)]
fn gelu_erf_grad<T: Real>(x: T) -> T {
    let x = gelu_bounded(x);
    let (cdf, pdf) = x.normal_cdf_and_pdf();
    cdf.add(x.mul(pdf))
}

/// Computes `(1 + t)/2 + x/2 * (1 - t^2) * u'` with `t = tanh(u)` and `u = gelu_inner(x)`.
#[inline(always)]
fn gelu_tanh_grad<T: Real>(x: T) -> T {
    let x = gelu_bounded(x);
    let (half, tanh) = (T::real(0.5), gelu_inner(x).tanh());
    let inner_grad = T::real(SQRT_2_OVER_PI).mul(T::ONE.add(T::real(3.0 * GELU_CUBIC).mul(x).mul(x)));
    let chain = T::ONE.sub(tanh.mul(tanh)).mul(inner_grad);
    half.mul(T::ONE.add(tanh)).add(half.mul(x).mul(chain))
}

/// Computes `s * (1 + x * (1 - s))` with `s = sigmoid(x)`.
#[inline(always)]
fn silu_grad<T: Real>(x: T) -> T {
    let sigmoid = x.sigmoid();
    sigmoid.mul(T::ONE.add(x.mul(T::ONE.sub(sigmoid))))
}
