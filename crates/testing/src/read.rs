//! Reading a tensor without any op: its buffer is downloaded and indexed on the host by its layout.

use crate::array::Array;
use ternion_core::{DType, Element, Result, Tensor};

/// Returns the dtype and elements of `tensor`.
///
/// # Errors
/// If an earlier op failed on the device.
pub fn values_of(tensor: &Tensor) -> Result<(DType, Array)> {
    let (dtype, size) = (tensor.dtype(), tensor.dtype().size());
    let mut memory = vec![0; tensor.buffer().bytes()];
    if tensor.elements() > 0 {
        tensor.device().backend().download(tensor.buffer(), 0, &mut memory)?;
    }
    let mut bytes = Vec::with_capacity(tensor.elements() * size);
    for position in tensor.layout().positions() {
        bytes.extend_from_slice(&memory[position * size..(position + 1) * size]);
    }
    Ok((dtype, Array::new(tensor.dims(), decode(dtype, &bytes))))
}

/// Returns the values of these bytes in `dtype`.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn decode_as<T: Element>(bytes: &[u8]) -> Vec<f64> {
        T::from_bytes(bytes).into_iter().map(|value| value.to_scalar().as_f64()).collect()
    }
    match dtype {
        DType::F64 => decode_as::<f64>(bytes),
        DType::F32 => decode_as::<f32>(bytes),
        DType::F16 => decode_as::<half::f16>(bytes),
        DType::BF16 => decode_as::<half::bf16>(bytes),
        DType::I64 => decode_as::<i64>(bytes),
        DType::I32 => decode_as::<i32>(bytes),
        DType::I16 => decode_as::<i16>(bytes),
        DType::I8 => decode_as::<i8>(bytes),
        DType::U64 => decode_as::<u64>(bytes),
        DType::U32 => decode_as::<u32>(bytes),
        DType::U16 => decode_as::<u16>(bytes),
        DType::U8 => decode_as::<u8>(bytes),
        DType::Bool => decode_as::<bool>(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_layout::encode;

    #[test]
    fn decoding_undoes_encoding() {
        for dtype in DType::ALL {
            assert_eq!(decode(dtype, &encode(dtype, &[0.0, 1.0])), [0.0, 1.0]);
        }
        assert_eq!(decode(DType::I32, &encode(DType::I32, &[-7.0])), [-7.0]);
        assert!(decode(DType::F16, &encode(DType::F16, &[f64::NAN]))[0].is_nan());
    }
}
