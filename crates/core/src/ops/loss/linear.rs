//! Cross-entropy of a linear layer's outputs, computed in chunks of rows: the scores over the
//! vocabulary of a language model are its largest tensor, and only those of one chunk are in memory
//! at a time.
//!
//! The gradient is computed in the forward pass, chunk by chunk, in the memory of the scores. It is
//! the gradient of the sum of all rows' losses. The backward pass multiplies it by the gradient of
//! the reduced loss, a scalar.
//!
//! Rows of scores are padded to a multiple of 16 bytes by zeros at the end of the weight and the
//! bias, as in this picture. The padding belongs to no class, and no gradient contains it.
//!
//! ```text
//!                     classes   padding
//!                   +---------+---+
//!   chunk of rows   | scores  | 0 |    each row begins at a multiple of 16 bytes
//!                   |         |   |
//!                   +---------+---+
//! ```

use super::{
    CrossEntropy, CrossEntropyGrad, CrossEntropyOptions, CrossEntropyWithGrad, Reduction, count_targets,
    reduce_counted,
};
use crate::autograd::{Context, Grads, is_recording, no_grad, wants_record, with_gradient};
use crate::dispatch::{apply, apply_one};
use crate::error::{Error, Result, with_index_error_op};
use crate::op::{Saves, check};
use crate::ops::matmul::{Epilogue, LinearParameters, Matmul, MatmulOptions};
use crate::precision::{self, without_precision};
use crate::{DType, Shape, Tensor};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of scores in memory, unless the caller sets the number of rows: those of 10,000
/// tokens with the vocabulary of GPT-2, 1 GiB in half precision.
const MAX_SCORES: usize = 1 << 29;

/// The tile size of matrix products. By default, the rows of a chunk are a multiple of it.
const ROW_TILE: usize = 128;

/// Alignment of rows, in bytes, for the loads and stores of tensor-core tiles.
const ROW_ALIGNMENT: usize = 16;

/// Options of [`Tensor::linear_cross_entropy`]: the loss, and the number of rows per chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinearCrossEntropyOptions<'a> {
    /// Options as for [`Tensor::cross_entropy_with`].
    pub loss: CrossEntropyOptions<'a>,
    /// Number of rows whose scores are in memory at a time. Default: as many as have 2^29 scores.
    pub chunk_rows: Option<usize>,
}

impl Tensor {
    /// Computes `cross_entropy(linear(self), target)` without the scores of all rows in memory. The
    /// forward and the backward pass store the scores of as many rows at a time as `options` sets.
    ///
    /// The gradients of the input and of the parameters are computed in the forward pass and kept
    /// until the backward pass; they are f32 if the product is half precision. Losses without
    /// reduction, losses with class weights, and targets that are probabilities are computed with
    /// all scores.
    ///
    /// With 128 rows or more, if a row of scores is not a multiple of 16 bytes (for example with
    /// GPT-2's vocabulary of 50,257), the products use a copy of the weight that is padded with
    /// rows of zeros. They are then as fast as with an aligned number of classes. Results and
    /// gradients do not contain the padding.
    ///
    /// # Shapes
    /// self `[.., in]`, weight `[classes, in]`, bias `[classes]`, class indices `[..]` -> `[]`
    ///
    /// # Errors
    /// Returns the errors of `linear` and of [`cross_entropy_with`](Tensor::cross_entropy_with),
    /// and an error for chunks of 0 rows.
    pub fn linear_cross_entropy(
        &self,
        parameters: LinearParameters<'_>,
        target: &Tensor,
        options: LinearCrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        let name = "linear_cross_entropy";
        let LinearCrossEntropyOptions { loss, chunk_rows } = options;
        if chunk_rows == Some(0) {
            return Err(Error::invalid(name, "chunk_rows 0, expected at least 1"));
        }
        let Some((&width, leading)) = self.dims().split_last() else {
            return Err(Error::Rank {
                op: name,
                expected: "at least 1".into(),
                shape: Box::new(*self.shape()),
            });
        };
        let [classes, inputs] = parameters.weight.shape().to_array(name)?;
        if width != inputs {
            let shapes = format!("{:?} with weight {:?}", self.shape(), parameters.weight.shape());
            let detail = format!("{shapes}: inner sizes {width} and {inputs} differ");
            return Err(Error::invalid(name, detail));
        }
        if let Some(bias) = parameters.bias {
            check::shape(name, "bias", &bias.meta(), Shape::new(&[classes])?)?;
        }
        let rows = leading.iter().product();
        let x = self.reshape([rows, width])?;
        let chunked = matches!(loss.reduction, Reduction::Mean | Reduction::Sum);
        if !chunked || loss.weight.is_some() || target.dtype().is_float() || classes == 0 {
            return with_all_scores(&x, parameters, leading, target, loss);
        }
        if !(0.0..=1.0).contains(&loss.label_smoothing) {
            let detail = format!("label smoothing {}, expected 0 to 1", loss.label_smoothing);
            return Err(Error::invalid(name, detail));
        }
        check::index(name, "target", &target.meta())?;
        check::shape(name, "target", &target.meta(), Shape::new(leading)?)?;
        let target = target.reshape([rows])?;
        let (x, weight, bias) = match precision::current() {
            None => (x, parameters.weight.clone(), parameters.bias.cloned()),
            Some(scope) => {
                let (weight, bias) = (scope.operand(parameters.weight)?, scope.optional(parameters.bias)?);
                (scope.operand(&x)?, weight, bias)
            }
        };
        let max_rows = chunk_rows.unwrap_or_else(|| MAX_SCORES / classes).clamp(1, rows.max(1));
        let chunk = match chunk_rows {
            Some(rows) => rows,
            None => rows.div_ceil(rows.div_ceil(max_rows).max(1)).max(1).next_multiple_of(ROW_TILE),
        };
        let product = precision::current().map_or(Matmul::PLAIN, |scope| scope.product_of(&x));
        Layer { x, weight, bias, target, classes, chunk, product, options: ReducedOptions::of(&loss) }.loss()
    }
}

/// Computes the loss with all scores, for options that need all losses or other formulas.
fn with_all_scores(
    x: &Tensor,
    parameters: LinearParameters<'_>,
    leading: &[usize],
    target: &Tensor,
    options: CrossEntropyOptions<'_>,
) -> Result<Tensor> {
    let scores = x.linear(parameters.weight, parameters.bias)?;
    let per_row: Vec<usize> = match target.dtype().is_float() {
        true => scores.dims().to_vec(),
        false => vec![scores.dims()[0]],
    };
    let expected: Vec<usize> = match target.dtype().is_float() {
        true => leading.iter().copied().chain([scores.dims()[1]]).collect(),
        false => leading.to_vec(),
    };
    check::shape("linear_cross_entropy", "target", &target.meta(), Shape::new(&expected)?)?;
    let losses = scores.cross_entropy_with(&target.reshape(per_row)?, options)?;
    if options.reduction == Reduction::None { losses.reshape(leading.to_vec()) } else { Ok(losses) }
}

/// The options that apply to a reduced loss.
#[derive(Clone, Copy)]
struct ReducedOptions {
    ignore_index: i64,
    label_smoothing: f64,
    reduction: Reduction,
}

impl ReducedOptions {
    fn of(options: &CrossEntropyOptions<'_>) -> ReducedOptions {
        let CrossEntropyOptions { ignore_index, label_smoothing, reduction, .. } = *options;
        ReducedOptions { ignore_index, label_smoothing, reduction }
    }
}

/// A linear layer with its input rows, their targets, and the number of rows per chunk.
#[derive(Clone)]
struct Layer {
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    target: Tensor,
    /// Number of classes. The weight and the bias have more rows if they are
    /// [`padded`](Layer::padded).
    classes: usize,
    chunk: usize,
    /// The permissions of f32 products.
    product: Matmul,
    options: ReducedOptions,
}

/// The gradients of the sum of all rows' losses, in the accumulator dtype, for the tensors that
/// need one.
#[derive(Default)]
struct PrecomputedGrads {
    x: Option<Tensor>,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
}

impl Layer {
    fn loss(self) -> Result<Tensor> {
        let inputs: Vec<&Tensor> = [&self.x, &self.weight].into_iter().chain(&self.bias).collect();
        let needed = wants_record(&inputs);
        let (loss, precomputed) =
            no_grad(|| without_precision(|| self.run(needed.then(|| self.needed_grads()))))?;
        if !needed {
            return Ok(loss);
        }
        let inputs: Vec<&Tensor> =
            [&self.x, &self.weight, &self.target].into_iter().chain(&self.bias).collect();
        let (precomputed, options) = (Arc::new(Mutex::new(Some(precomputed))), self.options);
        let (classes, chunk) = (self.classes, self.chunk);
        let product = self.product.clone();
        let saves = Saves { inputs: 0b1111, outputs: 0 };
        let outputs = with_gradient(
            "linear_cross_entropy",
            &inputs,
            vec![loss],
            saves,
            move |context, grad_outputs| {
                let Some(dloss) = &grad_outputs[0] else { return Ok(Grads::new()) };
                let input = |index: usize| context.input(index).map(Tensor::detach);
                let bias = (context.inputs() > 3).then(|| context.input(3).cloned()).transpose()?;
                let product = product.clone();
                if is_recording() {
                    let (x, weight, target) =
                        (context.input(0)?.clone(), context.input(1)?.clone(), context.input(2)?.clone());
                    let layer = Layer { x, weight, bias, target, classes, chunk, product, options };
                    return layer.recorded_gradients(dloss);
                }
                // The precomputed gradient is consumed here. A second backward pass recomputes it.
                let precomputed = precomputed.lock().unwrap_or_else(PoisonError::into_inner).take();
                let (x, weight, target) = (input(0)?, input(1)?, input(2)?);
                let layer = Layer { x, weight, bias, target, classes, chunk, product, options };
                let needed = [context.needs(0), context.needs(1), context.needs(3)];
                let precomputed = match precomputed {
                    Some(precomputed) => precomputed,
                    None => layer.run(Some(needed))?.1,
                };
                layer.gradients(context, precomputed, dloss)
            },
        )?;
        outputs.into_iter().next().ok_or_else(|| Error::autograd("linear_cross_entropy has no output"))
    }

    /// Returns the layer padded with zero classes, so that rows of scores begin at multiples of 16
    /// bytes. Returns it unchanged if they do so anyway, or if the product has too few rows for the
    /// copy to pay off.
    fn padded(&self) -> Result<Layer> {
        let pack = (ROW_ALIGNMENT / self.x.dtype().size()).max(1);
        let padding = self.classes.next_multiple_of(pack) - self.classes;
        let rows = self.chunk.min(self.x.dims()[0]);
        if padding == 0 || rows < ROW_TILE {
            return Ok(self.clone());
        }
        let append_zeros = |tensor: &Tensor| -> Result<Tensor> {
            let dims: Vec<usize> = [padding].iter().chain(&tensor.dims()[1..]).copied().collect();
            Tensor::concat(&[tensor, &Tensor::zeros(dims, tensor.dtype(), tensor.device())?], 0)
        };
        let (weight, bias) = (append_zeros(&self.weight)?, self.bias.as_ref().map(append_zeros).transpose()?);
        Ok(Layer { weight, bias, ..self.clone() })
    }

    /// Computes the scores `[rows, classes]`, followed by those of the padding.
    fn scores(&self, x: &Tensor) -> Result<Tensor> {
        let Matmul { tf32, bf16x6, .. } = self.product;
        let options = MatmulOptions { bias: self.bias.as_ref(), tf32, bf16x6, ..Default::default() };
        x.matmul_with(&self.weight.t()?, options)
    }

    fn needed_grads(&self) -> [bool; 3] {
        [self.x.needs_grad(), self.weight.needs_grad(), self.bias.as_ref().is_some_and(Tensor::needs_grad)]
    }

    fn count(&self) -> Result<Option<Tensor>> {
        let dtype = self.x.dtype().accumulator();
        match self.options.reduction {
            Reduction::Mean => count_targets(&self.target, self.options.ignore_index, dtype).map(Some),
            _ => Ok(None),
        }
    }

    /// Computes the loss and, if any are needed, the gradients, chunk by chunk.
    fn run(&self, needed: Option<[bool; 3]>) -> Result<(Tensor, PrecomputedGrads)> {
        let (losses, mut precomputed) = self.padded()?.losses_and_input_grads(needed)?;
        for precomputed in [&mut precomputed.weight, &mut precomputed.bias].into_iter().flatten() {
            *precomputed = precomputed.narrow(0, 0, self.classes)?;
        }
        let loss = reduce_counted("linear_cross_entropy", &losses, self.count()?, self.options.reduction)?;
        Ok((loss, precomputed))
    }

    /// Computes the losses of all rows, and the gradients including the padding.
    fn losses_and_input_grads(&self, needed: Option<[bool; 3]>) -> Result<(Tensor, PrecomputedGrads)> {
        let rows = self.x.dims()[0];
        let (mut losses, mut x_grads, mut precomputed) =
            (Vec::new(), Vec::new(), PrecomputedGrads::default());
        for start in (0..rows.max(1)).step_by(self.chunk) {
            let count = self.chunk.min(rows - start);
            let (x, target) = (self.x.narrow(0, start, count)?, self.target.narrow(0, start, count)?);
            let Some(needed) = needed else {
                losses.push(self.losses(&x, &target)?);
                continue;
            };
            let (row_losses, grad) = self.losses_and_grad(&x, &target)?;
            losses.push(row_losses);
            if needed[0] {
                x_grads.push(self.accumulate_product(&grad, &self.weight, None)?);
            }
            if needed[1] {
                precomputed.weight =
                    Some(self.accumulate_product(&grad.t()?, &x, precomputed.weight.take())?);
            }
            if needed[2] {
                let sum = grad.to_accumulator()?.sum(0)?;
                precomputed.bias = Some(match precomputed.bias.take() {
                    Some(previous) => previous.add(&sum)?,
                    None => sum,
                });
            }
        }
        precomputed.x = match x_grads.len() {
            0 => None,
            1 => x_grads.pop(),
            _ => Some(Tensor::concat(&x_grads.iter().collect::<Vec<_>>(), 0)?),
        };
        Ok((Tensor::concat(&losses.iter().collect::<Vec<_>>(), 0)?, precomputed))
    }

    fn losses(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let ReducedOptions { ignore_index, label_smoothing, .. } = self.options;
        let scores = self.scores(x)?.narrow(1, 0, self.classes)?;
        let op = CrossEntropy { ignore_index, label_smoothing };
        with_index_error_op("linear_cross_entropy", || Ok(apply(op, &[&scores, target])?.swap_remove(0)))
    }

    /// Computes the losses of some rows, and the gradient of their sum with respect to the scores,
    /// in the scores' memory; it is 0 for the padding.
    fn losses_and_grad(&self, x: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
        let ReducedOptions { ignore_index, label_smoothing, .. } = self.options;
        let scores = self.scores(x)?;
        let ones = Tensor::ones((), scores.dtype().accumulator(), scores.device())?;
        let [rows, padded_classes] = scores.shape().to_array("linear_cross_entropy")?;
        let (of_classes, padding) = (scores.narrow(1, 0, self.classes)?, padded_classes - self.classes);
        if padding > 0 {
            // These scores are already 0 except in rows with infinities or NaN, which must not
            // reach the gradient of an ignored row.
            scores.narrow(1, self.classes, padding)?.fill_(0.0)?;
        }
        let op = CrossEntropyWithGrad { ignore_index, label_smoothing, in_place: true };
        let inputs = [&of_classes, target, &ones.expand([rows])?];
        let losses = with_index_error_op("linear_cross_entropy", || Ok(apply(op, &inputs)?.swap_remove(0)))?;
        Ok((losses, scores))
    }

    /// Multiplies the precomputed gradients by the gradient of the loss of each row.
    fn gradients(
        &self,
        context: &Context<'_>,
        precomputed: PrecomputedGrads,
        dloss: &Tensor,
    ) -> Result<Grads> {
        let factor = match self.count()? {
            // If all rows are ignored, the gradients are zeros, not NaN, as in the composition.
            Some(count) => {
                let all_ignored = count.eq_scalar(0i64)?;
                all_ignored.where_(&dloss.scalar_like(0i64)?, &dloss.div(&count)?)?
            }
            None => dloss.clone(),
        };
        let scaled = |precomputed: Option<Tensor>, index: usize| -> Result<Option<Tensor>> {
            let Some(grad) = precomputed.filter(|_| context.needs(index)) else { return Ok(None) };
            grad.mul_(&factor)?;
            grad.to_dtype(context.pre_cast_dtype(index).unwrap_or(context.dtype(index))).map(Some)
        };
        let mut grads: Grads =
            [scaled(precomputed.x, 0)?, scaled(precomputed.weight, 1)?, None].into_iter().collect();
        if context.inputs() > 3 {
            grads.push(scaled(precomputed.bias, 3)?);
        }
        Ok(grads)
    }

    /// Computes `left right`, plus `sum`, in the accumulator dtype.
    fn accumulate_product(&self, left: &Tensor, right: &Tensor, sum: Option<Tensor>) -> Result<Tensor> {
        let out_dtype = left.dtype().is_half().then_some(DType::F32);
        let epilogue = Epilogue { residual: sum.is_some(), out_dtype, ..Epilogue::NONE };
        let op = Matmul { epilogue, ..self.product.clone() };
        match &sum {
            Some(sum) => apply_one(op, &[left, right, sum]),
            None => apply_one(op, &[left, right]),
        }
    }

    /// Computes the gradients with recorded ops, for all scores at once.
    fn recorded_gradients(&self, dloss: &Tensor) -> Result<Grads> {
        let ReducedOptions { ignore_index, label_smoothing, .. } = self.options;
        let scores = self.scores(&self.x)?;
        let outputs = apply(CrossEntropy { ignore_index, label_smoothing }, &[&scores, &self.target])?;
        let dloss = match self.count()? {
            Some(count) => dloss.div(&count)?,
            None => dloss.clone(),
        };
        let per_row = dloss.expand([scores.dims()[0]])?;
        let op = CrossEntropyGrad { ignore_index, label_smoothing };
        let grad = apply_one(op, &[&scores, &self.target, &outputs[1], &per_row])?;
        let product = |left: &Tensor, right: &Tensor| apply_one(self.product.clone(), &[left, right]);
        let mut grads: Grads =
            [Some(product(&grad, &self.weight)?), Some(product(&grad.t()?, &self.x)?), None]
                .into_iter()
                .collect();
        if self.bias.is_some() {
            grads.push(Some(grad.sum(0)?.to_dtype(scores.dtype())?));
        }
        Ok(grads)
    }
}
