//! Indices out of range: shaders note the first one that they meet, and the host tells it at its next wait.

use crate::names::SlotName;
use rustc_hash::FxHashMap;
use ternion_core::Error;

/// What the record is called where it is bound.
pub(crate) const SLOT: SlotName = SlotName::Faults;

/// Words of the record on the device: how many were noted, the number that the launch had got, the index in two words.
pub(crate) const WORDS: usize = 4;

/// What launches check indices for, and whether any did since the last look.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The op that an index is told of, and the size that it must be below: a number means the same for ever, since a launch of another thread may have got its
    /// own before a look and be queued behind it.
    kinds: Vec<(&'static str, usize)>,
    numbers: FxHashMap<(&'static str, usize), u32>,
    expected: bool,
}

impl Faults {
    /// The number of launches that check indices against `size`.
    pub(crate) fn number(&mut self, op: &'static str, size: usize) -> u32 {
        *self.numbers.entry((op, size)).or_insert_with(|| {
            self.kinds.push((op, size));
            self.kinds.len() as u32
        })
    }

    /// A launch that checks indices was queued.
    pub(crate) fn expect(&mut self) {
        self.expected = true;
    }

    /// Whether the record must be looked at: not again before there is another such launch.
    pub(crate) fn take_expected(&mut self) -> bool {
        std::mem::take(&mut self.expected)
    }

    /// What a record says.
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
