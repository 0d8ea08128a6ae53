//! Attention, with each of its kernels.

use super::super::attention::forward_tiles;
use super::*;
use std::num::NonZeroU32;
use ternion_cuda::attention_study::{ForwardTiles, with_resident_blocks};
use ternion_cuda::with_attention_mma;

/// Heads and tokens: several steps, with edges in queries and keys; and, for the rungs in bf16,
/// more blocks than fit the device at once.
const ATTENTION_LADDER_SIZES: [[usize; 2]; 2] = [[3, 513], [48, 1100]];

#[test]
fn attention_of_the_ladder() -> Result<()> {
    use ternion_cuda::attention_ladder::{Mask, Options, WIDTHS};
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for form in attention_ladder::every_rung(device) {
        let sizes = if form.dtype() == DType::BF16 {
            &ATTENTION_LADDER_SIZES[..]
        } else {
            &ATTENTION_LADDER_SIZES[..1]
        };
        for (&[heads, tokens], width) in sizes.iter().flat_map(|sizes| WIDTHS.map(|width| (sizes, width))) {
            let shape = [heads, tokens, width];
            let random = |seed| tensor(&shape, form.dtype(), device, seed);
            let (q, k, v) = (random(1)?, random(2)?, random(3)?);
            for mask in [Mask::Full, Mask::Causal] {
                let run = || {
                    let y = Tensor::full(shape, f64::NAN, form.dtype(), device)?;
                    let options = Options { scale: 0.1, mask };
                    attention_ladder::forward(device, form, options, [&q, &k, &v, &y])?;
                    Ok(vec![y])
                };
                let what = format!("ladder of attention, {form:?} {shape:?} {mask:?}");
                compare_runs(&mut faults, &what, run)?;
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Forward and backward, with both gradient kernels.
#[test]
fn attention() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for dtype in HALF_DTYPES {
        // There are more work tiles than multiprocessors: blocks process one after another, and
        // tiles wait for work tiles that no block has started. Long causal sequences with head_dim
        // 64 have a separate backward kernel.
        let of_width = |width| [([2, 36, 520, width], false), ([2, 36, 520, width], true)];
        let long = ([1, 12, 1700, 64], true);
        for (shape, causal) in [64, 128, 192, 256].into_iter().flat_map(of_width).chain([long]) {
            let [.., rows, width] = shape;
            let random = |seed| tensor(&shape, dtype, device, seed);
            let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
            let config = AttentionConfig { scale: 0.1, causal, ..AttentionConfig::PLAIN };
            let attend = |inputs: &[Tensor]| {
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                apply_one(Attention { config }, &inputs)
            };
            let what = format!("attention, {dtype:?} of width {width}, {rows} rows, causal: {causal}");
            compare_runs(&mut faults, &what, || {
                forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone()))
            })?;
        }
    }
    for (heads, kv_heads, queries, width, dtype) in
        [(8, 2, 1, 128, DType::BF16), (4, 4, 5, 128, DType::BF16), (8, 2, 1, 64, DType::F16)]
    {
        let random = |heads, rows, seed| tensor(&[2, heads, rows, width], dtype, device, seed);
        let (q, k, v) = (random(heads, queries, 1)?, random(kv_heads, 3000, 2)?, random(kv_heads, 3000, 3)?);
        let config = AttentionConfig { scale: 0.1, causal: true, ..AttentionConfig::PLAIN };
        let what =
            format!("attention, {queries} queries of 3000 keys, {heads} heads of {width} on {kv_heads}");
        compare_runs(&mut faults, &what, || Ok(vec![apply_one(Attention { config }, &[&q, &k, &v])?]))?;
    }
    // With a mask that requires a gradient: each block processes one tile of it, and part of the
    // loop over the axes along which it is broadcast.
    for (dtype, of_mask) in
        [(DType::BF16, [1, 1, 300, 520]), (DType::BF16, [2, 1, 1, 520]), (DType::F32, [1, 12, 1, 520])]
    {
        let random = |rows, seed| tensor(&[2, 12, rows, 64], dtype, device, seed);
        let mask = tensor(&of_mask, dtype, device, 5)?;
        let (inputs, dy) = ([random(300, 1)?, random(520, 2)?, random(520, 3)?, mask], random(300, 4)?);
        let config = AttentionConfig { scale: 0.1, causal: false, mask: true, ..AttentionConfig::PLAIN };
        let attend = |inputs: &[Tensor]| {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            apply_one(Attention { config }, &inputs)
        };
        let what = format!("attention, a mask {of_mask:?} of {dtype:?}");
        compare_runs(&mut faults, &what, || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone())))?;
    }
    let lengths = Tensor::from_slice(&[0, 300, 301, 700, 1040], [5], device)?;
    for dtype in HALF_DTYPES {
        let random = |seed| tensor(&[1, 6, 1040, 128], dtype, device, seed);
        let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
        let config = AttentionConfig { scale: 0.1, causal: true, varlen: true, ..AttentionConfig::PLAIN };
        let attend = |inputs: &[Tensor]| {
            apply_one(Attention { config }, &[&inputs[0], &inputs[1], &inputs[2], &lengths, &lengths])
        };
        let what = format!("attention, sequences of {dtype:?}");
        compare_runs(&mut faults, &what, || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone())))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// f32 with each algorithm for its products.
#[test]
fn attention_of_f32() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for (width, causal) in [(64, false), (64, true), (128, true)] {
        let random = |seed| tensor(&[2, 4, 330, width], DType::F32, device, seed);
        let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
        let config = AttentionConfig { scale: 0.1, causal, ..AttentionConfig::PLAIN };
        let attend = |x: &[Tensor]| apply_one(Attention { config }, &[&x[0], &x[1], &x[2]]);
        let run = || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone()));
        let what = format!("attention, f32 of width {width}, causal: {causal}");
        for precision in [Precision::Ieee, Precision::Tf32] {
            compare_runs(&mut faults, &format!("{what}, {precision:?}"), || with_precision(precision, run))?;
        }
        compare_runs(&mut faults, &format!("{what}, by bf16x6"), || with_attention_bf16x6(run))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// With dropout, and with varlen sequences.
#[test]
fn attention_with_dropout_and_of_sequences() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let state = Tensor::from_slice(&[-77_i64, 5], [2], device)?;
    let ends = Tensor::from_slice(&[0_i32, 70, 71, 330, 520], [5], device)?;
    let dropout = Some(Dropout { p: 0.25, offset: 3 });
    for (width, causal, varlen, dropout) in [64, 128, 192, 256].into_iter().flat_map(|width| {
        [
            (width, false, false, dropout),
            (width, true, false, dropout),
            (width, true, true, None),
            (width, true, true, dropout),
        ]
    }) {
        let random = |seed| tensor(&[1, 20, 520, width], DType::BF16, device, seed);
        let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
        let config = AttentionConfig { scale: 0.1, causal, varlen, dropout, ..AttentionConfig::PLAIN };
        let ends = varlen.then_some([&ends, &ends]).into_iter().flatten();
        let extras: Vec<_> = ends.chain(dropout.map(|_| &state)).collect();
        let attend = |x: &[Tensor]| {
            apply_one(Attention { config }, &x.iter().chain(extras.iter().copied()).collect::<Vec<_>>())
        };
        let dropped = dropout.map_or(0.0, |dropout| dropout.p);
        let what =
            format!("attention of width {width}, causal: {causal}, sequences: {varlen}, dropout {dropped}");
        compare_runs(&mut faults, &what, || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone())))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// With `mma.sync` at all widths, as on devices of compute capability 8.0.
#[test]
fn attention_with_mma() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let state = Tensor::from_slice(&[-77_i64, 5], [2], device)?;
    for (width, dropout) in [64, 128, 192, 256]
        .into_iter()
        .flat_map(|width| [None, Some(Dropout { p: 0.25, offset: 3 })].map(|dropout| (width, dropout)))
    {
        let random = |seed| tensor(&[2, 6, 330, width], DType::BF16, device, seed);
        let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
        let config = AttentionConfig { scale: 0.1, causal: true, dropout, ..AttentionConfig::PLAIN };
        let attend = |x: &[Tensor]| {
            apply_one(Attention { config }, &x.iter().chain(dropout.map(|_| &state)).collect::<Vec<_>>())
        };
        let what = format!("attention of width {width} with mma.sync, dropout: {}", dropout.is_some());
        let run = || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone()));
        compare_runs(&mut faults, &what, || with_attention_mma(run))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Windows and bool masks, with head dims that use `mma.sync` and ones that use warpgroups.
#[test]
fn attention_under_windows_and_masks() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let window = AttentionConfig { scale: 0.1, causal: true, window: Some(150), ..AttentionConfig::PLAIN };
    let masked = AttentionConfig { scale: 0.1, mask: true, ..AttentionConfig::PLAIN };
    let mask = tensor(&[2, 1, 520, 520], DType::F32, device, 6)?.gt_scalar(-0.5)?;
    let of_width = |width| {
        HALF_DTYPES.into_iter().flat_map(move |dtype| [(width, dtype, window), (width, dtype, masked)])
    };
    for (width, dtype, config) in [32, 64, 128, 192, 256].into_iter().flat_map(of_width) {
        let random = |seed| tensor(&[2, 12, 520, width], dtype, device, seed);
        let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
        let extra = config.mask.then_some(&mask);
        let attend =
            |x: &[Tensor]| apply_one(Attention { config }, &x.iter().chain(extra).collect::<Vec<_>>());
        let kind = if config.mask { "bool mask" } else { "window" };
        let what = format!("attention, {dtype:?} of width {width}, {kind}");
        compare_runs(&mut faults, &what, || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone())))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Forward with both tile sizes of those head dims that have two. The sizes for which the tiles for
/// many keys are the default would take too long for a thousand runs.
#[test]
fn attention_with_both_tile_sizes() -> Result<()> {
    let Some((device, backend)) = forward_tiles::device() else { return Ok(()) };
    let _shared = lock_shared();
    let mut faults = Vec::new();
    for (width, causal) in [64, 192].into_iter().flat_map(|width| [(width, false), (width, true)]) {
        let config = AttentionConfig { scale: 0.1, causal, ..AttentionConfig::PLAIN };
        for dtype in HALF_DTYPES {
            let sizes = [2, 36, 12, 520, 650];
            let (inputs, expected) = forward_tiles::operands(device, dtype, sizes, width, config)?;
            for tiles in [ForwardTiles::Few, ForwardTiles::Many] {
                let run =
                    || Ok(forward_tiles::forward(backend, &config, tiles, &inputs, &expected)?.to_vec());
                let what =
                    format!("attention of width {width}, {dtype:?}, causal: {causal}, tiles: {tiles:?}");
                compare_runs(&mut faults, &what, run)?;
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Grouped-query attention, whose gradients are sums over query heads. It runs with all blocks, and
/// with so few that each processes several work tiles of several heads.
#[test]
fn attention_of_grouped_heads() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let few = NonZeroU32::new(7).expect("blocks");
    for (width, causal) in [64, 128, 192, 256].into_iter().flat_map(|width| [(width, false), (width, true)]) {
        let random = |heads, rows, seed| tensor(&[2, heads, rows, width], DType::BF16, device, seed);
        let (inputs, dy) =
            ([random(36, 390, 1)?, random(12, 520, 2)?, random(12, 520, 3)?], random(36, 390, 4)?);
        let config = AttentionConfig { scale: 0.1, causal, ..AttentionConfig::PLAIN };
        let attend = |x: &[Tensor]| apply_one(Attention { config }, &[&x[0], &x[1], &x[2]]);
        let run = || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone()));
        let what = format!("attention of grouped heads of width {width}, causal: {causal}");
        compare_runs(&mut faults, &what, run)?;
        compare_runs(&mut faults, &format!("{what}, 7 blocks"), || with_resident_blocks(few, run))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Dropout in f16, and with an additive mask.
#[test]
fn attention_with_dropout_in_f16_and_under_a_mask() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let state = Tensor::from_slice(&[-77_i64, 5], [2], device)?;
    let dropout = Some(Dropout { p: 0.25, offset: 3 });
    for (width, is_masked) in
        [64, 128, 192, 256].into_iter().flat_map(|width| [(width, false), (width, true)])
    {
        let random = |seed| tensor(&[1, 20, 520, width], DType::F16, device, seed);
        let (inputs, dy) = ([random(1)?, random(2)?, random(3)?], random(4)?);
        let mask = tensor(&[1, 1, 520, 520], DType::F16, device, 5)?;
        let config = AttentionConfig { scale: 0.1, mask: is_masked, dropout, ..AttentionConfig::PLAIN };
        let extras: Vec<_> = is_masked.then_some(&mask).into_iter().chain([&state]).collect();
        let attend = |x: &[Tensor]| {
            apply_one(Attention { config }, &x.iter().chain(extras.iter().copied()).collect::<Vec<_>>())
        };
        let what = format!("attention, dropout in f16 of width {width}, mask: {is_masked}");
        compare_runs(&mut faults, &what, || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone())))?;
    }
    assert_no_faults(&faults);
    Ok(())
}
