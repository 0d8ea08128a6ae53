//! Random numbers of further distributions, by the inverse of the distribution function of even ones, and dropout that keeps mean and variance.
//!
//! They have no gradients by their parameters.

use super::{check_floating, in_accumulator};
use crate::autograd::no_grad;
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::random::{RandomBits, check_probability};
use crate::{DType, Device, IntoShape, Shape, Tensor};
use std::f64::consts::PI;

impl Tensor {
    /// Random numbers of the exponential distribution, `rate * e^(-rate * x)` above 0: `-log(u) / rate` of even u.
    ///
    /// # Errors
    /// A rate that is not above 0 or not finite, a dtype that is not floating, no memory.
    pub fn exponential(rate: f64, shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        check_positive("exponential", "rate", rate)?;
        let even = between_0_and_1("exponential", shape.into_shape()?, dtype, device)?;
        even.log()?.div_scalar(-rate)?.to_dtype(dtype)
    }

    /// Random numbers whose logarithms are of the normal distribution with this mean and deviation.
    ///
    /// # Errors
    /// A deviation that is not above 0, numbers that are not finite, a dtype that is not floating, no memory.
    pub fn log_normal(
        mean: f64,
        deviation: f64,
        shape: impl IntoShape,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        check_positive("log_normal", "deviation", deviation)?;
        check_finite("log_normal", "mean", mean)?;
        check_output("log_normal", dtype)?;
        let normal = Tensor::randn(shape, dtype.accumulator(), device)?;
        normal.mul_scalar(deviation)?.add_scalar(mean)?.exp()?.to_dtype(dtype)
    }

    /// Random numbers of the Cauchy distribution: `median + scale * tan(pi (u - 1/2))` of even u.
    ///
    /// # Errors
    /// A scale that is not above 0, numbers that are not finite, a dtype that is not floating, no memory.
    pub fn cauchy(
        median: f64,
        scale: f64,
        shape: impl IntoShape,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        check_positive("cauchy", "scale", scale)?;
        check_finite("cauchy", "median", median)?;
        let even = between_0_and_1("cauchy", shape.into_shape()?, dtype, device)?;
        let angle = even.sub_scalar(0.5)?.mul_scalar(PI)?;
        angle.sin()?.div(&angle.cos()?)?.mul_scalar(scale)?.add_scalar(median)?.to_dtype(dtype)
    }

    /// How many trials it takes until one succeeds, each with probability `p`: 1, 2, .., as `ceil(log(u) / log(1 - p))` of even u.
    ///
    /// # Errors
    /// A probability that is not above 0 and below 1, a dtype of truth values, no memory.
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
        let even = between_0_and_1("geometric", shape.into_shape()?, wide, device)?;
        even.log()?.div_scalar((-p).ln_1p())?.ceil()?.maximum_scalar(1)?.to_dtype(dtype)
    }

    /// Random numbers of normal distributions with these means and deviations, broadcast.
    ///
    /// # Errors
    /// Shapes that do not broadcast, dtypes that differ or are not floating, no memory. That deviations are not negative is not looked at.
    pub fn normal(mean: &Tensor, deviation: &Tensor) -> Result<Tensor> {
        check_floating("normal", mean)?;
        check::same_dtype("normal", &mean.meta(), &deviation.meta())?;
        let shape = mean.shape().broadcast(deviation.shape(), "normal")?;
        no_grad(|| {
            in_accumulator([mean, deviation], |[mean, deviation]| {
                Tensor::randn(shape, mean.dtype(), mean.device())?.mul(deviation)?.add(mean)
            })
        })
    }

    /// Dropout for networks of `selu`: each element with probability `p` becomes what `selu` gives of -infinity, and all are scaled and shifted so that the
    /// mean of 0 and the variance of 1 stay (Klambauer et al. 2017, Self-Normalizing Neural Networks).
    ///
    /// # Errors
    /// A probability outside `0..=1`, a dtype that is not floating.
    pub fn alpha_dropout(&self, p: f64) -> Result<Tensor> {
        self_normalizing("alpha_dropout", self, p, *self.shape())
    }

    /// [`alpha_dropout`](Tensor::alpha_dropout) of whole channels.
    ///
    /// # Shapes
    /// `[batch, channels, ..]`, unchanged
    ///
    /// # Errors
    /// A probability outside `0..=1`, a dtype that is not floating, fewer than two axes.
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
        self_normalizing(name, self, p, Shape::new(&dims)?)
    }
}

/// Minus what `selu` gives of -infinity: its scale times its alpha.
const SATURATION: f64 = 1.758_099_340_847_376_6;

/// Of `kept` elements each decides for all that it broadcasts to.
fn self_normalizing(name: &'static str, x: &Tensor, p: f64, kept: Shape) -> Result<Tensor> {
    check::float(name, "input", &x.meta())?;
    check_probability(name, p)?;
    if p == 0.0 || x.elements() == 0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return x.mul_scalar(0);
    }
    let is_kept = Tensor::bernoulli_scalar(1.0 - p, kept, DType::Bool, x.device())?;
    let scale = 1.0 / ((SATURATION * SATURATION * p + 1.0) * (1.0 - p)).sqrt();
    in_accumulator([x], |[x]| {
        let kept = x.mul_scalar(scale)?.add_scalar(SATURATION * scale * p)?;
        is_kept.where_(&kept, &kept.scalar_like(SATURATION * scale * (p - 1.0))?)
    })
}

/// Even over all odd multiples of 2^-24 between 0 and 1; in f64 of 2^-53. In f32 for half precision.
fn between_0_and_1(op: &'static str, shape: Shape, dtype: DType, device: &Device) -> Result<Tensor> {
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
