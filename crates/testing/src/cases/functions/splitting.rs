//! Rows of tensors that are split along an axis.

use crate::prelude::*;
use ternion_core::Sections;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [splits(), axis_splits()].concat()
}

fn row(op: &'static str, parameters: impl Into<String>) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
}

/// The number of sections of an axis, or the indices between sections.
#[derive(Clone, Copy, Debug)]
enum Split {
    Count(usize),
    Indices(&'static [isize]),
}

impl Split {
    fn sections(self) -> Sections<'static> {
        match self {
            Split::Count(count) => count.into(),
            Split::Indices(indices) => indices.into(),
        }
    }

    /// Returns the sections as NumPy's `array_split` does: the first ones have one more element,
    /// and indices are those of slices.
    fn parts(self, x: &Array, axis: usize) -> Vec<Array> {
        let size = x.shape[axis];
        let bounds: Vec<(usize, usize)> = match self {
            Split::Count(count) => {
                let start = |part: usize| part * (size / count) + part.min(size % count);
                (0..count).map(|part| (start(part), start(part + 1))).collect()
            }
            Split::Indices(indices) => {
                let index = |&at: &isize| (if at < 0 { at + size as isize } else { at }).clamp(0, size as isize) as usize;
                let ends: Vec<usize> = indices.iter().map(index).chain([size]).collect();
                let starts: Vec<usize> = [0].into_iter().chain(ends.iter().copied()).collect();
                starts.into_iter().zip(ends).collect()
            }
        };
        bounds.iter().map(|&(start, end)| x.map_slices(axis, |slice| slice[start..end.max(start)].to_vec())).collect()
    }
}

fn splits() -> Vec<OpCase> {
    let case = |split: Split, axis: usize| {
        row("tensor_split", format!("{split:?} axis={axis}"))
            .run(move |x| x[0].tensor_split(split.sections(), axis))
            .oracle(move |x| split.parts(&x[0], axis))
    };
    vec![
        case(Split::Count(3), 0)
            .shapes([&[7], &[2], &[0, 2], &[6, 3]])
            .rejects("tensor_split: 0 parts, expected at least 1", |device| {
                Tensor::zeros([2], F32, device)?.tensor_split(0, 0)
            })
            .rejects("tensor_split: axis 1 on shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.tensor_split(1, 1)
            }),
        case(Split::Count(4), 1).shapes([&[2, 9], &[2, 5, 3]]),
        case(Split::Indices(&[1, 3]), 0).shapes([&[5], &[2, 3]]),
        case(Split::Indices(&[-2, 1, 9, -9]), 1).shapes([&[2, 5], &[3, 6, 2]]),
        case(Split::Indices(&[]), 0).shapes([&[3]]),
    ]
}

/// `hsplit`, `vsplit` and `dsplit`: `axis` is 0 for a tensor with one axis.
fn axis_splits() -> Vec<OpCase> {
    type Run = fn(&Tensor, Sections<'static>) -> Result<Vec<Tensor>>;
    let case = |name: &'static str, run: Run, axis: usize, split: Split| {
        row(name, format!("{split:?}"))
            .run(move |x| run(&x[0], split.sections()))
            .oracle(move |x| split.parts(&x[0], axis.min(x[0].rank() - 1)))
    };
    let (h, v, d): (Run, Run, Run) = (Tensor::hsplit, Tensor::vsplit, Tensor::dsplit);
    vec![
        case("hsplit", h, 1, Split::Count(3))
            .shapes([&[6], &[2, 3], &[2, 6, 2], &[2, 0]])
            .rejects("hsplit: expected at least 1 axes, got shape []", |device| {
                Tensor::zeros((), F32, device)?.hsplit(1)
            })
            .rejects("hsplit: 2 parts of one size of axis 1 of shape [2, 3]", |device| {
                Tensor::zeros([2, 3], F32, device)?.hsplit(2)
            })
            .rejects("hsplit: 0 parts of one size of axis 0 of shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.hsplit(0)
            }),
        case("hsplit", h, 1, Split::Indices(&[1])).shapes([&[3], &[2, 4]]),
        case("vsplit", v, 0, Split::Count(2))
            .shapes([&[4, 3], &[2, 1, 2]])
            .rejects("vsplit: expected at least 2 axes, got shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.vsplit(1)
            })
            .rejects("vsplit: 2 parts of one size of axis 0 of shape [3, 2]", |device| {
                Tensor::zeros([3, 2], F32, device)?.vsplit(2)
            }),
        case("vsplit", v, 0, Split::Indices(&[2])).shapes([&[3, 2]]),
        case("dsplit", d, 2, Split::Count(2))
            .shapes([&[2, 3, 4], &[1, 2, 2, 3]])
            .rejects("dsplit: expected at least 3 axes, got shape [2, 2]", |device| {
                Tensor::zeros([2, 2], F32, device)?.dsplit(1)
            }),
        case("dsplit", d, 2, Split::Indices(&[1, 2])).shapes([&[2, 3, 4]]),
    ]
}
