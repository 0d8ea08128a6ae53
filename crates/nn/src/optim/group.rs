//! Groups of parameters that step by settings of their own.

use crate::module::Param;

/// Parameters with settings of their own, as PyTorch's parameter groups. An optimiser's state dict does not hold the settings, as it does not hold its configuration.
///
/// ```
/// use ternion_nn::optim::{AdamW, AdamWConfig, ParamGroup};
/// # use ternion_nn::{Linear, Module};
/// # fn main() -> ternion_core::Result<()> {
/// # let device = ternion_cpu::device();
/// let model = Linear::new(3, 2, &device)?;
/// // Biases do not decay, and learn at a tenth of the rate.
/// let (weights, biases) = model.parameters().into_iter().partition(|parameter| parameter.shape().rank() > 1);
/// let biases = ParamGroup { lr_scale: 0.1, weight_decay: Some(0.0), ..ParamGroup::new(biases) };
/// let adam = AdamW::with_groups(vec![ParamGroup::new(weights), biases], AdamWConfig::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ParamGroup {
    /// The parameters; may be none.
    pub parameters: Vec<Param>,
    /// The group's learning rate as a multiple of the optimiser's, so that [`set_lr`](super::Optimizer::set_lr) and schedules act on every group; 1
    /// by default. For a group with the rate `r` beside a configuration with the rate `lr`, this is `r / lr`.
    pub lr_scale: f64,
    /// The group's weight decay; by default that of the optimiser's configuration.
    pub weight_decay: Option<f64>,
}

impl ParamGroup {
    /// A group that steps by the optimiser's settings.
    pub fn new(parameters: Vec<Param>) -> ParamGroup {
        ParamGroup { parameters, lr_scale: 1.0, weight_decay: None }
    }
}
