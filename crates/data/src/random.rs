//! Seeded random numbers, the same on every platform: integer arithmetic only. No tensors.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The counter-based generator Philox4x32-10.
///
/// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). A `(seed, stream)`
/// pair names one sequence; no two pairs share a counter, so sequences never overlap.
#[derive(Debug, Clone)]
pub struct Philox {
    key: [u32; 2],
    stream: [u32; 2],
    next_block: u64,
    words: [u32; 4],
    words_used: usize,
}

impl Philox {
    /// The sequence number `stream` of `seed`, from its beginning.
    pub fn new(seed: u64, stream: u64) -> Self {
        Philox { key: halves(seed), stream: halves(stream), next_block: 0, words: [0; 4], words_used: 4 }
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.words_used == self.words.len() {
            let [block_low, block_high] = halves(self.next_block);
            self.words = philox_block([block_low, block_high, self.stream[0], self.stream[1]], self.key);
            self.next_block = self.next_block.wrapping_add(1);
            self.words_used = 0;
        }
        let word = self.words[self.words_used];
        self.words_used += 1;
        word
    }

    /// The next 64 random bits; the first word drawn is the low half.
    pub fn next_u64(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << 32
    }

    /// An integer in `0..bound`, each equally likely; 0 where `bound` is 0.
    ///
    /// The range is cut down to a multiple of `bound` by drawing again, so there is no modulo bias.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound <= 1 {
            return 0;
        }
        let biased_tail = (u64::MAX % bound + 1) % bound;
        loop {
            let bits = self.next_u64();
            if bits <= u64::MAX - biased_tail {
                return bits % bound;
            }
        }
    }

    /// A multiple of 2^-53 in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        // 53 bits fit a double exactly, and the scale is a power of two: no rounding.
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number in `[low, high)`, up to rounding.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Puts `items` into an order of which each is equally likely (Fisher and Yates, from the back).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

/// Low and high half.
fn halves(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

/// Four random words from a counter and a key.
fn philox_block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [low_0, high_0] = halves(u64::from(counter[0]) * u64::from(MULTIPLIERS[0]));
        let [low_1, high_1] = halves(u64::from(counter[2]) * u64::from(MULTIPLIERS[1]));
        counter = [high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with the authors' Random123 library.
    #[test]
    fn philox_gives_the_published_words() {
        assert_eq!(philox_block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox_block([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox_block([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn the_words_of_a_stream_are_the_blocks_of_its_counter() {
        let mut random = Philox::new(0x0123_4567_89ab_cdef, 0x0fed_cba9_7654_3210);
        let key = [0x89ab_cdef, 0x0123_4567];
        for block in 0..3 {
            let expected = philox_block([block, 0, 0x7654_3210, 0x0fed_cba9], key);
            let drawn: [u32; 4] = std::array::from_fn(|_| random.next_u32());
            assert_eq!(drawn, expected, "block {block}");
        }
    }

    #[test]
    fn seed_and_stream_each_change_the_sequence() {
        let first = |seed, stream| Philox::new(seed, stream).next_u64();
        assert_ne!(first(1, 0), first(2, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(1 << 32, 0));
        assert_ne!(first(1, 0), first(1, 1 << 32));
    }

    #[test]
    fn bounded_integers_stay_below_the_bound_and_are_even() {
        let mut random = Philox::new(7, 0);
        for bound in [0, 1] {
            assert_eq!(random.below(bound), 0);
        }
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        // 10,000 expected with deviation 91: five deviations.
        assert!(counts.iter().all(|&count| (9_543..=10_457).contains(&count)), "{counts:?}");
        // Two thirds of this range would be folded on its lower half by a plain remainder.
        let bound = u64::MAX / 3 * 2;
        let upper_half = (0..3_000).filter(|_| random.below(bound) >= bound / 2).count();
        assert!((1_363..=1_637).contains(&upper_half), "{upper_half}");
    }

    #[test]
    fn uniforms_fill_the_unit_interval() {
        let mut random = Philox::new(3, 9);
        let drawn: Vec<f64> = (0..20_000).map(|_| random.uniform()).collect();
        assert!(drawn.iter().all(|value| (0.0..1.0).contains(value)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 0.5).abs() < 0.0103, "{mean}");
        assert!(drawn.iter().any(|&value| value < 0.001) && drawn.iter().any(|&value| value > 0.999));
    }

    #[test]
    fn every_order_of_four_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        let mut random = Philox::new(11, 0);
        for _ in 0..24_000 {
            let mut items = [0_u8, 1, 2, 3];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // 1,000 expected with deviation 31: five deviations.
        assert!(counts.values().all(|count| (845..=1_155).contains(count)), "{counts:?}");
    }
}
