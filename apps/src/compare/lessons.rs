//! Small models, each with what it learns: what `compare` trains on two devices.

use crate::support::digits::DigitSet;
use crate::support::memory;
use crate::support::program::Outcome;
use clap::ValueEnum;
use ternion::data::{CharVocabulary, RandomWindows, Shuffled, Text, Tokenizer, Tokens};
use ternion::nn::schedule::{Constant, Schedule, Warmup};
use ternion::prelude::*;

/// Digits that are drawn to learn from.
const DIGITS: usize = 2048;

/// What the transformer learns. A text that never changes: two versions of this project can be compared, too.
const TEXT: &str = include_str!("../../../LICENSE-APACHE");

/// Characters that the transformer sees at once.
const CONTEXT: usize = 32;

/// Steps in which the learning rate of `tiny_gpt` rises.
const WARMUP_STEPS: u64 = 100;

/// Which model is trained.
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

    /// Adam; of `tiny_gpt` the program's own AdamW, by which matrices decay and vectors do not.
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

    /// `lr` at every step; of `tiny_gpt` it rises to that first, as in the program.
    pub fn schedule(self, lr: f64) -> Result<Box<dyn Schedule>> {
        let constant = Constant::new(lr)?;
        match self {
            Kind::TinyGpt => Ok(Box::new(Warmup::new(WARMUP_STEPS, 0.01, constant)?)),
            Kind::Mlp | Kind::Cnn | Kind::Gpt => Ok(Box::new(constant)),
        }
    }
}

/// A model and its examples, on one device. The same seed gives the same lesson on every device.
pub enum Lesson {
    Digits { model: Box<dyn Forward>, digits: DigitSet, shuffled: Shuffled, batch: usize },
    Text { model: Box<GPT>, windows: RandomWindows },
}

impl Lesson {
    pub fn new(kind: Kind, batch: usize, seed: u64, device: &Device) -> Outcome<Lesson> {
        let model: Box<dyn Forward> = match kind {
            Kind::Mlp => Box::new(Mlp::new([28 * 28, 64, 10], device)?),
            Kind::Cnn => Box::new(cnn(device)?),
            Kind::Gpt | Kind::TinyGpt => return Lesson::text(kind, batch, seed, device),
        };
        let source = DataSource::Synthetic { train: DIGITS, test: 1, seed };
        let drawn = Mnist::load(source)?;
        let digits = DigitSet::new(drawn.train(), device)?;
        Ok(Lesson::Digits { model, digits, shuffled: drawn.train().shuffled(seed), batch: batch.min(DIGITS) })
    }

    fn text(kind: Kind, batch: usize, seed: u64, device: &Device) -> Outcome<Lesson> {
        let text = Text::new(TEXT)?;
        let vocabulary = CharVocabulary::new(&text);
        let config = GPTConfig {
            vocabulary: vocabulary.vocabulary_size(),
            context: CONTEXT,
            layers: 2,
            heads: 2,
            width: 32,
            dropout: 0.0,
            // With the embedding's weights for its head the training can make much of a last bit: docs/tutorials/compare.md has the figures.
            tied: kind == Kind::TinyGpt,
            bias: kind == Kind::Gpt,
            ..Default::default()
        };
        memory::check(device, memory::of_gpt(&config, batch), &format!("--batch {batch}"))?;
        let model = Box::new(GPT::new(config, device)?);
        let tokens = Tokens::new(vocabulary.encode(text.as_str())?);
        Ok(Lesson::Text { model, windows: tokens.windows(CONTEXT)?.random(batch, seed, device)? })
    }

    pub fn model(&self) -> &dyn Module {
        match self {
            Lesson::Digits { model, .. } => &**model,
            Lesson::Text { model, .. } => &**model,
        }
    }

    /// The loss on the examples of this step, a matter of seed and step alone.
    pub fn loss(&self, step: u64) -> Outcome<Tensor> {
        match self {
            Lesson::Digits { model, digits, shuffled, batch } => {
                // Whole batches alone.
                let batches = (DIGITS / batch) as u64;
                let order = shuffled.order(step / batches);
                let start = (step % batches) as usize * batch;
                let rows = order[start..start + batch].iter().map(|&number| number as i64).collect();
                let (images, labels) = digits.pick(&Tensor::from_vec(rows, *batch, digits.device())?)?;
                Ok(model.forward(&images)?.cross_entropy(&labels)?)
            }
            Lesson::Text { model, windows } => {
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
