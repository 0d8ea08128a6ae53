//! How a case is timed, and how its line is printed.

use crate::device::{self, Kind, Timed};
use std::fmt::Display;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use ternion::{DType, Device, Result, Tensor, no_grad};

/// The bytes that are written between two calls so that the cache contains nothing of the first
/// call: five times the L2 cache of an H100.
const FLUSHED_BYTES: usize = 256 << 20;

/// A first call that takes longer than this compiled a kernel, during which the device lowered its
/// clock.
const LONG_CALL_SECONDS: f64 = 0.1;
/// How long the device must work until its clock has risen again.
const CLOCK_SECONDS: f64 = 0.3;

/// A device at its power limit lowers its clock, by an amount that depends on how long a program
/// waits between calls. So every program rests after a call for this many times the call's
/// duration.
const RESTS: f64 = 2.0;
/// The minimum duration of a rest.
const MIN_REST_MILLISECONDS: f64 = 0.3;

/// How much of a case is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Many calls, of which the median is reported.
    Median,
    /// One call, the only one that a profiler which starts disabled records.
    Once,
}

/// How many calls a time is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// One call; more were not worth their time.
    One,
    /// The median of several calls.
    Several,
}

/// How many calls are timed, and what happens between them.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Calls before the first timed one.
    warm_ups: usize,
    /// The minimum number of timed calls, even if they take longer than the case should run.
    min_calls: usize,
    /// Whether the device rests after each call.
    rests: bool,
}

impl Pace {
    /// For a case whose time is reported.
    pub const CASE: Pace = Pace { warm_ups: 10, min_calls: 20, rests: true };
    /// For a pass of one of thousands of measurements that costs are fitted to; there are two
    /// passes (`tiles.rs`).
    pub const SURVEY: Pace = Pace { warm_ups: 1, min_calls: 4, rests: false };
}

/// What is timed, and for how long.
pub struct ClockConfig<'a> {
    pub kind: Kind,
    /// The device's name.
    pub name: &'a str,
    pub measure: Measure,
    pub pace: Pace,
    /// How long a case runs.
    pub milliseconds: f64,
    /// Steps in a round of a train case.
    pub steps: usize,
}

/// A device and its clock.
pub struct Clock {
    pub device: Device,
    pub kind: Kind,
    pub timed: Box<dyn Timed>,
    measure: Measure,
    pace: Pace,
    flushed: Tensor,
    milliseconds: f64,
    pub steps: usize,
}

impl Clock {
    /// Opens the device.
    pub fn new(config: ClockConfig<'_>) -> Result<Clock> {
        let ClockConfig { kind, name, measure, pace, milliseconds, steps } = config;
        let (device, timed) = device::open(kind, name)?;
        // A kernel clears it, as in PyTorch's script: work after a copy engine's work would begin
        // later.
        let flushed = Tensor::zeros([FLUSHED_BYTES / 4], DType::F32, &device)?;
        Ok(Clock { device, kind, timed, measure, pace, flushed, milliseconds, steps })
    }

    /// Returns normally distributed random numbers.
    pub fn randn(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::randn(shape, dtype, &self.device)
    }

    /// Runs `call` twice and returns the seconds of the second call, because the first one compiles
    /// the kernels. A profiler records only the second one.
    fn once(&self, call: &mut impl FnMut() -> Result<()>) -> Result<f64> {
        call()?;
        self.device.synchronize()?;
        self.timed.start_profiler()?;
        let start = Instant::now();
        call()?;
        self.device.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        self.timed.stop_profiler()?;
        Ok(seconds)
    }

    /// Waits for the device and frees unused memory, so that other programs can use it.
    pub fn rest(&self) -> Result<()> {
        self.device.synchronize()?;
        self.device.release_cached()
    }

    /// Returns the name of the backend in printed lines.
    pub fn implementation(&self) -> &'static str {
        self.kind.implementation()
    }

    /// Returns whether a profiler is to record only one call.
    pub fn is_once(&self) -> bool {
        self.measure == Measure::Once
    }

    /// Returns the median milliseconds of `call` with a cold cache.
    pub fn median(&self, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
        if self.measure == Measure::Once {
            return Ok(self.once(&mut call)? * 1e3);
        }
        self.warm_up(&mut call)?;
        let (mut times, mut total) = (Vec::new(), 0.0);
        while (total < self.milliseconds || times.len() < self.pace.min_calls) && times.len() < 400 {
            let time = self.time_cold(&mut call)?;
            if self.pace.rests {
                spin_for(rest_after(time));
            }
            times.push(time);
            total += time;
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// As `median`, but if the second call takes longer than `limit` milliseconds, returns the time
    /// of that call. Also returns how many calls the time is computed from.
    pub fn median_or_one(&self, limit: f64, mut call: impl FnMut() -> Result<()>) -> Result<(f64, Calls)> {
        if self.measure == Measure::Once {
            return Ok((self.once(&mut call)? * 1e3, Calls::One));
        }
        call()?;
        let time = self.time_cold(&mut call)?;
        if time > limit { Ok((time, Calls::One)) } else { Ok((self.median(call)?, Calls::Several)) }
    }

    /// Returns the milliseconds of the second call, with a cold cache.
    pub fn one(&self, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
        call()?;
        self.time_cold(&mut call)
    }

    /// Returns the milliseconds of one call with a cold cache.
    fn time_cold(&self, call: &mut impl FnMut() -> Result<()>) -> Result<f64> {
        no_grad(|| self.flushed.fill_(0.0))?;
        self.timed.begin()?;
        call()?;
        self.timed.end()?;
        self.timed.milliseconds()
    }

    fn warm_up(&self, call: &mut impl FnMut() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        call()?;
        self.device.synchronize()?;
        let was_long = start.elapsed().as_secs_f64() > LONG_CALL_SECONDS;
        let start = Instant::now();
        for _ in 1..self.pace.warm_ups {
            call()?;
        }
        self.device.synchronize()?;
        while was_long && start.elapsed().as_secs_f64() < CLOCK_SECONDS {
            call()?;
            self.device.synchronize()?;
        }
        Ok(())
    }

    /// Returns the median seconds of one `step`.
    pub fn seconds_of_step(&self, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
        if self.measure == Measure::Once {
            return self.once(&mut step);
        }
        for _ in 0..5 {
            step()?;
        }
        self.device.synchronize()?;
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..self.steps {
                step()?;
            }
            self.device.synchronize()?;
            rounds.push(start.elapsed().as_secs_f64() / self.steps as f64);
        }
        rounds.sort_by(f64::total_cmp);
        Ok(rounds[2])
    }

    /// Returns the median host microseconds per launch by the driver itself, if launches go to the
    /// driver immediately.
    pub fn microseconds_of_launch(&self, launches: usize) -> Result<Option<f64>> {
        let mut rounds = Vec::new();
        for _ in 0..21 {
            let Some(time) = self.timed.launch_floor(launches)? else { return Ok(None) };
            rounds.push(time.as_secs_f64() * 1e6 / launches as f64);
        }
        rounds.sort_by(f64::total_cmp);
        Ok(Some(rounds[10]))
    }

    /// Returns the median host microseconds per call, of `ops` queued calls.
    pub fn microseconds_of_op(&self, ops: usize, mut op: impl FnMut() -> Result<()>) -> Result<f64> {
        if self.measure == Measure::Once {
            return Ok(self.once(&mut op)? * 1e6);
        }
        let mut rounds = Vec::new();
        for _ in 0..21 {
            self.device.synchronize()?;
            let start = Instant::now();
            for _ in 0..ops {
                op()?;
            }
            rounds.push(start.elapsed().as_secs_f64() * 1e6 / ops as f64);
        }
        rounds.sort_by(f64::total_cmp);
        Ok(rounds[10])
    }

    /// Returns the median microseconds per call, of `ops` calls, until the device has completed all
    /// of them: the rate of a program that keeps calling.
    pub fn sustained_microseconds_of_op(
        &self,
        ops: usize,
        mut op: impl FnMut() -> Result<()>,
    ) -> Result<f64> {
        if self.measure == Measure::Once {
            return Ok(self.once(&mut op)? * 1e6);
        }
        let mut rounds = Vec::new();
        for _ in 0..5 {
            self.device.synchronize()?;
            let start = Instant::now();
            for _ in 0..ops {
                op()?;
            }
            self.device.synchronize()?;
            rounds.push(start.elapsed().as_secs_f64() * 1e6 / ops as f64);
        }
        rounds.sort_by(f64::total_cmp);
        Ok(rounds[2])
    }
}

/// Waits without sleeping: a thread that slept would queue the next call so late that the device
/// waits for it.
fn spin_for(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Returns how long a device rests after a call of this many milliseconds.
fn rest_after(milliseconds: f64) -> Duration {
    let rest = (RESTS * milliseconds).max(MIN_REST_MILLISECONDS);
    Duration::try_from_secs_f64(rest / 1e3).unwrap_or_default()
}

/// Parses the milliseconds of a measurement from the command line.
pub fn positive_milliseconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(milliseconds) if milliseconds > 0.0 && milliseconds.is_finite() => Ok(milliseconds),
        _ => Err("expected milliseconds, a finite number above 0".into()),
    }
}

/// Returns how the program ends if `what` could not be written. A closed pipe, as with `head`, is
/// not an error.
pub fn ended_by(what: &str, error: &io::Error) -> std::result::Result<(), String> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(format!("{what}: {error}")),
    }
}

/// Prints one or several lines, without the last newline. If stdout cannot be written to, the
/// program ends, because its measurements would be lost.
pub fn print_lines(lines: impl Display) {
    let Err(error) = writeln!(io::stdout().lock(), "{lines}") else { return };
    match ended_by("stdout", &error) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1)
        }
    }
}

/// Prints the line of a case that `kind` of implementation could not run.
pub fn emit_error(case: &str, kind: &str, error: &impl Display) {
    print_lines(serde_json::json!({"case": case, "impl": kind, "error": error.to_string()}));
}

/// Prints the line of a case.
pub fn emit(case: &str, kind: &str, milliseconds: f64, value: f64, unit: &str) {
    emit_with(case, kind, milliseconds, value, unit, &[]);
}

/// As `emit`, with additional fields.
pub fn emit_with(
    case: &str,
    kind: &str,
    milliseconds: f64,
    value: f64,
    unit: &str,
    more: &[(&str, serde_json::Value)],
) {
    let rounded = |value: f64, digits: i32| (value * 10f64.powi(digits)).round() / 10f64.powi(digits);
    let mut line = serde_json::json!({
        "case": case, "impl": kind, "ms": rounded(milliseconds, 5), "value": rounded(value, 3), "unit": unit
    });
    for (name, value) in more {
        line[name] = value.clone();
    }
    print_lines(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_rests_longer_than_a_call_took() {
        assert_eq!(rest_after(0.01), Duration::from_micros(300));
        assert_eq!(rest_after(1.5), Duration::from_millis(3));
        assert_eq!(rest_after(f64::NAN), Duration::from_micros(300));
        assert_eq!(rest_after(f64::INFINITY), Duration::ZERO);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        assert_eq!(ended_by("stdout", &io::ErrorKind::BrokenPipe.into()), Ok(()));
        let full = ended_by("stdout", &io::ErrorKind::StorageFull.into());
        assert_eq!(full, Err(format!("stdout: {}", io::ErrorKind::StorageFull)));
    }

    #[test]
    fn times_to_measure_for_are_positive() {
        assert_eq!(positive_milliseconds("2.5"), Ok(2.5));
        for text in ["0", "-0.0", "-1", "nan", "inf", "1e999", "", "x"] {
            assert!(positive_milliseconds(text).is_err(), "{text}");
        }
    }
}
