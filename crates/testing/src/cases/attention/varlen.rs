//! Varlen attention: sequences of different lengths, concatenated.

use super::dropout::{STATE, dropped};
use super::{
    Formula, PLAIN, attends, definition, gradient, gradients, output_with_rounded_weights, peers,
    rounded_gradients,
};
use crate::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::ops::random::Dropout;
use ternion_core::{AttentionOptions, Causal, CumulativeLengths};

/// The cumulative lengths of the sequences of queries and of keys.
type Ends = [&'static [usize]; 2];

/// For each entry of `ROWS`: sequences of one row and of zero rows, sequences with more queries
/// than keys, and rows after the last sequence.
const ENDS: [Ends; 6] = [
    [&[0, 1, 3], &[0, 2, 4]],
    [&[0, 3, 3, 7], &[0, 2, 5, 9]],
    [&[0, 1, 6], &[0, 1, 6]],
    [&[0, 4], &[0, 8]],
    [&[0, 2, 5, 6], &[0, 4, 4, 7]],
    [&[0, 70, 71, 139, 150], &[0, 64, 67, 140, 171]],
];
/// The numbers of query rows and key rows for each entry of `ENDS`.
const ROWS: [[usize; 2]; 6] = [[3, 4], [7, 9], [6, 6], [5, 9], [8, 7], [150, 171]];

/// Returns the cumulative lengths for these numbers of query rows and key rows.
pub(super) fn ends_of(rows: [usize; 2]) -> Ends {
    let entry = ROWS.iter().position(|&known| known == rows);
    entry.map(|entry| ENDS[entry]).expect("an entry of `ROWS`")
}

/// Returns the same as [`ends_of`], as tensors.
fn lengths_of(rows: [usize; 2], device: &Device) -> Result<[Tensor; 2]> {
    let [queries, keys] = ends_of(rows).map(|ends| {
        let ends: Vec<i32> = ends.iter().map(|&end| end as i32).collect();
        Tensor::from_slice(&ends, [ends.len()], device)
    });
    Ok([queries?, keys?])
}

/// Returns this module's rows of the op table.
pub(super) fn rows() -> Vec<OpCase> {
    let causal = AttentionConfig { causal: true, ..PLAIN };
    let window = |config| AttentionConfig { window: Some(2), ..config };
    let mut all = vec![
        on_default_rows(varlen("varlen", PLAIN)).double_backward().rejects(
            "attention: a mask with sequences of different lengths, expected none",
            |device| {
                let mask = Tensor::zeros([2, 2], Bool, device)?;
                attend_zeros(device, [2, 2], AttentionOptions { mask: Some(&mask), ..Default::default() })
            },
        ),
        on_default_rows(varlen("varlen causal", causal)).double_backward().rejects(
            "attention: upper-left causal sequences of different lengths, expected lower-right",
            |device| {
                let options = AttentionOptions { causal: Causal::UpperLeft, ..Default::default() };
                attend_zeros(device, [2, 2], options)
            },
        ),
        on_default_rows(varlen("varlen causal window=2", window(causal))),
        on_default_rows(varlen("varlen window=2", window(PLAIN))),
        varlen("varlen, beyond a block", PLAIN).dtypes(&[F32]).dense_only(SMALL_ROWS).on(LONG),
        varlen("varlen causal window=60, beyond a block", AttentionConfig { window: Some(60), ..causal })
            .dtypes(&[F32])
            .dense_only(SMALL_ROWS)
            .on(LONG),
        on_default_rows(varlen("varlen dropout=0.5", dropped(0.5, PLAIN))).dtypes(&[F32, F64]),
        on_default_rows(varlen("varlen causal dropout=0.5", dropped(0.5, causal))).dtypes(&[F32, F64]),
        varlen("varlen causal dropout=0.2, beyond a block", dropped(0.2, causal))
            .dtypes(&[F32])
            .dense_only(SMALL_ROWS)
            .on(LONG),
    ];
    all.extend(wide());
    all.extend(ops());
    all
}

const SMALL_ROWS: &str = "small rows show the layouts";
const LONG: [&[usize]; 3] = [&[150, 2, 8], &[171, 1, 8], &[171, 1, 4]];

fn on_default_rows(case: OpCase) -> OpCase {
    case.on([&[7, 3, 5], &[9, 3, 5], &[9, 3, 4]])
        .on([&[6, 4, 3], &[6, 2, 3], &[6, 2, 3]])
        .on([&[5, 1, 2], &[9, 1, 2], &[9, 1, 3]])
        .on([&[8, 2, 3], &[7, 1, 3], &[7, 1, 2]])
}

/// Heads with the head_dim of real models. They are few and short: the search for planted faults
/// starts with the largest sums, and must still select other rows. Wider heads and longer sequences
/// in half precision are in tests/kernels/attention/varlen.rs.
fn wide() -> Vec<OpCase> {
    let plain = AttentionConfig { scale: 0.1, ..PLAIN };
    let heads: [[&'static [usize]; 3]; 2] =
        [[&[3, 2, 64], &[4, 1, 64], &[4, 1, 48]], [&[3, 1, 104], &[4, 1, 104], &[4, 1, 128]]];
    let row = |[q, k, v]: [&'static [usize]; 3], what: &str, config| {
        let case = varlen(&format!("varlen wide {}{what}", q[2]), config);
        case.dtypes(&[F32, F16, BF16]).dense_only(SMALL_ROWS).on([q, k, v])
    };
    let plain_rows = heads.into_iter().map(|shapes| row(shapes, "", plain));
    let dropping = heads.into_iter().map(|shapes| row(shapes, " dropout=0.2", dropped(0.2, plain)));
    plain_rows.chain(dropping).collect()
}

/// Attention with queries, keys and values of shape `[rows, heads, head_dim]`.
fn varlen(parameters: &str, config: AttentionConfig) -> OpCase {
    let AttentionConfig { scale, causal, window, dropout, .. } = config;
    OpCase::new("attention", parameters)
        .configured(peers::configuration(&config))
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .f32_limit(3e-6, 2e-6)
        .grad_roundings(2)
        .run_on(move |x, device, _| {
            let [queries, keys] = lengths_of([x[0].dims()[0], x[1].dims()[0]], device)?;
            let dropout = dropout.map_or(0.0, |dropout| dropout.p);
            let causal = Causal::lower_right(causal);
            let options = AttentionOptions { mask: None, causal, window, scale: Some(scale), dropout };
            let lengths = CumulativeLengths { queries: &queries, keys: &keys };
            x[0].scaled_dot_product_attention_varlen(&x[1], &x[2], lengths, options)
        })
        .oracle(move |x| rows_first(&definition(&under_a_mask(config), &with_mask(&config, &heads_first(x))).0))
        .rounded_oracle(move |round, x| {
            rows_first(&output_with_rounded_weights(round, &under_a_mask(config), &with_mask(&config, &heads_first(x))).0)
        })
        .rounded_gradients(move |round, x, dy| {
            let (x, dy) = (with_mask(&config, &heads_first(x)), heads_first(&dy[..1]));
            rounded_gradients(round, &under_a_mask(config), &x, &dy[0]).iter().map(rows_first).collect()
        })
}

fn attend_zeros(device: &Device, ends: [i32; 2], options: AttentionOptions<'_>) -> Result<Tensor> {
    let x = Tensor::zeros([2, 1, 4], F32, device)?;
    let [queries, keys] = ends.map(|end| Tensor::from_slice(&[0, end], [2], device));
    let lengths = CumulativeLengths { queries: &queries?, keys: &keys? };
    x.scaled_dot_product_attention_varlen(&x, &x, lengths, options)
}

/// The ops themselves: the log-sum-exp as a second output, and the gradient as a formula of all its
/// inputs.
fn ops() -> Vec<OpCase> {
    let config = |dropout: Option<f64>| AttentionConfig {
        causal: true,
        varlen: true,
        dropout: dropout.map(|p| Dropout { p, offset: 5 }),
        ..PLAIN
    };
    let any = || Uniform(-2.0, 2.0);
    // The inputs after the operands: cumulative lengths and, with dropout, the random state.
    let extras = |x: &[Tensor], device: &Device, has_dropout: bool| -> Result<Vec<Tensor>> {
        let lengths = lengths_of([x[0].dims()[2], x[1].dims()[2]], device)?;
        let state = has_dropout.then(|| Tensor::from_slice(&STATE, [2], device)).transpose()?;
        Ok(lengths.into_iter().chain(state).collect())
    };
    let grad = |dropout: Option<f64>| {
        let what = if dropout.is_some() { "varlen causal dropout offset=5" } else { "varlen causal" };
        let formula = move || Formula { config: under_a_mask(config(dropout)), state: STATE };
        gradients(what)
            .configured(peers::configuration(&config(dropout)))
            .on([&[1, 2, 7, 2], &[1, 1, 9, 2], &[1, 1, 9, 5], &[1, 2, 7, 5], &[1, 2, 7], &[1, 2, 7, 5]])
            .run_on(move |x, device, _| {
                let extras = extras(x, device, dropout.is_some())?;
                let inputs: Vec<&Tensor> = x.iter().chain(&extras).collect();
                Ok(apply(AttentionGrad { config: config(dropout) }, &inputs)?.into_vec())
            })
            .oracle(move |x| gradient(&|weight| weight, formula(), &with_mask(&config(dropout), x)))
            .rounded_oracle(move |round, x| gradient(round, formula(), &with_mask(&config(dropout), x)))
    };
    let forward = OpCase::new("attention", "op varlen causal")
        .configured(peers::configuration(&config(None)))
        .input(any())
        .input(any())
        .input(any())
        .on([&[1, 2, 7, 5], &[1, 1, 9, 5], &[1, 1, 9, 4]])
        .f32_limit(3e-6, 2e-6)
        .double_backward()
        .run_on(move |x, device, _| {
            let extras = extras(x, device, false)?;
            let inputs: Vec<&Tensor> = x.iter().chain(&extras).collect();
            Ok(apply(Attention { config: config(None) }, &inputs)?.into_vec())
        })
        .oracle(move |x| definition(&under_a_mask(config(None)), &with_mask(&config(None), x)))
        .rounded_oracle(move |round, x| output_with_rounded_weights(round, &under_a_mask(config(None)), &with_mask(&config(None), x)));
    vec![rejecting(forward), grad(None), grad(Some(0.4))]
}

/// Adds rejected calls with invalid lengths.
fn rejecting(case: OpCase) -> OpCase {
    let run = |shape: [usize; 4], lengths: [Tensor; 2], device: &Device| {
        let config = AttentionConfig { varlen: true, ..PLAIN };
        let x = Tensor::zeros(shape, F32, device)?;
        Ok(apply(Attention { config }, &[&x, &x, &x, &lengths[0], &lengths[1]])?.into_vec())
    };
    let ends = |count: usize, dtype: DType, device: &Device| Tensor::zeros([count], dtype, device);
    case.rejects("attention: cu_seqlens_k is i64, expected i32", move |device| {
        run([1, 1, 2, 2], [ends(3, I32, device)?, ends(3, I64, device)?], device)
    })
    .rejects("attention: cu_seqlens_k has shape [2], expected [3]", move |device| {
        run([1, 1, 2, 2], [ends(3, I32, device)?, ends(2, I32, device)?], device)
    })
    .rejects("attention: 1 cumulative lengths, expected 0 and the end of each sequence", move |device| {
        run([1, 1, 2, 2], [ends(1, I32, device)?, ends(1, I32, device)?], device)
    })
    .rejects("attention: a batch of 2 with cumulative lengths, expected 1", move |device| {
        run([2, 1, 2, 2], [ends(3, I32, device)?, ends(3, I32, device)?], device)
    })
}

/// Returns the same configuration with the sequences as a mask, which replaces causal mask and
/// window.
fn under_a_mask(config: AttentionConfig) -> AttentionConfig {
    AttentionConfig { mask: true, varlen: false, causal: false, window: None, ..config }
}

/// Returns the operands followed by a mask, which is 1 where a query attends to a key.
fn with_mask(config: &AttentionConfig, x: &[Array]) -> Vec<Array> {
    let ([_, heads, queries, _], [_, _, keys, _]) = (x[0].sizes(), x[1].sizes());
    let [of_queries, of_keys] = ends_of([queries, keys]);
    // Sequence `s` has the rows from `ends[s - 1]` to `ends[s]`.
    let sequence = |ends: &[usize], row: usize| (1..ends.len()).find(|&s| row < ends[s]);
    let attends = |query: usize, key: usize| {
        let Some(s) = sequence(of_queries, query).filter(|&s| sequence(of_keys, key) == Some(s)) else {
            return false;
        };
        let (first, first_key) = (of_queries[s - 1], of_keys[s - 1]);
        attends(config, [query - first, of_queries[s] - first, key - first_key, of_keys[s] - first_key])
    };
    let mask_value = |at: usize| f64::from(u8::from(attends(at / keys % queries, at % keys)));
    let mask = Array::new(&[1, heads, queries, keys], (0..heads * queries * keys).map(mask_value).collect());
    [x, &[mask]].concat()
}

/// Permutes each `[rows, heads, width]` to `[1, heads, rows, width]`.
fn heads_first(x: &[Array]) -> Vec<Array> {
    let swapped = |x: &Array| {
        let [rows, heads, width] = x.sizes();
        x.permute(&[1, 0, 2]).reshape(&[1, heads, rows, width])
    };
    x.iter().map(swapped).collect()
}

/// Permutes `[1, heads, rows, width]` to `[rows, heads, width]`.
fn rows_first(y: &Array) -> Array {
    let [_, heads, rows, width] = y.sizes();
    y.reshape(&[heads, rows, width]).permute(&[1, 0, 2])
}
