//! Tensors cut into rows: the elements along some axes (a row), for each index on the others.
//!
//! A kernel sees a row as a dense slice of the type it computes in. Where the row lies so in memory, the slice is the memory itself;
//! else it is gathered and widened into scratch memory, and scattered and narrowed back.

use crate::access::Locked;
use crate::memory::zeros;
use crate::storage::{Compute, Conversion};
use crate::threads::{Cost, for_ranges};
use crate::walk::Walk;
use std::ops::Range;
use ternion_core::{DType, Error, Result};

/// Memory for one row, kept from row to row.
#[derive(Default)]
pub(crate) struct Scratch<C>(Vec<C>);

impl<C: Compute> Scratch<C> {
    pub(crate) fn new() -> Scratch<C> {
        Scratch(Vec::new())
    }

    /// `length` elements of any value.
    #[inline]
    fn first(&mut self, length: usize) -> &mut [C] {
        if self.0.len() < length {
            self.0.resize(length, C::default());
        }
        &mut self.0[..length]
    }
}

/// A tensor as rows of elements that are computed in `C`.
pub(crate) struct Rows<C: 'static> {
    first: *mut u8,
    conversion: Conversion<C>,
    outer: Walk<1>,
    inner: Walk<1>,
    /// Whether a row lies in memory element after element.
    dense: bool,
}

// SAFETY: the buffers are locked for the whole run of the op; kernels hand disjoint rows of outputs to threads.
unsafe impl<C> Send for Rows<C> {}
// SAFETY: as above.
unsafe impl<C> Sync for Rows<C> {}

/// Rows of more elements may not fit into memory when they are copied: views repeat what they read.
const LONG: usize = 1 << 30;

/// A row that is being written: the memory itself, or a copy that must be put back.
pub(crate) struct RowBuffer<'a, C> {
    pub(crate) values: &'a mut [C],
    direct: bool,
}

impl<C: Compute> Rows<C> {
    /// `view` as rows along the axes for which `in_row` is true; both kinds of axes in row-major order.
    ///
    /// # Errors
    /// A dtype that is not computed in `C`; rows too long for memory.
    pub(crate) fn new(
        op: &'static str,
        view: &Locked<'_>,
        in_row: impl Fn(usize) -> bool,
    ) -> Result<Rows<C>> {
        let Some(conversion) = C::conversion(view.dtype) else { return Err(wrong_dtype(op, view.dtype)) };
        let axes = |wanted: bool| {
            let (dims, strides) = (view.layout.shape().dims(), view.layout.strides());
            let axes: smallvec::SmallVec<[(usize, [isize; 1]); ternion_core::MAX_RANK]> = (0..dims.len())
                .filter(|&axis| in_row(axis) == wanted)
                .map(|axis| (dims[axis], [strides[axis]]))
                .collect();
            Walk::in_order(&axes)
        };
        let (outer, inner) = (axes(false), axes(true));
        let dense = inner.operand(0).is_line();
        if inner.elements() > LONG && !dense {
            // Scratch memory grows without an error to give: what cannot be had is found out here, untouched and given back.
            drop(zeros::<C>(inner.elements())?);
        }
        Ok(Rows { first: view.first(), conversion, outer, inner, dense })
    }

    /// `view` as rows along its last axis, or as one row if it has none.
    ///
    /// # Errors
    /// As [`new`](Rows::new).
    pub(crate) fn last(op: &'static str, view: &Locked<'_>) -> Result<Rows<C>> {
        let rank = view.layout.shape().rank();
        Rows::new(op, view, |axis| axis + 1 == rank)
    }

    /// All of `view` as one row.
    ///
    /// # Errors
    /// As [`new`](Rows::new).
    pub(crate) fn whole(op: &'static str, view: &Locked<'_>) -> Result<Rows<C>> {
        Rows::new(op, view, |_| true)
    }

    /// How many rows there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.outer.elements()
    }

    /// How many elements a row has.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.inner.elements()
    }

    #[inline]
    fn place(&self, row: usize) -> *mut u8 {
        self.at(self.outer.operand(0).position(row))
    }

    #[inline]
    fn at(&self, position: isize) -> *mut u8 {
        self.first.wrapping_offset(position * self.conversion.size as isize)
    }

    /// Elements `part` of row `row`: where they lie if they are dense there, else in `scratch`.
    ///
    /// # Safety
    /// The row exists and has these elements; nobody writes them while the slice lives.
    #[inline]
    pub(crate) unsafe fn read<'s>(
        &'s self,
        row: usize,
        part: Range<usize>,
        scratch: &'s mut Scratch<C>,
    ) -> &'s [C] {
        if self.dense && self.conversion.read_directly {
            let start = self.place(row).cast::<C>().wrapping_add(part.start);
            // SAFETY: inside the tensor by the caller's word, hence inside the locked buffer; dense.
            return unsafe { std::slice::from_raw_parts(start, part.len()) };
        }
        let values = scratch.first(part.len());
        // SAFETY: the caller's word.
        unsafe { self.gather(row, part, values) };
        values
    }

    /// Copies the elements of row `row` from number `start` on to `values`, which is other memory, or is where they lie.
    ///
    /// # Safety
    /// As [`read`](Rows::read).
    #[inline]
    pub(crate) unsafe fn copy(&self, row: usize, start: usize, values: &mut [C]) {
        let lie_here = self.dense
            && self.conversion.read_directly
            && std::ptr::eq(self.place(row).cast::<C>().wrapping_add(start), values.as_ptr());
        if !lie_here {
            // SAFETY: the caller's word; elements of one buffer that are not at the same place do not meet.
            unsafe { self.gather(row, start..start + values.len(), values) };
        }
    }

    #[inline]
    unsafe fn gather(&self, row: usize, part: Range<usize>, values: &mut [C]) {
        let base = self.outer.operand(0).position(row);
        let mut done = 0;
        self.inner.operand(0).runs(part.start, part.len(), |position, stride, count| {
            // SAFETY: positions of elements of the tensor, by the caller's word.
            unsafe {
                (self.conversion.load)(self.at(base + position), stride, &mut values[done..done + count])
            };
            done += count;
        });
    }

    /// Room for elements `part` of row `row`, of any value: their own memory if they are dense there, else `scratch`. To be given
    /// to [`write`](Rows::write) when filled.
    ///
    /// # Safety
    /// The row exists and has these elements; nobody else reads or writes them while the buffer lives.
    #[inline]
    pub(crate) unsafe fn buffer<'s>(
        &'s self,
        row: usize,
        part: Range<usize>,
        scratch: &'s mut Scratch<C>,
    ) -> RowBuffer<'s, C> {
        if self.dense && self.conversion.write_directly {
            let start = self.place(row).cast::<C>().wrapping_add(part.start);
            // SAFETY: inside the tensor by the caller's word, hence inside the locked buffer; dense.
            let values = unsafe { std::slice::from_raw_parts_mut(start, part.len()) };
            return RowBuffer { values, direct: true };
        }
        RowBuffer { values: scratch.first(part.len()), direct: false }
    }

    /// Puts a filled buffer into its row, from element `start` on.
    ///
    /// # Safety
    /// As [`buffer`](Rows::buffer), with the row and start that it was made for.
    #[inline]
    pub(crate) unsafe fn write(&self, row: usize, start: usize, buffer: RowBuffer<'_, C>) {
        if buffer.direct {
            return;
        }
        // SAFETY: the caller's word.
        unsafe { self.store(row, start, buffer.values) };
    }

    /// Writes `values`, which is other memory, to the elements of row `row` from number `start` on.
    ///
    /// # Safety
    /// As [`buffer`](Rows::buffer).
    pub(crate) unsafe fn store(&self, row: usize, start: usize, values: &[C]) {
        let (base, mut done) = (self.outer.operand(0).position(row), 0);
        self.inner.operand(0).runs(start, values.len(), |position, stride, count| {
            // SAFETY: positions of elements of the tensor, by the caller's word.
            unsafe { (self.conversion.store)(&values[done..done + count], self.at(base + position), stride) };
            done += count;
        });
    }

    /// The first element of the first row, if rows may be read where they lie.
    pub(crate) fn readable(&self) -> Option<*const C> {
        (self.dense && self.conversion.read_directly).then(|| self.first.cast::<C>().cast_const())
    }

    /// The first element of the first row, if rows may be written where they lie.
    pub(crate) fn writable(&self) -> Option<*mut C> {
        (self.dense && self.conversion.write_directly).then(|| self.first.cast::<C>())
    }
}

/// Rows that are worked on side by side where neighbours lie nearer to each other than the elements of one.
pub(crate) const PANEL: usize = 16;

/// Rows side by side: element `index` of row `lane` is `panel[index][lane]`.
pub(crate) type Panel<C> = [[C; PANEL]];

impl<C: Compute> Rows<C> {
    /// Whether neighbouring rows lie side by side in memory, so that panels are read in whole cache lines.
    #[inline]
    pub(crate) fn prefers_panels(&self) -> bool {
        let outer = self.outer.operand(0);
        !self.dense
            && outer.strides.last() == Some(&1)
            && outer.dims.last().is_some_and(|&dim| dim >= PANEL / 4)
    }

    /// Calls `visit(element, lane, place, stride, count)` for each run of elements of one index.
    #[inline]
    fn panel_runs(&self, rows: Range<usize>, mut visit: impl FnMut(usize, usize, *mut u8, isize, usize)) {
        let mut runs: smallvec::SmallVec<[(isize, isize, usize); 4]> = smallvec::SmallVec::new();
        self.outer
            .operand(0)
            .runs(rows.start, rows.len(), |position, stride, count| runs.push((position, stride, count)));
        let mut index = 0;
        self.inner.operand(0).runs(0, self.width(), |start, step, elements| {
            for element in 0..elements {
                let mut lane = 0;
                for &(position, stride, count) in &runs {
                    let place = self.at(start + element as isize * step + position);
                    visit(index, lane, place, stride, count);
                    lane += count;
                }
                index += 1;
            }
        });
    }

    /// Copies rows `rows`, at most [`PANEL`] of them, to the lanes of `panel`, which is other memory.
    ///
    /// # Safety
    /// The rows exist; nobody writes them meanwhile. The panel has as many elements as a row.
    pub(crate) unsafe fn copy_panel(&self, rows: Range<usize>, panel: &mut Panel<C>) {
        self.panel_runs(rows, |index, lane, place, stride, count| {
            // SAFETY: elements of the tensor, by the caller's word.
            unsafe { (self.conversion.load)(place, stride, &mut panel[index][lane..lane + count]) };
        });
    }

    /// Puts the lanes of `panel` into rows `rows`.
    ///
    /// # Safety
    /// As [`copy_panel`](Rows::copy_panel); nobody else reads or writes the rows.
    pub(crate) unsafe fn write_panel(&self, rows: Range<usize>, panel: &Panel<C>) {
        self.panel_runs(rows, |index, lane, place, stride, count| {
            // SAFETY: elements of the tensor, by the caller's word.
            unsafe { (self.conversion.store)(&panel[index][lane..lane + count], place, stride) };
        });
    }
}

fn wrong_dtype(op: &'static str, got: DType) -> Error {
    Error::dtype(op, "operand", got, "another dtype in this kernel")
}

/// All elements of `view`, which is an input, in row-major order.
///
/// # Errors
/// A dtype that is not computed in `C`; no memory.
pub(crate) fn vector<C: Compute>(op: &'static str, view: &Locked<'_>) -> Result<Vec<C>> {
    let rows = Rows::<C>::whole(op, view)?;
    let mut values = zeros::<C>(rows.width())?;
    // SAFETY: all elements, of a tensor that is only read.
    unsafe { rows.copy(0, 0, &mut values) };
    Ok(values)
}

/// Runs `work` on ranges of rows that together are all `count` of them; pieces hold about as many elements whatever the width.
#[inline]
pub(crate) fn for_rows(count: usize, width: usize, cost: Cost, work: impl Fn(Range<usize>) + Sync) {
    for_ranges(count, (cost.piece() / width.max(1)).max(1), work);
}
