//! The order between CUDA streams when memory is shared: the consumer waits for the work that the
//! producer has queued, and vice versa when the memory is released. The host does not wait.
//!
//! DLPack's numbers of streams: 1 is the default stream, 2 the per-thread default stream, -1
//! requests no ordering, others are handles.

use crate::device::{DeviceArgument, or_default};
use crate::error::{Outcome, RaisedError};
use pyo3::prelude::*;
use ternion::Device;

/// `kDLCUDA`: DLPack's device type of CUDA.
pub const CUDA: i32 = 2;

/// The default stream, which is used if none is given.
const DEFAULT: i64 = 1;

/// Returns the stream that the consumer passes, or `None` if it requests no ordering.
pub fn parse_stream(stream: Option<&Bound<'_, PyAny>>) -> Outcome<Option<usize>> {
    let number = match stream {
        Some(stream) if !stream.is_none() => stream.extract()?,
        _ => DEFAULT,
    };
    match usize::try_from(number) {
        Ok(0) => Err(RaisedError::value_error(
            "__dlpack__: stream 0 is ambiguous: 1 is the default stream, 2 the thread's",
        )),
        Ok(stream) => Ok(Some(stream)),
        Err(_) if number == -1 => Ok(None),
        Err(_) => Err(RaisedError::value_error(format!("__dlpack__: {number} is not a stream"))),
    }
}

/// Returns the stream with which the producer of `object` must order its work: the stream of the
/// object's device, if it is a CUDA device.
pub fn importer_stream(object: &Bound<'_, PyAny>) -> Outcome<Option<usize>> {
    if !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (kind, index): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if kind != CUDA {
        return Ok(None);
    }
    let device = or_default(object.py(), Some(DeviceArgument::Named(format!("cuda:{index}"))))?;
    Ok(handle(&device))
}

#[cfg(feature = "cuda")]
fn handle(device: &Device) -> Option<usize> {
    device.downcast::<ternion_cuda::CudaBackend>().map(ternion_cuda::CudaBackend::stream)
}

#[cfg(not(feature = "cuda"))]
fn handle(_: &Device) -> Option<usize> {
    None
}

/// Makes `stream` wait for the work queued on `device`.
#[cfg(feature = "cuda")]
pub fn make_stream_wait(device: &Device, stream: Option<usize>) -> ternion::Result<()> {
    match (device.downcast::<ternion_cuda::CudaBackend>(), stream) {
        // SAFETY: guaranteed by the consumer.
        (Some(backend), Some(stream)) => unsafe { backend.make_stream_wait(stream) },
        _ => Ok(()),
    }
}

/// Makes `stream` wait for the work queued on `device`.
#[cfg(not(feature = "cuda"))]
pub fn make_stream_wait(_: &Device, _: Option<usize>) -> ternion::Result<()> {
    Ok(())
}

/// Makes `device` wait for the work queued on `stream`, or on every stream if the stream may no
/// longer exist. Returns whether that succeeded.
#[cfg(feature = "cuda")]
pub fn wait_for_stream(device: &Device, stream: Option<usize>) -> bool {
    let Some(backend) = device.downcast::<ternion_cuda::CudaBackend>() else { return true };
    match stream {
        // SAFETY: the driver's own constants.
        Some(stream @ 1..=2) => unsafe { backend.wait_for_stream(stream) }.is_ok(),
        // The stream of a handle may have been destroyed.
        _ => backend.synchronize_all().is_ok(),
    }
}

/// Makes `device` wait for the work queued on `stream`.
#[cfg(not(feature = "cuda"))]
pub fn wait_for_stream(_: &Device, _: Option<usize>) -> bool {
    true
}
