//! Device comparison of a model, op by op, forward and backward: names the op that is wrong and the
//! layer that contains it.

use crate::agreement::{Comparison, Computed, Rerun, all_nan};
use crate::devices::random_cotangent;
use crate::memory_layout::tensor_with_layout;
use crate::model_trace::{ModelTrace, Step, pair_steps, select_steps};
use crate::read::values_of;
use crate::values::Rng;
use ternion_core::{Device, Error, GradOptions, Result, Tensor, grad};
use ternion_nn::{Forward, Module, Param, StateTensor};

const OP: &str = "compare_models";

/// Runs `first` and `second` (the same model, usually on two devices) on `input` and compares, in
/// this order:
///
/// - parameters and buffers;
/// - the outputs of each op and layer in the order of computation, and of the model;
/// - buffers after the forward pass (running statistics);
/// - in the backward pass, under the same random cotangent: the output gradients of each op and the
///   input gradients that it returns;
/// - the gradients of parameters and input.
///
/// Returns the number of elements compared.
///
/// `second` is the reference, and the limits are those of
/// [`compare_devices`](crate::compare_devices): it may run several times, with parameters moved by
/// one ulp. Elements of integer and bool tensors may differ (ties), to the extent that the moved
/// parameters change them. The models are not changed, including the identity of their parameters.
/// `input` may be an integer tensor (for an embedding). A model without parameters runs on the
/// input's device.
///
/// # Errors
/// [`Error::Mismatch`] that names the first op and tensor that differ, with the statistics of both,
/// and the location of the op: in a layer, if the layer reports its start
/// ([`in_layer`](ternion_nn::in_layer), as all layers of Ternion do), otherwise between two layers.
/// As everything before agrees within its limits, that op is at fault; in half precision it may
/// also be an earlier op whose error is within its own limits. Models with different parameters,
/// buffers, ops or layers, or with a parameter that is frozen in only one of them; an output, or
/// gradients, that are all NaN on both sides; a model that does not repeat its results where the
/// two differ; any error of the models.
pub fn compare_models<M: Module + Forward + ?Sized>(first: &M, second: &M, input: &Tensor) -> Result<usize> {
    let run = |model: &M, device: &Device, rerun: Rerun| {
        let input = rerun.apply("input", &input.detach().to_device(device)?)?;
        let input = if input.dtype().is_float() { input.requires_grad()? } else { input };
        Ok(ModelRun { outputs: vec![model.forward(&input)?], input: Some(input) })
    };
    compare(first, second, input.device(), &run)
}

/// Runs [`compare_models`] for models with several inputs and outputs: `run` calls the model, with
/// inputs that it creates on the model's device, and returns all outputs.
///
/// `run` must compute the same each time. Its inputs are not moved, and their gradients are not
/// compared. A model without parameters and buffers runs on the CPU.
///
/// # Errors
/// See [`compare_models`].
pub fn compare_models_with<M: Module + ?Sized>(
    first: &M,
    second: &M,
    run: impl Fn(&M, &Device) -> Result<Vec<Tensor>>,
) -> Result<usize> {
    let run = |model: &M, device: &Device, _| Ok(ModelRun { outputs: run(model, device)?, input: None });
    compare(first, second, &ternion_cpu::device(), &run)
}

/// The outputs of a call of a model, and the input whose gradient is compared.
struct ModelRun {
    outputs: Vec<Tensor>,
    input: Option<Tensor>,
}

type Call<'f, M> = &'f dyn Fn(&M, &Device, Rerun) -> Result<ModelRun>;

/// Compares two models. Those without parameters and buffers run on `default_device`.
fn compare<M: Module + ?Sized>(
    first: &M,
    second: &M,
    default_device: &Device,
    run: Call<'_, M>,
) -> Result<usize> {
    let (members_a, members_b) = (Members::of(first), Members::of(second));
    let devices =
        [&members_a, &members_b].map(|members| members.device().unwrap_or_else(|| default_device.clone()));
    let comparison = Comparison::new(OP, devices[0].name(), devices[1].name());
    let mut compared = compare_members(&comparison, &members_a, &members_b)?;
    let pass = |model: &M, members: &Members, device: &Device, rerun| {
        Pass::of(model, members, rerun, &|rerun| run(model, device, rerun))
    };
    let pass_a = pass(first, &members_a, &devices[0], Rerun::Same)?;
    let pass_b = pass(second, &members_b, &devices[1], Rerun::Same)?;
    let repeat = |rerun| pass(second, &members_b, &devices[1], rerun);
    compared +=
        compare_steps(&comparison, [&pass_a.forward, &pass_b.forward], |rerun| Ok(repeat(rerun)?.forward))?;
    check_not_all_nan("the outputs of the model", &pass_b.run_result.outputs, &pass_b.forward)?;
    let (backward_a, backward_b) = (pass_a.backward()?, pass_b.backward()?);
    compared +=
        compare_steps(&comparison, [&backward_a.0, &backward_b.0], |rerun| Ok(repeat(rerun)?.backward()?.0))?;
    check_not_all_nan("the gradients", &backward_b.1, &backward_b.0)?;
    match compared {
        0 => Err(Error::invalid(OP, "nothing was compared: nothing has elements")),
        _ => Ok(compared),
    }
}

fn compare_members(comparison: &Comparison, first: &Members, second: &Members) -> Result<usize> {
    let (a, b) = (first.tensors(), second.tensors());
    same_names("parameters and buffers", &a, &b)?;
    for ((name, one), (_, other)) in first.parameters.iter().zip(&second.parameters) {
        if one.is_frozen() != other.is_frozen() {
            let which = if one.is_frozen() { "first" } else { "second" };
            return Err(Error::invalid(OP, format!("parameter {name} is frozen in the {which} model only")));
        }
    }
    comparison.compare_all(&a, &b, |_| Ok(b.clone()), |_| None)
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

/// Compares the steps of both sides; `rerun` recomputes those of the reference.
fn compare_steps(
    comparison: &Comparison,
    [tested, reference]: [&[Step]; 2],
    rerun: impl Fn(Rerun) -> Result<Vec<Step>>,
) -> Result<usize> {
    let pairs = pair_steps(tested, reference)
        .map_err(|detail| Error::invalid(OP, format!("models that compute differently: {detail}")))?;
    let of_reference = |steps: &[Step]| select_steps(steps, pairs.iter().map(|&(_, index)| index));
    let of_tested = select_steps(tested, pairs.iter().map(|&(index, _)| index));
    let part = |index: usize| Some(reference[pairs[index].1].part.clone()).filter(|part| !part.is_empty());
    let rerun = |inputs| Ok(of_reference(&rerun(inputs)?));
    comparison.compare_all(&of_tested, &of_reference(reference), rerun, part)
}

/// Returns an error if all elements are NaN: NaN agrees with NaN, and the comparison would show
/// nothing.
fn check_not_all_nan(what: &str, tensors: &[Tensor], steps: &[Step]) -> Result<()> {
    if !all_nan(tensors)? {
        return Ok(());
    }
    let mut origin = String::new();
    for step in steps.iter().filter(|step| step.tensor.dtype().is_float() && !step.part.is_empty()) {
        if values_of(&step.tensor)?.1.data.iter().any(|value| value.is_nan()) {
            origin = format!("; the first NaN is in the {} of {}", step.name, step.part);
            break;
        }
    }
    let detail =
        format!("every element of {what} is NaN on both sides, so that nothing was compared{origin}");
    Err(Error::invalid(OP, detail))
}

/// Parameters and buffers of a model.
struct Members {
    parameters: Vec<(String, Param)>,
    buffers: Vec<(String, StateTensor)>,
}

/// Restores the tensors of a model when it is dropped.
struct RestoreGuard<'m> {
    members: &'m Members,
    parameters: Vec<Tensor>,
    buffers: Vec<Tensor>,
}

impl Drop for RestoreGuard<'_> {
    fn drop(&mut self) {
        for ((_, parameter), tensor) in self.members.parameters.iter().zip(self.parameters.drain(..)) {
            parameter.restore(tensor).expect("it is what the parameter held");
        }
        for ((_, buffer), tensor) in self.members.buffers.iter().zip(self.buffers.drain(..)) {
            buffer.replace(tensor);
        }
    }
}

impl Members {
    fn of<M: Module + ?Sized>(model: &M) -> Members {
        Members { parameters: model.named_parameters(), buffers: model.named_buffers() }
    }

    fn device(&self) -> Option<Device> {
        let parameter = self.parameters.first().map(|(_, parameter)| parameter.device());
        parameter.or_else(|| self.buffers.first().map(|(_, buffer)| buffer.tensor().device().clone()))
    }

    fn tensors(&self) -> Computed {
        let parameters =
            self.parameters.iter().map(|(name, p)| (format!("parameter {name}"), Some(p.tensor())));
        let buffers = self.buffers.iter().map(|(name, b)| (format!("buffer {name}"), Some(b.tensor())));
        parameters.chain(buffers).collect()
    }

    /// Returns every parameter once, under its first name.
    fn distinct(&self) -> Vec<(&str, &Param)> {
        let mut distinct: Vec<(&str, &Param)> = Vec::new();
        for (name, parameter) in &self.parameters {
            if !distinct.iter().any(|(_, known)| known.is(parameter)) {
                distinct.push((name, parameter));
            }
        }
        distinct
    }

    /// Runs `compute` on copies of the buffers, and on parameters and buffers moved according to
    /// `rerun`; then restores all of them.
    fn with_restored_state<T>(&self, rerun: Rerun, compute: impl FnOnce() -> Result<T>) -> Result<T> {
        let _restore = RestoreGuard {
            members: self,
            parameters: self.parameters.iter().map(|(_, parameter)| parameter.tensor()).collect(),
            buffers: self.buffers.iter().map(|(_, buffer)| buffer.tensor()).collect(),
        };
        self.perturb(rerun)?;
        compute()
    }

    fn perturb(&self, rerun: Rerun) -> Result<()> {
        for (name, parameter) in self.distinct().into_iter().filter(|_| rerun != Rerun::Same) {
            parameter.replace(rerun.apply(name, &parameter.tensor())?)?;
        }
        for (name, buffer) in &self.buffers {
            let (dtype, values) = values_of(&buffer.tensor())?;
            let copy = tensor_with_layout(&values, dtype, None, buffer.tensor().device())?;
            buffer.replace(rerun.apply(name, &copy)?);
        }
        Ok(())
    }
}

/// A recorded forward pass of a model.
struct Pass {
    trace: ModelTrace,
    /// The outputs of ops, layers and the model, then the buffers.
    forward: Vec<Step>,
    run_result: ModelRun,
    /// The input, and every parameter once: the leaves whose gradients are computed.
    leaves: Vec<(String, Tensor)>,
}

/// A step that does not belong to a location in the model.
fn unlocated_step(name: String, tensor: Tensor) -> Step {
    Step { op: None, name, part: String::new(), tensor }
}

impl Pass {
    fn of<M: Module + ?Sized>(
        model: &M,
        members: &Members,
        rerun: Rerun,
        run: &dyn Fn(Rerun) -> Result<ModelRun>,
    ) -> Result<Pass> {
        members.with_restored_state(rerun, || {
            let (mut trace, run_result) = ModelTrace::record(model, || run(rerun))?;
            let mut forward = trace.forward();
            let suffix = |index: usize| {
                if run_result.outputs.len() == 1 { String::new() } else { format!(" {index}") }
            };
            for (index, output) in run_result.outputs.iter().enumerate() {
                forward
                    .push(unlocated_step(format!("output{} of the model", suffix(index)), output.detach()));
            }
            for (name, buffer) in &members.buffers {
                forward.push(unlocated_step(format!("buffer {name} after the forward"), buffer.tensor()));
            }
            let mut leaves: Vec<(String, Tensor)> = Vec::new();
            leaves.extend(run_result.input.iter().map(|input| ("the input".into(), input.clone())));
            let parameters = members.distinct().into_iter();
            leaves.extend(parameters.map(|(name, p)| (format!("parameter {name}"), p.tensor())));
            leaves.retain(|(_, tensor)| tensor.needs_grad());
            leaves.iter().for_each(|(name, tensor)| trace.name(tensor, name.clone()));
            Ok(Pass { trace, forward, run_result, leaves })
        })
    }

    /// Returns the gradients of all ops under random cotangents followed by those of the leaves,
    /// and the latter separately.
    fn backward(&self) -> Result<(Vec<Step>, Vec<Tensor>)> {
        let mut rng = Rng::seeded(OP);
        let roots: Vec<Tensor> =
            self.run_result.outputs.iter().filter(|output| output.needs_grad()).cloned().collect();
        let cotangents =
            roots.iter().map(|root| random_cotangent(root, &mut rng)).collect::<Result<Vec<_>>>()?;
        let leaves: Vec<Tensor> = self.leaves.iter().map(|(_, tensor)| tensor.clone()).collect();
        let options = GradOptions { allow_unused: true, ..GradOptions::default() };
        let (mut steps, gradients_found) =
            self.trace.backward(|| grad(&roots, &leaves, &cotangents, options))?;
        let gradients: Vec<Tensor> = gradients_found.iter().flatten().cloned().collect();
        for ((name, _), gradient) in self.leaves.iter().zip(gradients_found) {
            if let Some(gradient) = gradient {
                let part = format!("sum of the gradients for {name}");
                steps.push(Step { op: None, name: format!("gradient of {name}"), part, tensor: gradient });
            }
        }
        Ok((steps, gradients))
    }
}
