//! bf16x6 products with both tiles, in every layout, compared with sums in f64; and with numbers
//! that cannot be split.

use super::gemm::{LAYOUTS, OperandLayout, matrix};
use super::{assert_no_faults, compare, gpu, has_warpgroups, numbers, tensor, unless_short};
use crate::{lock_shared, shared_device};
use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, Matmul, MatmulOptions};
use ternion_core::{Precision, UnaryOp, with_precision};

/// Rows, columns and inner size for each tile, with complete sums and with split-K
/// (`ops/matmul/tests.rs` of the CUDA backend checks which one an H100 uses).
const SIZES: [[usize; 3]; 4] = [[1056, 2056, 531], [1027, 1540, 1031], [520, 776, 8200], [1536, 640, 2056]];
/// The same for sums of few terms, and of many.
const SIZES_OF_SUMS: [[usize; 3]; 3] = [[1056, 2056, 531], [1536, 640, 4096], [520, 776, 65536]];
/// The size for numbers that cannot be split.
const UNSPLITTABLE_SIZE: [usize; 3] = [1024, 2048, 1024];

/// Options that forbid bf16x6, which the default permits.
fn ieee() -> MatmulOptions<'static> {
    MatmulOptions { bf16x6: false, ..MatmulOptions::default() }
}

fn bits(y: &Tensor) -> Result<Vec<u32>> {
    Ok(y.to_vec::<f32>()?.iter().map(|value| value.to_bits()).collect())
}

/// Returns whether the device has bf16x6 kernels; others compute as without the permission.
fn has_kernels(gpu: &Device) -> bool {
    let has_kernels = has_warpgroups(gpu);
    if !has_kernels {
        println!("not tested: that the bits are those of parts, which the device does not multiply");
    }
    has_kernels
}

/// Returns whether the product uses bf16x6, whose bits differ from those of the ordinary product.
fn is_bf16x6(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(!has_kernels(a.device()) || bits(&a.matmul(b)?)? != bits(&a.matmul_with(b, ieee())?)?)
}

#[test]
fn products_of_these_sizes_use_bf16x6() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    for [m, n, k] in SIZES.into_iter().chain([UNSPLITTABLE_SIZE]) {
        let (a, b) = (tensor(&[m, k], DType::F32, gpu, 1)?, tensor(&[k, n], DType::F32, gpu, 2)?);
        assert!(is_bf16x6(&a, &b)?, "{m} x {n} x {k}");
    }
    Ok(())
}

#[test]
fn products_in_every_layout() -> Result<()> {
    let mut faults = String::new();
    for [m, n, k] in SIZES.into_iter().take(unless_short(SIZES.len(), 2)) {
        for layouts in LAYOUTS {
            compare(&mut faults, &format!("{m} x {n} x {k} {layouts:?}"), |device| {
                let a = matrix([m, k], layouts[0], DType::F32, device, 1)?;
                let b = matrix([k, n], layouts[1], DType::F32, device, 2)?;
                Ok(vec![a.matmul(&b)?])
            })?;
        }
        compare(&mut faults, &format!("{m} x {n} x {k} with all that may follow"), |device| {
            let activation = Some(UnaryOp::Relu);
            let epilogue = Epilogue { bias: true, activation, alpha: 0.25, ..Epilogue::NONE };
            let a = matrix([m, k], OperandLayout::Rows, DType::F32, device, 1)?;
            let b = matrix([k, n], OperandLayout::Columns, DType::F32, device, 2)?;
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
    assert_no_faults(&faults);
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
        let transposed = tensor(&[3, 2, k, m], DType::F32, device, 5)?.transpose(0, 1)?.transpose(2, 3)?;
        let of_two = tensor(&[2, 1, k, n], DType::F32, device, 6)?;
        Ok(vec![a.matmul(&b)?, a.matmul(&one)?, of_three.matmul(&b)?, transposed.matmul(&of_two)?])
    })?;
    assert_no_faults(&faults);
    Ok(())
}

/// Errors of a result: the total error relative to the norm of the result; and the root mean square
/// and the largest error, relative to the sums of the magnitudes of the terms.
struct Errors {
    relative: f64,
    of_magnitudes: f64,
    largest: f64,
}

impl Errors {
    fn of(y: &Tensor, exact: &[f64], magnitudes: &[f64]) -> Result<Errors> {
        let (mut squared_error, mut norm, mut squares, mut largest) = (0.0, 0.0, 0.0, 0f64);
        for ((y, exact), magnitude) in y.to_vec_f64()?.iter().zip(exact).zip(magnitudes) {
            let error = (y - exact).abs();
            squared_error += error * error;
            norm += exact * exact;
            squares += (error / magnitude).powi(2);
            // NaN counts as the largest.
            largest = if error / magnitude <= largest { largest } else { error / magnitude };
        }
        let of_magnitudes = (squares / exact.len() as f64).sqrt();
        Ok(Errors { relative: (squared_error / norm).sqrt(), of_magnitudes, largest })
    }
}

/// Returns the sums in f64, and the sums of the magnitudes of their terms.
fn in_f64(a: &Tensor, b: &Tensor) -> Result<[Vec<f64>; 2]> {
    let (a, b) = (a.to_dtype(DType::F64)?, b.to_dtype(DType::F64)?);
    Ok([a.matmul(&b)?.to_vec_f64()?, a.abs()?.matmul(&b.abs()?)?.to_vec_f64()?])
}

/// Returns the errors of bf16x6 and of the ordinary product, relative to sums in f64.
fn errors(a: &Tensor, b: &Tensor) -> Result<[Errors; 2]> {
    let [exact, magnitudes] = in_f64(a, b)?;
    let of = |y: Tensor| Errors::of(&y, &exact, &magnitudes);
    Ok([of(a.matmul(b)?)?, of(a.matmul_with(b, ieee())?)?])
}

/// Returns pseudorandom numbers, each multiplied by the scale of its index.
fn scaled(shape: [usize; 2], seed: u64, scale: impl Fn(usize) -> f32, gpu: &Device) -> Result<Tensor> {
    let values = numbers(shape[0] * shape[1], seed).into_iter().enumerate();
    Tensor::from_vec(values.map(|(at, value)| value * scale(at)).collect(), shape, gpu)
}

/// Returns a pseudorandom number of either sign for an index.
fn pseudo_random(at: usize) -> i32 {
    (at.wrapping_mul(2_654_435_761) >> 7) as i32
}

/// Returns operands `[m, k]` and `[k, n]` with other distributions of numbers.
fn operands([m, n, k]: [usize; 3], gpu: &Device) -> Result<Vec<(&'static str, Tensor, Tensor)>> {
    let one = |_| 1.0;
    let spread = |at: usize| 2f32.powi(pseudo_random(at) % 21 - 10);
    // Products of third terms with first terms are subnormal.
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
        ("canceling", near_one([m, k], 7)?.mul(&signs)?, near_one([k, n], 8)?),
    ])
}

/// bf16x6 products are not further from sums in f64 than those of the f32 kernel. (The single
/// largest error depends on chance, and may be larger by what tensor cores truncate.)
#[test]
fn errors_are_those_of_f32() -> Result<()> {
    let _shared = lock_shared();
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
            // Read by benches/peers/product_errors.py.
            println!(
                "product errors: {{\"numbers\": \"{what}\", \"size\": \"{m} x {n} x {k}\", \"parts_rms\": {:e}, \"f32_rms\": {:e}, \"parts_max\": {:e}, \"f32_max\": {:e}}}",
                parts.of_magnitudes, plain.of_magnitudes, parts.largest, plain.largest
            );
            assert!(parts.of_magnitudes <= plain.of_magnitudes, "{found}");
            // If everything cancels, the relative error is meaningless.
            assert!(parts.relative <= plain.relative || what == "canceling", "{found}");
        }
    }
    Ok(())
}

/// The number of elements along k whose products are accumulated from 0 before their sum is added
/// to that of the previous elements.
const STAGE: usize = 32;
/// Instructions per stage, of 16 products each: two for each of six pairs of terms.
const STEPS: usize = 12;
/// The smallest positive f32.
const MIN_SUBNORMAL: f64 = f32::from_bits(1) as f64;

/// Returns how far a bf16x6 product may be from the exact sum of k terms x y, whose magnitudes sum
/// to `magnitude`.
///
/// Each operand is split exactly, x = p0 + p1 + p2, with |p1| <= 2^-8 |x| and |p2| <= 2^-16 |x|,
/// and y likewise (`ops/matmul/bf16x6/tests.rs` of the CUDA backend has the arithmetic, too).
/// In units of 2^-24 of the magnitude:
///
/// - The products that are omitted, p1 q2, p2 q1 and p2 q2, are 2 + 2^-8 at most: below 2.1.
/// - An instruction adds 16 products to the accumulator. It truncates each of these 17 terms to
///   2^-24 of the largest one, then the new sum to f32, by less than 2^-23 of it: together by 19
///   units of the sum of the terms' magnitudes. In the ten instructions before those of p0 q0 this
///   sum is below 2^-6 of the stage's fraction of the magnitude, since at least one factor is not
///   the first term: 10 * 19 / 64 < 3. In the last two instructions (1 + 2^-8)^2 of the fraction is
///   added to it: 2 * 19 * 1.03 < 39.2. The fractions of all stages add up to the magnitude,
///   whatever the number of stages.
/// - The sums of stages are added in f32, to nearest: one unit each, in addition to their own
///   errors. With split-K the partial sums are such sums, too.
///
/// In addition, numbers below 2^-126 have a spacing of [`MIN_SUBNORMAL`], to which each instruction
/// may truncate its sum; sums of stages are exact there.
fn limit(k: usize, magnitude: f64) -> f64 {
    let stages = k.div_ceil(STAGE) as f64;
    let units = 2.1 + 3.0 + 39.2 + 1.01 * stages;
    units * 2f64.powi(-24) * magnitude + stages * STEPS as f64 * MIN_SUBNORMAL
}

/// Numbers with more exponents than f32 has bits, and numbers with subnormal products: bf16x6 is
/// used, and is as accurate as it can be.
#[test]
fn wide_exponents_and_subnormal_results_are_within_the_bf16x6_bound() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    if !has_kernels(gpu) {
        return Ok(());
    }
    let wide = |at: usize| 2f32.powi(pseudo_random(at).rem_euclid(41) - 20);
    // Terms of about 2^-135, whose sums are below 2^-126.
    let small = |_: usize| 2f32.powi(-68);
    for [m, n, k] in [SIZES[0], SIZES[3]] {
        for (what, of) in [("wide exponents", &wide as &dyn Fn(usize) -> f32), ("subnormal results", &small)]
        {
            let what = format!("{what}, {m} x {n} x {k}");
            let (a, b) = (scaled([m, k], 9, of, gpu)?, scaled([k, n], 10, of, gpu)?);
            assert!(is_bf16x6(&a, &b)?, "{what}");
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

/// A single number that cannot be split, in either operand, makes the product bit-identical to the
/// ordinary one.
#[test]
fn unsplittable_numbers_give_the_f32_product() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    let [m, n, k] = UNSPLITTABLE_SIZE;
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
    // Zeros of both signs, and the limits of numbers that can be split.
    let mut values = numbers(m * k, 1);
    values.iter_mut().step_by(3).for_each(|value| *value = 0.0);
    values.iter_mut().skip(1).step_by(3).for_each(|value| *value = -0.0);
    values[5] = 2f32.powi(-103);
    values[k + 5] = -2f32.powi(48) * (1.0 - 2f32.powi(-24));
    let a = Tensor::from_vec(values, [m, k], gpu)?;
    let [parts, plain] = errors(&a, &b)?;
    assert!(parts.largest <= plain.largest.max(2f64.powi(-20)), "{:e}, {:e}", parts.largest, plain.largest);
    assert!(is_bf16x6(&a, &b)?, "all of these have parts");
    Ok(())
}

/// The device decides which kernel computes: a recorded step uses the other kernel if its operand
/// changes.
#[test]
fn a_recorded_product_changes_its_kernel_with_its_operand() -> Result<()> {
    // A separate device: on the shared device it would record the work of other tests.
    let Some((_shared, gpu)) = shared_device() else { return Ok(()) };
    let gpu = &gpu;
    let [m, n, k] = UNSPLITTABLE_SIZE;
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
