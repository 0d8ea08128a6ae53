//! Optimizer steps of many tensors in one launch.

use super::copy::copy;
use crate::call::{Call, Selected};
use crate::launch::Launch;
use crate::variant::step::{Capacity, StepVariant, UpdateRule};
use ternion_core::backend::{Buffer, Meta, Unsupported, View};
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::{Error, Op, Result};

const THREADS: usize = 256;
/// Elements of a block.
const CHUNK: usize = THREADS * 4;
/// The first CUDA version that supports the parameters of many tensors, as 1000 * major + 10 *
/// minor.
const LONG_PARAMETERS: i32 = 12_010;

/// A parameter with its tensors; mirrors `Target` in the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct Target {
    parameter: u64,
    gradient: u64,
    /// The hyperparameters that may change from step to step, on the device.
    hyper: u64,
    /// The velocity, or the first and the second moment.
    states: [u64; 2],
    /// The parameter in half precision, or 0.
    half_copy: u64,
    /// Elements of the parameter.
    count: u64,
}

/// The parameters; mirrors `Steps` in the kernels.
#[repr(C)]
struct Parameters<const TENSORS: usize> {
    tensors: u32,
    nesterov: u32,
    /// 1 for decoupled weight decay (AdamW).
    decoupled: u32,
    /// The first block of each tensor.
    first_block: [u32; TENSORS],
    hyper_stride: i64,
    weight_decay: f64,
    momentum: f64,
    one_minus_dampening: f64,
    beta1: f64,
    beta2: f64,
    one_minus_beta1: f64,
    one_minus_beta2: f64,
    eps: f64,
    of: [Target; TENSORS],
}

/// Returns the number of states of a parameter in this op.
fn states(op: &Op) -> usize {
    match op {
        Op::SgdStep(step) => step.states(),
        _ => AdamStep::STATES,
    }
}

/// Returns whether each parameter has a half-precision copy, after its states.
fn has_half_copy(op: &Op) -> bool {
    match op {
        Op::SgdStep(step) => step.half_copy,
        Op::AdamStep(step) => step.half_copy,
        _ => false,
    }
}

/// Returns the number of inputs per parameter: the parameter, its gradient, hyper, its states and
/// its half-precision copy.
fn inputs_per_parameter(op: &Op) -> usize {
    3 + states(op) + usize::from(has_half_copy(op))
}

/// Supports all floats, if each parameter, its states and its half-precision copy are contiguous.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    let dense = inputs.chunks(inputs_per_parameter(op)).all(|group| {
        group[0].layout.is_contiguous() && group[3..].iter().all(|changed| changed.layout.is_contiguous())
    });
    match dense {
        true => Ok(Selected::row_major(run)),
        false => Err(Unsupported::because("a parameter and its states that are not dense in one order")),
    }
}

/// Returns the kernel's rule and the parameters that do not change from step to step.
fn rule<const TENSORS: usize>(op: &Op) -> Result<(UpdateRule, Parameters<TENSORS>)> {
    let target = Target { parameter: 0, gradient: 0, hyper: 0, states: [0; 2], half_copy: 0, count: 0 };
    let empty = Parameters {
        tensors: 0,
        nesterov: 0,
        decoupled: 0,
        first_block: [0; TENSORS],
        hyper_stride: 1,
        weight_decay: 0.0,
        momentum: 0.0,
        one_minus_dampening: 0.0,
        beta1: 0.0,
        beta2: 0.0,
        one_minus_beta1: 0.0,
        one_minus_beta2: 0.0,
        eps: 0.0,
        of: [target; TENSORS],
    };
    match op {
        Op::SgdStep(SgdStep { momentum, dampening, weight_decay, nesterov, half_copy: _ }) => Ok((
            if *momentum == 0.0 { UpdateRule::Sgd } else { UpdateRule::SgdMomentum },
            Parameters {
                nesterov: u32::from(*nesterov),
                weight_decay: *weight_decay,
                momentum: *momentum,
                one_minus_dampening: 1.0 - dampening,
                ..empty
            },
        )),
        Op::AdamStep(AdamStep { beta1, beta2, eps, weight_decay, decay_mode, half_copy: _ }) => Ok((
            UpdateRule::Adam,
            Parameters {
                decoupled: u32::from(*decay_mode == DecayMode::Decoupled),
                weight_decay: *weight_decay,
                beta1: *beta1,
                beta2: *beta2,
                one_minus_beta1: 1.0 - beta1,
                one_minus_beta2: 1.0 - beta2,
                eps: *eps,
                ..empty
            },
        )),
        other => Err(Error::invalid(other.name(), "is not an optimizer's step")),
    }
}

fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let many = call.inputs.len() > Capacity::FEW * inputs_per_parameter(op);
    match many && call.gpu.context.properties.driver >= LONG_PARAMETERS {
        true => run_by::<{ Capacity::MANY }>(op, call, Capacity::Many),
        false => run_by::<{ Capacity::FEW }>(op, call, Capacity::Few),
    }
}

/// Runs the steps with at most `TENSORS` tensors per launch.
fn run_by<const TENSORS: usize>(op: &Op, call: &Call<'_>, capacity: Capacity) -> Result<()> {
    let inputs_per_parameter = inputs_per_parameter(op);
    let (rule, mut parameters) = rule::<TENSORS>(op)?;
    let half_copy = has_half_copy(op).then(|| call.inputs[inputs_per_parameter - 1].dtype);
    let variant = StepVariant { rule, capacity, dtype: call.inputs[0].dtype, half_copy };
    // Parameters whose hyperparameters have the same stride share a launch. This holds for all
    // parameters of an optimizer.
    let groups: Vec<&[View<'_>]> = call.inputs.chunks(inputs_per_parameter).collect();
    let stride = |group: &&[View<'_>]| group[2].layout.strides()[0];
    for launch_groups in groups
        .chunk_by(|left, right| stride(left) == stride(right))
        .flat_map(|same_stride| same_stride.chunks(TENSORS))
    {
        // Gradients in another memory order than their parameter are copied; the copies live until
        // the kernel has been queued.
        let mut copies: Vec<Buffer> = Vec::new();
        let mut blocks = 0;
        for (index, group) in launch_groups.iter().enumerate() {
            let count = group[0].layout.elements();
            parameters.first_block[index] = blocks;
            blocks = u32::try_from(blocks as usize + count.div_ceil(CHUNK))
                .map_err(|_| Error::invalid(call.name, "more elements than one launch can process"))?;
            parameters.of[index] = target(call, group, states(op), &mut copies)?;
        }
        parameters.tensors = launch_groups.len() as u32;
        parameters.hyper_stride = stride(&launch_groups[0]) as i64;
        call.gpu.launch(call.name, Launch::new(variant, 0, blocks, THREADS as u32), &parameters)?;
    }
    Ok(())
}

fn target(
    call: &Call<'_>,
    group: &[View<'_>],
    state_count: usize,
    copies: &mut Vec<Buffer>,
) -> Result<Target> {
    let address = |view: &View<'_>| call.gpu.address(call.name, view);
    let (parameter, gradient) = (&group[0], &group[1]);
    let mut gradient_address = address(gradient)?;
    if !gradient.layout.is_contiguous() {
        let layout = parameter.layout.dense_like();
        let bytes = layout.elements() * gradient.dtype.size();
        let buffer = Buffer::new(call.gpu.alloc(bytes)?);
        let dense = View { buffer: &buffer, dtype: gradient.dtype, layout: &layout };
        copy(call.gpu, call.name, gradient, &dense)?;
        gradient_address = address(&dense)?;
        copies.push(buffer);
    }
    let mut states = [0; 2];
    let (state_views, half_copy) = group[3..].split_at(state_count);
    for (state, view) in states.iter_mut().zip(state_views) {
        *state = address(view)?;
    }
    Ok(Target {
        parameter: address(parameter)?,
        gradient: gradient_address,
        hyper: address(&group[2])?,
        states,
        half_copy: half_copy.first().map_or(Ok(0), address)?,
        count: parameter.layout.elements() as u64,
    })
}
