//! Memory as shaders access it: which bytes of a buffer, in how many bindings.

use crate::memory::WgpuMemory;
use crate::slots::Slot;
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::{Error, Result};

/// Maximum number of bindings of a shader, even if the adapter allows more. Each binding adds a
/// case to every access of a tensor that spans several bindings. NVIDIA's Vulkan allows a million
/// bindings, with which compilation does not end.
const MAX_BINDINGS: u32 = 64;

/// The limits of a device for bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum size of a binding, in bytes.
    max_bytes: u64,
    /// Bytes of each binding of a tensor that has several: the largest power of two that does not
    /// exceed `max_bytes`.
    pub(crate) window: u64,
    /// Alignment of the start of a binding, in bytes.
    alignment: u64,
    /// Maximum number of bindings of a shader.
    pub(crate) max_count: usize,
}

impl Limits {
    pub(crate) fn of(limits: &wgpu::Limits) -> Limits {
        let max_bytes = limits.max_storage_buffer_binding_size / 8 * 8;
        // The parameters are a binding of the group, too.
        let per_group = limits.max_bindings_per_bind_group.saturating_sub(1);
        Limits {
            max_bytes,
            window: 1 << max_bytes.max(1).ilog2(),
            alignment: u64::from(limits.min_storage_buffer_offset_alignment).max(8),
            max_count: limits.max_storage_buffers_per_shader_stage.min(per_group).min(MAX_BINDINGS) as usize,
        }
    }
}

/// Memory as a shader accesses it: a range of bytes of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) memory: &'a WgpuMemory,
    /// The first byte that is bound.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl<'a> Binding<'a> {
    /// Binds the whole buffer.
    pub(crate) fn whole(memory: &'a WgpuMemory) -> Binding<'a> {
        Binding { memory, start: 0, bytes: memory.buffer().size() }
    }

    /// Binds the whole buffer if it is within the limit, otherwise only the bytes that contain the
    /// view.
    pub(crate) fn of(memory: &'a WgpuMemory, view: &View<'_>, limits: Limits) -> Binding<'a> {
        let whole = Binding::whole(memory);
        if whole.bytes <= limits.max_bytes {
            return whole;
        }
        let Some((low, high)) = view.layout.bounds() else {
            return Binding { bytes: limits.alignment, ..whole };
        };
        let size = view.dtype.size();
        let start = (low * size) as u64 / limits.alignment * limits.alignment;
        // The end is a multiple of 16 bytes.
        let end = (((high + 1) * size) as u64).next_multiple_of(16).min(whole.bytes);
        Binding { memory, start, bytes: end - start }
    }

    /// Returns the index of the view's first element in this binding, or `None` if its indices do
    /// not fit in the u32 that shaders use.
    pub(crate) fn first_index(&self, view: &View<'_>) -> Option<u32> {
        let start = self.start as usize / view.dtype.size();
        let (_, high) = view.layout.bounds().unwrap_or((0, start));
        let as_index = |index: usize| u32::try_from(index).ok().filter(|&index| index < u32::MAX);
        as_index(high - start)?;
        as_index(view.layout.elements())?;
        as_index(view.layout.offset().saturating_sub(start))
    }

    /// Returns whether both bind the same bytes.
    fn is_same(&self, other: &Binding<'_>) -> bool {
        let bytes = |binding: &Binding<'_>| (binding.memory.id(), binding.start, binding.bytes);
        bytes(self) == bytes(other)
    }

    /// Returns the number of bindings that this memory needs.
    pub(crate) fn count(&self, limits: Limits) -> u32 {
        if self.bytes <= limits.max_bytes { 1 } else { self.bytes.div_ceil(limits.window) as u32 }
    }

    /// Returns the bindings of this memory.
    pub(crate) fn windows(self, limits: Limits) -> impl Iterator<Item = wgpu::BufferBinding<'a>> {
        let window = if self.bytes <= limits.max_bytes { self.bytes } else { limits.window };
        (0..u64::from(self.count(limits))).map(move |index| {
            let before = index * window;
            wgpu::BufferBinding {
                buffer: self.memory.buffer(),
                offset: self.start + before,
                size: wgpu::BufferSize::new(window.min(self.bytes - before)),
            }
        })
    }
}

/// Returns the error for a tensor with elements that shaders cannot index.
pub(crate) fn too_many_elements(op: &'static str, view: &View<'_>) -> Error {
    let (low, high) = view.layout.bounds().unwrap_or((0, 0));
    let detail = format!(
        "a tensor of {} elements over {} positions; shaders of wgpu count fewer than 2^32 - 1",
        view.layout.elements(),
        high - low + 1
    );
    Error::invalid(op, detail)
}

/// Sets the number of windows of each slot, and marks the slots that share the windows of an
/// earlier slot. Returns the bindings of the slots that share no windows.
pub(crate) fn assign_windows<'a>(
    slots: &mut [Slot],
    bindings: SmallVec<[Binding<'a>; 6]>,
    limits: Limits,
) -> SmallVec<[Binding<'a>; 6]> {
    let mut unshared: SmallVec<[Binding<'a>; 6]> = SmallVec::new();
    for (index, binding) in bindings.iter().enumerate() {
        slots[index].windows = binding.count(limits);
        let can_share = |&other: &usize| {
            bindings[other].is_same(binding) && slots[index].can_share_windows(&slots[other])
        };
        if slots[index].windows > 1
            && let Some(other) = (0..index).find(can_share)
        {
            slots[index].shares_with = Some(slots[other].name);
        } else {
            unshared.push(*binding);
        }
    }
    unshared
}

/// Checks that the number of bindings is within the limit for a shader.
pub(crate) fn check_binding_count(
    op: &'static str,
    device: &str,
    bindings: &[Binding<'_>],
    limits: Limits,
) -> Result<()> {
    let count: usize = bindings.iter().map(|binding| binding.count(limits) as usize).sum();
    if count <= limits.max_count {
        return Ok(());
    }
    let bytes: Vec<u64> = bindings.iter().map(|binding| binding.bytes).collect();
    let detail = format!(
        "tensors over {bytes:?} bytes take {count} bindings of {} bytes; {device} takes {} for a shader",
        limits.window, limits.max_count
    );
    Err(Error::invalid(op, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::options::Options;

    #[test]
    fn a_workspace_is_bound_as_requested() -> Result<()> {
        let gpu = Gpu::noop(Options::default());
        for bytes in [1, 100, 2000, 5_000_000] {
            let buffer = gpu.alloc(bytes)?;
            let binding = gpu.workspace("test", &buffer)?;
            let block = binding.memory.buffer().size();
            assert_eq!((binding.start, binding.bytes), (0, bytes.next_multiple_of(16) as u64));
            assert!(
                binding.bytes <= block && (bytes < 5_000_000 || binding.bytes < block),
                "{bytes} in {block}"
            );
        }
        Ok(())
    }
}
