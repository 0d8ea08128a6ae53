//! Losses that measure the distance from a target.

use super::loss::Loss;
use crate::module::Module;
use ternion_core::{Reduction, Result, Tensor};

/// Defines losses whose only setting is the reduction, from name, doc and method.
macro_rules! elementwise_losses {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The reduction of the losses; mean by default.
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
    /// `log(1 + e^(-target * x))`, for targets 1 and -1.
    SoftMarginLoss => soft_margin_loss;
    /// The hinge loss of non-target classes against target classes:
    /// [`Tensor::multilabel_margin_loss`].
    MultiLabelMarginLoss => multilabel_margin_loss;
}

/// Quadratic up to a distance of `delta`, linear beyond: [`Tensor::huber_loss`].
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct HuberLoss {
    /// The distance above which the loss is linear; 1 by default.
    pub delta: f64,
    /// The reduction of the losses; mean by default.
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
