//! Messages about faults, from statistics: the layer at fault, the figure that shows it, and what
//! to try.

mod updates;

use super::activations::Activation;
use super::origins::Origin;
use super::report::{LayerStats, StatsReport, WeightStats};
use super::{StatsConfig, input, setup, zero};
use std::collections::HashMap;
use std::fmt;
use ternion_core::Stats;

/// A fault of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Outputs, weights or gradients are NaN or infinite. The warning names the origin.
    NotFinite,
    /// Outputs grow from layer to layer.
    ExplodingOutputs,
    /// Outputs shrink from layer to layer.
    VanishingOutputs,
    /// Gradients grow from the last layer to the first.
    ExplodingGradients,
    /// Gradients shrink from the last layer to the first.
    VanishingGradients,
    /// All outputs of a ReLU are 0, or most of its units are 0 for every example, so that no
    /// gradient flows.
    DeadReLU,
    /// A parameter that is trained has no gradient. This excludes parameters that the optimizer
    /// does not have and whose layer ran in [`no_grad`](ternion_core::no_grad).
    MissingGradient,
    /// The gradients of all parameters of a layer, or of one of its weights, are 0.
    ZeroGradient,
    /// A step did not change weights whose gradients are not 0, and changed others.
    NotUpdated,
    /// A step changes weights by a large fraction of their size.
    LargeUpdates,
    /// Steps change no weight noticeably.
    SmallUpdates,
    /// Nearly all outputs of a sigmoid, tanh or softmax within the model are saturated.
    Saturated,
    /// A softmax is applied to the output of a softmax, for example by a cross-entropy; or a
    /// sigmoid to the output of a sigmoid.
    DoubleActivation,
    /// The model is trained while its dropout and batch norm layers are in evaluation mode.
    EvaluationMode,
    /// The input is constant, or too large or too small for the initial weights.
    UnscaledInput,
    /// All elements of a weight are equal, so that its units stay equal.
    EqualWeights,
    /// Gradients were added to gradients that a step had already used.
    StaleGradients,
    /// A list contains the same layer several times.
    RepeatedLayer,
    /// A layer computes within the model, but the model's traversal does not include it.
    UnvisitedLayer,
    /// A loss treats outputs as log-probabilities that are not.
    NoLogProbabilities,
    /// Outputs `[n, 1]` and targets `[n]`, or the reverse, were broadcast to `[n, n]`.
    BroadcastTarget,
    /// Two linear layers follow each other without an activation, and are equivalent to one.
    MissingActivation,
}

/// A fault, with the layer to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsWarning {
    /// The kind of fault.
    pub fault: Fault,
    /// The key of the layer; empty for the model itself and for its input.
    pub layer: String,
    /// The message: layer, figures, and what to try.
    pub message: String,
    /// The step of the first reading that showed it.
    pub since: u64,
}

impl fmt::Display for StatsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A fault in one reading.
pub(super) struct DetectedFault {
    fault: Fault,
    layer: String,
    message: String,
    scope: FaultScope,
    /// The figure of the message that measures the fault, at least 0.
    metric: f64,
}

/// When the faults of two readings count as the same fault.
#[derive(PartialEq)]
enum FaultScope {
    /// If they are at the same layer.
    Layer,
    /// If they are in the same model, at any layer.
    Model,
}

impl DetectedFault {
    pub(super) fn of_layer(fault: Fault, layer: &str, metric: f64, message: String) -> DetectedFault {
        DetectedFault { fault, layer: layer.to_owned(), message, scope: FaultScope::Layer, metric }
    }

    pub(super) fn of_model(fault: Fault, layer: &str, metric: f64, message: String) -> DetectedFault {
        DetectedFault { fault, layer: layer.to_owned(), message, scope: FaultScope::Model, metric }
    }

    fn key(&self) -> FaultKey {
        (self.fault, (self.scope == FaultScope::Layer).then(|| self.layer.clone()))
    }
}

/// A fault of a layer or, if there is none, of the model.
type FaultKey = (Fault, Option<String>);

/// The faults in earlier readings.
#[derive(Default)]
pub(super) struct History {
    counts: Counts,
    reported: HashMap<FaultKey, ReportedFault>,
}

impl History {
    /// Sets the warnings of a report, including faults that have lasted long enough.
    pub(super) fn warn(&mut self, report: &mut StatsReport, config: &StatsConfig) {
        self.counts.begin();
        let faults = find_faults(report, config, &mut self.counts);
        self.reported.values_mut().for_each(|reported| reported.absent += 1);
        for fault in faults {
            let reported =
                self.reported.entry(fault.key()).or_insert_with(|| ReportedFault::new(report.step));
            let is_due = reported.is_due(fault.metric);
            let DetectedFault { fault, layer, message, .. } = fault;
            let warning = StatsWarning { fault, layer, message, since: reported.since };
            report.warnings.extend(is_due.then(|| warning.clone()));
            report.all_warnings.push(warning);
        }
        self.reported.retain(|_, reported| reported.absent < config.patience);
    }
}

/// The number of consecutive readings that showed a condition that a single batch, or the first
/// steps, may show by chance.
#[derive(Default)]
pub(super) struct Counts {
    before: HashMap<FaultKey, usize>,
    now: HashMap<FaultKey, usize>,
}

impl Counts {
    fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Counts this reading for a fault of a layer (or of the model, without one), and returns
    /// whether enough readings in a row showed it.
    pub(super) fn persists(&mut self, fault: Fault, layer: Option<&str>, config: &StatsConfig) -> bool {
        let key = (fault, layer.map(str::to_owned));
        let readings = self.before.get(&key).copied().unwrap_or(0) + 1;
        self.now.insert(key, readings);
        readings >= config.patience
    }
}

/// A fault that has been reported.
struct ReportedFault {
    /// The step of the first reading that showed it.
    since: u64,
    /// The number of readings that have shown it.
    readings: usize,
    /// The value of `readings` at the last report.
    readings_at_report: usize,
    /// The metric in the last report.
    metric: f64,
    /// The number of readings since the last one that showed it.
    absent: usize,
}

/// A fault is reported again if its metric has changed by more than this factor.
const METRIC_CHANGE: f64 = 10.0;

impl ReportedFault {
    fn new(since: u64) -> ReportedFault {
        ReportedFault { since, readings: 0, readings_at_report: 0, metric: 0.0, absent: 0 }
    }

    /// Records a reading that shows the fault, and returns whether to report it: the first, second,
    /// fourth, eighth and so on, and one whose metric has changed.
    fn is_due(&mut self, metric: f64) -> bool {
        self.absent = 0;
        self.readings += 1;
        let has_changed = metric.max(self.metric) > METRIC_CHANGE * metric.min(self.metric);
        let is_due = self.readings >= 2 * self.readings_at_report || has_changed;
        if is_due {
            (self.readings_at_report, self.metric) = (self.readings, metric);
        }
        is_due
    }
}

/// Returns all faults of a report. If values are not finite, omits all others that depend on
/// values.
fn find_faults(report: &StatsReport, config: &StatsConfig, counts: &mut Counts) -> Vec<DetectedFault> {
    let mut faults: Vec<DetectedFault> = not_finite(report).into_iter().collect();
    let is_finite = faults.is_empty();
    faults.extend(setup::find_faults(report, is_finite));
    if is_finite {
        faults.extend(input::find_faults(report, config, counts));
        faults.extend(output_sizes(report, config, counts));
        faults.extend(dead_relus(report, config, counts));
        faults.extend(setup::saturated(report, config, counts));
        faults.extend(gradient_flow(report, config));
    }
    faults.extend(setup::missing(report));
    if is_finite {
        faults.extend(zero::gradients(report, config, counts));
        faults.extend(zero::weights(report, config, counts));
        faults.extend(updates::not_updated(report, config));
        faults.extend(updates::large_updates(report, config));
        faults.extend(updates::small_updates(report, config, counts));
    }
    faults
}

/// Describes how long a fault has lasted.
pub(super) fn describe_patience(config: &StatsConfig) -> String {
    format!("in each of the last {} readings", config.patience)
}

// ---- NaN and infinity

/// Formats as "3 of 40 outputs are NaN and 2 infinite".
pub(super) fn describe_non_finite(stats: &Stats, what: &str) -> String {
    let Stats { nan, infinite, elements, .. } = stats;
    match (nan, infinite) {
        (nan, 0) => format!("{nan} of {elements} {what} are NaN"),
        (0, infinite) => format!("{infinite} of {elements} {what} are infinite"),
        _ => format!("{nan} of {elements} {what} are NaN and {infinite} infinite"),
    }
}

/// Reports the first layer whose output is not finite; otherwise the first weight; otherwise the
/// first gradient in the order of the backward pass.
fn not_finite(report: &StatsReport) -> Option<DetectedFault> {
    let broken_weight = |layer: &str| {
        let of_layer = |weight: &&WeightStats| weight.layer() == layer && weight.values.has_non_finite();
        report.weights.iter().find(of_layer)
    };
    // Non-finite numbers have no magnitude: the first reading is sufficient.
    let to_fault =
        |layer: &str, message| Some(DetectedFault::of_layer(Fault::NotFinite, layer, 1.0, message));
    if let Some(at) = report.layers.iter().position(|layer| layer.output.has_non_finite()) {
        let layer = &report.layers[at];
        let origin = report.setup.origin.as_ref().filter(|_| layer.kind != "input");
        if let Some((origin, message)) =
            origin.and_then(|origin| Some((origin, origin.message_elsewhere(layer)?)))
        {
            return to_fault(&origin.layer, message + &lr_increase_text(report));
        }
        let count =
            describe_non_finite(&layer.output, if layer.kind == "input" { "numbers" } else { "outputs" });
        let advice = match broken_weight(&layer.key).filter(|_| !layer.is_op) {
            _ if layer.kind == "input" => "clean the data: no layer can mend it".to_owned(),
            Some(weight) => {
                format!(
                    "its {} holds such numbers already: {AFTER_STEP_ADVICE}{}",
                    weight.name,
                    lr_increase_text(report)
                )
            }
            None => origin.map_or_else(|| UNTRACED_ADVICE.to_owned(), Origin::advice),
        };
        let first = if at == 0 { "" } else { ", the first in the order of computation" };
        return to_fault(&layer.key, format!("{}: {count}{first}; {advice}", layer.name()));
    }
    if let Some(weight) = report.weights.iter().find(|weight| weight.values.has_non_finite()) {
        let count = describe_non_finite(&weight.values, "numbers");
        return to_fault(
            weight.layer(),
            format!("{}: {count}; {AFTER_STEP_ADVICE}{}", weight.name, lr_increase_text(report)),
        );
    }
    let has_non_finite = |stats: &Option<Stats>| stats.as_ref().is_some_and(Stats::has_non_finite);
    // A container shares the gradient of its last layer, which is the one to report.
    let mut broken_layers = report.layers.iter().rev().filter(|layer| has_non_finite(&layer.gradient));
    let last = broken_layers.clone().next();
    if let Some(layer) = broken_layers.find(|layer| layer.is_leaf).or(last) {
        let count =
            layer.gradient.as_ref().map(|stats| describe_non_finite(stats, "gradients of its outputs"));
        let message = format!(
            "{}: {}, the first on the way back, though all outputs are finite; look at the loss, its targets and what follows this layer: a target that is NaN, a root at 0, a logarithm of 0, a division by a small number{}",
            layer.name(),
            count.unwrap_or_default(),
            lr_increase_text(report)
        );
        return to_fault(&layer.key, message);
    }
    let weight = report.weights.iter().rev().find(|weight| has_non_finite(&weight.gradient))?;
    let count =
        weight.gradient.as_ref().map(|stats| describe_non_finite(stats, "gradients")).unwrap_or_default();
    to_fault(
        weight.layer(),
        format!(
            "{}: {count}, though all outputs are finite; do not make this step{}",
            weight.name,
            lr_increase_text(report)
        ),
    )
}

/// Returns what to do about sizes that grow or shrink from layer to layer: lower the learning rate
/// if it was raised, otherwise change the initialization.
pub(super) fn advice(report: &StatsReport) -> String {
    match lr_increase_text(report) {
        text if text.is_empty() => INITIALIZE_ADVICE.to_owned(),
        text => format!("go back to saved weights and to a smaller learning rate{text}"),
    }
}

/// Describes how much the learning rate rose since the previous reading, if it rose much.
fn lr_increase_text(report: &StatsReport) -> String {
    let describe = |(before, now): (f64, f64)| {
        format!("; the learning rate rose from {before} to {now} since the reading before")
    };
    report.setup.rise.map(describe).unwrap_or_default()
}

/// The advice for a layer whose non-finite output cannot be traced, because no op of it was
/// observed.
const UNTRACED_ADVICE: &str = "look for a division by 0, a logarithm of 0 or numbers too large for the dtype inside; TERNION_NAN=error names the op";
pub(super) const AFTER_STEP_ADVICE: &str = "an earlier step made them: go back to saved weights, take a smaller learning rate, clip gradients by their norm";

// ---- Sizes from layer to layer

/// A layer with the size of its outputs or of their gradients.
pub(super) type LayerSize<'r> = (&'r LayerStats, f64);

/// Returns the layers with a weight matrix, in the order of computation, each with the size that
/// `measure` returns. Norms and activations between them reset the size and are not comparable.
fn sizes(report: &StatsReport, measure: impl Fn(&LayerStats) -> Option<f64>) -> Vec<LayerSize<'_>> {
    let has_matrix = |layer: &LayerStats| {
        report.weights.iter().any(|weight| weight.is_matrix && weight.layer() == layer.key)
    };
    let known = |layer: &&LayerStats| layer.is_leaf && !layer.is_op && has_matrix(layer);
    let layers = report.layers.iter().filter(known);
    layers.filter_map(|layer| Some((layer, measure(layer).filter(|size| *size > 0.0)?))).collect()
}

/// Returns the two consecutive layers with the largest ratio of the second size to the first, and
/// this ratio.
fn largest_ratio<'r>(sizes: &[LayerSize<'r>]) -> Option<(&'r LayerStats, &'r LayerStats, f64)> {
    let ratios = sizes.windows(2).map(|pair| (pair[0].0, pair[1].0, pair[1].1 / pair[0].1));
    ratios.max_by(|one, other| one.2.total_cmp(&other.2))
}

const INITIALIZE_ADVICE: &str = "take Kaiming's or Xavier's first weights, which keep sizes from layer to layer, or put a norm between the layers";

fn output_sizes(report: &StatsReport, config: &StatsConfig, counts: &mut Counts) -> Vec<DetectedFault> {
    let sizes = sizes(report, |layer| Some(layer.output.rms()));
    let Some(&first) = sizes.first().filter(|_| !input::is_too_small(report, config)) else {
        return Vec::new();
    };
    let faults = [
        input::exploding_first(report, config, first),
        exploding(report, config, first, &sizes),
        vanishing(config, first, &sizes, counts),
    ];
    faults.into_iter().flatten().collect()
}

fn exploding(
    report: &StatsReport,
    config: &StatsConfig,
    (first, first_size): LayerSize<'_>,
    sizes: &[LayerSize<'_>],
) -> Option<DetectedFault> {
    let &(layer, size) = sizes.iter().find(|(_, size)| size / first_size > config.growth)?;
    // The layer that causes most of the growth by itself, otherwise the one at which the total
    // growth exceeds the limit.
    let cause = largest_ratio(sizes).filter(|(.., ratio)| *ratio > config.growth.sqrt()).map(|(_, at, _)| at);
    let named = cause.unwrap_or(layer);
    let message = format!(
        "{}: outputs explode from layer to layer: those of {} are {} times as large as those of {} (root mean square {size:.2e} and {first_size:.2e}); {}",
        named.name(),
        layer.name(),
        format_factor(size / first_size),
        first.name(),
        advice(report)
    );
    Some(DetectedFault::of_model(Fault::ExplodingOutputs, &named.key, size / first_size, message))
}

/// Reports the first layer whose outputs have been too small in several readings. Which small layer
/// comes first may change from reading to reading.
fn vanishing(
    config: &StatsConfig,
    (first, first_size): LayerSize<'_>,
    sizes: &[LayerSize<'_>],
    counts: &mut Counts,
) -> Option<DetectedFault> {
    let small = sizes.iter().filter(|(_, size)| size / first_size < config.growth.recip());
    let lasting: Vec<&LayerSize<'_>> = small
        .filter(|(layer, _)| counts.persists(Fault::VanishingOutputs, Some(&layer.key), config))
        .collect();
    let &&(layer, size) = lasting.first()?;
    let message = format!(
        "{}: its outputs are {} times as small as those of {} {} (root mean square {size:.2e} and {first_size:.2e} now): they vanish; {INITIALIZE_ADVICE}",
        layer.name(),
        format_factor(first_size / size),
        first.name(),
        describe_patience(config)
    );
    Some(DetectedFault::of_model(Fault::VanishingOutputs, &layer.key, first_size / size, message))
}

/// Compares the gradient at the first layer with that at the last.
fn gradient_flow(report: &StatsReport, config: &StatsConfig) -> Option<DetectedFault> {
    // The initialization preserves the norm, not the size of an element, also if layers differ in
    // width.
    let mut sizes = sizes(report, |layer| layer.gradient.as_ref().map(Stats::norm));
    let (&(first, first_norm), &(last, last_norm)) = (sizes.first()?, sizes.last()?);
    let growth = first_norm / last_norm;
    let smallest_ratio = if has_similar_updates(report, first, last, config) {
        config.growth.powi(-2)
    } else {
        config.growth.recip()
    };
    let compared = format!("(norms {first_norm:.2e} and {last_norm:.2e})");
    sizes.reverse();
    if growth > config.growth {
        let named =
            largest_ratio(&sizes).filter(|(.., ratio)| *ratio > config.growth.sqrt()).map(|(from, ..)| from);
        let message = format!(
            "{}: gradients explode in the backward pass: at {} they are {} times as large as at {} {compared}; {}; clipping gradients by their norm keeps steps small meanwhile",
            named.unwrap_or(first).name(),
            first.name(),
            format_factor(growth),
            last.name(),
            advice(report)
        );
        return Some(DetectedFault::of_model(
            Fault::ExplodingGradients,
            &named.unwrap_or(first).key,
            growth,
            message,
        ));
    }
    if growth < smallest_ratio {
        let message = format!(
            "{}: gradients vanish in the backward pass: here they are {} times as small as at {} {compared}, and this layer hardly learns; take ReLU or GELU for sigmoid or tanh, {INITIALIZE_ADVICE}, or add residual connections",
            first.name(),
            format_factor(growth.recip()),
            last.name()
        );
        return Some(DetectedFault::of_model(Fault::VanishingGradients, &first.key, growth, message));
    }
    None
}

/// Whether the step changes the weights of `layer` by a fraction of their size that is not much
/// smaller than that of `other`. Adam's steps do so, however small the gradients are.
fn has_similar_updates(
    report: &StatsReport,
    layer: &LayerStats,
    other: &LayerStats,
    config: &StatsConfig,
) -> bool {
    let update = |of: &LayerStats| {
        let matrices = report.weights.iter().filter(|weight| weight.is_matrix && weight.layer() == of.key);
        matrices.filter_map(|weight| weight.update).reduce(f64::max)
    };
    update(layer).zip(update(other)).is_some_and(|(own, other)| own > other / config.growth.sqrt())
}

/// Formats a factor: two digits, or scientific notation if it is large.
pub(super) fn format_factor(factor: f64) -> String {
    match factor {
        factor if factor < 10.0 => format!("{factor:.1}"),
        factor if factor < 1e5 => format!("{factor:.0}"),
        factor => format!("{factor:.1e}"),
    }
}

// ---- ReLUs and gradients

fn dead_relus(report: &StatsReport, config: &StatsConfig, counts: &mut Counts) -> Vec<DetectedFault> {
    let relus = report
        .layers
        .iter()
        .filter(|layer| layer.activation == Some(Activation::Relu) && layer.output.elements > 0);
    relus.filter_map(|layer| dead_units(layer, config, counts)).collect()
}

fn dead_units(layer: &LayerStats, config: &StatsConfig, counts: &mut Counts) -> Option<DetectedFault> {
    const ADVICE: &str = "dead ReLUs, through which no gradient flows; try a smaller learning rate, LeakyReLU or GELU, or a norm in front";
    let is_zero = layer.output.zeros == layer.output.elements;
    let dead_fraction = match is_zero {
        true => 1.0,
        false => layer.dead_fraction.filter(|&fraction| fraction >= config.dead_fraction)?,
    };
    let persists = counts.persists(Fault::DeadReLU, Some(&layer.key), config);
    let message = if is_zero {
        format!("{}: all its outputs are 0, for each example: {ADVICE}", layer.name())
    } else if persists {
        let (percent, zeros) = (100.0 * dead_fraction, 100.0 * layer.output.zero_fraction());
        format!(
            "{}: {percent:.0} % of its units gave 0 for each example {} ({zeros:.0} % of its outputs are 0 now): {ADVICE}",
            layer.name(),
            describe_patience(config)
        )
    } else {
        return None;
    };
    // The metric is the fraction of units that are alive: when only few are left, each change is
    // worth reporting.
    Some(DetectedFault::of_layer(Fault::DeadReLU, &layer.key, 1.0 - dead_fraction, message))
}

/// Returns the trained weights of each layer, in order.
pub(super) fn trained_by_layer(report: &StatsReport) -> Vec<(&str, Vec<&WeightStats>)> {
    let mut layers: Vec<(&str, Vec<&WeightStats>)> = Vec::new();
    for weight in report.weights.iter().filter(|weight| !weight.is_frozen) {
        match layers.iter_mut().find(|(layer, _)| *layer == weight.layer()) {
            Some((_, weights)) => weights.push(weight),
            None => layers.push((weight.layer(), vec![weight])),
        }
    }
    layers
}

pub(super) fn layer_or_model(layer: &str) -> &str {
    if layer.is_empty() { "the model" } else { layer }
}
