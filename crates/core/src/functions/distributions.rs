//! Further random distributions, and alpha dropout. Exponential, Cauchy and geometric use inverse
//! transform sampling (inverse CDF); normal and log-normal transform `randn`.
//!
//! There are no gradients with respect to the parameters of the distributions.

use super::{check_floating, in_accumulator};
use crate::autograd::no_grad;
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::random::{RandomBits, check_probability};
use crate::{DType, Device, IntoShape, Shape, Tensor};
use std::f64::consts::PI;

impl Tensor {
    /// Samples the exponential distribution, `rate * e^(-rate * x)` above 0, as `-log(u) / rate`
    /// with uniform u.
    ///
    /// # Errors
    /// Returns an error if the rate is not positive or not finite, if the dtype is not
    /// floating-point, or if the allocation fails.
    pub fn exponential(rate: f64, shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        check_positive("exponential", "rate", rate)?;
        let uniform = open_uniform("exponential", shape.into_shape()?, dtype, device)?;
        uniform.log()?.div_scalar(-rate)?.to_dtype(dtype)
    }

    /// Samples a log-normal distribution: the logarithms of the results are normal with this mean
    /// and standard deviation.
    ///
    /// # Errors
    /// Returns an error if the standard deviation is not positive, if a parameter is not finite, if
    /// the dtype is not floating-point, or if the allocation fails.
    pub fn log_normal(
        mean: f64,
        std: f64,
        shape: impl IntoShape,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        check_positive("log_normal", "std", std)?;
        check_finite("log_normal", "mean", mean)?;
        check_output("log_normal", dtype)?;
        let normal = Tensor::randn(shape, dtype.accumulator(), device)?;
        normal.mul_scalar(std)?.add_scalar(mean)?.exp()?.to_dtype(dtype)
    }

    /// Samples the Cauchy distribution as `median + scale * tan(pi (u - 1/2))` with uniform u.
    ///
    /// # Errors
    /// Returns an error if the scale is not positive, if a parameter is not finite, if the dtype is
    /// not floating-point, or if the allocation fails.
    pub fn cauchy(
        median: f64,
        scale: f64,
        shape: impl IntoShape,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        check_positive("cauchy", "scale", scale)?;
        check_finite("cauchy", "median", median)?;
        let uniform = open_uniform("cauchy", shape.into_shape()?, dtype, device)?;
        let angle = uniform.sub_scalar(0.5)?.mul_scalar(PI)?;
        angle.sin()?.div(&angle.cos()?)?.mul_scalar(scale)?.add_scalar(median)?.to_dtype(dtype)
    }

    /// Samples the geometric distribution: the number of trials up to the first success, each with
    /// probability `p`. The result is 1, 2, .., computed as `ceil(log(u) / log(1 - p))` with
    /// uniform u.
    ///
    /// # Errors
    /// Returns an error if the probability is not above 0 and below 1, if the dtype is bool, or if
    /// the allocation fails.
    pub fn geometric(p: f64, shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        if p.is_nan() || p <= 0.0 || p >= 1.0 {
            return Err(Error::invalid(
                "geometric",
                format!("probability {p}, expected above 0 and below 1"),
            ));
        }
        if dtype == DType::Bool {
            return Err(Error::dtype("geometric", "output", dtype, "a number"));
        }
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let uniform = open_uniform("geometric", shape.into_shape()?, wide, device)?;
        uniform.log()?.div_scalar((-p).ln_1p())?.ceil()?.maximum_scalar(1)?.to_dtype(dtype)
    }

    /// Samples normal distributions with these means and standard deviations, with broadcasting.
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, if the dtypes differ or are not
    /// floating-point, or if the allocation fails. Negative standard deviations are not
    /// checked for.
    pub fn normal(mean: &Tensor, std: &Tensor) -> Result<Tensor> {
        check_floating("normal", mean)?;
        check::same_dtype("normal", &mean.meta(), &std.meta())?;
        let shape = mean.shape().broadcast(std.shape(), "normal")?;
        no_grad(|| {
            in_accumulator([mean, std], |[mean, std]| {
                Tensor::randn(shape, mean.dtype(), mean.device())?.mul(std)?.add(mean)
            })
        })
    }

    /// Applies dropout for networks with `selu`: each element is replaced with probability `p` by
    /// the limit of `selu` at -infinity, and the result is scaled and shifted so that mean 0 and
    /// variance 1 are preserved (Klambauer et al. 2017, Self-Normalizing Neural Networks).
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`, or if the dtype is not
    /// floating-point.
    pub fn alpha_dropout(&self, p: f64) -> Result<Tensor> {
        alpha_dropout_with_mask("alpha_dropout", self, p, *self.shape())
    }

    /// Applies [`alpha_dropout`](Tensor::alpha_dropout) to whole channels.
    ///
    /// # Shapes
    /// `[batch, channels, ..]` -> same shape
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`, if the dtype is not floating-point,
    /// or if there are fewer than two axes.
    pub fn feature_alpha_dropout(&self, p: f64) -> Result<Tensor> {
        let name = "feature_alpha_dropout";
        if self.rank() < 2 {
            return Err(Error::Rank {
                op: name,
                expected: "at least 2".into(),
                shape: Box::new(*self.shape()),
            });
        }
        let mut dims = vec![1; self.rank()];
        dims[..2].copy_from_slice(&self.dims()[..2]);
        alpha_dropout_with_mask(name, self, p, Shape::new(&dims)?)
    }
}

/// The negated limit of `selu` at -infinity: scale * alpha.
const SATURATION: f64 = 1.758_099_340_847_376_6;

/// Applies alpha dropout with a mask of shape `mask_shape`, which is broadcast to `x`.
fn alpha_dropout_with_mask(name: &'static str, x: &Tensor, p: f64, mask_shape: Shape) -> Result<Tensor> {
    check::float(name, "input", &x.meta())?;
    check_probability(name, p)?;
    if p == 0.0 || x.elements() == 0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return x.mul_scalar(0);
    }
    let is_retained = Tensor::bernoulli_scalar(1.0 - p, mask_shape, DType::Bool, x.device())?;
    let scale = 1.0 / ((SATURATION * SATURATION * p + 1.0) * (1.0 - p)).sqrt();
    in_accumulator([x], |[x]| {
        let retained = x.mul_scalar(scale)?.add_scalar(SATURATION * scale * p)?;
        is_retained.where_(&retained, &retained.scalar_like(SATURATION * scale * (p - 1.0))?)
    })
}

/// Samples odd multiples of 2^-24 between 0 and 1 uniformly; in f64 odd multiples of 2^-53. For
/// half precision the result is f32.
fn open_uniform(op: &'static str, shape: Shape, dtype: DType, device: &Device) -> Result<Tensor> {
    check_output(op, dtype)?;
    let bits = |bits: u8| {
        let (state, offset) = device.draw(shape.elements())?;
        apply_one(RandomBits { shape, bits, offset }, &[&state])?.to_dtype(dtype.accumulator())
    };
    if dtype != DType::F64 {
        return bits(23)?.add_scalar(0.5)?.mul_scalar(2f64.powi(-23));
    }
    let high = bits(26)?;
    high.mul_scalar(2f64.powi(26))?.add(&bits(26)?)?.add_scalar(0.5)?.mul_scalar(2f64.powi(-52))
}

fn check_output(op: &'static str, dtype: DType) -> Result<()> {
    match dtype.is_float() {
        true => Ok(()),
        false => Err(Error::dtype(op, "output", dtype, "a floating dtype")),
    }
}

fn check_finite(op: &'static str, what: &str, value: f64) -> Result<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("{what} {value}, expected a finite number"))),
    }
}

fn check_positive(op: &'static str, what: &str, value: f64) -> Result<()> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("{what} {value}, expected a finite number above 0"))),
    }
}
