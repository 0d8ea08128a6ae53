//! The gradient of an additive mask (`attention/grad_mask.cuh`).

use super::{Backward, BackwardTensors, DropoutParams, Operand, Operands, Plan, ROWS, Varlen, grid};
use crate::call::Call;
use crate::launch::Launch;
use crate::variant::attention::{AttentionVariant, Engine, KernelConfig, MaskMode};
use ternion_core::ops::attention::{AttentionConfig, AttentionGradMask};
use ternion_core::{DType, Error, Op, Result};

/// The minimum number of score tiles in a split: with fewer, a block's start and its sums take too
/// much of the time.
const MIN_STEPS: usize = 4;
/// The maximum number of splits, which the kernel that adds them loops over.
const MAX_MASK_SPLITS: usize = 64;
/// Threads of the kernel that adds the sums of the splits.
const SUM_THREADS: usize = 256;

/// The kernels, in the order of their source.
const MASK_KERNEL: usize = 0;
const SUM_KERNEL: usize = 1;

/// The parameters; mirrors `AttentionGradMask` in the kernels.
#[repr(C)]
struct MaskBackward {
    grad: Backward,
    dmask: u64,
    /// The sums of each split, `[parts, elements]` of f32, if there are several splits.
    partial: u64,
    /// Elements of the mask.
    elements: u64,
    batch: u32,
    /// The shape of the mask.
    mask: [u32; 4],
    /// The number of splits.
    parts: u32,
    /// Score tiles of a split.
    steps_per_split: u64,
}

/// How the scores are split into blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScoreSplit {
    /// Tiles of the mask.
    mask_tiles: usize,
    /// The number of splits of the score tiles that share a tile of the mask.
    parts: usize,
    /// Score tiles of a split.
    steps_per_split: usize,
}

/// Splits scores `[batch, heads, queries, keys]` under a mask, whose axes have the same sizes or 1,
/// into tiles of `tile` queries and keys. The score tiles that share elements of the mask are split
/// so that about `blocks` blocks have work.
fn split_scores(mask: [usize; 4], scores: [usize; 4], tile: [usize; 2], blocks: usize) -> ScoreSplit {
    let tiles = |sizes: [usize; 4]| [sizes[2].div_ceil(tile[0]), sizes[3].div_ceil(tile[1])];
    let (mask_counts, score_counts) = (tiles(mask), tiles(scores));
    let mask_tiles = mask[0] * mask[1] * mask_counts[0] * mask_counts[1];
    let looped = [0, 1].map(|axis| if mask[2 + axis] == 1 { score_counts[axis] } else { 1 });
    let steps = scores[0] / mask[0].max(1) * (scores[1] / mask[1].max(1)) * looped[0] * looped[1];
    let max_splits = blocks.div_ceil(mask_tiles.max(1)).min(steps / MIN_STEPS).clamp(1, MAX_MASK_SPLITS);
    let steps_per_split = steps.div_ceil(max_splits).max(1);
    ScoreSplit { mask_tiles, parts: steps.div_ceil(steps_per_split).max(1), steps_per_split }
}

/// Rows and columns of a block's tile of scores, its threads, its bytes of shared memory, and the
/// minimum number of resident blocks on a multiprocessor.
struct Block {
    tile: [usize; 2],
    threads: u32,
    shared_bytes: usize,
    resident: usize,
}

impl Block {
    fn of(kernel_config: KernelConfig) -> Block {
        let (tile, threads, pitch, size, resident) = match kernel_config.engine {
            // Rows of these tiles are padded by 16 bytes, to avoid bank conflicts.
            Engine::Simt | Engine::Tf32 | Engine::Bf16x6 => {
                ([64, 32], 128, usize::from(kernel_config.width) + 4, 4, 2)
            }
            Engine::Mma | Engine::Wgmma => {
                let tiles = kernel_config.grad_mask_tiles();
                let tile = [tiles.rows(), tiles.step];
                (tile, tiles.threads(), usize::from(kernel_config.width), 2, tiles.blocks)
            }
        };
        let [rows, columns] = tile;
        // The tiles of q and k, and of dy and v; or, at the end, the sums.
        let shared_bytes = (2 * (rows + columns) * pitch * size).max(rows * (columns + 1) * 4);
        Block { tile, threads, shared_bytes, resident }
    }
}

pub(super) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AttentionGradMask(AttentionGradMask { config }) = op else {
        return Err(Error::invalid(call.name, "is not attention_grad_mask"));
    };
    let [q, k, v, y, lse, dy, mask] = [0, 1, 2, 3, 4, 5, 6].map(|input| &call.inputs[input]);
    let mut plan = Plan::new(call, true, config, Some(mask))?;
    if q.dtype == DType::F32 {
        // In f32, tensor cores compute only the gradients of q, k and v.
        plan.kernel_config.engine = Engine::Simt;
    }
    if plan.kernel_config.mask_mode != MaskMode::AdditiveMask {
        return Err(Error::invalid(call.name, "no mask that is added to the scores, expected one"));
    }
    let mut operands = Operands { gpu: call.gpu, op: call.name, copies: Vec::new() };
    let tensors = BackwardTensors {
        q: operands.input(q)?,
        k: operands.input(k)?,
        v: operands.input(v)?,
        y: operands.input(y)?,
        dy: operands.input(dy)?,
        mask: operands.mask(mask)?,
        lse: operands.operand_with_strides(lse)?,
        dq: Operand::default(),
        dk: Operand::default(),
        dv: Operand::default(),
    };
    plan.launch_grad_mask(call, config, tensors)
}

impl Plan {
    /// Queues the kernel that computes the gradient's values per query, then the kernel whose
    /// blocks process one tile of the mask each, then, if there are several splits, the kernel that
    /// adds them.
    fn launch_grad_mask(
        &self,
        call: &Call<'_>,
        config: &AttentionConfig,
        tensors: BackwardTensors,
    ) -> Result<()> {
        let dtype = call.inputs[0].dtype;
        let mask = call.inputs[6].layout.shape().to_array(call.name)?;
        let elements = mask.iter().product::<usize>();
        if elements == 0 {
            return Ok(());
        }
        let heads = self.sizes.heads as usize;
        let scores = [self.batch, heads, self.sizes.queries as usize, self.sizes.keys as usize];
        let block = Block::of(self.kernel_config);
        let ScoreSplit { mask_tiles, parts, steps_per_split } =
            split_scores(mask, scores, block.tile, call.gpu.multiprocessors() * block.resident);
        let padded = scores[2].next_multiple_of(ROWS);
        let row_elements = self.batch * heads * 2 * padded;
        let partial_elements = if parts > 1 { parts * elements } else { 0 };
        let workspace = call.gpu.workspace((row_elements + partial_elements) * 4)?;
        let grad = Backward {
            tensors,
            rows: workspace.address(),
            padded: padded as u32,
            query_blocks: 0,
            key_blocks: 0,
            sizes: self.sizes,
            dropout_params: DropoutParams::of(call, config)?,
            varlen: Varlen::default(),
        };
        let variant = AttentionVariant::GradRows { mask: self.kernel_config.mask_mode, dtype };
        let row_grid = grid(call.name, self.batch * heads, padded / ROWS)?;
        call.gpu.launch(call.name, Launch::new(variant, 0, row_grid, 256), &grad)?;
        let parameters = MaskBackward {
            grad,
            dmask: call.gpu.address(call.name, &call.outputs[0])?,
            partial: workspace.address() + (row_elements * 4) as u64,
            elements: elements as u64,
            batch: self.batch as u32,
            mask: mask.map(|size| size as u32),
            parts: parts as u32,
            steps_per_split: steps_per_split as u64,
        };
        let variant = AttentionVariant::GradMask { kernel_config: self.kernel_config, dtype };
        let launch = Launch {
            shared_bytes: block.shared_bytes as u32,
            ..Launch::new(variant, MASK_KERNEL, grid(call.name, mask_tiles, parts)?, block.threads)
        };
        call.gpu.launch(call.name, launch, &parameters)?;
        if parts == 1 {
            return Ok(());
        }
        let sum_grid = grid(call.name, elements.div_ceil(SUM_THREADS), 1)?;
        let launch = Launch::new(variant, SUM_KERNEL, sum_grid, SUM_THREADS as u32);
        call.gpu.launch(call.name, launch, &parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn parameters_are_laid_out_as_in_the_kernels() {
        assert_eq!((size_of::<Backward>(), offset_of!(MaskBackward, dmask)), (552, 552));
        assert_eq!((offset_of!(MaskBackward, batch), offset_of!(MaskBackward, parts)), (576, 596));
        assert_eq!((offset_of!(MaskBackward, steps_per_split), size_of::<MaskBackward>()), (600, 608));
    }

    #[test]
    fn scores_are_split_where_the_mask_has_few_tiles() {
        let scores = [8, 16, 1024, 1024];
        let parts = |mask| split_scores(mask, scores, [64, 64], 396);
        assert_eq!(parts(scores), ScoreSplit { mask_tiles: 8 * 16 * 256, parts: 1, steps_per_split: 1 });
        assert_eq!(
            parts([1, 16, 1024, 1024]),
            ScoreSplit { mask_tiles: 16 * 256, parts: 1, steps_per_split: 8 }
        );
        assert_eq!(parts([8, 1, 1, 1024]), ScoreSplit { mask_tiles: 128, parts: 4, steps_per_split: 64 });
        assert_eq!(parts([1, 1, 1, 1]), ScoreSplit { mask_tiles: 1, parts: 64, steps_per_split: 512 });
        // Windows of 49 patches, all of which share a head's bias.
        assert_eq!(
            split_scores([1, 3, 49, 49], [4096, 3, 49, 49], [64, 64], 396),
            ScoreSplit { mask_tiles: 3, parts: 64, steps_per_split: 64 }
        );
        // Nothing to add, but zeros are still written.
        assert_eq!(
            split_scores([1, 3, 1, 49], [2, 3, 0, 49], [64, 64], 396),
            ScoreSplit { mask_tiles: 3, parts: 1, steps_per_split: 1 }
        );
    }

    #[test]
    fn splits_cover_all_steps() {
        for heads in 1..200 {
            let ScoreSplit { parts, steps_per_split, .. } =
                split_scores([1, 1, 64, 64], [3, heads, 64, 64], [64, 64], 396);
            assert!(parts * steps_per_split >= 3 * heads && (parts - 1) * steps_per_split < 3 * heads);
        }
    }

    #[test]
    fn blocks_fit_a_multiprocessor() {
        for engine in [Engine::Mma, Engine::Wgmma, Engine::Simt] {
            for &width in engine.grad_widths() {
                let block = Block::of(KernelConfig { engine, width, mask_mode: MaskMode::AdditiveMask });
                // With compute capability 8.6 and 8.9 a block may have 99 KiB, and with 9.0 all
                // blocks together may have 227. For f32 heads wider than 64, support depends on the
                // device.
                let limit = match engine {
                    Engine::Wgmma => (227 << 10) / block.resident,
                    Engine::Simt if width > 64 => 113 << 10,
                    _ => 99 << 10,
                };
                assert!(block.shared_bytes <= limit, "{engine:?} {width}: {} bytes", block.shared_bytes);
            }
        }
    }
}
