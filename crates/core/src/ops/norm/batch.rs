//! Normalization of channels over batch and spatial axes.

use super::{add_to_grad, apply_affine, channels, check_vector, widen};
use crate::Tensor;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply;
use crate::error::Result;
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::shape::AxisSet;
use smallvec::SmallVec;

/// `y = (x - mean) / sqrt(var + eps) * weight + bias` for each channel over batch and spatial axes
/// (Ioffe and Szegedy 2015), with the statistics of this batch; var is the biased (population)
/// variance.
///
/// Inputs: x `[batch, channels, ..]` floating, then weight `[channels]` and bias `[channels]` of
/// x's dtype if `affine`. Outputs: y with x's shape and dtype; mean and variance `[channels]`
/// (auxiliary), in the `accumulator()` dtype.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// Added to the variance.
    pub eps: f64,
    /// Whether weight and bias follow x.
    pub affine: bool,
}

/// Gradient of [`BatchNorm`]: the formulas of [`LayerNormGrad`](super::LayerNormGrad), with means
/// over batch and spatial axes of each channel, and `rstd = 1/sqrt(var + eps)`.
///
/// Inputs: x, mean `[channels]`, var `[channels]`, dy, then weight if `affine`. Outputs: dx with
/// x's shape and dtype; then dweight and dbias `[channels]` if `affine`.
#[derive(Clone, Debug)]
pub struct BatchNormGrad {
    /// Added to the variance.
    pub eps: f64,
    /// Whether there were weight and bias.
    pub affine: bool,
}

impl Rule for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "batch_norm";
        check::count(name, inputs, if self.affine { 3 } else { 1 })?;
        let channels = channels(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        if self.affine {
            check_vector(name, "weight", &inputs[1], dtype, channels)?;
            check_vector(name, "bias", &inputs[2], dtype, channels)?;
        }
        let statistic = Output::fresh(channels, dtype.accumulator());
        Ok([Output::fresh(*inputs[0].shape(), dtype), statistic, statistic].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dtype) = (widen(&inputs[0])?, inputs[0].dtype());
        let axes = all_but_channels(&x);
        let mean = x.mean_keep(axes)?;
        let centered = x.sub(&mean)?;
        let var = centered.square()?.mean_keep(axes)?;
        let normal = centered.mul(&var.add_scalar(self.eps)?.rsqrt()?)?;
        let y = channel_affine(normal, self.affine.then(|| (&inputs[1], &inputs[2])))?;
        Ok(vec![y.to_dtype(dtype)?, mean.squeeze(axes)?, var.squeeze(axes)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 1 | u16::from(self.affine) << 1, outputs: 0b110 })
    }
    /// In double backward, [`BatchNormGrad`] also passes gradients to the statistics, which add
    /// `dmean / count` and `2 * dvar * (x - mean) / count`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let (x, mean, var) = (context.input(0)?, context.output(1)?, context.output(2)?);
        if let Some(dy) = &grad_outputs[0] {
            let op = BatchNormGrad { eps: self.eps, affine: self.affine };
            let mut inputs: SmallVec<[&Tensor; 5]> = SmallVec::from_slice(&[x, mean, var, dy]);
            if self.affine {
                inputs.push(context.input(1)?);
            }
            grads = apply(op, &inputs)?.into_iter().map(Some).collect();
        }
        if !context.needs(0) {
            return Ok(grads);
        }
        let count = all_but_channels(x).elements(x.shape()) as f64;
        if let Some(grad) = &grad_outputs[1] {
            let term = per_channel(grad, x)?.div_scalar(count)?.expand(*x.shape())?;
            add_to_grad(&mut grads[0], term, x.dtype())?;
        }
        if let Some(grad) = &grad_outputs[2] {
            let centered = widen(x)?.sub(&per_channel(mean, x)?)?;
            let term = centered.mul(&per_channel(grad, x)?.mul_scalar(2.0 / count)?)?;
            add_to_grad(&mut grads[0], term, x.dtype())?;
        }
        Ok(grads)
    }
}

/// Returns every axis of `[batch, channels, ..]` except the channels.
fn all_but_channels(x: &Tensor) -> AxisSet {
    (0..x.rank()).filter(|&axis| axis != 1).fold(AxisSet::EMPTY, AxisSet::with)
}

/// Reshapes `[channels]` to `[1, channels, 1, ..]`, with the rank of `x`.
pub(super) fn per_channel(vector: &Tensor, x: &Tensor) -> Result<Tensor> {
    vector.reshape(all_but_channels(x).keep(x.shape()).with_dim(1, vector.elements()))
}

/// Computes `normal * weight + bias` for each channel, in the dtype of `normal`.
pub(super) fn channel_affine(normal: Tensor, parameters: Option<(&Tensor, &Tensor)>) -> Result<Tensor> {
    let Some((weight, bias)) = parameters else { return Ok(normal) };
    let (weight, bias) = (per_channel(weight, &normal)?, per_channel(bias, &normal)?);
    apply_affine(normal, Some(&weight), Some(&bias))
}

impl Rule for BatchNormGrad {
    fn name(&self) -> &'static str {
        "batch_norm_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "batch_norm_grad";
        check::count(name, inputs, 4 + usize::from(self.affine))?;
        let channels = channels(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        check_vector(name, "mean", &inputs[1], dtype.accumulator(), channels)?;
        check_vector(name, "var", &inputs[2], dtype.accumulator(), channels)?;
        check_vector(name, "grad_output", &inputs[3], dtype, *inputs[0].shape())?;
        let mut outputs: Outputs = [Output::fresh(*inputs[0].shape(), dtype)].into_iter().collect();
        if self.affine {
            check_vector(name, "weight", &inputs[4], dtype, channels)?;
            outputs.extend([Output::fresh(channels, dtype); 2]);
        }
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dy, dtype) = (widen(&inputs[0])?, widen(&inputs[3])?, inputs[0].dtype());
        let axes = all_but_channels(&x);
        let rstd = per_channel(&inputs[2], &x)?.add_scalar(self.eps)?.rsqrt()?;
        let normal = x.sub(&per_channel(&inputs[1], &x)?)?.mul(&rstd)?;
        let dnormal = match self.affine {
            true => dy.mul(&per_channel(&widen(&inputs[4])?, &x)?)?,
            false => dy.clone(),
        };
        let projection = normal.mul(&dnormal.mul(&normal)?.mean_keep(axes)?)?;
        let dx = dnormal.sub(&dnormal.mean_keep(axes)?)?.sub(&projection)?.mul(&rstd)?;
        let mut outputs = vec![dx.to_dtype(dtype)?];
        if self.affine {
            outputs.push(dy.mul(&normal)?.sum(axes)?.to_dtype(dtype)?);
            outputs.push(dy.sum(axes)?.to_dtype(dtype)?);
        }
        Ok(outputs)
    }
}
