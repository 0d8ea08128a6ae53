//! Forward that loads operands and stores results by TMA (`attention/forward_tma.cu`): a work tile
//! has queries of one head, and each persistent block computes one work tile after another. This
//! file decides when it is used, and launches it.

use super::dropout_bits::{BitLayout, BitTraversal};
use super::grad_by_keys::supports_boxes;
use super::resident::blocks_of;
use super::{DropoutParams, Forward, Operand, Plan, Sizes, grid};
use crate::call::Call;
use crate::driver::tensor_map::TensorMap;
use crate::launch::Launch;
use crate::variant::attention::{AttentionVariant, Engine, MaskMode, forward_tma_long, forward_tma_tiles};
use ternion_core::{DType, Result};

/// Queries of a consumer warpgroup.
const ROWS: usize = 64;
/// The alignment of swizzled tiles in shared memory.
const SWIZZLE_ALIGNMENT: usize = 1024;
/// Bytes of keys and values that work tiles with neighboring indices read: they stay in the cache.
const CACHED_BYTES: usize = 16 << 20;
/// Microseconds of a work tile and of each of its steps in a causal band at width 64, with the
/// tiles for few keys and with those for many: fitted to 512, 1024 and 4096 tokens on an H200.
/// `docs/kernels/attention.md`, What was tried, says how well they predict other lengths.
const CAUSAL_TIMES: [(f64, f64); 2] = [(1.5, 1.18), (1.9, 1.53)];
/// The maximum number of queries for which the host adds the times of all tiles, of which there are
/// 512 at most. For more queries, the tiles for many keys are the faster ones.
const MAX_PREDICTED: usize = 1 << 16;

/// The parameters, like `AttentionTma` in the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    q: TensorMap,
    k: TensorMap,
    v: TensorMap,
    y: TensorMap,
    lse: u64,
    /// The address of the counter from which blocks draw their next work tile.
    ticket: u64,
    work_tiles: u32,
    /// Tiles of queries, per head.
    tiles: u32,
    /// Heads of the whole batch; with dropout, of this launch.
    heads: u32,
    interleaved_heads: u32,
    sizes: Sizes,
    /// This and the following fields are used only with dropout.
    bits: u64,
    bit_layout: BitLayout,
    dropout_scale: f32,
}

/// Returns the bytes of shared memory of the kernel, according to its layout.
fn shared_bytes(width: usize, is_long: bool, mask_mode: MaskMode) -> usize {
    let tiles = forward_tma_tiles(width, is_long, mask_mode);
    let queries = tiles.query_stages * tiles.consumers * ROWS * width * 2;
    let steps = 2 * tiles.stages * tiles.step * width * 2;
    let barriers = (8 * (3 * tiles.query_stages + 4 * tiles.stages)).next_multiple_of(16);
    // And 16 bytes that describe the content of each buffer of queries.
    queries + steps + barriers + tiles.query_stages * 16 + SWIZZLE_ALIGNMENT
}

impl Plan {
    /// Returns whether forward uses TMA: with wgmma, without a mask, with a positive scale (so that
    /// the maximum score is that of the maximum product), with work for both consumer warpgroups,
    /// and with more blocks of [`ROWS`] queries than multiprocessors.
    pub(super) fn uses_tma(&self, tensors: &Forward, multiprocessors: usize) -> bool {
        let Sizes { heads, queries, keys, scale, .. } = self.sizes;
        let [heads, queries, keys] = [heads, queries, keys].map(|count| count as usize);
        let [query_shape, key_shape] =
            [[heads, queries], [self.kv_heads, keys]].map(|[heads, rows]| [self.batch, heads, rows]);
        self.kernel_config.engine == Engine::Wgmma
            && self.has_tma(&tensors.dropout_params)
            && keys > 0
            && scale > 0.0
            && queries > ROWS
            && self.batch * heads * queries.div_ceil(ROWS) > multiprocessors
            && [&tensors.q, &tensors.y].iter().all(|operand| supports_boxes(operand, query_shape))
            && [&tensors.k, &tensors.v].iter().all(|operand| supports_boxes(operand, key_shape))
    }

    /// Returns whether there are TMA kernels for the mask mode and, with dropout, whether its bits
    /// are not too many.
    fn has_tma(&self, dropout_params: &DropoutParams) -> bool {
        match self.kernel_config.mask_mode {
            MaskMode::Full | MaskMode::Band => true,
            MaskMode::Dropout => {
                // For the largest work tiles.
                let traversal = BitTraversal::OverKeys { work_queries: 3 * ROWS };
                self.has_dropout_bits(dropout_params, traversal, 1)
            }
            _ => false,
        }
    }

    /// Returns whether there are so many keys and queries that the tiles for many are faster.
    pub(super) fn is_long(&self, multiprocessors: usize) -> bool {
        let Sizes { queries, keys, band_begin, band_end, .. } = self.sizes;
        let is_band = self.kernel_config.mask_mode != MaskMode::Full;
        // Every query that attends to any key attends to the first one.
        let is_causal = is_band && queries as i32 + band_begin <= 1;
        if self.width() == 64 && is_causal && queries as usize <= MAX_PREDICTED {
            return self.causal_time(true, multiprocessors) < self.causal_time(false, multiprocessors);
        }
        let attended_keys =
            if is_band { (band_end - band_begin).clamp(0, keys as i32) as usize } else { keys as usize };
        forward_tma_long(self.width(), self.kernel_config.mask_mode)
            .is_some_and(|many| attended_keys.min(queries as usize) >= many)
            && self.fills_device(is_band, multiprocessors)
    }

    /// Returns the predicted microseconds of a causal band at width 64, with the tiles for many
    /// keys if `is_long`, otherwise with those for few: work tiles are distributed evenly, and the
    /// total is at least the time of the longest one.
    fn causal_time(&self, is_long: bool, multiprocessors: usize) -> f64 {
        let Sizes { queries, keys, band_end, .. } = self.sizes;
        let tiles = forward_tma_tiles(self.width(), is_long, self.kernel_config.mask_mode);
        let (tile_time, step_time) = CAUSAL_TIMES[usize::from(is_long)];
        let rows = tiles.consumers * ROWS;
        let time_of = |first: usize| {
            let last = (first + rows).min(queries as usize) as i32 - 1;
            let attended_keys = (last + band_end).clamp(1, keys as i32) as usize;
            tile_time + step_time * attended_keys.div_ceil(tiles.step) as f64
        };
        let times = (0..queries as usize).step_by(rows).map(time_of);
        let (sum, longest) =
            times.fold((0.0, 0.0_f64), |(sum, longest), time| (sum + time, longest.max(time)));
        let heads = (self.batch * self.sizes.heads as usize) as f64;
        (sum * heads / multiprocessors as f64).max(longest)
    }

    /// Returns whether larger tiles, which are fewer, leave no multiprocessors without work. In a
    /// band, whose work tiles differ in length, there must be two for each multiprocessor.
    /// Otherwise the rounds of all blocks are compared, weighted by the rows of a tile: a tile of
    /// 192 rows processes 7/6 as many rows in the same time (`docs/kernels/attention.md`, What was
    /// tried).
    fn fills_device(&self, is_band: bool, multiprocessors: usize) -> bool {
        let work_tiles = |is_long: bool| {
            let rows =
                forward_tma_tiles(self.width(), is_long, self.kernel_config.mask_mode).consumers * ROWS;
            (rows, self.batch * self.sizes.heads as usize * (self.sizes.queries as usize).div_ceil(rows))
        };
        let ((short_rows, short), (long_rows, long)) = (work_tiles(false), work_tiles(true));
        if short_rows == long_rows {
            return true;
        }
        let rounds = |work_tiles: usize| work_tiles.div_ceil(multiprocessors);
        match is_band {
            true => long >= 2 * multiprocessors,
            false => 6 * long_rows * rounds(long) < 7 * short_rows * rounds(short),
        }
    }

    /// Returns how many heads are interleaved in the order of work tiles. In a band the longest of
    /// these heads' work tiles begin first; otherwise all are equally long, and those of one head
    /// are consecutive.
    fn forward_interleaved_heads(&self) -> usize {
        if self.kernel_config.mask_mode == MaskMode::Full {
            return 1;
        }
        let Sizes { group, keys, head_dim, value_dim, .. } = self.sizes;
        let bytes = keys as usize * (head_dim + value_dim) as usize * 2;
        let heads = self.batch * self.sizes.heads as usize;
        let cached_heads = (CACHED_BYTES / bytes).max(1) * group as usize;
        heads.div_ceil(heads.div_ceil(cached_heads))
    }

    /// Queues the kernel with the tiles for few keys or for many.
    pub(super) fn launch_tma(
        &self,
        call: &Call<'_>,
        dtype: DType,
        tensors: &Forward,
        is_long: bool,
    ) -> Result<()> {
        let (width, sizes) = (self.width(), self.sizes);
        let tiles = forward_tma_tiles(width, is_long, self.kernel_config.mask_mode);
        let heads = sizes.heads as usize;
        let query_tiles = (sizes.queries as usize).div_ceil(tiles.consumers * ROWS);
        let work_tiles = grid(call.name, self.batch * heads, query_tiles)?;
        let query_map = |operand: &Operand, columns: u32| {
            let shape = [heads, sizes.queries as usize, columns as usize];
            self.map(call.name, operand, dtype, shape, ROWS)
        };
        let key_map = |operand: &Operand, columns: u32| {
            let shape = [self.kv_heads, sizes.keys as usize, columns as usize];
            self.map(call.name, operand, dtype, shape, tiles.step)
        };
        let parameters = Parameters {
            q: query_map(&tensors.q, sizes.head_dim)?,
            k: key_map(&tensors.k, sizes.head_dim)?,
            v: key_map(&tensors.v, sizes.value_dim)?,
            y: query_map(&tensors.y, sizes.value_dim)?,
            lse: tensors.lse,
            // A counter that is 0 between launches, because the kernel resets it.
            ticket: call.gpu.arrival_counters(),
            work_tiles,
            tiles: query_tiles as u32,
            heads: (self.batch * heads) as u32,
            interleaved_heads: self.forward_interleaved_heads() as u32,
            sizes,
            bits: 0,
            bit_layout: BitLayout::default(),
            dropout_scale: 1.0,
        };
        let variant = AttentionVariant::ForwardTma {
            width: width as u16,
            is_long,
            mask_mode: self.kernel_config.mask_mode,
            dtype,
        };
        let launch = |parameters: &Parameters| {
            let blocks = blocks_of(call.gpu, parameters.work_tiles);
            let threads = (1 + tiles.consumers as u32) * 128;
            let shared_bytes = shared_bytes(width, is_long, self.kernel_config.mask_mode) as u32;
            let launch = Launch { shared_bytes, ..Launch::new(variant, 0, blocks, threads) };
            call.gpu.launch(call.name, launch, parameters)
        };
        if self.kernel_config.mask_mode != MaskMode::Dropout {
            return launch(&parameters);
        }
        let traversal = BitTraversal::OverKeys { work_queries: tiles.consumers * ROWS };
        let bits = self.dropout_bits(call.gpu, tensors.dropout_params, traversal, 1)?;
        bits.chunks().try_for_each(|chunk| {
            launch(&Parameters {
                work_tiles: (chunk.len() * query_tiles) as u32,
                heads: chunk.len() as u32,
                interleaved_heads: parameters.interleaved_heads.min(chunk.len() as u32),
                bits: bits.address(),
                bit_layout: bits.compute(call, sizes, &chunk, None)?,
                dropout_scale: tensors.dropout_params.scale,
                ..parameters
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KvSplitParams, Varlen};
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
    fn tensors(heads: i64, rows: i64) -> Forward {
        let operand = Operand { address: 512, strides: [rows * heads * 64, 64, heads * 64, 1] };
        Forward {
            q: operand,
            k: operand,
            v: operand,
            mask: Operand::default(),
            y: operand,
            lse: 0,
            lse_errors: 0,
            blocks: 0,
            sizes: plan(MaskMode::Full, [1, 1, 1], [1, 1]).sizes,
            dropout_params: DropoutParams::default(),
            varlen: Varlen::default(),
            kv_split_params: KvSplitParams::default(),
        }
    }

    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        let widths = [64, 128, 192, 256];
        let bytes = |is_long, mask_mode| widths.map(|width| shared_bytes(width, is_long, mask_mode));
        let all =
            [bytes(false, MaskMode::Full), bytes(true, MaskMode::Full), bytes(false, MaskMode::Dropout)];
        assert_eq!(all[0], [197_920, 230_592, 222_352, 230_512]);
        assert_eq!(all[1], [197_888, 230_592, 222_320, 230_512]);
        assert_eq!(all[2], [197_920, 230_592, 197_776, 197_744]);
        assert!(all.into_iter().flatten().all(|bytes| bytes <= 227 << 10));
    }

    #[test]
    fn many_keys_have_larger_tiles() {
        let is_long = |mask_mode, [queries, keys]: [u32; 2], window: i32| {
            let mut plan = plan(mask_mode, [4, 16, 16], [queries, keys]);
            plan.sizes.band_begin = plan.sizes.band_begin.max(-window);
            plan.is_long(132)
        };
        let no_window = i32::MAX;
        // 256 work tiles or 192, two rounds each; 320 or 192, three rounds or two.
        assert!(!is_long(MaskMode::Full, [512, 512], no_window), "as many rounds of larger tiles");
        assert!(
            is_long(MaskMode::Full, [576, 576], no_window) && !is_long(MaskMode::Full, [576, 511], no_window)
        );
        assert!(!is_long(MaskMode::Full, [300, 4096], no_window), "few queries");
        assert!(
            is_long(MaskMode::Band, [2048, 2048], no_window)
                && !is_long(MaskMode::Band, [1024, 1024], no_window)
        );
        assert!(!is_long(MaskMode::Band, [4096, 4096], 100), "a window of few keys");
        assert!(is_long(MaskMode::Band, [1 << 17, 1 << 17], no_window), "too many tiles to add up");
        // Padding rows count: 1408 or 1344 for 1300, 384 or 384 for 333, 256 or 384
        // for 200.
        for (tokens, is_many) in [(1300, true), (700, true), (333, true), (200, false), (512, false)] {
            let many_heads = plan(MaskMode::Band, [12, 32, 32], [tokens, tokens]);
            assert_eq!(many_heads.is_long(132), is_many, "{tokens}");
        }
        let single_head = |tokens| plan(MaskMode::Band, [1, 1, 1], [tokens, tokens]).is_long(132);
        assert!(!single_head(2048), "11 work tiles or 16 shorter ones run at the same time");
    }

    #[test]
    fn parameters_are_where_the_kernel_reads_them() {
        let offsets = [
            offset_of!(Parameters, y),
            offset_of!(Parameters, lse),
            offset_of!(Parameters, ticket),
            offset_of!(Parameters, work_tiles),
            offset_of!(Parameters, sizes),
            offset_of!(Parameters, bits),
            offset_of!(Parameters, bit_layout),
            offset_of!(Parameters, dropout_scale),
        ];
        assert_eq!((offsets, size_of::<Parameters>()), ([384, 512, 520, 528, 544, 584, 592, 604], 640));
    }

    #[test]
    fn heads_whose_keys_fit_the_cache_are_next_to_each_other() {
        assert_eq!(
            plan(MaskMode::Band, [16, 12, 12], [1024, 1024]).forward_interleaved_heads(),
            64,
            "of 192 heads, 256 KiB each"
        );
        assert_eq!(plan(MaskMode::Band, [4, 16, 16], [4096, 4096]).forward_interleaved_heads(), 16);
        assert_eq!(
            plan(MaskMode::Band, [1, 30, 30], [16384, 16384]).forward_interleaved_heads(),
            4,
            "8 groups"
        );
        assert_eq!(
            plan(MaskMode::Band, [1, 8, 2], [1 << 20, 1 << 20]).forward_interleaved_heads(),
            4,
            "all that share keys"
        );
        assert_eq!(
            plan(MaskMode::Band, [1, 2, 2], [128, 128]).forward_interleaved_heads(),
            2,
            "no more than there are"
        );
        assert_eq!(plan(MaskMode::Full, [4, 16, 16], [4096, 4096]).forward_interleaved_heads(), 1);
    }

    #[test]
    fn tma_is_for_many_rows_without_mask_or_repeated_operands() {
        let valid = tensors(12, 300);
        let uses_tma = |mask_mode, [queries, keys]: [u32; 2], tensors: &Forward| {
            plan(mask_mode, [4, 12, 12], [queries, keys]).uses_tma(tensors, 132)
        };
        for mask_mode in [MaskMode::Full, MaskMode::Band] {
            assert!(
                uses_tma(mask_mode, [300, 300], &valid) && uses_tma(mask_mode, [300, 200], &valid),
                "{mask_mode:?}"
            );
            assert!(!uses_tma(mask_mode, [300, 0], &valid), "no keys");
            assert!(!uses_tma(mask_mode, [128, 300], &valid), "96 blocks of 64 rows");
            let many = plan(mask_mode, [40, 12, 12], [64, 300]);
            assert!(!many.uses_tma(&valid, 132), "one of two warpgroups would have no rows");
        }
        for mask_mode in
            [MaskMode::BoolMask, MaskMode::AdditiveMask, MaskMode::Varlen, MaskMode::VarlenDropout]
        {
            assert!(!uses_tma(mask_mode, [300, 300], &valid), "{mask_mode:?}");
        }
        let mut with_dropout = tensors(12, 300);
        assert!(!uses_tma(MaskMode::Dropout, [300, 300], &with_dropout), "nothing is dropped");
        with_dropout.dropout_params.threshold = 1 << 20;
        assert!(uses_tma(MaskMode::Dropout, [300, 300], &with_dropout));
        let mut wide = plan(MaskMode::Dropout, [4, 12, 12], [5000, 5000]);
        (wide.kernel_config.width, wide.sizes.head_dim, wide.sizes.value_dim) = (192, 192, 192);
        assert!(wide.uses_tma(&with_dropout, 132) && !wide.is_long(132), "one kind of tiles");
        assert!(!uses_tma(MaskMode::Dropout, [40_000, 40_000], &with_dropout), "200 MB of bits for a head");
        with_dropout.dropout_params.threshold = 1 << 24;
        assert!(!uses_tma(MaskMode::Dropout, [300, 300], &with_dropout), "all are dropped");
        let mut repeated = tensors(12, 300);
        repeated.q.strides[1] = 0;
        assert!(!uses_tma(MaskMode::Full, [300, 300], &repeated), "heads of q are the same");
        let mut backwards = tensors(12, 300);
        backwards.v.strides[2] *= -1;
        assert!(!uses_tma(MaskMode::Full, [300, 300], &backwards), "values are traversed backward");
        let mut falling = plan(MaskMode::Full, [4, 12, 12], [300, 300]);
        falling.sizes.scale = -0.125;
        assert!(!falling.uses_tma(&valid, 132), "the largest product is the smallest score");
    }
}
