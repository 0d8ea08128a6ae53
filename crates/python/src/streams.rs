//! The order between CUDA's streams when memory is shared: whoever takes memory waits for what its owner has queued, and the other way round when it is
//! given back. Nobody waits on the host.
//!
//! DLPack's numbers of streams: 1 is the default stream, 2 the thread's, -1 asks for no order, others are handles.

use crate::device::{DeviceArgument, or_default};
use crate::error::{Failure, Outcome};
use pyo3::prelude::*;
use ternion::Device;

/// `kDLCUDA`: the kind of device by which DLPack knows CUDA.
pub const CUDA: i32 = 2;

/// The default stream, which is meant where none is named.
const DEFAULT: i64 = 1;

/// The stream that the one who takes memory names; none where it asks for no order.
pub fn asked(stream: Option<&Bound<'_, PyAny>>) -> Outcome<Option<usize>> {
    let number = match stream {
        Some(stream) if !stream.is_none() => stream.extract()?,
        _ => DEFAULT,
    };
    match usize::try_from(number) {
        Ok(0) => {
            Err(Failure::value("__dlpack__: stream 0 is ambiguous: 1 is the default stream, 2 the thread's"))
        }
        Ok(stream) => Ok(Some(stream)),
        Err(_) if number == -1 => Ok(None),
        Err(_) => Err(Failure::value(format!("__dlpack__: {number} is no stream"))),
    }
}

/// The stream that the owner of `object` is to order its work against: that of the device that `object` is on, if it is one of CUDA's.
pub fn of_importer(object: &Bound<'_, PyAny>) -> Outcome<Option<usize>> {
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

/// Makes `stream` wait for what is queued on `device`.
#[cfg(feature = "cuda")]
pub fn precede(device: &Device, stream: Option<usize>) -> ternion::Result<()> {
    match (device.downcast::<ternion_cuda::CudaBackend>(), stream) {
        // SAFETY: the word of who asks for the memory.
        (Some(backend), Some(stream)) => unsafe { backend.precede(stream) },
        _ => Ok(()),
    }
}

/// Makes `stream` wait for what is queued on `device`.
#[cfg(not(feature = "cuda"))]
pub fn precede(_: &Device, _: Option<usize>) -> ternion::Result<()> {
    Ok(())
}

/// Makes `device` wait for what is queued on `stream`, or on every stream where none is known to live still. Whether that could be done.
#[cfg(feature = "cuda")]
pub fn follow(device: &Device, stream: Option<usize>) -> bool {
    let Some(backend) = device.downcast::<ternion_cuda::CudaBackend>() else { return true };
    match stream {
        // SAFETY: the driver's own numbers.
        Some(stream @ 1..=2) => unsafe { backend.follow(stream) }.is_ok(),
        // A handle may have been destroyed since it was named.
        _ => backend.synchronize_all().is_ok(),
    }
}

/// Makes `device` wait for what is queued on `stream`.
#[cfg(not(feature = "cuda"))]
pub fn follow(_: &Device, _: Option<usize>) -> bool {
    true
}
