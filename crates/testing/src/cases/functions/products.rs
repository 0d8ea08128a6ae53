//! Rows of products that are added to a tensor.

use crate::prelude::*;

type AddedProduct = fn(&Tensor, &Tensor, &Tensor, f64, f64) -> Result<Tensor>;

/// A function that returns `beta * summand + alpha * product`, with the definition of its product.
struct Family {
    name: &'static str,
    run: AddedProduct,
    product: fn(&Array, &Array) -> Array,
    /// The shapes of both operands and of the result.
    shapes: [&'static [usize]; 3],
    /// The same shapes without elements.
    empty: [&'static [usize]; 3],
    /// The error for a summand of 7 elements along the last axis.
    rejected_call: &'static str,
}

const FAMILIES: [Family; 4] = [
    Family {
        name: "addmv",
        run: Tensor::addmv,
        product: |a, b| sums(&[a.shape[0]], a.shape[1], |at, k| a.at(&[at[0], k]) * b.at(&[k])),
        shapes: [&[5, 4], &[4], &[5]],
        empty: [&[5, 0], &[0], &[5]],
        rejected_call: "addmv: summand has shape [7], expected [5]",
    },
    Family {
        name: "addbmm",
        run: Tensor::addbmm,
        product: |a, b| {
            let (width, inner) = (a.shape[2], a.shape[0] * a.shape[2]);
            sums(&[a.shape[1], b.shape[2]], inner, |at, k| {
                a.at(&[k / width, at[0], k % width]) * b.at(&[k / width, k % width, at[1]])
            })
        },
        shapes: [&[3, 2, 4], &[3, 4, 5], &[2, 5]],
        empty: [&[0, 2, 4], &[0, 4, 5], &[2, 5]],
        rejected_call: "addbmm: summand has shape [7], expected [2, 5]",
    },
    Family {
        name: "baddbmm",
        run: Tensor::baddbmm,
        product: |a, b| {
            sums(&[a.shape[0], a.shape[1], b.shape[2]], a.shape[2], |at, k| {
                a.at(&[at[0], at[1], k]) * b.at(&[at[0], k, at[2]])
            })
        },
        shapes: [&[3, 2, 4], &[3, 4, 5], &[3, 2, 5]],
        empty: [&[3, 2, 0], &[3, 0, 5], &[3, 2, 5]],
        rejected_call: "baddbmm: summand has shape [7], expected [3, 2, 5]",
    },
    Family {
        name: "addr",
        run: Tensor::addr,
        product: |a, b| sums(&[a.shape[0], b.shape[0]], 1, |at, _| a.at(&[at[0]]) * b.at(&[at[1]])),
        shapes: [&[3], &[5], &[3, 5]],
        empty: [&[0], &[5], &[0, 5]],
        rejected_call: "addr: summand has shape [7], expected [3, 5]",
    },
];

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = FAMILIES.iter().flat_map(of_family).collect();
    rows.extend(rejected_calls());
    rows
}

/// At each index of `shape` the sum of `inner` terms.
fn sums(shape: &[usize], inner: usize, term: impl Fn(&[usize], usize) -> f64) -> Array {
    Array::from_fn(shape, |at| (0..inner).map(|k| term(at, k)).sum())
}

fn of_family(family: &'static Family) -> Vec<OpCase> {
    let Family { name, run, product, shapes: [a, b, y], empty, rejected_call } = family;
    let row = |parameters: &str, summand: Values, [beta, alpha]: [f64; 2]| {
        OpCase::new(name, parameters)
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .input(summand)
            .f32_limit(2e-6, 2e-6)
            .run(move |x| run(&x[2], &x[0], &x[1], beta, alpha))
            .oracle(move |x| {
                let summand = |c: f64| if beta == 0.0 { 0.0 } else { beta * c };
                product(&x[0], &x[1]).zip(&x[2], |y, c| summand(c) + alpha * y)
            })
    };
    vec![
        row("beta=0.3 alpha=2", Uniform(-1.0, 1.0), [0.3, 2.0])
            .on([a, b, y])
            .on([a, b, &[1]])
            .on([a, b, &[]])
            .on(*empty)
            .double_backward()
            .rejects(*rejected_call, move |device| {
                let [a, b] = [a, b].map(|shape| Tensor::zeros(*shape, F32, device));
                run(&Tensor::zeros([7], F32, device)?, &a?, &b?, 1.0, 1.0)
            }),
        // With a factor of 0 the elements of the summand do not matter.
        row("beta=0", Fixed(vec![f64::NAN, f64::INFINITY]), [0.0, 1.0]).on([a, b, y]).forward_only("what is not read has no gradient"),
        OpCase::new(name, "integers")
            .input(Integers(0, 5))
            .input(Integers(0, 5))
            .input(Integers(0, 5))
            .dtypes(INTEGERS)
            .exact()
            .on([a, b, y])
            .run(|x| run(&x[2], &x[0], &x[1], 3.0, 2.0))
            .oracle_for(move |dtype, x| {
                let result = product(&x[0], &x[1]).zip(&x[2], |y, c| 3.0 * c + 2.0 * y);
                result.map(|y| crate::cases::unary::wrap(dtype, y))
            }),
    ]
}

/// Operands of mismatched shapes, each for another function: the functions share their checks.
fn rejected_calls() -> Vec<OpCase> {
    let zeros = |shape: &[usize], device: &Device| Tensor::zeros(shape, F32, device);
    let row = |name: &'static str, shapes: [&'static [usize]; 2], run: AddedProduct| {
        OpCase::new(name, "rejections")
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .on(shapes)
            .forward_only("the rows above have gradients")
            .f32_limit(2e-6, 2e-6)
            .run(move |x| run(&Tensor::zeros([1], x[0].dtype(), x[0].device())?, &x[0], &x[1], 1.0, 1.0))
    };
    vec![
        row("addmv", [&[2, 3], &[3]], Tensor::addmv)
            .oracle(|x| sums(&[2], 3, |at, k| x[0].at(&[at[0], k]) * x[1].at(&[k])))
            .rejects("addmv: [2, 3] x [4]: inner sizes 3 and 4 differ", move |device| {
                zeros(&[2], device)?.addmv(&zeros(&[2, 3], device)?, &zeros(&[4], device)?, 1.0, 1.0)
            })
            .rejects("addmv: expected 2 axes, got shape [3]", move |device| {
                zeros(&[2], device)?.addmv(&zeros(&[3], device)?, &zeros(&[3], device)?, 1.0, 1.0)
            })
            .rejects("addmv: beta 0.5 for operands of i32, expected an integer", |device| {
                let x = Tensor::ones([2, 2], I32, device)?;
                x.select(0, 0)?.addmv(&x, &x.select(0, 0)?, 0.5, 1.0)
            }),
        row("baddbmm", [&[1, 2, 3], &[1, 3, 2]], Tensor::baddbmm)
            .oracle(|x| sums(&[1, 2, 2], 3, |at, k| x[0].at(&[0, at[1], k]) * x[1].at(&[0, k, at[2]])))
            .rejects("baddbmm: right operand has shape [2, 3, 4], expected [5, 3, 4]", move |device| {
                zeros(&[1], device)?.baddbmm(&zeros(&[5, 2, 3], device)?, &zeros(&[2, 3, 4], device)?, 1.0, 1.0)
            }),
        row("addbmm", [&[1, 2, 3], &[1, 3, 2]], Tensor::addbmm)
            .oracle(|x| sums(&[2, 2], 3, |at, k| x[0].at(&[0, at[0], k]) * x[1].at(&[0, k, at[1]])))
            .rejects("addbmm: dtypes f32 and f64 differ; cast one of them with to_dtype", move |device| {
                let b = Tensor::zeros([1, 3, 2], F64, device)?;
                zeros(&[1], device)?.addbmm(&zeros(&[1, 2, 3], device)?, &b, 1.0, 1.0)
            }),
        row("addr", [&[2], &[3]], Tensor::addr)
            .oracle(|x| sums(&[2, 3], 1, |at, _| x[0].at(&[at[0]]) * x[1].at(&[at[1]])))
            .rejects("addr: operand is bool, expected a number", |device| {
                let x = Tensor::zeros([2], Bool, device)?;
                x.addr(&x, &x, 1.0, 1.0)
            }),
    ]
}
