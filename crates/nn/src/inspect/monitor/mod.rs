//! What a training does, layer by layer: statistics of outputs, weights and gradients every some steps, and a sentence where they tell of a fault.

mod activations;
mod faults;
mod input;
mod joints;
mod origins;
mod report;
mod seen;
mod setup;
mod zero;

pub use faults::{Fault, StatsWarning};
pub use report::{LayerStats, StatsReport, WeightStats};

use crate::module::{
    LayerEvent, Module, Param, close_layer_observer, observe_layer_events, open_layer_observer,
};
use crate::optim::Optimizer;
use faults::History;
use report::Readings;
use seen::Seen;
use setup::{Held, Plain, Setup};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::autograd::TensorId;
use ternion_core::capture::is_recording_step;
use ternion_core::{
    DeviceStats, Error, Gradients, Result, Shape, Tensor, close_op_observer, no_grad, observe_ops,
    open_op_observer, unobserved,
};

/// How often a [`StatsMonitor`] looks, and what it takes for a fault.
///
/// The limits are far from what training does when it is well, so that a warning is worth reading. None is a law: each tells where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatsConfig {
    /// Steps from one reading to the next; 100 by default. A reading takes about twenty small ops for each layer and parameter, one for each op, and one read from the device.
    pub every: u64,
    /// Readings in a row after which something is a fault that a single batch may show by chance; 5 by default.
    pub patience: usize,
    /// How many times larger or smaller the outputs of one layer, or the gradients that come to it, may be than those of another; 1000 by default. First weights are chosen so that
    /// both keep their size from layer to layer (Glorot and Bengio 2010, section 4.2; He et al. 2015, section 2.2). A factor of 2 for each of ten layers makes 1000.
    pub growth: f64,
    /// The share of units of a ReLU that give 0 for each example of a batch, from which on it is called dead; 0.9 by default. About half of all outputs of a ReLU are 0 when
    /// training is well (He et al. 2015 reckon with half), but hardly a unit is 0 for all examples.
    pub dead_share: f64,
    /// The largest change of a weight in a step, of its own size; 0.5 by default. About 0.001 is usual (Karpathy, Stanford's CS231n, "Ratio of weights:updates"); the first steps of
    /// Adam, which change each number by the learning rate, reach some 0.1.
    pub largest_update: f64,
    /// The smallest change of a weight in a step, of its own size, in which all weights must fall short of it; 1e-6 by default. An f32 has no room for changes below 6e-8 of it.
    pub smallest_update: f64,
    /// The largest root mean square of an input that goes into a layer's product as it is; 30 by default. Inputs of about 1 are what first weights are made for (LeCun et al. 1998, "Efficient
    /// BackProp", section 4.3); images of bytes that were not divided by 255 have about 100.
    pub largest_input: f64,
    /// The smallest root mean square, of the numbers that are not 0, of an input that goes into a layer's product as it is; 1e-3 by default. What a product makes of smaller ones
    /// is covered by the layer's bias, which starts at about 1 by the root of the width.
    pub smallest_input: f64,
}

impl Default for StatsConfig {
    fn default() -> Self {
        StatsConfig {
            every: 100,
            patience: 5,
            growth: 1e3,
            dead_share: 0.9,
            largest_update: 0.5,
            smallest_update: 1e-6,
            largest_input: 30.0,
            smallest_input: 1e-3,
        }
    }
}

impl StatsConfig {
    fn check(&self) -> Result<()> {
        let problem = if self.every == 0 {
            "every 0 steps, expected at least 1".to_owned()
        } else if self.patience == 0 {
            "patience 0, expected at least 1".to_owned()
        } else if self.growth.is_nan() || self.growth <= 1.0 {
            format!("growth {}, expected more than 1", self.growth)
        } else if !(self.dead_share > 0.0 && self.dead_share <= 1.0) {
            format!("dead_share {}, expected more than 0 and at most 1", self.dead_share)
        } else if !(self.smallest_update >= 0.0 && self.smallest_update < self.largest_update) {
            let (low, high) = (self.smallest_update, self.largest_update);
            format!("updates from {low} to {high}, expected at least 0, and the second larger")
        } else if self.largest_input.is_nan() || self.largest_input <= 0.0 {
            format!("largest_input {}, expected more than 0", self.largest_input)
        } else if !(self.smallest_input >= 0.0 && self.smallest_input < self.largest_input) {
            let (low, high) = (self.smallest_input, self.largest_input);
            format!("inputs from {low} to {high}, expected at least 0, and the second larger")
        } else {
            return Ok(());
        };
        Err(Error::invalid("stats_monitor", problem))
    }
}

/// Looks at a training every some steps: the outputs of each layer and the gradients that come to them, weights and their gradients, and how far a step moves them.
///
/// What it sees is formed on the device; a few numbers for each tensor are read, all at once. It names the layer at fault in a sentence: see [`Fault`]. A fault that stays is told
/// again at ever larger distances: see [`StatsReport::warnings`]. A step that is not watched costs what it costs without.
///
/// ```
/// use ternion_core::{DType, Result, Tensor};
/// use ternion_nn::optim::{AdamW, AdamWConfig};
/// use ternion_nn::{Forward, Mlp, Module, StatsConfig, StatsMonitor};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// # let input = Tensor::randn([32, 4], DType::F32, &device)?;
/// # let labels = Tensor::zeros([32], DType::I64, &device)?;
/// let model = Mlp::new([4, 16, 2], &device)?;
/// let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
/// let mut monitor = StatsMonitor::new(StatsConfig { every: 10, ..Default::default() })?;
/// for step in 0..30 {
///     let loss = monitor.watch(&model, step, || model.forward(&input)?.cross_entropy(&labels))?;
///     // A step of the optimiser, and on steps 0, 10 and 20 a report.
///     if let Some(report) = monitor.step(&mut adam, &loss.backward()?)? {
///         report.warnings.iter().for_each(|warning| eprintln!("{warning}")); // or all of it: {report}
/// #       assert!(report.all_warnings.is_empty() && report.step % 10 == 0);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct StatsMonitor {
    config: StatsConfig,
    watched: Option<Watched>,
    history: History,
    rates: Rates,
    /// Of the last reading.
    plain: Vec<Plain>,
}

/// Learning rates of the steps since the last reading, also of those that are not looked at.
#[derive(Default)]
struct Rates {
    /// Of the last step.
    last: Option<f64>,
    /// The largest one up to the reading before, and the largest one since.
    before: f64,
    since: f64,
}

/// From here on a larger rate counts as a rise: schedules that warm up begin lower, but go on in small steps.
const RISE: f64 = 100.0;

impl Rates {
    fn note(&mut self, rate: f64) {
        self.last = Some(rate);
        self.since = self.since.max(rate);
    }

    /// The largest rates before the reading before and since, if these are far apart; the next reading begins anew.
    fn rise(&mut self) -> Option<(f64, f64)> {
        let (before, since) = (self.before, self.since);
        (self.before, self.since) = (before.max(since), 0.0);
        (before > 0.0 && since > RISE * before).then_some((before, since))
    }
}

/// A step that is being watched.
struct Watched {
    step: u64,
    parameters: Vec<Param>,
    setup: Setup,
    seen: Arc<Mutex<Seen>>,
}

impl StatsMonitor {
    /// One that has seen nothing.
    ///
    /// # Errors
    /// Steps or readings of 0, limits that are none.
    pub fn new(config: StatsConfig) -> Result<StatsMonitor> {
        config.check()?;
        Ok(StatsMonitor {
            config,
            watched: None,
            history: History::default(),
            rates: Rates::default(),
            plain: Vec::new(),
        })
    }

    /// Runs `compute`, the forward of step `step` (with the loss, or without it), and watches the layers of `model` meanwhile if the step is one of those that
    /// are looked at. What cannot be measured becomes the error of the layer.
    ///
    /// A step that [`Device::capture`](ternion_core::Device::capture) records for its replay is not looked at: nothing can be read there.
    pub fn watch<M: Module + ?Sized, T>(&mut self, model: &M, step: u64, compute: impl FnOnce() -> T) -> T {
        match self.begin(model, step) {
            None => compute(),
            Some(seen) => {
                let of_ops = noting_ops(seen.clone());
                observe_layer_events(model, noting_layers(seen), || observe_ops(of_ops, compute))
            }
        }
    }

    /// Watches as [`watch`](StatsMonitor::watch) does, until [`close`](StatsMonitor::close): for bindings to languages whose scopes are no closures. False if the step is not one of
    /// those that are looked at, and there is nothing to close.
    pub fn open<M: Module + ?Sized>(&mut self, model: &M, step: u64) -> bool {
        let Some(seen) = self.begin(model, step) else { return false };
        open_layer_observer(model, noting_layers(seen.clone()));
        open_op_observer(noting_ops(seen));
        true
    }

    /// Ends on this thread what [`open`](StatsMonitor::open) began.
    pub fn close() {
        close_op_observer();
        close_layer_observer();
    }

    /// Where layers and ops of step `step` are to be noted, if it is looked at.
    fn begin<M: Module + ?Sized>(&mut self, model: &M, step: u64) -> Option<Arc<Mutex<Seen>>> {
        self.watched = None;
        if !step.is_multiple_of(self.config.every) || is_recording_step() {
            return None;
        }
        let (parameters, setup) = (model.parameters(), Setup::of(model));
        let seen = Arc::new(Mutex::new(Seen::of(&parameters)));
        self.watched = Some(Watched { step, parameters, setup, seen: seen.clone() });
        Some(seen)
    }

    /// What was seen of the step that was watched last, with these gradients of it; `None` if the step was not one of those that are looked at, or has been reported.
    ///
    /// # Errors
    /// If an earlier op failed on the device, or there is no memory.
    pub fn report(&mut self, gradients: &Gradients) -> Result<Option<StatsReport>> {
        let Some(watched) = self.watched.take() else { return Ok(None) };
        let readings = watched.readings(gradients, &mut self.plain)?;
        self.told(watched.step, readings).map(Some)
    }

    /// Has `optimizer` make its step, and reports as [`report`](StatsMonitor::report) does, with the changes of the weights. On a step that is looked at, the weights are copied
    /// for as long as the step takes.
    ///
    /// # Errors
    /// Those of the step, and as [`report`](StatsMonitor::report).
    pub fn step<O: Optimizer + ?Sized>(
        &mut self,
        optimizer: &mut O,
        gradients: &Gradients,
    ) -> Result<Option<StatsReport>> {
        self.note_rate(optimizer.lr());
        self.note_held(Held { tensors: ids_of(&optimizer.parameters()), is_all: false });
        self.step_by(gradients, || optimizer.step(gradients))
    }

    /// Notes the learning rate of the next [`step_by`](StatsMonitor::step_by), which [`step`](StatsMonitor::step) asks the optimizer for: reports tell it where steps are too large.
    pub fn note_rate(&mut self, rate: f64) {
        self.rates.note(rate);
    }

    /// Notes gradients that belong to no parameter of the model, by the tensors that they came to and their shapes, where [`Gradients`] do not have them: for bindings to languages
    /// that have them elsewhere.
    pub fn note_unclaimed(&mut self, gradients: Vec<(TensorId, Shape)>) {
        self.watched.iter_mut().for_each(|watched| watched.setup.unclaimed.clone_from(&gradients));
    }

    /// Notes which tensors all optimizers have, for bindings to languages that know: parameters that none has, while the model has others, are not
    /// to be trained.
    pub fn note_all_held(&mut self, tensors: HashSet<TensorId>) {
        self.note_held(Held { tensors, is_all: true });
    }

    fn note_held(&mut self, held: Held) {
        self.watched.iter_mut().for_each(|watched| watched.setup.held.clone_from(&held));
    }

    /// As [`step`](StatsMonitor::step), for whoever makes the step by other means: `step` changes the parameters by these gradients.
    ///
    /// # Errors
    /// As [`step`](StatsMonitor::step).
    pub fn step_by(
        &mut self,
        gradients: &Gradients,
        step: impl FnOnce() -> Result<()>,
    ) -> Result<Option<StatsReport>> {
        let Some(watched) = self.watched.take() else {
            step()?;
            return Ok(None);
        };
        let mut readings = watched.readings(gradients, &mut self.plain)?;
        let before = unobserved(|| watched.copies())?;
        step()?;
        for (at, (param, before)) in watched.parameters.iter().zip(before).enumerate() {
            if let Some(before) = before {
                readings.updated(at, changed(param, &before)?);
            }
        }
        self.told(watched.step, readings).map(Some)
    }

    fn told(&mut self, step: u64, readings: Readings) -> Result<StatsReport> {
        let mut report = unobserved(|| readings.read(step))?;
        (report.setup.rate, report.setup.rise) = (self.rates.last, self.rates.rise());
        self.history.warn(&mut report, &self.config);
        Ok(report)
    }
}

fn ids_of(parameters: &[Param]) -> HashSet<TensorId> {
    parameters.iter().filter_map(|param| param.tensor().id()).collect()
}

fn noting_layers(seen: Arc<Mutex<Seen>>) -> impl Fn(LayerEvent<'_>) -> Result<()> + 'static {
    move |event: LayerEvent<'_>| unobserved(|| lock(&seen).layer(event))
}

fn noting_ops(seen: Arc<Mutex<Seen>>) -> impl Fn(&ternion_core::OpCall<'_>) -> Result<()> + 'static {
    move |call: &ternion_core::OpCall<'_>| unobserved(|| lock(&seen).op(call))
}

/// What was seen so far: a panic elsewhere cannot leave it half noted.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn readings(&self, gradients: &Gradients, plain: &mut Vec<Plain>) -> Result<Readings> {
        unobserved(|| self.formed(gradients, plain))
    }

    fn formed(&self, gradients: &Gradients, plain: &mut Vec<Plain>) -> Result<Readings> {
        let mut readings = lock(&self.seen).readings()?;
        readings.setup.model(&self.setup, &self.parameters, gradients, plain);
        plain.clone_from(&readings.setup.plain);
        self.parameters.iter().try_for_each(|param| readings.weight(param, param.gradient(gradients)))?;
        Ok(readings)
    }

    /// The weights before the step. Biases start at 0, so that their change tells nothing.
    fn copies(&self) -> Result<Vec<Option<Tensor>>> {
        let copy = |param: &Param| {
            let tensor = param.tensor();
            (tensor.rank() >= 2 && tensor.needs_grad())
                .then(|| no_grad(|| tensor.detach().copy()))
                .transpose()
        };
        self.parameters.iter().map(copy).collect()
    }
}

/// The change of a weight, and its product with the weight as it was, number by number.
fn changed(param: &Param, before: &Tensor) -> Result<[DeviceStats; 2]> {
    let compared = || {
        let change = param.tensor().detach().sub(before)?;
        Ok([change.device_stats()?, change.mul(before)?.device_stats()?])
    };
    unobserved(|| no_grad(compared))
}
