//! Devices by name: the only file that knows which backends are compiled in.
//!
//! A process has one device of each name, so that tensors of different parts of a program meet. Each is wrapped as the environment says.

use ternion_core::{Device, Error, Result};

/// The names that [`device`] knows.
const NAMES: &str = "auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:INDEX";

/// This machine's processor.
///
/// # Errors
/// If feature `cpu` is off, or an environment variable asks for something that does not exist.
pub fn cpu() -> Result<Device> {
    processor::shared()
}

/// The CUDA device with this index, as the driver counts.
///
/// # Errors
/// If feature `cuda` is off; no driver, no such device, or one that is too old.
pub fn cuda(index: usize) -> Result<Device> {
    graphics::shared(index)
}

/// The wgpu adapter with this index.
///
/// # Errors
/// Always, in this version: it has no wgpu backend.
pub fn wgpu(index: usize) -> Result<Device> {
    let detail = "this version of Ternion has no wgpu backend; the feature `wgpu` is reserved for it";
    Err(unavailable(format!("wgpu:{index}"), detail))
}

/// The fastest device that is compiled in and there: CUDA, where its kernels can be compiled or are kept on disk, else wgpu, else the processor.
///
/// # Errors
/// If there is none; the message says why not, for each.
pub fn best() -> Result<Device> {
    let mut reasons = Vec::new();
    for candidate in [cuda(0).and_then(graphics::ready), wgpu(0)] {
        match candidate {
            Ok(device) => return Ok(device),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    match cpu() {
        Err(error) if !cfg!(feature = "cpu") => reasons.push(error.to_string()),
        // The processor is always there: what may be wrong is what the environment asks for.
        result => return result,
    }
    Err(unavailable("auto", reasons.join("; ")))
}

/// A device by its name: `auto` (see [`best`]), `cpu`, `cuda`, `cuda:0`, `wgpu`, `wgpu:1`.
///
/// # Errors
/// A name that is none of these; a device that is not compiled in or not there.
///
/// ```
/// assert_eq!(ternion::device("cpu")?.name(), "cpu");
/// let error = ternion::device("gpu").unwrap_err().to_string();
/// assert!(error.contains("expected auto, cpu, cuda"));
/// # Ok::<(), ternion::Error>(())
/// ```
pub fn device(name: &str) -> Result<Device> {
    match parse(name)? {
        Named::Best => best(),
        Named::Cpu => cpu(),
        Named::Cuda(index) => cuda(index),
        Named::Wgpu(index) => wgpu(index),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Named {
    Best,
    Cpu,
    Cuda(usize),
    Wgpu(usize),
}

fn parse(name: &str) -> Result<Named> {
    let unknown = || unavailable(name, format!("no such device; expected {NAMES}"));
    let (kind, index) = match name.split_once(':') {
        Some((kind, index)) => (kind, Some(index.parse::<usize>().map_err(|_| unknown())?)),
        None => (name, None),
    };
    match (kind, index) {
        ("auto", None) => Ok(Named::Best),
        ("cpu", None) => Ok(Named::Cpu),
        ("cuda", index) => Ok(Named::Cuda(index.unwrap_or(0))),
        ("wgpu", index) => Ok(Named::Wgpu(index.unwrap_or(0))),
        _ => Err(unknown()),
    }
}

fn unavailable(device: impl Into<String>, detail: impl Into<String>) -> Error {
    Error::Device { device: device.into(), detail: detail.into() }
}

#[cfg(feature = "cpu")]
mod processor {
    use std::sync::OnceLock;
    use ternion_core::decorators::{Composed, from_environment};
    use ternion_core::{Device, Result};

    /// The process's one device of this name, wrapped as the environment says.
    pub fn shared() -> Result<Device> {
        static SHARED: OnceLock<Device> = OnceLock::new();
        if let Some(device) = SHARED.get() {
            return Ok(device.clone());
        }
        let wrapped = from_environment(ternion_cpu::device(), &plain)?;
        Ok(SHARED.get_or_init(|| wrapped).clone())
    }

    /// A processor that the environment has not wrapped.
    #[cfg(feature = "cuda")]
    pub fn unwrapped() -> Result<Device> {
        Ok(ternion_cpu::device())
    }

    /// A device for a decorator to compare with or to fall back on. The processor has no other CPU beside it: there it is one that
    /// composes every op from primitives, so that at least no fused kernel is compared with itself.
    fn plain(name: &str) -> Result<Device> {
        match super::parse(name)? {
            super::Named::Cpu | super::Named::Best => Ok(Composed::new(ternion_cpu::device())),
            _ => super::device(name),
        }
    }
}

#[cfg(not(feature = "cpu"))]
mod processor {
    use ternion_core::{Device, Result};

    pub fn shared() -> Result<Device> {
        Err(super::unavailable("cpu", "not compiled in: turn on the feature `cpu` of the package `ternion`"))
    }

    #[cfg(feature = "cuda")]
    pub fn unwrapped() -> Result<Device> {
        shared()
    }
}

#[cfg(feature = "cuda")]
mod graphics {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    use ternion_core::decorators::{Composed, from_environment};
    use ternion_core::{Device, Result};

    /// The process's one device of each index, wrapped as the environment says.
    pub fn shared(index: usize) -> Result<Device> {
        static SHARED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
        // Held while the device is opened: two threads that come first do not open it twice.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = shared.get(&index) {
            return Ok(device.clone());
        }
        let device = from_environment(ternion_cuda::device(index)?, &plain)?;
        shared.insert(index, device.clone());
        Ok(device)
    }

    /// The device, if there is what it runs.
    pub fn ready(device: Device) -> Result<Device> {
        ternion_cuda::has_kernels().map(|()| device)
    }

    /// A device for a decorator to compare with or to fall back on: the processor as it is, or a CUDA device that composes every op.
    fn plain(name: &str) -> Result<Device> {
        match super::parse(name)? {
            super::Named::Cpu => super::processor::unwrapped(),
            super::Named::Cuda(index) => Ok(Composed::new(ternion_cuda::device(index)?)),
            _ => super::device(name),
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod graphics {
    use ternion_core::{Device, Result};

    pub fn shared(index: usize) -> Result<Device> {
        let detail = "not compiled in: turn on the feature `cuda` of the package `ternion`";
        Err(super::unavailable(format!("cuda:{index}"), detail))
    }

    pub fn ready(device: Device) -> Result<Device> {
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let found = |name: &str| parse(name).expect(name);
        assert_eq!(found("auto"), Named::Best);
        assert_eq!(found("cpu"), Named::Cpu);
        assert_eq!(found("cuda"), Named::Cuda(0));
        assert_eq!(found("cuda:3"), Named::Cuda(3));
        assert_eq!(found("wgpu:1"), Named::Wgpu(1));
        for name in ["", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "CPU", "auto:0"] {
            let error = parse(name).expect_err(name).to_string();
            assert_eq!(error, format!("device {name}: no such device; expected {NAMES}"));
        }
    }
}
