//! The only list of what this backend supports. It maps an op and its inputs to a function that
//! launches kernels, or to the reason why the op is unsupported.

use crate::call::{Call, LaunchFn, Selected};
use crate::gpu::Gpu;
use crate::ops;
use smallvec::SmallVec;
use std::sync::Arc;
use ternion_core::backend::{Meta, Plan, Unsupported, View};
use ternion_core::ops::matmul::Epilogue;
use ternion_core::{Error, Op, Result};

/// Returns the launch function of an op whose kernels support every input that core accepts. These
/// are copies, plain matrix products, and the elementwise ops except `BiasActivation`.
#[inline]
fn unconditional_launch(op: &Op) -> Option<LaunchFn> {
    match op {
        Op::Copy(_) => Some(ops::copy::run_copy),
        Op::Unary(_) => Some(ops::elementwise::run_unary),
        Op::UnaryGrad(_) => Some(ops::elementwise::run_unary_grad),
        Op::Binary(_) => Some(ops::elementwise::run_binary),
        Op::BinaryScalar(_) => Some(ops::elementwise::run_binary_scalar),
        Op::MultiplyAdd(_) => Some(ops::elementwise::run_multiply_add),
        Op::ScaleAdd(_) => Some(ops::elementwise::run_scale_add),
        Op::AddRelu(_) => Some(ops::elementwise::run_add_relu),
        Op::Compare(_) => Some(ops::elementwise::run_compare),
        Op::CompareScalar(_) => Some(ops::elementwise::run_compare_scalar),
        Op::Select(_) => Some(ops::elementwise::run_select),
        Op::Matmul(payload) if payload.epilogue == Epilogue::NONE => Some(ops::matmul::run),
        _ => None,
    }
}

/// Returns the preferred output layout of an unconditional op.
#[inline]
fn output_plan(op: &Op, inputs: &[Meta<'_>]) -> Plan {
    match op {
        Op::Copy(_) | Op::Matmul(_) => Plan::ROW_MAJOR,
        Op::Unary(_) | Op::BinaryScalar(_) | Op::CompareScalar(_) => Plan::like(0),
        _ => Plan::like_first_unrepeated(inputs),
    }
}

/// Returns the layout of the output of `op`, or the reason why the op is unsupported.
#[inline]
pub(crate) fn plan(gpu: &Gpu, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
    match unconditional_launch(op) {
        Some(_) => Ok(output_plan(op, inputs)),
        None => select(gpu, op, inputs).map(|selected| selected.plan),
    }
}

/// Launches the kernels of `op`.
#[inline]
pub(crate) fn run(gpu: &Arc<Gpu>, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
    let _guard = gpu.submission_guard();
    gpu.retain(inputs.iter().chain(outputs).map(|view| view.buffer))?;
    let call = Call { gpu, name: op.name(), inputs, outputs };
    if let Some(run) = unconditional_launch(op) {
        return run(op, &call);
    }
    // A loop, because `collect` would add a function call for each list.
    let mut metas: SmallVec<[Meta<'_>; 4]> = SmallVec::new();
    for input in inputs {
        metas.push(input.meta());
    }
    match select(gpu, op, &metas) {
        Ok(selected) => (selected.run)(op, &call),
        Err(unsupported) => Err(Error::Unsupported {
            op: op.name(),
            device: gpu.name.clone(),
            why: unsupported.why.into_owned(),
        }),
    }
}

/// Returns the implementation of an op that is not unconditional, for these inputs.
fn select(gpu: &Gpu, op: &Op, inputs: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    match op {
        Op::BiasActivation(payload) => ops::elementwise::select_bias_activation(payload, inputs),
        Op::Fill(_) => Ok(Selected::row_major(ops::create::run_fill)),
        Op::Iota(_) => Ok(Selected::row_major(ops::create::run_iota)),
        Op::Reduce(_) => ops::reduce::select(inputs),
        Op::CumulativeSum(_) => ops::cumulative::select(inputs),
        Op::Matmul(payload) => ops::matmul::select(payload, inputs),
        Op::Gather(_) => Ok(Selected::row_major(ops::index::run_gather)),
        Op::IndexSelect(_) => Ok(Selected::row_major(ops::index::run_index_select)),
        Op::Scatter(_) => ops::scatter::select(inputs),
        Op::IndexAdd(_) => ops::scatter::select(inputs),
        Op::Sort(_) => ops::sort::select(inputs),
        Op::RandomBits(_) => Ok(Selected::row_major(ops::random::run_bits)),
        Op::Uniform(_) => Ok(Selected::row_major(ops::random::run_uniform)),
        Op::Normal(_) => Ok(Selected::row_major(ops::random::run_normal)),
        Op::Dropout(_) => Ok(Selected::row_major(ops::random::run_dropout)),
        Op::Softmax(_) | Op::SoftmaxGrad(_) | Op::LogSoftmax(_) | Op::LogSoftmaxGrad(_) => {
            Ok(Selected::row_major(ops::softmax::run))
        }
        Op::LayerNorm(_) | Op::RmsNorm(_) => Ok(Selected::row_major(ops::norm::run)),
        Op::LayerNormGrad(_) | Op::RmsNormGrad(_) => Ok(Selected::row_major(ops::norm::run_grad)),
        Op::BatchNorm(_) => Ok(Selected::row_major(ops::batch_norm::run)),
        Op::BatchNormGrad(_) => Ok(Selected::row_major(ops::batch_norm::run_grad)),
        Op::CrossEntropy(_) => Ok(Selected::row_major(ops::loss::run)),
        Op::CrossEntropyGrad(_) => Ok(Selected::row_major(ops::loss::run_grad)),
        Op::CrossEntropyWithGrad(_) => Ok(Selected::row_major(ops::loss::run_with_grad)),
        Op::CrossEntropyGradUpdate(_) => ops::loss::select_update(inputs),
        Op::SgdStep(_) | Op::AdamStep(_) => ops::step::select(op, inputs),
        Op::MultiTensorNorm(_) => ops::multi_tensor::select(),
        Op::Attention(_) | Op::AttentionGrad(_) | Op::AttentionGradMask(_) => {
            ops::attention::select(gpu, op, inputs)
        }
        Op::MaxPool2d(_) => Ok(Selected::row_major(ops::pool::run_max_pool2d)),
        Op::MaxPool2dGrad(_) => Ok(Selected::row_major(ops::pool::run_max_pool2d_grad)),
        Op::AvgPool2d(_) => Ok(Selected::row_major(ops::pool::run_avg_pool2d)),
        Op::AvgPool2dGrad(_) => Ok(Selected::row_major(ops::pool::run_avg_pool2d_grad)),
        Op::Im2col(_) => Ok(Selected::row_major(ops::conv::run_im2col)),
        Op::Col2im(_) => Ok(Selected::row_major(ops::conv::run_col2im)),
        Op::Pad(_) => Ok(Selected::row_major(ops::assemble::run_pad)),
        Op::Concat(_) => Ok(Selected::row_major(ops::assemble::run_concat)),
        Op::SliceAssign(_) => Ok(Selected::row_major(ops::assemble::run_slice_assign)),
        _ => Err(Unsupported::because("no kernel: composed")),
    }
}
