//! Sums and maxima of slices in several lanes: as fast as SIMD registers allow, more accurate than
//! one running sum, and always in the same order, whatever the CPU.
//!
//! A slice is split into blocks, and each block is summed in `LANES` interleaved lanes. The lanes
//! are accumulated over the blocks and added pairwise at the end. So the rounding errors of at most
//! 64 + (number of blocks) + 5 additions affect an element, instead of one per element of the
//! slice.
//!
//! Call these functions inside [`vectorized`](crate::simd::vectorized).

use crate::float::Float;

/// The number of interleaved sums: two of the widest f32 registers, so that an addition need not
/// wait for the previous one.
const LANES: usize = 32;
/// Additions to a lane in a block.
const STEPS: usize = 64;

/// Returns the sum of `term` over the elements of `values`.
#[inline(always)]
pub(crate) fn sum<T: Float>(values: &[T], term: impl Fn(T) -> T) -> T {
    let mut total = [T::ZERO; LANES];
    for block in values.chunks(LANES * STEPS) {
        let mut lanes = [T::ZERO; LANES];
        let chunks = block.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for lane in 0..LANES {
                lanes[lane] += term(chunk[lane]);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(rest) {
            *lane += term(value);
        }
        add(&mut total, &lanes);
    }
    reduce_lanes(total, |a, b| a + b)
}

/// Returns the sums of both results of `terms` over pairs of elements of two slices of equal
/// length.
#[inline(always)]
pub(crate) fn sums_of_pairs<T: Float>(left: &[T], right: &[T], terms: impl Fn(T, T) -> [T; 2]) -> [T; 2] {
    let right = &right[..left.len()];
    let mut totals = [[T::ZERO; LANES]; 2];
    for (left, right) in left.chunks(LANES * STEPS).zip(right.chunks(LANES * STEPS)) {
        // Two arrays instead of an array of two, so that they stay in registers.
        let (mut firsts, mut seconds) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        let (left, right) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
        let rest = left.remainder().iter().zip(right.remainder());
        for (left, right) in left.zip(right) {
            for lane in 0..LANES {
                let [first, second] = terms(left[lane], right[lane]);
                firsts[lane] += first;
                seconds[lane] += second;
            }
        }
        for (lane, (&left, &right)) in rest.enumerate() {
            let [first, second] = terms(left, right);
            firsts[lane] += first;
            seconds[lane] += second;
        }
        add(&mut totals[0], &firsts);
        add(&mut totals[1], &seconds);
    }
    totals.map(|total| reduce_lanes(total, |a, b| a + b))
}

/// Returns the dot product of two slices of equal length.
#[inline(always)]
pub(crate) fn dot<T: Float>(left: &[T], right: &[T]) -> T {
    let right = &right[..left.len()];
    let mut total = [T::ZERO; LANES];
    for (left, right) in left.chunks(LANES * STEPS).zip(right.chunks(LANES * STEPS)) {
        let mut lanes = [T::ZERO; LANES];
        let (left, right) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
        let rest = left.remainder().iter().zip(right.remainder());
        for (left, right) in left.zip(right) {
            for lane in 0..LANES {
                lanes[lane] += left[lane] * right[lane];
            }
        }
        for (lane, (&left, &right)) in rest.enumerate() {
            lanes[lane] += left * right;
        }
        add(&mut total, &lanes);
    }
    reduce_lanes(total, |a, b| a + b)
}

/// Returns the largest element, or -infinity if there is none. NaN is ignored.
#[inline(always)]
pub(crate) fn max<T: Float>(values: &[T]) -> T {
    let mut lanes = [T::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, value);
    }
    reduce_lanes(lanes, larger)
}

#[inline(always)]
fn larger<T: Float>(old: T, new: T) -> T {
    if new > old { new } else { old }
}

#[inline(always)]
fn add<T: Float>(total: &mut [T; LANES], lanes: &[T; LANES]) {
    for lane in 0..LANES {
        total[lane] += lanes[lane];
    }
}

/// Combines all lanes pairwise.
#[inline(always)]
fn reduce_lanes<T: Float>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = combine(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_accurate_at_every_length() {
        for length in [0usize, 1, 2, 31, 32, 33, 2047, 2048, 2049, 100_003] {
            let values: Vec<f32> = (0..length).map(|i| 1.0 + (i * 7919 % 1000) as f32 * 1e-3).collect();
            let exact: f64 = values.iter().map(|&value| f64::from(value)).sum();
            let squares: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
            let limit = |exact: f64| exact.abs() * 20.0 * f64::from(f32::EPSILON);
            assert!((f64::from(sum(&values, |x| x)) - exact).abs() <= limit(exact), "sum of {length}");
            assert!((f64::from(dot(&values, &values)) - squares).abs() <= limit(squares), "dot of {length}");
            let [a, b] = sums_of_pairs(&values, &values, |x, y| [x, x * y]);
            assert!((f64::from(a) - exact).abs() <= limit(exact), "first of pairs of {length}");
            assert!((f64::from(b) - squares).abs() <= limit(squares), "second of pairs of {length}");
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(&values), largest, "max of {length}");
        }
        assert_eq!(max(&[f32::NAN, 2.0, f32::NAN]), 2.0);
    }
}
