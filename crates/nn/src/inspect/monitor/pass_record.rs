//! The record of a forward pass: the outputs of layers and activations, and hooks for their
//! gradients.

use super::activations::{Activation, ActivationLog};
use super::input::{self, InputUse};
use super::layer_interactions::LayerInteractions;
use super::origins::{LayerCallIndex, Location, Origins, TensorIndex};
use super::report::{OutputSource, Readings};
use super::setup::BareTensor;
use crate::module::{LayerCall, LayerEvent, Param};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use ternion_core::autograd::{HookHandle, TensorId, is_recording};
use ternion_core::{DType, DeviceStats, Op, OpCall, Result, Tensor, no_grad, unobserved};

/// Statistics of gradients, which the hooks add in the backward pass.
type GradientStats = Arc<Mutex<Vec<DeviceStats>>>;

/// An output and its gradient.
struct MeasuredOutput {
    output: DeviceStats,
    /// 1 for each unit of a ReLU with output 0 for every example, otherwise 0.
    dead: Option<DeviceStats>,
    /// 1 for each saturated element of a sigmoid or tanh, or saturated row of a softmax, otherwise
    /// 0.
    saturated: Option<DeviceStats>,
    gradients: GradientStats,
    /// The index of the last tensor that was recorded in its buffer.
    tensor_index: Option<TensorIndex>,
    /// Removed when the pass has been read: a layer may have returned a tensor that outlives the
    /// pass.
    hook: Option<HookHandle>,
}

/// An activation that is called as a function. It is pending until it is known whether its output
/// is also the output of a layer.
struct PendingActivation {
    source: OutputSource,
    output: Tensor,
}

/// The tensor that was measured last.
struct LatestOutput {
    output: Tensor,
    version: u64,
    at: usize,
}

/// A layer that is computing.
struct OpenLayer {
    index: LayerCallIndex,
    key: String,
    kind: &'static str,
    is_member: bool,
    /// Whether another layer has computed within it.
    has_inner: bool,
}

/// The record of a pass so far.
#[derive(Default)]
pub(super) struct PassRecord {
    sources: Vec<(OutputSource, usize)>,
    measured: Vec<MeasuredOutput>,
    open: Vec<OpenLayer>,
    activations: ActivationLog,
    interactions: LayerInteractions,
    origins: Origins,
    /// The number of layer calls that have begun.
    layer_calls: LayerCallIndex,
    /// The range of each element of the input over the examples.
    spread: Option<DeviceStats>,
    /// Layers that do not belong to the model and computed after it had begun: their names, and
    /// whether the model continued after them.
    unvisited: Vec<(String, bool)>,
    /// Tensors that require a gradient and are already recorded, are parameters, or are inputs of
    /// the first op.
    known_ids: HashSet<TensorId>,
    /// Other tensors that require a gradient and were used within the model.
    bare_tensors: Vec<BareTensor>,
    /// The layer that ended last, by key and kind.
    last: Option<LayerCall>,
    pending: Option<PendingActivation>,
    latest: Option<LatestOutput>,
    has_input: bool,
    /// Layers of the model that have ended, and whether any of their calls was recorded in the
    /// graph.
    recorded: HashMap<String, bool>,
}

impl PassRecord {
    /// Creates the record for a model with these parameters.
    pub(super) fn new(parameters: &[Param]) -> PassRecord {
        let known_ids = parameters.iter().filter_map(|param| param.tensor().id()).collect();
        PassRecord { known_ids, origins: Origins::new(parameters), ..PassRecord::default() }
    }

    pub(super) fn layer(&mut self, event: LayerEvent<'_>) -> Result<()> {
        match event {
            LayerEvent::Entered(call) => {
                self.flush_pending()?;
                self.record_call(call);
                self.open.last_mut().into_iter().for_each(|open| open.has_inner = true);
                let (key, kind, is_member) = (call.key.clone(), call.kind, call.is_member);
                self.layer_calls += 1;
                self.open.push(OpenLayer { index: self.layer_calls, key, kind, is_member, has_inner: false });
            }
            LayerEvent::Left(call, output) => {
                let leaf = self.open.pop().filter(|open| !open.has_inner);
                leaf.iter().for_each(|open| self.origins.record_leaf(open.index));
                self.end_layer(call, output, leaf.is_some())?;
            }
            LayerEvent::Output(call, output) => {
                self.record_call(call);
                self.end_layer(call, output, true)?;
            }
        }
        Ok(())
    }

    /// Records a layer that the traversal of the model did not include. It is reported if it
    /// computes within the model or before another layer of the model.
    fn record_call(&mut self, call: &LayerCall) {
        if call.is_member {
            self.unvisited.iter_mut().for_each(|(_, is_inside)| *is_inside = true);
            self.bare_tensors.iter_mut().for_each(|tensor| tensor.is_inside = true);
        } else if self.open.last().is_none_or(|open| open.is_member) {
            let after = self.last.as_ref().filter(|last| !last.key.is_empty());
            let name = match after {
                Some(last) => format!("{} after {}", call.kind, last.key),
                None => call.kind.to_owned(),
            };
            self.unvisited.push((name, !self.open.is_empty()));
        }
    }

    pub(super) fn op(&mut self, call: &OpCall<'_>) -> Result<()> {
        if let Some(input) = call.inputs.first().filter(|_| !self.has_input) {
            self.known_ids.extend(call.inputs.iter().filter_map(|input| input.id()));
            self.record_input(call, input)?;
        }
        self.record_bare_tensors(call);
        self.record_interaction(call)?;
        let location = self.location();
        self.origins.op(call, &location)?;
        let key = self.last.as_ref().map_or("", |last| last.key.as_str());
        self.activations.op(call, key);
        if let Some(activation) =
            Activation::from_op(call.op).filter(|activation| self.is_watched(*activation))
        {
            let key = key.to_owned();
            self.flush_pending()?;
            let kind = activation.name();
            let source = OutputSource {
                key,
                kind,
                is_op: true,
                is_leaf: true,
                activation: Some(activation),
                ..OutputSource::default()
            };
            self.pending = Some(PendingActivation { source, output: call.outputs[0].clone() });
        }
        Ok(())
    }

    /// Records the input: the first tensor that the model uses, unless that is a weight. If the
    /// first op is a cast or a copy to another layout, its result is the input.
    fn record_input(&mut self, call: &OpCall<'_>, input: &Tensor) -> Result<()> {
        self.has_input = !matches!(call.op, Op::Copy(_));
        let is_table = matches!(call.op, Op::IndexSelect(_) | Op::Gather(_));
        if !self.has_input || input.needs_grad() || is_table {
            return Ok(());
        }
        let input_use = InputUse::from_call(call);
        if input_use == InputUse::Product && input.dtype().is_float() {
            self.spread = input::spread(input)?;
        }
        self.measure(OutputSource { kind: "input", input_use, ..OutputSource::default() }, input)
    }

    /// Records leaves that are not parameters and that an op reads. They are reported if the op
    /// runs within the model or before another layer of the model. Leaves within a layer that the
    /// model does not include belong to that layer.
    fn record_bare_tensors(&mut self, call: &OpCall<'_>) {
        let is_inside = match self.open.last() {
            Some(open) if !open.is_member => return,
            open => open.is_some(),
        };
        for input in call.inputs.iter().filter(|input| input.is_leaf()) {
            let Some(id) = input.id().filter(|id| self.known_ids.insert(*id)) else { continue };
            let named = format!("a tensor {:?} in {}", input.shape(), call.op.name());
            let after = self.last.as_ref().filter(|last| !last.key.is_empty());
            let name = after.map_or(named.clone(), |last| format!("{named} after {}", last.key));
            self.bare_tensors.push(BareTensor { id, version: input.buffer().version(), name, is_inside });
        }
    }

    /// Returns the current location in the model.
    fn location(&self) -> Location {
        let named = |open: &OpenLayer| {
            let name = if open.key.is_empty() { open.kind } else { &open.key };
            (open.index, name.to_owned())
        };
        Location {
            layer: self.open.last().map(named),
            layer_key: self.open.last().map_or_else(String::new, |open| open.key.clone()),
            after: self.last.as_ref().map_or_else(String::new, |last| last.key.clone()),
        }
    }

    /// Records what happens between layers, and between the model and its loss.
    fn record_interaction(&mut self, call: &OpCall<'_>) -> Result<()> {
        let layer = self.open.last().filter(|open| open.is_member);
        let is_inside = self.open.iter().any(|open| open.is_member);
        let linear = layer.filter(|open| open.kind == "Linear").map(|open| open.key.as_str());
        self.interactions.op(call, linear, is_inside)
    }

    /// Whether to check an activation. The gates of recurrent layers are excluded: they are meant
    /// to saturate.
    fn is_watched(&self, activation: Activation) -> bool {
        let is_recurrent =
            |open: &OpenLayer| ["RNN", "LSTM", "GRU"].iter().any(|kind| open.kind.starts_with(kind));
        activation == Activation::Relu || !self.open.last().is_some_and(is_recurrent)
    }

    /// Measures a pending activation that turned out not to be a layer's output.
    fn flush_pending(&mut self) -> Result<()> {
        match self.pending.take() {
            Some(PendingActivation { source, output }) => self.measure(source, &output),
            None => Ok(()),
        }
    }

    fn end_layer(&mut self, call: &LayerCall, output: &Tensor, is_leaf: bool) -> Result<()> {
        let activation = match self.pending.take_if(|pending| is_same_tensor(&pending.output, output)) {
            Some(pending) => pending.source.activation,
            None => {
                self.flush_pending()?;
                None
            }
        };
        self.activations.layer(call, output);
        if call.is_member {
            *self.recorded.entry(call.key.clone()).or_default() |= is_recording();
        }
        let source = OutputSource {
            key: call.key.clone(),
            kind: call.kind,
            is_op: false,
            is_leaf,
            activation,
            input_use: InputUse::Other,
        };
        self.measure(source, output)?;
        self.interactions.layer(call, output, is_leaf);
        self.last = Some(call.clone());
        Ok(())
    }

    fn measure(&mut self, source: OutputSource, output: &Tensor) -> Result<()> {
        if !output.dtype().is_float() {
            return Ok(());
        }
        let is_latest = |latest: &&LatestOutput| {
            is_same_tensor(&latest.output, output) && latest.version == output.buffer().version()
        };
        // A container and its last layer have the same output.
        let at = match self.latest.as_ref().filter(is_latest) {
            Some(latest) if self.measured[latest.at].has_units(source.activation) => latest.at,
            _ => {
                let channels_first = self.last.as_ref().is_some_and(|last| is_channels_first(last.kind));
                let tensor_index = self.origins.index_of(output);
                self.measured.push(MeasuredOutput::new(
                    output,
                    tensor_index,
                    source.activation,
                    channels_first,
                )?);
                self.measured.len() - 1
            }
        };
        self.latest = Some(LatestOutput { output: output.clone(), version: output.buffer().version(), at });
        self.sources.push((source, at));
        Ok(())
    }

    /// Returns the record of the pass as readings.
    pub(super) fn take_readings(&mut self) -> Result<Readings> {
        self.flush_pending()?;
        self.latest = None;
        let mut readings = Readings::default();
        for (source, at) in std::mem::take(&mut self.sources) {
            let MeasuredOutput { output, dead, saturated, gradients, tensor_index, .. } = &self.measured[at];
            let gradients = gradients.lock().unwrap_or_else(PoisonError::into_inner);
            readings.output(
                source,
                [Some(output), dead.as_ref(), saturated.as_ref()],
                &gradients,
                *tensor_index,
            );
        }
        readings.origins = std::mem::take(&mut self.origins);
        self.spread.take().iter().for_each(|spread| readings.spread(spread));
        std::mem::take(&mut self.interactions).report(&mut readings);
        readings.setup.double_activations = std::mem::take(&mut self.activations).double_activations();
        let inside = std::mem::take(&mut self.unvisited).into_iter().filter(|(_, is_inside)| *is_inside);
        readings.setup.unvisited = inside.map(|(name, _)| name).collect();
        readings.setup.recorded = std::mem::take(&mut self.recorded);
        readings.setup.bare_tensors = std::mem::take(&mut self.bare_tensors);
        readings.setup.bare_tensors.retain(|tensor| tensor.is_inside);
        Ok(readings)
    }
}

impl Drop for MeasuredOutput {
    fn drop(&mut self) {
        self.hook.take().into_iter().for_each(HookHandle::remove);
    }
}

impl MeasuredOutput {
    /// Whether the statistics of this activation's units were measured.
    fn has_units(&self, activation: Option<Activation>) -> bool {
        match activation {
            None => true,
            Some(Activation::Relu) => self.dead.is_some(),
            Some(_) => self.saturated.is_some(),
        }
    }

    fn new(
        output: &Tensor,
        tensor_index: Option<TensorIndex>,
        activation: Option<Activation>,
        channels_first: bool,
    ) -> Result<MeasuredOutput> {
        let gradients: GradientStats = Arc::default();
        let hook_gradients = gradients.clone();
        let record = move |grad: &Tensor| {
            let stats = grad.device_stats()?;
            hook_gradients.lock().unwrap_or_else(PoisonError::into_inner).push(stats);
            Ok(None)
        };
        Ok(MeasuredOutput {
            output: output.device_stats()?,
            dead: match activation {
                Some(Activation::Relu) => dead_unit_stats(output, channels_first)?,
                _ => None,
            },
            saturated: activation.map(|activation| activation.saturated(output)).transpose()?.flatten(),
            gradients,
            tensor_index,
            hook: output.needs_grad().then(|| output.register_hook(record)).transpose()?,
        })
    }
}

/// Returns statistics of a mask that is 1 for each unit, along the feature axis, that is 0 for all
/// examples. Images, and sequences after a convolution, have the features at axis 1, all other
/// outputs at the last axis.
fn dead_unit_stats(output: &Tensor, channels_first: bool) -> Result<Option<DeviceStats>> {
    let rank = output.rank();
    if rank < 2 || output.elements() == 0 {
        return Ok(None);
    }
    let features = if rank > 3 || (rank == 3 && channels_first) { 1 } else { rank - 1 };
    let others: Vec<isize> = (0..rank).filter(|&axis| axis != features).map(|axis| axis as isize).collect();
    let units = || output.detach().max_abs(others.as_slice())?.eq_scalar(0.0)?.to_dtype(DType::F32);
    unobserved(|| no_grad(units))?.device_stats().map(Some)
}

fn is_channels_first(kind: &str) -> bool {
    ["Conv1d", "BatchNorm1d"].contains(&kind)
}

pub(super) fn is_same_tensor(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().is(other.buffer()) && one.layout() == other.layout() && one.id() == other.id()
}
