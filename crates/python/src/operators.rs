//! Python's operators on tensors and numbers.

use crate::arguments::Operand;
use crate::error::{Failure, Outcome};
use crate::promote::{Number, beside, default_dtype, floating, meet, of_tensors, with_number};
use crate::run::run;
use crate::tensor::{PyTensor, is_recorded, may_change};
use pyo3::class::basic::CompareOp;
use pyo3::prelude::*;
use ternion::{DType, Result, Scalar, Tensor, no_grad};

/// What Python understands as: ask the other side.
type Answer = Outcome<Py<PyAny>>;

fn not_implemented(py: Python<'_>) -> Answer {
    Ok(py.NotImplemented())
}

fn answer(py: Python<'_>, tensor: Tensor) -> Answer {
    Ok(Py::new(py, PyTensor::new(tensor))?.into_any())
}

/// An operator: of two tensors, and of a tensor and a number on its right or left.
#[derive(Clone, Copy)]
struct Operator {
    tensors: fn(&Tensor, &Tensor) -> Result<Tensor>,
    right: fn(&Tensor, Scalar) -> Result<Tensor>,
    left: fn(&Tensor, Scalar) -> Result<Tensor>,
    /// What is done to whole numbers and truth values.
    kind: Kind,
}

/// What operators do to operands that are no floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The same as to floats; of two truth values it is their `or`.
    Sum,
    /// The same as to floats; there is none of truth values.
    Difference,
    /// The same as to floats; of two truth values it is their `and`.
    Product,
    /// They become floats first.
    Quotient,
    /// The divisor is not 0.
    Division,
    /// The exponent is not below 0, if it is a number.
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
    tensors: floor_divided,
    right: |a, number| floor_divided(a, &Tensor::full((), number, a.dtype(), a.device())?),
    left: |a, number| floor_divided(&Tensor::full((), number, a.dtype(), a.device())?, a),
    kind: Kind::Division,
};

/// `floor(a / b)`. Floats divided by 0 are infinite, or no number.
fn floor_divided(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let rest = a.remainder(b)?;
    if a.dtype().is_float() {
        // What is left over divides without a rest.
        let quotient = a.sub(&rest)?.div(b)?.round()?;
        return b.eq_scalar(0)?.where_(&a.div(b)?, &quotient);
    }
    // Integers divide towards zero, which is one too far where the quotient is negative and has a rest; `a - rest` may not fit the dtype.
    let is_negative = a.lt_scalar(0)?.ne(&b.lt_scalar(0)?)?;
    let too_far = rest.ne_scalar(0)?.logical_and(&is_negative)?;
    a.div(b)?.sub(&too_far.to_dtype(a.dtype())?)
}

impl Operator {
    #[inline]
    fn of_tensors(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        if a.dtype() == b.dtype() && a.dtype().is_float() && a.device().is(b.device()) {
            return (self.tensors)(a, b);
        }
        self.of_different(a, b)
    }

    /// Of tensors of two dtypes or devices, or such as are no floats.
    #[cold]
    fn of_different(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let (a, b) = meet(a, b)?;
        match (self.kind, a.dtype()) {
            (Kind::Quotient, _) => (self.tensors)(&floating(&a)?, &floating(&b)?),
            (Kind::Sum, DType::Bool) => a.logical_or(&b),
            (Kind::Product, DType::Bool) => a.logical_and(&b),
            _ => (self.tensors)(&a, &b),
        }
    }

    /// The dtype of the result with a number.
    fn dtype_with(self, dtype: DType, number: Number) -> DType {
        let dtype = with_number(dtype, number);
        if self.kind == Kind::Quotient && !dtype.is_float() { default_dtype() } else { dtype }
    }

    /// The dtype of the result.
    fn dtype(self, a: &Tensor, other: &Operand) -> DType {
        match other {
            Operand::Number(number) => self.dtype_with(a.dtype(), *number),
            Operand::Tensor(b) => match of_tensors(a, b) {
                dtype if self.kind == Kind::Quotient && !dtype.is_float() => default_dtype(),
                dtype => dtype,
            },
        }
    }

    /// What operands that are no floats must not be.
    #[inline]
    fn check(self, py: Python<'_>, a: &Tensor, other: &Operand, is_left: bool) -> Outcome<()> {
        match self.kind {
            Kind::Sum | Kind::Product | Kind::Quotient => Ok(()),
            _ => self.check_operands(py, a, other, is_left),
        }
    }

    /// Raises what PyTorch raises. A divisor on another device than the processor is not looked at: that would wait for the device.
    #[cold]
    fn check_operands(self, py: Python<'_>, a: &Tensor, other: &Operand, is_left: bool) -> Outcome<()> {
        match self.kind {
            Kind::Difference => {
                let is_bool = |other: &Operand| match other {
                    Operand::Number(number) => matches!(number, Number::Bool(_)),
                    Operand::Tensor(b) => b.dtype() == DType::Bool,
                };
                if a.dtype() == DType::Bool || is_bool(other) {
                    return Err(Failure::state(
                        "sub: a difference of truth values; ~x inverts them, x ^ y tells where they differ, x.int() makes them numbers",
                    ));
                }
            }
            Kind::Power => {
                if let (false, false, &Operand::Number(Number::Int(exponent))) =
                    (is_left, a.dtype().is_float(), other)
                    && exponent < 0
                {
                    return Err(Failure::state(format!(
                        "pow: Integers to negative integer powers are not allowed: {} to the power of {exponent}; convert to a floating dtype first",
                        crate::dtype::name(a.dtype())
                    )));
                }
            }
            Kind::Division if !a.dtype().is_float() && self.dtype(a, other).is_int() => {
                let zero = match other {
                    _ if is_left => has_zero(py, a)?,
                    Operand::Tensor(b) => has_zero(py, b)?,
                    Operand::Number(number) => matches!(number, Number::Int(0) | Number::Bool(false)),
                };
                if zero {
                    return Err(Failure::state("ZeroDivisionError: whole numbers divided by 0"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// That the result may be written into `a`.
    fn check_place(self, a: &Tensor, other: &Operand) -> Outcome<()> {
        let (own, result) = (a.dtype(), self.dtype(a, other));
        let fits = own.is_float() || own == result || (own != DType::Bool && !result.is_float());
        if fits {
            return Ok(());
        }
        Err(Failure::state(format!(
            "result type {} can't be cast to the desired output type {}: in place an operator keeps the dtype of its tensor",
            crate::dtype::name(result),
            crate::dtype::name(own)
        )))
    }

    fn of_number(self, a: &Tensor, number: Number, is_left: bool) -> Result<Tensor> {
        let dtype = self.dtype_with(a.dtype(), number);
        if dtype == DType::Bool {
            return self.of_different(a, &beside(a, number)?);
        }
        let a = if dtype == a.dtype() { a.clone() } else { a.to_dtype(dtype)? };
        let f = if is_left { self.left } else { self.right };
        f(&a, number.scalar())
    }

    fn apply(self, slf: &PyTensor, other: &Bound<'_, PyAny>, is_left: bool) -> Answer {
        let (py, a) = (other.py(), slf.tensor());
        let Some(operand) = Operand::beside(other, &a)? else { return not_implemented(py) };
        self.apply_to(py, &a, operand, is_left)
    }

    /// Under a name, where nobody asks the other side.
    fn apply_named(self, name: &str, slf: &PyTensor, other: &Bound<'_, PyAny>) -> Answer {
        let a = slf.tensor();
        let operand = Operand::named(name, other, &a)?;
        self.apply_to(other.py(), &a, operand, false)
    }

    #[inline]
    fn apply_to(self, py: Python<'_>, a: &Tensor, operand: Operand, is_left: bool) -> Answer {
        self.check(py, a, &operand, is_left)?;
        let result = match operand {
            // An array on the left; a tensor there is asked first.
            Operand::Tensor(b) if is_left => {
                run(py, a.elements().max(b.elements()), || self.of_tensors(&b, a))?
            }
            Operand::Tensor(b) => run(py, a.elements().max(b.elements()), || self.of_tensors(a, &b))?,
            Operand::Number(number) => run(py, a.elements(), || self.of_number(a, number, is_left))?,
        };
        answer(py, result)
    }

    /// In place; where that would lose a gradient, another tensor takes the place of this object's.
    fn apply_in_place(self, slf: &PyTensor, other: &Bound<'_, PyAny>) -> Outcome<()> {
        let (py, a) = (other.py(), slf.tensor());
        let Some(operand) = Operand::beside(other, &a)? else {
            let kind = other.get_type().name()?.to_string();
            return Err(Failure::kind(format!("expected a tensor or a number, got {kind}")));
        };
        may_change(&a)?;
        self.check(py, &a, &operand, false)?;
        self.check_place(&a, &operand)?;
        let is_recorded = match &operand {
            Operand::Tensor(b) => is_recorded(&[&a, b]),
            Operand::Number(_) => is_recorded(&[&a]),
        };
        let result = run(py, a.elements(), || {
            let result = match operand {
                Operand::Tensor(b) => self.of_tensors(&a, &b)?,
                Operand::Number(number) => self.of_number(&a, number, false)?,
            };
            if !is_recorded {
                a.copy_(&result)?;
            }
            Ok(result)
        })?;
        if is_recorded { slf.put_recorded(py, result) } else { Ok(()) }
    }
}

/// Whether an element on the processor is 0. Elsewhere nobody looks.
fn has_zero(py: Python<'_>, divisor: &Tensor) -> Outcome<bool> {
    if divisor.device().name() != "cpu" || divisor.elements() == 0 {
        return Ok(false);
    }
    run(py, divisor.elements(), || no_grad(|| Ok(divisor.eq_scalar(0)?.any(..)?.item_f64()? != 0.0)))
}

/// Numbers compared as numbers: bool as 0 and 1 where the other side is a number.
fn compared(op: CompareOp, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = meet(a, b)?;
    match op {
        CompareOp::Eq => a.eq(&b),
        CompareOp::Ne => a.ne(&b),
        CompareOp::Lt => a.lt(&b),
        CompareOp::Le => a.le(&b),
        CompareOp::Gt => a.gt(&b),
        CompareOp::Ge => a.ge(&b),
    }
}

/// How a number compares with all elements of an integer dtype that does not hold it: whether it is above them.
fn is_above_all(dtype: DType, number: Number) -> Option<bool> {
    let Number::Int(value) = number else { return None };
    let (low, high) = match dtype {
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => return None,
    };
    if (low..=high).contains(&value) { None } else { Some(value > high) }
}

fn compared_with(op: CompareOp, a: &Tensor, number: Number) -> Result<Tensor> {
    let dtype = with_number(a.dtype(), number);
    if let Some(is_above) = is_above_all(dtype, number) {
        let truth = match op {
            CompareOp::Eq => false,
            CompareOp::Ne => true,
            CompareOp::Lt | CompareOp::Le => is_above,
            CompareOp::Gt | CompareOp::Ge => !is_above,
        };
        return Tensor::full(a.dims(), Scalar::Bool(truth), DType::Bool, a.device());
    }
    let a = if dtype == a.dtype() { a.clone() } else { a.to_dtype(dtype)? };
    let number = number.scalar();
    match op {
        CompareOp::Eq => a.eq_scalar(number),
        CompareOp::Ne => a.ne_scalar(number),
        CompareOp::Lt => a.lt_scalar(number),
        CompareOp::Le => a.le_scalar(number),
        CompareOp::Gt => a.gt_scalar(number),
        CompareOp::Ge => a.ge_scalar(number),
    }
}

fn compare(py: Python<'_>, op: CompareOp, a: &Tensor, other: Operand) -> Answer {
    let result = match other {
        Operand::Tensor(b) => run(py, a.elements().max(b.elements()), || compared(op, a, &b))?,
        Operand::Number(number) => run(py, a.elements(), || compared_with(op, a, number))?,
    };
    answer(py, result)
}

impl PyTensor {
    /// A comparison under its name, where nobody asks the other side.
    pub fn compare_named(&self, name: &str, other: &Bound<'_, PyAny>, op: CompareOp) -> Answer {
        let a = self.tensor();
        let operand = Operand::named(name, other, &a)?;
        compare(other.py(), op, &a, operand)
    }
}

/// `&`, `|`, `^`: of truth values.
fn logical(slf: &PyTensor, other: &Bound<'_, PyAny>, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Answer {
    let (py, a) = (other.py(), slf.tensor());
    let result = match Operand::beside(other, &a)? {
        Some(Operand::Tensor(b)) => run(py, a.elements().max(b.elements()), || f(&a, &b))?,
        Some(Operand::Number(number)) => run(py, a.elements(), || f(&a, &beside(&a, number)?))?,
        None => return not_implemented(py),
    };
    answer(py, result)
}

macro_rules! arithmetic {
    ($($operator:ident $name:ident $reflected:ident $in_place:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, other: &Bound<'_, PyAny>) -> Answer {
                    $operator.apply(self, other, false)
                }
                fn $reflected(&self, other: &Bound<'_, PyAny>) -> Answer {
                    $operator.apply(self, other, true)
                }
                fn $in_place(&self, other: &Bound<'_, PyAny>) -> Outcome<()> {
                    $operator.apply_in_place(self, other)
                }
            )*
        }
    };
}

arithmetic! {
    ADD __add__ __radd__ __iadd__;
    SUB __sub__ __rsub__ __isub__;
    MUL __mul__ __rmul__ __imul__;
    DIV __truediv__ __rtruediv__ __itruediv__;
    FLOOR_DIV __floordiv__ __rfloordiv__ __ifloordiv__;
    REMAINDER __mod__ __rmod__ __imod__;
}

macro_rules! truth {
    ($($method:ident $name:ident $reflected:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, other: &Bound<'_, PyAny>) -> Answer {
                    logical(self, other, |a, b| a.$method(b))
                }
                fn $reflected(&self, other: &Bound<'_, PyAny>) -> Answer {
                    logical(self, other, |a, b| a.$method(b))
                }
            )*
        }
    };
}

truth! {
    logical_and __and__ __rand__;
    logical_or __or__ __ror__;
    logical_xor __xor__ __rxor__;
}

/// The matrix product of tensors of any dtypes.
fn product(py: Python<'_>, a: &Tensor, b: &Tensor) -> Outcome<Tensor> {
    run(py, a.elements().max(b.elements()), || {
        if a.dtype() == b.dtype() {
            return a.matmul(b);
        }
        let (a, b) = meet(a, b)?;
        a.matmul(&b)
    })
}

/// Arithmetic under its names, which functions of the module have too: `ternion.add(a, b)`.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $operator:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self, other: &Bound<'_, PyAny>) -> Answer {
                    $operator.apply_named(stringify!($name), self, other)
                }
                $(#[$doc])*
                ///
                /// In place: the tensor itself is changed and returned.
                fn $in_place<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Outcome<Bound<'py, Self>> {
                    $operator.apply_in_place(slf.get(), other)?;
                    Ok(slf.clone())
                }
            )*
        }
    };
}

/// `other * alpha` beside `x`: itself where nothing is to be multiplied.
fn times<'py>(
    x: &PyTensor,
    other: &Bound<'py, PyAny>,
    alpha: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyAny>> {
    let Some(alpha) = alpha else { return Ok(other.clone()) };
    match other.cast::<PyTensor>().map(|other| other.get().tensor()) {
        // Truth values are multiplied in the dtype that they meet the others in.
        Ok(truths) if truths.dtype() == DType::Bool => {
            let dtype = x.tensor().dtype();
            let one = Bound::new(other.py(), PyTensor::new(truths.to_dtype(dtype)?))?;
            let scaled = one.mul(alpha)?;
            if dtype == DType::Bool { Ok(scaled.call_method0("bool")?) } else { Ok(scaled) }
        }
        _ => Ok(other.mul(alpha)?),
    }
}

impl PyTensor {
    /// `self + sign * alpha * other` in one pass, where both are floating tensors of one dtype.
    fn scaled(
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
        let alpha = sign * alpha.extract::<f64>()?;
        let elements = a.elements().max(b.elements());
        run(other.py(), elements, || b.scale_add(alpha, &a)).map(|sum| Some(PyTensor::new(sum)))
    }
}

#[pymethods]
impl PyTensor {
    /// The sum of this tensor and `alpha` times another, or a number, broadcast.
    ///
    /// Raises:
    ///     ValueError: shapes that do not broadcast, tensors on different devices.
    #[pyo3(signature = (other, *, alpha=None))]
    fn add(&self, other: &Bound<'_, PyAny>, alpha: Option<&Bound<'_, PyAny>>) -> Answer {
        match self.scaled(other, alpha, 1.0)? {
            Some(sum) => Ok(Py::new(other.py(), sum)?.into_any()),
            None => ADD.apply_named("add", self, &times(self, other, alpha)?),
        }
    }

    /// This tensor less `alpha` times another, or a number, broadcast.
    #[pyo3(signature = (other, *, alpha=None))]
    fn sub(&self, other: &Bound<'_, PyAny>, alpha: Option<&Bound<'_, PyAny>>) -> Answer {
        match self.scaled(other, alpha, -1.0)? {
            Some(difference) => Ok(Py::new(other.py(), difference)?.into_any()),
            None => SUB.apply_named("sub", self, &times(self, other, alpha)?),
        }
    }

    /// The sum of this tensor and `alpha` times another, or a number, broadcast, in place: the tensor itself is changed and returned.
    #[pyo3(signature = (other, *, alpha=None))]
    fn add_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        ADD.apply_in_place(slf.get(), &times(slf.get(), other, alpha)?)?;
        Ok(slf.clone())
    }

    /// This tensor less `alpha` times another, or a number, broadcast, in place: the tensor itself is changed and returned.
    #[pyo3(signature = (other, *, alpha=None))]
    fn sub_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        SUB.apply_in_place(slf.get(), &times(slf.get(), other, alpha)?)?;
        Ok(slf.clone())
    }
}

named! {
    /// The product of this tensor and another, or a number, element by element, broadcast.
    mul mul_ => MUL;
    /// What is left over of this tensor by division, with the sign of the divisor; broadcast.
    remainder remainder_ => REMAINDER;
    /// The largest whole number not above the quotient, broadcast.
    floor_divide floor_divide_ => FLOOR_DIV;
}

impl PyTensor {
    /// Which division is meant by PyTorch's `rounding_mode`.
    fn division(rounding_mode: Option<&str>) -> Outcome<Operator> {
        match rounding_mode {
            None => Ok(DIV),
            Some("floor") => Ok(FLOOR_DIV),
            Some(other) => Err(Failure::value(format!(
                "div: rounding_mode {other:?}, expected None, \"floor\" or \"trunc\""
            ))),
        }
    }

    /// The quotient rounded towards zero.
    fn truncated<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
        let functions = slf.py().import("ternion._functions.arithmetic")?;
        Ok(functions.call_method1("_quotient_towards_zero", (slf, other))?)
    }
}

#[pymethods]
impl PyTensor {
    /// This tensor divided by another, or a number, broadcast. Integers become float32 first.
    ///
    /// Args:
    ///     rounding_mode: "floor" for whole numbers, as by `//`; "trunc" for those nearer to 0.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>, rounding_mode: Option<&str>) -> Answer {
        if rounding_mode == Some("trunc") {
            return Ok(Self::truncated(slf, other)?.unbind());
        }
        Self::division(rounding_mode)?.apply_named("div", slf.get(), other)
    }

    /// This tensor divided by another, or a number, broadcast, in place: the tensor itself is changed and returned.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        rounding_mode: Option<&str>,
    ) -> Outcome<Bound<'py, Self>> {
        if rounding_mode == Some("trunc") {
            slf.call_method1("copy_", (Self::truncated(slf, other)?,))?;
            return Ok(slf.clone());
        }
        Self::division(rounding_mode)?.apply_in_place(slf.get(), other)?;
        Ok(slf.clone())
    }

    /// This tensor to the power of another, or of a number, broadcast.
    fn pow(&self, exponent: &Bound<'_, PyAny>) -> Answer {
        POW.apply_named("pow", self, exponent)
    }

    /// This tensor to the power of another, or of a number, broadcast, in place: the tensor itself is changed and returned.
    fn pow_<'py>(slf: &Bound<'py, Self>, exponent: &Bound<'py, PyAny>) -> Outcome<Bound<'py, Self>> {
        POW.apply_in_place(slf.get(), exponent)?;
        Ok(slf.clone())
    }

    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> Answer {
        match modulo {
            None => POW.apply(self, other, false),
            Some(_) => Err(Failure::kind("pow() of a tensor takes no third argument")),
        }
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> Answer {
        match modulo {
            None => POW.apply(self, other, true),
            Some(_) => Err(Failure::kind("pow() of a tensor takes no third argument")),
        }
    }

    fn __ipow__(&self, other: &Bound<'_, PyAny>, _modulo: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        POW.apply_in_place(self, other)
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> Answer {
        let (py, a) = (other.py(), self.tensor());
        match Operand::beside(other, &a)? {
            Some(Operand::Tensor(b)) => answer(py, product(py, &a, &b)?),
            _ => not_implemented(py),
        }
    }

    fn __rmatmul__(&self, other: &Bound<'_, PyAny>) -> Answer {
        let (py, b) = (other.py(), self.tensor());
        match Operand::beside(other, &b)? {
            Some(Operand::Tensor(a)) => answer(py, product(py, &a, &b)?),
            _ => not_implemented(py),
        }
    }

    /// The matrix product.
    ///
    /// Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one axis is a row on the left, a column on the right.
    ///
    /// Raises:
    ///     ValueError: sizes that do not fit.
    fn matmul(&self, py: Python<'_>, other: &Bound<'_, PyTensor>) -> Outcome<PyTensor> {
        product(py, &self.tensor(), &other.get().tensor()).map(PyTensor::new)
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
            let name = crate::dtype::name(dtype);
            return Err(Failure::kind(format!(
                "~ of a tensor of {name}, expected whole numbers or truth values"
            )));
        }
        self.map(py, |x| {
            // The complement of an integer: all bits but those of x, which are -1 - x, without sign 255 - x.
            match x.dtype() {
                DType::Bool => x.logical_not(),
                DType::U8 => x.rsub_scalar(Scalar::Int(255)),
                _ => x.rsub_scalar(Scalar::Int(-1)),
            }
        })
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Answer {
        let (py, a) = (other.py(), self.tensor());
        match Operand::beside(other, &a)? {
            Some(operand) => compare(py, op, &a, operand),
            None => not_implemented(py),
        }
    }

    fn __hash__(slf: &Bound<'_, Self>) -> usize {
        // Who the object is, as everywhere where == compares elements.
        slf.as_ptr().addr()
    }
}
