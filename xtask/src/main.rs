//! Developer commands: `cargo xtask bundle`, `coverage`, `imports`, `kernels`, `lengths`,
//! `mutations`, `plots`, `profile`, `shader`.

mod bundle;
mod cargo;
mod coverage;
mod imports;
mod kernels;
mod known;
mod lengths;
mod mutations;
mod plots;
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
    /// Builds a folder with everything that a GPU machine without Rust needs: tests, programs, the
    /// benchmark and the programs that it is compared with.
    Bundle {
        /// The backend that it is for
        #[arg(long, value_enum, default_value_t = bundle::Device::Cuda)]
        device: bundle::Device,
        /// The folder; an existing bundle is replaced [default: bundle, or bundle-wgpu, in cargo's
        /// target folder]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Also includes every compiled kernel, packed as kernel-cache.tar.xz.
        #[arg(long)]
        cache: bool,
        /// The architecture for which --cache compiles.
        #[arg(long, default_value = "sm_90a")]
        arch: String,
    },
    /// Runs every op on the CPU and writes docs/coverage.md, together with the results of other
    /// devices.
    Coverage {
        /// The file that the op table's program wrote on another device's machine: see
        /// TERNION_COVERAGE_OUT. Without it, the earlier results of other devices are kept.
        #[arg(long, value_name = "FILE")]
        results: Vec<PathBuf>,
        /// Writes the page even if an op lost support.
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Prints the imports between files and crates, draws docs/architecture/crates.svg and writes
    /// the table in ARCHITECTURE.md.
    Imports {
        /// Compares both with the committed files instead, and fails if they differ or if the files
        /// of a backend form too large a cycle.
        #[arg(long)]
        check: bool,
    },
    /// Compiles every CUDA kernel for each architecture, without a GPU, and prints the resources of
    /// each.
    Kernels {
        /// Only variants whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Architectures, instead of all three.
        #[arg(long, value_delimiter = ',', default_value = kernels::ARCHITECTURES)]
        arch: Vec<String>,
        /// Writes the machine code to the kernel cache ($TERNION_CACHE), and fails if it cannot be
        /// stored there.
        #[arg(long)]
        keep: bool,
        /// Skips files whose kernels were compiled in their current version, according to
        /// kernels/compiled.tsv, except for a sixteenth of them.
        #[arg(long, conflicts_with_all = ["only", "keep"])]
        known: bool,
        /// Writes kernels/compiled.tsv if every kernel compiles without an error. With --known the
        /// entries of the list are kept: this takes minutes instead of half an hour.
        #[arg(long, conflicts_with = "only")]
        record: bool,
        /// Compiles kernels as with TERNION_CUDA_DELAYS=1: threads pause for random times where
        /// they wait for each other.
        #[arg(long, conflicts_with_all = ["record", "known"])]
        delays: bool,
        /// Only every n-th unit: `1/4` and so on. (A process compiles one unit after another, so
        /// this program starts itself once for each CPU.)
        #[arg(long)]
        shard: Option<String>,
    },
    /// Prints the WGSL that the wgpu backend links for an op of the op table, without an adapter.
    Shader {
        /// The op, such as softmax.
        name: String,
        /// The dtype, such as f32.
        dtype: String,
    },
    /// Runs one case of ternion-bench under Nsight Compute and stores the key metrics as text.
    Profile {
        /// The case's full name, such as elementwise/add/f32.
        case: String,
        /// The folder for the text [default: docs/profiles]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Plants faults in a copy of the CPU backend's source and checks that the op table detects
    /// each.
    Mutations {
        /// Only faults whose file or text contains this.
        #[arg(long)]
        only: Option<String>,
        /// Only checks that each can still be applied to the source.
        #[arg(long)]
        check: bool,
    },
    /// Draws the figures of docs/results.md from the tables in docs/benchmarks.md. Needs Python.
    Plots {
        /// Compares them with the committed files instead, and fails if they differ.
        #[arg(long)]
        check: bool,
    },
    /// Checks that no function and no file is longer than allowed.
    Lengths,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bundle { device, out, cache, arch } => {
            let out = out.unwrap_or_else(|| target().join(device.folder()));
            bundle::run(&root(), &bundle::BundleOptions { device, out, cache, architecture: arch })
        }
        Command::Coverage { results, allow_shrink } => coverage::write(&root(), &results, allow_shrink),
        Command::Imports { check } => {
            imports::run(&root(), if check { imports::Mode::Check } else { imports::Mode::Write })
        }
        Command::Lengths => lengths::run(&root()),
        Command::Kernels { only, arch, keep, known, record, delays, shard } => {
            let options =
                kernels::KernelOptions { only, architectures: arch, keep, known, record, delays, shard };
            kernels::run(&root(), &options)
        }
        Command::Shader { name, dtype } => shader::run(&name, &dtype),
        Command::Plots { check } => {
            plots::run(&root(), if check { plots::Mode::Check } else { plots::Mode::Write })
        }
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

/// Returns the root of the repository.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns the folder that cargo builds into.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
