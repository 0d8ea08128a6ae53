//! Runs one case of this program under Nsight Compute and stores its key metrics as text.

use crate::device::backend;
use crate::{file_error, ncu, temporary};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use ternion_cuda::CudaBackend;

/// Where toolkits install Nsight Compute, apart from the search path.
const NCU_PATHS: [&str; 2] = ["/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu"];

/// The arguments of a profile.
#[derive(Args)]
pub struct Arguments {
    /// The case's full name, such as elementwise/add/f32
    case: String,
    /// The folder for the metrics, which are written to a file named after the case
    #[arg(long, default_value = "docs/profiles")]
    out: PathBuf,
    /// The bundle's file that names the commit from which it was built
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// The commit, if there is no such file
    #[arg(long)]
    commit: Option<String>,
    /// Nsight Compute's program
    #[arg(long)]
    ncu: Option<PathBuf>,
}

/// Profiles the case, prints the metrics and stores them.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if !crate::cases().iter().any(|case| case.name == arguments.case) {
        return Err(format!("no case is called {}; --list names all", arguments.case));
    }
    let device = device()?;
    let program = arguments.ncu.clone().unwrap_or_else(find_ncu);
    let version = version(&program)?;
    let kernels = ncu::kernels(&profile_case(&program, &arguments.case)?)?;
    if kernels.is_empty() {
        return Err(format!("{}: the profiler saw no kernel", arguments.case));
    }
    let commit = commit(arguments)?;
    let date = output(Command::new("date").args(["-u", "+%Y-%m-%d"]), "date")?;
    let head = format!("{}\n{device}, {version}, commit {commit}, {}", arguments.case, date.trim());
    let text = format!("{head}\n\n{}", ncu::report(&kernels));
    write_atomically(&arguments.out.join(arguments.case.replace('/', "-") + ".txt"), text.trim_end())?;
    crate::clock::print_lines(text.trim_end());
    Ok(())
}

/// Returns the device's name, or an error message if there is no device.
fn device() -> Result<String, String> {
    let device = ternion::cuda(0).map_err(|error| error.to_string())?;
    let backend = backend::<CudaBackend>(&device).map_err(|error| error.to_string())?;
    Ok(backend.description())
}

/// Returns Nsight Compute in the search path, otherwise where toolkits install it.
fn find_ncu() -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&paths).map(|folder| folder.join("ncu")).collect::<Vec<_>>();
    paths.extend(NCU_PATHS.map(PathBuf::from));
    paths.into_iter().find(|path| path.is_file()).unwrap_or_else(|| "ncu".into())
}

/// Returns the version, such as `Nsight Compute 2025.3.0.0`.
fn version(program: &Path) -> Result<String, String> {
    let stdout = output(Command::new(program).arg("--version"), "Nsight Compute")?;
    let number = stdout.lines().find_map(|line| line.strip_prefix("Version "));
    Ok(format!(
        "Nsight Compute {}",
        number.unwrap_or("of unknown version").split(' ').next().unwrap_or_default()
    ))
}

/// Returns the profiler's output for one call of the case.
fn profile_case(program: &Path, case: &str) -> Result<String, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let report = temporary("profile.ncu-rep");
    let mut measure = Command::new(program);
    // The device's clocks are not changed: the metrics agree with those of the benchmark, and other
    // users of the machine are not affected.
    measure.args(["--profile-from-start", "off", "--clock-control", "none", "--force-overwrite"]);
    measure.args(ncu::SECTIONS.iter().flat_map(|section| ["--section", section]));
    measure.arg("--export").arg(&report).arg(bench).args(["--case", case, "--once"]);
    let measured = output(&mut measure, "Nsight Compute");
    let mut import = Command::new(program);
    import.arg("--import").arg(&report).args(["--page", "raw", "--csv"]);
    let stdout = measured.and_then(|_| output(&mut import, "Nsight Compute"));
    // The file does not exist if the profiler wrote none.
    let _ = fs::remove_file(&report);
    stdout
}

/// Returns the commit that this program was built from, if it is known.
fn commit(arguments: &Arguments) -> Result<String, String> {
    match &arguments.manifest {
        Some(manifest) => crate::provenance::commit_of(manifest),
        None => Ok(arguments.commit.clone().unwrap_or_else(|| "unknown".into())),
    }
}

/// Writes a temporary file next to `path` and renames it to `path`, so that a reader finds the
/// whole new content or the previous one.
pub fn write_atomically(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| file_error(folder, &error))?;
    }
    let temporary_path = path.with_extension("tmp");
    fs::write(&temporary_path, format!("{text}\n")).map_err(|error| file_error(&temporary_path, &error))?;
    fs::rename(&temporary_path, path).map_err(|error| file_error(path, &error))?;
    eprintln!("{}", path.display());
    Ok(())
}

/// Returns the output of a program; an error with the output if the program fails.
fn output(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{name} ({}): {error}", command.get_program().to_string_lossy()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("{name}: {}\n{text}{errors}", output.status))
        }
    }
}
