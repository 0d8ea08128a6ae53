//! Do two devices compute the same? A function run on both, forward and backward.

use crate::values::Rng;
use ternion_core::decorators::tolerance;
use ternion_core::{Device, Error, GradOptions, Result, Stats, Tensor, grad};
use ternion_nn::{Forward, LayerCall, Module, observe_layers};

/// Runs `f` on devices `a` and `b` on the same inputs and compares the outputs, then the gradients of every floating input under the same random
/// cotangents, element by element. Tells how many elements were compared.
///
/// A difference is within the limit if it is at most [`tolerance`] of the dtype, relative to the larger of 1 and the largest finite value of the tensor.
///
/// # Errors
/// [`Error::Mismatch`] that names the first tensor that differs, with the element, both numbers, and the statistics of both tensors; no elements at all; whatever `f` says.
pub fn compare_devices(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    a: &Device,
    b: &Device,
    inputs: &[Tensor],
) -> Result<usize> {
    let (outputs_a, gradients_a) = on_device(&f, a, inputs)?;
    let (outputs_b, gradients_b) = on_device(&f, b, inputs)?;
    if outputs_a.len() != outputs_b.len() {
        let detail = format!("{} outputs and {} outputs", outputs_a.len(), outputs_b.len());
        return Err(mismatch(a, b, detail));
    }
    let mut compared = 0;
    for (index, (left, right)) in outputs_a.iter().zip(&outputs_b).enumerate() {
        compared += compare_tensors(&format!("output {index}"), left, right)?;
    }
    for (index, pair) in gradients_a.iter().zip(&gradients_b).enumerate() {
        match pair {
            (Some(left), Some(right)) => {
                compared += compare_tensors(&format!("gradient of input {index}"), left, right)?
            }
            (None, None) => {}
            _ => return Err(mismatch(a, b, format!("only one of them has a gradient of input {index}"))),
        }
    }
    match compared {
        0 => Err(Error::invalid("compare_devices", "nothing was compared: no output has elements")),
        _ => Ok(compared),
    }
}

fn mismatch(a: &Device, b: &Device, detail: String) -> Error {
    Error::Mismatch { op: "compare_devices", left: a.name().into(), right: b.name().into(), detail }
}

type Results = (Vec<Tensor>, Vec<Option<Tensor>>);

fn on_device(
    f: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    device: &Device,
    inputs: &[Tensor],
) -> Result<Results> {
    let leaves = inputs
        .iter()
        .map(|input| {
            let moved = input.detach().to_device(device)?;
            if moved.dtype().is_float() { moved.requires_grad() } else { Ok(moved) }
        })
        .collect::<Result<Vec<_>>>()?;
    let outputs = f(&leaves)?;
    let mut rng = Rng::seeded("compare_devices");
    let (mut roots, mut cotangents) = (Vec::new(), Vec::new());
    for output in outputs.iter().filter(|output| output.needs_grad()) {
        let weights: Vec<f64> = (0..output.elements()).map(|_| rng.uniform(-1.0, 1.0)).collect();
        cotangents.push(Tensor::from_slice(&weights, *output.shape(), device)?.to_dtype(output.dtype())?);
        roots.push(output.clone());
    }
    let wanted: Vec<Tensor> = leaves.iter().filter(|leaf| leaf.needs_grad()).cloned().collect();
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let mut found = grad(&roots, &wanted, &cotangents, options)?.into_iter();
    let gradients =
        leaves.iter().map(|leaf| if leaf.needs_grad() { found.next().flatten() } else { None }).collect();
    Ok((outputs, gradients))
}

/// Compares two tensors element by element; NaN must meet NaN, infinities must be equal. Tells how many elements were compared.
///
/// # Errors
/// [`Error::Mismatch`] that names `what`.
pub fn compare_tensors(what: &str, left: &Tensor, right: &Tensor) -> Result<usize> {
    let differ = |detail: String| mismatch(left.device(), right.device(), format!("{what}: {detail}"));
    if left.shape() != right.shape() || left.dtype() != right.dtype() {
        return Err(differ(format!(
            "{:?} {} and {:?} {}",
            left.shape(),
            left.dtype(),
            right.shape(),
            right.dtype()
        )));
    }
    let (a, b) = (left.to_vec_f64()?, right.to_vec_f64()?);
    let scale =
        b.iter().filter(|value| value.is_finite()).fold(1.0f64, |largest, value| largest.max(value.abs()));
    let limit = if left.dtype().is_float() { tolerance(left.dtype()) * scale } else { 0.0 };
    let agrees = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= limit;
    let bad: Vec<usize> = (0..a.len()).filter(|&index| !agrees((&a[index], &b[index]))).collect();
    match bad.first() {
        None => Ok(a.len()),
        Some(&first) => Err(differ(format!(
            "element {first} of {:?} is {} and {} (limit {limit:e}), {} of {} differ; {} and {}",
            left.shape(),
            a[first],
            b[first],
            bad.len(),
            a.len(),
            Stats::of(&a),
            Stats::of(&b)
        ))),
    }
}

/// Runs `first` and `second` (the same model, usually on two devices) on `input`, layer by layer, and compares: parameters, then the output of each layer in the order of
/// computation, then the gradients of the parameters (last layer first) and of the input under the same random cotangent. Tells how many elements were compared.
///
/// # Errors
/// [`Error::Mismatch`] that names the first layer and tensor that differ, with the statistics of both; models with different layers or parameters; whatever the models say.
pub fn compare_models<M: Module + Forward>(first: &M, second: &M, input: &Tensor) -> Result<usize> {
    let (names_a, names_b) = (first.named_parameters(), second.named_parameters());
    let mut compared = 0;
    for ((name, a), (other, b)) in names_a.iter().zip(&names_b) {
        if name != other {
            return Err(Error::invalid(
                "compare_models",
                format!("parameter {name} in one model, {other} in the other"),
            ));
        }
        compared += compare_tensors(&format!("parameter {name}"), &a.tensor(), &b.tensor())?;
    }
    if names_a.len() != names_b.len() || names_a.is_empty() {
        let detail = format!("models of {} and {} parameters", names_a.len(), names_b.len());
        return Err(Error::invalid("compare_models", detail));
    }
    let (a, b) = (Run::of(first, input)?, Run::of(second, input)?);
    for ((layer, left), (other, right)) in a.layers.iter().zip(&b.layers) {
        if layer != other {
            return Err(Error::invalid(
                "compare_models",
                format!("layer {layer} in one model, {other} in the other"),
            ));
        }
        compared += compare_tensors(&format!("output of layer {layer}"), left, right)?;
    }
    compared += compare_tensors("output of the model", &a.output, &b.output)?;
    for (position, (name, _)) in names_a.iter().enumerate().rev() {
        compared += compare_gradients(
            &format!("gradient of {name}"),
            &a.gradients[position],
            &b.gradients[position],
        )?;
    }
    let input_gradient = names_a.len();
    Ok(compared
        + compare_gradients(
            "gradient of the input",
            &a.gradients[input_gradient],
            &b.gradients[input_gradient],
        )?)
}

fn compare_gradients(what: &str, left: &Option<Tensor>, right: &Option<Tensor>) -> Result<usize> {
    match (left, right) {
        (Some(left), Some(right)) => compare_tensors(what, left, right),
        (None, None) => Ok(0),
        _ => Err(Error::invalid("compare_models", format!("only one model has a {what}"))),
    }
}

/// What a model computed: each layer's output, the output, and the gradients of parameters and input.
struct Run {
    layers: Vec<(String, Tensor)>,
    output: Tensor,
    gradients: Vec<Option<Tensor>>,
}

impl Run {
    fn of<M: Module + Forward>(model: &M, input: &Tensor) -> Result<Run> {
        let parameters: Vec<Tensor> =
            model.named_parameters().iter().map(|(_, parameter)| parameter.tensor()).collect();
        let device = parameters.first().map_or(input.device(), |tensor| tensor.device()).clone();
        let leaf = input.detach().to_device(&device)?.requires_grad()?;
        let layers = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let log = layers.clone();
        let observer = move |call: &LayerCall, output: &Tensor| {
            log.borrow_mut().push((format!("{} ({})", call.key, call.kind), output.detach()));
            Ok(())
        };
        let output = observe_layers(model, observer, || model.forward(&leaf))?;
        let mut rng = Rng::seeded("compare_models");
        let weights: Vec<f64> = (0..output.elements()).map(|_| rng.uniform(-1.0, 1.0)).collect();
        let cotangent = Tensor::from_slice(&weights, *output.shape(), &device)?.to_dtype(output.dtype())?;
        let wanted: Vec<Tensor> = parameters.into_iter().chain([leaf]).collect();
        let tracked: Vec<Tensor> = wanted.iter().filter(|tensor| tensor.needs_grad()).cloned().collect();
        let options = GradOptions { allow_unused: true, ..GradOptions::default() };
        let mut found = grad(&[output.clone()], &tracked, &[cotangent], options)?.into_iter();
        let gradients = wanted
            .iter()
            .map(|tensor| if tensor.needs_grad() { found.next().flatten() } else { None })
            .collect();
        Ok(Run { layers: layers.take(), output: output.detach(), gradients })
    }
}
