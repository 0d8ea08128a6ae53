//! The native part of transformers: positions, and the choice of the next token.

use crate::device::{DeviceArgument, or_default};
use crate::error::{Failure, Outcome};
use crate::run::{run, wait};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::DType;
use ternion::nn::Sampling;
use ternion::nn::position::{Rotary, RotaryConfig, RotaryPairs, sinusoidal};

/// Turns pairs of columns by angles that grow with the position: `ternion.nn.Rotary` has one.
#[pyclass(name = "_Rotary", module = "ternion._ternion", frozen)]
pub struct PyRotary {
    rotary: Rotary,
    made_of: (usize, usize, f64, String),
}

#[pymethods]
impl PyRotary {
    #[new]
    fn new(positions: usize, head_dim: usize, base: f64, pairs: &str) -> Outcome<PyRotary> {
        let form = match pairs {
            "halves" => RotaryPairs::Halves,
            "neighbours" => RotaryPairs::Neighbours,
            _ => {
                let told = format!("rotary: pairs {pairs:?}, expected \"halves\" or \"neighbours\"");
                return Err(Failure::value(told));
            }
        };
        let rotary = Rotary::new(positions, head_dim, RotaryConfig { base, pairs: form })?;
        Ok(PyRotary { rotary, made_of: (positions, head_dim, base, pairs.to_owned()) })
    }

    fn forward(&self, py: Python<'_>, input: &Bound<'_, PyTensor>, first: usize) -> Outcome<PyTensor> {
        let x = input.get().tensor();
        run(py, x.elements(), || self.rotary.forward(&x, first)).map(PyTensor::new)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (usize, usize, f64, String)) {
        (slf.get_type().into_any(), slf.get().made_of.clone())
    }
}

#[pyfunction]
#[pyo3(signature = (positions, width, device=None))]
fn _sinusoidal(
    py: Python<'_>,
    positions: usize,
    width: usize,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let device = or_default(py, device)?;
    wait(py, || sinusoidal(positions, width, &device)).map(PyTensor::new)
}

/// For each row of scores, [rows, vocabulary], the token for its chance, even over 0 to 1.
#[pyfunction]
#[pyo3(signature = (logits, chances, temperature, top_k, top_p))]
fn _choose(
    py: Python<'_>,
    logits: &Bound<'_, PyTensor>,
    chances: Vec<f64>,
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
) -> Outcome<Vec<usize>> {
    let logits = logits.get().tensor();
    let sampling = Sampling { temperature, top_k, top_p };
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

/// Puts the classes and functions into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRotary>()?;
    module.add_function(wrap_pyfunction!(_sinusoidal, module)?)?;
    module.add_function(wrap_pyfunction!(_choose, module)?)
}
