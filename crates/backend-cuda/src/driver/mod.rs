//! A thin layer over the driver: its error codes as error messages, and its handles as types that
//! release their resources.
//!
//! Nothing here is called before [`Context::open`] has checked that the driver is installed: the
//! bindings panic without it.

pub(crate) mod event;
pub(crate) mod launch;
pub(crate) mod stream;
pub(crate) mod tensor_map;

use crate::variant::Capability;
use cudarc::driver::{result, sys};
use std::sync::OnceLock;
use ternion_core::{Error, Result};

/// The oldest architecture that the kernels support: 8.0 (A100).
const OLDEST: Capability = (8, 0);

/// Functions that every driver must have. The bindings panic if a function is missing.
const REQUIRED_FUNCTIONS: [&str; 47] = [
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD2D8Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuPointerGetAttribute",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Functions that older drivers lack. Such drivers still run everything that does not need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionalFunction {
    /// Launches with attributes: clusters and dependent launches. Since CUDA 11.8.
    LaunchKernelEx,
    /// Tensor maps. Since CUDA 12.0.
    TensorMapEncodeTiled,
}

impl OptionalFunction {
    const ALL: [OptionalFunction; 2] =
        [OptionalFunction::LaunchKernelEx, OptionalFunction::TensorMapEncodeTiled];

    fn name(self) -> &'static str {
        match self {
            OptionalFunction::LaunchKernelEx => "cuLaunchKernelEx",
            OptionalFunction::TensorMapEncodeTiled => "cuTensorMapEncodeTiled",
        }
    }

    /// Returns whether the driver has the function. The driver must be loaded.
    #[inline]
    pub(crate) fn is_available(self) -> bool {
        static AVAILABLE: OnceLock<[bool; OptionalFunction::ALL.len()]> = OnceLock::new();
        AVAILABLE.get_or_init(|| OptionalFunction::ALL.map(|function| has_function(function.name())))
            [self as usize]
    }
}

/// Returns whether the driver's library, which must be loaded, has a function of this name.
fn has_function(name: &str) -> bool {
    // SAFETY: the library is loaded; the function is looked up, not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name).is_ok() }
}

/// Converts the driver's status to an error of `op`.
pub(crate) fn check(op: &'static str, code: sys::CUresult) -> Result<()> {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::invalid(op, describe(code))),
    }
}

/// Returns the name and the meaning of a status of the driver.
fn describe(code: sys::CUresult) -> String {
    let error = result::DriverError(code);
    let owned =
        |string: Result<&std::ffi::CStr, _>| string.map(|text| text.to_string_lossy().into_owned()).ok();
    match (owned(error.error_name()), owned(error.error_string())) {
        (Some(name), Some(meaning)) => format!("the CUDA driver answers {name}: {meaning}"),
        _ => format!("the CUDA driver answers code {}", code as u32),
    }
}

fn unavailable(index: usize, detail: impl Into<String>) -> Error {
    Error::Device { device: format!("cuda:{index}"), detail: detail.into() }
}

/// Properties of a device, as the driver reports them.
#[derive(Debug, Clone)]
pub(crate) struct Properties {
    pub(crate) name: String,
    pub(crate) capability: Capability,
    pub(crate) multiprocessors: usize,
    /// Maximum bytes of shared memory of a block.
    pub(crate) max_shared_memory: usize,
    /// The CUDA version of the driver, as 1000 * major + 10 * minor.
    pub(crate) driver: i32,
}

/// The primary context of a device. It lives until the process ends, because other libraries share
/// it.
#[derive(Debug)]
pub(crate) struct Context {
    /// The index in the driver's order of devices.
    pub(crate) index: i32,
    handle: sys::CUcontext,
    pub(crate) properties: Properties,
}

// SAFETY: contexts are handles that every thread may use.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

thread_local! {
    /// The context that this crate has made current on this thread.
    static CURRENT: std::cell::Cell<sys::CUcontext> = const { std::cell::Cell::new(std::ptr::null_mut()) };
}

/// Returns the number of devices of the driver, or an error that says why device `index` is not
/// available.
fn count(index: usize) -> Result<usize> {
    // SAFETY: this loads the library that has the driver's name.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable(
            index,
            "no CUDA driver: the library libcuda.so.1 (on Windows nvcuda.dll) was not found",
        ));
    }
    if let Some(name) = REQUIRED_FUNCTIONS.iter().find(|name| !has_function(name)) {
        return Err(unavailable(index, format!("the CUDA driver is too old: it lacks the function {name}")));
    }
    result::init().map_err(|error| unavailable(index, describe(error.0)))?;
    let count = result::device::get_count().map_err(|error| unavailable(index, describe(error.0)))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns the name and the bytes of memory of every device, in the driver's order; empty if there
/// is no driver. No context is created.
pub(crate) fn descriptions() -> Vec<(String, u64)> {
    let describe_device = |ordinal: usize| {
        let device = result::device::get(ordinal as i32)?;
        // SAFETY: the driver returned this device.
        let bytes = unsafe { result::device::total_mem(device)? };
        Ok::<_, result::DriverError>((result::device::get_name(device)?, bytes as u64))
    };
    (0..count(0).unwrap_or(0)).filter_map(|ordinal| describe_device(ordinal).ok()).collect()
}

impl Context {
    /// Retains the primary context of device `index`.
    ///
    /// # Errors
    /// There is no driver or no such device, or the device is too old. Each case has its own
    /// message.
    pub(crate) fn open(index: usize) -> Result<Context> {
        let count = count(index)?;
        let ordinal = match i32::try_from(index) {
            Ok(ordinal) if index < count => ordinal,
            _ => return Err(unavailable(index, format!("no such device: the driver sees {count}"))),
        };
        let unavailable_for = |error: result::DriverError| unavailable(index, describe(error.0));
        let device = result::device::get(ordinal).map_err(unavailable_for)?;
        let properties = Properties::of(device).map_err(unavailable_for)?;
        if properties.capability < OLDEST {
            let ((major, minor), name) = (properties.capability, &properties.name);
            let detail =
                format!("{name} has compute capability {major}.{minor}; the kernels need 8.0 or newer");
            return Err(unavailable(index, detail));
        }
        // SAFETY: the driver returned this device.
        let handle = unsafe { result::primary_ctx::retain(device) }.map_err(unavailable_for)?;
        Ok(Context { index: ordinal, handle, properties })
    }

    /// Makes this context current on the calling thread, even if another library has changed the
    /// current context since the last call.
    pub(crate) fn make_current(&self) -> Result<()> {
        CURRENT.set(std::ptr::null_mut());
        self.bind()
    }

    /// Makes this context current on the calling thread.
    #[inline]
    pub(crate) fn bind(&self) -> Result<()> {
        if CURRENT.get() == self.handle {
            return Ok(());
        }
        // SAFETY: the context is retained until the process ends.
        unsafe { result::ctx::set_current(self.handle) }
            .map_err(|error| Error::invalid("cuda", describe(error.0)))?;
        CURRENT.set(self.handle);
        Ok(())
    }
}

impl Properties {
    fn of(device: sys::CUdevice) -> Result<Properties, result::DriverError> {
        use sys::CUdevice_attribute as Attribute;
        // SAFETY: the driver returned this device.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) };
        let mut driver = 0;
        // SAFETY: the call writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut driver) }.result()?;
        Ok(Properties {
            name: result::device::get_name(device)?,
            capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            max_shared_memory: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize,
            driver,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contents of all source files in `folder` and its subfolders.
    fn sources(folder: &std::path::Path) -> String {
        let entries =
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let text = |path: std::path::PathBuf| match path.is_dir() {
            true => sources(&path),
            false => std::fs::read_to_string(path).expect("text"),
        };
        entries.map(text).collect()
    }

    #[test]
    fn every_function_that_is_called_is_looked_for_first() {
        let text = sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        let called = text
            .split("sys::cu")
            .skip(1)
            .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
        for name in called.filter(|name| name.starts_with(char::is_uppercase)) {
            let name = format!("cu{name}");
            let is_optional = OptionalFunction::ALL.iter().any(|function| function.name() == name);
            assert!(is_optional || REQUIRED_FUNCTIONS.contains(&name.as_str()), "{name} is not looked for");
        }
        let is_optional = |name: &&str| OptionalFunction::ALL.iter().any(|function| function.name() == *name);
        assert!(!REQUIRED_FUNCTIONS.iter().any(is_optional), "no function is both");
    }

    #[test]
    fn optional_functions_are_numbered_in_their_order() {
        for (index, function) in OptionalFunction::ALL.into_iter().enumerate() {
            assert_eq!(function as usize, index);
        }
    }
}
