//! Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a counter and
//! a key give 128 random bits.
//!
//! It uses only integer arithmetic, so that every backend gives the same bits.
//! [`crate::ops::random`] describes how ops index their random words.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The fractional parts of the golden ratio and of the square root of 3, times 2^32. They are added
/// to the key before each round but the first.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Returns the four random words for `counter` with `key`.
#[inline]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
        }
        let [high0, low0] = wide_product(MULTIPLIERS[0], counter[0]);
        let [high1, low1] = wide_product(MULTIPLIERS[1], counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
    }
    counter
}

/// Returns the high and low words of a product.
#[inline]
fn wide_product(left: u32, right: u32) -> [u32; 2] {
    let product = u64::from(left) * u64::from(right);
    [(product >> 32) as u32, product as u32]
}

/// Returns words `4 * index` to `4 * index + 3` of the stream of `seed`.
#[inline]
pub fn block(seed: u64, index: u64) -> [u32; 4] {
    philox4x32([index as u32, (index >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32])
}

/// Returns word `index` of the stream of `seed` that starts at block `first`.
#[inline]
pub fn word(seed: u64, first: u64, index: u64) -> u32 {
    block(seed, first.wrapping_add(index / 4))[(index % 4) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the Random123 distribution (`kat_vectors`).
    #[test]
    fn known_answers_of_the_authors() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, expected) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ] {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    #[test]
    fn words_are_numbered_across_blocks() {
        let (seed, first) = (0x1234_5678_9abc_def0, u64::from(u32::MAX));
        assert_eq!(word(seed, first, 2), block(seed, first)[2]);
        assert_eq!(word(seed, first, 7), block(seed, first + 1)[3]);
        assert_eq!(block(seed, first + 1), philox4x32([0, 1, 0, 0], [0x9abc_def0, 0x1234_5678]));
    }
}
