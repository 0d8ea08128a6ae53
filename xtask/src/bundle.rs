//! Builds a folder with everything that a GPU machine without Rust needs: test runners, the
//! programs of apps/, `ternion-bench`, the programs that it is compared with, and a script that
//! runs them.

use clap::ValueEnum;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The maximum size of the folder, without packed kernels, because it is copied often.
const LIMIT_BYTES: u64 = 20 << 20;

/// The C library of Ubuntu 24.04, on which the programs must start.
const GLIBC: (u32, u32) = (2, 39);

/// All programs of apps/ in one executable: separate ones would each take 3 MiB of the limit.
const APPS: &str = "all_apps";

/// Makes each program smaller by a tenth: identical functions are merged, and there is no
/// relocation table.
const SMALLER: &str = "-C link-arg=-Wl,--icf=all -C relocation-model=static";

/// The file that identifies a folder as a bundle and records what it was built from.
const MANIFEST: &str = "bundle.json";

/// The backend of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// NVIDIA's driver and NVRTC
    Cuda,
    /// Vulkan, Metal, DX12 or GL; also contains the CUDA backend, to compare with where it is
    /// available
    Wgpu,
}

impl Device {
    fn name(self) -> &'static str {
        match self {
            Device::Cuda => "cuda",
            Device::Wgpu => "wgpu",
        }
    }

    /// Returns the folder's name in cargo's target folder.
    pub fn folder(self) -> &'static str {
        match self {
            Device::Cuda => "bundle",
            Device::Wgpu => "bundle-wgpu",
        }
    }

    /// Returns the script, in `benches/gpu`, that runs the contents of the bundle.
    fn script(self) -> &'static str {
        match self {
            Device::Cuda => "run.sh",
            Device::Wgpu => "run-wgpu.sh",
        }
    }

    /// Returns the features of the package `ternion`.
    fn features(self) -> &'static str {
        match self {
            Device::Cuda => "ternion/cuda",
            Device::Wgpu => "ternion/cuda,ternion/wgpu",
        }
    }

    /// Returns the features of the package `apps`.
    fn app_features(self) -> &'static str {
        match self {
            Device::Cuda => "apps/cuda",
            Device::Wgpu => "apps/cuda,apps/wgpu",
        }
    }

    /// Returns package and name of the tests that use a GPU.
    fn tests(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Device::Cuda => &[("ternion", "ops"), ("ternion", "cuda")],
            // All of the backend's own tests in one program; and those of layers, whose results
            // must equal PyTorch's on both kinds of device.
            Device::Wgpu => &[("ternion", "ops"), ("ternion-wgpu", "adapter"), ("ternion", "transformers")],
        }
    }
}

/// The arguments of a bundle.
pub struct BundleOptions {
    /// The backend that it is for.
    pub device: Device,
    /// The folder.
    pub out: PathBuf,
    /// Whether packed compiled kernels are included.
    pub cache: bool,
    /// The architecture for which they are compiled.
    pub architecture: String,
}

/// A program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    /// Its path in the bundle: `tests/ops`.
    destination: String,
    path: PathBuf,
}

pub fn run(root: &Path, options: &BundleOptions) -> Result<(), String> {
    check_replaceable(&options.out)?;
    let programs = build(root, options.device)?;
    let parent = options.out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let unfinished = parent.join(format!(".bundle-{}", std::process::id()));
    let built = fill(root, &unfinished, &programs, options).and_then(|()| replace(&unfinished, &options.out));
    if built.is_err() {
        // The original error is returned. It names the folder, which may remain if it cannot be
        // removed.
        let _ = fs::remove_dir_all(&unfinished);
    }
    built?;
    println!("{}", options.out.display());
    Ok(())
}

/// Writes everything to `folder`; fails if it would not run, or would be too large.
fn fill(root: &Path, folder: &Path, programs: &[Program], options: &BundleOptions) -> Result<(), String> {
    for program in programs {
        check_glibc(&program.path)?;
        copy(&program.path, &folder.join(&program.destination))?;
    }
    for entry in entries(&root.join("benches/peers"))?.into_iter().filter(|path| path.is_file()) {
        copy(&entry, &folder.join("peers").join(file_name(&entry)))?;
    }
    copy(&root.join("benches/gpu").join(options.device.script()), &folder.join("run.sh"))?;
    let manifest =
        serde_json::to_string_pretty(&manifest(root, options.device)?).map_err(|error| error.to_string())?;
    fs::write(folder.join(MANIFEST), manifest + "\n").map_err(|error| io_error(folder, &error))?;
    pack_programs(folder)?;
    check_size(folder)?;
    if options.cache {
        pack_kernels(folder, &options.architecture)?;
    }
    Ok(())
}

/// Builds the programs and returns their paths.
fn build(root: &Path, device: Device) -> Result<Vec<Program>, String> {
    let mut measured = vec!["-p", "ternion-bench", "--bin", "ternion-bench", "--no-default-features"];
    if device == Device::Wgpu {
        measured.extend(["--features", "ternion-bench/wgpu"]);
    }
    let mut programs = compile(root, "bundled", device, &measured)?;
    // These programs have the CPU backend, which the benchmark does not use.
    programs.extend(compile(
        root,
        "bundled",
        device,
        &["-p", "apps", "--features", device.app_features(), "--bin", APPS],
    )?);
    let tests: Vec<&str> =
        device.tests().iter().flat_map(|&(package, test)| ["-p", package, "--test", test]).collect();
    programs.extend(compile(root, "bundled-tests", device, &tests)?);
    let expected = device.tests().iter().map(|(_, test)| format!("tests/{test}"));
    for destination in expected.chain([APPS.to_string(), "ternion-bench".into()]) {
        if !programs.iter().any(|program| program.destination == destination) {
            return Err(format!("cargo built no {destination}"));
        }
    }
    Ok(programs)
}

/// Builds what `arguments` name.
fn compile(root: &Path, profile: &str, device: Device, arguments: &[&str]) -> Result<Vec<Program>, String> {
    let versions = output(Command::new("rustc").arg("-vV"), "rustc")?;
    let host =
        versions.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc reports no host")?;
    let mut cargo = crate::cargo::cargo();
    cargo.args(["build", "--profile", profile, "--locked", "--message-format=json-render-diagnostics"]);
    // With an explicit target, the flags do not apply to programs that run during the build.
    cargo.args(["--target", host, "-p", "ternion", "--features", device.features()]).args(arguments);
    cargo.env("RUSTFLAGS", SMALLER).current_dir(root).stderr(Stdio::inherit());
    programs(&output(&mut cargo, "cargo build")?)
}

/// Returns the programs in cargo's messages, one JSON object per line.
fn programs(messages: &str) -> Result<Vec<Program>, String> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).map_err(|error| format!("cargo: {error}: {line}"))?;
        let (Some(path), Some(name)) = (message["executable"].as_str(), message["target"]["name"].as_str())
        else {
            continue;
        };
        let destination = match message["target"]["kind"][0].as_str() {
            Some("test") => format!("tests/{name}"),
            Some("bin") => name.to_string(),
            _ => continue,
        };
        found.push(Program { destination, path: path.into() });
    }
    Ok(found)
}

/// Fails if the program requires a symbol of a newer C library than that of the GPU machine.
fn check_glibc(program: &Path) -> Result<(), String> {
    let symbols =
        output(Command::new("objdump").arg("-T").arg(program), "objdump (of the package binutils)")?;
    match newest_glibc(&symbols) {
        Some(newest) if newest <= GLIBC => Ok(()),
        Some((major, minor)) => {
            let (expected_major, expected_minor) = GLIBC;
            let asking = symbols.lines().find(|line| line.contains(&format!("GLIBC_{major}.{minor}")));
            Err(format!(
                "{}: needs GLIBC_{major}.{minor}, expected at most {expected_major}.{expected_minor}: {}",
                program.display(),
                asking.unwrap_or_default().trim()
            ))
        }
        None => Err(format!("{}: objdump names no symbol of glibc", program.display())),
    }
}

/// Returns the newest version of glibc that a symbol in objdump's table requires.
fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut numbers = rest[..end].split('.').map(|number| number.parse::<u32>().ok());
        Some((numbers.next()??, numbers.next()??))
    });
    versions.max()
}

/// Prints the size of each file; fails if the total is too large.
fn check_size(folder: &Path) -> Result<(), String> {
    let mut sizes = BTreeMap::new();
    collect_sizes(folder, folder, &mut sizes)?;
    for (name, bytes) in &sizes {
        println!("{:>9.2} MiB  {name}", mebibytes(*bytes));
    }
    let total: u64 = sizes.values().sum();
    println!("{:>9.2} MiB  in all", mebibytes(total));
    if total <= LIMIT_BYTES {
        return Ok(());
    }
    Err(format!("the bundle weighs {:.2} MiB, expected at most {}", mebibytes(total), LIMIT_BYTES >> 20))
}

fn collect_sizes(root: &Path, folder: &Path, sizes: &mut BTreeMap<String, u64>) -> Result<(), String> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect_sizes(root, &path, sizes)?;
        } else {
            let bytes = fs::metadata(&path).map_err(|error| io_error(&path, &error))?.len();
            let name = path.strip_prefix(root).unwrap_or(&path);
            sizes.insert(name.display().to_string(), bytes);
        }
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Compiles every kernel into a separate cache, packed as `kernel-cache.tar.xz`.
fn pack_kernels(folder: &Path, architecture: &str) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let cache = folder.join("kernel-cache");
    let compile = ["kernels", "--keep", "--arch", architecture];
    output(Command::new(program).args(compile).env("TERNION_CACHE", &cache), "cargo xtask kernels")?;
    let packed = folder.join("kernel-cache.tar.xz");
    pack(&packed, &cache, &["kernels"])?;
    fs::remove_dir_all(&cache).map_err(|error| io_error(&cache, &error))?;
    let bytes = fs::metadata(&packed).map_err(|error| io_error(&packed, &error))?.len();
    println!("{:>9.2} MiB  kernel-cache.tar.xz for {architecture}, not counted above", mebibytes(bytes));
    Ok(())
}

/// Packs all programs as `programs.tar.xz`, a third of their size: each contains the backends, and
/// wgpu's shader compiler.
fn pack_programs(folder: &Path) -> Result<(), String> {
    let programs = ["ternion-bench", "tests", APPS];
    pack(&folder.join("programs.tar.xz"), folder, &programs)?;
    for program in programs.map(|program| folder.join(program)) {
        let removed = if program.is_dir() { fs::remove_dir_all(&program) } else { fs::remove_file(&program) };
        removed.map_err(|error| io_error(&program, &error))?;
    }
    Ok(())
}

/// Packs `names` in `folder` into the file `packed`.
fn pack(packed: &Path, folder: &Path, names: &[&str]) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.env("XZ_OPT", "-6 -T0").arg("-cJf").arg(packed).arg("-C").arg(folder).args(names);
    output(&mut tar, "tar").map(drop)
}

/// Returns what the bundle was built from.
fn manifest(root: &Path, device: Device) -> Result<Value, String> {
    let output_of = |program: &str, arguments: &[&str]| {
        output(Command::new(program).args(arguments).current_dir(root), program)
            .map(|text| text.trim().to_string())
    };
    let commit = output_of("git", &["rev-parse", "--short=10", "HEAD"])?;
    let changed = !output_of("git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(json!({
        "commit": if changed { commit + " with changes" } else { commit },
        "device": device.name(),
        "built": output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
        "rustc": output_of("rustc", &["--version"])?,
    }))
}

/// Fails if `folder` contains anything but an earlier bundle, because it will be replaced.
fn check_replaceable(folder: &Path) -> Result<(), String> {
    match folder.exists() && !folder.join(MANIFEST).exists() && !entries(folder)?.is_empty() {
        true => Err(format!(
            "{}: holds something other than a bundle (it has no {MANIFEST}) and is not replaced",
            folder.display()
        )),
        false => Ok(()),
    }
}

/// Replaces `old` by `built`. A reader finds one of them complete, or for a moment none.
fn replace(built: &Path, old: &Path) -> Result<(), String> {
    if old.exists() {
        fs::remove_dir_all(old).map_err(|error| io_error(old, &error))?;
    }
    fs::rename(built, old).map_err(|error| io_error(old, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
    }
    fs::copy(from, to).map(drop).map_err(|error| io_error(from, &error))
}

/// Returns the contents of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|error| io_error(folder, &error))?;
    let mut paths = read
        .map(|entry| entry.map(|entry| entry.path()).map_err(|error| io_error(folder, &error)))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().unwrap_or(path.as_os_str())
}

fn io_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Returns the output of a program; an error with the output if the program fails.
pub fn output(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("{name}: {}\n{}", output.status, if errors.is_empty() { text } else { errors }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_messages_are_read() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ternion"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"ops"},"executable":"/t/bundled/deps/ops-1"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"all_apps"},"executable":"/t/bundled/all_apps"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"ternion-bench"},"executable":"/t/bundled/ternion-bench"}
{"reason":"build-finished","success":true}
"#;
        let found = programs(messages).expect("JSON");
        let destinations: Vec<&str> = found.iter().map(|program| program.destination.as_str()).collect();
        assert_eq!(destinations, ["tests/ops", "all_apps", "ternion-bench"]);
        assert_eq!(found[0].path, Path::new("/t/bundled/deps/ops-1"));
        assert!(programs("{\"reason\":").is_err());
    }

    #[test]
    fn every_program_is_packed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = root.join("apps/src/bin");
        let all = fs::read_to_string(folder.join(format!("{APPS}.rs"))).expect("reads");
        let scripts = [Device::Cuda, Device::Wgpu]
            .map(|device| root.join("benches/gpu").join(device.script()))
            .map(|path| fs::read_to_string(path).expect("reads"));
        let names: Vec<String> = entries(&folder)
            .expect("reads")
            .iter()
            .map(|path| file_name(&path.with_extension("")).to_string_lossy().into())
            .filter(|name| name != APPS)
            .collect();
        assert!(names.iter().any(|name| name == "mnist"), "{names:?}");
        for name in &names {
            assert!(all.contains(&format!("\"{name}\" => {name}::main()")), "{name} is not in {APPS}.rs");
        }
        let listed = format!("a program of apps/: {}", names.join(", "));
        assert!(scripts.iter().all(|script| script.contains(&listed)), "run.sh lists {listed}");
    }

    #[test]
    fn every_adapter_test_is_in_the_bundle() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/backend-wgpu/tests");
        let all = fs::read_to_string(tests.join("support/adapter.rs")).expect("reads");
        let sources = entries(&tests).expect("reads").into_iter().filter(|path| path.is_file());
        let names: Vec<String> = sources
            .map(|path| path.with_extension(""))
            .map(|path| file_name(&path).to_string_lossy().into())
            .collect();
        assert!(names.iter().any(|name| name == "limits"), "{names:?}");
        // `table` is run by the root's program, on all devices.
        for name in names.iter().filter(|name| *name != "table") {
            assert!(all.contains(&format!("mod {name};")), "{name} is not in adapter.rs");
        }
    }

    #[test]
    fn the_newest_glibc_is_found() {
        let symbols = "0000 DF *UND* 0000 (GLIBC_2.2.5) memcpy\n0000 DF *UND* 0000 (GLIBC_2.34) dlsym\n\
                       0000 w D *UND* 0000 (GLIBC_2.9) gnu_get\n0000 DF *UND* (GLIBC_PRIVATE) x";
        assert_eq!(newest_glibc(symbols), Some((2, 34)), "34 is newer than 9");
        assert_eq!(newest_glibc("no dynamic symbols"), None);
    }

    #[test]
    fn only_bundles_are_replaced() {
        let folder = std::env::temp_dir().join(format!("ternion-bundle-{}", std::process::id()));
        assert_eq!(check_replaceable(&folder), Ok(()), "nothing exists there");
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        assert_eq!(check_replaceable(&folder), Ok(()), "empty");
        fs::write(folder.join("notes"), "mine").expect("writes");
        assert!(check_replaceable(&folder).is_err_and(|text| text.contains("has no bundle.json")));
        fs::write(folder.join(MANIFEST), "{}").expect("writes");
        assert_eq!(check_replaceable(&folder), Ok(()));
        fs::remove_dir_all(&folder).expect("removes");
    }

    #[test]
    fn packing_and_unpacking_preserves_programs() {
        let folder = std::env::temp_dir().join(format!("ternion-packed-{}", std::process::id()));
        for (name, text) in [("ternion-bench", "bench"), ("tests/ops", "ops"), ("all_apps", "apps")] {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder"))
                .expect("the temporary folder can be written");
            fs::write(&path, text).expect("writes");
        }
        fs::write(folder.join("run.sh"), "script").expect("writes");
        pack_programs(&folder).expect("packs");
        let left: Vec<PathBuf> = entries(&folder).expect("reads");
        assert_eq!(left, ["programs.tar.xz", "run.sh"].map(|name| folder.join(name)));
        let mut tar = Command::new("tar");
        tar.arg("-xJf").arg(folder.join("programs.tar.xz")).arg("-C").arg(&folder);
        output(&mut tar, "tar").expect("unpacks");
        assert_eq!(fs::read_to_string(folder.join("tests/ops")).expect("reads"), "ops");
        fs::remove_dir_all(&folder).expect("removes");
    }

    #[test]
    fn a_bundle_that_is_too_large_is_rejected() {
        let folder = std::env::temp_dir().join(format!("ternion-weight-{}", std::process::id()));
        fs::create_dir_all(folder.join("tests")).expect("the temporary folder can be written");
        fs::write(folder.join("tests/ops"), "small").expect("writes");
        assert_eq!(check_size(&folder), Ok(()));
        let large = fs::File::create(folder.join("tests/large")).expect("writes");
        large.set_len(LIMIT_BYTES).expect("sparse");
        assert_eq!(check_size(&folder), Err("the bundle weighs 20.00 MiB, expected at most 20".into()));
        fs::remove_dir_all(&folder).expect("removes");
    }
}
