//! A model with the characters that its tokens stand for: saved, loaded, and asked to write.

use super::{Outcome, outputs};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use ternion::data::{CharVocabulary, Text, Tokenizer};
use ternion::nn;
use ternion::prelude::*;

/// A model and its vocabulary.
pub struct Writer {
    pub model: GPT,
    pub vocabulary: CharVocabulary,
}

/// Sizes and characters of the model in `file` stand beside it.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

impl Writer {
    /// Saves weights to `file`, and sizes and characters beside it.
    pub fn save(&self, file: &Path) -> Outcome<()> {
        let GPTConfig { context, layers, heads, width, .. } = *self.model.config();
        let characters: String = self.vocabulary.characters().iter().collect();
        let sizes = json!({
            "layers": layers, "heads": heads, "width": width, "context": context, "characters": characters,
        });
        outputs::write(&beside(file), &format!("{sizes:#}\n"))?;
        Ok(nn::save(&self.model, file)?)
    }

    /// The model that [`save`](Writer::save) saved.
    pub fn load(file: &Path, dropout: f64, device: &Device) -> Outcome<Writer> {
        let sizes = beside(file);
        let told = |detail: String| format!("{}: {detail}", sizes.display());
        let text =
            std::fs::read_to_string(&sizes).map_err(|error| told(format!("cannot be read: {error}")))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| told(error.to_string()))?;
        let size = |name: &str| {
            let found = value[name].as_u64().and_then(|size| usize::try_from(size).ok());
            found.ok_or_else(|| told(format!("expected a number as {name:?}, got {}", value[name])))
        };
        let characters = value["characters"].as_str();
        let characters = characters
            .ok_or_else(|| told(format!("expected a text as \"characters\", got {}", value["characters"])))?;
        let vocabulary = CharVocabulary::new(&Text::new(characters)?);
        let config = GPTConfig {
            vocabulary: vocabulary.vocabulary_size(),
            context: size("context")?,
            layers: size("layers")?,
            heads: size("heads")?,
            width: size("width")?,
            dropout,
            bias: false,
            ..Default::default()
        };
        let model = GPT::new(config, device)?;
        nn::load(&model, file)?;
        Ok(Writer { model, vocabulary })
    }

    /// `count` characters that follow `prompt`; `each` is told of every one as soon as it is chosen.
    pub fn continued(
        &self,
        prompt: &str,
        count: usize,
        sampling: Sampling,
        mut each: impl FnMut(&str),
    ) -> Outcome<String> {
        let prompt = self.vocabulary.encode(prompt)?;
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
