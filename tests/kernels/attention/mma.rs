//! The kernels that use `mma.sync` at all widths, as on devices of compute capability 8.0: newer
//! devices use them only for narrow heads, so the tests require them.

use super::{
    Case, DROPOUTS, FEW_LENGTHS, HEADS, LENGTHS, MASK_KINDS, assert_no_faults, compare_half_precision,
    grad_mask, unless_short, varlen,
};
use ternion::prelude::*;
use ternion_cuda::with_attention_mma;

/// head_dim and value_dim: the full width of each tile, and less.
const WIDTHS: [[usize; 2]; 7] =
    [[64, 64], [72, 40], [96, 96], [128, 128], [160, 136], [192, 128], [256, 256]];

/// Few queries, which split-KV processes, and lengths that are not multiples of a tile.
const MORE_LENGTHS: [[usize; 3]; 2] = [[5, 1500, 2], [300, 700, 1]];

#[test]
fn attention_of_half_precision() -> Result<()> {
    let mut faults = String::new();
    let lengths = unless_short([&LENGTHS[..], &MORE_LENGTHS].concat(), FEW_LENGTHS.to_vec());
    for (dtype, rounding) in [(DType::F16, 1.0 / 2048.0), (DType::BF16, 1.0 / 256.0)] {
        for (widths, &lengths) in
            WIDTHS.into_iter().flat_map(|widths| lengths.iter().map(move |lengths| (widths, lengths)))
        {
            for (mask_kind, dropout) in
                MASK_KINDS.into_iter().flat_map(|mask_kind| DROPOUTS.map(|p| (mask_kind, p)))
            {
                let case = Case { dtype, widths, heads: HEADS, lengths, mask_kind, dropout };
                let found = with_attention_mma(|| compare_half_precision(&mut faults, case, rounding))?;
                if found.is_none() {
                    return Ok(());
                }
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn sequences() -> Result<()> {
    with_attention_mma(|| {
        varlen::compare_with_masks(DType::F16)?;
        varlen::compare_with_masks(DType::BF16)
    })
}

#[test]
fn gradients_of_masks() -> Result<()> {
    with_attention_mma(|| grad_mask::compare_gradients(&[DType::F16, DType::BF16]))
}
