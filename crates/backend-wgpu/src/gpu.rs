//! An open device: memory, the commands that wait to be submitted, and transfers to the host.

mod index_error_record;
pub(crate) mod timing;
mod transfers;

use crate::adapters::{adapter, describe};
use crate::batch::{Batch, MAX_BATCH_DELAY, MAX_LAUNCHES};
pub(crate) use crate::binding::Binding;
use crate::binding::{Limits, assign_windows, check_binding_count, too_many_elements};
use crate::device_errors::DeviceErrors;
use crate::flush_thread::{self, Flush, FlushThread};
use crate::index_errors;
use crate::memory::{WgpuMemory, memory_of};
use crate::options::Options;
use crate::pipeline_cache::{self, PipelineCache};
use crate::pipelines::{MAX_PARAMETER_BYTES, Pipelines, Variant};
use crate::pool::{Block, Pool, block_size};
use crate::slots::Access;
use index_error_record::create_index_error_record;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::path::PathBuf;
#[cfg(test)]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use ternion_core::backend::{Buffer, MemoryStats, View};
use ternion_core::{Error, Result};

/// Limits of the workspace of an op: this many bytes, and this fraction (1 / `WORKSPACE_FRACTION`)
/// of the device's memory, or of 8 GiB if its size is unknown.
const MAX_WORKSPACE_BYTES: u64 = 512 << 20;
const WORKSPACE_FRACTION: u64 = 32;
/// How often an allocation is tried before it fails with an out-of-memory error.
const MAX_ALLOC_ATTEMPTS: usize = 8;

/// A wgpu device with everything that belongs to it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) limits: wgpu::Limits,
    binding_limits: Limits,
    /// Threads of a subgroup, if shaders may use subgroups and all have the same size.
    pub(crate) subgroup: Option<u32>,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pool: Arc<Pool>,
    pipelines: Pipelines,
    batch: Mutex<Batch>,
    flush_thread: FlushThread,
    errors: Arc<DeviceErrors>,
    /// Maximum number of bytes of all blocks together.
    max_memory_bytes: u64,
    /// The maximum number of bytes for intermediate results between the launches of an op that
    /// could also run with fewer.
    pub(crate) workspace_bytes: u64,
    /// Whether even the smallest number of tiles of a product keeps the device busy.
    pub(crate) small_products: bool,
    launches: AtomicU64,
    /// The id of the next new block.
    next_block_id: AtomicU64,
    /// The record in which shaders store an index that is out of range.
    index_error_record: WgpuMemory,
    /// How many of the next staging allocations fail.
    #[cfg(test)]
    staging_failures: AtomicUsize,
    #[cfg(feature = "noop")]
    launched: Mutex<Vec<crate::noop::Launched>>,
    /// Number of ops that were run.
    #[cfg(feature = "noop")]
    pub(crate) calls: AtomicU64,
}

/// A launch to be queued: a shader, its bindings, and the number of workgroups.
pub(crate) struct Launch<'a> {
    pub(crate) variant: Variant,
    pub(crate) bindings: SmallVec<[Binding<'a>; 6]>,
    pub(crate) groups: usize,
}

impl Gpu {
    /// Opens the adapter with this index, with all its limits and the features that shaders use.
    pub(crate) fn open(index: usize, options: Options) -> Result<Arc<Gpu>> {
        Gpu::open_in(index, options, pipeline_cache::folder())
    }

    /// Like [`Gpu::open`], with the pipeline cache in `folder`.
    pub(crate) fn open_in(index: usize, options: Options, folder: Option<PathBuf>) -> Result<Arc<Gpu>> {
        let adapter = adapter(index)?;
        let mut limits = adapter.limits();
        if let Some(bytes) = options.binding_bytes {
            limits.max_storage_buffer_binding_size = bytes.min(limits.max_storage_buffer_binding_size);
        }
        let name = format!("wgpu:{index}");
        let requested = wgpu::Features::SUBGROUP
            | wgpu::Features::SHADER_F16
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::PIPELINE_CACHE;
        let mut features = adapter.features() & requested;
        let mut experimental_features = wgpu::ExperimentalFeatures::disabled();
        if has_cooperative_f16(adapter) {
            features |= wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
            // SAFETY: only the shaders of cooperative matrices use the experimental feature. They
            // use only the sizes that the adapter lists, and the tests of the op table run them.
            experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
        }
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("ternion"),
            required_features: features,
            required_limits: limits,
            memory_hints: wgpu::MemoryHints::Performance,
            experimental_features,
            ..Default::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
            Error::Device { device: name.clone(), detail: format!("was not opened: {error}") }
        })?;
        if is_software(&adapter.get_info()) {
            flush_thread::warm_up(&device, &queue);
        }
        let about = describe(index, adapter);
        let description = format!("{}, {} ({})", about.name, about.interface, about.driver);
        let info = adapter.get_info();
        let cache = PipelineCache::open(&device, &info, folder);
        let subgroup = subgroup_size(&info).filter(|_| features.contains(wgpu::Features::SUBGROUP));
        let options = Options { small_products: options.small_products || is_software(&info), ..options };
        let gpu = Gpu::from_device(
            (device, queue),
            subgroup,
            [name, description],
            about.memory_bytes,
            options,
            cache,
        );
        let device: Arc<dyn Flush> = gpu.clone();
        flush_thread::wait_at_exit(&device);
        Ok(gpu)
    }

    /// Creates the state of an opened device.
    fn from_device(
        (device, queue): (wgpu::Device, wgpu::Queue),
        subgroup: Option<u32>,
        [name, description]: [String; 2],
        memory_bytes: Option<u64>,
        options: Options,
        cache: PipelineCache,
    ) -> Arc<Gpu> {
        let errors = DeviceErrors::register(&device);
        let limits = device.limits();
        let binding_limits = Limits::of(&limits);
        let max_memory_bytes = options.memory_bytes.unwrap_or(u64::MAX);
        let max_share = memory_bytes.unwrap_or(8 << 30).min(max_memory_bytes) / WORKSPACE_FRACTION;
        Arc::new_cyclic(|gpu: &Weak<Gpu>| Gpu {
            description,
            binding_limits,
            subgroup: subgroup.filter(|_| !options.without_subgroups),
            name,
            batch: Mutex::new(Batch::new(&device)),
            flush_thread: FlushThread::of(gpu.clone(), device.adapter_info().backend),
            index_error_record: create_index_error_record(&device),
            #[cfg(test)]
            staging_failures: AtomicUsize::new(0),
            #[cfg(feature = "noop")]
            launched: Mutex::default(),
            #[cfg(feature = "noop")]
            calls: AtomicU64::new(0),
            pool: Arc::default(),
            pipelines: Pipelines::new(binding_limits.window, options.checked, cache),
            errors,
            max_memory_bytes,
            small_products: options.small_products,
            workspace_bytes: max_share.min(MAX_WORKSPACE_BYTES).min(limits.max_storage_buffer_binding_size),
            launches: AtomicU64::new(0),
            next_block_id: AtomicU64::new(1),
            limits,
            device,
            queue,
        })
    }

    /// Returns a device that validates shaders and runs none.
    #[cfg(any(test, feature = "noop"))]
    pub(crate) fn noop(options: Options) -> Arc<Gpu> {
        let required_features = wgpu::Features::SHADER_F16
            | wgpu::Features::SUBGROUP
            | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor {
            required_features,
            required_limits: wgpu::Limits {
                max_compute_workgroup_storage_size: 48 << 10,
                max_storage_buffers_per_shader_stage: 16,
                ..wgpu::Limits::default()
            },
            // SAFETY: nothing runs.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            ..wgpu::DeviceDescriptor::default()
        });
        Gpu::from_device(
            (device, queue),
            Some(32),
            ["noop".into(), "nothing".into()],
            None,
            options,
            PipelineCache::default(),
        )
    }

    /// From now on, shaders of cooperative matrices run with an emulation of them.
    #[cfg(test)]
    pub(crate) fn emulate_matrices(&self) {
        self.pipelines.emulated.store(true, Ordering::Relaxed);
    }

    /// Makes the device lost.
    #[cfg(test)]
    pub(crate) fn destroy(&self) {
        self.device.destroy();
    }

    /// Makes wgpu report an error outside any call, by creating a buffer that the host may both
    /// read and write.
    #[cfg(test)]
    pub(crate) fn cause_error(&self) {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE;
        let descriptor = wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false };
        let _ = self.device.create_buffer(&descriptor);
    }

    /// Returns whether the device has cooperative matrices of 16 x 16 x 16, f16 with f32
    /// accumulators.
    pub(crate) fn has_cooperative_f16(&self) -> bool {
        #[cfg(test)]
        if self.pipelines.emulated.load(Ordering::Relaxed) {
            return true;
        }
        self.device.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
    }

    /// Returns the number of compiled shaders, and the error messages of those that were rejected.
    #[cfg(test)]
    pub(crate) fn compiled(&self) -> (usize, Vec<String>) {
        self.pipelines.compiled()
    }

    /// Returns a description of each shader compiled so far.
    pub(crate) fn shaders(&self) -> Vec<String> {
        self.pipelines.descriptions()
    }

    /// Returns the shaders that were launched since the last call, in order.
    #[cfg(feature = "noop")]
    pub(crate) fn take_launched(&self) -> Vec<crate::noop::Launched> {
        std::mem::take(&mut self.launched.lock())
    }

    /// Returns the number of shaders launched so far.
    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    fn error(&self, detail: impl Into<String>) -> Error {
        Error::Device { device: self.name.clone(), detail: detail.into() }
    }

    /// Fails with the error that wgpu reported outside any call, if any.
    fn check_errors(&self) -> Result<()> {
        self.errors.check(&self.device).map_err(|detail| self.error(detail))
    }

    // ---- Memory

    /// Allocates `bytes` bytes: a cached block of the pool, or a new one.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<Buffer> {
        let size = block_size(bytes);
        let block = match self.pool.take(size) {
            Some(block) => block,
            None => Block {
                buffer: self.new_buffer(size, bytes)?,
                id: self.next_block_id.fetch_add(1, Ordering::Relaxed),
            },
        };
        Ok(Buffer::new(WgpuMemory::new(block, bytes, &self.pool)))
    }

    /// Allocates a new block.
    fn new_buffer(&self, size: usize, requested: usize) -> Result<wgpu::Buffer> {
        self.check_errors()?;
        let fits = size as u64 <= self.limits.max_buffer_size.min(self.max_memory_bytes);
        self.retry_alloc(requested, if fits { MAX_ALLOC_ATTEMPTS } else { 0 }, || self.try_new_buffer(size))
    }

    /// Calls `allocate` until it returns a buffer. If the device has no memory left, cached blocks
    /// are released before the next attempt. Other threads may cache more in the meantime, so there
    /// are several attempts.
    fn retry_alloc(
        &self,
        requested: usize,
        attempts: usize,
        allocate: impl Fn() -> Option<wgpu::Buffer>,
    ) -> Result<wgpu::Buffer> {
        for attempt in 0..attempts {
            if let Some(buffer) = allocate() {
                return Ok(buffer);
            }
            self.check_errors()?;
            if attempt > 0 && self.pool.stats().cached == 0 {
                break;
            }
            self.release_cached_blocks()?;
        }
        let MemoryStats { in_use, cached, peak } = self.pool.stats();
        Err(Error::OutOfMemory { device: self.name.clone(), requested, in_use, cached, peak })
    }

    /// Releases all cached memory.
    pub(crate) fn release_cached(&self) -> Result<()> {
        self.check_errors()?;
        self.release_cached_blocks()
    }

    /// Releases the cached blocks. Queued commands may still use some of the blocks, so the
    /// commands are submitted first. The batch stays locked, so that nothing is queued in between.
    fn release_cached_blocks(&self) -> Result<()> {
        let mut batch = self.batch.lock();
        batch.submit_all(&self.device, &self.queue, &self.errors);
        batch.bind_groups.clear();
        batch.staging = None;
        drop(self.pool.take_cached());
        drop(batch);
        self.poll()
    }

    /// Allocates a new block, or returns `None` if the limit or the device allows no more memory.
    fn try_new_buffer(&self, size: usize) -> Option<wgpu::Buffer> {
        self.pool.reserve(size, self.max_memory_bytes)?;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = self.create(None, size as u64, usage);
        match buffer {
            Some(_) => self.pool.update_peak(),
            None => self.pool.cancel_reservation(size),
        }
        buffer
    }

    /// Creates a buffer, or returns `None` if the device has no memory for it.
    fn create(&self, label: Option<&str>, size: u64, usage: wgpu::BufferUsages) -> Option<wgpu::Buffer> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let descriptor = wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        pollster::block_on(scope.pop()).is_none().then_some(buffer)
    }

    pub(crate) fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    pub(crate) fn restart_peak(&self, floor: usize) {
        self.pool.restart_peak(floor);
    }

    /// Returns the memory of a view as a shader accesses it, and the index of the view's first
    /// element in it.
    ///
    /// # Errors
    /// The tensor has more elements than shaders can index.
    pub(crate) fn bind<'a>(&self, op: &'static str, view: &View<'a>) -> Result<(Binding<'a>, u32)> {
        let binding = Binding::of(memory_of(op, view.buffer)?, view, self.binding_limits);
        let first = binding.first_index(view).ok_or_else(|| too_many_elements(op, view))?;
        Ok((binding, first))
    }

    /// Returns whether a shader can access a view in one binding and index its elements.
    pub(crate) fn fits(&self, op: &'static str, view: &View<'_>) -> Result<bool> {
        let binding = Binding::of(memory_of(op, view.buffer)?, view, self.binding_limits);
        Ok(binding.count(self.binding_limits) == 1 && binding.first_index(view).is_some())
    }

    /// Returns the maximum number of bindings of a shader.
    pub(crate) fn max_bindings(&self) -> usize {
        self.binding_limits.max_count
    }

    /// Returns whether a shader can access this memory in one binding.
    pub(crate) fn is_one_binding(&self, binding: &Binding<'_>) -> bool {
        binding.count(self.binding_limits) == 1
    }

    // ---- Commands

    /// Queues a shader. Writes the requested number of workgroups to the first word of the
    /// parameters, `launched`. The two-dimensional grid may contain more workgroups.
    pub(crate) fn launch(&self, op: &'static str, launch: Launch<'_>, parameters: &[u8]) -> Result<()> {
        if launch.groups == 0 {
            return Ok(());
        }
        self.check_errors()?;
        debug_assert!(
            parameters.len() <= MAX_PARAMETER_BYTES,
            "{op}: {} bytes of parameters",
            parameters.len()
        );
        let Launch { mut variant, bindings, groups } = launch;
        mark_aliased_reads(&mut variant, &bindings);
        let bindings = assign_windows(&mut variant.slots, bindings, self.binding_limits);
        check_binding_count(op, &self.name, &bindings, self.binding_limits)?;
        let pipeline = self
            .pipelines
            .get(&self.device, &variant)
            .map_err(|detail| Error::invalid(op, format!("its shader was rejected: {detail}")))?;
        #[cfg(test)]
        if crate::record::folder().is_some() {
            let source = self.pipelines.linked(&variant).expect("it was compiled");
            crate::record::launched(op, groups, &source, parameters);
        }
        #[cfg(feature = "noop")]
        self.launched.lock().extend(self.pipelines.linked(&variant).map(|source| crate::noop::Launched {
            op,
            call: self.calls.load(Ordering::Relaxed),
            path: variant.shader.path(),
            source,
        }));
        let grid = self.grid(op, groups)?;
        self.launches.fetch_add(1, Ordering::Relaxed);
        let mut batch = self.batch.lock();
        let offset =
            batch.push_parameters(parameters, self.limits.min_uniform_buffer_offset_alignment as usize);
        batch.parameters[offset as usize..][..4].copy_from_slice(&(groups as u32).to_ne_bytes());
        let bind_group = batch.bind_group(&self.device, &pipeline, &bindings, self.binding_limits);
        if variant.slots.iter().any(|slot| slot.name == index_errors::SLOT) {
            batch.index_errors.mark_pending();
        }
        let pass = batch.pass(&self.device);
        pass.set_pipeline(&pipeline.compiled);
        pass.set_bind_group(0, &bind_group, &[offset]);
        pass.dispatch_workgroups(grid[0], grid[1], 1);
        batch.launches += 1;
        let full = batch.launches >= MAX_LAUNCHES
            || batch.parameters.len() + 2 * MAX_PARAMETER_BYTES > batch.parameter_buffer.size() as usize;
        if full || batch.since.elapsed() >= MAX_BATCH_DELAY {
            batch.submit(&self.device, &self.queue, &self.errors);
        } else if batch.launches == 1 {
            self.flush_thread.wake();
        }
        Ok(())
    }

    /// Returns the number of launches that wait to be submitted.
    #[cfg(test)]
    pub(crate) fn pending_launches(&self) -> usize {
        self.batch.lock().launches
    }

    #[cfg(test)]
    pub(crate) fn flush_thread(&self) -> &FlushThread {
        &self.flush_thread
    }

    /// Submits the queued commands, so that the device starts while the host queues more.
    pub(crate) fn submit(&self) {
        self.batch.lock().submit(&self.device, &self.queue, &self.errors);
    }

    /// Returns a two-dimensional grid with at least this many workgroups. The number of rows of the
    /// grid is the smallest possible.
    fn grid(&self, op: &'static str, groups: usize) -> Result<[u32; 2]> {
        let max_per_axis = self.limits.max_compute_workgroups_per_dimension as usize;
        if groups <= max_per_axis {
            return Ok([groups as u32, 1]);
        }
        let rows = groups.div_ceil(max_per_axis);
        if rows > max_per_axis || groups >= 1 << 31 {
            return Err(Error::invalid(
                op,
                format!("{groups} workgroups are more than one launch can process"),
            ));
        }
        Ok([groups.div_ceil(rows) as u32, rows as u32])
    }

    /// Returns the binding of an op's workspace: the requested bytes, rounded up to a multiple of
    /// 16. The block is larger, and might need two bindings where the requested bytes need one.
    pub(crate) fn workspace<'a>(&self, op: &'static str, buffer: &'a Buffer) -> Result<Binding<'a>> {
        let memory = memory_of(op, buffer)?;
        Ok(Binding { memory, start: 0, bytes: memory.size_bytes().max(1).next_multiple_of(16) as u64 })
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.finish()?;
        self.check_index_errors()
    }

    /// Submits everything and waits until the device is done.
    fn finish(&self) -> Result<()> {
        self.batch.lock().submit_all(&self.device, &self.queue, &self.errors);
        self.poll()
    }

    /// Waits until the device has completed all submissions.
    fn poll(&self) -> Result<()> {
        let result = self.errors.wait(&self.device);
        result.map_err(|detail| self.error(detail))
    }
}

impl Flush for Gpu {
    fn flush_overdue(&self, asleep: &AtomicBool) {
        let mut batch = self.batch.lock();
        if batch.launches == 0 {
            asleep.store(true, Ordering::Release);
        } else if batch.since.elapsed() >= MAX_BATCH_DELAY {
            batch.submit(&self.device, &self.queue, &self.errors);
        }
    }

    fn save_pipelines(&self) {
        self.pipelines.cache.save();
    }

    fn finish_within(&self, time: Duration) {
        self.errors.wait_within(&self.device, time);
    }
}

/// Changes the access of slots that read memory which the same launch also writes: such memory must
/// be declared read_write in every slot.
fn mark_aliased_reads(variant: &mut Variant, bindings: &[Binding<'_>]) {
    debug_assert_eq!(variant.slots.len(), bindings.len(), "{variant:?}");
    let written: SmallVec<[u64; 4]> = variant
        .slots
        .iter()
        .zip(bindings)
        .filter(|(slot, _)| slot.access.binds_read_write())
        .map(|(_, binding)| binding.memory.id())
        .collect();
    for (slot, binding) in variant.slots.iter_mut().zip(bindings) {
        if !written.contains(&binding.memory.id()) {
            continue;
        }
        slot.access = match slot.access {
            Access::Read => Access::ReadAliased,
            Access::ReadVec4 => Access::WriteVec4,
            other => other,
        };
    }
}

/// Returns whether an adapter is software that runs on the CPU.
fn is_software(info: &wgpu::AdapterInfo) -> bool {
    info.device_type == wgpu::DeviceType::Cpu
}

/// Returns the number of threads of a subgroup, if all subgroups have the same size. The threads of
/// a subgroup are then adjacent in the workgroup.
fn subgroup_size(info: &wgpu::AdapterInfo) -> Option<u32> {
    let size = info.subgroup_min_size;
    (size == info.subgroup_max_size && size.is_power_of_two() && (4..=128).contains(&size)).then_some(size)
}

/// Returns whether an adapter has the cooperative matrices that matmul_cooperative.wgsl uses.
fn has_cooperative_f16(adapter: &wgpu::Adapter) -> bool {
    let (info, features) = (adapter.get_info(), adapter.features());
    let has = |feature| features.contains(feature);
    has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && has(wgpu::Features::SHADER_F16)
        // A subgroup is 32 threads with consecutive indices.
        && (info.subgroup_min_size, info.subgroup_max_size) == (32, 32)
        && adapter.cooperative_matrix_properties().iter().any(|matrix| {
            (matrix.m_size, matrix.n_size, matrix.k_size) == (16, 16, 16)
                && (matrix.ab_type, matrix.cr_type)
                    == (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32)
        })
}
