//! The tiles of matrix products by name, for those who measure them: products run by a tile that they did not choose, and what a product was
//! launched by. Costs of tiles are fitted to such measurements (`ternion-bench tiles`, `benches/peers/fit_tiles.py`).

use crate::backend::CudaBackend;
use crate::variant::gemm::{BF16X6_TILES, Cost, MmaInput, Tile, tiles};
use crate::variant::wrapping_like;
use std::cell::Cell;
use ternion_core::DType;

/// What is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Elements of a dtype as they are.
    Of(DType),
    /// Those of f32, rounded to TF32.
    Tf32,
    /// Those of f32, in parts of bf16.
    Bf16x6,
}

/// A tile, and what the choice takes it to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileCost {
    /// Its name, as in `docs/kernels/matmul.md`.
    pub name: &'static str,
    /// Rows and columns of the result, and the length of the inner axis that a stage holds.
    pub block: [usize; 3],
    /// Blocks on a multiprocessor.
    pub resident: usize,
    /// Nanoseconds that a full multiprocessor needs for a tile, per inner element.
    pub nanoseconds_per_k: f64,
    /// Microseconds from a launch to the first products, and from the last ones to its end.
    pub start_microseconds: f64,
    /// How much longer a block takes that has a multiprocessor alone.
    pub lone_block_factor: f64,
    /// Microseconds that a wave of blocks takes to begin and end.
    pub wave_microseconds: f64,
    /// Blocks of a cluster: two have tiles below each other, four two rows of two tiles.
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

/// The tiles for such operands that the backend's device has instructions and memory for.
pub fn of(backend: &CudaBackend, operands: Operands) -> Vec<TileCost> {
    let (list, dtype) = match operands {
        Operands::Of(dtype) => (tiles(MmaInput::Of(wrapping_like(dtype))), dtype),
        Operands::Tf32 => (tiles(MmaInput::Tf32), DType::F32),
        Operands::Bf16x6 => (&BF16X6_TILES[..], DType::BF16),
    };
    let architecture = backend.gpu.architecture();
    let room = backend.gpu.shared_memory();
    let runs =
        |tile: &&Tile| tile.engine.architectures().contain(architecture) && tile.most_shared(dtype) <= room;
    list.iter().copied().filter(|tile| runs(tile)).map(TileCost::from).collect()
}

/// The multiprocessors of the backend's device, which predictions count by.
pub fn multiprocessors(backend: &CudaBackend) -> usize {
    backend.gpu.multiprocessors()
}

/// What products are to be launched by; what is none is chosen as ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The name of a tile.
    pub tile: Option<&'static str>,
    /// Parts that sums are cut into.
    pub splits: Option<usize>,
}

/// What a product was launched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The name of the tile.
    pub tile: &'static str,
    /// Parts that sums were cut into.
    pub splits: usize,
    /// Operands that were copied first.
    pub copies: usize,
    /// Whether its own kernel does what follows the sums beyond bias and relu.
    pub is_fused: bool,
}

thread_local! {
    static WANTED: Cell<Wanted> = const { Cell::new(Wanted { tile: None, splits: None }) };
    static TAKEN: Cell<Option<Taken>> = const { Cell::new(None) };
}

/// Runs `products` with the matrix products of this thread launched by what is wanted, where that serves, else as ever; and what the last of them whose
/// sizes were new was launched by.
pub fn with_tile<R>(wanted: Wanted, products: impl FnOnce() -> R) -> (R, Option<Taken>) {
    struct Restore(Wanted);
    impl Drop for Restore {
        fn drop(&mut self) {
            WANTED.set(self.0);
            crate::ops::matmul::forget_choices();
        }
    }
    let restore = Restore(WANTED.replace(wanted));
    crate::ops::matmul::forget_choices();
    TAKEN.set(None);
    let result = products();
    drop(restore);
    (result, TAKEN.take())
}

/// What products of this thread are to be launched by.
pub(crate) fn wanted() -> Wanted {
    WANTED.get()
}

/// Keeps what a product is launched by.
pub(crate) fn note_taken(taken: Taken) {
    TAKEN.set(Some(taken));
}

impl Wanted {
    /// Whether the tile is wanted, or any.
    pub(crate) fn admits(self, tile: &Tile) -> bool {
        self.tile.is_none_or(|name| name == tile.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_ends_with_the_products_also_where_they_panic() {
        let tile = Wanted { tile: Some("mma_64x64x64"), splits: Some(3) };
        let (inside, taken) = with_tile(tile, wanted);
        assert_eq!((inside, taken), (tile, None));
        assert_eq!(wanted(), Wanted::default());
        let panicked = std::panic::catch_unwind(|| with_tile(tile, || panic!("a fault of the caller")));
        assert!(panicked.is_err());
        assert_eq!(wanted(), Wanted::default());
    }

    #[test]
    fn what_is_noted_inside_is_taken() {
        let note_one = || note_taken(Taken { tile: "mma_64x64x64", splits: 2, copies: 0, is_fused: false });
        assert_eq!(with_tile(Wanted::default(), note_one).1.map(|taken| taken.splits), Some(2));
    }
}
