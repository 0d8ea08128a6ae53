//! A model in a table: layers in the order of computation, shapes, parameters, arithmetic and memory.

mod table;

use crate::inspect::flops::op_flops;
use crate::module::{
    Forward, LayerCall, LayerEvent, Member, Mode, Module, StateTensor, distinct_cells, observe_layer_events,
    walk_members,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::shape::IntoShape;
use ternion_core::{Device, Error, OpCall, Result, Shape, Tensor, no_grad, observe_ops};

/// Which passes a [`Summary`] measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SummaryPass {
    /// A forward as in use: nothing is recorded, dropout is off, batch norms take their running statistics.
    #[default]
    Forward,
    /// A forward and a backward as in training, from the sum of the output.
    ForwardBackward,
}

/// A layer of a [`Summary`].
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSummary {
    /// Its key; empty for the model itself.
    pub key: String,
    /// The name of its type.
    pub kind: &'static str,
    /// How often it computed; 0 for one whose parameters another layer reads.
    pub calls: usize,
    /// The shape of its last output.
    pub output: Option<Shape>,
    /// Elements of its own parameters, without those of layers inside; one that is shared counts where it comes first.
    pub parameters: usize,
    /// Floating-point operations of the ops that it calls in a forward, without those of layers inside.
    pub flops: u64,
    /// Bytes of the outputs of those ops.
    pub activation_bytes: usize,
}

/// What a model is made of and what it takes, made by [`summary`]. Prints as a table.
///
/// Arithmetic is counted by [`op_flops`] as the model calls ops, on tensors of this size.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// In the order in which they begin to compute, then those that only lend parameters.
    pub layers: Vec<LayerSummary>,
    /// What the model computes outside of all layers that tell of themselves.
    pub outside: LayerSummary,
    /// Elements of all parameters, shared ones counted once.
    pub parameters: usize,
    /// Of these, the elements that are trained.
    pub trained_parameters: usize,
    /// Bytes of all parameters.
    pub parameter_bytes: usize,
    /// Bytes of state that is not trained, such as running statistics.
    pub state_bytes: usize,
    /// Floating-point operations of the forward.
    pub flops: u64,
    /// Those of the backward, if it was measured.
    pub backward_flops: Option<u64>,
    /// Bytes of the outputs of all ops of the forward.
    pub activation_bytes: usize,
    /// The most memory that the passes held at once, over what the device held before (which includes the parameters), in bytes; of devices that tell it.
    pub peak_bytes: usize,
}

/// Runs a forward of `model` on `input` and tells what it took. The model stays as it was: its mode, its running statistics, gradients, and the position of the device's
/// random numbers.
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
/// Those of the forward.
pub fn summary<M: Forward + ?Sized>(model: &M, input: &Tensor) -> Result<Summary> {
    summary_with(model, input.device(), SummaryPass::Forward, || model.forward(&input.detach()))
}

/// As [`summary`], on zeros of this shape, of the dtype and on the device of the model's first parameter.
///
/// # Errors
/// A model without parameters; those of the forward.
pub fn summary_of_shape<M: Forward + ?Sized>(
    model: &M,
    shape: impl IntoShape,
    pass: SummaryPass,
) -> Result<Summary> {
    let Some(first) = model.parameters().into_iter().next() else {
        let detail = "the model has no parameter that tells its device: give an input";
        return Err(Error::invalid("summary", detail));
    };
    let input = Tensor::zeros(shape, first.dtype(), &first.device())?;
    summary_with(model, input.device(), pass, || model.forward(&input))
}

/// As [`summary`], for models of several inputs, and for a backward: `forward` calls the model, which computes on `device`.
///
/// # Errors
/// Those of the passes; a backward of an output that is not floating or of which nothing is recorded.
pub fn summary_with<M: Module + ?Sized>(
    model: &M,
    device: &Device,
    pass: SummaryPass,
    forward: impl FnOnce() -> Result<Tensor>,
) -> Result<Summary> {
    let _as_it_was = AsItWas::of(model, device, pass)?;
    let (log, back): (Rc<RefCell<Log>>, Rc<RefCell<u64>>) = Default::default();
    let before = device.memory().in_use;
    let (passed, peak) = device.peak_memory_of(|| match pass {
        SummaryPass::Forward => no_grad(|| followed(model, &log, forward)).map(drop),
        SummaryPass::ForwardBackward => {
            let output = followed(model, &log, forward)?;
            let back = back.clone();
            let count = move |call: &OpCall<'_>| {
                *back.borrow_mut() += op_flops(call);
                Ok(())
            };
            observe_ops(count, || output.sum_all()?.backward()).map(drop)
        }
    });
    passed?;
    let backward_flops = (pass == SummaryPass::ForwardBackward).then(|| *back.borrow());
    let peak_bytes = peak.saturating_sub(before);
    Ok(log.take().summary(model, backward_flops, peak_bytes))
}

fn followed<M: Module + ?Sized>(
    model: &M,
    log: &Rc<RefCell<Log>>,
    forward: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    let (of_layers, of_ops) = (log.clone(), log.clone());
    let layer = move |event: LayerEvent<'_>| {
        of_layers.borrow_mut().layer(event);
        Ok(())
    };
    let op = move |call: &OpCall<'_>| {
        of_ops.borrow_mut().op(call);
        Ok(())
    };
    observe_layer_events(model, layer, || observe_ops(op, forward))
}

/// Puts a model and a device back where they were, whatever happens.
struct AsItWas<'d> {
    modes: Vec<(Mode, bool)>,
    states: Vec<(StateTensor, Tensor)>,
    device: &'d Device,
    random: (u64, u64),
}

impl AsItWas<'_> {
    /// Notes all, puts copies in the place of running statistics, and the model in the mode of the pass.
    fn of<'d, M: Module + ?Sized>(model: &M, device: &'d Device, pass: SummaryPass) -> Result<AsItWas<'d>> {
        let (mut modes, mut states) = (Vec::new(), Vec::new());
        walk_members(model, &mut |_, member| match member {
            Member::Mode(mode) => modes.push((mode.clone(), mode.is_training())),
            Member::State(state) => states.push((state.clone(), state.tensor())),
            _ => {}
        });
        let copies =
            states.iter().map(|(_, tensor)| no_grad(|| tensor.copy())).collect::<Result<Vec<_>>>()?;
        let kept = AsItWas { modes, states, device, random: device.random_position() };
        kept.states.iter().zip(copies).for_each(|((state, _), copy)| state.replace(copy));
        kept.modes.iter().for_each(|(mode, _)| mode.set_training(pass == SummaryPass::ForwardBackward));
        Ok(kept)
    }
}

impl Drop for AsItWas<'_> {
    fn drop(&mut self) {
        self.modes.iter().for_each(|(mode, training)| mode.set_training(*training));
        self.states.iter().for_each(|(state, tensor)| state.replace(tensor.clone()));
        self.device.set_random_position(self.random);
    }
}

/// What happened in a forward.
struct Log {
    layers: Vec<LayerSummary>,
    at: HashMap<(String, &'static str), usize>,
    /// The layers that compute, outermost first.
    open: Vec<usize>,
    outside: LayerSummary,
}

impl Default for Log {
    fn default() -> Log {
        let (layers, at, open) = Default::default();
        Log { layers, at, open, outside: LayerSummary::of(String::new(), "") }
    }
}

impl LayerSummary {
    fn of(key: String, kind: &'static str) -> LayerSummary {
        LayerSummary { key, kind, calls: 0, output: None, parameters: 0, flops: 0, activation_bytes: 0 }
    }
}

impl Log {
    fn layer(&mut self, event: LayerEvent<'_>) {
        match event {
            LayerEvent::Entered(call) => {
                let at = self.called(call);
                self.open.push(at);
            }
            LayerEvent::Left(_, output) => {
                if let Some(at) = self.open.pop() {
                    self.layers[at].output = Some(*output.shape());
                }
            }
            LayerEvent::Output(call, output) => {
                let at = self.called(call);
                self.layers[at].output = Some(*output.shape());
            }
        }
    }

    fn called(&mut self, call: &LayerCall) -> usize {
        let at = self.entry(&call.key, call.kind);
        self.layers[at].calls += 1;
        at
    }

    fn entry(&mut self, key: &str, kind: &'static str) -> usize {
        *self.at.entry((key.to_owned(), kind)).or_insert_with(|| {
            self.layers.push(LayerSummary::of(key.to_owned(), kind));
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
        self.give_parameters(model);
        let tensors: Vec<Tensor> = model.parameters().iter().map(|param| param.tensor()).collect();
        let trained = tensors.iter().filter(|tensor| tensor.needs_grad());
        let (_, states) = distinct_cells(model);
        let all = || self.layers.iter().chain([&self.outside]);
        Summary {
            parameters: tensors.iter().map(Tensor::elements).sum(),
            trained_parameters: trained.map(Tensor::elements).sum(),
            parameter_bytes: tensors.iter().map(bytes_of).sum(),
            state_bytes: states.iter().map(|state| bytes_of(&state.tensor())).sum(),
            flops: all().map(|layer| layer.flops).sum(),
            backward_flops,
            activation_bytes: all().map(|layer| layer.activation_bytes).sum(),
            peak_bytes,
            layers: self.layers,
            outside: self.outside,
        }
    }

    /// Each parameter to the innermost layer around it.
    fn give_parameters<M: Module + ?Sized>(&mut self, model: &M) {
        let mut kinds: Vec<(String, &'static str)> = Vec::new();
        walk_members(model, &mut |key, member| {
            if let Member::Layer { kind, .. } = member {
                kinds.push((key.to_owned(), kind));
            }
        });
        for param in model.parameters() {
            let name = param.name().unwrap_or_default();
            let holds = |key: &str| {
                key.is_empty() || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
            };
            // Of layers with the same key, the last is the innermost; one that has computed under that key is as good.
            let around = kinds.iter().filter(|(key, _)| holds(key)).max_by_key(|(key, _)| key.len());
            let (key, kind) = around.cloned().unwrap_or((String::new(), ""));
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
