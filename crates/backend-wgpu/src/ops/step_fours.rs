//! Optimiser steps of large parameters that lie dense, several in a launch: one alone hardly fills a device, and the next one waits for its end.

use super::GROUP;
use super::elementwise::MANY;
use super::step::{HYPER, Rule, tensors_of};
use crate::gpu::Launch;
use crate::linker::Class;
use crate::pipelines::Variant;
use crate::select::Call;
use crate::slots::{Access, Store};
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use ternion_core::Result;
use ternion_core::backend::View;

/// Parameters of a launch, at most. On an H100 the steps of 124 parameters of a million elements take 1.97 ms one by one, 1.84 by two, 1.48 by four, 1.71 by eight.
const MOST: usize = 4;

/// The parameters, as in step_fours.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    nesterov: u32,
    decoupled: u32,
    decay: f32,
    hyper_first: u32,
    hyper_step: u32,
    eps: f32,
    spare: u32,
    factors: [f32; 4],
    ends: [u32; MOST],
    fours: [u32; MOST],
    offsets: [[u32; 4]; MOST],
}

/// Slots of each parameter: it, its gradient, its states.
const SLOTS: [[&str; 4]; MOST] = [
    ["y_0", "g_0", "state_0_0", "state_1_0"],
    ["y_1", "g_1", "state_0_1", "state_1_1"],
    ["y_2", "g_2", "state_0_2", "state_1_2"],
    ["y_3", "g_3", "state_0_3", "state_1_3"],
];

/// The tensors of a parameter, without hyper.
type Tensors<'v, 'a> = SmallVec<[&'v View<'a>; 4]>;

/// Parameters that are stepped by one launch; all have one hyper.
pub(crate) struct Together<'v, 'a> {
    pub(crate) parameters: SmallVec<[Tensors<'v, 'a>; MOST]>,
    hyper: &'v View<'a>,
}

impl<'v, 'a> Together<'v, 'a> {
    /// The first of these inputs that may be stepped together; none where the first one may not.
    pub(crate) fn first_of(call: &Call<'a>, rule: &Rule, inputs: &'v [View<'a>]) -> Result<Together<'v, 'a>> {
        let mut together = Together { parameters: SmallVec::new(), hyper: &inputs[HYPER] };
        // Beside them, hyper is bound.
        let most = MOST.min((call.gpu.most_bindings() - 1) / (2 + rule.states));
        for group in inputs.chunks(3 + rule.states).take(most) {
            let tensors = tensors_of(group);
            if !together.takes(&tensors, &group[HYPER]) || !lies_in_fours(call, &tensors)? {
                break;
            }
            together.parameters.push(tensors);
        }
        Ok(together)
    }

    /// Elements of all parameters.
    pub(crate) fn elements(&self) -> usize {
        self.parameters.iter().map(|tensors| tensors[0].layout.elements()).sum()
    }

    /// Whether a parameter has the same numbers and nothing in common with the others: the order of their steps must not matter.
    fn takes(&self, tensors: &Tensors<'_, '_>, hyper: &View<'_>) -> bool {
        let is_taken =
            |view: &&View<'_>| self.parameters.iter().flatten().any(|taken| taken.buffer.is(view.buffer));
        hyper.buffer.is(self.hyper.buffer)
            && hyper.layout == self.hyper.layout
            && !tensors.iter().any(is_taken)
    }
}

/// Whether there are many elements, and all tensors have theirs in whole fours that one binding holds.
fn lies_in_fours(call: &Call<'_>, tensors: &[&View<'_>]) -> Result<bool> {
    let count = tensors[0].layout.elements();
    if !(MANY..1 << 31).contains(&count) || !count.is_multiple_of(4) {
        return Ok(false);
    }
    for view in tensors {
        let fits = call.gpu.fits(call.name, view)?;
        if !view.layout.is_contiguous() || !fits || call.gpu.bind(call.name, view)?.1 % 4 != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Queues their steps.
pub(crate) fn step_together(call: &Call<'_>, rule: &Rule, together: &Together<'_, '_>) -> Result<()> {
    let (gpu, op, hyper) = (call.gpu, call.name, together.hyper);
    let mut variant = Variant::new("step_fours.wgsl", Class::Float)
        .text("RULE", rule.rule)
        .number("TENSORS", together.parameters.len() as u32)
        .number("STATES", rule.states as u32);
    let mut bindings = SmallVec::new();
    let (numbers, hyper_first) = gpu.bind(op, hyper)?;
    let mut parameters = Parameters {
        nesterov: u32::from(rule.nesterov),
        decoupled: u32::from(rule.decoupled),
        decay: rule.decay as f32,
        hyper_first,
        hyper_step: hyper.layout.strides()[0] as u32,
        eps: rule.eps as f32,
        factors: rule.factors.map(|factor| factor as f32),
        ..Parameters::zeroed()
    };
    let mut groups = 0;
    for (at, tensors) in together.parameters.iter().enumerate() {
        for (slot, view) in tensors.iter().enumerate() {
            let (binding, first) = gpu.bind(op, view)?;
            bindings.push(binding);
            parameters.offsets[at][slot] = first / 4;
            let access = if slot == 1 { Access::Fours } else { Access::FoursWritten };
            variant = variant.slot(SLOTS[at][slot], Store::of(view.dtype), access);
        }
        let fours = tensors[0].layout.elements() / 4;
        groups += fours.div_ceil(GROUP);
        parameters.fours[at] = fours as u32;
        parameters.ends[at] = groups as u32;
    }
    bindings.push(numbers);
    let variant = variant.slot("numbers", Store::F32, Access::Read);
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}
