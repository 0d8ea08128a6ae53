//! Training of a GPT-2: windows of tokens, AdamW, a learning rate with warmup and cosine decay.

use crate::support::console::print_line;
use crate::support::divergence::Divergence;
use crate::support::gpt_step::{GptStep, mean_loss};
use crate::support::interrupts::Interrupts;
use crate::support::learner::Learner;
use crate::support::program::Outcome;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use ternion::data::{RandomWindows, Windows};
use ternion::nn::schedule::{CosineAnnealingLR, Warmup};
use ternion::prelude::*;
use ternion::train::{Chart, Panel, Recorder, Series, Start};

/// The number of steps whose mean loss is reported as one value. Each reading waits for the device.
const STEPS_PER_READING: u64 = 10;

/// The largest number of validation batches in a test.
const TEST_BATCHES: usize = 50;

/// Names of the recorded series.
const TRAIN_LOSS: &str = "train/loss";
const VALIDATION_LOSS: &str = "validation/loss";

/// Training settings.
#[derive(Clone, Copy)]
pub struct Settings {
    pub steps: u64,
    /// Windows per batch, and the number of batches per step.
    pub batch: usize,
    pub accumulate: usize,
    /// The largest learning rate, and the number of steps until it is reached.
    pub lr: f64,
    pub warmup: u64,
    pub weight_decay: f64,
    /// Precision of matrix products.
    pub precision: Precision,
    pub eval_every: u64,
    pub seed: u64,
    /// Whether steps run op by op instead of being recorded.
    pub eager: bool,
}

/// The training and validation tokens.
pub struct TokenWindows {
    pub train: Windows,
    /// The number of training tokens.
    pub train_tokens: usize,
    /// Their checksum, if the run is saved.
    pub checksum: Option<String>,
    pub validation: Option<Windows>,
}

/// Where a training run is saved, and the flag that stops it.
pub struct RunFiles<'a> {
    /// Written at every test, at the end and at Ctrl-C.
    pub checkpoint: Option<&'a Path>,
    /// The checkpoint to resume from.
    pub resume: Option<&'a Path>,
    /// The folder for recorded losses.
    pub record: Option<&'a Path>,
    pub interrupts: &'a Interrupts,
}

/// The results of a training run.
pub struct Results {
    steps: u64,
    /// [`TRAIN_LOSS`] and [`VALIDATION_LOSS`] by the number of steps.
    recorder: Recorder,
    divergence: Option<Divergence>,
    spent: TrainingTime,
    is_recorded: bool,
}

/// Time and tokens since the program began, of all steps except the first, which compiles kernels.
#[derive(Default)]
struct TrainingTime {
    time: Duration,
    tokens: usize,
    /// Time and tokens of the first step, which are reported if it is the only one.
    first: Option<(Duration, usize)>,
}

impl TrainingTime {
    /// `None` before the first step.
    fn tokens_per_second(&self) -> Option<f64> {
        let later = (self.tokens > 0).then_some((self.time, self.tokens));
        let (time, tokens) = later.or(self.first)?;
        Some(tokens as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

impl Results {
    /// Checks that every loss was finite.
    pub fn check_divergence(&self) -> Result<(), Divergence> {
        Divergence::check(self.divergence)
    }

    pub fn json(&self) -> Value {
        let last = |name: &str| self.recorder.series(name).last().map(|(_, loss)| *loss);
        json!({
            "steps": self.steps,
            "captured": self.is_recorded,
            "train_loss": last(TRAIN_LOSS),
            "validation_loss": last(VALIDATION_LOSS),
            "tokens_per_second": self.spent.tokens_per_second(),
            "train_seconds": self.spent.time.as_secs_f64(),
        })
    }

    /// Draws both losses over the steps.
    pub fn chart(&self, title: &str) -> Chart {
        let curve = |name: &str, title: &str| {
            let points = self.recorder.series(name).iter().map(|&(step, loss)| (step as f64, loss));
            Series::new(title, points)
        };
        let panel = Panel::new("loss").series(curve(TRAIN_LOSS, "training"));
        Chart::new(title, "steps").panel(panel.series(curve(VALIDATION_LOSS, "held out").dots()))
    }
}

/// Returns AdamW as in GPT-3 and nanoGPT: with weight decay for matrices and none for vectors.
fn optimizer(model: &GPT, settings: &Settings) -> Result<AdamW> {
    let (matrices, vectors) = model.parameters().into_iter().partition(|param| param.shape().rank() > 1);
    let groups =
        vec![ParamGroup::new(matrices), ParamGroup { weight_decay: Some(0.0), ..ParamGroup::new(vectors) }];
    let config = AdamWConfig {
        lr: settings.lr,
        betas: [0.9, 0.95],
        weight_decay: settings.weight_decay,
        max_grad_norm: Some(1.0),
        ..Default::default()
    };
    AdamW::with_groups(groups, config)
}

/// A model being trained.
struct Training<'a> {
    model: &'a GPT,
    device: Device,
    settings: Settings,
    token_windows: &'a TokenWindows,
    learner: &'a Learner,
    ops: GptStep<'a>,
    recorder: Recorder,
    /// The sum of the losses since the last reading, on the device.
    sum: Tensor,
    since_reading: u64,
    /// Completed steps.
    step: u64,
    divergence: Option<Divergence>,
    spent: TrainingTime,
}

/// Trains `model`, or resumes its training.
pub fn train(
    model: &GPT,
    settings: Settings,
    token_windows: &TokenWindows,
    run_files: &RunFiles<'_>,
) -> Outcome<Results> {
    let device = model.wte.weight.device();
    let learner = Learner::new(optimizer(model, &settings)?, settings.precision);
    let sum = Tensor::zeros((), DType::F32, &device)?;
    let ops = GptStep::new(model, &learner, [settings.batch, settings.accumulate], &sum)?;
    let mut training = Training {
        model,
        settings,
        token_windows,
        learner: &learner,
        ops: if settings.eager { ops } else { ops.captured() },
        recorder: Recorder::new(),
        sum,
        since_reading: 0,
        step: 0,
        divergence: None,
        spent: TrainingTime::default(),
        device,
    };
    if let Some(file) = run_files.resume {
        training.step = training.with_state(|mut state| Ok(state.resume(file)?))?;
        // A resumed run uses the number of steps and the learning rate of this command line.
        training.settings = settings;
        print_line!("resuming from step {} of {}", training.step, file.display());
    }
    if let Some(folder) = run_files.record {
        let start = run_files.resume.map_or(Start::New, |_| Start::After(training.step));
        training.recorder = training.recorder.folder(folder, start)?;
    }
    training.run(run_files)?;
    model.eval();
    let is_recorded = training.ops.is_recorded();
    let Training { step, recorder, divergence, spent, .. } = training;
    Ok(Results { steps: step, recorder, divergence, spent, is_recorded })
}

impl Training<'_> {
    /// Calls `f` with the contents of a checkpoint. A batch depends only on seed and step.
    fn with_state<T>(&mut self, f: impl FnOnce(TrainingState<'_>) -> Outcome<T>) -> Outcome<T> {
        let (mut adam, mut mixed_precision) =
            (self.learner.adam.borrow_mut(), self.learner.mixed_precision.borrow_mut());
        let GPTConfig { vocabulary, context, layers, heads, width, dropout, .. } = *self.model.config();
        let Settings { batch, accumulate, warmup, weight_decay, precision, seed, .. } = self.settings;
        let state = TrainingState::new(&self.device)
            .model("model", self.model)
            .optimizer("adam", &mut *adam)
            .part("recorder", &mut self.recorder)
            .part("loss_scale", mixed_precision.scale_mut())
            .setting("vocabulary", vocabulary)
            .setting("context", context)
            .setting("layers", layers)
            .setting("heads", heads)
            .setting("width", width)
            .setting("dropout", dropout)
            .value("steps", &mut self.settings.steps)
            .value("lr", &mut self.settings.lr)
            .setting("batch", batch)
            .setting("accumulate", accumulate)
            .setting("warmup", warmup)
            .setting("weight_decay", weight_decay)
            .setting("precision", precision.name())
            .setting("seed", seed)
            .setting("tokens", self.token_windows.train_tokens)
            .setting("data", &self.token_windows.checksum);
        f(state)
    }

    fn run(&mut self, run_files: &RunFiles<'_>) -> Outcome<()> {
        let Settings { steps, batch, accumulate, warmup, lr, eval_every, seed, .. } = self.settings;
        let falling = steps.saturating_sub(warmup).max(1);
        let schedule = Warmup::new(warmup, 0.01, CosineAnnealingLR::new(lr, falling, lr / 10.0)?)?;
        let completed_batches = self.step * accumulate as u64;
        let mut batches = self.token_windows.train.random(batch, seed, &self.device)?.at(completed_batches);
        let (mut start, first) = (Instant::now(), self.step);
        if first > 0 && first >= steps {
            print_line!("no step is left: {first} were made, --steps {steps}");
        }
        if let Some(file) = run_files.checkpoint.filter(|_| first >= steps) {
            self.with_state(|state| Ok(state.save(first, file)?))?;
        }
        while self.step < steps && self.divergence.is_none() {
            self.learner.adam.borrow_mut().set_lr(schedule.lr(self.step))?;
            self.step(&mut batches)?;
            let tokens = batch * accumulate * self.model.config().context;
            if self.step == first + 1 {
                self.device.synchronize()?;
                self.spent.first = Some((start.elapsed(), tokens));
                start = Instant::now();
            } else {
                self.spent.tokens += tokens;
            }
            let stops = run_files.interrupts.should_stop();
            let is_test = self.step.is_multiple_of(eval_every) || self.step == steps || stops;
            if is_test || self.step.is_multiple_of(STEPS_PER_READING) {
                self.read()?;
            }
            if is_test {
                self.spent.time += start.elapsed();
                // The checkpoint is written before the test and before anything is printed.
                self.test(run_files)?;
                start = Instant::now();
            }
            if stops {
                break;
            }
        }
        Ok(())
    }

    /// Runs one step with the gradients of `accumulate` batches.
    fn step(&mut self, windows: &mut RandomWindows) -> Outcome<()> {
        self.model.train();
        self.ops.run(windows)?;
        self.step += 1;
        self.since_reading += 1;
        Ok(())
    }

    /// Records the mean loss since the last reading. Waits for the device.
    fn read(&mut self) -> Outcome<()> {
        let mean = self.sum.item_f64()? / self.since_reading as f64;
        no_grad(|| self.sum.fill_(0.0))?;
        self.since_reading = 0;
        self.divergence = Divergence::detect(self.step, mean);
        Ok(self.recorder.scalar(TRAIN_LOSS, self.step, mean)?)
    }

    /// Measures the loss on validation tokens, saves the checkpoint, and prints a line about both.
    fn test(&mut self, run_files: &RunFiles<'_>) -> Outcome<()> {
        let mut held_out = String::new();
        if let Some(validation) = &self.token_windows.validation {
            let mean = self.validation_loss(validation)?;
            self.recorder.scalar(VALIDATION_LOSS, self.step, mean)?;
            held_out = format!("  held out {mean:.4}");
        }
        // A diverged state must not overwrite an earlier checkpoint.
        if let Some(file) = run_files.checkpoint.filter(|_| self.divergence.is_none()) {
            let step = self.step;
            self.with_state(|state| Ok(state.save(step, file)?))?;
        }
        let train = self.recorder.series(TRAIN_LOSS).last().map_or(f64::NAN, |(_, loss)| *loss);
        let speed =
            self.spent.tokens_per_second().map_or(String::new(), |speed| format!("  {speed:.0} tokens/s"));
        print_line!("step {}/{}  loss {train:.4}{held_out}{speed}", self.step, self.settings.steps);
        if let Some(report) = self.learner.mixed_precision.borrow().report() {
            print_line!("{report}");
        }
        Ok(())
    }

    fn validation_loss(&self, validation: &Windows) -> Outcome<f64> {
        self.model.eval();
        let (mut sum, mut count) = (0.0, 0);
        for batch in validation.sequential(self.settings.batch, &self.device)?.take(TEST_BATCHES) {
            let batch = batch?;
            let loss = no_grad(|| self.learner.forward(|| mean_loss(self.model, &batch)))?;
            sum += loss.item_f64()? * batch.size as f64;
            count += batch.size;
        }
        Ok(sum / count as f64)
    }
}
