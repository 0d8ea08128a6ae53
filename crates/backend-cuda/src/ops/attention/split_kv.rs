//! Split-KV for few queries of many keys, as in a step of generation: if each block looped over all
//! keys, there would be too few blocks for the device. So the keys are split among blocks, and
//! `attention/merge_splits.cu` merges their results in the order of the keys.

use super::super::INDEX_LIMIT;
use super::{Forward, MASK_STRIDE_LIMIT, Plan, Sizes, forward_shared_bytes, grid};
use crate::call::Call;
use crate::launch::Launch;
use crate::variant::attention::{AttentionVariant, MaskMode};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Error, Result};

/// A multiple of the step of every kernel that loops over keys without TMA.
const WHOLE_STEPS: u32 = 128;
/// The minimum number of keys of a split for each query of a tile: the results of splits, f32 for
/// each query, are then small compared with the keys and values that are read.
const MIN_KEYS_PER_QUERY: usize = 16;
/// The minimum number of steps over keys in a split: with fewer, a block's start and its results
/// take too much of the time.
const MIN_STEPS: usize = 4;
/// The maximum number of splits, which the merge kernel loops over.
const MAX_KV_SPLITS: usize = 128;

/// The splits; mirrors `Splits` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct KvSplitParams {
    /// The address of the results of all splits, in the workspace.
    results: u64,
    /// Queries of all heads.
    rows: u32,
    /// The number of splits of a head; 0 without splits.
    count: u32,
    /// Keys of a split.
    keys: u32,
}

/// How keys are split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KvSplit {
    /// The number of splits of a head.
    count: usize,
    /// The keys of a split.
    keys: usize,
}

impl Plan {
    /// Treats the single queries of the heads that share keys as several queries of one head, so
    /// that the keys are read once for all of them. A single query is at the position of the last
    /// key: the address skips the keys outside its window, and the kernel gets no band.
    pub(super) fn fold_heads_into_rows(
        &mut self,
        tensors: &mut Forward,
        config: &AttentionConfig,
        dtype: DType,
    ) {
        let Sizes { heads, group, queries, keys, .. } = self.sizes;
        let has_dropout_or_lengths = config.dropout.is_some() || config.varlen;
        // Strides of heads become those of rows, which the kernels limit.
        let strides_fit = tensors.mask.strides[1].unsigned_abs() < MASK_STRIDE_LIMIT as u64
            && tensors.q.strides[1].unsigned_abs() < INDEX_LIMIT as u64;
        let is_supported = queries == 1 && keys > 0 && group > 0 && self.kernel_config.engine.has_split_kv();
        if !is_supported || has_dropout_or_lengths || !strides_fit {
            return;
        }
        let first_key = config.window.map_or(0, |window| (keys as usize).saturating_sub(window)) as u32;
        // An empty window.
        if first_key == keys {
            return;
        }
        self.skip_keys(tensors, first_key, dtype);
        if self.kernel_config.mask_mode == MaskMode::Band {
            self.kernel_config.mask_mode = MaskMode::Full;
        }
        for operand in [&mut tensors.q, &mut tensors.y, &mut tensors.mask] {
            let head_stride = operand.strides[1];
            operand.strides[2] = head_stride;
            operand.strides[1] = head_stride * i64::from(group);
        }
        let (queries, keys) = (group, keys - first_key);
        self.sizes = Sizes {
            heads: heads / group,
            group: 1,
            queries,
            keys,
            // All keys, for every query.
            band_begin: -(queries as i32),
            band_end: keys as i32,
            ..self.sizes
        };
        tensors.sizes = self.sizes;
    }

    /// Advances keys, values and mask by the first `first` keys, to which no query attends.
    fn skip_keys(&self, tensors: &mut Forward, first: u32, dtype: DType) {
        let mask_element_bytes =
            if self.kernel_config.mask_mode == MaskMode::BoolMask { 1 } else { dtype.size() };
        let key_value_operands = [(&mut tensors.k, 2, dtype.size()), (&mut tensors.v, 2, dtype.size())];
        for (operand, axis, size) in
            key_value_operands.into_iter().chain([(&mut tensors.mask, 3, mask_element_bytes)])
        {
            let bytes = operand.strides[axis] * (first as usize * size) as i64;
            operand.address = operand.address.wrapping_add_signed(bytes);
        }
    }

    /// Skips the keys before the first and after the last key that any query of a band attends to,
    /// in whole steps of the kernels. Not with dropout, whose mask depends on the indices of keys.
    pub(super) fn skip_masked_keys(&mut self, tensors: &mut Forward, config: &AttentionConfig, dtype: DType) {
        let Sizes { queries, keys, band_begin, band_end, .. } = self.sizes;
        if self.kernel_config.mask_mode == MaskMode::Full
            || config.varlen
            || config.dropout.is_some()
            || queries == 0
        {
            return;
        }
        let first = band_begin.max(0) as u32 / WHOLE_STEPS * WHOLE_STEPS;
        let end = (i64::from(queries) - 1 + i64::from(band_end)).min(i64::from(keys));
        if end <= i64::from(first) {
            return;
        }
        self.skip_keys(tensors, first, dtype);
        self.sizes.keys = end as u32 - first;
        self.sizes.band_begin -= first as i32;
        self.sizes.band_end -= first as i32;
        tensors.sizes = self.sizes;
    }

    /// Returns the splits with which each multiprocessor has enough blocks; `None` if there are
    /// enough blocks without splits, or if there is no such kernel.
    pub(super) fn kv_split(&self, config: &AttentionConfig, multiprocessors: usize) -> Option<KvSplit> {
        let is_supported = self.kernel_config.engine.has_split_kv()
            && self.kernel_config.mask_mode.has_split_kv()
            && config.dropout.is_none();
        if !is_supported {
            return None;
        }
        let tiles = self.kernel_config.split_kv_tiles();
        let blocks =
            self.batch * self.sizes.heads as usize * (self.sizes.queries as usize).div_ceil(tiles.rows());
        let steps = (self.sizes.keys as usize).div_ceil(tiles.step);
        let target = (multiprocessors * tiles.blocks).checked_div(blocks)?;
        let queries = (self.sizes.queries as usize).min(tiles.rows());
        let min_steps = MIN_STEPS.max((queries * MIN_KEYS_PER_QUERY).div_ceil(tiles.step));
        let max_splits = target.min(steps / min_steps).min(MAX_KV_SPLITS);
        if max_splits < 2 {
            return None;
        }
        let split_steps = steps.div_ceil(max_splits);
        Some(KvSplit { count: steps.div_ceil(split_steps), keys: split_steps * tiles.step })
    }

    /// Queues both kernels.
    pub(super) fn launch_split_kv(
        &self,
        call: &Call<'_>,
        dtype: DType,
        tensors: Forward,
        kv_split: KvSplit,
    ) -> Result<()> {
        let tiles = self.kernel_config.split_kv_tiles();
        let heads = self.batch * self.sizes.heads as usize;
        let rows = heads * self.sizes.queries as usize;
        let blocks = (self.sizes.queries as usize).div_ceil(tiles.rows());
        let bytes = rows.checked_mul(kv_split.count * (self.width() + 2) * 4);
        let bytes = bytes.ok_or_else(|| Error::invalid(call.name, "too many queries"))?;
        let results = call.gpu.workspace(bytes)?;
        let kv_split_params = KvSplitParams {
            results: results.address(),
            rows: rows as u32,
            count: kv_split.count as u32,
            keys: kv_split.keys as u32,
        };
        let parameters = Forward { blocks: blocks as u32, kv_split_params, ..tensors };
        let variant = AttentionVariant::ForwardSplitKv { kernel_config: self.kernel_config, dtype };
        let launch = Launch {
            shared_bytes: forward_shared_bytes(self.kernel_config, tiles, dtype.size()) as u32,
            ..Launch::new(variant, 0, grid(call.name, heads, blocks * kv_split.count)?, tiles.threads())
        };
        call.gpu.launch(call.name, launch, &parameters)?;
        let mask = self.kernel_config.mask_mode.row_kernel_mode();
        let variant = AttentionVariant::MergeSplitKv { width: self.kernel_config.width, mask, dtype };
        call.gpu.launch(call.name, Launch::new(variant, 0, grid(call.name, rows, 1)?, 128), &parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DropoutParams, Operand, Varlen, band_bounds};
    use super::*;
    use crate::variant::attention::{Engine, KernelConfig};

    const CONFIG: AttentionConfig = AttentionConfig { scale: 0.125, causal: true, ..AttentionConfig::PLAIN };

    fn plan([batch, heads, kv_heads]: [usize; 3], [queries, keys]: [u32; 2]) -> Plan {
        let sizes = Sizes {
            heads: heads as u32,
            group: (heads / kv_heads) as u32,
            queries,
            keys,
            head_dim: 64,
            value_dim: 64,
            band_begin: -(queries as i32),
            band_end: (keys + 1 - queries) as i32,
            scale: 0.125,
        };
        let kernel_config = KernelConfig { engine: Engine::Wgmma, width: 64, mask_mode: MaskMode::Band };
        Plan { kernel_config, sizes, batch, kv_heads }
    }

    fn tensors(plan: &Plan) -> Forward {
        let operand = |strides| Operand { address: 1 << 20, strides };
        Forward {
            q: operand([512, 64, 0, 1]),
            k: operand([64 * 300 * 2, 64, 128, 1]),
            v: operand([64 * 300 * 2, 64, 128, 1]),
            mask: Operand::default(),
            y: operand([512, 64, 0, 1]),
            lse: 0,
            lse_errors: 0,
            blocks: 0,
            sizes: plan.sizes,
            dropout_params: DropoutParams::default(),
            varlen: Varlen::default(),
            kv_split_params: KvSplitParams::default(),
        }
    }

    #[test]
    fn few_queries_of_many_keys_are_split() {
        let kv_split = |heads, rows| plan(heads, rows).kv_split(&CONFIG, 132);
        // 32 blocks; 264 fit the device.
        assert_eq!(kv_split([1, 32, 32], [1, 8192]), Some(KvSplit { count: 8, keys: 1024 }));
        // 512 steps, four in each split.
        assert_eq!(kv_split([1, 2, 2], [4, 32768]), Some(KvSplit { count: 128, keys: 256 }));
        assert_eq!(kv_split([1, 1, 1], [1, 1000]), Some(KvSplit { count: 4, keys: 256 }));
        assert_eq!(kv_split([1, 1, 1], [1, 448]), None, "splits of less than four steps");
        assert_eq!(kv_split([1, 12, 12], [512, 512]), None, "results of as many bytes as keys and values");
        assert_eq!(kv_split([1, 1, 1], [64, 4096]), Some(KvSplit { count: 4, keys: 1024 }));
        assert_eq!(kv_split([8, 32, 32], [1, 8192]), None, "256 blocks without splits");
        assert_eq!(kv_split([1, 2, 2], [0, 8192]), None, "no queries");
    }

    #[test]
    fn splits_cover_all_keys() {
        for keys in (0..20_000).step_by(77) {
            for heads in [1, 3, 16, 100] {
                let Some(kv_split) = plan([1, heads, heads], [1, keys]).kv_split(&CONFIG, 132) else {
                    continue;
                };
                assert!(
                    kv_split.count >= 2
                        && kv_split.count <= MAX_KV_SPLITS
                        && kv_split.keys.is_multiple_of(64),
                    "{kv_split:?}"
                );
                assert!(
                    kv_split.count * kv_split.keys >= keys as usize
                        && (kv_split.count - 1) * kv_split.keys < keys as usize
                );
            }
        }
    }

    #[test]
    fn heads_that_share_keys_become_rows_of_one() {
        let folded = |config: &AttentionConfig, rows| {
            let mut plan = plan([3, 8, 2], rows);
            let mut tensors = tensors(&plan);
            plan.fold_heads_into_rows(&mut tensors, config, DType::BF16);
            (plan, tensors)
        };
        let (plan, tensors) = folded(&CONFIG, [1, 300]);
        let Sizes { heads, group, queries, keys, .. } = tensors.sizes;
        assert_eq!([heads, group, queries, keys], [2, 1, 4, 300]);
        assert_eq!((tensors.q.strides, tensors.y.strides), ([512, 256, 64, 1], [512, 256, 64, 1]));
        assert_eq!((plan.kernel_config.mask_mode, tensors.k.address), (MaskMode::Full, 1 << 20));
        let (_, tensors) = folded(&AttentionConfig { window: Some(100), ..CONFIG }, [1, 300]);
        assert_eq!((tensors.sizes.keys, tensors.k.address), (100, (1 << 20) + 200 * 128 * 2));
        assert_eq!(folded(&AttentionConfig { window: Some(0), ..CONFIG }, [1, 300]).1.sizes.keys, 300);
        let (_, tensors) = folded(&CONFIG, [2, 300]);
        assert_eq!((tensors.sizes.group, tensors.q.strides[2]), (4, 0), "two queries are not folded");
    }

    #[test]
    fn keys_outside_of_a_window_are_skipped() {
        let narrowed = |[queries, keys]: [u32; 2], window: usize| {
            let config = AttentionConfig { window: Some(window), ..CONFIG };
            let mut plan = plan([1, 2, 2], [queries, keys]);
            (plan.sizes.band_begin, plan.sizes.band_end) =
                band_bounds(&config, i64::from(queries), i64::from(keys));
            let mut tensors = tensors(&plan);
            plan.skip_masked_keys(&mut tensors, &config, DType::BF16);
            let Sizes { keys, band_begin, band_end, .. } = tensors.sizes;
            ([keys as i32, band_begin, band_end], (tensors.k.address - (1 << 20)) / 256)
        };
        // Query 0 is at key 32760 and attends to keys from 31737 on; 31616 is 247 times 128.
        assert_eq!(narrowed([8, 32768], 1024), ([1152, 121, 1145], 31616));
        assert_eq!(narrowed([8, 300], 1024), ([300, -8, 293], 0));
        assert_eq!(narrowed([8, 300], 0), ([44, 37, 37], 256), "no query attends to a key");
    }
}
