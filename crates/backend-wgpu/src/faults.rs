//! Indices out of range: shaders note the first one that they meet, and the host tells it at its next wait.

use ternion_core::Error;

/// Words of the record on the device: how many were noted, the number of the launch, the index in two words.
pub(crate) const WORDS: usize = 4;

/// The launches since the last look that check indices.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Of each: the op that the index is told of, and the size that it must be below.
    launches: Vec<(&'static str, usize)>,
}

impl Faults {
    /// The number of a launch that checks indices against `size`.
    pub(crate) fn number(&mut self, op: &'static str, size: usize) -> u32 {
        self.launches.push((op, size));
        self.launches.len() as u32
    }

    /// Whether the record must be looked at.
    pub(crate) fn expected(&self) -> bool {
        !self.launches.is_empty()
    }

    /// What a record says. Whatever was launched is forgotten.
    pub(crate) fn read(&mut self, record: [u32; WORDS]) -> Option<Error> {
        let launches = std::mem::take(&mut self.launches);
        let [noted, number, low, high] = record;
        if noted == 0 {
            return None;
        }
        let &(op, size) = launches.get((number as usize).checked_sub(1)?)?;
        let index = (u64::from(high) << 32 | u64::from(low)) as i64;
        Some(Error::IndexOutOfRange { op, index, size })
    }
}
