//! The counterpart of `candle_mnist`, with the same batches in the same order.

use clap::Parser;
use std::time::Instant;
use ternion::prelude::*;
use ternion_bench_cpu::{Arguments, Digits, load, report, shuffle};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let digits = load(&arguments.data)?;
    let device = ternion::cpu()?;
    device.seed(arguments.seed);
    let model = Mlp::new([784, 128, 10], &device)?;
    let mut optimiser = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-3, ..Default::default() })?;
    let mut order: Vec<usize> = (0..digits.labels.len()).collect();
    let mut epochs = Vec::new();
    for epoch in 0..arguments.epochs {
        let start = Instant::now();
        shuffle(&mut order, arguments.seed + epoch as u64);
        for batch in order.chunks(arguments.batch) {
            let (images, labels) = gather(&digits, batch, &device)?;
            let loss = model.forward(&images)?.cross_entropy(&labels)?;
            optimiser.step(&loss.backward()?)?;
        }
        epochs.push(start.elapsed());
    }
    let images = Tensor::from_slice(&digits.test_images, [digits.test_labels.len(), 784], &device)?;
    let guesses = no_grad(|| model.forward(&images))?.argmax(1)?.to_vec::<i32>()?;
    let right = guesses.iter().zip(&digits.test_labels).filter(|(guess, label)| **guess == i32::from(**label)).count();
    report("ternion", &epochs, right as f64 / digits.test_labels.len() as f64);
    Ok(())
}

fn gather(digits: &Digits, batch: &[usize], device: &Device) -> Result<(Tensor, Tensor)> {
    let mut images = Vec::with_capacity(batch.len() * 784);
    let mut labels = Vec::with_capacity(batch.len());
    for &index in batch {
        images.extend_from_slice(&digits.images[index * 784..(index + 1) * 784]);
        labels.push(i32::from(digits.labels[index]));
    }
    Ok((Tensor::from_vec(images, [batch.len(), 784], device)?, Tensor::from_vec(labels, [batch.len()], device)?))
}
