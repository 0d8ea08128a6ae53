//! A convolutional network with batch normalization and dropout: a custom module, training and
//! evaluation mode, and a learning rate schedule. Trains on MNIST's digits, or on synthetic ones
//! where MNIST is not found.
//!
//!     cargo run --release -p examples --example cnn
//!     cargo run --release -p examples --features cuda --example cnn -- cuda

use ternion::nn::schedule::CosineAnnealingLR;
use ternion::prelude::*;

const EPOCHS: u64 = 2;
const BATCH_SIZE: usize = 100;
const TRAINED_DIGITS: usize = 10_000;

/// Two blocks of convolution, batch normalization, ReLU and pooling, then a linear classifier.
#[derive(Module)]
struct Cnn {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    pool: MaxPool2d,
    dropout: Dropout,
    classifier: Linear,
}

impl Cnn {
    fn new(device: &Device) -> Result<Cnn> {
        Ok(Cnn {
            conv1: Conv2d::new(1, 16, [3, 3], device)?,
            norm1: BatchNorm2d::new(16, device)?,
            conv2: Conv2d::new(16, 32, [3, 3], device)?,
            norm2: BatchNorm2d::new(32, device)?,
            pool: MaxPool2d::new(2),
            dropout: Dropout::new(0.25)?,
            classifier: Linear::new(32 * 5 * 5, 10, device)?,
        })
    }
}

impl Forward for Cnn {
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let x = self.norm1.forward(&self.conv1.forward(images)?)?.relu()?; // [batch, 16, 26, 26]
        let x = self.pool.forward(&x)?; // [batch, 16, 13, 13]
        let x = self.norm2.forward(&self.conv2.forward(&x)?)?.relu()?; // [batch, 32, 11, 11]
        let x = self.pool.forward(&x)?.flatten(1, -1)?; // [batch, 32 * 5 * 5]
        self.classifier.forward(&self.dropout.forward(&x)?)
    }
}

fn main() -> Result<()> {
    let device = ternion::device(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    device.seed(1);
    let (digits, origin) = Mnist::load_or_synthetic(DataSource::Auto)?;
    println!("{origin}");
    let (model, train) = (Cnn::new(&device)?, digits.train().first(TRAINED_DIGITS));
    println!("{}", summary(&model, &Tensor::zeros([BATCH_SIZE, 1, 28, 28], DType::F32, &device)?)?);

    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 3e-3, ..Default::default() })?;
    let batches = train.shuffled(1).batches(BATCH_SIZE, &device);
    let schedule = CosineAnnealingLR::new(3e-3, EPOCHS * batches.len() as u64, 0.0)?;
    let test_batches = digits.test().first(1000).batches(1000, &device);
    let mut step = 0;
    for epoch in 0..EPOCHS {
        model.train();
        let mut loss = Tensor::zeros((), DType::F32, &device)?;
        for batch in batches.epoch(epoch) {
            let batch = batch?;
            adam.set_lr(schedule.lr(step))?;
            loss = model.forward(&batch.images)?.cross_entropy(&batch.labels)?;
            adam.step(&loss.backward()?)?;
            step += 1;
        }
        model.eval(); // running statistics instead of the batch's, and no dropout
        let test = test_batches.clone().into_iter().next().expect("one batch")?;
        let accuracy = no_grad(|| model.forward(&test.images))?.accuracy(&test.labels)?.item_f64()?;
        println!(
            "epoch {}/{EPOCHS}  loss {:.4}  test accuracy {:.1} %",
            epoch + 1,
            loss.item_f64()?,
            accuracy * 100.0
        );
    }
    Ok(())
}
