//! Kernels by family, in files with the same names as in core. Each file has a `select` function
//! for its ops, and their loops.

pub(crate) mod assemble;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod binary;
pub(crate) mod compare;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod dropout;
pub(crate) mod index;
pub(crate) mod loss;
pub(crate) mod math;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod step;
pub(crate) mod unary;
