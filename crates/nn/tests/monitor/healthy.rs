//! Healthy models, of which the monitor must say nothing.

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
    assert!(last.layers[2].output.min == 0.0 && last.layers[2].output.zero_share() > 0.2);
    assert!(last.layers[2].silent.is_some_and(|share| share < 0.5));
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
    assert_eq!((relu.key.as_str(), relu.silent.is_some()), ("2", true));
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

/// A layer whose weights start at 0, as heads and adapters do, grows by much of its size at first.
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
