//! One-cycle policy: up to a high learning rate, then down to almost 0.

use super::{Schedule, check_fraction, check_steps, cosine, linear};
use crate::optim::steps::check_number;
use ternion_core::{Error, Result};

/// The one-cycle policy (Smith and Topin 2018), as PyTorch's `OneCycleLR`: from `max_lr /
/// div_factor` up to `max_lr`, then down to `max_lr / div_factor / final_div_factor` at the last
/// step, where it stays. Momentum is not changed (PyTorch's `cycle_momentum=False`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycleLR {
    max_lr: f64,
    total_steps: u64,
    config: OneCycleConfig,
}

/// Configuration of a [`OneCycleLR`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycleConfig {
    /// Fraction of the steps in which the learning rate rises; 0.3 by default.
    pub pct_start: f64,
    /// The curve; a cosine by default.
    pub anneal_strategy: Anneal,
    /// The first learning rate is `max_lr` divided by this; 25 by default.
    pub div_factor: f64,
    /// The last learning rate is the first one divided by this; 1e4 by default.
    pub final_div_factor: f64,
    /// How the learning rate falls; in a single phase by default.
    pub phases: OneCyclePhases,
}

impl Default for OneCycleConfig {
    fn default() -> Self {
        OneCycleConfig {
            pct_start: 0.3,
            anneal_strategy: Anneal::Cosine,
            div_factor: 25.0,
            final_div_factor: 1e4,
            phases: OneCyclePhases::Two,
        }
    }
}

/// The curve from one learning rate to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anneal {
    /// Half a cosine wave.
    Cosine,
    /// A straight line.
    Linear,
}

/// How the learning rate of a [`OneCycleLR`] falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneCyclePhases {
    /// Up, and down to the last learning rate.
    Two,
    /// Up, down to the first learning rate in the same number of steps, then down to the last
    /// learning rate (PyTorch's `three_phase=True`, as in the paper).
    Three,
}

/// A curve between two learning rates. It ends at step `end`, which need not be an integer.
struct Phase {
    end: f64,
    from_lr: f64,
    to_lr: f64,
}

impl OneCycleLR {
    /// Creates a cycle of `total_steps` steps.
    ///
    /// # Errors
    /// Returns an error if a number is negative or not finite, there are no steps, a fraction is
    /// outside 0 to 1, or a divisor is not above 0.
    pub fn new(max_lr: f64, total_steps: u64, config: OneCycleConfig) -> Result<OneCycleLR> {
        check_number("one_cycle_lr", "max_lr", max_lr)?;
        check_steps("one_cycle_lr", "total_steps", total_steps)?;
        check_fraction("one_cycle_lr", "pct_start", config.pct_start)?;
        let divisors = [("div_factor", config.div_factor), ("final_div_factor", config.final_div_factor)];
        for (name, value) in divisors {
            if !(value.is_finite() && value > 0.0) {
                let detail = format!("{name} {value}, expected a finite number above 0");
                return Err(Error::invalid("one_cycle_lr", detail));
            }
        }
        Ok(OneCycleLR { max_lr, total_steps, config })
    }

    fn phases(&self) -> Vec<Phase> {
        let OneCycleConfig { pct_start, div_factor, final_div_factor, phases, .. } = self.config;
        let (max_lr, first) = (self.max_lr, self.max_lr / div_factor);
        let rise = pct_start * self.total_steps as f64;
        let up = Phase { end: rise - 1.0, from_lr: first, to_lr: max_lr };
        let last =
            |from_lr| Phase { end: (self.total_steps - 1) as f64, from_lr, to_lr: first / final_div_factor };
        match phases {
            OneCyclePhases::Two => vec![up, last(max_lr)],
            OneCyclePhases::Three => {
                vec![up, Phase { end: 2.0 * rise - 2.0, from_lr: max_lr, to_lr: first }, last(first)]
            }
        }
    }
}

impl Schedule for OneCycleLR {
    fn lr(&self, step: u64) -> f64 {
        let step = step.min(self.total_steps - 1) as f64;
        let phases = self.phases();
        let at = phases.iter().position(|phase| step <= phase.end).unwrap_or(phases.len() - 1);
        let Phase { end, from_lr, to_lr } = phases[at];
        let start = if at == 0 { 0.0 } else { phases[at - 1].end };
        // A phase of length 0 is at its end.
        let progress = if end > start { (step - start) / (end - start) } else { 1.0 };
        match self.config.anneal_strategy {
            Anneal::Cosine => cosine(from_lr, to_lr, progress),
            Anneal::Linear => linear(from_lr, to_lr, progress),
        }
    }
}
