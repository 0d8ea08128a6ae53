//! Indices out of range: a shader records the first one that it finds, and the host reports it at
//! its next wait.

use crate::names::SlotName;
use rustc_hash::FxHashMap;
use ternion_core::Error;

/// The name of the binding of the record.
pub(crate) const SLOT: SlotName = SlotName::Faults;

/// Words of the record on the device: the count of recorded indices, the number that the launch was
/// given, and the index in two words.
pub(crate) const WORDS: usize = 4;

/// The ops and sizes for which launches check indices, and whether a launch that checks was queued
/// since the last read of the record.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The op that is named in the error, and the size that the index must be below. The position
    /// in this list is permanent: a launch of another thread may already have its number when the
    /// record is read, and may be queued after that.
    kinds: Vec<(&'static str, usize)>,
    numbers: FxHashMap<(&'static str, usize), u32>,
    expected: bool,
}

impl Faults {
    /// Returns the number of launches that check the indices of `op` against `size`.
    pub(crate) fn number(&mut self, op: &'static str, size: usize) -> u32 {
        *self.numbers.entry((op, size)).or_insert_with(|| {
            self.kinds.push((op, size));
            self.kinds.len() as u32
        })
    }

    /// Records that a launch which checks indices was queued.
    pub(crate) fn expect(&mut self) {
        self.expected = true;
    }

    /// Returns whether the record must be read, and resets the flag until the next such launch.
    pub(crate) fn take_expected(&mut self) -> bool {
        std::mem::take(&mut self.expected)
    }

    /// Returns the error that a record describes.
    pub(crate) fn read(&self, record: [u32; WORDS]) -> Option<Error> {
        let [noted, number, low, high] = record;
        if noted == 0 {
            return None;
        }
        let &(op, size) = self.kinds.get((number as usize).checked_sub(1)?)?;
        let index = (u64::from(high) << 32 | u64::from(low)) as i64;
        Some(Error::IndexOutOfRange { op, index, size })
    }
}
