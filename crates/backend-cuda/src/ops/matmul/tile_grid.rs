//! The tiles of a product in the order in which the warpgroup kernels number them.

use crate::space::Divisor;

/// Rows of tiles that are traversed together, column by column: `TileGrid::BAND_ROWS` of
/// `gemm/gemm.cuh`.
const BAND: usize = 8;

/// The divisors that decompose the index of a tile; mirrors `TileGrid` in the kernels. Indices are
/// less than 2^31.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct TileGrid {
    /// Tiles of a matrix.
    matrix: Divisor,
    /// Tiles of a band of [`BAND`] rows of tiles.
    band: Divisor,
    /// Rows of tiles of the last band, if it is partial.
    last_band: Divisor,
    splits: Divisor,
    inner_batch: Divisor,
    /// Rows of tiles of a matrix.
    rows: u32,
    /// Tiles of all matrices, in all splits.
    count: u32,
}

impl TileGrid {
    /// Returns the grid of `matrices` results of `m` rows and `n` columns in tiles of `tile_m` x
    /// `tile_n`, each in `splits` splits. The inner axis of the batch has `inner_batch` matrices.
    pub(super) fn new(
        [m, n]: [usize; 2],
        [tile_m, tile_n]: [usize; 2],
        matrices: usize,
        splits: usize,
        inner_batch: usize,
    ) -> TileGrid {
        let (rows, columns) = (m.div_ceil(tile_m), n.div_ceil(tile_n));
        TileGrid {
            matrix: Divisor::new(rows * columns),
            band: Divisor::new(BAND * columns),
            // If there is no partial band, this divisor is not used.
            last_band: Divisor::new(rows % BAND),
            splits: Divisor::new(splits),
            inner_batch: Divisor::new(inner_batch),
            rows: rows as u32,
            count: (rows * columns * matrices * splits) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the row, column, matrix and split of a tile, as the kernels compute them.
    fn tile(grid: &TileGrid, index: u32) -> [u32; 4] {
        let rest = grid.matrix.divide(index);
        let index = index - rest * grid.matrix.divisor();
        let band = grid.band.divide(index);
        let index = index - band * grid.band.divisor();
        let height = match band as usize * BAND + BAND <= grid.rows as usize {
            true => Divisor::new(BAND),
            false => grid.last_band,
        };
        let column = height.divide(index);
        let row = band * BAND as u32 + index - column * height.divisor();
        let matrix = grid.splits.divide(rest);
        [row, column, matrix, rest - matrix * grid.splits.divisor()]
    }

    #[test]
    fn tiles_are_numbered_band_by_band() {
        for [rows, columns] in [[1, 1], [3, 5], [8, 4], [9, 3], [16, 2], [21, 7], [128, 197]] {
            for [matrices, splits] in [[1, 1], [3, 1], [1, 4], [5, 3]] {
                let grid = TileGrid::new([rows * 64 - 5, columns * 128], [64, 128], matrices, splits, 1);
                let mut index = 0;
                for [matrix, split] in (0..matrices).flat_map(|m| (0..splits).map(move |s| [m, s])) {
                    for first in (0..rows).step_by(BAND) {
                        for column in 0..columns {
                            for row in first..rows.min(first + BAND) {
                                let expected = [row, column, matrix, split].map(|n| n as u32);
                                assert_eq!(tile(&grid, index), expected, "{rows} x {columns}: {index}");
                                index += 1;
                            }
                        }
                    }
                }
                assert_eq!(grid.count, index);
            }
        }
    }

    #[test]
    fn the_divisor_of_a_complete_band_is_that_of_the_kernels() {
        let divisor = format!("Divisor{{BAND_ROWS, {}, {}}}", Divisor::new(BAND).factor(), BAND.ilog2());
        let program = crate::files::Program::new(&["gemm/wgmma.cu"], std::iter::empty());
        let text = |file: &str| program.headers.iter().find(|(path, _)| *path == file).expect("a header").1;
        let text = text("gemm/gemm.cuh");
        assert!(text.contains(&divisor) && text.contains(&format!("u32 BAND_ROWS = {BAND};")), "{divisor}");
    }
}
