//! Rows of division rounded to integers.

use crate::cases::binary::{between_multiples, both_gradients, special_pairs};
use crate::cases::unary::wrap;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let functions = [
        Function { op: "floor_divide", run: |a, b| a.floor_divide(b), of_floats: floor, of_integers: |a, b| (a / b).floor() },
        Function { op: "trunc_divide", run: |a, b| a.trunc_divide(b), of_floats: |a, b| (a / b).trunc(), of_integers: |a, b| (a / b).trunc() },
        // Rust's `%` on floats is C's fmod.
        Function { op: "fmod", run: |a, b| a.fmod(b), of_floats: |a, b| a % b, of_integers: |a, b| a % b },
    ];
    let mut rows: Vec<OpCase> = functions.iter().flat_map(Function::rows).collect();
    rows.extend(gradients());
    rows.push(signs_of_zero());
    rows
}

type Definition = fn(f64, f64) -> f64;

/// A function with its definitions.
struct Function {
    op: &'static str,
    run: fn(&Tensor, &Tensor) -> Result<Tensor>,
    of_floats: Definition,
    /// For nonzero divisors.
    of_integers: Definition,
}

/// Returns the largest integer not above the exact quotient: the remainder of the rounded quotient
/// shows on which side of it the exact one is.
fn floor(a: f64, b: f64) -> f64 {
    let rounded = a / b;
    if b.is_infinite() && a.is_finite() {
        return if a == 0.0 || (a < 0.0) == (b < 0.0) { rounded } else { -1.0 };
    }
    if b == 0.0 || !rounded.is_finite() || b.is_infinite() {
        return if b == 0.0 { rounded } else { f64::NAN };
    }
    let quotient = rounded.floor();
    let left_over = (-quotient).mul_add(b, a);
    match left_over != 0.0 && (left_over < 0.0) != (b < 0.0) {
        true => quotient - 1.0,
        false => quotient,
    }
}

impl Function {
    fn rows(&self) -> Vec<OpCase> {
        let mut rows = vec![self.floats(), self.integers()];
        rows.extend([(I8, f64::from(i8::MIN)), (I32, f64::from(i32::MIN))].map(|(dtype, min)| self.extremes(dtype, min)));
        rows
    }

    fn floats(&self) -> OpCase {
        let &Function { op, run, of_floats, .. } = self;
        OpCase::new(op, "")
            .input(between_multiples())
            .input(Fixed(vec![0.75, -0.75, 1.5, -1.5]))
            .shapes([&[], &[0, 3], &[13], &[7, 33]])
            .on([&[7, 1], &[33]])
            .on([&[], &[2, 3]])
            .double_backward()
            .run(move |x| run(&x[0], &x[1]))
            .oracle(move |x| x[0].zip(&x[1], of_floats))
            .adversarial("special", special_pairs())
            .rejects(format!("{op}: shapes [2] and [3] do not broadcast"), move |device| {
                run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([3], F32, device)?)
            })
            .rejects(format!("{op}: dtypes f32 and i32 differ; cast one of them with to_dtype"), move |device| {
                run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([2], I32, device)?)
            })
            .rejects(format!("{op}: input is bool, expected a number"), move |device| {
                run(&Tensor::zeros([2], Bool, device)?, &Tensor::zeros([2], Bool, device)?)
            })
    }

    fn integers(&self) -> OpCase {
        let &Function { op, run, of_integers, .. } = self;
        OpCase::new(op, "integers")
            .input(Integers(-9, 9))
            .input(Integers(-4, 4))
            .shapes([&[], &[0], &[7, 33]])
            .on([&[7, 1], &[33]])
            .dtypes(INTEGERS)
            .run(move |x| run(&x[0], &x[1]))
            .oracle(move |x| x[0].zip(&x[1], |a, b| if b == 0.0 { 0.0 } else { of_integers(a, b) }))
    }

    /// The smallest and largest value of a signed dtype, divided by 0, by -1 (one quotient wraps),
    /// and by each other.
    fn extremes(&self, dtype: DType, min: f64) -> OpCase {
        let &Function { op, run, of_integers, .. } = self;
        let max = -min - 1.0;
        OpCase::new(op, format!("ends of {dtype}"))
            .input(Fixed(vec![min, min, min, max, max, -7.0, 7.0, max, min, -1.0]))
            .input(Fixed(vec![0.0, -1.0, max, min, -1.0, 3.0, -3.0, 0.0, 2.0, min]))
            .shapes([&[10]])
            .dtypes(&[dtype])
            .run(move |x| run(&x[0], &x[1]))
            .oracle_for(move |dtype, x| {
                x[0].zip(&x[1], |a, b| if b == 0.0 { 0.0 } else { wrap(dtype, of_integers(a, b)) })
            })
    }
}

/// Gradients where quotients are infinite or NaN: 0 for functions that round to integers; for the
/// remainder as in PyTorch.
fn gradients() -> [OpCase; 3] {
    let infinity = f64::INFINITY;
    let dividends = vec![5.5, -5.5, 0.0, 3.0, -1.0, 1.0, f64::NAN, 8192.0];
    let divisors = vec![0.0, 0.0, 0.0, -2.0, infinity, infinity, 1.0, 2f64.powi(-27)];
    let none = vec![0.0; 8];
    let quotients = vec![-infinity, infinity, f64::NAN, 1.0, 0.0, 0.0, f64::NAN, -2f64.powi(40)];
    let kinds: [(&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, [Vec<f64>; 2]); 3] = [
        ("floor_divide", |a, b| a.floor_divide(b), [none.clone(), none.clone()]),
        ("trunc_divide", |a, b| a.trunc_divide(b), [none.clone(), none]),
        ("fmod", |a, b| a.fmod(b), [vec![1.0; 8], quotients]),
    ];
    kinds.map(|(op, run, want)| {
        OpCase::new(op, "gradient of quotients that are not finite")
            .input(Fixed(dividends.clone()))
            .input(Fixed(divisors.clone()))
            .shapes([&[8]])
            // 2^-27 is 0 in f16, so rows of half precision cannot use it.
            .dtypes(&[F64, F32])
            .forward_only("compares gradients themselves")
            .run(move |x| both_gradients(x, run))
            .oracle(move |x| want.clone().map(|list| Array::new(&x[0].shape, list)).to_vec())
    })
}

/// Quotients of 0 keep their sign, which 1 divided by them shows.
fn signs_of_zero() -> OpCase {
    OpCase::new("floor_divide", "signs of zero")
        .input(Fixed(vec![-0.0, 0.0, 0.0, -0.0, 1.0, -1.0]))
        .input(Fixed(vec![2.0, 2.0, -2.0, f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY]))
        .shapes([&[6]])
        .forward_only("looks at signs")
        .run(|x| x[0].floor_divide(&x[1])?.recip())
        .oracle(|x| x[0].zip(&x[1], |a, b| 1.0 / floor(a, b)))
}
