//! Whole training steps.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::nn::optim::{Adam, AdamConfig, Optimizer};
use ternion::nn::{Forward, Mlp, Module};
use ternion::{DType, Result, Tensor};

/// The MNIST perceptron of the PyTorch script, for two batch sizes.
pub fn cases() -> Vec<Case> {
    [64, 512].map(mnist_mlp).into_iter().collect()
}

fn mnist_mlp(batch: usize) -> Case {
    Case::new(format!("train/mnist_mlp/f32/b{batch}"), move |clock, name| {
        let model = Mlp::new([784, 128, 10], &clock.device)?;
        let mut adam = Adam::new(model.parameters(), AdamConfig { lr: 1e-3, ..Default::default() })?;
        let images = clock.randn(&[batch, 1, 28, 28], DType::F32)?;
        let labels = Tensor::randint(0, 10, [batch], DType::I64, &clock.device)?;
        let mut step = || -> Result<()> {
            let loss = model.forward(&images)?.cross_entropy(&labels)?;
            adam.step(&loss.backward()?)
        };
        report(clock, name, "ternion/eager", batch, &mut step)?;
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
    let before = clock.cuda()?.launches();
    step()?;
    let launches = clock.cuda()?.launches() - before;
    let seconds = clock.seconds_of_step(step)?;
    emit(name, kind, seconds * 1e3, batch as f64 / seconds, "images/s");
    emit(&format!("launches/{name}"), kind, 0.0, launches as f64, "launches");
    Ok(())
}
