//! Faults planted in small training runs, one in each test: the error or the warning of the monitor
//! names the op, layer or parameter at fault, and the same training run without the fault causes no
//! warning.

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

/// Trains with the fault and without it. With the fault the report must contain these words;
/// without it the report must be empty.
#[track_caller]
fn planted(training: impl Fn(bool) -> Result<String>, words: &[&str]) {
    let reported = training(true).unwrap_or_else(|error| error.to_string());
    for word in words {
        assert!(reported.contains(word), "expected {word:?} in what is reported:\n{reported}");
    }
    match training(false) {
        Ok(reported) => assert_eq!(reported, "", "warned of a training run without a fault"),
        Err(error) => panic!("a training without a fault ends with {error}"),
    }
}

/// Returns all warnings of the monitor in these steps, one per line. An error ends the training run
/// and is the last line.
fn watched(
    model: &impl Module,
    optimizer: &mut impl Optimizer,
    steps: u64,
    loss: impl Fn() -> Result<Tensor>,
) -> Result<String> {
    let mut monitor = StatsMonitor::new(StatsConfig { every: 1, ..Default::default() })?;
    let mut reported: Vec<String> = Vec::new();
    for step in 0..steps {
        let loss = monitor.watch(model, step, &loss)?;
        let Some(report) = monitor.step(optimizer, &loss.backward()?)? else { continue };
        for warning in report.warnings {
            reported.push(format!("{:?} {}", warning.fault, warning.message));
        }
    }
    Ok(reported.join("\n"))
}

/// Returns SGD for all parameters.
fn sgd(model: &impl Module, lr: f64) -> Result<SGD> {
    SGD::new(model.parameters(), SGDConfig { lr, ..Default::default() })
}

/// Trains with the mean squared error between the model's output for `x` and `target`.
fn regression(model: &impl Forward, lr: f64, steps: u64, [x, target]: &[Tensor; 2]) -> Result<String> {
    watched(model, &mut sgd(model, lr)?, steps, || model.forward(x)?.mse_loss(target, Reduction::Mean))
}

/// Returns random inputs and targets.
fn batch(x: &[usize], target: &[usize], device: &Device) -> Result<[Tensor; 2]> {
    Ok([Tensor::randn(x, DType::F32, device)?, Tensor::randn(target, DType::F32, device)?])
}

/// Returns inputs and class indices.
fn classes(x: &[usize], classes: i64, device: &Device) -> Result<[Tensor; 2]> {
    let labels: Vec<i64> = (0..x[0] as i64).map(|row| row % classes).collect();
    Ok([Tensor::randn(x, DType::F32, device)?, Tensor::from_slice(&labels, [x[0]], device)?])
}
