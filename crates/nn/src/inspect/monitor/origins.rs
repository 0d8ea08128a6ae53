//! The origins of NaN and infinity: the inputs of each op of a pass are recorded, so that a
//! non-finite output can be traced to the op that produced it.

use super::faults::{AFTER_A_STEP, in_words};
use super::report::LayerStats;
use crate::module::Param;
use std::collections::{HashMap, HashSet};
use ternion_core::anomaly::current_function;
use ternion_core::backend::WeakBuffer;
use ternion_core::{Op, OpCall, Result, Tensor, no_grad, unobserved};

/// The index of a tensor among those that were recorded.
pub(super) type Noted = usize;

/// The index of a call of a layer.
pub(super) type LayerNumber = usize;

/// The location of an op in the model.
#[derive(Clone, Default)]
pub(super) struct Scene {
    /// The innermost layer that is computing: the index of its call, and its name in messages.
    pub layer: Option<(LayerNumber, String)>,
    /// The key of this layer; empty if there is none.
    pub within: String,
    /// The key of the layer that ended last.
    pub after: String,
}

/// A tensor that an op returned, or that was passed to one.
struct Made {
    /// The op that returned it; for a tensor that no recorded op returned, the first op that it was
    /// passed to.
    op: &'static str,
    scene: Scene,
    /// The largest absolute value, on the device; NaN or infinite if an element is.
    largest: Option<Tensor>,
    inputs: Vec<Noted>,
    is_given: bool,
    /// The name of the parameter, if it is one.
    parameter: Option<String>,
    /// Whether the program wrote infinity, as for masks, or NaN.
    is_meant: bool,
}

impl Made {
    /// Whether it is infinite on purpose.
    fn is_on_purpose(&self) -> bool {
        self.is_meant || (self.is_given && self.parameter.is_none())
    }
}

/// The recorded tensors of a pass.
#[derive(Default)]
pub(super) struct Origins {
    made: Vec<Made>,
    /// Tensors by the addresses of their buffers, which are not reused while a handle exists.
    latest: HashMap<usize, Noted>,
    held: Vec<WeakBuffer>,
    /// The names of parameters, by the addresses of their buffers.
    parameters: HashMap<usize, String>,
    /// Calls of layers within which no other layer computed.
    leaves: HashSet<LayerNumber>,
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
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// NaN from finite numbers.
    Nan,
    /// NaN from numbers that are infinite on purpose.
    NanOfInfinite,
    /// Infinity from finite numbers.
    Infinite,
    /// It was passed to the model.
    Given,
    /// The program writes it.
    Written,
    /// A parameter contains it.
    Held,
}

impl Origins {
    /// Creates the origins for a model with these parameters.
    pub(super) fn of(parameters: &[Param]) -> Origins {
        let named = |param: &Param| {
            (param.tensor().buffer().address(), param.name().unwrap_or("a parameter").to_owned())
        };
        Origins { parameters: parameters.iter().map(named).collect(), ..Origins::default() }
    }

    pub(super) fn op(&mut self, call: &OpCall<'_>, scene: &Scene) -> Result<()> {
        let own = call.op.name();
        let op = current_function().unwrap_or(own.strip_suffix("_scalar").unwrap_or(own));
        let mut inputs = Vec::with_capacity(call.inputs.len());
        for input in call.inputs.iter().filter(|input| input.dtype().is_float()) {
            let known = self.latest.get(&input.buffer().address()).copied();
            inputs.push(match known {
                Some(known) => known,
                None => self.note(input, op, scene, Vec::new(), true)?,
            });
        }
        for output in call.outputs.iter().filter(|output| output.dtype().is_float()) {
            let at = self.note(output, op, scene, inputs.clone(), false)?;
            self.made[at].is_meant = is_meant(call.op);
        }
        Ok(())
    }

    fn note(
        &mut self,
        tensor: &Tensor,
        op: &'static str,
        scene: &Scene,
        inputs: Vec<Noted>,
        is_given: bool,
    ) -> Result<Noted> {
        let largest = || tensor.detach().max_abs(..);
        let largest = (tensor.elements() > 0).then(|| unobserved(|| no_grad(largest))).transpose()?;
        let parameter = is_given.then(|| self.parameters.get(&tensor.buffer().address()).cloned()).flatten();
        let scene = scene.clone();
        self.made.push(Made { op, scene, largest, inputs, is_given, parameter, is_meant: false });
        let at = self.made.len() - 1;
        if self.latest.insert(tensor.buffer().address(), at).is_none() {
            self.held.push(tensor.buffer().downgrade());
        }
        Ok(at)
    }

    /// Records that no other layer computed within a layer.
    pub(super) fn leaf(&mut self, layer: LayerNumber) {
        self.leaves.insert(layer);
    }

    /// Returns the index of the last recorded tensor in the buffer of this tensor.
    pub(super) fn known(&self, tensor: &Tensor) -> Option<Noted> {
        self.latest.get(&tensor.buffer().address()).copied()
    }

    /// Traces the non-finite values of a tensor to their origin.
    pub(super) fn trace(&self, from: Noted) -> Result<Option<Origin>> {
        let is_nan = |largest: f64| largest.is_nan();
        let size = self.largest(from)?;
        let (at, kind) = if size.is_nan() {
            let at = self.first(from, is_nan)?;
            match self.input(at, f64::is_infinite)? {
                Some(infinite) => match self.first(infinite, f64::is_infinite)? {
                    root if self.made[root].is_on_purpose() => (at, Kind::NanOfInfinite),
                    root => (root, Kind::Infinite),
                },
                None => (at, Kind::Nan),
            }
        } else if size.is_infinite() {
            (self.first(from, f64::is_infinite)?, Kind::Infinite)
        } else {
            return Ok(None);
        };
        let made = &self.made[at];
        // Infinity that the program writes is not a fault; the op that turns it into NaN is.
        let is_wanted = kind == Kind::Infinite && made.is_on_purpose();
        Ok((!is_wanted).then(|| self.origin(made, kind)))
    }

    fn origin(&self, made: &Made, kind: Kind) -> Origin {
        let Scene { layer, within, after } = &made.scene;
        let inside = layer.as_ref().filter(|(number, _)| self.leaves.contains(number));
        let name = match inside {
            Some((_, name)) => name.clone(),
            None if after.is_empty() => made.op.to_owned(),
            None => format!("{} after {after}", made.op),
        };
        let layer = if inside.is_some() { within.clone() } else { after.clone() };
        let (op, is_inside) = (made.op, inside.is_some());
        match &made.parameter {
            Some(name) => {
                let layer = name.rsplit_once('.').map_or("", |(layer, _)| layer).to_owned();
                Origin { op, name: name.clone(), layer, is_inside, kind: Kind::Held }
            }
            None if made.is_given => Origin { op, name, layer, is_inside, kind: Kind::Given },
            None if made.is_meant => Origin { op, name, layer, is_inside, kind: Kind::Written },
            None => Origin { op, name, layer, is_inside, kind },
        }
    }

    fn largest(&self, at: Noted) -> Result<f64> {
        self.made[at].largest.as_ref().map_or(Ok(0.0), |largest| unobserved(|| largest.item_f64()))
    }

    /// Returns an input that satisfies the condition.
    fn input(&self, of: Noted, is: impl Fn(f64) -> bool) -> Result<Option<Noted>> {
        for &input in &self.made[of].inputs {
            if is(self.largest(input)?) {
                return Ok(Some(input));
            }
        }
        Ok(None)
    }

    /// Follows inputs that satisfy the condition, and returns the first tensor of this chain.
    fn first(&self, from: Noted, is: impl Fn(f64) -> bool) -> Result<Noted> {
        let mut at = from;
        while let Some(before) = self.input(at, &is)? {
            at = before;
        }
        Ok(at)
    }
}

/// Whether the program wrote an infinite number, as for a mask, or NaN.
fn is_meant(op: &Op) -> bool {
    let number = match op {
        Op::Fill(fill) => fill.value,
        Op::Pad(pad) => pad.value,
        Op::BinaryScalar(binary) => binary.scalar,
        _ => return false,
    };
    !number.as_f64().is_finite()
}

const MASK: &str = "look for a mask that hides a whole row";
const LOOK: &str = "look for a division by 0, a root or a logarithm outside of its range, or numbers too large for the dtype";

impl Origin {
    /// Whether `shown`, the first layer whose output is not finite, is also the origin.
    fn is_that_of(&self, shown: &LayerStats) -> bool {
        match self.kind {
            Kind::Held => self.layer == shown.key,
            Kind::Given | Kind::Written => false,
            _ => self.name == shown.name(),
        }
    }

    /// Returns what to look for if the layer with the non-finite output is also the origin.
    pub(super) fn advice(&self) -> String {
        match self.kind {
            Kind::NanOfInfinite => {
                format!("all before it is finite but numbers that are infinite on purpose: {MASK}")
            }
            _ if self.is_inside => format!("all before it is finite: its {} made them: {LOOK}", self.op),
            _ => format!("all before it is finite: {LOOK}"),
        }
    }

    /// Returns the message if the origin is not `shown`, the first layer whose output is not
    /// finite.
    pub(super) fn elsewhere(&self, shown: &LayerStats) -> Option<String> {
        if self.is_that_of(shown) {
            return None;
        }
        let op = if self.is_inside { format!("its {}", self.op) } else { "it".to_owned() };
        let seen = format!("({}: {})", shown.name(), in_words(&shown.output, "outputs"));
        let first = "in the order of computation, of";
        let said = match self.kind {
            Kind::Nan => format!("{op} made the first NaN {first} finite numbers {seen}; {LOOK}"),
            Kind::NanOfInfinite => {
                format!("{op} made the first NaN {first} numbers that are infinite on purpose {seen}; {MASK}")
            }
            Kind::Infinite => {
                format!("{op} made the first infinite number {first} finite ones {seen}; {LOOK}")
            }
            Kind::Given => format!("{} was given numbers that are NaN {seen}; clean the data", self.op),
            Kind::Written => format!("{op} writes NaN, as the program asks {seen}"),
            Kind::Held => format!("it holds such numbers already {seen}; {AFTER_A_STEP}"),
        };
        Some(format!("{}: {said}", self.name))
    }
}
