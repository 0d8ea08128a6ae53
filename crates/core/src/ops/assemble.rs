//! Tensors put together from parts: borders, concatenation, stacking, repetition.

use crate::backend::Meta;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::shape::MAX_RANK;
use smallvec::SmallVec;

/// A border of `value` around x. Input: x (any dtype). Output: x's shape, each axis longer by `before + after`.
#[derive(Clone, Debug)]
pub struct Pad {
    /// Elements before and after, for each axis.
    pub amounts: SmallVec<[[usize; 2]; MAX_RANK]>,
    /// What the border holds.
    pub value: Scalar,
}

impl Rule for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("pad", inputs, 1)?;
        let shape = inputs[0].shape();
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
}

/// Tensors one after the other along `axis`. Inputs: one or more of one dtype (any), equal in all other axes. Output: sizes added along the axis.
#[derive(Clone, Debug)]
pub struct Concat {
    /// The axis that grows.
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
                    shape: *meta.shape(),
                });
            }
            let size = meta.shape().dim(self.axis);
            check::shape("concat", "input", meta, first.shape().with_dim(self.axis, size))?;
            total = total.saturating_add(size);
        }
        let mut dims: SmallVec<[usize; MAX_RANK]> = first.shape().dims().into();
        dims[self.axis] = total;
        Ok(Outputs::from_buf([Output::fresh(crate::Shape::new(&dims)?, first.dtype)]))
    }
}
