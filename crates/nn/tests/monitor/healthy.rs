//! Healthy models, for which the monitor must not report anything.

use super::*;

#[test]
fn a_healthy_mlp_gives_no_warning() -> Result<()> {
    let device = device();
    let model = Mlp::new([20, 64, 64, 5], &device)?;
    let (input, target) = pair(&[32, 20], &[32, 5], &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 3e-3, ..Default::default() })?;
    let reports = reports(&model, &mut adam, (&input, &target), 12)?;
    quiet(&reports);
    // The figures are those of the tensors.
    let (first, last) = (&reports[0], &reports[11]);
    let names: Vec<String> = last.layers.iter().map(|layer| layer.name()).collect();
    let expected =
        ["input", "layers.0", "relu after layers.0", "layers.1", "relu after layers.1", "layers.2"];
    assert_eq!(names, expected);
    let known = input.stats()?;
    assert!((last.layers[0].output.std - known.std).abs() < 1e-6 * known.std);
    assert!(last.layers[2].output.min == 0.0 && last.layers[2].output.zero_fraction() > 0.2);
    assert!(last.layers[2].dead_fraction.is_some_and(|fraction| fraction < 0.5));
    assert!(last.layers[5].gradient.is_some_and(|gradient| gradient.norm() > 0.0));
    assert!(last.layers[0].gradient.is_none(), "the input asks for none");
    let updates: Vec<bool> = last.weights.iter().map(|weight| weight.update.is_some()).collect();
    assert_eq!(updates, [true, false, true, false, true, false], "of matrices");
    // The first step of Adam changes each number by the learning rate.
    let weight = &first.weights[0];
    let update = weight.update.expect("a matrix") * weight.values.rms();
    assert!((update - 3e-3).abs() < 1e-4, "{update}");
    Ok(())
}

#[test]
fn a_healthy_cnn_gives_no_warning() -> Result<()> {
    let device = device();
    let model = Sequential::new()
        .with(Conv2d::with_config([1, 8], [3; 2], Conv2dConfig::padded(1), &device)?)
        .with(BatchNorm2d::new(8, &device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2))
        .with(Conv2d::with_config([8, 16], [3; 2], Conv2dConfig::padded(1), &device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2))
        .with(Flatten::default())
        .with(Linear::new(64, 4, &device)?);
    let (input, target) = pair(&[16, 1, 8, 8], &[16, 4], &device)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 0.05, momentum: 0.9, ..Default::default() })?;
    let reports = reports(&model, &mut sgd, (&input, &target), 8)?;
    quiet(&reports);
    let relu = reports[0].layers.iter().find(|layer| layer.kind == "ReLU").expect("a ReLU");
    assert_eq!((relu.key.as_str(), relu.dead_fraction.is_some()), ("2", true));
    Ok(())
}

#[test]
fn healthy_transformers_and_residual_networks_give_no_warning() -> Result<()> {
    let device = device();
    let block = TransformerBlock::new(16, 2, TransformerBlockConfig::default(), &device)?;
    let (input, target) = pair(&[4, 6, 16], &[4, 6, 16], &device)?;
    let mut adam = AdamW::new(block.parameters(), AdamWConfig::default())?;
    quiet(&reports(&block, &mut adam, (&input, &target), 8)?);

    let config =
        GPTConfig { vocabulary: 17, context: 8, layers: 2, heads: 2, width: 16, ..Default::default() };
    let gpt = GPT::new(config, &device)?;
    let tokens = Tensor::from_vec((0..16i64).collect(), [2, 8], &device)?;
    let next = Tensor::from_vec((1..17i64).collect(), [16], &device)?;
    let mut adam = AdamW::new(gpt.parameters(), AdamWConfig { lr: 1e-3, ..Default::default() })?;
    let mut monitor = StatsMonitor::new(each_step())?;
    for step in 0..8 {
        let compute = || gpt.logits(&tokens)?.reshape([16, 17])?.cross_entropy(&next);
        let loss = monitor.watch(&gpt, step, compute)?;
        quiet(&[monitor.step(&mut adam, &loss.backward()?)?.expect("each step")]);
    }

    let resnet = ResNet::new(ResNetConfig { blocks: vec![1, 1], width: 4, ..Default::default() }, &device)?;
    let (images, scores) = pair(&[8, 3, 8, 8], &[8, 10], &device)?;
    let mut sgd = SGD::new(resnet.parameters(), SGDConfig { lr: 0.05, ..Default::default() })?;
    quiet(&reports(&resnet, &mut sgd, (&images, &scores), 6)?);
    Ok(())
}

/// A layer whose weights start at 0, as heads and adapters do, changes by a large fraction of its
/// size at first.
#[test]
fn weights_that_start_at_zero_give_no_warning() -> Result<()> {
    let device = device();
    let zero = LinearConfig { weight_init: Init::Constant(0.0), ..Default::default() };
    let model = Sequential::new()
        .with(Linear::new(8, 16, &device)?)
        .with(ReLU)
        .with(Linear::with_config(16, 4, zero, &device)?);
    let (input, target) = pair(&[16, 8], &[16, 4], &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 3e-3, ..Default::default() })?;
    quiet(&reports(&model, &mut adam, (&input, &target), 8)?);
    Ok(())
}

/// Checks that a training run of five steps with the loss of `compute` gives no warnings.
fn assert_no_warnings(model: &impl Module, compute: impl Fn() -> Result<Tensor>) -> Result<()> {
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-3, ..Default::default() })?;
    let mut monitor = StatsMonitor::new(each_step())?;
    for step in 0..5 {
        let loss = monitor.watch(model, step, &compute)?;
        quiet(&[monitor.step(&mut adam, &loss.backward()?)?.expect("each step")]);
    }
    Ok(())
}

/// The input may have any scale if the model divides by it.
#[test]
fn inputs_that_the_model_scales_give_no_warning() -> Result<()> {
    let device = device();
    for size in [1e-6, 255.0] {
        let model = Mlp::new([8, 16, 4], &device)?;
        let (input, target) = pair(&[16, 8], &[16, 4], &device)?;
        let input = input.mul_scalar(size)?;
        assert_no_warnings(&model, || {
            model.forward(&input.div_scalar(size)?)?.mse_loss(&target, Reduction::Mean)
        })?;
    }
    Ok(())
}

/// Rows with few nonzero numbers, features that are the same for each example, and a batch of one.
#[test]
fn sparse_and_constant_features_give_no_warning() -> Result<()> {
    let device = device();
    let (input, target) = pair(&[16, 64], &[16, 4], &device)?;
    let sparse =
        input.mul(&Tensor::rand([16, 64], DType::F32, &device)?.gt_scalar(0.95)?.to_dtype(DType::F32)?)?;
    let constant = input
        .mul(&Tensor::arange(0.0, 64.0, 1.0, DType::F32, &device)?.gt_scalar(32.0)?.to_dtype(DType::F32)?)?;
    for input in [sparse.mul_scalar(0.01)?, constant, input.narrow(0, 0, 1)?] {
        let model = Mlp::new([64, 16, 4], &device)?;
        let target = target.narrow(0, 0, input.dims()[0])?;
        assert_no_warnings(&model, || model.forward(&input)?.mse_loss(&target, Reduction::Mean))?;
    }
    Ok(())
}

#[derive(Module)]
struct Heads {
    body: Linear,
    one: Linear,
    other: Linear,
}

/// Consecutive linear layers that are intended: of low rank, with an output that two heads read,
/// and in separate parts of an autoencoder.
#[test]
fn intended_consecutive_linear_layers_give_no_warning() -> Result<()> {
    let device = device();
    let linear = |inputs: usize, outputs: usize| Linear::new(inputs, outputs, &device);
    let (input, target) = pair(&[16, 32], &[16, 32], &device)?;
    let low_rank = Sequential::new().with(linear(32, 4)?).with(linear(4, 32)?);
    assert_no_warnings(&low_rank, || low_rank.forward(&input)?.mse_loss(&target, Reduction::Mean))?;
    let heads = Heads { body: linear(32, 32)?, one: linear(32, 32)?, other: linear(32, 32)? };
    assert_no_warnings(&heads, || {
        let hidden = heads.body.forward(&input)?;
        heads.one.forward(&hidden)?.add(&heads.other.forward(&hidden)?)?.mse_loss(&target, Reduction::Mean)
    })?;
    let split_model = Sequential::new()
        .with(Sequential::new().with(linear(32, 16)?).with(ReLU).with(linear(16, 16)?))
        .with(Sequential::new().with(linear(16, 16)?).with(ReLU).with(linear(16, 32)?));
    assert_no_warnings(&split_model, || split_model.forward(&input)?.mse_loss(&target, Reduction::Mean))
}

/// Losses written by hand: a cross-entropy of gathered logits, all pairs of predictions, and
/// outputs of one column with targets of one column.
#[test]
fn handwritten_losses_give_no_warning() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 16, 4], &device)?;
    let (input, target) = pair(&[16, 8], &[16, 1], &device)?;
    let labels = Tensor::from_vec((0..16i64).map(|at| at % 4).collect(), [16, 1], &device)?;
    assert_no_warnings(&model, || {
        let logits = model.forward(&input)?;
        logits.gather(1, &labels)?.neg()?.add(&logits.logsumexp_keep(1)?)?.mean_all()
    })?;
    assert_no_warnings(&model, || model.forward(&input)?.log_softmax(1)?.nll_loss(&labels.reshape([16])?))?;
    let single = Mlp::new([8, 16, 1], &device)?;
    assert_no_warnings(&single, || {
        let scores = single.forward(&input)?;
        let pairs = scores.sub(&scores.reshape([1, 16])?)?;
        pairs.square()?.mean_all()?.add(&scores.sub(&target)?.square()?.mean_all()?)
    })
}

/// A learning rate that warms up from 0, as in schedules.
#[test]
fn learning_rate_warmup_gives_no_warning() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 16, 4], &device)?;
    let (input, target) = pair(&[16, 8], &[16, 4], &device)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 0.0, ..Default::default() })?;
    let mut monitor = StatsMonitor::new(StatsConfig { every: 2, ..Default::default() })?;
    for step in 0..21 {
        sgd.set_lr(0.05 * step as f64 / 20.0)?;
        let loss =
            monitor.watch(&model, step, || model.forward(&input)?.mse_loss(&target, Reduction::Mean))?;
        quiet(monitor.step(&mut sgd, &loss.backward()?)?.as_slice());
    }
    Ok(())
}

/// A backbone that is used but not trained, and a head.
#[derive(Module)]
struct Features {
    backbone: Mlp,
    head: Linear,
}

/// Returns the layers without a gradient, in a training step of these parameters in which the
/// backbone runs in no-grad mode.
fn missing(model: &Features, parameters: Vec<ternion_nn::Param>) -> Result<Vec<String>> {
    let input = Tensor::randn([16, 8], DType::F32, &model.head.weight.device())?;
    let mut monitor = StatsMonitor::new(each_step())?;
    let config = SGDConfig { lr: 0.01, allow_missing_gradients: true, ..Default::default() };
    let mut sgd = SGD::new(parameters, config)?;
    let loss = monitor.watch(model, 0, || {
        let features = ternion_core::no_grad(|| model.backbone.forward(&input))?;
        model.head.forward(&features)?.square()?.mean_all()
    })?;
    let report = monitor.step(&mut sgd, &loss.backward()?)?.expect("step 0");
    let named = report.all_warnings.iter().filter(|warning| warning.fault == Fault::MissingGradient);
    Ok(named.map(|warning| warning.layer.clone()).collect())
}

/// Missing gradients are not reported for a part that the optimizer does not have and that runs in
/// no-grad mode.
#[test]
fn frozen_backbone_gives_no_warning_unless_the_optimizer_has_it() -> Result<()> {
    let device = device();
    let model = Features { backbone: Mlp::new([8, 8, 8], &device)?, head: Linear::new(8, 4, &device)? };
    assert!(missing(&model, model.head.parameters())?.is_empty());
    assert_eq!(missing(&model, model.parameters())?, ["backbone.layers.0", "backbone.layers.1"]);
    Ok(())
}

/// The ops of the monitor are not part of a checkpointed segment, whether or not it observes the
/// backward pass.
#[test]
fn checkpointed_segment_is_monitored_without_changing_it() -> Result<()> {
    let device = device();
    checkpoint_is_watched(&device, Mlp::new([8, 16, 4], &device)?, 0.0)?;
    checkpoint_is_watched(&device, FeedForward::new(8, FeedForwardConfig::default(), &device)?, 1e-6)?;
    let gated = FeedForwardConfig { kind: FeedForwardKind::SwiGLU, ..Default::default() };
    checkpoint_is_watched(&device, FeedForward::new(8, gated, &device)?, 1e-6)
}

/// Checks a checkpointed segment. Its layers run without fusion while they are observed, and run
/// the same way again in backward, whether or not they are observed then.
fn checkpoint_is_watched(device: &Device, model: impl Forward + 'static, limit: f32) -> Result<()> {
    let model = std::sync::Arc::new(model);
    let input = Tensor::randn([16, 8], DType::F32, device)?;
    let segment = model.clone();
    let loss = move || {
        let segment = segment.clone();
        let run = move |inputs: &[Tensor]| Ok(vec![segment.forward(&inputs[0])?.sigmoid()?]);
        ternion_core::checkpoint(run, &[&input])?[0].square()?.mean_all()
    };
    let known = loss()?.backward()?;
    let mut monitor = StatsMonitor::new(each_step())?;
    let watched = monitor.watch(&*model, 0, &loss)?.backward()?;
    let inside = monitor.watch(&*model, 1, || loss()?.backward())?;
    let unobserved = loss()?;
    let later = monitor.watch(&*model, 2, || unobserved.backward())?;
    for param in model.parameters() {
        let of = |gradients: &ternion_core::Gradients| {
            param.gradient(gradients).expect("it is trained").to_vec::<f32>()
        };
        let known = of(&known)?;
        for (found, when) in [(of(&watched)?, "forward"), (of(&inside)?, "both"), (of(&later)?, "backward")] {
            for (found, known) in found.iter().zip(&known) {
                assert!(
                    (found - known).abs() <= limit * known.abs().max(1e-3),
                    "{when}: {found}, not {known}"
                );
            }
        }
    }
    Ok(())
}
