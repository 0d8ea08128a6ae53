//! Conversion of tensors to other dtypes and devices.

use crate::device::{DeviceArgument, PyDevice};
use crate::dtype::{DTypeArgument, PyDType};
use crate::error::Outcome;
use crate::extract::of;
use crate::gil::wait;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};
use ternion::{DType, Device};

/// Returns the dtype and device that the arguments of `to` specify, in addition to `named`, and
/// whether a copy is requested.
fn parse_to_args(
    args: &Bound<'_, PyTuple>,
    named: (Option<DType>, Option<Device>),
    copy: bool,
) -> Outcome<(Option<DType>, Option<Device>, bool)> {
    let (py, (mut dtype, mut device)) = (args.py(), named);
    let (mut copies, mut flags) = (copy, 0);
    for argument in args {
        if argument.cast::<PyBool>().is_ok() {
            // PyTorch's positional flags non_blocking and copy: only the second one requests a
            // copy.
            copies |= flags > 0 && argument.is_truthy()?;
            flags += 1;
        } else if let Ok(other) = argument.cast::<PyTensor>() {
            let other = other.get().tensor();
            (dtype, device) = (Some(other.dtype()), Some(other.device().clone()));
        } else if argument.cast::<PyDevice>().is_ok() {
            device = Some(argument.extract::<DeviceArgument>()?.open(py)?);
        } else if argument.cast::<PyDType>().is_ok() {
            dtype = Some(argument.extract::<DTypeArgument>()?.0);
        } else if let Ok(parsed) = argument.extract::<DTypeArgument>() {
            dtype = Some(parsed.0);
        } else {
            device = Some(argument.extract::<DeviceArgument>()?.open(py)?);
        }
    }
    Ok((dtype, device, copies))
}

#[pymethods]
impl PyTensor {
    /// Converts the dtype or the device. Returns the tensor itself if it already has both.
    ///
    /// Accepts a dtype, a device or its name, both, or a tensor whose dtype and device are used.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Args:
    ///     copy: whether to copy in any case.
    ///     non_blocking, memory_format: accepted as in PyTorch; ignored.
    ///
    /// Raises:
    ///     RuntimeError: the device is not available.
    ///     TypeError: an argument that is neither a dtype nor a device.
    #[pyo3(signature = (*args, dtype=None, device=None, copy=false, non_blocking=false, memory_format=None))]
    fn to<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        dtype: Option<DTypeArgument>,
        device: Option<DeviceArgument>,
        #[pyo3(from_py_with = of::to)] copy: bool,
        #[pyo3(from_py_with = of::to)] non_blocking: bool,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        let _ = (non_blocking, memory_format);
        let (py, tensor) = (slf.py(), slf.get().tensor());
        let named = (dtype.map(|dtype| dtype.0), device.map(|device| device.open(py)).transpose()?);
        let (dtype, device, copies) = parse_to_args(args, named, copy)?;
        let (dtype, device) =
            (dtype.unwrap_or(tensor.dtype()), device.unwrap_or_else(|| tensor.device().clone()));
        if dtype == tensor.dtype() && device.is(tensor.device()) && !copies {
            return Ok(slf.clone());
        }
        let converted = wait(py, || {
            let moved = tensor.to_dtype(dtype)?.to_device(&device)?;
            if copies && moved.buffer().is(tensor.buffer()) { moved.copy() } else { Ok(moved) }
        })?;
        Ok(Bound::new(py, PyTensor::new(converted))?)
    }

    /// Returns the tensor on the CPU.
    ///
    /// Shapes: [..] -> the same
    #[pyo3(signature = (*, memory_format=None))]
    fn cpu<'py>(
        slf: &Bound<'py, Self>,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        Self::to(
            slf,
            &PyTuple::empty(slf.py()),
            None,
            Some(DeviceArgument::Named("cpu".into())),
            false,
            false,
            memory_format,
        )
    }

    /// Returns the tensor on a CUDA device, by default the first.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Raises:
    ///     RuntimeError: the device is not available.
    #[pyo3(signature = (device=None, non_blocking=false, *, memory_format=None))]
    fn cuda<'py>(
        slf: &Bound<'py, Self>,
        device: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = of::cuda)] non_blocking: bool,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Self>> {
        let device = match device {
            None => DeviceArgument::Named("cuda:0".into()),
            Some(device) => match device.extract::<usize>() {
                Ok(index) => DeviceArgument::Named(format!("cuda:{index}")),
                Err(_) => device.extract()?,
            },
        };
        Self::to(slf, &PyTuple::empty(slf.py()), None, Some(device), false, non_blocking, memory_format)
    }

    /// Converts the tensor to the dtype and device of `other`.
    ///
    /// Shapes: [..] -> the same
    fn type_as<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::type_as)] other: Bound<'py, PyTensor>,
    ) -> Outcome<Bound<'py, Self>> {
        Self::to(slf, &PyTuple::new(slf.py(), [other])?, None, None, false, false, None)
    }
}

macro_rules! casts {
    ($($(#[$doc:meta])* $name:ident => $dtype:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] -> the same
                #[pyo3(signature = (*, memory_format=None))]
                fn $name(&self, py: Python<'_>, memory_format: Option<&Bound<'_, PyAny>>) -> Outcome<PyTensor> {
                    // Accepted as in PyTorch; elements stay in row-major order.
                    let _ = memory_format;
                    self.map(py, |x| x.to_dtype(DType::$dtype))
                }
            )*
        }
    };
}

casts! {
    /// Converts the elements to float32.
    float => F32;
    /// Converts the elements to float64.
    double => F64;
    /// Converts the elements to float16.
    half => F16;
    /// Converts the elements to bfloat16.
    bfloat16 => BF16;
    /// Converts the elements to int64, rounding toward zero.
    long => I64;
    /// Converts the elements to int32, rounding toward zero.
    int => I32;
    /// Converts the elements to int16, rounding toward zero.
    short => I16;
    /// Converts the elements to int8, rounding toward zero.
    char => I8;
    /// Converts the elements to uint8, rounding toward zero.
    byte => U8;
    /// Converts the elements to bool: True where they are not 0.
    bool => Bool;
}
