//! Times Ternion's CUDA and wgpu backends, with the cases, the method and the output lines of the
//! PyTorch script in `benches/peers`.
//!
//! Prints one JSON object per line: `{"case", "impl", "ms", "value", "unit"}`. Kernel cases: events
//! (on wgpu: timestamps) around one call; a 256 MB buffer is rewritten before each, so that the L2
//! cache contains none of its inputs; 10 warm-ups, median of the calls that fit into `--rep`
//! milliseconds (at least 20), random inputs. Train cases: wall clock over `--steps` steps between
//! two synchronizations, after 5 warm-ups; median of 5 rounds. With `--serve` the program measures
//! what its input requests, case by case: see [`mod@serve`].

mod attend;
mod attention;
mod attention_ladder;
mod bandwidth;
mod clock;
mod composed;
mod conv;
mod curves;
mod device;
mod f32_products;
mod forward_tiles;
mod gemm;
mod host;
mod ladder;
mod ncu;
mod order;
mod profile;
mod provenance;
mod serve;
mod start;
mod tiles;
mod timeline;
mod train;

use clap::{Parser, Subcommand};
use clock::{Clock, ClockConfig, Measure, Pace, emit_error, ended_by, print_lines};
use device::Kind;
use serve::Served;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use ternion::Result;

/// Times Ternion's CUDA backend or its wgpu backend.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The device: cuda, cuda:INDEX, wgpu, wgpu:INDEX or wgpu:NAME
    #[arg(long, default_value = "cuda", global = true, overrides_with = "device")]
    device: String,
    /// Only cases whose names begin with one of these
    #[arg(long, num_args = 1..)]
    only: Vec<String>,
    /// Only the case with this name
    #[arg(long, conflicts_with = "only")]
    case: Option<String>,
    /// Milliseconds to measure a case for
    #[arg(long, default_value_t = 60.0, allow_negative_numbers = true, value_parser = clock::positive_milliseconds)]
    rep: f64,
    /// Optimizer steps of a round of a train case
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Measures one call of each case, the only one that a profiler which starts disabled records
    #[arg(long)]
    once: bool,
    /// Prints the names of the cases, in the order in which they are measured
    #[arg(long)]
    list: bool,
    /// Measures a case whenever a line of the input is its name, until the input ends
    #[arg(long, conflicts_with_all = ["list", "once"])]
    serve: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Prints a line as soon as something is available, to measure the time from process start
    Start {
        /// What to wait for
        what: start::What,
    },
    /// Runs a case under Nsight Compute and stores the key metrics as text
    Profile(profile::Arguments),
    /// Traces a step of a training case, eager and recorded, kernel by kernel
    Timeline(timeline::Arguments),
    /// Measures products of random sizes with every tile, for the cost model that selects tiles
    Tiles(tiles::Arguments),
    /// Computes the attention that each line of the input requests, of tensors in files, to compare
    /// results
    Attend,
    /// Trains a GPT fused and unfused, eager and recorded, and prints the loss of every step
    Curves(curves::Arguments),
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Command::Start { .. } => "start",
            Command::Profile(_) => "profile",
            Command::Timeline(_) => "timeline",
            Command::Tiles(_) => "tiles",
            Command::Attend => "attend",
            Command::Curves(_) => "curves",
        }
    }
}

/// A case: its name, and the function that measures it and prints its lines.
pub struct Case {
    name: String,
    run: Box<dyn Fn(&Clock) -> Result<()>>,
}

impl Case {
    /// Creates a case with this name.
    pub fn new(name: impl Into<String>, run: impl Fn(&Clock, &str) -> Result<()> + 'static) -> Case {
        let name = name.into();
        let case_name = name.clone();
        Case { name, run: Box::new(move |clock| run(clock, &case_name)) }
    }
}

/// Returns every case, in the order in which they run.
fn cases() -> Vec<Case> {
    let mut cases = host::cases();
    cases.extend(gemm::cases());
    cases.extend(ladder::cases());
    cases.extend(attention::cases());
    cases.extend(attention_ladder::cases());
    cases.extend(forward_tiles::cases());
    cases.extend(f32_products::cases());
    cases.extend(order::cases());
    cases.extend(conv::cases());
    cases.extend(bandwidth::cases());
    cases.extend(train::cases());
    cases
}

/// Returns the cases that the command line selects; an error if there are none.
fn wanted(arguments: &Arguments) -> std::result::Result<Vec<Case>, String> {
    let is_wanted = |case: &Case| match (&arguments.case, &arguments.only) {
        (Some(name), _) => case.name == *name,
        (None, only) => only.is_empty() || only.iter().any(|only| case.name.starts_with(only)),
    };
    let cases: Vec<Case> = cases().into_iter().filter(is_wanted).collect();
    match (&arguments.case, cases.is_empty()) {
        (_, false) => Ok(cases),
        (Some(name), true) => Err(format!("no case is called {name}; --list names all")),
        (None, true) => Err(format!("no case begins with {}", arguments.only.join(" or "))),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> std::result::Result<(), String> {
    let kind = Kind::of(&arguments.device)?;
    match &arguments.command {
        None => measure(kind, arguments),
        Some(command) if kind != Kind::Cuda || arguments.device != "cuda" => Err(format!(
            "{} supports only the first CUDA device; got --device {}",
            command.name(),
            arguments.device
        )),
        Some(Command::Start { what }) => start::run(*what),
        Some(Command::Profile(wanted)) => profile::run(wanted),
        Some(Command::Timeline(wanted)) => timeline::run(wanted),
        Some(Command::Tiles(arguments)) => tiles::run(arguments),
        Some(Command::Attend) => attend::run(),
        Some(Command::Curves(wanted)) => curves::run(wanted),
    }
}

/// Runs the cases. A case that fails prints a line with its error, and the others continue.
fn measure(kind: Kind, arguments: &Arguments) -> std::result::Result<(), String> {
    let cases = wanted(arguments)?;
    if arguments.list {
        print_lines(names(&cases).join("\n"));
        return Ok(());
    }
    let measure = if arguments.once { Measure::Once } else { Measure::Median };
    let Arguments { device: name, rep: milliseconds, steps, .. } = arguments;
    let config = ClockConfig {
        kind,
        name,
        measure,
        pace: Pace::CASE,
        milliseconds: *milliseconds,
        steps: *steps as usize,
    };
    let clock = Clock::new(config).map_err(|error| error.to_string())?;
    if let Some(about) = clock.timed.about() {
        print_lines(about);
    }
    let Served { measured, failed } = if arguments.serve {
        match serve(&clock, &cases) {
            Ok(served) => served,
            Err(error) => return ended_by("requests and answers", &error),
        }
    } else {
        let failed = cases.iter().filter(|case| !succeeds(&clock, case, (case.run)(&clock))).count();
        Served { measured: cases.len(), failed }
    };
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {measured} cases failed")) }
}

/// Runs the cases that the input names.
fn serve(clock: &Clock, cases: &[Case]) -> std::io::Result<Served> {
    // Afterward the requesting program may let another program use the device.
    let measure = |index: usize| {
        let case = &cases[index];
        succeeds(clock, case, (case.run)(clock).and(clock.rest()))
    };
    serve::serve(std::io::stdin().lock(), std::io::stdout(), &names(cases), measure)
}

fn names(cases: &[Case]) -> Vec<&str> {
    cases.iter().map(|case| case.name.as_str()).collect()
}

/// Returns whether a case was measured. Prints its error if not.
fn succeeds(clock: &Clock, case: &Case, result: Result<()>) -> bool {
    result.map_err(|error| emit_error(&case.name, clock.implementation(), &error)).is_ok()
}

/// Returns an error of a folder or file with its name.
fn file_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Returns a path for temporary files.
fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ternion-{}-{name}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Arguments {
        Arguments::try_parse_from(std::iter::once("ternion-bench").chain(line.iter().copied()))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns clap's error for a command line that it rejects.
    fn rejected(line: &[&str]) -> String {
        match Arguments::try_parse_from(std::iter::once("ternion-bench").chain(line.iter().copied())) {
            Ok(_) => panic!("{line:?} was taken"),
            Err(error) => error.to_string(),
        }
    }

    fn names(line: &[&str]) -> std::result::Result<Vec<String>, String> {
        Ok(wanted(&parsed(line))?.into_iter().map(|case| case.name).collect())
    }

    #[test]
    fn names_are_unique() {
        let all = names(&[]).expect("cases");
        let unique: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
        assert!(all.len() > 100, "{} cases: the list is not whole", all.len());
    }

    #[test]
    fn cases_are_picked_by_prefix_or_by_name() {
        let exact = names(&["--case", "elementwise/add/f32", "--once"]).expect("a case");
        assert_eq!(exact, ["elementwise/add/f32"]);
        let prefixed = names(&["--only", "elementwise/add", "copy/"]).expect("cases");
        let expected = ["add/f32", "add_relu/f32", "add/bf16", "add_relu/bf16"];
        let expected: Vec<String> = expected.iter().map(|name| format!("elementwise/{name}")).collect();
        assert_eq!(prefixed[0], "copy/d2d");
        assert_eq!(prefixed[1..], expected);
        let unknown = names(&["--case", "elementwise/add"]);
        assert_eq!(unknown, Err("no case is called elementwise/add; --list names all".into()));
        assert!(names(&["--only", "nothing/"]).is_err());
        let served = names(&["--serve", "--only", "elementwise/add", "copy/"]);
        assert_eq!(served, Ok(prefixed), "what is served is picked in the same way");
    }

    #[test]
    fn serving_neither_lists_nor_profiles() {
        for other in ["--list", "--once"] {
            assert!(Arguments::try_parse_from(["ternion-bench", "--serve", other]).is_err(), "{other}");
        }
    }

    #[test]
    fn nothing_is_measured_for_no_time() {
        for rep in ["--rep=-1", "--rep=0", "--rep=nan", "--rep=inf"] {
            for line in [vec![rep], vec!["tiles", rep]] {
                let message = rejected(&line);
                assert!(message.contains("expected milliseconds, a finite number above 0"), "{message}");
            }
        }
        assert!(rejected(&["--rep", "-1"]).contains("expected milliseconds"), "a value, not an option");
        assert!(rejected(&["--steps", "0"]).contains("0 is not in 1.."));
        let Arguments { rep, steps, .. } = parsed(&["--rep", "0.5", "--steps", "1"]);
        assert_eq!((rep, steps), (0.5, 1));
    }

    #[test]
    fn what_runs_on_cuda_alone_says_so() {
        let error_of = |line: &[&str]| run(&parsed(line)).expect_err("rejected");
        let expected = "start supports only the first CUDA device; got --device wgpu";
        assert_eq!(error_of(&["start", "result", "--device", "wgpu"]), expected);
        assert!(
            error_of(&["profile", "copy/d2d", "--device", "wgpu:1"]).starts_with("profile supports only")
        );
        assert!(
            error_of(&["--device", "cpu", "--list"])
                .contains("expected cuda, cuda:INDEX, wgpu or wgpu:ADAPTER")
        );
        assert_eq!(parsed(&[]).device, "cuda", "as before there was a choice");
        assert_eq!(names(&["--device", "wgpu"]), names(&[]), "all cases are for both");
    }

    #[test]
    fn subcommands_are_read() {
        assert!(matches!(
            parsed(&["start", "context"]).command,
            Some(Command::Start { what: start::What::Context })
        ));
        assert!(matches!(parsed(&["profile", "copy/d2d"]).command, Some(Command::Profile(_))));
        assert!(matches!(parsed(&["timeline", "train/x"]).command, Some(Command::Timeline(_))));
        assert!(matches!(parsed(&["tiles", "--kinds", "bf16", "tf32"]).command, Some(Command::Tiles(_))));
        let curves = ["curves", "--model", "gpt2_124m", "--batch", "4", "--steps", "10", "--seeds", "1", "2"];
        assert!(matches!(parsed(&curves).command, Some(Command::Curves(_))));
        let rejected = run(&parsed(&["curves", "--device", "wgpu"])).expect_err("rejected");
        assert_eq!(rejected, "curves supports only the first CUDA device; got --device wgpu");
        let message = run(&parsed(&["timeline", "copy/d2d"])).expect_err("rejected");
        assert!(
            message.starts_with("no training case is called copy/d2d, but train/mnist_mlp/f32/b64, "),
            "{message}"
        );
    }
}
