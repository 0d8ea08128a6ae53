//! The attention ladder: every rung, for each head_dim, with and without a causal mask, is compared
//! with f64 on the CPU, with guarded edges. Also what it rejects.

use super::{gpu, lock_shared, numbers, unless_short};
use ternion::prelude::*;
use ternion_cuda::CudaBackend;
use ternion_cuda::attention_ladder::{self, Mask, Operands, Options, Rung, WIDTHS};

/// One token, both sides of every tile size (64 and 128 queries or keys), and loops of several
/// steps whose last one is partial.
const TOKENS: [usize; 9] = [1, 3, 64, 65, 127, 128, 129, 200, 513];
/// The same for short tests.
const FEW_TOKENS: [usize; 3] = [3, 65, 200];
/// Three heads, so that one has neighbors on both sides, whose rows it must not read.
const HEADS: usize = 3;
/// The value around y and after the workspace, where nothing may be written.
const MARK: f64 = -4096.0;
const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];

pub(super) fn backend(device: &Device) -> &CudaBackend {
    device.downcast().expect("the CUDA backend itself")
}

/// Returns every rung that the device supports.
pub(super) fn every_rung(device: &Device) -> impl Iterator<Item = Rung> {
    Rung::ALL.into_iter().filter(|rung| {
        let runs = attention_ladder::runs(backend(device), *rung);
        if !runs {
            println!("not tested: the device lacks the instructions of {}", rung.name());
        }
        runs
    })
}

/// Queues a rung with a separate workspace, and returns the workspace: its elements, which were
/// filled with NaN, followed by as many elements of MARK.
pub(super) fn forward(
    device: &Device,
    rung: Rung,
    options: Options,
    [q, k, v, y]: [&Tensor; 4],
) -> Result<Option<Tensor>> {
    let needed = rung.workspace_elements(q.dims()[0], q.dims()[1]);
    let workspace = match needed {
        0 => None,
        _ => Some(Tensor::full([2 * needed], MARK, DType::F32, device)?),
    };
    if let Some(workspace) = &workspace {
        workspace.narrow(0, 0, needed)?.fill_(f64::NAN)?;
    }
    let view = workspace.as_ref().map(|workspace| workspace.view());
    let operands =
        Operands { q: &q.view(), k: &k.view(), v: &v.view(), y: &y.view(), workspace: view.as_ref() };
    attention_ladder::forward(backend(device), rung, options, operands)?;
    Ok(workspace)
}

/// Returns y of the rung as f64, for q, k and v on the CPU. Checks that nothing is written around
/// it, or after its workspace.
fn outputs(device: &Device, rung: Rung, options: Options, inputs: &[Tensor; 3]) -> Result<Vec<f64>> {
    let [heads, tokens, width] = inputs[0].dims()[..] else { panic!("three axes") };
    let on_device = inputs.iter().map(|x| x.to_device(device)).collect::<Result<Vec<_>>>()?;
    let around = Tensor::full([heads + 2, tokens, width], MARK, rung.dtype(), device)?;
    let y = around.narrow(0, 1, heads)?;
    // Elements that are not written stay NaN.
    y.fill_(f64::NAN)?;
    let workspace = forward(device, rung, options, [&on_device[0], &on_device[1], &on_device[2], &y])?;
    let mut all = around.to_vec_f64()?;
    let end = all.split_off((heads + 1) * tokens * width);
    let y = all.split_off(tokens * width);
    let is_untouched = |values: &[f64]| values.iter().all(|&value| value == MARK);
    assert!(is_untouched(&all) && is_untouched(&end), "{rung:?} {tokens} x {width}: written around y");
    if let Some(workspace) = workspace {
        let workspace = workspace.to_vec_f64()?;
        let (_, second_half) = workspace.split_at(workspace.len() / 2);
        assert!(is_untouched(second_half), "{rung:?} {tokens} x {width}: written after the workspace");
    }
    Ok(y)
}

/// An element of y in f64: its value, the mean of the absolute values with the same weights, and
/// the largest sum of absolute products of a score in its row.
struct Exact {
    value: f64,
    absolute: f64,
    largest_score: f64,
}

/// Returns a row of y by its definition, from a query and the keys and values that it attends to.
fn exact_row(query: &[f64], keys: &[f64], values: &[f64], scale: f64) -> Vec<Exact> {
    let width = query.len();
    let (mut scores, mut largest_score) = (Vec::new(), 0f64);
    for key in keys.chunks(width) {
        let products = query.iter().zip(key).map(|(q, k)| q * k * scale);
        let (sum, absolute) = products.fold((0.0, 0.0), |(sum, absolute), x| (sum + x, absolute + x.abs()));
        scores.push(sum);
        largest_score = largest_score.max(absolute);
    }
    let row_max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - row_max).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut row: Vec<Exact> =
        (0..width).map(|_| Exact { value: 0.0, absolute: 0.0, largest_score }).collect();
    for (weight, values) in weights.iter().zip(values.chunks(width)) {
        for (exact, value) in row.iter_mut().zip(values) {
            exact.value += weight / total * value;
            exact.absolute += weight / total * value.abs();
        }
    }
    row
}

/// Attention by its definition.
fn exact(inputs: &[Tensor; 3], options: Options) -> Result<Vec<Exact>> {
    let [heads, tokens, width] = inputs[0].dims()[..] else { panic!("three axes") };
    let [q, k, v] = [&inputs[0], &inputs[1], &inputs[2]].map(Tensor::to_vec_f64);
    let (q, k, v) = (q?, k?, v?);
    let mut all = Vec::with_capacity(q.len());
    for (head, query) in (0..heads).flat_map(|head| (0..tokens).map(move |query| (head, query))) {
        let attended = if options.mask == Mask::Causal { query + 1 } else { tokens };
        let first = head * tokens * width;
        let row = &q[first + query * width..][..width];
        let (keys, values) = (&k[first..][..attended * width], &v[first..][..attended * width]);
        all.extend(exact_row(row, keys, values, f64::from(options.scale)));
    }
    Ok(all)
}

/// Returns how far an element of y may be from its exact value, in the worst case. u = 2^-24 is the
/// rounding unit of f32; t is the unit of a product's sums: u, or 2^-22 on tensor cores, which
/// truncate where an fmaf rounds.
///
/// - A score's sum of `width` products is off by (width + 1) t of their absolute sum. Scaling, base
///   2 and the difference to the maximum (at most twice that sum) add 8 u of it. A weight is off by
///   as much, relative to itself, and by 4 u for the exponential (2 ulp).
/// - Each step's correction multiplies the previous weights by another exponential, 5 u. Numerator
///   and denominator get the same factor.
/// - Both sums have `tokens` terms: tokens t in the numerator, tokens u in the denominator. The
///   division and its product add two more.
/// - In bf16 a weight is rounded before it is multiplied by its value, only in the numerator: 2^-8.
///   y is rounded once: 2^-8 of itself.
fn limit(rung: Rung, tokens: usize, width: usize, exact: &Exact) -> f64 {
    let unit = 2f64.powi(-24);
    let (sum_unit, rounding) = match rung.dtype() {
        DType::BF16 => (2f64.powi(-22), 2f64.powi(-8)),
        _ => (unit, 0.0),
    };
    let score = ((width + 1) as f64 * sum_unit + 8.0 * unit) * exact.largest_score;
    let steps = tokens.div_ceil(64) as f64;
    let weight = score + (4.0 + 5.0 * steps) * unit;
    let sums = tokens as f64 * (sum_unit + unit) + 2.0 * unit;
    // The error of a weight counts twice, since weights are in both sums. The factor covers
    // second-order terms.
    let error = 1.01 * (2.0 * weight + sums + rounding) * exact.absolute;
    error + rounding * (exact.value.abs() + error)
}

fn inputs(dtype: DType, shape: [usize; 3], values: impl Fn(usize, u64) -> Vec<f32>) -> Result<[Tensor; 3]> {
    let cpu = ternion::cpu()?;
    let tensor = |seed| Tensor::from_vec(values(shape.iter().product(), seed), shape, &cpu)?.to_dtype(dtype);
    Ok([tensor(1)?, tensor(2)?, tensor(3)?])
}

/// Returns the rungs of a dtype that the device supports.
fn rungs_of(device: &Device, dtype: DType) -> Vec<Rung> {
    every_rung(device).filter(|rung| rung.dtype() == dtype).collect()
}

/// Runs `check` for every dtype of the rungs, number of tokens, head_dim and mask.
fn for_every_size(mut check: impl FnMut(DType, [usize; 3], Mask) -> Result<()>) -> Result<()> {
    for dtype in [DType::F32, DType::BF16] {
        for &tokens in unless_short(&TOKENS[..], &FEW_TOKENS[..]) {
            for width in WIDTHS {
                MASKS.into_iter().try_for_each(|mask| check(dtype, [HEADS, tokens, width], mask))?;
            }
        }
    }
    Ok(())
}

/// Scores that differ much, so that few keys have most of the weight and the running maximum
/// increases; and scores that differ little.
#[test]
fn outputs_are_within_their_rounding_bound_and_bit_identical_in_two_runs() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    for_every_size(|dtype, shape, mask| {
        let inputs = inputs(dtype, shape, numbers)?;
        let [_, tokens, width] = shape;
        for scale in [1.0, 0.1].map(|factor| factor / (width as f32).sqrt()) {
            let options = Options { scale, mask };
            let expected = exact(&inputs, options)?;
            for rung in rungs_of(device, dtype) {
                let found = outputs(device, rung, options, &inputs)?;
                assert_eq!(found.len(), expected.len());
                for (at, (value, exact)) in found.iter().zip(&expected).enumerate() {
                    let (error, limit) = ((value - exact.value).abs(), limit(rung, tokens, width, exact));
                    let (row, column) = (at / width, at % width);
                    assert!(
                        error <= limit,
                        "{rung:?} {shape:?} {mask:?} scale {scale}: {value} instead of {} at [{row}, {column}], limit {limit}",
                        exact.value
                    );
                }
                assert!(
                    outputs(device, rung, options, &inputs)? == found,
                    "{rung:?} {shape:?} {mask:?}: twice"
                );
            }
        }
        Ok(())
    })
}

/// Queries of 0 give all unmasked keys equal weights. The value of key j of head h is 1 in column
/// (j + h) % width and 0 in all other columns, so a column of y is the fraction of the unmasked
/// keys with a 1 there. Sums of such values are exact; a key that is missing, counted twice or
/// taken from another head changes the result by a full term. The fraction is a quotient that is
/// computed by a reciprocal, or a sum of one quotient for each such key: 3 units of f32 plus one
/// for each key, and one unit of bf16.
#[test]
fn every_unmasked_key_counts_once() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    for_every_size(|dtype, shape @ [_, tokens, width], mask| {
        let values = |count: usize, seed: u64| {
            let one_hot = |at: usize| {
                let (head, key) = (at / width / tokens, at / width % tokens);
                ((key + head) % width == at % width) as u8 as f32
            };
            match seed {
                1 => vec![0.0; count],
                2 => numbers(count, seed),
                _ => (0..count).map(one_hot).collect(),
            }
        };
        let inputs = inputs(dtype, shape, values)?;
        let of_bf16 = if dtype == DType::BF16 { 2f64.powi(-8) } else { 0.0 };
        for rung in rungs_of(device, dtype) {
            let found = outputs(device, rung, Options { scale: 0.5, mask }, &inputs)?;
            for (at, value) in found.iter().enumerate() {
                let (head, query, column) = (at / width / tokens, at / width % tokens, at % width);
                let attended = if mask == Mask::Causal { query + 1 } else { tokens };
                let count = (0..attended).filter(|key| (key + head) % width == column).count();
                let expected = count as f64 / attended as f64;
                let rounding = of_bf16 + (3 + count) as f64 * 2f64.powi(-24);
                assert!(
                    (value - expected).abs() <= rounding * expected,
                    "{rung:?} {shape:?} {mask:?}: {value} instead of {count} of {attended} at query {query}, column {column} of head {head}"
                );
            }
        }
        Ok(())
    })
}

#[test]
fn invalid_arguments_of_a_rung_are_errors() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    let zeros = |shape: [usize; 3], dtype| Tensor::zeros(shape, dtype, device);
    let options = Options { scale: 1.0, mask: Mask::Full };
    let attempt = |rung, options, [q, k, v, y]: [&Tensor; 4], workspace: Option<&Tensor>| {
        let workspace = workspace.map(Tensor::view);
        let operands = Operands {
            q: &q.view(),
            k: &k.view(),
            v: &v.view(),
            y: &y.view(),
            workspace: workspace.as_ref(),
        };
        attention_ladder::forward(backend(device), rung, options, operands)
    };
    let check_rejected = |rung, tensors: [&Tensor; 4], workspace: Option<&Tensor>, expected: &str| {
        let text = attempt(rung, options, tensors, workspace).expect_err(expected).to_string();
        assert!(text.starts_with("attention_ladder: ") && text.contains(expected), "{text}");
    };
    let (x, half) = (zeros([2, 3, 64], DType::F32)?, zeros([2, 3, 64], DType::BF16)?);
    check_rejected(
        Rung::OnlineSoftmax,
        [&x, &half, &x, &x],
        None,
        "online_softmax: expected k of f32, got bf16",
    );
    check_rejected(Rung::Mma, [&half, &half, &half, &x], None, "mma: expected y of bf16, got f32");
    let longer = zeros([2, 4, 64], DType::F32)?;
    let text = "expected v of the shape of q, [2, 3, 64], got [2, 4, 64]";
    check_rejected(Rung::OnlineSoftmax, [&x, &x, &longer, &x], None, text);
    let narrow = zeros([2, 3, 32], DType::F32)?;
    check_rejected(Rung::OnlineSoftmax, [&narrow; 4], None, "expected a width of 64 or 128, got 32");
    let transposed = zeros([2, 64, 64], DType::F32)?.transpose(1, 2)?;
    check_rejected(Rung::Naive, [&transposed; 4], None, "q row-major without gaps, got strides");
    let none = zeros([2, 0, 64], DType::F32)?;
    check_rejected(Rung::OnlineSoftmax, [&none; 4], None, "at least a head and a token, got 2 and 0");
    check_rejected(Rung::Naive, [&x; 4], None, "naive: expected a workspace of 24 elements of f32, got none");
    let few = Tensor::zeros([23], DType::F32, device)?;
    check_rejected(
        Rung::Tiled,
        [&x; 4],
        Some(&few),
        "tiled: expected a workspace of 24 elements of f32, got 23",
    );
    check_rejected(
        Rung::OnlineSoftmax,
        [&x; 4],
        Some(&few),
        "online_softmax: expected no workspace, got 23 elements",
    );
    let shifted = Tensor::zeros([2 * 3 * 64 + 1], DType::F32, device)?;
    let shifted = shifted.narrow(0, 1, 2 * 3 * 64)?.reshape([2, 3, 64])?;
    check_rejected(
        Rung::OnlineSoftmax,
        [&x, &shifted, &x, &x],
        None,
        "k that begins at a multiple of 16 bytes, got 0x",
    );
    let negative = Options { scale: -1.0, ..options };
    let text = attempt(Rung::OnlineSoftmax, negative, [&x; 4], None).expect_err("a sign").to_string();
    assert!(text.contains("expected a finite scale above 0, got -1"), "{text}");
    device.synchronize()
}
