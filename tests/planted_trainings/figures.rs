//! Faults that are visible in the metrics of a training run: the magnitudes of outputs, gradients
//! and updates.

use crate::{batch, device, planted, regression, sgd, watched};
use ternion::prelude::*;

/// The weights of one layer are a million times too large.
#[test]
fn outputs_that_explode() {
    let training = |large: bool| {
        let device = device();
        let model = Mlp::new([16; 5], &device)?;
        let weight = &model.layers[2].weight;
        weight.set(&weight.tensor().detach().mul_scalar(if large { 1e6 } else { 1.0 })?)?;
        regression(&model, 1e-15, 1, &batch(&[16, 16], &[16, 16], &device)?)
    };
    planted(training, &["ExplodingOutputs layers.2: outputs explode from layer to layer"]);
}

/// Initial weights with a standard deviation of 1 in each of eight layers: gradients grow in the
/// backward pass.
#[test]
fn gradients_that_explode() {
    let training = |large: bool| {
        let device = device();
        let model = Mlp::new([32; 9], &device)?;
        for layer in model.layers.iter().filter(|_| large) {
            layer.weight.set(&Tensor::randn([32, 32], DType::F32, &device)?)?;
        }
        regression(&model, 1e-15, 1, &batch(&[16, 32], &[16, 32], &device)?)
    };
    planted(training, &["ExplodingGradients layers.0: gradients explode in the backward pass: at layers.0"]);
}

/// Eight consecutive sigmoids.
#[test]
fn gradients_that_vanish() {
    let training = |sigmoids: bool| {
        let device = device();
        let mut model = Sequential::new();
        for _ in 0..8 {
            model.push(Linear::new(16, 16, &device)?);
            if sigmoids {
                model.push(Sigmoid);
            } else {
                model.push(ReLU);
            }
        }
        regression(&model, 1e-3, 1, &batch(&[16, 16], &[16, 16], &device)?)
    };
    planted(training, &["VanishingGradients 0: gradients vanish in the backward pass"]);
}

/// The weights of one layer are a million times too small.
#[test]
fn outputs_that_vanish() {
    let training = |small: bool| {
        let device = device();
        let model = Mlp::new([16; 4], &device)?;
        let scale = if small { 1e-6 } else { 1.0 };
        for param in model.layers[2].parameters() {
            param.set(&param.tensor().detach().mul_scalar(scale)?)?;
        }
        regression(&model, 1e-9, 5, &batch(&[16, 16], &[16, 16], &device)?).map(without_small_updates)
    };
    planted(training, &["VanishingOutputs layers.2: its outputs are"]);
}

/// Returns the report without `SmallUpdates`, which are intended here.
fn without_small_updates(reported: String) -> String {
    let lines: Vec<&str> = reported.lines().filter(|line| !line.starts_with("SmallUpdates")).collect();
    lines.join("\n")
}

/// Biases so far below 0 that all outputs of a layer's ReLUs are 0.
#[test]
fn units_that_are_dead() {
    let training = |dead: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        if dead {
            model.layers[0].bias.as_ref().expect("a bias").set(&Tensor::full(
                [16],
                -50.0,
                DType::F32,
                &device,
            )?)?;
        }
        regression(&model, 0.01, 2, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["DeadReLU relu after layers.0: all its outputs are 0"]);
}

/// Initial weights so large that a sigmoid and a tanh are saturated for each example.
#[test]
fn a_sigmoid_and_a_tanh_that_are_saturated() {
    let training = |large: bool| {
        let device = device();
        let model = Sequential::new()
            .with(Linear::new(8, 16, &device)?)
            .with(Sigmoid)
            .with(Linear::new(16, 16, &device)?)
            .with(Tanh)
            .with(Linear::new(16, 4, &device)?);
        for param in model.parameters().iter().take(4).filter(|_| large) {
            param.set(&param.tensor().detach().mul_scalar(300.0)?)?;
        }
        regression(&model, 1e-3, 5, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["Saturated 1: ", "where sigmoid is flat", "Saturated 3: ", "where tanh is flat"]);
}

/// Hand-written attention.
#[derive(Module)]
struct Attends {
    query: Linear,
    key: Linear,
    value: Linear,
    #[module(skip)]
    is_wrong: bool,
}

impl Forward for Attends {
    /// In the wrong variant the softmax of the scores is along the axis of heads, which has size 1,
    /// so that every weight is 1.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let [batch, length, width] = input.sizes::<3>()?;
        let heads = |x: Tensor| x.reshape([batch, 1, length, width]);
        let (query, key) = (heads(self.query.forward(input)?)?, heads(self.key.forward(input)?)?);
        let scores = query.matmul(&key.transpose(2, 3)?)?.div_scalar((width as f64).sqrt())?;
        let weights = scores.softmax(if self.is_wrong { 1 } else { 3 })?;
        let mixed = weights.matmul(&heads(self.key.forward(input)?)?)?.reshape([batch, length, width])?;
        self.value.forward(&mixed)
    }
}

/// A softmax along the wrong axis, of size 1.
#[test]
fn a_softmax_along_an_axis_of_size_1() {
    let training = |is_wrong| {
        let device = device();
        let linear = || Linear::new(8, 8, &device);
        let model = Attends { query: linear()?, key: linear()?, value: linear()?, is_wrong };
        regression(&model, 0.01, 2, &batch(&[4, 6, 8], &[4, 6, 8], &device)?)
    };
    planted(
        training,
        &["Saturated softmax after key: 100 % of its outputs are", "one of size 1 gives 1 for everything"],
    );
}

/// A rounding after a layer: its gradient is 0.
#[test]
fn a_rounding_that_stops_gradients() {
    #[derive(Module)]
    struct Rounds {
        first: Linear,
        last: Linear,
        #[module(skip)]
        rounds: bool,
    }
    impl Forward for Rounds {
        fn forward(&self, input: &Tensor) -> Result<Tensor> {
            let hidden = self.first.forward(input)?;
            self.last.forward(&if self.rounds { hidden.round()? } else { hidden.relu()? })
        }
    }
    let training = |rounds| {
        let device = device();
        let model = Rounds { first: Linear::new(8, 8, &device)?, last: Linear::new(8, 4, &device)?, rounds };
        regression(&model, 0.01, 5, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["ZeroGradient first: all gradients of its parameters were 0", "a rounding"]);
}

/// The sum over a batch and its outputs instead of the mean: updates are thousands of times too
/// large.
#[test]
fn a_sum_instead_of_a_mean() {
    let training = |sums: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, target] = batch(&[512, 8], &[512, 4], &device)?;
        let reduction = if sums { Reduction::Sum } else { Reduction::Mean };
        watched(&model, &mut sgd(&model, 0.05)?, 1, || model.forward(&x)?.mse_loss(&target, reduction))
    };
    planted(
        training,
        &["LargeUpdates layers.1.weight: the step changed it by", "divide the learning rate by about"],
    );
}

/// A loss that was divided by the size of the data twice: updates are below the resolution of the
/// weights.
#[test]
fn a_loss_that_is_too_small() {
    let training = |small: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let scale = if small { 1e-7 } else { 1.0 };
        watched(&model, &mut sgd(&model, 0.01)?, 5, || {
            model.forward(&x)?.mse_loss(&target, Reduction::Mean)?.mul_scalar(scale)
        })
    };
    planted(
        training,
        &[
            "SmallUpdates layers.1.weight: no weight changed by more",
            "the learning rate, or the gradients, are too small",
        ],
    );
}

/// A learning rate a thousand times too large for Adam.
#[test]
fn a_learning_rate_that_is_too_large() {
    let training = |large: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let lr = if large { 1.0 } else { 1e-3 };
        let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr, ..Default::default() })?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        watched(&model, &mut adam, 2, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))
    };
    planted(training, &["LargeUpdates layers.1.weight: the step changed it by"]);
}

/// Gradients are added to those of earlier steps, which are never reset.
#[test]
fn gradients_that_are_never_reset() {
    let training = |keeps_gradients: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let mut sgd = sgd(&model, 0.05)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let mut monitor = StatsMonitor::new(StatsConfig { every: 1, ..Default::default() })?;
        let (mut gathered, mut reported) = (Gradients::default(), String::new());
        for step in 0..3 {
            let loss =
                monitor.watch(&model, step, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))?;
            if !keeps_gradients {
                gathered = Gradients::default();
            }
            gathered.accumulate(loss.backward()?)?;
            let report = monitor.step(&mut sgd, &gathered)?.expect("each step");
            report
                .warnings
                .iter()
                .for_each(|warning| reported += &format!("{:?} {warning}\n", warning.fault));
        }
        Ok(reported)
    };
    planted(
        training,
        &[
            "StaleGradients layers.0.weight, layers.0.bias, layers.1.weight and layers.1.bias: gradients were added",
        ],
    );
}

/// A learning rate that is raised ten million times during a training run, between two readings.
#[test]
fn a_learning_rate_that_is_raised_later() {
    let training = |raised: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let mut sgd = sgd(&model, 1e-3)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let mut monitor = StatsMonitor::new(StatsConfig { every: 4, ..Default::default() })?;
        let mut reported = String::new();
        for step in 0..5 {
            if raised && step == 2 {
                sgd.set_lr(1e4)?;
            }
            let loss =
                monitor.watch(&model, step, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))?;
            let report = monitor.step(&mut sgd, &loss.backward()?)?;
            let warnings = report.iter().flat_map(|report| &report.warnings);
            warnings.for_each(|warning| reported += &format!("{:?} {}\n", warning.fault, warning.message));
        }
        Ok(reported)
    };
    let words = [
        "NotFinite relu after layers.0: ",
        "the learning rate rose from 0.001 to 10000 since the reading before",
    ];
    planted(training, &words);
}

/// A weight decay that removes all of a weight in a step.
#[test]
fn a_weight_decay_that_is_too_large() {
    let training = |large: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let weight_decay = if large { 1e3 } else { 1e-2 };
        let config = AdamWConfig { lr: 1e-3, weight_decay, ..Default::default() };
        let mut adam = AdamW::new(model.parameters(), config)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        watched(&model, &mut adam, 1, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))
    };
    planted(
        training,
        &[
            "LargeUpdates layers.1.weight: the step changed it by",
            "it goes straight to 0, as weight decay goes: divide weight_decay",
        ],
    );
}

/// A learning rate of 0.
#[test]
fn a_learning_rate_of_0() {
    let training = |zero: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        regression(&model, if zero { 0.0 } else { 0.01 }, 5, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["SmallUpdates layers.1.weight: no weight changed", "the learning rate is 0"]);
}

/// A hook removes the gradient of a weight in each step, and keeps that of the bias.
#[test]
fn a_weight_whose_gradient_is_removed() {
    let training = |removes_gradient: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        if removes_gradient {
            let zeros = |grad: &Tensor| grad.zeros_like().map(Some);
            model.layers[0].weight.tensor().register_hook(zeros)?;
        }
        regression(&model, 0.01, 6, &batch(&[16, 8], &[16, 4], &device)?)
    };
    let words = [
        "ZeroGradient layers.0.weight: its gradient was 0 in each of the last 5 readings",
        "that of layers.0.bias was not",
    ];
    planted(training, &words);
}

/// Small gradients of the first of many layers are not a fault if each layer is updated by the same
/// fraction of its size, as with Adam, also with the default initialization, which halves the
/// gradients from layer to layer.
#[test]
fn small_gradients_of_layers_that_learn() {
    let device = device();
    let model = Mlp::new([32; 10], &device).expect("a model");
    let [x, target] = batch(&[64, 32], &[64, 32], &device).expect("a batch");
    let loss = || model.forward(&x)?.mse_loss(&target, Reduction::Mean);
    let config = AdamWConfig { lr: 3e-4, ..Default::default() };
    let mut adam = AdamW::new(model.parameters(), config).expect("an optimizer");
    assert_eq!(watched(&model, &mut adam, 3, loss).expect("a training"), "");
    let reported =
        watched(&model, &mut sgd(&model, 3e-4).expect("an optimizer"), 1, loss).expect("a training");
    assert!(
        reported.starts_with("VanishingGradients layers.0: gradients vanish in the backward pass"),
        "{reported}"
    );
}
