//! Devices by name. This is the only file that depends on which backends are compiled in.
//!
//! A process has only one device of each name, so that tensors from different parts of a program
//! can be combined. Environment variables determine how each is wrapped.

use ternion_core::{DType, Device, Error, Result};

/// The names that [`device`] accepts.
const NAMES: &str = "auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER";

/// Returns the CPU of this machine.
///
/// # Errors
/// Returns an error if the feature `cpu` is off, or if an environment variable requests something
/// that does not exist.
pub fn cpu() -> Result<Device> {
    cpu_device::shared()
}

/// Returns the CUDA device with this index, in the order of the driver.
///
/// # Errors
/// Returns an error if the feature `cuda` is off, if there is no driver or no such device, or if
/// the device is too old.
pub fn cuda(index: usize) -> Result<Device> {
    cuda_device::shared(index)
}

/// Returns the wgpu adapter with this index. Faster kinds of hardware come first.
///
/// # Errors
/// Returns an error if the feature `wgpu` is off, or if there is no adapter with this index.
pub fn wgpu(index: usize) -> Result<Device> {
    wgpu_device::shared(&index.to_string())
}

/// The properties of a device that are known before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The name that [`device`] accepts: `cpu`, `cuda:0`, `wgpu:1`.
    pub name: String,
    /// The name of the hardware.
    pub hardware: String,
    /// The size of its memory in bytes, if it is known.
    pub memory: Option<u64>,
    /// The dtypes that it supports.
    pub dtypes: Vec<DType>,
}

/// Returns every device that is compiled in and available, without opening it.
///
/// ```
/// for device in ternion::devices() {
///     println!("{}: {}", device.name, device.hardware);
/// }
/// ```
pub fn devices() -> Vec<DeviceDescription> {
    cpu_device::descriptions()
        .into_iter()
        .chain(cuda_device::descriptions())
        .chain(wgpu_device::descriptions())
        .collect()
}

/// Returns the fastest device that is compiled in and available: CUDA, if its kernels can be
/// compiled or are in the kernel cache, otherwise a GPU through wgpu, otherwise the CPU.
///
/// # Errors
/// Returns an error if there is none. The message contains the reason for each.
pub fn best() -> Result<Device> {
    let mut reasons = Vec::new();
    for candidate in [cuda(0).and_then(cuda_device::ready), wgpu_device::hardware()] {
        match candidate {
            Ok(device) => return Ok(device),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    match cpu() {
        Err(error) if !cfg!(feature = "cpu") => reasons.push(error.to_string()),
        // The CPU is always available. An error is due to a request in the environment.
        result => return result,
    }
    Err(unavailable("auto", reasons.join("; ")))
}

/// Returns a device by its name: `auto` (see [`best`]), `cpu`, `cuda`, `cuda:0`, `wgpu`, `wgpu:1`.
/// An adapter can also be selected by a part of its name (`wgpu:radeon`) or a preference
/// (`wgpu:low-power`, `wgpu:high-performance`).
///
/// # Errors
/// Returns an error for any other name, and for a device that is not compiled in or not available.
///
/// ```
/// assert_eq!(ternion::device("cpu")?.name(), "cpu");
/// let error = ternion::device("gpu").unwrap_err().to_string();
/// assert!(error.contains("expected auto, cpu, cuda"));
/// # Ok::<(), ternion::Error>(())
/// ```
pub fn device(name: &str) -> Result<Device> {
    match parse(name)? {
        DeviceName::Best => best(),
        DeviceName::Cpu => cpu(),
        DeviceName::Cuda(index) => cuda(index),
        DeviceName::Wgpu(adapter) => wgpu_device::shared(&adapter),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum DeviceName {
    Best,
    Cpu,
    Cuda(usize),
    /// An index, a preference or a part of a name.
    Wgpu(String),
}

fn parse(name: &str) -> Result<DeviceName> {
    let unknown = || unavailable(name, format!("no such device; expected {NAMES}"));
    if let Some(("wgpu", adapter)) = name.split_once(':') {
        return if adapter.is_empty() { Err(unknown()) } else { Ok(DeviceName::Wgpu(adapter.into())) };
    }
    let (kind, index) = match name.split_once(':') {
        Some((kind, index)) => (kind, Some(index.parse::<usize>().map_err(|_| unknown())?)),
        None => (name, None),
    };
    match (kind, index) {
        ("auto", None) => Ok(DeviceName::Best),
        ("cpu", None) => Ok(DeviceName::Cpu),
        ("cuda", index) => Ok(DeviceName::Cuda(index.unwrap_or(0))),
        ("wgpu", None) => Ok(DeviceName::Wgpu("0".into())),
        _ => Err(unknown()),
    }
}

fn unavailable(device: impl Into<String>, detail: impl Into<String>) -> Error {
    Error::Device { device: device.into(), detail: detail.into() }
}

#[cfg(feature = "cpu")]
mod cpu_device {
    use std::sync::OnceLock;
    use ternion_core::decorators::{Composed, from_environment};
    use ternion_core::{Device, Result};

    /// Returns the only device of this name in the process, wrapped as the environment variables
    /// specify.
    pub fn shared() -> Result<Device> {
        static SHARED: OnceLock<Device> = OnceLock::new();
        if let Some(device) = SHARED.get() {
            return Ok(device.clone());
        }
        let wrapped = from_environment(ternion_cpu::device(), &reference_device)?;
        Ok(SHARED.get_or_init(|| wrapped).clone())
    }

    /// Describes the CPU of this machine. Linux reports the size of its memory.
    pub fn descriptions() -> Option<super::DeviceDescription> {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kibibytes = meminfo.lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Some(super::DeviceDescription {
            name: "cpu".into(),
            hardware: format!("this machine's CPU, {threads} threads"),
            memory: kibibytes.map(|kibibytes| kibibytes * 1024),
            dtypes: ternion_core::DType::ALL.to_vec(),
        })
    }

    /// Returns a CPU device without the decorators that the environment specifies.
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    pub fn unwrapped() -> Result<Device> {
        Ok(ternion_cpu::device())
    }

    /// Returns a device for a decorator to compare with or to fall back to. There is no second CPU
    /// device to compare the CPU with. It is therefore compared with one that composes every op of
    /// primitives, so that at least fused kernels are not compared with themselves.
    fn reference_device(name: &str) -> Result<Device> {
        match super::parse(name)? {
            super::DeviceName::Cpu | super::DeviceName::Best => Ok(Composed::new(ternion_cpu::device())),
            _ => super::device(name),
        }
    }
}

#[cfg(not(feature = "cpu"))]
mod cpu_device {
    use ternion_core::{Device, Result};

    pub fn shared() -> Result<Device> {
        Err(super::unavailable("cpu", "not compiled in: turn on the feature `cpu` of the package `ternion`"))
    }

    pub fn descriptions() -> Option<super::DeviceDescription> {
        None
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    pub fn unwrapped() -> Result<Device> {
        shared()
    }
}

#[cfg(feature = "cuda")]
mod cuda_device {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    use ternion_core::decorators::{Composed, from_environment};
    use ternion_core::{Device, Result};

    /// Returns the only device of each index in the process, wrapped as the environment variables
    /// specify.
    pub fn shared(index: usize) -> Result<Device> {
        static SHARED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
        // The lock is held while the device is opened, so that two threads do not open it twice.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = shared.get(&index) {
            return Ok(device.clone());
        }
        let device = from_environment(ternion_cuda::device(index)?, &reference_device)?;
        shared.insert(index, device.clone());
        Ok(device)
    }

    /// Describes the devices that the driver reports.
    pub fn descriptions() -> Vec<super::DeviceDescription> {
        let describe = |(index, (hardware, bytes)): (usize, (String, u64))| super::DeviceDescription {
            name: format!("cuda:{index}"),
            hardware,
            memory: Some(bytes),
            dtypes: ternion_core::DType::ALL.to_vec(),
        };
        ternion_cuda::descriptions().into_iter().enumerate().map(describe).collect()
    }

    /// Returns the device, if its kernels are available.
    pub fn ready(device: Device) -> Result<Device> {
        ternion_cuda::has_kernels().map(|()| device)
    }

    /// Returns a device for a decorator to compare with or to fall back to: the CPU without
    /// decorators, or a CUDA device that composes every op.
    fn reference_device(name: &str) -> Result<Device> {
        match super::parse(name)? {
            super::DeviceName::Cpu => super::cpu_device::unwrapped(),
            super::DeviceName::Cuda(index) => Ok(Composed::new(ternion_cuda::device(index)?)),
            _ => super::device(name),
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod cuda_device {
    use ternion_core::{Device, Result};

    pub fn shared(index: usize) -> Result<Device> {
        let detail = "not compiled in: turn on the feature `cuda` of the package `ternion`";
        Err(super::unavailable(format!("cuda:{index}"), detail))
    }

    pub fn descriptions() -> Vec<super::DeviceDescription> {
        Vec::new()
    }

    pub fn ready(device: Device) -> Result<Device> {
        Ok(device)
    }
}

#[cfg(feature = "wgpu")]
mod wgpu_device {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    use ternion_core::decorators::{Composed, from_environment};
    use ternion_core::{DType, Device, Result};

    /// Returns the only device of each adapter in the process, wrapped as the environment variables
    /// specify.
    pub fn shared(adapter: &str) -> Result<Device> {
        static SHARED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
        let index = ternion_wgpu::find(adapter)?;
        // The lock is held while the device is opened, so that two threads do not open it twice.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = shared.get(&index) {
            return Ok(device.clone());
        }
        let device = from_environment(ternion_wgpu::device(index)?, &reference_device)?;
        shared.insert(index, device.clone());
        Ok(device)
    }

    /// Returns the first adapter that is not a software implementation on the CPU, because the CPU
    /// backend is faster than those.
    pub fn hardware() -> Result<Device> {
        match ternion_wgpu::descriptions().iter().find(|adapter| adapter.kind != "software") {
            Some(adapter) => shared(&adapter.index.to_string()),
            None => Err(super::unavailable("wgpu", "no adapter but software on the CPU")),
        }
    }

    /// Returns a device for a decorator to compare with or to fall back to: the CPU without
    /// decorators, or an adapter that composes every op.
    fn reference_device(name: &str) -> Result<Device> {
        match super::parse(name)? {
            super::DeviceName::Cpu => super::cpu_device::unwrapped(),
            super::DeviceName::Wgpu(adapter) => {
                Ok(Composed::new(ternion_wgpu::device(ternion_wgpu::find(&adapter)?)?))
            }
            _ => super::device(name),
        }
    }

    /// Describes the adapters that wgpu finds.
    pub fn descriptions() -> Vec<super::DeviceDescription> {
        let describe = |adapter: ternion_wgpu::AdapterDescription| super::DeviceDescription {
            name: format!("wgpu:{}", adapter.index),
            hardware: format!("{} ({}, {})", adapter.name, adapter.kind, adapter.interface),
            memory: adapter.memory_bytes,
            dtypes: DType::ALL.into_iter().filter(|&dtype| dtype != DType::F64).collect(),
        };
        ternion_wgpu::descriptions().into_iter().map(describe).collect()
    }
}

#[cfg(not(feature = "wgpu"))]
mod wgpu_device {
    use ternion_core::{Device, Result};

    pub fn shared(adapter: &str) -> Result<Device> {
        let detail = "not compiled in: turn on the feature `wgpu` of the package `ternion`";
        Err(super::unavailable(format!("wgpu:{adapter}"), detail))
    }

    pub fn hardware() -> Result<Device> {
        shared("0")
    }

    pub fn descriptions() -> Vec<super::DeviceDescription> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let parsed = |name: &str| parse(name).expect(name);
        assert_eq!(parsed("auto"), DeviceName::Best);
        assert_eq!(parsed("cpu"), DeviceName::Cpu);
        assert_eq!(parsed("cuda"), DeviceName::Cuda(0));
        assert_eq!(parsed("cuda:3"), DeviceName::Cuda(3));
        assert_eq!(parsed("wgpu"), DeviceName::Wgpu("0".into()));
        assert_eq!(parsed("wgpu:1"), DeviceName::Wgpu("1".into()));
        assert_eq!(parsed("wgpu:low-power"), DeviceName::Wgpu("low-power".into()));
        for name in ["", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "wgpu:", "CPU", "auto:0"] {
            let error = parse(name).expect_err(name).to_string();
            assert_eq!(error, format!("device {name}: no such device; expected {NAMES}"));
        }
    }
}
