//! Checks of activations: whether they are saturated, and whether they are applied twice.

use super::pass_record::is_same_tensor;
use crate::module::LayerCall;
use ternion_core::{DType, DeviceStats, Op, OpCall, Result, Tensor, UnaryOp, no_grad, unobserved};

/// An activation that the monitor checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    Relu,
    Sigmoid,
    Tanh,
    Softmax { axis: usize },
}

/// Outputs above this limit are saturated. For a tanh the derivative is then below 1/500 of its
/// maximum: `1 - 0.999^2`. For a softmax, and for a sigmoid within 0.001 of 0 or 1, it is below
/// 1/250.
const SATURATION: f64 = 0.999;

impl Activation {
    /// Returns the activation that an op ends with.
    pub(super) fn from_op(op: &Op) -> Option<Activation> {
        let unary = match op {
            Op::Unary(unary) => unary.op,
            Op::AddRelu(_) => UnaryOp::Relu,
            Op::BiasActivation(fused) => fused.activation,
            Op::Matmul(product) => product.epilogue.activation?,
            Op::Softmax(softmax) => return Some(Activation::Softmax { axis: softmax.axis }),
            _ => return None,
        };
        match unary {
            UnaryOp::Relu => Some(Activation::Relu),
            UnaryOp::Sigmoid => Some(Activation::Sigmoid),
            UnaryOp::Tanh => Some(Activation::Tanh),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Sigmoid => "sigmoid",
            Activation::Tanh => "tanh",
            Activation::Softmax { .. } => "softmax",
        }
    }

    /// Returns what to do if it is saturated.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Activation::Softmax { .. } => {
                "look at its axis (one of size 1 gives 1 for everything), or divide its input, as attention does by the root of the width"
            }
            _ => {
                "its input is too large: take smaller first weights, a smaller learning rate or input, or a norm in front"
            }
        }
    }

    /// Returns the statistics of a tensor that is 1 for each saturated element, otherwise 0; for a
    /// softmax, 1 for each row with almost all weight on one element.
    pub(super) fn saturated(self, output: &Tensor) -> Result<Option<DeviceStats>> {
        if output.elements() == 0 {
            return Ok(None);
        }
        // In f32: in half precision the limits would be rounded to 1.
        let in_f32 = || output.detach().to_dtype(DType::F32);
        let mask = || match self {
            Activation::Relu => Ok(None),
            Activation::Tanh => in_f32()?.abs()?.gt_scalar(SATURATION).map(Some),
            Activation::Sigmoid => in_f32()?.sub_scalar(0.5)?.abs()?.gt_scalar(SATURATION - 0.5).map(Some),
            Activation::Softmax { axis } => in_f32()?.max_abs(axis as isize)?.gt_scalar(SATURATION).map(Some),
        };
        let fraction = unobserved(|| no_grad(|| mask()?.map(|mask| mask.to_dtype(DType::F32)).transpose()))?;
        fraction.map(|fraction| fraction.device_stats()).transpose()
    }

    /// Returns a message if an op applies the same activation again to the output of this one.
    fn repeat_advice(self, op: &Op) -> Option<&'static str> {
        match (self, op) {
            (
                Activation::Softmax { .. },
                Op::CrossEntropy(_) | Op::CrossEntropyWithGrad(_) | Op::LogSoftmax(_),
            ) => Some("cross_entropy and log_softmax apply softmax themselves: give them the logits"),
            (Activation::Softmax { .. }, Op::Softmax(_)) => {
                Some("softmax of a softmax is close to uniform: leave one out")
            }
            (Activation::Sigmoid, Op::Unary(unary)) if unary.op == UnaryOp::Softplus => Some(
                "the cross-entropy of logits applies sigmoid itself: give it the logits, or take that of probabilities",
            ),
            (Activation::Sigmoid, Op::Unary(unary)) if unary.op == UnaryOp::Sigmoid => {
                Some("sigmoid of a sigmoid is between 0.5 and 0.73: leave one out")
            }
            _ => None,
        }
    }
}

/// An activation that was applied. It is kept until the pass ends, so that its memory is not reused
/// for another tensor.
struct AppliedActivation {
    activation: Activation,
    output: Tensor,
    version: u64,
    key: String,
    /// The name in messages.
    name: String,
}

/// An activation that was applied to the output of the same activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DoubleActivation {
    /// The key of the layer that applied the activation first.
    pub layer: String,
    pub message: String,
}

/// The sigmoids and softmaxes of a pass, and the activations that were applied twice.
#[derive(Default)]
pub(super) struct ActivationLog {
    applied: Vec<AppliedActivation>,
    double_activations: Vec<DoubleActivation>,
}

impl ActivationLog {
    /// Records an op that was applied after the layer `key`.
    pub(super) fn op(&mut self, call: &OpCall<'_>, key: &str) {
        let (Some(input), Some(output)) = (call.inputs.first(), call.outputs.first()) else { return };
        let known = self.applied.iter().rev().find(|earlier| earlier.is(input));
        if let Some(earlier) = known
            && let Some(advice) = earlier.activation.repeat_advice(call.op)
        {
            let message = format!("{}: its output goes into {}: {advice}", earlier.name, op_name(call.op));
            let double = DoubleActivation { layer: earlier.key.clone(), message };
            if !self.double_activations.contains(&double) {
                self.double_activations.push(double);
            }
        }
        // A cast to another precision is still the same activation.
        let cast = known.filter(|_| matches!(call.op, Op::Copy(_)));
        let cast = cast.map(|earlier| (earlier.activation, earlier.key.clone(), earlier.name.clone()));
        let started = Activation::from_op(call.op)
            .filter(|activation| matches!(activation, Activation::Sigmoid | Activation::Softmax { .. }));
        let named = || started.map(|started| (started, key.to_owned(), name_after(started, key)));
        if let Some((activation, key, name)) = cast.or_else(named) {
            let (output, version) = (output.clone(), output.buffer().version());
            self.applied.push(AppliedActivation { activation, output, version, key, name });
        }
    }

    /// Records the end of a layer. If an activation computed its output, the activation gets the
    /// layer's key.
    pub(super) fn layer(&mut self, call: &LayerCall, output: &Tensor) {
        let ends = self.applied.iter_mut().filter(|earlier| is_same_tensor(&earlier.output, output));
        for earlier in ends.filter(|earlier| earlier.name != call.key && !call.key.is_empty()) {
            // The innermost layer ends first.
            if earlier.name.contains(' ') || earlier.key.is_empty() {
                (earlier.key, earlier.name) = (call.key.clone(), call.key.clone());
            }
        }
    }

    pub(super) fn double_activations(self) -> Vec<DoubleActivation> {
        self.double_activations
    }
}

/// Returns a name such as "softmax after layers.1".
fn name_after(activation: Activation, key: &str) -> String {
    match key {
        "" => activation.name().to_owned(),
        key => format!("{} after {key}", activation.name()),
    }
}

/// Returns the name of the function that a program calls for this op.
fn op_name(op: &Op) -> &'static str {
    match op {
        Op::CrossEntropyWithGrad(_) => "cross_entropy",
        Op::Unary(unary) if unary.op == UnaryOp::Softplus => "the softplus of a cross-entropy of logits",
        op => op.name(),
    }
}

impl AppliedActivation {
    /// Whether a tensor has the same values, possibly in another shape.
    fn is(&self, tensor: &Tensor) -> bool {
        let (recorded, other) = (self.output.buffer(), tensor.buffer());
        recorded.is(other) && other.version() == self.version && self.output.elements() == tensor.elements()
    }
}
