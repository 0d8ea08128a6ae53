//! Elementwise functions.

use crate::arguments::extract_number;
use crate::create::number_value;
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::methods::compare::{fill_like, recorded_fill};
use crate::promote::{Number, can_store, default_dtype, promote_types, result_type_with_number, to_floating};
use crate::tensor::{PyTensor, check_in_place};
use pyo3::prelude::*;
use ternion::{DType, Result, Scalar, Tensor};

/// Methods for numbers of any dtype, with in-place versions.
macro_rules! of_numbers {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $method:ident;)*) => {
        /// The names of the methods, each of which is also a function of the package.
        pub(crate) const NUMBER_METHODS: &[&str] = &[$(stringify!($name)),*];

        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] -> the same
                ///
                /// Raises:
                ///     TypeError: a bool input.
                fn $name(&self, py: Python<'_>) -> Outcome<PyTensor> {
                    self.map(py, Tensor::$method)
                }
                $(#[$doc])*
                ///
                /// In place: the tensor itself is changed and returned.
                ///
                /// Raises:
                ///     TypeError: a bool input.
                ///     RuntimeError: a leaf that requires a gradient is changed in place while
                ///         operations are recorded.
                fn $in_place<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
                    PyTensor::change(slf, &[], Tensor::$method, |x| x.copy_(&x.$method()?))
                }
            )*
        }
    };
}

of_numbers! {
    /// Computes `-x` of each element. Integers wrap.
    neg neg_ => neg;
    /// Computes the absolute value of each element.
    abs abs_ => abs;
    /// Computes `max(x, 0)` of each element; NaN stays NaN.
    relu relu_ => relu;
}

/// Methods for floats: integers are converted to float32 first.
macro_rules! of_floats {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $method:ident;)*) => {
        /// The names of the methods, each of which is also a function of the package.
        pub(crate) const FLOAT_METHODS: &[&str] = &[$(stringify!($name)),*];

        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] -> the same; integers become float32
                fn $name(&self, py: Python<'_>) -> Outcome<PyTensor> {
                    self.map(py, |x| to_floating(x)?.$method())
                }
                $(#[$doc])*
                ///
                /// In place: the tensor itself is changed and returned.
                ///
                /// Raises:
                ///     RuntimeError: the dtype is an integer type, which cannot represent the
                ///         result.
                ///     RuntimeError: a leaf that requires a gradient is changed in place while
                ///         operations are recorded.
                fn $in_place<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
                    check_keeps_dtype(stringify!($in_place), slf)?;
                    PyTensor::change(slf, &[], Tensor::$method, |x| x.copy_(&x.$method()?))
                }
            )*
        }
    };
}

of_floats! {
    /// Computes the arctangent of each element, from -pi/2 to pi/2.
    atan atan_ => atan;
    /// Computes the logarithm to base 2 of each element.
    log2 log2_ => log2;
    /// Computes the logarithm to base 10 of each element.
    log10 log10_ => log10;
    /// Computes `e^x` of each element.
    exp exp_ => exp;
    /// Computes the natural logarithm of each element.
    log log_ => log;
    /// Computes `log(1 + x)` of each element, accurate near 0.
    log1p log1p_ => log1p;
    /// Computes `e^x - 1` of each element, accurate near 0.
    expm1 expm1_ => expm1;
    /// Computes the square root of each element.
    sqrt sqrt_ => sqrt;
    /// Computes `1 / sqrt(x)` of each element.
    rsqrt rsqrt_ => rsqrt;
    /// Computes the sine of each element, in radians.
    sin sin_ => sin;
    /// Computes the cosine of each element, in radians.
    cos cos_ => cos;
    /// Computes the hyperbolic tangent of each element.
    tanh tanh_ => tanh;
    /// Computes `1 / (1 + e^-x)` of each element.
    sigmoid sigmoid_ => sigmoid;
    /// Computes the error function of each element.
    erf erf_ => erf;
    /// Computes `1 / x` of each element.
    reciprocal reciprocal_ => recip;
    /// Computes `x * sigmoid(x)` of each element.
    silu silu_ => silu;
}

/// Methods that leave integers unchanged.
macro_rules! of_fractions {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] -> the same
                fn $name(&self, py: Python<'_>) -> Outcome<PyTensor> {
                    self.map(py, |x| if x.dtype().is_float() { x.$method() } else { x.copy() })
                }
                $(#[$doc])*
                ///
                /// In place: the tensor itself is changed and returned.
                ///
                /// Raises:
                ///     RuntimeError: a leaf that requires a gradient is changed in place while
                ///         operations are recorded.
                fn $in_place<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
                    let apply = |x: &Tensor| if x.dtype().is_float() { x.$method() } else { Ok(x.clone()) };
                    PyTensor::change(slf, &[], apply, |x| if x.dtype().is_float() { x.copy_(&x.$method()?) } else { Ok(()) })
                }
            )*
        }
    };
}

of_fractions! {
    /// Computes the largest integer less than or equal to each element.
    floor floor_ => floor;
    /// Computes the smallest integer greater than or equal to each element.
    ceil ceil_ => ceil;
    /// Rounds each element to the nearest integer, ties to even.
    round round_ => round;
    /// Rounds each element to an integer toward zero.
    trunc trunc_ => trunc;
}

/// Returns the signs; bool elements are returned unchanged.
fn sign_or_copy(x: &Tensor) -> Result<Tensor> {
    if x.dtype() == DType::Bool { x.copy() } else { x.sign() }
}

#[pymethods]
impl PyTensor {
    /// Returns -1, 0 or 1 for each element; NaN stays NaN.
    ///
    /// Shapes: [..] -> the same
    fn sign(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, sign_or_copy)
    }

    /// Computes -1, 0 or 1 for each element; NaN stays NaN.
    ///
    /// In place: the tensor itself is changed and returned.
    ///
    /// Raises:
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    fn sign_<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
        PyTensor::change(slf, &[], sign_or_copy, |x| x.copy_(&sign_or_copy(x)?))
    }

    /// Computes `x * x` of each element; bool becomes int64.
    ///
    /// Shapes: [..] -> the same
    fn square(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| if x.dtype() == DType::Bool { x.to_dtype(DType::I64) } else { x.square() })
    }

    /// Computes `x * x` of each element.
    ///
    /// In place: the tensor itself is changed and returned.
    ///
    /// Raises:
    ///     TypeError: a bool input.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    fn square_<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
        PyTensor::change(slf, &[], Tensor::square, |x| x.copy_(&x.square()?))
    }

    /// Computes the logical NOT of each element; elements that are not 0 count as true.
    ///
    /// Shapes: [..] -> the same
    fn logical_not(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| x.ne_scalar(0)?.logical_not())
    }

    /// Computes the angles of the points (other, self), in radians, broadcast.
    ///
    /// Shapes: two tensors, broadcast -> the broadcast shape
    ///
    /// Raises:
    ///     ValueError: shapes that do not broadcast.
    ///     TypeError: `other` is not a tensor.
    fn atan2(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::atan2)] other: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = crate::promote::promote_pair(x, &other)?;
            to_floating(&x)?.atan2(&to_floating(&other)?)
        })
    }

    /// Computes `x` where it is positive, and `negative_slope * x` elsewhere.
    ///
    /// Shapes: [..] -> the same; integers become float32
    #[pyo3(signature = (negative_slope=0.01))]
    fn leaky_relu(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::leaky_relu)] negative_slope: f64,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.leaky_relu(negative_slope))
    }

    /// Computes `x` where it is positive, and `alpha * (e^x - 1)` elsewhere.
    ///
    /// Shapes: [..] -> the same; integers become float32
    #[pyo3(signature = (alpha=1.0))]
    fn elu(&self, py: Python<'_>, #[pyo3(from_py_with = of::elu)] alpha: f64) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.elu(alpha))
    }

    /// Computes `x * Phi(x)`, where `Phi` is the CDF of the standard normal distribution, or its
    /// tanh approximation if `approximate` is "tanh".
    ///
    /// Shapes: [..] -> the same; integers become float32
    ///
    /// Raises:
    ///     ValueError: an unknown `approximate`.
    #[pyo3(signature = (approximate="none".to_owned()), text_signature = "($self, approximate=\"none\")")]
    fn gelu(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::gelu)] approximate: String,
    ) -> Outcome<PyTensor> {
        match approximate.as_str() {
            "none" => self.map(py, |x| to_floating(x)?.gelu()),
            "tanh" => self.map(py, |x| to_floating(x)?.gelu_tanh()),
            other => Err(RaisedError::value_error(format!(
                "gelu: approximate is {other:?}, expected \"none\" or \"tanh\""
            ))),
        }
    }

    /// Computes `log(1 + e^(beta * x)) / beta`, or `x` itself where `beta * x` is above the
    /// threshold.
    ///
    /// Shapes: [..] -> the same; integers become float32
    ///
    /// Raises:
    ///     ValueError: a `beta` that is not positive.
    #[pyo3(signature = (beta=1.0, threshold=20.0))]
    fn softplus(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::softplus)] beta: f64,
        #[pyo3(from_py_with = of::softplus)] threshold: f64,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.softplus_with(beta, threshold))
    }

    /// Clamps each element to the range from `min` to `max`, which are numbers or tensors; NaN
    /// stays NaN.
    ///
    /// Shapes: [..] -> the same; tensors as bounds are broadcast
    ///
    /// Raises:
    ///     TypeError: a bound that is neither a number nor a tensor, or a bool input with only bool
    ///         bounds.
    ///     ValueError: no bound, a bound that would set every element to a number that does not fit
    ///         the dtype, or shapes that do not broadcast.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp(
        &self,
        py: Python<'_>,
        min: Option<&Bound<'_, PyAny>>,
        max: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        let (min, max) = clamp_bounds("clamp", &self.tensor(), min, max)?;
        self.map(py, |x| {
            apply_clamp(&x.to_dtype(dtype_with_numbers(x.dtype(), [&min, &max]))?, &min, &max)
                .with_op("clamp")
        })
    }

    /// `clamp` in place.
    ///
    /// Raises:
    ///     RuntimeError: bounds that promote the dtype, or a leaf that requires a gradient is
    ///         changed in place while operations are recorded.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp_<'py>(
        slf: &Bound<'py, Self>,
        min: Option<&Bound<'py, PyAny>>,
        max: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        let tensor = slf.get().tensor();
        let (min, max) = clamp_bounds("clamp_", &tensor, min, max)?;
        check_result_dtype("clamp_", clamp_result_dtype(&tensor, [&min, &max]), tensor.dtype())?;
        PyTensor::change(
            slf,
            &min.tensor().into_iter().chain(max.tensor()).collect::<Vec<_>>(),
            |x| apply_clamp(x, &min, &max).with_op("clamp_"),
            |x| x.copy_(&apply_clamp(x, &min, &max).with_op("clamp_")?),
        )
    }

    /// Alias of `clamp`.
    ///
    /// Shapes and errors are those of `clamp`
    #[pyo3(signature = (min=None, max=None))]
    fn clip(
        &self,
        py: Python<'_>,
        min: Option<&Bound<'_, PyAny>>,
        max: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<PyTensor> {
        self.clamp(py, min, max)
    }

    /// Fills the tensor with `value`, in place, and returns it. If `value` is a tensor, a gradient
    /// flows to it.
    ///
    /// Raises:
    ///     TypeError: a value that is not a number.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    fn fill_<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> Outcome<Bound<'py, Self>> {
        if let Some(value) = recorded_fill(value, "fill_")? {
            // Through a mask, so that a gradient of 0 flows to the elements, as in PyTorch.
            let filled = |x: &Tensor| full_mask(x)?.where_(&fill_like(&value, x)?, x);
            return PyTensor::change(slf, &[&value], filled, |x| x.copy_(&filled(x)?));
        }
        let value = number_value(value, "fill_")?.scalar();
        PyTensor::change(slf, &[], |x| fill_all(x, value), |x| x.fill_(value))
    }

    /// Fills the tensor with 0, in place, and returns it.
    ///
    /// Raises:
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    fn zero_<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
        PyTensor::change(slf, &[], |x| fill_all(x, Scalar::Int(0)), |x| x.fill_(0))
    }

    /// Copies the elements of `other` into this tensor, with broadcasting and conversion of dtype
    /// and device, and returns the tensor.
    ///
    /// Raises:
    ///     ValueError: a shape that does not broadcast to this one.
    #[pyo3(signature = (other, non_blocking=false))]
    fn copy_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::copy_)] other: Bound<'py, PyTensor>,
        #[pyo3(from_py_with = of::copy_)] non_blocking: bool,
    ) -> Outcome<Bound<'py, Self>> {
        let _ = non_blocking;
        let source = other.get().tensor();
        let expanded = |x: &Tensor| source.to_device(x.device())?.to_dtype(x.dtype())?.expand(*x.shape());
        PyTensor::change(
            slf,
            &[&source],
            |x| match x.needs_grad() && !source.needs_grad() {
                // The overwritten tensor keeps its history: a gradient of 0 flows to it, as in
                // PyTorch.
                true => full_mask(x)?.where_(&expanded(x).with_op("copy_")?, x),
                false => expanded(x).with_op("copy_")?.copy(),
            },
            |x| x.copy_(&source.to_device(x.device())?).with_op("copy_"),
        )
    }

    /// Called by in-place methods that are written in Python: this tensor takes over a result that
    /// has no other owner, with its history if it has one.
    fn _replace_with<'py>(slf: &Bound<'py, Self>, result: Bound<'py, PyTensor>) -> Outcome<Bound<'py, Self>> {
        let (tensor, new) = (slf.get().tensor(), result.get().tensor());
        let fits = new.shape() == tensor.shape() && new.dtype() == tensor.dtype();
        if !fits || !new.needs_grad() || !new.device().is(tensor.device()) {
            return Self::copy_(slf, result, false);
        }
        check_in_place(&tensor)?;
        slf.get().store_recorded(slf.py(), new)?;
        Ok(slf.clone())
    }
}

/// Returns an error if a floating result of an op may not be written to this tensor.
fn check_keeps_dtype(op: &str, slf: &Bound<'_, PyTensor>) -> Outcome<()> {
    let dtype = slf.get().tensor().dtype();
    check_result_dtype(op, if dtype.is_float() { dtype } else { default_dtype() }, dtype)
}

/// Returns an error if a result of one dtype may not be written to a tensor of another: PyTorch's
/// rule.
fn check_result_dtype(op: &str, result: DType, dtype: DType) -> Outcome<()> {
    if can_store(result, dtype) {
        return Ok(());
    }
    Err(RaisedError::runtime_error(format!(
        "{op}: result type {} can't be cast to the desired output type {}",
        crate::dialect::dtype_name(result),
        crate::dialect::dtype_name(dtype)
    )))
}

/// Returns `value` for every element of `x`, to which a gradient of 0 flows.
fn fill_all(x: &Tensor, value: Scalar) -> Result<Tensor> {
    x.masked_fill(&full_mask(x)?, value)
}

/// Returns a mask that is true everywhere.
pub(crate) fn full_mask(x: &Tensor) -> Result<Tensor> {
    x.ones_like()?.to_dtype(DType::Bool)
}

/// A bound of a range.
enum ClampBound {
    None,
    Number(Number),
    Tensor(Tensor),
}

impl ClampBound {
    fn of(op: &str, object: Option<&Bound<'_, PyAny>>) -> Outcome<ClampBound> {
        let Some(object) = object.filter(|object| !object.is_none()) else { return Ok(ClampBound::None) };
        if let Ok(tensor) = object.cast::<PyTensor>() {
            return Ok(ClampBound::Tensor(tensor.get().tensor()));
        }
        match extract_number(object)? {
            Some(number) => Ok(ClampBound::Number(number)),
            None => {
                let kind = object.get_type().name()?.to_string();
                Err(RaisedError::type_error(format!(
                    "{op}: expected numbers or tensors as min and max, got {kind}"
                )))
            }
        }
    }

    fn tensor(&self) -> Option<&Tensor> {
        match self {
            ClampBound::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    fn to_f64_or(&self, none: f64) -> Option<f64> {
        match *self {
            ClampBound::None => Some(none),
            ClampBound::Number(Number::Float(value)) => Some(value),
            ClampBound::Number(Number::Int(value)) => Some(value as f64),
            ClampBound::Number(Number::Bool(value)) => Some(f64::from(u8::from(value))),
            ClampBound::Tensor(_) => None,
        }
    }
}

/// Returns the bounds of a function: at least one, and neither may set every element of `x` to a
/// number that does not fit the dtype.
fn clamp_bounds(
    op: &str,
    x: &Tensor,
    min: Option<&Bound<'_, PyAny>>,
    max: Option<&Bound<'_, PyAny>>,
) -> Outcome<(ClampBound, ClampBound)> {
    let (min, max) = (ClampBound::of(op, min)?, ClampBound::of(op, max)?);
    if let (ClampBound::None, ClampBound::None) = (&min, &max) {
        return Err(RaisedError::value_error(format!("{op}: no bound, expected min, max or both")));
    }
    let dtype = dtype_with_numbers(x.dtype(), [&min, &max]);
    let Some((least, end)) = crate::create::nested::int_range(dtype) else { return Ok((min, max)) };
    let out_of_range = |bound: &ClampBound, is_outside: fn(i128, [i128; 2]) -> bool| match *bound {
        ClampBound::Number(Number::Int(value)) if is_outside(value, [least, end]) => Some(value),
        _ => None,
    };
    let out = out_of_range(&min, |value, [_, end]| value >= end)
        .or(out_of_range(&max, |value, [least, _]| value < least));
    match out {
        Some(value) => Err(RaisedError::value_error(format!(
            "{op}: {value} does not fit {}",
            crate::dialect::dtype_name(dtype)
        ))),
        None => Ok((min, max)),
    }
}

/// Returns the promoted dtype of an input and those of its bounds that are numbers.
fn dtype_with_numbers(dtype: DType, bounds: [&ClampBound; 2]) -> DType {
    bounds.into_iter().fold(dtype, |dtype, end| match *end {
        ClampBound::Number(number) => result_type_with_number(dtype, number),
        _ => dtype,
    })
}

/// Returns the dtype of the result, promoted with the bounds that are tensors if a common dtype
/// exists.
fn clamp_result_dtype(x: &Tensor, bounds: [&ClampBound; 2]) -> DType {
    let tensors = bounds.into_iter().filter_map(ClampBound::tensor);
    tensors.fold(dtype_with_numbers(x.dtype(), bounds), |dtype, bound| {
        let is_wider = x.rank() == 0 || bound.rank() > 0 || !can_store(bound.dtype(), dtype);
        if is_wider { promote_types(dtype, bound.dtype()).unwrap_or(dtype) } else { dtype }
    })
}

/// Returns the bound as an integer, `none` if there is no bound, and `None` for a bound of another
/// kind.
fn to_i128_or(end: &ClampBound, none: i128) -> Option<i128> {
    match *end {
        ClampBound::None => Some(none),
        ClampBound::Number(Number::Int(value)) => Some(value),
        ClampBound::Number(Number::Bool(value)) => Some(i128::from(value)),
        ClampBound::Number(Number::Float(_)) | ClampBound::Tensor(_) => None,
    }
}

fn apply_clamp(x: &Tensor, min: &ClampBound, max: &ClampBound) -> Result<Tensor> {
    // `clamp` has f64 bounds, which cannot represent all 64-bit integers.
    if let (DType::I64 | DType::U64, Some((least, end))) =
        (x.dtype(), crate::create::nested::int_range(x.dtype()))
        && let (Some(low), Some(high)) = (to_i128_or(min, least), to_i128_or(max, end - 1))
    {
        let bound = |number: i128| Number::Int(number.clamp(least, end - 1)).scalar();
        return x.maximum_scalar(bound(low))?.minimum_scalar(bound(high));
    }
    if let (Some(low), Some(high)) = (min.to_f64_or(f64::NEG_INFINITY), max.to_f64_or(f64::INFINITY)) {
        if low.is_nan() || high.is_nan() {
            // As in PyTorch, NaN as a bound sets every element to NaN, with a gradient of 0.
            return x.mul_scalar(0)?.add_scalar(f64::NAN);
        }
        // As in PyTorch, every element becomes `max` if `min` is greater than `max`.
        return x.clamp(low.min(high), high);
    }
    if let (ClampBound::Tensor(low), ClampBound::Tensor(high)) = (min, max) {
        let (x, low) = crate::promote::promote_pair(x, low)?;
        let (x, high) = crate::promote::promote_pair(&x, high)?;
        return x.clamp_tensor(Some(&low.to_dtype(x.dtype())?), Some(&high));
    }
    let mut x = x.clone();
    for (bound, is_low) in [(min, true), (max, false)] {
        x = match bound {
            ClampBound::None => x,
            ClampBound::Number(number) if is_low => x.maximum_scalar(number.scalar())?,
            ClampBound::Number(number) => x.minimum_scalar(number.scalar())?,
            ClampBound::Tensor(bound) => {
                let (x, bound) = crate::promote::promote_pair(&x, bound)?;
                if x.dtype() == DType::Bool {
                    return if is_low { x.maximum(&bound) } else { x.minimum(&bound) };
                }
                let [low, high] = if is_low { [Some(&bound), None] } else { [None, Some(&bound)] };
                x.clamp_tensor(low, high)?
            }
        };
    }
    Ok(x)
}
