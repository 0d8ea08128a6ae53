//! Whole training steps.

use crate::Case;
use crate::clock::{Clock, emit};
use crate::device::Kind;
use ternion::nn::optim::{Adam, AdamConfig, Optimizer};
use ternion::nn::{Conv2d, Conv2dConfig, Flatten, Forward, Linear, MaxPool2d, Mlp, Module, ReLU, Sequential};
use ternion::{DType, Device, Result, Tensor};

/// The MNIST perceptron of the PyTorch script for two batch sizes, and its convolutional network.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [64, 512].map(|batch| mnist("mlp", batch, mlp)).into_iter().collect();
    cases.push(mnist("cnn", 128, cnn));
    cases
}

fn mlp(device: &Device) -> Result<Box<dyn Forward>> {
    Ok(Box::new(Mlp::new([784, 128, 10], device)?))
}

fn cnn(device: &Device) -> Result<Box<dyn Forward>> {
    let convolution =
        |inputs, outputs| Conv2d::with_config([inputs, outputs], [3, 3], Conv2dConfig::padded(1), device);
    Ok(Box::new(
        Sequential::new()
            .with(convolution(1, 32)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [32, 14, 14]
            .with(convolution(32, 64)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [64, 7, 7]
            .with(Flatten::default())
            .with(Linear::new(64 * 7 * 7, 128, device)?)
            .with(ReLU)
            .with(Linear::new(128, 10, device)?),
    ))
}

/// A step op by op and recorded, of a network for images of digits.
fn mnist(kind: &str, batch: usize, network: fn(&Device) -> Result<Box<dyn Forward>>) -> Case {
    Case::new(format!("train/mnist_{kind}/f32/b{batch}"), move |clock, name| {
        let model = network(&clock.device)?;
        let mut adam = Adam::new(model.parameters(), AdamConfig { lr: 1e-3, ..Default::default() })?;
        let images = clock.randn(&[batch, 1, 28, 28], DType::F32)?;
        let labels = Tensor::randint(0, 10, [batch], DType::I64, &clock.device)?;
        let mut step = || -> Result<()> {
            let loss = model.forward(&images)?.cross_entropy(&labels)?;
            adam.step(&loss.backward()?)
        };
        report(clock, name, &format!("{}/eager", clock.implementation()), batch, &mut step)?;
        if clock.kind == Kind::Wgpu {
            // It records no steps.
            return Ok(());
        }
        let mut recorded = clock.device.capture(step)?;
        let seconds = clock.seconds_of_step(|| recorded.replay().map(drop))?;
        emit(name, "ternion/graph", seconds * 1e3, batch as f64 / seconds, "images/s");
        Ok(())
    })
}

fn report(
    clock: &Clock,
    name: &str,
    kind: &str,
    batch: usize,
    step: &mut impl FnMut() -> Result<()>,
) -> Result<()> {
    step()?;
    let before = clock.timed.launches()?;
    step()?;
    let launches = clock.timed.launches()? - before;
    let seconds = clock.seconds_of_step(step)?;
    emit(name, kind, seconds * 1e3, batch as f64 / seconds, "images/s");
    emit(&format!("launches/{name}"), kind, 0.0, launches as f64, "launches");
    Ok(())
}
