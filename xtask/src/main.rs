//! Developer commands: `cargo xtask coverage`, `cargo xtask mutations`.

mod coverage;
mod kernels;
mod mutations;

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
    /// Runs every op on the processor and writes docs/coverage.md, with what was found on other devices.
    Coverage {
        /// What the op table's program left on another device's machine: see TERNION_COVERAGE_OUT. Without it, what is known of other devices stays.
        #[arg(long, value_name = "FILE")]
        results: Vec<PathBuf>,
        /// Write the page even where an op lost support.
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Compiles every CUDA kernel for each architecture, without a GPU, and prints what each needs.
    Kernels {
        /// Only units whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Architectures, in place of all three.
        #[arg(long, value_delimiter = ',', default_value = "sm_80,sm_90a,sm_100")]
        arch: Vec<String>,
        /// Puts the machine code into the kernel cache ($TERNION_CACHE).
        #[arg(long)]
        keep: bool,
        /// Only every n-th unit: `1/4` and so on. (The compiler takes one at a time in a process, so this program runs itself several times.)
        #[arg(long)]
        share: Option<String>,
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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Coverage { results, allow_shrink } => coverage::write(&root(), &results, allow_shrink),
        Command::Kernels { only, arch, keep, share } => {
            kernels::run(&kernels::Wanted { only, architectures: arch, keep, share })
        }
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
