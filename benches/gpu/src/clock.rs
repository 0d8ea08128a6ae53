//! How a case is timed, and how its line is printed.

use std::time::Instant;
use ternion::{DType, Device, Error, Result, Tensor, no_grad};
use ternion_cuda::{CudaBackend, Timer};

/// What is written between two calls so that the cache holds nothing of the first: five times the L2 of an H100.
const FLUSHED_BYTES: usize = 256 << 20;

/// Calls before the first that is timed.
const WARM_UPS: usize = 10;

/// How much of a case is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Many calls, of which the median is told.
    Median,
    /// One, which alone a profiler that starts switched off gets to see.
    Once,
}

/// A device and its clock.
pub struct Clock {
    pub device: Device,
    measure: Measure,
    timer: Timer,
    flushed: Tensor,
    milliseconds: f64,
    pub steps: usize,
}

impl Clock {
    /// Of the first CUDA device; cases run for so many milliseconds, or rounds of so many steps.
    pub fn new(measure: Measure, milliseconds: f64, steps: usize) -> Result<Clock> {
        let device = ternion::cuda(0)?;
        let backend = cuda(&device)?;
        // By a kernel, as PyTorch's script does it: what follows a copy engine's work waits longer to begin.
        let flushed = Tensor::zeros([FLUSHED_BYTES / 4], DType::F32, &device)?;
        let timer = backend.timer()?;
        Ok(Clock { measure, timer, flushed, milliseconds, steps, device: device.clone() })
    }

    /// The backend itself.
    pub fn cuda(&self) -> Result<&CudaBackend> {
        cuda(&self.device)
    }

    /// Random numbers of the normal distribution.
    pub fn randn(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::randn(shape, dtype, &self.device)
    }

    /// Seconds of one `call`, the second: the first compiles what it needs. A profiler sees nothing else.
    fn once(&self, call: &mut impl FnMut() -> Result<()>) -> Result<f64> {
        call()?;
        self.device.synchronize()?;
        let told = |error: cudarc::driver::DriverError| Error::Device {
            device: self.device.name().to_string(),
            detail: format!("the profiler: {error}"),
        };
        cudarc::driver::profiler_start().map_err(told)?;
        let start = Instant::now();
        call()?;
        self.device.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        cudarc::driver::profiler_stop().map_err(told)?;
        Ok(seconds)
    }

    /// Whether a profiler is to see one call and nothing else.
    pub fn is_once(&self) -> bool {
        self.measure == Measure::Once
    }

    /// Median milliseconds of `call` with a cold cache.
    pub fn median(&self, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
        if self.measure == Measure::Once {
            return Ok(self.once(&mut call)? * 1e3);
        }
        for _ in 0..WARM_UPS {
            call()?;
        }
        self.device.synchronize()?;
        let (mut times, mut total) = (Vec::new(), 0.0);
        while (total < self.milliseconds || times.len() < 20) && times.len() < 400 {
            no_grad(|| self.flushed.fill_(0.0))?;
            self.timer.begin()?;
            call()?;
            self.timer.end()?;
            let time = self.timer.milliseconds()?;
            times.push(time);
            total += time;
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// Median seconds of one `step`.
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

    /// Median host microseconds of one of `ops` queued calls.
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
}

/// The backend of `device`, unless something is wrapped around it.
pub fn cuda(device: &Device) -> Result<&CudaBackend> {
    device.downcast().ok_or_else(|| Error::Device {
        device: device.name().to_string(),
        detail: "is wrapped: benchmarks run on the device itself".into(),
    })
}

/// Prints the line of a case.
pub fn emit(case: &str, kind: &str, milliseconds: f64, value: f64, unit: &str) {
    let rounded = |value: f64, digits: i32| (value * 10f64.powi(digits)).round() / 10f64.powi(digits);
    println!(
        "{}",
        serde_json::json!({"case": case, "impl": kind, "ms": rounded(milliseconds, 5), "value": rounded(value, 3), "unit": unit})
    );
}
