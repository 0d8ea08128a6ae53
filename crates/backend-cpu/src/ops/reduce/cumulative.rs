//! Cumulative sums along an axis. Floats are summed in f64, so that errors do not grow along the
//! axis.

use crate::access::Locked;
use crate::elementwise::{BLOCK, Operand, Reader, Scratch, Writer};
use crate::kernel::Variant;
use crate::number::Number;
use crate::storage::with_compute;
use crate::strided_iter::StridedIter;
use crate::threads::for_pieces;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::reduce::CumulativeSum;
use ternion_core::{Error, MAX_RANK, Op, Result};

/// Supports every dtype that core accepts.
pub(crate) fn select_cumulative_sum(_: &CumulativeSum, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_cumulative_sum })
}

fn run_cumulative_sum(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::CumulativeSum(payload) = op else { return Err(Error::invalid(op.name(), "is not cumsum")) };
    with_compute!(inputs[0].dtype, T => {
        let (x, y) = (Operand::<T>::new("cumsum", inputs[0])?, Operand::<T>::new("cumsum", outputs[0])?);
        scan(payload.axis, &x, &y);
        Ok(())
    })
}

/// An element type, with the type in which its cumulative sums are computed.
trait Carried: Number {
    type Carry: Copy + Default + Send;
    fn step(self, carry: &mut Self::Carry) -> Self;
}
macro_rules! carried {
    ($($element:ty => $carry:ty, |$sum:ident, $x:ident| $add:expr;)*) => {
        $(impl Carried for $element {
            type Carry = $carry;
            #[inline(always)]
            fn step(self, carry: &mut $carry) -> Self {
                let ($sum, $x) = (*carry, self as $carry);
                *carry = $add;
                *carry as $element
            }
        })*
    };
}
carried! {
    f64 => f64, |sum, x| sum + x;
    f32 => f64, |sum, x| sum + x;
    i64 => i64, |sum, x| sum.wrapping_add(x);
    i32 => i32, |sum, x| sum.wrapping_add(x);
    i16 => i16, |sum, x| sum.wrapping_add(x);
    i8 => i8, |sum, x| sum.wrapping_add(x);
    u64 => u64, |sum, x| sum.wrapping_add(x);
    u32 => u32, |sum, x| sum.wrapping_add(x);
    u16 => u16, |sum, x| sum.wrapping_add(x);
    u8 => u8, |sum, x| sum.wrapping_add(x);
}

/// Traverses the elements as `[outer, length, inner]`: lines run along the middle axis, and `inner`
/// of them are adjacent.
fn scan<T: Carried>(axis: usize, x: &Operand<'_, T>, y: &Operand<'_, T>) {
    let shape = x.view.layout.shape();
    let axes: SmallVec<[(usize, [isize; 2]); MAX_RANK]> = (0..shape.rank())
        .map(|axis| (shape.dim(axis), [y.view.layout.strides()[axis], x.view.layout.strides()[axis]]))
        .collect();
    let iter = StridedIter::from_axes(&axes);
    let length = shape.dim(axis);
    let inner: usize = shape.dims()[axis + 1..].iter().product();
    if iter.elements() == 0 {
        return;
    }
    let outer = iter.elements() / (length * inner);
    let tiles = inner.div_ceil(BLOCK);
    let work = |piece: usize| {
        let (outer, tile) = (piece / tiles, piece % tiles * BLOCK);
        let first = outer * length * inner + tile;
        match inner {
            1 => scan_line(&iter, x, y, first, length),
            _ => scan_tile(&iter, (x, y), first, [length, inner, BLOCK.min(inner - tile)]),
        }
    };
    if iter.elements() < 1 << 15 {
        (0..outer * tiles).for_each(work)
    } else {
        for_pieces(outer * tiles, work)
    }
}

fn scan_line<T: Carried>(
    iter: &StridedIter<2>,
    x: &Operand<'_, T>,
    y: &Operand<'_, T>,
    first: usize,
    length: usize,
) {
    let (mut scratch_y, mut scratch_x) = (Scratch::new(), Scratch::new());
    let mut writer = Writer::new(y, iter.operand(0), &mut scratch_y);
    let mut reader = Reader::new(x, iter.operand(1), y.first(), &mut scratch_x);
    let mut carry = T::Carry::default();
    for start in (0..length).step_by(BLOCK) {
        let count = BLOCK.min(length - start);
        let block = reader.block(first + start, count);
        writer.block(first + start, count, |sums| {
            for (&x, sum) in block.iter().zip(sums) {
                *sum = x.step(&mut carry);
            }
        });
    }
}

/// Sums `tile` adjacent lines. `length` is the number of rows, and `inner` the distance from row to
/// row in elements.
fn scan_tile<T: Carried>(
    iter: &StridedIter<2>,
    (x, y): (&Operand<'_, T>, &Operand<'_, T>),
    first: usize,
    [length, inner, tile]: [usize; 3],
) {
    let (mut scratch_y, mut scratch_x) = (Scratch::new(), Scratch::new());
    let mut writer = Writer::new(y, iter.operand(0), &mut scratch_y);
    let mut reader = Reader::new(x, iter.operand(1), y.first(), &mut scratch_x);
    let mut carries = vec![T::Carry::default(); tile];
    for row in 0..length {
        let block = reader.block(first + row * inner, tile);
        writer.block(first + row * inner, tile, |sums| {
            for ((&x, sum), carry) in block.iter().zip(sums).zip(&mut carries) {
                *sum = x.step(carry);
            }
        });
    }
}
