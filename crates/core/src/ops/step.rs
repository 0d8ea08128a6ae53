//! Fused optimizer steps: one pass over parameter, gradient and state.
//!
//! The values that change from step to step are in a tensor `hyper`, so that a captured step can be
//! replayed with new values. This tensor and all arithmetic are in the accumulator dtype of the
//! parameter (f64 for f64, else f32). One op updates any number of parameters of one dtype, each
//! with its gradient, its `hyper` and its states.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Role, Rule, check};
use crate::{DType, Tensor};

/// SGD (Sutskever et al. 2013, as in PyTorch): `g = grad * clip + weight_decay * p` (coupled); with
/// momentum: `v = momentum * v + (1 - dampening) * g` (on the first step `v = g`),
/// `g = g + momentum * v` if nesterov, else `g = v`; `p -= lr * g`.
///
/// Inputs, for each parameter: parameter, gradient (same shape and floating dtype), hyper `[3]`
/// (accumulator dtype) = (lr, clip factor, 1 on the first step else 0), then velocity (parameter's
/// shape, accumulator dtype) if `momentum != 0`, then the half-precision copy if `half_copy`, as in
/// [`AdamStep`]. Outputs, for each parameter, all in place: parameter, velocity if any,
/// half-precision copy if any.
#[derive(Clone, Debug)]
pub struct SgdStep {
    /// Factor of the previous velocity.
    pub momentum: f64,
    /// Fraction of the gradient that is not added to the velocity.
    pub dampening: f64,
    /// Factor of the parameter that is added to its gradient.
    pub weight_decay: f64,
    /// Whether to use Nesterov momentum.
    pub nesterov: bool,
    /// Whether each parameter has a half-precision copy, which the step writes too.
    pub half_copy: bool,
}

/// How weight decay is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecayMode {
    /// Added to the gradient (Adam, L2 penalty).
    Coupled,
    /// Subtracted from the parameter directly (AdamW).
    Decoupled,
}

/// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2), as
/// in PyTorch:
/// `g = grad * clip (+ weight_decay * p if coupled)`; decoupled: `p *= 1 - lr * weight_decay`;
/// `m = beta1 m + (1 - beta1) g`; `v = beta2 v + (1 - beta2) g^2`;
/// `p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)`.
///
/// Inputs, for each parameter: parameter, gradient (same shape and floating dtype), hyper `[4]`
/// (accumulator dtype) = (lr, clip factor, 1 - beta1^t, sqrt(1 - beta2^t)), m and v (parameter's
/// shape, accumulator dtype), then the half-precision copy if `half_copy` (parameter's shape; f16
/// or bf16, the same for all parameters, which are f32). Outputs, for each parameter, all in place:
/// parameter, m, v, half-precision copy if any. The previous values of the half-precision copy are
/// ignored. The step overwrites them with the new parameter, rounded as by a cast.
#[derive(Clone, Debug)]
pub struct AdamStep {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Coefficient of weight decay.
    pub weight_decay: f64,
    /// How weight decay is applied.
    pub decay_mode: DecayMode,
    /// Whether each parameter has a half-precision copy, which the step writes too, so that the
    /// next forward pass in mixed precision needs no casts.
    pub half_copy: bool,
}

/// The number of required inputs of a parameter: the parameter, its gradient, hyper.
const REQUIRED_INPUTS: usize = 3;

/// The layout of the inputs of one parameter.
#[derive(Clone, Copy)]
struct Group {
    op: &'static str,
    /// Number of elements of hyper.
    hyper: usize,
    states: usize,
    half_copy: bool,
}

impl Group {
    /// Returns the number of inputs per parameter.
    fn width(self) -> usize {
        REQUIRED_INPUTS + self.states + usize::from(self.half_copy)
    }

    fn infer_outputs(self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let (op, width) = (self.op, self.width());
        if inputs.is_empty() || !inputs.len().is_multiple_of(width) {
            let got = inputs.len();
            return Err(Error::invalid(op, format!("expected {width} inputs for each parameter, got {got}")));
        }
        let mut outputs = Outputs::new();
        for (group, metas) in inputs.chunks(width).enumerate() {
            check::same_dtype(op, &inputs[0], &metas[0])?;
            self.push_outputs(metas, group * width, &mut outputs)?;
            if self.half_copy {
                check::same_dtype(op, &inputs[width - 1], &metas[width - 1])?;
            }
        }
        Ok(outputs)
    }

    /// Appends the outputs of one parameter, whose inputs begin at index `first`.
    fn push_outputs(self, inputs: &[Meta<'_>], first: usize, outputs: &mut Outputs) -> Result<()> {
        let (op, parameter) = (self.op, &inputs[0]);
        check::float(op, "parameter", parameter)?;
        check::same_dtype(op, parameter, &inputs[1])?;
        check::shape(op, "gradient", &inputs[1], *parameter.shape())?;
        let dtype = parameter.dtype.accumulator();
        check::dtype(op, "hyper", &inputs[2], dtype)?;
        check::shape(op, "hyper", &inputs[2], crate::Shape::unchecked(&[self.hyper]))?;
        let aliases = |index: usize, dtype| Output {
            shape: *parameter.shape(),
            dtype,
            role: Role::Aliases(first + index),
        };
        outputs.push(aliases(0, parameter.dtype));
        for index in REQUIRED_INPUTS..REQUIRED_INPUTS + self.states {
            check::dtype(op, "state", &inputs[index], dtype)?;
            check::shape(op, "state", &inputs[index], *parameter.shape())?;
            outputs.push(aliases(index, dtype));
        }
        if self.half_copy {
            let (at, half) = (self.width() - 1, &inputs[self.width() - 1]);
            check::dtype(op, "parameter with a half copy", parameter, DType::F32)?;
            check::half(op, "half copy", half)?;
            check::shape(op, "half copy", half, *parameter.shape())?;
            outputs.push(aliases(at, half.dtype));
        }
        Ok(())
    }

    /// Returns the inputs that are changed in place: every parameter, its states and its
    /// half-precision copy.
    fn changed_inputs(self, inputs: &[Tensor]) -> Vec<Tensor> {
        let is_changed = |index: &usize| !matches!(index % self.width(), 1 | 2);
        (0..inputs.len()).filter(is_changed).map(|index| inputs[index].clone()).collect()
    }
}

impl SgdStep {
    /// Returns the number of states per parameter.
    pub fn states(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    /// Returns the number of inputs per parameter: parameter, gradient, hyper, state and
    /// half-precision copy if any.
    pub fn width(&self) -> usize {
        self.group().width()
    }

    fn group(&self) -> Group {
        Group { op: "sgd_step", hyper: 3, states: self.states(), half_copy: self.half_copy }
    }

    /// Updates one parameter, by composition.
    fn compose_one(&self, inputs: &[Tensor]) -> Result<()> {
        let dtype = inputs[0].dtype().accumulator();
        let hyper = |index| inputs[2].select(0, index);
        let p = inputs[0].to_dtype(dtype)?;
        let mut g = inputs[1].to_dtype(dtype)?.mul(&hyper(1)?)?;
        if self.weight_decay != 0.0 {
            g = p.scale_add(self.weight_decay, &g)?;
        }
        let (states, half_copy) = inputs[REQUIRED_INPUTS..].split_at(self.states());
        if let Some(velocity) = states.first() {
            let decayed = velocity.mul_scalar(self.momentum)?;
            let blended = g.scale_add(1.0 - self.dampening, &decayed)?;
            velocity.copy_(&hyper(2)?.ne_scalar(0.0)?.where_(&g, &blended)?)?;
            g = if self.nesterov { velocity.scale_add(self.momentum, &g)? } else { velocity.clone() };
        }
        inputs[0].copy_(&p.sub(&g.mul(&hyper(0)?)?)?)?;
        half_copy.first().map_or(Ok(()), |half| half.copy_(&inputs[0]))
    }
}

impl AdamStep {
    /// The number of states per parameter: its first and second moment.
    pub const STATES: usize = 2;

    /// Returns the number of inputs per parameter: parameter, gradient, hyper, states and
    /// half-precision copy if any.
    pub fn width(&self) -> usize {
        self.group().width()
    }

    fn group(&self) -> Group {
        Group { op: "adam_step", hyper: 4, states: AdamStep::STATES, half_copy: self.half_copy }
    }

    /// Updates one parameter, by composition.
    fn compose_one(&self, inputs: &[Tensor]) -> Result<()> {
        let dtype = inputs[0].dtype().accumulator();
        let hyper = |index| inputs[2].select(0, index);
        let (m, v) = (&inputs[3], &inputs[4]);
        let mut p = inputs[0].to_dtype(dtype)?;
        let mut g = inputs[1].to_dtype(dtype)?.mul(&hyper(1)?)?;
        if self.weight_decay != 0.0 {
            match self.decay_mode {
                DecayMode::Coupled => g = p.scale_add(self.weight_decay, &g)?,
                DecayMode::Decoupled => {
                    p = p.mul(&hyper(0)?.mul_scalar(-self.weight_decay)?.add_scalar(1.0)?)?;
                }
            }
        }
        m.copy_(&g.scale_add(1.0 - self.beta1, &m.mul_scalar(self.beta1)?)?)?;
        v.copy_(&g.square()?.scale_add(1.0 - self.beta2, &v.mul_scalar(self.beta2)?)?)?;
        let denominator = v.sqrt()?.div(&hyper(3)?)?.add_scalar(self.eps)?;
        let rate = hyper(0)?.div(&hyper(2)?)?;
        inputs[0].copy_(&p.sub(&m.div(&denominator)?.mul(&rate)?)?)?;
        inputs.get(REQUIRED_INPUTS + AdamStep::STATES).map_or(Ok(()), |half| half.copy_(&inputs[0]))
    }
}

impl Rule for SgdStep {
    fn name(&self) -> &'static str {
        "sgd_step"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(Error::invalid("sgd_step", "nesterov needs a momentum above 0 and no dampening"));
        }
        self.group().infer_outputs(inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        inputs.chunks(self.width()).try_for_each(|one| self.compose_one(one))?;
        Ok(self.group().changed_inputs(inputs))
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

impl Rule for AdamStep {
    fn name(&self) -> &'static str {
        "adam_step"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        self.group().infer_outputs(inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        inputs.chunks(self.width()).try_for_each(|one| self.compose_one(one))?;
        Ok(self.group().changed_inputs(inputs))
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}
