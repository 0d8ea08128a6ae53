//! Activations that are not primitive ops.

use super::{check_floating, check_number, in_accumulator, unary};
use crate::anomaly::in_function;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::op::{Saves, check};
use crate::{Axis, Tensor};

/// The constants of [`selu`](Tensor::selu), for which mean 0 and variance 1 are a fixed point
/// (Klambauer et al. 2017, eq. 14).
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Tensor {
    /// Clamps each element to `low..=high`. At the bounds the gradient is 0, as in PyTorch's
    /// `hardtanh` (its `clamp` has 1 there). For integers, the fractions of the bounds are dropped.
    ///
    /// # Errors
    /// Returns an error if the dtype is bool.
    pub fn hardtanh(&self, low: f64, high: f64) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.clamp(low.trunc(), high.trunc());
        }
        let y = no_grad(|| self.clamp(low, high))?;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let x = context.input(0)?;
            // NaN counts as outside, as in PyTorch's vectorized kernel (for single elements its
            // gradient there is 1).
            let within = x.gt_scalar(low)?.logical_and(&x.lt_scalar(high)?)?;
            Ok(Grads::from_elem(Some(dy.masked_fill(&within.logical_not()?, 0)?), 1))
        };
        Ok(with_gradient("hardtanh", &[self], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
    }

    /// Returns the elements that are above 0, and `weight * x` for all others. There is one weight,
    /// or one for each channel, which is the second axis (He et al. 2015, Delving deep into
    /// rectifiers, eq. 1).
    ///
    /// The gradient is 1 above 0 and the weight elsewhere, including at 0. The gradient of the
    /// weight is the sum of `dy * x` over the elements that are not above 0.
    ///
    /// # Shapes
    /// `[batch, channels, ..]` and `[]`, `[1]` or `[channels]` -> same shape as self
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not floating-point, or if the weight has
    /// another shape.
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        let name = "prelu";
        check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &weight.meta())?;
        let channels = if self.rank() > 1 { self.dims()[1] } else { 1 };
        let weight = match weight.dims() {
            [] | [1] => weight.reshape(())?,
            &[count] if count == channels => {
                let mut dims = vec![1; self.rank() - 1];
                dims[0] = channels;
                weight.reshape(&dims[..])?
            }
            _ => {
                let detail = format!("weight of shape {}, expected [1] or [{channels}]", weight.shape());
                return Err(Error::invalid(name, detail));
            }
        };
        in_accumulator([self, &weight], |[x, weight]| {
            let is_positive = x.gt_scalar(0)?;
            // Infinite elements above 0 must not be multiplied: the gradient of the weight would
            // contain `0 * inf`.
            let others = x.masked_fill(&is_positive, 0)?;
            is_positive.where_(x, &weight.mul(&others)?)
        })
    }

    /// Returns `x` above 0 and `alpha * (e^(x / alpha) - 1)` elsewhere. Its derivative is
    /// continuous (Barron 2017, Continuously differentiable exponential linear units).
    ///
    /// # Errors
    /// Returns an error if `alpha` is 0, or if the dtype is not floating-point.
    pub fn celu(&self, alpha: f64) -> Result<Tensor> {
        if alpha == 0.0 {
            return Err(Error::invalid("celu", "alpha 0, expected another number"));
        }
        exponential("celu", self, Exponential { rate: 1.0 / alpha, scale: alpha, slope: 1.0 })
    }

    /// Returns `scale * x` above 0 and `scale * alpha * (e^x - 1)` elsewhere, with the two
    /// constants that preserve mean 0 and variance 1 (Klambauer et al. 2017, Self-normalizing
    /// neural networks, eq. 2).
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn selu(&self) -> Result<Tensor> {
        exponential(
            "selu",
            self,
            Exponential { rate: 1.0, scale: SELU_SCALE * SELU_ALPHA, slope: SELU_SCALE },
        )
    }

    /// Returns `x * tanh(softplus(x))` (Misra 2019, Mish: a self regularized non-monotonic
    /// activation function).
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn mish(&self) -> Result<Tensor> {
        unary("mish", self, |x| x.mul(&x.softplus()?.tanh()?), mish_grad)
    }

    /// Returns `x / (1 + |x|)`.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn softsign(&self) -> Result<Tensor> {
        let denominator = |x: &Tensor| x.abs()?.add_scalar(1);
        unary("softsign", self, move |x| x.div(&denominator(x)?), move |x| denominator(x)?.recip()?.square())
    }

    /// Returns `x - tanh(x)`.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn tanhshrink(&self) -> Result<Tensor> {
        unary("tanhshrink", self, |x| x.sub(&x.tanh()?), |x| x.tanh()?.square())
    }

    /// Returns `log(sigmoid(x))`, computed without overflow.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn logsigmoid(&self) -> Result<Tensor> {
        check_floating("logsigmoid", self)?;
        self.neg()?.softplus()?.neg()
    }

    /// Returns `min(max(x + 3, 0), 6) / 6`. The gradient is 0 at -3 and 3.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn hardsigmoid(&self) -> Result<Tensor> {
        let grad = |x: &Tensor| {
            let within = x.gt_scalar(-3)?.logical_and(&x.lt_scalar(3)?)?;
            within.to_dtype(x.dtype())?.div_scalar(6)
        };
        unary("hardsigmoid", self, relu6_of_shifted, grad)
    }

    /// Returns `x * hardsigmoid(x)` (Howard et al. 2019, Searching for MobileNetV3, section 5.2).
    /// The gradient is 0 at -3 and 1 at 3.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn hardswish(&self) -> Result<Tensor> {
        unary("hardswish", self, |x| x.mul(&relu6_of_shifted(x)?), hardswish_grad)
    }

    /// Moves each element toward 0 by `lambda`. Elements within `lambda` of 0 become 0.
    ///
    /// # Errors
    /// Returns an error if `lambda` is negative or NaN, or if the dtype is not floating-point.
    pub fn softshrink(&self, lambda: f64) -> Result<Tensor> {
        if lambda.is_nan() || lambda < 0.0 {
            return Err(Error::invalid("softshrink", format!("lambda {lambda}, expected at least 0")));
        }
        let grad = move |x: &Tensor| {
            let is_outside = x.gt_scalar(lambda)?.logical_or(&x.lt_scalar(-lambda)?)?;
            is_outside.to_dtype(x.dtype())
        };
        unary("softshrink", self, move |x| x.sub(&x.clamp(-lambda, lambda)?), grad)
    }

    /// Replaces elements from `-lambda` to `lambda` by 0, and leaves all others unchanged. The
    /// gradient is 0 where an element was replaced.
    ///
    /// # Errors
    /// Returns an error if the dtype is bool.
    pub fn hardshrink(&self, lambda: f64) -> Result<Tensor> {
        check_number("hardshrink", self, self)?;
        // Two comparisons, because the absolute value of the smallest integer is not representable.
        let x = self.detach();
        self.masked_fill(&x.ge_scalar(-lambda)?.logical_and(&x.le_scalar(lambda)?)?, 0)
    }

    /// Replaces elements that are at most `threshold` by `value`. NaN is not replaced. The gradient
    /// is 0 where an element was replaced.
    ///
    /// # Errors
    /// Returns an error if the dtype is bool.
    pub fn threshold(&self, threshold: f64, value: f64) -> Result<Tensor> {
        check_number("threshold", self, self)?;
        self.masked_fill(&self.detach().le_scalar(threshold)?, value)
    }

    /// Returns `softmax(-x)` along an axis.
    ///
    /// # Errors
    /// Same as [`softmax`](Tensor::softmax).
    pub fn softmin(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        check_floating("softmin", self)?;
        self.neg()?.softmax(axis)
    }

    /// Multiplies the first half along an axis by the sigmoid of the second half (Dauphin et al.
    /// 2017, Language modeling with gated convolutional networks, eq. 1).
    ///
    /// # Shapes
    /// `[.., 2 n, ..]` -> `[.., n, ..]`
    ///
    /// # Errors
    /// Returns an error if the size of the axis is odd, if the axis does not exist, or if the dtype
    /// is not floating-point.
    pub fn glu(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let name = "glu";
        check_floating(name, self)?;
        let axis_argument = axis.into();
        let axis = axis_argument.resolve(self.shape(), name)?;
        let size = self.dims()[axis];
        if !size.is_multiple_of(2) {
            return Err(Error::invalid(
                name,
                format!("size {size} along axis {}, expected an even one", axis_argument.0),
            ));
        }
        let half = |index: usize| self.narrow(axis, index * (size / 2), size / 2);
        let (values, gates) = (half(0)?, half(1)?);
        let gated = |[values, gates]: &[Tensor; 2]| values.mul(&gates.sigmoid()?);
        in_function(name, &[self], || in_accumulator([&values, &gates], gated))
    }

    /// Returns `x` above 0 and `slope * x` elsewhere. In training each element has its own slope,
    /// sampled uniformly between `lower` and `upper`; otherwise the slope is their mean (Xu et al.
    /// 2015, Empirical evaluation of rectified activations in convolutional network, section 2.4).
    ///
    /// # Errors
    /// Returns an error if `lower` is above `upper`, if a bound is not finite, or if the dtype is
    /// not floating-point.
    pub fn rrelu(&self, lower: f64, upper: f64, training: bool) -> Result<Tensor> {
        let name = "rrelu";
        check_floating(name, self)?;
        if !(lower <= upper && (upper - lower).is_finite()) {
            return Err(Error::invalid(
                name,
                format!("slopes from {lower} to {upper}, expected finite ones, the lower first"),
            ));
        }
        if !training {
            return self.leaky_relu(f64::midpoint(lower, upper));
        }
        let slopes = Tensor::rand(*self.shape(), self.dtype().accumulator(), self.device())?;
        let slopes = slopes.mul_scalar(upper - lower)?.add_scalar(lower)?;
        in_accumulator([self], |[x]| {
            let is_positive = x.detach().gt_scalar(0)?;
            is_positive.where_(x, &x.mul(&slopes)?)
        })
    }

    /// Samples one index along an axis in a differentiable way: `softmax((x + g) / temperature)`,
    /// where `g` has a Gumbel distribution (Jang et al. 2017, Categorical reparameterization with
    /// Gumbel-softmax, eq. 1-2). If `is_hard`, the result is one-hot, 1 at the largest element and
    /// 0 elsewhere, with the gradient of the soft sample.
    ///
    /// # Errors
    /// Returns an error if the temperature is not above 0, if the axis does not exist, or if the
    /// dtype is not floating-point.
    pub fn gumbel_softmax(&self, temperature: f64, is_hard: bool, axis: impl Into<Axis>) -> Result<Tensor> {
        let name = "gumbel_softmax";
        check_floating(name, self)?;
        if temperature.is_nan() || temperature <= 0.0 {
            return Err(Error::invalid(name, format!("temperature {temperature}, expected above 0")));
        }
        let axis = axis.into().resolve(self.shape(), name)?;
        let soft = in_accumulator([self], |[x]| x.add(&gumbel(x)?)?.div_scalar(temperature)?.softmax(axis))?;
        if !is_hard {
            return Ok(soft);
        }
        let soft_values = soft.detach();
        let chosen = soft_values.argmax_keep(axis)?;
        let one = soft_values.zeros_like()?.scatter(
            axis,
            &chosen,
            &chosen.ones_like()?.to_dtype(soft_values.dtype())?,
        )?;
        one.sub(&soft_values)?.add(&soft)
    }
}

/// The function that is `slope * x` above 0 and `scale * (e^(rate x) - 1)` elsewhere.
#[derive(Clone, Copy)]
struct Exponential {
    rate: f64,
    scale: f64,
    slope: f64,
}

fn exponential(name: &'static str, x: &Tensor, function: Exponential) -> Result<Tensor> {
    let Exponential { rate, scale, slope } = function;
    // Elements above 0 are clamped: their exponentials are not used and would overflow.
    let exponent = move |x: &Tensor| x.clamp(f64::NEG_INFINITY, 0.0)?.mul_scalar(rate);
    let value = move |x: &Tensor| {
        x.le_scalar(0)?.where_(&exponent(x)?.expm1()?.mul_scalar(scale)?, &x.mul_scalar(slope)?)
    };
    let grad = move |x: &Tensor| {
        // At 0 no gradient flows through the exponent: the second derivative there is 0, as in
        // PyTorch.
        let negative_part = x.masked_fill(&x.lt_scalar(0)?.logical_not()?, 0)?;
        let negative_part = negative_part.mul_scalar(rate)?.exp()?.mul_scalar(scale * rate)?;
        x.le_scalar(0)?.where_(&negative_part, &x.detach().scalar_like(slope)?)
    };
    unary(name, x, value, grad)
}

/// With `t = tanh(softplus(x))`, returns `t + x sigmoid(x) (1 - t^2)`.
fn mish_grad(x: &Tensor) -> Result<Tensor> {
    let t = x.softplus()?.tanh()?;
    t.add(&x.mul(&x.sigmoid()?)?.mul(&t.square()?.rsub_scalar(1)?)?)
}

/// Returns `min(max(x + 3, 0), 6) / 6`.
fn relu6_of_shifted(x: &Tensor) -> Result<Tensor> {
    x.add_scalar(3)?.clamp(0.0, 6.0)?.div_scalar(6)
}

/// Returns `x / 3 + 1/2` between -3 and 3, 0 at and below -3, and 1 at and above 3.
fn hardswish_grad(x: &Tensor) -> Result<Tensor> {
    let within = x.div_scalar(3)?.add_scalar(0.5)?;
    within.masked_fill(&x.lt_scalar(3)?.logical_not()?, 1)?.masked_fill(&x.le_scalar(-3)?, 0)
}

/// Samples the Gumbel distribution, `-log(-log(u))`, with the shape and the dtype of `x`.
fn gumbel(x: &Tensor) -> Result<Tensor> {
    no_grad(|| {
        // Keeps both logarithms finite: `u` can be 0, and where it is 1 its logarithm is 0. Smaller
        // numbers are subnormal, which some devices treat as 0.
        let tiny = f64::from(f32::MIN_POSITIVE);
        let uniform = Tensor::rand(*x.shape(), x.dtype(), x.device())?.clamp(tiny, 1.0)?;
        uniform.log()?.neg()?.clamp(tiny, f64::INFINITY)?.log()?.neg()
    })
}
