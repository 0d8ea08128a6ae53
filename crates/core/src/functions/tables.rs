//! Rows of a table whose gradients are divided or dropped, and rows that are kept short.

use super::statistics::norm;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result, index_told_as};
use crate::op::{Saves, check};
use crate::ops::index::spread;
use crate::{Axes, Tensor};

/// What [`Tensor::embedding_with`] does with the gradients of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddingOptions {
    /// A row that gets no gradient.
    pub padding_idx: Option<usize>,
    /// Whether the gradient of a row is divided by how often it is picked; no by default.
    pub scale_grad_by_freq: bool,
}

impl Tensor {
    /// [`embedding`](Tensor::embedding), of which a row may get no gradient, or each the mean in place of the sum of those of its uses.
    ///
    /// # Shapes
    /// `[rows, width]` and indices `[..]` (i32 or i64) -> `[.., width]`
    ///
    /// # Errors
    /// As [`embedding`](Tensor::embedding), a `padding_idx` that is no row.
    pub fn embedding_with(&self, indices: &Tensor, options: EmbeddingOptions) -> Result<Tensor> {
        let EmbeddingOptions { padding_idx, scale_grad_by_freq } = options;
        let rows = self.embedding(indices)?;
        let count = self.shape().dim(0);
        if let Some(padding) = padding_idx.filter(|&padding| padding >= count) {
            return Err(Error::invalid("embedding", format!("padding_idx {padding} of {count} rows")));
        }
        if (padding_idx.is_none() && !scale_grad_by_freq) || !rows.needs_grad() {
            return Ok(rows);
        }
        let last = indices.rank();
        let padding =
            padding_idx.map(|padding| indices.eq_scalar(padding as i64)?.unsqueeze(last)).transpose()?;
        let uses = scale_grad_by_freq.then(|| uses(self, indices)?.unsqueeze(last)).transpose()?;
        let rule = move |_: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let mut grad = dy.clone();
            if let Some(uses) = &uses {
                grad = grad.to_dtype(uses.dtype())?.div(uses)?.to_dtype(dy.dtype())?;
            }
            if let Some(padding) = &padding {
                grad = grad.masked_fill(padding, 0)?;
            }
            Ok(Grads::from_elem(Some(grad), 1))
        };
        Ok(with_gradient("embedding", &[&rows], vec![rows.clone()], Saves::NOTHING, rule)?.swap_remove(0))
    }

    /// Shortens those rows of this table that `indices` names and whose `p`-norm is above `max_norm` to that length, in place and without a record, as PyTorch's
    /// `embedding_renorm_`.
    ///
    /// # Shapes
    /// `[rows, width]`, indices `[..]` (i32 or i64)
    ///
    /// # Errors
    /// As [`embedding`](Tensor::embedding), a dtype that is not floating, a `p` that is not above 0, a `max_norm` that is negative or no number.
    pub fn embedding_renorm_(&self, indices: &Tensor, max_norm: f64, p: f64) -> Result<()> {
        let name = "embedding_renorm_";
        check::float(name, "table", &self.meta())?;
        if p.is_nan() || p <= 0.0 || max_norm.is_nan() || max_norm < 0.0 {
            let told = format!("p of {p} and max_norm of {max_norm}, expected above 0 and at least 0");
            return Err(Error::invalid(name, told));
        }
        no_grad(|| {
            let places = indices.reshape([indices.elements()])?;
            let rows = index_told_as(name, || self.detach().embedding(&places))?;
            let wide = rows.to_dtype(rows.dtype().accumulator())?;
            let norms = norm(&wide, p, &Axes::from(1))?;
            let short = wide.mul(&norms.add_scalar(1e-7)?.rdiv_scalar(max_norm)?)?;
            let kept = norms.gt_scalar(max_norm)?.where_(&short, &wide)?.to_dtype(rows.dtype())?;
            // Rows that are named twice are the same both times.
            self.scatter_(0, &spread(&places, 0, *kept.shape())?, &kept)
        })
    }
}

/// How often the row of each index is picked.
fn uses(table: &Tensor, indices: &Tensor) -> Result<Tensor> {
    no_grad(|| {
        let dtype = table.dtype().accumulator();
        let flat = indices.reshape([indices.elements()])?;
        let ones = Tensor::ones([indices.elements()], dtype, table.device())?;
        let counts =
            Tensor::zeros([table.shape().dim(0)], dtype, table.device())?.index_add(0, &flat, &ones)?;
        counts.index_select(0, &flat)?.reshape(*indices.shape())
    })
}
