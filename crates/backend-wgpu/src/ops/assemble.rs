//! Tensors that are assembled from other tensors: padding, concatenation, slice assignment.

use super::copy::copy;
use super::elementwise::words;
use super::write::Writing;
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{ElementResult, PadValue, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::{SmallVec, smallvec};
use ternion_core::backend::View;
use ternion_core::geometry::joined_axes;
use ternion_core::geometry::padded_axes;
use ternion_core::{Error, MAX_RANK, Op, Result};

/// Maximum number of tensors of one launch of concat.wgsl.
const MAX_PARTS: usize = 7;

/// The parameters of pad.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Padding {
    launched: u32,
    count: u32,
    rank: u32,
    _padding: u32,
    offsets: [u32; 4],
    value: [u32; 4],
    before: [u32; MAX_RANK],
    inner: [u32; MAX_RANK],
    space: Space,
}

pub(crate) fn run_pad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Pad(pad) = op else { return Err(Error::invalid(call.name, "is not pad")) };
    let (gpu, x, y) = (call.gpu, &call.inputs[0], &call.outputs[0]);
    let count = y.layout.elements();
    if count == 0 {
        return Ok(());
    }
    let [(y_binding, y_offset), (x_binding, x_offset)] = [gpu.bind(call.name, y)?, gpu.bind(call.name, x)?];
    let axes = padded_axes(&pad.amounts, x.layout, y.layout);
    let [low, high] = words(pad.value.bits(x.dtype));
    let mut parameters = Padding {
        launched: 0,
        count: count as u32,
        rank: axes.len() as u32,
        _padding: 0,
        offsets: [y_offset, x_offset, 0, 0],
        value: [low, high, 0, 0],
        before: [0; MAX_RANK],
        inner: [1; MAX_RANK],
        space: Space::EMPTY,
    };
    for (index, axis) in axes.iter().enumerate() {
        parameters.before[index] = axis.before as u32;
        parameters.inner[index] = axis.inner as u32;
        parameters.space.sizes[index] = axis.padded as u32;
        parameters.space.strides[0][index] = axis.y_stride as u32;
        parameters.space.strides[1][index] = axis.x_stride as u32;
    }
    let store = StorageFormat::bits_of(y.dtype);
    let writing = Writing::of(y, store);
    let value = if y.dtype.size() == 8 { PadValue::Wide } else { PadValue::Narrow };
    let variant = Variant::new(Shader::Pad, Class::Byte).fill(ElementResult::Pad).fill(value);
    let variant = writing.slot(variant).slot(SlotName::X, store, Access::Read);
    let launch = Launch { variant, bindings: smallvec![y_binding, x_binding], groups: writing.groups() };
    gpu.launch(call.name, launch, bytemuck::bytes_of(&parameters))
}

/// The parameters of concat.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Concatenation {
    launched: u32,
    count: u32,
    rank: u32,
    axis: u32,
    offsets: [u32; 4],
    ends: [u32; MAX_RANK],
    part_offsets: [u32; MAX_RANK],
    sizes: [u32; MAX_RANK],
    strides: [u32; MAX_RANK],
    part_strides: [[u32; MAX_RANK]; MAX_PARTS],
}

pub(crate) fn run_concat(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Concat(concat) = op else { return Err(Error::invalid(call.name, "is not concat")) };
    let y = &call.outputs[0];
    let parts: SmallVec<[View<'_>; 8]> =
        call.inputs.iter().copied().filter(|part| part.layout.elements() > 0).collect();
    let mut start = 0;
    for chunk in parts.chunks(MAX_PARTS) {
        let end = start + chunk.iter().map(|part| part.layout.shape().dim(concat.axis)).sum::<usize>();
        let part_layout = y.layout.slice(concat.axis, start, end as isize, 1)?;
        concatenate(call, concat.axis, &View { layout: &part_layout, ..*y }, chunk)?;
        start = end;
    }
    Ok(())
}

/// Concatenates at most seven parts, which together fill `y`, in one launch.
fn concatenate(call: &Call<'_>, axis: usize, y: &View<'_>, parts: &[View<'_>]) -> Result<()> {
    let (gpu, op, store) = (call.gpu, call.name, StorageFormat::bits_of(y.dtype));
    let axes = joined_axes(axis, y.layout, parts.iter().map(|part| part.layout));
    let (y_binding, y_offset) = gpu.bind(op, y)?;
    let mut parameters = Concatenation {
        launched: 0,
        count: y.layout.elements() as u32,
        rank: axes.len() as u32,
        axis: axes.iter().position(|joined_axis| joined_axis.joins).unwrap_or(0) as u32,
        offsets: [y_offset, 0, 0, 0],
        ends: [u32::MAX; MAX_RANK],
        part_offsets: [0; MAX_RANK],
        sizes: [1; MAX_RANK],
        strides: [0; MAX_RANK],
        part_strides: [[0; MAX_RANK]; MAX_PARTS],
    };
    for (index, joined_axis) in axes.iter().enumerate() {
        parameters.sizes[index] = joined_axis.size as u32;
        parameters.strides[index] = joined_axis.strides[0] as u32;
        for (part, stride) in joined_axis.strides[1..].iter().enumerate() {
            parameters.part_strides[part][index] = *stride as u32;
        }
    }
    let writing = Writing::of(y, store);
    let mut variant = writing.slot(Variant::new(Shader::Concat, Class::Byte).fill(ElementResult::Concat));
    let mut bindings = smallvec![y_binding];
    let inner = axes.iter().find(|joined_axis| joined_axis.joins).map_or(1, |joined_axis| joined_axis.inner);
    let mut end = 0;
    const NAMES: [SlotName; MAX_PARTS] = [
        SlotName::Part0,
        SlotName::Part1,
        SlotName::Part2,
        SlotName::Part3,
        SlotName::Part4,
        SlotName::Part5,
        SlotName::Part6,
    ];
    for (index, name) in NAMES.into_iter().enumerate() {
        let part = parts.get(index).unwrap_or(&parts[0]);
        let (part_binding, offset) = gpu.bind(op, part)?;
        variant = variant.slot(name, store, Access::Read);
        bindings.push(part_binding);
        if index < parts.len() {
            end += part.layout.shape().dim(axis) * inner;
            parameters.ends[index] = end as u32;
            parameters.part_offsets[index] = offset;
        }
    }
    gpu.launch(op, Launch { variant, bindings, groups: writing.groups() }, bytemuck::bytes_of(&parameters))
}

pub(crate) fn run_slice_assign(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::SliceAssign(assign) = op else { return Err(Error::invalid(call.name, "is not slice_assign")) };
    let (base, source, y) = (&call.inputs[0], &call.inputs[1], &call.outputs[0]);
    if !y.is(base) {
        copy(call.gpu, call.name, base, y)?;
    }
    copy(call.gpu, call.name, source, &View { layout: &assign.layout(y.layout)?, ..*y })
}
