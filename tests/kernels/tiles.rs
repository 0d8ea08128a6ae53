//! Matrix products by every tile, independent of the default choice. Products of small integers are
//! exact with every tile, with and without split-K, in every layout.

use super::gemm::{OperandLayout, integers};
use super::{gpu, has_tensor_maps, numbers, unless_short};
use crate::lock_shared;
use ternion::prelude::*;
use ternion_core::UnaryOp;
use ternion_core::ops::matmul::MatmulOptions;
use ternion_cuda::CudaBackend;
use ternion_cuda::tiles::{self, Operands, TileOverride, with_tile};

/// Sizes with edges in all axes: less than a tile, a second tile of a cluster that is outside of
/// the output, and several waves of the small tiles.
const SIZES: [[usize; 3]; 4] = [[8, 24, 72], [136, 264, 200], [264, 520, 2056], [1288, 1544, 136]];
/// Sizes with more tiles than blocks even with the large tiles. Blocks process several tiles, with
/// fewer stages of a tile than slabs of the previous tile, and with more.
const LARGE: [[usize; 3]; 2] = [[2696, 1672, 72], [2696, 1672, 264]];
/// Sizes for short tests: few rows, for the tiles that need them; edges of all tiles, also with
/// split-K; and several tiles for a block.
const FEW: [[usize; 3]; 3] = [[8, 24, 392], [136, 264, 392], [1288, 1544, 72]];
pub(super) const LAYOUTS: [[OperandLayout; 2]; 4] = [
    [OperandLayout::Rows, OperandLayout::Rows],
    [OperandLayout::Rows, OperandLayout::Columns],
    [OperandLayout::Columns, OperandLayout::Rows],
    [OperandLayout::Columns, OperandLayout::Columns],
];
const REPEATS: usize = 2;

pub(super) fn options(operands: Operands) -> MatmulOptions<'static> {
    MatmulOptions {
        tf32: operands == Operands::Tf32,
        bf16x6: operands == Operands::Bf16x6,
        ..MatmulOptions::default()
    }
}

/// Computes products of these sizes and this layout by every tile. Adds what is wrong to `faults`,
/// and the names of tiles that ran to `ran`.
fn by_every_tile(
    device: &Device,
    operands: Operands,
    [m, n, k]: [usize; 3],
    layouts: [OperandLayout; 2],
    faults: &mut Vec<String>,
    ran: &mut Vec<&'static str>,
) -> Result<()> {
    let dtype = if let Operands::Of(dtype) = operands { dtype } else { DType::F32 };
    let both = |device: &Device, dtype: DType| -> Result<[Tensor; 2]> {
        Ok([integers([m, k], layouts[0], dtype, device, 1)?, integers([k, n], layouts[1], dtype, device, 2)?])
    };
    let [a, b] = both(&ternion::cpu()?, DType::F64)?;
    let expected = a.matmul(&b)?.to_dtype(dtype)?.to_vec_f64()?;
    let [a, b] = both(device, dtype)?;
    let backend: &CudaBackend = device.downcast().expect("the CUDA backend itself");
    for tile in tiles::of(backend, operands) {
        for splits in [1, 3] {
            let tile_override = TileOverride { tile: Some(tile.name), splits: Some(splits) };
            let product = || a.matmul_with(&b, options(operands))?.to_vec_f64();
            let (found, launched) =
                with_tile(tile_override, || (0..REPEATS).map(|_| product()).collect::<Vec<_>>());
            if launched.is_none_or(|launched| launched.tile != tile.name) {
                continue;
            }
            ran.push(tile.name);
            for (repeat, found) in found.into_iter().enumerate() {
                let found = found?;
                if let Some(at) = (0..expected.len()).find(|&at| found[at] != expected[at]) {
                    let (row, column) = (at / n, at % n);
                    faults.push(format!(
                        "{operands:?} {} {m} x {n} x {k} {layouts:?} in {splits}, run {repeat}: {} instead of {} at [{row}, {column}]",
                        tile.name, found[at], expected[at]
                    ));
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Returns the tiles for such operands that did not run, except those for unaligned rows.
pub(super) fn idle(device: &Device, operands: Operands, ran: &[&'static str]) -> Vec<&'static str> {
    let backend: &CudaBackend = device.downcast().expect("the CUDA backend itself");
    let names = tiles::of(backend, operands).into_iter().map(|tile| tile.name);
    names.filter(|name| !ran.contains(name) && !name.ends_with("_elementwise")).collect()
}

fn exact(operands: &[Operands]) -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let (mut faults, mut idle_tiles) = (Vec::new(), Vec::new());
    let all: Vec<[usize; 3]> = SIZES.into_iter().chain(LARGE).collect();
    for &operands in operands {
        let mut ran = Vec::new();
        for layouts in LAYOUTS {
            for &sizes in unless_short(&all[..], &FEW[..]) {
                by_every_tile(device, operands, sizes, layouts, &mut faults, &mut ran)?;
            }
        }
        idle_tiles.extend(idle(device, operands, &ran));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(idle_tiles.is_empty() || !has_tensor_maps(), "no product ran by {idle_tiles:?}");
    Ok(())
}

#[test]
fn products_of_half_precision_are_exact_by_every_tile() -> Result<()> {
    exact(&[Operands::Of(DType::BF16), Operands::Of(DType::F16)])
}

#[test]
fn products_of_f32_are_exact_by_every_tile() -> Result<()> {
    exact(&[Operands::Of(DType::F32), Operands::Bf16x6])
}

#[test]
fn products_in_tf32_are_exact_by_every_tile() -> Result<()> {
    exact(&[Operands::Tf32])
}

#[test]
fn products_of_f64_are_exact_by_every_tile() -> Result<()> {
    exact(&[Operands::Of(DType::F64)])
}

/// Two batch axes, only one of which b has. Partial tiles at the lower and right edge, more tiles
/// than blocks, and all epilogues of a plain product are tested.
const BATCH: [usize; 2] = [2, 3];
const SIZES_IN_BATCHES: [[usize; 3]; 3] = [[136, 264, 72], [72, 520, 584], [520, 1544, 264]];

/// Products of a batch by every tile, with a bias and relu: of integers, which are exact.
#[test]
fn batches_are_exact_by_every_tile() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let backend: &CudaBackend = device.downcast().expect("the CUDA backend itself");
    let (cpu, dtype, [slow, fast]) = (ternion::cpu()?, DType::BF16, BATCH);
    for &[m, n, k] in unless_short(&SIZES_IN_BATCHES[..], &SIZES_IN_BATCHES[1..2]) {
        let all = |dtype: DType, device: &Device| -> Result<[Tensor; 3]> {
            Ok([
                integers([slow * fast * m, k], OperandLayout::Rows, dtype, device, 7)?
                    .reshape([slow, fast, m, k])?,
                integers([fast * k, n], OperandLayout::Rows, dtype, device, 8)?.reshape([fast, k, n])?,
                integers([1, n], OperandLayout::Rows, dtype, device, 9)?.reshape([n])?,
            ])
        };
        let product = |[a, b, bias]: &[Tensor; 3]| {
            let options = MatmulOptions {
                bias: Some(bias),
                activation: Some(UnaryOp::Relu),
                ..MatmulOptions::default()
            };
            a.matmul_with(b, options)?.to_dtype(dtype)?.to_vec_f64()
        };
        let expected = product(&all(DType::F64, &cpu)?)?;
        let operands = all(dtype, device)?;
        for tile in tiles::of(backend, Operands::Of(dtype)) {
            for splits in [1, 3] {
                let tile_override = TileOverride { tile: Some(tile.name), splits: Some(splits) };
                let (found, launched) = with_tile(tile_override, || product(&operands));
                let launched = launched.map_or("none", |launched| launched.tile);
                assert!(found? == expected, "{} {m} x {n} x {k} in {splits}, by {launched}", tile.name);
            }
        }
    }
    Ok(())
}

/// Few rows, for which only some of the blocks are used; and several waves, so that blocks process
/// several splits.
const SIZES_IN_PARTS: [[usize; 3]; 3] = [[16, 520, 4096], [264, 520, 2056], [1288, 1544, 1032]];
const PARTS: [usize; 4] = [2, 3, 5, 8];
const RUNS: usize = 20;

/// Whichever blocks add the partial sums, each sum is added once and in order: integers are exact,
/// other numbers have the same bits in every run. Products are queued one after another, so that
/// synchronization words are reused immediately.
#[test]
fn partial_sums_are_added_in_order_by_any_block() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let backend: &CudaBackend = device.downcast().expect("the CUDA backend itself");
    let (cpu, dtype, runs) = (ternion::cpu()?, DType::BF16, unless_short(RUNS, 3));
    for &[m, n, k] in unless_short(&SIZES_IN_PARTS[..], &SIZES_IN_PARTS[..1]) {
        let full = |dtype: DType, device: &Device| -> Result<[Tensor; 2]> {
            Ok([
                integers([m, k], OperandLayout::Columns, dtype, device, 3)?,
                integers([k, n], OperandLayout::Rows, dtype, device, 4)?,
            ])
        };
        let [a, b] = full(DType::F64, &cpu)?;
        let expected = a.matmul(&b)?.to_dtype(dtype)?.to_vec_f64()?;
        let [a, b] = full(dtype, device)?;
        let random = |shape: [usize; 2], seed| {
            Tensor::from_vec(numbers(shape[0] * shape[1], seed), shape, &cpu)?
                .to_dtype(dtype)?
                .to_device(device)
        };
        let (c, d) = (random([m, k], 5)?, random([k, n], 6)?);
        for tile in tiles::of(backend, Operands::Of(dtype)) {
            for &splits in unless_short(&PARTS[..], &PARTS[..2]) {
                let tile_override = TileOverride { tile: Some(tile.name), splits: Some(splits) };
                let both = || -> Result<(Tensor, Tensor)> { Ok((a.matmul(&b)?, c.matmul(&d)?)) };
                let (results, launched) =
                    with_tile(tile_override, || (0..runs).map(|_| both()).collect::<Result<Vec<_>>>());
                if launched.is_none_or(|launched| launched.tile != tile.name) {
                    continue;
                }
                let results = results?;
                let first = results[0].1.to_bytes()?;
                for (run, (exact, real)) in results.iter().enumerate() {
                    let what = format!("{} {m} x {n} x {k} in {splits}, run {run}", tile.name);
                    assert!(exact.to_vec_f64()? == expected, "{what}: integers");
                    assert!(real.to_bytes()? == first, "{what}: other bits");
                }
            }
        }
    }
    Ok(())
}
