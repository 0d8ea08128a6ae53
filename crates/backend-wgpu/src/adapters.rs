//! The adapters of this machine: what wgpu finds, in one order, and which one is meant by an index or a name.

use std::sync::OnceLock;
use ternion_core::{Error, Result};
use wgpu::{Adapter, DeviceType};

/// What is known of an adapter before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterDescription {
    /// Its number here: `wgpu:0` and so on.
    pub index: usize,
    /// Name of the hardware, as the driver tells it.
    pub name: String,
    /// The interface: Vulkan, Metal, Dx12, Gl.
    pub interface: String,
    /// The driver and its version.
    pub driver: String,
    /// Discrete, integrated, virtual, or software on the processor.
    pub kind: String,
    /// Bytes of its own memory (of software and integrated devices what they may take of the machine's), where the interface tells: Vulkan does.
    pub memory_bytes: Option<u64>,
    /// The most bytes of a buffer.
    pub most_buffer_bytes: u64,
}

/// The adapters that these interfaces offer.
fn offered(backends: wgpu::Backends) -> Vec<Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = wgpu::InstanceFlags::empty().with_env();
    let mut found = pollster::block_on(wgpu::Instance::new(descriptor).enumerate_adapters(backends));
    found.retain(|adapter| {
        let limits = adapter.limits();
        adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
            && limits.max_storage_buffers_per_shader_stage >= 8
            // What every shader has: the least that WebGPU promises.
            && limits.max_compute_invocations_per_workgroup >= 256
            && limits.max_compute_workgroup_storage_size >= 16 << 10
    });
    found.sort_by_key(rank);
    found
}

/// Faster kinds first.
fn rank(adapter: &Adapter) -> usize {
    let info = adapter.get_info();
    match info.device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

/// Every adapter that can run compute shaders, the fastest kinds first. Asked once: the order is that of the whole process.
pub(crate) fn adapters() -> &'static [Adapter] {
    static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| match wgpu::Backends::from_env() {
        // WGPU_BACKEND=vulkan and so on pick interfaces, as in every program on wgpu.
        Some(backends) => offered(backends),
        // GL only where there is nothing better: its loaders write messages of their own.
        None => match offered(wgpu::Backends::PRIMARY) {
            found if found.is_empty() && has_hardware() => offered(wgpu::Backends::GL),
            found => found,
        },
    })
}

/// Whether a GPU may be behind GL. Where there is none Mesa computes on the processor, by an LLVM in whose symbols every library that is loaded later finds its own:
/// Triton, which PyTorch loads, ends the process then.
fn has_hardware() -> bool {
    let devices = ["/dev/dri", "/dev/nvidia0", "/dev/mali0", "/dev/dxg"];
    !cfg!(target_os = "linux") || devices.iter().any(|device| std::path::Path::new(device).exists())
}

/// What adapters there are.
pub fn descriptions() -> Vec<AdapterDescription> {
    adapters().iter().enumerate().map(|(index, adapter)| describe(index, adapter)).collect()
}

pub(crate) fn describe(index: usize, adapter: &Adapter) -> AdapterDescription {
    let info = adapter.get_info();
    let kind = match info.device_type {
        DeviceType::DiscreteGpu => "discrete",
        DeviceType::IntegratedGpu => "integrated",
        DeviceType::VirtualGpu => "virtual",
        DeviceType::Cpu => "software",
        DeviceType::Other => "other",
    };
    AdapterDescription {
        index,
        name: info.name,
        interface: format!("{:?}", info.backend),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        kind: kind.into(),
        memory_bytes: memory_bytes(adapter),
        most_buffer_bytes: adapter.limits().max_buffer_size,
    }
}

/// The largest of the memories that Vulkan calls the device's own.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn memory_bytes(adapter: &Adapter) -> Option<u64> {
    // The bit of VkMemoryHeapFlagBits by which a memory is the device's own.
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: nothing of it is kept or destroyed.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance.
    let memory = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

/// No other interface tells.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn memory_bytes(_: &Adapter) -> Option<u64> {
    None
}

/// The adapter with this index.
///
/// # Errors
/// What there is instead.
pub(crate) fn adapter(index: usize) -> Result<&'static Adapter> {
    adapters()
        .get(index)
        .ok_or_else(|| Error::Device { device: format!("wgpu:{index}"), detail: missing(&descriptions()) })
}

/// The index of the adapter that a text means, in any case: a number, `high-performance`, `low-power`, or a part of its name.
///
/// # Errors
/// What there is instead.
pub fn find(wanted: &str) -> Result<usize> {
    if let Ok(index) = wanted.parse() {
        return adapter(index).map(|_| index);
    }
    let there = descriptions();
    let kind = |kind: &str| there.iter().find(|one| one.kind == kind).map(|one| one.index);
    let wanted = wanted.to_lowercase();
    let found = match wanted.as_str() {
        // The order is that of speed.
        "" | "high-performance" => there.first().map(|one| one.index),
        // An integrated GPU has its memory beside the processor's, and little power.
        "low-power" => kind("integrated").or(there.first().map(|one| one.index)),
        name => there.iter().find(|one| one.name.to_lowercase().contains(name)).map(|one| one.index),
    };
    found.ok_or_else(|| Error::Device { device: format!("wgpu:{wanted}"), detail: missing(&there) })
}

/// What there is in place of an adapter.
fn missing(there: &[AdapterDescription]) -> String {
    let names: Vec<String> = there.iter().map(|one| format!("wgpu:{} {}", one.index, one.name)).collect();
    match (names.len(), std::env::var("WGPU_BACKEND")) {
        (0, Ok(asked)) => format!(
            "no adapter: WGPU_BACKEND={asked} picks among vulkan, metal, dx12 and gl, and what it leaves has no compute shaders here"
        ),
        (0, Err(_)) => "no adapter: neither Vulkan, Metal, DX12 nor GL with compute shaders was found (on Debian, mesa-vulkan-drivers and libvulkan1 bring a Vulkan \
              that runs on the processor)"
            .into(),
        (count, _) => format!("no such adapter; there are {count}: {}", names.join(", ")),
    }
}
