//! Attention with every head_dim and mask: forward, backward, and twice.

mod f32_tensor_cores;
pub(super) mod forward_tiles;
mod grad_mask;
mod mma;
mod order;
mod resident;
mod varlen;

use super::{
    assert_no_faults, compare, first_difference, forward_and_backward, gpu, is_short, lock_shared, tensor,
    twice, unless_short,
};
use std::fmt::Write;
use ternion::dispatch::apply_one;
use ternion::ops::attention::{Attention, AttentionConfig};
use ternion::ops::random::Dropout;
use ternion::prelude::*;
use ternion_core::{Precision, with_precision};

/// What excludes keys from a query.
#[derive(Clone, Copy, Debug)]
enum MaskKind {
    Full,
    Causal,
    CausalWindow,
    Window,
    Bool,
    Additive,
}

const MASK_KINDS: [MaskKind; 6] = [
    MaskKind::Full,
    MaskKind::Causal,
    MaskKind::CausalWindow,
    MaskKind::Window,
    MaskKind::Bool,
    MaskKind::Additive,
];

/// head_dim and value_dim: the full width of each tile, and less. The last ones are so large that
/// attention is composed.
const WIDTHS: [[usize; 2]; 13] = [
    [32, 32],
    [33, 32],
    [40, 64],
    [64, 64],
    [72, 40],
    [96, 96],
    [128, 128],
    [100, 128],
    [160, 136],
    [192, 128],
    [200, 256],
    [256, 256],
    [264, 40],
];

/// Numbers of queries and keys, and of query heads per key head. The lengths are within a tile, of
/// complete tiles, and one more.
const LENGTHS: [[usize; 3]; 4] = [[5, 7, 1], [128, 256, 4], [130, 200, 1], [257, 129, 2]];

/// The same for short tests.
const FEW_WIDTHS: [[usize; 2]; 6] = [[33, 32], [64, 64], [72, 40], [100, 128], [160, 136], [200, 256]];
const FEW_LENGTHS: [[usize; 3]; 1] = [[257, 129, 2]];

/// Query heads in each of two batches. `MANY_HEADS` are enough that with 65 or more queries there
/// are as many tiles as an H100 has multiprocessors.
const HEADS: usize = 4;
const MANY_HEADS: usize = 36;

const WINDOW: usize = 37;

/// Dropout options. Each run has its own random state, because other tests use the random state of
/// the device.
const DROPOUTS: [Option<Dropout>; 2] = [None, Some(Dropout { p: 0.25, offset: 3 })];

fn state(device: &Device) -> Result<Tensor> {
    Tensor::from_slice(&[-77_i64, 0xffff_ff00], [2], device)
}

/// The parameters of one case.
#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    widths: [usize; 2],
    heads: usize,
    lengths: [usize; 3],
    mask_kind: MaskKind,
    dropout: Option<Dropout>,
}

fn cases(dtype: DType) -> impl Iterator<Item = Case> {
    let of = move |widths| {
        unless_short(LENGTHS.to_vec(), FEW_LENGTHS.to_vec()).into_iter().flat_map(move |lengths| {
            let case = move |mask_kind| {
                DROPOUTS.map(|dropout| Case { dtype, widths, heads: HEADS, lengths, mask_kind, dropout })
            };
            MASK_KINDS.into_iter().flat_map(case)
        })
    };
    unless_short(WIDTHS.to_vec(), FEW_WIDTHS.to_vec()).into_iter().flat_map(of)
}

impl Case {
    fn inputs(self, device: &Device) -> Result<[Tensor; 3]> {
        let ([width, value_width], [queries, keys, group]) = (self.widths, self.lengths);
        let kv_heads = self.heads / group;
        Ok([
            tensor(&[2, self.heads, queries, width], self.dtype, device, 1)?,
            tensor(&[2, kv_heads, keys, width], self.dtype, device, 2)?,
            tensor(&[2, kv_heads, keys, value_width], self.dtype, device, 3)?,
        ])
    }

    fn mask(self, device: &Device) -> Result<Option<Tensor>> {
        let [queries, keys, _] = self.lengths;
        Ok(match self.mask_kind {
            MaskKind::Bool => Some(tensor(&[2, 1, queries, keys], DType::F32, device, 4)?.gt_scalar(-1.0)?),
            MaskKind::Additive => Some(tensor(&[self.heads, queries, keys], self.dtype, device, 4)?),
            _ => None,
        })
    }

    fn scale(self) -> f64 {
        0.3 / (self.widths[0] as f64).sqrt()
    }

    fn is_causal(self) -> bool {
        matches!(self.mask_kind, MaskKind::Causal | MaskKind::CausalWindow)
    }

    fn has_window(self) -> bool {
        matches!(self.mask_kind, MaskKind::Window | MaskKind::CausalWindow)
    }

    fn attend(self, inputs: &[Tensor], mask: Option<&Tensor>) -> Result<Tensor> {
        let config = AttentionConfig {
            scale: self.scale(),
            causal: self.is_causal(),
            window: self.has_window().then_some(WINDOW),
            mask: mask.is_some(),
            dropout: self.dropout,
            ..AttentionConfig::PLAIN
        };
        let ([queries, keys, _], device) = (self.lengths, inputs[0].device());
        let mask = mask.map(|mask| mask.expand([2, self.heads, queries, keys])).transpose()?;
        let state = self.dropout.map(|_| state(device)).transpose()?;
        let all: Vec<&Tensor> = inputs.iter().chain(&mask).chain(&state).collect();
        apply_one(Attention { config }, &all)
    }

    fn on(self, device: &Device) -> Result<Vec<Tensor>> {
        let mask = self.mask(device)?;
        forward_and_backward(&self.inputs(device)?, device, |inputs| self.attend(inputs, mask.as_ref()))
    }

    /// Runs [`Self::on`] in f32 with the same numbers.
    fn exactly(self, device: &Device) -> Result<Vec<Tensor>> {
        let inputs =
            self.inputs(device)?.iter().map(|x| x.to_dtype(DType::F32)).collect::<Result<Vec<_>>>()?;
        let mask = match self.mask(device)? {
            Some(mask) if mask.dtype() != DType::Bool => Some(mask.to_dtype(DType::F32)?),
            mask => mask,
        };
        forward_and_backward(&inputs, device, |inputs| {
            self.attend(inputs, mask.as_ref())?.to_dtype(self.dtype)
        })
    }

    /// Runs [`Self::on`] op by op: every score, weight and gradient is rounded to the dtype.
    fn op_by_op(self, device: &Device) -> Result<Vec<Tensor>> {
        let group = self.lengths[2];
        let attended = self.attended(device)?;
        let mask = self.mask(device)?.filter(|mask| mask.dtype() != DType::Bool);
        forward_and_backward(&self.inputs(device)?, device, |inputs| {
            let (k, v) = (shared(&inputs[1], group)?, shared(&inputs[2], group)?);
            let mut scores = inputs[0].matmul(&k.t()?)?.mul_scalar(self.scale())?;
            if let Some(mask) = &mask {
                scores = scores.add(mask)?;
            }
            // A finite number, so that queries without unmasked keys have weights too. The last
            // factor makes these weights zero.
            let weights = scores.masked_fill(&attended.logical_not()?, -1e4)?.softmax(-1)?;
            let weights = match self.dropout {
                Some(dropout) => apply_one(dropout, &[&weights, &state(device)?])?,
                None => weights,
            };
            let has_keys = attended.any(-1)?.unsqueeze(-1)?.to_dtype(self.dtype)?;
            weights.matmul(&v)?.mul(&has_keys)
        })
    }

    /// Returns whether a query attends to a key, `[queries, keys]` or `[2, 1, queries, keys]`. The
    /// last query is aligned with the last key.
    fn attended(self, device: &Device) -> Result<Tensor> {
        if let Some(mask) = self.mask(device)?.filter(|mask| mask.dtype() == DType::Bool) {
            return Ok(mask);
        }
        let [queries, keys, _] = self.lengths;
        let attends = |query: usize, key: usize| {
            let (position, key) = ((query + keys) as i64 - queries as i64, key as i64);
            let early = !self.is_causal() || key <= position;
            let near = key > position - WINDOW as i64 && (self.is_causal() || key < position + WINDOW as i64);
            early && (near || !self.has_window())
        };
        let all =
            (0..queries).flat_map(|query| (0..keys).map(move |key| attends(query, key))).collect::<Vec<_>>();
        Tensor::from_vec(all, [queries, keys], device)
    }
}

/// Returns the keys or values of each query head, given that `group` query heads share one.
fn shared(x: &Tensor, group: usize) -> Result<Tensor> {
    let [batch, heads, rows, width] = [0, 1, 2, 3].map(|axis| x.dims()[axis]);
    x.unsqueeze(2)?.expand([batch, heads, group, rows, width])?.reshape([batch, heads * group, rows, width])
}

fn furthest(found: &Tensor, exact: &[f64]) -> Result<f64> {
    let differences =
        found.to_vec_f64()?.iter().zip(exact).map(|(found, exact)| (found - exact).abs()).collect::<Vec<_>>();
    // f64::max drops NaN, which must count as the largest distance.
    Ok(if differences.iter().any(|difference| difference.is_nan()) {
        f64::INFINITY
    } else {
        differences.into_iter().fold(0.0, f64::max)
    })
}

/// In half precision the weights and the gradients of the scores are rounded before they are
/// multiplied, and those gradients are small differences of large numbers. So the error is compared
/// with the error of attention op by op in the same dtype on the same device, both relative to f32,
/// as in the tests of FlashAttention (Dao et al. 2022). The limit is twice the error of attention
/// op by op plus the rounding of the result, but at most 16 roundings. Returns the results if there
/// is a GPU.
fn compare_half_precision(faults: &mut String, case: Case, rounding: f64) -> Result<Option<Vec<Tensor>>> {
    let _shared = lock_shared();
    let Some(found) = twice(faults, &format!("{case:?}"), |device| case.on(device))? else {
        return Ok(None);
    };
    let device = found[0].device();
    // With many heads this takes minutes on the CPU: the reference is then the device's attention
    // in f32, which the tests of fewer heads compare with the CPU's.
    let exact = case.exactly(&if case.heads > HEADS { device.clone() } else { ternion::cpu()? })?;
    let rounded = case.op_by_op(device)?;
    report_errors(faults, &format!("{case:?}"), [&found, &rounded, &exact], rounding)?;
    Ok(Some(found))
}

/// Adds each result of `found` to `faults` whose distance from `exact` exceeds twice that of
/// `rounded`, another computation in the same dtype, plus the rounding of the result.
fn report_errors(
    faults: &mut String,
    what: &str,
    [found, rounded, exact]: [&[Tensor]; 3],
    rounding: f64,
) -> Result<()> {
    for (at, (found, exact)) in found.iter().zip(exact).enumerate() {
        let exact = exact.to_vec_f64()?;
        let largest = exact.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let limit = 2.0 * furthest(&rounded[at], &exact)? + rounding * largest;
        // The other computation may have large errors too, and is then not a useful reference.
        let limit = limit.min(16.0 * rounding * largest);
        let difference = furthest(found, &exact)?;
        if difference > limit {
            let _ = writeln!(faults, "{what}, result {at}: {difference} from f32, where {limit} is allowed");
        }
    }
    Ok(())
}

fn attention_in_half_precision(dtype: DType, rounding: f64) -> Result<()> {
    let mut faults = String::new();
    for case in cases(dtype) {
        if compare_half_precision(&mut faults, case, rounding)?.is_none() {
            break;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Many blocks of keys add to the gradient of the same queries, in a fixed order: correct, and
/// bit-identical each time.
#[test]
fn gradients_of_queries_are_sums_in_one_order() -> Result<()> {
    let mut faults = String::new();
    let of = |width, lengths, mask_kind| Case {
        dtype: DType::BF16,
        widths: [width, width],
        heads: HEADS,
        lengths,
        mask_kind,
        dropout: None,
    };
    for case in [64, 128, 192, 256].into_iter().flat_map(|width| {
        [
            of(width, [700, 1100, 2], MaskKind::Full),
            of(width, [700, 1100, 1], MaskKind::Causal),
            of(width, [1024, 1024, 4], MaskKind::Causal),
            of(width, [900, 900, 1], MaskKind::CausalWindow),
            Case { dropout: DROPOUTS[1], ..of(width, [700, 900, 2], MaskKind::Causal) },
        ]
    }) {
        let Some(found) = compare_half_precision(&mut faults, case, 1.0 / 256.0)? else { break };
        for time in 0..unless_short(20, 1) {
            let _shared = lock_shared();
            let Some(again) = twice(&mut faults, &format!("{case:?}"), |device| case.on(device))? else {
                break;
            };
            for (at, (found, again)) in found.iter().zip(&again).enumerate() {
                if found.to_bytes()? != again.to_bytes()? {
                    let _ = writeln!(faults, "{case:?}, result {at}: other numbers at time {time}");
                }
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Forward in tiles of 128 queries and steps of 128 or 80 keys, with many heads: lengths around
/// these sizes, queries without unmasked keys, smaller head_dim. Results are correct and
/// bit-identical each time.
#[test]
fn many_tiles_of_queries() -> Result<()> {
    let lengths = [[65, 127, 1], [128, 256, 4], [129, 385, 1], [193, 130, 2], [257, 128, 1], [300, 300, 1]];
    let count = unless_short(lengths.len(), 3);
    let widths = [[64, 64], [128, 128], [72, 40], [192, 192], [160, 136], [256, 200]];
    let of = |widths| lengths.into_iter().take(count).map(move |lengths| (widths, lengths));
    equal_each_time(widths.into_iter().flat_map(of), None, unless_short(10, 1))
}

/// The same with dropout, from keep bits that are generated in advance.
#[test]
fn many_tiles_of_queries_with_dropped_weights() -> Result<()> {
    let lengths = [[65, 127, 1], [128, 256, 4], [193, 130, 2], [300, 300, 1]];
    let count = unless_short(lengths.len(), 2);
    let of = |widths| lengths.into_iter().take(count).map(move |lengths| (widths, lengths));
    let widths = [[64, 64], [128, 128], [72, 40], [192, 192], [160, 136], [256, 200]];
    equal_each_time(widths.into_iter().flat_map(of), DROPOUTS[1], unless_short(10, 1))
}

/// So many tiles that each block processes several, with one or a few steps of keys per tile:
/// buffers are reused many times.
#[test]
fn several_tiles_of_queries_for_a_block() -> Result<()> {
    let lengths = unless_short(vec![[1030, 70, 1], [1030, 161, 2]], vec![[520, 70, 1]]);
    let widths = [[64, 64], [128, 128], [192, 192], [256, 256]];
    let of = |widths| lengths.iter().map(move |&lengths| (widths, lengths));
    equal_each_time(widths.into_iter().flat_map(of), None, unless_short(5, 1))
}

/// Uses the forward tiles for many keys, which are selected only for large sizes. The reference is
/// a kernel with other tiles, whose mask allows the same keys.
#[test]
fn many_keys() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu().filter(|_| !is_short()) else { return Ok(()) };
    let mut faults = String::new();
    let cases = [
        (64, 36, 576, false),
        (64, 36, 1300, false),
        (64, 36, 1300, true),
        (64, 36, 700, true),
        (64, 12, 2112, true),
        (192, 2, 4096, true),
        (192, 2, 4100, false),
    ];
    for (width, heads, length, causal) in cases {
        let attended = (0..length).flat_map(|query| (0..length).map(move |key| !causal || key <= query));
        let mask = Tensor::from_vec(attended.collect::<Vec<_>>(), [length, length], device)?;
        let mask = mask.expand([2, heads, length, length])?;
        for dtype in [DType::F16, DType::BF16] {
            let random = |seed| tensor(&[2, heads, length, width], dtype, device, seed);
            let (q, k, v) = (random(1)?, random(2)?, random(3)?);
            let config = |causal, mask| AttentionConfig {
                scale: 0.3 / (width as f64).sqrt(),
                causal,
                mask,
                ..AttentionConfig::PLAIN
            };
            let found = apply_one(Attention { config: config(causal, false) }, &[&q, &k, &v])?;
            let expected = apply_one(Attention { config: config(false, true) }, &[&q, &k, &v, &mask])?;
            if let Some(text) = first_difference(&found, &expected)? {
                let _ =
                    writeln!(faults, "{dtype:?} of width {width}, length {length}, causal {causal}: {text}");
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// So many weights that the keep bits are generated for a few heads at a time. The reference is a
/// kernel that generates the bits itself, with a mask that excludes no key.
#[test]
fn dropped_weights_of_many_heads() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu().filter(|_| !is_short()) else { return Ok(()) };
    let mut faults = String::new();
    let cases = [
        (64, 40, 20, 4096, false),
        (64, 22, 22, 5000, true),
        (128, 36, 12, 4096, true),
        (192, 36, 12, 4096, true),
        (256, 34, 34, 4100, false),
    ];
    for (width, heads, kv_heads, length, causal) in cases {
        let mask = Tensor::from_vec(vec![true; 1], [1, 1, 1, 1], device)?;
        for dtype in [DType::F16, DType::BF16] {
            let random = |heads, seed| tensor(&[1, heads, length, width], dtype, device, seed);
            let inputs = [random(heads, 1)?, random(kv_heads, 2)?, random(kv_heads, 3)?];
            let attend = |inputs: &[Tensor], mask: Option<&Tensor>| {
                let config = AttentionConfig {
                    scale: 0.3 / (width as f64).sqrt(),
                    causal,

                    mask: mask.is_some(),

                    dropout: DROPOUTS[1],
                    ..AttentionConfig::PLAIN
                };
                let state = state(device)?;
                let all: Vec<&Tensor> = inputs.iter().chain(mask).chain([&state]).collect();
                apply_one(Attention { config }, &all)
            };
            let found = forward_and_backward(&inputs, device, |inputs| attend(inputs, None))?;
            let expected = forward_and_backward(&inputs, device, |inputs| attend(inputs, Some(&mask)))?;
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let difference = found.to_dtype(DType::F32)?.sub(&expected.to_dtype(DType::F32)?)?;
                let size = |x: &Tensor| x.to_dtype(DType::F32)?.square()?.mean(..)?.item_f64();
                let (difference, all) = (size(&difference)?.sqrt(), size(expected)?.sqrt());
                // Different dropout masks would differ by as much as the results themselves.
                if difference.is_nan() || difference > all / 64.0 {
                    let _ = writeln!(
                        faults,
                        "{dtype:?} of width {width}, {heads} heads, causal {causal}, result {at}: {difference} compared with {all}"
                    );
                }
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// More blocks than fit on the device, each with a long loop over keys: uses the kernel without TMA
/// and without split-KV.
#[test]
fn long_loops_of_many_blocks() -> Result<()> {
    let lengths = unless_short(vec![[40, 700, 1]], vec![[40, 300, 1]]);
    let mut faults = String::new();
    for widths in [[40, 32], [64, 64], [128, 100]] {
        for (mask_kind, &lengths) in [MaskKind::Full, MaskKind::Causal]
            .into_iter()
            .flat_map(|mask_kind| lengths.iter().map(move |at| (mask_kind, at)))
        {
            let case = Case { dtype: DType::BF16, widths, heads: 70, lengths, mask_kind, dropout: None };
            if compare_half_precision(&mut faults, case, 1.0 / 256.0)?.is_none() {
                return Ok(());
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// A few queries with many keys, as in steps of generation: uses split-KV, and query heads that
/// share keys are rows of one tile.
#[test]
fn few_queries_of_many_keys() -> Result<()> {
    let lengths = [[1, 3000, 4], [1, 1030, 1], [5, 2500, 2], [16, 700, 1], [70, 2200, 4]];
    let lengths = unless_short(lengths.to_vec(), vec![[1, 1030, 4], [5, 700, 2]]);
    let widths = [[32, 32], [64, 64], [72, 40], [100, 128], [192, 130], [256, 256]];
    let mut faults = String::new();
    for (dtype, rounding) in [(DType::F16, 1.0 / 2048.0), (DType::BF16, 1.0 / 256.0)] {
        for (widths, &lengths) in
            widths.into_iter().flat_map(|widths| lengths.iter().map(move |at| (widths, at)))
        {
            for mask_kind in MASK_KINDS {
                let case = Case { dtype, widths, heads: HEADS, lengths, mask_kind, dropout: None };
                if compare_half_precision(&mut faults, case, rounding)?.is_none() {
                    return Ok(());
                }
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Attention of these head dims and lengths, over all keys, causal and with a window: correct, and
/// forward bit-identical in several runs.
fn equal_each_time(
    cases: impl Iterator<Item = ([usize; 2], [usize; 3])>,
    dropout: Option<Dropout>,
    times: usize,
) -> Result<()> {
    let mut faults = String::new();
    let dtype = DType::BF16;
    let cases = cases.flat_map(|(widths, lengths)| {
        [MaskKind::Full, MaskKind::Causal, MaskKind::Window].map(|mask_kind| Case {
            dtype,
            widths,
            heads: MANY_HEADS,
            lengths,
            mask_kind,
            dropout,
        })
    });
    for case in cases {
        let Some(found) = compare_half_precision(&mut faults, case, 1.0 / 256.0)? else { break };
        let (inputs, found) = (case.inputs(found[0].device())?, found[0].to_bytes()?);
        for time in 0..times {
            let _shared = lock_shared();
            let repeat = |_: &Device| case.attend(&inputs, None).map(|y| vec![y]);
            let Some(repeat) = twice(&mut faults, &format!("{case:?}"), repeat)? else { break };
            if found != repeat[0].to_bytes()? {
                let _ = writeln!(faults, "{case:?}: other numbers at time {time}");
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// f32 by FMA, with every head_dim; bf16x6 has separate tests.
#[test]
fn attention_of_f32() -> Result<()> {
    let mut faults = String::new();
    for case in cases(DType::F32) {
        compare(&mut faults, &format!("{case:?}"), |device| {
            with_precision(Precision::Ieee, || case.on(device))
        })?;
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn attention_of_f16() -> Result<()> {
    attention_in_half_precision(DType::F16, 1.0 / 2048.0)
}

#[test]
fn attention_of_bf16() -> Result<()> {
    attention_in_half_precision(DType::BF16, 1.0 / 256.0)
}
