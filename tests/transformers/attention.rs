//! Attention: compared with PyTorch's, with masks, with grouped-query attention, with a KV cache.

use super::{check, check_layer, device, reference};
use crate::layer::on_each_device;
use crate::pytorch::{assert_close, tensor_of};
use std::sync::Arc;
use ternion::Causal;
use ternion::nn::{
    AttentionMask, FeedForwardKind, KeyValueCache, MultiHeadAttention, MultiHeadAttentionConfig, NormKind,
    TransformerBlock, TransformerBlockConfig,
    position::{Rotary, RotaryConfig},
};
use ternion::prelude::*;

#[test]
fn attention_equals_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("attention", &MultiHeadAttention::new(8, 2, device)?)?;
        let attention = MultiHeadAttention::new(8, 2, device)?;
        check("attention_causal", &attention, |x| {
            attention.attend_self(&x[0], AttentionMask::causal(), None)
        })?;
        let config = MultiHeadAttentionConfig { bias: false, ..Default::default() };
        check_layer("attention_without_bias", &MultiHeadAttention::with_config(8, 2, config, device)?)?;
        let all = reference();
        let tokens = all["layers"]["cross_attention"]["tokens"].as_array().expect("tokens");
        let tokens: Vec<bool> =
            tokens.iter().flat_map(|row| row.as_array().expect("a row")).map(|x| x == true).collect();
        let tokens = Tensor::from_vec(tokens, [2, 4], device)?;
        let attention = MultiHeadAttention::new(8, 4, device)?;
        let attention_mask = AttentionMask { key_mask: Some(&tokens), ..Default::default() };
        check("cross_attention", &attention, |x| attention.attend(&x[0], &x[1], &x[2], attention_mask))
    })
}

#[test]
fn grouped_query_attention_equals_pytorch() -> Result<()> {
    on_each_device(|device| {
        let attention = shared(4, 2, device)?;
        check_layer("grouped_query_attention", &attention)?;
        check("grouped_query_attention_causal", &attention, |x| {
            attention.attend_self(&x[0], AttentionMask::causal(), None)
        })
    })
}

/// Creates attention with `heads` query heads of head_dim 2.
fn shared(heads: usize, kv_heads: usize, device: &Device) -> Result<MultiHeadAttention> {
    let config = MultiHeadAttentionConfig { kv_heads: Some(kv_heads), ..Default::default() };
    MultiHeadAttention::with_config(2 * heads, heads, config, device)
}

/// Name in the reference, query heads, key heads, dtype of the mask.
const MASKED: [(&str, usize, usize, DType); 4] = [
    ("attention_masked", 2, 2, DType::Bool),
    ("attention_added", 2, 2, DType::F32),
    ("grouped_query_attention_masked", 4, 2, DType::Bool),
    ("grouped_query_attention_added", 4, 2, DType::F32),
];

/// Returns a mask of shape `[4, 4]` or `[2, heads, 4, 4]`.
fn mask_of(name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
    tensor_of(&reference()["layers"][name]["mask"], device).to_dtype(dtype)
}

#[test]
fn masked_attention_equals_pytorch() -> Result<()> {
    on_each_device(|device| {
        for (name, heads, kv_heads, dtype) in MASKED {
            let attention = shared(heads, kv_heads, device)?;
            let mask = mask_of(name, dtype, device)?;
            let attention_mask = AttentionMask { mask: Some(&mask), ..Default::default() };
            check(name, &attention, |x| attention.attend_self(&x[0], attention_mask, None))?;
        }
        Ok(())
    })
}

/// The last two tokens attend to the cached keys as they do when all tokens are processed at once.
#[test]
fn masks_apply_to_cached_keys() -> Result<()> {
    on_each_device(|device| {
        let all = reference();
        for (name, heads, kv_heads, dtype) in MASKED {
            let case = &all["layers"][name];
            let attention = shared(heads, kv_heads, device)?;
            for (key, param) in attention.named_parameters() {
                param.set(&tensor_of(&case["parameters"][&key], device))?;
            }
            let x = tensor_of(&case["inputs"][0], device);
            let mask = mask_of(name, dtype, device)?.narrow(-2, 2, 2)?;
            let mut cache = KeyValueCache::new(4);
            let last = no_grad(|| {
                attention.attend_self(&x.narrow(1, 0, 2)?, AttentionMask::default(), Some(&mut cache))?;
                let attention_mask = AttentionMask { mask: Some(&mask), ..Default::default() };
                attention.attend_self(&x.narrow(1, 2, 2)?, attention_mask, Some(&mut cache))
            })?;
            let first = tensor_of(&case["output"], device).narrow(1, 0, 2)?;
            assert_close(name, &Tensor::concat(&[&first, &last], 1)?, &case["output"]);
        }
        Ok(())
    })
}

/// A key mask combined with a mask excludes its keys for every query, like a single mask that
/// excludes them.
#[test]
fn key_masks_and_masks_are_combined() -> Result<()> {
    on_each_device(|device| {
        for (name, heads, kv_heads, dtype) in MASKED {
            let attention = shared(heads, kv_heads, device)?;
            // Every query attends to key 1 or key 2.
            let tokens =
                Tensor::from_slice(&[true, true, true, false, false, true, true, true], [2, 4], device)?;
            let both = mask_of(name, dtype, device)?.expand([2, heads, 4, 4])?;
            let mut values = both.to_vec_f64()?;
            let hidden = if dtype == DType::Bool { 0.0 } else { f64::NEG_INFINITY };
            for (at, value) in values.iter_mut().enumerate() {
                let (example, key) = (at / (heads * 16), at % 4);
                if [(0, 3), (1, 0)].contains(&(example, key)) {
                    *value = hidden;
                }
            }
            let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
            let merged = Tensor::from_vec(values, [2, heads, 4, 4], device)?.to_dtype(dtype)?;
            let x = Tensor::randn([2, 4, 2 * heads], DType::F32, device)?;
            let attend = |attention_mask| attention.attend_self(&x, attention_mask, None)?.to_vec::<f32>();
            let (mask, combined) = (Some(&both), Some(&merged));
            let separate_masks =
                attend(AttentionMask { key_mask: Some(&tokens), mask, ..Default::default() })?;
            assert_eq!(
                separate_masks,
                attend(AttentionMask { mask: combined, ..Default::default() })?,
                "{name}"
            );
            assert_ne!(
                separate_masks,
                attend(AttentionMask { mask, ..Default::default() })?,
                "{name}: nothing was hidden"
            );
        }
        Ok(())
    })
}

#[test]
fn a_cache_rejects_what_it_cannot_store() -> Result<()> {
    let device = device();
    let attention = MultiHeadAttention::new(8, 2, &device)?;
    let mut cache = KeyValueCache::new(3);
    let tokens = |count| Tensor::ones([1, count, 8], DType::F32, &device);
    let message =
        attention.attend_self(&tokens(2)?, AttentionMask::causal(), Some(&mut cache)).expect_err("gradients");
    assert_eq!(
        message.to_string(),
        "key_value_cache: no gradient flows through what is kept: generate under no_grad"
    );
    no_grad(|| {
        attention.attend_self(&tokens(2)?, AttentionMask::causal(), Some(&mut cache))?;
        let message = attention
            .attend_self(&tokens(2)?, AttentionMask::causal(), Some(&mut cache))
            .expect_err("4 tokens");
        assert_eq!(message.to_string(), "key_value_cache: 2 tokens behind 2, expected at most 3 in all");
        assert_eq!((cache.len(), cache.capacity(), cache.is_empty()), (2, 3, false));
        cache.clear();
        attention.attend_self(&tokens(3)?, AttentionMask::causal(), Some(&mut cache)).map(drop)
    })
}

/// Query heads that share keys equal heads with separate copies of the keys.
#[test]
fn shared_heads_are_copies() -> Result<()> {
    on_each_device(|device| {
        let shared = MultiHeadAttentionConfig { kv_heads: Some(2), ..Default::default() };
        let shared = MultiHeadAttention::with_config(8, 4, shared, device)?;
        let own = MultiHeadAttention::new(8, 4, device)?;
        let parts = shared.in_proj_weight.tensor().split_sizes(0, &[8, 4, 4])?;
        let repeated = |part: &Tensor| part.reshape([2, 1, 2, 8])?.expand([2, 2, 2, 8])?.reshape([8, 8]);
        let (keys, values) = (repeated(&parts[1])?, repeated(&parts[2])?);
        own.in_proj_weight.set(&Tensor::concat(&[&parts[0], &keys, &values], 0)?)?;
        own.out_proj.weight.set(&shared.out_proj.weight.tensor())?;
        let x = Tensor::randn([2, 5, 8], DType::F32, device)?;
        let (one, other) = (shared.forward(&x)?.to_vec::<f32>()?, own.forward(&x)?.to_vec::<f32>()?);
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-6));
        Ok(())
    })
}

/// Dropout: the mean over many samples is attention without dropout, single samples differ, and in
/// evaluation mode nothing is dropped.
#[test]
fn attention_drops_weights_in_training_mode_only() -> Result<()> {
    let device = device();
    device.seed(11);
    let config = MultiHeadAttentionConfig { dropout: 0.3, ..Default::default() };
    let attention = MultiHeadAttention::with_config(8, 2, config, &device)?;
    let x = Tensor::randn([1, 6, 8], DType::F32, &device)?;
    let many = x.expand([4000, 6, 8])?;
    let mean = attention.attend_self(&many, AttentionMask::causal(), None)?.mean(0)?.to_vec::<f32>()?;
    let one = attention.attend_self(&x, AttentionMask::causal(), None)?.to_vec::<f32>()?;
    attention.eval();
    let used = attention.attend_self(&x, AttentionMask::causal(), None)?.to_vec::<f32>()?;
    let distance = |other: &[f32]| used.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(distance(&mean) < 0.05, "{}", distance(&mean));
    assert!(distance(&one) > 0.05, "{}", distance(&one));
    Ok(())
}

/// Concatenated sequences attend like each sequence by itself, with rotary embeddings by the
/// position within the sequence. The same holds for gradients.
#[test]
fn concatenated_sequences_attend_like_separate_ones() -> Result<()> {
    on_each_device(|device| {
        let rotary = Rotary::new(6, 4, RotaryConfig::default())?;
        let config = MultiHeadAttentionConfig {
            kv_heads: Some(1),
            rotary: Some(Arc::new(rotary)),
            ..Default::default()
        };
        let attention = MultiHeadAttention::with_config(8, 2, config, device)?;
        let numbers: Vec<f32> = (0..9 * 8).map(|at| ((at * 29 % 17) as f32 - 8.0) / 8.0).collect();
        let input = Tensor::from_vec(numbers, [9, 8], device)?.requires_grad()?;
        let ends = [0_i32, 2, 2, 8, 9];
        let lengths = Tensor::from_slice(&ends, [5], device)?;
        for attention_mask in [
            AttentionMask::default(),
            AttentionMask::causal(),
            AttentionMask { window: Some(2), ..AttentionMask::causal() },
        ] {
            let packed = attention.attend_self_varlen(&input, &lengths, attention_mask)?;
            let separate =
                each_separately(&input, &ends, |rows| attention.attend_self(rows, attention_mask, None))?;
            assert_near("sequences", &packed, &separate)?;
            let gradient = |y: &Tensor| -> Result<Tensor> {
                let gradients = y.mul(y)?.sum(..)?.backward()?;
                Ok(gradients.get(&input).expect("a gradient").clone())
            };
            assert_near("gradients", &gradient(&packed)?, &gradient(&separate)?)?;
        }
        let mask = Tensor::zeros([9, 9], DType::Bool, device)?;
        let attention_mask = AttentionMask { mask: Some(&mask), ..Default::default() };
        let error = attention.attend_self_varlen(&input, &lengths, attention_mask).expect_err("a mask");
        assert_eq!(error.to_string(), "attention: a mask with sequences of different lengths, expected none");
        Ok(())
    })
}

/// Returns the output of a layer for each sequence, `[1, length, width]`, by itself.
fn each_separately(
    input: &Tensor,
    ends: &[i32],
    layer: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let separate = ends.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| {
        let rows = input.narrow(0, pair[0] as usize, (pair[1] - pair[0]) as usize)?;
        layer(&rows.unsqueeze(0)?)?.squeeze(0)
    });
    let separate = separate.collect::<Result<Vec<_>>>()?;
    Tensor::concat(&separate.iter().collect::<Vec<_>>(), 0)
}

/// For blocks of each kind: the outputs of two consecutive blocks for the rows of all sequences
/// equal those for each sequence. The gradients of the input and of all parameters are also equal.
#[test]
fn blocks_process_concatenated_sequences() -> Result<()> {
    on_each_device(|device| {
        for (feed_forward, norm) in
            [(FeedForwardKind::GELU, NormKind::LayerNorm), (FeedForwardKind::SwiGLU, NormKind::RMSNorm)]
        {
            let rotary = Some(Arc::new(Rotary::new(6, 4, RotaryConfig::default())?));
            let config = TransformerBlockConfig {
                kv_heads: Some(1),
                feed_forward,
                norm,
                rotary,
                ..Default::default()
            };
            let blocks = [0, 1].map(|_| TransformerBlock::new(8, 2, config.clone(), device));
            let blocks = blocks.into_iter().collect::<Result<Vec<_>>>()?;
            let numbers: Vec<f32> = (0..9 * 8).map(|at| ((at * 29 % 17) as f32 - 8.0) / 8.0).collect();
            let input = Tensor::from_vec(numbers, [9, 8], device)?.requires_grad()?;
            for attention_mask in [
                AttentionMask::default(),
                AttentionMask::causal(),
                AttentionMask { window: Some(2), ..AttentionMask::causal() },
            ] {
                check_blocks(&blocks, &input, attention_mask)?;
            }
        }
        Ok(())
    })
}

fn check_blocks(
    blocks: &[TransformerBlock],
    input: &Tensor,
    attention_mask: AttentionMask<'_>,
) -> Result<()> {
    let ends = [0_i32, 2, 2, 8, 9];
    let lengths = Tensor::from_slice(&ends, [5], input.device())?;
    let through = |x: &Tensor, block: &dyn Fn(&TransformerBlock, &Tensor) -> Result<Tensor>| {
        blocks.iter().try_fold(x.clone(), |x, each| block(each, &x))
    };
    let packed = through(input, &|block, x| block.forward_varlen(x, &lengths, attention_mask))?;
    let separate = each_separately(input, &ends, |rows| {
        through(rows, &|block, x| block.forward_masked(x, attention_mask, None))
    })?;
    assert_near("rows", &packed, &separate)?;
    let parameters: Vec<Tensor> =
        blocks.iter().flat_map(|block| block.parameters()).map(|param| param.tensor()).collect();
    let gradients = |y: &Tensor| -> Result<Vec<Tensor>> {
        let found = y.mul(y)?.sum(..)?.backward()?;
        let of = |leaf: &Tensor| found.get(leaf).expect("a gradient").clone();
        Ok(parameters.iter().chain([input]).map(of).collect())
    };
    for (found, expected) in gradients(&packed)?.iter().zip(&gradients(&separate)?) {
        let scale = expected.abs()?.max(..)?.to_vec_f64()?[0].max(1.0);
        assert_near("gradients", &found.div_scalar(scale)?, &expected.div_scalar(scale)?)?;
    }
    Ok(())
}

/// In training mode the outputs for several sequences and for one are dropped by the same random
/// numbers.
#[test]
fn blocks_drop_in_concatenated_sequences() -> Result<()> {
    let device = device();
    let config = TransformerBlockConfig { dropout: 0.4, ..Default::default() };
    let block = TransformerBlock::new(8, 2, config, &device)?;
    let input = Tensor::randn([6, 8], DType::F32, &device)?;
    let lengths = Tensor::from_slice(&[0_i32, 6], [2], &device)?;
    device.seed(3);
    let packed = block.forward_varlen(&input, &lengths, AttentionMask::causal())?;
    device.seed(3);
    let separate = block.forward_masked(&input.unsqueeze(0)?, AttentionMask::causal(), None)?.squeeze(0)?;
    assert_near("dropped", &packed, &separate)?;
    block.eval();
    let used = block.forward_varlen(&input, &lengths, AttentionMask::causal())?;
    assert_ne!(used.to_vec::<f32>()?, packed.to_vec::<f32>()?, "nothing was dropped");
    Ok(())
}

#[test]
fn blocks_reject_options_that_varlen_lacks() -> Result<()> {
    let device = device();
    let block = TransformerBlock::new(8, 2, TransformerBlockConfig::default(), &device)?;
    let input = Tensor::ones([4, 8], DType::F32, &device)?;
    let lengths = Tensor::from_slice(&[0_i32, 4], [2], &device)?;
    let mask = Tensor::zeros([4, 4], DType::Bool, &device)?;
    let masked = AttentionMask { mask: Some(&mask), ..Default::default() };
    let upper_left = AttentionMask { causal: Causal::UpperLeft, ..Default::default() };
    let wide = lengths.to_dtype(DType::I64)?;
    for (lengths, attention_mask, message) in [
        (&lengths, masked, "attention: a mask with sequences of different lengths, expected none"),
        (
            &lengths,
            upper_left,
            "attention: upper-left causal sequences of different lengths, expected lower-right",
        ),
        (&wide, AttentionMask::default(), "attention: cu_seqlens_q is i64, expected i32"),
    ] {
        let error = block.forward_varlen(&input, lengths, attention_mask).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let error = block.forward_varlen(&input.unsqueeze(0)?, &lengths, AttentionMask::default());
    let message = "attention: expected 2 axes, got shape [1, 4, 8]";
    assert_eq!(error.expect_err(message).to_string(), message);
    Ok(())
}

pub(crate) fn assert_near(what: &str, found: &Tensor, expected: &Tensor) -> Result<()> {
    let (found, expected) = (found.to_vec_f64()?, expected.to_vec_f64()?);
    let near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 1e-5 * (1.0 + expected.abs());
    assert_eq!(found.len(), expected.len(), "{what}");
    assert!(found.iter().zip(&expected).all(near), "{what}: {found:?}, expected {expected:?}");
    Ok(())
}
