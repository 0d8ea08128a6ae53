//! The native part of transformers: position embeddings, sampling of the next token, and GPT-2's
//! files.

use crate::arguments::Real;
use crate::device::{DeviceArgument, or_default};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::{run, wait, wait_on_thread};
use crate::state::{dict_of, state_of};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use ternion::nn::huggingface::{Gpt2Options, load_gpt2, save_gpt2};
use ternion::nn::position::{Rotary, RotaryConfig, RotaryLayout, sinusoidal};
use ternion::nn::{FeedForwardKind, GPT, GPTConfig, Module, Sampling};
use ternion::{DType, Tensor, positions_in_sequences};

/// Rotates pairs of columns by angles that grow with the position. Used by `ternion.nn.Rotary`.
#[pyclass(name = "_Rotary", module = "ternion._ternion", frozen)]
pub struct PyRotary {
    rotary: Rotary,
    arguments: (usize, usize, f64, String),
}

#[pymethods]
impl PyRotary {
    #[new]
    fn new(positions: usize, head_dim: usize, base: Real, pairs: &str) -> Outcome<PyRotary> {
        let layout = match pairs {
            "half" => RotaryLayout::Half,
            "interleaved" => RotaryLayout::Interleaved,
            _ => {
                let message = format!("rotary: pairs {pairs:?}, expected \"half\" or \"interleaved\"");
                return Err(RaisedError::value_error(message));
            }
        };
        let rotary = Rotary::new(positions, head_dim, RotaryConfig { base: base.0, pairs: layout })?;
        Ok(PyRotary { rotary, arguments: (positions, head_dim, base.0, pairs.to_owned()) })
    }

    fn forward(&self, py: Python<'_>, input: &Bound<'_, PyTensor>, first: usize) -> Outcome<PyTensor> {
        let x = input.get().tensor();
        run(py, x.elements(), || self.rotary.forward(&x, first)).map(PyTensor::new)
    }

    /// Rotates the rows of packed sequences, [rows, heads, head_dim], by their positions in the
    /// sequences.
    fn forward_varlen(
        &self,
        py: Python<'_>,
        input: &Bound<'_, PyTensor>,
        cu_seqlens: &Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (x, ends) = (input.get().tensor(), cu_seqlens.get().tensor());
        let rotated = || {
            let [rows, _, _] = x.sizes()?;
            let positions = positions_in_sequences(&ends, rows)?;
            self.rotary.forward_at(&x.transpose(0, 1)?, &positions)?.transpose(0, 1)
        };
        run(py, x.elements(), rotated).map(PyTensor::new)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (usize, usize, f64, String)) {
        (slf.get_type().into_any(), slf.get().arguments.clone())
    }
}

#[pyfunction]
#[pyo3(signature = (positions, width, device=None))]
fn _sinusoidal(
    py: Python<'_>,
    #[pyo3(from_py_with = of::sinusoidal)] positions: usize,
    #[pyo3(from_py_with = of::sinusoidal)] width: usize,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let device = or_default(py, device)?;
    wait(py, || sinusoidal(positions, width, &device)).map(PyTensor::new)
}

/// Selects a token for each row of logits, [rows, vocabulary], by a random number that is uniform
/// in [0, 1).
#[pyfunction]
#[pyo3(signature = (logits, chances, temperature, top_k, top_p))]
fn _choose(
    py: Python<'_>,
    logits: &Bound<'_, PyTensor>,
    chances: Vec<f64>,
    temperature: Real,
    top_k: Option<usize>,
    top_p: Option<Real>,
) -> Outcome<Vec<usize>> {
    let logits = logits.get().tensor();
    let sampling = Sampling { temperature: temperature.0, top_k, top_p: top_p.map(f64::from) };
    wait(py, || {
        let [rows, vocabulary] = logits.sizes()?;
        if rows != chances.len() {
            let detail = format!("{rows} rows of scores, {} chances", chances.len());
            return Err(ternion::Error::invalid("sampling", detail));
        }
        let values = logits.detach().to_dtype(DType::F32)?.to_vec::<f32>()?;
        let rows = values.chunks(vocabulary.max(1)).zip(&chances);
        rows.map(|(row, &chance)| sampling.choose(row, chance)).collect()
    })
}

/// The names of the kinds of feed-forward layers, in Python.
const KINDS: [(&str, FeedForwardKind); 3] = [
    ("relu", FeedForwardKind::ReLU),
    ("gelu", FeedForwardKind::GELU),
    ("gelu_tanh", FeedForwardKind::GELUTanh),
];

/// Returns the settings of a `ternion.models.GPT`, and its tensors, from a file or a folder of
/// `transformers`.
#[pyfunction]
fn _load_gpt2<'py>(
    py: Python<'py>,
    path: PathBuf,
    heads: Option<usize>,
    dtype: Option<DTypeArgument>,
) -> Outcome<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
    let dtype = dtype.map_or(DType::F32, |dtype| dtype.0);
    // The initialization, which is overwritten, must not advance the random number generator.
    let position = cpu.random_position();
    let device = cpu.clone();
    let loaded = wait_on_thread(py, move || {
        let model = load_gpt2(&path, Gpt2Options { heads, dtype, ..Default::default() }, &device)?;
        Ok((*model.config(), model.state_dict()?))
    });
    cpu.set_random_position(position);
    let (config, state) = loaded?;
    let settings = PyDict::new(py);
    let sizes = [
        ("vocabulary", config.vocabulary),
        ("context", config.context),
        ("layers", config.layers),
        ("heads", config.heads),
        ("width", config.width),
    ];
    for (name, size) in sizes {
        settings.set_item(name, size)?;
    }
    settings.set_item("hidden", config.hidden)?;
    settings.set_item("tied", config.tied)?;
    let known = KINDS.iter().find(|(_, kind)| *kind == config.feed_forward);
    settings.set_item("feed_forward", known.map(|(name, _)| *name))?;
    Ok((settings, dict_of(py, state)?))
}

/// Writes the tensors of a `ternion.models.GPT` with learned positions and layer norms as a folder
/// that `transformers` reads.
#[pyfunction]
fn _save_gpt2(
    py: Python<'_>,
    folder: PathBuf,
    settings: &Bound<'_, PyDict>,
    state: &Bound<'_, PyDict>,
) -> Outcome<()> {
    let size = |name: &str| -> Outcome<usize> {
        let value = settings.get_item(name)?;
        let value = value.ok_or_else(|| RaisedError::type_error(format!("save_gpt2: {name} is missing")))?;
        Ok(value.extract()?)
    };
    let state = state_of(state, "save_gpt2")?;
    let name = settings.get_item("feed_forward")?.map(|name| name.extract::<String>()).transpose()?;
    let known = KINDS.iter().find(|(known, _)| Some(*known) == name.as_deref());
    let &(_, feed_forward) =
        known.ok_or_else(|| RaisedError::value_error("save_gpt2: GPT-2 has no such feed-forward part"))?;
    let config = GPTConfig {
        vocabulary: size("vocabulary")?,
        context: size("context")?,
        layers: size("layers")?,
        heads: size("heads")?,
        width: size("width")?,
        hidden: settings
            .get_item("hidden")?
            .map(|hidden| hidden.extract::<Option<usize>>())
            .transpose()?
            .flatten(),
        feed_forward,
        tied: !state.contains_key("lm_head.weight"),
        dtype: state.get("wte.weight").map_or(DType::F32, Tensor::dtype),
        ..Default::default()
    };
    let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
    let position = cpu.random_position();
    let saved = wait(py, || {
        let model = GPT::new(config, &cpu)?;
        model.load_state_dict(&state)?;
        save_gpt2(&model, &folder)
    });
    cpu.set_random_position(position);
    saved
}

/// Adds the class and the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRotary>()?;
    module.add_function(wrap_pyfunction!(_sinusoidal, module)?)?;
    module.add_function(wrap_pyfunction!(_choose, module)?)?;
    module.add_function(wrap_pyfunction!(_load_gpt2, module)?)?;
    module.add_function(wrap_pyfunction!(_save_gpt2, module)?)
}
