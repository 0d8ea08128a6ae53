//! Optimizer steps: one launch for each parameter, or for several large parameters.

use super::copy::copy;
use super::step_vec4::{FusedSteps, step_fused};
use super::write::Writing;
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{ElementResult, SlotName, StepRule, Switch};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::{Error, Layout, Op, Result};

/// The parameters of step.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    nesterov: u32,
    offsets: [u32; 4],
    hyper_first: u32,
    hyper_step: u32,
    decoupled: u32,
    decay: f32,
    factors: [f32; 4],
    eps: f32,
    _padding: u32,
    _padding_1: [u32; 2],
    space: Space,
}

/// The update rule and its options, which are the same for all parameters.
pub(crate) struct Rule {
    /// A rule of step_rule.wgsl.
    pub(crate) rule: StepRule,
    /// Number of states of a parameter.
    pub(crate) states: usize,
    /// Whether each parameter has a half-precision copy, after its states.
    pub(crate) half_copy: bool,
    pub(crate) nesterov: bool,
    /// Whether weight decay is applied to the parameter instead of the gradient, as in AdamW.
    pub(crate) decoupled: bool,
    /// The weight decay.
    pub(crate) decay: f64,
    /// Momentum and 1 - dampening, or beta1, 1 - beta1, beta2 and 1 - beta2.
    pub(crate) factors: [f64; 4],
    pub(crate) eps: f64,
}

impl Rule {
    /// Returns the number of inputs of a parameter: the parameter, its gradient, the
    /// hyperparameters (`hyper`), its states and its half-precision copy.
    pub(crate) fn width(&self) -> usize {
        3 + self.states + usize::from(self.half_copy)
    }
}

fn rule(op: &Op) -> Result<Rule> {
    match op {
        Op::SgdStep(step) => {
            let SgdStep { momentum, dampening, weight_decay, nesterov, half_copy } = *step;
            Ok(Rule {
                rule: if step.states() == 0 { StepRule::Sgd } else { StepRule::Momentum },
                states: step.states(),
                half_copy,
                nesterov,
                decoupled: false,
                decay: weight_decay,
                factors: [momentum, 1.0 - dampening, 0.0, 0.0],
                eps: 0.0,
            })
        }
        Op::AdamStep(AdamStep { beta1, beta2, eps, weight_decay, decay_mode, half_copy }) => Ok(Rule {
            rule: StepRule::Adam,
            states: AdamStep::STATES,
            half_copy: *half_copy,
            nesterov: false,
            decoupled: *decay_mode == DecayMode::Decoupled,
            decay: *weight_decay,
            factors: [*beta1, 1.0 - beta1, *beta2, 1.0 - beta2],
            eps: *eps,
        }),
        other => Err(Error::invalid(other.name(), "is not an optimizer's step")),
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let rule = rule(op)?;
    let width = rule.width();
    let mut remaining = call.inputs;
    let mut is_submitted = false;
    while !remaining.is_empty() {
        let fused = FusedSteps::first_of(call, &rule, remaining)?;
        match fused.parameters.len() {
            0 => step_one(call, &rule, &remaining[..width])?,
            _ => step_fused(call, &rule, &fused)?,
        }
        remaining = &remaining[width * fused.parameters.len().max(1)..];
        // Submitted once, because a submission costs the host as much as several launches.
        if !is_submitted && fused.elements() >= MIN_SUBMIT_ELEMENTS && !remaining.is_empty() {
            call.gpu.submit();
            is_submitted = true;
        }
    }
    Ok(())
}

/// Number of elements whose step takes the device about as long as the host needs for a submission.
const MIN_SUBMIT_ELEMENTS: usize = 1 << 22;

/// Computes the step of one parameter, then casts it to its half-precision copy if it has one.
fn step_one(call: &Call<'_>, rule: &Rule, group: &[View<'_>]) -> Result<()> {
    let (group, half_copy) = group.split_at(3 + rule.states);
    step(call, rule, group)?;
    half_copy.iter().try_for_each(|half| copy(call.gpu, call.name, &group[0], half))
}

/// Returns the parameter, gradient, states and half-precision copy from the inputs of a parameter:
/// all except hyper.
pub(crate) fn tensors_of<'v, 'a>(group: &'v [View<'a>]) -> SmallVec<[&'v View<'a>; 4]> {
    group.iter().enumerate().filter(|(index, _)| *index != HYPER).map(|(_, view)| view).collect()
}

/// The index of hyper among the inputs of a parameter.
pub(crate) const HYPER: usize = 2;

/// Queues the step of one parameter: the parameter, its gradient, hyper and its states.
fn step(call: &Call<'_>, rule: &Rule, group: &[View<'_>]) -> Result<()> {
    let (gpu, op, y, hyper) = (call.gpu, call.name, &group[0], &group[HYPER]);
    let count = y.layout.elements();
    if count == 0 {
        return Ok(());
    }
    let tensors = tensors_of(group);
    let layouts: SmallVec<[&Layout; 4]> = tensors.iter().map(|view| view.layout).collect();
    let (space, rank) = Space::of(&layouts);
    let (store, writing) = (StorageFormat::of(y.dtype), Writing::of(y, StorageFormat::of(y.dtype)));
    let result = [ElementResult::StatelessStep, ElementResult::OneStateStep, ElementResult::TwoStatesStep]
        [rule.states];
    let variant = Variant::new(Shader::Step, Class::Float)
        .fill(rule.rule)
        .fill(result)
        .fill(Switch::Dense.is(layouts.iter().all(|layout| layout.is_contiguous())));
    let mut variant = writing.slot(variant).slot(SlotName::G, store, Access::Read);
    for name in [SlotName::FirstState, SlotName::SecondState].into_iter().take(rule.states) {
        variant = variant.slot(name, StorageFormat::F32, Access::Scattered);
    }
    let (numbers, hyper_first) = gpu.bind(op, hyper)?;
    let mut parameters = Parameters {
        launched: 0,
        count: count as u32,
        rank,
        nesterov: u32::from(rule.nesterov),
        offsets: [0; 4],
        hyper_first,
        hyper_step: hyper.layout.strides()[0] as u32,
        decoupled: u32::from(rule.decoupled),
        decay: rule.decay as f32,
        factors: rule.factors.map(|factor| factor as f32),
        eps: rule.eps as f32,
        _padding: 0,
        _padding_1: [0; 2],
        space,
    };
    let mut bindings = SmallVec::new();
    for (offset, view) in parameters.offsets.iter_mut().zip(&tensors) {
        let (binding, first) = gpu.bind(op, view)?;
        *offset = first;
        bindings.push(binding);
    }
    bindings.push(numbers);
    let variant = variant.slot(SlotName::Numbers, StorageFormat::F32, Access::Read);
    gpu.launch(op, Launch { variant, bindings, groups: writing.groups() }, bytemuck::bytes_of(&parameters))
}
