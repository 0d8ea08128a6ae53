//! The norm of many tensors: one launch for the squares of up to seven of them, and one for the
//! root of the total.

use super::copy::copy;
use crate::binding::Binding;
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{Constant, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use bytemuck::{Pod, Zeroable};
use smallvec::{SmallVec, smallvec};
use ternion_core::backend::{Buffer, View};
use ternion_core::{DType, Layout, Op, Result};

/// Maximum number of tensors of a launch, and their names in the shader.
const MAX_TENSORS: usize = 7;
const SLOTS: [SlotName; MAX_TENSORS] = [
    SlotName::Part0,
    SlotName::Part1,
    SlotName::Part2,
    SlotName::Part3,
    SlotName::Part4,
    SlotName::Part5,
    SlotName::Part6,
];
/// Elements per workgroup, as in multi_tensor.wgsl.
const CHUNK: usize = 16384;
/// Bytes of a partial sum.
const PART_BYTES: usize = 16;

/// The parameters of multi_tensor.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Squares {
    launched: u32,
    first_part: u32,
    _padding: [u32; 2],
    ends: [u32; 8],
    counts: [u32; 8],
    offsets: [u32; 8],
}

/// The parameters of multi_tensor_root.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Root {
    launched: u32,
    count: u32,
    offset: u32,
    _padding: u32,
}

/// A tensor as the shader reads it.
struct Source<'a> {
    binding: Binding<'a>,
    first: u32,
    count: usize,
}

impl Source<'_> {
    fn groups(&self) -> usize {
        self.count.div_ceil(CHUNK)
    }
}

pub(crate) fn run(_: &Op, call: &Call<'_>) -> Result<()> {
    let (gpu, op, y) = (call.gpu, call.name, &call.outputs[0]);
    let dtype = call.inputs[0].dtype;
    let copies = copies(call)?;
    let mut sources = Vec::with_capacity(call.inputs.len());
    let dense = call.inputs.iter().filter(|x| x.layout.elements() > 0 && x.layout.fills_its_range()).copied();
    let copied = copies.iter().map(|(buffer, layout)| View { buffer, dtype, layout });
    for x in dense.chain(copied) {
        let (binding, first) = gpu.bind(op, &x)?;
        sources.push(Source { binding, first, count: x.layout.elements() });
    }
    let count = sources.iter().map(Source::groups).sum::<usize>();
    let parts = gpu.alloc(count * PART_BYTES)?;
    let parts = gpu.workspace(op, &parts)?;
    let mut first_part = 0;
    for group in launch_groups(call, &sources) {
        first_part += squares(call, dtype, group, parts, first_part)?;
    }
    let (y_binding, offset) = gpu.bind(op, y)?;
    let variant = Variant::new(Shader::MultiTensorRoot, Class::Float)
        .slot(SlotName::Y, StorageFormat::of(y.dtype), Access::Scattered)
        .slot(SlotName::Parts, StorageFormat::F32, Access::ReadVec4);
    let root = Root { launched: 0, count: count as u32, offset, _padding: 0 };
    gpu.launch(
        op,
        Launch { variant, bindings: smallvec![y_binding, parts], groups: 1 },
        bytemuck::bytes_of(&root),
    )
}

/// Returns dense copies of the inputs that are not dense, and their layouts.
fn copies(call: &Call<'_>) -> Result<Vec<(Buffer, Layout)>> {
    let scattered = call.inputs.iter().filter(|x| x.layout.elements() > 0 && !x.layout.fills_its_range());
    let copied = |x: &View<'_>| {
        let layout = x.layout.dense_like();
        let buffer = call.gpu.alloc(layout.elements() * x.dtype.size())?;
        copy(call.gpu, call.name, x, &View { buffer: &buffer, layout: &layout, ..*x })?;
        Ok((buffer, layout))
    };
    scattered.map(copied).collect()
}

/// Groups the tensors by launch. A launch has as many tensors as there are bindings; a tensor that
/// needs several bindings has a separate launch.
fn launch_groups<'s, 'a>(call: &Call<'_>, sources: &'s [Source<'a>]) -> Vec<&'s [Source<'a>]> {
    // The partial sums are bound, too.
    let max_tensors = MAX_TENSORS.min(call.gpu.max_bindings() - 1);
    let fits = |source: &Source<'_>| call.gpu.is_one_binding(&source.binding);
    let runs = sources.chunk_by(|left, right| fits(left) && fits(right));
    runs.flat_map(|run| run.chunks(max_tensors)).collect()
}

/// Queues the shader that computes the partial sums of squares of these tensors. Returns the number
/// of partial sums.
fn squares(
    call: &Call<'_>,
    dtype: DType,
    sources: &[Source<'_>],
    parts: Binding<'_>,
    first_part: usize,
) -> Result<usize> {
    let mut variant =
        Variant::new(Shader::MultiTensor, Class::Float).fill(Constant::Tensors.is(sources.len() as u32));
    let mut parameters = Squares { first_part: first_part as u32, ..Squares::zeroed() };
    let mut bindings = SmallVec::new();
    let mut groups = 0;
    for (index, source) in sources.iter().enumerate() {
        variant = variant.slot(SLOTS[index], StorageFormat::of(dtype), Access::ReadVec4);
        bindings.push(source.binding);
        groups += source.groups();
        parameters.ends[index] = groups as u32;
        parameters.counts[index] = source.count as u32;
        parameters.offsets[index] = source.first;
    }
    bindings.push(parts);
    let variant = variant.slot(SlotName::Parts, StorageFormat::F32, Access::WriteVec4);
    call.gpu.launch(call.name, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))?;
    Ok(groups)
}
