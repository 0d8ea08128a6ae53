//! Errors that kernels find in the data: indices outside the axis that an op indexes.
//!
//! A kernel does not use such an index. It writes the index and a `site`, which encodes the op and
//! the size of the axis, to a record in host memory that the device can access. The next
//! synchronization reads it. The record contains the first such index that was found.

use crate::driver::check;
use cudarc::driver::sys;
use parking_lot::Mutex;
use std::ffi::c_void;
use ternion_core::backend::index_error_op;
use ternion_core::{Error, Result};

/// Names of the ops that have reported indices so far. A site contains the index of the op in this
/// list.
static OPS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The op's index is stored in the bits above the size of the axis.
const SIZE_BITS: u32 = 48;

/// The record, which mirrors `Fault` in the kernels.
#[repr(C, align(16))]
struct Record {
    position: i64,
    site: u64,
}

/// The record and its address on the device.
#[derive(Debug)]
pub(crate) struct IndexErrors {
    host: *mut Record,
    pub(crate) address: u64,
}

// SAFETY: the record is only read and written by volatile accesses of whole words.
unsafe impl Send for IndexErrors {}
// SAFETY: as for Send.
unsafe impl Sync for IndexErrors {}

impl Drop for IndexErrors {
    /// Runs when the device is dropped, after its work has ended and its context was made current.
    fn drop(&mut self) {
        // SAFETY: the driver allocated it, and no kernel is running that could write to it.
        unsafe {
            let _ = sys::cuMemFreeHost(self.host.cast());
        }
    }
}

impl IndexErrors {
    /// Allocates a record without an error. The context must be current.
    pub(crate) fn new() -> Result<IndexErrors> {
        let mut host: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the call writes an address.
        check("pinned memory", unsafe { sys::cuMemHostAlloc(&mut host, size_of::<Record>(), flags) })?;
        let host: *mut Record = host.cast();
        // SAFETY: the memory has the size of a record and is aligned to a page.
        unsafe { host.write(Record { position: 0, site: 0 }) };
        // From here on `errors` owns the memory and frees it, also after an error.
        let mut errors = IndexErrors { host, address: 0 };
        // SAFETY: `host` was allocated so that the device can access it.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut errors.address, host.cast(), 0) };
        check("pinned memory", code)?;
        Ok(errors)
    }

    /// Returns the `site` that kernels of `op` write together with an index outside an axis of
    /// `size` elements.
    pub(crate) fn site(op: &'static str, size: usize) -> u64 {
        let op = index_error_op(op);
        let mut ops = OPS.lock();
        let op_index = ops.iter().position(|&name| name == op).unwrap_or_else(|| {
            ops.push(op);
            ops.len() - 1
        });
        (op_index as u64 + 1) << SIZE_BITS | size as u64
    }

    /// Returns the recorded error, if any, and clears it. Everything that was queued must have
    /// ended.
    pub(crate) fn take(&self) -> Result<()> {
        // SAFETY: the record lives as long as this; one word is read.
        let site = unsafe { (&raw const (*self.host).site).read_volatile() };
        if site == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        let index = unsafe { (&raw const (*self.host).position).read_volatile() };
        // SAFETY: as above; one word is written.
        unsafe { (&raw mut (*self.host).site).write_volatile(0) };
        let op = OPS.lock().get((site >> SIZE_BITS) as usize - 1).copied().unwrap_or("index");
        let size = (site & ((1 << SIZE_BITS) - 1)) as usize;
        // `x.i(index)` adds the size to negative indices: if an index is still negative, the
        // caller's index was lower by the size.
        let index = if op == "index" && index < 0 { index.saturating_sub(size as i64) } else { index };
        Err(Error::IndexOutOfRange { op, index, size })
    }
}
