//! Causal attention aligned at the upper left: the first query attends to the first key.

use super::{PLAIN, definition, output_with_rounded_weights, peers, rounded_gradients};
use crate::prelude::*;
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{AttentionOptions, Causal};

/// The configuration of the oracle, which has the causal mask as an additive mask.
const MASKED: AttentionConfig = AttentionConfig { mask: true, ..PLAIN };

/// More queries than keys, fewer and as many; with and without an additive mask.
pub(super) fn rows() -> Vec<OpCase> {
    let any = || Uniform(-2.0, 2.0);
    let row = |parameters: &str| {
        OpCase::new("attention", parameters)
            .configured(peers::upper_left(&PLAIN))
            .input(any())
            .input(any())
            .input(any())
            .f32_limit(3e-6, 2e-6)
            .grad_roundings(2)
            .run(|x| x[0].scaled_dot_product_attention(&x[1], &x[2], options(x.get(3))))
            .oracle(|x| definition(&MASKED, &with_causal_mask(x)).0)
            .rounded_oracle(|round, x| output_with_rounded_weights(round, &MASKED, &with_causal_mask(x)).0)
            .rounded_gradients(|round, x, dy| rounded_gradients(round, &MASKED, &with_causal_mask(x), &dy[0]))
    };
    vec![
        row("causal upper left")
            .on([&[1, 2, 5, 3], &[1, 2, 3, 3], &[1, 2, 3, 4]])
            .on([&[2, 1, 2, 3], &[2, 1, 6, 3], &[2, 1, 6, 2]])
            .on([&[1, 2, 4, 3], &[1, 1, 4, 3], &[1, 1, 4, 3]])
            .on([&[1, 1, 70, 4], &[1, 1, 140, 4], &[1, 1, 140, 4]])
            .rejects(
                "attention: an upper-left causal window of 2 queries and 3 keys, expected as many of both, or lower-right",
                |device| {
                    let [q, k] = [[1, 1, 2, 1], [1, 1, 3, 1]].map(|shape| Tensor::zeros(shape, F32, device));
                    let k = k?;
                    q?.scaled_dot_product_attention(&k, &k, AttentionOptions { window: Some(1), ..options(None) })
                },
            ),
        row("causal upper left, mask")
            .input(any())
            .on([&[1, 2, 5, 3], &[1, 2, 3, 3], &[1, 2, 3, 4], &[1, 2, 5, 3]])
            .on([&[2, 1, 2, 3], &[2, 1, 6, 3], &[2, 1, 6, 2], &[2, 1, 2, 6]]),
    ]
}

fn options(mask: Option<&Tensor>) -> AttentionOptions<'_> {
    AttentionOptions { causal: Causal::UpperLeft, scale: Some(PLAIN.scale), mask, ..Default::default() }
}

/// Returns queries, keys and values, and the causal mask that is added to their scores.
fn with_causal_mask(x: &[Array]) -> Vec<Array> {
    [&x[..3], &[causal_mask(&x[0], &x[1], x.get(3))]].concat()
}

/// Returns the tensor that is added to the scores: -infinity if the key is after the query,
/// otherwise the element of the mask.
fn causal_mask(q: &Array, k: &Array, mask: Option<&Array>) -> Array {
    let ([batch, heads, queries, _], [_, _, keys, _]) = (q.sizes(), k.sizes());
    let added = |at: usize| match at % keys > at / keys % queries {
        true => f64::NEG_INFINITY,
        false => mask.map_or(0.0, |mask| mask.data[at]),
    };
    Array::new(&[batch, heads, queries, keys], (0..batch * heads * queries * keys).map(added).collect())
}
