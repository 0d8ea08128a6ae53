//! The index space of several tensors of one shape, as kernels take it: axes that can be merged in
//! all of the tensors are merged, and sizes are stored as divisors.

use ternion_core::geometry::{axes_of, merge_axes, sort_slowest_first};
use ternion_core::{Layout, MAX_RANK};

/// Division of integers below 2^31 by multiplication: `n / d = (mulhi(n, factor) + n) >> shift`
/// (Granlund and Montgomery 1994, figure 4.1).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    divisor: u32,
    factor: u32,
    shift: u32,
}

impl Divisor {
    /// Creates a divisor from 1 to 2^31 - 1. Larger values are clamped; kernels do not divide by
    /// the sizes of spaces that have such sizes.
    pub(crate) fn new(divisor: usize) -> Divisor {
        let divisor = divisor.clamp(1, i32::MAX as usize) as u32;
        let shift = divisor.next_power_of_two().trailing_zeros();
        let factor = ((1u64 << 32) * ((1u64 << shift) - u64::from(divisor)) / u64::from(divisor) + 1) as u32;
        Divisor { divisor, factor, shift }
    }

    #[cfg(test)]
    pub(crate) fn divide(self, n: u32) -> u32 {
        let high = (u64::from(n) * u64::from(self.factor)) >> 32;
        ((high as u32).wrapping_add(n)) >> self.shift
    }

    #[cfg(test)]
    pub(crate) fn divisor(self) -> u32 {
        self.divisor
    }

    #[cfg(test)]
    pub(crate) fn factor(self) -> u32 {
        self.factor
    }
}

/// Sizes and strides of `N` tensors, slowest axis first. The rank is at least 1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space<const N: usize> {
    pub(crate) rank: u32,
    /// The sizes, as divisors.
    dims: [Divisor; MAX_RANK],
    pub(crate) sizes: [i64; MAX_RANK],
    pub(crate) strides: [[i64; MAX_RANK]; N],
}

impl<const N: usize> Space<N> {
    /// A space without axes: a placeholder for kernels that do not use their space, and the initial
    /// value for `fill_from`.
    pub(crate) const EMPTY: Space<N> = Space {
        rank: 0,
        dims: [Divisor { divisor: 1, factor: 1, shift: 0 }; MAX_RANK],
        sizes: [1; MAX_RANK],
        strides: [[0; MAX_RANK]; N],
    };

    /// Returns the common space of `layouts`, which have the same shape, in the memory order of the
    /// first one.
    #[cfg(test)]
    pub(crate) fn of(layouts: [&Layout; N]) -> Space<N> {
        let mut space = Space::EMPTY;
        space.fill_from_layouts(layouts);
        space
    }

    /// Fills this space, which must be [`EMPTY`](Space::EMPTY), with the common axes of `layouts`,
    /// which have the same shape, in the memory order of the first one.
    #[inline]
    pub(crate) fn fill_from_layouts(&mut self, layouts: [&Layout; N]) {
        let mut axes = axes_of(layouts);
        sort_slowest_first(&mut axes, 0);
        self.fill_from(axes.iter().copied());
    }

    /// Returns the space of these axes, slowest first, in this order.
    pub(crate) fn in_order(axes: &[(usize, [i64; N])]) -> Space<N> {
        let mut space = Space::EMPTY;
        space.fill_from(axes.iter().copied());
        space
    }

    /// Fills this space, which must be [`EMPTY`](Space::EMPTY), with these axes, slowest first, in
    /// this order. It does so in the parameters of the kernel, because a space is large to copy.
    #[inline]
    pub(crate) fn fill_from(&mut self, axes: impl IntoIterator<Item = (usize, [i64; N])>) {
        let rank = merge_axes(axes, |axis, (size, strides)| {
            self.sizes[axis] = size as i64;
            (0..N).for_each(|tensor| self.strides[tensor][axis] = strides[tensor]);
        });
        if rank == 0 {
            // One element: the initial axis of size 1.
            self.strides.iter_mut().for_each(|strides| strides[0] = 1);
            self.rank = 1;
            return;
        }
        self.rank = rank as u32;
        (0..rank).for_each(|axis| self.dims[axis] = Divisor::new(self.sizes[axis] as usize));
    }

    /// Returns the index of the fastest axis.
    pub(crate) fn last(&self) -> usize {
        self.rank as usize - 1
    }

    /// Returns whether every tensor is dense in the order of this space.
    pub(crate) fn is_dense(&self) -> bool {
        self.rank == 1 && (0..N).all(|tensor| self.strides[tensor][0] == 1)
    }

    /// Returns whether the last axis is contiguous in the first tensor, and contiguous or broadcast
    /// in the others, and whether packs of `pack` elements, a power of two, never cross its end and
    /// are aligned.
    pub(crate) fn has_rows(&self, pack: usize) -> bool {
        let last = self.last();
        let last_stride = |tensor: usize| self.strides[tensor][last];
        // Faster than a division.
        let is_multiple = |count: i64| count & (pack as i64 - 1) == 0;
        let is_aligned = |tensor: usize| (0..last).all(|axis| is_multiple(self.strides[tensor][axis]));
        is_multiple(self.sizes[last])
            && last_stride(0) == 1
            && (0..N)
                .all(|tensor| last_stride(tensor) == 0 || (last_stride(tensor) == 1 && is_aligned(tensor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion_core::Shape;

    #[test]
    fn division_by_multiplication_is_exact() {
        let mut random = 7u64;
        let mut next = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as u32
        };
        for round in 0..200_000u32 {
            let divisor = match round {
                0..1000 => round + 1,
                _ => (next() >> (next() % 31)).max(1),
            };
            let fast = Divisor::new(divisor as usize);
            for n in [0, 1, divisor - 1, divisor, i32::MAX as u32, next()] {
                assert_eq!(fast.divide(n), n / divisor, "{n} / {divisor}");
            }
        }
    }

    fn shape(dims: &[usize]) -> Shape {
        Shape::new(dims).expect("a shape")
    }

    #[test]
    fn evenly_spaced_axes_are_merged() {
        let dense = Layout::row_major(shape(&[4, 6, 8]));
        assert!(Space::of([&dense, &dense]).is_dense());
        let permuted = dense.permute(&[2, 0, 1]).expect("a permutation");
        assert!(Space::of([&permuted, &permuted]).is_dense(), "the same order of memory");
        let space = Space::of([&dense, &permuted.permute(&[1, 2, 0]).expect("a permutation")]);
        assert!(space.is_dense());
        let bias = Layout::row_major(shape(&[8])).expand(&shape(&[4, 6, 8])).expect("broadcasts");
        let space = Space::of([&dense, &bias]);
        assert_eq!((space.rank, space.sizes[0], space.strides[1][0]), (2, 24, 0));
        assert!(space.has_rows(8) && !space.has_rows(16) && !space.is_dense());
        let point = Layout::row_major(shape(&[1, 1]));
        assert!(Space::of([&point]).is_dense(), "one element is dense");
    }
}
