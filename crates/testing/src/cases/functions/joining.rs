//! Rows of joined tensors, and of grids.

use crate::prelude::*;
use ternion_core::MeshgridIndexing::{Ij, Xy};
use ternion_core::{Shape, broadcast_shapes};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [at_least_rows(), stacks(), vec![shapes(), broadcast()], grids(), vec![products()]].concat()
}

fn row(op: &'static str, parameters: &str, inputs: usize) -> OpCase {
    let case = OpCase::new(op, parameters).also(INTEGERS).also(BOOL).exact().double_backward();
    (0..inputs).fold(case, |case, _| case.input(Uniform(-4.0, 4.0)))
}

/// Adds axes up to rank `rank`: new ones in front, except the third, which is last.
fn at_least(x: &Array, rank: usize) -> Array {
    let mut shape = x.shape.clone();
    while shape.len() < rank.min(2) {
        shape.insert(0, 1);
    }
    while shape.len() < rank {
        shape.push(1);
    }
    x.reshape(&shape)
}

fn at_least_rows() -> Vec<OpCase> {
    type Run = fn(&Tensor) -> Result<Tensor>;
    let case = |op: &'static str, run: Run, rank: usize| {
        row(op, "", 1)
            .shapes([&[], &[3], &[0], &[2, 3], &[2, 3, 4], &[2, 1, 3, 2]])
            .run(move |x| run(&x[0]))
            .oracle(move |x| at_least(&x[0], rank))
    };
    vec![
        case("atleast_1d", Tensor::atleast_1d, 1),
        case("atleast_2d", Tensor::atleast_2d, 2),
        case("atleast_3d", Tensor::atleast_3d, 3),
    ]
}

/// Concatenates arrays along an axis.
fn concat(parts: &[Array], axis: usize) -> Array {
    let mut shape = parts[0].shape.clone();
    shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
    Array::from_fn(&shape, |at| {
        let mut source_index = at.to_vec();
        for part in parts {
            if source_index[axis] < part.shape[axis] {
                return part.at(&source_index);
            }
            source_index[axis] -= part.shape[axis];
        }
        f64::NAN
    })
}

type Stack = fn(&[&Tensor]) -> Result<Tensor>;

fn stack(op: &'static str, run: Stack, oracle: fn(&[Array]) -> Array) -> OpCase {
    row(op, "", 3)
        .run(move |x| run(&x.iter().collect::<Vec<_>>()))
        .oracle(oracle)
        .rejects(format!("{op}: expected at least 1 tensor, got 0"), move |_| run(&[]))
        .rejects(format!("{op}: dtypes f32 and f64 differ; cast one of them with to_dtype"), move |device| {
            run(&[&Tensor::zeros([2, 2], F32, device)?, &Tensor::zeros([2, 2], F64, device)?])
        })
        .rejects(format!("{op}: input has shape [2, 2, 2, 3], expected [2, 2, 2, 1]"), move |device| {
            run(&[&Tensor::zeros([2, 2, 2, 1], F32, device)?, &Tensor::zeros([2, 2, 2, 3], F32, device)?])
        })
}

fn stacks() -> Vec<OpCase> {
    vec![
        stack("hstack", Tensor::hstack, |x| {
            let raised: Vec<Array> = x.iter().map(|x| at_least(x, 1)).collect();
            concat(&raised, raised[0].rank().min(2) - 1)
        })
        .on([&[3], &[], &[0]])
        .on([&[2, 3], &[2, 1], &[2, 0]])
        .on([&[2, 3, 2], &[2, 1, 2], &[2, 4, 2]]),
        stack("vstack", Tensor::vstack, |x| {
            concat(&x.iter().map(|x| at_least(x, 2)).collect::<Vec<_>>(), 0)
        })
        .on([&[3], &[2, 3], &[1, 3]])
        .on([&[], &[1], &[1, 1]])
        .on([&[2, 3, 2], &[1, 3, 2], &[0, 3, 2]]),
        stack("dstack", Tensor::dstack, |x| {
            concat(&x.iter().map(|x| at_least(x, 3)).collect::<Vec<_>>(), 2)
        })
        .on([&[3], &[1, 3], &[1, 3, 2]])
        .on([&[], &[1], &[1, 1]])
        .on([&[2, 3, 2], &[2, 3], &[2, 3, 0]]),
        stack("column_stack", Tensor::column_stack, |x| {
            let column = |x: &Array| if x.rank() < 2 { x.reshape(&[x.elements(), 1]) } else { x.clone() };
            concat(&x.iter().map(column).collect::<Vec<_>>(), 1)
        })
        .on([&[3], &[3, 2], &[3, 1]])
        .on([&[], &[1], &[1, 1]])
        .on([&[2, 3, 2], &[2, 1, 2], &[2, 0, 2]]),
        // As in PyTorch, a tensor without elements and with one axis is ignored.
        row("hstack", "nothing among others", 2)
            .on([&[2, 3, 2], &[1, 3, 2]])
            .run(|x| {
                let nothing = x[0].reshape([-1])?.narrow(0, 0, 0)?;
                let [first, second] = [&x[0], &x[1]].map(|x| x.reshape([x.dims()[0], 6]));
                Tensor::hstack(&[&first?.t()?, &nothing, &second?.t()?])
            })
            .oracle(|x| concat(&[x[0].reshape(&[2, 6]), x[1].reshape(&[1, 6])], 0).t())
            .rejects("hstack: expected 2 axes, got shape [2]", |device| {
                Tensor::hstack(&[&Tensor::zeros([2, 2], F32, device)?, &Tensor::zeros([2], F32, device)?])
            }),
    ]
}

fn shapes() -> OpCase {
    let broadcast = |x: &[Tensor]| -> Result<Vec<i64>> {
        let shapes: Vec<Shape> = x.iter().map(|x| *x.shape()).collect();
        Ok(broadcast_shapes(&shapes)?.dims().iter().map(|&size| size as i64).collect())
    };
    OpCase::new("broadcast_shapes", "")
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .on([&[3, 1], &[2]])
        .on([&[], &[0, 1]])
        .on([&[1, 4], &[5, 1, 1]])
        .on([&[2, 1, 3], &[4, 3]])
        .exact()
        .forward_only("sizes")
        .run_on(move |x, device, _| {
            let sizes = broadcast(x)?;
            let count = sizes.len();
            Tensor::from_vec(sizes, [count], device)
        })
        .oracle(|x| {
            let sizes = x[0].zip(&x[1], |_, _| 0.0).shape;
            Array::new(&[sizes.len()], sizes.iter().map(|&size| size as f64).collect())
        })
        .rejects("broadcast_shapes: shapes [2, 3] and [2] do not broadcast", |device| {
            let broadcast = broadcast_shapes(&[Shape::new(&[3])?, Shape::new(&[2, 1])?, Shape::new(&[2])?])?;
            Tensor::zeros(broadcast, F32, device)
        })
}

fn broadcast() -> OpCase {
    row("broadcast_tensors", "", 2)
        .on([&[3, 1], &[2]])
        .on([&[], &[2, 3]])
        .on([&[0, 1], &[4]])
        .on([&[5], &[5]])
        .run(|x| Tensor::broadcast_tensors(&[&x[0], &x[1]]))
        .oracle(|x| (x[0].zip(&x[1], |x, _| x), x[0].zip(&x[1], |_, y| y)))
        .rejects("broadcast_tensors: shapes [3] and [2] do not broadcast", |device| {
            Tensor::broadcast_tensors(&[&Tensor::zeros([3], F32, device)?, &Tensor::zeros([2], F32, device)?])
        })
}

fn grids() -> Vec<OpCase> {
    let case = |name: &str, indexing| {
        row("meshgrid", name, 3)
            .on([&[2], &[3], &[4]])
            .on([&[], &[1], &[5]])
            .on([&[2], &[0], &[4]])
            .run(move |x| Tensor::meshgrid(&x.iter().collect::<Vec<_>>(), indexing))
            .oracle(move |x| {
                let mut axes = [0, 1, 2];
                if indexing == Xy {
                    axes.swap(0, 1);
                }
                let mut shape = [0; 3];
                for (input, &axis) in axes.iter().enumerate() {
                    shape[axis] = x[input].elements();
                }
                let grids = axes.iter().enumerate();
                grids.map(|(input, &axis)| Array::from_fn(&shape, |at| x[input].data[at[axis]])).collect::<Vec<_>>()
            })
    };
    vec![
        case("ij", Ij)
            .rejects("meshgrid: 0 tensors, expected 1 to 8", |_| Tensor::meshgrid(&[], Ij))
            .rejects("meshgrid: expected at most 1 axes, got shape [2, 2]", |device| {
                Tensor::meshgrid(&[&Tensor::zeros([2, 2], F32, device)?], Ij)
            }),
        case("xy", Xy),
        row("meshgrid", "one, xy", 1).shapes([&[3]]).run(|x| Tensor::meshgrid(&[&x[0]], Xy)).oracle(|x| x[0].clone()),
    ]
}

fn products() -> OpCase {
    row("cartesian_prod", "", 2)
        .on([&[2], &[3]])
        .on([&[1], &[1]])
        .on([&[4], &[0]])
        .run(|x| Tensor::cartesian_prod(&[&x[0], &x[1]]))
        .oracle(|x| {
            let width = x[1].elements();
            Array::from_fn(&[x[0].elements() * width, 2], |at| match at[1] {
                0 => x[0].data[at[0] / width],
                _ => x[1].data[at[0] % width],
            })
        })
        .rejects("cartesian_prod: expected at least 1 tensor, got 0", |_| Tensor::cartesian_prod(&[]))
        .rejects("cartesian_prod: expected 1 axes, got shape []", |device| {
            Tensor::cartesian_prod(&[&Tensor::zeros((), F32, device)?])
        })
        .rejects("cartesian_prod: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
            Tensor::cartesian_prod(&[&Tensor::zeros([1], F32, device)?, &Tensor::zeros([1], I32, device)?])
        })
}
