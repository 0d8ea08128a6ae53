//! Memory that is shared with other libraries: the address of a tensor, and tensors on memory with
//! another owner.

use crate::error::{Outcome, RaisedError};
use std::any::Any;
use ternion::capture::rejected_while_recording;
use ternion::{Buffer, DType, Device, Layout, Shape, Tensor};
use ternion_cpu::CpuBackend;

/// Returns the address of the first element on the tensor's device.
pub fn address(tensor: &Tensor) -> Outcome<usize> {
    let device = tensor.device();
    let start = match device.backend().interop() {
        Some(interop) => interop.address(tensor.buffer()),
        None => None,
    };
    let start = start.ok_or_else(|| {
        if ternion::capture::is_recording_step() {
            return rejected_while_recording("address").into();
        }
        RaisedError::type_error(format!(
            "memory on {} cannot be shared: copy the tensor with cpu() first",
            device.name()
        ))
    })?;
    Ok(start + tensor.layout().offset() * tensor.dtype().size())
}

/// A description of memory with another owner.
pub struct ExternalArray {
    /// The address of the element with all indices 0.
    pub address: usize,
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// In elements.
    pub strides: Vec<isize>,
}

impl ExternalArray {
    /// Returns the extent of the memory: the number of elements before the one with all indices 0,
    /// and the number from that one to the last.
    fn extents(&self) -> Option<(usize, usize)> {
        if self.shape.contains(&0) {
            return Some((0, 0));
        }
        let (mut before, mut after) = (0_usize, 1_usize);
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let steps = stride.unsigned_abs().checked_mul(size - 1)?;
            let side = if stride < 0 { &mut before } else { &mut after };
            *side = side.checked_add(steps)?;
        }
        Some((before, after))
    }

    /// Returns a tensor on this memory, which `owner` keeps alive.
    ///
    /// # Safety
    /// All elements are readable and writable as long as `owner` lives.
    pub unsafe fn tensor(self, device: &Device, owner: Box<dyn Any + Send + Sync>) -> Outcome<Tensor> {
        let too_large =
            || RaisedError::value_error(format!("an array of shape {:?} is too large", self.shape));
        let (before, after) = self.extents().ok_or_else(too_large)?;
        let size = self.dtype.size();
        if !self.address.is_multiple_of(size) {
            return Err(RaisedError::value_error(format!(
                "memory at an address that is not a multiple of {size} bytes"
            )));
        }
        let bytes = (before + after).checked_mul(size).ok_or_else(too_large)?;
        // SAFETY: the range from the lowest to the highest element; guaranteed by the caller.
        let buffer = unsafe { adopt_memory(device, self.address - before * size, bytes, owner)? };
        let layout = Layout::new(Shape::new(&self.shape)?, &self.strides, before)?;
        Ok(Tensor::from_buffer(buffer, layout, self.dtype, device)?)
    }
}

/// Returns a buffer of `bytes` bytes from `address` on.
///
/// # Safety
/// The bytes are readable and writable as long as `owner` lives.
unsafe fn adopt_memory(
    device: &Device,
    address: usize,
    bytes: usize,
    owner: Box<dyn Any + Send + Sync>,
) -> Outcome<Buffer> {
    if let Some(backend) = device.downcast::<CpuBackend>() {
        // SAFETY: guaranteed by the caller.
        return Ok(unsafe { backend.adopt(address, bytes, owner) });
    }
    #[cfg(feature = "cuda")]
    if let Some(backend) = device.downcast::<ternion_cuda::CudaBackend>() {
        // SAFETY: guaranteed by the caller.
        return Ok(unsafe { backend.adopt(address, bytes, owner) }?);
    }
    Err(RaisedError::value_error(format!("memory cannot be shared with {}", device.name())))
}
