//! Inverse of max pooling: writes elements to the positions of the maxima.

use super::spatial_sizes;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result, with_index_error_op};
use crate::functions::check_floating;
use crate::op::{Saves, check};
use crate::{Shape, Tensor};

impl Tensor {
    /// Returns zeros of `size` with these elements at `positions`, which are those of
    /// [`max_pool1d_with_positions`](Tensor::max_pool1d_with_positions). If positions are equal,
    /// the last element is kept. Each element gets the gradient at its position.
    ///
    /// # Shapes
    /// `[batch, channels, windows]`, positions of the same shape (i32 or i64) ->
    /// `[batch, channels, size[0]]`
    ///
    /// # Errors
    /// Returns an error if the rank does not match, if there are no channels, if the dtype is not
    /// floating-point, or if the positions have another shape, are not i32 or i64, or are out of
    /// range.
    pub fn max_unpool1d(&self, positions: &Tensor, size: [usize; 1]) -> Result<Tensor> {
        unpool("max_unpool1d", self, positions, size)
    }

    /// Same as [`max_unpool1d`](Tensor::max_unpool1d) over two axes; positions are
    /// `row * width + column`.
    ///
    /// # Shapes
    /// `[batch, channels, oh, ow]`, positions of the same shape (i32 or i64) ->
    /// `[batch, channels, size[0], size[1]]`
    ///
    /// # Errors
    /// Same as [`max_unpool1d`](Tensor::max_unpool1d).
    pub fn max_unpool2d(&self, positions: &Tensor, size: [usize; 2]) -> Result<Tensor> {
        unpool("max_unpool2d", self, positions, size)
    }

    /// Same as [`max_unpool1d`](Tensor::max_unpool1d) over three axes; positions are
    /// `(plane * height + row) * width + column`.
    ///
    /// # Shapes
    /// `[batch, channels, od, oh, ow]`, positions of the same shape (i32 or i64) ->
    /// `[batch, channels, size[0], size[1], size[2]]`
    ///
    /// # Errors
    /// Same as [`max_unpool1d`](Tensor::max_unpool1d).
    pub fn max_unpool3d(&self, positions: &Tensor, size: [usize; 3]) -> Result<Tensor> {
        unpool("max_unpool3d", self, positions, size)
    }
}

/// Reshapes to `[batch, channels, elements]`.
fn in_rows(x: &Tensor) -> Result<Tensor> {
    let [batch, channels] = [x.shape().dim(0), x.shape().dim(1)];
    x.reshape([batch, channels, x.dims()[2..].iter().product()])
}

fn unpool<const N: usize>(
    op: &'static str,
    x: &Tensor,
    positions: &Tensor,
    size: [usize; N],
) -> Result<Tensor> {
    check_floating(op, x)?;
    spatial_sizes::<N>(op, x)?;
    check::index(op, "positions", &positions.meta())?;
    check::shape(op, "positions", &positions.meta(), *x.shape())?;
    let shape = Shape::new(&[&x.dims()[..2], &size[..]].concat())?;
    let target_count = size.iter().product::<usize>();
    if target_count == 0 && x.elements() > 0 {
        return Err(Error::invalid(op, format!("{} elements to size {size:?}", x.elements())));
    }
    let y = no_grad(|| {
        let zeros = Tensor::zeros([x.shape().dim(0), x.shape().dim(1), target_count], x.dtype(), x.device())?;
        with_index_error_op(op, || zeros.scatter(2, &in_rows(positions)?, &in_rows(x)?))?.reshape(shape)
    })?;
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let mut input_grads = Grads::from_elem(None, 2);
        if let Some(dy) = &grads[0] {
            let dx = in_rows(dy)?.gather(2, &in_rows(context.input(1)?)?)?;
            input_grads[0] = Some(dx.reshape(*context.shape(0))?);
        }
        Ok(input_grads)
    };
    let saves = Saves { inputs: 0b10, outputs: 0 };
    Ok(with_gradient(op, &[x, positions], vec![y], saves, rule)?.swap_remove(0))
}
