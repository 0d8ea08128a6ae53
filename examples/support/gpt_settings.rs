//! The sizes of a transformer and of its training: by options, by those of a checkpoint, or as usual.

use super::Outcome;
use clap::{Args, ValueEnum};
use std::fmt::{Debug, Display};
use ternion::prelude::*;

/// Options that decide what a training comes to. With `--resume` they are those of the checkpoint where they are not given.
#[derive(Args, Debug)]
pub struct SettingsArguments {
    /// Sizes of a known setting for a new training; other options change them
    #[arg(long, value_enum, conflicts_with_all = ["resume", "load"])]
    preset: Option<Preset>,
    /// Blocks
    #[arg(long)]
    layers: Option<usize>,
    /// Heads of attention
    #[arg(long)]
    heads: Option<usize>,
    /// Numbers of a character
    #[arg(long)]
    width: Option<usize>,
    /// Characters that are seen at once
    #[arg(long)]
    context: Option<usize>,
    /// Pieces of text in a step
    #[arg(long)]
    batch: Option<usize>,
    /// Steps of training, those before --resume among them; 0 only tests
    #[arg(long)]
    steps: Option<u64>,
    /// The largest learning rate: it rises for 100 steps and falls to a tenth along a cosine [default: 0.003, of shakespeare-char 0.002]
    #[arg(long)]
    lr: Option<f64>,
    /// In which products are computed: f32, tf32, bf16 or f16; weights stay f32 [default: f32, of shakespeare-char bf16]
    #[arg(long)]
    precision: Option<Precision>,
    /// Share of numbers that become 0 in training
    #[arg(long)]
    dropout: Option<f64>,
    /// Decides first weights, the pieces of text and what is written [default: 1]
    #[arg(long)]
    seed: Option<u64>,
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
    /// These may change when a training goes on; those above may not.
    pub steps: u64,
    pub lr: f64,
    pub dropout: f64,
    pub precision: Precision,
}

impl Settings {
    fn usual(preset: Option<Preset>) -> Settings {
        let common = Settings {
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
        };
        match preset {
            Some(Preset::ShakespeareChar) => Settings {
                layers: 6,
                heads: 6,
                width: 384,
                batch: 64,
                steps: 2000,
                lr: 2e-3,
                dropout: 0.2,
                precision: Precision::Bf16,
                ..common
            },
            None => common,
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
