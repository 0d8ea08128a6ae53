//! Trains one small model on two devices from one seed, and compares their losses step by step.
//!
//! ```sh
//! cargo run --release -p apps --bin compare
//! cargo run --release -p apps --features wgpu --bin compare \
//!     -- --devices cpu,wgpu --model gpt --plot curves.svg
//! ```
//!
//! On a machine without a GPU the CPU is compared with itself, once with every op run as a
//! composition of primitives. The program fails if the difference exceeds `--tolerance`.
//! `docs/tutorials/compare.md` walks through it.

mod tasks;

use crate::compare::tasks::{Kind, Task};
use crate::support::console::print_line;
use crate::support::divergence::Divergence;
use crate::support::files::Files;
use crate::support::interrupts::Interrupts;
use crate::support::program::{Outcome, exit_code};
use clap::Parser;
use std::process::ExitCode;
use ternion::decorators::Composed;
use ternion::nn::StateDict;
use ternion::nn::schedule::Schedule;
use ternion::prelude::*;
use ternion::train::{Chart, Panel, Recorder, Scale, Series, Stateful};

/// The CPU with every op run as a composition of primitives.
const COMPOSED: &str = "cpu:composed";

/// Number of progress lines.
const PROGRESS_LINES: u64 = 10;

/// Trains one small model on two devices from one seed, and compares their losses.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// Two of cpu, cpu:composed, cuda, cuda:INDEX, wgpu and wgpu:ADAPTER; by default cpu and the
    /// fastest other device, or cpu:composed if cpu is the only one
    #[arg(long, value_name = "ONE,OTHER", value_parser = parse_names, conflicts_with = "device")]
    devices: Option<DeviceNames>,
    /// Compares this device with cpu, as --devices cpu,DEVICE
    #[arg(long)]
    device: Option<String>,
    /// The model to train: a perceptron or a CNN on drawn digits, or a transformer on the text of a
    /// license; tiny_gpt is trained as the program of this name does
    #[arg(long, value_enum, default_value_t = Kind::Mlp)]
    model: Kind,
    /// Steps of training
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Examples per step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Learning rate of Adam; with tiny_gpt it rises to this in 100 steps
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// The largest allowed difference of two losses, relative to the first device's
    #[arg(long, default_value_t = 1e-3)]
    tolerance: f64,
    /// Determines the initial weights and the examples of each step
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// The names of two devices.
#[derive(Clone, Debug)]
struct DeviceNames([String; 2]);

fn parse_names(text: &str) -> std::result::Result<DeviceNames, String> {
    match text.split(',').collect::<Vec<_>>()[..] {
        [one, other] => Ok(DeviceNames([one.to_owned(), other.to_owned()])),
        _ => Err("expected two names with a comma between".to_owned()),
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    arguments.files.check(&[], &[])?;
    let [(one, first), (other, second)] = devices(arguments)?;
    print_line!("{} on {one} ({first}) and on {other} ({second})", arguments.model.name());
    if first.name() == second.name() {
        print_line!("BOTH ARE ONE DEVICE: what is compared is whether it gives the same numbers twice");
    }
    let mut training = Training::new(arguments, &first, &second)?;
    print_line!("{} parameters, {} steps", training.first.task.model().parameter_count(), arguments.steps);
    training.run(&Interrupts::install()?)?;
    let (step, difference) = training.worst();
    print_line!("the largest difference: {difference:.3e} of the loss, at step {step}");
    arguments.files.write(|| results(&training, [&one, &other]), || chart(&training, [&one, &other]))?;
    Divergence::check(training.divergence)?;
    // Written so that a NaN difference fails.
    if difference <= arguments.tolerance {
        return Ok(());
    }
    let allowed = arguments.tolerance;
    Err(format!("step {step}: the losses differ by {difference:.3e}, expected at most {allowed:e}").into())
}

/// Returns the two devices with their names.
fn devices(arguments: &Arguments) -> Outcome<[(String, Device); 2]> {
    let names = match (&arguments.devices, &arguments.device) {
        (Some(DeviceNames(names)), _) => names.clone(),
        (None, Some(name)) => ["cpu".to_owned(), name.clone()],
        (None, None) => ["cpu".to_owned(), fastest_other()],
    };
    let [one, other] = names.map(|name| device(&name).map(|device| (name, device)));
    Ok([one?, other?])
}

/// Returns the name of the fastest device other than the CPU.
fn fastest_other() -> String {
    let fastest = ternion::best().ok().filter(|best| best.name() != "cpu");
    fastest.map_or_else(|| COMPOSED.to_owned(), |best| best.name().to_owned())
}

fn device(name: &str) -> Result<Device> {
    if name == COMPOSED { Ok(Composed::new(ternion::cpu()?)) } else { ternion::device(name) }
}

// ---- Training

/// A model that is trained on one of the devices.
struct Trainee {
    task: Task,
    /// Adam, or the AdamW of `tiny_gpt`.
    adam: Box<dyn Optimizer>,
    schedule: Box<dyn Schedule>,
    device: Device,
}

impl Trainee {
    /// Creates model and optimizer. All random numbers of a device are drawn here, so that two
    /// devices that share a generator agree, too.
    fn new(arguments: &Arguments, device: &Device) -> Outcome<Trainee> {
        device.seed(arguments.seed);
        let task = Task::new(arguments.model, arguments.batch as usize, arguments.seed, device)?;
        let adam = arguments.model.optimizer(task.model(), arguments.lr)?;
        let schedule = arguments.model.schedule(arguments.lr)?;
        Ok(Trainee { task, adam, schedule, device: device.clone() })
    }

    /// Runs one step; its loss stays on the device.
    fn step(&mut self, step: u64) -> Outcome<Tensor> {
        let loss = self.task.loss(step)?;
        self.adam.set_lr(self.schedule.lr(step))?;
        self.adam.step(&loss.backward()?)?;
        Ok(loss.detach())
    }
}

const MODEL: &str = "model.";
const ADAM: &str = "adam.";

/// A checkpoint belongs to one device: tensors of the other one are copied to it and back.
impl Stateful for Trainee {
    fn state(&self, device: &Device) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (prefix, part) in [(MODEL, self.task.model().state_dict()?), (ADAM, self.adam.state_dict()?)] {
            for (key, tensor) in part {
                state.insert(format!("{prefix}{key}"), tensor.to_device(device)?);
            }
        }
        Ok(state)
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        let part = |prefix: &str| {
            let entries = state.iter().filter_map(|(key, tensor)| Some((key.strip_prefix(prefix)?, tensor)));
            entries
                .map(|(key, tensor)| Ok((key.to_owned(), tensor.to_device(&self.device)?)))
                .collect::<Result<StateDict>>()
        };
        let (model, adam) = (part(MODEL)?, part(ADAM)?);
        self.task.model().load_state_dict(&model)?;
        self.adam.load_state_dict(&adam)
    }
}

/// Names of the recorded series.
const FIRST: &str = "first";
const SECOND: &str = "second";
const DIFFERENCE: &str = "difference";

/// Both training runs.
struct Training<'a> {
    arguments: &'a Arguments,
    first: Trainee,
    second: Trainee,
    /// The losses of each step, and their difference relative to the first.
    history: Recorder,
    /// The divergence of both runs.
    divergence: Option<Divergence>,
}

impl<'a> Training<'a> {
    fn new(arguments: &'a Arguments, first: &Device, second: &Device) -> Outcome<Training<'a>> {
        let (first, second) = (Trainee::new(arguments, first)?, Trainee::new(arguments, second)?);
        Ok(Training {
            arguments,
            first,
            second,
            history: arguments.files.recorder(|step| step)?,
            divergence: None,
        })
    }

    /// Saves both training runs, and the losses of every step so far.
    fn checkpoint(&mut self, step: u64) -> Outcome<()> {
        let Training { arguments, first, second, history, .. } = self;
        let device = first.device.clone();
        arguments.files.checkpoint(step, &Training::state(arguments, &device, [first, second], history))
    }

    fn resume(&mut self) -> Outcome<u64> {
        let Training { arguments, first, second, history, .. } = self;
        let device = first.device.clone();
        arguments.files.resume(&mut Training::state(arguments, &device, [first, second], history))
    }

    fn state<'s>(
        arguments: &Arguments,
        device: &'s Device,
        [first, second]: [&'s mut Trainee; 2],
        history: &'s mut Recorder,
    ) -> TrainingState<'s> {
        TrainingState::new(device)
            .part(FIRST, first)
            .part(SECOND, second)
            .part("history", history)
            .setting("model", arguments.model.name())
            .setting("batch", arguments.batch)
            .setting("lr", arguments.lr)
            .setting("seed", arguments.seed)
    }

    fn run(&mut self, interrupts: &Interrupts) -> Outcome<()> {
        let steps = self.arguments.steps;
        let print_every = steps.div_ceil(PROGRESS_LINES);
        let completed = self.resume()?;
        if completed >= steps {
            print_line!("no step is left: {completed} were made, --steps {steps}");
            return self.checkpoint(completed);
        }
        for step in completed..steps {
            // Both steps are in flight before either loss is read.
            let (first, second) = (self.first.step(step)?, self.second.step(step)?);
            let (first, second) = (first.item_f64()?, second.item_f64()?);
            let difference = relative_difference(first, second);
            for (name, value) in [(FIRST, first), (SECOND, second), (DIFFERENCE, difference)] {
                self.history.scalar(name, step + 1, value)?;
            }
            // If only one loss is NaN, that is a difference and not a divergence.
            self.divergence = Divergence::detect(step + 1, first).and(Divergence::detect(step + 1, second));
            if self.divergence.is_some() {
                break;
            }
            let stops = interrupts.should_stop();
            let is_last = step + 1 == steps || stops;
            if step.is_multiple_of(print_every) || is_last {
                if self.arguments.files.is_due(step / print_every + 1, is_last) {
                    self.checkpoint(step + 1)?;
                }
                print_line!("step {}  losses {first:.6} and {second:.6}  apart {difference:.3e}", step + 1);
            }
            if stops {
                self.arguments.files.print_stopped(step + 1);
                break;
            }
        }
        Ok(())
    }

    /// Returns the step with the largest difference, and that difference; the first NaN, if any.
    fn worst(&self) -> (u64, f64) {
        self.history.series(DIFFERENCE).iter().fold((1, 0.0), |worst: (u64, f64), &(step, one)| {
            if worst.1.is_nan() || one <= worst.1 { worst } else { (step, one) }
        })
    }
}

/// The difference relative to the first loss; NaN if a loss is NaN.
fn relative_difference(first: f64, second: f64) -> f64 {
    if first == second { 0.0 } else { (first - second).abs() / first.abs() }
}

// ---- Results

fn results(training: &Training<'_>, devices: [&str; 2]) -> serde_json::Value {
    let Training { arguments, history, first, second, .. } = training;
    let values = |name| history.series(name).iter().map(|point| point.1).collect::<Vec<f64>>();
    let (step, difference) = training.worst();
    let peaks = [first, second].map(|trainee| trainee.device.memory().peak);
    serde_json::json!({
        "devices": devices,
        "model": arguments.model.name(),
        "seed": arguments.seed,
        "steps": history.series(DIFFERENCE).len(),
        "tolerance": arguments.tolerance,
        "largest_difference": difference,
        "at_step": step,
        "losses": [values(FIRST), values(SECOND)],
        "differences": values(DIFFERENCE),
        "peak_memory_bytes": peaks,
    })
}

fn chart(training: &Training<'_>, devices: [&str; 2]) -> Chart {
    let Training { arguments, history, .. } = training;
    let points = |name| history.series(name).iter().map(|&(step, value)| (step as f64, value));
    let losses = Panel::new("loss")
        .series(Series::new(devices[0], points(FIRST)))
        // Dashed, because the curves coincide where both agree.
        .series(Series::new(devices[1], points(SECOND)).dashed());
    let difference = Panel::new("difference, of the loss")
        .scale(Scale::Logarithmic)
        .series(Series::recorded(history, DIFFERENCE).dots());
    let (step, worst) = training.worst();
    let title = format!("{}: at most {worst:.2e} apart, at step {step}", arguments.model.name());
    Chart::new(&title, "steps").panel(losses).panel(difference)
}
