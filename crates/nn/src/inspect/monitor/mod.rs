//! Monitoring of a training run by layer: statistics of outputs, weights and gradients at regular
//! intervals, with a message for each fault that they show.

mod activations;
mod faults;
mod input;
mod layer_interactions;
mod origins;
mod pass_record;
mod report;
mod setup;
mod zero;

pub use faults::{Fault, StatsWarning};
pub use report::{LayerStats, StatsReport, WeightStats};

use crate::module::{
    LayerEvent, Module, Param, close_layer_observer, observe_layer_events, open_layer_observer,
};
use crate::optim::Optimizer;
use faults::History;
use pass_record::PassRecord;
use report::Readings;
use setup::{BareTensor, OptimizedTensors, Setup};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::autograd::TensorId;
use ternion_core::capture::is_recording_step;
use ternion_core::{
    DeviceStats, Error, Gradients, Result, Shape, Tensor, close_op_observer, no_grad, observe_ops,
    open_op_observer, unobserved,
};

/// How often a [`StatsMonitor`] takes a reading, and the limits beyond which it reports a fault.
///
/// The limits are far from what healthy training runs do, so that a warning is worth reading. They
/// are heuristics; the documentation of each states its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatsConfig {
    /// Steps from one reading to the next; 100 by default. A reading takes about twenty small ops
    /// for each layer and parameter, one for each op, and one copy from the device.
    pub every: u64,
    /// Number of consecutive readings after which a condition that a single batch may show by
    /// chance counts as a fault; 5 by default.
    pub patience: usize,
    /// The factor by which the outputs of a layer, or their gradients, may be larger or smaller
    /// than those of another layer; 1000 by default. Weights are initialized so that both keep
    /// their size from layer to layer (Glorot and Bengio 2010, section 4.2; He et al. 2015, section
    /// 2.2). A factor of 2 for each of ten layers makes 1000.
    pub growth: f64,
    /// A ReLU is reported as dead if at least this fraction of its units is 0 for every example of
    /// a batch; 0.9 by default. About half of all outputs of a ReLU are 0 in healthy training (He
    /// et al. 2015 assume half), but hardly a unit is 0 for all examples.
    pub dead_fraction: f64,
    /// The largest change of a weight in a step, relative to its size; 0.5 by default. About 0.001
    /// is usual (Karpathy, Stanford's CS231n, "Ratio of weights:updates"); the first steps of Adam,
    /// which change each number by the learning rate, reach about 0.1.
    pub largest_update: f64,
    /// The smallest change of a weight in a step, relative to its size; 1e-6 by default. It is a
    /// fault if the changes of all weights are smaller. An f32 cannot represent changes below 6e-8
    /// of its value.
    pub smallest_update: f64,
    /// The largest root mean square of an input that a layer multiplies unchanged; 30 by default.
    /// Weights are initialized for inputs of about 1 (LeCun et al. 1998, "Efficient BackProp",
    /// section 4.3); images of bytes that were not divided by 255 have about 100.
    pub largest_input: f64,
    /// The smallest root mean square of the nonzero numbers of an input that a layer multiplies
    /// unchanged; 1e-3 by default. For smaller inputs the product is negligible compared with the
    /// layer's bias, which is initialized to about 1 divided by the square root of the width.
    pub smallest_input: f64,
}

impl Default for StatsConfig {
    fn default() -> Self {
        StatsConfig {
            every: 100,
            patience: 5,
            growth: 1e3,
            dead_fraction: 0.9,
            largest_update: 0.5,
            smallest_update: 1e-6,
            largest_input: 30.0,
            smallest_input: 1e-3,
        }
    }
}

impl StatsConfig {
    fn check(&self) -> Result<()> {
        let error_message = if self.every == 0 {
            "every 0 steps, expected at least 1".to_owned()
        } else if self.patience == 0 {
            "patience 0, expected at least 1".to_owned()
        } else if self.growth.is_nan() || self.growth <= 1.0 {
            format!("growth {}, expected more than 1", self.growth)
        } else if !(self.dead_fraction > 0.0 && self.dead_fraction <= 1.0) {
            format!("dead_fraction {}, expected more than 0 and at most 1", self.dead_fraction)
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
        Err(Error::invalid("stats_monitor", error_message))
    }
}

/// Takes readings of a training run at regular intervals: the outputs of each layer and their
/// gradients, weights and their gradients, and how far a step changes the weights.
///
/// The statistics are computed on the device. A few numbers for each tensor are copied to the host,
/// all at once. Warnings name the layer at fault: see [`Fault`]. A persistent fault is reported
/// with exponential back-off: see [`StatsReport::warnings`]. Steps without a reading have no
/// overhead.
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
///     // A step of the optimizer, and on steps 0, 10 and 20 a report.
///     if let Some(report) = monitor.step(&mut adam, &loss.backward()?)? {
///         // Print the warnings, or the whole report with {report}.
///         report.warnings.iter().for_each(|warning| eprintln!("{warning}"));
/// #       assert!(report.all_warnings.is_empty() && report.step % 10 == 0);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct StatsMonitor {
    config: StatsConfig,
    observed: Option<ObservedStep>,
    history: History,
    learning_rates: LearningRates,
    /// The bare tensors that required a gradient in the last reading.
    bare_tensors: Vec<BareTensor>,
}

/// Learning rates of the steps since the last reading, including steps without a reading.
#[derive(Default)]
struct LearningRates {
    /// The learning rate of the last step.
    last: Option<f64>,
    /// The largest learning rate up to the previous reading.
    before: f64,
    /// The largest learning rate since the previous reading.
    since: f64,
}

/// A learning rate that is larger by more than this factor counts as a rise. Schedules with a
/// warmup start lower, but rise in small steps.
const RISE_FACTOR: f64 = 100.0;

impl LearningRates {
    fn record(&mut self, lr: f64) {
        self.last = Some(lr);
        self.since = self.since.max(lr);
    }

    /// Returns the largest learning rates up to and since the previous reading, if the second is
    /// much larger, and starts the next interval.
    fn rise(&mut self) -> Option<(f64, f64)> {
        let (before, since) = (self.before, self.since);
        (self.before, self.since) = (before.max(since), 0.0);
        (before > 0.0 && since > RISE_FACTOR * before).then_some((before, since))
    }
}

/// A step with a reading.
struct ObservedStep {
    step: u64,
    parameters: Vec<Param>,
    setup: Setup,
    record: Arc<Mutex<PassRecord>>,
}

impl StatsMonitor {
    /// Creates a monitor without readings.
    ///
    /// # Errors
    /// Returns an error if `every` or `patience` is 0, or if a limit is not valid.
    pub fn new(config: StatsConfig) -> Result<StatsMonitor> {
        config.check()?;
        Ok(StatsMonitor {
            config,
            observed: None,
            history: History::default(),
            learning_rates: LearningRates::default(),
            bare_tensors: Vec::new(),
        })
    }

    /// Runs `compute`, the forward pass of step `step` (with or without the loss). If the step is
    /// due for a reading, observes the layers of `model` meanwhile. If a measurement fails, the
    /// layer returns its error.
    ///
    /// A step that [`Device::capture`](ternion_core::Device::capture) records has no reading,
    /// because nothing can be copied to the host then.
    pub fn watch<M: Module + ?Sized, T>(&mut self, model: &M, step: u64, compute: impl FnOnce() -> T) -> T {
        match self.begin(model, step) {
            None => compute(),
            Some(record) => {
                let record_ops = op_recorder(record.clone());
                observe_layer_events(model, layer_recorder(record), || observe_ops(record_ops, compute))
            }
        }
    }

    /// Starts to observe as [`watch`](StatsMonitor::watch) does, until
    /// [`close`](StatsMonitor::close): for bindings that cannot pass a closure. Returns false if
    /// the step is not due for a reading; there is then nothing to close.
    pub fn open<M: Module + ?Sized>(&mut self, model: &M, step: u64) -> bool {
        let Some(record) = self.begin(model, step) else { return false };
        open_layer_observer(model, layer_recorder(record.clone()));
        open_op_observer(op_recorder(record));
        true
    }

    /// Ends on this thread what [`open`](StatsMonitor::open) started.
    pub fn close() {
        close_op_observer();
        close_layer_observer();
    }

    /// Returns the record for layers and ops of step `step`, if it is due for a reading.
    fn begin<M: Module + ?Sized>(&mut self, model: &M, step: u64) -> Option<Arc<Mutex<PassRecord>>> {
        self.observed = None;
        if !step.is_multiple_of(self.config.every) || is_recording_step() {
            return None;
        }
        let (parameters, setup) = (model.parameters(), Setup::from_model(model));
        let record = Arc::new(Mutex::new(PassRecord::new(&parameters)));
        self.observed = Some(ObservedStep { step, parameters, setup, record: record.clone() });
        Some(record)
    }

    /// Returns the report of the step that was observed last, with these gradients; `None` if the
    /// step was not due for a reading or has already been reported.
    ///
    /// # Errors
    /// Returns an error if an earlier op failed on the device, or if memory is exhausted.
    pub fn report(&mut self, gradients: &Gradients) -> Result<Option<StatsReport>> {
        let Some(observed) = self.observed.take() else { return Ok(None) };
        let readings = observed.readings(gradients, &mut self.bare_tensors)?;
        self.finish_report(observed.step, readings).map(Some)
    }

    /// Runs a step of `optimizer`, and reports as [`report`](StatsMonitor::report) does, including
    /// the changes of the weights. For a step with a reading, the weights are copied for the
    /// duration of the step.
    ///
    /// # Errors
    /// The errors of the step and of [`report`](StatsMonitor::report).
    pub fn step<O: Optimizer + ?Sized>(
        &mut self,
        optimizer: &mut O,
        gradients: &Gradients,
    ) -> Result<Option<StatsReport>> {
        self.set_lr(optimizer.lr());
        self.set_optimized_tensors(OptimizedTensors {
            tensors: ids_of(&optimizer.parameters()),
            is_all: false,
        });
        self.step_by(gradients, || optimizer.step(gradients))
    }

    /// Sets the learning rate of the next [`step_by`](StatsMonitor::step_by), for reports of steps
    /// that are too large. [`step`](StatsMonitor::step) gets it from the optimizer.
    pub fn set_lr(&mut self, lr: f64) {
        self.learning_rates.record(lr);
    }

    /// Records gradients that belong to no parameter of the model, by their tensors and shapes, if
    /// they are not in [`Gradients`]: for bindings that store them elsewhere.
    pub fn record_unmatched(&mut self, gradients: Vec<(TensorId, Shape)>) {
        self.observed.iter_mut().for_each(|observed| observed.setup.unmatched.clone_from(&gradients));
    }

    /// Records the tensors of all optimizers, for bindings that know them. If an optimizer has some
    /// parameters of the model, those that no optimizer has are assumed not to be trained.
    pub fn set_optimized(&mut self, tensors: HashSet<TensorId>) {
        self.set_optimized_tensors(OptimizedTensors { tensors, is_all: true });
    }

    fn set_optimized_tensors(&mut self, optimized: OptimizedTensors) {
        self.observed.iter_mut().for_each(|observed| observed.setup.optimized.clone_from(&optimized));
    }

    /// Like [`step`](StatsMonitor::step), without an optimizer: `step` changes the parameters using
    /// these gradients.
    ///
    /// # Errors
    /// Same as [`step`](StatsMonitor::step).
    pub fn step_by(
        &mut self,
        gradients: &Gradients,
        step: impl FnOnce() -> Result<()>,
    ) -> Result<Option<StatsReport>> {
        let Some(observed) = self.observed.take() else {
            step()?;
            return Ok(None);
        };
        let mut readings = observed.readings(gradients, &mut self.bare_tensors)?;
        let before = unobserved(|| observed.copy_weights())?;
        step()?;
        for (at, (param, before)) in observed.parameters.iter().zip(before).enumerate() {
            if let Some(before) = before {
                readings.record_update(at, change_stats(param, &before)?);
            }
        }
        self.finish_report(observed.step, readings).map(Some)
    }

    fn finish_report(&mut self, step: u64, readings: Readings) -> Result<StatsReport> {
        let mut report = unobserved(|| readings.read(step))?;
        (report.setup.lr, report.setup.rise) = (self.learning_rates.last, self.learning_rates.rise());
        self.history.warn(&mut report, &self.config);
        Ok(report)
    }
}

fn ids_of(parameters: &[Param]) -> HashSet<TensorId> {
    parameters.iter().filter_map(|param| param.tensor().id()).collect()
}

fn layer_recorder(record: Arc<Mutex<PassRecord>>) -> impl Fn(LayerEvent<'_>) -> Result<()> + 'static {
    move |event: LayerEvent<'_>| unobserved(|| lock(&record).layer(event))
}

fn op_recorder(record: Arc<Mutex<PassRecord>>) -> impl Fn(&ternion_core::OpCall<'_>) -> Result<()> + 'static {
    move |call: &ternion_core::OpCall<'_>| unobserved(|| lock(&record).op(call))
}

/// Ignores poisoning: a panic elsewhere cannot leave the record half changed.
fn lock(record: &Mutex<PassRecord>) -> MutexGuard<'_, PassRecord> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ObservedStep {
    fn readings(&self, gradients: &Gradients, bare_tensors: &mut Vec<BareTensor>) -> Result<Readings> {
        unobserved(|| self.collect_readings(gradients, bare_tensors))
    }

    fn collect_readings(
        &self,
        gradients: &Gradients,
        bare_tensors: &mut Vec<BareTensor>,
    ) -> Result<Readings> {
        let mut readings = lock(&self.record).take_readings()?;
        readings.setup.add_model(&self.setup, &self.parameters, gradients, bare_tensors);
        bare_tensors.clone_from(&readings.setup.bare_tensors);
        self.parameters.iter().try_for_each(|param| readings.weight(param, param.gradient(gradients)))?;
        Ok(readings)
    }

    /// Returns copies of the weights before the step. Biases are omitted: they start at 0, so that
    /// their relative change is meaningless.
    fn copy_weights(&self) -> Result<Vec<Option<Tensor>>> {
        let copy = |param: &Param| {
            let tensor = param.tensor();
            (tensor.rank() >= 2 && tensor.needs_grad())
                .then(|| no_grad(|| tensor.detach().copy()))
                .transpose()
        };
        self.parameters.iter().map(copy).collect()
    }
}

/// Returns the statistics of the change of a weight, and of its elementwise product with the old
/// weight.
fn change_stats(param: &Param, before: &Tensor) -> Result<[DeviceStats; 2]> {
    let compared = || {
        let change = param.tensor().detach().sub(before)?;
        Ok([change.device_stats()?, change.mul(before)?.device_stats()?])
    };
    unobserved(|| no_grad(compared))
}
