//! Reductions and scans along axes.

use super::argminmax::{arg_min_or_max, check_index_range, min_or_max};
use crate::arguments::{AxesArgument, Count, axes, dim_or_axis, required_dim};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::{ExtractArgument, of};
use crate::gil::run;
use crate::promote::to_floating;
use crate::tensor::{PyTensor, is_scalar_axis};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ternion::{Axes, DType, Error, Result, Tensor};

/// Returns values and indices as PyTorch's named tuples.
fn values_and_indices<'py>(
    py: Python<'py>,
    name: &str,
    pair: (Tensor, Tensor),
) -> Outcome<Bound<'py, PyAny>> {
    let objects = [Bound::new(py, PyTensor::new(pair.0))?, Bound::new(py, PyTensor::new(pair.1))?];
    let kind = py.import("ternion._results")?.getattr(name)?;
    Ok(kind.call1(PyTuple::new(py, objects)?)?)
}

/// Computes two tensors from `x` along an axis, as `PyTensor::map_along` computes one.
pub(super) fn apply_along(
    x: &Tensor,
    dim: isize,
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<(Tensor, Tensor)> {
    if !is_scalar_axis(x, &dim.into()) {
        return f(x);
    }
    let (values, indices) = f(&x.reshape([1_usize])?)?;
    if values.elements() != 1 {
        return Ok((values, indices));
    }
    Ok((values.reshape(())?, indices.reshape(())?))
}

/// Converts the tensor to the requested dtype.
fn cast(x: &Tensor, dtype: &Option<DTypeArgument>) -> Result<Tensor> {
    dtype.as_ref().map_or_else(|| Ok(x.clone()), |dtype| x.to_dtype(dtype.0))
}

/// Sums all elements of a large tensor of narrow integers in chunks. Each chunk is converted to
/// int64 first; the conversion of the whole tensor would take up to eight times its memory.
fn chunked_sum(name: &str, x: &Tensor, axes: &Axes) -> Result<Option<Tensor>> {
    const CHUNK: usize = 1 << 25;
    let (count, dtype) = (x.elements(), x.dtype());
    let is_narrow = !dtype.is_float() && dtype != DType::I64;
    if name != "sum" || !matches!(axes, Axes::All) || !is_narrow || count <= CHUNK || !x.is_contiguous() {
        return Ok(None);
    }
    let row = x.reshape([count])?;
    let chunk = |start: usize| row.narrow(0, start, CHUNK.min(count - start))?.sum(..);
    let first = chunk(0)?;
    (CHUNK..count).step_by(CHUNK).try_fold(first, |total, start| total.add(&chunk(start)?)).map(Some)
}

macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident => $method:ident $keep:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
                /// `keepdim`
                ///
                /// Args:
                ///     dim: the axis or axes to reduce; all by default.
                ///     keepdim: whether to keep reduced axes with size 1.
                ///     dtype: the dtype to which the elements are converted first.
                ///     axis, keepdims: alternative names of dim and keepdim.
                ///
                /// Raises:
                ///     IndexError: an axis that does not exist.
                #[pyo3(signature = (dim=None, keepdim=false, *, dtype=None, axis=None, keepdims=false))]
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] dim: Option<AxesArgument>,
                    #[pyo3(from_py_with = of::$name)] keepdim: bool,
                    dtype: Option<DTypeArgument>,
                    #[pyo3(from_py_with = of::$name)] axis: Option<AxesArgument>,
                    #[pyo3(from_py_with = of::$name)] keepdims: bool,
                ) -> Outcome<PyTensor> {
                    let axes = axes(dim_or_axis(stringify!($name), dim, axis)?);
                    self.map_along(py, axes.clone(), |x| {
                        let x = cast(x, &dtype)?;
                        if let Some(total) = chunked_sum(stringify!($name), &x, &axes)? {
                            return cast(&total.reshape(&vec![1; if keepdim || keepdims { x.rank() } else { 0 }][..])?, &dtype);
                        }
                        let result = if keepdim || keepdims { x.$keep(axes) } else { x.$method(axes) };
                        cast(&result?, &dtype)
                    })
                }
            )*
        }
    };
}

sums! {
    /// Computes the sum over axes. The sum of integers is int64.
    sum => sum sum_keep;
    /// Computes the product over axes. The product of integers is int64.
    prod => prod prod_keep;
    /// Computes the mean over axes. Raises a TypeError if the dtype is not floating.
    mean => mean mean_keep;
}

/// Rejects bool tensors without elements for amax and amin. They are computed by `any` and `all`,
/// which return a value also for no elements.
pub(super) fn check_has_extremes(name: &'static str, x: &Tensor, axes: &Axes) -> Result<()> {
    if x.dtype() != DType::Bool || x.elements() > 0 || !matches!(name, "amax" | "amin") {
        return Ok(());
    }
    let reduced: Vec<usize> = match axes {
        Axes::All => x.dims().to_vec(),
        Axes::List(list) => {
            let size = |&axis: &isize| Ok(x.dims()[ternion::Axis(axis).resolve(x.shape(), name)?]);
            list.iter().map(size).collect::<Result<_>>()?
        }
    };
    match reduced.contains(&0) {
        true => Err(Error::invalid(name, format!("of shape {:?}, expected elements", x.dims()))),
        false => Ok(()),
    }
}

/// Returns whether the axes are an empty list. Only `any` and `all` of PyTorch reduce no axis in
/// that case.
fn is_empty_axis_list(name: &str, named: Option<&AxesArgument>) -> bool {
    matches!(name, "any" | "all") && named.is_some_and(|AxesArgument(list)| list.is_empty())
}

/// Converts the result of `any` or `all` to uint8 if the input is uint8, as in PyTorch.
fn to_bool_or_uint8(x: &Tensor, result: Tensor) -> Result<Tensor> {
    if result.dtype() == DType::Bool && x.dtype() == DType::U8 {
        result.to_dtype(DType::U8)
    } else {
        Ok(result)
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident => $method:ident $keep:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
                /// `keepdim`
                ///
                /// Args:
                ///     dim: the axis or axes to reduce; all by default.
                ///     keepdim: whether to keep reduced axes with size 1.
                ///     axis, keepdims: alternative names of dim and keepdim.
                ///
                /// Raises:
                ///     IndexError: an axis that does not exist.
                #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] dim: Option<AxesArgument>,
                    #[pyo3(from_py_with = of::$name)] keepdim: bool,
                    #[pyo3(from_py_with = of::$name)] axis: Option<AxesArgument>,
                    #[pyo3(from_py_with = of::$name)] keepdims: bool,
                ) -> Outcome<PyTensor> {
                    let named = dim_or_axis(stringify!($name), dim, axis)?;
                    if is_empty_axis_list(stringify!($name), named.as_ref()) {
                        return self.map(py, |x| to_bool_or_uint8(x, x.ne_scalar(0)?));
                    }
                    let axes = axes(named);
                    self.map_along(py, axes.clone(), |x| {
                        check_has_extremes(stringify!($name), x, &axes)?;
                        let result = if keepdim || keepdims { x.$keep(axes) } else { x.$method(axes) };
                        to_bool_or_uint8(x, result.with_op(stringify!($name))?)
                    })
                }
            )*
        }
    };
}

reductions! {
    /// Tests whether any element over axes is not 0; with `dim=()` tests each element, as in
    /// PyTorch.
    any => any any_keep;
    /// Tests whether all elements over axes are not 0; with `dim=()` tests each element, as in
    /// PyTorch.
    all => all all_keep;
    /// Computes the maximum over axes. Equal elements share the gradient.
    amax => max max_keep;
    /// Computes the minimum over axes. Equal elements share the gradient.
    amin => min min_keep;
}

impl PyTensor {
    fn min_or_max_method<'py>(
        &self,
        py: Python<'py>,
        dim: Option<&Bound<'py, PyAny>>,
        keepdim: bool,
        is_largest: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let x = self.tensor();
        let (elements, name) = (x.elements(), if is_largest { "max" } else { "min" });
        match dim {
            None => {
                if elements == 0 {
                    return Err(RaisedError::value_error(format!(
                        "{name}: of shape {:?}, expected elements",
                        x.dims()
                    )));
                }
                let result = run(py, elements, || if is_largest { x.max_all() } else { x.min_all() })?;
                Ok(PyTensor::new(result).into_bound_py_any(py)?)
            }
            Some(other) if other.cast::<PyTensor>().is_ok() => {
                let other = other.cast::<PyTensor>().map_err(PyErr::from)?.get().tensor();
                let elementwise = run(py, elements, || {
                    let (x, other) = crate::promote::promote_pair(&x, &other)?;
                    if is_largest { x.maximum(&other) } else { x.minimum(&other) }.with_op(name)
                })?;
                Ok(PyTensor::new(elementwise).into_bound_py_any(py)?)
            }
            Some(dim) => {
                let dim = isize::of(name, dim)?;
                let pair = run(py, elements, || {
                    apply_along(&x, dim, |x| min_or_max(x, dim, keepdim, is_largest)).with_op(name)
                })?;
                values_and_indices(py, name, pair)
            }
        }
    }
}

#[pymethods]
impl PyTensor {
    /// Computes `log(sum(e^x))` over axes without overflow. Integers become float32 first.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`
    ///
    /// Args:
    ///     dim: the axis or axes to reduce; all by default.
    ///     keepdim: whether to keep reduced axes with size 1.
    ///     axis, keepdims: alternative names of dim and keepdim.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn logsumexp(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::logsumexp)] dim: Option<AxesArgument>,
        #[pyo3(from_py_with = of::logsumexp)] keepdim: bool,
        #[pyo3(from_py_with = of::logsumexp)] axis: Option<AxesArgument>,
        #[pyo3(from_py_with = of::logsumexp)] keepdims: bool,
    ) -> Outcome<PyTensor> {
        let axes = axes(dim_or_axis("logsumexp", dim, axis)?);
        self.map_along(py, axes.clone(), |x| {
            let x = to_floating(x)?;
            if keepdim || keepdims { x.logsumexp_keep(axes) } else { x.logsumexp(axes) }
        })
    }

    /// Returns the maximum of all elements, or along `dim` a named tuple of the maximum values and
    /// their indices, or with a tensor the elementwise maximum.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> two of [..], or of [.., 1, ..] with
    /// `keepdim`
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: no elements, or shapes of two tensors that do not broadcast.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false, other=None))]
    fn max<'py>(
        &self,
        py: Python<'py>,
        dim: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::max)] keepdim: bool,
        axis: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::max)] keepdims: bool,
        #[pyo3(from_py_with = of::max)] other: Option<Bound<'py, PyTensor>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let dim =
            dim_or_axis("max", dim_or_axis("max", dim, axis)?, other.as_ref().map(|other| other.as_any()))?;
        self.min_or_max_method(py, dim, keepdim || keepdims, true)
    }

    /// Returns the minimum of all elements, or along `dim` a named tuple of the minimum values and
    /// their indices, or with a tensor the elementwise minimum.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> two of [..], or of [.., 1, ..] with
    /// `keepdim`
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: no elements, or shapes of two tensors that do not broadcast.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false, other=None))]
    fn min<'py>(
        &self,
        py: Python<'py>,
        dim: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::min)] keepdim: bool,
        axis: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::min)] keepdims: bool,
        #[pyo3(from_py_with = of::min)] other: Option<Bound<'py, PyTensor>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let dim =
            dim_or_axis("min", dim_or_axis("min", dim, axis)?, other.as_ref().map(|other| other.as_any()))?;
        self.min_or_max_method(py, dim, keepdim || keepdims, false)
    }

    /// Returns the index of the first maximum, among all elements in row-major order or along
    /// `dim`; int64.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: no elements.
    ///     TypeError: a bool input.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn argmax(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::argmax)] dim: Option<isize>,
        #[pyo3(from_py_with = of::argmax)] keepdim: bool,
        #[pyo3(from_py_with = of::argmax)] axis: Option<isize>,
        #[pyo3(from_py_with = of::argmax)] keepdims: bool,
    ) -> Outcome<PyTensor> {
        let dim = dim_or_axis("argmax", dim, axis)?;
        self.map_along(py, dim.map_or(Axes::All, Axes::from), |x| {
            arg_min_or_max(x, dim, keepdim || keepdims, true)
        })
    }

    /// Returns the index of the first minimum, among all elements in row-major order or along
    /// `dim`; int64.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: no elements.
    ///     TypeError: a bool input.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn argmin(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::argmin)] dim: Option<isize>,
        #[pyo3(from_py_with = of::argmin)] keepdim: bool,
        #[pyo3(from_py_with = of::argmin)] axis: Option<isize>,
        #[pyo3(from_py_with = of::argmin)] keepdims: bool,
    ) -> Outcome<PyTensor> {
        let dim = dim_or_axis("argmin", dim, axis)?;
        self.map_along(py, dim.map_or(Axes::All, Axes::from), |x| {
            arg_min_or_max(x, dim, keepdim || keepdims, false)
        })
    }

    /// Computes the cumulative sum along `dim`.
    ///
    /// Shapes: [.., n, ..] -> the same
    ///
    /// Args:
    ///     dtype: the dtype to which the elements are converted first.
    ///     axis: an alternative name of dim.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     TypeError: no `dim`.
    #[pyo3(signature = (dim=None, *, dtype=None, axis=None))]
    fn cumsum(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::cumsum)] dim: Option<isize>,
        dtype: Option<DTypeArgument>,
        #[pyo3(from_py_with = of::cumsum)] axis: Option<isize>,
    ) -> Outcome<PyTensor> {
        let dim = required_dim("cumsum", dim, axis)?;
        self.map_along(py, dim, |x| cast(&cast(x, &dtype)?.cumsum(dim)?, &dtype))
    }

    /// Computes `e^x / sum(e^x)` along `dim`.
    ///
    /// Shapes: [.., n, ..] -> the same
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     TypeError: no `dim`.
    #[pyo3(signature = (dim=None, dtype=None, *, axis=None))]
    fn softmax(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::softmax)] dim: Option<isize>,
        dtype: Option<DTypeArgument>,
        #[pyo3(from_py_with = of::softmax)] axis: Option<isize>,
    ) -> Outcome<PyTensor> {
        let dim = required_dim("softmax", dim, axis)?;
        self.map_along(py, dim, |x| to_floating(&cast(x, &dtype)?)?.softmax(dim))
    }

    /// Computes the logarithm of `softmax` along `dim` without cancellation.
    ///
    /// Shapes: [.., n, ..] -> the same
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     TypeError: no `dim`.
    #[pyo3(signature = (dim=None, dtype=None, *, axis=None))]
    fn log_softmax(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::log_softmax)] dim: Option<isize>,
        dtype: Option<DTypeArgument>,
        #[pyo3(from_py_with = of::log_softmax)] axis: Option<isize>,
    ) -> Outcome<PyTensor> {
        let dim = required_dim("log_softmax", dim, axis)?;
        self.map_along(py, dim, |x| to_floating(&cast(x, &dtype)?)?.log_softmax(dim))
    }

    /// Sorts the elements along `dim`. Returns a named tuple of the sorted values and their
    /// original indices (int64).
    ///
    /// Shapes: [.., n, ..] -> two of the same
    ///
    /// Args:
    ///     stable: accepted as in PyTorch; equal elements keep their order in any case.
    ///     axis: an alternative name of dim.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=None, descending=false, stable=false, *, axis=None))]
    fn sort<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::sort)] dim: Option<isize>,
        #[pyo3(from_py_with = of::sort)] descending: bool,
        #[pyo3(from_py_with = of::sort)] stable: bool,
        #[pyo3(from_py_with = of::sort)] axis: Option<isize>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let _ = stable;
        let (x, dim) = (self.tensor(), dim_or_axis("sort", dim, axis)?.unwrap_or(-1));
        let pair = run(py, x.elements(), || {
            apply_along(&x, dim, |x| {
                check_index_range("sort", x, dim)?;
                let (values, indices) = x.sort(dim, descending)?;
                Ok((values, indices.to_dtype(DType::I64)?))
            })
        })?;
        values_and_indices(py, "sort", pair)
    }

    /// Returns the indices that sort the elements along `dim`; int64.
    ///
    /// Shapes: [.., n, ..] -> the same
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=None, descending=false, stable=false, *, axis=None))]
    fn argsort(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::argsort)] dim: Option<isize>,
        #[pyo3(from_py_with = of::argsort)] descending: bool,
        #[pyo3(from_py_with = of::argsort)] stable: bool,
        #[pyo3(from_py_with = of::argsort)] axis: Option<isize>,
    ) -> Outcome<PyTensor> {
        let _ = stable;
        let dim = dim_or_axis("argsort", dim, axis)?.unwrap_or(-1);
        self.map_along(py, dim, |x| {
            check_index_range("argsort", x, dim)?;
            x.argsort(dim, descending)?.to_dtype(DType::I64)
        })
    }

    /// Returns the `k` largest (or smallest) elements along `dim` in order, as a named tuple of
    /// values and indices (int64).
    ///
    /// Shapes: [.., n, ..] -> two of [.., k, ..]
    ///
    /// Args:
    ///     sorted: accepted as in PyTorch; the elements are sorted in any case.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: a `k` below 0, or above the number of elements.
    #[pyo3(signature = (k, dim=-1, largest=true, sorted=true))]
    fn topk<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::topk)] k: Count,
        #[pyo3(from_py_with = of::topk)] dim: isize,
        #[pyo3(from_py_with = of::topk)] largest: bool,
        #[pyo3(from_py_with = of::topk)] sorted: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let _ = sorted;
        let (x, Count(k)) = (self.tensor(), k);
        let pair = run(py, x.elements(), || {
            apply_along(&x, dim, |x| {
                check_index_range("topk", x, dim)?;
                let (values, indices) = x.topk(k, dim, largest)?;
                Ok((values, indices.to_dtype(DType::I64)?))
            })
        })?;
        values_and_indices(py, "topk", pair)
    }

    /// Counts the occurrences of each integer from 0 on, int64. With weights, returns the sums of
    /// the weights instead: float32 if the weights are float32, otherwise float64.
    ///
    /// Shapes: [n], weights [n] -> [the largest integer plus 1, at least minlength]
    ///
    /// Raises:
    ///     ValueError: another number of axes, a negative integer, or weights of another shape.
    #[pyo3(signature = (weights=None, minlength=Count(0)), text_signature = "($self, weights=None, minlength=0)")]
    fn bincount(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::bincount)] weights: Option<Bound<'_, PyTensor>>,
        #[pyo3(from_py_with = of::bincount)] minlength: Count,
    ) -> Outcome<PyTensor> {
        let weights = weights.map(|weights| weights.get().tensor());
        self.map(py, |x| {
            let counts = x.bincount(minlength.0)?.to_dtype(DType::I64)?;
            let Some(weights) = &weights else { return Ok(counts) };
            if weights.shape() != x.shape() {
                let message = format!("weights of shape {:?}, expected {:?}", weights.dims(), x.dims());
                return Err(Error::invalid("bincount", message));
            }
            let dtype = if weights.dtype() == DType::F32 { DType::F32 } else { DType::F64 };
            let zeros = Tensor::zeros(*counts.shape(), dtype, x.device())?;
            zeros.scatter_add(0, &x.to_dtype(DType::I64)?, &weights.to_dtype(dtype)?)
        })
    }

    /// Computes a histogram with `bins` equal bins from `min` to `max`. If these are equal, the
    /// range is from the smallest to the largest element.
    ///
    /// Shapes: [..] -> [bins]
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     ValueError: no bins, or bounds that are in the wrong order or not finite.
    #[pyo3(signature = (bins=Count(100), min=0.0, max=0.0), text_signature = "($self, bins=100, min=0.0, max=0.0)")]
    fn histc(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::histc)] bins: Count,
        #[pyo3(from_py_with = of::histc)] min: f64,
        #[pyo3(from_py_with = of::histc)] max: f64,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| {
            let (min, max) = match min == max && x.elements() > 0 {
                true => (x.min(..)?.item_f64()?, x.max(..)?.item_f64()?),
                false => (min, max),
            };
            // If all elements are equal, or there are none, a range around them, as in PyTorch.
            let (min, max) = if min == max { (min - 1.0, max + 1.0) } else { (min, max) };
            x.histogram(bins.0, min, max)?.to_dtype(x.dtype())
        })
    }
}
