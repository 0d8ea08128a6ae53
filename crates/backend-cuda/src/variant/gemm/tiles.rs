//! The tables of tiles. The comment of a tile says which products it is for. (More tiles were
//! tried: see `docs/kernels/matmul.md`.)

use super::{
    BlockShape, Cost, Engine, MmaInput, Part, Purpose, Tile, WGMMA_64X64X64_PING_PONG,
    WGMMA_64X128X64_CLUSTER, WGMMA_64X128X64_PING_PONG, WGMMA_128X128X64_CLUSTER4,
    WGMMA_128X128X64_PING_PONG, WGMMA_128X192X64_PING_PONG, WGMMA_128X256X64, WGMMA_128X256X64_CLUSTER,
    WGMMASPLITK_16X64X64, WGMMASPLITK_32X64X64, WGMMASPLITK_64X64X64,
};
use ternion_core::DType;

/// Large products of f32 and i32.
pub(crate) static SIMT_128X256X8: Tile = Tile {
    name: "simt_128x256x8",
    engine: Engine::Simt,
    block: BlockShape { m: 128, n: 256, k: 8 },
    part: Part::Thread { m: 8, n: 16, lanes_m: 8 },
    stages: 4,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 166.0,
        start_microseconds: 3.95,
        lone_block_factor: 1.01,
        wave_microseconds: 9.5,
    },
};

/// Medium-sized products.
pub(crate) static SIMT_64X64X8: Tile = Tile {
    name: "simt_64x64x8",
    engine: Engine::Simt,
    block: BlockShape { m: 64, n: 64, k: 8 },
    part: Part::Thread { m: 8, n: 8, lanes_m: 8 },
    stages: 4,
    resident: 6,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 24.7,
        start_microseconds: 3.8,
        lone_block_factor: 1.79,
        wave_microseconds: 4.53,
    },
};

/// Small products; the only tile for narrow integers.
pub(crate) static SIMT_32X32X32: Tile = Tile {
    name: "simt_32x32x32",
    engine: Engine::Simt,
    block: BlockShape { m: 32, n: 32, k: 32 },
    part: Part::Thread { m: 4, n: 4, lanes_m: 4 },
    stages: 3,
    resident: 7,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 7.92,
        start_microseconds: 5.29,
        lone_block_factor: 1.64,
        wave_microseconds: 2.38,
    },
};

/// Few rows.
pub(crate) static SIMT_8X256X32: Tile = Tile {
    name: "simt_8x256x32",
    engine: Engine::Simt,
    block: BlockShape { m: 8, n: 256, k: 32 },
    part: Part::Thread { m: 4, n: 4, lanes_m: 2 },
    stages: 3,
    resident: 2,
    cluster: 1,
    purpose: Purpose::FewRows,
    cost: Cost {
        nanoseconds_per_k: 41.3,
        start_microseconds: 2.49,
        lone_block_factor: 1.0,
        wave_microseconds: 3.68,
    },
};

/// Large products of f64, which has half the rate of f32 and elements of twice the size.
pub(crate) static SIMT_64X128X8: Tile = Tile {
    name: "simt_64x128x8",
    engine: Engine::Simt,
    block: BlockShape { m: 64, n: 128, k: 8 },
    part: Part::Thread { m: 8, n: 8, lanes_m: 8 },
    stages: 3,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 96.0,
        start_microseconds: 2.0,
        lone_block_factor: 1.5,
        wave_microseconds: 4.0,
    },
};

/// Small products of f64; the only tile for i64.
pub(crate) static SIMT_64X64X16: Tile = Tile {
    name: "simt_64x64x16",
    engine: Engine::Simt,
    block: BlockShape { m: 64, n: 64, k: 16 },
    part: Part::Thread { m: 4, n: 4, lanes_m: 4 },
    stages: 3,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 54.0,
        start_microseconds: 2.0,
        lone_block_factor: 1.25,
        wave_microseconds: 1.5,
    },
};

/// Large products of f16 and bf16.
pub(crate) static MMA_128X256X64: Tile = Tile {
    name: "mma_128x256x64",
    engine: Engine::Mma,
    block: BlockShape { m: 128, n: 256, k: 64 },
    part: Part::Warp { m: 64, n: 64 },
    stages: 3,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 14.7,
        start_microseconds: 5.44,
        lone_block_factor: 1.02,
        wave_microseconds: 4.8,
    },
};

/// Fewer tiles than multiprocessors.
pub(crate) static MMA_64X128X64: Tile = Tile {
    name: "mma_64x128x64",
    engine: Engine::Mma,
    block: BlockShape { m: 64, n: 128, k: 64 },
    part: Part::Warp { m: 32, n: 64 },
    stages: 4,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 4.6,
        start_microseconds: 4.25,
        lone_block_factor: 1.34,
        wave_microseconds: 2.55,
    },
};

/// Even fewer tiles.
pub(crate) static MMA_64X64X64: Tile = Tile {
    name: "mma_64x64x64",
    engine: Engine::Mma,
    block: BlockShape { m: 64, n: 64, k: 64 },
    part: Part::Warp { m: 32, n: 32 },
    stages: 4,
    resident: 3,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 2.87,
        start_microseconds: 4.02,
        lone_block_factor: 1.6,
        wave_microseconds: 2.2,
    },
};

/// Small products.
pub(crate) static MMA_32X32X64: Tile = Tile {
    name: "mma_32x32x64",
    engine: Engine::Mma,
    block: BlockShape { m: 32, n: 32, k: 64 },
    part: Part::Warp { m: 16, n: 16 },
    stages: 6,
    resident: 4,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 1.48,
        start_microseconds: 4.06,
        lone_block_factor: 1.53,
        wave_microseconds: 1.93,
    },
};

/// Few rows.
pub(crate) static MMA_16X128X64: Tile = Tile {
    name: "mma_16x128x64",
    engine: Engine::Mma,
    block: BlockShape { m: 16, n: 128, k: 64 },
    part: Part::Warp { m: 16, n: 32 },
    stages: 6,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 2.55,
        start_microseconds: 4.2,
        lone_block_factor: 1.35,
        wave_microseconds: 2.51,
    },
};

/// Operands that are read element by element.
pub(crate) static MMA_32X32X64_ELEMENTWISE: Tile = Tile {
    name: "mma_32x32x64_elementwise",
    engine: Engine::Mma,
    block: BlockShape { m: 32, n: 32, k: 64 },
    part: Part::Warp { m: 16, n: 16 },
    stages: 4,
    resident: 2,
    cluster: 1,
    purpose: Purpose::UnalignedOperands,
    cost: Cost {
        nanoseconds_per_k: 8.1,
        start_microseconds: 4.1,
        lone_block_factor: 1.5,
        wave_microseconds: 3.7,
    },
};

/// Large products of f32 in TF32: as many bytes as for f16, at half the rate.
pub(crate) static TF32_128X256X32: Tile = Tile {
    name: "tf32_128x256x32",
    engine: Engine::Tf32,
    block: BlockShape { m: 128, n: 256, k: 32 },
    part: Part::Warp { m: 64, n: 64 },
    stages: 3,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 38.5,
        start_microseconds: 4.67,
        lone_block_factor: 1.0,
        wave_microseconds: 4.68,
    },
};

/// Fewer tiles than multiprocessors.
pub(crate) static TF32_64X128X32: Tile = Tile {
    name: "tf32_64x128x32",
    engine: Engine::Tf32,
    block: BlockShape { m: 64, n: 128, k: 32 },
    part: Part::Warp { m: 32, n: 64 },
    stages: 4,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 10.8,
        start_microseconds: 5.44,
        lone_block_factor: 1.34,
        wave_microseconds: 4.15,
    },
};

/// Even fewer tiles.
pub(crate) static TF32_64X64X32: Tile = Tile {
    name: "tf32_64x64x32",
    engine: Engine::Tf32,
    block: BlockShape { m: 64, n: 64, k: 32 },
    part: Part::Warp { m: 32, n: 32 },
    stages: 4,
    resident: 3,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 5.8,
        start_microseconds: 4.76,
        lone_block_factor: 1.64,
        wave_microseconds: 2.75,
    },
};

/// Small products.
pub(crate) static TF32_32X32X32: Tile = Tile {
    name: "tf32_32x32x32",
    engine: Engine::Tf32,
    block: BlockShape { m: 32, n: 32, k: 32 },
    part: Part::Warp { m: 16, n: 16 },
    stages: 6,
    resident: 4,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 2.5,
        start_microseconds: 4.26,
        lone_block_factor: 1.89,
        wave_microseconds: 2.03,
    },
};

/// Few rows.
pub(crate) static TF32_16X128X32: Tile = Tile {
    name: "tf32_16x128x32",
    engine: Engine::Tf32,
    block: BlockShape { m: 16, n: 128, k: 32 },
    part: Part::Warp { m: 16, n: 32 },
    stages: 6,
    resident: 2,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 5.6,
        start_microseconds: 4.33,
        lone_block_factor: 1.42,
        wave_microseconds: 2.45,
    },
};

/// Operands that are read element by element.
pub(crate) static TF32_32X32X32_ELEMENTWISE: Tile = Tile {
    name: "tf32_32x32x32_elementwise",
    engine: Engine::Tf32,
    block: BlockShape { m: 32, n: 32, k: 32 },
    part: Part::Warp { m: 16, n: 16 },
    stages: 4,
    resident: 4,
    cluster: 1,
    purpose: Purpose::UnalignedOperands,
    cost: Cost {
        nanoseconds_per_k: 8.1,
        start_microseconds: 4.5,
        lone_block_factor: 1.5,
        wave_microseconds: 3.7,
    },
};

/// Large products in TF32 on compute capability 9.0.
pub(crate) static WGMMATF32_128X256X32: Tile = Tile {
    name: "wgmmatf32_128x256x32",
    engine: Engine::WgmmaTf32,
    block: BlockShape { m: 128, n: 256, k: 32 },
    part: Part::Warpgroup { m: 64, n: 256 },
    stages: 4,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 16.7,
        start_microseconds: 6.99,
        lone_block_factor: 1.0,
        wave_microseconds: 0.945,
    },
};

/// Short k.
pub(crate) static WGMMATF32_128X192X32_PING_PONG: Tile = Tile {
    name: "wgmmatf32_128x192x32_ping_pong",
    engine: Engine::WgmmaTf32,
    block: BlockShape { m: 128, n: 192, k: 32 },
    part: Part::Warpgroup { m: 128, n: 192 },
    stages: 4,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 12.3,
        start_microseconds: 7.98,
        lone_block_factor: 1.05,
        wave_microseconds: 0.114,
    },
};

/// Waves that larger tiles do not fill.
pub(crate) static WGMMATF32_128X128X32_PING_PONG: Tile = Tile {
    name: "wgmmatf32_128x128x32_ping_pong",
    engine: Engine::WgmmaTf32,
    block: BlockShape { m: 128, n: 128, k: 32 },
    part: Part::Warpgroup { m: 128, n: 128 },
    stages: 6,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 9.77,
        start_microseconds: 7.06,
        lone_block_factor: 1.0,
        wave_microseconds: 0.0514,
    },
};

/// Few tiles.
pub(crate) static WGMMATF32_64X128X32_PING_PONG: Tile = Tile {
    name: "wgmmatf32_64x128x32_ping_pong",
    engine: Engine::WgmmaTf32,
    block: BlockShape { m: 64, n: 128, k: 32 },
    part: Part::Warpgroup { m: 64, n: 128 },
    stages: 8,
    resident: 1,
    cluster: 1,
    purpose: Purpose::Any,
    cost: Cost {
        nanoseconds_per_k: 5.58,
        start_microseconds: 6.36,
        lone_block_factor: 1.0,
        wave_microseconds: 0.0208,
    },
};

/// Tiles of f32 and i32.
static SIMT: [&Tile; 4] = [&SIMT_128X256X8, &SIMT_64X64X8, &SIMT_32X32X32, &SIMT_8X256X32];
/// Tiles of f64.
static DOUBLE: [&Tile; 2] = [&SIMT_64X128X8, &SIMT_64X64X16];
/// Tiles of f16 and bf16 on tensor cores.
static MMA: [&Tile; 17] = [
    &WGMMA_128X256X64,
    &WGMMA_128X256X64_CLUSTER,
    &WGMMA_128X192X64_PING_PONG,
    &WGMMA_128X128X64_PING_PONG,
    &WGMMA_128X128X64_CLUSTER4,
    &WGMMA_64X128X64_PING_PONG,
    &WGMMA_64X128X64_CLUSTER,
    &WGMMA_64X64X64_PING_PONG,
    &WGMMASPLITK_16X64X64,
    &WGMMASPLITK_32X64X64,
    &WGMMASPLITK_64X64X64,
    &MMA_128X256X64,
    &MMA_64X128X64,
    &MMA_64X64X64,
    &MMA_32X32X64,
    &MMA_16X128X64,
    &MMA_32X32X64_ELEMENTWISE,
];
/// Tiles whose kernels are fused with more than bias and relu.
pub(crate) static FUSED_TILES: [&Tile; 3] =
    [&WGMMA_128X256X64, &WGMMA_128X192X64_PING_PONG, &WGMMA_128X128X64_PING_PONG];
/// Tiles that also add the rows of a.
pub(crate) static ROW_SUM_TILES: [&Tile; 3] =
    [&WGMMA_128X256X64, &WGMMA_128X192X64_PING_PONG, &WGMMA_128X128X64_PING_PONG];
/// Tiles of f32 that is rounded to TF32.
static TF32: [&Tile; 10] = [
    &WGMMATF32_128X256X32,
    &WGMMATF32_128X192X32_PING_PONG,
    &WGMMATF32_128X128X32_PING_PONG,
    &WGMMATF32_64X128X32_PING_PONG,
    &TF32_128X256X32,
    &TF32_64X128X32,
    &TF32_64X64X32,
    &TF32_32X32X32,
    &TF32_16X128X32,
    &TF32_32X32X32_ELEMENTWISE,
];

/// Returns the tiles for products of this input type. Narrow integers and i64 have only the small
/// tile.
pub(crate) fn tiles(input: MmaInput) -> &'static [&'static Tile] {
    match input {
        MmaInput::Tf32 => &TF32,
        MmaInput::Of(DType::F16 | DType::BF16) => &MMA,
        MmaInput::Of(DType::F64) => &DOUBLE,
        MmaInput::Of(DType::I64) => &DOUBLE[1..],
        MmaInput::Of(DType::I16 | DType::I8 | DType::U8) => &SIMT[2..3],
        MmaInput::Of(_) | MmaInput::Bf16x6 => &SIMT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::Architectures;
    use crate::variant::gemm::{BF16X6_TILES, EpilogueVariant, GemmVariant, LoadMode, variants};

    #[test]
    fn tiles_are_named_by_their_sizes() {
        for tile in MmaInput::all().flat_map(tiles).copied().chain(BF16X6_TILES) {
            let engine = format!("{:?}", tile.engine).to_lowercase();
            let BlockShape { m, n, k } = tile.block;
            let suffix = match tile.purpose {
                Purpose::UnalignedOperands => "_elementwise".into(),
                _ if tile.cluster > 2 => format!("_cluster{}", tile.cluster),
                _ if tile.cluster > 1 => "_cluster".into(),
                _ if tile.is_ping_pong() => "_ping_pong".into(),
                _ => String::new(),
            };
            assert_eq!(tile.name, format!("{engine}_{m}x{n}x{k}{suffix}"));
        }
    }

    #[test]
    fn tiles_are_of_engines_for_their_input() {
        for input in MmaInput::all() {
            for tile in tiles(input) {
                assert_eq!(tile.engine.uses_tensor_cores(), input.uses_tensor_cores(), "{tile:?}");
                assert_eq!(!matches!(tile.part, Part::Thread { .. }), tile.engine.uses_tensor_cores());
            }
        }
    }

    /// Returns the load modes of a variant, whether it swaps a and b, and whether one of them is
    /// read from registers.
    fn load_properties(variant: &GemmVariant) -> ([LoadMode; 2], bool, bool) {
        ([variant.a, variant.b], variant.swaps_operands(), variant.reads_registers())
    }

    #[test]
    fn wgmma_tiles_support_one_mn_major_operand_in_tf32_and_two_in_half_precision() {
        const K: LoadMode = LoadMode::KMajor;
        const MN: LoadMode = LoadMode::MnMajor;
        let all = variants();
        for &tile in TF32.iter().chain(&MMA).filter(|tile| tile.engine.uses_tensor_maps()) {
            let of_tile = all.iter().filter(|variant| variant.tile == tile && variant.output == DType::F32);
            let simple = of_tile.filter(|variant| variant.epilogue == EpilogueVariant::BiasRelu);
            let found: Vec<_> =
                simple.filter(|variant| variant.operands != DType::F16).map(load_properties).collect();
            let expected = match tile.engine {
                Engine::WgmmaTf32 => {
                    vec![([K, K], false, false), ([K, MN], true, true), ([MN, K], false, true)]
                }
                Engine::WgmmaSplitK if tile.block.m < 64 => {
                    [[K, K], [K, MN]].map(|loads| (loads, false, false)).to_vec()
                }
                _ => [[K, K], [K, MN], [MN, K], [MN, MN]].map(|loads| (loads, false, false)).to_vec(),
            };
            assert_eq!(found, expected, "{tile:?}");
        }
    }

    /// Checks wgmma tiles with several resident blocks, including the shared memory that the device
    /// reserves for each block.
    #[test]
    fn blocks_that_are_to_be_resident_fit_a_multiprocessor() {
        const MULTIPROCESSOR_BYTES: usize = 228 << 10;
        const RESERVED_BYTES: usize = 1 << 10;
        for tile in MMA.into_iter().chain(TF32).filter(|tile| tile.engine.uses_tensor_maps()) {
            let bytes = tile.resident * (tile.max_shared_bytes(DType::BF16) + RESERVED_BYTES);
            assert!(bytes <= MULTIPROCESSOR_BYTES, "{tile:?}: {bytes} bytes");
        }
    }

    #[test]
    fn every_input_has_a_tile_for_every_device() {
        for input in MmaInput::all() {
            let everywhere = |tile: &&Tile| {
                tile.purpose == Purpose::Any && tile.engine.architectures() == Architectures::ALL
            };
            assert!(tiles(input).iter().copied().any(|tile| everywhere(&tile)), "{input:?}");
        }
    }
}
