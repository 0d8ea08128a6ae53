//! Copies between host and device through pinned memory. The caller may reuse its memory as soon as
//! an upload returns, and both directions run at the full speed of the bus.

use crate::driver::check;
use cudarc::driver::sys;
use std::ffi::c_void;
use ternion_core::Result;

/// Bytes of one pinned buffer: large enough that the fixed cost of a copy is negligible.
const BUFFER_BYTES: usize = 2 << 20;

/// The number of buffers that uploads use in rotation: the host fills one while others are in
/// flight.
const BUFFERS: usize = 4;

/// Converts the driver's status to an error, which may have been caused by a kernel that was queued
/// earlier.
type CheckStatus<'a> = &'a dyn Fn(&'static str, sys::CUresult) -> Result<()>;

/// Pinned host memory, with an event that is recorded after the device's last use of it.
#[derive(Debug)]
struct PinnedBuffer {
    host: *mut u8,
    done: sys::CUevent,
}

// SAFETY: plain memory and a handle with one owner.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    fn new() -> Result<PinnedBuffer> {
        let mut host: *mut c_void = std::ptr::null_mut();
        // SAFETY: the call writes an address; the context is current.
        check("pinned memory", unsafe {
            sys::cuMemHostAlloc(&mut host, BUFFER_BYTES, sys::CU_MEMHOSTALLOC_PORTABLE)
        })?;
        // From here on `buffer` owns the memory and frees it, also after an error.
        let mut buffer = PinnedBuffer { host: host.cast(), done: std::ptr::null_mut() };
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the call writes a handle.
        check("event", unsafe { sys::cuEventCreate(&mut buffer.done, flags) })?;
        Ok(buffer)
    }

    fn record(&self, stream: sys::CUstream, check_status: CheckStatus<'_>) -> Result<()> {
        // SAFETY: both handles come from the driver and are valid.
        check_status("event", unsafe { sys::cuEventRecord(self.done, stream) })
    }

    /// Returns whether the recorded copies are complete.
    fn is_done(&self, check_status: CheckStatus<'_>) -> Result<bool> {
        // SAFETY: the handle comes from the driver and is valid.
        match unsafe { sys::cuEventQuery(self.done) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check_status("event", code).map(|()| true),
        }
    }

    /// Waits until the recorded copies are complete. (An event that was never recorded counts as
    /// complete.)
    fn wait(&self, check_status: CheckStatus<'_>) -> Result<()> {
        // SAFETY: the handle comes from the driver and is valid.
        check_status("event", unsafe { sys::cuEventSynchronize(self.done) })
    }
}

impl Drop for PinnedBuffer {
    /// Runs when the device is dropped, after its work has ended and its context was made current.
    fn drop(&mut self) {
        // SAFETY: the driver returned both, and nothing uses them any more.
        unsafe {
            if !self.done.is_null() {
                let _ = sys::cuEventDestroy_v2(self.done);
            }
            let _ = sys::cuMemFreeHost(self.host.cast());
        }
    }
}

/// Buffers that uploads use in rotation. A buffer may contain the data of several uploads.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    buffers: Vec<PinnedBuffer>,
    /// The index of the buffer that is being filled.
    current: usize,
    /// The bytes of the current buffer that are already used.
    used: usize,
}

impl Uploads {
    /// Queues a copy of `bytes` to `address`. The bytes have been read when this returns.
    pub(crate) fn upload(
        &mut self,
        stream: sys::CUstream,
        bytes: &[u8],
        address: u64,
        check_status: CheckStatus<'_>,
    ) -> Result<()> {
        let mut copied = 0;
        while copied < bytes.len() {
            if self.buffers.is_empty() || self.used >= BUFFER_BYTES {
                self.next(stream, check_status)?;
            }
            let length = (BUFFER_BYTES - self.used).min(bytes.len() - copied);
            // SAFETY: the address is inside the buffer, and the bytes from `used` on are not in
            // flight.
            let host = unsafe { self.buffers[self.current].host.add(self.used) };
            // SAFETY: as above; the caller's bytes do not overlap it.
            unsafe { std::ptr::copy_nonoverlapping(bytes[copied..].as_ptr(), host, length) };
            // SAFETY: the caller guarantees `address`; the buffer is unchanged until its event has
            // completed.
            let code =
                unsafe { sys::cuMemcpyHtoDAsync_v2(address + copied as u64, host.cast(), length, stream) };
            check_status("upload", code)?;
            self.used = (self.used + length).next_multiple_of(64);
            copied += length;
        }
        Ok(())
    }

    /// Leaves the current buffer to the device and selects one that the device has finished with:
    /// the oldest one, or a new one if the oldest is still in flight.
    fn next(&mut self, stream: sys::CUstream, check_status: CheckStatus<'_>) -> Result<()> {
        if let Some(buffer) = self.buffers.get(self.current) {
            buffer.record(stream, check_status)?;
            let oldest = (self.current + 1) % self.buffers.len();
            if self.buffers.len() == BUFFERS {
                self.buffers[oldest].wait(check_status)?;
            }
            if self.buffers[oldest].is_done(check_status)? {
                (self.current, self.used) = (oldest, 0);
                return Ok(());
            }
        }
        // Inserted after the current one, so that the buffers remain in the order in which they are
        // used.
        let index = (self.current + 1).min(self.buffers.len());
        self.buffers.insert(index, PinnedBuffer::new()?);
        (self.current, self.used) = (index, 0);
        Ok(())
    }
}

/// A copy of device memory to the host.
pub(crate) struct Transfer<'a> {
    pub(crate) address: u64,
    pub(crate) host: &'a mut [u8],
}

/// Transfers that fit into one buffer together, each with its offset in the buffer.
type Batch<'a> = Vec<(usize, Transfer<'a>)>;

/// Splits `transfers`, in order, into batches that fit into a buffer.
fn batches(transfers: Vec<Transfer<'_>>) -> Vec<Batch<'_>> {
    let mut all: Vec<Batch<'_>> = Vec::new();
    let (mut batch, mut used) = (Batch::new(), 0);
    for Transfer { address, host } in transfers {
        for (index, host) in host.chunks_mut(BUFFER_BYTES).enumerate() {
            if used + host.len() > BUFFER_BYTES {
                all.push(std::mem::take(&mut batch));
                used = 0;
            }
            let (offset, address) = (used, address + (index * BUFFER_BYTES) as u64);
            used = (used + host.len()).next_multiple_of(64);
            batch.push((offset, Transfer { address, host }));
        }
    }
    if !batch.is_empty() {
        all.push(batch);
    }
    all
}

/// Two buffers for downloads: the host empties one while the device fills the other. One thread at
/// a time uses them.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    buffers: Vec<PinnedBuffer>,
}

impl Downloads {
    /// Copies all `transfers`, after everything that was queued before. Waits once per batch that
    /// fits into a buffer.
    pub(crate) fn download(
        &mut self,
        stream: sys::CUstream,
        transfers: Vec<Transfer<'_>>,
        check_status: CheckStatus<'_>,
    ) -> Result<()> {
        let mut batches = batches(transfers);
        while self.buffers.len() < batches.len().min(2) {
            self.buffers.push(PinnedBuffer::new()?);
        }
        for index in 0..=batches.len() {
            if let Some(batch) = batches.get(index) {
                // This buffer was emptied two iterations ago.
                fill_buffer(&self.buffers[index % 2], batch, stream, check_status)?;
            }
            if let Some(last) = index.checked_sub(1) {
                let buffer = &self.buffers[last % 2];
                buffer.wait(check_status)?;
                empty_buffer(buffer, &mut batches[last]);
            }
        }
        Ok(())
    }
}

/// Queues the copies of `batch` from the device to `buffer`.
fn fill_buffer(
    buffer: &PinnedBuffer,
    batch: &Batch<'_>,
    stream: sys::CUstream,
    check_status: CheckStatus<'_>,
) -> Result<()> {
    for (offset, transfer) in batch {
        // SAFETY: the caller guarantees the address; the batch fits into the buffer, which is not
        // read before its event.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                buffer.host.add(*offset).cast(),
                transfer.address,
                transfer.host.len(),
                stream,
            )
        };
        check_status("download", code)?;
    }
    buffer.record(stream, check_status)
}

/// Copies the data of `batch` from `buffer` to the caller's memory.
fn empty_buffer(buffer: &PinnedBuffer, batch: &mut Batch<'_>) {
    for (offset, transfer) in batch {
        let (length, host) = (transfer.host.len(), &mut *transfer.host);
        // SAFETY: the copies into the buffer have ended, and nothing else writes to it.
        unsafe { std::ptr::copy_nonoverlapping(buffer.host.add(*offset), host.as_mut_ptr(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the offset in the buffer, the address and the length of each transfer, batch by
    /// batch.
    fn batched(lengths: &[usize]) -> Vec<Vec<(usize, u64, usize)>> {
        let mut hosts: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0; length]).collect();
        let transfers =
            hosts.iter_mut().zip(1..).map(|(host, id)| Transfer { address: id << 40, host }).collect();
        let describe = |batch: Batch<'_>| {
            batch.iter().map(|(offset, transfer)| (*offset, transfer.address, transfer.host.len())).collect()
        };
        batches(transfers).into_iter().map(describe).collect()
    }

    #[test]
    fn transfers_share_buffers_as_far_as_they_fit() {
        const FIRST: u64 = 1 << 40;
        assert_eq!(batched(&[]), Vec::<Vec<_>>::new());
        assert_eq!(batched(&[0, 0]), Vec::<Vec<_>>::new());
        assert_eq!(batched(&[5, 0, 70, 1]), [[(0, FIRST, 5), (64, 3 * FIRST, 70), (192, 4 * FIRST, 1)]]);
        assert_eq!(batched(&[BUFFER_BYTES, 1]), [[(0, FIRST, BUFFER_BYTES)], [(0, 2 * FIRST, 1)]]);
        let last = (0, FIRST + 2 * BUFFER_BYTES as u64, 3);
        assert_eq!(
            batched(&[2 * BUFFER_BYTES + 3, BUFFER_BYTES - 64]),
            [
                vec![(0, FIRST, BUFFER_BYTES)],
                vec![(0, FIRST + BUFFER_BYTES as u64, BUFFER_BYTES)],
                vec![last, (64, 2 * FIRST, BUFFER_BYTES - 64)],
            ]
        );
    }
}
