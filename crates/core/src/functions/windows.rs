//! Window functions for signals (Harris 1978, On the use of windows for harmonic analysis). They
//! are computed on the host in f64 and rounded once.

use super::float_tensor;
use crate::{DType, Device, Error, Result, Tensor};
use std::f64::consts::PI;

/// A window function, as a formula of positions x from 0 to 1, or of element indices n from 0 to
/// N - 1.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalWindow {
    /// `1 - |2x - 1|`.
    Bartlett,
    /// The general cosine window with coefficients 0.42, 0.5 and 0.08.
    Blackman,
    /// `sin(pi (n + 1/2) / N)`.
    Cosine,
    /// `e^(-|n - center| / tau)`, by default with the center in the middle.
    Exponential {
        /// The element at the maximum; `None` for the middle.
        center: Option<f64>,
        /// The decay length, above 0.
        tau: f64,
    },
    /// `e^(-((n - (N - 1) / 2) / std)^2 / 2)`.
    Gaussian {
        /// The standard deviation, above 0.
        std: f64,
    },
    /// The sum of `(-1)^k a[k] cos(2 pi k x)`.
    GeneralCosine(
        /// The coefficients, at least one.
        Vec<f64>,
    ),
    /// `alpha - (1 - alpha) cos(2 pi x)`.
    GeneralHamming {
        /// 0.5 for the Hann window, 0.54 for the Hamming window.
        alpha: f64,
    },
    /// The general Hamming window with 0.54.
    Hamming,
    /// The general Hamming window with 0.5.
    Hann,
    /// `I0(beta sqrt(1 - (2x - 1)^2)) / I0(beta)` (Kaiser and Schafer 1980).
    Kaiser {
        /// The shape parameter, at least 0; larger values make the window narrower.
        beta: f64,
    },
    /// The general cosine window with coefficients 0.3635819, 0.4891775, 0.1365995 and 0.0106411
    /// (Nuttall 1981).
    Nuttall,
}

const BLACKMAN: [f64; 3] = [0.42, 0.5, 0.08];
const NUTTALL: [f64; 4] = [0.363_581_9, 0.489_177_5, 0.136_599_5, 0.010_641_1];

impl SignalWindow {
    /// Returns the window, `[length]`. In a symmetric window the last element equals the first. A
    /// periodic window is the symmetric one with one more element, without its last element.
    ///
    /// # Errors
    /// Returns an error if a parameter is outside its range, if the dtype is not floating-point, or
    /// if the allocation fails.
    pub fn make(&self, length: usize, is_symmetric: bool, dtype: DType, device: &Device) -> Result<Tensor> {
        let name = self.name();
        self.check(is_symmetric)?;
        if !dtype.is_float() {
            return Err(Error::dtype(name, "output", dtype, "a floating dtype"));
        }
        let mut values = Vec::new();
        if values.try_reserve_exact(length).is_err() {
            return Err(Error::host_memory(length.saturating_mul(size_of::<f64>())));
        }
        match length {
            // A single element is the middle of the window, regardless of the formula.
            1 if !matches!(self, SignalWindow::Exponential { center: Some(_), .. }) => values.push(1.0),
            _ => {
                let count = if is_symmetric { length } else { length.saturating_add(1) };
                values.extend((0..length).map(|index| self.value_at(index as f64, count as f64)));
            }
        }
        float_tensor(values, [length], dtype, device)
    }

    fn name(&self) -> &'static str {
        match self {
            SignalWindow::Bartlett => "bartlett",
            SignalWindow::Blackman => "blackman",
            SignalWindow::Cosine => "cosine",
            SignalWindow::Exponential { .. } => "exponential",
            SignalWindow::Gaussian { .. } => "gaussian",
            SignalWindow::GeneralCosine(_) => "general_cosine",
            SignalWindow::GeneralHamming { .. } => "general_hamming",
            SignalWindow::Hamming => "hamming",
            SignalWindow::Hann => "hann",
            SignalWindow::Kaiser { .. } => "kaiser",
            SignalWindow::Nuttall => "nuttall",
        }
    }

    fn check(&self, is_symmetric: bool) -> Result<()> {
        let fail = |detail: String| Err(Error::invalid(self.name(), detail));
        match self {
            SignalWindow::Exponential { tau, .. } if tau.is_nan() || *tau <= 0.0 => {
                fail(format!("tau of {tau}, expected above 0"))
            }
            SignalWindow::Exponential { center: Some(_), .. } if is_symmetric => {
                fail("a center of a symmetric window, whose center is its middle".into())
            }
            SignalWindow::Gaussian { std } if std.is_nan() || *std <= 0.0 => {
                fail(format!("std of {std}, expected above 0"))
            }
            SignalWindow::GeneralCosine(coefficients) if coefficients.is_empty() => {
                fail("no coefficients, expected at least one".into())
            }
            SignalWindow::Kaiser { beta } if beta.is_nan() || *beta < 0.0 => {
                fail(format!("beta of {beta}, expected at least 0"))
            }
            _ => Ok(()),
        }
    }

    /// Returns element n of a symmetric window with `count` elements.
    fn value_at(&self, n: f64, count: f64) -> f64 {
        let last = count - 1.0;
        // Measured from the middle, so that both sides of the window are bit-identical.
        let offset = n - last / 2.0;
        match self {
            SignalWindow::Bartlett => 1.0 - offset.abs() / (last / 2.0),
            SignalWindow::Blackman => sum_of_cosines(&BLACKMAN, offset, last),
            SignalWindow::Cosine => (PI * offset / count).cos(),
            SignalWindow::Exponential { center, tau } => {
                (-center.map_or(offset, |center| n - center).abs() / tau).exp()
            }
            SignalWindow::Gaussian { std } => (-0.5 * (offset / std).powi(2)).exp(),
            SignalWindow::GeneralCosine(coefficients) => sum_of_cosines(coefficients, offset, last),
            SignalWindow::GeneralHamming { alpha } => sum_of_cosines(&[*alpha, 1.0 - alpha], offset, last),
            SignalWindow::Hamming => sum_of_cosines(&[0.54, 0.46], offset, last),
            SignalWindow::Hann => sum_of_cosines(&[0.5, 0.5], offset, last),
            SignalWindow::Kaiser { beta } => {
                let ratio = 2.0 * offset / last;
                let inner = beta * ((1.0 - ratio) * (1.0 + ratio)).max(0.0).sqrt();
                (inner - beta).exp() * scaled_i0(inner) / scaled_i0(*beta)
            }
            SignalWindow::Nuttall => sum_of_cosines(&NUTTALL, offset, last),
        }
    }
}

/// Returns the sum of `(-1)^k a[k] cos(2 pi k x)` at `x = offset / last + 1/2`. The shift by 1/2
/// cancels the signs.
fn sum_of_cosines(coefficients: &[f64], offset: f64, last: f64) -> f64 {
    let terms = coefficients.iter().enumerate();
    terms.map(|(k, a)| a * (2.0 * PI * k as f64 * offset / last).cos()).sum()
}

/// Returns `e^-x` times the modified Bessel function of the first kind of order 0 (DLMF 10.25.2)
/// for x of at least 0: the sum of `(x/2)^2k / k!^2`, whose terms are all positive, or for large x
/// the asymptotic expansion (DLMF 10.40.1).
fn scaled_i0(x: f64) -> f64 {
    if x > 100.0 {
        let (mut term, mut sum) = (1.0, 1.0);
        for k in 1..30 {
            let odd = 2.0 * f64::from(k) - 1.0;
            term *= odd * odd / (8.0 * x * f64::from(k));
            sum += term;
        }
        return sum / (2.0 * PI * x).sqrt();
    }
    let (mut term, mut sum, mut k) = (1.0, 1.0, 0.0);
    while term > sum * 1e-17 {
        k += 1.0;
        term *= (x / 2.0 / k).powi(2);
        sum += term;
    }
    sum * (-x).exp()
}
