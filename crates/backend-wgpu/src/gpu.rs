//! An open device: memory, the commands that wait to be submitted, and the way back to the host.

use crate::adapters::{adapter, describe};
use crate::batch::{Batch, COPY_ALIGNMENT, LONGEST_WAIT, MOST_LAUNCHES};
use crate::faults;
use crate::pipelines::{MOST_PARAMETERS, Pipelines, Variant};
use crate::pool::{Block, Pool, block_size};
use crate::slots::Access;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::Duration;
use ternion_core::backend::{Buffer, Download, Memory, MemoryStats, View};
use ternion_core::{Error, Result};

/// Bytes of several downloads that wait once: more of them gain nothing by it.
const MOST_JOINED: u64 = 1 << 24;

/// A device of wgpu's, with all that belongs to it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) limits: wgpu::Limits,
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

    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.block().buffer
    }

    pub(crate) fn number(&self) -> u64 {
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
    pub(crate) start: u64,
}

/// Words to be read: offset and length are multiples of [`COPY_ALIGNMENT`].
#[derive(Clone, Copy)]
struct Place<'a> {
    from: &'a wgpu::Buffer,
    offset: u64,
    length: u64,
}

impl<'a> Place<'a> {
    /// The words that a download needs; none for no bytes.
    fn of(memory: &'a WgpuMemory, part: &Download<'_>) -> Place<'a> {
        let (begin, bytes) = (part.offset_bytes as u64, part.host.len() as u64);
        let offset = begin / COPY_ALIGNMENT * COPY_ALIGNMENT;
        let end = if bytes == 0 { offset } else { (begin + bytes).next_multiple_of(COPY_ALIGNMENT) };
        Place { from: memory.buffer(), offset, length: end - offset }
    }
}

/// How many of the first places are read together: one at least, and no more than take a buffer of [`MOST_JOINED`] bytes.
fn joined(places: &[Place<'_>]) -> usize {
    let mut bytes = 0;
    let small = places.iter().take_while(|place| {
        bytes += place.length;
        bytes <= MOST_JOINED
    });
    small.count().max(1)
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
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
            Error::Device { device: name.clone(), detail: format!("was not opened: {error}") }
        })?;
        let about = describe(index, adapter);
        let description = format!("{}, {} ({})", about.name, about.interface, about.driver);
        Ok(Gpu::on(device, queue, name, description))
    }

    /// All that belongs to an opened device.
    fn on(device: wgpu::Device, queue: wgpu::Queue, name: String, description: String) -> Arc<Gpu> {
        let troubles = Arc::new(Mutex::new(None));
        watch(&device, &troubles);
        Arc::new(Gpu {
            description,
            limits: device.limits(),
            name,
            batch: Mutex::new(Batch::new(&device)),
            record: record(&device),
            device,
            queue,
            pool: Pool::default(),
            pipelines: Pipelines::default(),
            troubles,
            launches: AtomicU64::new(0),
            blocks: AtomicU64::new(1),
        })
    }

    /// A device that validates shaders and runs none.
    #[cfg(test)]
    pub(crate) fn noop() -> Arc<Gpu> {
        let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor::default());
        Gpu::on(device, queue, "noop".into(), "nothing".into())
    }

    /// Shaders that were compiled, and what was said of those that were refused.
    #[cfg(test)]
    pub(crate) fn compiled(&self) -> (usize, Vec<String>) {
        self.pipelines.compiled()
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
            None => {
                Block { buffer: self.make(size, bytes)?, number: self.blocks.fetch_add(1, Ordering::Relaxed) }
            }
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

    /// The byte from which on a shader sees a view's memory: all of it, or the part that holds the view. `None` where the view is larger than a binding.
    fn window(&self, memory: &WgpuMemory, view: &View<'_>) -> Option<u64> {
        let most = self.limits.max_storage_buffer_binding_size;
        if memory.buffer().size() <= most {
            return Some(0);
        }
        let (low, high) = view.layout.bounds()?;
        let size = view.dtype.size();
        let step = u64::from(self.limits.min_storage_buffer_offset_alignment).max(8);
        let start = (low * size) as u64 / step * step;
        (((high + 1) * size) as u64 - start <= most).then_some(start)
    }

    /// The memory of a view as a shader sees it, and the view's first element there, in elements.
    pub(crate) fn bind<'a>(&self, op: &'static str, view: &View<'a>) -> Result<(Binding<'a>, u32)> {
        let memory = memory_of(op, view.buffer)?;
        let start = self.window(memory, view).ok_or_else(|| {
            let (low, high) = view.layout.bounds().unwrap_or((0, 0));
            let (bytes, most) =
                ((high + 1 - low) * view.dtype.size(), self.limits.max_storage_buffer_binding_size);
            Error::invalid(
                op,
                format!("a tensor over {bytes} bytes; {} binds at most {most} at a time", self.name),
            )
        })?;
        Ok((Binding { memory, start }, (view.layout.offset() - start as usize / view.dtype.size()) as u32))
    }

    /// Whether a shader sees a view whole.
    pub(crate) fn fits(&self, op: &'static str, view: &View<'_>) -> Result<bool> {
        Ok(self.window(memory_of(op, view.buffer)?, view).is_some())
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
        let offset =
            batch.push_parameters(parameters, self.limits.min_uniform_buffer_offset_alignment as usize);
        let group =
            batch.group(&self.device, &pipeline, &bindings, self.limits.max_storage_buffer_binding_size);
        let pass = batch.pass(&self.device);
        pass.set_pipeline(&pipeline.compiled);
        pass.set_bind_group(0, &group, &[offset]);
        pass.dispatch_workgroups(folded[0], folded[1], 1);
        batch.launches += 1;
        let full = batch.launches >= MOST_LAUNCHES
            || batch.parameters.len() + 2 * MOST_PARAMETERS > batch.ring.size() as usize;
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
        let word = |offset| Place { from: memory.buffer(), offset, length: COPY_ALIGNMENT };
        let ends = self.read(&[word(first), word(last - COPY_ALIGNMENT)], false)?;
        let behind = words.len() - COPY_ALIGNMENT as usize;
        words[..COPY_ALIGNMENT as usize].copy_from_slice(&ends[..COPY_ALIGNMENT as usize]);
        words[behind..].copy_from_slice(&ends[COPY_ALIGNMENT as usize..]);
        words[(begin - first) as usize..][..host.len()].copy_from_slice(host);
        self.queue.write_buffer(memory.buffer(), first, &words);
        self.troubled()
    }

    pub(crate) fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        self.download_all(&mut [Download { from, offset_bytes, host }])
    }

    /// Copies the bytes of all parts to the host, and waits once for those that fit one buffer together.
    pub(crate) fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        let mut places = Vec::with_capacity(parts.len());
        for part in &*parts {
            places.push(Place::of(within("download", part.from, part.offset_bytes, part.host.len())?, part));
        }
        self.check_faults()?;
        let mut begin = 0;
        while begin < parts.len() {
            let fits = joined(&places[begin..]);
            let words = self.read(&places[begin..begin + fits], false)?;
            let mut from = 0;
            for (place, part) in places[begin..begin + fits].iter().zip(&mut parts[begin..begin + fits]) {
                let first = from + part.offset_bytes - place.offset as usize;
                if part.host.is_empty() {
                    continue;
                }
                part.host.copy_from_slice(&words[first..first + part.host.len()]);
                from += place.length as usize;
            }
            begin += fits;
        }
        Ok(())
    }

    /// Waits for what was queued and copies words to the host, place after place. With `clear` they are zeros afterwards, before whatever is queued later.
    fn read(&self, places: &[Place<'_>], clear: bool) -> Result<Vec<u8>> {
        let length = places.iter().map(|place| place.length).sum::<u64>();
        if length == 0 {
            return Ok(Vec::new());
        }
        let mut batch = self.batch.lock();
        let staging = batch.take_staging(&self.device, length);
        let copies = batch.copies(&self.device);
        let mut to = 0;
        for place in places.iter().filter(|place| place.length > 0) {
            let Place { from, offset, length } = *place;
            copies.copy_buffer_to_buffer(from, offset, &staging, to, Some(length));
            if clear {
                copies.clear_buffer(from, offset, Some(length));
            }
            to += length;
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
        let mapped =
            staging.slice(..length).get_mapped_range().map_err(|error| self.error(error.to_string()))?;
        let words = mapped.to_vec();
        drop(mapped);
        staging.unmap();
        self.batch.lock().staging = Some(staging);
        Ok(words)
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
        let length = size_of_val(&words) as u64;
        let noted = self.read(&[Place { from: self.record.buffer(), offset: 0, length }], true)?;
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(&noted);
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
    WgpuMemory {
        block: Some(Block { buffer, number: 0 }),
        bytes: faults::WORDS * 4,
        version: AtomicU64::new(0),
        gpu: Weak::new(),
    }
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
fn within<'a>(
    op: &'static str,
    buffer: &'a Buffer,
    offset_bytes: usize,
    length: usize,
) -> Result<&'a WgpuMemory> {
    let memory = memory_of(op, buffer)?;
    match offset_bytes.checked_add(length) {
        Some(end) if end <= memory.bytes => Ok(memory),
        _ => Err(Error::invalid(
            op,
            format!("{length} bytes from byte {offset_bytes} on, in a buffer of {} bytes", memory.bytes),
        )),
    }
}
