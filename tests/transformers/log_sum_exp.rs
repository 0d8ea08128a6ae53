//! The log-sum-exp of attention's scores, compared with that of scores computed by other ops.

use super::attention::assert_near;
use crate::layer::on_each_device;
use ternion::decorators::Composed;
use ternion::prelude::*;
use ternion::{AttentionOptions, Causal};

const BATCH: usize = 2;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;

/// The mask, and the numbers of queries and keys.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    queries: usize,
    keys: usize,
    causal: Causal,
    window: Option<usize>,
    mask: Option<DType>,
}

const PLAIN: Case =
    Case { name: "plain", queries: 7, keys: 9, causal: Causal::Off, window: None, mask: None };

/// With more queries than keys the first queries attend to no key. With a mask, query 2 attends to
/// no key either.
const CASES: [Case; 9] = [
    PLAIN,
    Case { name: "causal", causal: Causal::LowerRight, ..PLAIN },
    Case { name: "causal, more queries", causal: Causal::LowerRight, queries: 9, keys: 6, ..PLAIN },
    Case { name: "upper left, fewer queries", causal: Causal::UpperLeft, ..PLAIN },
    Case { name: "upper left, more queries", causal: Causal::UpperLeft, queries: 9, keys: 6, ..PLAIN },
    Case { name: "window", window: Some(2), ..PLAIN },
    Case {
        name: "causal window, more queries",
        causal: Causal::LowerRight,
        window: Some(3),
        queries: 140,
        keys: 70,
        ..PLAIN
    },
    Case { name: "bool mask", mask: Some(DType::Bool), ..PLAIN },
    Case { name: "additive mask, causal", causal: Causal::LowerRight, mask: Some(DType::F32), ..PLAIN },
];

/// Returns numbers between -1 and 1.
fn numbers(shape: &[usize], step: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|at| ((at * step % 97) as f32 - 48.0) / 48.0).collect();
    Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
}

impl Case {
    /// Returns queries, keys and values with this head_dim.
    fn operands(&self, width: usize, dtype: DType, device: &Device) -> Result<[Tensor; 3]> {
        let Case { queries, keys, .. } = *self;
        let q = numbers(&[BATCH, HEADS, queries, width], 29, dtype, device)?;
        let k = numbers(&[BATCH, KV_HEADS, keys, width], 41, dtype, device)?;
        Ok([q, k, numbers(&[BATCH, KV_HEADS, keys, width], 53, dtype, device)?])
    }

    /// Returns a mask `[heads, queries, keys]`, with which query 2 attends to no key.
    fn mask(&self, dtype: DType, device: &Device) -> Result<Option<Tensor>> {
        let Some(kind) = self.mask else { return Ok(None) };
        let shape = [HEADS, self.queries, self.keys];
        let rows = Tensor::iota(self.queries, DType::I32, 0, 1, device)?.eq_scalar(2)?;
        let blind = rows.unsqueeze(1)?.expand(shape)?;
        let added = numbers(&shape, 37, dtype, device)?;
        let mask = match kind {
            DType::Bool => added.gt_scalar(-0.5)?.logical_and(&blind.logical_not()?)?,
            _ => added.masked_fill(&blind, f64::NEG_INFINITY)?,
        };
        Ok(Some(mask))
    }

    fn options<'a>(&self, mask: Option<&'a Tensor>) -> AttentionOptions<'a> {
        AttentionOptions { mask, causal: self.causal, window: self.window, scale: Some(0.4), dropout: 0.0 }
    }

    /// Returns whether a query attends to a key by its position, `[queries, keys]`.
    fn attends(&self, device: &Device) -> Result<Tensor> {
        let (queries, keys) = (self.queries as i64, self.keys as i64);
        let first = if self.causal == Causal::UpperLeft { 0 } else { keys - queries };
        let (is_causal, window) = (self.causal != Causal::Off, self.window.map(|window| window as i64));
        let sees = |query: i64, key: i64| {
            let ahead = key - query - first;
            let is_before = if is_causal { ahead <= 0 } else { window.is_none_or(|window| ahead < window) };
            is_before && window.is_none_or(|window| ahead > -window)
        };
        let all: Vec<bool> =
            (0..queries).flat_map(|query| (0..keys).map(move |key| sees(query, key))).collect();
        Tensor::from_vec(all, [self.queries, self.keys], device)
    }

    /// Returns the scores in f32, `[batch, heads, queries, keys]`.
    fn scores(&self, q: &Tensor, k: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let (q, k) = (q.to_dtype(DType::F32)?, each_repeated(&k.to_dtype(DType::F32)?)?);
        let scores = q.matmul(&k.t()?)?.mul_scalar(0.4)?;
        let scores = scores.masked_fill(&self.attends(q.device())?.logical_not()?, f64::NEG_INFINITY)?;
        match mask {
            Some(mask) if mask.dtype() == DType::Bool => {
                scores.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)
            }
            Some(mask) => scores.add(&mask.to_dtype(DType::F32)?),
            None => Ok(scores),
        }
    }

    fn check(&self, width: usize, dtype: DType, device: &Device) -> Result<()> {
        let what = format!("{}, {dtype:?}, width {width}, {device:?}", self.name);
        let [q, k, v] = self.operands(width, dtype, device)?;
        let mask = self.mask(dtype, device)?;
        let options = self.options(mask.as_ref());
        let [y, lse] = q.scaled_dot_product_attention_lse(&k, &v, options)?;
        let without_lse = q.scaled_dot_product_attention(&k, &v, options)?;
        assert_eq!(y.to_bytes()?, without_lse.to_bytes()?, "{what}: y");
        assert_eq!((lse.dims(), lse.dtype()), (&[BATCH, HEADS, self.queries][..], DType::F32), "{what}");
        let expected = self.scores(&q, &k, mask.as_ref())?.logsumexp(-1)?;
        let (found, expected) = (lse.to_vec::<f32>()?, expected.to_vec::<f32>()?);
        let near = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-5 * (1.0 + b.abs());
        assert!(found.iter().zip(&expected).all(near), "{what}: {found:?}, expected {expected:?}");
        let blind = found.iter().filter(|&&value| value == f32::NEG_INFINITY).count();
        assert_eq!(blind, BATCH * HEADS * self.blind_queries(), "{what}: fully masked queries");
        Ok(())
    }

    fn blind_queries(&self) -> usize {
        match self.causal {
            Causal::LowerRight => self.queries.saturating_sub(self.keys) + usize::from(self.mask.is_some()),
            _ => usize::from(self.mask.is_some()),
        }
    }
}

/// Repeats each key head for the two query heads that share it.
fn each_repeated(x: &Tensor) -> Result<Tensor> {
    let [batch, heads, rows, width] = x.sizes()?;
    let repeated = x.unsqueeze(2)?.expand([batch, heads, HEADS / KV_HEADS, rows, width])?;
    repeated.reshape([batch, HEADS, rows, width])
}

/// Runs `test` on each device, and on a device on which attention is composed of other ops.
fn on_every_device(test: impl Fn(&Device) -> Result<()>) -> Result<()> {
    on_each_device(&test)?;
    test(&Composed::new(ternion_cpu::device()))
}

#[test]
fn the_log_sum_exp_is_that_of_the_scores() -> Result<()> {
    on_every_device(|device| {
        for case in CASES {
            for width in [5, 64, 200] {
                case.check(width, DType::F32, device)?;
                case.check(width, DType::BF16, device)?;
            }
        }
        Ok(())
    })
}

/// For f64 inputs it is f64, and dropout does not change it.
#[test]
fn the_log_sum_exp_is_of_scores_before_dropout() -> Result<()> {
    on_every_device(|device| {
        let [q, k, v] = PLAIN.operands(8, DType::F32, device)?;
        let options = AttentionOptions { dropout: 0.4, ..PLAIN.options(None) };
        device.seed(5);
        let without_lse = q.scaled_dot_product_attention(&k, &v, options)?;
        device.seed(5);
        let [y, lse] = q.scaled_dot_product_attention_lse(&k, &v, options)?;
        assert_eq!(y.to_bytes()?, without_lse.to_bytes()?);
        let [merged, of_all] = q.scaled_dot_product_attention_lse(&k, &v, PLAIN.options(None))?;
        assert_near("the log-sum-exp", &lse, &of_all)?;
        assert_ne!(y.to_bytes()?, merged.to_bytes()?, "nothing was dropped");
        Ok(())
    })?;
    let [q, k, v] = PLAIN.operands(8, DType::F64, &ternion_cpu::device())?;
    let [_, lse] = q.scaled_dot_product_attention_lse(&k, &v, PLAIN.options(None))?;
    assert_eq!(lse.dtype(), DType::F64);
    Ok(())
}

/// Gradients flow through both results, including those of the mask; queries that attend to no key
/// propagate none.
#[test]
fn gradients_flow_through_the_log_sum_exp() -> Result<()> {
    on_every_device(|device| {
        for case in [PLAIN, CASES[1], CASES[3], CASES[8]] {
            let [q, k, v] = case.operands(5, DType::F32, device)?;
            let leaves = [q.requires_grad()?, k.requires_grad()?, v.requires_grad()?];
            let mask = case.mask(DType::F32, device)?.map(|mask| mask.requires_grad()).transpose()?;
            let [q, k, v] = &leaves;
            let of_y = numbers(&[BATCH, HEADS, case.queries, 5], 31, DType::F32, device)?;
            let of_lse = numbers(&[BATCH, HEADS, case.queries], 43, DType::F32, device)?;
            // Only queries that attend to something: otherwise the log-sum-exp would be infinite,
            // and its softmax 0 / 0.
            let skipped_rows = if mask.is_some() { 3 } else { 0 };
            let rows = |x: &Tensor| x.narrow(2, skipped_rows, case.queries - skipped_rows);
            let gradients = |y: &Tensor, lse: &Tensor| -> Result<Vec<Tensor>> {
                let loss = rows(&y.mul(&of_y)?)?.sum(..)?;
                let loss = loss.add(&rows(lse)?.mul(&rows(&of_lse)?)?.sum(..)?)?.backward()?;
                leaves
                    .iter()
                    .chain(&mask)
                    .map(|leaf| Ok(loss.get(leaf).expect("a gradient").clone()))
                    .collect()
            };
            let [y, lse] = q.scaled_dot_product_attention_lse(k, v, case.options(mask.as_ref()))?;
            let scores = rows(&case.scores(q, k, mask.as_ref())?)?;
            let weights = scores.softmax(-1)?.matmul(&each_repeated(v)?)?;
            let padded = |x: &Tensor, shape: &[usize]| {
                Tensor::concat(&[&Tensor::zeros(shape, DType::F32, device)?, x], 2)
            };
            let expected = gradients(
                &padded(&weights, &[BATCH, HEADS, skipped_rows, 5])?,
                &padded(&scores.logsumexp(-1)?, &[BATCH, HEADS, skipped_rows])?,
            )?;
            for (found, expected) in gradients(&y, &lse)?.iter().zip(&expected) {
                assert_near(case.name, found, expected)?;
            }
        }
        Ok(())
    })
}

/// The results of attention to two parts of the keys are combined into those of attention to all
/// keys, by the log-sum-exp of each part.
#[test]
fn attention_over_parts_of_the_keys_is_combined() -> Result<()> {
    on_each_device(|device| {
        let [q, k, v] = PLAIN.operands(8, DType::F32, device)?;
        let part = |first: usize, count: usize| {
            let (k, v) = (k.narrow(2, first, count)?, v.narrow(2, first, count)?);
            q.scaled_dot_product_attention_lse(&k, &v, PLAIN.options(None))
        };
        let ([y1, lse1], [y2, lse2]) = (part(0, 4)?, part(4, 5)?);
        let share = lse1.sub(&lse2)?.sigmoid()?.unsqueeze(-1)?;
        let merged = y1.sub(&y2)?.mul(&share)?.add(&y2)?;
        assert_near("y", &merged, &q.scaled_dot_product_attention(&k, &v, PLAIN.options(None))?)
    })
}

#[test]
fn attention_with_log_sum_exp_rejects_the_same_calls() -> Result<()> {
    let device = ternion_cpu::device();
    let [q, k, v] = PLAIN.operands(4, DType::F32, &device)?;
    let mask = Tensor::zeros([7, 9], DType::F64, &device)?;
    let rejected: [(&str, AttentionOptions<'_>); 3] = [
        ("attention: mask is f64, expected bool or the query's dtype", PLAIN.options(Some(&mask))),
        (
            "attention: an upper-left causal window of 7 queries and 9 keys, expected as many of both, or lower-right",
            AttentionOptions { causal: Causal::UpperLeft, window: Some(2), ..PLAIN.options(None) },
        ),
        (
            "attention: probability 1.5, expected 0 to 1",
            AttentionOptions { dropout: 1.5, ..PLAIN.options(None) },
        ),
    ];
    for (message, options) in rejected {
        let error = q.scaled_dot_product_attention_lse(&k, &v, options).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let error = q.scaled_dot_product_attention_lse(&k.narrow(3, 0, 3)?, &v, PLAIN.options(None));
    let message = "attention: key has shape [2, 2, 9, 3], expected [2, 2, 9, 4]";
    assert_eq!(error.expect_err(message).to_string(), message);
    Ok(())
}
