//! The implementation of core's [`Backend`] trait.

use crate::cache::Cache;
use crate::driver;
use crate::gpu::Gpu;
use crate::memory::CudaMemory;
use crate::memory::staging::Transfer;
use crate::submit::capture::Recorder;
use crate::submit::history::LaunchRecord;
use crate::timing::Timer;
use crate::{nvrtc, select};
use std::sync::Arc;
use ternion_core::backend::{
    Backend, Buffer, Capture, Download, Interop, MemoryStats, Meta, Plan, Unsupported, View,
};
use ternion_core::{Device, Error, Op, Result};

/// Returns the CUDA device with this index, in the driver's numbering.
///
/// # Errors
/// There is no driver, no such device, or the device is older than compute capability 8.0. Each
/// case has its own message.
pub fn device(index: usize) -> Result<Device> {
    let gpu = Arc::new(Gpu::open(index)?);
    Ok(Device::new(CudaBackend { recorder: Recorder { gpu: gpu.clone() }, gpu }))
}

/// Returns the name and the bytes of memory of every CUDA device, in the driver's order. The list
/// is empty if there is no driver.
pub fn descriptions() -> Vec<(String, u64)> {
    driver::descriptions()
}

/// Checks that kernels are available: some are cached on disk from earlier runs, or NVRTC is
/// installed to compile them.
///
/// # Errors
/// Names the locations that were searched for NVRTC.
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
    /// Returns the name of the device and the version of its driver, for reports:
    /// `NVIDIA H100 80GB HBM3, driver CUDA 13.0`.
    pub fn description(&self) -> String {
        let properties = &self.gpu.context.properties;
        format!(
            "{}, driver CUDA {}.{}",
            properties.name,
            properties.driver / 1000,
            properties.driver % 1000 / 10
        )
    }

    /// Returns whether the device has this compute capability, major and minor, or a later one.
    pub fn is_at_least(&self, capability: (i32, i32)) -> bool {
        self.gpu.context.properties.capability >= capability
    }

    /// Creates a timer of work in the device's stream.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn timer(&self) -> Result<Timer> {
        Timer::new(&self.gpu)
    }

    /// Returns the host time of `launches` launches of an empty kernel, queued by direct calls of
    /// the driver. It is a lower bound of the host time of ops.
    ///
    /// # Errors
    /// A step is being recorded, the driver does not compile PTX, or the device has a fault.
    pub fn launch_floor(&self, launches: usize) -> Result<std::time::Duration> {
        self.gpu.launch_floor(launches)
    }

    /// Queues a plain copy of the first `bytes` bytes. Its time is the baseline for kernels that
    /// move memory.
    ///
    /// # Errors
    /// A buffer belongs to another backend or is shorter than `bytes`.
    pub fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
        self.gpu.copy_bytes(
            device_address("copy", from, 0, bytes)?,
            device_address("copy", to, 0, bytes)?,
            bytes,
        )
    }

    /// Returns the free memory of the device in bytes: what neither this process nor another one
    /// has allocated.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn free_bytes(&self) -> Result<usize> {
        self.gpu.free_bytes()
    }

    /// Starts to record every launch, so that a trace of kernels can be related to ops.
    pub fn begin_launch_records(&self) {
        self.gpu.begin_launch_records();
    }

    /// Stops recording launches and returns those since
    /// [`begin_launch_records`](CudaBackend::begin_launch_records), in order. They include the
    /// launches of a step that was recorded in the meantime, which each replay repeats.
    pub fn take_launch_records(&self) -> Vec<LaunchRecord> {
        self.gpu.take_launch_records()
    }

    /// Returns the number of kernels launched so far.
    pub fn launches(&self) -> u64 {
        self.gpu.launches()
    }
}

/// Returns the address of byte `offset_bytes` of `buffer`, after checking that `length` bytes
/// follow it in the buffer.
fn device_address(op: &'static str, buffer: &Buffer, offset_bytes: usize, length: usize) -> Result<u64> {
    let memory =
        CudaMemory::of(buffer).ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))?;
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
    /// Returns the address after submitting everything launched so far to the device's stream. A
    /// library that uses the address waits for that stream.
    fn address(&self, buffer: &Buffer) -> Option<usize> {
        self.gpu.stream();
        let memory = CudaMemory::of(buffer)?;
        buffer.mark_externally_shared();
        Some(memory.address() as usize)
    }
}
