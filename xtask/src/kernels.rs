//! Every kernel compiled for every architecture: registers, static shared memory, spills. A spill or a warning fails, and so does a kernel of a
//! dependent launch that does not wait as it must. Dynamic shared memory is requested at launch, and not known here.

use crate::known::Known;
use crate::waits;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use ternion_cuda::{Architecture, Variant, nvrtc, options, variants, variants_beside_ops};

/// What the assembler says of a kernel.
#[derive(Debug, Default, Clone, PartialEq)]
struct Usage {
    kernel: String,
    registers: usize,
    /// Bytes of static shared memory.
    shared: usize,
    stack: usize,
    /// Bytes that are stored and loaded again.
    spilled: usize,
}

/// What [`Usage`] is printed as.
const COLUMNS: &str = "kernel registers/static shared bytes/spilled bytes";

impl std::fmt::Display for Usage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}/{}/{}", self.kernel, self.registers, self.shared, self.spilled)
    }
}

/// A variant on an architecture: its kernels, or what is wrong.
struct Row {
    text: String,
    faults: Vec<String>,
}

/// What is to be compiled.
pub struct Wanted {
    /// Only variants whose name contains this.
    pub only: Option<String>,
    pub architectures: Vec<String>,
    /// Whether the machine code goes into the kernel cache.
    pub keep: bool,
    /// Leaves out most of what the list of compiled files knows.
    pub known: bool,
    /// Writes that list.
    pub record: bool,
    /// Which share of how many: `1/4`.
    pub share: Option<String>,
}

pub fn run(root: &Path, wanted: &Wanted) -> Result<(), String> {
    if let Some(share) = &wanted.share {
        return run_share(root, wanted, share);
    }
    run_all(wanted)?;
    if wanted.record { Known::now(&wanted.architectures)?.write(root, &wanted.architectures) } else { Ok(()) }
}

/// As many processes as there are processors, each with its share: NVRTC takes one program at a time.
fn run_all(wanted: &Wanted) -> Result<(), String> {
    let (major, minor) = nvrtc::version().map_err(|error| error.to_string())?;
    println!("NVRTC {major}.{minor}: variant, architecture: {COLUMNS}");
    let processes = std::thread::available_parallelism().map_or(1, usize::from);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let start = |number: usize| {
        let mut command = Command::new(&program);
        command.args(["kernels", "--arch", &wanted.architectures.join(","), "--share"]);
        command.arg(format!("{number}/{processes}"));
        if let Some(only) = &wanted.only {
            command.args(["--only", only]);
        }
        if wanted.keep {
            command.arg("--keep");
        }
        if wanted.known {
            command.arg("--known");
        }
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{}: {error}", program.display()))
    };
    let started = (1..=processes).map(start).collect::<Result<Vec<_>, _>>()?;
    let (mut rows, mut failed) = (Vec::new(), false);
    // All are read at once: one that nobody reads would stop as soon as its pipe is full.
    let outputs = std::thread::scope(|scope| {
        let readers: Vec<_> =
            started.into_iter().map(|child| scope.spawn(|| child.wait_with_output())).collect();
        let read =
            |reader: std::thread::ScopedJoinHandle<'_, _>| reader.join().expect("a reader does not panic");
        readers.into_iter().map(read).collect::<std::io::Result<Vec<_>>>()
    });
    for output in outputs.map_err(|error| error.to_string())? {
        failed |= !output.status.success();
        rows.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_string));
    }
    rows.sort();
    rows.iter().for_each(|row| println!("{row}"));
    println!("{} variants", rows.len());
    match (failed, rows.is_empty()) {
        (true, _) => Err("kernels above do not compile cleanly".into()),
        (_, true) if wanted.only.is_some() => {
            Err(format!("no variant's name contains {:?}", wanted.only.as_deref().unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

fn run_share(root: &Path, wanted: &Wanted, share: &str) -> Result<(), String> {
    let wrong = || format!("share {share:?}, expected such as 1/4");
    let (number, of) = share.split_once('/').ok_or_else(wrong)?;
    let (number, of): (usize, usize) =
        (number.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
    if number == 0 || number > of {
        return Err(wrong());
    }
    let only = wanted.only.as_deref();
    let mut tasks = tasks(&wanted.architectures)?;
    tasks.retain(|(variant, _)| only.is_none_or(|only| variant.source().name.contains(only)));
    if wanted.known {
        tasks = Known::now(&wanted.architectures)?.to_compile(&Known::read(root)?, tasks);
    }
    let mut faults = Vec::new();
    for (variant, architecture) in tasks.iter().skip(number - 1).step_by(of) {
        let row = row(variant, architecture, wanted.keep);
        println!("{}", row.text);
        faults.extend(row.faults);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// A variant, and an architecture that it is for.
pub type Task = (Variant, String);

/// Every variant on each of these architectures that it is for.
///
/// # Errors
/// A name that is not one of an architecture.
pub fn tasks(architectures: &[String]) -> Result<Vec<Task>, String> {
    let parsed: Vec<Architecture> =
        architectures.iter().map(|name| name.parse()).collect::<Result<_, String>>()?;
    let on_each = |variant: Variant| {
        let own = parsed.iter().filter(move |&&architecture| variant.is_for(architecture));
        own.map(move |architecture| (variant, architecture.to_string()))
    };
    Ok(variants().into_iter().chain(variants_beside_ops()).flat_map(on_each).collect())
}

fn row(variant: &Variant, architecture: &str, keep: bool) -> Row {
    let source = variant.source();
    let mut options = options(architecture);
    options.push("--ptxas-options=-v".into());
    let name = format!("{} {architecture}", source.name);
    let compiled = match nvrtc::compile(&source.name, &source.program(), &options) {
        Ok(compiled) => compiled,
        Err(error) => {
            return Row { text: format!("{name}: does not compile"), faults: vec![error.to_string()] };
        }
    };
    if keep {
        ternion_cuda::keep(&source, architecture, &compiled.cubin);
    }
    let usages = usages(&compiled.log);
    let mut text = format!("{name}:");
    let warnings = warnings(&compiled.log).map(str::to_string);
    let early = early_accesses(variant, architecture, &compiled.cubin);
    let mut faults: Vec<String> = warnings.chain(early).map(|fault| format!("{name}: {fault}")).collect();
    for usage in &usages {
        let _ = write!(text, " {usage}");
        if usage.spilled > 0 {
            faults.push(format!("{name}: {} spills {} bytes", usage.kernel, usage.spilled));
        }
    }
    for kernel in source.kernels {
        if !usages.iter().any(|usage| usage.kernel == *kernel) {
            faults.push(format!("{name}: has no kernel {kernel}"));
        }
    }
    Row { text, faults }
}

/// What kernels of a dependent launch do before they have waited; nothing for architectures whose instructions [`waits`] does not read.
fn early_accesses(variant: &Variant, architecture: &str, image: &[u8]) -> Vec<String> {
    if !variant.is_dependent() || architecture != waits::ARCHITECTURE {
        return Vec::new();
    }
    let kernels = variant.source().kernels;
    let fault = |&kernel: &&str| waits::fault(image, kernel).map(|fault| format!("{kernel}: {fault}"));
    kernels.iter().filter_map(fault).collect()
}

/// What the compiler or the assembler finds odd.
fn warnings(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| line.contains("warning") || line.contains("C75"))
}

/// The kernels of a log of `--ptxas-options=-v`.
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
}
