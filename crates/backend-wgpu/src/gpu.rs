//! An open device: memory, the commands that wait to be submitted, and the way back to the host.

pub(crate) mod timing;
mod transfers;

use crate::adapters::{adapter, describe};
use crate::batch::{Batch, LONGEST_WAIT, MOST_LAUNCHES};
pub(crate) use crate::binding::Binding;
use crate::binding::{Limits, uncountable, windowed, within_count};
use crate::device_errors::DeviceErrors;
use crate::faults;
use crate::flush_thread::{self, Flush, FlushThread};
use crate::memory::{WgpuMemory, memory_of};
use crate::options::Options;
use crate::pipeline_cache::{self, PipelineCache};
use crate::pipelines::{MOST_PARAMETERS, Pipelines, Variant};
use crate::pool::{Block, Pool, block_size};
use crate::slots::Access;
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
use transfers::StagingSlice;

/// What an op takes for itself: this at most, and this part of the device's memory (or of 8 GiB, where that is unknown).
const MOST_WORK_BYTES: u64 = 512 << 20;
const WORK_PART: u64 = 32;
/// How often memory is asked for before there is none.
const MOST_TURNS: usize = 8;

/// A device of wgpu's, with all that belongs to it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) limits: wgpu::Limits,
    bound: Limits,
    /// Threads of a subgroup, where shaders may use them and all have so many.
    pub(crate) subgroup: Option<u32>,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pool: Arc<Pool>,
    pipelines: Pipelines,
    batch: Mutex<Batch>,
    flush_thread: FlushThread,
    errors: Arc<DeviceErrors>,
    /// Bytes that blocks may take in all.
    most_memory: u64,
    /// Bytes that an op may take for what lies between its launches, where it has a choice.
    pub(crate) work_bytes: u64,
    /// Whether the fewest tiles of a product keep it busy.
    pub(crate) small_products: bool,
    launches: AtomicU64,
    /// Blocks that were made.
    blocks: AtomicU64,
    /// Where shaders note indices that are out of range.
    record: WgpuMemory,
    /// How often, from now on, there is no memory for a download.
    #[cfg(test)]
    refused_staging: AtomicUsize,
    #[cfg(feature = "noop")]
    launched: Mutex<Vec<crate::noop::Launched>>,
    /// Ops that were run.
    #[cfg(feature = "noop")]
    pub(crate) calls: AtomicU64,
}

/// What is queued: a shader, what is bound to it, its parameters, and how many work groups.
pub(crate) struct Launch<'a> {
    pub(crate) variant: Variant,
    pub(crate) bindings: SmallVec<[Binding<'a>; 6]>,
    pub(crate) groups: usize,
}

impl Gpu {
    /// Opens the adapter with this index, with all that it offers.
    pub(crate) fn open(index: usize, options: Options) -> Result<Arc<Gpu>> {
        Gpu::open_in(index, options, pipeline_cache::folder())
    }

    /// The same, with what drivers compiled kept in `folder`.
    pub(crate) fn open_in(index: usize, options: Options, folder: Option<PathBuf>) -> Result<Arc<Gpu>> {
        let adapter = adapter(index)?;
        let mut limits = adapter.limits();
        if let Some(bytes) = options.binding_bytes {
            limits.max_storage_buffer_binding_size = bytes.min(limits.max_storage_buffer_binding_size);
        }
        let name = format!("wgpu:{index}");
        let wanted = wgpu::Features::SUBGROUP
            | wgpu::Features::SHADER_F16
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::PIPELINE_CACHE;
        let mut features = adapter.features() & wanted;
        let mut experimental_features = wgpu::ExperimentalFeatures::disabled();
        if has_cooperative_f16(adapter) {
            features |= wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
            // SAFETY: what is experimental here is asked for by one shader, which keeps to the sizes that the adapter lists; the op table runs it.
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
        let gpu = Gpu::on((device, queue), subgroup, [name, description], about.memory_bytes, options, cache);
        let device: Arc<dyn Flush> = gpu.clone();
        flush_thread::wait_at_exit(&device);
        Ok(gpu)
    }

    /// All that belongs to an opened device.
    fn on(
        (device, queue): (wgpu::Device, wgpu::Queue),
        subgroup: Option<u32>,
        [name, description]: [String; 2],
        memory_bytes: Option<u64>,
        options: Options,
        cache: PipelineCache,
    ) -> Arc<Gpu> {
        let errors = DeviceErrors::watch(&device);
        let limits = device.limits();
        let bound = Limits::of(&limits);
        let most_memory = options.memory_bytes.unwrap_or(u64::MAX);
        let part = memory_bytes.unwrap_or(8 << 30).min(most_memory) / WORK_PART;
        Arc::new_cyclic(|gpu: &Weak<Gpu>| Gpu {
            description,
            bound,
            subgroup: subgroup.filter(|_| !options.without_subgroups),
            name,
            batch: Mutex::new(Batch::new(&device)),
            flush_thread: FlushThread::of(gpu.clone(), device.adapter_info().backend),
            record: record(&device),
            #[cfg(test)]
            refused_staging: AtomicUsize::new(0),
            #[cfg(feature = "noop")]
            launched: Mutex::default(),
            #[cfg(feature = "noop")]
            calls: AtomicU64::new(0),
            pool: Arc::default(),
            pipelines: Pipelines::new(bound.window, options.checked, cache),
            errors,
            most_memory,
            small_products: options.small_products,
            work_bytes: part.min(MOST_WORK_BYTES).min(limits.max_storage_buffer_binding_size),
            launches: AtomicU64::new(0),
            blocks: AtomicU64::new(1),
            limits,
            device,
            queue,
        })
    }

    /// A device that validates shaders and runs none.
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
        Gpu::on(
            (device, queue),
            Some(32),
            ["noop".into(), "nothing".into()],
            None,
            options,
            PipelineCache::default(),
        )
    }

    /// From now on shaders of cooperative matrices are run without them.
    #[cfg(test)]
    pub(crate) fn emulate_matrices(&self) {
        self.pipelines.emulated.store(true, Ordering::Relaxed);
    }

    /// Loses the device.
    #[cfg(test)]
    pub(crate) fn destroy(&self) {
        self.device.destroy();
    }

    /// Has wgpu refuse something outside any call: a buffer that may be read and written by the host.
    #[cfg(test)]
    pub(crate) fn refused(&self) {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE;
        let descriptor = wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false };
        let _ = self.device.create_buffer(&descriptor);
    }

    /// Whether there are cooperative matrices of 16 x 16 x 16, f16 with sums in f32.
    pub(crate) fn has_cooperative_f16(&self) -> bool {
        #[cfg(test)]
        if self.pipelines.emulated.load(Ordering::Relaxed) {
            return true;
        }
        self.device.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
    }

    /// Shaders that were compiled, and what was said of those that were refused.
    #[cfg(test)]
    pub(crate) fn compiled(&self) -> (usize, Vec<String>) {
        self.pipelines.compiled()
    }

    /// Shaders that were compiled so far, in words.
    pub(crate) fn shaders(&self) -> Vec<String> {
        self.pipelines.described()
    }

    /// The shaders that were launched so far, in order.
    #[cfg(feature = "noop")]
    pub(crate) fn take_launched(&self) -> Vec<crate::noop::Launched> {
        std::mem::take(&mut self.launched.lock())
    }

    /// Shaders that were launched so far.
    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    fn error(&self, detail: impl Into<String>) -> Error {
        Error::Device { device: self.name.clone(), detail: detail.into() }
    }

    /// The errors that wgpu reported outside any call.
    fn healthy(&self) -> Result<()> {
        self.errors.check(&self.device).map_err(|detail| self.error(detail))
    }

    // ---- Memory

    pub(crate) fn alloc(&self, bytes: usize) -> Result<Buffer> {
        let size = block_size(bytes);
        let block = match self.pool.take(size) {
            Some(block) => block,
            None => {
                Block { buffer: self.make(size, bytes)?, number: self.blocks.fetch_add(1, Ordering::Relaxed) }
            }
        };
        Ok(Buffer::new(WgpuMemory::new(block, bytes, &self.pool)))
    }

    /// A new block.
    fn make(&self, size: usize, requested: usize) -> Result<wgpu::Buffer> {
        self.healthy()?;
        let fits = size as u64 <= self.limits.max_buffer_size.min(self.most_memory);
        self.in_turns(requested, if fits { MOST_TURNS } else { 0 }, || self.try_make(size))
    }

    /// A buffer, as soon as `make` has one; what is kept for reuse is given back where the device has no more. Other threads may keep more meanwhile, so
    /// that there are several turns.
    fn in_turns(
        &self,
        requested: usize,
        turns: usize,
        make: impl Fn() -> Option<wgpu::Buffer>,
    ) -> Result<wgpu::Buffer> {
        for turn in 0..turns {
            if let Some(buffer) = make() {
                return Ok(buffer);
            }
            self.healthy()?;
            if turn > 0 && self.pool.stats().cached == 0 {
                break;
            }
            self.give_back_kept()?;
        }
        let MemoryStats { in_use, cached, peak } = self.pool.stats();
        Err(Error::OutOfMemory { device: self.name.clone(), requested, in_use, cached, peak })
    }

    /// Frees all that is kept for reuse.
    pub(crate) fn release_cached(&self) -> Result<()> {
        self.healthy()?;
        self.give_back_kept()
    }

    /// Frees the blocks that are kept for reuse. What waits to be submitted may still use some, so that it is submitted first and nothing comes between.
    fn give_back_kept(&self) -> Result<()> {
        let mut batch = self.batch.lock();
        batch.submit_all(&self.device, &self.queue, &self.errors);
        batch.groups.clear();
        batch.staging = None;
        drop(self.pool.flush());
        drop(batch);
        self.poll()
    }

    fn try_make(&self, size: usize) -> Option<wgpu::Buffer> {
        self.pool.made(size, self.most_memory)?;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = self.create(None, size as u64, usage);
        match buffer {
            Some(_) => self.pool.reached(),
            None => self.pool.not_made(size),
        }
        buffer
    }

    /// A buffer, unless the device has no memory for it.
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

    /// The memory of a view as a shader sees it, and the view's first element there, in elements.
    ///
    /// # Errors
    /// More elements than shaders count.
    pub(crate) fn bind<'a>(&self, op: &'static str, view: &View<'a>) -> Result<(Binding<'a>, u32)> {
        let binding = Binding::of(memory_of(op, view.buffer)?, view, self.bound);
        let first = binding.first(view).ok_or_else(|| uncountable(op, view))?;
        Ok((binding, first))
    }

    /// Whether a shader sees a view in one binding, and can count its elements.
    pub(crate) fn fits(&self, op: &'static str, view: &View<'_>) -> Result<bool> {
        let binding = Binding::of(memory_of(op, view.buffer)?, view, self.bound);
        Ok(binding.count(self.bound) == 1 && binding.first(view).is_some())
    }

    /// Bindings that a shader may have.
    pub(crate) fn most_bindings(&self) -> usize {
        self.bound.count
    }

    /// Whether a shader sees all of it in one binding.
    pub(crate) fn is_one_binding(&self, binding: &Binding<'_>) -> bool {
        binding.count(self.bound) == 1
    }

    // ---- Commands

    /// Queues a shader. The first word of its parameters, `launched`, is written here: how many work groups were asked for, to which folding may add some.
    pub(crate) fn launch(&self, op: &'static str, launch: Launch<'_>, parameters: &[u8]) -> Result<()> {
        if launch.groups == 0 {
            return Ok(());
        }
        self.healthy()?;
        debug_assert!(parameters.len() <= MOST_PARAMETERS, "{op}: {} bytes of parameters", parameters.len());
        let Launch { mut variant, bindings, groups } = launch;
        share(&mut variant, &bindings);
        let bindings = windowed(&mut variant.slots, bindings, self.bound);
        within_count(op, &self.name, &bindings, self.bound)?;
        let pipeline = self
            .pipelines
            .get(&self.device, &variant)
            .map_err(|detail| Error::invalid(op, format!("its shader was refused: {detail}")))?;
        #[cfg(test)]
        if crate::record::folder().is_some() {
            let text = self.pipelines.linked(&variant).expect("it was compiled");
            crate::record::launched(op, groups, &text, parameters);
        }
        #[cfg(feature = "noop")]
        self.launched.lock().extend(self.pipelines.linked(&variant).map(|text| crate::noop::Launched {
            op,
            call: self.calls.load(Ordering::Relaxed),
            path: variant.shader.path(),
            text,
        }));
        let folded = self.folded(op, groups)?;
        self.launches.fetch_add(1, Ordering::Relaxed);
        let mut batch = self.batch.lock();
        let offset =
            batch.push_parameters(parameters, self.limits.min_uniform_buffer_offset_alignment as usize);
        batch.parameters[offset as usize..][..4].copy_from_slice(&(groups as u32).to_ne_bytes());
        let group = batch.group(&self.device, &pipeline, &bindings, self.bound);
        if variant.slots.iter().any(|slot| slot.name == faults::SLOT) {
            batch.faults.expect();
        }
        let pass = batch.pass(&self.device);
        pass.set_pipeline(&pipeline.compiled);
        pass.set_bind_group(0, &group, &[offset]);
        pass.dispatch_workgroups(folded[0], folded[1], 1);
        batch.launches += 1;
        let full = batch.launches >= MOST_LAUNCHES
            || batch.parameters.len() + 2 * MOST_PARAMETERS > batch.ring.size() as usize;
        if full || batch.since.elapsed() >= LONGEST_WAIT {
            batch.submit(&self.device, &self.queue, &self.errors);
        } else if batch.launches == 1 {
            self.flush_thread.begun();
        }
        Ok(())
    }

    /// Launches that wait to be handed over.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.batch.lock().launches
    }

    #[cfg(test)]
    pub(crate) fn flush_thread(&self) -> &FlushThread {
        &self.flush_thread
    }

    /// Hands what is queued to the device, which begins while the host queues more.
    pub(crate) fn hand_over(&self) {
        self.batch.lock().submit(&self.device, &self.queue, &self.errors);
    }

    /// So many groups as two dimensions, the first as long as it may be.
    fn folded(&self, op: &'static str, groups: usize) -> Result<[u32; 2]> {
        let most = self.limits.max_compute_workgroups_per_dimension as usize;
        if groups <= most {
            return Ok([groups as u32, 1]);
        }
        let lines = groups.div_ceil(most);
        if lines > most || groups >= 1 << 31 {
            return Err(Error::invalid(op, format!("{groups} work groups are more than a launch takes")));
        }
        Ok([groups.div_ceil(lines) as u32, lines as u32])
    }

    /// The number under which a shader notes indices that are not below `size`.
    pub(crate) fn fault_number(&self, op: &'static str, size: usize) -> u32 {
        self.batch.lock().faults.number(ternion_core::backend::index_teller(op), size)
    }

    /// The record of such indices, to be bound.
    pub(crate) fn record(&self) -> Binding<'_> {
        Binding::whole(&self.record)
    }

    /// Memory of an op's own, to be bound: what was asked for, in whole vec4. The block is larger, and may take a second binding where these bytes take one.
    pub(crate) fn scratch<'a>(&self, op: &'static str, buffer: &'a Buffer) -> Result<Binding<'a>> {
        let memory = memory_of(op, buffer)?;
        Ok(Binding { memory, start: 0, bytes: memory.size_bytes().max(1).next_multiple_of(16) as u64 })
    }

    /// Looks at the record of indices out of range, if a shader may have written one.
    fn check_faults(&self) -> Result<()> {
        if !self.batch.lock().faults.take_expected() {
            return Ok(());
        }
        let mut words = [0u32; faults::WORDS];
        let length = size_of_val(&words) as u64;
        let record = StagingSlice { from: self.record.buffer(), offset: 0, length };
        // A record that could not be read is looked at again.
        let noted = self.read(&[record], true).inspect_err(|_| self.batch.lock().faults.expect())?;
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(&noted);
        self.batch.lock().faults.read(words).map_or(Ok(()), Err)
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.finish()?;
        self.check_faults()
    }

    /// Hands everything to the device and waits until it is done.
    fn finish(&self) -> Result<()> {
        self.batch.lock().submit_all(&self.device, &self.queue, &self.errors);
        self.poll()
    }

    /// Waits until the device has done what was submitted.
    fn poll(&self) -> Result<()> {
        let waited = self.errors.wait(&self.device);
        waited.map_err(|detail| self.error(detail))
    }
}

impl Flush for Gpu {
    fn flush_overdue(&self, asleep: &AtomicBool) {
        let mut batch = self.batch.lock();
        if batch.launches == 0 {
            asleep.store(true, Ordering::Release);
        } else if batch.since.elapsed() >= LONGEST_WAIT {
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

/// The record of indices out of range, of zeros.
fn record(device: &wgpu::Device) -> WgpuMemory {
    WgpuMemory::of_buffer(device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("faults"),
        size: (faults::WORDS * 4) as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    }))
}

/// Slots that read memory which the same launch writes are bound as written memory is.
fn share(variant: &mut Variant, bindings: &[Binding<'_>]) {
    debug_assert_eq!(variant.slots.len(), bindings.len(), "{variant:?}");
    let written: SmallVec<[u64; 4]> = variant
        .slots
        .iter()
        .zip(bindings)
        .filter(|(slot, _)| slot.access.writes())
        .map(|(_, binding)| binding.memory.number())
        .collect();
    for (slot, binding) in variant.slots.iter_mut().zip(bindings) {
        if !written.contains(&binding.memory.number()) {
            continue;
        }
        slot.access = match slot.access {
            Access::Read => Access::Shared,
            Access::Vec4 => Access::Vec4Written,
            other => other,
        };
    }
}

/// Whether an adapter is a program that runs on the processor.
fn is_software(info: &wgpu::AdapterInfo) -> bool {
    info.device_type == wgpu::DeviceType::Cpu
}

/// Threads of a subgroup, where all have so many: then they are neighbours in the work group.
fn subgroup_size(info: &wgpu::AdapterInfo) -> Option<u32> {
    let size = info.subgroup_min_size;
    (size == info.subgroup_max_size && size.is_power_of_two() && (4..=128).contains(&size)).then_some(size)
}

/// Whether an adapter has cooperative matrices as matmul_cooperative.wgsl takes them.
fn has_cooperative_f16(adapter: &wgpu::Adapter) -> bool {
    let (info, features) = (adapter.get_info(), adapter.features());
    let has = |feature| features.contains(feature);
    has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && has(wgpu::Features::SHADER_F16)
        // A subgroup is 32 threads with numbers behind one another.
        && (info.subgroup_min_size, info.subgroup_max_size) == (32, 32)
        && adapter.cooperative_matrix_properties().iter().any(|matrix| {
            (matrix.m_size, matrix.n_size, matrix.k_size) == (16, 16, 16)
                && (matrix.ab_type, matrix.cr_type)
                    == (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32)
        })
}
