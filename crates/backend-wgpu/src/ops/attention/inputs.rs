//! Which inputs of attention the shaders support: the others are composed, or copied first.

use super::{MAX_WIDTH, TILE, run, run_grad};
use crate::call::{Call, LaunchFn};
use crate::ops::matmul::is_vec4_aligned;
use crate::ops::rows::Dense;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::ops::attention::{Attention, AttentionGrad};
use ternion_core::{Op, Result};

/// Returns the function that queues the shaders of `op`, which is attention or its gradient.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<LaunchFn, Unsupported> {
    let (config, run): (_, LaunchFn) = match op {
        Op::Attention(Attention { config }) => (config, run),
        Op::AttentionGrad(AttentionGrad { config }) => (config, run_grad),
        _ => return Err(Unsupported::because("not attention")),
    };
    if config.dropout.is_some() || config.varlen {
        return Err(Unsupported::because("no shader drops weights or takes sequences of different lengths"));
    }
    match is_composed(inputs) {
        true => Err(Unsupported::because("wide heads with few rows, or not of whole vec4, are composed")),
        false => Ok(run),
    }
}

/// Returns whether a composition takes less time than the shaders here: for heads wider than 128
/// with few queries and keys, or with rows that are not whole vec4.
fn is_composed(inputs: &[Meta<'_>]) -> bool {
    let axis = |number: usize| inputs[..3].iter().map(move |meta| meta.shape().dim(number));
    let is_wide = axis(3).any(|width| width > MAX_WIDTH);
    is_wide && (axis(2).all(|lines| lines <= TILE) || axis(3).any(|width| !width.is_multiple_of(4)))
}

/// Copies of inputs that are not stored as vec4 although their rows are whole vec4, such as the
/// expanded gradient of a sum. Shaders that read them element by element take several times as
/// long.
pub(super) struct Vec4Copies<'a>(SmallVec<[Dense<'a>; 7]>);

impl<'a> Vec4Copies<'a> {
    /// Copies inputs for which `is_copied` returns true.
    pub(super) fn of(call: &Call<'a>, is_copied: impl Fn(usize) -> bool) -> Result<Vec4Copies<'a>> {
        let copies = call.inputs.iter().enumerate().map(|(input, view)| {
            let (_, offset) = call.gpu.bind(call.name, view)?;
            match view.layout.elements() > 0 && is_copied(input) && !is_vec4_aligned(view, offset, 3) {
                true => Dense::input(call.gpu, call.name, view),
                false => Ok(Dense::Borrowed(*view)),
            }
        });
        Ok(Vec4Copies(copies.collect::<Result<_>>()?))
    }

    pub(super) fn views(&self) -> SmallVec<[View<'_>; 7]> {
        self.0.iter().map(Dense::view).collect()
    }
}

/// Returns whether any of the heads is wider than the tiles of tile_vec4.wgsl.
pub(super) fn has_wide_heads(call: &Call<'_>) -> bool {
    call.inputs[..3].iter().any(|view| view.layout.shape().dim(3) > MAX_WIDTH)
}
