//! Test utilities of this crate: tensors of every layout, and comparison with values in f64.

use ternion_core::{DType, Device, Element, Scalar, Tensor};

/// Pseudorandom numbers, which are the same for the same seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns `count` numbers between `low` and `high`, on a grid that every float dtype except
    /// bf16 represents.
    pub(crate) fn between(&mut self, low: f64, high: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| low + (high - low) * (self.bits() % 128) as f64 / 128.0).collect()
    }

    /// Returns `count` integers below `bound`.
    pub(crate) fn below(&mut self, bound: usize, count: usize) -> Vec<i64> {
        (0..count).map(|_| (self.bits() % bound as u64) as i64).collect()
    }
}

/// Returns a contiguous tensor of these values.
pub(crate) fn tensor(dtype: DType, values: &[f64], shape: &[usize], device: &Device) -> Tensor {
    fn of<T: Element>(values: &[f64], shape: &[usize], device: &Device) -> Tensor {
        let values: Vec<T> = values.iter().map(|&value| T::from_scalar(Scalar::Float(value))).collect();
        Tensor::from_slice(&values, shape, device).expect("values fit the shape")
    }
    match dtype {
        DType::F64 => of::<f64>(values, shape, device),
        DType::F32 => of::<f32>(values, shape, device),
        DType::F16 => of::<half::f16>(values, shape, device),
        DType::BF16 => of::<half::bf16>(values, shape, device),
        DType::I64 => of::<i64>(values, shape, device),
        DType::I32 => of::<i32>(values, shape, device),
        DType::I16 => of::<i16>(values, shape, device),
        DType::I8 => of::<i8>(values, shape, device),
        DType::U64 => of::<u64>(values, shape, device),
        DType::U32 => of::<u32>(values, shape, device),
        DType::U16 => of::<u16>(values, shape, device),
        DType::U8 => of::<u8>(values, shape, device),
        DType::Bool => of::<bool>(values, shape, device),
    }
}

/// Returns the values rounded to the dtype.
pub(crate) fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    match dtype {
        DType::F32 => values.iter().map(|&value| f64::from(value as f32)).collect(),
        DType::F16 => values.iter().map(|&value| half::f16::from_f64(value).to_f64()).collect(),
        DType::BF16 => values.iter().map(|&value| half::bf16::from_f64(value).to_f64()).collect(),
        _ => values.to_vec(),
    }
}

/// Returns the same tensor with several layouts: contiguous; with its axes reversed; as every other
/// element of a larger one, from an offset; and with negative strides.
pub(crate) fn layouts(dtype: DType, values: &[f64], shape: &[usize], device: &Device) -> Vec<Tensor> {
    let dense = tensor(dtype, values, shape, device);
    let mut all = vec![dense];
    let positions = |layout: ternion_core::Layout, of: &[usize]| -> Tensor {
        let (_, high) = layout.bounds().expect("inside");
        let mut memory = vec![99.0; high + 3];
        for (position, &value) in layout.positions().zip(values) {
            memory[position] = value;
        }
        let base = tensor(dtype, &memory, &[memory.len()], device);
        assert_eq!(layout.shape().dims(), of);
        Tensor::from_buffer(base.buffer().clone(), layout, dtype, device).expect("fits its buffer")
    };
    let strided_layout = |strides: Vec<isize>, offset: usize| {
        let shape = ternion_core::Shape::new(shape).expect("a shape");
        ternion_core::Layout::new(shape, &strides, offset).expect("a layout")
    };
    let (mut reversed, mut step) = (vec![], 1);
    for &dim in shape {
        reversed.push(step);
        step *= dim.max(1) as isize;
    }
    all.push(positions(strided_layout(reversed, 0), shape));
    let (mut spread, mut step) = (vec![0; shape.len()], 2);
    for (axis, &dim) in shape.iter().enumerate().rev() {
        spread[axis] = step;
        step *= dim.max(1) as isize + 1;
    }
    all.push(positions(strided_layout(spread.clone(), 5), shape));
    let end: isize =
        shape.iter().zip(&spread).map(|(&dim, &stride)| (dim.max(1) as isize - 1) * stride).sum();
    all.push(positions(strided_layout(spread.iter().map(|stride| -stride).collect(), end as usize), shape));
    all
}

/// Returns the elements in row-major order, read according to the layout.
pub(crate) fn values(tensor: &Tensor) -> Vec<f64> {
    fn of<T: Element>(bytes: &[u8], tensor: &Tensor) -> Vec<f64> {
        let all = T::from_bytes(bytes);
        tensor.layout().positions().map(|position| all[position].to_scalar().as_f64()).collect()
    }
    let size = tensor.dtype().size();
    let mut bytes = vec![0; tensor.buffer().bytes() / size * size];
    tensor.device().backend().download(tensor.buffer(), 0, &mut bytes).expect("readable");
    match tensor.dtype() {
        DType::F64 => of::<f64>(&bytes, tensor),
        DType::F32 => of::<f32>(&bytes, tensor),
        DType::F16 => of::<half::f16>(&bytes, tensor),
        DType::BF16 => of::<half::bf16>(&bytes, tensor),
        DType::I64 => of::<i64>(&bytes, tensor),
        DType::I32 => of::<i32>(&bytes, tensor),
        DType::I16 => of::<i16>(&bytes, tensor),
        DType::I8 => of::<i8>(&bytes, tensor),
        DType::U64 => of::<u64>(&bytes, tensor),
        DType::U32 => of::<u32>(&bytes, tensor),
        DType::U16 => of::<u16>(&bytes, tensor),
        DType::U8 => of::<u8>(&bytes, tensor),
        DType::Bool => of::<bool>(&bytes, tensor),
    }
}

/// Returns the sum with compensated rounding errors (Neumaier 1974): an f64 oracle for f64 kernels
/// must be more accurate than the kernels.
pub(crate) fn exact_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut compensation) = (0f64, 0f64);
    for value in values {
        let next = sum + value;
        compensation += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + compensation
}

/// Asserts that `got` is `want` within `limit` roundings of its dtype, relative to the larger of 1
/// and the value; NaN and infinities must be equal.
#[track_caller]
pub(crate) fn assert_close(what: &str, got: &Tensor, want: &[f64], limit: f64) {
    let actual = values(got);
    assert_eq!(actual.len(), want.len(), "{what}: number of elements");
    for (index, (&actual, &want)) in actual.iter().zip(want).enumerate() {
        let same = actual == want || (actual.is_nan() && want.is_nan());
        let allowed = limit * got.dtype().epsilon() * want.abs().max(1.0);
        assert!(
            same || (actual - want).abs() <= allowed,
            "{what} ({}): element {index} is {actual:e}, expected {want:e} within {allowed:e}",
            got.dtype()
        );
    }
}
