//! Ops that run repeatedly on tensors whose memory stays the same, so that a device can record them
//! once and replay them.

use ternion::RecordedStep;
use ternion::prelude::*;

/// The ops of a step, and their result.
pub struct ReplayableOps<'m, T = ()> {
    device: Device,
    ops: Box<dyn FnMut() -> Result<T> + 'm>,
    /// Whether the next run is to be recorded.
    record_next: bool,
    recorded: Option<RecordedStep<T>>,
}

impl<'m, T: Clone> ReplayableOps<'m, T> {
    /// Creates a step that runs `ops` op by op. They read and write the same tensors in each run,
    /// and all of these are on `device`.
    pub fn new(device: &Device, ops: impl FnMut() -> Result<T> + 'm) -> Self {
        ReplayableOps { device: device.clone(), ops: Box::new(ops), record_next: false, recorded: None }
    }

    /// Returns the same ops, which are recorded on their first run and replayed from then on. A
    /// device that cannot record runs them op by op.
    pub fn captured(mut self) -> Self {
        self.record_next = true;
        self
    }

    /// Runs the ops once, and returns their result: tensors that the next run may overwrite.
    ///
    /// # Errors
    /// Returns the errors of the ops, or the reason why they cannot be recorded.
    pub fn run(&mut self) -> Result<T> {
        if let Some(recorded) = &mut self.recorded {
            return recorded.replay().cloned();
        }
        if std::mem::take(&mut self.record_next) {
            // Recording executes the ops once: that is this run, and its result counts.
            let (ops, mut first) = (&mut self.ops, None);
            self.recorded = self.device.record(|| {
                let result = ops()?;
                first.get_or_insert_with(|| result.clone());
                Ok(result)
            })?;
            if let Some(first) = first {
                return Ok(first);
            }
        }
        self.run_op_by_op()
    }

    /// Runs the ops once without the recording, for callers that inspect what happens between them.
    ///
    /// # Errors
    /// Returns the errors of the ops.
    pub fn run_op_by_op(&mut self) -> Result<T> {
        (self.ops)()
    }

    /// Returns whether the device recorded the ops: only after they ran, and only if the device
    /// supports it.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }
}
