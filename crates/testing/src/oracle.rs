//! Building blocks of oracles: plain float64 loops, written from the definitions.

use crate::array::Array;

/// Returns `exp(x - max x) / sum exp(x - max x)` along `axis`.
pub fn softmax(x: &Array, axis: usize) -> Array {
    x.map_slices(axis, |slice| {
        let largest = slice.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = slice.iter().map(|v| (v - largest).exp()).sum();
        slice.iter().map(|v| (v - largest).exp() / sum).collect()
    })
}

/// Returns `log(sum(exp(x)))` of a slice, shifted by its maximum; -infinity for an empty slice or
/// one of only -infinity.
pub fn log_sum_exp(slice: &[f64]) -> f64 {
    let largest = slice.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest + slice.iter().map(|v| (v - largest).exp()).sum::<f64>().ln()
}

/// Returns `a [.., m, k] x b [.., k, n] -> [.., m, n]` with leading axes broadcast.
pub fn matmul(a: &Array, b: &Array) -> Array {
    let (a_batch, a_matrix) = a.shape.split_at(a.rank() - 2);
    let (b_batch, b_matrix) = b.shape.split_at(b.rank() - 2);
    let batch = crate::array::broadcast_shape(a_batch, b_batch);
    let (m, k, n) = (a_matrix[0], a_matrix[1], b_matrix[1]);
    let a = a.expand(&[&batch[..], a_matrix].concat());
    let b = b.expand(&[&batch[..], b_matrix].concat());
    let batches: usize = batch.iter().product();
    let mut data = Vec::with_capacity(batches * m * n);
    for at in 0..batches {
        let (a, b) = (&a.data[at * m * k..], &b.data[at * k * n..]);
        for i in 0..m {
            for j in 0..n {
                data.push((0..k).map(|l| a[i * k + l] * b[l * n + j]).sum());
            }
        }
    }
    Array::new(&[&batch[..], &[m, n]].concat(), data)
}

/// Returns the error function, to about 1e-16: its Taylor series for small |x|, its continued
/// fraction for large |x| (Abramowitz and Stegun 1964, 7.1.5 and 7.1.14).
pub fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if x.is_nan() {
        return x;
    }
    if magnitude < 3.0 {
        // erf(x) = 2/sqrt(pi) e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!! (7.1.6): all terms are positive,
        // so nothing cancels.
        let (mut term, mut sum, mut n) = (magnitude, magnitude, 0.0);
        while term > sum * 1e-18 {
            n += 1.0;
            term *= 2.0 * magnitude * magnitude / (2.0 * n + 1.0);
            sum += term;
        }
        return (std::f64::consts::FRAC_2_SQRT_PI * (-magnitude * magnitude).exp() * sum).copysign(x);
    }
    if magnitude > 6.0 {
        return 1f64.copysign(x);
    }
    let mut fraction = magnitude;
    for n in (1..=60).rev() {
        fraction = magnitude + f64::from(n) / 2.0 / fraction;
    }
    let complement = (-magnitude * magnitude).exp() / (fraction * std::f64::consts::PI.sqrt());
    (1.0 - complement).copysign(x)
}

/// Philox4x32-10 (Salmon et al. 2011): returns four random words from a 128-bit counter and a
/// 64-bit key.
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        let (low, high) = (0xd251_1f53u64 * u64::from(counter[0]), 0xcd9e_8d57u64 * u64::from(counter[2]));
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
    }
    counter
}

/// Returns word `word` of the random stream of `seed` that starts at block `block`.
pub fn random_word(seed: u64, block: u64, word: usize) -> u32 {
    let block = block.wrapping_add(word as u64 / 4);
    philox([block as u32, (block >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32])[word % 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_of_known_points() {
        // Abramowitz and Stegun 1964, table 7.1, and the limits.
        for (x, want) in [
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.5, 0.999_999_256_901_627_7),
        ] {
            assert!((erf(x) - want).abs() <= 4e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!((erf(0.0), erf(9.0), erf(f64::NEG_INFINITY)), (0.0, 1.0, -1.0));
    }

    #[test]
    fn philox_of_known_answers() {
        // The known-answer tests of Random123.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn matmul_broadcasts_leading_axes() {
        let a = Array::new(&[2, 1, 2], vec![1.0, 2.0, 3.0, 4.0]);
        let b = Array::new(&[2, 1], vec![10.0, 1.0]);
        assert_eq!(matmul(&a, &b), Array::new(&[2, 1, 1], vec![12.0, 34.0]));
    }

    #[test]
    fn softmax_sums_to_one() {
        let y = softmax(&Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 1000.0, 0.0, -1000.0]), 1);
        assert!((y.data[..3].iter().sum::<f64>() - 1.0).abs() <= 1e-15);
        assert_eq!(y.data[3..], [1.0, 0.0, 0.0]);
    }
}
