//! Attention in f32 in a scope that forbids bf16x6 (each f32 product as six bf16 products on tensor
//! cores): every device computes it by FMA, even if bf16x6 is its default.

use super::dropout::dropped;
use super::{PLAIN, attention};
use crate::prelude::*;
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{AttentionOptions, Causal, Precision, with_precision};

/// Each kind of mask, with a head_dim small enough for bf16x6.
pub(super) fn rows() -> Vec<OpCase> {
    let window = AttentionConfig { causal: true, window: Some(60), ..PLAIN };
    let default_shapes: [&'static [usize]; 3] = [&[2, 3, 4, 5], &[2, 3, 6, 5], &[2, 3, 6, 4]];
    let beyond_a_block: [&'static [usize]; 3] = [&[1, 2, 70, 3], &[1, 1, 140, 3], &[1, 1, 140, 2]];
    let wide: [&'static [usize]; 3] = [&[1, 2, 5, 64], &[1, 1, 9, 64], &[1, 1, 9, 48]];
    let on_all = |case: OpCase| case.on(default_shapes).on(beyond_a_block).on(wide);
    let [q, k, v] = default_shapes;
    vec![
        on_all(row("ieee", PLAIN)).double_backward(),
        on_all(row("ieee causal window=60", window)),
        on_all(row("ieee dropout=0.3", dropped(0.3, PLAIN))),
        row("ieee bool mask", PLAIN).input(Input::bool()).on([q, k, v, &[2, 3, 4, 6]]),
        row("ieee additive mask", PLAIN).input(Uniform(-2.0, 2.0)).on([q, k, v, &[1, 3, 4, 6]]),
    ]
}

fn row(parameters: &str, config: AttentionConfig) -> OpCase {
    attention(parameters, config).dtypes(&[F32]).run(move |x| {
        let AttentionConfig { scale, causal, window, dropout, .. } = config;
        let dropout = dropout.map_or(0.0, |dropout| dropout.p);
        let options =
            AttentionOptions { mask: x.get(3), causal: Causal::lower_right(causal), window, scale: Some(scale), dropout };
        with_precision(Precision::Ieee, || x[0].scaled_dot_product_attention(&x[1], &x[2], options))
    })
}
