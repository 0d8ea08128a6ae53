//! Steps recorded as CUDA graphs.
//!
//! While a thread records, its launches and copies go into a graph, and memory comes from an arena
//! of the recording: what the graph's kernels use is reused by nobody else, as long as the graph
//! lives. Buffers from outside that the step touches are held for as long.

use crate::driver::check;
use crate::gpu::Gpu;
use crate::memory::DeviceMemory;
use crate::memory::pool::Pool;
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
    pub(crate) held: Vec<Buffer>,
}

impl Recording {
    /// Holds `buffer` for as long as the graph lives, if it is not the arena's.
    pub(crate) fn hold(&mut self, buffer: &Buffer) {
        let inside = buffer
            .downcast()
            .is_some_and(|memory: &crate::memory::CudaMemory| Arc::ptr_eq(&memory.pool, &self.arena));
        if !inside && !self.held.iter().any(|held| held.is(buffer)) {
            self.held.push(buffer.clone());
        }
    }
}

/// Recording on a device.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) gpu: Arc<Gpu>,
}

impl Recorder {
    /// The recording and its graph. No other thread queues anything before both have ended.
    fn end_capture(&self) -> Result<(Recording, sys::CUgraph)> {
        let _guard = self.gpu.exclusive_guard();
        let recording =
            self.gpu.end_recording().ok_or_else(|| Error::invalid("capture", "nothing is being recorded"))?;
        self.gpu.context.bind()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: writes a handle, or null where what was recorded cannot be replayed.
        check("capture", unsafe { sys::cuStreamEndCapture(self.gpu.stream(), &mut graph) })?;
        Ok((recording, graph))
    }
}

impl Capture for Recorder {
    fn begin(&self) -> Result<()> {
        self.gpu.begin_recording()?;
        // Relaxed: other threads may ask the driver for anything meanwhile; that they do not use
        // this stream is seen to by `launch`.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives as long as the device.
        let code = unsafe { sys::cuStreamBeginCapture_v2(self.gpu.stream(), mode) };
        check("capture", code).inspect_err(|_| {
            self.gpu.end_recording();
        })
    }

    fn end(&self) -> Result<Arc<dyn Replay>> {
        let ended = self.end_capture();
        self.gpu.end_steps_that_wait();
        let (recording, graph) = ended?;
        let mut executable = std::ptr::null_mut();
        // SAFETY: the graph was given by the driver.
        let instantiate = || unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) };
        let code = self.gpu.with_memory(instantiate);
        // SAFETY: as above; the executable does not need it any more.
        let destroyed = unsafe { sys::cuGraphDestroy(graph) };
        check("capture", code)?;
        let step = RecordedStep {
            gpu: self.gpu.clone(),
            executable: Executable(executable),
            recording: Some(recording),
        };
        check("capture", destroyed)?;
        let _guard = self.gpu.submission_guard();
        // What the first replay would do otherwise: not into another recording, which may have
        // begun.
        if !self.gpu.is_recording() {
            // SAFETY: both handles live.
            check("capture", unsafe { sys::cuGraphUpload(executable, self.gpu.stream()) })?;
        }
        Ok(Arc::new(step))
    }
}

/// A graph that is ready to run.
#[derive(Clone, Copy, Debug)]
struct Executable(sys::CUgraphExec);

// SAFETY: graphs are handles that the driver lets every thread use, one at a time: launches go to
// one stream.
unsafe impl Send for Executable {}
// SAFETY: as for Send.
unsafe impl Sync for Executable {}

/// A graph with the memory that it runs on.
struct RecordedStep {
    gpu: Arc<Gpu>,
    executable: Executable,
    /// Until it is dropped.
    recording: Option<Recording>,
}

/// A step that nobody needs any more, from a time at which the device could not be waited for.
#[derive(Debug)]
pub(crate) struct RetiredGraph {
    executable: Executable,
    /// Given back after the graph has ended.
    _recording: Recording,
}

impl RetiredGraph {
    /// Destroys the graph and gives its memory back, when nothing runs on it any more. Not while
    /// the stream records.
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
    /// Ends the steps that were dropped while another one was recorded.
    fn end_steps_that_wait(&self) {
        let _guard = self.submission_guard();
        if self.is_recording() {
            return;
        }
        let waiting = std::mem::take(&mut *self.retired_graphs.lock());
        waiting.into_iter().for_each(|step| step.destroy(self));
    }
}

impl Replay for RecordedStep {
    fn ready(&self) -> Result<()> {
        self.gpu.refuse_while_recording("replay")
    }

    fn replay(&self) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.ready()?;
        self.gpu.context.bind()?;
        let stream = self.gpu.stream();
        self.gpu.refused()?;
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
        // To wait for a stream that records would spoil the recording, on whichever thread: then
        // this is done when that has ended.
        self.gpu.end_steps_that_wait();
    }
}
