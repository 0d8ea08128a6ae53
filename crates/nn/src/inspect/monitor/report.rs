//! What was read of a step, as a table.

use super::activations::Activation;
use super::faults::StatsWarning;
use super::input::Fed;
use super::origins::{Noted, Origin, Origins};
use super::setup::Setup;
use crate::module::Param;
use std::fmt;
use ternion_core::{DeviceStats, Result, Stats, Tensor};

/// Where an output comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    pub key: String,
    pub kind: &'static str,
    /// Whether it is an op behind the layer of this key, and no layer.
    pub is_op: bool,
    /// Whether no other layer computes inside.
    pub is_leaf: bool,
    /// What it ends with.
    pub activation: Option<Activation>,
    /// Of an input: what takes it first.
    pub fed: Fed,
}

/// The outputs of a layer, or of a ReLU that is called as a function, and the gradients that came to them. Those of several calls count together.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerStats {
    /// The key of the layer in the model: of that before it, for a ReLU that is called as a function; empty for the model itself and for its input.
    pub key: String,
    /// The name of the layer's type; `relu` for the function, `input` for what the model computes with first.
    pub kind: &'static str,
    /// Of its outputs.
    pub output: Stats,
    /// Of the gradient of the loss by its outputs: `None` if none came, or nothing was recorded.
    pub gradient: Option<Stats>,
    /// The share of its units that gave 0 for each example: of ReLUs of at least two axes.
    pub silent: Option<f64>,
    /// The share of its numbers at which it is flat, so that no gradient to speak of comes back: of sigmoid and tanh, and of softmax the share of its rows.
    pub saturated: Option<f64>,
    pub(super) is_op: bool,
    pub(super) is_leaf: bool,
    pub(super) activation: Option<Activation>,
    pub(super) fed: Fed,
    /// Of an input: how far its examples are apart, number by number.
    pub(super) spread: Option<Stats>,
}

impl LayerStats {
    /// What it is called in tables and sentences: `layers.2`, `relu after layers.2`, `input`.
    pub fn name(&self) -> String {
        match (self.key.as_str(), self.is_op) {
            ("", _) => self.kind.to_owned(),
            (key, true) => format!("{} after {key}", self.kind),
            (key, false) => key.to_owned(),
        }
    }
}

/// A parameter, its gradient, and how far the step moved it.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightStats {
    /// Its key in the state dict.
    pub name: String,
    /// Of its values, before the step.
    pub values: Stats,
    /// Of its gradient: `None` if none came.
    pub gradient: Option<Stats>,
    /// The norm of the step's change by that of the values: of parameters of at least two axes, where the monitor made the step.
    pub update: Option<f64>,
    /// Whether it is excluded from training.
    pub is_frozen: bool,
    /// Elements of a row: inputs that add up in an output.
    pub(super) fan_in: usize,
    pub(super) is_matrix: bool,
    /// Whether the step goes straight to 0.
    pub(super) shrinks: bool,
}

impl WeightStats {
    /// The key of its layer: that of the parameter without its last part.
    pub fn layer(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(layer, _)| layer)
    }
}

/// What a [`StatsMonitor`](super::StatsMonitor) saw of a step. Prints as a table with all warnings below, each with the step since which it has been there.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsReport {
    /// The step.
    pub step: u64,
    /// The input, then layers and ReLUs in the order in which they ended first.
    pub layers: Vec<LayerStats>,
    /// In the order of [`Module::parameters`](crate::Module::parameters).
    pub weights: Vec<WeightStats>,
    /// What is to be told now: faults that earlier readings did not show, those that twice as many readings have shown as when they were told last (the first, second, fourth,
    /// eighth and so on), and those whose figure has become ten times larger or smaller (but for [`Fault::SmallUpdates`](super::Fault): a schedule
    /// lets updates fall). A fault that was away for [`StatsConfig::patience`](super::StatsConfig::patience) readings is
    /// told as one that was never there.
    pub warnings: Vec<StatsWarning>,
    /// All that is wrong, whether it was told before or not; the cause before its consequences where that can be told.
    pub all_warnings: Vec<StatsWarning>,
    pub(super) setup: Setup,
}

/// A statistic among those that will be read.
type Slot = usize;

struct OutputReading {
    place: Place,
    outputs: Vec<Slot>,
    /// What is known of the memory of each.
    noted: Vec<Option<Noted>>,
    silent: Vec<Slot>,
    saturated: Vec<Slot>,
    gradients: Vec<Slot>,
}

struct WeightReading {
    name: String,
    values: Slot,
    gradient: Option<Slot>,
    /// The change, and its product with the values, number by number.
    update: Option<[Slot; 2]>,
    is_frozen: bool,
    fan_in: usize,
    is_matrix: bool,
}

/// What is to be read, all at once.
#[derive(Default)]
pub(super) struct Readings {
    all: Vec<DeviceStats>,
    /// How far the examples of the input are apart.
    spread: Option<Slot>,
    /// Sums of what a loss takes for log-probabilities, with the key of the layer and what it is called.
    log_sums: Vec<(Slot, String, String)>,
    outputs: Vec<OutputReading>,
    weights: Vec<WeightReading>,
    pub(super) origins: Origins,
    pub(super) setup: Setup,
}

impl Readings {
    fn put(&mut self, stats: DeviceStats) -> Slot {
        self.all.push(stats);
        self.all.len() - 1
    }

    /// Adds an output, with what was formed of the units of its activation: those that are silent, and those that are saturated.
    pub(super) fn output(
        &mut self,
        place: Place,
        [output, silent, saturated]: [Option<&DeviceStats>; 3],
        gradients: &[DeviceStats],
        noted: Option<Noted>,
    ) {
        let mut put = |stats: Option<&DeviceStats>| stats.map(|stats| self.put(stats.clone()));
        let (output, silent, saturated) = (put(output), put(silent), put(saturated));
        let gradients: Vec<Slot> = gradients.iter().map(|gradient| self.put(gradient.clone())).collect();
        let same = |reading: &OutputReading| {
            (&reading.place.key, reading.place.kind, reading.place.is_op)
                == (&place.key, place.kind, place.is_op)
        };
        let at = self.outputs.iter().position(same).unwrap_or(self.outputs.len());
        if at == self.outputs.len() {
            let (outputs, noted, silent, saturated, gradients) = Default::default();
            self.outputs.push(OutputReading { place, outputs, noted, silent, saturated, gradients });
        }
        let reading = &mut self.outputs[at];
        reading.outputs.extend(output);
        reading.noted.push(noted);
        reading.silent.extend(silent);
        reading.saturated.extend(saturated);
        reading.gradients.extend(gradients);
    }

    /// Adds how far the examples of the input are apart.
    pub(super) fn spread(&mut self, spread: &DeviceStats) {
        self.spread = Some(self.put(spread.clone()));
    }

    /// Adds the sums of rows that a loss takes for the log-probabilities of a layer.
    pub(super) fn log_sums(&mut self, sums: DeviceStats, layer: String, name: String) {
        let slot = self.put(sums);
        self.log_sums.push((slot, layer, name));
    }

    pub(super) fn weight(&mut self, param: &Param, gradient: Option<&Tensor>) -> Result<()> {
        let tensor = param.tensor();
        let values = self.put(tensor.device_stats()?);
        let gradient = gradient.map(Tensor::device_stats).transpose()?.map(|stats| self.put(stats));
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

    /// Notes the change of parameter `at`.
    pub(super) fn updated(&mut self, at: usize, change: [DeviceStats; 2]) {
        self.weights[at].update = Some(change.map(|stats| self.put(stats)));
    }

    /// Where the first output that is not finite begins to be so.
    fn origin(&self, all: &[Stats]) -> Result<Option<Origin>> {
        let is_broken = |reading: &&OutputReading| reading.outputs.iter().any(|&at| all[at].is_broken());
        let Some(reading) = self.outputs.iter().find(is_broken) else { return Ok(None) };
        let calls = reading.outputs.iter().zip(&reading.noted);
        let first = calls.filter(|(at, _)| all[**at].is_broken()).find_map(|(_, noted)| *noted);
        Ok(first.map(|noted| self.origins.trace(noted)).transpose()?.flatten())
    }

    pub(super) fn read(mut self, step: u64) -> Result<StatsReport> {
        let all = DeviceStats::read(&self.all)?;
        let merged = |slots: &[Slot]| slots.iter().map(|&at| all[at]).reduce(|sum, next| sum.merged(&next));
        self.setup.origin = self.origin(&all)?;
        let mut layers = Vec::with_capacity(self.outputs.len());
        for reading in self.outputs {
            let Some(output) = merged(&reading.outputs) else { continue };
            let Place { key, kind, is_op, is_leaf, activation, fed } = reading.place;
            let spread = self.spread.filter(|_| kind == "input").map(|at| all[at]);
            // A unit is dead that is silent in every call: in no more of them than in the call with the fewest.
            let silent = reading.silent.iter().map(|&at| all[at].mean).reduce(f64::min);
            let saturated = merged(&reading.saturated).map(|share| share.mean);
            let gradient = merged(&reading.gradients);
            let stats = LayerStats {
                key,
                kind,
                output,
                gradient,
                silent,
                saturated,
                is_op,
                is_leaf,
                activation,
                fed,
                spread,
            };
            layers.push(stats);
        }
        let weight = |reading: WeightReading| {
            let values = all[reading.values];
            let update = reading.update.map(|slots| slots.map(|at| all[at]));
            WeightStats {
                name: reading.name,
                values,
                gradient: reading.gradient.map(|at| all[at]),
                update: update.map(|[change, _]| change.norm() / values.norm()),
                shrinks: update.is_some_and(|[change, along]| is_opposite(&values, &change, &along)),
                is_frozen: reading.is_frozen,
                fan_in: reading.fan_in,
                is_matrix: reading.is_matrix,
            }
        };
        let weights = self.weights.into_iter().map(weight).collect();
        let (warnings, all_warnings) = Default::default();
        let sums = self.log_sums.into_iter().map(|(at, layer, name)| (all[at], layer, name)).collect();
        self.setup.log_sums = sums;
        Ok(StatsReport { step, layers, weights, warnings, all_warnings, setup: self.setup })
    }
}

/// Whether a change points to 0, by its product with the values: the cosine is -1.
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
    /// Outputs of layers, each followed by the parameters of its layer, then parameters of layers that did not compute.
    fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        let mut told = vec![false; self.weights.len()];
        for layer in &self.layers {
            let named = layer.is_op || layer.key.is_empty();
            let name = if named { layer.name() } else { format!("{} ({})", layer.key, layer.kind) };
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
                if !layer.is_op && !told[at] && layer.kind != "input" && weight.layer() == layer.key {
                    told[at] = true;
                    weight_lines(&mut lines, weight, "");
                }
            }
        }
        for (weight, _) in self.weights.iter().zip(&told).filter(|(_, told)| !**told) {
            weight_lines(&mut lines, weight, weight.layer());
        }
        lines
    }
}

fn weight_lines<'a>(lines: &mut Vec<Line<'a>>, weight: &'a WeightStats, layer: &str) {
    let own = weight.name.rsplit_once('.').map_or(weight.name.as_str(), |(_, own)| own);
    let line = |name: &str, of: String, stats, update| Line { name: name.to_owned(), of, stats, update };
    lines.push(line(layer, own.to_owned(), &weight.values, weight.update));
    if let Some(gradient) = &weight.gradient {
        lines.push(line("", format!("{own}.grad"), gradient, None));
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
            let zeros = 100.0 * stats.zero_share();
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
                write!(f, " (told since step {})", warning.since)?;
            }
        }
        Ok(())
    }
}
