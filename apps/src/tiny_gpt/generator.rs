//! A model with its vocabulary of characters: created or loaded from a checkpoint, for generating
//! text.

use crate::support::memory;
use crate::support::program::Outcome;
use crate::tiny_gpt::settings::Settings;
use ternion::data::{CharVocabulary, Text, Tokenizer};
use ternion::prelude::*;

/// A model and its vocabulary.
pub struct TextGenerator {
    pub model: GPT,
    pub vocabulary: CharVocabulary,
}

impl TextGenerator {
    /// Creates an untrained model for these characters.
    pub fn new(settings: &Settings, vocabulary: CharVocabulary, device: &Device) -> Outcome<TextGenerator> {
        let config = settings.config(vocabulary.vocabulary_size());
        memory::check(device, memory::gpt_bytes(&config, settings.windows()), &settings.describe_sizes())?;
        Ok(TextGenerator { model: GPT::new(config, device)?, vocabulary })
    }

    /// Loads the model of `checkpoint` with its weights and characters.
    pub fn load(checkpoint: &Checkpoint, settings: &Settings, device: &Device) -> Outcome<TextGenerator> {
        let characters: String = checkpoint.value("characters")?;
        let generator = TextGenerator::new(settings, CharVocabulary::new(&Text::new(characters)?), device)?;
        generator.model.load_state_dict(&checkpoint.state_dict("model", device)?)?;
        Ok(generator)
    }

    /// Returns the characters in the order of their tokens.
    pub fn characters(&self) -> String {
        self.vocabulary.characters().iter().collect()
    }

    /// Checks that `prompt` can be continued.
    pub fn check(&self, prompt: &str, sampling: Sampling) -> Outcome<()> {
        self.generate(prompt, 0, sampling, |_| ()).map(drop)
    }

    /// Returns `count` characters that follow `prompt`; `each` is called with every one as soon as
    /// it is chosen.
    pub fn generate(
        &self,
        prompt: &str,
        count: usize,
        sampling: Sampling,
        mut each: impl FnMut(&str),
    ) -> Outcome<String> {
        let prompt =
            self.vocabulary.encode(prompt).map_err(|error| format!("the prompt {prompt:?}: {error}"))?;
        let on_token = |token: i64| {
            let text = self
                .vocabulary
                .decode(&[token])
                .map_err(|error| Error::invalid("decode", error.to_string()))?;
            each(&text);
            Ok(())
        };
        Ok(self.vocabulary.decode(&self.model.generate(&prompt, count, sampling, on_token)?)?)
    }
}
