//! Adam, and AdamW, which decouples weight decay from the gradient.
//!
//! If a [precision scope](ternion_core::precision) has cast an f32 parameter since the last step,
//! the step also writes the parameter in half precision (2 more bytes for each element), so that
//! the next scope need not cast it. This does not apply with `amsgrad`, nor to parameters that
//! overlap in memory or are not dense.

use super::composed::{ParamTensors, blend_, composed};
use super::group::ParamGroup;
use super::optimizer::{check_betas, optimizer};
use super::steps::{CommonConfig, StepRule, Steps};
use crate::module::Param;
use ternion_core::dispatch::apply;
use ternion_core::ops::step::{AdamStep, DecayMode};
use ternion_core::{Result, Tensor};

#[derive(Clone)]
struct AdamRule {
    step: AdamStep,
    amsgrad: bool,
}

impl StepRule for AdamRule {
    fn momentum(&mut self) -> Option<&mut f64> {
        Some(&mut self.step.beta1)
    }
    fn apply(&self, inputs: &[&Tensor], half_copy: bool) -> Result<()> {
        if self.amsgrad {
            return composed(inputs, self.state_names().len(), |tensors| self.update(tensors));
        }
        apply(AdamStep { half_copy, ..self.step.clone() }, inputs).map(drop)
    }
    fn writes_half_copies(&self) -> bool {
        !self.amsgrad
    }
    fn state_names(&self) -> &'static [&'static str] {
        if self.amsgrad { &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"] } else { &["exp_avg", "exp_avg_sq"] }
    }
    fn step_scalars(&self, lr: f64, step: u64) -> Vec<f64> {
        // `powf`, because the exponent of `powi` is an i32. Beyond 2^31 steps the corrections are
        // 1.
        let step = step as f64;
        let correction1 = 1.0 - self.step.beta1.powf(step);
        let correction2 = (1.0 - self.step.beta2.powf(step)).sqrt();
        vec![lr, 1.0, correction1, correction2]
    }
}

impl AdamRule {
    /// Computes the variant with the largest second moment so far (Reddi et al. 2018, algorithm 2);
    /// not fused.
    fn update(&self, tensors: &ParamTensors<'_>) -> Result<Tensor> {
        let AdamStep { beta1, beta2, eps, weight_decay, decay_mode, .. } = self.step;
        let (parameter, gradient) = match decay_mode {
            DecayMode::Coupled => (tensors.parameter.clone(), tensors.gradient_with_decay(weight_decay)?),
            DecayMode::Decoupled => (tensors.decayed_parameter(weight_decay)?, tensors.gradient.clone()),
        };
        let [average, square, largest] = [tensors.states[0], tensors.states[1], tensors.states[2]];
        blend_(average, beta1, &gradient)?;
        blend_(square, beta2, &gradient.square()?)?;
        largest.copy_(&largest.maximum(square)?)?;
        let [correction1, correction2] =
            [tensors.step_scalars.select(0, 2)?, tensors.step_scalars.select(0, 3)?];
        let root = largest.sqrt()?.div(&correction2)?.add_scalar(eps)?;
        parameter.sub(&average.div(&root)?.mul(&tensors.lr.div(&correction1)?)?)
    }
}

/// Defines an Adam optimizer from its names, its kind of weight decay, and the default weight
/// decay.
macro_rules! adam {
    ($(#[$doc:meta])* $name:ident, $config:ident, $stem:literal, $decay_mode:expr, $weight_decay:literal, $decay_doc:literal) => {
        $(#[$doc])*
        pub struct $name(Steps<AdamRule>);

        #[doc = concat!("How an [`", stringify!($name), "`] steps.")]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $config {
            /// Learning rate; 1e-3 by default.
            pub lr: f64,
            /// Decay rates of the first and the second moment; 0.9 and 0.999 by default.
            pub betas: [f64; 2],
            /// Added to the denominator; 1e-8 by default.
            pub eps: f64,
            #[doc = $decay_doc]
            pub weight_decay: f64,
            /// Divides by the square root of the largest second moment so far (Reddi et al. 2018);
            /// off by default. Not fused: about fifteen ops for each parameter.
            pub amsgrad: bool,
            /// Clips the gradients so that the norm of all of them together is at most this value;
            /// off by default.
            pub max_grad_norm: Option<f64>,
            /// Skips parameters without a gradient instead of returning an error; off by default.
            pub allow_missing_gradients: bool,
        }

        impl Default for $config {
            fn default() -> Self {
                $config {
                    lr: 1e-3,
                    betas: [0.9, 0.999],
                    eps: 1e-8,
                    weight_decay: $weight_decay,
                    amsgrad: false,
                    max_grad_norm: None,
                    allow_missing_gradients: false,
                }
            }
        }

        impl $name {
            /// Creates an optimizer of `parameters`. A step skips those that are frozen at that
            /// time.
            ///
            /// # Errors
            /// Returns an error if there are no parameters or one occurs twice, if a number is
            /// negative or not finite, or if a beta is outside `0..1`.
            pub fn new(parameters: Vec<Param>, config: $config) -> Result<$name> {
                $name::with_groups(vec![ParamGroup::new(parameters)], config)
            }

            /// Like `new`, with settings for each group.
            ///
            /// # Errors
            /// The errors of `new`, also for the numbers of the groups.
            pub fn with_groups(groups: Vec<ParamGroup>, config: $config) -> Result<$name> {
                let $config { lr, betas, eps, weight_decay, amsgrad, max_grad_norm, allow_missing_gradients } = config;
                let common = CommonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients };
                common.check($stem, &[("eps", eps)])?;
                check_betas($stem, betas)?;
                let [beta1, beta2] = betas;
                let decay_mode = $decay_mode;
                let step = |weight_decay| AdamStep { beta1, beta2, eps, weight_decay, decay_mode, half_copy: false };
                let rule = |weight_decay| AdamRule { step: step(weight_decay), amsgrad };
                Ok($name(Steps::new($stem, common, groups, rule)?))
            }
        }

        optimizer!($name);
    };
}

adam! {
    /// Adam (Kingma and Ba 2015, algorithm 1), as PyTorch's `Adam`: weight decay is added to the
    /// gradient.
    Adam, AdamConfig, "adam", DecayMode::Coupled, 0.0,
    "Factor of the parameter added to its gradient; 0 by default."
}

adam! {
    /// AdamW (Loshchilov and Hutter 2019, algorithm 2), as PyTorch's `AdamW`: weight decay acts on
    /// the parameter directly.
    ///
    /// ```
    /// use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
    /// # use ternion_nn::{Forward, Linear, Module};
    /// # use ternion_core::{DType, Result, Tensor};
    /// # fn main() -> Result<()> {
    /// # let device = ternion_cpu::device();
    /// let model = Linear::new(3, 2, &device)?;
    /// let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-2, ..Default::default() })?;
    /// let loss = model.forward(&Tensor::ones([5, 3], DType::F32, &device)?)?.square()?.mean(..)?;
    /// adam.step(&loss.backward()?)?;
    /// # Ok(())
    /// # }
    /// ```
    AdamW, AdamWConfig, "adamw", DecayMode::Decoupled, 0.01,
    "Share, times the learning rate, by which a parameter shrinks in a step; 0.01 by default."
}
