//! The record in which shaders store an index that is out of range: creation, binding and check.

use super::Gpu;
use super::transfers::StagingSlice;
use crate::binding::Binding;
use crate::index_errors;
use crate::memory::WgpuMemory;
use ternion_core::Result;

impl Gpu {
    /// Returns the id with which launches of `op` record indices that are not below `size`.
    pub(crate) fn index_check_id(&self, op: &'static str, size: usize) -> u32 {
        self.batch.lock().index_errors.check_id(ternion_core::backend::index_error_op(op), size)
    }

    /// Returns the binding of the record of indices out of range.
    pub(crate) fn index_error_record(&self) -> Binding<'_> {
        Binding::whole(&self.index_error_record)
    }

    /// Reads the record of indices out of range, if a shader may have written one.
    pub(super) fn check_index_errors(&self) -> Result<()> {
        if !self.batch.lock().index_errors.take_pending() {
            return Ok(());
        }
        let mut words = [0u32; index_errors::WORDS];
        let length = size_of_val(&words) as u64;
        let record = StagingSlice { from: self.index_error_record.buffer(), offset: 0, length };
        // If the record cannot be read, it is read again next time.
        let bytes =
            self.read(&[record], true).inspect_err(|_| self.batch.lock().index_errors.mark_pending())?;
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(&bytes);
        self.batch.lock().index_errors.read(words).map_or(Ok(()), Err)
    }
}

/// Creates the record of indices out of range, initialized to zeros.
pub(super) fn create_index_error_record(device: &wgpu::Device) -> WgpuMemory {
    WgpuMemory::of_buffer(device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("index errors"),
        size: (index_errors::WORDS * 4) as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    }))
}
