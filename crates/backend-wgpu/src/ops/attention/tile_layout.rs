//! Where the tiles of tile_vec4.wgsl are in workgroup memory.

use super::{FORWARD_VEC4S, GRAD_VEC4S};

/// Size of the weights in tile_vec4.wgsl: `[64 inner rows][64 rows, padded by 4]`, in vec4.
const WEIGHT_VEC4S: u32 = 64 * 17;
/// Size of one of the two buffers of operands in tile_vec4.wgsl, in vec4.
const OPERAND_VEC4S: u32 = 656;

/// Where the tiles of tile_vec4.wgsl are in workgroup memory, in vec4. The weights begin at 0.
#[derive(Clone, Copy)]
pub(super) struct TileLayout {
    pub(super) operands_at: u32,
    /// Distance between the two buffers of operands, or 0 if there is only one.
    pub(super) operands_stride: u32,
    pub(super) matrix_at: u32,
    /// Size of the memory.
    pub(super) size: u32,
}

/// The operands share the memory of the weights, which are stored when the scores are complete.
pub(super) const FORWARD_TILES: TileLayout = TileLayout {
    operands_at: 0,
    operands_stride: OPERAND_VEC4S,
    matrix_at: WEIGHT_VEC4S,
    size: FORWARD_VEC4S,
};

/// The weights are kept while the gradients of weights are computed, so the operands share the
/// memory of the matrix.
pub(super) const GRAD_TILES: TileLayout =
    TileLayout { operands_at: WEIGHT_VEC4S, operands_stride: 0, matrix_at: WEIGHT_VEC4S, size: GRAD_VEC4S };
