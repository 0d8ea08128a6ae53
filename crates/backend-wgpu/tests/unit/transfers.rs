//! The bytes that uploads keep in flight, the content of transfers, and downloads without memory.

use super::{MAX_STAGED_BYTES, MAX_WRITE_BYTES};
use crate::WgpuBackend;
use crate::gpu::Gpu;
use crate::options::Options;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use ternion_core::{Device, Error, Result, Tensor};
use ternion_testing::suite;

/// Returns the first adapter, if `TERNION_EXPECT` names wgpu.
fn adapter() -> Option<Arc<Gpu>> {
    suite::expects("wgpu").then(|| Gpu::open(0, Options::default()).expect("TERNION_EXPECT names wgpu"))
}

/// Returns a device that runs nothing, and an adapter.
fn gpus() -> impl Iterator<Item = Arc<Gpu>> {
    [Gpu::noop(Options::default())].into_iter().chain(adapter())
}

fn device(gpu: &Arc<Gpu>) -> Device {
    Device::new(WgpuBackend { gpu: gpu.clone() })
}

/// Returns bytes that differ from their neighbors, and from one chunk to the next.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn uploads_without_launches_do_not_accumulate() -> Result<()> {
    for gpu in gpus() {
        let data = bytes(3 << 20);
        let buffer = gpu.alloc(data.len())?;
        let mut max_staged = 0;
        for _ in 0..60 {
            gpu.upload(&data, &buffer, 0)?;
            let batch = gpu.batch.lock();
            assert!(batch.written() < MAX_WRITE_BYTES as u64, "{} bytes wait", batch.written());
            max_staged = batch.staged().max(max_staged);
        }
        // Written bytes are counted, and counted as arrived only when the device reports it.
        assert!((data.len() as u64..=MAX_STAGED_BYTES).contains(&max_staged), "{max_staged} bytes in flight");
    }
    Ok(())
}

#[test]
fn an_upload_waits_if_many_bytes_are_in_flight() -> Result<()> {
    for gpu in gpus() {
        let buffer = gpu.alloc(400)?;
        // As if this many bytes had been written and the device had not begun.
        gpu.batch.lock().count_written(MAX_STAGED_BYTES as usize);
        gpu.upload(&[7; 400], &buffer, 0)?;
        let batch = gpu.batch.lock();
        let actual = (batch.written(), batch.staged());
        assert_eq!(actual, (400, 400), "it waits for what was written before, not for itself");
    }
    Ok(())
}

#[test]
fn small_uploads_are_submitted_together_and_by_a_wait() -> Result<()> {
    for gpu in gpus() {
        let buffer = gpu.alloc(400)?;
        for _ in 0..100 {
            gpu.upload(&[7; 400], &buffer, 0)?;
        }
        assert_eq!(gpu.batch.lock().written(), 100 * 400, "none was submitted");
        gpu.synchronize()?;
        let batch = gpu.batch.lock();
        assert_eq!((batch.written(), batch.staged()), (0, 0), "bytes in flight behind a wait");
    }
    Ok(())
}

#[test]
fn uploads_are_submitted_with_later_launches() -> Result<()> {
    for gpu in gpus() {
        let device = device(&gpu);
        let x = Tensor::from_vec(vec![1.0f32; 1000], [1000], &device)?;
        assert_eq!(gpu.batch.lock().written(), 4000);
        let _y = x.exp()?;
        gpu.submit();
        assert_eq!(gpu.batch.lock().written(), 0, "they were submitted");
    }
    Ok(())
}

/// This can be tested only on an adapter: the noop device has no memory.
#[test]
fn bytes_of_several_chunks_arrive() -> Result<()> {
    let Some(gpu) = adapter() else { return Ok(()) };
    let all = bytes(MAX_STAGED_BYTES as usize + MAX_WRITE_BYTES + 9);
    let buffer = gpu.alloc(all.len() + 8)?;
    let sizes =
        [MAX_WRITE_BYTES - 4, MAX_WRITE_BYTES, MAX_WRITE_BYTES + 4, 2 * MAX_WRITE_BYTES + 3, all.len()];
    for (size, offset) in sizes.into_iter().flat_map(|size| [(size, 0), (size, 5)]) {
        gpu.upload(&vec![0xa5; size + 8], &buffer, 0)?;
        gpu.upload(&all[..size], &buffer, offset)?;
        let mut actual = vec![0; size + 8];
        gpu.download(&buffer, 0, &mut actual)?;
        assert!(actual[offset..][..size] == all[..size], "{size} bytes from byte {offset} on");
        let around = actual[..offset].iter().chain(&actual[offset + size..]);
        assert!(around.copied().all(|byte| byte == 0xa5), "bytes around {size} from byte {offset} on");
    }
    Ok(())
}

#[test]
fn a_download_without_memory_keeps_queued_launches() -> Result<()> {
    let Some(gpu) = adapter() else { return Ok(()) };
    let device = device(&gpu);
    let x = Tensor::from_vec(vec![1.0f32; 1000], [1000], &device)?;
    // Compiles the shaders, which takes longer than launches wait, and leaves other values in the
    // memory.
    drop(x.add_scalar(5.0)?.mul_scalar(2.0)?);
    device.synchronize()?;
    let y = x.add_scalar(1.0)?.mul_scalar(2.0)?;
    gpu.staging_failures.store(usize::MAX, Ordering::Relaxed);
    let error = y.to_vec::<f32>().expect_err("there is no memory for a download");
    gpu.staging_failures.store(0, Ordering::Relaxed);
    assert_eq!(y.to_vec::<f32>()?, [4.0; 1000], "behind {error}");
    assert!(matches!(error, Error::OutOfMemory { requested: 4000, .. }), "{error:?}");
    Ok(())
}

#[test]
fn a_download_releases_cached_memory_before_it_fails() -> Result<()> {
    for gpu in gpus() {
        let device = device(&gpu);
        let x = Tensor::from_vec(vec![1.0f32; 1000], [1000], &device)?;
        drop(Tensor::from_vec(vec![1.0f32; 5000], [5000], &device)?);
        assert!(gpu.memory().cached > 0, "{:?}", gpu.memory());
        gpu.staging_failures.store(1, Ordering::Relaxed);
        x.to_vec::<f32>()?;
        assert_eq!(gpu.memory().cached, 0);
    }
    Ok(())
}

#[test]
fn index_errors_are_reported_also_after_a_download_without_memory() -> Result<()> {
    let Some(gpu) = adapter() else { return Ok(()) };
    let device = device(&gpu);
    let x = Tensor::from_vec(vec![1.0f32; 12], [3, 4], &device)?;
    let indices = Tensor::from_vec(vec![0i64, 7], [2], &device)?;
    let rows = x.index_select(0, &indices)?;
    gpu.staging_failures.store(usize::MAX, Ordering::Relaxed);
    let error = rows.to_vec::<f32>().expect_err("there is no memory for a download");
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    gpu.staging_failures.store(0, Ordering::Relaxed);
    let error = rows.to_vec::<f32>().expect_err("index 7 of 3 rows");
    assert!(matches!(error, Error::IndexOutOfRange { index: 7, size: 3, .. }), "{error:?}");
    Ok(())
}
