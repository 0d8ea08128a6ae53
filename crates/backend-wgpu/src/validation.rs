//! Every shader that the op table asks for is accepted by naga, also where there is no adapter.

use crate::gpu::Gpu;
use crate::{Options, WgpuBackend};
use ternion_core::Device;
use ternion_testing::table::table;
use ternion_testing::{Target, suite};

/// The device computes nothing, so the results mean nothing: what counts is that no shader is refused.
#[test]
fn every_shader_is_valid() {
    let gpu = Gpu::noop(Options::default());
    let target = Target::new(Device::new(WgpuBackend { gpu: gpu.clone() }));
    suite::reached(&table(), &target);
    let (compiled, refused) = gpu.compiled();
    assert!(refused.is_empty(), "{} shaders were refused, the first: {}", refused.len(), refused[0]);
    assert!(compiled > 150, "only {compiled} shaders were asked for");
}
