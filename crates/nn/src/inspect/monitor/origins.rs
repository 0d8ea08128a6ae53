//! The origins of NaN and infinity: the inputs of each op of a pass are recorded, so that a
//! non-finite output can be traced to the op that produced it.

use super::faults::{AFTER_STEP_ADVICE, describe_non_finite};
use super::report::LayerStats;
use crate::module::Param;
use std::collections::{HashMap, HashSet};
use ternion_core::anomaly::current_function;
use ternion_core::backend::WeakBuffer;
use ternion_core::{Op, OpCall, Result, Tensor, no_grad, unobserved};

/// The index of a recorded tensor.
pub(super) type TensorIndex = usize;

/// The index of a layer call.
pub(super) type LayerCallIndex = usize;

/// The location of an op in the model.
#[derive(Clone, Default)]
pub(super) struct Location {
    /// The innermost layer that is computing: the index of its call, and its name in messages.
    pub layer: Option<(LayerCallIndex, String)>,
    /// The key of this layer; empty if there is none.
    pub layer_key: String,
    /// The key of the layer that ended last.
    pub after: String,
}

/// A tensor that an op returned, or that was passed to one.
struct RecordedTensor {
    /// The op that returned it; for a tensor that no recorded op returned, the first op that it was
    /// passed to.
    op: &'static str,
    location: Location,
    /// The largest absolute value, on the device; NaN or infinite if an element is.
    max_abs: Option<Tensor>,
    inputs: Vec<TensorIndex>,
    is_input: bool,
    /// The name of the parameter, if it is one.
    parameter: Option<String>,
    /// Whether the program wrote infinity, as for masks, or NaN.
    is_written_by_program: bool,
}

impl RecordedTensor {
    /// Whether it is infinite on purpose.
    fn is_intentional(&self) -> bool {
        self.is_written_by_program || (self.is_input && self.parameter.is_none())
    }
}

/// The recorded tensors of a pass.
#[derive(Default)]
pub(super) struct Origins {
    tensors: Vec<RecordedTensor>,
    /// Tensors by the addresses of their buffers, which are not reused while a handle exists.
    latest: HashMap<usize, TensorIndex>,
    buffers: Vec<WeakBuffer>,
    /// The names of parameters, by the addresses of their buffers.
    parameters: HashMap<usize, String>,
    /// Calls of layers within which no other layer computed.
    leaves: HashSet<LayerCallIndex>,
}

/// The origin of NaN or infinity.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    op: &'static str,
    /// The name of the location in messages: `log after a`, or the layer that contains the op.
    name: String,
    /// The key of the layer to look at.
    pub layer: String,
    is_inside: bool,
    kind: OriginKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum OriginKind {
    /// NaN from finite numbers.
    Nan,
    /// NaN from numbers that are infinite on purpose.
    NanOfInfinite,
    /// Infinity from finite numbers.
    Infinite,
    /// It was passed to the model.
    FromInput,
    /// The program writes it.
    FromProgram,
    /// A parameter contains it.
    InParameter,
}

impl Origins {
    /// Creates the origins for a model with these parameters.
    pub(super) fn new(parameters: &[Param]) -> Origins {
        let named = |param: &Param| {
            (param.tensor().buffer().address(), param.name().unwrap_or("a parameter").to_owned())
        };
        Origins { parameters: parameters.iter().map(named).collect(), ..Origins::default() }
    }

    pub(super) fn op(&mut self, call: &OpCall<'_>, location: &Location) -> Result<()> {
        let op_name = call.op.name();
        let op = current_function().unwrap_or(op_name.strip_suffix("_scalar").unwrap_or(op_name));
        let mut inputs = Vec::with_capacity(call.inputs.len());
        for input in call.inputs.iter().filter(|input| input.dtype().is_float()) {
            let known = self.latest.get(&input.buffer().address()).copied();
            inputs.push(match known {
                Some(known) => known,
                None => self.record(input, op, location, Vec::new(), true)?,
            });
        }
        for output in call.outputs.iter().filter(|output| output.dtype().is_float()) {
            let at = self.record(output, op, location, inputs.clone(), false)?;
            self.tensors[at].is_written_by_program = is_written_by_program(call.op);
        }
        Ok(())
    }

    fn record(
        &mut self,
        tensor: &Tensor,
        op: &'static str,
        location: &Location,
        inputs: Vec<TensorIndex>,
        is_input: bool,
    ) -> Result<TensorIndex> {
        let compute = || tensor.detach().max_abs(..);
        let max_abs = (tensor.elements() > 0).then(|| unobserved(|| no_grad(compute))).transpose()?;
        let parameter = is_input.then(|| self.parameters.get(&tensor.buffer().address()).cloned()).flatten();
        let location = location.clone();
        self.tensors.push(RecordedTensor {
            op,
            location,
            max_abs,
            inputs,
            is_input,
            parameter,
            is_written_by_program: false,
        });
        let at = self.tensors.len() - 1;
        if self.latest.insert(tensor.buffer().address(), at).is_none() {
            self.buffers.push(tensor.buffer().downgrade());
        }
        Ok(at)
    }

    /// Records that no other layer computed within a layer.
    pub(super) fn record_leaf(&mut self, layer: LayerCallIndex) {
        self.leaves.insert(layer);
    }

    /// Returns the index of the last recorded tensor in the buffer of this tensor.
    pub(super) fn index_of(&self, tensor: &Tensor) -> Option<TensorIndex> {
        self.latest.get(&tensor.buffer().address()).copied()
    }

    /// Traces the non-finite values of a tensor to their origin.
    pub(super) fn trace(&self, from: TensorIndex) -> Result<Option<Origin>> {
        let is_nan = |max_abs: f64| max_abs.is_nan();
        let size = self.max_abs_of(from)?;
        let (at, kind) = if size.is_nan() {
            let at = self.first_in_chain(from, is_nan)?;
            match self.find_input(at, f64::is_infinite)? {
                Some(infinite) => match self.first_in_chain(infinite, f64::is_infinite)? {
                    source if self.tensors[source].is_intentional() => (at, OriginKind::NanOfInfinite),
                    source => (source, OriginKind::Infinite),
                },
                None => (at, OriginKind::Nan),
            }
        } else if size.is_infinite() {
            (self.first_in_chain(from, f64::is_infinite)?, OriginKind::Infinite)
        } else {
            return Ok(None);
        };
        let recorded = &self.tensors[at];
        // Infinity that the program writes is not a fault; the op that turns it into NaN is.
        let is_expected = kind == OriginKind::Infinite && recorded.is_intentional();
        Ok((!is_expected).then(|| self.origin(recorded, kind)))
    }

    fn origin(&self, recorded: &RecordedTensor, kind: OriginKind) -> Origin {
        let Location { layer, layer_key, after } = &recorded.location;
        let inside = layer.as_ref().filter(|(call, _)| self.leaves.contains(call));
        let name = match inside {
            Some((_, name)) => name.clone(),
            None if after.is_empty() => recorded.op.to_owned(),
            None => format!("{} after {after}", recorded.op),
        };
        let layer = if inside.is_some() { layer_key.clone() } else { after.clone() };
        let (op, is_inside) = (recorded.op, inside.is_some());
        match &recorded.parameter {
            Some(name) => {
                let layer = name.rsplit_once('.').map_or("", |(layer, _)| layer).to_owned();
                Origin { op, name: name.clone(), layer, is_inside, kind: OriginKind::InParameter }
            }
            None if recorded.is_input => Origin { op, name, layer, is_inside, kind: OriginKind::FromInput },
            None if recorded.is_written_by_program => {
                Origin { op, name, layer, is_inside, kind: OriginKind::FromProgram }
            }
            None => Origin { op, name, layer, is_inside, kind },
        }
    }

    fn max_abs_of(&self, at: TensorIndex) -> Result<f64> {
        self.tensors[at].max_abs.as_ref().map_or(Ok(0.0), |max_abs| unobserved(|| max_abs.item_f64()))
    }

    /// Returns an input that satisfies the condition.
    fn find_input(&self, of: TensorIndex, condition: impl Fn(f64) -> bool) -> Result<Option<TensorIndex>> {
        for &input in &self.tensors[of].inputs {
            if condition(self.max_abs_of(input)?) {
                return Ok(Some(input));
            }
        }
        Ok(None)
    }

    /// Follows inputs that satisfy the condition back to the first tensor of the chain.
    fn first_in_chain(&self, from: TensorIndex, condition: impl Fn(f64) -> bool) -> Result<TensorIndex> {
        let mut at = from;
        while let Some(before) = self.find_input(at, &condition)? {
            at = before;
        }
        Ok(at)
    }
}

/// Whether the program wrote an infinite number, as for a mask, or NaN.
fn is_written_by_program(op: &Op) -> bool {
    let number = match op {
        Op::Fill(fill) => fill.value,
        Op::Pad(pad) => pad.value,
        Op::BinaryScalar(binary) => binary.scalar,
        _ => return false,
    };
    !number.as_f64().is_finite()
}

const MASK_ADVICE: &str = "look for a mask that hides a whole row";
const RANGE_ADVICE: &str = "look for a division by 0, a root or a logarithm outside of its range, or numbers too large for the dtype";

impl Origin {
    /// Whether `broken_layer`, the first layer whose output is not finite, is also the origin.
    fn is_at(&self, broken_layer: &LayerStats) -> bool {
        match self.kind {
            OriginKind::InParameter => self.layer == broken_layer.key,
            OriginKind::FromInput | OriginKind::FromProgram => false,
            _ => self.name == broken_layer.name(),
        }
    }

    /// Returns what to look for if the layer with the non-finite output is also the origin.
    pub(super) fn advice(&self) -> String {
        match self.kind {
            OriginKind::NanOfInfinite => {
                format!("all before it is finite but numbers that are infinite on purpose: {MASK_ADVICE}")
            }
            _ if self.is_inside => {
                format!("all before it is finite: its {} made them: {RANGE_ADVICE}", self.op)
            }
            _ => format!("all before it is finite: {RANGE_ADVICE}"),
        }
    }

    /// Returns the message if the origin is not `broken_layer`, the first layer whose output is not
    /// finite.
    pub(super) fn message_elsewhere(&self, broken_layer: &LayerStats) -> Option<String> {
        if self.is_at(broken_layer) {
            return None;
        }
        let op = if self.is_inside { format!("its {}", self.op) } else { "it".to_owned() };
        let observed =
            format!("({}: {})", broken_layer.name(), describe_non_finite(&broken_layer.output, "outputs"));
        let first = "in the order of computation, of";
        let message = match self.kind {
            OriginKind::Nan => {
                format!("{op} made the first NaN {first} finite numbers {observed}; {RANGE_ADVICE}")
            }
            OriginKind::NanOfInfinite => {
                format!(
                    "{op} made the first NaN {first} numbers that are infinite on purpose {observed}; {MASK_ADVICE}"
                )
            }
            OriginKind::Infinite => {
                format!("{op} made the first infinite number {first} finite ones {observed}; {RANGE_ADVICE}")
            }
            OriginKind::FromInput => {
                format!("{} was given numbers that are NaN {observed}; clean the data", self.op)
            }
            OriginKind::FromProgram => format!("{op} writes NaN, as the program asks {observed}"),
            OriginKind::InParameter => {
                format!("it holds such numbers already {observed}; {AFTER_STEP_ADVICE}")
            }
        };
        Some(format!("{}: {message}", self.name))
    }
}
