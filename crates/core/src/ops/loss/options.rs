//! The options of the losses and the reduction of their results.

use crate::Tensor;
use crate::error::{Error, Result};

/// How the losses of all elements are reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// No reduction.
    None,
    /// The mean of all losses.
    #[default]
    Mean,
    /// The sum of all losses.
    Sum,
    /// The sum divided by the size of the first axis, PyTorch's "batchmean": the mean over the
    /// examples of a batch. The losses must have at least one axis.
    BatchMean,
}

impl Reduction {
    /// Reduces the `losses` of `op`.
    pub(crate) fn apply(self, op: &'static str, losses: &Tensor) -> Result<Tensor> {
        match self {
            Reduction::None => Ok(losses.clone()),
            Reduction::Mean => losses.mean(..),
            Reduction::Sum => losses.sum(..),
            Reduction::BatchMean => match losses.dims().first() {
                Some(&batch) => losses.sum(..)?.div_scalar(batch as f64),
                None => Err(Error::invalid(
                    op,
                    "the mean over a batch of losses without an axis; use Mean or Sum",
                )),
            },
        }
    }
}

/// Options of [`Tensor::bce_with_logits_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BceOptions<'a> {
    /// Weight of positive targets relative to negative ones: PyTorch's `pos_weight`. Default: 1.
    pub pos_weight: Option<&'a Tensor>,
    /// Weight of each element. Default: 1. The mean divides by the number of elements, not by the
    /// sum of the weights.
    pub weight: Option<&'a Tensor>,
    /// Reduction of the losses. Default: their mean.
    pub reduction: Reduction,
}

/// Options of [`Tensor::cross_entropy_with`].
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyOptions<'a> {
    /// Weight of each class, `[classes]`. Default: 1.
    pub weight: Option<&'a Tensor>,
    /// A class index that is ignored. Default: -100.
    pub ignore_index: i64,
    /// Weight distributed evenly over all classes, in `0..=1`. Default: 0.
    pub label_smoothing: f64,
    /// Reduction of the losses. Default: their mean.
    pub reduction: Reduction,
}

impl Default for CrossEntropyOptions<'_> {
    fn default() -> Self {
        CrossEntropyOptions {
            weight: None,
            ignore_index: -100,
            label_smoothing: 0.0,
            reduction: Reduction::Mean,
        }
    }
}

/// Options of [`Tensor::nll_loss_with`].
#[derive(Clone, Copy, Debug)]
pub struct NllOptions<'a> {
    /// Weight of each class, `[classes]`. Default: 1.
    pub weight: Option<&'a Tensor>,
    /// A class index that is ignored. Default: -100.
    pub ignore_index: i64,
    /// Reduction of the losses. Default: their mean.
    pub reduction: Reduction,
}

impl Default for NllOptions<'_> {
    fn default() -> Self {
        NllOptions { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}
