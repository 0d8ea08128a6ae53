//! Extraction of arguments with errors that name the function: `#[pyo3(from_py_with = of::topk)] k:
//! Count`.
//!
//! PyO3's own error for an argument of another type does not name the function.

use crate::arguments::{AxesArgument, Count, LOST_GRADIENT, Seed, ShapeArgument, checked_size, extract_ints};
use crate::error::{Outcome, RaisedError};
use crate::tensor::PyTensor;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

/// A type that is extracted from an argument of the function `function`.
pub trait ExtractArgument<'py>: Sized {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self>;
}

fn type_error(function: &str, object: &Bound<'_, PyAny>, expected: &str) -> Outcome<RaisedError> {
    let kind = object.get_type().name()?.to_string();
    Ok(RaisedError::type_error(format!("{function}: expected {expected}, got {kind}")))
}

/// Converts an extraction error about the type or the size to one that names the function; returns
/// other errors unchanged.
fn extraction_error(
    function: &str,
    object: &Bound<'_, PyAny>,
    error: PyErr,
    expected: &str,
) -> Outcome<RaisedError> {
    let py = object.py();
    if error.is_instance_of::<PyTypeError>(py) {
        return type_error(function, object, expected);
    }
    if error.is_instance_of::<PyOverflowError>(py) {
        return Ok(RaisedError::value_error(format!("{function}: {} is out of range", object.str()?)));
    }
    Ok(error.into())
}

fn extract_as<'py, T>(function: &str, object: &Bound<'py, PyAny>, expected: &str) -> Outcome<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
{
    match object.extract::<T>() {
        Ok(value) => Ok(value),
        Err(error) => Err(extraction_error(function, object, error.into(), expected)?),
    }
}

/// Returns an error if the object is a bool, which Python treats as an int.
fn reject_bool(function: &str, object: &Bound<'_, PyAny>, expected: &str) -> Outcome<()> {
    match object.is_exact_instance_of::<PyBool>() {
        true => Err(type_error(function, object, expected)?),
        false => Ok(()),
    }
}

impl<'py> ExtractArgument<'py> for isize {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        reject_bool(function, object, "an integer")?;
        extract_as(function, object, "an integer")
    }
}

impl<'py> ExtractArgument<'py> for i64 {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        reject_bool(function, object, "an integer")?;
        extract_as(function, object, "an integer")
    }
}

impl<'py> ExtractArgument<'py> for Seed {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        object.extract::<Seed>().map_err(|raised| {
            let (error, py) = (PyErr::from(raised), object.py());
            let message = format!("{function}: {}", error.value(py));
            if error.is_instance_of::<PyTypeError>(py) {
                RaisedError::type_error(message)
            } else {
                RaisedError::value_error(message)
            }
        })
    }
}

impl<'py> ExtractArgument<'py> for u64 {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        Count::of(function, object).map(|Count(count)| count as u64)
    }
}

impl<'py> ExtractArgument<'py> for usize {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        Count::of(function, object).map(|Count(count)| count)
    }
}

impl<'py> ExtractArgument<'py> for Count {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        reject_bool(function, object, "an integer")?;
        match object.extract::<usize>() {
            Ok(count) => Ok(Count(count)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Err(RaisedError::value_error(format!(
                    "{function}: a count of {}, expected 0 or more",
                    object.str()?
                )))
            }
            Err(error) => Err(extraction_error(function, object, error, "an integer")?),
        }
    }
}

impl<'py> ExtractArgument<'py> for f64 {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        if let Ok(tensor) = object.cast::<PyTensor>()
            && tensor.get().tensor().needs_grad()
        {
            return Err(RaisedError::type_error(format!("{function}: {LOST_GRADIENT}")));
        }
        if let Ok(tensor) = object.cast::<PyTensor>()
            && tensor.get().tensor().elements() != 1
        {
            return Err(crate::create::single_element_error(function, &tensor.get().tensor()));
        }
        extract_as(function, object, "a number")
    }
}

impl<'py> ExtractArgument<'py> for bool {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        extract_as(function, object, "True or False")
    }
}

impl<'py> ExtractArgument<'py> for String {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        extract_as(function, object, "a str")
    }
}

/// Extracts the integers of an object that is a list, or returns an error for an int that is out of
/// range.
fn extract_int_list(function: &str, object: &Bound<'_, PyAny>) -> Outcome<Vec<isize>> {
    if object.is_instance_of::<PyInt>() {
        return Err(RaisedError::value_error(format!("{function}: {} is out of range", object.str()?)));
    }
    extract_ints(object, function)
}

impl<'py> ExtractArgument<'py> for ShapeArgument {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        reject_bool(function, object, "integers")?;
        let sizes = match object.extract::<isize>() {
            Ok(only) => vec![only],
            Err(_) => extract_int_list(function, object)?,
        };
        sizes
            .into_iter()
            .map(|number| checked_size(number, function))
            .collect::<Outcome<_>>()
            .map(ShapeArgument)
    }
}

impl<'py> ExtractArgument<'py> for AxesArgument {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        reject_bool(function, object, "integers as axes")?;
        match object.extract::<isize>() {
            Ok(only) => Ok(AxesArgument(vec![only])),
            Err(_) => extract_int_list(function, object).map(AxesArgument),
        }
    }
}

impl<'py> ExtractArgument<'py> for Bound<'py, PyTensor> {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        match object.cast::<PyTensor>() {
            Ok(tensor) => Ok(tensor.clone()),
            Err(_) => Err(type_error(function, object, "a tensor")?),
        }
    }
}

impl<'py, T: ExtractArgument<'py>> ExtractArgument<'py> for Vec<T> {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        // Strings and tensors are iterable too, but neither is meant as a list here.
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyTensor>() {
            return Err(type_error(function, object, "a list")?);
        }
        let Ok(items) = object.try_iter() else { return Err(type_error(function, object, "a list")?) };
        items.map(|item| T::of(function, &item?)).collect()
    }
}

impl<'py, T: ExtractArgument<'py>> ExtractArgument<'py> for Option<T> {
    fn of(function: &str, object: &Bound<'py, PyAny>) -> Outcome<Self> {
        if object.is_none() { Ok(None) } else { T::of(function, object).map(Some) }
    }
}

macro_rules! functions {
    ($($name:ident)*) => {
        /// Extraction functions, each with the name of the function whose arguments it extracts.
        #[allow(non_snake_case, reason = "some are of classes")]
        pub mod of {
            use super::ExtractArgument;
            use pyo3::prelude::*;

            $(
                pub fn $name<'py, T: ExtractArgument<'py>>(object: &Bound<'py, PyAny>) -> PyResult<T> {
                    Ok(T::of(stringify!($name).trim_start_matches("r#"), object)?)
                }
            )*
        }
    };
}

functions! {
    Parameter Windows
    add_relu addbmm addcmul addmm addmm_ addmv addr all allclose amax amin aminmax any arange argmax argmin argsort atan2 avg_pool2d backward baddbmm batch_norm
    batches bernoulli bernoulli_ binomial bias_activation binary_cross_entropy_with_logits bincount bmm cat cauchy_ chunk concat conv1d conv2d conv_transpose2d
    copy_ count_nonzero cross_entropy cuda cumsum data device div div_ dot dropout einsum elu empty empty_like epoch equal expand_as exponential_ eye first flatten fmax
    fmin fold from_dlpack full full_like gather gcd gelu geometric_ grad group_norm hardtanh histc huber_loss index_add index_add_ index_select instance_norm isclose kl_div
    l1_loss layer_norm lcm leaky_relu linear linear_cross_entropy linspace log_normal_ log_softmax logical_and logical_or logical_xor logit logsumexp masked_fill masked_fill_
    masked_scatter masked_select matmul max max_abs max_pool2d maximum mean min minimum mm mse_loss mv mvlgamma nanmean nansum narrow nll_loss nonzero norm normal_
    one_hot ones ones_like order outer pad poisson polygamma position prod
    r#where rand rand_like randint randn randn_like random randperm requires_grad requires_grad_ rms_norm roll scaled_dot_product_attention scaled_dot_product_attention_with_lse scatter
    scatter_ scatter_add scatter_add_ select sequential sinusoidal size softmax softplus sort split squeeze stack std stride sum sum_squares tensor to topk train_test_split transpose tril triu type_as unbind
    unflatten unfold uniform_ unsqueeze var var_mean varlen_attn xlog1py xlogy zeros zeros_like zeta
}
