//! Losses as modules. Each is a method of `Tensor` with its settings kept.

mod classification;
mod loss;
mod regression;

pub use classification::{BCEWithLogitsLoss, CrossEntropyLoss, KLDivLoss, NLLLoss};
pub use loss::Loss;
pub use regression::{HuberLoss, L1Loss, MSELoss};
