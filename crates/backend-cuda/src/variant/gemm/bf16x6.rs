//! f32 products on bf16 tensor cores (bf16x6): the tiles, and their variants. The comment of a tile
//! says which products it is for.

use super::{BlockShape, Cost, Engine, EpilogueVariant, GemmVariant, LoadMode, Part, Purpose, Tile};
use ternion_core::DType;

/// Large products.
pub(crate) static WGMMABF16X6_128X192X32: Tile = Tile {
    name: "wgmmabf16x6_128x192x32",
    engine: Engine::WgmmaBf16x6,
    block: BlockShape { m: 128, n: 192, k: 32 },
    part: Part::Warpgroup { m: 64, n: 192 },
    stages: 3,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 40.4,
        start_microseconds: 0.0,
        lone_block_factor: 1.0,
        wave_microseconds: 4.76,
    },
};

/// Waves that larger tiles do not fill.
pub(crate) static WGMMABF16X6_128X128X32: Tile = Tile {
    name: "wgmmabf16x6_128x128x32",
    engine: Engine::WgmmaBf16x6,
    block: BlockShape { m: 128, n: 128, k: 32 },
    part: Part::Warpgroup { m: 64, n: 128 },
    stages: 4,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 28.3,
        start_microseconds: 0.0821,
        lone_block_factor: 1.0,
        wave_microseconds: 3.46,
    },
};

/// Tiles that multiply f32 as bf16x6, in addition to the SIMT tiles of f32.
pub(crate) static BF16X6_TILES: [&Tile; 2] = [&WGMMABF16X6_128X192X32, &WGMMABF16X6_128X128X32];

/// Returns the variants of bf16x6 products, stored in f32.
pub(super) fn bf16x6_variants() -> impl Iterator<Item = GemmVariant> {
    let loads = [LoadMode::KMajor, LoadMode::MnMajor];
    let pairs = loads.into_iter().flat_map(move |a| loads.map(|b| [a, b]));
    pairs.flat_map(|[a, b]| {
        BF16X6_TILES.map(|tile| GemmVariant {
            tile,
            a,
            b,
            operands: DType::BF16,
            output: DType::F32,
            epilogue: EpilogueVariant::BiasRelu,
        })
    })
}
