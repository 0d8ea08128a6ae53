//! GPT-2's weights under the names that Hugging Face's `transformers` gives them, and back.
//!
//! A published GPT-2 is a folder with `config.json` and `model.safetensors`: [`load_gpt2`] makes a [`GPT`] of it, [`save_gpt2`] writes one that `transformers` reads.
//! There `c_attn`, `c_proj` and `c_fc` lie as `[in, out]`, transposed to what a [`Linear`](crate::Linear) has, and `attn.bias` is no bias but the causal mask.
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
//! let again = gpt2_from(&tensors, &Gpt2Config::of(&model)?, Default::default(), &device)?;
//! assert_eq!(again.parameter_count(), model.parameter_count());
//! # Ok(())
//! # }
//! ```

mod gpt2_config;

pub use gpt2_config::Gpt2Config;

use crate::formats::checkpoint;
use crate::layers::FeedForwardForm;
use crate::models::{GPT, GPTConfig};
use crate::module::{Module, StateDict};
use std::fs;
use std::path::{Path, PathBuf};
use ternion_core::{DType, Device, Error, Result, Tensor, no_grad};

/// In whose name errors are told.
const OP: &str = "gpt2";

/// What `transformers` puts before the names of the model without its output layer.
const PREFIX: &str = "transformer.";

/// Width of a head in every published GPT-2.
const HEAD_WIDTH: usize = 64;

/// Whether a matrix lies as here or transposed.
#[derive(Clone, Copy, PartialEq)]
enum Lies {
    Same,
    Transposed,
}

/// Names within a block: there, here.
const OF_BLOCK: [(&str, &str, Lies); 12] = [
    ("ln_1.weight", "norm1.weight", Lies::Same),
    ("ln_1.bias", "norm1.bias", Lies::Same),
    ("attn.c_attn.weight", "self_attn.in_proj_weight", Lies::Transposed),
    ("attn.c_attn.bias", "self_attn.in_proj_bias", Lies::Same),
    ("attn.c_proj.weight", "self_attn.out_proj.weight", Lies::Transposed),
    ("attn.c_proj.bias", "self_attn.out_proj.bias", Lies::Same),
    ("ln_2.weight", "norm2.weight", Lies::Same),
    ("ln_2.bias", "norm2.bias", Lies::Same),
    ("mlp.c_fc.weight", "linear1.weight", Lies::Transposed),
    ("mlp.c_fc.bias", "linear1.bias", Lies::Same),
    ("mlp.c_proj.weight", "linear2.weight", Lies::Transposed),
    ("mlp.c_proj.bias", "linear2.bias", Lies::Same),
];

/// Names that are the same there and here.
const OUTSIDE: [&str; 4] = ["wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"];

/// Causal masks that some files hold, and that a [`GPT`] does not need.
const MASKS: [&str; 2] = ["attn.bias", "attn.masked_bias"];

const HEAD: &str = "lm_head.weight";

/// A tensor's name there and here.
struct Name {
    there: String,
    here: String,
    lies: Lies,
}

fn names(layers: usize) -> impl Iterator<Item = Name> {
    let outside = OUTSIDE.map(|name| Name { there: name.into(), here: name.into(), lies: Lies::Same });
    let of_block = move |layer: usize| {
        OF_BLOCK.map(|(there, here, lies)| Name {
            there: format!("h.{layer}.{there}"),
            here: format!("h.{layer}.{here}"),
            lies,
        })
    };
    outside.into_iter().chain((0..layers).flat_map(of_block))
}

/// What a loaded model is made with beside what its file tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpt2Options {
    /// Heads, where no `config.json` tells them: shapes do not. By default as many as are 64 wide, as in every published GPT-2.
    pub heads: Option<usize>,
    /// See [`GPTConfig::dropout`]; 0 by default, whatever `config.json` says.
    pub dropout: f64,
    /// Element type of the parameters; f32 by default, whatever the file has.
    pub dtype: DType,
}

impl Default for Gpt2Options {
    fn default() -> Self {
        Gpt2Options { heads: None, dropout: 0.0, dtype: DType::F32 }
    }
}

/// The GPT-2 in a folder with `model.safetensors` and, where there is one, `config.json`; or in a safetensors file, beside which `config.json` may stand.
///
/// # Errors
/// If a file cannot be read or is damaged, or as [`gpt2_from`]; the message names the file.
pub fn load_gpt2(path: impl AsRef<Path>, options: Gpt2Options, device: &Device) -> Result<GPT> {
    let [weights, config] = files_of(path.as_ref())?;
    let in_file = |file: &Path| {
        let file = file.to_path_buf();
        move |error: Error| match error {
            Error::Invalid { detail, .. } => Error::file(&file, detail.to_string()),
            other => other,
        }
    };
    let told = match fs::read_to_string(&config) {
        Ok(text) => Gpt2Config::parse(&text).map_err(in_file(&config))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Gpt2Config::default(),
        Err(error) => return Err(Error::file_system(&config, "cannot be read", &error)),
    };
    gpt2_from(&checkpoint::read(&weights, device)?, &told, options, device).map_err(in_file(&weights))
}

/// Writes `config.json` and `model.safetensors` into a folder, which is made if there is none, so that `GPT2LMHeadModel.from_pretrained(folder)` reads them. Each file appears
/// whole or not at all.
///
/// # Errors
/// If the model is none that GPT-2's names can tell (see [`gpt2_tensors`]), or a file cannot be written.
pub fn save_gpt2(model: &GPT, folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    let (tensors, config) = (gpt2_tensors(model)?, Gpt2Config::of(model)?);
    fs::create_dir_all(folder).map_err(|error| Error::file_system(folder, "cannot be made", &error))?;
    checkpoint::write_file(folder.join("config.json"), config.to_json().as_bytes())?;
    checkpoint::write(&tensors, folder.join("model.safetensors"))
}

/// Weights and configuration, of which the second may be missing.
fn files_of(path: &Path) -> Result<[PathBuf; 2]> {
    if !path.is_dir() {
        return Ok([path.to_path_buf(), path.with_file_name("config.json")]);
    }
    let weights = path.join("model.safetensors");
    let in_parts = path.join("model.safetensors.index.json");
    if !weights.is_file() && in_parts.is_file() {
        let detail =
            "the weights are in several files, expected one: save them again with a larger max_shard_size";
        return Err(Error::file(&in_parts, detail));
    }
    Ok([weights, path.join("config.json")])
}

/// The model of tensors with GPT-2's names, with or without `transformer.` before them.
///
/// The output layer is tied to the embedding where there is no `lm_head.weight`, or it has the same values. Floating tensors are cast.
///
/// # Errors
/// One error lists every name that is missing, unknown or misshapen. Sizes other than the configuration's; a name twice; heads that nothing tells.
pub fn gpt2_from(
    tensors: &StateDict,
    told: &Gpt2Config,
    options: Gpt2Options,
    device: &Device,
) -> Result<GPT> {
    let mut tensors = without_prefix(tensors)?;
    let tied = is_tied(&tensors, told)?;
    if tied {
        tensors.remove(HEAD);
    }
    let config = sizes(&tensors, told, options, tied)?;
    tensors.retain(|name, _| !is_mask(name, config.layers));
    let model = GPT::new(config, device)?;
    let state = renamed(tensors, &model)?;
    model.load_state_dict(&state)?;
    Ok(model)
}

fn without_prefix(tensors: &StateDict) -> Result<StateDict> {
    let mut short = StateDict::new();
    for (name, tensor) in tensors {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        if short.insert(name.to_owned(), tensor.clone()).is_some() {
            return Err(Error::invalid(
                OP,
                format!("two tensors {name}, with and without {PREFIX} before it"),
            ));
        }
    }
    Ok(short)
}

fn is_mask(name: &str, layers: usize) -> bool {
    (0..layers).any(|layer| {
        let within = name.strip_prefix(&format!("h.{layer}."));
        within.is_some_and(|within| MASKS.contains(&within))
    })
}

/// Whether the output layer is that of the embedding.
fn is_tied(tensors: &StateDict, told: &Gpt2Config) -> Result<bool> {
    let (Some(head), Some(embedding)) = (tensors.get(HEAD), tensors.get("wte.weight")) else {
        return Ok(told.tied.unwrap_or(true) || !tensors.contains_key("wte.weight"));
    };
    let is_equal = head.shape() == embedding.shape()
        && no_grad(|| head.to_dtype(embedding.dtype())?.eq(embedding)?.all(..)?.item::<bool>())?;
    if told.tied == Some(true) && !is_equal {
        let detail = format!("{HEAD} differs from wte.weight, to which the configuration ties it");
        return Err(Error::invalid(OP, detail));
    }
    Ok(is_equal && told.tied != Some(false))
}

/// The sizes that the shapes tell, which the configuration must not contradict.
fn sizes(tensors: &StateDict, told: &Gpt2Config, options: Gpt2Options, tied: bool) -> Result<GPTConfig> {
    let matrix = |name: &str| {
        let tensor = tensors.get(name).ok_or_else(|| Error::invalid(OP, format!("no tensor {name}")))?;
        tensor.shape().to_array(OP)
    };
    let [vocabulary, width] = matrix("wte.weight")?;
    let [context, _] = matrix("wpe.weight")?;
    let has_block = |layer: &usize| {
        let prefix = format!("h.{layer}.");
        tensors.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    };
    let layers = (0..).take_while(has_block).count();
    let hidden = if layers == 0 { 4 * width } else { matrix("h.0.mlp.c_fc.weight")?[1] };
    told.check([vocabulary, context, layers, width, hidden])?;
    Ok(GPTConfig {
        vocabulary,
        context,
        layers,
        heads: heads(width, told.n_head, options.heads)?,
        width,
        hidden: (hidden != 4 * width).then_some(hidden),
        form: told.activation.unwrap_or(FeedForwardForm::GELUTanh),
        tied,
        dropout: options.dropout,
        dtype: options.dtype,
        ..Default::default()
    })
}

fn heads(width: usize, told: Option<usize>, asked: Option<usize>) -> Result<usize> {
    match (told, asked) {
        (Some(told), Some(asked)) if told != asked => {
            Err(Error::invalid(OP, format!("{asked} heads, the configuration says {told}")))
        }
        (None, None) if !width.is_multiple_of(HEAD_WIDTH) => {
            let detail = format!(
                "no configuration, and width {width} is no multiple of {HEAD_WIDTH}: expected a number of heads"
            );
            Err(Error::invalid(OP, detail))
        }
        _ => Ok(told.or(asked).unwrap_or(width / HEAD_WIDTH)),
    }
}

/// The tensors under the names of `model`, which they must fit.
fn renamed(mut tensors: StateDict, model: &GPT) -> Result<StateDict> {
    let targets = parameters_of(model);
    let mut state = StateDict::new();
    let (mut missing, mut misshapen) = (Vec::new(), Vec::new());
    let head =
        model.lm_head.is_some().then(|| Name { there: HEAD.into(), here: HEAD.into(), lies: Lies::Same });
    for Name { there, here, lies } in names(model.config().layers).chain(head) {
        let Some(tensor) = tensors.remove(&there) else {
            missing.push(there);
            continue;
        };
        let expected = turned(&targets[&here], lies)?;
        if tensor.shape() != expected.shape() {
            misshapen.push(format!("{there} {:?}, expected {:?}", tensor.shape(), expected.shape()));
            continue;
        }
        state.insert(here, turned(&tensor, lies)?);
    }
    let unknown: Vec<String> = tensors.into_keys().collect();
    let faults: Vec<String> = [("missing", missing), ("unknown", unknown), ("wrong shape", misshapen)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(fault, names)| format!("{fault}: {}", names.join(", ")))
        .collect();
    if faults.is_empty() {
        Ok(state)
    } else {
        Err(Error::invalid(OP, format!("this is no GPT-2; {}", faults.join("; "))))
    }
}

/// On the model's own memory.
fn parameters_of(model: &GPT) -> StateDict {
    model.named_parameters().into_iter().map(|(name, param)| (name, param.tensor().detach())).collect()
}

fn turned(tensor: &Tensor, lies: Lies) -> Result<Tensor> {
    if lies == Lies::Same { Ok(tensor.clone()) } else { tensor.t() }
}

/// The parameters of `model` under the names of `transformers`' `GPT2LMHeadModel`, on the model's own memory. A tied output layer is left out, as there.
///
/// # Errors
/// A model that is no GPT-2: other positions than learned ones, norms other than layer norms, fewer heads of keys, no biases, SwiGLU.
pub fn gpt2_tensors(model: &GPT) -> Result<StateDict> {
    Gpt2Config::of(model)?;
    let mut parameters = parameters_of(model);
    let mut tensors = StateDict::new();
    for Name { there, here, lies } in names(model.config().layers) {
        let tensor =
            parameters.remove(&here).ok_or_else(|| Error::invalid(OP, format!("the model has no {here}")))?;
        tensors.insert(format!("{PREFIX}{there}"), turned(&tensor, lies)?);
    }
    // What is left is an output layer of its own.
    tensors.extend(parameters);
    Ok(tensors)
}
