//! `--nvtx`: ranges in NVIDIA's profilers.

use crate::support::program::Outcome;
use std::rc::Rc;
use ternion::nn;
use ternion::prelude::*;
use ternion::trace::SpanSink;

/// The sink that the spans of a program are reported to, if any.
pub struct NvtxRanges(Option<Rc<dyn SpanSink>>);

impl NvtxRanges {
    /// Returns an NVTX sink if `nvtx` is set, otherwise none.
    ///
    /// # Errors
    /// Returns an error if `nvtx` is set and the device is not a CUDA device, the NVTX library is
    /// not found, or the program was built without the `cuda` feature.
    pub fn new(nvtx: bool, device: &Device) -> Outcome<NvtxRanges> {
        if !nvtx {
            return Ok(NvtxRanges(None));
        }
        match device.name().contains("cuda") {
            true => Ok(NvtxRanges(Some(nvtx_sink()?))),
            false => {
                Err(format!("--nvtx requires a CUDA device (--features cuda, --device cuda), got {device}")
                    .into())
            }
        }
    }

    /// Runs `f` and reports its spans: layers of `model`, ops, backward passes, optimizer steps,
    /// and spans that the program opens.
    pub fn trace<M: Module + ?Sized, T>(&self, model: &M, f: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(sink) => nn::trace(model, sink.clone(), f),
            None => f(),
        }
    }
}

#[cfg(feature = "cuda")]
fn nvtx_sink() -> Outcome<Rc<dyn SpanSink>> {
    let nvtx = ternion::Nvtx::open();
    match nvtx.is_available() {
        true => Ok(Rc::new(nvtx)),
        false => Err("--nvtx: NVTX not found: expected libnvToolsExt.so.1 (CUDA 12 and older) or libnvtx3interop.so.1 on the linker's path (LD_LIBRARY_PATH); install a CUDA toolkit or the wheel nvidia-nvtx".into()),
    }
}

#[cfg(not(feature = "cuda"))]
fn nvtx_sink() -> Outcome<Rc<dyn SpanSink>> {
    Err("--nvtx: this program was built without the `cuda` feature".into())
}
