//! The tiles of f16 and bf16 on warpgroups (`gemm/wgmma.cu`). The comment of a tile says which
//! products it is for.

use super::{BlockShape, Cost, Engine, Part, Purpose, Tile};

/// Large products of f16 and bf16 on compute capability 9.0.
pub(crate) static WGMMA_128X256X64: Tile = Tile {
    name: "wgmma_128x256x64",
    engine: Engine::Wgmma,
    block: BlockShape { m: 128, n: 256, k: 64 },
    part: Part::Warpgroup { m: 64, n: 256 },
    stages: 4,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 8.27,
        start_microseconds: 6.0,
        lone_block_factor: 1.0,
        wave_microseconds: 0.255,
    },
};

/// As `WGMMA_128X256X64`, in clusters.
pub(crate) static WGMMA_128X256X64_CLUSTER: Tile = Tile {
    name: "wgmma_128x256x64_cluster",
    engine: Engine::Wgmma,
    block: BlockShape { m: 128, n: 256, k: 64 },
    part: Part::Warpgroup { m: 64, n: 256 },
    stages: 4,
    resident: 1,
    cluster: 2,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 9.3,
        start_microseconds: 6.29,
        lone_block_factor: 1.0,
        wave_microseconds: 0.326,
    },
};

/// Short k, where the epilogue takes a large part of the time: one consumer stores while the other
/// one multiplies.
pub(crate) static WGMMA_128X192X64_PING_PONG: Tile = Tile {
    name: "wgmma_128x192x64_ping_pong",
    engine: Engine::Wgmma,
    block: BlockShape { m: 128, n: 192, k: 64 },
    part: Part::Warpgroup { m: 128, n: 192 },
    stages: 4,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 5.92,
        start_microseconds: 6.42,
        lone_block_factor: 1.0,
        wave_microseconds: 0.0,
    },
};

/// Waves that larger tiles do not fill.
pub(crate) static WGMMA_128X128X64_PING_PONG: Tile = Tile {
    name: "wgmma_128x128x64_ping_pong",
    engine: Engine::Wgmma,
    block: BlockShape { m: 128, n: 128, k: 64 },
    part: Part::Warpgroup { m: 128, n: 128 },
    stages: 6,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 3.8,
        start_microseconds: 5.9,
        lone_block_factor: 1.13,
        wave_microseconds: 0.0,
    },
};

/// As many tiles as multiprocessors, in clusters of 2 x 2 tiles.
pub(crate) static WGMMA_128X128X64_CLUSTER4: Tile = Tile {
    name: "wgmma_128x128x64_cluster4",
    engine: Engine::Wgmma,
    block: BlockShape { m: 128, n: 128, k: 64 },
    part: Part::Warpgroup { m: 64, n: 128 },
    stages: 6,
    resident: 1,
    cluster: 4,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 4.58,
        start_microseconds: 3.51,
        lone_block_factor: 1.0,
        wave_microseconds: 2.22,
    },
};

/// Fewer tiles.
pub(crate) static WGMMA_64X128X64_PING_PONG: Tile = Tile {
    name: "wgmma_64x128x64_ping_pong",
    engine: Engine::Wgmma,
    block: BlockShape { m: 64, n: 128, k: 64 },
    part: Part::Warpgroup { m: 64, n: 128 },
    stages: 8,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 2.17,
        start_microseconds: 5.22,
        lone_block_factor: 1.15,
        wave_microseconds: 0.0,
    },
};

/// Lines that are not aligned to 128 bytes: a block of a cluster loads fewer of them, because it
/// shares them with the other block.
pub(crate) static WGMMA_64X128X64_CLUSTER: Tile = Tile {
    name: "wgmma_64x128x64_cluster",
    engine: Engine::Wgmma,
    block: BlockShape { m: 64, n: 128, k: 64 },
    part: Part::Warpgroup { m: 64, n: 128 },
    stages: 8,
    resident: 1,
    cluster: 2,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 3.29,
        start_microseconds: 5.11,
        lone_block_factor: 1.0,
        wave_microseconds: 0.0856,
    },
};

/// Even fewer tiles; few rows.
pub(crate) static WGMMA_64X64X64_PING_PONG: Tile = Tile {
    name: "wgmma_64x64x64_ping_pong",
    engine: Engine::Wgmma,
    block: BlockShape { m: 64, n: 64, k: 64 },
    part: Part::Warpgroup { m: 64, n: 64 },
    stages: 8,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 1.71,
        start_microseconds: 4.87,
        lone_block_factor: 1.35,
        wave_microseconds: 0.0641,
    },
};
