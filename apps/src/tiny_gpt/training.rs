//! Training of a transformer on the characters of a text: steps, checkpoints, tests, resuming.

use super::RunFiles;
use crate::support::checksum::checksum;
use crate::support::console::print_line;
use crate::support::divergence::Divergence;
use crate::support::gpt_step::{GptStep, mean_loss};
use crate::support::interrupts::Interrupts;
use crate::support::learner::Learner;
use crate::support::program::Outcome;
use crate::tiny_gpt::generator::TextGenerator;
use crate::tiny_gpt::settings::Settings;
use serde_json::Value;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use ternion::data::{DataError, RandomWindows, Text, Tokenizer, Tokens, Windows};
use ternion::nn::schedule::{CosineAnnealingLR, Warmup};
use ternion::nn::{Timeline, trace};
use ternion::prelude::*;
use ternion::train::{Chart, Panel, Recorder, Series, Start};

/// Warmup steps of the learning rate.
const WARMUP_STEPS: u64 = 100;

/// The number of steps whose mean loss is reported as one value. Each reading waits for the device.
const STEPS_PER_READING: u64 = 50;

/// Characters of a sample that is generated between steps.
const SAMPLE_TOKENS: usize = 120;

/// The step that is traced, counted from the start of the program: kernels are compiled by then.
const TRACED_STEP: u64 = 10;

/// Names of the recorded series.
const TRAIN_LOSS: &str = "train/loss";
const VALIDATION_LOSS: &str = "validation/loss";

/// The file that Ctrl-C saves to if none was named.
const INTERRUPTED_FILE: &str = "tiny_gpt-interrupted.safetensors";

/// The training and validation windows of the text.
struct TextWindows {
    train: RandomWindows,
    validation: Windows,
}

impl TextWindows {
    /// Splits `text`, which messages call `name`.
    fn new(settings: &Settings, generator: &TextGenerator, text: &Text, name: &str) -> Outcome<TextWindows> {
        let device = generator.model.wte.weight.device();
        let in_text = |error: DataError| format!("{name}: {error}");
        // The whole text is encoded first: positions in errors are then those of the file.
        generator.vocabulary.encode(text.as_str()).map_err(in_text)?;
        let (train, validation) = text.train_validation().map_err(in_text)?;
        let windows = |text: &Text, part: &str| -> Outcome<Windows> {
            let tokens = Tokens::new(generator.vocabulary.encode(text.as_str()).map_err(in_text)?);
            Ok(tokens.windows(settings.context).map_err(|error| format!("{name}, {part} of it: {error}"))?)
        };
        Ok(TextWindows {
            train: windows(&train, "the first 90 %")?.random(settings.batch, settings.seed, &device)?,
            validation: windows(&validation, "the last 10 %")?,
        })
    }
}

/// Returns the learner: AdamW as in nanoGPT, with weight decay for matrices and none for vectors.
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

/// Time and tokens since the program began.
#[derive(Default)]
struct TrainingTime {
    /// Time of all steps except the first, which compiles kernels, and their tokens.
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

/// A model being trained.
pub struct Training<'a> {
    generator: &'a TextGenerator,
    device: Device,
    settings: Settings,
    files: &'a RunFiles<'a>,
    characters: String,
    text_checksum: String,
    windows: TextWindows,
    learner: &'a Learner,
    ops: GptStep<'a>,
    schedule: Warmup<CosineAnnealingLR>,
    reading: Reading,
    /// The state of an unfinished reading: sum and number of steps.
    partial_reading: Vec<f64>,
    recorder: Recorder,
    /// Completed steps; also the index of the next batch.
    step: u64,
    divergence: Option<Divergence>,
    spent: TrainingTime,
}

impl<'a> Training<'a> {
    /// Creates a run that begins with the writer's weights. Its step is recorded, if the device
    /// supports that, unless `eager` is set.
    pub fn new(
        settings: &Settings,
        files: &'a RunFiles<'a>,
        (generator, learner): (&'a TextGenerator, &'a Learner),
        text: &Text,
        eager: bool,
    ) -> Outcome<Training<'a>> {
        let device = generator.model.wte.weight.device();
        let (lr, falling) = (settings.lr, settings.steps.saturating_sub(WARMUP_STEPS).max(1));
        let reading = Reading::new(&device)?;
        let ops = GptStep::new(&generator.model, learner, [settings.batch, 1], &reading.sum)?;
        Ok(Training {
            characters: generator.characters(),
            text_checksum: checksum(text.as_str().bytes()),
            windows: TextWindows::new(settings, generator, text, &files.text_name)?,
            learner,
            ops: if eager { ops } else { ops.captured() },
            schedule: Warmup::new(WARMUP_STEPS, 0.01, CosineAnnealingLR::new(lr, falling, lr / 10.0)?)?,
            reading,
            partial_reading: Vec::new(),
            recorder: Recorder::new(),
            step: 0,
            divergence: None,
            spent: TrainingTime::default(),
            settings: settings.clone(),
            generator,
            files,
            device,
        })
    }

    /// Calls `f` with all state that training changes: the contents of a checkpoint.
    fn with_state<T>(&mut self, f: impl FnOnce(TrainingState<'_>) -> Outcome<T>) -> Outcome<T> {
        let (mut adam, mut mixed_precision) =
            (self.learner.adam.borrow_mut(), self.learner.mixed_precision.borrow_mut());
        let Settings { layers, heads, width, context, batch, seed, precision, .. } = self.settings;
        let state = TrainingState::new(&self.device)
            .model("model", &self.generator.model)
            .optimizer("adam", &mut *adam)
            .part("reading", &mut self.partial_reading)
            .part("recorder", &mut self.recorder)
            .part("loss_scale", mixed_precision.scale_mut())
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

    /// Restores the state of a checkpoint, if there is one to resume from; returns the completed
    /// steps.
    pub fn resume(&mut self) -> Outcome<Option<u64>> {
        let (settings, saving) = (self.settings.clone(), self.files.saving);
        let resumed = self.with_state(|mut state| saving.resume(&mut state))?;
        let Some((step, _)) = resumed else { return Ok(None) };
        // A resumed run uses the steps, learning rate, dropout and interval of tests of this
        // command line.
        (self.step, self.settings) = (step, settings);
        self.reading.reopen(&self.partial_reading)?;
        self.windows.train = self.windows.train.clone().at(self.step);
        Ok(Some(step))
    }

    /// Trains up to the last step, or until Ctrl-C, and returns the validation loss.
    pub fn run(&mut self, interrupts: &Interrupts) -> Outcome<f64> {
        self.begin_record()?;
        let first = self.step;
        let traced = (first + TRACED_STEP).min(self.settings.steps.saturating_sub(1));
        let (mut tested, mut saved) = (None, None);
        let mut start = Instant::now();
        if first > 0 && first >= self.settings.steps {
            print_line!("no step is left: {first} were made, --steps {}", self.settings.steps);
        }
        while self.step < self.settings.steps && self.divergence.is_none() && !interrupts.should_stop() {
            match self.files.trace {
                Some(file) if self.step == traced => self.train_traced(file)?,
                _ => self.train_step(GptStep::run)?,
            }
            if self.step == first + 1 {
                self.device.synchronize()?;
                self.spent =
                    TrainingTime { first: Some((start.elapsed(), self.spent.tokens)), ..Default::default() };
                start = Instant::now();
            }
            if self.step.is_multiple_of(STEPS_PER_READING) {
                let mean = self.reading.finish()?;
                self.recorder.scalar(TRAIN_LOSS, self.step, mean)?;
                self.divergence = Divergence::detect(self.step, mean);
            }
            let is_test = self.step.is_multiple_of(self.settings.eval_every);
            let is_save =
                self.files.saving.path().is_some() && self.step.is_multiple_of(self.files.save_every);
            if is_test || is_save || self.step == self.settings.steps || interrupts.should_stop() {
                self.device.synchronize()?;
                self.spent.time += start.elapsed();
                // A diverged state must not overwrite an earlier checkpoint.
                let lost = self.train_loss()?.and_then(|loss| Divergence::detect(self.step, loss));
                self.divergence = self.divergence.or(lost);
                if self.divergence.is_none() && is_test {
                    tested = Some((self.step, self.test()?));
                }
                if self.divergence.is_none() && is_save {
                    self.save_checkpoint(false)?;
                    saved = Some(self.step);
                }
                start = Instant::now();
            }
        }
        // Saved before the test and the reading outside their intervals: a run that resumes from
        // here must contain nothing that an uninterrupted run would not have.
        if self.divergence.is_none() && saved != Some(self.step) {
            self.save_checkpoint(interrupts.should_stop() && self.step > first)?;
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

    /// Checks that every loss was finite.
    pub fn check_divergence(&self) -> Result<(), Divergence> {
        Divergence::check(self.divergence)
    }

    fn begin_record(&mut self) -> Outcome<()> {
        if let Some(folder) = self.files.record {
            let start = if self.files.saving.is_resumed() { Start::After(self.step) } else { Start::New };
            self.recorder = std::mem::take(&mut self.recorder).folder(folder, start)?;
        }
        Ok(())
    }

    /// Saves to the named file; if none is named and `or_else` is set (after Ctrl-C), to
    /// [`INTERRUPTED_FILE`].
    fn save_checkpoint(&mut self, or_else: bool) -> Outcome<()> {
        self.partial_reading = self.reading.open()?;
        let (step, saving) = (self.step, self.files.saving);
        let or_else = or_else.then_some(Path::new(INTERRUPTED_FILE));
        if let Some(file) = self.with_state(|state| saving.save(step, &state, or_else))? {
            print_line!("step {step} saved to {}", file.display());
        }
        Ok(())
    }

    /// Runs a step and writes its timeline. It runs op by op, because the host cannot observe the
    /// parts of a recorded step.
    fn train_traced(&mut self, file: &Path) -> Outcome<()> {
        let (generator, timeline) = (self.generator, Rc::new(Timeline::new()));
        self.device.synchronize()?;
        trace(&generator.model, timeline.clone(), || self.train_step(GptStep::run_op_by_op))?;
        timeline.write_chrome(file)?;
        print_line!("the time of step {} is in {}", self.step, file.display());
        Ok(())
    }

    fn train_step(
        &mut self,
        step: impl Fn(&mut GptStep<'a>, &mut RandomWindows) -> Result<()>,
    ) -> Outcome<()> {
        self.generator.model.train();
        self.learner.adam.borrow_mut().set_lr(self.schedule.lr(self.step))?;
        step(&mut self.ops, &mut self.windows.train)?;
        self.reading.steps += 1;
        self.step += 1;
        self.spent.tokens += self.settings.batch * self.settings.context;
        Ok(())
    }

    /// Measures the validation loss, and prints a sample. The random number generator is reset, so
    /// that the test does not influence the training.
    fn test(&mut self) -> Outcome<f64> {
        let position = self.device.random_position();
        self.generator.model.eval();
        let validation = self.validation_loss()?;
        self.recorder.scalar(VALIDATION_LOSS, self.step, validation)?;
        let train = self.train_loss()?.map_or("-".to_owned(), |loss| format!("{loss:.4}"));
        let speed = self.spent.tokens_per_second();
        let speed = speed.map_or(String::new(), |speed| format!("  {speed:.0} tokens/s"));
        print_line!("step {}  loss {train}  validation {validation:.4}{speed}", self.step);
        if let Some(report) = self.learner.mixed_precision.borrow().report() {
            print_line!("{report}");
        }
        if self.step > 0 {
            print_line!("{}", self.sample());
        }
        self.device.set_random_position(position);
        Ok(validation)
    }

    fn validation_loss(&self) -> Outcome<f64> {
        no_grad(|| {
            let (mut sum, mut count) = (Tensor::zeros((), DType::F32, &self.device)?, 0);
            for batch in self.windows.validation.sequential(self.settings.batch.max(1), &self.device)? {
                let batch = batch?;
                let loss = self.learner.forward(|| mean_loss(&self.generator.model, &batch))?;
                sum = sum.add(&loss.mul_scalar(batch.size as f64)?)?;
                count += batch.size;
            }
            Ok(sum.item_f64()? / count as f64)
        })
    }

    fn sample(&self) -> String {
        // The first character in sorted order exists in every vocabulary. In most texts it is the
        // line break.
        let prompt: String = self.generator.vocabulary.characters().iter().take(1).collect();
        let sample = self.generator.generate(&prompt, SAMPLE_TOKENS, Sampling::default(), |_| ());
        // Non-finite weights generate nothing; the training continues, and its losses show the
        // problem.
        sample.map_or_else(|error| format!("(no sample: {error})"), |text| text.trim().to_owned())
    }

    /// Returns the mean of the newest steps; `None` before the first.
    fn train_loss(&self) -> Result<Option<f64>> {
        match self.reading.steps {
            0 => Ok(self.recorder.series(TRAIN_LOSS).last().map(|&(_, loss)| loss)),
            _ => self.reading.mean().map(Some),
        }
    }

    /// Draws both losses over the steps.
    pub fn chart(&self) -> Chart {
        let title = format!("{} parameters on {}", self.generator.model.parameter_count(), self.device);
        let panel = Panel::new("loss in nats per character")
            .series(Series::recorded(&self.recorder, TRAIN_LOSS))
            .series(Series::recorded(&self.recorder, VALIDATION_LOSS).dots());
        Chart::new(&title, "steps").panel(panel)
    }

    /// Adds the results; `validation` is the last validation loss.
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

/// The mean loss of some steps, which is summed on the device.
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

    /// Returns the mean, and begins the next reading.
    fn finish(&mut self) -> Result<f64> {
        let mean = self.mean()?;
        self.steps = 0;
        no_grad(|| self.sum.fill_(0.0))?;
        Ok(mean)
    }

    /// Returns sum and number of steps since the last reading; both are exact.
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
