//! Indices out of range: a shader records the first one that it finds, and the host reports it at
//! its next wait.

use crate::names::SlotName;
use rustc_hash::FxHashMap;
use ternion_core::Error;

/// The name of the binding of the record.
pub(crate) const SLOT: SlotName = SlotName::IndexErrors;

/// Words of the record on the device: the count of recorded indices, the id of the check (see
/// [`IndexErrors::check_id`]), and the index in two words.
pub(crate) const WORDS: usize = 4;

/// The ops and sizes for which launches check indices, and whether a launch that checks was queued
/// since the last read of the record.
#[derive(Debug, Default)]
pub(crate) struct IndexErrors {
    /// For each check, the op that the error names, and the size that the index must be below. An
    /// id is permanent: when the record is read, another thread may have an id for a launch that it
    /// queues later.
    checks: Vec<(&'static str, usize)>,
    check_ids: FxHashMap<(&'static str, usize), u32>,
    is_pending: bool,
}

impl IndexErrors {
    /// Returns the id of the check of indices of `op` against `size`: its position in `checks`,
    /// counted from 1.
    pub(crate) fn check_id(&mut self, op: &'static str, size: usize) -> u32 {
        *self.check_ids.entry((op, size)).or_insert_with(|| {
            self.checks.push((op, size));
            self.checks.len() as u32
        })
    }

    /// Records that a launch which checks indices was queued.
    pub(crate) fn mark_pending(&mut self) {
        self.is_pending = true;
    }

    /// Returns whether the record must be read, and resets the flag until the next launch that
    /// checks indices.
    pub(crate) fn take_pending(&mut self) -> bool {
        std::mem::take(&mut self.is_pending)
    }

    /// Returns the error that a record describes.
    pub(crate) fn read(&self, record: [u32; WORDS]) -> Option<Error> {
        let [count, check_id, low, high] = record;
        if count == 0 {
            return None;
        }
        let &(op, size) = self.checks.get((check_id as usize).checked_sub(1)?)?;
        let index = (u64::from(high) << 32 | u64::from(low)) as i64;
        Some(Error::IndexOutOfRange { op, index, size })
    }
}
