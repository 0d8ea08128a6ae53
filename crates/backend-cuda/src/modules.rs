//! Kernels by what they are compiled from: found loaded, on disk, or compiled now.

use crate::cache::Cache;
use crate::driver::{Properties, check};
use crate::nvrtc;
use crate::sources::{Source, Unit};
use cudarc::driver::sys;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use ternion_core::{Error, Result};

/// Dynamic shared memory that a launch may ask for without further ado: 48 KiB, less what a kernel has beside it.
const SHARED_WITHOUT_ASKING: u32 = 32 << 10;

/// A kernel that can be launched.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) handle: sys::CUfunction,
    /// Bytes of dynamic shared memory that launches were allowed so far.
    shared: AtomicU32,
}

// SAFETY: functions are handles that the driver lets every thread use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Allows launches with `bytes` bytes of dynamic shared memory.
    pub(crate) fn allow_shared(&self, op: &'static str, bytes: u32) -> Result<()> {
        if bytes <= SHARED_WITHOUT_ASKING || bytes <= self.shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the handle was given by the driver and its module stays loaded.
        check(op, unsafe { sys::cuFuncSetAttribute(self.handle, attribute, bytes as i32) })?;
        self.shared.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// The kernels of a unit, in the order of its source.
type Functions = Arc<SmallVec<[Function; 4]>>;

/// Every kernel that the process has loaded on a device. They stay for as long as the process does.
#[derive(Debug)]
pub(crate) struct Modules {
    architecture: String,
    cache: Cache,
    loaded: RwLock<FxHashMap<Unit, Functions>>,
    /// Held while a unit is compiled or loaded: no thread does it twice.
    loading: Mutex<()>,
}

/// The architecture whose machine code runs on a device of this compute capability: on 9.0 with the instructions that only it has.
fn architecture((major, minor): (i32, i32)) -> String {
    match (major, minor) {
        (9, 0) => "sm_90a".into(),
        _ => format!("sm_{major}{minor}"),
    }
}

/// What NVRTC is told beside the source.
pub fn options(architecture: &str) -> Vec<String> {
    // -DNDEBUG: a call of assert would serialise matrix instructions. 177: a source declares more than each of its variants uses.
    // 186: a function for numbers of every type compares also bytes with zero.
    ["--std=c++17", "-DNDEBUG", "-diag-suppress=177", "-diag-suppress=186"]
        .into_iter()
        .map(String::from)
        .chain([format!("--gpu-architecture={architecture}")])
        .collect()
}

/// All that machine code depends on. Not NVRTC's version, which is not known before NVRTC is loaded, and that takes longer than all else.
fn key<'a>(text: &'a str, options: &'a [String]) -> Vec<&'a str> {
    [env!("CARGO_PKG_VERSION"), text].into_iter().chain(options.iter().map(String::as_str)).collect()
}

/// The machine code of `source` for `architecture`: from the user's kernel cache, else from the compiler, and then kept there.
///
/// # Errors
/// NVRTC was not found, or the source does not compile.
pub fn machine_code(source: &Source, architecture: &str) -> Result<Vec<u8>> {
    cached(&Cache::from_environment(), source, architecture)
}

fn cached(cache: &Cache, source: &Source, architecture: &str) -> Result<Vec<u8>> {
    let text = source.text();
    let options = options(architecture);
    let key = key(&text, &options);
    if let Some(code) = cache.get(&key) {
        return Ok(code);
    }
    let code = nvrtc::compile(&source.name, &text, &options)?.cubin;
    cache.put(&key, &code);
    Ok(code)
}

/// Puts machine code of `source` into the user's kernel cache.
pub fn keep(source: &Source, architecture: &str, code: &[u8]) {
    Cache::from_environment().put(&key(&source.text(), &options(architecture)), code);
}

impl Modules {
    pub(crate) fn new(properties: &Properties) -> Modules {
        Modules {
            architecture: architecture(properties.capability),
            cache: Cache::from_environment(),
            loaded: RwLock::default(),
            loading: Mutex::default(),
        }
    }

    /// The kernels of `unit`. The context must be current.
    #[inline]
    pub(crate) fn get(&self, unit: Unit) -> Result<Functions> {
        if let Some(functions) = self.loaded.read().get(&unit) {
            return Ok(functions.clone());
        }
        self.load(unit)
    }

    #[cold]
    fn load(&self, unit: Unit) -> Result<Functions> {
        let _alone = self.loading.lock();
        if let Some(functions) = self.loaded.read().get(&unit) {
            return Ok(functions.clone());
        }
        let source = unit.source();
        let functions =
            Arc::new(self.functions(&source, &cached(&self.cache, &source, &self.architecture)?)?);
        self.loaded.write().insert(unit, functions.clone());
        Ok(functions)
    }

    fn functions(&self, source: &Source, code: &[u8]) -> Result<SmallVec<[Function; 4]>> {
        let mut module = std::ptr::null_mut();
        // SAFETY: an image that NVRTC made, or that has the checksum of one; the driver copies it.
        let code = unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()) };
        check("cuda", code).map_err(|error| Error::invalid("cuda", format!("{}: {error}", source.name)))?;
        let function = |name: &&'static str| {
            let c_name =
                CString::new(*name).map_err(|_| Error::invalid("cuda", "a zero byte in a kernel's name"))?;
            let mut handle = std::ptr::null_mut();
            // SAFETY: the module was loaded above and is never unloaded.
            let code = unsafe { sys::cuModuleGetFunction(&mut handle, module, c_name.as_ptr()) };
            check("cuda", code).map_err(|error| {
                Error::invalid("cuda", format!("{}: kernel {name}: {error}", source.name))
            })?;
            Ok(Function { handle, shared: AtomicU32::new(0) })
        };
        source.kernels.iter().map(function).collect()
    }
}
