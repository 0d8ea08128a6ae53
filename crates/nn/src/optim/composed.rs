//! Steps of optimizers without a fused op. They are composed of tensor methods and therefore run on
//! every backend.

use ternion_core::{Result, Tensor};

/// One parameter in a composed step; all tensors have the accumulator dtype.
pub(super) struct Parts<'t> {
    pub parameter: Tensor,
    /// The clipped gradient.
    pub gradient: Tensor,
    /// `[]`, on the device, because it changes between replays of a recorded step.
    pub lr: Tensor,
    /// The values of [`StepRule::numbers`](super::steps::StepRule::numbers), on the device.
    pub numbers: &'t Tensor,
    pub states: &'t [&'t Tensor],
}

/// Sets each parameter in `inputs` to the result of `update`. Each parameter has `states` states,
/// which `update` changes itself.
pub(super) fn composed(
    inputs: &[&Tensor],
    states: usize,
    update: impl Fn(&Parts<'_>) -> Result<Tensor>,
) -> Result<()> {
    inputs.chunks(3 + states).try_for_each(|one| {
        let [target, gradient, numbers] = [one[0], one[1], one[2]];
        let dtype = target.dtype().accumulator();
        let parts = Parts {
            parameter: target.to_dtype(dtype)?,
            gradient: gradient.to_dtype(dtype)?.mul(&numbers.select(0, 1)?)?,
            lr: numbers.select(0, 0)?,
            numbers,
            states: &one[3..],
        };
        target.copy_(&update(&parts)?)
    })
}

impl Parts<'_> {
    /// Returns `gradient + weight_decay * parameter`: coupled weight decay.
    pub fn gradient_with_decay(&self, weight_decay: f64) -> Result<Tensor> {
        match weight_decay == 0.0 {
            true => Ok(self.gradient.clone()),
            false => self.parameter.scale_add(weight_decay, &self.gradient),
        }
    }

    /// Returns `(1 - lr * weight_decay) * parameter`: decoupled weight decay.
    pub fn decayed_parameter(&self, weight_decay: f64) -> Result<Tensor> {
        match weight_decay == 0.0 {
            true => Ok(self.parameter.clone()),
            false => self.parameter.mul(&self.lr.mul_scalar(-weight_decay)?.add_scalar(1.0)?),
        }
    }
}

/// Computes `state = decay * state + (1 - decay) * value`, in place.
pub(super) fn blend_(state: &Tensor, decay: f64, value: &Tensor) -> Result<()> {
    state.copy_(&blend(state, decay, value)?)
}

/// Returns `decay * state + (1 - decay) * value`.
pub(super) fn blend(state: &Tensor, decay: f64, value: &Tensor) -> Result<Tensor> {
    value.scale_add(1.0 - decay, &state.mul_scalar(decay)?)
}
