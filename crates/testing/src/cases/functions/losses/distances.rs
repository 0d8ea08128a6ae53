//! Rows of losses of distances and angles.

use super::mean;
use crate::prelude::*;
use ternion_core::{Reduction, TripletOptions};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [similarities(), lengths(), embeddings(), triplets()].concat()
}

fn vectors() -> Values {
    AwayFrom(0.25)
}

/// Returns sums along the last axis.
fn sums(x: &Array) -> Array {
    x.reduce(&[x.rank() - 1], Keep::No, |row| row.iter().sum())
}

fn similarities() -> Vec<OpCase> {
    let oracle = |axis: usize, eps: f64| {
        move |x: &[Array]| {
            let sum = |x: Array| x.reduce(&[axis], Keep::No, |row| row.iter().sum());
            let length = move |x: &Array| sum(x.map(|x| x * x)).map(|s: f64| s.sqrt().max(eps));
            let sum = |x: Array| x.reduce(&[axis], Keep::No, |row| row.iter().sum());
            let rank = x[0].rank().max(x[1].rank());
            let shape = crate::array::broadcast_shape(&x[0].shape, &x[1].shape);
            assert_eq!(rank, shape.len(), "broadcast");
            let pair = [x[0].expand(&shape), x[1].expand(&shape)];
            let product = length(&pair[0]).zip(&length(&pair[1]), |a, b| a * b);
            sum(pair[0].zip(&pair[1], |a, b| a * b)).zip(&product, |dot, length| dot / length)
        }
    };
    vec![
        OpCase::new("cosine_similarity", "axis=1")
            .input(vectors())
            .input(vectors())
            .shapes([&[3, 5], &[2, 4, 3]])
            .on([&[3, 5], &[1, 5]])
            .double_backward()
            .run(|x| x[0].cosine_similarity(&x[1], 1, 1e-8))
            .oracle(oracle(1, 1e-8))
            .adversarial("zeros", [Array::zeros(&[1, 3]), Array::full(&[1, 3], 2.0)])
            .rejects("cosine_similarity: axis 1 on shape [3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.cosine_similarity(&x, 1, 1e-8)
            }),
        OpCase::new("cosine_similarity", "axis=0 eps=0.5")
            .input(Uniform(0.5, 1.0))
            .input(Uniform(-0.1, 0.1))
            .shapes([&[5, 3]])
            .run(|x| x[0].cosine_similarity(&x[1], 0, 0.5))
            .oracle(oracle(0, 0.5)),
    ]
}

fn norm(row: &[f64], p: f64) -> f64 {
    match p {
        0.0 => row.iter().filter(|&&x| x != 0.0).count() as f64,
        f64::INFINITY => row.iter().fold(0.0, |largest, x| x.abs().max(largest)),
        _ => row.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

fn distances(a: &Array, b: &Array, p: f64, eps: f64) -> Array {
    let difference = a.zip(b, |a, b| a - b + eps);
    difference.reduce(&[difference.rank() - 1], Keep::No, |row| norm(row, p))
}

fn lengths() -> Vec<OpCase> {
    [2.0, 1.0, 3.0, f64::INFINITY, 0.0]
        .into_iter()
        .map(|p| {
            let row = OpCase::new("pairwise_distance", format!("p={p}"))
                .input(vectors())
                .input(Fixed(vec![0.0]))
                .shapes([&[5], &[3, 5]])
                .run(move |x| x[0].pairwise_distance(&x[1], p, 1e-6, false))
                .oracle(move |x| distances(&x[0], &x[1], p, 1e-6));
            match p {
                0.0 => row.forward_only("a count"),
                2.0 => row
                    .on([&[3, 5], &[5]])
                    .on([&[0, 5], &[0, 5]])
                    .double_backward()
                    .rejects("pairwise_distance: p of -1, expected at least 0", |device| {
                        let x = Tensor::zeros([3], F32, device)?;
                        x.pairwise_distance(&x, -1.0, 1e-6, false)
                    })
                    .rejects("pairwise_distance: vectors without an axis", |device| {
                        let x = Tensor::zeros((), F32, device)?;
                        x.pairwise_distance(&x, 2.0, 1e-6, false)
                    }),
                f64::INFINITY => row.dense_only("equal largest differences share their gradient"),
                _ => row.double_backward(),
            }
        })
        .collect()
}

fn embeddings() -> Vec<OpCase> {
    let losses = |x: &[Array]| {
        let length = |x: &Array| sums(&x.map(|x| x * x)).map(|s| (s + 1e-12).sqrt());
        let product = length(&x[0]).zip(&length(&x[1]), |a, b| a * b);
        let cosine = sums(&x[0].zip(&x[1], |a, b| a * b)).zip(&product, |dot, length| dot / length);
        cosine.zip(&x[2], |cosine, target| match target {
            1.0 => 1.0 - cosine,
            -1.0 => (cosine + 2.0).max(0.0),
            _ => 0.0,
        })
    };
    let row = |parameters: &str, reduction: Reduction| {
        OpCase::new("cosine_embedding_loss", parameters)
            .input(vectors())
            .input(vectors())
            .input(Input::index(Fixed(vec![1.0, -1.0, 0.0])))
            .run(move |x| x[0].cosine_embedding_loss(&x[1], &x[2], -2.0, reduction))
    };
    vec![
        row("margin=-2 none", Reduction::None)
            .on([&[5, 3], &[5, 3], &[5]])
            .on([&[7], &[7], &[]])
            .double_backward()
            .oracle(losses)
            .rejects("cosine_embedding_loss: target has shape [4], expected [3]", |device| {
                let x = Tensor::zeros([3, 2], F32, device)?;
                x.cosine_embedding_loss(&x, &Tensor::zeros([4], F32, device)?, 0.0, Reduction::Mean)
            })
            .rejects("cosine_embedding_loss: expected 1 or 2 axes, got shape []", |device| {
                let x = Tensor::zeros((), F32, device)?;
                x.cosine_embedding_loss(&x, &x, 0.0, Reduction::Mean)
            }),
        row("margin=-2 mean", Reduction::Mean).on([&[5, 3], &[5, 3], &[5]]).oracle(move |x| mean(&losses(x))),
        row("margin=-2 none, of large numbers", Reduction::None)
            .on([&[5, 3], &[5, 3], &[5]])
            .dtypes(&[F64, F32, BF16])
            .run(move |x| {
                // The squares of the second vectors are larger than those of the first.
                let [one, other] = if x[0].dtype() == F64 { [600, 1000] } else { [84, 100] };
                let (first, second) = (x[0].mul_scalar(2f64.powi(one))?, x[1].mul_scalar(2f64.powi(other))?);
                first.cosine_embedding_loss(&second, &x[2], -2.0, Reduction::None)
            })
            .oracle(losses),
    ]
}

fn triplets() -> Vec<OpCase> {
    let losses = |x: &[Array], swap: bool| {
        let near = distances(&x[0], &x[1], 2.0, 1e-6);
        let mut far = distances(&x[0], &x[2], 2.0, 1e-6);
        if swap {
            far = far.zip(&distances(&x[1], &x[2], 2.0, 1e-6), f64::min);
        }
        near.zip(&far, |near, far| (near - far + 8.0).max(0.0))
    };
    let rejected_call = |margin: f64| {
        move |device: &Device| {
            let x = Tensor::zeros([3, 2], F32, device)?;
            x.triplet_margin_loss(&x, &x, TripletOptions { margin, ..TripletOptions::default() })
        }
    };
    let row = |op: &'static str, swap: bool| {
        let options = TripletOptions { margin: 8.0, swap, reduction: Reduction::None, ..TripletOptions::default() };
        OpCase::new(op, format!("margin=8 swap={swap}"))
            .input(vectors())
            .input(vectors())
            .input(vectors())
            .shapes([&[4], &[5, 3]])
            .double_backward()
            .run(move |x| match op {
                "triplet_margin_loss" => x[0].triplet_margin_loss(&x[1], &x[2], options),
                _ => x[0].triplet_margin_with_distance_loss(
                    &x[1],
                    &x[2],
                    |a, b| a.pairwise_distance(b, 2.0, 1e-6, false),
                    options,
                ),
            })
            .oracle(move |x| losses(x, swap))
    };
    // A half-precision distance is rounded before it is reduced.
    let with_distance = row("triplet_margin_with_distance_loss", true).dtypes(&[F64, F32]);
    vec![
        row("triplet_margin_loss", false)
            .rejects("triplet_margin_loss: margin -1, expected above 0", rejected_call(-1.0))
            .rejects("triplet_margin_loss: margin 0, expected above 0", rejected_call(0.0))
            .rejects(
                "triplet_margin_loss: numbers of axes that differ: anchor [3, 2] and negative [2]",
                |device| {
                    let x = Tensor::zeros([3, 2], F32, device)?;
                    x.triplet_margin_loss(&x, &Tensor::zeros([2], F32, device)?, TripletOptions::default())
                },
            ),
        row("triplet_margin_loss", true),
        with_distance.rejects("triplet_margin_with_distance_loss: margin -1, expected above 0", |device| {
            let x = Tensor::zeros([3, 2], F32, device)?;
            let options = TripletOptions { margin: -1.0, ..TripletOptions::default() };
            x.triplet_margin_with_distance_loss(&x, &x, |a, _| Ok(a.clone()), options)
        }),
    ]
}
