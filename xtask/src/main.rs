//! Developer commands: `cargo xtask bundle`, `coverage`, `imports`, `kernels`, `lengths`, `mutations`,
//! `profile`, `shader`.

mod bundle;
mod cargo;
mod coverage;
mod imports;
mod kernels;
mod known;
mod lengths;
mod mutations;
mod profile;
mod shader;
mod waits;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Developer commands of Ternion.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds what a GPU machine without Rust needs, into one folder: tests, programs, the benchmark and its peers.
    Bundle {
        /// The backend that it is for
        #[arg(long, value_enum, default_value_t = bundle::Device::Cuda)]
        device: bundle::Device,
        /// The folder; a bundle that is there is replaced [default: bundle, or bundle-wgpu, in cargo's target folder]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Also compiles every kernel, packed as kernel-cache.tar.xz.
        #[arg(long)]
        cache: bool,
        /// The architecture for which --cache compiles.
        #[arg(long, default_value = "sm_90a")]
        arch: String,
    },
    /// Runs every op on the processor and writes docs/coverage.md, with what was found on other devices.
    Coverage {
        /// What the op table's program left on another device's machine: see TERNION_COVERAGE_OUT. Without it, what is known of other devices stays.
        #[arg(long, value_name = "FILE")]
        results: Vec<PathBuf>,
        /// Write the page even where an op lost support.
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Prints who imports whom, draws docs/architecture/crates.svg and writes the table in ARCHITECTURE.md.
    Imports {
        /// Compares both with what is committed instead, and fails where they differ or where the files of
        /// a backend form too large a cycle.
        #[arg(long)]
        check: bool,
    },
    /// Compiles every CUDA kernel for each architecture, without a GPU, and prints what each needs.
    Kernels {
        /// Only variants whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Architectures, in place of all three.
        #[arg(long, value_delimiter = ',', default_value = kernels::ARCHITECTURES)]
        arch: Vec<String>,
        /// Puts the machine code into the kernel cache ($TERNION_CACHE), and fails where it cannot be stored there.
        #[arg(long)]
        keep: bool,
        /// Leaves out files whose kernels were compiled as they are now, as kernels/compiled.tsv says, but for a sixteenth of them.
        #[arg(long, conflicts_with_all = ["only", "keep"])]
        known: bool,
        /// Writes kernels/compiled.tsv when every kernel compiles cleanly. With --known what the list knows stays known: minutes in place of half an hour.
        #[arg(long, conflicts_with = "only")]
        record: bool,
        /// Kernels as TERNION_CUDA_DELAYS=1 compiles them: threads wait for random times where they wait for each other.
        #[arg(long, conflicts_with_all = ["record", "known"])]
        delays: bool,
        /// Only every n-th unit: `1/4` and so on. (A process compiles one unit after another, so this program runs itself once for each processor.)
        #[arg(long)]
        share: Option<String>,
    },
    /// Prints the WGSL that the wgpu backend links for an op of the op table, without an adapter.
    Shader {
        /// The op, such as softmax.
        name: String,
        /// The dtype, such as f32.
        dtype: String,
    },
    /// Runs one case of ternion-bench under Nsight Compute and keeps the key figures as text.
    Profile {
        /// The case's whole name, such as elementwise/add/f32.
        case: String,
        /// The folder for the text [default: docs/profiles]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Plants faults in a copy of the CPU backend's source and expects the op table to notice each.
    Mutations {
        /// Only those whose file or text contains this.
        #[arg(long)]
        only: Option<String>,
        /// Only check that each still fits the source.
        #[arg(long)]
        check: bool,
    },
    /// Checks that no function and no file is longer than it may be.
    Lengths,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bundle { device, out, cache, arch } => {
            let out = out.unwrap_or_else(|| target().join(device.folder()));
            bundle::run(&root(), &bundle::Wanted { device, out, cache, architecture: arch })
        }
        Command::Coverage { results, allow_shrink } => coverage::write(&root(), &results, allow_shrink),
        Command::Imports { check } => {
            imports::run(&root(), if check { imports::Mode::Check } else { imports::Mode::Write })
        }
        Command::Lengths => lengths::run(&root()),
        Command::Kernels { only, arch, keep, known, record, delays, share } => {
            let wanted = kernels::Wanted { only, architectures: arch, keep, known, record, delays, share };
            kernels::run(&root(), &wanted)
        }
        Command::Shader { name, dtype } => shader::run(&name, &dtype),
        Command::Profile { case, out } => profile::run(&root(), &case, out.as_deref()),
        Command::Mutations { only, check } => mutations::run(&root(), only.as_deref(), check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The folder that cargo builds into.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
