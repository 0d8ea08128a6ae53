//! Products fused with more than a bias: activations with their pre-activation, the gradients of
//! activations, residuals. Every tile with fused epilogues is tested, and the tests check that its
//! kernel runs. Products that cannot be fused are followed by separate kernels.

use super::gemm::{OperandLayout, integers, matrix};
use super::{
    assert_no_faults, compare, difference_with_allowance, forward_and_backward, gpu, has_warpgroups,
    is_short, tensor, unless_short,
};
use crate::lock_shared;
use std::fmt::Write;
use ternion::prelude::*;
use ternion_core::UnaryOp;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, LinearParameters, Matmul};
use ternion_cuda::tiles::{LaunchedTile, TileOverride, with_tile};

/// Rows, columns and inner size: edges in all axes, several tiles for a block, less than a tile;
/// sums that use split-K except with a fused tile; and unaligned rows, which are not fused.
const SIZES: [[usize; 3]; 5] =
    [[1000, 776, 1000], [2056, 1544, 72], [72, 136, 200], [64, 72, 16384], [75, 131, 203]];
/// The same for short tests.
const FEW: [[usize; 3]; 3] = [[2056, 1544, 72], [72, 136, 200], [75, 131, 203]];

fn sizes() -> &'static [[usize; 3]] {
    if is_short() { &FEW } else { &SIZES }
}

fn sizes_and<const N: usize>(activations: [UnaryOp; N]) -> impl Iterator<Item = ([usize; 3], UnaryOp)> {
    sizes().iter().flat_map(move |&sizes| activations.map(|op| (sizes, op)))
}

/// The tiles with fused epilogues.
pub(super) const FUSED_TILES: [&str; 3] =
    ["wgmma_128x256x64", "wgmma_128x192x64_ping_pong", "wgmma_128x128x64_ping_pong"];
/// Activations that are fused with their pre-activation, and activations whose gradients are fused.
pub(super) const ACTIVATIONS: [UnaryOp; 3] = [UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu];
pub(super) const GRADIENTS: [UnaryOp; 4] =
    [UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu, UnaryOp::Relu];

/// Returns an override for each of the tiles with fused epilogues, and none for the default choice.
fn every_override() -> impl Iterator<Item = TileOverride> {
    let by_tile = FUSED_TILES.map(|name| TileOverride { tile: Some(name), splits: Some(1) });
    by_tile.into_iter().chain([TileOverride::default()])
}

/// The dtype of a product's operands; its rows, columns and inner size.
#[derive(Clone, Copy)]
struct Product {
    dtype: DType,
    sizes: [usize; 3],
}

impl Product {
    /// Returns whether the fused tiles can compute the product: tensor maps need rows that are
    /// 16-byte aligned.
    fn is_fused(self) -> bool {
        self.dtype.is_half() && self.sizes.iter().all(|size| size.is_multiple_of(8))
    }

    /// Returns the fraction of a sum that tensor cores may lose: after each 16 elements of the
    /// inner axis they truncate the f32 sum of half-precision products toward zero, by less than
    /// 2^-23 of it. Sums of 16,384 elements without split-K have lost 4e-5 of their root mean
    /// square.
    fn truncation(self) -> f64 {
        let [_, _, inner] = self.sizes;
        if self.dtype.is_half() { inner.div_ceil(16) as f64 * 2f64.powi(-23) } else { 0.0 }
    }
}

/// Adds to `faults` if a product that cannot be fused was fused, or if a tile that can fuse it did
/// not.
fn check_is_fused(
    faults: &mut String,
    what: &str,
    is_fused: bool,
    tile_override: TileOverride,
    launched: Option<LaunchedTile>,
) {
    let Some(tile) = tile_override.tile else { return };
    let found = launched.is_some_and(|launched| launched.tile == tile && launched.is_fused);
    if found != is_fused {
        let _ = writeln!(faults, "{what} by {launched:?}, {tile} wanted: fused is {found}, not {is_fused}");
    }
}

/// Runs [`compare`] with each of the tiles with fused epilogues on the GPU, and with the default
/// choice. The tiles must fuse `product` if they can.
fn compare_by_tiles(
    faults: &mut String,
    what: &str,
    product: Product,
    f: impl Fn(&Device) -> Result<Vec<Tensor>>,
) -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    let expected = f(&ternion::cpu()?)?;
    for tile_override in every_override() {
        let (found, launched) =
            with_tile(tile_override, || (0..2).map(|_| f(gpu)).collect::<Result<Vec<_>>>());
        check_is_fused(faults, what, product.is_fused() && has_warpgroups(gpu), tile_override, launched);
        let [found, again] = &found?[..] else { unreachable!("two runs") };
        for (at, expected) in expected.iter().enumerate() {
            let what = format!("{what} by {launched:?}, result {at}");
            if found[at].to_bytes()? != again[at].to_bytes()? {
                let _ = writeln!(faults, "{what}: twice not the same");
            }
            if let Some(text) = difference_with_allowance(&found[at], expected, product.truncation())? {
                let _ = writeln!(faults, "{what}: {text}");
            }
        }
    }
    Ok(())
}

/// Scales sums to about 1, where activations are nonlinear.
fn alpha(k: usize) -> f64 {
    1.0 / (3.0 * (k as f64).sqrt())
}

#[test]
fn activations_with_their_pre_activation() -> Result<()> {
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for ([m, n, k], op) in sizes_and(ACTIVATIONS) {
            for bias in [false, true] {
                let what = format!("{op:?} of {dtype:?} {m} x {n} x {k}, bias: {bias}");
                compare_by_tiles(&mut faults, &what, Product { dtype, sizes: [m, n, k] }, |device| {
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
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn gradients_of_activations() -> Result<()> {
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for ([m, n, k], op) in sizes_and(GRADIENTS) {
            for column_sums in [true, false] {
                let what = format!("gradient of {op:?}, {dtype:?} {m} x {n} x {k}, sums: {column_sums}");
                compare_by_tiles(&mut faults, &what, Product { dtype, sizes: [m, n, k] }, |device| {
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
                    // The sums add rounded numbers, which devices may round to either neighbor. So
                    // the sums of each device are compared with its own outputs.
                    let sums = results.get(1).map(|sums| are_column_sums(sums, &results[0])).transpose()?;
                    Ok([results[0].clone()].into_iter().chain(sums).collect())
                })?;
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Returns 1 for each column of `y` whose sum equals `sums` up to rounding, else 0. Each of the m -
/// 1 additions in f32, in any order, is off by at most 2^-24 of its result, which is at most the
/// sum of the magnitudes.
fn are_column_sums(sums: &Tensor, y: &Tensor) -> Result<Tensor> {
    let y = y.to_dtype(DType::F64)?;
    let limit = y.abs()?.sum(0)?.mul_scalar(y.dims()[0] as f64 * 2f64.powi(-24))?;
    let difference = sums.to_dtype(DType::F64)?.sub(&y.sum(0)?)?.abs()?;
    difference.le(&limit)?.to_dtype(DType::F32)
}

/// A pre-activation so large that the gradient of each activation differs from 1 by less than 2^-14
/// there, even if its exponential is off by one ulp. A product with this gradient rounds to the
/// other factor.
const LARGE: f64 = 16.0;

/// Returns a product of integers times such gradients, and the sums of its columns.
fn gradient_of_integers(
    [m, n, k]: [usize; 3],
    op: UnaryOp,
    dtype: DType,
    device: &Device,
) -> Result<[Vec<f64>; 2]> {
    let epilogue = Epilogue { activation_grad: Some(op), column_sums: true, ..Epilogue::NONE };
    let a = integers([m, k], OperandLayout::Rows, dtype, device, 1)?;
    let b = integers([k, n], OperandLayout::Rows, dtype, device, 2)?;
    let z = Tensor::full([m, n], LARGE, dtype, device)?;
    let results = apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&a, &b, &z])?;
    Ok([results[0].to_vec_f64()?, results[1].to_vec_f64()?])
}

/// Returns the plain product of the same integers, computed in f64 by the CPU and rounded once, and
/// the sums of its columns.
fn product_of_integers([m, n, k]: [usize; 3], dtype: DType) -> Result<[Vec<f64>; 2]> {
    let cpu = ternion::cpu()?;
    let a = integers([m, k], OperandLayout::Rows, DType::F64, &cpu, 1)?;
    let b = integers([k, n], OperandLayout::Rows, DType::F64, &cpu, 2)?;
    let y = a.matmul(&b)?.to_dtype(dtype)?.to_dtype(DType::F64)?;
    Ok([y.to_vec_f64()?, y.sum(0)?.to_vec_f64()?])
}

/// Sums of integers are the same in every order, so a row that is missing or counted twice is
/// detected.
#[test]
fn sums_of_columns_are_exact() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16] {
        for &sizes in sizes() {
            let expected = product_of_integers(sizes, dtype)?;
            let is_fused = Product { dtype, sizes }.is_fused() && has_warpgroups(gpu);
            for (op, tile_override) in
                GRADIENTS.into_iter().flat_map(|op| every_override().map(move |one| (op, one)))
            {
                let what = format!("{op:?}, {dtype:?} {sizes:?}");
                let (found, launched) =
                    with_tile(tile_override, || gradient_of_integers(sizes, op, dtype, gpu));
                check_is_fused(&mut faults, &what, is_fused, tile_override, launched);
                for (part, (found, expected)) in ["y", "sums"].iter().zip(found?.iter().zip(&expected)) {
                    if let Some(at) = (0..expected.len()).find(|&at| found[at] != expected[at]) {
                        let (found, expected) = (found[at], expected[at]);
                        let _ = writeln!(
                            faults,
                            "{what}, {part} by {launched:?}: {found}, not {expected} at {at}"
                        );
                    }
                }
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Residuals are added to the output, in a new tensor or in place.
#[test]
fn residuals_and_accumulators_of_f32() -> Result<()> {
    use OperandLayout::{Columns, Rows};
    // The layouts of the operands, whether there is a bias, whether the sum is in place.
    const CASES: [([OperandLayout; 2], bool, bool); 5] = [
        ([Rows, Columns], true, false),
        ([Rows, Rows], false, false),
        ([Columns, Rows], false, false),
        ([Columns, Rows], false, true),
        ([Rows, Columns], true, true),
    ];
    let mut faults = String::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for (&[m, n, k], (layouts, bias, accumulate)) in
            sizes().iter().flat_map(|size| CASES.map(|form| (size, form)))
        {
            let what = format!("{dtype:?} {m} x {n} x {k} {layouts:?}, in place: {accumulate}");
            compare_by_tiles(&mut faults, &what, Product { dtype, sizes: [m, n, k] }, |device| {
                let out_dtype = dtype.is_half().then_some(DType::F32);
                let epilogue =
                    Epilogue { bias, residual: !accumulate, accumulate, out_dtype, ..Epilogue::NONE };
                let a = matrix([m, k], layouts[0], dtype, device, 1)?;
                let b = matrix([k, n], layouts[1], dtype, device, 2)?;
                let (vector, residual) =
                    (tensor(&[n], DType::F32, device, 3)?, tensor(&[m, n], DType::F32, device, 4)?);
                let mut inputs = vec![&a, &b];
                inputs.extend(bias.then_some(&vector));
                inputs.push(&residual);
                Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &inputs)?.into_vec())
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Rows, width and hidden width of layers.
const LAYERS: [[usize; 3]; 2] = [[3072, 256, 768], [70, 40, 72]];

/// A feed-forward layer with its residual, with and without mixed precision: compares the output
/// and all gradients.
#[test]
fn feed_forward_layers_both_ways() -> Result<()> {
    let mut faults = String::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        for op in [UnaryOp::Relu, UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu] {
            for &[rows, width, hidden] in unless_short(&LAYERS[..], &LAYERS[1..]) {
                // With many pre-activations some are so close to 0 that devices disagree about
                // their sign.
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
                    let results = forward_and_backward(&inputs, device, |x| {
                        let first = LinearParameters { weight: &x[1], bias: Some(&x[2]) };
                        let second = LinearParameters { weight: &x[3], bias: Some(&x[4]) };
                        with_precision(precision, || {
                            let projected = LinearParameters { weight: &x[5], bias: None };
                            let h = x[0].linear_add(projected, &x[0])?;
                            let normal = h.layer_norm_as(half_of(precision), None, None, 1e-5)?;
                            normal.feed_forward(first, op, second, Some(&h))
                        })
                    })?;
                    // The f32 sums contain values that were rounded to half precision between the
                    // products, which devices may round to either neighbor.
                    let dtype = half_of(precision).unwrap_or(DType::F32);
                    results.iter().map(|result| result.to_dtype(dtype)).collect()
                })?;
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

fn half_of(precision: Precision) -> Option<DType> {
    Some(precision.dtype()).filter(|dtype| dtype.is_half())
}
