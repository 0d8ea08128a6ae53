//! Gathering along an axis.

use super::write::Writing;
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{ElementResult, IndexPosition, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::{DType, Error, Layout, MAX_RANK, Op, Result};

/// The parameters of gather.wgsl.
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
    _padding: [u32; 2],
    space: Space,
}

/// Returns the function that computes a position from an element of an index tensor.
pub(crate) fn position(index: DType) -> IndexPosition {
    if index == DType::I64 { IndexPosition::I64 } else { IndexPosition::I32 }
}

pub(crate) fn run_gather(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Gather(payload) = op else { return Err(Error::invalid(call.name, "is not gather")) };
    gather(call, payload.axis, &call.inputs[1])
}

pub(crate) fn run_index_select(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::IndexSelect(payload) = op else { return Err(Error::invalid(call.name, "is not index_select")) };
    let expanded = expand_index(payload.axis, call.inputs[1].layout, call.outputs[0].layout)?;
    gather(call, payload.axis, &View { layout: &expanded, ..call.inputs[1] })
}

/// Expands the vector `index` to the shape of `target`: indices vary only along `axis`.
fn expand_index(axis: usize, index: &Layout, target: &Layout) -> Result<Layout> {
    let mut strides = [0; MAX_RANK];
    strides[axis] = index.strides()[0];
    Layout::new(*target.shape(), &strides[..target.shape().rank()], index.offset())
}

/// Queues gather.wgsl. `index` has the shape of the output.
fn gather(call: &Call<'_>, axis: usize, index: &View<'_>) -> Result<()> {
    let (gpu, op, x, y) = (call.gpu, call.name, &call.inputs[0], &call.outputs[0]);
    if y.layout.elements() == 0 {
        return Ok(());
    }
    let shape = y.layout.shape();
    let axes: Vec<(usize, Vec<i64>)> = (0..shape.rank())
        .map(|other| {
            let of_x = if other == axis { 0 } else { x.layout.strides()[other] };
            let strides = [y.layout.strides()[other], index.layout.strides()[other], of_x];
            (shape.dim(other), strides.map(|stride| stride as i64).to_vec())
        })
        .collect();
    let (space, rank) = Space::from_axes(&axes);
    let (store, writing) = (StorageFormat::bits_of(x.dtype), Writing::of(y, StorageFormat::bits_of(x.dtype)));
    let variant = writing
        .slot(
            Variant::new(Shader::Gather, Class::Byte).fill(ElementResult::Gather).fill(position(index.dtype)),
        )
        .slot(SlotName::Index, StorageFormat::of(index.dtype), Access::Read)
        .slot(SlotName::X, store, Access::Read)
        .slot(SlotName::IndexErrors, StorageFormat::Atomic, Access::Scattered);
    let [(y_binding, y_offset), (index_binding, index_offset), (x_binding, x_offset)] =
        [gpu.bind(op, y)?, gpu.bind(op, index)?, gpu.bind(op, x)?];
    let size = x.layout.shape().dim(axis);
    let parameters = Parameters {
        launched: 0,
        count: y.layout.elements() as u32,
        rank,
        index_check: gpu.index_check_id(op, size),
        offsets: [y_offset, index_offset, x_offset, 0],
        size: size as u32,
        step: x.layout.strides()[axis] as u32,
        _padding: [0; 2],
        space,
    };
    let launch = Launch {
        variant,
        bindings: smallvec![y_binding, index_binding, x_binding, gpu.index_error_record()],
        groups: writing.groups(),
    };
    gpu.launch(op, launch, bytemuck::bytes_of(&parameters))
}
