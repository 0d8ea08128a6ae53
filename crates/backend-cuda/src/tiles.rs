//! The tiles of matrix products by name, for measurements: runs products with a tile chosen by the
//! caller, and reports what a product was launched with. The costs of tiles are fitted to such
//! measurements (`ternion-bench tiles`, `benches/peers/fit_tiles.py`).

use crate::backend::CudaBackend;
use crate::variant::gemm::{BF16X6_TILES, Cost, MmaInput, Tile, tiles};
use crate::variant::wrapping_like;
use std::cell::Cell;
use ternion_core::DType;

/// The type of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Elements of a dtype, unchanged.
    Of(DType),
    /// f32 elements, rounded to TF32.
    Tf32,
    /// f32 elements, split into bf16 terms (bf16x6).
    Bf16x6,
}

/// A tile and its cost in the cost model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileCost {
    /// Its name, as in `docs/kernels/matmul.md`.
    pub name: &'static str,
    /// Rows and columns of the result, and the length of k in one stage.
    pub block: [usize; 3],
    /// Resident blocks of a multiprocessor.
    pub resident: usize,
    /// Nanoseconds that a fully occupied multiprocessor needs for a tile, per element of k.
    pub nanoseconds_per_k: f64,
    /// Microseconds from the launch to the first products, plus those from the last products to the
    /// end.
    pub start_microseconds: f64,
    /// The factor by which a block takes longer if it is the only one on its multiprocessor.
    pub lone_block_factor: f64,
    /// Microseconds for the begin and end of a wave of blocks.
    pub wave_microseconds: f64,
    /// Blocks of a cluster: two have consecutive tiles along the rows, four have two rows of two
    /// tiles.
    pub cluster: usize,
}

impl From<&'static Tile> for TileCost {
    fn from(tile: &'static Tile) -> TileCost {
        let Cost { nanoseconds_per_k, start_microseconds, lone_block_factor, wave_microseconds } = tile.cost;
        TileCost {
            name: tile.name,
            block: [tile.block.m, tile.block.n, tile.block.k],
            resident: tile.resident,
            nanoseconds_per_k,
            start_microseconds,
            lone_block_factor,
            wave_microseconds,
            cluster: tile.cluster,
        }
    }
}

/// Returns the tiles for these operands that the backend's device supports: it has their
/// instructions and enough shared memory.
pub fn of(backend: &CudaBackend, operands: Operands) -> Vec<TileCost> {
    let (list, dtype) = match operands {
        Operands::Of(dtype) => (tiles(MmaInput::Of(wrapping_like(dtype))), dtype),
        Operands::Tf32 => (tiles(MmaInput::Tf32), DType::F32),
        Operands::Bf16x6 => (&BF16X6_TILES[..], DType::BF16),
    };
    let architecture = backend.gpu.architecture();
    let max_shared_memory = backend.gpu.max_shared_memory();
    let is_supported = |tile: &&Tile| {
        tile.engine.architectures().contain(architecture) && tile.max_shared_bytes(dtype) <= max_shared_memory
    };
    list.iter().copied().filter(|tile| is_supported(tile)).map(TileCost::from).collect()
}

/// Returns the number of multiprocessors of the backend's device, which predictions use.
pub fn multiprocessors(backend: &CudaBackend) -> usize {
    backend.gpu.multiprocessors()
}

/// How products are to be launched. A field that is `None` leaves the choice to the cost model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileOverride {
    /// The name of a tile.
    pub tile: Option<&'static str>,
    /// The number of ranges of k for split-K.
    pub splits: Option<usize>,
}

/// How a product was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedTile {
    /// The name of the tile.
    pub tile: &'static str,
    /// The number of ranges of k for split-K.
    pub splits: usize,
    /// The number of operands that were copied first.
    pub copies: usize,
    /// Whether the product's kernel also computes the parts of the epilogue beyond bias and relu.
    pub is_fused: bool,
}

thread_local! {
    static TILE_OVERRIDE: Cell<TileOverride> = const { Cell::new(TileOverride { tile: None, splits: None }) };
    static LAUNCHED_TILE: Cell<Option<LaunchedTile>> = const { Cell::new(None) };
}

/// Runs `products` with this thread's matrix products launched as `tile_override` says, where that
/// is possible, otherwise as usual. Also returns how the last product with new sizes was launched.
pub fn with_tile<R>(tile_override: TileOverride, products: impl FnOnce() -> R) -> (R, Option<LaunchedTile>) {
    struct Restore(TileOverride);
    impl Drop for Restore {
        fn drop(&mut self) {
            TILE_OVERRIDE.set(self.0);
            crate::ops::matmul::clear_choices();
        }
    }
    let restore = Restore(TILE_OVERRIDE.replace(tile_override));
    crate::ops::matmul::clear_choices();
    LAUNCHED_TILE.set(None);
    let result = products();
    drop(restore);
    (result, LAUNCHED_TILE.take())
}

/// Returns how products of this thread are to be launched.
pub(crate) fn tile_override() -> TileOverride {
    TILE_OVERRIDE.get()
}

/// Records how a product is launched.
pub(crate) fn record_tile(launched: LaunchedTile) {
    LAUNCHED_TILE.set(Some(launched));
}

impl TileOverride {
    /// Returns whether this tile may be used: it is the requested one, or none is requested.
    pub(crate) fn admits(self, tile: &Tile) -> bool {
        self.tile.is_none_or(|name| name == tile.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_ends_with_the_products_also_where_they_panic() {
        let tile = TileOverride { tile: Some("mma_64x64x64"), splits: Some(3) };
        let (inside, launched) = with_tile(tile, tile_override);
        assert_eq!((inside, launched), (tile, None));
        assert_eq!(tile_override(), TileOverride::default());
        let panicked = std::panic::catch_unwind(|| with_tile(tile, || panic!("a fault of the caller")));
        assert!(panicked.is_err());
        assert_eq!(tile_override(), TileOverride::default());
    }

    #[test]
    fn what_is_recorded_inside_is_returned() {
        let record_one =
            || record_tile(LaunchedTile { tile: "mma_64x64x64", splits: 2, copies: 0, is_fused: false });
        assert_eq!(with_tile(TileOverride::default(), record_one).1.map(|launched| launched.splits), Some(2));
    }
}
