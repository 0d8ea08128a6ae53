//! How the kernels of rows (`kernels/lib/rows.cuh`) partition a row: into packs, and among the
//! threads that share it.

use super::dtypes::ACCESS;
use ternion_core::DType;

/// Threads of a block of several teams.
const BLOCK: usize = 128;
/// Threads that exchange values without a barrier.
const WARP: usize = 32;

/// Where a row is stored between its first and its second read, in the order of the kernels'
/// constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RowStorage {
    Registers,
    Shared,
    Memory,
}

/// The threads that process a row together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Team {
    threads: u16,
    packs: u8,
    pub(crate) storage: RowStorage,
    max_packs: u32,
}

impl Team {
    /// A team whose threads keep `packs` packs each in registers.
    pub(crate) const fn registers(threads: u16, packs: u8) -> Team {
        Team { threads, packs, storage: RowStorage::Registers, max_packs: threads as u32 * packs as u32 }
    }

    /// A team for rows that fit into shared memory.
    pub(crate) const SHARED: Team =
        Team { threads: 512, packs: 1, storage: RowStorage::Shared, max_packs: u32::MAX };

    /// A team for rows of at most `max_packs` packs, which are read from global memory each time.
    pub(crate) const fn memory(threads: u16, max_packs: u32) -> Team {
        Team { threads, packs: 1, storage: RowStorage::Memory, max_packs }
    }

    /// A team for rows of any length.
    pub(crate) const LONGEST: Team = Team::memory(512, u32::MAX);

    pub(crate) fn threads(&self) -> usize {
        usize::from(self.threads)
    }

    /// Returns the packs that each thread keeps in registers.
    pub(crate) fn packs(&self) -> usize {
        usize::from(self.packs)
    }

    /// Returns the longest row that it supports, in packs.
    pub(crate) fn max_packs(&self) -> usize {
        self.max_packs as usize
    }
}

/// How rows are divided into packs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Packing {
    /// All rows of all tensors consist of whole packs.
    Whole,
    /// The rows of all tensors start at the same element of a pack; the first and the last pack may
    /// also belong to other rows.
    Masked,
    /// Each pack is one element.
    Single,
}

impl Packing {
    /// Returns the elements of a pack.
    pub(crate) fn pack(self, dtype: DType) -> usize {
        match self {
            Packing::Single => 1,
            _ if dtype == DType::F64 => 1,
            _ => ACCESS / dtype.size(),
        }
    }
}

/// What a kernel of rows is compiled for, in addition to the dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rows {
    pub(crate) packing: Packing,
    pub(crate) team: Team,
}

impl Rows {
    /// Returns one for each team of a list.
    pub(super) fn of_each(packing: Packing, teams: &'static [Team]) -> impl Iterator<Item = Rows> {
        teams.iter().map(move |&team| Rows { packing, team })
    }

    /// Returns the threads of a block.
    pub(crate) fn threads(&self) -> usize {
        if self.team.threads() > WARP { self.team.threads() } else { BLOCK }
    }

    /// Returns the rows that a block processes at a time.
    pub(crate) fn per_block(&self) -> usize {
        self.threads() / self.team.threads()
    }

    /// Returns the bytes of shared memory in which a block keeps one row of each of `tensors`
    /// tensors; 0 for other storage.
    pub(crate) fn stored_bytes(&self, dtype: DType, packs: usize, tensors: usize) -> usize {
        match self.team.storage {
            RowStorage::Shared => packs * self.packing.pack(dtype) * dtype.size() * tensors,
            _ => 0,
        }
    }
}
