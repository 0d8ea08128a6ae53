//! A device without an adapter, for whoever wants to read shaders: it validates each and runs none.

use crate::WgpuBackend;
use crate::gpu::Gpu;
use crate::options::Options;
use ternion_core::Device;

/// A shader that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The op.
    pub op: &'static str,
    /// The number of the call that launched it: an op may launch several.
    pub call: u64,
    /// The template, below `shaders/`.
    pub path: &'static str,
    /// The whole linked text.
    pub text: String,
}

/// The device. Results on it mean nothing.
pub fn device() -> Device {
    Device::new(WgpuBackend { gpu: Gpu::noop(Options::default()) })
}

impl WgpuBackend {
    /// What was launched since the last call, in order.
    pub fn take_launched(&self) -> Vec<Launched> {
        self.gpu.take_launched()
    }
}
