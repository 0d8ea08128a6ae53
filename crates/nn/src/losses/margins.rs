//! Losses of margins, distances, likelihoods and alignments.

use super::loss::Loss;
use crate::module::{Module, StateTensor};
use ternion_core::{
    CtcOptions, GaussianNllOptions, MultiMarginOptions, PoissonNllOptions, Reduction, Result, Tensor,
    TripletOptions,
};

/// The margins of classes beside the target's: [`Tensor::multi_margin_loss`].
#[derive(Module, Clone, Debug)]
pub struct MultiMarginLoss {
    /// The power of what is within the margin, 1 or 2; 1 by default.
    #[module(skip)]
    pub p: u32,
    /// How much more the target's class is to have; 1 by default.
    pub margin: f64,
    /// How much each class counts, `[classes]`; part of the state, as in PyTorch. None by default.
    pub weight: Option<StateTensor>,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for MultiMarginLoss {
    fn default() -> Self {
        MultiMarginLoss { p: 1, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

impl Loss for MultiMarginLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let &MultiMarginLoss { p, margin, ref weight, reduction } = self;
        let weight = weight.as_ref().map(StateTensor::tensor);
        let options = MultiMarginOptions { p, margin, weight: weight.as_ref(), reduction };
        prediction.multi_margin_loss(target, options)
    }
}

/// The mean of binary cross-entropies of all classes: [`Tensor::multilabel_soft_margin_loss`].
#[derive(Module, Clone, Debug, Default)]
pub struct MultiLabelSoftMarginLoss {
    /// How much each class counts, `[classes]`; part of the state, as in PyTorch. None by default.
    pub weight: Option<StateTensor>,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Loss for MultiLabelSoftMarginLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(StateTensor::tensor);
        prediction.multilabel_soft_margin_loss(target, weight.as_ref(), self.reduction)
    }
}

/// Cross-entropy of probabilities: [`Tensor::binary_cross_entropy`].
#[derive(Module, Clone, Debug, Default)]
pub struct BCELoss {
    /// How much each element counts, broadcast; part of the state, as in PyTorch. None by default.
    pub weight: Option<StateTensor>,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Loss for BCELoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(StateTensor::tensor);
        prediction.binary_cross_entropy(target, weight.as_ref(), self.reduction)
    }
}

/// Distances of targets 1, margins of targets -1: [`Tensor::hinge_embedding_loss`].
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct HingeEmbeddingLoss {
    /// How far apart unlike ones are to be; 1 by default.
    pub margin: f64,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for HingeEmbeddingLoss {
    fn default() -> Self {
        HingeEmbeddingLoss { margin: 1.0, reduction: Reduction::Mean }
    }
}

impl Loss for HingeEmbeddingLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        prediction.hinge_embedding_loss(target, self.margin, self.reduction)
    }
}

/// Quadratic up to a distance of `beta`, linear beyond, with gradient 1 there: [`Tensor::smooth_l1_loss`].
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct SmoothL1Loss {
    /// Where the loss becomes linear; 1 by default.
    pub beta: f64,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for SmoothL1Loss {
    fn default() -> Self {
        SmoothL1Loss { beta: 1.0, reduction: Reduction::Mean }
    }
}

impl Loss for SmoothL1Loss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        prediction.smooth_l1_loss(target, self.beta, self.reduction)
    }
}

/// Minus the log-probability of counts: [`Tensor::poisson_nll_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct PoissonNLLLoss {
    /// How it counts.
    #[module(skip)]
    pub options: PoissonNllOptions,
}

impl Loss for PoissonNLLLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        prediction.poisson_nll_loss(target, self.options)
    }
}

/// Minus the log-probability of normal distributions: [`Tensor::gaussian_nll_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct GaussianNLLLoss {
    /// How it counts.
    #[module(skip)]
    pub options: GaussianNllOptions,
}

impl GaussianNLLLoss {
    /// The loss of means with these variances.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn forward(&self, prediction: &Tensor, target: &Tensor, variance: &Tensor) -> Result<Tensor> {
        prediction.gaussian_nll_loss(target, variance, self.options)
    }
}

/// Which of two numbers is to be the larger one: [`Tensor::margin_ranking_loss`].
#[derive(Module, Clone, Copy, Debug, Default, PartialEq)]
pub struct MarginRankingLoss {
    /// By how much; 0 by default.
    pub margin: f64,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl MarginRankingLoss {
    /// The loss of two tensors, of which targets of 1 want the first larger, those of -1 the second.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn forward(&self, first: &Tensor, second: &Tensor, target: &Tensor) -> Result<Tensor> {
        first.margin_ranking_loss(second, target, self.margin, self.reduction)
    }
}

/// Angles between vectors that are to be alike or not: [`Tensor::cosine_embedding_loss`].
#[derive(Module, Clone, Copy, Debug, Default, PartialEq)]
pub struct CosineEmbeddingLoss {
    /// The cosine up to which unlike vectors are apart enough; 0 by default.
    pub margin: f64,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl CosineEmbeddingLoss {
    /// The loss of vectors, of which targets of 1 want the pairs alike, those of -1 apart.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn forward(&self, first: &Tensor, second: &Tensor, target: &Tensor) -> Result<Tensor> {
        first.cosine_embedding_loss(second, target, self.margin, self.reduction)
    }
}

/// An anchor nearer to a positive than to a negative: [`Tensor::triplet_margin_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct TripletMarginLoss {
    /// How it counts.
    #[module(skip)]
    pub options: TripletOptions,
}

impl TripletMarginLoss {
    /// The loss of triplets.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a margin that is not above 0.
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        anchor.triplet_margin_loss(positive, negative, self.options)
    }
}

/// Connectionist temporal classification: [`Tensor::ctc_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct CTCLoss {
    /// How it counts.
    #[module(skip)]
    pub options: CtcOptions,
}

impl CTCLoss {
    /// The loss of log-probabilities and targets of these lengths.
    ///
    /// # Errors
    /// Shapes, dtypes or lengths that do not fit.
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[usize],
        target_lengths: &[usize],
    ) -> Result<Tensor> {
        log_probs.ctc_loss(targets, input_lengths, target_lengths, self.options)
    }
}
