//! Ops whose shaders split tensors, with more elements than the op table has: results must be
//! bit-identical to the CPU's, if `TERNION_EXPECT` names wgpu.

use ternion_core::{DType, Device, Element, Result, Tensor};
use ternion_testing::suite;

/// Returns the first adapter and the CPU with the same seed, or `None` if wgpu is not expected.
fn devices() -> Option<[Device; 2]> {
    if !suite::expects("wgpu") {
        return None;
    }
    let devices = [ternion_wgpu::device(0).expect("an adapter"), ternion_cpu::device()];
    devices.iter().for_each(|device| device.seed(7));
    Some(devices)
}

/// Asserts that `f` returns the same bits on both devices.
fn same<T: Element + PartialEq + std::fmt::Debug>(f: impl Fn(&Device) -> Result<Vec<Tensor>>) {
    let Some([wgpu, cpu]) = devices() else { return };
    let (ours, theirs) = (f(&wgpu).expect("on wgpu"), f(&cpu).expect("on the CPU"));
    assert_eq!(ours.len(), theirs.len());
    for (output, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let (ours, theirs) = (ours.to_vec::<T>().expect("ours"), theirs.to_vec::<T>().expect("theirs"));
        let first = ours.iter().zip(&theirs).position(|(own, other)| own != other);
        assert_eq!(ours.len(), theirs.len(), "output {output}");
        assert_eq!(
            first.map(|index| (index, ours[index], theirs[index])),
            None,
            "output {output} of {} elements",
            ours.len()
        );
    }
}

/// Returns unordered integers from 0 to `size` - 1.
fn numbers(count: usize, size: i64, device: &Device) -> Result<Tensor> {
    Tensor::from_vec(
        (0..count as i64).map(|i| (i * 7919 + i * i % 104_729) % size).collect(),
        [count],
        device,
    )
}

#[test]
fn digits_of_many_tiles_are_sorted() {
    let both = |dtype: DType, descending: bool| {
        move |device: &Device| {
            let x = numbers(3 * 150_001, 90_001, device)?.to_dtype(dtype)?.reshape([3, 150_001])?;
            Ok(vec![x.sub_scalar(45_000)?.sort(1, descending)?.1])
        }
    };
    same::<i32>(both(DType::F32, false));
    same::<i32>(both(DType::F16, true));
    same::<i32>(both(DType::I64, true));
    same::<i32>(both(DType::I32, false));
}

#[test]
fn sources_of_one_index_are_added_in_order() {
    same::<f32>(|device| {
        let index = numbers(200_000, 5_000, device)?;
        let source = numbers(200_000, 99_991, device)?.to_dtype(DType::F32)?.mul_scalar(1e-3)?;
        let zeros = Tensor::zeros([5_000], DType::F32, device)?;
        let rows = source.reshape([20_000, 10])?;
        let table = Tensor::zeros([5_000, 10], DType::F32, device)?;
        Ok(vec![
            zeros.scatter_add(0, &index, &source)?,
            zeros.scatter(0, &index, &source)?,
            table.index_add(0, &index.narrow(0, 0, 20_000)?, &rows)?,
        ])
    });
}

#[test]
fn random_words_are_those_of_the_cpu() {
    same::<f32>(|device| Ok(vec![Tensor::rand([70_001], DType::F32, device)?]));
    same::<i64>(|device| Ok(vec![Tensor::randint(-5, 1_000_000_000, [50_003], DType::I64, device)?]));
    same::<half::bf16>(|device| {
        let x = numbers(70_003, 1_000, device)?.to_dtype(DType::BF16)?;
        Ok(vec![x.dropout(0.25)?, x.slice_axis(0, 1, 70_003, 3)?.dropout(0.5)?])
    });
}

#[test]
fn more_parts_than_fit_in_one_launch_are_joined() {
    same::<u8>(|device| {
        let x = numbers(9_000, 251, device)?.to_dtype(DType::U8)?.reshape([30, 300])?;
        let parts: Vec<Tensor> =
            (0..20).map(|part| x.narrow(1, part * 15, 15 - part % 4)).collect::<Result<_>>()?;
        let parts: Vec<&Tensor> = parts.iter().collect();
        Ok(vec![Tensor::concat(&parts, 1)?, x.pad(&[[1, 2], [3, 0]], 9)?])
    });
}
