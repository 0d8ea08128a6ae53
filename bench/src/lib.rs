//! What both MNIST programs share: arguments, and the JSON that they print.

use clap::Parser;
use std::time::Duration;

/// The task of `examples/mnist.rs --model mlp --hidden 128 --batch 64 --lr 1e-3`.
#[derive(Parser, Debug)]
pub struct Arguments {
    /// Folder with the MNIST files.
    #[arg(long)]
    pub data: std::path::PathBuf,
    /// Passes over the training set.
    #[arg(long, default_value_t = 2)]
    pub epochs: usize,
    /// Images in a batch.
    #[arg(long, default_value_t = 64)]
    pub batch: usize,
    /// Seed of the weights and of the order of images.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The training and test sets as rows of pixels between 0 and 1.
pub struct Digits {
    /// Training images, 784 values each.
    pub images: Vec<f32>,
    /// Their digits.
    pub labels: Vec<u8>,
    /// Test images.
    pub test_images: Vec<f32>,
    /// Their digits.
    pub test_labels: Vec<u8>,
}

/// Prints the fastest epoch and the accuracy as JSON.
pub fn report(who: &str, epochs: &[Duration], accuracy: f64) {
    let seconds: Vec<f64> = epochs.iter().map(Duration::as_secs_f64).collect();
    let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{}", serde_json::json!({"who": who, "epoch_seconds": fastest, "epochs": seconds, "test_accuracy": accuracy}));
}

/// Reads the four MNIST files from `folder`.
///
/// # Errors
/// A file is missing or corrupt.
pub fn load(folder: &std::path::Path) -> Result<Digits, Box<dyn std::error::Error>> {
    let mnist = ternion::data::Mnist::load(ternion::data::DataSource::Directory(folder.to_path_buf()))?;
    let scale = |pixels: &[u8]| pixels.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
    Ok(Digits {
        images: scale(mnist.train().pixels()),
        labels: mnist.train().labels().to_vec(),
        test_images: scale(mnist.test().pixels()),
        test_labels: mnist.test().labels().to_vec(),
    })
}

/// Shuffles `order` into a random order that depends only on `seed`.
pub fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed;
    for end in (1..order.len()).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        order.swap(end, (state >> 33) as usize % (end + 1));
    }
}
