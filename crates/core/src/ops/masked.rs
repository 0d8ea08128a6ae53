//! Masked select, masked scatter and nonzero. The number of selected elements depends on the data,
//! so the mask is copied to the host.

use super::index::index_dtype;
use crate::error::{Error, Result};
use crate::op::check;
use crate::precision;
use crate::tensor::Tensor;
use crate::{DType, Device, IntoShape};

impl Tensor {
    /// Selects the elements where `mask` is true, in row-major order: `[count]`. Mask and tensor
    /// are broadcast against each other.
    ///
    /// # Errors
    /// Returns an error if the mask is not bool, or if shapes do not broadcast.
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let shape = self.shape().broadcast(mask.shape(), "masked_select")?;
        let positions = mask.checked_mask("masked_select")?.expand(shape)?.true_positions()?;
        self.expand(shape)?.reshape([shape.elements()])?.index_select(0, &positions)
    }

    /// Returns this tensor with the elements where `mask` (broadcast) is true replaced by the
    /// elements of `source`, in row-major order. Additional elements of the source are ignored.
    ///
    /// # Errors
    /// Returns an error if the mask is not bool or does not broadcast to this tensor, or if the
    /// source has another dtype or too few elements.
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        let mask = mask.checked_mask("masked_scatter")?;
        if !mask.shape().broadcasts_to(self.shape()) {
            let (got, expected) = (Box::new(*mask.shape()), Box::new(*self.shape()));
            return Err(Error::Shape { op: "masked_scatter", what: "mask", got, expected });
        }
        let widened = precision::widened(&[self, source])?;
        let (x, source) = (&widened[0], &widened[1]);
        check::same_dtype("masked_scatter", &x.meta(), &source.meta())?;
        let positions = mask.expand(*self.shape())?.true_positions()?;
        let (count, available) = (positions.elements(), source.elements());
        if available < count {
            return Err(Error::invalid(
                "masked_scatter",
                format!("a source of {available} elements for {count} positions"),
            ));
        }
        let source = source.reshape([available])?.narrow(0, 0, count)?;
        x.reshape([x.elements()])?.scatter(0, &positions, &source)?.reshape(*x.shape())
    }

    /// Returns the indices of every element that is not zero (or is true), in row-major order:
    /// `[count, rank]`, i32 (i64 if an axis is too long for i32).
    ///
    /// # Errors
    /// Returns an error if an earlier op failed on the device.
    pub fn nonzero(&self) -> Result<Tensor> {
        let mask = if self.dtype() == DType::Bool { self.clone() } else { self.to_dtype(DType::Bool)? };
        let positions = mask.host_positions()?;
        let mut indices = Vec::with_capacity(positions.len() * self.rank());
        for &position in &positions {
            let mut stride = self.elements();
            let mut rest = position;
            for &dim in self.dims() {
                stride /= dim;
                indices.push(rest / stride);
                rest %= stride;
            }
        }
        let longest = self.dims().iter().copied().max().unwrap_or(0);
        upload_positions(&indices, [positions.len(), self.rank()], longest, self.device())
    }

    /// Returns the row-major indices of true elements: `[count]`, an index tensor.
    pub(crate) fn true_positions(&self) -> Result<Tensor> {
        let positions = self.host_positions()?;
        upload_positions(&positions, [positions.len()], self.elements(), self.device())
    }

    fn host_positions(&self) -> Result<Vec<usize>> {
        let values = self.to_vec::<bool>()?;
        Ok((0..values.len()).filter(|&at| values[at]).collect())
    }

    fn checked_mask(&self, op: &'static str) -> Result<&Tensor> {
        match self.dtype() {
            DType::Bool => Ok(self),
            got => Err(Error::dtype(op, "mask", got, DType::Bool)),
        }
    }
}

/// Returns an index tensor of indices below `size`.
fn upload_positions(
    positions: &[usize],
    shape: impl IntoShape,
    size: usize,
    device: &Device,
) -> Result<Tensor> {
    match index_dtype(size) {
        DType::I32 => Tensor::from_vec(positions.iter().map(|&at| at as i32).collect(), shape, device),
        _ => Tensor::from_vec(positions.iter().map(|&at| at as i64).collect(), shape, device),
    }
}
