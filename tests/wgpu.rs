//! Training on wgpu beside the CPU: the steps of `examples/mnist.rs` with the same seed. Without wgpu in `TERNION_EXPECT` nothing is tested.

#[path = "../examples/support/digits.rs"]
#[allow(dead_code)] // other programs ask for more of both
mod digits;
#[path = "../examples/support/step.rs"]
#[allow(dead_code)]
mod step;

use digits::DigitSet;
use std::cell::RefCell;
use step::Step;
use ternion::prelude::*;
use ternion_testing::suite;

/// The last batch of an epoch is not full.
const BATCH: usize = 64;
const EPOCHS: u64 = 8;

/// How far the losses of a step may be apart, relative to the CPU's: sums are added in another order, and every step starts from what the last one left. On Mesa it is
/// below 1e-6.
const LOSS_TOLERANCE: f32 = 1e-5;

/// The CPU, and the first adapter where one is asked for.
fn devices() -> Option<[Device; 2]> {
    suite::expects("wgpu").then(|| {
        [ternion_cpu::device(), ternion_wgpu::device(0).expect("TERNION_EXPECT asks for an adapter")]
    })
}

/// A thousand digits to train on and 500 to test on: of MNIST where this machine has it, drawn elsewhere.
fn digits_to_train_and_test() -> Result<[Split; 2]> {
    let source = match std::env::var_os("TERNION_DATA") {
        Some(folder) => DataSource::Directory(folder.into()),
        None => DataSource::Synthetic { train: 1000, test: 500, seed: 3 },
    };
    let mnist = Mnist::load(source)?;
    Ok([mnist.train().first(1000), mnist.test().first(500)])
}

/// What a run leaves.
struct Run {
    /// The mean loss of each step.
    losses: Vec<f32>,
    /// The class of each digit of the test set.
    classes: Vec<i64>,
}

impl Run {
    /// The share of digits that are taken for what `split` says they are.
    fn accuracy(&self, split: &Split) -> f64 {
        let hits =
            self.classes.iter().zip(split.labels()).filter(|(class, label)| **class == i64::from(**label));
        hits.count() as f64 / self.classes.len() as f64
    }
}

/// Trains a classifier of two layers and asks it about the test set.
fn trained(device: &Device, seed: u64, [train, test]: &[Split; 2]) -> Result<Run> {
    device.seed(seed);
    let model = Mlp::new([784, 32, 10], device)?;
    let adam = AdamW::new(model.parameters(), AdamWConfig { lr: 3e-3, ..Default::default() })?;
    let adam = RefCell::new(adam);
    let digits = DigitSet::new(train, device)?;
    let mut step = Step::new(&model, &adam, &digits, BATCH)?;
    let mut losses = Vec::new();
    for epoch in 0..EPOCHS {
        let rows = digits.batches(&train.shuffled(seed).order(epoch), BATCH)?;
        for position in 0..rows.dims()[0] {
            losses.push(step.run(&rows.select(0, position)?)?.select(0, 0)?.item::<f32>()?);
        }
    }
    let images = DigitSet::new(test, device)?.images(0, test.len())?;
    let classes = no_grad(|| model.forward(&images)?.argmax(1)?.to_dtype(DType::I64)?.to_vec::<i64>())?;
    Ok(Run { losses, classes })
}

/// The largest distance of the losses of a step, relative to those of `reference`.
fn distance(losses: &[f32], reference: &[f32]) -> f32 {
    assert_eq!(losses.len(), reference.len());
    let apart =
        losses.iter().zip(reference).map(|(loss, reference)| (loss - reference).abs() / reference.abs());
    // NaN is the largest of all.
    apart.fold(0.0, |largest, apart| if apart <= largest { largest } else { apart })
}

#[test]
fn a_classifier_of_digits_trains_as_on_the_cpu() -> Result<()> {
    let Some([cpu, wgpu]) = devices() else { return Ok(()) };
    let digits = digits_to_train_and_test()?;
    let (want, got) = (trained(&cpu, 1, &digits)?, trained(&wgpu, 1, &digits)?);
    let apart = distance(&got.losses, &want.losses);
    assert!(
        apart <= LOSS_TOLERANCE,
        "losses are {apart} apart: {:?}, on the CPU {:?}",
        got.losses,
        want.losses
    );
    let [got_accuracy, want_accuracy] = [&got, &want].map(|run| run.accuracy(&digits[1]));
    assert!(want_accuracy > 0.75, "nothing was learnt: {want_accuracy}");
    assert_eq!(got_accuracy, want_accuracy);
    // What another seed does is farther away than rounding.
    let other = distance(&trained(&wgpu, 2, &digits)?.losses, &want.losses);
    assert!(other > 1000.0 * LOSS_TOLERANCE, "another seed is {other} apart");
    Ok(())
}
