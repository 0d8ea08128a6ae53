//! Variants of the kernels that work on rows (`rows.cuh`): which of them fits rows of a length at their addresses.
//!
//! A family of kernels has a list of teams for each packing, the smallest first. A row takes the first team that it fits; as the list grows by
//! factors of two to four, few of a team's threads have nothing to do.

use crate::gpu::Launch;
use crate::sources::Unit;
use ternion_core::{DType, Error, Result};

/// Bytes of one access.
const ACCESS: usize = 16;
/// Threads of a block of several teams.
const BLOCK: usize = 128;
/// Threads that exchange numbers without a barrier.
const WARP: usize = 32;
/// Shared memory that a kernel which asks for much has beside it, at most.
const STATIC: usize = 2 << 10;

/// Where a row waits between its two readings, in the order of the kernels' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Hold {
    Registers,
    Shared,
    Memory,
}

/// The threads of a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Team {
    pub(crate) threads: usize,
    /// Packs that each of them holds in registers.
    pub(crate) packs: usize,
    pub(crate) hold: Hold,
    /// The longest row that it is for, in packs.
    most: usize,
}

impl Team {
    pub(crate) const fn registers(threads: usize, packs: usize) -> Team {
        Team { threads, packs, hold: Hold::Registers, most: threads * packs }
    }

    /// As long as the shared memory is.
    pub(crate) const SHARED: Team = Team { threads: 512, packs: 1, hold: Hold::Shared, most: usize::MAX };

    /// For rows of at most `most` packs.
    pub(crate) const fn memory(threads: usize, most: usize) -> Team {
        Team { threads, packs: 1, hold: Hold::Memory, most }
    }

    /// For rows of any length.
    pub(crate) const LONGEST: Team = Team::memory(512, usize::MAX);
}

/// How rows are cut into packs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Packing {
    /// All rows of all tensors consist of whole packs.
    Whole,
    /// The rows of all tensors start at the same place of a pack; the first and the last pack may belong to other rows too.
    Masked,
    /// An element is a pack.
    Single,
}

/// Where the rows of a tensor lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: u64,
    /// Elements from row to row; 0 if there is only one.
    pub(crate) stride: i64,
}

impl Packing {
    /// The best one for rows of `columns` elements. Numbers of 64 bits are taken one by one: a warp's are long enough.
    fn of(dtype: DType, columns: usize, places: &[Place]) -> Packing {
        let (size, pack) = (dtype.size() as u64, Packing::Whole.pack(dtype));
        let lead = |place: &Place| place.address / size % pack as u64;
        let step = |place: &Place| place.stride.rem_euclid(pack as i64);
        if pack == 1 {
            return Packing::Single;
        }
        let is_whole =
            columns.is_multiple_of(pack) && places.iter().all(|place| lead(place) == 0 && step(place) == 0);
        let is_alike =
            places.iter().all(|place| lead(place) == lead(&places[0]) && step(place) == step(&places[0]));
        match (is_whole, is_alike) {
            (true, _) => Packing::Whole,
            (_, true) => Packing::Masked,
            _ => Packing::Single,
        }
    }

    /// Elements of a pack.
    pub(crate) fn pack(self, dtype: DType) -> usize {
        match self {
            Packing::Single => 1,
            _ if dtype == DType::F64 => 1,
            _ => ACCESS / dtype.size(),
        }
    }
}

/// What a kernel of rows is compiled for, beside the dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rows {
    pub(crate) packing: Packing,
    pub(crate) team: Team,
}

/// Rows that a kernel is chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) dtype: DType,
    pub(crate) columns: usize,
    pub(crate) places: &'a [Place],
    /// Shared memory of the device.
    pub(crate) room: usize,
}

/// A kernel for rows, and how many packs they have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) rows: Rows,
    pub(crate) packs: usize,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: usize,
}

impl Rows {
    /// The first of the `teams` of a packing that has room; `shared` says how much shared memory one needs, given the packs of a row.
    pub(crate) fn choose(
        wanted: &Wanted<'_>,
        teams: impl Fn(Packing) -> &'static [Team],
        shared: impl Fn(&Rows, usize) -> usize,
    ) -> Result<Chosen> {
        let fitting = Packing::of(wanted.dtype, wanted.columns, wanted.places);
        let candidates: &[Packing] = match fitting {
            Packing::Whole => &[Packing::Whole, Packing::Masked, Packing::Single],
            Packing::Masked => &[Packing::Masked, Packing::Single],
            Packing::Single => &[Packing::Single],
        };
        for &packing in candidates {
            let pack = packing.pack(wanted.dtype);
            let packs = match (fitting, packing) {
                (Packing::Masked, Packing::Masked) => (wanted.columns + 2 * pack - 2) / pack,
                _ => wanted.columns.div_ceil(pack),
            };
            for &team in teams(packing) {
                let rows = Rows { packing, team };
                let bytes = shared(&rows, packs);
                if packs <= team.most && bytes + STATIC <= wanted.room {
                    return Ok(Chosen { rows, packs, shared: bytes });
                }
            }
        }
        Err(Error::invalid("cuda", format!("no kernel takes rows of {} columns", wanted.columns)))
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> usize {
        if self.team.threads > WARP { self.team.threads } else { BLOCK }
    }

    /// Rows of a block at a time.
    pub(crate) fn per_block(&self) -> usize {
        self.threads() / self.team.threads
    }

    /// Bytes of a row that waits in shared memory, beside those of `tensors - 1` others.
    pub(crate) fn held(&self, dtype: DType, packs: usize, tensors: usize) -> usize {
        match self.team.hold {
            Hold::Shared => packs * self.packing.pack(dtype) * dtype.size() * tensors,
            _ => 0,
        }
    }

    /// The macros of `rows.cuh`, but for TYPE.
    pub(crate) fn defines(&self, dtype: DType) -> Vec<(&'static str, String)> {
        let pack = self.packing.pack(dtype);
        [
            ("PACK", pack),
            ("MASKED", usize::from(self.packing == Packing::Masked && pack > 1)),
            ("TEAM", self.team.threads),
            ("PACKS", self.team.packs),
            ("HOLD", self.team.hold as usize),
            ("MIN_BLOCKS", if self.team.hold == Hold::Shared { 2 } else { 1 }),
        ]
        .map(|(name, value)| (name, value.to_string()))
        .into()
    }
}

impl Chosen {
    /// A launch of a unit's kernel for `count` rows.
    pub(crate) fn launch(&self, op: &'static str, unit: Unit, kernel: usize, count: usize) -> Result<Launch> {
        let blocks = grid(op, count.div_ceil(self.rows.per_block()))?;
        let launch = Launch::new(unit, kernel, blocks, self.rows.threads() as u32);
        Ok(Launch { shared: self.shared as u32, ..launch })
    }
}

/// A number of blocks, if a grid may have so many.
pub(crate) fn grid(op: &'static str, blocks: usize) -> Result<u32> {
    i32::try_from(blocks)
        .map(|blocks| blocks as u32)
        .map_err(|_| Error::invalid(op, "more elements than a launch takes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEAMS: &[Team] = &[Team::registers(8, 1), Team::registers(32, 4), Team::SHARED, Team::LONGEST];

    fn chosen(columns: usize, places: &[(u64, i64)]) -> Chosen {
        let places: Vec<Place> = places.iter().map(|&(address, stride)| Place { address, stride }).collect();
        let wanted = Wanted { dtype: DType::F32, columns, places: &places, room: 100 << 10 };
        Rows::choose(&wanted, |_| TEAMS, |rows, packs| rows.held(DType::F32, packs, 1)).expect("a kernel")
    }

    #[test]
    fn packs_lie_where_all_rows_have_them() {
        let of = |columns, places| {
            let chosen = chosen(columns, places);
            (chosen.rows.packing, chosen.packs)
        };
        assert_eq!(of(64, &[(256, 64), (0, 0)]), (Packing::Whole, 16));
        assert_eq!(of(63, &[(256, 63), (512, 63)]), (Packing::Masked, 17));
        assert_eq!(of(64, &[(260, -64), (516, 64)]), (Packing::Masked, 17));
        assert_eq!(of(64, &[(260, 64), (512, 64)]), (Packing::Single, 64));
        assert_eq!(of(64, &[(256, 65), (512, 64)]), (Packing::Single, 64));
    }

    #[test]
    fn a_row_takes_the_first_team_that_it_fits() {
        let hold = |columns| {
            let chosen = chosen(columns, &[(0, 0)]);
            (chosen.rows.team.threads, chosen.rows.team.hold, chosen.shared)
        };
        assert_eq!(hold(0), (8, Hold::Registers, 0));
        assert_eq!(hold(32), (8, Hold::Registers, 0));
        assert_eq!(hold(36), (32, Hold::Registers, 0));
        assert_eq!(hold(8192), (512, Hold::Shared, 32 << 10));
        assert_eq!(hold(32 << 10), (512, Hold::Memory, 0));
    }
}
