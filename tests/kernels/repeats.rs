//! Products and attention have the same bits in every run, however long the parts of a kernel take. `TERNION_REPEATS=1000` runs each a thousand times, and with
//! `TERNION_CUDA_DELAYS=1` threads wait for random times where they wait for each other.

use super::{both_ways, gpu, tensor};
use crate::beside;
use ternion::prelude::*;
use ternion_core::UnaryOp;
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::attention::{Attention, AttentionConfig};
use ternion_core::ops::matmul::{Epilogue, Matmul, MatmulOptions};
use ternion_cuda::CudaBackend;
use ternion_cuda::tiles::{self, Operands, Wanted, with_tile};

const REPEATS: usize = 20;

fn repeats() -> usize {
    match std::env::var("TERNION_REPEATS") {
        Ok(text) => match text.parse() {
            Ok(count) if count > 1 => count,
            _ => panic!("TERNION_REPEATS: expected a number above 1, got {text:?}"),
        },
        Err(_) => REPEATS,
    }
}

/// Adds to `faults` how many numbers of later runs are not those of the first one, if there are such. Compared on the device, so that runs follow each other.
fn compare_runs(faults: &mut Vec<String>, what: &str, run: impl Fn() -> Result<Vec<Tensor>>) -> Result<()> {
    let first = run()?;
    let mut differing: Option<Tensor> = None;
    for _ in 1..repeats() {
        for (one, other) in first.iter().zip(run()?) {
            let count = one.ne(&other)?.to_dtype(DType::F32)?.sum(..)?;
            differing = Some(match differing {
                Some(sum) => sum.add(&count)?,
                None => count,
            });
        }
    }
    let differing = differing.map_or(Ok(0.0), |sum| sum.to_vec_f64().map(|numbers| numbers[0]))?;
    if differing > 0.0 {
        faults.push(format!("{what}: {differing} numbers"));
    }
    Ok(())
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "not the same in every run:\n{}", faults.join("\n"));
}

#[test]
fn products_by_every_tile() -> Result<()> {
    let _beside = beside();
    let Some(device) = gpu() else { return Ok(()) };
    let backend: &CudaBackend = device.downcast().expect("the CUDA backend itself");
    let (mut faults, mut ran) = (Vec::new(), 0);
    for operands in [Operands::Of(DType::BF16), Operands::Tf32, Operands::Bf16x6] {
        let dtype = if let Operands::Of(dtype) = operands { dtype } else { DType::F32 };
        let options = MatmulOptions {
            tf32: operands == Operands::Tf32,
            bf16x6: operands == Operands::Bf16x6,
            ..MatmulOptions::default()
        };
        // Several tiles for a block; one tile for each; few rows.
        for [m, n, k] in [[1288, 1544, 520], [264, 520, 2056], [16, 1032, 1032]] {
            let (a, b) = (tensor(&[m, k], dtype, device, 1)?, tensor(&[k, n], dtype, device, 2)?);
            for tile in tiles::of(backend, operands) {
                for splits in [1, 3] {
                    let wanted = Wanted { tile: Some(tile.name), splits: Some(splits) };
                    let what = format!("{m} x {n} x {k} by {} in {splits}", tile.name);
                    let run = || Ok(vec![a.matmul_with(&b, options)?]);
                    let (one, taken) = with_tile(wanted, run);
                    one?;
                    // Products that a tile is not for come by another one.
                    if taken.is_some_and(|taken| taken.tile == tile.name) {
                        ran += 1;
                        with_tile(wanted, || compare_runs(&mut faults, &what, run)).0?;
                    }
                }
            }
        }
    }
    assert!(ran > 0, "no product ran by the tile that was wanted");
    none(&faults);
    Ok(())
}

#[test]
fn fused_products() -> Result<()> {
    let _beside = beside();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let [m, n, k] = [1288, 1544, 520];
    let half = |shape: &[usize], seed| tensor(shape, DType::BF16, device, seed);
    let (a, b, bias) = (half(&[m, k], 1)?, half(&[n, k], 2)?.t()?, half(&[n], 3)?);
    let (z, across) = (half(&[m, n], 4)?, half(&[k, m], 5)?.t()?);
    let residual = tensor(&[m, n], DType::F32, device, 6)?;
    let wide = half(&[k, n], 7)?;
    let gelu = Some(UnaryOp::GeluTanh);
    let scaled = Epilogue { alpha: 0.02, ..Epilogue::NONE };
    let products: [(&str, Epilogue, Vec<&Tensor>); 4] = [
        (
            "pre-activation",
            Epilogue { bias: true, activation: gelu, pre_activation: true, ..scaled },
            vec![&a, &b, &bias],
        ),
        (
            "gradient of an activation",
            Epilogue { activation_grad: gelu, column_sums: true, ..scaled },
            vec![&a, &wide, &z],
        ),
        (
            "residual",
            Epilogue { residual: true, out_dtype: Some(DType::F32), ..scaled },
            vec![&a, &b, &residual],
        ),
        ("sums of rows", Epilogue { row_sums_of_a: true, ..Epilogue::NONE }, vec![&across, &wide]),
    ];
    for tile in ["wgmma_128x256x64", "wgmma_128x192x64_ping_pong", "wgmma_128x128x64_ping_pong"] {
        for (name, epilogue, inputs) in &products {
            let wanted = Wanted { tile: Some(tile), splits: None };
            let run = || Ok(apply(Matmul { epilogue: *epilogue, ..Matmul::PLAIN }, inputs)?.into_vec());
            with_tile(wanted, || compare_runs(&mut faults, &format!("{name} by {tile}"), run)).0?;
        }
    }
    none(&faults);
    Ok(())
}

/// Forward and backward, of both kinds of gradient kernels.
#[test]
fn attention() -> Result<()> {
    let _beside = beside();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for width in [64, 128] {
        for causal in [false, true] {
            let inputs = [1, 2, 3].map(|seed| tensor(&[2, 12, 520, width], DType::BF16, device, seed));
            let [q, k, v] = inputs;
            let inputs = [q?, k?, v?];
            let config = AttentionConfig { scale: 0.1, causal, window: None, mask: false, dropout: None };
            let attend = |inputs: &[Tensor]| {
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                apply_one(Attention { config }, &inputs)
            };
            let what = format!("attention of width {width}, causal: {causal}");
            compare_runs(&mut faults, &what, || both_ways(&inputs, device, attend))?;
        }
    }
    none(&faults);
    Ok(())
}
