//! Attention in f32 on the tensor cores: in TF32, with a bound derived from the rounding of each
//! operand, and with bf16x6, with the limits of f32.

use super::super::{
    assert_no_faults, compare, first_difference, forward_and_backward_with, gpu, lock_shared, numbers,
    tensor, twice, unless_short,
};
use super::{Case, FEW_LENGTHS, HEADS, LENGTHS, MASK_KINDS, MaskKind, shared, state};
use std::fmt::Write;
use ternion::dispatch::apply_one;
use ternion::ops::attention::{Attention, AttentionConfig};
use ternion::ops::random::Dropout;
use ternion::prelude::*;
use ternion_core::{Precision, with_precision};
use ternion_cuda::with_attention_bf16x6;

/// Head dims of the kernels: those of complete tiles, and smaller ones.
const WIDTHS: [[usize; 2]; 8] =
    [[32, 32], [33, 32], [40, 64], [64, 64], [72, 40], [96, 96], [128, 128], [100, 128]];
const FEW_WIDTHS: [[usize; 2]; 3] = [[33, 32], [64, 64], [100, 128]];
/// Further lengths, in addition to those of all attention: a single query and two keys; and tiles
/// of 64 and 128 queries and steps of 16 and 32 keys, each with one more.
const EDGES: [[usize; 3]; 4] = [[1, 33, 4], [65, 2, 1], [129, 65, 2], [64, 32, 1]];

/// The relative error of an operand that is rounded to TF32: 10 fraction bits, to nearest.
const ROUNDING: f64 = 1.0 / 2048.0;
/// The error of a sum for each of its terms, relative to their magnitudes. Tensor cores truncate
/// terms below the precision of f32.
const TERM_ERROR: f64 = 1.0 / (1 << 23) as f64;

fn cases() -> impl Iterator<Item = Case> {
    let all_lengths: Vec<_> = LENGTHS.into_iter().chain(EDGES).collect();
    let lengths = unless_short(all_lengths, FEW_LENGTHS.to_vec());
    let widths = unless_short(WIDTHS.to_vec(), FEW_WIDTHS.to_vec());
    let dropouts = [None, Some(Dropout { p: 0.25, offset: 3 })];
    widths.into_iter().flat_map(move |widths| {
        lengths.clone().into_iter().flat_map(move |lengths| {
            MASK_KINDS.into_iter().flat_map(move |mask_kind| {
                dropouts.map(|dropout| Case {
                    dtype: DType::F32,
                    widths,
                    heads: HEADS,
                    lengths,
                    mask_kind,
                    dropout,
                })
            })
        })
    })
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor.to_vec::<f32>()?.iter().map(|value| value.to_bits()).collect())
}

fn in_tf32<R>(f: impl FnOnce() -> R) -> R {
    with_precision(Precision::Tf32, f)
}

fn by_fused_multiply_adds<R>(f: impl FnOnce() -> R) -> R {
    with_precision(Precision::Ieee, f)
}

/// y, dq, dk and dv in f64, and bounds for a device that rounds operands to TF32.
struct Exact {
    results: Vec<Tensor>,
    bounds: Vec<Tensor>,
}

/// The intermediate results of attention, in f64, from the f32 values of the case.
struct Steps {
    q: Tensor,
    /// Keys and values of each query head.
    k: Tensor,
    v: Tensor,
    dy: Tensor,
    /// 0 where a key is masked.
    weights: Tensor,
    /// The dropout factor of each weight.
    factors: Tensor,
}

impl Steps {
    fn of(case: Case, cpu: &Device) -> Result<Steps> {
        let in_f64 = |x: &Tensor| x.to_dtype(DType::F64);
        let [q, k, v] = case.inputs(cpu)?.each_ref().map(in_f64);
        let (q, group) = (q?, case.lengths[2]);
        let (k, v) = (shared(&k?, group)?, shared(&v?, group)?);
        let mut scores = q.matmul(&k.t()?)?.mul_scalar(case.scale())?;
        if let Some(mask) = case.mask(cpu)?.filter(|mask| mask.dtype() != DType::Bool) {
            scores = scores.add(&in_f64(&mask)?)?;
        }
        let [queries, keys, _] = case.lengths;
        let attended = case.attended(cpu)?.expand([2, case.heads, queries, keys])?;
        let weights = scores.masked_fill(&attended.logical_not()?, -1e9)?.softmax(-1)?;
        let weights = weights.mul(&in_f64(&attended)?)?;
        let ones = Tensor::ones(*weights.shape(), DType::F64, cpu)?;
        let factors = match case.dropout {
            Some(dropout) => apply_one(dropout, &[&ones, &state(cpu)?])?,
            None => ones,
        };
        let dy = in_f64(&tensor(&[2, case.heads, queries, case.widths[1]], DType::F32, cpu, 99)?)?;
        Ok(Steps { q, k, v, dy, weights, factors })
    }

    /// Returns the results in f64, with error bounds derived from those of each operand, each sum
    /// and each exponential.
    fn exact(&self, case: Case) -> Result<Exact> {
        let Steps { q, k, v, dy, weights, factors } = self;
        let [queries, keys, group] = case.lengths;
        let (scale, width) = (case.scale(), case.widths[0].max(case.widths[1]));
        let two = |terms: usize| 2.0 * ROUNDING + ROUNDING * ROUNDING + (terms + 4) as f64 * TERM_ERROR;
        // The largest error of the scores in a row. The error of a weight is this error plus that
        // of the row sum.
        let magnitudes = q.abs()?.matmul(&k.abs()?.t()?)?.mul_scalar(scale)?;
        let off =
            magnitudes.max_keep(-1)?.mul_scalar(2.0 * two(width))?.expm1()?.add_scalar(16.0 * TERM_ERROR)?;
        let dropped = weights.mul(factors)?;
        let y = dropped.matmul(v)?;
        let y_bound = dropped.matmul(&v.abs()?)?.mul(&off.add_scalar(two(keys))?)?;
        let products = dy.matmul(&v.t()?)?.mul(factors)?;
        let product_magnitudes = dy.abs()?.matmul(&v.abs()?.t()?)?.mul(factors)?;
        let score_grads = products.sub(&dy.mul(&y)?.sum_keep(-1)?)?;
        let score_grads_bound =
            product_magnitudes.mul_scalar(two(width))?.add(&dy.abs()?.mul(&y_bound)?.sum_keep(-1)?)?;
        let grads = weights.mul(&score_grads)?;
        let grads_bound =
            grads.abs()?.mul(&off)?.add(&weights.mul(&score_grads_bound)?.mul(&off.add_scalar(1.0)?)?)?;
        let all_rows = |magnitudes: &Tensor, bound: &Tensor, terms: usize| {
            bound.mul_scalar(1.0 + two(terms))?.add(&magnitudes.mul_scalar(two(terms))?)
        };
        let grads_all = all_rows(&grads.abs()?, &grads_bound, keys)?;
        let grads_of_keys = all_rows(&grads.abs()?, &grads_bound, queries * group)?;
        let dropped_all = all_rows(&dropped, &dropped.mul(&off)?, queries * group)?;
        let of_group = |x: Tensor| -> Result<Tensor> {
            let [batch, heads, rows, columns] = [0, 1, 2, 3].map(|axis| x.dims()[axis]);
            x.reshape([batch, heads / group, group, rows, columns])?.sum(2)
        };
        let dk = of_group(grads.t()?.matmul(q)?.mul_scalar(scale)?)?;
        let dv = of_group(dropped.t()?.matmul(dy)?)?;
        let dk_bound = of_group(grads_of_keys.t()?.matmul(&q.abs()?)?.mul_scalar(scale)?)?;
        let dv_bound = of_group(dropped_all.t()?.matmul(&dy.abs()?)?)?;
        Ok(Exact {
            results: vec![y, grads.matmul(k)?.mul_scalar(scale)?, dk, dv],
            bounds: vec![y_bound, grads_all.matmul(&k.abs()?)?.mul_scalar(scale)?, dk_bound, dv_bound],
        })
    }
}

/// Returns a description of the first element whose error exceeds its bound.
fn first_beyond(found: &Tensor, exact: &Tensor, bound: &Tensor) -> Result<Option<String>> {
    let (found, exact, bound) = (found.to_vec_f64()?, exact.to_vec_f64()?, bound.to_vec_f64()?);
    let is_beyond = |at: &usize| {
        let difference = (found[*at] - exact[*at]).abs();
        // NaN exceeds every bound.
        difference.is_nan() || difference > bound[*at] + f64::from(f32::MIN_POSITIVE)
    };
    let text = |at: usize| format!("at {at}: {} instead of {} within {}", found[at], exact[at], bound[at]);
    Ok((0..found.len()).find(is_beyond).map(text))
}

/// Returns the root mean square of the errors, relative to that of the exact values.
fn relative_error(found: &Tensor, exact: &Tensor) -> Result<f64> {
    let (found, exact) = (found.to_vec_f64()?, exact.to_vec_f64()?);
    let difference: f64 = found.iter().zip(&exact).map(|(found, exact)| (found - exact).powi(2)).sum();
    Ok((difference / exact.iter().map(|exact| exact * exact).sum::<f64>().max(f64::MIN_POSITIVE)).sqrt())
}

/// With every head_dim, mask and edge: each element is within its bound, and the total error of y
/// is at most that of a rounded operand.
#[test]
fn tf32_is_within_its_rounding() -> Result<()> {
    let mut faults = String::new();
    let cpu = ternion::cpu()?;
    for case in cases() {
        let _shared = lock_shared();
        let what = format!("{case:?} in TF32");
        let Some(found) = twice(&mut faults, &what, |device| in_tf32(|| case.on(device)))? else { break };
        let Exact { results, bounds } = Steps::of(case, &cpu)?.exact(case)?;
        for (at, found) in found.iter().enumerate() {
            if let Some(text) = first_beyond(found, &results[at], &bounds[at])? {
                let _ = writeln!(faults, "{what}, result {at}: {text}");
            }
        }
        let error = relative_error(&found[0], &results[0])?;
        if error > 2.0 * ROUNDING {
            let _ = writeln!(faults, "{what}: y is off by {error} of its magnitude");
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// bf16x6 is within the limits of FMA.
#[test]
fn bf16x6_is_within_the_limits_of_f32() -> Result<()> {
    let mut faults = String::new();
    for case in cases() {
        let what = format!("{case:?} by bf16x6");
        compare(&mut faults, &what, |device| with_attention_bf16x6(|| case.on(device)))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// The bits show which kernel runs: TF32 inside its scope; bf16x6 where it is enabled. If IEEE 754
/// is requested, the bits are those of FMA.
#[test]
fn the_precision_scope_selects_the_kernel() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    for (widths, lengths) in [([64, 64], [130, 200, 1]), ([128, 100], [70, 65, 2]), ([32, 32], [257, 129, 1])]
    {
        let case = Case {
            dtype: DType::F32,
            widths,
            heads: HEADS,
            lengths,
            mask_kind: MaskKind::Causal,
            dropout: None,
        };
        let all = |run: &dyn Fn() -> Result<Vec<Tensor>>| run()?.iter().map(bits).collect::<Result<Vec<_>>>();
        let expected = all(&|| by_fused_multiply_adds(|| case.on(gpu)))?;
        let strict = all(&|| with_attention_bf16x6(|| by_fused_multiply_adds(|| case.on(gpu))))?;
        assert_eq!(strict, expected, "{case:?}: IEEE 754");
        let nested = all(&|| in_tf32(|| by_fused_multiply_adds(|| case.on(gpu))))?;
        assert_eq!(nested, expected, "{case:?}: IEEE 754 within TF32");
        let parts = all(&|| with_attention_bf16x6(|| case.on(gpu)))?;
        let rounded = all(&|| in_tf32(|| case.on(gpu)))?;
        for at in 0..4 {
            assert!(parts[at] != expected[at], "{case:?}, result {at}: no parts");
            assert!(
                rounded[at] != expected[at] && rounded[at] != parts[at],
                "{case:?}, result {at}: no TF32"
            );
        }
    }
    Ok(())
}

/// In root mean square, bf16x6 is about as far from f64 as FMA, also with many keys. The rounding
/// of scores and exponentials, which affects both, is not counted.
#[test]
fn bf16x6_is_as_accurate_as_fma() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    let cpu = ternion::cpu()?;
    let lengths = unless_short(vec![[70, 300, 1], [33, 2100, 2]], vec![[70, 300, 1]]);
    for (widths, lengths) in [[32, 32], [64, 64], [128, 128]]
        .into_iter()
        .flat_map(|widths| lengths.iter().map(move |&lengths| (widths, lengths)))
    {
        let case = Case {
            dtype: DType::F32,
            widths,
            heads: HEADS,
            lengths,
            mask_kind: MaskKind::Full,
            dropout: None,
        };
        let Exact { results, .. } = Steps::of(case, &cpu)?.exact(case)?;
        let parts = with_attention_bf16x6(|| case.on(gpu))?;
        let fused = by_fused_multiply_adds(|| case.on(gpu))?;
        for at in 0..4 {
            let [parts, fused] =
                [relative_error(&parts[at], &results[at])?, relative_error(&fused[at], &results[at])?];
            assert!(parts <= 1.5 * fused, "{case:?}, result {at}: {parts} compared with {fused}");
        }
    }
    Ok(())
}

/// Forward and backward of one head with a configuration.
fn attend(config: AttentionConfig, inputs: &[Tensor; 3], dy: &Tensor) -> Result<Vec<Tensor>> {
    let attend = |x: &[Tensor]| {
        let state = config.dropout.map(|_| state(x[0].device())).transpose()?;
        let all: Vec<&Tensor> = x.iter().chain(&state).collect();
        apply_one(Attention { config }, &all)
    };
    forward_and_backward_with(inputs, attend, |_| Ok(dy.clone()))
}

/// The values are an identity matrix, so that y is the weights: the same weights must be 0.
#[test]
fn the_same_weights_are_dropped() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    for (queries, keys) in [(70, 128), (33, 61), (130, 32)] {
        let unit = (0..keys * keys).map(|at| if at % (keys + 1) == 0 { 1.0_f32 } else { 0.0 });
        let v = Tensor::from_vec(unit.collect::<Vec<_>>(), [1, 1, keys, keys], gpu)?;
        let random = |rows, width, seed| tensor(&[1, 1, rows, width], DType::F32, gpu, seed);
        let inputs = [random(queries, 40, 1)?, random(keys, 40, 2)?, v];
        let dropout = Some(Dropout { p: 0.5, offset: 1 });
        let config = AttentionConfig { scale: 0.05, dropout, ..AttentionConfig::PLAIN };
        let dropout_mask = |results: Vec<Tensor>| -> Result<Vec<bool>> {
            Ok(results[0].to_vec::<f32>()?.iter().map(|&weight| weight != 0.0).collect())
        };
        let dy = random(queries, keys, 3)?;
        let run = || attend(config, &inputs, &dy);
        let expected = dropout_mask(by_fused_multiply_adds(run)?)?;
        let share = expected.iter().filter(|&&is_kept| is_kept).count() as f64 / expected.len() as f64;
        assert!((0.4..0.6).contains(&share), "{share} of the weights are kept");
        assert!(dropout_mask(in_tf32(run)?)? == expected, "{queries} x {keys} in TF32");
        assert!(dropout_mask(with_attention_bf16x6(run)?)? == expected, "{queries} x {keys} by bf16x6");
    }
    Ok(())
}

/// Returns the class of each element (such as NaN), whatever its magnitude.
fn classes(results: &[Tensor]) -> Result<Vec<Vec<&'static str>>> {
    let kind = |value: &f32| match value {
        value if value.is_nan() => "NaN",
        value if *value == f32::INFINITY => "infinity",
        value if *value == f32::NEG_INFINITY => "-infinity",
        _ => "finite",
    };
    results.iter().map(|result| Ok(result.to_vec::<f32>()?.iter().map(kind).collect())).collect()
}

/// With infinities and NaN anywhere, and with numbers that bf16x6 cannot split, bf16x6 gives the
/// same results as FMA. In TF32 the same holds for y if no key is masked. Gradients are not
/// compared in TF32: they are differences that may be infinite in one computation and not in the
/// other.
#[test]
fn infinities_nan_and_unsplittable_numbers() -> Result<()> {
    let _shared = lock_shared();
    let Some(gpu) = gpu() else { return Ok(()) };
    let (queries, keys, width) = (20, 70, 64);
    let mut faults = String::new();
    let values = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3e38, 1e30, 1e-36, 1e-42];
    for (input, value) in (0..4).flat_map(|input| values.map(|value| (input, value))) {
        let random = |at: usize| {
            let rows = if at == 0 || at == 3 { queries } else { keys };
            let mut all = numbers(rows * width, at as u64 + 1);
            if at == input {
                all[3 * width + 5] = value;
            }
            Tensor::from_vec(all, [1, 1, rows, width], gpu)
        };
        let (inputs, dy) = ([random(0)?, random(1)?, random(2)?], random(3)?);
        let run = || attend(AttentionConfig { scale: 0.05, ..AttentionConfig::PLAIN }, &inputs, &dy);
        let expected = by_fused_multiply_adds(run)?;
        let (parts, rounded) = (with_attention_bf16x6(run)?, in_tf32(run)?);
        if classes(&parts)? != classes(&expected)? {
            let _ = writeln!(faults, "{value} in input {input} by bf16x6: other numbers are infinite or NaN");
        }
        if classes(&rounded[..1])? != classes(&expected[..1])? {
            let _ = writeln!(faults, "{value} in input {input} in TF32: other numbers are infinite or NaN");
        }
        for (at, (found, expected)) in parts.iter().zip(&expected).enumerate() {
            let finite = |x: &Tensor| -> Result<Tensor> {
                let all = x.to_vec::<f32>()?.into_iter().map(|x| if x.is_finite() { x } else { 0.0 });
                Tensor::from_vec(all.collect::<Vec<_>>(), *x.shape(), &ternion::cpu()?)
            };
            if let Some(text) = first_difference(&finite(found)?, &finite(expected)?)? {
                let _ = writeln!(faults, "{value} in input {input} by bf16x6, result {at}: {text}");
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}
