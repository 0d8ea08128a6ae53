//! The report of a step, as a table.

use super::activations::Activation;
use super::faults::StatsWarning;
use super::input::InputUse;
use super::origins::{Origin, Origins, TensorIndex};
use super::setup::Setup;
use crate::module::Param;
use std::fmt;
use ternion_core::{DeviceStats, Result, Stats, Tensor};

/// The source of an output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OutputSource {
    pub key: String,
    pub kind: &'static str,
    /// Whether it is an op after the layer with this key, instead of a layer.
    pub is_op: bool,
    /// Whether no other layer computes within it.
    pub is_leaf: bool,
    /// The activation that it ends with.
    pub activation: Option<Activation>,
    /// For an input: how the first op uses it.
    pub input_use: InputUse,
}

/// The outputs of a layer, or of a ReLU that is called as a function, and their gradients. Several
/// calls are merged.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerStats {
    /// The key of the layer in the model; for a ReLU that is called as a function, the key of the
    /// layer before it; empty for the model itself and for its input.
    pub key: String,
    /// The name of the layer's type; `relu` for the function, `input` for the first tensor that the
    /// model uses.
    pub kind: &'static str,
    /// Statistics of its outputs.
    pub output: Stats,
    /// Statistics of the gradient of the loss with respect to its outputs; `None` if there is none
    /// or nothing was recorded.
    pub gradient: Option<Stats>,
    /// The fraction of its units with output 0 for every example; only for ReLUs whose output has
    /// at least two axes.
    pub dead_fraction: Option<f64>,
    /// For sigmoid and tanh: the fraction of output elements that are saturated, so that the
    /// gradient is negligible. For softmax: the fraction of saturated rows.
    pub saturated: Option<f64>,
    pub(super) is_op: bool,
    pub(super) is_leaf: bool,
    pub(super) activation: Option<Activation>,
    pub(super) input_use: InputUse,
    /// For an input: the range of each element over the examples.
    pub(super) spread: Option<Stats>,
}

impl LayerStats {
    /// Returns the name in tables and messages: `layers.2`, `relu after layers.2`, `input`.
    pub fn name(&self) -> String {
        match (self.key.as_str(), self.is_op) {
            ("", _) => self.kind.to_owned(),
            (key, true) => format!("{} after {key}", self.kind),
            (key, false) => key.to_owned(),
        }
    }
}

/// Statistics of a parameter, its gradient, and the change by the step.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightStats {
    /// The parameter's key in the state dict.
    pub name: String,
    /// Statistics of its values, before the step.
    pub values: Stats,
    /// Statistics of its gradient; `None` if there is none.
    pub gradient: Option<Stats>,
    /// The norm of the change divided by the norm of the values; only for parameters of at least
    /// two axes, and if the monitor ran the step.
    pub update: Option<f64>,
    /// Whether it is excluded from training.
    pub is_frozen: bool,
    /// The number of inputs of one output, that is, of elements of a row.
    pub(super) fan_in: usize,
    pub(super) is_matrix: bool,
    /// Whether the change points straight to 0.
    pub(super) points_to_zero: bool,
}

impl WeightStats {
    /// Returns the key of its layer: the parameter's key without its last component.
    pub fn layer(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(layer, _)| layer)
    }
}

/// The reading of a step by a [`StatsMonitor`](super::StatsMonitor). Prints as a table followed by
/// all warnings, each with the step since which it has persisted.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsReport {
    /// The step.
    pub step: u64,
    /// The input, then layers and ReLUs in the order in which they first ended.
    pub layers: Vec<LayerStats>,
    /// The parameters, in the order of [`Module::parameters`](crate::Module::parameters).
    pub weights: Vec<WeightStats>,
    /// The warnings to report now. These are new faults; faults shown by twice as many readings as
    /// at the last report (the first, second, fourth, eighth and so on); and faults whose figure
    /// has become ten times larger or smaller (except [`Fault::SmallUpdates`](super::Fault),
    /// because updates decrease along a schedule). A fault that was absent for
    /// [`StatsConfig::patience`](super::StatsConfig::patience) readings counts as new.
    pub warnings: Vec<StatsWarning>,
    /// All faults, whether or not they were reported before; a cause precedes its consequences if
    /// that can be determined.
    pub all_warnings: Vec<StatsWarning>,
    pub(super) setup: Setup,
}

/// The index of a statistic in [`Readings::all`].
type StatIndex = usize;

struct OutputReading {
    source: OutputSource,
    outputs: Vec<StatIndex>,
    /// For each call, the recorded tensor in its buffer.
    tensor_indices: Vec<Option<TensorIndex>>,
    dead: Vec<StatIndex>,
    saturated: Vec<StatIndex>,
    gradients: Vec<StatIndex>,
}

struct WeightReading {
    name: String,
    values: StatIndex,
    gradient: Option<StatIndex>,
    /// The change, and its elementwise product with the values.
    update: Option<[StatIndex; 2]>,
    is_frozen: bool,
    fan_in: usize,
    is_matrix: bool,
}

/// All statistics of a reading, which are copied to the host at once.
#[derive(Default)]
pub(super) struct Readings {
    all: Vec<DeviceStats>,
    /// The range of each element of the input over the examples.
    spread: Option<StatIndex>,
    /// Log-sum-exp of rows that a loss treats as log-probabilities, with the key and the name of
    /// their layer.
    log_sum_exp: Vec<(StatIndex, String, String)>,
    outputs: Vec<OutputReading>,
    weights: Vec<WeightReading>,
    pub(super) origins: Origins,
    pub(super) setup: Setup,
}

impl Readings {
    fn add(&mut self, stats: DeviceStats) -> StatIndex {
        self.all.push(stats);
        self.all.len() - 1
    }

    /// Adds an output, with the statistics of the dead and of the saturated units of its
    /// activation.
    pub(super) fn output(
        &mut self,
        source: OutputSource,
        [output, dead, saturated]: [Option<&DeviceStats>; 3],
        gradients: &[DeviceStats],
        tensor_index: Option<TensorIndex>,
    ) {
        let mut add = |stats: Option<&DeviceStats>| stats.map(|stats| self.add(stats.clone()));
        let (output, dead, saturated) = (add(output), add(dead), add(saturated));
        let gradients: Vec<StatIndex> = gradients.iter().map(|gradient| self.add(gradient.clone())).collect();
        let same = |reading: &OutputReading| {
            (&reading.source.key, reading.source.kind, reading.source.is_op)
                == (&source.key, source.kind, source.is_op)
        };
        let at = self.outputs.iter().position(same).unwrap_or(self.outputs.len());
        if at == self.outputs.len() {
            let (outputs, tensor_indices, dead, saturated, gradients) = Default::default();
            self.outputs.push(OutputReading { source, outputs, tensor_indices, dead, saturated, gradients });
        }
        let reading = &mut self.outputs[at];
        reading.outputs.extend(output);
        reading.tensor_indices.push(tensor_index);
        reading.dead.extend(dead);
        reading.saturated.extend(saturated);
        reading.gradients.extend(gradients);
    }

    /// Adds the range of each element of the input over the examples.
    pub(super) fn spread(&mut self, spread: &DeviceStats) {
        self.spread = Some(self.add(spread.clone()));
    }

    /// Adds the log-sum-exp of rows that a loss treats as the log-probabilities of a layer.
    pub(super) fn log_sum_exp(&mut self, sums: DeviceStats, layer: String, name: String) {
        let index = self.add(sums);
        self.log_sum_exp.push((index, layer, name));
    }

    pub(super) fn weight(&mut self, param: &Param, gradient: Option<&Tensor>) -> Result<()> {
        let tensor = param.tensor();
        let values = self.add(tensor.device_stats()?);
        let gradient = gradient.map(Tensor::device_stats).transpose()?.map(|stats| self.add(stats));
        self.weights.push(WeightReading {
            name: param.name().unwrap_or_default().to_owned(),
            values,
            gradient,
            update: None,
            is_frozen: !tensor.needs_grad(),
            fan_in: tensor.elements() / tensor.dims().first().copied().unwrap_or(1).max(1),
            is_matrix: tensor.rank() >= 2,
        });
        Ok(())
    }

    /// Records the change of parameter `at`.
    pub(super) fn record_update(&mut self, at: usize, change: [DeviceStats; 2]) {
        self.weights[at].update = Some(change.map(|stats| self.add(stats)));
    }

    /// Returns the origin of the first output that is not finite.
    fn origin(&self, all: &[Stats]) -> Result<Option<Origin>> {
        let has_non_finite =
            |reading: &&OutputReading| reading.outputs.iter().any(|&at| all[at].has_non_finite());
        let Some(reading) = self.outputs.iter().find(has_non_finite) else { return Ok(None) };
        let calls = reading.outputs.iter().zip(&reading.tensor_indices);
        let first =
            calls.filter(|(at, _)| all[**at].has_non_finite()).find_map(|(_, tensor_index)| *tensor_index);
        Ok(first.map(|tensor_index| self.origins.trace(tensor_index)).transpose()?.flatten())
    }

    pub(super) fn read(mut self, step: u64) -> Result<StatsReport> {
        let all = DeviceStats::read(&self.all)?;
        let merged =
            |indices: &[StatIndex]| indices.iter().map(|&at| all[at]).reduce(|sum, next| sum.merged(&next));
        self.setup.origin = self.origin(&all)?;
        let mut layers = Vec::with_capacity(self.outputs.len());
        for reading in self.outputs {
            let Some(output) = merged(&reading.outputs) else { continue };
            let OutputSource { key, kind, is_op, is_leaf, activation, input_use } = reading.source;
            let spread = self.spread.filter(|_| kind == "input").map(|at| all[at]);
            // A unit is dead if it is 0 in every call. The smallest fraction of all calls is
            // an upper bound.
            let dead_fraction = reading.dead.iter().map(|&at| all[at].mean).reduce(f64::min);
            let saturated = merged(&reading.saturated).map(|fraction| fraction.mean);
            let gradient = merged(&reading.gradients);
            let stats = LayerStats {
                key,
                kind,
                output,
                gradient,
                dead_fraction,
                saturated,
                is_op,
                is_leaf,
                activation,
                input_use,
                spread,
            };
            layers.push(stats);
        }
        let weight = |reading: WeightReading| {
            let values = all[reading.values];
            let update = reading.update.map(|indices| indices.map(|at| all[at]));
            WeightStats {
                name: reading.name,
                values,
                gradient: reading.gradient.map(|at| all[at]),
                update: update.map(|[change, _]| change.norm() / values.norm()),
                points_to_zero: update.is_some_and(|[change, along]| is_opposite(&values, &change, &along)),
                is_frozen: reading.is_frozen,
                fan_in: reading.fan_in,
                is_matrix: reading.is_matrix,
            }
        };
        let weights = self.weights.into_iter().map(weight).collect();
        let (warnings, all_warnings) = Default::default();
        let sums = self.log_sum_exp.into_iter().map(|(at, layer, name)| (all[at], layer, name)).collect();
        self.setup.log_sum_exp = sums;
        Ok(StatsReport { step, layers, weights, warnings, all_warnings, setup: self.setup })
    }
}

/// Whether a change points to 0, that is, its cosine with the values is -1, computed from their
/// elementwise product.
fn is_opposite(values: &Stats, change: &Stats, along: &Stats) -> bool {
    along.mean * along.elements as f64 <= -0.99 * values.norm() * change.norm() && change.norm() > 0.0
}

/// A line of the table.
struct Line<'a> {
    name: String,
    of: String,
    stats: &'a Stats,
    update: Option<f64>,
}

impl StatsReport {
    /// Returns the lines for the outputs of layers, each followed by the parameters of its layer,
    /// and then for the parameters of layers that did not compute.
    fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        let mut is_listed = vec![false; self.weights.len()];
        for layer in &self.layers {
            let is_unkeyed = layer.is_op || layer.key.is_empty();
            let name = if is_unkeyed { layer.name() } else { format!("{} ({})", layer.key, layer.kind) };
            lines.push(Line { name, of: "output".into(), stats: &layer.output, update: None });
            if let Some(gradient) = &layer.gradient {
                lines.push(Line {
                    name: String::new(),
                    of: "output.grad".into(),
                    stats: gradient,
                    update: None,
                });
            }
            for (at, weight) in self.weights.iter().enumerate() {
                if !layer.is_op && !is_listed[at] && layer.kind != "input" && weight.layer() == layer.key {
                    is_listed[at] = true;
                    weight_lines(&mut lines, weight, "");
                }
            }
        }
        for (weight, _) in self.weights.iter().zip(&is_listed).filter(|(_, is_listed)| !**is_listed) {
            weight_lines(&mut lines, weight, weight.layer());
        }
        lines
    }
}

fn weight_lines<'a>(lines: &mut Vec<Line<'a>>, weight: &'a WeightStats, layer: &str) {
    let short_name = weight.name.rsplit_once('.').map_or(weight.name.as_str(), |(_, short_name)| short_name);
    let line = |name: &str, of: String, stats, update| Line { name: name.to_owned(), of, stats, update };
    lines.push(line(layer, short_name.to_owned(), &weight.values, weight.update));
    if let Some(gradient) = &weight.gradient {
        lines.push(line("", format!("{short_name}.grad"), gradient, None));
    }
}

impl fmt::Display for StatsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let width = |of: &dyn Fn(&Line<'_>) -> usize| lines.iter().map(of).max().unwrap_or(0).max(5);
        let (name, of) = (width(&|line| line.name.len()), width(&|line| line.of.len()));
        write!(f, "step {}\n{:name$}  {:of$}", self.step, "layer", "of")?;
        for title in ["mean", "std", "min", "max"] {
            write!(f, "  {title:>9}")?;
        }
        write!(f, "  {:>6}  {:>6}  {:>6}  {:>8}", "nan", "inf", "zero", "update")?;
        for line in &lines {
            let Line { stats, .. } = line;
            write!(f, "\n{:name$}  {:of$}", line.name, line.of)?;
            for value in [stats.mean, stats.std, stats.min, stats.max] {
                write!(f, "  {value:>9.2e}")?;
            }
            let zeros = 100.0 * stats.zero_fraction();
            write!(f, "  {:>6}  {:>6}  {zeros:>4.0} %", stats.nan, stats.infinite)?;
            if let Some(update) = line.update {
                write!(f, "  {update:>8.1e}")?;
            }
        }
        if self.all_warnings.is_empty() {
            write!(f, "\nno warnings")?;
        }
        for warning in &self.all_warnings {
            write!(f, "\n! {warning}")?;
            if warning.since < self.step {
                write!(f, " (reported since step {})", warning.since)?;
            }
        }
        Ok(())
    }
}
