//! Views of a tensor, and rearrangements of its elements.

mod dtypes;

use crate::arguments::{
    AxesArgument, Count, ShapeArgument, args_or_keyword, args_or_kwargs, dim_or_axis, extract_int_args,
    extract_sizes, required_dim,
};
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::tensor::{PyTensor, is_scalar_axis};
use dtypes::{dtype_argument, view_as_dtype};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};
use ternion::{Axes, DType, Error, Result, Tensor};

/// Wraps parts of `x`, the tensor of `of`, as Python objects.
pub(super) fn wrap_views<'py>(
    of: &PyTensor,
    x: &Tensor,
    parts: Vec<Tensor>,
    py: Python<'py>,
) -> Outcome<Bound<'py, PyTuple>> {
    let objects: PyResult<Vec<_>> =
        parts.into_iter().map(|part| Bound::new(py, of.wrap_view(x, part))).collect();
    Ok(PyTuple::new(py, objects?)?)
}

/// The maximum number of parts. A Python tuple of more tensors would use up all memory.
const MAX_PARTS: usize = 1 << 24;

#[pymethods]
impl PyTensor {
    /// Returns the elements in row-major order with another shape; a view if possible. One of the
    /// sizes may be -1.
    ///
    /// Raises:
    ///     ValueError: sizes whose product is not the number of elements.
    #[pyo3(signature = (*shape, **named), text_signature = "($self, *shape)")]
    fn reshape(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<PyTensor> {
        let shape = extract_int_args(&args_or_kwargs(shape, named, "shape", "reshape")?, "reshape")?;
        self.map(py, |x| x.reshape(&shape[..]))
    }

    /// Returns a view with another shape, where one size may be -1; or, given a dtype of the same
    /// size, with the bytes reinterpreted as elements of that dtype.
    ///
    /// Raises:
    ///     ValueError: incompatible sizes, or a shape that requires a copy.
    ///     TypeError: a dtype of another size, or bool.
    #[pyo3(signature = (*shape, **named), text_signature = "($self, *shape)")]
    fn view(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<PyTensor> {
        let is_dtype = named.map_or(Ok(false), |named| named.contains("dtype"))?;
        let shape = args_or_kwargs(shape, named, if is_dtype { "dtype" } else { "size" }, "view")?;
        let tensor = self.tensor();
        if let Some(dtype) = dtype_argument(&shape, is_dtype)? {
            return Ok(PyTensor::new(view_as_dtype(&tensor, dtype)?));
        }
        let shape = extract_int_args(&shape, "view")?;
        let viewed = run(py, tensor.elements(), || tensor.reshape(&shape[..]).with_op("view"))?;
        if !viewed.buffer().is(tensor.buffer()) {
            return Err(RaisedError::value_error(
                "view: only a copy of these elements has this shape: use reshape",
            ));
        }
        Ok(self.wrap_view(&tensor, viewed))
    }

    /// Flattens the axes from `start_dim` to `end_dim` into one.
    ///
    /// Shapes: [.., m, n, ..] -> [.., m * n, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: a first axis after the last.
    #[pyo3(signature = (start_dim=0, end_dim=-1))]
    fn flatten(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::flatten)] start_dim: isize,
        #[pyo3(from_py_with = of::flatten)] end_dim: isize,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| if x.rank() == 0 { x.reshape([1_usize]) } else { x.flatten(start_dim, end_dim) })
    }

    /// Splits axis `dim` into several axes of these sizes, one of which may be -1.
    ///
    /// Shapes: [.., m * n, ..] -> [.., m, n, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: sizes whose product is not the size of the axis.
    fn unflatten(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::unflatten)] dim: isize,
        #[pyo3(from_py_with = of::unflatten)] sizes: AxesArgument,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| {
            let axis = ternion::Axis(dim).resolve(x.shape(), "unflatten")?;
            let size = |&size: &usize| size as isize;
            let inner = Tensor::zeros([x.dims()[axis]], DType::Bool, x.device())?
                .reshape(&sizes.0[..])
                .with_op("unflatten")?;
            let dims: Vec<isize> = x.dims()[..axis]
                .iter()
                .map(size)
                .chain(inner.dims().iter().map(size))
                .chain(x.dims()[axis + 1..].iter().map(size))
                .collect();
            x.reshape(&dims[..])
        })
    }

    /// Returns a view with the axes in another order.
    ///
    /// Shapes: [a, b, c] by (2, 0, 1) -> [c, a, b]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: an order that does not contain each axis once.
    #[pyo3(signature = (*dims, **named), text_signature = "($self, *dims)")]
    fn permute(
        &self,
        py: Python<'_>,
        dims: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<PyTensor> {
        let dims = extract_int_args(&args_or_kwargs(dims, named, "dims", "permute")?, "permute")?;
        self.map(py, |x| x.permute(&dims[..]))
    }

    /// Returns a view with two axes exchanged.
    ///
    /// Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    fn transpose(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::transpose)] dim0: isize,
        #[pyo3(from_py_with = of::transpose)] dim1: isize,
    ) -> Outcome<PyTensor> {
        let lifts = matches!(dim0, 0 | -1);
        self.map_along(py, if lifts { dim1 } else { dim0 }, |x| x.transpose(dim0, dim1))
    }

    /// Returns a view of a matrix with its two axes exchanged.
    ///
    /// Shapes: [m, n] -> [n, m]; [n] and [] are unchanged
    ///
    /// Raises:
    ///     ValueError: more than two axes.
    fn t(&self, py: Python<'_>) -> Outcome<PyTensor> {
        let rank = self.tensor().rank();
        if rank > 2 {
            return Err(RaisedError::value_error(format!("t: a tensor of {rank} axes, expected at most 2")));
        }
        self.map(py, |x| if x.rank() < 2 { Ok(x.clone()) } else { x.transpose(0, 1) })
    }

    /// A view with the axes in reverse order.
    #[getter]
    #[pyo3(name = "T")]
    fn reversed(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| {
            let order: Vec<usize> = (0..x.rank()).rev().collect();
            x.permute(&order[..])
        })
    }

    /// A view with the last two axes exchanged.
    ///
    /// Raises:
    ///     IndexError: fewer than two axes.
    #[getter]
    #[pyo3(name = "mT")]
    fn matrices(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| x.transpose(-2, -1))
    }

    /// Removes all axes of size 1, or only the given axes if their size is 1.
    ///
    /// Shapes: [.., 1, ..] -> [..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=None, *, axis=None))]
    fn squeeze(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::squeeze)] dim: Option<AxesArgument>,
        #[pyo3(from_py_with = of::squeeze)] axis: Option<AxesArgument>,
    ) -> Outcome<PyTensor> {
        // Here an empty list means no axes, as in PyTorch.
        let axes = match dim_or_axis("squeeze", dim, axis)? {
            Some(AxesArgument(list)) => Axes::from(&list[..]),
            None => Axes::All,
        };
        self.map_along(py, axes.clone(), |x| {
            let named = axes.resolve(x.shape(), "squeeze")?;
            let ones: Vec<usize> = named.iter().filter(|&axis| x.dims()[axis] == 1).collect();
            x.squeeze(Axes::from(&ones[..]))
        })
    }

    /// Called by the in-place versions of views: this tensor takes the layout of `view`, a view of
    /// it.
    fn _take_layout<'py>(slf: &Bound<'py, Self>, view: Bound<'_, PyTensor>) -> Outcome<Bound<'py, Self>> {
        slf.get().take_layout_of(view.get())?;
        Ok(slf.clone())
    }

    /// Inserts an axis of size 1 at `dim`.
    ///
    /// Shapes: [..] -> [.., 1, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     TypeError: no `dim`.
    #[pyo3(signature = (dim=None, *, axis=None))]
    fn unsqueeze(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::unsqueeze)] dim: Option<isize>,
        #[pyo3(from_py_with = of::unsqueeze)] axis: Option<isize>,
    ) -> Outcome<PyTensor> {
        let dim = required_dim("unsqueeze", dim, axis)?;
        self.map(py, |x| x.unsqueeze(dim))
    }

    /// Returns a view with axes of size 1 broadcast to these sizes; -1 keeps a size.
    ///
    /// Shapes: [.., 1, ..] -> [.., n, ..]; new axes come first
    ///
    /// Raises:
    ///     ValueError: a size other than 1 that differs from the requested one.
    #[pyo3(signature = (*sizes, size=None))]
    fn expand(
        &self,
        py: Python<'_>,
        sizes: &Bound<'_, PyTuple>,
        size: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        let sizes = extract_int_args(&args_or_keyword("expand", sizes, ("size", size))?, "expand")?;
        self.map(py, |x| {
            let lead = sizes.len().saturating_sub(x.rank());
            let size = |(axis, &size): (usize, &isize)| match size {
                -1 if axis >= lead => Ok(x.dims()[axis - lead]),
                size => usize::try_from(size).map_err(|_| {
                    let message = format!("a size of {size} for axis {axis} of shape {:?}", x.dims());
                    ternion::Error::invalid("expand", message)
                }),
            };
            let shape: Vec<usize> = sizes.iter().enumerate().map(size).collect::<Result<_>>()?;
            x.expand(&shape[..])
        })
    }

    /// Returns a view broadcast to the shape of `other`.
    ///
    /// Shapes: [.., 1, ..] and other [.., n, ..] -> [.., n, ..]
    ///
    /// Raises:
    ///     ValueError: a size other than 1 that differs from that of `other`.
    fn expand_as(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::expand_as)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let shape = *other.get().tensor().shape();
        self.map(py, |x| x.expand(shape).with_op("expand_as"))
    }

    /// Repeats the tensor along each axis the given number of times; a copy.
    ///
    /// Shapes: [m, n] by (a, b) -> [a * m, b * n]; new axes come first
    ///
    /// Raises:
    ///     ValueError: fewer counts than axes, or a negative count.
    #[pyo3(signature = (*counts, repeats=None))]
    fn repeat(
        &self,
        py: Python<'_>,
        counts: &Bound<'_, PyTuple>,
        repeats: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        let counts = extract_sizes(&args_or_keyword("repeat", counts, ("repeats", repeats))?, "repeat")?;
        self.map_copied(py, |x| {
            let mut x = x.clone();
            while x.rank() < counts.len() {
                x = x.unsqueeze(0)?;
            }
            x.repeat(&counts)
        })
    }

    /// Returns a view of `length` elements of axis `dim` from `start` on.
    ///
    /// Shapes: [.., n, ..] -> [.., length, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or a start before the first element.
    ///     ValueError: a range beyond the last element, or a negative length.
    ///     TypeError: a start that is not an integer.
    fn narrow(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::narrow)] dim: isize,
        start: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = of::narrow)] length: Count,
    ) -> Outcome<PyTensor> {
        if start.cast::<PyTensor>().is_ok_and(|start| start.get().tensor().dtype() == ternion::DType::Bool) {
            return Err(RaisedError::type_error("narrow: start is a bool tensor, expected an integer"));
        }
        let (start, Count(length)): (isize, _) = (of::narrow(start)?, length);
        self.map(py, |x| {
            let axis = ternion::Axis(dim).resolve(x.shape(), "narrow")?;
            let size = x.dims()[axis] as isize;
            let from = if start < 0 { start + size } else { start };
            let from = usize::try_from(from).map_err(|_| ternion::Error::IndexOutOfRange {
                op: "narrow",
                index: start as i64,
                size: size as usize,
            })?;
            x.narrow(axis, from, length)
        })
    }

    /// Returns a view of one element of axis `dim`, without that axis.
    ///
    /// Shapes: [.., n, ..] -> [..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or an index out of range.
    fn select(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::select)] dim: isize,
        #[pyo3(from_py_with = of::select)] index: isize,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| {
            let axis = ternion::Axis(dim).resolve(x.shape(), "select")?;
            let size = x.dims()[axis];
            let from_front = if index < 0 { index.saturating_add_unsigned(size) } else { index };
            match usize::try_from(from_front) {
                Ok(at) if at < size => x.select(axis, at),
                _ => Err(ternion::Error::IndexOutOfRange { op: "select", index: index as i64, size }),
            }
        })
    }

    /// Splits axis `dim` into parts of `split_size_or_sections` elements each, or of these sizes.
    ///
    /// Shapes: [.., n, ..] -> a tuple of [.., size, ..]; a last part may be smaller
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: parts of size 0, or sizes whose sum is not the size of the axis.
    #[pyo3(signature = (split_size_or_sections=None, dim=0, *, split_size=None))]
    fn split<'py>(
        &self,
        py: Python<'py>,
        split_size_or_sections: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::split)] dim: isize,
        split_size: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyTuple>> {
        let x = self.tensor();
        let split_size_or_sections = match (split_size_or_sections, split_size) {
            (Some(sizes), None) | (None, Some(sizes)) => sizes,
            _ => {
                return Err(RaisedError::type_error("split: expected split_size_or_sections, or split_size"));
            }
        };
        let size = match split_size_or_sections.is_exact_instance_of::<PyBool>() {
            true => {
                return Err(RaisedError::type_error(
                    "split: split_size_or_sections is bool, expected integers",
                ));
            }
            false => split_size_or_sections.extract::<usize>(),
        };
        let parts = match size {
            Ok(size) => run(py, x.elements(), || x.split(dim, size))?,
            Err(_) => {
                let ShapeArgument(parts) = of::split(split_size_or_sections)?;
                run(py, x.elements(), || x.split_sizes(dim, &parts).with_op("split"))?
            }
        };
        wrap_views(self, &x, parts, py)
    }

    /// Splits axis `dim` into at most `chunks` equal parts; an axis without elements into exactly
    /// `chunks`.
    ///
    /// Shapes: [.., n, ..] -> a tuple of [.., size, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: 0 parts.
    #[pyo3(signature = (chunks, dim=0))]
    fn chunk<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::chunk)] chunks: Count,
        #[pyo3(from_py_with = of::chunk)] dim: isize,
    ) -> Outcome<Bound<'py, PyTuple>> {
        let (x, Count(chunks)) = (self.tensor(), chunks);
        let parts = run(py, x.elements(), || {
            let parts = x.chunk(dim, chunks)?;
            let is_empty = x.dims()[ternion::Axis(dim).resolve(x.shape(), "chunk")?] == 0;
            if is_empty && chunks > MAX_PARTS {
                let message = format!(
                    "{chunks} parts without elements, expected at most {MAX_PARTS}: each is a tensor"
                );
                return Err(Error::invalid("chunk", message));
            }
            Ok(if is_empty { vec![x.clone(); chunks] } else { parts })
        })?;
        wrap_views(self, &x, parts, py)
    }

    /// Returns views of all elements of axis `dim`, without that axis.
    ///
    /// Shapes: [.., n, ..] -> a tuple of n of [..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=0))]
    fn unbind<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::unbind)] dim: isize,
    ) -> Outcome<Bound<'py, PyTuple>> {
        let x = self.tensor();
        let parts = run(py, x.elements(), || {
            let axis = ternion::Axis(dim).resolve(x.shape(), "unbind")?;
            (0..x.dims()[axis]).map(|at| x.select(axis, at)).collect::<Result<Vec<_>>>()
        })?;
        wrap_views(self, &x, parts, py)
    }

    /// Shifts the elements along `dims`; elements shifted past one end reappear at the other end.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: different numbers of axes and shifts, or several shifts without axes.
    #[pyo3(signature = (shifts, dims=None))]
    fn roll(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::roll)] shifts: AxesArgument,
        #[pyo3(from_py_with = of::roll)] dims: Option<AxesArgument>,
    ) -> Outcome<PyTensor> {
        let Some(dims) = dims else {
            let [shift] = shifts.0[..] else {
                return Err(RaisedError::value_error("roll: several shifts need dims"));
            };
            return self.map(py, |x| x.reshape([-1_isize])?.roll(shift, 0)?.reshape(*x.shape()));
        };
        if dims.0.len() != shifts.0.len() {
            let message = format!("roll: {} shifts for {} axes", shifts.0.len(), dims.0.len());
            return Err(RaisedError::value_error(message));
        }
        self.map(py, |x| {
            shifts.0.iter().zip(&dims.0).try_fold(x.clone(), |x, (&shift, &dim)| x.roll(shift, dim))
        })
    }

    /// Reverses the order of the elements along these axes.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: an axis that occurs twice.
    #[pyo3(signature = (*dims, **named), text_signature = "($self, *dims)")]
    fn flip(
        &self,
        py: Python<'_>,
        dims: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<PyTensor> {
        let dims = extract_int_args(&args_or_kwargs(dims, named, "dims", "flip")?, "flip")?;
        self.map_along(py, &dims[..], |x| x.flip(&dims[..])?.copy())
    }

    /// Returns sliding windows of `size` elements along `dimension`, with distance `step`, in an
    /// additional last axis.
    ///
    /// Shapes: [.., n, ..] -> [.., windows, .., size]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: windows larger than the axis, or a step of 0.
    fn unfold(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::unfold)] dimension: isize,
        #[pyo3(from_py_with = of::unfold)] size: Count,
        #[pyo3(from_py_with = of::unfold)] step: Count,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| match is_scalar_axis(x, &dimension.into()) {
            true => x.reshape([1_usize])?.unfold(0, size.0, step.0)?.squeeze(0),
            false => x.unfold(dimension, size.0, step.0),
        })
    }

    /// Keeps the elements on and below a diagonal of the last two axes, and sets those above to
    /// zero.
    ///
    /// Shapes: [.., m, n] -> the same
    ///
    /// Raises:
    ///     ValueError: fewer than two axes.
    #[pyo3(signature = (diagonal=0))]
    fn tril(&self, py: Python<'_>, #[pyo3(from_py_with = of::tril)] diagonal: isize) -> Outcome<PyTensor> {
        self.map(py, |x| x.tril(diagonal))
    }

    /// Keeps the elements on and above a diagonal of the last two axes, and sets those below to
    /// zero.
    ///
    /// Shapes: [.., m, n] -> the same
    ///
    /// Raises:
    ///     ValueError: fewer than two axes.
    #[pyo3(signature = (diagonal=0))]
    fn triu(&self, py: Python<'_>, #[pyo3(from_py_with = of::triu)] diagonal: isize) -> Outcome<PyTensor> {
        self.map(py, |x| x.triu(diagonal))
    }

    /// Returns the tensor itself if it is contiguous, otherwise a contiguous copy.
    ///
    /// Shapes: [..] -> the same
    #[pyo3(signature = (*, memory_format=None))]
    fn contiguous<'py>(
        slf: &Bound<'py, Self>,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        // Memory formats are hints: elements are in row-major order in any case.
        let _ = memory_format;
        if slf.get().tensor().is_contiguous() {
            return Ok(slf.clone());
        }
        Ok(Bound::new(slf.py(), slf.get().map(slf.py(), Tensor::contiguous)?)?)
    }

    /// Returns a copy, through which gradients flow.
    ///
    /// Shapes: [..] -> the same
    #[pyo3(signature = (*, memory_format=None))]
    fn clone(&self, py: Python<'_>, memory_format: Option<&Bound<'_, PyAny>>) -> Outcome<PyTensor> {
        let _ = memory_format;
        self.map(py, Tensor::copy)
    }

    fn __copy__(&self) -> PyTensor {
        let tensor = self.tensor();
        self.wrap_view(&tensor, tensor.clone())
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyDict>) -> Outcome<PyTensor> {
        let (tensor, requires_grad) = (self.tensor(), self.tensor().is_leaf());
        let copy = wait(py, || tensor.detach().copy())?;
        crate::create::into_object(copy, requires_grad)
    }
}
