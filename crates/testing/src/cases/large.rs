//! Tensors with more elements than one thread or workgroup processes at a time. Each loop that
//! several ops share is tested once. (An op with its own block sizes has rows that exceed them.)

use crate::prelude::*;
use ternion_core::PoolOptions;

/// Two axes, so that views are strided; 33,300 elements.
const SHAPE: [usize; 2] = [37, 900];

fn row(op: &'static str, parameters: &str, inputs: &[Input]) -> OpCase {
    inputs
        .iter()
        .fold(OpCase::new(op, format!("many elements {parameters}")), |row, input| row.input(input.clone()))
        .shapes([&SHAPE])
        .dtypes(&[F32, BF16])
        .forward_only("small rows show the gradients")
}

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let any = || Input::float(Uniform(-2.0, 2.0));
    let last = SHAPE.map(|size| size - 1);
    vec![
        row("exp", "", &[any()]).run(|x| x[0].exp()).oracle(|x| x[0].map(f64::exp)),
        row("neg", "", &[any()]).run(|x| x[0].neg()).oracle(|x| x[0].map(|x| -x)),
        row("copy", "", &[any()]).run(|x| x[0].copy()).oracle(|x| x[0].clone()),
        row("copy", "cast", &[any()]).run(|x| x[0].to_dtype(F64)).oracle(|x| x[0].clone()),
        row("copy", "reversed", &[any()])
            .run(|x| x[0].flip([0, 1])?.copy())
            .oracle(move |x| Array::from_fn(&x[0].shape, |at| x[0].at(&[last[0] - at[0], last[1] - at[1]]))),
        row("add", "", &[any(), any()])
            .run(|x| x[0].add(&x[1]))
            .oracle(|x| x[0].zip(&x[1], |a, b| a + b)),
        row("gt", "", &[any(), any()])
            .run(|x| x[0].gt(&x[1]))
            .oracle(|x| x[0].zip(&x[1], |a, b| f64::from(u8::from(a > b)))),
        row("multiply_add", "", &[any(), any(), any()])
            .run(|x| x[0].multiply_add(&x[1], &x[2]))
            .oracle(|x| x[0].zip(&x[1], |a, b| a * b).zip(&x[2], |product, c| product + c)),
        row("where", "", &[Input::bool(), any(), any()]).run(|x| x[0].where_(&x[1], &x[2])).oracle(|x| {
            Array::from_fn(&x[0].shape, |at| if x[0].at(at) != 0.0 { x[1].at(at) } else { x[2].at(at) })
        }),
        row("gather", "", &[any()])
            .run(move |x| {
                let index = Tensor::iota(SHAPE[1], I32, last[1] as i64, -1, x[0].device())?;
                x[0].gather(1, &index.expand(SHAPE)?)
            })
            .oracle(move |x| Array::from_fn(&x[0].shape, |at| x[0].at(&[at[0], last[1] - at[1]]))),
        row("max_pool2d", "", &[any()])
            .run(|x| x[0].reshape([1, 1, SHAPE[0], SHAPE[1]])?.max_pool2d(PoolOptions::new([1, 1])))
            .oracle(|x| x[0].reshape(&[1, 1, SHAPE[0], SHAPE[1]])),
    ]
}
