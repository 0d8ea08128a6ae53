//! Layers of transformers, and others that are not in tests/layers.rs, against PyTorch 2.11:
//! tests/reference/transformers.json, written by tests/reference/transformers.py. Also consequences
//! of the layers: generation with and without a KV cache, masks, grouped-query attention.

#[path = "support/reference.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod pytorch;

#[path = "transformers/attention.rs"]
mod attention;
#[path = "support/layer.rs"]
mod layer;
#[path = "transformers/log_sum_exp.rs"]
mod log_sum_exp;
#[path = "transformers/loss.rs"]
mod loss;

use layer::{LayerCase, on_each_device};
use pytorch::{assert_close, numbers, tensor_in, tensor_of};
use serde_json::Value;
use std::sync::Arc;
use ternion::nn::position::{Rotary, RotaryConfig, RotaryLayout, sinusoidal};
use ternion::nn::{
    AttentionMask, Conv1dConfig, ConvTranspose2dConfig, EmbeddingConfig, FeedForward, FeedForwardConfig,
    FeedForwardKind, GPT, GPTConfig, GPTPositions, GroupNorm, MultiHeadAttention, MultiHeadAttentionConfig,
    NormKind, RMSNormConfig, RecurrentConfig, ResNetConfig, Sampling, TransformerBlock,
    TransformerBlockConfig, Upsample, UpsampleMode, UpsampleSize,
};
use ternion::prelude::*;
use ternion::{Conv1dOptions, ConvTranspose2dOptions, PoolOptions};

fn reference() -> Value {
    serde_json::from_str(include_str!("reference/transformers.json")).expect("transformers.json is JSON")
}

fn device() -> Device {
    ternion_cpu::device()
}

/// Checks a layer on the device that holds its parameters.
fn check(name: &str, layer: &impl Module, compute: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    let device = layer.parameters().first().expect("a layer with parameters").device();
    let values = &reference()["layers"][name];
    LayerCase { name, values, gradient_error: 5e-6, device: &device }.check(layer, compute)
}

fn check_layer(name: &str, layer: &impl Forward) -> Result<()> {
    check(name, layer, |x| layer.forward(&x[0]))
}

/// Checks a layer that has no parameters.
fn check_function(name: &str, layer: &impl Forward, device: &Device) -> Result<()> {
    let values = &reference()["layers"][name];
    LayerCase { name, values, gradient_error: 5e-6, device }.check(layer, |x| layer.forward(&x[0]))
}

#[test]
fn norms_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let config = RMSNormConfig { eps: Some(1e-5), ..Default::default() };
        check_layer("rms_norm", &RMSNorm::with_config(5, config, device)?)?;
        check_layer("group_norm", &GroupNorm::new(2, 4, device)?)?;
        check_layer("batch_norm1d", &BatchNorm1d::new(3, device)?)?;
        check_layer("batch_norm1d_sequence", &BatchNorm1d::new(3, device)?)
    })
}

#[test]
fn convolutions_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("conv1d", &Conv1d::new(2, 3, 3, device)?)?;
        let options = Conv1dOptions { stride: 2, padding: 1, dilation: 2, groups: 2 };
        let config = Conv1dConfig { options, ..Default::default() };
        check_layer("conv1d_general", &Conv1d::with_config([4, 2], 2, config, device)?)?;
        check_layer("conv_transpose2d", &ConvTranspose2d::new(2, 3, [2, 2], device)?)?;
        let options = ConvTranspose2dOptions {
            stride: [2, 3],
            padding: [1, 0],
            output_padding: [1, 2],
            groups: 2,
            ..Default::default()
        };
        let config = ConvTranspose2dConfig { options, ..Default::default() };
        check_layer(
            "conv_transpose2d_general",
            &ConvTranspose2d::with_config([4, 2], [3, 2], config, device)?,
        )
    })
}

#[test]
fn other_sizes_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_function("adaptive_avg_pool2d", &AdaptiveAvgPool2d::new([2, 3]), device)?;
        check_function("upsample_nearest", &Upsample::times(2.0), device)?;
        check_function("upsample_nearest_to", &Upsample::to([5, 4]), device)?;
        check_function("upsample_bilinear", &Upsample::times(2.0).bilinear(false), device)?;
        check_function("upsample_bilinear_to", &Upsample::to([5, 3]).bilinear(false), device)?;
        check_function("upsample_bilinear_corners", &Upsample::to([5, 4]).bilinear(true), device)
    })
}

/// With PyTorch's sizes and positions, and its three cases in which a factor is treated as a size.
#[test]
fn sizes_by_fractions_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let corners = |align_corners| UpsampleMode::Bilinear { align_corners };
        for (name, factors, mode) in [
            ("upsample_nearest_fraction", [0.6, 1.5], UpsampleMode::Nearest),
            ("upsample_nearest_doubled", [2.4, 1.3], UpsampleMode::Nearest),
            ("upsample_bilinear_fraction", [0.6, 1.5], corners(false)),
            ("upsample_bilinear_doubled", [2.4, 1.3], corners(false)),
            ("upsample_bilinear_fraction_corners", [1.5, 1.5], corners(true)),
        ] {
            check_function(name, &Upsample { size: UpsampleSize::Times(factors), mode }, device)?;
        }
        let message_of = |factor: f64| {
            let image = Tensor::zeros([1, 1, 2, 3], DType::F32, device)?;
            Ok::<_, Error>(Upsample::times(factor).forward(&image).expect_err("no size").to_string())
        };
        assert_eq!(message_of(0.4)?, "interpolate: an image of [1, 2, 3] to [0, 1]");
        assert_eq!(message_of(-1.5)?, "interpolate: a factor of -1.5, expected a finite number above 0");
        assert_eq!(message_of(f64::NAN)?, "interpolate: a factor of NaN, expected a finite number above 0");
        assert_eq!(
            message_of(f64::INFINITY)?,
            "interpolate: a factor of inf, expected a finite number above 0"
        );
        Ok(())
    })
}

/// Positions in f64 images are f64: those of f32 are off by 1e-7 of an element.
#[test]
fn images_of_f64_keep_their_accuracy() -> Result<()> {
    let device = ternion::cpu()?;
    let row = [0.3, -1.7, 2.9, 0.1, 5.0];
    let image = Tensor::from_slice(&row, [1, 1, 1, 5], &device)?;
    let wider = Upsample { size: UpsampleSize::Times([1.0, 1.7]), ..Upsample::times(1.0).bilinear(false) };
    let found = wider.forward(&image)?.to_vec::<f64>()?;
    assert_eq!(found.len(), 8);
    for (at, found) in found.into_iter().enumerate() {
        let position = ((at as f64 + 0.5) / 1.7 - 0.5).max(0.0);
        let low = position as usize;
        let expected = row[low] + (position - low as f64) * (row[(low + 1).min(4)] - row[low]);
        assert!((found - expected).abs() <= 1e-14, "element {at}: {found}, expected {expected}");
    }
    Ok(())
}

#[test]
fn pools_keep_the_last_windows_that_pytorchs_keep() -> Result<()> {
    on_each_device(|device| {
        let options = |kernel, stride| PoolOptions {
            stride: [stride; 2],
            ceil_mode: true,
            ..PoolOptions::new([kernel; 2])
        };
        let bordered = PoolOptions { padding: [1, 1], ..options(3, 2) };
        check_function("max_pool2d_ceil", &MaxPool2d::with_options(bordered), device)?;
        check_function("max_pool2d_ceil_dropped", &MaxPool2d::with_options(options(2, 3)), device)?;
        check_function("max_pool2d_ceil_larger", &MaxPool2d::with_options(options(3, 2)), device)?;
        check_function("avg_pool2d_ceil", &AvgPool2d::with_options(bordered), device)?;
        let inside = PoolOptions { count_include_pad: false, ..bordered };
        check_function("avg_pool2d_ceil_without_border", &AvgPool2d::with_options(inside), device)?;

        let case = &reference()["layers"]["max_pool2d_ceil"];
        let after = tensor_of(&case["stepped"]["0"], device);
        let (_, positions) = after.max_pool2d_with_positions(bordered)?;
        let expected: Vec<Vec<Vec<Vec<i32>>>> =
            serde_json::from_value(case["positions"].clone()).expect("positions");
        let expected: Vec<i32> = expected.into_iter().flatten().flatten().flatten().collect();
        assert_eq!(positions.to_vec::<i32>()?, expected);
        let message = Tensor::zeros([1, 1, 2, 2], DType::F32, device)?.max_pool2d(options(4, 2));
        assert_eq!(
            message.expect_err("too far beyond").to_string(),
            "max_pool2d: window [4, 4] with dilation [1, 1] is larger than image [2, 2] with padding [0, 0]"
        );
        let wide = PoolOptions { padding: [2, 2], ..options(3, 2) };
        let message = Tensor::zeros([1, 1, 6, 6], DType::F32, device)?.avg_pool2d(wide);
        assert_eq!(
            message.expect_err("windows of only padding").to_string(),
            "avg_pool2d: padding [2, 2] is more than half of kernel [3, 3]"
        );
        Ok(())
    })
}

#[test]
fn embeddings_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let all = reference();
        let indices = tokens_of(&all["layers"]["embedding"]["indices"], device)?;
        let table = Embedding::new(5, 3, device)?;
        check("embedding", &table, |_| table.forward(&indices))?;
        let padding = EmbeddingConfig { padding_idx: Some(2), ..Default::default() };
        let table = Embedding::with_config(5, 3, padding, device)?;
        let rows = table.weight.tensor().to_vec::<f32>()?;
        assert!(rows[6..9] == [0.0; 3] && rows.iter().filter(|x| **x == 0.0).count() == 3, "{rows:?}");
        check("embedding_padded", &table, |_| table.forward(&indices))?;
        let narrow = indices.to_dtype(DType::I32)?;
        check("embedding_padded", &table, |_| table.forward(&narrow))?;
        let padding = EmbeddingConfig { padding_idx: Some(5), ..Default::default() };
        let message = Embedding::with_config(5, 3, padding, device).expect_err("row 5 of 5").to_string();
        assert_eq!(message, "embedding: padding_idx 5 of 5 rows");
        Ok(())
    })
}

#[test]
fn gated_feed_forward_layers_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let config =
            FeedForwardConfig { kind: FeedForwardKind::SwiGLU, hidden: Some(6), ..Default::default() };
        check_layer("swiglu", &FeedForward::new(4, config, device)?)
    })
}

/// With rows so small that the epsilon matters: PyTorch uses that of the dtype in which it
/// computes.
#[test]
fn rms_norms_without_eps_use_pytorchs() -> Result<()> {
    let all = reference();
    let check = |name: &str, dtype: DType, share: f64, device: &Device| {
        let case = &all["rms_norm_without_eps"][name];
        let config = RMSNormConfig { dtype, ..Default::default() };
        let norm = RMSNorm::with_config(4, config, device)?;
        let output = norm.forward(&tensor_in(&case["input"], dtype, device))?.to_vec_f64()?;
        for (got, want) in output.into_iter().zip(numbers(&case["output"])) {
            assert!((got - want).abs() <= share * want.abs(), "{name}: got {got}, PyTorch has {want}");
        }
        Ok(())
    };
    on_each_device(|device| check("f32", DType::F32, 1e-6, device))?;
    check("f64", DType::F64, 1e-7, &device())?;
    // The last digit may be rounded the other way.
    check("f16", DType::F16, 2f64.powi(-10), &device())?;
    check("bf16", DType::BF16, 2f64.powi(-7), &device())
}

/// Concatenates the outputs, then the last states.
fn concatenate(tensors: &[&Tensor]) -> Result<Tensor> {
    let flat =
        tensors.iter().map(|tensor| tensor.reshape([tensor.elements()])).collect::<Result<Vec<_>>>()?;
    Tensor::concat(&flat.iter().collect::<Vec<_>>(), 0)
}

#[test]
fn recurrent_layers_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let deep = RecurrentConfig { layers: 2, bidirectional: true, ..Default::default() };
        for (name, config) in [("lstm", RecurrentConfig::default()), ("lstm_deep", deep)] {
            let lstm = LSTM::with_config(3, 2, config, device)?;
            check(name, &lstm, |x| {
                let (output, [h, c]) = lstm.run(&x[0], Some([&x[1], &x[2]]))?;
                concatenate(&[&output, &h, &c])
            })?;
        }
        let bare = RecurrentConfig { layers: 2, bias: false, ..Default::default() };
        for (name, config) in [("gru", RecurrentConfig::default()), ("gru_without_bias", bare)] {
            let gru = GRU::with_config(3, 2, config, device)?;
            check(name, &gru, |x| {
                let (output, h) = gru.run(&x[0], Some(&x[1]))?;
                concatenate(&[&output, &h])
            })?;
        }
        let lstm = LSTM::new(3, 2, device)?;
        let x = Tensor::randn([2, 5, 3], DType::F32, device)?;
        let parts = [x.narrow(1, 0, 2)?, x.narrow(1, 2, 3)?];
        let (first, [h, c]) = lstm.run(&parts[0], None)?;
        let (second, _) = lstm.run(&parts[1], Some([&h, &c]))?;
        let parts = Tensor::concat(&[&first, &second], 1)?.to_vec::<f32>()?;
        assert_eq!(parts, lstm.forward(&x)?.to_vec::<f32>()?, "states carry over");
        let message = lstm.run(&x, Some([&c.narrow(1, 0, 1)?, &c])).expect_err("a batch of 1").to_string();
        assert_eq!(message, "lstm: a state of shape [1, 1, 2], expected [1, 2, 2]");
        let message = lstm.forward(&x.narrow(1, 0, 0)?).expect_err("no element").to_string();
        assert_eq!(message, "lstm: a sequence of length 0, expected at least 1");
        Ok(())
    })
}

#[test]
fn residual_networks_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let config = ResNetConfig { classes: 3, blocks: vec![1, 1], width: 2, ..Default::default() };
        check_layer("resnet", &ResNet::new(config, device)?)
    })?;
    // ResNet-18 for 10 classes: the usual parameter count of the variant for small images.
    assert_eq!(ResNet::new(ResNetConfig::default(), &device())?.parameter_count(), 11_173_962);
    let config = ResNetConfig { blocks: vec![1, 0], ..Default::default() };
    let message = ResNet::new(config, &device()).err().expect("no block").to_string();
    assert_eq!(message, "resnet: stages of [1, 0] blocks, width 64: expected at least 1 of each");
    Ok(())
}

#[test]
fn blocks_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let config = TransformerBlockConfig { hidden: Some(16), ..Default::default() };
        let block = TransformerBlock::new(8, 2, config, device)?;
        check_layer("block", &block)?;
        check("block_causal", &block, |x| block.forward_masked(&x[0], AttentionMask::causal(), None))?;
        let config = TransformerBlockConfig {
            kv_heads: Some(2),
            hidden: Some(4),
            feed_forward: FeedForwardKind::SwiGLU,
            norm: NormKind::RMSNorm,
            ..Default::default()
        };
        let block = TransformerBlock::new(8, 4, config, device)?;
        check("sharing_block", &block, |x| block.forward_masked(&x[0], AttentionMask::causal(), None))
    })
}

#[test]
fn rotary_positions_are_rotations() -> Result<()> {
    on_each_device(|device| {
        let all = reference();
        let input = tensor_of(&all["rotary"]["input"], device);
        for (name, pairs) in [("half", RotaryLayout::Half), ("interleaved", RotaryLayout::Interleaved)] {
            let rotary = Rotary::new(3, 4, RotaryConfig { pairs, ..Default::default() })?;
            assert_close(name, &rotary.forward(&input, 0)?, &all["rotary"][name]);
            let last = rotary.forward(&input.narrow(2, 2, 1)?, 2)?;
            assert_eq!(
                last.to_vec::<f32>()?,
                rotary.forward(&input, 0)?.narrow(2, 2, 1)?.contiguous()?.to_vec::<f32>()?
            );
            let message = rotary.forward(&input, 1).expect_err("position 3").to_string();
            assert_eq!(
                message,
                "rotary: 3 rows of 4 from position 1, expected rows of 4 at positions below 3"
            );
        }
        Ok(())
    })
}

/// Queries at positions 1 and 2, keys at positions 0 to 2: their scores, and the gradients of both.
#[test]
fn gradients_of_rotary_positions_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let all = reference();
        let cases = &all["rotary_scores"];
        let [q, k, cotangent] = ["q", "k", "cotangent"].map(|name| tensor_of(&cases[name], device));
        let [q, k] = [q.requires_grad()?, k.requires_grad()?];
        for (name, pairs) in [("half", RotaryLayout::Half), ("interleaved", RotaryLayout::Interleaved)] {
            let rotary = Rotary::new(3, 4, RotaryConfig { pairs, ..Default::default() })?;
            let scores = rotary.forward(&q, 1)?.matmul(&rotary.forward(&k, 0)?.transpose(2, 3)?)?;
            assert_close(&format!("scores of {name}"), &scores, &cases[name]["scores"]);
            let gradients = scores.mul(&cotangent)?.sum_all()?.backward()?;
            for (input, of) in [(&q, "grad_q"), (&k, "grad_k")] {
                let gradient = gradients.get(input).expect("a gradient");
                assert_close(&format!("{of} of {name}"), gradient, &cases[name][of]);
            }
        }
        Ok(())
    })
}

#[test]
fn sinusoidal_positions_are_those_of_the_paper() -> Result<()> {
    let table = sinusoidal(3, 4, &device())?.to_vec::<f32>()?;
    let expected =
        [0.0, 1.0, 0.0, 1.0].into_iter().chain([1.0, 2.0].into_iter().flat_map(|position: f64| {
            [position.sin(), position.cos(), (position / 100.0).sin(), (position / 100.0).cos()]
        }));
    for (got, want) in table.iter().zip(expected) {
        assert!((f64::from(*got) - want).abs() < 1e-7, "{got} {want}");
    }
    Ok(())
}

/// Returns the model of the reference, with its parameters.
fn reference_gpt(all: &Value, device: &Device) -> Result<GPT> {
    let case = &all["gpt"];
    let size = |name: &str| case["settings"][name].as_u64().expect(name) as usize;
    let config = GPTConfig {
        vocabulary: size("vocabulary"),
        context: size("context"),
        layers: size("layers"),
        heads: size("heads"),
        width: size("width"),
        ..Default::default()
    };
    let model = GPT::new(config, device)?;
    let of_case = case["parameters"].as_object().expect("parameters");
    let dict = of_case.iter().map(|(key, value)| (key.clone(), tensor_of(value, device))).collect();
    model.load_state_dict(&dict)?;
    Ok(model)
}

fn tokens_of(rows: &Value, device: &Device) -> Result<Tensor> {
    let rows = rows.as_array().expect("rows");
    let flat = rows.iter().flat_map(|row| row.as_array().expect("a row"));
    let tokens: Vec<i64> = flat.map(|token| token.as_i64().expect("a token")).collect();
    let length = tokens.len() / rows.len();
    Tensor::from_vec(tokens, [rows.len(), length], device)
}

#[test]
fn gpt_equals_pytorch() -> Result<()> {
    on_each_device(|device| {
        let all = reference();
        let (case, model) = (&all["gpt"], reference_gpt(&all, device)?);
        let logits = model.logits(&tokens_of(&case["tokens"], device)?)?;
        assert_close("logits", &logits, &case["logits"]);
        let targets = tokens_of(&case["targets"], device)?.reshape([10])?;
        let loss = logits.reshape([10, 11])?.cross_entropy(&targets)?;
        let expected = case["loss"].as_f64().expect("loss");
        assert!((loss.item_f64()? - expected).abs() < 1e-6 * expected);
        let gradients = loss.backward()?;
        let of = |param: &Param| param.gradient(&gradients).expect("a gradient").clone();
        assert_close("gradient of wte", &of(&model.wte.weight), &case["grad_wte"]);
        assert_close("gradient of in_proj", &of(&model.h[1].self_attn.in_proj_weight), &case["grad_in_proj"]);
        Ok(())
    })
}

/// Checks the losses, some parameters after the steps, and how far the steps moved each parameter.
#[test]
fn three_steps_of_gpt_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        let all = reference();
        let (case, model) = (&all["gpt"], reference_gpt(&all, device)?);
        let tokens = tokens_of(&case["tokens"], device)?;
        let targets = tokens_of(&case["targets"], device)?.reshape([10])?;
        let before = model
            .named_parameters()
            .into_iter()
            .map(|(key, param)| Ok((key, no_grad(|| param.tensor().detach().copy())?, param)));
        let before = before.collect::<Result<Vec<_>>>()?;
        let config = AdamWConfig { lr: 0.01, eps: 1e-2, ..Default::default() };
        let mut adam = AdamW::new(model.parameters(), config)?;
        let losses: Vec<f64> = serde_json::from_value(case["step_losses"].clone()).expect("losses");
        assert_eq!(losses.len(), 3);
        for expected in losses {
            let loss = model.logits(&tokens)?.reshape([10, 11])?.cross_entropy(&targets)?;
            adam.step(&loss.backward()?)?;
            assert!((loss.item_f64()? - expected).abs() < 1e-6 * expected, "{loss} {expected}");
        }
        let moved = case["moved"].as_object().expect("norms");
        assert_eq!(moved.len(), before.len());
        for (key, before, param) in &before {
            let change = no_grad(|| param.tensor().detach().sub(before))?.stats()?.norm();
            let expected = moved[key].as_f64().expect("a norm");
            assert!(
                (change - expected).abs() < 1e-5 * expected,
                "{key} moved by {change}, PyTorch's by {expected}"
            );
        }
        for (key, expected) in case["stepped"].as_object().expect("parameters") {
            let (.., param) = before.iter().find(|(name, ..)| name == key).expect("a parameter");
            assert_close(&format!("{key} after 3 steps"), &param.tensor(), expected);
        }
        Ok(())
    })
}

/// Returns models with every kind of position embedding, of norm, and of head sharing.
fn models(device: &Device) -> Result<Vec<GPT>> {
    let plain =
        GPTConfig { vocabulary: 13, context: 12, layers: 2, heads: 4, width: 16, ..Default::default() };
    let llama = GPTConfig {
        kv_heads: Some(2),
        feed_forward: FeedForwardKind::SwiGLU,
        norm: NormKind::RMSNorm,
        positions: GPTPositions::Rotary(RotaryConfig::default()),
        bias: false,
        tied: false,
        ..plain
    };
    let sinusoidal =
        GPTConfig { positions: GPTPositions::Sinusoidal, feed_forward: FeedForwardKind::ReLU, ..plain };
    [plain, llama, sinusoidal].into_iter().map(|config| GPT::new(config, device)).collect()
}

/// With a KV cache each token takes one step; the scores equal those of all tokens at once.
#[test]
fn a_kv_cache_does_not_change_the_scores() -> Result<()> {
    on_each_device(|device| {
        device.seed(5);
        for model in models(device)? {
            // Weights large enough that the choice depends on the tokens.
            for param in model.parameters() {
                param.set(&param.tensor().mul_scalar(8.0)?)?;
            }
            let generated = model.generate(
                &[3, 1, 4],
                14,
                Sampling { temperature: 0.0, ..Default::default() },
                |_| Ok(()),
            )?;
            let mut all = vec![3, 1, 4];
            no_grad(|| {
                for _ in 0..14 {
                    let seen = &all[all.len().saturating_sub(12)..];
                    let logits = model.logits(&Tensor::from_slice(seen, [1, seen.len()], device)?)?;
                    let last = logits.narrow(1, seen.len() - 1, 1)?.reshape([13])?.to_vec::<f32>()?;
                    all.push(Sampling { temperature: 0.0, ..Default::default() }.choose(&last, 0.0)? as i64);
                }
                Ok::<_, Error>(())
            })?;
            assert_eq!(generated, all[3..]);
            assert!(
                generated.windows(2).any(|pair| pair[0] != pair[1]),
                "the model says one token only: {generated:?}"
            );
        }
        Ok(())
    })
}

#[test]
fn tokens_are_chosen_by_probability() -> Result<()> {
    let logits = [1.0f32, 3.0, 2.0, f32::NEG_INFINITY];
    let sampling = Sampling::default();
    // Probabilities of tokens 1, 2 and 0: 0.665, 0.245, 0.090.
    for (chance, token) in [(0.0, 1), (0.66, 1), (0.67, 2), (0.90, 2), (0.92, 0), (0.999_999, 0)] {
        assert_eq!(sampling.choose(&logits, chance)?, token, "{chance}");
    }
    assert_eq!(Sampling { top_k: Some(2), ..sampling }.choose(&logits, 0.999)?, 2);
    assert_eq!(Sampling { top_p: Some(0.6), ..sampling }.choose(&logits, 0.999)?, 1);
    assert_eq!(Sampling { temperature: 0.0, ..sampling }.choose(&[2.0, 2.0], 0.9)?, 0);
    let message =
        |sampling: Sampling, logits: &[f32]| sampling.choose(logits, 0.5).expect_err("bad").to_string();
    assert_eq!(
        message(Sampling { temperature: -1.0, ..sampling }, &logits),
        "sampling: temperature -1, expected a finite number of at least 0"
    );
    assert_eq!(
        message(Sampling { top_k: Some(0), ..sampling }, &logits),
        "sampling: top_k 0, expected at least 1"
    );
    assert_eq!(
        message(Sampling { top_p: Some(1.5), ..sampling }, &logits),
        "sampling: top_p 1.5, expected above 0 and at most 1"
    );
    assert_eq!(
        message(sampling, &[0.0, f32::NAN]),
        "sampling: the score of token 1 is NaN, expected a finite number"
    );
    Ok(())
}

#[test]
fn mismatches_are_reported() -> Result<()> {
    let device = device();
    let message_of = |result: Result<MultiHeadAttention>| result.expect_err("bad heads").to_string();
    assert_eq!(
        message_of(MultiHeadAttention::new(10, 4, &device)),
        "multi_head_attention: width 10 does not divide into 4 heads"
    );
    let config = MultiHeadAttentionConfig { kv_heads: Some(3), ..Default::default() };
    assert_eq!(
        message_of(MultiHeadAttention::with_config(8, 4, config, &device)),
        "multi_head_attention: 4 heads of queries cannot share 3 heads of keys"
    );
    let config = GPTConfig { vocabulary: 5, context: 4, layers: 1, heads: 1, width: 4, ..Default::default() };
    let model = GPT::new(config, &device)?;
    let message =
        model.logits(&Tensor::zeros([1, 5], DType::I64, &device)?).expect_err("too long").to_string();
    assert_eq!(message, "gpt: 5 tokens behind 0, expected at most 4 in all");
    let message = model.generate(&[], 1, Sampling::default(), |_| Ok(())).expect_err("empty").to_string();
    assert_eq!(message, "generate: an empty prompt: expected at least 1 token");
    assert!(
        model
            .logits(&Tensor::full([1, 1], 5.0, DType::I64, &device)?)
            .and_then(|x| x.to_vec::<f32>())
            .is_err()
    );
    Ok(())
}

/// Only positions distinguish two orders of the same tokens. All blocks share the rotary embedding.
#[test]
fn every_kind_of_position_distinguishes_orders() -> Result<()> {
    let device = device();
    device.seed(3);
    for model in models(&device)? {
        let last = |tokens: [i64; 3]| -> Result<Vec<f32>> {
            let logits = model.logits(&Tensor::from_slice(&tokens, [1, 3], &device)?)?;
            logits.narrow(1, 2, 1)?.reshape([13])?.to_vec::<f32>()
        };
        assert_ne!(last([1, 2, 3])?, last([2, 1, 3])?);
    }
    let rotary = Arc::new(Rotary::new(8, 4, RotaryConfig::default())?);
    let config = MultiHeadAttentionConfig { rotary: Some(rotary), ..Default::default() };
    let attention = MultiHeadAttention::with_config(8, 2, config, &device)?;
    // Only distances matter: padding in front changes nothing.
    let x = Tensor::randn([1, 3, 8], DType::F32, &device)?;
    let moved = Tensor::concat(&[&Tensor::zeros([1, 4, 8], DType::F32, &device)?, &x], 1)?;
    let tokens = Tensor::from_vec(vec![false, false, false, false, true, true, true], [1, 7], &device)?;
    let seen = AttentionMask { key_mask: Some(&tokens), ..AttentionMask::causal() };
    let moved = attention.attend_self(&moved, seen, None)?.narrow(1, 4, 3)?.contiguous()?.to_vec::<f32>()?;
    let at_once = attention.attend_self(&x, AttentionMask::causal(), None)?.to_vec::<f32>()?;
    assert!(moved.iter().zip(&at_once).all(|(a, b)| (a - b).abs() < 1e-5), "{moved:?} {at_once:?}");
    Ok(())
}
