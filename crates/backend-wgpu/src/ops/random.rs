//! Random numbers.

use super::GROUP;
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{Constant, RandomNumber, SlotName, Switch, Write};
use crate::pipelines::Variant;
use crate::shaders::Shader;
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::{Error, Op, Result};

/// The parameters of random.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    shift: u32,
    offsets: [u32; 4],
    first_block: [u32; 2],
    state_step: u32,
    threshold: u32,
    scale: f32,
    _padding: u32,
    _padding_1: [u32; 2],
    space: Space,
}

/// How an op converts the words of a block to numbers.
struct Numbers {
    /// A function of philox.wgsl.
    number: RandomNumber,
    /// Elements per block of four words.
    elements: u32,
    /// Blocks of the stream to skip.
    offset: u64,
    /// Bits by which words are shifted, for random bits.
    shift: u32,
    /// An element is dropped if the upper 24 bits of its word are below this; others are multiplied
    /// by `scale`.
    threshold: u32,
    scale: f32,
}

/// Queues the launch. `x` is the input of dropout; for other ops, y.
fn launch(call: &Call<'_>, x: &View<'_>, state: &View<'_>, numbers: &Numbers) -> Result<()> {
    let (gpu, op, y) = (call.gpu, call.name, &call.outputs[0]);
    let count = y.layout.elements();
    if count == 0 {
        return Ok(());
    }
    let [(y_binding, y_offset), (state_binding, state_offset), (x_binding, x_offset)] =
        [gpu.bind(op, y)?, gpu.bind(op, state)?, gpu.bind(op, x)?];
    let (space, rank) = Space::of(&[y.layout, y.layout, x.layout]);
    let dense = y.layout.is_contiguous() && x.layout.is_contiguous();
    let store = StorageFormat::of(y.dtype);
    let pairs = dense && store.per_word() == 2 && y_offset % 2 == 0;
    let (write, access) =
        if pairs { (Write::RandomPairs, Access::Words) } else { (Write::RandomElements, Access::Scattered) };
    let mut variant = Variant::new(Shader::Random, store.class())
        .fill(numbers.number)
        .fill(write)
        .fill(Constant::Elements.is(numbers.elements))
        .fill(Switch::Dense.is(dense))
        .slot(SlotName::Y, store, access)
        .slot(SlotName::State, StorageFormat::I64, Access::Read);
    let mut bindings = smallvec![y_binding, state_binding];
    if numbers.number == RandomNumber::Dropout {
        variant = variant.slot(SlotName::X, store, Access::Read);
        bindings.push(x_binding);
    }
    let parameters = Parameters {
        launched: 0,
        count: count as u32,
        rank,
        shift: numbers.shift,
        offsets: [y_offset, state_offset, x_offset, 0],
        first_block: super::elementwise::words(numbers.offset),
        state_step: state.layout.strides()[0] as u32,
        threshold: numbers.threshold,
        scale: numbers.scale,
        _padding: 0,
        _padding_1: [0; 2],
        space,
    };
    let groups = count.div_ceil(numbers.elements as usize).div_ceil(GROUP);
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let plain =
        Numbers { number: RandomNumber::Bits, elements: 4, offset: 0, shift: 0, threshold: 0, scale: 1.0 };
    let numbers = match op {
        Op::RandomBits(payload) => {
            Numbers { offset: payload.offset, shift: 32 - u32::from(payload.bits), ..plain }
        }
        Op::Uniform(payload) => Numbers { number: RandomNumber::Uniform, offset: payload.offset, ..plain },
        Op::Normal(payload) => {
            Numbers { number: RandomNumber::Normal, elements: 2, offset: payload.offset, ..plain }
        }
        _ => return Err(Error::invalid(call.name, "makes no random numbers")),
    };
    launch(call, &call.outputs[0], &call.inputs[0], &numbers)
}

pub(crate) fn run_dropout(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Dropout(dropout) = op else { return Err(Error::invalid(call.name, "is not dropout")) };
    let numbers = Numbers {
        number: RandomNumber::Dropout,
        elements: 4,
        offset: dropout.offset,
        shift: 0,
        threshold: dropout.threshold(),
        scale: dropout.scale() as f32,
    };
    launch(call, &call.inputs[0], &call.inputs[1], &numbers)
}
