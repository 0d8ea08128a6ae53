//! What a device does and when, kernel by kernel, as NVIDIA's library CUPTI measures it.

mod cupti;
mod record;
#[cfg(test)]
mod tests;

pub use record::{Activity, ActivityKind};

use cupti::{Code, Functions};
use parking_lot::Mutex;
use record::{KERNEL, MEMCPY, MEMSET};
use std::alloc::Layout;
use std::ffi::c_void;
use ternion_core::{Error, Result};

/// What is asked for.
const KINDS: [u32; 3] = [KERNEL, MEMCPY, MEMSET];

/// Bytes of a buffer that CUPTI writes into: some 30,000 records.
const BUFFER_BYTES: usize = 8 << 20;

/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`: another profiler is there.
const ANOTHER_PROFILER: Code = 39;

/// A trace that is on: CUPTI's callbacks know nothing but this.
struct Active {
    functions: Functions,
    found: Vec<Activity>,
    /// Records for which there was no room.
    dropped: usize,
}

static ACTIVE: Mutex<Option<Active>> = Mutex::new(None);

/// A trace of everything that CUDA devices do in this process, from when it is opened until it is dropped.
///
/// Kernels run as without it, but each launch, also of a recorded step's kernels, takes the host and the device a
/// little longer: gaps between short kernels are wider than without a trace.
///
/// One trace at a time, and none while another profiler (Nsight, a PyTorch profiler) is attached. Steps that are to
/// be seen kernel by kernel must be recorded while the trace is on.
pub struct KernelTrace(());

impl KernelTrace {
    /// Opens CUPTI and begins.
    ///
    /// # Errors
    /// No library (`TERNION_CUPTI` names one that is in no usual folder), one older than CUDA 12.0, a
    /// trace that is on already, another profiler, no permission.
    pub fn begin() -> Result<KernelTrace> {
        KernelTrace::begin_with(cupti::open().map_err(failed)?)
    }

    fn begin_with(functions: Functions) -> Result<KernelTrace> {
        {
            let mut active = ACTIVE.lock();
            if active.is_some() {
                return Err(failed("another trace of kernels is on in this process"));
            }
            *active = Some(Active { functions, found: Vec::new(), dropped: 0 });
        }
        let trace = KernelTrace(());
        // SAFETY: the callbacks are functions of this program, which stay.
        let code = unsafe { (functions.register)(request_buffer, complete_buffer) };
        checked(&functions, "does not take buffers", code)?;
        for kind in KINDS {
            // SAFETY: it takes a number.
            checked(&functions, "does not begin", unsafe { (functions.enable)(kind) })?;
        }
        Ok(trace)
    }

    /// What was done since the trace began, or since this was asked last, in the order in which it began.
    /// Synchronize the device first: what has not ended is reported later.
    ///
    /// # Errors
    /// What CUPTI says; records that were lost.
    pub fn take(&self) -> Result<Vec<Activity>> {
        let Some(functions) = ACTIVE.lock().as_ref().map(|active| active.functions) else {
            return Ok(Vec::new());
        };
        // SAFETY: it takes a number; the callbacks that it calls lock nothing that is locked here.
        checked(&functions, "does not give its records", unsafe { (functions.flush)(0) })?;
        let (mut found, dropped) = match ACTIVE.lock().as_mut() {
            Some(active) => (std::mem::take(&mut active.found), std::mem::take(&mut active.dropped)),
            None => Default::default(),
        };
        if dropped > 0 {
            return Err(failed(format!("{dropped} records were lost: the program has no memory for them")));
        }
        found.sort_by_key(|activity| activity.start_ns);
        Ok(found)
    }
}

impl Drop for KernelTrace {
    /// Ends the trace.
    fn drop(&mut self) {
        let Some(functions) = ACTIVE.lock().as_ref().map(|active| active.functions) else { return };
        for kind in KINDS {
            // SAFETY: it takes a number; of what is not on it says so.
            unsafe { (functions.disable)(kind) };
        }
        // SAFETY: as in `take`.
        unsafe { (functions.flush)(0) };
        *ACTIVE.lock() = None;
    }
}

fn failed(detail: impl Into<String>) -> Error {
    Error::Device { device: "cuda".into(), detail: detail.into() }
}

fn checked(functions: &Functions, what: &str, code: Code) -> Result<()> {
    match code {
        0 => Ok(()),
        ANOTHER_PROFILER => Err(failed(format!(
            "CUPTI {what}: another profiler is attached to this process ({})",
            functions.explained(code)
        ))),
        _ => Err(failed(format!("CUPTI {what}: {}", functions.explained(code)))),
    }
}

/// The memory of a buffer; records ask for an alignment of 8.
fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 8).ok()
}

/// Gives CUPTI a buffer, or one of no bytes where there is no memory: then records are lost, and counted.
extern "C" fn request_buffer(buffer: *mut *mut u8, bytes: *mut usize, records: *mut usize) {
    // SAFETY: the layout has bytes.
    let memory =
        layout(BUFFER_BYTES).map_or(std::ptr::null_mut(), |layout| unsafe { std::alloc::alloc(layout) });
    // SAFETY: CUPTI gives three paths_to_try to write to.
    unsafe {
        buffer.write(memory);
        bytes.write(if memory.is_null() { 0 } else { BUFFER_BYTES });
        records.write(0);
    }
}

/// Takes a buffer back, and what is in it.
extern "C" fn complete_buffer(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    bytes: usize,
    written: usize,
) {
    if let Some(active) = ACTIVE.lock().as_mut() {
        active.read(buffer, written);
        let mut dropped = 0;
        // SAFETY: writes a number.
        if unsafe { (active.functions.dropped)(context, stream, &mut dropped) } == 0 {
            active.dropped += dropped;
        }
    }
    if let Some(layout) = layout(bytes).filter(|_| !buffer.is_null() && bytes > 0) {
        // SAFETY: CUPTI gives back what `request_buffer` gave it, with its length, once.
        unsafe { std::alloc::dealloc(buffer, layout) };
    }
}

impl Active {
    /// Adds the records of a buffer.
    fn read(&mut self, buffer: *mut u8, written: usize) {
        let mut record = std::ptr::null_mut();
        // SAFETY: the buffer holds so many bytes of records; the last one that was given, or null, leads on.
        while written > 0 && unsafe { (self.functions.next)(buffer, written, &mut record) } == 0 {
            // SAFETY: a whole record of this buffer.
            self.found.extend(unsafe { record::activity(record) });
        }
    }
}
