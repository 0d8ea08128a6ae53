//! Embeddings whose gradients are scaled or dropped, and limiting the norms of table rows.

use super::statistics::norm;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result, with_index_error_op};
use crate::op::{Saves, check};
use crate::ops::index::{expand_index, index_dtype};
use crate::{Axes, Shape, Tensor};

/// How [`Tensor::embedding_with`] handles the gradients of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddingOptions {
    /// A row that gets no gradient.
    pub padding_idx: Option<usize>,
    /// Whether the gradient of a row is divided by the number of its uses. Default: false.
    pub scale_grad_by_freq: bool,
}

impl Tensor {
    /// Looks up rows like [`embedding`](Tensor::embedding), with two options: one row gets no
    /// gradient, or each row gets the mean instead of the sum of the gradients of its uses.
    ///
    /// # Shapes
    /// `[rows, width]` and indices `[..]` (i32 or i64) -> `[.., width]`
    ///
    /// # Errors
    /// Same as [`embedding`](Tensor::embedding). Also returns an error if `padding_idx` is not a
    /// row.
    pub fn embedding_with(&self, indices: &Tensor, options: EmbeddingOptions) -> Result<Tensor> {
        let EmbeddingOptions { padding_idx, scale_grad_by_freq } = options;
        if padding_idx.is_none() && !scale_grad_by_freq {
            return self.embedding(indices);
        }
        let rows = no_grad(|| self.embedding(indices))?;
        let count = self.shape().dim(0);
        if let Some(padding) = padding_idx.filter(|&padding| padding >= count) {
            return Err(Error::invalid("embedding", format!("padding_idx {padding} of {count} rows")));
        }
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let grad = table_gradient(*context.shape(0), context.input(1)?, dy, options)?;
            Ok([Some(grad.to_dtype(context.dtype(0))?), None].into_iter().collect())
        };
        let saves = Saves { inputs: 0b10, outputs: 0 };
        Ok(with_gradient("embedding", &[self, indices], vec![rows], saves, rule)?.swap_remove(0))
    }

    /// Scales the rows of this table that are selected by `indices` and whose `p`-norm is above
    /// `max_norm` down to that norm, in place and without recording it, like PyTorch's
    /// `embedding_renorm_`.
    ///
    /// # Shapes
    /// `[rows, width]`, indices `[..]` (i32 or i64)
    ///
    /// # Errors
    /// Same as [`embedding`](Tensor::embedding). Also returns an error if the dtype is not
    /// floating-point, if `p` is not above 0, or if `max_norm` is negative or NaN.
    pub fn embedding_renorm_(&self, indices: &Tensor, max_norm: f64, p: f64) -> Result<()> {
        let name = "embedding_renorm_";
        check::float(name, "table", &self.meta())?;
        if p.is_nan() || p <= 0.0 || max_norm.is_nan() || max_norm < 0.0 {
            let detail = format!("p of {p} and max_norm of {max_norm}, expected above 0 and at least 0");
            return Err(Error::invalid(name, detail));
        }
        no_grad(|| {
            let flat = indices.reshape([indices.elements()])?;
            let rows = with_index_error_op(name, || self.detach().embedding(&flat))?;
            let wide = rows.to_dtype(rows.dtype().accumulator())?;
            let norms = norm(&wide, p, &Axes::from(1))?;
            let rescaled = wide.mul(&norms.add_scalar(1e-7)?.rdiv_scalar(max_norm)?)?;
            let limited = norms.gt_scalar(max_norm)?.where_(&rescaled, &wide)?.to_dtype(rows.dtype())?;
            // A row that is selected twice gets the same values both times.
            self.scatter_(0, &expand_index(&flat, 0, *limited.shape())?, &limited)
        })
    }
}

/// Returns the gradient of a table of this shape, in the accumulation dtype.
fn table_gradient(shape: Shape, indices: &Tensor, dy: &Tensor, options: EmbeddingOptions) -> Result<Tensor> {
    let [count, width] = shape.to_array("embedding")?;
    let (dtype, device) = (dy.dtype().accumulator(), dy.device());
    let flat = indices.reshape([indices.elements()])?;
    let row_grads = dy.to_dtype(dtype)?.reshape([indices.elements(), width])?;
    let mut grad = Tensor::zeros(shape, dtype, device)?.index_add(0, &flat, &row_grads)?;
    if options.scale_grad_by_freq {
        let ones = Tensor::ones([indices.elements()], dtype, device)?;
        let uses = Tensor::zeros([count], dtype, device)?.index_add(0, &flat, &ones)?;
        grad = grad.div(&uses.maximum_scalar(1)?.unsqueeze(1)?)?;
    }
    if let Some(padding) = options.padding_idx {
        let is_padding = Tensor::iota(count, index_dtype(count), 0, 1, device)?.eq_scalar(padding as i64)?;
        grad = grad.masked_fill(&is_padding.unsqueeze(1)?, 0)?;
    }
    Ok(grad)
}
