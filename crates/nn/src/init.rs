//! Initialization of parameters, with the formulas of PyTorch's `torch.nn.init`.
//!
//! All values are drawn from the device's random number generator. [`Device::seed`] therefore
//! determines them, and they are the same on every device.

use ternion_core::{DType, Device, Error, IntoShape, Result, Shape, Tensor, no_grad};

/// A distribution from which a parameter is initialized.
///
/// Fans are those of a weight `[out, in, ..]`: fan-in is `in` and fan-out is `out`, each times the
/// product of the remaining sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// The same value for all elements.
    Constant(f64),
    /// Uniform on `low..high`.
    Uniform {
        /// Lower bound, inclusive.
        low: f64,
        /// Upper bound, exclusive.
        high: f64,
    },
    /// The normal distribution.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        std: f64,
    },
    /// The normal distribution, truncated to an interval.
    TruncatedNormal {
        /// The mean of the distribution before truncation.
        mean: f64,
        /// The standard deviation of the distribution before truncation.
        std: f64,
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// Uniform on `-b..b` with `b = gain * sqrt(3 / fan)` (He et al. 2015).
    KaimingUniform {
        /// Whether the variance of the outputs or of the gradients is preserved.
        fan: Fan,
        /// The nonlinearity that follows the weight.
        nonlinearity: Nonlinearity,
    },
    /// Normal with standard deviation `gain / sqrt(fan)` (He et al. 2015).
    KaimingNormal {
        /// Whether the variance of the outputs or of the gradients is preserved.
        fan: Fan,
        /// The nonlinearity that follows the weight.
        nonlinearity: Nonlinearity,
    },
    /// Uniform on `-b..b` with `b = gain * sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010,
    /// eq. 16).
    XavierUniform {
        /// A factor, see [`Nonlinearity::gain`].
        gain: f64,
    },
    /// Normal with standard deviation `gain * sqrt(2 / (fan_in + fan_out))` (Glorot and Bengio
    /// 2010).
    XavierNormal {
        /// A factor, see [`Nonlinearity::gain`].
        gain: f64,
    },
}

/// Which of a weight's two fans is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// The number of inputs of one output: preserves the variance of outputs.
    #[default]
    In,
    /// The number of outputs of one input: preserves the variance of gradients.
    Out,
}

/// The nonlinearity that follows a weight, which determines the scale of its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// No nonlinearity, a convolution or a sigmoid: gain 1.
    Linear,
    /// Gain 5/3.
    Tanh,
    /// Gain `sqrt 2`.
    ReLU,
    /// Gain `sqrt(2 / (1 + slope^2))`.
    LeakyReLU(f64),
    /// Gain 3/4.
    SELU,
}

impl Nonlinearity {
    /// Returns the factor by which the standard deviation is scaled, as PyTorch's `calculate_gain`.
    pub fn gain(self) -> f64 {
        match self {
            Nonlinearity::Linear => 1.0,
            Nonlinearity::Tanh => 5.0 / 3.0,
            Nonlinearity::ReLU => 2f64.sqrt(),
            Nonlinearity::LeakyReLU(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Nonlinearity::SELU => 0.75,
        }
    }
}

impl Init {
    /// Returns the default of PyTorch's linear and convolution layers: `kaiming_uniform(a = sqrt
    /// 5)`, uniform on `-1/sqrt(fan_in)..1/sqrt(fan_in)`.
    pub fn layer_default() -> Init {
        Init::KaimingUniform { fan: Fan::In, nonlinearity: Nonlinearity::LeakyReLU(5f64.sqrt()) }
    }

    /// Returns a tensor with initial values. Half-precision values are drawn in f32 and rounded.
    ///
    /// # Errors
    /// Returns an error if the shape lacks the two axes that fans need, bounds are in the wrong
    /// order, the dtype is not floating, or memory is exhausted.
    pub fn tensor(self, shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        if !dtype.is_float() {
            return Err(Error::dtype("init", "parameter", dtype, "a floating dtype"));
        }
        let shape = shape.into_shape()?;
        no_grad(|| sample(self.distribution(&shape)?, shape, dtype, device))
    }

    /// Returns the equivalent distribution for a weight of this shape, with its parameters
    /// computed: uniform, normal, truncated normal or constant.
    ///
    /// # Errors
    /// Returns an error if the shape lacks the two axes that fans need, bounds are in the wrong
    /// order, or a number is not finite.
    pub fn distribution(self, shape: &Shape) -> Result<Init> {
        let symmetric = |bound: f64| Init::Uniform { low: -bound, high: bound };
        let centered = |std: f64| Init::Normal { mean: 0.0, std };
        let distribution = match self {
            Init::KaimingUniform { fan, nonlinearity } => {
                symmetric(3f64.sqrt() * nonlinearity.gain() / fan_of(shape, fan)?.sqrt())
            }
            Init::KaimingNormal { fan, nonlinearity } => {
                centered(nonlinearity.gain() / fan_of(shape, fan)?.sqrt())
            }
            Init::XavierUniform { gain } => symmetric(gain * (6.0 / fan_sum(shape)?).sqrt()),
            Init::XavierNormal { gain } => centered(gain * (2.0 / fan_sum(shape)?).sqrt()),
            distribution => distribution,
        };
        distribution.check()?;
        Ok(distribution)
    }

    fn check(self) -> Result<()> {
        let fits = match self {
            Init::Uniform { low, high } => low.is_finite() && high.is_finite() && low <= high,
            Init::Normal { mean, std } => mean.is_finite() && std.is_finite() && std >= 0.0,
            Init::TruncatedNormal { mean, std, low, high } => {
                mean.is_finite() && std.is_finite() && std > 0.0 && low < high
            }
            _ => true,
        };
        if fits { Ok(()) } else { Err(Error::invalid("init", format!("{self:?} is not a distribution"))) }
    }
}

/// Returns fan-in and fan-out of a weight `[out, in, ..]`.
///
/// # Errors
/// Returns an error for fewer than two axes.
pub fn fans(shape: &Shape) -> Result<[usize; 2]> {
    let [outputs, inputs, kernel_dims @ ..] = shape.dims() else {
        return Err(Error::Rank { op: "init", expected: "at least 2".into(), shape: Box::new(*shape) });
    };
    let kernel_elements: usize = kernel_dims.iter().product();
    Ok([inputs * kernel_elements, outputs * kernel_elements])
}

/// Returns one fan, at least 1: a weight without elements has no values to scale.
fn fan_of(shape: &Shape, fan: Fan) -> Result<f64> {
    let [fan_in, fan_out] = fans(shape)?;
    Ok(match fan {
        Fan::In => fan_in,
        Fan::Out => fan_out,
    }
    .max(1) as f64)
}

fn fan_sum(shape: &Shape) -> Result<f64> {
    let [fan_in, fan_out] = fans(shape)?;
    Ok((fan_in + fan_out).max(1) as f64)
}

/// Draws values. Computes the parameters of the distribution if they depend on the shape.
fn sample(distribution: Init, shape: Shape, dtype: DType, device: &Device) -> Result<Tensor> {
    // Random ops support f32 and f64.
    let sample_dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let values = match distribution {
        Init::Constant(value) => return Tensor::full(shape, value, dtype, device),
        Init::Uniform { low, high } => {
            Tensor::rand(shape, sample_dtype, device)?.mul_scalar(high - low)?.add_scalar(low)?
        }
        Init::Normal { mean, std } => {
            Tensor::randn(shape, sample_dtype, device)?.mul_scalar(std)?.add_scalar(mean)?
        }
        Init::TruncatedNormal { mean, std, low, high } => {
            truncated_normal([mean, std], [low, high], shape, device)?
        }
        _ => return sample(distribution.distribution(&shape)?, shape, dtype, device),
    };
    values.to_dtype(dtype)
}

/// Samples by inversion: draws uniform numbers between the CDF values of the two bounds, and maps
/// them through the inverse CDF. Runs on the host, because there is no op for the inverse CDF.
fn truncated_normal(
    [mean, std]: [f64; 2],
    [low, high]: [f64; 2],
    shape: Shape,
    device: &Device,
) -> Result<Tensor> {
    let [low_cdf, high_cdf] = [low, high].map(|bound| normal_cdf((bound - mean) / std));
    let uniform = Tensor::rand(shape, DType::F64, device)?.to_vec::<f64>()?;
    let values: Vec<f64> = uniform
        .into_iter()
        .map(|u| (mean + std * normal_quantile(low_cdf + u * (high_cdf - low_cdf))).clamp(low, high))
        .collect();
    Tensor::from_vec(values, shape, device)
}

/// The CDF of the standard normal distribution, by its Taylor series near 0 and the continued
/// fraction of its tail (Abramowitz and Stegun 26.2.10, 26.2.14).
fn normal_cdf(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 3.0 {
        let (mut term, mut sum, mut n) = (x, x, 1.0);
        while term.abs() > 1e-17 * sum.abs() {
            n += 2.0;
            term *= x * x / n;
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let fraction = (1..=80).rev().fold(x.abs(), |below, k| x.abs() + f64::from(k) / below);
    let tail = if x.is_infinite() { 0.0 } else { density / fraction };
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The inverse of [`normal_cdf`], by bisection up to the resolution of the CDF.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    while high - low > 1e-13 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < probability { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values are mpmath's `ncdf`, computed with 30 digits.
    #[test]
    fn normal_distribution_matches_reference() {
        let pairs = [
            (-6.0, 9.865_876_450_376_98e-10),
            (-3.5, 2.326_290_790_355_250_4e-4),
            (-1.0, 0.158_655_253_931_457_05),
            (0.0, 0.5),
            (0.3, 0.617_911_422_188_952_7),
            (2.999, 0.998_645_663_466_272_9),
            (4.0, 0.999_968_328_758_166_9),
        ];
        for (x, probability) in pairs {
            assert!((normal_cdf(x) - probability).abs() <= 1e-14, "at {x}: {}", normal_cdf(x));
            assert!((normal_quantile(probability) - x).abs() <= 1e-9, "inverse at {probability}");
        }
        assert_eq!(normal_cdf(f64::INFINITY), 1.0);
        assert_eq!(normal_cdf(f64::NEG_INFINITY), 0.0);
    }

    #[test]
    fn fans_follow_the_receptive_field() {
        let shape = |dims: &[usize]| Shape::new(dims).expect("a small shape");
        assert_eq!(fans(&shape(&[32, 16, 3, 5])).expect("rank 4"), [240, 480]);
        let message = fans(&shape(&[32])).expect_err("rank 1").to_string();
        assert_eq!(message, "init: expected at least 2 axes, got shape [32]");
    }
}
