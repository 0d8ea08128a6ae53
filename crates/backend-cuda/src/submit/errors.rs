//! What kernels find wrong with the data: positions outside the axis that they select from.
//!
//! A kernel that meets one does not follow it. It leaves the position and a `site`, which says the
//! op and the size of the axis, in a record in host memory that the device sees; the next
//! synchronisation takes it from there. The record holds the first one that was seen.

use crate::driver::check;
use cudarc::driver::sys;
use parking_lot::Mutex;
use std::ffi::c_void;
use ternion_core::backend::index_teller;
use ternion_core::{Error, Result};

/// Names of the ops that reported positions so far. A site says which by its index in this list.
static OPS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The op's number stands above the size of the axis.
const SIZE_BITS: u32 = 48;

/// The record, as `Fault` of the kernels.
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

// SAFETY: the record is only read and written through volatile accesses of whole words.
unsafe impl Send for IndexErrors {}
// SAFETY: as for Send.
unsafe impl Sync for IndexErrors {}

impl Drop for IndexErrors {
    /// With the device, which has ended everything and made its context current.
    fn drop(&mut self) {
        // SAFETY: the driver gave it, and no kernel runs that could write there.
        unsafe {
            let _ = sys::cuMemFreeHost(self.host.cast());
        }
    }
}

impl IndexErrors {
    /// A record without a fault. The context must be current.
    pub(crate) fn new() -> Result<IndexErrors> {
        let mut host: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: writes an address.
        check("pinned memory", unsafe { sys::cuMemHostAlloc(&mut host, size_of::<Record>(), flags) })?;
        let host: *mut Record = host.cast();
        // SAFETY: as long as a record, and aligned to a page.
        unsafe { host.write(Record { position: 0, site: 0 }) };
        // From here on given back, whatever happens.
        let mut errors = IndexErrors { host, address: 0 };
        // SAFETY: `host` was allocated to be seen by the device.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut errors.address, host.cast(), 0) };
        check("pinned memory", code)?;
        Ok(errors)
    }

    /// What kernels of `op` write beside a position outside an axis of `size`.
    pub(crate) fn site(op: &'static str, size: usize) -> u64 {
        let op = index_teller(op);
        let mut ops = OPS.lock();
        let number = ops.iter().position(|&name| name == op).unwrap_or_else(|| {
            ops.push(op);
            ops.len() - 1
        });
        (number as u64 + 1) << SIZE_BITS | size as u64
    }

    /// Takes the fault that was left, if any. Everything that was queued must have ended.
    pub(crate) fn take(&self) -> Result<()> {
        // SAFETY: the record lives as long as this; a word is read.
        let site = unsafe { (&raw const (*self.host).site).read_volatile() };
        if site == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        let index = unsafe { (&raw const (*self.host).position).read_volatile() };
        // SAFETY: as above; a word is written.
        unsafe { (&raw mut (*self.host).site).write_volatile(0) };
        let op = OPS.lock().get((site >> SIZE_BITS) as usize - 1).copied().unwrap_or("index");
        let size = (site & ((1 << SIZE_BITS) - 1)) as usize;
        // `x.i(index)` counts indices below 0 from the end: one that is still below 0 was written
        // so much lower.
        let index = if op == "index" && index < 0 { index.saturating_sub(size as i64) } else { index };
        Err(Error::IndexOutOfRange { op, index, size })
    }
}
