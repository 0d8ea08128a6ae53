//! Shaders that the op table's smallest shapes do not ask for (those it does: launches.rs) are accepted by naga, also where there is no adapter.

use crate::gpu::Gpu;
use crate::{Options, WgpuBackend};
use ternion_core::{DType, Device, Tensor};

/// Products that are large enough to be read in fours, of both orders of each operand.
#[test]
fn products_in_fours_are_valid() {
    let gpu = Gpu::noop(Options::default());
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
