//! Does a gradient belong to its function? Central differences of the function itself, on the device that it runs on.

use crate::values::Rng;
use ternion_core::{DType, Error, GradOptions, Result, Tensor, grad, no_grad};

/// What [`gradcheck`] compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradcheckReport {
    /// Partial derivatives that were compared.
    pub compared: usize,
    /// The largest difference, relative to the limit: at most 1.
    pub worst: f64,
}

/// Step of the differences: the cube root of f64's precision, where truncation and rounding balance.
const STEP: f64 = 6e-6;
/// Allowed difference, absolute and relative.
const LIMIT: (f64, f64) = (1e-6, 1e-5);

/// Compares the gradient of `f` at `inputs`, under a random cotangent, with central differences, every partial derivative of every input.
///
/// # Errors
/// Inputs that are not f64 (differences of narrower types show nothing); an input or a function without elements; a difference beyond
/// the limit: the message names the input, the element, and both numbers; whatever `f` says.
pub fn gradcheck(f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) -> Result<GradcheckReport> {
    if let Some(input) = inputs.iter().find(|input| input.dtype() != DType::F64) {
        return Err(Error::DType { op: "gradcheck", what: "input", got: input.dtype(), expected: "f64" });
    }
    let leaves =
        inputs.iter().map(|input| input.detach().copy()?.requires_grad()).collect::<Result<Vec<_>>>()?;
    let output = f(&leaves)?;
    let mut rng = Rng::seeded("gradcheck");
    let weights: Vec<f64> = (0..output.elements()).map(|_| rng.uniform(-1.0, 1.0)).collect();
    let cotangent = Tensor::from_slice(&weights, *output.shape(), output.device())?;
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let found = grad(&[output], &leaves, &[cotangent], options)?;
    let mut report = GradcheckReport { compared: 0, worst: 0.0 };
    for (position, found) in found.into_iter().enumerate() {
        let elements = inputs[position].elements();
        let got = match found {
            Some(grad) => grad.to_vec::<f64>()?,
            None => vec![0.0; elements],
        };
        for (element, &got) in got.iter().enumerate() {
            let want = difference(&f, inputs, position, element, &weights)?;
            report = checked(report, position, element, got, want)?;
        }
    }
    match report.compared {
        0 => Err(Error::invalid("gradcheck", "nothing was compared: the inputs have no elements")),
        _ => Ok(report),
    }
}

fn checked(
    report: GradcheckReport,
    input: usize,
    element: usize,
    got: f64,
    want: f64,
) -> Result<GradcheckReport> {
    let limit = LIMIT.0 + LIMIT.1 * want.abs();
    let error = (got - want).abs();
    if error <= limit {
        return Ok(GradcheckReport { compared: report.compared + 1, worst: report.worst.max(error / limit) });
    }
    let detail = format!(
        "gradient of input {input}, element {element}: got {got}, differences give {want} (limit {limit:e})"
    );
    Err(Error::invalid("gradcheck", detail))
}

/// The derivative of the weighted sum of `f`'s output for one element of one input.
fn difference(
    f: &impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    position: usize,
    element: usize,
    weights: &[f64],
) -> Result<f64> {
    let side = |step: f64| -> Result<f64> {
        let mut values = inputs[position].to_vec::<f64>()?;
        values[element] += step;
        let mut moved: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect();
        moved[position] = Tensor::from_slice(&values, *inputs[position].shape(), inputs[position].device())?;
        let output = no_grad(|| f(&moved))?.to_vec::<f64>()?;
        Ok(output.iter().zip(weights).map(|(output, weight)| output * weight).sum())
    };
    Ok((side(STEP)? - side(-STEP)?) / (2.0 * STEP))
}
