//! Adagrad: gradients divided by the square root of the sum of all squared gradients.

use super::composed::{ParamTensors, composed};
use super::group::ParamGroup;
use super::optimizer::optimizer;
use super::steps::{CommonConfig, StepRule, Steps};
use crate::module::Param;
use ternion_core::{Result, Tensor};

/// Adagrad (Duchi, Hazan and Singer 2011, the diagonal version of figure 1), as PyTorch's
/// `Adagrad`:
///
/// `g = grad + weight_decay * p`; `s = s + g^2`; `p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s)
/// + eps)`.
///
/// Not fused: a step takes about seven ops for each parameter.
pub struct Adagrad(Steps<AdagradRule>);

/// Configuration of [`Adagrad`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdagradConfig {
    /// Learning rate; 1e-2 by default.
    pub lr: f64,
    /// Decay of the learning rate with the number of steps of a parameter; 0 by default.
    pub lr_decay: f64,
    /// Multiple of the parameter that is added to its gradient; 0 by default.
    pub weight_decay: f64,
    /// The initial value of the sum of squares; 0 by default.
    pub initial_accumulator_value: f64,
    /// Added to the denominator; 1e-10 by default.
    pub eps: f64,
    /// Clips the gradients so that the norm of all of them together is at most this value; off by
    /// default.
    pub max_grad_norm: Option<f64>,
    /// Skips parameters without a gradient instead of returning an error; off by default.
    pub allow_missing_gradients: bool,
}

impl Default for AdagradConfig {
    fn default() -> Self {
        AdagradConfig {
            lr: 1e-2,
            lr_decay: 0.0,
            weight_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
            max_grad_norm: None,
            allow_missing_gradients: false,
        }
    }
}

/// `config.weight_decay` is the weight decay of the group.
#[derive(Clone)]
struct AdagradRule {
    config: AdagradConfig,
}

impl AdagradRule {
    fn update(&self, tensors: &ParamTensors<'_>) -> Result<Tensor> {
        let gradient = tensors.gradient_with_decay(self.config.weight_decay)?;
        let sum = tensors.states[0];
        sum.add_(&gradient.square()?)?;
        let direction = gradient.div(&sum.sqrt()?.add_scalar(self.config.eps)?)?;
        tensors.parameter.sub(&direction.mul(&tensors.lr)?)
    }
}

impl StepRule for AdagradRule {
    fn apply(&self, inputs: &[&Tensor], _: bool) -> Result<()> {
        composed(inputs, 1, |tensors| self.update(tensors))
    }
    fn state_names(&self) -> &'static [&'static str] {
        &["sum"]
    }
    fn step_scalars(&self, lr: f64, step: u64) -> Vec<f64> {
        vec![lr / (1.0 + (step - 1) as f64 * self.config.lr_decay), 1.0]
    }
    fn initial_state(&self) -> f64 {
        self.config.initial_accumulator_value
    }
}

impl Adagrad {
    /// Creates an optimizer of `parameters`. A step skips those that are frozen at that time.
    ///
    /// # Errors
    /// Returns an error if there are no parameters or one occurs twice, or if a number is negative
    /// or not finite.
    pub fn new(parameters: Vec<Param>, config: AdagradConfig) -> Result<Adagrad> {
        Adagrad::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// Like [`new`](Adagrad::new), with settings for each group.
    ///
    /// # Errors
    /// The errors of [`new`](Adagrad::new), also for the numbers of the groups.
    pub fn with_groups(groups: Vec<ParamGroup>, config: AdagradConfig) -> Result<Adagrad> {
        let AdagradConfig { lr, lr_decay, weight_decay, initial_accumulator_value, eps, .. } = config;
        let (max_grad_norm, allow_missing_gradients) = (config.max_grad_norm, config.allow_missing_gradients);
        let common = CommonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients };
        let accumulator = ("initial_accumulator_value", initial_accumulator_value);
        common.check("adagrad", &[("lr_decay", lr_decay), accumulator, ("eps", eps)])?;
        let rule = |weight_decay| AdagradRule { config: AdagradConfig { weight_decay, ..config } };
        Ok(Adagrad(Steps::new("adagrad", common, groups, rule)?))
    }
}

optimizer!(Adagrad);
