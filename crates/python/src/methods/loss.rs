//! Losses: the native part of `ternion.nn.functional`.

use crate::arguments::operand;
use crate::error::{Failure, Outcome};
use crate::expected::of;
use crate::optim::level_of_caller;
use crate::promote::{common, meet, meet_weight, of_tensors};
use crate::run::run;
use crate::tensor::PyTensor;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use ternion::ops::matmul::LinearParameters;
use ternion::{
    BceOptions, CrossEntropyOptions, DType, LinearCrossEntropyOptions, NllOptions, Reduction, Result, Tensor,
};

/// Returns the reduction from PyTorch's name.
pub fn reduction(op: &str, name: &str) -> Outcome<Reduction> {
    Ok(match name {
        "none" => Reduction::None,
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "batchmean" => Reduction::BatchMean,
        _ => {
            let told =
                format!("{op}: reduction {name:?}, expected \"none\", \"mean\", \"sum\" or \"batchmean\"");
            return Err(Failure::value(told));
        }
    })
}

/// The dtype of a loss: that of its input, that of its target, or the promoted dtype of both.
#[derive(Clone, Copy, PartialEq)]
pub enum ResultDtype {
    Input,
    Target,
    Together,
}

fn both(op: &str, input: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> Outcome<(Tensor, Tensor)> {
    Ok((operand(op, "input", input)?, operand(op, "target", target)?))
}

fn loss(
    py: Python<'_>,
    (x, target): (Tensor, Tensor),
    result_dtype: ResultDtype,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let together = of_tensors(&x, &target).filter(|_| target.dtype().is_float()).unwrap_or(x.dtype());
    let dtype = if result_dtype == ResultDtype::Target { target.dtype() } else { together };
    let result = run(py, x.elements(), || {
        // The op itself computes half precision with float32 in float32.
        let is_double = [&x, &target].map(|operand| operand.dtype() == DType::F64);
        let is_met = is_double[0] != is_double[1] && x.dtype().is_float() && target.dtype().is_float();
        let (x, target) = if is_met { meet(&x, &target)? } else { (x.clone(), target.clone()) };
        cast_result(dtype, f(&x, &target)?)
    });
    result.map(PyTensor::new)
}

/// Same as `cast_half` for any floating dtype.
pub fn cast_result(dtype: DType, loss: Tensor) -> Result<Tensor> {
    let is_free = ternion::precision::current().is_none() && dtype.is_float() && loss.dtype() != dtype;
    if is_free { loss.to_dtype(dtype) } else { Ok(loss) }
}

/// Casts a loss to half precision if `dtype` is a half-precision dtype, as PyTorch does. In a
/// precision scope the loss keeps the dtype of the computation.
pub fn cast_half(dtype: DType, loss: Tensor) -> Result<Tensor> {
    if ternion::precision::current().is_none() && dtype.is_half() { loss.to_dtype(dtype) } else { Ok(loss) }
}

/// Computes a loss of input and target in their common dtype and broadcast shape.
fn distance(
    py: Python<'_>,
    op: &'static str,
    (x, target): (Tensor, Tensor),
    weight: Option<Tensor>,
    result_dtype: ResultDtype,
    f: impl FnOnce(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    warn_of_shapes(py, op, &x, &target)?;
    let result = run(py, x.elements(), || {
        let own = x.dtype();
        let (x, target) = meet(&x, &target)?;
        let dtype = if result_dtype == ResultDtype::Input && own.is_float() { own } else { x.dtype() };
        let (x, target) = broadcast(op, &x, &target)?;
        let Some(weight) = weight else { return cast_result(dtype, f(&x, &target, None)?) };
        // Losses are multiplied by their weights in the common dtype.
        let weighed = if weight.dtype().is_float() { common(dtype, weight.dtype()) } else { None };
        let (x, weight) = meet_weight(&x, &weight)?;
        let target = target.to_dtype(x.dtype())?;
        cast_result(weighed.unwrap_or(dtype), f(&x, &target, Some(&weight))?)
    });
    result.map(PyTensor::new)
}

/// Warns if input and target differ in shape, as PyTorch does: with `[n, 1]` and `[n]` every
/// prediction would be compared with every target, and the model would not learn.
fn warn_of_shapes(py: Python<'_>, op: &str, x: &Tensor, target: &Tensor) -> Outcome<()> {
    if x.shape() == target.shape() {
        return Ok(());
    }
    let shapes = [x, target].map(|tensor| format!("{:?}", tensor.shape()));
    let text = format!(
        "{op}: input has shape {} and target {}: they are broadcast, which is seldom meant; give both one shape",
        shapes[0], shapes[1]
    );
    let text = std::ffi::CString::new(text).unwrap_or_default();
    Ok(PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, level_of_caller(py)?)?)
}

pub fn broadcast(op: &'static str, x: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    if x.shape() == target.shape() {
        return Ok((x.clone(), target.clone()));
    }
    let shape = x.shape().broadcast(target.shape(), op)?;
    Ok((x.expand(shape)?, target.expand(shape)?))
}

/// Computes the cross-entropy of logits and class indices, or probabilities.
///
/// Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) or probabilities of the logits'
///     shape
/// -> []
///
/// Args:
///     weight: the weight of each class, [classes].
///     ignore_index: a class index that is ignored.
///     label_smoothing: the fraction of a label that is distributed over all classes.
///
/// Raises:
///     IndexError: a class index out of range.
///     ValueError: incompatible shapes, or an unknown `reduction`.
#[pyfunction]
#[pyo3(
    signature = (input, target, weight=None, ignore_index=-100, reduction="mean".to_owned(), label_smoothing=0.0),
    text_signature = "(input, target, weight=None, ignore_index=-100, reduction=\"mean\", label_smoothing=0.0)"
)]
fn cross_entropy(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::cross_entropy)] weight: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::cross_entropy)] ignore_index: i64,
    #[pyo3(from_py_with = of::cross_entropy)] reduction: String,
    #[pyo3(from_py_with = of::cross_entropy)] label_smoothing: f64,
) -> Outcome<PyTensor> {
    let (weight, reduction) =
        (weight.map(|weight| weight.get().tensor()), self::reduction("cross_entropy", &reduction)?);
    let refused = |failure: Failure| hinted(py, failure, input, target);
    let (mut x, classes) = both("cross_entropy", input, target)?;
    let weight = match weight {
        // With probabilities, the weights are factors and promote the dtype.
        Some(weight) if classes.dtype().is_float() => {
            let weighed = run(py, x.elements(), || meet_weight(&x, &weight))?;
            x = weighed.0;
            Some(weighed.1)
        }
        other => other,
    };
    loss(py, (x, classes), ResultDtype::Together, |x, target| {
        let options =
            CrossEntropyOptions { weight: weight.as_ref(), ignore_index, label_smoothing, reduction };
        x.cross_entropy_with(target, options)
    })
    .map_err(refused)
}

/// Computes `cross_entropy(linear(input, linear_weight, linear_bias), target)` in chunks of rows,
/// so that only the scores of one chunk are in memory.
///
/// Shapes: [.., in_features], linear_weight [classes, in_features], linear_bias [classes], class
/// indices [..] (int32 or int64) or probabilities [.., classes] -> []
///
/// Args:
///     weight: the weight of each class, [classes].
///     ignore_index: a class index that is ignored.
///     label_smoothing: the fraction of a label that is distributed over all classes.
///     chunk_rows: the number of rows of a chunk; by default as many as have 2^29 scores.
///
/// Raises:
///     IndexError: a class index out of range.
///     ValueError: incompatible shapes, an unknown `reduction`, or chunks of 0 rows.
#[pyfunction]
#[pyo3(
    signature = (input, linear_weight, target, *, linear_bias=None, weight=None, ignore_index=-100, reduction="mean".to_owned(), label_smoothing=0.0, chunk_rows=None),
    text_signature = "(input, linear_weight, target, *, linear_bias=None, weight=None, ignore_index=-100, reduction=\"mean\", label_smoothing=0.0, chunk_rows=None)"
)]
#[allow(clippy::too_many_arguments, reason = "those of linear and of cross_entropy")]
fn linear_cross_entropy(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    linear_weight: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::linear_cross_entropy)] linear_bias: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::linear_cross_entropy)] weight: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::linear_cross_entropy)] ignore_index: i64,
    #[pyo3(from_py_with = of::linear_cross_entropy)] reduction: String,
    #[pyo3(from_py_with = of::linear_cross_entropy)] label_smoothing: f64,
    #[pyo3(from_py_with = of::linear_cross_entropy)] chunk_rows: Option<usize>,
) -> Outcome<PyTensor> {
    let name = "linear_cross_entropy";
    let reduction = self::reduction(name, &reduction)?;
    let (x, target) = both(name, input, target)?;
    let linear_weight = operand(name, "linear_weight", linear_weight)?;
    let [bias, weight] = [linear_bias, weight].map(|given| given.map(|tensor| tensor.get().tensor()));
    let result = run(py, x.elements().max(linear_weight.elements()), || {
        let loss = CrossEntropyOptions { weight: weight.as_ref(), ignore_index, label_smoothing, reduction };
        let parameters = LinearParameters { weight: &linear_weight, bias: bias.as_ref() };
        let options = LinearCrossEntropyOptions { loss, chunk_rows };
        cast_result(x.dtype(), x.linear_cross_entropy(parameters, &target, options)?)
    });
    result.map(PyTensor::new)
}

/// Adds a hint to the error if floating class numbers were interpreted as probabilities.
fn hinted(py: Python<'_>, failure: Failure, input: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> Failure {
    let (Ok(input), Ok(target)) = (input.cast::<PyTensor>(), target.cast::<PyTensor>()) else {
        return failure;
    };
    let (input, target) = (input.get().tensor(), target.get().tensor());
    if !target.dtype().is_float() || input.rank() < 2 || target.rank() + 1 != input.rank() {
        return failure;
    }
    let error = PyErr::from(failure);
    Failure::value(format!(
        "{}: numbers with a point are taken for probabilities of the classes; target.long() makes them numbers of classes",
        error.value(py)
    ))
}

/// Computes the negative log-likelihood of class indices.
///
/// Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32 or int64) -> []
///
/// Raises:
///     IndexError: a class index out of range.
///     ValueError: incompatible shapes.
///     TypeError: indices that are not int32 or int64.
#[pyfunction]
#[pyo3(
    signature = (input, target, weight=None, ignore_index=-100, reduction="mean".to_owned()),
    text_signature = "(input, target, weight=None, ignore_index=-100, reduction=\"mean\")"
)]
fn nll_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::nll_loss)] weight: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::nll_loss)] ignore_index: i64,
    #[pyo3(from_py_with = of::nll_loss)] reduction: String,
) -> Outcome<PyTensor> {
    let (weight, reduction) =
        (weight.map(|weight| weight.get().tensor()), self::reduction("nll_loss", &reduction)?);
    loss(py, both("nll_loss", input, target)?, ResultDtype::Together, |x, target| {
        x.nll_loss_with(target, NllOptions { weight: weight.as_ref(), ignore_index, reduction })
    })
}

/// Computes the binary cross-entropy of logits and probabilities.
///
/// Shapes: two of one shape -> [], or with reduction "none" that shape
///
/// Args:
///     pos_weight: the weight of positive answers relative to negative ones, broadcast.
///
/// Raises:
///     TypeError: the dtype is not floating.
///     ValueError: an unknown `reduction`.
#[pyfunction]
#[pyo3(
    signature = (input, target, weight=None, reduction="mean".to_owned(), pos_weight=None),
    text_signature = "(input, target, weight=None, reduction=\"mean\", pos_weight=None)"
)]
fn binary_cross_entropy_with_logits(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::binary_cross_entropy_with_logits)] weight: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::binary_cross_entropy_with_logits)] reduction: String,
    #[pyo3(from_py_with = of::binary_cross_entropy_with_logits)] pos_weight: Option<Bound<'_, PyTensor>>,
) -> Outcome<PyTensor> {
    let tensor = |given: Option<Bound<'_, PyTensor>>| given.map(|weight| weight.get().tensor());
    let (weight, pos_weight) = (tensor(weight), tensor(pos_weight));
    let reduction = self::reduction("binary_cross_entropy_with_logits", &reduction)?;
    let operands = both("binary_cross_entropy_with_logits", input, target)?;
    loss(py, operands, ResultDtype::Target, |x, target| {
        // Weights are converted to the dtype of the input.
        let pos_weight = pos_weight.as_ref().map(|weight| weight.to_dtype(x.dtype())).transpose()?;
        let (pos_weight, weight) = (pos_weight.as_ref(), weight.as_ref());
        x.bce_with_logits_with(target, BceOptions { pos_weight, weight, reduction })
    })
}

/// Computes the squared error `(input - target)^2`.
///
/// Shapes: two tensors, broadcast -> [], or with reduction "none" the broadcast shape
///
/// Args:
///     weight: the weight of each element, of the input's shape; the mean is divided by their sum.
///     size_average, reduce: deprecated arguments that PyTorch had before `reduction`, accepted
///         with a warning.
///
/// Raises:
///     ValueError: shapes that do not broadcast, or an unknown `reduction`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
#[pyo3(
    signature = (input, target, size_average=None, reduce=None, reduction="mean".to_owned(), weight=None),
    text_signature = "(input, target, size_average=None, reduce=None, reduction=\"mean\", weight=None)"
)]
fn mse_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::mse_loss)] size_average: Option<bool>,
    #[pyo3(from_py_with = of::mse_loss)] reduce: Option<bool>,
    #[pyo3(from_py_with = of::mse_loss)] reduction: String,
    #[pyo3(from_py_with = of::mse_loss)] weight: Option<Bound<'_, PyTensor>>,
) -> Outcome<PyTensor> {
    let reduction = self::reduction("mse_loss", &older(py, reduction, size_average, reduce)?)?;
    let weight = weight.map(|weight| weight.get().tensor());
    let operands = both("mse_loss", input, target)?;
    distance(py, "mse_loss", operands, weight, ResultDtype::Together, |x, target, weight| match weight {
        None => x.mse_loss(target, reduction),
        Some(weight) => x.mse_loss_weighted(target, weight, reduction),
    })
}

/// Returns the reduction that the deprecated arguments mean, with a warning, or `reduction` if they
/// are not given.
fn older(
    py: Python<'_>,
    reduction: String,
    size_average: Option<bool>,
    reduce: Option<bool>,
) -> Outcome<String> {
    if size_average.is_none() && reduce.is_none() {
        return Ok(reduction);
    }
    let meant = match (reduce.unwrap_or(true), size_average.unwrap_or(true)) {
        (false, _) => "none",
        (true, true) => "mean",
        (true, false) => "sum",
    };
    let told = format!("size_average and reduce are deprecated: reduction={meant:?} says the same");
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(told).unwrap_or_default(), 1)?;
    Ok(meant.to_owned())
}

/// Computes the absolute error `|input - target|`.
///
/// Shapes: two tensors, broadcast -> [], or with reduction "none" the broadcast shape
///
/// Args:
///     weight: the weight of each element, of the input's shape; the mean is divided by their sum.
///     size_average, reduce: deprecated arguments that PyTorch had before `reduction`, accepted
///         with a warning.
///
/// Raises:
///     ValueError: shapes that do not broadcast, or an unknown `reduction`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
#[pyo3(
    signature = (input, target, size_average=None, reduce=None, reduction="mean".to_owned(), weight=None),
    text_signature = "(input, target, size_average=None, reduce=None, reduction=\"mean\", weight=None)"
)]
fn l1_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::l1_loss)] size_average: Option<bool>,
    #[pyo3(from_py_with = of::l1_loss)] reduce: Option<bool>,
    #[pyo3(from_py_with = of::l1_loss)] reduction: String,
    #[pyo3(from_py_with = of::l1_loss)] weight: Option<Bound<'_, PyTensor>>,
) -> Outcome<PyTensor> {
    let reduction = self::reduction("l1_loss", &older(py, reduction, size_average, reduce)?)?;
    let weight = weight.map(|weight| weight.get().tensor());
    let operands = both("l1_loss", input, target)?;
    distance(py, "l1_loss", operands, weight, ResultDtype::Together, |x, target, weight| match weight {
        None => x.l1_loss(target, reduction),
        Some(weight) => x.l1_loss_weighted(target, weight, reduction),
    })
}

/// Computes the Huber loss: quadratic up to a distance of `delta`, linear beyond.
///
/// Shapes: two tensors, broadcast -> [], or with reduction "none" the broadcast shape
///
/// Args:
///     weight: the weight of each element, of the input's shape.
///
/// Raises:
///     ValueError: shapes that do not broadcast, a `delta` that is not positive, or an unknown
///         `reduction`.
#[pyfunction]
#[pyo3(
    signature = (input, target, reduction="mean".to_owned(), delta=1.0, weight=None),
    text_signature = "(input, target, reduction=\"mean\", delta=1.0, weight=None)"
)]
fn huber_loss(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::huber_loss)] reduction: String,
    #[pyo3(from_py_with = of::huber_loss)] delta: f64,
    #[pyo3(from_py_with = of::huber_loss)] weight: Option<Bound<'_, PyTensor>>,
) -> Outcome<PyTensor> {
    let reduction = self::reduction("huber_loss", &reduction)?;
    let weight = weight.map(|weight| weight.get().tensor());
    let operands = both("huber_loss", input, target)?;
    distance(py, "huber_loss", operands, weight, ResultDtype::Input, |x, target, weight| match weight {
        None => x.huber_loss(target, delta, reduction),
        Some(weight) => x.huber_loss_weighted(target, weight, delta, reduction),
    })
}

/// Computes the Kullback-Leibler divergence of log-probabilities from a target: probabilities, or
/// with `log_target` their logarithms.
///
/// Shapes: two of one shape -> [], or with reduction "none" that shape
///
/// Raises:
///     TypeError: the dtype is not floating.
///     ValueError: an unknown `reduction`.
#[pyfunction]
#[pyo3(
    signature = (input, target, reduction="mean".to_owned(), log_target=false),
    text_signature = "(input, target, reduction=\"mean\", log_target=False)"
)]
fn kl_div(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::kl_div)] reduction: String,
    #[pyo3(from_py_with = of::kl_div)] log_target: bool,
) -> Outcome<PyTensor> {
    let reduction = self::reduction("kl_div", &reduction)?;
    loss(py, both("kl_div", input, target)?, ResultDtype::Together, |x, target| {
        x.kl_div(target, reduction, log_target)
    })
}

/// Returns the fraction of rows whose largest logit is at the target index; float32, without
/// gradient.
///
/// Shapes: logits [batch, classes, ..] and [batch, ..] (int32 or int64) -> []
///
/// Raises:
///     IndexError: a class index out of range.
#[pyfunction]
fn accuracy(py: Python<'_>, input: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
    let (x, target) = (operand("accuracy", "input", input)?, operand("accuracy", "target", target)?);
    run(py, x.elements(), || x.accuracy(&target)).map(PyTensor::new)
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cross_entropy, module)?)?;
    module.add_function(wrap_pyfunction!(linear_cross_entropy, module)?)?;
    module.add_function(wrap_pyfunction!(nll_loss, module)?)?;
    module.add_function(wrap_pyfunction!(binary_cross_entropy_with_logits, module)?)?;
    module.add_function(wrap_pyfunction!(mse_loss, module)?)?;
    module.add_function(wrap_pyfunction!(l1_loss, module)?)?;
    module.add_function(wrap_pyfunction!(huber_loss, module)?)?;
    module.add_function(wrap_pyfunction!(kl_div, module)?)?;
    module.add_function(wrap_pyfunction!(accuracy, module)?)
}
