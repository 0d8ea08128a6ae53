//! Lion: every element moves by the learning rate, in the direction of a sign.

use super::composed::{Parts, blend, blend_, composed};
use super::group::ParamGroup;
use super::optimizer::{check_betas, optimizer};
use super::steps::{Common, StepRule, Steps};
use crate::module::Param;
use ternion_core::{Result, Tensor};

/// Lion (Chen et al. 2023, algorithm 2), with the defaults of its authors; PyTorch has none:
///
/// `p *= 1 - lr * weight_decay`; `p -= lr * sign(beta1 m + (1 - beta1) g)`; `m = beta2 m + (1 - beta2) g`.
///
/// The authors advise a learning rate 3 to 10 times smaller than AdamW's, and a weight decay as much larger.
///
/// Not fused: a step is some nine ops for each parameter.
pub struct Lion(Steps<LionRule>);

/// How a [`Lion`] steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LionConfig {
    /// Learning rate; 1e-4 by default.
    pub lr: f64,
    /// Share of the momentum in the direction, and of the old momentum that stays; 0.9 and 0.99 by default.
    pub betas: [f64; 2],
    /// Share, times the learning rate, by which a parameter shrinks in a step; 0 by default.
    pub weight_decay: f64,
    /// Scales the gradients so that their common norm is at most this; not by default.
    pub max_grad_norm: Option<f64>,
    /// Passes over a parameter without a gradient, rather than to fail; off by default.
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
    fn update(&self, parts: &Parts<'_>) -> Result<Tensor> {
        let ([beta1, beta2], exp_avg) = (self.betas, parts.states[0]);
        let direction = blend(exp_avg, beta1, &parts.gradient)?.sign()?;
        blend_(exp_avg, beta2, &parts.gradient)?;
        parts.decayed_parameter(self.weight_decay)?.sub(&direction.mul(&parts.lr)?)
    }
}

impl StepRule for LionRule {
    fn momentum(&mut self) -> Option<&mut f64> {
        Some(&mut self.betas[0])
    }
    fn change(&self, inputs: &[&Tensor], _: bool) -> Result<()> {
        composed(inputs, 1, |parts| self.update(parts))
    }
    fn state_names(&self) -> &'static [&'static str] {
        &["exp_avg"]
    }
    fn numbers(&self, lr: f64, _: u64) -> Vec<f64> {
        vec![lr, 1.0]
    }
}

impl Lion {
    /// Trains `parameters`; those that are frozen at the time of a step are passed over.
    ///
    /// # Errors
    /// No parameters, or one twice; a number that is negative or not finite; a beta outside `0..1`.
    pub fn new(parameters: Vec<Param>, config: LionConfig) -> Result<Lion> {
        Lion::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// As [`new`](Lion::new), with settings for each group.
    ///
    /// # Errors
    /// Those of [`new`](Lion::new), also of the groups' numbers.
    pub fn with_groups(groups: Vec<ParamGroup>, config: LionConfig) -> Result<Lion> {
        let LionConfig { lr, betas, weight_decay, max_grad_norm, allow_missing_gradients } = config;
        let common = Common { lr, weight_decay, max_grad_norm, allow_missing_gradients };
        common.check("lion", &[])?;
        check_betas("lion", betas)?;
        Ok(Lion(Steps::new("lion", common, groups, |weight_decay| LionRule { betas, weight_decay })?))
    }
}

optimizer!(Lion);
