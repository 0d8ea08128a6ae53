//! Trains a classifier of handwritten digits.
//!
//! ```sh
//! cargo run --release -p apps --bin mnist
//! cargo run --release -p apps --bin mnist \
//!     -- --model cnn --epochs 2 --plot curve.svg --mistakes wrong.svg
//! cargo run --release -p apps --bin mnist -- --epochs 20 --save digits.safetensors
//! cargo run --release -p apps --bin mnist -- --resume digits.safetensors
//! cargo run --release -p apps --features cuda --bin mnist -- --device cuda
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin mnist -- \
//!     --device cuda --nvtx --eager --epochs 1
//! ```
//!
//! The data set is copied to the device once; each step gathers its batch there. The whole step is
//! recorded, if the device supports that, and replayed as one; with `--eager` it runs op by op.
//!
//! `--save` writes a checkpoint: `--resume` continues from it as if the training had never stopped,
//! `--load` uses only its weights.
//!
//! If the data set is not on this machine, it is downloaded; without a network the program draws
//! synthetic digits, and says so.

mod digit_test;
mod readings;
mod settings;
pub mod step;
mod svg;
mod times;

use crate::mnist::digit_test::Test;
use crate::mnist::readings::{Log, Reading};
use crate::mnist::settings::Settings;
use crate::mnist::step::Step;
use crate::mnist::times::{Times, speed};
use crate::support::checksum::checksum;
use crate::support::console::print_line;
use crate::support::digits::DigitSet;
use crate::support::divergence::Divergence;
use crate::support::interrupts::Interrupts;
use crate::support::memory;
use crate::support::nvtx::NvtxRanges;
use crate::support::outputs::{self, FileOption};
use crate::support::program::{Outcome, exit_code};
use crate::support::saving::Saving;
use crate::support::weights;
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ternion::data::{Origin, Shuffled};
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};
use ternion::train::{Chart, Panel, Recorder, Scale, Series, Start};

/// Steps whose mean loss is one point of the curve.
const STEPS_PER_POINT: usize = 50;

/// Time between two readings of the loss within an epoch, each of which waits for the device;
/// shorter epochs are read only at their end.
const READING_INTERVAL: Duration = Duration::from_secs(1);

/// The file that Ctrl-C saves to if `--save` names none.
const INTERRUPTED_FILE: &str = "mnist-interrupted.safetensors";

/// Names of the recorded series, over steps.
const TRAIN_LOSS: &str = "train/loss";
const EPOCH_LOSS: &str = "train/epoch_loss";
const TEST_ACCURACY: &str = "test/accuracy";

/// Trains a classifier of handwritten digits.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// The data set to search for. For other data sets in MNIST's format use --data or --idx
    #[arg(long, value_enum, default_value = "mnist")]
    dataset: DataSet,
    /// A directory with the data set's four files, "synthetic" for synthetic digits, or "auto":
    /// $TERNION_DATA, the cache, a download
    #[arg(long, default_value = "auto")]
    data: DataSource,
    /// Four IDX files of any names: training images, training labels, test images, test labels
    #[arg(long, num_args = 4, value_names = ["IMAGES", "LABELS", "TEST_IMAGES", "TEST_LABELS"], conflicts_with_all = ["data", "dataset"])]
    idx: Option<Vec<PathBuf>>,
    /// Fully connected layers, or convolutions [default: mlp]
    #[arg(long, value_enum)]
    model: Option<Kind>,
    /// Number of epochs, including those before --resume; 0 only tests [default: 5]
    #[arg(long, value_parser = parse_integer)]
    epochs: Option<u64>,
    /// Digits per step [default: 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Learning rate at the start; it falls to 0 along a cosine [default: 0.001]
    #[arg(long)]
    lr: Option<f64>,
    /// Width of the hidden layer [default: 128]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    hidden: Option<u32>,
    /// Determines the initial weights and the order of digits [default: 1]
    #[arg(long, value_parser = parse_integer)]
    seed: Option<u64>,
    /// Runs each training step op by op instead of recording it. Both give bit-identical weights
    #[arg(long)]
    eager: bool,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers; the parts
    /// of a step only if it runs op by op, as with --eager
    #[arg(long)]
    nvtx: bool,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the loss curve
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draws the digits that were misclassified
    #[arg(long, value_name = "FILE.svg")]
    mistakes: Option<PathBuf>,
    /// Records loss and accuracy of each epoch: metrics.jsonl, and files for TensorBoard
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    #[command(flatten)]
    saving: Saving,
    /// Epochs between two checkpoints
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Starts from the weights of a checkpoint or of a weights file
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    load: Option<PathBuf>,
}

fn parse_integer(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| format!("expected an integer from 0 to {}", u64::MAX))
}

/// The data set to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DataSet {
    Mnist,
    FashionMnist,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Mlp,
    Cnn,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Mlp => "mlp",
            Kind::Cnn => "cnn",
        }
    }

    /// Returns the kind with the name that a checkpoint stores.
    fn from_name(name: &str) -> Outcome<Kind> {
        Kind::from_str(name, false)
            .map_err(|_| format!("the checkpoint is of an unknown model {name:?}").into())
    }

    /// Creates a model for the images and classes of the data set. Comments give the sizes for
    /// images of 28 x 28 pixels.
    fn model(self, hidden: usize, mnist: &Mnist, device: &Device) -> Outcome<Box<dyn Forward>> {
        let ([rows, cols], classes) =
            ([mnist.train().rows(), mnist.train().cols()], mnist.class_names().len().max(10));
        if self == Kind::Mlp {
            return Ok(Box::new(Mlp::new([rows * cols, hidden, classes], device)?));
        }
        let pooled =
            |size: usize| Some((size.checked_sub(4)? / 2).checked_sub(2)? / 2).filter(|&size| size > 0);
        let (Some(height), Some(width)) = (pooled(rows), pooled(cols)) else {
            return Err(
                format!("--model cnn: images of {rows} x {cols} pixels, expected at least 12 x 12").into()
            );
        };
        Ok(Box::new(
            Sequential::new()
                .with(Conv2d::new(1, 16, [5, 5], device)?)
                .with(ReLU)
                .with(MaxPool2d::new(2)) // [16, 12, 12]
                .with(Conv2d::new(16, 32, [3, 3], device)?)
                .with(ReLU)
                .with(MaxPool2d::new(2)) // [32, 5, 5]
                .with(Flatten::default())
                .with(Linear::new(32 * height * width, hidden, device)?)
                .with(ReLU)
                .with(Linear::new(hidden, classes, device)?),
        ))
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let start = Instant::now();
    // Arguments are checked before data is downloaded and models are trained.
    check_files(arguments)?;
    let interrupts = Interrupts::install()?;
    let settings = Settings::new(arguments, arguments.saving.checkpoint()?.as_ref())?;
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    let config = AdamWConfig { lr: settings.lr, ..Default::default() };
    // The optimizer checks its settings before there is a model to train.
    AdamW::new(Linear::new(1, 1, &device)?.parameters(), config)?;
    device.seed(settings.seed);
    let hidden = settings.hidden as usize;
    let weights = (28 * 28 * hidden) as f64 * memory::TRAINED_BYTES;
    memory::check(&device, weights, &format!("--hidden {hidden}"))?;
    let (mnist, origin) = load(arguments)?;
    let model = settings.kind.model(hidden, &mnist, &device)?;
    print_line!("{} with {} parameters on {device}", settings.kind.name(), model.parameter_count());
    if let Some(file) = &arguments.load {
        weights::load(&*model, file, &device)?;
    }
    let adam = RefCell::new(AdamW::new(model.parameters(), config)?);
    announce(&origin, &mnist);
    let (train, test) = (DigitSet::new(mnist.train(), &device)?, DigitSet::new(mnist.test(), &device)?);
    let digits = Digits { mnist, train, test };
    device.synchronize()?;
    let mut training = Training::new(arguments, settings, &*model, &adam, &digits)?;
    training.resume()?;
    training.history.times.start = start.elapsed();
    let test = ranges.trace(&*model, || training.run(&interrupts))?;
    print_line!("{}", training.history.times);
    print_line!("test accuracy {:.2} %", test.accuracy() * 100.0);
    training.write_results(&test)?;
    Ok(Divergence::check(training.divergence)?)
}

/// Checks the files. A checkpoint may overwrite the file that was loaded; results may not.
fn check_files(arguments: &Arguments) -> Outcome<()> {
    let Arguments { json, plot, mistakes, saving, load, .. } = arguments;
    load.as_ref().map_or(Ok(()), |file| outputs::check_readable("--load", file))?;
    let output = |(option, file): (&'static str, _)| FileOption { option, file };
    let results = [("--json", json), ("--plot", plot), ("--mistakes", mistakes)].map(output);
    outputs::check_not_overwritten(&[output(("--load", load))], &results)?;
    saving.check(&[], &results)?;
    load.as_deref().map_or(Ok(()), weights::check)
}

/// Loads the data set that the arguments name.
fn load(arguments: &Arguments) -> Outcome<(Mnist, Origin)> {
    if let Some(files) = &arguments.idx {
        let [images, labels, test_images, test_labels] = &files[..] else {
            return Err(format!("--idx: {} files, expected 4", files.len()).into());
        };
        let mnist = Mnist::from_idx([images, labels], [test_images, test_labels])?;
        let origin = mnist.origin().clone();
        return Ok((mnist, origin));
    }
    Ok(match arguments.dataset {
        DataSet::Mnist => Mnist::load_or_synthetic(arguments.data.clone())?,
        DataSet::FashionMnist => {
            let mnist = Mnist::fashion(arguments.data.clone())?;
            let origin = mnist.origin().clone();
            (mnist, origin)
        }
    })
}

fn announce(origin: &Origin, mnist: &Mnist) {
    print_line!("{origin}");
    print_line!("{} digits to train on, {} to test on", mnist.train().len(), mnist.test().len());
}

// ---- Training

/// The data set on the host and on the device.
struct Digits {
    mnist: Mnist,
    train: DigitSet,
    test: DigitSet,
}

/// Counters since the program began.
#[derive(Default)]
struct History {
    images: usize,
    times: Times,
    /// Images per second in the last epoch.
    epoch_speed: Option<f64>,
    /// Whether the device recorded the step.
    is_recorded: bool,
}

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    settings: Settings,
    model: &'a dyn Forward,
    digits: &'a Digits,
    shuffled: Shuffled,
    /// Digits per step: at most the number of training images.
    batch: usize,
    adam: &'a RefCell<AdamW>,
    step: Step<'a>,
    /// Completed epochs, and completed batches of the current one.
    epoch: u64,
    position: usize,
    log: Log,
    recorder: Recorder,
    history: History,
    /// A checksum of the training data.
    data: String,
    divergence: Option<Divergence>,
    /// Epoch and position of the last checkpoint.
    saved: Option<(u64, usize)>,
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a Arguments,
        settings: Settings,
        model: &'a dyn Forward,
        adam: &'a RefCell<AdamW>,
        digits: &'a Digits,
    ) -> Outcome<Self> {
        let (images, split) = (digits.train.count(), digits.mnist.train());
        let batch = (settings.batch as usize).min(images);
        let step = Step::new(model, adam, &digits.train, batch)?;
        let step = if arguments.eager { step } else { step.captured() };
        Ok(Training {
            shuffled: split.shuffled(settings.seed),
            log: Log::new(images.div_ceil(batch), batch, images, digits.train.device())?,
            recorder: Recorder::new(),
            history: History::default(),
            epoch: 0,
            position: 0,
            saved: None,
            divergence: None,
            data: checksum(split.pixels().iter().chain(split.labels()).copied()),
            arguments,
            settings,
            model,
            digits,
            batch,
            adam,
            step,
        })
    }

    /// Returns the number of batches in an epoch.
    fn batches(&self) -> usize {
        self.digits.train.count().div_ceil(self.batch)
    }

    /// Calls `f` with all state that training changes: the contents of a checkpoint.
    fn with_state<T>(
        &mut self,
        open: &mut Vec<f64>,
        f: impl FnOnce(TrainingState<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let (mut adam, mut settings) = (self.adam.borrow_mut(), self.settings.clone());
        let state = TrainingState::new(self.digits.train.device())
            .model("model", self.model)
            .optimizer("adam", &mut *adam)
            .part("open_epoch", open)
            .part("recorder", &mut self.recorder)
            .value("epoch", &mut self.epoch)
            .value("position", &mut self.position)
            // These are the values of this command line, which the checkpoint stores.
            .value("epochs", &mut settings.epochs)
            .value("lr", &mut settings.lr)
            .setting("kind", settings.kind.name())
            .setting("hidden", settings.hidden)
            .setting("batch", settings.batch)
            .setting("seed", settings.seed)
            .setting("images", self.digits.train.count())
            .setting("data", &self.data);
        f(state)
    }

    fn resume(&mut self) -> Outcome<()> {
        let (mut open, saving) = (Vec::new(), &self.arguments.saving);
        if let Some((step, _)) = self.with_state(&mut open, |mut state| saving.resume(&mut state))? {
            self.log.restore(&open)?;
            print_line!("resumes in epoch {}, after step {step}", self.epoch + 1);
        }
        Ok(())
    }

    /// Saves, unless this state is saved already: to the named file, or after Ctrl-C to
    /// [`INTERRUPTED_FILE`] if anything was learned.
    fn save(&mut self, interrupts: &Interrupts) -> Outcome<()> {
        let is_cut_short = interrupts.should_stop() && self.history.images > 0;
        let (saving, or_else) = (&self.arguments.saving, is_cut_short.then_some(Path::new(INTERRUPTED_FILE)));
        let position = Some((self.epoch, self.position));
        // A diverged state must not overwrite an earlier checkpoint.
        if self.saved != position && self.divergence.is_none() {
            let mut open = self.log.values()?;
            let step = self.epoch * self.batches() as u64 + self.position as u64;
            if let Some(file) = self.with_state(&mut open, |state| saving.save(step, &state, or_else))? {
                self.saved = position;
                print_line!("step {step} saved to {}", file.display());
            }
        }
        Ok(())
    }

    /// Trains, and returns the test after the last batch.
    fn run(&mut self, interrupts: &Interrupts) -> Outcome<Test> {
        if let Some(folder) = &self.arguments.record {
            // An incomplete epoch is recorded once it is complete.
            let first = self.epoch * self.batches() as u64;
            let start = if self.arguments.saving.is_resumed() { Start::After(first) } else { Start::New };
            self.recorder = std::mem::take(&mut self.recorder).folder(folder, start)?;
        }
        let mut last = None;
        if self.epoch > 0 && self.epoch >= self.settings.epochs {
            print_line!("no epoch is left: {} were made, --epochs {}", self.epoch, self.settings.epochs);
        }
        while self.epoch < self.settings.epochs && self.divergence.is_none() && !interrupts.should_stop() {
            let is_complete = self.train_epoch(interrupts)?;
            let step = self.epoch * self.batches() as u64 + self.position as u64;
            self.divergence = Divergence::detect(step, Reading::sum(&self.log.read()?.0).mean_loss());
            let is_last = self.epoch + 1 == self.settings.epochs;
            if !is_complete {
                // The checkpoint is written before the test and before anything is printed.
                self.save(interrupts)?;
            }
            last = Some(self.test_epoch(is_complete)?);
            if is_complete {
                (self.epoch, self.position) = (self.epoch + 1, 0);
                self.log.clear();
                if self.epoch.is_multiple_of(self.arguments.save_every) || is_last {
                    self.save(interrupts)?;
                }
            }
        }
        // Saves also if there was no epoch, or if Ctrl-C was pressed during a test.
        self.save(interrupts)?;
        last.map_or_else(|| self.test(), Ok)
    }

    fn test(&mut self) -> Outcome<Test> {
        let start = Instant::now();
        let test = Test::run(self.model, &self.digits.test, self.digits.mnist.test())?;
        self.history.times.test += start.elapsed();
        Ok(test)
    }

    /// Records an epoch, or the completed part of it, tests the model and prints a line about both.
    fn test_epoch(&mut self, is_complete: bool) -> Outcome<Test> {
        let readings = self.log.read()?;
        let first = self.epoch * self.batches() as u64;
        for (point, readings) in readings.0.chunks(STEPS_PER_POINT).enumerate() {
            let steps = point * STEPS_PER_POINT + readings.len();
            self.recorder.scalar(TRAIN_LOSS, first + steps as u64, Reading::sum(readings).mean_loss())?;
        }
        let (total, step) = (Reading::sum(&readings.0), first + readings.0.len() as u64);
        let test = self.test()?;
        let accuracy = test.accuracy();
        self.recorder.scalar(EPOCH_LOSS, step, total.mean_loss())?;
        self.recorder.scalar(TEST_ACCURACY, step, accuracy)?;
        let (epoch, epochs) = (self.epoch + 1, self.settings.epochs);
        let part = if is_complete { "" } else { " (a part of it)" };
        let speed = self.history.epoch_speed.map_or(String::new(), |speed| format!("  {speed:.0} images/s"));
        print_line!("epoch {epoch}/{epochs}{part}  {total}{speed}  test accuracy {:.2} %", accuracy * 100.0);
        Ok(test)
    }

    /// Trains on the rest of an epoch; returns whether it is complete.
    fn train_epoch(&mut self, interrupts: &Interrupts) -> Outcome<bool> {
        let mut start = Instant::now();
        let rows = self.digits.train.batches(&self.shuffled.order(self.epoch), self.batch)?;
        let (count, first) = (rows.dims()[0], self.position);
        let (bar, mut last_reading) = (progress_bar(count, self.epoch, self.settings.epochs), start);
        let mut timed_from = first;
        while self.position < count && !(interrupts.should_stop() && self.position > first) {
            self.set_learning_rate(count)?;
            let batch_rows = rows.select(0, self.position)?;
            self.log.push(in_span(SpanKind::Other, "step", "", || self.step.run(&batch_rows))?)?;
            self.position += 1;
            bar.set_position(self.position as u64);
            if self.history.images == 0 && self.position == first + 1 {
                start = self.finish_first_step(start)?;
                timed_from = self.position;
            }
            if last_reading.elapsed() >= READING_INTERVAL {
                bar.set_message(self.log.read()?.sum_of_last(STEPS_PER_POINT).to_string());
                last_reading = Instant::now();
            }
        }
        let readings = self.log.read()?;
        bar.finish_and_clear();
        let (elapsed, timed) = (start.elapsed(), Reading::sum(&readings.0[timed_from..]).images);
        self.history.epoch_speed = speed(timed, elapsed);
        self.history.times.train += elapsed;
        self.history.times.images += timed;
        self.history.images += Reading::sum(&readings.0[first..]).images;
        Ok(self.position == count)
    }

    /// Records the time of the first step, and returns the start time of the others.
    fn finish_first_step(&mut self, start: Instant) -> Outcome<Instant> {
        self.digits.train.device().synchronize()?;
        self.history.times.first_step = start.elapsed();
        self.history.is_recorded = self.step.is_recorded();
        Ok(Instant::now())
    }

    /// Sets the learning rate: from the given one to 0 along half a cosine (Loshchilov and Hutter
    /// 2017, eq. 5, without restarts).
    fn set_learning_rate(&mut self, count: usize) -> Outcome<()> {
        let progress =
            (self.epoch as f64 + self.position as f64 / count as f64) / self.settings.epochs as f64;
        let factor = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        Ok(self.adam.borrow_mut().set_lr(self.settings.lr * factor)?)
    }
}

fn progress_bar(batches: usize, epoch: u64, epochs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len}  {msg}");
    let bar = ProgressBar::new(batches as u64).with_prefix(format!("epoch {}/{epochs}", epoch + 1));
    bar.with_style(style.expect("the template is right").progress_chars("=> "))
}

// ---- Results

impl Training<'_> {
    fn write_results(&self, test: &Test) -> Outcome<()> {
        let Arguments { json, plot, mistakes, .. } = self.arguments;
        if let Some(file) = json {
            outputs::write(file, &format!("{:#}\n", self.results(test)))?;
        }
        if let Some(file) = plot {
            outputs::write(file, &self.chart(test).to_svg())?;
        }
        if let Some(file) = mistakes {
            let split = self.digits.mnist.test();
            let wrong: Vec<svg::Digit<'_>> = (0..split.len())
                .filter_map(|index| {
                    let (pixels, label) = (split.image(index)?, split.label(index)?);
                    let predicted = test.predicted[index];
                    (predicted != label).then_some(svg::Digit { pixels, label, predicted })
                })
                .collect();
            outputs::write(file, &svg::digits(&wrong, split.len(), [split.rows(), split.cols()]))?;
        }
        Ok(())
    }

    fn results(&self, test: &Test) -> serde_json::Value {
        let times = &self.history.times;
        serde_json::json!({
            "device": self.digits.train.device().name(),
            "model": self.settings.kind.name(),
            "seed": self.settings.seed,
            "epochs": self.epoch,
            "captured": self.history.is_recorded,
            "load_seconds": times.start.as_secs_f64(),
            "first_step_seconds": times.first_step.as_secs_f64(),
            "train_seconds": times.train.as_secs_f64(),
            "test_seconds": times.test.as_secs_f64(),
            "test_accuracy": test.accuracy(),
            "images_per_second": times.images_per_second(),
            "final_loss": self.recorder.series(EPOCH_LOSS).last().map(|&(_, loss)| loss),
            "peak_memory_bytes": self.digits.train.device().memory().peak,
        })
    }

    /// Draws loss and accuracy over epochs.
    fn chart(&self, test: &Test) -> Chart {
        let (kind, device) = (self.settings.kind.name(), self.digits.train.device());
        let title = format!("{kind} on {device}: test accuracy {:.2} %", test.accuracy() * 100.0);
        let steps = self.batches() as f64;
        let series = |title: &str, name: &str| {
            let points = self.recorder.series(name).iter();
            Series::new(title, points.map(|&(step, value)| (step as f64 / steps, value)))
        };
        let (loss, accuracy) = ("training loss", "test accuracy");
        Chart::new(&title, "epochs")
            .panel(Panel::new(loss).series(series(loss, TRAIN_LOSS)))
            .panel(Panel::new(accuracy).scale(Scale::Percent).series(series(accuracy, TEST_ACCURACY).dots()))
    }
}
