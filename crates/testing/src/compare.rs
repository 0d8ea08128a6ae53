//! Element-by-element comparison of numbers. Every comparison has the form `difference <= limit`,
//! so that NaN fails.

use half::{bf16, f16};
use std::fmt;
use ternion_core::DType;

/// Rounds `value` to `dtype`. Values for integer dtypes must be integers in range.
pub fn round_to(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        DType::Bool => f64::from(u8::from(value != 0.0)),
        _ => value,
    }
}

/// Rounds an f32 to TF32: 10 fraction bits, to nearest, ties away from zero. Infinities and NaN are
/// unchanged.
pub fn round_to_tf32(value: f64) -> f64 {
    let value = value as f32;
    match value.is_finite() {
        true => f64::from(f32::from_bits((value.to_bits() + 0x1000) & !0x1fff)),
        false => f64::from(value),
    }
}

/// Returns the largest finite value of a floating dtype.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => f16::MAX.to_f64(),
        DType::BF16 => bf16::MAX.to_f64(),
        _ => f64::MAX,
    }
}

/// Returns the distance between neighboring values of a floating dtype around `value`; 0 for other
/// dtypes.
pub fn ulp(dtype: DType, value: f64) -> f64 {
    let (fraction_bits, smallest_exponent) = match dtype {
        DType::F64 => (52, -1022),
        DType::F32 => (23, -126),
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        _ => return 0.0,
    };
    if !value.is_finite() {
        return 0.0;
    }
    let exponent = match value == 0.0 {
        true => smallest_exponent,
        false => (value.abs().log2().floor() as i32).max(smallest_exponent),
    };
    2f64.powi(exponent - fraction_bits)
}

/// Returns whether `got`, an element of dtype `dtype`, is within `limit` of `want`. NaN is correct
/// only if `want` is NaN. Infinity must match an infinity of the same sign, unless `want` is so
/// close to the end of the dtype's range that the limit extends beyond it.
pub fn agrees(dtype: DType, got: f64, want: f64, limit: f64) -> bool {
    if want.is_nan() {
        return got.is_nan();
    }
    if got == round_to(dtype, want) {
        return true;
    }
    if got.is_infinite() && want.is_finite() {
        return got.signum() == want.signum() && want.abs() + limit >= largest(dtype);
    }
    (got - want).abs() <= limit
}

/// One wrong element.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementError {
    /// Its index.
    pub index: Vec<usize>,
    /// The actual value.
    pub got: f64,
    /// The expected value.
    pub want: f64,
    /// The limit of the difference.
    pub limit: f64,
}

impl fmt::Display for ElementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: got {:?}, want {:?} within {:.3e}", self.index, self.got, self.want, self.limit)
    }
}

/// The differences between two tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The first wrong element in row-major order.
    pub first: ElementError,
    /// The element that exceeds its limit the most (NaN ranks highest).
    pub worst: ElementError,
    /// The number of wrong elements.
    pub bad: usize,
    /// The number of all elements.
    pub elements: usize,
    /// Root mean square of the differences, divided by that of the expected values.
    pub relative_norm: f64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} elements bad; first at {}; worst at {}; relative norm of the difference {:.3e}",
            self.bad, self.elements, self.first, self.worst, self.relative_norm
        )
    }
}

/// Compares every element and returns their number.
///
/// # Errors
/// Returns how they differ if an element exceeds its limit.
pub fn compare(
    dtype: DType,
    shape: &[usize],
    got: &[f64],
    want: &[f64],
    limit: impl Fn(usize) -> f64,
) -> Result<usize, Box<Mismatch>> {
    assert!(got.len() == want.len(), "as many elements on both sides");
    let is_bad = |&position: &usize| !agrees(dtype, got[position], want[position], limit(position));
    let Some(first) = (0..got.len()).find(is_bad) else { return Ok(got.len()) };
    let describe = |position: usize| ElementError {
        index: index_of(shape, position),
        got: got[position],
        want: want[position],
        limit: limit(position),
    };
    // A NaN ratio, and any difference where the limit is 0, counts as infinite.
    let excess = |position: usize| {
        let ratio = (got[position] - want[position]).abs() / limit(position);
        if ratio.is_nan() { f64::INFINITY } else { ratio }
    };
    let bad: Vec<usize> = (first..got.len()).filter(is_bad).collect();
    let worst = bad
        .iter()
        .copied()
        .fold(first, |worst, position| if excess(position) > excess(worst) { position } else { worst });
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = squares(&mut got.iter().zip(want).map(|(g, w)| g - w));
    Err(Box::new(Mismatch {
        first: describe(first),
        worst: describe(worst),
        bad: bad.len(),
        elements: got.len(),
        relative_norm: (difference / squares(&mut want.iter().copied())).sqrt(),
    }))
}

/// Returns the index of the element at `position` in row-major order.
pub fn index_of(shape: &[usize], mut position: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = position % shape[axis].max(1);
        position /= shape[axis].max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_fails_unless_expected() {
        assert!(!agrees(DType::F32, f64::NAN, 1.0, 1e9));
        assert!(!agrees(DType::F32, 1.0, f64::NAN, f64::INFINITY));
        assert!(agrees(DType::F32, f64::NAN, f64::NAN, 0.0));
        assert!(!agrees(DType::F32, 1.0, 1.0 + 1e-3, f64::NAN), "a limit that is NaN allows nothing");
    }

    #[test]
    fn infinity_must_be_infinity() {
        let inf = f64::INFINITY;
        assert!(agrees(DType::F32, inf, inf, 0.0));
        assert!(!agrees(DType::F32, -inf, inf, 0.0));
        assert!(!agrees(DType::F32, 1e30, inf, 1e3));
        assert!(!agrees(DType::F32, inf, 1e30, 1e3));
        // 65520 and above round to infinity in f16. For a number just below, infinity is accepted
        // if the limit allows it.
        assert!(agrees(DType::F16, inf, 1e6, 0.0));
        assert!(agrees(DType::F16, inf, 65500.0, 32.0));
        assert!(!agrees(DType::F16, inf, 60000.0, 32.0));
        assert!(!agrees(DType::F16, -inf, 65500.0, 32.0));
        assert!(!agrees(DType::F16, 65504.0, 1e6, 32.0));
    }

    #[test]
    fn ulp_of_known_values() {
        assert_eq!(ulp(DType::F32, 1.0), f64::from(f32::EPSILON));
        assert_eq!(ulp(DType::F16, 1.5), 2f64.powi(-10));
        assert_eq!(ulp(DType::BF16, -3.0), 2f64.powi(-6));
        assert_eq!(ulp(DType::F16, 0.0), 2f64.powi(-24));
        assert_eq!(ulp(DType::F64, 4.0), 4.0 * f64::EPSILON);
        assert_eq!(ulp(DType::I32, 7.0), 0.0);
    }

    #[test]
    fn tf32_has_ten_bits_and_ties_go_away_from_zero() {
        let step = 2f64.powi(-10);
        for (value, want) in [
            (1.0, 1.0),
            (1.0 + step, 1.0 + step),
            (1.0 + 0.49 * step, 1.0),
            (1.0 + 0.5 * step, 1.0 + step),
            (-1.0 - 1.5 * step, -1.0 - 2.0 * step),
            (2.0 - step / 4.0, 2.0),
            (f64::INFINITY, f64::INFINITY),
            (f64::from(f32::MAX), f64::INFINITY),
            (f64::from(f32::MIN_POSITIVE) * 2f64.powi(-23), 0.0),
        ] {
            assert_eq!(round_to_tf32(value), want, "{value}");
            assert_eq!(round_to_tf32(-value), -want, "{value}");
        }
        assert!(round_to_tf32(f64::from(f32::from_bits(0x7fff_ffff))).is_nan());
    }

    #[test]
    fn a_mismatch_names_first_and_worst() {
        let (want, mut got) = (vec![1.0; 6], vec![1.0; 6]);
        got[2] = 1.1;
        got[5] = f64::NAN;
        let mismatch = compare(DType::F32, &[2, 3], &got, &want, |_| 1e-3).unwrap_err();
        assert_eq!((mismatch.bad, mismatch.elements), (2, 6));
        assert_eq!(
            (mismatch.first.index.as_slice(), mismatch.worst.index.as_slice()),
            (&[0, 2][..], &[1, 2][..])
        );
        assert_eq!(compare(DType::F32, &[6], &want, &want, |_| 0.0), Ok(6));
    }
}
