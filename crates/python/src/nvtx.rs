//! Manual ranges and marks for NVIDIA's profilers. Without the library NVTX, or without CUDA, they
//! have no effect.

use pyo3::prelude::*;

#[cfg(feature = "cuda")]
thread_local! {
    static NVTX: ternion::Nvtx = ternion::Nvtx::open();
}

/// NVTX's return value if no profiler is attached.
#[cfg(not(feature = "cuda"))]
const NVTX_UNAVAILABLE: i32 = -2;

#[pyfunction]
fn _nvtx_push(message: &str) -> i32 {
    #[cfg(feature = "cuda")]
    return NVTX.with(|nvtx| nvtx.push(message));
    #[cfg(not(feature = "cuda"))]
    {
        let _ = message;
        NVTX_UNAVAILABLE
    }
}

#[pyfunction]
fn _nvtx_pop() -> i32 {
    #[cfg(feature = "cuda")]
    return NVTX.with(ternion::Nvtx::pop);
    #[cfg(not(feature = "cuda"))]
    NVTX_UNAVAILABLE
}

#[pyfunction]
fn _nvtx_mark(message: &str) {
    #[cfg(feature = "cuda")]
    NVTX.with(|nvtx| nvtx.mark(message));
    #[cfg(not(feature = "cuda"))]
    let _ = message;
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_nvtx_push, module)?)?;
    module.add_function(wrap_pyfunction!(_nvtx_pop, module)?)?;
    module.add_function(wrap_pyfunction!(_nvtx_mark, module)?)
}
