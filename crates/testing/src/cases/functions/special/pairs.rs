//! Rows of a factor times a logarithm.

use super::specials;
use crate::prelude::*;

/// A function of two tensors.
type OfTwo = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    vec![
        row("xlogy", Uniform(0.6, 4.0), |x, y| x.xlogy(y), f64::ln),
        row("xlog1py", Uniform(-0.4, 3.0), |x, y| x.xlog1py(y), f64::ln_1p),
    ]
}

fn row(name: &'static str, values: Values, run: OfTwo, logarithm: fn(f64) -> f64) -> OpCase {
    let factors = [0.0, -0.0, 1.0, -2.0, f64::INFINITY, f64::NAN];
    OpCase::new(name, "")
        .input(Uniform(-2.0, 2.0))
        .input(values)
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .on([&[7, 1], &[33]])
        .on([&[5], &[3, 1, 5]])
        .double_backward()
        .run(move |x| run(&x[0], &x[1]))
        .oracle(move |x| {
            x[0].zip(&x[1], |x, y| if x == 0.0 && !y.is_nan() { 0.0 } else { x * logarithm(y) })
        })
        .adversarial("special", [Array::new(&[factors.len(), 1], factors.to_vec()), specials()])
        .rejects(format!("{name}: shapes [2] and [3] do not broadcast"), move |device| {
            run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([3], F32, device)?)
        })
        .rejects(format!("{name}: input is i64, expected a floating dtype"), move |device| {
            run(&Tensor::zeros([2], I64, device)?, &Tensor::zeros([2], I64, device)?)
        })
        .rejects(format!("{name}: dtypes f32 and f64 differ; cast one of them with to_dtype"), move |device| {
            run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([2], F64, device)?)
        })
        .perf([&[8192, 1024], &[8192, 1024]])
}
