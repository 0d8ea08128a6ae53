//! Every shader that the op table asks for is accepted by naga, also where there is no adapter.

use crate::WgpuBackend;
use crate::gpu::Gpu;
use ternion_core::{DType, Device, Tensor};
use ternion_testing::table::table;
use ternion_testing::{Target, suite};

/// The device computes nothing, so the results mean nothing: what counts is that no shader is refused.
#[test]
fn every_shader_is_valid() {
    let gpu = Gpu::noop();
    let target = Target::new(Device::new(WgpuBackend { gpu: gpu.clone() }));
    suite::reached(&table(), &target);
    let (compiled, refused) = gpu.compiled();
    assert!(refused.is_empty(), "{} shaders were refused, the first: {}", refused.len(), refused[0]);
    assert!(compiled > 150, "only {compiled} shaders were asked for");
}

/// Products that are large enough to be read in fours, of both orders of each operand: the table's smallest shapes have none.
#[test]
fn products_in_fours_are_valid() {
    let gpu = Gpu::noop();
    let device = Device::new(WgpuBackend { gpu: gpu.clone() });
    let matrix = |dtype| Tensor::zeros([128, 128], dtype, &device).unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for turned in 0..4 {
            let [a, b] = [1, 2].map(|which| {
                let matrix = matrix(dtype);
                if turned & which == 0 { matrix } else { matrix.t().unwrap() }
            });
            a.matmul(&b).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let (compiled, refused) = gpu.compiled();
    assert!(refused.is_empty(), "the first of {}: {}", refused.len(), refused[0]);
    assert!(compiled >= 12, "only {compiled} shaders were asked for");
}
