//! Picking, putting, adding and sorting along an axis.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::{DType, Shape};

/// `y[.., i, ..] = x[.., index[.., i, ..], ..]` along `axis`. Inputs: x (any dtype), index (i32/i64) of x's rank, each other axis of
/// index at most as long as x's. Output: index's shape, x's dtype. Indices are in `0..size`, else
/// [`IndexOutOfRange`](Error::IndexOutOfRange). Primitive.
#[derive(Clone, Debug)]
pub struct Gather {
    /// The axis that indices run along.
    pub axis: usize,
}

impl Rule for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("gather", inputs, 2)?;
        index_fits("gather", self.axis, &inputs[0], &inputs[1])?;
        Ok(Outputs::from_buf([Output::fresh(*inputs[1].shape(), inputs[0].dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
}

/// What scatter does where elements meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterMode {
    /// The last one (in row-major order of the source) stays.
    Set,
    /// They are added, in row-major order of the source (halves: in f32, rounded once at the end).
    Add,
}

/// `y = base`, then `y[.., index[.., i, ..], ..] = source[.., i, ..]` (or `+=`) along `axis`. Inputs: base, index (i32/i64) and source, all of one
/// rank; source has index's shape and base's dtype. Output: base's shape and dtype, may take base's place. Primitive.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The axis that indices run along.
    pub axis: usize,
    /// Set or add.
    pub mode: ScatterMode,
}

impl Rule for Scatter {
    fn name(&self) -> &'static str {
        match self.mode {
            ScatterMode::Set => "scatter_set",
            ScatterMode::Add => "scatter_add",
        }
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 3)?;
        index_fits(name, self.axis, &inputs[0], &inputs[1])?;
        check::shape(name, "source", &inputs[2], *inputs[1].shape())?;
        check::same_dtype(name, &inputs[0], &inputs[2])?;
        if self.mode == ScatterMode::Add && inputs[0].dtype == DType::Bool {
            return Err(Error::DType { op: name, what: "base", got: DType::Bool, expected: "a number" });
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
}

/// `y[.., i, ..] = x[.., index[i], ..]` along `axis`. Inputs: x (any dtype), index `[count]` (i32/i64). Output: x's shape with `count` along
/// the axis. Composition: [`Gather`] with an expanded index.
#[derive(Clone, Debug)]
pub struct IndexSelect {
    /// The axis that is picked from.
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
        Ok(Outputs::from_buf([Output::fresh(inputs[0].shape().with_dim(self.axis, count), inputs[0].dtype)]))
    }
}

/// `y = base`, then `y[.., index[i], ..] += source[.., i, ..]` along `axis`, in rising order of i (halves: in f32, rounded once at the end). Inputs: base, index
/// `[count]` (i32/i64), source (base's dtype and shape with `count` along the axis). Output: as base, may take its place. Composition:
/// [`Scatter`] with an expanded index.
#[derive(Clone, Debug)]
pub struct IndexAdd {
    /// The axis that is added along.
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
        check::shape(name, "source", &inputs[2], inputs[0].shape().with_dim(self.axis, count))?;
        if inputs[0].dtype == DType::Bool {
            return Err(Error::DType { op: name, what: "base", got: DType::Bool, expected: "a number" });
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
}

/// Values of x sorted along `axis`, and where they came from. Input: x (any dtype). Outputs: values (as x), positions (i32, same shape).
///
/// Stable: equal elements keep their order, also when descending. NaN counts as larger than everything. Primitive.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The axis.
    pub axis: usize,
    /// Largest first.
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
        Ok([Output::fresh(shape, inputs[0].dtype), Output::fresh(shape, DType::I32)].into_iter().collect())
    }
    fn is_primitive(&self) -> bool {
        true
    }
}

fn index_fits(op: &'static str, axis: usize, base: &Meta<'_>, index: &Meta<'_>) -> Result<()> {
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
