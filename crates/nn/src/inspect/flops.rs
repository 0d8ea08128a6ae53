//! The number of floating-point operations of an op according to its definition, independent of the
//! kernel that runs it.

use ternion_core::ops::attention::AttentionConfig;
use ternion_core::ops::matmul::Epilogue;
use ternion_core::ops::reduce::ReduceOp;
use ternion_core::{Op, OpCall, Tensor};

/// Returns the number of floating-point operations of one call of an op. Use it in
/// [`observe_ops`](ternion_core::observe_ops).
///
/// A multiply-add counts 2. A product of `[m, k]` and `[k, n]` therefore takes `2 m k n`; a
/// convolution takes 2 for each output and each weight that contributes to it; attention takes 2
/// for each score and each element of a key and of a value, whether or not the score is masked.
/// Unary functions, comparisons and additions count 1 for each output; a fused op counts the sum of
/// the ops that it fuses. Reductions count 1 for each input (2 for sums of squares, norms and the
/// maximum absolute value, 4 for log-sum-exp), softmax 5 for each element (maximum, difference,
/// exponential, sum, quotient), norms 5 (sum, difference, square, sum, product; RMS norm 3) and 1
/// each for weight and bias, pooling 1 for each element of each window, an Adam step 14 for each
/// parameter element. Copies, gathers, sorting, random numbers and custom ops count 0.
pub fn op_flops(call: &OpCall<'_>) -> u64 {
    let input = |at: usize| call.inputs.get(at).map_or(0, |tensor| elements_of(tensor));
    let inputs = || call.inputs.iter().map(|tensor| elements_of(tensor)).sum::<u64>();
    let outputs = || call.outputs.iter().map(elements_of).sum::<u64>();
    let output = call.outputs.first().map_or(0, elements_of);
    match call.op {
        Op::Fill(_) | Op::Iota(_) | Op::Copy(_) | Op::Pad(_) | Op::Concat(_) | Op::SliceAssign(_) => 0,
        Op::Gather(_) | Op::IndexSelect(_) | Op::Sort(_) | Op::Im2col(_) => 0,
        Op::RandomBits(_) | Op::Uniform(_) | Op::Normal(_) | Op::Custom(_) => 0,
        Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(_) | Op::Compare(_) => output,
        Op::CompareScalar(_) | Op::Select(_) | Op::Dropout(_) => output,
        Op::UnaryGrad(_) | Op::MultiplyAdd(_) | Op::ScaleAdd(_) => 2 * output,
        Op::AddRelu(_) | Op::BiasActivation(_) => 2 * output,
        Op::Reduce(reduce) => input(0) * reduction_flops(reduce.op),
        Op::Variance(_) => 4 * input(0),
        Op::CumulativeSum(_) | Op::Col2im(_) => input(0),
        Op::Scatter(_) | Op::IndexAdd(_) => input(2),
        Op::Matmul(product) => matmul_flops(&product.epilogue, input(0), output, call),
        Op::Softmax(_) | Op::LogSoftmax(_) | Op::CrossEntropy(_) => 5 * input(0),
        Op::SoftmaxGrad(_) | Op::LogSoftmaxGrad(_) | Op::CrossEntropyGrad(_) => 4 * input(0),
        Op::CrossEntropyWithGrad(_) => 9 * input(0),
        Op::CrossEntropyGradUpdate(_) => 4 * input(0),
        Op::LayerNorm(norm) => input(0) * (5 + u64::from(norm.weight) + u64::from(norm.bias)),
        Op::RmsNorm(norm) => input(0) * (3 + u64::from(norm.weight)),
        Op::BatchNorm(norm) => input(0) * (5 + 2 * u64::from(norm.affine)),
        // Two sums, an output that depends on both and on the input, and the sums for weight and
        // bias.
        Op::LayerNormGrad(norm) => input(0) * (10 + 2 * u64::from(norm.weight) + u64::from(norm.bias)),
        Op::RmsNormGrad(norm) => input(0) * (6 + 2 * u64::from(norm.weight)),
        Op::BatchNormGrad(norm) => input(0) * (10 + 3 * u64::from(norm.affine)),
        Op::Attention(attention) => attention_flops(&attention.config, call, 1, 1, 6),
        // The recomputed scores, dq and dk; dv and the gradient of the weights; five more
        // elementwise steps.
        Op::AttentionGrad(attention) => attention_flops(&attention.config, call, 3, 2, 11),
        // The recomputed scores, and the gradient of the weights.
        Op::AttentionGradMask(attention) => attention_flops(&attention.config, call, 1, 1, 9),
        Op::Conv2d(conv) => {
            2 * output * weights_per_output(call.inputs.get(1)) + u64::from(conv.bias) * output
        }
        Op::Conv2dGradInput(_) => 2 * input(1) * weights_per_output(call.inputs.first()),
        Op::Conv2dGradWeight(_) => {
            2 * input(1) * call.outputs.first().map_or(0, |weight| weights_per_output(Some(&weight)))
        }
        Op::MaxPool2d(pool) => output * window_elements(pool.window.kernel),
        Op::AvgPool2d(pool) => output * window_elements(pool.window.kernel),
        Op::MaxPool2dGrad(_) => input(1),
        Op::AvgPool2dGrad(pool) => input(0) * window_elements(pool.window.kernel),
        // For each parameter element 3, or 6 with a velocity. Half-precision copies are additional
        // outputs without arithmetic.
        Op::SgdStep(step) => {
            let changed = 1 + step.states() as u64;
            3 * outputs() * changed / (changed + u64::from(step.half_copy))
        }
        // The outputs are the parameter, both moments, and the half-precision copy if there is one.
        Op::AdamStep(step) => 14 * outputs() / (3 + u64::from(step.half_copy)),
        Op::MultiTensorNorm(_) => 2 * inputs(),
    }
}

fn elements_of(tensor: &Tensor) -> u64 {
    tensor.elements() as u64
}

/// Returns the number of elements of a weight that contribute to one output.
fn weights_per_output(weight: Option<&&Tensor>) -> u64 {
    weight.map_or(0, |weight| weight.dims().iter().skip(1).map(|&dim| dim as u64).product())
}

fn window_elements([height, width]: [usize; 2]) -> u64 {
    height as u64 * width as u64
}

fn reduction_flops(op: ReduceOp) -> u64 {
    match op {
        ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min | ReduceOp::Mean => 1,
        ReduceOp::ArgMax | ReduceOp::ArgMin => 1,
        ReduceOp::SumSquares | ReduceOp::MaxAbs | ReduceOp::Norm => 2,
        ReduceOp::LogSumExp => 4,
    }
}

fn matmul_flops(epilogue: &Epilogue, left: u64, output: u64, call: &OpCall<'_>) -> u64 {
    let inner = call.inputs.first().and_then(|left| left.dims().last()).map_or(0, |&inner| inner as u64);
    let &Epilogue { bias, activation, residual, alpha, accumulate, row_sums_of_a, .. } = epilogue;
    let epilogue_ops = [bias, activation.is_some(), residual, alpha != 1.0, accumulate].map(u64::from);
    let rows = left.checked_div(inner).unwrap_or(0);
    let columns = call.inputs.get(1).and_then(|right| right.dims().last()).map_or(0, |&size| size as u64);
    let row_sum_flops = if row_sums_of_a { left } else { 0 };
    2 * rows * inner * columns + row_sum_flops + output * epilogue_ops.iter().sum::<u64>()
}

/// Counts `qk_products` matrix products over head_dim (scores with queries or keys),
/// `value_products` over value_dim, and `elementwise` operations for each score.
fn attention_flops(
    config: &AttentionConfig,
    call: &OpCall<'_>,
    qk_products: u64,
    value_products: u64,
    elementwise: u64,
) -> u64 {
    let dims = |at: usize| call.inputs.get(at).map_or([0; 4], |tensor| tensor.sizes::<4>().unwrap_or([0; 4]));
    let ([batch, heads, queries, head_dim], [.., length, _], [.., value_dim]) = (dims(0), dims(1), dims(2));
    let scores = [batch, heads, queries, length].iter().map(|&size| size as u64).product::<u64>();
    let products = 2 * (qk_products * head_dim as u64 + value_products * value_dim as u64);
    scores * (products + elementwise + u64::from(config.mask))
}
