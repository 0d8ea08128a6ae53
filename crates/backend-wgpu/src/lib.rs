//! The wgpu backend: custom WGSL shaders on Vulkan, Metal, DX12 and GL.
//!
//! The path of an op: [`Backend::run`] calls `select`, the only list of supported ops. `select`
//! returns a function of `ops`, which chooses a shader and its grid from shapes and strides and
//! queues the launch. `linker` assembles shaders from the repository's `shaders/` and leaves out
//! the declarations that they do not reference. `slots` declares how each dtype is stored.
//! `pipelines` compiles each shader once. `gpu` batches launches, copies results to the host and
//! measures times.

mod adapters;
mod batch;
mod binding;
mod call;
mod device_errors;
mod flush_thread;
mod gpu;
mod index_errors;
mod linker;
mod memory;
mod names;
#[cfg(feature = "noop")]
mod noop;
mod ops;
mod options;
mod pipeline_cache;
mod pipelines;
mod pool;
mod repeat;
mod select;
mod shaders;
mod slots;
mod space;

// Tests that need access to private items of the crate.
#[cfg(test)]
#[path = "../tests/unit/emulation.rs"]
mod emulation;
#[cfg(test)]
#[path = "../tests/unit/launches.rs"]
mod launches;
#[cfg(test)]
#[path = "../tests/unit/record.rs"]
mod record;
#[cfg(test)]
#[path = "../tests/unit/validation.rs"]
mod validation;

pub use adapters::{AdapterDescription, descriptions, find};
pub use gpu::timing::Timer;
#[cfg(feature = "noop")]
pub use noop::Launched;
pub use options::Options;

use gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::{Backend, Buffer, Download, MemoryStats, Meta, Plan, Unsupported, View};
use ternion_core::{Device, Error, Op, Result};

/// Opens the wgpu adapter with this [`index`](AdapterDescription::index), with the options of the
/// environment.
///
/// # Errors
/// There is no adapter with this index, the adapter cannot be opened, or [`Options::from_env`]
/// fails.
pub fn device(index: usize) -> Result<Device> {
    device_with(index, Options::from_env()?)
}

/// Opens the wgpu adapter with this [`index`](AdapterDescription::index), with these options.
///
/// # Errors
/// There is no adapter with this index, the adapter cannot be opened, or `binding_bytes` is below
/// the minimum.
pub fn device_with(index: usize, options: Options) -> Result<Device> {
    match options.binding_bytes {
        Some(bytes) if bytes < Options::MIN_BINDING_BYTES => {
            let least = Options::MIN_BINDING_BYTES;
            Err(Error::invalid("wgpu", format!("bindings of {bytes} bytes; they have {least} at least")))
        }
        _ => Ok(Device::new(WgpuBackend { gpu: Gpu::open(index, options)? })),
    }
}

/// Returns a device without an adapter. It validates every requested shader and runs none, so its
/// results are meaningless.
#[cfg(feature = "noop")]
pub fn noop_device() -> Device {
    Device::new(WgpuBackend { gpu: Gpu::noop(Options::default()) })
}

/// A wgpu device as a [`Backend`].
#[derive(Debug)]
pub struct WgpuBackend {
    gpu: Arc<Gpu>,
}

impl WgpuBackend {
    /// Returns the names of the adapter, its interface and its driver, for reports.
    pub fn description(&self) -> &str {
        &self.gpu.description
    }

    /// Returns a timer that measures times between events in the device's queue.
    pub fn timer(&self) -> Timer {
        Timer::new(&self.gpu)
    }

    /// Queues a plain copy of the first `bytes` bytes, a multiple of 4. It is the reference speed
    /// for every shader that moves memory.
    ///
    /// # Errors
    /// A buffer belongs to another backend or is too short, both are the same buffer, or `bytes` is
    /// not a multiple of 4.
    pub fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
        self.gpu.copy_bytes(from, to, bytes)
    }

    /// Returns the number of shaders launched so far.
    pub fn launches(&self) -> u64 {
        self.gpu.launches()
    }

    /// Returns the shaders that were launched since the last call, in order.
    #[cfg(feature = "noop")]
    pub fn take_launched(&self) -> Vec<Launched> {
        self.gpu.take_launched()
    }

    /// Returns the shaders compiled so far, each as its file and the values of its placeholders:
    /// `rows/sums_vec4.wgsl PER_THREAD=4u EXACT=true ..`.
    pub fn shaders(&self) -> Vec<String> {
        self.gpu.shaders()
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
        #[cfg(feature = "noop")]
        self.gpu.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        select::run(&self.gpu, op, inputs, outputs)
    }

    fn synchronize(&self) -> Result<()> {
        self.gpu.synchronize()
    }

    fn memory(&self) -> MemoryStats {
        self.gpu.memory()
    }

    fn release_cached(&self) -> Result<()> {
        self.gpu.release_cached()
    }

    fn restart_peak(&self, floor: usize) {
        self.gpu.restart_peak(floor);
    }
}
