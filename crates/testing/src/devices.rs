//! Device comparison of a function, forward and backward.

use crate::agreement::{Allowance, Comparison, Computed, Rerun, all_nan};
use crate::array::Array;
use crate::compare::round_to;
use crate::memory_layout::tensor_with_layout;
use crate::values::Rng;
use ternion_core::{Device, Error, GradOptions, Result, Tensor, grad};

/// Runs `f` on devices `a` and `b` on the same inputs and compares, element by element, the outputs
/// and then the gradients of every floating input under the same random cotangents. Returns the
/// number of elements compared.
///
/// `b` is the reference. A difference is within the limit if it is at most
/// [`tolerance`](ternion_core::decorators::tolerance) of the dtype relative to the element, plus
/// some rounding units relative to the root mean square of its tensor. If a difference exceeds
/// this, `f` runs on `b` again, with every floating input moved by one ulp in random directions.
/// The limit then grows by 16 times the change that this makes to the element, and 4 times that of
/// the median element, since only rounding is left where terms cancel. So `f` may run several
/// times. It must compute the same each time (with dropout, seed the device in `f`).
///
/// In half precision the scale of each tensor of 16 elements or more is compared too, because
/// rounding errors average out in it: it may be off by two rounding units plus 4 times the change
/// caused by the moved inputs.
///
/// # Errors
/// [`Error::Mismatch`] that names the first tensor that differs, with the element, both numbers,
/// and the statistics of both tensors; if there are no elements, or all of them are NaN; if `f`
/// does not repeat its results where the devices differ; any error of `f`.
pub fn compare_devices(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    a: &Device,
    b: &Device,
    inputs: &[Tensor],
) -> Result<usize> {
    let comparison = Comparison::new("compare_devices", a.name(), b.name());
    let (first, second) = (on_device(&f, a, inputs)?, on_device(&f, b, inputs)?);
    if first.len() != second.len() {
        let outputs = |computed: &Computed| computed.len() - inputs.len();
        return Err(comparison.mismatch(format!(
            "{} outputs and {} outputs",
            outputs(&first),
            outputs(&second)
        )));
    }
    let repeat = |rerun: Rerun| {
        let moved =
            inputs.iter().enumerate().map(|(index, input)| rerun.apply(&format!("input {index}"), input));
        on_device(&f, b, &moved.collect::<Result<Vec<_>>>()?)
    };
    let compared = comparison.compare_all(&first, &second, repeat, |_| None)?;
    if all_nan(second.iter().filter_map(|(_, tensor)| tensor.as_ref()))? {
        let detail = "every element of every output and gradient is NaN on both sides: nothing was compared";
        return Err(Error::invalid("compare_devices", detail));
    }
    match compared {
        0 => Err(Error::invalid("compare_devices", "nothing was compared: no output has elements")),
        compared => Ok(compared),
    }
}

/// Compares two tensors element by element, within those limits of [`compare_devices`] that do not
/// depend on a function. NaN must match NaN, and infinities must be equal. Returns the number of
/// elements compared.
///
/// # Errors
/// [`Error::Mismatch`] that names `what`.
pub fn compare_tensors(what: &str, left: &Tensor, right: &Tensor) -> Result<usize> {
    let comparison = Comparison::new("compare_tensors", left.device().name(), right.device().name());
    comparison.compare(what, left, right, || Ok(Allowance::zero(right)))
}

/// Returns the outputs of `f`, then a gradient for each input: `None` for an integer input, and for
/// one that the outputs do not depend on.
fn on_device(
    f: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    device: &Device,
    inputs: &[Tensor],
) -> Result<Computed> {
    let leaves = inputs
        .iter()
        .map(|input| {
            let moved = input.detach().to_device(device)?;
            if moved.dtype().is_float() { moved.requires_grad() } else { Ok(moved) }
        })
        .collect::<Result<Vec<_>>>()?;
    let outputs = f(&leaves)?;
    let roots: Vec<Tensor> = outputs.iter().filter(|output| output.needs_grad()).cloned().collect();
    let mut rng = Rng::seeded("compare_devices");
    let cotangents = roots.iter().map(|root| random_cotangent(root, &mut rng)).collect::<Result<Vec<_>>>()?;
    let differentiable: Vec<Tensor> = leaves.iter().filter(|leaf| leaf.needs_grad()).cloned().collect();
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let mut gradients = grad(&roots, &differentiable, &cotangents, options)?.into_iter();
    let mut computed: Computed =
        (0..).map(|index| format!("output {index}")).zip(outputs.into_iter().map(Some)).collect();
    for (index, leaf) in leaves.iter().enumerate() {
        let gradient = if leaf.needs_grad() { gradients.next().flatten() } else { None };
        computed.push((format!("gradient of input {index}"), gradient));
    }
    Ok(computed)
}

/// Returns random weights for `output`, uploaded to its device without running any op there.
pub(crate) fn random_cotangent(output: &Tensor, rng: &mut Rng) -> Result<Tensor> {
    let dims = output.dims().to_vec();
    let weights = Array::from_fn(&dims, |_| round_to(output.dtype(), rng.uniform(-1.0, 1.0)));
    tensor_with_layout(&weights, output.dtype(), None, output.device())
}
