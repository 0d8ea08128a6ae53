//! A device that counts ops, allocations and copied bytes.

use crate::backend::{Backend, Buffer, Capture, View};
use crate::device::Device;
use crate::error::Result;
use crate::op::Op;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts the launches and bytes of a device. Views are free. An op that is composed counts as the
/// ops of its composition.
#[derive(Debug)]
pub struct Counting {
    name: String,
    inner: Device,
    counter: Counter,
}

/// Reads the counts of a [`Counting`] device. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Mutex<Counts>>);

/// Launches of one op, and the bytes read and written. An element that is repeated by a stride of 0
/// counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// The number of launches.
    pub launches: u64,
    /// The bytes of its inputs.
    pub bytes_read: u64,
    /// The bytes of its outputs.
    pub bytes_written: u64,
}

/// All counts since the start or the last [`Counter::reset`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The counts by name of the op.
    pub ops: BTreeMap<&'static str, OpCounts>,
    /// The number of allocated buffers.
    pub allocations: u64,
    /// The bytes copied from the host.
    pub bytes_uploaded: u64,
    /// The bytes copied to the host.
    pub bytes_downloaded: u64,
}

impl Counts {
    /// Returns the launches of all ops.
    pub fn launches(&self) -> u64 {
        self.ops.values().map(|op| op.launches).sum()
    }

    /// Returns the launches of the op with this name.
    pub fn launches_of(&self, name: &str) -> u64 {
        self.ops.get(name).map_or(0, |op| op.launches)
    }

    /// Returns the bytes that all ops read.
    pub fn bytes_read(&self) -> u64 {
        self.ops.values().map(|op| op.bytes_read).sum()
    }

    /// Returns the bytes that all ops wrote.
    pub fn bytes_written(&self) -> u64 {
        self.ops.values().map(|op| op.bytes_written).sum()
    }
}

impl Counter {
    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// Resets all counts to zero.
    pub fn reset(&self) {
        *self.lock() = Counts::default();
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // The data are plain integers: a panic elsewhere cannot leave them half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counting {
    /// Wraps `device` so that its launches are counted, and returns it with the handle that reads
    /// the counts.
    #[allow(clippy::new_ret_no_self, reason = "a decorator is used as the device that it makes")]
    pub fn new(device: Device) -> (Device, Counter) {
        let counter = Counter::default();
        let counting =
            Counting { name: format!("counting({device})"), inner: device, counter: counter.clone() };
        (Device::new(counting), counter)
    }
}

fn bytes_of(views: &[View<'_>]) -> u64 {
    let distinct_elements = |view: &View<'_>| {
        let axes = view.layout.shape().dims().iter().zip(view.layout.strides());
        axes.filter(|&(&dim, &stride)| stride != 0 || dim == 0).map(|(&dim, _)| dim as u64).product::<u64>()
    };
    views.iter().map(|view| distinct_elements(view) * view.dtype.size() as u64).sum()
}

impl Backend for Counting {
    crate::delegate_backend!(inner: plan, synchronize, memory, interop);

    fn name(&self) -> &str {
        &self.name
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        let buffer = self.inner.backend().alloc(bytes)?;
        self.counter.lock().allocations += 1;
        Ok(buffer)
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        self.inner.backend().upload(host, to, offset_bytes)?;
        self.counter.lock().bytes_uploaded += host.len() as u64;
        Ok(())
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        self.inner.backend().download(from, offset_bytes, host)?;
        self.counter.lock().bytes_downloaded += host.len() as u64;
        Ok(())
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        self.inner.backend().run(op, inputs, outputs)?;
        let mut counts = self.counter.lock();
        let count = counts.ops.entry(op.name()).or_default();
        count.launches += 1;
        count.bytes_read += bytes_of(inputs);
        count.bytes_written += bytes_of(outputs);
        Ok(())
    }

    /// Ops of a captured step are counted when they are recorded, not at each replay.
    fn capture(&self) -> Option<&dyn Capture> {
        self.inner.backend().capture()
    }
}
