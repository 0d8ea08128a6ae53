//! Losses: the native part of `ternion.nn.functional`.

use crate::arguments::extract_tensor;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::run;
use crate::optim::caller_stacklevel;
use crate::promote::{promote_pair, promote_types, promote_weight, result_type};
use crate::tensor::PyTensor;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use ternion::ops::matmul::LinearParameters;
use ternion::{
    BceOptions, CrossEntropyOptions, DType, LinearCrossEntropyOptions, NllOptions, Reduction, Result, Tensor,
};

/// Returns the reduction from PyTorch's name.
pub fn parse_reduction(op: &str, name: &str) -> Outcome<Reduction> {
    Ok(match name {
        "none" => Reduction::None,
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "batchmean" => Reduction::BatchMean,
        _ => {
            let message =
                format!("{op}: reduction {name:?}, expected \"none\", \"mean\", \"sum\" or \"batchmean\"");
            return Err(RaisedError::value_error(message));
        }
    })
}

/// The dtype of a loss: that of its input, that of its target, or the promoted dtype of both.
#[derive(Clone, Copy, PartialEq)]
pub enum ResultDtype {
    Input,
    Target,
    Promoted,
}

fn extract_operands(
    op: &str,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
) -> Outcome<(Tensor, Tensor)> {
    Ok((extract_tensor(op, "input", input)?, extract_tensor(op, "target", target)?))
}

fn compute_loss(
    py: Python<'_>,
    (x, target): (Tensor, Tensor),
    result_dtype: ResultDtype,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let promoted = result_type(&x, &target).filter(|_| target.dtype().is_float()).unwrap_or(x.dtype());
    let dtype = if result_dtype == ResultDtype::Target { target.dtype() } else { promoted };
    let result = run(py, x.elements(), || {
        // The op itself computes half precision with float32 in float32.
        let is_double = [&x, &target].map(|operand| operand.dtype() == DType::F64);
        let needs_promotion =
            is_double[0] != is_double[1] && x.dtype().is_float() && target.dtype().is_float();
        let (x, target) =
            if needs_promotion { promote_pair(&x, &target)? } else { (x.clone(), target.clone()) };
        cast_result(dtype, f(&x, &target)?)
    });
    result.map(PyTensor::new)
}

/// Same as `cast_half` for any floating dtype.
pub fn cast_result(dtype: DType, loss: Tensor) -> Result<Tensor> {
    let needs_cast = ternion::precision::current().is_none() && dtype.is_float() && loss.dtype() != dtype;
    if needs_cast { loss.to_dtype(dtype) } else { Ok(loss) }
}

/// Casts a loss to half precision if `dtype` is a half-precision dtype, as PyTorch does. In a
/// precision scope the loss keeps the dtype of the computation.
pub fn cast_half(dtype: DType, loss: Tensor) -> Result<Tensor> {
    if ternion::precision::current().is_none() && dtype.is_half() { loss.to_dtype(dtype) } else { Ok(loss) }
}

/// Computes a loss of input and target in their common dtype and broadcast shape.
fn elementwise_loss(
    py: Python<'_>,
    op: &'static str,
    (x, target): (Tensor, Tensor),
    weight: Option<Tensor>,
    result_dtype: ResultDtype,
    f: impl FnOnce(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    warn_shape_mismatch(py, op, &x, &target)?;
    let result = run(py, x.elements(), || {
        let input_dtype = x.dtype();
        let (x, target) = promote_pair(&x, &target)?;
        let dtype = if result_dtype == ResultDtype::Input && input_dtype.is_float() {
            input_dtype
        } else {
            x.dtype()
        };
        let (x, target) = broadcast(op, &x, &target)?;
        let Some(weight) = weight else { return cast_result(dtype, f(&x, &target, None)?) };
        // Losses are multiplied by their weights in the common dtype.
        let weighted = if weight.dtype().is_float() { promote_types(dtype, weight.dtype()) } else { None };
        let (x, weight) = promote_weight(&x, &weight)?;
        let target = target.to_dtype(x.dtype())?;
        cast_result(weighted.unwrap_or(dtype), f(&x, &target, Some(&weight))?)
    });
    result.map(PyTensor::new)
}

/// Warns if input and target differ in shape, as PyTorch does: with `[n, 1]` and `[n]` every
/// prediction would be compared with every target, and the model would not learn.
fn warn_shape_mismatch(py: Python<'_>, op: &str, x: &Tensor, target: &Tensor) -> Outcome<()> {
    if x.shape() == target.shape() {
        return Ok(());
    }
    let shapes = [x, target].map(|tensor| format!("{:?}", tensor.shape()));
    let text = format!(
        "{op}: input has shape {} and target {}: they are broadcast, which is seldom meant; give both one shape",
        shapes[0], shapes[1]
    );
    let text = std::ffi::CString::new(text).unwrap_or_default();
    Ok(PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, caller_stacklevel(py)?)?)
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
/// shape -> []
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
        (weight.map(|weight| weight.get().tensor()), parse_reduction("cross_entropy", &reduction)?);
    let with_hint = |raised: RaisedError| add_class_hint(py, raised, input, target);
    let (mut x, classes) = extract_operands("cross_entropy", input, target)?;
    let weight = match weight {
        // With probabilities, the weights are factors and promote the dtype.
        Some(weight) if classes.dtype().is_float() => {
            let weighted = run(py, x.elements(), || promote_weight(&x, &weight))?;
            x = weighted.0;
            Some(weighted.1)
        }
        other => other,
    };
    compute_loss(py, (x, classes), ResultDtype::Promoted, |x, target| {
        let options =
            CrossEntropyOptions { weight: weight.as_ref(), ignore_index, label_smoothing, reduction };
        x.cross_entropy_with(target, options)
    })
    .map_err(with_hint)
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
    let reduction = parse_reduction(name, &reduction)?;
    let (x, target) = extract_operands(name, input, target)?;
    let linear_weight = extract_tensor(name, "linear_weight", linear_weight)?;
    let [bias, weight] = [linear_bias, weight].map(|tensor| tensor.map(|tensor| tensor.get().tensor()));
    let result = run(py, x.elements().max(linear_weight.elements()), || {
        let loss = CrossEntropyOptions { weight: weight.as_ref(), ignore_index, label_smoothing, reduction };
        let parameters = LinearParameters { weight: &linear_weight, bias: bias.as_ref() };
        let options = LinearCrossEntropyOptions { loss, chunk_rows };
        cast_result(x.dtype(), x.linear_cross_entropy(parameters, &target, options)?)
    });
    result.map(PyTensor::new)
}

/// Adds a hint to the error if floating class indices were interpreted as probabilities.
fn add_class_hint(
    py: Python<'_>,
    raised: RaisedError,
    input: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
) -> RaisedError {
    let (Ok(input), Ok(target)) = (input.cast::<PyTensor>(), target.cast::<PyTensor>()) else {
        return raised;
    };
    let (input, target) = (input.get().tensor(), target.get().tensor());
    if !target.dtype().is_float() || input.rank() < 2 || target.rank() + 1 != input.rank() {
        return raised;
    }
    let error = PyErr::from(raised);
    RaisedError::value_error(format!(
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
        (weight.map(|weight| weight.get().tensor()), parse_reduction("nll_loss", &reduction)?);
    compute_loss(py, extract_operands("nll_loss", input, target)?, ResultDtype::Promoted, |x, target| {
        x.nll_loss_with(target, NllOptions { weight: weight.as_ref(), ignore_index, reduction })
    })
}

/// Computes the binary cross-entropy of logits and probabilities.
///
/// Shapes: two tensors of one shape -> [], or with reduction "none" that shape
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
    let tensor = |tensor: Option<Bound<'_, PyTensor>>| tensor.map(|weight| weight.get().tensor());
    let (weight, pos_weight) = (tensor(weight), tensor(pos_weight));
    let reduction = parse_reduction("binary_cross_entropy_with_logits", &reduction)?;
    let operands = extract_operands("binary_cross_entropy_with_logits", input, target)?;
    compute_loss(py, operands, ResultDtype::Target, |x, target| {
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
    let reduction = parse_reduction("mse_loss", &deprecated_reduction(py, reduction, size_average, reduce)?)?;
    let weight = weight.map(|weight| weight.get().tensor());
    let operands = extract_operands("mse_loss", input, target)?;
    elementwise_loss(
        py,
        "mse_loss",
        operands,
        weight,
        ResultDtype::Promoted,
        |x, target, weight| match weight {
            None => x.mse_loss(target, reduction),
            Some(weight) => x.mse_loss_weighted(target, weight, reduction),
        },
    )
}

/// Returns the reduction that the deprecated arguments mean, with a warning, or `reduction` if they
/// are not given.
fn deprecated_reduction(
    py: Python<'_>,
    reduction: String,
    size_average: Option<bool>,
    reduce: Option<bool>,
) -> Outcome<String> {
    if size_average.is_none() && reduce.is_none() {
        return Ok(reduction);
    }
    let equivalent = match (reduce.unwrap_or(true), size_average.unwrap_or(true)) {
        (false, _) => "none",
        (true, true) => "mean",
        (true, false) => "sum",
    };
    let message = format!("size_average and reduce are deprecated: reduction={equivalent:?} says the same");
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(message).unwrap_or_default(), 1)?;
    Ok(equivalent.to_owned())
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
    let reduction = parse_reduction("l1_loss", &deprecated_reduction(py, reduction, size_average, reduce)?)?;
    let weight = weight.map(|weight| weight.get().tensor());
    let operands = extract_operands("l1_loss", input, target)?;
    elementwise_loss(py, "l1_loss", operands, weight, ResultDtype::Promoted, |x, target, weight| match weight
    {
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
    let reduction = parse_reduction("huber_loss", &reduction)?;
    let weight = weight.map(|weight| weight.get().tensor());
    let operands = extract_operands("huber_loss", input, target)?;
    elementwise_loss(py, "huber_loss", operands, weight, ResultDtype::Input, |x, target, weight| match weight
    {
        None => x.huber_loss(target, delta, reduction),
        Some(weight) => x.huber_loss_weighted(target, weight, delta, reduction),
    })
}

/// Computes the Kullback-Leibler divergence of log-probabilities from a target: probabilities, or
/// with `log_target` their logarithms.
///
/// Shapes: two tensors of one shape -> [], or with reduction "none" that shape
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
    let reduction = parse_reduction("kl_div", &reduction)?;
    compute_loss(py, extract_operands("kl_div", input, target)?, ResultDtype::Promoted, |x, target| {
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
    let (x, target) =
        (extract_tensor("accuracy", "input", input)?, extract_tensor("accuracy", "target", target)?);
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
