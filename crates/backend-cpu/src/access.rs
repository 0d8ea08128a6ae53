//! From views to typed pointers: the one place where buffers are locked and bounds are checked.

use crate::memory::CpuMemory;
use smallvec::SmallVec;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use ternion_core::backend::{Memory, View};
use ternion_core::{DType, Error, Layout, Result};

/// A tensor whose buffer is locked and whose elements all lie inside it.
///
/// Reading and writing is sound as long as indices follow the layout. An output may be exactly the view of an input where the op's
/// role says so: then never form references to elements of both at once, and read an element before its place is written.
#[derive(Clone, Copy)]
pub(crate) struct Locked<'a> {
    /// The first byte of the buffer.
    start: *mut u8,
    /// Element type.
    pub(crate) dtype: DType,
    /// Shape, strides and offset.
    pub(crate) layout: &'a Layout,
}

/// An address that several threads may work from, each on its own elements.
#[derive(Clone, Copy)]
pub(crate) struct Pointer<T>(pub(crate) *mut T);

// SAFETY: it is only an address; whoever reads or writes through it says why that is sound.
unsafe impl<T: Send> Send for Pointer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Pointer<T> {}

impl<T> Pointer<T> {
    /// The address.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

/// Types that may be read from any bytes of their size.
pub(crate) trait Raw: Copy + Send + Sync + 'static {}
impl Raw for f64 {}
impl Raw for f32 {}
impl Raw for half::f16 {}
impl Raw for half::bf16 {}
impl Raw for i64 {}
impl Raw for i32 {}
impl Raw for u16 {}
impl Raw for u8 {}

// SAFETY: the buffers are locked for the whole run of the op; kernels hand disjoint parts of outputs to threads.
unsafe impl Send for Locked<'_> {}
// SAFETY: as above.
unsafe impl Sync for Locked<'_> {}

impl<'a> Locked<'a> {
    /// The address of the element at index `[0, 0, ..]`.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        // SAFETY: the offset lies in the buffer (or the tensor is empty and nothing is read).
        unsafe { self.start.add(self.layout.offset() * self.dtype.size()) }
    }

    /// Another view of the same buffer: part of this one, so that its elements lie in the buffer too.
    #[inline]
    pub(crate) fn part<'b>(&self, layout: &'b Layout) -> Locked<'b>
    where
        'a: 'b,
    {
        Locked { start: self.start, dtype: self.dtype, layout }
    }

    /// The memory of `values`, which has room for `layout`, as a tensor of `dtype`, the dtype of `T`.
    pub(crate) fn of_slice<T: Raw>(values: &'a mut [T], dtype: DType, layout: &'a Layout) -> Locked<'a> {
        let end = layout.bounds().map_or(usize::MAX, |(_, high)| high + usize::from(layout.elements() > 0));
        assert!(size_of::<T>() == dtype.size() && end <= values.len(), "a layout beyond its slice");
        Locked { start: values.as_mut_ptr().cast(), dtype, layout }
    }

    /// As [`of_slice`](Locked::of_slice), for memory without a type of its own.
    pub(crate) fn of_words(words: &'a mut [u64], dtype: DType, layout: &'a Layout) -> Locked<'a> {
        let end = layout.bounds().map_or(usize::MAX, |(_, high)| high + usize::from(layout.elements() > 0));
        assert!(end.saturating_mul(dtype.size()) <= size_of_val(words), "a layout beyond its slice");
        Locked { start: words.as_mut_ptr().cast(), dtype, layout }
    }

    /// Whether both lie in one buffer.
    pub(crate) fn shares_buffer(&self, other: &Locked<'_>) -> bool {
        std::ptr::eq(self.start, other.start)
    }

    /// `count` if there are any elements, else 0.
    #[inline]
    pub(crate) fn some(&self, count: usize) -> usize {
        if self.layout.elements() == 0 { 0 } else { count }
    }
}

enum Guard<'a> {
    Read(#[allow(dead_code, reason = "held, not looked at")] RwLockReadGuard<'a, ()>),
    Write(#[allow(dead_code, reason = "held, not looked at")] RwLockWriteGuard<'a, ()>),
}

/// A buffer and whether it is written.
type Use<'a> = (&'a CpuMemory, bool);

/// Checks that every view lies in its buffer, locks all buffers (in the order of their addresses, so that two ops cannot wait for each
/// other), and runs `f`.
#[inline]
pub(crate) fn with_locked(
    op: &'static str,
    inputs: &[View<'_>],
    outputs: &[View<'_>],
    f: impl FnOnce(&[Locked<'_>], &[Locked<'_>]) -> Result<()>,
) -> Result<()> {
    let mut uses: SmallVec<[Use<'_>; 4]> = SmallVec::new();
    let mut tensors: SmallVec<[Locked<'_>; 4]> = SmallVec::new();
    for (number, view) in inputs.iter().chain(outputs).enumerate() {
        let memory = crate::memory(op, view.buffer)?;
        tensors.push(inside(op, memory, view)?);
        note(&mut uses, (memory, number >= inputs.len()));
    }
    let _guards: SmallVec<[Guard<'_>; 4]> = uses.iter().map(|&(memory, write)| lock(memory, write)).collect();
    let (inputs, outputs) = tensors.split_at(inputs.len());
    f(inputs, outputs)
}

/// Puts a buffer into its place in the order of addresses.
#[inline]
fn note<'a>(uses: &mut SmallVec<[Use<'a>; 4]>, (memory, write): Use<'a>) {
    let address = |memory: &CpuMemory| std::ptr::from_ref(memory).addr();
    let mut place = uses.len();
    while place > 0 && address(uses[place - 1].0) >= address(memory) {
        if std::ptr::eq(uses[place - 1].0, memory) {
            uses[place - 1].1 |= write;
            return;
        }
        place -= 1;
    }
    uses.insert(place, (memory, write));
}

#[inline]
fn lock(memory: &CpuMemory, write: bool) -> Guard<'_> {
    match write {
        true => Guard::Write(memory.lock.write().unwrap_or_else(PoisonError::into_inner)),
        false => Guard::Read(memory.lock.read().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// `view` with its buffer's address, if all its elements lie in the buffer.
#[inline]
fn inside<'a>(op: &'static str, memory: &CpuMemory, view: &View<'a>) -> Result<Locked<'a>> {
    let layout = view.layout;
    let elements = layout.elements();
    let end = if elements == 0 || layout.is_contiguous() {
        layout.offset().checked_add(elements)
    } else {
        layout.bounds().and_then(|(_, high)| high.checked_add(1))
    };
    let bytes = end.and_then(|end| view.dtype.bytes_for(end));
    if bytes.is_some_and(|bytes| bytes <= memory.bytes()) {
        Ok(Locked { start: memory.start(), dtype: view.dtype, layout })
    } else {
        Err(Error::invalid(op, format!("a view of shape {:?} reaches beyond its buffer", layout.shape())))
    }
}
