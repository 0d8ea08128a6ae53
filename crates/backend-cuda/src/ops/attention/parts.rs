//! Few queries of many keys, as a step of generation has them: too few blocks for the device if each walks over all keys. So the keys are cut into parts, a block for
//! each, whose results `attention/merge_parts.cu` puts together in the order of the keys.

use super::{Forward, MASK_STRIDE, Operand, Plan, Sizes, grid};
use crate::call::Call;
use crate::launch::Launch;
use crate::variant::attention::{AttentionVariant, Engine, Reach};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Error, Result};

/// Steps over keys of the least part, below which a block has too little to do beside its start and its results.
const LEAST_STEPS: usize = 4;
/// The most parts, which the other kernel walks over one after another.
const MOST_PARTS: usize = 128;

/// As `Parts` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Parts {
    results: u64,
    rows: u32,
    count: u32,
    keys: u32,
}

/// How keys are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    count: usize,
    /// Of a part.
    keys: usize,
}

impl Plan {
    /// Has a single query of heads that share keys taken for as many queries of one head, so that the keys are read once for all of them. A single query is at the
    /// last key: what it sees of the keys is cut out of them, and that is all it is told.
    pub(super) fn turn_heads_into_rows(
        &mut self,
        tensors: &mut Forward,
        config: &AttentionConfig,
        dtype: DType,
    ) {
        let Sizes { heads, group, queries, keys, .. } = self.sizes;
        let is_dropping = config.dropout.is_some() || config.varlen;
        let is_near = tensors.mask.strides[1].unsigned_abs() < MASK_STRIDE as u64;
        if queries != 1 || keys == 0 || is_dropping || !is_near || self.products.engine == Engine::Simt {
            return;
        }
        let first = config.window.map_or(0, |window| (keys as usize).saturating_sub(window)) as u32;
        // A window of nothing.
        if first == keys {
            return;
        }
        let behind = |operand: &mut Operand, axis: usize, elements: usize, size: usize| {
            operand.first =
                operand.first.wrapping_add_signed(operand.strides[axis] * (elements * size) as i64);
        };
        behind(&mut tensors.k, 2, first as usize, dtype.size());
        behind(&mut tensors.v, 2, first as usize, dtype.size());
        let of_mask = if self.products.reach == Reach::BoolMask { 1 } else { dtype.size() };
        behind(&mut tensors.mask, 3, first as usize, of_mask);
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
            // All keys, of whichever query.
            reach_first: -(queries as i32),
            reach_end: keys as i32,
            ..self.sizes
        };
        tensors.sizes = self.sizes;
    }

    /// How the keys are cut: into so many parts that each multiprocessor has its blocks; none where there are enough of them without, and of what
    /// has no such kernel.
    pub(super) fn cut(&self, config: &AttentionConfig, multiprocessors: usize) -> Option<Cut> {
        let is_for = self.products.engine != Engine::Simt
            && self.products.reach.has_parts()
            && config.dropout.is_none();
        if !is_for {
            return None;
        }
        let tiles = self.products.parts_tiles();
        let blocks =
            self.batch * self.sizes.heads as usize * (self.sizes.queries as usize).div_ceil(tiles.rows());
        let steps = (self.sizes.keys as usize).div_ceil(tiles.step);
        let wanted = (multiprocessors * tiles.blocks).checked_div(blocks)?;
        let most = wanted.min(steps / LEAST_STEPS).min(MOST_PARTS);
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
            shared: self.forward_shared(tiles) as u32,
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
    use super::super::{Dropping, Varlen};
    use super::*;
    use crate::variant::attention::Products;

    const CONFIG: AttentionConfig = AttentionConfig {
        scale: 0.125,
        causal: true,
        window: None,
        mask: false,
        varlen: false,
        dropout: None,
    };

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

    #[test]
    fn few_queries_of_many_keys_are_cut() {
        let cut = |heads, rows| plan(heads, rows).cut(&CONFIG, 132);
        // 32 blocks; 264 fit the device.
        assert_eq!(cut([1, 32, 32], [1, 8192]), Some(Cut { count: 8, keys: 1024 }));
        // 512 steps, four of each part.
        assert_eq!(cut([1, 2, 2], [4, 32768]), Some(Cut { count: 128, keys: 256 }));
        assert_eq!(cut([1, 1, 1], [1, 1000]), Some(Cut { count: 4, keys: 256 }));
        assert_eq!(cut([1, 1, 1], [1, 448]), None, "parts of less than four steps");
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
        let operand = |strides| Operand { first: 1 << 20, strides };
        let tensors = |plan: &Plan| Forward {
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
        };
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
        let (_, tensors) = turned(&CONFIG, [2, 300]);
        assert_eq!((tensors.sizes.group, tensors.q.strides[2]), (4, 0), "two queries stay");
    }
}
