//! Norms and standard deviations where squares overflow or underflow.

use super::*;

/// Numbers whose squares exceed the range of f32 although their norm and standard deviation do not:
/// rows are large and small alternately.
pub(super) fn beyond_their_squares() -> Vec<OpCase> {
    let values = vec![3e30, -4e30, 0.0, 12e30, 3e-30, 4e-30, -12e-30, 0.0];
    let row = |op, what: &str| {
        OpCase::new(op, what.to_owned())
            .input(Fixed(values.clone()))
            .shapes([&[2, 4]])
            .dtypes(&[F64, F32])
            .forward_only("the gradient is its own row")
    };
    let norm = |x: &[f64]| x.iter().fold(0.0, |norm: f64, x| norm.hypot(*x));
    let mut rows = vec![
        row("norm", "beyond its squares")
            .run(|x| Ok(vec![x[0].norm(1)?, x[0].norm_keep(1)?, x[0].norm(0)?, x[0].norm(..)?]))
            .oracle(move |x| {
                let reduced = |axes: &[usize], keep| x[0].reduce(axes, keep, norm);
                vec![reduced(&[1], Keep::No), reduced(&[1], Keep::Yes), reduced(&[0], Keep::No), reduced(&[0, 1], Keep::No)]
            }),
        row("var", "as std, beyond its squares")
            .run(|x| x[0].std(1, 1.0))
            .oracle(|x| x[0].reduce(&[1], Keep::No, std)),
        beyond_their_sum(),
    ];
    rows.extend(variances_near_the_largest());
    rows
}

/// Variances within the range of the dtype, of numbers whose sum of squares exceeds it. Results are
/// divided by the scale of the squares.
fn variances_near_the_largest() -> [OpCase; 3] {
    // Results are scaled to this magnitude instead of 1, where gradients would be subnormal and a
    // device might flush them to 0.
    const SCALE: f64 = (1 << 26) as f64;
    type Run = fn(&Tensor) -> Result<Vec<Tensor>>;
    let row = |what: &str, values: &[f64], run: Run| {
        OpCase::new("var", what.to_owned()).input(Fixed(values.to_vec())).dtypes(&[F64, F32, BF16]).double_backward().run(move |x| {
            let unit = 2f64.powi(if x[0].dtype() == F64 { 511 } else { 63 });
            let in_units = |y: Tensor| y.mul_scalar(SCALE / unit / unit);
            run(&x[0].mul_scalar(unit)?)?.into_iter().map(in_units).collect::<Result<Vec<_>>>()
        })
    };
    let few = [1.0, -2.0, 0.5];
    let over = |axes: &'static [usize], correction: f64| {
        move |x: &[Array]| x[0].reduce(axes, Keep::No, |x| SCALE * variance(x, correction))
    };
    [
        row("beyond the sum of squares", &few, |x| Ok(vec![x.var(1, 1.0)?])).shapes([&[2, 3]]).oracle(over(&[1], 1.0)),
        // Long rows and columns, for which several threads compute partial results.
        row("beyond the sum of squares, long", &[1.0, -1.0], |x| Ok(vec![x.var(0, 0.0)?]))
            .shapes([&[20, 1], &[1500, 1]])
            .dtypes(&[F64, F32])
            .oracle(over(&[0], 0.0)),
        row("beyond the sum of squares, as var_mean", &few, |x| Ok(vec![x.var_mean(.., 0.0, false)?.0]))
            .shapes([&[3], &[5, 2]])
            .oracle(|x| {
                let axes: Vec<usize> = (0..x[0].rank()).collect();
                vec![x[0].reduce(&axes, Keep::No, |x| SCALE * variance(x, 0.0))]
            }),
    ]
}

fn std(x: &[f64]) -> f64 {
    let center = mean(x);
    let norm = x.iter().fold(0.0f64, |norm, x| norm.hypot(x - center));
    norm / (x.len() as f64 - 1.0).sqrt()
}

/// Numbers whose sum and pairwise differences exceed the range of f32 and bf16, although their mean
/// and standard deviation do not.
fn beyond_their_sum() -> OpCase {
    let values = vec![3e38, 2e38, 2.5e38, 1.5e38, 3e38, -3e38, -3e38, -3e38, 3.0, 1.0, 2.0, 5.0];
    OpCase::new("std_mean", "beyond their sum")
        .input(Fixed(values))
        .shapes([&[3, 4]])
        .dtypes(&[F64, F32, BF16])
        .forward_only("at numbers this large differences have no digits")
        .run(|x| {
            let ((std, mean), (_, mean_of_var)) = (x[0].std_mean(1, 1.0, false)?, x[0].var_mean(1, 1.0, true)?);
            Ok(vec![std, mean, mean_of_var, x[0].std(1, 1.0)?])
        })
        .oracle(|x| {
            let reduced = |keep, f: fn(&[f64]) -> f64| x[0].reduce(&[1], keep, f);
            vec![reduced(Keep::No, std), reduced(Keep::No, mean), reduced(Keep::Yes, mean), reduced(Keep::No, std)]
        })
}
