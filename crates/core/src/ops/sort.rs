//! Sorting along an axis, and counting of values. The op is [`Sort`].

use super::index::{Sort, index_dtype};
use crate::dispatch::apply;
use crate::error::{Error, Result};
use crate::shape::Axis;
use crate::tensor::Tensor;
use crate::{DType, Scalar};

impl Tensor {
    /// Returns the values sorted along `axis`, and their original indices (i32).
    ///
    /// Stable: equal elements keep their order, also when descending. NaN is larger than all
    /// numbers.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn sort(&self, axis: impl Into<Axis>, descending: bool) -> Result<(Tensor, Tensor)> {
        let axis = axis.into().resolve(self.shape(), "sort")?;
        let mut outputs = apply(Sort { axis, descending }, &[self])?.into_iter();
        match (outputs.next(), outputs.next()) {
            (Some(values), Some(positions)) => Ok((values, positions)),
            _ => Err(Error::invalid("sort", "the device returned fewer than 2 outputs")),
        }
    }

    /// Returns the indices (i32) that sort this tensor along `axis`, as [`sort`](Tensor::sort)
    /// returns them.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn argsort(&self, axis: impl Into<Axis>, descending: bool) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "argsort")?;
        Ok(self.detach().sort(axis, descending)?.1)
    }

    /// Returns the `k` largest (or smallest) values along `axis`, in order, and their original
    /// indices (i32).
    ///
    /// NaN is larger than all numbers.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if it has fewer than `k` elements.
    pub fn topk(&self, k: usize, axis: impl Into<Axis>, largest: bool) -> Result<(Tensor, Tensor)> {
        let axis = axis.into().resolve(self.shape(), "topk")?;
        if k > self.shape().dim(axis) {
            return Err(Error::invalid(
                "topk",
                format!("{k} elements of axis {axis} on shape {:?}", self.shape()),
            ));
        }
        let (values, positions) = self.sort(axis, largest)?;
        Ok((values.narrow(axis, 0, k)?, positions.narrow(axis, 0, k)?))
    }

    /// Counts the occurrences of each of 0, 1, 2, ..: `[max(min_length, largest + 1)]`, i32. Copies
    /// the smallest and largest value to the host.
    ///
    /// # Shapes
    /// `[count]` (nonnegative integers).
    ///
    /// # Errors
    /// Returns an error if the tensor is not a vector of integers, or if a value is negative.
    pub fn bincount(&self, min_length: usize) -> Result<Tensor> {
        let [count] = self.shape().to_array("bincount")?;
        if !self.dtype().is_int() {
            return Err(Error::dtype("bincount", "input", self.dtype(), "an integer dtype"));
        }
        if count == 0 {
            return Tensor::zeros([min_length], DType::I32, self.device());
        }
        let [low, high] = [self.min_all()?.item_f64()?, self.max_all()?.item_f64()?];
        if low < 0.0 {
            return Err(Error::invalid("bincount", format!("value {low} is negative")));
        }
        let index = match self.dtype() {
            dtype if dtype.is_index() => self.clone(),
            DType::U64 | DType::U32 => self.to_dtype(DType::I64)?,
            _ => self.to_dtype(DType::I32)?,
        };
        let zeros =
            Tensor::zeros([min_length.max((high as usize).saturating_add(1))], DType::I32, self.device())?;
        zeros.scatter_add(0, &index, &Tensor::ones([count], DType::I32, self.device())?)
    }

    /// Counts the elements in each of `bins` equal intervals between `low` and `high`: `[bins]`,
    /// i32.
    ///
    /// The last interval is closed, the others are half-open. Elements outside, and NaN, are not
    /// counted. The boundaries are rounded to the tensor's dtype (f32 for half precision), and
    /// elements are compared with them exactly, as in NumPy.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, if there are no bins, or if bounds are not
    /// finite or not in order.
    pub fn histogram(&self, bins: usize, low: f64, high: f64) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(Error::dtype("histogram", "input", self.dtype(), "a floating dtype"));
        }
        if bins == 0 || i32::try_from(bins).is_err() || !(low < high && (high - low).is_finite()) {
            return Err(Error::invalid("histogram", format!("{bins} bins between {low:?} and {high:?}")));
        }
        let x = self.detach().to_dtype(self.dtype().accumulator())?.reshape([self.elements()])?;
        let edges = bin_edges(bins, low, high, &x)?;
        let is_in_range = x.ge(&edges.narrow(0, 0, 1)?)?.logical_and(&x.le(&edges.narrow(0, bins, 1)?)?)?;
        let bin = bin_of(&x, &edges, bins, low, high)?;
        // Elements outside are counted in an additional bin, which is removed.
        let outside = Tensor::full((), bins as i64, DType::I32, self.device())?;
        let index = is_in_range.where_(&bin, &outside)?;
        let zeros = Tensor::zeros([bins + 1], DType::I32, self.device())?;
        let counts = zeros.scatter_add(0, &index, &Tensor::ones(*x.shape(), DType::I32, self.device())?)?;
        counts.narrow(0, 0, bins)?.contiguous()
    }
}

/// Returns the `bins + 1` boundaries in x's dtype; both ends are exact.
fn bin_edges(bins: usize, low: f64, high: f64, x: &Tensor) -> Result<Tensor> {
    let width = (high - low) / bins as f64;
    let edges = Tensor::iota(bins, x.dtype(), low, width, x.device())?;
    Tensor::concat(&[&edges, &Tensor::full([1usize], high, x.dtype(), x.device())?], 0)
}

/// Computes the bin of each element arithmetically, and corrects it by comparison with the
/// boundaries: rounding shifts it by at most one bin.
fn bin_of(x: &Tensor, edges: &Tensor, bins: usize, low: f64, high: f64) -> Result<Tensor> {
    let last = Scalar::Int(bins as i64 - 1);
    let scaled = x.sub_scalar(low)?.mul_scalar(bins as f64 / (high - low))?;
    let guess = scaled.floor()?.to_dtype(DType::I32)?.maximum_scalar(0)?.minimum_scalar(last)?;
    let below = x.lt(&edges.index_select(0, &guess)?)?.to_dtype(DType::I32)?;
    let above = x.ge(&edges.index_select(0, &guess.add_scalar(1)?)?)?.to_dtype(DType::I32)?;
    guess.sub(&below)?.add(&above)?.maximum_scalar(0)?.minimum_scalar(last)
}

/// Returns the indices `start, start + step, ..` along an axis of `size` elements, as an index
/// tensor.
pub(crate) fn positions(
    count: usize,
    start: usize,
    step: isize,
    size: usize,
    device: &crate::Device,
) -> Result<Tensor> {
    Tensor::iota(count, index_dtype(size), start as i64, step as i64, device)
}
