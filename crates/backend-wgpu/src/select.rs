//! The only list of what this backend supports: it maps an op and its inputs to a function that
//! queues shaders, or to the reason why the op is unsupported.

use crate::call::{Call, LaunchFn};
use crate::gpu::Gpu;
use crate::ops;
use smallvec::SmallVec;
use std::sync::Arc;
use ternion_core::backend::{Meta, Plan, Unsupported, View};
use ternion_core::ops::reduce::ReduceOp;
use ternion_core::{DType, Error, Op, Result};

/// Returns the plan of an op, or the reason why it is unsupported.
pub(crate) fn plan(gpu: &Gpu, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
    select(gpu, op, inputs).map(|_| Plan::ROW_MAJOR)
}

/// Queues the shaders of `op`.
pub(crate) fn run(gpu: &Arc<Gpu>, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
    let metas: SmallVec<[Meta<'_>; 4]> = inputs.iter().map(View::meta).collect();
    match select(gpu, op, &metas) {
        Ok(run) => run(op, &Call { gpu, name: op.name(), inputs, outputs }),
        Err(Unsupported { why }) => {
            Err(Error::Unsupported { op: op.name(), device: gpu.name.clone(), why: why.into_owned() })
        }
    }
}

/// Returns the output dtype of an op without inputs, or the dtype that a copy converts to.
fn created_dtype(op: &Op) -> Option<DType> {
    match op {
        Op::Fill(fill) => Some(fill.dtype),
        Op::Iota(iota) => Some(iota.dtype),
        Op::Copy(copy) => Some(copy.dtype),
        Op::Uniform(uniform) => Some(uniform.dtype),
        Op::Normal(normal) => Some(normal.dtype),
        _ => None,
    }
}

/// Returns whether the dtype is an integer of 16 or 8 bits that is computed in 32 bits.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::I16 | DType::I8 | DType::U16)
}

fn select(_gpu: &Gpu, op: &Op, inputs: &[Meta<'_>]) -> Result<LaunchFn, Unsupported> {
    if created_dtype(op) == Some(DType::F64) || inputs.iter().any(|meta| meta.dtype == DType::F64) {
        return Err(Unsupported::because("WGSL has no 64-bit floats"));
    }
    match op {
        Op::Fill(_) => Ok(ops::create::run_fill),
        Op::Iota(_) => Ok(ops::create::run_iota),
        Op::Copy(_) => Ok(ops::copy::run_copy),
        Op::Unary(_) => Ok(ops::elementwise::run_unary),
        Op::UnaryGrad(_) => Ok(ops::elementwise::run_unary_grad),
        Op::Binary(_) => Ok(ops::elementwise::run_binary),
        Op::BinaryScalar(_) => Ok(ops::elementwise::run_binary_scalar),
        Op::MultiplyAdd(_) => Ok(ops::elementwise::run_multiply_add),
        Op::ScaleAdd(_) => Ok(ops::elementwise::run_scale_add),
        Op::AddRelu(_) => Ok(ops::elementwise::run_add_relu),
        Op::BiasActivation(_) => Ok(ops::elementwise::run_bias_activation),
        Op::Compare(_) => Ok(ops::elementwise::run_compare),
        Op::CompareScalar(_) => Ok(ops::elementwise::run_compare_scalar),
        Op::Select(_) => Ok(ops::elementwise::run_select),
        Op::Reduce(op) if op.op == ReduceOp::Norm => Err(Unsupported::because(
            "one pass over squares overflows, or loses them: it is composed with a scale",
        )),
        Op::Reduce(_) => Ok(ops::reduce::run_reduce),
        Op::Variance(_) => Ok(ops::reduce::run_variance),
        Op::CumulativeSum(_) => Ok(ops::cumulative::run),
        Op::Softmax(_) | Op::SoftmaxGrad(_) | Op::LogSoftmax(_) | Op::LogSoftmaxGrad(_) => {
            Ok(ops::softmax::run)
        }
        Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) => Ok(ops::loss::run),
        // The kernel reads the target's logit for the loss while other threads write gradients,
        // which would overwrite it in place.
        Op::CrossEntropyWithGrad(op) if op.in_place => {
            Err(Unsupported::because("in place it is composed of the loss and its gradient"))
        }
        Op::CrossEntropyWithGrad(_) | Op::CrossEntropyGradUpdate(_) => Ok(ops::loss::run),
        Op::LayerNorm(_) | Op::LayerNormGrad(_) | Op::RmsNorm(_) | Op::RmsNormGrad(_) => {
            ops::norm::select(op, inputs)
        }
        Op::BatchNorm(_) => Ok(ops::batch_norm::run),
        Op::BatchNormGrad(_) => Ok(ops::batch_norm::run_grad),
        Op::Gather(_) => Ok(ops::gather::run_gather),
        Op::IndexSelect(_) => Ok(ops::gather::run_index_select),
        Op::Scatter(_) | Op::IndexAdd(_) => Ok(ops::scatter::run),
        Op::RandomBits(_) | Op::Uniform(_) | Op::Normal(_) => Ok(ops::random::run),
        Op::Dropout(_) => Ok(ops::random::run_dropout),
        Op::Sort(_) => Ok(ops::sort::run),
        Op::Pad(_) => Ok(ops::assemble::run_pad),
        Op::Concat(_) => Ok(ops::assemble::run_concat),
        Op::SliceAssign(_) => Ok(ops::assemble::run_slice_assign),
        Op::SgdStep(_) | Op::AdamStep(_) => Ok(ops::step::run),
        Op::MultiTensorNorm(_) => Ok(ops::multi_tensor::run),
        Op::MaxPool2d(_) | Op::MaxPool2dGrad(_) | Op::AvgPool2d(_) | Op::AvgPool2dGrad(_) => {
            Ok(ops::pool::run)
        }
        Op::Im2col(_) => Ok(ops::im2col::run_im2col),
        Op::Col2im(_) => Ok(ops::im2col::run_col2im),
        // Sums of narrow integers are computed in 32 bits and wrap when they are stored, which is
        // too late for an activation.
        Op::Matmul(product) if product.epilogue.activation.is_some() && is_narrow(inputs[0].dtype) => {
            Err(Unsupported::because("a function of a product of i16, i8 or u16 is composed"))
        }
        Op::Matmul(product) if ops::matmul::is_composed(&product.epilogue) => {
            Err(Unsupported::because("a pre-activation, the gradient of one and sums of rows are composed"))
        }
        Op::Matmul(_) => Ok(ops::matmul::run),
        Op::Attention(_) | Op::AttentionGrad(_) => ops::attention::select(op, inputs),
        Op::Conv2d(_) => Ok(ops::conv::run_conv2d),
        Op::Conv2dGradInput(_) => Ok(ops::conv::run_grad_input),
        Op::Conv2dGradWeight(_) => Ok(ops::conv::run_grad_weight),
        _ => Err(Unsupported::because("no shader: composed")),
    }
}
