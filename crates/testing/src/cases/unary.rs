//! Rows of elementwise functions, of their derivatives as separate ops, and of their in-place
//! variants.

use crate::oracle::erf;
use crate::prelude::*;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};
use ternion_core::dispatch::apply_one;
use ternion_core::no_grad;
use ternion_core::ops::unary::{UnaryGrad, UnaryOp};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for function in functions() {
        rows.push(function.forward());
        rows.push(function.in_place());
        rows.extend(function.derivative_rows());
    }
    rows.push(softplus_with_beta());
    rows.extend(softplus_above_a_threshold());
    rows.extend(integer_rows());
    rows.extend(accuracy_rows());
    rows.extend(rejected_rows());
    rows
}

/// A function with its definition and that of its derivative.
struct Function {
    op: UnaryOp,
    parameters: &'static str,
    values: Values,
    run: fn(&Tensor) -> Result<Tensor>,
    in_place: fn(&Tensor) -> Result<()>,
    definition: fn(f64) -> f64,
    /// The distribution of the saved value (y where [`UnaryOp::saves_output`], else x), and the
    /// derivative as a function of it.
    derivative: (Values, fn(f64) -> f64),
}

impl Function {
    fn forward(&self) -> OpCase {
        let (run, definition) = (self.run, self.definition);
        OpCase::new(self.op.name(), self.parameters)
            .input(self.values.clone())
            .shapes([&[], &[0, 3], &[13], &[7, 33], &[2, 5, 3]])
            .double_backward()
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
            .adversarial("special", [specials()])
            .perf([&[8192, 1024]])
    }

    fn in_place(&self) -> OpCase {
        let (in_place, definition) = (self.in_place, self.definition);
        OpCase::new(self.op.name(), format!("{}{}in place", self.parameters, comma(self.parameters)))
            .input(self.values.clone())
            .shapes([&[], &[5, 7], &[2, 3, 5]])
            .forward_only("changes its input")
            .run(move |x| in_strided_place(&x[0], in_place))
            .oracle(move |x| x[0].map(definition))
    }

    /// Returns rows of the derivative as an op: for inputs like the function's, and for large ones,
    /// where `0 * inf` may occur.
    fn derivative_rows(&self) -> [OpCase; 2] {
        let (saved, derivative) = self.derivative.clone();
        let op = self.op;
        let row = |parameters: String, saved: Values| {
            OpCase::new(op.grad_name(), parameters)
                .input(saved)
                .input(Uniform(-2.0, 2.0))
                .run(move |x| apply_one(UnaryGrad { op }, &[&x[0], &x[1]]))
                .oracle(move |x| x[0].zip(&x[1], |saved, dy| derivative(saved) * dy))
        };
        let near = row(self.parameters.into(), saved)
            .shapes([&[], &[0, 3], &[7, 33], &[2, 5, 3]])
            .adversarial("special", [large_values(), Array::full(&[3, 4], 0.5)]);
        let largest = f64::from(f32::MAX);
        let far = row(
            format!("{}{}far out", self.parameters, comma(self.parameters)),
            Fixed(vec![1e30, -1e30, largest, -largest, 1e19, -1e19]),
        );
        [near, far.shapes([&[6]]).dtypes(&[F64, F32]).forward_only("differences do not reach so far")]
    }
}

/// Numbers that every floating dtype represents, and NaN.
fn large_values() -> Array {
    let values = [f64::NAN, 0.0, -0.0, 60000.0, -60000.0, 300.0, -300.0, 88.5, -88.5, 20.0, -20.0, 6e-8];
    Array::new(&[3, 4], values.to_vec())
}

fn comma(parameters: &str) -> &'static str {
    if parameters.is_empty() { "" } else { ", " }
}

/// Returns a copy of `x` with its axes in reverse order in memory, changed by `f`.
pub(super) fn in_strided_place(x: &Tensor, f: impl Fn(&Tensor) -> Result<()>) -> Result<Tensor> {
    no_grad(|| {
        let reversed: Vec<isize> = (0..x.rank() as isize).rev().collect();
        let y = x.detach().permute(reversed.as_slice())?.copy()?.permute(reversed.as_slice())?;
        f(&y)?;
        Ok(y)
    })
}

/// Typical failures: NaN, the ends of the range, both zeros, large, small and subnormal numbers.
fn specials() -> Array {
    let values = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1e30,
        -1e30,
        60000.0,
        -60000.0,
        1e-30,
        -1e-30,
        f64::from(f32::MAX),
        f64::from(f32::MIN),
        f64::from(f32::MIN_POSITIVE),
        88.5,
        -88.5,
        20.0,
        -20.0,
        1.0,
        -1.0,
    ];
    Array::new(&[4, 5], values.to_vec())
}

/// Away from integers and from the midpoints between them.
fn between_steps() -> Values {
    Values::custom(|shapes, position, rng| {
        let fraction = |rng: &mut Rng| rng.uniform(0.1, 0.4) + 0.5 * rng.integer(0, 1) as f64;
        (0..shapes[position].iter().product()).map(|_| rng.integer(-5, 4) as f64 + fraction(rng)).collect()
    })
}

/// On both sides of the bounds of clamp, and away from them.
pub(super) fn around_bounds() -> Values {
    Values::custom(|shapes, position, rng| {
        let value = |rng: &mut Rng| match rng.integer(0, 2) {
            0 => rng.uniform(-3.0, -0.85),
            1 => rng.uniform(-0.65, 1.15),
            _ => rng.uniform(1.35, 3.0),
        };
        (0..shapes[position].iter().product()).map(|_| value(rng)).collect()
    })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { 1f64.copysign(x) }
}

/// Returns the larger of x and 0; NaN is preserved (`f64::max` would drop it).
fn relu(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// `sqrt(2/pi) (x + 0.044715 x^3)`: Hendrycks and Gimpel 2016.
fn gelu_inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// The standard normal density.
fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// One entry per function: op, parameters, values, the methods, the definition, the derivative as a
/// function of the saved value.
fn functions() -> Vec<Function> {
    macro_rules! function {
        ($op:expr, $parameters:literal, $values:expr, |$t:ident| $run:expr, $in_place:expr, |$x:ident| $definition:expr, $derivative:expr) => {
            Function {
                op: $op,
                parameters: $parameters,
                values: $values,
                run: |$t| $run,
                in_place: |$t| $in_place,
                definition: |$x| $definition,
                derivative: $derivative,
            }
        };
    }
    vec![
        function!(
            UnaryOp::Neg,
            "",
            Uniform(-4.0, 4.0),
            |t| t.neg(),
            t.neg_(),
            |x| -x,
            (Uniform(-4.0, 4.0), |_| -1.0)
        ),
        function!(UnaryOp::Abs, "", AwayFrom(0.1), |t| t.abs(), t.abs_(), |x| x.abs(), (AwayFrom(0.1), sign)),
        function!(
            UnaryOp::Sign,
            "",
            AwayFrom(0.1),
            |t| t.sign(),
            t.sign_(),
            |x| sign(x),
            (AwayFrom(0.1), |_| 0.0)
        ),
        function!(
            UnaryOp::Exp,
            "",
            Uniform(-3.0, 3.0),
            |t| t.exp(),
            t.exp_(),
            |x| x.exp(),
            (Uniform(0.05, 20.0), |y| y)
        ),
        function!(
            UnaryOp::Log,
            "",
            Uniform(0.2, 5.0),
            |t| t.log(),
            t.log_(),
            |x| x.ln(),
            (Uniform(0.3, 5.0), |x| 1.0 / x)
        ),
        function!(
            UnaryOp::Log1p,
            "",
            Uniform(-0.7, 4.0),
            |t| t.log1p(),
            t.log1p_(),
            |x| x.ln_1p(),
            (Uniform(-0.7, 4.0), |x| 1.0 / (1.0 + x))
        ),
        function!(
            UnaryOp::Expm1,
            "",
            Uniform(-3.0, 3.0),
            |t| t.expm1(),
            t.expm1_(),
            |x| x.exp_m1(),
            (Uniform(-0.9, 20.0), |y| y + 1.0)
        ),
        function!(
            UnaryOp::Sqrt,
            "",
            Uniform(0.3, 5.0),
            |t| t.sqrt(),
            t.sqrt_(),
            |x| x.sqrt(),
            (Uniform(0.5, 2.5), |y| 0.5 / y)
        ),
        function!(
            UnaryOp::Rsqrt,
            "",
            Uniform(0.3, 5.0),
            |t| t.rsqrt(),
            t.rsqrt_(),
            |x| 1.0 / x.sqrt(),
            (Uniform(0.4, 2.0), |y| -0.5 * y.powi(3))
        ),
        function!(
            UnaryOp::Sin,
            "",
            Uniform(-6.0, 6.0),
            |t| t.sin(),
            t.sin_(),
            |x| x.sin(),
            (Uniform(-6.0, 6.0), |x| x.cos())
        ),
        function!(
            UnaryOp::Cos,
            "",
            Uniform(-6.0, 6.0),
            |t| t.cos(),
            t.cos_(),
            |x| x.cos(),
            (Uniform(-6.0, 6.0), |x| -x.sin())
        ),
        function!(
            UnaryOp::Tanh,
            "",
            Uniform(-3.0, 3.0),
            |t| t.tanh(),
            t.tanh_(),
            |x| x.tanh(),
            (Uniform(-1.0, 1.0), |y| 1.0 - y * y)
        ),
        // In half precision the saved y is rounded: above 4 hardly a digit of its distance from 1
        // is left.
        function!(
            UnaryOp::Sigmoid,
            "",
            Uniform(-4.0, 4.0),
            |t| t.sigmoid(),
            t.sigmoid_(),
            |x| sigmoid(x),
            (Uniform(0.0, 1.0), |y| y * (1.0 - y))
        ),
        function!(
            UnaryOp::Relu,
            "",
            AwayFrom(0.1),
            |t| t.relu(),
            t.relu_(),
            |x| relu(x),
            (AwayFrom(0.1), |y| f64::from(y > 0.0))
        ),
        function!(
            UnaryOp::Erf,
            "",
            Uniform(-3.0, 3.0),
            |t| t.erf(),
            t.erf_(),
            |x| erf(x),
            (Uniform(-3.0, 3.0), |x| FRAC_2_SQRT_PI * (-x * x).exp())
        ),
        function!(
            UnaryOp::Square,
            "",
            Uniform(-4.0, 4.0),
            |t| t.square(),
            t.square_(),
            |x| x * x,
            (Uniform(-4.0, 4.0), |x| 2.0 * x)
        ),
        function!(
            UnaryOp::Recip,
            "",
            AwayFrom(0.5),
            |t| t.recip(),
            t.recip_(),
            |x| 1.0 / x,
            (AwayFrom(0.3), |y| -y * y)
        ),
        function!(
            UnaryOp::Floor,
            "",
            between_steps(),
            |t| t.floor(),
            t.floor_(),
            |x| x.floor(),
            (between_steps(), |_| 0.0)
        ),
        function!(
            UnaryOp::Ceil,
            "",
            between_steps(),
            |t| t.ceil(),
            t.ceil_(),
            |x| x.ceil(),
            (between_steps(), |_| 0.0)
        ),
        function!(
            UnaryOp::Round,
            "",
            between_steps(),
            |t| t.round(),
            t.round_(),
            |x| x.round_ties_even(),
            (between_steps(), |_| 0.0)
        ),
        function!(
            UnaryOp::LeakyRelu { slope: 0.25 },
            "slope=0.25",
            AwayFrom(0.1),
            |t| t.leaky_relu(0.25),
            t.leaky_relu_(0.25),
            |x| if x > 0.0 { x } else { 0.25 * x },
            (AwayFrom(0.1), |x| if x > 0.0 { 1.0 } else { 0.25 })
        ),
        function!(
            UnaryOp::Elu { alpha: 1.25 },
            "alpha=1.25",
            AwayFrom(0.1),
            |t| t.elu(1.25),
            t.elu_(1.25),
            |x| if x > 0.0 { x } else { 1.25 * x.exp_m1() },
            (AwayFrom(0.1), |x| if x > 0.0 { 1.0 } else { 1.25 * x.exp() })
        ),
        function!(
            UnaryOp::GeluErf,
            "",
            Uniform(-4.0, 4.0),
            |t| t.gelu(),
            t.gelu_(),
            |x| x / 2.0 * (1.0 + erf(x * FRAC_1_SQRT_2)),
            (Uniform(-4.0, 4.0), |x| 0.5 * (1.0 + erf(x * FRAC_1_SQRT_2)) + x * normal_density(x))
        ),
        function!(
            UnaryOp::GeluTanh,
            "",
            Uniform(-4.0, 4.0),
            |t| t.gelu_tanh(),
            t.gelu_tanh_(),
            |x| x / 2.0 * (1.0 + gelu_inner(x).tanh()),
            (Uniform(-4.0, 4.0), |x| {
                let t = gelu_inner(x).tanh();
                let slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope
            })
        ),
        function!(
            UnaryOp::Silu,
            "",
            Uniform(-6.0, 6.0),
            |t| t.silu(),
            t.silu_(),
            |x| x * sigmoid(x),
            (Uniform(-6.0, 6.0), |x| sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))))
        ),
        function!(
            UnaryOp::Softplus,
            "",
            Uniform(-6.0, 6.0),
            |t| t.softplus(),
            t.softplus_(),
            |x| relu(x) + (-x.abs()).exp().ln_1p(),
            (Uniform(-6.0, 6.0), sigmoid)
        ),
        function!(
            UnaryOp::Clamp { low: -0.75, high: 1.25 },
            "low=-0.75 high=1.25",
            around_bounds(),
            |t| t.clamp(-0.75, 1.25),
            t.clamp_(-0.75, 1.25),
            |x| clamp(x, -0.75, 1.25),
            (around_bounds(), |x| f64::from((-0.75..=1.25).contains(&x)))
        ),
    ]
}

/// Wraps `value` to the bits of an integer dtype.
pub(crate) fn wrap(dtype: DType, value: f64) -> f64 {
    let modulus = 256f64.powi(dtype.size() as i32);
    match dtype {
        I64 => value as i128 as i64 as f64,
        U64 => value as i128 as u64 as f64,
        U32 | U16 | U8 => value.rem_euclid(modulus),
        // Does not add half of the range first: that sum is rounded if the value is large.
        I32 | I16 | I8 => match value.rem_euclid(modulus) {
            bits if bits >= modulus / 2.0 => bits - modulus,
            bits => bits,
        },
        _ => value,
    }
}

/// Functions of integers, with values at the ends of their range.
fn integer_rows() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64);
    let cases: [Case; 6] = [
        ("neg", |t| t.neg(), |x| -x),
        ("abs", |t| t.abs(), f64::abs),
        ("sign", |t| t.sign(), sign),
        ("square", |t| t.square(), |x| x * x),
        ("relu", |t| t.relu(), relu),
        ("clamp", |t| t.clamp(-2.0, 3.0), |x| clamp(x, -2.0, 3.0)),
    ];
    let mut rows: Vec<OpCase> = cases
        .into_iter()
        .map(|(op, run, definition)| {
            OpCase::new(op, "integers")
                .input(Integers(-9, 9))
                .shapes([&[], &[0], &[7, 33], &[2, 5, 3]])
                .dtypes(INTEGERS)
                .also(UNSIGNED)
                .run(move |x| run(&x[0]))
                .oracle_for(move |dtype, x| x[0].map(|x| wrap(dtype, definition(x))))
        })
        .collect();
    for (dtype, least) in [(I32, f64::from(i32::MIN)), (I16, f64::from(i16::MIN)), (I8, f64::from(i8::MIN))] {
        rows.push(
            OpCase::new("neg", format!("wraps {dtype}"))
                .input(Fixed(vec![least, -least - 1.0, -1.0, 11.0]))
                .shapes([&[4]])
                .dtypes(&[dtype])
                .run(|x| Ok(vec![x[0].neg()?, x[0].abs()?, x[0].sign()?]))
                .oracle_for(|dtype, x| {
                    let forms: [fn(f64) -> f64; 3] = [|x| -x, f64::abs, sign];
                    forms.map(|form| x[0].map(|x| wrap(dtype, form(x)))).to_vec()
                }),
        );
    }
    rows.push(
        OpCase::new("clamp", "integers, one side")
            .input(Integers(-9, 9))
            .shapes([&[13]])
            .dtypes(INTEGERS)
            .also(UNSIGNED)
            .run(|x| {
                Ok(vec![
                    x[0].clamp(f64::NEG_INFINITY, 4.0)?,
                    x[0].clamp(2.0, f64::INFINITY)?,
                    x[0].clamp(-1e30, 1e30)?,
                ])
            })
            .oracle(|x| vec![x[0].map(|x| x.min(4.0)), x[0].map(|x| x.max(2.0)), x[0].clone()]),
    );
    rows.push(
        OpCase::new("logical_not", "")
            .input(Bools)
            .shapes([&[], &[0], &[7, 33], &[2, 5, 3]])
            .dtypes(BOOL)
            .run(|x| Ok(vec![x[0].logical_not()?, in_strided_place(&x[0], |t| t.logical_not_())?]))
            .oracle(|x| vec![x[0].map(|x| 1.0 - x), x[0].map(|x| 1.0 - x)]),
    );
    rows
}

fn softplus_with_beta() -> OpCase {
    OpCase::new("softplus", "beta=2.5")
        .input(Uniform(-6.0, 6.0))
        .shapes([&[], &[7, 33]])
        .double_backward()
        .run(|x| x[0].softplus_with(2.5, f64::INFINITY))
        .oracle(|x| x[0].map(|x| x.max(0.0) + (-2.5 * x.abs()).exp().ln_1p() / 2.5))
        .adversarial("large", [Array::new(&[3], vec![60000.0, -60000.0, f64::INFINITY])])
        .rejects("softplus: beta 0, expected a finite number above 0", |device| {
            Tensor::zeros([1], F32, device)?.softplus_with(0.0, 20.0)
        })
        .rejects("softplus: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([1], I64, device)?.softplus_with(2.0, 20.0)
        })
}

/// The function is the identity above a threshold, which differences do not cross.
fn softplus_above_a_threshold() -> Vec<OpCase> {
    let row = |beta: f64, threshold: f64, values: Values| {
        OpCase::new("softplus", format!("beta={beta} threshold={threshold}"))
            .input(values)
            .shapes([&[7, 33]])
            .double_backward()
            .run(move |x| x[0].softplus_with(beta, threshold))
            .oracle(move |x| x[0].map(|x| if beta * x > threshold { x } else { (beta * x).exp().ln_1p() / beta }))
    };
    vec![
        row(1.0, 0.0, AwayFrom(0.5)),
        row(2.0, 0.0, AwayFrom(0.5)).adversarial("special", [Array::new(&[4], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e4])]),
        // The neglected term is below f64's rounding error.
        row(1.0, 20.0, Uniform(21.0, 30.0)).exact(),
    ]
}

/// Where a naive formula loses its digits: near zero, far from it, and derivatives at kinks and
/// beyond the range of `e^x`.
fn accuracy_rows() -> Vec<OpCase> {
    let tiny = || {
        Values::custom(|shapes, position, rng| {
            (0..shapes[position].iter().product())
                .map(|_| rng.sign() * 10f64.powf(rng.uniform(-6.0, -2.0)))
                .collect()
        })
    };
    let precise = |op, run: fn(&Tensor) -> Result<Tensor>, definition: fn(f64) -> f64| {
        OpCase::new(op, "near 0")
            .input(tiny())
            .shapes([&[61]])
            .f32_limit(1e-10, 1e-6)
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
    };
    let far = |op, run: fn(&Tensor) -> Result<Tensor>, definition: fn(f64) -> f64| {
        OpCase::new(op, "large angles")
            .input(Values::custom(|shapes, position, rng| {
                (0..shapes[position].iter().product())
                    .map(|_| rng.sign() * 10f64.powf(rng.uniform(1.0, 4.7)))
                    .collect()
            }))
            .shapes([&[61]])
            .forward_only("differences of the oracle lose their digits")
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
    };
    let mut rows = vec![
        precise("log1p", |t| t.log1p(), f64::ln_1p),
        precise("expm1", |t| t.expm1(), f64::exp_m1),
        precise("tanh", |t| t.tanh(), f64::tanh),
        precise("erf", |t| t.erf(), erf),
        precise("sin", |t| t.sin(), f64::sin),
        far("sin", |t| t.sin(), f64::sin),
        far("cos", |t| t.cos(), f64::cos),
    ];
    rows.extend(grad_rows());
    rows
}

/// Returns the first and second derivatives of an elementwise function by two backward passes.
pub(super) fn first_and_second_derivatives(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    use ternion_core::{GradOptions, enable_grad, grad};
    enable_grad(|| {
        let x = x.detach().requires_grad()?;
        let y = f(&x)?;
        let options = GradOptions { create_graph: true, allow_unused: true, ..Default::default() };
        let first = grad(&[y.clone()], &[x.clone()], &[y.ones_like()?.detach()], options)?.remove(0);
        let first = first.map_or_else(|| x.detach().zeros_like(), Ok)?;
        let second = grad(&[first.clone()], &[x.clone()], &[first.ones_like()?.detach()], options)?.remove(0);
        let second = second.map_or_else(|| x.detach().zeros_like(), Ok)?;
        Ok(vec![first.detach(), second.detach()])
    })
}

/// Derivatives where differences cannot determine them: at kinks by convention, and where `e^x`
/// overflows.
fn grad_rows() -> Vec<OpCase> {
    type Case = (UnaryOp, Vec<f64>, fn(f64) -> f64, fn(f64) -> f64);
    let zero: fn(f64) -> f64 = |_| 0.0;
    let ends = || vec![-1e4, -200.0, -100.0, 100.0, 200.0, 1e4];
    let step: fn(f64) -> f64 = |x| f64::from(x > 0.0);
    let cases: Vec<Case> = vec![
        (UnaryOp::Abs, vec![-2.0, -0.0, 0.0, 3.0], sign, zero),
        (UnaryOp::Sign, vec![-2.0, 0.0, 3.0], zero, zero),
        (UnaryOp::Floor, vec![-2.0, 0.0, 3.0], zero, zero),
        (UnaryOp::Ceil, vec![-2.0, 0.0, 3.0], zero, zero),
        (UnaryOp::Round, vec![-2.5, 0.5, 3.0], zero, zero),
        (UnaryOp::Relu, vec![-2.0, 0.0, 3.0], step, zero),
        (
            UnaryOp::LeakyRelu { slope: 0.25 },
            vec![-2.0, 0.0, 3.0],
            |x| if x > 0.0 { 1.0 } else { 0.25 },
            zero,
        ),
        (
            UnaryOp::Clamp { low: -1.0, high: 2.0 },
            vec![-1.5, -1.0, 0.0, 2.0, 2.5],
            |x| f64::from((-1.0..=2.0).contains(&x)),
            zero,
        ),
        (
            UnaryOp::Elu { alpha: 1.5 },
            ends(),
            |x| if x > 0.0 { 1.0 } else { 1.5 * x.exp() },
            |x| if x > 0.0 { 0.0 } else { 1.5 * x.exp() },
        ),
        (UnaryOp::GeluErf, ends(), step, zero),
        (UnaryOp::GeluTanh, ends(), step, zero),
        (UnaryOp::Silu, ends(), step, zero),
        (UnaryOp::Softplus, ends(), step, zero),
        (UnaryOp::Tanh, ends(), zero, zero),
        (UnaryOp::Sigmoid, ends(), zero, zero),
        (UnaryOp::Erf, ends(), zero, zero),
    ];
    cases
        .into_iter()
        .map(|(op, points, first, second)| {
            OpCase::new(op.name(), "slopes")
                .input(Fixed(points.clone()))
                .shapes([&[points.len()]])
                .forward_only("compares derivatives themselves")
                .run(move |x| first_and_second_derivatives(&x[0], |x| apply_one(ternion_core::ops::unary::Unary { op }, &[x])))
                .oracle(move |x| vec![x[0].map(first), x[0].map(second)])
        })
        .collect()
}

fn rejected_rows() -> Vec<OpCase> {
    vec![
        OpCase::new("exp", "rejects")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[3]])
            .run(|x| x[0].exp())
            .oracle(|x| x[0].map(f64::exp))
            .rejects("exp: input is i32, expected a floating dtype", |device| Tensor::zeros([2], I32, device)?.exp())
            .rejects("neg: input is bool, expected a number", |device| Tensor::zeros([2], Bool, device)?.neg())
            .rejects("logical_not: input is f32, expected bool", |device| Tensor::zeros([2], F32, device)?.logical_not())
            .rejects("clamp: 0.5 is not an integer, tensor is i32", |device| {
                Tensor::zeros([2], I32, device)?.clamp(0.5, 3.0)
            })
            .rejects("clamp: NaN is not an integer, tensor is u8", |device| {
                Tensor::zeros([2], U8, device)?.clamp(0.0, f64::NAN)
            })
            .rejects(
                "exp: in place on a tensor of shape [2, 3] whose elements share memory; copy it first",
                |device| Tensor::zeros([3], F32, device)?.expand([2, 3])?.exp_(),
            )
            .rejects(
                "exp: in place: a gradient would be lost; use the form that returns a new tensor, detach, or no_grad",
                |device| Tensor::zeros([3], F32, device)?.requires_grad()?.exp_(),
            ),
    ]
}
