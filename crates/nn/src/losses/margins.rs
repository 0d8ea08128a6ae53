//! Losses based on margins, distances, likelihoods and alignments.

use super::loss::Loss;
use crate::module::{Module, StateTensor};
use ternion_core::{
    CtcOptions, GaussianNllOptions, MultiMarginOptions, PoissonNllOptions, Reduction, Result, Tensor,
    TripletOptions,
};

/// The hinge loss of all other classes against the target's class: [`Tensor::multi_margin_loss`].
#[derive(Module, Clone, Debug)]
pub struct MultiMarginLoss {
    /// The exponent of the hinge, 1 or 2; 1 by default.
    #[module(skip)]
    pub p: u32,
    /// The margin by which the score of the target's class should exceed all other scores; 1 by
    /// default.
    pub margin: f64,
    /// The weight of each class, `[classes]`; part of the state dict, as in PyTorch. `None` by
    /// default.
    pub weight: Option<StateTensor>,
    /// The reduction of the losses; mean by default.
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

/// The mean of the binary cross-entropies of all classes: [`Tensor::multilabel_soft_margin_loss`].
#[derive(Module, Clone, Debug, Default)]
pub struct MultiLabelSoftMarginLoss {
    /// The weight of each class, `[classes]`; part of the state dict, as in PyTorch. `None` by
    /// default.
    pub weight: Option<StateTensor>,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Loss for MultiLabelSoftMarginLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(StateTensor::tensor);
        prediction.multilabel_soft_margin_loss(target, weight.as_ref(), self.reduction)
    }
}

/// Binary cross-entropy of probabilities: [`Tensor::binary_cross_entropy`].
#[derive(Module, Clone, Debug, Default)]
pub struct BCELoss {
    /// The weight of each element, broadcast; part of the state dict, as in PyTorch. `None` by
    /// default.
    pub weight: Option<StateTensor>,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Loss for BCELoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(StateTensor::tensor);
        prediction.binary_cross_entropy(target, weight.as_ref(), self.reduction)
    }
}

/// The input for targets of 1, a hinge for targets of -1: [`Tensor::hinge_embedding_loss`].
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct HingeEmbeddingLoss {
    /// The distance that dissimilar pairs should have at least; 1 by default.
    pub margin: f64,
    /// The reduction of the losses; mean by default.
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

/// Quadratic up to a distance of `beta`, then linear with derivative 1: [`Tensor::smooth_l1_loss`].
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct SmoothL1Loss {
    /// The distance above which the loss is linear; 1 by default.
    pub beta: f64,
    /// The reduction of the losses; mean by default.
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

/// The negative log-likelihood of Poisson distributions: [`Tensor::poisson_nll_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct PoissonNLLLoss {
    /// The options of the loss.
    #[module(skip)]
    pub options: PoissonNllOptions,
}

impl Loss for PoissonNLLLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        prediction.poisson_nll_loss(target, self.options)
    }
}

/// The negative log-likelihood of normal distributions: [`Tensor::gaussian_nll_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct GaussianNLLLoss {
    /// The options of the loss.
    #[module(skip)]
    pub options: GaussianNllOptions,
}

impl GaussianNLLLoss {
    /// Returns the loss of predicted means with these variances.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match.
    pub fn forward(&self, prediction: &Tensor, target: &Tensor, variance: &Tensor) -> Result<Tensor> {
        prediction.gaussian_nll_loss(target, variance, self.options)
    }
}

/// A hinge on the order of two numbers: [`Tensor::margin_ranking_loss`].
#[derive(Module, Clone, Copy, Debug, Default, PartialEq)]
pub struct MarginRankingLoss {
    /// The margin by which the larger one should exceed the other; 0 by default.
    pub margin: f64,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl MarginRankingLoss {
    /// Returns the loss of two tensors. A target of 1 means that the element of `first` should be
    /// larger, -1 that the element of `second` should.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match.
    pub fn forward(&self, first: &Tensor, second: &Tensor, target: &Tensor) -> Result<Tensor> {
        first.margin_ranking_loss(second, target, self.margin, self.reduction)
    }
}

/// Cosine distance between vectors that should be similar or dissimilar:
/// [`Tensor::cosine_embedding_loss`].
#[derive(Module, Clone, Copy, Debug, Default, PartialEq)]
pub struct CosineEmbeddingLoss {
    /// The cosine up to which dissimilar vectors have no loss; 0 by default.
    pub margin: f64,
    /// The reduction of the losses; mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl CosineEmbeddingLoss {
    /// Returns the loss of pairs of vectors. A target of 1 means that the pair should be similar,
    /// -1 that it should be dissimilar.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match.
    pub fn forward(&self, first: &Tensor, second: &Tensor, target: &Tensor) -> Result<Tensor> {
        first.cosine_embedding_loss(second, target, self.margin, self.reduction)
    }
}

/// A hinge on distances: the anchor should be nearer to the positive than to the negative:
/// [`Tensor::triplet_margin_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct TripletMarginLoss {
    /// The options of the loss.
    #[module(skip)]
    pub options: TripletOptions,
}

impl TripletMarginLoss {
    /// Returns the loss of triplets.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the margin is not above 0.
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        anchor.triplet_margin_loss(positive, negative, self.options)
    }
}

/// Connectionist temporal classification: [`Tensor::ctc_loss`].
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct CTCLoss {
    /// The options of the loss.
    #[module(skip)]
    pub options: CtcOptions,
}

impl CTCLoss {
    /// Returns the loss of log-probabilities and targets with these lengths.
    ///
    /// # Errors
    /// Returns an error if shapes, dtypes or lengths do not match.
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
