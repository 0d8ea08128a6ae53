//! Groups of parameters with separate settings.

use crate::module::Param;

/// Parameters with separate settings, like PyTorch's parameter groups. An optimizer's state dict
/// does not contain these settings, nor the optimizer's configuration.
///
/// ```
/// use ternion_nn::optim::{AdamW, AdamWConfig, ParamGroup};
/// # use ternion_nn::{Linear, Module};
/// # fn main() -> ternion_core::Result<()> {
/// # let device = ternion_cpu::device();
/// let model = Linear::new(3, 2, &device)?;
/// // Biases have no weight decay, and a tenth of the learning rate.
/// let (weights, biases) = model.parameters().into_iter().partition(|parameter| parameter.shape().rank() > 1);
/// let biases = ParamGroup { lr_scale: 0.1, weight_decay: Some(0.0), ..ParamGroup::new(biases) };
/// let adam = AdamW::with_groups(vec![ParamGroup::new(weights), biases], AdamWConfig::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ParamGroup {
    /// The parameters; may be empty.
    pub parameters: Vec<Param>,
    /// The group's learning rate as a multiple of the optimizer's, so that
    /// [`set_lr`](super::Optimizer::set_lr) and schedules act on every group; 1 by default. To give
    /// a group the learning rate `r` in an optimizer with the learning rate `lr`, set it to `r /
    /// lr`.
    pub lr_scale: f64,
    /// The group's weight decay; by default that of the optimizer's configuration.
    pub weight_decay: Option<f64>,
}

impl ParamGroup {
    /// Creates a group with the settings of the optimizer.
    pub fn new(parameters: Vec<Param>) -> ParamGroup {
        ParamGroup { parameters, lr_scale: 1.0, weight_decay: None }
    }
}
