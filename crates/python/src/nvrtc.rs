//! The kernel compiler NVRTC of CUDA: where it is searched for, and its version.

use crate::error::Outcome;
use crate::gil::wait;
use pyo3::prelude::*;

/// Returns the version of NVRTC, as major and minor.
#[pyfunction]
fn _nvrtc_version(py: Python<'_>) -> Outcome<(i32, i32)> {
    wait(py, version)
}

#[cfg(feature = "cuda")]
fn version() -> ternion::Result<(i32, i32)> {
    ternion_cuda::nvrtc::version()
}

#[cfg(not(feature = "cuda"))]
fn version() -> ternion::Result<(i32, i32)> {
    let detail = "not compiled in: turn on the feature `cuda` of the package `ternion`";
    Err(ternion::Error::Device { device: "cuda".into(), detail: detail.into() })
}

/// Has the CUDA backend look for NVIDIA's wheels where this interpreter looks for packages.
#[cfg(feature = "cuda")]
fn search_packages(py: Python<'_>) -> PyResult<()> {
    let path: Vec<Bound<'_, PyAny>> = py.import("sys")?.getattr("path")?.extract()?;
    let folders = path.iter().filter_map(|entry| entry.extract::<std::path::PathBuf>().ok());
    // A relative entry is the current folder, from which no library should be loaded.
    ternion_cuda::nvrtc::search_python_packages(folders.filter(|folder| folder.is_absolute()).collect());
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn search_packages(_: Python<'_>) -> PyResult<()> {
    Ok(())
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    search_packages(module.py())?;
    module.add_function(wrap_pyfunction!(_nvrtc_version, module)?)
}
