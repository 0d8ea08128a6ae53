//! Kernels by variant: already loaded, cached on disk, or compiled now. They are compiled on
//! background threads if the launch can wait in the queue.

mod background;

use crate::cache::Cache;
use crate::driver::{Context, check};
use crate::files::Program;
use crate::launch::Launch;
use crate::nvrtc;
use crate::source::{CompileConfig, Source};
use crate::submit::queue::AwaitedKernel;
use crate::variant::{Architecture, Variant, study_variants, variants};
use background::{Claim, InProgress, Maker, Workers};
use cudarc::driver::sys;
use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use ternion_core::{Error, Result};

/// Bytes of dynamic shared memory that a launch may use without raising the kernel's limit. The
/// driver's default is 48 KiB, of which 16 KiB are left for a kernel's static shared memory.
const DEFAULT_SHARED_LIMIT: u32 = 32 << 10;

/// A kernel that can be launched.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) handle: sys::CUfunction,
    /// Bytes of dynamic shared memory that launches are allowed to use so far.
    shared_limit: AtomicU32,
    /// Held while the limit is raised: the driver keeps the last value that was set, not the
    /// largest.
    limit_lock: Mutex<()>,
}

// SAFETY: functions are handles that every thread may use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Allows launches with `bytes` bytes of dynamic shared memory.
    #[inline]
    pub(crate) fn allow_shared_bytes(&self, op: &'static str, bytes: u32) -> Result<()> {
        if bytes <= DEFAULT_SHARED_LIMIT || bytes <= self.shared_limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _guard = self.limit_lock.lock();
        if bytes <= self.shared_limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the driver returned the handle, and its module stays loaded.
        check(op, unsafe { sys::cuFuncSetAttribute(self.handle, attribute, bytes as i32) })?;
        self.shared_limit.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// The kernels of a variant, in the order of its source.
type Functions = Arc<SmallVec<[Function; 4]>>;

/// Every kernel that was loaded on a device. They stay loaded as long as the device lives.
#[derive(Debug)]
pub(crate) struct Modules {
    architecture: Architecture,
    /// How kernels are compiled.
    config: CompileConfig,
    cache: Cache,
    loaded: RwLock<FxHashMap<Variant, Functions>>,
    /// The modules that contain the kernels.
    images: Mutex<Vec<Image>>,
    /// Variants that are being compiled or loaded: no two threads do so with the same variant.
    in_progress: InProgress<Variant>,
    workers: Arc<Workers>,
    context: Arc<Context>,
}

impl Drop for Modules {
    /// Makes the context current, which unloading the modules requires: the last owner may be a
    /// compiling thread, on which it is not current.
    fn drop(&mut self) {
        let _ = self.context.bind();
    }
}

/// A module of the driver, unloaded when the device is dropped, after its work has ended.
#[derive(Debug)]
struct Image(sys::CUmodule);

// SAFETY: modules are handles that every thread may use.
unsafe impl Send for Image {}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the driver returned it, and none of its kernels is running.
        unsafe {
            let _ = sys::cuModuleUnload(self.0);
        }
    }
}

/// Returns the options that NVRTC gets.
pub fn options(architecture: &str) -> Vec<String> {
    // -DNDEBUG: a call of assert would serialize matrix instructions. 177: a source declares more
    // than each of its variants uses. 186: a function for elements of every type also compares
    // bytes with zero.
    ["--std=c++17", "-DNDEBUG", "-diag-suppress=177", "-diag-suppress=186"]
        .into_iter()
        .map(String::from)
        .chain([format!("--gpu-architecture={architecture}")])
        .collect()
}

/// Returns the cache key: everything that the machine code depends on, except NVRTC's version. To
/// get the version, NVRTC must be loaded, which takes longer than everything else.
fn key<'a>(program: &'a Program, options: &'a [String]) -> Vec<&'a str> {
    let version = std::iter::once(env!("CARGO_PKG_VERSION"));
    version.chain(program.digest_parts()).chain(options.iter().map(String::as_str)).collect()
}

/// Returns the result of `load` for the machine code of `source`, cached or compiled.
fn load_cached<T>(
    cache: &Cache,
    source: &Source,
    architecture: &str,
    load: impl Fn(&[u8]) -> Result<T>,
) -> Result<T> {
    let program = source.program();
    let options = options(architecture);
    cached_or_compiled(
        cache,
        &key(&program, &options),
        || Ok(nvrtc::compile(&source.name, &program, &options)?.cubin),
        load,
    )
}

/// Returns the result of `load` for the cached machine code, or else for code that `compile`
/// returns. If `load` rejects an entry, it is compiled again and replaced: the entry may have been
/// written with another driver or compiler.
fn cached_or_compiled<T>(
    cache: &Cache,
    key: &[&str],
    compile: impl Fn() -> Result<Vec<u8>>,
    load: impl Fn(&[u8]) -> Result<T>,
) -> Result<T> {
    let rejected = match cache.get(key).map(|code| load(&code)) {
        Some(Ok(loaded)) => return Ok(loaded),
        // This error is not caused by the entry.
        Some(Err(full @ Error::OutOfMemory { .. })) => return Err(full),
        Some(Err(rejected)) => Some(rejected),
        None => None,
    };
    let code = compile().map_err(|error| match rejected {
        Some(Error::Invalid { op, detail }) => {
            Error::invalid(op, format!("{detail}; and it cannot be compiled again: {error}"))
        }
        Some(rejected) => rejected,
        None => error,
    })?;
    cache.put(key, &code);
    load(&code)
}

/// Writes machine code of `source` to the user's kernel cache, for distribution, and returns the
/// file.
///
/// # Errors
/// There is no folder for the cache, or the file cannot be written.
pub fn store_kernel(source: &Source, architecture: &str, code: &[u8]) -> Result<PathBuf> {
    Cache::from_environment().store(&key(&source.program(), &options(architecture)), code)
}

impl Modules {
    pub(crate) fn new(context: &Arc<Context>, config: CompileConfig) -> Modules {
        Modules {
            config,
            architecture: Architecture::of_device(context.properties.capability),
            cache: Cache::from_environment(),
            loaded: RwLock::default(),
            images: Mutex::default(),
            in_progress: InProgress::default(),
            workers: Arc::default(),
            context: context.clone(),
        }
    }

    /// Returns the result of `read` for the kernels of `variant`, if it is loaded.
    ///
    /// The list is borrowed, not cloned: its reference count would be a substantial part of a
    /// launch's time outside the driver.
    #[inline]
    pub(crate) fn with_loaded<T>(
        &self,
        variant: &Variant,
        read: impl Fn(&[Function]) -> Result<T>,
    ) -> Option<Result<T>> {
        self.loaded.read().get(variant).map(|functions| read(functions))
    }

    /// As `with_loaded`, but loads the variant now if necessary. The context must be current.
    #[cold]
    pub(crate) fn with<T>(&self, variant: &Variant, read: impl Fn(&[Function]) -> Result<T>) -> Result<T> {
        read(&self.load(*variant)?)
    }

    /// Starts to compile the variant on another thread. Returns true if a compilation is in flight.
    /// Returns false if the variant is loaded or on disk, or if no compiler was found;
    /// [`Modules::with`] then returns the kernels, or the error, without a compilation.
    #[cold]
    pub(crate) fn compile_in_background(self: &Arc<Self>, variant: Variant) -> Result<bool> {
        check_listed(variant)?;
        check_supported(variant, self.architecture)?;
        let claim = match self.in_progress.claim(variant, || self.find(&variant)) {
            Maker::Done(_) => return Ok(false),
            Maker::Other => return Ok(true),
            Maker::Caller(claim) => claim,
        };
        let (program, options) = (self.source(&variant).program(), options(&self.architecture.to_string()));
        if self.cache.get(&key(&program, &options)).is_some() || nvrtc::version().is_err() {
            return Ok(false);
        }
        let (modules, variant) = (self.clone(), InProgress::transfer(claim));
        self.workers.run(move || {
            let claim = modules.in_progress.resume(variant);
            // After an error, the thread that needs the kernels does not find them. It then tries
            // again and reports the error.
            let _ = modules.context.bind().and_then(|()| modules.load_claimed(variant, claim));
        });
        Ok(true)
    }

    /// Returns the source that the variant is compiled from in this configuration.
    fn source(&self, variant: &Variant) -> Source {
        variant.source_as(self.config)
    }

    fn find(&self, variant: &Variant) -> Option<Functions> {
        self.loaded.read().get(variant).cloned()
    }

    #[cold]
    fn load(&self, variant: Variant) -> Result<Functions> {
        loop {
            match self.in_progress.claim(variant, || self.find(&variant)) {
                Maker::Done(functions) => return Ok(functions),
                Maker::Other => self.in_progress.wait(&variant),
                Maker::Caller(claim) => return self.load_claimed(variant, claim),
            }
        }
    }

    fn load_claimed(&self, variant: Variant, _claim: Claim<'_, Variant>) -> Result<Functions> {
        check_listed(variant)?;
        check_supported(variant, self.architecture)?;
        let source = self.source(&variant);
        let functions = load_cached(&self.cache, &source, &self.architecture.to_string(), |code| {
            self.functions(&source, code)
        })?;
        let functions = Arc::new(functions);
        self.loaded.write().insert(variant, functions.clone());
        Ok(functions)
    }

    fn functions(&self, source: &Source, code: &[u8]) -> Result<SmallVec<[Function; 4]>> {
        let mut module = std::ptr::null_mut();
        // SAFETY: an image that NVRTC created, or that has the checksum of one; the driver copies
        // it.
        let status = unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()) };
        if status == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let device = source.name.clone();
            return Err(Error::OutOfMemory { device, requested: code.len(), in_use: 0, cached: 0, peak: 0 });
        }
        check("cuda", status).map_err(|error| self.rejected(source, &error))?;
        let image = Image(module);
        let function = |name: &&'static str| {
            let c_name =
                CString::new(*name).map_err(|_| Error::invalid("cuda", "a zero byte in a kernel's name"))?;
            let mut handle = std::ptr::null_mut();
            // SAFETY: the module was loaded above, and stays loaded as long as the device lives.
            let code = unsafe { sys::cuModuleGetFunction(&mut handle, module, c_name.as_ptr()) };
            check("cuda", code).map_err(|error| {
                Error::invalid("cuda", format!("{}: kernel {name}: {error}", source.name))
            })?;
            Ok(Function { handle, shared_limit: AtomicU32::new(0), limit_lock: Mutex::default() })
        };
        let functions = source.kernels.iter().map(function).collect::<Result<_>>()?;
        self.images.lock().push(image);
        Ok(functions)
    }

    /// Returns the error for machine code that the driver rejects, usually because the driver is
    /// older than the compiler.
    fn rejected(&self, source: &Source, error: &Error) -> Error {
        let driver = self.context.properties.driver;
        let (major, minor) = (driver / 1000, driver % 1000 / 10);
        let compiler = nvrtc::version().map(|(major, minor)| format!(", NVRTC is {major}.{minor}"));
        let versions = format!("the driver is for CUDA {major}.{minor}{}", compiler.unwrap_or_default());
        Error::invalid("cuda", format!("{}: {error} ({versions})", source.name))
    }
}

/// The kernel of a launch that waits in the queue while it is compiled.
#[derive(Debug)]
pub(crate) struct PendingKernel {
    pub(crate) modules: Arc<Modules>,
    pub(crate) op: &'static str,
    pub(crate) launch: Launch,
}

impl AwaitedKernel for PendingKernel {
    fn wait(&self) -> Result<sys::CUfunction> {
        let PendingKernel { modules, op, launch } = self;
        modules.context.bind()?;
        modules.with(&launch.variant, |functions| launch.function(op, functions))
    }
}

/// Checks that the device supports the instructions of the variant.
fn check_supported(variant: Variant, architecture: Architecture) -> Result<()> {
    match variant.is_for(architecture) {
        true => Ok(()),
        false => Err(Error::invalid("cuda", format!("{variant:?} is not for the device's {architecture}"))),
    }
}

/// Checks that the variant is in the list of all variants. A variant that is not listed would be
/// compiled with tiles or types that its launch does not intend.
fn check_listed(variant: Variant) -> Result<()> {
    static LISTED: LazyLock<FxHashSet<Variant>> =
        LazyLock::new(|| variants().into_iter().chain(study_variants()).collect());
    if LISTED.contains(&variant) {
        return Ok(());
    }
    Err(Error::invalid("cuda", format!("{variant:?} is not in the list of variants")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::attention::{AttentionVariant, Engine, KernelConfig, MaskMode};
    use crate::variant::gemm::{EpilogueVariant, GemmVariant, LoadMode, MMA_32X32X64};
    use std::cell::Cell;
    use ternion_core::DType;

    /// Returns the number of compilations and the result.
    fn run(cache: &Cache, compiled: &[u8], accepts: impl Fn(&[u8]) -> bool) -> (usize, Result<Vec<u8>>) {
        let count = Cell::new(0);
        let compile = || {
            count.set(count.get() + 1);
            Ok(compiled.to_vec())
        };
        let load = |code: &[u8]| match accepts(code) {
            true => Ok(code.to_vec()),
            false => Err(Error::invalid("cuda", "rejected")),
        };
        let loaded = cached_or_compiled(cache, &["key"], compile, load);
        (count.get(), loaded)
    }

    #[test]
    fn an_entry_that_the_driver_rejects_is_compiled_again_once() {
        let cache = Cache::fresh("rejected");
        cache.put(&["key"], b"of another driver");
        let (count, loaded) = run(&cache, b"sound", |code| code == b"sound");
        assert_eq!((count, loaded.ok().as_deref()), (1, Some(&b"sound"[..])));
        let (count, loaded) = run(&cache, b"never asked for", |_| true);
        assert_eq!((count, loaded.ok().as_deref()), (0, Some(&b"sound"[..])), "the entry was replaced");
        let (count, loaded) = run(&cache, b"sound", |_| false);
        assert!(count == 1 && loaded.is_err(), "compiled {count} times");
    }

    #[test]
    fn an_entry_for_which_there_is_no_memory_is_not_rejected() {
        let cache = Cache::fresh("memory");
        cache.put(&["key"], b"sound");
        let full = |_: &[u8]| -> Result<()> {
            Err(Error::OutOfMemory { device: "cuda:0".into(), requested: 1, in_use: 0, cached: 0, peak: 0 })
        };
        let compile = || panic!("compiled again");
        assert!(matches!(
            cached_or_compiled(&cache, &["key"], compile, full),
            Err(Error::OutOfMemory { .. })
        ));
        assert_eq!(cache.get(&["key"]).as_deref(), Some(&b"sound"[..]));
    }

    #[test]
    fn a_rejected_entry_without_a_compiler_reports_both() {
        let cache = Cache::fresh("compiler");
        cache.put(&["key"], b"of another driver");
        let compile = || Err(Error::invalid("nvrtc", "not found"));
        let load = |_: &[u8]| -> Result<()> { Err(Error::invalid("cuda", "no binary for this GPU")) };
        let error = cached_or_compiled(&cache, &["key"], compile, load).expect_err("rejected").to_string();
        assert!(error.contains("no binary for this GPU") && error.contains("not found"), "{error}");
    }

    #[test]
    fn variants_that_are_not_listed_are_errors() {
        variants().into_iter().for_each(|variant| check_listed(variant).expect("listed"));
        let attention = |engine, width, dtype| {
            let kernel_config = KernelConfig { engine, width, mask_mode: MaskMode::Full };
            AttentionVariant::Forward { kernel_config, dtype }.into()
        };
        check_listed(attention(Engine::Mma, 64, DType::F16)).expect("a listed width");
        let (a, b) = (LoadMode::Elements, LoadMode::KMajor);
        let (operands, output) = (DType::BF16, DType::BF16);
        let epilogue = EpilogueVariant::BiasRelu;
        let unknown = GemmVariant { tile: &MMA_32X32X64, a, b, operands, output, epilogue };
        let unlisted = [
            attention(Engine::Mma, 96, DType::F16),
            attention(Engine::Wgmma, 64, DType::F32),
            Variant::from(unknown),
        ];
        for variant in unlisted {
            let error = check_listed(variant).expect_err("not listed").to_string();
            assert!(error.contains("is not in the list of variants"), "{error}");
        }
    }
}
