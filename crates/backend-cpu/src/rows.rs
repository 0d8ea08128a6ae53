//! Tensors split into rows: the elements along some axes (a row), for each index on the others.
//!
//! A kernel sees a row as a contiguous slice of its compute type. If the row has this form in
//! memory, the slice is the memory itself. Otherwise the row is gathered and converted into scratch
//! memory, and converted and scattered back.

use crate::access::Locked;
use crate::memory::zeros;
use crate::storage::{Compute, Conversion};
use crate::strided_iter::StridedIter;
use crate::threads::{Cost, for_ranges};
use std::ops::Range;
use ternion_core::{DType, Error, Result};

/// Memory for one row, reused from row to row.
#[derive(Default)]
pub(crate) struct Scratch<C>(Vec<C>);

impl<C: Compute> Scratch<C> {
    pub(crate) fn new() -> Scratch<C> {
        Scratch(Vec::new())
    }

    /// Returns `length` elements with unspecified values.
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
    outer: StridedIter<1>,
    inner: StridedIter<1>,
    /// Whether the elements of a row are contiguous in memory.
    dense: bool,
}

// SAFETY: the buffers are locked for the entire run of the op; kernels assign disjoint rows of
// outputs to threads.
unsafe impl<C> Send for Rows<C> {}
// SAFETY: as above.
unsafe impl<C> Sync for Rows<C> {}

/// Rows of more elements may not fit into memory when they are copied, because views can repeat
/// elements.
const LARGE_ROW: usize = 1 << 30;

/// A row that is being written: the memory itself, or a copy that must be written back.
pub(crate) struct RowBuffer<'a, C> {
    pub(crate) values: &'a mut [C],
    direct: bool,
}

impl<C: Compute> Rows<C> {
    /// Splits `view` into rows along the axes for which `in_row` is true; both kinds of axes are in
    /// row-major order.
    ///
    /// # Errors
    /// If the dtype is not computed in `C`, or rows are too long for memory.
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
            StridedIter::from_axes(&axes)
        };
        let (outer, inner) = (axes(false), axes(true));
        let dense = inner.operand(0).is_contiguous();
        if inner.elements() > LARGE_ROW && !dense {
            // Growing the scratch memory cannot return an error. So an allocation that fails is
            // detected here, by allocating memory and releasing it untouched.
            drop(zeros::<C>(inner.elements())?);
        }
        Ok(Rows { first: view.first(), conversion, outer, inner, dense })
    }

    /// Splits `view` into rows along its last axis, or returns it as one row if it has no axes.
    ///
    /// # Errors
    /// As for [`new`](Rows::new).
    pub(crate) fn last(op: &'static str, view: &Locked<'_>) -> Result<Rows<C>> {
        let rank = view.layout.shape().rank();
        Rows::new(op, view, |axis| axis + 1 == rank)
    }

    /// Returns the entire `view` as one row.
    ///
    /// # Errors
    /// As for [`new`](Rows::new).
    pub(crate) fn whole(op: &'static str, view: &Locked<'_>) -> Result<Rows<C>> {
        Rows::new(op, view, |_| true)
    }

    /// Returns the number of rows.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.outer.elements()
    }

    /// Returns the number of elements of a row.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.inner.elements()
    }

    #[inline]
    fn row_address(&self, row: usize) -> *mut u8 {
        self.address(self.outer.operand(0).position(row))
    }

    #[inline]
    fn address(&self, position: isize) -> *mut u8 {
        self.first.wrapping_offset(position * self.conversion.size as isize)
    }

    /// Returns elements `part` of row `row`: in place if they are contiguous, otherwise in
    /// `scratch`.
    ///
    /// # Safety
    /// The row exists and has these elements, which no code writes while the slice lives.
    #[inline]
    pub(crate) unsafe fn read<'s>(
        &'s self,
        row: usize,
        part: Range<usize>,
        scratch: &'s mut Scratch<C>,
    ) -> &'s [C] {
        if self.dense && self.conversion.read_directly {
            let start = self.row_address(row).cast::<C>().wrapping_add(part.start);
            // SAFETY: the caller guarantees that the row is inside the tensor, hence inside the
            // locked buffer; contiguous.
            return unsafe { std::slice::from_raw_parts(start, part.len()) };
        }
        let values = scratch.first(part.len());
        // SAFETY: guaranteed by the caller.
        unsafe { self.gather(row, part, values) };
        values
    }

    /// Copies the elements of row `row` from index `start` on to `values`, which is other memory or
    /// these elements themselves.
    ///
    /// # Safety
    /// As for [`read`](Rows::read).
    #[inline]
    pub(crate) unsafe fn copy(&self, row: usize, start: usize, values: &mut [C]) {
        let is_in_place = self.dense
            && self.conversion.read_directly
            && std::ptr::eq(self.row_address(row).cast::<C>().wrapping_add(start), values.as_ptr());
        if !is_in_place {
            // SAFETY: guaranteed by the caller; elements of one buffer at different addresses do
            // not overlap.
            unsafe { self.gather(row, start..start + values.len(), values) };
        }
    }

    #[inline]
    unsafe fn gather(&self, row: usize, part: Range<usize>, values: &mut [C]) {
        let base = self.outer.operand(0).position(row);
        let mut done = 0;
        self.inner.operand(0).runs(part.start, part.len(), |position, stride, count| {
            // SAFETY: positions of elements of the tensor, as guaranteed by the caller.
            unsafe {
                (self.conversion.load)(self.address(base + position), stride, &mut values[done..done + count])
            };
            done += count;
        });
    }

    /// Returns a buffer for elements `part` of row `row`, with unspecified values: their own memory
    /// if they are contiguous, otherwise `scratch`. Pass it to [`write`](Rows::write) when it is
    /// filled.
    ///
    /// # Safety
    /// The row exists and has these elements, which no other code reads or writes while the buffer
    ///     lives.
    #[inline]
    pub(crate) unsafe fn buffer<'s>(
        &'s self,
        row: usize,
        part: Range<usize>,
        scratch: &'s mut Scratch<C>,
    ) -> RowBuffer<'s, C> {
        if self.dense && self.conversion.write_directly {
            let start = self.row_address(row).cast::<C>().wrapping_add(part.start);
            // SAFETY: the caller guarantees that the row is inside the tensor, hence inside the
            // locked buffer; contiguous.
            let values = unsafe { std::slice::from_raw_parts_mut(start, part.len()) };
            return RowBuffer { values, direct: true };
        }
        RowBuffer { values: scratch.first(part.len()), direct: false }
    }

    /// Writes a filled buffer to its row, from element `start` on.
    ///
    /// # Safety
    /// As for [`buffer`](Rows::buffer), with the row and start for which it was created.
    #[inline]
    pub(crate) unsafe fn write(&self, row: usize, start: usize, buffer: RowBuffer<'_, C>) {
        if buffer.direct {
            return;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.store(row, start, buffer.values) };
    }

    /// Writes `values`, which is other memory, to the elements of row `row` from index `start` on.
    ///
    /// # Safety
    /// As for [`buffer`](Rows::buffer).
    pub(crate) unsafe fn store(&self, row: usize, start: usize, values: &[C]) {
        let (base, mut done) = (self.outer.operand(0).position(row), 0);
        self.inner.operand(0).runs(start, values.len(), |position, stride, count| {
            // SAFETY: positions of elements of the tensor, as guaranteed by the caller.
            unsafe {
                (self.conversion.store)(&values[done..done + count], self.address(base + position), stride)
            };
            done += count;
        });
    }

    /// Returns the first element of the first row, if rows may be read in place.
    pub(crate) fn readable(&self) -> Option<*const C> {
        (self.dense && self.conversion.read_directly).then(|| self.first.cast::<C>().cast_const())
    }

    /// Returns the first element of the first row, if rows may be written in place.
    pub(crate) fn writable(&self) -> Option<*mut C> {
        (self.dense && self.conversion.write_directly).then(|| self.first.cast::<C>())
    }
}

/// The number of rows that are processed together if neighboring rows are closer in memory than the
/// elements of a row.
pub(crate) const PANEL: usize = 16;

/// Adjacent rows: element `index` of row `lane` is `panel[index][lane]`.
pub(crate) type Panel<C> = [[C; PANEL]];

impl<C: Compute> Rows<C> {
    /// Returns whether neighboring rows are adjacent in memory, so that panels are read in entire
    /// cache lines.
    #[inline]
    pub(crate) fn prefers_panels(&self) -> bool {
        let outer = self.outer.operand(0);
        !self.dense
            && outer.strides.last() == Some(&1)
            && outer.dims.last().is_some_and(|&dim| dim >= PANEL / 4)
    }

    /// Calls `visit(element, lane, address, stride, count)` for each run of elements of one index.
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
                    let address = self.address(start + element as isize * step + position);
                    visit(index, lane, address, stride, count);
                    lane += count;
                }
                index += 1;
            }
        });
    }

    /// Copies rows `rows`, at most [`PANEL`] of them, to the lanes of `panel`, which is other
    /// memory.
    ///
    /// # Safety
    /// The rows exist, and no code writes them in the meantime. The panel has as many elements as a
    ///     row.
    pub(crate) unsafe fn copy_panel(&self, rows: Range<usize>, panel: &mut Panel<C>) {
        self.panel_runs(rows, |index, lane, address, stride, count| {
            // SAFETY: elements of the tensor, as guaranteed by the caller.
            unsafe { (self.conversion.load)(address, stride, &mut panel[index][lane..lane + count]) };
        });
    }

    /// Writes the lanes of `panel` to rows `rows`.
    ///
    /// # Safety
    /// As for [`copy_panel`](Rows::copy_panel); no other code reads or writes the rows.
    pub(crate) unsafe fn write_panel(&self, rows: Range<usize>, panel: &Panel<C>) {
        self.panel_runs(rows, |index, lane, address, stride, count| {
            // SAFETY: elements of the tensor, as guaranteed by the caller.
            unsafe { (self.conversion.store)(&panel[index][lane..lane + count], address, stride) };
        });
    }
}

fn wrong_dtype(op: &'static str, got: DType) -> Error {
    Error::dtype(op, "operand", got, "another dtype in this kernel")
}

/// Returns all elements of `view`, which is an input, in row-major order.
///
/// # Errors
/// If the dtype is not computed in `C`, or there is no memory.
pub(crate) fn vector<C: Compute>(op: &'static str, view: &Locked<'_>) -> Result<Vec<C>> {
    let rows = Rows::<C>::whole(op, view)?;
    let mut values = zeros::<C>(rows.width())?;
    // SAFETY: all elements, of a tensor that is only read.
    unsafe { rows.copy(0, 0, &mut values) };
    Ok(values)
}

/// Runs `work` on ranges that partition the `count` rows; pieces have about the same number of
/// elements for any width.
#[inline]
pub(crate) fn for_rows(count: usize, width: usize, cost: Cost, work: impl Fn(Range<usize>) + Sync) {
    for_ranges(count, (cost.piece() / width.max(1)).max(1), work);
}
