//! Trains a classifier of handwritten digits and measures its accuracy on the test set.
//!
//!     cargo run --release -p examples --example mnist
//!     cargo run --release -p examples --features download --example mnist
//!     cargo run --release -p examples --features cuda --example mnist -- cuda
//!
//! MNIST is read from `$TERNION_DATA` or the user's cache directory; the feature `download` fetches
//! it. Where it is not found, the program trains on synthetic digits and prints that it does.
//!
//! The program `apps/src/mnist` adds a command line, checkpoints, plots and recorded steps.

use std::io::Write;
use std::time::Instant;
use ternion::prelude::*;

const EPOCHS: u64 = 5;
const BATCH_SIZE: usize = 64;
const STEPS_PER_REPORT: usize = 100;

fn main() -> Result<()> {
    let device = ternion::device(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    device.seed(1);
    let (digits, origin) = Mnist::load_or_synthetic(DataSource::Auto)?;
    println!("{origin}");

    let model = Mlp::new([784, 128, 10], &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-3, ..Default::default() })?;
    println!("{} parameters, {} digits, on {device}", model.parameter_count(), digits.train().len());

    let batches = digits.train().shuffled(1).batches(BATCH_SIZE, &device);
    for epoch in 0..EPOCHS {
        let started = Instant::now();
        let mut last_loss = f64::NAN;
        for (step, batch) in batches.epoch(epoch).into_iter().enumerate() {
            let batch = batch?; // images [64, 1, 28, 28], labels [64]
            let loss = model.forward(&batch.images)?.cross_entropy(&batch.labels)?;
            adam.step(&loss.backward()?)?;
            if (step + 1) % STEPS_PER_REPORT == 0 {
                last_loss = loss.item_f64()?;
                print!("\rstep {}/{}  loss {last_loss:.4}", step + 1, batches.len());
                let _ = std::io::stdout().flush();
            }
        }
        let accuracy = test_accuracy(&model, digits.test(), &device)? * 100.0;
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "\repoch {}/{EPOCHS}  loss {last_loss:.4}  test accuracy {accuracy:.2} %  {seconds:.1} s",
            epoch + 1
        );
    }
    ternion::nn::save(&model, "mnist.safetensors")?;
    println!("weights saved in mnist.safetensors");
    Ok(())
}

/// The fraction of the split's digits that the model classifies correctly.
fn test_accuracy(model: &Mlp, split: &Split, device: &Device) -> Result<f64> {
    let mut correct = 0.0;
    for batch in split.batches(1000, device) {
        let batch = batch?;
        let accuracy = no_grad(|| model.forward(&batch.images))?.accuracy(&batch.labels)?;
        correct += accuracy.item_f64()? * batch.size as f64;
    }
    Ok(correct / split.len() as f64)
}
