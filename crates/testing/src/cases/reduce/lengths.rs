//! Norms and deviations where squares overflow, or vanish.

use super::*;

/// Numbers whose squares f32 does not hold, though it holds their norm and their deviation: a row is large, the next one small.
pub(super) fn beyond_their_squares() -> [OpCase; 2] {
    let values = vec![3e30, -4e30, 0.0, 12e30, 3e-30, 4e-30, -12e-30, 0.0];
    let row = |op, what: &str| {
        OpCase::new(op, what.to_owned())
            .input(Fixed(values.clone()))
            .shapes([&[2, 4]])
            .dtypes(&[F64, F32])
            .forward_only("the gradient is a row of its own")
    };
    let length = |x: &[f64]| x.iter().fold(0.0, |length: f64, x| length.hypot(*x));
    [
        row("norm", "beyond its squares")
            .run(|x| Ok(vec![x[0].norm(1)?, x[0].norm_keep(1)?, x[0].norm(0)?, x[0].norm(..)?]))
            .oracle(move |x| {
                let of = |axes: &[usize], keep| x[0].reduce(axes, keep, length);
                vec![of(&[1], Keep::No), of(&[1], Keep::Yes), of(&[0], Keep::No), of(&[0, 1], Keep::No)]
            }),
        row("var", "as std, beyond its squares").run(|x| x[0].std(1, 1.0)).oracle(move |x| {
            x[0].reduce(&[1], Keep::No, move |x| {
                let center = mean(x);
                length(&x.iter().map(|x| x - center).collect::<Vec<_>>()) / (x.len() as f64 - 1.0).sqrt()
            })
        }),
    ]
}
