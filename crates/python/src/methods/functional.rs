//! Functions of layers, without their parameters: the native part of `ternion.nn.functional`.

use super::loss::{cast_half, cast_result};
use crate::arguments::{AxesArgument, extract_tensor};
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::promote::{promote_to_parameters, promote_weight};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{
    Conv1dOptions, Conv2dOptions, ConvTranspose2dOptions, DType, PoolOptions, Result, RunningStatistics,
    Tensor,
};

/// An optional tensor.
type OptionalTensor<'py> = Option<Bound<'py, PyTensor>>;

fn tensor_or_none(tensor: OptionalTensor<'_>) -> Option<Tensor> {
    tensor.map(|tensor| tensor.get().tensor())
}

fn wrap(py: Python<'_>, elements: usize, f: impl FnOnce() -> Result<Tensor> + Send) -> Outcome<PyTensor> {
    run(py, elements, f).map(PyTensor::new)
}

/// One number for both axes of images, or one for each.
pub struct IntPair(pub [usize; 2]);

impl<'a, 'py> FromPyObject<'a, 'py> for IntPair {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(both) = object.extract::<usize>() {
            return Ok(IntPair([both; 2]));
        }
        match object.extract::<Vec<usize>>() {
            Ok(list) => match list[..] {
                [both] => Ok(IntPair([both; 2])),
                [rows, columns] => Ok(IntPair([rows, columns])),
                _ => Err(RaisedError::value_error(format!("expected one number or two, got {}", list.len()))),
            },
            Err(_) => Err(RaisedError::type_error("expected an integer from 0 on, or two of them")),
        }
    }
}

/// A number, or a list of one number.
pub struct IntOrOne(pub usize);

impl<'a, 'py> FromPyObject<'a, 'py> for IntOrOne {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(one) = object.extract::<usize>() {
            return Ok(IntOrOne(one));
        }
        match object.extract::<Vec<usize>>() {
            Ok(list) if list.len() == 1 => Ok(IntOrOne(list[0])),
            _ => Err(RaisedError::type_error("expected an integer from 0 on")),
        }
    }
}

fn pair_or(pair: Option<IntPair>, other: [usize; 2]) -> [usize; 2] {
    pair.map_or(other, |pair| pair.0)
}

/// Computes `input @ weight.T + bias`.
///
/// Shapes: [.., in_features], weight [out_features, in_features], bias [out_features] -> [..,
/// out_features]
///
/// Raises:
///     ValueError: inner sizes that differ.
#[pyfunction]
#[pyo3(signature = (input, weight, bias=None))]
fn linear(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    weight: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::linear)] bias: OptionalTensor<'_>,
) -> Outcome<PyTensor> {
    let (x, weight) =
        (extract_tensor("linear", "input", input)?, extract_tensor("linear", "weight", weight)?);
    let bias = tensor_or_none(bias);
    wrap(py, weight.elements().max(x.elements()), || x.linear(&weight, bias.as_ref()))
}

/// Applies a 1-D convolution to sequences.
///
/// Shapes: [batch, channels, length], weight [out, channels / groups, kernel] -> [batch, out,
/// windows]
///
/// Raises:
///     ValueError: an incompatible number of axes or channels.
#[pyfunction]
#[pyo3(signature = (input, weight, bias=None, stride=None, padding=None, dilation=None, groups=1))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn conv1d(
    py: Python<'_>,
    #[pyo3(from_py_with = of::conv1d)] input: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::conv1d)] weight: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::conv1d)] bias: OptionalTensor<'_>,
    stride: Option<IntOrOne>,
    padding: Option<IntOrOne>,
    dilation: Option<IntOrOne>,
    #[pyo3(from_py_with = of::conv1d)] groups: usize,
) -> Outcome<PyTensor> {
    let (x, weight, bias) = (input.get().tensor(), weight.get().tensor(), tensor_or_none(bias));
    let one_or = |one: Option<IntOrOne>, other| one.map_or(other, |one| one.0);
    let options = Conv1dOptions {
        stride: one_or(stride, 1),
        padding: one_or(padding, 0),
        dilation: one_or(dilation, 1),
        groups,
    };
    wrap(py, x.elements(), || x.conv1d(&weight, bias.as_ref(), options))
}

/// Applies a 2-D convolution to images.
///
/// Shapes: [batch, channels, height, width], weight [out, channels / groups, kernel height, kernel
/// width] -> [batch, out, rows, columns]
///
/// Raises:
///     ValueError: channels that do not match the weight, a window larger than the padded image, or
///         a stride of 0.
#[pyfunction]
#[pyo3(signature = (input, weight, bias=None, stride=None, padding=None, dilation=None, groups=1))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn conv2d(
    py: Python<'_>,
    #[pyo3(from_py_with = of::conv2d)] input: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::conv2d)] weight: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::conv2d)] bias: OptionalTensor<'_>,
    stride: Option<IntPair>,
    padding: Option<IntPair>,
    dilation: Option<IntPair>,
    #[pyo3(from_py_with = of::conv2d)] groups: usize,
) -> Outcome<PyTensor> {
    let (x, weight, bias) = (input.get().tensor(), weight.get().tensor(), tensor_or_none(bias));
    let options = Conv2dOptions {
        stride: pair_or(stride, [1, 1]),
        padding: pair_or(padding, [0, 0]),
        dilation: pair_or(dilation, [1, 1]),
        groups,
    };
    wrap(py, x.elements(), || x.conv2d(&weight, bias.as_ref(), options))
}

/// Applies a 2-D transposed convolution: the gradient of `conv2d`, with the same options, with
/// respect to its input.
///
/// Shapes: [batch, channels, height, width], weight [channels, out / groups, kernel height, kernel
/// width] -> [batch, out, rows, columns]
///
/// Raises:
///     ValueError: channels that do not match the weight.
#[pyfunction]
#[pyo3(signature = (input, weight, bias=None, stride=None, padding=None, output_padding=None, groups=1, dilation=None))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn conv_transpose2d(
    py: Python<'_>,
    #[pyo3(from_py_with = of::conv_transpose2d)] input: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::conv_transpose2d)] weight: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::conv_transpose2d)] bias: OptionalTensor<'_>,
    stride: Option<IntPair>,
    padding: Option<IntPair>,
    output_padding: Option<IntPair>,
    #[pyo3(from_py_with = of::conv_transpose2d)] groups: usize,
    dilation: Option<IntPair>,
) -> Outcome<PyTensor> {
    let (x, weight, bias) = (input.get().tensor(), weight.get().tensor(), tensor_or_none(bias));
    let options = ConvTranspose2dOptions {
        stride: pair_or(stride, [1, 1]),
        padding: pair_or(padding, [0, 0]),
        output_padding: pair_or(output_padding, [0, 0]),
        dilation: pair_or(dilation, [1, 1]),
        groups,
    };
    wrap(py, x.elements(), || x.conv_transpose2d(&weight, bias.as_ref(), options))
}

/// Applies a 2-D max pooling. With `return_indices` also returns the index of each maximum in its
/// plane (int64).
///
/// Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]
///
/// Raises:
///     ValueError: another number of axes, or a window larger than the padded image.
#[pyfunction]
#[pyo3(signature = (input, kernel_size, stride=None, padding=None, dilation=None, ceil_mode=false, return_indices=false))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn max_pool2d<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = of::max_pool2d)] input: Bound<'py, PyTensor>,
    kernel_size: IntPair,
    stride: Option<IntPair>,
    padding: Option<IntPair>,
    dilation: Option<IntPair>,
    #[pyo3(from_py_with = of::max_pool2d)] ceil_mode: bool,
    #[pyo3(from_py_with = of::max_pool2d)] return_indices: bool,
) -> Outcome<Bound<'py, PyAny>> {
    let x = input.get().tensor();
    let options = PoolOptions {
        stride: pair_or(stride, kernel_size.0),
        padding: pair_or(padding, [0, 0]),
        dilation: pair_or(dilation, [1, 1]),
        ceil_mode,
        ..PoolOptions::new(kernel_size.0)
    };
    let object = |tensor| Bound::new(py, PyTensor::new(tensor));
    if !return_indices {
        return Ok(object(run(py, x.elements(), || x.max_pool2d(options))?)?.into_any());
    }
    let (values, indices) = run(py, x.elements(), || {
        let (values, indices) = x.max_pool2d_with_positions(options)?;
        Ok((values, indices.to_dtype(DType::I64)?))
    })?;
    Ok((object(values)?, object(indices)?).into_pyobject(py)?.into_any())
}

/// Applies a 2-D average pooling.
///
/// Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]
///
/// Raises:
///     ValueError: another number of axes, or a window larger than the padded image.
#[pyfunction]
#[pyo3(signature = (input, kernel_size, stride=None, padding=None, ceil_mode=false, count_include_pad=true))]
fn avg_pool2d(
    py: Python<'_>,
    #[pyo3(from_py_with = of::avg_pool2d)] input: Bound<'_, PyTensor>,
    kernel_size: IntPair,
    stride: Option<IntPair>,
    padding: Option<IntPair>,
    #[pyo3(from_py_with = of::avg_pool2d)] ceil_mode: bool,
    #[pyo3(from_py_with = of::avg_pool2d)] count_include_pad: bool,
) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let options = PoolOptions {
        stride: pair_or(stride, kernel_size.0),
        padding: pair_or(padding, [0, 0]),
        ceil_mode,
        count_include_pad,
        ..PoolOptions::new(kernel_size.0)
    };
    wrap(py, x.elements(), || x.avg_pool2d(options))
}

/// Normalizes the last `normalized_shape` axes to mean 0 and variance 1, then applies `* weight +
/// bias`.
///
/// Shapes: [.., *normalized_shape], weight and bias [*normalized_shape] -> the shape of the input
///
/// Raises:
///     ValueError: last axes of other sizes.
///     TypeError: the dtype is not floating.
#[pyfunction]
#[pyo3(signature = (input, normalized_shape, weight=None, bias=None, eps=1e-5))]
fn layer_norm(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::layer_norm)] normalized_shape: crate::arguments::ShapeArgument,
    #[pyo3(from_py_with = of::layer_norm)] weight: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::layer_norm)] bias: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::layer_norm)] eps: f64,
) -> Outcome<PyTensor> {
    let (x, weight, bias) =
        (extract_tensor("layer_norm", "input", input)?, tensor_or_none(weight), tensor_or_none(bias));
    let shape = merge_trailing_axes(&x, &normalized_shape.0, "layer_norm")?;
    wrap(py, x.elements(), || {
        let flat =
            |tensor: &Option<Tensor>| tensor.as_ref().map(|tensor| tensor.reshape([-1_isize])).transpose();
        let (weight, bias) = (flat(&weight)?, flat(&bias)?);
        let x_dtype = x.dtype();
        let x = promote_to_parameters(&x, [&weight, &bias])?;
        let normed = x.reshape(&shape[..])?.layer_norm(weight.as_ref(), bias.as_ref(), eps)?;
        cast_half(x_dtype, normed.reshape(*x.shape())?)
    })
}

/// Divides the last `normalized_shape` axes by their root mean square, then applies `* weight`.
///
/// Shapes: [.., *normalized_shape], weight [*normalized_shape] -> the shape of the input
///
/// Args:
///     eps: added to the mean square; by default the machine epsilon of the dtype in which the sum
///         is computed, float32 for half precision.
///
/// Raises:
///     ValueError: last axes of other sizes.
#[pyfunction]
#[pyo3(signature = (input, normalized_shape, weight=None, eps=None))]
fn rms_norm(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::rms_norm)] normalized_shape: crate::arguments::ShapeArgument,
    #[pyo3(from_py_with = of::rms_norm)] weight: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::rms_norm)] eps: Option<f64>,
) -> Outcome<PyTensor> {
    let (x, weight) = (extract_tensor("rms_norm", "input", input)?, tensor_or_none(weight));
    let eps = eps.unwrap_or_else(|| x.dtype().accumulator().epsilon());
    let shape = merge_trailing_axes(&x, &normalized_shape.0, "rms_norm")?;
    wrap(py, x.elements(), || {
        let promoted = weight.map(|weight| promote_weight(&x, &weight.reshape([-1_isize])?)).transpose()?;
        let (x_dtype, weight) = (x.dtype(), promoted.as_ref().map(|(_, weight)| weight));
        let x = promoted.as_ref().map_or(&x, |(x, _)| x);
        cast_result(x_dtype, x.reshape(&shape[..])?.rms_norm(weight, eps)?.reshape(*x.shape())?)
    })
}

/// Returns the shape with the last axes, which must have these sizes, merged into one.
fn merge_trailing_axes(x: &Tensor, last: &[usize], name: &str) -> Outcome<Vec<usize>> {
    let outer =
        x.rank().checked_sub(last.len()).filter(|&outer| &x.dims()[outer..] == last && !last.is_empty());
    let outer = outer.ok_or_else(|| {
        RaisedError::value_error(format!(
            "{name}: input of shape {:?}, expected its last axes to be {last:?}",
            x.dims()
        ))
    })?;
    Ok(x.dims()[..outer].iter().copied().chain([last.iter().product()]).collect())
}

/// Normalizes groups of channels to mean 0 and variance 1, then applies `* weight + bias` to each
/// channel.
///
/// Shapes: [batch, channels, ..], weight and bias [channels]
///
/// Raises:
///     ValueError: the number of channels is not divisible by the number of groups.
///     TypeError: the dtype is not floating.
#[pyfunction]
#[pyo3(signature = (input, num_groups, weight=None, bias=None, eps=1e-5))]
fn group_norm(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::group_norm)] num_groups: usize,
    #[pyo3(from_py_with = of::group_norm)] weight: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::group_norm)] bias: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::group_norm)] eps: f64,
) -> Outcome<PyTensor> {
    let (x, weight, bias) =
        (extract_tensor("group_norm", "input", input)?, tensor_or_none(weight), tensor_or_none(bias));
    // The number of values per group counts all examples together, as PyTorch does.
    let [batch, channels] = [0, 1].map(|axis| x.dims().get(axis).copied().unwrap_or(1));
    let inner: usize = x.dims().iter().skip(2).product();
    if num_groups > 0 && x.rank() >= 2 && batch * channels / num_groups * inner == 1 {
        return Err(RaisedError::value_error(format!(
            "group_norm: input of shape {:?} in {num_groups} groups, expected more than 1 value for each",
            x.dims()
        )));
    }
    wrap(py, x.elements(), || {
        let normed = promote_to_parameters(&x, [&weight, &bias])?;
        cast_half(x.dtype(), normed.group_norm(num_groups, weight.as_ref(), bias.as_ref(), eps)?)
    })
}

/// Normalizes each channel to mean 0 and variance 1: in training with the statistics of the batch,
/// which also update the running statistics, otherwise with the running statistics.
///
/// Shapes: input [batch, channels, ..], all other tensors [channels]
///
/// Raises:
///     ValueError: training with a single value per channel.
#[pyfunction]
#[pyo3(signature = (input, running_mean=None, running_var=None, weight=None, bias=None, training=false, momentum=0.1, eps=1e-5, _batches=None))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn batch_norm(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::batch_norm)] running_mean: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::batch_norm)] running_var: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::batch_norm)] weight: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::batch_norm)] bias: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::batch_norm)] training: bool,
    #[pyo3(from_py_with = of::batch_norm)] momentum: f64,
    #[pyo3(from_py_with = of::batch_norm)] eps: f64,
    #[pyo3(from_py_with = of::batch_norm)] _batches: OptionalTensor<'_>,
) -> Outcome<PyTensor> {
    let name = "batch_norm";
    let (x, weight, bias) =
        (extract_tensor(name, "input", input)?, tensor_or_none(weight), tensor_or_none(bias));
    let (statistics, batches) =
        (tensor_or_none(running_mean).zip(tensor_or_none(running_var)), tensor_or_none(_batches));
    let running =
        statistics.as_ref().map(|(mean, var)| RunningStatistics::new(name, &x, mean, var)).transpose()?;
    let x_dtype = x.dtype();
    let x = wait(py, || promote_to_parameters(&x, [&weight, &bias]))?;
    if let (Some((mean, var)), false) = (&statistics, training) {
        return wrap(py, x.elements(), || {
            cast_half(x_dtype, x.batch_norm_eval(mean, var, weight.as_ref(), bias.as_ref(), eps)?)
        });
    }
    let count = x.elements() / x.dims().get(1).map_or(1, |&channels| channels.max(1));
    if training && count == 1 {
        let message =
            format!("{name}: training on shape {:?}: a channel of 1 value has no variance", x.dims());
        return Err(RaisedError::value_error(message));
    }
    wrap(py, x.elements(), || {
        let (output, mean, var) = x.batch_norm_train(weight.as_ref(), bias.as_ref(), eps)?;
        // The running statistics are not updated from an empty batch.
        if let (Some(running), true) = (&running, training && count > 0) {
            match &batches {
                // The layer increments its counter only afterward, so that the recomputation of a
                // checkpoint uses the same value as the first run.
                Some(before) => running.follow_evenly([&mean, &var], count, &before.add_scalar(1)?)?,
                None => running.follow([&mean, &var], count, momentum)?,
            }
        }
        cast_half(x_dtype, output)
    })
}

/// Normalizes each channel of each example to mean 0 and variance 1, or with the running
/// statistics, which are updated if they exist and the input's statistics are used.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn _instance_norm(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::instance_norm)] running_mean: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::instance_norm)] running_var: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::instance_norm)] weight: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::instance_norm)] bias: OptionalTensor<'_>,
    #[pyo3(from_py_with = of::instance_norm)] use_input_stats: bool,
    #[pyo3(from_py_with = of::instance_norm)] momentum: f64,
    #[pyo3(from_py_with = of::instance_norm)] eps: f64,
) -> Outcome<PyTensor> {
    let name = "instance_norm";
    let (x, weight, bias) =
        (extract_tensor(name, "input", input)?, tensor_or_none(weight), tensor_or_none(bias));
    let affine = [weight.as_ref(), bias.as_ref()];
    let x_dtype = x.dtype();
    let x = wait(py, || promote_to_parameters(&x, [&weight, &bias]))?;
    let Some((mean, var)) = tensor_or_none(running_mean).zip(tensor_or_none(running_var)) else {
        return wrap(py, x.elements(), || cast_half(x_dtype, x.instance_norm(affine[0], affine[1], eps)?));
    };
    wrap(py, x.elements(), || {
        let normed = if use_input_stats {
            x.instance_norm_tracked(affine, [&mean, &var], momentum, eps)?
        } else {
            RunningStatistics::new(name, &x, &mean, &var)?;
            x.batch_norm_eval(&mean, &var, affine[0], affine[1], eps)?
        };
        cast_half(x_dtype, normed)
    })
}

/// Sets elements to 0 with probability `p`, and divides the others by `1 - p`. Returns the input
/// unchanged if `training` is False.
///
/// Shapes: [..] -> the same
///
/// Raises:
///     ValueError: a probability outside 0 to 1.
///     TypeError: the dtype is not floating.
#[pyfunction]
#[pyo3(signature = (input, p=0.5, training=true))]
fn dropout(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::dropout)] p: f64,
    #[pyo3(from_py_with = of::dropout)] training: bool,
) -> Outcome<PyTensor> {
    let x = extract_tensor("dropout", "input", input)?;
    if training { wrap(py, x.elements(), || x.dropout(p)) } else { Ok(PyTensor::new(x)) }
}

/// Clamps each element to the range from `min_val` to `max_val`; at the bounds the gradient is 0.
///
/// Shapes: [..] -> the same
///
/// Raises:
///     TypeError: a bool input.
#[pyfunction]
fn hardtanh(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::hardtanh)] min_val: f64,
    #[pyo3(from_py_with = of::hardtanh)] max_val: f64,
) -> Outcome<PyTensor> {
    let x = extract_tensor("hardtanh", "input", input)?;
    wrap(py, x.elements(), || x.hardtanh(min_val, max_val))
}

/// Pads with a constant. `pad` has pairs of amounts (before, after) for the last axis, the one
/// before it, and so on.
#[pyfunction]
#[pyo3(
    signature = (input, pad, mode="constant".to_owned(), value=0.0),
    text_signature = "(input, pad, mode=\"constant\", value=0.0)"
)]
fn pad(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::pad)] pad: AxesArgument,
    #[pyo3(from_py_with = of::pad)] mode: String,
    #[pyo3(from_py_with = of::pad)] value: f64,
) -> Outcome<PyTensor> {
    let (x, pad) = (extract_tensor("pad", "input", input)?, pad.0);
    if mode != "constant" {
        return Err(RaisedError::value_error(format!("pad: mode {mode:?}, expected \"constant\"")));
    }
    if !pad.len().is_multiple_of(2) || pad.len() / 2 > x.rank() {
        return Err(RaisedError::value_error(format!("pad: {} amounts for {} axes", pad.len(), x.rank())));
    }
    let mut amounts = vec![[0_usize; 2]; x.rank()];
    let mut cropped = x.clone();
    for (number, sides) in pad.chunks(2).enumerate() {
        let axis = x.rank() - 1 - number;
        // As in PyTorch, a negative amount removes elements.
        let off = |amount: isize| amount.min(0).unsigned_abs();
        let size = x.dims()[axis].checked_sub(off(sides[0]) + off(sides[1])).ok_or_else(|| {
            RaisedError::value_error(format!(
                "pad: {sides:?} cuts more off axis {axis} than its {} elements",
                x.dims()[axis]
            ))
        })?;
        cropped = cropped.narrow(axis, off(sides[0]), size)?;
        amounts[axis] = [sides[0].max(0).unsigned_abs(), sides[1].max(0).unsigned_abs()];
    }
    wrap(py, x.elements(), || cropped.pad(&amounts, value))
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(linear, module)?)?;
    module.add_function(wrap_pyfunction!(conv1d, module)?)?;
    module.add_function(wrap_pyfunction!(conv2d, module)?)?;
    module.add_function(wrap_pyfunction!(conv_transpose2d, module)?)?;
    module.add_function(wrap_pyfunction!(max_pool2d, module)?)?;
    module.add_function(wrap_pyfunction!(avg_pool2d, module)?)?;
    module.add_function(wrap_pyfunction!(layer_norm, module)?)?;
    module.add_function(wrap_pyfunction!(rms_norm, module)?)?;
    module.add_function(wrap_pyfunction!(group_norm, module)?)?;
    module.add_function(wrap_pyfunction!(batch_norm, module)?)?;
    module.add_function(wrap_pyfunction!(_instance_norm, module)?)?;
    module.add_function(wrap_pyfunction!(dropout, module)?)?;
    module.add_function(wrap_pyfunction!(hardtanh, module)?)?;
    module.add_function(wrap_pyfunction!(pad, module)?)
}
