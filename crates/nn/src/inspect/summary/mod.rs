//! A model as a table: layers in the order of computation, with shapes, parameters, arithmetic and
//! memory.

mod table;

use crate::inspect::flops::op_flops;
use crate::module::{
    Forward, LayerCall, LayerEvent, Member, Mode, Module, StateTensor, distinct_tensors,
    observe_layer_events, visit_members,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::shape::IntoShape;
use ternion_core::{Device, Error, OpCall, Result, Shape, Tensor, no_grad, observe_ops};

/// Which passes a [`Summary`] measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SummaryPass {
    /// A forward pass in evaluation mode: nothing is recorded, dropout is off, and batch norms use
    /// their running statistics.
    #[default]
    Forward,
    /// A forward pass in training mode, and a backward pass from the sum of the output.
    ForwardBackward,
}

/// A layer of a [`Summary`].
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSummary {
    /// The key of the layer; empty for the model itself.
    pub key: String,
    /// The name of its type.
    pub kind: &'static str,
    /// The number of calls; 0 for a layer whose parameters another layer reads.
    pub calls: usize,
    /// The shape of its last output.
    pub output: Option<Shape>,
    /// Number of elements of its parameters, without those of nested layers. A shared parameter is
    /// counted where it occurs first.
    pub parameters: usize,
    /// Floating-point operations of the ops that it calls in a forward pass, without those of
    /// nested layers.
    pub flops: u64,
    /// Bytes of the outputs of these ops, except those that share the buffer of an input.
    pub activation_bytes: usize,
}

/// The layers of a model and their cost, computed by [`summary`]. Prints as a table.
///
/// Arithmetic is counted by [`op_flops`] for the ops that the model calls with tensors of this
/// size.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The layers in the order in which they begin to compute, followed by layers that are not
    /// called, but whose parameters another layer reads.
    pub layers: Vec<LayerSummary>,
    /// What the model computes outside of all these layers.
    pub outside: LayerSummary,
    /// Number of elements of all parameters; shared ones are counted once.
    pub parameters: usize,
    /// Number of these elements that are trained.
    pub trained_parameters: usize,
    /// Bytes of all parameters.
    pub parameter_bytes: usize,
    /// Bytes of state that is not trained, such as running statistics.
    pub state_bytes: usize,
    /// Floating-point operations of the forward pass.
    pub flops: u64,
    /// Floating-point operations of the backward pass, if it was measured.
    pub backward_flops: Option<u64>,
    /// Bytes of the outputs of all ops of the forward pass, except those that share the buffer of
    /// an input.
    pub activation_bytes: usize,
    /// Peak memory of the passes in bytes, less the memory that was in use before them (which
    /// includes the parameters), on devices that report it.
    pub peak_bytes: usize,
}

/// Runs a forward pass of `model` on `input` and returns its cost. The model is left unchanged: its
/// mode, running statistics, gradients, and the state of the device's random number generator.
///
/// ```
/// use ternion_core::{DType, Result, Tensor};
/// use ternion_nn::{Mlp, summary};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let model = Mlp::new([784, 128, 10], &device)?;
/// let summary = summary(&model, &Tensor::zeros([32, 784], DType::F32, &device)?)?;
/// assert_eq!(summary.parameters, 784 * 128 + 128 + 128 * 10 + 10);
/// println!("{summary}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of the forward pass.
pub fn summary<M: Forward + ?Sized>(model: &M, input: &Tensor) -> Result<Summary> {
    summary_with(model, input.device(), SummaryPass::Forward, || model.forward(&input.detach()))
}

/// Like [`summary`], for an input of zeros of this shape, with the dtype and device of the model's
/// first parameter.
///
/// # Errors
/// Returns an error if the model has no parameters, and the errors of the forward pass.
pub fn summary_of_shape<M: Forward + ?Sized>(
    model: &M,
    shape: impl IntoShape,
    pass: SummaryPass,
) -> Result<Summary> {
    let Some(first) = model.parameters().into_iter().next() else {
        let detail = "the model has no parameter from which to read its device: give an input";
        return Err(Error::invalid("summary", detail));
    };
    let input = Tensor::zeros(shape, first.dtype(), &first.device())?;
    summary_with(model, input.device(), pass, || model.forward(&input))
}

/// Like [`summary`], for models with several inputs, and for a backward pass. `forward` calls the
/// model, which computes on `device`.
///
/// # Errors
/// The errors of the passes. Returns an error for a backward pass if the output is not floating or
/// nothing was recorded.
pub fn summary_with<M: Module + ?Sized>(
    model: &M,
    device: &Device,
    pass: SummaryPass,
    forward: impl FnOnce() -> Result<Tensor>,
) -> Result<Summary> {
    let _guard = StateGuard::save(model, device, pass)?;
    let (log, backward_count): (Rc<RefCell<Log>>, Rc<RefCell<u64>>) = Default::default();
    let before = device.memory().in_use;
    let (result, peak) = device.peak_memory_of(|| match pass {
        SummaryPass::Forward => no_grad(|| observe_forward(model, &log, forward)).map(drop),
        SummaryPass::ForwardBackward => {
            let output = observe_forward(model, &log, forward)?;
            let backward_count = backward_count.clone();
            let count = move |call: &OpCall<'_>| {
                *backward_count.borrow_mut() += op_flops(call);
                Ok(())
            };
            observe_ops(count, || output.sum_all()?.backward()).map(drop)
        }
    });
    result?;
    let backward_flops = (pass == SummaryPass::ForwardBackward).then(|| *backward_count.borrow());
    let peak_bytes = peak.saturating_sub(before);
    Ok(log.take().summary(model, backward_flops, peak_bytes))
}

fn observe_forward<M: Module + ?Sized>(
    model: &M,
    log: &Rc<RefCell<Log>>,
    forward: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    let (layer_log, op_log) = (log.clone(), log.clone());
    let layer = move |event: LayerEvent<'_>| {
        layer_log.borrow_mut().layer(event);
        Ok(())
    };
    let op = move |call: &OpCall<'_>| {
        op_log.borrow_mut().op(call);
        Ok(())
    };
    observe_layer_events(model, layer, || observe_ops(op, forward))
}

/// Restores the state of a model and a device when dropped.
struct StateGuard<'d> {
    modes: Vec<(Mode, bool)>,
    states: Vec<(StateTensor, Tensor)>,
    device: &'d Device,
    random: (u64, u64),
}

impl StateGuard<'_> {
    /// Saves all state, replaces running statistics by copies, and sets the mode for the pass.
    fn save<'d, M: Module + ?Sized>(
        model: &M,
        device: &'d Device,
        pass: SummaryPass,
    ) -> Result<StateGuard<'d>> {
        let (mut modes, mut states) = (Vec::new(), Vec::new());
        visit_members(model, &mut |_, member| match member {
            Member::Mode(mode) => modes.push((mode.clone(), mode.is_training())),
            Member::State(state) => states.push((state.clone(), state.tensor())),
            _ => {}
        });
        let copies =
            states.iter().map(|(_, tensor)| no_grad(|| tensor.copy())).collect::<Result<Vec<_>>>()?;
        let guard = StateGuard { modes, states, device, random: device.random_position() };
        guard.states.iter().zip(copies).for_each(|((state, _), copy)| state.replace(copy));
        guard.modes.iter().for_each(|(mode, _)| mode.set_training(pass == SummaryPass::ForwardBackward));
        Ok(guard)
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        self.modes.iter().for_each(|(mode, training)| mode.set_training(*training));
        self.states.iter().for_each(|(state, tensor)| state.replace(tensor.clone()));
        self.device.set_random_position(self.random);
    }
}

/// The events of a forward pass.
struct Log {
    layers: Vec<LayerSummary>,
    at: HashMap<(String, &'static str), usize>,
    /// The layers that are computing, outermost first.
    open: Vec<usize>,
    outside: LayerSummary,
}

impl Default for Log {
    fn default() -> Log {
        let (layers, at, open) = Default::default();
        Log { layers, at, open, outside: LayerSummary::new(String::new(), "") }
    }
}

impl LayerSummary {
    fn new(key: String, kind: &'static str) -> LayerSummary {
        LayerSummary { key, kind, calls: 0, output: None, parameters: 0, flops: 0, activation_bytes: 0 }
    }
}

impl Log {
    fn layer(&mut self, event: LayerEvent<'_>) {
        match event {
            LayerEvent::Entered(call) => {
                let at = self.record_call(call);
                self.open.push(at);
            }
            LayerEvent::Left(_, output) => {
                if let Some(at) = self.open.pop() {
                    self.layers[at].output = Some(*output.shape());
                }
            }
            LayerEvent::Output(call, output) => {
                let at = self.record_call(call);
                self.layers[at].output = Some(*output.shape());
            }
        }
    }

    fn record_call(&mut self, call: &LayerCall) -> usize {
        let at = self.entry(&call.key, call.kind);
        self.layers[at].calls += 1;
        at
    }

    fn entry(&mut self, key: &str, kind: &'static str) -> usize {
        *self.at.entry((key.to_owned(), kind)).or_insert_with(|| {
            self.layers.push(LayerSummary::new(key.to_owned(), kind));
            self.layers.len() - 1
        })
    }

    fn op(&mut self, call: &OpCall<'_>) {
        let is_new = |output: &&Tensor| call.inputs.iter().all(|input| !input.buffer().is(output.buffer()));
        let bytes: usize = call.outputs.iter().filter(is_new).map(bytes_of).sum();
        let inside = match self.open.last() {
            Some(&at) => &mut self.layers[at],
            None => &mut self.outside,
        };
        inside.flops += op_flops(call);
        inside.activation_bytes += bytes;
    }

    fn summary<M: Module + ?Sized>(
        mut self,
        model: &M,
        backward_flops: Option<u64>,
        peak_bytes: usize,
    ) -> Summary {
        self.assign_parameters(model);
        let tensors: Vec<Tensor> = model.parameters().iter().map(|param| param.tensor()).collect();
        let trained = tensors.iter().filter(|tensor| tensor.needs_grad());
        let (_, states) = distinct_tensors(model);
        let all_layers = || self.layers.iter().chain([&self.outside]);
        Summary {
            parameters: tensors.iter().map(Tensor::elements).sum(),
            trained_parameters: trained.map(Tensor::elements).sum(),
            parameter_bytes: tensors.iter().map(bytes_of).sum(),
            state_bytes: states.iter().map(|state| bytes_of(&state.tensor())).sum(),
            flops: all_layers().map(|layer| layer.flops).sum(),
            backward_flops,
            activation_bytes: all_layers().map(|layer| layer.activation_bytes).sum(),
            peak_bytes,
            layers: self.layers,
            outside: self.outside,
        }
    }

    /// Assigns each parameter to the innermost layer that contains it.
    fn assign_parameters<M: Module + ?Sized>(&mut self, model: &M) {
        let mut kinds: Vec<(String, &'static str)> = Vec::new();
        visit_members(model, &mut |key, member| {
            if let Member::Layer { kind, .. } = member {
                kinds.push((key.to_owned(), kind));
            }
        });
        for param in model.parameters() {
            let name = param.name().unwrap_or_default();
            let contains = |key: &str| {
                key.is_empty() || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
            };
            // Of layers with the same key, the last is the innermost. A layer that has computed
            // under the same key is equivalent.
            let innermost = kinds.iter().filter(|(key, _)| contains(key)).max_by_key(|(key, _)| key.len());
            let (key, kind) = innermost.cloned().unwrap_or((String::new(), ""));
            let at = match self.layers.iter().position(|layer| layer.key == key) {
                Some(at) => at,
                None => self.entry(&key, kind),
            };
            self.layers[at].parameters += param.tensor().elements();
        }
    }
}

fn bytes_of(tensor: &Tensor) -> usize {
    tensor.elements() * tensor.dtype().size()
}
