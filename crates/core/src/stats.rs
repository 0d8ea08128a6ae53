//! Statistics of a tensor's values: computed on the host from all values, or on the device, so that
//! only a few numbers are copied.

use crate::autograd::no_grad;
use crate::error::Result;
use crate::observe::unobserved;
use crate::tensor::Tensor;
use crate::{DType, Device};
use std::fmt;

/// Mean, standard deviation, min, max and counts of special values. All except the counts refer to
/// the finite elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Number of elements.
    pub elements: usize,
    /// Mean of the finite elements (NaN if there are none).
    pub mean: f64,
    /// Standard deviation of the finite elements, without Bessel's correction.
    pub std: f64,
    /// Smallest finite element.
    pub min: f64,
    /// Largest finite element.
    pub max: f64,
    /// Number of NaN elements.
    pub nan: usize,
    /// Number of infinite elements.
    pub infinite: usize,
    /// Number of zero elements.
    pub zeros: usize,
}

impl Stats {
    /// Computes the statistics of `values`.
    pub fn of(values: &[f64]) -> Stats {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let count = finite().count() as f64;
        let mean = finite().sum::<f64>() / count;
        let variance = finite().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Stats {
            elements: values.len(),
            mean,
            std: variance.sqrt(),
            min: finite().reduce(f64::min).unwrap_or(f64::NAN),
            max: finite().reduce(f64::max).unwrap_or(f64::NAN),
            nan: values.iter().filter(|value| value.is_nan()).count(),
            infinite: values.iter().filter(|value| value.is_infinite()).count(),
            zeros: values.iter().filter(|&&value| value == 0.0).count(),
        }
    }

    /// Returns the number of finite elements.
    pub fn finite(&self) -> usize {
        self.elements.saturating_sub(self.nan + self.infinite)
    }

    /// Returns whether an element is NaN or infinite.
    pub fn has_non_finite(&self) -> bool {
        self.nan + self.infinite > 0
    }

    /// Returns the fraction of the elements that are zero; 0 without elements.
    pub fn zero_fraction(&self) -> f64 {
        self.zeros as f64 / self.elements.max(1) as f64
    }

    /// Returns the root mean square of the finite elements: `sqrt(mean^2 + std^2)`.
    pub fn rms(&self) -> f64 {
        self.mean.hypot(self.std)
    }

    /// Returns the Euclidean norm of the finite elements; 0 without elements.
    pub fn norm(&self) -> f64 {
        if self.finite() == 0 { 0.0 } else { self.rms() * (self.finite() as f64).sqrt() }
    }

    /// Returns the statistics of these elements and those of `other` combined.
    #[must_use]
    pub fn merged(&self, other: &Stats) -> Stats {
        let with_counts = |moments: &Stats| Stats {
            elements: self.elements + other.elements,
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
            zeros: self.zeros + other.zeros,
            ..*moments
        };
        let (weight, other_weight) = (self.finite() as f64, other.finite() as f64);
        if weight == 0.0 || other_weight == 0.0 {
            return with_counts(if weight > 0.0 { self } else { other });
        }
        let (weight, other_weight) =
            (weight / (weight + other_weight), other_weight / (weight + other_weight));
        // Chan et al. 1983, eq. 2.1: the variance within both, and that between their means.
        let variance = weight * self.std.powi(2)
            + other_weight * other.std.powi(2)
            + weight * other_weight * (self.mean - other.mean).powi(2);
        with_counts(&Stats {
            mean: weight * self.mean + other_weight * other.mean,
            std: variance.sqrt(),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            ..*self
        })
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mean {:.4e} std {:.4e} min {:.4e} max {:.4e}", self.mean, self.std, self.min, self.max)?;
        write!(f, " nan {} inf {} zero {} of {}", self.nan, self.infinite, self.zeros, self.elements)
    }
}

/// Statistics that are computed and stored on a device, as one row of values. [`DeviceStats::read`]
/// copies the rows of many tensors to the host at once.
#[derive(Clone)]
pub struct DeviceStats {
    /// Counts of finite, NaN and zero elements, min, max, mean, standard deviation; `None` for an
    /// empty tensor.
    row: Option<Tensor>,
    elements: usize,
}

/// Number of values in a row.
const WIDTH: usize = 7;

/// The minimum of the scale by which values are divided, so that no device divides by a number that
/// it flushes to zero.
const SMALLEST_SCALE: f64 = 1e-30;

impl DeviceStats {
    /// Returns the statistics in the given order, with one copy from each device.
    ///
    /// Counts are exact up to 2^24; larger ones, and the moments, have the rounding error of f32.
    ///
    /// # Errors
    /// Returns an error if an earlier op failed on a device, or if a step is being recorded.
    pub fn read(of: &[DeviceStats]) -> Result<Vec<Stats>> {
        let mut results: Vec<Option<Stats>> = of.iter().map(DeviceStats::empty_stats).collect();
        while let Some(first) = of.iter().zip(&results).find(|(_, stats)| stats.is_none()) {
            let Some(device) = first.0.row.as_ref().map(|row| row.device().clone()) else { break };
            let on_device: Vec<usize> = (0..of.len()).filter(|&at| of[at].is_on(&device)).collect();
            let rows: Vec<&Tensor> = on_device.iter().filter_map(|&at| of[at].row.as_ref()).collect();
            let values = values_of(&rows)?;
            for (&at, row) in on_device.iter().zip(values.chunks_exact(WIDTH)) {
                results[at] = Some(of[at].to_stats(row));
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    fn is_on(&self, device: &Device) -> bool {
        self.row.as_ref().is_some_and(|row| row.device().is(device))
    }

    /// Returns the statistics of an empty tensor, for which no device is needed.
    fn empty_stats(&self) -> Option<Stats> {
        self.row.is_none().then(|| Stats::of(&[]))
    }

    fn to_stats(&self, row: &[f64]) -> Stats {
        let count = |value: f64| value.round().max(0.0) as usize;
        let (finite, nan, zeros) = (count(row[0]), count(row[1]), count(row[2]));
        let number = |value: f64| if finite > 0 { value } else { f64::NAN };
        Stats {
            elements: self.elements,
            mean: number(row[5]),
            std: number(row[6]),
            min: number(row[3]),
            max: number(row[4]),
            nan,
            infinite: self.elements.saturating_sub(finite + nan),
            zeros,
        }
    }
}

/// Copies rows on one device to the host.
fn values_of(rows: &[&Tensor]) -> Result<Vec<f64>> {
    let double = rows.iter().any(|row| row.dtype() == DType::F64);
    let dtype = if double { DType::F64 } else { DType::F32 };
    unobserved(|| {
        no_grad(|| {
            let rows = rows.iter().map(|row| row.to_dtype(dtype)).collect::<Result<Vec<_>>>()?;
            Tensor::concat(&rows.iter().collect::<Vec<_>>(), 0)?.to_vec_f64()
        })
    })
}

impl Tensor {
    /// Computes mean, standard deviation, min, max, and counts of NaN, infinity and zeros. All
    /// elements are copied to the host; [`device_stats`](Tensor::device_stats) copies only a few
    /// numbers.
    ///
    /// # Errors
    /// Returns an error if an earlier op failed on the device.
    pub fn stats(&self) -> Result<Stats> {
        Ok(Stats::of(&self.to_vec_f64()?))
    }

    /// Computes the same statistics on the device with about twenty ops, in the accumulator dtype
    /// (f32 for integers). Nothing is copied or recorded, and observers
    /// ([`observe_ops`](crate::observe_ops)) are not notified.
    ///
    /// Values are divided by the largest of them before they are squared, so that neither large nor
    /// small ones exceed the range of the dtype.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn device_stats(&self) -> Result<DeviceStats> {
        let elements = self.elements();
        let row = (elements > 0).then(|| unobserved(|| no_grad(|| self.stats_row()))).transpose()?;
        Ok(DeviceStats { row, elements })
    }

    fn stats_row(&self) -> Result<Tensor> {
        let dtype = if self.dtype().is_float() { self.dtype().accumulator() } else { DType::F32 };
        let x = self.detach().to_dtype(dtype)?;
        let constant = |value: f64| Tensor::full((), value, dtype, x.device());
        let count = |mask: &Tensor| mask.to_dtype(dtype)?.sum(..);
        let finite = x.abs()?.lt_scalar(f64::INFINITY)?;
        let finite_count = count(&finite)?;
        // No infinity or NaN is produced here, because devices that check for them would report it.
        let (zero, largest) =
            (constant(0.0)?, if dtype == DType::F64 { f64::MAX } else { f64::from(f32::MAX) });
        let finite_values = finite.where_(&x, &zero)?;
        let min = finite.where_(&x, &constant(largest)?)?.min(..)?;
        let max = finite.where_(&x, &constant(-largest)?)?.max(..)?;
        let divisor = finite_count.maximum_scalar(1.0)?;
        let scale = finite_values.max_abs(..)?.maximum_scalar(SMALLEST_SCALE)?;
        let scaled = finite_values.div(&scale)?;
        let mean = scaled.sum(..)?.div(&divisor)?;
        let centered = finite.where_(&scaled.sub(&mean)?, &zero)?;
        let std = centered.sum_squares(..)?.div(&divisor)?.sqrt()?;
        let (nan, zeros) = (count(&x.ne(&x)?)?, count(&x.eq_scalar(0.0)?)?);
        let (mean, std) = (mean.mul(&scale)?, std.mul(&scale)?);
        Tensor::stack(&[&finite_count, &nan, &zeros, &min, &max, &mean, &std], 0)
    }
}
