//! Time measurement on the device, and plain copies as a reference, for benchmarks.

use super::Gpu;
use super::transfers::{StagingSlice, within};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ternion_core::backend::Buffer;
use ternion_core::{Error, Result};

/// Two events in the queue of a device, and the time between them.
///
/// If the device has timestamps, it writes one at each event, when everything queued before the
/// event is done. Otherwise the host waits at both events and measures its own time: see
/// [`is_on_device`](Timer::is_on_device).
#[derive(Debug)]
pub struct Timer {
    gpu: Arc<Gpu>,
    events: Events,
}

#[derive(Debug)]
enum Events {
    Device(Timestamps),
    /// When the host reached the first event, and the time from then to the second event.
    Host(Mutex<(Option<Instant>, Option<Duration>)>),
}

/// Two timestamps of the device, and the memory from which they are read.
#[derive(Debug)]
struct Timestamps {
    queries: wgpu::QuerySet,
    /// The buffer to which the timestamps of `queries` are copied.
    resolved: wgpu::Buffer,
    nanoseconds_per_tick: f64,
    /// Which timestamps were requested. The host must not wait for one that was not requested.
    requested: Mutex<[bool; 2]>,
}

const BEGIN: u32 = 0;
const END: u32 = 1;

/// Size of two timestamps of 64 bits, in bytes.
const BYTES: usize = 16;

fn missing_event() -> Error {
    Error::invalid("timer", "expected calls of begin and end, one of them is missing")
}

impl Timer {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Timer {
        let events = match gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            true => Events::Device(Timestamps::new(&gpu.device, &gpu.queue)),
            false => Events::Host(Mutex::default()),
        };
        Timer { gpu: gpu.clone(), events }
    }

    /// Returns whether the times are measured on the device. If not, they are measured by the host
    /// and include the wait at the second event.
    pub fn is_on_device(&self) -> bool {
        matches!(self.events, Events::Device(_))
    }

    /// Queues the first event, after everything queued so far.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn begin(&self) -> Result<()> {
        match &self.events {
            Events::Device(timestamps) => {
                // Earlier commands are submitted separately: the device begins a submission after
                // the previous one has ended, whereas launches within one submission may overlap.
                self.gpu.batch.lock().submit_all(&self.gpu.device, &self.gpu.queue, &self.gpu.errors);
                timestamps.queue_event(&self.gpu, BEGIN);
                *timestamps.requested.lock() = [true, false];
            }
            Events::Host(times) => {
                self.wait()?;
                *times.lock() = (Some(Instant::now()), None);
            }
        }
        Ok(())
    }

    /// Queues the second event, after everything queued so far.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn end(&self) -> Result<()> {
        match &self.events {
            Events::Device(timestamps) => {
                timestamps.queue_event(&self.gpu, END);
                timestamps.requested.lock()[END as usize] = true;
            }
            Events::Host(times) => {
                self.wait()?;
                let mut times = times.lock();
                times.1 = times.0.map(|begun| begun.elapsed());
            }
        }
        Ok(())
    }

    /// Waits for the second event and returns the milliseconds between the events.
    ///
    /// # Errors
    /// A missing event; errors of the device.
    pub fn milliseconds(&self) -> Result<f64> {
        match &self.events {
            Events::Device(timestamps) => timestamps.milliseconds(&self.gpu),
            Events::Host(times) => {
                let elapsed = times.lock().1.ok_or_else(missing_event)?;
                Ok(elapsed.as_secs_f64() * 1e3)
            }
        }
    }

    fn wait(&self) -> Result<()> {
        self.gpu.finish()
    }
}

impl Timestamps {
    fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Timestamps {
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("timer"),
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let resolved = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("timer"),
            size: BYTES as u64,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let nanoseconds_per_tick = f64::from(queue.get_timestamp_period());
        Timestamps { queries, resolved, nanoseconds_per_tick, requested: Mutex::default() }
    }

    /// Queues event `index`: an empty pass that writes the timestamp where it begins. Timestamps
    /// can be written only where a pass begins or ends.
    fn queue_event(&self, gpu: &Gpu, index: u32) {
        let mut batch = gpu.batch.lock();
        let encoder = batch.copies(&gpu.device);
        drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: &self.queries,
                beginning_of_pass_write_index: Some(index),
                end_of_pass_write_index: None,
            }),
        }));
    }

    fn milliseconds(&self, gpu: &Gpu) -> Result<f64> {
        if *self.requested.lock() != [true; 2] {
            return Err(missing_event());
        }
        let mut batch = gpu.batch.lock();
        batch.copies(&gpu.device).resolve_query_set(&self.queries, BEGIN..END + 1, &self.resolved, 0);
        drop(batch);
        let mut ticks = [0u64; 2];
        let length = size_of_val(&ticks) as u64;
        let words = gpu.read(&[StagingSlice { from: &self.resolved, offset: 0, length }], false)?;
        bytemuck::cast_slice_mut(&mut ticks).copy_from_slice(&words);
        let [begin, end] = ticks;
        let elapsed = end
            .checked_sub(begin)
            .ok_or_else(|| gpu.error(format!("its timestamps went back from {begin} to {end}")))?;
        Ok(elapsed as f64 * self.nanoseconds_per_tick / 1e6)
    }
}

impl Gpu {
    /// Queues a plain copy of the first `bytes` bytes.
    pub(crate) fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
        let [source, target] = [within("copy", from, 0, bytes)?, within("copy", to, 0, bytes)?];
        if source.id() == target.id() {
            return Err(Error::invalid("copy", "expected two buffers, got one"));
        }
        if !bytes.is_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT as usize) {
            return Err(Error::invalid("copy", format!("expected a multiple of 4 bytes, got {bytes}")));
        }
        if bytes > 0 {
            let mut batch = self.batch.lock();
            let encoder = batch.copies(&self.device);
            encoder.copy_buffer_to_buffer(source.buffer(), 0, target.buffer(), 0, Some(bytes as u64));
        }
        Ok(())
    }
}
