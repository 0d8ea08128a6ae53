//! Rows of views: other layouts of the same buffer.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [shapes(), orders(), slices(), expansions(), windows()].concat()
}

fn row(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
}

/// Returns the function that calls `call` on zeros of this shape.
fn on_zeros(
    shape: &'static [usize],
    call: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> impl Fn(&Device) -> Result<Tensor> + Send + Sync + 'static {
    move |device| call(&Tensor::zeros(shape, F32, device)?)
}

fn shapes() -> Vec<OpCase> {
    vec![
        row("reshape", "[6, -1]")
            .shapes([&[3, 4], &[12], &[2, 3, 4], &[6, 0, 2], &[1, 6]])
            .run(|x| x[0].reshape([6, -1]))
            .oracle(|x| x[0].reshape(&[6, x[0].elements() / 6]))
            .rejects("reshape: [4] (4 elements) into [3, -1]", on_zeros(&[4], |x| x.reshape([3, -1])))
            .rejects("reshape: [4] (4 elements) into [-1, -1]", on_zeros(&[4], |x| x.reshape([-1, -1])))
            .rejects("reshape: [4] (4 elements) into [2, -2]", on_zeros(&[4], |x| x.reshape([2, -2])))
            .rejects("reshape: [4] (4 elements) into [5]", on_zeros(&[4], |x| x.reshape([5]))),
        row("reshape", "[]").shapes([&[1], &[1, 1], &[]]).run(|x| x[0].reshape(())).oracle(|x| x[0].reshape(&[])),
        row("flatten", "1..=2")
            .shapes([&[2, 3, 4], &[2, 3, 1, 5]])
            .run(|x| x[0].flatten(1, 2))
            .oracle(|x| {
                let mut shape = x[0].shape.clone();
                let inner = shape.remove(2);
                shape[1] *= inner;
                x[0].reshape(&shape)
            })
            .rejects("flatten: axes 2 to 1 of shape [2, 3, 4]", on_zeros(&[2, 3, 4], |x| x.flatten(-1, 1)))
            .rejects("flatten: axis 3 on shape [2, 3, 4]", on_zeros(&[2, 3, 4], |x| x.flatten(0, 3))),
        row("flatten", "all")
            .shapes([&[2, 3, 4], &[5], &[]])
            .run(|x| x[0].flatten(0, -1))
            .oracle(|x| x[0].reshape(&[x[0].elements()])),
        row("squeeze", "all")
            .shapes([&[1, 3, 1, 2], &[1], &[2, 3]])
            .run(|x| x[0].squeeze(..))
            .oracle(|x| {
                let other_sizes: Vec<usize> = x[0].shape.iter().copied().filter(|&size| size != 1).collect();
                x[0].reshape(&other_sizes)
            }),
        row("squeeze", "[0, -1]")
            .shapes([&[1, 3, 1], &[1, 1, 2, 1]])
            .run(|x| x[0].squeeze([0, -1]))
            .oracle(|x| x[0].reshape(&x[0].shape[1..x[0].rank() - 1]))
            .rejects("squeeze: axis 1 of shape [1, 2] has size 2", on_zeros(&[1, 2], |x| x.squeeze(1)))
            .rejects("squeeze: axis 2 on shape [1, 2]", on_zeros(&[1, 2], |x| x.squeeze(2))),
        row("unsqueeze", "1")
            .shapes([&[3, 4], &[5]])
            .run(|x| x[0].unsqueeze(1))
            .oracle(|x| {
                let mut shape = x[0].shape.clone();
                shape.insert(1, 1);
                x[0].reshape(&shape)
            })
            .rejects("unsqueeze: axis 3 on shape [4, 2]", on_zeros(&[4, 2], |x| x.unsqueeze(3)))
            .rejects("unsqueeze: axis -4 on shape [4, 2]", on_zeros(&[4, 2], |x| x.unsqueeze(-4))),
        row("unsqueeze", "-1")
            .shapes([&[3, 4], &[]])
            .run(|x| x[0].unsqueeze(-1))
            .oracle(|x| x[0].reshape(&[&x[0].shape[..], &[1]].concat())),
    ]
}

fn orders() -> Vec<OpCase> {
    let reversed = |x: &Array, axes: &[usize]| {
        Array::from_fn(&x.shape, |at| {
            let mut source_index = at.to_vec();
            for &axis in axes {
                source_index[axis] = x.shape[axis] - 1 - at[axis];
            }
            x.at(&source_index)
        })
    };
    vec![
        row("permute", "[2, 0, 1]")
            .shapes([&[2, 3, 4], &[1, 5, 3], &[2, 0, 3]])
            .run(|x| x[0].permute([2, 0, 1]))
            .oracle(|x| x[0].permute(&[2, 0, 1]))
            .rejects("permute: order [0, 0, 1] on shape [2, 3, 4]", on_zeros(&[2, 3, 4], |x| x.permute([0, 0, 1])))
            .rejects("permute: order [0, 1] on shape [2, 3, 4]", on_zeros(&[2, 3, 4], |x| x.permute([0, 1])))
            .rejects("permute: axis 3 on shape [2, 3, 4]", on_zeros(&[2, 3, 4], |x| x.permute([0, 1, 3]))),
        row("transpose", "0, -1")
            .shapes([&[2, 3, 4], &[7, 5]])
            .run(|x| x[0].transpose(0, -1))
            .oracle(|x| {
                let mut order: Vec<usize> = (0..x[0].rank()).collect();
                order.swap(0, x[0].rank() - 1);
                x[0].permute(&order)
            }),
        row("t", "")
            .shapes([&[2, 3, 4], &[7, 5]])
            .run(|x| x[0].t())
            .oracle(|x| x[0].t())
            .rejects("t: expected at least 2 axes, got shape [4]", on_zeros(&[4], |x| x.t())),
        row("flip", "1")
            .shapes([&[2, 5], &[2, 1], &[2, 3, 4], &[2, 0]])
            .run(|x| x[0].flip(1))
            .oracle(move |x| reversed(&x[0], &[1])),
        row("flip", "[0, -1]")
            .shapes([&[3, 4], &[2, 3, 4]])
            .run(|x| x[0].flip([0, -1]))
            .oracle(move |x| reversed(&x[0], &[0, x[0].rank() - 1]))
            .rejects("flip: axis 1 is named twice on shape [2, 3]", on_zeros(&[2, 3], |x| x.flip([1, 1]))),
    ]
}

/// Returns the elements `start`, `start + step`, .. along `axis`, `count` of them.
fn stepped(x: &Array, axis: usize, start: usize, step: isize, count: usize) -> Array {
    x.map_slices(axis, |slice| {
        (0..count).map(|at| slice[(start as isize + at as isize * step) as usize]).collect()
    })
}

fn slices() -> Vec<OpCase> {
    let slice = |axis: usize, start: usize, end: isize, step: isize, count: usize| {
        row("slice", &format!("axis={axis} {start}..{end} step={step}"))
            .run(move |x| x[0].slice_axis(axis, start, end, step))
            .oracle(move |x| stepped(&x[0], axis, start, step, count))
    };
    vec![
        slice(0, 1, 4, 1, 3).shapes([&[5], &[4, 3]]),
        slice(1, 1, 7, 2, 3).shapes([&[2, 7], &[2, 8, 3]]),
        slice(1, 6, -1, -2, 4).shapes([&[2, 7], &[2, 8, 3]]),
        slice(1, 4, 1, -1, 3).shapes([&[2, 5]]),
        slice(1, 4, -1, -1, 5).shapes([&[2, 5], &[2, 6]]),
        slice(1, 4, 5, 3, 1).shapes([&[2, 5]]),
        slice(1, 3, 3, 1, 0).shapes([&[2, 5], &[2, 3]]),
        slice(1, 3, 1, 2, 0)
            .shapes([&[2, 5]])
            .rejects("slice: 0..6 step 1 on axis 0 of shape [5]", on_zeros(&[5], |x| x.slice_axis(0, 0, 6, 1)))
            .rejects("slice: 0..5 step 0 on axis 0 of shape [5]", on_zeros(&[5], |x| x.slice_axis(0, 0, 5, 0)))
            .rejects("slice: 5..-2 step -1 on axis 0 of shape [5]", on_zeros(&[5], |x| x.slice_axis(0, 5, -2, -1)))
            .rejects("slice: start 5 on axis 0 of shape [5]", on_zeros(&[5], |x| x.slice_axis(0, 5, 2, -1))),
        row("narrow", "axis=1 2..5")
            .shapes([&[2, 5], &[2, 7, 3]])
            .run(|x| x[0].narrow(1, 2, 3))
            .oracle(|x| stepped(&x[0], 1, 2, 1, 3))
            .rejects("narrow: 3 elements from 2 on axis 0 of shape [4]", on_zeros(&[4], |x| x.narrow(0, 2, 3)))
            .rejects(
                "narrow: 18446744073709551615 elements from 2 on axis 0 of shape [4]",
                on_zeros(&[4], |x| x.narrow(0, 2, usize::MAX)),
            ),
        row("select", "axis=1 2")
            .shapes([&[2, 5], &[2, 3, 3], &[0, 4]])
            .run(|x| x[0].select(1, 2))
            .oracle(|x| {
                let mut shape = x[0].shape.clone();
                shape.remove(1);
                stepped(&x[0], 1, 2, 1, 1).reshape(&shape)
            })
            .rejects("select: index 4 is out of range for size 4", on_zeros(&[4], |x| x.select(0, 4))),
    ]
}

fn expansions() -> Vec<OpCase> {
    let expand = |shape: &'static [usize]| {
        row("expand", &format!("{shape:?}"))
            .run(move |x| x[0].expand(shape))
            .oracle(move |x| x[0].expand(shape))
    };
    vec![
        expand(&[3, 4]).shapes([&[], &[4], &[1], &[3, 1], &[1, 4], &[3, 4]]),
        expand(&[2, 3, 5])
            .shapes([&[3, 1], &[1, 1, 5], &[2, 1, 1]])
            .rejects("expand: shape [3] to [2, 4]", on_zeros(&[3], |x| x.expand([2, 4])))
            .rejects("expand: shape [2, 3] to [3]", on_zeros(&[2, 3], |x| x.expand([3]))),
        expand(&[0, 3]).shapes([&[3], &[1, 3]]),
    ]
}

fn windows() -> Vec<OpCase> {
    let unfold = |axis: usize, size: usize, step: usize| {
        // Windows share elements: gradients are sums, computed by one op and so rounded once.
        row("unfold", &format!("axis={axis} size={size} step={step}"))
            .run(move |x| x[0].unfold(axis, size, step))
            .oracle(move |x| {
                let mut shape = x[0].shape.clone();
                shape[axis] = (shape[axis] - size) / step + 1;
                shape.push(size);
                Array::from_fn(&shape, |at| {
                    let mut source_index = at[..x[0].rank()].to_vec();
                    source_index[axis] = at[axis] * step + at[x[0].rank()];
                    x[0].at(&source_index)
                })
            })
    };
    vec![
        unfold(0, 3, 1).shapes([&[7], &[5, 2], &[3]]),
        unfold(1, 2, 2).shapes([&[2, 6], &[2, 7, 3]]),
        unfold(1, 3, 5).shapes([&[2, 9, 2]]),
        unfold(1, 4, 3)
            .shapes([&[2, 11]])
            .rejects("unfold: windows of 5, step 1, on axis 0 of shape [4]", on_zeros(&[4], |x| x.unfold(0, 5, 1)))
            .rejects("unfold: windows of 2, step 0, on axis 0 of shape [4]", on_zeros(&[4], |x| x.unfold(0, 2, 0))),
    ]
}
