//! Steps of optimisers without a fused op: made of tensor methods, and so at home on every backend.

use ternion_core::{Result, Tensor};

/// One parameter in a composed step, all of it in the accumulator dtype.
pub(super) struct Parts<'t> {
    pub parameter: Tensor,
    /// Clipped.
    pub gradient: Tensor,
    /// `[]`, on the device: it changes between replays of a recorded step.
    pub lr: Tensor,
    /// What [`StepRule::numbers`](super::steps::StepRule::numbers) gave, on the device.
    pub numbers: &'t Tensor,
    pub states: &'t [&'t Tensor],
}

/// Changes the parameters of `inputs`, which have `states` states each, to what `update` says. It changes the states by itself.
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
    /// `gradient + weight_decay * parameter`: coupled weight decay.
    pub fn gradient_with_decay(&self, weight_decay: f64) -> Result<Tensor> {
        match weight_decay == 0.0 {
            true => Ok(self.gradient.clone()),
            false => self.parameter.scale_add(weight_decay, &self.gradient),
        }
    }

    /// `(1 - lr * weight_decay) * parameter`: decoupled weight decay.
    pub fn decayed_parameter(&self, weight_decay: f64) -> Result<Tensor> {
        match weight_decay == 0.0 {
            true => Ok(self.parameter.clone()),
            false => self.parameter.mul(&self.lr.mul_scalar(-weight_decay)?.add_scalar(1.0)?),
        }
    }
}

/// `state = share * state + (1 - share) * value`, in place.
pub(super) fn blend_(state: &Tensor, share: f64, value: &Tensor) -> Result<()> {
    state.copy_(&blend(state, share, value)?)
}

/// `share * state + (1 - share) * value`.
pub(super) fn blend(state: &Tensor, share: f64, value: &Tensor) -> Result<Tensor> {
    value.scale_add(1.0 - share, &state.mul_scalar(share)?)
}
