//! Ops that run again and again on tensors that stay where they are, so that a device can record them once and replay them.

use ternion::RecordedStep;
use ternion::prelude::*;

/// The ops of a step, with what they leave.
pub struct Repeated<'m, T = ()> {
    device: Device,
    ops: Box<dyn FnMut() -> Result<T> + 'm>,
    /// Whether the next run is to be recorded.
    is_awaited: bool,
    recorded: Option<RecordedStep<T>>,
}

impl<'m, T: Clone> Repeated<'m, T> {
    /// Runs `ops` op by op, each time. They read and write the same tensors each time, and all of them are on `device`.
    pub fn new(device: &Device, ops: impl FnMut() -> Result<T> + 'm) -> Self {
        Repeated { device: device.clone(), ops: Box::new(ops), is_awaited: false, recorded: None }
    }

    /// The same ops, recorded when they run for the first time and replayed from then on. A device that records nothing runs them op by op.
    pub fn captured(mut self) -> Self {
        self.is_awaited = true;
        self
    }

    /// Runs the ops once, and gives what they leave: tensors that the next run may overwrite.
    ///
    /// # Errors
    /// Those of the ops; why they cannot be recorded.
    pub fn run(&mut self) -> Result<T> {
        if let Some(recorded) = &mut self.recorded {
            return recorded.replay().cloned();
        }
        if std::mem::take(&mut self.is_awaited) {
            // Recording runs the ops once as they are: that is this run, and leaves what counts.
            let (ops, mut first) = (&mut self.ops, None);
            self.recorded = self.device.record(|| {
                let left = ops()?;
                first.get_or_insert_with(|| left.clone());
                Ok(left)
            })?;
            if let Some(first) = first {
                return Ok(first);
            }
        }
        self.run_op_by_op()
    }

    /// Runs the ops once without the recording: for whoever looks at what happens between them.
    ///
    /// # Errors
    /// Those of the ops.
    pub fn run_op_by_op(&mut self) -> Result<T> {
        (self.ops)()
    }

    /// Whether the device recorded the ops: not before they ran, and not every device can.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }
}
