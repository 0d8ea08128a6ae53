//! Faults of the setup of a training run, independent of its figures: the mode, weight
//! initialization, layers that are repeated or not visited, and activations that are applied twice.

use super::StatsConfig;
use super::activations::DoubleActivation;
use super::faults::{Counts, DetectedFault, Fault, describe_patience, layer_or_model, trained_by_layer};
use super::origins::Origin;
use super::report::{LayerStats, StatsReport, WeightStats};
use crate::module::{Member, Module, Param, visit_members};
use std::collections::{HashMap, HashSet};
use ternion_core::autograd::TensorId;
use ternion_core::{Gradients, Shape, Stats, Tensor};

/// The properties of the model and of the pass other than statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Setup {
    /// The keys of layers with a mode, and whether they are in training mode.
    modes: Vec<(String, bool)>,
    /// Keys that refer to the same layer.
    repeated: Vec<Vec<String>>,
    /// Activations that are applied to the output of the same activation.
    pub(super) double_activations: Vec<DoubleActivation>,
    /// Layers that computed within the model, and that its traversal does not include.
    pub(super) unvisited: Vec<String>,
    /// Parameters whose gradients were added to gradients that a step had already used.
    stale: Vec<String>,
    /// Tensors that were used within the model, require a gradient and are not parameters.
    pub(super) bare_tensors: Vec<BareTensor>,
    /// Gradients that belong to no parameter of the model, by their tensors and shapes.
    pub(super) unmatched: Vec<(TensorId, Shape)>,
    /// Outputs that were broadcast against targets of another shape.
    pub(super) broadcast: Vec<Misuse>,
    /// Log-sum-exp of rows that a loss treats as log-probabilities, with the key and the name of
    /// their layer.
    pub(super) log_sum_exp: Vec<(Stats, String, String)>,
    /// Linear layers that use the unchanged output of another one.
    pub(super) linear_pairs: Vec<LinearPair>,
    /// The tensors that optimizers have.
    pub(super) optimized: OptimizedTensors,
    /// Layers of the model that computed, and whether any of their calls was recorded in the graph.
    pub(super) recorded: HashMap<String, bool>,
    /// Parameters that are not to be trained: no optimizer has them.
    not_optimized: HashSet<String>,
    /// The origin of the first output that is not finite.
    pub(super) origin: Option<Origin>,
    /// The learning rate of the step, if it is known.
    pub(super) lr: Option<f64>,
    /// The largest learning rates up to and since the previous reading, if the second is much
    /// larger.
    pub(super) rise: Option<(f64, f64)>,
}

/// The known tensors of optimizers: those of all optimizers (`is_all`), or of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OptimizedTensors {
    pub tensors: HashSet<TensorId>,
    pub is_all: bool,
}

/// A tensor that was used within a model, requires a gradient and is not a parameter: its name in
/// messages, and the version of its buffer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BareTensor {
    pub id: TensorId,
    pub version: u64,
    pub name: String,
    /// Whether the model continued after it.
    pub is_inside: bool,
}

/// A misuse of a layer's output, such as a broadcast against targets of another shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misuse {
    /// The key of the layer.
    pub layer: String,
    pub message: String,
}

/// A linear layer whose output is used by another one and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinearPair {
    pub first: String,
    pub second: String,
}

/// Returns the key of the layer that contains a member.
fn layer_of(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(layer, _)| layer)
}

impl Setup {
    /// Returns the properties of the model that are known before it computes.
    pub(super) fn from_model<M: Module + ?Sized>(model: &M) -> Setup {
        let mut modes: Vec<(String, bool)> = Vec::new();
        visit_members(model, &mut |key, member| {
            if let Member::Mode(mode) = member {
                modes.push((layer_of(key).to_owned(), mode.is_training()));
            }
        });
        Setup { modes, repeated: repeated(model), ..Setup::default() }
    }

    /// Adds the properties of the model, and the gradients that belong to none of its parameters. A
    /// tensor that is unchanged since the previous reading is not trained by any optimizer.
    pub(super) fn add_model(
        &mut self,
        model: &Setup,
        parameters: &[Param],
        gradients: &Gradients,
        before: &[BareTensor],
    ) {
        self.modes.clone_from(&model.modes);
        self.repeated.clone_from(&model.repeated);
        if gradients.are_stale() {
            let named = parameters.iter().filter(|param| param.gradient(gradients).is_some());
            self.stale = named.filter_map(|param| param.name().map(str::to_owned)).collect();
        }
        self.not_optimized = self.untrained_parameters(&model.optimized, parameters);
        let tensors: Vec<Tensor> = parameters.iter().map(Param::tensor).collect();
        let unmatched = gradients.unmatched(&tensors);
        self.unmatched = unmatched.iter().map(|(id, grad)| (*id, *grad.shape())).collect();
        self.unmatched.extend_from_slice(&model.unmatched);
        let has_gradient = |tensor: &&BareTensor| self.unmatched.iter().any(|(id, _)| *id == tensor.id);
        let is_unchanged = |tensor: &&BareTensor| {
            before.iter().any(|other| (other.id, other.version) == (tensor.id, tensor.version))
        };
        let unchanged = self.bare_tensors.iter().filter(has_gradient).filter(is_unchanged);
        self.unvisited.extend(unchanged.map(|tensor| tensor.name.clone()));
    }
}

impl Setup {
    /// Returns the parameters that no optimizer has, if one has others of the model. If only one
    /// optimizer is known, another one may have them. In that case, returns only those whose layer
    /// ran without being recorded, as in a part of the model that is used but not trained.
    fn untrained_parameters(&self, optimized: &OptimizedTensors, parameters: &[Param]) -> HashSet<String> {
        let is_optimized =
            |param: &&Param| param.tensor().id().is_some_and(|id| optimized.tensors.contains(&id));
        if !parameters.iter().any(|param| is_optimized(&param)) {
            return HashSet::new();
        }
        let others = parameters.iter().filter(|param| !is_optimized(param)).filter_map(Param::name);
        others
            .filter(|name| optimized.is_all || self.is_unrecorded(layer_of(name)))
            .map(str::to_owned)
            .collect()
    }

    /// Whether no call of a layer was recorded, although it computed. If the layer itself has not
    /// reported its end, uses the layer that contains it.
    fn is_unrecorded(&self, layer: &str) -> bool {
        let mut key = layer;
        loop {
            match self.recorded.get(key) {
                Some(is_recorded) => return !is_recorded,
                None if key.is_empty() => return false,
                None => key = layer_of(key),
            }
        }
    }
}

/// Returns the keys of members of one list that share a parameter. Layers with different names are
/// assumed to share on purpose.
fn repeated<M: Module + ?Sized>(model: &M) -> Vec<Vec<String>> {
    let mut groups: Vec<(usize, Vec<String>)> = Vec::new();
    for (name, param) in model.named_parameters() {
        match groups.iter_mut().find(|(address, _)| *address == param.address()) {
            Some((_, names)) => names.push(name),
            None => groups.push((param.address(), vec![name])),
        }
    }
    let mut lists: Vec<Vec<String>> = Vec::new();
    for (_, names) in groups.into_iter().filter(|(_, names)| names.len() > 1) {
        let members = members_of_one_list(&names);
        lists.extend(members.filter(|members| !lists.contains(members)));
    }
    lists
}

/// Returns the keys of the members, if the names differ only in one index: `layers.0` and
/// `layers.1`.
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

/// Returns all faults that need only one reading. If values are not finite, omits those that depend
/// on values.
pub(super) fn find_faults(report: &StatsReport, is_finite: bool) -> Vec<DetectedFault> {
    let mut faults: Vec<DetectedFault> = repeated_layers(report);
    faults.extend(unvisited(report));
    faults.extend(stale(report));
    faults.extend(in_evaluation_mode(report));
    faults.extend(double_activations(report));
    faults.extend(broadcast(report));
    faults.extend(linear_pairs(report));
    if is_finite {
        faults.extend(log_probabilities(report));
        faults.extend(equal_weights(report));
    }
    faults
}

fn repeated_layers(report: &StatsReport) -> Vec<DetectedFault> {
    let to_fault = |keys: &Vec<String>| {
        let message = format!(
            "{}: {} are one layer: its parameters are used {} times; make a layer for each position of the list, unless that is meant",
            keys[0],
            join_names(keys),
            keys.len()
        );
        DetectedFault::of_layer(Fault::RepeatedLayer, &keys[0], keys.len() as f64, message)
    };
    report.setup.repeated.iter().map(to_fault).collect()
}

/// Formats as "a, b and c"; for many names the first three.
fn join_names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if names.len() <= 4 => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} others", names[..3].join(", "), names.len() - 3),
    }
}

/// Whether layers that do not belong to the model computed within it and have gradients.
pub(super) fn has_unvisited_layers(report: &StatsReport) -> bool {
    !report.setup.unvisited.is_empty() && !report.setup.unmatched.is_empty()
}

/// Reports layers that do not belong to the model. Gradients without a parameter show that such a
/// layer has parameters.
fn unvisited(report: &StatsReport) -> Option<DetectedFault> {
    let Setup { unvisited, unmatched, .. } = &report.setup;
    if !has_unvisited_layers(report) {
        return None;
    }
    let mut layers = unvisited.clone();
    layers.dedup();
    let shapes: Vec<String> = unmatched.iter().map(|(_, shape)| format!("{shape:?}")).collect();
    let message = format!(
        "{}: computes inside of the model and is not part of it, and gradients of shapes {} belong to no parameter of the model: an optimizer of its parameters does not train it; create layers once, not at each call, and keep them where parameters() finds them",
        join_names(&layers),
        shapes.join(", ")
    );
    Some(DetectedFault::of_layer(Fault::UnvisitedLayer, "", layers.len() as f64, message))
}

/// Reports parameters that are trained and have no gradient.
pub(super) fn missing(report: &StatsReport) -> Vec<DetectedFault> {
    let missing = |(layer, weights): (&str, Vec<&WeightStats>)| {
        let names: Vec<&str> = weights
            .iter()
            .filter(|weight| weight.gradient.is_none() && !report.setup.not_optimized.contains(&weight.name))
            .map(|weight| weight.name.as_str())
            .collect();
        let message = || {
            format!(
                "{}: no gradient came to {}: {}",
                layer_or_model(layer),
                names.join(" and "),
                why_missing(report, layer)
            )
        };
        let count = names.len() as f64;
        (!names.is_empty()).then(|| DetectedFault::of_layer(Fault::MissingGradient, layer, count, message()))
    };
    trained_by_layer(report).into_iter().filter_map(missing).collect()
}

/// Returns the likely reason why a layer has no gradient.
fn why_missing(report: &StatsReport, layer: &str) -> &'static str {
    match report.layers.iter().any(|computed| computed.key == layer && !computed.is_op) {
        true => {
            "the layer was computed, but nothing came back from the loss; use its output in the loss, look for a detach, no_grad or a way through NumPy behind it, or freeze it if that is meant"
        }
        false if has_unvisited_layers(report) => {
            "the loss does not depend on this layer, but on one that is not part of the model: look for an assignment that replaces it in forward"
        }
        false => {
            "the loss does not depend on this layer; use its output in the loss, look for a detach or no_grad behind it, or freeze it if that is meant"
        }
    }
}

fn stale(report: &StatsReport) -> Option<DetectedFault> {
    let names = &report.setup.stale;
    let message = format!(
        "{}: gradients were added to those that an earlier step has used: begin with new Gradients for each step",
        join_names(names)
    );
    let layer = layer_of(names.first()?);
    Some(DetectedFault::of_model(Fault::StaleGradients, layer, 1.0, message))
}

/// Reports layers in evaluation mode that have gradients, if none of these layers is in training
/// mode. A layer with frozen weights is assumed to be in evaluation mode on purpose.
fn in_evaluation_mode(report: &StatsReport) -> Option<DetectedFault> {
    let has_gradient = |key: &str| {
        report.layers.iter().any(|layer| !layer.is_op && layer.key == key && layer.gradient.is_some())
    };
    let is_frozen = |key: &str| report.weights.iter().any(|weight| weight.layer() == key && weight.is_frozen);
    let trained = report.setup.modes.iter().filter(|(key, _)| has_gradient(key) && !is_frozen(key));
    let (training, evaluation): (Vec<_>, Vec<_>) = trained.partition(|(_, is_training)| *is_training);
    if !training.is_empty() || evaluation.is_empty() {
        return None;
    }
    let names: Vec<String> = evaluation.iter().map(|(key, _)| layer_or_model(key).to_owned()).collect();
    let message = format!(
        "{}: in evaluation mode during a training step: dropout drops nothing, and batch norm takes running statistics that do not move; call train() behind the evaluation",
        join_names(&names)
    );
    Some(DetectedFault::of_model(Fault::EvaluationMode, &evaluation[0].0, 1.0, message))
}

fn double_activations(report: &StatsReport) -> Vec<DetectedFault> {
    let to_fault = |double: &DoubleActivation| {
        DetectedFault::of_layer(Fault::DoubleActivation, &double.layer, 1.0, double.message.clone())
    };
    report.setup.double_activations.iter().map(to_fault).collect()
}

fn log_probabilities(report: &StatsReport) -> Vec<DetectedFault> {
    let to_fault = |(sums, layer, name): &(Stats, String, String)| {
        let message = format!("{name}: {}", super::input::log_probabilities(sums)?);
        Some(DetectedFault::of_layer(Fault::NoLogProbabilities, layer, 1.0, message))
    };
    report.setup.log_sum_exp.iter().filter_map(to_fault).collect()
}

fn broadcast(report: &StatsReport) -> Vec<DetectedFault> {
    let to_fault = |misuse: &Misuse| {
        DetectedFault::of_layer(Fault::BroadcastTarget, &misuse.layer, 1.0, misuse.message.clone())
    };
    report.setup.broadcast.iter().map(to_fault).collect()
}

/// Reports consecutive linear layers that are equivalent to a single one. If the output between
/// them is narrower, their product has a low rank, which is assumed to be intended.
fn linear_pairs(report: &StatsReport) -> Vec<DetectedFault> {
    let sizes = |key: &str| {
        let mut of_layer = report.weights.iter().filter(|weight| weight.is_matrix && weight.layer() == key);
        of_layer.next().map(|weight| (weight.fan_in, weight.values.elements / weight.fan_in.max(1)))
    };
    let to_fault = |LinearPair { first, second }: &LinearPair| {
        let ((inputs, between), (_, outputs)) = (sizes(first)?, sizes(second)?);
        let message = format!(
            "{second}: a linear layer that takes the output of the linear layer {first} unchanged: both together are one linear layer of {inputs} inputs and {outputs} outputs; put an activation between them"
        );
        // The last layer of one module and the first of the next, for example of attention and of
        // the feed-forward module, are separate on purpose.
        let are_siblings = layer_of(first) == layer_of(second);
        (are_siblings && between >= inputs.min(outputs))
            .then(|| DetectedFault::of_layer(Fault::MissingActivation, second, 1.0, message))
    };
    report.setup.linear_pairs.iter().filter_map(to_fault).collect()
}

/// Reports weights whose elements are all equal: units that start equal get equal gradients and
/// stay equal.
fn equal_weights(report: &StatsReport) -> Vec<DetectedFault> {
    let matrices: Vec<&WeightStats> =
        report.weights.iter().filter(|weight| weight.is_matrix && !weight.is_frozen).collect();
    let is_equal =
        |weight: &WeightStats| weight.values.elements > 1 && weight.values.min == weight.values.max;
    let is_zero = |weight: &WeightStats| weight.values.zeros == weight.values.elements;
    // Some layers may start at 0, as heads and adapters do. If all weights are 0, nothing can be
    // learned.
    let all_zero = matrices.len() > 1 && matrices.iter().all(|weight| is_zero(weight));
    let has_units = |weight: &WeightStats| weight.values.elements > weight.fan_in && weight.fan_in > 0;
    let equal = matrices
        .into_iter()
        .filter(|weight| is_equal(weight) && has_units(weight) && (all_zero || !is_zero(weight)));
    let to_fault = |weight: &WeightStats| {
        let message = format!(
            "{}: all of its numbers are {:e}: units that start the same get the same gradient, and stay the same; take random first weights, such as Kaiming's or Xavier's",
            weight.name, weight.values.min
        );
        DetectedFault::of_layer(Fault::EqualWeights, weight.layer(), 1.0, message)
    };
    equal.map(to_fault).collect()
}

/// Reports saturated activations within the model. After the last weights saturation is normal, if
/// the model is confident.
pub(super) fn saturated(
    report: &StatsReport,
    config: &StatsConfig,
    counts: &mut Counts,
) -> Vec<DetectedFault> {
    let has_matrix = |layer: &LayerStats| {
        layer.is_leaf
            && !layer.is_op
            && report.weights.iter().any(|weight| weight.is_matrix && weight.layer() == layer.key)
    };
    let last = report.layers.iter().rposition(has_matrix).unwrap_or(0);
    let mut faults = Vec::new();
    for layer in report.layers[..last].iter().filter(|layer| layer.is_leaf) {
        let Some(fraction) = layer.saturated.filter(|&fraction| fraction >= config.dead_fraction) else {
            continue;
        };
        let Some(activation) = layer.activation else { continue };
        let persists = counts.persists(Fault::Saturated, Some(&layer.key), config);
        let when = match fraction >= 1.0 {
            true => "of its outputs are".to_owned(),
            false if persists => format!("of its outputs were {}", describe_patience(config)),
            false => continue,
        };
        let message = format!(
            "{}: {:.0} % {when} where {} is flat, and no gradient to speak of comes back through it: {}",
            layer.name(),
            100.0 * fraction,
            activation.name(),
            activation.advice()
        );
        faults.push(DetectedFault::of_layer(Fault::Saturated, &layer.key, 1.0 - fraction, message));
    }
    faults
}
