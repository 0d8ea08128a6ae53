//! A model with the characters that its tokens stand for: made, taken from a checkpoint, and asked to write.

use crate::support::memory;
use crate::support::program::Outcome;
use crate::tiny_gpt::settings::Settings;
use ternion::data::{CharVocabulary, Text, Tokenizer};
use ternion::prelude::*;

/// A model and its vocabulary.
pub struct Writer {
    pub model: GPT,
    pub vocabulary: CharVocabulary,
}

impl Writer {
    /// An untrained model for these characters.
    pub fn new(settings: &Settings, vocabulary: CharVocabulary, device: &Device) -> Outcome<Writer> {
        let config = settings.config(vocabulary.vocabulary_size());
        memory::check(device, memory::of_gpt(&config, settings.windows()), &settings.sizes_told())?;
        Ok(Writer { model: GPT::new(config, device)?, vocabulary })
    }

    /// The model whose training `checkpoint` holds, with its characters. Its weights are those of the checkpoint.
    pub fn of(checkpoint: &Checkpoint, settings: &Settings, device: &Device) -> Outcome<Writer> {
        let characters: String = checkpoint.value("characters")?;
        let writer = Writer::new(settings, CharVocabulary::new(&Text::new(characters)?), device)?;
        writer.model.load_state_dict(&checkpoint.state_dict("model", device)?)?;
        Ok(writer)
    }

    /// The characters in the order of their tokens.
    pub fn characters(&self) -> String {
        self.vocabulary.characters().iter().collect()
    }

    /// That something can be written behind `prompt`.
    pub fn check(&self, prompt: &str, sampling: Sampling) -> Outcome<()> {
        self.continued(prompt, 0, sampling, |_| ()).map(drop)
    }

    /// `count` characters that follow `prompt`; `each` is told of every one as soon as it is chosen.
    pub fn continued(
        &self,
        prompt: &str,
        count: usize,
        sampling: Sampling,
        mut each: impl FnMut(&str),
    ) -> Outcome<String> {
        let prompt =
            self.vocabulary.encode(prompt).map_err(|error| format!("the prompt {prompt:?}: {error}"))?;
        let tell = |token: i64| {
            let text = self
                .vocabulary
                .decode(&[token])
                .map_err(|error| Error::invalid("decode", error.to_string()))?;
            each(&text);
            Ok(())
        };
        Ok(self.vocabulary.decode(&self.model.generate(&prompt, count, sampling, tell)?)?)
    }
}
