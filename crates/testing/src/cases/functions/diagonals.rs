//! Rows of diagonals and triangles of matrices.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [diagonals(), embedded(), vectors(), vec![trace()], filled(), triangles()].concat()
}

fn row(op: &'static str, parameters: impl Into<String>) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
}

/// Returns the indices of the elements of a diagonal.
fn indices(rows: usize, columns: usize, offset: isize) -> Vec<[usize; 2]> {
    let all = (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column]));
    all.filter(|[row, column]| *column as isize - *row as isize == offset).collect()
}

/// Returns the diagonals of two axes as the last axis.
fn diagonal(x: &Array, offset: isize, first: usize, second: usize) -> Array {
    let positions = indices(x.shape[first], x.shape[second], offset);
    let rest: Vec<usize> = (0..x.rank()).filter(|axis| ![first, second].contains(axis)).collect();
    let mut shape: Vec<usize> = rest.iter().map(|&axis| x.shape[axis]).collect();
    shape.push(positions.len());
    Array::from_fn(&shape, |at| {
        let mut source_index = vec![0; x.rank()];
        for (&axis, &index) in rest.iter().zip(at) {
            source_index[axis] = index;
        }
        [source_index[first], source_index[second]] = positions[at[at.len() - 1]];
        x.at(&source_index)
    })
}

fn diagonals() -> Vec<OpCase> {
    let case = |offset: isize, first: usize, second: usize| {
        row("diagonal", format!("offset={offset} axes={first},{second}"))
            .run(move |x| x[0].diagonal(offset, first, second))
            .oracle(move |x| diagonal(&x[0], offset, first, second))
    };
    vec![
        case(0, 0, 1)
            .shapes([&[3, 3], &[2, 5], &[5, 2], &[0, 3], &[1, 1], &[3, 4, 2]])
            .rejects("diagonal: axis 1 on shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.diagonal(0, 0, 1)
            })
            .rejects("diagonal: axes 1 and 1, expected two", |device| {
                Tensor::zeros([3, 3], F32, device)?.diagonal(0, 1, -1)
            }),
        case(2, 0, 1).shapes([&[3, 5], &[4, 4], &[3, 2]]),
        case(-1, 0, 1).shapes([&[3, 5], &[4, 2, 3]]),
        case(7, 0, 1).shapes([&[3, 5]]),
        case(-7, 0, 1).shapes([&[3, 5]]),
        case(1, 2, 0).shapes([&[4, 2, 3], &[2, 2, 3, 2]]),
    ]
}

/// Returns matrices with the last axis of `x` on a diagonal, with the matrix axes at these
/// positions.
fn embed(x: &Array, offset: isize, first: usize, second: usize) -> Array {
    let (count, outer) = (x.shape[x.rank() - 1], &x.shape[..x.rank() - 1]);
    let size = count + offset.unsigned_abs();
    let positions = indices(size, size, offset);
    let mut shape: Vec<usize> = Vec::new();
    let mut rest = outer.iter();
    for axis in 0..=x.rank() {
        shape.push(if [first, second].contains(&axis) { size } else { *rest.next().expect("an axis for each") });
    }
    Array::from_fn(&shape, |at| {
        let mut source_index: Vec<usize> =
            (0..at.len()).filter(|axis| ![first, second].contains(axis)).map(|axis| at[axis]).collect();
        let position = positions.iter().position(|&index| index == [at[first], at[second]]);
        position.map_or(0.0, |position| {
            source_index.push(position);
            x.at(&source_index)
        })
    })
}

fn embedded() -> Vec<OpCase> {
    let case = |offset: isize, first: isize, second: isize| {
        row("diag_embed", format!("offset={offset} axes={first},{second}"))
            .run(move |x| x[0].diag_embed(offset, first, second))
            .oracle(move |x| {
                let from_front = |axis: isize| axis.rem_euclid(x[0].rank() as isize + 1) as usize;
                embed(&x[0], offset, from_front(first), from_front(second))
            })
    };
    vec![
        case(0, -2, -1)
            .shapes([&[3], &[1], &[0], &[2, 3], &[2, 0, 2]])
            .rejects("diag_embed: expected at least 1 axes, got shape []", |device| {
                Tensor::zeros((), F32, device)?.diag_embed(0, -2, -1)
            })
            .rejects("diag_embed: axis 2 on shape [3, 3]", |device| {
                Tensor::zeros([3], F32, device)?.diag_embed(0, 0, 2)
            })
            .rejects("diag_embed: axes 1 and 1, expected two", |device| {
                Tensor::zeros([3], F32, device)?.diag_embed(0, 1, -1)
            }),
        case(2, -2, -1).shapes([&[3], &[0], &[2, 3]]),
        case(-1, -2, -1).shapes([&[3], &[2, 3]]),
        case(1, 0, 2).shapes([&[2, 3], &[2, 3, 4]]),
        case(-1, 2, 0).shapes([&[2, 3]]),
    ]
}

fn vectors() -> Vec<OpCase> {
    let diag = |offset: isize| {
        row("diag", format!("offset={offset}"))
            .shapes([&[3], &[0], &[3, 4], &[4, 2], &[0, 2]])
            .run(move |x| x[0].diag(offset))
            .oracle(move |x| match x[0].rank() {
                1 => embed(&x[0], offset, 0, 1),
                _ => diagonal(&x[0], offset, 0, 1),
            })
    };
    let flat = |offset: isize| {
        row("diagflat", format!("offset={offset}"))
            .shapes([&[], &[3], &[2, 3], &[0, 2]])
            .run(move |x| x[0].diagflat(offset))
            .oracle(move |x| embed(&x[0].reshape(&[x[0].elements()]), offset, 0, 1))
    };
    vec![
        diag(0).rejects("diag: expected 1 or 2 axes, got shape [2, 2, 2]", |device| {
            Tensor::zeros([2, 2, 2], F32, device)?.diag(0)
        }),
        diag(1),
        diag(-2),
        flat(0),
        flat(-1),
    ]
}

fn trace() -> OpCase {
    OpCase::new("trace", "")
        .input(Uniform(-4.0, 4.0))
        .shapes([&[3, 3], &[2, 5], &[0, 3], &[33, 7]])
        .also(INTEGERS)
        .also(BOOL)
        .f32_limit(1e-6, 2e-6)
        .double_backward()
        .run(|x| x[0].trace())
        .oracle(|x| Array::scalar(diagonal(&x[0], 0, 0, 1).sum()))
        .rejects("trace: expected 2 axes, got shape [2]", |device| Tensor::zeros([2], F32, device)?.trace())
}

fn filled() -> Vec<OpCase> {
    let case = |wrap: bool| {
        row("fill_diagonal", format!("1 wrap={wrap}"))
            .shapes([&[3, 3], &[2, 5], &[9, 2], &[4, 3], &[0, 3], &[3, 3, 3]])
            .run(move |x| x[0].fill_diagonal(1i64, wrap))
            .oracle(move |x| {
                let (rank, columns) = (x[0].rank(), x[0].shape[1]);
                Array::from_fn(&x[0].shape, |at| {
                    // After the matrix, the diagonal starts again one row further down.
                    let row = if wrap && rank == 2 { at[0] % (columns + 1) } else { at[0] };
                    if at[1..].iter().all(|&index| index == row) { 1.0 } else { x[0].at(at) }
                })
            })
    };
    vec![
        case(false)
            .rejects("fill_diagonal: expected at least 2 axes, got shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.fill_diagonal(1i64, false)
            })
            .rejects("fill_diagonal: shape [2, 2, 3], expected axes of one size", |device| {
                Tensor::zeros([2, 2, 3], F32, device)?.fill_diagonal(1i64, false)
            }),
        case(true),
    ]
}

fn triangles() -> Vec<OpCase> {
    let offsets: [isize; 7] = [0, 1, -1, 3, -4, isize::MAX, isize::MIN];
    let case = |name: &'static str, offset: isize, is_lower: bool| {
        OpCase::new(name, format!("offset={offset}"))
            .on([])
            .dtypes(&[I32])
            .exact()
            .forward_only("positions")
            .run_on(move |_, device, _| {
                let make = if is_lower { Tensor::tril_indices } else { Tensor::triu_indices };
                [[4, 3], [2, 5], [0, 3], [3, 0]]
                    .map(|[rows, columns]| make(rows, columns, offset, device))
                    .into_iter()
                    .collect::<Result<Vec<_>>>()
            })
            .oracle(move |_| {
                let positions = [[4, 3], [2, 5], [0, 3], [3, 0]].map(|[rows, columns]: [usize; 2]| {
                    let all = (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column]));
                    let is_kept = |&[row, column]: &[usize; 2]| {
                        let above = column as i128 - row as i128;
                        if is_lower { above <= offset as i128 } else { above >= offset as i128 }
                    };
                    let kept: Vec<[usize; 2]> = all.filter(is_kept).collect();
                    Array::from_fn(&[2, kept.len()], |at| kept[at[1]][at[0]] as f64)
                });
                positions.to_vec()
            })
    };
    offsets
        .into_iter()
        .flat_map(|offset| [case("tril_indices", offset, true), case("triu_indices", offset, false)])
        .collect()
}
