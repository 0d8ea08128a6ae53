//! The stream of a device.

use super::{Context, check};
use cudarc::driver::sys;
use std::sync::Arc;
use ternion_core::Result;

/// A stream of the CUDA driver.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Arc<Context>,
    pub(crate) handle: sys::CUstream,
}

// SAFETY: the stream is a handle that every thread may use.
unsafe impl Send for Stream {}
// SAFETY: as for Send.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream of `context`, which must be current.
    ///
    /// It is not the default stream, which cannot be captured and waits for other streams.
    pub(crate) fn new(context: Arc<Context>) -> Result<Stream> {
        let mut handle = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the call writes a handle; the context is current.
        check("cuda", unsafe { sys::cuStreamCreate(&mut handle, flags) })?;
        Ok(Stream { context, handle })
    }
}
