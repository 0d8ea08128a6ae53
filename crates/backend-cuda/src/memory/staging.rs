//! Copies between host and device through pinned memory: the caller's memory is free again when an
//! upload returns, and both ways run at the bus's speed.

use crate::driver::check;
use cudarc::driver::sys;
use std::ffi::c_void;
use ternion_core::Result;

/// Bytes of one pinned chunk: long enough that the cost of a copy's start is lost in it.
const CHUNK: usize = 2 << 20;

/// Chunks that uploads go round in: the host fills one while others are in flight.
const CHUNKS: usize = 4;

/// Makes an error of the driver's code: it may be of a kernel that was queued before.
type CheckStatus<'a> = &'a dyn Fn(&'static str, sys::CUresult) -> Result<()>;

/// Pinned host memory, with an event that tells when the device is done with it.
#[derive(Debug)]
struct Chunk {
    host: *mut u8,
    done: sys::CUevent,
}

// SAFETY: plain memory and a handle with one owner.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new() -> Result<Chunk> {
        let mut host: *mut c_void = std::ptr::null_mut();
        // SAFETY: writes an address; the context is current.
        check("pinned memory", unsafe {
            sys::cuMemHostAlloc(&mut host, CHUNK, sys::CU_MEMHOSTALLOC_PORTABLE)
        })?;
        // From here on given back, whatever happens.
        let mut chunk = Chunk { host: host.cast(), done: std::ptr::null_mut() };
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes a handle.
        check("event", unsafe { sys::cuEventCreate(&mut chunk.done, flags) })?;
        Ok(chunk)
    }

    fn record(&self, stream: sys::CUstream, check_status: CheckStatus<'_>) -> Result<()> {
        // SAFETY: both handles are the driver's and live.
        check_status("event", unsafe { sys::cuEventRecord(self.done, stream) })
    }

    /// Whether the copies that were recorded are done.
    fn is_done(&self, check_status: CheckStatus<'_>) -> Result<bool> {
        // SAFETY: the handle is the driver's and lives.
        match unsafe { sys::cuEventQuery(self.done) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check_status("event", code).map(|()| true),
        }
    }

    /// Until the copies that were recorded are done. (An event that was never recorded is done.)
    fn wait(&self, check_status: CheckStatus<'_>) -> Result<()> {
        // SAFETY: the handle is the driver's and lives.
        check_status("event", unsafe { sys::cuEventSynchronize(self.done) })
    }
}

impl Drop for Chunk {
    /// With the device, which has ended everything and made its context current.
    fn drop(&mut self) {
        // SAFETY: both were given by the driver, and nothing uses them any more.
        unsafe {
            if !self.done.is_null() {
                let _ = sys::cuEventDestroy_v2(self.done);
            }
            let _ = sys::cuMemFreeHost(self.host.cast());
        }
    }
}

/// The way to the device: chunks in turn, each filled by one or more uploads.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    chunks: Vec<Chunk>,
    current: usize,
    used: usize,
}

impl Uploads {
    /// Queues a copy of `bytes` to `address`. The bytes have been taken when this returns.
    pub(crate) fn upload(
        &mut self,
        stream: sys::CUstream,
        bytes: &[u8],
        address: u64,
        check_status: CheckStatus<'_>,
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            if self.chunks.is_empty() || self.used >= CHUNK {
                self.next(stream, check_status)?;
            }
            let length = (CHUNK - self.used).min(bytes.len() - done);
            // SAFETY: inside the chunk, of which the part from `used` on is not in flight.
            let host = unsafe { self.chunks[self.current].host.add(self.used) };
            // SAFETY: as above; the caller's bytes are elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), host, length) };
            // SAFETY: the caller vouches for `address`; the chunk stays until the event says it is
            // done.
            let code =
                unsafe { sys::cuMemcpyHtoDAsync_v2(address + done as u64, host.cast(), length, stream) };
            check_status("upload", code)?;
            self.used = (self.used + length).next_multiple_of(64);
            done += length;
        }
        Ok(())
    }

    /// Leaves the current chunk to the device and goes on to one that it is done with: the oldest,
    /// or a new one where that is still in flight.
    fn next(&mut self, stream: sys::CUstream, check_status: CheckStatus<'_>) -> Result<()> {
        if let Some(chunk) = self.chunks.get(self.current) {
            chunk.record(stream, check_status)?;
            let oldest = (self.current + 1) % self.chunks.len();
            if self.chunks.len() == CHUNKS {
                self.chunks[oldest].wait(check_status)?;
            }
            if self.chunks[oldest].is_done(check_status)? {
                (self.current, self.used) = (oldest, 0);
                return Ok(());
            }
        }
        // Behind the current one, so that the order stays that of use.
        let at = (self.current + 1).min(self.chunks.len());
        self.chunks.insert(at, Chunk::new()?);
        (self.current, self.used) = (at, 0);
        Ok(())
    }
}

/// The way back: two chunks, one of which is emptied while the other is filled.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    chunks: Vec<Chunk>,
}

impl Downloads {
    /// Copies `bytes.len()` bytes from `address`, after everything that was queued before.
    pub(crate) fn download(
        &mut self,
        stream: sys::CUstream,
        address: u64,
        bytes: &mut [u8],
        check_status: CheckStatus<'_>,
    ) -> Result<()> {
        let pieces = bytes.len().div_ceil(CHUNK);
        while self.chunks.len() < pieces.min(2) {
            self.chunks.push(Chunk::new()?);
        }
        let length = |piece: usize, total: usize| CHUNK.min(total - piece * CHUNK);
        for piece in 0..=pieces {
            if piece < pieces {
                let chunk = &self.chunks[piece % 2];
                let from = address + (piece * CHUNK) as u64;
                // SAFETY: the caller vouches for `address`; the chunk was emptied two pieces ago.
                let code = unsafe {
                    sys::cuMemcpyDtoHAsync_v2(chunk.host.cast(), from, length(piece, bytes.len()), stream)
                };
                check_status("download", code)?;
                chunk.record(stream, check_status)?;
            }
            if piece > 0 {
                let (chunk, ready) = (&self.chunks[(piece - 1) % 2], length(piece - 1, bytes.len()));
                chunk.wait(check_status)?;
                let target = &mut bytes[(piece - 1) * CHUNK..][..ready];
                // SAFETY: the chunk is longer than what was copied into it, and the copy is done.
                unsafe { std::ptr::copy_nonoverlapping(chunk.host, target.as_mut_ptr(), ready) };
            }
        }
        Ok(())
    }
}
