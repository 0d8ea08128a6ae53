//! The sizes of a transformer and of its training: from options, a checkpoint, or defaults.

use crate::support::program::Outcome;
use clap::{Args, ValueEnum};
use std::fmt::{Debug, Display};
use ternion::prelude::*;

/// Defaults without a preset.
const DEFAULTS: Settings = Settings {
    layers: 4,
    heads: 4,
    width: 128,
    context: 256,
    batch: 12,
    seed: 1,
    steps: 1000,
    // Three times nanoGPT's: small models reach a lower loss with it.
    lr: 3e-3,
    dropout: 0.0,
    precision: Precision::F32,
    eval_every: 250,
};

/// nanoGPT's sizes for a GPU.
const SHAKESPEARE_CHAR: Settings = Settings {
    layers: 6,
    heads: 6,
    width: 384,
    batch: 64,
    steps: 2000,
    lr: 2e-3,
    dropout: 0.2,
    precision: Precision::Bf16,
    ..DEFAULTS
};

/// Returns the help text of an option with its defaults.
fn help<T: PartialEq + Display>(what: &str, of: impl Fn(&Settings) -> T) -> String {
    let (default, preset) = (of(&DEFAULTS), of(&SHAKESPEARE_CHAR));
    match default == preset {
        true => format!("{what} [default: {default}]"),
        false => format!("{what} [default: {default}, of shakespeare-char {preset}]"),
    }
}

/// Options that determine the result of a training run. With `--resume` they default to those of
/// the checkpoint.
#[derive(Args, Debug)]
pub struct SettingsArguments {
    /// Sizes of a known configuration for a new run; other options override them
    #[arg(long, value_enum, conflicts_with_all = ["resume", "load"])]
    preset: Option<Preset>,
    #[arg(long, help = help("Blocks", |of| of.layers), value_parser = at_least_1)]
    layers: Option<usize>,
    #[arg(long, help = help("Heads of attention", |of| of.heads), value_parser = at_least_1)]
    heads: Option<usize>,
    #[arg(long, help = help("Numbers of a character", |of| of.width), value_parser = at_least_1)]
    width: Option<usize>,
    #[arg(long, help = help("Characters that are seen at once", |of| of.context), value_parser = at_least_1)]
    context: Option<usize>,
    #[arg(long, help = help("Pieces of text in a step", |of| of.batch), value_parser = at_least_1)]
    batch: Option<usize>,
    #[arg(long, help = help("Steps of training, those before --resume among them, which may be others than those of the checkpoint; 0 only tests", |of| of.steps))]
    steps: Option<u64>,
    #[arg(long, help = help("The largest learning rate: it rises for 100 steps and falls to a tenth along a cosine. May change on --resume", |of| of.lr))]
    lr: Option<f64>,
    #[arg(long, help = help("In which products are computed: f32, ieee, tf32, bf16 or f16; weights stay f32", |of| of.precision))]
    precision: Option<Precision>,
    #[arg(long, help = help("Fraction of numbers that become 0 in training. May change on --resume", |of| of.dropout))]
    dropout: Option<f64>,
    #[arg(long, help = help("Decides first weights, the pieces of text and what is written", |of| of.seed))]
    seed: Option<u64>,
    #[arg(long, help = help("Steps between two tests on the held-out text. May change on --resume", |of| of.eval_every), value_parser = clap::value_parser!(u64).range(1..))]
    eval_every: Option<u64>,
}

fn at_least_1(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected an integer of at least 1".to_owned())
}

/// A known configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// nanoGPT's sizes for a GPU: 6 layers, 6 heads, width 384, context 256, batch 64, dropout 0.2;
    /// 2000 steps in bf16
    ShakespeareChar,
}

/// The sizes of a model and of its training.
#[derive(Clone, Debug)]
pub struct Settings {
    pub layers: usize,
    pub heads: usize,
    pub width: usize,
    pub context: usize,
    pub batch: usize,
    pub seed: u64,
    pub precision: Precision,
    /// Only this field and those below may change when a run is resumed.
    pub steps: u64,
    pub lr: f64,
    pub dropout: f64,
    /// Steps between two tests.
    pub eval_every: u64,
}

impl Settings {
    fn of_preset(preset: Option<Preset>) -> Settings {
        match preset {
            Some(Preset::ShakespeareChar) => SHAKESPEARE_CHAR,
            None => DEFAULTS,
        }
    }

    /// Returns the settings of a new run.
    pub fn new(options: &SettingsArguments) -> Settings {
        Settings::of_preset(options.preset).changed(options)
    }

    /// Returns the settings of a run that resumes from `checkpoint`.
    pub fn resumed(options: &SettingsArguments, checkpoint: &Checkpoint) -> Outcome<Settings> {
        let saved = Settings {
            batch: checkpoint.value("batch")?,
            seed: checkpoint.value("seed")?,
            steps: checkpoint.value("steps")?,
            lr: checkpoint.value("lr")?,
            dropout: checkpoint.value("dropout")?,
            eval_every: checkpoint.value("eval_every")?,
            precision: checkpoint.value::<String>("precision")?.parse()?,
            ..Settings::sizes(options, checkpoint)?
        };
        let settings = saved.clone().changed(options);
        expect_same("--batch", settings.batch, saved.batch)?;
        expect_same("--seed", settings.seed, saved.seed)?;
        expect_same("--precision", settings.precision, saved.precision)?;
        Ok(settings)
    }

    /// Returns the settings of a new run that begins with the weights of `checkpoint`: no steps
    /// without `--steps`.
    pub fn loaded(options: &SettingsArguments, checkpoint: &Checkpoint) -> Outcome<Settings> {
        let steps = options.steps.unwrap_or(0);
        Ok(Settings { steps, ..Settings::sizes(options, checkpoint)? })
    }

    /// Returns the settings with the sizes of the model in `checkpoint`.
    fn sizes(options: &SettingsArguments, checkpoint: &Checkpoint) -> Outcome<Settings> {
        let default = Settings::of_preset(options.preset);
        let saved = Settings {
            layers: checkpoint.value("layers")?,
            heads: checkpoint.value("heads")?,
            width: checkpoint.value("width")?,
            context: checkpoint.value("context")?,
            ..default
        };
        let settings = saved.clone().changed(options);
        expect_same("--layers", settings.layers, saved.layers)?;
        expect_same("--heads", settings.heads, saved.heads)?;
        expect_same("--width", settings.width, saved.width)?;
        expect_same("--context", settings.context, saved.context)?;
        Ok(settings)
    }

    /// Overrides the settings with the given options.
    fn changed(self, options: &SettingsArguments) -> Settings {
        Settings {
            layers: options.layers.unwrap_or(self.layers),
            heads: options.heads.unwrap_or(self.heads),
            width: options.width.unwrap_or(self.width),
            context: options.context.unwrap_or(self.context),
            batch: options.batch.unwrap_or(self.batch),
            seed: options.seed.unwrap_or(self.seed),
            steps: options.steps.unwrap_or(self.steps),
            lr: options.lr.unwrap_or(self.lr),
            dropout: options.dropout.unwrap_or(self.dropout),
            eval_every: options.eval_every.unwrap_or(self.eval_every),
            precision: options.precision.unwrap_or(self.precision),
        }
    }

    /// Returns the number of windows per step; 0 without training.
    pub fn windows(&self) -> usize {
        if self.steps > 0 { self.batch } else { 0 }
    }

    /// Describes what determines the memory requirement, for messages.
    pub fn describe_sizes(&self) -> String {
        let Settings { layers, width, context, batch, .. } = self;
        format!("--layers {layers}, --width {width}, --context {context}, --batch {batch}")
    }

    /// Returns the model's configuration.
    pub fn config(&self, vocabulary: usize) -> GPTConfig {
        GPTConfig {
            vocabulary,
            context: self.context,
            layers: self.layers,
            heads: self.heads,
            width: self.width,
            dropout: self.dropout,
            bias: false,
            ..Default::default()
        }
    }
}

fn expect_same<T: PartialEq + Display>(option: &str, given: T, saved: T) -> Outcome<()> {
    match given == saved {
        true => Ok(()),
        false => Err(format!("{option} {given}, but the checkpoint is of {saved}").into()),
    }
}
