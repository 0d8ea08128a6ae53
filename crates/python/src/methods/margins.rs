//! Losses, embedding bags and dropout that are composed in the core. The functions of `ternion/nn`
//! call them and define the default values.

use super::TensorArgument;
use super::loss::{ResultDtype, broadcast, cast_half, cast_result, parse_reduction};
use crate::arguments::{Real, checked_int};
use crate::error::{Outcome, RaisedError};
use crate::gil::{interruptible_parts, run, wait};
use crate::promote::{
    common_float_dtype, promote_pair, promote_to_floats, promote_types, promote_weight, to_floating,
};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use std::cell::Cell;
use ternion::{
    BagMode, CtcOptions, DType, EmbeddingBagOptions, EmbeddingBagParts, Error, GaussianNllOptions,
    MultiMarginOptions, PoissonNllOptions, Reduction, Result, Tensor, TripletOptions,
};

/// Computes a loss of input and target in their common dtype and broadcast shape.
fn pair_loss(
    py: Python<'_>,
    op: &'static str,
    (x, target): (TensorArgument<'_, '_>, TensorArgument<'_, '_>),
    result_dtype: ResultDtype,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let (x, target) = (x.get().tensor(), target.get().tensor());
    let result = run(py, x.elements(), || {
        let input_dtype = x.dtype();
        // The op rejects a loss whose dtype would be an integer.
        let target = if result_dtype == ResultDtype::Input && !input_dtype.is_float() {
            target.to_dtype(input_dtype)?
        } else {
            target
        };
        let (x, target) = promote_pair(&x, &target)?;
        let (x, target) = broadcast(op, &x, &target)?;
        cast_result(if result_dtype == ResultDtype::Input { input_dtype } else { x.dtype() }, f(&x, &target)?)
    });
    result.map(PyTensor::new)
}

/// Runs a function of three tensors in their common dtype.
fn three_tensor_loss(
    py: Python<'_>,
    inputs: [TensorArgument<'_, '_>; 3],
    f: impl FnOnce([&Tensor; 3]) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let [x, y, z] = inputs.map(|input| input.get().tensor());
    let result = run(py, x.elements(), || {
        let (x, y) = promote_pair(&x, &y)?;
        let (x, z) = promote_pair(&x, &z)?;
        let (x, y) = promote_pair(&x, &y)?;
        cast_half(x.dtype(), f([&x, &y, &z])?)
    });
    result.map(PyTensor::new)
}

/// Same as `three_tensor_loss`, with the tensors expanded to their broadcast shape.
fn broadcast_loss(
    py: Python<'_>,
    op: &'static str,
    inputs: [TensorArgument<'_, '_>; 3],
    f: impl FnOnce([&Tensor; 3]) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let [a, b, c] = inputs.map(|input| input.get().tensor());
    let floats = [(&a, &b), (&a, &c), (&b, &c)].map(|(x, y)| common_float_dtype(x, y));
    three_tensor_loss(py, inputs, |[x, y, z]| {
        // Integers are compared as floats, because the margin is a float.
        let is_integer = !x.dtype().is_float() && floats.iter().all(Option::is_some);
        let as_floats = |x: &Tensor| if is_integer { to_floating(x) } else { Ok(x.clone()) };
        let (x, y, z) = (as_floats(x)?, as_floats(y)?, as_floats(z)?);
        let shape = x.shape().broadcast(y.shape(), op)?.broadcast(z.shape(), op)?;
        f([&x.expand(shape)?, &y.expand(shape)?, &z.expand(shape)?])
    })
}

/// Computes a loss of an input and a target that keeps its own dtype.
fn class_loss(
    py: Python<'_>,
    (x, target): (TensorArgument<'_, '_>, TensorArgument<'_, '_>),
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let (x, target) = (x.get().tensor(), target.get().tensor());
    wait(py, || cast_half(x.dtype(), f(&x, &target)?)).map(PyTensor::new)
}

fn tensor_or_none(tensor: Option<TensorArgument<'_, '_>>) -> Option<Tensor> {
    tensor.map(|tensor| tensor.get().tensor())
}

#[pyfunction]
fn _soft_margin_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    reduce: &str,
) -> Outcome<PyTensor> {
    let reduction = parse_basic_reduction("soft_margin_loss", reduce)?;
    pair_loss(py, "soft_margin_loss", (input, target), ResultDtype::Input, |x, target| {
        x.soft_margin_loss(target, reduction)
    })
}

#[pyfunction]
fn _smooth_l1_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    reduce: &str,
    beta: Real,
) -> Outcome<PyTensor> {
    let reduction = parse_basic_reduction("smooth_l1_loss", reduce)?;
    pair_loss(py, "smooth_l1_loss", (input, target), ResultDtype::Promoted, |x, target| {
        x.smooth_l1_loss(target, beta.0, reduction)
    })
}

#[pyfunction]
fn _hinge_embedding_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    margin: Real,
    reduce: &str,
) -> Outcome<PyTensor> {
    let reduction = parse_basic_reduction("hinge_embedding_loss", reduce)?;
    pair_loss(py, "hinge_embedding_loss", (input, target), ResultDtype::Input, |x, target| {
        x.hinge_embedding_loss(target, margin.0, reduction)
    })
}

#[pyfunction]
fn _margin_ranking_loss(
    py: Python<'_>,
    inputs: [Bound<'_, PyTensor>; 3],
    margin: Real,
    reduce: &str,
) -> Outcome<PyTensor> {
    let (name, [x, y, target]) = ("margin_ranking_loss", &inputs);
    let reduction = parse_basic_reduction(name, reduce)?;
    broadcast_loss(py, name, [x, y, target], |[x, y, target]| {
        x.margin_ranking_loss(y, target, margin.0, reduction)
    })
}

#[pyfunction]
fn _cosine_embedding_loss(
    py: Python<'_>,
    inputs: [Bound<'_, PyTensor>; 3],
    margin: Real,
    reduce: &str,
) -> Outcome<PyTensor> {
    let (name, [x, y, target]) = ("cosine_embedding_loss", &inputs);
    let reduction = parse_basic_reduction(name, reduce)?;
    let [x, y, target] = [x, y, target].map(|input| input.get().tensor());
    run(py, x.elements(), || {
        let (x, y) = promote_pair(&to_floating(&x)?, &to_floating(&y)?)?;
        let (x, y) = broadcast(name, &x, &y)?;
        cast_result(x.dtype(), x.cosine_embedding_loss(&y, &target, margin.0, reduction)?)
    })
    .map(PyTensor::new)
}

#[pyfunction]
fn _triplet_margin_loss(
    py: Python<'_>,
    inputs: [Bound<'_, PyTensor>; 3],
    settings: (Real, Real, Real),
    swap: bool,
    reduce: &str,
) -> Outcome<PyTensor> {
    let (Real(margin), Real(p), Real(eps)) = settings;
    let reduction = parse_basic_reduction("triplet_margin_loss", reduce)?;
    let [anchor, positive, negative] = &inputs;
    let options = TripletOptions { margin, p, eps, swap, reduction };
    let [a, p, n] = inputs.each_ref().map(|input| input.get().tensor());
    let dtype = distance_dtype(&[(&a, &p), (&a, &n), (&p, &n)][..if swap { 3 } else { 2 }]);
    let Some(dtype) = dtype else {
        return three_tensor_loss(py, [anchor, positive, negative], |[anchor, positive, negative]| {
            anchor.triplet_margin_loss(positive, negative, options)
        });
    };
    run(py, a.elements(), || {
        let [a, p, n] = [a.to_dtype(dtype)?, p.to_dtype(dtype)?, n.to_dtype(dtype)?];
        cast_half(dtype, a.triplet_margin_loss(&p, &n, options)?)
    })
    .map(PyTensor::new)
}

/// Returns the common dtype of the distances of these pairs; `None` if a pair has none.
fn distance_dtype(pairs: &[(&Tensor, &Tensor)]) -> Option<DType> {
    let mut dtypes = pairs.iter().map(|(x, y)| common_float_dtype(x, y));
    let first = dtypes.next()??;
    dtypes.try_fold(first, |dtype, next| promote_types(dtype, next?))
}

/// Passes the tensors to `distance` as the original objects. An exception of `distance` is raised
/// unchanged.
#[pyfunction]
fn _triplet_margin_with_distance_loss(
    inputs: [Bound<'_, PyTensor>; 3],
    distance: &Bound<'_, PyAny>,
    settings: (Real, bool),
    reduce: &str,
) -> Outcome<PyTensor> {
    let name = "triplet_margin_with_distance_loss";
    let (Real(margin), swap) = settings;
    let options = TripletOptions {
        margin,
        swap,
        reduction: parse_basic_reduction(name, reduce)?,
        ..TripletOptions::default()
    };
    let [anchor, positive, negative] = inputs.each_ref().map(|input| input.get().tensor());
    let raised = Cell::new(None);
    let object_of = |x: &Tensor| {
        let of = [&anchor, &positive, &negative].into_iter().position(|input| std::ptr::eq(input, x));
        &inputs[of.unwrap_or(0)]
    };
    let call_distance = |a: &Tensor, b: &Tensor| {
        let result =
            distance.call1((object_of(a), object_of(b))).map_err(RaisedError::from).and_then(|result| {
                let kind = result.get_type().name()?.to_string();
                let expected =
                    || RaisedError::type_error(format!("{name}: a distance of {kind}, expected a tensor"));
                Ok(result.cast_into::<PyTensor>().map_err(|_| expected())?.get().tensor())
            });
        result.map_err(|error| {
            raised.set(Some(error));
            Error::invalid(name, "the distance failed")
        })
    };
    let result = anchor.triplet_margin_with_distance_loss(&positive, &negative, call_distance, options);
    raised.take().map_or_else(|| Ok(PyTensor::new(result?)), Err)
}

#[pyfunction]
fn _poisson_nll_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    settings: (bool, bool, Real),
    reduce: &str,
) -> Outcome<PyTensor> {
    let (name, (log_input, full, Real(eps))) = ("poisson_nll_loss", settings);
    let options = PoissonNllOptions { log_input, full, eps, reduction: parse_basic_reduction(name, reduce)? };
    let (x, target) = (input.get().tensor(), target.get().tensor());
    run(py, x.elements(), || {
        let (x, target) = promote_pair(&to_floating(&x)?, &target)?;
        let (x, target) = broadcast(name, &x, &target)?;
        cast_half(x.dtype(), x.poisson_nll_loss(&target, options)?)
    })
    .map(PyTensor::new)
}

#[pyfunction]
fn _gaussian_nll_loss(
    py: Python<'_>,
    inputs: [Bound<'_, PyTensor>; 3],
    settings: (bool, Real),
    reduce: &str,
) -> Outcome<PyTensor> {
    let (full, Real(eps)) = settings;
    let (name, [x, target, variance]) = ("gaussian_nll_loss", &inputs);
    let options = GaussianNllOptions { full, eps, reduction: parse_basic_reduction(name, reduce)? };
    three_tensor_loss(py, [x, target, variance], |[x, target, variance]| {
        let (x, target) = broadcast(name, x, target)?;
        x.gaussian_nll_loss(&target, variance, options)
    })
}

#[pyfunction]
fn _binary_cross_entropy(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    weight: Option<TensorArgument<'_, '_>>,
    reduce: &str,
) -> Outcome<PyTensor> {
    let (reduction, weight) =
        (parse_basic_reduction("binary_cross_entropy", reduce)?, tensor_or_none(weight));
    pair_loss(py, "binary_cross_entropy", (input, target), ResultDtype::Promoted, |x, target| {
        // Weights are converted to the dtype of the input.
        let weight = weight.as_ref().map(|weight| weight.to_dtype(x.dtype())).transpose()?;
        x.binary_cross_entropy(target, weight.as_ref(), reduction)
    })
}

#[pyfunction]
fn _multilabel_soft_margin_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    weight: Option<TensorArgument<'_, '_>>,
    reduce: &str,
) -> Outcome<PyTensor> {
    let (reduction, weight) =
        (parse_basic_reduction("multilabel_soft_margin_loss", reduce)?, tensor_or_none(weight));
    let (x, target) = (input.get().tensor(), target.get().tensor());
    wait(py, || {
        // Labels are often integers as well as floats.
        let target = if target.dtype().is_int() { target.to_dtype(x.dtype())? } else { target };
        let (mut x, mut target) = promote_pair(&x, &target)?;
        let weight = match weight {
            Some(weight) => {
                let weighted = promote_weight(&x, &weight)?;
                (x, target) = (weighted.0, target.to_dtype(weighted.1.dtype())?);
                Some(weighted.1)
            }
            None => None,
        };
        cast_half(x.dtype(), x.multilabel_soft_margin_loss(&target, weight.as_ref(), reduction)?)
    })
    .map(PyTensor::new)
}

#[pyfunction]
fn _multi_margin_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    settings: (i64, Real),
    weight: Option<TensorArgument<'_, '_>>,
    reduce: &str,
) -> Outcome<PyTensor> {
    let (p, Real(margin)) = settings;
    let p = checked_int(p, || format!("multi_margin_loss: p of {p}, expected 1 or 2"))?;
    let (reduction, weight) = (parse_basic_reduction("multi_margin_loss", reduce)?, tensor_or_none(weight));
    class_loss(py, (input, target), |x, target| {
        x.multi_margin_loss(target, MultiMarginOptions { p, margin, weight: weight.as_ref(), reduction })
    })
}

#[pyfunction]
fn _multilabel_margin_loss(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    target: TensorArgument<'_, '_>,
    reduce: &str,
) -> Outcome<PyTensor> {
    let reduction = parse_basic_reduction("multilabel_margin_loss", reduce)?;
    class_loss(py, (input, target), |x, target| x.multilabel_margin_loss(target, reduction))
}

#[pyfunction]
fn _ctc_loss(
    py: Python<'_>,
    log_probs: TensorArgument<'_, '_>,
    targets: TensorArgument<'_, '_>,
    lengths: [Vec<usize>; 2],
    settings: (i64, bool),
    reduce: &str,
) -> Outcome<PyTensor> {
    let (blank, zero_infinity) = settings;
    let blank = checked_int(blank, || format!("ctc_loss: blank {blank}, expected a class"))?;
    let options = CtcOptions { blank, reduction: parse_basic_reduction("ctc_loss", reduce)?, zero_infinity };
    let [inputs, of_targets] = lengths;
    class_loss(py, (log_probs, targets), |x, targets| x.ctc_loss(targets, &inputs, &of_targets, options))
}

/// Returns the reduction from PyTorch's name; "batchmean" is rejected.
fn parse_basic_reduction(op: &str, reduce: &str) -> Outcome<Reduction> {
    match reduce {
        "none" | "mean" | "sum" => parse_reduction(op, reduce),
        _ => Err(RaisedError::value_error(format!(
            "{op}: reduction {reduce:?}, expected \"none\", \"mean\" or \"sum\""
        ))),
    }
}

#[pyfunction]
fn _embedding_bag(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    weight: TensorArgument<'_, '_>,
    offsets: Option<TensorArgument<'_, '_>>,
    mode: &str,
    per_sample_weights: Option<TensorArgument<'_, '_>>,
    settings: (bool, Option<usize>),
) -> Outcome<PyTensor> {
    embedding_bag_with(
        py,
        [input, weight],
        [offsets, per_sample_weights],
        mode,
        settings,
        |table, indices, options| table.embedding_bag(indices, options),
    )
    .map(PyTensor::new)
}

#[pyfunction]
fn _embedding_bag_parts(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    weight: TensorArgument<'_, '_>,
    offsets: Option<TensorArgument<'_, '_>>,
    mode: &str,
    per_sample_weights: Option<TensorArgument<'_, '_>>,
    settings: (bool, Option<usize>),
) -> Outcome<[PyTensor; 4]> {
    let result = embedding_bag_with(
        py,
        [input, weight],
        [offsets, per_sample_weights],
        mode,
        settings,
        |table, indices, options| table.embedding_bag_parts(indices, options),
    )?;
    let EmbeddingBagParts { values, bag_of, sizes, rows } = result;
    Ok([values, bag_of, sizes, rows].map(PyTensor::new))
}

/// Runs a function of a table and of the indices of bags in it.
fn embedding_bag_with<T: Send>(
    py: Python<'_>,
    [input, weight]: [TensorArgument<'_, '_>; 2],
    [offsets, per_sample_weights]: [Option<TensorArgument<'_, '_>>; 2],
    mode: &str,
    (include_last_offset, padding_idx): (bool, Option<usize>),
    f: impl FnOnce(&Tensor, &Tensor, EmbeddingBagOptions<'_>) -> Result<T> + Send,
) -> Outcome<T> {
    let mode = match mode {
        "sum" => BagMode::Sum,
        "mean" => BagMode::Mean,
        "max" => BagMode::Max,
        _ => {
            let dtypes = format!("embedding_bag: mode {mode:?}, expected \"sum\", \"mean\" or \"max\"");
            return Err(RaisedError::value_error(dtypes));
        }
    };
    let (indices, table) = (input.get().tensor(), weight.get().tensor());
    let (offsets, weights) = (tensor_or_none(offsets), tensor_or_none(per_sample_weights));
    let options = EmbeddingBagOptions {
        offsets: offsets.as_ref(),
        include_last_offset,
        mode,
        per_sample_weights: weights.as_ref(),
        padding_idx,
    };
    wait(py, || f(&table, &indices, options))
}

#[pyfunction]
fn _alpha_dropout(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    p: Real,
    of_features: bool,
) -> Outcome<PyTensor> {
    input.get().map(py, |x| if of_features { x.feature_alpha_dropout(p.0) } else { x.alpha_dropout(p.0) })
}

#[pyfunction]
fn _cosine_similarity(
    py: Python<'_>,
    x1: TensorArgument<'_, '_>,
    x2: TensorArgument<'_, '_>,
    dim: isize,
    eps: Real,
) -> Outcome<PyTensor> {
    let (x, other) = (x1.get().tensor(), x2.get().tensor());
    run(py, x.elements(), || {
        let (x, other) = promote_pair(&x, &other)?;
        x.cosine_similarity(&other, dim, eps.0)
    })
    .map(PyTensor::new)
}

#[pyfunction]
fn _pairwise_distance(
    py: Python<'_>,
    x1: TensorArgument<'_, '_>,
    x2: TensorArgument<'_, '_>,
    settings: (Real, Real, bool),
) -> Outcome<PyTensor> {
    let (Real(p), Real(eps), keepdim) = settings;
    let (x, other) = (x1.get().tensor(), x2.get().tensor());
    run(py, x.elements(), || {
        let (x, other) = promote_to_floats(&x, &other)?;
        x.pairwise_distance(&other, p, eps, keepdim)
    })
    .map(PyTensor::new)
}

#[pyfunction]
fn _pdist(py: Python<'_>, input: TensorArgument<'_, '_>, p: Real) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    wait(py, || interruptible_parts(|| x.pdist(p.0))).map(PyTensor::new)
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_soft_margin_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_smooth_l1_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_hinge_embedding_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_margin_ranking_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_cosine_embedding_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_triplet_margin_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_triplet_margin_with_distance_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_poisson_nll_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_gaussian_nll_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_binary_cross_entropy, module)?)?;
    module.add_function(wrap_pyfunction!(_multilabel_soft_margin_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_multi_margin_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_multilabel_margin_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_ctc_loss, module)?)?;
    module.add_function(wrap_pyfunction!(_embedding_bag, module)?)?;
    module.add_function(wrap_pyfunction!(_embedding_bag_parts, module)?)?;
    module.add_function(wrap_pyfunction!(_alpha_dropout, module)?)?;
    module.add_function(wrap_pyfunction!(_cosine_similarity, module)?)?;
    module.add_function(wrap_pyfunction!(_pairwise_distance, module)?)?;
    module.add_function(wrap_pyfunction!(_pdist, module)?)
}
