//! Comparisons, and selection by masks.

use crate::arguments::Operand;
use crate::create::{number_value, single_element_error};
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::promote::{Number, promote_pair, scalar_tensor_like, to_floating};
use crate::tensor::{PyTensor, is_recorded};
use pyo3::class::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ternion::{Closeness, DType, Result, Tensor};

/// Returns a fill value that is a tensor in the autograd graph, and `None` for other values. As a
/// number it would lose its gradient.
pub fn recorded_fill(value: &Bound<'_, PyAny>, function: &str) -> Outcome<Option<Tensor>> {
    let Ok(value) = value.cast::<PyTensor>() else { return Ok(None) };
    let value = value.get().tensor();
    if value.elements() != 1 {
        return Err(single_element_error(function, &value));
    }
    Ok(is_recorded(&[&value]).then_some(value))
}

/// Converts a tensor of one element to one without axes, with the device and dtype of `x`.
pub fn fill_like(value: &Tensor, x: &Tensor) -> Result<Tensor> {
    value.to_device(x.device())?.to_dtype(x.dtype())?.reshape(())
}

/// Expands `x` to the broadcast shape of `x` and a mask.
pub fn expand_with_mask(x: &Tensor, mask: &Tensor, function: &'static str) -> Result<Tensor> {
    match x.shape().broadcast(mask.shape(), function)? {
        shape if shape == *x.shape() => Ok(x.clone()),
        shape => x.expand(shape),
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self, other: &Bound<'_, PyAny>) -> Outcome<Py<PyAny>> {
                    self.compare_named(stringify!($name), other, CompareOp::$op)
                }
            )*
        }
    };
}

comparisons! {
    /// Computes elementwise equality with `other`, a tensor or a number; broadcast.
    eq => Eq;
    /// Computes `self != other` elementwise.
    ne => Ne;
    /// Computes `self < other` elementwise.
    lt => Lt;
    /// Computes `self <= other` elementwise.
    le => Le;
    /// Computes `self > other` elementwise.
    gt => Gt;
    /// Computes `self >= other` elementwise.
    ge => Ge;
}

macro_rules! logical {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self, py: Python<'_>, #[pyo3(from_py_with = of::$name)] other: Bound<'_, PyTensor>) -> Outcome<PyTensor> {
                    let other = other.get().tensor();
                    self.map(py, |x| x.ne_scalar(0)?.$name(&other.ne_scalar(0)?))
                }
            )*
        }
    };
}

logical! {
    /// Computes the logical AND; elements that are not 0 count as true.
    logical_and;
    /// Computes the logical OR; elements that are not 0 count as true.
    logical_or;
    /// Computes the logical XOR; elements that are not 0 count as true.
    logical_xor;
}

/// Converts two tensors to the dtype of their comparison: integers of different dtypes to i64, and
/// an integer compared with a float to a float.
fn promote_for_comparison(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    match [a, b].map(|x| x.dtype().is_float()) {
        [false, false] if a.dtype() == b.dtype() => Ok((a.clone(), b.clone())),
        [false, false] => Ok((a.to_dtype(DType::I64)?, b.to_dtype(DType::I64)?)),
        _ => promote_pair(&to_floating(a)?, &to_floating(b)?),
    }
}

/// Returns the operand as a tensor: a number gets the common dtype of itself and `x`.
fn operand_tensor(object: &Bound<'_, PyAny>, x: &Tensor) -> Outcome<Tensor> {
    match Operand::with_arrays(object, x)? {
        Some(Operand::Tensor(tensor)) => Ok(tensor),
        Some(Operand::Number(number)) => Ok(scalar_tensor_like(x, number)?),
        None => Err(where_type_error(object)),
    }
}

#[pymethods]
impl PyTensor {
    /// Returns a bool tensor that is True where an element is NaN.
    fn isnan(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::isnan)
    }

    /// Returns a bool tensor that is True where an element is infinite.
    fn isinf(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::isinf)
    }

    /// Returns a bool tensor that is True where an element is neither infinite nor NaN.
    fn isfinite(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::isfinite)
    }

    /// Returns a bool tensor that is True where an element is close to that of `other`: `|a - b| <=
    /// atol + rtol * |b|`.
    ///
    /// Raises:
    ///     ValueError: a negative tolerance, or shapes that do not broadcast.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn isclose(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::isclose)] other: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::isclose)] rtol: f64,
        #[pyo3(from_py_with = of::isclose)] atol: f64,
        #[pyo3(from_py_with = of::isclose)] equal_nan: bool,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_for_comparison(x, &other)?;
            x.isclose(&other, Closeness { rtol, atol, equal_nan })
        })
    }

    /// Returns whether all elements are close to those of `other`: `|a - b| <= atol + rtol * |b|`.
    ///
    /// Raises:
    ///     ValueError: a negative tolerance, or shapes that do not broadcast.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn allclose(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::allclose)] other: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::allclose)] rtol: f64,
        #[pyo3(from_py_with = of::allclose)] atol: f64,
        #[pyo3(from_py_with = of::allclose)] equal_nan: bool,
    ) -> Outcome<bool> {
        let (tensor, other) = (self.tensor(), other.get().tensor());
        wait(py, || {
            let (tensor, other) = promote_for_comparison(&tensor, &other)?;
            tensor.allclose(&other, Closeness { rtol, atol, equal_nan })
        })
    }

    /// Returns whether both tensors have the same shape and the same elements.
    fn equal(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::equal)] other: Bound<'_, PyTensor>,
    ) -> Outcome<bool> {
        let (tensor, other) = (self.tensor(), other.get().tensor());
        if tensor.shape() != other.shape() {
            return Ok(false);
        }
        wait(py, || {
            let (a, b) = promote_pair(&tensor, &other)?;
            a.equal(&b)
        })
    }

    /// Computes the elementwise maximum, broadcast; if one element is NaN, the result is the other
    /// one. At ties the gradient flows to this tensor.
    ///
    /// Shapes: two tensors, broadcast -> the broadcast shape
    ///
    /// Raises:
    ///     ValueError: shapes that do not broadcast.
    fn fmax(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::fmax)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            if x.dtype() == DType::Bool { x.logical_or(&other) } else { x.fmax(&other) }
        })
    }

    /// Computes the elementwise minimum, broadcast; if one element is NaN, the result is the other
    /// one. At ties the gradient flows to this tensor.
    ///
    /// Shapes: two tensors, broadcast -> the broadcast shape
    ///
    /// Raises:
    ///     ValueError: shapes that do not broadcast.
    fn fmin(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::fmin)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            if x.dtype() == DType::Bool { x.logical_and(&other) } else { x.fmin(&other) }
        })
    }

    /// Computes the elementwise maximum, broadcast; NaN if either element is NaN.
    fn maximum(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::maximum)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            x.maximum(&other)
        })
    }

    /// Computes the elementwise minimum, broadcast; NaN if either element is NaN.
    fn minimum(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::minimum)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            x.minimum(&other)
        })
    }

    /// Returns a copy with `value` where the mask is True; broadcast. If `value` is a tensor, a
    /// gradient flows to it.
    fn masked_fill(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::masked_fill)] mask: Bound<'_, PyTensor>,
        value: &Bound<'_, PyAny>,
    ) -> Outcome<PyTensor> {
        let mask = mask.get().tensor();
        if let Some(value) = recorded_fill(value, "masked_fill")? {
            return self.map(py, |x| mask.where_(&fill_like(&value, x)?, x).with_op("masked_fill"));
        }
        let value = number_value(value, "masked_fill")?.scalar();
        self.map(py, |x| {
            expand_with_mask(x, &mask, "masked_fill")?.masked_fill(&mask, value).with_op("masked_fill")
        })
    }

    /// Writes `value` where the mask is True, in place, and returns the tensor. If `value` is a
    /// tensor, a gradient flows to it.
    fn masked_fill_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::masked_fill_)] mask: Bound<'py, PyTensor>,
        value: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, Self>> {
        let mask = mask.get().tensor();
        if let Some(value) = recorded_fill(value, "masked_fill_")? {
            let filled = |x: &Tensor| mask.where_(&fill_like(&value, x)?, x).with_op("masked_fill_");
            return PyTensor::change(slf, &[&value], filled, |x| x.copy_(&filled(x)?));
        }
        let value = number_value(value, "masked_fill_")?.scalar();
        PyTensor::change(
            slf,
            &[],
            |x| x.masked_fill(&mask, value).with_op("masked_fill_"),
            |x| x.masked_fill_(&mask, value).with_op("masked_fill_"),
        )
    }

    /// Returns the elements where the mask is True, in row-major order, as a 1-D tensor.
    fn masked_select(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::masked_select)] mask: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (tensor, mask) = (self.tensor(), mask.get().tensor());
        wait(py, || tensor.masked_select(&mask)).map(PyTensor::new)
    }

    /// Returns the indices (int64) of all elements that are not 0: one row per element, or with
    /// `as_tuple` one tensor per axis.
    #[pyo3(signature = (*, as_tuple=false))]
    fn nonzero<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::nonzero)] as_tuple: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let own = self.tensor();
        // As in PyTorch, a tensor without axes has one index in the tuple.
        let own = if as_tuple && own.rank() == 0 { own.reshape([1])? } else { own };
        let indices = wait(py, || own.nonzero()?.to_dtype(DType::I64))?;
        if !as_tuple {
            return Ok(Bound::new(py, PyTensor::new(indices))?.into_any());
        }
        let columns =
            wait(py, || (0..own.rank()).map(|axis| indices.select(1, axis)).collect::<Result<Vec<_>>>())?;
        let objects: PyResult<Vec<_>> =
            columns.into_iter().map(|column| Bound::new(py, PyTensor::new(column))).collect();
        Ok(PyTuple::new(py, objects?)?.into_any())
    }

    /// Returns the elements of this tensor where the condition is True, and those of `other`
    /// elsewhere; broadcast.
    #[pyo3(name = "where")]
    fn where_method(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::r#where)] condition: Bound<'_, PyTensor>,
        other: &Bound<'_, PyAny>,
    ) -> Outcome<PyTensor> {
        let (tensor, condition) = (self.tensor(), condition.get().tensor());
        let other = operand_tensor(other, &tensor)?;
        select_where(py, &condition, &tensor, &other)
    }
}

fn select_where(py: Python<'_>, condition: &Tensor, a: &Tensor, b: &Tensor) -> Outcome<PyTensor> {
    if !matches!(condition.dtype(), DType::Bool | DType::U8) {
        let name = crate::dialect::dtype_name(condition.dtype());
        return Err(RaisedError::type_error(format!("where: a condition of {name}, expected bool")));
    }
    let elements = condition.elements().max(a.elements()).max(b.elements());
    let result = run(py, elements, || {
        let (a, b) = promote_pair(a, b)?;
        condition.ne_scalar(0)?.where_(&a, &b)
    });
    result.map(PyTensor::new)
}

fn where_type_error(object: &Bound<'_, PyAny>) -> RaisedError {
    match object.get_type().name() {
        Ok(kind) => RaisedError::type_error(format!("where: expected tensors or numbers, got {kind}")),
        Err(error) => error.into(),
    }
}

/// Converts the two operands of a `where` to tensors.
fn where_operands(
    condition: &Tensor,
    input: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
) -> Outcome<(Tensor, Tensor)> {
    match (Operand::of(input)?, Operand::of(other)?) {
        (Some(Operand::Tensor(a)), _) => {
            let b = operand_tensor(other, &a)?;
            Ok((a, b))
        }
        (Some(Operand::Number(a)), Some(Operand::Tensor(b))) => Ok((scalar_tensor_like(&b, a)?, b)),
        (Some(Operand::Number(a)), Some(Operand::Number(b))) => {
            let scalar_tensor =
                |number: Number| Tensor::full((), number.scalar(), number.dtype(), condition.device());
            Ok((scalar_tensor(a)?, scalar_tensor(b)?))
        }
        (Some(_), None) => Err(where_type_error(other)),
        (None, _) => Err(where_type_error(input)),
    }
}

/// Returns the elements of `input` where the condition is True, and those of `other` elsewhere;
/// broadcast. Both may be numbers.
///
/// With only a condition: returns the indices (int64) where it is True, one tensor per axis.
///
/// Shapes: condition, input and other, broadcast -> the broadcast shape; only a condition -> one
/// [n] for each axis
///
/// Raises:
///     TypeError: a condition for `input` and `other` that is neither bool nor uint8, or only one
///         of `input` and `other`.
///     ValueError: shapes that do not broadcast.
#[pyfunction]
#[pyo3(name = "where", signature = (condition, input=None, other=None))]
fn where_function<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = of::r#where)] condition: Bound<'py, PyTensor>,
    input: Option<&Bound<'py, PyAny>>,
    other: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyAny>> {
    let (input, other) = match (input, other) {
        (None, None) => return condition.get().nonzero(py, true),
        (Some(input), Some(other)) => (input, other),
        _ => {
            return Err(RaisedError::type_error("where: expected only a condition, or also input and other"));
        }
    };
    let condition = condition.get().tensor();
    let (a, b) = where_operands(&condition, input, other)?;
    Ok(Bound::new(py, select_where(py, &condition, &a, &b)?)?.into_any())
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(where_function, module)?)
}
