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
/// Allowed difference, relative to the derivative ..
const OF_ELEMENT: f64 = 1e-5;
/// .. relative to the root mean square of the derivatives for the same input ..
const OF_INPUT: f64 = 1e-6;
/// .. and in units of rounding of the terms that are subtracted, which differences cannot tell from a derivative.
const ROUNDINGS: f64 = 64.0;

/// Compares the gradient of `f` at `inputs`, under a random cotangent, with central differences, every partial derivative of every input.
///
/// A difference is allowed relative to the derivative, to the root mean square of the derivatives for its input, to what rounding of `f`'s own values leaves after division by the step, and to
/// what the differences change when the step is doubled: never absolutely, so that the gradient of a small function is checked as any other.
///
/// # Errors
/// Inputs that are not f64 (differences of narrower types show nothing); an input or a function without elements; a function that gives other values when it is called again on the same inputs
/// (dropout: seed the device in `f`); a difference beyond the limit: the message names the input, the element, and both numbers; whatever `f` says.
pub fn gradcheck(f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) -> Result<GradcheckReport> {
    if let Some(input) = inputs.iter().find(|input| input.dtype() != DType::F64) {
        return Err(Error::DType { op: "gradcheck", what: "input", got: input.dtype(), expected: "f64" });
    }
    let leaves =
        inputs.iter().map(|input| input.detach().copy()?.requires_grad()).collect::<Result<Vec<_>>>()?;
    let output = f(&leaves)?;
    let mut rng = Rng::seeded("gradcheck");
    let weights: Vec<f64> = (0..output.elements()).map(|_| rng.uniform(-1.0, 1.0)).collect();
    let weighted = Weighted { f: &f, inputs, weights: &weights };
    weighted.must_repeat(&output.to_vec::<f64>()?)?;
    let cotangent = Tensor::from_slice(&weights, *output.shape(), output.device())?;
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let found = grad(&[output], &leaves, &[cotangent], options)?;
    let mut report = GradcheckReport { compared: 0, worst: 0.0 };
    for (position, found) in found.into_iter().enumerate() {
        let got = match found {
            Some(grad) => grad.to_vec::<f64>()?,
            None => vec![0.0; inputs[position].elements()],
        };
        report.compared += got.len();
        report.worst = report.worst.max(weighted.check(position, &got)?);
    }
    match report.compared {
        0 => Err(Error::invalid("gradcheck", "nothing was compared: the inputs have no elements")),
        _ => Ok(report),
    }
}

/// The sum of a function's outputs under weights.
struct Weighted<'a, F> {
    f: &'a F,
    inputs: &'a [Tensor],
    weights: &'a [f64],
}

/// A derivative from differences, and what rounding of the function's values may have added to it.
struct Difference {
    value: f64,
    rounding: f64,
}

impl<F: Fn(&[Tensor]) -> Result<Tensor>> Weighted<'_, F> {
    /// An error unless a second call gives what the first gave, but for the order in which threads add up.
    fn must_repeat(&self, first: &[f64]) -> Result<()> {
        let inputs: Vec<Tensor> = self.inputs.iter().map(Tensor::detach).collect();
        let again = no_grad(|| (self.f)(&inputs))?.to_vec::<f64>()?;
        let scale = first.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let same =
            |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-12 * scale;
        if again.len() == first.len() && first.iter().zip(&again).all(same) {
            return Ok(());
        }
        let detail = "the function gives other values when it is called again on the same inputs: seed the device in it, or switch dropout off";
        Err(Error::invalid("gradcheck", detail))
    }

    /// Compares the gradient of one input; the largest difference, relative to its limit.
    fn check(&self, position: usize, got: &[f64]) -> Result<f64> {
        let wanted: Vec<Difference> =
            (0..got.len()).map(|element| self.difference(position, element, STEP)).collect::<Result<_>>()?;
        let squares = wanted.iter().map(|want| want.value * want.value).sum::<f64>();
        let scale = (squares / got.len().max(1) as f64).sqrt();
        let mut worst = 0.0f64;
        for (element, (&got, want)) in got.iter().zip(&wanted).enumerate() {
            let mut limit = OF_ELEMENT * want.value.abs() + OF_INPUT * scale + want.rounding;
            let error = (got - want.value).abs();
            if error > limit {
                limit += (self.difference(position, element, 2.0 * STEP)?.value - want.value).abs();
            }
            let within = error <= limit;
            if !within {
                let detail = format!(
                    "gradient of input {position}, element {element}: got {got:e}, differences give {:e} (limit {limit:e})",
                    want.value
                );
                return Err(Error::invalid("gradcheck", detail));
            }
            worst = worst.max(if error > 0.0 { error / limit } else { 0.0 });
        }
        Ok(worst)
    }

    /// The derivative for one element of one input.
    fn difference(&self, position: usize, element: usize, step: f64) -> Result<Difference> {
        let values = self.inputs[position].to_vec::<f64>()?;
        let side = |x: f64| -> Result<Vec<f64>> {
            let mut values = values.clone();
            values[element] = x;
            let mut moved: Vec<Tensor> = self.inputs.iter().map(Tensor::detach).collect();
            moved[position] =
                Tensor::from_slice(&values, *moved[position].shape(), moved[position].device())?;
            no_grad(|| (self.f)(&moved))?.to_vec::<f64>()
        };
        let (low, high) = (values[element] - step, values[element] + step);
        let (down, up) = (side(low)?, side(high)?);
        let (mut change, mut terms) = (0.0, 0.0);
        for ((up, down), weight) in
            up.iter().zip(&down).zip(self.weights).filter(|((up, down), _)| up != down)
        {
            change += (up - down) * weight;
            terms += (up.abs() + down.abs()) * weight.abs();
        }
        // The distance as it came out in floating point, not as it was asked for.
        let distance = high - low;
        Ok(Difference { value: change / distance, rounding: ROUNDINGS * f64::EPSILON * terms / distance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<GradcheckReport> {
        let input = Tensor::from_slice(values, [values.len()], &ternion_cpu::device())?;
        gradcheck(|x| f(&x[0]), &[input])
    }

    /// The value of `y` with another gradient: `y + (factor - 1) (y - y)`, of which the last is held fast.
    fn with_gradient_times(factor: f64, y: &Tensor) -> Result<Tensor> {
        y.add(&y.sub(&y.detach())?.mul_scalar(factor - 1.0)?)
    }

    #[test]
    fn the_gradient_of_a_function_of_any_size_is_checked() {
        for size in [1.0, 1e-8, 1e-100, 1e30] {
            for factor in [5.0, 0.0, 1.001] {
                let wrong = |x: &Tensor| with_gradient_times(factor, &x.tanh()?.mul_scalar(size)?);
                let message = check(&[0.3, -1.2, 0.9], wrong).unwrap_err().to_string();
                assert!(message.starts_with("gradcheck: gradient of input 0, element 0: got"), "{message}");
            }
            let report = check(&[0.3, -1.2, 0.9], |x| x.tanh()?.mul_scalar(size)).unwrap();
            assert!(report.compared == 3 && report.worst <= 1.0, "{size}: {report:?}");
        }
    }

    #[test]
    fn honest_gradients_pass_where_they_vanish_and_where_values_are_large_beside_them() {
        let x = [0.0, 0.5, -2.0];
        check(&[0.0], |x| x.square()?.mul(x)).expect("a cubic where it is flat");
        check(&[0.0, 0.0], |x| x.cos()).expect("the top of a cosine");
        check(&x, |x| x.softmax(0)?.add_scalar(1e3)).expect("small changes of large values");
        check(&x, |x| x.mul_scalar(0.0)).expect("no influence");
        check(&x, |x| x.exp()?.sum_all()).expect("a sum");
    }

    #[test]
    fn a_function_that_does_not_repeat_itself_is_told_from_a_wrong_gradient() {
        let message = check(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], |x| x.dropout(0.5)).unwrap_err().to_string();
        assert!(message.starts_with("gradcheck: the function gives other values"), "{message}");
        let seeded = |x: &Tensor| {
            x.device().seed(1);
            x.dropout(0.5)
        };
        check(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], seeded).expect("seeded, it repeats itself");
    }
}
