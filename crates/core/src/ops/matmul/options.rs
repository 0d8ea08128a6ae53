//! The options of a matrix product.

use crate::ops::unary::UnaryOp;
use crate::{DType, Tensor};

/// Epilogue of [`Tensor::matmul_with`]: `y = activation(alpha * a b + bias) + residual`.
#[derive(Clone, Copy)]
pub struct MatmulOptions<'a> {
    /// Bias that is added to every row: `[n]`.
    pub bias: Option<&'a Tensor>,
    /// Function that is applied to the sum of product and bias.
    pub activation: Option<UnaryOp>,
    /// Residual that is added after the activation: of the result's shape, or broadcast to it.
    pub residual: Option<&'a Tensor>,
    /// Factor of the product. Default: 1.
    pub alpha: f64,
    /// Dtype of the result. Default: that of the operands. Half-precision operands also support
    /// f32.
    pub out_dtype: Option<DType>,
    /// Whether a device may multiply f32 in TF32, also in the gradient: see
    /// [`Matmul::tf32`](super::Matmul::tf32). Default: false.
    pub tf32: bool,
    /// Whether a device may compute f32 products with bf16x6 where that is as accurate, also in the
    /// gradient: see [`Matmul::bf16x6`](super::Matmul::bf16x6). Default: true.
    pub bf16x6: bool,
}

impl Default for MatmulOptions<'_> {
    fn default() -> Self {
        MatmulOptions {
            bias: None,
            activation: None,
            residual: None,
            alpha: 1.0,
            out_dtype: None,
            tf32: false,
            bf16x6: true,
        }
    }
}
