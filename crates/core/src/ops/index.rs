//! Gather, scatter, and adding slices by integer index tensors. Methods that sort and count are in
//! `sort`, `x.i(..)` is in `indexing`.

use crate::autograd::{Context, Grads, is_recording};
use crate::backend::Meta;
use crate::dispatch::{apply_into, apply_one};
use crate::error::{Error, Result, with_index_error_op};
use crate::op::{Differentiability, Op, Output, Outputs, Rule, Saves, check};
use crate::shape::{Axis, MAX_RANK};
use crate::tensor::Tensor;
use crate::{DType, Shape};
use smallvec::SmallVec;

/// The gradient needs only the index, which is input 1.
const SAVES_INDEX: Differentiability = Differentiability::Stated(Saves { inputs: 0b10, outputs: 0 });

/// `y[.., i, ..] = x[.., index[.., i, ..], ..]` along `axis`. Inputs: x (any dtype), and index
/// (i32/i64) of x's rank, whose size along every other axis is at most x's. Output: index's shape,
/// x's dtype. Indices outside `0..size` are an [`IndexOutOfRange`](Error::IndexOutOfRange) error.
/// Primitive.
#[derive(Clone, Debug)]
pub struct Gather {
    /// The axis that is indexed.
    pub axis: usize,
}

impl Rule for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("gather", inputs, 2)?;
        check_index_fits("gather", self.axis, &inputs[0], &inputs[1])?;
        Ok(Outputs::from_buf([Output::fresh(*inputs[1].shape(), inputs[0].dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        SAVES_INDEX
    }
    /// Adds each element of dy to the element that was gathered.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        if let (Some(dy), true) = (&grad_outputs[0], context.needs(0)) {
            let op = Scatter { axis: self.axis, mode: ScatterMode::Add };
            grads[0] = Some(add_into_zeros(op, context.shape(0), context.input(1)?, dy)?);
        }
        Ok(grads)
    }
}

op_enum! {
    /// How scatter handles repeated indices.
    pub enum ScatterMode: name {
        /// The last element (in row-major order of the source) is kept.
        Set: "scatter_set";
        /// The elements are added, in row-major order of the source (f16 and bf16: in f32, rounded
        /// once at the end).
        Add: "scatter_add";
    }
}

/// `y = base`, then `y[.., index[.., i, ..], ..] = source[.., i, ..]` (or `+=`) along `axis`.
/// Inputs: base, index (i32/i64) and source, all of one rank; source has index's shape and base's
/// dtype. Output: base's shape and dtype, may reuse base's buffer. Primitive.
///
/// Gradients are exact even if indices repeat: of several source elements that are set at one
/// index, only the last one, which is kept, gets a gradient.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The axis that is indexed.
    pub axis: usize,
    /// Set or add.
    pub mode: ScatterMode,
}

impl Rule for Scatter {
    fn name(&self) -> &'static str {
        self.mode.name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 3)?;
        check_index_fits(name, self.axis, &inputs[0], &inputs[1])?;
        check::shape(name, "source", &inputs[2], *inputs[1].shape())?;
        check::same_dtype(name, &inputs[0], &inputs[2])?;
        if self.mode == ScatterMode::Add && inputs[0].dtype == DType::Bool {
            return Err(Error::dtype(name, "base", DType::Bool, "a number"));
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        SAVES_INDEX
    }
    /// Set: the gradient of base is dy where nothing was written, the gradient of source is dy
    /// where the element was kept. Add: the gradient of base is dy, the gradient of source is dy
    /// gathered at the indices.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 3);
        let Some(dy) = &grad_outputs[0] else { return Ok(grads) };
        let (axis, index) = (self.axis, context.input(1)?);
        if context.needs(0) {
            grads[0] = Some(match self.mode {
                ScatterMode::Set => {
                    dy.scatter(axis, index, &Tensor::zeros(*index.shape(), dy.dtype(), dy.device())?)?
                }
                ScatterMode::Add => dy.clone(),
            });
        }
        if context.needs(2) {
            let gathered = dy.gather(axis, index)?;
            grads[2] = Some(match self.mode {
                ScatterMode::Set => {
                    let zero = Tensor::zeros((), dy.dtype(), dy.device())?;
                    last_write_mask(axis, index, dy.shape())?.where_(&gathered, &zero)?
                }
                ScatterMode::Add => gathered,
            });
        }
        Ok(grads)
    }
}

/// Returns the mask of the source elements that are kept when all are set at `index` in a base of
/// this shape.
fn last_write_mask(axis: usize, index: &Tensor, base: &Shape) -> Result<Tensor> {
    let source_index = Tensor::iota(index.elements(), index_dtype(index.elements()), 0, 1, index.device())?
        .reshape(*index.shape())?;
    let last_source =
        Tensor::zeros(*base, source_index.dtype(), index.device())?.scatter(axis, index, &source_index)?;
    last_source.gather(axis, index)?.eq(&source_index)
}

/// Returns the dtype for indices below `size`: i32, which every backend supports, if it is large
/// enough, otherwise i64.
pub(crate) fn index_dtype(size: usize) -> DType {
    if i32::try_from(size).is_ok() { DType::I32 } else { DType::I64 }
}

/// `y[.., i, ..] = x[.., index[i], ..]` along `axis`. Inputs: x (any dtype), index `[count]`
/// (i32/i64). Output: x's shape with `count` along the axis. Composition: [`Gather`] with an
/// expanded index.
#[derive(Clone, Debug)]
pub struct IndexSelect {
    /// The axis that is indexed.
    pub axis: usize,
}

impl Rule for IndexSelect {
    fn name(&self) -> &'static str {
        "index_select"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "index_select";
        check::count(name, inputs, 2)?;
        check::axis(name, self.axis, inputs[0].shape())?;
        check::index(name, "index", &inputs[1])?;
        let [count] = inputs[1].shape().to_array(name)?;
        let shape = inputs[0].shape().resized(self.axis, count, name)?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, index) = (&inputs[0], &inputs[1]);
        let shape = x.shape().with_dim(self.axis, index.elements());
        Ok(vec![x.gather(self.axis, &expand_index(index, self.axis, shape)?)?])
    }
    fn differentiability(&self) -> Differentiability {
        SAVES_INDEX
    }
    /// Adds each slice of dy to the slice that was selected.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        if let (Some(dy), true) = (&grad_outputs[0], context.needs(0)) {
            let op = IndexAdd { axis: self.axis };
            // Added to the partial gradient from other uses of the table, such as a tied output
            // layer: in place if it has no other owner.
            grads[0] = Some(match context.take_partial(0, dy.dtype()) {
                Some(partial) => index_add_into(op, partial, context.input(1)?, dy)?,
                None => add_into_zeros(op, context.shape(0), context.input(1)?, dy)?,
            });
        }
        Ok(grads)
    }
}

/// Returns zeros of `shape` to which `op` adds `source` at `index`. The addition is in place unless
/// it is recorded for a gradient of `source`, because a copy of a large table would take longer
/// than the addition.
pub(crate) fn add_into_zeros(
    op: impl Into<Op>,
    shape: &Shape,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor> {
    let zeros = Tensor::zeros(*shape, source.dtype(), source.device())?;
    if is_recording() && source.needs_grad() {
        return apply_one(op, &[&zeros, index, source]);
    }
    apply_into(op, &[&zeros, index, source], &zeros)?;
    Ok(zeros)
}

/// Adds `source` at `index` to `base` with `op`, in place if `base` has no other owner and nothing
/// is recorded.
fn index_add_into(op: IndexAdd, base: Tensor, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    if !base.is_sole_owner() || is_recording() {
        return apply_one(op, &[&base, index, source]);
    }
    apply_into(op, &[&base, index, source], &base)?;
    Ok(base)
}

/// Expands `index[i]` to every `[.., i, ..]` of `shape`, without a copy.
pub(crate) fn expand_index(index: &Tensor, axis: usize, shape: Shape) -> Result<Tensor> {
    let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::from_elem(1, shape.rank());
    dims[axis] = index.elements();
    index.reshape(dims.as_slice())?.expand(shape)
}

/// `y = base`, then `y[.., index[i], ..] += source[.., i, ..]` along `axis`, in ascending order of
/// i (half precision: in f32, rounded once at the end). Inputs: base, index `[count]` (i32/i64),
/// source (base's dtype and shape, with `count` along the axis). Output: base's shape and dtype,
/// may reuse base's buffer. Composition: [`Scatter`] with an expanded index.
#[derive(Clone, Debug)]
pub struct IndexAdd {
    /// The axis that is indexed.
    pub axis: usize,
}

impl Rule for IndexAdd {
    fn name(&self) -> &'static str {
        "index_add"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "index_add";
        check::count(name, inputs, 3)?;
        check::axis(name, self.axis, inputs[0].shape())?;
        check::index(name, "index", &inputs[1])?;
        let [count] = inputs[1].shape().to_array(name)?;
        check::same_dtype(name, &inputs[0], &inputs[2])?;
        check::shape(name, "source", &inputs[2], inputs[0].shape().resized(self.axis, count, name)?)?;
        if inputs[0].dtype == DType::Bool {
            return Err(Error::dtype(name, "base", DType::Bool, "a number"));
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (base, index, source) = (&inputs[0], &inputs[1], &inputs[2]);
        Ok(vec![base.scatter_add(self.axis, &expand_index(index, self.axis, *source.shape())?, source)?])
    }
    fn differentiability(&self) -> Differentiability {
        SAVES_INDEX
    }
    /// The gradient of base is dy. The gradient of each source slice is the slice of dy to which it
    /// was added.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 3);
        let Some(dy) = &grad_outputs[0] else { return Ok(grads) };
        grads[0] = context.needs(0).then(|| dy.clone());
        if context.needs(2) {
            grads[2] = Some(dy.index_select(self.axis, context.input(1)?)?);
        }
        Ok(grads)
    }
}

/// Sorts x along `axis`. Input: x (any dtype). Outputs: values (x's shape and dtype), and their
/// indices in x along the axis (i32, same shape).
///
/// Stable: equal elements keep their order, also when descending. NaN is larger than all numbers.
/// Primitive.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The axis to sort along.
    pub axis: usize,
    /// Whether the largest element comes first.
    pub descending: bool,
}

impl Rule for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("sort", inputs, 1)?;
        check::axis("sort", self.axis, inputs[0].shape())?;
        let shape = *inputs[0].shape();
        check::positions("sort", shape.dim(self.axis))?;
        Ok([Output::fresh(shape, inputs[0].dtype), Output::fresh(shape, DType::I32)].into_iter().collect())
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0, outputs: 0b10 })
    }
    /// Scatters dy to the original indices of the values.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 1);
        if let Some(dy) = &grad_outputs[0] {
            // The indices contain every element exactly once, so adding to zeros sets the elements,
            // and the gradient of the addition is a plain gather.
            let zeros = Tensor::zeros(*dy.shape(), dy.dtype(), dy.device())?;
            grads[0] = Some(zeros.scatter_add(self.axis, context.output(1)?, dy)?);
        }
        Ok(grads)
    }
}

pub(crate) fn check_index_fits(
    op: &'static str,
    axis: usize,
    base: &Meta<'_>,
    index: &Meta<'_>,
) -> Result<()> {
    check::axis(op, axis, base.shape())?;
    check::index(op, "index", index)?;
    let (from, to): (&Shape, &Shape) = (base.shape(), index.shape());
    let fits = from.rank() == to.rank()
        && (0..from.rank()).all(|other| other == axis || to.dim(other) <= from.dim(other));
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(op, format!("index of shape {to:?} on shape {from:?} along axis {axis}")))
    }
}

impl Tensor {
    /// Returns `y[.., i, ..] = self[.., index[.., i, ..], ..]` along `axis`: one element of this
    /// tensor for each element of `index`.
    ///
    /// # Shapes
    /// `index` (i32 or i64) has this tensor's rank and is not longer along every other axis. The
    /// result has the shape of `index`.
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, or if an index is out of range.
    pub fn gather(&self, axis: impl Into<Axis>, index: &Tensor) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "gather")?;
        apply_one(Gather { axis }, &[self, index])
    }

    /// Returns this tensor with element `[.., index[.., i, ..], ..]` along `axis` replaced by
    /// `source[.., i, ..]`. If indices repeat, the last source element is kept, and only this one
    /// gets a gradient.
    ///
    /// # Shapes
    /// `index` (i32 or i64) and `source` have the same shape, with this tensor's rank, and are not
    /// longer along every other axis.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if an index is out of range.
    pub fn scatter(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "scatter_set")?;
        apply_one(Scatter { axis, mode: ScatterMode::Set }, &[self, index, source])
    }

    /// Returns this tensor with `source[.., i, ..]` added to element `[.., index[.., i, ..], ..]`
    /// along `axis`.
    ///
    /// # Shapes
    /// Same as [`scatter`](Tensor::scatter).
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, for bool, or if an index is out of
    /// range.
    pub fn scatter_add(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "scatter_add")?;
        apply_one(Scatter { axis, mode: ScatterMode::Add }, &[self, index, source])
    }

    /// In-place version of [`scatter`](Tensor::scatter).
    ///
    /// # Errors
    /// Same as [`scatter`](Tensor::scatter) and [`apply_into`].
    pub fn scatter_(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<()> {
        let axis = axis.into().resolve(self.shape(), "scatter_set")?;
        apply_into(Scatter { axis, mode: ScatterMode::Set }, &[self, index, source], self)
    }

    /// In-place version of [`scatter_add`](Tensor::scatter_add).
    ///
    /// # Errors
    /// Same as [`scatter_add`](Tensor::scatter_add) and [`apply_into`].
    pub fn scatter_add_(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<()> {
        let axis = axis.into().resolve(self.shape(), "scatter_add")?;
        apply_into(Scatter { axis, mode: ScatterMode::Add }, &[self, index, source], self)
    }

    /// Selects the slices `index[0]`, `index[1]`, .. along `axis`.
    ///
    /// # Shapes
    /// `index` is `[count]` (i32 or i64); the result has `count` slices.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if an index is out of range.
    pub fn index_select(&self, axis: impl Into<Axis>, index: &Tensor) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "index_select")?;
        apply_one(IndexSelect { axis }, &[self, index])
    }

    /// Returns this tensor with slice `i` of `source` added to slice `index[i]` along `axis`.
    ///
    /// # Shapes
    /// `index` is `[count]` (i32 or i64); `source` has this tensor's shape, with `count` slices
    /// along `axis`.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, for bool, or if an index is out of
    /// range.
    pub fn index_add(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "index_add")?;
        apply_one(IndexAdd { axis }, &[self, index, source])
    }

    /// In-place version of [`index_add`](Tensor::index_add).
    ///
    /// # Errors
    /// Same as [`index_add`](Tensor::index_add) and [`apply_into`].
    pub fn index_add_(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<()> {
        let axis = axis.into().resolve(self.shape(), "index_add")?;
        apply_into(IndexAdd { axis }, &[self, index, source], self)
    }

    /// Looks up the rows of this table at `indices`: `[rows, width]` and indices `[..]` (i32 or
    /// i64) give `[.., width]`.
    ///
    /// # Errors
    /// Returns an error if the table is not a matrix, or if indices have another dtype or are out
    /// of range.
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        let [_, width] = self.shape().to_array("embedding")?;
        check::index("embedding", "indices", &indices.meta())?;
        let flat = indices.reshape([indices.elements()])?;
        let rows = with_index_error_op("embedding", || self.index_select(0, &flat))?;
        let mut dims: SmallVec<[usize; MAX_RANK]> = indices.dims().into();
        dims.push(width);
        rows.reshape(dims.as_slice())
    }
}
