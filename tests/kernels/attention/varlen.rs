//! Varlen attention, compared with attention that has a mask of the keys of each query's sequence.

use super::super::{
    assert_no_faults, difference_with_allowance, first_difference, forward_and_backward, lock_shared, tensor,
    twice, unless_short,
};
use super::{WINDOW, report_errors, state};
use std::fmt::Write;
use ternion::dispatch::apply_one;
use ternion::ops::attention::{Attention, AttentionConfig};
use ternion::ops::random::Dropout;
use ternion::prelude::*;
use ternion_core::{Precision, with_precision};
use ternion_cuda::with_attention_bf16x6;

/// Queries and keys of each sequence: several tiles, part of a tile, none, and more queries than
/// keys. Rows that belong to no sequence follow.
const SEQUENCES: [[usize; 2]; 7] = [[70, 64], [1, 3], [0, 5], [130, 259], [66, 2], [128, 128], [4, 0]];
const BEHIND: [usize; 2] = [3, 9];

/// Query heads, and query heads per key head.
const HEADS: usize = 4;
const GROUP: usize = 2;

const WIDTHS: [[usize; 2]; 8] =
    [[32, 32], [40, 64], [64, 64], [100, 128], [128, 128], [160, 136], [192, 192], [256, 200]];
const FEW_WIDTHS: [[usize; 2]; 3] = [[64, 64], [100, 128], [256, 200]];

/// The parameters of one case.
#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    widths: [usize; 2],
    causal: bool,
    window: Option<usize>,
    dropout: Option<Dropout>,
}

fn cases(dtype: DType) -> impl Iterator<Item = Case> {
    let bands = [(false, None), (true, None), (true, Some(WINDOW)), (false, Some(WINDOW))];
    let of = move |widths| {
        let case = move |(causal, window)| {
            [None, Some(Dropout { p: 0.25, offset: 3 })].map(|dropout| Case {
                dtype,
                widths,
                causal,
                window,
                dropout,
            })
        };
        bands.into_iter().flat_map(case)
    };
    unless_short(WIDTHS.to_vec(), FEW_WIDTHS.to_vec()).into_iter().flat_map(of)
}

/// Returns the number of queries (0) or keys (1) of all sequences and after them.
fn rows(which: usize) -> usize {
    SEQUENCES.iter().map(|lengths| lengths[which]).sum::<usize>() + BEHIND[which]
}

/// Returns the first row of each sequence, and the end of the last.
fn ends(which: usize) -> Vec<usize> {
    let end = |end: &mut usize, lengths: &[usize; 2]| {
        *end += lengths[which];
        Some(*end)
    };
    std::iter::once(0).chain(SEQUENCES.iter().scan(0, end)).collect()
}

impl Case {
    fn inputs(self, device: &Device) -> Result<[Tensor; 3]> {
        let [width, value_width] = self.widths;
        Ok([
            tensor(&[1, HEADS, rows(0), width], self.dtype, device, 1)?,
            tensor(&[1, HEADS / GROUP, rows(1), width], self.dtype, device, 2)?,
            tensor(&[1, HEADS / GROUP, rows(1), value_width], self.dtype, device, 3)?,
        ])
    }

    fn config(self, varlen: bool) -> AttentionConfig {
        AttentionConfig {
            scale: 0.3 / (self.widths[0] as f64).sqrt(),
            causal: varlen && self.causal,
            window: self.window.filter(|_| varlen),
            mask: !varlen,
            varlen,
            dropout: self.dropout,
            ..AttentionConfig::PLAIN
        }
    }

    fn in_sequences(self, device: &Device) -> Result<Vec<Tensor>> {
        let lengths = [0, 1].map(|which| {
            let ends: Vec<i32> = ends(which).into_iter().map(|end| end as i32).collect();
            Tensor::from_slice(&ends, [ends.len()], device)
        });
        let [queries, keys] = lengths;
        self.attend(device, self.dtype, true, &[queries?, keys?])
    }

    /// Computes the same with a mask, from the same numbers in this dtype.
    fn under_a_mask(self, device: &Device, dtype: DType) -> Result<Vec<Tensor>> {
        let [starts, key_starts] = [ends(0), ends(1)];
        let mut mask = vec![false; rows(0) * rows(1)];
        for (at, [queries, keys]) in SEQUENCES.into_iter().enumerate() {
            for (query, key) in (0..queries).flat_map(|query| (0..keys).map(move |key| (query, key))) {
                mask[(starts[at] + query) * rows(1) + key_starts[at] + key] =
                    self.sees([query, queries, key, keys]);
            }
        }
        let mask =
            Tensor::from_vec(mask, [rows(0), rows(1)], device)?.expand([1, HEADS, rows(0), rows(1)])?;
        self.attend(device, dtype, false, &[mask])
    }

    fn sees(self, [query, queries, key, keys]: [usize; 4]) -> bool {
        let ahead = (key + queries) as i64 - (query + keys) as i64;
        let is_near = |window: usize| ahead > -(window as i64) && (self.causal || ahead < window as i64);
        (!self.causal || ahead <= 0) && self.window.is_none_or(is_near)
    }

    /// Computes in `dtype`, from numbers of the case's dtype, to which y is rounded.
    fn attend(self, device: &Device, dtype: DType, varlen: bool, extras: &[Tensor]) -> Result<Vec<Tensor>> {
        let config = self.config(varlen);
        let inputs = self.inputs(device)?.iter().map(|x| x.to_dtype(dtype)).collect::<Result<Vec<_>>>()?;
        forward_and_backward(&inputs, device, |inputs| {
            let state = self.dropout.map(|_| state(device)).transpose()?;
            let all: Vec<&Tensor> = inputs.iter().chain(extras).chain(&state).collect();
            apply_one(Attention { config }, &all)?.to_dtype(self.dtype)
        })
    }
}

/// In f32 both are equal up to the order of sums. In half precision both round the same gradients
/// of scores; one gradient that is rounded differently changes a result by that rounding. So both
/// are compared with f32.
pub(super) fn compare_with_masks(dtype: DType) -> Result<()> {
    let mut faults = String::new();
    for case in cases(dtype) {
        let _shared = lock_shared();
        let Some(found) = twice(&mut faults, &format!("{case:?}"), |device| case.in_sequences(device))?
        else {
            break;
        };
        let device = found[0].device();
        let expected = case.under_a_mask(device, dtype)?;
        if dtype != DType::F32 {
            let rounding = if dtype == DType::F16 { 1.0 / 2048.0 } else { 1.0 / 256.0 };
            let exact = case.under_a_mask(device, DType::F32)?;
            report_errors(&mut faults, &format!("{case:?}"), [&found, &expected, &exact], rounding)?;
            continue;
        }
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if let Some(text) = first_difference(found, expected)? {
                let _ = writeln!(faults, "{case:?}, result {at}: {text}");
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// By FMA, with every head_dim.
#[test]
fn sequences_of_f32() -> Result<()> {
    with_precision(Precision::Ieee, || compare_with_masks(DType::F32))
}

/// By bf16x6, with sequences and with masks.
#[test]
fn sequences_of_f32_with_bf16x6() -> Result<()> {
    with_attention_bf16x6(|| compare_with_masks(DType::F32))
}

/// In TF32, compared with FMA. The rounding differs from that of the same attention with a mask,
/// because the steps contain other keys.
#[test]
fn sequences_of_f32_in_tf32() -> Result<()> {
    // Sixty times the rounding of an operand: the largest of many differences of rounded products.
    let allowance = 0.03;
    let mut faults = String::new();
    for case in cases(DType::F32) {
        let _shared = lock_shared();
        let in_tf32 = |device: &Device| with_precision(Precision::Tf32, || case.in_sequences(device));
        let Some(found) = twice(&mut faults, &format!("{case:?}"), in_tf32)? else { break };
        let device = found[0].device().clone();
        let expected = with_precision(Precision::Ieee, || case.in_sequences(&device))?;
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if let Some(text) = difference_with_allowance(found, expected, allowance)? {
                let _ = writeln!(faults, "{case:?}, result {at}: {text}");
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn sequences_of_f16() -> Result<()> {
    compare_with_masks(DType::F16)
}

#[test]
fn sequences_of_bf16() -> Result<()> {
    compare_with_masks(DType::BF16)
}

/// Invalid lengths do not cause reads beyond the existing rows. compute-sanitizer would detect an
/// access of other memory.
#[test]
fn invalid_lengths_access_no_other_memory() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = super::super::gpu() else { return Ok(()) };
    let config = AttentionConfig { scale: 0.2, causal: true, varlen: true, ..AttentionConfig::PLAIN };
    for dtype in [DType::F32, DType::BF16] {
        for ends in [[-5, i32::MAX, 40, 7], [i32::MIN, -1, -1, i32::MAX], [90, 60, 30, 0]] {
            let lengths = [ends, [ends[3], ends[1], ends[2], ends[0]]]
                .map(|ends| Tensor::from_slice(&ends, [4], device));
            let [queries, keys] = lengths;
            let (queries, keys) = (queries?, keys?);
            let inputs = [1, 2, 3].map(|seed| tensor(&[1, 2, 75, 64], dtype, device, seed));
            let [q, k, v] = inputs;
            let all = forward_and_backward(&[q?, k?, v?], device, |x| {
                apply_one(Attention { config }, &[&x[0], &x[1], &x[2], &queries, &keys])
            })?;
            for result in all {
                assert_eq!(result.to_vec_f64()?.len(), 2 * 75 * 64);
            }
        }
    }
    Ok(())
}
