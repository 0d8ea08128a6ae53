//! A cache of this thread's choices, keyed by everything that they depend on.

use super::choice::{Choice, Choices, Device, Output, Sizes};
use super::operand::Operand;
use crate::variant::gemm::{EpilogueVariant, MmaInput};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use ternion_core::DType;

/// The maximum number of products whose choices are cached.
const MAX_CACHED: usize = 4096;

/// Everything that a choice depends on.
#[derive(Eq)]
struct ChoiceKey {
    input: MmaInput,
    device: Device,
    fused: Option<EpilogueVariant>,
    /// The dtype of the result, which determines its size and the available epilogues.
    output: DType,
    /// Whether a and b are aligned.
    are_aligned: [bool; 2],
    /// Whether boxes of the result are stored by tensor maps.
    stores_boxes: bool,
    /// m, n, k and the number of matrices; a's stride from row to row and its stride along a row,
    /// then b's.
    matrix: [isize; 8],
    /// Size, stride of a, of b and of the result for each batch axis.
    batch: SmallVec<[[isize; 4]; 2]>,
}

impl PartialEq for ChoiceKey {
    /// Sizes and strides, which differ most often, are compared without branches and without a call
    /// of `memcmp`.
    #[inline]
    fn eq(&self, other: &ChoiceKey) -> bool {
        let differing = |one: &[isize], other: &[isize]| {
            one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other))
        };
        differing(&self.matrix, &other.matrix) == 0
            && self.batch.len() == other.batch.len()
            && self.batch.iter().zip(&other.batch).all(|(one, other)| differing(one, other) == 0)
            && (self.input, self.output, self.fused) == (other.input, other.output, other.fused)
            && (self.are_aligned, self.stores_boxes) == (other.are_aligned, other.stores_boxes)
            && self.device == other.device
    }
}

/// Each product is looked up, and a small one takes less than a microsecond of host time in total.
/// A hash of one field after another waits for one multiplication per field; the multiplications
/// here are independent. Fields that rarely have more than one value in a program are not hashed,
/// only compared.
impl Hash for ChoiceKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // From the digits of pi.
        const FACTORS: [u64; 8] = [
            0x243f_6a88_85a3_08d3,
            0x1319_8a2e_0370_7345,
            0xa409_3822_299f_31d1,
            0x082e_fa98_ec4e_6c89,
            0x4528_21e6_38d0_1377,
            0xbe54_66cf_34e9_0c6d,
            0xc0ac_29b7_c97c_50dd,
            0x3f84_d5b5_b547_0917,
        ];
        let sum = |words: &[isize], factors: &[u64]| {
            let products =
                words.iter().zip(factors).map(|(&word, &factor)| (word as u64).wrapping_mul(factor));
            products.fold(0, u64::wrapping_add)
        };
        let matrix = sum(&self.matrix, &FACTORS);
        let batch = self.batch.iter().fold(0, |all: u64, axis| all.rotate_left(7) ^ sum(axis, &FACTORS[4..]));
        state.write_u64(matrix ^ batch.rotate_left(32) ^ self.output as u64);
    }
}

impl ChoiceKey {
    #[inline(always)]
    fn of(
        input: MmaInput,
        [a, b]: [&Operand<'_>; 2],
        Output { view: y, stores_boxes, fused }: Output<'_>,
        sizes: &Sizes,
        device: Device,
    ) -> ChoiceKey {
        let (a_strides, b_strides) = (a.view.layout.strides(), b.view.layout.strides());
        let y_strides = y.layout.strides();
        let leading = a_strides.len() - 2;
        let [m, n, k, matrices] = [sizes.m, sizes.n, sizes.k, sizes.matrices].map(|size| size as isize);
        let [a_row, a_inner, b_inner, b_column] =
            [a_strides[leading], a_strides[leading + 1], b_strides[leading], b_strides[leading + 1]];
        let mut batch = SmallVec::new();
        for axis in 0..leading {
            let size = a.view.layout.shape().dim(axis) as isize;
            batch.push([size, a_strides[axis], b_strides[axis], y_strides[axis]]);
        }
        ChoiceKey {
            input,
            device,
            fused,
            output: y.dtype,
            are_aligned: [a.is_aligned(), b.is_aligned()],
            stores_boxes,
            matrix: [m, n, k, matrices, a_row, a_inner, b_inner, b_column],
            batch,
        }
    }
}

thread_local! {
    static CACHE: RefCell<FxHashMap<ChoiceKey, Rc<Choices>>> =
        const { RefCell::new(FxHashMap::with_hasher(FxBuildHasher)) };
}

/// Clears the cache of this thread, so that all products are chosen again.
pub(crate) fn clear_choices() {
    CACHE.with_borrow_mut(FxHashMap::clear);
}

#[cold]
fn insert(key: ChoiceKey, choices: Rc<Choices>) {
    CACHE.with_borrow_mut(|cache| {
        // The cache is bounded: a program that never multiplies the same sizes twice must not fill
        // the memory.
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(key, choices);
    });
}

impl Choice {
    /// Returns the choice from the cache, or computes it once for each product with new sizes or
    /// strides: a lookup takes a fraction of the time.
    #[inline]
    pub(super) fn cached(
        input: MmaInput,
        operands: [&Operand<'_>; 2],
        output: Output<'_>,
        sizes: &Sizes,
        device: Device,
    ) -> Rc<Choices> {
        let key = ChoiceKey::of(input, operands, output, sizes, device);
        if let Some(cached_choices) = CACHE.with_borrow(|cache| cache.get(&key).cloned()) {
            return cached_choices;
        }
        let choices = Rc::new(Choice::select(input, operands, output, sizes, device));
        insert(key, choices.clone());
        choices
    }
}
