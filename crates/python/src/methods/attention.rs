//! Attention, and sums with a fused activation: a native part of `ternion.nn.functional`.

use super::loss::cast_half;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{AttentionOptions, Causal, CumulativeLengths, DType, Result, Shape, Tensor, UnaryOp};

/// Computes the means of `value`, weighted by `softmax(scale * query @ key.T + mask)`.
///
/// Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value [..,
/// kv_heads, keys, value_dim] -> [.., heads, queries, value_dim]; axes before the last two may be
/// omitted
///
/// Args:
///     attn_mask: a bool mask, True where a query attends to a key, or a floating mask that is
///         added to the scores; broadcast.
///     dropout_p: the probability that a weight is set to 0.
///     is_causal: whether each query attends only to keys at or before its position. The first
///         query is aligned with the first key; with a `window` or `lower_right`, the last query
///         with the last key.
///     scale: the factor of the scores; 1 / sqrt(head_dim) by default.
///     enable_gqa: accepted as in PyTorch; several heads of queries may share one head of keys and
///         values without it, too.
///     window: the size of the sliding window: each query attends to keys at positions above
///         position - window and, unless causal, below position + window; the last query is aligned
///         with the last key.
///     lower_right: whether the last query of causal attention is aligned with the last key, as is
///         necessary with a KV cache.
///
/// Raises:
///     ValueError: incompatible shapes, or a probability outside 0 to 1.
#[pyfunction]
#[pyo3(signature = (query, key, value, attn_mask=None, dropout_p=0.0, is_causal=false, scale=None, enable_gqa=false, *, window=None, lower_right=false))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn scaled_dot_product_attention(
    py: Python<'_>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] query: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] key: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] value: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] attn_mask: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] dropout_p: f64,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] is_causal: bool,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] scale: Option<f64>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] enable_gqa: bool,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] window: Option<usize>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention)] lower_right: bool,
) -> Outcome<PyTensor> {
    let _ = enable_gqa;
    let causal = match (is_causal, lower_right || window.is_some()) {
        (false, _) => Causal::Off,
        (true, false) => Causal::UpperLeft,
        (true, true) => Causal::LowerRight,
    };
    let options = AttentionOptions { causal, scale, dropout: dropout_p, window, mask: None };
    let attend = |[query, key, value]: [&Tensor; 3], options: AttentionOptions<'_>| {
        Ok([query.scaled_dot_product_attention(key, value, options)?])
    };
    let [y] = run_attention(py, [query, key, value], attn_mask, options, attend)?;
    Ok(y)
}

/// Computes the means of `value`, weighted by `softmax(scale * query @ key.T + mask)`, and the
/// log-sum-exp of each query's scores before dropout.
///
/// Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value [..,
/// kv_heads, keys, value_dim] -> [.., heads, queries, value_dim] and [.., heads, queries]
///
/// Args:
///     Those of `scaled_dot_product_attention`.
///
/// Raises:
///     ValueError: incompatible shapes, or a probability outside 0 to 1.
#[pyfunction]
#[pyo3(signature = (query, key, value, attn_mask=None, dropout_p=0.0, is_causal=false, scale=None))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn scaled_dot_product_attention_with_lse(
    py: Python<'_>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] query: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] key: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] value: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] attn_mask: Option<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] dropout_p: f64,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] is_causal: bool,
    #[pyo3(from_py_with = of::scaled_dot_product_attention_with_lse)] scale: Option<f64>,
) -> Outcome<(PyTensor, PyTensor)> {
    let causal = if is_causal { Causal::UpperLeft } else { Causal::Off };
    let options = AttentionOptions { causal, scale, dropout: dropout_p, ..AttentionOptions::default() };
    let attend = |[query, key, value]: [&Tensor; 3], options: AttentionOptions<'_>| {
        let result = query.scaled_dot_product_attention_lse(key, value, options);
        result.map_err(|error| error.in_name_of("scaled_dot_product_attention_with_lse"))
    };
    let [y, lse] = run_attention(py, [query, key, value], attn_mask, options, attend)?;
    Ok((y, lse))
}

/// Calls `attend` with the operands reshaped to four axes, and restores the leading axes of the
/// query in its results. The first result is the output.
fn run_attention<const RESULTS: usize>(
    py: Python<'_>,
    operands: [Bound<'_, PyTensor>; 3],
    mask: Option<Bound<'_, PyTensor>>,
    options: AttentionOptions<'static>,
    attend: impl FnOnce([&Tensor; 3], AttentionOptions<'_>) -> Result<[Tensor; RESULTS]> + Send,
) -> Outcome<[PyTensor; RESULTS]> {
    let operands = operands.map(|tensor| tensor.get().tensor());
    let mask = mask.map(|mask| mask.get().tensor());
    let elements = operands[0].elements().max(operands[1].elements());
    let operands = expand_leading_axes(operands)?;
    let input_dtype = operands[0].dtype();
    let mut results = run(py, elements, || {
        let (operands, mask) = promote_to_mask(&operands, mask)?;
        let (operands, mask) = to_four_axes(&operands, mask)?;
        let mut results = attend(operands.each_ref(), AttentionOptions { mask: mask.as_ref(), ..options })?;
        results[0] = cast_half(input_dtype, results[0].clone())?;
        Ok(results)
    })?;
    let leading = &operands[0].dims()[..operands[0].rank().saturating_sub(2)];
    for result in &mut results {
        let dims: Vec<usize> = leading.iter().chain(&result.dims()[2..]).copied().collect();
        *result = result.reshape(&dims[..])?;
    }
    Ok(results.map(PyTensor::new))
}

/// Computes attention within sequences of different lengths that are packed into one tensor, and
/// the log-sum-exp of the scores.
///
/// Shapes: query [rows, heads, head_dim], key [key_rows, kv_heads, head_dim], value [key_rows,
/// kv_heads, value_dim] -> [rows, heads, value_dim] and [heads, rows]
///
/// Args:
///     cu_seq_q: int32: 0, then the end of each sequence of queries.
///     cu_seq_k: the same for keys and values.
///     scale: the factor of the scores; 1 / sqrt(head_dim) by default.
///     is_causal: whether each query attends only to keys at or before its position; the last query
///         of a sequence is aligned with its last key.
///     window: the size of the sliding window: each query attends to keys at positions above
///         position - window and, unless causal, below position + window.
///     dropout_p: the probability that a weight is set to 0.
///
/// Raises:
///     ValueError: incompatible shapes, or a probability outside 0 to 1.
///     TypeError: lengths that are not int32.
#[pyfunction]
#[pyo3(signature = (query, key, value, cu_seq_q, cu_seq_k, scale=None, is_causal=false, window=None, dropout_p=0.0))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn varlen_attn(
    py: Python<'_>,
    #[pyo3(from_py_with = of::varlen_attn)] query: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::varlen_attn)] key: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::varlen_attn)] value: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::varlen_attn)] cu_seq_q: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::varlen_attn)] cu_seq_k: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::varlen_attn)] scale: Option<f64>,
    #[pyo3(from_py_with = of::varlen_attn)] is_causal: bool,
    #[pyo3(from_py_with = of::varlen_attn)] window: Option<usize>,
    #[pyo3(from_py_with = of::varlen_attn)] dropout_p: f64,
) -> Outcome<(PyTensor, PyTensor)> {
    let [query, key, value] = [query, key, value].map(|tensor| tensor.get().tensor());
    let [queries, keys] = [cu_seq_q, cu_seq_k].map(|tensor| tensor.get().tensor());
    let elements = query.elements().max(key.elements());
    let input_dtype = query.dtype();
    let [y, lse] = run(py, elements, || {
        let lengths = CumulativeLengths { queries: &queries, keys: &keys };
        let causal = Causal::lower_right(is_causal);
        let options = AttentionOptions { mask: None, causal, scale, dropout: dropout_p, window };
        let result = query.scaled_dot_product_attention_varlen_lse(&key, &value, lengths, options);
        let [y, lse] = result.map_err(|error| error.in_name_of("varlen_attn"))?;
        Ok([cast_half(input_dtype, y)?, lse])
    })?;
    Ok((PyTensor::new(y), PyTensor::new(lse)))
}

/// If the axes of the operands before the last two differ in number or size, broadcasts those axes,
/// as PyTorch does. The number of heads, the axis before the last two of operands with four or more
/// axes, may differ: several heads of the query share one head of the keys.
fn expand_leading_axes(operands: [Tensor; 3]) -> Result<[Tensor; 3]> {
    let rank = operands[0].rank();
    if operands.iter().any(|operand| operand.rank() < 2) {
        return Ok(operands);
    }
    let batch = |operand: &Tensor| operand.dims()[..rank - if rank > 3 { 3 } else { 2 }].to_vec();
    let is_same = |operand: &Tensor| operand.rank() == rank && batch(operand) == batch(&operands[0]);
    if operands.iter().all(is_same) {
        return Ok(operands);
    }
    let outer = |operand: &Tensor| Shape::new(&operand.dims()[..operand.rank() - 2]);
    let mut common = outer(&operands[0])?;
    for operand in &operands[1..] {
        common = common.broadcast(&outer(operand)?, "scaled_dot_product_attention")?;
    }
    let mut expanded = operands;
    for operand in &mut expanded {
        let inner = &operand.dims()[operand.rank() - 2..];
        *operand = operand.expand([common.dims(), inner].concat())?;
    }
    Ok(expanded)
}

/// Converts the operands and the mask to the dtype of the computation: a float32 mask is accepted
/// with half precision and float64 operands, as in PyTorch.
fn promote_to_mask(operands: &[Tensor; 3], mask: Option<Tensor>) -> Result<([Tensor; 3], Option<Tensor>)> {
    let input_dtype = operands[0].dtype();
    match mask {
        Some(mask) if mask.dtype() == DType::F32 && input_dtype == DType::F64 => {
            Ok((operands.clone(), Some(mask.to_dtype(input_dtype)?)))
        }
        Some(mask) if mask.dtype() == DType::F32 && input_dtype.is_half() => {
            let [query, key, value] = operands.each_ref().map(|operand| operand.to_dtype(DType::F32));
            Ok(([query?, key?, value?], Some(mask)))
        }
        other => Ok((operands.clone(), other)),
    }
}

/// Reshapes the operands and the mask to [batch, heads, length, width].
fn to_four_axes(operands: &[Tensor; 3], mask: Option<Tensor>) -> Result<([Tensor; 3], Option<Tensor>)> {
    let rank = operands[0].rank();
    if rank == 4 || rank < 2 || operands.iter().any(|operand| operand.rank() != rank) {
        return Ok((operands.clone(), mask));
    }
    let outer = operands[0].dims()[..rank - 2].to_vec();
    let mask = match mask {
        // A mask with two axes is broadcast over all leading axes.
        Some(mask) if mask.rank() > 2 => {
            let of_scores = [operands[0].dims()[rank - 2], operands[1].dims()[rank - 2]];
            let mask_dims: Vec<usize> = outer.iter().copied().chain(of_scores).collect();
            Some(reshape_to_4d(&mask.expand(&mask_dims[..])?)?)
        }
        mask => mask,
    };
    let [query, key, value] = operands;
    Ok(([reshape_to_4d(query)?, reshape_to_4d(key)?, reshape_to_4d(value)?], mask))
}

/// Keeps the last three axes and merges those before them.
fn reshape_to_4d(x: &Tensor) -> Result<Tensor> {
    let (outer, inner) = x.dims().split_at(x.rank() - 2);
    let (heads, batch) = match outer.split_last() {
        // An operand of [batch, length, width] has no axis of heads, which means one head.
        Some((&last, [])) => (1, last),
        Some((&last, rest)) => (last, rest.iter().product()),
        None => (1, 1),
    };
    x.reshape([batch, heads, inner[0], inner[1]])
}

/// Computes `max(input + other, 0)`, broadcast, in one pass.
///
/// Shapes: two tensors, broadcast -> the broadcast shape
///
/// Raises:
///     TypeError: dtypes that differ.
#[pyfunction]
fn add_relu(
    py: Python<'_>,
    #[pyo3(from_py_with = of::add_relu)] input: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::add_relu)] other: Bound<'_, PyTensor>,
) -> Outcome<PyTensor> {
    let (a, b) = (input.get().tensor(), other.get().tensor());
    run(py, a.elements().max(b.elements()), || a.add_relu(&b)).map(PyTensor::new)
}

/// The activations of `bias_activation`, by name.
pub(crate) const ACTIVATIONS: [(&str, UnaryOp); 8] = [
    ("relu", UnaryOp::Relu),
    ("gelu", UnaryOp::GeluErf),
    ("gelu_tanh", UnaryOp::GeluTanh),
    ("silu", UnaryOp::Silu),
    ("sigmoid", UnaryOp::Sigmoid),
    ("tanh", UnaryOp::Tanh),
    ("softplus", UnaryOp::Softplus),
    ("leaky_relu", UnaryOp::LeakyRelu { slope: 0.01 }),
];

/// Computes `activation(input + bias)` in one pass.
///
/// Shapes: [.., features] and bias [features] -> [.., features]
///
/// Args:
///     activation: "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus" or
///         "leaky_relu" (negative slope 0.01).
///
/// Raises:
///     ValueError: an unknown activation, or incompatible shapes.
///     TypeError: dtypes that differ.
#[pyfunction]
fn bias_activation(
    py: Python<'_>,
    #[pyo3(from_py_with = of::bias_activation)] input: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::bias_activation)] bias: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::bias_activation)] activation: String,
) -> Outcome<PyTensor> {
    let Some((_, activation)) = ACTIVATIONS.into_iter().find(|(name, _)| *name == activation) else {
        let known = ACTIVATIONS.map(|(name, _)| name).join(", ");
        let message = format!("bias_activation: activation {activation:?}, expected one of {known}");
        return Err(RaisedError::value_error(message));
    };
    let (x, bias) = (input.get().tensor(), bias.get().tensor());
    run(py, x.elements(), || x.bias_activation(&bias, activation)).map(PyTensor::new)
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(scaled_dot_product_attention, module)?)?;
    module.add_function(wrap_pyfunction!(scaled_dot_product_attention_with_lse, module)?)?;
    module.add_function(wrap_pyfunction!(varlen_attn, module)?)?;
    module.add_function(wrap_pyfunction!(add_relu, module)?)?;
    module.add_function(wrap_pyfunction!(bias_activation, module)?)
}
