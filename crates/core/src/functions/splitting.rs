//! Splitting an axis into parts, without copies.

use crate::Tensor;
use crate::error::{Error, Result};
use crate::shape::Axis;

/// The parts into which an axis is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sections<'a> {
    /// This number of parts.
    Count(usize),
    /// The parts that begin at these indices, and the part before the first index. Negative indices
    /// count from the end.
    At(&'a [isize]),
}
impl From<usize> for Sections<'_> {
    fn from(count: usize) -> Self {
        Sections::Count(count)
    }
}
impl<'a> From<&'a [isize]> for Sections<'a> {
    fn from(indices: &'a [isize]) -> Self {
        Sections::At(indices)
    }
}
impl<'a, const N: usize> From<&'a [isize; N]> for Sections<'a> {
    fn from(indices: &'a [isize; N]) -> Self {
        Sections::At(indices)
    }
}

impl Tensor {
    /// Splits an axis into a number of parts, or at indices, which are clamped to the axis. If the
    /// number of parts does not divide the size, the first parts have one more element.
    ///
    /// # Shapes
    /// `[.., n, ..]` -> parts `[.., part, ..]`
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the number of parts is 0, or if there are
    /// more parts than can be listed in memory.
    pub fn tensor_split<'a>(
        &self,
        sections: impl Into<Sections<'a>>,
        axis: impl Into<Axis>,
    ) -> Result<Vec<Tensor>> {
        let name = "tensor_split";
        let axis = axis.into().resolve(self.shape(), name)?;
        let size = self.dims()[axis];
        let count = match sections.into() {
            Sections::At(indices) => return split_at_indices(self, axis, indices),
            Sections::Count(0) => return Err(Error::invalid(name, "0 parts, expected at least 1")),
            Sections::Count(count) => count,
        };
        let mut sizes = Vec::new();
        if sizes.try_reserve_exact(count).is_err() {
            return Err(Error::host_memory(count.saturating_mul(size_of::<usize>())));
        }
        sizes.extend((0..count).map(|part| size / count + usize::from(part < size % count)));
        self.parts(axis, sizes)
    }

    /// Splits the second axis, or the only one. A number of parts must divide it into equal sizes.
    ///
    /// # Shapes
    /// `[rows, columns, ..]` -> parts `[rows, part, ..]`; `[n]` -> parts `[part]`
    ///
    /// # Errors
    /// Returns an error if there are no axes, or if the number of parts does not divide the axis.
    pub fn hsplit<'a>(&self, sections: impl Into<Sections<'a>>) -> Result<Vec<Tensor>> {
        split_evenly("hsplit", self, sections.into(), usize::from(self.rank() > 1), 1)
    }

    /// Splits the first axis. A number of parts must divide it into equal sizes.
    ///
    /// # Shapes
    /// `[rows, columns, ..]` -> parts `[part, columns, ..]`
    ///
    /// # Errors
    /// Returns an error if there are fewer than 2 axes, or if the number of parts does not divide
    /// the first.
    pub fn vsplit<'a>(&self, sections: impl Into<Sections<'a>>) -> Result<Vec<Tensor>> {
        split_evenly("vsplit", self, sections.into(), 0, 2)
    }

    /// Splits the third axis. A number of parts must divide it into equal sizes.
    ///
    /// # Shapes
    /// `[rows, columns, depth, ..]` -> parts `[rows, columns, part, ..]`
    ///
    /// # Errors
    /// Returns an error if there are fewer than 3 axes, or if the number of parts does not divide
    /// the third.
    pub fn dsplit<'a>(&self, sections: impl Into<Sections<'a>>) -> Result<Vec<Tensor>> {
        split_evenly("dsplit", self, sections.into(), 2, 3)
    }
}

/// Returns the parts between indices, which may be in any order. A part whose end is before its
/// start is empty.
fn split_at_indices(x: &Tensor, axis: usize, indices: &[isize]) -> Result<Vec<Tensor>> {
    let size = x.dims()[axis];
    let offset = |&index: &isize| {
        let from_front = if index < 0 { index.saturating_add_unsigned(size) } else { index };
        usize::try_from(from_front).unwrap_or(0).min(size)
    };
    let ends: Vec<usize> = indices.iter().map(offset).chain([size]).collect();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, &end)| x.narrow(axis, start, end.saturating_sub(start))).collect()
}

/// Splits `axis` by `tensor_split`. The tensor must have at least `min_rank` axes, and a number of
/// parts must divide the axis into equal sizes.
fn split_evenly(
    name: &'static str,
    x: &Tensor,
    sections: Sections<'_>,
    axis: usize,
    min_rank: usize,
) -> Result<Vec<Tensor>> {
    if x.rank() < min_rank {
        let shape = Box::new(*x.shape());
        return Err(Error::Rank { op: name, expected: format!("at least {min_rank}"), shape });
    }
    match sections {
        Sections::Count(count) if count == 0 || !x.dims()[axis].is_multiple_of(count) => Err(Error::invalid(
            name,
            format!("{count} parts of one size of axis {axis} of shape {:?}", x.shape()),
        )),
        sections => x.tensor_split(sections, axis),
    }
}
