//! Small models, each with what it learns: what `compare` trains on two devices.

use super::Outcome;
use super::digits::DigitSet;
use super::memory;
use clap::ValueEnum;
use ternion::data::{CharVocabulary, RandomWindows, Shuffled, Text, Tokenizer, Tokens};
use ternion::prelude::*;

/// Digits that are drawn to learn from.
const DIGITS: usize = 2048;

/// What the transformer learns. A text that never changes: two versions of this project can be compared, too.
const TEXT: &str = include_str!("../../LICENSE-APACHE");

/// Characters that the transformer sees at once.
const CONTEXT: usize = 32;

/// Which model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Mlp,
    Cnn,
    Gpt,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mlp => "mlp",
            Kind::Cnn => "cnn",
            Kind::Gpt => "gpt",
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
            Kind::Gpt => return Lesson::text(batch, seed, device),
        };
        let source = DataSource::Synthetic { train: DIGITS, test: 1, seed };
        let drawn = Mnist::load(source)?;
        let digits = DigitSet::new(drawn.train(), device)?;
        Ok(Lesson::Digits { model, digits, shuffled: drawn.train().shuffled(seed), batch: batch.min(DIGITS) })
    }

    fn text(batch: usize, seed: u64, device: &Device) -> Outcome<Lesson> {
        let text = Text::new(TEXT)?;
        let vocabulary = CharVocabulary::new(&text);
        let config = GPTConfig {
            vocabulary: vocabulary.vocabulary_size(),
            context: CONTEXT,
            layers: 2,
            heads: 2,
            width: 32,
            dropout: 0.0,
            // With the embedding's weights for its head the training makes much of a last bit: docs/tutorials/compare.md has the figures.
            tied: false,
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
