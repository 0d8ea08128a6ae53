//! The gradient of an additive mask, computed by the op itself and compared with the CPU backend's
//! gradient in f64 from the same inputs.

use super::super::{assert_no_faults, gpu, lock_shared, tensor, unless_short};
use super::{DROPOUTS, WINDOW, state};
use std::fmt::Write;
use ternion::dispatch::apply_one;
use ternion::ops::attention::{AttentionConfig, AttentionGradMask};
use ternion::prelude::*;

const BATCH: usize = 2;
const HEADS: usize = 6;
/// Query heads per key head.
const GROUP: usize = 3;

/// head_dim and value_dim: the width of each tile, and less.
const WIDTHS: [[usize; 2]; 7] = [[32, 32], [40, 64], [64, 64], [100, 128], [128, 72], [200, 256], [256, 256]];
const FEW_WIDTHS: [[usize; 2]; 4] = [[32, 32], [40, 64], [100, 128], [200, 256]];
/// Queries and keys: within a tile, of complete tiles, and more.
const LENGTHS: [[usize; 2]; 4] = [[5, 7], [64, 192], [130, 200], [257, 129]];

#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    widths: [usize; 2],
    lengths: [usize; 2],
    mask: [usize; 4],
    is_causal: bool,
    has_window: bool,
    drops: bool,
}

/// Returns every mask of every length and head_dim, with some of the other mask options, with and
/// without dropout.
fn cases(dtype: DType) -> Vec<Case> {
    let widths = unless_short(WIDTHS.to_vec(), FEW_WIDTHS.to_vec());
    let lengths = unless_short(LENGTHS.to_vec(), LENGTHS[3..].to_vec());
    let mut all = Vec::new();
    for widths in widths.into_iter().filter(|widths| dtype != DType::F32 || widths[1] <= 128) {
        for &lengths in &lengths {
            let [queries, keys] = lengths;
            let masks = [
                [BATCH, HEADS, queries, keys],
                [1, HEADS, queries, keys],
                [BATCH, 1, queries, keys],
                [1, 1, queries, keys],
                [BATCH, 1, 1, keys],
                [1, HEADS, queries, 1],
                [1, 1, 1, 1],
            ];
            for mask in masks {
                let variation = all.len();
                let [is_causal, has_window, drops] =
                    [variation % 2 == 1, variation % 3 == 2, variation % 5 >= 3];
                all.push(Case { dtype, widths, lengths, mask, is_causal, has_window, drops });
            }
        }
    }
    all
}

impl Case {
    /// Returns q, k, v, y, the log-sum-exp, dy and the mask. All terms of a score's gradient are
    /// positive, so that their sums do not cancel.
    fn inputs(self, device: &Device) -> Result<Vec<Tensor>> {
        let ([width, value_width], [queries, keys]) = (self.widths, self.lengths);
        let random = |shape: [usize; 4], seed| tensor(&shape, self.dtype, device, seed);
        let kv_heads = HEADS / GROUP;
        Ok(vec![
            random([BATCH, HEADS, queries, width], 1)?,
            random([BATCH, kv_heads, keys, width], 2)?,
            random([BATCH, kv_heads, keys, value_width], 3)?.abs()?,
            random([BATCH, HEADS, queries, value_width], 4)?.abs()?.neg()?,
            tensor(&[BATCH, HEADS, queries], DType::F32, device, 5)?.add_scalar(2.0)?,
            random([BATCH, HEADS, queries, value_width], 6)?.abs()?.mul_scalar(self.grad_scale())?,
            random(self.mask, 7)?,
        ])
    }

    /// A factor so small that f16 can represent the sum over all scores, or over those of a query.
    fn grad_scale(self) -> f64 {
        let [.., queries, keys] = self.mask;
        if queries * keys > 1 && (queries > 1) == (keys > 1) { 1.0 / 256.0 } else { 1.0 / 16384.0 }
    }

    fn gradient(self, inputs: &[Tensor]) -> Result<Tensor> {
        let dropout = if self.drops { DROPOUTS[1] } else { None };
        let config = AttentionConfig {
            scale: 0.3 / (self.widths[0] as f64).sqrt(),
            causal: self.is_causal,
            window: self.has_window.then_some(WINDOW),
            mask: true,

            dropout,
            ..AttentionConfig::PLAIN
        };
        let state = dropout.map(|_| state(inputs[0].device())).transpose()?;
        let all: Vec<&Tensor> = inputs.iter().chain(&state).collect();
        apply_one(AttentionGradMask { config }, &all)
    }

    /// Records a fault if rounding does not explain the distance of the device's gradient from f64,
    /// or if a second run gives other bits.
    fn compare(self, faults: &mut String, device: &Device, rounding: f64) -> Result<()> {
        let _shared = lock_shared();
        let inputs = self.inputs(&ternion::cpu()?)?;
        let inputs_in_f64 =
            inputs.iter().map(|input| input.to_dtype(DType::F64)).collect::<Result<Vec<_>>>()?;
        let exact = self.gradient(&inputs_in_f64)?.to_vec_f64()?;
        let inputs_on_device =
            inputs.iter().map(|input| input.to_device(device)).collect::<Result<Vec<_>>>()?;
        let found = self.gradient(&inputs_on_device)?.to_vec_f64()?;
        // The limit allows for products in f32, with sums that tensor cores truncate, and for an
        // exponential with an error of 2^-22 of an argument of up to 10.
        let limit = rounding + 2e-5;
        // Half of the distance between subnormal f16 numbers.
        let least = if self.dtype == DType::F16 { 2f64.powi(-25) } else { 0.0 };
        let is_wrong = |(found, exact): (&f64, &f64)| {
            let difference = (found - exact).abs();
            difference.is_nan() || difference > limit * exact.abs() + least
        };
        if let Some(at) = found.iter().zip(&exact).position(is_wrong) {
            let _ = writeln!(faults, "{self:?}: {} instead of {} at {at}", found[at], exact[at]);
        }
        if self.gradient(&inputs_on_device)?.to_vec_f64()? != found {
            let _ = writeln!(faults, "{self:?}: other numbers the second time");
        }
        Ok(())
    }
}

/// Compares the gradients of masks in these dtypes with f64.
pub(super) fn compare_gradients(dtypes: &[DType]) -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = String::new();
    for &dtype in dtypes {
        let rounding = match dtype {
            DType::F16 => 1.0 / 2048.0,
            DType::BF16 => 1.0 / 256.0,
            _ => 0.0,
        };
        for case in cases(dtype) {
            case.compare(&mut faults, device, rounding)?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn gradients_of_masks() -> Result<()> {
    compare_gradients(&[DType::F32, DType::F16, DType::BF16])
}
