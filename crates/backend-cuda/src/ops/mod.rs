//! The kernel, grid and parameters of each op family. No arithmetic on elements happens here.

pub(crate) mod assemble;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod cumulative;
pub(crate) mod elementwise;
pub(crate) mod index;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod multi_tensor;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod scatter;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod step;
pub(crate) mod window;

/// Element counts must be smaller than this, because the kernels' indices are 32-bit integers.
pub(crate) const INDEX_LIMIT: usize = 1 << 31;

/// Checks that the kernels of rows support this number of columns. They also count packs beyond
/// both ends of a row.
pub(crate) fn check_fits_rows(op: &'static str, columns: usize) -> ternion_core::Result<()> {
    match columns < 1 << 30 {
        true => Ok(()),
        false => Err(ternion_core::Error::invalid(
            op,
            format!("{columns} columns: on a CUDA device this op takes fewer than 2^30; cut them"),
        )),
    }
}

/// Checks that all of these counts fit the kernels' 32-bit integers.
pub(crate) fn check_fits(op: &'static str, counts: &[usize]) -> ternion_core::Result<()> {
    match counts.iter().find(|&&count| count >= INDEX_LIMIT) {
        None => Ok(()),
        Some(count) => Err(ternion_core::Error::invalid(
            op,
            format!("{count} elements: on a CUDA device this op takes fewer than 2^31 at once; cut it"),
        )),
    }
}
