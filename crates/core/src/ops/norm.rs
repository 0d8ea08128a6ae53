//! Normalization ops.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply, apply_one};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::precision;
use crate::shape::AxisSet;
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

mod batch;
mod checks;

pub use batch::{BatchNorm, BatchNormGrad};

use batch::{channel_affine, per_channel};
use checks::{check_vector, normal_dtype, output_grad, residual_grad, rounded_output, rows_and_width};

/// `y = (x - mean) / sqrt(var + eps) * weight + bias` over the last axis (Ba et al. 2016); var is
/// the biased (population) variance.
///
/// Inputs: x `[.., width]` floating, then weight `[width]` and bias `[width]` of x's dtype if
/// `weight` / `bias`. Outputs: y with x's shape and dtype, or `out_dtype`; mean and reciprocal
/// standard deviation `1/sqrt(var + eps)`, `[..]` (auxiliary), in the `accumulator()` dtype.
/// Statistics are computed in two passes in the accumulator dtype.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Added to the variance.
    pub eps: f64,
    /// Whether a weight follows x.
    pub weight: bool,
    /// Whether a bias follows (after the weight).
    pub bias: bool,
    /// The half precision to which an f32 y is rounded. Default: not rounded.
    pub out_dtype: Option<DType>,
}

/// Gradient of [`LayerNorm`]: with `n = (x - mean) * rstd`, `g = dy * weight`:
/// `dx = rstd * (g - mean(g) - n * mean(g * n))`, `dweight = sum(dy * n)`, `dbias = sum(dy)` over
/// all rows.
///
/// Inputs: x, mean, rstd, dy (x's dtype, or half precision if x is f32), then weight if `weight`,
/// then the residual's gradient, with x's shape and dtype, if `residual`. Outputs: dx with x's
/// shape and dtype; then dweight `[width]` if `weight`; then dbias `[width]` if `bias`; then dx
/// rounded to the half precision of dy if `rounds`.
#[derive(Clone, Debug)]
pub struct LayerNormGrad {
    /// Whether there was a weight.
    pub weight: bool,
    /// Whether there was a bias.
    pub bias: bool,
    /// Whether the gradient of x from another use, such as a residual connection, is added to dx.
    pub residual: bool,
    /// Whether dx is also output in the half precision of dy, for matrix products whose gradients
    /// read it in this dtype.
    pub rounds: bool,
}

/// `y = x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang and Sennrich 2019, eq. 4).
///
/// Inputs: x `[.., width]` floating, then weight `[width]` if `weight`. Outputs: y with x's shape
/// and dtype, or `out_dtype`; reciprocal root mean square `[..]` (auxiliary), in the
/// `accumulator()` dtype.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
    /// Whether a weight follows x.
    pub weight: bool,
    /// The half precision to which an f32 y is rounded. Default: not rounded.
    pub out_dtype: Option<DType>,
}

/// Gradient of [`RmsNorm`]: with `n = x * rrms`, `g = dy * weight`:
/// `dx = rrms * (g - n * mean(g * n))`, `dweight = sum(dy * n)`.
///
/// Inputs: x, rrms, dy (x's dtype, or half precision if x is f32), then weight if `weight`, then
/// the residual's gradient, with x's shape and dtype, if `residual`. Outputs: dx with x's shape and
/// dtype; then dweight `[width]` if `weight`; then dx rounded to the half precision of dy if
/// `rounds`.
#[derive(Clone, Debug)]
pub struct RmsNormGrad {
    /// Whether there was a weight.
    pub weight: bool,
    /// Whether the gradient of x from another use, such as a residual connection, is added to dx.
    pub residual: bool,
    /// Whether dx is also output in the half precision of dy, for matrix products whose gradients
    /// read it in this dtype.
    pub rounds: bool,
}

/// Takes the partial gradient of x from other uses, if it can be added in f32 or f64.
fn partial_of(context: &Context<'_>, dtype: DType) -> Option<Tensor> {
    let is_added = context.needs(0) && !dtype.is_half();
    if is_added { context.take_partial(0, dtype) } else { None }
}

/// Composes the outputs of a norm's gradient from `op`, which has no residual and whose dy has x's
/// dtype. `dy` is the index of dy in `inputs`; the residual's gradient is the last input.
fn composed_grad(
    op: impl Into<crate::Op>,
    inputs: &[Tensor],
    dy: usize,
    [residual, rounds]: [bool; 2],
) -> Result<Vec<Tensor>> {
    let (plain, rest) = inputs.split_at(inputs.len() - usize::from(residual));
    let mut plain = plain.to_vec();
    plain[dy] = plain[dy].to_dtype(inputs[0].dtype())?;
    let mut outputs = apply(op, &plain.iter().collect::<Vec<_>>())?.into_vec();
    if let [residual] = rest {
        outputs[0] = residual.add(&outputs[0])?;
    }
    if rounds {
        outputs.push(outputs[0].to_dtype(inputs[dy].dtype())?);
    }
    Ok(outputs)
}

/// Computes the outputs of a norm, and rounds the normalized rows to `out_dtype`.
fn compose_rounded(op: impl Into<crate::Op>, inputs: &[Tensor], out_dtype: DType) -> Result<Vec<Tensor>> {
    let mut outputs = apply(op, &inputs.iter().collect::<Vec<_>>())?.into_vec();
    outputs[0] = outputs[0].to_dtype(out_dtype)?;
    Ok(outputs)
}

pub(crate) fn channels(op: &'static str, x: &Meta<'_>) -> Result<Shape> {
    check::float(op, "input", x)?;
    if x.shape().rank() < 2 {
        return Err(Error::Rank { op, expected: "at least 2".into(), shape: Box::new(*x.shape()) });
    }
    Ok(Shape::unchecked(&[x.shape().dim(1)]))
}

impl Rule for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "layer_norm";
        check::count(name, inputs, 1 + usize::from(self.weight) + usize::from(self.bias))?;
        let (rows, width) = rows_and_width(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        for (position, meta) in inputs.iter().enumerate().skip(1) {
            let what = if self.weight && position == 1 { "weight" } else { "bias" };
            check_vector(name, what, meta, dtype, width)?;
        }
        let statistic = Output::fresh(rows, dtype.accumulator());
        let y = Output::fresh(*inputs[0].shape(), normal_dtype(name, dtype, self.out_dtype)?);
        Ok([y, statistic, statistic].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dtype) = (widen(&inputs[0])?, inputs[0].dtype());
        if let Some(out_dtype) = self.out_dtype.filter(|&out_dtype| out_dtype != dtype) {
            return compose_rounded(LayerNorm { out_dtype: None, ..*self }, inputs, out_dtype);
        }
        let mean = x.mean_keep(-1)?;
        let centered = x.sub(&mean)?;
        let rstd = centered.square()?.mean_keep(-1)?.add_scalar(self.eps)?.rsqrt()?;
        let weight = self.weight.then(|| &inputs[1]);
        let bias = self.bias.then(|| &inputs[inputs.len() - 1]);
        let y = apply_affine(centered.mul(&rstd)?, weight, bias)?.to_dtype(dtype)?;
        Ok(vec![y, mean.squeeze(-1)?, rstd.squeeze(-1)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 1 | u16::from(self.weight) << 1, outputs: 0b110 })
    }
    /// In double backward, [`LayerNormGrad`] also passes gradients to the statistics, which add
    /// `dmean / width` and `-drstd * rstd^2 * n / width`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let (x, mean, rstd) = (context.input(0)?, context.output(1)?, context.output(2)?);
        if let Some(dy) = &grad_outputs[0] {
            let bias = self.bias && context.needs(context.inputs() - 1);
            let residual = partial_of(context, x.dtype());
            let has_only_output_grad = grad_outputs[1..].iter().all(Option::is_none);
            let rounds = has_only_output_grad && context.wants_half_grad(0, dy.dtype());
            let op = LayerNormGrad { weight: self.weight, bias, residual: residual.is_some(), rounds };
            let mut inputs: SmallVec<[&Tensor; 6]> = SmallVec::from_slice(&[x, mean, rstd, dy]);
            if self.weight {
                inputs.push(context.input(1)?);
            }
            inputs.extend(&residual);
            let mut outputs = apply(op, &inputs)?;
            context.set_half_grad(0, if rounds { outputs.pop() } else { None });
            grads = outputs.into_iter().map(Some).collect();
            grads.resize(context.inputs(), None);
        }
        if !context.needs(0) || grad_outputs[1..].iter().all(Option::is_none) {
            return Ok(grads);
        }
        let [mean, rstd] = [mean.unsqueeze(-1)?, rstd.unsqueeze(-1)?];
        if let Some(grad) = &grad_outputs[1] {
            let term = grad.unsqueeze(-1)?.div_scalar(width_of(x))?.expand(*x.shape())?;
            add_to_grad(&mut grads[0], term, x.dtype())?;
        }
        if let Some(grad) = &grad_outputs[2] {
            let factor = grad.unsqueeze(-1)?.mul(&rstd.square()?)?.mul_scalar(-1.0 / width_of(x))?;
            let normal = widen(x)?.sub(&mean)?.mul(&rstd)?;
            add_to_grad(&mut grads[0], normal.mul(&factor)?, x.dtype())?;
        }
        Ok(grads)
    }
}

/// Converts to the accumulator dtype.
fn widen(x: &Tensor) -> Result<Tensor> {
    x.to_dtype(x.dtype().accumulator())
}

/// Computes `normal * weight + bias`, in the dtype of `normal`.
fn apply_affine(normal: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let scaled = match weight {
        Some(weight) => normal.mul(&widen(weight)?)?,
        None => normal,
    };
    match bias {
        Some(bias) => scaled.add(&widen(bias)?),
        None => Ok(scaled),
    }
}

/// Returns the size of the last axis.
fn width_of(x: &Tensor) -> f64 {
    x.dims()[x.rank() - 1] as f64
}

/// Adds `term`, converted to `dtype`, to a gradient.
fn add_to_grad(grad: &mut Option<Tensor>, term: Tensor, dtype: DType) -> Result<()> {
    let term = term.to_dtype(dtype)?;
    *grad = Some(match grad.take() {
        Some(sum) => sum.add(&term)?,
        None => term,
    });
    Ok(())
}

impl Rule for LayerNormGrad {
    fn name(&self) -> &'static str {
        "layer_norm_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "layer_norm_grad";
        check::count(name, inputs, 4 + usize::from(self.weight) + usize::from(self.residual))?;
        let (rows, width) = rows_and_width(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        check_vector(name, "mean", &inputs[1], dtype.accumulator(), rows)?;
        check_vector(name, "rstd", &inputs[2], dtype.accumulator(), rows)?;
        output_grad(name, &inputs[3], &inputs[0])?;
        if self.weight {
            check_vector(name, "weight", &inputs[4], dtype, width)?;
        }
        if self.residual {
            residual_grad(name, &inputs[inputs.len() - 1], &inputs[0])?;
        }
        let parameters = usize::from(self.weight) + usize::from(self.bias);
        let mut outputs: Outputs = [Output::fresh(*inputs[0].shape(), dtype)].into_iter().collect();
        outputs.extend(std::iter::repeat_n(Output::fresh(width, dtype), parameters));
        outputs.extend(rounded_output(name, self.rounds, &inputs[3], &inputs[0])?);
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        if self.residual || self.rounds || inputs[3].dtype() != inputs[0].dtype() {
            let plain = LayerNormGrad { residual: false, rounds: false, ..*self };
            return composed_grad(plain, inputs, 3, [self.residual, self.rounds]);
        }
        let (x, dy, dtype) = (widen(&inputs[0])?, widen(&inputs[3])?, inputs[0].dtype());
        let (mean, rstd) = (inputs[1].unsqueeze(-1)?, inputs[2].unsqueeze(-1)?);
        let normal = x.sub(&mean)?.mul(&rstd)?;
        let dnormal = apply_affine(dy.clone(), self.weight.then(|| &inputs[4]), None)?;
        let projection = normal.mul(&dnormal.mul(&normal)?.mean_keep(-1)?)?;
        let dx = dnormal.sub(&dnormal.mean_keep(-1)?)?.sub(&projection)?.mul(&rstd)?;
        let rows = AxisSet::first(x.rank() - 1);
        let mut outputs = vec![dx.to_dtype(dtype)?];
        if self.weight {
            outputs.push(dy.mul(&normal)?.sum(rows)?.to_dtype(dtype)?);
        }
        if self.bias {
            outputs.push(dy.sum(rows)?.to_dtype(dtype)?);
        }
        Ok(outputs)
    }
}

impl Rule for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "rms_norm";
        check::count(name, inputs, 1 + usize::from(self.weight))?;
        let (rows, width) = rows_and_width(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        if self.weight {
            check_vector(name, "weight", &inputs[1], dtype, width)?;
        }
        let y = Output::fresh(*inputs[0].shape(), normal_dtype(name, dtype, self.out_dtype)?);
        Ok([y, Output::fresh(rows, dtype.accumulator())].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dtype) = (widen(&inputs[0])?, inputs[0].dtype());
        if let Some(out_dtype) = self.out_dtype.filter(|&out_dtype| out_dtype != dtype) {
            return compose_rounded(RmsNorm { out_dtype: None, ..*self }, inputs, out_dtype);
        }
        let rrms = x.square()?.mean_keep(-1)?.add_scalar(self.eps)?.rsqrt()?;
        let y = apply_affine(x.mul(&rrms)?, self.weight.then(|| &inputs[1]), None)?;
        Ok(vec![y.to_dtype(dtype)?, rrms.squeeze(-1)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 1 | u16::from(self.weight) << 1, outputs: 0b10 })
    }
    /// In double backward, [`RmsNormGrad`] also passes a gradient to the statistic, which adds
    /// `-drrms * rrms^2 * n / width`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let (x, rrms) = (context.input(0)?, context.output(1)?);
        if let Some(dy) = &grad_outputs[0] {
            let residual = partial_of(context, x.dtype());
            let has_only_output_grad = grad_outputs[1..].iter().all(Option::is_none);
            let rounds = has_only_output_grad && context.wants_half_grad(0, dy.dtype());
            let op = RmsNormGrad { weight: self.weight, residual: residual.is_some(), rounds };
            let mut inputs: SmallVec<[&Tensor; 5]> = SmallVec::from_slice(&[x, rrms, dy]);
            if self.weight {
                inputs.push(context.input(1)?);
            }
            inputs.extend(&residual);
            let mut outputs = apply(op, &inputs)?;
            context.set_half_grad(0, if rounds { outputs.pop() } else { None });
            grads = outputs.into_iter().map(Some).collect();
        }
        if let (Some(grad), true) = (&grad_outputs[1], context.needs(0)) {
            let cube = rrms.square()?.mul(rrms)?.unsqueeze(-1)?;
            let factor = grad.unsqueeze(-1)?.mul(&cube)?.mul_scalar(-1.0 / width_of(x))?;
            add_to_grad(&mut grads[0], widen(x)?.mul(&factor)?, x.dtype())?;
        }
        Ok(grads)
    }
}

impl Rule for RmsNormGrad {
    fn name(&self) -> &'static str {
        "rms_norm_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "rms_norm_grad";
        check::count(name, inputs, 3 + usize::from(self.weight) + usize::from(self.residual))?;
        let (rows, width) = rows_and_width(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        check_vector(name, "rrms", &inputs[1], dtype.accumulator(), rows)?;
        output_grad(name, &inputs[2], &inputs[0])?;
        if self.residual {
            residual_grad(name, &inputs[inputs.len() - 1], &inputs[0])?;
        }
        let mut outputs: Outputs = [Output::fresh(*inputs[0].shape(), dtype)].into_iter().collect();
        if self.weight {
            check_vector(name, "weight", &inputs[3], dtype, width)?;
            outputs.push(Output::fresh(width, dtype));
        }
        outputs.extend(rounded_output(name, self.rounds, &inputs[2], &inputs[0])?);
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        if self.residual || self.rounds || inputs[2].dtype() != inputs[0].dtype() {
            let plain = RmsNormGrad { residual: false, rounds: false, ..*self };
            return composed_grad(plain, inputs, 2, [self.residual, self.rounds]);
        }
        let (x, dy, dtype) = (widen(&inputs[0])?, widen(&inputs[2])?, inputs[0].dtype());
        let rrms = inputs[1].unsqueeze(-1)?;
        let normal = x.mul(&rrms)?;
        let dnormal = apply_affine(dy.clone(), self.weight.then(|| &inputs[3]), None)?;
        let projection = normal.mul(&dnormal.mul(&normal)?.mean_keep(-1)?)?;
        let mut outputs = vec![dnormal.sub(&projection)?.mul(&rrms)?.to_dtype(dtype)?];
        if self.weight {
            outputs.push(dy.mul(&normal)?.sum(AxisSet::first(x.rank() - 1))?.to_dtype(dtype)?);
        }
        Ok(outputs)
    }
}

impl Tensor {
    /// Normalizes each row (the last axis) to mean 0 and variance 1, then computes
    /// `* weight + bias`. See [`LayerNorm`].
    ///
    /// # Shapes
    /// self `[.., width]`, weight and bias `[width]` -> this tensor's shape
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if the dtype is not floating.
    pub fn layer_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.layer_norm_as(None, weight, bias, eps)
    }

    /// Computes [`layer_norm`](Tensor::layer_norm), rounded to `out_dtype` in the same kernel: half
    /// precision for f32, as matrix products in mixed precision need it.
    ///
    /// # Errors
    /// Same as [`layer_norm`](Tensor::layer_norm), and an error if the output dtype is neither that
    /// of the rows nor half precision for f32.
    pub fn layer_norm_as(
        &self,
        out_dtype: Option<DType>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let op = LayerNorm { eps, weight: weight.is_some(), bias: bias.is_some(), out_dtype };
        let inputs: SmallVec<[&Tensor; 3]> = [Some(self), weight, bias].into_iter().flatten().collect();
        apply_one(op, &inputs)
    }

    /// Divides each row (the last axis) by its root mean square, then multiplies by `weight`. See
    /// [`RmsNorm`].
    ///
    /// # Shapes
    /// self `[.., width]`, weight `[width]` -> this tensor's shape
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if the dtype is not floating.
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.rms_norm_as(None, weight, eps)
    }

    /// Computes [`rms_norm`](Tensor::rms_norm), rounded to `out_dtype` in the same kernel: half
    /// precision for f32, as matrix products in mixed precision need it.
    ///
    /// # Errors
    /// Same as [`rms_norm`](Tensor::rms_norm), and an error if the output dtype is neither that of
    /// the rows nor half precision for f32.
    pub fn rms_norm_as(&self, out_dtype: Option<DType>, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let inputs: SmallVec<[&Tensor; 2]> = [Some(self), weight].into_iter().flatten().collect();
        apply_one(RmsNorm { eps, weight: weight.is_some(), out_dtype }, &inputs)
    }

    /// Normalizes each channel to mean 0 and variance 1 over batch and spatial axes, then computes
    /// `* weight + bias`. Also returns the mean and the biased (population) variance, f32 for half
    /// precision. See [`BatchNorm`].
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, weight and bias `[channels]` -> this tensor's shape,
    /// `[channels]`, `[channels]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if the dtype is not floating.
    pub fn batch_norm_train(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let parameters = scale_and_shift("batch_norm", self, weight, bias)?;
        let op = BatchNorm { eps, affine: parameters.is_some() };
        let mut inputs: SmallVec<[&Tensor; 3]> = SmallVec::from_slice(&[self]);
        inputs.extend(parameters.iter().flat_map(|(weight, bias)| [weight, bias]));
        let mut outputs = apply(op, &inputs)?.into_iter();
        match (outputs.next(), outputs.next(), outputs.next()) {
            (Some(y), Some(mean), Some(var)) => Ok((y, mean, var)),
            _ => Err(Error::invalid("batch_norm", "expected 3 outputs")),
        }
    }

    /// Computes `(x - mean) / sqrt(var + eps) * weight + bias` for each channel, with the
    /// statistics `mean` and `var`.
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, all others `[channels]` -> this tensor's shape
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if the dtype is not floating.
    pub fn batch_norm_eval(
        &self,
        mean: &Tensor,
        var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let name = "batch_norm";
        let expected = channels(name, &self.meta())?;
        for (what, statistic) in [("mean", mean), ("var", var)] {
            check::float(name, what, &statistic.meta())?;
            check::shape(name, what, &statistic.meta(), expected)?;
        }
        let parameters = scale_and_shift(name, self, weight, bias)?;
        let x = widen(self)?;
        let rstd = var.to_dtype(x.dtype())?.add_scalar(eps)?.rsqrt()?;
        let normal =
            x.sub(&per_channel(&mean.to_dtype(x.dtype())?, self)?)?.mul(&per_channel(&rstd, self)?)?;
        let parameters = parameters.as_ref().map(|(weight, bias)| (weight, bias));
        channel_affine(normal, parameters)?.to_dtype(self.dtype())
    }

    /// Splits the channels into `groups` groups, normalizes each group of each sample to mean 0 and
    /// variance 1, then computes `* weight + bias` for each channel (Wu and He 2018).
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, weight and bias `[channels]` -> this tensor's shape
    ///
    /// # Errors
    /// Returns an error if the number of channels is not divisible by `groups`, if shapes or dtypes
    /// are incompatible, or if the dtype is not floating.
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let name = "group_norm";
        let x = &precision::cast_to_f32(self)?;
        let channels = channels(name, &x.meta())?.dim(0);
        if groups == 0 || channels % groups != 0 {
            return Err(Error::invalid(
                name,
                format!("{channels} channels do not divide into {groups} groups"),
            ));
        }
        let parameters = scale_and_shift(name, x, weight, bias)?;
        let parameters = parameters.as_ref().map(|(weight, bias)| (weight, bias));
        if channels == 0 {
            return channel_affine(x.mul_scalar(1)?, parameters);
        }
        let batch = x.dims()[0];
        let width = x.dims()[2..].iter().product::<usize>() * (channels / groups);
        let normal = widen(x)?.reshape([batch, groups, width])?.layer_norm(None, None, eps)?;
        channel_affine(normal.reshape(*x.shape())?, parameters)?.to_dtype(x.dtype())
    }
}

/// Checks the weight and bias of all channels. If only one is missing, it is replaced by ones or
/// zeros; if both are, returns `None`.
fn scale_and_shift(
    op: &'static str,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Option<(Tensor, Tensor)>> {
    let channels = channels(op, &x.meta())?;
    let cast_as_x = |parameter: Option<&Tensor>| match precision::current() {
        Some(_) => parameter.map(|parameter| precision::cast(parameter, x.dtype())).transpose(),
        None => Ok(parameter.cloned()),
    };
    let (weight, bias) = (cast_as_x(weight)?, cast_as_x(bias)?);
    for (what, parameter) in [("weight", &weight), ("bias", &bias)] {
        if let Some(parameter) = parameter {
            check_vector(op, what, &parameter.meta(), x.dtype(), channels)?;
        }
    }
    if weight.is_none() && bias.is_none() {
        return Ok(None);
    }
    let filled = |parameter: Option<Tensor>, value: f64| match parameter {
        Some(parameter) => Ok(parameter),
        None => Tensor::full(channels, value, x.dtype(), x.device()),
    };
    Ok(Some((filled(weight, 1.0)?, filled(bias, 0.0)?)))
}
