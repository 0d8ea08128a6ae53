//! The one list of what this backend runs: op and inputs to a variant, or the reason why not.

use crate::access::Locked;
use crate::ops;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::{Op, Result};

/// A kernel that fits an op and its inputs.
pub(crate) struct Variant {
    /// How it likes its first output to be laid out.
    pub(crate) plan: Plan,
    /// The kernel: op, locked inputs, locked outputs.
    pub(crate) run: fn(&Op, &[Locked<'_>], &[Locked<'_>]) -> Result<()>,
}

/// The kernel for `op` on such inputs.
#[inline]
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    match op {
        Op::Fill(payload) => ops::create::select_fill(payload, inputs),
        Op::Iota(payload) => ops::create::select_iota(payload, inputs),
        Op::Copy(payload) => ops::copy::select_copy(payload, inputs),
        Op::Unary(payload) => ops::unary::select_unary(payload, inputs),
        Op::UnaryGrad(payload) => ops::unary::select_unary_grad(payload, inputs),
        Op::Binary(payload) => ops::binary::select_binary(payload, inputs),
        Op::BinaryScalar(payload) => ops::binary::select_binary_scalar(payload, inputs),
        Op::MultiplyAdd(payload) => ops::binary::select_multiply_add(payload, inputs),
        Op::ScaleAdd(payload) => ops::binary::select_scale_add(payload, inputs),
        Op::AddRelu(payload) => ops::binary::select_add_relu(payload, inputs),
        Op::BiasActivation(payload) => ops::binary::select_bias_activation(payload, inputs),
        Op::Compare(payload) => ops::compare::select_compare(payload, inputs),
        Op::CompareScalar(payload) => ops::compare::select_compare_scalar(payload, inputs),
        Op::Select(payload) => ops::compare::select_select(payload, inputs),
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
        Op::Dropout(_) => ops::dropout::select(op, inputs),
        Op::Im2col(_) | Op::Col2im(_) | Op::Conv2d(_) | Op::Conv2dGradInput(_) | Op::Conv2dGradWeight(_) => {
            ops::conv::select(op, inputs)
        }
        Op::Attention(_) | Op::AttentionGrad(_) => ops::attention::select(op, inputs),
        _ => Err(Unsupported::because("the composition is as fast here")),
    }
}
