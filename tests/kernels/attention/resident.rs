//! Persistent attention kernels with fewer blocks than they would use: no block waits for a work
//! tile that it must itself process later, and results are bit-identical.

use super::super::{assert_no_faults, forward_and_backward_with, is_short, lock_shared, tensor};
use super::order::device;
use std::fmt::Write;
use std::num::NonZeroU32;
use ternion::dispatch::apply_one;
use ternion::ops::attention::{Attention, AttentionConfig};
use ternion::ops::random::Dropout;
use ternion::prelude::*;
use ternion_cuda::attention_study::with_resident_blocks;

const WIDTHS: [usize; 4] = [64, 128, 192, 256];
const PLAIN: AttentionConfig = AttentionConfig { scale: 0.04, ..AttentionConfig::PLAIN };
const CAUSAL: AttentionConfig = AttentionConfig { causal: true, ..PLAIN };

/// Batch, query heads, key heads, queries and keys of one call.
type Sizes = [usize; 5];

/// Runs attention and its gradient with as many blocks as the device has multiprocessors, and
/// returns which results differ with fewer blocks.
fn faults(
    device: &Device,
    sizes: Sizes,
    width: usize,
    config: AttentionConfig,
    limits: &[u32],
) -> Result<String> {
    let [batch, heads, kv_heads, queries, keys] = sizes;
    let random = |heads, rows, seed| tensor(&[batch, heads, rows, width], DType::BF16, device, seed);
    let inputs = [random(heads, queries, 1)?, random(kv_heads, keys, 2)?, random(kv_heads, keys, 3)?];
    let dy = random(heads, queries, 4)?;
    let state = Tensor::from_slice(&[-77_i64, 5], [2], device)?;
    let state = config.dropout.map(|_| &state);
    let attend = |x: &[Tensor]| apply_one(Attention { config }, &x.iter().chain(state).collect::<Vec<_>>());
    let run = || forward_and_backward_with(&inputs, attend, |_| Ok(dy.clone()));
    let bytes = |results: Vec<Tensor>| results.iter().map(Tensor::to_bytes).collect::<Result<Vec<_>>>();
    let expected = bytes(run()?)?;
    let mut faults = String::new();
    for &limit in limits {
        let found = bytes(with_resident_blocks(NonZeroU32::new(limit).expect("blocks"), run)?)?;
        for (name, _) in
            ["y", "dq", "dk", "dv"].iter().zip(found.iter().zip(&expected)).filter(|(_, (a, b))| a != b)
        {
            let _ = writeln!(
                faults,
                "{sizes:?} of width {width}, {config:?}, {limit} blocks: {name} has other bits"
            );
        }
    }
    Ok(faults)
}

#[test]
fn fewer_blocks_than_work_tiles_give_the_same_bits() -> Result<()> {
    let Some((device, _)) = device() else { return Ok(()) };
    let _shared = lock_shared();
    // More work tiles than an H200 has multiprocessors, and grouped-query attention: the chains of
    // semaphores in the gradient span several heads.
    let sizes = if is_short() { [1, 2, 1, 200, 300] } else { [2, 36, 12, 520, 700] };
    let dropout = AttentionConfig { dropout: Some(Dropout { p: 0.25, offset: 3 }), ..CAUSAL };
    let window = AttentionConfig { window: Some(150), ..CAUSAL };
    let mut all = String::new();
    for width in WIDTHS {
        for config in [PLAIN, CAUSAL, window, dropout] {
            all += &faults(device, sizes, width, config, &[1, 3, 100])?;
        }
    }
    assert_no_faults(&all);
    Ok(())
}

#[test]
fn a_head_may_have_more_blocks_of_keys_than_there_are_multiprocessors() -> Result<()> {
    let Some((device, _)) = device() else { return Ok(()) };
    let _shared = lock_shared();
    let mut all = String::new();
    for width in WIDTHS {
        // Blocks of 128 keys up to head_dim 128 and of 64 above. 140 of them exceed the 132
        // multiprocessors of an H100 and an H200.
        let tokens = if is_short() { 400 } else { 140 * if width > 128 { 64 } else { 128 } };
        for config in [PLAIN, CAUSAL] {
            all += &faults(device, [1, 1, 1, tokens, tokens], width, config, &[1, 50])?;
        }
    }
    assert_no_faults(&all);
    Ok(())
}
