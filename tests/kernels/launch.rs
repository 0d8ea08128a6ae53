//! Launch features beyond a grid: tensor maps as parameters, clusters, dependent launches. Each is
//! launched immediately, through the submission queue, and in a recorded step. Requires compute
//! capability 9.0.

use crate::shared_device;
use ternion::prelude::*;
use ternion_cuda::CudaBackend;
use ternion_cuda::probe::{self, BOX};

/// Returns the backend of a device that supports all of this.
pub(super) fn capable(device: &Device) -> Option<&CudaBackend> {
    let backend: &CudaBackend = device.downcast()?;
    if !backend.is_at_least((9, 0)) {
        println!("not tested: the device is older than compute capability 9.0");
        return None;
    }
    Some(backend)
}

/// Runs `f`, which writes to a tensor and returns it: by itself; after so many other launches that
/// the queue's thread submits it; then as a recorded step, which is replayed twice.
fn every_way(
    device: &Device,
    f: impl Fn() -> Result<Tensor>,
    check: impl Fn(&Tensor) -> Result<()>,
) -> Result<()> {
    device.synchronize()?;
    check(&f()?)?;
    let mut busy = Tensor::zeros([1000], DType::F32, device)?;
    for _ in 0..100 {
        busy = busy.add_scalar(1.0)?;
    }
    check(&f()?)?;
    assert_eq!(busy.to_vec::<f32>()?, [100.0; 1000]);
    // The copy is an op of the step, after the launches.
    let mut step = device.capture(|| f()?.add_scalar(0.0))?;
    for _ in 0..2 {
        check(step.replay()?)?;
    }
    Ok(())
}

#[test]
fn a_tensor_map_in_the_parameters_copies_a_box() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let Some(backend) = capable(&device) else { return Ok(()) };
    let [rows, columns] = [70, 100];
    let value = |row: i32, column: i32| {
        let is_inside = (0..rows).contains(&row) && (0..columns).contains(&column);
        if is_inside { (row * columns + column + 1) as f32 } else { 0.0 }
    };
    let values: Vec<f32> = (0..rows * columns).map(|at| (at + 1) as f32).collect();
    let x = Tensor::from_vec(values, [rows as usize, columns as usize], &device)?;
    for start in [[0, 0], [3, 8], [-3, -8], [64, 92], [200, 0]] {
        let y = Tensor::zeros([BOX, BOX], DType::F32, &device)?;
        let copy = || {
            y.fill_(-1.0)?;
            probe::tensor_map(backend, &x.view(), &y.view(), start)?;
            Ok(y.clone())
        };
        every_way(&device, copy, |y| {
            let expected: Vec<f32> = (0..(BOX * BOX) as i32)
                .map(|at| value(start[0] + at / BOX as i32, start[1] + at % BOX as i32))
                .collect();
            assert_eq!(y.to_vec::<f32>()?, expected, "from {start:?}");
            Ok(())
        })?;
    }
    let narrow = x.narrow(1, 1, 32)?;
    let y = Tensor::zeros([BOX, BOX], DType::F32, &device)?;
    let error = probe::tensor_map(backend, &narrow.view(), &y.view(), [0, 0]).expect_err("misaligned");
    assert!(error.to_string().contains("expected an address that 16 divides"), "{error}");
    let error = probe::tensor_map(backend, &x.view(), &y.view(), [0, 5]).expect_err("between 16 bytes");
    assert!(error.to_string().contains("expected a column whose offset 16 bytes divide"), "{error}");
    Ok(())
}

#[test]
fn blocks_of_a_cluster_read_each_other() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let Some(backend) = capable(&device) else { return Ok(()) };
    for cluster in [2, 4, 8] {
        let sums = Tensor::zeros([24], DType::I32, &device)?;
        let launch = || {
            sums.fill_(-1)?;
            probe::cluster(backend, &sums.view(), cluster)?;
            Ok(sums.clone())
        };
        every_way(&device, launch, |sums| {
            let size = i32::from(cluster);
            let next = |block: i32| block / size * size + (block + 1) % size;
            let expected: Vec<i32> = (0..24).map(|block| block + 1000 * next(block)).collect();
            assert_eq!(sums.to_vec::<i32>()?, expected, "clusters of {cluster}");
            Ok(())
        })?;
    }
    let error = probe::cluster(backend, &Tensor::zeros([9], DType::I32, &device)?.view(), 2)
        .and_then(|()| device.synchronize())
        .expect_err("clusters of 2 in 9 blocks");
    assert!(error.to_string().starts_with("probe: the CUDA driver answers"), "{error}");
    Ok(())
}

#[test]
fn dependent_launches_see_what_the_ones_before_wrote() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let Some(backend) = capable(&device) else { return Ok(()) };
    let count = 200_000;
    let first: Vec<i32> = (0..count).collect();
    let x = Tensor::from_vec(first.clone(), [count as usize], &device)?;
    let buffers = [(); 2].map(|()| Tensor::zeros([count as usize], DType::I32, &device));
    let [odd, even] = buffers;
    let (odd, even) = (odd?, even?);
    let chain = || {
        odd.fill_(-1)?;
        probe::dependent_launch(backend, &x.view(), &odd.view())?;
        for _ in 0..20 {
            probe::dependent_launch(backend, &odd.view(), &even.view())?;
            probe::dependent_launch(backend, &even.view(), &odd.view())?;
        }
        Ok(odd.clone())
    };
    every_way(&device, chain, |y| {
        let expected: Vec<i32> = first.iter().map(|value| value + 41).collect();
        assert!(y.to_vec::<i32>()? == expected, "a launch did not wait for the one before");
        Ok(())
    })
}
