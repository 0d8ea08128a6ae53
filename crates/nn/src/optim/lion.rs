//! Lion: every element moves by the learning rate, in the direction of a sign.

use super::composed::{ParamTensors, blend, blend_, composed};
use super::group::ParamGroup;
use super::optimizer::{check_betas, optimizer};
use super::steps::{CommonConfig, StepRule, Steps};
use crate::module::Param;
use ternion_core::{Result, Tensor};

/// Lion (Chen et al. 2023, algorithm 2), with the defaults of its authors. PyTorch has no
/// counterpart.
///
/// `p *= 1 - lr * weight_decay`; `p -= lr * sign(beta1 m + (1 - beta1) g)`; `m = beta2 m + (1 -
/// beta2) g`.
///
/// The authors recommend a learning rate 3 to 10 times smaller than AdamW's, and a weight decay
/// larger by the same factor.
///
/// Not fused: a step takes about nine ops for each parameter.
pub struct Lion(Steps<LionRule>);

/// Configuration of [`Lion`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LionConfig {
    /// Learning rate; 1e-4 by default.
    pub lr: f64,
    /// Fraction of the momentum in the update direction, and fraction of the old momentum that is
    /// kept; 0.9 and 0.99 by default.
    pub betas: [f64; 2],
    /// A step multiplies the parameter by 1 minus this value times the learning rate; 0 by default.
    pub weight_decay: f64,
    /// Clips the gradients so that the norm of all of them together is at most this value; off by
    /// default.
    pub max_grad_norm: Option<f64>,
    /// Skips parameters without a gradient instead of returning an error; off by default.
    pub allow_missing_gradients: bool,
}

impl Default for LionConfig {
    fn default() -> Self {
        LionConfig {
            lr: 1e-4,
            betas: [0.9, 0.99],
            weight_decay: 0.0,
            max_grad_norm: None,
            allow_missing_gradients: false,
        }
    }
}

#[derive(Clone)]
struct LionRule {
    betas: [f64; 2],
    weight_decay: f64,
}

impl LionRule {
    fn update(&self, tensors: &ParamTensors<'_>) -> Result<Tensor> {
        let ([beta1, beta2], exp_avg) = (self.betas, tensors.states[0]);
        let direction = blend(exp_avg, beta1, &tensors.gradient)?.sign()?;
        blend_(exp_avg, beta2, &tensors.gradient)?;
        tensors.decayed_parameter(self.weight_decay)?.sub(&direction.mul(&tensors.lr)?)
    }
}

impl StepRule for LionRule {
    fn momentum(&mut self) -> Option<&mut f64> {
        Some(&mut self.betas[0])
    }
    fn apply(&self, inputs: &[&Tensor], _: bool) -> Result<()> {
        composed(inputs, 1, |tensors| self.update(tensors))
    }
    fn state_names(&self) -> &'static [&'static str] {
        &["exp_avg"]
    }
    fn step_scalars(&self, lr: f64, _: u64) -> Vec<f64> {
        vec![lr, 1.0]
    }
}

impl Lion {
    /// Creates an optimizer of `parameters`. A step skips those that are frozen at that time.
    ///
    /// # Errors
    /// Returns an error if there are no parameters or one occurs twice, if a number is negative or
    /// not finite, or if a beta is outside `0..1`.
    pub fn new(parameters: Vec<Param>, config: LionConfig) -> Result<Lion> {
        Lion::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// Like [`new`](Lion::new), with settings for each group.
    ///
    /// # Errors
    /// The errors of [`new`](Lion::new), also for the numbers of the groups.
    pub fn with_groups(groups: Vec<ParamGroup>, config: LionConfig) -> Result<Lion> {
        let LionConfig { lr, betas, weight_decay, max_grad_norm, allow_missing_gradients } = config;
        let common = CommonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients };
        common.check("lion", &[])?;
        check_betas("lion", betas)?;
        Ok(Lion(Steps::new("lion", common, groups, |weight_decay| LionRule { betas, weight_decay })?))
    }
}

optimizer!(Lion);
