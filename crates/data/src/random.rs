//! Seeded random numbers, the same on every platform: integer arithmetic only. No tensors.

use ternion_core::philox::philox4x32;

/// A sequence of random numbers from the counter-based generator Philox4x32-10, which core also
/// uses to generate random tensors ([`philox4x32`]).
///
/// Each `(seed, stream)` pair selects one sequence. No two pairs share a counter, so sequences
/// never overlap.
#[derive(Debug, Clone)]
pub struct Philox {
    key: [u32; 2],
    stream: [u32; 2],
    next_block: u64,
    words: [u32; 4],
    words_used: usize,
}

impl Philox {
    /// Creates the generator at the start of sequence `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Philox {
            key: low_high_words(seed),
            stream: low_high_words(stream),
            next_block: 0,
            words: [0; 4],
            words_used: 4,
        }
    }

    /// Returns the next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.words_used == self.words.len() {
            let [block_low, block_high] = low_high_words(self.next_block);
            self.words = philox4x32([block_low, block_high, self.stream[0], self.stream[1]], self.key);
            self.next_block = self.next_block.wrapping_add(1);
            self.words_used = 0;
        }
        let word = self.words[self.words_used];
        self.words_used += 1;
        word
    }

    /// Returns the next 64 random bits. The first word drawn is the low one.
    pub fn next_u64(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << 32
    }

    /// Returns a uniformly distributed integer in `0..bound`, or 0 if `bound` is 0.
    ///
    /// Values from the incomplete last multiple of `bound` are rejected and drawn again, so there
    /// is no modulo bias.
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

    /// Returns a uniformly distributed multiple of 2^-53 in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        // 53 bits fit an f64 exactly, and the scale is a power of two: no rounding.
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns a uniformly distributed number in `[low, high)`, up to rounding.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Shuffles `items` so that every order is equally likely (Fisher-Yates, starting from the last
    /// item).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

/// Returns the low and the high word.
fn low_high_words(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data sets and splits are derived from these numbers, so they must never change.
    #[test]
    fn sequences_are_pinned() {
        let mut random = Philox::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        for expected in [
            [0xaef2_adf7, 0xf69b_5950, 0x3ceb_44f4, 0x89b6_573a],
            [0xec2a_b39f, 0x4671_fd85, 0x74de_cae0, 0x4b77_ec76],
            [0xd7bb_4a2f, 0xb8f7_6c27, 0x51cd_da28, 0x48cc_01cd],
        ] {
            let drawn: [u32; 4] = std::array::from_fn(|_| random.next_u32());
            assert_eq!(drawn, expected);
        }
        let mut order: Vec<usize> = (0..16).collect();
        Philox::new(42, 3).shuffle(&mut order);
        assert_eq!(order, [15, 9, 3, 1, 13, 12, 0, 6, 4, 5, 8, 14, 7, 10, 11, 2]);
        let mut random = Philox::new(3, 9);
        assert_eq!([random.uniform(), random.uniform()], [0.19938141020193612, 0.805420278908657]);
    }

    #[test]
    fn the_words_of_a_stream_are_the_blocks_of_its_counter() {
        let mut random = Philox::new(0x0123_4567_89ab_cdef, 0x0fed_cba9_7654_3210);
        let key = [0x89ab_cdef, 0x0123_4567];
        for block in 0..3 {
            let expected = philox4x32([block, 0, 0x7654_3210, 0x0fed_cba9], key);
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
    fn bounded_integers_are_below_the_bound_and_uniform() {
        let mut random = Philox::new(7, 0);
        for bound in [0, 1] {
            assert_eq!(random.below(bound), 0);
        }
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        // 10,000 expected, with standard deviation 91: five standard deviations.
        assert!(counts.iter().all(|&count| (9_543..=10_457).contains(&count)), "{counts:?}");
        // With a plain remainder, two thirds of the results would be in the lower half of this
        // range.
        let bound = u64::MAX / 3 * 2;
        let upper_half = (0..3_000).filter(|_| random.below(bound) >= bound / 2).count();
        assert!((1_363..=1_637).contains(&upper_half), "{upper_half}");
    }

    #[test]
    fn uniform_numbers_cover_the_unit_interval() {
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
        // 1,000 expected, with standard deviation 31: five standard deviations.
        assert!(counts.values().all(|count| (845..=1_155).contains(count)), "{counts:?}");
    }
}
