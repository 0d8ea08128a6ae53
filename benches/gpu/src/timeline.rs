//! A training step kernel by kernel: the device's activities over time, in an eager step and in a
//! replay of the recorded one.

mod groups;
mod table;

use crate::clock::{Clock, ClockConfig, Measure, Pace, print_lines};
use crate::device::{Kind, backend};
use crate::train::{TrainingCase, training_cases};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use table::{Mode, Row, rows};
use ternion_cuda::{CudaBackend, KernelTrace, LaunchRecord};

/// Steps before the traced one, after which kernels are compiled, the pool is filled, and clocks
/// are up.
const WARM_UPS: usize = 5;

/// The arguments of a timeline.
#[derive(Args)]
pub struct Arguments {
    /// A training case's full name, such as train/gpt2_124m/bf16
    case: String,
    /// The folder for the tables CASE.tsv and CASE.json
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

/// Traces the steps, stores every kernel and prints their groups.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let cases = training_cases();
    let Some(case) = cases.iter().find(|case| case.name == arguments.case) else {
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(format!("no training case is called {}, but {}", arguments.case, names.join(", ")));
    };
    let clock = clock().map_err(|error| error.to_string())?;
    let mut about = crate::provenance::of(&clock.device)?;
    let modes = trace_steps(&clock, case).map_err(|error| error.to_string())??;
    about["case"] = arguments.case.as_str().into();
    about["modes"] = modes.iter().map(Mode::json).collect();
    let name = arguments.case.replace('/', "-");
    crate::profile::write_atomically(
        &arguments.out.join(format!("{name}.tsv")),
        table::tsv(&modes).trim_end(),
    )?;
    crate::profile::write_atomically(&arguments.out.join(format!("{name}.json")), &format!("{about:#}"))?;
    for mode in &modes {
        print_lines(mode.report().trim_end());
    }
    Ok(())
}

fn clock() -> ternion::Result<Clock> {
    let config = ClockConfig {
        kind: Kind::Cuda,
        name: "cuda",
        measure: Measure::Median,
        pace: Pace::CASE,
        milliseconds: 0.0,
        steps: 20,
    };
    Clock::new(config)
}

/// Traces an eager step and a recorded one. The inner error is about the measurement, the outer one
/// comes from the framework.
fn trace_steps(clock: &Clock, case: &TrainingCase) -> ternion::Result<Result<Vec<Mode>, String>> {
    let eager = eager(clock, case)?;
    let recorded = recorded(clock, case)?;
    Ok(eager.and_then(|eager| Ok(vec![eager, recorded?])))
}

/// Replays of a recorded step that are traced. The last one is reported.
const REPLAYS: usize = 3;

fn eager(clock: &Clock, case: &TrainingCase) -> ternion::Result<Result<Mode, String>> {
    let mut step = case.step(&clock.device)?;
    let untraced = clock.seconds_of_step(&mut step)?;
    let trace = KernelTrace::begin()?;
    for _ in 0..WARM_UPS {
        step()?;
    }
    clock.device.synchronize()?;
    trace.take()?;
    let cuda = backend::<CudaBackend>(&clock.device)?;
    cuda.begin_launch_records();
    let start = Instant::now();
    step()?;
    clock.device.synchronize()?;
    let traced = start.elapsed().as_secs_f64();
    let rows = rows(trace.take()?, &cuda.take_launch_records());
    Ok(rows.map(|rows| mode("ternion/eager", rows, untraced, traced)))
}

fn recorded(clock: &Clock, case: &TrainingCase) -> ternion::Result<Result<Mode, String>> {
    let cuda = backend::<CudaBackend>(&clock.device)?;
    let trace = KernelTrace::begin()?;
    cuda.begin_launch_records();
    let mut step = clock.device.capture(case.step(&clock.device)?)?;
    let mut records: Vec<LaunchRecord> = cuda.take_launch_records();
    records.retain(|record| record.is_recorded);
    for _ in 0..WARM_UPS {
        step.replay()?;
    }
    clock.device.synchronize()?;
    trace.take()?;
    // The last of several consecutive replays: in a replay on an idle device, the second kernel
    // waits for the launch of the graph.
    let start = Instant::now();
    for _ in 0..REPLAYS {
        step.replay()?;
    }
    clock.device.synchronize()?;
    let traced = start.elapsed().as_secs_f64() / REPLAYS as f64;
    let mut activities = trace.take()?;
    let rows = rows(activities.split_off(activities.len() / REPLAYS * (REPLAYS - 1)), &records);
    drop(trace);
    let untraced = clock.seconds_of_step(|| step.replay().map(drop))?;
    Ok(rows.map(|rows| mode("ternion/graph", rows, untraced, traced)))
}

fn mode(name: &str, rows: Vec<Row>, untraced: f64, traced: f64) -> Mode {
    Mode { name: name.into(), rows, untraced_ms: untraced * 1e3, traced_ms: traced * 1e3 }
}
