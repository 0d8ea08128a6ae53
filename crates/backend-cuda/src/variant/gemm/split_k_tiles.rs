//! The tiles of f16 and bf16 for products of few rows or tiles, with split-K among the blocks of a
//! cluster (`gemm/wgmma_split_k.cu`). The comment of a tile says which products it is for.

use super::{BlockShape, Cost, Engine, Part, Purpose, Tile};

/// At most 16 rows, as when a model decodes. As many stages as two resident blocks of a
/// multiprocessor have room for.
pub(crate) static WGMMASPLITK_16X64X64: Tile = Tile {
    name: "wgmmasplitk_16x64x64",
    engine: Engine::WgmmaSplitK,
    block: BlockShape { m: 16, n: 64, k: 64 },
    part: Part::SwappedWarpgroup { m: 16, n: 64 },
    stages: 11,
    resident: 2,
    cluster: 1,
    purpose: Purpose::FewRows,
    cost: Cost {
        nanoseconds_per_k: 1.72,
        start_microseconds: 2.5,
        lone_block_factor: 1.0,
        wave_microseconds: 2.44,
    },
};

/// At most 32 rows.
pub(crate) static WGMMASPLITK_32X64X64: Tile = Tile {
    name: "wgmmasplitk_32x64x64",
    engine: Engine::WgmmaSplitK,
    block: BlockShape { m: 32, n: 64, k: 64 },
    part: Part::SwappedWarpgroup { m: 32, n: 64 },
    stages: 9,
    resident: 2,
    cluster: 1,
    purpose: Purpose::FewRows,
    cost: Cost {
        nanoseconds_per_k: 1.8,
        start_microseconds: 3.0,
        lone_block_factor: 1.0,
        wave_microseconds: 2.17,
    },
};

/// Few tiles.
pub(crate) static WGMMASPLITK_64X64X64: Tile = Tile {
    name: "wgmmasplitk_64x64x64",
    engine: Engine::WgmmaSplitK,
    block: BlockShape { m: 64, n: 64, k: 64 },
    part: Part::SwappedWarpgroup { m: 64, n: 64 },
    stages: 6,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 2.46,
        start_microseconds: 2.04,
        lone_block_factor: 1.09,
        wave_microseconds: 3.31,
    },
};
