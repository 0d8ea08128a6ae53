//! Rows of functions of two elements, with their scalar and in-place variants. The fused variants
//! are in `fused`.

mod fused;

use super::unary::{in_strided_place, wrap};
use crate::compare::round_to;
use crate::prelude::*;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::binary::{BinaryOp, BinaryScalar, Side};
use ternion_core::{Scalar, no_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = float_rows();
    rows.extend(integer_rows());
    rows.extend(logical_rows());
    rows.extend(scalar_rows());
    rows.extend(in_place_rows());
    rows.extend(gradient_rows());
    rows.push(operators());
    rows.push(rejected());
    rows.extend(fused::rows());
    rows
}

pub(crate) type Method = fn(&Tensor, &Tensor) -> Result<Tensor>;
type Definition = fn(f64, f64) -> f64;

/// Returns the larger of two numbers; NaN if either is.
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Returns the smaller of two numbers; NaN if either is.
pub(super) fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// Returns the remainder with the sign of the divisor: `a - b * floor(a / b)`, computed exactly.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// Returns the values of [`Distinct`] shifted by half a step, so that none equals a value of
/// `Distinct` (for up to 256 elements).
pub(crate) fn offset_distinct() -> Values {
    Values::custom(|shapes, position, rng| {
        let count = shapes[position].iter().product();
        let step = |k: usize| (k as f64 - (count / 2) as f64) / 32.0 + 1.0 / 64.0;
        rng.permutation(count).into_iter().map(step).collect()
    })
}

/// Returns dividends for the divisors 3/4 and 3/2 of either sign, away from their multiples.
pub(crate) fn between_multiples() -> Values {
    Values::custom(|shapes, position, rng| {
        (0..shapes[position].iter().product())
            .map(|_| 0.75 * (rng.integer(-6, 5) as f64 + rng.uniform(0.2, 0.8)))
            .collect()
    })
}

/// Returns every pair of special numbers.
pub(crate) fn special_pairs() -> [Array; 2] {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.5, 1e30, -60000.0];
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for a in special {
        for b in special {
            left.push(a);
            right.push(b);
        }
    }
    [Array::new(&[10, 10], left), Array::new(&[10, 10], right)]
}

fn float_rows() -> Vec<OpCase> {
    let divisors = || Fixed(vec![0.75, -0.75, 1.5, -1.5]);
    let cases: [(&'static str, Values, Values, Method, Definition); 9] = [
        ("add", Uniform(-4.0, 4.0), Uniform(-4.0, 4.0), |a, b| a.add(b), |a, b| a + b),
        ("sub", Uniform(-4.0, 4.0), Uniform(-4.0, 4.0), |a, b| a.sub(b), |a, b| a - b),
        ("mul", Uniform(-4.0, 4.0), Uniform(-4.0, 4.0), |a, b| a.mul(b), |a, b| a * b),
        ("div", Uniform(-4.0, 4.0), AwayFrom(0.4), |a, b| a.div(b), |a, b| a / b),
        ("pow", Uniform(0.3, 3.0), Uniform(-2.0, 2.0), |a, b| a.pow(b), f64::powf),
        ("maximum", Distinct, offset_distinct(), |a, b| a.maximum(b), larger),
        ("minimum", Distinct, offset_distinct(), |a, b| a.minimum(b), smaller),
        ("atan2", AwayFrom(0.3), AwayFrom(0.3), |a, b| a.atan2(b), f64::atan2),
        ("remainder", between_multiples(), divisors(), |a, b| a.remainder(b), remainder),
    ];
    cases
        .into_iter()
        .map(|(op, left, right, run, definition)| {
            OpCase::new(op, "")
                .input(left)
                .input(right)
                .shapes([&[], &[0, 3], &[13], &[7, 33], &[2, 5, 3]])
                .on([&[7, 1], &[33]])
                .on([&[], &[2, 3]])
                .on([&[3, 1, 5], &[1, 4, 1]])
                .on([&[2, 0, 3], &[3]])
                .double_backward()
                .run(move |x| run(&x[0], &x[1]))
                .oracle(move |x| x[0].zip(&x[1], definition))
                .adversarial("special", special_pairs())
                .perf([&[8192, 1024], &[8192, 1024]])
                .perf([&[8192, 1024], &[1024]])
        })
        .chain([negative_bases(), zero_bases()])
        .collect()
}

/// Powers of negative bases are real only for integer exponents, so the exponent is constant.
fn negative_bases() -> OpCase {
    OpCase::new("pow", "negative bases")
        .input(AwayFrom(0.4))
        .input(Input::float(Fixed(vec![2.0, 3.0, -1.0, 0.0, 1.0, -2.0])).constant())
        .shapes([&[6], &[7, 6]])
        .double_backward()
        .run(|x| x[0].pow(&x[1]))
        .oracle(|x| x[0].zip(&x[1], f64::powf))
}

/// Powers of 0 whose gradient with respect to the base exists.
fn zero_bases() -> OpCase {
    OpCase::new("pow", "zero bases")
        .input(Fixed(vec![0.0, 1.5, -0.5]))
        .input(Input::float(Fixed(vec![2.0, 3.0, 4.0, 0.0, 1.0])).constant())
        .shapes([&[15]])
        .double_backward()
        .run(|x| x[0].pow(&x[1]))
        .oracle(|x| x[0].zip(&x[1], f64::powf))
}

fn integer_quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { (a / b).trunc() }
}

fn integer_remainder(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { remainder(a, b) }
}

fn integer_power(a: f64, b: f64) -> f64 {
    if b < 0.0 && a.abs() != 1.0 { 0.0 } else { a.powf(b) }
}

fn integer_rows() -> Vec<OpCase> {
    let cases: [(&'static str, Method, Definition); 8] = [
        ("add", |a, b| a.add(b), |a, b| a + b),
        ("sub", |a, b| a.sub(b), |a, b| a - b),
        ("mul", |a, b| a.mul(b), |a, b| a * b),
        ("div", |a, b| a.div(b), integer_quotient),
        ("pow", |a, b| a.pow(b), integer_power),
        ("maximum", |a, b| a.maximum(b), f64::max),
        ("minimum", |a, b| a.minimum(b), f64::min),
        ("remainder", |a, b| a.remainder(b), integer_remainder),
    ];
    let mut rows: Vec<OpCase> = cases
        .into_iter()
        .map(|(op, run, definition)| {
            OpCase::new(op, "integers")
                .input(Integers(-9, 9))
                .input(Integers(-4, 4))
                .shapes([&[], &[0], &[7, 33]])
                .on([&[7, 1], &[33]])
                .dtypes(INTEGERS)
                .also(UNSIGNED)
                .run(move |x| run(&x[0], &x[1]))
                .oracle_for(move |dtype, x| x[0].zip(&x[1], |a, b| wrap(dtype, definition(a, b))))
        })
        .collect();
    let extremes: [(DType, f64, f64); 8] = [
        (U8, 255.0, 3.0),
        (I8, f64::from(i8::MIN), 3.0),
        (I16, f64::from(i16::MAX), 2.0),
        (I32, f64::from(i32::MAX), 2.0),
        // Of i64 only values that f64 represents: 2^62 and its double, which wraps.
        (I64, 2f64.powi(62), 2.0),
        (U64, 2f64.powi(63), 2.0),
        (U32, f64::from(u32::MAX), 3.0),
        (U16, f64::from(u16::MAX), 3.0),
    ];
    for (dtype, min) in [(I32, f64::from(i32::MIN)), (I16, f64::from(i16::MIN)), (I8, f64::from(i8::MIN))] {
        rows.push(extreme_quotients(dtype, min));
    }
    for (dtype, extreme, small) in extremes {
        rows.push(
            OpCase::new("add", format!("wraps {dtype}"))
                .input(Fixed(vec![extreme]))
                .input(Fixed(vec![extreme, small]))
                .shapes([&[2]])
                .dtypes(&[dtype])
                .run(|x| {
                    Ok(vec![x[0].add(&x[1].mul_scalar(0i64)?)?, x[0].add(&x[0])?, x[0].mul_scalar(2i64)?])
                })
                .oracle_for(|dtype, x| {
                    let double = x[0].map(|x| wrap(dtype, 2.0 * x));
                    vec![x[0].clone(), double.clone(), double]
                }),
        );
    }
    rows
}

/// Quotients, remainders and products of the smallest and largest value of a signed dtype: with 0
/// (a quotient by 0 is 0), with -1 (one quotient wraps), and with each other.
fn extreme_quotients(dtype: DType, min: f64) -> OpCase {
    let max = -min - 1.0;
    OpCase::new("div", format!("ends of {dtype}"))
        .input(Fixed(vec![min, min, min, max, max, -7.0, 7.0, max]))
        .input(Fixed(vec![0.0, -1.0, max, min, -1.0, 3.0, -3.0, 0.0]))
        .shapes([&[8]])
        .dtypes(&[dtype])
        .run(|x| Ok(vec![x[0].div(&x[1])?, x[0].remainder(&x[1])?, x[0].mul(&x[1])?, x[0].sub(&x[1])?]))
        .oracle_for(|dtype, x| {
            let forms: [Definition; 4] = [integer_quotient, integer_remainder, |a, b| a * b, |a, b| a - b];
            forms.map(|form| x[0].zip(&x[1], |a, b| wrap(dtype, form(a, b)))).to_vec()
        })
}

fn logical_rows() -> Vec<OpCase> {
    let cases: [(&'static str, Method, Definition); 5] = [
        ("logical_and", |a, b| a.logical_and(b), |a, b| a * b),
        ("logical_or", |a, b| a.logical_or(b), f64::max),
        ("logical_xor", |a, b| a.logical_xor(b), |a, b| (a - b).abs()),
        ("maximum", |a, b| a.maximum(b), f64::max),
        ("minimum", |a, b| a.minimum(b), f64::min),
    ];
    cases
        .into_iter()
        .map(|(op, run, definition)| {
            OpCase::new(op, "bools")
                .input(Bools)
                .input(Bools)
                .shapes([&[], &[0], &[7, 33]])
                .on([&[7, 1], &[33]])
                .dtypes(BOOL)
                .run(move |x| run(&x[0], &x[1]))
                .oracle(move |x| x[0].zip(&x[1], definition))
        })
        .chain([OpCase::new("logical_and", "and the others in place")
            .input(Bools)
            .input(Bools)
            .on([&[7, 33], &[33]])
            .dtypes(BOOL)
            .run(|x| {
                let forms: [fn(&Tensor, &Tensor) -> Result<()>; 3] =
                    [|a, b| a.logical_and_(b), |a, b| a.logical_or_(b), |a, b| a.logical_xor_(b)];
                forms
                    .iter()
                    .map(|form| in_strided_place(&x[0], |y| form(y, &x[1])))
                    .collect::<Result<Vec<_>>>()
            })
            .oracle(|x| {
                let forms: [Definition; 3] = [|a, b| a * b, f64::max, |a, b| (a - b).abs()];
                forms.iter().map(|form| x[0].zip(&x[1], form)).collect::<Vec<_>>()
            })])
        .collect()
}

/// One scalar variant: op, side, number, values, definition of `(x, number)`.
struct ScalarVariant {
    op: BinaryOp,
    side: Side,
    number: f64,
    values: Values,
    definition: Definition,
}

impl ScalarVariant {
    fn row(self) -> OpCase {
        let ScalarVariant { op, side, number, values, definition } = self;
        let payload = BinaryScalar { op, scalar: Scalar::Float(number), side };
        let name = ternion_core::Op::from(payload.clone()).name();
        let side_name = if side == Side::Left { "left" } else { "right" };
        OpCase::new(name, format!("number={number} {side_name}"))
            .input(values)
            .shapes([&[], &[0, 3], &[7, 33], &[2, 5, 3]])
            .run(move |x| apply_one(payload.clone(), &[&x[0]]))
            .oracle(move |x| x[0].map(|x| definition(x, number)))
            .adversarial(
                "special",
                [Array::new(
                    &[2, 4],
                    vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e30, -1.0, 2.0],
                )],
            )
    }
}

fn scalar_rows() -> Vec<OpCase> {
    let plain = || Uniform(-4.0, 4.0);
    let list: Vec<(BinaryOp, Side, f64, Values, Definition)> = vec![
        (BinaryOp::Add, Side::Right, 1.75, plain(), |x, n| x + n),
        (BinaryOp::Sub, Side::Right, 1.75, plain(), |x, n| x - n),
        (BinaryOp::Sub, Side::Left, 1.75, plain(), |x, n| n - x),
        (BinaryOp::Mul, Side::Right, -2.5, plain(), |x, n| x * n),
        (BinaryOp::Div, Side::Right, -0.375, plain(), |x, n| x / n),
        (BinaryOp::Div, Side::Right, 0.0, plain(), |x, n| x / n),
        (BinaryOp::Div, Side::Left, 2.5, AwayFrom(0.4), |x, n| n / x),
        (BinaryOp::Max, Side::Right, 0.0, AwayFrom(0.1), larger),
        (BinaryOp::Max, Side::Left, 0.0, AwayFrom(0.1), larger),
        (BinaryOp::Min, Side::Right, 0.0, AwayFrom(0.1), smaller),
        (BinaryOp::Max, Side::Right, f64::NAN, plain(), larger),
        (BinaryOp::Atan2, Side::Right, 1.5, AwayFrom(0.2), |x, n| x.atan2(n)),
        (BinaryOp::Atan2, Side::Left, 1.5, AwayFrom(0.2), |x, n| n.atan2(x)),
        (BinaryOp::Remainder, Side::Right, -0.75, between_multiples(), remainder),
        // 5 / x is away from integers for x in 2.7..4.6 and the negatives of these.
        (BinaryOp::Remainder, Side::Left, 5.0, Fixed(vec![2.75, 3.5, -4.5, -3.0, 4.25]), |x, n| {
            remainder(n, x)
        }),
        (BinaryOp::Pow, Side::Right, 0.0, AwayFrom(0.2), f64::powf),
        (BinaryOp::Pow, Side::Right, 1.0, plain(), f64::powf),
        (BinaryOp::Pow, Side::Right, 2.0, plain(), f64::powf),
        (BinaryOp::Pow, Side::Right, 3.0, plain(), f64::powf),
        (BinaryOp::Pow, Side::Right, 0.5, Uniform(0.3, 4.0), f64::powf),
        (BinaryOp::Pow, Side::Right, -1.5, Uniform(0.4, 3.0), f64::powf),
        (BinaryOp::Pow, Side::Right, -2.0, AwayFrom(0.5), f64::powf),
        (BinaryOp::Pow, Side::Left, 2.5, Uniform(-2.0, 2.0), |x, n| n.powf(x)),
        (BinaryOp::Pow, Side::Left, 0.0, Uniform(0.2, 2.0), |x, n| n.powf(x)),
    ];
    let mut rows: Vec<OpCase> = list
        .into_iter()
        .map(|(op, side, number, values, definition)| {
            let is_not_finite = op == BinaryOp::Div && number == 0.0 || number.is_nan();
            let row = ScalarVariant { op, side, number, values, definition }.row();
            if is_not_finite { row.forward_only("infinite or not a number") } else { row.double_backward() }
        })
        .collect();
    rows.push(scalar_methods());
    rows.push(precise_number());
    rows.extend(integer_numbers());
    rows
}

/// The scalar methods, for ops that the other rows construct directly.
fn scalar_methods() -> OpCase {
    OpCase::new("add_scalar", "and the other methods")
        .input(AwayFrom(0.3))
        .shapes([&[5, 7]])
        .run(|x| {
            let x = &x[0];
            Ok(vec![
                x.add_scalar(1.5)?,
                x.sub_scalar(1.5)?,
                x.rsub_scalar(1.5)?,
                x.mul_scalar(1.5)?,
                x.div_scalar(1.5)?,
                x.rdiv_scalar(1.5)?,
                x.maximum_scalar(0.0)?,
                x.minimum_scalar(0.0)?,
                x.powf(2.0)?,
                x.pow_scalar(3)?,
                x.rpow_scalar(1.5)?,
                x.atan2_scalar(1.5)?,
                x.ratan2_scalar(1.5)?,
            ])
        })
        .oracle(|x| {
            let definitions: [fn(f64) -> f64; 13] = [
                |x| x + 1.5,
                |x| x - 1.5,
                |x| 1.5 - x,
                |x| x * 1.5,
                |x| x / 1.5,
                |x| 1.5 / x,
                |x| x.max(0.0),
                |x| x.min(0.0),
                |x| x * x,
                |x| x * x * x,
                |x| 1.5f64.powf(x),
                |x| x.atan2(1.5),
                |x| 1.5f64.atan2(x),
            ];
            definitions.iter().map(|f| x[0].map(f)).collect::<Vec<_>>()
        })
}

/// With a half-precision operand the scalar keeps the precision of f32: 1 plus half an ulp of the
/// operand's dtype would round to 1 in that dtype.
fn precise_number() -> OpCase {
    let number = |dtype: DType| 1.0 + dtype.epsilon() / 2.0;
    OpCase::new("mul_scalar", "number finer than a half")
        .input(Fixed(vec![1.5, -1.5, 1.75]))
        .shapes([&[3]])
        .dtypes(&[F16, BF16])
        .exact()
        .forward_only("one rounding is looked at")
        .run_on(move |x, _, dtype| x[0].mul_scalar(number(dtype)))
        .oracle_for(move |dtype, x| x[0].map(|x| round_to(dtype, x * number(dtype))))
}

fn integer_numbers() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64);
    let cases: [Case; 14] = [
        ("add_scalar", |t| t.add_scalar(3), |x| x + 3.0),
        ("sub_scalar", |t| t.sub_scalar(3), |x| x - 3.0),
        ("sub_scalar", |t| t.rsub_scalar(3), |x| 3.0 - x),
        ("mul_scalar", |t| t.mul_scalar(3.0), |x| x * 3.0),
        ("div_scalar", |t| t.div_scalar(2), |x| integer_quotient(x, 2.0)),
        ("div_scalar", |t| t.rdiv_scalar(20), |x| integer_quotient(20.0, x)),
        ("div_scalar", |t| t.div_scalar(0), |_| 0.0),
        ("maximum_scalar", |t| t.maximum_scalar(4), |x| x.max(4.0)),
        ("minimum_scalar", |t| t.minimum_scalar(4), |x| x.min(4.0)),
        ("remainder_scalar", |t| t.remainder_scalar(4), |x| integer_remainder(x, 4.0)),
        ("pow_scalar", |t| t.powf(3.0), |x| x.powi(3)),
        ("pow_scalar", |t| t.pow_scalar(3), |x| x.powi(3)),
        ("pow_scalar", |t| t.pow_scalar(0), |_| 1.0),
        ("pow_scalar", |t| t.rpow_scalar(2), |x| integer_power(2.0, x)),
    ];
    cases
        .into_iter()
        .enumerate()
        .map(|(index, (op, run, definition))| {
            OpCase::new(op, format!("integers {index}"))
                .input(Integers(-9, 9))
                .shapes([&[], &[7, 33]])
                .dtypes(INTEGERS)
                .also(UNSIGNED)
                .run(move |x| run(&x[0]))
                .oracle_for(move |dtype, x| x[0].map(|x| wrap(dtype, definition(x))))
        })
        .chain([negative_numbers(), bool_limits(BinaryOp::Max), bool_limits(BinaryOp::Min)])
        .chain([OpCase::new("and_scalar", "and the other logical ones")
            .input(Bools)
            .shapes([&[7]])
            .dtypes(BOOL)
            .run(|x| {
                let with = |op, number: bool| {
                    apply_one(BinaryScalar { op, scalar: Scalar::Bool(number), side: Side::Right }, &[&x[0]])
                };
                Ok(vec![
                    with(BinaryOp::And, true)?,
                    with(BinaryOp::And, false)?,
                    with(BinaryOp::Or, true)?,
                    with(BinaryOp::Or, false)?,
                    with(BinaryOp::Xor, true)?,
                    with(BinaryOp::Xor, false)?,
                ])
            })
            .oracle(|x| {
                let (x, constant) = (&x[0], |value| Array::full(&x[0].shape, value));
                vec![x.clone(), constant(0.0), constant(1.0), x.clone(), x.map(|x| 1.0 - x), x.clone()]
            })])
        .collect()
}

/// Numbers whose upper bits do not fit a narrow dtype.
fn negative_numbers() -> OpCase {
    OpCase::new("maximum_scalar", "negative, and other functions with negative numbers")
        .input(Integers(-120, 120))
        .shapes([&[7, 33]])
        .dtypes(SIGNED)
        .run(|x| {
            Ok(vec![
                x[0].maximum_scalar(-2)?,
                x[0].sub_scalar(-100)?,
                x[0].mul_scalar(-3)?,
                x[0].div_scalar(-7)?,
                x[0].remainder_scalar(-4)?,
                x[0].clamp(-100.0, -3.0)?,
            ])
        })
        .oracle_for(|dtype, x| {
            let forms: [fn(f64) -> f64; 6] = [
                |x| x.max(-2.0),
                |x| x + 100.0,
                |x| -3.0 * x,
                |x| integer_quotient(x, -7.0),
                |x| integer_remainder(x, -4.0),
                |x| x.clamp(-100.0, -3.0),
            ];
            forms.map(|form| x[0].map(|x| wrap(dtype, form(x)))).to_vec()
        })
}

/// The maximum or minimum of a bool and true or false: false is less than true.
fn bool_limits(op: BinaryOp) -> OpCase {
    let (name, method): (_, fn(&Tensor, bool) -> Result<Tensor>) = match op {
        BinaryOp::Max => ("maximum_scalar", |x, limit| x.maximum_scalar(limit)),
        _ => ("minimum_scalar", |x, limit| x.minimum_scalar(limit)),
    };
    OpCase::new(name, "bools")
        .input(Bools)
        .shapes([&[], &[7, 33]])
        .dtypes(BOOL)
        .run(move |x| Ok(vec![method(&x[0], true)?, method(&x[0], false)?]))
        .oracle(move |x| {
            let with = |limit: f64| x[0].map(|x| if op == BinaryOp::Max { x.max(limit) } else { x.min(limit) });
            vec![with(1.0), with(0.0)]
        })
}

fn in_place_rows() -> Vec<OpCase> {
    let cases: [(&'static str, Values, fn(&Tensor, &Tensor) -> Result<()>, Definition); 9] = [
        ("add", Uniform(-4.0, 4.0), |a, b| a.add_(b), |a, b| a + b),
        ("sub", Uniform(-4.0, 4.0), |a, b| a.sub_(b), |a, b| a - b),
        ("mul", Uniform(-4.0, 4.0), |a, b| a.mul_(b), |a, b| a * b),
        ("div", AwayFrom(0.4), |a, b| a.div_(b), |a, b| a / b),
        ("pow", Uniform(0.5, 2.0), |a, b| a.pow_(b), f64::powf),
        ("maximum", Uniform(-4.0, 4.0), |a, b| a.maximum_(b), f64::max),
        ("minimum", Uniform(-4.0, 4.0), |a, b| a.minimum_(b), f64::min),
        ("atan2", AwayFrom(0.3), |a, b| a.atan2_(b), f64::atan2),
        ("remainder", AwayFrom(0.5), |a, b| a.remainder_(b), remainder),
    ];
    let mut rows: Vec<OpCase> = cases
        .into_iter()
        .map(|(op, values, in_place, definition)| {
            OpCase::new(op, "in place")
                .input(values.clone())
                .input(values)
                .shapes([&[], &[5, 7]])
                .on([&[5, 7], &[7]])
                .on([&[2, 3, 5], &[3, 1]])
                .forward_only("changes a tensor in place")
                .run(move |x| in_strided_place(&x[0], |y| in_place(y, &x[1])))
                .oracle(move |x| x[0].zip(&x[1], definition))
        })
        .collect();
    rows.push(aliased());
    rows.push(scalars_in_place());
    rows
}

/// A destination that is also an operand, in the same axis order and in another.
fn aliased() -> OpCase {
    OpCase::new("sub", "in place, from views of itself")
        .input(Uniform(-4.0, 4.0))
        .shapes([&[5, 5]])
        .also(INTEGERS)
        .also(UNSIGNED)
        .forward_only("changes a tensor in place")
        .run(|x| {
            no_grad(|| {
                let [itself, transposed, row] = [x[0].copy()?, x[0].copy()?, x[0].copy()?];
                itself.sub_(&itself)?;
                transposed.sub_(&transposed.t()?)?;
                row.sub_(&row.narrow(0, 2, 1)?)?;
                Ok(vec![itself, transposed, row])
            })
        })
        .oracle_for(|dtype, x| {
            let difference = |a: f64, b: f64| wrap(dtype, a - b);
            let row = Array::new(&[5], x[0].data[10..15].to_vec());
            vec![x[0].zip(&x[0], difference), x[0].zip(&x[0].t(), difference), x[0].zip(&row, difference)]
        })
}

fn scalars_in_place() -> OpCase {
    OpCase::new("add_scalar", "and the others in place")
        .input(AwayFrom(0.3))
        .shapes([&[5, 7]])
        .forward_only("changes a tensor in place")
        .run(|x| {
            let forms: [fn(&Tensor) -> Result<()>; 14] = [
                |t| t.add_scalar_(1.5),
                |t| t.sub_scalar_(1.5),
                |t| t.rsub_scalar_(1.5),
                |t| t.mul_scalar_(1.5),
                |t| t.div_scalar_(1.5),
                |t| t.rdiv_scalar_(1.5),
                |t| t.maximum_scalar_(0.0),
                |t| t.minimum_scalar_(0.0),
                |t| t.powf_(2.0),
                |t| t.remainder_scalar_(8.0),
                |t| t.pow_scalar_(3),
                |t| t.rpow_scalar_(1.5),
                |t| t.atan2_scalar_(1.5),
                |t| t.ratan2_scalar_(1.5),
            ];
            forms.iter().map(|form| in_strided_place(&x[0], form)).collect::<Result<Vec<_>>>()
        })
        .oracle(|x| {
            let forms: [fn(f64) -> f64; 14] = [
                |x| x + 1.5,
                |x| x - 1.5,
                |x| 1.5 - x,
                |x| x * 1.5,
                |x| x / 1.5,
                |x| 1.5 / x,
                |x| x.max(0.0),
                |x| x.min(0.0),
                |x| x * x,
                |x| x.rem_euclid(8.0),
                |x| x * x * x,
                |x| 1.5f64.powf(x),
                |x| x.atan2(1.5),
                |x| 1.5f64.atan2(x),
            ];
            forms.iter().map(|form| x[0].map(form)).collect::<Vec<_>>()
        })
}

/// Returns the gradients of the sum of `f(a, b)` with respect to both operands, with broadcasting.
pub(crate) fn both_gradients(x: &[Tensor], f: Method) -> Result<Vec<Tensor>> {
    use ternion_core::{GradOptions, enable_grad, grad};
    enable_grad(|| {
        let (a, b) = (x[0].detach().requires_grad()?, x[1].detach().requires_grad()?);
        let y = f(&a, &b)?;
        let ones = y.ones_like()?.detach();
        let grads = grad(&[y], &[a, b], &[ones], GradOptions::default())?;
        Ok(grads.into_iter().flatten().collect())
    })
}

/// Gradients that a convention defines, where central differences cannot determine them.
fn gradient_rows() -> Vec<OpCase> {
    let row = |op, what: &str, left: &[f64], right: &[f64], f: Method, want: [&[f64]; 2]| {
        let want: Vec<Vec<f64>> = want.iter().map(|list| list.to_vec()).collect();
        OpCase::new(op, format!("gradient at {what}"))
            .input(Fixed(left.to_vec()))
            .input(Fixed(right.to_vec()))
            .shapes([&[left.len()]])
            .forward_only("compares gradients themselves")
            .run(move |x| both_gradients(x, f))
            .oracle(move |x| {
                want.iter().map(|list| Array::new(&x[0].shape, list.clone())).collect::<Vec<_>>()
            })
    };
    let nan = f64::NAN;
    vec![
        row(
            "maximum",
            "ties",
            &[1.0, 2.0, 3.0],
            &[1.0, 3.0, 2.0],
            |a, b| a.maximum(b),
            [&[0.5, 0.0, 1.0], &[0.5, 1.0, 0.0]],
        ),
        row(
            "minimum",
            "ties",
            &[1.0, 2.0, 3.0],
            &[1.0, 3.0, 2.0],
            |a, b| a.minimum(b),
            [&[0.5, 1.0, 0.0], &[0.5, 0.0, 1.0]],
        ),
        row(
            "pow",
            "powers of 0",
            &[0.0, 0.0, 0.0, 0.0],
            &[0.0, 1.0, 2.0, 0.5],
            |a, b| a.pow(b),
            [&[0.0, 1.0, 0.0, f64::INFINITY], &[0.0, 0.0, 0.0, 0.0]],
        ),
        row(
            "pow",
            "exponents 0",
            &[2.0, -3.0, 1.0],
            &[0.0, 0.0, 0.0],
            |a, b| a.pow(b),
            [&[0.0, 0.0, 0.0], &[2f64.ln(), nan, 0.0]],
        ),
        row("atan2", "the origin", &[0.0, 0.0], &[0.0, 2.0], |a, b| a.atan2(b), [&[0.0, 0.5], &[0.0, 0.0]]),
        // As in PyTorch: the negative quotient rounded down, which is infinite if the divisor is 0.
        row(
            "remainder",
            "divisors 0 and infinite ones",
            &[5.5, -5.5, 0.0, -1.0, 1.0],
            &[0.0, 0.0, 0.0, f64::INFINITY, f64::INFINITY],
            |a, b| a.remainder(b),
            [&[1.0; 5], &[-f64::INFINITY, f64::INFINITY, nan, 1.0, 0.0]],
        ),
        steep_quotient(F32, 100, |a, b| a.div(b)?.mul_scalar(2f64.powi(100))),
        steep_quotient(F64, 1000, |a, b| a.div(b)?.mul_scalar(2f64.powi(1000))),
    ]
}

/// The gradient of a divisor is `-dy * ((a / b) / b)`, as in PyTorch: not NaN if the quotient is 0
/// and `dy / b` is infinite.
fn steep_quotient(dtype: DType, exponent: i32, f: Method) -> OpCase {
    // f32 values in both dtypes, like all random inputs.
    let (small, dy) = (2f64.powi(-100), 2f64.powi(exponent));
    OpCase::new("div", format!("gradient where dy / b is infinite, dy = 2^{exponent}"))
        .input(Fixed(vec![0.0, 3.0, 0.0]))
        .input(Fixed(vec![small, 2.0, -small]))
        .shapes([&[3]])
        .dtypes(&[dtype])
        .forward_only("compares gradients themselves")
        .run(move |x| both_gradients(x, f))
        .oracle(move |x| {
            let left = vec![f64::INFINITY, dy / 2.0, f64::NEG_INFINITY];
            [left, vec![0.0, -0.75 * dy, 0.0]].map(|list| Array::new(&x[0].shape, list)).to_vec()
        })
}

fn operators() -> OpCase {
    OpCase::new("add", "and the other operators")
        .input(Uniform(-4.0, 4.0))
        .input(AwayFrom(0.4))
        .shapes([&[5, 7]])
        .run(|x| {
            let (a, b) = (&x[0], &x[1]);
            Ok(vec![
                (a + b)?,
                (a - b)?,
                (a * b)?,
                (a / b)?,
                (-a)?,
                (a + 1.5)?,
                (a - 1.5)?,
                (a * 1.5)?,
                (a / 1.5)?,
                (1.5 + a)?,
                (1.5 - a)?,
                (1.5 * a)?,
                (1.5 / b)?,
                (a.clone() * (b.clone() + 1.5)?)?,
                (-b.clone())?,
            ])
        })
        .oracle(|x| {
            let definitions: [Definition; 15] = [
                |a, b| a + b,
                |a, b| a - b,
                |a, b| a * b,
                |a, b| a / b,
                |a, _| -a,
                |a, _| a + 1.5,
                |a, _| a - 1.5,
                |a, _| a * 1.5,
                |a, _| a / 1.5,
                |a, _| 1.5 + a,
                |a, _| 1.5 - a,
                |a, _| 1.5 * a,
                |_, b| 1.5 / b,
                |a, b| a * (b + 1.5),
                |_, b| -b,
            ];
            definitions.iter().map(|f| x[0].zip(&x[1], f)).collect::<Vec<_>>()
        })
        .steps()
}

fn rejected() -> OpCase {
    OpCase::new("add", "rejects")
        .input(Uniform(-1.0, 1.0))
        .shapes([&[3]])
        .run(|x| x[0].add_scalar(0.5))
        .oracle(|x| x[0].map(|x| x + 0.5))
        .rejects("add: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.add(&Tensor::zeros([3], F32, device)?)
        })
        .rejects("mul: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
            Tensor::zeros([2], F32, device)?.mul(&Tensor::zeros([2], I32, device)?)
        })
        .rejects("add: operand is bool, expected a number", |device| {
            Tensor::zeros([2], Bool, device)?.add(&Tensor::zeros([2], Bool, device)?)
        })
        .rejects("logical_and: operand is f32, expected bool", |device| {
            Tensor::zeros([2], F32, device)?.logical_and(&Tensor::zeros([2], F32, device)?)
        })
        .rejects("atan2: operand is i32, expected a floating dtype", |device| {
            Tensor::zeros([2], I32, device)?.atan2(&Tensor::zeros([2], I32, device)?)
        })
        .rejects("add_scalar: 0.5 is not an integer, tensor is i32", |device| {
            Tensor::zeros([2], I32, device)?.add_scalar(0.5)
        })
        .rejects("mul_scalar: -129 does not fit i8", |device| Tensor::zeros([2], I8, device)?.mul_scalar(-129))
        .rejects("mul_scalar: 300 does not fit u8", |device| Tensor::zeros([2], U8, device)?.mul_scalar(300))
        .rejects("sub_scalar: inf does not fit i64", |device| Tensor::zeros([2], I64, device)?.sub_scalar(f64::INFINITY))
        .rejects("atan2_scalar: operand is i32, expected a floating dtype", |device| {
            Tensor::zeros([2], I32, device)?.atan2_scalar(1)
        })
        .rejects("pow_scalar: operand is bool, expected a number", |device| {
            Tensor::zeros([2], Bool, device)?.pow_scalar(1)
        })
        .rejects("pow_scalar: 0.5 is not an integer, tensor is i64", |device| Tensor::zeros([2], I64, device)?.powf(0.5))
        .rejects("add: destination has shape [3], expected [2, 3]", |device| {
            Tensor::zeros([3], F32, device)?.add_(&Tensor::zeros([2, 3], F32, device)?)
        })
        .rejects(
            "add: in place: a gradient would be lost; use the form that returns a new tensor, detach, or no_grad",
            |device| Tensor::zeros([3], F32, device)?.add_(&Tensor::zeros([3], F32, device)?.requires_grad()?),
        )
}
