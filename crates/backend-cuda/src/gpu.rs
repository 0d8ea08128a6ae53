//! One device: its context, its only stream, its memory and its kernels.

mod launches;

use crate::driver::stream::Stream;
use crate::driver::{Context, OptionalFunction, check};
use crate::env_config::{DependentLaunches, EnvConfig};
use crate::memory::foreign::PendingReleases;
use crate::memory::pool::{Allocation, Pool, SegmentSource};
use crate::memory::staging::{Downloads, Transfer, Uploads};
use crate::memory::workspace::Workspace;
use crate::memory::{CudaMemory, DeviceMemory};
use crate::modules::Modules;
use crate::submit::capture::{Recording, RetiredGraph};
use crate::submit::errors::IndexErrors;
use crate::submit::history::LaunchRecord;
use crate::submit::queue::{SubmissionQueue, stop_with_process};
use crate::variant::Architecture;
use cudarc::driver::sys;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use ternion_core::backend::{Buffer, MemoryStats, View};
use ternion_core::capture::rejected_while_recording;
use ternion_core::{Error, Result};

/// A device and its state.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// The name of the device: `cuda:0`.
    pub(crate) name: String,
    pub(crate) context: Arc<Context>,
    queue: Arc<SubmissionQueue<Stream>>,
    pool: Arc<Pool<DeviceMemory>>,
    modules: Arc<Modules>,
    pub(crate) index_errors: IndexErrors,
    arrival_counters: ArrivalCounters,
    uploads: Mutex<Uploads>,
    /// Download buffers that no thread is using. A thread takes one of them, or creates one, for a
    /// download, so that it does not wait for the download of another thread.
    downloads: Mutex<Vec<Downloads>>,
    env: EnvConfig,
    /// Whether kernels may begin before the previous ones have ended.
    overlaps_launches: AtomicBool,
    /// Whether a thread is recording a step; `recording` is that step.
    is_recording: AtomicBool,
    recording: Mutex<Option<Recording>>,
    /// Recorded steps that were dropped while another one was being recorded.
    pub(crate) retired_graphs: Mutex<Vec<RetiredGraph>>,
    /// Memory of other libraries that kernels may still use.
    pub(crate) pending_releases: Mutex<PendingReleases>,
    /// A submission holds the read lock; the start of a recording holds the write lock. So work
    /// submitted before a recording is queued before it.
    submissions: RwLock<()>,
}

/// Counters with which the blocks of a kernel find out which of them is the last to contribute to a
/// common result, or claim their next work tile. All are 0 between kernels: a kernel resets the
/// counters that it used before it ends, and kernels run one after another, whichever thread queued
/// them.
#[derive(Debug)]
struct ArrivalCounters {
    memory: DeviceMemory,
    address: u64,
}

impl ArrivalCounters {
    fn new(queue: &Arc<SubmissionQueue<Stream>>) -> Result<ArrivalCounters> {
        let memory = DeviceMemory { queue: queue.clone() };
        let bytes = Gpu::ARRIVAL_COUNTERS * size_of::<u32>();
        let Some(address) = memory.allocate(bytes) else {
            let device = queue.target.context.properties.name.clone();
            return Err(Error::OutOfMemory { device, requested: bytes, in_use: 0, cached: 0, peak: 0 });
        };
        // SAFETY: the memory was just allocated with `bytes` bytes.
        check("cuda", unsafe { sys::cuMemsetD8Async(address, 0, bytes, queue.target.handle) })?;
        Ok(ArrivalCounters { memory, address })
    }
}

impl Drop for ArrivalCounters {
    fn drop(&mut self) {
        self.memory.release(&[self.address]);
    }
}

/// The first driver version with which recorded steps keep the attributes of dependent launches:
/// CUDA 12.3.
const OLDEST_DRIVER_TO_OVERLAP: i32 = 12_030;

/// Returns whether the device and its driver let kernels begin before the previous ones have ended,
/// and the configuration allows it. Returns false if the program waits for each kernel
/// (`TERNION_CUDA_SYNC`).
fn can_overlap_launches(context: &Context, env: &EnvConfig) -> bool {
    env.dependent_launches != DependentLaunches::Off
        && !env.is_synchronous
        && context.properties.capability >= (9, 0)
        && context.properties.driver >= OLDEST_DRIVER_TO_OVERLAP
        && OptionalFunction::LaunchKernelEx.is_available()
}

impl Drop for Gpu {
    /// Stops the queue and ends the stream. Afterward the fields are dropped with the context
    /// current. (The context itself stays: other libraries share it.)
    fn drop(&mut self) {
        let _ = self.context.bind();
        self.queue.stop();
        // SAFETY: `open` created the stream, and nothing is queued on it afterward.
        unsafe {
            let _ = sys::cuStreamSynchronize(self.queue.target.handle);
            let _ = sys::cuStreamDestroy_v2(self.queue.target.handle);
        }
    }
}

impl Gpu {
    /// Opens device `index`.
    ///
    /// # Errors
    /// There is no driver or no such device, or the device is too old.
    pub(crate) fn open(index: usize) -> Result<Gpu> {
        let context = Arc::new(Context::open(index)?);
        context.bind()?;
        let env = EnvConfig::from_environment();
        let queue = Arc::new(SubmissionQueue::new(Stream::new(context.clone())?));
        stop_with_process(&queue);
        let memory = DeviceMemory { queue: queue.clone() };
        Ok(Gpu {
            name: format!("cuda:{index}"),
            pool: Arc::new(match env.uses_pool {
                true => Pool::new(memory),
                false => Pool::without_cache(memory),
            }),
            modules: Arc::new(Modules::new(&context, env.compile_config())),
            index_errors: IndexErrors::new()?,
            arrival_counters: ArrivalCounters::new(&queue)?,
            queue,
            uploads: Mutex::default(),
            downloads: Mutex::default(),
            env,
            overlaps_launches: AtomicBool::new(can_overlap_launches(&context, &env)),
            is_recording: AtomicBool::new(false),
            recording: Mutex::default(),
            retired_graphs: Mutex::default(),
            pending_releases: Mutex::default(),
            submissions: RwLock::default(),
            context,
        })
    }

    /// Returns the architecture that machine code is compiled for.
    pub(crate) fn architecture(&self) -> Architecture {
        Architecture::of_device(self.context.properties.capability)
    }

    /// Returns whether matrix products may use tensor maps, on devices that have them.
    pub(crate) fn uses_tensor_maps(&self) -> bool {
        self.env.uses_tensor_maps
    }

    /// Sets whether kernels may begin before the previous ones have ended. Returns whether they now
    /// may, which is false if the device, its driver or the configuration do not allow it.
    pub(crate) fn overlap_launches(&self, enable: bool) -> bool {
        let overlaps = enable && can_overlap_launches(&self.context, &self.env);
        self.overlaps_launches.store(overlaps, Ordering::Relaxed);
        overlaps
    }

    /// Returns the number of multiprocessors. Ops split their work into about as many blocks.
    pub(crate) fn multiprocessors(&self) -> usize {
        self.context.properties.multiprocessors
    }

    /// The number of arrival counters.
    pub(crate) const ARRIVAL_COUNTERS: usize = 4096;

    /// Returns the address of the arrival counters.
    pub(crate) fn arrival_counters(&self) -> u64 {
        self.arrival_counters.address
    }

    /// Returns the maximum shared memory of a block in bytes.
    pub(crate) fn max_shared_memory(&self) -> usize {
        self.context.properties.max_shared_memory
    }

    /// Returns a guard during whose lifetime no recording begins.
    #[inline]
    pub(crate) fn submission_guard(&self) -> RwLockReadGuard<'_, ()> {
        // A thread that waits to record has priority over later readers: threads that queue
        // continually must not starve it. So a thread that holds a guard must not call this again.
        self.submissions.read()
    }

    /// As `submission_guard`, for callers that may already hold a guard.
    pub(crate) fn submission_guard_recursive(&self) -> RwLockReadGuard<'_, ()> {
        self.submissions.read_recursive()
    }

    /// Returns the pool that allocates memory outside of recordings.
    pub(crate) fn main_pool(&self) -> Arc<Pool<DeviceMemory>> {
        self.pool.clone()
    }

    /// Returns a guard during whose lifetime nothing is queued.
    pub(crate) fn exclusive_guard(&self) -> RwLockWriteGuard<'_, ()> {
        self.submissions.write()
    }

    /// Returns the pool from which this thread allocates now: the step's arena if this thread
    /// records a step, otherwise the main pool.
    #[inline]
    fn current_pool(&self) -> Result<Arc<Pool<DeviceMemory>>> {
        if !self.is_recording() {
            return Ok(self.pool.clone());
        }
        match &*self.recording.lock() {
            Some(recording) if recording.thread == std::thread::current().id() => Ok(recording.arena.clone()),
            _ => Ok(self.pool.clone()),
        }
    }

    /// Allocates `bytes` bytes from `pool`; returns `None` for 0 bytes.
    #[inline]
    fn allocate_block(&self, pool: &Pool<DeviceMemory>, bytes: usize) -> Result<Option<Allocation>> {
        if bytes == 0 {
            return Ok(None);
        }
        self.context.bind()?;
        let Some(allocation) = pool.alloc(bytes) else { return Err(self.out_of_memory(pool, bytes)) };
        // The guard prevents the fill from becoming part of a graph that another thread records.
        // (It is recursive because ops hold a guard when they allocate.)
        let _guard = self.env.poisons_memory.then(|| self.submission_guard_recursive());
        let is_recording = self.is_recording();
        if self.env.poisons_memory && !(is_recording && std::ptr::eq(pool, &raw const *self.pool)) {
            // SAFETY: the allocation is new and has `allocation.bytes` bytes.
            check("poison", unsafe {
                sys::cuMemsetD8Async(allocation.address, 0xff, allocation.bytes, self.stream())
            })?;
        }
        Ok(Some(allocation))
    }

    /// Returns the error of a failed allocation of `bytes` bytes. An allocation also fails after a
    /// fault of the device, which is then reported instead.
    #[cold]
    fn out_of_memory(&self, pool: &Pool<DeviceMemory>, bytes: usize) -> Error {
        let _guard = self.submission_guard_recursive();
        if !self.is_recording() {
            // SAFETY: the stream lives as long as this.
            let code = unsafe { sys::cuStreamQuery(self.stream()) };
            if code != sys::CUresult::CUDA_ERROR_NOT_READY
                && let Err(error) = self.check_status("memory", code)
            {
                return error;
            }
        }
        let (main, pool_stats) = (self.memory(), pool.stats());
        let arena =
            if std::ptr::eq(pool, &raw const *self.pool) { MemoryStats::default() } else { pool_stats };
        Error::OutOfMemory {
            device: self.name.clone(),
            requested: bytes,
            in_use: main.in_use + arena.in_use,
            cached: main.cached + arena.cached,
            peak: main.peak + arena.peak,
        }
    }

    /// Returns the statistics of the pool.
    pub(crate) fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    /// Resets the peak of the pool's memory in use, to at least `floor` bytes.
    pub(crate) fn restart_peak(&self, floor: usize) {
        self.pool.reset_peak(floor);
    }

    /// Releases unused segments to the driver. Not allowed while a step is recorded.
    pub(crate) fn release_cached(&self) -> Result<()> {
        self.synchronize()?;
        self.release_unused();
        Ok(())
    }

    /// Allocates the memory of a tensor.
    #[inline]
    pub(crate) fn alloc(self: &Arc<Gpu>, bytes: usize) -> Result<CudaMemory> {
        let pool = self.current_pool()?;
        let allocation = self.allocate_block(&pool, bytes)?;
        Ok(CudaMemory { pool, allocation, foreign: None, bytes, version: Default::default() })
    }

    /// Allocates a workspace that is freed after the op's kernels have been queued.
    #[inline]
    pub(crate) fn workspace(&self, bytes: usize) -> Result<Workspace> {
        if bytes == 0 {
            return Ok(Workspace::EMPTY);
        }
        let pool = self.current_pool()?;
        Ok(Workspace::new(self.allocate_block(&pool, bytes)?, pool))
    }

    /// As `workspace`, filled with zeros.
    pub(crate) fn zeroed_workspace(&self, bytes: usize) -> Result<Workspace> {
        let workspace = self.workspace(bytes)?;
        self.context.bind()?;
        // SAFETY: the memory was just allocated with `bytes` bytes.
        self.check_status("workspace", unsafe {
            sys::cuMemsetD8Async(workspace.address(), 0, bytes, self.stream())
        })?;
        Ok(workspace)
    }

    /// Fills a matrix of `rows` rows of `width` bytes with zeros. The first row is at `address`,
    /// and each following row `pitch` bytes after the previous one.
    pub(crate) fn zero_columns(
        &self,
        op: &'static str,
        address: u64,
        pitch: usize,
        width: usize,
        rows: usize,
    ) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the rows are inside the caller's buffer, which lives until this is queued.
        self.check_status(op, unsafe {
            sys::cuMemsetD2D8Async(address, pitch, 0, width, rows, self.stream())
        })
    }

    // ---- Recording

    /// Starts to record this thread's kernels.
    pub(crate) fn begin_recording(&self) -> Result<()> {
        // The arena will need about as much memory as the step needed when it ran. If that much is
        // not free, the pool releases its cached segments now, because it cannot do so while the
        // stream records.
        if self.free_bytes()? < self.pool.stats().peak {
            self.pool.flush();
        }
        let _guard = self.exclusive_guard();
        let mut recording = self.recording.lock();
        if recording.is_some() {
            return Err(Error::invalid(
                "capture",
                format!("a step is being recorded on {} already", self.name),
            ));
        }
        let arena = Arc::new(Pool::arena(DeviceMemory { queue: self.queue.clone() }));
        *recording = Some(Recording { thread: std::thread::current().id(), arena, retained: Vec::new() });
        self.is_recording.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns whether a thread is recording a step.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Acquire)
    }

    /// Ends the recording and returns it.
    pub(crate) fn end_recording(&self) -> Option<Recording> {
        let recording = self.recording.lock().take();
        self.is_recording.store(false, Ordering::Release);
        recording
    }

    /// Returns an error if a step is being recorded: `what` is not allowed in a recorded step, nor
    /// on another thread during a recording.
    #[inline]
    pub(crate) fn check_not_recording(&self, what: &'static str) -> Result<()> {
        if !self.is_recording() {
            return Ok(());
        }
        let is_this_thread = self
            .recording
            .lock()
            .as_ref()
            .is_some_and(|recording| recording.thread == std::thread::current().id());
        Err(match is_this_thread {
            true => rejected_while_recording(what),
            false => Error::invalid(what, "another thread records a step on this device"),
        })
    }

    /// Retains the buffers of an op that is being recorded.
    pub(crate) fn retain<'a>(&self, buffers: impl Iterator<Item = &'a Buffer>) -> Result<()> {
        if !self.is_recording() {
            return Ok(());
        }
        match &mut *self.recording.lock() {
            Some(recording) if recording.thread == std::thread::current().id() => {
                buffers.for_each(|buffer| recording.retain(buffer));
                Ok(())
            }
            Some(_) => Err(Error::invalid("cuda", "another thread records a step on this device")),
            None => Ok(()),
        }
    }

    /// Returns the address of a view's element 0.
    #[inline]
    pub(crate) fn address(&self, op: &'static str, view: &View<'_>) -> Result<u64> {
        let memory = CudaMemory::of(view.buffer)
            .ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))?;
        Ok(memory.address() + (view.layout.offset() * view.dtype.size()) as u64)
    }

    /// Releases unused segments of the pool, because the driver itself needs memory. Does nothing
    /// while a step is recorded: the release waits for the stream, which a recording does not
    /// allow.
    fn release_unused(&self) {
        if !self.is_recording() {
            self.pool.flush();
        }
    }

    /// Returns the driver's status of `call`. If the driver is out of memory, the pool releases its
    /// unused segments and `call` is called once more.
    pub(crate) fn with_memory(&self, mut call: impl FnMut() -> sys::CUresult) -> sys::CUresult {
        match call() {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                self.release_unused();
                call()
            }
            status => status,
        }
    }

    #[inline]
    pub(crate) fn add_to_history(&self, op: &'static str) {
        self.queue.history().add(op);
    }

    /// Starts to record every launch.
    pub(crate) fn begin_launch_records(&self) {
        self.queue.history().begin_records();
    }

    /// Stops recording launches and returns those since `begin_launch_records`.
    pub(crate) fn take_launch_records(&self) -> Vec<LaunchRecord> {
        self.queue.history().take_records()
    }

    /// Waits for the stream.
    pub(crate) fn wait_stream(&self) -> Result<()> {
        self.context.bind()?;
        // Read before the wait: launches that other threads make during it do not count as ended.
        let (last, launched) = {
            let history = self.queue.history();
            (history.last(), history.count)
        };
        // SAFETY: the stream lives as long as this.
        let code = unsafe { sys::cuStreamSynchronize(self.stream()) };
        self.check_status(if self.env.is_synchronous { last } else { "cuda" }, code)?;
        self.check_failed_launches()?;
        self.queue.history().mark_ended(launched);
        Ok(())
    }

    /// Converts the driver's status to an error of `op`. If the status is a fault caused by an
    /// earlier kernel, the error names the ops that may have caused it.
    pub(crate) fn check_status(&self, op: &'static str, code: sys::CUresult) -> Result<()> {
        use sys::CUresult as Code;
        match code {
            Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE => {
                let op = if self.env.is_synchronous { op } else { "cuda" };
                check(op, code).map_err(|error| self.with_suspects(error))
            }
            _ => check(op, code),
        }
    }

    /// Adds the ops that may have caused a fault of the device to its error. They are not known
    /// exactly, because the driver reports a fault later than it occurs.
    fn with_suspects(&self, error: Error) -> Error {
        if self.env.is_synchronous {
            return error;
        }
        Error::Device {
            device: self.name.clone(),
            detail: format!(
                "{error}. {}. With TERNION_CUDA_SYNC=1 the error names the op",
                self.queue.history().suspects()
            ),
        }
    }

    /// Waits until everything queued has ended.
    ///
    /// # Errors
    /// A fault of the device, or an error that kernels found in the data.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let ended = self.wait_for_all();
        self.release_ended();
        ended
    }

    fn wait_for_all(&self) -> Result<()> {
        let _guard = self.submission_guard();
        self.check_not_recording("synchronize")?;
        self.wait_stream()?;
        self.index_errors.take()
    }

    /// Submits everything launched so far to the stream, then returns it. The next kernel waits for
    /// work that the caller adds to the stream.
    pub(crate) fn stream(&self) -> sys::CUstream {
        self.queue.drain();
        self.queue.target.handle
    }

    /// Returns the free memory of the device in bytes.
    pub(crate) fn free_bytes(&self) -> Result<usize> {
        self.context.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call writes two integers; the context is current.
        check("memory", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free)
    }

    /// Returns the number of kernels launched so far.
    pub(crate) fn launches(&self) -> u64 {
        self.queue.history().count as u64
    }

    /// Queues a copy between two addresses of the device.
    pub(crate) fn copy_bytes(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        let _guard = self.submission_guard();
        self.check_not_recording("copy")?;
        self.context.bind()?;
        // SAFETY: the caller has checked that both buffers contain that many bytes.
        self.check_status("copy", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream()) })
    }

    /// Queues a copy of `host` to `address`.
    pub(crate) fn upload(&self, host: &[u8], address: u64) -> Result<()> {
        let _guard = self.submission_guard();
        self.check_not_recording("upload")?;
        self.context.bind()?;
        self.uploads.lock().upload(self.stream(), host, address, &|op, code| self.check_status(op, code))
    }

    /// Copies device memory to the host, after everything that was queued before.
    pub(crate) fn download(&self, transfers: Vec<Transfer<'_>>) -> Result<()> {
        let _guard = self.submission_guard();
        self.check_not_recording("download")?;
        self.context.bind()?;
        let launched = self.queue.history().count;
        let mut downloads = self.downloads.lock().pop().unwrap_or_default();
        let ended = downloads.download(self.stream(), transfers, &|op, code| self.check_status(op, code));
        self.downloads.lock().push(downloads);
        ended.and_then(|()| self.check_failed_launches())?;
        self.queue.history().mark_ended(launched);
        self.index_errors.take()
    }
}
