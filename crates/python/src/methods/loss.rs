//! Losses: the native part of `ternion.nn.functional`.

use crate::arguments::operand;
use crate::error::{Failure, Outcome};
use crate::run::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{BceOptions, CrossEntropyOptions, NllOptions, Reduction, Result, Tensor};

/// How losses become one, by PyTorch's names.
fn reduction(name: &str) -> Outcome<Reduction> {
    Ok(match name {
        "none" => Reduction::None,
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "batchmean" => Reduction::BatchMean,
        _ => {
            let told = format!("reduction {name:?}, expected \"none\", \"mean\", \"sum\" or \"batchmean\"");
            return Err(Failure::value(told));
        }
    })
}

fn loss(
    py: Python<'_>,
    op: &str,
    (input, target): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let (x, target) = (operand(op, "input", input)?, operand(op, "target", target)?);
    run(py, x.elements(), || f(&x, &target)).map(PyTensor::new)
}

/// Cross-entropy of logits and class indices, or probabilities.
///
/// Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) or probabilities of the logits' shape -> []
///
/// Args:
///     weight: how much each class counts, [classes].
///     ignore_index: an index that counts nothing.
///     label_smoothing: the share of a label that is spread over all classes.
///
/// Raises:
///     IndexError: an index that is none of a class.
#[pyfunction]
#[pyo3(signature = (input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0))]
fn cross_entropy(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    weight: Option<&Bound<'_, PyTensor>>,
    ignore_index: i64,
    reduction: &str,
    label_smoothing: f64,
) -> Outcome<PyTensor> {
    let (weight, reduction) = (weight.map(|weight| weight.get().tensor()), self::reduction(reduction)?);
    loss(py, "cross_entropy", (input, target), |x, target| {
        let options =
            CrossEntropyOptions { weight: weight.as_ref(), ignore_index, label_smoothing, reduction };
        x.cross_entropy_with(target, options)
    })
}

/// Minus the log-probability of each class index.
///
/// Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32 or int64) -> []
#[pyfunction]
#[pyo3(signature = (input, target, weight=None, ignore_index=-100, reduction="mean"))]
fn nll_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    weight: Option<&Bound<'_, PyTensor>>,
    ignore_index: i64,
    reduction: &str,
) -> Outcome<PyTensor> {
    let (weight, reduction) = (weight.map(|weight| weight.get().tensor()), self::reduction(reduction)?);
    loss(py, "nll_loss", (input, target), |x, target| {
        x.nll_loss_with(target, NllOptions { weight: weight.as_ref(), ignore_index, reduction })
    })
}

/// Binary cross-entropy of logits and probabilities.
///
/// Args:
///     pos_weight: how much more a positive answer counts than a negative one, broadcast.
#[pyfunction]
#[pyo3(signature = (input, target, reduction="mean", pos_weight=None))]
fn binary_cross_entropy_with_logits(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    reduction: &str,
    pos_weight: Option<&Bound<'_, PyTensor>>,
) -> Outcome<PyTensor> {
    let (weight, reduction) = (pos_weight.map(|weight| weight.get().tensor()), self::reduction(reduction)?);
    loss(py, "binary_cross_entropy_with_logits", (input, target), |x, target| {
        x.bce_with_logits_with(target, BceOptions { pos_weight: weight.as_ref(), reduction })
    })
}

/// `(input - target)^2`.
#[pyfunction]
#[pyo3(signature = (input, target, reduction="mean"))]
fn mse_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    reduction: &str,
) -> Outcome<PyTensor> {
    let reduction = self::reduction(reduction)?;
    loss(py, "mse_loss", (input, target), |x, target| x.mse_loss(target, reduction))
}

/// `|input - target|`.
#[pyfunction]
#[pyo3(signature = (input, target, reduction="mean"))]
fn l1_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    reduction: &str,
) -> Outcome<PyTensor> {
    let reduction = self::reduction(reduction)?;
    loss(py, "l1_loss", (input, target), |x, target| x.l1_loss(target, reduction))
}

/// Quadratic up to a distance of `delta`, linear beyond.
#[pyfunction]
#[pyo3(signature = (input, target, reduction="mean", delta=1.0))]
fn huber_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    reduction: &str,
    delta: f64,
) -> Outcome<PyTensor> {
    let reduction = self::reduction(reduction)?;
    loss(py, "huber_loss", (input, target), |x, target| x.huber_loss(target, delta, reduction))
}

/// The Kullback-Leibler divergence of log-probabilities from a target: probabilities, or with `log_target` their logarithms.
#[pyfunction]
#[pyo3(signature = (input, target, reduction="mean", log_target=false))]
fn kl_div(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    reduction: &str,
    log_target: bool,
) -> Outcome<PyTensor> {
    let reduction = self::reduction(reduction)?;
    loss(py, "kl_div", (input, target), |x, target| x.kl_div(target, reduction, log_target))
}

/// The share of rows whose largest logit is the target's, float32; no gradient flows.
///
/// Shapes: logits [batch, classes, ..] and [batch, ..] (int32 or int64) -> []
///
/// Raises:
///     IndexError: an index that is none of a class.
#[pyfunction]
fn accuracy(py: Python<'_>, input: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
    loss(py, "accuracy", (input, target), Tensor::accuracy)
}

/// Puts the functions into a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cross_entropy, module)?)?;
    module.add_function(wrap_pyfunction!(nll_loss, module)?)?;
    module.add_function(wrap_pyfunction!(binary_cross_entropy_with_logits, module)?)?;
    module.add_function(wrap_pyfunction!(mse_loss, module)?)?;
    module.add_function(wrap_pyfunction!(l1_loss, module)?)?;
    module.add_function(wrap_pyfunction!(huber_loss, module)?)?;
    module.add_function(wrap_pyfunction!(kl_div, module)?)?;
    module.add_function(wrap_pyfunction!(accuracy, module)?)
}
