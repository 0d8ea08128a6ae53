//! Faults of how a training is set up, rather than of its figures: the mode, the input, first weights, layers that are repeated or not shown, activations that are applied twice.

use super::StatsConfig;
use super::activations::Twice;
use super::faults::{Counts, Fault, Found, in_each_of_the_last, named};
use super::report::{LayerStats, StatsReport, WeightStats};
use crate::module::{Member, Module, Param, walk_members};
use ternion_core::{Gradients, Tensor};

/// What is known of the model and of the pass besides figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Setup {
    /// Layers that differ between training and use, with whether they are in training.
    modes: Vec<(String, bool)>,
    /// Layers that are one and the same, by their keys.
    repeated: Vec<Vec<String>>,
    /// Activations of activations.
    pub(super) twice: Vec<Twice>,
    /// Layers that computed inside of the model and that it does not show.
    pub(super) unvisited: Vec<String>,
    /// Parameters whose gradients were added to those that a step had used.
    stale: Vec<String>,
    /// The shapes of gradients that belong to no parameter of the model.
    unclaimed: Vec<String>,
}

/// The layer of a member's key.
fn layer_of(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(layer, _)| layer)
}

impl Setup {
    /// What the model tells before it computes.
    pub(super) fn of<M: Module + ?Sized>(model: &M) -> Setup {
        let mut modes: Vec<(String, bool)> = Vec::new();
        walk_members(model, &mut |key, member| {
            if let Member::Mode(mode) = member {
                modes.push((layer_of(key).to_owned(), mode.is_training()));
            }
        });
        Setup { modes, repeated: repeated(model), ..Setup::default() }
    }

    /// Adds what is known of the model, and the gradients that it does not claim.
    pub(super) fn model(&mut self, model: &Setup, parameters: &[Param], gradients: &Gradients) {
        self.modes.clone_from(&model.modes);
        self.repeated.clone_from(&model.repeated);
        if gradients.are_stale() {
            let named = parameters.iter().filter(|param| param.gradient(gradients).is_some());
            self.stale = named.filter_map(|param| param.name().map(str::to_owned)).collect();
        }
        let tensors: Vec<Tensor> = parameters.iter().map(Param::tensor).collect();
        let unclaimed = gradients.unclaimed(&tensors);
        self.unclaimed = unclaimed.iter().map(|(_, grad)| format!("{:?}", grad.shape())).collect();
    }
}

/// The members of a list that have the same parameter, by their keys. Layers that have names share on purpose.
fn repeated<M: Module + ?Sized>(model: &M) -> Vec<Vec<String>> {
    let mut groups: Vec<(usize, Vec<String>)> = Vec::new();
    for (name, param) in model.named_parameters() {
        match groups.iter_mut().find(|(address, _)| *address == param.address()) {
            Some((_, names)) => names.push(name),
            None => groups.push((param.address(), vec![name])),
        }
    }
    let mut found: Vec<Vec<String>> = Vec::new();
    for (_, names) in groups.into_iter().filter(|(_, names)| names.len() > 1) {
        let members = members_of_one_list(&names);
        found.extend(members.filter(|members| !found.contains(members)));
    }
    found
}

/// The keys of the members, where names differ in nothing but a number: `layers.0` and `layers.1`.
fn members_of_one_list(names: &[String]) -> Option<Vec<String>> {
    let first: Vec<&str> = names.first()?.split('.').collect();
    let rest: Vec<Vec<&str>> = names.iter().skip(1).map(|name| name.split('.').collect()).collect();
    let differs = |at: &usize| rest.iter().any(|parts| parts.get(*at) != first.get(*at));
    let at = (0..first.len()).find(differs)?;
    let is_member = |parts: &Vec<&str>| {
        parts.len() == first.len() && parts[at].parse::<usize>().is_ok() && parts[at + 1..] == first[at + 1..]
    };
    let is_list = std::iter::once(&first).chain(&rest).all(is_member);
    is_list.then(|| std::iter::once(&first).chain(&rest).map(|parts| parts[..=at].join(".")).collect())
}

/// All but what takes several readings. Where numbers are not finite, nothing is said that depends on them.
pub(super) fn found(report: &StatsReport, config: &StatsConfig, is_finite: bool) -> Vec<Found> {
    let mut found: Vec<Found> = repeated_layers(report);
    found.extend(unvisited(report));
    found.extend(stale(report));
    found.extend(evaluated(report));
    found.extend(twice(report));
    if is_finite {
        found.extend(input(report, config));
        found.extend(equal_weights(report));
    }
    found
}

fn repeated_layers(report: &StatsReport) -> Vec<Found> {
    let told = |keys: &Vec<String>| {
        let text = format!(
            "{}: {} are one layer: its parameters are used {} times; make a layer for each position of the list, unless that is meant",
            keys[0],
            listed(keys),
            keys.len()
        );
        Found::of_layer(Fault::RepeatedLayer, &keys[0], keys.len() as f64, text)
    };
    report.setup.repeated.iter().map(told).collect()
}

/// "a, b and c"; of many the first three.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if names.len() <= 4 => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} others", names[..3].join(", "), names.len() - 3),
    }
}

/// Gradients of nobody tell that an unknown layer has parameters.
fn unvisited(report: &StatsReport) -> Option<Found> {
    let Setup { unvisited, unclaimed, .. } = &report.setup;
    if unvisited.is_empty() || unclaimed.is_empty() {
        return None;
    }
    let mut layers = unvisited.clone();
    layers.dedup();
    let text = format!(
        "{}: computes inside of the model, but the model's visit() does not show it, and gradients of shapes {} belong to no parameter: an optimizer of parameters() does not train it; derive Module, or name it by walk.field",
        listed(&layers),
        unclaimed.join(", ")
    );
    Some(Found::of_layer(Fault::UnvisitedLayer, "", layers.len() as f64, text))
}

fn stale(report: &StatsReport) -> Option<Found> {
    let names = &report.setup.stale;
    let text = format!(
        "{}: gradients were added to those that an earlier step has used: begin with new Gradients for each step",
        listed(names)
    );
    let layer = layer_of(names.first()?);
    Some(Found::of_model(Fault::StaleGradients, layer, 1.0, text))
}

/// Layers in evaluation mode through which gradients come, where none of them is in training. One that is frozen, or frozen together with its weights, is meant to be.
fn evaluated(report: &StatsReport) -> Option<Found> {
    let has_gradient = |key: &str| {
        report.layers.iter().any(|layer| !layer.is_op && layer.key == key && layer.gradient.is_some())
    };
    let is_frozen = |key: &str| report.weights.iter().any(|weight| weight.layer() == key && weight.is_frozen);
    let trained = report.setup.modes.iter().filter(|(key, _)| has_gradient(key) && !is_frozen(key));
    let (training, evaluated): (Vec<_>, Vec<_>) = trained.partition(|(_, is_training)| *is_training);
    if !training.is_empty() || evaluated.is_empty() {
        return None;
    }
    let names: Vec<String> = evaluated.iter().map(|(key, _)| named(key).to_owned()).collect();
    let text = format!(
        "{}: in evaluation mode during a training step: dropout drops nothing, and batch norm takes running statistics that do not move; call train() behind the evaluation",
        listed(&names)
    );
    Some(Found::of_model(Fault::EvaluationMode, &evaluated[0].0, 1.0, text))
}

fn twice(report: &StatsReport) -> Vec<Found> {
    let told =
        |twice: &Twice| Found::of_layer(Fault::DoubleActivation, &twice.layer, 1.0, twice.text.clone());
    report.setup.twice.iter().map(told).collect()
}

/// The input, where a layer multiplies it with its weights as it is.
fn input(report: &StatsReport, config: &StatsConfig) -> Option<Found> {
    let input = &report.layers.iter().find(|layer| layer.kind == "input" && layer.is_fed)?.output;
    let (size, elements) = (input.rms(), input.elements);
    let text = if elements > 1 && input.min == input.max {
        format!("input: all of its {elements} numbers are {:e}: look at how the data are loaded", input.min)
    } else if size > config.largest_input {
        format!(
            "input: its root mean square is {size:.1} ({:.2e} to {:.2e}), where about 1 is what first weights are made for: subtract the mean and divide by the standard deviation, or divide bytes by 255",
            input.min, input.max
        )
    } else {
        return None;
    };
    Some(Found::of_layer(Fault::UnscaledInput, "", size, text))
}

/// Weights whose numbers are all the same: units that start the same get the same gradient, and stay the same.
fn equal_weights(report: &StatsReport) -> Vec<Found> {
    let matrices: Vec<&WeightStats> =
        report.weights.iter().filter(|weight| weight.is_matrix && !weight.is_frozen).collect();
    let is_equal =
        |weight: &WeightStats| weight.values.elements > 1 && weight.values.min == weight.values.max;
    let is_zero = |weight: &WeightStats| weight.values.zeros == weight.values.elements;
    // One of several layers may start at 0, as heads and adapters do; from nothing but zeros nothing can start.
    let all_zero = matrices.len() > 1 && matrices.iter().all(|weight| is_zero(weight));
    let has_units = |weight: &WeightStats| weight.values.elements > weight.fan_in && weight.fan_in > 0;
    let equal = matrices
        .into_iter()
        .filter(|weight| is_equal(weight) && has_units(weight) && (all_zero || !is_zero(weight)));
    let told = |weight: &WeightStats| {
        let text = format!(
            "{}: all of its numbers are {:e}: units that start the same get the same gradient, and stay the same; take random first weights (nn::init)",
            weight.name, weight.values.min
        );
        Found::of_layer(Fault::EqualWeights, weight.layer(), 1.0, text)
    };
    equal.map(told).collect()
}

/// Activations inside of the model that are flat nearly everywhere: behind the last weights they may be, when a model is sure.
pub(super) fn saturated(report: &StatsReport, config: &StatsConfig, counts: &mut Counts) -> Vec<Found> {
    let has_matrix = |layer: &LayerStats| {
        layer.is_leaf
            && !layer.is_op
            && report.weights.iter().any(|weight| weight.is_matrix && weight.layer() == layer.key)
    };
    let last = report.layers.iter().rposition(has_matrix).unwrap_or(0);
    let mut found = Vec::new();
    for layer in report.layers[..last].iter().filter(|layer| layer.is_leaf) {
        let Some(share) = layer.saturated.filter(|&share| share >= config.dead_share) else { continue };
        let Some(activation) = layer.activation else { continue };
        let lasts = counts.lasts(Fault::Saturated, Some(&layer.key), config);
        let when = match share >= 1.0 {
            true => "of its outputs are".to_owned(),
            false if lasts => format!("of its outputs were {}", in_each_of_the_last(config)),
            false => continue,
        };
        let text = format!(
            "{}: {:.0} % {when} where {} is flat, and no gradient to speak of comes back through it: {}",
            layer.name(),
            100.0 * share,
            activation.name(),
            activation.advice()
        );
        found.push(Found::of_layer(Fault::Saturated, &layer.key, 1.0 - share, text));
    }
    found
}
