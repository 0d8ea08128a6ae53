//! Transfers between host and device.

use super::{Gpu, MAX_ALLOC_ATTEMPTS};
use crate::batch::COPY_ALIGNMENT;
use crate::memory::{WgpuMemory, memory_of};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use ternion_core::backend::{Buffer, Download};
use ternion_core::{Error, Result};

/// Maximum number of bytes per read. Larger downloads are split into several reads, so that the
/// staging buffer stays small.
const MAX_STAGING_BYTES: usize = 64 << 20;

/// Maximum number of bytes per write, and the number of written bytes that triggers a submission.
/// wgpu allocates host memory for each write and loses the device if there is none, so large
/// uploads are split. The cost of a submission is negligible compared with a copy of this size.
const MAX_WRITE_BYTES: usize = 16 << 20;

/// Maximum number of written bytes in flight. Uploads that would exceed it wait for the device. It
/// allows several writes, so that the device copies while the host writes.
const MAX_STAGED_BYTES: u64 = 4 * MAX_WRITE_BYTES as u64;

/// Minimum size of a staging buffer for downloads, so that small downloads share it.
const MIN_STAGING_BYTES: u64 = 1 << 12;

/// Maximum number of bytes of several downloads that share one wait. Larger downloads gain nothing
/// from sharing.
const MAX_JOINED_BYTES: u64 = 1 << 24;

/// Words to copy to the host. Offset and length are multiples of [`COPY_ALIGNMENT`].
#[derive(Clone, Copy)]
pub(super) struct StagingSlice<'a> {
    pub(super) from: &'a wgpu::Buffer,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl<'a> StagingSlice<'a> {
    /// Returns the words that contain the bytes of a download. The length is 0 for an empty
    /// download.
    fn of(memory: &'a WgpuMemory, download: &Download<'_>) -> StagingSlice<'a> {
        let (begin, bytes) = (download.offset_bytes as u64, download.host.len() as u64);
        let offset = begin / COPY_ALIGNMENT * COPY_ALIGNMENT;
        let end = if bytes == 0 { offset } else { (begin + bytes).next_multiple_of(COPY_ALIGNMENT) };
        StagingSlice { from: memory.buffer(), offset, length: end - offset }
    }
}

/// Returns how many of the leading slices are read together: at least one, and no more than fit in
/// a buffer of [`MAX_JOINED_BYTES`] bytes.
fn count_joined(slices: &[StagingSlice<'_>]) -> usize {
    let mut bytes = 0;
    let small = slices.iter().take_while(|slice| {
        bytes += slice.length;
        bytes <= MAX_JOINED_BYTES
    });
    small.count().max(1)
}

impl Gpu {
    pub(crate) fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        let memory = within("upload", to, offset_bytes, host.len())?;
        if host.is_empty() {
            return Ok(());
        }
        self.check_errors()?;
        self.batch.lock().submit(&self.device, &self.queue, &self.errors);
        let (begin, end) = (offset_bytes as u64, (offset_bytes + host.len()) as u64);
        let (first, last) = (begin / COPY_ALIGNMENT * COPY_ALIGNMENT, end.next_multiple_of(COPY_ALIGNMENT));
        if (first, last) == (begin, end) {
            return self.write(memory.buffer(), begin, host);
        }
        // Only a part of the first and last word is written, so their other bytes are read first.
        let mut words = vec![0; (last - first) as usize];
        let word = |offset| StagingSlice { from: memory.buffer(), offset, length: COPY_ALIGNMENT };
        let ends = self.read(&[word(first), word(last - COPY_ALIGNMENT)], false)?;
        let last_word = words.len() - COPY_ALIGNMENT as usize;
        words[..COPY_ALIGNMENT as usize].copy_from_slice(&ends[..COPY_ALIGNMENT as usize]);
        words[last_word..].copy_from_slice(&ends[COPY_ALIGNMENT as usize..]);
        words[(begin - first) as usize..][..host.len()].copy_from_slice(host);
        self.write(memory.buffer(), first, &words)
    }

    /// Writes whole words. Keeps the number of written bytes in flight within [`MAX_STAGED_BYTES`],
    /// except for one chunk per thread.
    fn write(&self, to: &wgpu::Buffer, offset: u64, words: &[u8]) -> Result<()> {
        let mut begin = offset;
        for chunk in words.chunks(MAX_WRITE_BYTES) {
            if self.batch.lock().staged() + chunk.len() as u64 > MAX_STAGED_BYTES {
                self.finish()?;
            }
            self.queue.write_buffer(to, begin, chunk);
            let mut batch = self.batch.lock();
            batch.count_written(chunk.len());
            if batch.written() >= MAX_WRITE_BYTES as u64 {
                batch.submit_all(&self.device, &self.queue, &self.errors);
            }
            begin += chunk.len() as u64;
        }
        self.check_errors()
    }

    /// Returns a buffer that the host can read, of at least `bytes` bytes.
    fn staging(&self, bytes: u64) -> Result<wgpu::Buffer> {
        let cached = self.batch.lock().staging.take();
        if let Some(staging) = cached.filter(|staging| staging.size() >= bytes) {
            return Ok(staging);
        }
        let size = bytes.next_power_of_two().max(MIN_STAGING_BYTES);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self.retry_alloc(bytes as usize, MAX_ALLOC_ATTEMPTS, || {
            #[cfg(test)]
            if self.fails_staging() {
                return None;
            }
            self.create(Some("download"), size, usage)
        })?;
        // A buffer that wgpu rejected for another reason would invalidate the commands that use it,
        // and all other commands of the batch.
        self.check_errors()?;
        Ok(staging)
    }

    #[cfg(test)]
    fn fails_staging(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        self.staging_failures.fetch_update(Relaxed, Relaxed, |remaining| remaining.checked_sub(1)).is_ok()
    }

    pub(crate) fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        self.download_all(&mut [Download { from, offset_bytes, host }])
    }

    /// Copies the bytes of all downloads to the host. Downloads that fit in one staging buffer
    /// share a single wait.
    pub(crate) fn download_all(&self, downloads: &mut [Download<'_>]) -> Result<()> {
        let mut chunks = Vec::with_capacity(downloads.len());
        let mut slices = Vec::with_capacity(downloads.len());
        for download in downloads {
            let memory = within("download", download.from, download.offset_bytes, download.host.len())?;
            for (index, host) in download.host.chunks_mut(MAX_STAGING_BYTES).enumerate() {
                let offset_bytes = download.offset_bytes + index * MAX_STAGING_BYTES;
                let chunk = Download { from: download.from, offset_bytes, host };
                slices.push(StagingSlice::of(memory, &chunk));
                chunks.push(chunk);
            }
        }
        self.check_index_errors()?;
        let mut begin = 0;
        while begin < chunks.len() {
            let joined = count_joined(&slices[begin..]);
            let words = self.read(&slices[begin..begin + joined], false)?;
            let mut from = 0;
            for (slice, chunk) in slices[begin..begin + joined].iter().zip(&mut chunks[begin..begin + joined])
            {
                let first = from + chunk.offset_bytes - slice.offset as usize;
                chunk.host.copy_from_slice(&words[first..first + chunk.host.len()]);
                from += slice.length as usize;
            }
            begin += joined;
        }
        Ok(())
    }

    /// Waits for the queued commands and copies words to the host, slice after slice. With `clear`
    /// the words are then set to zero, before any command that is queued later.
    pub(super) fn read(&self, slices: &[StagingSlice<'_>], clear: bool) -> Result<Vec<u8>> {
        self.check_errors()?;
        let length = slices.iter().map(|slice| slice.length).sum::<u64>();
        if length == 0 {
            return Ok(Vec::new());
        }
        // Allocated before anything is queued: if there is no memory, the waiting commands are
        // unchanged.
        let staging = self.staging(length)?;
        let mut batch = self.batch.lock();
        let copies = batch.copies(&self.device);
        let mut to = 0;
        for slice in slices.iter().filter(|slice| slice.length > 0) {
            let StagingSlice { from, offset, length } = *slice;
            copies.copy_buffer_to_buffer(from, offset, &staging, to, Some(length));
            if clear {
                copies.clear_buffer(from, offset, Some(length));
            }
            to += length;
        }
        batch.submit(&self.device, &self.queue, &self.errors);
        drop(batch);
        let (sender, receiver) = std::sync::mpsc::channel();
        staging.slice(..length).map_async(wgpu::MapMode::Read, move |result| {
            let _ = sender.send(result);
        });
        // The callback may run in the poll of another thread, which delivers the result a moment
        // later.
        let answer = loop {
            self.poll()?;
            match receiver.recv_timeout(Duration::from_millis(1)) {
                Err(RecvTimeoutError::Timeout) => {}
                answer => break answer,
            }
        };
        if !matches!(answer, Ok(Ok(()))) {
            return Err(self.error(format!("memory could not be read: {answer:?}")));
        }
        let mapped =
            staging.slice(..length).get_mapped_range().map_err(|error| self.error(error.to_string()))?;
        let words = mapped.to_vec();
        drop(mapped);
        staging.unmap();
        self.batch.lock().staging = Some(staging);
        Ok(words)
    }
}

/// Returns the memory behind `buffer`, and checks that `length` bytes from `offset_bytes` on fit in
/// it.
pub(super) fn within<'a>(
    op: &'static str,
    buffer: &'a Buffer,
    offset_bytes: usize,
    length: usize,
) -> Result<&'a WgpuMemory> {
    let memory = memory_of(op, buffer)?;
    match offset_bytes.checked_add(length) {
        Some(end) if end <= memory.size_bytes() => Ok(memory),
        _ => Err(Error::invalid(
            op,
            format!(
                "{length} bytes from byte {offset_bytes} on, in a buffer of {} bytes",
                memory.size_bytes()
            ),
        )),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/transfers.rs"]
mod tests;
