//! Trains a classifier of small photographs (CIFAR-10).
//!
//! ```sh
//! cargo run --release -p apps --bin cifar10
//! cargo run --release -p apps --bin cifar10 \
//!     -- --data cifar-10-batches-bin --plot curve.svg --save run.safetensors
//! cargo run --release -p apps --features cuda --bin cifar10 \
//!     -- --device cuda --model resnet18 --epochs 30
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin cifar10 -- \
//!     --device cuda --nvtx --eager --epochs 1
//! ```
//!
//! The whole training step is recorded, if the device supports that, and replayed as one; with
//! `--eager` it runs op by op.
//!
//! The program searches this machine for the data set (`--data`, $TERNION_DATA, the user's cache).
//! If it finds none, it draws colored shapes instead, and says so.

mod models;
pub mod step;

use crate::cifar10::models::Kind;
use crate::cifar10::step::ImageStep;
use crate::support::checksum::checksum;
use crate::support::console::print_line;
use crate::support::divergence::Divergence;
use crate::support::hyperparameters::Hyperparameters;
use crate::support::interrupts::Interrupts;
use crate::support::learner::Learner;
use crate::support::memory;
use crate::support::nvtx::NvtxRanges;
use crate::support::outputs::{self, FileOption};
use crate::support::program::{Outcome, exit_code};
use crate::support::saving::Saving;
use crate::support::weights;
use clap::{Parser, ValueEnum};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ternion::data::{Batches, Cifar10, DataError, SplitName, Transform, synthetic_shapes};
use ternion::nn::schedule::{CosineAnnealingLR, OneCycleConfig, OneCycleLR};
use ternion::nn::{StatsReport, SummaryPass, summary_of_shape};
use ternion::prelude::*;
use ternion::train::{Chart, Panel, Progress, Recorder, Scale, Series, Start};

/// Batch size of tests, which save nothing for the backward pass.
const TEST_BATCH: usize = 500;

/// A lower bound of the bytes per image that are saved for the backward pass: the f32 outputs of
/// the first convolution and its normalization.
const IMAGE_BYTES: f64 = 2.0 * 32.0 * 32.0 * 32.0 * 4.0;

/// The number of steps whose mean loss is one point of the curve. Each reading waits for the
/// device.
const STEPS_PER_POINT: usize = 20;

/// Batches that are prepared ahead while the device is busy with others.
const BATCHES_AHEAD: usize = 4;

/// Rows and columns of an image.
const SIDE: usize = 32;

/// The default hyperparameters.
const DEFAULTS: Hyperparameters = Hyperparameters { epochs: 12, lr: 3e-3 };

/// Black pixels around an image before it is cropped.
const PADDING: usize = 4;

/// Number of drawn training and test images, which replace the photographs.
const DRAWN: [usize; 2] = [2000, 500];

/// Names of the recorded series, over the number of steps.
const TRAIN_LOSS: &str = "train/loss";
const TEST_ACCURACY: &str = "test/accuracy";

/// Trains a classifier of small photographs.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// A directory with CIFAR-10's binary files, "synthetic" for drawn shapes, or "auto":
    /// $TERNION_DATA, the cache, else drawn shapes
    #[arg(long, default_value = "auto")]
    data: DataSource,
    /// Uses only the first LIMIT images of each set
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Convolutions and fully connected layers as in AlexNet, or a residual network of 18 layers
    #[arg(long, value_enum, default_value_t = Kind::Alexnet)]
    model: Kind,
    #[arg(long, help = format!("How often every image is seen, before --resume included, where it may be another number; 0 only tests [default: {}]", DEFAULTS.epochs))]
    epochs: Option<u64>,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    #[arg(long, help = format!("The largest learning rate. May change on --resume [default: {}]", DEFAULTS.lr))]
    lr: Option<f64>,
    /// Learning-rate schedule
    #[arg(long, value_enum, default_value_t = ScheduleKind::OneCycle)]
    schedule: ScheduleKind,
    /// Precision of matrix products: f32, ieee, tf32, bf16 or f16; weights stay f32
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Weight decay of matrices and convolutions
    #[arg(long, default_value_t = 0.05)]
    weight_decay: f64,
    /// Fraction of a label that is spread over all classes
    #[arg(long, default_value_t = 0.0)]
    label_smoothing: f64,
    /// Dropout probability before the fully connected layers of alexnet
    #[arg(long, default_value_t = 0.3)]
    dropout: f64,
    /// Side of a square that is cut out of each training image; 0 cuts none
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=SIDE as i64))]
    cutout: u32,
    /// Trains on unmodified images: no crops, flips or cutouts
    #[arg(long)]
    no_augmentation: bool,
    /// Prints the layers with their shapes, parameters and arithmetic
    #[arg(long)]
    summary: bool,
    /// Inspects the statistics of every layer each N steps: prints those of the first step, and a
    /// warning whenever something is wrong. In f16, gradients are multiplied by the loss scale
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stats_every: Option<u64>,
    /// Runs each training step op by op instead of recording it. Both give bit-identical weights
    #[arg(long)]
    eager: bool,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers; the parts
    /// of a step only if it runs op by op, as with --eager
    #[arg(long)]
    nvtx: bool,
    /// Determines the initial weights, the order of images and their augmentation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws loss and test accuracy
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Records loss and accuracy during training: metrics.jsonl, and files for TensorBoard
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    #[command(flatten)]
    saving: Saving,
    /// Starts from the weights of a checkpoint or of a weights file
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    load: Option<PathBuf>,
}

/// The learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScheduleKind {
    /// Up in the first 30 % of the steps, then down along a cosine
    OneCycle,
    /// Down along a cosine
    Cosine,
}

/// Runs the program.
pub fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    check_files(arguments)?;
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    device.seed(arguments.seed);
    let model = arguments.model.model(arguments.dropout, &device)?;
    print_line!("{} with {} parameters on {device}", arguments.model.name(), model.parameter_count());
    if let Some(file) = &arguments.load {
        weights::load(&*model, file, &device)?;
    }
    let hyperparameters = DEFAULTS.with_options(&arguments.saving, arguments.epochs, arguments.lr)?;
    let learner = step::learner(&*model, hyperparameters.lr, arguments.weight_decay, arguments.precision)?;
    let images = Images::load(arguments, &device)?;
    let mut training = Training::new(arguments, hyperparameters, (&*model, &learner), images, &device)?;
    if arguments.summary {
        let shape = [training.images.batch, 3, 32, 32];
        print_line!("{}", summary_of_shape(&*model, shape, SummaryPass::ForwardBackward)?);
    }
    training.resume()?;
    training.begin_record()?;
    let interrupts = Interrupts::install()?;
    let accuracy = ranges.trace(&*model, || training.run(&interrupts))?;
    if let Some(file) = arguments.saving.path().filter(|_| training.divergence.is_none()) {
        print_line!("training saved to {}", file.display());
    }
    training.write_results(accuracy)?;
    Ok(Divergence::check(training.divergence)?)
}

/// Checks the files. Checkpoints may overwrite the weights that were loaded; results may not.
fn check_files(arguments: &Arguments) -> Outcome<()> {
    let Arguments { json, plot, saving, load, .. } = arguments;
    load.as_ref().map_or(Ok(()), |file| outputs::check_readable("--load", file))?;
    let output = |(option, file): (&'static str, _)| FileOption { option, file };
    let results = [("--json", json), ("--plot", plot)].map(output);
    outputs::check_not_overwritten(&[output(("--load", load))], &results)?;
    saving.check(&[], &results)
}

// ---- Data

/// The images in batches.
struct Images {
    train: Batches,
    test: Batches,
    /// Labels of the test set.
    labels: Vec<u8>,
    /// Images per step: at most the number of training images.
    batch: usize,
    /// A checksum of the training data.
    data: String,
    is_drawn: bool,
}

impl Images {
    fn load(arguments: &Arguments, device: &Device) -> Outcome<Images> {
        let (train, test, is_drawn) = splits(arguments)?;
        let limit = arguments.limit.map_or(usize::MAX, |limit| limit as usize);
        let (train, test) = (train.first(limit), test.first(limit));
        print_line!("{} images to train on, {} to test on", train.len(), test.len());
        let batch = (arguments.batch as usize).min(train.len());
        memory::check(device, batch as f64 * IMAGE_BYTES, &format!("--batch {batch}"))?;
        let data = checksum(train.pixels().iter().chain(train.labels()).copied());
        let normalized = |batches: Batches| batches.normalize_channels(&Cifar10::MEANS, &Cifar10::DEVIATIONS);
        // Batch normalization needs batches of one size, so an incomplete last batch is dropped.
        // Each epoch has another order, and drops other images.
        let batches = train.shuffled(arguments.seed).batches(batch, device).last_batch(LastBatch::Drop);
        let batches = normalized(batches)?.transforms(&transforms(arguments), arguments.seed)?;
        Ok(Images {
            train: batches.prefetch(BATCHES_AHEAD),
            test: normalized(test.batches(TEST_BATCH, device))?.prefetch(1),
            labels: test.labels().to_vec(),
            batch,
            data,
            is_drawn,
        })
    }
}

fn splits(arguments: &Arguments) -> Outcome<(Split, Split, bool)> {
    let why = match &arguments.data {
        DataSource::Synthetic { .. } => String::new(),
        source => match Cifar10::load(source.clone()) {
            Ok(cifar) => {
                print_line!("{}", cifar.origin());
                return Ok((cifar.train().clone(), cifar.test().clone(), false));
            }
            Err(error @ DataError::NotFound { .. }) if *source == DataSource::Auto => {
                format!(" They replace the real data, which is not available: {error}")
            }
            Err(error) => return Err(error.into()),
        },
    };
    print_line!("THESE ARE DRAWN SHAPES, NOT CIFAR-10: accuracies do not compare with CIFAR-10's.{why}");
    let limit = arguments.limit.map_or(usize::MAX, |limit| limit as usize);
    let draw = |count: usize, split| synthetic_shapes(count.min(limit), 1, split);
    Ok((draw(DRAWN[0], SplitName::Train)?, draw(DRAWN[1], SplitName::Test)?, true))
}

fn transforms(arguments: &Arguments) -> Vec<Transform> {
    if arguments.no_augmentation {
        return Vec::new();
    }
    let mut list = vec![
        Transform::RandomCrop { size: [SIDE, SIDE], padding: PADDING },
        Transform::RandomHorizontalFlip { probability: 0.5 },
    ];
    if arguments.cutout > 0 {
        list.push(Transform::Cutout { side: arguments.cutout as usize });
    }
    list
}

// ---- Training

/// Time and images since the program began.
#[derive(Default)]
struct TrainingTime {
    /// Time of all steps except the first, which compiles kernels.
    train: Duration,
    /// Images of those steps.
    images: usize,
    test: Duration,
}

impl TrainingTime {
    fn images_per_second(&self) -> Option<f64> {
        (self.images > 0).then(|| self.images as f64 / self.train.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    device: &'a Device,
    model: &'a dyn Forward,
    learner: &'a Learner,
    ops: ImageStep<'a>,
    images: Images,
    hyperparameters: Hyperparameters,
    schedule: Box<dyn Schedule>,
    recorder: Recorder,
    progress: Progress,
    /// Completed steps.
    step: u64,
    divergence: Option<Divergence>,
    spent: TrainingTime,
}

/// Creates the training step: recorded, if the device supports that, unless `--eager` is set.
fn image_step<'a>(
    arguments: &Arguments,
    (model, learner): (&'a dyn Forward, &'a Learner),
    batch: usize,
    device: &Device,
) -> Result<ImageStep<'a>> {
    let shape = [batch, 3, SIDE, SIDE];
    let step = ImageStep::new(model, learner, shape, arguments.label_smoothing, device)?;
    let step = if arguments.eager { step } else { step.captured() };
    step.monitored(arguments.stats_every)
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a Arguments,
        hyperparameters: Hyperparameters,
        (model, learner): (&'a dyn Forward, &'a Learner),
        images: Images,
        device: &'a Device,
    ) -> Outcome<Training<'a>> {
        let steps = hyperparameters.epochs.saturating_mul(images.train.len() as u64).max(1);
        let schedule: Box<dyn Schedule> = match arguments.schedule {
            ScheduleKind::OneCycle => {
                Box::new(OneCycleLR::new(hyperparameters.lr, steps, OneCycleConfig::default())?)
            }
            ScheduleKind::Cosine => Box::new(CosineAnnealingLR::new(hyperparameters.lr, steps, 0.0)?),
        };
        let progress = Progress::new(steps, 0)?;
        Ok(Training {
            ops: image_step(arguments, (model, learner), images.batch, device)?,
            // The newest values are shown next to the progress bar.
            recorder: Recorder::new().with(progress.clone()),
            step: 0,
            divergence: None,
            spent: TrainingTime::default(),
            arguments,
            device,
            model,
            learner,
            images,
            hyperparameters,
            schedule,
            progress,
        })
    }

    /// Calls `f` with the contents of a checkpoint. The order of images and their augmentation
    /// depend only on seed and epoch.
    fn with_state<T>(&mut self, f: impl FnOnce(TrainingState<'_>) -> Outcome<T>) -> Outcome<T> {
        let (mut adam, mut mixed_precision) =
            (self.learner.adam.borrow_mut(), self.learner.mixed_precision.borrow_mut());
        let Arguments { weight_decay, label_smoothing, dropout, cutout, seed, .. } = *self.arguments;
        let state = TrainingState::new(self.device)
            .model("model", self.model)
            .optimizer("adam", &mut *adam)
            .part("loss_scale", mixed_precision.scale_mut())
            .part("recorder", &mut self.recorder)
            .setting("precision", self.arguments.precision.name())
            .setting("model_kind", self.arguments.model.name())
            .setting("images", [self.images.train.len(), self.arguments.batch as usize])
            .setting("drawn", self.images.is_drawn)
            .setting("data", &self.images.data)
            .value("epochs", &mut self.hyperparameters.epochs)
            .value("lr", &mut self.hyperparameters.lr)
            .setting("schedule", format!("{:?}", self.arguments.schedule))
            .setting("weight_decay", weight_decay)
            .setting("label_smoothing", label_smoothing)
            .setting("dropout", dropout)
            .setting("cutout", cutout)
            .setting("augmentation", !self.arguments.no_augmentation)
            .setting("seed", seed);
        f(state)
    }

    fn resume(&mut self) -> Outcome<()> {
        let (arguments, hyperparameters) = (self.arguments, self.hyperparameters);
        if let Some((step, file)) = self.with_state(|mut state| arguments.saving.resume(&mut state))? {
            // A resumed run uses the number of epochs and the learning rate of this command line.
            (self.step, self.hyperparameters) = (step, hyperparameters);
            print_line!("resuming from step {step} of {}", file.display());
        }
        Ok(())
    }

    fn begin_record(&mut self) -> Outcome<()> {
        if let Some(folder) = &self.arguments.record {
            let start = if self.arguments.saving.is_resumed() { Start::After(self.step) } else { Start::New };
            self.recorder = std::mem::take(&mut self.recorder).folder(folder, start)?;
        }
        Ok(())
    }

    /// Trains, and returns the final test accuracy.
    fn run(&mut self, interrupts: &Interrupts) -> Outcome<f64> {
        let (epochs, batches) = (self.hyperparameters.epochs, self.images.train.len() as u64);
        let steps = epochs.saturating_mul(batches);
        let mut accuracy = None;
        if self.step > 0 && self.step >= steps {
            print_line!("no step is left: {} were made, --epochs {epochs} are {steps}", self.step);
        }
        while self.step < steps && self.divergence.is_none() && !interrupts.should_stop() {
            let epoch = self.step / batches;
            let loss = self.epoch(epoch, interrupts)?;
            let test_accuracy = self.test()?;
            self.recorder.scalar(TEST_ACCURACY, self.step, test_accuracy)?;
            self.save_checkpoint()?;
            self.progress.suspend(|| self.print_epoch(epoch, loss, test_accuracy));
            accuracy = Some(test_accuracy);
        }
        self.progress.finish();
        if let Some(accuracy) = accuracy {
            return Ok(accuracy);
        }
        let accuracy = self.test()?;
        self.save_checkpoint()?;
        print_line!("test accuracy {:.2} %", accuracy * 100.0);
        Ok(accuracy)
    }

    fn print_epoch(&self, epoch: u64, loss: f64, accuracy: f64) {
        let Hyperparameters { epochs, .. } = self.hyperparameters;
        let speed = self.spent.images_per_second();
        let speed = speed.map_or(String::new(), |speed| format!("  {speed:.0} images/s"));
        print_line!(
            "epoch {}/{epochs}  loss {loss:.4}  test accuracy {:.2} %{speed}",
            epoch + 1,
            accuracy * 100.0
        );
        if let Some(report) = self.learner.mixed_precision.borrow().report() {
            print_line!("{report}");
        }
    }

    /// Writes the checkpoint, unless the training has diverged.
    fn save_checkpoint(&mut self) -> Outcome<()> {
        if self.divergence.is_none() {
            let (step, saving) = (self.step, &self.arguments.saving);
            self.with_state(|state| saving.save(step, &state, None))?;
        }
        Ok(())
    }

    /// Trains on the rest of an epoch; returns the mean loss of its steps.
    fn epoch(&mut self, epoch: u64, interrupts: &Interrupts) -> Outcome<f64> {
        self.model.train();
        let batches = self.images.train.epoch(epoch);
        let (count, completed) = (batches.len(), (self.step % batches.len() as u64) as usize);
        let (mut losses, mut sum, mut steps) = (Vec::new(), 0.0, 0);
        let mut start = Instant::now();
        for batch in batches.into_iter().skip(completed) {
            let batch = batch?;
            losses.push(self.train_step(&batch)?);
            steps += 1;
            self.progress.set_step(self.step);
            if self.spent.train.is_zero() && steps == 1 {
                self.device.synchronize()?;
                start = Instant::now();
            } else {
                self.spent.images += batch.size;
            }
            let stops = interrupts.should_stop();
            if losses.len() == STEPS_PER_POINT || self.step.is_multiple_of(count as u64) || stops {
                let mean = mean(&losses)?;
                sum += mean * losses.len() as f64;
                losses.clear();
                self.recorder.scalar(TRAIN_LOSS, self.step, mean)?;
                self.divergence = Divergence::detect(self.step, mean);
            }
            if stops || self.divergence.is_some() {
                break;
            }
        }
        self.spent.train += start.elapsed();
        Ok(sum / f64::from(steps))
    }

    /// Runs one step; returns its loss, which stays on the device.
    fn train_step(&mut self, batch: &Batch) -> Outcome<Tensor> {
        self.learner.adam.borrow_mut().set_lr(self.schedule.lr(self.step))?;
        let (loss, report) = self.ops.run(batch, self.step)?;
        let loss = loss.copy()?;
        self.step += 1;
        if let Some(report) = report {
            self.progress.suspend(|| print_stats(&report));
        }
        Ok(loss)
    }

    /// Returns the fraction of test images that are classified correctly.
    fn test(&mut self) -> Outcome<f64> {
        let start = Instant::now();
        self.model.eval();
        let mut predicted = Vec::with_capacity(self.images.labels.len());
        for batch in &self.images.test {
            let images = batch?.images;
            let logits = no_grad(|| self.learner.forward(|| self.model.forward(&images)))?;
            predicted.extend(logits.argmax(1)?.to_vec::<i32>()?);
        }
        let is_hit = |(predicted, label): &(&i32, &u8)| **predicted == i32::from(**label);
        let hits = predicted.iter().zip(&self.images.labels).filter(is_hit).count();
        self.spent.test += start.elapsed();
        Ok(hits as f64 / self.images.labels.len() as f64)
    }

    fn write_results(&self, accuracy: f64) -> Outcome<()> {
        let Training { arguments, device, spent, recorder, .. } = self;
        let name = arguments.model.name();
        let values =
            |name: &str| -> Vec<f64> { recorder.series(name).iter().map(|(_, value)| *value).collect() };
        if let Some(file) = &arguments.json {
            let results = json!({
                "device": device.name(),
                "model": name,
                "parameters": self.model.parameter_count(),
                "drawn": self.images.is_drawn,
                "epochs": self.hyperparameters.epochs,
                "seed": arguments.seed,
                "precision": arguments.precision.name(),
                "captured": self.ops.is_recorded(),
                "test_accuracy": accuracy,
                "test_accuracies": values(TEST_ACCURACY),
                "final_loss": values(TRAIN_LOSS).last(),
                "train_seconds": spent.train.as_secs_f64(),
                "test_seconds": spent.test.as_secs_f64(),
                "images_per_second": spent.images_per_second(),
                "peak_memory_bytes": device.memory().peak,
            });
            outputs::write(file, &format!("{results:#}\n"))?;
        }
        if let Some(file) = &arguments.plot {
            let title = format!("{name} on {device}: test accuracy {:.2} %", accuracy * 100.0);
            self.chart(&title).write(file)?;
            print_line!("{} written", file.display());
        }
        Ok(())
    }

    /// Loss and accuracy over the epochs.
    fn chart(&self, title: &str) -> Chart {
        let per_epoch = self.images.train.len() as f64;
        let curve = |name: &str| {
            let points =
                self.recorder.series(name).iter().map(|&(step, value)| (step as f64 / per_epoch, value));
            Series::new(name, points.collect::<Vec<_>>())
        };
        let accuracy = Panel::new("test accuracy").scale(Scale::Percent).series(curve(TEST_ACCURACY).dots());
        Chart::new(title, "epochs")
            .panel(Panel::new("training loss").series(curve(TRAIN_LOSS)))
            .panel(accuracy)
    }
}

/// Prints all statistics of the first step; of later ones only the warnings.
fn print_stats(report: &StatsReport) {
    if report.step == 0 {
        return print_line!("the numbers of every layer:\n{report}");
    }
    report.warnings.iter().for_each(|warning| print_line!("step {}: {warning}", report.step));
}

/// Returns the mean. Waits for the device once.
fn mean(losses: &[Tensor]) -> Result<f64> {
    let losses: Vec<&Tensor> = losses.iter().collect();
    no_grad(|| Tensor::stack(&losses, 0)?.mean(..)?.item_f64())
}
