//! A timeline of the work of a device, kernel by kernel, measured by NVIDIA's library CUPTI.

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

/// The kinds of records that are requested.
const KINDS: [u32; 3] = [KERNEL, MEMCPY, MEMSET];

/// Bytes of a buffer that CUPTI writes to: about 30,000 records.
const BUFFER_BYTES: usize = 8 << 20;

/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`: another profiler is attached.
const ANOTHER_PROFILER: Code = 39;

/// The active trace. It is in a static, through which CUPTI's callbacks access it.
struct Active {
    functions: Functions,
    activities: Vec<Activity>,
    /// The number of records for which there was no memory.
    dropped: usize,
}

static ACTIVE: Mutex<Option<Active>> = Mutex::new(None);

/// A trace of everything that CUDA devices do in this process, from [`begin`](KernelTrace::begin)
/// until it is dropped.
///
/// Kernels run as without it, but each launch, also of the kernels of a recorded step, takes the
/// host and the device a little longer: the gaps between short kernels are wider than without a
/// trace.
///
/// There can be only one trace at a time, and none while another profiler (Nsight, a PyTorch
/// profiler) is attached. A step appears kernel by kernel only if it is recorded while the trace is
/// active.
pub struct KernelTrace(());

impl KernelTrace {
    /// Opens CUPTI and begins the trace.
    ///
    /// # Errors
    /// The library was not found (`TERNION_CUPTI` names one in an unusual folder) or is older than
    /// CUDA 12.0, a trace is already active, another profiler is attached, or permission is
    /// missing.
    pub fn begin() -> Result<KernelTrace> {
        KernelTrace::begin_with(cupti::open().map_err(trace_error)?)
    }

    fn begin_with(functions: Functions) -> Result<KernelTrace> {
        {
            let mut active = ACTIVE.lock();
            if active.is_some() {
                return Err(trace_error("another trace of kernels is on in this process"));
            }
            *active = Some(Active { functions, activities: Vec::new(), dropped: 0 });
        }
        let trace = KernelTrace(());
        // SAFETY: the callbacks are static functions of this program.
        let code = unsafe { (functions.register)(request_buffer, complete_buffer) };
        check(&functions, "does not take buffers", code)?;
        for kind in KINDS {
            // SAFETY: the call takes an integer.
            check(&functions, "does not begin", unsafe { (functions.enable)(kind) })?;
        }
        Ok(trace)
    }

    /// Returns the activities since the trace began, or since the last call, in the order in which
    /// they began. Synchronize the device first: an activity is reported only after it has ended.
    ///
    /// # Errors
    /// An error of CUPTI, or records were lost.
    pub fn take(&self) -> Result<Vec<Activity>> {
        let Some(functions) = ACTIVE.lock().as_ref().map(|active| active.functions) else {
            return Ok(Vec::new());
        };
        // SAFETY: the call takes an integer. It calls the callbacks, which acquire no lock that is
        // held here.
        check(&functions, "does not give its records", unsafe { (functions.flush)(0) })?;
        let (mut activities, dropped) = match ACTIVE.lock().as_mut() {
            Some(active) => (std::mem::take(&mut active.activities), std::mem::take(&mut active.dropped)),
            None => Default::default(),
        };
        if dropped > 0 {
            return Err(trace_error(format!(
                "{dropped} records were lost: the program has no memory for them"
            )));
        }
        activities.sort_by_key(|activity| activity.start_ns);
        Ok(activities)
    }
}

impl Drop for KernelTrace {
    /// Ends the trace.
    fn drop(&mut self) {
        let Some(functions) = ACTIVE.lock().as_ref().map(|active| active.functions) else { return };
        for kind in KINDS {
            // SAFETY: the call takes an integer; it returns an error for a kind that is not
            // enabled.
            unsafe { (functions.disable)(kind) };
        }
        // SAFETY: as in `take`.
        unsafe { (functions.flush)(0) };
        *ACTIVE.lock() = None;
    }
}

fn trace_error(detail: impl Into<String>) -> Error {
    Error::Device { device: "cuda".into(), detail: detail.into() }
}

fn check(functions: &Functions, what: &str, code: Code) -> Result<()> {
    match code {
        0 => Ok(()),
        ANOTHER_PROFILER => Err(trace_error(format!(
            "CUPTI {what}: another profiler is attached to this process ({})",
            functions.explained(code)
        ))),
        _ => Err(trace_error(format!("CUPTI {what}: {}", functions.explained(code)))),
    }
}

/// Returns the layout of a buffer; records need an alignment of 8.
fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 8).ok()
}

/// Passes a buffer to CUPTI, or one of 0 bytes if there is no memory: then records are lost, and
/// counted.
extern "C" fn request_buffer(buffer: *mut *mut u8, bytes: *mut usize, records: *mut usize) {
    // SAFETY: the size of the layout is not 0.
    let memory =
        layout(BUFFER_BYTES).map_or(std::ptr::null_mut(), |layout| unsafe { std::alloc::alloc(layout) });
    // SAFETY: CUPTI passes three pointers to write to.
    unsafe {
        buffer.write(memory);
        bytes.write(if memory.is_null() { 0 } else { BUFFER_BYTES });
        records.write(0);
    }
}

/// Receives a buffer from CUPTI and reads its records.
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
        // SAFETY: the call writes an integer.
        if unsafe { (active.functions.dropped)(context, stream, &mut dropped) } == 0 {
            active.dropped += dropped;
        }
    }
    if let Some(layout) = layout(bytes).filter(|_| !buffer.is_null() && bytes > 0) {
        // SAFETY: CUPTI returns what `request_buffer` passed to it, with its length, once.
        unsafe { std::alloc::dealloc(buffer, layout) };
    }
}

impl Active {
    /// Adds the records of a buffer.
    fn read(&mut self, buffer: *mut u8, written: usize) {
        let mut record = std::ptr::null_mut();
        // SAFETY: the buffer contains `written` bytes of records; `record` is the previous one, or
        // null for the first.
        while written > 0 && unsafe { (self.functions.next)(buffer, written, &mut record) } == 0 {
            // SAFETY: a complete record of this buffer.
            self.activities.extend(unsafe { record::activity(record) });
        }
    }
}
