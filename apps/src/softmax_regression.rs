//! The smallest classifier, `log softmax(X W + b)`, with hand-written gradients that are compared
//! with those of autograd.
//!
//! ```sh
//! cargo run --release -p apps --bin softmax_regression
//! cargo run --release -p apps --bin softmax_regression \
//!     -- --data synthetic --check-every 10 --plot curve.svg
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda \
//!     --bin softmax_regression -- --device cuda --nvtx --steps 100
//! ```
//!
//! Without MNIST on this machine it trains on drawn digits, and says so.
//! `docs/tutorials/softmax_regression.md` walks through it.

use crate::support::checksum::checksum;
use crate::support::console::{print_line, warn};
use crate::support::digits::DigitSet;
use crate::support::divergence::Divergence;
use crate::support::files::Files;
use crate::support::interrupts::Interrupts;
use crate::support::nvtx::NvtxRanges;
use crate::support::program::{Outcome, exit_code};
use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ternion::data::{Catalog, Network, Search, Shuffled};
use ternion::nn::in_layer;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};
use ternion::train::{Chart, Panel, Recorder, Scale, Series};

const CLASSES: usize = 10;

/// Names of the recorded series.
const LOSS: &str = "training";
const DIFFERENCE: &str = "by hand less autograd";

/// Batch size of tests, which save nothing for the backward pass.
const TEST_BATCH: usize = 1000;

/// Trains one linear layer on handwritten digits, and compares hand-written gradients with
/// autograd's.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// A directory with MNIST's four files, "synthetic" for drawn digits, or "auto": $TERNION_DATA,
    /// the cache, drawn digits
    #[arg(long, default_value = "auto")]
    data: DataSource,
    /// Steps of training; 0 only tests
    #[arg(long, default_value_t = 2000)]
    steps: u64,
    /// Digits per step
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Learning rate of stochastic gradient descent
    #[arg(long, default_value_t = 0.05)]
    lr: f64,
    /// Compares the gradients of each N-th step
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
    /// The largest allowed difference, relative to the largest gradient
    #[arg(long, default_value_t = 1e-5)]
    tolerance: f64,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers
    #[arg(long)]
    nvtx: bool,
    /// Determines the initial weights and the order of digits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// Runs the program.
pub fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    arguments.files.check(&[], &[])?;
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    device.seed(arguments.seed);
    let mnist = load(arguments.data.clone())?;
    print_line!("{}", mnist.origin());
    let inputs = mnist.train().rows() * mnist.train().cols();
    let model = SoftmaxRegression::new(inputs, &device)?;
    print_line!("{} parameters on {device}", model.parameter_count());
    let mut training = Training::new(arguments, &model, mnist.train(), &device)?;
    let interrupts = Interrupts::install()?;
    ranges.trace(&model, || training.run(&interrupts))?;
    let accuracy = accuracy(&model, mnist.test(), &device)?;
    let largest = largest(training.history.series(DIFFERENCE));
    if training.divergence.is_none() {
        print_line!("test accuracy {:.2} %", accuracy * 100.0);
    }
    print_line!("the largest difference between the gradients: {largest:.3e} of the largest gradient");
    let results = || results(&training, &mnist, largest, accuracy);
    arguments.files.write(results, || chart(&training.history, accuracy))?;
    Divergence::check(training.divergence)?;
    // Written so that a NaN difference fails.
    if largest <= arguments.tolerance {
        return Ok(());
    }
    Err(format!("the gradients differ by {largest:.3e}, expected at most {:e}", arguments.tolerance).into())
}

/// Loads MNIST if it is found, else draws digits: nothing is downloaded.
fn load(source: DataSource) -> Outcome<Mnist> {
    let DataSource::Auto = source else { return Ok(Mnist::load(source)?) };
    let search = Search { network: Network::Forbidden, ..Search::from_environment() };
    let mnist = Mnist::find_or_synthetic(&Catalog::mnist(), &search, DataSource::SYNTHETIC)?;
    mnist.notices().iter().for_each(|notice| warn(format_args!("warning: {notice}")));
    Ok(mnist)
}

// ---- The model

/// `log softmax(X W + b)`: the logarithm of each class's probability.
#[derive(Module)]
struct SoftmaxRegression {
    /// `[inputs, classes]`
    weight: Param,
    /// `[classes]`
    bias: Param,
}

impl SoftmaxRegression {
    fn new(inputs: usize, device: &Device) -> Result<SoftmaxRegression> {
        let std = 1.0 / (inputs as f64).sqrt();
        let weight = Init::Normal { mean: 0.0, std }.tensor([inputs, CLASSES], DType::F32, device)?;
        let bias = Tensor::zeros([CLASSES], DType::F32, device)?;
        Ok(SoftmaxRegression { weight: Param::new(&weight)?, bias: Param::new(&bias)? })
    }
}

impl Forward for SoftmaxRegression {
    /// # Shapes
    /// `[batch, inputs] -> [batch, classes]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        // Observers of the model see it as a layer.
        in_layer(self, "SoftmaxRegression", || {
            input.matmul(&self.weight.tensor())?.add(&self.bias.tensor())?.log_softmax(1)
        })
    }
}

// ---- Gradients by hand

/// Gradients of the mean loss, for the weight `[inputs, classes]` and the bias `[classes]`.
struct ByHand {
    weight: Tensor,
    bias: Tensor,
}

impl ByHand {
    /// Returns the gradients of the loss `-sum(Y * log P) / batch`, with `Y` the labels as one-hot
    /// rows and `P = softmax(X W + b)`:
    ///
    /// `dZ = (P - Y) / batch`, `dW = XT dZ`, `db = sum of dZ's rows`
    fn of(input: &Tensor, log_probabilities: &Tensor, labels: &Tensor) -> Result<ByHand> {
        no_grad(|| {
            let [batch, classes] = log_probabilities.sizes()?;
            let expected = labels.one_hot(classes, DType::F32)?;
            let grad_logits = log_probabilities.exp()?.sub(&expected)?.div_scalar(batch as f64)?;
            Ok(ByHand { weight: input.t()?.matmul(&grad_logits)?, bias: grad_logits.sum(0)? })
        })
    }

    /// Returns the largest difference from autograd's gradients, relative to the largest gradient
    /// of each parameter.
    fn difference(&self, model: &SoftmaxRegression, gradients: &Gradients) -> Result<f64> {
        let mut largest = 0.0;
        for (param, by_hand) in [(&model.weight, &self.weight), (&model.bias, &self.bias)] {
            let Some(gradient) = param.gradient(gradients) else {
                return Err(Error::invalid("softmax_regression", "autograd gave a parameter no gradient"));
            };
            let difference = by_hand.sub(gradient)?.abs()?.max(..)?.item_f64()?;
            let scale = by_hand.abs()?.max(..)?.item_f64()?;
            let relative = if difference == 0.0 { 0.0 } else { difference / scale };
            // Keeps a NaN difference.
            largest = if relative <= largest { largest } else { relative };
        }
        Ok(largest)
    }
}

// ---- Training

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    digits: DigitSet,
    /// A checksum of the training data.
    data: String,
    shuffled: Shuffled,
    /// An epoch, and the order of its digits.
    order: (u64, Vec<usize>),
    batch: usize,
    model: &'a SoftmaxRegression,
    sgd: SGD,
    /// Loss, and difference of the gradients, of each checked step.
    history: Recorder,
    divergence: Option<Divergence>,
    /// Completed steps.
    completed_steps: u64,
    /// Time of all steps of this run, with their comparisons.
    time: Duration,
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a Arguments,
        model: &'a SoftmaxRegression,
        split: &Split,
        device: &Device,
    ) -> Outcome<Training<'a>> {
        let config = SGDConfig { lr: arguments.lr, ..Default::default() };
        let shuffled = split.shuffled(arguments.seed);
        Ok(Training {
            arguments,
            digits: DigitSet::new(split, device)?,
            data: checksum(split.pixels().iter().chain(split.labels()).copied()),
            order: (0, shuffled.order(0)),
            shuffled,
            batch: (arguments.batch as usize).min(split.len()),
            sgd: SGD::new(model.parameters(), config)?,
            model,
            history: arguments.files.recorder(|step| step)?,
            divergence: None,
            completed_steps: 0,
            time: Duration::ZERO,
        })
    }

    /// The complete state that is needed to resume as if the run had never stopped.
    fn state(&mut self) -> TrainingState<'_> {
        let Arguments { lr, seed, .. } = self.arguments;
        TrainingState::new(self.digits.device())
            .model("model", self.model)
            .optimizer("sgd", &mut self.sgd)
            .part("history", &mut self.history)
            .setting("batch", self.batch)
            .setting("lr", lr)
            .setting("seed", seed)
            .setting("digits", self.digits.count())
            .setting("data", &self.data)
    }

    fn run(&mut self, interrupts: &Interrupts) -> Outcome<()> {
        let Arguments { steps, check_every, ref files, .. } = *self.arguments;
        let first = files.resume(&mut self.state())?;
        self.completed_steps = first;
        if first >= steps {
            print_line!("no step is left: {first} were made, --steps {steps}");
            return files.checkpoint(first, &self.state());
        }
        let start = Instant::now();
        for step in first..steps {
            let is_checked = step.is_multiple_of(check_every) || step + 1 == steps;
            if let Some(check) = in_span(SpanKind::Other, "step", "", || self.step(step, is_checked))? {
                self.record_check(step, check)?;
            }
            self.completed_steps = step + 1;
            let stops = interrupts.should_stop() && self.completed_steps < steps;
            if stops && self.divergence.is_none() {
                files.checkpoint(self.completed_steps, &self.state())?;
                files.print_stopped(self.completed_steps);
            }
            if stops || self.divergence.is_some() {
                break;
            }
        }
        self.digits.device().synchronize()?;
        self.time = start.elapsed();
        Ok(())
    }

    /// Records loss and difference of a checked step, and saves.
    ///
    /// The last step is checked outside the interval and saved before: a run that resumes from
    /// there must not contain a check that an uninterrupted run would not have.
    fn record_check(&mut self, step: u64, (loss, difference): (f64, f64)) -> Outcome<()> {
        let Arguments { steps, check_every, ref files, .. } = *self.arguments;
        let is_last = step + 1 == steps;
        self.divergence = Divergence::detect(step + 1, loss);
        let is_saved = self.divergence.is_none() && files.is_due(step / check_every + 1, is_last);
        let is_regular = step.is_multiple_of(check_every);
        if is_saved && !is_regular {
            files.checkpoint(step + 1, &self.state())?;
        }
        self.history.scalar(LOSS, step + 1, loss)?;
        self.history.scalar(DIFFERENCE, step + 1, difference)?;
        if is_saved && is_regular {
            files.checkpoint(step + 1, &self.state())?;
        }
        print_line!("step {}  loss {loss:.4}  gradients apart {difference:.3e}", step + 1);
        Ok(())
    }

    /// Runs one step; if it is checked, returns its loss and the difference of the gradients.
    fn step(&mut self, step: u64, is_checked: bool) -> Outcome<Option<(f64, f64)>> {
        let rows = self.rows(step)?;
        let (images, labels) = self.digits.gather(&rows)?;
        let input = images.flatten(1, -1)?;
        let log_probabilities = self.model.forward(&input)?;
        let loss = log_probabilities.nll_loss(&labels)?;
        let gradients = loss.backward()?;
        let mut check = None;
        if is_checked {
            let by_hand = ByHand::of(&input, &log_probabilities, &labels)?;
            check = Some((loss.item_f64()?, by_hand.difference(self.model, &gradients)?));
        }
        self.sgd.step(&gradients)?;
        Ok(check)
    }

    /// Returns the indices of the digits of a step, `[batch]` i64, which depend only on seed and
    /// step. The digits of an epoch that do not fill a batch are left out.
    fn rows(&mut self, step: u64) -> Result<Tensor> {
        let batches = (self.digits.count() / self.batch) as u64;
        if self.order.0 != step / batches {
            self.order = (step / batches, self.shuffled.order(step / batches));
        }
        let start = (step % batches) as usize * self.batch;
        let rows = self.order.1[start..start + self.batch].iter().map(|&number| number as i64).collect();
        Tensor::from_vec(rows, self.batch, self.digits.device())
    }
}

/// Returns the largest of the differences; NaN if one is NaN.
fn largest(differences: &[(u64, f64)]) -> f64 {
    differences.iter().fold(0.0, |largest: f64, &(_, one)| if one <= largest { largest } else { one })
}

/// Returns the fraction of digits that are classified correctly.
fn accuracy(model: &SoftmaxRegression, split: &Split, device: &Device) -> Outcome<f64> {
    let digits = DigitSet::new(split, device)?;
    let mut hits = 0;
    for start in (0..digits.count()).step_by(TEST_BATCH) {
        let images = digits.images(start, TEST_BATCH)?.flatten(1, -1)?;
        let predicted = no_grad(|| model.forward(&images)?.argmax(1))?.to_vec::<i32>()?;
        let labels = &split.labels()[start..];
        hits += predicted
            .iter()
            .zip(labels)
            .filter(|(predicted, label)| **predicted == i32::from(**label))
            .count();
    }
    Ok(hits as f64 / digits.count() as f64)
}

// ---- Results

fn results(training: &Training<'_>, mnist: &Mnist, largest: f64, accuracy: f64) -> serde_json::Value {
    let Training { arguments, digits, history, time, .. } = training;
    serde_json::json!({
        "device": digits.device().name(),
        "synthetic": mnist.origin().is_synthetic(),
        "seed": arguments.seed,
        "steps": training.completed_steps,
        "checked_steps": history.series(DIFFERENCE).len(),
        "largest_difference": largest,
        "final_loss": history.series(LOSS).last().map(|point| point.1),
        "test_accuracy": accuracy,
        "train_seconds": time.as_secs_f64(),
        "peak_memory_bytes": digits.device().memory().peak,
    })
}

fn chart(history: &Recorder, accuracy: f64) -> Chart {
    let loss = Panel::new("loss").series(Series::recorded(history, LOSS));
    let difference = Panel::new("of the largest gradient")
        .scale(Scale::Logarithmic)
        .series(Series::recorded(history, DIFFERENCE).dots());
    let title = format!("softmax regression: test accuracy {:.2} %", accuracy * 100.0);
    Chart::new(&title, "steps").panel(loss).panel(difference)
}
