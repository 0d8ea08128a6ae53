//! Python's operators on tensors and numbers.

mod compare;
mod named;

pub use compare::equal_to;
pub use named::check_alpha_dtype;

use crate::arguments::Operand;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::run;
use crate::promote::{
    Number, default_dtype, promote_pair, result_type, result_type_with_number, scalar_tensor_like,
    to_floating,
};
use crate::tensor::{PyTensor, check_in_place, is_recorded};
use pyo3::class::basic::CompareOp;
use pyo3::prelude::*;
use ternion::{DType, Error, Result, Scalar, Tensor, no_grad};

/// The result of an operator. `NotImplemented` makes Python try the other operand.
type OperatorResult = Outcome<Py<PyAny>>;

fn not_implemented(py: Python<'_>) -> OperatorResult {
    Ok(py.NotImplemented())
}

fn wrap_result(py: Python<'_>, tensor: Tensor) -> OperatorResult {
    Ok(Py::new(py, PyTensor::new(tensor))?.into_any())
}

/// An operator for two tensors, and for a tensor with a number on its right or left.
#[derive(Clone, Copy)]
struct Operator {
    tensors: fn(&Tensor, &Tensor) -> Result<Tensor>,
    right: fn(&Tensor, Scalar) -> Result<Tensor>,
    left: fn(&Tensor, Scalar) -> Result<Tensor>,
    /// The rule for integers and bools.
    kind: Kind,
}

/// The rule of an operator for operands that are not floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As for floats; the sum of two bools is their logical OR.
    Sum,
    /// As for floats; not defined for bools.
    Difference,
    /// As for floats; the product of two bools is their logical AND.
    Product,
    /// The operands are converted to floats first.
    Quotient,
    /// The divisor must not be 0.
    Division,
    /// The exponent must not be negative if it is a number.
    Power,
}

macro_rules! operator {
    ($tensors:ident $right:ident $left:ident $kind:ident) => {
        Operator {
            tensors: |a, b| a.$tensors(b),
            right: |a, number| a.$right(number),
            left: |a, number| a.$left(number),
            kind: Kind::$kind,
        }
    };
}

const ADD: Operator = operator!(add add_scalar add_scalar Sum);
const SUB: Operator = operator!(sub sub_scalar rsub_scalar Difference);
const MUL: Operator = operator!(mul mul_scalar mul_scalar Product);
const DIV: Operator = operator!(div div_scalar rdiv_scalar Quotient);
const POW: Operator = operator!(pow pow_scalar rpow_scalar Power);
const REMAINDER: Operator = Operator {
    tensors: |a, b| a.remainder(b),
    right: |a, number| a.remainder_scalar(number),
    left: |a, number| Tensor::full((), number, a.dtype(), a.device())?.remainder(a),
    kind: Kind::Division,
};
const FLOOR_DIV: Operator = Operator {
    tensors: |a, b| a.floor_divide(b),
    right: |a, number| a.floor_divide(&Tensor::full((), number, a.dtype(), a.device())?),
    left: |a, number| Tensor::full((), number, a.dtype(), a.device())?.floor_divide(a),
    kind: Kind::Division,
};
const TRUNC_DIV: Operator = Operator {
    tensors: |a, b| a.trunc_divide(b),
    right: |a, number| a.trunc_divide(&Tensor::full((), number, a.dtype(), a.device())?),
    left: |a, number| Tensor::full((), number, a.dtype(), a.device())?.trunc_divide(a),
    kind: Kind::Division,
};
const FMOD: Operator = Operator {
    tensors: |a, b| a.fmod(b),
    right: |a, number| a.fmod(&Tensor::full((), number, a.dtype(), a.device())?),
    left: |a, number| Tensor::full((), number, a.dtype(), a.device())?.fmod(a),
    kind: Kind::Division,
};

impl Operator {
    #[inline]
    fn compute(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        if a.dtype() == b.dtype() && a.dtype().is_float() && a.device().is(b.device()) {
            return (self.tensors)(a, b);
        }
        self.compute_promoted(a, b)
    }

    /// Applies the operator to tensors that are not floats, or differ in dtype or device.
    #[cold]
    fn compute_promoted(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        if self.kind == Kind::Quotient && result_type(a, b).is_some_and(|dtype| !dtype.is_float()) {
            // Converted to floats before promotion, because the common integer dtype may not
            // represent the values of both operands.
            let (a, b) = promote_pair(&to_floating(a)?, &to_floating(b)?)?;
            return (self.tensors)(&a, &b);
        }
        let (a, b) = promote_pair(a, b)?;
        match (self.kind, a.dtype()) {
            (Kind::Sum, DType::Bool) => a.logical_or(&b),
            (Kind::Product, DType::Bool) => a.logical_and(&b),
            _ => (self.tensors)(&a, &b),
        }
    }

    /// Returns the dtype of the result with a number.
    fn dtype_with(self, dtype: DType, number: Number) -> DType {
        let dtype = result_type_with_number(dtype, number);
        if self.kind == Kind::Quotient && !dtype.is_float() { default_dtype() } else { dtype }
    }

    /// Returns the dtype of the result.
    fn dtype(self, a: &Tensor, other: &Operand) -> DType {
        match other {
            Operand::Number(number) => self.dtype_with(a.dtype(), *number),
            // If there is no common dtype, the op fails.
            Operand::Tensor(b) => match result_type(a, b).unwrap_or(a.dtype()) {
                dtype if self.kind == Kind::Quotient && !dtype.is_float() => default_dtype(),
                dtype => dtype,
            },
        }
    }

    /// Rejects invalid operands that are not floats.
    #[inline]
    fn check(self, py: Python<'_>, a: &Tensor, other: &Operand, is_left: bool) -> Outcome<()> {
        match self.kind {
            Kind::Sum | Kind::Product | Kind::Quotient => Ok(()),
            _ => self.check_operands(py, a, other, is_left),
        }
    }

    /// Returns the same errors as PyTorch. A divisor is checked only on the CPU: on another device
    /// the check would wait for the device.
    #[cold]
    fn check_operands(self, py: Python<'_>, a: &Tensor, other: &Operand, is_left: bool) -> Outcome<()> {
        match self.kind {
            Kind::Difference => {
                let is_bool = |other: &Operand| match other {
                    Operand::Number(number) => matches!(number, Number::Bool(_)),
                    Operand::Tensor(b) => b.dtype() == DType::Bool,
                };
                if a.dtype() == DType::Bool || is_bool(other) {
                    return Err(RaisedError::runtime_error(
                        "sub: a difference of bools; ~x inverts them, x ^ y shows where they differ, x.int() makes them numbers",
                    ));
                }
            }
            Kind::Power => {
                if let (false, false, &Operand::Number(Number::Int(exponent))) =
                    (is_left, a.dtype().is_float(), other)
                    && exponent < 0
                {
                    return Err(RaisedError::runtime_error(format!(
                        "pow: Integers to negative integer powers are not allowed: {} to the power of {exponent}; convert to a floating dtype first",
                        crate::dialect::dtype_name(a.dtype())
                    )));
                }
            }
            Kind::Division if !a.dtype().is_float() && self.dtype(a, other).is_int() => {
                let zero = match other {
                    _ if is_empty_result(a, other) => false,
                    _ if is_left => has_zero(py, a)?,
                    Operand::Tensor(b) => has_zero(py, b)?,
                    Operand::Number(number) => matches!(number, Number::Int(0) | Number::Bool(false)),
                };
                if zero {
                    return Err(RaisedError::runtime_error("ZeroDivisionError: integers divided by 0"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns an error if the result may not be written to `a`.
    fn check_in_place_dtype(self, name: &str, a: &Tensor, other: &Operand) -> Outcome<()> {
        let (input_dtype, result) = (a.dtype(), self.dtype(a, other));
        let fits = input_dtype.is_float()
            || input_dtype == result
            || (input_dtype != DType::Bool && !result.is_float());
        if fits {
            return Ok(());
        }
        Err(RaisedError::runtime_error(format!(
            "{name}: result type {} can't be cast to the desired output type {}: in place an operator keeps the dtype of its tensor",
            crate::dialect::dtype_name(result),
            crate::dialect::dtype_name(input_dtype)
        )))
    }

    fn compute_with_number(self, a: &Tensor, number: Number, is_left: bool) -> Result<Tensor> {
        let dtype = self.dtype_with(a.dtype(), number);
        if dtype == DType::Bool {
            return match (self.kind, is_left) {
                // x ** True is x, and x ** False is True.
                (Kind::Power, false) => a.logical_or(&scalar_tensor_like(a, number)?.logical_not()?),
                _ => self.compute_promoted(a, &scalar_tensor_like(a, number)?),
            };
        }
        let a = if dtype == a.dtype() { a.clone() } else { a.to_dtype(dtype)? };
        let f = if is_left { self.left } else { self.right };
        f(&a, number.scalar())
    }

    fn apply(self, slf: &PyTensor, other: &Bound<'_, PyAny>, is_left: bool) -> OperatorResult {
        let (py, a) = (other.py(), slf.tensor());
        let Some(operand) = Operand::with_arrays(other, &a)? else { return not_implemented(py) };
        self.apply_to(py, &a, operand, is_left)
    }

    /// Applies the operator as a named method, where Python does not try the other operand.
    fn apply_named(self, name: &str, slf: &PyTensor, other: &Bound<'_, PyAny>) -> OperatorResult {
        let a = slf.tensor();
        let operand = Operand::for_function(name, other, &a)?;
        self.apply_to(other.py(), &a, operand, false)
    }

    #[inline]
    fn apply_to(self, py: Python<'_>, a: &Tensor, operand: Operand, is_left: bool) -> OperatorResult {
        self.check(py, a, &operand, is_left)?;
        let result = match operand {
            // An array on the left; for a tensor on the left its own method is called first.
            Operand::Tensor(b) if is_left => run(py, a.elements().max(b.elements()), || self.compute(&b, a))?,
            Operand::Tensor(b) => run(py, a.elements().max(b.elements()), || self.compute(a, &b))?,
            Operand::Number(number) => {
                run(py, a.elements(), || self.compute_with_number(a, number, is_left))?
            }
        };
        wrap_result(py, result)
    }

    /// Applies the operator in place. If that would lose a gradient, the result is stored in this
    /// object as another tensor.
    fn apply_in_place(self, name: &'static str, slf: &PyTensor, other: &Bound<'_, PyAny>) -> Outcome<()> {
        let (py, a) = (other.py(), slf.tensor());
        let operand = Operand::for_function(name, other, &a)?;
        check_in_place(&a)?;
        self.check(py, &a, &operand, false)?;
        self.check_in_place_dtype(name, &a, &operand)?;
        let is_recorded = match &operand {
            Operand::Tensor(b) => is_recorded(&[&a, b]),
            Operand::Number(_) => is_recorded(&[&a]),
        };
        let result = run(py, a.elements(), || {
            let result = match operand {
                Operand::Tensor(b) => self.compute(&a, &b)?,
                Operand::Number(number) => self.compute_with_number(&a, number, false)?,
            };
            if result.shape() != a.shape() {
                let (got, expected) = (result.dims(), a.dims());
                return Err(Error::invalid(
                    name,
                    format!("in place: a result of shape {got:?}, expected that of the tensor, {expected:?}"),
                ));
            }
            if !is_recorded {
                a.copy_(&result)?;
            }
            Ok(result)
        })?;
        if is_recorded { slf.store_recorded(py, result) } else { Ok(()) }
    }
}

/// Returns whether the result of an operator has no elements.
fn is_empty_result(a: &Tensor, other: &Operand) -> bool {
    a.elements() == 0 || matches!(other, Operand::Tensor(b) if b.elements() == 0)
}

/// Returns whether an element is 0 if the tensor is on the CPU; other devices are not checked.
fn has_zero(py: Python<'_>, divisor: &Tensor) -> Outcome<bool> {
    if divisor.device().name() != "cpu" {
        return Ok(false);
    }
    run(py, divisor.elements(), || no_grad(|| Ok(divisor.eq_scalar(0)?.any(..)?.item_f64()? != 0.0)))
}

/// Runs `f` on both tensors in their common dtype.
fn promote_and_apply(a: &Tensor, b: &Tensor, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (a, b) = promote_pair(a, b)?;
    f(&a, &b)
}

/// `&`, `|`, `^`: on bools and on the bits of integers, in the common dtype.
fn apply_bitwise(
    slf: &PyTensor,
    other: &Bound<'_, PyAny>,
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> OperatorResult {
    let (py, a) = (other.py(), slf.tensor());
    let result = match Operand::with_arrays(other, &a)? {
        Some(Operand::Tensor(b)) => run(py, a.elements().max(b.elements()), || promote_and_apply(&a, &b, f))?,
        Some(Operand::Number(number)) => {
            run(py, a.elements(), || promote_and_apply(&a, &scalar_tensor_like(&a, number)?, f))?
        }
        None => return not_implemented(py),
    };
    wrap_result(py, result)
}

macro_rules! arithmetic {
    ($($operator:ident $name:ident $reflected:ident $in_place:ident $symbol:literal;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
                    $operator.apply(self, other, false)
                }
                fn $reflected(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
                    $operator.apply(self, other, true)
                }
                fn $in_place(&self, other: &Bound<'_, PyAny>) -> Outcome<()> {
                    $operator.apply_in_place($symbol, self, other)
                }
            )*
        }
    };
}

arithmetic! {
    ADD __add__ __radd__ __iadd__ "+=";
    SUB __sub__ __rsub__ __isub__ "-=";
    MUL __mul__ __rmul__ __imul__ "*=";
    DIV __truediv__ __rtruediv__ __itruediv__ "/=";
    FLOOR_DIV __floordiv__ __rfloordiv__ __ifloordiv__ "//=";
    REMAINDER __mod__ __rmod__ __imod__ "%=";
}

macro_rules! bitwise {
    ($($method:ident $name:ident $reflected:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
                    apply_bitwise(self, other, |a, b| a.$method(b))
                }
                fn $reflected(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
                    apply_bitwise(self, other, |a, b| a.$method(b))
                }
            )*
        }
    };
}

bitwise! {
    bitwise_and __and__ __rand__;
    bitwise_or __or__ __ror__;
    bitwise_xor __xor__ __rxor__;
}

/// Computes the matrix product of tensors of any dtypes.
fn promoted_matmul(py: Python<'_>, a: &Tensor, b: &Tensor) -> Outcome<Tensor> {
    run(py, a.elements().max(b.elements()), || {
        if a.dtype() == b.dtype() {
            return a.matmul(b);
        }
        let (a, b) = promote_pair(a, b)?;
        a.matmul(&b)
    })
}

#[pymethods]
impl PyTensor {
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> OperatorResult {
        match modulo {
            None => POW.apply(self, other, false),
            Some(_) => Err(RaisedError::type_error("pow() of a tensor takes no third argument")),
        }
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> OperatorResult {
        match modulo {
            None => POW.apply(self, other, true),
            Some(_) => Err(RaisedError::type_error("pow() of a tensor takes no third argument")),
        }
    }

    fn __ipow__(&self, other: &Bound<'_, PyAny>, _modulo: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        POW.apply_in_place("**=", self, other)
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
        let (py, a) = (other.py(), self.tensor());
        match Operand::with_arrays(other, &a)? {
            Some(Operand::Tensor(b)) => wrap_result(py, promoted_matmul(py, &a, &b)?),
            _ => not_implemented(py),
        }
    }

    fn __rmatmul__(&self, other: &Bound<'_, PyAny>) -> OperatorResult {
        let (py, b) = (other.py(), self.tensor());
        match Operand::with_arrays(other, &b)? {
            Some(Operand::Tensor(a)) => wrap_result(py, promoted_matmul(py, &a, &b)?),
            _ => not_implemented(py),
        }
    }

    /// Computes the matrix product.
    ///
    /// Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one
    /// axis is a row on the left, a column on the right.
    ///
    /// Raises:
    ///     ValueError: incompatible sizes.
    fn matmul(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::matmul)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        promoted_matmul(py, &self.tensor(), &other.get().tensor()).map(PyTensor::new)
    }

    fn __neg__(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::neg)
    }

    fn __pos__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __abs__(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::abs)
    }

    fn __invert__(&self, py: Python<'_>) -> Outcome<PyTensor> {
        let dtype = self.tensor().dtype();
        if dtype.is_float() {
            let name = crate::dialect::dtype_name(dtype);
            return Err(RaisedError::type_error(format!(
                "~ of a tensor of {name}, expected integers or bools"
            )));
        }
        self.map(py, Tensor::bitwise_not)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> OperatorResult {
        let (py, a) = (other.py(), self.tensor());
        match compare::comparison_operand(other, &a)? {
            Some(operand) => compare::compare(py, op, &a, operand),
            None => not_implemented(py),
        }
    }

    fn __hash__(slf: &Bound<'_, Self>) -> usize {
        // The identity of the object, as in all libraries where == compares elements.
        slf.as_ptr().addr()
    }
}
