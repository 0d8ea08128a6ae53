//! Half-precision copies of parameters, which a step writes for the precision scopes that follow
//! it.

use super::{StepRule, Steps, Work, overlap, share_memory};
use ternion_core::capture::only_once;
use ternion_core::precision::{HalfCopy, half_copy_wanted};
use ternion_core::{Result, Tensor};

impl<R: StepRule> Steps<R> {
    /// Allocates copies for the parameters that scopes have cast since the last step, and drops the
    /// copies of all others. It must not be called while a step is recorded: a recorded step keeps
    /// the copies that it found.
    pub(super) fn prepare_half_copies(&mut self, works: &[Work<'_>]) -> Result<()> {
        if !self.groups.iter().any(|group| group.rule.writes_half_copies()) {
            return Ok(());
        }
        let is_shared = share_memory(works);
        let mut is_stepped = vec![false; self.slots.len()];
        for (at, work) in works.iter().enumerate() {
            is_stepped[work.slot] = true;
            let slot = &mut self.slots[work.slot];
            let wanted = half_copy_wanted(&work.tensor, slot.half_copy.as_deref());
            // If parameters overlap, the step of one changes the other.
            let meets = |(other, of): (usize, &Work<'_>)| other != at && overlap(&of.tensor, &work.tensor);
            let is_apart = !is_shared || !works.iter().enumerate().any(meets);
            slot.half_copy = match wanted
                .filter(|_| is_apart && self.groups[slot.group].rule.writes_half_copies())
            {
                None => None,
                Some(dtype) => match slot.half_copy.take().filter(|copy| copy.serves(&work.tensor, dtype)) {
                    Some(copy) => Some(copy),
                    None => Some(only_once(|| HalfCopy::new(&work.tensor, dtype))?),
                },
            };
        }
        // Parameters without a gradient, and frozen ones.
        let left_out = self.slots.iter_mut().zip(is_stepped).filter(|(_, is_stepped)| !is_stepped);
        left_out.for_each(|(slot, _)| slot.half_copy = None);
        Ok(())
    }

    /// Returns the tensor to which the half-precision copy of a parameter is written, if it has
    /// one.
    pub(super) fn half_copy(&self, work: &Work<'_>) -> Option<&Tensor> {
        self.slots[work.slot].half_copy.as_deref().map(HalfCopy::values)
    }

    /// Makes the copies available to scopes. Call it after all changes: parameters may share a
    /// buffer, whose version counter counts the changes of all of them.
    pub(super) fn note_half_copies(&self, works: &[Work<'_>]) {
        for work in works {
            if let Some(copy) = &self.slots[work.slot].half_copy {
                copy.written(&work.tensor);
            }
        }
    }
}
