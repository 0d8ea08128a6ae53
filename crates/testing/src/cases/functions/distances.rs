//! Rows of pairwise distances of vectors.

use crate::prelude::*;
use ternion_core::{CdistMode, enable_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY].into_iter().map(pairs).collect();
    rows.push(product());
    rows.push(equal());
    rows.extend([1.0, 2.0].map(pdist));
    rows
}

fn norm(row: &[f64], p: f64) -> f64 {
    match p {
        0.0 => row.iter().filter(|&&x| x != 0.0).count() as f64,
        f64::INFINITY => row.iter().fold(0.0, |largest, x| x.abs().max(largest)),
        _ => row.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

fn distance(x: &[f64], y: &[f64], p: f64) -> f64 {
    norm(&x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<_>>(), p)
}

/// Distances of the rows of matrices, with leading axes broadcast.
fn distances(x: &Array, y: &Array, p: f64) -> Array {
    let (n, m, width) = (x.shape[x.rank() - 2], y.shape[y.rank() - 2], x.shape[x.rank() - 1]);
    let outer_shape = crate::array::broadcast_shape(&x.shape[..x.rank() - 2], &y.shape[..y.rank() - 2]);
    let expanded = |x: &Array, count: usize| x.expand(&[&outer_shape[..], &[count, width]].concat());
    let (x, y) = (expanded(x, n), expanded(y, m));
    Array::from_fn(&[&outer_shape[..], &[n, m]].concat(), |at| {
        let (outer, pair) = at.split_at(at.len() - 2);
        let start = |x: &Array, row: usize| x.position(&[outer, &[row, 0]].concat());
        let row = |x: &Array, row: usize| match width {
            0 => Vec::new(),
            _ => x.data[start(x, row)..start(x, row) + width].to_vec(),
        };
        distance(&row(&x, pair[0]), &row(&y, pair[1]), p)
    })
}

/// Vectors of 3 numbers of either sign, opposite for the two tensors: differences have both signs
/// and are far from 0.
fn difference() -> [Values; 2] {
    [1.0, -1.0].map(|side| {
        Values::custom(move |shapes, position, rng| {
            let sign = |at: usize| if at % 3 == 1 { -side } else { side };
            (0..shapes[position].iter().product()).map(|at| sign(at) * rng.uniform(0.5, 2.0)).collect()
        })
    })
}

fn pairs(p: f64) -> OpCase {
    let [x, y] = difference();
    let row = OpCase::new("cdist", format!("p={p}"))
        .input(x)
        .input(y)
        .on([&[4, 3], &[5, 3]])
        .run(move |x| x[0].cdist(&x[1], p, CdistMode::Differences))
        .oracle(move |x| distances(&x[0], &x[1], p));
    match p {
        0.0 => row.forward_only("a count"),
        2.0 => row
            .on([&[2, 1, 4, 3], &[3, 2, 3]])
            .on([&[0, 3], &[2, 3]])
            .on([&[2, 0], &[3, 0]])
            .double_backward()
            .adversarial("large", [Array::full(&[1, 2], 1e3), Array::new(&[2, 2], vec![f64::NAN, 0.0, f64::INFINITY, 0.0])])
            .rejects("cdist: vectors of 3 and of 2 numbers", |device| {
                let [x, y] = [[4, 3], [4, 2]].map(|shape: [usize; 2]| Tensor::zeros(shape, F32, device));
                x?.cdist(&y?, 2.0, CdistMode::default())
            })
            .rejects("cdist: p of -1, expected at least 0", |device| {
                let x = Tensor::zeros([4, 3], F32, device)?;
                x.cdist(&x, -1.0, CdistMode::default())
            })
            .rejects("cdist: expected at least 2 axes, got shape [3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.cdist(&x, 2.0, CdistMode::default())
            }),
        1.5 | 3.0 => row.double_backward(),
        _ => row,
    }
}

/// Distances by a matrix product, of vectors that are far enough from one another.
fn product() -> OpCase {
    OpCase::new("cdist", "by a matrix product")
        .input(Uniform(1.0, 2.0))
        .input(Uniform(-2.0, -1.0))
        .on([&[4, 3], &[5, 3]])
        .on([&[2, 1, 3, 5], &[2, 4, 5]])
        .double_backward()
        .f32_limit(2e-5, 1e-5)
        .run(|x| x[0].cdist(&x[1], 2.0, CdistMode::Matmul))
        .oracle(|x| distances(&x[0], &x[1], 2.0))
}

/// Equal vectors have no direction: the gradient is 0.
fn equal() -> OpCase {
    OpCase::new("cdist", "of equal vectors, gradient")
        .input(Fixed(vec![1.0, -2.0, 3.0]))
        .shapes([&[2, 3]])
        .forward_only("a gradient itself")
        .run(|x| {
            let mut results = Vec::new();
            for (p, mode) in [(2.0, CdistMode::Differences), (2.0, CdistMode::Matmul), (1.0, CdistMode::Differences), (3.0, CdistMode::Differences)] {
                let leaf = x[0].requires_grad()?;
                let gradients = enable_grad(|| leaf.cdist(&x[0], p, mode)?.sum_all())?.backward()?;
                results.push(gradients.get(&leaf).cloned().ok_or_else(|| Error::autograd("no gradient"))?);
            }
            Ok(results)
        })
        .oracle(|_| vec![Array::zeros(&[2, 3]); 4])
}

fn pdist(p: f64) -> OpCase {
    OpCase::new("pdist", format!("p={p}"))
        .input(Values::custom(|shapes, position, rng| {
            // Rows that are far from one another.
            let [_, width] = shapes[position][..] else { return Vec::new() };
            let sign = |at: usize| if at % width == 1 { -1.0 } else { 1.0 };
            let row = |at: usize| 2.0 * (at / width) as f64;
            (0..shapes[position].iter().product()).map(|at| sign(at) * (row(at) + rng.uniform(0.0, 1.0))).collect()
        }))
        .shapes([&[5, 3], &[1, 2], &[0, 2]])
        .double_backward()
        .run(move |x| x[0].pdist(p))
        .oracle(move |x| {
            let all = distances(&x[0], &x[0], p);
            let rows = x[0].shape[0];
            let pairs = (0..rows).flat_map(|first| (first + 1..rows).map(move |second| [first, second]));
            let results: Vec<f64> = pairs.map(|pair| all.at(&pair)).collect();
            Array::new(&[results.len()], results)
        })
        .rejects("pdist: expected 2 axes, got shape [3]", move |device| Tensor::zeros([3], F32, device)?.pdist(p))
}
