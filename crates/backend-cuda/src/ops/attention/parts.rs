//! Split-KV for few queries of many keys, as in a step of generation: if each block looped over all
//! keys, there would be too few blocks for the device. So the keys are split among blocks, and
//! `attention/merge_parts.cu` merges their results in the order of the keys.

use super::super::TOO_LONG;
use super::{Forward, MASK_STRIDE, Plan, Sizes, forward_shared, grid};
use crate::call::Call;
use crate::launch::Launch;
use crate::variant::attention::{AttentionVariant, Reach};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Error, Result};

/// A multiple of the step of every kernel that loops over keys without TMA.
const WHOLE_STEPS: u32 = 128;
/// The minimum number of keys of a split for each query of a tile: the results of splits, f32 for
/// each query, are then small compared with the keys and values that are read.
const LEAST_KEYS_OF_QUERY: usize = 16;
/// The minimum number of steps over keys in a split: with fewer, a block's start and its results
/// take too much of the time.
const LEAST_STEPS: usize = 4;
/// The maximum number of splits, which the other kernel loops over.
const MOST_PARTS: usize = 128;

/// The splits, like `Parts` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Parts {
    results: u64,
    rows: u32,
    count: u32,
    keys: u32,
}

/// How keys are split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    count: usize,
    /// The keys of a split.
    keys: usize,
}

impl Plan {
    /// Treats the single queries of the heads that share keys as several queries of one head, so
    /// that the keys are read once for all of them. A single query is at the position of the last
    /// key: the address skips the keys outside its window, and the kernel gets no band.
    pub(super) fn turn_heads_into_rows(
        &mut self,
        tensors: &mut Forward,
        config: &AttentionConfig,
        dtype: DType,
    ) {
        let Sizes { heads, group, queries, keys, .. } = self.sizes;
        let is_dropping = config.dropout.is_some() || config.varlen;
        // Strides of heads become those of rows, which the kernels limit.
        let is_near = tensors.mask.strides[1].unsigned_abs() < MASK_STRIDE as u64
            && tensors.q.strides[1].unsigned_abs() < TOO_LONG as u64;
        let is_for = queries == 1 && keys > 0 && group > 0 && self.products.engine.has_parts();
        if !is_for || is_dropping || !is_near {
            return;
        }
        let first = config.window.map_or(0, |window| (keys as usize).saturating_sub(window)) as u32;
        // An empty window.
        if first == keys {
            return;
        }
        self.leave_out_keys(tensors, first, dtype);
        if self.products.reach == Reach::Band {
            self.products.reach = Reach::Full;
        }
        for operand in [&mut tensors.q, &mut tensors.y, &mut tensors.mask] {
            let of_head = operand.strides[1];
            operand.strides[2] = of_head;
            operand.strides[1] = of_head * i64::from(group);
        }
        let (queries, keys) = (group, keys - first);
        self.sizes = Sizes {
            heads: heads / group,
            group: 1,
            queries,
            keys,
            // All keys, for every query.
            reach_first: -(queries as i32),
            reach_end: keys as i32,
            ..self.sizes
        };
        tensors.sizes = self.sizes;
    }

    /// Advances keys, values and mask by the first `first` keys, to which no query attends.
    fn leave_out_keys(&self, tensors: &mut Forward, first: u32, dtype: DType) {
        let of_mask = if self.products.reach == Reach::BoolMask { 1 } else { dtype.size() };
        let moved = [(&mut tensors.k, 2, dtype.size()), (&mut tensors.v, 2, dtype.size())];
        for (operand, axis, size) in moved.into_iter().chain([(&mut tensors.mask, 3, of_mask)]) {
            let bytes = operand.strides[axis] * (first as usize * size) as i64;
            operand.first = operand.first.wrapping_add_signed(bytes);
        }
    }

    /// Skips the keys before and after all those that a band's queries attend to, in whole steps of
    /// the kernels. Not with dropout, whose mask depends on the indices of keys.
    pub(super) fn leave_out_unseen(&mut self, tensors: &mut Forward, config: &AttentionConfig, dtype: DType) {
        let Sizes { queries, keys, reach_first, reach_end, .. } = self.sizes;
        if self.products.reach == Reach::Full || config.varlen || config.dropout.is_some() || queries == 0 {
            return;
        }
        let first = reach_first.max(0) as u32 / WHOLE_STEPS * WHOLE_STEPS;
        let end = (i64::from(queries) - 1 + i64::from(reach_end)).min(i64::from(keys));
        if end <= i64::from(first) {
            return;
        }
        self.leave_out_keys(tensors, first, dtype);
        self.sizes.keys = end as u32 - first;
        self.sizes.reach_first -= first as i32;
        self.sizes.reach_end -= first as i32;
        tensors.sizes = self.sizes;
    }

    /// Returns the number of splits that gives each multiprocessor its blocks; `None` if there are
    /// enough blocks without splits, or if there is no such kernel.
    pub(super) fn cut(&self, config: &AttentionConfig, multiprocessors: usize) -> Option<Cut> {
        let is_for =
            self.products.engine.has_parts() && self.products.reach.has_parts() && config.dropout.is_none();
        if !is_for {
            return None;
        }
        let tiles = self.products.parts_tiles();
        let blocks =
            self.batch * self.sizes.heads as usize * (self.sizes.queries as usize).div_ceil(tiles.rows());
        let steps = (self.sizes.keys as usize).div_ceil(tiles.step);
        let wanted = (multiprocessors * tiles.blocks).checked_div(blocks)?;
        let queries = (self.sizes.queries as usize).min(tiles.rows());
        let least = LEAST_STEPS.max((queries * LEAST_KEYS_OF_QUERY).div_ceil(tiles.step));
        let most = wanted.min(steps / least).min(MOST_PARTS);
        if most < 2 {
            return None;
        }
        let of_part = steps.div_ceil(most);
        Some(Cut { count: steps.div_ceil(of_part), keys: of_part * tiles.step })
    }

    /// Queues both kernels.
    pub(super) fn launch_parts(
        &self,
        call: &Call<'_>,
        dtype: DType,
        tensors: Forward,
        cut: Cut,
    ) -> Result<()> {
        let tiles = self.products.parts_tiles();
        let heads = self.batch * self.sizes.heads as usize;
        let rows = heads * self.sizes.queries as usize;
        let blocks = (self.sizes.queries as usize).div_ceil(tiles.rows());
        let bytes = rows.checked_mul(cut.count * (self.width() + 2) * 4);
        let bytes = bytes.ok_or_else(|| Error::invalid(call.name, "too many queries"))?;
        let results = call.gpu.scratch(bytes)?;
        let parts = Parts {
            results: results.address(),
            rows: rows as u32,
            count: cut.count as u32,
            keys: cut.keys as u32,
        };
        let parameters = Forward { blocks: blocks as u32, parts, ..tensors };
        let variant = AttentionVariant::ForwardParts { products: self.products, dtype };
        let launch = Launch {
            shared: forward_shared(self.products, tiles, dtype.size()) as u32,
            ..Launch::new(variant, 0, grid(call.name, heads, blocks * cut.count)?, tiles.threads())
        };
        call.gpu.launch(call.name, launch, &parameters)?;
        let mask = self.products.reach.of_rows();
        let variant = AttentionVariant::MergeParts { width: self.products.width, mask, dtype };
        call.gpu.launch(call.name, Launch::new(variant, 0, grid(call.name, rows, 1)?, 128), &parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dropping, Operand, Varlen, reaches};
    use super::*;
    use crate::variant::attention::{Engine, Products};

    const CONFIG: AttentionConfig = AttentionConfig { scale: 0.125, causal: true, ..AttentionConfig::PLAIN };

    fn plan([batch, heads, kv_heads]: [usize; 3], [queries, keys]: [u32; 2]) -> Plan {
        let sizes = Sizes {
            heads: heads as u32,
            group: (heads / kv_heads) as u32,
            queries,
            keys,
            head_dim: 64,
            value_dim: 64,
            reach_first: -(queries as i32),
            reach_end: (keys + 1 - queries) as i32,
            scale: 0.125,
        };
        let products = Products { engine: Engine::Wgmma, width: 64, reach: Reach::Band };
        Plan { products, sizes, batch, kv_heads }
    }

    fn tensors(plan: &Plan) -> Forward {
        let operand = |strides| Operand { first: 1 << 20, strides };
        Forward {
            q: operand([512, 64, 0, 1]),
            k: operand([64 * 300 * 2, 64, 128, 1]),
            v: operand([64 * 300 * 2, 64, 128, 1]),
            mask: Operand::default(),
            y: operand([512, 64, 0, 1]),
            log_sums: 0,
            log_sum_errors: 0,
            blocks: 0,
            sizes: plan.sizes,
            dropping: Dropping::default(),
            varlen: Varlen::default(),
            parts: Parts::default(),
        }
    }

    #[test]
    fn few_queries_of_many_keys_are_cut() {
        let cut = |heads, rows| plan(heads, rows).cut(&CONFIG, 132);
        // 32 blocks; 264 fit the device.
        assert_eq!(cut([1, 32, 32], [1, 8192]), Some(Cut { count: 8, keys: 1024 }));
        // 512 steps, four in each split.
        assert_eq!(cut([1, 2, 2], [4, 32768]), Some(Cut { count: 128, keys: 256 }));
        assert_eq!(cut([1, 1, 1], [1, 1000]), Some(Cut { count: 4, keys: 256 }));
        assert_eq!(cut([1, 1, 1], [1, 448]), None, "parts of less than four steps");
        assert_eq!(cut([1, 12, 12], [512, 512]), None, "results of as many bytes as keys and values");
        assert_eq!(cut([1, 1, 1], [64, 4096]), Some(Cut { count: 4, keys: 1024 }));
        assert_eq!(cut([8, 32, 32], [1, 8192]), None, "256 blocks without");
        assert_eq!(cut([1, 2, 2], [0, 8192]), None, "no queries");
    }

    #[test]
    fn parts_cover_all_keys() {
        for keys in (0..20_000).step_by(77) {
            for heads in [1, 3, 16, 100] {
                let Some(cut) = plan([1, heads, heads], [1, keys]).cut(&CONFIG, 132) else { continue };
                assert!(cut.count >= 2 && cut.count <= MOST_PARTS && cut.keys.is_multiple_of(64), "{cut:?}");
                assert!(cut.count * cut.keys >= keys as usize && (cut.count - 1) * cut.keys < keys as usize);
            }
        }
    }

    #[test]
    fn heads_that_share_keys_become_rows_of_one() {
        let turned = |config: &AttentionConfig, rows| {
            let mut plan = plan([3, 8, 2], rows);
            let mut tensors = tensors(&plan);
            plan.turn_heads_into_rows(&mut tensors, config, DType::BF16);
            (plan, tensors)
        };
        let (plan, tensors) = turned(&CONFIG, [1, 300]);
        let Sizes { heads, group, queries, keys, .. } = tensors.sizes;
        assert_eq!([heads, group, queries, keys], [2, 1, 4, 300]);
        assert_eq!((tensors.q.strides, tensors.y.strides), ([512, 256, 64, 1], [512, 256, 64, 1]));
        assert_eq!((plan.products.reach, tensors.k.first), (Reach::Full, 1 << 20));
        let (_, tensors) = turned(&AttentionConfig { window: Some(100), ..CONFIG }, [1, 300]);
        assert_eq!((tensors.sizes.keys, tensors.k.first), (100, (1 << 20) + 200 * 128 * 2));
        assert_eq!(turned(&AttentionConfig { window: Some(0), ..CONFIG }, [1, 300]).1.sizes.keys, 300);
        let (_, tensors) = turned(&CONFIG, [2, 300]);
        assert_eq!((tensors.sizes.group, tensors.q.strides[2]), (4, 0), "two queries stay");
    }

    #[test]
    fn keys_that_a_window_leaves_out_are_not_walked_over() {
        let narrowed = |[queries, keys]: [u32; 2], window: usize| {
            let config = AttentionConfig { window: Some(window), ..CONFIG };
            let mut plan = plan([1, 2, 2], [queries, keys]);
            (plan.sizes.reach_first, plan.sizes.reach_end) =
                reaches(&config, i64::from(queries), i64::from(keys));
            let mut tensors = tensors(&plan);
            plan.leave_out_unseen(&mut tensors, &config, DType::BF16);
            let Sizes { keys, reach_first, reach_end, .. } = tensors.sizes;
            ([keys as i32, reach_first, reach_end], (tensors.k.first - (1 << 20)) / 256)
        };
        // Query 0 is at key 32760 and attends to keys from 31737 on; 31616 is 247 times 128.
        assert_eq!(narrowed([8, 32768], 1024), ([1152, 121, 1145], 31616));
        assert_eq!(narrowed([8, 300], 1024), ([300, -8, 293], 0));
        assert_eq!(narrowed([8, 300], 0), ([44, 37, 37], 256), "nothing is seen");
    }
}
