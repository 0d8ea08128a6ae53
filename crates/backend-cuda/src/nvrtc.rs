//! Compilation of CUDA C++ to machine code by NVRTC, which is found at run time: in a Python wheel,
//! in the linker's search path, or in a toolkit.

use crate::files;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use ternion_core::{Error, Result};

/// The oldest version that supports `sm_90a`, all of [`crate::options`], and parameters of 32 KiB.
const OLDEST: (i32, i32) = (12, 1);

/// A compiled program and the compiler's log.
pub struct Compiled {
    /// The machine code.
    pub cubin: Vec<u8>,
    /// Warnings, and with `--ptxas-options=-v` the registers, spills and shared memory of each
    /// kernel.
    pub log: String,
}

/// Returns the version of NVRTC, as major and minor.
///
/// # Errors
/// NVRTC was not found; the message names the locations that were searched.
pub fn version() -> Result<(i32, i32)> {
    Ok(nvrtc()?.version)
}

/// Compiles `program`. `name` identifies it in messages.
///
/// # Errors
/// NVRTC was not found, or the source does not compile. In the latter case the message is the
/// compiler's log.
pub fn compile(name: &str, program: &files::Program, options: &[String]) -> Result<Compiled> {
    let nvrtc = nvrtc()?;
    let c_string =
        |text: &str| CString::new(text).map_err(|_| Error::invalid("nvrtc", "a zero byte in the source"));
    let (source, c_name) = (c_string(&program.source)?, c_string(name)?);
    let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<CString>>>()?;
    let header =
        |&(path, content): &files::File| Ok(Header { path: c_string(path)?, source: c_string(content)? });
    let headers = program.headers.iter().map(header).collect::<Result<Vec<Header>>>()?;
    let program = Program::new(nvrtc, &source, &c_name, &headers)
        .map_err(|why| Error::invalid("nvrtc", format!("{name}: {why}")))?;
    let compiled = program.compile(&options);
    let log = program.log();
    match compiled {
        Ok(cubin) => Ok(Compiled { cubin, log }),
        Err(why) if log.contains("--gpu-architecture") => {
            let (major, minor) = nvrtc.version;
            let detail =
                format!("NVRTC {major}.{minor} does not know this device; a newer one does: {why}\n{log}");
            Err(Error::invalid("nvrtc", detail))
        }
        Err(why) => Err(Error::invalid("nvrtc", format!("{name}: {why}\n{log}"))),
    }
}

/// The handle of a program of NVRTC.
type Handle = *mut c_void;
/// A status of NVRTC: 0 is success.
type Code = c_int;
type CStrings = *const *const c_char;

/// The functions of NVRTC that are used, from one library that stays loaded. The bindings of the
/// driver's crate are not used, because they panic if a library lacks a symbol.
struct Nvrtc {
    version: (i32, i32),
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    create:
        unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, c_int, CStrings, CStrings) -> Code,
    compile: unsafe extern "C" fn(Handle, c_int, CStrings) -> Code,
    cubin_size: unsafe extern "C" fn(Handle, *mut usize) -> Code,
    cubin: unsafe extern "C" fn(Handle, *mut c_char) -> Code,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> Code,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Handle) -> Code,
}

/// The folders of Python packages given to [`search_python_packages`].
static PYTHON_PACKAGES: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Sets the folders of Python packages, such as `site-packages`, in which NVIDIA's wheels are
/// looked for before anything else except `TERNION_NVRTC`: a program that is run by an interpreter
/// uses the wheels of that interpreter, whose version was chosen together with its other packages.
/// Only the first call has an effect, and only on libraries that were not looked for before.
pub fn search_python_packages(folders: Vec<PathBuf>) {
    let _ = PYTHON_PACKAGES.set(folders);
}

fn python_packages() -> &'static [PathBuf] {
    PYTHON_PACKAGES.get().map_or(&[], Vec::as_slice)
}

/// Returns NVRTC, which is searched for once: only in the folder that `TERNION_NVRTC` names, or,
/// without that variable, in the interpreter's wheel of CUDA 13, in the linker's search path, and
/// then in the usual folders.
fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let found = NVRTC.get_or_init(|| match path_variable("TERNION_NVRTC") {
        Some(folder) => load_from_named_folder(&folder),
        None => {
            let wheels = wheels_in(python_packages(), &["cu13"]);
            load_first(&wheels, Nvrtc::from_linker, &folders("cuda_nvrtc"))
        }
    });
    found.as_ref().map_err(|detail| Error::Device { device: "cuda".into(), detail: detail.clone() })
}

/// Loads NVRTC from the folder that the user named.
fn load_from_named_folder(folder: &Path) -> Result<Nvrtc, String> {
    Nvrtc::from_folder(folder).map_err(|why| {
        format!(
            "TERNION_NVRTC names {}, which has no kernel compiler NVRTC that can be used: {why}",
            folder.display()
        )
    })
}

/// Returns the NVRTC of the first of `wheels` that has one, or else that of the linker, or else
/// that of the first of `folders`.
fn load_first(
    wheels: &[PathBuf],
    from_linker: impl FnOnce() -> Result<Nvrtc, String>,
    folders: &[PathBuf],
) -> Result<Nvrtc, String> {
    let mut attempts = Vec::new();
    if let Some(nvrtc) = load_first_in(wheels, &mut attempts) {
        return Ok(nvrtc);
    }
    match from_linker() {
        Ok(nvrtc) => return Ok(nvrtc),
        Err(why) => attempts.push(format!("where the linker looks ({why})")),
    }
    if let Some(nvrtc) = load_first_in(folders, &mut attempts) {
        return Ok(nvrtc);
    }
    let ((major, minor), attempts) = (OLDEST, attempts.join(", "));
    Err(format!(
        "the kernel compiler NVRTC, {major}.{minor} or newer, was not found: {attempts}. Install a CUDA toolkit or the Python wheel \
         nvidia-cuda-nvrtc, and if it is elsewhere, name its folder in TERNION_NVRTC"
    ))
}

/// Returns the NVRTC of the first folder that has one. The reasons against the others are added to
/// `attempts`.
fn load_first_in(folders: &[PathBuf], attempts: &mut Vec<String>) -> Option<Nvrtc> {
    for folder in folders {
        match Nvrtc::from_folder(folder) {
            Ok(nvrtc) => return Some(nvrtc),
            Err(why) => attempts.push(format!("{} ({why})", folder.display())),
        }
    }
    None
}

impl Nvrtc {
    /// Loads NVRTC under one of its names from the linker's search path.
    fn from_linker() -> Result<Nvrtc, String> {
        let mut errors = Vec::new();
        for name in cudarc::get_lib_name_candidates("nvrtc") {
            // SAFETY: the initializers of NVIDIA's library, under its own name.
            let Ok(library) = (unsafe { Library::new(&name) }) else { continue };
            match Nvrtc::of(library) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => errors.push(format!("{name}: {why}")),
            }
        }
        Err(join_errors(&errors))
    }

    /// Loads the newest version in `folder`, and its built-in functions, which NVRTC looks up by
    /// name when it compiles.
    fn from_folder(folder: &Path) -> Result<Nvrtc, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| ["libnvrtc.so", "nvrtc64_"].iter().any(|prefix| has_prefix(path, prefix)));
        paths.sort();
        let mut errors = Vec::new();
        for path in paths.iter().rev() {
            // SAFETY: as above.
            let library = unsafe { Library::new(path) }.map_err(|error| error.to_string());
            match library.and_then(Nvrtc::of) {
                Ok(nvrtc) => {
                    nvrtc.preload_builtins(folder);
                    return Ok(nvrtc);
                }
                Err(why) => errors.push(format!("{}: {why}", path.display())),
            }
        }
        Err(join_errors(&errors))
    }

    /// Returns the functions of a library, if it has all of them and is not too old. The library
    /// stays loaded.
    fn of(library: Library) -> Result<Nvrtc, String> {
        let version = version_of(&library)?;
        check_version(version)?;
        // SAFETY: the types are those of NVIDIA's declarations, which are the same in every
        // supported version.
        let nvrtc = unsafe {
            Nvrtc {
                version,
                error_string: symbol(&library, "nvrtcGetErrorString")?,
                create: symbol(&library, "nvrtcCreateProgram")?,
                compile: symbol(&library, "nvrtcCompileProgram")?,
                cubin_size: symbol(&library, "nvrtcGetCUBINSize")?,
                cubin: symbol(&library, "nvrtcGetCUBIN")?,
                log_size: symbol(&library, "nvrtcGetProgramLogSize")?,
                log: symbol(&library, "nvrtcGetProgramLog")?,
                destroy: symbol(&library, "nvrtcDestroyProgram")?,
            }
        };
        std::mem::forget(library);
        Ok(nvrtc)
    }

    /// Loads the built-ins of this version from `folder` and keeps them loaded. If the folder lacks
    /// them, the linker may still find them.
    fn preload_builtins(&self, folder: &Path) {
        let (major, minor) = self.version;
        // SAFETY: as for NVRTC itself.
        let builtins = unsafe { Library::new(folder.join(format!("libnvrtc-builtins.so.{major}.{minor}"))) };
        std::mem::forget(builtins);
    }

    /// Converts a status to an error with the library's message.
    fn check(&self, code: Code) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library returns a static string.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(text.to_string_lossy().into_owned())
    }
}

fn join_errors(errors: &[String]) -> String {
    if errors.is_empty() { "no libnvrtc.so".into() } else { errors.join("; ") }
}

fn check_version(version: (i32, i32)) -> Result<(), String> {
    let ((major, minor), oldest) = (version, OLDEST);
    if version >= oldest {
        return Ok(());
    }
    Err(format!("version {major}.{minor}, needed is {}.{} or newer", oldest.0, oldest.1))
}

/// Returns a function of the library.
///
/// # Safety
/// `F` is the pointer type of the function that the library calls `name`.
pub(crate) unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { library.get::<F>(name) };
    found.map(|symbol| *symbol).map_err(|_| format!("it lacks the function {name}"))
}

fn version_of(library: &Library) -> Result<(i32, i32), String> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code;
    // SAFETY: the type of its declaration.
    let version: Version = unsafe { symbol(library, "nvrtcVersion") }?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the call writes two integers.
    match unsafe { version(&mut major, &mut minor) } {
        0 => Ok((major, minor)),
        code => Err(format!("nvrtcVersion answers code {code}")),
    }
}

fn has_prefix(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
}

fn path_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the folders in which to search for NVRTC or another library of the toolkit if the linker
/// does not find it, best first. `wheel` is the name of the library's folder in Python's wheels of
/// CUDA 12.
pub(crate) fn folders(wheel: &str) -> Vec<PathBuf> {
    let wheels = |lib: &Path| wheels(lib, wheel);
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(path_variable);
    let mut folders: Vec<PathBuf> = toolkits.map(|toolkit| toolkit.join("lib64")).collect();
    folders.push("/usr/local/cuda/lib64".into());
    folders.push("/opt/cuda/lib64".into());
    folders.extend(toolkits_in(Path::new("/usr/local")));
    folders.extend(path_variable("CONDA_PREFIX").map(|conda| conda.join("lib")));
    folders.extend(wheels_in(python_packages(), &["cu13", wheel]));
    let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path_variable);
    for prefix in prefixes.chain(path_variable("PATH").as_deref().and_then(prefix_of_python)) {
        folders.extend(wheels(&prefix.join("lib")));
    }
    folders.extend(path_variable("HOME").into_iter().flat_map(|home| wheels(&home.join(".local/lib"))));
    folders.extend(wheels(Path::new("/usr/local/lib")));
    folders.extend(wheels(Path::new("/usr/lib")));
    folders
}

/// Returns the installation prefix of the first Python in `path`: a virtual environment need not be
/// active, and a version manager may install Python anywhere.
fn prefix_of_python(path: &Path) -> Option<PathBuf> {
    let folder = std::env::split_paths(path).find(|folder| folder.join("python3").is_file())?;
    folder.parent().map(Path::to_path_buf)
}

/// Returns the library folders of toolkits that are installed under `root` in folders such as
/// `cuda-13.0`, the newest first.
fn toolkits_in(root: &Path) -> Vec<PathBuf> {
    let version = |path: &Path| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?.strip_prefix("cuda-")?;
        name.split('.').map(|part| part.parse().ok()).collect()
    };
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut toolkits: Vec<_> = entries.filter_map(|path| Some((version(&path)?, path))).collect();
    toolkits.sort_by(|(left, _), (right, _)| right.cmp(left));
    toolkits.into_iter().map(|(_, path)| path.join("lib64")).collect()
}

/// Returns the folders in which wheels install a library, given a folder that contains `python3.x`
/// folders.
fn wheels(lib: &Path, wheel: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let pythons = entries.map(|entry| entry.path()).filter(|path| has_prefix(path, "python3"));
    let packages: Vec<PathBuf> =
        pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name))).collect();
    wheels_in(&packages, &["cu13", wheel])
}

/// Returns the library folders of the named wheels of NVIDIA in folders of Python packages.
fn wheels_in(packages: &[PathBuf], names: &[&str]) -> Vec<PathBuf> {
    let in_packages = |packages: &PathBuf| -> Vec<PathBuf> {
        names.iter().map(|name| packages.join("nvidia").join(name).join("lib")).collect()
    };
    packages.iter().flat_map(in_packages).filter(|folder| folder.is_dir()).collect()
}

/// A header as C strings, for NVRTC.
struct Header {
    path: CString,
    source: CString,
}

/// A program of NVRTC.
struct Program {
    nvrtc: &'static Nvrtc,
    handle: Handle,
}

impl Program {
    fn new(nvrtc: &'static Nvrtc, source: &CStr, name: &CStr, headers: &[Header]) -> Result<Program, String> {
        let mut handle = std::ptr::null_mut();
        let count = i32::try_from(headers.len()).map_err(|_| "too many headers".to_string())?;
        let sources: Vec<_> = headers.iter().map(|header| header.source.as_ptr()).collect();
        let paths: Vec<_> = headers.iter().map(|header| header.path.as_ptr()).collect();
        let (source, name) = (source.as_ptr(), name.as_ptr());
        // SAFETY: all strings end in zero and live during the call, which copies them; there are
        // `count` sources and as many paths; the handle is written.
        let code =
            unsafe { (nvrtc.create)(&mut handle, source, name, count, sources.as_ptr(), paths.as_ptr()) };
        nvrtc.check(code).map(|()| Program { nvrtc, handle })
    }

    fn compile(&self, options: &[CString]) -> Result<Vec<u8>, String> {
        let nvrtc = self.nvrtc;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = i32::try_from(pointers.len()).map_err(|_| "too many options".to_string())?;
        // SAFETY: `count` strings, which live during the call.
        nvrtc.check(unsafe { (nvrtc.compile)(self.handle, count, pointers.as_ptr()) })?;
        let mut size = 0;
        // SAFETY: the call writes a size.
        nvrtc.check(unsafe { (nvrtc.cubin_size)(self.handle, &mut size) })?;
        let mut cubin = vec![0u8; size];
        // SAFETY: the buffer has as many bytes as the library requested.
        nvrtc.check(unsafe { (nvrtc.cubin)(self.handle, cubin.as_mut_ptr().cast()) })?;
        Ok(cubin)
    }

    fn log(&self) -> String {
        let nvrtc = self.nvrtc;
        let mut size = 0;
        // SAFETY: the call writes a size.
        if nvrtc.check(unsafe { (nvrtc.log_size)(self.handle, &mut size) }).is_err() {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: the buffer has as many bytes as the library requested.
        if nvrtc.check(unsafe { (nvrtc.log)(self.handle, log.as_mut_ptr().cast()) }).is_err() {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by the library and destroyed once.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ternion-nvrtc-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn fault(found: Result<Nvrtc, String>) -> String {
        found.err().expect("no NVRTC there")
    }

    #[test]
    fn the_newest_of_several_toolkits_is_searched_first() {
        let root = folder("toolkits");
        for name in ["cuda-9.2", "cuda-13.0", "cuda-12.10", "cuda-12.9", "cuda", "cuda-old", "cudnn-9"] {
            std::fs::create_dir_all(root.join(name)).expect("a folder");
        }
        let found: Vec<_> = toolkits_in(&root)
            .iter()
            .filter_map(|path| path.strip_prefix(&root).ok()?.to_str().map(String::from))
            .collect();
        assert_eq!(found, ["cuda-13.0/lib64", "cuda-12.10/lib64", "cuda-12.9/lib64", "cuda-9.2/lib64"]);
        assert!(toolkits_in(&root.join("nothing")).is_empty());
    }

    #[test]
    fn wheels_are_found_in_the_packages_of_an_interpreter() {
        let packages = folder("packages");
        for name in ["nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib", "nvidia/cu13/include", "nvidia/cublas/lib"] {
            std::fs::create_dir_all(packages.join(name)).expect("a folder");
        }
        let searched = [packages.join("missing"), packages.clone()];
        let expected = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].map(|name| packages.join(name));
        assert_eq!(wheels_in(&searched, &["cu13", "cuda_nvrtc"]), expected);
        assert_eq!(wheels_in(&searched, &["cu13"]), expected[..1]);
    }

    #[test]
    fn versions_are_compared_as_pairs() {
        for sound in [(12, 1), (12, 9), (13, 0), (14, 0)] {
            assert_eq!(check_version(sound), Ok(()));
        }
        let why = check_version((11, 8)).expect_err("too old");
        assert_eq!(why, "version 11.8, needed is 12.1 or newer");
    }

    #[test]
    fn a_named_folder_without_nvrtc_is_reported_and_nothing_else_is_tried() {
        let empty = folder("empty");
        let why = fault(load_from_named_folder(&empty));
        assert!(why.contains("TERNION_NVRTC") && why.contains(&empty.display().to_string()), "{why}");
        assert!(why.contains("no libnvrtc.so"), "{why}");
        let missing = empty.join("missing");
        assert!(fault(load_from_named_folder(&missing)).contains(&missing.display().to_string()));
    }

    #[test]
    fn a_file_that_is_no_library_is_reported_by_its_path() {
        let folder = folder("text");
        let path = folder.join("libnvrtc.so.13");
        std::fs::write(&path, "not a library").expect("writes");
        let why = fault(load_from_named_folder(&folder));
        assert!(why.contains(&path.display().to_string()), "{why}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_functions_is_an_error_that_names_the_first() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this process");
        let paths = maps.lines().filter_map(|line| line.split_whitespace().last());
        let Some(foreign) = paths.into_iter().find(|path| path.contains("libc.so")) else { return };
        let folder = folder("foreign");
        std::os::unix::fs::symlink(foreign, folder.join("libnvrtc.so.13")).expect("links");
        let why = fault(load_from_named_folder(&folder));
        assert!(why.contains("libnvrtc.so.13: it lacks the function nvrtcVersion"), "{why}");
        let wheel = [folder.join("wheel")];
        let why = fault(load_first(&wheel, || Err("none".into()), &[folder.clone(), folder.join("missing")]));
        let tried = ["/wheel (", "where the linker looks (none)", "lacks the function", "/missing ("];
        let positions = tried.map(|text| why.find(text).unwrap_or_else(|| panic!("{text}: {why}")));
        assert!(positions.is_sorted(), "tried in another order: {why}");
    }
}
