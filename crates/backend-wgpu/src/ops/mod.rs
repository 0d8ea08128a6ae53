//! The functions that queue the shaders of each op. Each family has a file with the name of its
//! shader.

pub(crate) mod assemble;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod cumulative;
pub(crate) mod elementwise;
pub(crate) mod gather;
pub(crate) mod im2col;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod multi_tensor;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod radix;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod rows;
pub(crate) mod scatter;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod step;
pub(crate) mod step_vec4;
pub(crate) mod transpose;
pub(crate) mod window;
pub(crate) mod write;

/// Threads of a workgroup in most shaders, as their sources declare it.
pub(crate) const GROUP: usize = 256;
