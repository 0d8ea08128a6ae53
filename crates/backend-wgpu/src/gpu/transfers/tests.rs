//! Downloads without memory.

use crate::gpu::Gpu;
use crate::{Options, WgpuBackend};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use ternion_core::{Device, Error, Result, Tensor};
use ternion_testing::suite;

/// The first adapter, where `TERNION_EXPECT` names wgpu.
fn adapter() -> Option<Arc<Gpu>> {
    let wanted = std::env::var(suite::EXPECT).unwrap_or_default();
    let asked = wanted.split(',').any(|name| name.trim() == "wgpu");
    asked.then(|| Gpu::open(0, Options::default()).expect("TERNION_EXPECT names wgpu"))
}

/// A device that runs nothing, and an adapter.
fn gpus() -> impl Iterator<Item = Arc<Gpu>> {
    [Gpu::noop(Options::default())].into_iter().chain(adapter())
}

fn device(gpu: &Arc<Gpu>) -> Device {
    Device::new(WgpuBackend { gpu: gpu.clone() })
}

#[test]
fn a_download_without_memory_leaves_what_waits() -> Result<()> {
    let Some(gpu) = adapter() else { return Ok(()) };
    let device = device(&gpu);
    let x = Tensor::from_vec(vec![1.0f32; 1000], [1000], &device)?;
    // Compiles, which takes longer than launches wait, and leaves other numbers in the memory.
    drop(x.add_scalar(5.0)?.mul_scalar(2.0)?);
    device.synchronize()?;
    let y = x.add_scalar(1.0)?.mul_scalar(2.0)?;
    gpu.refused_staging.store(usize::MAX, Ordering::Relaxed);
    let error = y.to_vec::<f32>().expect_err("there is no memory for a download");
    gpu.refused_staging.store(0, Ordering::Relaxed);
    assert_eq!(y.to_vec::<f32>()?, [4.0; 1000], "behind {error}");
    assert!(matches!(error, Error::OutOfMemory { requested: 4000, .. }), "{error:?}");
    Ok(())
}

#[test]
fn a_download_gives_back_what_is_kept_before_there_is_no_memory() -> Result<()> {
    for gpu in gpus() {
        let device = device(&gpu);
        let x = Tensor::from_vec(vec![1.0f32; 1000], [1000], &device)?;
        drop(Tensor::from_vec(vec![1.0f32; 5000], [5000], &device)?);
        assert!(gpu.memory().cached > 0, "{:?}", gpu.memory());
        gpu.refused_staging.store(1, Ordering::Relaxed);
        x.to_vec::<f32>()?;
        assert_eq!(gpu.memory().cached, 0);
    }
    Ok(())
}

#[test]
fn indices_out_of_range_are_told_also_behind_a_download_without_memory() -> Result<()> {
    let Some(gpu) = adapter() else { return Ok(()) };
    let device = device(&gpu);
    let x = Tensor::from_vec(vec![1.0f32; 12], [3, 4], &device)?;
    let indices = Tensor::from_vec(vec![0i64, 7], [2], &device)?;
    let rows = x.index_select(0, &indices)?;
    gpu.refused_staging.store(usize::MAX, Ordering::Relaxed);
    let error = rows.to_vec::<f32>().expect_err("there is no memory for a download");
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    gpu.refused_staging.store(0, Ordering::Relaxed);
    let error = rows.to_vec::<f32>().expect_err("index 7 of 3 rows");
    assert!(matches!(error, Error::IndexOutOfRange { index: 7, size: 3, .. }), "{error:?}");
    Ok(())
}
