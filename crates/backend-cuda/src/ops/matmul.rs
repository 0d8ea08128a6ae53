//! Matrix products: the tile, how operands are copied into it, and the number of splits of a long
//! k.

mod bf16x6;
mod choice;
mod choice_cache;
mod operand;
mod prediction;
mod split_k;
mod tensor_maps;
mod tile_grid;

use crate::call::{Call, Selected};
use crate::launch::Launch;
use crate::ops::copy::copy;
use crate::ops::elementwise::{run_binary, run_unary, run_unary_grad};
use crate::space::Space;
use crate::variant::gemm::{EpilogueVariant, MmaInput};
use crate::variant::wrapping_like;
use bf16x6::Bf16Terms;
use choice::{Choice, Choices, Device, Output, Sizes};
pub(crate) use choice_cache::clear_choices;
use operand::Operand;
use ternion_core::backend::{Buffer, Meta, Unsupported, View};
use ternion_core::ops::binary::{Binary, BinaryOp};
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::ops::unary::{Unary, UnaryGrad};
use ternion_core::{AxisSet, DType, Error, Layout, Op, Result, Scalar, UnaryOp};

/// The kernels of a variant, in the order of its source.
const PRODUCT: usize = 0;
const SUM_SPLITS: usize = 1;
/// Only in variants with row sums of a.
const SUM_PARTS: usize = 2;

/// The parameters; mirrors `GemmParams` in the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    y: u64,
    a: u64,
    b: u64,
    bias: u64,
    /// The address of the partial sums of split-K.
    partial: u64,
    condition: Condition,
    /// Strides of the axes of a, b and y.
    a_row: i64,
    a_k: i64,
    b_k: i64,
    b_column: i64,
    y_row: i64,
    y_column: i64,
    bias_stride: i64,
    /// The factor of the product: its bits in the accumulator's dtype.
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

/// A condition under which kernels compute: always for [`Condition::NONE`], otherwise only if the
/// word at this address in device memory has this value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Condition {
    address: u64,
    value: u64,
}

impl Condition {
    const NONE: Condition = Condition { address: 0, value: 0 };
}

/// Supports a product with a factor, a bias, an activation and a residual or an accumulator, if
/// only the result is rounded, not an intermediate value. Other epilogues are composed.
pub(crate) fn select(payload: &Matmul, inputs: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    let Epilogue { bias, activation, residual, accumulate, out_dtype, pre_activation, .. } = payload.epilogue;
    let output = out_dtype.unwrap_or(inputs[0].dtype);
    let bias_fits = !bias || inputs[2].dtype == output;
    let is_wide = output.is_float() && !output.is_half();
    let is_rounded_once =
        is_wide || (!residual && (pre_activation || matches!(activation, None | Some(UnaryOp::Relu))));
    let accumulates = !accumulate || (is_wide && !residual);
    match is_rounded_once && accumulates && bias_fits {
        true => Ok(Selected::row_major(run)),
        false => Err(Unsupported::because("no kernel with this epilogue")),
    }
}

/// Returns the tensor that a kernel with this epilogue stores or reads in addition to the result: a
/// pre-activation, a residual, or an accumulator. The accumulator is the memory of the result: a
/// block reads its tile there before it stores the tile.
fn epilogue_tensor<'a>(call: &Call<'a>, epilogue: EpilogueVariant) -> Option<&'a View<'a>> {
    match epilogue {
        EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => None,
        EpilogueVariant::PreActivation(_) => call.outputs.get(1),
        EpilogueVariant::ActivationGrad(_) | EpilogueVariant::Residual => call.inputs.last(),
    }
}

/// Returns the epilogue to fuse, if tensor maps support the additional tensor that is stored or
/// read.
fn epilogue_to_fuse(call: &Call<'_>, epilogue: &Epilogue) -> Result<Option<EpilogueVariant>> {
    let Some(fused) = EpilogueVariant::fused(epilogue) else { return Ok(None) };
    if fused == EpilogueVariant::RowSumsOfA {
        return Ok(Some(fused));
    }
    let Some(view) = epilogue_tensor(call, fused).filter(|view| view.dtype == call.outputs[0].dtype) else {
        return Ok(None);
    };
    let address = call.gpu.address(call.name, view)?;
    Ok(tensor_maps::supports_output(view, address).then_some(fused))
}

fn is_more_than_bias_and_relu(epilogue: &Epilogue) -> bool {
    let Epilogue { activation, residual, accumulate, pre_activation, activation_grad, row_sums_of_a, .. } =
        *epilogue;
    let is_simple = matches!(activation, None | Some(UnaryOp::Relu));
    let adds_tensor = residual || accumulate;
    !is_simple || adds_tensor || pre_activation || activation_grad.is_some() || row_sums_of_a
}

/// Computes the product with only the bias, and the rest of the epilogue with separate kernels.
#[cold]
fn run_unfused(payload: &Matmul, call: &Call<'_>) -> Result<()> {
    if payload.epilogue.accumulate {
        return accumulate_unfused(payload, call);
    }
    let Epilogue { bias, activation, residual, pre_activation, activation_grad, .. } = payload.epilogue;
    let (inputs, rest) = call.inputs.split_at(2 + usize::from(bias));
    let y = call.outputs[0];
    let product = if pre_activation { call.outputs[1] } else { y };
    let epilogue = Epilogue {
        activation: None,
        residual: false,
        pre_activation: false,
        activation_grad: None,
        column_sums: false,
        row_sums_of_a: false,
        ..payload.epilogue
    };
    run(&Op::from(Matmul { epilogue, ..*payload }), &Call { inputs, outputs: &[product], ..*call })?;
    if let Some(op) = activation {
        run_unary(&Op::from(Unary { op }), &Call { inputs: &[product], outputs: &[y], ..*call })?;
    }
    match (activation_grad, rest) {
        (Some(op), [z]) => {
            run_unary_grad(&Op::from(UnaryGrad { op }), &Call { inputs: &[*z, y], outputs: &[y], ..*call })?;
            match call.outputs.get(1) {
                Some(sums) => compute_column_sums(call, y, *sums),
                None => Ok(()),
            }
        }
        (None, [other]) if residual => {
            let residual = Widened::of(call, other, y.dtype)?;
            let sum = Call { inputs: &[y, residual.view(other)], outputs: &[y], ..*call };
            run_binary(&Op::from(Binary { op: BinaryOp::Add }), &sum)
        }
        (None, []) if payload.epilogue.row_sums_of_a => compute_row_sums_of_a(call),
        _ => Ok(()),
    }
}

/// Computes the product in separate memory, then adds it to the accumulator.
fn accumulate_unfused(payload: &Matmul, call: &Call<'_>) -> Result<()> {
    let y = call.outputs[0];
    let inputs = &call.inputs[..call.inputs.len() - 1];
    let layout = Layout::row_major(*y.layout.shape());
    let buffer = Buffer::new(call.gpu.alloc(layout.elements() * y.dtype.size())?);
    let product = View { buffer: &buffer, layout: &layout, ..y };
    let epilogue = Epilogue { accumulate: false, ..payload.epilogue };
    run(&Op::from(Matmul { epilogue, ..*payload }), &Call { inputs, outputs: &[product], ..*call })?;
    let sum = Call { inputs: &[y, product], outputs: &[y], ..*call };
    run_binary(&Op::from(Binary { op: BinaryOp::Add }), &sum)
}

/// Computes the sums of the columns of a matrix, in its own dtype or, for half precision, in f32.
fn compute_column_sums(call: &Call<'_>, matrix: View<'_>, sums: View<'_>) -> Result<()> {
    let sum = Op::from(Reduce { op: ReduceOp::Sum, axes: AxisSet::first(1), keep: false });
    let selected = super::reduce::select(&[matrix.meta()]).map_err(|unsupported| Error::Unsupported {
        op: call.name,
        device: call.gpu.name.clone(),
        why: unsupported.why.into_owned(),
    })?;
    (selected.run)(&sum, &Call { inputs: &[matrix], outputs: &[sums], ..*call })
}

/// Computes the sums of the rows of a with a separate kernel.
fn compute_row_sums_of_a(call: &Call<'_>) -> Result<()> {
    let a = call.inputs[0];
    let transposed = a.layout.transpose(0, 1);
    match call.outputs.get(1) {
        Some(sums) => compute_column_sums(call, View { layout: &transposed, ..a }, *sums),
        None => Ok(()),
    }
}

/// Computes the requested sums for a result without elements. Column sums are zeros. Row sums of a
/// need not be zero: a can have elements.
#[cold]
fn compute_sums_of_empty_result(payload: &Matmul, call: &Call<'_>) -> Result<()> {
    match call.outputs {
        [y, sums] if payload.epilogue.column_sums => {
            compute_column_sums(call, View { dtype: sums.dtype, ..*y }, *sums)
        }
        _ if payload.epilogue.row_sums_of_a => compute_row_sums_of_a(call),
        _ => Ok(()),
    }
}

/// A residual in the dtype of the result.
struct Widened(Option<(Buffer, Layout, DType)>);

impl Widened {
    fn of(call: &Call<'_>, view: &View<'_>, dtype: DType) -> Result<Widened> {
        if view.dtype == dtype {
            return Ok(Widened(None));
        }
        let layout = Layout::row_major(*view.layout.shape());
        let buffer = Buffer::new(call.gpu.alloc(layout.elements() * dtype.size())?);
        copy(call.gpu, call.name, view, &View { buffer: &buffer, dtype, layout: &layout })?;
        Ok(Widened(Some((buffer, layout, dtype))))
    }

    fn view<'a>(&'a self, original: &View<'a>) -> View<'a> {
        match &self.0 {
            None => *original,
            Some((buffer, layout, dtype)) => View { buffer, dtype: *dtype, layout },
        }
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
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
        mn_major_elements: [0; 2],
        supports_tensor_maps: false,
        unaligned_to_l2_line: [false; 2],
        element_bytes: [0; 2],
    };
    super::check_fits(call.name, &[sizes.outputs(), sizes.k, sizes.m, sizes.n])?;
    if sizes.outputs() == 0 {
        return compute_sums_of_empty_result(payload, call);
    }
    let device = Device {
        multiprocessors: call.gpu.multiprocessors(),
        max_shared_memory: call.gpu.max_shared_memory(),
        architecture: call.gpu.architecture(),
    };
    let input = match a.view.dtype {
        DType::F32 if payload.tf32 => MmaInput::Tf32,
        DType::F32 if payload.bf16x6 => MmaInput::Bf16x6,
        dtype => MmaInput::Of(wrapping_like(dtype)),
    };
    let y = &call.outputs[0];
    let address = call.gpu.address(call.name, y)?;
    let stores_boxes = call.gpu.uses_tensor_maps() && tensor_maps::supports_output(y, address);
    let is_plain = payload.epilogue == Epilogue::NONE;
    let fused = if is_plain { None } else { epilogue_to_fuse(call, &payload.epilogue)? };
    let output = Output { view: y, stores_boxes, fused };
    let choices = Choice::cached(input, [&a, &b], output, &sizes, device);
    let Choices { choice, bf16x6_choice } = &*choices;
    if !is_plain
        && choice.epilogue == EpilogueVariant::BiasRelu
        && is_more_than_bias_and_relu(&payload.epilogue)
    {
        return run_unfused(payload, call);
    }
    if let Some(bf16x6_choice) = bf16x6_choice {
        return bf16x6::launch(call, &payload.epilogue, &sizes, [bf16x6_choice, choice], [&a, &b]);
    }
    match choice.is_copied {
        [false, false] => launch(call, &payload.epilogue, &sizes, choice, [&a, &b], None, Condition::NONE),
        _ => launch_with_copies(call, &payload.epilogue, &sizes, choice, [&a, &b]),
    }
}

/// Returns the stride of an axis. The stride of an axis of size 1 is arbitrary, but it is used to
/// compute the addresses of lines that do not exist, so it is replaced by 0.
fn stride(view: &View<'_>, axis: usize) -> i64 {
    match view.layout.shape().dim(axis) {
        0 | 1 => 0,
        _ => view.layout.strides()[axis] as i64,
    }
}

/// Returns the sizes and strides of the batch axes. (An iterator, because most products have none,
/// and a list would be copied.)
#[inline]
fn batch_axes<'a>(views: [&'a View<'_>; 3]) -> impl Iterator<Item = (usize, [i64; 3])> + use<'a> {
    let shape = views[0].layout.shape();
    (0..shape.rank() - 2).map(move |axis| (shape.dim(axis), views.map(|view| stride(view, axis))))
}

/// Returns the space of the batch axes.
fn batch_space(views: [&View<'_>; 3]) -> Space<3> {
    let mut space = Space::EMPTY;
    space.fill_from(batch_axes(views));
    space
}

/// As [`launch`], after copying the operands that the tile does not support.
#[cold]
fn launch_with_copies(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [&Operand<'_>; 2],
) -> Result<()> {
    // The copies live until the kernel has been queued.
    let a_copy = choice.is_copied[0].then(|| a.k_major_copy(call.gpu, call.name)).transpose()?;
    let b_copy = choice.is_copied[1].then(|| b.k_major_copy(call.gpu, call.name)).transpose()?;
    let (a, b) = (a.replaced(call, &a_copy)?, b.replaced(call, &b_copy)?);
    launch(call, epilogue, sizes, choice, [&a, &b], None, Condition::NONE)
}

/// Launches the product, with bf16 terms of the operands if there are any, and the kernel that adds
/// the partial sums of split-K.
fn launch(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [&Operand<'_>; 2],
    terms: Option<&[Bf16Terms<'_>; 2]>,
    condition: Condition,
) -> Result<()> {
    let (gpu, op, y) = (call.gpu, call.name, &call.outputs[0]);
    let rank = y.layout.shape().rank();
    let splits = if choice.tile.engine.reduces_in_cluster() { 1 } else { choice.splits };
    let sum_size = if a.view.dtype.size() == 8 { 8 } else { 4 };
    let all_partials = if splits > 1 { splits * sizes.outputs() * sum_size } else { 0 };
    let partial = gpu.workspace(choice.fused_partial_bytes().unwrap_or(all_partials))?;
    let bias = epilogue.bias.then(|| &call.inputs[2]);
    let mut parameters = Parameters {
        y: gpu.address(op, y)?,
        a: a.address,
        b: b.address,
        bias: bias.map_or(Ok(0), |bias| gpu.address(op, bias))?,
        partial: partial.address(),
        condition,
        a_row: stride(&a.view, rank - 2),
        a_k: stride(&a.view, rank - 1),
        b_k: stride(&b.view, rank - 2),
        b_column: stride(&b.view, rank - 1),
        y_row: stride(y, rank - 2),
        y_column: stride(y, rank - 1),
        bias_stride: bias.map_or(0, |bias| stride(bias, 0)),
        alpha: Scalar::Float(epilogue.alpha).bits(y.dtype.accumulator()),
        // The kernels' activation is relu if the first constant is not 0.
        constants: [u64::from(epilogue.activation == Some(UnaryOp::Relu)), 0],
        m: sizes.m as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        matrices: sizes.matrices as u32,
        splits: splits as u32,
        split_length: choice.split_length as u32,
        batch: Space::EMPTY,
    };
    parameters.batch.fill_from(batch_axes([y, &a.view, &b.view]));
    super::check_fits(op, &[choice.blocks])?;
    if choice.tile.engine.uses_tensor_maps() {
        return launch_mapped(call, epilogue, sizes, choice, [a, b], terms, &parameters);
    }
    let variant = choice.variant(a, y);
    let product = Launch {
        shared_bytes: choice.shared_bytes as u32,
        ..Launch::new(variant, PRODUCT, choice.blocks as u32, choice.threads as u32)
    };
    gpu.launch(op, product, &parameters)?;
    if splits == 1 {
        return Ok(());
    }
    gpu.launch(op, Launch::new(variant, SUM_SPLITS, sizes.outputs().div_ceil(256) as u32, 256), &parameters)
}

/// As [`launch`], for a tile that loads its operands by tensor maps. (A separate function, because
/// the maps need stack space, which other products would have to set up.)
#[inline(never)]
fn launch_mapped(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    operands: [&Operand<'_>; 2],
    terms: Option<&[Bf16Terms<'_>; 2]>,
    parameters: &Parameters,
) -> Result<()> {
    let (op, tile, variant) = (call.name, choice.tile, choice.variant(operands[0], &call.outputs[0]));
    let maps = match terms {
        Some([a, b]) => [a.map(tile, tile.block.m, op)?, b.map(tile, tile.block.n, op)?],
        None => tensor_maps::operand_maps(operands, choice, &parameters.batch, op)?,
    };
    match tile.engine.reduces_in_cluster() {
        true => split_k::launch(call, choice, maps, *parameters, variant),
        false => tensor_maps::launch(call, epilogue, sizes, choice, maps, parameters, variant),
    }
}

#[cfg(test)]
mod tests;
