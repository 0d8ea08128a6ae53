//! Losses for classes and probabilities.

use super::loss::Loss;
use crate::module::{Module, StateTensor};
use ternion_core::{BceOptions, CrossEntropyOptions, NllOptions, Reduction, Result, Tensor};

/// Cross-entropy of logits and class indices or probabilities: [`Tensor::cross_entropy_with`].
#[derive(Module, Clone, Debug)]
pub struct CrossEntropyLoss {
    /// The weight of each class, `[classes]`; part of the state dict, as in PyTorch. `None` by
    /// default: all classes have the same weight.
    pub weight: Option<StateTensor>,
    /// A class index whose targets are ignored; -100 by default.
    pub ignore_index: i64,
    /// The fraction of the target probability that is distributed uniformly over all classes, in
    /// `0..=1`; 0 by default.
    pub label_smoothing: f64,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for CrossEntropyLoss {
    fn default() -> Self {
        let CrossEntropyOptions { ignore_index, label_smoothing, reduction, .. } =
            CrossEntropyOptions::default();
        CrossEntropyLoss { weight: None, ignore_index, label_smoothing, reduction }
    }
}

impl Loss for CrossEntropyLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let &CrossEntropyLoss { ref weight, ignore_index, label_smoothing, reduction } = self;
        let weight = weight.as_ref().map(StateTensor::tensor);
        let options =
            CrossEntropyOptions { weight: weight.as_ref(), ignore_index, label_smoothing, reduction };
        prediction.cross_entropy_with(target, options)
    }
}

/// The negative log-probability of each target: [`Tensor::nll_loss_with`].
#[derive(Module, Clone, Debug)]
pub struct NLLLoss {
    /// The weight of each class, `[classes]`; part of the state dict, as in PyTorch. `None` by
    /// default: all classes have the same weight.
    pub weight: Option<StateTensor>,
    /// A class index whose targets are ignored; -100 by default.
    pub ignore_index: i64,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for NLLLoss {
    fn default() -> Self {
        let NllOptions { ignore_index, reduction, .. } = NllOptions::default();
        NLLLoss { weight: None, ignore_index, reduction }
    }
}

impl Loss for NLLLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(StateTensor::tensor);
        let options = NllOptions {
            weight: weight.as_ref(),
            ignore_index: self.ignore_index,
            reduction: self.reduction,
        };
        prediction.nll_loss_with(target, options)
    }
}

/// Binary cross-entropy of logits and probabilities: [`Tensor::bce_with_logits_with`].
#[derive(Module, Clone, Debug, Default)]
pub struct BCEWithLogitsLoss {
    /// The weight of positive targets relative to negative ones, broadcast to the target; part of
    /// the state dict, as in PyTorch. `None` by default.
    pub pos_weight: Option<StateTensor>,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Loss for BCEWithLogitsLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let pos_weight = self.pos_weight.as_ref().map(StateTensor::tensor);
        let options = BceOptions { pos_weight: pos_weight.as_ref(), weight: None, reduction: self.reduction };
        prediction.bce_with_logits_with(target, options)
    }
}

/// The Kullback-Leibler divergence of log-probabilities from a target: [`Tensor::kl_div`].
///
/// The mean is over all elements, as in PyTorch by default. [`Reduction::BatchMean`] gives the
/// divergence itself.
#[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KLDivLoss {
    /// Whether the target contains logarithms of probabilities; false by default.
    pub log_target: bool,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Loss for KLDivLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        prediction.kl_div(target, self.reduction, self.log_target)
    }
}
