//! Losses of the distance from a target.

use super::loss::Loss;
use crate::module::Module;
use ternion_core::{Reduction, Result, Tensor};

/// Losses whose only setting is the reduction: name, doc, method.
macro_rules! elementwise_losses {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// How the losses become one; their mean by default.
            #[module(skip)]
            pub reduction: Reduction,
        }

        impl Loss for $name {
            fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
                prediction.$method(target, self.reduction)
            }
        })*
    };
}

elementwise_losses! {
    /// `(x - target)^2`.
    MSELoss => mse_loss;
    /// `|x - target|`.
    L1Loss => l1_loss;
    /// `log(1 + e^(-target * x))`, of targets 1 and -1.
    SoftMarginLoss => soft_margin_loss;
    /// The margins of classes that are no targets beside those that are: [`Tensor::multilabel_margin_loss`].
    MultiLabelMarginLoss => multilabel_margin_loss;
}

/// Quadratic up to a distance of `delta`, linear beyond: [`Tensor::huber_loss`].
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct HuberLoss {
    /// Where the loss becomes linear; 1 by default.
    pub delta: f64,
    /// How the losses become one; their mean by default.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for HuberLoss {
    fn default() -> Self {
        HuberLoss { delta: 1.0, reduction: Reduction::Mean }
    }
}

impl Loss for HuberLoss {
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        prediction.huber_loss(target, self.delta, self.reduction)
    }
}
