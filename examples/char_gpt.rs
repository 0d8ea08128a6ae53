//! A small GPT that learns to continue a text, character by character, and then writes.
//!
//!     cargo run --release -p examples --example char_gpt
//!     cargo run --release -p examples --example char_gpt -- shakespeare.txt
//!     cargo run --release -p examples --features cuda --example char_gpt -- shakespeare.txt cuda
//!
//! The first argument is a text file, by default this repository's ARCHITECTURE.md; the second is
//! the device. The program `apps/src/tiny_gpt` adds a command line, checkpoints, mixed precision
//! and recorded steps.

use ternion::LinearCrossEntropyOptions;
use ternion::data::{CharVocabulary, Text, Tokenizer, Tokens};
use ternion::prelude::*;

const CONTEXT: usize = 64;
const BATCH_SIZE: usize = 16;
const STEPS: usize = 600;
const LEARNING_RATE: f64 = 3e-3;
const SAMPLE_CHARACTERS: usize = 300;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let text = match arguments.next() {
        Some(file) => Text::read(file)?,
        None => Text::new(include_str!("../ARCHITECTURE.md"))?,
    };
    let device = ternion::device(&arguments.next().unwrap_or("auto".into()))?;
    device.seed(1);

    // The vocabulary is every character of the text; the last tenth of the text is for validation.
    let vocabulary = CharVocabulary::new(&text);
    let (train, validation) = text.train_validation()?;
    let tokens =
        |part: &Text| -> Result<_> { Ok(Tokens::new(vocabulary.encode(part.as_str())?).windows(CONTEXT)?) };
    let mut train = tokens(&train)?.random(BATCH_SIZE, 1, &device)?;
    let mut validation = tokens(&validation)?.random(BATCH_SIZE, 2, &device)?;

    let config = GPTConfig {
        vocabulary: vocabulary.vocabulary_size(),
        context: CONTEXT,
        layers: 2,
        heads: 4,
        width: 64,
        ..Default::default()
    };
    let model = GPT::new(config, &device)?;
    println!("{} parameters, {} characters, on {device}", model.parameter_count(), config.vocabulary);

    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: LEARNING_RATE, ..Default::default() })?;
    for step in 0..=STEPS {
        // Inputs and targets have shape [batch, context]; targets are one character later.
        let batch = train.batch()?;
        let loss = model.loss(&batch.inputs, &batch.targets, LinearCrossEntropyOptions::default())?;
        let mut gradients = loss.backward()?;
        clip_grad_norm(&mut gradients, &model.parameters(), 1.0)?;
        adam.step(&gradients)?;
        if step % 100 == 0 {
            let batch = validation.batch()?;
            let unseen =
                no_grad(|| model.loss(&batch.inputs, &batch.targets, LinearCrossEntropyOptions::default()))?;
            println!(
                "step {step:3}  loss {:.3}  validation loss {:.3}",
                loss.item_f64()?,
                unseen.item_f64()?
            );
        }
    }

    model.eval();
    let prompt = vocabulary.encode("The ")?;
    let sampling = Sampling { temperature: 0.8, ..Default::default() };
    let sample = model.generate(&prompt, SAMPLE_CHARACTERS, sampling, |_| Ok(()))?;
    println!("\nThe {}", vocabulary.decode(&sample)?);
    Ok(())
}
