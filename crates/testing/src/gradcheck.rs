//! Gradcheck: compares the gradient of a function with central differences of the same function on
//! the same device.

use crate::values::Rng;
use ternion_core::autograd::custom_gradient_names;
use ternion_core::{DType, Error, GradOptions, Result, Tensor, grad, no_grad};

/// The result of [`gradcheck`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradcheckReport {
    /// The number of partial derivatives compared.
    pub compared: usize,
    /// The largest difference, relative to the limit: at most 1.
    pub worst: f64,
}

/// Steps of the central differences, relative to `max(1, |x|)` and to `|x|`. The first is the cube
/// root of f64's precision, where truncation and rounding errors balance for a function that
/// changes over distances of that scale. The larger step is for functions with less accurate
/// values, the smaller one for functions that change faster.
const STEPS: [f64; 3] = [6e-6, 6e-4, 6e-8];
/// The maximum relative uncertainty with which an estimate counts as a nonzero derivative.
const MAX_RELATIVE_UNCERTAINTY: f64 = 0.1;
/// Allowed difference relative to the derivative.
const ELEMENT_TOLERANCE: f64 = 1e-5;
/// Allowed difference relative to the root mean square of the derivatives for the same input.
const INPUT_TOLERANCE: f64 = 1e-6;
/// Allowed difference in rounding units of the terms that are subtracted: central differences
/// cannot resolve less.
const ROUNDING_UNITS: f64 = 64.0;

/// Compares the gradient of `f` at `inputs`, under a random cotangent, with central differences:
/// every partial derivative of every floating input.
///
/// Each element `x` is tried with a step of 6e-6 times `max(1, |x|)` and, if that is different, of
/// 6e-6 times `|x|`; if the result is uncertain, also with 100 times and a hundredth of each. The
/// uncertainty of an estimate is the rounding error of `f`'s values divided by the step, plus the
/// change of the estimate when the step is doubled. The estimate with the smallest relative
/// uncertainty is used; if none has a relative uncertainty below 0.1 (a derivative of zero), the
/// one with the smallest absolute uncertainty.
///
/// The limit is relative to the derivative and to the root mean square of the derivatives for its
/// input (each less its uncertainty), plus the estimate's uncertainty. There is no absolute limit,
/// so that the gradient of a function with small values is checked as strictly as any other.
///
/// Integer and bool inputs are held constant.
///
/// # Errors
/// Floating inputs that are not f64 (differences in narrower dtypes show nothing); an input or a
/// function without elements; a function that returns other values when it is called again on the
/// same inputs (with dropout, seed the device in `f`); an element around which `f` is not finite at
/// any step; a difference beyond the limit, with the input, the element, and both numbers in the
/// message; any error of `f`.
pub fn gradcheck(f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) -> Result<GradcheckReport> {
    gradcheck_all(|inputs| Ok(vec![f(inputs)?]), inputs)
}

/// Runs [`gradcheck`] for a function of several outputs. Outputs that are not floating are ignored.
///
/// # Errors
/// See [`gradcheck`].
pub fn gradcheck_all(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
) -> Result<GradcheckReport> {
    if let Some(input) = inputs.iter().find(|input| input.dtype().is_float() && input.dtype() != DType::F64) {
        return Err(Error::dtype("gradcheck", "input", input.dtype(), DType::F64));
    }
    let leaves = inputs.iter().map(create_leaf).collect::<Result<Vec<_>>>()?;
    let outputs: Vec<Tensor> = f(&leaves)?.into_iter().filter(|output| output.dtype().is_float()).collect();
    let mut rng = Rng::seeded("gradcheck");
    let mut random = |output: &Tensor| (0..output.elements()).map(|_| rng.uniform(-1.0, 1.0)).collect();
    let weights: Vec<Vec<f64>> = outputs.iter().map(&mut random).collect();
    let custom_gradients = custom_gradient_names(&outputs);
    let weighted = Weighted { f: &f, inputs, weights: weights.concat(), custom_gradients };
    weighted.check_reproducible(&values_of(&outputs)?)?;
    let computed = gradients(&outputs, &leaves, &weights)?;
    let mut report = GradcheckReport { compared: 0, worst: 0.0 };
    for (position, computed) in computed.into_iter().enumerate() {
        if !leaves[position].needs_grad() {
            continue;
        }
        let got = match computed {
            Some(grad) => grad.to_vec::<f64>()?,
            None => vec![0.0; inputs[position].elements()],
        };
        report.compared += got.len();
        report.worst = report.worst.max(weighted.check(position, &got)?);
    }
    match report.compared {
        0 => Err(Error::invalid("gradcheck", "nothing was compared: no floating input has elements")),
        _ => Ok(report),
    }
}

fn create_leaf(input: &Tensor) -> Result<Tensor> {
    let copy = input.detach().copy()?;
    if input.dtype().is_float() { copy.requires_grad() } else { Ok(copy) }
}

/// Returns the gradient of each leaf that has one, with these weights of the outputs.
fn gradients(outputs: &[Tensor], leaves: &[Tensor], weights: &[Vec<f64>]) -> Result<Vec<Option<Tensor>>> {
    let (mut roots, mut cotangents) = (Vec::new(), Vec::new());
    for (output, weights) in outputs.iter().zip(weights).filter(|(output, _)| output.needs_grad()) {
        roots.push(output.clone());
        cotangents.push(Tensor::from_slice(weights, *output.shape(), output.device())?);
    }
    let targets: Vec<Tensor> = leaves.iter().filter(|leaf| leaf.needs_grad()).cloned().collect();
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let mut computed = grad(&roots, &targets, &cotangents, options)?.into_iter();
    let one = |leaf: &Tensor| if leaf.needs_grad() { computed.next().flatten() } else { None };
    Ok(leaves.iter().map(one).collect())
}

/// Returns the elements of all floating tensors.
fn values_of(outputs: &[Tensor]) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    for output in outputs.iter().filter(|output| output.dtype().is_float()) {
        values.extend(output.to_vec::<f64>()?);
    }
    Ok(values)
}

/// The weighted sum of a function's outputs.
struct Weighted<'a, F> {
    f: &'a F,
    inputs: &'a [Tensor],
    weights: Vec<f64>,
    /// The names of the functions in its graph that have custom gradients.
    custom_gradients: Vec<&'static str>,
}

/// An estimate of a derivative by differences, with its uncertainty.
#[derive(Clone, Copy)]
struct Estimate {
    value: f64,
    /// The part due to rounding of the function's values.
    rounding: f64,
    /// The change when the step is doubled.
    truncation: f64,
}

impl Estimate {
    fn uncertainty(&self) -> f64 {
        self.rounding + self.truncation
    }

    /// Returns whether this estimate is more certain than `other`. The comparison is relative to
    /// the estimate: if a step is much larger than a small `x`, the estimate is small, and so is
    /// its absolute uncertainty.
    fn is_better(&self, other: &Estimate) -> bool {
        let relative = |estimate: &Estimate| estimate.uncertainty() / estimate.value.abs();
        let (this_relative, other_relative) = (relative(self), relative(other));
        match (this_relative < MAX_RELATIVE_UNCERTAINTY, other_relative < MAX_RELATIVE_UNCERTAINTY) {
            (true, true) => this_relative < other_relative,
            (false, false) => self.uncertainty() < other.uncertainty(),
            (is_certain, _) => is_certain,
        }
    }

    /// Returns whether other steps would hardly improve the estimate.
    fn is_good(&self) -> bool {
        self.uncertainty() <= ELEMENT_TOLERANCE * self.value.abs()
    }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Weighted<'_, F> {
    /// Returns an error unless a second call returns the same values, up to rounding that depends
    /// on the order in which threads add.
    fn check_reproducible(&self, first: &[f64]) -> Result<()> {
        let inputs: Vec<Tensor> = self.inputs.iter().map(Tensor::detach).collect();
        let second = values_of(&no_grad(|| (self.f)(&inputs))?)?;
        let scale = first.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let same =
            |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-12 * scale;
        if second.len() == first.len() && first.iter().zip(&second).all(same) {
            return Ok(());
        }
        let detail = "the function gives other values when it is called again on the same inputs: seed the device in it, or switch dropout off";
        Err(Error::invalid("gradcheck", detail))
    }

    /// Compares the gradient of one input and returns the largest difference relative to its limit.
    fn check(&self, position: usize, got: &[f64]) -> Result<f64> {
        let values = self.inputs[position].to_vec::<f64>()?;
        let estimates: Vec<Estimate> =
            (0..got.len()).map(|element| self.estimate(position, element, &values)).collect::<Result<_>>()?;
        // An uncertain estimate contributes only the part that is certain.
        let known = |want: &Estimate| (want.value.abs() - want.uncertainty()).max(0.0).powi(2);
        let scale = (estimates.iter().map(known).sum::<f64>() / got.len().max(1) as f64).sqrt();
        let mut worst = 0.0f64;
        for (element, (&got, want)) in got.iter().zip(&estimates).enumerate() {
            let limit = ELEMENT_TOLERANCE * want.value.abs() + INPUT_TOLERANCE * scale + want.uncertainty();
            let error = (got - want.value).abs();
            let is_within = error <= limit;
            if !is_within {
                let custom_gradients = match self.custom_gradients.join(", ") {
                    names if names.is_empty() => names,
                    names => format!("; gradients that were given: that of {names}"),
                };
                let detail = format!(
                    "gradient of input {position}, element {element}: got {got:e}, differences give {:e} (limit {limit:e}){custom_gradients}",
                    want.value
                );
                return Err(Error::invalid("gradcheck", detail));
            }
            worst = worst.max(if error > 0.0 { error / limit } else { 0.0 });
        }
        Ok(worst)
    }

    /// Returns the best estimate of the derivative for one element of one input.
    fn estimate(&self, position: usize, element: usize, values: &[f64]) -> Result<Estimate> {
        let x = values[element];
        let mut best: Option<Estimate> = None;
        let steps = steps(x);
        for &step in &steps {
            let shifted = |step: f64| self.difference(position, element, values, step);
            let (once, twice) = (shifted(step)?, shifted(2.0 * step)?);
            let truncation = (twice.value - once.value).abs();
            let estimate = Estimate { truncation, ..once };
            let is_better = best.is_none_or(|best| estimate.is_better(&best));
            if estimate.uncertainty().is_finite() && estimate.value.is_finite() && is_better {
                best = Some(estimate);
            }
            if best.is_some_and(|best| best.is_good()) {
                break;
            }
        }
        best.ok_or_else(|| {
            let tried: Vec<String> = steps.iter().map(|step| format!("{step:e}")).collect();
            let detail = format!(
                "input {position}, element {element}: around x = {x:e} the function is not finite at any of the steps {}, so that differences mean nothing",
                tried.join(", ")
            );
            Error::invalid("gradcheck", detail)
        })
    }

    /// Returns an estimate of the derivative for one element of one input, without its truncation
    /// error.
    fn difference(&self, position: usize, element: usize, values: &[f64], step: f64) -> Result<Estimate> {
        let evaluate = |x: f64| -> Result<Vec<f64>> {
            let mut values = values.to_vec();
            values[element] = x;
            let mut shifted: Vec<Tensor> = self.inputs.iter().map(Tensor::detach).collect();
            shifted[position] =
                Tensor::from_slice(&values, *shifted[position].shape(), shifted[position].device())?;
            values_of(&no_grad(|| (self.f)(&shifted))?)
        };
        let (low, high) = (values[element] - step, values[element] + step);
        let (down, up) = (evaluate(low)?, evaluate(high)?);
        let (mut change, mut terms) = (0.0, 0.0);
        for ((up, down), weight) in
            up.iter().zip(&down).zip(&self.weights).filter(|((up, down), _)| up != down)
        {
            change += (up - down) * weight;
            terms += (up.abs() + down.abs()) * weight.abs();
        }
        // The actual distance in floating point, not the nominal one.
        let distance = high - low;
        let rounding = ROUNDING_UNITS * f64::EPSILON * terms / distance;
        Ok(Estimate { value: change / distance, rounding, truncation: 0.0 })
    }
}

/// Returns the steps to try around `x`, the most promising first.
fn steps(x: f64) -> Vec<f64> {
    let size = x.abs();
    let scales = if size > 0.0 && size < 1.0 { vec![1.0, size] } else { vec![size.max(1.0)] };
    STEPS.iter().flat_map(|step| scales.iter().map(move |scale| step * scale)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<GradcheckReport> {
        let input = Tensor::from_slice(values, [values.len()], &ternion_cpu::device())?;
        gradcheck(|x| f(&x[0]), &[input])
    }

    /// Returns the value of `y` with its gradient multiplied by `factor`: `y + (factor - 1) (y -
    /// y)`, where the last `y` is detached.
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
    fn correct_gradients_pass_if_they_are_zero_and_if_values_are_much_larger() {
        let x = [0.0, 0.5, -2.0];
        check(&[0.0], |x| x.square()?.mul(x)).expect("a cubic where it is flat");
        check(&[0.0, 0.0], |x| x.cos()).expect("the top of a cosine");
        check(&x, |x| x.softmax(0)?.add_scalar(1e3)).expect("small changes of large values");
        check(&x, |x| x.mul_scalar(0.0)).expect("no influence");
        check(&x, |x| x.exp()?.sum_all()).expect("a sum");
    }

    #[test]
    fn a_function_that_is_not_reproducible_is_distinguished_from_a_wrong_gradient() {
        let message = check(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], |x| x.dropout(0.5)).unwrap_err().to_string();
        assert!(message.starts_with("gradcheck: the function gives other values"), "{message}");
        let seeded = |x: &Tensor| {
            x.device().seed(1);
            x.dropout(0.5)
        };
        check(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], seeded).expect("seeded, it repeats itself");
    }

    #[test]
    fn the_step_fits_the_size_of_the_input() {
        for size in [1e-12, 1e-7, 1e-5, 1e-2, 1.0, 1e3, 1e12] {
            let x = [size, -3.0 * size, 0.5 * size];
            let functions: [fn(&Tensor) -> Result<Tensor>; 3] =
                [|x| x.square(), |x| x.abs()?.log(), |x| x.recip()];
            for (number, f) in functions.into_iter().enumerate() {
                let report = check(&x, f).unwrap_or_else(|error| panic!("{number} at {size:e}: {error}"));
                assert_eq!(report.compared, 3);
                for factor in [1.3, 1.1, 1.001] {
                    let wrong = check(&x, |x| with_gradient_times(factor, &f(x)?));
                    assert!(wrong.is_err(), "{number} at {size:e}: {factor} times the gradient passed");
                }
            }
        }
        for at in [2e-5, 3e-5] {
            assert!(check(&[at], |x| with_gradient_times(1.3, &x.recip()?)).is_err(), "{at:e}");
        }
    }

    #[test]
    fn where_no_step_gives_numbers_the_error_says_so() {
        let text = check(&[-1.0], |x| x.log()).unwrap_err().to_string();
        let expected = "gradcheck: input 0, element 0: around x = -1e0 the function is not finite at any of the steps 6e-6";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn integers_are_held_constant_and_every_output_counts() {
        let device = ternion_cpu::device();
        let x = Tensor::from_slice(&[0.5, -1.0, 2.0, 0.1], [2, 2], &device).unwrap();
        let index = Tensor::from_slice(&[1i64, 0, 1], [3], &device).unwrap();
        let select = |x: &[Tensor]| x[0].index_select(0, &x[1]);
        assert_eq!(gradcheck(select, &[x.clone(), index.clone()]).unwrap().compared, 4);
        let both = |factor: f64| {
            let f = move |x: &[Tensor]| {
                let chosen = x[0].index_select(0, &x[1])?;
                Ok(vec![chosen.exp()?, x[1].clone(), with_gradient_times(factor, &chosen.tanh()?)?])
            };
            gradcheck_all(f, &[x.clone(), index.clone()])
        };
        assert_eq!(both(1.0).unwrap().compared, 4);
        assert!(both(1.01).is_err(), "the last output");
    }
}
