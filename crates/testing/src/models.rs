//! Do two devices compute the same model? Layer by layer, forward and backward, so that the layer that is wrong is named.

use crate::agreement::{Computed, Rerun, Sides};
use crate::devices::random_cotangent;
use crate::place::place;
use crate::read::values_of;
use crate::values::Rng;
use std::cell::RefCell;
use std::rc::Rc;
use ternion_core::{Device, Error, GradOptions, Result, Tensor, grad};
use ternion_nn::{Forward, LayerCall, Module, Param, StateTensor, observe_layers};

const OP: &str = "compare_models";

/// Runs `first` and `second` (the same model, usually on two devices) on `input`, layer by layer, and compares: parameters and buffers; the output of each layer in the order of
/// computation; buffers after the forward (running statistics); then, from the output back and under the same random cotangent, the gradients of each layer's output and parameters, and of the input.
/// Tells how many elements were compared.
///
/// `second` is the reference, and the limits are those of [`compare_devices`](crate::compare_devices): it may run several times, with parameters moved by one unit of rounding. The models
/// are left as they were. `input` may hold integers (an embedding); a model without parameters runs on the input's device.
///
/// # Errors
/// [`Error::Mismatch`] that names the first layer and tensor that differ, with the statistics of both: forward, the layer whose output differs; backward, the layer whose output's
/// gradient agrees while that of its input or of a parameter does not. Models with different layers, parameters or buffers; a model that does not repeat itself where the
/// two differ; whatever the models say.
pub fn compare_models<M: Module + Forward>(first: &M, second: &M, input: &Tensor) -> Result<usize> {
    let sides = Sides::new(OP, device_of(first, input).name(), device_of(second, input).name());
    let (members_a, members_b) = (Members::of(first).tensors(), Members::of(second).tensors());
    same_names("parameters and buffers", &members_a, &members_b)?;
    let mut compared = sides.compare_all(&members_a, &members_b, |_| Ok(members_b.clone()), |_| None)?;
    let (run_a, run_b) = (Run::of(first, input, Rerun::Same)?, Run::of(second, input, Rerun::Same)?);
    same_names("layers", &run_a.forward, &run_b.forward)?;
    let again = |rerun| Run::of(second, input, rerun).map(|run| run.forward);
    compared += sides.compare_all(&run_a.forward, &run_b.forward, again, |_| None)?;
    let (backward_a, backward_b) = (run_a.backward()?, run_b.backward()?);
    same_names("gradients", &backward_a, &backward_b)?;
    let again = |rerun| Run::of(second, input, rerun)?.backward();
    compared += sides.compare_all(&backward_a, &backward_b, again, |at| Some(run_b.blamed(at)))?;
    match compared {
        0 => Err(Error::invalid(OP, "nothing was compared: nothing has elements")),
        _ => Ok(compared),
    }
}

fn device_of<M: Module>(model: &M, input: &Tensor) -> Device {
    let members = Members::of(model);
    let parameter = members.parameters.first().map(|(_, parameter)| parameter.device());
    let buffer = || members.buffers.first().map(|(_, buffer)| buffer.tensor().device().clone());
    parameter.or_else(buffer).unwrap_or_else(|| input.device().clone())
}

fn same_names(kind: &str, first: &Computed, second: &Computed) -> Result<()> {
    for (one, other) in first.iter().zip(second) {
        if one.0 != other.0 {
            return Err(Error::invalid(OP, format!("{} in one model, {} in the other", one.0, other.0)));
        }
    }
    match first.len() == second.len() {
        true => Ok(()),
        false => Err(Error::invalid(OP, format!("models with {} and {} {kind}", first.len(), second.len()))),
    }
}

/// Parameters and buffers of a model.
struct Members {
    parameters: Vec<(String, Param)>,
    buffers: Vec<(String, StateTensor)>,
}

impl Members {
    fn of<M: Module>(model: &M) -> Members {
        Members { parameters: model.named_parameters(), buffers: model.named_buffers() }
    }

    fn tensors(&self) -> Computed {
        let parameters =
            self.parameters.iter().map(|(name, p)| (format!("parameter {name}"), Some(p.tensor())));
        let buffers = self.buffers.iter().map(|(name, b)| (format!("buffer {name}"), Some(b.tensor())));
        parameters.chain(buffers).collect()
    }

    /// Runs `compute` on copies of the buffers, and on parameters and buffers moved as `rerun` says; then puts everything back.
    fn lent<T>(&self, rerun: Rerun, compute: impl FnOnce() -> Result<T>) -> Result<T> {
        let parameters: Vec<Tensor> =
            self.parameters.iter().map(|(_, parameter)| parameter.tensor()).collect();
        let buffers: Vec<Tensor> = self.buffers.iter().map(|(_, buffer)| buffer.tensor()).collect();
        let computed = self.move_by(rerun).and_then(|()| compute());
        for ((_, parameter), tensor) in
            self.parameters.iter().zip(parameters).filter(|_| rerun != Rerun::Same)
        {
            parameter.replace(tensor)?;
        }
        self.buffers.iter().zip(buffers).for_each(|((_, buffer), tensor)| buffer.replace(tensor));
        computed
    }

    fn move_by(&self, rerun: Rerun) -> Result<()> {
        for (name, parameter) in self.parameters.iter().filter(|_| rerun != Rerun::Same) {
            parameter.replace(rerun.of(name, &parameter.tensor())?)?;
        }
        for (name, buffer) in &self.buffers {
            let (dtype, values) = values_of(&buffer.tensor())?;
            let copy = place(&values, dtype, None, buffer.tensor().device())?;
            buffer.replace(rerun.of(name, &copy)?);
        }
        Ok(())
    }
}

/// A layer that computed, and what came out, with its history.
struct Called {
    key: String,
    label: String,
    output: Tensor,
}

/// Whose fault it is if a gradient is the first to differ.
#[derive(Clone, Copy)]
enum Suspect {
    /// The layer whose parameter it is.
    Layer(usize),
    /// Whoever uses the output of this layer.
    UserOf(usize),
    /// Whoever uses the model's input.
    UserOfInput,
    /// Whoever uses a parameter that is no layer's.
    Model,
}

/// A tensor whose gradient is compared.
struct Target {
    name: String,
    tensor: Tensor,
    suspect: Suspect,
}

/// What a model computed.
struct Run {
    /// The output of each layer and of the model, then the buffers.
    forward: Computed,
    layers: Vec<Called>,
    input: Tensor,
    output: Tensor,
    /// From the output back.
    targets: Vec<Target>,
}

impl Run {
    fn of<M: Module + Forward>(model: &M, input: &Tensor, rerun: Rerun) -> Result<Run> {
        let members = Members::of(model);
        let input = rerun.of("input", &input.detach().to_device(&device_of(model, input))?)?;
        let input = if input.dtype().is_float() { input.requires_grad()? } else { input };
        members.lent(rerun, || {
            let (layers, output) = watched(model, &input)?;
            let mut forward: Computed = Vec::new();
            for layer in &layers {
                forward.push((format!("output of layer {}", layer.label), Some(layer.output.detach())));
            }
            forward.push(("output of the model".into(), Some(output.detach())));
            for (name, buffer) in &members.buffers {
                forward.push((format!("buffer {name} after the forward"), Some(buffer.tensor())));
            }
            let targets = targets(&layers, &members, &input);
            Ok(Run { forward, layers, input, output, targets })
        })
    }

    /// The gradient of each target under a random cotangent. The graph stays, so that it can be asked who uses what.
    fn backward(&self) -> Result<Computed> {
        if !self.output.needs_grad() {
            return Ok(Computed::new());
        }
        let cotangent = random_cotangent(&self.output, &mut Rng::seeded(OP))?;
        let wanted: Vec<Tensor> = self.targets.iter().map(|target| target.tensor.clone()).collect();
        let found = grad(&[self.output.clone()], &wanted, &[cotangent], KEEP)?;
        Ok(self.targets.iter().map(|target| format!("gradient of {}", target.name)).zip(found).collect())
    }

    /// The layer to blame if target `at` is the first whose gradient differs.
    fn blamed(&self, at: usize) -> String {
        let layer = match self.targets[at].suspect {
            Suspect::Layer(layer) => Some(layer),
            Suspect::UserOf(layer) => self.user_of(&self.layers[layer].output, layer + 1),
            Suspect::UserOfInput => self.user_of(&self.input, 0),
            Suspect::Model => return "backward of the model".into(),
        };
        match layer {
            Some(layer) => format!("backward of layer {}", self.layers[layer].label),
            None => "backward of the model, after its last layer".into(),
        }
    }

    /// The first layer from `start` on whose output depends on `tensor`.
    fn user_of(&self, tensor: &Tensor, start: usize) -> Option<usize> {
        let depends = |output: &Tensor| -> Result<bool> {
            let cotangent = random_cotangent(output, &mut Rng::seeded(OP))?;
            let found = grad(&[output.clone()], &[tensor.clone()], &[cotangent], KEEP)?;
            Ok(output.id() != tensor.id() && found[0].is_some())
        };
        (start..self.layers.len())
            .filter(|&layer| self.layers[layer].output.needs_grad())
            .find(|&layer| depends(&self.layers[layer].output).unwrap_or(false))
    }
}

const KEEP: GradOptions = GradOptions { create_graph: false, retain_graph: true, allow_unused: true };

/// Runs the model; the layers that computed, in their order, and the output.
fn watched<M: Module + Forward>(model: &M, input: &Tensor) -> Result<(Vec<Called>, Tensor)> {
    let layers: Rc<RefCell<Vec<Called>>> = Rc::default();
    let log = layers.clone();
    let observer = move |call: &LayerCall, output: &Tensor| {
        let label = format!("{} ({})", call.key, call.kind);
        log.borrow_mut().push(Called { key: call.key.clone(), label, output: output.clone() });
        Ok(())
    };
    let output = observe_layers(model, observer, || model.forward(input))?;
    Ok((layers.take(), output))
}

/// From the output back: the output of each layer, then the layer's parameters; at the end the input, and parameters that are no layer's.
fn targets(layers: &[Called], members: &Members, input: &Tensor) -> Vec<Target> {
    let owned: Vec<(Option<usize>, String, Tensor)> = distinct_parameters(layers, members);
    let mut targets = Vec::new();
    let mut add = |name: String, tensor: &Tensor, suspect: Suspect| {
        if tensor.needs_grad() {
            targets.push(Target { name, tensor: tensor.clone(), suspect });
        }
    };
    for (at, layer) in layers.iter().enumerate().rev() {
        add(format!("the output of layer {}", layer.label), &layer.output, Suspect::UserOf(at));
        for (_, name, tensor) in owned.iter().filter(|(owner, ..)| *owner == Some(at)) {
            add(format!("parameter {name}"), tensor, Suspect::Layer(at));
        }
    }
    add("the input".into(), input, Suspect::UserOfInput);
    for (_, name, tensor) in owned.iter().filter(|(owner, ..)| owner.is_none()) {
        add(format!("parameter {name}"), tensor, Suspect::Model);
    }
    targets
}

/// Every parameter once, with the first layer that computed of those that own it: by then all that use it have been walked.
fn distinct_parameters(layers: &[Called], members: &Members) -> Vec<(Option<usize>, String, Tensor)> {
    let mut distinct: Vec<(Option<usize>, String, Tensor)> = Vec::new();
    for (name, parameter) in &members.parameters {
        let (owner, tensor) = (owner_of(layers, name), parameter.tensor());
        match distinct.iter_mut().find(|(.., known)| known.id().is_some() && known.id() == tensor.id()) {
            Some((known, ..)) => *known = owner.into_iter().chain(*known).min(),
            None => distinct.push((owner, name.clone(), tensor)),
        }
    }
    distinct
}

/// The layer with the longest key that `name` starts with: of several calls the first.
fn owner_of(layers: &[Called], name: &str) -> Option<usize> {
    let owns = |key: &str| key.is_empty() || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    let longest = layers.iter().filter(|layer| owns(&layer.key)).map(|layer| layer.key.len()).max()?;
    layers.iter().position(|layer| owns(&layer.key) && layer.key.len() == longest)
}
