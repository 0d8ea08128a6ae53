//! Values that are written or added at indices: `scatter` and related methods.

use super::index::{apply_add, apply_add_in_place, apply_scatter, apply_scatter_in_place};
use crate::arguments::Operand;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{Result, ScatterReduction, Tensor};

#[pymethods]
impl PyTensor {
    /// Writes `src`, a tensor or a number, to a copy of this tensor at the positions `index` along
    /// `dim`.
    ///
    /// Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] (if it is larger, only the first
    /// elements are used) -> [.., n, ..]
    ///
    /// Args:
    ///     reduce: "add" adds to the current values, "multiply" multiplies them.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or an index out of range.
    ///     TypeError: an index that is not int32 or int64, a source of another dtype, both `src`
    ///         and `value`, or neither.
    ///     ValueError: incompatible shapes.
    #[pyo3(signature = (dim, index, src=None, *, value=None, reduce=None))]
    fn scatter(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::scatter)] dim: isize,
        #[pyo3(from_py_with = of::scatter)] index: Bound<'_, PyTensor>,
        src: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = of::scatter)] reduce: Option<String>,
    ) -> Outcome<PyTensor> {
        let (x, index) = (self.tensor(), index.get().tensor());
        let source = extract_source("scatter", (src, value), &x, &index)?;
        let mode = parse_scatter_mode("scatter", reduce.as_deref())?;
        let put = || match mode {
            ScatterMode::Set => apply_scatter(&x, dim, &index, &source, Tensor::scatter),
            ScatterMode::Add => apply_add(&x, dim, &index, &source, Tensor::scatter_add),
            ScatterMode::Multiply => scatter_multiply(&x, dim, &index, &source),
        };
        run(py, x.elements(), put).map(PyTensor::new)
    }

    /// `scatter` in place.
    ///
    /// Shapes and errors are those of `scatter`
    ///
    /// Raises:
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (dim, index, src=None, *, value=None, reduce=None))]
    fn scatter_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::scatter_)] dim: isize,
        #[pyo3(from_py_with = of::scatter_)] index: Bound<'py, PyTensor>,
        src: Option<&Bound<'py, PyAny>>,
        value: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::scatter_)] reduce: Option<String>,
    ) -> Outcome<Bound<'py, Self>> {
        let (x, index) = (slf.get().tensor(), index.get().tensor());
        let source = extract_source("scatter_", (src, value), &x, &index)?;
        let mode = parse_scatter_mode("scatter_", reduce.as_deref())?;
        let put = |x: &Tensor| match mode {
            ScatterMode::Set => apply_scatter(x, dim, &index, &source, Tensor::scatter),
            ScatterMode::Add => apply_add(x, dim, &index, &source, Tensor::scatter_add),
            ScatterMode::Multiply => scatter_multiply(x, dim, &index, &source),
        };
        PyTensor::change(slf, &[&source], put, |x| match mode {
            ScatterMode::Set => apply_scatter_in_place(x, dim, &index, &source, Tensor::scatter_),
            ScatterMode::Add => {
                apply_add_in_place(x, dim, &index, &source, Tensor::scatter_add, Tensor::scatter_add_)
            }
            ScatterMode::Multiply => x.copy_(&put(x)?),
        })
    }

    /// Adds the elements of `src` to a copy of this tensor at the positions `index` along `dim`.
    ///
    /// Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] (if it is larger, only the first
    /// elements are used) -> [.., n, ..]
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist, or an index out of range.
    ///     TypeError: an index that is not int32 or int64, or a source of another dtype.
    ///     ValueError: incompatible shapes.
    fn scatter_add(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::scatter_add)] dim: isize,
        #[pyo3(from_py_with = of::scatter_add)] index: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::scatter_add)] src: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let index = index.get().tensor();
        let source = narrow_to_index(&src.get().tensor(), &index)?;
        self.map(py, |x| apply_add(x, dim, &index, &source, Tensor::scatter_add))
    }

    /// `scatter_add` in place.
    ///
    /// Shapes and errors are those of `scatter_add`
    ///
    /// Raises:
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    fn scatter_add_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::scatter_add_)] dim: isize,
        #[pyo3(from_py_with = of::scatter_add_)] index: Bound<'py, PyTensor>,
        #[pyo3(from_py_with = of::scatter_add_)] src: Bound<'py, PyTensor>,
    ) -> Outcome<Bound<'py, Self>> {
        let index = index.get().tensor();
        let source = narrow_to_index(&src.get().tensor(), &index)?;
        PyTensor::change(
            slf,
            &[&source],
            |x| apply_add(x, dim, &index, &source, Tensor::scatter_add),
            |x| apply_add_in_place(x, dim, &index, &source, Tensor::scatter_add, Tensor::scatter_add_),
        )
    }
}

/// The operation that combines scattered values with the current ones.
#[derive(Clone, Copy)]
enum ScatterMode {
    Set,
    Add,
    Multiply,
}

/// Returns the operation from PyTorch's name.
fn parse_scatter_mode(op: &str, reduce: Option<&str>) -> Outcome<ScatterMode> {
    match reduce {
        None => Ok(ScatterMode::Set),
        Some("add") => Ok(ScatterMode::Add),
        Some("multiply") => Ok(ScatterMode::Multiply),
        Some(other) => {
            let message = format!("{op}: reduce {other:?}, expected \"add\", \"multiply\" or None");
            Err(RaisedError::value_error(message))
        }
    }
}

/// Multiplies the elements at the indices by the scattered values.
fn scatter_multiply(x: &Tensor, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    apply_scatter(x, dim, index, source, |x, dim, index, source| {
        x.scatter_reduce(dim, index, source, ScatterReduction::Prod, true)
    })
}

/// Returns the part of a source that has indices, if the source is larger along some axes, as in
/// PyTorch.
fn narrow_to_index(source: &Tensor, index: &Tensor) -> Result<Tensor> {
    let fits = |(length, count): (&usize, &usize)| length >= count;
    let is_larger = source.rank() == index.rank()
        && source.dims() != index.dims()
        && source.dims().iter().zip(index.dims()).all(fits);
    if !is_larger {
        return Ok(source.clone());
    }
    let mut lengths = index.dims().iter().enumerate();
    lengths.try_fold(source.clone(), |part, (axis, &length)| part.narrow(axis as isize, 0, length))
}

/// Returns the scattered values: a tensor, or a number for all indices.
fn extract_source(
    op: &str,
    arguments: (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
    x: &Tensor,
    index: &Tensor,
) -> Outcome<Tensor> {
    let src = match arguments {
        (Some(src), None) => src,
        (None, Some(value)) => {
            let number = crate::create::number_argument(value, op)?;
            return Ok(Tensor::full(*index.shape(), number.scalar(), x.dtype(), x.device())?);
        }
        _ => return Err(RaisedError::type_error(format!("{op}: expected either src or value"))),
    };
    match Operand::of(src)? {
        Some(Operand::Tensor(tensor)) => Ok(narrow_to_index(&tensor, index)?),
        Some(Operand::Number(number)) => {
            Ok(Tensor::full(*index.shape(), number.scalar(), x.dtype(), x.device())?)
        }
        None => {
            let kind = src.get_type().name()?.to_string();
            Err(RaisedError::type_error(format!("{op}: expected a tensor or a number, got {kind}")))
        }
    }
}
