//! Sorting along an axis: short lines within a workgroup, long lines by radix sort.

use super::GROUP;
use super::radix::{self, Pairs};
use crate::call::Call;
use crate::gpu::{Binding, Launch};
use crate::names::{KeyAbove, KeyPart, RadixStage, SlotName, SortKey, SortOrder};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::{SmallVec, smallvec};
use ternion_core::{DType, Error, Op, Result};

/// The number of elements that a workgroup of sort.wgsl sorts, and so the maximum length of a short
/// line.
const LINE: usize = 1024;

/// The parameters of sort.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    length: u32,
    lines: u32,
    padded_length: u32,
    descending: u32,
    rank: u32,
    _padding: [u32; 2],
    offsets: [u32; 4],
    steps: [u32; 4],
    space: Space,
}

/// The bindings of values, positions and x, and their layouts as lines along the sorted axis.
struct Lines<'a> {
    bindings: [Binding<'a>; 3],
    offsets: [u32; 4],
    steps: [u32; 4],
    space: Space,
    rank: u32,
    count: usize,
    length: usize,
}

/// Returns the function of sort_key.wgsl that computes a key from an element's bits.
fn order(dtype: DType) -> SortOrder {
    match dtype {
        DType::F32 => SortOrder::F32,
        DType::F16 => SortOrder::F16,
        DType::BF16 => SortOrder::BF16,
        DType::I32 => SortOrder::I32,
        DType::I64 | DType::F64 => SortOrder::I64,
        DType::I16 => SortOrder::I16,
        DType::I8 => SortOrder::I8,
        DType::U64 => SortOrder::U64,
        DType::U32 | DType::U16 | DType::U8 | DType::Bool => SortOrder::U8,
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Sort(sort) = op else { return Err(Error::invalid(call.name, "is not sort")) };
    if call.inputs[0].layout.elements() == 0 {
        return Ok(());
    }
    let lines = lines(call, sort.axis)?;
    if lines.length <= LINE {
        short(call, &lines, sort.descending)
    } else {
        long(call, &lines, sort.descending)
    }
}

fn lines<'a>(call: &Call<'a>, axis: usize) -> Result<Lines<'a>> {
    let views = [&call.outputs[0], &call.outputs[1], &call.inputs[0]];
    let shape = call.inputs[0].layout.shape();
    let axes: Vec<(usize, Vec<i64>)> = (0..shape.rank())
        .filter(|&other| other != axis)
        .map(|other| (shape.dim(other), views.map(|view| view.layout.strides()[other] as i64).to_vec()))
        .collect();
    let (space, rank) = Space::from_axes(&axes);
    let [values, positions, x] = views.map(|view| call.gpu.bind(call.name, view));
    let [values, positions, x] = [values?, positions?, x?];
    let [values_step, positions_step, x_step] = views.map(|view| view.layout.strides()[axis] as u32);
    Ok(Lines {
        bindings: [values.0, positions.0, x.0],
        offsets: [values.1, positions.1, x.1, 0],
        steps: [values_step, positions_step, x_step, 0],
        space,
        rank,
        count: axes.iter().map(|(size, _)| size).product(),
        length: shape.dim(axis),
    })
}

/// Adds the slots of values, positions and x.
fn with_slots(variant: Variant, dtype: DType) -> Variant {
    let bits = StorageFormat::bits_of(dtype);
    variant
        .slot(SlotName::Values, bits, Access::Scattered)
        .slot(SlotName::Positions, StorageFormat::RawWord, Access::Scattered)
        .slot(SlotName::X, bits, Access::Read)
}

/// Queues sort.wgsl, which sorts lines within a workgroup.
fn short(call: &Call<'_>, lines: &Lines<'_>, descending: bool) -> Result<()> {
    let dtype = call.inputs[0].dtype;
    let (key, above) = match dtype.size() {
        8 => (SortKey::DoubleWord, KeyAbove::DoubleWord),
        _ => (SortKey::Word, KeyAbove::Word),
    };
    let variant = Variant::new(Shader::Sort, Class::Byte).fill(order(dtype)).fill(key).fill(above);
    let padded_length = lines.length.next_power_of_two();
    let parameters = Parameters {
        launched: 0,
        length: lines.length as u32,
        lines: lines.count as u32,
        padded_length: padded_length as u32,
        descending: u32::from(descending),
        rank: lines.rank,
        _padding: [0; 2],
        offsets: lines.offsets,
        steps: lines.steps,
        space: lines.space,
    };
    let launch = Launch {
        variant: with_slots(variant, dtype),
        bindings: lines.bindings.into_iter().collect(),
        groups: lines.count.div_ceil(LINE / padded_length),
    };
    call.gpu.launch(call.name, launch, bytemuck::bytes_of(&parameters))
}

/// Queues the radix sort of lines that are too long for a workgroup.
fn long(call: &Call<'_>, lines: &Lines<'_>, descending: bool) -> Result<()> {
    let (gpu, op, dtype) = (call.gpu, call.name, call.inputs[0].dtype);
    let mut pairs = Pairs::new(gpu, op, lines.count, lines.length)?;
    let groups = (lines.count * lines.length).div_ceil(GROUP);
    let bits = (dtype.size() as u32 * 8).min(32);
    let parameters = radix::Parameters {
        mask: u32::MAX >> (32 - bits),
        descending: u32::from(descending),
        rank: lines.rank,
        offsets: lines.offsets,
        steps: lines.steps,
        space: lines.space,
        ..pairs.parameters()
    };
    // Keys of two words are sorted by the lower word first.
    let parts: &[KeyPart] =
        if dtype.size() == 8 { &[KeyPart::Lower, KeyPart::Upper] } else { &[KeyPart::Whole] };
    for (pass, &part) in parts.iter().enumerate() {
        let (stage, numbers) = match pass {
            0 => (RadixStage::MakeKeys, Access::Scattered),
            _ => (RadixStage::RecomputeKeys, Access::Read),
        };
        let variant = Variant::new(Shader::Radix, Class::Byte)
            .fill(stage)
            .fill(part)
            .fill(order(dtype))
            .slot(SlotName::Keys, StorageFormat::RawWord, Access::Scattered)
            .slot(SlotName::Numbers, StorageFormat::RawWord, numbers)
            .slot(SlotName::X, StorageFormat::bits_of(dtype), Access::Read);
        let bindings =
            smallvec![gpu.workspace(op, &pairs.keys)?, gpu.workspace(op, &pairs.numbers)?, lines.bindings[2]];
        gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))?;
        pairs.sort(gpu, op, bits)?;
    }
    let variant = with_slots(Variant::new(Shader::Radix, Class::Byte).fill(RadixStage::GatherSorted), dtype);
    let mut bindings: SmallVec<[Binding<'_>; 6]> = lines.bindings.into_iter().collect();
    bindings.push(gpu.workspace(op, &pairs.numbers)?);
    let variant = variant.slot(SlotName::Numbers, StorageFormat::RawWord, Access::Read);
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}
