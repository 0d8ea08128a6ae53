//! Rows of functions of integers.

use crate::cases::unary::wrap;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [divisors(), bits(), shifts()].concat()
}

/// Numbers at the ends of int8, and around zero.
fn ends() -> Values {
    Fixed(vec![-128.0, 127.0, 0.0, -1.0, 1.0, 64.0, -127.0, 126.0, 16.0, -16.0, 15.0])
}

/// The second operands, which form all pairs with `ends`.
fn other_ends() -> Values {
    Values::custom(|shapes, position, _| {
        let all = [-128.0, 127.0, 0.0, -1.0, 1.0, 64.0, -127.0, 126.0, 16.0, -16.0, 15.0];
        let count: usize = shapes[position].iter().product();
        (0..count).map(|at| all[(at / all.len()) % all.len()]).collect()
    })
}

type Run = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Creates rows for a function of two integers with its definition.
fn of_two(name: &'static str, run: Run, definition: fn(DType, i64, i64) -> i64) -> [OpCase; 2] {
    let row = |parameters: &str, values: [Values; 2]| {
        let [left, right] = values;
        OpCase::new(name, parameters)
            .input(left)
            .input(right)
            .dtypes(INTEGERS)
            .also(UNSIGNED)
            .exact()
            .run(move |x| run(&x[0], &x[1]))
            .oracle_for(move |dtype, x| {
                x[0].zip(&x[1], |a, b| wrap(dtype, definition(dtype, a as i64, b as i64) as f64))
            })
    };
    [
        row("", [Integers(-100, 100), Integers(-60, 60)])
            .shapes([&[], &[0, 3], &[13], &[7, 33]])
            .on([&[5, 1], &[7]])
            .rejects(
                format!("{name}: dtypes i32 and i64 differ; cast one of them with to_dtype"),
                move |device| run(&Tensor::zeros([2], I32, device)?, &Tensor::zeros([2], I64, device)?),
            )
            .rejects(format!("{name}: shapes [2] and [3] do not broadcast"), move |device| {
                run(&Tensor::zeros([2], I32, device)?, &Tensor::zeros([3], I32, device)?)
            }),
        row("ends", [ends(), other_ends()]).shapes([&[121]]),
    ]
}

fn rejects_floats(row: OpCase, name: &'static str, run: Run) -> OpCase {
    row.rejects(format!("{name}: operand is f32, expected an integer dtype"), move |device| {
        run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([2], F32, device)?)
    })
}

/// Tries all candidates; a result beyond the range of the dtype wraps.
fn gcd(dtype: DType, a: i64, b: i64) -> i64 {
    let (a, b) = (a.abs(), b.abs());
    let greatest = (1..=a.max(b)).rev().find(|divisor| a % divisor == 0 && b % divisor == 0);
    wrap(dtype, greatest.unwrap_or(0) as f64) as i64
}

fn divisors() -> Vec<OpCase> {
    let lcm = |dtype: DType, a: i64, b: i64| match gcd(dtype, a, b) {
        0 => 0,
        common => (wrap(dtype, (a / common * b) as f64) as i64).abs(),
    };
    let [first, second] = of_two("gcd", Tensor::gcd, gcd);
    let [third, fourth] = of_two("lcm", Tensor::lcm, lcm);
    // The numbers that need the most steps: consecutive Fibonacci numbers, which have no common
    // divisor.
    let steps = OpCase::new("gcd", "steps")
        .input(Fixed(vec![8944394323791464.0, 89.0, 987.0, 1836311903.0]))
        .input(Fixed(vec![5527939700884757.0, 55.0, 610.0, 1134903170.0]))
        .dtypes(&[I64])
        .shapes([&[4]])
        .exact()
        .run(|x| x[0].gcd(&x[1]))
        .oracle(|x| x[0].map(|_| 1.0));
    vec![
        rejects_floats(first, "gcd", Tensor::gcd),
        second,
        rejects_floats(third, "lcm", Tensor::lcm),
        fourth,
        steps,
    ]
}

fn bits() -> Vec<OpCase> {
    let cases: [(&'static str, Run, fn(DType, i64, i64) -> i64); 3] = [
        ("bitwise_and", Tensor::bitwise_and, |_, a, b| a & b),
        ("bitwise_or", Tensor::bitwise_or, |_, a, b| a | b),
        ("bitwise_xor", Tensor::bitwise_xor, |_, a, b| a ^ b),
    ];
    let mut rows: Vec<OpCase> = Vec::new();
    for (name, run, definition) in cases {
        let [first, second] = of_two(name, run, definition);
        rows.extend([rejects_floats(first.also(BOOL), name, run), second]);
    }
    rows.push(
        OpCase::new("bitwise_not", "")
            .input(ends())
            .shapes([&[], &[0, 3], &[13], &[7, 33]])
            .dtypes(INTEGERS)
            .also(UNSIGNED)
            .also(BOOL)
            .exact()
            .run(|x| x[0].bitwise_not())
            .oracle_for(|dtype, x| x[0].map(|x| if dtype == Bool { 1.0 - x } else { wrap(dtype, -1.0 - x) }))
            .rejects("bitwise_not: input is f32, expected an integer dtype or bool", |device| {
                Tensor::zeros([2], F32, device)?.bitwise_not()
            }),
    );
    rows
}

fn shifts() -> Vec<OpCase> {
    let row = |name: &'static str, run: Run, definition: fn(DType, f64, f64) -> f64| {
        let row = OpCase::new(name, "")
            .input(ends())
            .input(Integers(-3, 70))
            .shapes([&[], &[0, 3], &[121], &[7, 33]])
            .dtypes(INTEGERS)
            .also(UNSIGNED)
            .exact()
            .run(move |x| run(&x[0], &x[1]))
            .oracle_for(move |dtype, x| x[0].zip(&x[1], |a, b| definition(dtype, a, b)));
        rejects_floats(row, name, run)
    };
    vec![
        row("bitwise_left_shift", Tensor::bitwise_left_shift, |dtype, a, b| {
            let is_inside = b >= 0.0 && b < 8.0 * dtype.size() as f64;
            if is_inside { wrap(dtype, a * b.exp2()) } else { 0.0 }
        }),
        row("bitwise_right_shift", Tensor::bitwise_right_shift, |dtype, a, b| {
            let is_inside = b >= 0.0 && b < 8.0 * dtype.size() as f64;
            if is_inside { (a / b.exp2()).floor() } else { 0.0 - f64::from(u8::from(a < 0.0)) }
        }),
    ]
}
