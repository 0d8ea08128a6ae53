//! Rows of padding with elements of the tensor itself.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [reflected(), replicated(), circular()].concat()
}

type Amounts = &'static [[isize; 2]];

/// Returns the padded tensor. For each axis `index_of(position, size)` maps a position, which is
/// below 0 or at least `size` in the padding, to an index of `x`.
fn padded(x: &Array, amounts: &[[isize; 2]], index_of: impl Fn(isize, isize) -> isize) -> Array {
    let sizes = x.shape.iter().zip(amounts);
    let shape: Vec<usize> = sizes.map(|(&size, sides)| (size as isize + sides[0] + sides[1]) as usize).collect();
    Array::from_fn(&shape, |at| {
        let position = |axis: usize| index_of(at[axis] as isize - amounts[axis][0], x.shape[axis] as isize) as usize;
        x.at(&(0..at.len()).map(position).collect::<Vec<_>>())
    })
}

fn row(op: &'static str, amounts: Amounts, shape: &[usize]) -> OpCase {
    OpCase::new(op, format!("{amounts:?}")).input(Distinct).also(INTEGERS).exact().double_backward().on([shape])
}

fn reflected() -> Vec<OpCase> {
    let with = |amounts: Amounts, shape: &[usize]| {
        row("reflection_pad", amounts, shape)
            .run(move |x| x[0].reflection_pad(amounts))
            .oracle(move |x| {
                padded(&x[0], amounts, |position, size| size - 1 - (size - 1 - position.abs()).abs())
            })
    };
    vec![
        with(&[[0, 0], [2, 3]], &[2, 4])
            .on([&[0, 4]])
            .rejects("reflection_pad: 4 and 0 elements around axis 1 of 4, expected fewer", |device| {
                Tensor::zeros([1, 4], F32, device)?.reflection_pad(&[[0, 0], [4, 0]])
            })
            .rejects("reflection_pad: [-3, -1] around axis 1 of 4 leave nothing of it", |device| {
                Tensor::zeros([1, 4], F32, device)?.reflection_pad(&[[0, 0], [-3, -1]])
            })
            .rejects("reflection_pad: 1 amounts for shape [1, 4]", |device| {
                Tensor::zeros([1, 4], F32, device)?.reflection_pad(&[[0, 0]])
            }),
        with(&[[0, 0], [-1, 2], [1, 0]], &[2, 4, 3]),
        with(&[[0, 0], [1, 1], [3, -2], [0, 1]], &[2, 2, 5, 3]),
    ]
}

fn replicated() -> Vec<OpCase> {
    let with = |amounts: Amounts, shape: &[usize]| {
        row("replication_pad", amounts, shape)
            .run(move |x| x[0].replication_pad(amounts))
            .oracle(move |x| padded(&x[0], amounts, |position, size| position.clamp(0, size - 1)))
    };
    vec![
        with(&[[0, 0], [5, 7]], &[2, 3])
            .on([&[0, 3]])
            .on([&[2, 1]])
            .rejects("replication_pad: [1, 1] around axis 1 of 0 leave nothing of it", |device| {
                Tensor::zeros([1, 0], F32, device)?.replication_pad(&[[0, 0], [1, 1]])
            }),
        with(&[[0, 0], [-1, 2], [1, 0]], &[2, 4, 3]),
        with(&[[0, 0], [1, 1], [-5, 7], [0, 1]], &[2, 2, 5, 3]),
    ]
}

fn circular() -> Vec<OpCase> {
    // Negative padding crops first. Circular padding does not repeat the elements that it removes.
    let oracle = |x: &Array, amounts: &[[isize; 2]]| {
        let cropping: Vec<[isize; 2]> = amounts.iter().map(|sides| sides.map(|amount| amount.min(0))).collect();
        let padding: Vec<[isize; 2]> = amounts.iter().map(|sides| sides.map(|amount| amount.max(0))).collect();
        padded(&padded(x, &cropping, |position, _| position), &padding, |position, size| position.rem_euclid(size))
    };
    let with = |amounts: Amounts, shape: &[usize]| {
        row("circular_pad", amounts, shape)
            .run(move |x| x[0].circular_pad(amounts))
            .oracle(move |x| oracle(&x[0], amounts))
    };
    vec![
        with(&[[0, 0], [2, 4]], &[2, 4])
            .on([&[0, 4]])
            .rejects("circular_pad: 5 and 0 elements around axis 1 of 4, expected no more", |device| {
                Tensor::zeros([1, 4], F32, device)?.circular_pad(&[[0, 0], [5, 0]])
            })
            .rejects("circular_pad: [-3, -1] around axis 1 of 4 leave nothing of it", |device| {
                Tensor::zeros([1, 4], F32, device)?.circular_pad(&[[0, 0], [-3, -1]])
            }),
        with(&[[0, 0], [-1, 2], [1, 0]], &[2, 4, 3]),
        with(&[[0, 0], [1, 1], [3, -2], [0, 1]], &[2, 2, 5, 3]),
    ]
}
