//! From views to typed pointers: the one place where buffers are locked and bounds are checked.

use crate::memory::CpuMemory;
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use ternion_core::backend::View;
use ternion_core::{DType, Error, Layout, Result};

/// A tensor whose buffer is locked and whose elements all lie inside it.
///
/// Reading and writing through [`Input`] and [`Output`] is sound as long as indices follow the layout.
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

/// Types that may be read from raw bytes of the given dtype. Bool is read as `u8`.
pub(crate) trait Raw: Copy + Send + Sync + 'static {}
impl Raw for f64 {}
impl Raw for f32 {}
impl Raw for half::f16 {}
impl Raw for half::bf16 {}
impl Raw for i64 {}
impl Raw for i32 {}
impl Raw for u8 {}

/// A tensor that an op reads: pointer to the element at index `[0, 0, ..]`, and the layout.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a, T> {
    pub(crate) data: *const T,
    pub(crate) layout: &'a Layout,
    marker: PhantomData<&'a T>,
}

/// A tensor that an op writes. It may be exactly the view of an [`Input`] where the op's role says so: so never form references
/// to slices of both at once; read an element before its place is written.
#[derive(Clone, Copy)]
pub(crate) struct Output<'a, T> {
    pub(crate) data: *mut T,
    pub(crate) layout: &'a Layout,
    marker: PhantomData<&'a T>,
}

// SAFETY: as below.
unsafe impl Send for Locked<'_> {}
// SAFETY: as below.
unsafe impl Sync for Locked<'_> {}
// SAFETY: the buffers are locked for the whole run of the op; kernels hand disjoint parts of outputs to threads.
unsafe impl<T: Send> Send for Input<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Input<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Output<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Output<'_, T> {}

impl<'a> Locked<'a> {
    /// The address of the element at index `[0, 0, ..]`.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        // SAFETY: the offset lies in the buffer (or the tensor is empty and nothing is read).
        unsafe { self.start.add(self.layout.offset() * self.dtype.size()) }
    }

    /// The memory of `values`, which has room for `layout`, as a tensor of `dtype`, the dtype of `T`.
    pub(crate) fn of_slice<T: Raw>(values: &'a mut [T], dtype: DType, layout: &'a Layout) -> Locked<'a> {
        let end = layout.bounds().map_or(usize::MAX, |(_, high)| high + usize::from(layout.elements() > 0));
        assert!(size_of::<T>() == dtype.size() && end <= values.len(), "a layout beyond its slice");
        Locked { start: values.as_mut_ptr().cast(), dtype, layout }
    }

    /// `count` if there are any elements, else 0.
    #[inline]
    pub(crate) fn some(&self, count: usize) -> usize {
        if self.layout.elements() == 0 { 0 } else { count }
    }

    /// Another view of the same buffer: part of this one, so that its elements lie in the buffer too.
    #[inline]
    pub(crate) fn part<'b>(&self, layout: &'b Layout) -> Locked<'b>
    where
        'a: 'b,
    {
        Locked { start: self.start, dtype: self.dtype, layout }
    }

    /// As an input of `T`, which must be the dtype's type.
    #[inline]
    pub(crate) fn input<T: Raw>(&self) -> Input<'a, T> {
        debug_assert_eq!(size_of::<T>(), self.dtype.size(), "{} read as another type", self.dtype);
        // SAFETY: the offset lies in the buffer (or the tensor is empty and nothing is read).
        let data = unsafe { self.start.cast::<T>().add(self.layout.offset()) };
        Input { data, layout: self.layout, marker: PhantomData }
    }

    /// As an output of `T`, which must be the dtype's type.
    #[inline]
    pub(crate) fn output<T: Raw>(&self) -> Output<'a, T> {
        debug_assert_eq!(size_of::<T>(), self.dtype.size(), "{} written as another type", self.dtype);
        // SAFETY: as above.
        let data = unsafe { self.start.cast::<T>().add(self.layout.offset()) };
        Output { data, layout: self.layout, marker: PhantomData }
    }
}

impl<'a, T: Raw> Input<'a, T> {
    /// The elements as a slice, if they lie one after the other in row-major order.
    ///
    /// Must not be used where the op's output may be this very view and is written while the slice lives.
    #[inline]
    pub(crate) fn as_slice(&self) -> Option<&'a [T]> {
        // SAFETY: contiguous and inside the buffer, which is locked; see the caller's duty above.
        self.layout.is_contiguous().then(|| unsafe { std::slice::from_raw_parts(self.data, self.layout.elements()) })
    }

    /// The element `position` elements (a sum of index times stride) from the first.
    ///
    /// # Safety
    /// `position` must come from indices inside the shape.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, position: isize) -> T {
        // SAFETY: inside the buffer, by the caller's word and the check in `with_locked`.
        unsafe { self.data.offset(position).read() }
    }
}

impl<'a, T: Raw> Output<'a, T> {
    /// The elements as a slice, if they lie one after the other in row-major order.
    ///
    /// Must not be used where an input may be this very view and is read while the slice lives.
    #[inline]
    pub(crate) fn as_mut_slice(&self) -> Option<&'a mut [T]> {
        // SAFETY: contiguous, inside the buffer, locked for writing; outputs never share elements with each other.
        self.layout.is_contiguous().then(|| unsafe { std::slice::from_raw_parts_mut(self.data, self.layout.elements()) })
    }

    /// Writes the element `position` elements from the first.
    ///
    /// # Safety
    /// `position` must come from indices inside the shape, and no other thread may touch it.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, position: isize, value: T) {
        // SAFETY: inside the buffer, by the caller's word and the check in `with_locked`.
        unsafe { self.data.offset(position).write(value) }
    }

    /// The same view for reading: for in-place accumulation.
    #[inline]
    pub(crate) fn as_input(&self) -> Input<'a, T> {
        Input { data: self.data, layout: self.layout, marker: PhantomData }
    }
}

enum Guard<'a> {
    Read(#[allow(dead_code, reason = "held, not looked at")] RwLockReadGuard<'a, ()>),
    Write(#[allow(dead_code, reason = "held, not looked at")] RwLockWriteGuard<'a, ()>),
}

/// Checks that every view lies in its buffer, locks all buffers (in the order of their addresses, so that two ops cannot wait for each
/// other), and runs `f`.
#[inline]
pub(crate) fn with_locked(
    op: &'static str,
    inputs: &[View<'_>],
    outputs: &[View<'_>],
    f: impl FnOnce(&[Locked<'_>], &[Locked<'_>]) -> Result<()>,
) -> Result<()> {
    let mut memories: SmallVec<[(&CpuMemory, bool); 4]> = SmallVec::new();
    for (view, write) in inputs.iter().map(|view| (view, false)).chain(outputs.iter().map(|view| (view, true))) {
        let memory = crate::memory(op, view.buffer)?;
        match memories.iter_mut().find(|(other, _)| std::ptr::eq(*other, memory)) {
            Some((_, writes)) => *writes |= write,
            None => memories.push((memory, write)),
        }
    }
    memories.sort_unstable_by_key(|(memory, _)| std::ptr::from_ref(*memory).addr());
    let _guards: SmallVec<[Guard<'_>; 4]> = memories
        .iter()
        .map(|(memory, write)| match write {
            true => Guard::Write(memory.lock.write().unwrap_or_else(PoisonError::into_inner)),
            false => Guard::Read(memory.lock.read().unwrap_or_else(PoisonError::into_inner)),
        })
        .collect();
    let inputs = inputs.iter().map(|view| locked(op, view)).collect::<Result<SmallVec<[Locked<'_>; 4]>>>()?;
    let outputs = outputs.iter().map(|view| locked(op, view)).collect::<Result<SmallVec<[Locked<'_>; 2]>>>()?;
    f(&inputs, &outputs)
}

#[inline]
fn locked<'a>(op: &'static str, view: &View<'a>) -> Result<Locked<'a>> {
    let memory = crate::memory(op, view.buffer)?;
    let end = match view.layout.bounds() {
        Some((low, _)) if view.layout.elements() == 0 => Some(low),
        Some((_, high)) => Some(high + 1),
        None => None,
    };
    let fits = end.and_then(|end| view.dtype.bytes_for(end)).is_some_and(|bytes| bytes <= ternion_core::backend::Memory::bytes(memory));
    if !fits {
        return Err(Error::invalid(op, format!("a view of shape {:?} reaches beyond its buffer", view.layout.shape())));
    }
    Ok(Locked { start: memory.start(), dtype: view.dtype, layout: view.layout })
}
