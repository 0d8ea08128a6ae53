//! Tests of which tile is chosen for which product.

use super::choice::{choose, choose_among, faster_bf16x6, with_epilogue};
use super::*;
use crate::tiles::{TileOverride, with_tile};
use crate::variant::Architectures;
use crate::variant::elementwise::Activation;
use crate::variant::gemm::*;
use std::sync::atomic::AtomicU64;
use ternion_core::Shape;
use ternion_core::backend::Memory;

const F32: MmaInput = MmaInput::Of(DType::F32);
const F64: MmaInput = MmaInput::Of(DType::F64);
const BF16: MmaInput = MmaInput::Of(DType::BF16);

/// The products of `tests/kernels/gemm.rs`, which together use every tile on an H100: the input, m,
/// n, k, whether operands are unaligned. Those of tiles that lose to tensor maps are for devices
/// without them, or for `TERNION_CUDA_TENSOR_MAPS=0`.
static BY_TILE: [(&Tile, MmaInput, [usize; 3], bool); 33] = [
    (&WGMMA_128X256X64, BF16, [3072, 1024, 2048], false),
    (&WGMMA_128X256X64_CLUSTER, BF16, [4096, 8192, 4104], false),
    (&WGMMA_128X192X64_PING_PONG, BF16, [3072, 3072, 4096], false),
    (&WGMMA_128X128X64_PING_PONG, BF16, [1832, 2056, 1024], false),
    (&WGMMA_128X128X64_CLUSTER4, BF16, [1000, 1088, 200], false),
    (&WGMMA_64X128X64_PING_PONG, BF16, [4096, 136, 512], false),
    (&WGMMA_64X128X64_CLUSTER, BF16, [512, 1408, 136], false),
    (&WGMMA_64X64X64_PING_PONG, BF16, [512, 1024, 2048], false),
    (&WGMMASPLITK_16X64X64, BF16, [16, 4096, 4096], false),
    (&WGMMASPLITK_32X64X64, BF16, [24, 2056, 4104], false),
    (&WGMMASPLITK_64X64X64, BF16, [64, 2048, 4096], false),
    (&WGMMATF32_128X256X32, MmaInput::Tf32, [2048, 2048, 200], false),
    (&WGMMATF32_128X192X32_PING_PONG, MmaInput::Tf32, [1536, 1536, 264], false),
    (&WGMMATF32_128X128X32_PING_PONG, MmaInput::Tf32, [768, 1536, 264], false),
    (&WGMMATF32_64X128X32_PING_PONG, MmaInput::Tf32, [72, 3072, 72], false),
    (&SIMT_128X256X8, F32, [2048, 2048, 72], false),
    (&SIMT_64X64X8, F32, [1536, 640, 72], false),
    (&SIMT_32X32X32, F32, [72, 136, 200], false),
    (&SIMT_8X256X32, F32, [8, 2048, 2056], false),
    (&SIMT_64X128X8, F64, [512, 1024, 1032], false),
    (&SIMT_64X64X16, F64, [72, 136, 200], false),
    (&MMA_128X256X64, BF16, [2048, 2048, 136], false),
    (&MMA_64X128X64, BF16, [3072, 640, 72], false),
    (&MMA_64X64X64, BF16, [768, 768, 72], false),
    (&MMA_32X32X64, BF16, [72, 136, 200], false),
    (&MMA_16X128X64, BF16, [16, 4096, 4104], false),
    (&MMA_32X32X64_ELEMENTWISE, BF16, [75, 131, 203], true),
    (&TF32_128X256X32, MmaInput::Tf32, [2048, 2048, 72], false),
    (&TF32_64X128X32, MmaInput::Tf32, [3072, 640, 72], false),
    (&TF32_64X64X32, MmaInput::Tf32, [768, 768, 72], false),
    (&TF32_32X32X32, MmaInput::Tf32, [72, 136, 200], false),
    (&TF32_16X128X32, MmaInput::Tf32, [16, 4096, 4104], false),
    (&TF32_32X32X32_ELEMENTWISE, MmaInput::Tf32, [75, 131, 203], true),
];

/// Returns the multiprocessors and the memory of an H100, with the instructions of `architecture`.
fn device(architecture: &str) -> Device {
    let architecture = architecture.parse().expect("an architecture");
    Device { multiprocessors: 132, max_shared_memory: 227 << 10, architecture }
}

/// Returns the sizes of a product of two k-major matrices.
fn sizes(input: MmaInput, [m, n, k]: [usize; 3], unaligned: [usize; 2], supports_tensor_maps: bool) -> Sizes {
    let unaligned_to_l2_line = input.uses_tensor_cores() && !(k * input.dtype().size()).is_multiple_of(128);
    let bytes = if input.uses_tensor_cores() { input.dtype().size() } else { 0 };
    Sizes {
        m,
        n,
        k,
        matrices: 1,
        unaligned,
        mn_major_elements: [0; 2],
        supports_tensor_maps,
        unaligned_to_l2_line: [unaligned_to_l2_line; 2],
        element_bytes: [bytes; 2],
    }
}

#[test]
fn tiles_of_other_architectures_are_never_chosen() {
    // A tile that would win everywhere, if only 9.0 had its instructions.
    static FOR_HOPPER: Tile = Tile {
        name: "for_hopper",
        cost: Cost { nanoseconds_per_k: 0.001, ..MMA_128X256X64.cost },
        ..MMA_128X256X64
    };
    let architectures = |tile: &Tile| match tile == &FOR_HOPPER {
        true => Architectures::Exact((9, 0)),
        false => tile.engine.architectures(),
    };
    let tiles = [&FOR_HOPPER, &MMA_128X256X64, &MMA_64X64X64];
    let choose = |device| {
        let sizes = sizes(BF16, [2048, 2048, 264], [0; 2], false);
        choose_among(&tiles, architectures, DType::BF16, &sizes, device).0
    };
    for (architecture, is_hopper) in
        [("sm_80", false), ("sm_86", false), ("sm_90a", true), ("sm_100a", false)]
    {
        let tile = choose(device(architecture));
        assert_eq!(tile == &FOR_HOPPER, is_hopper, "{architecture}: {tile:?}");
    }
    // Nor is it chosen if no other tile fits.
    let small = Device { max_shared_memory: 1, ..device("sm_80") };
    assert_ne!(choose(small), &FOR_HOPPER);
}

#[test]
fn every_tile_is_chosen_for_some_size() {
    let device = device("sm_90a");
    for (expected, input, [m, n, k], is_unaligned) in BY_TILE {
        let unaligned = if is_unaligned { [m * k, k * n] } else { [0; 2] };
        let sizes = sizes(input, [m, n, k], unaligned, expected.engine.uses_tensor_maps());
        let (tile, _) = choose(input, &sizes, device);
        assert_eq!(tile, expected, "{input:?} {m} x {n} x {k}");
    }
    let all = [F32, F64, BF16, MmaInput::Tf32].into_iter().flat_map(tiles).copied();
    for tile in all {
        assert!(BY_TILE.iter().any(|(tested, ..)| *tested == tile), "{tile:?} is tested by no product");
    }
}

#[test]
fn tiles_of_clusters_are_counted_and_launched_as_whole_ones() {
    let (pair, four) = (&WGMMA_64X128X64_CLUSTER, &WGMMA_128X128X64_CLUSTER4);
    assert_eq!([pair, four, &WGMMA_64X128X64_PING_PONG].map(Tile::cluster_shape), [[2, 1], [2, 2], [1, 1]]);
    // Three rows of three tiles of 64 x 128, two of 128 x 128.
    let sizes = Sizes { matrices: 5, ..sizes(BF16, [136, 264, 64], [0; 2], true) };
    for (tile, tiles) in [(pair, 12), (four, 8), (&WGMMA_64X128X64_PING_PONG, 9)] {
        assert_eq!(tile.count(&sizes), 5 * tiles, "{tile:?}");
    }
    assert_eq!([1, 12, 130, 132, 1000].map(|tiles| pair.blocks(tiles, 131)), [1, 12, 130, 130, 130]);
    assert_eq!([4, 128, 132, 1000].map(|tiles| four.blocks(tiles, 132)), [4, 128, 132, 1000]);
    // 120 blocks in clusters of four are resident at once, 140 take a second wave.
    let time = |n| four.predicted(&self::sizes(BF16, [1280, n, 4096], [0; 2], true), 1, 132);
    assert!(time(1792) > 1.6 * time(1536), "{} compared with {}", time(1792), time(1536));
}

/// The products of `tests/kernels/bf16x6.rs`, which together use both bf16x6 tiles on an H100, with
/// and without split-K: m, n, k and the number of matrices.
static BY_BF16X6_TILE: [(&Tile, bool, [usize; 4]); 7] = [
    (&WGMMABF16X6_128X192X32, false, [1056, 2056, 531, 1]),
    (&WGMMABF16X6_128X192X32, true, [520, 776, 8200, 1]),
    (&WGMMABF16X6_128X128X32, true, [520, 776, 65536, 1]),
    (&WGMMABF16X6_128X128X32, false, [1027, 1540, 1031, 1]),
    (&WGMMABF16X6_128X128X32, false, [1024, 2048, 1024, 1]),
    (&WGMMABF16X6_128X128X32, true, [1536, 640, 2056, 1]),
    (&WGMMABF16X6_128X192X32, true, [515, 1040, 1037, 6]),
];

/// Returns the tile and the number of splits with which f32 products are computed as bf16x6, if
/// tensor maps support their result or not.
fn bf16x6_choice(
    [m, n, k, matrices]: [usize; 4],
    device: Device,
    supports_tensor_maps: bool,
) -> Option<(&'static Tile, usize)> {
    let sizes = Sizes { matrices, ..sizes(F32, [m, n, k], [0; 2], supports_tensor_maps) };
    let (tile, splits) = choose(MmaInput::Bf16x6, &sizes, device);
    assert_eq!(tile.engine, Engine::Simt);
    let elements = [m * k, k * n].map(|elements| elements * matrices);
    faster_bf16x6(tile.predicted(&sizes, splits, device.multiprocessors), elements, &sizes, device)
}

#[test]
fn large_products_are_computed_as_bf16x6_where_it_is_permitted() {
    let hopper = device("sm_90a");
    for (expected, is_split, sizes) in BY_BF16X6_TILE {
        let (tile, splits) =
            bf16x6_choice(sizes, hopper, true).unwrap_or_else(|| panic!("{sizes:?}: not as bf16x6"));
        assert_eq!((tile, splits > 1), (expected, is_split), "{sizes:?}, {splits} splits of k");
        assert!(bf16x6_choice(sizes, hopper, false).is_none(), "{sizes:?}: no tensor map suits the result");
        for other in ["sm_80", "sm_90", "sm_100a"] {
            assert!(bf16x6_choice(sizes, device(other), true).is_none(), "{sizes:?} {other}");
        }
        assert!(
            bf16x6_choice(sizes, Device { max_shared_memory: 99 << 10, ..hopper }, true).is_none(),
            "{sizes:?}: too little shared memory"
        );
    }
    // Splitting the operands takes longer than the product, or the product has no sums.
    for sizes in [[512, 512, 512, 1], [16, 4096, 4096, 1], [4096, 4096, 32, 1], [4096, 4096, 0, 1]] {
        assert!(bf16x6_choice(sizes, hopper, true).is_none(), "{sizes:?}");
    }
}

/// Returns the sizes of a product of aligned matrices, of which a or b may be MN-major.
fn mn_major_sizes([m, n, k]: [usize; 3], [a, b]: [bool; 2]) -> Sizes {
    let mn_major_elements = [if a { m * k } else { 0 }, if b { k * n } else { 0 }];
    Sizes { mn_major_elements, ..sizes(MmaInput::Tf32, [m, n, k], [0; 2], true) }
}

#[test]
fn tf32_on_warpgroups_copies_the_smaller_of_two_mn_major_operands() {
    let (small, large) = ([256, 1024, 512], [1024, 256, 512]);
    let elements = 256 * 512;
    for (sizes, across, expected) in [
        (small, [false, false], [0, 0]),
        (small, [true, false], [0, 0]),
        (small, [false, true], [0, 0]),
        (small, [true, true], [elements, 0]),
        (large, [true, true], [0, elements]),
        ([512; 3], [true, true], [0, 512 * 512]),
    ] {
        let sizes = mn_major_sizes(sizes, across);
        assert_eq!(sizes.copied_elements(&WGMMATF32_128X256X32), expected, "{sizes:?}");
        for other in [&TF32_128X256X32, &WGMMA_128X256X64, &TF32_32X32X32_ELEMENTWISE] {
            assert_eq!(sizes.copied_elements(other), [0; 2], "{other:?} {sizes:?}");
        }
    }
    // An operand that is copied because its lines are unaligned is k-major afterward.
    let [m, n, k] = [256, 1024, 512];
    for (unaligned, mn_major_elements) in
        [([m * k, 0], [0, k * n]), ([0, k * n], [m * k, 0]), ([m * k, k * n], [0; 2])]
    {
        let sizes = Sizes { unaligned, mn_major_elements, ..sizes(MmaInput::Tf32, [m, n, k], [0; 2], true) };
        assert_eq!(sizes.copied_elements(&WGMMATF32_128X256X32), unaligned);
    }
}

#[test]
fn tiles_of_swapped_products_are_counted_along_the_columns_of_the_result() {
    // 132 tiles of 128 x 256, and 264 if their rows are columns of the result.
    let (wide, high) = ([128, 132 * 256, 512], [132 * 256, 128, 512]);
    let time = |tile: &Tile, sizes, across| tile.predicted(&mn_major_sizes(sizes, across), 1, 132);
    let tf32 = &WGMMATF32_128X256X32;
    let along_k = time(tf32, wide, [false, false]);
    assert!(time(tf32, wide, [false, true]) > along_k);
    assert_eq!(time(tf32, wide, [false, true]), time(tf32, high, [false, false]));
    // The smaller operand, a, is copied: b is still MN-major. In a high product the smaller operand
    // is b.
    assert_eq!(time(tf32, wide, [true, true]), time(tf32, high, [false, false]));
    assert_eq!(time(tf32, high, [true, true]), time(tf32, high, [false, false]));
    for (tile, across) in [(tf32, [true, false]), (&TF32_128X256X32, [false, true]), (tf32, [false; 2])] {
        assert_eq!(time(tile, wide, across), time(tile, wide, [false; 2]), "{tile:?} {across:?}");
    }
}

/// Returns a product in `splits` splits with `tile`.
fn with_splits(tile: &'static Tile, [rows, columns]: [usize; 2], splits: usize) -> Choice {
    let [down, across] = tile.cluster_shape();
    let blocks = rows.next_multiple_of(down) * columns.next_multiple_of(across) * splits;
    let loads = [LoadMode::KMajor; 2];
    Choice {
        is_copied: [false; 2],
        tile,
        loads,
        splits,
        split_length: tile.block.k,
        blocks,
        threads: tile.threads(),
        shared_bytes: tile.shared_bytes(DType::BF16, loads),
        epilogue: EpilogueVariant::BiasRelu,
    }
}

#[test]
fn the_product_kernel_adds_partial_sums_if_there_are_enough_counters() {
    // Bytes of whole f32 tiles, including those tiles of a cluster that are outside of the result.
    for (tile, tiles, splits, bytes) in [
        (&WGMMA_128X192X64_PING_PONG, [6, 4], 5, Some(6 * 4 * 5 * 128 * 192 * 4)),
        (&WGMMA_64X64X64_PING_PONG, [1, 64], 2, Some(64 * 2 * 64 * 64 * 4)),
        (&WGMMA_64X128X64_CLUSTER, [3, 8], 4, Some(4 * 8 * 4 * 64 * 128 * 4)),
        (&WGMMA_128X128X64_CLUSTER4, [3, 7], 4, Some(4 * 8 * 4 * 128 * 128 * 4)),
        (&WGMMATF32_128X256X32, [2, 3], 128, Some(2 * 3 * 128 * 128 * 256 * 4)),
        (&WGMMABF16X6_128X192X32, [5, 5], 3, Some(25 * 3 * 128 * 192 * 4)),
        // No split, other engines, too many counters, too many bytes.
        (&WGMMA_128X192X64_PING_PONG, [6, 4], 1, None),
        (&MMA_64X64X64, [1, 64], 2, None),
        (&SIMT_64X64X8, [1, 64], 2, None),
        (&WGMMA_64X64X64_PING_PONG, [64, 64], 2, Some(4096 * 2 * 64 * 64 * 4)),
        (&WGMMA_64X64X64_PING_PONG, [64, 65], 2, None),
        (&WGMMA_128X256X64, [16, 32], 2, Some(512 * 2 * 128 * 256 * 4)),
        (&WGMMA_128X256X64, [32, 64], 2, None),
        (&WGMMA_128X128X64_CLUSTER4, [32, 64], 2, Some(2048 * 2 * 128 * 128 * 4)),
        (&WGMMA_128X128X64_CLUSTER4, [32, 65], 2, None),
        (&WGMMA_128X256X64, [16, 16], 9, None),
    ] {
        assert_eq!(
            with_splits(tile, tiles, splits).fused_partial_bytes(),
            bytes,
            "{tile:?} {tiles:?} in {splits}"
        );
    }
}

/// Returns the microseconds that `splits` splits take in addition to the products, if memory does
/// not limit them.
fn split_k_overhead(tile: &Tile, [m, n]: [usize; 2], splits: usize) -> f64 {
    let sizes = Sizes { element_bytes: [0; 2], ..sizes(BF16, [m, n, 16384], [0; 2], true) };
    let unsplit = Sizes { k: sizes.k / splits, matrices: splits, ..sizes };
    tile.predicted(&sizes, splits, 132) - tile.predicted(&unsplit, 1, 132)
}

#[test]
fn the_cost_of_splits_depends_on_which_kernel_adds_them() {
    let (fused, separate, cluster) = (&WGMMA_128X192X64_PING_PONG, &MMA_128X256X64, &WGMMASPLITK_64X64X64);
    for tile in [fused, separate, cluster] {
        assert!(split_k_overhead(tile, [768, 768], 4) > 0.0, "{tile:?}");
    }
    // Each split arrives at a counter; splits that a second kernel adds cost only their traffic.
    let per_split = |tile| split_k_overhead(tile, [768, 768], 8) - split_k_overhead(tile, [768, 768], 4);
    assert!(per_split(fused) > per_split(separate) + 0.1);
    // If there are not enough counters, there is a second kernel.
    let large = [128 * 64, 192 * 65];
    assert!((split_k_overhead(fused, large, 4) - split_k_overhead(separate, large, 4)).abs() < 1e-6);
    // The partial sums of a cluster are never stored in memory.
    assert!((split_k_overhead(cluster, [768, 768], 4) - split_k_overhead(cluster, large, 4)).abs() < 1e-6);
    assert!(split_k_overhead(separate, large, 4) > 10.0 * split_k_overhead(separate, [768, 768], 4));
}

#[test]
fn the_bandwidth_of_memory_and_cache_limits_products_on_tensor_cores() {
    let tile = &WGMMA_128X256X64;
    let time = |m, n, element_bytes, unaligned_to_l2_line| {
        let sizes = Sizes { element_bytes, unaligned_to_l2_line, ..sizes(BF16, [m, n, 2048], [0; 2], true) };
        tile.predicted(&sizes, 1, 132)
    };
    let (free, aligned) = (time(2048, 2048, [0; 2], [false; 2]), time(2048, 2048, [2; 2], [false; 2]));
    assert!(free < aligned);
    // Rows of a are read by 8 columns of tiles, columns of b by 16 rows of them.
    let straddling = [[true, false], [false, true]]
        .map(|unaligned_to_l2_line| time(2048, 2048, [2; 2], unaligned_to_l2_line));
    assert!(aligned < straddling[0] && straddling[0] < straddling[1]);
    // The blocks of a cluster load columns of b once.
    static CLUSTERED: &Tile = &WGMMA_128X256X64_CLUSTER;
    let plain = Tile { cluster: 1, ..WGMMA_128X256X64_CLUSTER };
    let product = sizes(BF16, [2048, 2048, 2048], [0; 2], true);
    assert!(CLUSTERED.predicted(&product, 1, 132) < plain.predicted(&product, 1, 132));
}

#[test]
fn kernels_count_as_the_host_does() {
    let program = crate::files::Program::new(&["gemm/wgmma.cu"], std::iter::empty());
    let text = |file: &str| program.headers.iter().find(|(path, _)| *path == file).expect("a header").1;
    // Eight bits of a word count splits: `MAX_ARRIVALS`.
    assert!(text("gemm/wgmma_split_k_fixup.cuh").contains("ARRIVED = 1, DONE = 1 << 8, TAKEN = 1 << 16"));
    assert!(
        text("gemm/wgmma_tile.cuh").contains("8 * (2 * STAGES + CONSUMERS + STRIP_BARRIERS + CONSUMERS)")
    );
}

#[test]
fn row_sums_of_a_are_fused_with_products_of_weight_gradients() {
    let large = [&WGMMA_128X256X64, &WGMMA_128X192X64_PING_PONG, &WGMMA_128X128X64_PING_PONG];
    let others = [
        (&WGMMA_64X128X64_PING_PONG, true),
        (&WGMMA_64X64X64_PING_PONG, true),
        (&WGMMA_128X256X64_CLUSTER, true),
        (&MMA_128X256X64, false),
    ];
    let sizes = sizes(BF16, [768, 3072, 16384], [0; 2], true);
    let found = |tile, [a, b]: [LoadMode; 2], output, splits, sizes: &Sizes| {
        let epilogue = EpilogueVariant::RowSumsOfA;
        let variant = GemmVariant { tile, a, b, operands: DType::BF16, output, epilogue };
        let found = with_epilogue(variant, splits, sizes, device("sm_90a"));
        // The tile that was chosen for the product, if it adds rows.
        let is_unchanged = large.contains(&tile);
        assert!(
            found.is_none_or(|found| !is_unchanged || found == (variant, splits)),
            "{variant:?}: {found:?}"
        );
        found.map(|(variant, _)| variant)
    };
    let (k, mn) = (LoadMode::KMajor, LoadMode::MnMajor);
    for (output, splits) in [(DType::BF16, 1), (DType::BF16, 3), (DType::F32, 1), (DType::F32, 3)] {
        for tile in large {
            let variant = found(tile, [mn, mn], output, splits, &sizes).unwrap_or_else(|| panic!("{tile:?}"));
            assert_eq!(
                variant.shared_bytes(),
                tile.shared_bytes(DType::BF16, [mn, mn]),
                "{tile:?}: as of the plain product"
            );
            assert_eq!(variant.row_sum_partials(3072, splits), splits * 3072 / tile.block.n);
            for loads in [[k, mn], [mn, k], [k, k]] {
                assert!(found(tile, loads, output, splits, &sizes).is_none(), "{tile:?} {loads:?}");
            }
            let batch = Sizes { matrices: 2, ..sizes };
            assert!(found(tile, [mn, mn], output, splits, &batch).is_none(), "{tile:?} in a batch");
        }
        // For a tile that does not add rows, if the product and a reduction take longer; never for
        // another engine.
        for (tile, is_slow) in others {
            let found = found(tile, [mn, mn], output, splits, &sizes);
            assert_eq!(
                found.is_some_and(|found| large.contains(&found.tile)),
                is_slow,
                "{tile:?} in {splits}"
            );
        }
    }
}

/// Another tile is used for its row sums if it takes less time than the chosen one and a reduction,
/// which reads a again.
#[test]
fn sums_of_rows_by_another_tile_are_compared_with_a_reduction() {
    let mn = LoadMode::MnMajor;
    let found = |tile, splits, sizes: &Sizes| {
        let epilogue = EpilogueVariant::RowSumsOfA;
        let variant = GemmVariant { tile, a: mn, b: mn, operands: DType::BF16, output: DType::F32, epilogue };
        with_epilogue(variant, splits, sizes, device("sm_90a"))
            .map(|(variant, splits)| (variant.tile, splits))
    };
    // Weight gradients of GPT-2's attention, for which tiles in clusters are the fastest.
    for ([m, n], splits, expected) in [
        ([768, 768], 3, (&WGMMA_128X192X64_PING_PONG, 5)),
        ([2304, 768], 1, (&WGMMA_128X128X64_PING_PONG, 1)),
    ] {
        let sizes = sizes(BF16, [m, n, 16384], [0; 2], true);
        let fastest = &WGMMA_128X128X64_CLUSTER4;
        assert_eq!(found(fastest, splits, &sizes), Some(expected), "{m} x {n}");
        let (tile, fused_splits) = expected;
        assert!(
            tile.predicted(&sizes, fused_splits, 132) > fastest.predicted(&sizes, splits, 132),
            "{m} x {n}"
        );
    }
    let square = sizes(BF16, [768, 768, 16384], [0; 2], true);
    // A tile that is faster by more than the time of the reduction.
    static FASTER: Tile = Tile {
        cost: Cost { nanoseconds_per_k: 0.1, ..WGMMA_128X128X64_CLUSTER4.cost },
        ..WGMMA_128X128X64_CLUSTER4
    };
    assert_eq!(found(&FASTER, 1, &square), None);
    // A tile that the caller requested is kept.
    let tile_override = TileOverride { tile: Some(WGMMA_128X128X64_CLUSTER4.name), splits: None };
    assert_eq!(with_tile(tile_override, || found(&WGMMA_128X128X64_CLUSTER4, 3, &square)).0, None);
}

#[test]
fn tiles_fit_the_shared_memory_of_every_device() {
    // Maximum bytes of a block on 8.6, 8.9 and 12.x; on 8.0; on 9.0 and 10.0.
    for max_shared_memory in [99 << 10, 163 << 10, 227 << 10] {
        for input in MmaInput::all() {
            for (m, n, k) in
                [(1, 1, 1), (16, 4096, 4096), (64, 64, 64), (2048, 2048, 2048), (4096, 4096, 4096)]
            {
                for unaligned in [[0; 2], [m * k, 0], [m * k, k * n]] {
                    let sizes = sizes(input, [m, n, k], unaligned, true);
                    let (tile, _) = choose(
                        input,
                        &sizes,
                        Device { multiprocessors: 84, max_shared_memory, ..device("sm_86") },
                    );
                    let needed = tile.max_shared_bytes(input.dtype());
                    assert!(
                        needed <= max_shared_memory,
                        "{input:?} {sizes:?}: {tile:?} needs {needed} of {max_shared_memory} bytes"
                    );
                }
            }
        }
    }
}

/// Returns the product of a layer with gelu, by `tile`.
fn with_pre_activation(tile: &'static Tile) -> GemmVariant {
    GemmVariant {
        tile,
        a: LoadMode::KMajor,
        b: LoadMode::KMajor,
        operands: DType::BF16,
        output: DType::BF16,
        epilogue: EpilogueVariant::PreActivation(Activation::GeluErf),
    }
}

/// A layer of few rows: its activation is fused if k is short, and has a separate kernel if a fused
/// product would take much longer than split-K.
#[test]
fn epilogues_are_fused_where_that_takes_less_than_a_separate_kernel() {
    let device = device("sm_90a");
    let fused = |[m, n, k]: [usize; 3]| {
        let sizes = sizes(BF16, [m, n, k], [0; 2], true);
        let (tile, splits) = choose(BF16, &sizes, device);
        assert_eq!(tile.engine, Engine::WgmmaSplitK, "{m} x {n} x {k}: {tile:?}");
        with_epilogue(with_pre_activation(tile), splits, &sizes, device)
    };
    let (variant, splits) = fused([16, 1024, 256]).expect("short sums");
    assert!(FUSED_TILES.contains(&variant.tile) && splits == 1, "{variant:?} in {splits}");
    assert!(fused([16, 4096, 4096]).is_none(), "long sums");
}

/// The traffic of a residual epilogue takes long, and all blocks with a cooperative tile wait for
/// it at the same time: 128 x 192 with ping-pong scheduling is faster than 128 x 256
/// (`docs/kernels/matmul.md`, What was tried).
#[test]
fn epilogues_that_read_much_are_fused_with_ping_pong_tiles() {
    let device = device("sm_90a");
    for [m, n, k] in [[16384, 768, 3072], [16384, 768, 768], [8192, 1024, 4096]] {
        let sizes = Sizes { element_bytes: [2, 4], ..sizes(BF16, [m, n, k], [0; 2], true) };
        let variant = GemmVariant {
            tile: &WGMMA_128X256X64,
            a: LoadMode::KMajor,
            b: LoadMode::KMajor,
            operands: DType::BF16,
            output: DType::F32,
            epilogue: EpilogueVariant::Residual,
        };
        let (fused, _) = with_epilogue(variant, 1, &sizes, device).expect("a fused product");
        assert!(fused.tile.is_ping_pong(), "{m} x {n} x {k}: {:?}", fused.tile);
    }
}

/// The fastest tile with an epilogue may be much slower than the fastest without. Then a separate
/// epilogue kernel takes less time.
#[test]
fn epilogues_are_not_fused_with_a_far_slower_tile() {
    let device = device("sm_90a");
    let sizes = sizes(BF16, [1024, 512, 3072], [0; 2], true);
    let fastest = &WGMMA_64X64X64_PING_PONG;
    assert!(!FUSED_TILES.contains(&fastest));
    assert!(with_epilogue(with_pre_activation(fastest), 1, &sizes, device).is_none());
    // Compared with a tile as slow as the one with the epilogue, it is fused.
    assert!(with_epilogue(with_pre_activation(FUSED_TILES[0]), 1, &sizes, device).is_some());
}

/// A fraction of a device, as MPS assigns it, may have fewer multiprocessors than a cluster has
/// blocks.
#[test]
fn clusters_are_not_chosen_where_they_do_not_fit() {
    for multiprocessors in 1..=8 {
        let device = Device { multiprocessors, ..device("sm_90a") };
        for input in MmaInput::all() {
            for size in [[64, 64, 64], [1000, 1000, 1000], [4096, 8192, 4104], [16, 4096, 4096]] {
                let sizes = sizes(input, size, [0; 2], input.uses_tensor_cores());
                let (tile, splits) = choose(input, &sizes, device);
                assert!(tile.cluster <= multiprocessors, "{tile:?} on {multiprocessors}");
                assert!(tile.blocks(tile.count(&sizes) * splits, multiprocessors) > 0, "{tile:?}");
                assert!(tile.predicted(&sizes, splits, multiprocessors).is_finite(), "{tile:?}");
            }
        }
    }
}

/// Memory that is never accessed.
#[derive(Debug)]
struct NoMemory(AtomicU64);

impl Memory for NoMemory {
    fn bytes(&self) -> usize {
        0
    }

    fn version_counter(&self) -> &AtomicU64 {
        &self.0
    }
}

/// There is a fused kernel with half-precision results and none with f32 results: neither choice
/// may be used for the other product, whichever is chosen first.
#[test]
fn choices_are_cached_by_the_dtype_of_the_result() {
    let buffer = Buffer::new(NoMemory(AtomicU64::new(0)));
    let layout = Layout::row_major(Shape::new(&[2048, 2048]).expect("a shape"));
    let sizes = sizes(BF16, [2048; 3], [0; 2], true);
    let by_columns = layout.transpose(0, 1);
    let view = |dtype| View { buffer: &buffer, dtype, layout: &layout };
    let a = Operand { view: view(DType::BF16), line_axis: 0, inner_axis: 1, address: 0 };
    let b_view = View { layout: &by_columns, ..a.view };
    let b = Operand { view: b_view, line_axis: 1, inner_axis: 0, address: 0 };
    let epilogue = |output| {
        let fused = Some(EpilogueVariant::PreActivation(Activation::GeluErf));
        let output = Output { view: &view(output), stores_boxes: true, fused };
        Choice::cached(BF16, [&a, &b], output, &sizes, device("sm_90a")).choice.epilogue
    };
    for order in [[DType::BF16, DType::F32], [DType::F32, DType::BF16]] {
        clear_choices();
        for output in order {
            let is_fused = epilogue(output) != EpilogueVariant::BiasRelu;
            assert_eq!(is_fused, output == DType::BF16, "{output} in {order:?}");
        }
    }
}
