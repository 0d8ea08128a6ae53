//! Functions composed of ops, one file per family. They run on every device and for every memory
//! layout, and each has a row in the op table.
//!
//! Gradients come from the ops. Where those would lose digits or compute `inf / inf`, a formula
//! next to the function defines the gradient ([`unary`]). Half-precision inputs are computed in
//! f32, and the result is rounded once.

mod activations;
mod blends;
mod blocks;
mod bounds;
mod channels;
pub(crate) mod closeness;
mod contractions;
pub(crate) mod convolutions;
mod correlation;
mod counts;
mod diagonals;
pub(crate) mod distances;
mod distributions;
mod division;
mod drawing;
pub(crate) mod embedding;
pub(crate) mod embedding_bag;
pub(crate) mod gradient;
pub(crate) mod grid;
pub(crate) mod indexing;
mod integers;
pub(crate) mod joining;
pub(crate) mod losses;
mod pads;
pub(crate) mod permute;
pub(crate) mod pools;
mod products;
pub(crate) mod quantiles;
mod reductions;
pub(crate) mod resize;
mod rounding;
pub(crate) mod running;
mod scaling;
pub(crate) mod sequences;
mod sets;
mod signs;
mod slice_scatter;
mod special;
pub(crate) mod splitting;
mod statistics;
mod sums_of_powers;
mod take;
mod unique;
pub(crate) mod windows;

use crate::anomaly::in_function;
use crate::autograd::{Context, Grads, no_grad, sum_to, with_gradient};
use crate::op::{Saves, check};
use crate::ops::index::index_dtype;
use crate::{DType, Device, Error, IntoShape, Result, Tensor};

/// Returns `value(x)`, with the gradient `grad(x)` times that of the result. `value` and `grad` get
/// f32 instead of half precision, and their results are rounded once. `grad` is recorded if a
/// double backward is needed.
///
/// # Errors
/// Returns an error with the name `name` if the dtype is not floating-point.
pub(crate) fn unary(
    name: &'static str,
    x: &Tensor,
    value: impl Fn(&Tensor) -> Result<Tensor>,
    grad: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    check_floating(name, x)?;
    let dtype = x.dtype().accumulator();
    let y = in_function(name, &[x], || no_grad(|| value(&x.to_dtype(dtype)?)?.to_dtype(x.dtype())))?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let derivative = grad(&context.input(0)?.to_dtype(dtype)?)?;
        let dx = dy.to_dtype(dtype)?.mul(&derivative)?.to_dtype(context.dtype(0))?;
        Ok(Grads::from_elem(Some(dx), 1))
    };
    Ok(with_gradient(name, &[x], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
}

/// A function of two tensors.
type BinaryFn = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Returns `value(x, y)` with broadcasting. The gradients are `grads[0](x, y)` and `grads[1](x, y)`
/// times that of the result, summed over broadcast axes. Otherwise the same as [`unary`].
///
/// # Errors
/// Returns an error with the name `name` if the shapes do not broadcast, or if the dtypes differ or
/// are not floating-point.
pub(crate) fn binary(
    name: &'static str,
    [x, y]: [&Tensor; 2],
    value: BinaryFn,
    grads: [BinaryFn; 2],
) -> Result<Tensor> {
    check_floating(name, x)?;
    check::same_dtype(name, &x.meta(), &y.meta())?;
    x.shape().broadcast(y.shape(), name)?;
    let dtype = x.dtype().accumulator();
    let compute = || no_grad(|| value(&x.to_dtype(dtype)?, &y.to_dtype(dtype)?)?.to_dtype(x.dtype()));
    let result = in_function(name, &[x, y], compute)?;
    let rule = move |context: &Context<'_>, output_grads: &[Option<Tensor>]| {
        let mut input_grads = Grads::from_elem(None, 2);
        let Some(dy) = &output_grads[0] else { return Ok(input_grads) };
        let (x, y) = (context.input(0)?.to_dtype(dtype)?, context.input(1)?.to_dtype(dtype)?);
        for (index, grad) in grads.iter().enumerate() {
            if context.needs(index) {
                let full = dy.to_dtype(dtype)?.mul(&grad(&x, &y)?)?;
                input_grads[index] =
                    Some(sum_to(&full, context.shape(index))?.to_dtype(context.dtype(index))?);
            }
        }
        Ok(input_grads)
    };
    Ok(with_gradient(name, &[x, y], vec![result], Saves::INPUTS, rule)?.swap_remove(0))
}

/// Records `output` as a function of `inputs` whose gradients are 0.
pub(crate) fn with_zero_gradient(name: &'static str, inputs: &[&Tensor], output: Tensor) -> Result<Tensor> {
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let zeros = |input| Tensor::zeros(*context.shape(input), context.dtype(input), dy.device()).map(Some);
        (0..context.inputs()).map(zeros).collect()
    };
    Ok(with_gradient(name, inputs, vec![output], Saves::NOTHING, rule)?.swap_remove(0))
}

/// Checks that both tensors have the same dtype and that it is not bool.
pub(crate) fn check_number(name: &'static str, x: &Tensor, other: &Tensor) -> Result<()> {
    if x.dtype() == DType::Bool {
        return Err(Error::dtype(name, "input", x.dtype(), "a number"));
    }
    check::same_dtype(name, &x.meta(), &other.meta())
}

/// Checks that the shapes of both tensors broadcast.
pub(crate) fn check_broadcast(name: &'static str, x: &Tensor, other: &Tensor) -> Result<()> {
    x.shape().broadcast(other.shape(), name).map(|_| ())
}

/// Checks that `x`, the input of a function, is floating-point.
pub(crate) fn check_floating(name: &'static str, x: &Tensor) -> Result<()> {
    match x.dtype().is_float() {
        true => Ok(()),
        false => Err(Error::dtype(name, "input", x.dtype(), "a floating dtype")),
    }
}

/// Calls `f` with the inputs in their accumulation dtype, and converts its result to the dtype of
/// the first input: half precision is computed in f32 and rounded once, in forward and backward.
pub(crate) fn in_accumulator<const N: usize>(
    inputs: [&Tensor; N],
    f: impl FnOnce(&[Tensor; N]) -> Result<Tensor>,
) -> Result<Tensor> {
    let dtype = inputs[0].dtype();
    if !dtype.is_half() {
        return f(&inputs.map(Tensor::clone));
    }
    let mut wide = inputs.map(Tensor::clone);
    for input in &mut wide {
        *input = input.to_dtype(input.dtype().accumulator())?;
    }
    f(&wide)?.to_dtype(dtype)
}

/// Creates a floating-point tensor from values on the host. Values of other dtypes than f64 are
/// uploaded as f32, because not every device supports f64.
pub(crate) fn float_tensor(
    values: Vec<f64>,
    shape: impl IntoShape,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    match dtype {
        DType::F64 => Tensor::from_vec(values, shape, device),
        _ => Tensor::from_vec(values.into_iter().map(|value| value as f32).collect(), shape, device)?
            .to_dtype(dtype),
    }
}

/// Creates a tensor of indices or counts from values on the host, as i32 or, if they exceed its
/// range, as i64.
pub(crate) fn index_tensor(values: Vec<usize>, shape: impl IntoShape, device: &Device) -> Result<Tensor> {
    match index_dtype(values.iter().copied().max().unwrap_or(0)) {
        DType::I32 => Tensor::from_vec(values.into_iter().map(|value| value as i32).collect(), shape, device),
        _ => Tensor::from_vec(values.into_iter().map(|value| value as i64).collect(), shape, device),
    }
}
