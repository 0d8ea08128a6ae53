//! Random numbers: the state of a device's generator, separate generators, and sampling.

use crate::arguments::{Count, Seed, ShapeArgument, args_or_kwargs};
use crate::create::{TensorOptions, dtype_or, uniform};
use crate::device::{DeviceArgument, PyDevice, or_default};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::gil::run;
use crate::methods::elementwise::full_mask;
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ternion::{DType, Device, Error, Result, Shape, Tensor};

/// Returns the seed of the device's generator, and the count of numbers drawn.
#[pyfunction]
#[pyo3(signature = (device=None))]
fn _random_position(py: Python<'_>, device: Option<DeviceArgument>) -> Outcome<(u64, u64)> {
    Ok(or_default(py, device)?.random_position())
}

/// Restores the state that `_random_position` returned.
#[pyfunction]
#[pyo3(signature = (position, device=None))]
fn _set_random_position(
    py: Python<'_>,
    position: (Seed, u64),
    device: Option<DeviceArgument>,
) -> Outcome<()> {
    let (Seed(seed), drawn) = position;
    or_default(py, device)?.set_random_position((seed, drawn));
    Ok(())
}

/// A separate random number generator. Functions that sample accept it as `generator=`.
///
/// It is independent of the device's generator, and starts from a fixed seed.
#[pyclass(name = "Generator", module = "ternion", frozen)]
pub struct PyGenerator {
    device: Device,
    /// The seed, and the count of numbers drawn.
    position: Mutex<(u64, u64)>,
}

/// PyTorch's initial seed.
const FIRST_SEED: u64 = 67_280_421_310_721;

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device=None))]
    fn new(py: Python<'_>, device: Option<DeviceArgument>) -> Outcome<PyGenerator> {
        let device = or_default(py, Some(device.unwrap_or_else(|| DeviceArgument::Named("cpu".into()))))?;
        Ok(PyGenerator { device, position: Mutex::new((FIRST_SEED, 0)) })
    }

    /// The device of the generator.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.device.clone())
    }

    /// Restarts from a seed. Returns the generator.
    fn manual_seed<'py>(slf: &Bound<'py, Self>, seed: Seed) -> Bound<'py, Self> {
        *slf.get().position.lock() = (seed.0, 0);
        slf.clone()
    }

    /// Restarts from an unpredictable seed. Returns the seed.
    fn seed(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        let seed = RandomState::new().hash_one(std::process::id());
        *self.position.lock() = (seed, 0);
        seed
    }

    /// Returns the seed.
    fn initial_seed(&self) -> u64 {
        self.position.lock().0
    }

    /// Returns the state: the seed, and the count of numbers drawn.
    fn get_state(&self) -> (u64, u64) {
        *self.position.lock()
    }

    /// Restores a state that `get_state` returned. Returns the generator.
    fn set_state<'py>(slf: &Bound<'py, Self>, new_state: (u64, u64)) -> Bound<'py, Self> {
        *slf.get().position.lock() = new_state;
        slf.clone()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,), (u64, u64)) {
        let generator = slf.get();
        (slf.get_type().into_any(), (generator.device.name().to_owned(),), generator.get_state())
    }

    fn __setstate__(&self, state: (u64, u64)) {
        *self.position.lock() = state;
    }

    fn __repr__(&self) -> String {
        let (seed, drawn) = *self.position.lock();
        format!("Generator(device='{}', seed={seed}, drawn={drawn})", self.device.name())
    }
}

/// The source of random numbers.
#[derive(Clone, Copy)]
pub struct RandomSource<'g>(Option<&'g PyGenerator>);

impl<'g> RandomSource<'g> {
    /// Returns the source for a generator, or for the device itself.
    pub fn of(generator: Option<&'g Bound<'_, PyGenerator>>, device: &Device) -> Outcome<RandomSource<'g>> {
        let generator = generator.map(|generator| generator.get());
        match generator.filter(|generator| !generator.device.is(device)) {
            Some(other) => Err(RaisedError::runtime_error(format!(
                "generator: of {}, expected one of {}",
                other.device.name(),
                device.name()
            ))),
            None => Ok(RandomSource(generator)),
        }
    }

    pub fn draw<T>(self, device: &Device, f: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.0 {
            None => f(),
            Some(generator) => device.with_random(&mut generator.position.lock(), f),
        }
    }
}

macro_rules! random_functions {
    ($($(#[$doc:meta])* $name:ident => $draw:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Shapes: -> [*size]
            ///
            /// Args:
            ///     size: the sizes, one by one or as a tuple.
            ///     generator: the generator; by default that of the device.
            ///     dtype: float32 by default.
            ///     device: by default that of get_default_device().
            ///     requires_grad: whether the tensor requires a gradient.
            ///
            /// Raises:
            ///     ValueError: a negative size.
            ///     TypeError: a dtype that is not floating, or a `generator` of another type.
            #[pyfunction]
            #[pyo3(
                signature = (*size, generator=None, dtype=None, device=None, requires_grad=false, **named),
                text_signature = "(*size, generator=None, dtype=None, device=None, requires_grad=False)"
            )]
            #[allow(clippy::too_many_arguments, reason = "PyTorch's")]
            fn $name(
                py: Python<'_>,
                size: &Bound<'_, PyTuple>,
                generator: Option<&Bound<'_, PyGenerator>>,
                dtype: Option<DTypeArgument>,
                device: Option<DeviceArgument>,
                #[pyo3(from_py_with = of::$name)] requires_grad: bool,
                named: Option<&Bound<'_, PyDict>>,
            ) -> Outcome<PyTensor> {
                let size = &args_or_kwargs(size, named, "size", stringify!($name))?;
                let options = TensorOptions::new(py, size, dtype, device, requires_grad, stringify!($name))?;
                let source = RandomSource::of(generator, &options.device)?;
                options.create(py, |shape, dtype, device| source.draw(device, || $draw(shape, dtype, device)))
            }
        )*

        fn register_random(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

random_functions! {
    /// Returns uniform random numbers in [0, 1).
    rand => uniform;
    /// Returns random numbers from the normal distribution with mean 0 and variance 1.
    randn => Tensor::randn;
}

/// Returns uniform random integers from `low` up to, but not including, `high`: `randint(high,
/// size)`, `randint(low, high, size)`.
///
/// Shapes: -> [*size]
///
/// Raises:
///     ValueError: `high` is not greater than `low`, or an integer does not fit the dtype (bool
///         accepts 0 and 1).
///     TypeError: no size.
#[pyfunction]
#[pyo3(signature = (low=None, high=None, size=None, *, generator=None, dtype=None, device=None))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn randint(
    py: Python<'_>,
    #[pyo3(from_py_with = of::randint)] low: Option<i64>,
    high: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = of::randint)] size: Option<ShapeArgument>,
    generator: Option<&Bound<'_, PyGenerator>>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let missing = || RaisedError::type_error("randint: expected high and size, or low, high and size");
    let high = high.ok_or_else(missing);
    let (low, high, size) = match (low, size) {
        (Some(high_alone), Some(size)) if high.is_err() => (0, high_alone, size),
        (low, Some(size)) => (low.unwrap_or(0), of::randint(high?)?, size),
        (Some(high_alone), None) => (0, high_alone, of::randint(high?)?),
        (None, None) => return Err(missing()),
    };
    let (dtype, device, shape) = (dtype_or(dtype, DType::I64), or_default(py, device)?, Shape::new(&size.0)?);
    let source = RandomSource::of(generator, &device)?;
    if dtype == DType::Bool && (low < 0 || high > 2) {
        return Err(RaisedError::value_error(format!("randint: {low}..{high} does not fit bool")));
    }
    // Integers for a floating dtype, and for bool, are drawn as int64.
    let int_dtype = if dtype.is_int() { dtype } else { DType::I64 };
    let draw =
        || source.draw(&device, || Tensor::randint(low, high, shape, int_dtype, &device))?.to_dtype(dtype);
    run(py, shape.elements(), draw).map(PyTensor::new)
}

/// Returns a random permutation of the integers from 0 up to, but not including, `n`; int64.
///
/// Shapes: -> [n]
///
/// Raises:
///     ValueError: a negative `n`.
#[pyfunction]
#[pyo3(signature = (n, *, generator=None, dtype=None, device=None))]
fn randperm(
    py: Python<'_>,
    #[pyo3(from_py_with = of::randperm)] n: Count,
    generator: Option<&Bound<'_, PyGenerator>>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let (device, dtype, Count(n)) = (or_default(py, device)?, dtype_or(dtype, DType::I64), n);
    let source = RandomSource::of(generator, &device)?;
    let draw = || source.draw(&device, || Tensor::permutation(n, &device))?.to_dtype(dtype);
    run(py, n, draw).map(PyTensor::new)
}

/// Overwrites the elements with the result of `draw`.
fn fill_random<'py>(
    slf: &Bound<'py, PyTensor>,
    generator: Option<&Bound<'py, PyGenerator>>,
    draw: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync,
) -> Outcome<Bound<'py, PyTensor>> {
    let source = RandomSource::of(generator, slf.get().tensor().device())?;
    let sample = |x: &Tensor| source.draw(x.device(), || draw(x)?.to_dtype(x.dtype()));
    // The previous values do not affect the result, even if they are infinite or NaN.
    PyTensor::change(slf, &[], |x| full_mask(x)?.where_(&sample(x)?, x), |x| x.copy_(&sample(x)?))
}

/// Returns the value of the keyword argument `name`; other additional arguments are rejected.
fn single_keyword(function: &str, kwargs: &Bound<'_, PyDict>, name: &str) -> Outcome<Option<f64>> {
    for key in kwargs.keys() {
        if key.extract::<String>()? != name {
            let key = key.extract::<String>()?;
            return Err(RaisedError::type_error(format!(
                "{function}() got an unexpected keyword argument '{key}'"
            )));
        }
    }
    kwargs.get_item(name)?.map(|value| Ok(of::uniform_(&value)?)).transpose()
}

/// Rejects values outside 0 to 1 on the CPU.
fn check_probabilities(x: &Tensor) -> Result<()> {
    if x.device().name() != "cpu" || !x.dtype().is_float() || x.elements() == 0 {
        return Ok(());
    }
    let (low, high) = (x.min(..)?.item_f64()?, x.max(..)?.item_f64()?);
    // NaN fails both comparisons.
    if low >= 0.0 && high <= 1.0 {
        return Ok(());
    }
    Err(Error::invalid("bernoulli", format!("probabilities from {low} to {high}, expected 0 to 1")))
}

#[pymethods]
impl PyTensor {
    /// Samples 1 with the probability given by each element, or with probability `p`, otherwise 0;
    /// the dtype is kept. No gradient flows.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Raises:
    ///     ValueError: a probability outside 0 to 1, or NaN; only on the CPU, because the check
    ///         would have to wait for another device.
    ///     TypeError: a dtype that is not floating, without `p`.
    #[pyo3(signature = (p=None, *, generator=None))]
    fn bernoulli(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::bernoulli)] p: Option<f64>,
        generator: Option<&Bound<'_, PyGenerator>>,
    ) -> Outcome<PyTensor> {
        let source = RandomSource::of(generator, self.tensor().device())?;
        self.map(py, |x| {
            if let Some(p) = p {
                let draw = || Tensor::bernoulli_scalar(p, *x.shape(), x.dtype(), x.device());
                return source.draw(x.device(), draw);
            }
            check_probabilities(x)?;
            source.draw(x.device(), || x.bernoulli())
        })
    }

    /// Fills the tensor with 1 with probability `p`, a number or a tensor that is broadcast,
    /// otherwise 0, in place: the tensor itself is changed and returned.
    ///
    /// Raises:
    ///     ValueError: a probability outside 0 to 1, or a shape that does not broadcast to this
    ///         one.
    ///     TypeError: probabilities of integer dtype.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (p=None, *, generator=None), text_signature = "($self, p=0.5, *, generator=None)")]
    fn bernoulli_<'py>(
        slf: &Bound<'py, Self>,
        p: Option<&Bound<'py, PyAny>>,
        generator: Option<&Bound<'py, PyGenerator>>,
    ) -> Outcome<Bound<'py, Self>> {
        if let Some(Ok(p)) = p.map(|p| p.cast::<PyTensor>()) {
            let p = p.get().tensor().detach();
            check_probabilities(&p).with_op("bernoulli_")?;
            let expanded = |x: &Tensor| p.to_device(x.device())?.expand(*x.shape());
            return fill_random(slf, generator, |x| {
                expanded(x).and_then(|p| p.bernoulli()).with_op("bernoulli_")
            });
        }
        let p: f64 = p.map_or(Ok(0.5), of::bernoulli_)?;
        fill_random(slf, generator, |x| Tensor::bernoulli_scalar(p, *x.shape(), x.dtype(), x.device()))
    }

    /// Fills the tensor with uniform random numbers in [low, high), in place: the tensor itself is
    /// changed and returned.
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     ValueError: bounds in the wrong order.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(
        signature = (low=None, high=None, *, generator=None, to=None, **first),
        text_signature = "($self, low=0.0, high=1.0, *, generator=None, to=None, **first)"
    )]
    fn uniform_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::uniform_)] low: Option<f64>,
        #[pyo3(from_py_with = of::uniform_)] high: Option<f64>,
        generator: Option<&Bound<'py, PyGenerator>>,
        #[pyo3(from_py_with = of::uniform_)] to: Option<f64>,
        first: Option<&Bound<'py, PyDict>>,
    ) -> Outcome<Bound<'py, Self>> {
        // `from`, PyTorch's name of the lower bound, is a keyword in Python.
        let first = first.map(|first| single_keyword("uniform_", first, "from")).transpose()?.flatten();
        if low.is_some() && first.is_some() || high.is_some() && to.is_some() {
            return Err(RaisedError::type_error("uniform_: an end twice, expected from and to"));
        }
        let (low, high) = (low.or(first).unwrap_or(0.0), high.or(to).unwrap_or(1.0));
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Err(RaisedError::value_error(format!(
                "uniform_: from {low} to {high}, expected finite numbers in order"
            )));
        }
        fill_random(slf, generator, |x| {
            let even = uniform(*x.shape(), x.dtype(), x.device()).with_op("uniform_")?;
            even.mul_scalar(high - low)?.add_scalar(low)
        })
    }

    /// Fills the tensor with random numbers from the normal distribution, in place: the tensor
    /// itself is changed and returned.
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     ValueError: a negative standard deviation.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (mean=0.0, std=1.0, *, generator=None))]
    fn normal_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::normal_)] mean: f64,
        #[pyo3(from_py_with = of::normal_)] std: f64,
        generator: Option<&Bound<'py, PyGenerator>>,
    ) -> Outcome<Bound<'py, Self>> {
        if !(mean.is_finite() && std.is_finite() && std >= 0.0) {
            return Err(RaisedError::value_error(format!(
                "normal_: mean {mean} and std {std}, expected finite numbers, the second of at least 0"
            )));
        }
        fill_random(slf, generator, |x| {
            let normal = Tensor::randn(*x.shape(), x.dtype(), x.device()).with_op("normal_")?;
            normal.mul_scalar(std)?.add_scalar(mean)
        })
    }

    /// Fills the tensor with random numbers from the exponential distribution with rate `lambd`, in
    /// place: the tensor itself is changed and returned.
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     ValueError: a rate that is not positive.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (lambd=1.0, *, generator=None))]
    fn exponential_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::exponential_)] lambd: f64,
        generator: Option<&Bound<'py, PyGenerator>>,
    ) -> Outcome<Bound<'py, Self>> {
        fill_random(slf, generator, |x| Tensor::exponential(lambd, *x.shape(), x.dtype(), x.device()))
    }

    /// Fills the tensor with random numbers whose logarithms are normally distributed with this
    /// mean and standard deviation, in place: the tensor itself is changed and returned.
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     ValueError: a standard deviation that is not positive.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (mean=1.0, std=2.0, *, generator=None))]
    fn log_normal_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::log_normal_)] mean: f64,
        #[pyo3(from_py_with = of::log_normal_)] std: f64,
        generator: Option<&Bound<'py, PyGenerator>>,
    ) -> Outcome<Bound<'py, Self>> {
        fill_random(slf, generator, |x| Tensor::log_normal(mean, std, *x.shape(), x.dtype(), x.device()))
    }

    /// Fills the tensor with random numbers from the Cauchy distribution, in place: the tensor
    /// itself is changed and returned.
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     ValueError: a `sigma` that is not positive.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (median=0.0, sigma=1.0, *, generator=None))]
    fn cauchy_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::cauchy_)] median: f64,
        #[pyo3(from_py_with = of::cauchy_)] sigma: f64,
        generator: Option<&Bound<'py, PyGenerator>>,
    ) -> Outcome<Bound<'py, Self>> {
        fill_random(slf, generator, |x| Tensor::cauchy(median, sigma, *x.shape(), x.dtype(), x.device()))
    }

    /// Fills the tensor with random numbers from the geometric distribution: the number of trials
    /// with probability `p` up to the first success, in place: the tensor itself is changed and
    /// returned.
    ///
    /// Raises:
    ///     TypeError: a bool tensor.
    ///     ValueError: a probability that is not between 0 and 1, both excluded.
    ///     RuntimeError: a leaf that requires a gradient is changed in place while operations are
    ///         recorded.
    #[pyo3(signature = (p, *, generator=None))]
    fn geometric_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::geometric_)] p: f64,
        generator: Option<&Bound<'py, PyGenerator>>,
    ) -> Outcome<Bound<'py, Self>> {
        fill_random(slf, generator, |x| Tensor::geometric(p, *x.shape(), x.dtype(), x.device()))
    }
}

/// Samples from Poisson distributions whose rates are the elements of `input`; the dtype is kept.
/// No gradient flows.
///
/// Shapes: [..] -> the same
///
/// Raises:
///     TypeError: the dtype is not floating.
///     ValueError: a rate that is negative or not finite.
#[pyfunction]
#[pyo3(signature = (input, generator=None))]
fn poisson(
    py: Python<'_>,
    #[pyo3(from_py_with = of::poisson)] input: Bound<'_, PyTensor>,
    generator: Option<&Bound<'_, PyGenerator>>,
) -> Outcome<PyTensor> {
    let rates = input.get().tensor();
    let source = RandomSource::of(generator, rates.device())?;
    run(py, rates.elements(), || source.draw(rates.device(), || rates.poisson())).map(PyTensor::new)
}

/// Samples from binomial distributions: the number of successes in `count` trials with probability
/// `prob`, in the dtype of `count`. No gradient flows.
///
/// Shapes: two tensors, broadcast -> the broadcast shape
///
/// Raises:
///     TypeError: the dtype is not floating.
///     ValueError: counts that are not integers of at least 0, probabilities outside 0 to 1, or
///         shapes that do not broadcast.
#[pyfunction]
#[pyo3(signature = (count, prob, generator=None))]
fn binomial(
    py: Python<'_>,
    #[pyo3(from_py_with = of::binomial)] count: Bound<'_, PyTensor>,
    #[pyo3(from_py_with = of::binomial)] prob: Bound<'_, PyTensor>,
    generator: Option<&Bound<'_, PyGenerator>>,
) -> Outcome<PyTensor> {
    let (trials, probabilities) = (count.get().tensor(), prob.get().tensor());
    let source = RandomSource::of(generator, trials.device())?;
    let draw = || {
        let shape = trials.shape().broadcast(probabilities.shape(), "binomial")?;
        let (trials, probabilities) = (trials.expand(shape)?, probabilities.expand(shape)?);
        source.draw(trials.device(), || trials.binomial(&probabilities))
    };
    run(py, trials.elements(), draw).map(PyTensor::new)
}

#[pyfunction]
fn _normal(
    py: Python<'_>,
    mean: &Bound<'_, PyTensor>,
    std: &Bound<'_, PyTensor>,
    generator: Option<&Bound<'_, PyGenerator>>,
) -> Outcome<PyTensor> {
    let (mean, std) = (mean.get().tensor(), std.get().tensor());
    let source = RandomSource::of(generator, mean.device())?;
    run(py, mean.elements(), || source.draw(mean.device(), || Tensor::normal(&mean, &std))).map(PyTensor::new)
}

/// Adds the functions and the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_random(module)?;
    module.add_function(wrap_pyfunction!(randint, module)?)?;
    module.add_function(wrap_pyfunction!(randperm, module)?)?;
    module.add_function(wrap_pyfunction!(poisson, module)?)?;
    module.add_function(wrap_pyfunction!(binomial, module)?)?;
    module.add_function(wrap_pyfunction!(_normal, module)?)?;
    module.add_class::<PyGenerator>()?;
    module.add_function(wrap_pyfunction!(_random_position, module)?)?;
    module.add_function(wrap_pyfunction!(_set_random_position, module)?)
}
