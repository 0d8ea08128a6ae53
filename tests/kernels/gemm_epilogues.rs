//! Products fused with more than a bias: activations with their pre-activation, the gradients of activations, residuals. By every fused tile, and where kernels of their own follow the product.

use super::{both_ways, compare, difference, gpu, none_wrong, tensor};
use crate::beside;
use std::fmt::Write;
use ternion::prelude::*;
use ternion_core::UnaryOp;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, LinearParameters, Matmul};
use ternion_cuda::tiles::{Wanted, with_tile};

/// Rows, columns and inner length: edges in all axes, several tiles for a block, less than a tile; sums in parts and lines that begin anywhere, which are not fused.
const SIZES: [[usize; 3]; 5] =
    [[1000, 776, 1000], [2056, 1544, 72], [72, 136, 200], [64, 72, 16384], [75, 131, 203]];
fn sizes_and_activations() -> impl Iterator<Item = ([usize; 3], UnaryOp)> {
    SIZES.into_iter().flat_map(|sizes| ACTIVATIONS.map(|op| (sizes, op)))
}

/// The tiles with fused epilogues.
const FUSED_TILES: [&str; 3] =
    ["wgmma_128x256x64", "wgmma_128x192x64_ping_pong", "wgmma_128x128x64_ping_pong"];
const ACTIVATIONS: [UnaryOp; 3] = [UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu];

/// As [`compare`], on the GPU by each of the tiles with fused epilogues, and as the choice has it.
fn compare_by_tiles(
    faults: &mut String,
    what: &str,
    f: impl Fn(&Device) -> Result<Vec<Tensor>>,
) -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let _beside = beside();
    let expected = f(&ternion::cpu()?)?;
    let by_tile = FUSED_TILES.map(|name| Wanted { tile: Some(name), splits: None });
    for wanted in by_tile.into_iter().chain([Wanted::default()]) {
        let (found, taken) = with_tile(wanted, || (0..2).map(|_| f(gpu)).collect::<Result<Vec<_>>>());
        let [found, again] = &found?[..] else { unreachable!("two runs") };
        for (at, expected) in expected.iter().enumerate() {
            let what = format!("{what} by {taken:?}, result {at}");
            if found[at].to_vec_f64()? != again[at].to_vec_f64()? {
                let _ = writeln!(faults, "{what}: twice not the same");
            }
            if let Some(text) = difference(&found[at], expected)? {
                let _ = writeln!(faults, "{what}: {text}");
            }
        }
    }
    Ok(())
}

/// Sums of about 1, where activations bend.
fn alpha(k: usize) -> f64 {
    1.0 / (3.0 * (k as f64).sqrt())
}

#[test]
fn activations_with_their_pre_activation() -> Result<()> {
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for ([m, n, k], op) in sizes_and_activations() {
            for bias in [false, true] {
                let what = format!("{op:?} of {dtype:?} {m} x {n} x {k}, bias: {bias}");
                compare_by_tiles(&mut faults, &what, |device| {
                    let epilogue = Epilogue {
                        bias,
                        activation: Some(op),
                        alpha: alpha(k),
                        pre_activation: true,
                        ..Epilogue::NONE
                    };
                    let a = tensor(&[m, k], dtype, device, 1)?;
                    let b = tensor(&[n, k], dtype, device, 2)?.t()?;
                    let vector = tensor(&[n], dtype, device, 3)?;
                    let inputs = [&a, &b, &vector];
                    let inputs = if bias { &inputs[..] } else { &inputs[..2] };
                    Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, inputs)?.into_vec())
                })?;
            }
        }
    }
    none_wrong(&faults);
    Ok(())
}

#[test]
fn gradients_of_activations() -> Result<()> {
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for ([m, n, k], op) in sizes_and_activations() {
            for column_sums in [true, false] {
                let what = format!("gradient of {op:?}, {dtype:?} {m} x {n} x {k}, sums: {column_sums}");
                compare_by_tiles(&mut faults, &what, |device| {
                    let epilogue = Epilogue {
                        activation_grad: Some(op),
                        alpha: alpha(k),
                        column_sums,
                        ..Epilogue::NONE
                    };
                    let a = tensor(&[m, k], dtype, device, 1)?;
                    let b = tensor(&[k, n], dtype, device, 2)?;
                    let z = tensor(&[m, n], dtype, device, 3)?;
                    let results = apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&a, &b, &z])?;
                    assert_eq!(results.len(), 1 + usize::from(column_sums));
                    // The sums are of rounded numbers, of which devices round some to either neighbor.
                    results.iter().map(|result| result.to_dtype(dtype)).collect()
                })?;
            }
        }
    }
    none_wrong(&faults);
    Ok(())
}

#[test]
fn residuals_of_f32() -> Result<()> {
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for [m, n, k] in SIZES {
            for (a_turned, b_turned, bias) in
                [(false, true, true), (false, false, false), (true, false, false)]
            {
                let what = format!("residual of {dtype:?} {m} x {n} x {k} {a_turned} {b_turned}");
                compare_by_tiles(&mut faults, &what, |device| {
                    let matrix = |rows: usize, columns: usize, turned: bool, seed| match turned {
                        true => tensor(&[columns, rows], dtype, device, seed)?.t(),
                        false => tensor(&[rows, columns], dtype, device, seed),
                    };
                    let out_dtype = dtype.is_half().then_some(DType::F32);
                    let epilogue = Epilogue { bias, residual: true, out_dtype, ..Epilogue::NONE };
                    let (a, b) = (matrix(m, k, a_turned, 1)?, matrix(k, n, b_turned, 2)?);
                    let (vector, residual) =
                        (tensor(&[n], DType::F32, device, 3)?, tensor(&[m, n], DType::F32, device, 4)?);
                    let mut inputs = vec![&a, &b];
                    inputs.extend(bias.then_some(&vector));
                    inputs.push(&residual);
                    Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &inputs)?.into_vec())
                })?;
            }
        }
    }
    none_wrong(&faults);
    Ok(())
}

/// A feed-forward layer with its residual, in mixed precision and without: output and all gradients.
#[test]
fn feed_forward_layers_both_ways() -> Result<()> {
    let mut faults = String::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        for op in [UnaryOp::Relu, UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu] {
            for [rows, width, hidden] in [[3072, 256, 768], [70, 40, 72]] {
                // Of many pre-activations some are so near to 0 that devices differ about their sign.
                if op == UnaryOp::Relu && rows > 1000 {
                    continue;
                }
                let what = format!("{precision} {op:?} {rows} x {width} x {hidden}");
                compare(&mut faults, &what, |device| {
                    let scaled = |shape: &[usize], fan_in: usize, seed| {
                        tensor(shape, DType::F32, device, seed)?.mul_scalar(0.5 / (fan_in as f64).sqrt())
                    };
                    let inputs = [
                        tensor(&[rows, width], DType::F32, device, 1)?,
                        scaled(&[hidden, width], width, 2)?,
                        scaled(&[hidden], 1, 3)?,
                        scaled(&[width, hidden], hidden, 4)?,
                        scaled(&[width], 1, 5)?,
                        scaled(&[width, width], width, 6)?,
                    ];
                    let results = both_ways(&inputs, device, |x| {
                        let first = LinearParameters { weight: &x[1], bias: Some(&x[2]) };
                        let second = LinearParameters { weight: &x[3], bias: Some(&x[4]) };
                        with_precision(precision, || {
                            let projected = LinearParameters { weight: &x[5], bias: None };
                            let h = x[0].linear_add(projected, &x[0])?;
                            let normal = h.layer_norm_as(half_of(precision), None, None, 1e-5)?;
                            normal.feed_forward(first, op, second, Some(&h))
                        })
                    })?;
                    // What is added up in f32 has been rounded to half precision between the products, by devices some to either neighbor.
                    let dtype = half_of(precision).unwrap_or(DType::F32);
                    results.iter().map(|result| result.to_dtype(dtype)).collect()
                })?;
            }
        }
    }
    none_wrong(&faults);
    Ok(())
}

fn half_of(precision: Precision) -> Option<DType> {
    Some(precision.dtype()).filter(|dtype| dtype.is_half())
}
