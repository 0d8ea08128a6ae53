//! Permuting, flipping, rotating and repeating elements, summing to a smaller shape, and indices in
//! row-major order.

use super::index_tensor;
use crate::error::{Error, Result};
use crate::op::check;
use crate::shape::Axis;
use crate::{DType, IntoShape, Shape, Tensor};

/// How often elements are repeated.
#[derive(Clone, Copy, Debug)]
pub enum Repeats<'a> {
    /// Every element this number of times.
    All(usize),
    /// Each element as often as a tensor of i32 or i64 says, with one count for each element.
    Each(&'a Tensor),
}
impl From<usize> for Repeats<'_> {
    fn from(count: usize) -> Self {
        Repeats::All(count)
    }
}
impl<'a> From<&'a Tensor> for Repeats<'a> {
    fn from(counts: &'a Tensor) -> Self {
        Repeats::Each(counts)
    }
}

impl Tensor {
    /// Moves the axes `from` to the positions `to` and keeps the order of the others. The result is
    /// a view.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, if the numbers of axes and positions differ, or
    /// if either is given twice.
    pub fn movedim(&self, from: &[isize], to: &[isize]) -> Result<Tensor> {
        let name = "movedim";
        let resolve_axes = |axes: &[isize]| -> Result<Vec<usize>> {
            axes.iter().map(|&axis| Axis(axis).resolve(self.shape(), name)).collect()
        };
        let (sources, targets) = (resolve_axes(from)?, resolve_axes(to)?);
        let is_unique = |axes: &[usize]| (1..axes.len()).all(|at| !axes[..at].contains(&axes[at]));
        if sources.len() != targets.len() || !is_unique(&sources) || !is_unique(&targets) {
            let detail = format!("axes {from:?} to {to:?}, expected as many of both, each once");
            return Err(Error::invalid(name, detail));
        }
        let mut rest = (0..self.rank()).filter(|axis| !sources.contains(axis));
        let order: Vec<usize> = (0..self.rank())
            .filter_map(|axis| match targets.iter().position(|&target| target == axis) {
                Some(at) => Some(sources[at]),
                None => rest.next(),
            })
            .collect();
        self.permute_axes(&order)
    }

    /// Repeats the whole tensor along each axis. Counts are for the last axes; further counts add
    /// leading axes.
    ///
    /// # Shapes
    /// `[.., m, n]` and counts `[a, b]` -> `[.., a * m, b * n]`
    ///
    /// # Errors
    /// Returns an error if the result is too large.
    pub fn tile(&self, counts: &[usize]) -> Result<Tensor> {
        let lead = self.rank().saturating_sub(counts.len());
        self.repeat(&[&vec![1; lead][..], counts].concat())
    }

    /// Repeats each element, or each slice along an axis, several times in succession.
    ///
    /// # Shapes
    /// `[.., n, ..]` -> `[.., n * repeats, ..]`; without an axis `[elements * repeats]`
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the number of repeats is not the size of the
    /// axis, if a repeat is negative or has a dtype other than i32 and i64, or if the result is too
    /// large.
    pub fn repeat_interleave<'a>(
        &self,
        repeats: impl Into<Repeats<'a>>,
        axis: Option<Axis>,
    ) -> Result<Tensor> {
        let name = "repeat_interleave";
        let Some(axis) = axis else {
            return self.reshape([self.elements()])?.repeat_interleave(repeats, Some(Axis(0)));
        };
        let axis = axis.resolve(self.shape(), name)?;
        let counts = match repeats.into() {
            Repeats::Each(counts) => counts,
            Repeats::All(count) => {
                let shape = self.shape().resized(axis, self.dims()[axis].saturating_mul(count), name)?;
                let (outer, inner) =
                    (self.dims()[..=axis].iter().product(), self.dims()[axis + 1..].iter().product());
                return self.reshape([outer, 1, inner])?.expand([outer, count, inner])?.reshape(shape);
            }
        };
        check::index(name, "repeats", &counts.meta())?;
        check::shape(name, "repeats", &counts.meta(), Shape::new(&[self.dims()[axis]])?)?;
        let index = repeat_indices(name, &counts.to_dtype(DType::I64)?.to_vec::<i64>()?)?;
        let count = index.len();
        self.index_select(axis, &index_tensor(index, [count], self.device())?)
    }

    /// Reverses the order of the columns, which are the second axis. The result is a view.
    ///
    /// # Errors
    /// Returns an error if there are fewer than 2 axes.
    pub fn fliplr(&self) -> Result<Tensor> {
        match self.rank() {
            0 | 1 => Err(Error::Rank {
                op: "fliplr",
                expected: "at least 2".into(),
                shape: Box::new(*self.shape()),
            }),
            _ => self.flip(1),
        }
    }

    /// Reverses the order of the rows, which are the first axis. The result is a view.
    ///
    /// # Errors
    /// Returns an error if there are no axes.
    pub fn flipud(&self) -> Result<Tensor> {
        match self.rank() {
            0 => Err(Error::Rank {
                op: "flipud",
                expected: "at least 1".into(),
                shape: Box::new(*self.shape()),
            }),
            _ => self.flip(0),
        }
    }

    /// Rotates by `turns` right angles in the plane of two axes, from the first toward the second.
    /// The result is a copy.
    ///
    /// # Shapes
    /// `[rows, columns]` -> `[columns, rows]`, or the same shape for an even number of turns
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, or if both are the same.
    pub fn rot90(&self, turns: isize, first: impl Into<Axis>, second: impl Into<Axis>) -> Result<Tensor> {
        let name = "rot90";
        let (first, second) =
            (first.into().resolve(self.shape(), name)?, second.into().resolve(self.shape(), name)?);
        if first == second {
            return Err(Error::invalid(name, format!("axes {first} and {second}, expected two")));
        }
        match turns.rem_euclid(4) {
            0 => self.copy(),
            1 => self.flip(second)?.transpose(first, second)?.copy(),
            2 => self.flip([first, second])?.copy(),
            _ => self.flip(first)?.transpose(first, second)?.copy(),
        }
    }

    /// Sums over the axes along which a tensor of this shape is broadcast to the shape of this
    /// tensor: the inverse of [`expand`](Tensor::expand). Sums of integers and bool are in i64; so
    /// is the sum to the shape `[]`, even of a single element.
    ///
    /// # Errors
    /// Returns an error if the shape does not broadcast to that of this tensor.
    pub fn sum_to_size(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if !shape.broadcasts_to(self.shape()) {
            let detail = format!("{shape:?} does not broadcast to shape {:?}", self.shape());
            return Err(Error::invalid("sum_to_size", detail));
        }
        if shape.rank() == 0 {
            return self.sum(..);
        }
        let lead = self.rank() - shape.rank();
        let is_summed =
            |&axis: &usize| axis < lead || (shape.dim(axis - lead) == 1 && self.dims()[axis] != 1);
        let axes: Vec<usize> = (0..self.rank()).filter(is_summed).collect();
        if axes.is_empty() { Ok(self.clone()) } else { self.sum(&axes[..])?.reshape(shape) }
    }

    /// Converts indices in row-major order into one index along each axis of a tensor of this
    /// shape, in i64. Indices beyond the last element wrap around.
    ///
    /// # Shapes
    /// `[..]` -> one `[..]` for each axis of the shape
    ///
    /// # Errors
    /// Returns an error if the dtype is not an integer dtype, or if the shape has no elements.
    pub fn unravel_index(&self, shape: impl IntoShape) -> Result<Vec<Tensor>> {
        let (name, shape) = ("unravel_index", shape.into_shape()?);
        if !self.dtype().is_int() {
            return Err(Error::dtype(name, "input", self.dtype(), "an integer dtype"));
        }
        if shape.elements() == 0 {
            return Err(Error::invalid(name, format!("shape {shape:?}, expected elements")));
        }
        let index = self.to_dtype(DType::I64)?;
        let axis = |axis: usize| {
            let stride: usize = shape.dims()[axis + 1..].iter().product();
            index.div_scalar(stride as i64)?.remainder_scalar(shape.dim(axis) as i64)
        };
        (0..shape.rank()).map(axis).collect()
    }
}

/// The maximum number of positions that are listed in host memory.
const MAX_LISTED: usize = 1 << 31;

/// Returns each position as often as its count says.
fn repeat_indices(name: &'static str, counts: &[i64]) -> Result<Vec<usize>> {
    let total = counts.iter().try_fold(0usize, |sum, &count| match usize::try_from(count) {
        Ok(count) => Ok(sum.saturating_add(count)),
        Err(_) => Err(Error::invalid(name, format!("repeats of {count}, expected 0 or more"))),
    })?;
    let mut index = Vec::new();
    if total > MAX_LISTED || index.try_reserve_exact(total).is_err() {
        return Err(Error::host_memory(total.saturating_mul(size_of::<usize>())));
    }
    for (position, &count) in counts.iter().enumerate() {
        index.extend(std::iter::repeat_n(position, count as usize));
    }
    Ok(index)
}
