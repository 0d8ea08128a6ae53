//! Commands that wait to be submitted: launches in one pass, their parameters, and the bind groups
//! that they use.

use crate::binding::{Binding, Limits};
use crate::device_errors::DeviceErrors;
use crate::index_errors::IndexErrors;
use crate::pipelines::{MAX_PARAMETER_BYTES, Pipeline};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of launches in a batch. A submission costs as much as a few dozen launches.
pub(crate) const MAX_LAUNCHES: usize = 256;

/// A batch is submitted when its oldest launch has waited this long.
pub(crate) const MAX_BATCH_DELAY: Duration = Duration::from_millis(1);

/// Maximum number of bind groups that are cached for launches with the same memory.
pub(crate) const MAX_BIND_GROUPS: usize = 4096;

/// Alignment of the offset and size of a copy, in bytes.
pub(crate) const COPY_ALIGNMENT: u64 = wgpu::COPY_BUFFER_ALIGNMENT;

/// Commands that wait to be submitted.
#[derive(Debug)]
pub(crate) struct Batch {
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    /// Parameters of the launches of this batch. They are written to `parameter_buffer` when the
    /// batch is submitted.
    pub(crate) parameters: Vec<u8>,
    pub(crate) parameter_buffer: wgpu::Buffer,
    /// The staging buffer of the last download, which the next download reuses.
    pub(crate) staging: Option<wgpu::Buffer>,
    /// Bytes that were written since the last submission.
    written: u64,
    /// Bytes that were written and may still be in flight. wgpu keeps a copy of them until their
    /// submission is done.
    staged: Arc<AtomicU64>,
    pub(crate) index_errors: IndexErrors,
    /// Number of launches in the batch, and when the first of them was added.
    pub(crate) launches: usize,
    pub(crate) since: Instant,
    pub(crate) bind_groups: FxHashMap<BindGroupKey, wgpu::BindGroup>,
}

/// The layout of a bind group and the memory that is bound: for each binding the id of the
/// buffer, the offset, and the number of bytes.
type BindGroupKey = (usize, SmallVec<[(u64, u64, u64); 6]>);

impl Batch {
    pub(crate) fn new(device: &wgpu::Device) -> Batch {
        let parameter_buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: ((MAX_LAUNCHES + 2) * MAX_PARAMETER_BYTES) as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Batch {
            encoder: None,
            pass: None,
            parameters: Vec::new(),
            parameter_buffer,
            staging: None,
            written: 0,
            staged: Arc::default(),
            index_errors: IndexErrors::default(),
            launches: 0,
            since: Instant::now(),
            bind_groups: FxHashMap::default(),
        }
    }

    /// Appends the parameters of a launch and returns their offset in `parameter_buffer`.
    pub(crate) fn push_parameters(&mut self, parameters: &[u8], alignment: usize) -> u32 {
        let offset = self.parameters.len().next_multiple_of(alignment);
        self.parameters.resize(offset, 0);
        self.parameters.extend_from_slice(parameters);
        offset as u32
    }

    /// Returns the pass to which launches are added.
    pub(crate) fn pass(&mut self, device: &wgpu::Device) -> &mut wgpu::ComputePass<'static> {
        if self.launches == 0 {
            self.since = Instant::now();
        }
        let encoder = self.encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()));
        self.pass.get_or_insert_with(|| encoder.begin_compute_pass(&Default::default()).forget_lifetime())
    }

    /// Returns the encoder for copies, which run after the launches so far.
    pub(crate) fn copies(&mut self, device: &wgpu::Device) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()))
    }

    /// Counts bytes that were written through the queue. They are counted after the write: if
    /// another thread submits in between, they are counted for longer than they occupy memory,
    /// never for a shorter time.
    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.staged.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of bytes that were written since the last submission.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of written bytes that may still be in flight.
    pub(crate) fn staged(&self) -> u64 {
        self.staged.load(Ordering::Relaxed)
    }

    /// Submits everything to the device, even if there are only written bytes and no commands.
    pub(crate) fn submit_all(&mut self, device: &wgpu::Device, queue: &wgpu::Queue, errors: &DeviceErrors) {
        self.submit(device, queue, errors);
        if self.written > 0 {
            self.submit_commands(None, device, queue, errors);
        }
    }

    /// Submits launches and copies to the device, after the written bytes. Does nothing if there
    /// are no commands, so that small uploads are submitted together.
    pub(crate) fn submit(&mut self, device: &wgpu::Device, queue: &wgpu::Queue, errors: &DeviceErrors) {
        self.pass = None;
        let Some(encoder) = self.encoder.take() else { return };
        if !self.parameters.is_empty() {
            self.parameters.resize(self.parameters.len().next_multiple_of(COPY_ALIGNMENT as usize), 0);
            queue.write_buffer(&self.parameter_buffer, 0, &self.parameters);
            self.parameters.clear();
        }
        self.submit_commands(Some(encoder.finish()), device, queue, errors);
        self.launches = 0;
    }

    fn submit_commands(
        &mut self,
        commands: Option<wgpu::CommandBuffer>,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        errors: &DeviceErrors,
    ) {
        queue.submit(commands);
        let written = std::mem::take(&mut self.written);
        if written > 0 {
            let staged = self.staged.clone();
            queue.on_submitted_work_done(move || {
                staged.fetch_sub(written, Ordering::Relaxed);
            });
        }
        // Frees the resources of finished submissions. An error is returned by the next call.
        errors.free(device);
    }

    /// Returns the bind group of the parameters and these bindings, which is cached for later
    /// launches with the same memory.
    pub(crate) fn bind_group(
        &mut self,
        device: &wgpu::Device,
        pipeline: &Pipeline,
        bindings: &[Binding<'_>],
        limits: Limits,
    ) -> wgpu::BindGroup {
        let key: BindGroupKey = (
            Arc::as_ptr(&pipeline.layout).addr(),
            bindings.iter().map(|binding| (binding.memory.id(), binding.start, binding.bytes)).collect(),
        );
        if let Some(group) = self.bind_groups.get(&key) {
            return group.clone();
        }
        let parameters = wgpu::BufferBinding {
            buffer: &self.parameter_buffer,
            offset: 0,
            size: wgpu::BufferSize::new(MAX_PARAMETER_BYTES as u64),
        };
        let mut entries =
            vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(parameters) }];
        for window in bindings.iter().flat_map(|binding| binding.windows(limits)) {
            let binding = entries.len() as u32;
            entries.push(wgpu::BindGroupEntry { binding, resource: wgpu::BindingResource::Buffer(window) });
        }
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout.bind_group,
            entries: &entries,
        });
        if self.bind_groups.len() >= MAX_BIND_GROUPS {
            self.bind_groups.clear();
        }
        self.bind_groups.insert(key, group.clone());
        group
    }
}
