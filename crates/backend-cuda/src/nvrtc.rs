//! CUDA C++ to machine code by NVRTC, which is found at run time: where the linker looks, in a toolkit, or in a Python wheel.

use cudarc::nvrtc::sys;
use libloading::Library;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use ternion_core::{Error, Result};

/// A compiled program and what the compiler said of it.
pub struct Compiled {
    /// The machine code.
    pub cubin: Vec<u8>,
    /// Warnings, and with `--ptxas-options=-v` registers, spills and shared memory of each kernel.
    pub log: String,
}

/// The version of NVRTC, as major and minor.
///
/// # Errors
/// NVRTC was not found; the message says where it was looked for.
pub fn version() -> Result<(i32, i32)> {
    library()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there; it writes two numbers.
    let code = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    check(code).map_err(|text| Error::invalid("nvrtc", text))?;
    Ok((major, minor))
}

/// Compiles `source`, which messages call `name`.
///
/// # Errors
/// NVRTC was not found, or the source does not compile: the compiler's log is the message.
pub fn compile(name: &str, source: &str, options: &[String]) -> Result<Compiled> {
    library()?;
    let text =
        |text: &str| CString::new(text).map_err(|_| Error::invalid("nvrtc", "a zero byte in the source"));
    let (source, c_name) = (text(source)?, text(name)?);
    let options = options.iter().map(|option| text(option)).collect::<Result<Vec<CString>>>()?;
    let program =
        Program::new(&source, &c_name).map_err(|why| Error::invalid("nvrtc", format!("{name}: {why}")))?;
    let compiled = program.compile(&options);
    let log = program.log();
    match compiled {
        Ok(cubin) => Ok(Compiled { cubin, log }),
        Err(why) => Err(Error::invalid("nvrtc", format!("{name}: {why}\n{log}"))),
    }
}

/// Finds NVRTC, once.
fn library() -> Result<()> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: loads a library that is NVRTC by its name.
        if unsafe { sys::is_culib_present() } {
            return Ok(());
        }
        let folders = folders();
        match folders.iter().any(|folder| preload(folder)) {
            true => Ok(()),
            false => Err(not_found(&folders)),
        }
    });
    found.clone().map_err(|detail| Error::Device { device: "cuda".into(), detail })
}

fn not_found(folders: &[PathBuf]) -> String {
    let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    format!(
        "the kernel compiler NVRTC was not found where the linker looks, nor in [{}]. Install a CUDA toolkit or the Python wheel \
         nvidia-cuda-nvrtc, and if it lies elsewhere name its folder in TERNION_NVRTC",
        places.join(", ")
    )
}

/// Loads NVRTC and its built-in functions from `folder`, to stay: the bindings then find the library by its name.
fn preload(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let mut names: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    names.sort();
    let load = |prefix: &str| {
        names.iter().rev().filter(|path| is_library(path, prefix)).find_map(|path| {
            // SAFETY: the initialisers of NVIDIA's library, under its own name.
            unsafe { Library::new(path) }.ok()
        })
    };
    // The built-ins first: NVRTC asks for them by name when it compiles.
    let builtins = load("libnvrtc-builtins.so.");
    let nvrtc = load("libnvrtc.so.");
    let found = nvrtc.is_some();
    std::mem::forget((builtins, nvrtc));
    found
}

fn is_library(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
}

/// The folders in which NVRTC may lie, best first.
fn folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut folders: Vec<PathBuf> = variable("TERNION_NVRTC").into_iter().collect();
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable) {
        folders.push(toolkit.join("lib64"));
    }
    folders.push("/usr/local/cuda/lib64".into());
    folders.push("/opt/cuda/lib64".into());
    for prefix in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable) {
        folders.extend(wheels(&prefix.join("lib")));
    }
    folders.extend(variable("HOME").into_iter().flat_map(|home| wheels(&home.join(".local/lib"))));
    folders.extend(wheels(Path::new("/usr/local/lib")));
    folders.extend(wheels(Path::new("/usr/lib")));
    folders
}

/// Where wheels of NVRTC put it, under a folder that holds `python3.x` folders.
fn wheels(lib: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let pythons = entries.map(|entry| entry.path()).filter(|path| is_library(path, "python3"));
    pythons
        .flat_map(|python| {
            ["site-packages", "dist-packages"].map(|packages| python.join(packages).join("nvidia"))
        })
        .flat_map(|nvidia| ["cu13", "cuda_nvrtc"].map(|package| nvidia.join(package).join("lib")))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// The code in words.
fn check(code: sys::nvrtcResult) -> Result<(), String> {
    if code == sys::nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    // SAFETY: the library gives a string that stays.
    let text = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(code)) };
    Err(text.to_string_lossy().into_owned())
}

/// A program of NVRTC.
struct Program(sys::nvrtcProgram);

impl Program {
    fn new(source: &CStr, name: &CStr) -> Result<Program, String> {
        let mut program = std::ptr::null_mut();
        // SAFETY: two strings that end in zero, no headers; the handle is written.
        let code = unsafe {
            sys::nvrtcCreateProgram(
                &mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        check(code).map(|()| Program(program))
    }

    fn compile(&self, options: &[CString]) -> Result<Vec<u8>, String> {
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = i32::try_from(pointers.len()).map_err(|_| "too many options".to_string())?;
        // SAFETY: as many strings as are told, which live through the call.
        check(unsafe { sys::nvrtcCompileProgram(self.0, count, pointers.as_ptr()) })?;
        let mut size = 0;
        // SAFETY: a size is written.
        check(unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) })?;
        let mut cubin = vec![0u8; size];
        // SAFETY: as many bytes as the library asked for.
        check(unsafe { sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) })?;
        Ok(cubin)
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: a size is written.
        if check(unsafe { sys::nvrtcGetProgramLogSize(self.0, &mut size) }).is_err() {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: as many bytes as the library asked for.
        if check(unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) }).is_err() {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by the library and destroyed once.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}
