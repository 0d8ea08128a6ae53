//! Which tile is chosen for which product.

use super::choice::choose;
use super::*;

const F32: Factors = Factors::Of(DType::F32);
const F64: Factors = Factors::Of(DType::F64);
const BF16: Factors = Factors::Of(DType::BF16);

/// The products of `tests/kernels/tiles.rs`, which are to come by every tile on an H100: factors, m, n, k, whether operands are strays.
const BY_TILE: [(&str, Factors, [usize; 3], bool); 18] = [
    ("C8", F32, [2048, 2048, 264], false),
    ("M8", F32, [512, 1024, 520], false),
    ("S32", F32, [72, 136, 200], false),
    ("V8", F32, [8, 4096, 1032], false),
    ("W8", F64, [512, 1024, 1032], false),
    ("W16", F64, [72, 136, 200], false),
    ("T2", BF16, [2048, 2048, 264], false),
    ("T10", BF16, [1024, 2048, 520], false),
    ("T8", BF16, [1024, 1024, 264], false),
    ("T12", BF16, [72, 136, 200], false),
    ("T11", BF16, [8, 16384, 264], false),
    ("E12", BF16, [75, 131, 203], true),
    ("F2", Factors::Tf32, [2048, 2048, 264], false),
    ("F10", Factors::Tf32, [1024, 2048, 520], false),
    ("F8", Factors::Tf32, [1024, 1024, 264], false),
    ("F12", Factors::Tf32, [72, 136, 200], false),
    ("F11", Factors::Tf32, [8, 16384, 264], false),
    ("G12", Factors::Tf32, [75, 131, 203], true),
];

#[test]
fn every_tile_is_chosen_for_some_size() {
    let device = Device { multiprocessors: 132, room: 227 << 10 };
    for (name, factors, [m, n, k], stray) in BY_TILE {
        let strays = if stray { [m * k, k * n] } else { [0; 2] };
        let (tile, _) = choose(factors, &Sizes { m, n, k, matrices: 1, strays }, device);
        assert_eq!(tile.name, name, "{factors:?} {m} x {n} x {k}");
    }
    let all = [F32, F64, BF16, Factors::Tf32].into_iter().flat_map(tiles);
    for tile in all {
        assert!(BY_TILE.iter().any(|(name, ..)| *name == tile.name), "{} is tested by no product", tile.name);
    }
}

#[test]
fn tiles_fit_the_shared_memory_of_every_device() {
    // Bytes that a block may have on 8.6, 8.9 and 12.x; on 8.0; on 9.0 and 10.0.
    for room in [99 << 10, 163 << 10, 227 << 10] {
        for factors in Factors::all() {
            for (m, n, k) in
                [(1, 1, 1), (16, 4096, 4096), (64, 64, 64), (2048, 2048, 2048), (4096, 4096, 4096)]
            {
                for strays in [[0; 2], [m * k, 0], [m * k, k * n]] {
                    let sizes = Sizes { m, n, k, matrices: 1, strays };
                    let (tile, _) = choose(factors, &sizes, Device { multiprocessors: 84, room });
                    let needed = tile.most_shared(factors.dtype());
                    assert!(
                        needed <= room,
                        "{factors:?} {sizes:?}: {} needs {needed} of {room} bytes",
                        tile.name
                    );
                }
            }
        }
    }
}
