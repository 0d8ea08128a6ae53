//! The device that is timed: the functions of a backend that a benchmark needs and that core's
//! `Backend` trait lacks.

use std::time::Duration;
use ternion::backend::{Backend, Buffer};
use ternion::{Device, Error, Result};

/// Which of Ternion's backends is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cuda,
    Wgpu,
}

impl Kind {
    /// Returns the backend of a device by its name in [`ternion::device`].
    pub fn of(name: &str) -> std::result::Result<Kind, String> {
        match name.split(':').next() {
            Some("cuda") => Ok(Kind::Cuda),
            Some("wgpu") => Ok(Kind::Wgpu),
            _ => Err(format!("--device {name}: expected cuda, cuda:INDEX, wgpu or wgpu:ADAPTER")),
        }
    }

    /// Returns the name of the backend in printed lines.
    pub fn implementation(self) -> &'static str {
        match self {
            Kind::Cuda => "ternion",
            Kind::Wgpu => "ternion-wgpu",
        }
    }

    /// Returns the name, in printed lines, of a copy of as many bytes as a case moves.
    pub fn copy(self) -> &'static str {
        match self {
            Kind::Cuda => "copy",
            Kind::Wgpu => "copy-wgpu",
        }
    }
}

/// A backend's timer, counter of launches and plain copies.
pub trait Timed {
    /// Records the begin, after everything queued so far.
    fn begin(&self) -> Result<()>;
    /// Records the end, after everything queued so far.
    fn end(&self) -> Result<()>;
    /// Returns the milliseconds between begin and end.
    fn milliseconds(&self) -> Result<f64>;
    /// Returns the number of kernels or shaders launched so far.
    fn launches(&self) -> Result<u64>;
    /// Queues a copy by the device's own command.
    fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()>;
    /// Returns the host time of `launches` launches by the driver itself, if launches go to the
    /// driver immediately.
    fn launch_floor(&self, _launches: usize) -> Result<Option<Duration>> {
        Ok(None)
    }
    /// Enables a profiler that starts disabled.
    fn start_profiler(&self) -> Result<()> {
        Ok(())
    }
    /// Disables the profiler.
    fn stop_profiler(&self) -> Result<()> {
        Ok(())
    }
    /// Returns what the device is and which clock measures the times, if printed lines do not show
    /// it.
    fn about(&self) -> Option<serde_json::Value> {
        None
    }
}

/// Opens the device and its timer.
pub fn open(kind: Kind, name: &str) -> Result<(Device, Box<dyn Timed>)> {
    let device = ternion::device(name)?;
    let timed: Box<dyn Timed> = match kind {
        Kind::Cuda => Box::new(cuda::Cuda::new(&device)?),
        Kind::Wgpu => adapter(&device)?,
    };
    Ok((device, timed))
}

#[cfg(feature = "wgpu")]
fn adapter(device: &Device) -> Result<Box<dyn Timed>> {
    Ok(Box::new(wgpu::Wgpu::new(device)?))
}

#[cfg(not(feature = "wgpu"))]
fn adapter(device: &Device) -> Result<Box<dyn Timed>> {
    Err(failed(device, "this program was built without its feature `wgpu`"))
}

fn failed(device: &Device, detail: impl Into<String>) -> Error {
    Error::Device { device: device.name().to_string(), detail: detail.into() }
}

/// Returns the backend of `device`, unless a decorator wraps it.
pub fn backend<T: Backend>(device: &Device) -> Result<&T> {
    device.downcast().ok_or_else(|| failed(device, "is wrapped: benchmarks run on the device itself"))
}

mod cuda {
    use super::{Buffer, Device, Duration, Error, Result, Timed, backend, failed};
    use ternion_cuda::{CudaBackend, Timer};

    pub struct Cuda {
        device: Device,
        timer: Timer,
    }

    impl Cuda {
        pub fn new(device: &Device) -> Result<Cuda> {
            Ok(Cuda { timer: backend::<CudaBackend>(device)?.timer()?, device: device.clone() })
        }

        fn unprofiled(&self, error: cudarc::driver::DriverError) -> Error {
            failed(&self.device, format!("the profiler: {error}"))
        }
    }

    impl Timed for Cuda {
        fn begin(&self) -> Result<()> {
            self.timer.begin()
        }
        fn end(&self) -> Result<()> {
            self.timer.end()
        }
        fn milliseconds(&self) -> Result<f64> {
            self.timer.milliseconds()
        }
        fn launches(&self) -> Result<u64> {
            Ok(backend::<CudaBackend>(&self.device)?.launches())
        }
        fn launch_floor(&self, launches: usize) -> Result<Option<Duration>> {
            backend::<CudaBackend>(&self.device)?.launch_floor(launches).map(Some)
        }
        fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
            backend::<CudaBackend>(&self.device)?.copy_bytes(from, to, bytes)
        }
        fn start_profiler(&self) -> Result<()> {
            cudarc::driver::profiler_start().map_err(|error| self.unprofiled(error))
        }
        fn stop_profiler(&self) -> Result<()> {
            cudarc::driver::profiler_stop().map_err(|error| self.unprofiled(error))
        }
    }
}

#[cfg(feature = "wgpu")]
mod wgpu {
    use super::{Buffer, Device, Result, Timed, backend};
    use ternion_wgpu::{Timer, WgpuBackend};

    pub struct Wgpu {
        device: Device,
        timer: Timer,
    }

    impl Wgpu {
        pub fn new(device: &Device) -> Result<Wgpu> {
            Ok(Wgpu { timer: backend::<WgpuBackend>(device)?.timer(), device: device.clone() })
        }
    }

    impl Timed for Wgpu {
        fn begin(&self) -> Result<()> {
            self.timer.begin()
        }
        fn end(&self) -> Result<()> {
            self.timer.end()
        }
        fn milliseconds(&self) -> Result<f64> {
            self.timer.milliseconds()
        }
        fn launches(&self) -> Result<u64> {
            Ok(backend::<WgpuBackend>(&self.device)?.launches())
        }
        fn copy_bytes(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<()> {
            backend::<WgpuBackend>(&self.device)?.copy_bytes(from, to, bytes)
        }
        fn about(&self) -> Option<serde_json::Value> {
            let description = backend::<WgpuBackend>(&self.device).ok()?.description();
            let clock = match self.timer.is_on_device() {
                true => "timestamps of the device",
                false => "the host's clock around two waits: the device has no timestamps",
            };
            Some(serde_json::json!({"adapter": description, "clock": clock}))
        }
    }
}

/// Returns what the device is, such as NVIDIA H100 80GB HBM3.
pub fn hardware(device: &Device) -> String {
    let listed = ternion::devices().into_iter().find(|entry| entry.name == device.name());
    listed.map_or_else(|| device.name().to_string(), |entry| entry.hardware)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_backend() {
        for name in ["cuda", "cuda:1"] {
            assert_eq!(Kind::of(name), Ok(Kind::Cuda));
        }
        for name in ["wgpu", "wgpu:0", "wgpu:radeon"] {
            assert_eq!(Kind::of(name), Ok(Kind::Wgpu));
        }
        let expected = Err("--device cpu: expected cuda, cuda:INDEX, wgpu or wgpu:ADAPTER".into());
        assert_eq!(Kind::of("cpu"), expected);
        assert!(Kind::of("auto").is_err() && Kind::of("").is_err());
    }
}
