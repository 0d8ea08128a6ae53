//! Comparisons, and what is chosen by them.

use crate::arguments::Operand;
use crate::create::{one_expected, value_of};
use crate::error::{Called, Failure, Outcome};
use crate::expected::of;
use crate::promote::{Number, beside, floating, meet};
use crate::run::{run, wait};
use crate::tensor::{PyTensor, is_recorded};
use pyo3::class::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ternion::{Closeness, DType, Result, Tensor};

/// A value to fill with that is a tensor to which a gradient flows: as a number it would be lost.
pub fn recorded_fill(value: &Bound<'_, PyAny>, function: &str) -> Outcome<Option<Tensor>> {
    let Ok(value) = value.cast::<PyTensor>() else { return Ok(None) };
    let value = value.get().tensor();
    if value.elements() != 1 {
        return Err(one_expected(function, &value));
    }
    Ok(is_recorded(&[&value]).then_some(value))
}

/// A tensor of one element without axes, on the device and in the dtype of `x`.
pub fn fill_like(value: &Tensor, x: &Tensor) -> Result<Tensor> {
    value.to_device(x.device())?.to_dtype(x.dtype())?.reshape(())
}

/// `x` in the shape that it and a mask have together.
pub fn spread_over(x: &Tensor, mask: &Tensor, function: &'static str) -> Result<Tensor> {
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
    /// Where the elements are equal to those of `other`, a tensor or a number; broadcast.
    eq => Eq;
    /// Where the elements are not equal to those of `other`.
    ne => Ne;
    /// Where the elements are less than those of `other`.
    lt => Lt;
    /// Where the elements are at most those of `other`.
    le => Le;
    /// Where the elements are greater than those of `other`.
    gt => Gt;
    /// Where the elements are at least those of `other`.
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
    /// Where both are true, or not 0.
    logical_and;
    /// Where at least one is true, or not 0.
    logical_or;
    /// Where exactly one is true, or not 0.
    logical_xor;
}

/// Both in one dtype, as they are compared: integers of two dtypes in i64, a number beside a float as one.
fn comparable(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    match [a, b].map(|x| x.dtype().is_float()) {
        [false, false] if a.dtype() == b.dtype() => Ok((a.clone(), b.clone())),
        [false, false] => Ok((a.to_dtype(DType::I64)?, b.to_dtype(DType::I64)?)),
        _ => meet(&floating(a)?, &floating(b)?),
    }
}

/// A tensor, or an array or a number as one beside `x`.
fn tensor_of(object: &Bound<'_, PyAny>, x: &Tensor) -> Outcome<Tensor> {
    match Operand::beside(object, x)? {
        Some(Operand::Tensor(tensor)) => Ok(tensor),
        Some(Operand::Number(number)) => Ok(beside(x, number)?),
        None => Err(no_choice(object)),
    }
}

#[pymethods]
impl PyTensor {
    /// Where the elements are NaN.
    fn isnan(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::isnan)
    }

    /// Where the elements are infinite.
    fn isinf(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::isinf)
    }

    /// Where the elements are neither infinite nor NaN.
    fn isfinite(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::isfinite)
    }

    /// Where the elements are near those of `other`: `|a - b| <= atol + rtol * |b|`.
    ///
    /// Raises:
    ///     ValueError: a tolerance below 0, shapes that do not broadcast.
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
            let (x, other) = comparable(x, &other)?;
            x.isclose(&other, Closeness { rtol, atol, equal_nan })
        })
    }

    /// Whether all elements are near those of `other`: `|a - b| <= atol + rtol * |b|`.
    ///
    /// Raises:
    ///     ValueError: a tolerance below 0, shapes that do not broadcast.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn allclose(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::allclose)] other: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::allclose)] rtol: f64,
        #[pyo3(from_py_with = of::allclose)] atol: f64,
        #[pyo3(from_py_with = of::allclose)] equal_nan: bool,
    ) -> Outcome<bool> {
        let (own, other) = (self.tensor(), other.get().tensor());
        wait(py, || {
            let (own, other) = comparable(&own, &other)?;
            own.allclose(&other, Closeness { rtol, atol, equal_nan })
        })
    }

    /// Whether both have the same shape and the same elements.
    fn equal(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::equal)] other: Bound<'_, PyTensor>,
    ) -> Outcome<bool> {
        let (own, other) = (self.tensor(), other.get().tensor());
        if own.shape() != other.shape() {
            return Ok(false);
        }
        wait(py, || {
            let (a, b) = meet(&own, &other)?;
            a.equal(&b)
        })
    }

    /// The larger of each pair of elements, broadcast; of a number and NaN the number. At ties this tensor has the gradient.
    ///
    /// Shapes: two tensors, broadcast -> the shape that they have together
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
            let (x, other) = meet(x, &other)?;
            if x.dtype() == DType::Bool { x.logical_or(&other) } else { x.fmax(&other) }
        })
    }

    /// The smaller of each pair of elements, broadcast; of a number and NaN the number. At ties this tensor has the gradient.
    ///
    /// Shapes: two tensors, broadcast -> the shape that they have together
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
            let (x, other) = meet(x, &other)?;
            if x.dtype() == DType::Bool { x.logical_and(&other) } else { x.fmin(&other) }
        })
    }

    /// The larger of each pair of elements, broadcast; NaN if either is.
    fn maximum(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::maximum)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = meet(x, &other)?;
            x.maximum(&other)
        })
    }

    /// The smaller of each pair of elements, broadcast; NaN if either is.
    fn minimum(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::minimum)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = meet(x, &other)?;
            x.minimum(&other)
        })
    }

    /// The elements, but `value` where the mask is true; broadcast. A gradient flows to a `value` that is a tensor.
    fn masked_fill(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::masked_fill)] mask: Bound<'_, PyTensor>,
        value: &Bound<'_, PyAny>,
    ) -> Outcome<PyTensor> {
        let mask = mask.get().tensor();
        if let Some(value) = recorded_fill(value, "masked_fill")? {
            return self.map(py, |x| mask.where_(&fill_like(&value, x)?, x).called("masked_fill"));
        }
        let value = value_of(value, "masked_fill")?.scalar();
        self.map(py, |x| {
            spread_over(x, &mask, "masked_fill")?.masked_fill(&mask, value).called("masked_fill")
        })
    }

    /// `value` in place of the elements where the mask is true; the tensor itself. A gradient flows to a `value` that is a tensor.
    fn masked_fill_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::masked_fill_)] mask: Bound<'py, PyTensor>,
        value: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, Self>> {
        let mask = mask.get().tensor();
        if let Some(value) = recorded_fill(value, "masked_fill_")? {
            let filled = |x: &Tensor| mask.where_(&fill_like(&value, x)?, x).called("masked_fill_");
            return PyTensor::change(slf, &[&value], filled, |x| x.copy_(&filled(x)?));
        }
        let value = value_of(value, "masked_fill_")?.scalar();
        PyTensor::change(
            slf,
            &[],
            |x| x.masked_fill(&mask, value).called("masked_fill_"),
            |x| x.masked_fill_(&mask, value).called("masked_fill_"),
        )
    }

    /// The elements where the mask is true, in row-major order, as one axis.
    fn masked_select(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::masked_select)] mask: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let (own, mask) = (self.tensor(), mask.get().tensor());
        wait(py, || own.masked_select(&mask)).map(PyTensor::new)
    }

    /// Where elements are not 0: a row of indices (int64) for each, or with `as_tuple` a tensor for each axis.
    #[pyo3(signature = (*, as_tuple=false))]
    fn nonzero<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::nonzero)] as_tuple: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let own = self.tensor();
        // A tensor without axes has one to tell of as a tuple, as in PyTorch.
        let own = if as_tuple && own.rank() == 0 { own.reshape([1])? } else { own };
        let found = wait(py, || own.nonzero()?.to_dtype(DType::I64))?;
        if !as_tuple {
            return Ok(Bound::new(py, PyTensor::new(found))?.into_any());
        }
        let columns =
            wait(py, || (0..own.rank()).map(|axis| found.select(1, axis)).collect::<Result<Vec<_>>>())?;
        let objects: PyResult<Vec<_>> =
            columns.into_iter().map(|column| Bound::new(py, PyTensor::new(column))).collect();
        Ok(PyTuple::new(py, objects?)?.into_any())
    }

    /// The elements where the condition is true, those of `other` elsewhere; broadcast.
    #[pyo3(name = "where")]
    fn where_method(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::r#where)] condition: Bound<'_, PyTensor>,
        other: &Bound<'_, PyAny>,
    ) -> Outcome<PyTensor> {
        let (own, condition) = (self.tensor(), condition.get().tensor());
        let other = tensor_of(other, &own)?;
        chosen(py, &condition, &own, &other)
    }
}

fn chosen(py: Python<'_>, condition: &Tensor, a: &Tensor, b: &Tensor) -> Outcome<PyTensor> {
    if !matches!(condition.dtype(), DType::Bool | DType::U8) {
        let name = crate::dialect::dtype_name(condition.dtype());
        return Err(Failure::kind(format!("where: a condition of {name}, expected bool")));
    }
    let elements = condition.elements().max(a.elements()).max(b.elements());
    let result = run(py, elements, || {
        let (a, b) = meet(a, b)?;
        condition.ne_scalar(0)?.where_(&a, &b)
    });
    result.map(PyTensor::new)
}

fn no_choice(object: &Bound<'_, PyAny>) -> Failure {
    match object.get_type().name() {
        Ok(kind) => Failure::kind(format!("where: expected tensors or numbers, got {kind}")),
        Err(error) => error.into(),
    }
}

/// What a condition chooses from, as tensors.
fn choices(
    condition: &Tensor,
    input: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
) -> Outcome<(Tensor, Tensor)> {
    match (Operand::of(input)?, Operand::of(other)?) {
        (Some(Operand::Tensor(a)), _) => {
            let b = tensor_of(other, &a)?;
            Ok((a, b))
        }
        (Some(Operand::Number(a)), Some(Operand::Tensor(b))) => Ok((beside(&b, a)?, b)),
        (Some(Operand::Number(a)), Some(Operand::Number(b))) => {
            let alone =
                |number: Number| Tensor::full((), number.scalar(), number.dtype(), condition.device());
            Ok((alone(a)?, alone(b)?))
        }
        (Some(_), None) => Err(no_choice(other)),
        (None, _) => Err(no_choice(input)),
    }
}

/// The elements of `input` where the condition is true, those of `other` elsewhere; broadcast. Both may be numbers.
///
/// With the condition alone: where it is true, a tensor of indices (int64) for each axis.
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
        _ => return Err(Failure::kind("where: expected a condition alone, or with input and other")),
    };
    let condition = condition.get().tensor();
    let (a, b) = choices(&condition, input, other)?;
    Ok(Bound::new(py, chosen(py, &condition, &a, &b)?)?.into_any())
}

/// Puts the functions into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(where_function, module)?)
}
