//! A learning rate that is reduced when a metric of training stops improving.

use super::check_fraction;
use crate::module::StateDict;
use crate::optim::steps::check_number;
use ternion_core::{Device, Error, Result, Tensor};

/// Reduces the learning rate when a metric has not improved for some time, as PyTorch's
/// `ReduceLROnPlateau`.
///
/// ```
/// use ternion_nn::schedule::{PlateauConfig, ReduceLROnPlateau};
/// # fn main() -> ternion_core::Result<()> {
/// let mut plateau = ReduceLROnPlateau::new(0.1, PlateauConfig { patience: 1, ..Default::default() })?;
/// let rates: Vec<f64> = [3.0, 2.0, 2.0, 2.0].map(|loss| plateau.step(loss)).to_vec();
/// assert_eq!(rates[..3], [0.1; 3]);
/// // Two epochs without improvement: one more than the patience.
/// assert!((rates[3] - 0.01).abs() < 1e-12);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceLROnPlateau {
    config: PlateauConfig,
    state: State,
}

/// Configuration of a [`ReduceLROnPlateau`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauConfig {
    /// Whether smaller or larger metrics are better; smaller by default.
    pub mode: PlateauMode,
    /// The factor by which the learning rate is reduced, below 1; 0.1 by default.
    pub factor: f64,
    /// The number of consecutive metrics without improvement that are tolerated; 10 by default.
    pub patience: u64,
    /// By how much a metric must be better than the best one to count as an improvement; 1e-4 by
    /// default.
    pub threshold: f64,
    /// Whether the threshold is relative to the best metric or absolute; relative by default.
    pub threshold_mode: ThresholdMode,
    /// The number of metrics after a reduction that are not counted as being without improvement; 0
    /// by default.
    pub cooldown: u64,
    /// The smallest learning rate; 0 by default.
    pub min_lr: f64,
    /// Reductions that are not larger than this are not applied; 1e-8 by default.
    pub eps: f64,
}

impl Default for PlateauConfig {
    fn default() -> Self {
        PlateauConfig {
            mode: PlateauMode::Min,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Relative,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

/// Which metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlateauMode {
    /// The smaller one: a loss.
    Min,
    /// The larger one: an accuracy.
    Max,
}

/// How [`PlateauConfig::threshold`] is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdMode {
    /// Better than `best * (1 - threshold)`, or `best * (1 + threshold)` if larger is better. Meant
    /// for metrics above 0.
    Relative,
    /// Better than `best - threshold`, or `best + threshold` if larger is better.
    Absolute,
}

/// The values that change with each metric.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    lr: f64,
    best: f64,
    num_bad_epochs: u64,
    cooldown_counter: u64,
}

impl ReduceLROnPlateau {
    /// Creates a schedule that starts at `lr`.
    ///
    /// # Errors
    /// Returns an error if a number is negative or not finite, or if the factor is not below 1.
    pub fn new(lr: f64, config: PlateauConfig) -> Result<ReduceLROnPlateau> {
        let PlateauConfig { factor, threshold, min_lr, eps, .. } = config;
        let numbers = [("lr", lr), ("threshold", threshold), ("min_lr", min_lr), ("eps", eps)];
        numbers.iter().try_for_each(|&(name, value)| check_number(OP, name, value))?;
        check_fraction(OP, "factor", factor)?;
        if factor == 1.0 {
            return Err(Error::invalid(OP, "factor 1, expected less: the learning rate would never fall"));
        }
        let best = match config.mode {
            PlateauMode::Min => f64::INFINITY,
            PlateauMode::Max => f64::NEG_INFINITY,
        };
        Ok(ReduceLROnPlateau { config, state: State { lr, best, num_bad_epochs: 0, cooldown_counter: 0 } })
    }

    /// Returns the current learning rate.
    pub fn lr(&self) -> f64 {
        self.state.lr
    }

    /// Records a metric, usually the validation loss or accuracy after each epoch, and returns the
    /// learning rate from now on. A NaN is not an improvement.
    pub fn step(&mut self, metric: f64) -> f64 {
        let better = self.is_better(metric);
        let state = &mut self.state;
        if better {
            (state.best, state.num_bad_epochs) = (metric, 0);
        } else {
            state.num_bad_epochs += 1;
        }
        if state.cooldown_counter > 0 {
            state.cooldown_counter -= 1;
            state.num_bad_epochs = 0;
        }
        if state.num_bad_epochs > self.config.patience {
            let reduced = (state.lr * self.config.factor).max(self.config.min_lr);
            if state.lr - reduced > self.config.eps {
                state.lr = reduced;
            }
            state.cooldown_counter = self.config.cooldown;
            state.num_bad_epochs = 0;
        }
        state.lr
    }

    fn is_better(&self, metric: f64) -> bool {
        let (best, threshold) = (self.state.best, self.config.threshold);
        match (self.config.mode, self.config.threshold_mode) {
            (PlateauMode::Min, ThresholdMode::Relative) => metric < best * (1.0 - threshold),
            (PlateauMode::Min, ThresholdMode::Absolute) => metric < best - threshold,
            (PlateauMode::Max, ThresholdMode::Relative) => metric > best * (1.0 + threshold),
            (PlateauMode::Max, ThresholdMode::Absolute) => metric > best + threshold,
        }
    }

    /// Returns the current state as tensors on `device`: `lr`, `best`, `num_bad_epochs` and
    /// `cooldown_counter`. [`checkpoint::write`](crate::checkpoint::write) can save it to a file,
    /// also together with an optimizer's state under other keys.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn state_dict(&self, device: &Device) -> Result<StateDict> {
        let State { lr, best, num_bad_epochs, cooldown_counter } = self.state;
        let count = |value: u64| Tensor::from_slice(&[i64::try_from(value).unwrap_or(i64::MAX)], (), device);
        Ok(StateDict::from([
            (LR.to_owned(), Tensor::from_slice(&[lr], (), device)?),
            (BEST.to_owned(), Tensor::from_slice(&[best], (), device)?),
            (BAD.to_owned(), count(num_bad_epochs)?),
            (COOLDOWN.to_owned(), count(cooldown_counter)?),
        ]))
    }

    /// Resumes from a state that [`state_dict`](ReduceLROnPlateau::state_dict) returned. Nothing is
    /// changed unless all entries fit.
    ///
    /// # Errors
    /// Returns an error if a key is missing or unexpected, a tensor is not a single number of the
    /// expected dtype, a learning rate or count is not valid, or the best metric is NaN.
    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        if let Some(extra) = dict.keys().find(|key| ![LR, BEST, BAD, COOLDOWN].contains(&key.as_str())) {
            return Err(Error::invalid(OP, format!("the state does not fit; extra: {extra}")));
        }
        let lr = entry(dict, LR)?.item::<f64>()?;
        check_number(OP, LR, lr)?;
        let best = entry(dict, BEST)?.item::<f64>()?;
        if best.is_nan() {
            return Err(Error::invalid(OP, "best NaN, expected a number: nothing is better than it"));
        }
        let (num_bad_epochs, cooldown_counter) = (count(dict, BAD)?, count(dict, COOLDOWN)?);
        self.state = State { lr, best, num_bad_epochs, cooldown_counter };
        Ok(())
    }
}

const OP: &str = "reduce_lr_on_plateau";
const LR: &str = "lr";
const BEST: &str = "best";
const BAD: &str = "num_bad_epochs";
const COOLDOWN: &str = "cooldown_counter";

fn entry<'d>(dict: &'d StateDict, key: &str) -> Result<&'d Tensor> {
    dict.get(key).ok_or_else(|| Error::invalid(OP, format!("the state does not fit; missing: {key}")))
}

fn count(dict: &StateDict, key: &str) -> Result<u64> {
    let value = entry(dict, key)?.item::<i64>()?;
    u64::try_from(value).map_err(|_| Error::invalid(OP, format!("{key} {value}, expected at least 0")))
}
