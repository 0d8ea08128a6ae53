//! The adapters of this machine: the list that wgpu finds, in a fixed order, and the lookup of an
//! adapter by index or name.

use std::sync::OnceLock;
use ternion_core::{Error, Result};
use wgpu::{Adapter, DeviceType};

/// The properties of an adapter that are known before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterDescription {
    /// Index of the adapter: `wgpu:0` and so on.
    pub index: usize,
    /// Name of the hardware, as the driver reports it.
    pub name: String,
    /// The interface: Vulkan, Metal, Dx12, Gl.
    pub interface: String,
    /// The driver and its version.
    pub driver: String,
    /// Discrete, integrated, virtual, or software on the CPU.
    pub kind: String,
    /// Bytes of device memory (for software and integrated devices: the part of the host memory
    /// that they may use), if the interface reports it. Vulkan does.
    pub memory_bytes: Option<u64>,
    /// Maximum size of a buffer, in bytes.
    pub max_buffer_bytes: u64,
}

/// Returns the usable adapters of these interfaces.
fn usable_adapters(backends: wgpu::Backends) -> Vec<Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = wgpu::InstanceFlags::empty().with_env();
    let mut found = pollster::block_on(wgpu::Instance::new(descriptor).enumerate_adapters(backends));
    found.retain(|adapter| {
        let limits = adapter.limits();
        adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
            && limits.max_storage_buffers_per_shader_stage >= 8
            // Every shader may use this much: the minimum that WebGPU guarantees.
            && limits.max_compute_invocations_per_workgroup >= 256
            && limits.max_compute_workgroup_storage_size >= 16 << 10
    });
    found.sort_by_key(rank);
    found
}

/// Sort key: faster device types first.
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

/// Returns every adapter that can run compute shaders, the fastest device types first. The list is
/// created once, so that the order stays the same until the process ends.
pub(crate) fn adapters() -> &'static [Adapter] {
    static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| match wgpu::Backends::from_env() {
        // WGPU_BACKEND=vulkan and so on select interfaces, as in every program that uses wgpu.
        Some(backends) => usable_adapters(backends),
        // GL is used only if nothing better exists: its loaders print their own messages.
        None => match usable_adapters(wgpu::Backends::PRIMARY) {
            found if found.is_empty() && has_hardware() => usable_adapters(wgpu::Backends::GL),
            found => found,
        },
    })
}

/// Returns whether GL may have a GPU behind it. Without a GPU, Mesa computes on the CPU with LLVM.
/// Libraries that are loaded later resolve their own LLVM symbols to Mesa's copy of LLVM: Triton,
/// which PyTorch loads, then ends the process.
fn has_hardware() -> bool {
    let devices = ["/dev/dri", "/dev/nvidia0", "/dev/mali0", "/dev/dxg"];
    !cfg!(target_os = "linux") || devices.iter().any(|device| std::path::Path::new(device).exists())
}

/// Returns the descriptions of all adapters.
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
        max_buffer_bytes: adapter.limits().max_buffer_size,
    }
}

/// Returns the size of the largest memory heap that Vulkan marks as device-local.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn memory_bytes(adapter: &Adapter) -> Option<u64> {
    // The bit of VkMemoryHeapFlagBits that marks a heap as device-local.
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the instance and the device are neither kept nor destroyed.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device belongs to this instance.
    let memory = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

/// No other interface reports it.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn memory_bytes(_: &Adapter) -> Option<u64> {
    None
}

/// Returns the adapter with this index.
///
/// # Errors
/// There is no such adapter; the error lists those that exist.
pub(crate) fn adapter(index: usize) -> Result<&'static Adapter> {
    adapters().get(index).ok_or_else(|| Error::Device {
        device: format!("wgpu:{index}"),
        detail: missing_adapter_message(&descriptions()),
    })
}

/// Returns the index of the adapter that `selector` selects. A selector is an index,
/// `high-performance`, `low-power`, or a part of a name; case is ignored.
///
/// # Errors
/// There is no such adapter; the error lists those that exist.
pub fn find(selector: &str) -> Result<usize> {
    if let Ok(index) = selector.parse() {
        return adapter(index).map(|_| index);
    }
    let available = descriptions();
    let kind = |kind: &str| available.iter().find(|one| one.kind == kind).map(|one| one.index);
    let selector = selector.to_lowercase();
    let found = match selector.as_str() {
        // The list is sorted by speed.
        "" | "high-performance" => available.first().map(|one| one.index),
        // An integrated GPU shares the memory of the CPU, and uses little power.
        "low-power" => kind("integrated").or(available.first().map(|one| one.index)),
        name => available.iter().find(|one| one.name.to_lowercase().contains(name)).map(|one| one.index),
    };
    found.ok_or_else(|| Error::Device {
        device: format!("wgpu:{selector}"),
        detail: missing_adapter_message(&available),
    })
}

/// Returns the message of the error for a missing adapter.
fn missing_adapter_message(available: &[AdapterDescription]) -> String {
    let names: Vec<String> = available.iter().map(|one| format!("wgpu:{} {}", one.index, one.name)).collect();
    match (names.len(), std::env::var("WGPU_BACKEND")) {
        (0, Ok(asked)) => format!(
            "no adapter: WGPU_BACKEND={asked} picks among vulkan, metal, dx12 and gl, and what it leaves has no compute shaders here"
        ),
        (0, Err(_)) => "no adapter: neither Vulkan, Metal, DX12 nor GL with compute shaders was found (on Debian, mesa-vulkan-drivers and libvulkan1 bring a Vulkan \
              that runs on the CPU)"
            .into(),
        (count, _) => format!("no such adapter; there are {count}: {}", names.join(", ")),
    }
}
