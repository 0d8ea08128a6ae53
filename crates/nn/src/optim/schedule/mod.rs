//! Learning rates that change with the steps of training.
//!
//! A [`Schedule`] depends only on the step number, so that a resumed run needs only its step
//! number. [`ReduceLROnPlateau`] depends on the progress of training and has a state that can be
//! saved. Steps are counted from 0 and may be epochs: the learning rate of step `n` is the one that
//! PyTorch's scheduler of the same name has after `n` calls of its `step()`.
//!
//! ```
//! use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
//! use ternion_nn::schedule::{CosineAnnealingLR, Schedule, Warmup};
//! # use ternion_nn::{Forward, Linear, Module};
//! # use ternion_core::{DType, Result, Tensor};
//! # fn main() -> Result<()> {
//! # let device = ternion_cpu::device();
//! # let model = Linear::new(3, 2, &device)?;
//! # let input = Tensor::ones([5, 3], DType::F32, &device)?;
//! let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
//! // Up to 1e-3 in 10 steps, down to 1e-5 in the next 90.
//! let schedule = Warmup::new(10, 0.01, CosineAnnealingLR::new(1e-3, 90, 1e-5)?)?;
//! for step in 0..100 {
//!     adam.set_lr(schedule.lr(step))?;
//!     adam.step(&model.forward(&input)?.square()?.mean(..)?.backward()?)?;
//! }
//! assert_eq!(schedule.lr(10), 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! Parameter groups scale the optimizer's learning rate by their
//! [`lr_scale`](crate::optim::ParamGroup::lr_scale). Steps recorded by
//! [`Device::capture`](ternion_core::Device::capture) use the learning rate that is set between
//! replays.

mod one_cycle;
mod plateau;

pub use one_cycle::{Anneal, OneCycleConfig, OneCycleLR, OneCyclePhases};
pub use plateau::{PlateauConfig, PlateauMode, ReduceLROnPlateau, ThresholdMode};

use crate::optim::steps::check_number;
use std::f64::consts::PI;
use ternion_core::{Error, Result};

/// A learning rate for each step.
pub trait Schedule {
    /// Returns the learning rate of step number `step`; the first is 0.
    fn lr(&self, step: u64) -> f64;
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, step: u64) -> f64 {
        (**self).lr(step)
    }
}

/// The same learning rate at every step. (PyTorch's `ConstantLR`, a reduced rate for some first
/// steps, is a variant of [`Warmup`].)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    lr: f64,
}

impl Constant {
    /// Creates a schedule with the learning rate `lr` at every step.
    ///
    /// # Errors
    /// Returns an error if `lr` is negative or not finite.
    pub fn new(lr: f64) -> Result<Constant> {
        check_number("constant", "lr", lr)?;
        Ok(Constant { lr })
    }
}

impl Schedule for Constant {
    fn lr(&self, _: u64) -> f64 {
        self.lr
    }
}

/// `lr * gamma^floor(step / step_size)`, as PyTorch's `StepLR`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLR {
    lr: f64,
    step_size: u64,
    gamma: f64,
}

impl StepLR {
    /// Creates a schedule that starts at `lr` and multiplies by `gamma` (default in PyTorch: 0.1)
    /// every `step_size` steps.
    ///
    /// # Errors
    /// Returns an error if a number is negative or not finite, or if `step_size` is 0.
    pub fn new(lr: f64, step_size: u64, gamma: f64) -> Result<StepLR> {
        check_number("step_lr", "lr", lr)?;
        check_number("step_lr", "gamma", gamma)?;
        check_steps("step_lr", "step_size", step_size)?;
        Ok(StepLR { lr, step_size, gamma })
    }
}

impl Schedule for StepLR {
    fn lr(&self, step: u64) -> f64 {
        self.lr * power(self.gamma, step / self.step_size)
    }
}

/// `lr * gamma^(number of milestones <= step)`, as PyTorch's `MultiStepLR`.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStepLR {
    lr: f64,
    /// In ascending order.
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLR {
    /// Creates a schedule that starts at `lr` and multiplies by `gamma` (default in PyTorch: 0.1)
    /// at each of `milestones`, which may be in any order. A milestone that occurs twice counts
    /// twice.
    ///
    /// # Errors
    /// Returns an error if a number is negative or not finite.
    pub fn new(lr: f64, milestones: impl IntoIterator<Item = u64>, gamma: f64) -> Result<MultiStepLR> {
        check_number("multi_step_lr", "lr", lr)?;
        check_number("multi_step_lr", "gamma", gamma)?;
        let mut milestones: Vec<u64> = milestones.into_iter().collect();
        milestones.sort_unstable();
        Ok(MultiStepLR { lr, milestones, gamma })
    }
}

impl Schedule for MultiStepLR {
    fn lr(&self, step: u64) -> f64 {
        let passed = self.milestones.partition_point(|&milestone| milestone <= step);
        self.lr * power(self.gamma, passed as u64)
    }
}

/// `lr * gamma^step`, as PyTorch's `ExponentialLR`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialLR {
    lr: f64,
    gamma: f64,
}

impl ExponentialLR {
    /// Creates a schedule that starts at `lr` and multiplies by `gamma` in every step.
    ///
    /// # Errors
    /// Returns an error if a number is negative or not finite.
    pub fn new(lr: f64, gamma: f64) -> Result<ExponentialLR> {
        check_number("exponential_lr", "lr", lr)?;
        check_number("exponential_lr", "gamma", gamma)?;
        Ok(ExponentialLR { lr, gamma })
    }
}

impl Schedule for ExponentialLR {
    fn lr(&self, step: u64) -> f64 {
        self.lr * power(self.gamma, step)
    }
}

/// `eta_min + (lr - eta_min) (1 + cos(pi * step / t_max)) / 2` (Loshchilov and Hutter 2017,
/// equation 5, without restarts), as PyTorch's `CosineAnnealingLR`. After `t_max` steps it stays at
/// `eta_min`, whereas PyTorch's rises again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineAnnealingLR {
    lr: f64,
    t_max: u64,
    eta_min: f64,
}

impl CosineAnnealingLR {
    /// Creates a schedule from `lr` to `eta_min` (default in PyTorch: 0) in `t_max` steps.
    ///
    /// # Errors
    /// Returns an error if a number is negative or not finite, or if `t_max` is 0.
    pub fn new(lr: f64, t_max: u64, eta_min: f64) -> Result<CosineAnnealingLR> {
        check_number("cosine_annealing_lr", "lr", lr)?;
        check_number("cosine_annealing_lr", "eta_min", eta_min)?;
        check_steps("cosine_annealing_lr", "t_max", t_max)?;
        Ok(CosineAnnealingLR { lr, t_max, eta_min })
    }
}

impl Schedule for CosineAnnealingLR {
    fn lr(&self, step: u64) -> f64 {
        let progress = step.min(self.t_max) as f64 / self.t_max as f64;
        cosine(self.lr, self.eta_min, progress)
    }
}

/// A linear warmup before another schedule: PyTorch's `SequentialLR` of a `LinearLR` and that
/// schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup<S> {
    steps: u64,
    start_factor: f64,
    then: S,
}

impl<S: Schedule> Warmup<S> {
    /// Creates a schedule that rises from `start_factor` (default in PyTorch: 1/3) times the first
    /// learning rate of `then` to that rate in `steps` steps. After these it follows `then`, whose
    /// steps are counted from that point.
    ///
    /// # Errors
    /// Returns an error if `start_factor` is outside 0 to 1.
    pub fn new(steps: u64, start_factor: f64, then: S) -> Result<Warmup<S>> {
        check_fraction("warmup", "start_factor", start_factor)?;
        Ok(Warmup { steps, start_factor, then })
    }
}

impl<S: Schedule> Schedule for Warmup<S> {
    fn lr(&self, step: u64) -> f64 {
        match step.checked_sub(self.steps) {
            Some(after) => self.then.lr(after),
            None => linear(self.start_factor, 1.0, step as f64 / self.steps as f64) * self.then.lr(0),
        }
    }
}

/// Interpolates from `start` to `end` along half a cosine wave, for `progress` from 0 to 1.
fn cosine(start: f64, end: f64, progress: f64) -> f64 {
    end + (start - end) * (1.0 + (PI * progress).cos()) / 2.0
}

/// Interpolates linearly from `start` to `end`, for `progress` from 0 to 1.
fn linear(start: f64, end: f64, progress: f64) -> f64 {
    start + (end - start) * progress
}

/// In floating point: beyond 2^53 steps a power is 0, 1 or infinity anyway.
fn power(gamma: f64, exponent: u64) -> f64 {
    gamma.powf(exponent as f64)
}

fn check_fraction(op: &'static str, name: &str, value: f64) -> Result<()> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("{name} {value}, expected 0 to 1"))),
    }
}

fn check_steps(op: &'static str, name: &str, steps: u64) -> Result<()> {
    match steps {
        0 => Err(Error::invalid(op, format!("{name} 0, expected at least 1"))),
        _ => Ok(()),
    }
}
