//! The wgpu backend: own WGSL shaders on Vulkan, Metal, DX12 and GL.
//!
//! The path of an op: [`Backend::run`] goes through `select`, the one list of what runs, to a function of `ops`, which chooses a shader and its grid by
//! shapes and strides and queues it. `linker` puts shaders together from `shaders/` of the repository and leaves out what they do not reach; `slots`
//! tells them how each dtype lies in memory; `pipelines` compiles each once; `gpu` batches launches, reads results back and takes times.

mod adapters;
mod batch;
mod binding;
mod disk;
#[cfg(test)]
mod emulation;
mod faults;
mod gpu;
mod health;
#[cfg(test)]
mod launches;
mod linker;
mod ops;
mod overdue;
mod pipelines;
mod pool;
#[cfg(test)]
#[path = "../tests/unit/record.rs"]
mod record;
mod repeat;
mod select;
mod slots;
mod space;
#[cfg(test)]
mod validation;

pub use adapters::{AdapterDescription, descriptions, find};
pub use gpu::timing::Timer;

use gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::{Backend, Buffer, Download, MemoryStats, Meta, Plan, Unsupported, View};
use ternion_core::{Device, Error, Op, Result};

/// How a device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a binding, at most, where that is to be less than what the adapter allows: so that tests need no large tensors. At least [`Options::LEAST_BINDING_BYTES`].
    pub binding_bytes: Option<u64>,
    /// Whether compilers put checks of their own around every access to memory and every loop: slower, and needed only to find an error in a shader.
    pub checked: bool,
    /// Whether threads meet in work-group memory alone, also where the adapter has subgroups: so that tests reach both ways.
    pub without_subgroups: bool,
    /// Whether attention is made of whole products also where it is so small that they leave most of a GPU idle, as is done on software adapters: so that
    /// tests need no large tensors.
    pub small_products: bool,
    /// Bytes that tensors and what is kept for reuse may take in all, where that is to be less than the device has.
    pub memory_bytes: Option<u64>,
}

impl Options {
    /// What [`device`] reads [`Options::binding_bytes`] from.
    pub const BINDING_BYTES: &str = "TERNION_WGPU_BINDING_BYTES";

    /// What [`device`] reads [`Options::checked`] from: on where it is set and not 0.
    pub const CHECKED: &str = "TERNION_WGPU_CHECKED";

    /// The beginnings of bindings are multiples of this on every device.
    pub const LEAST_BINDING_BYTES: u64 = 256;

    /// As the environment says.
    ///
    /// # Errors
    /// A variable that is no number of bytes.
    pub fn from_env() -> Result<Options> {
        let checked = std::env::var(Options::CHECKED).is_ok_and(|text| !["", "0"].contains(&text.as_str()));
        let text = std::env::var(Options::BINDING_BYTES).unwrap_or_default();
        if text.is_empty() {
            return Ok(Options { checked, ..Options::default() });
        }
        match text.parse() {
            Ok(bytes) => Ok(Options { binding_bytes: Some(bytes), checked, ..Options::default() }),
            Err(_) => Err(Error::invalid(
                "wgpu",
                format!("{}={text} is no number of bytes", Options::BINDING_BYTES),
            )),
        }
    }
}

/// The wgpu adapter with this index, as [`descriptions`] counts, opened as the environment says.
///
/// # Errors
/// No adapter, or none with this index; one that does not open; [`Options::from_env`].
pub fn device(index: usize) -> Result<Device> {
    device_with(index, Options::from_env()?)
}

/// The wgpu adapter with this index, as [`descriptions`] counts.
///
/// # Errors
/// No adapter, or none with this index; one that does not open; a binding below the least.
pub fn device_with(index: usize, options: Options) -> Result<Device> {
    match options.binding_bytes {
        Some(bytes) if bytes < Options::LEAST_BINDING_BYTES => {
            let least = Options::LEAST_BINDING_BYTES;
            Err(Error::invalid("wgpu", format!("bindings of {bytes} bytes; they have {least} at least")))
        }
        _ => Ok(Device::new(WgpuBackend { gpu: Gpu::open(index, options)? })),
    }
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

    /// A clock in the device's queue.
    pub fn timer(&self) -> Timer {
        Timer::new(&self.gpu)
    }

    /// Queues a plain copy of the first `bytes` bytes, a multiple of 4: what every shader that moves memory is measured by.
    ///
    /// # Errors
    /// Buffers of other backends, shorter ones, or one buffer twice; a part of a word.
    pub fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
        self.gpu.copy_bytes(from, to, bytes)
    }

    /// Shaders that were launched so far.
    pub fn launches(&self) -> u64 {
        self.gpu.launches()
    }

    /// Shaders that were compiled so far, each as its file and what identifiers in it stand for: `sums_fours.wgsl HOLD=4u EXACT=true ..`.
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
