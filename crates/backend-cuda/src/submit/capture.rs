//! Steps recorded as CUDA graphs.
//!
//! While a thread records, its launches and copies are added to a graph, and memory is allocated
//! from an arena of the recording: as long as the graph lives, nothing else reuses the memory of
//! the graph's kernels. Buffers from outside the arena that the step uses are retained as long as
//! the graph lives.

use crate::driver::check;
use crate::gpu::Gpu;
use crate::memory::pool::Pool;
use crate::memory::{CudaMemory, DeviceMemory};
use cudarc::driver::sys;
use std::sync::Arc;
use std::thread::ThreadId;
use ternion_core::backend::{Buffer, Capture, Replay};
use ternion_core::{Error, Result};

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) thread: ThreadId,
    pub(crate) arena: Arc<Pool<DeviceMemory>>,
    /// Buffers from outside the arena that the step uses.
    pub(crate) retained: Vec<Buffer>,
}

impl Recording {
    /// Retains `buffer` for as long as the graph lives, unless it belongs to the arena.
    pub(crate) fn retain(&mut self, buffer: &Buffer) {
        let is_in_arena = CudaMemory::of(buffer).is_some_and(|memory| Arc::ptr_eq(&memory.pool, &self.arena));
        if !is_in_arena && !self.retained.iter().any(|retained| retained.is(buffer)) {
            self.retained.push(buffer.clone());
        }
    }
}

/// Records steps on a device.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) gpu: Arc<Gpu>,
}

impl Recorder {
    /// Ends the recording and the driver's capture, and returns the recording and its graph. Holds
    /// the exclusive guard, so that no other thread queues anything between the two.
    fn end_capture(&self) -> Result<(Recording, sys::CUgraph)> {
        let _guard = self.gpu.exclusive_guard();
        let recording =
            self.gpu.end_recording().ok_or_else(|| Error::invalid("capture", "nothing is being recorded"))?;
        self.gpu.context.bind()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the call writes a handle, or null if what was recorded cannot be replayed.
        check("capture", unsafe { sys::cuStreamEndCapture(self.gpu.stream(), &mut graph) })?;
        Ok((recording, graph))
    }
}

impl Capture for Recorder {
    fn begin(&self) -> Result<()> {
        self.gpu.begin_recording()?;
        // Relaxed: other threads may call the driver during the capture. `Gpu::retain` and
        // `Gpu::check_not_recording` ensure that they do not use this stream.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives as long as the device.
        let code = unsafe { sys::cuStreamBeginCapture_v2(self.gpu.stream(), mode) };
        check("capture", code).inspect_err(|_| {
            self.gpu.end_recording();
        })
    }

    fn end(&self) -> Result<Arc<dyn Replay>> {
        let ended = self.end_capture();
        self.gpu.destroy_retired_graphs();
        let (recording, graph) = ended?;
        let mut executable = std::ptr::null_mut();
        // SAFETY: the driver returned this graph.
        let instantiate = || unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) };
        let code = self.gpu.with_memory(instantiate);
        // SAFETY: as above; the executable does not need the graph any more.
        let destroyed = unsafe { sys::cuGraphDestroy(graph) };
        check("capture", code)?;
        let step = RecordedStep {
            gpu: self.gpu.clone(),
            executable: Executable(executable),
            recording: Some(recording),
        };
        check("capture", destroyed)?;
        let _guard = self.gpu.submission_guard();
        // Uploads the graph now instead of at its first replay, unless another recording has begun:
        // the upload must not be added to it.
        if !self.gpu.is_recording() {
            // SAFETY: both handles are valid.
            check("capture", unsafe { sys::cuGraphUpload(executable, self.gpu.stream()) })?;
        }
        Ok(Arc::new(step))
    }
}

/// An executable graph.
#[derive(Clone, Copy, Debug)]
struct Executable(sys::CUgraphExec);

// SAFETY: graphs are handles that every thread may use, one thread at a time. All launches go to
// the same stream.
unsafe impl Send for Executable {}
// SAFETY: as for Send.
unsafe impl Sync for Executable {}

/// A graph with the memory that it uses.
struct RecordedStep {
    gpu: Arc<Gpu>,
    executable: Executable,
    /// `None` only during the drop.
    recording: Option<Recording>,
}

/// A dropped step, while its graph may still be running or could not be destroyed.
#[derive(Debug)]
pub(crate) struct RetiredGraph {
    executable: Executable,
    /// Freed after the graph has ended.
    _recording: Recording,
}

impl RetiredGraph {
    /// Waits for the graph to end, destroys it and frees its memory. Not allowed while the stream
    /// records.
    fn destroy(self, gpu: &Gpu) {
        let _ = gpu.context.bind();
        // SAFETY: the stream lives as long as the device; the graph is destroyed once.
        unsafe {
            let _ = sys::cuStreamSynchronize(gpu.stream());
            let _ = sys::cuGraphExecDestroy(self.executable.0);
        }
    }
}

impl Gpu {
    /// Destroys the steps that were dropped while another one was being recorded.
    fn destroy_retired_graphs(&self) {
        let _guard = self.submission_guard();
        if self.is_recording() {
            return;
        }
        let retired = std::mem::take(&mut *self.retired_graphs.lock());
        retired.into_iter().for_each(|step| step.destroy(self));
    }
}

impl Replay for RecordedStep {
    fn ready(&self) -> Result<()> {
        self.gpu.check_not_recording("replay")
    }

    fn replay(&self) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.ready()?;
        self.gpu.context.bind()?;
        let stream = self.gpu.stream();
        self.gpu.check_failed_launches()?;
        self.gpu.add_to_history("replay");
        // SAFETY: the graph lives as long as this, and so do the buffers that its kernels use.
        self.gpu.check_status("replay", unsafe { sys::cuGraphLaunch(self.executable.0, stream) })
    }
}

impl Drop for RecordedStep {
    fn drop(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        let retired = RetiredGraph { executable: self.executable, _recording: recording };
        self.gpu.retired_graphs.lock().push(retired);
        // A wait for a stream that is being recorded, on any thread, would invalidate the
        // recording. In that case the step is destroyed after the recording.
        self.gpu.destroy_retired_graphs();
    }
}
