//! A transformer being trained on the characters of a text: step by step, saved, tested, resumed.

use super::Files;
use crate::support::checksum::checksum;
use crate::support::divergence::Divergence;
use crate::support::gpt_step::{GptStep, mean_loss};
use crate::support::interrupts::Interrupts;
use crate::support::learner::Learner;
use crate::support::program::Outcome;
use crate::support::say::say;
use crate::tiny_gpt::settings::Settings;
use crate::tiny_gpt::writer::Writer;
use serde_json::Value;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use ternion::data::{DataError, RandomWindows, Text, Tokenizer, Tokens, Windows};
use ternion::nn::schedule::{CosineAnnealingLR, Warmup};
use ternion::nn::{Timeline, trace};
use ternion::prelude::*;
use ternion::train::{Chart, Panel, Recorder, Series, Start};

/// Steps in which the learning rate rises.
const WARMUP_STEPS: u64 = 100;

/// Steps whose mean loss is told as one: each reading waits for the device.
const STEPS_PER_READING: u64 = 50;

/// Characters of a sample between steps.
const SAMPLE_TOKENS: usize = 120;

/// The step whose time is traced, counted from where the program begins: kernels are compiled by then.
const TRACED_STEP: u64 = 10;

/// Names of what is recorded.
const TRAIN_LOSS: &str = "train/loss";
const VALIDATION_LOSS: &str = "validation/loss";

/// Where Ctrl-C saves to if no file was named.
const INTERRUPTED_FILE: &str = "tiny_gpt-interrupted.safetensors";

/// The text as pieces to learn from and to be tested on.
struct Pieces {
    train: RandomWindows,
    validation: Windows,
}

impl Pieces {
    /// The parts of `text`, which is named by `name` in messages.
    fn new(settings: &Settings, writer: &Writer, text: &Text, name: &str) -> Outcome<Pieces> {
        let device = writer.model.wte.weight.device();
        let in_text = |error: DataError| format!("{name}: {error}");
        // The whole first: its places are those of the file.
        writer.vocabulary.encode(text.as_str()).map_err(in_text)?;
        let (train, validation) = text.train_validation().map_err(in_text)?;
        let windows = |text: &Text, part: &str| -> Outcome<Windows> {
            let tokens = Tokens::new(writer.vocabulary.encode(text.as_str()).map_err(in_text)?);
            Ok(tokens.windows(settings.context).map_err(|error| format!("{name}, {part} of it: {error}"))?)
        };
        Ok(Pieces {
            train: windows(&train, "the first 90 %")?.random(settings.batch, settings.seed, &device)?,
            validation: windows(&validation, "the last 10 %")?,
        })
    }
}

/// What makes the steps: AdamW as of nanoGPT, by which matrices decay and vectors do not.
pub fn learner(model: &GPT, settings: &Settings) -> Result<Learner> {
    let (matrices, vectors) = model.parameters().into_iter().partition(|param| param.shape().rank() > 1);
    let groups =
        vec![ParamGroup::new(matrices), ParamGroup { weight_decay: Some(0.0), ..ParamGroup::new(vectors) }];
    let config = AdamWConfig {
        lr: settings.lr,
        betas: [0.9, 0.99],
        weight_decay: 0.1,
        max_grad_norm: Some(1.0),
        ..Default::default()
    };
    Ok(Learner::new(AdamW::with_groups(groups, config)?, settings.precision))
}

/// What a training has taken since the program began.
#[derive(Default)]
struct Spent {
    /// Time of all steps but the first, which compiles kernels, and their tokens.
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

/// A model being trained.
pub struct Training<'a> {
    writer: &'a Writer,
    device: Device,
    settings: Settings,
    files: &'a Files<'a>,
    characters: String,
    text_checksum: String,
    pieces: Pieces,
    learner: &'a Learner,
    ops: GptStep<'a>,
    schedule: Warmup<CosineAnnealingLR>,
    reading: Reading,
    /// What the reading has between two of its ends: sum and steps.
    open_reading: Vec<f64>,
    recorder: Recorder,
    /// Steps that were made; also the number of the next batch.
    step: u64,
    divergence: Option<Divergence>,
    spent: Spent,
}

impl<'a> Training<'a> {
    /// A training that begins with the writer's weights. Its step is recorded, where the device can, unless it is to be `eager`.
    pub fn new(
        settings: &Settings,
        files: &'a Files<'a>,
        (writer, learner): (&'a Writer, &'a Learner),
        text: &Text,
        eager: bool,
    ) -> Outcome<Training<'a>> {
        let device = writer.model.wte.weight.device();
        let (lr, falling) = (settings.lr, settings.steps.saturating_sub(WARMUP_STEPS).max(1));
        let reading = Reading::new(&device)?;
        let ops = GptStep::new(&writer.model, learner, [settings.batch, 1], &reading.sum)?;
        Ok(Training {
            characters: writer.characters(),
            text_checksum: checksum(text.as_str().bytes()),
            pieces: Pieces::new(settings, writer, text, &files.text_name)?,
            learner,
            ops: if eager { ops } else { ops.captured() },
            schedule: Warmup::new(WARMUP_STEPS, 0.01, CosineAnnealingLR::new(lr, falling, lr / 10.0)?)?,
            reading,
            open_reading: Vec::new(),
            recorder: Recorder::new(),
            step: 0,
            divergence: None,
            spent: Spent::default(),
            settings: settings.clone(),
            writer,
            files,
            device,
        })
    }

    /// Calls `f` with everything that is not as it was when the training began: what a checkpoint holds.
    fn with_state<T>(&mut self, f: impl FnOnce(TrainingState<'_>) -> Outcome<T>) -> Outcome<T> {
        let (mut adam, mut precise) = (self.learner.adam.borrow_mut(), self.learner.precise.borrow_mut());
        let Settings { layers, heads, width, context, batch, seed, precision, .. } = self.settings;
        let state = TrainingState::new(&self.device)
            .model("model", &self.writer.model)
            .optimizer("adam", &mut *adam)
            .part("reading", &mut self.open_reading)
            .part("recorder", &mut self.recorder)
            .part("loss_scale", precise.scale_mut())
            .value("steps", &mut self.settings.steps)
            .value("lr", &mut self.settings.lr)
            .value("dropout", &mut self.settings.dropout)
            .value("eval_every", &mut self.settings.eval_every)
            .setting("layers", layers)
            .setting("heads", heads)
            .setting("width", width)
            .setting("context", context)
            .setting("batch", batch)
            .setting("seed", seed)
            .setting("precision", precision.name())
            .setting("characters", &self.characters)
            .setting("text", &self.text_checksum);
        f(state)
    }

    /// Goes on where a checkpoint was made, if the user wants that: the steps that were made.
    pub fn resume(&mut self) -> Outcome<Option<u64>> {
        let (settings, saving) = (self.settings.clone(), self.files.saving);
        let resumed = self.with_state(|mut state| saving.resume(&mut state))?;
        let Some((step, _)) = resumed else { return Ok(None) };
        // Steps, learning rate, dropout and the time between tests are those that were asked for now.
        (self.step, self.settings) = (step, settings);
        self.reading.reopen(&self.open_reading)?;
        self.pieces.train = self.pieces.train.clone().at(self.step);
        Ok(Some(step))
    }

    /// Trains up to the last step, or until Ctrl-C, and gives the loss on the held-out text.
    pub fn run(&mut self, interrupts: &Interrupts) -> Outcome<f64> {
        self.begin_record()?;
        let first = self.step;
        let traced = (first + TRACED_STEP).min(self.settings.steps.saturating_sub(1));
        let (mut tested, mut saved) = (None, None);
        let mut begun = Instant::now();
        if first > 0 && first >= self.settings.steps {
            say!("no step is left: {first} were made, --steps {}", self.settings.steps);
        }
        while self.step < self.settings.steps && self.divergence.is_none() && !interrupts.stop() {
            match self.files.trace {
                Some(file) if self.step == traced => self.learn_traced(file)?,
                _ => self.learn(GptStep::run)?,
            }
            if self.step == first + 1 {
                self.device.synchronize()?;
                self.spent =
                    Spent { first: Some((begun.elapsed(), self.spent.tokens)), ..Default::default() };
                begun = Instant::now();
            }
            if self.step.is_multiple_of(STEPS_PER_READING) {
                let mean = self.reading.take()?;
                self.recorder.scalar(TRAIN_LOSS, self.step, mean)?;
                self.divergence = Divergence::of(self.step, mean);
            }
            let is_test = self.step.is_multiple_of(self.settings.eval_every);
            let is_save =
                self.files.saving.place().is_some() && self.step.is_multiple_of(self.files.save_every);
            if is_test || is_save || self.step == self.settings.steps || interrupts.stop() {
                self.device.synchronize()?;
                self.spent.time += begun.elapsed();
                // Nothing that is lost takes the place of an earlier checkpoint.
                let lost = self.train_loss()?.and_then(|loss| Divergence::of(self.step, loss));
                self.divergence = self.divergence.or(lost);
                if self.divergence.is_none() && is_test {
                    tested = Some((self.step, self.test()?));
                }
                if self.divergence.is_none() && is_save {
                    self.save_if_named(false)?;
                    saved = Some(self.step);
                }
                begun = Instant::now();
            }
        }
        // Saved before it is tested and read out of turn: a training that goes on from here has nothing that one without this end would not have.
        if self.divergence.is_none() && saved != Some(self.step) {
            self.save_if_named(interrupts.stop() && self.step > first)?;
        }
        if self.reading.steps > 0 && self.step > first {
            self.recorder.scalar(TRAIN_LOSS, self.step, self.reading.mean()?)?;
        }
        match tested {
            _ if self.divergence.is_some() => Ok(f64::NAN),
            Some((step, loss)) if step == self.step => Ok(loss),
            _ => self.test(),
        }
    }

    /// That every loss was a number.
    pub fn has_not_diverged(&self) -> Result<(), Divergence> {
        Divergence::none(self.divergence)
    }

    fn begin_record(&mut self) -> Outcome<()> {
        if let Some(folder) = self.files.record {
            let start = if self.files.saving.is_resumed() { Start::After(self.step) } else { Start::New };
            self.recorder = std::mem::take(&mut self.recorder).folder(folder, start)?;
        }
        Ok(())
    }

    /// Saves to the file that was named; `or_else` after Ctrl-C, if none was, to one of its own.
    fn save_if_named(&mut self, or_else: bool) -> Outcome<()> {
        self.open_reading = self.reading.open()?;
        let (step, saving) = (self.step, self.files.saving);
        let or_else = or_else.then_some(Path::new(INTERRUPTED_FILE));
        if let Some(file) = self.with_state(|state| saving.save(step, &state, or_else))? {
            say!("step {step} saved to {}", file.display());
        }
        Ok(())
    }

    /// A step, and where its time goes. It runs op by op: of a step that was recorded the host sees nothing.
    fn learn_traced(&mut self, file: &Path) -> Outcome<()> {
        let (writer, timeline) = (self.writer, Rc::new(Timeline::new()));
        self.device.synchronize()?;
        trace(&writer.model, timeline.clone(), || self.learn(GptStep::run_op_by_op))?;
        timeline.write_chrome(file)?;
        say!("the time of step {} is in {}", self.step, file.display());
        Ok(())
    }

    fn learn(&mut self, step: impl Fn(&mut GptStep<'a>, &mut RandomWindows) -> Result<()>) -> Outcome<()> {
        self.writer.model.train();
        self.learner.adam.borrow_mut().set_lr(self.schedule.lr(self.step))?;
        step(&mut self.ops, &mut self.pieces.train)?;
        self.reading.steps += 1;
        self.step += 1;
        self.spent.tokens += self.settings.batch * self.settings.context;
        Ok(())
    }

    /// The loss on the held-out text, and a sample. The training goes on as if it had not been tested.
    fn test(&mut self) -> Outcome<f64> {
        let position = self.device.random_position();
        self.writer.model.eval();
        let validation = self.validation_loss()?;
        self.recorder.scalar(VALIDATION_LOSS, self.step, validation)?;
        let train = self.train_loss()?.map_or("-".to_owned(), |loss| format!("{loss:.4}"));
        let speed = self.spent.tokens_per_second();
        let speed = speed.map_or(String::new(), |speed| format!("  {speed:.0} tokens/s"));
        say!("step {}  loss {train}  validation {validation:.4}{speed}", self.step);
        if let Some(report) = self.learner.precise.borrow().report() {
            say!("{report}");
        }
        if self.step > 0 {
            say!("{}", self.sample());
        }
        self.device.set_random_position(position);
        Ok(validation)
    }

    fn validation_loss(&self) -> Outcome<f64> {
        no_grad(|| {
            let (mut sum, mut count) = (Tensor::zeros((), DType::F32, &self.device)?, 0);
            for batch in self.pieces.validation.sequential(self.settings.batch.max(1), &self.device)? {
                let batch = batch?;
                let loss = self.learner.forward(|| mean_loss(&self.writer.model, &batch))?;
                sum = sum.add(&loss.mul_scalar(batch.size as f64)?)?;
                count += batch.size;
            }
            Ok(sum.item_f64()? / count as f64)
        })
    }

    fn sample(&self) -> String {
        // The first character in order is one that every vocabulary has; in most texts it ends a line.
        let prompt: String = self.writer.vocabulary.characters().iter().take(1).collect();
        let sample = self.writer.continued(&prompt, SAMPLE_TOKENS, Sampling::default(), |_| ());
        // Weights that have grown beyond all numbers write nothing; the training goes on, and says so by its losses.
        sample.map_or_else(|error| format!("(no sample: {error})"), |text| text.trim().to_owned())
    }

    /// The mean of the newest steps; none before the first.
    fn train_loss(&self) -> Result<Option<f64>> {
        match self.reading.steps {
            0 => Ok(self.recorder.series(TRAIN_LOSS).last().map(|&(_, loss)| loss)),
            _ => self.reading.mean().map(Some),
        }
    }

    /// Both losses over the steps.
    pub fn chart(&self) -> Chart {
        let title = format!("{} parameters on {}", self.writer.model.parameter_count(), self.device);
        let panel = Panel::new("loss in nats per character")
            .series(Series::recorded(&self.recorder, TRAIN_LOSS))
            .series(Series::recorded(&self.recorder, VALIDATION_LOSS).dots());
        Chart::new(&title, "steps").panel(panel)
    }

    /// Adds what was found; `validation` is the last loss on the held-out text.
    pub fn add_results(&self, validation: f64, results: &mut Value) -> Outcome<()> {
        results["steps"] = self.step.into();
        results["captured"] = self.ops.is_recorded().into();
        results["precision"] = self.settings.precision.name().into();
        results["train_loss"] = self.train_loss()?.into();
        results["validation_loss"] = validation.into();
        results["tokens_per_second"] = self.spent.tokens_per_second().into();
        results["train_seconds"] = self.spent.time.as_secs_f64().into();
        results["peak_memory_bytes"] = self.device.memory().peak.into();
        Ok(())
    }
}

/// The mean loss of some steps, which add it up on the device.
struct Reading {
    sum: Tensor,
    steps: u64,
}

impl Reading {
    fn new(device: &Device) -> Result<Reading> {
        Ok(Reading { sum: Tensor::zeros((), DType::F32, device)?, steps: 0 })
    }

    fn mean(&self) -> Result<f64> {
        Ok(self.sum.item_f64()? / self.steps.max(1) as f64)
    }

    /// The mean; the next reading begins.
    fn take(&mut self) -> Result<f64> {
        let mean = self.mean()?;
        self.steps = 0;
        no_grad(|| self.sum.fill_(0.0))?;
        Ok(mean)
    }

    /// Sum and steps since the last one that was taken; both are exact.
    fn open(&self) -> Result<Vec<f64>> {
        Ok(vec![self.sum.item_f64()?, self.steps as f64])
    }

    fn reopen(&mut self, open: &[f64]) -> Result<()> {
        let &[sum, steps] = open else {
            return Err(Error::invalid("resume", format!("{} numbers of a reading, expected 2", open.len())));
        };
        self.steps = steps as u64;
        no_grad(|| self.sum.fill_(sum))
    }
}
