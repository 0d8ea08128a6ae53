//! Tensors split into rows. A row consists of the elements along some axes, at one index along the
//! other axes.
//!
//! A kernel receives a row as a contiguous slice of its compute type. If the row is contiguous and
//! stored in this type, the slice is the row's own memory. Otherwise the slice is scratch memory:
//! input rows are gathered and converted to it, and output rows are converted and scattered from
//! it.

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
    fn slice(&mut self, length: usize) -> &mut [C] {
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

/// Copies of rows with more elements may not fit into memory: a view can repeat elements, so a row
/// can be larger than its buffer.
const LARGE_ROW: usize = 1 << 30;

/// A row that is being written: the memory itself, or a copy that must be written back.
pub(crate) struct RowBuffer<'a, C> {
    pub(crate) values: &'a mut [C],
    direct: bool,
}

impl<C: Compute> Rows<C> {
    /// Splits `view` into rows along the axes for which `in_row` is true. Rows, and the elements of
    /// a row, are counted in row-major order.
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
    pub(crate) fn along_last_axis(op: &'static str, view: &Locked<'_>) -> Result<Rows<C>> {
        let rank = view.layout.shape().rank();
        Rows::new(op, view, |axis| axis + 1 == rank)
    }

    /// Returns the entire `view` as one row.
    ///
    /// # Errors
    /// As for [`new`](Rows::new).
    pub(crate) fn as_single_row(op: &'static str, view: &Locked<'_>) -> Result<Rows<C>> {
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

    /// Returns elements `range` of row `row`: their own memory if they are contiguous and stored in
    /// `C`, otherwise a copy in `scratch`.
    ///
    /// # Safety
    /// The row and these elements exist, and no code writes them while the slice lives.
    #[inline]
    pub(crate) unsafe fn read<'s>(
        &'s self,
        row: usize,
        range: Range<usize>,
        scratch: &'s mut Scratch<C>,
    ) -> &'s [C] {
        if self.dense && self.conversion.read_directly {
            let start = self.row_address(row).cast::<C>().wrapping_add(range.start);
            // SAFETY: the caller guarantees that the row is inside the tensor, hence inside the
            // locked buffer; contiguous.
            return unsafe { std::slice::from_raw_parts(start, range.len()) };
        }
        let values = scratch.slice(range.len());
        // SAFETY: guaranteed by the caller.
        unsafe { self.gather(row, range, values) };
        values
    }

    /// Copies `values.len()` elements of row `row`, from index `start` on, to `values`. Does
    /// nothing if `values` is the memory of these elements.
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
    unsafe fn gather(&self, row: usize, range: Range<usize>, values: &mut [C]) {
        let base = self.outer.operand(0).position(row);
        let mut done = 0;
        self.inner.operand(0).runs(range.start, range.len(), |position, stride, count| {
            // SAFETY: positions of elements of the tensor, as guaranteed by the caller.
            unsafe {
                (self.conversion.load)(self.address(base + position), stride, &mut values[done..done + count])
            };
            done += count;
        });
    }

    /// Returns a buffer for elements `range` of row `row`, with unspecified values: their own
    /// memory if they are contiguous and stored in `C`, otherwise `scratch`. The caller fills it
    /// and passes it to [`write`](Rows::write).
    ///
    /// # Safety
    /// The row and these elements exist, and no other code reads or writes them while the buffer
    /// lives.
    #[inline]
    pub(crate) unsafe fn buffer<'s>(
        &'s self,
        row: usize,
        range: Range<usize>,
        scratch: &'s mut Scratch<C>,
    ) -> RowBuffer<'s, C> {
        if self.dense && self.conversion.write_directly {
            let start = self.row_address(row).cast::<C>().wrapping_add(range.start);
            // SAFETY: the caller guarantees that the row is inside the tensor, hence inside the
            // locked buffer; contiguous.
            let values = unsafe { std::slice::from_raw_parts_mut(start, range.len()) };
            return RowBuffer { values, direct: true };
        }
        RowBuffer { values: scratch.slice(range.len()), direct: false }
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

    /// Writes `values` to the elements of row `row` from index `start` on.
    ///
    /// # Safety
    /// As for [`buffer`](Rows::buffer); `values` does not overlap these elements.
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

    /// Returns the address of the first element if rows can be read in place.
    pub(crate) fn readable(&self) -> Option<*const C> {
        (self.dense && self.conversion.read_directly).then(|| self.first.cast::<C>().cast_const())
    }

    /// Returns the address of the first element if rows can be written in place.
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

    /// For each element index, calls `visit(element, lane, address, stride, count)` for each run of
    /// evenly spaced rows.
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

    /// Copies rows `rows`, at most [`PANEL`] of them, to the lanes of `panel`.
    ///
    /// # Safety
    /// The rows exist, and no code writes them in the meantime. The panel has as many elements as a
    /// row, and does not overlap the rows.
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
    let rows = Rows::<C>::as_single_row(op, view)?;
    let mut values = zeros::<C>(rows.width())?;
    // SAFETY: the tensor has these elements, and the op does not write them.
    unsafe { rows.copy(0, 0, &mut values) };
    Ok(values)
}

/// Runs `work` on ranges that partition the `count` rows; pieces have about the same number of
/// elements for any width.
#[inline]
pub(crate) fn for_rows(count: usize, width: usize, cost: Cost, work: impl Fn(Range<usize>) + Sync) {
    for_ranges(count, (cost.piece() / width.max(1)).max(1), work);
}
