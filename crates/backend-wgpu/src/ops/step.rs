//! Optimiser steps, a launch for each parameter.

use super::GROUP;
use super::elementwise::MANY;
use super::write::Writing;
use crate::gpu::Launch;
use crate::linker::Class;
use crate::pipelines::Variant;
use crate::select::Call;
use crate::slots::{Access, Store};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::{Error, Layout, Op, Result};

/// The parameters, as in step.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    zero: u32,
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
    spare: u32,
    spares: [u32; 2],
    space: Space,
}

/// What does not change from parameter to parameter.
struct Rule {
    /// Of those in rules.wgsl.
    rule: &'static str,
    states: usize,
    nesterov: bool,
    decoupled: bool,
    decay: f64,
    factors: [f64; 4],
    eps: f64,
}

fn rule(op: &Op) -> Result<Rule> {
    match op {
        Op::SgdStep(step) => {
            let SgdStep { momentum, dampening, weight_decay, nesterov } = *step;
            Ok(Rule {
                rule: if step.states() == 0 { "sgd_rule" } else { "momentum_rule" },
                states: step.states(),
                nesterov,
                decoupled: false,
                decay: weight_decay,
                factors: [momentum, 1.0 - dampening, 0.0, 0.0],
                eps: 0.0,
            })
        }
        Op::AdamStep(AdamStep { beta1, beta2, eps, weight_decay, decay_mode }) => Ok(Rule {
            rule: "adam_rule",
            states: AdamStep::STATES,
            nesterov: false,
            decoupled: *decay_mode == DecayMode::Decoupled,
            decay: *weight_decay,
            factors: [*beta1, 1.0 - beta1, *beta2, 1.0 - beta2],
            eps: *eps,
        }),
        other => Err(Error::invalid(other.name(), "is not an optimiser's step")),
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let rule = rule(op)?;
    call.inputs.chunks(3 + rule.states).try_for_each(|group| step(call, &rule, group))
}

/// The step of one parameter: it, its gradient, hyper and its states.
fn step(call: &Call<'_>, rule: &Rule, group: &[View<'_>]) -> Result<()> {
    let (gpu, op, y, hyper) = (call.gpu, call.name, &group[0], &group[2]);
    if y.layout.elements() == 0 {
        return Ok(());
    }
    let tensors: SmallVec<[&View<'_>; 4]> = [y, &group[1]].into_iter().chain(&group[3..]).collect();
    let (numbers, hyper_first) = gpu.bind(op, hyper)?;
    let mut parameters = parameters(rule, &tensors);
    parameters.hyper_first = hyper_first;
    parameters.hyper_step = hyper.layout.strides()[0] as u32;
    let mut bindings = SmallVec::new();
    for (offset, view) in parameters.offsets.iter_mut().zip(&tensors) {
        let (binding, first) = gpu.bind(op, view)?;
        *offset = first;
        bindings.push(binding);
    }
    bindings.push(numbers);
    let (variant, groups) = match in_fours(&parameters, &tensors) {
        true => by_fours(rule, y),
        false => one_by_one(rule, &tensors),
    };
    let variant = variant.slot("numbers", Store::F32, Access::Read);
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}

/// Without the places of what is bound.
fn parameters(rule: &Rule, tensors: &[&View<'_>]) -> Parameters {
    let layouts: SmallVec<[&Layout; 4]> = tensors.iter().map(|view| view.layout).collect();
    let (space, rank) = Space::of(&layouts);
    Parameters {
        zero: 0,
        count: layouts[0].elements() as u32,
        rank,
        nesterov: u32::from(rule.nesterov),
        offsets: [0; 4],
        hyper_first: 0,
        hyper_step: 0,
        decoupled: u32::from(rule.decoupled),
        decay: rule.decay as f32,
        factors: rule.factors.map(|factor| factor as f32),
        eps: rule.eps as f32,
        spare: 0,
        spares: [0; 2],
        space,
    }
}

const STATES: [&str; 2] = ["first_state", "second_state"];

/// Whether all tensors lie dense in whole fours, and are large enough for a shader of their own.
fn in_fours(parameters: &Parameters, tensors: &[&View<'_>]) -> bool {
    let Parameters { count, offsets, .. } = parameters;
    (MANY..1 << 31).contains(&(*count as usize))
        && [*count].iter().chain(offsets).all(|number| number % 4 == 0)
        && tensors.iter().all(|view| view.layout.is_contiguous())
}

/// The shader that steps fours, and its work groups.
fn by_fours(rule: &Rule, y: &View<'_>) -> (Variant, usize) {
    let store = Store::of(y.dtype);
    let variant = Variant::new("step.wgsl", Class::Float)
        .text("RULE", rule.rule)
        .text("WRITE", ["stateless_four", "one_state_four", "two_states_four"][rule.states])
        .flag("DENSE", true)
        .slot("y", store, Access::FoursWritten)
        .slot("g", store, Access::Fours);
    let variant = STATES[..rule.states]
        .iter()
        .fold(variant, |variant, name| variant.slot(name, Store::F32, Access::FoursWritten));
    (variant, y.layout.elements().div_ceil(4 * GROUP))
}

/// The shader that steps words or elements of y, and its work groups.
fn one_by_one(rule: &Rule, tensors: &[&View<'_>]) -> (Variant, usize) {
    let store = Store::of(tensors[0].dtype);
    let writing = Writing::of(tensors[0], store);
    let variant = Variant::new("step.wgsl", Class::Float)
        .text("RULE", rule.rule)
        .text("RESULT", ["stateless_result", "one_state_result", "two_states_result"][rule.states])
        .flag("DENSE", tensors.iter().all(|view| view.layout.is_contiguous()));
    let variant = writing.slot(variant).slot("g", store, Access::Read);
    let variant = STATES[..rule.states]
        .iter()
        .fold(variant, |variant, name| variant.slot(name, Store::F32, Access::Scattered));
    (variant, writing.groups())
}
