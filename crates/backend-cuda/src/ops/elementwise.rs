//! Ops in which each output element depends only on the input elements at its index.

use crate::call::{Call, Selected};
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::space::Space;
use crate::variant::elementwise::{Activation, ElementwiseVariant};
use crate::variant::{bits_like, wrapping_like};
use ternion_core::backend::{Meta, Plan, Unsupported, View};
use ternion_core::ops::binary::{BiasActivation, BinaryScalar, Side};
use ternion_core::ops::compare::CompareScalar;
use ternion_core::{DType, Error, Op, Result, Scalar, UnaryOp};

/// Threads of a block, as in the kernels.
const THREADS: usize = 256;

/// The kernels of `elementwise.cu`, in the order of their source.
const LINE_KERNEL: usize = 0;
const ROWS_KERNEL: usize = 1;
const STRIDED_KERNEL: usize = 2;
const STRIDED_LONG_KERNEL: usize = 3;

/// Returns the packs per thread in `line`, by the element size of the output.
fn unroll(y: DType) -> usize {
    if y.size() == 8 { 1 } else { 2 }
}

/// Elements per thread in `strided`.
const PER_THREAD: usize = 4;

/// The source of an operand of an elementwise kernel.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    Tensor(&'a View<'a>),
    /// One value for all elements: its bits as an element of the operand's type.
    Number(u64),
    Absent,
}

/// The parameters; mirrors `Elementwise` in the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    inputs: [u64; 3],
    count: u64,
    /// The bits of the operand that is [a number](Operand::Number).
    scalar: u64,
    /// The constants of the function.
    constants: [u64; 2],
    space: Space<4>,
}

/// Launches `variant` to compute `y` from its operands. Tensor operands have the shape of `y`.
pub(crate) fn launch(
    gpu: &Gpu,
    op: &'static str,
    variant: ElementwiseVariant,
    y: &View<'_>,
    operands: [Operand<'_>; 3],
    constants: [u64; 2],
) -> Result<()> {
    let count = y.layout.elements();
    if count == 0 {
        return Ok(());
    }
    let mut layouts = [y.layout; 4];
    let mut parameters = Parameters {
        y: gpu.address(op, y)?,
        inputs: [0; 3],
        count: count as u64,
        scalar: 0,
        constants,
        space: Space::EMPTY,
    };
    let mut widest = y.dtype.size();
    for (index, operand) in operands.iter().enumerate() {
        match operand {
            Operand::Tensor(view) => {
                parameters.inputs[index] = gpu.address(op, view)?;
                layouts[index + 1] = view.layout;
                widest = widest.max(view.dtype.size());
            }
            Operand::Number(bits) => parameters.scalar = *bits,
            Operand::Absent => {}
        }
    }
    // Sizes are powers of two, which need no division.
    let pack = 16 >> widest.trailing_zeros();
    let is_aligned = |address: u64, dtype: DType| address & ((pack * dtype.size()) as u64 - 1) == 0;
    let all_aligned = is_aligned(parameters.y, y.dtype)
        && operands.iter().zip(parameters.inputs).all(|(operand, address)| match operand {
            Operand::Tensor(view) => is_aligned(address, view.dtype),
            _ => true,
        });
    let is_row_major = layouts.iter().all(|layout| layout.is_row_major());
    if !(is_row_major && all_aligned) {
        parameters.space.fill_from_layouts(layouts);
    }
    let is_vectorizable = all_aligned && (is_row_major || parameters.space.is_dense());
    let (kernel, per_block) = if is_vectorizable {
        (LINE_KERNEL, THREADS * unroll(y.dtype) * pack)
    } else if all_aligned && parameters.space.has_rows(pack) && count < super::INDEX_LIMIT {
        (ROWS_KERNEL, THREADS * pack)
    } else {
        let kernel = if count < super::INDEX_LIMIT { STRIDED_KERNEL } else { STRIDED_LONG_KERNEL };
        (kernel, THREADS * PER_THREAD)
    };
    let blocks = u32::try_from(count.div_ceil(per_block))
        .map_err(|_| Error::invalid(op, format!("{count} elements are more than one launch can process")))?;
    gpu.launch(op, Launch::new(variant, kernel, blocks, THREADS as u32), &parameters)
}

fn wrong_op(call: &Call<'_>) -> Error {
    Error::invalid(call.name, "another op's kernel was chosen")
}

/// Returns the constants of a function, in the dtype that it is computed in. A constant outside the
/// range of an integer dtype becomes that dtype's minimum or maximum.
fn constants_of(op: UnaryOp, dtype: DType) -> [u64; 2] {
    op.constants().map(|constant| Scalar::Float(constant).bits(dtype.accumulator()))
}

pub(crate) fn run_unary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Unary(payload) = op else { return Err(wrong_op(call)) };
    let x = &call.inputs[0];
    let variant = ElementwiseVariant::unary(payload.op, x.dtype);
    let operands = [Operand::Tensor(x), Operand::Absent, Operand::Absent];
    launch(call.gpu, call.name, variant, &call.outputs[0], operands, constants_of(payload.op, x.dtype))
}

pub(crate) fn run_unary_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::UnaryGrad(payload) = op else { return Err(wrong_op(call)) };
    launch_binary(
        call,
        ElementwiseVariant::unary_grad(payload.op, call.inputs[0].dtype),
        constants_of(payload.op, call.inputs[0].dtype),
    )
}

/// Launches a kernel with two tensors.
fn launch_binary(call: &Call<'_>, variant: ElementwiseVariant, constants: [u64; 2]) -> Result<()> {
    let operands = [Operand::Tensor(&call.inputs[0]), Operand::Tensor(&call.inputs[1]), Operand::Absent];
    launch(call.gpu, call.name, variant, &call.outputs[0], operands, constants)
}

pub(crate) fn run_binary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Binary(payload) = op else { return Err(wrong_op(call)) };
    launch_binary(call, ElementwiseVariant::binary(payload.op, call.inputs[0].dtype), [0; 2])
}

/// The scalar has the dtype that the op is computed in.
pub(crate) fn run_binary_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BinaryScalar(BinaryScalar { op, scalar, side }) = op else { return Err(wrong_op(call)) };
    let (x, dtype) = (Operand::Tensor(&call.inputs[0]), call.inputs[0].dtype);
    let wide = dtype.accumulator();
    let number = Operand::Number(scalar.bits(wide));
    let (operand_dtypes, operands) = match side {
        Side::Right => ([dtype, wide], [x, number, Operand::Absent]),
        Side::Left => ([wide, dtype], [number, x, Operand::Absent]),
    };
    let variant = ElementwiseVariant::binary_of(*op, operand_dtypes, dtype);
    launch(call.gpu, call.name, variant, &call.outputs[0], operands, [0; 2])
}

pub(crate) fn run_multiply_add(_: &Op, call: &Call<'_>) -> Result<()> {
    let [a, b, c] = [0, 1, 2].map(|index| Operand::Tensor(&call.inputs[index]));
    let variant = ElementwiseVariant::MultiplyAdd(wrapping_like(call.inputs[0].dtype));
    launch(call.gpu, call.name, variant, &call.outputs[0], [a, b, c], [0; 2])
}

pub(crate) fn run_scale_add(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::ScaleAdd(payload) = op else { return Err(wrong_op(call)) };
    let dtype = call.inputs[0].dtype;
    let scale = Scalar::Float(payload.scale).bits(dtype.accumulator());
    launch_binary(call, ElementwiseVariant::ScaleAdd(dtype), [scale, 0])
}

pub(crate) fn run_add_relu(_: &Op, call: &Call<'_>) -> Result<()> {
    launch_binary(call, ElementwiseVariant::AddRelu(call.inputs[0].dtype), [0; 2])
}

/// Supports the activations of layers.
pub(crate) fn select_bias_activation(
    payload: &BiasActivation,
    inputs: &[Meta<'_>],
) -> Result<Selected, Unsupported> {
    match Activation::of(payload.activation).is_some() {
        true => Ok(Selected { plan: Plan::like_first_unrepeated(inputs), run: run_bias_activation }),
        false => Err(Unsupported::because("no kernel with this activation")),
    }
}

fn run_bias_activation(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BiasActivation(payload) = op else { return Err(wrong_op(call)) };
    let Some(activation) = Activation::of(payload.activation) else { return Err(wrong_op(call)) };
    let dtype = call.inputs[0].dtype;
    let variant = ElementwiseVariant::BiasActivation { activation, dtype };
    launch_binary(call, variant, constants_of(payload.activation, dtype))
}

pub(crate) fn run_compare(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Compare(payload) = op else { return Err(wrong_op(call)) };
    launch_binary(call, ElementwiseVariant::compare(payload.op, call.inputs[0].dtype), [0; 2])
}

/// The scalar is rounded to the tensor's dtype first.
pub(crate) fn run_compare_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CompareScalar(CompareScalar { op, scalar }) = op else { return Err(wrong_op(call)) };
    let x = &call.inputs[0];
    let number = Operand::Number(scalar.bits(x.dtype));
    let variant = ElementwiseVariant::compare(*op, x.dtype);
    launch(
        call.gpu,
        call.name,
        variant,
        &call.outputs[0],
        [Operand::Tensor(x), number, Operand::Absent],
        [0; 2],
    )
}

pub(crate) fn run_select(_: &Op, call: &Call<'_>) -> Result<()> {
    let [condition, a, b] = [0, 1, 2].map(|index| Operand::Tensor(&call.inputs[index]));
    let variant = ElementwiseVariant::Select(bits_like(call.inputs[1].dtype));
    launch(call.gpu, call.name, variant, &call.outputs[0], [condition, a, b], [0; 2])
}
