//! Small models with their training data, which `compare` trains on two devices.

use crate::support::digits::DigitSet;
use crate::support::memory;
use crate::support::program::Outcome;
use clap::ValueEnum;
use ternion::data::{CharVocabulary, RandomWindows, Shuffled, Text, Tokenizer, Tokens};
use ternion::nn::schedule::{Constant, Schedule, Warmup};
use ternion::prelude::*;

/// Number of drawn digits to train on.
const DIGIT_COUNT: usize = 2048;

/// The text that the transformers learn. It never changes, so that versions of this project can be
/// compared.
const TEXT: &str = include_str!("../../../LICENSE-APACHE");

/// Context length of the transformer in characters.
const CONTEXT_LENGTH: usize = 32;

/// Steps in which the learning rate of `tiny_gpt` rises.
const WARMUP_STEPS: u64 = 100;

/// The model to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Mlp,
    Cnn,
    Gpt,
    #[value(name = "tiny_gpt")]
    TinyGpt,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mlp => "mlp",
            Kind::Cnn => "cnn",
            Kind::Gpt => "gpt",
            Kind::TinyGpt => "tiny_gpt",
        }
    }

    /// Returns Adam; for `tiny_gpt` the AdamW of that program, with weight decay for matrices only.
    pub fn optimizer(self, model: &dyn Module, lr: f64) -> Result<Box<dyn Optimizer>> {
        if self != Kind::TinyGpt {
            return Ok(Box::new(Adam::new(model.parameters(), AdamConfig { lr, ..Default::default() })?));
        }
        let (matrices, vectors) = model.parameters().into_iter().partition(|param| param.shape().rank() > 1);
        let vectors = ParamGroup { weight_decay: Some(0.0), ..ParamGroup::new(vectors) };
        let config = AdamWConfig {
            lr,
            betas: [0.9, 0.99],
            weight_decay: 0.1,
            max_grad_norm: Some(1.0),
            ..Default::default()
        };
        Ok(Box::new(AdamW::with_groups(vec![ParamGroup::new(matrices), vectors], config)?))
    }

    /// Returns a constant learning rate; for `tiny_gpt` one with that program's warmup.
    pub fn schedule(self, lr: f64) -> Result<Box<dyn Schedule>> {
        let constant = Constant::new(lr)?;
        match self {
            Kind::TinyGpt => Ok(Box::new(Warmup::new(WARMUP_STEPS, 0.01, constant)?)),
            Kind::Mlp | Kind::Cnn | Kind::Gpt => Ok(Box::new(constant)),
        }
    }
}

/// A model and its examples on one device. The same seed gives the same examples on every device.
pub enum Task {
    Digits { model: Box<dyn Forward>, digits: DigitSet, shuffled: Shuffled, batch: usize },
    Text { model: Box<GPT>, windows: RandomWindows },
}

impl Task {
    pub fn new(kind: Kind, batch: usize, seed: u64, device: &Device) -> Outcome<Task> {
        let model: Box<dyn Forward> = match kind {
            Kind::Mlp => Box::new(Mlp::new([28 * 28, 64, 10], device)?),
            Kind::Cnn => Box::new(cnn(device)?),
            Kind::Gpt | Kind::TinyGpt => return Task::text(kind, batch, seed, device),
        };
        let source = DataSource::Synthetic { train: DIGIT_COUNT, test: 1, seed };
        let drawn = Mnist::load(source)?;
        let digits = DigitSet::new(drawn.train(), device)?;
        Ok(Task::Digits {
            model,
            digits,
            shuffled: drawn.train().shuffled(seed),
            batch: batch.min(DIGIT_COUNT),
        })
    }

    fn text(kind: Kind, batch: usize, seed: u64, device: &Device) -> Outcome<Task> {
        let text = Text::new(TEXT)?;
        let vocabulary = CharVocabulary::new(&text);
        let config = GPTConfig {
            vocabulary: vocabulary.vocabulary_size(),
            context: CONTEXT_LENGTH,
            layers: 2,
            heads: 2,
            width: 32,
            dropout: 0.0,
            // With tied weights of embedding and head, training amplifies differences in the last
            // bit: docs/tutorials/compare.md has the figures.
            tied: kind == Kind::TinyGpt,
            bias: kind == Kind::Gpt,
            ..Default::default()
        };
        memory::check(device, memory::gpt_bytes(&config, batch), &format!("--batch {batch}"))?;
        let model = Box::new(GPT::new(config, device)?);
        let tokens = Tokens::new(vocabulary.encode(text.as_str())?);
        Ok(Task::Text { model, windows: tokens.windows(CONTEXT_LENGTH)?.random(batch, seed, device)? })
    }

    pub fn model(&self) -> &dyn Module {
        match self {
            Task::Digits { model, .. } => &**model,
            Task::Text { model, .. } => &**model,
        }
    }

    /// Returns the loss on the examples of this step, which depend only on seed and step.
    pub fn loss(&self, step: u64) -> Outcome<Tensor> {
        match self {
            Task::Digits { model, digits, shuffled, batch } => {
                // Only full batches.
                let batches = (DIGIT_COUNT / batch) as u64;
                let order = shuffled.order(step / batches);
                let start = (step % batches) as usize * batch;
                let rows = order[start..start + batch].iter().map(|&number| number as i64).collect();
                let (images, labels) = digits.gather(&Tensor::from_vec(rows, *batch, digits.device())?)?;
                Ok(model.forward(&images)?.cross_entropy(&labels)?)
            }
            Task::Text { model, windows } => {
                let batch = windows.clone().at(step).batch()?;
                let count = batch.targets.elements();
                let logits = model.forward(&batch.inputs)?;
                let logits = logits.reshape([count, model.config().vocabulary])?;
                Ok(logits.cross_entropy(&batch.targets.reshape([count])?)?)
            }
        }
    }
}

fn cnn(device: &Device) -> Result<Sequential> {
    Ok(Sequential::new()
        .with(Conv2d::new(1, 8, [5, 5], device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2)) // [8, 12, 12]
        .with(Conv2d::new(8, 16, [3, 3], device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2)) // [16, 5, 5]
        .with(Flatten::default())
        .with(Linear::new(16 * 5 * 5, 10, device)?))
}
