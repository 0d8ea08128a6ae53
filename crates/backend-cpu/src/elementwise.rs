//! The engine of all elementwise ops: it traverses tensors of any strides in blocks, so that
//! kernels receive only contiguous slices of compute types.
//!
//! An operand is read in place if it is contiguous and stored in the compute type. Otherwise a
//! block of it is gathered and converted into scratch memory first. The same is done for an operand
//! that the op overwrites: kernels never see one element through two slices.

use crate::access::Locked;
use crate::storage::{Compute, Conversion};
use crate::strided_iter::{OperandLayout, StridedIter};
use crate::threads::{Cost, for_ranges};
use crate::transpose::ContiguousCopy;
use std::mem::MaybeUninit;
use std::ops::Range;
use ternion_core::{DType, Error, Result};

/// The number of elements that are gathered at a time: a few such blocks fit the L1 cache.
pub(crate) const BLOCK: usize = 1024;

/// Memory for one block.
pub(crate) struct Scratch<C>(MaybeUninit<[C; BLOCK]>);

impl<C: Compute> Scratch<C> {
    #[inline(always)]
    pub(crate) fn new() -> Scratch<C> {
        Scratch(MaybeUninit::uninit())
    }

    #[inline(always)]
    pub(crate) fn slice(&mut self, length: usize) -> &mut [C] {
        assert!(length <= BLOCK, "a block of {length} elements");
        // SAFETY: inside the array; any bits are a valid `C`, and every caller writes the elements
        // before it reads them.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), length) }
    }
}

/// An operand of an op and its conversion for reading and writing.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a, C: 'static> {
    pub(crate) view: Locked<'a>,
    pub(crate) conversion: Conversion<C>,
}

impl<'a, C: Compute> Operand<'a, C> {
    /// Creates an operand from a tensor whose dtype is computed in `C`.
    #[inline(always)]
    pub(crate) fn new(op: &'static str, view: Locked<'a>) -> Result<Operand<'a, C>> {
        match C::conversion(view.dtype) {
            Some(conversion) => Ok(Operand { view, conversion }),
            None => Err(wrong_dtype(op, view.dtype)),
        }
    }

    /// Creates an operand from a tensor whose bits are copied without conversion; its elements have
    /// the size of `C`.
    #[inline]
    pub(crate) fn raw(op: &'static str, view: Locked<'a>) -> Result<Operand<'a, C>> {
        match view.dtype.size() == size_of::<C>() {
            true => Ok(Operand { view, conversion: C::raw() }),
            false => Err(wrong_dtype(op, view.dtype)),
        }
    }

    /// Returns the address of the first element.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        self.view.first()
    }

    /// Returns the elements as a slice if they are contiguous, stored in the compute type, and not
    /// the elements of the output `y`.
    #[inline(always)]
    fn direct_slice<Y>(&self, y: &Operand<'_, Y>, elements: usize) -> Option<&[C]> {
        let is_distinct = !std::ptr::eq(self.first(), y.view.first());
        // SAFETY: contiguous, locked, inside the buffer; an output that shares elements with an
        // input is exactly that input, which was excluded.
        (self.conversion.read_directly && is_distinct && self.view.layout.is_contiguous())
            .then(|| unsafe { std::slice::from_raw_parts(self.first().cast_const().cast(), elements) })
    }

    /// Same as [`direct_slice`](Operand::direct_slice) for an output, to which there is no other
    /// reference.
    #[inline(always)]
    fn direct_slice_mut(&mut self, elements: usize) -> Option<&mut [C]> {
        // SAFETY: contiguous, locked for writing, inside the buffer; the inputs of the same op do
        // not overlap (see `direct_slice`).
        (self.conversion.write_directly && self.view.layout.is_contiguous())
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.first().cast(), elements) })
    }
}

/// Returns the number of elements of `y` if they are few enough for one piece of work.
#[inline(always)]
fn single_piece<Y>(cost: Cost, y: &Operand<'_, Y>) -> Option<usize> {
    let elements = y.view.layout.elements();
    (0 < elements && elements <= cost.piece()).then_some(elements)
}

fn wrong_dtype(op: &'static str, got: DType) -> Error {
    Error::dtype(op, "operand", got, "another dtype in this kernel")
}

/// Reads blocks of an operand.
pub(crate) struct Reader<'a, C: 'static> {
    layout: OperandLayout<'a>,
    data: *const u8,
    conversion: Conversion<C>,
    /// Whether every block can be read in place.
    pub(crate) direct: bool,
    /// Whether a contiguous run can be read in place.
    can_borrow: bool,
    is_broadcast: bool,
    scratch: &'a mut Scratch<C>,
}

impl<'a, C: Compute> Reader<'a, C> {
    /// Creates a reader of `operand` along `layout`. `overwritten` is the address of the first
    /// element of the op's output.
    #[inline]
    pub(crate) fn new(
        operand: &Operand<'_, C>,
        layout: OperandLayout<'a>,
        overwritten: *mut u8,
        scratch: &'a mut Scratch<C>,
    ) -> Reader<'a, C> {
        let data = operand.first().cast_const();
        let can_borrow = operand.conversion.read_directly && !std::ptr::eq(data, overwritten);
        let direct = can_borrow && layout.is_contiguous();
        let mut reader = Reader {
            layout,
            data,
            conversion: operand.conversion,
            direct,
            can_borrow,
            is_broadcast: false,
            scratch,
        };
        if !direct && !layout.dims.is_empty() && layout.is_broadcast() && !std::ptr::eq(data, overwritten) {
            // SAFETY: the only element is inside the buffer. If the tensor is empty, so is the
            // target, and `load` reads nothing.
            unsafe {
                (reader.conversion.load)(
                    data,
                    0,
                    reader.scratch.slice(BLOCK.min(operand.view.layout.elements())),
                )
            };
            reader.is_broadcast = true;
        }
        reader
    }

    /// Creates a reader of one value, for a tensor of `elements` elements.
    #[inline]
    pub(crate) fn constant(value: C, elements: usize, scratch: &'a mut Scratch<C>) -> Reader<'a, C> {
        scratch.slice(BLOCK.min(elements)).fill(value);
        let layout = OperandLayout { dims: &[], strides: &[] };
        let (data, conversion) = (std::ptr::null(), C::raw());
        Reader { layout, data, conversion, direct: false, can_borrow: false, is_broadcast: true, scratch }
    }

    /// Returns `length` elements from index `start` on. More than [`BLOCK`] elements are possible
    /// only if the reader is [`direct`](Reader::direct).
    #[inline]
    pub(crate) fn block(&mut self, start: usize, length: usize) -> &[C] {
        if self.direct {
            // SAFETY: contiguous, locked, inside the buffer, and not written while the slice lives
            // (see `new`).
            return unsafe { std::slice::from_raw_parts(self.data.cast::<C>().add(start), length) };
        }
        if self.is_broadcast {
            return self.scratch.slice(length);
        }
        if let Some(position) = self.dense_run(start, length) {
            // SAFETY: as above; the run is within one contiguous row.
            return unsafe { std::slice::from_raw_parts(self.data.cast::<C>().offset(position), length) };
        }
        let block = self.scratch.slice(length);
        let (data, size, load) = (self.data, self.conversion.size as isize, self.conversion.load);
        let mut done = 0;
        self.layout.runs(start, length, |position, stride, count| {
            // SAFETY: the positions come from the operand's layout, whose elements are inside the
            // locked buffer.
            unsafe { load(data.offset(position * size), stride, &mut block[done..done + count]) };
            done += count;
        });
        block
    }

    #[inline]
    fn dense_run(&self, start: usize, length: usize) -> Option<isize> {
        let (&inner, &stride) = (self.layout.dims.last()?, self.layout.strides.last()?);
        (self.can_borrow && stride == 1 && length > 0 && start % inner + length <= inner)
            .then(|| self.layout.position(start))
    }
}

/// Writes blocks of an output.
pub(crate) struct Writer<'a, C: 'static> {
    layout: OperandLayout<'a>,
    data: *mut u8,
    conversion: Conversion<C>,
    pub(crate) direct: bool,
    scratch: &'a mut Scratch<C>,
}

impl<'a, C: Compute> Writer<'a, C> {
    #[inline]
    pub(crate) fn new(
        operand: &Operand<'_, C>,
        layout: OperandLayout<'a>,
        scratch: &'a mut Scratch<C>,
    ) -> Writer<'a, C> {
        let direct = operand.conversion.write_directly && layout.is_contiguous();
        Writer { layout, data: operand.first(), conversion: operand.conversion, direct, scratch }
    }

    /// Calls `fill` to write `length` elements from index `start` on. More than [`BLOCK`] elements
    /// are possible only if the writer is [`direct`](Writer::direct).
    #[inline]
    pub(crate) fn block(&mut self, start: usize, length: usize, fill: impl FnOnce(&mut [C])) {
        if self.direct {
            // SAFETY: contiguous, locked for writing, inside the buffer; no other piece has these
            // elements, and readers of the same view copy them to scratch memory first.
            return fill(unsafe { std::slice::from_raw_parts_mut(self.data.cast::<C>().add(start), length) });
        }
        let block = self.scratch.slice(length);
        fill(block);
        let (data, size, store) = (self.data, self.conversion.size as isize, self.conversion.store);
        let mut done = 0;
        self.layout.runs(start, length, |position, stride, count| {
            // SAFETY: the positions come from the output's layout; no other piece has these
            // elements.
            unsafe { store(&block[done..done + count], data.offset(position * size), stride) };
            done += count;
        });
    }
}

/// Calls `visit(start, length)` for blocks that partition `range`: one block if `direct`, that is,
/// if all operands are accessed in place.
#[inline]
fn for_blocks(range: Range<usize>, direct: bool, mut visit: impl FnMut(usize, usize)) {
    let step = if direct { range.len().max(1) } else { BLOCK };
    for start in range.clone().step_by(step) {
        visit(start, step.min(range.end - start));
    }
}

/// Fills an output: `kernel` computes a block, given the row-major index of its first element.
pub(crate) fn map0<Y: Compute>(cost: Cost, y: Operand<'_, Y>, kernel: &(dyn Fn(usize, &mut [Y]) + Sync)) {
    // In row-major order for any strides, because the kernel receives row-major indices.
    let layout = y.view.layout;
    let axes: smallvec::SmallVec<[(usize, [isize; 1]); 8]> =
        layout.shape().dims().iter().zip(layout.strides()).map(|(&dim, &stride)| (dim, [stride])).collect();
    let iter = StridedIter::from_axes(&axes);
    for_ranges(iter.elements(), cost.piece(), |range| {
        let mut scratch = Scratch::new();
        let mut writer = Writer::new(&y, iter.operand(0), &mut scratch);
        for_blocks(range, writer.direct, |start, length| {
            writer.block(start, length, |y| kernel(start, y));
        });
    });
}

/// Computes `y = kernel(a)`.
#[inline(always)]
pub(crate) fn map1<A: Compute, Y: Compute>(
    cost: Cost,
    a: Operand<'_, A>,
    y: Operand<'_, Y>,
    kernel: &(dyn Fn(&[A], &mut [Y]) + Sync),
) {
    let mut output = y;
    if let Some(elements) = single_piece(cost, &y)
        && let Some(a) = a.direct_slice(&y, elements)
        && let Some(y) = output.direct_slice_mut(elements)
    {
        return kernel(a, y);
    }
    map1_strided(cost, a, y, kernel);
}

fn map1_strided<A: Compute, Y: Compute>(
    cost: Cost,
    a: Operand<'_, A>,
    y: Operand<'_, Y>,
    kernel: &(dyn Fn(&[A], &mut [Y]) + Sync),
) {
    let mut copy = ContiguousCopy::of(&a.view, &y.view);
    let a = copy.or(a);
    let iter = StridedIter::new([y.view.layout, a.view.layout]);
    for_ranges(iter.elements(), cost.piece(), |range| {
        let (mut scratch_y, mut scratch_a) = (Scratch::new(), Scratch::new());
        let mut writer = Writer::new(&y, iter.operand(0), &mut scratch_y);
        let mut a = Reader::new(&a, iter.operand(1), y.first(), &mut scratch_a);
        for_blocks(range, writer.direct && a.direct, |start, length| {
            let a = a.block(start, length);
            writer.block(start, length, |y| kernel(a, y));
        });
    });
}

/// The second operand of a binary function: a tensor or a scalar.
#[derive(Clone, Copy)]
pub(crate) enum Rhs<'a, C: 'static> {
    Tensor(Operand<'a, C>),
    Scalar(C),
}

/// Computes `y = kernel(a, b)`.
#[inline(always)]
pub(crate) fn map2<A: Compute, B: Compute, Y: Compute>(
    cost: Cost,
    a: Operand<'_, A>,
    b: Rhs<'_, B>,
    y: Operand<'_, Y>,
    kernel: &(dyn Fn(&[A], &[B], &mut [Y]) + Sync),
) {
    let mut output = y;
    if let Some(elements) = single_piece(cost, &y)
        && let Rhs::Tensor(b) = &b
        && let (Some(a), Some(b)) = (a.direct_slice(&y, elements), b.direct_slice(&y, elements))
        && let Some(y) = output.direct_slice_mut(elements)
    {
        return kernel(a, b, y);
    }
    map2_strided(cost, a, b, y, kernel);
}

fn map2_strided<A: Compute, B: Compute, Y: Compute>(
    cost: Cost,
    a: Operand<'_, A>,
    b: Rhs<'_, B>,
    y: Operand<'_, Y>,
    kernel: &(dyn Fn(&[A], &[B], &mut [Y]) + Sync),
) {
    let mut copy_a = ContiguousCopy::of(&a.view, &y.view);
    let a = copy_a.or(a);
    let b_view = match &b {
        Rhs::Tensor(b) => b.view,
        Rhs::Scalar(_) => y.view,
    };
    let mut copy_b = ContiguousCopy::of(&b_view, &y.view);
    let b = match b {
        Rhs::Tensor(b) => Rhs::Tensor(copy_b.or(b)),
        scalar => scalar,
    };
    let b_layout = match &b {
        Rhs::Tensor(b) => b.view.layout,
        Rhs::Scalar(_) => y.view.layout,
    };
    let iter = StridedIter::new([y.view.layout, a.view.layout, b_layout]);
    for_ranges(iter.elements(), cost.piece(), |range| {
        let (mut scratch_y, mut scratch_a, mut scratch_b) = (Scratch::new(), Scratch::new(), Scratch::new());
        let mut writer = Writer::new(&y, iter.operand(0), &mut scratch_y);
        let mut a = Reader::new(&a, iter.operand(1), y.first(), &mut scratch_a);
        let mut b = match &b {
            Rhs::Tensor(b) => Reader::new(b, iter.operand(2), y.first(), &mut scratch_b),
            Rhs::Scalar(value) => Reader::constant(*value, range.len(), &mut scratch_b),
        };
        for_blocks(range, writer.direct && a.direct && b.direct, |start, length| {
            let (a, b) = (a.block(start, length), b.block(start, length));
            writer.block(start, length, |y| kernel(a, b, y));
        });
    });
}

/// Computes `y = kernel(a, b, c)`.
#[inline(always)]
pub(crate) fn map3<A: Compute, B: Compute, C: Compute, Y: Compute>(
    cost: Cost,
    (a, b, c): (Operand<'_, A>, Operand<'_, B>, Operand<'_, C>),
    y: Operand<'_, Y>,
    kernel: &(dyn Fn(&[A], &[B], &[C], &mut [Y]) + Sync),
) {
    let mut output = y;
    if let Some(elements) = single_piece(cost, &y)
        && let (Some(a), Some(b)) = (a.direct_slice(&y, elements), b.direct_slice(&y, elements))
        && let Some(c) = c.direct_slice(&y, elements)
        && let Some(y) = output.direct_slice_mut(elements)
    {
        return kernel(a, b, c, y);
    }
    map3_strided(cost, (a, b, c), y, kernel);
}

fn map3_strided<A: Compute, B: Compute, C: Compute, Y: Compute>(
    cost: Cost,
    (a, b, c): (Operand<'_, A>, Operand<'_, B>, Operand<'_, C>),
    y: Operand<'_, Y>,
    kernel: &(dyn Fn(&[A], &[B], &[C], &mut [Y]) + Sync),
) {
    let [mut copy_a, mut copy_b, mut copy_c] =
        [a.view, b.view, c.view].map(|view| ContiguousCopy::of(&view, &y.view));
    let (a, b, c) = (copy_a.or(a), copy_b.or(b), copy_c.or(c));
    let iter = StridedIter::new([y.view.layout, a.view.layout, b.view.layout, c.view.layout]);
    for_ranges(iter.elements(), cost.piece(), |range| {
        let (mut scratch_y, mut scratch_a) = (Scratch::new(), Scratch::new());
        let (mut scratch_b, mut scratch_c) = (Scratch::new(), Scratch::new());
        let mut writer = Writer::new(&y, iter.operand(0), &mut scratch_y);
        let mut a = Reader::new(&a, iter.operand(1), y.first(), &mut scratch_a);
        let mut b = Reader::new(&b, iter.operand(2), y.first(), &mut scratch_b);
        let mut c = Reader::new(&c, iter.operand(3), y.first(), &mut scratch_c);
        for_blocks(range, writer.direct && a.direct && b.direct && c.direct, |start, length| {
            let (a, b, c) = (a.block(start, length), b.block(start, length), c.block(start, length));
            writer.block(start, length, |y| kernel(a, b, c, y));
        });
    });
}
