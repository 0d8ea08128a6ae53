//! Rows of sums of products over axes of two tensors.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [inner().to_vec(), tensordot(), bilinear()].concat()
}

/// Sums of products over pairs of axes `(axis of a, axis of b)`, by loops over all indices.
fn contracted(a: &Array, b: &Array, axes: &[(usize, usize)]) -> Array {
    let rest = |x: &Array, is_first: bool| -> Vec<usize> {
        let summed = |axis: &usize| axes.iter().any(|&(axis_a, axis_b)| *axis == if is_first { axis_a } else { axis_b });
        (0..x.rank()).filter(|axis| !summed(axis)).collect()
    };
    let (rest_a, rest_b) = (rest(a, true), rest(b, false));
    let sizes: Vec<usize> = axes.iter().map(|&(axis_a, axis_b)| a.shape[axis_a].max(b.shape[axis_b])).collect();
    let shape: Vec<usize> =
        rest_a.iter().map(|&axis| a.shape[axis]).chain(rest_b.iter().map(|&axis| b.shape[axis])).collect();
    Array::from_fn(&shape, |at| {
        let (of_a, of_b) = at.split_at(rest_a.len());
        let mut total = 0.0;
        Array::from_fn(&sizes, |summed| {
            let element = |x: &Array, rest: &[usize], outer: &[usize], is_first: bool| {
                let mut index = vec![0; x.rank()];
                rest.iter().zip(outer).for_each(|(&axis, &at)| index[axis] = at);
                for (&(axis_a, axis_b), &at) in axes.iter().zip(summed) {
                    let axis = if is_first { axis_a } else { axis_b };
                    index[axis] = if x.shape[axis] == 1 { 0 } else { at };
                }
                x.at(&index)
            };
            total += element(a, &rest_a, of_a, true) * element(b, &rest_b, of_b, false);
            0.0
        });
        total
    })
}

fn row(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters)
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .f32_limit(2e-6, 4e-6)
        .double_backward()
}

fn inner() -> [OpCase; 2] {
    [
        row("inner", "")
            .on([&[7], &[7]])
            .on([&[3, 5], &[5]])
            .on([&[5], &[2, 3, 5]])
            .on([&[2, 3, 5], &[4, 5]])
            .on([&[3, 0], &[2, 0]])
            .on([&[0, 3], &[3]])
            .run(|x| x[0].inner(&x[1]))
            .oracle(|x| contracted(&x[0], &x[1], &[(x[0].rank() - 1, x[1].rank() - 1)]))
            .rejects("inner: shapes [2, 3] and [2, 4]: the last sizes differ", |device| {
                Tensor::zeros([2, 3], F32, device)?.inner(&Tensor::zeros([2, 4], F32, device)?)
            })
            .rejects("inner: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
                Tensor::zeros([2], F32, device)?.inner(&Tensor::zeros([2], I32, device)?)
            }),
        row("inner", "without axes")
            .on([&[], &[]])
            .on([&[], &[3, 5]])
            .on([&[4], &[]])
            .run(|x| x[0].inner(&x[1]))
            .oracle(|x| x[0].zip(&x[1], |a, b| a * b)),
    ]
}

fn tensordot() -> Vec<OpCase> {
    vec![
        row("tensordot", "axes=1,2 other=0,1")
            .on([&[2, 3, 5], &[3, 5, 4]])
            .on([&[2, 3, 0], &[3, 0, 4]])
            .run(|x| x[0].tensordot(&x[1], &[1, 2], &[0, 1]))
            .oracle(|x| contracted(&x[0], &x[1], &[(1, 0), (2, 1)])),
        row("tensordot", "axes=-1,0 other=1,-1")
            .on([&[2, 3, 5], &[4, 5, 2]])
            .run(|x| x[0].tensordot(&x[1], &[-1, 0], &[1, -1]))
            .oracle(|x| contracted(&x[0], &x[1], &[(2, 1), (0, 2)])),
        // An axis of size 1 is broadcast to the other one.
        row("tensordot", "of size 1")
            .on([&[2, 1, 3], &[5, 3]])
            .on([&[2, 5, 3], &[1, 3]])
            .run(|x| x[0].tensordot(&x[1], &[1, 2], &[0, 1]))
            .oracle(|x| contracted(&x[0], &x[1], &[(1, 0), (2, 1)])),
        row("tensordot", "no axes")
            .on([&[2, 3], &[4]])
            .on([&[], &[]])
            .run(|x| x[0].tensordot(&x[1], &[], &[]))
            .oracle(|x| contracted(&x[0], &x[1], &[]))
            .rejects("tensordot: 1 axes and 2 of the other tensor", |device| {
                let x = Tensor::zeros([2, 2], F32, device)?;
                x.tensordot(&x, &[0], &[0, 1])
            })
            .rejects("tensordot: axes [0] of shape [2, 3] and [1] of shape [2, 3]: sizes differ", |device| {
                let x = Tensor::zeros([2, 3], F32, device)?;
                x.tensordot(&x, &[0], &[1])
            })
            .rejects("tensordot: axis 2 on shape [2, 3]", |device| {
                let x = Tensor::zeros([2, 3], F32, device)?;
                x.tensordot(&x, &[2], &[1])
            }),
    ]
}

/// `x @ weight[o] @ y + bias[o]`.
fn bilinear() -> Vec<OpCase> {
    let product = |x: &[Array]| {
        let shape = [&x[0].shape[..x[0].rank() - 1], &x[2].shape[..1]].concat();
        Array::from_fn(&shape, |at| {
            let [outer @ .., output] = at else { panic!("an axis of outputs") };
            let term = |i: usize, j: usize| {
                x[0].at(&[outer, &[i]].concat()) * x[2].at(&[*output, i, j]) * x[1].at(&[outer, &[j]].concat())
            };
            let [_, n, m] = x[2].sizes();
            (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).map(|(i, j)| term(i, j)).sum()
        })
    };
    let row = |parameters: &str| {
        let inputs = [Uniform(-2.0, 2.0), Uniform(-2.0, 2.0), Uniform(-1.0, 1.0)];
        inputs.into_iter().fold(OpCase::new("bilinear", parameters), OpCase::input).f32_limit(4e-6, 4e-6).double_backward()
    };
    vec![
        row("")
            .on([&[2, 3], &[2, 4], &[5, 3, 4]])
            .on([&[3], &[4], &[2, 3, 4]])
            .on([&[0, 2], &[0, 1], &[2, 2, 1]])
            .run(|x| x[0].bilinear(&x[1], &x[2], None))
            .oracle(move |x| product(x))
            .rejects("bilinear: inputs of shapes [2, 3] and [2, 4] for a weight of shape [5, 3, 3]", |device| {
                let zeros = |shape: &[usize]| Tensor::zeros(shape, F32, device);
                zeros(&[2, 3])?.bilinear(&zeros(&[2, 4])?, &zeros(&[5, 3, 3])?, None)
            })
            .rejects("bilinear: bias has shape [2], expected [1]", |device| {
                let zeros = |shape: &[usize]| Tensor::zeros(shape, F32, device);
                zeros(&[2, 3])?.bilinear(&zeros(&[2, 4])?, &zeros(&[1, 3, 4])?, Some(&zeros(&[2])?))
            }),
        [Integers(-3, 3), Integers(-3, 3), Integers(-3, 3)]
            .into_iter()
            .fold(OpCase::new("bilinear", "integers"), OpCase::input)
            .dtypes(SIGNED)
            .exact()
            .on([&[2, 3], &[2, 4], &[5, 3, 4]])
            .run(|x| x[0].bilinear(&x[1], &x[2], None))
            .oracle(move |x| product(x)),
        row("bias")
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 2, 3], &[2, 2, 4], &[5, 3, 4], &[5]])
            .run(|x| x[0].bilinear(&x[1], &x[2], Some(&x[3])))
            .oracle(move |x| {
                let product = product(x);
                Array::from_fn(&product.shape, |at| product.at(at) + x[3].at(&at[at.len() - 1..]))
            }),
    ]
}
