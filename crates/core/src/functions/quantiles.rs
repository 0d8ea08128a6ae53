//! Quantiles, and histograms with weights.

use super::check_floating;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::op::check;
use crate::shape::Axis;
use crate::{DType, Tensor};

/// How a quantile whose position is between two elements is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// Linear interpolation by the fractional part of the position.
    #[default]
    Linear,
    /// The lower element.
    Lower,
    /// The upper element.
    Higher,
    /// The mean of both elements.
    Midpoint,
    /// The nearer element; ties go to the even position.
    Nearest,
}

/// The intervals of a histogram.
#[derive(Clone, Copy, Debug)]
pub enum HistogramBins<'a> {
    /// Intervals of equal width.
    Even {
        /// The number of intervals.
        count: usize,
        /// The range of the histogram; `None` for the range from the minimum to the maximum. If
        /// both ends are equal, each is moved outward by 1/2.
        range: Option<(f64, f64)>,
    },
    /// Intervals between these sorted boundaries.
    Edges(&'a Tensor),
}

impl Tensor {
    /// Returns the quantiles `q` of the elements along an axis, or of all elements: the values at
    /// the positions `q * (n - 1)` in sorted order. The result is NaN where an element is NaN.
    /// Gradients go to the selected elements, and with linear interpolation to `q`. Copies `q` to
    /// the host.
    ///
    /// # Shapes
    /// q `[]` -> without the axis, or with size 1 if it is kept; q `[count]` -> `[count, ..]`
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if there are no elements, if a quantile is
    /// outside 0 to 1, if `q` has more than one axis, or if the dtypes differ or are not
    /// floating-point.
    pub fn quantile(
        &self,
        q: &Tensor,
        axis: Option<Axis>,
        keep: bool,
        interpolation: Interpolation,
    ) -> Result<Tensor> {
        quantile(false, self, q, (axis, keep), interpolation)
    }

    /// Same as [`quantile`](Tensor::quantile), but ignores NaN. The result is NaN where all
    /// elements are.
    ///
    /// # Errors
    /// Same as [`quantile`](Tensor::quantile).
    pub fn nanquantile(
        &self,
        q: &Tensor,
        axis: Option<Axis>,
        keep: bool,
        interpolation: Interpolation,
    ) -> Result<Tensor> {
        quantile(true, self, q, (axis, keep), interpolation)
    }

    /// Returns the number of elements in each interval, or the sum of their weights, and the
    /// `count + 1` boundaries, both in the dtype of this tensor. The last interval is closed, the
    /// others are half-open. NaN and elements outside the range are ignored. With `density` the
    /// counts are divided by their sum and by the widths. There is no gradient.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, if there are no intervals, if the ends
    /// are not finite or not in order, if the weights have another shape or dtype, or if the
    /// boundaries have another dtype, do not have exactly one axis, or are fewer than two.
    pub fn histogram_with_edges(
        &self,
        bins: HistogramBins<'_>,
        weight: Option<&Tensor>,
        density: bool,
    ) -> Result<(Tensor, Tensor)> {
        let name = "histogram";
        check_floating(name, self)?;
        if let Some(weight) = weight {
            check::same_dtype(name, &self.meta(), &weight.meta())?;
            check::shape(name, "weight", &weight.meta(), *self.shape())?;
        }
        no_grad(|| {
            let edges = bin_edges(name, self, bins)?;
            let wide = self.dtype().accumulator();
            let (x, limits) = (self.reshape([self.elements()])?.to_dtype(wide)?, edges.to_dtype(wide)?);
            let count = limits.elements() - 1;
            let last = limits.narrow(0, count, 1)?;
            let is_inside = x.ge(&limits.narrow(0, 0, 1)?)?.logical_and(&x.le(&last)?)?;
            let index =
                limits.searchsorted(&x, true, None)?.sub_scalar(1)?.minimum_scalar(count as i64 - 1)?;
            // Ignored elements go into one additional interval, which is dropped.
            let index = is_inside.where_(&index, &index.scalar_like(count as i64)?)?;
            let weight = match weight {
                None => x.ones_like()?,
                Some(weight) => weight.reshape([x.elements()])?.to_dtype(wide)?,
            };
            let sums = Tensor::zeros([count + 1], wide, self.device())?.scatter_add(0, &index, &weight)?;
            let mut histogram = sums.narrow(0, 0, count)?;
            if density {
                let widths = limits.narrow(0, 1, count)?.sub(&limits.narrow(0, 0, count)?)?;
                histogram = histogram.div(&histogram.sum_all()?)?.div(&widths)?;
            }
            Ok((histogram.contiguous()?.to_dtype(self.dtype())?, edges))
        })
    }
}

fn bin_edges(name: &'static str, x: &Tensor, bins: HistogramBins<'_>) -> Result<Tensor> {
    let (count, range) = match bins {
        HistogramBins::Even { count, range } => (count, range),
        HistogramBins::Edges(edges) => {
            check::same_dtype(name, &x.meta(), &edges.meta())?;
            let [count] = edges.shape().to_array(name)?;
            return match count {
                0 | 1 => Err(Error::invalid(name, format!("{count} boundaries, expected at least 2"))),
                _ => Ok(edges.detach()),
            };
        }
    };
    if count == 0 || i32::try_from(count).is_err() {
        return Err(Error::invalid(name, format!("{count} intervals, expected at least 1")));
    }
    let (low, high) = match range {
        Some(range) => range,
        None if x.elements() == 0 => (0.0, 1.0),
        None => (x.min_all()?.item_f64()?, x.max_all()?.item_f64()?),
    };
    if !(low <= high && (high - low).is_finite()) {
        return Err(Error::invalid(name, format!("intervals between {low:?} and {high:?}")));
    }
    let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };
    Tensor::linspace(low, high, count + 1, x.dtype(), x.device())
}

fn check_quantiles(name: &'static str, q: &Tensor) -> Result<()> {
    if q.rank() > 1 {
        return Err(Error::Rank { op: name, expected: "0 or 1".into(), shape: Box::new(*q.shape()) });
    }
    match q.detach().to_vec_f64()?.into_iter().find(|level| !(0.0..=1.0).contains(level)) {
        Some(level) => Err(Error::invalid(name, format!("q of {level}, expected 0 to 1"))),
        None => Ok(()),
    }
}

fn quantile(
    skips_nan: bool,
    x: &Tensor,
    q: &Tensor,
    (axis, keep): (Option<Axis>, bool),
    interpolation: Interpolation,
) -> Result<Tensor> {
    let name = if skips_nan { "nanquantile" } else { "quantile" };
    check_floating(name, x)?;
    check::same_dtype(name, &x.meta(), &q.meta())?;
    let rows = match axis {
        None => x.reshape([x.elements()])?,
        Some(axis) if x.rank() == 0 => {
            axis.resolve(&crate::Shape::new(&[1])?, name)?;
            x.reshape([1])?
        }
        Some(axis) => x.transpose(axis.resolve(x.shape(), name)?, x.rank() - 1)?,
    };
    if x.elements() == 0 {
        return Err(Error::invalid(name, format!("no elements in shape {:?}", x.shape())));
    }
    check_quantiles(name, q)?;
    let wide = x.dtype().accumulator();
    let levels = q.to_dtype(wide)?.reshape([q.elements()])?;
    let quantiles = sorted_quantiles(&rows.to_dtype(wide)?, &levels, skips_nan, interpolation)?;
    // The axis of the quantiles replaces the axis of the elements; move it to the front.
    let last = quantiles.rank() - 1;
    let mut quantiles = quantiles.unsqueeze(0)?.transpose(0, last + 1)?;
    match axis {
        None if keep => {
            quantiles = quantiles.reshape(&[&[q.elements()], &vec![1; x.rank()][..]].concat()[..])?
        }
        None => quantiles = quantiles.squeeze(1)?,
        Some(_) if x.rank() == 0 => quantiles = quantiles.squeeze(1)?,
        Some(axis) => {
            let axis = axis.resolve(x.shape(), name)?;
            quantiles = quantiles.transpose(axis + 1, last + 1)?;
            if !keep {
                quantiles = quantiles.squeeze(axis + 1)?;
            }
        }
    }
    if q.rank() == 0 { quantiles.squeeze(0)? } else { quantiles }.to_dtype(x.dtype())
}

/// Returns the quantiles along the last axis.
fn sorted_quantiles(
    x: &Tensor,
    levels: &Tensor,
    skips_nan: bool,
    interpolation: Interpolation,
) -> Result<Tensor> {
    let axis = x.rank() - 1;
    let detached = x.detach();
    let order = detached.argsort(axis, false)?;
    let sorted = x.gather(axis, &order)?;
    let is_nan = detached.ne(&detached)?;
    let last_index = no_grad(|| {
        // NaN is last in sorted order.
        let last = match skips_nan {
            true => is_nan
                .logical_not()?
                .to_dtype(DType::I32)?
                .sum_keep(axis)?
                .sub_scalar(1)?
                .maximum_scalar(0)?,
            false => Tensor::full(
                x.shape().resized(axis, 1, "quantile")?,
                x.shape().dim(axis) as i64 - 1,
                DType::I64,
                x.device(),
            )?,
        };
        last.to_dtype(x.dtype())
    })?;
    // The positions have a gradient with respect to the quantiles. If there is a NaN, which is last
    // in sorted order, every quantile is that NaN, and the gradient goes to it.
    let ranks = levels.mul(&last_index)?;
    let ranks = match skips_nan {
        true => ranks,
        false => {
            let has_no_nan = is_nan.any_keep(axis)?.logical_not()?.expand(*ranks.shape())?;
            has_no_nan.where_(&ranks, &last_index.expand(*ranks.shape())?)?
        }
    };
    let index = |rank: Tensor| rank.detach().to_dtype(order.dtype());
    let gather_at = |rank: Tensor| sorted.gather(axis, &index(rank)?);
    match interpolation {
        Interpolation::Lower => gather_at(ranks.floor()?),
        Interpolation::Higher => gather_at(ranks.ceil()?),
        Interpolation::Nearest => gather_at(ranks.round()?),
        Interpolation::Linear | Interpolation::Midpoint => {
            let floor = ranks.detach().floor()?;
            let (low, high) = (gather_at(floor.clone())?, gather_at(ranks.ceil()?)?);
            let fraction = match interpolation {
                Interpolation::Linear => ranks.sub(&floor)?,
                _ => floor.full_like(0.5)?,
            };
            lerp_from_nearer(&low, &high, &fraction)
        }
    }
}

/// Returns `low + fraction * (high - low)`, computed from the nearer end. For two equal infinities,
/// returns that infinity.
fn lerp_from_nearer(low: &Tensor, high: &Tensor, fraction: &Tensor) -> Result<Tensor> {
    let is_same = low.eq(high)?.logical_and(&low.abs()?.eq_scalar(f64::INFINITY)?)?;
    let difference = high.sub(low)?.masked_fill(&is_same, 0)?;
    let (from_low, from_high) =
        (low.add(&fraction.mul(&difference)?)?, high.sub(&fraction.rsub_scalar(1)?.mul(&difference)?)?);
    fraction.lt_scalar(0.5)?.where_(&from_low, &from_high)
}
