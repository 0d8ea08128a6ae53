//! Elementwise ops: each element of the output depends only on the elements at the same index.

use super::GROUP;
use crate::call::Call;
use crate::gpu::{Gpu, Launch};
use crate::names::{Constant, ElementIndex, ElementResult, Function, SlotName, Write};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::View;
use ternion_core::ops::binary::{BinaryScalar, Side};
use ternion_core::ops::compare::CompareScalar;
use ternion_core::{DType, Error, Layout, Op, Result, Scalar, UnaryOp};

/// The parameters of elementwise.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    _padding: u32,
    offsets: [u32; 4],
    constants: [u32; 4],
    scalar: [u32; 4],
    space: Space,
}

/// A variant of elementwise.wgsl: how an element is computed, and how tensors are stored.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) class: Class,
    /// How y and the inputs are stored.
    pub(crate) stores: [StorageFormat; 4],
    /// The function of element_result.wgsl that computes the bits of an element.
    pub(crate) result: ElementResult,
    pub(crate) function: Function,
    /// Two constants of the function, and the scalar operand of a scalar op, as bits of numbers of
    /// the class.
    pub(crate) constants: [u64; 2],
    pub(crate) scalar: u64,
}

impl Kernel {
    fn new(dtype: DType, result: ElementResult, function: Function) -> Kernel {
        let store = StorageFormat::of(dtype);
        Kernel { class: store.class(), stores: [store; 4], result, function, constants: [0; 2], scalar: 0 }
    }

    /// Returns a kernel that copies the bits of elements of `dtype`.
    pub(crate) fn moving(dtype: DType, result: ElementResult) -> Kernel {
        Kernel {
            stores: [StorageFormat::bits_of(dtype); 4],
            class: Class::Byte,
            ..Kernel::new(DType::U8, result, Function::None)
        }
    }

    /// Returns the shader without its slots.
    fn variant(&self, write: Write) -> Variant {
        Variant::new(Shader::Elementwise, self.class).fill(self.result).fill(self.function).fill(write)
    }

    /// Adds the slots, y first, each with its access.
    fn slots(&self, variant: Variant, slots: impl Iterator<Item = (usize, Access)>) -> Variant {
        slots.fold(variant, |variant, (tensor, access)| {
            variant.slot(
                [SlotName::Y, SlotName::A, SlotName::B, SlotName::C][tensor],
                self.stores[tensor],
                access,
            )
        })
    }

    /// Returns the kernel with another format of y.
    pub(crate) fn storing(self, y: StorageFormat) -> Kernel {
        let [_, a, b, c] = self.stores;
        Kernel { stores: [y, a, b, c], ..self }
    }
}

/// Returns the bits of `scalar`, rounded to `dtype`, as a number of the class in which the dtype is
/// computed.
pub(crate) fn rounded_bits(scalar: Scalar, dtype: DType) -> u64 {
    let bits = scalar.bits(dtype);
    match dtype {
        DType::F16 => u64::from(half::f16::from_bits(bits as u16).to_f32().to_bits()),
        DType::BF16 => u64::from(half::bf16::from_bits(bits as u16).to_f32().to_bits()),
        DType::I16 => u64::from(i32::from(bits as i16) as u32),
        DType::I8 => u64::from(i32::from(bits as i8) as u32),
        _ => bits,
    }
}

/// Returns the low and the high word of `bits`.
pub(crate) fn words(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

/// Queues `shader` for y, the first of `views`, and its inputs, which have y's shape.
pub(crate) fn launch(gpu: &Gpu, op: &'static str, shader: Kernel, views: &[View<'_>]) -> Result<()> {
    if views[0].layout.elements() == 0 {
        return Ok(());
    }
    for view in views {
        if !gpu.fits(op, view)? {
            return split_in_two(gpu, op, shader, views);
        }
    }
    let layouts: Vec<&Layout> = views.iter().map(|view| view.layout).collect();
    let (space, rank) = Space::of(&layouts);
    let y = views[0];
    let count = y.layout.elements();
    let [constants_first, constants_second] = shader.constants.map(words);
    let scalar = words(shader.scalar);
    let mut parameters = Parameters {
        launched: 0,
        count: count as u32,
        rank,
        _padding: 0,
        offsets: [0; 4],
        constants: [constants_first[0], constants_first[1], constants_second[0], constants_second[1]],
        scalar: [scalar[0], scalar[1], 0, 0],
        space,
    };
    let mut bindings = smallvec::SmallVec::new();
    for (offset, view) in parameters.offsets.iter_mut().zip(views) {
        let (binding, first) = gpu.bind(op, view)?;
        bindings.push(binding);
        *offset = first;
    }
    let vec4 = Vec4::of(&shader, &parameters, views);
    let (variant, groups) = match vec4 {
        Some(vec4) => vec4.variant(&shader, views.len(), count),
        None => scalar_variant(&shader, &layouts),
    };
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}

/// Returns the shader in which each thread computes one word or element of y, and its number of
/// workgroups.
fn scalar_variant(shader: &Kernel, layouts: &[&Layout]) -> (Variant, usize) {
    let (count, per_word) = (layouts[0].elements(), shader.stores[0].per_word());
    let (write, access) = match (layouts[0].is_contiguous(), per_word) {
        (false, _) => (Write::Anywhere, Access::Scattered),
        (true, 1) => (Write::Single, Access::Words),
        (true, _) => (Write::Packed, Access::Words),
    };
    let dense = layouts[1..].iter().all(|layout| layout.is_contiguous());
    let variant =
        shader.variant(write).fill(if dense { ElementIndex::Contiguous } else { ElementIndex::Strided });
    let slots = (0..layouts.len()).map(|tensor| (tensor, if tensor == 0 { access } else { Access::Read }));
    // One more word, because the first element may be in the middle of a word.
    let words = count.div_ceil(per_word) + usize::from(per_word > 1);
    let threads = if access == Access::Words { words } else { count };
    (shader.slots(variant, slots), threads.div_ceil(GROUP))
}

/// Minimum number of elements for which a separate vec4 shader is worth its compilation time.
pub(crate) const MIN_VEC4_ELEMENTS: usize = 1 << 14;

/// How y is computed as vec4.
#[derive(Clone, Copy)]
struct Vec4 {
    /// Bit mask of the tensors that are accessed as vec4. Each of the other inputs has one element
    /// for each vec4 of y.
    vec4_mask: u32,
    /// Axes of the space; 0 for more than two.
    rank: u32,
}

impl Vec4 {
    /// Returns how to compute y, if y can be written as vec4, and every input can be read as vec4
    /// or has one element for each vec4 of y.
    fn of(shader: &Kernel, parameters: &Parameters, views: &[View<'_>]) -> Option<Vec4> {
        let Parameters { count, rank, offsets, space, .. } = parameters;
        let last = *rank as usize - 1;
        let has_64_bit = shader.stores[..views.len()]
            .iter()
            .any(|store| matches!(store, StorageFormat::I64 | StorageFormat::U64));
        let is_ragged = last > 0 && space.sizes[last] % 4 != 0;
        // Indices beyond the last element are computed, too.
        let is_countable = (MIN_VEC4_ELEMENTS..1 << 31).contains(&(*count as usize));
        if has_64_bit || is_ragged || !is_countable {
            return None;
        }
        let mut vec4_mask = 0;
        for tensor in 0..views.len() {
            let strides = &space.strides[tensor];
            let is_aligned = offsets[tensor] % 4 == 0 && strides[..last].iter().all(|stride| stride % 4 == 0);
            match strides[last] {
                1 if is_aligned => vec4_mask |= 1 << tensor,
                0 if tensor > 0 => {}
                _ => return None,
            }
            // A buffer that is written is declared with the access of y.
            if tensor > 0 && views[tensor].buffer.is(views[0].buffer) && vec4_mask >> tensor & 1 == 0 {
                return None;
            }
        }
        Some(Vec4 { vec4_mask, rank: if last < 2 { *rank } else { 0 } })
    }

    /// Returns the shader and its number of workgroups.
    fn variant(self, shader: &Kernel, tensors: usize, count: usize) -> (Variant, usize) {
        // Each thread computes two vec4 of y if elements share words, else one.
        let twice = shader.stores[0].per_word() > 1;
        let write = if twice { Write::Vec4Twice } else { Write::Vec4 };
        let variant = shader
            .variant(write)
            .fill(ElementIndex::Vec4)
            .fill(Constant::Vec4Mask.is(self.vec4_mask))
            .fill(Constant::Rank.is(self.rank));
        let slots = (0..tensors).map(|tensor| {
            let access = match self.vec4_mask >> tensor & 1 {
                _ if tensor == 0 => Access::WriteVec4,
                1 => Access::ReadVec4,
                _ => Access::Read,
            };
            (tensor, access)
        });
        let threads = count.div_ceil(if twice { 8 } else { 4 });
        (shader.slots(variant, slots), threads.div_ceil(GROUP))
    }
}

/// Splits the longest axis in two and queues a launch for each, for tensors that do not fit in one
/// binding.
fn split_in_two(gpu: &Gpu, op: &'static str, shader: Kernel, views: &[View<'_>]) -> Result<()> {
    let shape = views[0].layout.shape();
    let axis = (0..shape.rank()).max_by_key(|&axis| shape.dim(axis)).unwrap_or(0);
    let size = if shape.rank() == 0 { 1 } else { shape.dim(axis) };
    if size < 2 {
        return Err(Error::invalid(
            op,
            format!("shape {shape:?} is larger than what {} binds at a time", gpu.name),
        ));
    }
    // Elements that share a word stay together.
    let middle = if size >= 16 { size / 2 / 8 * 8 } else { size / 2 };
    for (start, end) in [(0, middle), (middle, size)] {
        let layouts: Vec<Layout> = views
            .iter()
            .map(|view| view.layout.slice(axis, start, end as isize, 1))
            .collect::<Result<_>>()?;
        let slices: Vec<View<'_>> =
            views.iter().zip(&layouts).map(|(view, layout)| View { layout, ..*view }).collect();
        launch(gpu, op, shader, &slices)?;
    }
    Ok(())
}

/// Returns the output and the inputs of a call.
pub(crate) fn views_of<'a>(call: &Call<'a>) -> Vec<View<'a>> {
    [call.outputs[0]].into_iter().chain(call.inputs.iter().copied()).collect()
}

/// Queues `shader` for the output and the inputs of a call.
fn queue(call: &Call<'_>, shader: Kernel) -> Result<()> {
    launch(call.gpu, call.name, shader, &views_of(call))
}

/// Returns the constants of a function, in the dtype that it is computed in. A constant outside the
/// range of an integer dtype becomes the dtype's minimum or maximum.
fn constants_of(op: UnaryOp, dtype: DType) -> [u64; 2] {
    op.constants().map(|constant| rounded_bits(Scalar::Float(constant), dtype.accumulator()))
}

/// Returns whether half_functions.wgsl has a version of a function for 16-bit results.
fn has_half(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Tanh | Sigmoid | Erf | GeluErf | GeluTanh | Silu)
}

/// Returns whether half_functions.wgsl has a version of the gradient of a function for 16-bit
/// results.
fn grad_has_half(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Erf | GeluErf | GeluTanh | Silu | Softplus)
}

/// Returns a unary function whose result is rounded to `dtype`, and its constants.
pub(crate) fn unary_function(op: UnaryOp, dtype: DType) -> (Function, [u64; 2]) {
    (Function::unary(op, dtype.is_half() && has_half(op)), constants_of(op, dtype))
}

/// Returns the gradient of a unary function, rounded to `dtype`, and the function's constants.
fn grad_function(op: UnaryOp, dtype: DType) -> (Function, [u64; 2]) {
    (Function::unary_grad(op, dtype.is_half() && grad_has_half(op)), constants_of(op, dtype))
}

pub(crate) fn run_unary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Unary(payload) = op else { return Err(call.wrong_op()) };
    let dtype = call.inputs[0].dtype;
    let (function, constants) = unary_function(payload.op, dtype);
    queue(call, Kernel { constants, ..Kernel::new(dtype, ElementResult::Unary, function) })
}

pub(crate) fn run_unary_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::UnaryGrad(payload) = op else { return Err(call.wrong_op()) };
    let dtype = call.inputs[0].dtype;
    let (function, constants) = grad_function(payload.op, dtype);
    queue(call, Kernel { constants, ..Kernel::new(dtype, ElementResult::Binary, function) })
}

pub(crate) fn run_binary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Binary(payload) = op else { return Err(call.wrong_op()) };
    queue(call, Kernel::new(call.inputs[0].dtype, ElementResult::Binary, Function::binary(payload.op)))
}

/// The scalar has the dtype that the op is computed in.
pub(crate) fn run_binary_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BinaryScalar(BinaryScalar { op, scalar, side }) = op else { return Err(call.wrong_op()) };
    let dtype = call.inputs[0].dtype;
    let result = if *side == Side::Right { ElementResult::ScalarRight } else { ElementResult::ScalarLeft };
    let scalar = rounded_bits(*scalar, dtype.accumulator());
    queue(call, Kernel { scalar, ..Kernel::new(dtype, result, Function::binary(*op)) })
}

pub(crate) fn run_multiply_add(_: &Op, call: &Call<'_>) -> Result<()> {
    queue(call, Kernel::new(call.inputs[0].dtype, ElementResult::MultiplyAdd, Function::None))
}

pub(crate) fn run_scale_add(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::ScaleAdd(payload) = op else { return Err(call.wrong_op()) };
    let dtype = call.inputs[0].dtype;
    let scalar = Scalar::Float(payload.scale).bits(dtype.accumulator());
    queue(call, Kernel { scalar, ..Kernel::new(dtype, ElementResult::ScaleAdd, Function::None) })
}

pub(crate) fn run_add_relu(_: &Op, call: &Call<'_>) -> Result<()> {
    queue(call, Kernel::new(call.inputs[0].dtype, ElementResult::AddRelu, Function::None))
}

pub(crate) fn run_bias_activation(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BiasActivation(payload) = op else { return Err(call.wrong_op()) };
    let dtype = call.inputs[0].dtype;
    let (function, constants) = unary_function(payload.activation, dtype);
    queue(call, Kernel { constants, ..Kernel::new(dtype, ElementResult::BiasActivation, function) })
}

pub(crate) fn run_compare(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Compare(payload) = op else { return Err(call.wrong_op()) };
    let shader = Kernel::new(call.inputs[0].dtype, ElementResult::Compare, Function::compare(payload.op));
    queue(call, shader.storing(StorageFormat::Bool))
}

/// The scalar is first rounded to the tensor's dtype.
pub(crate) fn run_compare_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CompareScalar(CompareScalar { op, scalar }) = op else { return Err(call.wrong_op()) };
    let dtype = call.inputs[0].dtype;
    let scalar = rounded_bits(*scalar, dtype);
    let shader =
        Kernel { scalar, ..Kernel::new(dtype, ElementResult::CompareScalar, Function::compare(*op)) };
    queue(call, shader.storing(StorageFormat::Bool))
}

pub(crate) fn run_select(_: &Op, call: &Call<'_>) -> Result<()> {
    let moving = Kernel::moving(call.inputs[1].dtype, ElementResult::Select);
    let [y, _, b, c] = moving.stores;
    queue(call, Kernel { stores: [y, StorageFormat::Bool, b, c], ..moving })
}
