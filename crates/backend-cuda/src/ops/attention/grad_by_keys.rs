//! The gradient in one walk (`attention/grad_by_keys.cu`): a work has keys and values, and adds to the gradient of
//! each tile of queries in its turn. What it is for, and its launch; and that of its form for study, without turns.

use super::dropout_bits::{BitLayout, BitWalk};
use super::{Dropping, Gradients, Operand, Plan, Sizes, grid};
use crate::call::Call;
use crate::driver::tensor_map::{Axes, Swizzle, TensorMap, TensorMapSpec};
use crate::launch::Launch;
use crate::memory::scratch::Scratch;
use crate::variant::attention::{AttentionVariant, Engine, GRAD_BY_KEYS_WIDEST, Reach};
use smallvec::smallvec;
use ternion_core::{DType, Result};

/// Keys of a work.
const KEYS: usize = 128;
/// Threads of a block: a warpgroup that loads, and two that multiply.
const THREADS: u32 = 384;
const ROW_THREADS: u32 = 256;
const CONVERT_THREADS: u32 = 256;
/// Columns of a box: a row of 128 bytes, the period of the swizzle.
const SLAB: usize = 64;
const STAGES: usize = 2;
/// Of shared memory, what tiles in the swizzle begin at multiples of.
const SWIZZLE_ALIGNMENT: usize = 1024;
/// How long after a work the next one of the same head begins, at least, in steps of a walk.
const STEPS_APART: f64 = 1.5;

/// The kernels, in the order of their source.
const ROWS_KERNEL: usize = 0;
const MAIN_KERNEL: usize = 1;
/// Of the form for study alone.
const CONVERT_KERNEL: usize = 2;

/// As `AttentionGradByKeys` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    q: TensorMap,
    k: TensorMap,
    v: TensorMap,
    dy: TensorMap,
    rows_of_y: Operand,
    rows_of_dy: Operand,
    log_sums: Operand,
    dq: Operand,
    dk: Operand,
    dv: Operand,
    rows: u64,
    sums: u64,
    turns: u64,
    query_tiles: u32,
    key_blocks: u32,
    key_heads: u32,
    abreast: u32,
    sizes: Sizes,
    ticket: u64,
    works: u32,
    /// With dropout; else 0 and 1.
    first_key_head: u32,
    bits: u64,
    bit_layout: BitLayout,
    dropout_scale: f32,
    kept_share: f32,
}

/// How works add up the gradient of queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumOrder {
    /// In the order of their keys, each in its turn: what tensors get. Two runs give the same bits.
    Fixed,
    /// As they come, to sums that were set to 0 and are converted by a launch of its own.
    Any {
        /// Whether the gradient of queries is formed a tile later than the others, which the fixed order has for all but causal bands at width 64.
        lags: bool,
    },
}

/// Memory that the launches share.
struct Workspace {
    rows: Scratch,
    sums: Scratch,
    /// And the ticket behind them.
    turns: Scratch,
    /// Of all heads.
    tiles: usize,
}

/// Queries of a tile, for heads of `width` columns.
fn queries_of(width: usize) -> usize {
    if width == 64 { 128 } else { 64 }
}

/// Bytes of shared memory of the kernel, as its layout says.
fn shared_bytes(width: usize) -> usize {
    let queries = queries_of(width);
    // Stages of keys and values, which have a number each.
    let own_stages = if width == 64 { 2 } else { 1 };
    let (own, tile) = (2 * KEYS * width * 2, 2 * queries * width * 2);
    let (grads, staging, numbers) = (KEYS * queries * 2, 64 * SLAB * 2, 2 * queries * 4);
    let barriers = 8 * (4 * STAGES + 2 * own_stages + 2);
    own_stages * (own + 8) + STAGES * (tile + numbers) + 2 * (grads + staging) + barriers + SWIZZLE_ALIGNMENT
}

/// Whether boxes of the operand can be loaded: none of its axes is repeated or walked backwards.
pub(super) fn suits(operand: &Operand, counts: [usize; 3]) -> bool {
    counts.iter().zip(operand.strides).all(|(&count, stride)| count <= 1 || stride > 0)
}

impl Plan {
    /// Whether the gradient is formed in one walk: by wgmma without mask, of heads of up to 128 columns, and where every query sees a key, as the work of a
    /// query's last key writes its gradient.
    pub(super) fn is_by_keys(&self, gradients: &Gradients, dropping: &Dropping) -> bool {
        let Sizes { heads, queries, keys, .. } = self.sizes;
        let is_seen = match self.products.reach {
            Reach::Full => keys > 0,
            Reach::Band => queries <= keys && self.sizes.reach_first < self.sizes.reach_end,
            Reach::Dropout => {
                let is_seen = queries <= keys && self.sizes.reach_first < self.sizes.reach_end;
                (self.sees_all() || is_seen) && self.drops_by_keys(dropping)
            }
            Reach::BoolMask | Reach::AdditiveMask | Reach::Varlen | Reach::VarlenDropout => false,
        };
        let [own, walked] = [(self.kv_heads, keys), (heads as usize, queries)]
            .map(|(heads, rows)| [self.batch, heads, rows as usize]);
        self.products.engine == Engine::Wgmma
            && self.products.width <= GRAD_BY_KEYS_WIDEST
            && self.batch * heads as usize * queries as usize > 0
            && is_seen
            && [&gradients.k, &gradients.v].iter().all(|operand| suits(operand, own))
            && [&gradients.q, &gradients.dy].iter().all(|operand| suits(operand, walked))
    }

    /// Whether all queries see all keys, of which there are some.
    fn sees_all(&self) -> bool {
        let Sizes { queries, keys, reach_first, reach_end, .. } = self.sizes;
        keys > 0 && reach_first <= 1 - queries as i32 && reach_end >= keys as i32
    }

    /// What bits of weights are drawn for.
    fn bit_walk(&self) -> BitWalk {
        BitWalk::OverQueries { work_keys: KEYS, step: queries_of(self.width()) }
    }

    /// Whether the walk takes bits of which weights are kept: gradients of scores are without dropout's scale until they are summed, of which f16 takes a factor of 2.
    fn drops_by_keys(&self, dropping: &Dropping) -> bool {
        let group = self.sizes.group as usize;
        dropping.scale <= 2.0 && self.has_dropout_bits(dropping, self.bit_walk(), group)
    }

    /// Whether the gradient of queries is formed a tile later: not of a causal band at width 64, whose walks are
    /// shorter (measured).
    fn lags(&self) -> bool {
        let Sizes { queries, keys, reach_end, .. } = self.sizes;
        let is_causal = self.products.reach != Reach::Full
            && reach_end <= (keys as i32 - queries as i32).saturating_add(1);
        !(is_causal && self.width() == 64)
    }

    /// How many key heads have their works next to each other: works of the same head, which add in
    /// turn, are to begin some steps apart; more of them would only make what they read anew leave the cache.
    fn abreast(&self, query_tiles: usize, multiprocessors: usize) -> usize {
        let key_heads = self.batch * self.kv_heads;
        let steps = match self.products.reach {
            Reach::Dropout if self.sees_all() => query_tiles as f64,
            Reach::Band | Reach::Dropout => (query_tiles + 1) as f64 / 2.0,
            _ => query_tiles as f64,
        } * f64::from(self.sizes.group);
        let least = (STEPS_APART * multiprocessors as f64 / steps).ceil().max(1.0) as usize;
        key_heads.div_ceil((key_heads / least).max(1))
    }

    /// The map of an operand of `heads` heads, whose boxes have `extent` rows.
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
            address: operand.first,
            dtype,
            rounds_to_tf32: false,
            swizzle: Swizzle::Bytes128,
            axes: smallvec![columns, rows, heads, batch],
        }
        .map(op)
    }

    /// Tiles of queries, and blocks of keys, of a head.
    fn tiles_by_keys(&self) -> [usize; 2] {
        let Sizes { queries, keys, .. } = self.sizes;
        [(queries as usize).div_ceil(queries_of(self.width())), (keys as usize).div_ceil(KEYS)]
    }

    fn workspace(&self, call: &Call<'_>) -> Result<Workspace> {
        let (width, tile) = (self.width(), queries_of(self.width()));
        let [query_tiles, _] = self.tiles_by_keys();
        let tiles = self.batch * self.sizes.heads as usize * query_tiles;
        Ok(Workspace {
            rows: call.gpu.scratch(tiles * 2 * tile * 4)?,
            sums: call.gpu.scratch(tiles * tile * width * 4)?,
            turns: call.gpu.scratch((tiles + 1) * 4)?,
            tiles,
        })
    }

    fn parameters_by_keys(
        &self,
        call: &Call<'_>,
        dtype: DType,
        gradients: &Gradients,
        workspace: &Workspace,
    ) -> Result<Parameters> {
        let (sizes, tile) = (self.sizes, queries_of(self.width()));
        let [query_tiles, key_blocks] = self.tiles_by_keys();
        let Workspace { rows, sums, turns, tiles } = workspace;
        let walked = |operand: &Operand, columns: u32| {
            let shape = [sizes.heads as usize, sizes.queries as usize, columns as usize];
            self.map(call.name, operand, dtype, shape, tile)
        };
        let own = |operand: &Operand, columns: u32| {
            let shape = [self.kv_heads, sizes.keys as usize, columns as usize];
            self.map(call.name, operand, dtype, shape, KEYS)
        };
        Ok(Parameters {
            q: walked(&gradients.q, sizes.head_dim)?,
            k: own(&gradients.k, sizes.head_dim)?,
            v: own(&gradients.v, sizes.value_dim)?,
            dy: walked(&gradients.dy, sizes.value_dim)?,
            rows_of_y: gradients.y,
            rows_of_dy: gradients.dy,
            log_sums: gradients.log_sums,
            dq: gradients.dq,
            dk: gradients.dk,
            dv: gradients.dv,
            rows: rows.address(),
            sums: sums.address(),
            turns: turns.address(),
            query_tiles: query_tiles as u32,
            key_blocks: key_blocks as u32,
            key_heads: (self.batch * self.kv_heads) as u32,
            abreast: self.abreast(query_tiles, call.gpu.multiprocessors()) as u32,
            sizes,
            ticket: turns.address() + (tiles * 4) as u64,
            works: grid(call.name, self.batch * self.kv_heads, key_blocks)?,
            first_key_head: 0,
            bits: 0,
            bit_layout: BitLayout::default(),
            dropout_scale: 1.0,
            kept_share: 1.0,
        })
    }

    /// Queues the kernels.
    pub(super) fn launch_by_keys(
        &self,
        call: &Call<'_>,
        dtype: DType,
        gradients: &Gradients,
        dropping: Dropping,
        order: SumOrder,
    ) -> Result<()> {
        let workspace = self.workspace(call)?;
        let mut parameters = self.parameters_by_keys(call, dtype, gradients, &workspace)?;
        parameters.dropout_scale = dropping.scale;
        parameters.kept_share = 1.0 / dropping.scale;
        let (width, reach) = (self.width() as u16, self.products.reach);
        let variant = match order {
            SumOrder::Fixed => AttentionVariant::GradByKeys { width, lags: self.lags(), reach, dtype },
            SumOrder::Any { lags } => AttentionVariant::GradByKeysUnordered { width, lags, reach, dtype },
        };
        let [query_tiles, _] = self.tiles_by_keys();
        let row_grid = grid(call.name, self.batch * self.sizes.heads as usize, query_tiles)?;
        call.gpu.launch(call.name, Launch::new(variant, ROWS_KERNEL, row_grid, ROW_THREADS), &parameters)?;
        let walk = |parameters: &Parameters| {
            let key_grid = parameters.works.min(call.gpu.multiprocessors() as u32);
            let launch = Launch {
                shared: shared_bytes(self.width()) as u32,
                ..Launch::new(variant, MAIN_KERNEL, key_grid, THREADS)
            };
            call.gpu.launch(call.name, launch, parameters)
        };
        if reach == Reach::Dropout {
            return self.walk_with_bits(call, &parameters, dropping, walk);
        }
        walk(&parameters)?;
        if order == SumOrder::Fixed {
            return Ok(());
        }
        let launch = Launch::new(variant, CONVERT_KERNEL, row_grid, CONVERT_THREADS);
        call.gpu.launch(call.name, launch, &parameters)
    }

    /// Queues, for some key heads at a time, what draws their bits and sets the ticket to 0, and the walk.
    fn walk_with_bits(
        &self,
        call: &Call<'_>,
        parameters: &Parameters,
        dropping: Dropping,
        walk: impl Fn(&Parameters) -> Result<()>,
    ) -> Result<()> {
        let bits = self.dropout_bits(call.gpu, dropping, self.bit_walk(), self.sizes.group as usize)?;
        bits.chunks().try_for_each(|chunk| {
            let key_heads = chunk.len() as u32;
            walk(&Parameters {
                key_heads,
                abreast: parameters.abreast.min(key_heads),
                works: key_heads * parameters.key_blocks,
                first_key_head: chunk.start as u32,
                bits: bits.address(),
                bit_layout: bits.draw(call, self.sizes, &chunk, Some(parameters.ticket))?,
                ..*parameters
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::attention::Products;
    use std::mem::offset_of;

    fn plan(reach: Reach, [batch, heads, kv_heads]: [usize; 3], [queries, keys]: [u32; 2]) -> Plan {
        let (reach_first, reach_end) = (-(queries as i32), keys as i32 - queries as i32 + 1);
        let (heads, group) = (heads as u32, (heads / kv_heads) as u32);
        let (head_dim, value_dim, scale) = (64, 64, 0.125);
        let sizes = Sizes { heads, group, queries, keys, head_dim, value_dim, reach_first, reach_end, scale };
        Plan { products: Products { engine: Engine::Wgmma, width: 64, reach }, sizes, batch, kv_heads }
    }

    /// Heads beside one another in rows, as views of one matrix of q, k and v have them.
    fn gradients(heads: i64, rows: i64) -> Gradients {
        let own = Operand { first: 512, strides: [rows * heads * 64, 64, heads * 64, 1] };
        let none = Operand::default();
        Gradients {
            q: own,
            k: own,
            v: own,
            y: own,
            dy: own,
            mask: none,
            log_sums: none,
            dq: own,
            dk: own,
            dv: own,
        }
    }

    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        assert_eq!([64, 128].map(shared_bytes), [216_192, 182_376]);
        assert!([64, 128].iter().all(|&width| shared_bytes(width) <= 227 << 10));
    }

    #[test]
    fn parameters_are_where_the_kernel_reads_them() {
        let at = [
            offset_of!(Parameters, rows_of_y),
            offset_of!(Parameters, rows),
            offset_of!(Parameters, query_tiles),
            offset_of!(Parameters, sizes),
            offset_of!(Parameters, ticket),
        ];
        assert_eq!((at, size_of::<Parameters>()), ([512, 752, 776, 792, 832], 896));
    }

    #[test]
    fn works_of_a_head_begin_some_steps_apart() {
        let gpt2 = plan(Reach::Band, [16, 12, 12], [1024, 1024]);
        assert_eq!(gpt2.abreast(8, 132), 48, "of 192 heads, 4 times 48");
        assert_eq!(plan(Reach::Full, [4, 16, 16], [4096, 4096]).abreast(32, 132), 8);
        assert_eq!(plan(Reach::Band, [1, 2, 2], [128, 128]).abreast(1, 132), 2, "no more than there are");
    }

    #[test]
    fn queries_lag_but_for_causal_bands_of_narrow_heads() {
        let causal = plan(Reach::Band, [2, 4, 4], [200, 300]);
        assert!(!causal.lags());
        let [mut wide, mut ahead] = [(); 2].map(|()| plan(Reach::Band, [2, 4, 4], [200, 300]));
        wide.products.width = 128;
        ahead.sizes.reach_end += 1;
        assert!(wide.lags() && ahead.lags() && plan(Reach::Full, [2, 4, 4], [200, 300]).lags());
    }

    #[test]
    fn one_walk_is_for_queries_that_see_keys_and_operands_of_their_own_rows() {
        let usual = gradients(4, 300);
        let is_by_keys = |reach, [queries, keys]: [u32; 2], gradients: &Gradients| {
            let dropping = Dropping { scale: 1.0, ..Dropping::default() };
            plan(reach, [2, 4, 4], [queries, keys]).is_by_keys(gradients, &dropping)
        };
        assert!(is_by_keys(Reach::Full, [300, 300], &usual) && is_by_keys(Reach::Band, [300, 300], &usual));
        assert!(is_by_keys(Reach::Band, [200, 300], &usual) && is_by_keys(Reach::Full, [300, 200], &usual));
        assert!(!is_by_keys(Reach::Band, [300, 200], &usual), "queries that see no key");
        for reach in [Reach::BoolMask, Reach::AdditiveMask, Reach::Varlen, Reach::VarlenDropout] {
            assert!(!is_by_keys(reach, [300, 300], &usual), "{reach:?}");
        }
        let mut repeated = gradients(4, 300);
        repeated.dy.strides[1] = 0;
        assert!(!is_by_keys(Reach::Full, [300, 300], &repeated), "heads of dy are the same");
        let mut backwards = gradients(4, 300);
        backwards.k.strides[2] *= -1;
        assert!(!is_by_keys(Reach::Full, [300, 300], &backwards), "keys are walked backwards");
    }

    #[test]
    fn one_walk_is_for_dropped_weights_whose_bits_are_few() {
        let usual = gradients(4, 300);
        let is_by_keys = |rows, scale: f32, sees_all: bool| {
            let mut plan = plan(Reach::Dropout, [2, 4, 2], rows);
            if sees_all {
                plan.sizes.reach_end = plan.sizes.keys as i32;
            }
            let threshold = ((1.0 - 1.0 / scale) * 16_777_216.0) as u32;
            plan.is_by_keys(&usual, &Dropping { threshold, scale, ..Dropping::default() })
        };
        assert!(is_by_keys([300, 300], 1.25, false) && is_by_keys([300, 200], 2.0, true));
        assert!(!is_by_keys([300, 200], 1.25, false), "queries that see no key");
        assert!(!is_by_keys([300, 300], 4.0, false), "gradients of scores that are a fourth of theirs");
        assert!(!is_by_keys([300, 300], 1.0, false), "nothing is dropped");
        assert!(!is_by_keys([32_000, 32_000], 1.25, false), "256 MB of bits for two heads that share keys");
    }
}
