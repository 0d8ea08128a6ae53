//! Compiles every kernel for every architecture and reports registers, static shared memory and
//! spills. A spill or a warning is an error, and so is a kernel of a dependent launch that does not
//! wait as required. Dynamic shared memory is requested at launch, and is not known here.

use crate::known::Known;
use crate::waits;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use ternion_cuda::{Architecture, Source, Variant, nvrtc, options, study_variants, variants};

/// The default architectures.
pub const ARCHITECTURES: &str = "sm_80,sm_90a,sm_100a";

/// From this version on NVRTC has its own cache if there is a driver. A result from that cache has
/// no log, and without a log registers and spills are unknown.
const NVRTC_CACHES_SINCE: (i32, i32) = (12, 9);

/// The prefix with which a process that compiles a shard of the variants prints the path of a file
/// in the kernel cache.
const KEPT_PREFIX: &str = "kept ";

/// The assembler's report of a kernel.
#[derive(Debug, Default, Clone, PartialEq)]
struct Usage {
    kernel: String,
    registers: usize,
    /// Bytes of static shared memory.
    shared: usize,
    stack: usize,
    /// Bytes that are spilled and loaded again.
    spilled: usize,
}

/// The format in which [`Usage`] is printed.
const COLUMNS: &str = "kernel registers/static shared bytes/spilled bytes";

impl std::fmt::Display for Usage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}/{}/{}", self.kernel, self.registers, self.shared, self.spilled)
    }
}

/// A variant on an architecture: its kernels, or its errors.
struct Row {
    text: String,
    faults: Vec<String>,
    /// The machine code, if it compiles.
    image: Option<Vec<u8>>,
}

/// What to compile.
pub struct KernelOptions {
    /// Only variants whose name contains this.
    pub only: Option<String>,
    pub architectures: Vec<String>,
    /// Whether the machine code is written to the kernel cache.
    pub keep: bool,
    /// Whether to skip most of the files that are in the list of compiled files.
    pub known: bool,
    /// Whether to write that list.
    pub record: bool,
    /// Whether to compile kernels whose threads pause for random times.
    pub delays: bool,
    /// Which shard of how many to compile: `1/4`.
    pub shard: Option<String>,
}

pub fn run(root: &Path, options: &KernelOptions) -> Result<(), String> {
    if let Some(shard) = &options.shard {
        return run_shard(root, options, shard);
    }
    run_all(options)?;
    if options.record {
        Known::now(&options.architectures)?.write(root, &options.architectures)
    } else {
        Ok(())
    }
}

fn run_all(options: &KernelOptions) -> Result<(), String> {
    selected(options)?;
    let (major, minor) = nvrtc::version().map_err(|error| error.to_string())?;
    println!("NVRTC {major}.{minor}: variant, architecture: {COLUMNS}");
    if options.keep {
        unread(&options.architectures).for_each(|note| eprintln!("note: {note}"));
    }
    let (lines, failed) = run_shards(options)?;
    let (kept, mut rows): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.starts_with(KEPT_PREFIX));
    rows.sort();
    rows.iter().for_each(|row| println!("{row}"));
    println!("{} variants", rows.len());
    summary(&kept).iter().for_each(|summary| println!("{summary}"));
    match (failed, options.keep) {
        (false, _) => Ok(()),
        (true, false) => Err("kernels above do not compile cleanly".into()),
        (true, true) => Err("kernels above do not compile cleanly or were not stored".into()),
    }
}

/// Returns the output lines of as many processes as there are CPUs, each with its shard, and
/// whether one of them failed.
fn run_shards(options: &KernelOptions) -> Result<(Vec<String>, bool), String> {
    let processes = std::thread::available_parallelism().map_or(1, usize::from);
    let start = |number: usize| start_shard(options, &format!("{number}/{processes}"));
    let started = (1..=processes).map(start).collect::<Result<Vec<_>, _>>()?;
    // All outputs are read at the same time: a process whose output is not read would stop when its
    // pipe is full.
    let outputs = std::thread::scope(|scope| {
        let readers: Vec<_> =
            started.into_iter().map(|child| scope.spawn(|| child.wait_with_output())).collect();
        let read =
            |reader: std::thread::ScopedJoinHandle<'_, _>| reader.join().expect("a reader does not panic");
        readers.into_iter().map(read).collect::<std::io::Result<Vec<_>>>()
    });
    let (mut lines, mut failed) = (Vec::new(), false);
    for output in outputs.map_err(|error| error.to_string())? {
        failed |= !output.status.success();
        lines.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_string));
    }
    Ok((lines, failed))
}

fn start_shard(options: &KernelOptions, shard: &str) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(&program);
    command.args(["kernels", "--arch", &options.architectures.join(","), "--shard", shard]);
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    if options.keep {
        command.arg("--keep");
    }
    if options.known {
        command.arg("--known");
    }
    if options.delays {
        command.arg("--delays");
    }
    command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{}: {error}", program.display()))
}

/// Returns how many files are in the kernel cache, and in which folder, given `lines` that name
/// each file.
fn summary(lines: &[String]) -> Option<String> {
    let files: BTreeSet<&Path> =
        lines.iter().filter_map(|line| line.strip_prefix(KEPT_PREFIX)).map(Path::new).collect();
    let folder = files.first()?.parent()?;
    Some(format!("stored in {}: {} files", folder.display(), files.len()))
}

/// Returns a message for each architecture that no device looks up in the kernel cache: a device of
/// compute capability 9.0 or later looks up the variant with architecture-specific instructions.
fn unread(architectures: &[String]) -> impl Iterator<Item = String> {
    let capability = |name: &String| name.strip_prefix("sm_")?.parse::<u32>().ok();
    let unread = architectures.iter().filter(move |name| capability(name).is_some_and(|number| number >= 90));
    unread.map(|name| {
        format!("no device reads what is kept for {name}: its devices look for {name}a, which --arch {name}a keeps")
    })
}

fn run_shard(root: &Path, options: &KernelOptions, shard: &str) -> Result<(), String> {
    let (number, of) = parse_shard(shard)?;
    let version = nvrtc::version().map_err(|error| error.to_string())?;
    let mut tasks = selected(options)?;
    if options.known {
        tasks = Known::now(&options.architectures)?.to_compile(&Known::read(root)?, tasks);
    }
    let mut faults = Vec::new();
    for (variant, architecture) in tasks.iter().skip(number - 1).step_by(of) {
        let source = if options.delays { variant.source_with_delays() } else { variant.source() };
        // Kernels with random delays are for tests of ordering, and their speed does not matter.
        let row = row(variant, &source, architecture, version, options.delays);
        println!("{}", row.text);
        faults.extend(row.faults);
        let Some(image) = row.image.filter(|_| options.keep) else { continue };
        match ternion_cuda::store_kernel(&source, architecture, &image) {
            Ok(file) => println!("{KEPT_PREFIX}{}", file.display()),
            Err(error) => {
                faults.push(format!("{} {architecture}: not stored: {error}", source.name));
                // The next file would fail, too.
                break;
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Parses the index of a shard, and the number of shards.
fn parse_shard(shard: &str) -> Result<(usize, usize), String> {
    let parsed =
        shard.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    parsed
        .filter(|&(number, of)| (1..=of).contains(&number))
        .ok_or_else(|| format!("shard {shard:?}, expected such as 1/4"))
}

/// A variant, and an architecture that it supports.
pub type Task = (Variant, String);

/// Returns every variant on each of these architectures that it supports.
///
/// # Errors
/// A name is not that of an architecture, or no kernel supports an architecture.
pub fn tasks(architectures: &[String]) -> Result<Vec<Task>, String> {
    let parsed: Vec<Architecture> =
        architectures.iter().map(|name| name.parse()).collect::<Result<_, String>>()?;
    let all: Vec<Variant> = variants().into_iter().chain(study_variants()).collect();
    let has_kernels = |&architecture: &Architecture| all.iter().any(|variant| variant.is_for(architecture));
    if let Some(none) = parsed.iter().find(|architecture| !has_kernels(architecture)) {
        let expected = ARCHITECTURES.replace(',', ", ");
        return Err(format!("no kernel is for {none}, expected {expected} or another from sm_80 on"));
    }
    let on_each = |variant: Variant| {
        let own = parsed.iter().filter(move |&&architecture| variant.is_for(architecture));
        own.map(move |architecture| (variant, architecture.to_string()))
    };
    Ok(all.into_iter().flat_map(on_each).collect())
}

/// Returns what is to be compiled.
///
/// # Errors
/// Those of [`tasks`], or no variant on these architectures has the name.
fn selected(options: &KernelOptions) -> Result<Vec<Task>, String> {
    let mut tasks = tasks(&options.architectures)?;
    let Some(only) = &options.only else { return Ok(tasks) };
    tasks.retain(|task| is_named(task, only));
    if tasks.is_empty() { Err(none_named(only, &options.architectures)) } else { Ok(tasks) }
}

fn is_named((variant, _): &Task, only: &str) -> bool {
    variant.source().name.contains(only)
}

/// Returns why these architectures have no variant of that name: there is none, or it is for
/// others.
fn none_named(only: &str, architectures: &[String]) -> String {
    let has_some =
        |name: &str| tasks(&[name.into()]).is_ok_and(|tasks| tasks.iter().any(|task| is_named(task, only)));
    let others: Vec<&str> = ARCHITECTURES.split(',').filter(|name| has_some(name)).collect();
    let others = match others[..] {
        [] => return format!("no variant's name contains {only:?}"),
        [one] => format!("only {one}"),
        _ => others.join(", "),
    };
    let asked = architectures.join(", ");
    format!("variants whose name contains {only:?} are for {others}: none of them is compiled for {asked}")
}

/// Returns the options of NVRTC: those of a program, which are also part of the kernel cache's key,
/// and those that make it report.
fn reporting_options(architecture: &str, version: (i32, i32)) -> Vec<String> {
    let mut all = options(architecture);
    all.push("--ptxas-options=-v".into());
    if version >= NVRTC_CACHES_SINCE {
        all.push("--no-cache".into());
    }
    all
}

fn row(variant: &Variant, source: &Source, architecture: &str, version: (i32, i32), may_spill: bool) -> Row {
    let name = format!("{} {architecture}", source.name);
    let options = reporting_options(architecture, version);
    let compiled = match nvrtc::compile(&source.name, &source.program(), &options) {
        Ok(compiled) => compiled,
        Err(error) => {
            let text = format!("{name}: does not compile");
            return Row { text, faults: vec![error.to_string()], image: None };
        }
    };
    let usages = usages(&compiled.log);
    let mut text = format!("{name}:");
    let warnings = warnings(&compiled.log).map(str::to_string);
    let early = early_accesses(variant, architecture, &compiled.cubin);
    let mut faults: Vec<String> = warnings.chain(early).map(|fault| format!("{name}: {fault}")).collect();
    for usage in &usages {
        let _ = write!(text, " {usage}");
        if usage.spilled > 0 && !may_spill {
            faults.push(format!("{name}: {} spills {} bytes", usage.kernel, usage.spilled));
        }
    }
    let missing = source.kernels.iter().filter(|&kernel| !usages.iter().any(|usage| usage.kernel == *kernel));
    faults.extend(missing.map(|kernel| format!("{name}: has no kernel {kernel}")));
    Row { text, faults, image: Some(compiled.cubin) }
}

/// Returns what kernels of a dependent launch do before they have waited; empty for architectures
/// whose instructions [`waits`] does not read.
fn early_accesses(variant: &Variant, architecture: &str, image: &[u8]) -> Vec<String> {
    if !variant.is_dependent() || architecture != waits::ARCHITECTURE {
        return Vec::new();
    }
    let kernels = variant.source().kernels;
    let fault = |&kernel: &&str| waits::fault(image, kernel).map(|fault| format!("{kernel}: {fault}"));
    kernels.iter().filter_map(fault).collect()
}

/// Returns the warnings of the compiler and the assembler.
fn warnings(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| line.contains("warning") || line.contains("C75"))
}

/// Returns the kernels in a log of `--ptxas-options=-v`.
fn usages(log: &str) -> Vec<Usage> {
    let mut found: Vec<Usage> = Vec::new();
    let number_before = |line: &str, what: &str| -> usize {
        let before = line.split(what).next().unwrap_or_default();
        before
            .rsplit(|c: char| !c.is_ascii_digit())
            .find(|text| !text.is_empty())
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            let kernel = rest.split('\'').next().unwrap_or_default().to_string();
            found.push(Usage { kernel, ..Usage::default() });
        } else if let Some(usage) = found.last_mut() {
            if line.contains("bytes stack frame") {
                usage.stack = number_before(line, " bytes stack frame");
                usage.spilled =
                    number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
            }
            if line.contains("Used ") {
                usage.registers = number_before(line, " registers");
                if line.contains(" bytes smem") {
                    usage.shared = number_before(line, " bytes smem");
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'rows' for 'sm_90a'\n\
                   ptxas info    : Function properties for rows\n\
                   ptxas         .     32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 32 bytes smem\n\
                   ptxas warning : (C7510) Potential Performance Loss: wgmma serialized";
        let usage = Usage { kernel: "rows".into(), registers: 40, shared: 32, stack: 32, spilled: 12 };
        assert_eq!(usage.to_string(), "rows 40/32/12");
        assert_eq!(usages(log), [usage]);
        assert_eq!(warnings(log).count(), 1);
    }

    #[test]
    fn a_kernel_that_spills_nothing_says_so() {
        let log = "ptxas info    : Compiling entry function 'iota' for 'sm_80'\n\
                   ptxas info    : Function properties for iota\n\
                   ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : Used 14 registers, used 0 barriers";
        let texts: Vec<String> = usages(log).iter().map(Usage::to_string).collect();
        assert_eq!(texts, ["iota 14/0/0"]);
    }

    fn kernel_options(architectures: &[&str], only: Option<&str>) -> KernelOptions {
        let architectures = architectures.iter().map(|name| name.to_string()).collect();
        let only = only.map(String::from);
        KernelOptions {
            only,
            architectures,
            keep: false,
            known: false,
            record: false,
            delays: false,
            shard: None,
        }
    }

    fn error_of(architectures: &[&str], only: Option<&str>) -> String {
        selected(&kernel_options(architectures, only)).expect_err("nothing to compile")
    }

    #[test]
    fn an_architecture_without_kernels_is_rejected() {
        let expected = "no kernel is for sm_12, expected sm_80, sm_90a, sm_100a or another from sm_80 on";
        assert_eq!(error_of(&["sm_80", "sm_12"], None), expected);
        assert!(error_of(&["sm_75"], Some("reduce")).contains("no kernel is for sm_75"));
        for name in ARCHITECTURES.split(',').chain(["sm_86", "sm_90"]) {
            assert!(selected(&kernel_options(&[name], None)).is_ok_and(|tasks| !tasks.is_empty()), "{name}");
        }
    }

    #[test]
    fn a_name_of_other_architectures_is_distinguished_from_an_unknown_one() {
        let expected = "variants whose name contains \"gemm/wgmma.cu\" are for only sm_90a: none of them is compiled for sm_80, sm_90";
        assert_eq!(error_of(&["sm_80", "sm_90"], Some("gemm/wgmma.cu")), expected);
        assert!(error_of(&["sm_80"], Some("probe/launch.cu")).contains("are for sm_90a, sm_100a: "));
        assert_eq!(error_of(&["sm_90a"], Some("no such")), "no variant's name contains \"no such\"");
        let both =
            selected(&kernel_options(&["sm_90", "sm_90a"], Some("gemm/wgmma.cu"))).expect("for one of them");
        assert!(both.iter().all(|(_, architecture)| architecture == "sm_90a"));
    }

    #[test]
    fn architectures_that_no_device_reads_are_reported() {
        let notes = |names: &[&str]| unread(&kernel_options(names, None).architectures).collect::<Vec<_>>();
        assert_eq!(notes(&["sm_80", "sm_89", "sm_90a", "sm_100a"]), [""; 0]);
        let expected =
            "no device reads what is kept for sm_90: its devices look for sm_90a, which --arch sm_90a keeps";
        assert_eq!(notes(&["sm_90", "sm_90a"]), [expected]);
        assert_eq!(notes(&["sm_100", "sm_120"]).len(), 2);
    }

    #[test]
    fn files_that_were_stored_are_counted_once() {
        let lines =
            ["kept /cache/kernels/ab.cubin", "kept /cache/kernels/cd.cubin", "kept /cache/kernels/ab.cubin"];
        assert_eq!(summary(&lines.map(String::from)).as_deref(), Some("stored in /cache/kernels: 2 files"));
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn nvrtc_s_own_cache_is_bypassed_if_it_exists() {
        let own = options("sm_90a");
        assert!(!own.iter().any(|option| option == "--no-cache"), "not in the key of the kernel cache");
        for (version, further) in [
            ((12, 8), &["--ptxas-options=-v"][..]),
            ((12, 9), &["--ptxas-options=-v", "--no-cache"]),
            ((13, 0), &["--ptxas-options=-v", "--no-cache"]),
        ] {
            let all = reporting_options("sm_90a", version);
            assert_eq!(all[..own.len()], own);
            assert_eq!(all[own.len()..], *further, "{version:?}");
        }
    }

    #[test]
    fn shards_are_parsed() {
        assert_eq!(parse_shard("4/4"), Ok((4, 4)));
        for shard in ["0/4", "5/4", "1", "a/4", "1/0"] {
            assert_eq!(parse_shard(shard), Err(format!("shard {shard:?}, expected such as 1/4")));
        }
    }
}
