//! Rows of multiply-add, scale-add, sum with relu, bias with activation.

use crate::oracle::erf;
use crate::prelude::*;
use ternion_core::no_grad;
use ternion_core::ops::unary::UnaryOp;

pub(super) fn rows() -> Vec<OpCase> {
    let mut rows = vec![multiply_add(), multiply_add_integers(), scale_add(), add_relu(), in_place()];
    rows.extend(bias_activations());
    rows
}

fn multiply_add() -> OpCase {
    OpCase::new("multiply_add", "")
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .shapes([&[], &[0, 3], &[7, 33], &[2, 5, 3]])
        .on([&[7, 33], &[33], &[7, 1]])
        .on([&[], &[3], &[2, 1]])
        .double_backward()
        .run(|x| x[0].multiply_add(&x[1], &x[2]))
        .oracle(|x| x[0].zip(&x[1], |a, b| a * b).zip(&x[2], |ab, c| ab + c))
        .rejects("multiply_add: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
            let a = Tensor::zeros([2], F32, device)?;
            a.multiply_add(&a, &Tensor::zeros([2], F64, device)?)
        })
        .rejects("multiply_add: operand is bool, expected a number", |device| {
            let a = Tensor::zeros([2], Bool, device)?;
            a.multiply_add(&a, &a)
        })
        .perf([&[8192, 1024], &[8192, 1024], &[8192, 1024]])
}

fn multiply_add_integers() -> OpCase {
    OpCase::new("multiply_add", "integers")
        .input(Integers(-5, 5))
        .input(Integers(-5, 5))
        .input(Integers(0, 9))
        .on([&[7, 33], &[33], &[7, 1]])
        .dtypes(INTEGERS)
        .run(|x| x[0].multiply_add(&x[1], &x[2]))
        .oracle(|x| x[0].zip(&x[1], |a, b| a * b).zip(&x[2], |ab, c| ab + c))
}

fn scale_add() -> OpCase {
    OpCase::new("scale_add", "scale=-0.625")
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .shapes([&[], &[0, 3], &[7, 33], &[2, 5, 3]])
        .on([&[7, 1], &[33]])
        .on([&[3], &[2, 1]])
        .double_backward()
        .run(|x| x[0].scale_add(-0.625, &x[1]))
        .oracle(|x| x[0].zip(&x[1], |a, b| -0.625 * a + b))
        .rejects("scale_add: operand is i32, expected a floating dtype", |device| {
            let a = Tensor::zeros([2], I32, device)?;
            a.scale_add(2.0, &a)
        })
        .perf([&[8192, 1024], &[8192, 1024]])
}

fn add_relu() -> OpCase {
    OpCase::new("add_relu", "")
        .input(AwayFrom(1.0))
        .input(Uniform(-0.75, 0.75))
        .shapes([&[], &[0, 3], &[7, 33], &[2, 5, 3]])
        .on([&[7, 33], &[33]])
        .on([&[3], &[2, 1]])
        .double_backward()
        .run(|x| x[0].add_relu(&x[1]))
        .oracle(|x| x[0].zip(&x[1], |a, b| if a + b < 0.0 { 0.0 } else { a + b }))
        .adversarial(
            "special",
            [
                Array::new(&[2, 2], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]),
                Array::new(&[2, 2], vec![1.0, f64::NEG_INFINITY, 5.0, 0.0]),
            ],
        )
        .rejects("add_relu: operand is i32, expected a floating dtype", |device| {
            let a = Tensor::zeros([2], I32, device)?;
            a.add_relu(&a)
        })
        .perf([&[8192, 1024], &[8192, 1024]])
}

fn in_place() -> OpCase {
    OpCase::new("scale_add", "and multiply_add in place")
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .on([&[5, 7], &[7]])
        .forward_only("changes a tensor in place")
        .run(|x| {
            no_grad(|| {
                let (scaled, multiplied) = (x[0].copy()?, x[0].copy()?);
                scaled.scale_add_(0.75, &x[1])?;
                multiplied.multiply_add_(&x[1], &multiplied.narrow(0, 4, 1)?)?;
                Ok(vec![scaled, multiplied])
            })
        })
        .oracle(|x| {
            let last = Array::new(&[7], x[0].data[28..].to_vec());
            let scaled = x[0].zip(&x[1], |a, b| 0.75 * a + b);
            vec![scaled, x[0].zip(&x[1], |a, b| a * b).zip(&last, |ab, c| ab + c)]
        })
}

fn bias_activations() -> Vec<OpCase> {
    let cases: [(UnaryOp, fn(f64) -> f64); 7] = [
        (UnaryOp::Relu, |x| if x < 0.0 { 0.0 } else { x }),
        (UnaryOp::Tanh, f64::tanh),
        (UnaryOp::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (UnaryOp::GeluErf, |x| x / 2.0 * (1.0 + erf(x / 2f64.sqrt()))),
        (UnaryOp::Silu, |x| x / (1.0 + (-x).exp())),
        (UnaryOp::LeakyRelu { slope: 0.25 }, |x| if x > 0.0 { x } else { 0.25 * x }),
        (UnaryOp::Square, |x| x * x),
    ];
    cases
        .into_iter()
        .map(|(activation, definition)| {
            OpCase::new("bias_activation", activation.name())
                .input(AwayFrom(1.0))
                .input(Uniform(-0.75, 0.75))
                .on([&[33], &[33]])
                .on([&[7, 33], &[33]])
                .on([&[2, 3, 5], &[5]])
                .on([&[0, 3], &[3]])
                .double_backward()
                .run(move |x| x[0].bias_activation(&x[1], activation))
                .oracle(move |x| x[0].zip(&x[1], |x, bias| definition(x + bias)))
                .rejects("bias_activation: bias has shape [1], expected [3]", move |device| {
                    let bias = Tensor::zeros([1], F32, device)?;
                    Tensor::zeros([2, 3], F32, device)?.bias_activation(&bias, activation)
                })
                .perf([&[8192, 1024], &[1024]])
        })
        .chain([OpCase::new("bias_activation", "rejects")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[3]])
            .run(|x| x[0].bias_activation(&x[0], UnaryOp::Neg))
            .oracle(|x| x[0].map(|x| -2.0 * x))
            .rejects("logical_not: input is f32, expected bool", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.bias_activation(&x, UnaryOp::Not)
            })
            .rejects("bias_activation: expected at least 1 axes, got shape []", |device| {
                let x = Tensor::zeros((), F32, device)?;
                x.bias_activation(&x, UnaryOp::Relu)
            })])
        .collect()
}
