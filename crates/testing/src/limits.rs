//! How far a result may be from the oracle.

use crate::array::Array;
use crate::compare::{round_to, ulp};
use crate::table::OpCase;
use ternion_core::DType;

/// The limit of each element of one tensor.
pub type Limits = Vec<f64>;

/// The largest error, relative to the tensor's scale, that is attributed to rounding. Larger errors
/// in half precision mean that the inputs of the row are unsuitable.
const MAX_ROUNDING_ERROR: f64 = 1.0 / 16.0;

/// Returns the limits of an output of dtype `output` of a row run in `dtype`. `stepwise` is the
/// result of the same computation with intermediate rounding.
pub fn forward(row: &OpCase, dtype: DType, output: DType, want: &Array, stepwise: Option<&Array>) -> Limits {
    let exact = row.exact || !output.is_float();
    let tolerance = row.tolerances[usize::from(dtype != DType::F64)];
    let output_rounding = |position: usize| match output.is_half() {
        true => {
            2.0 * (round_to(output, want.data[position]) - want.data[position]).abs()
                + ulp(output, want.data[position])
        }
        false if row.casts && output == DType::F32 && dtype == DType::F64 => ulp(output, want.data[position]),
        false => 0.0,
    };
    let error = stepwise.map_or(0.0, |stepwise| relative_error(dtype, want, stepwise));
    let scale = scale(want);
    (0..want.elements())
        .map(|position| match exact {
            true => 0.0,
            false => {
                let value = want.data[position];
                tolerance.limit(finite(value))
                    + finite(output_rounding(position))
                    + 2.0 * error * (finite(value).abs() + scale)
            }
        })
        .collect()
}

/// Returns the limits of a gradient of dtype `dtype`. `stepwise` contains the results of the same
/// computation with intermediate rounding to half precision: after every op, and as in a fused
/// kernel. The least accurate of these results determines the limits.
pub fn gradient(row: &OpCase, dtype: DType, want: &Array, stepwise: &[&Array]) -> Limits {
    let errors = stepwise.iter().map(|stepwise| relative_error(dtype, want, stepwise));
    gradient_limits(row, dtype, want, errors.fold(0.0, f64::max))
}

/// Returns the limits of the elements of a gradient if only its derivatives along `directions` are
/// known.
///
/// In half precision the cost of rounding is the largest distance of any of `stepwise` from those
/// derivatives, and magnitudes are those of the first of `stepwise`: the gradient under test does
/// not affect its limits.
pub fn gradient_along(
    row: &OpCase,
    dtype: DType,
    directions: &[(Array, f64)],
    got: &Array,
    stepwise: &[&Array],
) -> Limits {
    let Some(first) = stepwise.first().filter(|_| dtype.is_half()) else {
        return gradient_limits(row, dtype, got, 0.0);
    };
    let error_of = |stepwise: &&Array| {
        let scale = scale(stepwise);
        let errors = directions.iter().map(|(direction, want)| {
            let sizes = direction.data.iter().zip(&stepwise.data).map(|(d, value)| d * (value.abs() + scale));
            let size = sizes.map(|size| size * size).sum::<f64>().sqrt();
            if size > 0.0 { (stepwise.dot(direction) - want).abs() / size } else { 0.0 }
        });
        errors.fold(0.0, f64::max)
    };
    let error = stepwise.iter().map(error_of).fold(0.0, f64::max);
    gradient_limits(row, dtype, first, error.min(MAX_ROUNDING_ERROR))
}

fn gradient_limits(row: &OpCase, dtype: DType, want: &Array, error: f64) -> Limits {
    let tolerance = row.grad_tolerances[usize::from(dtype != DType::F64)];
    // Each rounding has an error of at most half a rounding unit.
    let error =
        if dtype.is_half() { error.max(row.grad_roundings as f64 * dtype.epsilon() / 2.0) } else { 0.0 };
    let scale = scale(want);
    want.data
        .iter()
        .map(|&value| {
            let rounding = if dtype.is_half() { ulp(dtype, value) } else { 0.0 };
            tolerance.limit(value) + rounding + 2.0 * error * (value.abs() + scale)
        })
        .collect()
}

/// Returns the largest error of `rounded`, relative to an element's absolute value plus the
/// tensor's scale.
fn relative_error(dtype: DType, want: &Array, rounded: &Array) -> f64 {
    let scale = scale(want);
    let errors = want.data.iter().zip(&rounded.data).map(|(&want, &rounded)| {
        let error = (rounded - want).abs() / (want.abs() + scale);
        if error.is_finite() { error } else { 0.0 }
    });
    let bound = if dtype.is_half() { MAX_ROUNDING_ERROR } else { 0.0 };
    errors.fold(0.0, f64::max).min(bound)
}

/// Returns the root mean square of the finite elements.
fn scale(array: &Array) -> f64 {
    let squares: Vec<f64> = array.data.iter().filter(|v| v.is_finite()).map(|v| v * v).collect();
    if squares.is_empty() { 0.0 } else { (squares.iter().sum::<f64>() / squares.len() as f64).sqrt() }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Tolerance;

    fn row() -> OpCase {
        OpCase::new("op", "").f32_limit(0.0, 0.0)
    }

    #[test]
    fn half_precision_gets_twice_its_rounding_and_an_ulp() {
        let want = Array::new(&[2], vec![1.0, 1.0 + 2f64.powi(-12)]);
        let limits = forward(&row(), DType::F16, DType::F16, &want, None);
        assert_eq!(limits, [2f64.powi(-10), 2f64.powi(-11) + 2f64.powi(-10)]);
        assert_eq!(forward(&row(), DType::F16, DType::F32, &want, None), [0.0, 0.0]);
    }

    #[test]
    fn exact_rows_and_integers_have_a_limit_of_zero() {
        let want = Array::new(&[1], vec![3.0]);
        let loose = OpCase::new("op", "")
            .tolerances(Tolerance { abs: 1.0, rel: 1.0 }, Tolerance { abs: 1.0, rel: 1.0 });
        assert_eq!(forward(&loose, DType::I32, DType::I32, &want, None), [0.0]);
        assert_eq!(forward(&loose.exact(), DType::F32, DType::F32, &want, None), [0.0]);
    }

    #[test]
    fn the_error_attributed_to_rounding_is_bounded() {
        let (want, useless) = (Array::full(&[4], 1.0), Array::full(&[4], -50.0));
        let limits = gradient(&row(), DType::BF16, &want, &[&useless]);
        assert!(limits.iter().all(|&limit| limit < 0.3), "a gradient of zero must not pass: {limits:?}");
    }
}
