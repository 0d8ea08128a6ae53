//! Gradients that are 0 in several readings: of a whole layer, or of a single weight.

use super::StatsConfig;
use super::faults::{Counts, DetectedFault, Fault, describe_patience, layer_or_model, trained_by_layer};
use super::report::{StatsReport, WeightStats};

fn is_zero(weight: &WeightStats) -> bool {
    weight.gradient.as_ref().is_some_and(|stats| stats.elements > 0 && stats.zeros == stats.elements)
}

/// Returns the last layer whose gradients have been 0 in several readings. It is the reason for the
/// zero gradients of the layers before it.
pub(super) fn gradients(
    report: &StatsReport,
    config: &StatsConfig,
    counts: &mut Counts,
) -> Option<DetectedFault> {
    let layers = trained_by_layer(report);
    let zero = layers
        .iter()
        .filter(|(_, weights)| weights.iter().all(|weight| is_zero(weight)))
        .map(|(layer, _)| *layer);
    let zero: Vec<&str> =
        zero.filter(|layer| counts.persists(Fault::ZeroGradient, Some(layer), config)).collect();
    let last = zero.last()?;
    let others = match zero.len() {
        1 => String::new(),
        2 => " (and of another layer)".to_owned(),
        count => format!(" (and of {} other layers)", count - 1),
    };
    let message = format!(
        "{}: all gradients of its parameters{others} were 0 {}: nothing of the loss comes back through what follows it; look for dead ReLUs, a saturated sigmoid, a rounding or a comparison, a dropout of 1 or a norm of one number behind it",
        layer_or_model(last),
        describe_patience(config)
    );
    Some(DetectedFault::of_layer(Fault::ZeroGradient, last, zero.len() as f64, message))
}

/// Whether the output of the layer before this one is all 0, for example because of dead ReLUs,
/// which explains a zero gradient of its weights.
fn has_zero_input(report: &StatsReport, layer: &str) -> bool {
    let at = report.layers.iter().position(|stats| stats.key == layer && !stats.is_op);
    let before = at.and_then(|at| report.layers[..at].last());
    before.is_some_and(|before| before.output.elements > 0 && before.output.zeros == before.output.elements)
}

/// Returns weights whose gradient has been 0 in several readings, while another parameter of their
/// layer has a nonzero gradient.
pub(super) fn weights(report: &StatsReport, config: &StatsConfig, counts: &mut Counts) -> Vec<DetectedFault> {
    let mut faults = Vec::new();
    for (layer, weights) in trained_by_layer(report) {
        let Some(other) = weights.iter().find(|weight| weight.gradient.is_some() && !is_zero(weight)) else {
            continue;
        };
        if has_zero_input(report, layer) {
            continue;
        }
        for weight in weights.iter().filter(|weight| weight.is_matrix && is_zero(weight)) {
            if counts.persists(Fault::ZeroGradient, Some(&weight.name), config) {
                let message = format!(
                    "{}: its gradient was 0 {}, and that of {} was not: look for a hook that changes it, or for inputs of this layer that are all 0; freeze the weight if it is not to be trained",
                    weight.name,
                    describe_patience(config),
                    other.name
                );
                faults.push(DetectedFault::of_layer(Fault::ZeroGradient, layer, 1.0, message));
            }
        }
    }
    faults
}
