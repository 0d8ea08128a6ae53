//! Compares summaries with counts by hand, and checks that the model is left unchanged.

use ternion_core::{Conv2dOptions, DType, Device, Reduction, Result, Tensor};
use ternion_nn::{
    AvgPool2d, BatchNorm2d, Conv2d, Conv2dConfig, Dropout, Embedding, Flatten, Forward, GPT, GPTConfig,
    LayerNorm, Linear, MaxPool2d, Mlp, Module, ReLU, ResNet, ResNetConfig, Sequential, Summary, SummaryPass,
    TransformerBlock, TransformerBlockConfig, in_layer, summary, summary_of_shape, summary_with,
};

fn device() -> Device {
    let device = ternion_cpu::device();
    device.seed(5);
    device
}

fn rows(summary: &Summary) -> Vec<(&str, &str, usize, u64)> {
    let row = |layer: &'_ ternion_nn::LayerSummary| (layer.parameters, layer.flops);
    summary.layers.iter().map(|layer| (layer.key.as_str(), layer.kind, row(layer).0, row(layer).1)).collect()
}

#[test]
fn mlp_summary_equals_counts_by_hand() -> Result<()> {
    let device = device();
    let model = Mlp::new([20, 30, 7], &device)?;
    let summary = summary(&model, &Tensor::randn([16, 20], DType::F32, &device)?)?;
    // 2 for each multiply-add, and 1 for the bias.
    let expected = [
        ("layers.0", "Linear", 20 * 30 + 30, 16 * 30 * (2 * 20 + 1)),
        ("layers.1", "Linear", 30 * 7 + 7, 16 * 7 * (2 * 30 + 1)),
    ];
    assert_eq!(rows(&summary), expected);
    assert_eq!(summary.outside.flops, 16 * 30, "the ReLU between them");
    assert_eq!(summary.flops, expected[0].3 + expected[1].3 + 16 * 30);
    assert_eq!(summary.parameters, model.parameter_count());
    assert_eq!((summary.trained_parameters, summary.parameter_bytes), (847, 847 * 4));
    assert_eq!(summary.activation_bytes, 16 * (30 + 30 + 7) * 4);
    assert_eq!(summary.layers[1].output.map(|shape| shape.dims().to_vec()), Some(vec![16, 7]));
    // Nothing is recorded: at most the input and the output of one op are in memory at once, and
    // never the first output together with the last.
    assert_eq!(summary.peak_bytes, 16 * (30 + 30) * 4);
    assert_eq!(summary.backward_flops, None);
    Ok(())
}

#[test]
fn cnn_summary_equals_counts_by_hand() -> Result<()> {
    let device = device();
    let strided = Conv2dOptions { stride: [2; 2], padding: [1; 2], groups: 2, ..Default::default() };
    let model = Sequential::new()
        .with(Conv2d::with_config([3, 8], [3; 2], Conv2dConfig::padded(1), &device)?)
        .with(BatchNorm2d::new(8, &device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2))
        .with(Conv2d::with_config(
            [8, 12],
            [3; 2],
            Conv2dConfig { options: strided, bias: false, ..Default::default() },
            &device,
        )?)
        .with(AvgPool2d::new(2))
        .with(Flatten::default())
        .with(Dropout::new(0.5)?)
        .with(Linear::new(12 * 2 * 2, 5, &device)?);
    let summary = summary(&model, &Tensor::randn([2, 3, 16, 16], DType::F32, &device)?)?;
    let pixels = 2 * 16 * 16;
    let expected = [
        ("0", "Conv2d", 3 * 8 * 9 + 8, pixels * 8 * (2 * 27 + 1)),
        // In evaluation mode: subtract the mean, multiply by the reciprocal standard deviation and
        // by the weight, add the bias; and for each channel a sum and a square root.
        ("1", "BatchNorm2d", 16, pixels * 8 * 4 + 16),
        ("2", "ReLU", 0, pixels * 8),
        ("3", "MaxPool2d", 0, pixels / 4 * 8 * 4),
        ("4", "Conv2d", 12 * 4 * 9, 2 * 4 * 4 * 12 * 2 * 36),
        ("5", "AvgPool2d", 0, 2 * 2 * 2 * 12 * 4),
        ("6", "Flatten", 0, 0),
        ("7", "Dropout", 0, 0),
        ("8", "Linear", 48 * 5 + 5, 2 * 5 * (2 * 48 + 1)),
    ];
    assert_eq!(rows(&summary), expected);
    assert_eq!(summary.outside.flops, 0);
    assert_eq!(summary.state_bytes, 2 * 8 * 4 + 8, "mean and variance, and the number of batches");
    Ok(())
}

#[test]
fn transformer_block_takes_2_flops_per_parameter_and_token_plus_attention() -> Result<()> {
    let device = device();
    let (batch, length, width, heads) = (3, 10, 32, 4);
    let block = TransformerBlock::new(width, heads, TransformerBlockConfig::default(), &device)?;
    let summary = summary(&block, &Tensor::randn([batch, length, width], DType::F32, &device)?)?;
    let tokens = batch * length;
    let flops = |key: &str, kind: &str| {
        let layer = summary.layers.iter().find(|layer| layer.key == key && layer.kind == kind);
        layer.map(|layer| (layer.parameters, layer.flops as usize))
    };
    let scores = batch * heads * length * length;
    let attention = scores * (2 * 2 * (width / heads) + 6);
    let projection = tokens * 3 * width * (2 * width + 1);
    assert_eq!(
        flops("self_attn", "MultiHeadAttention"),
        Some((3 * width * (width + 1), projection + attention))
    );
    assert_eq!(
        flops("self_attn.out_proj", "Linear"),
        Some((width * (width + 1), tokens * width * (2 * width + 1)))
    );
    assert_eq!(
        flops("linear1", "Linear"),
        Some((4 * width * (width + 1), tokens * 4 * width * (2 * width + 1)))
    );
    assert_eq!(flops("linear2", "Linear"), Some((width * (4 * width + 1), tokens * width * (8 * width + 1))));
    assert_eq!(flops("norm1", "LayerNorm"), Some((2 * width, tokens * width * 7)));
    assert_eq!(flops("", "FeedForward"), Some((0, tokens * 4 * width)), "GELU");
    assert_eq!(flops("", "TransformerBlock"), Some((0, 2 * tokens * width)), "two sums");
    assert_eq!(summary.parameters, block.parameter_count());
    // The rule of thumb: 2 for each weight of a matrix and each token, plus attention. Elementwise
    // ops add little.
    let matrices: usize = block
        .parameters()
        .iter()
        .map(|param| param.tensor())
        .filter(|tensor| tensor.rank() > 1)
        .map(|tensor| tensor.elements())
        .sum();
    let rule = (2 * matrices * tokens + attention) as f64;
    let ratio = summary.flops as f64 / rule;
    assert!((1.0..1.06).contains(&ratio), "{ratio}");
    Ok(())
}

#[test]
fn a_gpt_counts_its_tied_weight_once_and_its_backward_twice() -> Result<()> {
    let device = device();
    let config =
        GPTConfig { vocabulary: 50, context: 16, layers: 2, heads: 2, width: 32, ..Default::default() };
    let gpt = GPT::new(config, &device)?;
    let tokens = Tensor::from_vec((0..32i64).collect(), [2, 16], &device)?;
    let summary = summary_with(&gpt, &device, SummaryPass::ForwardBackward, || gpt.forward(&tokens))?;
    assert_eq!(summary.parameters, gpt.parameter_count());
    let row = |key: &str| summary.layers.iter().find(|layer| layer.key == key).expect("a row");
    assert_eq!(row("wte").parameters, 50 * 32);
    // The model itself reads the table of positions.
    assert_eq!((row("wpe").parameters, row("wpe").calls, row("wpe").kind), (16 * 32, 0, "Embedding"));
    assert_eq!(summary.layers.iter().map(|layer| layer.parameters).sum::<usize>(), summary.parameters);
    let model = summary.layers.iter().find(|layer| layer.kind == "GPT").expect("the model");
    assert_eq!(model.flops, (32 * 32 + 32 * 50 * 2 * 32) as u64, "positions and the head");
    let in_matrices = gpt.parameter_count() - 16 * 32;
    let scores = 2 * 2 * 2 * 16 * 16;
    let rule = (2 * in_matrices * 32 + scores * 4 * 16) as f64;
    assert!((0.97..1.12).contains(&(summary.flops as f64 / rule)), "{} by rule {rule}", summary.flops);
    let backward = summary.backward_flops.expect("asked for") as f64 / summary.flops as f64;
    assert!((1.8..2.4).contains(&backward), "{backward}");
    let forward = ternion_nn::summary(&gpt, &tokens)?;
    assert_eq!(forward.flops, summary.flops);
    assert!(summary.peak_bytes > 2 * forward.peak_bytes && summary.peak_bytes > summary.activation_bytes);
    Ok(())
}

/// 11,173,962 parameters and 0.56 G multiply-adds are the known figures of ResNet-18 on CIFAR-10.
#[test]
fn resnet18_summary_equals_published_figures() -> Result<()> {
    let device = device();
    let model = ResNet::new(ResNetConfig::default(), &device)?;
    let summary = summary_of_shape(&model, [1, 3, 32, 32], SummaryPass::Forward)?;
    assert_eq!(summary.parameters, 11_173_962);
    let weights = |layer: &ternion_nn::LayerSummary| ["Conv2d", "Linear"].contains(&layer.kind);
    let products: u64 = summary.layers.iter().filter(|layer| weights(layer)).map(|layer| layer.flops).sum();
    // conv1 and four convolutions with 64 channels at 32 x 32; then for each stage a first
    // convolution, three more and the shortcut.
    let mut known = 2 * 1024 * 64 * 27 + 4 * 2 * 1024 * 64 * 64 * 9;
    for (stage, channels) in [(1u64, 128u64), (2, 256), (3, 512)] {
        let pixels = 1024 >> (2 * stage);
        known += 2 * pixels * channels * (channels / 2 * 9 + 3 * channels * 9 + channels / 2);
    }
    known += 2 * 512 * 10 + 10;
    assert_eq!(products, known);
    assert!((1.11e9..1.12e9).contains(&(known as f64)), "{known}");
    assert!((1.0..1.01).contains(&(summary.flops as f64 / known as f64)), "{}", summary.flops);
    let text = summary.to_string();
    assert!(text.contains("11,173,962") && text.contains("1.11 G"), "{text}");
    Ok(())
}

#[test]
fn layers_that_compute_twice_or_share_weights_count_once() -> Result<()> {
    #[derive(Module)]
    struct Shared {
        first: Linear,
        tied: Linear,
        unused: LayerNorm,
        nested: Nested,
    }
    #[derive(Module)]
    struct Nested {
        table: Embedding,
    }
    let device = device();
    let first = Linear::new(6, 6, &device)?;
    let tied = Linear { weight: first.weight.clone(), bias: None };
    let nested = Nested { table: Embedding::new(4, 3, &device)? };
    let model = Shared { first, tied, unused: LayerNorm::new(6, &device)?, nested };
    model.unused.freeze();
    let x = Tensor::randn([5, 6], DType::F32, &device)?;
    let compute = || model.tied.forward(&model.first.forward(&model.first.forward(&x)?)?);
    let summary = summary_with(&model, &device, SummaryPass::Forward, compute)?;
    let expected = [
        ("first", "Linear", 42, 2 * 5 * 6 * 13),
        ("tied", "Linear", 0, 5 * 6 * 12),
        ("unused", "LayerNorm", 12, 0),
        ("nested.table", "Embedding", 12, 0),
    ];
    assert_eq!(rows(&summary), expected);
    assert_eq!((summary.layers[0].calls, summary.layers[2].calls), (2, 0));
    assert_eq!((summary.parameters, summary.trained_parameters), (66, 54));
    let text = summary.to_string();
    assert!(text.contains("[5, 6] x2") && text.contains("12 of them frozen"), "{text}");
    Ok(())
}

#[test]
fn the_columns_are_aligned() -> Result<()> {
    let device = device();
    let model = Mlp::new([784, 128, 10], &device)?;
    let text = summary_of_shape(&model, [32, 784], SummaryPass::ForwardBackward)?.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 9, "{text}");
    assert!(lines[..7].iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["layer", "kind", "output", "parameters", "FLOPs", "activations"]
    );
    let first: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(
        first,
        ["layers.0", "Linear", "[32,", "128]", "100,480", "6.43", "M", "16.0", "KiB"],
        "{text}"
    );
    assert!(lines[6].starts_with("total") && lines[6].contains("101,770"), "{text}");
    assert!(lines[7].starts_with("parameters: 398 KiB") && lines[8].contains("backward: "), "{text}");
    Ok(())
}

/// The mode of each layer, running statistics including the identity of their buffers, random
/// numbers and gradients are unchanged; also if the model fails.
#[test]
fn summary_leaves_the_model_unchanged() -> Result<()> {
    let device = device();
    let model = Sequential::new()
        .with(Linear::new(6, 8, &device)?)
        .with(ternion_nn::BatchNorm1d::new(8, &device)?)
        .with(Dropout::new(0.5)?)
        .with(Linear::new(8, 2, &device)?);
    let input = Tensor::randn([16, 6], DType::F32, &device)?;
    model.forward(&input)?;
    let modes = |model: &Sequential| {
        let mut modes = Vec::new();
        let mut record_mode = |_: &str, member: ternion_nn::Member<'_>| {
            if let ternion_nn::Member::Mode(mode) = member {
                modes.push(mode.is_training());
            }
        };
        model.visit(&mut ternion_nn::Visitor::new(&mut record_mode));
        modes
    };
    let state = |model: &Sequential| -> Result<Vec<(Tensor, Vec<f64>)>> {
        let buffers = model.named_buffers();
        buffers.iter().map(|(_, state)| Ok((state.tensor(), state.tensor().to_vec_f64()?))).collect()
    };
    let before = (state(&model)?, device.random_position(), modes(&model));
    let initial = device.memory();
    let wrong = Tensor::randn([16, 5], DType::F32, &device)?;
    let after_drawing = device.random_position();
    let mut texts = Vec::new();
    for pass in [SummaryPass::Forward, SummaryPass::ForwardBackward] {
        texts.push(summary_with(&model, &device, pass, || model.forward(&input))?.to_string());
        assert!(summary_with(&model, &device, pass, || model.forward(&wrong)).is_err());
        assert_eq!(device.random_position(), after_drawing);
        assert_eq!(modes(&model), before.2);
        for ((tensor, values), (was, old)) in state(&model)?.iter().zip(&before.0) {
            assert!(tensor.buffer().is(was.buffer()) && values == old);
        }
    }
    drop(wrong);
    assert_eq!(device.memory().in_use, initial.in_use, "nothing is left");
    assert!(!texts[0].contains("backward") && texts[1].contains("backward"));
    // A model in evaluation mode stays in evaluation mode.
    model.eval();
    summary_with(&model, &device, SummaryPass::ForwardBackward, || model.forward(&input))?;
    assert!(!model.is_training());
    Ok(())
}

#[test]
fn custom_layers_and_errors() -> Result<()> {
    #[derive(Module)]
    struct Own {
        scale: ternion_nn::Param,
    }
    impl Forward for Own {
        fn forward(&self, input: &Tensor) -> Result<Tensor> {
            in_layer(self, "Own", || input.mul(&self.scale.tensor())?.exp())
        }
    }
    let device = device();
    let custom = Own { scale: ternion_nn::Param::new(&Tensor::ones([3], DType::F32, &device)?)? };
    let counted = summary_of_shape(&custom, [4, 3], SummaryPass::Forward)?;
    assert_eq!(rows(&counted), [("", "Own", 3, 24)]);
    assert!(counted.to_string().contains("(model)"), "{counted}");
    let error = summary_of_shape(&ReLU, [4, 3], SummaryPass::Forward).expect_err("no device").to_string();
    assert!(error.contains("give an input"), "{error}");
    // Nothing is recorded for a backward pass.
    let plain = Tensor::ones([2, 3], DType::F32, &device)?;
    let backward = summary_with(&ReLU, &device, SummaryPass::ForwardBackward, || plain.relu());
    assert!(backward.is_err());
    let loss = summary_with(&custom, &device, SummaryPass::ForwardBackward, || {
        custom.forward(&plain)?.mse_loss(&plain, Reduction::Mean)
    })?;
    assert!(loss.outside.flops > 0 && loss.to_string().contains("(outside of layers)"), "{loss}");
    Ok(())
}

#[test]
fn the_page_shows_what_a_summary_prints() -> Result<()> {
    let device = device();
    let model = Mlp::new([784, 128, 10], &device)?;
    let text = summary(&model, &Tensor::zeros([32, 784], DType::F32, &device)?)?.to_string();
    let page = include_str!("../../../docs/watching.md");
    assert!(page.contains(&text), "docs/watching.md does not show\n{text}");
    Ok(())
}
