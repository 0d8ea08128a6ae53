//! The only list of supported ops: it maps an op and its inputs to a variant, or to the reason why
//! there is none.

use crate::kernel::{KernelFn, Variant};
use crate::ops;
use smallvec::SmallVec;
use ternion_core::Op;
use ternion_core::backend::{Meta, Plan, Unsupported, View};

/// Returns the kernel of an elementwise op. These kernels support every input that core accepts, so
/// no input is checked. (A separate function, because both `plan` and `kernel` call it for each op,
/// and short steps consist of elementwise ops.)
#[inline]
fn elementwise_kernel(op: &Op) -> Option<KernelFn> {
    match op {
        Op::Copy(_) => Some(ops::copy::run_copy),
        Op::Unary(_) => Some(ops::unary::run_unary),
        Op::Binary(_) => Some(ops::binary::run_binary),
        Op::BinaryScalar(_) => Some(ops::binary::run_binary_scalar),
        Op::MultiplyAdd(_) => Some(ops::binary::run_multiply_add),
        Op::ScaleAdd(_) | Op::AddRelu(_) | Op::BiasActivation(_) => Some(ops::binary::run_sum),
        Op::Compare(_) => Some(ops::compare::run_compare),
        Op::CompareScalar(_) => Some(ops::compare::run_compare_scalar),
        Op::Select(_) => Some(ops::compare::run_select),
        _ => None,
    }
}

/// Returns the layout that an elementwise kernel prefers for its output.
#[inline]
fn elementwise_plan(op: &Op, inputs: &[Meta<'_>]) -> Plan {
    match op {
        Op::Copy(_) => Plan::ROW_MAJOR,
        Op::Unary(_) | Op::BinaryScalar(_) | Op::CompareScalar(_) => Plan::like(0),
        _ => Plan::like_first_unrepeated(inputs),
    }
}

/// Returns the layout of the output of `op`, or the reason why the op is not supported.
#[inline]
pub(crate) fn plan(op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
    match elementwise_kernel(op) {
        Some(_) => Ok(elementwise_plan(op, inputs)),
        None => select(op, inputs).map(|variant| variant.plan),
    }
}

/// Returns the function that runs `op`, or the reason why there is none.
#[inline]
pub(crate) fn kernel(op: &Op, inputs: &[View<'_>]) -> Result<KernelFn, Unsupported> {
    if let Some(run) = elementwise_kernel(op) {
        return Ok(run);
    }
    let metas: SmallVec<[Meta<'_>; 4]> = inputs.iter().map(View::meta).collect();
    select(op, &metas).map(|variant| variant.run)
}

/// Selects the kernel of any other op for these inputs.
fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    match op {
        Op::Fill(payload) => ops::create::select_fill(payload, inputs),
        Op::Iota(payload) => ops::create::select_iota(payload, inputs),
        Op::UnaryGrad(payload) => ops::unary::select_unary_grad(payload, inputs),
        Op::Reduce(payload) => ops::reduce::select_reduce(payload, inputs),
        Op::Variance(payload) => ops::reduce::select_variance(payload, inputs),
        Op::CumulativeSum(payload) => ops::reduce::select_cumulative_sum(payload, inputs),
        Op::Matmul(payload) => ops::matmul::select_matmul(payload, inputs),
        Op::Gather(payload) => ops::index::select_gather(payload, inputs),
        Op::Scatter(payload) => ops::index::select_scatter(payload, inputs),
        Op::IndexSelect(payload) => ops::index::select_index_select(payload, inputs),
        Op::IndexAdd(payload) => ops::index::select_index_add(payload, inputs),
        Op::Sort(payload) => ops::sort::select_sort(payload, inputs),
        Op::Pad(payload) => ops::assemble::select_pad(payload, inputs),
        Op::Concat(payload) => ops::assemble::select_concat(payload, inputs),
        Op::RandomBits(payload) => ops::random::select_random_bits(payload, inputs),
        Op::Uniform(payload) => ops::random::select_uniform(payload, inputs),
        Op::Normal(payload) => ops::random::select_normal(payload, inputs),
        Op::Softmax(_) | Op::SoftmaxGrad(_) | Op::LogSoftmax(_) | Op::LogSoftmaxGrad(_) => {
            ops::softmax::select(op, inputs)
        }
        Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) => ops::loss::select(op, inputs),
        Op::LayerNorm(_) | Op::LayerNormGrad(_) | Op::RmsNorm(_) | Op::RmsNormGrad(_) => {
            ops::norm::select(op, inputs)
        }
        Op::BatchNorm(_) | Op::BatchNormGrad(_) => ops::batch_norm::select(op, inputs),
        Op::Custom(payload) => crate::custom::select_custom(payload, inputs),
        Op::MaxPool2d(_) | Op::MaxPool2dGrad(_) | Op::AvgPool2d(_) | Op::AvgPool2dGrad(_) => {
            ops::pool::select(op, inputs)
        }
        Op::SgdStep(_) | Op::AdamStep(_) => ops::step::select(op, inputs),
        Op::MultiTensorNorm(_) => ops::reduce::select_multi_tensor_norm(inputs),
        Op::Dropout(_) => ops::dropout::select(op, inputs),
        Op::Im2col(_) | Op::Col2im(_) | Op::Conv2d(_) | Op::Conv2dGradInput(_) | Op::Conv2dGradWeight(_) => {
            ops::conv::select(op, inputs)
        }
        Op::Attention(_) | Op::AttentionGrad(_) | Op::AttentionGradMask(_) => {
            ops::attention::select(op, inputs)
        }
        _ => Err(Unsupported::because("the composition is as fast here")),
    }
}
