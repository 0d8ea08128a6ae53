//! RMSprop: gradients divided by the square root of a running mean of their squares.

use super::composed::{ParamTensors, blend_, composed};
use super::group::ParamGroup;
use super::optimizer::optimizer;
use super::steps::{CommonConfig, StepRule, Steps};
use crate::module::Param;
use ternion_core::{Error, Result, Tensor};

/// RMSprop (Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013, equations 38 to 45), as
/// PyTorch's `RMSprop`:
///
/// `g = grad + weight_decay * p`; `v = alpha v + (1 - alpha) g^2`; if centered, `a = alpha a + (1 -
/// alpha) g`, and `v - a^2` replaces `v` below; `d = g / (sqrt(v) + eps)`; with momentum, `b =
/// momentum * b + d` replaces `d`; `p -= lr * d`.
///
/// Not fused: a step takes about ten ops for each parameter.
pub struct RMSprop(Steps<RmspropRule>);

/// Configuration of [`RMSprop`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RMSpropConfig {
    /// Learning rate; 1e-2 by default.
    pub lr: f64,
    /// Fraction of the old mean square that is kept; 0.99 by default.
    pub alpha: f64,
    /// Added to the denominator; 1e-8 by default.
    pub eps: f64,
    /// Multiple of the parameter that is added to its gradient; 0 by default.
    pub weight_decay: f64,
    /// Fraction of the old velocity that is kept; 0 by default.
    pub momentum: f64,
    /// Divides by the standard deviation instead of the root mean square; off by default.
    pub centered: bool,
    /// Clips the gradients so that the norm of all of them together is at most this value; off by
    /// default.
    pub max_grad_norm: Option<f64>,
    /// Skips parameters without a gradient instead of returning an error; off by default.
    pub allow_missing_gradients: bool,
}

impl Default for RMSpropConfig {
    fn default() -> Self {
        RMSpropConfig {
            lr: 1e-2,
            alpha: 0.99,
            eps: 1e-8,
            weight_decay: 0.0,
            momentum: 0.0,
            centered: false,
            max_grad_norm: None,
            allow_missing_gradients: false,
        }
    }
}

/// `config.weight_decay` is the weight decay of the group.
#[derive(Clone)]
struct RmspropRule {
    config: RMSpropConfig,
}

impl RmspropRule {
    fn update(&self, tensors: &ParamTensors<'_>) -> Result<Tensor> {
        let RMSpropConfig { alpha, eps, weight_decay, momentum, centered, .. } = self.config;
        let gradient = tensors.gradient_with_decay(weight_decay)?;
        let square_avg = tensors.states[0];
        blend_(square_avg, alpha, &gradient.square()?)?;
        let mut variance = square_avg.clone();
        if centered {
            let grad_avg = tensors.states[tensors.states.len() - 1];
            blend_(grad_avg, alpha, &gradient)?;
            // Rounding may make a variance of 0 negative.
            variance = square_avg.sub(&grad_avg.square()?)?.maximum_scalar(0.0)?;
        }
        let mut direction = gradient.div(&variance.sqrt()?.add_scalar(eps)?)?;
        if momentum != 0.0 {
            tensors.states[1].scale_add_(momentum, &direction)?;
            direction = tensors.states[1].clone();
        }
        tensors.parameter.sub(&direction.mul(&tensors.lr)?)
    }
}

impl StepRule for RmspropRule {
    fn momentum(&mut self) -> Option<&mut f64> {
        Some(&mut self.config.momentum)
    }
    fn apply(&self, inputs: &[&Tensor], _: bool) -> Result<()> {
        composed(inputs, self.state_names().len(), |tensors| self.update(tensors))
    }
    fn state_names(&self) -> &'static [&'static str] {
        match (self.config.momentum != 0.0, self.config.centered) {
            (false, false) => &["square_avg"],
            (true, false) => &["square_avg", "momentum_buffer"],
            (false, true) => &["square_avg", "grad_avg"],
            (true, true) => &["square_avg", "momentum_buffer", "grad_avg"],
        }
    }
    fn step_scalars(&self, lr: f64, _: u64) -> Vec<f64> {
        vec![lr, 1.0]
    }
}

impl RMSprop {
    /// Creates an optimizer of `parameters`. A step skips those that are frozen at that time.
    ///
    /// # Errors
    /// Returns an error if there are no parameters or one occurs twice, if a number is negative or
    /// not finite, or if alpha is above 1.
    pub fn new(parameters: Vec<Param>, config: RMSpropConfig) -> Result<RMSprop> {
        RMSprop::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// Like [`new`](RMSprop::new), with settings for each group.
    ///
    /// # Errors
    /// The errors of [`new`](RMSprop::new), also for the numbers of the groups.
    pub fn with_groups(groups: Vec<ParamGroup>, config: RMSpropConfig) -> Result<RMSprop> {
        let RMSpropConfig { lr, alpha, eps, weight_decay, momentum, .. } = config;
        let (max_grad_norm, allow_missing_gradients) = (config.max_grad_norm, config.allow_missing_gradients);
        let common = CommonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients };
        common.check("rmsprop", &[("eps", eps), ("momentum", momentum)])?;
        if !(0.0..=1.0).contains(&alpha) {
            return Err(Error::invalid("rmsprop", format!("alpha {alpha}, expected 0 to 1")));
        }
        let rule = |weight_decay| RmspropRule { config: RMSpropConfig { weight_decay, ..config } };
        Ok(RMSprop(Steps::new("rmsprop", common, groups, rule)?))
    }
}

optimizer!(RMSprop);
