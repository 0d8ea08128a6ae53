//! Activations that are no ops of their own.

use super::{check_floating, check_number, in_accumulator, unary};
use crate::anomaly::in_function;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::op::{Saves, check};
use crate::{Axis, Tensor};

/// The constants of [`selu`](Tensor::selu), for which mean 0 and variance 1 are a fixed point (Klambauer et al. 2017, eq. 14).
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Tensor {
    /// Each element kept from `low` to `high`. At the bounds the gradient is 0, as PyTorch has it of `hardtanh` (there that of `clamp` is 1).
    /// Of integers, the bounds without their fractions.
    ///
    /// # Errors
    /// Truth values.
    pub fn hardtanh(&self, low: f64, high: f64) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.clamp(low.trunc(), high.trunc());
        }
        let y = no_grad(|| self.clamp(low, high))?;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let x = context.input(0)?;
            // NaN is not within, as in PyTorch's vectors (its gradient of single elements is 1 there).
            let within = x.gt_scalar(low)?.logical_and(&x.lt_scalar(high)?)?;
            Ok(Grads::from_elem(Some(dy.masked_fill(&within.logical_not()?, 0)?), 1))
        };
        Ok(with_gradient("hardtanh", &[self], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
    }

    /// Each element that is above 0, `weight * x` of the others; with one weight, or one for each channel, the second axis (He et al. 2015, Delving deep into
    /// rectifiers, eq. 1).
    ///
    /// The gradient is 1 above 0 and the weight elsewhere, also at 0; that of the weight is the sum of `dy * x` of elements that are not above 0.
    ///
    /// # Shapes
    /// `[batch, channels, ..]` and `[]`, `[1]` or `[channels]`, unchanged
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, weights of another shape.
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
            // An infinite element above 0 is not multiplied: the gradient of the weight would be `0 * inf`.
            let others = x.masked_fill(&is_positive, 0)?;
            is_positive.where_(x, &weight.mul(&others)?)
        })
    }

    /// `x` above 0, else `alpha * (e^(x / alpha) - 1)`, whose derivative is continuous (Barron 2017, Continuously differentiable exponential linear units).
    ///
    /// # Errors
    /// An `alpha` of 0, a dtype that is not floating.
    pub fn celu(&self, alpha: f64) -> Result<Tensor> {
        if alpha == 0.0 {
            return Err(Error::invalid("celu", "alpha 0, expected another number"));
        }
        exponential("celu", self, Exponential { rate: 1.0 / alpha, scale: alpha, slope: 1.0 })
    }

    /// `scale * x` above 0, else `scale * alpha * (e^x - 1)`, with the two constants that keep mean 0 and variance 1 (Klambauer et al. 2017, Self-normalizing
    /// neural networks, eq. 2).
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn selu(&self) -> Result<Tensor> {
        exponential(
            "selu",
            self,
            Exponential { rate: 1.0, scale: SELU_SCALE * SELU_ALPHA, slope: SELU_SCALE },
        )
    }

    /// `x * tanh(softplus(x))` (Misra 2019, Mish: a self regularized non-monotonic activation function).
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn mish(&self) -> Result<Tensor> {
        unary("mish", self, |x| x.mul(&x.softplus()?.tanh()?), mish_grad)
    }

    /// `x / (1 + |x|)`.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn softsign(&self) -> Result<Tensor> {
        let denominator = |x: &Tensor| x.abs()?.add_scalar(1);
        unary("softsign", self, move |x| x.div(&denominator(x)?), move |x| denominator(x)?.recip()?.square())
    }

    /// `x - tanh(x)`.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn tanhshrink(&self) -> Result<Tensor> {
        unary("tanhshrink", self, |x| x.sub(&x.tanh()?), |x| x.tanh()?.square())
    }

    /// `log(sigmoid(x))`, without overflow.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn logsigmoid(&self) -> Result<Tensor> {
        check_floating("logsigmoid", self)?;
        self.neg()?.softplus()?.neg()
    }

    /// `min(max(x + 3, 0), 6) / 6`. The gradient is 0 at -3 and 3.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn hardsigmoid(&self) -> Result<Tensor> {
        let grad = |x: &Tensor| {
            let within = x.gt_scalar(-3)?.logical_and(&x.lt_scalar(3)?)?;
            within.to_dtype(x.dtype())?.div_scalar(6)
        };
        unary("hardsigmoid", self, six_part, grad)
    }

    /// `x * hardsigmoid(x)` (Howard et al. 2019, Searching for MobileNetV3, section 5.2). The gradient is 0 at -3 and 1 at 3.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn hardswish(&self) -> Result<Tensor> {
        unary("hardswish", self, |x| x.mul(&six_part(x)?), hardswish_grad)
    }

    /// Each element nearer to 0 by `lambda`; 0 where it is that near.
    ///
    /// # Errors
    /// A `lambda` below 0 or NaN, a dtype that is not floating.
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

    /// 0 where an element is from `-lambda` to `lambda`, else the element; its gradient, too.
    ///
    /// # Errors
    /// Truth values.
    pub fn hardshrink(&self, lambda: f64) -> Result<Tensor> {
        check_number("hardshrink", self, self)?;
        // By two comparisons: the smallest integer has no absolute value.
        let x = self.detach();
        self.masked_fill(&x.ge_scalar(-lambda)?.logical_and(&x.le_scalar(lambda)?)?, 0)
    }

    /// `value` where an element is at most `threshold`, else the element. NaN stays. The gradient is 0 where it was replaced.
    ///
    /// # Errors
    /// Truth values.
    pub fn threshold(&self, threshold: f64, value: f64) -> Result<Tensor> {
        check_number("threshold", self, self)?;
        self.masked_fill(&self.detach().le_scalar(threshold)?, value)
    }

    /// `softmax(-x)` along an axis.
    ///
    /// # Errors
    /// As [`softmax`](Tensor::softmax).
    pub fn softmin(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        check_floating("softmin", self)?;
        self.neg()?.softmax(axis)
    }

    /// The first half along an axis times the sigmoid of the second (Dauphin et al. 2017, Language modeling with gated convolutional networks, eq. 1).
    ///
    /// # Shapes
    /// `[.., 2 n, ..]` -> `[.., n, ..]`
    ///
    /// # Errors
    /// An odd size, an axis that does not exist, a dtype that is not floating.
    pub fn glu(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let name = "glu";
        check_floating(name, self)?;
        let given = axis.into();
        let axis = given.resolve(self.shape(), name)?;
        let size = self.dims()[axis];
        if !size.is_multiple_of(2) {
            return Err(Error::invalid(
                name,
                format!("size {size} along axis {}, expected an even one", given.0),
            ));
        }
        let half = |index: usize| self.narrow(axis, index * (size / 2), size / 2);
        let (values, gates) = (half(0)?, half(1)?);
        let gated = |[values, gates]: &[Tensor; 2]| values.mul(&gates.sigmoid()?);
        in_function(name, &[self], || in_accumulator([&values, &gates], gated))
    }

    /// `x` above 0, else `slope * x`: in training with a slope for each element that is drawn from `lower` to `upper`, else with their mean (Xu et al. 2015,
    /// Empirical evaluation of rectified activations in convolutional network, section 2.4).
    ///
    /// # Errors
    /// `lower` above `upper`, numbers that are not finite, a dtype that is not floating.
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

    /// A random choice of one index along an axis, through which gradients flow: `softmax((x + g) / temperature)`, where `g` is drawn from the Gumbel distribution
    /// (Jang et al. 2017, Categorical reparameterization with Gumbel-softmax, eq. 1-2). Where `is_hard`, 1 at the largest one and 0 elsewhere, with the gradients of the
    /// soft choice.
    ///
    /// # Errors
    /// A temperature that is not above 0, an axis that does not exist, a dtype that is not floating.
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
        let given = soft.detach();
        let chosen = given.argmax_keep(axis)?;
        let one =
            given.zeros_like()?.scatter(axis, &chosen, &chosen.ones_like()?.to_dtype(given.dtype())?)?;
        one.sub(&given)?.add(&soft)
    }
}

/// `slope * x` above 0, else `scale * (e^(rate x) - 1)`.
#[derive(Clone, Copy)]
struct Exponential {
    rate: f64,
    scale: f64,
    slope: f64,
}

fn exponential(name: &'static str, x: &Tensor, shape: Exponential) -> Result<Tensor> {
    let Exponential { rate, scale, slope } = shape;
    // Without elements above 0, whose powers overflow and are not taken.
    let exponent = move |x: &Tensor| x.clamp(f64::NEG_INFINITY, 0.0)?.mul_scalar(rate);
    let value = move |x: &Tensor| {
        x.le_scalar(0)?.where_(&exponent(x)?.expm1()?.mul_scalar(scale)?, &x.mul_scalar(slope)?)
    };
    let grad = move |x: &Tensor| {
        // No gradient flows through the exponent at 0: the second derivative is 0 there, as in PyTorch.
        let below = x.masked_fill(&x.lt_scalar(0)?.logical_not()?, 0)?;
        let below = below.mul_scalar(rate)?.exp()?.mul_scalar(scale * rate)?;
        x.le_scalar(0)?.where_(&below, &x.detach().scalar_like(slope)?)
    };
    unary(name, x, value, grad)
}

/// With `t = tanh(softplus(x))`: `t + x sigmoid(x) (1 - t^2)`.
fn mish_grad(x: &Tensor) -> Result<Tensor> {
    let t = x.softplus()?.tanh()?;
    t.add(&x.mul(&x.sigmoid()?)?.mul(&t.square()?.rsub_scalar(1)?)?)
}

/// `min(max(x + 3, 0), 6) / 6`
fn six_part(x: &Tensor) -> Result<Tensor> {
    x.add_scalar(3)?.clamp(0.0, 6.0)?.div_scalar(6)
}

/// `x / 3 + 1/2` between -3 and 3.
fn hardswish_grad(x: &Tensor) -> Result<Tensor> {
    let within = x.div_scalar(3)?.add_scalar(0.5)?;
    within.masked_fill(&x.lt_scalar(3)?.logical_not()?, 1)?.masked_fill(&x.le_scalar(-3)?, 0)
}

/// Numbers of the Gumbel distribution in the shape and the dtype of `x`: `-log(-log(u))`.
fn gumbel(x: &Tensor) -> Result<Tensor> {
    no_grad(|| {
        // Neither logarithm is infinite: 0 is drawn, and the logarithm of 1 would be 0.
        let tiny = 1e-38;
        let drawn = Tensor::rand(*x.shape(), x.dtype(), x.device())?.clamp(tiny, 1.0)?;
        drawn.log()?.neg()?.clamp(tiny, f64::INFINITY)?.log()?.neg()
    })
}
