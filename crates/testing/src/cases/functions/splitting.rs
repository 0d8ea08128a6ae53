//! Rows of parts of an axis.

use crate::prelude::*;
use ternion_core::Sections;

/// Returns the rows.
pub fn rows() -> Vec<OpCase> {
    [splits(), sides()].concat()
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
    let of = |at: Split, axis: usize| {
        row("tensor_split", format!("{at:?} axis={axis}"))
            .run(move |x| x[0].tensor_split(at.sections(), axis))
            .oracle(move |x| at.parts(&x[0], axis))
    };
    vec![
        of(Split::Count(3), 0)
            .shapes([&[7], &[2], &[0, 2], &[6, 3]])
            .rejects("tensor_split: 0 parts, expected at least 1", |device| {
                Tensor::zeros([2], F32, device)?.tensor_split(0, 0)
            })
            .rejects("tensor_split: axis 1 on shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.tensor_split(1, 1)
            }),
        of(Split::Count(4), 1).shapes([&[2, 9], &[2, 5, 3]]),
        of(Split::Indices(&[1, 3]), 0).shapes([&[5], &[2, 3]]),
        of(Split::Indices(&[-2, 1, 9, -9]), 1).shapes([&[2, 5], &[3, 6, 2]]),
        of(Split::Indices(&[]), 0).shapes([&[3]]),
    ]
}

fn sides() -> Vec<OpCase> {
    type Run = fn(&Tensor, Sections<'static>) -> Result<Vec<Tensor>>;
    let of = |name: &'static str, run: Run, axis: usize, at: Split| {
        row(name, format!("{at:?}"))
            .run(move |x| run(&x[0], at.sections()))
            .oracle(move |x| at.parts(&x[0], axis.min(x[0].rank() - 1)))
    };
    let (h, v, d): (Run, Run, Run) = (Tensor::hsplit, Tensor::vsplit, Tensor::dsplit);
    vec![
        of("hsplit", h, 1, Split::Count(3))
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
        of("hsplit", h, 1, Split::Indices(&[1])).shapes([&[3], &[2, 4]]),
        of("vsplit", v, 0, Split::Count(2))
            .shapes([&[4, 3], &[2, 1, 2]])
            .rejects("vsplit: expected at least 2 axes, got shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.vsplit(1)
            })
            .rejects("vsplit: 2 parts of one size of axis 0 of shape [3, 2]", |device| {
                Tensor::zeros([3, 2], F32, device)?.vsplit(2)
            }),
        of("vsplit", v, 0, Split::Indices(&[2])).shapes([&[3, 2]]),
        of("dsplit", d, 2, Split::Count(2))
            .shapes([&[2, 3, 4], &[1, 2, 2, 3]])
            .rejects("dsplit: expected at least 3 axes, got shape [2, 2]", |device| {
                Tensor::zeros([2, 2], F32, device)?.dsplit(1)
            }),
        of("dsplit", d, 2, Split::Indices(&[1, 2])).shapes([&[2, 3, 4]]),
    ]
}
