//! Element-by-element comparison of tensors from two devices. The limits depend on the dtype, the
//! element, the root mean square of the tensor, and how much the function amplifies rounding
//! errors.

use crate::array::Array;
use crate::compare::{Mismatch, compare, round_to, ulp};
use crate::memory_layout::tensor_with_layout;
use crate::read::values_of;
use crate::values::Rng;
use std::cell::OnceCell;
use ternion_core::decorators::tolerance;
use ternion_core::{DType, Error, Result, Stats, Tensor, text};

/// Number of times a function is rerun on nudged inputs.
const NUDGED_RERUNS: usize = 4;
/// The limit of an element includes this factor times the largest change that nudging made to the
/// element.
const ELEMENT_CHANGE_FACTOR: f64 = 16.0;
/// The limit of an element also includes this factor times the median of these changes over the
/// tensor: the change of a single element may be zero by chance.
const MEDIAN_CHANGE_FACTOR: f64 = 4.0;

/// Returns whether `tensors` contain floating elements and all of these are NaN. Both sides are
/// then equal, but the comparison shows nothing.
pub(crate) fn all_nan<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Result<bool> {
    let mut elements = 0;
    for tensor in tensors.into_iter().filter(|tensor| tensor.dtype().is_float()) {
        let (_, values) = values_of(tensor)?;
        elements += values.elements();
        if !values.data.iter().all(|value| value.is_nan()) {
            return Ok(false);
        }
    }
    Ok(elements > 0)
}

/// The scale of a tensor (see [`scale_error`]) is compared only if it has at least this many
/// elements, so that rounding errors average out.
const MIN_SCALE_ELEMENTS: usize = 16;
/// The limit of the scale includes this factor times the largest change that nudging made to the
/// scale.
const SCALE_CHANGE_FACTOR: f64 = 4.0;

/// The results of a function on one device: tensors by name. `None` is a missing gradient.
pub(crate) type Computed = Vec<(String, Option<Tensor>)>;

/// The inputs of a rerun: unchanged, or with every floating element moved by one ulp in a random
/// direction. The number seeds the directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerun {
    Same,
    Nudged(usize),
}

impl Rerun {
    /// Returns the input `name` of this rerun: `tensor`, detached and, if the rerun is nudged,
    /// moved.
    pub(crate) fn apply(self, name: &str, tensor: &Tensor) -> Result<Tensor> {
        let Rerun::Nudged(number) = self else { return Ok(tensor.detach()) };
        if !tensor.dtype().is_float() {
            return Ok(tensor.detach());
        }
        let (dtype, mut values) = values_of(tensor)?;
        let mut rng = Rng::seeded(&format!("nudge {number} {name}"));
        for value in values.data.iter_mut().filter(|value| **value != 0.0) {
            *value = round_to(dtype, *value + rng.sign() * ulp(dtype, *value));
        }
        tensor_with_layout(&values, dtype, None, tensor.device())
    }
}

/// A comparison of tested results with a reference. The limits depend only on the reference.
/// Messages call the two sides first and second, as the arguments of the public functions.
pub(crate) struct Comparison {
    op: &'static str,
    names: [String; 2],
}

impl Comparison {
    pub(crate) fn new(op: &'static str, tested: &str, reference: &str) -> Comparison {
        Comparison { op, names: [format!("first ({tested})"), format!("second ({reference})")] }
    }

    pub(crate) fn mismatch(&self, detail: String) -> Error {
        let [left, right] = self.names.clone();
        Error::Mismatch { op: self.op, left, right, detail: detail.into() }
    }

    /// Compares two tensors and returns the number of elements compared. `noise` is called only if
    /// they differ by more than the default limits, and returns the additional allowance.
    pub(crate) fn compare(
        &self,
        what: &str,
        tested: &Tensor,
        reference: &Tensor,
        noise: impl FnOnce() -> Result<Allowance>,
    ) -> Result<usize> {
        if tested.shape() != reference.shape() || tested.dtype() != reference.dtype() {
            let describe_type = |tensor: &Tensor| format!("{:?} {}", tensor.shape(), tensor.dtype());
            return Err(self.mismatch(format!(
                "{what}: {} and {}",
                describe_type(tested),
                describe_type(reference)
            )));
        }
        let ((dtype, got), (_, want)) = (values_of(tested)?, values_of(reference)?);
        let strict = Allowance { elements: vec![0.0; want.elements()], ..Allowance::default() };
        if strict.check(dtype, &got, &want).is_ok() {
            return Ok(want.elements());
        }
        let compared = noise()?.check(dtype, &got, &want);
        compared.map(|()| want.elements()).map_err(|detail| self.mismatch(format!("{what}: {detail}")))
    }

    /// Compares the results of both sides in order. `rerun` recomputes them on the reference.
    /// `part_of(i)` names the part that is at fault if tensor `i` is the first to differ.
    pub(crate) fn compare_all(
        &self,
        tested: &Computed,
        reference: &Computed,
        rerun: impl Fn(Rerun) -> Result<Computed>,
        part_of: impl Fn(usize) -> Option<String>,
    ) -> Result<usize> {
        let noise = Noise { rerun: &rerun, reruns: OnceCell::new() };
        let mut compared = 0;
        for index in 0..reference.len() {
            let result = self.compare_at(index, tested, reference, &noise);
            compared += result.map_err(|error| self.with_part(part_of(index), error))?;
        }
        Ok(compared)
    }

    /// Compares tensor `index` of both sides. A gradient must exist on both sides or on neither.
    fn compare_at(
        &self,
        index: usize,
        tested: &Computed,
        reference: &Computed,
        noise: &Noise<'_>,
    ) -> Result<usize> {
        let what = &reference[index].0;
        match (&tested[index].1, &reference[index].1) {
            (Some(tested), Some(reference)) => {
                self.compare(what, tested, reference, || noise.allowance(self, index, reference))
            }
            (None, None) => Ok(0),
            (tested, _) => {
                let owner = &self.names[usize::from(tested.is_none())];
                Err(self.mismatch(format!("{what}: only the {owner} has one")))
            }
        }
    }

    /// Prepends the part at fault to the detail of `error`.
    fn with_part(&self, part: Option<String>, error: Error) -> Error {
        match (part, error) {
            (Some(part), Error::Mismatch { op, left, right, detail }) if op == self.op => {
                Error::Mismatch { op, left, right, detail: text![part, ": ", detail] }
            }
            (_, other) => other,
        }
    }

    fn not_reproducible(&self, what: &str) -> Error {
        let detail = format!(
            "{what} differs, and differs again when the {} repeats it on the same inputs: seed the device in the function, or switch dropout off",
            self.names[1]
        );
        Error::invalid(self.op, detail)
    }
}

/// The amounts that are added to the default limits because the function amplifies rounding errors.
#[derive(Default)]
pub(crate) struct Allowance {
    /// Added to the limit of each element of a floating tensor.
    elements: Vec<f64>,
    /// Added to the limit of the tensor's scale.
    scale: f64,
    /// The number of elements of an integer tensor that may differ: if values nearly tie, rounding
    /// decides which index an `argmax` returns.
    flips: usize,
}

impl Allowance {
    /// Returns an empty allowance for a tensor of this shape.
    pub(crate) fn zero(like: &Tensor) -> Allowance {
        Allowance { elements: vec![0.0; like.elements()], ..Allowance::default() }
    }

    fn check(&self, dtype: DType, got: &Array, want: &Array) -> std::result::Result<(), String> {
        let limits = limits(dtype, want);
        let limit = |element: usize| limits[element] + self.elements[element];
        if let Err(mismatch) = compare(dtype, &want.shape, &got.data, &want.data, limit)
            && (dtype.is_float() || mismatch.bad > self.flips)
        {
            return Err(describe(&mismatch, got, want));
        }
        // Rounding errors have both signs: a one-sided error is visible in the scale long before it
        // is visible in an element.
        let (off, limit) = (scale_error(got, want), 2.0 * dtype.epsilon() + self.scale);
        if dtype.is_half() && want.elements() >= MIN_SCALE_ELEMENTS && off > limit {
            let (first, second) = (Stats::of(&got.data), Stats::of(&want.data));
            return Err(format!(
                "over all {} elements of {:?} the scale differs by {off:.3e} (limit {limit:.3e}); first {first}; second {second}",
                want.elements(),
                want.shape
            ));
        }
        Ok(())
    }
}

/// Returns the relative difference in scale between `got` and `want`: `|<got, want> / <want, want>
/// - 1|`.
fn scale_error(got: &Array, want: &Array) -> f64 {
    let finite = got.data.iter().zip(&want.data).filter(|(got, want)| got.is_finite() && want.is_finite());
    let (dot, norm) =
        finite.fold((0.0, 0.0), |(dot, norm), (got, want)| (dot + (got - want) * want, norm + want * want));
    if norm > 0.0 { (dot / norm).abs() } else { 0.0 }
}

fn describe(mismatch: &Mismatch, got: &Array, want: &Array) -> String {
    let (first, worst) = (&mismatch.first, &mismatch.worst);
    format!(
        "{} of {} elements of {:?}; element {:?} is {:e} and {:e} (limit {:.3e}), worst {:?} {:e} and {:e} (limit {:.3e}); first {}; second {}",
        mismatch.bad,
        mismatch.elements,
        want.shape,
        first.index,
        first.got,
        first.want,
        first.limit,
        worst.index,
        worst.got,
        worst.want,
        worst.limit,
        Stats::of(&got.data),
        Stats::of(&want.data)
    )
}

/// Returns the limit of each element: a fraction of the element, one ulp, and some rounding units
/// of the tensor's root mean square, because a sum of large terms that cancel has their absolute
/// error. Fewer units suffice in half precision, whose sums are accumulated in f32.
fn limits(dtype: DType, want: &Array) -> Vec<f64> {
    let roundings = match dtype {
        dtype if !dtype.is_float() => return vec![0.0; want.elements()],
        dtype if dtype.is_half() => 4.0,
        _ => 32.0,
    };
    let sum_limit = roundings * dtype.epsilon() * root_mean_square(want);
    let element_limit = |&value: &f64| {
        let size = if value.is_finite() { value.abs() } else { 0.0 };
        tolerance(dtype) * size + sum_limit + ulp(dtype, value)
    };
    want.data.iter().map(element_limit).collect()
}

/// Returns the root mean square of the finite elements.
fn root_mean_square(array: &Array) -> f64 {
    let squares: Vec<f64> = array.data.iter().filter(|v| v.is_finite()).map(|v| v * v).collect();
    if squares.is_empty() { 0.0 } else { (squares.iter().sum::<f64>() / squares.len() as f64).sqrt() }
}

/// The effect of rounding on a function: how much its results on the reference change when every
/// input moves by one ulp.
///
/// If terms cancel (the gradient of a bias before a batch norm is zero except for rounding), a
/// limit relative to the result is meaningless.
struct Noise<'a> {
    /// Recomputes the compared results on the reference.
    rerun: &'a dyn Fn(Rerun) -> Result<Computed>,
    reruns: OnceCell<Vec<Computed>>,
}

impl Noise<'_> {
    /// Returns the results of all reruns: first that on the same inputs, then those on nudged
    /// inputs.
    fn reruns(&self) -> Result<&[Computed]> {
        if let Some(reruns) = self.reruns.get() {
            return Ok(reruns);
        }
        let runs = [Rerun::Same].into_iter().chain((0..NUDGED_RERUNS).map(Rerun::Nudged));
        let reruns = runs.map(self.rerun).collect::<Result<Vec<_>>>()?;
        Ok(self.reruns.get_or_init(|| reruns))
    }

    /// Returns the allowance for tensor `index`, whose value on the reference is `reference`.
    fn allowance(&self, comparison: &Comparison, index: usize, reference: &Tensor) -> Result<Allowance> {
        let (dtype, base) = values_of(reference)?;
        let (mut allowance, limits) = (Allowance::zero(reference), limits(dtype, &base));
        for (number, computed) in self.reruns()?.iter().enumerate() {
            let Some(nudged) = computed.get(index).and_then(|(_, tensor)| tensor.as_ref()) else { continue };
            let (_, nudged) = values_of(nudged)?;
            let repeats =
                || compare(dtype, &base.shape, &nudged.data, &base.data, |element| limits[element]).is_ok();
            if nudged.shape != base.shape || (number == 0 && !repeats()) {
                return Err(comparison.not_reproducible(&computed[index].0));
            }
            allowance.update(&nudged, &base);
        }
        let median = median(&allowance.elements);
        let widen =
            |change: &mut f64| *change = ELEMENT_CHANGE_FACTOR * *change + MEDIAN_CHANGE_FACTOR * median;
        allowance.elements.iter_mut().for_each(widen);
        allowance.scale *= SCALE_CHANGE_FACTOR;
        allowance.flips *= MEDIAN_CHANGE_FACTOR as usize;
        Ok(allowance)
    }
}

impl Allowance {
    /// Raises the largest changes to those between `nudged` and `base`.
    fn update(&mut self, nudged: &Array, base: &Array) {
        let mut flips = 0;
        for (largest, (nudged, base)) in self.elements.iter_mut().zip(nudged.data.iter().zip(&base.data)) {
            let change = (nudged - base).abs();
            flips += usize::from(change != 0.0);
            *largest = if change.is_finite() { change.max(*largest) } else { *largest };
        }
        self.flips = self.flips.max(flips);
        self.scale = self.scale.max(scale_error(nudged, base));
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_element_and_the_root_mean_square_of_the_tensor() {
        let small = limits(DType::F32, &Array::new(&[2], vec![1e-8, -2e-8]));
        assert!(small.iter().all(|&limit| limit < 1e-11), "{small:?}");
        let mixed = limits(DType::F32, &Array::new(&[2], vec![1.0, 1e-3]));
        assert!(mixed[0] < 2e-4 && mixed[1] < 1e-5, "{mixed:?}");
        assert_eq!(limits(DType::I32, &Array::new(&[1], vec![7.0])), [0.0]);
        let nothing_finite = limits(DType::F64, &Array::new(&[1], vec![f64::NAN]));
        assert_eq!(nothing_finite, [0.0]);
    }

    #[test]
    fn nudging_moves_each_element_by_one_ulp_and_leaves_zeros() {
        let cpu = ternion_cpu::device();
        let tensor = Tensor::from_slice(&[1.5f32, 0.0, -3.0], [3], &cpu).unwrap();
        let nudged = Rerun::Nudged(0).apply("x", &tensor).unwrap().to_vec::<f32>().unwrap();
        assert_eq!((nudged[0] - 1.5).abs(), f32::EPSILON);
        assert_eq!(nudged[1], 0.0);
        assert_eq!((nudged[2] + 3.0).abs(), 2.0 * f32::EPSILON);
        assert_eq!(Rerun::Same.apply("x", &tensor).unwrap().to_vec::<f32>().unwrap(), [1.5, 0.0, -3.0]);
    }
}
