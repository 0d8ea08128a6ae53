//! Entire tensors as contiguous slices in row-major order, for kernels that read an element many
//! times; and reusable work memory.

use crate::access::Locked;
use crate::float::Float;
use crate::rows::Rows;
use crate::storage::Compute;
use crate::temporary::{Dense, WorkBuffer};
use crate::threads::{Cost, for_ranges};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use ternion_core::Result;

/// Borrows the elements of `view`, an input, if they are contiguous and stored in the compute type;
/// otherwise copies and converts them.
///
/// # Errors
/// If the dtype is not computed in `C`, or there is no memory.
pub(crate) fn dense<'a, C: Compute>(op: &'static str, view: &'a Locked<'a>) -> Result<Dense<'a, C>> {
    let rows = Rows::<C>::as_single_row(op, view)?;
    if let Some(first) = rows.readable() {
        // SAFETY: contiguous, inside the locked buffer, and not written while the op runs.
        return Ok(Dense::Borrowed(unsafe { std::slice::from_raw_parts(first, rows.width()) }));
    }
    let mut values = WorkBuffer::uninit(rows.width())?;
    let slices = DisjointSlices::of(&mut values);
    for_ranges(rows.width(), Cost::Light.piece(), |range| {
        // SAFETY: the elements exist; ranges are disjoint.
        unsafe { rows.copy(0, range.start, slices.slice_mut(range)) };
    });
    Ok(Dense::Converted(values))
}

/// A slice whose disjoint ranges are written by several threads.
#[derive(Clone, Copy)]
pub(crate) struct DisjointSlices<'a, C> {
    first: *mut C,
    length: usize,
    marker: PhantomData<&'a mut [C]>,
}

// SAFETY: callers of `slice_mut` guarantee that ranges are disjoint.
unsafe impl<C: Send> Send for DisjointSlices<'_, C> {}
// SAFETY: as above.
unsafe impl<C: Send> Sync for DisjointSlices<'_, C> {}

impl<'a, C> DisjointSlices<'a, C> {
    pub(crate) fn of(values: &'a mut [C]) -> DisjointSlices<'a, C> {
        DisjointSlices { first: values.as_mut_ptr(), length: values.len(), marker: PhantomData }
    }

    /// Returns the elements of `range`.
    ///
    /// # Safety
    /// No other slice or thread uses these elements while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "the caller promises that slices are disjoint")]
    pub(crate) unsafe fn slice_mut(&self, range: Range<usize>) -> &'a mut [C] {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "{range:?} of {} elements",
            self.length
        );
        // SAFETY: inside the slice (checked); the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(range.start), range.len()) }
    }

    /// Returns the address of element `index`, for kernels that write elements with a stride.
    pub(crate) fn at(&self, index: usize) -> *mut C {
        assert!(index <= self.length, "element {index} of {}", self.length);
        self.first.wrapping_add(index)
    }
}

/// An output that several threads write as one contiguous slice in row-major order. The slice is
/// the output's own memory, or a staging buffer that [`finish`](DenseOutput::finish) copies to it.
pub(crate) struct DenseOutput<C: 'static> {
    rows: Rows<C>,
    staged: Option<WorkBuffer<C>>,
}

impl<C: Compute> DenseOutput<C> {
    /// Creates the output for `view`, which must not overlap the inputs.
    ///
    /// # Errors
    /// If the dtype is not computed in `C`, or there is no memory.
    pub(crate) fn new(op: &'static str, view: &Locked<'_>) -> Result<DenseOutput<C>> {
        let rows = Rows::<C>::as_single_row(op, view)?;
        let staged = match rows.writable() {
            Some(_) => None,
            None => Some(WorkBuffer::uninit(rows.width())?),
        };
        Ok(DenseOutput { rows, staged })
    }

    /// Returns the elements, with unspecified values.
    pub(crate) fn disjoint_slices(&mut self) -> DisjointSlices<'_, C> {
        match &mut self.staged {
            Some(values) => DisjointSlices::of(values),
            None => DisjointSlices {
                first: self.rows.writable().unwrap_or(std::ptr::null_mut()),
                length: self.rows.width(),
                marker: PhantomData,
            },
        }
    }

    /// Copies staged elements to the output.
    pub(crate) fn finish(self) {
        let Some(values) = self.staged else { return };
        for_ranges(values.len(), Cost::Light.piece(), |range| {
            // SAFETY: the elements exist, and ranges are disjoint.
            unsafe { self.rows.store(0, range.start, &values[range]) };
        });
    }
}

thread_local! {
    /// Work memory of kernels, which is reused across calls: fresh pages would cost more than the
    /// work on them.
    static WORKSPACE: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with `length` elements of unspecified values.
pub(crate) fn with_workspace<T: Float, R>(length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    // The memory is moved out, so that a nested call finds an empty vector.
    let mut words = WORKSPACE.take();
    let needed = (length * size_of::<T>()).div_ceil(size_of::<u64>());
    if words.len() < needed {
        words.resize(needed, 0);
    }
    let result = work(&mut bytemuck::cast_slice_mut::<u64, T>(&mut words)[..length]);
    WORKSPACE.set(words);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_nest() {
        with_workspace(10, |outer: &mut [f64]| {
            outer.fill(1.0);
            with_workspace(1000, |inner: &mut [f32]| inner.fill(2.0));
            assert_eq!(outer, [1.0; 10]);
        });
        assert_eq!(with_workspace(7, |values: &mut [f32]| values.len()), 7);
    }
}
