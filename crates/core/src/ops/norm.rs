//! Normalisations.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply, apply_one};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::precision;
use crate::shape::AxisSet;
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// `y = (x - mean) / sqrt(var + eps) * weight + bias` over the last axis (Ba et al. 2016); var is the population's.
///
/// Inputs: x `[.., width]` floating, then weight `[width]` and bias `[width]` of x's dtype if `weight` / `bias`. Outputs: y as x; mean and
/// reciprocal deviation `1/sqrt(var + eps)`, `[..]` (auxiliary), in `accumulator()` of the dtype. Statistics are formed in two passes in
/// the accumulator dtype.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Added to the variance.
    pub eps: f64,
    /// Whether a weight follows x.
    pub weight: bool,
    /// Whether a bias follows (after the weight).
    pub bias: bool,
}

/// Gradient of [`LayerNorm`]: with `n = (x - mean) * rstd`, `g = dy * weight`: `dx = rstd * (g - mean(g) - n * mean(g * n))`,
/// `dweight = sum(dy * n)`, `dbias = sum(dy)` over all rows.
///
/// Inputs: x, mean, rstd, dy, then weight if `weight`. Outputs: dx as x; then dweight `[width]` if `weight`; then dbias `[width]` if `bias`.
#[derive(Clone, Debug)]
pub struct LayerNormGrad {
    /// Whether there was a weight.
    pub weight: bool,
    /// Whether there was a bias.
    pub bias: bool,
}

/// `y = x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang and Sennrich 2019, eq. 4).
///
/// Inputs: x `[.., width]` floating, then weight `[width]` if `weight`. Outputs: y as x; reciprocal root mean square `[..]` (auxiliary), in
/// `accumulator()` of the dtype.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
    /// Whether a weight follows x.
    pub weight: bool,
}

/// Gradient of [`RmsNorm`]: with `n = x * rrms`, `g = dy * weight`: `dx = rrms * (g - n * mean(g * n))`, `dweight = sum(dy * n)`.
///
/// Inputs: x, rrms, dy, then weight if `weight`. Outputs: dx as x; then dweight `[width]` if `weight`.
#[derive(Clone, Debug)]
pub struct RmsNormGrad {
    /// Whether there was a weight.
    pub weight: bool,
}

/// `y = (x - mean) / sqrt(var + eps) * weight + bias` for each channel over batch and space (Ioffe and Szegedy 2015), with the statistics
/// of this batch; var is the population's.
///
/// Inputs: x `[batch, channels, ..]` floating, then weight `[channels]` and bias `[channels]` of x's dtype if `affine`. Outputs: y as x; mean and
/// variance `[channels]` (auxiliary), in `accumulator()` of the dtype.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// Added to the variance.
    pub eps: f64,
    /// Whether weight and bias follow x.
    pub affine: bool,
}

/// Gradient of [`BatchNorm`]: as [`LayerNormGrad`], means over batch and space of each channel, `rstd = 1/sqrt(var + eps)`.
///
/// Inputs: x, mean `[channels]`, var `[channels]`, dy, then weight if `affine`. Outputs: dx as x; then dweight and dbias `[channels]` if `affine`.
#[derive(Clone, Debug)]
pub struct BatchNormGrad {
    /// Added to the variance.
    pub eps: f64,
    /// Whether there were weight and bias.
    pub affine: bool,
}

/// `[.., width]` -> `([..], [width])`.
fn rows_and_width(op: &'static str, x: &Meta<'_>) -> Result<(Shape, Shape)> {
    check::float(op, "input", x)?;
    let shape = x.shape();
    match shape.dims().split_last() {
        Some((&width, rows)) => Ok((Shape::unchecked(rows), Shape::unchecked(&[width]))),
        None => Err(Error::Rank { op, expected: "at least 1".into(), shape: Box::new(*shape) }),
    }
}

fn vector(op: &'static str, what: &'static str, meta: &Meta<'_>, dtype: DType, shape: Shape) -> Result<()> {
    check::dtype(op, what, meta, dtype)?;
    check::shape(op, what, meta, shape)
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
            vector(name, what, meta, dtype, width)?;
        }
        let statistic = Output::fresh(rows, dtype.accumulator());
        Ok([Output::fresh(*inputs[0].shape(), dtype), statistic, statistic].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dtype) = (wide(&inputs[0])?, inputs[0].dtype());
        let mean = x.mean_keep(-1)?;
        let centred = x.sub(&mean)?;
        let rstd = centred.square()?.mean_keep(-1)?.add_scalar(self.eps)?.rsqrt()?;
        let weight = self.weight.then(|| &inputs[1]);
        let bias = self.bias.then(|| &inputs[inputs.len() - 1]);
        let y = affine(centred.mul(&rstd)?, weight, bias)?.to_dtype(dtype)?;
        Ok(vec![y, mean.squeeze(-1)?, rstd.squeeze(-1)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 1 | u16::from(self.weight) << 1, outputs: 0b110 })
    }
    /// The statistics have gradients too (`dmean / width` and `-drstd * rstd^2 * n / width`): those of [`LayerNormGrad`] lead there.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let (x, mean, rstd) = (context.input(0)?, context.output(1)?, context.output(2)?);
        if let Some(dy) = &grad_outputs[0] {
            let bias = self.bias && context.needs(context.inputs() - 1);
            let op = LayerNormGrad { weight: self.weight, bias };
            let mut inputs: SmallVec<[&Tensor; 5]> = SmallVec::from_slice(&[x, mean, rstd, dy]);
            if self.weight {
                inputs.push(context.input(1)?);
            }
            grads = apply(op, &inputs)?.into_iter().map(Some).collect();
            grads.resize(context.inputs(), None);
        }
        if !context.needs(0) || grad_outputs[1..].iter().all(Option::is_none) {
            return Ok(grads);
        }
        let [mean, rstd] = [mean.unsqueeze(-1)?, rstd.unsqueeze(-1)?];
        if let Some(grad) = &grad_outputs[1] {
            let share = grad.unsqueeze(-1)?.div_scalar(width_of(x))?.expand(*x.shape())?;
            add_share(&mut grads[0], share, x.dtype())?;
        }
        if let Some(grad) = &grad_outputs[2] {
            let factor = grad.unsqueeze(-1)?.mul(&rstd.square()?)?.mul_scalar(-1.0 / width_of(x))?;
            let normal = wide(x)?.sub(&mean)?.mul(&rstd)?;
            add_share(&mut grads[0], normal.mul(&factor)?, x.dtype())?;
        }
        Ok(grads)
    }
}

/// In the accumulator dtype.
fn wide(x: &Tensor) -> Result<Tensor> {
    x.to_dtype(x.dtype().accumulator())
}

/// `normal * weight + bias`, in the dtype of `normal`.
fn affine(normal: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let scaled = match weight {
        Some(weight) => normal.mul(&wide(weight)?)?,
        None => normal,
    };
    match bias {
        Some(bias) => scaled.add(&wide(bias)?),
        None => Ok(scaled),
    }
}

/// The size of the last axis.
fn width_of(x: &Tensor) -> f64 {
    x.dims()[x.rank() - 1] as f64
}

/// Adds `share`, cast, to a gradient.
fn add_share(grad: &mut Option<Tensor>, share: Tensor, dtype: DType) -> Result<()> {
    let share = share.to_dtype(dtype)?;
    *grad = Some(match grad.take() {
        Some(sum) => sum.add(&share)?,
        None => share,
    });
    Ok(())
}

impl Rule for LayerNormGrad {
    fn name(&self) -> &'static str {
        "layer_norm_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "layer_norm_grad";
        check::count(name, inputs, 4 + usize::from(self.weight))?;
        let (rows, width) = rows_and_width(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        vector(name, "mean", &inputs[1], dtype.accumulator(), rows)?;
        vector(name, "rstd", &inputs[2], dtype.accumulator(), rows)?;
        vector(name, "grad_output", &inputs[3], dtype, *inputs[0].shape())?;
        if self.weight {
            vector(name, "weight", &inputs[4], dtype, width)?;
        }
        let parameters = usize::from(self.weight) + usize::from(self.bias);
        let mut outputs: Outputs = [Output::fresh(*inputs[0].shape(), dtype)].into_iter().collect();
        outputs.extend(std::iter::repeat_n(Output::fresh(width, dtype), parameters));
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dy, dtype) = (wide(&inputs[0])?, wide(&inputs[3])?, inputs[0].dtype());
        let (mean, rstd) = (inputs[1].unsqueeze(-1)?, inputs[2].unsqueeze(-1)?);
        let normal = x.sub(&mean)?.mul(&rstd)?;
        let dnormal = affine(dy.clone(), self.weight.then(|| &inputs[4]), None)?;
        let along = normal.mul(&dnormal.mul(&normal)?.mean_keep(-1)?)?;
        let dx = dnormal.sub(&dnormal.mean_keep(-1)?)?.sub(&along)?.mul(&rstd)?;
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
            vector(name, "weight", &inputs[1], dtype, width)?;
        }
        Ok([Output::fresh(*inputs[0].shape(), dtype), Output::fresh(rows, dtype.accumulator())]
            .into_iter()
            .collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dtype) = (wide(&inputs[0])?, inputs[0].dtype());
        let rrms = x.square()?.mean_keep(-1)?.add_scalar(self.eps)?.rsqrt()?;
        let y = affine(x.mul(&rrms)?, self.weight.then(|| &inputs[1]), None)?;
        Ok(vec![y.to_dtype(dtype)?, rrms.squeeze(-1)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 1 | u16::from(self.weight) << 1, outputs: 0b10 })
    }
    /// The statistic has a gradient too (`-drrms * rrms^2 * n / width`): that of [`RmsNormGrad`] leads there.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let (x, rrms) = (context.input(0)?, context.output(1)?);
        if let Some(dy) = &grad_outputs[0] {
            let op = RmsNormGrad { weight: self.weight };
            let mut inputs: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(&[x, rrms, dy]);
            if self.weight {
                inputs.push(context.input(1)?);
            }
            grads = apply(op, &inputs)?.into_iter().map(Some).collect();
        }
        if let (Some(grad), true) = (&grad_outputs[1], context.needs(0)) {
            let cube = rrms.square()?.mul(rrms)?.unsqueeze(-1)?;
            let factor = grad.unsqueeze(-1)?.mul(&cube)?.mul_scalar(-1.0 / width_of(x))?;
            add_share(&mut grads[0], wide(x)?.mul(&factor)?, x.dtype())?;
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
        check::count(name, inputs, 3 + usize::from(self.weight))?;
        let (rows, width) = rows_and_width(name, &inputs[0])?;
        let dtype = inputs[0].dtype;
        vector(name, "rrms", &inputs[1], dtype.accumulator(), rows)?;
        vector(name, "grad_output", &inputs[2], dtype, *inputs[0].shape())?;
        let mut outputs: Outputs = [Output::fresh(*inputs[0].shape(), dtype)].into_iter().collect();
        if self.weight {
            vector(name, "weight", &inputs[3], dtype, width)?;
            outputs.push(Output::fresh(width, dtype));
        }
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dy, dtype) = (wide(&inputs[0])?, wide(&inputs[2])?, inputs[0].dtype());
        let rrms = inputs[1].unsqueeze(-1)?;
        let normal = x.mul(&rrms)?;
        let dnormal = affine(dy.clone(), self.weight.then(|| &inputs[3]), None)?;
        let along = normal.mul(&dnormal.mul(&normal)?.mean_keep(-1)?)?;
        let mut outputs = vec![dnormal.sub(&along)?.mul(&rrms)?.to_dtype(dtype)?];
        if self.weight {
            outputs.push(dy.mul(&normal)?.sum(AxisSet::first(x.rank() - 1))?.to_dtype(dtype)?);
        }
        Ok(outputs)
    }
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
            vector(name, "weight", &inputs[1], dtype, channels)?;
            vector(name, "bias", &inputs[2], dtype, channels)?;
        }
        let statistic = Output::fresh(channels, dtype.accumulator());
        Ok([Output::fresh(*inputs[0].shape(), dtype), statistic, statistic].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dtype) = (wide(&inputs[0])?, inputs[0].dtype());
        let axes = all_but_channels(&x);
        let mean = x.mean_keep(axes)?;
        let centred = x.sub(&mean)?;
        let var = centred.square()?.mean_keep(axes)?;
        let normal = centred.mul(&var.add_scalar(self.eps)?.rsqrt()?)?;
        let y = channel_affine(normal, self.affine.then(|| (&inputs[1], &inputs[2])))?;
        Ok(vec![y.to_dtype(dtype)?, mean.squeeze(axes)?, var.squeeze(axes)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 1 | u16::from(self.affine) << 1, outputs: 0b110 })
    }
    /// The statistics have gradients too (`dmean / count` and `2 * dvar * (x - mean) / count`): those of [`BatchNormGrad`] lead there.
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
            let share = per_channel(grad, x)?.div_scalar(count)?.expand(*x.shape())?;
            add_share(&mut grads[0], share, x.dtype())?;
        }
        if let Some(grad) = &grad_outputs[2] {
            let centred = wide(x)?.sub(&per_channel(mean, x)?)?;
            let share = centred.mul(&per_channel(grad, x)?.mul_scalar(2.0 / count)?)?;
            add_share(&mut grads[0], share, x.dtype())?;
        }
        Ok(grads)
    }
}

/// Every axis of `[batch, channels, ..]` but the channels.
fn all_but_channels(x: &Tensor) -> AxisSet {
    (0..x.rank()).filter(|&axis| axis != 1).fold(AxisSet::EMPTY, AxisSet::with)
}

/// `[channels]` as `[1, channels, 1, ..]`, of the rank of `x`.
fn per_channel(vector: &Tensor, x: &Tensor) -> Result<Tensor> {
    vector.reshape(all_but_channels(x).keep(x.shape()).with_dim(1, vector.elements()))
}

/// `normal * weight + bias` for each channel, in the dtype of `normal`.
fn channel_affine(normal: Tensor, parameters: Option<(&Tensor, &Tensor)>) -> Result<Tensor> {
    let Some((weight, bias)) = parameters else { return Ok(normal) };
    let (weight, bias) = (per_channel(weight, &normal)?, per_channel(bias, &normal)?);
    affine(normal, Some(&weight), Some(&bias))
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
        vector(name, "mean", &inputs[1], dtype.accumulator(), channels)?;
        vector(name, "var", &inputs[2], dtype.accumulator(), channels)?;
        vector(name, "grad_output", &inputs[3], dtype, *inputs[0].shape())?;
        let mut outputs: Outputs = [Output::fresh(*inputs[0].shape(), dtype)].into_iter().collect();
        if self.affine {
            vector(name, "weight", &inputs[4], dtype, channels)?;
            outputs.extend([Output::fresh(channels, dtype); 2]);
        }
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dy, dtype) = (wide(&inputs[0])?, wide(&inputs[3])?, inputs[0].dtype());
        let axes = all_but_channels(&x);
        let rstd = per_channel(&inputs[2], &x)?.add_scalar(self.eps)?.rsqrt()?;
        let normal = x.sub(&per_channel(&inputs[1], &x)?)?.mul(&rstd)?;
        let dnormal = match self.affine {
            true => dy.mul(&per_channel(&wide(&inputs[4])?, &x)?)?,
            false => dy.clone(),
        };
        let along = normal.mul(&dnormal.mul(&normal)?.mean_keep(axes)?)?;
        let dx = dnormal.sub(&dnormal.mean_keep(axes)?)?.sub(&along)?.mul(&rstd)?;
        let mut outputs = vec![dx.to_dtype(dtype)?];
        if self.affine {
            outputs.push(dy.mul(&normal)?.sum(axes)?.to_dtype(dtype)?);
            outputs.push(dy.sum(axes)?.to_dtype(dtype)?);
        }
        Ok(outputs)
    }
}

impl Tensor {
    /// Each row (the last axis) shifted to mean 0 and scaled to variance 1, then `* weight + bias`. See [`LayerNorm`].
    ///
    /// # Shapes
    /// self `[.., width]`, weight and bias `[width]` -> as self
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a dtype that is not floating.
    pub fn layer_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let op = LayerNorm { eps, weight: weight.is_some(), bias: bias.is_some() };
        let inputs: SmallVec<[&Tensor; 3]> = [Some(self), weight, bias].into_iter().flatten().collect();
        apply_one(op, &inputs)
    }

    /// Each row (the last axis) divided by its root mean square, then `* weight`. See [`RmsNorm`].
    ///
    /// # Shapes
    /// self `[.., width]`, weight `[width]` -> as self
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a dtype that is not floating.
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let inputs: SmallVec<[&Tensor; 2]> = [Some(self), weight].into_iter().flatten().collect();
        apply_one(RmsNorm { eps, weight: weight.is_some() }, &inputs)
    }

    /// Each channel shifted to mean 0 and scaled to variance 1 over batch and space, then `* weight + bias`; also that mean and variance
    /// (the population's), f32 for halves. See [`BatchNorm`].
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, weight and bias `[channels]` -> as self, `[channels]`, `[channels]`
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a dtype that is not floating.
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

    /// `(x - mean) / sqrt(var + eps) * weight + bias` for each channel, with statistics that are given.
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, all others `[channels]` -> as self
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a dtype that is not floating.
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
        let x = wide(self)?;
        let rstd = var.to_dtype(x.dtype())?.add_scalar(eps)?.rsqrt()?;
        let normal =
            x.sub(&per_channel(&mean.to_dtype(x.dtype())?, self)?)?.mul(&per_channel(&rstd, self)?)?;
        let parameters = parameters.as_ref().map(|(weight, bias)| (weight, bias));
        channel_affine(normal, parameters)?.to_dtype(self.dtype())
    }

    /// The channels in `groups` groups, each group of each sample shifted to mean 0 and scaled to variance 1, then `* weight + bias` for each
    /// channel (Wu and He 2018).
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, weight and bias `[channels]` -> as self
    ///
    /// # Errors
    /// Channels that do not divide into `groups`; shapes or dtypes that do not fit, a dtype that is not floating.
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let name = "group_norm";
        let x = &precision::full(self)?;
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
        let normal = wide(x)?.reshape([batch, groups, width])?.layer_norm(None, None, eps)?;
        channel_affine(normal.reshape(*x.shape())?, parameters)?.to_dtype(x.dtype())
    }
}

/// Weight and bias for each channel, checked; ones or zeros in the place of one that is missing.
fn scale_and_shift(
    op: &'static str,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Option<(Tensor, Tensor)>> {
    let channels = channels(op, &x.meta())?;
    let as_x = |parameter: Option<&Tensor>| match precision::current() {
        Some(_) => parameter.map(|parameter| precision::cast(parameter, x.dtype())).transpose(),
        None => Ok(parameter.cloned()),
    };
    let (weight, bias) = (as_x(weight)?, as_x(bias)?);
    for (what, parameter) in [("weight", &weight), ("bias", &bias)] {
        if let Some(parameter) = parameter {
            vector(op, what, &parameter.meta(), x.dtype(), channels)?;
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
