//! Statistics of a tensor's values, in one line.

use crate::error::Result;
use crate::tensor::Tensor;
use std::fmt;

/// Mean, spread, extremes and counts of special values. Moments and extremes are of the finite elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Number of elements.
    pub elements: usize,
    /// Mean of the finite elements (NaN if there are none).
    pub mean: f64,
    /// Standard deviation of the finite elements, as a population.
    pub std: f64,
    /// Smallest finite element.
    pub min: f64,
    /// Largest finite element.
    pub max: f64,
    /// Elements that are not a number.
    pub nan: usize,
    /// Elements that are infinite.
    pub infinite: usize,
    /// Elements that are zero.
    pub zeros: usize,
}

impl Stats {
    /// The statistics of `values`.
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
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mean {:.4e} std {:.4e} min {:.4e} max {:.4e}", self.mean, self.std, self.min, self.max)?;
        write!(f, " nan {} inf {} zero {} of {}", self.nan, self.infinite, self.zeros, self.elements)
    }
}

impl Tensor {
    /// Mean, standard deviation, extremes, and counts of NaN, infinity and zeros.
    ///
    /// # Errors
    /// If an earlier op failed on the device.
    pub fn stats(&self) -> Result<Stats> {
        Ok(Stats::of(&self.to_vec_f64()?))
    }
}
