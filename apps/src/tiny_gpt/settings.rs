//! The sizes of a transformer and of its training: by options, by those of a checkpoint, or as usual.

use crate::support::program::Outcome;
use clap::{Args, ValueEnum};
use std::fmt::{Debug, Display};
use ternion::prelude::*;

/// Without a preset.
const USUAL: Settings = Settings {
    layers: 4,
    heads: 4,
    width: 128,
    context: 256,
    batch: 12,
    seed: 1,
    steps: 1000,
    // Three times nanoGPT's, with which small models end lower.
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
    ..USUAL
};

/// The help of an option: what it is, and what it is where it is not given.
fn help<T: PartialEq + Display>(what: &str, of: impl Fn(&Settings) -> T) -> String {
    let (usual, preset) = (of(&USUAL), of(&SHAKESPEARE_CHAR));
    match usual == preset {
        true => format!("{what} [default: {usual}]"),
        false => format!("{what} [default: {usual}, of shakespeare-char {preset}]"),
    }
}

/// Options that decide what a training comes to. With `--resume` they are those of the checkpoint where they are not given.
#[derive(Args, Debug)]
pub struct SettingsArguments {
    /// Sizes of a known setting for a new training; other options change them
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
    #[arg(long, help = help("Share of numbers that become 0 in training. May change on --resume", |of| of.dropout))]
    dropout: Option<f64>,
    #[arg(long, help = help("Decides first weights, the pieces of text and what is written", |of| of.seed))]
    seed: Option<u64>,
    #[arg(long, help = help("Steps between two tests on the held-out text. May change on --resume", |of| of.eval_every), value_parser = clap::value_parser!(u64).range(1..))]
    eval_every: Option<u64>,
}

fn at_least_1(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

/// A known setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// nanoGPT's sizes for a GPU: 6 layers, 6 heads, 384 wide, context 256, batch 64, dropout 0.2; 2000 steps in bf16
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
    /// These may change when a training goes on; those above may not.
    pub steps: u64,
    pub lr: f64,
    pub dropout: f64,
    /// Steps between two tests.
    pub eval_every: u64,
}

impl Settings {
    fn usual(preset: Option<Preset>) -> Settings {
        match preset {
            Some(Preset::ShakespeareChar) => SHAKESPEARE_CHAR,
            None => USUAL,
        }
    }

    /// The settings of a new training.
    pub fn new(given: &SettingsArguments) -> Settings {
        Settings::usual(given.preset).changed(given)
    }

    /// The settings of a training that goes on from `checkpoint`.
    pub fn resumed(given: &SettingsArguments, checkpoint: &Checkpoint) -> Outcome<Settings> {
        let saved = Settings {
            batch: checkpoint.value("batch")?,
            seed: checkpoint.value("seed")?,
            steps: checkpoint.value("steps")?,
            lr: checkpoint.value("lr")?,
            dropout: checkpoint.value("dropout")?,
            eval_every: checkpoint.value("eval_every")?,
            precision: checkpoint.value::<String>("precision")?.parse()?,
            ..Settings::sizes(given, checkpoint)?
        };
        let settings = saved.clone().changed(given);
        expect_same("--batch", settings.batch, saved.batch)?;
        expect_same("--seed", settings.seed, saved.seed)?;
        expect_same("--precision", settings.precision, saved.precision)?;
        Ok(settings)
    }

    /// The settings of a new training that begins with the weights of `checkpoint`. Without `--steps` it has none.
    pub fn loaded(given: &SettingsArguments, checkpoint: &Checkpoint) -> Outcome<Settings> {
        let steps = given.steps.unwrap_or(0);
        Ok(Settings { steps, ..Settings::sizes(given, checkpoint)? })
    }

    /// With the sizes of the model in `checkpoint`.
    fn sizes(given: &SettingsArguments, checkpoint: &Checkpoint) -> Outcome<Settings> {
        let usual = Settings::usual(given.preset);
        let saved = Settings {
            layers: checkpoint.value("layers")?,
            heads: checkpoint.value("heads")?,
            width: checkpoint.value("width")?,
            context: checkpoint.value("context")?,
            ..usual
        };
        let settings = saved.clone().changed(given);
        expect_same("--layers", settings.layers, saved.layers)?;
        expect_same("--heads", settings.heads, saved.heads)?;
        expect_same("--width", settings.width, saved.width)?;
        expect_same("--context", settings.context, saved.context)?;
        Ok(settings)
    }

    /// With what was given in the place of what was not.
    fn changed(self, given: &SettingsArguments) -> Settings {
        Settings {
            layers: given.layers.unwrap_or(self.layers),
            heads: given.heads.unwrap_or(self.heads),
            width: given.width.unwrap_or(self.width),
            context: given.context.unwrap_or(self.context),
            batch: given.batch.unwrap_or(self.batch),
            seed: given.seed.unwrap_or(self.seed),
            steps: given.steps.unwrap_or(self.steps),
            lr: given.lr.unwrap_or(self.lr),
            dropout: given.dropout.unwrap_or(self.dropout),
            eval_every: given.eval_every.unwrap_or(self.eval_every),
            precision: given.precision.unwrap_or(self.precision),
        }
    }

    /// Windows of a step; 0 if none is made.
    pub fn windows(&self) -> usize {
        if self.steps > 0 { self.batch } else { 0 }
    }

    /// What decides how much memory is taken, for messages.
    pub fn sizes_told(&self) -> String {
        let Settings { layers, width, context, batch, .. } = self;
        format!("--layers {layers}, --width {width}, --context {context}, --batch {batch}")
    }

    /// The model's configuration.
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
