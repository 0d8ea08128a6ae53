//! The device as core sees it.

use crate::cache::Cache;
use crate::driver;
use crate::gpu::Gpu;
use crate::memory::CudaMemory;
use crate::memory::staging::Transfer;
use crate::submit::capture::Recorder;
use crate::submit::history::LaunchNote;
use crate::timing::Timer;
use crate::{nvrtc, select};
use std::sync::Arc;
use ternion_core::backend::{
    Backend, Buffer, Capture, Download, Interop, MemoryStats, Meta, Plan, Unsupported, View,
};
use ternion_core::{Device, Error, Op, Result};

/// The CUDA device with this index, as the driver counts.
///
/// # Errors
/// No driver, no such device, or a device older than compute capability 8.0; each in its own words.
pub fn device(index: usize) -> Result<Device> {
    let gpu = Arc::new(Gpu::open(index)?);
    Ok(Device::new(CudaBackend { recorder: Recorder { gpu: gpu.clone() }, gpu }))
}

/// Name and bytes of memory of every CUDA device, as the driver counts; nothing where there is no
/// driver.
pub fn descriptions() -> Vec<(String, u64)> {
    driver::descriptions()
}

/// That kernels can be had: some are kept on disk from earlier runs, or NVRTC is there to compile
/// them.
///
/// # Errors
/// Where NVRTC was looked for.
pub fn has_kernels() -> Result<()> {
    if Cache::from_environment().has_entries() { Ok(()) } else { nvrtc::version().map(drop) }
}

/// A CUDA device as a [`Backend`].
#[derive(Debug)]
pub struct CudaBackend {
    pub(crate) gpu: Arc<Gpu>,
    recorder: Recorder,
}

impl CudaBackend {
    /// What the device and its driver are called, for reports: `NVIDIA H100 80GB HBM3, driver CUDA
    /// 13.0`.
    pub fn description(&self) -> String {
        let properties = &self.gpu.context.properties;
        format!(
            "{}, driver CUDA {}.{}",
            properties.name,
            properties.driver / 1000,
            properties.driver % 1000 / 10
        )
    }

    /// Whether the device has this compute capability, major and minor, or a later one.
    pub fn is_at_least(&self, capability: (i32, i32)) -> bool {
        self.gpu.context.properties.capability >= capability
    }

    /// A clock in the device's stream.
    ///
    /// # Errors
    /// Faults of the device.
    pub fn timer(&self) -> Result<Timer> {
        Timer::new(&self.gpu)
    }

    /// Host time of so many launches of a kernel that does nothing, queued by the driver's call and
    /// nothing else: what an op's host time is measured by.
    ///
    /// # Errors
    /// A step that is being recorded; a driver that does not compile PTX; faults of the device.
    pub fn launch_floor(&self, launches: usize) -> Result<std::time::Duration> {
        self.gpu.launch_floor(launches)
    }

    /// Queues a plain copy of the first `bytes` bytes: what every kernel that moves memory is
    /// measured by.
    ///
    /// # Errors
    /// Buffers of other backends, or shorter than that.
    pub fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
        self.gpu.copy_bytes(
            device_address("copy", from, 0, bytes)?,
            device_address("copy", to, 0, bytes)?,
            bytes,
        )
    }

    /// Bytes of the device that nobody has taken, of this process or another.
    ///
    /// # Errors
    /// Faults of the device.
    pub fn free_bytes(&self) -> Result<usize> {
        self.gpu.free_bytes()
    }

    /// From now on every launch is noted, for whoever traces kernels and wants to know of which ops they are.
    pub fn begin_launch_notes(&self) {
        self.gpu.begin_launch_notes();
    }

    /// The launches since [`begin_launch_notes`](CudaBackend::begin_launch_notes), in order: those of a step that was recorded meanwhile, too, which each
    /// replay repeats. No others are noted.
    pub fn take_launch_notes(&self) -> Vec<LaunchNote> {
        self.gpu.take_launch_notes()
    }

    /// Kernels that were launched so far.
    pub fn launches(&self) -> u64 {
        self.gpu.launches()
    }
}

/// The address of byte `offset_bytes` of `buffer`, from which on `length` bytes must fit.
fn device_address(op: &'static str, buffer: &Buffer, offset_bytes: usize, length: usize) -> Result<u64> {
    let memory: &CudaMemory =
        buffer.downcast().ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))?;
    match offset_bytes.checked_add(length) {
        Some(end) if end <= memory.bytes => Ok(memory.address() + offset_bytes as u64),
        _ => Err(Error::invalid(
            op,
            format!("{length} bytes from byte {offset_bytes} on, in a buffer of {} bytes", memory.bytes),
        )),
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &str {
        &self.gpu.name
    }

    #[inline]
    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.gpu.alloc(bytes).map(Buffer::new)
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        let address = device_address("upload", to, offset_bytes, host.len())?;
        self.gpu.upload(host, address)
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        self.download_all(&mut [Download { from, offset_bytes, host }])
    }

    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        let mut transfers = Vec::with_capacity(parts.len());
        for part in parts {
            let address = device_address("download", part.from, part.offset_bytes, part.host.len())?;
            transfers.push(Transfer { address, host: &mut *part.host });
        }
        self.gpu.download(transfers)
    }

    #[inline]
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        select::plan(&self.gpu, op, inputs)
    }

    #[inline]
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

    fn capture(&self) -> Option<&dyn Capture> {
        Some(&self.recorder)
    }

    fn interop(&self) -> Option<&dyn Interop> {
        Some(self)
    }
}

impl Interop for CudaBackend {
    /// With everything launched so far in the device's stream: whoever uses the address waits for
    /// that.
    fn address(&self, buffer: &Buffer) -> Option<usize> {
        self.gpu.stream();
        let memory: &CudaMemory = buffer.downcast()?;
        buffer.share_outside();
        Some(memory.address() as usize)
    }
}
