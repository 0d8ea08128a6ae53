//! The library CUPTI of NVIDIA's profilers, opened at run time.

use crate::nvrtc;
use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

/// The oldest supported version, by the layout of its records: CUDA 12.0.
const OLDEST: u32 = 18;

/// The library's names in CUDA 13, in CUDA 12, and among a toolkit's developer files.
const NAMES: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];

/// The variable that names the library or its folder.
const VARIABLE: &str = "TERNION_CUPTI";

pub(super) type Code = u32;
/// Passes a buffer to CUPTI: its address, its bytes, and the maximum number of records (0: as many
/// as fit).
type RequestBuffer = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Returns a buffer from CUPTI: context, stream, address, bytes, and how many of them contain
/// records.
type CompleteBuffer = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The functions of CUPTI that are used.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) register: unsafe extern "C" fn(RequestBuffer, CompleteBuffer) -> Code,
    pub(super) enable: unsafe extern "C" fn(u32) -> Code,
    pub(super) disable: unsafe extern "C" fn(u32) -> Code,
    pub(super) flush: unsafe extern "C" fn(u32) -> Code,
    pub(super) next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Code,
    pub(super) dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Code,
    pub(super) text: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    pub(super) version: unsafe extern "C" fn(*mut u32) -> Code,
}

impl Functions {
    /// Returns the meaning of a status of CUPTI.
    pub(super) fn explained(&self, code: Code) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the call writes the address of a constant string, or leaves null.
        unsafe { (self.text)(code, &mut text) };
        match text.is_null() {
            true => format!("code {code}"),
            // SAFETY: a static string that ends in a zero byte.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        }
    }

    /// Checks that the library is new enough: the layout of older records is not known.
    pub(super) fn check_version(self) -> Result<Functions, String> {
        let mut version = 0;
        // SAFETY: the call writes an integer.
        match unsafe { (self.version)(&mut version) } {
            0 if version >= OLDEST => Ok(self),
            0 => Err(format!("its API version is {version}, expected {OLDEST} (CUDA 12.0) or newer")),
            code => Err(format!("it does not report its version: {}", self.explained(code))),
        }
    }
}

/// Opens CUPTI from the linker's search path, from the folders of toolkits or from Python's wheels;
/// or, if [`VARIABLE`] is set, only from the path that it names.
pub(super) fn open() -> Result<Functions, String> {
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => open_named(&PathBuf::from(path)),
        None => open_first(paths_to_try()),
    }
}

fn open_named(path: &std::path::Path) -> Result<Functions, String> {
    let paths = match path.is_dir() {
        true => NAMES.map(|name| path.join(name)).into_iter().filter(|path| path.is_file()).collect(),
        false => vec![path.to_path_buf()],
    };
    let message = || format!("{VARIABLE} names {}, which has no CUPTI that can be used", path.display());
    if paths.is_empty() {
        return Err(format!("{}: no {}", message(), NAMES.join(", ")));
    }
    open_first(paths).map_err(|why| format!("{}: {why}", message()))
}

/// Returns the library of the first path that has one.
fn open_first(paths_to_try: Vec<PathBuf>) -> Result<Functions, String> {
    let mut errors = Vec::new();
    for path in paths_to_try {
        match load_functions(&path) {
            Ok(functions) => return Ok(functions),
            // A name that the linker does not know, or a missing file, is not reported.
            Err(None) => {}
            Err(Some(why)) => errors.push(format!("{}: {why}", path.display())),
        }
    }
    let errors = if errors.is_empty() { String::new() } else { format!(" ({})", errors.join("; ")) };
    Err(format!(
        "CUPTI not found{errors}: install a CUDA toolkit or the wheel nvidia-cuda-cupti, or set {VARIABLE} \
         to the path of the library"
    ))
}

fn paths_to_try() -> Vec<PathBuf> {
    let mut paths_to_try: Vec<PathBuf> = NAMES.map(PathBuf::from).into();
    for folder in nvrtc::folders("cuda_cupti") {
        let extras = folder.parent().map(|toolkit| toolkit.join("extras/CUPTI/lib64"));
        for folder in std::iter::once(folder).chain(extras) {
            paths_to_try
                .extend(NAMES.map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()));
        }
    }
    paths_to_try
}

/// Returns the functions of a library. The error is `None` if there is no library, otherwise the
/// reason why it cannot be used.
fn load_functions(path: &std::path::Path) -> Result<Functions, Option<String>> {
    // SAFETY: the initializers of NVIDIA's library, under its own name.
    let library = unsafe { Library::new(path) }.map_err(|error| path.is_file().then(|| error.to_string()))?;
    // SAFETY: the types are those of NVIDIA's declarations (cupti_activity.h, cupti_result.h,
    // cupti_version.h), which are the same in every supported version.
    let functions = unsafe {
        Functions {
            register: nvrtc::symbol(&library, "cuptiActivityRegisterCallbacks")?,
            enable: nvrtc::symbol(&library, "cuptiActivityEnable")?,
            disable: nvrtc::symbol(&library, "cuptiActivityDisable")?,
            flush: nvrtc::symbol(&library, "cuptiActivityFlushAll")?,
            next: nvrtc::symbol(&library, "cuptiActivityGetNextRecord")?,
            dropped: nvrtc::symbol(&library, "cuptiActivityGetNumDroppedRecords")?,
            text: nvrtc::symbol(&library, "cuptiGetResultString")?,
            version: nvrtc::symbol(&library, "cuptiGetVersion")?,
        }
    };
    let functions = functions.check_version()?;
    // The library installs hooks in the driver, and stays loaded.
    std::mem::forget(library);
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_cupti_is_rejected_in_words() {
        let why = open_named(&std::env::temp_dir().join("no-such-cupti.so")).err().expect("rejected");
        assert!(why.starts_with("TERNION_CUPTI names ") && why.contains("CUPTI not found"), "{why}");
        let empty = std::env::temp_dir().join(format!("ternion-no-cupti-{}", std::process::id()));
        std::fs::create_dir_all(&empty).expect("a folder");
        let why = open_named(&empty).err().expect("rejected");
        assert!(why.ends_with("no libcupti.so.13, libcupti.so.12, libcupti.so"), "{why}");
        // A library, but another one: the system's C library.
        let foreign = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
        if let Some(foreign) = foreign.iter().find(|path| std::path::Path::new(path).is_file()) {
            let why = open_named(std::path::Path::new(foreign)).err().expect("rejected");
            assert!(why.contains("it lacks the function cuptiActivityRegisterCallbacks"), "{why}");
        }
        std::fs::remove_dir_all(&empty).expect("removed");
    }
}
