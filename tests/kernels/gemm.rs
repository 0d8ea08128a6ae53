//! Matrix products by every tile, in every layout: forward, backward, and twice.

use super::{assert_no_faults, compare, numbers, tensor};
use ternion::prelude::*;
use ternion_core::UnaryOp;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, Matmul, MatmulOptions};
use ternion_testing::compare::round_to_tf32;

/// Rows, columns and inner size. The tile choice for an H100 selects a different tile for each
/// (`ops/matmul/tests.rs` of the CUDA backend checks this; with `TERNION_CUDA_TENSOR_MAPS=0` the
/// tensor core tiles for devices without tensor maps are used). `tiles.rs` tests products by every
/// tile, whatever the choice.
const F32_SIZES: [[usize; 3]; 4] = [[2048, 2048, 72], [1536, 640, 72], [72, 136, 200], [8, 2048, 2056]];
const F64_SIZES: [[usize; 3]; 2] = [[512, 1024, 1032], [72, 136, 200]];
const HALF_SIZES: [[usize; 3]; 6] = [
    [2048, 2048, 136],
    [3072, 640, 72],
    [768, 768, 72],
    [72, 136, 200],
    [16, 4096, 4104],
    // Unaligned rows: they are read element by element, or first copied to aligned rows.
    [75, 131, 203],
];
const TF32_SIZES: [[usize; 3]; 6] =
    [[2048, 2048, 72], [3072, 640, 72], [768, 768, 72], [72, 136, 200], [16, 4096, 4104], [75, 131, 203]];
/// Sizes for tiles whose operands are copied by tensor maps.
const HALF_SIZES_BY_MAPS: [[usize; 3]; 8] = [
    [2048, 2048, 72],
    [1536, 1536, 264],
    [768, 1536, 2056],
    [768, 1536, 72],
    [3072, 136, 72],
    [8, 136, 72],
    // Edges of the tiles, in all three axes.
    [1000, 776, 1000],
    [2056, 3080, 72],
];
const TF32_SIZES_BY_MAPS: [[usize; 3]; 5] =
    [[2048, 2048, 200], [1536, 1536, 264], [768, 1536, 264], [72, 3072, 72], [1000, 772, 1004]];
const REALIGNED: [usize; 3] = [999, 1001, 1003];
/// Sizes around the edges of tiles, and empty ones.
const EDGES: [[usize; 3]; 7] =
    [[1, 1, 1], [31, 33, 32], [33, 31, 1], [65, 129, 33], [101, 197, 101], [0, 5, 7], [5, 7, 0]];
/// So few outputs with so long sums that split-K is used.
const SPLIT_K: [usize; 3] = [64, 72, 16384];

/// The memory layout of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperandLayout {
    Rows,
    Columns,
    /// Rows within longer rows, starting at the eighth element.
    InnerRows,
    /// Every other element of every other row, starting at the first.
    Strided,
}

pub(super) const LAYOUTS: [[OperandLayout; 2]; 6] = [
    [OperandLayout::Rows, OperandLayout::Rows],
    [OperandLayout::Rows, OperandLayout::Columns],
    [OperandLayout::Columns, OperandLayout::Rows],
    [OperandLayout::Columns, OperandLayout::Columns],
    [OperandLayout::InnerRows, OperandLayout::InnerRows],
    [OperandLayout::Strided, OperandLayout::Rows],
];

pub(super) fn matrix(
    [rows, columns]: [usize; 2],
    layout: OperandLayout,
    dtype: DType,
    device: &Device,
    seed: u64,
) -> Result<Tensor> {
    match layout {
        OperandLayout::Rows => tensor(&[rows, columns], dtype, device, seed),
        OperandLayout::Columns => tensor(&[columns, rows], dtype, device, seed)?.t(),
        OperandLayout::InnerRows => tensor(&[rows, columns + 16], dtype, device, seed)?.narrow(1, 8, columns),
        OperandLayout::Strided => {
            let wide = tensor(&[2 * rows, 2 * columns], dtype, device, seed)?;
            wide.slice_axis(0, 0, 2 * rows as isize, 2)?.slice_axis(1, 0, 2 * columns as isize, 2)
        }
    }
}

/// Returns a matrix of integers from -3 to 3.
pub(super) fn integers(
    shape: [usize; 2],
    layout: OperandLayout,
    dtype: DType,
    device: &Device,
    seed: u64,
) -> Result<Tensor> {
    // The CPU rounds in place, which keeps the memory layout of the matrix.
    let stored = matrix(shape, layout, DType::F32, &ternion::cpu()?, seed)?.round()?;
    match layout {
        OperandLayout::Columns => stored.t()?.copy()?.to_dtype(dtype)?.to_device(device)?.t(),
        _ => stored.copy()?.to_dtype(dtype)?.to_device(device),
    }
}

/// Tests the product in each layout of its operands, with its epilogues, and with an f32 output.
fn products(dtype: DType, sizes: &[[usize; 3]]) -> Result<()> {
    let mut faults = String::new();
    for &[m, n, k] in sizes {
        for layouts in LAYOUTS {
            compare(&mut faults, &format!("{dtype:?} {m} x {n} x {k} {layouts:?}"), |device| {
                let a = matrix([m, k], layouts[0], dtype, device, 1)?;
                Ok(vec![a.matmul(&matrix([k, n], layouts[1], dtype, device, 2)?)?])
            })?;
        }
        let wide = if dtype.is_half() { Some(DType::F32) } else { None };
        for out_dtype in [None].into_iter().chain(wide.map(Some)) {
            compare(
                &mut faults,
                &format!("{dtype:?} {m} x {n} x {k} with all that may follow, {out_dtype:?}"),
                |device| {
                    let epilogue = Epilogue {
                        bias: true,
                        activation: Some(UnaryOp::Relu),
                        alpha: 0.25,
                        out_dtype,
                        ..Epilogue::NONE
                    };
                    let a = matrix([m, k], OperandLayout::Rows, dtype, device, 1)?;
                    let b = matrix([k, n], OperandLayout::Columns, dtype, device, 2)?;
                    let bias = tensor(&[n], out_dtype.unwrap_or(dtype), device, 3)?;
                    Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&a, &b, &bias])?.into_vec())
                },
            )?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn products_of_f32() -> Result<()> {
    products(DType::F32, &[&F32_SIZES[..], &[REALIGNED, SPLIT_K]].concat())
}

#[test]
fn products_of_f64() -> Result<()> {
    products(DType::F64, &[&F64_SIZES[..], &[SPLIT_K]].concat())
}

#[test]
fn products_of_f16() -> Result<()> {
    products(DType::F16, &[&HALF_SIZES[..], &HALF_SIZES_BY_MAPS, &[REALIGNED, SPLIT_K]].concat())
}

#[test]
fn products_of_bf16() -> Result<()> {
    products(DType::BF16, &[&HALF_SIZES[..], &HALF_SIZES_BY_MAPS, &[REALIGNED, SPLIT_K]].concat())
}

/// Returns a factor of a product that permits TF32, rounded if the device does not do so itself.
fn factor(tensor: Tensor) -> Result<Tensor> {
    match tensor.device().name() {
        "cpu" => {
            let values: Vec<f32> = tensor.to_vec()?;
            let rounded = values.iter().map(|&value| round_to_tf32(f64::from(value)) as f32).collect();
            Tensor::from_vec(rounded, *tensor.shape(), tensor.device())
        }
        _ => Ok(tensor),
    }
}

/// The GPU rounds factors to nearest, as TF32 requires. Only the order of the sums differs then.
#[test]
fn products_of_tf32() -> Result<()> {
    let mut faults = String::new();
    for [m, n, k] in [&TF32_SIZES[..], &TF32_SIZES_BY_MAPS, &EDGES, &[REALIGNED, SPLIT_K]].concat() {
        for layouts in LAYOUTS {
            compare(&mut faults, &format!("TF32 {m} x {n} x {k} {layouts:?}"), |device| {
                let a = factor(matrix([m, k], layouts[0], DType::F32, device, 1)?)?;
                let b = factor(matrix([k, n], layouts[1], DType::F32, device, 2)?)?;
                Ok(vec![a.matmul_with(&b, MatmulOptions { tf32: true, ..MatmulOptions::default() })?])
            })?;
        }
        for layouts in LAYOUTS {
            let what = format!("TF32 {m} x {n} x {k} {layouts:?} with all that may follow");
            compare(&mut faults, &what, |device| {
                let epilogue =
                    Epilogue { bias: true, activation: Some(UnaryOp::Relu), alpha: 0.25, ..Epilogue::NONE };
                let a = factor(matrix([m, k], layouts[0], DType::F32, device, 1)?)?;
                let b = factor(matrix([k, n], layouts[1], DType::F32, device, 2)?)?;
                let bias = tensor(&[n], DType::F32, device, 3)?;
                Ok(apply(Matmul { epilogue, tf32: true, ..Matmul::PLAIN }, &[&a, &b, &bias])?.into_vec())
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// A value halfway between two TF32 numbers is rounded away from zero by `mma.sync`, and to even by
/// tensor maps, which the larger product uses.
#[test]
fn ties_of_tf32_go_to_a_neighbor() -> Result<()> {
    let Some(gpu) = super::gpu() else { return Ok(()) };
    let (step, half) = (2f32.powi(-10), 2f32.powi(-11));
    for [m, n, k] in [[72, 136, 200], [3072, 768, 264]] {
        let tied: Vec<f32> = (0..m).map(|row| 1.0 + (row % 500) as f32 * step + half).collect();
        // One matrix has a column of ties, the other is ones: each output is one tie, rounded.
        let mut a = vec![0.0; m * k];
        tied.iter()
            .enumerate()
            .for_each(|(row, &value)| a[row * k] = if row % 2 == 0 { value } else { -value });
        let b: Vec<f32> = (0..n * k).map(|at| if at % k == 0 { 1.0 } else { 0.0 }).collect();
        let (a, b) = (Tensor::from_vec(a, [m, k], gpu)?, Tensor::from_vec(b, [n, k], gpu)?.t()?);
        let options = MatmulOptions { tf32: true, ..MatmulOptions::default() };
        let y: Vec<f32> = a.matmul_with(&b, options)?.to_vec()?;
        for (at, found) in y.into_iter().enumerate() {
            let (row, tie) = (at / n, tied[at / n]);
            let sign = if row % 2 == 0 { 1.0 } else { -1.0 };
            let neighbors = [sign * (tie - half), sign * (tie + half)];
            assert!(
                neighbors.contains(&found),
                "{m} x {n} x {k}, row {row}: {found}, expected one of {neighbors:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn products_of_tf32_in_a_batch() -> Result<()> {
    let mut faults = String::new();
    let options = || MatmulOptions { tf32: true, ..MatmulOptions::default() };
    for [m, n, k] in [[72, 136, 200], [75, 131, 203], [515, 520, 517]] {
        compare(&mut faults, &format!("TF32 [2, 3] {m} x {n} x {k}"), |device| {
            let a = factor(tensor(&[2, 3, m, k], DType::F32, device, 1)?)?;
            let b = factor(tensor(&[2, 3, k, n], DType::F32, device, 2)?)?;
            let one = factor(tensor(&[k, n], DType::F32, device, 3)?)?;
            let transposed =
                factor(tensor(&[3, 2, k, m], DType::F32, device, 4)?)?.transpose(0, 1)?.transpose(2, 3)?;
            Ok(vec![
                a.matmul_with(&b, options())?,
                a.matmul_with(&one, options())?,
                transposed.matmul_with(&b, options())?,
            ])
        })?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Infinities and NaN appear in the correct outputs. If the device has no TF32, the permission
/// changes nothing.
#[test]
fn tf32_preserves_non_finite_values() -> Result<()> {
    let mut faults = String::new();
    compare(&mut faults, "TF32 of infinities and NaN", |device| {
        let mut values = numbers(72 * 40, 5);
        // A NaN with all bits set overflows if rounding is an integer addition.
        let odd = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0x7fff_ffff), f32::MAX];
        for (at, value) in odd.into_iter().enumerate() {
            values[at * 401 + 3] = value;
        }
        let a = factor(Tensor::from_vec(values, [72, 40], device)?)?;
        let b = factor(tensor(&[40, 64], DType::F32, device, 6)?)?;
        let options = MatmulOptions { tf32: true, ..MatmulOptions::default() };
        let y = a.matmul_with(&b, options)?;
        [y.eq(&y)?, y.gt_scalar(1e38)?, y.lt_scalar(-1e38)?]
            .iter()
            .map(|marks| marks.to_dtype(DType::I32))
            .collect()
    })?;
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn products_of_a_batch() -> Result<()> {
    let mut faults = String::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        // With fast tiles, with reads by elements, and with one operand, the same for the whole
        // batch, that is copied to aligned rows.
        for [m, n, k] in [[72, 136, 200], [75, 131, 203], [515, 520, 517]] {
            let batch_of = |device: &Device, sizes: [usize; 2], seed| {
                tensor(&[2, 3, sizes[0], sizes[1]], dtype, device, seed)
            };
            let one = |device: &Device, sizes: [usize; 2], seed| tensor(&sizes, dtype, device, seed);
            compare(&mut faults, &format!("{dtype:?} [2, 3] {m} x {n} x {k}"), |device| {
                let (a, b) = (batch_of(device, [m, k], 1)?, batch_of(device, [k, n], 2)?);
                Ok(vec![
                    a.matmul(&b)?,
                    a.matmul(&one(device, [k, n], 3)?)?,
                    one(device, [m, k], 4)?.matmul(&b)?,
                ])
            })?;
            compare(&mut faults, &format!("{dtype:?} [3, 2] transposed {m} x {n} x {k}"), |device| {
                let a = batch_of(device, [k, m], 1)?.transpose(0, 1)?.transpose(2, 3)?;
                let b = batch_of(device, [n, k], 2)?.transpose(0, 1)?.transpose(2, 3)?;
                Ok(vec![a.matmul(&b)?])
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}
