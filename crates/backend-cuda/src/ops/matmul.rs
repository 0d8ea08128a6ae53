//! Matrix products: which tile, how operands are copied into it, and into how many parts long sums
//! are cut.

mod choice;
mod operand;
mod tensor_maps;

use crate::call::{Call, Selected};
use crate::launch::Launch;
use crate::space::Space;
use crate::variant::gemm::{EpilogueVariant, GemmVariant, MmaInput};
use crate::variant::wrapping_like;
use choice::{Choice, Device, Sizes};
use operand::Operand;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_core::{DType, Error, MAX_RANK, Op, Result, Scalar, UnaryOp};

/// The kernels of a variant, in the order of its source.
const PRODUCT: usize = 0;
const SUM_SPLITS: usize = 1;

/// The parameters, as `Product` of the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    a: u64,
    b: u64,
    bias: u64,
    partial: u64,
    a_row: i64,
    a_k: i64,
    b_k: i64,
    b_column: i64,
    y_row: i64,
    y_column: i64,
    bias_stride: i64,
    alpha: u64,
    constants: [u64; 2],
    m: u32,
    n: u32,
    k: u32,
    matrices: u32,
    splits: u32,
    split_length: u32,
    batch: Space<3>,
}

/// The product with a factor, a bias and a relu; what else may follow is composed.
pub(crate) fn select(payload: &Matmul, inputs: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    let Epilogue { bias, activation, residual, accumulate, out_dtype, .. } = payload.epilogue;
    let simple = !residual && !accumulate && matches!(activation, None | Some(UnaryOp::Relu));
    let bias_fits = !bias || inputs[2].dtype == out_dtype.unwrap_or(inputs[0].dtype);
    match simple && bias_fits {
        true => Ok(Selected::row_major(run)),
        false => Err(Unsupported::because("no kernel with this epilogue")),
    }
}

fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Matmul(payload) = op else { return Err(Error::invalid(call.name, "is not matmul")) };
    let (a, b, shape) = (call.inputs[0], call.inputs[1], call.outputs[0].layout.shape());
    let rank = shape.rank();
    let a = Operand::of(call, a, rank - 2, rank - 1)?;
    let b = Operand::of(call, b, rank - 1, rank - 2)?;
    let sizes = Sizes {
        m: shape.dim(rank - 2),
        n: shape.dim(rank - 1),
        k: a.view.layout.shape().dim(rank - 1),
        matrices: shape.dims()[..rank - 2].iter().product(),
        unaligned: [0; 2],
        turned: [0; 2],
        suits_tensor_maps: false,
    };
    super::fits(call.name, &[sizes.outputs(), sizes.k, sizes.m, sizes.n])?;
    if sizes.outputs() == 0 {
        return Ok(());
    }
    let device = Device {
        multiprocessors: call.gpu.multiprocessors(),
        room: call.gpu.shared_memory(),
        architecture: call.gpu.architecture(),
    };
    let input = match a.view.dtype {
        DType::F32 if payload.tf32 => MmaInput::Tf32,
        dtype => MmaInput::Of(wrapping_like(dtype)),
    };
    let y = &call.outputs[0];
    let address = call.gpu.address(call.name, y)?;
    let stores_boxes = call.gpu.uses_tensor_maps() && tensor_maps::suits_output(y, address);
    let choice = Choice::remembered(input, [&a, &b], (y, stores_boxes), &sizes, device);
    match choice.is_copied {
        [false, false] => launch(call, &payload.epilogue, &sizes, &choice, [&a, &b]),
        _ => launch_with_copies(call, &payload.epilogue, &sizes, &choice, [&a, &b]),
    }
}

/// The stride of an axis. That of an axis of one element may be anything, and lines that do not exist are
/// counted with it.
fn stride(view: &View<'_>, axis: usize) -> i64 {
    match view.layout.shape().dim(axis) {
        0 | 1 => 0,
        _ => view.layout.strides()[axis] as i64,
    }
}

/// Sizes and strides of the axes before the matrices.
fn batch_axes(views: [&View<'_>; 3]) -> SmallVec<[(usize, [i64; 3]); MAX_RANK]> {
    let shape = views[0].layout.shape();
    let mut axes = SmallVec::new();
    for axis in 0..shape.rank() - 2 {
        axes.push((shape.dim(axis), views.map(|view| stride(view, axis))));
    }
    axes
}

/// As [`launch`], of operands that the tile does not take as they lie, or of which it takes one.
#[cold]
fn launch_with_copies(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [&Operand<'_>; 2],
) -> Result<()> {
    // They live until the kernel has been queued.
    let a_copy = choice.is_copied[0].then(|| a.laid_out(call.gpu, call.name)).transpose()?;
    let b_copy = choice.is_copied[1].then(|| b.laid_out(call.gpu, call.name)).transpose()?;
    let (a, b) = (a.replaced(call, &a_copy)?, b.replaced(call, &b_copy)?);
    launch(call, epilogue, sizes, choice, [&a, &b])
}

fn launch(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [&Operand<'_>; 2],
) -> Result<()> {
    let (gpu, op, y) = (call.gpu, call.name, &call.outputs[0]);
    let rank = y.layout.shape().rank();
    let splits = choice.splits;
    let sum_size = if a.view.dtype.size() == 8 { 8 } else { 4 };
    let partial = gpu.scratch(if splits > 1 { splits * sizes.outputs() * sum_size } else { 0 })?;
    let bias = epilogue.bias.then(|| &call.inputs[2]);
    let mut parameters = Parameters {
        y: gpu.address(op, y)?,
        a: a.address,
        b: b.address,
        bias: bias.map_or(Ok(0), |bias| gpu.address(op, bias))?,
        partial: partial.address(),
        a_row: stride(&a.view, rank - 2),
        a_k: stride(&a.view, rank - 1),
        b_k: stride(&b.view, rank - 2),
        b_column: stride(&b.view, rank - 1),
        y_row: stride(y, rank - 2),
        y_column: stride(y, rank - 1),
        bias_stride: bias.map_or(0, |bias| stride(bias, 0)),
        alpha: Scalar::Float(epilogue.alpha).bits(y.dtype.accumulator()),
        // The kernels' activation is relu where the first constant is not 0.
        constants: [u64::from(epilogue.activation.is_some()), 0],
        m: sizes.m as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        matrices: sizes.matrices as u32,
        splits: splits as u32,
        split_length: choice.split_length as u32,
        batch: Space::EMPTY,
    };
    parameters.batch.become_of(&batch_axes([y, &a.view, &b.view]));
    let (tile, [load_a, load_b]) = (choice.tile, choice.loads);
    let variant = GemmVariant {
        tile,
        a: load_a,
        b: load_b,
        operands: wrapping_like(a.view.dtype),
        output: wrapping_like(y.dtype),
        epilogue: EpilogueVariant::BiasRelu,
    };
    super::fits(op, &[choice.blocks])?;
    if tile.engine.uses_tensor_maps() {
        return tensor_maps::launch(call, epilogue, sizes, choice, [a, b], &parameters, variant);
    }
    let product = Launch {
        shared: choice.shared as u32,
        ..Launch::new(variant, PRODUCT, choice.blocks as u32, choice.threads as u32)
    };
    gpu.launch(op, product, &parameters)?;
    if splits == 1 {
        return Ok(());
    }
    gpu.launch(op, Launch::new(variant, SUM_SPLITS, sizes.outputs().div_ceil(256) as u32, 256), &parameters)
}

#[cfg(test)]
mod tests;
