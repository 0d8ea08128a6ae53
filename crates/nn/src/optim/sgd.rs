//! Stochastic gradient descent.
//!
//! If a [precision scope](ternion_core::precision) has cast an f32 parameter since the last step,
//! the step also writes the parameter in half precision (2 more bytes for each element), so that
//! the next scope need not cast it. This does not apply to parameters that overlap in memory or are
//! not dense.

use super::group::ParamGroup;
use super::optimizer::optimizer;
use super::steps::{CommonConfig, StepRule, Steps};
use crate::module::Param;
use ternion_core::dispatch::apply;
use ternion_core::ops::step::SgdStep;
use ternion_core::{Error, Result, Tensor};

/// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch's `SGD`.
pub struct SGD(Steps<SgdRule>);

/// Configuration of [`SGD`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SGDConfig {
    /// Learning rate; 1e-3 by default.
    pub lr: f64,
    /// Fraction of the old velocity that is kept; 0 by default.
    pub momentum: f64,
    /// Fraction of the gradient that is not added to the velocity; 0 by default.
    pub dampening: f64,
    /// Multiple of the parameter that is added to its gradient; 0 by default.
    pub weight_decay: f64,
    /// Nesterov momentum; off by default.
    pub nesterov: bool,
    /// Clips the gradients so that the norm of all of them together is at most this value; off by
    /// default.
    pub max_grad_norm: Option<f64>,
    /// Skips parameters without a gradient instead of returning an error; off by default.
    pub allow_missing_gradients: bool,
}

impl Default for SGDConfig {
    fn default() -> Self {
        SGDConfig {
            lr: 1e-3,
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: false,
            max_grad_norm: None,
            allow_missing_gradients: false,
        }
    }
}

#[derive(Clone)]
struct SgdRule(SgdStep);

impl StepRule for SgdRule {
    fn momentum(&mut self) -> Option<&mut f64> {
        Some(&mut self.0.momentum)
    }
    fn apply(&self, inputs: &[&Tensor], half_copy: bool) -> Result<()> {
        apply(SgdStep { half_copy, ..self.0.clone() }, inputs).map(drop)
    }
    fn writes_half_copies(&self) -> bool {
        true
    }
    fn state_names(&self) -> &'static [&'static str] {
        if self.0.momentum == 0.0 { &[] } else { &["momentum_buffer"] }
    }
    fn step_scalars(&self, lr: f64, step: u64) -> Vec<f64> {
        vec![lr, 1.0, if step == 1 { 1.0 } else { 0.0 }]
    }
}

impl SGD {
    /// Creates an optimizer of `parameters`. A step skips those that are frozen at that time.
    ///
    /// # Errors
    /// Returns an error if there are no parameters or one occurs twice, if a number is negative or
    /// not finite, or for Nesterov momentum with a momentum of 0 or with dampening.
    pub fn new(parameters: Vec<Param>, config: SGDConfig) -> Result<SGD> {
        SGD::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// Like [`new`](SGD::new), with settings for each group.
    ///
    /// # Errors
    /// The errors of [`new`](SGD::new), also for the numbers of the groups.
    pub fn with_groups(groups: Vec<ParamGroup>, config: SGDConfig) -> Result<SGD> {
        let SGDConfig { lr, momentum, dampening, weight_decay, nesterov, .. } = config;
        let (max_grad_norm, allow_missing_gradients) = (config.max_grad_norm, config.allow_missing_gradients);
        let common = CommonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients };
        common.check("sgd", &[("momentum", momentum)])?;
        if !dampening.is_finite() {
            return Err(Error::invalid("sgd", format!("dampening {dampening}, expected a finite number")));
        }
        if nesterov && (momentum == 0.0 || dampening != 0.0) {
            return Err(Error::invalid("sgd", "nesterov needs a momentum above 0 and no dampening"));
        }
        let rule =
            |weight_decay| SgdRule(SgdStep { momentum, dampening, weight_decay, nesterov, half_copy: false });
        Ok(SGD(Steps::new("sgd", common, groups, rule)?))
    }
}

optimizer!(SGD);
