//! Import and export of GPT-2 weights with the names of Hugging Face's `transformers`.
//!
//! A published GPT-2 is a folder with `config.json` and `model.safetensors`: [`load_gpt2`] creates
//! a [`GPT`] from it, and [`save_gpt2`] writes one that `transformers` can read. In the file the
//! weights `c_attn`, `c_proj` and `c_fc` have the shape `[in, out]`, transposed relative to a
//! [`Linear`](crate::Linear), and `attn.bias` is not a bias but the causal mask.
//!
//! ```
//! use ternion_nn::{GPT, GPTConfig, Module};
//! use ternion_nn::huggingface::{Gpt2Config, gpt2_from, gpt2_tensors};
//! # fn main() -> ternion_core::Result<()> {
//! # let device = ternion_cpu::device();
//! let config = GPTConfig { vocabulary: 11, context: 8, layers: 1, heads: 2, width: 4, ..Default::default() };
//! let model = GPT::new(config, &device)?;
//! let tensors = gpt2_tensors(&model)?;
//! assert_eq!(tensors["transformer.h.0.attn.c_attn.weight"].dims(), [4, 12]);
//! let imported = gpt2_from(&tensors, &Gpt2Config::of(&model)?, Default::default(), &device)?;
//! assert_eq!(imported.parameter_count(), model.parameter_count());
//! # Ok(())
//! # }
//! ```

mod gpt2_config;

pub use gpt2_config::Gpt2Config;

use crate::formats::checkpoint;
use crate::layers::FeedForwardKind;
use crate::models::{GPT, GPTConfig};
use crate::module::{Module, StateDict};
use std::fs;
use std::path::{Path, PathBuf};
use ternion_core::{DType, Device, Error, Result, Tensor, no_grad};

/// The op name in errors.
const OP: &str = "gpt2";

/// The prefix of all names in `transformers` except the name of the output layer.
const PREFIX: &str = "transformer.";

/// Width of a head in every published GPT-2.
const HEAD_WIDTH: usize = 64;

/// Whether a tensor has the same axis order in `transformers` and in Ternion, or is transposed.
#[derive(Clone, Copy, PartialEq)]
enum WeightLayout {
    Same,
    Transposed,
}

/// Names within a block: (name in `transformers`, name in Ternion, layout).
const BLOCK_NAMES: [(&str, &str, WeightLayout); 12] = [
    ("ln_1.weight", "norm1.weight", WeightLayout::Same),
    ("ln_1.bias", "norm1.bias", WeightLayout::Same),
    ("attn.c_attn.weight", "self_attn.in_proj_weight", WeightLayout::Transposed),
    ("attn.c_attn.bias", "self_attn.in_proj_bias", WeightLayout::Same),
    ("attn.c_proj.weight", "self_attn.out_proj.weight", WeightLayout::Transposed),
    ("attn.c_proj.bias", "self_attn.out_proj.bias", WeightLayout::Same),
    ("ln_2.weight", "norm2.weight", WeightLayout::Same),
    ("ln_2.bias", "norm2.bias", WeightLayout::Same),
    ("mlp.c_fc.weight", "linear1.weight", WeightLayout::Transposed),
    ("mlp.c_fc.bias", "linear1.bias", WeightLayout::Same),
    ("mlp.c_proj.weight", "linear2.weight", WeightLayout::Transposed),
    ("mlp.c_proj.bias", "linear2.bias", WeightLayout::Same),
];

/// Names that are the same in `transformers` and in Ternion.
const OTHER_NAMES: [&str; 4] = ["wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"];

/// Causal masks that some files contain, and that a [`GPT`] does not need.
const MASKS: [&str; 2] = ["attn.bias", "attn.masked_bias"];

const HEAD: &str = "lm_head.weight";

/// The name of a tensor in `transformers` (`hf`) and in Ternion (`ternion`).
struct Name {
    hf: String,
    ternion: String,
    layout: WeightLayout,
}

fn names(layers: usize) -> impl Iterator<Item = Name> {
    let others =
        OTHER_NAMES.map(|name| Name { hf: name.into(), ternion: name.into(), layout: WeightLayout::Same });
    let block_names = move |layer: usize| {
        BLOCK_NAMES.map(|(hf, ternion, layout)| Name {
            hf: format!("h.{layer}.{hf}"),
            ternion: format!("h.{layer}.{ternion}"),
            layout,
        })
    };
    others.into_iter().chain((0..layers).flat_map(block_names))
}

/// Options of a loaded model that are not in its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpt2Options {
    /// The number of heads, if there is no `config.json`: it cannot be derived from the shapes. By
    /// default the width divided by 64, as in every published GPT-2.
    pub heads: Option<usize>,
    /// See [`GPTConfig::dropout`]; 0 by default, regardless of `config.json`.
    pub dropout: f64,
    /// Element type of the parameters; f32 by default, regardless of the file.
    pub dtype: DType,
}

impl Default for Gpt2Options {
    fn default() -> Self {
        Gpt2Options { heads: None, dropout: 0.0, dtype: DType::F32 }
    }
}

/// Loads a GPT-2 from a folder with `model.safetensors` and optionally `config.json`, or from a
/// safetensors file, with an optional `config.json` in the same folder.
///
/// # Errors
/// Returns an error if a file cannot be read or is corrupt, and the errors of [`gpt2_from`]. The
/// message names the file.
pub fn load_gpt2(path: impl AsRef<Path>, options: Gpt2Options, device: &Device) -> Result<GPT> {
    let [weights, config] = model_files(path.as_ref())?;
    let in_file = |file: &Path| {
        let file = file.to_path_buf();
        move |error: Error| match error {
            Error::Invalid { detail, .. } => Error::file(&file, detail.to_string()),
            other => other,
        }
    };
    let hf_config = match fs::read_to_string(&config) {
        Ok(text) => Gpt2Config::parse(&text).map_err(in_file(&config))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Gpt2Config::default(),
        Err(error) => return Err(Error::file_system(&config, "cannot be read", &error)),
    };
    gpt2_from(&checkpoint::read(&weights, device)?, &hf_config, options, device).map_err(in_file(&weights))
}

/// Writes `config.json` and `model.safetensors` into a folder, which is created if it does not
/// exist, so that `GPT2LMHeadModel.from_pretrained(folder)` can read them. Each file is written
/// atomically.
///
/// # Errors
/// Returns an error if the model cannot be expressed with GPT-2's names (see [`gpt2_tensors`]), or
/// if a file cannot be written.
pub fn save_gpt2(model: &GPT, folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    let (tensors, config) = (gpt2_tensors(model)?, Gpt2Config::of(model)?);
    fs::create_dir_all(folder).map_err(|error| Error::file_system(folder, "cannot be made", &error))?;
    checkpoint::write_file(folder.join("config.json"), config.to_json().as_bytes())?;
    checkpoint::write(&tensors, folder.join("model.safetensors"))
}

/// Returns the paths of the weights and of the configuration, which need not exist.
fn model_files(path: &Path) -> Result<[PathBuf; 2]> {
    if !path.is_dir() {
        return Ok([path.to_path_buf(), path.with_file_name("config.json")]);
    }
    let weights = path.join("model.safetensors");
    let sharded_index = path.join("model.safetensors.index.json");
    if !weights.is_file() && sharded_index.is_file() {
        let detail =
            "the weights are in several files, expected one: save them again with a larger max_shard_size";
        return Err(Error::file(&sharded_index, detail));
    }
    Ok([weights, path.join("config.json")])
}

/// Creates a model from tensors with GPT-2's names, with or without the prefix `transformer.`.
///
/// The output layer is tied to the embedding if there is no `lm_head.weight`, or if it has the same
/// values. Floating tensors are cast.
///
/// # Errors
/// A single error lists every name that is missing, unknown or of another shape. Returns an error
/// if a size differs from the configuration, a name occurs twice, or the number of heads is
/// unknown.
pub fn gpt2_from(
    tensors: &StateDict,
    hf_config: &Gpt2Config,
    options: Gpt2Options,
    device: &Device,
) -> Result<GPT> {
    let mut tensors = without_prefix(tensors)?;
    let tied = is_tied(&tensors, hf_config)?;
    if tied {
        tensors.remove(HEAD);
    }
    let config = infer_config(&tensors, hf_config, options, tied)?;
    tensors.retain(|name, _| !is_mask(name, config.layers));
    let model = GPT::new(config, device)?;
    let state = with_ternion_names(tensors, &model)?;
    model.load_state_dict(&state)?;
    Ok(model)
}

fn without_prefix(tensors: &StateDict) -> Result<StateDict> {
    let mut unprefixed = StateDict::new();
    for (name, tensor) in tensors {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        if unprefixed.insert(name.to_owned(), tensor.clone()).is_some() {
            return Err(Error::invalid(
                OP,
                format!("two tensors {name}, with and without {PREFIX} before it"),
            ));
        }
    }
    Ok(unprefixed)
}

fn is_mask(name: &str, layers: usize) -> bool {
    (0..layers).any(|layer| {
        let within = name.strip_prefix(&format!("h.{layer}."));
        within.is_some_and(|within| MASKS.contains(&within))
    })
}

/// Whether the output layer is tied to the embedding.
fn is_tied(tensors: &StateDict, hf_config: &Gpt2Config) -> Result<bool> {
    let (Some(head), Some(embedding)) = (tensors.get(HEAD), tensors.get("wte.weight")) else {
        return Ok(hf_config.tied.unwrap_or(true) || !tensors.contains_key("wte.weight"));
    };
    let is_equal = head.shape() == embedding.shape()
        && no_grad(|| head.to_dtype(embedding.dtype())?.eq(embedding)?.all(..)?.item::<bool>())?;
    if hf_config.tied == Some(true) && !is_equal {
        let detail = format!("{HEAD} differs from wte.weight, to which the configuration ties it");
        return Err(Error::invalid(OP, detail));
    }
    Ok(is_equal && hf_config.tied != Some(false))
}

/// Derives the sizes of the model from the shapes of the tensors. Returns an error if `hf_config`
/// contradicts them.
fn infer_config(
    tensors: &StateDict,
    hf_config: &Gpt2Config,
    options: Gpt2Options,
    tied: bool,
) -> Result<GPTConfig> {
    let matrix_sizes = |name: &str| {
        let tensor = tensors.get(name).ok_or_else(|| Error::invalid(OP, format!("no tensor {name}")))?;
        tensor.shape().to_array(OP)
    };
    let [vocabulary, width] = matrix_sizes("wte.weight")?;
    let [context, _] = matrix_sizes("wpe.weight")?;
    let has_block = |layer: &usize| {
        let prefix = format!("h.{layer}.");
        tensors.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    };
    let layers = (0..).take_while(has_block).count();
    let hidden = if layers == 0 { 4 * width } else { matrix_sizes("h.0.mlp.c_fc.weight")?[1] };
    hf_config.check([vocabulary, context, layers, width, hidden])?;
    Ok(GPTConfig {
        vocabulary,
        context,
        layers,
        heads: infer_heads(width, hf_config.n_head, options.heads)?,
        width,
        hidden: (hidden != 4 * width).then_some(hidden),
        feed_forward: hf_config.activation.unwrap_or(FeedForwardKind::GELUTanh),
        tied,
        dropout: options.dropout,
        dtype: options.dtype,
        ..Default::default()
    })
}

fn infer_heads(width: usize, configured: Option<usize>, requested: Option<usize>) -> Result<usize> {
    match (configured, requested) {
        (Some(configured), Some(requested)) if configured != requested => {
            Err(Error::invalid(OP, format!("{requested} heads, the configuration says {configured}")))
        }
        (None, None) if !width.is_multiple_of(HEAD_WIDTH) => {
            let detail = format!(
                "no configuration, and width {width} is not a multiple of {HEAD_WIDTH}: expected a number of heads"
            );
            Err(Error::invalid(OP, detail))
        }
        _ => Ok(configured.or(requested).unwrap_or(width / HEAD_WIDTH)),
    }
}

/// Returns the tensors under the names of `model`. Returns an error unless each name of `model`
/// occurs with the same shape, and no other name.
fn with_ternion_names(mut tensors: StateDict, model: &GPT) -> Result<StateDict> {
    let targets = detached_parameters(model);
    let mut state = StateDict::new();
    let (mut missing, mut wrong_shape) = (Vec::new(), Vec::new());
    let head = model.lm_head.is_some().then(|| Name {
        hf: HEAD.into(),
        ternion: HEAD.into(),
        layout: WeightLayout::Same,
    });
    for Name { hf, ternion, layout } in names(model.config().layers).chain(head) {
        let Some(tensor) = tensors.remove(&hf) else {
            missing.push(hf);
            continue;
        };
        let expected = transposed(&targets[&ternion], layout)?;
        if tensor.shape() != expected.shape() {
            wrong_shape.push(format!("{hf} {:?}, expected {:?}", tensor.shape(), expected.shape()));
            continue;
        }
        state.insert(ternion, transposed(&tensor, layout)?);
    }
    let unknown: Vec<String> = tensors.into_keys().collect();
    let problems: Vec<String> = [("missing", missing), ("unknown", unknown), ("wrong shape", wrong_shape)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(problem, names)| format!("{problem}: {}", names.join(", ")))
        .collect();
    if problems.is_empty() {
        Ok(state)
    } else {
        Err(Error::invalid(OP, format!("this is not a GPT-2; {}", problems.join("; "))))
    }
}

/// Returns the parameters without copying them.
fn detached_parameters(model: &GPT) -> StateDict {
    model.named_parameters().into_iter().map(|(name, param)| (name, param.tensor().detach())).collect()
}

fn transposed(tensor: &Tensor, layout: WeightLayout) -> Result<Tensor> {
    if layout == WeightLayout::Same { Ok(tensor.clone()) } else { tensor.t() }
}

/// Returns the parameters of `model` under the names of `GPT2LMHeadModel` in `transformers`,
/// without copying them. A tied output layer is omitted, as in `transformers`.
///
/// # Errors
/// Returns an error if the model is not a GPT-2: if it has positions other than learned ones, norms
/// other than layer norms, fewer heads of keys than of queries, no biases, or SwiGLU.
pub fn gpt2_tensors(model: &GPT) -> Result<StateDict> {
    Gpt2Config::of(model)?;
    let mut parameters = detached_parameters(model);
    let mut tensors = StateDict::new();
    for Name { hf, ternion, layout } in names(model.config().layers) {
        let tensor = parameters
            .remove(&ternion)
            .ok_or_else(|| Error::invalid(OP, format!("the model has no {ternion}")))?;
        tensors.insert(format!("{PREFIX}{hf}"), transposed(&tensor, layout)?);
    }
    // Only an untied output layer is left.
    tensors.extend(parameters);
    Ok(tensors)
}
