//! Stochastic gradient descent.
//!
//! Parameters of f32 that a [scope of precision](ternion_core::precision) has cast since the last step are written in half precision too, 2 bytes an element, so that the next scope finds the casts
//! done; not where parameters overlap or are not dense.

use super::group::ParamGroup;
use super::optimizer::optimizer;
use super::steps::{Common, StepRule, Steps};
use crate::module::Param;
use ternion_core::dispatch::apply;
use ternion_core::ops::step::SgdStep;
use ternion_core::{Error, Result, Tensor};

/// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch's `SGD`.
pub struct SGD(Steps<SgdRule>);

/// How an [`SGD`] steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SGDConfig {
    /// Learning rate; 1e-3 by default.
    pub lr: f64,
    /// Share of the old velocity that stays; 0 by default.
    pub momentum: f64,
    /// Share of the gradient that does not enter the velocity; 0 by default.
    pub dampening: f64,
    /// Factor of the parameter added to its gradient; 0 by default.
    pub weight_decay: f64,
    /// Nesterov's look-ahead; off by default.
    pub nesterov: bool,
    /// Scales the gradients so that their common norm is at most this; not by default.
    pub max_grad_norm: Option<f64>,
    /// Passes over a parameter without a gradient, rather than to fail; off by default.
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
    fn change(&self, inputs: &[&Tensor], half_copy: bool) -> Result<()> {
        apply(SgdStep { half_copy, ..self.0.clone() }, inputs).map(drop)
    }
    fn writes_half_copies(&self) -> bool {
        true
    }
    fn state_names(&self) -> &'static [&'static str] {
        if self.0.momentum == 0.0 { &[] } else { &["momentum_buffer"] }
    }
    fn numbers(&self, lr: f64, step: u64) -> Vec<f64> {
        vec![lr, 1.0, if step == 1 { 1.0 } else { 0.0 }]
    }
}

impl SGD {
    /// Trains `parameters`; those that are frozen at the time of a step are passed over.
    ///
    /// # Errors
    /// No parameters, or one twice; a number that is negative or not finite; Nesterov's form without momentum or with dampening.
    pub fn new(parameters: Vec<Param>, config: SGDConfig) -> Result<SGD> {
        SGD::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// As [`new`](SGD::new), with settings for each group.
    ///
    /// # Errors
    /// Those of [`new`](SGD::new), also of the groups' numbers.
    pub fn with_groups(groups: Vec<ParamGroup>, config: SGDConfig) -> Result<SGD> {
        let SGDConfig { lr, momentum, dampening, weight_decay, nesterov, .. } = config;
        let (max_grad_norm, allow_missing_gradients) = (config.max_grad_norm, config.allow_missing_gradients);
        let common = Common { lr, weight_decay, max_grad_norm, allow_missing_gradients };
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
