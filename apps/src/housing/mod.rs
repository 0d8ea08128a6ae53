//! Predicts the price of a house from eight features of its district: a multilayer perceptron on a
//! table.
//!
//! ```sh
//! cargo run --release -p apps --bin housing
//! cargo run --release -p apps --bin housing -- --data california_housing.csv --plot curve.svg
//! cargo run --release -p apps --bin housing -- --gradcheck --epochs 1
//! nsys profile --trace=cuda,nvtx \
//!     cargo run --release -p apps --features cuda --bin housing -- --device cuda --nvtx --epochs 1
//! ```
//!
//! Without California housing on this machine the program generates a synthetic table, and says so.
//! `docs/tutorials/housing.md` walks through it.

mod districts;
mod prediction;

use crate::housing::districts::Districts;
use crate::housing::prediction::Predictor;
use crate::support::checksum::checksum;
use crate::support::console::print_line;
use crate::support::divergence::Divergence;
use crate::support::files::Files;
use crate::support::given_options::GivenOptions;
use crate::support::hyperparameters::Hyperparameters;
use crate::support::interrupts::Interrupts;
use crate::support::memory;
use crate::support::nvtx::NvtxRanges;
use crate::support::outputs::FileOption;
use crate::support::program::{Outcome, exit_code};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ternion::data::{
    CaliforniaHousing, Regression, RegressionBatch, RegressionOrder, RegressionSplit, Table,
};
use ternion::nn::schedule::CosineAnnealingLR;
use ternion::nn::{StatsConfig, StatsMonitor, StatsReport, SummaryPass, summary_of_shape};
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};
use ternion::train::{Chart, Panel, Recorder, Scale, Series};
use ternion_testing::gradcheck;

/// Districts per test batch, which saves nothing for the backward pass.
const TEST_BATCH: usize = 4096;

/// Number of districts whose predictions are printed.
const PRINTED_PREDICTIONS: usize = 5;

/// Limit of a feature in standard deviations from the mean: a few districts have hundreds of people
/// in a household, and are a hundred standard deviations away.
const MAX_DEVIATIONS: f64 = 5.0;

/// The default hyperparameters.
const DEFAULTS: Hyperparameters = Hyperparameters { epochs: 60, lr: 6e-3 };

/// Names of the two losses.
const TRAIN: &str = "training";
const HELD_OUT: &str = "held out";

/// Districts on which the gradients are checked.
const CHECKED_ROWS: usize = 4;

/// Predicts the price of a house from eight features of its district.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// A CSV file of numbers, a directory with California housing, "synthetic" for a generated
    /// table, or "auto": $TERNION_DATA, the cache, a synthetic table
    #[arg(long, default_value = "auto", value_name = "FILE.csv")]
    data: String,
    /// The column to predict; all others are features
    #[arg(long, default_value = CaliforniaHousing::TARGET, value_name = "COLUMN")]
    target: String,
    #[arg(long, help = format!("How often every district is seen, before --resume included, where it may be another number; 0 only tests [default: {}]", DEFAULTS.epochs))]
    epochs: Option<u64>,
    /// Districts per step
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    #[arg(long, help = format!("Learning rate at the start; it falls to 0 along a cosine. May change on --resume [default: {}]", DEFAULTS.lr))]
    lr: Option<f64>,
    /// Width of the two hidden layers
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    hidden: u32,
    /// Determines which districts are held out, the initial weights and the order of districts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints the layers with their shapes, parameters and arithmetic
    #[arg(long)]
    summary: bool,
    /// Steps between two inspections of the statistics of every layer: the first and the last
    /// report are printed, and a warning whenever something is wrong
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stats_every: u64,
    /// First compares every gradient of the model with central differences of its loss, in f64
    #[arg(long)]
    gradcheck: bool,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers
    #[arg(long)]
    nvtx: bool,
    /// Predicts the rows of a table with a saved model, and does nothing else; the table needs no
    /// column --target
    #[arg(long, value_name = "FILE.csv", requires = "load")]
    predict: Option<PathBuf>,
    /// The model for --predict: a checkpoint of --save
    #[arg(long, value_name = "FILE", requires = "predict")]
    load: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let (arguments, given) = GivenOptions::parse();
    exit_code(run(&arguments, &given))
}

/// Options of training.
const TRAINING_OPTIONS: [&str; 17] = [
    "data",
    "target",
    "epochs",
    "batch",
    "lr",
    "hidden",
    "seed",
    "summary",
    "stats_every",
    "gradcheck",
    "nvtx",
    "plot",
    "record",
    "save",
    "resume",
    "keep",
    "save_every",
];

fn run(arguments: &Arguments, given: &GivenOptions) -> Outcome<()> {
    if let (Some(table), Some(model)) = (&arguments.predict, &arguments.load) {
        given.reject(&TRAINING_OPTIONS, "--predict trains nothing")?;
        return predict(arguments, table, model);
    }
    // Words such as `auto` are not files.
    let table = Some(PathBuf::from(&arguments.data)).filter(|file| file.is_file());
    arguments.files.check(&[FileOption { option: "--data", file: &table }], &[])?;
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    device.seed(arguments.seed);
    let districts = Districts::load(&arguments.data)?;
    print_line!("{}", districts.origin);
    let regression = Regression::new(&districts.table, &[&arguments.target], arguments.seed)?;
    let (inputs, hidden) = (regression.train.features().columns().len(), arguments.hidden as usize);
    let sizes = [inputs, hidden, hidden, 1];
    check_memory(arguments, &sizes, &device)?;
    if arguments.gradcheck {
        check_gradients(&sizes, &regression.train, &device)?;
    }
    let model = Mlp::new(sizes, &device)?;
    print_line!("{} parameters on {device}", model.parameter_count());
    print_line!("{} districts to train on, {} held out", regression.train.len(), regression.held_out.len());
    if arguments.summary {
        let batch = (arguments.batch as usize).min(regression.train.len());
        print_line!("{}", summary_of_shape(&model, [batch, inputs], SummaryPass::ForwardBackward)?);
    }
    let mut training = Training::new(arguments, &model, &regression, &device)?;
    let interrupts = Interrupts::install()?;
    ranges.trace(&model, || training.run(&interrupts))?;
    let test = Test::run(&model, &regression, &device)?;
    if training.divergence.is_none() {
        test.print(&arguments.target);
    }
    let results = || results(&training, &districts, &test);
    arguments.files.write(results, || chart(&training.history, &test))?;
    Ok(Divergence::check(training.divergence)?)
}

/// Checks that weights and a step fit into memory.
fn check_memory(arguments: &Arguments, sizes: &[usize], device: &Device) -> Outcome<()> {
    let products = |pair: &[usize]| pair[0] as f64 * pair[1] as f64;
    let weights: f64 = sizes.windows(2).map(products).sum();
    memory::check(device, weights * memory::TRAINED_BYTES, &format!("--hidden {}", arguments.hidden))
}

/// Predicts new rows with a saved model, in real units.
fn predict(arguments: &Arguments, table: &Path, model: &Path) -> Outcome<()> {
    arguments.files.check(
        &[
            FileOption { option: "--predict", file: &arguments.predict },
            FileOption { option: "--load", file: &arguments.load },
        ],
        &[],
    )?;
    let device = ternion::device(&arguments.device)?;
    let predictor = Predictor::load(&Checkpoint::read(model)?, &device)?;
    let table_read = Table::read(table)?;
    let predicted = predictor.predict(&table_read, clamp_features)?;
    print_line!("{} of {} rows of {}:", predictor.target(), predicted.len(), table.display());
    predicted.iter().for_each(|value| print_line!("{value:.6}"));
    let peak = device.memory().peak;
    let results = || serde_json::json!({ "device": device.name(), "target": predictor.target(), "predictions": predicted, "peak_memory_bytes": peak });
    arguments.files.write(results, || Chart::new("", ""))
}

/// Clamps standardized features, so that no single district dominates the loss.
fn clamp_features(features: &Tensor) -> Result<Tensor> {
    features.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
}

// ---- Are the gradients right?

/// Compares every partial derivative of the loss with central differences of the loss, in f64, on a
/// few districts.
fn check_gradients(sizes: &[usize], split: &RegressionSplit, device: &Device) -> Outcome<()> {
    let mut batches = split.batches(CHECKED_ROWS, device)?;
    let batch = batches.next().ok_or("no district to check gradients on")??;
    let features = clamp_features(&batch.features)?.to_dtype(DType::F64)?;
    let targets = batch.targets.to_dtype(DType::F64)?;
    let config = LinearConfig { dtype: DType::F64, ..Default::default() };
    let mut parameters = Vec::new();
    for pair in sizes.windows(2) {
        let layer = Linear::with_config(pair[0], pair[1], config, device)?;
        parameters.extend(layer.parameters().iter().map(|param| param.tensor().detach()));
    }
    let loss = |parameters: &[Tensor]| {
        let mut value = features.clone();
        for (position, layer) in parameters.chunks_exact(2).enumerate() {
            value = if position > 0 { value.relu()? } else { value };
            value = value.linear(&layer[0], Some(&layer[1]))?;
        }
        value.mse_loss(&targets, Reduction::Mean)
    };
    let report = gradcheck(loss, &parameters)?;
    let share = 100.0 * report.worst;
    print_line!(
        "gradcheck: {} derivatives agree; the worst takes {share:.1} % of what is allowed",
        report.compared
    );
    Ok(())
}

// ---- Training

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    regression: &'a Regression,
    /// A checksum of the training data.
    table: String,
    device: &'a Device,
    hyperparameters: Hyperparameters,
    model: &'a Mlp,
    adam: Adam,
    /// Completed steps.
    step: u64,
    /// The sum of the losses of an incomplete epoch, each multiplied by the number of districts in
    /// its batch, as a checkpoint stores it.
    partial_epoch: Vec<f64>,
    /// Training loss and held-out loss after each epoch.
    history: Recorder,
    monitor: StatsMonitor,
    /// The newest report of the monitor that was not printed.
    newest: Option<StatsReport>,
    divergence: Option<Divergence>,
    /// Time of all epochs of this run, without tests.
    time: Duration,
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a Arguments,
        model: &'a Mlp,
        regression: &'a Regression,
        device: &'a Device,
    ) -> Outcome<Training<'a>> {
        let hyperparameters =
            DEFAULTS.with_options(&arguments.files.saving, arguments.epochs, arguments.lr)?;
        let config = AdamConfig { lr: hyperparameters.lr, ..Default::default() };
        let adam = Adam::new(model.parameters(), config)?;
        let steps_per_epoch = steps_per_epoch(arguments, regression);
        let (history, time) = (arguments.files.recorder(|step| step / steps_per_epoch)?, Duration::ZERO);
        let cells = regression.train.features().cells().iter().chain(regression.train.targets().cells());
        let table = checksum(cells.flat_map(|cell| cell.to_le_bytes()));
        let monitor = StatsMonitor::new(StatsConfig { every: arguments.stats_every, ..Default::default() })?;
        let (newest, divergence) = (None, None);
        Ok(Training {
            arguments,
            regression,
            table,
            device,
            hyperparameters,
            model,
            adam,
            step: 0,
            partial_epoch: vec![0.0],
            history,
            monitor,
            newest,
            divergence,
            time,
        })
    }

    /// The complete state that is needed to resume as if the run had never stopped.
    fn state(&mut self) -> TrainingState<'_> {
        let Arguments { batch, seed, target, hidden, .. } = self.arguments;
        TrainingState::new(self.device)
            .model("model", self.model)
            .optimizer("adam", &mut self.adam)
            .part("history", &mut self.history)
            .part("open_epoch", &mut self.partial_epoch)
            .value("epochs", &mut self.hyperparameters.epochs)
            .value("lr", &mut self.hyperparameters.lr)
            .setting("batch", batch)
            .setting("seed", seed)
            .setting("target", target)
            .setting("hidden", hidden)
            .setting("districts", self.regression.train.len())
            .setting("table", &self.table)
            // What is needed to predict rows that are not in the table.
            .setting(prediction::FEATURES, prediction::describe_scaler(&self.regression.feature_scale))
            .setting(prediction::TARGETS, prediction::describe_scaler(&self.regression.target_scale))
    }

    fn run(&mut self, interrupts: &Interrupts) -> Outcome<()> {
        let (hyperparameters, files) = (self.hyperparameters, &self.arguments.files);
        self.step = files.resume(&mut self.state())?;
        // A resumed run uses the number of epochs and the learning rate of this command line.
        self.hyperparameters = hyperparameters;
        let (epochs, steps) = (hyperparameters.epochs, steps_per_epoch(self.arguments, self.regression));
        let schedule = CosineAnnealingLR::new(hyperparameters.lr, epochs.saturating_mul(steps).max(1), 0.0)?;
        if self.step / steps >= epochs {
            print_line!("no epoch is left: {} were made, --epochs {epochs}", self.step / steps);
            return files.checkpoint(self.step, &self.state());
        }
        let mut stops = false;
        while self.step / steps < epochs && self.divergence.is_none() && !stops {
            let start = Instant::now();
            stops = self.epoch(&schedule, interrupts)?;
            self.time += start.elapsed();
            self.record_epoch(steps, stops)?;
        }
        if stops {
            files.print_stopped(self.step);
        }
        self.newest.iter().for_each(print_stats);
        Ok(())
    }

    /// Records the losses of an epoch, or of the completed part of it, and saves.
    ///
    /// An incomplete epoch is saved before it is recorded: a run that resumes from there must not
    /// contain a reading that an uninterrupted run would not have.
    fn record_epoch(&mut self, steps: u64, stops: bool) -> Outcome<()> {
        let (files, epochs) = (&self.arguments.files, self.hyperparameters.epochs);
        let (epoch, completed) = (self.step.div_ceil(steps), self.step % steps);
        let is_complete = completed == 0;
        let districts = self.regression.train.len();
        let trained_districts =
            if is_complete { districts } else { completed as usize * self.arguments.batch as usize };
        let loss = self.partial_epoch[0] / trained_districts as f64;
        self.divergence = Divergence::detect(self.step, loss);
        let is_saved = self.divergence.is_none() && files.is_due(epoch, stops || epoch == epochs);
        if is_saved && !is_complete {
            files.checkpoint(self.step, &self.state())?;
        }
        let held_out = Test::run(self.model, self.regression, self.device)?.loss;
        self.history.scalar(TRAIN, epoch, loss)?;
        self.history.scalar(HELD_OUT, epoch, held_out)?;
        self.partial_epoch = vec![0.0];
        if is_saved && is_complete {
            files.checkpoint(self.step, &self.state())?;
        }
        let part = if is_complete { "" } else { " (a part of it)" };
        print_line!("epoch {epoch}/{epochs}{part}  loss {loss:.4}  held out {held_out:.4}");
        Ok(())
    }

    /// Prints the statistics of every layer in the first step, and later only the warnings.
    fn handle_report(&mut self, report: StatsReport) {
        if report.step == 0 {
            return print_stats(&report);
        }
        report.warnings.iter().for_each(|warning| print_line!("step {}: {warning}", report.step));
        self.newest = Some(report);
    }

    /// Trains on the rest of an epoch; returns whether Ctrl-C ended it.
    fn epoch(&mut self, schedule: &CosineAnnealingLR, interrupts: &Interrupts) -> Outcome<bool> {
        let Training { arguments, regression, device, .. } = *self;
        let steps = steps_per_epoch(arguments, regression);
        let order = RegressionOrder { seed: arguments.seed, epoch: self.step / steps };
        let batches = regression.train.shuffled_batches(order, arguments.batch as usize, device)?;
        // Summed on the device: reading each loss would wait for each step.
        let mut sum = Tensor::full((), self.partial_epoch[0], DType::F32, device)?;
        let mut stops = false;
        for batch in batches.skip((self.step % steps) as usize) {
            let batch = batch?;
            self.adam.set_lr(schedule.lr(self.step))?;
            let loss = in_span(SpanKind::Other, "step", "", || self.train_step(&batch))?;
            sum = no_grad(|| sum.add(&loss.mul_scalar(batch.size as f64)?))?;
            self.step += 1;
            stops = interrupts.should_stop();
            if stops {
                break;
            }
        }
        self.partial_epoch = vec![sum.item_f64()?];
        Ok(stops)
    }

    /// Trains on `batch`; returns its loss.
    fn train_step(&mut self, batch: &RegressionBatch) -> Result<Tensor> {
        let model = self.model;
        let Training { adam, monitor, .. } = self;
        let compute_loss =
            || model.forward(&clamp_features(&batch.features)?)?.mse_loss(&batch.targets, Reduction::Mean);
        let forward = || in_span(SpanKind::Other, "forward", "", compute_loss);
        let loss = monitor.watch(model, self.step, forward)?;
        let gradients = loss.backward()?;
        // Makes a step of Adam, and returns a report if the monitor inspected it.
        if let Some(report) = monitor.step(adam, &gradients)? {
            self.handle_report(report);
        }
        Ok(loss.detach())
    }
}

fn steps_per_epoch(arguments: &Arguments, regression: &Regression) -> u64 {
    regression.train.len().div_ceil(arguments.batch as usize) as u64
}

fn print_stats(report: &StatsReport) {
    print_line!("the numbers of every layer:");
    print_line!("{report}");
}

// ---- Testing

/// Predictions for the held-out districts.
struct Test {
    /// Mean squared error in units of the targets' variance in the training data.
    loss: f64,
    /// `(predicted, actual)` of each district in real units.
    pairs: Vec<(f64, f64)>,
}

impl Test {
    fn run(model: &Mlp, regression: &Regression, device: &Device) -> Outcome<Test> {
        let scale = &regression.target_scale;
        let (mut predicted, mut squares) = (Vec::new(), 0.0);
        for batch in regression.held_out.batches(TEST_BATCH, device)? {
            let batch = batch?;
            let outputs = no_grad(|| model.forward(&clamp_features(&batch.features)?))?;
            squares += outputs.mse_loss(&batch.targets, Reduction::Sum)?.item_f64()?;
            predicted.extend(scale.restore_tensor(&outputs)?.to_vec_f64()?);
        }
        let actual = scale.restore(regression.held_out.targets())?;
        let pairs: Vec<_> = predicted.into_iter().zip(actual.cells().iter().copied()).collect();
        Ok(Test { loss: squares / pairs.len() as f64, pairs })
    }

    fn squared_error(&self) -> f64 {
        self.pairs.iter().map(|(predicted, actual)| (predicted - actual).powi(2)).sum()
    }

    /// The root of the mean squared error, in real units.
    fn rmse(&self) -> f64 {
        (self.squared_error() / self.pairs.len() as f64).sqrt()
    }

    /// The explained fraction of the variance: 1 is perfect, 0 is as good as the mean.
    fn r2(&self) -> f64 {
        let mean = self.pairs.iter().map(|pair| pair.1).sum::<f64>() / self.pairs.len() as f64;
        1.0 - self.squared_error() / self.pairs.iter().map(|pair| (pair.1 - mean).powi(2)).sum::<f64>()
    }

    fn print(&self, target: &str) {
        print_line!("{target} of {PRINTED_PREDICTIONS} districts that the model has not seen:");
        print_line!("{:>12} {:>12} {:>12}", "predicted", "actual", "difference");
        for (predicted, actual) in self.pairs.iter().take(PRINTED_PREDICTIONS) {
            print_line!("{predicted:12.3} {actual:12.3} {:12.3}", predicted - actual);
        }
        print_line!("test R2 {:.4}, RMSE {:.4}", self.r2(), self.rmse());
    }
}

// ---- Results

fn results(training: &Training<'_>, districts: &Districts, test: &Test) -> serde_json::Value {
    let Training { arguments, device, history, time, .. } = training;
    let pair =
        |&(predicted, actual): &(f64, f64)| serde_json::json!({ "predicted": predicted, "actual": actual });
    serde_json::json!({
        "device": device.name(),
        "data": districts.origin,
        "synthetic": districts.is_synthetic,
        "seed": arguments.seed,
        // Completed epochs.
        "epochs": training.step / steps_per_epoch(arguments, training.regression),
        "train_loss": history.series(TRAIN).last().map(|point| point.1),
        "test_loss": test.loss,
        "test_r2": test.r2(),
        "test_rmse": test.rmse(),
        "predictions": test.pairs.iter().take(PRINTED_PREDICTIONS).map(pair).collect::<Vec<_>>(),
        "train_seconds": time.as_secs_f64(),
        "peak_memory_bytes": device.memory().peak,
    })
}

fn chart(history: &Recorder, test: &Test) -> Chart {
    let panel = Panel::new("mean squared error, of 1 for the mean")
        .scale(Scale::Logarithmic)
        .series(Series::recorded(history, TRAIN))
        .series(Series::recorded(history, HELD_OUT));
    Chart::new(&format!("held-out districts: R2 {:.4}", test.r2()), "epochs").panel(panel)
}
