//! Scatter along an axis, by setting or adding. For `Set`, the first shader determines the last
//! source element of each element of y. For `Add`, the source elements are sorted by their
//! destination.

use super::GROUP;
use super::copy::copy;
use super::create::fill;
use super::gather::position;
use super::radix::{Pairs, alloc_words};
use crate::call::Call;
use crate::gpu::{Binding, Launch};
use crate::names::{RecordIndexError, ScatterStage, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::ops::index::ScatterMode;
use ternion_core::{DType, Error, Layout, Op, Result, Shape};

/// The parameters of scatter.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    index_check: u32,
    offsets: [u32; 4],
    size: u32,
    step: u32,
    low: u32,
    invalid_key: u32,
    columns: u32,
    y_row: u32,
    source_row: u32,
    _padding: u32,
    space: Space,
}

/// A slot of a stage and its binding.
type Bound<'a> = (SlotName, StorageFormat, Access, Binding<'a>);

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let (base, y) = (&call.inputs[0], &call.outputs[0]);
    if !y.is(base) {
        copy(call.gpu, call.name, base, y)?;
    }
    if call.inputs[2].layout.elements() == 0 {
        return Ok(());
    }
    match op {
        Op::Scatter(payload) => scatter(call, payload.axis, payload.mode),
        Op::IndexAdd(payload) => index_add(call, payload.axis),
        _ => Err(Error::invalid(call.name, "is not scatter")),
    }
}

/// Queues a stage of scatter_index.wgsl.
fn stage(
    call: &Call<'_>,
    stage: ScatterStage,
    slots: &[Bound<'_>],
    threads: usize,
    parameters: &Parameters,
) -> Result<()> {
    if u32::try_from(threads).is_err() {
        let detail = format!("{threads} elements; one launch can process up to 2^32 - 1");
        return Err(Error::invalid(call.name, detail));
    }
    let adds = matches!(stage, ScatterStage::AddRuns | ScatterStage::AddRows);
    let class = if adds { StorageFormat::of(call.outputs[0].dtype).class() } else { Class::Byte };
    // An out-of-range index is recorded only by the first stage that reads it.
    let record = match stage {
        ScatterStage::PutWinners => RecordIndexError::Nothing,
        _ => RecordIndexError::Record,
    };
    let mut variant =
        Variant::new(Shader::Scatter, class).fill(stage).fill(record).fill(position(call.inputs[1].dtype));
    let mut bindings = SmallVec::new();
    for (name, store, access, binding) in slots {
        variant = variant.slot(*name, *store, *access);
        bindings.push(*binding);
    }
    call.gpu.launch(
        call.name,
        Launch { variant, bindings, groups: threads.div_ceil(GROUP) },
        bytemuck::bytes_of(parameters),
    )
}

fn scatter(call: &Call<'_>, axis: usize, mode: ScatterMode) -> Result<()> {
    let (gpu, op, y, index, source) =
        (call.gpu, call.name, &call.outputs[0], &call.inputs[1], &call.inputs[2]);
    let shape = index.layout.shape();
    let axes: Vec<(usize, Vec<i64>)> = (0..shape.rank())
        .map(|other| {
            let of_y = if other == axis { 0 } else { y.layout.strides()[other] };
            let strides = [index.layout.strides()[other], of_y, source.layout.strides()[other]];
            (shape.dim(other), strides.map(|stride| stride as i64).to_vec())
        })
        .collect();
    let (space, rank) = Space::from_axes(&axes);
    let [(y_binding, y_offset), (index_binding, index_offset), (source_binding, source_offset)] =
        [gpu.bind(op, y)?, gpu.bind(op, index)?, gpu.bind(op, source)?];
    // `None` if y has no elements; then every index is out of range.
    let (low, high) = y.layout.bounds().unwrap_or((0, 0));
    let (span, size) = (high + 1 - low, y.layout.shape().dim(axis));
    let parameters = Parameters {
        launched: 0,
        count: shape.elements() as u32,
        rank,
        index_check: gpu.index_check_id(op, size),
        offsets: [index_offset, y_offset, source_offset, 0],
        size: size as u32,
        step: y.layout.strides()[axis] as u32,
        low: (y_offset as usize + low).wrapping_sub(y.layout.offset()) as u32,
        invalid_key: span as u32,
        columns: 1,
        y_row: 0,
        source_row: 0,
        _padding: 0,
        space,
    };
    let index = (SlotName::Index, StorageFormat::of(index.dtype), Access::Read, index_binding);
    match mode {
        ScatterMode::Set => set(call, &parameters, index, source_binding, y_binding),
        ScatterMode::Add => {
            let pairs = sorted(call, &parameters, index)?;
            add(call, ScatterStage::AddRuns, &parameters, &pairs, [y_binding, source_binding])
        }
    }
}

/// Queues a shader that determines the last source element of each element of y, and one that
/// stores it.
fn set<'a>(
    call: &'a Call<'a>,
    parameters: &Parameters,
    index: Bound<'a>,
    source_binding: Binding<'a>,
    y_binding: Binding<'a>,
) -> Result<()> {
    let (gpu, op, dtype) = (call.gpu, call.name, call.outputs[0].dtype);
    let (count, span) = (parameters.count as usize, parameters.invalid_key as usize);
    let winners = alloc_words(gpu, op, span)?;
    let layout = Layout::row_major(Shape::new(&[span])?);
    fill(gpu, op, &View { buffer: &winners, dtype: DType::I32, layout: &layout }, 0)?;
    let marked = (SlotName::Winners, StorageFormat::Atomic, Access::Scattered, gpu.workspace(op, &winners)?);
    let index_errors =
        (SlotName::IndexErrors, StorageFormat::Atomic, Access::Scattered, gpu.index_error_record());
    stage(call, ScatterStage::MarkWinners, &[index, marked, index_errors], count, parameters)?;
    let bits = StorageFormat::bits_of(dtype);
    let slots = [
        (SlotName::Y, bits, Access::Scattered, y_binding),
        index,
        (SlotName::Source, bits, Access::Read, source_binding),
        (SlotName::Winners, StorageFormat::RawWord, Access::Read, gpu.workspace(op, &winners)?),
    ];
    stage(call, ScatterStage::PutWinners, &slots, count, parameters)
}

/// Queues the sort of the source elements by destination, and returns the sorted pairs.
fn sorted(call: &Call<'_>, parameters: &Parameters, index: Bound<'_>) -> Result<Pairs> {
    let (gpu, op) = (call.gpu, call.name);
    let mut pairs = Pairs::new(gpu, op, 1, parameters.count as usize)?;
    let slots = [
        (SlotName::Keys, StorageFormat::RawWord, Access::Scattered, gpu.workspace(op, &pairs.keys)?),
        (SlotName::Numbers, StorageFormat::RawWord, Access::Scattered, gpu.workspace(op, &pairs.numbers)?),
        index,
        (SlotName::IndexErrors, StorageFormat::Atomic, Access::Scattered, gpu.index_error_record()),
    ];
    stage(call, ScatterStage::MakeKeys, &slots, pairs.length, parameters)?;
    pairs.sort(gpu, op, u32::BITS - parameters.invalid_key.leading_zeros())?;
    Ok(pairs)
}

/// Queues the shader that adds runs of source elements with the same destination.
fn add(
    call: &Call<'_>,
    step: ScatterStage,
    parameters: &Parameters,
    pairs: &Pairs,
    [y_binding, source_binding]: [Binding<'_>; 2],
) -> Result<()> {
    let (gpu, op, store) = (call.gpu, call.name, StorageFormat::of(call.outputs[0].dtype));
    let slots = [
        (SlotName::Y, store, Access::Scattered, y_binding),
        (SlotName::Source, store, Access::Read, source_binding),
        (SlotName::Keys, StorageFormat::RawWord, Access::Read, gpu.workspace(op, &pairs.keys)?),
        (SlotName::Numbers, StorageFormat::RawWord, Access::Read, gpu.workspace(op, &pairs.numbers)?),
    ];
    stage(call, step, &slots, pairs.length * parameters.columns as usize, parameters)
}

fn index_add(call: &Call<'_>, axis: usize) -> Result<()> {
    let (gpu, op, y, index, source) =
        (call.gpu, call.name, &call.outputs[0], &call.inputs[1], &call.inputs[2]);
    let [(y_binding, y_offset), (index_binding, index_offset), (source_binding, source_offset)] =
        [gpu.bind(op, y)?, gpu.bind(op, index)?, gpu.bind(op, source)?];
    let (size, count) = (y.layout.shape().dim(axis), index.layout.elements());
    let (vector, _) = Space::from_axes(&[(count, vec![index.layout.strides()[0] as i64, 0, 0])]);
    let keys = Parameters {
        launched: 0,
        count: count as u32,
        rank: 1,
        index_check: gpu.index_check_id(op, size),
        offsets: [index_offset, 0, 0, 0],
        size: size as u32,
        step: 1,
        low: 0,
        invalid_key: size as u32,
        columns: 1,
        y_row: 0,
        source_row: 0,
        _padding: 0,
        space: vector,
    };
    let pairs =
        sorted(call, &keys, (SlotName::Index, StorageFormat::of(index.dtype), Access::Read, index_binding))?;
    let shape = y.layout.shape();
    let axes: Vec<(usize, Vec<i64>)> = (0..shape.rank())
        .filter(|&other| other != axis)
        .map(|other| {
            (shape.dim(other), vec![y.layout.strides()[other] as i64, source.layout.strides()[other] as i64])
        })
        .collect();
    let (space, rank) = Space::from_axes(&axes);
    let parameters = Parameters {
        rank,
        offsets: [y_offset, source_offset, 0, 0],
        columns: axes.iter().map(|(size, _)| *size as u32).product(),
        y_row: y.layout.strides()[axis] as u32,
        source_row: source.layout.strides()[axis] as u32,
        space,
        ..keys
    };
    add(call, ScatterStage::AddRows, &parameters, &pairs, [y_binding, source_binding])
}
