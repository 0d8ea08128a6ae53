//! The index space of several tensors of the same shape, as shaders use it: axes that can be merged
//! in all of them are merged.

use bytemuck::{Pod, Zeroable};
use ternion_core::geometry::merge_axes;
use ternion_core::{Layout, MAX_RANK};

const _: () = assert!(MAX_RANK == 8, "as many axes as index.wgsl and the parameters of shaders have");

/// Sizes and strides of up to four tensors, slowest axis first, with a rank of at least 1. The
/// memory layout is that of the fields `sizes` and `strides` of the shaders' `Parameters`. Negative
/// strides wrap to u32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Space {
    pub(crate) sizes: [u32; MAX_RANK],
    pub(crate) strides: [[u32; MAX_RANK]; 4],
}

impl Space {
    /// One element, for shaders that do not use their space.
    pub(crate) const EMPTY: Space = Space { sizes: [1; MAX_RANK], strides: [[0; MAX_RANK]; 4] };

    /// Returns the common space of `layouts`, which have the same shape, and its rank. Elements are
    /// indexed in row-major order.
    pub(crate) fn of(layouts: &[&Layout]) -> (Space, u32) {
        if layouts.iter().all(|layout| layout.is_contiguous()) {
            return Space::dense(layouts[0].elements());
        }
        let stride = |layout: &&Layout, axis: usize| layout.strides()[axis] as i64;
        let dims = layouts[0].shape().dims().iter().enumerate();
        let axes = dims.map(|(axis, &size)| {
            (size, std::array::from_fn(|tensor| layouts.get(tensor).map_or(0, |layout| stride(layout, axis))))
        });
        Space::merged(axes, layouts.len())
    }

    /// Returns a space of one axis, for contiguous tensors: the most common case.
    fn dense(elements: usize) -> (Space, u32) {
        let mut space = Space::EMPTY;
        space.sizes[0] = elements as u32;
        space.strides.iter_mut().for_each(|strides| strides[0] = 1);
        (space, 1)
    }

    /// Returns the space of these axes, slowest first, and its rank.
    pub(crate) fn from_axes(axes: &[(usize, Vec<i64>)]) -> (Space, u32) {
        let tensors = axes.first().map_or(1, |(_, strides)| strides.len());
        let padded = axes.iter().map(|(size, strides)| {
            (*size, std::array::from_fn(|tensor| strides.get(tensor).copied().unwrap_or(0)))
        });
        Space::merged(padded, tensors)
    }

    /// Returns the space of these axes of `tensors` tensors. The strides of other tensors are 0.
    fn merged(axes: impl Iterator<Item = (usize, [i64; 4])>, tensors: usize) -> (Space, u32) {
        let mut space = Space::EMPTY;
        let rank = merge_axes(axes, |axis, (size, strides)| {
            space.sizes[axis] = size as u32;
            for (tensor, stride) in strides.into_iter().enumerate() {
                space.strides[tensor][axis] = stride as u32;
            }
        });
        if rank == 0 {
            space.strides[..tensors].iter_mut().for_each(|strides| strides[0] = 1);
        }
        (space, rank.max(1) as u32)
    }
}
