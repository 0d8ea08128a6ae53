//! Variants of softmax, its logarithm, and their gradients: the teams of rows, the tiles of
//! columns.

use super::dtypes::pack_of;
use super::rows::{Packing, Rows, Team};
use ternion_core::DType;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SoftmaxVariant {
    /// Along the last axis. `log`: whether it is log-softmax.
    Rows { log: bool, rows: Rows, dtype: DType },
    /// A row that is split among several blocks; not for log-softmax.
    Chunks(DType),
    /// Along an axis that is not the last.
    Columns { log: bool, tile: ColumnTile, dtype: DType },
}

/// The team for the chunks that long rows are split into.
pub(crate) const CHUNKS: Rows = Rows { packing: Packing::Masked, team: Team::LONGEST };

/// Returns the teams of rows. Log-softmax has only some of them, because it is usually part of a
/// loss that has its own kernel.
pub(crate) fn teams(log: bool, dtype: DType, packing: Packing) -> &'static [Team] {
    const fn registers(threads: u16, packs: u8) -> Team {
        Team::registers(threads, packs)
    }
    // 64 bytes per thread in half precision, 128 in f32, whose exponentials take longer.
    match (packing, dtype) {
        (_, DType::F64) => &[const { registers(32, 8) }, Team::LONGEST],
        (Packing::Single, _) => &[const { Team::memory(32, 2048) }, Team::LONGEST],
        (Packing::Whole, _) if log => &[],
        (_, DType::F32) if log => &[
            const { registers(32, 8) },
            const { registers(128, 8) },
            const { registers(512, 8) },
            Team::LONGEST,
        ],
        (_, _) if log => &[
            const { registers(32, 4) },
            const { registers(128, 4) },
            const { registers(512, 4) },
            Team::LONGEST,
        ],
        (Packing::Whole, DType::F32) => &[
            const { registers(8, 1) },
            const { registers(8, 4) },
            const { registers(32, 4) },
            const { registers(32, 8) },
            const { registers(128, 4) },
            const { registers(128, 8) },
            const { registers(256, 8) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Whole, _) => &[
            const { registers(8, 1) },
            const { registers(8, 4) },
            const { registers(32, 2) },
            const { registers(32, 4) },
            const { registers(128, 2) },
            const { registers(128, 4) },
            const { registers(256, 4) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Masked, DType::F32) => &[
            const { registers(8, 1) },
            const { registers(32, 8) },
            const { registers(128, 8) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Masked, _) => &[
            const { registers(8, 1) },
            const { registers(32, 4) },
            const { registers(128, 4) },
            Team::SHARED,
            Team::LONGEST,
        ],
    }
}

/// The tile of a column kernel: elements of a pack, and adjacent packs of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ColumnTile {
    pub(crate) pack: u8,
    pub(crate) adjacent_packs: u8,
}

impl ColumnTile {
    const NARROW: u8 = 4;
    const WIDE: u8 = 32;

    /// Returns the tile for an axis. Long columns need many threads along the axis, so a block has
    /// fewer adjacent packs.
    #[inline]
    pub(crate) fn of(pack: usize, axis: usize) -> ColumnTile {
        let adjacent_packs = if pack > 1 && axis > 128 { ColumnTile::NARROW } else { ColumnTile::WIDE };
        ColumnTile { pack: pack as u8, adjacent_packs }
    }

    /// Returns the adjacent columns of a block.
    pub(crate) fn columns(self) -> usize {
        usize::from(self.pack) * usize::from(self.adjacent_packs)
    }
}

pub(super) fn variants() -> Vec<SoftmaxVariant> {
    let mut all = Vec::new();
    for (log, dtype) in [false, true].into_iter().flat_map(|log| DType::FLOATS.map(|dtype| (log, dtype))) {
        for packing in [Packing::Whole, Packing::Masked, Packing::Single] {
            if dtype == DType::F64 && packing != Packing::Single {
                continue;
            }
            let rows = Rows::of_each(packing, teams(log, dtype, packing));
            all.extend(rows.map(|rows| SoftmaxVariant::Rows { log, rows, dtype }));
        }
        if dtype != DType::F64 && !log {
            all.push(SoftmaxVariant::Chunks(dtype));
        }
        let pack = pack_of(&[dtype]);
        let mut tiles = vec![ColumnTile::of(1, 0)];
        if dtype != DType::F64 {
            tiles.extend([ColumnTile::of(pack, 0), ColumnTile::of(pack, 1024)]);
        }
        all.extend(tiles.into_iter().map(|tile| SoftmaxVariant::Columns { log, tile, dtype }));
    }
    all
}
