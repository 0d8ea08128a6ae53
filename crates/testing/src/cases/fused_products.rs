//! Rows of products that are fused with activations, their gradients and residuals: the layers of a
//! transformer.

use crate::oracle;
use crate::prelude::*;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::matmul::{Epilogue, LinearParameters, Matmul};
use ternion_core::ops::unary::UnaryOp;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    vec![
        pre_activation(),
        activation_grad(),
        activation_grad_relu(),
        column_sums(),
        row_sums_of_a(),
        linear_add(),
        feed_forward(),
        feed_forward_relu(),
    ]
}

fn gelu(x: f64) -> f64 {
    x / 2.0 * (1.0 + oracle::erf(x * FRAC_1_SQRT_2))
}

/// Returns the derivative of [`gelu`].
fn gelu_grad(x: f64) -> f64 {
    (1.0 + oracle::erf(x * FRAC_1_SQRT_2)) / 2.0 + x * (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}

fn zeros(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, F32, device)
}

/// Inputs are uniform in (-1, 1), as in the rows of plain products.
fn product(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-1.0, 1.0)).input(Uniform(-1.0, 1.0)).f32_limit(4e-6, 4e-6)
}

fn pre_activation() -> OpCase {
    let epilogue = Epilogue {
        bias: true,
        activation: Some(UnaryOp::GeluErf),
        alpha: 0.5,
        pre_activation: true,
        ..Epilogue::NONE
    };
    let op = move || Matmul { epilogue, ..Matmul::PLAIN };
    product("matmul", "bias gelu pre-activation")
        .input(Uniform(-1.0, 1.0))
        .on([&[7, 5], &[5, 3], &[3]])
        .on([&[2, 3, 4], &[2, 4, 5], &[5]])
        .on([&[0, 4], &[4, 3], &[3]])
        .double_backward()
        .run(move |x| Ok(apply(op(), &[&x[0], &x[1], &x[2]])?.into_vec()))
        .oracle(|x| {
            let z = oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| 0.5 * y + b);
            (z.map(gelu), z)
        })
        .rejects(
            "matmul: pre_activation: expected an activation, no residual, no accumulator, got pre_activation",
            |device| {
                let x = zeros(&[2, 2], device)?;
                let epilogue = Epilogue { pre_activation: true, ..Epilogue::NONE };
                apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&x, &x])
            },
        )
}

fn activation_grad() -> OpCase {
    let with = |op| Epilogue { activation_grad: Some(op), alpha: 0.5, ..Epilogue::NONE };
    product("matmul", "gelu_grad")
        .input(Uniform(-2.0, 2.0))
        .on([&[7, 5], &[5, 3], &[7, 3]])
        .on([&[2, 3, 4], &[2, 4, 5], &[2, 3, 5]])
        .on([&[0, 4], &[4, 3], &[0, 3]])
        .run(move |x| {
            let op = Matmul { epilogue: with(UnaryOp::GeluErf), ..Matmul::PLAIN };
            apply_one(op, &[&x[0], &x[1], &x[2]])
        })
        .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, z| 0.5 * y * gelu_grad(z)))
        .rejects("matmul: pre-activation has shape [2, 3], expected [2, 2]", move |device| {
            let x = zeros(&[2, 2], device)?;
            let op = Matmul { epilogue: with(UnaryOp::Silu), ..Matmul::PLAIN };
            apply_one(op, &[&x, &x, &zeros(&[2, 3], device)?])
        })
        .rejects("matmul: activation_grad: expected relu or a function whose gradient is computed from its input, got tanh", move |device| {
            let x = zeros(&[2, 2], device)?;
            apply_one(Matmul { epilogue: with(UnaryOp::Tanh), ..Matmul::PLAIN }, &[&x, &x, &x])
        })
        .rejects(
            "matmul: activation_grad: expected no bias, activation, pre-activation output, residual or accumulator, got residual, activation_grad silu",
            move |device| {
                let x = zeros(&[2, 2], device)?;
                let epilogue = Epilogue { residual: true, ..with(UnaryOp::Silu) };
                apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&x, &x, &x, &x])
            },
        )
}

/// Inputs are outputs of relu, some of which are 0.
fn activation_grad_relu() -> OpCase {
    let epilogue = Epilogue { activation_grad: Some(UnaryOp::Relu), alpha: 0.5, ..Epilogue::NONE };
    product("matmul", "relu_grad")
        .input(Uniform(-2.0, 2.0))
        .on([&[7, 5], &[5, 3], &[7, 3]])
        .on([&[2, 3, 4], &[2, 4, 5], &[2, 3, 5]])
        .on([&[16, 72], &[72, 24], &[16, 24]])
        .on([&[0, 4], &[4, 3], &[0, 3]])
        .run(move |x| {
            apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&x[0], &x[1], &x[2].relu()?])
        })
        .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, z| if z > 0.0 { 0.5 * y } else { 0.0 }))
}

fn column_sums() -> OpCase {
    let epilogue = Epilogue { activation_grad: Some(UnaryOp::GeluErf), column_sums: true, ..Epilogue::NONE };
    product("matmul", "gelu_grad column sums")
        .input(Uniform(-2.0, 2.0))
        .on([&[7, 5], &[5, 3], &[7, 3]])
        .on([&[0, 4], &[4, 3], &[0, 3]])
        .f32_limit(2e-5, 1e-5)
        // In half precision the sums are those of rounded numbers.
        .dtypes(&[F32, F64])
        .run(move |x| Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&x[0], &x[1], &x[2]])?.into_vec()))
        .oracle(|x| {
            let y = oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, z| y * gelu_grad(z));
            let sums = Array::from_fn(&[y.shape[1]], |at| (0..y.shape[0]).map(|row| y.at(&[row, at[0]])).sum());
            (y, sums)
        })
        .rejects("matmul: column_sums: expected activation_grad, got column_sums", |device| {
            let x = zeros(&[2, 2], device)?;
            let epilogue = Epilogue { column_sums: true, ..Epilogue::NONE };
            apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&x, &x])
        })
        .rejects("matmul: expected 2 axes, got shape [1, 2, 2]", move |device| {
            let x = zeros(&[1, 2, 2], device)?;
            Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&x, &x, &x])?.swap_remove(0))
        })
}

fn row_sums_of_a() -> OpCase {
    let epilogue = Epilogue { row_sums_of_a: true, alpha: 0.5, ..Epilogue::NONE };
    let with = |x: &Tensor, epilogue| {
        Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[x, x])?.swap_remove(0))
    };
    product("matmul", "row sums of a")
        .on([&[7, 5], &[5, 3]])
        .on([&[16, 72], &[72, 8]])
        .on([&[1, 1], &[1, 1]])
        .on([&[4, 0], &[0, 3]])
        .on([&[0, 4], &[4, 3]])
        .on([&[5, 4], &[4, 0]])
        .double_backward()
        .run(move |x| Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&x[0], &x[1]])?.into_vec()))
        .oracle(|x| {
            let [rows, inner] = [x[0].shape[0], x[0].shape[1]];
            let sums = Array::from_fn(&[rows], |at| (0..inner).map(|k| x[0].at(&[at[0], k])).sum());
            (oracle::matmul(&x[0], &x[1]).map(|y| 0.5 * y), sums)
        })
        .rejects(
            "matmul: row_sums_of_a: expected no bias, activation, activation_grad, residual or accumulator, got activation relu, row_sums_of_a",
            move |device| with(&zeros(&[2, 2], device)?, Epilogue { activation: Some(UnaryOp::Relu), ..epilogue }),
        )
        .rejects("matmul: expected 2 axes, got shape [1, 2, 2]", move |device| {
            with(&zeros(&[1, 2, 2], device)?, epilogue)
        })
        .rejects("matmul: operand with sums of its rows is i32, expected a floating dtype", move |device| {
            with(&Tensor::zeros([2, 2], I32, device)?, Epilogue { alpha: 1.0, ..epilogue })
        })
}

fn linear_add() -> OpCase {
    product("linear_add", "bias")
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .on([&[7, 5], &[3, 5], &[3], &[7, 3]])
        .on([&[2, 3, 4], &[5, 4], &[5], &[2, 3, 5]])
        .on([&[4], &[3, 4], &[3], &[3]])
        .on([&[0, 4], &[3, 4], &[3], &[0, 3]])
        // In half precision a residual is added by a separate addition.
        .dtypes(&[F32, F64])
        .double_backward()
        .run(|x| x[0].linear_add(LinearParameters { weight: &x[1], bias: Some(&x[2]) }, &x[3]))
        .oracle(|x| linear(&x[0], &x[1], &x[2]).zip(&x[3], |y, r| y + r))
        .rejects("linear: residual has shape [3], expected [2, 3]", |device| {
            let (x, weight) = (zeros(&[2, 4], device)?, zeros(&[3, 4], device)?);
            x.linear_add(LinearParameters { weight: &weight, bias: None }, &zeros(&[3], device)?)
        })
}

/// `x weightT + bias` with any leading axes.
fn linear(x: &Array, weight: &Array, bias: &Array) -> Array {
    let rows = x.elements() / weight.shape[1].max(1);
    let flat = Array::new(&[rows, weight.shape[1]], x.data.clone());
    let y = oracle::matmul(&flat, &weight.t()).zip(bias, |y, b| y + b);
    let mut shape = x.shape[..x.shape.len() - 1].to_vec();
    shape.push(weight.shape[0]);
    Array::new(&shape, y.data)
}

fn layers(parameters: &str) -> OpCase {
    let mut row = product("feed_forward", parameters);
    for _ in 0..4 {
        row = row.input(Uniform(-1.0, 1.0));
    }
    row.on([&[7, 5], &[6, 5], &[6], &[3, 6], &[3], &[7, 3]])
        .on([&[2, 3, 4], &[5, 4], &[5], &[4, 5], &[4], &[2, 3, 4]])
        .on([&[0, 4], &[5, 4], &[5], &[4, 5], &[4], &[0, 4]])
        // Intermediate tensors are rounded to half precision, as by separate layers.
        .dtypes(&[F32, F64])
}

fn run_layers(x: &[Tensor], activation: UnaryOp) -> Result<Tensor> {
    let first = LinearParameters { weight: &x[1], bias: Some(&x[2]) };
    let second = LinearParameters { weight: &x[3], bias: Some(&x[4]) };
    x[0].feed_forward(first, activation, second, Some(&x[5]))
}

fn layers_of(x: &[Array], activation: fn(f64) -> f64) -> Array {
    let hidden = linear(&x[0], &x[1], &x[2]).map(activation);
    linear(&hidden, &x[3], &x[4]).zip(&x[5], |y, r| y + r)
}

fn feed_forward() -> OpCase {
    layers("gelu residual")
        .double_backward()
        .run(|x| run_layers(x, UnaryOp::GeluErf))
        .oracle(|x| layers_of(x, gelu))
        .rejects("feed_forward: residual has shape [2, 4], expected [2, 3]", |device| {
            let (x, w1, w2) = (zeros(&[2, 4], device)?, zeros(&[5, 4], device)?, zeros(&[3, 5], device)?);
            let [first, second] = [&w1, &w2].map(|weight| LinearParameters { weight, bias: None });
            x.feed_forward(first, UnaryOp::Silu, second, Some(&x))
        })
        .rejects("feed_forward: expected at least 1 axes, got shape []", |device| {
            let weight = zeros(&[1, 1], device)?;
            let layer = LinearParameters { weight: &weight, bias: None };
            zeros(&[], device)?.feed_forward(layer, UnaryOp::Silu, layer, None)
        })
}

/// The gradient of relu is a function of its output.
fn feed_forward_relu() -> OpCase {
    layers("relu residual").run(|x| run_layers(x, UnaryOp::Relu)).oracle(|x| layers_of(x, |v| v.max(0.0)))
}
