//! The permissions of attention (TF32, bf16x6): those of a matrix product, for each of its
//! products.

use super::AttentionConfig;
use crate::Tensor;
use crate::error::Result;
use crate::ops::matmul::{Matmul, MatmulOptions};

impl AttentionConfig {
    /// Unscaled, unmasked scores, with the permissions of [`Matmul::PLAIN`].
    pub const PLAIN: AttentionConfig = AttentionConfig {
        scale: 1.0,
        causal: false,
        window: None,
        mask: false,
        varlen: false,
        dropout: None,
        tf32: Matmul::PLAIN.tf32,
        bf16x6: Matmul::PLAIN.bf16x6,
    };

    /// Returns [`PLAIN`](AttentionConfig::PLAIN) with the permissions of a matrix product.
    pub(super) fn with_permissions_of(product: Matmul) -> AttentionConfig {
        AttentionConfig { tf32: product.tf32, bf16x6: product.bf16x6, ..AttentionConfig::PLAIN }
    }

    /// Computes a matrix product with the permissions of this attention.
    pub(super) fn product(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.matmul_with(b, MatmulOptions { tf32: self.tf32, bf16x6: self.bf16x6, ..MatmulOptions::default() })
    }
}
