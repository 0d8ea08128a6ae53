//! The MNIST MLP of `examples/mnist.rs`, written for candle-core: 784-hidden-10, ReLU, AdamW.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap, linear};
use clap::Parser;
use std::time::Instant;
use ternion_bench_cpu::{Arguments, Digits, load, report, shuffle};

struct Mlp {
    first: Linear,
    second: Linear,
}

impl Mlp {
    fn new(parameters: &VarBuilder<'_>) -> Result<Mlp> {
        Ok(Mlp { first: linear(784, 128, parameters.pp("0"))?, second: linear(128, 10, parameters.pp("2"))? })
    }

    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(images)?.relu()?)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let digits = load(&arguments.data)?;
    let device = Device::Cpu;
    let parameters = VarMap::new();
    let model = Mlp::new(&VarBuilder::from_varmap(&parameters, DType::F32, &device))?;
    let mut optimiser = AdamW::new(parameters.all_vars(), ParamsAdamW { lr: 1e-3, ..Default::default() })?;
    let mut order: Vec<usize> = (0..digits.labels.len()).collect();
    let mut epochs = Vec::new();
    for epoch in 0..arguments.epochs {
        let start = Instant::now();
        shuffle(&mut order, arguments.seed + epoch as u64);
        for batch in order.chunks(arguments.batch) {
            let (images, labels) = gather(&digits, batch, &device)?;
            let loss = candle_nn::loss::cross_entropy(&model.forward(&images)?, &labels)?;
            optimiser.backward_step(&loss)?;
        }
        epochs.push(start.elapsed());
    }
    let images = Tensor::from_slice(&digits.test_images, (digits.test_labels.len(), 784), &device)?;
    let guesses = model.forward(&images)?.argmax(1)?.to_vec1::<u32>()?;
    let right = guesses.iter().zip(&digits.test_labels).filter(|(guess, label)| **guess == u32::from(**label)).count();
    report("candle", &epochs, right as f64 / digits.test_labels.len() as f64);
    Ok(())
}

fn gather(digits: &Digits, batch: &[usize], device: &Device) -> Result<(Tensor, Tensor)> {
    let mut images = Vec::with_capacity(batch.len() * 784);
    let mut labels = Vec::with_capacity(batch.len());
    for &index in batch {
        images.extend_from_slice(&digits.images[index * 784..(index + 1) * 784]);
        labels.push(u32::from(digits.labels[index]));
    }
    Ok((Tensor::from_vec(images, (batch.len(), 784), device)?, Tensor::from_vec(labels, batch.len(), device)?))
}
