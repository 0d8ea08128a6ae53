//! Trains a classifier of handwritten digits.
//!
//!     cargo run --release --example mnist
//!     cargo run --release --example mnist -- --model cnn --epochs 2 --plot curve.svg --mistakes wrong.svg
//!     cargo run --release --features cuda --example mnist -- --device cuda --capture
//!
//! The data set is put on the device once; each step picks its batch there. With `--capture` the whole step is recorded, and replayed as one.
//!
//! Without the data set on this machine it is downloaded; without a network the program draws digits of its own, and says so.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/outputs.rs"]
mod outputs;
#[path = "support/say.rs"]
mod say;
#[path = "support/step.rs"]
mod step;
#[path = "support/svg.rs"]
mod svg;

use clap::{Parser, ValueEnum};
use digits::DigitSet;
use indicatif::{ProgressBar, ProgressStyle};
use outputs::Output;
use say::{say, warn};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use step::Step;
use ternion::data::{Origin, Shuffled};
use ternion::nn;
use ternion::prelude::*;

/// Steps whose mean loss makes a point of the curve.
const STEPS_PER_POINT: usize = 50;

/// Time between two readings of the loss within an epoch, each of which waits for the device: only epochs that last longer have any.
const BETWEEN_READINGS: Duration = Duration::from_secs(1);

/// Batch size of tests, where nothing is kept for backward.
const TEST_BATCH: usize = 1000;

/// Where Ctrl-C saves to if `--save` names no file.
const INTERRUPTED_FILE: &str = "mnist-interrupted.safetensors";

/// Trains a classifier of handwritten digits.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// A directory with MNIST's four files, "synthetic" for drawn digits, or "auto": $TERNION_DATA, the cache, a download
    #[arg(long, default_value = "auto")]
    data: DataSource,
    /// Fully connected layers, or convolutions
    #[arg(long, value_enum, default_value_t = Kind::Mlp)]
    model: Kind,
    /// How often every digit is seen; 0 only tests
    #[arg(long, default_value_t = 5, value_parser = whole_number)]
    epochs: u64,
    /// Digits in a step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Learning rate at the start; it falls to 0 along a cosine
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Records the training step once and replays it; on devices that record nothing, such as the CPU, it runs op by op
    #[arg(long)]
    capture: bool,
    /// Width of the hidden layer
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    hidden: u32,
    /// Decides first weights and the order of digits
    #[arg(long, default_value_t = 1, value_parser = whole_number)]
    seed: u64,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the loss curve
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draws the digits that were taken for others
    #[arg(long, value_name = "FILE.svg")]
    mistakes: Option<PathBuf>,
    /// Saves the weights, as safetensors
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Starts from saved weights
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
}

fn whole_number(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
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

    fn model(self, hidden: usize, device: &Device) -> Result<Box<dyn Forward>> {
        Ok(match self {
            Kind::Mlp => Box::new(Mlp::new([28 * 28, hidden, 10], device)?),
            Kind::Cnn => Box::new(
                Sequential::new()
                    .with(Conv2d::new(1, 16, [5, 5], device)?)
                    .with(ReLU)
                    .with(MaxPool2d::new(2)) // [16, 12, 12]
                    .with(Conv2d::new(16, 32, [3, 3], device)?)
                    .with(ReLU)
                    .with(MaxPool2d::new(2)) // [32, 5, 5]
                    .with(Flatten::default())
                    .with(Linear::new(32 * 5 * 5, hidden, device)?)
                    .with(ReLU)
                    .with(Linear::new(hidden, 10, device)?),
            ),
        })
    }
}

/// Errors of tensors, data and files, all of which say in words what is wrong.
type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The program.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let start = Instant::now();
    // What can be wrong with the arguments is told before data is downloaded and models are trained.
    check_files(arguments)?;
    let interrupted = watch_for_interrupts()?;
    let device = ternion::device(&arguments.device)?;
    device.seed(arguments.seed);
    let model = arguments.model.model(arguments.hidden as usize, &device)?;
    say!("{} with {} parameters on {device}", arguments.model.name(), model.parameter_count());
    if let Some(file) = &arguments.load {
        nn::load(&model, file)?;
        say!("weights loaded from {}", file.display());
    }
    let config = AdamWConfig { lr: arguments.lr, ..Default::default() };
    let adam = RefCell::new(AdamW::new(model.parameters(), config)?);
    let (mnist, origin) = Mnist::load_or_synthetic(arguments.data.clone())?;
    announce(&origin, &mnist);
    let (train, test) = (DigitSet::new(mnist.train(), &device)?, DigitSet::new(mnist.test(), &device)?);
    let digits = Digits { mnist, train, test };
    device.synchronize()?;
    let mut training = Training::new(arguments, &*model, &adam, &digits)?;
    training.history.times.start = start.elapsed();
    let test = training.run(&interrupted)?;
    let history = training.history;
    say!("{}", history.times);
    say!("test accuracy {:.2} %", test.accuracy() * 100.0);
    write_results(arguments, &device, &history, &test, &digits.mnist)
}

/// Saving over the weights that were loaded is fine; drawing over them is not.
fn check_files(arguments: &Arguments) -> Outcome<()> {
    let Arguments { json, plot, mistakes, save, load, .. } = arguments;
    let written = |weights| {
        [weights, ("--json", json), ("--plot", plot), ("--mistakes", mistakes)]
            .map(|(option, file)| Output { option, file })
    };
    if let Some(file) = load {
        outputs::check_readable("--load", file)?;
        outputs::check_distinct(&written(("--load", load)))?;
    }
    outputs::check_distinct(&written(("--save", save)))?;
    outputs::check_writable(&written(("--save", save)))
}

/// The first Ctrl-C asks the training to stop; a second one ends the program at once.
fn watch_for_interrupts() -> Outcome<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        warn(format_args!("\nstopping after this batch; press Ctrl-C again to stop at once"));
    })?;
    Ok(interrupted)
}

fn announce(origin: &Origin, mnist: &Mnist) {
    say!("{origin}");
    say!("{} digits to train on, {} to test on", mnist.train().len(), mnist.test().len());
}

// ---- Training

/// The data set, here and on the device.
struct Digits {
    mnist: Mnist,
    train: DigitSet,
    test: DigitSet,
}

/// Where the time went.
#[derive(Default)]
struct Times {
    /// From the start of the program to data and model on the device.
    start: Duration,
    /// The first step: it compiles kernels that the cache lacks, and is recorded if that is wanted.
    first_step: Duration,
    /// All other steps, until the device was done with them.
    train: Duration,
    /// Images of those.
    images: usize,
    test: Duration,
}

impl Times {
    fn images_per_second(&self) -> Option<f64> {
        speed(self.images, self.train)
    }
}

/// Images in a second; of none there is nothing to say.
fn speed(images: usize, time: Duration) -> Option<f64> {
    (images > 0).then(|| images as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE))
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [start, first_step, train, test] =
            [self.start, self.first_step, self.train, self.test].map(|time| time.as_secs_f64());
        let speed = self.images_per_second().map_or(String::new(), |speed| format!(" ({speed:.0} images/s)"));
        write!(f, "training {train:.3} s{speed}, testing {test:.3} s; before: {start:.3} s to load, ")?;
        write!(f, "{first_step:.3} s for the first step with its kernels")
    }
}

/// What happened, for results and plot.
#[derive(Default)]
struct History {
    /// Mean loss of a few batches, by the number of epochs at their end.
    losses: Vec<(f64, f64)>,
    /// Test accuracy, by the number of epochs.
    accuracies: Vec<(f64, f64)>,
    /// Mean loss of the last epoch, or of the part of it that was run.
    final_loss: Option<f64>,
    images: usize,
    times: Times,
    /// Whole epochs.
    epochs: u64,
    /// Whether the device recorded the step.
    is_recorded: bool,
}

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    model: &'a dyn Forward,
    digits: &'a Digits,
    shuffled: Shuffled,
    /// Digits in a step: no more than there are.
    batch: usize,
    adam: &'a RefCell<AdamW>,
    step: Step<'a>,
    history: History,
    saved: bool,
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a Arguments,
        model: &'a dyn Forward,
        adam: &'a RefCell<AdamW>,
        digits: &'a Digits,
    ) -> Outcome<Self> {
        let batch = (arguments.batch as usize).min(digits.train.len());
        let step = Step::new(model, adam, &digits.train, batch)?;
        let step = if arguments.capture { step.captured() } else { step };
        let shuffled = digits.mnist.train().shuffled(arguments.seed);
        let history = History::default();
        Ok(Training { arguments, model, digits, shuffled, batch, adam, step, history, saved: false })
    }

    /// Trains, and gives the test after the last batch.
    fn run(&mut self, interrupted: &AtomicBool) -> Outcome<Test> {
        let epochs = self.arguments.epochs;
        let stopped = || interrupted.load(Ordering::Relaxed);
        let mut last = None;
        for epoch in 0..epochs {
            if stopped() {
                break;
            }
            let summary = self.epoch(epoch, interrupted)?;
            // The weights are safe before the test and before anything is printed.
            if stopped() || epoch + 1 == epochs {
                self.save(stopped())?;
            }
            last = Some(self.test_epoch(epoch, &summary)?);
        }
        // Without an epoch, or after Ctrl-C during a test.
        self.save(stopped())?;
        last.map_or_else(|| self.test(), Ok)
    }

    /// Saves the weights once: to `--save`, or after Ctrl-C to a file of its own, unless nothing was learned yet.
    fn save(&mut self, interrupted: bool) -> Outcome<()> {
        let file = match &self.arguments.save {
            Some(file) => file.as_path(),
            None if interrupted && self.history.images > 0 => Path::new(INTERRUPTED_FILE),
            None => return Ok(()),
        };
        if !std::mem::replace(&mut self.saved, true) {
            nn::save(self.model, file)?;
            say!("weights saved to {}", file.display());
        }
        Ok(())
    }

    fn test(&mut self) -> Outcome<Test> {
        let start = Instant::now();
        let test = Test::of(self.model, &self.digits.test, self.digits.mnist.test())?;
        self.history.times.test += start.elapsed();
        Ok(test)
    }

    /// Tests after an epoch and tells about both.
    fn test_epoch(&mut self, epoch: u64, summary: &str) -> Outcome<Test> {
        let test = self.test()?;
        let done = self.history.losses.last().map_or(0.0, |&(position, _)| position);
        let accuracy = test.accuracy();
        self.history.accuracies.push((done, accuracy));
        self.history.epochs += u64::from(done >= (epoch + 1) as f64);
        let epochs = self.arguments.epochs;
        say!("epoch {}/{epochs}  {summary}  test accuracy {:.2} %", epoch + 1, accuracy * 100.0);
        if self.history.final_loss.is_some_and(|loss| !loss.is_finite()) {
            say!(
                "the loss is no number any more: try a smaller --lr, or TERNION_NAN=error to see which op made the first NaN"
            );
        }
        Ok(test)
    }

    /// One pass over the digits; tells about it in words.
    fn epoch(&mut self, epoch: u64, interrupted: &AtomicBool) -> Outcome<String> {
        let mut start = Instant::now();
        let rows = self.digits.train.batches(&self.shuffled.order(epoch), self.batch)?;
        let count = rows.dims()[0];
        let mut log = Log::new(count, self.batch, self.digits.train.len(), rows.device())?;
        let (bar, mut told) = (progress_bar(count, epoch, self.arguments.epochs), start);
        for position in 0..count {
            self.set_learning_rate(epoch, position, count)?;
            log.note(self.step.run(&rows.select(0, position)?)?)?;
            bar.inc(1);
            if self.history.images == 0 && position == 0 {
                start = self.first_step_ended(start)?;
            }
            if told.elapsed() >= BETWEEN_READINGS {
                bar.set_message(log.read()?.of_last(STEPS_PER_POINT).to_string());
                told = Instant::now();
            }
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
        }
        let readings = log.read()?;
        let elapsed = start.elapsed();
        bar.finish_and_clear();
        Ok(self.epoch_ended(epoch, count, &readings, elapsed))
    }

    /// Notes how long it took until now, and gives the time from which on the others count.
    fn first_step_ended(&mut self, start: Instant) -> Outcome<Instant> {
        self.digits.train.device().synchronize()?;
        self.history.times.first_step = start.elapsed();
        self.history.is_recorded = self.step.is_recorded();
        if self.arguments.capture && !self.history.is_recorded {
            say!("{} records no steps: each runs op by op", self.digits.train.device());
        }
        Ok(Instant::now())
    }

    /// Puts an epoch into the history.
    fn epoch_ended(&mut self, epoch: u64, count: usize, readings: &Readings, elapsed: Duration) -> String {
        for (point, readings) in readings.0.chunks(STEPS_PER_POINT).enumerate() {
            let steps = point * STEPS_PER_POINT + readings.len();
            let position = epoch as f64 + steps as f64 / count as f64;
            self.history.losses.push((position, Reading::sum(readings).mean_loss()));
        }
        let total = Reading::sum(&readings.0);
        let is_first = self.history.images == 0;
        let timed =
            total.images - if is_first { readings.0.first().map_or(0, |first| first.images) } else { 0 };
        self.history.final_loss = Some(total.mean_loss());
        self.history.images += total.images;
        self.history.times.images += timed;
        self.history.times.train += elapsed;
        match speed(timed, elapsed) {
            Some(speed) => format!("{total}  {speed:.0} images/s"),
            None => total.to_string(),
        }
    }

    /// From the given rate to 0 along half a cosine (Loshchilov and Hutter 2017, eq. 5, without restarts).
    fn set_learning_rate(&mut self, epoch: u64, position: usize, count: usize) -> Outcome<()> {
        let progress = (epoch as f64 + position as f64 / count as f64) / self.arguments.epochs as f64;
        let factor = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        Ok(self.adam.borrow_mut().set_lr(self.arguments.lr * factor)?)
    }
}

fn progress_bar(batches: usize, epoch: u64, epochs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len}  {msg}");
    let bar = ProgressBar::new(batches as u64).with_prefix(format!("epoch {}/{epochs}", epoch + 1));
    bar.with_style(style.expect("the template is right").progress_chars("=> "))
}

/// What the steps of an epoch leave; it stays on the device, so that no step waits for a reading.
struct Log {
    /// `[steps, 2]`, f32: mean loss and hits.
    entries: Tensor,
    /// How many steps have been noted.
    noted: usize,
    batch: usize,
    /// Images of the epoch.
    images: usize,
}

impl Log {
    fn new(steps: usize, batch: usize, images: usize, device: &Device) -> Outcome<Log> {
        Ok(Log { entries: Tensor::zeros([steps, 2], DType::F32, device)?, noted: 0, batch, images })
    }

    /// Takes over what a step has left.
    fn note(&mut self, result: &Tensor) -> Outcome<()> {
        self.entries.select(0, self.noted)?.copy_(result)?;
        self.noted += 1;
        Ok(())
    }

    /// What was noted so far. Waits for the device.
    fn read(&self) -> Outcome<Readings> {
        let values = self.entries.narrow(0, 0, self.noted)?.to_vec::<f32>()?;
        let reading = |(step, values): (usize, &[f32])| {
            let images = self.batch.min(self.images - step * self.batch);
            Reading { loss: f64::from(values[0]) * images as f64, hits: f64::from(values[1]), images }
        };
        Ok(Readings(values.chunks_exact(2).enumerate().map(reading).collect()))
    }
}

/// One for each step.
struct Readings(Vec<Reading>);

impl Readings {
    /// The sum of the last `steps` steps.
    fn of_last(&self, steps: usize) -> Reading {
        Reading::sum(&self.0[self.0.len().saturating_sub(steps)..])
    }
}

/// Sums over images.
#[derive(Clone, Copy, Default)]
struct Reading {
    loss: f64,
    hits: f64,
    images: usize,
}

impl Reading {
    fn sum(readings: &[Reading]) -> Reading {
        readings.iter().fold(Reading::default(), |sum, one| Reading {
            loss: sum.loss + one.loss,
            hits: sum.hits + one.hits,
            images: sum.images + one.images,
        })
    }

    fn mean_loss(&self) -> f64 {
        self.loss / self.images as f64
    }
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accuracy = 100.0 * self.hits / self.images as f64;
        write!(f, "loss {:.4}  accuracy {accuracy:.2} %", self.mean_loss())
    }
}

// ---- Testing

/// What a model makes of the test set.
struct Test {
    /// The digit that each image was taken for.
    found: Vec<u8>,
    hits: usize,
}

impl Test {
    fn of(model: &dyn Forward, digits: &DigitSet, split: &Split) -> Outcome<Test> {
        model.eval();
        let mut found = Vec::with_capacity(digits.len());
        for start in (0..digits.len()).step_by(TEST_BATCH) {
            let images = digits.images(start, TEST_BATCH)?;
            let logits = no_grad(|| model.forward(&images))?;
            found.extend(logits.argmax(1)?.to_vec::<i32>()?.into_iter().map(|class| class as u8));
        }
        model.train();
        let hits = found.iter().zip(split.labels()).filter(|(found, label)| found == label).count();
        Ok(Test { found, hits })
    }

    fn accuracy(&self) -> f64 {
        self.hits as f64 / self.found.len() as f64
    }
}

// ---- Results

fn write_results(
    arguments: &Arguments,
    device: &Device,
    history: &History,
    test: &Test,
    mnist: &Mnist,
) -> Outcome<()> {
    if let Some(file) = &arguments.json {
        let results = serde_json::json!({
            "device": device.name(),
            "model": arguments.model.name(),
            "epochs": history.epochs,
            "captured": history.is_recorded,
            "load_seconds": history.times.start.as_secs_f64(),
            "first_step_seconds": history.times.first_step.as_secs_f64(),
            "train_seconds": history.times.train.as_secs_f64(),
            "test_seconds": history.times.test.as_secs_f64(),
            "test_accuracy": test.accuracy(),
            "images_per_second": history.times.images_per_second(),
            "final_loss": history.final_loss,
        });
        outputs::write(file, &format!("{results:#}\n"))?;
    }
    if let Some(file) = &arguments.plot {
        let title =
            format!("{} on {device}: test accuracy {:.2} %", arguments.model.name(), test.accuracy() * 100.0);
        outputs::write(file, &svg::curves(&title, &history.losses, &history.accuracies))?;
    }
    if let Some(file) = &arguments.mistakes {
        let split = mnist.test();
        let wrong: Vec<svg::Digit<'_>> = (0..split.len())
            .filter_map(|index| {
                let (pixels, label) = (split.image(index)?, split.label(index)?);
                let found = test.found[index];
                (found != label).then_some(svg::Digit { pixels, label, found })
            })
            .collect();
        outputs::write(file, &svg::digits(&wrong, split.len()))?;
    }
    Ok(())
}
