//! `config.json` of a GPT-2: the settings that affect what the model computes.

use super::OP;
use crate::layers::{FeedForwardKind, NormKind};
use crate::models::{GPT, GPTConfig, GPTPositions};
use serde_json::{Map, Value, json};
use ternion_core::{DType, Error, Result};

/// The settings in a GPT-2's `config.json`, with the names that the file uses. A setting that is
/// not in the file is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gpt2Config {
    /// Size of the vocabulary.
    pub vocab_size: Option<usize>,
    /// Maximum number of tokens in the context.
    pub n_positions: Option<usize>,
    /// Number of blocks.
    pub n_layer: Option<usize>,
    /// Width of the token embeddings.
    pub n_embd: Option<usize>,
    /// Hidden width of the feed-forward part.
    pub n_inner: Option<usize>,
    /// Number of attention heads.
    pub n_head: Option<usize>,
    /// The activation between the layers of the feed-forward part (`activation_function`).
    pub activation: Option<FeedForwardKind>,
    /// Whether the output layer is tied to the embedding (`tie_word_embeddings`).
    pub tied: Option<bool>,
    /// Element type of the weights (`torch_dtype`). It is written, but not read.
    pub dtype: Option<DType>,
}

/// Names of activations in `config.json`, with the corresponding [`FeedForwardKind`].
const ACTIVATIONS: [(&str, FeedForwardKind); 4] = [
    ("gelu_new", FeedForwardKind::GELUTanh),
    ("gelu_pytorch_tanh", FeedForwardKind::GELUTanh),
    ("gelu", FeedForwardKind::GELU),
    ("relu", FeedForwardKind::ReLU),
];

/// Settings for which a [`GPT`] supports only one value, with this value.
const FIXED: [(&str, Value); 4] = [
    ("scale_attn_weights", Value::Bool(true)),
    ("scale_attn_by_inverse_layer_idx", Value::Bool(false)),
    ("add_cross_attention", Value::Bool(false)),
    ("is_encoder_decoder", Value::Bool(false)),
];

/// Added to the variance in each norm of a [`GPT`].
const EPS: f64 = 1e-5;

impl Gpt2Config {
    /// Parses the text of a `config.json`. Settings that do not affect what the model computes are
    /// ignored.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object, the model is not a GPT-2, a size is not
    /// an integer, or a [`GPT`] does not support a setting.
    pub fn parse(text: &str) -> Result<Gpt2Config> {
        let entries: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| Error::invalid(OP, format!("expected a JSON object: {error}")))?;
        let setting = |name: &str| entries.get(name).filter(|value| !value.is_null());
        let unsupported = |name: &str, expected: &str, got: &Value| {
            Error::invalid(OP, format!("{name} is {got}, expected {expected}"))
        };
        if let Some(kind) = setting("model_type").filter(|kind| *kind != "gpt2") {
            return Err(unsupported("model_type", "\"gpt2\"", kind));
        }
        for (name, expected) in &FIXED {
            if let Some(got) = setting(name).filter(|got| *got != expected) {
                return Err(unsupported(name, &expected.to_string(), got));
            }
        }
        if let Some(eps) = setting("layer_norm_epsilon").filter(|eps| eps.as_f64() != Some(EPS)) {
            return Err(unsupported("layer_norm_epsilon", "1e-5", eps));
        }
        let size = |name: &str| match setting(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|size| usize::try_from(size).ok()) {
                Some(size) => Ok(Some(size)),
                None => Err(unsupported(name, "an integer", value)),
            },
        };
        let activation = |name: &Value| {
            let known = ACTIVATIONS.iter().find(|(known, _)| name == known).map(|(_, kind)| *kind);
            known.ok_or_else(|| {
                unsupported("activation_function", "gelu_new, gelu_pytorch_tanh, gelu or relu", name)
            })
        };
        let is_tied = |value: &Value| {
            value.as_bool().ok_or_else(|| unsupported("tie_word_embeddings", "true or false", value))
        };
        Ok(Gpt2Config {
            vocab_size: size("vocab_size")?,
            // `n_ctx` is the older name of the same size.
            n_positions: size("n_positions")?.or(size("n_ctx")?),
            n_layer: size("n_layer")?,
            n_embd: size("n_embd")?,
            n_inner: size("n_inner")?,
            n_head: size("n_head")?,
            activation: setting("activation_function").map(activation).transpose()?,
            tied: setting("tie_word_embeddings").map(is_tied).transpose()?,
            dtype: None,
        })
    }

    /// Returns the configuration of a model.
    ///
    /// # Errors
    /// Same as [`gpt2_tensors`](super::gpt2_tensors).
    pub fn of(model: &GPT) -> Result<Gpt2Config> {
        let GPTConfig {
            vocabulary,
            context,
            layers,
            heads,
            kv_heads,
            width,
            hidden,
            feed_forward,
            norm,
            positions,
            bias,
            tied,
            dtype,
            ..
        } = *model.config();
        let unsupported = if positions != GPTPositions::Learned {
            "positions that are not learned"
        } else if norm != NormKind::LayerNorm {
            "norms that are not layer norms"
        } else if kv_heads.is_some_and(|kv_heads| kv_heads != heads) {
            "fewer heads of keys than of queries"
        } else if feed_forward == FeedForwardKind::SwiGLU {
            "SwiGLU"
        } else if !bias {
            "layers without bias"
        } else {
            return Ok(Gpt2Config {
                vocab_size: Some(vocabulary),
                n_positions: Some(context),
                n_layer: Some(layers),
                n_embd: Some(width),
                n_inner: hidden,
                n_head: Some(heads),
                activation: Some(feed_forward),
                tied: Some(tied),
                dtype: Some(dtype),
            });
        };
        Err(Error::invalid(OP, format!("a model with {unsupported}, which GPT-2's names cannot express")))
    }

    /// Returns the text of a `config.json`. It names the architecture, so that `transformers` can
    /// choose the class.
    pub fn to_json(&self) -> String {
        let activation = ACTIVATIONS.iter().find(|(_, kind)| Some(*kind) == self.activation);
        let dtype = self.dtype.map(|dtype| match dtype {
            DType::F64 => "float64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            _ => "float32",
        });
        let config = json!({
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": self.vocab_size,
            "n_positions": self.n_positions,
            "n_layer": self.n_layer,
            "n_embd": self.n_embd,
            "n_inner": self.n_inner,
            "n_head": self.n_head,
            "activation_function": activation.map(|(name, _)| name),
            "layer_norm_epsilon": EPS,
            "tie_word_embeddings": self.tied,
            "torch_dtype": dtype,
        });
        format!("{config:#}\n")
    }

    /// Checks that the sizes of the tensors are those of the configuration.
    pub(super) fn check(&self, [vocabulary, context, layers, width, hidden]: [usize; 5]) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size, vocabulary),
            ("n_positions", self.n_positions, context),
            ("n_layer", self.n_layer, layers),
            ("n_embd", self.n_embd, width),
            ("n_inner", self.n_inner, hidden),
        ];
        match sizes
            .into_iter()
            .find(|(_, configured, actual)| configured.is_some_and(|configured| configured != *actual))
        {
            Some((name, Some(configured), actual)) => Err(Error::invalid(
                OP,
                format!("the configuration says {name} {configured}, the tensors are of {actual}"),
            )),
            _ => Ok(()),
        }
    }
}
