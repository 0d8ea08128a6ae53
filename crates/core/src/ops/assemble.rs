//! Ops that join or split tensors: padding, concatenation, stacking, splitting, repetition.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply, apply_one};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::conv::linear_grad;
use crate::ops::create::exact_scalar;
use crate::precision;
use crate::shape::{Axis, MAX_RANK};
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// Pads x with a border of `value`. Input: x (any dtype). Output: x's shape with each axis longer
/// by `before + after`.
#[derive(Clone, Debug)]
pub struct Pad {
    /// Number of elements added before and after, for each axis.
    pub amounts: Box<[[usize; 2]]>,
    /// The value of the border elements.
    pub value: Scalar,
}

impl Rule for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("pad", inputs, 1)?;
        let shape = inputs[0].shape();
        exact_scalar("pad", self.value, inputs[0].dtype)?;
        if self.amounts.len() != shape.rank() {
            return Err(Error::invalid("pad", format!("{} amounts for shape {shape:?}", self.amounts.len())));
        }
        let dims: SmallVec<[usize; MAX_RANK]> = shape
            .dims()
            .iter()
            .zip(&self.amounts)
            .map(|(&dim, [before, after])| dim.saturating_add(*before).saturating_add(*after))
            .collect();
        Ok(Outputs::from_buf([Output::fresh(crate::Shape::new(&dims)?, inputs[0].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let dims: SmallVec<[usize; MAX_RANK]> =
            x.dims().iter().zip(&self.amounts).map(|(dim, [before, after])| dim + before + after).collect();
        let y = Tensor::full(dims.as_slice(), self.value, x.dtype(), x.device())?;
        self.crop_border(&y, x.dims())?.copy_(x)?;
        Ok(vec![y])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        linear_grad(grad_outputs, |dy| self.crop_border(dy, context.shape(0).dims()))
    }
}

impl Pad {
    /// Returns the view of a padded tensor without its border. `dims` are the sizes of this view.
    fn crop_border(&self, padded: &Tensor, dims: &[usize]) -> Result<Tensor> {
        let mut part = padded.clone();
        for (axis, (&dim, &[before, after])) in dims.iter().zip(&self.amounts).enumerate() {
            if before + after > 0 {
                part = part.narrow(axis, before, dim)?;
            }
        }
        Ok(part)
    }
}

/// Concatenates tensors along `axis`. Inputs: one or more tensors of one dtype (any), with equal
/// sizes in all other axes. Output: the sum of the sizes along the axis.
#[derive(Clone, Debug)]
pub struct Concat {
    /// The axis to concatenate along.
    pub axis: usize,
}

impl Rule for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let Some(first) = inputs.first() else {
            return Err(Error::invalid("concat", "expected at least 1 input, got 0"));
        };
        check::axis("concat", self.axis, first.shape())?;
        let mut total = 0usize;
        for meta in inputs {
            check::same_dtype("concat", first, meta)?;
            if meta.shape().rank() != first.shape().rank() {
                return Err(Error::Rank {
                    op: "concat",
                    expected: first.shape().rank().to_string(),
                    shape: Box::new(*meta.shape()),
                });
            }
            let size = meta.shape().dim(self.axis);
            check::shape("concat", "input", meta, first.shape().resized(self.axis, size, "concat")?)?;
            total = total.saturating_add(size);
        }
        let shape = first.shape().resized(self.axis, total, "concat")?;
        Ok(Outputs::from_buf([Output::fresh(shape, first.dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let total = inputs.iter().map(|part| part.shape().dim(self.axis)).sum();
        let shape = inputs[0].shape().with_dim(self.axis, total);
        let y = Tensor::uninitialized(shape, inputs[0].dtype(), inputs[0].device())?;
        let mut start = 0;
        for part in inputs {
            let size = part.shape().dim(self.axis);
            y.narrow(self.axis, start, size)?.copy_(part)?;
            start += size;
        }
        Ok(vec![y])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    /// The gradient of each input is its slice of dy.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let Some(dy) = &grad_outputs[0] else { return Ok(grads) };
        let mut start = 0;
        for (index, grad) in grads.iter_mut().enumerate() {
            let size = context.shape(index).dim(self.axis);
            if context.needs(index) {
                *grad = Some(dy.narrow(self.axis, start, size)?);
            }
            start += size;
        }
        Ok(grads)
    }
}

impl Tensor {
    /// Pads this tensor with a border of `value`. `amounts` gives the number of elements to add
    /// before and after, for each axis.
    ///
    /// # Errors
    /// Returns an error if there is not one pair for each axis, or if the result is too large.
    pub fn pad(&self, amounts: &[[usize; 2]], value: impl Into<Scalar>) -> Result<Tensor> {
        apply_one(Pad { amounts: amounts.into(), value: value.into() }, &[self])
    }

    /// Concatenates tensors along `axis`.
    ///
    /// # Errors
    /// Returns an error if there are no tensors, if dtypes differ, or if shapes differ in another
    /// axis.
    pub fn concat(tensors: &[&Tensor], axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = match tensors.first() {
            Some(first) => axis.into().resolve(first.shape(), "concat")?,
            None => 0,
        };
        match apply(Concat { axis }, tensors) {
            Err(_) if tensors.is_empty() => Err(Error::invalid("concat", "expected at least 1 input, got 0")),
            outputs => Ok(outputs?.swap_remove(0)),
        }
    }

    /// Stacks tensors of one shape along a new axis. With -1 the new axis is the last one.
    ///
    /// # Errors
    /// Returns an error if there are no tensors, if shapes or dtypes differ, or if the axis is out
    /// of range.
    pub fn stack(tensors: &[&Tensor], axis: impl Into<Axis>) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::invalid("stack", "expected at least 1 input, got 0"));
        };
        let Axis(axis) = axis.into();
        let tensors = precision::widened(tensors)?;
        check_stack(first, &tensors, axis)?;
        let parts = tensors.iter().map(|tensor| tensor.unsqueeze(axis)).collect::<Result<Vec<_>>>()?;
        Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis)
    }

    /// Splits this tensor into parts of `size` along `axis`. The last part is smaller if the length
    /// is not a multiple of `size`. The parts are views: no copy is made.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the size is 0, or if there is not enough
    /// memory for the list of parts.
    pub fn split(&self, axis: impl Into<Axis>, size: usize) -> Result<Vec<Tensor>> {
        let axis = axis.into().resolve(self.shape(), "split")?;
        if size == 0 {
            return Err(Error::invalid("split", "parts of size 0"));
        }
        let length = self.shape().dim(axis);
        // An empty axis has one empty part.
        let count = length.div_ceil(size).max(1);
        let mut sizes = Vec::new();
        if sizes.try_reserve_exact(count).is_err() {
            return Err(Error::host_memory(count.saturating_mul(size_of::<usize>())));
        }
        sizes.extend((0..count).map(|part| size.min(length - part * size)));
        self.parts(axis, sizes)
    }

    /// Splits this tensor into parts of these sizes along `axis`. The parts are views: no copy is
    /// made.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if the sizes do not sum to its length.
    pub fn split_sizes(&self, axis: impl Into<Axis>, sizes: &[usize]) -> Result<Vec<Tensor>> {
        let axis = axis.into().resolve(self.shape(), "split_sizes")?;
        let total = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
        if total != Some(self.shape().dim(axis)) {
            return Err(Error::invalid(
                "split_sizes",
                format!("sizes {sizes:?} on axis {axis} of shape {:?}", self.shape()),
            ));
        }
        self.parts(axis, sizes.to_vec())
    }

    /// Splits this tensor into at most `count` parts along `axis`, all but the last of size
    /// `ceil(length / count)`. The parts are views: no copy is made.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist or the count is 0.
    pub fn chunk(&self, axis: impl Into<Axis>, count: usize) -> Result<Vec<Tensor>> {
        let axis = axis.into().resolve(self.shape(), "chunk")?;
        if count == 0 {
            return Err(Error::invalid("chunk", "0 parts"));
        }
        self.split(axis, self.shape().dim(axis).div_ceil(count).max(1))
    }

    /// Shifts the elements by `shift` positions along `axis`. Elements shifted beyond one end
    /// reenter at the other.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn roll(&self, shift: isize, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "roll")?;
        let length = self.shape().dim(axis);
        if length == 0 {
            return Ok(self.clone());
        }
        let back = shift.rem_euclid(length as isize) as usize;
        let (head, tail) = (self.narrow(axis, 0, length - back)?, self.narrow(axis, length - back, back)?);
        Tensor::concat(&[&tail, &head], axis)
    }

    /// Repeats the tensor `counts[axis]` times along each axis. If there are more counts than axes,
    /// leading axes are added.
    ///
    /// # Errors
    /// Returns an error if there are fewer counts than axes, or if the result is too large.
    pub fn repeat(&self, counts: &[usize]) -> Result<Tensor> {
        let Some(lead) = counts.len().checked_sub(self.rank()) else {
            return Err(Error::invalid("repeat", format!("counts {counts:?} for shape {:?}", self.shape())));
        };
        let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::from_elem(1, lead);
        dims.extend_from_slice(self.dims());
        let mut y = self.reshape(dims.as_slice())?;
        for (axis, &count) in counts.iter().enumerate().filter(|&(_, &count)| count != 1) {
            let (outer, inner) = (dims[..axis].iter().product(), dims[axis..].iter().product());
            dims[axis] = dims[axis].checked_mul(count).ok_or_else(|| {
                Error::invalid("repeat", format!("counts {counts:?} for shape {:?}", self.shape()))
            })?;
            y = y.reshape([outer, 1, inner])?.expand([outer, count, inner])?.reshape(dims.as_slice())?;
        }
        Ok(y)
    }
}

/// Checks that all tensors of a stack have the shape and dtype of the first, and that the new axis
/// is in range.
fn check_stack(first: &Tensor, tensors: &[Tensor], axis: isize) -> Result<()> {
    for tensor in tensors {
        check::shape("stack", "input", &tensor.meta(), *first.shape())?;
        check::same_dtype("stack", &tensors[0].meta(), &tensor.meta())?;
    }
    let rank = first.rank() as isize;
    if !(-rank - 1..=rank).contains(&axis) {
        return Err(Error::Axis { op: "stack", axis, shape: Box::new(*first.shape()) });
    }
    if first.rank() == MAX_RANK {
        let detail = format!("shape {:?} has {MAX_RANK} axes, no more are possible", first.shape());
        return Err(Error::invalid("stack", detail));
    }
    Ok(())
}
