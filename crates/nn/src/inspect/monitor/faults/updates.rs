//! Faults of weight updates: missing, too large or too small.

use super::super::StatsConfig;
use super::super::report::{StatsReport, WeightStats};
use super::{Counts, DetectedFault, Fault, describe_patience, format_factor, lr_increase_text};

/// A step is not too large if it changes the outputs of a layer by at most this fraction of the
/// size of its inputs. This exempts weights that start at 0, which change by a large fraction of
/// their size at first.
const MAX_OUTPUT_CHANGE: f64 = 0.1;

/// Reports weights that the step did not change although they have gradients and it changed others.
pub(super) fn not_updated(report: &StatsReport, config: &StatsConfig) -> Vec<DetectedFault> {
    let relative_grad = |weight: &WeightStats| {
        weight.gradient.as_ref().map_or(0.0, |gradient| gradient.rms() / weight.values.rms())
    };
    let update = |weight: &WeightStats| weight.update.unwrap_or(0.0);
    let trained = || report.weights.iter().filter(|weight| !weight.is_frozen && relative_grad(weight) > 0.0);
    let Some(most) = trained().max_by(|one, other| update(one).total_cmp(&update(other))) else {
        return Vec::new();
    };
    // Assumes the learning rate of the weight that changed most. A change below `smallest_update`
    // may be lost when the weight is rounded.
    let expected = |weight: &WeightStats| update(most) * relative_grad(weight) / relative_grad(most);
    let skipped =
        trained().filter(|weight| weight.update == Some(0.0) && expected(weight) > config.smallest_update);
    let to_fault = |weight: &WeightStats| {
        let message = format!(
            "{}: its gradient is not 0, but the step left it as it was and changed others: the optimizer does not have it (look at what it was given: parameters() may leave out a layer), or its learning rate is 0",
            weight.name
        );
        DetectedFault::of_layer(Fault::NotUpdated, weight.layer(), 1.0, message)
    };
    skipped.map(to_fault).collect()
}

pub(super) fn large_updates(report: &StatsReport, config: &StatsConfig) -> Option<DetectedFault> {
    let large = |weight: &&WeightStats| {
        let output_change = |update: f64| update * weight.values.rms() * (weight.fan_in as f64).sqrt();
        weight
            .update
            .is_some_and(|update| update > config.largest_update && output_change(update) > MAX_OUTPUT_CHANGE)
    };
    let size = |weight: &WeightStats| weight.update.unwrap_or(0.0);
    let too_large: Vec<&WeightStats> = report.weights.iter().filter(large).collect();
    let worst = too_large.iter().max_by(|one, other| size(one).total_cmp(&size(other)))?;
    let others = match too_large.len() {
        1 => String::new(),
        2 => format!(", and another by more than {}", config.largest_update),
        count => format!(", and {} others by more than {}", count - 1, config.largest_update),
    };
    let message = format!(
        "{}: the step changed it by {} times its own size{others}, where about {TYPICAL_UPDATE} is usual: {}{}",
        worst.name,
        format_factor(size(worst)),
        step_size_advice(report, worst, size(worst) / TYPICAL_UPDATE),
        lr_increase_text(report)
    );
    Some(DetectedFault::of_model(Fault::LargeUpdates, worst.layer(), size(worst), message))
}

/// Returns what to do about a step that is too large by this factor. A change that points straight
/// to 0 is caused by weight decay.
fn step_size_advice(report: &StatsReport, worst: &WeightStats, factor: f64) -> String {
    let too_large = 10f64.powf(factor.log10().round());
    let by = if too_large < 1e6 { format!("{too_large:.0}") } else { format!("{too_large:.0e}") };
    let known = report.setup.lr.map(|lr| format!(" (it is {lr})")).unwrap_or_default();
    match worst.points_to_zero {
        true => format!(
            "it goes straight to 0, as weight decay goes: divide weight_decay or the learning rate by about {by}{known}"
        ),
        false => format!("divide the learning rate by about {by}{known}"),
    }
}

/// Karpathy's rule of thumb (Stanford's CS231n, "Ratio of weights:updates").
const TYPICAL_UPDATE: f64 = 1e-3;

pub(super) fn small_updates(
    report: &StatsReport,
    config: &StatsConfig,
    counts: &mut Counts,
) -> Option<DetectedFault> {
    let updates = || report.weights.iter().filter(|weight| !weight.is_frozen && weight.update.is_some());
    let size = |weight: &WeightStats| weight.update.unwrap_or(0.0);
    let largest = updates().max_by(|one, other| size(one).total_cmp(&size(other)))?;
    // Counted for the model: the weight that changes most may differ from reading to reading.
    if size(largest) >= config.smallest_update || !counts.persists(Fault::SmallUpdates, None, config) {
        return None;
    }
    let message = format!(
        "{}: no weight changed by more than {} of its size in a step {} (this one, which changed most, by {:.1e} now), where about {TYPICAL_UPDATE} is usual: {}",
        largest.name,
        config.smallest_update,
        describe_patience(config),
        size(largest),
        match report.setup.lr {
            Some(0.0) => "the learning rate is 0",
            _ => "the learning rate, or the gradients, are too small",
        }
    );
    // The metric is constant: updates decrease along a schedule, which is not worth a new report.
    Some(DetectedFault::of_model(Fault::SmallUpdates, largest.layer(), 1.0, message))
}
