//! Faults that are planted into small trainings, one in each test: what a user meets (an error, or a sentence of the monitor) names the op, layer or parameter at fault, and the same
//! training without the fault is told nothing.

#[path = "planted_trainings/data.rs"]
mod data;
#[path = "planted_trainings/figures.rs"]
mod figures;
#[path = "planted_trainings/graph.rs"]
mod graph;
#[path = "planted_trainings/setup.rs"]
mod setup;

use ternion::prelude::*;

fn device() -> Device {
    let device = ternion_cpu::device();
    device.seed(7);
    device
}

/// Trains with a fault, and without: what is told must have these words, and be nothing.
#[track_caller]
fn planted(training: impl Fn(bool) -> Result<String>, words: &[&str]) {
    let told = training(true).unwrap_or_else(|error| error.to_string());
    for word in words {
        assert!(told.contains(word), "expected {word:?} in what is told:\n{told}");
    }
    match training(false) {
        Ok(told) => assert_eq!(told, "", "told of a training without a fault"),
        Err(error) => panic!("a training without a fault ends with {error}"),
    }
}

/// All that the monitor says of some steps, one sentence in a line; an error ends the training and is the last line.
fn watched(
    model: &impl Module,
    optimizer: &mut impl Optimizer,
    steps: u64,
    loss: impl Fn() -> Result<Tensor>,
) -> Result<String> {
    let mut monitor = StatsMonitor::new(StatsConfig { every: 1, ..Default::default() })?;
    let mut told: Vec<String> = Vec::new();
    for step in 0..steps {
        let loss = monitor.watch(model, step, &loss)?;
        let Some(report) = monitor.step(optimizer, &loss.backward()?)? else { continue };
        for warning in report.warnings {
            told.push(format!("{:?} {}", warning.fault, warning.text));
        }
    }
    Ok(told.join("\n"))
}

/// Stochastic gradient descent of all parameters.
fn sgd(model: &impl Module, lr: f64) -> Result<SGD> {
    SGD::new(model.parameters(), SGDConfig { lr, ..Default::default() })
}

/// Trains by the mean square of what the model gives for `x` less `target`.
fn regression(model: &impl Forward, lr: f64, steps: u64, [x, target]: &[Tensor; 2]) -> Result<String> {
    watched(model, &mut sgd(model, lr)?, steps, || model.forward(x)?.mse_loss(target, Reduction::Mean))
}

/// Random inputs and targets.
fn batch(x: &[usize], target: &[usize], device: &Device) -> Result<[Tensor; 2]> {
    Ok([Tensor::randn(x, DType::F32, device)?, Tensor::randn(target, DType::F32, device)?])
}

/// Inputs and class indices.
fn classes(x: &[usize], classes: i64, device: &Device) -> Result<[Tensor; 2]> {
    let labels: Vec<i64> = (0..x[0] as i64).map(|row| row % classes).collect();
    Ok([Tensor::randn(x, DType::F32, device)?, Tensor::from_slice(&labels, [x[0]], device)?])
}
