//! Rows of the gamma function's logarithm and its derivatives, of the zeta function, and of the
//! Bessel functions.

use super::definitions::{
    bessel, bessel_scaled, digamma, large_polygamma, lgamma, mvlgamma, polygamma, second_polygamma, zeta,
};
use super::{Function, function, specials};
use crate::cases::reduce::gradient;
use crate::prelude::*;

/// Functions of one element.
pub fn functions() -> Vec<Function> {
    vec![
        function!(lgamma, Uniform(0.6, 12.0), |x| lgamma(x)),
        function!(lgamma "x<0", Uniform(-0.65, -0.35), |x| x.lgamma(), |x| lgamma(x)),
        function!(digamma, Uniform(0.9, 12.0), |x| digamma(x)),
        function!(digamma "x<0", Uniform(-3.6, -3.4), |x| x.digamma(), |x| digamma(x)),
        function!(polygamma "n=1", Uniform(1.0, 12.0), |x| x.polygamma(1), |x| polygamma(1, x)),
        function!(polygamma "n=4", Uniform(2.0, 6.0), |x| x.polygamma(4), |x| polygamma(4, x)),
        function!(mvlgamma "p=3", Uniform(1.7, 9.0), |x| x.mvlgamma(3), |x| mvlgamma(3, x)),
        function!(i0, Uniform(-3.0, 3.0), |x| bessel(0, x)),
        function!(i0e, AwayFrom(0.5), |x| bessel_scaled(0, x)),
        function!(i0e "large", Uniform(7.0, 40.0), |x| x.i0e(), |x| bessel_scaled(0, x)),
        function!(i1, Uniform(-3.0, 3.0), |x| bessel(1, x)),
        function!(i1 "large", Uniform(7.5, 9.0), |x| x.i1(), |x| bessel(1, x)),
        function!(i1e, AwayFrom(0.5), |x| bessel_scaled(1, x)),
        function!(i1e "large", Uniform(7.0, 40.0), |x| x.i1e(), |x| bessel_scaled(1, x)),
    ]
}

/// Rows of other functions, and additional rejected calls.
pub fn rows() -> Vec<OpCase> {
    vec![
        zeta_row("", Uniform(1.5, 6.0), Uniform(1.0, 8.0)).double_backward(),
        integer_orders(),
        negative_polygamma(),
        rejected_orders(),
    ]
    .into_iter()
    .chain(far())
    .chain(extremes())
    .chain(large_orders())
    .chain(between_poles())
    .collect()
}

/// Near the largest numbers of f32 and of f64, whose negatives are poles, and at the smallest.
fn extremes() -> [OpCase; 4] {
    let large = [1e37, 3.8e37, 1e38, 3.4e38, 1e306, 1e307, 1.7e308];
    let large = Array::new(&[2, large.len()], large.into_iter().chain(large.map(|x| -x)).collect());
    // 1 / x just exceeds the largest f32.
    let small = Array::new(&[4], vec![2.938735877055719e-39, -2.938735877055719e-39, 1e-30, -1e-30]);
    let row = |op: &'static str, parameters: &str, run: fn(&Tensor) -> Result<Tensor>, definition: fn(f64) -> f64| {
        OpCase::new(op, format!("{parameters}ends"))
            .input(Uniform(2.0, 8.0))
            .shapes([&[5]])
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
            .adversarial("large", [large.clone()])
    };
    [
        row("lgamma", "", |x| x.lgamma(), lgamma),
        row("digamma", "", |x| x.digamma(), digamma).adversarial("small", [small.clone()]),
        row("polygamma", "n=1, ", |x| x.polygamma(1), |x| polygamma(1, x)).adversarial("small", [small]),
        row("mvlgamma", "p=3, ", |x| x.mvlgamma(3), |x| mvlgamma(3, x)),
    ]
}

/// Orders whose factorials and powers exceed the range of f32 or f64: where values are about 1, and
/// where they exceed the range of f32.
fn large_orders() -> Vec<OpCase> {
    // Orders, and numbers at which the values are about 1.
    let middles = [(20, 8.0), (51, 20.0), (100, 38.0), (140, 52.0), (170, 63.0), (171, 63.0), (300, 109.5)];
    let row = |order: u32, middle: f64, parameters: &str| {
        OpCase::new("polygamma", format!("n={order}{parameters}"))
            .input(Uniform(middle - 1.0, middle + 1.0))
            .shapes([&[], &[13], &[3, 5]])
            .f32_limit(4e-6, 4e-6)
            .forward_only("too steep for differences")
    };
    let of_order = |(order, middle): (u32, f64)| {
        let n = i64::from(order);
        let special = [1.0, 0.5, 1e-3, 0.0, -0.5, -1.0, -1.25, -39.5, 400.0, f64::INFINITY, f64::NAN];
        let definition = move |x: f64| large_polygamma(order, x);
        // For numbers above the square root of the largest f64 a relative tolerance is NaN, so this
        // oracle returns infinity for numbers beyond the range of f32.
        let in_f32 = move |x: f64| if definition(x).abs() > 1e39 { definition(x) * f64::INFINITY } else { definition(x) };
        [
            row(order, middle, "").run(move |x| x[0].polygamma(n)).oracle(move |x| x[0].map(definition)),
            row(order, middle, ", as a gradient")
                .run(move |x| gradient(&x[0], |x| x.polygamma(n - 1)))
                .oracle(move |x| x[0].map(definition)),
            row(order, middle, ", beyond f32")
                .dtypes(&[F32, F16, BF16])
                .run(move |x| x[0].polygamma(n))
                .oracle(move |x| x[0].map(in_f32))
                .adversarial("special", [Array::new(&[special.len()], special.to_vec())]),
        ]
    };
    middles.into_iter().flat_map(of_order).collect()
}

fn near_a_half_integer(parameters: &str) -> OpCase {
    OpCase::new("polygamma", format!("{parameters}, near a half-integer"))
        .input(Uniform(-39.503, -39.497))
        .shapes([&[], &[13], &[3, 11]])
        .forward_only("too steep for differences")
        .oracle(|x| x[0].map(second_polygamma))
}

fn power(x: &Tensor, power: f64) -> Result<Tensor> {
    x.abs()?.powf(power)
}

/// Where polygamma of even order is small between poles and changes its sign: negative
/// half-integers, whose values are those at `1 - x`, and numbers near them.
fn between_poles() -> Vec<OpCase> {
    let half_integers = || Fixed(vec![-0.5, -1.5, -2.5, -7.5, -15.5, -39.5, -112.5]);
    let at_half_integers = |parameters: &str, run: fn(&Tensor) -> Result<Tensor>, definition: fn(f64) -> f64| {
        OpCase::new("polygamma", format!("{parameters}, half-integers"))
            .input(half_integers())
            .shapes([&[7]])
            .dtypes(&[F64, F32])
            .forward_only("differences reach what is larger")
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
    };
    vec![
        at_half_integers("n=2", |x| x.polygamma(2)?.mul(&power(x, 2.0)?), |x| polygamma(2, 1.0 - x) * x.powi(2)),
        at_half_integers("n=4", |x| x.polygamma(4)?.mul(&power(x, 4.0)?), |x| polygamma(4, 1.0 - x) * x.powi(4)),
        at_half_integers("n=3, gradient", |x| gradient(x, |x| x.polygamma(3))?.mul(&power(x, 4.0)?), |x| {
            polygamma(4, 1.0 - x) * x.powi(4)
        }),
        at_half_integers("n=5, gradient", |x| gradient(x, |x| x.polygamma(5))?.mul(&power(x, 6.0)?), |x| {
            polygamma(6, 1.0 - x) * x.powi(6)
        }),
        OpCase::new("zeta", "s=3, half-integers")
            .input(half_integers())
            .shapes([&[7]])
            .dtypes(&[F64, F32])
            .forward_only("differences reach what is larger")
            .run(|x| x[0].full_like(3)?.zeta(&x[0])?.mul(&power(&x[0], 2.0)?))
            .oracle(|x| x[0].map(|x| zeta(3.0, 1.0 - x) * x.powi(2))),
        near_a_half_integer("n=2").run(|x| x[0].polygamma(2)),
        near_a_half_integer("n=1, gradient").run(|x| gradient(&x[0], |x| x.polygamma(1))),
    ]
}

/// Functions of numbers up to the largest ones, multiplied by the power of x with which they decay:
/// without this factor they would be smaller than any limit.
fn far() -> Vec<OpCase> {
    let row = |op: &'static str, parameters: &str, exponents: (f64, f64), run: fn(&Tensor) -> Result<Tensor>, definition: fn(f64) -> f64| {
        OpCase::new(op, format!("{parameters}, far"))
            .input(Values::custom(move |shapes, position, rng| {
                let count = shapes[position].iter().product();
                (0..count).map(|_| 10f64.powf(rng.uniform(exponents.0, exponents.1))).collect()
            }))
            .shapes([&[37]])
            .dtypes(&[F64, F32])
            .forward_only("differences of numbers far from 1 mean nothing")
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
    };
    vec![
        row("polygamma", "n=1", (1.0, 37.0), |x| x.polygamma(1)?.mul(x), |x| polygamma(1, x) * x),
        row("polygamma", "n=2", (1.0, 18.0), |x| x.polygamma(2)?.mul(x)?.mul(x), |x| polygamma(2, x) * x * x),
        row("polygamma", "n=6", (1.0, 6.0), |x| x.polygamma(6)?.mul(&x.powf(6.0)?), |x| polygamma(6, x) * x.powi(6)),
        row("zeta", "s=1.5", (1.0, 37.0), |x| x.full_like(1.5)?.zeta(x)?.mul(&x.sqrt()?), |x| zeta(1.5, x) * x.sqrt()),
        row("digamma", "gradient", (1.0, 37.0), |x| gradient(x, Tensor::digamma)?.mul(x), |x| polygamma(1, x) * x),
        row("polygamma", "n=1, gradient", (1.0, 18.0), |x| gradient(x, |x| x.polygamma(1))?.mul(x)?.mul(x), |x| polygamma(2, x) * x * x),
        row("lgamma", "gradient", (1.0, 37.0), |x| gradient(x, Tensor::lgamma)?.div(&x.log()?), |x| digamma(x) / x.ln()),
        // Inputs must be representable in f32.
        row("polygamma", "n=1, f64", (0.0, 30.0), |x| {
            let x = x.mul_scalar(2f64.powi(900))?;
            x.polygamma(1)?.mul(&x)
        }, |_| 1.0)
        .dtypes(&[F64]),
    ]
}

fn zeta_row(parameters: &'static str, orders: Values, values: Values) -> OpCase {
    OpCase::new("zeta", parameters)
        .input(Input::float(orders).constant())
        .input(values)
        .shapes([&[], &[0, 3], &[13], &[3, 7]])
        .on([&[3, 1], &[5]])
        .run(|x| x[0].zeta(&x[1]))
        .oracle(|x| x[0].zip(&x[1], zeta))
}

/// Negative numbers too, halfway between poles, which are too close for differences of gradients;
/// and every special order with every special number.
fn integer_orders() -> OpCase {
    let orders = [2.0, 3.0, 2.5, 1.0, 0.5, 4.0, f64::NAN];
    zeta_row("s=2..5 x<0", Integers(2, 5), Uniform(-2.6, -2.4))
        .adversarial("special", [Array::new(&[orders.len(), 1], orders.to_vec()), specials()])
        .rejects("zeta: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.zeta(&Tensor::zeros([3], F32, device)?)
        })
        .rejects("zeta: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([2], I64, device)?.zeta(&Tensor::zeros([2], I64, device)?)
        })
        .rejects("backward: zeta: no gradient with respect to the order", |device| {
            let order = Tensor::full([2], 2.0, F32, device)?.requires_grad()?;
            ternion_core::enable_grad(|| order.zeta(&Tensor::full([2], 1.0, F32, device)?)?.sum(..)?.backward())?;
            Ok(order)
        })
        .perf([&[1024, 128], &[1024, 128]])
}

/// Halfway between poles, which are too close for differences of gradients.
fn negative_polygamma() -> OpCase {
    OpCase::new("polygamma", "n=2 x<0")
        .input(Uniform(-2.6, -2.4))
        .shapes([&[], &[13], &[3, 11]])
        .run(|x| x[0].polygamma(2))
        .oracle(|x| x[0].map(|x| polygamma(2, x)))
}

/// Invalid orders and sizes, and the order 0, which is `digamma`.
fn rejected_orders() -> OpCase {
    OpCase::new("polygamma", "n=0")
        .input(Uniform(0.9, 12.0))
        .shapes([&[], &[13]])
        .run(|x| x[0].polygamma(0))
        .oracle(|x| x[0].map(digamma))
        .rejects("polygamma: order -1, expected at least 0", |device| {
            Tensor::zeros([2], F32, device)?.polygamma(-1)
        })
        .rejects("mvlgamma: size 0, expected 1 to 1048576", |device| Tensor::zeros([2], F32, device)?.mvlgamma(0))
}
