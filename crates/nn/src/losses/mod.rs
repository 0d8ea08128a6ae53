//! Losses as modules. Each calls a method of `Tensor` and stores its settings.

mod classification;
mod loss;
mod margins;
mod regression;

pub use classification::{BCEWithLogitsLoss, CrossEntropyLoss, KLDivLoss, NLLLoss};
pub use loss::Loss;
pub use margins::{
    BCELoss, CTCLoss, CosineEmbeddingLoss, GaussianNLLLoss, HingeEmbeddingLoss, MarginRankingLoss,
    MultiLabelSoftMarginLoss, MultiMarginLoss, PoissonNLLLoss, SmoothL1Loss, TripletMarginLoss,
};
pub use regression::{HuberLoss, L1Loss, MSELoss, MultiLabelMarginLoss, SoftMarginLoss};
