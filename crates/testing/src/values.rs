//! Inputs of rows: random numbers seeded by the key of the case, so that a failure can be
//! reproduced anywhere.

use crate::array::Array;
use std::fmt;
use std::sync::Arc;

/// The distribution of the elements of an input.
#[derive(Clone)]
pub enum Values {
    /// Uniform between two bounds.
    Uniform(f64, f64),
    /// Either sign, with a magnitude between `gap` and `gap + 2`: away from a kink at zero.
    AwayFrom(f64),
    /// All different by at least 1/32, in random order, within about 8 of zero: for maxima, sorting
    /// and other ops with ties. (Up to 512 elements.)
    Distinct,
    /// Integers from the first up to and including the second.
    Integers(i64, i64),
    /// 0 or 1.
    Bools,
    /// Indices along an axis of another input: `0..shapes[input][axis]`.
    Index {
        /// The indexed input.
        input: usize,
        /// Its axis.
        axis: usize,
    },
    /// Like `Index`, but no index occurs twice in a slice along that axis (which is at least as
    /// long as this input's).
    UniqueIndex {
        /// The indexed input.
        input: usize,
        /// Its axis.
        axis: usize,
    },
    /// These values, repeated as needed.
    Fixed(Vec<f64>),
    /// Computed from the shapes of all inputs, the position of this input, and random numbers.
    Custom(Custom),
}

type Custom = Arc<dyn Fn(&[Vec<usize>], usize, &mut Rng) -> Vec<f64> + Send + Sync>;

impl Values {
    /// Creates a [`Values::Custom`].
    pub fn custom(f: impl Fn(&[Vec<usize>], usize, &mut Rng) -> Vec<f64> + Send + Sync + 'static) -> Values {
        Values::Custom(Arc::new(f))
    }

    /// Generates the values of input `position` of a case with inputs of these shapes.
    pub fn draw(&self, shapes: &[Vec<usize>], position: usize, rng: &mut Rng) -> Array {
        let shape = &shapes[position];
        let elements: usize = shape.iter().product();
        let data = match self {
            Values::Uniform(low, high) => (0..elements).map(|_| rng.uniform(*low, *high)).collect(),
            Values::AwayFrom(gap) => {
                (0..elements).map(|_| rng.sign() * rng.uniform(*gap, gap + 2.0)).collect()
            }
            Values::Distinct => rng
                .permutation(elements)
                .into_iter()
                .map(|k| (k as f64 - (elements / 2) as f64) / 32.0)
                .collect(),
            Values::Integers(low, high) => (0..elements).map(|_| rng.integer(*low, *high) as f64).collect(),
            Values::Bools => (0..elements).map(|_| rng.integer(0, 1) as f64).collect(),
            Values::Index { input, axis } => {
                let size = shapes[*input][*axis] as i64;
                (0..elements).map(|_| rng.integer(0, size - 1) as f64).collect()
            }
            Values::UniqueIndex { input, axis } => unique_index(shape, shapes[*input][*axis], *axis, rng),
            Values::Fixed(list) => list.iter().copied().cycle().take(elements).collect(),
            Values::Custom(f) => f(shapes, position, rng),
        };
        Array::new(shape, data)
    }
}

/// Returns random indices below `size` without duplicates: in a one-dimensional index altogether,
/// in an index of higher rank along `axis`.
fn unique_index(shape: &[usize], size: usize, axis: usize, rng: &mut Rng) -> Vec<f64> {
    let axis = if shape.len() == 1 { 0 } else { axis };
    let template = Array::zeros(shape);
    // The closure of `map_slices` may not change what it captures.
    let rng = std::cell::RefCell::new(rng);
    template
        .map_slices(axis, |slice| {
            let order = rng.borrow_mut().permutation(size);
            order[..slice.len()].iter().map(|&at| at as f64).collect()
        })
        .data
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Uniform(low, high) => write!(f, "Uniform({low}, {high})"),
            Values::AwayFrom(gap) => write!(f, "AwayFrom({gap})"),
            Values::Distinct => f.write_str("Distinct"),
            Values::Integers(low, high) => write!(f, "Integers({low}, {high})"),
            Values::Bools => f.write_str("Bools"),
            Values::Index { input, axis } => write!(f, "Index {{ input: {input}, axis: {axis} }}"),
            Values::UniqueIndex { input, axis } => {
                write!(f, "UniqueIndex {{ input: {input}, axis: {axis} }}")
            }
            Values::Fixed(list) => write!(f, "Fixed({list:?})"),
            Values::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// A generator of random inputs (SplitMix64; Steele et al. 2014), independent of the framework's
/// generator.
pub struct Rng(u64);

impl Rng {
    /// Creates a generator seeded with a hash (FNV-1a) of `text`.
    pub fn seeded(text: &str) -> Rng {
        Rng(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in `low..high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Returns -1 or 1.
    pub fn sign(&mut self) -> f64 {
        if self.bits() >> 63 == 0 { 1.0 } else { -1.0 }
    }

    /// Returns a uniform integer in `low..=high`; `low` if that is empty.
    pub fn integer(&mut self, low: i64, high: i64) -> i64 {
        let count = (high - low + 1).max(1) as u64;
        low + (self.bits() % count) as i64
    }

    /// Returns `0..count` in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for end in (1..count).rev() {
            order.swap(end, (self.bits() % (end as u64 + 1)) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_draws_the_same_values() {
        let draw = |text| Values::Uniform(-1.0, 1.0).draw(&[vec![9]], 0, &mut Rng::seeded(text));
        assert_eq!(draw("softmax [9]"), draw("softmax [9]"));
        assert_ne!(draw("softmax [9]"), draw("softmax [9] "));
    }

    #[test]
    fn values_satisfy_their_constraints() {
        let mut rng = Rng::seeded("values");
        let shapes = [vec![20, 20], vec![20, 5]];
        let draw = |values: Values, position: usize, rng: &mut Rng| values.draw(&shapes, position, rng).data;
        assert!(draw(Values::AwayFrom(0.1), 0, &mut rng).iter().all(|v| (0.1..=2.1).contains(&v.abs())));
        assert!(
            draw(Values::Integers(-2, 3), 0, &mut rng)
                .iter()
                .all(|v| (-2.0..=3.0).contains(v) && v.fract() == 0.0)
        );
        assert!(
            draw(Values::Index { input: 0, axis: 1 }, 1, &mut rng).iter().all(|v| (0.0..20.0).contains(v))
        );
        let mut distinct = draw(Values::Distinct, 0, &mut rng);
        distinct.sort_by(f64::total_cmp);
        assert!(distinct.windows(2).all(|pair| pair[1] - pair[0] >= 1.0 / 32.0));
        let unique = draw(Values::UniqueIndex { input: 0, axis: 1 }, 1, &mut rng);
        assert!(unique.chunks(5).all(|row| (0..5).all(|i| (0..i).all(|j| row[i] != row[j]))));
        assert_eq!(Values::Fixed(vec![1.0, 2.0]).draw(&[vec![3]], 0, &mut rng).data, [1.0, 2.0, 1.0]);
    }
}
