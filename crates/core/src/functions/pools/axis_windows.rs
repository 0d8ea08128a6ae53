//! Windows along one axis of a tensor, and their maxima and sums. The memory used does not depend
//! on the length of the windows.

use crate::autograd::no_grad;
use crate::error::Error;
use crate::geometry::SlidingWindow;
use crate::ops::index::index_dtype;
use crate::{DType, Result, Tensor};

/// Windows along an axis, clipped to existing elements; each contains at least one.
pub(super) struct AxisWindows {
    /// Distance between neighboring elements of a window.
    step: usize,
    /// The first element of each window.
    starts: Vec<usize>,
    /// The number of elements of each window.
    counts: Vec<usize>,
}

impl AxisWindows {
    /// Returns windows that slide along the axis, or `None` if one of them is entirely in the
    /// padding.
    pub(super) fn sliding(window: &SlidingWindow) -> Result<Option<AxisWindows>> {
        let mut windows = AxisWindows::with_capacity(window.count, window.dilation)?;
        for output in 0..window.count {
            let taps = window.taps(output);
            let start = output * window.stride + taps.start * window.dilation;
            match start.checked_sub(window.padding) {
                Some(start) if !taps.is_empty() => windows.push(start, taps.len()),
                _ => return Ok(None),
            }
        }
        Ok(Some(windows))
    }

    /// Returns windows that divide `size` elements into `count` parts: window i is
    /// `floor(i size / count)..ceil((i + 1) size / count)`.
    pub(super) fn dividing(op: &'static str, size: usize, count: usize) -> Result<AxisWindows> {
        if count.checked_mul(size).and_then(|product| product.checked_add(size)).is_none() {
            return Err(Error::invalid(op, format!("an axis of {size} to {count}: too long")));
        }
        let mut windows = AxisWindows::with_capacity(count, 1)?;
        for at in 0..count {
            let start = at * size / count;
            windows.push(start, ((at + 1) * size).div_ceil(count) - start);
        }
        Ok(windows)
    }

    fn with_capacity(count: usize, step: usize) -> Result<AxisWindows> {
        let (mut starts, mut counts) = (Vec::new(), Vec::new());
        if starts.try_reserve_exact(count).is_err() || counts.try_reserve_exact(count).is_err() {
            return Err(Error::host_memory(count.saturating_mul(size_of::<[usize; 2]>())));
        }
        Ok(AxisWindows { step, starts, counts })
    }

    fn push(&mut self, start: usize, count: usize) {
        self.starts.push(start);
        self.counts.push(count);
    }

    /// Returns the number of windows.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the number of elements of each window.
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Returns the index along `axis` of the first maximum of each window, or of a NaN if there is
    /// one. Each window is the union of two windows of 2^i elements, whose maxima are computed by
    /// doubling. The memory used is that of a few tensors with the sizes of the input and of the
    /// result.
    pub(super) fn argmax(&self, x: &Tensor, axis: usize, dtype: DType) -> Result<Tensor> {
        no_grad(|| {
            let mut best = Candidates::all(&x.detach(), axis, dtype)?;
            if self.len() == 0 {
                return best.indices.narrow(axis, 0, 0);
            }
            let (mut parts, mut order) = (Vec::new(), Vec::new());
            for level in 0..=self.longest().ilog2() {
                let width = 1usize << level;
                let members: Vec<usize> =
                    (0..self.len()).filter(|&at| self.counts[at].ilog2() == level).collect();
                if !members.is_empty() {
                    let first: Vec<usize> = members.iter().map(|&at| self.starts[at]).collect();
                    let last =
                        members.iter().map(|&at| self.starts[at] + (self.counts[at] - width) * self.step);
                    let last = best.at(axis, &last.collect::<Vec<_>>())?;
                    parts.push(best.at(axis, &first)?.or(&last)?.indices);
                    order.extend(members);
                }
                if level < self.longest().ilog2() {
                    best = best.doubled(axis, width * self.step)?;
                }
            }
            reorder(&parts, &order, axis)
        })
    }

    /// Returns the sum of each window along `axis`, as a sum over consecutive windows of 2^i
    /// elements. Nothing is subtracted, and the number of roundings is logarithmic in the length.
    pub(super) fn sums(&self, x: &Tensor, axis: usize) -> Result<Tensor> {
        if self.len() == 0 {
            return x.narrow(axis, 0, 0);
        }
        let mut sums = x.clone();
        let mut total: Option<Tensor> = None;
        for level in 0..=self.longest().ilog2() {
            let width = 1usize << level;
            if self.counts.iter().any(|count| count & width != 0) {
                // Windows without a part of this width read a zero that is appended to the sums.
                let zero_index = sums.shape().dim(axis);
                let indices: Vec<usize> = (0..self.len())
                    .map(|at| match self.counts[at] & width {
                        0 => zero_index,
                        _ => self.starts[at] + (self.counts[at] & (width - 1)) * self.step,
                    })
                    .collect();
                let mut border = vec![[0, 0]; x.rank()];
                border[axis] = [0, usize::from(indices.contains(&zero_index))];
                let part = take_indices(&sums.pad(&border, 0)?, axis, &indices)?;
                total = Some(match total {
                    Some(total) => total.add(&part)?,
                    None => part,
                });
            }
            if level < self.longest().ilog2() {
                let rest = sums.shape().dim(axis) - width * self.step;
                sums = sums.narrow(axis, 0, rest)?.add(&sums.narrow(axis, width * self.step, rest)?)?;
            }
        }
        total.ok_or_else(|| Error::invalid("pool", "no windows"))
    }

    fn longest(&self) -> usize {
        self.counts.iter().copied().max().unwrap_or(1)
    }
}

/// Maxima of the windows that begin at each element of an axis, and their indices.
struct Candidates {
    values: Tensor,
    indices: Tensor,
}

impl Candidates {
    /// Returns the candidates of windows of one element.
    fn all(x: &Tensor, axis: usize, dtype: DType) -> Result<Candidates> {
        let size = x.shape().dim(axis);
        let mut dims = vec![1; x.rank()];
        dims[axis] = size;
        let indices = Tensor::iota(size, dtype, 0, 1, x.device())?.reshape(&dims[..])?.expand(*x.shape())?;
        Ok(Candidates { values: x.clone(), indices })
    }

    fn narrow(&self, axis: usize, start: usize, length: usize) -> Result<Candidates> {
        Ok(Candidates {
            values: self.values.narrow(axis, start, length)?,
            indices: self.indices.narrow(axis, start, length)?,
        })
    }

    /// Doubles the length of the windows. The second half begins `distance` elements after the
    /// first.
    fn doubled(&self, axis: usize, distance: usize) -> Result<Candidates> {
        let rest = self.values.shape().dim(axis) - distance;
        self.narrow(axis, 0, rest)?.or(&self.narrow(axis, distance, rest)?)
    }

    fn at(&self, axis: usize, indices: &[usize]) -> Result<Candidates> {
        Ok(Candidates {
            values: take_indices(&self.values, axis, indices)?,
            indices: take_indices(&self.indices, axis, indices)?,
        })
    }

    /// Combines with the maxima of `later` parts of the windows. At ties the earlier element wins.
    fn or(&self, later: &Candidates) -> Result<Candidates> {
        let mut is_later = later.values.gt(&self.values)?;
        if self.values.dtype().is_float() {
            let is_known = self.values.eq(&self.values)?;
            is_later = is_later.logical_or(&later.values.ne(&later.values)?.logical_and(&is_known)?)?;
        }
        Ok(Candidates {
            values: is_later.where_(&later.values, &self.values)?,
            indices: is_later.where_(&later.indices, &self.indices)?,
        })
    }
}

/// Returns the index along `axis` of the first maximum of each window of `length` elements. The
/// windows begin at `starts`, which has the shape of the result.
pub(super) fn argmax_of_length(
    x: &Tensor,
    axis: usize,
    starts: &Tensor,
    length: usize,
    dtype: DType,
) -> Result<Tensor> {
    let mut best = Candidates::all(&x.detach(), axis, dtype)?;
    let width = 1usize << length.ilog2();
    for level in 0..length.ilog2() {
        best = best.doubled(axis, 1 << level)?;
    }
    let take = |starts: &Tensor| {
        Ok(Candidates {
            values: best.values.gather(axis, starts)?,
            indices: best.indices.gather(axis, starts)?,
        })
    };
    let later = starts.add_scalar((length - width) as i64)?;
    Ok(take(starts)?.or(&take(&later)?)?.indices)
}

/// Returns the elements at these indices along `axis`; a view if they are evenly spaced.
fn take_indices(x: &Tensor, axis: usize, indices: &[usize]) -> Result<Tensor> {
    if let [first, second, ..] = *indices
        && second > first
        && indices.windows(2).all(|pair| pair[1] > pair[0] && pair[1] - pair[0] == second - first)
    {
        let end = first + (indices.len() - 1) * (second - first) + 1;
        return x.slice_axis(axis, first, end as isize, (second - first) as isize);
    }
    if let [only] = *indices {
        return x.narrow(axis, only, 1);
    }
    let largest = indices.iter().copied().max().unwrap_or(0);
    let (count, device) = (indices.len(), x.device());
    let index = match index_dtype(largest) {
        DType::I32 => {
            Tensor::from_vec(indices.iter().map(|&at| at as i32).collect::<Vec<_>>(), [count], device)?
        }
        _ => Tensor::from_vec(indices.iter().map(|&at| at as i64).collect::<Vec<_>>(), [count], device)?,
    };
    x.index_select(axis, &index)
}

/// Concatenates parts along `axis` and sorts their slices by the indices in `order`.
fn reorder(parts: &[Tensor], order: &[usize], axis: usize) -> Result<Tensor> {
    match parts {
        [only] => Ok(only.clone()),
        _ => {
            let joined = Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis)?;
            let mut inverse = vec![0; order.len()];
            for (at, &index) in order.iter().enumerate() {
                inverse[index] = at;
            }
            take_indices(&joined, axis, &inverse)
        }
    }
}
