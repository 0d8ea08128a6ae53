//! Indexing by numbers, slices, tensors and masks, as in NumPy, for reading and writing.

use super::compare::expand_with_mask;
use crate::arguments::{Operand, extract_number};
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::operators::check_alpha_dtype;
use crate::operators::equal_to;
use crate::promote::{Number, scalar_tensor_like};
use crate::tensor::{PyTensor, check_in_place, is_scalar_axis};
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use ternion::{DType, Ellipsis, IndexItem, NewAxis, Result, Scalar, Slice, Tensor};

fn slice_bound(slice: &Bound<'_, PySlice>, name: &str) -> Outcome<Option<isize>> {
    let value = slice.getattr(name)?;
    if value.is_none() {
        return Ok(None);
    }
    // Python allows bounds beyond every axis.
    Ok(Some(match value.extract::<isize>() {
        Ok(value) => value,
        Err(_) if value.lt(0)? => isize::MIN + 1,
        Err(error) => match value.is_instance_of::<PyInt>() {
            true => isize::MAX,
            false if error.is_instance_of::<PyTypeError>(slice.py()) => {
                let kind = value.get_type().name()?.to_string();
                return Err(RaisedError::type_error(format!("index: a slice of {kind}, expected integers")));
            }
            false => return Err(error.into()),
        },
    }))
}

/// An index in two steps, as in PyTorch: first a view by numbers, slices and new axes, then tensors
/// along the remaining axes.
struct Index {
    view: Vec<IndexItem>,
    gather_items: Vec<IndexItem>,
    has_tensors: bool,
}

impl Index {
    fn of(index: &Bound<'_, PyAny>, of: &Tensor) -> Outcome<Index> {
        let mut result = Index { view: Vec::new(), gather_items: Vec::new(), has_tensors: false };
        let items = match index.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().map(|object| item(&object, of)).collect::<Outcome<Vec<_>>>()?,
            Err(_) => vec![item(index, of)?],
        };
        let indexed = items.iter().map(indexed_axes).sum();
        let Some(left) = of.rank().checked_sub(indexed) else {
            let message = format!("index: {indexed} axes of shape {:?}, too many indices", of.dims());
            return Err(RaisedError::index_error(message));
        };
        let mut ellipses = 0;
        for item in items {
            match item {
                IndexItem::Ellipsis if ellipses == 0 => {
                    (0..left).for_each(|_| result.push_view_item(IndexItem::from(..)));
                    ellipses += 1;
                }
                IndexItem::Ellipsis => ellipses += 1,
                // Each ellipsis covers all remaining axes, so that no axis is left after a second
                // one.
                _ if ellipses > 1 && left > 0 => {
                    return Err(RaisedError::index_error("index: an axis is named behind a second ellipsis"));
                }
                item => result.push(item, of)?,
            }
        }
        Ok(result)
    }

    fn push_view_item(&mut self, item: IndexItem) {
        if !matches!(item, IndexItem::At(_)) {
            self.gather_items.push(IndexItem::from(..));
        }
        self.view.push(item);
    }

    fn push(&mut self, item: IndexItem, of: &Tensor) -> Outcome<()> {
        let IndexItem::Tensor(index) = item else {
            self.push_view_item(item);
            return Ok(());
        };
        self.has_tensors = true;
        if index.dtype() != DType::Bool || index.rank() > 0 {
            let axes = indexed_axes(&IndexItem::Tensor(index.clone()));
            self.view.extend(std::iter::repeat_n(IndexItem::from(..), axes));
            self.gather_items.push(IndexItem::Tensor(index));
            return Ok(());
        }
        // A single bool selects all or nothing, along a new axis.
        self.view.push(NewAxis.into());
        let count = usize::from(index.item_f64()? != 0.0);
        self.gather_items.push(IndexItem::Tensor(Tensor::zeros([count], DType::I64, of.device())?));
        Ok(())
    }

    /// Returns the number of axes of the part of `x` that an index without tensors selects.
    fn rank_of(&self, x: &Tensor) -> usize {
        let named = self.view.iter().filter(|item| !matches!(item, IndexItem::NewAxis)).count();
        x.rank() - named + self.gather_items.len()
    }

    /// Returns the selected part of `x`.
    fn read(self, x: &Tensor) -> Result<Tensor> {
        let view = x.i(self.view)?;
        if self.has_tensors { view.i(self.gather_items) } else { Ok(view) }
    }
}

/// Converts a tensor to an index: an integer tensor without axes is a number, and uint8 is a mask,
/// as in PyTorch.
fn tensor_item(index: &Tensor, of: &Tensor, py: Python<'_>) -> Outcome<IndexItem> {
    if index.rank() == 0 && index.dtype().is_int() && index.dtype() != DType::U8 {
        return Ok(IndexItem::At(index.item_f64()? as isize));
    }
    if index.dtype() != DType::U8 {
        return Ok(IndexItem::Tensor(index.to_device(of.device())?));
    }
    let message = c"indexing with a tensor of uint8, which is taken as a mask: use one of bool";
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), message, 1)?;
    Ok(IndexItem::Tensor(index.to_dtype(DType::Bool)?.to_device(of.device())?))
}

/// Converts lists, tuples, ranges and NumPy arrays to an index.
fn list_item(object: &Bound<'_, PyAny>, of: &Tensor) -> Outcome<Option<IndexItem>> {
    let py = object.py();
    let is_list = crate::create::is_list(object);
    if !is_list && !object.hasattr("__array_interface__")? {
        return Ok(None);
    }
    let tensor = py.import("ternion._ternion")?.getattr("tensor")?.call1((object,))?;
    let tensor = tensor.cast::<PyTensor>().map_err(PyErr::from)?.get().tensor();
    // An empty list has no numbers and therefore the default dtype.
    let tensor = if is_list && tensor.elements() == 0 { tensor.to_dtype(DType::I64)? } else { tensor };
    tensor_item(&tensor, of, py).map(Some)
}

/// Converts a number to an index; a bool is a mask without axes.
fn number_item(object: &Bound<'_, PyAny>, of: &Tensor) -> Outcome<Option<IndexItem>> {
    if object.is_instance_of::<PyInt>() && object.extract::<i64>().is_err() {
        let message = format!("index: {} on shape {:?}, out of range", object.str()?, of.dims());
        return Err(RaisedError::index_error(message));
    }
    Ok(match extract_number(object)? {
        Some(Number::Bool(value)) => {
            let mask = Tensor::full((), f64::from(u8::from(value)), DType::Bool, of.device())?;
            Some(IndexItem::Tensor(mask))
        }
        // A uint64 value that does not fit is out of range in any case.
        Some(Number::Int(at)) => Some(IndexItem::At(isize::try_from(at).unwrap_or(isize::MAX))),
        Some(_) => None,
        None if object.hasattr("__array_interface__")? || !object.hasattr("__index__")? => None,
        None => Some(IndexItem::At(object.extract::<isize>()?)),
    })
}

fn item(object: &Bound<'_, PyAny>, of: &Tensor) -> Outcome<IndexItem> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return tensor_item(&tensor.get().tensor(), of, object.py());
    }
    if let Ok(slice) = object.cast::<PySlice>() {
        let step = slice_bound(slice, "step")?.unwrap_or(1);
        return Ok(Slice::new(slice_bound(slice, "start")?, slice_bound(slice, "stop")?, step).into());
    }
    if object.is_none() {
        return Ok(NewAxis.into());
    }
    if object.cast::<PyEllipsis>().is_ok() {
        return Ok(Ellipsis.into());
    }
    if let Some(item) = number_item(object, of)? {
        return Ok(item);
    }
    if let Some(item) = list_item(object, of)? {
        return Ok(item);
    }
    let kind = object.get_type().name()?.to_string();
    Err(RaisedError::type_error(format!(
        "index: {kind}, expected numbers, slices, None, an ellipsis, tensors of int32, int64 or bool, or lists of these"
    )))
}

/// Returns the number of axes that an item consumes.
fn indexed_axes(item: &IndexItem) -> usize {
    match item {
        IndexItem::NewAxis | IndexItem::Ellipsis => 0,
        IndexItem::Tensor(mask) if mask.dtype() == DType::Bool => mask.rank(),
        _ => 1,
    }
}

/// Returns the indices of the selected elements in the row-major order of the tensor.
fn element_indices(x: &Tensor, index: Index) -> Result<Tensor> {
    index.read(&Tensor::iota(x.elements(), DType::I64, 0, 1, x.device())?.reshape(*x.shape())?)
}

/// Removes leading axes of size 1 that exceed `rank`, as PyTorch does.
fn squeeze_leading(source: &Tensor, rank: usize) -> Result<Tensor> {
    let lead = source.rank().saturating_sub(rank);
    if source.dims()[..lead].iter().any(|&size| size != 1) {
        return Ok(source.clone());
    }
    source.reshape(&source.dims()[lead..])
}

/// Returns `x` with `source` written, or added, at the elements that an index with tensors selects.
fn index_put(x: &Tensor, index: Index, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    let indices = element_indices(x, index)?;
    let source = squeeze_leading(&source.to_dtype(x.dtype())?, indices.rank())?.expand(*indices.shape())?;
    if accumulate {
        return x.put(&indices, &source, true);
    }
    let (flat, count) = (x.reshape([x.elements()])?, indices.elements());
    flat.scatter(0, &indices.reshape([count])?, &source.reshape([count])?)?.reshape(*x.shape())
}

/// Converts an assigned value to a tensor: a number or a list with the dtype of `x`, or an array.
fn assigned_value(x: &Tensor, value: &Bound<'_, PyAny>) -> Outcome<Tensor> {
    match Operand::of(value)? {
        Some(Operand::Tensor(tensor)) => Ok(tensor),
        Some(Operand::Number(number)) if crate::create::can_represent(x.dtype(), number) => {
            Ok(scalar_tensor_like(x, number)?.to_dtype(x.dtype())?)
        }
        Some(Operand::Number(number)) => {
            let name = crate::dialect::dtype_name(x.dtype());
            Err(RaisedError::value_error(format!("index: the number {number} does not fit {name}")))
        }
        None => {
            let dtype = match crate::create::is_list(value) {
                true => Some(crate::dtype::object(value.py(), x.dtype())?),
                false => None,
            };
            let converted =
                value.py().import("ternion._ternion")?.getattr("as_tensor")?.call1((value, dtype))?;
            Ok(converted.cast::<PyTensor>().map_err(PyErr::from)?.get().tensor())
        }
    }
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
        let x = self.tensor();
        let index = Index::of(index, &x)?;
        let part =
            if index.has_tensors { wait(py, || index.read(&x)) } else { run(py, 0, || index.read(&x)) };
        Ok(self.wrap_view(&x, part?))
    }

    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Outcome<()> {
        let x = self.tensor();
        let index = Index::of(index, &x)?;
        let source = assigned_value(&x, value)?;
        let needs_recording = ternion::autograd::is_recording() && (x.needs_grad() || source.needs_grad());
        check_in_place(&x)?;
        let changed = wait(py, || {
            let source = source.to_device(x.device())?;
            let source =
                if index.has_tensors { source } else { squeeze_leading(&source, index.rank_of(&x))? };
            if needs_recording {
                // A gradient flows to both operands: the recorded result replaces the tensor of
                // this object.
                let put = match index.has_tensors {
                    true => index_put(&x, index, &source, false)?,
                    false => x.slice_assign(index.view, &source.to_dtype(x.dtype())?)?,
                };
                return Ok(Some(put));
            }
            match index.has_tensors {
                true => x.copy_(&index_put(&x, index, &source, false)?)?,
                false => x.slice_assign_(index.view, &source)?,
            }
            Ok(None)
        })?;
        changed.map_or(Ok(()), |changed| self.store_recorded(py, changed))
    }

    fn _index_put(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyTuple>,
        values: &Bound<'_, PyAny>,
        accumulate: bool,
    ) -> Outcome<PyTensor> {
        let x = self.tensor();
        let (index, source) = (Index::of(indices.as_any(), &x)?, assigned_value(&x, values)?);
        wait(py, || index_put(&x, index, &source.to_device(x.device())?, accumulate)).map(PyTensor::new)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, PyAny>> {
        let (py, x) = (slf.py(), slf.get().tensor());
        let Some(&count) = x.dims().first() else {
            return Err(RaisedError::type_error("iteration over a tensor without axes"));
        };
        let parts = run(py, 0, || (0..count).map(|at| x.select(0, at)).collect::<Result<Vec<_>>>())?;
        let objects: PyResult<Vec<_>> =
            parts.into_iter().map(|part| Bound::new(py, slf.get().wrap_view(&x, part))).collect();
        Ok(PyTuple::new(py, objects?)?.try_iter()?.into_any())
    }

    fn __reversed__<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
        if slf.get().tensor().rank() == 0 {
            return Ok(slf.clone());
        }
        Ok(Bound::new(slf.py(), slf.get().map(slf.py(), |x| x.flip(0))?)?)
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> Outcome<bool> {
        let x = self.tensor();
        let target = match Operand::for_function("in", value, &x)? {
            // A tensor without axes counts as a number, whatever its dtype and device.
            Operand::Tensor(one) if one.rank() == 0 => {
                Operand::Number(crate::create::number_value(value, "in")?)
            }
            other => other,
        };
        wait(py, || Ok(equal_to(&x, &target)?.any(..)?.item_f64()? != 0.0))
    }

    /// Gathers the elements at the positions `index` along `dim`; `index` has as many axes as this
    /// tensor.
    ///
    /// Shapes: [.., n, ..] and index [.., m, ..] -> [.., m, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or an index out of range.
    ///     TypeError: an index that is not int32 or int64.
    ///     ValueError: an index with another number of axes, or larger than this tensor along an
    ///         axis other than `dim`; or `sparse_grad`, which only PyTorch supports.
    #[pyo3(signature = (dim, index, *, sparse_grad=false))]
    fn gather(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::gather)] dim: isize,
        #[pyo3(from_py_with = of::gather)] index: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::gather)] sparse_grad: bool,
    ) -> Outcome<PyTensor> {
        if sparse_grad {
            return Err(RaisedError::value_error(
                "gather: sparse_grad=True, expected False: there are no sparse tensors",
            ));
        }
        let index = index.get().tensor();
        // Without elements any dtype is accepted, as in PyTorch.
        let index = if index.elements() == 0 { index.to_dtype(DType::I64)? } else { index };
        self.map(py, |x| match is_scalar_axis(x, &dim.into()) {
            true => x.reshape([1_usize])?.gather(0, &index.reshape([-1_isize])?)?.reshape(*index.shape()),
            false => x.gather(dim, &index),
        })
    }

    /// Selects slices along `dim` at the indices of `index`, a 1-D tensor.
    ///
    /// Shapes: [.., n, ..] and index [m] -> [.., m, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or an index out of range.
    ///     TypeError: an index that is not int32 or int64.
    ///     ValueError: an index with several axes.
    fn index_select(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::index_select)] dim: isize,
        #[pyo3(from_py_with = of::index_select)] index: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let index = index.get().tensor();
        self.map_along(py, dim, |x| match index.rank() {
            0 => x.index_select(dim, &index.reshape([1_usize])?),
            _ => x.index_select(dim, &index),
        })
    }

    /// Adds the slices of `source`, times `alpha`, to the slices along `dim` at the indices of
    /// `index`. All slices with the same index are added.
    ///
    /// Shapes: [.., n, ..], index [m] and source [.., m, ..] -> [.., n, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or an index out of range.
    ///     TypeError: an index that is not int32 or int64, a source of another dtype, a floating
    ///         `alpha` for integers, or a bool `alpha` for numbers.
    ///     ValueError: an index with several axes, or a source of another shape.
    #[pyo3(signature = (dim, index, source, *, alpha=None))]
    fn index_add(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::index_add)] dim: isize,
        #[pyo3(from_py_with = of::index_add)] index: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::index_add)] source: Bound<'_, PyTensor>,
        alpha: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index.get().tensor(), source.get().tensor());
        let alpha = alpha_scalar("index_add", alpha, self.tensor().dtype())?;
        self.map(py, |x| {
            apply_add(x, dim, &index, &source, |x, dim, index, source| {
                x.index_add_with(dim, index, source, alpha)
            })
        })
    }

    /// `index_add` in place.
    ///
    /// Shapes and errors are those of `index_add`
    ///
    /// Raises:
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (dim, index, source, *, alpha=None))]
    fn index_add_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::index_add_)] dim: isize,
        #[pyo3(from_py_with = of::index_add_)] index: Bound<'py, PyTensor>,
        #[pyo3(from_py_with = of::index_add_)] source: Bound<'py, PyTensor>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        let (index, source) = (index.get().tensor(), source.get().tensor());
        let alpha = alpha_scalar("index_add_", alpha, slf.get().tensor().dtype())?;
        let add = move |x: &Tensor, dim: isize, index: &Tensor, source: &Tensor| {
            x.index_add_with(dim, index, source, alpha)
        };
        let add_in_place = move |x: &Tensor, dim: isize, index: &Tensor, source: &Tensor| {
            x.index_add_with_(dim, index, source, alpha)
        };
        PyTensor::change(
            slf,
            &[&source],
            |x| apply_add(x, dim, &index, &source, add),
            |x| apply_add_in_place(x, dim, &index, &source, add, add_in_place),
        )
    }

    /// Copies the elements of `source`, in order, to the elements where the mask is True.
    ///
    /// Shapes: [..] and a mask that broadcasts to it -> [..]
    ///
    /// Raises:
    ///     TypeError: a mask that is not bool, or a source of another dtype.
    ///     ValueError: an incompatible mask, or a source with too few elements.
    fn masked_scatter(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::masked_scatter)] mask: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::masked_scatter)] source: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (x, mask, source) = (self.tensor(), mask.get().tensor(), source.get().tensor());
        let put = || expand_with_mask(&x, &mask, "masked_scatter")?.masked_scatter(&mask, &source);
        wait(py, put).map(PyTensor::new)
    }
}

/// Returns the `alpha` of the function `op`, by default 1, which must be of a kind that the dtype
/// supports: PyTorch's rule.
pub fn alpha_scalar(op: &str, alpha: Option<&Bound<'_, PyAny>>, dtype: DType) -> Outcome<Scalar> {
    let Some(alpha) = alpha else { return Ok(Scalar::Int(1)) };
    let Some(alpha) = extract_number(alpha)? else {
        let kind = alpha.get_type().name()?.to_string();
        return Err(RaisedError::type_error(format!("{op}: alpha is {kind}, expected a number")));
    };
    check_alpha_dtype(op, alpha, dtype)?;
    Ok(alpha.scalar())
}

/// Runs `f`, which adds along `dim`, as `apply_scatter` does. The sum of bool elements is their
/// logical OR, as in PyTorch.
pub(super) fn apply_add(
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    f: impl FnOnce(&Tensor, isize, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if (x.dtype(), source.dtype()) != (DType::Bool, DType::Bool) {
        return apply_scatter(x, dim, index, source, f);
    }
    let [counts, addends] = [x.to_dtype(DType::I32)?, source.to_dtype(DType::I32)?];
    apply_scatter(&counts, dim, index, &addends, f)?.to_dtype(DType::Bool)
}

/// `apply_add` in place: by `in_place`, except for bool.
pub(super) fn apply_add_in_place(
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    f: impl FnOnce(&Tensor, isize, &Tensor, &Tensor) -> Result<Tensor>,
    in_place: impl FnOnce(&Tensor, isize, &Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    match x.dtype() {
        DType::Bool => x.copy_(&apply_add(x, dim, index, source, f)?),
        _ => apply_scatter_in_place(x, dim, index, source, in_place),
    }
}

/// Runs `f`, which writes along `dim`. If this tensor has no axes, it, the index and the source are
/// treated as having one axis of size 1.
pub(super) fn apply_scatter(
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    f: impl FnOnce(&Tensor, isize, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if !is_scalar_axis(x, &dim.into()) {
        return f(x, dim, index, source);
    }
    f(&to_1d(x)?, 0, &to_1d(index)?, &to_1d(source)?)?.reshape(())
}

/// `apply_scatter` in place: the reshaped tensor with one axis is a view.
pub(super) fn apply_scatter_in_place(
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    f: impl FnOnce(&Tensor, isize, &Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    if !is_scalar_axis(x, &dim.into()) {
        return f(x, dim, index, source);
    }
    f(&to_1d(x)?, 0, &to_1d(index)?, &to_1d(source)?)
}

/// Reshapes all elements to one axis.
fn to_1d(x: &Tensor) -> Result<Tensor> {
    x.reshape([-1_isize])
}
