//! A device that pretends to record steps for replay (as CUDA graphs do), to test the host's part
//! of recording: ops run while it records, and replays run nothing.

use std::sync::Arc;
use ternion_core::backend::{Capture, Replay};
use ternion_core::{Backend, Device, Meta, Op, Plan, Result, Unsupported, View, delegate_backend};

#[derive(Debug)]
struct Recording {
    inner: Device,
}

#[derive(Debug)]
struct EmptyReplay;

/// Wraps `inner`, which need not support recording, in a device whose steps count as recorded.
pub fn recording(inner: Device) -> Device {
    Device::new(Recording { inner })
}

impl Replay for EmptyReplay {
    fn replay(&self) -> Result<()> {
        Ok(())
    }
}

impl Capture for Recording {
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn end(&self) -> Result<Arc<dyn Replay>> {
        Ok(Arc::new(EmptyReplay))
    }
}

impl Backend for Recording {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory, interop);

    fn name(&self) -> &str {
        "recording"
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        self.inner.backend().plan(op, inputs)
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        self.inner.backend().run(op, inputs, outputs)
    }

    fn capture(&self) -> Option<&dyn Capture> {
        Some(self)
    }
}
