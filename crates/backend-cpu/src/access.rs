//! Conversion of views to typed pointers: the only module that locks buffers and checks bounds.

use crate::memory::CpuMemory;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

use ternion_core::backend::{Memory, View};
use ternion_core::{DType, Error, Layout, Op, Result};

/// A tensor whose buffer is locked and whose elements are all inside it.
///
/// Reading and writing is sound as long as indices follow the layout. An output may be exactly the
/// view of an input if the op's role says so. In that case, never create references to elements of
/// both at the same time, and read an element before it is overwritten.
#[derive(Clone, Copy)]
pub(crate) struct Locked<'a> {
    /// The first byte of the buffer.
    start: *mut u8,
    /// The element type.
    pub(crate) dtype: DType,
    /// Shape, strides and offset.
    pub(crate) layout: &'a Layout,
}

/// An address that several threads may use, each for different elements.
#[derive(Clone, Copy)]
pub(crate) struct Pointer<T>(pub(crate) *mut T);

// SAFETY: an address can be sent; the code that reads or writes through it justifies each access.
unsafe impl<T: Send> Send for Pointer<T> {}
// SAFETY: a shared `Pointer` only gives out copies of the address, which is what `Send` allows; `T`
// is `Send` because several threads then access its elements, each different ones.
unsafe impl<T: Send> Sync for Pointer<T> {}

impl<T> Pointer<T> {
    /// Returns the address.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

/// Types for which any bytes of their size are a valid value.
pub(crate) trait Raw: bytemuck::Zeroable + Copy + Send + Sync + 'static {}
impl Raw for f64 {}
impl Raw for f32 {}
impl Raw for half::f16 {}
impl Raw for half::bf16 {}
impl Raw for i64 {}
impl Raw for i32 {}
impl Raw for i16 {}
impl Raw for u64 {}
impl Raw for u32 {}
impl Raw for u16 {}
impl Raw for i8 {}
impl Raw for u8 {}

// SAFETY: the thread that runs the op holds the guards of its buffer, and outlives every thread
// that works on the op's pieces (`threads`), so the address stays valid on all of them.
unsafe impl Send for Locked<'_> {}
// SAFETY: its methods only read `start`, `dtype` and `layout`, which do not change; kernels that
// write through the address assign each thread elements of the output that no other thread
// accesses.
unsafe impl Sync for Locked<'_> {}

impl<'a> Locked<'a> {
    /// Creates a tensor from `view`. The caller has locked `memory` and checked that the view
    /// [`fits`].
    #[inline(always)]
    fn new(memory: &CpuMemory, view: &View<'a>) -> Locked<'a> {
        Locked { start: memory.start(), dtype: view.dtype, layout: view.layout }
    }

    /// Returns the address of the element at index `[0, 0, ..]`.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        // SAFETY: the offset is inside the buffer (or the tensor is empty and nothing is read).
        unsafe { self.start.add(self.layout.offset() * self.dtype.size()) }
    }

    /// Returns another view of the same buffer. `layout` contains only elements of this view, so
    /// that they are inside the buffer too.
    #[inline]
    pub(crate) fn with_layout<'b>(&self, layout: &'b Layout) -> Locked<'b>
    where
        'a: 'b,
    {
        Locked { start: self.start, dtype: self.dtype, layout }
    }

    /// Returns the memory of `values` as a tensor of `dtype`, the dtype of `T`. Panics if `layout`
    /// has elements beyond `values`.
    pub(crate) fn of_slice<T: Raw>(values: &'a mut [T], dtype: DType, layout: &'a Layout) -> Locked<'a> {
        let end = layout.bounds().map_or(usize::MAX, |(_, high)| high + usize::from(layout.elements() > 0));
        assert!(size_of::<T>() == dtype.size() && end <= values.len(), "a layout beyond its slice");
        Locked { start: values.as_mut_ptr().cast(), dtype, layout }
    }

    /// Same as [`of_slice`](Locked::of_slice) for untyped memory.
    pub(crate) fn of_words(words: &'a mut [u64], dtype: DType, layout: &'a Layout) -> Locked<'a> {
        let end = layout.bounds().map_or(usize::MAX, |(_, high)| high + usize::from(layout.elements() > 0));
        assert!(end.saturating_mul(dtype.size()) <= size_of_val(words), "a layout beyond its slice");
        Locked { start: words.as_mut_ptr().cast(), dtype, layout }
    }

    /// Returns whether both are views of one buffer.
    pub(crate) fn shares_buffer(&self, other: &Locked<'_>) -> bool {
        std::ptr::eq(self.start, other.start)
    }
}

enum Guard<'a> {
    Read(#[allow(dead_code, reason = "held, not looked at")] RwLockReadGuard<'a, ()>),
    Write(#[allow(dead_code, reason = "held, not looked at")] RwLockWriteGuard<'a, ()>),
}

/// The function that runs while the buffers are locked, with the op, its inputs and its outputs.
type Callback = fn(&Op, &[Locked<'_>], &[Locked<'_>]) -> Result<()>;

/// Checks that every view is inside its buffer, locks all buffers, and runs `kernel`.
#[inline]
pub(crate) fn with_locked(
    op: &Op,
    inputs: &[View<'_>],
    outputs: &[View<'_>],
    kernel: Callback,
) -> Result<()> {
    match inputs.len() {
        1 => with_few::<1>(op, inputs, outputs, kernel),
        2 => with_few::<2>(op, inputs, outputs, kernel),
        3 => with_few::<3>(op, inputs, outputs, kernel),
        _ => with_all(op, inputs, outputs, kernel),
    }
}

/// The fast path for `N` inputs and one output: acquires the locks in any order as long as each is
/// free. A thread that never waits for a lock cannot deadlock. [`with_all`] handles all other
/// cases.
#[inline(always)]
fn with_few<const N: usize>(
    op: &Op,
    inputs: &[View<'_>],
    outputs: &[View<'_>],
    kernel: Callback,
) -> Result<()> {
    let slow = || with_all(op, inputs, outputs, kernel);
    let (Ok(views), [output]) = (<&[View<'_>; N]>::try_from(inputs), outputs) else { return slow() };
    let Some(written) = output.buffer.downcast::<CpuMemory>().filter(|memory| fits(memory, output)) else {
        return slow();
    };
    let Some(output_guard) = written.lock.try_write() else { return slow() };
    let mut read = [written; N];
    let mut guards = [const { None }; N];
    let complete = 'locks: {
        for at in 0..N {
            let memory = views[at].buffer.downcast::<CpuMemory>();
            let Some(memory) = memory.filter(|memory| fits(memory, &views[at])) else { break 'locks false };
            (read[at], guards[at]) = (memory, memory.lock.try_read());
            if guards[at].is_none() {
                break 'locks false;
            }
        }
        true
    };
    if !complete {
        drop((output_guard, guards));
        return slow();
    }
    kernel(
        op,
        &std::array::from_fn::<_, N, _>(|at| Locked::new(read[at], &views[at])),
        &[Locked::new(written, output)],
    )
}

/// A buffer and whether it is written.
type Use<'a> = (&'a CpuMemory, bool);

/// Acquires the locks in the order of addresses, so that two ops cannot wait for each other.
fn with_all(op: &Op, inputs: &[View<'_>], outputs: &[View<'_>], kernel: Callback) -> Result<()> {
    let name = op.name();
    let mut uses: SmallVec<[Use<'_>; 4]> = SmallVec::new();
    let mut tensors: SmallVec<[Locked<'_>; 4]> = SmallVec::new();
    for (views, write) in [(inputs, false), (outputs, true)] {
        for view in views {
            let memory = crate::memory(name, view.buffer)?;
            if !fits(memory, view) {
                let shape = view.layout.shape();
                return Err(Error::invalid(
                    name,
                    format!("a view of shape {shape:?} reaches beyond its buffer"),
                ));
            }
            tensors.push(Locked::new(memory, view));
            insert_by_address(&mut uses, (memory, write));
        }
    }
    let _guards: SmallVec<[Guard<'_>; 4]> = uses.iter().map(|&(memory, write)| lock(memory, write)).collect();
    let (inputs, outputs) = tensors.split_at(inputs.len());
    kernel(op, inputs, outputs)
}

/// Inserts a buffer in the order of addresses.
#[inline]
fn insert_by_address<'a>(uses: &mut SmallVec<[Use<'a>; 4]>, (memory, write): Use<'a>) {
    if let Some((_, written)) = uses.iter_mut().find(|(known, _)| std::ptr::eq(*known, memory)) {
        *written |= write;
        return;
    }
    let address = |memory: &CpuMemory| std::ptr::from_ref(memory).addr();
    uses.push((memory, write));
    let mut index = uses.len() - 1;
    while index > 0 && address(uses[index - 1].0) > address(uses[index].0) {
        uses.swap(index - 1, index);
        index -= 1;
    }
}

#[inline]
fn lock(memory: &CpuMemory, write: bool) -> Guard<'_> {
    match write {
        true => Guard::Write(memory.lock.write()),
        false => Guard::Read(memory.lock.read()),
    }
}

/// Returns whether all elements of `view` are inside its buffer.
#[inline(always)]
fn fits(memory: &CpuMemory, view: &View<'_>) -> bool {
    let layout = view.layout;
    let elements = layout.elements();
    let end = if elements == 0 || layout.is_contiguous() {
        layout.offset().checked_add(elements)
    } else {
        layout.bounds().and_then(|(_, high)| high.checked_add(1))
    };
    end.and_then(|end| view.dtype.bytes_for(end)).is_some_and(|bytes| bytes <= memory.bytes())
}
