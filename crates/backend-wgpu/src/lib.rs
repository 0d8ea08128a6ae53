//! The wgpu backend: own WGSL shaders on Vulkan, Metal, DX12 and GL.
//!
//! The path of an op: [`Backend::run`] goes through `select`, the one list of what runs, to a function of `ops`, which chooses a shader and its grid by
//! shapes and strides and queues it. `linker` puts shaders together from `shaders/` of the repository and leaves out what they do not reach; `slots`
//! tells them how each dtype lies in memory; `pipelines` compiles each once; `gpu` batches launches and reads results back.

mod adapters;
mod batch;
mod faults;
mod gpu;
mod linker;
mod ops;
mod pipelines;
mod pool;
mod select;
mod slots;
mod space;
#[cfg(test)]
mod validation;

pub use adapters::{AdapterDescription, descriptions, find};

use gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::{Backend, Buffer, Download, MemoryStats, Meta, Plan, Unsupported, View};
use ternion_core::{Device, Op, Result};

/// The wgpu adapter with this index, as [`descriptions`] counts.
///
/// # Errors
/// No adapter, or none with this index; one that does not open.
pub fn device(index: usize) -> Result<Device> {
    Ok(Device::new(WgpuBackend { gpu: Gpu::open(index)? }))
}

/// A device of wgpu's as a [`Backend`].
#[derive(Debug)]
pub struct WgpuBackend {
    gpu: Arc<Gpu>,
}

impl WgpuBackend {
    /// What the device and its driver are called, for reports.
    pub fn description(&self) -> &str {
        &self.gpu.description
    }

    /// Shaders that were launched so far.
    pub fn launches(&self) -> u64 {
        self.gpu.launches()
    }
}

impl Backend for WgpuBackend {
    fn name(&self) -> &str {
        &self.gpu.name
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.gpu.alloc(bytes)
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        self.gpu.upload(host, to, offset_bytes)
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        self.gpu.download(from, offset_bytes, host)
    }

    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        self.gpu.download_all(parts)
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        select::plan(&self.gpu, op, inputs)
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        select::run(&self.gpu, op, inputs, outputs)
    }

    fn synchronize(&self) -> Result<()> {
        self.gpu.synchronize()
    }

    fn memory(&self) -> MemoryStats {
        self.gpu.memory()
    }
}
