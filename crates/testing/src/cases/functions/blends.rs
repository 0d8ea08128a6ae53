//! Rows of interpolation between two tensors, of a scaled tensor subtracted from another, and of
//! products and quotients added to a tensor.

use crate::cases::unary::wrap;
use crate::prelude::*;
use ternion_core::Scalar;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = lerps();
    rows.extend(scaled_differences());
    rows.extend(lerps_of_tensors());
    rows.extend(products());
    rows.extend(quotients());
    rows
}

/// Applies `f` to the elements of three arrays, which are broadcast.
fn zip3(x: &[Array], f: impl Fn(f64, f64, f64) -> f64) -> Array {
    let shape = x[0].zip(&x[1], |_, _| 0.0).zip(&x[2], |_, _| 0.0).shape;
    let [a, b, c] = [&x[0], &x[1], &x[2]].map(|x| x.expand(&shape));
    Array::from_fn(&shape, |at| f(a.at(at), b.at(at), c.at(at)))
}

fn scaled_differences() -> Vec<OpCase> {
    let row = |alpha: Scalar| {
        OpCase::new("sub", format!("rsub alpha={alpha}"))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .shapes([&[], &[0, 3], &[7, 33]])
            .on([&[5, 1], &[7]])
            .double_backward()
            .run(move |x| x[0].rsub_with(&x[1], alpha))
            .oracle_for(move |dtype, x| x[0].zip(&x[1], |x, other| wrap(dtype, other - alpha.as_f64() * x)))
    };
    vec![
        row(Scalar::Float(0.75)),
        row(Scalar::Int(1)).also(INTEGERS),
        row(Scalar::Int(3))
            .also(INTEGERS)
            .rejects("rsub: 0.5 is not an integer, tensor is i32", |device| {
                let x = Tensor::zeros([2], I32, device)?;
                x.rsub_with(&x, 0.5)
            })
            .rejects("rsub: input is bool, expected a number", |device| {
                let x = Tensor::zeros([2], Bool, device)?;
                x.rsub_with(&x, 1)
            })
            .rejects("rsub: shapes [2] and [3] do not broadcast", |device| {
                Tensor::zeros([2], F32, device)?.rsub_with(&Tensor::zeros([3], F32, device)?, 2)
            }),
    ]
}

fn lerps() -> Vec<OpCase> {
    [0.0, 0.25, 0.5, 0.75, 1.0, -1.5]
        .into_iter()
        .map(|weight| {
            OpCase::new("lerp", format!("weight={weight}"))
                .input(Uniform(-4.0, 4.0))
                .input(Uniform(-4.0, 4.0))
                .shapes([&[], &[0, 3], &[7, 33]])
                .on([&[5, 1], &[7]])
                .double_backward()
                .run(move |x| x[0].lerp(&x[1], weight))
                .oracle(move |x| x[0].zip(&x[1], |start, end| start + weight * (end - start)))
                .rejects("lerp: input is i32, expected a floating dtype", |device| {
                    let x = Tensor::zeros([2], I32, device)?;
                    x.lerp(&x, 0.5)
                })
                .rejects("lerp: shapes [2] and [3] do not broadcast", |device| {
                    Tensor::zeros([2], F32, device)?.lerp(&Tensor::zeros([3], F32, device)?, 0.5)
                })
        })
        .collect()
}

fn lerps_of_tensors() -> [OpCase; 2] {
    let between = |start: f64, end: f64, weight: f64| start + weight * (end - start);
    let ends = [
        Array::new(&[3], vec![1e4, 3.0, -1e4]),
        Array::new(&[3], vec![1e-2, 7.0, 1e-2]),
        Array::new(&[3], vec![1.0, 0.0, 1.0]),
    ];
    [
        OpCase::new("lerp_tensor", "")
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            // Away from 1/2, where the formula changes.
            .input(Fixed(vec![-1.25, -0.3, 0.0, 0.2, 0.4, 0.6, 0.9, 1.0, 1.75]))
            .shapes([&[], &[0, 3], &[7, 33]])
            .on([&[5, 1], &[7], &[2, 1, 1]])
            .double_backward()
            .run(|x| x[0].lerp_tensor(&x[1], &x[2]))
            .oracle(move |x| zip3(x, between))
            .rejects("lerp_tensor: dtypes f32 and f16 differ; cast one of them with to_dtype", |device| {
                let x = Tensor::zeros([2], F32, device)?;
                x.lerp_tensor(&x, &Tensor::zeros([2], F16, device)?)
            }),
        // The result at weight 1 is exactly the end, also if it is small and the start is large.
        OpCase::new("lerp_tensor", "ends")
            .input(Fixed(vec![4096.0, 3.0]))
            .input(Fixed(vec![2f64.powi(-10), 7.0]))
            .input(Fixed(vec![1.0, 0.0]))
            .shapes([&[2]])
            .exact()
            .forward_only("looks at one rounding")
            .run(|x| x[0].lerp_tensor(&x[1], &x[2]))
            .oracle(|x| zip3(x, |start, end, weight| if weight == 1.0 { end } else { start }))
            .adversarial("ends", ends),
    ]
}

fn products() -> [OpCase; 2] {
    let row = |value: f64| {
        OpCase::new("addcmul", format!("value={value}"))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .shapes([&[], &[0, 3], &[7, 33]])
            .on([&[5, 1], &[7], &[2, 1, 1]])
            .also(INTEGERS)
            .double_backward()
            .run(move |x| x[0].addcmul(&x[1], &x[2], value))
            .oracle_for(move |dtype, x| zip3(x, |x, left, right| wrap(dtype, x + value * left * right)))
    };
    [
        row(1.0),
        row(3.0)
            .rejects("addcmul: input is bool, expected a number", |device| {
                let x = Tensor::zeros([2], Bool, device)?;
                x.addcmul(&x, &x, 1.0)
            })
            .rejects("addcmul: shapes [2] and [3] do not broadcast", |device| {
                let x = Tensor::zeros([2], F32, device)?;
                x.addcmul(&x, &Tensor::zeros([3], F32, device)?, 2.0)
            })
            .rejects("addcmul: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
                let x = Tensor::zeros([2], F32, device)?;
                x.addcmul(&x, &Tensor::zeros([2], I32, device)?, 2.0)
            }),
    ]
}

fn quotients() -> [OpCase; 2] {
    [1.0, -2.5].map(|value| {
        OpCase::new("addcdiv", format!("value={value}"))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .input(AwayFrom(0.4))
            .shapes([&[], &[0, 3], &[7, 33]])
            .on([&[5, 1], &[7], &[2, 1, 1]])
            .double_backward()
            .run(move |x| x[0].addcdiv(&x[1], &x[2], value))
            .oracle(move |x| zip3(x, |x, dividend, divisor| x + value * (dividend / divisor)))
            .rejects("addcdiv: input is i32, expected a floating dtype", |device| {
                let x = Tensor::zeros([2], I32, device)?;
                x.addcdiv(&x, &x, 1.0)
            })
            .rejects("addcdiv: shapes [2] and [3] do not broadcast", |device| {
                let x = Tensor::zeros([2], F32, device)?;
                x.addcdiv(&x, &Tensor::zeros([3], F32, device)?, 1.0)
            })
    })
}
