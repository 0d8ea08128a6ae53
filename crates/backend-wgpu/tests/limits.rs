//! Tensors beyond the limits of one binding and of one dimension of workgroups, and errors for
//! devices that do not exist.

use std::sync::atomic::{AtomicBool, Ordering};
use ternion_core::{DType, Device, Result, Tensor};

/// Returns the first adapter, if `TERNION_EXPECT` names wgpu: otherwise there may be none.
fn adapter() -> Option<Device> {
    ternion_testing::suite::expects("wgpu")
        .then(|| ternion_wgpu::device(0).expect("TERNION_EXPECT names wgpu"))
}

/// A tensor of 160 MB, while Mesa's software driver binds at most 134 MB; and 156,250 workgroups,
/// while a dimension has at most 65,535.
#[test]
fn tensors_larger_than_a_binding_are_computed_in_parts() -> Result<()> {
    let Some(device) = adapter() else { return Ok(()) };
    let x = Tensor::full([40, 1_000_000], 1.5f32, DType::F32, &device)?;
    let row = Tensor::iota(1_000_000, DType::F32, 0, 1, &device)?;
    let y = x.add(&row)?.mul_scalar(2.0)?;
    for line in [0, 20, 39] {
        let line = y.select(0, line)?;
        assert_eq!(line.narrow(0, 0, 3)?.to_vec::<f32>()?, [3.0, 5.0, 7.0]);
        assert_eq!(line.narrow(0, 999_999, 1)?.to_vec::<f32>()?, [2_000_001.0]);
    }
    Ok(())
}

/// A tensor of 188 MB, more than Mesa's software driver binds at a time. Rows are gathered from it,
/// and reduced.
#[test]
fn rows_beyond_a_binding_are_reached() -> Result<()> {
    let Some(device) = adapter() else { return Ok(()) };
    let x = Tensor::full([60_000, 784], 0.5f32, DType::F32, &device)?;
    let column = Tensor::iota(60_000, DType::F32, 0, 1, &device)?;
    x.select(1, 783)?.copy_(&column)?;
    let index = Tensor::from_vec(vec![0i64, 59_999, 42_800, 42_801], [4], &device)?;
    let rows = x.index_select(0, &index)?;
    assert_eq!(rows.select(1, 783)?.to_vec::<f32>()?, [0.0, 59_999.0, 42_800.0, 42_801.0]);
    assert_eq!(rows.select(1, 782)?.to_vec::<f32>()?, [0.5; 4]);
    let whole = x.to_vec::<f32>()?;
    assert!(
        whole.chunks(784).enumerate().all(|(row, line)| line[..783] == [0.5; 783] && line[783] == row as f32)
    );
    let largest = x.max(1)?;
    assert_eq!(largest.narrow(0, 59_998, 2)?.to_vec::<f32>()?, [59_998.0, 59_999.0]);
    assert_eq!(x.narrow(1, 0, 782)?.sum(1)?.index_select(0, &index)?.to_vec::<f32>()?, [391.0; 4]);
    Ok(())
}

/// Views with elements of 16 and 8 bits begin in the middle of words; adjacent elements are
/// unchanged.
#[test]
fn neighbors_in_a_word_are_unchanged() -> Result<()> {
    let Some(device) = adapter() else { return Ok(()) };
    let narrow = [DType::F16, DType::BF16, DType::I16, DType::I8, DType::U16, DType::U8];
    for dtype in narrow.into_iter().chain([DType::F32, DType::I64, DType::U64]) {
        let x = Tensor::iota(12, DType::F32, 0, 1, &device)?.to_dtype(dtype)?;
        for (begin, end) in [(1, 2), (3, 8), (2, 11), (5, 12)] {
            let y = x.full_like(0)?;
            y.copy_(&x)?;
            y.narrow(0, begin, end - begin)?.fill_(100)?;
            let expected: Vec<f32> =
                (0..12).map(|i| if (begin..end).contains(&i) { 100.0 } else { i as f32 }).collect();
            assert_eq!(y.to_dtype(DType::F32)?.to_vec::<f32>()?, expected, "{dtype} {begin}..{end}");
        }
    }
    Ok(())
}

#[test]
fn missing_adapters_are_an_error() {
    for (selector, message) in
        [("77", "device wgpu:77: no "), ("no such name", "device wgpu:no such name: no ")]
    {
        let error = ternion_wgpu::find(selector).expect_err(selector).to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let error = ternion_wgpu::device(77).expect_err("no such adapter").to_string();
    assert!(error.starts_with("device wgpu:77: no "), "{error}");
    for adapter in ternion_wgpu::descriptions() {
        assert!(
            matches!(ternion_wgpu::find(&adapter.index.to_string()), Ok(index) if index == adapter.index)
        );
    }
}

/// Threads share a device. Each call with an index out of range is reported to exactly one thread,
/// with the index and size of this call.
#[test]
fn an_index_error_is_reported_to_one_thread() -> Result<()> {
    const CALLS: usize = 200;
    let Some(device) = adapter() else { return Ok(()) };
    let report = |result: Result<Vec<f32>>| match result {
        Ok(_) => 0,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("index 500 is out of range for size 10"), "{text}");
            assert!(!text.contains("size 100000"), "{text}");
            1
        }
    };
    let done = AtomicBool::new(false);
    let valid = || -> Result<usize> {
        let x = Tensor::zeros([100_000], DType::F32, &device)?;
        let index = Tensor::from_vec(vec![5i64, 6], [2], &device)?;
        let mut errors = 0;
        while !done.load(Ordering::Relaxed) {
            errors += report(x.gather(0, &index).and_then(|y| y.to_vec()));
        }
        Ok(errors)
    };
    let invalid = || -> Result<usize> {
        let x = Tensor::ones([10], DType::F32, &device)?;
        let index = Tensor::from_vec(vec![500i64, 6], [2], &device)?;
        Ok((0..CALLS).map(|_| report(x.index_select(0, &index).and_then(|y| y.to_vec()))).sum())
    };
    std::thread::scope(|scope| {
        let others = [scope.spawn(valid), scope.spawn(valid)];
        let own = scope.spawn(invalid).join();
        // Ends the other threads before the result is checked.
        done.store(true, Ordering::Relaxed);
        let mut errors = own.expect("no panic")?;
        for other in others {
            errors += other.join().expect("no panic")?;
        }
        assert_eq!(errors, CALLS);
        Ok(())
    })
}
