//! An open device: memory, the commands that wait to be submitted, and the way back to the host.

use crate::adapters::{adapter, describe};
use crate::faults::{self, Faults};
use crate::pipelines::{MOST_PARAMETERS, Pipeline, Pipelines, Variant};
use crate::pool::{Block, Pool, block_size};
use crate::slots::Access;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use ternion_core::backend::{Buffer, Memory, MemoryStats, View};
use ternion_core::{Error, Result};

/// Launches of a batch: a submission costs as much as a few dozen of them.
const MOST_LAUNCHES: usize = 256;

/// A batch is submitted when its oldest launch has waited so long.
const LONGEST_WAIT: Duration = Duration::from_millis(1);

/// Groups of bindings that are kept for launches with the same memory.
const MOST_GROUPS: usize = 4096;

/// What must be equal for an offset of a copy or a binding.
const COPY_ALIGNMENT: u64 = wgpu::COPY_BUFFER_ALIGNMENT;

/// A device of wgpu's, with all that belongs to it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) limits: wgpu::Limits,
    pub(crate) subgroups: bool,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pool: Pool,
    pipelines: Pipelines,
    batch: Mutex<Batch>,
    /// What wgpu told outside any call: the device was lost, or a command was refused.
    troubles: Arc<Mutex<Option<String>>>,
    launches: AtomicU64,
    /// Blocks that were made.
    blocks: AtomicU64,
    /// Where shaders note indices that are out of range.
    record: WgpuMemory,
}

/// Commands that wait to be submitted.
#[derive(Debug)]
struct Batch {
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    /// Parameters of its launches; they are written to `ring` when it is submitted.
    parameters: Vec<u8>,
    ring: wgpu::Buffer,
    staging: Option<wgpu::Buffer>,
    faults: Faults,
    launches: usize,
    since: Instant,
    groups: FxHashMap<GroupKey, wgpu::BindGroup>,
}

/// The layout of a group and the memory that is bound: buffers by their numbers, and from where.
type GroupKey = (usize, SmallVec<[(u64, u64); 6]>);

/// Memory of the pool.
#[derive(Debug)]
pub(crate) struct WgpuMemory {
    block: Option<Block>,
    bytes: usize,
    version: AtomicU64,
    gpu: Weak<Gpu>,
}

impl WgpuMemory {
    fn block(&self) -> &Block {
        self.block.as_ref().expect("there until it is dropped")
    }

    fn buffer(&self) -> &wgpu::Buffer {
        &self.block().buffer
    }

    fn number(&self) -> u64 {
        self.block().number
    }
}

impl Memory for WgpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
}

impl Drop for WgpuMemory {
    fn drop(&mut self) {
        if let (Some(block), Some(gpu)) = (self.block.take(), self.gpu.upgrade()) {
            gpu.pool.give_back(block);
        }
    }
}

/// Memory as a shader sees it: a buffer from a byte on.
#[derive(Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) memory: &'a WgpuMemory,
    /// The first byte that is bound.
    start: u64,
}

/// What is queued: a shader, what is bound to it, its parameters, and how many work groups.
pub(crate) struct Launch<'a> {
    pub(crate) variant: Variant,
    pub(crate) bindings: SmallVec<[Binding<'a>; 6]>,
    pub(crate) groups: usize,
}

impl Gpu {
    /// Opens the adapter with this index, with all that it offers.
    pub(crate) fn open(index: usize) -> Result<Arc<Gpu>> {
        let adapter = adapter(index)?;
        let name = format!("wgpu:{index}");
        let wanted = wgpu::Features::SUBGROUP | wgpu::Features::SHADER_F16 | wgpu::Features::TIMESTAMP_QUERY;
        let features = adapter.features() & wanted;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("ternion"),
            required_features: features,
            required_limits: adapter.limits(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..Default::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|error| Error::Device { device: name.clone(), detail: format!("was not opened: {error}") })?;
        let troubles = Arc::new(Mutex::new(None));
        watch(&device, &troubles);
        let about = describe(index, adapter);
        let batch = Batch::new(&device);
        let record = record(&device);
        Ok(Arc::new(Gpu {
            description: format!("{}, {} ({})", about.name, about.interface, about.driver),
            limits: device.limits(),
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            name,
            device,
            queue,
            pool: Pool::default(),
            pipelines: Pipelines::default(),
            batch: Mutex::new(batch),
            troubles,
            launches: AtomicU64::new(0),
            blocks: AtomicU64::new(1),
            record,
        }))
    }

    /// Shaders that were launched so far.
    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    fn error(&self, detail: impl Into<String>) -> Error {
        Error::Device { device: self.name.clone(), detail: detail.into() }
    }

    /// What wgpu told outside any call, once.
    fn troubled(&self) -> Result<()> {
        match self.troubles.lock().take() {
            Some(detail) => Err(self.error(detail)),
            None => Ok(()),
        }
    }

    // ---- Memory

    pub(crate) fn alloc(self: &Arc<Gpu>, bytes: usize) -> Result<Buffer> {
        let size = block_size(bytes);
        let block = match self.pool.take(size) {
            Some(block) => block,
            None => Block { buffer: self.make(size, bytes)?, number: self.blocks.fetch_add(1, Ordering::Relaxed) },
        };
        let (version, gpu) = (AtomicU64::new(0), Arc::downgrade(self));
        Ok(Buffer::new(WgpuMemory { block: Some(block), bytes, version, gpu }))
    }

    /// A new block; what is kept for reuse is given back where the device has no more.
    fn make(&self, size: usize, requested: usize) -> Result<wgpu::Buffer> {
        let fits = size as u64 <= self.limits.max_buffer_size;
        for again in [false, true] {
            if again {
                self.synchronize()?;
                self.batch.lock().groups.clear();
                self.pool.flush().iter().for_each(|block| block.buffer.destroy());
                let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
            }
            if let Some(buffer) = if fits { self.try_make(size) } else { None } {
                self.pool.made(size);
                return Ok(buffer);
            }
        }
        let MemoryStats { in_use, cached, peak } = self.pool.stats();
        Err(Error::OutOfMemory { device: self.name.clone(), requested, in_use, cached, peak })
    }

    fn try_make(&self, size: usize) -> Option<wgpu::Buffer> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: size as u64,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        pollster::block_on(scope.pop()).is_none().then_some(buffer)
    }

    pub(crate) fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    /// The memory of a view as a shader sees it, and the view's first element there, in elements.
    pub(crate) fn bind<'a>(&self, op: &'static str, view: &View<'a>) -> Result<(Binding<'a>, u32)> {
        let memory = memory_of(op, view.buffer)?;
        let most = self.limits.max_storage_buffer_binding_size;
        let offset = view.layout.offset();
        if memory.buffer().size() <= most {
            return Ok((Binding { memory, start: 0 }, offset as u32));
        }
        // Only a part can be seen at a time: that which holds the view.
        let (low, high) = view.layout.bounds().unwrap_or((0, 0));
        let size = view.dtype.size();
        let step = u64::from(self.limits.min_storage_buffer_offset_alignment).max(8);
        let start = (low * size) as u64 / step * step;
        if ((high + 1) * size) as u64 - start > most {
            return Err(Error::invalid(
                op,
                format!("a tensor over {} bytes; {} binds at most {most} at a time", (high + 1 - low) * size, self.name),
            ));
        }
        Ok((Binding { memory, start }, (offset - start as usize / size) as u32))
    }

    /// Whether a view can be seen whole by a shader.
    pub(crate) fn fits(&self, view: &View<'_>) -> bool {
        let most = self.limits.max_storage_buffer_binding_size as usize;
        let (low, high) = view.layout.bounds().unwrap_or((0, 0));
        view.buffer.bytes() + (view.buffer.bytes() >> 3) <= most || (high + 1 - low) * view.dtype.size() + 512 <= most
    }

    // ---- Commands

    /// Queues a shader.
    pub(crate) fn launch(&self, op: &'static str, launch: Launch<'_>, parameters: &[u8]) -> Result<()> {
        if launch.groups == 0 {
            return Ok(());
        }
        debug_assert!(parameters.len() <= MOST_PARAMETERS, "{op}: {} bytes of parameters", parameters.len());
        let Launch { mut variant, bindings, groups } = launch;
        share(&mut variant, &bindings);
        let pipeline = self
            .pipelines
            .get(&self.device, &variant)
            .map_err(|detail| Error::invalid(op, format!("its shader was refused: {detail}")))?;
        let folded = self.folded(op, groups)?;
        self.launches.fetch_add(1, Ordering::Relaxed);
        let mut batch = self.batch.lock();
        let offset = batch.push_parameters(parameters, self.limits.min_uniform_buffer_offset_alignment as usize);
        let group = batch.group(&self.device, &pipeline, &bindings, self.limits.max_storage_buffer_binding_size);
        let pass = batch.pass(&self.device);
        pass.set_pipeline(&pipeline.compiled);
        pass.set_bind_group(0, &group, &[offset]);
        pass.dispatch_workgroups(folded[0], folded[1], 1);
        batch.launches += 1;
        let full = batch.launches >= MOST_LAUNCHES || batch.parameters.len() + 2 * MOST_PARAMETERS > batch.ring.size() as usize;
        if full || batch.since.elapsed() >= LONGEST_WAIT {
            batch.submit(&self.device, &self.queue);
        }
        Ok(())
    }

    /// So many groups as two dimensions, the first as long as it may be.
    fn folded(&self, op: &'static str, groups: usize) -> Result<[u32; 2]> {
        let most = self.limits.max_compute_workgroups_per_dimension as usize;
        if groups <= most {
            return Ok([groups as u32, 1]);
        }
        let lines = groups.div_ceil(most);
        if lines > most {
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
        Binding { memory: &self.record, start: 0 }
    }

    /// Memory of an op's own, to be bound.
    pub(crate) fn scratch<'a>(&self, op: &'static str, buffer: &'a Buffer) -> Result<Binding<'a>> {
        Ok(Binding { memory: memory_of(op, buffer)?, start: 0 })
    }

    pub(crate) fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        let memory = within("upload", to, offset_bytes, host.len())?;
        if host.is_empty() {
            return Ok(());
        }
        self.batch.lock().submit(&self.device, &self.queue);
        let (begin, end) = (offset_bytes as u64, (offset_bytes + host.len()) as u64);
        let (first, last) = (begin / COPY_ALIGNMENT * COPY_ALIGNMENT, end.next_multiple_of(COPY_ALIGNMENT));
        if (first, last) == (begin, end) {
            self.queue.write_buffer(memory.buffer(), begin, host);
            return self.troubled();
        }
        // Words of which only a part is written keep the rest.
        let mut words = vec![0; (last - first) as usize];
        self.read(memory.buffer(), first, &mut words[..COPY_ALIGNMENT as usize], false)?;
        let behind = words.len() - COPY_ALIGNMENT as usize;
        self.read(memory.buffer(), last - COPY_ALIGNMENT, &mut words[behind..], false)?;
        words[(begin - first) as usize..][..host.len()].copy_from_slice(host);
        self.queue.write_buffer(memory.buffer(), first, &words);
        self.troubled()
    }

    pub(crate) fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        let memory = within("download", from, offset_bytes, host.len())?;
        self.check_faults()?;
        if host.is_empty() {
            return Ok(());
        }
        let (begin, end) = (offset_bytes as u64, (offset_bytes + host.len()) as u64);
        let first = begin / COPY_ALIGNMENT * COPY_ALIGNMENT;
        let mut words = vec![0; (end.next_multiple_of(COPY_ALIGNMENT) - first) as usize];
        self.read(memory.buffer(), first, &mut words, false)?;
        host.copy_from_slice(&words[(begin - first) as usize..][..host.len()]);
        Ok(())
    }

    /// Waits for what was queued and copies bytes to the host; offset and length are multiples of a word. With `clear` they are zeros afterwards,
    /// before whatever is queued later.
    fn read(&self, from: &wgpu::Buffer, offset: u64, host: &mut [u8], clear: bool) -> Result<()> {
        let length = host.len() as u64;
        let mut batch = self.batch.lock();
        let staging = batch.take_staging(&self.device, length);
        let copies = batch.copies(&self.device);
        copies.copy_buffer_to_buffer(from, offset, &staging, 0, Some(length));
        if clear {
            copies.clear_buffer(from, offset, Some(length));
        }
        batch.submit(&self.device, &self.queue);
        drop(batch);
        let (told, heard) = std::sync::mpsc::channel();
        staging.slice(..length).map_async(wgpu::MapMode::Read, move |result| {
            let _ = told.send(result);
        });
        // The answer may reach the poll of another thread, which passes it on a moment later.
        let answer = loop {
            self.poll()?;
            match heard.recv_timeout(Duration::from_millis(1)) {
                Err(RecvTimeoutError::Timeout) => {}
                answer => break answer,
            }
        };
        if !matches!(answer, Ok(Ok(()))) {
            return Err(self.error(format!("memory could not be read: {answer:?}")));
        }
        let mapped = staging.slice(..length).get_mapped_range().map_err(|error| self.error(error.to_string()))?;
        host.copy_from_slice(&mapped);
        drop(mapped);
        staging.unmap();
        self.batch.lock().staging = Some(staging);
        Ok(())
    }

    /// Looks at the record of indices out of range, if a shader may have written one.
    fn check_faults(&self) -> Result<()> {
        let mut batch = self.batch.lock();
        if !batch.faults.expected() {
            return Ok(());
        }
        let mut launched = std::mem::take(&mut batch.faults);
        drop(batch);
        let mut words = [0u32; faults::WORDS];
        self.read(self.record.buffer(), 0, bytemuck::cast_slice_mut(&mut words), true)?;
        launched.read(words).map_or(Ok(()), Err)
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.batch.lock().submit(&self.device, &self.queue);
        self.poll()?;
        self.check_faults()
    }

    /// Waits until the device has done what was submitted.
    fn poll(&self) -> Result<()> {
        let waited = self.device.poll(wgpu::PollType::wait_indefinitely());
        waited.map_err(|error| self.error(format!("waiting failed: {error}")))?;
        self.troubled()
    }
}

/// Notes what wgpu tells outside any call.
fn watch(device: &wgpu::Device, troubles: &Arc<Mutex<Option<String>>>) {
    let refused = troubles.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        refused.lock().get_or_insert_with(|| error.to_string());
    }));
    let lost = troubles.clone();
    device.set_device_lost_callback(move |reason, message| {
        if reason != wgpu::DeviceLostReason::Destroyed {
            lost.lock().get_or_insert_with(|| format!("was lost: {message}"));
        }
    });
}

/// The record of indices out of range, of zeros.
fn record(device: &wgpu::Device) -> WgpuMemory {
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("faults"),
        size: (faults::WORDS * 4) as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    WgpuMemory { block: Some(Block { buffer, number: 0 }), bytes: faults::WORDS * 4, version: AtomicU64::new(0), gpu: Weak::new() }
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
        if slot.access == Access::Read && written.contains(&binding.memory.number()) {
            slot.access = Access::Shared;
        }
    }
}

/// The memory behind `buffer`.
pub(crate) fn memory_of<'a>(op: &'static str, buffer: &'a Buffer) -> Result<&'a WgpuMemory> {
    buffer.downcast().ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))
}

/// The memory behind `buffer`, in which `length` bytes from `offset_bytes` on must fit.
fn within<'a>(op: &'static str, buffer: &'a Buffer, offset_bytes: usize, length: usize) -> Result<&'a WgpuMemory> {
    let memory = memory_of(op, buffer)?;
    match offset_bytes.checked_add(length) {
        Some(end) if end <= memory.bytes => Ok(memory),
        _ => Err(Error::invalid(
            op,
            format!("{length} bytes from byte {offset_bytes} on, in a buffer of {} bytes", memory.bytes),
        )),
    }
}

impl Batch {
    fn new(device: &wgpu::Device) -> Batch {
        let ring = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: ((MOST_LAUNCHES + 2) * MOST_PARAMETERS) as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Batch {
            encoder: None,
            pass: None,
            parameters: Vec::new(),
            ring,
            staging: None,
            faults: Faults::default(),
            launches: 0,
            since: Instant::now(),
            groups: FxHashMap::default(),
        }
    }

    /// Where these parameters will lie.
    fn push_parameters(&mut self, parameters: &[u8], alignment: usize) -> u32 {
        let offset = self.parameters.len().next_multiple_of(alignment);
        self.parameters.resize(offset, 0);
        self.parameters.extend_from_slice(parameters);
        offset as u32
    }

    /// The pass that launches go into.
    fn pass(&mut self, device: &wgpu::Device) -> &mut wgpu::ComputePass<'static> {
        if self.launches == 0 {
            self.since = Instant::now();
        }
        let encoder = self.encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()));
        self.pass.get_or_insert_with(|| encoder.begin_compute_pass(&Default::default()).forget_lifetime())
    }

    /// The encoder for copies, behind the launches so far.
    fn copies(&mut self, device: &wgpu::Device) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()))
    }

    /// Hands everything to the device.
    fn submit(&mut self, device: &wgpu::Device, queue: &wgpu::Queue) {
        self.pass = None;
        let Some(encoder) = self.encoder.take() else { return };
        if !self.parameters.is_empty() {
            self.parameters.resize(self.parameters.len().next_multiple_of(COPY_ALIGNMENT as usize), 0);
            queue.write_buffer(&self.ring, 0, &self.parameters);
            self.parameters.clear();
        }
        queue.submit([encoder.finish()]);
        // Frees what finished submissions held.
        let _ = device.poll(wgpu::PollType::Poll);
        self.launches = 0;
    }

    /// A buffer that the host can read, of so many bytes at least.
    fn take_staging(&mut self, device: &wgpu::Device, bytes: u64) -> wgpu::Buffer {
        self.staging.take().filter(|staging| staging.size() >= bytes).unwrap_or_else(|| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("download"),
                size: bytes.next_power_of_two().max(1 << 12),
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })
    }

    fn group(&mut self, device: &wgpu::Device, pipeline: &Pipeline, bindings: &[Binding<'_>], most: u64) -> wgpu::BindGroup {
        let key: GroupKey = (
            Arc::as_ptr(&pipeline.layout).addr(),
            bindings.iter().map(|binding| (binding.memory.number(), binding.start)).collect(),
        );
        if let Some(group) = self.groups.get(&key) {
            return group.clone();
        }
        let parameters = wgpu::BufferBinding { buffer: &self.ring, offset: 0, size: wgpu::BufferSize::new(MOST_PARAMETERS as u64) };
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(parameters) }];
        for (at, binding) in bindings.iter().enumerate() {
            let buffer = binding.memory.buffer();
            let size = (buffer.size() - binding.start).min(most / 4 * 4);
            let part = wgpu::BufferBinding { buffer, offset: binding.start, size: wgpu::BufferSize::new(size) };
            entries.push(wgpu::BindGroupEntry { binding: at as u32 + 1, resource: wgpu::BindingResource::Buffer(part) });
        }
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &pipeline.layout.group, entries: &entries });
        if self.groups.len() >= MOST_GROUPS {
            self.groups.clear();
        }
        self.groups.insert(key, group.clone());
        group
    }
}
