//! The op that assigns a tensor to a slice of another one.

use super::{IndexItem, resolve_index};
use crate::Layout;
use crate::Shape;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::shape::MAX_RANK;
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// `y = base` with `source` assigned to one slice: along each axis every `step`-th element from
/// `start` to `end`, as in [`Layout::slice`](crate::Layout::slice). Inputs: base, source (base's
/// dtype and the slice's shape). Output: base's shape and dtype, may reuse base's buffer.
#[derive(Clone, Debug)]
pub struct SliceAssign {
    /// Start, end and step for each axis of the base.
    pub slices: Box<[(usize, isize, isize)]>,
}

impl SliceAssign {
    /// Returns the slice that `items` select from `shape`, and the shape of the indexed result.
    pub(super) fn of(shape: &Shape, items: &[IndexItem]) -> Result<(SliceAssign, Shape)> {
        let mut slices = Vec::new();
        let mut result_dims: SmallVec<[usize; MAX_RANK]> = SmallVec::new();
        for item in items {
            let size = shape.dims().get(slices.len()).copied().unwrap_or(1);
            match item {
                IndexItem::At(at) => {
                    let at = resolve_index(*at, size)?;
                    slices.push((at, at as isize + 1, 1));
                }
                IndexItem::Slice(slice) => {
                    let (start, end, step) = slice.resolve(size)?;
                    slices.push((start, end, step));
                    result_dims.push(slice_length(start, end, step));
                }
                IndexItem::NewAxis => result_dims.push(1),
                IndexItem::Ellipsis => {}
                IndexItem::Tensor(_) => {
                    return Err(Error::invalid(
                        "slice_assign",
                        "an index with tensors; use scatter, index_add or masked_scatter",
                    ));
                }
            }
        }
        Ok((SliceAssign { slices: slices.into() }, Shape::new(&result_dims)?))
    }

    /// Returns the shape of the slice, with all axes of the base.
    pub(super) fn region(&self, base: &Shape) -> Shape {
        let lengths = self.slices.iter().map(|&(start, end, step)| slice_length(start, end, step));
        lengths.enumerate().fold(*base, |shape, (axis, length)| shape.with_dim(axis, length))
    }

    /// Returns the layout of the slice of a tensor with layout `base`.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, or if a slice is out of range.
    pub fn layout(&self, base: &Layout) -> Result<Layout> {
        let mut slices = self.slices.iter().enumerate();
        slices.try_fold(*base, |layout, (axis, &(start, end, step))| layout.slice(axis, start, end, step))
    }

    /// Returns the slice of `x`, which has the base's shape.
    fn view(&self, x: &Tensor) -> Result<Tensor> {
        let mut view = x.clone();
        for (axis, &(start, end, step)) in self.slices.iter().enumerate() {
            view = view.slice_axis(axis, start, end, step)?;
        }
        Ok(view)
    }
}

fn slice_length(start: usize, end: isize, step: isize) -> usize {
    let span = if step > 0 { end - start as isize } else { start as isize - end };
    span.max(0).unsigned_abs().div_ceil(step.unsigned_abs())
}

impl Rule for SliceAssign {
    fn name(&self) -> &'static str {
        "slice_assign"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "slice_assign";
        check::count(name, inputs, 2)?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let layout = inputs[0].layout;
        if self.slices.len() != layout.shape().rank() {
            let detail = format!("{} slices of shape {:?}", self.slices.len(), layout.shape());
            return Err(Error::invalid(name, detail));
        }
        check::shape(name, "source", &inputs[1], *self.layout(layout)?.shape())?;
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let y = inputs[0].copy()?;
        self.view(&y)?.copy_(&inputs[1])?;
        Ok(vec![y])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    /// The gradient of base is dy with zeros in the slice, the gradient of source is the slice of
    /// dy.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        let Some(dy) = &grad_outputs[0] else { return Ok(grads) };
        if context.needs(0) {
            let zeros = Tensor::zeros(*context.shape(1), dy.dtype(), dy.device())?;
            grads[0] = Some(apply_one(self.clone(), &[dy, &zeros])?);
        }
        if context.needs(1) {
            grads[1] = Some(self.view(dy)?);
        }
        Ok(grads)
    }
}
