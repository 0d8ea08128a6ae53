//! Optimizer steps of large contiguous parameters, several in a launch. The step of a single
//! parameter hardly fills a device, and the next launch waits until it ends.

use super::GROUP;
use super::elementwise::MIN_VEC4_ELEMENTS;
use super::step::{HYPER, Rule, tensors_of};
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{Constant, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use ternion_core::Result;
use ternion_core::backend::View;

/// Maximum number of parameters of a launch. On an H100 the steps of 124 parameters of a million
/// elements take 1.97 ms one by one, 1.84 ms by two, 1.48 ms by four, 1.71 ms by eight.
const MAX_FUSED: usize = 4;

/// The parameters of step_vec4.wgsl.
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
    _padding: u32,
    factors: [f32; 4],
    ends: [u32; MAX_FUSED],
    vec4s: [u32; MAX_FUSED],
    offsets: [[u32; 4]; MAX_FUSED],
}

/// The slots of each fused parameter: the parameter, its gradient, its states.
const SLOTS: [[SlotName; 4]; MAX_FUSED] = [
    [SlotName::StepY0, SlotName::StepG0, SlotName::StepState00, SlotName::StepState10],
    [SlotName::StepY1, SlotName::StepG1, SlotName::StepState01, SlotName::StepState11],
    [SlotName::StepY2, SlotName::StepG2, SlotName::StepState02, SlotName::StepState12],
    [SlotName::StepY3, SlotName::StepG3, SlotName::StepState03, SlotName::StepState13],
];

/// The tensors of a parameter, without hyper.
type Tensors<'v, 'a> = SmallVec<[&'v View<'a>; 4]>;

/// Parameters whose steps are computed by one launch, with the same hyperparameters.
pub(crate) struct FusedSteps<'v, 'a> {
    pub(crate) parameters: SmallVec<[Tensors<'v, 'a>; MAX_FUSED]>,
    hyper: &'v View<'a>,
}

impl<'v, 'a> FusedSteps<'v, 'a> {
    /// Returns the leading parameters of these inputs that one launch can update, or none if the
    /// first parameter does not qualify.
    pub(crate) fn first_of(
        call: &Call<'a>,
        rule: &Rule,
        inputs: &'v [View<'a>],
    ) -> Result<FusedSteps<'v, 'a>> {
        let mut fused = FusedSteps { parameters: SmallVec::new(), hyper: &inputs[HYPER] };
        // `hyper` is bound, too.
        let max_fused = MAX_FUSED.min((call.gpu.max_bindings() - 1) / (2 + rule.states));
        for group in inputs.chunks(3 + rule.states).take(max_fused) {
            let tensors = tensors_of(group);
            if !fused.can_fuse(&tensors, &group[HYPER]) || !is_vec4_aligned(call, &tensors)? {
                break;
            }
            fused.parameters.push(tensors);
        }
        Ok(fused)
    }

    /// Returns the number of elements of all parameters.
    pub(crate) fn elements(&self) -> usize {
        self.parameters.iter().map(|tensors| tensors[0].layout.elements()).sum()
    }

    /// Returns whether a parameter has the same hyperparameters as the others, and shares no memory
    /// with them, so that the order of the steps does not matter.
    fn can_fuse(&self, tensors: &Tensors<'_, '_>, hyper: &View<'_>) -> bool {
        let is_used =
            |view: &&View<'_>| self.parameters.iter().flatten().any(|used| used.buffer.is(view.buffer));
        hyper.buffer.is(self.hyper.buffer)
            && hyper.layout == self.hyper.layout
            && !tensors.iter().any(is_used)
    }
}

/// Returns whether there are enough elements, and all tensors consist of whole vec4 that fit in one
/// binding.
fn is_vec4_aligned(call: &Call<'_>, tensors: &[&View<'_>]) -> Result<bool> {
    let count = tensors[0].layout.elements();
    if !(MIN_VEC4_ELEMENTS..1 << 31).contains(&count) || !count.is_multiple_of(4) {
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

/// Queues the steps of these parameters.
pub(crate) fn step_fused(call: &Call<'_>, rule: &Rule, fused: &FusedSteps<'_, '_>) -> Result<()> {
    let (gpu, op, hyper) = (call.gpu, call.name, fused.hyper);
    let mut variant = Variant::new(Shader::StepVec4, Class::Float)
        .fill(rule.rule)
        .fill(Constant::Tensors.is(fused.parameters.len() as u32))
        .fill(Constant::States.is(rule.states as u32));
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
    for (index, tensors) in fused.parameters.iter().enumerate() {
        for (slot, view) in tensors.iter().enumerate() {
            let (binding, first) = gpu.bind(op, view)?;
            bindings.push(binding);
            parameters.offsets[index][slot] = first / 4;
            let access = if slot == 1 { Access::ReadVec4 } else { Access::WriteVec4 };
            variant = variant.slot(SLOTS[index][slot], StorageFormat::of(view.dtype), access);
        }
        let vec4s = tensors[0].layout.elements() / 4;
        groups += vec4s.div_ceil(GROUP);
        parameters.vec4s[index] = vec4s as u32;
        parameters.ends[index] = groups as u32;
    }
    bindings.push(numbers);
    let variant = variant.slot(SlotName::Numbers, StorageFormat::F32, Access::Read);
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}
