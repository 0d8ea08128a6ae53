//! Shape changes, stacking, splitting and access to elements by index, from the core's `functions`.
//! The functions of `ternion/_functions` call them and define the default values.

use super::TensorArgument;
use super::join::{extract_tensors, extract_unpromoted_tensors, join_tensors};
use super::views::wrap_views;
use crate::arguments::{Real, checked_size, extract_ints};
use crate::create::number_argument;
use crate::device::{DeviceArgument, or_default};
use crate::error::{Outcome, RaisedError};
use crate::gil::{run, wait};
use crate::promote::promote_pair;
use crate::random::{PyGenerator, RandomSource};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ternion::{Axis, DType, MeshgridIndexing, PadSequenceOptions, Result, Sections, Shape, Tensor};

/// Returns the index tensor of another tensor. Without elements any dtype is accepted, as in
/// PyTorch.
fn index_tensor(index: TensorArgument<'_, '_>) -> Outcome<Tensor> {
    let index = index.get().tensor();
    Ok(if index.elements() == 0 { index.to_dtype(DType::I64)? } else { index })
}

/// Runs `f` on several tensors. `f` returns one result for each tensor, which may be a view of it.
fn map_each<'py>(
    py: Python<'py>,
    tensors: &[Bound<'py, PyTensor>],
    f: impl FnOnce(&[&Tensor]) -> Result<Vec<Tensor>> + Send,
) -> Outcome<Bound<'py, PyTuple>> {
    let inputs: Vec<Tensor> = tensors.iter().map(|tensor| tensor.get().tensor()).collect();
    let results = run(py, 0, || f(&inputs.iter().collect::<Vec<_>>()))?;
    let pairs = tensors.iter().zip(&inputs).zip(results);
    let objects: PyResult<Vec<_>> =
        pairs.map(|((tensor, x), result)| Bound::new(py, tensor.get().wrap_view(x, result))).collect();
    Ok(PyTuple::new(py, objects?)?)
}

/// The number of parts, or the indices at which they begin.
enum SplitSections {
    Count(usize),
    At(Vec<isize>),
}

impl SplitSections {
    fn of(function: &str, object: &Bound<'_, PyAny>) -> Outcome<SplitSections> {
        Ok(match object.extract::<usize>() {
            Ok(count) => SplitSections::Count(count),
            Err(_) => SplitSections::At(extract_ints(object, function)?),
        })
    }

    fn sections(&self) -> Sections<'_> {
        match self {
            SplitSections::Count(count) => Sections::Count(*count),
            SplitSections::At(indices) => Sections::At(indices),
        }
    }
}

#[pymethods]
impl PyTensor {
    fn _atleast(&self, py: Python<'_>, rank: usize) -> Outcome<PyTensor> {
        self.map(py, |x| match rank {
            1 => x.atleast_1d(),
            2 => x.atleast_2d(),
            _ => x.atleast_3d(),
        })
    }

    fn _diagonal(&self, py: Python<'_>, offset: isize, axes: (isize, isize)) -> Outcome<PyTensor> {
        self.map(py, |x| x.diagonal(offset, axes.0, axes.1))
    }

    fn _diag_embed(&self, py: Python<'_>, offset: isize, axes: (isize, isize)) -> Outcome<PyTensor> {
        self.map(py, |x| x.diag_embed(offset, axes.0, axes.1))
    }

    fn _diag(&self, py: Python<'_>, offset: isize) -> Outcome<PyTensor> {
        self.map(py, |x| x.diag(offset))
    }

    fn _diagflat(&self, py: Python<'_>, offset: isize) -> Outcome<PyTensor> {
        self.map(py, |x| x.diagflat(offset))
    }

    fn _trace(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::trace)
    }

    fn _fill_diagonal_<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        wrap: bool,
    ) -> Outcome<Bound<'py, Self>> {
        let value = number_argument(value, "fill_diagonal_")?.scalar();
        PyTensor::change(
            slf,
            &[],
            |x| x.fill_diagonal(value, wrap),
            |x| x.copy_(&x.fill_diagonal(value, wrap)?),
        )
    }

    fn _movedim(&self, py: Python<'_>, from: Vec<isize>, to: Vec<isize>) -> Outcome<PyTensor> {
        self.map(py, |x| x.movedim(&from, &to))
    }

    fn _tile(&self, py: Python<'_>, counts: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
        let counts = extract_ints(counts, "tile")?;
        let counts =
            counts.into_iter().map(|count| checked_size(count, "tile")).collect::<Outcome<Vec<_>>>()?;
        self.map_copied(py, |x| x.tile(&counts))
    }

    fn _repeat_interleave(
        &self,
        py: Python<'_>,
        repeats: &Bound<'_, PyAny>,
        dim: Option<isize>,
    ) -> Outcome<PyTensor> {
        let axis = dim.map(Axis);
        match repeats.cast::<PyTensor>() {
            Ok(repeats) => {
                let repeats = index_tensor(repeats)?;
                self.map_copied(py, |x| x.repeat_interleave(&repeats, axis))
            }
            Err(_) => {
                let count: usize = repeats.extract()?;
                self.map_copied(py, |x| x.repeat_interleave(count, axis))
            }
        }
    }

    fn _fliplr(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| x.fliplr()?.copy())
    }

    fn _flipud(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| x.flipud()?.copy())
    }

    fn _rot90(&self, py: Python<'_>, turns: isize, axes: (isize, isize)) -> Outcome<PyTensor> {
        self.map(py, |x| x.rot90(turns, axes.0, axes.1))
    }

    fn _sum_to_size(&self, py: Python<'_>, shape: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
        let name = "sum_to_size";
        let shape = extract_ints(shape, name)?;
        let shape =
            shape.into_iter().map(|number| checked_size(number, name)).collect::<Outcome<Vec<_>>>()?;
        self.map(py, |x| x.sum_to_size(&shape))
    }

    fn _unravel_index<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyTuple>> {
        let name = "unravel_index";
        let shape = extract_ints(shape, name)?;
        let shape =
            shape.into_iter().map(|number| checked_size(number, name)).collect::<Outcome<Vec<_>>>()?;
        let x = self.tensor();
        let indices = run(py, x.elements(), || x.unravel_index(&shape))?;
        wrap_views(self, &x, indices, py)
    }

    /// Splits the tensor by the function of this name.
    fn _split_by<'py>(
        &self,
        py: Python<'py>,
        function: &str,
        sections: &Bound<'py, PyAny>,
        dim: isize,
    ) -> Outcome<Bound<'py, PyTuple>> {
        let (x, parts) = (self.tensor(), SplitSections::of(function, sections)?);
        let parts = run(py, x.elements(), || match function {
            "hsplit" => x.hsplit(parts.sections()),
            "vsplit" => x.vsplit(parts.sections()),
            "dsplit" => x.dsplit(parts.sections()),
            _ => x.tensor_split(parts.sections(), dim),
        })?;
        wrap_views(self, &x, parts, py)
    }

    fn _kron(&self, py: Python<'_>, other: &Bound<'_, PyTensor>) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            x.kron(&other)
        })
    }

    fn _take_along_dim(
        &self,
        py: Python<'_>,
        indices: TensorArgument<'_, '_>,
        dim: Option<isize>,
    ) -> Outcome<PyTensor> {
        let indices = index_tensor(indices)?;
        self.map(py, |x| x.take_along_dim(&indices, dim.map(Axis)))
    }

    fn _take(&self, py: Python<'_>, index: TensorArgument<'_, '_>) -> Outcome<PyTensor> {
        let index = index_tensor(index)?;
        self.map(py, |x| x.take(&index))
    }

    fn _put(
        &self,
        py: Python<'_>,
        index: TensorArgument<'_, '_>,
        source: TensorArgument<'_, '_>,
        accumulate: bool,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index_tensor(index)?, source.get().tensor());
        self.map(py, |x| x.put(&index, &source, accumulate))
    }

    fn _index_copy(
        &self,
        py: Python<'_>,
        dim: isize,
        index: TensorArgument<'_, '_>,
        source: TensorArgument<'_, '_>,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index_tensor(index)?, source.get().tensor());
        self.map(py, |x| x.index_copy(dim, &index, &source))
    }

    fn _index_fill(
        &self,
        py: Python<'_>,
        dim: isize,
        index: TensorArgument<'_, '_>,
        value: TensorArgument<'_, '_>,
    ) -> Outcome<PyTensor> {
        let (index, value) = (index_tensor(index)?, value.get().tensor());
        self.map(py, |x| x.index_fill(dim, &index, &value))
    }

    fn _multinomial(
        &self,
        py: Python<'_>,
        count: usize,
        replacement: bool,
        generator: Option<&Bound<'_, PyGenerator>>,
    ) -> Outcome<PyTensor> {
        let x = self.tensor();
        let source = RandomSource::of(generator, x.device())?;
        let draw = || source.draw(x.device(), || x.multinomial(count, replacement))?.to_dtype(DType::I64);
        wait(py, draw).map(PyTensor::new)
    }
}

/// Joins the tensors of a list by the function of this name.
#[pyfunction]
fn _stack_by(py: Python<'_>, function: &str, tensors: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
    let stack = match function {
        "hstack" => Tensor::hstack,
        "vstack" => Tensor::vstack,
        "dstack" => Tensor::dstack,
        "column_stack" => Tensor::column_stack,
        "block_diag" => Tensor::block_diag,
        "cartesian_prod" => Tensor::cartesian_prod,
        _ => return Err(RaisedError::value_error(format!("no function {function} of tensors of a list"))),
    };
    join_tensors(py, extract_tensors(tensors, function)?, stack)
}

/// Pads sequences to one batch, with the dtype of the first.
#[pyfunction]
fn _pad_sequence(
    py: Python<'_>,
    sequences: &Bound<'_, PyAny>,
    batch_first: bool,
    at_front: bool,
    value: Real,
) -> Outcome<PyTensor> {
    let options = PadSequenceOptions { batch_first, at_front, value: value.0 };
    join_tensors(py, extract_unpromoted_tensors(sequences, "pad_sequence")?, |sequences| {
        let dtype = sequences[0].dtype();
        let converted =
            sequences.iter().map(|sequence| sequence.to_dtype(dtype)).collect::<Result<Vec<_>>>()?;
        Tensor::pad_sequence(&converted.iter().collect::<Vec<_>>(), options)
    })
}

#[pyfunction]
fn _broadcast_tensors<'py>(
    py: Python<'py>,
    tensors: Vec<Bound<'py, PyTensor>>,
) -> Outcome<Bound<'py, PyTuple>> {
    map_each(py, &tensors, Tensor::broadcast_tensors)
}

#[pyfunction]
fn _broadcast_shapes(shapes: Vec<Vec<isize>>) -> Outcome<Vec<usize>> {
    let name = "broadcast_shapes";
    let shape = |dims: Vec<isize>| -> Outcome<Shape> {
        let dims = dims.into_iter().map(|number| checked_size(number, name)).collect::<Outcome<Vec<_>>>()?;
        Ok(Shape::new(&dims)?)
    };
    let shapes = shapes.into_iter().map(shape).collect::<Outcome<Vec<_>>>()?;
    Ok(ternion::broadcast_shapes(&shapes)?.dims().to_vec())
}

#[pyfunction]
fn _meshgrid<'py>(
    py: Python<'py>,
    tensors: Vec<Bound<'py, PyTensor>>,
    indexing: &str,
) -> Outcome<Bound<'py, PyTuple>> {
    let indexing = match indexing {
        "ij" => MeshgridIndexing::Ij,
        "xy" => MeshgridIndexing::Xy,
        other => {
            return Err(RaisedError::value_error(format!(
                "meshgrid: indexing {other:?}, expected \"ij\" or \"xy\""
            )));
        }
    };
    map_each(py, &tensors, |tensors| Tensor::meshgrid(tensors, indexing))
}

/// Returns the indices of a triangle of a matrix, int64.
#[pyfunction]
fn _triangle(
    py: Python<'_>,
    is_lower: bool,
    sizes: (isize, isize),
    offset: isize,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let name = if is_lower { "tril_indices" } else { "triu_indices" };
    let (rows, columns) = (checked_size(sizes.0, name)?, checked_size(sizes.1, name)?);
    let device = or_default(py, device)?;
    let make = if is_lower { Tensor::tril_indices } else { Tensor::triu_indices };
    run(py, rows.saturating_mul(columns), || make(rows, columns, offset, &device)?.to_dtype(DType::I64))
        .map(PyTensor::new)
}

/// Adds the functions that are not methods to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_stack_by, module)?)?;
    module.add_function(wrap_pyfunction!(_pad_sequence, module)?)?;
    module.add_function(wrap_pyfunction!(_broadcast_tensors, module)?)?;
    module.add_function(wrap_pyfunction!(_broadcast_shapes, module)?)?;
    module.add_function(wrap_pyfunction!(_meshgrid, module)?)?;
    module.add_function(wrap_pyfunction!(_triangle, module)?)
}
