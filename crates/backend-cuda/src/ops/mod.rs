//! For each op family: which kernel, which grid, which parameters. No arithmetic on elements
//! happens here.

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

/// Elements from which on positions in a tensor no longer fit the kernels' 32-bit numbers.
pub(crate) const TOO_LONG: usize = 1 << 31;

/// Whether so many columns fit the kernels of rows, which count packs beyond both ends.
pub(crate) fn fits_rows(op: &'static str, columns: usize) -> ternion_core::Result<()> {
    match columns < 1 << 30 {
        true => Ok(()),
        false => Err(ternion_core::Error::invalid(
            op,
            format!("{columns} columns: on a CUDA device this op takes fewer than 2^30; cut them"),
        )),
    }
}

/// Whether every one of these fits the kernels' 32-bit numbers.
pub(crate) fn fits(op: &'static str, counts: &[usize]) -> ternion_core::Result<()> {
    match counts.iter().find(|&&count| count >= TOO_LONG) {
        None => Ok(()),
        Some(count) => Err(ternion_core::Error::invalid(
            op,
            format!("{count} elements: on a CUDA device this op takes fewer than 2^31 at once; cut it"),
        )),
    }
}
