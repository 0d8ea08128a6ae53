//! The stats monitor names the layer of each planted fault, and reports nothing for healthy
//! training runs.

#[path = "monitor/healthy.rs"]
mod healthy;
#[path = "monitor/persistent.rs"]
mod persistent;

use ternion_core::decorators::Counting;
use ternion_core::{DType, Device, Error, Reduction, Result, Tensor};
use ternion_nn::optim::{Adam, AdamConfig, AdamW, AdamWConfig, Optimizer, SGD, SGDConfig};
use ternion_nn::{
    BatchNorm2d, Conv2d, Conv2dConfig, Fault, FeedForward, FeedForwardConfig, FeedForwardKind, Flatten,
    Forward, GPT, GPTConfig, Init, Linear, LinearConfig, MaxPool2d, Mlp, Module, ReLU, ResNet, ResNetConfig,
    Sequential, Sigmoid, StatsConfig, StatsMonitor, StatsReport, StatsWarning, TransformerBlock,
    TransformerBlockConfig, in_layer,
};

fn device() -> Device {
    let device = ternion_cpu::device();
    device.seed(7);
    device
}

fn each_step() -> StatsConfig {
    StatsConfig { every: 1, ..Default::default() }
}

/// Trains `model` for `steps` steps with the mean squared error between its output and `target`,
/// and returns all reports.
fn reports(
    model: &impl Forward,
    optimizer: &mut impl Optimizer,
    (input, target): (&Tensor, &Tensor),
    steps: u64,
) -> Result<Vec<StatsReport>> {
    let mut monitor = StatsMonitor::new(each_step())?;
    let mut reports = Vec::new();
    for step in 0..steps {
        let loss = monitor.watch(model, step, || model.forward(input)?.mse_loss(target, Reduction::Mean))?;
        reports.extend(monitor.step(optimizer, &loss.backward()?)?);
    }
    assert_eq!(reports.len() as u64, steps);
    Ok(reports)
}

/// Makes one step of SGD with a learning rate that has no noticeable effect.
fn first_report(model: &impl Forward, input: &Tensor, target: &Tensor) -> Result<StatsReport> {
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 1e-9, ..Default::default() })?;
    Ok(reports(model, &mut sgd, (input, target), 1)?.remove(0))
}

fn of(warnings: &[StatsWarning]) -> Vec<(Fault, &str)> {
    warnings.iter().map(|warning| (warning.fault, warning.layer.as_str())).collect()
}

fn faults(report: &StatsReport) -> Vec<(Fault, &str)> {
    of(&report.all_warnings)
}

fn quiet(reports: &[StatsReport]) {
    for report in reports {
        assert!(report.all_warnings.is_empty(), "{report}");
    }
}

fn pair(input: &[usize], target: &[usize], device: &Device) -> Result<(Tensor, Tensor)> {
    Ok((Tensor::randn(input, DType::F32, device)?, Tensor::randn(target, DType::F32, device)?))
}

// ---- Planted faults

#[test]
fn initial_weights_that_are_too_large_explode() -> Result<()> {
    let device = device();
    let model = Mlp::new([32; 9], &device)?;
    for layer in &model.layers {
        layer.weight.set(&Tensor::randn([32, 32], DType::F32, &device)?)?;
    }
    let (input, target) = pair(&[16, 32], &[16, 32], &device)?;
    let report = first_report(&model, &input, &target)?;
    let found_faults = faults(&report);
    assert!(found_faults.contains(&(Fault::ExplodingGradients, "layers.0")), "{report}");
    let outputs =
        found_faults.iter().find(|(fault, _)| *fault == Fault::ExplodingOutputs).expect("outputs, too");
    // A factor of four for each layer makes a thousand after five layers.
    assert!(["layers.4", "layers.5", "layers.6"].contains(&outputs.1), "{report}");
    assert!(report.all_warnings[0].message.contains("those of layers.0 (root mean square"), "{report}");
    Ok(())
}

#[test]
fn single_layer_with_too_large_weights_is_named() -> Result<()> {
    let device = device();
    for at in 0..4 {
        let model = Mlp::new([16; 5], &device)?;
        let weight = &model.layers[at].weight;
        weight.set(&weight.tensor().detach().mul_scalar(1e5)?)?;
        let (input, target) = pair(&[16, 16], &[16, 16], &device)?;
        let report = first_report(&model, &input, &target)?;
        let layer = format!("layers.{at}");
        let outputs: Vec<_> = faults(&report);
        assert!(outputs.contains(&(Fault::ExplodingOutputs, &layer)), "{at}: {report}");
        for (fault, named) in outputs {
            let about = matches!(fault, Fault::ExplodingOutputs | Fault::ExplodingGradients);
            assert!(about && named == layer, "{at}: {report}");
        }
    }
    Ok(())
}

#[test]
fn a_stack_of_sigmoids_vanishes() -> Result<()> {
    let device = device();
    let mut model = Sequential::new();
    for _ in 0..8 {
        model.push(Linear::new(16, 16, &device)?);
        model.push(Sigmoid);
    }
    let (input, target) = pair(&[16, 16], &[16, 16], &device)?;
    let report = first_report(&model, &input, &target)?;
    assert_eq!(faults(&report), [(Fault::VanishingGradients, "0")], "{report}");
    assert!(
        report.all_warnings[0].message.starts_with("0: gradients vanish in the backward pass"),
        "{report}"
    );
    Ok(())
}

#[test]
fn dead_relus_are_named() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 20, 20, 3], &device)?;
    let (input, target) = pair(&[32, 8], &[32, 3], &device)?;
    // 19 of 20 units: a batch may show this by chance, so it is reported only if it persists.
    let mut bias = [-100.0f32; 20];
    bias[3] = 1.0;
    model.layers[1].bias.as_ref().expect("a bias").set(&Tensor::from_slice(&bias, [20], &device)?)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 1e-3, ..Default::default() })?;
    let reports = reports(&model, &mut sgd, (&input, &target), 6)?;
    quiet(&reports[..4]);
    for report in &reports[4..] {
        assert_eq!(faults(report), [(Fault::DeadReLU, "layers.1")], "{report}");
        let text = &report.all_warnings[0].message;
        let start = "relu after layers.1: 95 % of its units gave 0 for each example in each of the last 5 readings (95 % of";
        assert!(text.starts_with(start), "{text}");
    }
    // All units: reported at once.
    model.layers[1].bias.as_ref().expect("a bias").set(&Tensor::full([20], -100.0, DType::F32, &device)?)?;
    let report = first_report(&model, &input, &target)?;
    assert_eq!(faults(&report), [(Fault::DeadReLU, "layers.1")], "{report}");
    // The same with the ReLU as a layer.
    let layers =
        Sequential::new().with(Linear::new(8, 20, &device)?).with(ReLU).with(Linear::new(20, 3, &device)?);
    layers.named_parameters()[1].1.set(&Tensor::full([20], -100.0, DType::F32, &device)?)?;
    assert_eq!(faults(&first_report(&layers, &input, &target)?), [(Fault::DeadReLU, "1")]);
    Ok(())
}

#[test]
fn persistent_zero_gradients_are_reported() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 20, 3], &device)?;
    let (input, target) = pair(&[32, 8], &[32, 3], &device)?;
    model.layers[0].bias.as_ref().expect("a bias").set(&Tensor::full([20], -100.0, DType::F32, &device)?)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig::default())?;
    let reports = reports(&model, &mut sgd, (&input, &target), 5)?;
    assert_eq!(faults(&reports[3]), [(Fault::DeadReLU, "layers.0")]);
    let late = faults(&reports[4]);
    assert!(late.contains(&(Fault::ZeroGradient, "layers.0")), "{}", reports[4]);
    Ok(())
}

/// Divides by the sum of each row, which may be 0.
#[derive(Module)]
struct Shares {}

impl Forward for Shares {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Shares", || input.div(&input.sum_keep(1)?))
    }
}

#[test]
fn the_first_layer_with_nan_is_named() -> Result<()> {
    let device = device();
    let model = Mlp::new([8; 6], &device)?;
    let (input, target) = pair(&[4, 8], &[4, 8], &device)?;
    // NaN in a weight.
    let before = model.layers[2].weight.tensor().to_vec::<f32>()?;
    let mut values = before.clone();
    values[9] = f32::NAN;
    model.layers[2].weight.set(&Tensor::from_vec(values, [8, 8], &device)?)?;
    let report = first_report(&model, &input, &target)?;
    assert_eq!(faults(&report), [(Fault::NotFinite, "layers.2")], "{report}");
    let text = &report.all_warnings[0].message;
    assert!(text.starts_with("layers.2: 4 of 32 outputs are NaN, the first in the order"), "{text}");
    assert!(text.contains("its layers.2.weight holds such numbers already"), "{text}");
    model.layers[2].weight.set(&Tensor::from_vec(before, [8, 8], &device)?)?;
    // Infinity in the input.
    let mut values = input.to_vec::<f32>()?;
    values[3] = f32::INFINITY;
    let infinite_input = Tensor::from_vec(values, [4, 8], &device)?;
    let report = first_report(&model, &infinite_input, &target)?;
    assert_eq!(faults(&report), [(Fault::NotFinite, "")], "{report}");
    assert!(
        report.all_warnings[0].message.starts_with("input: 1 of 32 numbers are infinite; clean"),
        "{report}"
    );
    // NaN that a custom layer computes from finite numbers.
    let custom_model = Sequential::new().with(Linear::new(8, 8, &device)?).with(ReLU).with(Shares {});
    custom_model.named_parameters()[1].1.set(&Tensor::full([8], -100.0, DType::F32, &device)?)?;
    let report = first_report(&custom_model, &input, &target)?;
    assert!(faults(&report).contains(&(Fault::NotFinite, "2")), "{report}");
    Ok(())
}

#[test]
fn nan_gradient_with_finite_outputs_is_reported() -> Result<()> {
    let device = device();
    let model = Mlp::new([4, 6, 2], &device)?;
    let input = Tensor::randn([5, 4], DType::F32, &device)?;
    let mut monitor = StatsMonitor::new(each_step())?;
    // The derivative of the square root at 0 is infinite, and is multiplied by 0.
    let root = || model.forward(&input)?.mul_scalar(0.0)?.sqrt()?.sum_all();
    let loss = monitor.watch(&model, 0, root)?;
    assert!(loss.item::<f32>()?.is_finite());
    let report = monitor.report(&loss.backward()?)?.expect("step 0");
    assert_eq!(faults(&report), [(Fault::NotFinite, "layers.1")], "{report}");
    assert!(report.all_warnings[0].message.contains("though all outputs are finite"), "{report}");
    assert!(monitor.report(&loss_gradients(&model, &input)?)?.is_none(), "reported once");
    Ok(())
}

fn loss_gradients(model: &Mlp, input: &Tensor) -> Result<ternion_core::Gradients> {
    model.forward(input)?.square()?.sum_all()?.backward()
}

#[test]
fn a_layer_that_is_left_out_of_the_loss_is_named() -> Result<()> {
    #[derive(Module)]
    struct TwoHeads {
        body: Linear,
        used: Linear,
        forgotten: Linear,
        frozen: Linear,
    }
    let device = device();
    let linear = || Linear::new(4, 4, &device);
    let model = TwoHeads { body: linear()?, used: linear()?, forgotten: linear()?, frozen: linear()? };
    model.frozen.freeze();
    let input = Tensor::randn([5, 4], DType::F32, &device)?;
    let mut monitor = StatsMonitor::new(each_step())?;
    let loss = monitor.watch(&model, 0, || {
        let hidden = model.body.forward(&input)?;
        model.forgotten.forward(&hidden)?;
        model.used.forward(&hidden)?.square()?.mean_all()
    })?;
    let report = monitor.report(&loss.backward()?)?.expect("step 0");
    assert_eq!(faults(&report), [(Fault::MissingGradient, "forgotten")], "{report}");
    let text = &report.all_warnings[0].message;
    assert!(text.contains("no gradient came to forgotten.weight and forgotten.bias"), "{text}");
    Ok(())
}

/// An optimizer that was given only some of the parameters.
#[test]
fn a_layer_that_the_optimizer_does_not_have_is_named() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 16, 4], &device)?;
    let (input, target) = pair(&[16, 8], &[16, 4], &device)?;
    let config = SGDConfig { lr: 0.1, ..Default::default() };
    let mut sgd = SGD::new(model.layers[0].parameters(), config)?;
    let report = reports(&model, &mut sgd, (&input, &target), 1)?.remove(0);
    assert_eq!(faults(&report), [(Fault::NotUpdated, "layers.1")], "{report}");
    assert!(
        report.to_string().contains("layers.1.weight: its gradient is not 0, but the step left it as it was"),
        "{report}"
    );
    // A frozen layer is not meant to change.
    model.layers[1].parameters().iter().for_each(ternion_nn::Param::freeze);
    quiet(&reports(&model, &mut sgd, (&input, &target), 1)?);
    Ok(())
}

/// A layer that is computed and whose output is detached. The message differs from that for a layer
/// that is not computed.
#[test]
fn layer_with_a_detached_output_is_named() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 8, 8], &device)?;
    let (input, target) = pair(&[16, 8], &[16, 8], &device)?;
    let mut monitor = StatsMonitor::new(each_step())?;
    let loss = monitor.watch(&model, 0, || {
        let detached = model.layers[1].forward(&input)?.detach();
        model.layers[0].forward(&input)?.add(&detached)?.mse_loss(&target, Reduction::Mean)
    })?;
    let report = monitor.report(&loss.backward()?)?.expect("a step that is looked at");
    assert_eq!(faults(&report), [(Fault::MissingGradient, "layers.1")], "{report}");
    assert!(
        report.to_string().contains("the layer was computed, but nothing came back from the loss"),
        "{report}"
    );
    Ok(())
}

#[test]
fn too_large_and_too_small_learning_rates_are_reported() -> Result<()> {
    let device = device();
    let (input, target) = pair(&[32, 8], &[32, 3], &device)?;
    let model = Mlp::new([8, 32, 3], &device)?;
    let mut adam = Adam::new(model.parameters(), AdamConfig { lr: 1.0, ..Default::default() })?;
    let report = &reports(&model, &mut adam, (&input, &target), 1)?[0];
    // The weights are uniform on -1/sqrt(inputs)..1/sqrt(inputs); those of the last layer, with 32
    // inputs, are the smallest.
    assert_eq!(faults(report), [(Fault::LargeUpdates, "layers.1")], "{report}");
    let text = &report.all_warnings[0].message;
    assert!(text.contains("divide the learning rate by about 10000"), "{text}");
    assert!(text.contains("and another by more than 0.5"), "{text}");

    let model = Mlp::new([8, 32, 3], &device)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 1e-8, ..Default::default() })?;
    let reports = reports(&model, &mut sgd, (&input, &target), 5)?;
    quiet(&reports[..4]);
    assert_eq!(faults(&reports[4])[0].0, Fault::SmallUpdates, "{}", reports[4]);
    Ok(())
}

// ---- Cost and use

#[test]
fn only_steps_with_a_reading_have_overhead_and_read_few_bytes() -> Result<()> {
    let (device, counter) = Counting::new(ternion_cpu::device());
    let model = Mlp::new([256, 256, 256], &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let input = Tensor::randn([64, 256], DType::F32, &device)?;
    let mut plain = || -> Result<u64> {
        counter.reset();
        let loss = model.forward(&input)?.square()?.mean_all()?;
        adam.step(&loss.backward()?)?;
        Ok(counter.counts().launches())
    };
    plain()?;
    let without = plain()?;
    let mut monitor = StatsMonitor::new(StatsConfig { every: 3, ..Default::default() })?;
    let mut bytes = Vec::new();
    for step in 0..7 {
        counter.reset();
        let loss = monitor.watch(&model, step, || model.forward(&input)?.square()?.mean_all())?;
        let report = monitor.step(&mut adam, &loss.backward()?)?;
        assert_eq!(report.map(|report| report.step), (step % 3 == 0).then_some(step));
        let counts = counter.counts();
        if step % 3 != 0 {
            assert_eq!((counts.launches(), counts.bytes_downloaded), (without, 0), "step {step}");
        }
        bytes.push(counts.bytes_downloaded);
    }
    // Outputs of the input, two layers and a ReLU; the range of the input; dead units; three
    // gradients of outputs; four weights with gradients; two updates and their directions: seven
    // f32 each.
    assert_eq!(bytes[0], (4 + 1 + 1 + 3 + 4 + 4 + 2 * 2) * 7 * 4);
    Ok(())
}

#[test]
fn monitoring_does_not_change_training() -> Result<()> {
    let train = |watched: bool| -> Result<Vec<f32>> {
        let device = device();
        let model = Mlp::new([6, 12, 2], &device)?;
        let (input, target) = pair(&[10, 6], &[10, 2], &device)?;
        let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
        let every = if watched { 1 } else { 1000 };
        let mut monitor = StatsMonitor::new(StatsConfig { every, ..Default::default() })?;
        for step in 1..20 {
            let loss =
                monitor.watch(&model, step, || model.forward(&input)?.mse_loss(&target, Reduction::Mean))?;
            monitor.step(&mut adam, &loss.backward()?)?;
        }
        model.layers[0].weight.tensor().to_vec()
    };
    assert_eq!(train(true)?, train(false)?);
    Ok(())
}

/// Several calls of a layer are merged, and hooks are removed from tensors that outlive the pass.
#[test]
fn calls_of_one_layer_are_merged() -> Result<()> {
    let device = device();
    let layer = Linear::new(4, 4, &device)?;
    let input = Tensor::randn([3, 4], DType::F32, &device)?.requires_grad()?;
    let mut monitor = StatsMonitor::new(each_step())?;
    for step in 0..3 {
        let twice = || layer.forward(&layer.forward(&input)?)?.square()?.mean_all();
        let loss = monitor.watch(&layer, step, twice)?;
        let report = monitor.report(&loss.backward()?)?.expect("each step");
        let only: Vec<_> = report.layers.iter().filter(|layer| layer.kind == "Linear").collect();
        assert_eq!((only.len(), only[0].output.elements), (1, 24));
        assert_eq!(only[0].gradient.expect("of both").elements, 24);
    }
    Ok(())
}

#[test]
fn the_report_prints_as_a_table() -> Result<()> {
    let device = device();
    let model = Mlp::new([4, 3, 2], &device)?;
    model.layers[0].bias.as_ref().expect("a bias").set(&Tensor::full([3], -100.0, DType::F32, &device)?)?;
    let (input, target) = pair(&[5, 4], &[5, 2], &device)?;
    let text = first_report(&model, &input, &target)?.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "step 0");
    assert!(lines[1].starts_with("layer "), "{text}");
    let starts: Vec<Vec<&str>> =
        lines[2..].iter().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(starts[0][..2], ["input", "output"], "{text}");
    assert_eq!(starts[1], ["layers.0", "(Linear)", "output"], "{text}");
    assert_eq!(starts[2][0], "output.grad", "{text}");
    assert!(text.contains("relu after layers.0  output") && text.contains("100 %"), "{text}");
    assert!(text.contains("\n! relu after layers.0: all its outputs are 0"), "{text}");
    let widths: Vec<usize> = lines[2..6].iter().map(|line| line.find(" %").expect("a share")).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    Ok(())
}

#[test]
fn invalid_settings_and_errors_of_layers_are_returned() -> Result<()> {
    for config in [
        StatsConfig { every: 0, ..Default::default() },
        StatsConfig { patience: 0, ..Default::default() },
        StatsConfig { growth: 1.0, ..Default::default() },
        StatsConfig { growth: f64::NAN, ..Default::default() },
        StatsConfig { dead_fraction: 0.0, ..Default::default() },
        StatsConfig { dead_fraction: 1.5, ..Default::default() },
        StatsConfig { smallest_update: 1.0, ..Default::default() },
        StatsConfig { largest_input: 0.0, ..Default::default() },
        StatsConfig { smallest_input: 30.0, ..Default::default() },
        StatsConfig { smallest_input: f64::NAN, ..Default::default() },
    ] {
        let error = StatsMonitor::new(config).err().expect("no such setting").to_string();
        assert!(error.starts_with("stats_monitor: "), "{error}");
    }
    let device = device();
    let model = Mlp::new([4, 3, 2], &device)?;
    let mut monitor = StatsMonitor::new(each_step())?;
    let wrong = Tensor::randn([5, 7], DType::F32, &device)?;
    assert!(monitor.watch(&model, 0, || model.forward(&wrong)).is_err());
    // Without a graph only outputs have statistics.
    let input = Tensor::randn([5, 4], DType::F32, &device)?;
    ternion_core::no_grad(|| monitor.watch(&model, 1, || model.forward(&input)))?;
    let report = monitor.report(&Default::default())?.expect("each step");
    assert!(report.layers.iter().all(|layer| layer.gradient.is_none()));
    assert_eq!(faults(&report), [(Fault::MissingGradient, "layers.0"), (Fault::MissingGradient, "layers.1")]);
    // An error of the optimizer is returned.
    monitor.watch(&model, 2, || model.forward(&input))?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig::default())?;
    let result = monitor.step(&mut sgd, &Default::default());
    assert!(matches!(result, Err(Error::MissingGradient { .. })));
    Ok(())
}

/// The report that docs/gradients.md shows: its rows, and its messages word by word. (Figures
/// differ in the last digit from CPU to CPU.)
#[test]
fn the_page_shows_what_the_monitor_says() -> Result<()> {
    let device = device();
    let model = Mlp::new([8, 16, 16, 4], &device)?;
    model.layers[1].bias.as_ref().expect("a bias").set(&Tensor::full([16], -9.0, DType::F32, &device)?)?;
    let (input, target) = pair(&[32, 8], &[32, 4], &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-3, ..Default::default() })?;
    let report = reports(&model, &mut adam, (&input, &target), 5)?.remove(4).to_string();
    let page = include_str!("../../../docs/gradients.md");
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace().filter(|word| word.parse::<f64>().is_err()).map(str::to_owned).collect()
    };
    for line in report.lines() {
        let shown = page.lines().any(|other| words(other) == words(line));
        assert!(shown, "docs/gradients.md does not show this line of\n{report}\n{line}");
    }
    Ok(())
}
