//! Which tile is chosen for which product.

use super::choice::choose;
use super::*;

/// The products of `tests/kernels/tiles.rs`, which are to come by every tile on an H100: dtype, m, n, k, whether operands are strays.
const BY_TILE: [(&str, DType, [usize; 3], bool); 12] = [
    ("C8", DType::F32, [2048, 2048, 264], false),
    ("M8", DType::F32, [512, 1024, 520], false),
    ("S32", DType::F32, [72, 136, 200], false),
    ("V8", DType::F32, [8, 4096, 1032], false),
    ("W8", DType::F64, [512, 1024, 1032], false),
    ("W16", DType::F64, [72, 136, 200], false),
    ("T2", DType::BF16, [2048, 2048, 264], false),
    ("T10", DType::BF16, [1024, 2048, 520], false),
    ("T8", DType::BF16, [1024, 1024, 264], false),
    ("T12", DType::BF16, [72, 136, 200], false),
    ("T11", DType::BF16, [8, 16384, 264], false),
    ("E12", DType::BF16, [75, 131, 203], true),
];

#[test]
fn every_tile_is_chosen_for_some_size() {
    let device = Device { multiprocessors: 132, room: 227 << 10 };
    for (name, dtype, [m, n, k], stray) in BY_TILE {
        let strays = if stray { [m * k, k * n] } else { [0; 2] };
        let (tile, _) = choose(dtype, &Sizes { m, n, k, matrices: 1, strays }, device);
        assert_eq!(tile.name, name, "{dtype} {m} x {n} x {k}");
    }
    let all = [DType::F32, DType::F64, DType::BF16].into_iter().flat_map(tiles);
    for tile in all {
        assert!(BY_TILE.iter().any(|(name, ..)| *name == tile.name), "{} is tested by no product", tile.name);
    }
}

#[test]
fn tiles_fit_the_shared_memory_of_every_device() {
    // Bytes that a block may have on 8.6, 8.9 and 12.x; on 8.0; on 9.0 and 10.0.
    for room in [99 << 10, 163 << 10, 227 << 10] {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8] {
            for (m, n, k) in
                [(1, 1, 1), (16, 4096, 4096), (64, 64, 64), (2048, 2048, 2048), (4096, 4096, 4096)]
            {
                for strays in [[0; 2], [m * k, 0], [m * k, k * n]] {
                    let sizes = Sizes { m, n, k, matrices: 1, strays };
                    let (tile, _) = choose(dtype, &sizes, Device { multiprocessors: 84, room });
                    let needed = tile.most_shared(dtype);
                    assert!(
                        needed <= room,
                        "{dtype} {sizes:?}: {} needs {needed} of {room} bytes",
                        tile.name
                    );
                }
            }
        }
    }
}
