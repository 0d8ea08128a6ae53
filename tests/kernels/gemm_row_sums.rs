//! Sums of the rows of a, fused with the product. For small integers they are exact by every tile
//! that supports them, with and without split-K; the tests check that the tile's kernel computes
//! them. Other tiles compute a product and a separate sum. Bits are the same in every run. Also the
//! gradients of linear layers that use such sums.

use super::{
    assert_no_faults, compare, forward_and_backward, gpu, has_warpgroups, numbers, tensor, unless_short,
};
use crate::lock_shared;
use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_cuda::tiles::{TileOverride, with_tile};

/// Tiles: the kernels of the first [`SUMMING`] compute row sums, those of the last two do not.
const TILES: [&str; 5] = [
    "wgmma_128x256x64",
    "wgmma_128x192x64_ping_pong",
    "wgmma_128x128x64_ping_pong",
    "wgmma_64x128x64_ping_pong",
    "mma_64x64x64",
];
const SUMMING: usize = 3;
/// m, n, k: edges in all axes; fewer stages than tiles in a row; one tile in a row, which has all
/// stages; more tiles than blocks; long sums of few rows.
const SIZES: [[usize; 3]; 8] = [
    [136, 264, 200],
    [264, 520, 2056],
    [1288, 1544, 136],
    [72, 1544, 40],
    [264, 64, 1032],
    [2696, 1672, 72],
    [8, 24, 8200],
    [131, 136, 203],
];
/// The same for short tests.
const FEW: [[usize; 3]; 3] = [[136, 264, 200], [264, 64, 1032], [131, 136, 203]];

/// Returns whether the kernel of a tile computes the row sums: only in f16 and bf16, and only if
/// rows of m elements are 16-byte aligned.
fn is_fused(tile: &str, [m, ..]: [usize; 3], dtype: DType) -> bool {
    dtype.is_half() && TILES[..SUMMING].contains(&tile) && m.is_multiple_of(8)
}

/// Returns integers from -3 to 3 on the CPU. a is in column-major order: the first m elements of
/// rows whose length is a multiple of eight.
fn operands([m, n, k]: [usize; 3]) -> Result<[Tensor; 2]> {
    let cpu = ternion::cpu()?;
    let width = m.next_multiple_of(8);
    let integers = |shape: [usize; 2], seed| {
        Tensor::from_vec(numbers(shape[0] * shape[1], seed), shape, &cpu)?.round()?.copy()
    };
    Ok([integers([k, width], 1)?, integers([k, n], 2)?])
}

fn product(
    [a, b]: &[Tensor; 2],
    m: usize,
    dtype: DType,
    out_dtype: Option<DType>,
    device: &Device,
) -> Result<Vec<Tensor>> {
    let epilogue = Epilogue { row_sums_of_a: true, out_dtype, ..Epilogue::NONE };
    let on_device = |x: &Tensor| x.to_dtype(dtype)?.to_device(device);
    let a = on_device(a)?.narrow(1, 0, m)?.t()?;
    Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&a, &on_device(b)?])?.into_vec())
}

/// Returns what is wrong with the product of integers and its sums by one tile, with this many
/// splits.
fn faults_of(
    sizes: [usize; 3],
    dtype: DType,
    out_dtype: Option<DType>,
    tile_override: TileOverride,
    device: &Device,
) -> Result<Option<String>> {
    let ab = operands(sizes)?;
    let expected = product(&ab, sizes[0], DType::F64, None, &ternion::cpu()?)?;
    let run = || product(&ab, sizes[0], dtype, out_dtype, device);
    let (found, launched) = with_tile(tile_override, || (0..2).map(|_| run()).collect::<Result<Vec<_>>>());
    if let Some(tile) = tile_override.tile.filter(|_| has_warpgroups(device)) {
        let adds_up = launched.is_some_and(|launched| launched.tile == tile && launched.is_fused);
        if adds_up != is_fused(tile, sizes, dtype) {
            let what = format!("{dtype:?} to {out_dtype:?}, {sizes:?}");
            return Ok(Some(format!("{what} by {launched:?}, {tile} wanted: adds up is {adds_up}")));
        }
    }
    for found in found? {
        let dtypes = [found[0].dtype(), found[1].dtype()];
        if dtypes != [out_dtype.unwrap_or(dtype); 2] {
            return Ok(Some(format!("product and sums of {dtype:?} to {out_dtype:?} are {dtypes:?}")));
        }
        for (what, found, expected) in
            [("product", &found[0], &expected[0]), ("sums", &found[1], &expected[1])]
        {
            let expected = expected.to_dtype(found.dtype())?.to_vec_f64()?;
            let found = found.to_vec_f64()?;
            if let Some(at) = (0..expected.len()).find(|&at| found[at] != expected[at]) {
                let (found, expected) = (found[at], expected[at]);
                return Ok(Some(format!(
                    "{what} of {dtype:?} to {out_dtype:?}, {sizes:?}, by {launched:?}: {found} instead of {expected} at {at}"
                )));
            }
        }
    }
    Ok(None)
}

#[test]
fn sums_of_rows_are_exact_by_every_tile() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for dtype in [DType::BF16, DType::F16] {
        for out_dtype in [None, Some(DType::F32)] {
            for &sizes in unless_short(&SIZES[..], &FEW[..]) {
                for tile in TILES {
                    for splits in [1, 3, 5] {
                        let tile_override = TileOverride { tile: Some(tile), splits: Some(splits) };
                        faults.extend(faults_of(sizes, dtype, out_dtype, tile_override, device)?);
                    }
                }
                faults.extend(faults_of(sizes, dtype, out_dtype, TileOverride::default(), device)?);
            }
        }
    }
    for dtype in [DType::F32, DType::F64] {
        for &sizes in unless_short(&SIZES[..], &FEW[..]) {
            faults.extend(faults_of(sizes, dtype, None, TileOverride::default(), device)?);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// With numbers whose sums are rounded.
#[test]
fn sums_of_rows_have_the_same_bits_in_every_run() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let [m, n, k] = [1288, 1544, 2056];
    let (cpu, runs) = (ternion::cpu()?, unless_short(20, 2));
    let random = |shape: [usize; 2], seed| Tensor::from_vec(numbers(shape[0] * shape[1], seed), shape, &cpu);
    let ab = [random([k, m], 1)?, random([k, n], 2)?];
    for tile in TILES {
        for splits in [1, 3] {
            let tile_override = TileOverride { tile: Some(tile), splits: Some(splits) };
            let run = || -> Result<Vec<Vec<u8>>> {
                product(&ab, m, DType::BF16, Some(DType::F32), device)?.iter().map(Tensor::to_bytes).collect()
            };
            let (results, _) =
                with_tile(tile_override, || (0..runs).map(|_| run()).collect::<Result<Vec<_>>>());
            let results = results?;
            assert!(results.iter().all(|result| *result == results[0]), "{tile} in {splits}");
        }
    }
    Ok(())
}

/// Rows, width and outputs of layers.
const LAYERS: [[usize; 3]; 4] = [[2048, 768, 776], [3000, 264, 1032], [70, 40, 72], [33, 5, 7]];

/// Compares the output and all gradients, by kernels with sums, and for rows and widths without
/// such kernels.
#[test]
fn linear_layers_with_a_bias_both_ways() -> Result<()> {
    let mut faults = String::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        for &[rows, width, outputs] in unless_short(&LAYERS[..], &LAYERS[2..]) {
            compare(&mut faults, &format!("{precision} {rows} x {width} to {outputs}"), |device| {
                let scale = 1.0 / (width as f64).sqrt();
                let inputs = [
                    tensor(&[rows, width], DType::F32, device, 1)?,
                    tensor(&[outputs, width], DType::F32, device, 2)?.mul_scalar(scale)?,
                    tensor(&[outputs], DType::F32, device, 3)?,
                ];
                let results = forward_and_backward(&inputs, device, |x| {
                    with_precision(precision, || x[0].linear(&x[1], Some(&x[2])))
                })?;
                // Sums are rounded to half precision, which devices may round to either neighbor.
                results.iter().map(|result| result.to_dtype(precision.dtype())).collect()
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}
