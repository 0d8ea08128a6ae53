//! Rows of matrix products, their epilogues, and einsum.

use super::unary::wrap;
use crate::oracle;
use crate::prelude::*;
use ternion_core::dispatch::apply_one;
use ternion_core::einsum;
use ternion_core::ops::matmul::{Epilogue, Matmul, MatmulOptions};
use ternion_core::ops::unary::UnaryOp;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [products(), epilogues(), derived(), integers(), einsums()].into_iter().flatten().collect()
}

/// A product of two inputs that are uniform in (-1, 1). The rounding error of a sum of k such
/// products has a root mean square of about k * 2^-24 / 4, which is 5e-7 for k = 33.
pub(super) fn product(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-1.0, 1.0)).input(Uniform(-1.0, 1.0)).f32_limit(2e-6, 2e-6)
}

fn products() -> Vec<OpCase> {
    vec![
        product("matmul", "")
            .on([&[1, 1], &[1, 1]])
            .on([&[7, 5], &[5, 3]])
            .on([&[17, 33], &[33, 9]])
            .on([&[0, 4], &[4, 3]])
            .on([&[3, 0], &[0, 2]])
            .double_backward()
            .run(|x| x[0].matmul(&x[1]))
            .oracle(|x| oracle::matmul(&x[0], &x[1]))
            .adversarial("infinite", [square(f64::INFINITY), square(1.0)])
            .adversarial("nan", [square(1.0), square(f64::NAN)])
            .rejects("matmul: [32, 784] x [128, 10]: inner sizes 784 and 128 differ", |device| {
                zeros(&[32, 784], device)?.matmul(&zeros(&[128, 10], device)?)
            })
            .rejects("matmul: [] x [3]: operands need at least 1 axis", |device| {
                zeros(&[], device)?.matmul(&zeros(&[3], device)?)
            })
            .rejects("matmul: [3] x [4]: inner sizes 3 and 4 differ", |device| {
                zeros(&[3], device)?.matmul(&zeros(&[4], device)?)
            })
            .rejects("matmul: [2, 3, 4] x [3, 4, 5]: leading axes do not broadcast", |device| {
                zeros(&[2, 3, 4], device)?.matmul(&zeros(&[3, 4, 5], device)?)
            })
            .rejects("matmul: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                zeros(&[2, 2], device)?.matmul(&Tensor::zeros([2, 2], F64, device)?)
            })
            .rejects("matmul: operand is bool, expected a number", |device| {
                let x = Tensor::zeros([2, 2], Bool, device)?;
                x.matmul(&x)
            })
            .perf([&[1024, 1024], &[1024, 1024]]),
        product("matmul", "edges")
            .on([&[65, 31], &[31, 66]])
            .on([&[1, 129], &[129, 7]])
            .on([&[33, 2], &[2, 1]])
            .on([&[1030, 2], &[2, 3]])
            .on([&[3, 2], &[2, 517]])
            .f32_limit(4e-6, 2e-6)
            .run(|x| x[0].matmul(&x[1]))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        product("matmul", "batched")
            .on([&[2, 3, 5, 4], &[2, 3, 4, 6]])
            .on([&[3, 1, 2, 4], &[2, 4, 3]])
            .on([&[5, 3, 4], &[4, 2]])
            .on([&[3, 4], &[5, 4, 2]])
            .on([&[0, 3, 4], &[0, 4, 2]])
            .double_backward()
            .run(|x| x[0].matmul(&x[1]))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        product("matmul", "vectors")
            .on([&[5], &[5]])
            .on([&[5], &[5, 3]])
            .on([&[4, 5], &[5]])
            .on([&[5], &[2, 5, 3]])
            .on([&[2, 3, 5], &[5]])
            .double_backward()
            .run(|x| x[0].matmul(&x[1]))
            .oracle(|x| vector_product(&x[0], &x[1])),
        OpCase::new("matmul", "integers")
            .input(Integers(-100, 100))
            .input(Integers(-100, 100))
            .on([&[7, 5], &[5, 3]])
            .on([&[2, 3, 4], &[4, 2]])
            .dtypes(INTEGERS)
            .also(UNSIGNED)
            .exact()
            .run(|x| x[0].matmul(&x[1]))
            .oracle_for(integer_product),
        OpCase::new("matmul", "integers that wrap")
            .input(Integers(-2_000_000_000, 2_000_000_000))
            .input(Integers(-2_000_000_000, 2_000_000_000))
            .on([&[7, 5], &[5, 3]])
            .dtypes(&[I32])
            .exact()
            .run(|x| x[0].matmul(&x[1]))
            .oracle_for(integer_product),
    ]
}

fn epilogues() -> Vec<OpCase> {
    let with_bias = |parameters: &str| product("matmul", parameters).input(Uniform(-1.0, 1.0));
    vec![
        with_bias("bias")
            .on([&[7, 5], &[5, 3], &[3]])
            .on([&[2, 3, 4], &[2, 4, 5], &[5]])
            .on([&[0, 4], &[4, 3], &[3]])
            .double_backward()
            .run(|x| x[0].matmul_with(&x[1], bias(&x[2])))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| y + b))
            .rejects("matmul: bias has shape [4], expected [3]", |device| {
                let (a, b) = (zeros(&[2, 2], device)?, zeros(&[2, 3], device)?);
                a.matmul_with(&b, bias(&zeros(&[4], device)?))
            }),
        with_bias("bias tanh")
            .on([&[7, 5], &[5, 3], &[3]])
            .double_backward()
            .run(|x| x[0].matmul_with(&x[1], activated(&x[2], UnaryOp::Tanh)))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| (y + b).tanh())),
        // Integers plus one half: away from the kink.
        OpCase::new("matmul", "bias relu")
            .input(Integers(-2, 2))
            .input(Integers(-2, 2))
            .input(Fixed(vec![0.5, -0.5, 1.5]))
            .on([&[7, 5], &[5, 3], &[3]])
            .run(|x| x[0].matmul_with(&x[1], activated(&x[2], UnaryOp::Relu)))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| (y + b).max(0.0))),
        product("matmul", "alpha")
            .on([&[7, 5], &[5, 3]])
            .double_backward()
            .run(|x| x[0].matmul_with(&x[1], MatmulOptions { alpha: -2.5, ..Default::default() }))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).map(|y| -2.5 * y)),
        product("matmul", "residual")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[7, 3]])
            .on([&[2, 7, 5], &[5, 3], &[7, 1]])
            .on([&[5], &[5, 3], &[3]])
            .double_backward()
            .run(|x| x[0].matmul_with(&x[1], MatmulOptions { residual: Some(&x[2]), ..Default::default() }))
            .oracle(|x| vector_product(&x[0], &x[1]).zip(&x[2], |y, r| y + r))
            .rejects("matmul: residual has shape [4, 4], expected [2, 3]", |device| {
                let (a, b, c) = (zeros(&[2, 2], device)?, zeros(&[2, 3], device)?, zeros(&[4, 4], device)?);
                a.matmul_with(&b, MatmulOptions { residual: Some(&c), ..Default::default() })
            }),
        with_bias("bias gelu residual alpha")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[3], &[7, 3]])
            .run(|x| {
                let options = MatmulOptions { residual: Some(&x[3]), alpha: 0.5, ..bias(&x[2]) };
                x[0].matmul_with(&x[1], MatmulOptions { activation: Some(UnaryOp::GeluErf), ..options })
            })
            .oracle(|x| {
                let gelu = |v: f64| v / 2.0 * (1.0 + oracle::erf(v * std::f64::consts::FRAC_1_SQRT_2));
                oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| gelu(0.5 * y + b)).zip(&x[3], |y, r| y + r)
            }),
        // The gradient of the product is cast to the operands' dtype before it is multiplied.
        product("matmul", "out f32")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[3]])
            .on([&[33, 17], &[17, 9], &[9]])
            .dtypes(&[F16, BF16])
            .run(|x| x[0].matmul_with(&x[1], MatmulOptions { out_dtype: Some(F32), ..bias(&x[2]) }))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| y + b))
            .rejects(
                "matmul: output is f64, expected the operands' dtype, or f32 for f16 and bf16",
                |device| {
                    let x = zeros(&[2, 2], device)?;
                    x.matmul_with(&x, MatmulOptions { out_dtype: Some(F64), ..Default::default() })
                },
            ),
        accumulating("alpha=1", |x| {
            let y = x[0].copy()?;
            y.addmm_(&x[1], &x[2], 1.0, 1.0)?;
            Ok(y)
        })
        .oracle(|x| x[0].zip(&oracle::matmul(&x[1], &x[2]), |c, y| c + y))
        .rejects("backward: matmul changes its input 2 in place: run it in no_grad", |device| {
            let weight = zeros(&[2, 2], device)?.requires_grad()?;
            let epilogue = Epilogue { accumulate: true, ..Epilogue::NONE };
            apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&zeros(&[2, 2], device)?, &weight, &zeros(&[2, 2], device)?])
        })
        .rejects("addmm: accumulator has shape [2, 2], expected [2, 3]", |device| {
            zeros(&[2, 2], device)?.addmm_(&zeros(&[2, 4], device)?, &zeros(&[4, 3], device)?, 1.0, 1.0)
        })
        .rejects("addmm: in place: a gradient would be lost; use the form that returns a new tensor, detach, or no_grad", |device| {
            let weight = zeros(&[2, 2], device)?.requires_grad()?;
            zeros(&[2, 2], device)?.addmm_(&zeros(&[2, 2], device)?, &weight, 1.0, 1.0)
        }),
        accumulating("beta=0.5 alpha=-2", |x| {
            let y = x[0].copy()?;
            y.addmm_(&x[1], &x[2], 0.5, -2.0)?;
            Ok(y)
        })
        .oracle(|x| x[0].zip(&oracle::matmul(&x[1], &x[2]), |c, y| 0.5 * c - 2.0 * y)),
        // As when the gradient of a weight is added to an existing one.
        accumulating("half precision into f32", |x| {
            let y = x[0].to_dtype(F32)?.copy()?;
            let epilogue = Epilogue { alpha: 0.5, accumulate: true, out_dtype: Some(F32), ..Epilogue::NONE };
            apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&x[1], &x[2], &y])
        })
        .on([&[16, 24], &[16, 72], &[72, 24]])
        .dtypes(&[F16, BF16])
        .oracle(|x| x[0].zip(&oracle::matmul(&x[1], &x[2]), |c, y| c + 0.5 * y)),
        // All features of an epilogue, in a slice of a larger tensor.
        accumulating("bias tanh residual into a slice", |x| {
            let y = Tensor::zeros([9, 4], x[0].dtype(), x[0].device())?.narrow(0, 1, 7)?.narrow(1, 1, 3)?;
            y.copy_(&x[0])?;
            let epilogue = Epilogue {
                bias: true,
                activation: Some(UnaryOp::Tanh),
                residual: true,
                alpha: 0.25,
                accumulate: true,
                ..Epilogue::NONE
            };
            apply_one(Matmul { epilogue, ..Matmul::PLAIN }, &[&x[1], &x[2], &x[0].select(0, 0)?, &x[0], &y])
        })
        .oracle(|x| {
            let product = oracle::matmul(&x[1], &x[2]);
            Array::from_fn(&product.shape, |at| {
                2.0 * x[0].at(at) + (0.25 * product.at(at) + x[0].at(&[0, at[1]])).tanh()
            })
        }),
    ]
}

fn accumulating(
    parameters: &str,
    run: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
) -> OpCase {
    OpCase::new("addmm_", parameters)
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .on([&[7, 3], &[7, 5], &[5, 3]])
        .f32_limit(2e-6, 2e-6)
        .forward_only("it changes its input")
        .run(run)
}

fn derived() -> Vec<OpCase> {
    vec![
        product("linear", "bias")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[3, 5], &[3]])
            .on([&[2, 3, 4], &[5, 4], &[5]])
            .on([&[4], &[3, 4], &[3]])
            .on([&[0, 4], &[3, 4], &[3]])
            .on([&[2, 0], &[3, 0], &[3]])
            // More than a tile of 512 rows and one of 1024 columns.
            .on([&[2, 3], &[1030, 3], &[1030]])
            .on([&[520, 2], &[3, 2], &[3]])
            .double_backward()
            .run(|x| x[0].linear(&x[1], Some(&x[2])))
            .oracle(|x| vector_product(&x[0], &x[1].t()).zip(&x[2], |y, b| y + b))
            .rejects("linear: [2, 3] with weight [5, 4]: inner sizes 3 and 4 differ", |device| {
                zeros(&[2, 3], device)?.linear(&zeros(&[5, 4], device)?, None)
            })
            .rejects("linear: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                zeros(&[2, 3], device)?.linear(&Tensor::zeros([5, 3], F64, device)?, None)
            })
            .rejects("linear: bias has shape [3], expected [5]", |device| {
                zeros(&[2, 3], device)?.linear(&zeros(&[5, 3], device)?, Some(&zeros(&[3], device)?))
            })
            .rejects("linear: operand is bool, expected a number", |device| {
                let x = Tensor::zeros([2, 2], Bool, device)?;
                x.linear(&x, None)
            })
            .rejects("linear: expected 2 axes, got shape [1, 1, 4]", |device| {
                zeros(&[2, 4], device)?.linear(&zeros(&[1, 1, 4], device)?, None)
            })
            .rejects("linear: expected 2 axes, got shape [4]", |device| {
                zeros(&[2, 4], device)?.linear(&zeros(&[4], device)?, Some(&zeros(&[1], device)?))
            })
            .rejects("linear: expected at least 1 axes, got shape []", |device| {
                zeros(&[], device)?.linear(&zeros(&[4, 4], device)?, None)
            })
            .perf([&[4096, 1024], &[1024, 1024], &[1024]]),
        product("linear", "of one output")
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 3, 4], &[4], &[]])
            .on([&[4], &[4], &[]])
            .on([&[2, 0], &[0], &[]])
            .double_backward()
            .run(|x| x[0].linear(&x[1], Some(&x[2])))
            .oracle(|x| vector_product(&x[0], &x[1]).zip(&x[2], |y, b| y + b)),
        product("linear", "no bias")
            .on([&[2, 3, 4], &[5, 4]])
            .double_backward()
            .run(|x| x[0].linear(&x[1], None))
            .oracle(|x| vector_product(&x[0], &x[1].t())),
        product("addmm", "beta=0.5 alpha=2")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[7, 3]])
            .on([&[7, 5], &[5, 3], &[3]])
            .double_backward()
            .run(|x| x[2].addmm(&x[0], &x[1], 0.5, 2.0))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, c| 0.5 * c + 2.0 * y))
            .steps()
            .rejects("addmm: summand has shape [4], expected [2, 3]", |device| {
                zeros(&[4], device)?.addmm(&zeros(&[2, 4], device)?, &zeros(&[4, 3], device)?, 1.0, 1.0)
            })
            .rejects("addmm: beta 0.5 for operands of i32, expected an integer", |device| {
                let x = Tensor::ones([2, 2], I32, device)?;
                x.addmm(&x, &x, 0.5, 1.0)
            })
            .rejects("addmm: alpha 0.5 for operands of i32, expected an integer", |device| {
                let x = Tensor::ones([2, 2], I32, device)?;
                x.addmm(&x, &x, 1.0, 0.5)
            })
            .rejects("addmm: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let x = zeros(&[2, 2], device)?;
                x.addmm(&x, &Tensor::zeros([2, 2], F64, device)?, 1.0, 1.0)
            })
            .rejects("addmm: [2, 4] x [3, 3]: inner sizes 4 and 3 differ", |device| {
                zeros(&[3], device)?.addmm(&zeros(&[2, 4], device)?, &zeros(&[3, 3], device)?, 1.0, 1.0)
            })
            .rejects("addmm: expected 2 axes, got shape [4]", |device| {
                zeros(&[4], device)?.addmm(&zeros(&[4], device)?, &zeros(&[4, 3], device)?, 1.0, 1.0)
            }),
        product("addmm", "beta=0")
            .input(Fixed(vec![f64::NAN]))
            .on([&[7, 5], &[5, 3], &[7, 3]])
            .forward_only("what is not read has no gradient")
            .run(|x| x[2].addmm(&x[0], &x[1], 0.0, 1.0))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        product("outer", "")
            .on([&[7], &[3]])
            .on([&[1], &[0]])
            .double_backward()
            .run(|x| x[0].outer(&x[1]))
            .oracle(|x| {
                Array::from_fn(&[x[0].elements(), x[1].elements()], |at| x[0].data[at[0]] * x[1].data[at[1]])
            })
            .rejects("outer: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
                zeros(&[3], device)?.outer(&Tensor::zeros([2], I32, device)?)
            })
            .rejects("outer: expected 1 axes, got shape [2, 2]", |device| {
                zeros(&[3], device)?.outer(&zeros(&[2, 2], device)?)
            }),
        product("dot", "")
            .shapes([&[1], &[33], &[0]])
            .double_backward()
            .run(|x| x[0].dot(&x[1]))
            .oracle(|x| Array::scalar(x[0].dot(&x[1])))
            .rejects("dot: operand is bool, expected a number", |device| {
                let x = Tensor::zeros([3], Bool, device)?;
                x.dot(&x)
            })
            .rejects("dot: right operand has shape [4], expected [3]", |device| {
                zeros(&[3], device)?.dot(&zeros(&[4], device)?)
            }),
    ]
}

/// Integer products, with and without an epilogue, keep their dtype and wrap.
fn integers() -> Vec<OpCase> {
    let row = |op: &'static str, parameters: &str, inputs: usize| {
        (0..inputs)
            .fold(OpCase::new(op, parameters), |case, _| case.input(Integers(-100, 100)))
            .dtypes(INTEGERS)
            .exact()
    };
    let wrapped = |dtype: DType, y: Array| y.map(|v| wrap(dtype, v));
    vec![
        row("linear", "integers", 3)
            .on([&[7, 5], &[3, 5], &[3]])
            .on([&[2, 3, 4], &[5, 4], &[5]])
            .run(|x| x[0].linear(&x[1], Some(&x[2])))
            .oracle_for(move |dtype, x| {
                wrapped(dtype, vector_product(&x[0], &x[1].t()).zip(&x[2], |y, b| y + b))
            }),
        row("matmul", "integers, relu", 2)
            .on([&[7, 5], &[5, 3]])
            .run(|x| {
                let options = MatmulOptions { activation: Some(UnaryOp::Relu), ..Default::default() };
                x[0].matmul_with(&x[1], options)
            })
            .oracle_for(|dtype, x| integer_product(dtype, x).map(|y| y.max(0.0))),
        row("addmm", "integers beta=3 alpha=2", 3)
            .on([&[7, 5], &[5, 3], &[7, 3]])
            .on([&[7, 5], &[5, 3], &[3]])
            .run(|x| x[2].addmm(&x[0], &x[1], 3.0, 2.0))
            .oracle_for(move |dtype, x| {
                wrapped(dtype, oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, c| 3.0 * c + 2.0 * y))
            }),
        row("addmm_", "integers beta=3 alpha=2", 3)
            .on([&[7, 3], &[7, 5], &[5, 3]])
            .run(|x| {
                let y = x[0].copy()?;
                y.addmm_(&x[1], &x[2], 3.0, 2.0)?;
                Ok(y)
            })
            .oracle_for(move |dtype, x| {
                wrapped(dtype, x[0].zip(&oracle::matmul(&x[1], &x[2]), |c, y| 3.0 * c + 2.0 * y))
            }),
        row("outer", "integers", 2)
            .on([&[7], &[3]])
            .run(|x| x[0].outer(&x[1]))
            .oracle_for(move |dtype, x| {
                let product = |at: &[usize]| x[0].data[at[0]] * x[1].data[at[1]];
                wrapped(dtype, Array::from_fn(&[x[0].elements(), x[1].elements()], product))
            }),
        row("dot", "integers", 2)
            .shapes([&[1], &[33], &[0]])
            .run(|x| x[0].dot(&x[1]))
            .oracle_for(move |dtype, x| wrapped(dtype, Array::scalar(x[0].dot(&x[1])))),
        row("einsum", "integers bij,bjk->bik", 2)
            .on([&[2, 3, 4], &[2, 4, 5]])
            .run(|x| einsum("bij,bjk->bik", &[&x[0], &x[1]]))
            .oracle_for(move |dtype, x| wrapped(dtype, summed("bij,bjk->bik", x))),
        row("einsum", "integers ij->j, ij,k->ik", 2)
            .on([&[2, 3], &[4]])
            .run(|x| Ok(vec![einsum("ij->j", &[&x[0]])?, einsum("ij,k->ik", &[&x[0], &x[1]])?]))
            .oracle(|x| vec![summed("ij->j", &x[..1]), summed("ij,k->ik", x)]),
    ]
}

fn einsums() -> Vec<OpCase> {
    // Each equation as passed to `einsum` and written out for the oracle (with an output, and with
    // letters instead of an ellipsis), and the shapes of its operands.
    let row = |equation: &'static str, written_out: &'static str, shapes: &[&[usize]]| {
        let case =
            shapes.iter().fold(OpCase::new("einsum", equation), |case, _| case.input(Uniform(-1.0, 1.0)));
        let mut case = case.f32_limit(2e-6, 2e-6).double_backward().steps();
        case.instances.push(shapes.iter().map(|shape| shape.to_vec()).collect());
        case.run(move |x| einsum(equation, &x.iter().collect::<Vec<_>>()))
            .oracle(move |x| summed(written_out, x))
    };
    vec![
        row("bij,bjk->bik", "bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 5]])
            .rejects("einsum: \"ij,jk\": names 2 operands, got 1", |device| {
                einsum("ij,jk", &[&zeros(&[2, 2], device)?])
            })
            .rejects("einsum: \"ij\": \"ij\" does not fit operand 0 of shape [2, 3, 4]", |device| {
                einsum("ij", &[&zeros(&[2, 3, 4], device)?])
            })
            .rejects("einsum: \"i1\": '1' is not a letter", |device| einsum("i1", &[&zeros(&[2, 3], device)?]))
            .rejects("einsum: \"ij->k\": no operand has the output's k", |device| {
                einsum("ij->k", &[&zeros(&[2, 3], device)?])
            })
            .rejects("einsum: \"ij->ii\": the output names i twice", |device| {
                einsum("ij->ii", &[&zeros(&[2, 3], device)?])
            })
            .rejects("einsum: j has sizes 3 and 4", |device| {
                einsum("ij,jk", &[&zeros(&[2, 3], device)?, &zeros(&[4, 2], device)?])
            })
            .rejects("einsum: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
                einsum("ij,jk", &[&zeros(&[2, 3], device)?, &Tensor::zeros([3, 2], I32, device)?])
            })
            .rejects("einsum: i has sizes 2 and 3", |device| einsum("ii->i", &[&zeros(&[2, 3], device)?])),
        row("ij , jk", "ij,jk->ik", &[&[3, 4], &[4, 5]]),
        row("ij->ji", "ij->ji", &[&[3, 4]]),
        row("ba", "ba->ab", &[&[3, 4]]),
        row("ijk->j", "ijk->j", &[&[2, 3, 4]]),
        row("ij->", "ij->", &[&[3, 4]]),
        row("i,j->ij", "i,j->ij", &[&[3], &[4]]),
        row("i,i", "i,i->", &[&[5], &[5]]),
        row("i,i->i", "i,i->i", &[&[5], &[5]]),
        row("ii->i", "ii->i", &[&[4, 4]]),
        row("ii", "ii->", &[&[4, 4]]),
        row("iji->j", "iji->j", &[&[3, 2, 3]]),
        row("iij,jk->ik", "iij,jk->ik", &[&[3, 3, 2], &[2, 4]]),
        row("bqhd,bkhd->bhqk", "bqhd,bkhd->bhqk", &[&[2, 3, 2, 4], &[2, 5, 2, 4]]),
        row("ij,jk,kl->il", "ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 2]]),
        row("ijm,jk,ln->ik", "ijm,jk,ln->ik", &[&[2, 3, 2], &[3, 4], &[2, 2]]),
        row("...ij,...jk->...ik", "abij,bjk->abik", &[&[2, 3, 2, 4], &[3, 4, 2]]),
        row("...i,...i", "abi,bi->ab", &[&[2, 3, 4], &[3, 4]]),
        row("i...->...", "iab->ab", &[&[2, 3, 4]]),
        row("...i->i", "abi->i", &[&[2, 3, 4]]),
        row("ij,jk->ik", "ij,jk->ik", &[&[2, 0], &[0, 3]]),
        // An axis of size 1 in an ellipsis is broadcast.
        row("...a,...b->...ab", "na,nb->nab", &[&[1, 3], &[4, 2]]),
    ]
}

/// Returns a matrix of 2 x 2 with this number in a corner.
pub(super) fn square(corner: f64) -> Array {
    Array::new(&[2, 2], vec![corner, 2.0, -3.0, 0.5])
}

fn zeros(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, F32, device)
}

fn bias(bias: &Tensor) -> MatmulOptions<'_> {
    MatmulOptions { bias: Some(bias), ..Default::default() }
}

fn activated(tensor: &Tensor, activation: UnaryOp) -> MatmulOptions<'_> {
    MatmulOptions { activation: Some(activation), ..bias(tensor) }
}

/// NumPy's rule for vectors: a row on the left, a column on the right, and that axis is dropped
/// from the result.
fn vector_product(a: &Array, b: &Array) -> Array {
    let left = if a.rank() == 1 { a.reshape(&[1, a.elements()]) } else { a.clone() };
    let right = if b.rank() == 1 { b.reshape(&[b.elements(), 1]) } else { b.clone() };
    let y = oracle::matmul(&left, &right);
    let mut shape = y.shape.clone();
    if b.rank() == 1 {
        shape.pop();
    }
    if a.rank() == 1 {
        shape.remove(y.rank() - 2);
    }
    y.reshape(&shape)
}

/// Returns the product of integers, truncated to the low bits of the dtype.
fn integer_product(dtype: DType, x: &[Array]) -> Array {
    let [inner, columns] = x[1].sizes();
    let mut shape = x[0].shape.clone();
    shape[x[0].rank() - 1] = columns;
    let mut next = 0;
    Array::from_fn(&shape, |_| {
        let (row, column) = (next / columns, next % columns);
        next += 1;
        let terms =
            (0..inner).map(|k| x[0].data[row * inner + k] as i128 * x[1].data[k * columns + column] as i128);
        let sum: i128 = terms.sum();
        match dtype {
            U8 => f64::from(sum as u8),
            I8 => f64::from(sum as i8),
            I16 => f64::from(sum as i16),
            U64 => sum as u64 as f64,
            U32 => f64::from(sum as u32),
            U16 => f64::from(sum as u16),
            I32 => f64::from(sum as i32),
            _ => sum as i64 as f64,
        }
    })
}

/// Einstein summation for equations of letters only: the product of the operands' elements for all
/// combinations of indices.
fn summed(equation: &str, operands: &[Array]) -> Array {
    let Some((inputs, output)) = equation.split_once("->") else { panic!("{equation} is written in full") };
    let terms: Vec<&str> = inputs.split(',').collect();
    let mut letters: Vec<(char, usize)> = Vec::new();
    for (term, operand) in terms.iter().zip(operands) {
        for (letter, &size) in term.chars().zip(&operand.shape) {
            match letters.iter_mut().find(|(known, _)| *known == letter) {
                Some((_, known)) => *known = (*known).max(size) * usize::from(size > 0),
                None => letters.push((letter, size)),
            }
        }
    }
    let size = |letter| letters.iter().find(|(known, _)| *known == letter).map_or(1, |&(_, size)| size);
    let mut result = Array::zeros(&output.chars().map(size).collect::<Vec<_>>());
    let all = Array::zeros(&letters.iter().map(|&(_, size)| size).collect::<Vec<_>>());
    let mut index = vec![0; letters.len()];
    for _ in 0..all.elements() {
        let index_of = |names: &str, shape: &[usize]| -> Vec<usize> {
            let index_along =
                |letter| letters.iter().position(|&(known, _)| known == letter).map_or(0, |at| index[at]);
            names.chars().zip(shape).map(|(letter, &size)| if size == 1 { 0 } else { index_along(letter) }).collect()
        };
        let value: f64 = terms.iter().zip(operands).map(|(term, x)| x.at(&index_of(term, &x.shape))).product();
        let at = index_of(output, &result.shape.clone());
        *result.at_mut(&at) += value;
        crate::array::advance(&mut index, &all.shape);
    }
    result
}
