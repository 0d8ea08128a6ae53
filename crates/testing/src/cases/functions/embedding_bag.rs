//! Rows of embedding bags.

use crate::cases::reduce::gradient;
use crate::prelude::*;
use ternion_core::{BagMode, EmbeddingBagOptions, EmbeddingBagParts};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = MODES.into_iter().map(matrix).collect();
    rows.extend([offsets(), last_offset(), weighted(), padded(), ties()]);
    rows.extend(MODES.into_iter().flat_map(|mode| [None, Some(1)].map(|padding_idx| parts(mode, padding_idx))));
    rows.push(parts_at_ties());
    rows
}

/// All outputs of `embedding_bag_parts`. The four bags have the first three indices, none, the next
/// two, and the last one.
fn parts(mode: BagMode, padding_idx: Option<usize>) -> OpCase {
    let name = format!("parts, {mode:?}, padding_idx={padding_idx:?}");
    table(name)
        .input(Input::index(Fixed(vec![0.0, 1.0, 3.0, 1.0, 1.0, 2.0])))
        .on([&[5, 3], &[6]])
        .differentiable_outputs(1)
        .run(move |x| {
            let offsets = Tensor::from_slice(&[0i32, 3, 3, 5], [4], x[0].device())?;
            let options = EmbeddingBagOptions { offsets: Some(&offsets), mode, padding_idx, ..Default::default() };
            outputs(x[0].embedding_bag_parts(&x[1], options)?)
        })
        .oracle_for(move |dtype, x| {
            let kept = |bag: Vec<(usize, f64)>| bag.into_iter().filter(|&(row, _)| Some(row) != padding_idx).collect();
            let bags: Vec<Vec<(usize, f64)>> = between(&x[1].data, &[0, 3, 3, 5, 6]).into_iter().map(kept).collect();
            let sizes = bags.iter().map(|bag| if mode == BagMode::Sum { 0.0 } else { bag.len() as f64 }).collect();
            let sizes = Array::new(&[4], sizes);
            let has_bag_of = mode != BagMode::Sum || dtype == F64 || padding_idx.is_some();
            let bag_of = if has_bag_of { vec![0.0, 0.0, 0.0, 2.0, 2.0, 3.0] } else { Vec::new() };
            let rows = if mode == BagMode::Max { largest_rows(&x[0], &bags) } else { sizes.clone() };
            vec![reduced(&x[0], &bags, mode), Array::new(&[bag_of.len()], bag_of), sizes, rows]
        })
        .rejects("embedding_bag: indices of shape [2] without offsets", move |device| {
            let options = EmbeddingBagOptions { mode, ..EmbeddingBagOptions::default() };
            let parts = Tensor::zeros([3, 2], F32, device)?.embedding_bag_parts(&Tensor::zeros([2], I64, device)?, options);
            outputs(parts?)
        })
}

/// Returns the values, the bag of each index, the sizes of the bags, and the rows of the maxima.
fn outputs(parts: EmbeddingBagParts) -> Result<Vec<Tensor>> {
    Ok(vec![parts.values, parts.bag_of, parts.sizes, parts.rows])
}

/// Returns for each bag and column the row with the largest element, the first of several; 0 for an
/// empty bag.
fn largest_rows(table: &Array, bags: &[Vec<(usize, f64)>]) -> Array {
    let is_above = |x: f64, largest: f64| x > largest || (x.is_nan() && !largest.is_nan());
    Array::from_fn(&[bags.len(), table.sizes::<2>()[1]], |at| {
        let mut rows = bags[at[0]].iter().map(|&(row, _)| row);
        let first = rows.next().unwrap_or(0);
        let larger = |best: usize, row: usize| {
            if is_above(table.at(&[row, at[1]]), table.at(&[best, at[1]])) { row } else { best }
        };
        rows.fold(first, larger) as f64
    })
}

/// Rows of equal elements, and NaN; the last offset is less than the number of indices, which
/// belong to the last bag.
fn parts_at_ties() -> OpCase {
    let nan = f64::NAN;
    OpCase::new("embedding_bag", "parts, Max at ties and NaN, include_last_offset")
        .input(Fixed(vec![1.0, 5.0, 1.0, nan, 0.5, 5.0, 7.0, nan]))
        .input(Input::index(Fixed(vec![2.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1.0, 0.0])))
        .on([&[4, 2], &[8]])
        .forward_only("NaN")
        .run(|x| {
            let offsets = Tensor::from_slice(&[0i32, 3, 3, 5, 7], [5], x[0].device())?;
            let mode = BagMode::Max;
            let options =
                EmbeddingBagOptions { offsets: Some(&offsets), mode, include_last_offset: true, ..Default::default() };
            outputs(x[0].embedding_bag_parts(&x[1], options)?)
        })
        .oracle(move |x| {
            let bags = between(&x[1].data, &[0, 3, 3, 5, 7]);
            let values = vec![1.0, 5.0, 0.0, 0.0, 1.0, nan, 7.0, nan];
            let bag_of = vec![0.0, 0.0, 0.0, 2.0, 2.0, 3.0, 3.0, 3.0];
            let sizes = Array::new(&[4], vec![3.0, 0.0, 2.0, 3.0]);
            vec![Array::new(&[4, 2], values), Array::new(&[8], bag_of), sizes, largest_rows(&x[0], &bags)]
        })
}

const MODES: [BagMode; 3] = [BagMode::Sum, BagMode::Mean, BagMode::Max];

const INDEX: Values = Values::Index { input: 0, axis: 0 };

/// Reduces the bags of rows of a table, each row with a weight.
fn reduced(table: &Array, bags: &[Vec<(usize, f64)>], mode: BagMode) -> Array {
    let [_, width] = table.sizes();
    Array::from_fn(&[bags.len(), width], |at| {
        let values = bags[at[0]].iter().map(|&(row, weight)| weight * table.at(&[row, at[1]]));
        match mode {
            BagMode::Max => values.reduce(f64::max).unwrap_or(0.0),
            BagMode::Sum => values.sum(),
            BagMode::Mean => values.sum::<f64>() / bags[at[0]].len().max(1) as f64,
        }
    })
}

/// Returns the bags of the indices between consecutive ends: rows of the table, each with weight 1.
fn between(indices: &[f64], ends: &[usize]) -> Vec<Vec<(usize, f64)>> {
    ends.windows(2).map(|ends| indices[ends[0]..ends[1]].iter().map(|&row| (row as usize, 1.0)).collect()).collect()
}

/// Creates a row whose first input is the table.
fn table(parameters: String) -> OpCase {
    OpCase::new("embedding_bag", parameters).input(Distinct).double_backward()
}

fn matrix(mode: BagMode) -> OpCase {
    let options = EmbeddingBagOptions { mode, ..EmbeddingBagOptions::default() };
    table(format!("{mode:?}"))
        // With equal rows, the differences of a maximum would not determine the gradient.
        .input(Input::index(Values::UniqueIndex { input: 0, axis: 0 }))
        .on([&[5, 3], &[1, 5]])
        .on([&[7, 2], &[0, 3]])
        .on([&[7, 2], &[3, 0]])
        .run(move |x| x[0].embedding_bag(&x[1], options))
        .oracle(move |x| {
            let [bags, size] = x[1].sizes();
            let ends: Vec<usize> = (0..=bags).map(|bag| bag * size).collect();
            reduced(&x[0], &between(&x[1].data, &ends), mode)
        })
        .rejects("embedding_bag: index 3 is out of range for size 3", move |device| {
            let indices = Tensor::from_slice(&[0i64, 3], [1, 2], device)?;
            Tensor::zeros([3, 2], F32, device)?.embedding_bag(&indices, options)
        })
        .rejects("embedding_bag: indices of shape [2] without offsets", move |device| {
            let indices = Tensor::zeros([2], I64, device)?;
            Tensor::zeros([3, 2], F32, device)?.embedding_bag(&indices, options)
        })
}

fn offsets() -> OpCase {
    let rejected_call = |offsets: &'static [i64]| {
        move |device: &Device| {
            let offsets = Tensor::from_slice(offsets, [offsets.len()], device)?;
            let options = EmbeddingBagOptions { offsets: Some(&offsets), ..EmbeddingBagOptions::default() };
            Tensor::zeros([3, 2], F32, device)?.embedding_bag(&Tensor::zeros([4], I64, device)?, options)
        }
    };
    table("offsets, Mean".into())
        .input(Input::index(INDEX))
        .on([&[5, 3], &[7]])
        .run(|x| {
            // The second bag is empty.
            let offsets = Tensor::from_slice(&[0i32, 3, 3], [3], x[0].device())?;
            x[0].embedding_bag(&x[1], EmbeddingBagOptions { offsets: Some(&offsets), ..Default::default() })
        })
        .oracle(|x| reduced(&x[0], &between(&x[1].data, &[0, 3, 3, 7]), BagMode::Mean))
        .rejects("embedding_bag: offsets that are not in order from 0 to 4", rejected_call(&[1, 3]))
        .rejects("embedding_bag: offsets that are not in order from 0 to 4", rejected_call(&[0, 3, 2]))
        .rejects("embedding_bag: offsets that are not in order from 0 to 4", rejected_call(&[0, 5]))
        .rejects("embedding_bag: an offset of -1, expected at least 0", rejected_call(&[0, -1]))
}

fn last_offset() -> OpCase {
    table("include_last_offset, Max".into())
        .input(Input::index(Fixed(vec![0.0, 2.0, 1.0, 4.0, 3.0, 0.0, 1.0])))
        .on([&[5, 3], &[7]])
        .run(|x| {
            let offsets = Tensor::from_slice(&[0i64, 2, 2, 5], [4], x[0].device())?;
            let options = EmbeddingBagOptions {
                offsets: Some(&offsets),
                include_last_offset: true,
                mode: BagMode::Max,
                ..Default::default()
            };
            x[0].embedding_bag(&x[1], options)
        })
        .oracle(|x| reduced(&x[0], &between(&x[1].data, &[0, 2, 2, 5]), BagMode::Max))
}

fn weighted() -> OpCase {
    table("weighted, Sum".into())
        .input(Input::index(INDEX))
        .input(Uniform(-2.0, 2.0))
        .on([&[5, 3], &[2, 4], &[2, 4]])
        .run(|x| {
            let options =
                EmbeddingBagOptions { mode: BagMode::Sum, per_sample_weights: Some(&x[2]), ..Default::default() };
            x[0].embedding_bag(&x[1], options)
        })
        .oracle(|x| {
            let weighted = x[1].data.iter().zip(&x[2].data).map(|(&row, &weight)| (row as usize, weight));
            let all: Vec<(usize, f64)> = weighted.collect();
            reduced(&x[0], &[all[..4].to_vec(), all[4..].to_vec()], BagMode::Sum)
        })
        .rejects("embedding_bag: per_sample_weights of mode Mean, expected Sum", |device| {
            let weights = Tensor::zeros([1, 2], F32, device)?;
            let options = EmbeddingBagOptions { per_sample_weights: Some(&weights), ..Default::default() };
            Tensor::zeros([3, 2], F32, device)?.embedding_bag(&Tensor::zeros([1, 2], I64, device)?, options)
        })
}

/// If several rows have the same largest element, the gradient belongs to the first; if several
/// have a NaN, to the first of them. An empty bag has no gradient.
fn ties() -> OpCase {
    let nan = f64::NAN;
    OpCase::new("embedding_bag", "gradient of Max at ties and NaN")
        .input(Fixed(vec![1.0, 5.0, 1.0, nan, 0.5, 5.0, 7.0, nan]))
        .input(Input::index(Fixed(vec![2.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1.0])))
        .on([&[4, 2], &[7]])
        .forward_only("compares gradients themselves")
        .run(|x| {
            let offsets = Tensor::from_slice(&[0i32, 3, 3, 5], [4], x[0].device())?;
            let options =
                EmbeddingBagOptions { offsets: Some(&offsets), mode: BagMode::Max, ..EmbeddingBagOptions::default() };
            gradient(&x[0], |table| table.embedding_bag(&x[1], options))
        })
        // Bags of the rows 2 0 0, of none, of 1 2, of 3 1.
        .oracle(|x| Array::new(&x[0].shape, vec![1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]))
}

fn padded() -> OpCase {
    table("padding_idx=1, Mean".into())
        .input(Input::index(Fixed(vec![0.0, 1.0, 2.0, 1.0, 1.0, 1.0])))
        .on([&[3, 4], &[2, 3]])
        .run(|x| x[0].embedding_bag(&x[1], EmbeddingBagOptions { padding_idx: Some(1), ..Default::default() }))
        .oracle(|x| reduced(&x[0], &[vec![(0, 1.0), (2, 1.0)], vec![]], BagMode::Mean))
        .rejects("embedding_bag: padding_idx 3 of 3 rows", |device| {
            let options = EmbeddingBagOptions { padding_idx: Some(3), ..Default::default() };
            Tensor::zeros([3, 2], F32, device)?.embedding_bag(&Tensor::zeros([1, 2], I64, device)?, options)
        })
}
