//! The index space of several tensors of one shape, as shaders take it: axes that lie evenly in all of them merged.

use bytemuck::{Pod, Zeroable};
use ternion_core::{Layout, MAX_RANK};

const _: () = assert!(MAX_RANK == 8, "as many axes as index.wgsl and the parameters of shaders have");

/// Sizes and strides of up to four tensors, slowest axis first; of rank 1 at least. As the fields of the shaders' `Parameters`: `rank`, `sizes`,
/// `strides`, each tensor's after the other's. Negative strides wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Space {
    pub(crate) sizes: [u32; MAX_RANK],
    pub(crate) strides: [[u32; MAX_RANK]; 4],
}

impl Space {
    /// One element: for shaders that do not look at their space.
    pub(crate) const EMPTY: Space = Space { sizes: [1; MAX_RANK], strides: [[0; MAX_RANK]; 4] };

    /// The common space of `layouts`, which have one shape, and its rank. Elements are numbered in row-major order.
    pub(crate) fn of(layouts: &[&Layout]) -> (Space, u32) {
        if layouts.iter().all(|layout| layout.is_contiguous()) {
            return Space::dense(layouts[0].elements());
        }
        let axes: Vec<(usize, Vec<i64>)> = layouts[0]
            .shape()
            .dims()
            .iter()
            .enumerate()
            .map(|(axis, &size)| (size, layouts.iter().map(|layout| layout.strides()[axis] as i64).collect()))
            .collect();
        Space::in_order(&axes)
    }

    /// One axis, of tensors that all lie row by row: most calls.
    fn dense(elements: usize) -> (Space, u32) {
        let mut space = Space::EMPTY;
        space.sizes[0] = elements as u32;
        space.strides.iter_mut().for_each(|strides| strides[0] = 1);
        (space, 1)
    }

    /// The space of these axes, slowest first, and its rank.
    pub(crate) fn in_order(axes: &[(usize, Vec<i64>)]) -> (Space, u32) {
        let tensors = axes.first().map_or(1, |(_, strides)| strides.len());
        let mut merged: Vec<(usize, Vec<i64>)> = Vec::with_capacity(axes.len());
        for (size, strides) in axes.iter().filter(|(size, _)| *size != 1) {
            match merged.last_mut() {
                Some((wide, slow)) if (0..tensors).all(|at| slow[at] == strides[at] * *size as i64) => {
                    *wide *= size;
                    slow.clone_from(strides);
                }
                _ => merged.push((*size, strides.clone())),
            }
        }
        if merged.is_empty() {
            merged.push((1, vec![1; tensors]));
        }
        let mut space = Space::EMPTY;
        for (axis, (size, strides)) in merged.iter().enumerate() {
            space.sizes[axis] = *size as u32;
            for (tensor, &stride) in strides.iter().enumerate() {
                space.strides[tensor][axis] = stride as u32;
            }
        }
        (space, merged.len() as u32)
    }
}
