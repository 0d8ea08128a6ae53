//! Steps of optimizers without a fused op. They are composed of tensor methods and therefore run on
//! every backend.

use ternion_core::{Result, Tensor};

/// A parameter in a composed step, with its gradient, the scalars of the step and its states. All
/// tensors have the accumulator dtype.
pub(super) struct ParamTensors<'t> {
    pub parameter: Tensor,
    /// The clipped gradient.
    pub gradient: Tensor,
    /// `[]`, on the device, because it changes between replays of a recorded step.
    pub lr: Tensor,
    /// The values of [`StepRule::step_scalars`](super::steps::StepRule::step_scalars).
    pub step_scalars: &'t Tensor,
    pub states: &'t [&'t Tensor],
}

/// Sets each parameter in `inputs` to the result of `update`. Each parameter has `states` states,
/// which `update` changes itself.
pub(super) fn composed(
    inputs: &[&Tensor],
    states: usize,
    update: impl Fn(&ParamTensors<'_>) -> Result<Tensor>,
) -> Result<()> {
    inputs.chunks(3 + states).try_for_each(|one| {
        let [param, gradient, step_scalars] = [one[0], one[1], one[2]];
        let dtype = param.dtype().accumulator();
        let tensors = ParamTensors {
            parameter: param.to_dtype(dtype)?,
            gradient: gradient.to_dtype(dtype)?.mul(&step_scalars.select(0, 1)?)?,
            lr: step_scalars.select(0, 0)?,
            step_scalars,
            states: &one[3..],
        };
        param.copy_(&update(&tensors)?)
    })
}

impl ParamTensors<'_> {
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
