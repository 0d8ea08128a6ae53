//! Products of f32 in parts of bf16: by both tiles, in every layout, against sums of f64, and of numbers that have no such parts.

use super::gemm::{LAYOUTS, Place, matrix};
use super::{compare, gpu, has_warpgroups, none_wrong, numbers, tensor, unless_short};
use crate::{beside, beside_others};
use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, Matmul, MatmulOptions};
use ternion_core::{Precision, UnaryOp, with_precision};

/// Rows, columns and inner length: of each tile, with whole sums and with sums in parts (`ops/matmul/tests.rs` of the CUDA backend holds an H100 to that).
const SIZES: [[usize; 3]; 4] = [[1056, 2056, 531], [1027, 1540, 1031], [520, 776, 8200], [1536, 640, 2056]];
/// Of sums of some terms, and of many.
const SIZES_OF_SUMS: [[usize; 3]; 3] = [[1056, 2056, 531], [1536, 640, 4096], [520, 776, 65536]];
/// Of numbers that have no parts.
const UNFIT: [usize; 3] = [1024, 2048, 1024];

/// What forbids parts, which the default permits.
fn ieee() -> MatmulOptions<'static> {
    MatmulOptions { bf16x6: false, ..MatmulOptions::default() }
}

fn bits(y: &Tensor) -> Result<Vec<u32>> {
    Ok(y.to_vec::<f32>()?.iter().map(|value| value.to_bits()).collect())
}

/// Whether the device multiplies parts at all; others compute what they do without the permission.
fn has_kernels(gpu: &Device) -> bool {
    let has_kernels = has_warpgroups(gpu);
    if !has_kernels {
        println!("not tested: that the bits are those of parts, which the device does not multiply");
    }
    has_kernels
}

/// That the product of parts computes: its bits are others.
fn is_by_parts(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(!has_kernels(a.device()) || bits(&a.matmul(b)?)? != bits(&a.matmul_with(b, ieee())?)?)
}

#[test]
fn products_of_these_sizes_are_by_parts() -> Result<()> {
    let _beside = beside();
    let Some(gpu) = gpu() else { return Ok(()) };
    for [m, n, k] in SIZES.into_iter().chain([UNFIT]) {
        let (a, b) = (tensor(&[m, k], DType::F32, gpu, 1)?, tensor(&[k, n], DType::F32, gpu, 2)?);
        assert!(is_by_parts(&a, &b)?, "{m} x {n} x {k}");
    }
    Ok(())
}

#[test]
fn products_in_every_layout() -> Result<()> {
    let mut faults = String::new();
    for [m, n, k] in SIZES.into_iter().take(unless_short(SIZES.len(), 2)) {
        for places in LAYOUTS {
            compare(&mut faults, &format!("{m} x {n} x {k} {places:?}"), |device| {
                let a = matrix([m, k], places[0], DType::F32, device, 1)?;
                let b = matrix([k, n], places[1], DType::F32, device, 2)?;
                Ok(vec![a.matmul(&b)?])
            })?;
        }
        compare(&mut faults, &format!("{m} x {n} x {k} with all that may follow"), |device| {
            let activation = Some(UnaryOp::Relu);
            let epilogue = Epilogue { bias: true, activation, alpha: 0.25, ..Epilogue::NONE };
            let a = matrix([m, k], Place::Rows, DType::F32, device, 1)?;
            let b = matrix([k, n], Place::Columns, DType::F32, device, 2)?;
            let bias = tensor(&[n], DType::F32, device, 3)?;
            Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &[&a, &b, &bias])?.into_vec())
        })?;
        compare(&mut faults, &format!("{m} x {n} x {k} with a residual and both gradients"), |device| {
            let a = tensor(&[m, k], DType::F32, device, 1)?.requires_grad()?;
            let b = tensor(&[k, n], DType::F32, device, 2)?.requires_grad()?;
            let c = tensor(&[m, n], DType::F32, device, 3)?;
            let y = a.matmul_with(&b, MatmulOptions { residual: Some(&c), ..MatmulOptions::default() })?;
            let gradients = y.mul(&c)?.sum(..)?.backward()?;
            Ok([&a, &b]
                .into_iter()
                .filter_map(|leaf| gradients.get(leaf).cloned())
                .chain([y.detach()])
                .collect())
        })?;
    }
    none_wrong(&faults);
    Ok(())
}

#[test]
fn products_of_a_batch() -> Result<()> {
    let mut faults = String::new();
    let [m, n, k] = [515, 1040, 1037];
    compare(&mut faults, "[2, 3]", |device| {
        let a = tensor(&[2, 3, m, k], DType::F32, device, 1)?;
        let b = tensor(&[2, 3, k, n], DType::F32, device, 2)?;
        let (one, of_three) =
            (tensor(&[k, n], DType::F32, device, 3)?, tensor(&[3, m, k], DType::F32, device, 4)?);
        let turned = tensor(&[3, 2, k, m], DType::F32, device, 5)?.transpose(0, 1)?.transpose(2, 3)?;
        let of_two = tensor(&[2, 1, k, n], DType::F32, device, 6)?;
        Ok(vec![a.matmul(&b)?, a.matmul(&one)?, of_three.matmul(&b)?, turned.matmul(&of_two)?])
    })?;
    none_wrong(&faults);
    Ok(())
}

/// Errors of a result: of all of it, relative to its norm; and relative to the sums of the magnitudes of the terms, the root mean square and the largest one.
struct Errors {
    relative: f64,
    of_magnitudes: f64,
    largest: f64,
}

impl Errors {
    fn of(y: &Tensor, exact: &[f64], magnitudes: &[f64]) -> Result<Errors> {
        let (mut apart, mut norm, mut squares, mut largest) = (0.0, 0.0, 0.0, 0f64);
        for ((y, exact), magnitude) in y.to_vec_f64()?.iter().zip(exact).zip(magnitudes) {
            let error = (y - exact).abs();
            apart += error * error;
            norm += exact * exact;
            squares += (error / magnitude).powi(2);
            // A NaN is the largest.
            largest = if error / magnitude <= largest { largest } else { error / magnitude };
        }
        let of_magnitudes = (squares / exact.len() as f64).sqrt();
        Ok(Errors { relative: (apart / norm).sqrt(), of_magnitudes, largest })
    }
}

/// Sums of f64, and those of the magnitudes of the terms.
fn in_f64(a: &Tensor, b: &Tensor) -> Result<[Vec<f64>; 2]> {
    let (a, b) = (a.to_dtype(DType::F64)?, b.to_dtype(DType::F64)?);
    Ok([a.matmul(&b)?.to_vec_f64()?, a.abs()?.matmul(&b.abs()?)?.to_vec_f64()?])
}

/// The errors by parts and of the ordinary product, against sums of f64.
fn errors(a: &Tensor, b: &Tensor) -> Result<[Errors; 2]> {
    let [exact, magnitudes] = in_f64(a, b)?;
    let of = |y: Tensor| Errors::of(&y, &exact, &magnitudes);
    Ok([of(a.matmul(b)?)?, of(a.matmul_with(b, ieee())?)?])
}

/// Numbers that look random, each times what is given for its place.
fn scaled(shape: [usize; 2], seed: u64, scale: impl Fn(usize) -> f32, gpu: &Device) -> Result<Tensor> {
    let values = numbers(shape[0] * shape[1], seed).into_iter().enumerate();
    Tensor::from_vec(values.map(|(at, value)| value * scale(at)).collect(), shape, gpu)
}

/// A number for a place that looks random, of either sign.
fn drawn(at: usize) -> i32 {
    (at.wrapping_mul(2_654_435_761) >> 7) as i32
}

/// Operands of other kinds of numbers: `[m, k]` and `[k, n]`.
fn operands([m, n, k]: [usize; 3], gpu: &Device) -> Result<Vec<(&'static str, Tensor, Tensor)>> {
    let one = |_| 1.0;
    let spread = |at: usize| 2f32.powi(drawn(at) % 21 - 10);
    // Products of third parts with first ones are subnormal.
    let tiny = |_| 2f32.powi(-60);
    let near_one = |shape, seed| scaled(shape, seed, |_| 2f32.powi(-10), gpu)?.add_scalar(1.0);
    let signs: Vec<f32> = (0..k).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let signs = Tensor::from_vec(signs, [k], gpu)?;
    let (a, b) = (scaled([m, k], 1, one, gpu)?, scaled([k, n], 2, one, gpu)?);
    Ok(vec![
        ("positive", a.abs()?, b.abs()?),
        ("random", a, b),
        ("wide exponents", scaled([m, k], 3, spread, gpu)?, scaled([k, n], 4, spread, gpu)?),
        ("tiny", scaled([m, k], 5, tiny, gpu)?, scaled([k, n], 6, tiny, gpu)?),
        ("cancelling", near_one([m, k], 7)?.mul(&signs)?, near_one([k, n], 8)?),
    ])
}

/// Products by parts are not farther from sums of f64 than those of the kernel of f32. (The largest of all errors, which is a matter of chance, may be by what
/// tensor cores cut off.)
#[test]
fn errors_are_those_of_f32() -> Result<()> {
    let _beside = beside();
    let Some(gpu) = gpu() else { return Ok(()) };
    for [m, n, k] in SIZES_OF_SUMS.into_iter().take(unless_short(SIZES_OF_SUMS.len(), 1)) {
        for (what, a, b) in operands([m, n, k], gpu)? {
            let [parts, plain] = errors(&a, &b)?;
            let found = format!(
                "{what}, {m} x {n} x {k}: {:e}, of magnitudes {:e} and at most {:e}; in f32 {:e}, {:e} and {:e}",
                parts.relative,
                parts.of_magnitudes,
                parts.largest,
                plain.relative,
                plain.of_magnitudes,
                plain.largest
            );
            assert!(parts.largest <= plain.largest.max(2f64.powi(-20)), "{found}");
            // What benches/peers/product_errors.py reads.
            println!(
                "product errors: {{\"numbers\": \"{what}\", \"size\": \"{m} x {n} x {k}\", \"parts_rms\": {:e}, \"f32_rms\": {:e}, \"parts_max\": {:e}, \"f32_max\": {:e}}}",
                parts.of_magnitudes, plain.of_magnitudes, parts.largest, plain.largest
            );
            assert!(parts.of_magnitudes <= plain.of_magnitudes, "{found}");
            // Where all cancels out nothing is left that an error could be relative to.
            assert!(parts.relative <= plain.relative || what == "cancelling", "{found}");
        }
    }
    Ok(())
}

/// Elements along k whose products are added up from 0, before that sum is added to those of the elements before.
const STAGE: usize = 32;
/// Instructions that a stage takes, of 16 products each: two for each of six pairs of parts.
const STEPS: usize = 12;
/// The least number of f32.
const LEAST: f64 = f32::from_bits(1) as f64;

/// How far a product by parts may be from the exact one, of k terms x y whose magnitudes add up to `magnitude`.
///
/// Parts are x = p0 + p1 + p2, exactly, with |p1| <= 2^-8 |x| and |p2| <= 2^-16 |x|, and those of y alike (`ops/matmul/parts/tests.rs` of the CUDA backend, which
/// has the arithmetic, too). In units of 2^-24 of the magnitude:
///
/// - The products that are left out, p1 q2, p2 q1 and p2 q2, are 2 + 2^-8 at most: below 2.1.
/// - An instruction adds 16 products to the sum so far. It cuts each of these 17 terms to 2^-24 of the largest one, then the new sum to f32, by less than 2^-23 of it: by
///   19 units of what the terms' magnitudes add up to. In the ten instructions before those of p0 q0 that is below 2^-6 of the stage's share of the magnitude, as
///   one part at least is not the first: 10 * 19 / 64 < 3. In the last two it is that, and (1 + 2^-8)^2 of the share: 2 * 19 * 1.03 < 39.2. The shares of all stages are
///   the magnitude, however many there are.
/// - The sums of stages are added up in f32, to nearest: 1 each, but for the errors that they have. Where blocks have parts of the sum these are such sums, too.
///
/// Besides, numbers below 2^-126 are [`LEAST`] apart, to which each instruction may cut its sum; sums of stages are exact there.
fn limit(k: usize, magnitude: f64) -> f64 {
    let stages = k.div_ceil(STAGE) as f64;
    let units = 2.1 + 3.0 + 39.2 + 1.01 * stages;
    units * 2f64.powi(-24) * magnitude + stages * STEPS as f64 * LEAST
}

/// Numbers of more exponents than f32 has bits, and such as have subnormal products: by parts, and as near as those can be.
#[test]
fn wide_exponents_and_subnormal_results_are_as_near_as_parts_can_be() -> Result<()> {
    let _beside = beside();
    let Some(gpu) = gpu() else { return Ok(()) };
    if !has_kernels(gpu) {
        return Ok(());
    }
    let wide = |at: usize| 2f32.powi(drawn(at).rem_euclid(41) - 20);
    // Terms of about 2^-135, whose sums are below 2^-126.
    let small = |_: usize| 2f32.powi(-68);
    for [m, n, k] in [SIZES[0], SIZES[3]] {
        for (what, of) in [("wide exponents", &wide as &dyn Fn(usize) -> f32), ("subnormal results", &small)]
        {
            let what = format!("{what}, {m} x {n} x {k}");
            let (a, b) = (scaled([m, k], 9, of, gpu)?, scaled([k, n], 10, of, gpu)?);
            assert!(is_by_parts(&a, &b)?, "{what}");
            let (found, [exact, magnitudes]) = (a.matmul(&b)?.to_vec::<f32>()?, in_f64(&a, &b)?);
            let subnormal = found.iter().filter(|y| y.is_subnormal()).count();
            assert!(!what.starts_with("subnormal") || 2 * subnormal > found.len(), "{what}: {subnormal} are");
            for ((found, exact), magnitude) in found.into_iter().zip(exact).zip(magnitudes) {
                let (error, limit) = ((f64::from(found) - exact).abs(), limit(k, magnitude));
                assert!(error <= limit, "{what}: {found:e}, not {exact:e}, {error:e} apart, of {limit:e}");
            }
        }
    }
    Ok(())
}

/// A single number that has no parts, in either operand, makes the product the ordinary one, bit by bit.
#[test]
fn numbers_without_parts_come_out_as_in_f32() -> Result<()> {
    let _beside = beside();
    let Some(gpu) = gpu() else { return Ok(()) };
    let [m, n, k] = UNFIT;
    let odd = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, -1e38, 3e14, 1e-32, 1e-38, 1e-40, 1e-45];
    let (a, b) = (tensor(&[m, k], DType::F32, gpu, 1)?, tensor(&[k, n], DType::F32, gpu, 2)?);
    for (at, value) in odd.into_iter().enumerate() {
        for of_a in [true, false] {
            let count = if of_a { m * k } else { k * n };
            let mut values = numbers(count, if of_a { 1 } else { 2 });
            values[(count - 1) * at / (odd.len() - 1)] = value;
            let changed = Tensor::from_vec(values, if of_a { [m, k] } else { [k, n] }, gpu)?;
            let (a, b) = if of_a { (&changed, &b) } else { (&a, &changed) };
            let found = bits(&a.matmul(b)?)?;
            assert!(found == bits(&a.matmul_with(b, ieee())?)?, "{value:e}, of a: {of_a}");
        }
    }
    // Zeros of both signs, and the limits of what has parts.
    let mut values = numbers(m * k, 1);
    values.iter_mut().step_by(3).for_each(|value| *value = 0.0);
    values.iter_mut().skip(1).step_by(3).for_each(|value| *value = -0.0);
    values[5] = 2f32.powi(-103);
    values[k + 5] = -2f32.powi(48) * (1.0 - 2f32.powi(-24));
    let a = Tensor::from_vec(values, [m, k], gpu)?;
    let [parts, plain] = errors(&a, &b)?;
    assert!(parts.largest <= plain.largest.max(2f64.powi(-20)), "{:e}, {:e}", parts.largest, plain.largest);
    assert!(is_by_parts(&a, &b)?, "all of these have parts");
    Ok(())
}

/// Which kernel computes is up to the device: a recorded step takes the other one when its operand changes.
#[test]
fn a_recorded_product_changes_its_kernel_with_its_operand() -> Result<()> {
    // A device of its own: on that of the other tests it would record what those do.
    let Some((_beside, gpu)) = beside_others() else { return Ok(()) };
    let gpu = &gpu;
    let [m, n, k] = UNFIT;
    let (a, b) = (tensor(&[m, k], DType::F32, gpu, 1)?, tensor(&[k, n], DType::F32, gpu, 2)?);
    let fit = a.copy()?;
    let mut values = numbers(m * k, 1);
    values[m * k / 2] = f32::INFINITY;
    let unfit = Tensor::from_vec(values, [m, k], gpu)?;
    let mut recorded = gpu.capture(|| a.matmul(&b))?;
    for operand in [&fit, &unfit, &fit] {
        a.copy_(operand)?;
        let found = bits(recorded.replay()?)?;
        let expected = bits(&operand.matmul(&b)?)?;
        assert!(found == expected, "the recorded product is another one");
    }
    let in_scope = with_precision(Precision::Ieee, || fit.matmul(&b))?;
    assert!(bits(&in_scope)? == bits(&fit.matmul_with(&b, ieee())?)?, "the scope forbids parts");
    assert!(bits(&unfit.matmul(&b)?)? == bits(&unfit.matmul_with(&b, ieee())?)?);
    Ok(())
}
