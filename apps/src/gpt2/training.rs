//! Training of a GPT-2: windows of tokens, AdamW, a rate that rises and falls along a cosine.

use crate::support::divergence::Divergence;
use crate::support::gpt_step::{GptStep, mean_loss};
use crate::support::interrupts::Interrupts;
use crate::support::learner::Learner;
use crate::support::program::Outcome;
use crate::support::say::say;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use ternion::data::{RandomWindows, Windows};
use ternion::nn::schedule::{CosineAnnealingLR, Warmup};
use ternion::prelude::*;
use ternion::train::{Chart, Panel, Recorder, Series, Start};

/// Steps whose mean loss is told as one: each reading waits for the device.
const STEPS_PER_READING: u64 = 10;

/// Batches of the held-out tokens that a test looks at, at most.
const TEST_BATCHES: usize = 50;

/// Names of what is recorded.
const TRAIN_LOSS: &str = "train/loss";
const VALIDATION_LOSS: &str = "validation/loss";

/// How a model is trained.
#[derive(Clone, Copy)]
pub struct Settings {
    pub steps: u64,
    /// Windows at once, and how many such batches make a step.
    pub batch: usize,
    pub accumulate: usize,
    /// The largest learning rate, and the steps in which it is reached.
    pub lr: f64,
    pub warmup: u64,
    pub weight_decay: f64,
    /// Of products.
    pub precision: Precision,
    pub eval_every: u64,
    pub seed: u64,
    /// Whether no step is recorded.
    pub eager: bool,
}

/// What is learned from, and what is held out.
pub struct Pieces {
    pub train: Windows,
    /// How many tokens that are.
    pub train_tokens: usize,
    /// Their checksum, where the training is kept.
    pub checksum: Option<String>,
    pub validation: Option<Windows>,
}

/// Where a training is kept, and whether it is to stop.
pub struct Keeping<'a> {
    /// Written at every test, at the end and at Ctrl-C.
    pub checkpoint: Option<&'a Path>,
    /// Gone on from.
    pub resume: Option<&'a Path>,
    /// A folder for the losses.
    pub record: Option<&'a Path>,
    pub interrupts: &'a Interrupts,
}

/// What a training found.
pub struct Results {
    steps: u64,
    /// [`TRAIN_LOSS`] and [`VALIDATION_LOSS`] by the number of steps.
    recorder: Recorder,
    divergence: Option<Divergence>,
    spent: Spent,
    is_recorded: bool,
}

/// What was spent since the program began, on all steps but the first, which compiles kernels.
#[derive(Default)]
struct Spent {
    time: Duration,
    tokens: usize,
    /// The same of the first, which is told where there is no other.
    first: Option<(Duration, usize)>,
}

impl Spent {
    /// None before the first step.
    fn tokens_per_second(&self) -> Option<f64> {
        let later = (self.tokens > 0).then_some((self.time, self.tokens));
        let (time, tokens) = later.or(self.first)?;
        Some(tokens as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

impl Results {
    /// That every loss was a number.
    pub fn has_not_diverged(&self) -> Result<(), Divergence> {
        Divergence::none(self.divergence)
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

    /// Both losses over the steps.
    pub fn chart(&self, title: &str) -> Chart {
        let curve = |name: &str, told: &str| {
            let points = self.recorder.series(name).iter().map(|&(step, loss)| (step as f64, loss));
            Series::new(told, points)
        };
        let panel = Panel::new("loss").series(curve(TRAIN_LOSS, "training"));
        Chart::new(title, "steps").panel(panel.series(curve(VALIDATION_LOSS, "held out").dots()))
    }
}

/// AdamW as of GPT-3 and nanoGPT: matrices decay, vectors do not.
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
    pieces: &'a Pieces,
    learner: &'a Learner,
    ops: GptStep<'a>,
    recorder: Recorder,
    /// The loss of the steps since the last reading, added up on the device.
    sum: Tensor,
    since_reading: u64,
    /// Steps that were made.
    step: u64,
    divergence: Option<Divergence>,
    spent: Spent,
}

/// Trains `model`, or goes on with its training.
pub fn learn(model: &GPT, settings: Settings, pieces: &Pieces, keeping: &Keeping<'_>) -> Outcome<Results> {
    let device = model.wte.weight.device();
    let learner = Learner::new(optimizer(model, &settings)?, settings.precision);
    let sum = Tensor::zeros((), DType::F32, &device)?;
    let ops = GptStep::new(model, &learner, [settings.batch, settings.accumulate], &sum)?;
    let mut training = Training {
        model,
        settings,
        pieces,
        learner: &learner,
        ops: if settings.eager { ops } else { ops.captured() },
        recorder: Recorder::new(),
        sum,
        since_reading: 0,
        step: 0,
        divergence: None,
        spent: Spent::default(),
        device,
    };
    if let Some(file) = keeping.resume {
        training.step = training.with_state(|mut state| Ok(state.resume(file)?))?;
        // Steps and learning rate are those that were asked for now.
        training.settings = settings;
        say!("going on from step {} of {}", training.step, file.display());
    }
    if let Some(folder) = keeping.record {
        let start = keeping.resume.map_or(Start::New, |_| Start::After(training.step));
        training.recorder = training.recorder.folder(folder, start)?;
    }
    training.run(keeping)?;
    model.eval();
    let is_recorded = training.ops.is_recorded();
    let Training { step, recorder, divergence, spent, .. } = training;
    Ok(Results { steps: step, recorder, divergence, spent, is_recorded })
}

impl Training<'_> {
    /// Calls `f` with what a checkpoint holds. A batch is a matter of seed and step.
    fn with_state<T>(&mut self, f: impl FnOnce(TrainingState<'_>) -> Outcome<T>) -> Outcome<T> {
        let (mut adam, mut precise) = (self.learner.adam.borrow_mut(), self.learner.precise.borrow_mut());
        let GPTConfig { vocabulary, context, layers, heads, width, dropout, .. } = *self.model.config();
        let Settings { batch, accumulate, warmup, weight_decay, precision, seed, .. } = self.settings;
        let state = TrainingState::new(&self.device)
            .model("model", self.model)
            .optimizer("adam", &mut *adam)
            .part("recorder", &mut self.recorder)
            .part("loss_scale", precise.scale_mut())
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
            .setting("tokens", self.pieces.train_tokens)
            .setting("data", &self.pieces.checksum);
        f(state)
    }

    fn run(&mut self, keeping: &Keeping<'_>) -> Outcome<()> {
        let Settings { steps, batch, accumulate, warmup, lr, eval_every, seed, .. } = self.settings;
        let falling = steps.saturating_sub(warmup).max(1);
        let schedule = Warmup::new(warmup, 0.01, CosineAnnealingLR::new(lr, falling, lr / 10.0)?)?;
        let batches_made = self.step * accumulate as u64;
        let mut batches = self.pieces.train.random(batch, seed, &self.device)?.at(batches_made);
        let (mut begun, first) = (Instant::now(), self.step);
        if first > 0 && first >= steps {
            say!("no step is left: {first} were made, --steps {steps}");
        }
        if let Some(file) = keeping.checkpoint.filter(|_| first >= steps) {
            self.with_state(|state| Ok(state.save(first, file)?))?;
        }
        while self.step < steps && self.divergence.is_none() {
            self.learner.adam.borrow_mut().set_lr(schedule.lr(self.step))?;
            self.step(&mut batches)?;
            let tokens = batch * accumulate * self.model.config().context;
            if self.step == first + 1 {
                self.device.synchronize()?;
                self.spent.first = Some((begun.elapsed(), tokens));
                begun = Instant::now();
            } else {
                self.spent.tokens += tokens;
            }
            let stops = keeping.interrupts.stop();
            let is_test = self.step.is_multiple_of(eval_every) || self.step == steps || stops;
            if is_test || self.step.is_multiple_of(STEPS_PER_READING) {
                self.read()?;
            }
            if is_test {
                self.spent.time += begun.elapsed();
                // What was learned is safe before the test and before anything is printed.
                self.test(keeping)?;
                begun = Instant::now();
            }
            if stops {
                break;
            }
        }
        Ok(())
    }

    /// One step: the gradients of `accumulate` batches, as if they were one.
    fn step(&mut self, windows: &mut RandomWindows) -> Outcome<()> {
        self.model.train();
        self.ops.run(windows)?;
        self.step += 1;
        self.since_reading += 1;
        Ok(())
    }

    /// Notes the mean loss since the last reading. Waits for the device.
    fn read(&mut self) -> Outcome<()> {
        let mean = self.sum.item_f64()? / self.since_reading as f64;
        no_grad(|| self.sum.fill_(0.0))?;
        self.since_reading = 0;
        self.divergence = Divergence::of(self.step, mean);
        Ok(self.recorder.scalar(TRAIN_LOSS, self.step, mean)?)
    }

    /// The loss on held-out tokens, the checkpoint, and a line about both.
    fn test(&mut self, keeping: &Keeping<'_>) -> Outcome<()> {
        let mut told = String::new();
        if let Some(validation) = &self.pieces.validation {
            let mean = self.validation_loss(validation)?;
            self.recorder.scalar(VALIDATION_LOSS, self.step, mean)?;
            told = format!("  held out {mean:.4}");
        }
        // Nothing that is lost takes the place of an earlier checkpoint.
        if let Some(file) = keeping.checkpoint.filter(|_| self.divergence.is_none()) {
            let step = self.step;
            self.with_state(|state| Ok(state.save(step, file)?))?;
        }
        let train = self.recorder.series(TRAIN_LOSS).last().map_or(f64::NAN, |(_, loss)| *loss);
        let speed =
            self.spent.tokens_per_second().map_or(String::new(), |speed| format!("  {speed:.0} tokens/s"));
        say!("step {}/{}  loss {train:.4}{told}{speed}", self.step, self.settings.steps);
        if let Some(report) = self.learner.precise.borrow().report() {
            say!("{report}");
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
