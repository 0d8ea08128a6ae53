//! Reference values of PyTorch from JSON, and the comparison with them.

use serde_json::Value;
use ternion::prelude::*;

pub fn numbers(value: &Value) -> Vec<f64> {
    value["values"].as_array().expect("values").iter().map(|x| x.as_f64().expect("a number")).collect()
}

pub fn tensor_of(value: &Value, device: &Device) -> Tensor {
    tensor_in(value, DType::F32, device)
}

pub fn tensor_in(value: &Value, dtype: DType, device: &Device) -> Tensor {
    let sizes = value["shape"].as_array().expect("shape").iter();
    let shape: Vec<usize> = sizes.map(|x| x.as_u64().expect("a size") as usize).collect();
    let values: Vec<f64> = numbers(value);
    // Rounded on the host where possible: not every device has f64.
    let tensor = match dtype {
        DType::F32 => {
            Tensor::from_vec(values.into_iter().map(|x| x as f32).collect::<Vec<_>>(), shape, device)
        }
        _ => Tensor::from_vec(values, shape, device),
    };
    tensor.and_then(|tensor| tensor.to_dtype(dtype)).expect("values fit the shape")
}

/// Checks every element to within `1e-6 + 1e-5 |want|`: f32 compared with f64.
pub fn assert_close(what: &str, got: &Tensor, want: &Value) {
    assert_within(what, got, want, 1e-6);
}

/// Checks every element to within `absolute + 1e-5 |want|`.
pub fn assert_within(what: &str, got: &Tensor, want: &Value, absolute: f64) {
    let (got, want) = (got.to_vec_f64().expect(what), numbers(want));
    assert_eq!(got.len(), want.len(), "{what}");
    for (index, (got, want)) in got.iter().zip(&want).enumerate() {
        let limit = absolute + 1e-5 * want.abs();
        assert!((got - want).abs() <= limit, "{what}[{index}]: got {got}, PyTorch has {want}");
    }
}
