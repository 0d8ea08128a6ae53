//! What a forward pass shows as it runs: the outputs of layers and of ReLUs, and hooks for the gradients that will come to them.

use super::report::{Place, Readings};
use crate::module::{LayerCall, LayerEvent};
use std::sync::{Arc, Mutex, PoisonError};
use ternion_core::autograd::HookHandle;
use ternion_core::{DType, DeviceStats, Op, OpCall, Result, Tensor, UnaryOp, no_grad, unobserved};

/// What is formed of gradients in the backward pass.
type Arrived = Arc<Mutex<Vec<DeviceStats>>>;

/// An output, and the gradient that comes to it.
struct Measured {
    output: DeviceStats,
    /// 1 for each unit of a ReLU that gave 0 for each example, else 0.
    silent: Option<DeviceStats>,
    gradients: Arrived,
    /// Taken away when all is read: a layer may have given a tensor that outlives the pass.
    hook: Option<HookHandle>,
}

/// A ReLU that is called by itself, until it shows whether it is the end of a layer.
struct Pending {
    place: Place,
    output: Tensor,
}

/// A tensor that was measured.
struct Latest {
    output: Tensor,
    version: u64,
    at: usize,
}

/// What has been seen of a pass.
#[derive(Default)]
pub(super) struct Seen {
    places: Vec<(Place, usize)>,
    measured: Vec<Measured>,
    /// The layers that compute: whether another has computed inside.
    open: Vec<bool>,
    /// The layer that ended last, by key and kind.
    last: Option<LayerCall>,
    pending: Option<Pending>,
    latest: Option<Latest>,
    has_input: bool,
}

impl Seen {
    pub(super) fn layer(&mut self, event: LayerEvent<'_>) -> Result<()> {
        match event {
            LayerEvent::Entered(_) => {
                self.settle()?;
                self.open.last_mut().into_iter().for_each(|has_inner| *has_inner = true);
                self.open.push(false);
            }
            LayerEvent::Left(call, output) => {
                let is_leaf = !self.open.pop().unwrap_or(false);
                self.ended(call, output, is_leaf)?;
            }
            LayerEvent::Output(call, output) => self.ended(call, output, true)?,
        }
        Ok(())
    }

    pub(super) fn op(&mut self, call: &OpCall<'_>) -> Result<()> {
        if let Some(input) = call.inputs.first().filter(|_| !self.has_input) {
            self.has_input = true;
            // What the model computes with first, unless that is a weight: its input.
            let is_table = matches!(call.op, Op::IndexSelect(_) | Op::Gather(_));
            if !input.needs_grad() && !is_table {
                self.measure(Place { kind: "input", ..Place::default() }, input)?;
            }
        }
        if is_relu(call.op) {
            self.settle()?;
            let key = self.last.as_ref().map(|last| last.key.clone()).unwrap_or_default();
            let place = Place { key, kind: "relu", is_op: true, is_leaf: true, is_relu: true };
            self.pending = Some(Pending { place, output: call.outputs[0].clone() });
        }
        Ok(())
    }

    /// Measures a ReLU that turned out to be no layer's output.
    fn settle(&mut self) -> Result<()> {
        match self.pending.take() {
            Some(Pending { place, output }) => self.measure(place, &output),
            None => Ok(()),
        }
    }

    fn ended(&mut self, call: &LayerCall, output: &Tensor, is_leaf: bool) -> Result<()> {
        let is_relu = self.pending.as_ref().is_some_and(|pending| is_same(&pending.output, output));
        match is_relu {
            true => self.pending = None,
            false => self.settle()?,
        }
        let place = Place { key: call.key.clone(), kind: call.kind, is_op: false, is_leaf, is_relu };
        self.measure(place, output)?;
        self.last = Some(call.clone());
        Ok(())
    }

    fn measure(&mut self, place: Place, output: &Tensor) -> Result<()> {
        if !output.dtype().is_float() {
            return Ok(());
        }
        let known =
            |latest: &&Latest| is_same(&latest.output, output) && latest.version == output.buffer().version();
        // A container's output is that of its last layer.
        let at = match self.latest.as_ref().filter(known) {
            Some(latest) if !place.is_relu || self.measured[latest.at].silent.is_some() => latest.at,
            _ => {
                let channels_first = self.last.as_ref().is_some_and(|last| is_of_sequences(last.kind));
                self.measured.push(Measured::of(output, place.is_relu, channels_first)?);
                self.measured.len() - 1
            }
        };
        self.latest = Some(Latest { output: output.clone(), version: output.buffer().version(), at });
        self.places.push((place, at));
        Ok(())
    }

    /// All that was seen, to be read with what else there is.
    pub(super) fn readings(&mut self) -> Result<Readings> {
        self.settle()?;
        self.latest = None;
        let mut readings = Readings::default();
        for (place, at) in std::mem::take(&mut self.places) {
            let Measured { output, silent, gradients, .. } = &self.measured[at];
            let gradients = gradients.lock().unwrap_or_else(PoisonError::into_inner);
            readings.output(place, output, silent.as_ref(), &gradients);
        }
        Ok(readings)
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.hook.take().into_iter().for_each(HookHandle::remove);
    }
}

impl Measured {
    fn of(output: &Tensor, is_relu: bool, channels_first: bool) -> Result<Measured> {
        let gradients: Arrived = Arc::default();
        let arrived = gradients.clone();
        let note = move |grad: &Tensor| {
            let stats = grad.device_stats()?;
            arrived.lock().unwrap_or_else(PoisonError::into_inner).push(stats);
            Ok(None)
        };
        Ok(Measured {
            output: output.device_stats()?,
            silent: if is_relu { silent(output, channels_first)? } else { None },
            gradients,
            hook: output.needs_grad().then(|| output.register_hook(note)).transpose()?,
        })
    }
}

/// Which units, along the axis of features, are 0 for all examples. Images and sequences of a convolution have their channels at axis 1, all else at the last.
fn silent(output: &Tensor, channels_first: bool) -> Result<Option<DeviceStats>> {
    let rank = output.rank();
    if rank < 2 || output.elements() == 0 {
        return Ok(None);
    }
    let features = if rank > 3 || (rank == 3 && channels_first) { 1 } else { rank - 1 };
    let others: Vec<isize> = (0..rank).filter(|&axis| axis != features).map(|axis| axis as isize).collect();
    let units = || output.detach().max_abs(others.as_slice())?.eq_scalar(0.0)?.to_dtype(DType::F32);
    unobserved(|| no_grad(units))?.device_stats().map(Some)
}

fn is_of_sequences(kind: &str) -> bool {
    ["Conv1d", "BatchNorm1d"].contains(&kind)
}

fn is_same(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().is(other.buffer()) && one.layout() == other.layout() && one.id() == other.id()
}

fn is_relu(op: &Op) -> bool {
    match op {
        Op::Unary(unary) => unary.op == UnaryOp::Relu,
        Op::AddRelu(_) => true,
        Op::BiasActivation(fused) => fused.activation == UnaryOp::Relu,
        Op::Matmul(product) => product.epilogue.activation == Some(UnaryOp::Relu),
        _ => false,
    }
}
