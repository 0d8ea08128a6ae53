//! Parts of a tensor: by numbers, slices, tensors and masks, as in NumPy; read and written.

use crate::arguments::{Operand, number};
use crate::error::{Failure, Outcome};
use crate::promote::{Number, beside};
use crate::run::{run, wait};
use crate::tensor::{PyTensor, may_change};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use ternion::{DType, Ellipsis, IndexItem, NewAxis, Result, Slice, Tensor};

fn end(slice: &Bound<'_, PySlice>, name: &str) -> Outcome<Option<isize>> {
    let value = slice.getattr(name)?;
    if value.is_none() {
        return Ok(None);
    }
    // Python allows numbers beyond every axis.
    Ok(Some(match value.extract::<isize>() {
        Ok(value) => value,
        Err(_) if value.lt(0)? => isize::MIN + 1,
        Err(error) => match value.is_instance_of::<PyInt>() {
            true => isize::MAX,
            false => return Err(error.into()),
        },
    }))
}

fn item(object: &Bound<'_, PyAny>, of: &Tensor) -> Outcome<IndexItem> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        let index = tensor.get().tensor();
        // An integer tensor without axes is a number.
        let is_number = index.rank() == 0 && index.dtype().is_int();
        let index = if index.dtype() == DType::U8 { index.to_dtype(DType::I64)? } else { index };
        return Ok(match is_number {
            true => IndexItem::At(index.item_f64()? as isize),
            false => IndexItem::Tensor(index.to_device(of.device())?),
        });
    }
    if let Ok(slice) = object.cast::<PySlice>() {
        let step = end(slice, "step")?.unwrap_or(1);
        return Ok(Slice::new(end(slice, "start")?, end(slice, "stop")?, step).into());
    }
    if object.is_none() {
        return Ok(NewAxis.into());
    }
    if object.cast::<PyEllipsis>().is_ok() {
        return Ok(Ellipsis.into());
    }
    if object.cast::<PyBool>().is_ok() {
        return Err(Failure::kind("index: a truth value; a mask is a tensor of them"));
    }
    if let Some(Number::Int(at)) = number(object)? {
        return Ok(IndexItem::At(at as isize));
    }
    // Lists, and arrays of NumPy.
    let known = object.cast::<PyList>().is_ok() || object.hasattr("__array_interface__")?;
    if known {
        let module = object.py().import("ternion._ternion")?;
        let tensor = module.getattr("tensor")?.call1((object,))?;
        return item(&tensor, of);
    }
    let kind = object.get_type().name()?.to_string();
    Err(Failure::kind(format!(
        "index: {kind}, expected numbers, slices, None, an ellipsis, tensors of int32, int64 or bool, or lists of these"
    )))
}

fn items(index: &Bound<'_, PyAny>, of: &Tensor) -> Outcome<Vec<IndexItem>> {
    let items = match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().map(|object| item(&object, of)).collect::<Outcome<Vec<_>>>(),
        Err(_) => Ok(vec![item(index, of)?]),
    }?;
    let taken: usize = items.iter().map(axes_taken).sum();
    if taken > of.rank() {
        let told = format!("index: {taken} axes of shape {:?}, too many indices", of.dims());
        return Err(Failure::index(told));
    }
    Ok(items)
}

/// How many axes an item stands for.
fn axes_taken(item: &IndexItem) -> usize {
    match item {
        IndexItem::NewAxis | IndexItem::Ellipsis => 0,
        IndexItem::Tensor(mask) if mask.dtype() == DType::Bool => mask.rank(),
        _ => 1,
    }
}

/// The places of what an index names, in the tensor laid out in row-major order.
fn places(x: &Tensor, items: Vec<IndexItem>) -> Result<Tensor> {
    Tensor::iota(x.elements(), DType::I64, 0, 1, x.device())?.reshape(*x.shape())?.i(items)
}

/// `x` with `source` in the places that an index with tensors names.
fn put(x: &Tensor, items: Vec<IndexItem>, source: &Tensor) -> Result<Tensor> {
    let places = places(x, items)?;
    let count = places.elements();
    let source = source.to_dtype(x.dtype())?.expand(*places.shape())?.reshape([count])?;
    let flat = x.reshape([x.elements()])?;
    flat.scatter(0, &places.reshape([count])?, &source)?.reshape(*x.shape())
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
        let x = self.tensor();
        let items = items(index, &x)?;
        let reads = items.iter().any(|item| matches!(item, IndexItem::Tensor(_)));
        let part = if reads { wait(py, || x.i(items)) } else { run(py, 0, || x.i(items)) };
        Ok(self.shown(&x, part?))
    }

    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Outcome<()> {
        let x = self.tensor();
        let items = items(index, &x)?;
        let source = match Operand::of(value)? {
            Some(Operand::Tensor(tensor)) => tensor,
            Some(Operand::Number(number)) => {
                // A number is written as the tensor's dtype says it.
                let exact = beside(&x, number)?;
                exact.to_dtype(x.dtype())?
            }
            None => {
                let module = py.import("ternion._ternion")?;
                let tensor = module.getattr("as_tensor")?.call1((value,))?;
                tensor.cast::<PyTensor>().map_err(PyErr::from)?.get().tensor()
            }
        };
        let has_tensors = items.iter().any(|item| matches!(item, IndexItem::Tensor(_)));
        let of_graph = ternion::autograd::is_recording() && (x.needs_grad() || source.needs_grad());
        may_change(&x)?;
        let changed = wait(py, || {
            let source = source.to_device(x.device())?;
            if of_graph {
                // Gradients flow to both: another tensor takes the place of this object's.
                let put = match has_tensors {
                    true => put(&x, items, &source)?,
                    false => x.slice_assign(items, &source.to_dtype(x.dtype())?)?,
                };
                return Ok(Some(put));
            }
            match has_tensors {
                true => x.copy_(&put(&x, items, &source)?)?,
                false => x.slice_assign_(items, &source)?,
            }
            Ok(None)
        })?;
        changed.map_or(Ok(()), |changed| self.put_recorded(py, changed))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, PyAny>> {
        let (py, x) = (slf.py(), slf.get().tensor());
        let Some(&count) = x.dims().first() else {
            return Err(Failure::kind("iteration over a tensor without axes"));
        };
        let parts = run(py, 0, || (0..count).map(|at| x.select(0, at)).collect::<Result<Vec<_>>>())?;
        let objects: PyResult<Vec<_>> =
            parts.into_iter().map(|part| Bound::new(py, slf.get().shown(&x, part))).collect();
        Ok(PyTuple::new(py, objects?)?.try_iter()?.into_any())
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> Outcome<bool> {
        let x = self.tensor();
        let value = crate::create::given(value, "in")?;
        wait(py, || Ok(x.eq(&beside(&x, value)?.to_dtype(x.dtype())?)?.any(..)?.item_f64()? != 0.0))
    }

    /// The elements whose places along `dim` are in `index`, a tensor of as many axes.
    fn gather(&self, py: Python<'_>, dim: isize, index: &Bound<'_, PyTensor>) -> Outcome<PyTensor> {
        let index = index.get().tensor();
        self.map(py, |x| x.gather(dim, &index))
    }

    /// This tensor with `src`, a tensor or a number, in the places along `dim` that `index` names.
    #[pyo3(signature = (dim, index, src=None, *, value=None))]
    fn scatter(
        &self,
        py: Python<'_>,
        dim: isize,
        index: &Bound<'_, PyTensor>,
        src: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        let (x, index) = (self.tensor(), index.get().tensor());
        let source = scattered(src.xor(value), &x, &index)?;
        run(py, x.elements(), || x.scatter(dim, &index, &source)).map(PyTensor::new)
    }

    /// `scatter`, in place.
    #[pyo3(signature = (dim, index, src=None, *, value=None))]
    fn scatter_<'py>(
        slf: &Bound<'py, Self>,
        dim: isize,
        index: &Bound<'py, PyTensor>,
        src: Option<&Bound<'py, PyAny>>,
        value: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        let (x, index) = (slf.get().tensor(), index.get().tensor());
        let source = scattered(src.xor(value), &x, &index)?;
        PyTensor::change(
            slf,
            &[&source],
            |x| x.scatter(dim, &index, &source),
            |x| x.scatter_(dim, &index, &source),
        )
    }

    /// This tensor with the elements of `src` added in the places along `dim` that `index` names.
    fn scatter_add(
        &self,
        py: Python<'_>,
        dim: isize,
        index: &Bound<'_, PyTensor>,
        src: &Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index.get().tensor(), src.get().tensor());
        self.map(py, |x| x.scatter_add(dim, &index, &source))
    }

    /// `scatter_add`, in place.
    fn scatter_add_<'py>(
        slf: &Bound<'py, Self>,
        dim: isize,
        index: &Bound<'py, PyTensor>,
        src: &Bound<'py, PyTensor>,
    ) -> Outcome<Bound<'py, Self>> {
        let (index, source) = (index.get().tensor(), src.get().tensor());
        PyTensor::change(
            slf,
            &[&source],
            |x| x.scatter_add(dim, &index, &source),
            |x| x.scatter_add_(dim, &index, &source),
        )
    }

    /// The slices along `dim` that `index`, a tensor of one axis, names.
    fn index_select(&self, py: Python<'_>, dim: isize, index: &Bound<'_, PyTensor>) -> Outcome<PyTensor> {
        let index = index.get().tensor();
        self.map(py, |x| x.index_select(dim, &index))
    }

    /// This tensor with the slices of `source` added to those along `dim` that `index` names.
    fn index_add(
        &self,
        py: Python<'_>,
        dim: isize,
        index: &Bound<'_, PyTensor>,
        source: &Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index.get().tensor(), source.get().tensor());
        self.map(py, |x| x.index_add(dim, &index, &source))
    }

    /// `index_add`, in place.
    fn index_add_<'py>(
        slf: &Bound<'py, Self>,
        dim: isize,
        index: &Bound<'py, PyTensor>,
        source: &Bound<'py, PyTensor>,
    ) -> Outcome<Bound<'py, Self>> {
        let (index, source) = (index.get().tensor(), source.get().tensor());
        PyTensor::change(
            slf,
            &[&source],
            |x| x.index_add(dim, &index, &source),
            |x| x.index_add_(dim, &index, &source),
        )
    }

    /// This tensor with the elements of `source`, in turn, where the mask is true.
    fn masked_scatter(
        &self,
        py: Python<'_>,
        mask: &Bound<'_, PyTensor>,
        source: &Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (x, mask, source) = (self.tensor(), mask.get().tensor(), source.get().tensor());
        wait(py, || x.masked_scatter(&mask, &source)).map(PyTensor::new)
    }
}

/// What is put into the places of `index`: a tensor, or a number in all of them.
fn scattered(src: Option<&Bound<'_, PyAny>>, x: &Tensor, index: &Tensor) -> Outcome<Tensor> {
    let Some(src) = src else { return Err(Failure::kind("scatter: expected either src or value")) };
    match Operand::of(src)? {
        Some(Operand::Tensor(tensor)) => Ok(tensor),
        Some(Operand::Number(number)) => {
            Ok(Tensor::full(*index.shape(), number.scalar(), x.dtype(), x.device())?)
        }
        None => Err(Failure::kind("scatter: expected a tensor or a number")),
    }
}
