//! Block-diagonal matrices and Kronecker products.

use crate::error::{Error, Result};
use crate::op::check;
use crate::shape::MAX_RANK;
use crate::{DType, Tensor};

impl Tensor {
    /// Returns the block-diagonal matrix with these matrices on its diagonal and zeros elsewhere. A
    /// tensor with one axis counts as one row.
    ///
    /// # Shapes
    /// `[a, b]`, `[c, d]`, .. -> `[a + c + .., b + d + ..]`
    ///
    /// # Errors
    /// Returns an error if there are no tensors, if one has more than 2 axes, or if the dtypes
    /// differ.
    pub fn block_diag(tensors: &[&Tensor]) -> Result<Tensor> {
        let name = "block_diag";
        let Some(first) = tensors.first() else {
            return Err(Error::invalid(name, "expected at least 1 tensor, got 0"));
        };
        let mut width = 0usize;
        let mut blocks = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            check::same_dtype(name, &first.meta(), &tensor.meta())?;
            if tensor.rank() > 2 {
                let shape = Box::new(*tensor.shape());
                return Err(Error::Rank { op: name, expected: "at most 2".into(), shape });
            }
            let block = tensor.atleast_2d()?;
            width = width.saturating_add(block.dims()[1]);
            blocks.push(block);
        }
        let mut before = 0;
        for block in &mut blocks {
            let columns = block.dims()[1];
            *block = block.pad(&[[0, 0], [before, width - before - columns]], 0i64)?;
            before += columns;
        }
        Tensor::concat(&blocks.iter().collect::<Vec<_>>(), 0)
    }

    /// Returns the Kronecker product: blocks of `other` multiplied by each element of this tensor.
    /// Bool tensors are combined by logical AND. The tensor of lower rank gets leading axes of
    /// size 1.
    ///
    /// # Shapes
    /// `[m, n]` and `[p, q]` -> `[m * p, n * q]`, and accordingly for other ranks
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if a tensor has more than 4 axes.
    pub fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let name = "kron";
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let rank = self.rank().max(other.rank());
        if rank > MAX_RANK / 2 {
            let wider = if self.rank() == rank { self } else { other };
            let (expected, shape) = (format!("at most {}", MAX_RANK / 2), Box::new(*wider.shape()));
            return Err(Error::Rank { op: name, expected, shape });
        }
        let sizes = [self, other].map(|x| [&vec![1; rank - x.rank()][..], x.dims()].concat());
        let interleaved_dims = |operand: usize| -> Vec<usize> {
            sizes[operand].iter().flat_map(|&size| if operand == 0 { [size, 1] } else { [1, size] }).collect()
        };
        let (left, right) = (self.reshape(interleaved_dims(0))?, other.reshape(interleaved_dims(1))?);
        let product = match self.dtype() {
            DType::Bool => left.logical_and(&right)?,
            _ => left.mul(&right)?,
        };
        let merged: Vec<usize> = sizes[0].iter().zip(&sizes[1]).map(|(&a, &b)| a.saturating_mul(b)).collect();
        product.reshape(merged)
    }
}
