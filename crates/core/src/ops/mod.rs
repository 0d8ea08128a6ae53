//! The ops by family. Each file contains the payload structs with their shape rules, compositions
//! and gradients, and the public `Tensor` methods. Views, which need no kernel, are in `view`.

#[macro_use]
mod list;

pub mod assemble;
pub mod attention;
pub mod binary;
pub mod clip;
pub mod compare;
pub mod conv;
pub mod conv_methods;
pub mod copy;
pub mod create;
pub mod custom;
pub mod einsum;
pub mod index;
pub mod indexing;
pub mod loss;
pub mod masked;
pub mod matmul;
pub mod multi_tensor;
pub mod norm;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod softmax;
pub mod sort;
pub mod step;
pub mod unary;
pub mod view;
