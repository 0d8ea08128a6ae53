//! Trains a classifier of handwritten digits.
//!
//!     cargo run --release --example mnist
//!     cargo run --release --example mnist -- --model cnn --epochs 2 --plot curve.svg --mistakes wrong.svg
//!
//! Without the data set on this machine it is downloaded; without a network the program draws digits of its own, and says so.

#[path = "support/outputs.rs"]
mod outputs;
#[path = "support/say.rs"]
mod say;
#[path = "support/svg.rs"]
mod svg;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use outputs::Output;
use say::{say, warn};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ternion::data::{Batches, Origin};
use ternion::nn;
use ternion::prelude::*;

/// Mean and standard deviation of MNIST's pixels, as a share of white.
const PIXEL_MEAN: f32 = 0.1307;
const PIXEL_DEVIATION: f32 = 0.3081;

/// How many batches pass between two readings of loss and accuracy, each of which waits for the device.
const BATCHES_PER_READING: usize = 50;

/// How many batches a thread makes ahead.
const PREFETCHED: usize = 4;

/// Batch size of tests, where nothing is kept for backward.
const TEST_BATCH: usize = 1000;

/// Where Ctrl-C saves to if `--save` names no file.
const INTERRUPTED_FILE: &str = "mnist-interrupted.safetensors";

/// Trains a classifier of handwritten digits.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:INDEX
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

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
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
    let adam = AdamW::new(model.parameters(), AdamWConfig { lr: arguments.lr, ..Default::default() })?;
    let (mnist, origin) = Mnist::load_or_synthetic(arguments.data.clone())?;
    announce(&origin, &mnist);
    let mut training = Training::new(arguments, &*model, adam, &mnist, &device)?;
    training.run(&interrupted)?;
    let test = match training.history.test.take() {
        Some(test) => test,
        None => Test::of(&*model, &mnist, &device)?,
    };
    say!("test accuracy {:.2} %", test.accuracy() * 100.0);
    write_results(arguments, &device, &training.history, &test, &mnist)
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

/// Batches of normalised digits.
fn normalised(batches: Batches) -> Outcome<Batches> {
    Ok(batches.normalise(PIXEL_MEAN, PIXEL_DEVIATION)?.prefetch(PREFETCHED))
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
    train_time: Duration,
    /// Whole epochs.
    epochs: u64,
    /// Test accuracy after the last batch, with what was found on each digit.
    test: Option<Test>,
}

impl History {
    fn images_per_second(&self) -> f64 {
        self.images as f64 / self.train_time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    model: &'a dyn Forward,
    mnist: &'a Mnist,
    device: &'a Device,
    batches: Batches,
    adam: AdamW,
    history: History,
    saved: bool,
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a Arguments,
        model: &'a dyn Forward,
        adam: AdamW,
        mnist: &'a Mnist,
        device: &'a Device,
    ) -> Outcome<Self> {
        let shuffled = mnist.train().shuffled(arguments.seed);
        let batches = normalised(shuffled.batches(arguments.batch as usize, device))?;
        let history = History::default();
        Ok(Training { arguments, model, mnist, device, batches, adam, history, saved: false })
    }

    fn run(&mut self, interrupted: &AtomicBool) -> Outcome<()> {
        let epochs = self.arguments.epochs;
        let stopped = || interrupted.load(Ordering::Relaxed);
        for epoch in 0..epochs {
            if stopped() {
                break;
            }
            let summary = self.epoch(epoch, interrupted)?;
            // The weights are safe before the test and before anything is printed.
            if stopped() || epoch + 1 == epochs {
                self.save(stopped())?;
            }
            self.test(epoch, &summary)?;
        }
        // Without an epoch, or after Ctrl-C during a test.
        self.save(stopped())
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

    /// Tests after an epoch and tells about both.
    fn test(&mut self, epoch: u64, summary: &str) -> Outcome<()> {
        let test = Test::of(self.model, self.mnist, self.device)?;
        let done = self.history.losses.last().map_or(0.0, |&(position, _)| position);
        let accuracy = test.accuracy();
        self.history.accuracies.push((done, accuracy));
        self.history.test = Some(test);
        self.history.epochs += u64::from(done >= (epoch + 1) as f64);
        let epochs = self.arguments.epochs;
        say!("epoch {}/{epochs}  {summary}  test accuracy {:.2} %", epoch + 1, accuracy * 100.0);
        if self.history.final_loss.is_some_and(|loss| !loss.is_finite()) {
            say!(
                "the loss is no number any more: try a smaller --lr, or TERNION_NAN=error to see which op made the first NaN"
            );
        }
        Ok(())
    }

    /// One pass over the digits; tells about it in words.
    fn epoch(&mut self, epoch: u64, interrupted: &AtomicBool) -> Outcome<String> {
        let count = self.batches.len();
        let bar = progress_bar(count, epoch, self.arguments.epochs);
        let (mut window, mut total) = (Tally::new(self.device)?, Readings::default());
        let start = Instant::now();
        for (position, batch) in self.batches.epoch(epoch).into_iter().enumerate() {
            self.set_learning_rate(epoch, position, count)?;
            self.step(&batch?, &mut window)?;
            bar.inc(1);
            let stop = interrupted.load(Ordering::Relaxed);
            if (position + 1) % BATCHES_PER_READING == 0 || position + 1 == count || stop {
                let readings = window.read()?;
                total.add(&readings);
                self.history
                    .losses
                    .push((epoch as f64 + (position + 1) as f64 / count as f64, readings.mean_loss()));
                let speed = total.images as f64 / start.elapsed().as_secs_f64();
                bar.set_message(format!("{readings}  {speed:.0} images/s"));
            }
            if stop {
                break;
            }
        }
        let elapsed = start.elapsed();
        bar.finish_and_clear();
        self.history.final_loss = Some(total.mean_loss());
        self.history.images += total.images;
        self.history.train_time += elapsed;
        Ok(format!("{total}  {:.0} images/s", total.images as f64 / elapsed.as_secs_f64()))
    }

    fn step(&mut self, batch: &Batch, tally: &mut Tally) -> Outcome<()> {
        let logits = self.model.forward(&batch.images)?;
        let loss = logits.cross_entropy(&batch.labels)?;
        self.adam.step(&loss.backward()?)?;
        tally.add(&loss, &logits, batch)
    }

    /// From the given rate to 0 along half a cosine (Loshchilov and Hutter 2017, eq. 5, without restarts).
    fn set_learning_rate(&mut self, epoch: u64, position: usize, count: usize) -> Outcome<()> {
        let progress = (epoch as f64 + position as f64 / count as f64) / self.arguments.epochs as f64;
        let factor = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        Ok(self.adam.set_lr(self.arguments.lr * factor)?)
    }
}

fn progress_bar(batches: usize, epoch: u64, epochs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len}  {msg}");
    let bar = ProgressBar::new(batches as u64).with_prefix(format!("epoch {}/{epochs}", epoch + 1));
    bar.with_style(style.expect("the template is right").progress_chars("=> "))
}

/// Sums of loss and hits that stay on the device, so that no batch waits for a reading.
struct Tally {
    /// `[loss * images, hits]`, f32.
    sums: Tensor,
    images: usize,
}

impl Tally {
    fn new(device: &Device) -> Outcome<Tally> {
        Ok(Tally { sums: Tensor::zeros([2], DType::F32, device)?, images: 0 })
    }

    fn add(&mut self, loss: &Tensor, logits: &Tensor, batch: &Batch) -> Outcome<()> {
        no_grad(|| {
            let accuracy = logits.accuracy(&batch.labels)?;
            let means = Tensor::stack(&[&loss.detach(), &accuracy], 0)?;
            self.sums.add_(&means.mul_scalar(batch.size as f64)?)
        })?;
        self.images += batch.size;
        Ok(())
    }

    /// Reads the sums and starts anew.
    fn read(&mut self) -> Outcome<Readings> {
        let sums = self.sums.to_vec::<f32>()?;
        self.sums.fill_(0.0)?;
        let images = std::mem::take(&mut self.images);
        Ok(Readings { loss: f64::from(sums[0]), hits: f64::from(sums[1]), images })
    }
}

/// Sums over images.
#[derive(Default)]
struct Readings {
    loss: f64,
    hits: f64,
    images: usize,
}

impl Readings {
    fn add(&mut self, other: &Readings) {
        self.loss += other.loss;
        self.hits += other.hits;
        self.images += other.images;
    }

    fn mean_loss(&self) -> f64 {
        self.loss / self.images as f64
    }
}

impl std::fmt::Display for Readings {
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
    fn of(model: &dyn Forward, mnist: &Mnist, device: &Device) -> Outcome<Test> {
        model.eval();
        let mut found = Vec::with_capacity(mnist.test().len());
        for batch in normalised(mnist.test().batches(TEST_BATCH, device))? {
            let logits =
                no_grad(|| model.forward(&batch?.images).map_err(Box::<dyn std::error::Error>::from))?;
            found.extend(logits.argmax(1)?.to_vec::<i32>()?.into_iter().map(|class| class as u8));
        }
        model.train();
        let hits = found.iter().zip(mnist.test().labels()).filter(|(found, label)| found == label).count();
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
            "train_seconds": history.train_time.as_secs_f64(),
            "test_accuracy": test.accuracy(),
            "images_per_second": history.images_per_second(),
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
