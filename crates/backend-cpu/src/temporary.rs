//! Temporary memory of an op, which is released when the op returns and reused by later ops: fresh
//! pages from the system cost more than the work on them.

use crate::access::Raw;
use crate::memory::{CACHED_FROM, rounded, zeros};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use ternion_core::Result;

/// The maximum number of cached bytes; more are released to the system.
const LIMIT: usize = 1 << 28;

/// Free blocks, by their number of words.
struct FreeList {
    bytes: usize,
    words: BTreeMap<usize, Vec<Vec<u64>>>,
}

static FREE: Mutex<FreeList> = Mutex::new(FreeList { bytes: 0, words: BTreeMap::new() });

fn free() -> MutexGuard<'static, FreeList> {
    // A poisoned lock is harmless: no code here panics between two changes that belong together.
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of bytes that are cached for reuse.
pub(crate) fn cached_bytes() -> usize {
    free().bytes
}

/// Releases the cached memory to the system.
pub(crate) fn release() {
    let cached = std::mem::replace(&mut *free(), FreeList { bytes: 0, words: BTreeMap::new() });
    // Freed after the lock is released.
    drop(cached);
}

/// Elements in memory that is used only by this op.
pub(crate) struct WorkBuffer<C> {
    words: Vec<u64>,
    length: usize,
    elements: PhantomData<C>,
}

impl<C: Raw> WorkBuffer<C> {
    /// Returns `length` elements with unspecified values.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn uninit(length: usize) -> Result<WorkBuffer<C>> {
        const { assert!(align_of::<C>() <= align_of::<u64>()) };
        let bytes = length.saturating_mul(size_of::<C>());
        let words = rounded(bytes).div_ceil(size_of::<u64>());
        let words = match take(words) {
            Some(cached) => cached,
            None => zeros(words)?,
        };
        let mut buffer = WorkBuffer { words, length, elements: PhantomData };
        if cfg!(debug_assertions) {
            // NaN in every floating dtype.
            buffer.words.fill(u64::MAX);
        }
        Ok(buffer)
    }

    /// Returns `length` zeros.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn zeroed(length: usize) -> Result<WorkBuffer<C>> {
        let mut buffer = WorkBuffer::uninit(length)?;
        buffer.fill(C::zeroed());
        Ok(buffer)
    }
}

fn take(words: usize) -> Option<Vec<u64>> {
    if words < CACHED_FROM / size_of::<u64>() {
        return None;
    }
    let mut free = free();
    let cached = free.words.get_mut(&words)?.pop()?;
    free.bytes -= size_of_val(cached.as_slice());
    Some(cached)
}

impl<C: Raw> Deref for WorkBuffer<C> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        // SAFETY: the words have room for this number of elements, are aligned to 8 bytes, which is
        // sufficient for every element type, and contain initialized bytes, from which `Raw` types
        // may be read.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.length) }
    }
}

impl<C: Raw> DerefMut for WorkBuffer<C> {
    fn deref_mut(&mut self) -> &mut [C] {
        // SAFETY: as in `deref`, and borrowed exclusively by this call.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.length) }
    }
}

impl<C> Drop for WorkBuffer<C> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        let bytes = size_of_val(words.as_slice());
        if bytes < CACHED_FROM {
            return;
        }
        let mut free = free();
        if free.bytes + bytes <= LIMIT {
            free.bytes += bytes;
            free.words.entry(words.len()).or_default().push(words);
        }
    }
}

/// All elements of an input: borrowed from its memory, or converted in a copy.
pub(crate) enum Dense<'a, C> {
    Borrowed(&'a [C]),
    Converted(WorkBuffer<C>),
}

impl<C: Raw> Deref for Dense<'_, C> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        match self {
            Dense::Borrowed(elements) => elements,
            Dense::Converted(elements) => elements,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_memory_is_zeroed_on_request() {
        for _ in 0..3 {
            let mut values = WorkBuffer::<f32>::uninit(100_003).expect("memory");
            values.fill(7.0);
            assert_eq!(values.len(), 100_003);
            drop(values);
            let zeros = WorkBuffer::<f32>::zeroed(100_003).expect("memory");
            assert!(zeros.iter().all(|&value| value == 0.0));
        }
    }

    #[test]
    fn empty_and_huge_sizes_are_handled() {
        assert!(WorkBuffer::<f64>::zeroed(0).expect("nothing").is_empty());
        assert_eq!(*WorkBuffer::<u8>::zeroed(3).expect("memory"), [0; 3]);
        assert!(WorkBuffer::<f64>::uninit(usize::MAX).is_err());
        assert!(WorkBuffer::<f64>::uninit(usize::MAX / 8).is_err());
    }

    #[test]
    fn the_cache_does_not_exceed_its_limit() {
        let buffers: Vec<_> = (0..3).map(|_| WorkBuffer::<u8>::uninit(LIMIT / 2).expect("memory")).collect();
        drop(buffers);
        assert!(cached_bytes() <= LIMIT);
        release();
    }
}
