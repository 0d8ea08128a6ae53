//! Times Ternion's CUDA backend: the cases, method and output lines of the PyTorch script beside it in `benches/peers`.
//!
//! Prints one JSON object a line: `{"case", "impl", "ms", "value", "unit"}`. Kernel cases: events around one call, a 256 MB buffer rewritten before
//! each so that the L2 cache holds none of its inputs, 10 warm-ups, median of the calls that fit in `--rep` milliseconds (20 at least), random inputs.
//! Train cases: wall clock over `--steps` steps between two synchronisations, after 5 warm-ups; median of 5 rounds.

mod attention;
mod bandwidth;
mod clock;
mod gemm;
mod host;
mod train;

use clap::Parser;
use clock::Clock;
use std::process::ExitCode;
use ternion::Result;

/// Times Ternion's CUDA backend.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Only cases whose names begin with one of these
    #[arg(long, num_args = 1..)]
    only: Vec<String>,
    /// Milliseconds to measure a case for
    #[arg(long, default_value_t = 60.0)]
    rep: f64,
    /// Optimiser steps of a round of a train case
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Prints the names of all cases
    #[arg(long)]
    list: bool,
}

/// A case: its name, and what measures and prints it.
pub struct Case {
    name: String,
    run: Box<dyn Fn(&Clock) -> Result<()>>,
}

impl Case {
    /// A case of this name.
    pub fn new(name: impl Into<String>, run: impl Fn(&Clock, &str) -> Result<()> + 'static) -> Case {
        let name = name.into();
        let told = name.clone();
        Case { name, run: Box::new(move |clock| run(clock, &told)) }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cases: Vec<Case> =
        [host::cases(), gemm::cases(), attention::cases(), bandwidth::cases(), train::cases()]
            .into_iter()
            .flatten()
            .filter(|case| {
                arguments.only.is_empty() || arguments.only.iter().any(|only| case.name.starts_with(only))
            })
            .collect();
    if arguments.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return ExitCode::SUCCESS;
    }
    if cases.is_empty() {
        eprintln!("error: no case begins with {}", arguments.only.join(" or "));
        return ExitCode::FAILURE;
    }
    let clock = match Clock::new(arguments.rep, arguments.steps) {
        Ok(clock) => clock,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = false;
    for case in &cases {
        if let Err(error) = (case.run)(&clock) {
            println!(
                "{}",
                serde_json::json!({"case": case.name, "impl": "ternion", "error": error.to_string()})
            );
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
