//! Arithmetic as named methods: `x.add(y)`.

use super::{ADD, DIV, FLOOR_DIV, FMOD, MUL, Operator, OperatorResult, POW, REMAINDER, SUB, TRUNC_DIV};
use crate::arguments::{Operand, extract_number};
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::{ExtractArgument, of};
use crate::gil::run;
use crate::methods::index::alpha_scalar;
use crate::promote::{Number, promote_pair, scalar_tensor_like};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::DType;

/// Arithmetic as named methods, which are also functions of the module: `ternion.add(a, b)`.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $operator:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
                    $operator.apply_named(stringify!($name), self, other)
                }
                $(#[$doc])*
                ///
                /// In place: the tensor itself is changed and returned.
                fn $in_place<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Outcome<Bound<'py, Self>> {
                    $operator.apply_in_place(stringify!($in_place), slf.get(), other)?;
                    Ok(slf.clone())
                }
            )*
        }
    };
}

/// Returns `other * alpha` for an operation with `x`, or `other` itself if `alpha` is not given.
fn scale_by_alpha<'py>(
    x: &PyTensor,
    other: &Bound<'py, PyAny>,
    alpha: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyAny>> {
    let Some(alpha) = alpha else { return Ok(other.clone()) };
    match other.cast::<PyTensor>().map(|other| other.get().tensor()) {
        // Bool elements are multiplied in the dtype of the other operand.
        Ok(bools) if bools.dtype() == DType::Bool => {
            let dtype = x.tensor().dtype();
            let one = Bound::new(other.py(), PyTensor::new(bools.to_dtype(dtype)?))?;
            let scaled = one.mul(alpha)?;
            if dtype == DType::Bool { Ok(scaled.call_method0("bool")?) } else { Ok(scaled) }
        }
        _ => Ok(other.mul(alpha)?),
    }
}

/// Checks that the result's dtype supports the kind of `alpha`: PyTorch's rule.
fn check_alpha(
    op: &str,
    x: &PyTensor,
    other: &Bound<'_, PyAny>,
    alpha: Option<&Bound<'_, PyAny>>,
) -> Outcome<()> {
    let Some(alpha) = alpha.map(extract_number).transpose()?.flatten() else { return Ok(()) };
    let x = x.tensor();
    let Some(other) = Operand::with_arrays(other, &x)? else { return Ok(()) };
    check_alpha_dtype(op, alpha, ADD.dtype(&x, &other))
}

/// Checks that the result's dtype supports the kind of an `alpha`: PyTorch's rule.
pub fn check_alpha_dtype(op: &str, alpha: Number, dtype: DType) -> Outcome<()> {
    let expected = match alpha {
        Number::Bool(_) if dtype != DType::Bool => "a number",
        Number::Float(_) if !dtype.is_float() => "an integer",
        _ => return Ok(()),
    };
    let dtype = crate::dialect::dtype_name(dtype);
    Err(RaisedError::type_error(format!("{op}: alpha {alpha} for a result of {dtype}, expected {expected}")))
}

impl PyTensor {
    /// Computes `self + sign * alpha * other` in one pass if both are floating tensors of one
    /// dtype.
    fn fused_scale_add(
        &self,
        other: &Bound<'_, PyAny>,
        alpha: Option<&Bound<'_, PyAny>>,
        sign: f64,
    ) -> Outcome<Option<PyTensor>> {
        let (Some(alpha), Some(Operand::Tensor(b))) = (alpha, Operand::of(other)?) else { return Ok(None) };
        let a = self.tensor();
        if a.dtype() != b.dtype() || !a.dtype().is_float() {
            return Ok(None);
        }
        let alpha = sign * f64::of(if sign < 0.0 { "sub" } else { "add" }, alpha)?;
        let elements = a.elements().max(b.elements());
        run(other.py(), elements, || b.scale_add(alpha, &a)).map(|sum| Some(PyTensor::new(sum)))
    }
}

#[pymethods]
impl PyTensor {
    /// Computes another tensor, or a number, less `alpha` times this one.
    fn _rsub(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        alpha: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        let x = self.tensor();
        let operand = Operand::for_function("rsub", other, &x)?;
        let is_bool = match &operand {
            Operand::Tensor(other) => other.dtype() == DType::Bool,
            Operand::Number(number) => matches!(number, Number::Bool(_)),
        };
        if is_bool || x.dtype() == DType::Bool {
            let message = "rsub: bools, which have no differences; expected numbers";
            return Err(RaisedError::type_error(message.to_string()));
        }
        let other = match operand {
            Operand::Tensor(other) => other,
            Operand::Number(number) => scalar_tensor_like(&x, number)?,
        };
        let (x, other) = promote_pair(&x, &other)?;
        let alpha = alpha_scalar("rsub", alpha, x.dtype())?;
        let elements = x.elements().max(other.elements());
        run(py, elements, || x.rsub_with(&other, alpha).with_op("rsub")).map(PyTensor::new)
    }

    /// Computes the sum of this tensor and `alpha` times another, or a number, broadcast.
    ///
    /// Raises:
    ///     ValueError: shapes that do not broadcast, or tensors on different devices.
    ///     TypeError: a floating `alpha` for integers, or a bool `alpha` for numbers.
    #[pyo3(signature = (other, *, alpha=None))]
    fn add(&self, other: &Bound<'_, PyAny>, alpha: Option<&Bound<'_, PyAny>>) -> OperatorResult {
        check_alpha("add", self, other, alpha)?;
        match self.fused_scale_add(other, alpha, 1.0)? {
            Some(sum) => Ok(Py::new(other.py(), sum)?.into_any()),
            None => ADD.apply_named("add", self, &scale_by_alpha(self, other, alpha)?),
        }
    }

    /// Subtracts `alpha` times another tensor, or a number, broadcast.
    #[pyo3(signature = (other, *, alpha=None))]
    fn sub(&self, other: &Bound<'_, PyAny>, alpha: Option<&Bound<'_, PyAny>>) -> OperatorResult {
        check_alpha("sub", self, other, alpha)?;
        match self.fused_scale_add(other, alpha, -1.0)? {
            Some(difference) => Ok(Py::new(other.py(), difference)?.into_any()),
            None => SUB.apply_named("sub", self, &scale_by_alpha(self, other, alpha)?),
        }
    }

    /// Adds `alpha` times another tensor, or a number, broadcast, in place: the tensor itself is
    /// changed and returned.
    #[pyo3(signature = (other, *, alpha=None))]
    fn add_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        check_alpha("add_", slf.get(), other, alpha)?;
        ADD.apply_in_place("add_", slf.get(), &scale_by_alpha(slf.get(), other, alpha)?)?;
        Ok(slf.clone())
    }

    /// Subtracts `alpha` times another tensor, or a number, broadcast, in place: the tensor itself
    /// is changed and returned.
    #[pyo3(signature = (other, *, alpha=None))]
    fn sub_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        check_alpha("sub_", slf.get(), other, alpha)?;
        SUB.apply_in_place("sub_", slf.get(), &scale_by_alpha(slf.get(), other, alpha)?)?;
        Ok(slf.clone())
    }
}

named! {
    /// Multiplies by another tensor, or a number, elementwise, broadcast.
    mul mul_ => MUL;
    /// Computes the remainder of a division, with the sign of the divisor; broadcast.
    remainder remainder_ => REMAINDER;
    /// Computes the remainder of a division, with the sign of this tensor; broadcast.
    fmod fmod_ => FMOD;
    /// Computes the largest integer less than or equal to the quotient, broadcast.
    floor_divide floor_divide_ => FLOOR_DIV;
}

impl PyTensor {
    /// Returns the division that PyTorch's `rounding_mode` selects.
    fn division_operator(rounding_mode: Option<&str>) -> Outcome<Operator> {
        match rounding_mode {
            None => Ok(DIV),
            Some("floor") => Ok(FLOOR_DIV),
            Some("trunc") => Ok(TRUNC_DIV),
            Some(other) => Err(RaisedError::value_error(format!(
                "div: rounding_mode {other:?}, expected None, \"floor\" or \"trunc\""
            ))),
        }
    }
}

#[pymethods]
impl PyTensor {
    /// Divides by another tensor, or a number, broadcast. Integers become float32 first.
    ///
    /// Args:
    ///     rounding_mode: "floor" rounds down, as `//` does; "trunc" rounds toward zero.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div(
        &self,
        other: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = of::div)] rounding_mode: Option<String>,
    ) -> OperatorResult {
        Self::division_operator(rounding_mode.as_deref())?.apply_named("div", self, other)
    }

    /// Divides by another tensor, or a number, broadcast, in place: the tensor itself is changed
    /// and returned.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = of::div_)] rounding_mode: Option<String>,
    ) -> Outcome<Bound<'py, Self>> {
        Self::division_operator(rounding_mode.as_deref())?.apply_in_place("div_", slf.get(), other)?;
        Ok(slf.clone())
    }

    /// Raises this tensor to the power of another, or of a number, broadcast.
    fn pow(&self, exponent: &Bound<'_, PyAny>) -> OperatorResult {
        POW.apply_named("pow", self, exponent)
    }

    /// Raises this tensor to the power of another, or of a number, broadcast, in place: the tensor
    /// itself is changed and returned.
    fn pow_<'py>(slf: &Bound<'py, Self>, exponent: &Bound<'py, PyAny>) -> Outcome<Bound<'py, Self>> {
        POW.apply_in_place("pow_", slf.get(), exponent)?;
        Ok(slf.clone())
    }
}
