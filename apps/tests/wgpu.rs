//! Training on wgpu compared with the CPU: the steps of `apps/src/mnist` with the same seed.
//! Nothing is tested unless `TERNION_EXPECT` contains wgpu.

use std::cell::RefCell;
use ternion::nn::Ema;
use ternion::nn::schedule::ReduceLROnPlateau;
use ternion::prelude::*;
use ternion_apps::mnist::step::Step;
use ternion_apps::support::digits::DigitSet;
use ternion_testing::suite;

/// The last batch of an epoch is not full.
const BATCH: usize = 64;
const EPOCHS: u64 = 8;

/// The largest difference of the losses of a step, relative to the CPU's: sums are added in another
/// order, and every step starts from the result of the previous one. On Mesa it is below 1e-6.
const LOSS_TOLERANCE: f32 = 1e-5;

/// The CPU, and the first adapter if one is requested.
fn devices() -> Option<[Device; 2]> {
    suite::expects("wgpu").then(|| {
        [ternion_cpu::device(), ternion_wgpu::device(0).expect("TERNION_EXPECT asks for an adapter")]
    })
}

/// A thousand digits to train on and 500 to test on: of MNIST if this machine has it, else
/// synthetic.
fn digits_to_train_and_test() -> Result<[Split; 2]> {
    let source = match std::env::var_os("TERNION_DATA") {
        Some(folder) => DataSource::Directory(folder.into()),
        None => DataSource::Synthetic { train: 1000, test: 500, seed: 3 },
    };
    let mnist = Mnist::load(source)?;
    Ok([mnist.train().first(1000), mnist.test().first(500)])
}

/// The results of a run.
struct Run {
    /// The mean loss of each step.
    losses: Vec<f32>,
    /// The class of each digit of the test set.
    classes: Vec<i64>,
}

impl Run {
    /// Returns the fraction of digits whose class is that of `split`.
    fn accuracy(&self, split: &Split) -> f64 {
        let hits =
            self.classes.iter().zip(split.labels()).filter(|(class, label)| **class == i64::from(**label));
        hits.count() as f64 / self.classes.len() as f64
    }
}

/// Trains a classifier of two layers and tests it.
fn train_classifier(device: &Device, seed: u64, [train, test]: &[Split; 2]) -> Result<Run> {
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

/// Returns the largest difference of the losses of a step, relative to those of `reference`.
fn distance(losses: &[f32], reference: &[f32]) -> f32 {
    assert_eq!(losses.len(), reference.len());
    let differences =
        losses.iter().zip(reference).map(|(loss, reference)| (loss - reference).abs() / reference.abs());
    // NaN is propagated.
    differences.fold(0.0, |largest, difference| if difference <= largest { largest } else { difference })
}

#[test]
fn a_classifier_of_digits_trains_as_on_the_cpu() -> Result<()> {
    let Some([cpu, wgpu]) = devices() else { return Ok(()) };
    let digits = digits_to_train_and_test()?;
    let (want, got) = (train_classifier(&cpu, 1, &digits)?, train_classifier(&wgpu, 1, &digits)?);
    let difference = distance(&got.losses, &want.losses);
    assert!(
        difference <= LOSS_TOLERANCE,
        "losses are {difference} apart: {:?}, on the CPU {:?}",
        got.losses,
        want.losses
    );
    let [got_accuracy, want_accuracy] = [&got, &want].map(|run| run.accuracy(&digits[1]));
    assert!(want_accuracy > 0.75, "nothing was learned: {want_accuracy}");
    assert_eq!(got_accuracy, want_accuracy);
    // Another seed makes a larger difference than rounding.
    let other = distance(&train_classifier(&wgpu, 2, &digits)?.losses, &want.losses);
    assert!(other > 1000.0 * LOSS_TOLERANCE, "another seed is {other} apart");
    Ok(())
}

/// A small training run with dropout, averaged weights and a stateful schedule.
struct Training {
    device: Device,
    model: Sequential,
    adam: AdamW,
    ema: Ema,
    plateau: ReduceLROnPlateau,
    losses: Vec<f64>,
}

impl Training {
    fn new(device: &Device) -> Result<Training> {
        device.seed(4);
        let model = Sequential::new()
            .with(Linear::new(6, 16, device)?)
            .with(Dropout::new(0.25)?)
            .with(Linear::new(16, 1, device)?);
        Ok(Training {
            adam: AdamW::new(model.parameters(), AdamWConfig { lr: 0.01, ..Default::default() })?,
            ema: Ema::new(model.parameters(), Default::default())?,
            plateau: ReduceLROnPlateau::new(0.01, Default::default())?,
            losses: Vec::new(),
            device: device.clone(),
            model,
        })
    }

    fn state(&mut self) -> TrainingState<'_> {
        TrainingState::new(&self.device)
            .model("model", &self.model)
            .optimizer("adam", &mut self.adam)
            .part("ema", &mut self.ema)
            .part("plateau", &mut self.plateau)
            .part("losses", &mut self.losses)
    }

    fn steps(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let input = Tensor::rand([8, 6], DType::F32, &self.device)?;
            let loss = self.model.forward(&input)?.mse_loss(&input.sum_keep(1)?.detach(), Reduction::Mean)?;
            self.adam.step(&loss.backward()?)?;
            self.ema.update()?;
            self.losses.push(loss.item_f64()?);
            self.adam.set_lr(self.plateau.step(self.losses[self.losses.len() - 1]))?;
        }
        Ok(())
    }
}

#[test]
fn a_checkpoint_of_one_device_goes_on_on_the_other() -> Result<()> {
    let Some([cpu, wgpu]) = devices() else { return Ok(()) };
    let folder = std::env::temp_dir().join(format!("ternion-wgpu-checkpoint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let file = |name: &str| folder.join(name);
    let bytes = |name: &str| std::fs::read(file(name)).expect("it was written");
    let mut first = Training::new(&cpu)?;
    first.steps(6)?;
    first.state().save(6, file("cpu"))?;
    first.steps(6)?;
    // The state is copied back and forth without changing a bit.
    let mut second = Training::new(&wgpu)?;
    second.state().resume(file("cpu"))?;
    second.state().save(6, file("wgpu"))?;
    assert!(bytes("cpu") == bytes("wgpu"), "a device changed what it only carried");
    second.steps(6)?;
    let differences =
        first.losses.iter().zip(&second.losses).map(|(cpu, wgpu)| (cpu - wgpu).abs() / cpu.abs());
    let largest = differences.fold(0.0, f64::max);
    assert_eq!((first.losses.len(), second.losses.len()), (12, 12));
    assert!(largest <= f64::from(LOSS_TOLERANCE), "losses are {largest:e} apart");
    assert_eq!(cpu.random_position(), wgpu.random_position());
    second.state().save(12, file("later"))?;
    let mut third = Training::new(&cpu)?;
    assert_eq!(third.state().resume(file("later"))?, 12);
    assert_eq!(third.losses, second.losses);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}
