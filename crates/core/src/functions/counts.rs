//! Random counts, sampled on the host in f64. Rejection sampling consumes a varying number of
//! uniform random numbers for each element. They come from Philox with a key that is sampled on the
//! device, so the seed of the device determines the result, and all devices return the same counts.

use super::{check_floating, float_tensor};
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::random::RandomBits;
use crate::philox;
use crate::{Device, Shape, Tensor};
use std::f64::consts::TAU;

impl Tensor {
    /// Samples Poisson distributions with these rates, in their dtype. Copies the rates to the
    /// host.
    ///
    /// # Errors
    /// Returns an error if a rate is negative or not finite, or if the dtype is not floating-point.
    pub fn poisson(&self) -> Result<Tensor> {
        check_floating("poisson", self)?;
        let rates = self.detach().to_vec_f64()?;
        if let Some(rate) = rates.iter().find(|rate| !(rate.is_finite() && **rate >= 0.0)) {
            return Err(Error::invalid(
                "poisson",
                format!("a rate of {rate}, expected a finite number of at least 0"),
            ));
        }
        let key = sample_key(self.device())?;
        let counts = rates
            .iter()
            .zip(0..)
            .map(|(&rate, index)| sample_poisson(rate, &mut UniformNumbers::of(key, index)));
        float_tensor(counts.collect(), *self.shape(), self.dtype(), self.device())
    }

    /// Samples binomial distributions: the number of successes among as many trials as each element
    /// says, with the success probability `probability`, in the dtype of the trials. Copies both to
    /// the host.
    ///
    /// # Shapes
    /// Trials and probabilities of one shape -> same shape
    ///
    /// # Errors
    /// Returns an error if the shapes or dtypes differ, if a number of trials is negative, not an
    /// integer, or not below 2^53, if a probability is outside `0..=1`, or if the dtype is not
    /// floating-point.
    pub fn binomial(&self, probability: &Tensor) -> Result<Tensor> {
        let name = "binomial";
        check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &probability.meta())?;
        check::shape(name, "probability", &probability.meta(), *self.shape())?;
        let (trials, probabilities) = (self.detach().to_vec_f64()?, probability.detach().to_vec_f64()?);
        let is_count = |trials: &f64| *trials >= 0.0 && *trials < 2f64.powi(53) && trials.fract() == 0.0;
        if let Some(wrong) = trials.iter().find(|trials| !is_count(trials)) {
            return Err(Error::invalid(name, format!("{wrong} trials, expected an integer of at least 0")));
        }
        if let Some(wrong) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            return Err(Error::invalid(name, format!("probability {wrong}, expected 0 to 1")));
        }
        let key = sample_key(self.device())?;
        let pairs = trials.iter().zip(&probabilities).zip(0..);
        let counts = pairs
            .map(|((&trials, &p), index)| sample_binomial(trials, p, &mut UniformNumbers::of(key, index)));
        float_tensor(counts.collect(), *self.shape(), self.dtype(), self.device())
    }
}

/// Samples 62 random bits on the device.
fn sample_key(device: &Device) -> Result<u64> {
    let (state, offset) = device.draw(2)?;
    let bits = apply_one(RandomBits { shape: Shape::new(&[2])?, bits: 31, offset }, &[&state])?;
    Ok(bits.to_vec::<i32>()?.into_iter().fold(0, |key, bits| (key << 31) | u64::from(bits as u32)))
}

/// Uniform random numbers between 0 and 1, odd multiples of 2^-53, for one element.
struct UniformNumbers {
    key: u64,
    /// The index of the next Philox block. Each block yields two numbers.
    block: u64,
    second: Option<f64>,
}

impl UniformNumbers {
    fn of(key: u64, element: u64) -> UniformNumbers {
        UniformNumbers { key, block: element << 24, second: None }
    }

    fn next(&mut self) -> f64 {
        if let Some(second) = self.second.take() {
            return second;
        }
        let [a, b, c, d] = philox::block(self.key, self.block);
        self.block = self.block.wrapping_add(1);
        let uniform = |high: u32, low: u32| {
            let bits = (u64::from(high) << 20) | u64::from(low >> 12);
            (bits as f64 + 0.5) * 2f64.powi(-52)
        };
        self.second = Some(uniform(c, d));
        uniform(a, b)
    }
}

/// Returns `log(n!)` of an integer: below 10 from the product, above from Stirling's series (DLMF
/// 5.11.1).
fn log_factorial(n: f64) -> f64 {
    if n < 10.0 {
        return (1..=n as u32).map(f64::from).product::<f64>().ln();
    }
    let series =
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / (n * n)) / (n * n)) / (n * n)) / n;
    n * n.ln() - n + 0.5 * (TAU * n).ln() + series
}

/// Samples a Poisson distribution: small rates by products of uniform random numbers (Knuth 3.4.1),
/// others by Hörmann's transformed rejection (1993, The transformed rejection method for
/// generating Poisson random variables, PTRS).
fn sample_poisson(rate: f64, numbers: &mut UniformNumbers) -> f64 {
    if rate < 10.0 {
        let (limit, mut product, mut count) = ((-rate).exp(), numbers.next(), 0.0);
        while product > limit {
            product *= numbers.next();
            count += 1.0;
        }
        return count;
    }
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let quick = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (numbers.next() - 0.5, numbers.next());
        let side = 0.5 - u.abs();
        let count = ((2.0 * a / side + b) * u + rate + 0.43).floor();
        if side >= 0.07 && v <= quick {
            return count;
        }
        if count < 0.0 || (side < 0.013 && v > side) {
            continue;
        }
        let height = v.ln() + inverse_alpha.ln() - (a / (side * side) + b).ln();
        if height <= count * rate.ln() - rate - log_factorial(count) {
            return count;
        }
    }
}

/// Samples a binomial distribution: if few successes are expected, by the gaps between them,
/// otherwise by Hörmann's transformed rejection (1993, The generation of binomial random variates,
/// BTRS). For a probability above 1/2 the failures are counted.
fn sample_binomial(trials: f64, p: f64, numbers: &mut UniformNumbers) -> f64 {
    if p > 0.5 {
        return trials - sample_binomial(trials, 1.0 - p, numbers);
    }
    if trials * p < 10.0 {
        if p == 0.0 {
            return 0.0;
        }
        let (mut last, mut count) = (0.0, -1.0);
        while last <= trials {
            last += (numbers.next().ln() / (-p).ln_1p()).ceil().max(1.0);
            count += 1.0;
        }
        return count;
    }
    let std = (trials * p * (1.0 - p)).sqrt();
    let b = 1.15 + 2.53 * std;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let center = trials * p + 0.5;
    let quick = 0.92 - 4.2 / b;
    let alpha = (2.83 + 5.1 / b) * std;
    let (odds, mode) = ((p / (1.0 - p)).ln(), ((trials + 1.0) * p).floor());
    let highest = log_factorial(mode) + log_factorial(trials - mode);
    loop {
        let (u, v) = (numbers.next() - 0.5, numbers.next());
        let side = 0.5 - u.abs();
        let count = ((2.0 * a / side + b) * u + center).floor();
        if !(0.0..=trials).contains(&count) {
            continue;
        }
        if side >= 0.07 && v <= quick {
            return count;
        }
        let height = (v * alpha / (a / (side * side) + b)).ln();
        let log_ratio =
            highest - log_factorial(count) - log_factorial(trials - count) + (count - mode) * odds;
        if height <= log_ratio {
            return count;
        }
    }
}
