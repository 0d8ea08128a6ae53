//! The gradient in one pass (`attention/grad_by_keys.cu`, for wide heads `grad_by_keys_wide.cu`): a
//! work tile has keys and values, and adds to the gradient of each tile of queries in a fixed
//! order. A step of a work tile processes one tile of queries. Work tiles of several heads are
//! interleaved, so that those of one head, which add in order, begin some steps apart. This file
//! decides when the pass is used, and launches it and the variant for study, which adds in any
//! order.

use super::dropout_bits::{BitLayout, BitTraversal};
use super::resident::blocks_of;
use super::{BackwardTensors, DropoutParams, Operand, Plan, Sizes, grid};
use crate::call::Call;
use crate::driver::tensor_map::{Axes, Swizzle, TensorMap, TensorMapSpec};
use crate::launch::Launch;
use crate::memory::workspace::Workspace;
use crate::variant::attention::{AttentionVariant, Engine, MaskMode};
use smallvec::smallvec;
use ternion_core::{DType, Result};

/// Threads of a block of the main kernel: a producer warpgroup, and two consumers.
const THREADS: u32 = 384;
/// Threads of a block of the kernel that computes values per query.
const ROW_THREADS: u32 = 256;
/// Threads of a block of the kernel that converts the sums, in the variant for study.
const CONVERT_THREADS: u32 = 256;
/// Columns of a box: a row of 128 bytes, the period of the swizzle.
const SLAB: usize = 64;
/// Stages of the ring buffer for tiles of q and dy.
const STAGES: usize = 2;
/// Consumer warpgroups.
const CONSUMERS: usize = 2;
/// The minimum number of steps between the begin of a work tile and that of the next one of the
/// same head.
const MIN_STEP_DISTANCE: f64 = 1.5;
/// The preferred distance, for which at most [`FEW_HEADS`] heads are interleaved: faster for long
/// sequences, but slower for short ones, which would need many heads (`docs/kernels/attention.md`,
/// What was tried).
const FEW_HEADS_STEP_DISTANCE: f64 = 3.0;
/// The maximum number of heads that are interleaved for [`FEW_HEADS_STEP_DISTANCE`].
const FEW_HEADS: usize = 8;
/// Interleaved heads of causal bands at width 64 whose gradient of queries lags (is computed one
/// tile later than the other gradients, see [`SumOrder`]). The work tiles at the end of a band are
/// short and begin soon after one another, so that they wait: 32 heads are faster than the number
/// that follows from the average work tile (`docs/kernels/attention.md`, What was tried).
const CAUSAL_HEADS: usize = 32;
/// As [`CAUSAL_HEADS`], for heads of more than 128 columns: 16 heads, or all if there are fewer,
/// are faster (`docs/kernels/attention.md`, What was tried).
const WIDE_CAUSAL_HEADS: usize = 16;
/// The minimum number of steps of an average work tile with which the gradient of queries lags in a
/// causal band at width 64 (measured between 4.5 and 8.5).
const MIN_LAGGING_STEPS: f64 = 6.5;
/// The number of work tiles that the average is computed from.
const SAMPLED_WORK_TILES: usize = 32;

/// The kernels, in the order of their source.
const ROWS_KERNEL: usize = 0;
const MAIN_KERNEL: usize = 1;
/// Only in the variant for study.
const CONVERT_KERNEL: usize = 2;

/// The parameters, like `AttentionGradByKeys` in the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    q: TensorMap,
    k: TensorMap,
    v: TensorMap,
    dy: TensorMap,
    rows_of_y: Operand,
    rows_of_dy: Operand,
    lse: Operand,
    dq: Operand,
    dk: Operand,
    dv: Operand,
    /// Row statistics, `[batch * heads, query_tiles, 2, queries of a tile]`: the log-sum-exp that
    /// is subtracted from scores, then rowsum(dy y).
    rows: u64,
    /// f32 sums of the gradient of queries, for each query tile.
    sums: u64,
    /// For each query tile and consumer, how many work tiles have added to its sums.
    dq_semaphores: u64,
    /// Per head.
    query_tiles: u32,
    /// Per head.
    key_blocks: u32,
    /// Heads of keys of the whole batch; with dropout, of this launch.
    key_heads: u32,
    interleaved_heads: u32,
    sizes: Sizes,
    /// The address of the counter from which blocks draw their next work tile.
    ticket: u64,
    work_tiles: u32,
    /// This and the following fields are used only with dropout.
    first_key_head: u32,
    bits: u64,
    bit_layout: BitLayout,
    dropout_scale: f32,
    keep_probability: f32,
}

/// The order in which work tiles add to the gradient of queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumOrder {
    /// In the order of their keys, as the op does. Two runs are bit-identical.
    Fixed,
    /// In any order, to sums that were set to 0 and that a separate launch converts.
    Any {
        /// Whether the gradient of queries is computed one tile later than the others. The fixed
        /// order does so except for short work tiles of causal bands at width 64.
        lags: bool,
    },
}

/// Memory that the launches share.
struct GradWorkspace {
    rows: Workspace,
    sums: Workspace,
    /// The semaphores that order the sums, followed by the ticket.
    dq_semaphores: Workspace,
    /// The number of query tiles of all heads.
    tiles: usize,
}

/// Returns the queries of a tile, for heads of `width` columns.
fn queries_of(width: usize) -> usize {
    if width == 64 { 128 } else { 64 }
}

/// Returns the keys of a work tile.
fn keys_of(width: usize) -> usize {
    if width > 128 { 64 } else { 128 }
}

/// Returns the bytes of shared memory of the kernel, according to its layout.
fn shared_bytes(width: usize) -> usize {
    let (queries, keys) = (queries_of(width), keys_of(width));
    // Stages of keys and values, each with an index.
    let key_stages = if width == 64 { 2 } else { 1 };
    let (key_value_bytes, query_bytes) = (2 * keys * width * 2, 2 * queries * width * 2);
    // For narrow heads, the gradients of scores and a part of dq for each consumer; for wide heads,
    // the weights and gradients of scores of two tiles.
    let (grads, staging) = if width > 128 { (4, 0) } else { (2, CONSUMERS * 64 * SLAB * 4) };
    let (grads, row_bytes) = (grads * keys * queries * 2, 2 * queries * 4);
    let barriers = 8 * (4 * STAGES + 2 * key_stages + 3 * CONSUMERS);
    key_stages * (key_value_bytes + 8) + STAGES * (query_bytes + row_bytes) + grads + staging + barriers
}

/// Returns whether boxes of the operand can be loaded: none of its axes is broadcast or has a
/// negative stride.
pub(super) fn supports_boxes(operand: &Operand, counts: [usize; 3]) -> bool {
    counts.iter().zip(operand.strides).all(|(&count, stride)| count <= 1 || stride > 0)
}

impl Plan {
    /// Returns whether the gradient is computed in one pass: with wgmma, without a mask, for heads
    /// of more than 32 columns, and if every query attends to a key, because the work tile of a
    /// query's last key writes its gradient.
    pub(super) fn uses_one_pass(&self, tensors: &BackwardTensors, dropout_params: &DropoutParams) -> bool {
        let Sizes { heads, queries, keys, .. } = self.sizes;
        let is_attended = match self.kernel_config.mask_mode {
            MaskMode::Full => keys > 0,
            MaskMode::Band => queries <= keys && self.sizes.band_begin < self.sizes.band_end,
            MaskMode::Dropout => {
                let is_attended = queries <= keys && self.sizes.band_begin < self.sizes.band_end;
                (self.is_unmasked() || is_attended) && self.drops_by_keys(dropout_params)
            }
            MaskMode::BoolMask | MaskMode::AdditiveMask | MaskMode::Varlen | MaskMode::VarlenDropout => false,
        };
        let [key_shape, query_shape] = [(self.kv_heads, keys), (heads as usize, queries)]
            .map(|(heads, rows)| [self.batch, heads, rows as usize]);
        self.kernel_config.engine == Engine::Wgmma
            && self.batch * heads as usize * queries as usize > 0
            && is_attended
            && [&tensors.k, &tensors.v].iter().all(|operand| supports_boxes(operand, key_shape))
            && [&tensors.q, &tensors.dy].iter().all(|operand| supports_boxes(operand, query_shape))
    }

    /// Returns the width of the tiles in one pass. The kernels with two passes have no width
    /// between 128 and 256.
    pub(super) fn one_pass_width(&self) -> usize {
        let Sizes { head_dim, value_dim, .. } = self.sizes;
        if self.width() == 256 && head_dim.max(value_dim) <= 192 { 192 } else { self.width() }
    }

    /// Returns whether all queries attend to all keys, and there are keys.
    fn is_unmasked(&self) -> bool {
        let Sizes { queries, keys, band_begin, band_end, .. } = self.sizes;
        keys > 0 && band_begin <= 1 - queries as i32 && band_end >= keys as i32
    }

    /// Returns the tiles that the dropout bits are computed for.
    fn bit_traversal(&self) -> BitTraversal {
        let width = self.one_pass_width();
        BitTraversal::OverQueries { work_keys: keys_of(width), step: queries_of(width) }
    }

    /// Returns whether the pass can use bits of the dropout mask. Gradients of scores are without
    /// dropout's scale until they are summed, and f16 has room for a factor of 2.
    fn drops_by_keys(&self, dropout_params: &DropoutParams) -> bool {
        let group = self.sizes.group as usize;
        dropout_params.scale <= 2.0 && self.has_dropout_bits(dropout_params, self.bit_traversal(), group)
    }

    /// Returns whether queries attend only to keys up to a diagonal.
    fn is_causal(&self) -> bool {
        let Sizes { queries, keys, band_end, .. } = self.sizes;
        self.kernel_config.mask_mode != MaskMode::Full
            && band_end <= (keys as i32 - queries as i32).saturating_add(1)
    }

    /// Returns whether the gradient of queries is computed one tile later. Not for short work tiles
    /// of a causal band at width 64, because a work tile's last product for queries then overlaps
    /// with no other product.
    fn lags(&self) -> bool {
        self.one_pass_width() != 64 || !self.is_causal() || self.average_steps() >= MIN_LAGGING_STEPS
    }

    /// Returns the mean number of query tiles of a work tile, from evenly spaced samples.
    fn average_steps(&self) -> f64 {
        let Sizes { queries, keys, band_begin, band_end, group, .. } = self.sizes;
        let [query_tiles, key_blocks] = self.one_pass_tiles();
        if self.kernel_config.mask_mode == MaskMode::Full {
            return query_tiles as f64 * f64::from(group);
        }
        let width = self.one_pass_width();
        let (tile, work_keys) = (queries_of(width) as i64, keys_of(width) as i64);
        let steps_of_block = |block: usize| {
            let first_key = block as i64 * work_keys;
            let end_key = (first_key + work_keys).min(i64::from(keys));
            let first = (first_key - i64::from(band_end) + 1).max(0);
            let end = (end_key - i64::from(band_begin)).min(i64::from(queries));
            if end > first { (end as u64).div_ceil(tile as u64) as i64 - first / tile } else { 0 }
        };
        let samples = key_blocks.clamp(1, SAMPLED_WORK_TILES);
        let steps: i64 =
            (0..samples).map(|sample| steps_of_block((2 * sample + 1) * key_blocks / (2 * samples))).sum();
        steps as f64 / samples as f64 * f64::from(group)
    }

    /// Returns how many key heads are interleaved in the order of work tiles. Work tiles of the
    /// same head, which add in order, should begin some steps apart; with more heads, the data that
    /// they read again would leave the cache.
    fn grad_interleaved_heads(&self, multiprocessors: usize) -> usize {
        let key_heads = self.batch * self.kv_heads;
        let steps = self.average_steps().max(1.0);
        let heads_for = |step_distance: f64| (step_distance * multiprocessors as f64 / steps).ceil() as usize;
        let min_for_mask = match (self.one_pass_width(), self.is_causal()) {
            (64, true) if steps >= MIN_LAGGING_STEPS => CAUSAL_HEADS,
            (192.., true) => WIDE_CAUSAL_HEADS,
            (192.., false) => 1,
            _ => heads_for(FEW_HEADS_STEP_DISTANCE).min(FEW_HEADS),
        };
        let min_heads = heads_for(MIN_STEP_DISTANCE).max(min_for_mask).max(1);
        key_heads.div_ceil((key_heads / min_heads).max(1))
    }

    /// Returns the map of an operand with `heads` heads, whose boxes have `extent` rows.
    pub(super) fn map(
        &self,
        op: &'static str,
        operand: &Operand,
        dtype: DType,
        [heads, rows, columns]: [usize; 3],
        extent: usize,
    ) -> Result<TensorMap> {
        let [batch_stride, head_stride, row_stride, _] = operand.strides;
        let (mut axes, columns) = Axes::beginning(dtype, columns, SLAB);
        let rows = axes.next(rows, row_stride, extent);
        let heads = axes.next(heads, head_stride, 1);
        let batch = axes.next(self.batch, batch_stride, 1);
        TensorMapSpec {
            address: operand.address,
            dtype,
            rounds_to_tf32: false,
            swizzle: Swizzle::Bytes128,
            axes: smallvec![columns, rows, heads, batch],
        }
        .map(op)
    }

    /// Returns the tiles of queries, and the blocks of keys, of a head.
    fn one_pass_tiles(&self) -> [usize; 2] {
        let (Sizes { queries, keys, .. }, width) = (self.sizes, self.one_pass_width());
        [(queries as usize).div_ceil(queries_of(width)), (keys as usize).div_ceil(keys_of(width))]
    }

    fn workspace(&self, call: &Call<'_>) -> Result<GradWorkspace> {
        let width = self.one_pass_width();
        let tile = queries_of(width);
        let [query_tiles, _] = self.one_pass_tiles();
        let tiles = self.batch * self.sizes.heads as usize * query_tiles;
        Ok(GradWorkspace {
            rows: call.gpu.workspace(tiles * 2 * tile * 4)?,
            sums: call.gpu.workspace(tiles * tile * width * 4)?,
            dq_semaphores: call.gpu.workspace((tiles * CONSUMERS + 1) * 4)?,
            tiles,
        })
    }

    fn parameters_by_keys(
        &self,
        call: &Call<'_>,
        dtype: DType,
        tensors: &BackwardTensors,
        workspace: &GradWorkspace,
    ) -> Result<Parameters> {
        let (sizes, width) = (self.sizes, self.one_pass_width());
        let [query_tiles, key_blocks] = self.one_pass_tiles();
        let GradWorkspace { rows, sums, dq_semaphores, tiles } = workspace;
        let query_map = |operand: &Operand, columns: u32| {
            let shape = [sizes.heads as usize, sizes.queries as usize, columns as usize];
            self.map(call.name, operand, dtype, shape, queries_of(width))
        };
        let key_map = |operand: &Operand, columns: u32| {
            let shape = [self.kv_heads, sizes.keys as usize, columns as usize];
            self.map(call.name, operand, dtype, shape, keys_of(width))
        };
        Ok(Parameters {
            q: query_map(&tensors.q, sizes.head_dim)?,
            k: key_map(&tensors.k, sizes.head_dim)?,
            v: key_map(&tensors.v, sizes.value_dim)?,
            dy: query_map(&tensors.dy, sizes.value_dim)?,
            rows_of_y: tensors.y,
            rows_of_dy: tensors.dy,
            lse: tensors.lse,
            dq: tensors.dq,
            dk: tensors.dk,
            dv: tensors.dv,
            rows: rows.address(),
            sums: sums.address(),
            dq_semaphores: dq_semaphores.address(),
            query_tiles: query_tiles as u32,
            key_blocks: key_blocks as u32,
            key_heads: (self.batch * self.kv_heads) as u32,
            interleaved_heads: self.grad_interleaved_heads(call.gpu.multiprocessors()) as u32,
            sizes,
            ticket: dq_semaphores.address() + (tiles * CONSUMERS * 4) as u64,
            work_tiles: grid(call.name, self.batch * self.kv_heads, key_blocks)?,
            first_key_head: 0,
            bits: 0,
            bit_layout: BitLayout::default(),
            dropout_scale: 1.0,
            keep_probability: 1.0,
        })
    }

    /// Queues the kernels.
    pub(super) fn launch_one_pass(
        &self,
        call: &Call<'_>,
        dtype: DType,
        tensors: &BackwardTensors,
        dropout_params: DropoutParams,
        order: SumOrder,
    ) -> Result<()> {
        let workspace = self.workspace(call)?;
        let mut parameters = self.parameters_by_keys(call, dtype, tensors, &workspace)?;
        parameters.dropout_scale = dropout_params.scale;
        parameters.keep_probability = 1.0 / dropout_params.scale;
        let (width, mask_mode) = (self.one_pass_width() as u16, self.kernel_config.mask_mode);
        let variant = match order {
            SumOrder::Fixed => AttentionVariant::GradByKeys { width, lags: self.lags(), mask_mode, dtype },
            SumOrder::Any { lags } => AttentionVariant::GradByKeysUnordered { width, lags, mask_mode, dtype },
        };
        let [query_tiles, _] = self.one_pass_tiles();
        let row_grid = grid(call.name, self.batch * self.sizes.heads as usize, query_tiles)?;
        call.gpu.launch(call.name, Launch::new(variant, ROWS_KERNEL, row_grid, ROW_THREADS), &parameters)?;
        let launch_pass = |parameters: &Parameters| {
            let key_grid = blocks_of(call.gpu, parameters.work_tiles);
            let launch = Launch {
                shared_bytes: shared_bytes(usize::from(width)) as u32,
                ..Launch::new(variant, MAIN_KERNEL, key_grid, THREADS)
            };
            call.gpu.launch(call.name, launch, parameters)
        };
        if mask_mode == MaskMode::Dropout {
            return self.launch_with_bits(call, &parameters, dropout_params, launch_pass);
        }
        launch_pass(&parameters)?;
        if order == SumOrder::Fixed {
            return Ok(());
        }
        let launch = Launch::new(variant, CONVERT_KERNEL, row_grid, CONVERT_THREADS);
        call.gpu.launch(call.name, launch, &parameters)
    }

    /// For some key heads at a time, queues the kernel that computes their bits and sets the ticket
    /// to 0, then the pass.
    fn launch_with_bits(
        &self,
        call: &Call<'_>,
        parameters: &Parameters,
        dropout_params: DropoutParams,
        launch_pass: impl Fn(&Parameters) -> Result<()>,
    ) -> Result<()> {
        let bits =
            self.dropout_bits(call.gpu, dropout_params, self.bit_traversal(), self.sizes.group as usize)?;
        bits.chunks().try_for_each(|chunk| {
            let key_heads = chunk.len() as u32;
            launch_pass(&Parameters {
                key_heads,
                interleaved_heads: parameters.interleaved_heads.min(key_heads),
                work_tiles: key_heads * parameters.key_blocks,
                first_key_head: chunk.start as u32,
                bits: bits.address(),
                bit_layout: bits.compute(call, self.sizes, &chunk, Some(parameters.ticket))?,
                ..*parameters
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::attention::KernelConfig;
    use std::mem::offset_of;

    fn plan(mask_mode: MaskMode, [batch, heads, kv_heads]: [usize; 3], [queries, keys]: [u32; 2]) -> Plan {
        let (band_begin, band_end) = (-(queries as i32), keys as i32 - queries as i32 + 1);
        let (heads, group) = (heads as u32, (heads / kv_heads) as u32);
        let (head_dim, value_dim, scale) = (64, 64, 0.125);
        let sizes = Sizes { heads, group, queries, keys, head_dim, value_dim, band_begin, band_end, scale };
        Plan {
            kernel_config: KernelConfig { engine: Engine::Wgmma, width: 64, mask_mode },
            sizes,
            batch,
            kv_heads,
        }
    }

    /// Heads that are adjacent columns of rows, as views of one matrix of q, k and v have them.
    fn tensors(heads: i64, rows: i64) -> BackwardTensors {
        let operand = Operand { address: 512, strides: [rows * heads * 64, 64, heads * 64, 1] };
        let none = Operand::default();
        BackwardTensors {
            q: operand,
            k: operand,
            v: operand,
            y: operand,
            dy: operand,
            mask: none,
            lse: none,
            dq: operand,
            dk: operand,
            dv: operand,
        }
    }

    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        assert_eq!([64, 128, 192, 256].map(shared_bytes), [231_584, 197_768, 181_384, 230_536]);
        assert!([64, 128, 192, 256].iter().all(|&width| shared_bytes(width) <= 227 << 10));
    }

    #[test]
    fn parameters_are_where_the_kernel_reads_them() {
        let offsets = [
            offset_of!(Parameters, rows_of_y),
            offset_of!(Parameters, rows),
            offset_of!(Parameters, query_tiles),
            offset_of!(Parameters, sizes),
            offset_of!(Parameters, ticket),
        ];
        assert_eq!((offsets, size_of::<Parameters>()), ([512, 752, 776, 792, 832], 896));
    }

    #[test]
    fn work_tiles_of_a_head_begin_at_a_distance_of_some_steps() {
        let gpt2 = plan(MaskMode::Band, [16, 12, 12], [1024, 1024]);
        assert_eq!(gpt2.grad_interleaved_heads(132), 48, "of 192 heads, 4 times 48");
        assert_eq!(plan(MaskMode::Full, [4, 16, 16], [4096, 4096]).grad_interleaved_heads(132), 8);
        assert_eq!(
            plan(MaskMode::Full, [1, 32, 32], [16_384, 16_384]).grad_interleaved_heads(132),
            4,
            "3 of 128 steps apart"
        );
        assert_eq!(
            plan(MaskMode::Band, [4, 32, 32], [4096, 4096]).grad_interleaved_heads(132),
            32,
            "a causal band"
        );
        assert_eq!(
            plan(MaskMode::Band, [1, 2, 2], [128, 128]).grad_interleaved_heads(132),
            2,
            "no more than there are"
        );
        let mut window = plan(MaskMode::Band, [1, 128, 128], [16_384, 16_384]);
        window.sizes.band_begin = -511;
        assert_eq!(
            window.grad_interleaved_heads(132),
            43,
            "work tiles of 5 steps, 1.5 of them apart: 40 heads or more"
        );
    }

    #[test]
    fn wide_heads_have_work_tiles_of_half_as_many_keys() {
        let wide = |mask_mode, columns, rows| {
            let mut plan = plan(mask_mode, [1, 64, 64], rows);
            plan.kernel_config.width = 256;
            (plan.sizes.head_dim, plan.sizes.value_dim) = (columns, 136);
            plan
        };
        let (narrower, widest) =
            (wide(MaskMode::Band, 192, [1000, 4096]), wide(MaskMode::Band, 200, [1000, 4096]));
        assert_eq!([narrower.one_pass_width(), widest.one_pass_width()], [192, 256]);
        assert_eq!((narrower.one_pass_tiles(), narrower.lags()), ([16, 64], true));
        assert_eq!(wide(MaskMode::Band, 256, [4096, 4096]).grad_interleaved_heads(132), 16, "a causal band");
        assert_eq!(
            wide(MaskMode::Full, 256, [4096, 4096]).grad_interleaved_heads(132),
            4,
            "1.5 of 64 steps apart"
        );
    }

    #[test]
    fn a_work_tile_has_the_tiles_of_queries_that_attend_to_a_key() {
        let steps = |mask_mode, heads, rows| plan(mask_mode, heads, rows).average_steps();
        assert_eq!(steps(MaskMode::Full, [1, 4, 2], [1000, 300]), 16.0, "8 tiles of two heads each");
        assert_eq!(steps(MaskMode::Band, [1, 1, 1], [1024, 1024]), 4.5, "8, 7, .. 1");
        assert_eq!(steps(MaskMode::Band, [1, 1, 1], [128, 1024]), 1.0, "the last queries attend to all keys");
        let mut window = plan(MaskMode::Band, [1, 1, 1], [131_072, 131_072]);
        window.sizes.band_begin = -511;
        assert_eq!(
            window.average_steps(),
            5.0,
            "128 keys are attended to by 639 queries, of tiles near the middle and both ends"
        );
    }

    #[test]
    fn queries_lag_except_in_short_work_tiles_of_causal_bands_of_narrow_heads() {
        let causal = plan(MaskMode::Band, [2, 4, 4], [200, 300]);
        assert!(!causal.lags());
        assert!(!plan(MaskMode::Band, [2, 4, 4], [1024, 1024]).lags());
        assert!(plan(MaskMode::Band, [2, 4, 4], [2048, 2048]).lags());
        let [mut wide, mut not_causal] = [(); 2].map(|()| plan(MaskMode::Band, [2, 4, 4], [200, 300]));
        wide.kernel_config.width = 128;
        not_causal.sizes.band_end += 1;
        assert!(wide.lags() && not_causal.lags() && plan(MaskMode::Full, [2, 4, 4], [200, 300]).lags());
    }

    #[test]
    fn one_pass_is_for_queries_that_attend_to_keys_without_repeated_operands() {
        let valid = tensors(4, 300);
        let uses_one_pass = |mask_mode, [queries, keys]: [u32; 2], tensors: &BackwardTensors| {
            let dropout_params = DropoutParams { scale: 1.0, ..DropoutParams::default() };
            plan(mask_mode, [2, 4, 4], [queries, keys]).uses_one_pass(tensors, &dropout_params)
        };
        assert!(
            uses_one_pass(MaskMode::Full, [300, 300], &valid)
                && uses_one_pass(MaskMode::Band, [300, 300], &valid)
        );
        assert!(
            uses_one_pass(MaskMode::Band, [200, 300], &valid)
                && uses_one_pass(MaskMode::Full, [300, 200], &valid)
        );
        assert!(!uses_one_pass(MaskMode::Band, [300, 200], &valid), "fully masked queries");
        for mask_mode in
            [MaskMode::BoolMask, MaskMode::AdditiveMask, MaskMode::Varlen, MaskMode::VarlenDropout]
        {
            assert!(!uses_one_pass(mask_mode, [300, 300], &valid), "{mask_mode:?}");
        }
        let mut repeated = tensors(4, 300);
        repeated.dy.strides[1] = 0;
        assert!(!uses_one_pass(MaskMode::Full, [300, 300], &repeated), "heads of dy are the same");
        let mut backwards = tensors(4, 300);
        backwards.k.strides[2] *= -1;
        assert!(!uses_one_pass(MaskMode::Full, [300, 300], &backwards), "keys are traversed backward");
    }

    #[test]
    fn one_pass_with_dropout_is_for_few_bits_and_small_scales() {
        let valid = tensors(4, 300);
        let uses_one_pass = |rows, scale: f32, is_unmasked: bool| {
            let mut plan = plan(MaskMode::Dropout, [2, 4, 2], rows);
            if is_unmasked {
                plan.sizes.band_end = plan.sizes.keys as i32;
            }
            let threshold = ((1.0 - 1.0 / scale) * 16_777_216.0) as u32;
            plan.uses_one_pass(&valid, &DropoutParams { threshold, scale, ..DropoutParams::default() })
        };
        assert!(uses_one_pass([300, 300], 1.25, false) && uses_one_pass([300, 200], 2.0, true));
        assert!(!uses_one_pass([300, 200], 1.25, false), "fully masked queries");
        assert!(!uses_one_pass([300, 300], 4.0, false), "f16 has no room for a factor of 4");
        assert!(!uses_one_pass([300, 300], 1.0, false), "nothing is dropped");
        assert!(
            !uses_one_pass([32_000, 32_000], 1.25, false),
            "256 MB of bits for two heads that share keys"
        );
    }
}
