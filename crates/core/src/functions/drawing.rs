//! Random integers in the form of another tensor, and categories by their probabilities. They have no gradients.

use super::check_floating;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::{DType, Tensor};

/// The smallest time of a clock that rings: where 0 was drawn, nothing is divided by 0.
const LEAST_TIME: f64 = 1e-37;

impl Tensor {
    /// Random integers, even over `low..high`, in this tensor's shape and dtype, on its device: see [`randint`](Tensor::randint). In a floating dtype or bool they are drawn in
    /// i64 and cast.
    ///
    /// # Errors
    /// An empty range, one of more than 2^40 values, bounds that an integer dtype cannot hold, no memory.
    pub fn randint_like(&self, low: i64, high: i64) -> Result<Tensor> {
        let dtype = if self.dtype().is_int() { self.dtype() } else { DType::I64 };
        Tensor::randint(low, high, *self.shape(), dtype, self.device())?.to_dtype(self.dtype())
    }

    /// Indices that are drawn with these probabilities, which need not sum to 1: from each row so many, in i32 (i64 where that does not reach). Without `replacement` none is
    /// drawn twice: each category rings after an exponential time at the rate of its probability, and the first ones count (Efraimidis and Spirakis 2006, Weighted random
    /// sampling with a reservoir).
    ///
    /// # Shapes
    /// `[categories]` -> `[count]`; `[rows, categories]` -> `[rows, count]`
    ///
    /// # Errors
    /// Other than one or two axes, a count of 0, a dtype that is not floating; a probability below 0 or not finite, a row with fewer categories above 0 than are drawn.
    pub fn multinomial(&self, count: usize, replacement: bool) -> Result<Tensor> {
        let name = "multinomial";
        check_floating(name, self)?;
        if !matches!(self.rank(), 1 | 2) || count == 0 {
            let told = format!(
                "{count} samples of shape {:?}, expected at least 1 of one or two axes",
                self.shape()
            );
            return Err(Error::invalid(name, told));
        }
        no_grad(|| {
            // The same sums on every device, also on those without f64: the same categories are drawn.
            let weights = self.to_dtype(self.dtype().accumulator())?;
            let is_probability = weights.ge_scalar(0.0)?.logical_and(&weights.lt_scalar(f64::INFINITY)?)?;
            if is_probability.all(..)?.item_f64()? == 0.0 {
                return Err(Error::invalid(name, "a probability that is below 0, infinite or NaN"));
            }
            let is_drawn = weights.gt_scalar(0.0)?;
            let available = match weights.elements() {
                0 => 0,
                _ => is_drawn.sum(-1)?.min(..)?.item::<i64>()?,
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
            if replacement { repeatedly(&weights, &is_drawn, count) } else { once_each(&weights, count) }
        })
    }
}

/// Where even numbers fall among the sums of the weights.
fn repeatedly(weights: &Tensor, is_drawn: &Tensor, count: usize) -> Result<Tensor> {
    let axis = weights.rank() - 1;
    let categories = weights.dims()[axis];
    let sums = weights.cumsum(axis)?;
    let total = sums.narrow(axis, categories - 1, 1)?;
    let even = Tensor::rand(
        weights.shape().resized(axis, count, "multinomial")?,
        weights.dtype(),
        weights.device(),
    )?;
    // Behind the sums that are at most what was drawn.
    let found = sums.searchsorted(&even.mul(&total)?, true, None)?;
    // The last one may be reached by rounding, and is of a category that can be.
    let positions = Tensor::iota(categories, found.dtype(), 0, 1, weights.device())?;
    let last = is_drawn.where_(&positions, &positions.scalar_like(0)?)?.max_keep(axis)?;
    found.minimum(&last)
}

fn once_each(weights: &Tensor, count: usize) -> Result<Tensor> {
    let even = Tensor::rand(*weights.shape(), weights.dtype(), weights.device())?;
    let times = even.neg()?.log1p()?.neg()?.maximum_scalar(LEAST_TIME)?;
    Ok(weights.div(&times)?.topk(count, -1, true)?.1)
}
