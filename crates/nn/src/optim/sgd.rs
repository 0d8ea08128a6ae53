//! Stochastic gradient descent.

use super::Optimizer;
use super::steps::{Common, StepRule, Steps};
use crate::{Param, StateDict};
use ternion_core::ops::step::SgdStep;
use ternion_core::{Error, Gradients, Op, Result};

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
    fn op(&self) -> Op {
        self.0.clone().into()
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
        let SGDConfig { lr, momentum, dampening, weight_decay, nesterov, .. } = config;
        let common = Common {
            lr,
            max_grad_norm: config.max_grad_norm,
            allow_missing_gradients: config.allow_missing_gradients,
        };
        common.check("sgd", &[("momentum", momentum), ("weight_decay", weight_decay)])?;
        if !dampening.is_finite() {
            return Err(Error::invalid("sgd", format!("dampening {dampening}, expected a finite number")));
        }
        if nesterov && (momentum == 0.0 || dampening != 0.0) {
            return Err(Error::invalid("sgd", "nesterov needs a momentum above 0 and no dampening"));
        }
        let rule = SgdRule(SgdStep { momentum, dampening, weight_decay, nesterov });
        Ok(SGD(Steps::new("sgd", rule, common, parameters)?))
    }
}

impl Optimizer for SGD {
    fn step(&mut self, gradients: &Gradients) -> Result<()> {
        self.0.step(gradients)
    }
    fn lr(&self) -> f64 {
        self.0.lr()
    }
    fn set_lr(&mut self, lr: f64) -> Result<()> {
        self.0.set_lr(lr)
    }
    fn parameters(&self) -> Vec<Param> {
        self.0.parameters()
    }
    fn state_dict(&self) -> Result<StateDict> {
        self.0.state_dict()
    }
    fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        self.0.load_state_dict(dict)
    }
}
