//! A device that runs only primitives, so that every composite op uses its composition.

use crate::backend::{Backend, Capture, Meta, Plan, Unsupported, View};
use crate::delegate_backend;
use crate::device::Device;
use crate::error::Result;
use crate::op::Op;

/// Hides all fused ops of a device, so that results are those of a backend that implements only the
/// primitives.
#[derive(Debug)]
pub struct Composed {
    name: String,
    inner: Device,
}

impl Composed {
    /// Wraps `device` without its fused ops.
    #[allow(clippy::new_ret_no_self, reason = "a decorator is used as the device that it makes")]
    pub fn new(device: Device) -> Device {
        Device::new(Composed { name: format!("composed({device})"), inner: device })
    }
}

impl Backend for Composed {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory, interop);

    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        if !op.is_primitive() {
            return Err(Unsupported::because("this device shows primitives only"));
        }
        self.inner.backend().plan(op, inputs)
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        self.inner.backend().run(op, inputs, outputs)
    }

    fn capture(&self) -> Option<&dyn Capture> {
        self.inner.backend().capture()
    }
}
