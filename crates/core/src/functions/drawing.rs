//! Random integers with the shape of another tensor, and sampling of categories. Neither has a
//! gradient.

use super::check_floating;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::{DType, Tensor};

/// The smallest exponential time. It prevents a division by 0 where the random number is 0.
const MIN_TIME: f64 = 1e-37;

impl Tensor {
    /// Samples integers uniformly from `low..high`, with the shape, dtype and device of this
    /// tensor: see [`randint`](Tensor::randint). For a floating-point dtype or bool they are
    /// sampled in i64 and cast.
    ///
    /// # Errors
    /// Returns an error if the range is empty or has more than 2^40 values, if an integer dtype
    /// cannot represent the bounds, or if the allocation fails.
    pub fn randint_like(&self, low: i64, high: i64) -> Result<Tensor> {
        let dtype = if self.dtype().is_int() { self.dtype() } else { DType::I64 };
        Tensor::randint(low, high, *self.shape(), dtype, self.device())?.to_dtype(self.dtype())
    }

    /// Samples `count` indices from each row with these probabilities, which need not sum to 1. The
    /// result is i32 (i64 if indices exceed its range). Without `replacement` no index is sampled
    /// twice: each category gets an exponential time whose rate is its probability, and the
    /// earliest ones are selected (Efraimidis and Spirakis 2006, Weighted random sampling with a
    /// reservoir).
    ///
    /// # Shapes
    /// `[categories]` -> `[count]`; `[rows, categories]` -> `[rows, count]`
    ///
    /// # Errors
    /// Returns an error if the rank is not 1 or 2, if `count` is 0, if the dtype is not
    /// floating-point, if a probability is negative or not finite, or if a row has too few
    /// categories with a probability above 0.
    pub fn multinomial(&self, count: usize, replacement: bool) -> Result<Tensor> {
        let name = "multinomial";
        check_floating(name, self)?;
        if !matches!(self.rank(), 1 | 2) || count == 0 {
            let detail = format!(
                "{count} samples of shape {:?}, expected at least 1 of one or two axes",
                self.shape()
            );
            return Err(Error::invalid(name, detail));
        }
        no_grad(|| {
            // The accumulation dtype is the same on every device, including those without f64, so
            // the same categories are sampled.
            let weights = self.to_dtype(self.dtype().accumulator())?;
            let is_probability = weights.ge_scalar(0.0)?.logical_and(&weights.lt_scalar(f64::INFINITY)?)?;
            if is_probability.all(..)?.item_f64()? == 0.0 {
                return Err(Error::invalid(name, "a probability that is below 0, infinite or NaN"));
            }
            let is_positive = weights.gt_scalar(0.0)?;
            let available = match weights.elements() {
                0 => 0,
                _ => is_positive.sum(-1)?.min(..)?.item::<i64>()?,
            };
            let needed = if replacement { 1 } else { i64::try_from(count).unwrap_or(i64::MAX) };
            if available < needed {
                return Err(Error::invalid(
                    name,
                    format!(
                        "{count} samples of {available} categories with a probability above 0, replacement={replacement}"
                    ),
                ));
            }
            if replacement {
                with_replacement(&weights, &is_positive, count)
            } else {
                without_replacement(&weights, count)
            }
        })
    }
}

/// Samples with replacement: finds the indices at which uniform random numbers fall among the
/// cumulative weights.
fn with_replacement(weights: &Tensor, is_positive: &Tensor, count: usize) -> Result<Tensor> {
    let axis = weights.rank() - 1;
    let categories = weights.dims()[axis];
    let sums = weights.cumsum(axis)?;
    let total = sums.narrow(axis, categories - 1, 1)?;
    let uniform = Tensor::rand(
        weights.shape().resized(axis, count, "multinomial")?,
        weights.dtype(),
        weights.device(),
    )?;
    // The result is the index of the first sum above the random number.
    let index = sums.searchsorted(&uniform.mul(&total)?, true, None)?;
    // Rounding can give an index beyond the last category with a weight above 0, so clamp to it.
    let positions = Tensor::iota(categories, index.dtype(), 0, 1, weights.device())?;
    let last = is_positive.where_(&positions, &positions.scalar_like(0)?)?.max_keep(axis)?;
    index.minimum(&last)
}

fn without_replacement(weights: &Tensor, count: usize) -> Result<Tensor> {
    let uniform = Tensor::rand(*weights.shape(), weights.dtype(), weights.device())?;
    let times = uniform.neg()?.log1p()?.neg()?.maximum_scalar(MIN_TIME)?;
    Ok(weights.div(&times)?.topk(count, -1, true)?.1)
}
