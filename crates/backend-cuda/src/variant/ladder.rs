//! Rungs of the ladder: kernels of matrix products, from a naive one to one with clusters, and the
//! tiles that each is compiled with. They are for study and measurement; no op uses them.

use super::architecture::Architectures;
use std::fmt;
use ternion_core::DType;

/// A rung of the ladder, `y = a b` of matrices. Each adds one idea to the previous rung.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rung {
    /// A thread for each element; adjacent threads compute adjacent rows.
    Naive,
    /// Adjacent threads compute adjacent columns.
    Coalesced,
    /// Tiles in shared memory.
    SharedMemory,
    /// A column of elements per thread.
    BlockTile1d,
    /// A square of elements per thread.
    BlockTile2d,
    /// Accesses of 16 bytes.
    Vectorized,
    /// As `Vectorized`, with the tile that was measured to be the fastest.
    AutotunedTile,
    /// A part of the tile per warp.
    WarpTile,
    /// The next tile is loaded during the products of this one.
    DoubleBuffered,
    /// Tensor cores by `mma.sync`.
    MmaSync,
    /// Tensor cores by `wgmma`, tiles loaded by TMA.
    WgmmaTma,
    /// A producer warpgroup and two consumer warpgroups; persistent.
    WarpSpecialized,
    /// Two blocks that share their tiles of b.
    Multicast,
}

/// How a block's tile is partitioned: the part of a thread, a warp or a warpgroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Partition {
    /// Elements of a thread: rows and columns.
    Thread([usize; 2]),
    /// Elements of a warp, and of a thread.
    Lanes { warp: [usize; 2], thread: [usize; 2] },
    /// Elements of a warp, on tensor cores.
    Warp([usize; 2]),
    /// The number of consumer warpgroups, among which the rows of the tile are divided equally.
    Warpgroups(usize),
}

/// The sizes that a rung is compiled with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows and columns of y, and the length of k in one step.
    pub(crate) block: [usize; 3],
    pub(crate) partition: Partition,
    /// Stages of the ring buffer for tiles of a and b, for rungs that are compiled with different
    /// numbers of them.
    pub(crate) stages: usize,
}

const fn thread(block: [usize; 3], thread: [usize; 2]) -> Tile {
    Tile { block, partition: Partition::Thread(thread), stages: 1 }
}

const fn lanes(block: [usize; 3], warp: [usize; 2], thread: [usize; 2]) -> Tile {
    Tile { block, partition: Partition::Lanes { warp, thread }, stages: 1 }
}

const fn warpgroups(block: [usize; 3], consumers: usize, stages: usize) -> Tile {
    Tile { block, partition: Partition::Warpgroups(consumers), stages }
}

const ELEMENT: &[Tile] = &[thread([32, 32, 32], [1, 1])];
const COLUMN: &[Tile] = &[thread([64, 64, 8], [8, 1])];
const SQUARE: &[Tile] = &[thread([128, 128, 8], [8, 8])];
/// From few elements per thread, for small products, to many, for large ones.
const CANDIDATES: &[Tile] = &[
    thread([32, 32, 32], [4, 4]),
    thread([32, 64, 32], [4, 4]),
    thread([64, 64, 16], [4, 4]),
    thread([64, 64, 32], [8, 4]),
    thread([64, 128, 16], [8, 4]),
    thread([128, 64, 16], [8, 8]),
    thread([128, 128, 8], [8, 8]),
    thread([128, 128, 16], [8, 8]),
    thread([128, 128, 32], [8, 8]),
    thread([128, 256, 8], [8, 16]),
];
const WARP: &[Tile] = &[lanes([128, 128, 16], [64, 32], [8, 8])];
const MMA: &[Tile] = &[Tile { block: [128, 128, 64], partition: Partition::Warp([64, 32]), stages: 3 }];
const WGMMA: &[Tile] = &[warpgroups([128, 128, 64], 1, 3)];
const SPECIALIZED: &[Tile] = &[warpgroups([128, 256, 64], 2, 4)];

/// Threads of a warp and of a warpgroup.
const LANES: usize = 32;
const WARPGROUP: usize = 128;
/// Bytes of a line of a stage that wgmma reads.
const LINE: usize = 128;
/// The alignment of stages in bytes.
const SWIZZLE_ALIGNMENT: usize = 1024;
/// Bytes of a warp's staging buffer for the store.
const STAGING: usize = 16 * LINE;

impl fmt::Display for Tile {
    /// Formats the tile as `128x128x8, 8x8 a thread`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.block;
        write!(out, "{m}x{n}x{k}, ")?;
        match self.partition {
            Partition::Thread([m, n]) => write!(out, "{m}x{n} a thread"),
            Partition::Lanes { warp, thread } => {
                write!(out, "{}x{} a warp, {}x{} a thread", warp[0], warp[1], thread[0], thread[1])
            }
            Partition::Warp([m, n]) => write!(out, "{m}x{n} a warp, {} stages", self.stages),
            Partition::Warpgroups(consumers) => {
                write!(out, "{}x{n} a warpgroup, {} stages", m / consumers, self.stages)
            }
        }
    }
}

impl Tile {
    pub(crate) fn threads(&self, rung: Rung) -> usize {
        let [m, n, _] = self.block;
        match self.partition {
            Partition::Thread(part) | Partition::Lanes { thread: part, .. } => m / part[0] * (n / part[1]),
            Partition::Warp(part) => m / part[0] * (n / part[1]) * LANES,
            Partition::Warpgroups(consumers) => (consumers + usize::from(rung.is_persistent())) * WARPGROUP,
        }
    }

    /// Returns the bytes of dynamic shared memory.
    pub(crate) fn shared_bytes(&self) -> usize {
        let [m, n, k] = self.block;
        let size = DType::BF16.size();
        match self.partition {
            // These kernels use static arrays.
            Partition::Thread(_) | Partition::Lanes { .. } => 0,
            Partition::Warp(_) => self.stages * (m + n) * k * size,
            Partition::Warpgroups(consumers) => {
                let out = consumers * WARPGROUP / LANES * STAGING;
                self.stages * (m + n) * LINE + out + 2 * 8 * self.stages + SWIZZLE_ALIGNMENT
            }
        }
    }
}

impl Rung {
    /// Every rung, in the order of the ladder.
    pub const ALL: [Rung; 13] = [
        Rung::Naive,
        Rung::Coalesced,
        Rung::SharedMemory,
        Rung::BlockTile1d,
        Rung::BlockTile2d,
        Rung::Vectorized,
        Rung::AutotunedTile,
        Rung::WarpTile,
        Rung::DoubleBuffered,
        Rung::MmaSync,
        Rung::WgmmaTma,
        Rung::WarpSpecialized,
        Rung::Multicast,
    ];

    /// Returns the name in records of measurements and in messages: `block_tile_2d`.
    pub fn name(self) -> &'static str {
        self.properties().0
    }

    /// Returns its root file in `kernels/`.
    pub(crate) fn file(self) -> &'static str {
        self.properties().1
    }

    /// Returns the tiles that it is compiled with: one, or several candidates for autotuning.
    pub fn tiles(self) -> &'static [Tile] {
        self.properties().2
    }

    fn properties(self) -> (&'static str, &'static str, &'static [Tile]) {
        match self {
            Rung::Naive => ("naive", "ladder/01_naive.cu", ELEMENT),
            Rung::Coalesced => ("coalesced", "ladder/02_coalesced.cu", ELEMENT),
            Rung::SharedMemory => ("shared_memory", "ladder/03_shared_memory.cu", ELEMENT),
            Rung::BlockTile1d => ("block_tile_1d", "ladder/04_block_tile_1d.cu", COLUMN),
            Rung::BlockTile2d => ("block_tile_2d", "ladder/05_block_tile_2d.cu", SQUARE),
            Rung::Vectorized => ("vectorized", "ladder/06_vectorized.cu", SQUARE),
            Rung::AutotunedTile => ("autotuned_tile", "ladder/06_vectorized.cu", CANDIDATES),
            Rung::WarpTile => ("warp_tile", "ladder/07_warp_tile.cu", WARP),
            Rung::DoubleBuffered => ("double_buffered", "ladder/08_double_buffered.cu", WARP),
            Rung::MmaSync => ("mma_sync", "ladder/09_mma_sync.cu", MMA),
            Rung::WgmmaTma => ("wgmma_tma", "ladder/10_wgmma_tma.cu", WGMMA),
            Rung::WarpSpecialized => ("warp_specialized", "ladder/11_warp_specialized.cu", SPECIALIZED),
            Rung::Multicast => ("multicast", "ladder/12_multicast.cu", SPECIALIZED),
        }
    }

    /// Returns the dtype of a, b and y; sums are f32.
    pub fn dtype(self) -> DType {
        match self {
            Rung::MmaSync | Rung::WgmmaTma | Rung::WarpSpecialized | Rung::Multicast => DType::BF16,
            _ => DType::F32,
        }
    }

    /// Returns what n and k must be multiples of: the elements of an access. m is not restricted.
    pub fn multiple(self) -> usize {
        match self {
            Rung::Naive | Rung::Coalesced | Rung::SharedMemory | Rung::BlockTile1d | Rung::BlockTile2d => 1,
            // 16 bytes.
            _ => 16 / self.dtype().size(),
        }
    }

    pub(crate) fn uses_tensor_maps(self) -> bool {
        matches!(self, Rung::WgmmaTma | Rung::WarpSpecialized | Rung::Multicast)
    }

    /// Returns whether blocks are persistent and compute one tile after another.
    pub(crate) fn is_persistent(self) -> bool {
        matches!(self, Rung::WarpSpecialized | Rung::Multicast)
    }

    /// Returns the blocks of a cluster, which compute adjacent tiles along m.
    pub(crate) fn cluster(self) -> usize {
        if self == Rung::Multicast { 2 } else { 1 }
    }

    pub(crate) fn architectures(self) -> Architectures {
        if self.uses_tensor_maps() { Architectures::Exact((9, 0)) } else { Architectures::ALL }
    }
}

/// A rung with one of its tiles.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LadderVariant {
    pub(crate) rung: Rung,
    pub(crate) tile: &'static Tile,
}

/// Returns every rung with each of its tiles.
pub(crate) fn variants() -> impl Iterator<Item = LadderVariant> {
    let of_rung = |rung: Rung| rung.tiles().iter().map(move |tile| LadderVariant { rung, tile });
    Rung::ALL.into_iter().flat_map(of_rung)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_a_multiprocessor() {
        for LadderVariant { rung, tile } in variants() {
            let (threads, shared_bytes) = (tile.threads(rung), tile.shared_bytes());
            assert!(threads.is_multiple_of(LANES) && threads <= 1024, "{rung:?} {tile}: {threads} threads");
            // With compute capability 8.0 a block may have 163 KiB, with 9.0 it may have 227.
            let limit = if rung.uses_tensor_maps() { 227 << 10 } else { 163 << 10 };
            assert!(shared_bytes <= limit, "{rung:?} {tile}: {shared_bytes} bytes");
        }
    }

    #[test]
    fn names_are_unique_and_files_are_in_the_order_of_the_rungs() {
        let names: std::collections::BTreeSet<&str> = Rung::ALL.iter().map(|rung| rung.name()).collect();
        assert_eq!(names.len(), Rung::ALL.len());
        assert!(Rung::ALL.is_sorted_by_key(|rung| rung.file()));
        assert_eq!(Rung::Multicast.tiles()[0].to_string(), "128x256x64, 64x256 a warpgroup, 4 stages");
        assert_eq!(Rung::Vectorized.tiles()[0].to_string(), "128x128x8, 8x8 a thread");
    }

    #[test]
    fn the_tile_of_the_vectorized_rung_is_a_candidate() {
        let tile = &Rung::Vectorized.tiles()[0];
        assert!(Rung::AutotunedTile.tiles().contains(tile), "the search is not worse than no search");
    }
}
