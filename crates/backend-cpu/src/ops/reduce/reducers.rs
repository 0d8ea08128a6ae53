//! The quantities that reductions compute: sums, products, minima and maxima and their positions.

use crate::number::{Number, Real};
use crate::simd::{Vectorize, vectorize};
use crate::storage::Compute;

/// A quantity that can be computed for subsets of the elements, whose values are then combined.
pub(crate) trait Reducer: Copy + Sync {
    /// The compute type of the elements.
    type In: Compute;
    /// The accumulated value of some elements.
    type Acc: Copy + Send + Sync;
    /// Whether the index of an element in its row matters.
    const USES_INDEX: bool = false;
    /// Returns the value of an empty set of elements.
    fn empty(self) -> Self::Acc;
    /// Returns the value of the elements of `block` (at least one), the first of which has index
    /// `first` in its row.
    fn fold(self, block: &[Self::In], first: usize, shift: Self::In) -> Self::Acc;
    /// Returns the value of one element.
    fn of_element(self, element: Self::In, index: usize, shift: Self::In) -> Self::Acc;
    /// Combines the values of two sets of elements; `left` comes before `right`.
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc;
    /// Combines `sums[i]` with `row[i]`, for all i. Empty `shifts` mean zeros.
    fn fold_row(self, sums: &mut [Self::Acc], row: &[Self::In], index: usize, shifts: &[Self::In]) {
        vectorize(FoldRow { reducer: self, sums, row, index, shifts });
    }
}

struct FoldRow<'a, R: Reducer> {
    reducer: R,
    sums: &'a mut [R::Acc],
    row: &'a [R::In],
    index: usize,
    shifts: &'a [R::In],
}

impl<R: Reducer> Vectorize for FoldRow<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let FoldRow { reducer, sums, row, index, shifts } = self;
        if shifts.is_empty() {
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum = reducer.combine(*sum, reducer.of_element(x, index, R::In::default()));
            }
        } else {
            for ((sum, &x), &shift) in sums.iter_mut().zip(row).zip(shifts) {
                *sum = reducer.combine(*sum, reducer.of_element(x, index, shift));
            }
        }
    }
}

/// The number of independent sums that a loop computes in parallel: four of the widest registers.
const LANES: usize = 64;

struct FoldLanes<'a, R: Reducer> {
    reducer: R,
    block: &'a [R::In],
    shift: R::In,
}

impl<R: Reducer> Vectorize for FoldLanes<'_, R> {
    type Output = R::Acc;
    #[inline(always)]
    fn run(self) -> R::Acc {
        let FoldLanes { reducer, block, shift } = self;
        let mut lanes = [reducer.empty(); LANES];
        let mut chunks = block.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = reducer.combine(*lane, reducer.of_element(x, 0, shift));
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(chunks.remainder()) {
            *lane = reducer.combine(*lane, reducer.of_element(x, 0, shift));
        }
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] = reducer.combine(lanes[lane], lanes[lane + width]);
            }
            width /= 2;
        }
        lanes[0]
    }
}

/// Defines reductions that accumulate in the element type and do not depend on the order of the
/// elements.
macro_rules! lanewise {
    ($($(#[$doc:meta])* $name:ident<T: $bound:ident>: $empty:expr, |$x:ident, $shift:ident| $of_element:expr, $combine:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<T>(pub(crate) std::marker::PhantomData<T>);

        impl<T: $bound> Reducer for $name<T> {
            type In = T;
            type Acc = T;
            #[inline(always)]
            fn empty(self) -> T { $empty }
            fn fold(self, block: &[T], _: usize, shift: T) -> T {
                vectorize(FoldLanes { reducer: self, block, shift })
            }
            #[inline(always)]
            fn of_element(self, $x: T, _: usize, $shift: T) -> T { $of_element }
            #[inline(always)]
            fn combine(self, left: T, right: T) -> T { $combine(left, right) }
        })*
    };
}
lanewise! {
    /// Sum.
    Sum<T: Number>: T::ZERO, |x, _shift| x, T::add;
    /// Product.
    Product<T: Number>: T::ONE, |x, _shift| x, T::mul;
    /// Sum of squares.
    SumSquares<T: Real>: T::ZERO, |x, _shift| x.mul(x), T::add;
    /// Sum of squares of the elements multiplied by the shift, which is a factor here.
    SumScaledSquares<T: Real>: T::ZERO, |x, factor| x.mul(factor).mul(x.mul(factor)), T::add;
    /// Sum of squared differences from the shift.
    SumSquaredDeviations<T: Real>: T::ZERO, |x, shift| x.sub(shift).mul(x.sub(shift)), T::add;
    /// Sum in units of [`Real::SQUARED_UNIT`].
    SumInUnits<T: Real>: T::ZERO, |x, _shift| x.mul(T::ONE.div(T::SQUARED_UNIT)), T::add;
    /// Sum of squared differences from the shift, in units of [`Real::SQUARED_UNIT`].
    SumSquaredDeviationsInUnits<T: Real>: T::ZERO, |x, shift| {
        let difference = x.mul(T::ONE.div(T::SQUARED_UNIT)).sub(shift);
        difference.mul(difference)
    }, T::add;
    /// Sum of exponentials of differences from the shift.
    SumExponentials<T: Real>: T::ZERO, |x, shift| x.sub(shift).exp(), T::add;
    /// Largest absolute value; NaN if there is one.
    MaxAbs<T: Real>: T::ZERO, |x, _shift| x.abs(), T::maximum;
    /// Largest element; NaN if there is one.
    Maximum<T: Bounded>: T::LOWEST, |x, _shift| x, T::maximum;
    /// Smallest element; NaN if there is one.
    Minimum<T: Bounded>: T::HIGHEST, |x, _shift| x, T::minimum;
}

/// The bounds of a type.
pub(crate) trait Bounded: Number {
    /// Not above any value.
    const LOWEST: Self;
    /// Not below any value.
    const HIGHEST: Self;
}
macro_rules! bounded {
    ($($number:ty: $least:expr, $greatest:expr;)*) => {
        $(impl Bounded for $number {
            const LOWEST: Self = $least;
            const HIGHEST: Self = $greatest;
        })*
    };
}
bounded! {
    f64: f64::NEG_INFINITY, f64::INFINITY;
    f32: f32::NEG_INFINITY, f32::INFINITY;
    i64: i64::MIN, i64::MAX;
    i32: i32::MIN, i32::MAX;
    i16: i16::MIN, i16::MAX;
    i8: i8::MIN, i8::MAX;
    u64: u64::MIN, u64::MAX;
    u32: u32::MIN, u32::MAX;
    u16: u16::MIN, u16::MAX;
    u8: u8::MIN, u8::MAX;
}

/// The position of the first largest or smallest element.
#[derive(Clone, Copy)]
pub(crate) struct ArgReducer<R>(pub(crate) R);

/// An element and its index in its row.
#[derive(Clone, Copy)]
pub(crate) struct IndexedValue<T> {
    value: T,
    pub(crate) index: usize,
}

impl<T: Number, R: Reducer<In = T, Acc = T>> Reducer for ArgReducer<R> {
    type In = T;
    type Acc = IndexedValue<T>;
    const USES_INDEX: bool = true;
    #[inline(always)]
    fn empty(self) -> IndexedValue<T> {
        // `combine` prefers every element to this value, whose index no element has.
        IndexedValue { value: self.0.empty(), index: usize::MAX }
    }
    fn fold(self, block: &[T], first: usize, shift: T) -> IndexedValue<T> {
        let value = self.0.fold(block, first, shift);
        let index = first_equal(block, value).unwrap_or(0);
        IndexedValue { value: block[index], index: first + index }
    }
    #[inline(always)]
    fn of_element(self, element: T, index: usize, _: T) -> IndexedValue<T> {
        IndexedValue { value: element, index }
    }
    #[inline(always)]
    fn combine(self, left: IndexedValue<T>, right: IndexedValue<T>) -> IndexedValue<T> {
        let best = self.0.combine(left.value, right.value);
        let takes_left = left.value == best || left.value.is_nan();
        if takes_left && left.index != usize::MAX { left } else { right }
    }
}

/// The index of the first element that equals the shift; NaN equals NaN.
#[derive(Clone, Copy)]
pub(crate) struct FirstEqual<T>(pub(crate) std::marker::PhantomData<T>);

impl<T: Number> Reducer for FirstEqual<T> {
    type In = T;
    type Acc = i32;
    const USES_INDEX: bool = true;
    #[inline(always)]
    fn empty(self) -> i32 {
        i32::MAX
    }
    fn fold(self, block: &[T], first: usize, shift: T) -> i32 {
        first_equal(block, shift).map_or(i32::MAX, |index| (first + index) as i32)
    }
    #[inline(always)]
    fn of_element(self, element: T, index: usize, shift: T) -> i32 {
        let equal = element == shift || (element.is_nan() && shift.is_nan());
        if equal { index as i32 } else { i32::MAX }
    }
    #[inline(always)]
    fn combine(self, left: i32, right: i32) -> i32 {
        left.min(right)
    }
}

/// Returns the first index of `value` in `block`; NaN equals NaN.
fn first_equal<T: Number>(block: &[T], value: T) -> Option<usize> {
    let is_nan = value.is_nan();
    let equals = |x: &T| *x == value || (is_nan && x.is_nan());
    // A test of an entire chunk needs no branch per element.
    let chunk = block.chunks(LANES).position(|chunk| chunk.iter().fold(false, |any, x| any | equals(x)))?;
    let start = chunk * LANES;
    block[start..].iter().position(equals).map(|index| start + index)
}
