//! Normalisations.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::{DType, Shape};

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
        None => Err(Error::Rank { op, expected: "at least 1".into(), shape: *shape }),
    }
}

fn vector(op: &'static str, what: &'static str, meta: &Meta<'_>, dtype: DType, shape: Shape) -> Result<()> {
    check::dtype(op, what, meta, dtype)?;
    check::shape(op, what, meta, shape)
}

fn channels(op: &'static str, x: &Meta<'_>) -> Result<Shape> {
    check::float(op, "input", x)?;
    if x.shape().rank() < 2 {
        return Err(Error::Rank { op, expected: "at least 2".into(), shape: *x.shape() });
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
}
