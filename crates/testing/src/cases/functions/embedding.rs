//! Rows of embeddings with options, and of tables whose rows have a maximum norm.

use crate::cases::index::{index_add, index_select};
use crate::cases::reduce::gradients;
use crate::prelude::*;
use ternion_core::EmbeddingOptions;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [embeddings_with_options(), renormalized_rows()].concat()
}

/// The gradient of selected rows: zero for padding, and divided by how often the row is selected.
fn embeddings_with_options() -> Vec<OpCase> {
    let row = |padding_idx: Option<usize>, scale_grad_by_freq: bool| {
        let options = EmbeddingOptions { padding_idx, scale_grad_by_freq };
        OpCase::new("embedding", format!("padding_idx={padding_idx:?} scale_grad_by_freq={scale_grad_by_freq}, gradient"))
            .input(Uniform(-4.0, 4.0))
            .input(Input::index(Fixed(vec![1.0, 3.0, 1.0, 0.0, 1.0, 3.0])))
            .input(Uniform(-4.0, 4.0))
            .on([&[5, 4], &[2, 3], &[2, 3, 4]])
            .forward_only("compares gradients themselves")
            .run(move |x| {
                let table_gradient = gradients(&x[..1], |leaves| {
                    leaves[0].embedding_with(&x[1], options)?.mul(&x[2])
                });
                Ok([table_gradient?, vec![x[0].embedding_with(&x[1], options)?]].concat())
            })
            .oracle(move |x| {
                let uses = |row: f64| x[1].data.iter().filter(|&&other| other == row).count() as f64;
                let factor = |row: f64| match () {
                    () if padding_idx == Some(row as usize) => 0.0,
                    () if scale_grad_by_freq => 1.0 / uses(row),
                    () => 1.0,
                };
                let shares = Array::from_fn(&[6, 4], |at| factor(x[1].data[at[0]]) * x[2].data[at[0] * 4 + at[1]]);
                let flat = x[1].reshape(&[6]);
                let rows = index_select(&x[0], &flat, 0).reshape(&[2, 3, 4]);
                vec![index_add(&Array::zeros(&[5, 4]), &flat, &shares, 0), rows]
            })
    };
    vec![
        row(Some(1), false),
        row(None, true),
        row(Some(3), true).rejects("embedding: padding_idx 4 of 4 rows", |device| {
            let options = EmbeddingOptions { padding_idx: Some(4), ..EmbeddingOptions::default() };
            Tensor::zeros([4, 2], F32, device)?.embedding_with(&Tensor::zeros([1], I32, device)?, options)
        }),
    ]
}

/// Selected rows are scaled down in place to a maximum norm, of several orders `p`.
fn renormalized_rows() -> Vec<OpCase> {
    let row = |p: f64| {
        OpCase::new("embedding_renorm_", format!("p={p}"))
            .input(Uniform(-4.0, 4.0))
            .input(Input::index(Fixed(vec![1.0, 3.0, 1.0, 0.0])))
            .on([&[5, 3], &[4, 1]])
            .on([&[4, 1], &[4]])
            .forward_only("in place, without a record")
            .run(move |x| {
                let table = x[0].copy()?;
                table.embedding_renorm_(&x[1], 1.5, p)?;
                Ok(table)
            })
            .oracle(move |x| {
                let norm = |row: usize| {
                    let sizes = (0..x[0].shape[1]).map(|column| x[0].at(&[row, column]).abs());
                    if p.is_infinite() { sizes.fold(0.0, f64::max) } else { sizes.map(|size| size.powf(p)).sum::<f64>().powf(1.0 / p) }
                };
                Array::from_fn(&x[0].shape, |at| {
                    let is_used = x[1].data.contains(&(at[0] as f64));
                    let norm = norm(at[0]);
                    x[0].at(at) * if is_used && norm > 1.5 { 1.5 / (norm + 1e-7) } else { 1.0 }
                })
            })
    };
    vec![
        row(2.0).adversarial("NaN and zeros", [
            Array::new(&[4, 2], vec![f64::NAN, 1.0, 0.0, 0.0, f64::INFINITY, 1.0, 30.0, 40.0]),
            Array::new(&[4], vec![0.0, 1.0, 3.0, 3.0]),
        ]),
        row(f64::INFINITY),
        row(0.5)
            .rejects("embedding_renorm_: p of 0 and max_norm of 1, expected above 0 and at least 0", |device| {
                Tensor::zeros([4, 2], F32, device)?.embedding_renorm_(&Tensor::zeros([1], I32, device)?, 1.0, 0.0)?;
                Tensor::zeros([1], F32, device)
            })
            .rejects("embedding_renorm_: index 4 is out of range for size 4", |device| {
                Tensor::zeros([4, 2], F32, device)?.embedding_renorm_(&Tensor::full([1], 4, I32, device)?, 1.0, 2.0)?;
                Tensor::zeros([1], F32, device)
            }),
    ]
}
