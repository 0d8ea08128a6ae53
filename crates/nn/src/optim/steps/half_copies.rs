//! Half-precision copies of parameters, which a step writes for the precision scopes that follow
//! it.

use super::{ParamUpdate, StepRule, Steps, overlap, share_buffers};
use ternion_core::capture::excluded_from_capture;
use ternion_core::precision::{HalfCopy, half_copy_wanted};
use ternion_core::{Result, Tensor};

impl<R: StepRule> Steps<R> {
    /// Allocates copies for the parameters that scopes have cast since the last step, and drops the
    /// copies of all others. It must not be called while a step is recorded: a recorded step keeps
    /// using the copies that exist when it is recorded.
    pub(super) fn prepare_half_copies(&mut self, updates: &[ParamUpdate<'_>]) -> Result<()> {
        if !self.groups.iter().any(|group| group.rule.writes_half_copies()) {
            return Ok(());
        }
        let is_shared = share_buffers(updates);
        let mut is_stepped = vec![false; self.slots.len()];
        for (at, update) in updates.iter().enumerate() {
            is_stepped[update.slot] = true;
            let slot = &mut self.slots[update.slot];
            let requested = half_copy_wanted(&update.tensor, slot.half_copy.as_deref());
            // If parameters overlap, the step of one changes the other.
            let overlaps =
                |(other, of): (usize, &ParamUpdate<'_>)| other != at && overlap(&of.tensor, &update.tensor);
            let is_disjoint = !is_shared || !updates.iter().enumerate().any(overlaps);
            slot.half_copy = match requested
                .filter(|_| is_disjoint && self.groups[slot.group].rule.writes_half_copies())
            {
                None => None,
                Some(dtype) => {
                    match slot.half_copy.take().filter(|copy| copy.serves(&update.tensor, dtype)) {
                        Some(copy) => Some(copy),
                        None => Some(excluded_from_capture(|| HalfCopy::new(&update.tensor, dtype))?),
                    }
                }
            };
        }
        // Parameters without a gradient, and frozen ones.
        let skipped = self.slots.iter_mut().zip(is_stepped).filter(|(_, is_stepped)| !is_stepped);
        skipped.for_each(|(slot, _)| slot.half_copy = None);
        Ok(())
    }

    /// Returns the tensor to which the half-precision copy of a parameter is written, if it has
    /// one.
    pub(super) fn half_copy(&self, update: &ParamUpdate<'_>) -> Option<&Tensor> {
        self.slots[update.slot].half_copy.as_deref().map(HalfCopy::values)
    }

    /// Makes the copies available to scopes. Call it after all changes: parameters may share a
    /// buffer, whose version counter counts the changes of all of them.
    pub(super) fn publish_half_copies(&self, updates: &[ParamUpdate<'_>]) {
        for update in updates {
            if let Some(copy) = &self.slots[update.slot].half_copy {
                copy.written(&update.tensor);
            }
        }
    }
}
