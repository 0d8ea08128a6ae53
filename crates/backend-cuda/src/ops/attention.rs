//! Scaled dot-product attention and its gradient, without a matrix of scores in memory.

mod dropout_bits;
pub(crate) mod f32_engine;
mod forward_tma;
mod grad_by_keys;
mod grad_mask;
pub(crate) mod half_engine;
mod resident;
mod split_kv;
mod study;
mod varlen;

use super::copy::copy;
use super::create::fill;
use crate::call::{Call, Selected};
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::variant::attention::{AttentionVariant, Engine, KernelConfig, MaskMode, Tiles};
use split_kv::KvSplitParams;
use std::sync::Arc;
use ternion_core::backend::{Buffer, Meta, OutputOrder, Plan as OutputPlan, Unsupported, View};
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::{DType, Error, Layout, Op, Result, Scalar, Shape};
use varlen::Varlen;

pub use grad_by_keys::SumOrder;
pub use resident::with_resident_blocks;
pub use study::ForwardTiles;
pub(crate) use study::{forward as study_forward, gradient as study_gradient};

/// The maximum head_dim and value_dim of the kernels.
const MAX_HEAD_DIM: usize = 256;

/// Strides of a mask along queries and keys, in elements, must be smaller than this: the kernels on
/// tensor cores (`attention/half.cuh`) compute offsets within a tile in 32 bits.
const MASK_STRIDE_LIMIT: usize = 1 << 24;

/// Queries of a block of `attention_grad_rows`.
const ROWS: usize = 16;

/// A tensor of four axes; mirrors `View` in the kernels. Strides are in elements.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Operand {
    address: u64,
    strides: [i64; 4],
}

/// The sizes; mirrors `Sizes` in the kernels. `group` query heads share a head of keys and values.
/// Query i attends to the keys from i + `band_begin` up to, and excluding, i + `band_end`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes {
    heads: u32,
    group: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    band_begin: i32,
    band_end: i32,
    scale: f32,
}

/// The parameters of dropout; mirrors `DropoutParams` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DropoutParams {
    state: u64,
    state_stride: i64,
    offset: u64,
    threshold: u32,
    scale: f32,
}

impl DropoutParams {
    /// Returns the parameters of a call. Its last input is the state.
    fn of(call: &Call<'_>, config: &AttentionConfig) -> Result<DropoutParams> {
        let (Some(dropout), Some(state)) = (config.dropout, call.inputs.last()) else {
            // Without dropout, weights keep their values.
            return Ok(DropoutParams { scale: 1.0, ..DropoutParams::default() });
        };
        Ok(DropoutParams {
            state: call.gpu.address(call.name, state)?,
            state_stride: state.layout.strides()[0] as i64,
            offset: dropout.offset,
            threshold: dropout.threshold(),
            scale: dropout.scale() as f32,
        })
    }
}

/// The parameters of forward; mirrors `Attention` in the kernels. `blocks` are those of each head.
#[repr(C)]
#[derive(Clone, Copy)]
struct Forward {
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand,
    y: Operand,
    lse: u64,
    /// Rounding errors of `lse`. Only with an additive mask; otherwise 0.
    lse_errors: u64,
    blocks: u32,
    sizes: Sizes,
    dropout_params: DropoutParams,
    varlen: Varlen,
    kv_split_params: KvSplitParams,
}

/// The tensors that the backward pass reads and writes.
#[derive(Clone, Copy)]
#[repr(C)]
struct BackwardTensors {
    q: Operand,
    k: Operand,
    v: Operand,
    y: Operand,
    dy: Operand,
    mask: Operand,
    lse: Operand,
    dq: Operand,
    dk: Operand,
    dv: Operand,
}

/// The parameters of the gradient; mirrors `AttentionGrad` in the kernels.
#[repr(C)]
struct Backward {
    tensors: BackwardTensors,
    /// Row statistics in the workspace, `[batch * heads, 2, padded]`: the value that is subtracted
    /// from the scores of a query, then rowsum(dy y).
    rows: u64,
    /// Queries per head, rounded up to [`ROWS`].
    padded: u32,
    query_blocks: u32,
    key_blocks: u32,
    sizes: Sizes,
    dropout_params: DropoutParams,
    varlen: Varlen,
}

/// Supports all floats except f64, a head_dim and value_dim of up to 256 (f32: 128, except TF32
/// forward), and sizes that fit the integers of the kernels.
pub(crate) fn select(gpu: &Gpu, op: &Op, inputs: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    let unsupported = |why: &'static str| Err(Unsupported::because(why));
    let dim = |input: usize, axis: usize| inputs[input].shape().dim(axis);
    let widths = [dim(0, 3), dim(2, 3)];
    if inputs[0].dtype == DType::F64 {
        return unsupported("no kernel for f64");
    }
    let (config, optional_input) = match op {
        Op::Attention(payload) => (&payload.config, 3),
        Op::AttentionGrad(payload) => (&payload.config, 6),
        Op::AttentionGradMask(payload) => (&payload.config, 6),
        _ => return unsupported("no attention"),
    };
    if widths.iter().any(|width| !(1..=MAX_HEAD_DIM).contains(width)) {
        return unsupported("head_dim or value_dim above 256");
    }
    if inputs[0].dtype == DType::F32 {
        let device = f32_engine::Device::of(gpu);
        f32_engine::select(config, device, widths[0].max(widths[1]), optional_input == 6)?;
    }
    let [batch, heads, queries] = [0, 1, 2].map(|axis| dim(0, axis));
    // Each sequence begins in a new block.
    let sequences = config.lengths_inputs(optional_input).map_or(0, |[lengths, _]| dim(lengths, 0));
    let blocks_of_head = (queries.max(dim(1, 2)) / ROWS).saturating_add(sequences + 1);
    let blocks = batch.saturating_mul(heads).saturating_mul(blocks_of_head);
    let is_long = queries + dim(1, 2) >= super::INDEX_LIMIT || blocks_of_head >= super::INDEX_LIMIT / ROWS;
    if is_long || blocks >= super::INDEX_LIMIT {
        return unsupported("more than 2^31 blocks of queries");
    }
    let mask = config.mask.then(|| inputs[optional_input]);
    if mask.is_some_and(|mask| {
        let is_long_stride = |axis: usize| mask.layout.strides()[axis].unsigned_abs() >= MASK_STRIDE_LIMIT;
        [2, 3].into_iter().any(|axis| mask.shape().dim(axis) > 1 && is_long_stride(axis))
    }) {
        return unsupported("a mask with a row or key stride of 2^24 elements or more");
    }
    let run = match op {
        Op::Attention(_) => run_attention,
        Op::AttentionGrad(_) => run_attention_grad,
        _ => return Ok(Selected::row_major(grad_mask::run)),
    };
    // Heads may be adjacent columns in the rows of a wider tensor. The heads of the results are
    // then laid out in the same way, so the results need no copy to be used as such rows.
    let has_contiguous_rows = inputs[..3].iter().all(|input| input.layout.strides()[3] == 1);
    Ok(Selected {
        plan: if has_contiguous_rows {
            OutputPlan { order: OutputOrder::LikeEach }
        } else {
            OutputPlan::ROW_MAJOR
        },
        run,
    })
}

/// What determines the choice of an op's kernels.
struct Plan {
    kernel_config: KernelConfig,
    sizes: Sizes,
    batch: usize,
    kv_heads: usize,
}

impl Plan {
    /// Creates the plan of a call, whose first three inputs are q, k and v. `is_grad` selects the
    /// kernels of the gradient.
    fn new(
        call: &Call<'_>,
        is_grad: bool,
        config: &AttentionConfig,
        mask: Option<&View<'_>>,
    ) -> Result<Plan> {
        let (gpu, op) = (call.gpu, call.name);
        let [q, k, v] = [0, 1, 2].map(|input| &call.inputs[input]);
        let [batch, heads, queries, head_dim] = q.layout.shape().to_array(op)?;
        let [_, kv_heads, keys, _] = k.layout.shape().to_array(op)?;
        let [_, _, _, value_dim] = v.layout.shape().to_array(op)?;
        let widest = head_dim.max(value_dim);
        let engine = match q.dtype {
            DType::F32 => f32_engine::engine(config, f32_engine::Device::of(gpu), widest),
            _ => half_engine::engine(gpu.architecture(), widest),
        };
        let width = engine
            .width_of(widest, is_grad)
            .ok_or_else(|| Error::invalid(op, "no kernel for this head_dim or value_dim"))?;
        let mask_mode = match mask {
            Some(mask) if mask.dtype == DType::Bool => MaskMode::BoolMask,
            Some(_) => MaskMode::AdditiveMask,
            None if config.varlen && config.dropout.is_some() => MaskMode::VarlenDropout,
            None if config.varlen => MaskMode::Varlen,
            None if config.dropout.is_some() => MaskMode::Dropout,
            None if config.causal || config.window.is_some() => MaskMode::Band,
            None => MaskMode::Full,
        };
        let pack = 16 / q.dtype.size();
        let (band_begin, band_end) = match config.varlen {
            true => varlen::band_bounds(config, queries + keys),
            false => band_bounds(config, queries as i64, keys as i64),
        };
        Ok(Plan {
            kernel_config: KernelConfig { engine, width, mask_mode },
            sizes: Sizes {
                heads: heads as u32,
                group: (heads / kv_heads.max(1)) as u32,
                queries: queries as u32,
                keys: keys as u32,
                // Columns that are padded with zeros do not change products.
                head_dim: head_dim.next_multiple_of(pack) as u32,
                value_dim: value_dim.next_multiple_of(pack) as u32,
                band_begin,
                band_end,
                scale: config.scale as f32,
            },
            batch,
            kv_heads,
        })
    }

    /// Returns the width of the tiles.
    fn width(&self) -> usize {
        usize::from(self.kernel_config.width)
    }
}

/// Returns `band_begin` and `band_end` of [`Sizes`].
fn band_bounds(config: &AttentionConfig, queries: i64, keys: i64) -> (i32, i32) {
    let offset = keys - queries;
    let window = config.window.map(|window| window.min((keys + queries) as usize) as i64);
    let begin = window.map_or(-queries, |window| (offset - window + 1).max(-queries));
    let end = match (config.causal, window) {
        (true, _) => (offset + 1).min(keys),
        (false, Some(window)) => (offset + window).min(keys),
        (false, None) => keys,
    };
    (begin as i32, end as i32)
}

/// Tensors in layouts that the kernels support, with the copies that were necessary. They live
/// until the kernels have been queued.
struct Operands<'a> {
    gpu: &'a Arc<Gpu>,
    op: &'static str,
    copies: Vec<Buffer>,
}

/// A result that is first written to a temporary buffer, because its rows are not whole packs.
struct StagedOutput {
    buffer: Buffer,
    layout: Layout,
}

impl<'a> Operands<'a> {
    /// Returns the operand of a view that kernels can read in place.
    fn operand(&self, view: &View<'_>) -> Result<Operand> {
        let mut strides = [0; 4];
        for (axis, stride) in strides.iter_mut().enumerate() {
            // The stride of an axis of size 1 is arbitrary, but it is used to compute the addresses
            // of rows that do not exist. So it is set to 0.
            if axis == 3 || view.layout.shape().dim(axis) > 1 {
                *stride = view.layout.strides()[axis] as i64;
            }
        }
        Ok(Operand { address: self.gpu.address(self.op, view)?, strides })
    }

    /// Returns the operand of a mask, which is broadcast along axes of size 1.
    fn mask(&self, view: &View<'_>) -> Result<Operand> {
        let mut operand = self.operand(view)?;
        if view.layout.shape().dim(3) == 1 {
            operand.strides[3] = 0;
        }
        Ok(operand)
    }

    /// As `operand`, with all strides unchanged.
    fn operand_with_strides(&self, view: &View<'_>) -> Result<Operand> {
        let mut operand = Operand { address: self.gpu.address(self.op, view)?, strides: [0; 4] };
        for (stride, view_stride) in operand.strides.iter_mut().zip(view.layout.strides()) {
            *stride = *view_stride as i64;
        }
        Ok(operand)
    }

    /// Returns whether rows are contiguous, consist of whole packs and begin at multiples of 16
    /// bytes.
    fn is_aligned(&self, view: &View<'_>) -> Result<bool> {
        let pack = 16 / view.dtype.size();
        let strides = view.layout.strides();
        let is_multiple = |count: usize| count.is_multiple_of(pack);
        let shape = view.layout.shape();
        let strides_are_multiples =
            (0..3).all(|axis| shape.dim(axis) <= 1 || is_multiple(strides[axis].unsigned_abs()));
        let strides_fit = strides[2].unsigned_abs() < super::INDEX_LIMIT;
        let address = self.gpu.address(self.op, view)?;
        Ok(strides[3] == 1
            && is_multiple(shape.dim(3))
            && strides_are_multiples
            && strides_fit
            && address.is_multiple_of(16))
    }

    /// Allocates contiguous memory for `view`, with rows padded to whole packs. Returns the buffer,
    /// its layout with the padding, and its layout without the padding.
    fn alloc_padded(&self, view: &View<'_>) -> Result<(Buffer, Layout, Layout)> {
        let [a, b, c, width] = view.layout.shape().to_array(self.op)?;
        let padded =
            Layout::row_major(Shape::new(&[a, b, c, width.next_multiple_of(16 / view.dtype.size())])?);
        let buffer = Buffer::new(self.gpu.alloc(padded.elements() * view.dtype.size())?);
        let unpadded = Layout::new(*view.layout.shape(), padded.strides(), 0)?;
        Ok((buffer, padded, unpadded))
    }

    /// Returns the operand of an input, copied to rows of whole packs if it is not aligned.
    fn input(&mut self, view: &View<'_>) -> Result<Operand> {
        if self.is_aligned(view)? {
            return self.operand(view);
        }
        let (buffer, padded, unpadded) = self.alloc_padded(view)?;
        let padded_view = View { buffer: &buffer, dtype: view.dtype, layout: &padded };
        if padded.elements() != unpadded.elements() {
            fill(self.gpu, self.op, &padded_view, Scalar::Float(0.0))?;
        }
        copy(self.gpu, self.op, view, &View { layout: &unpadded, ..padded_view })?;
        let operand = self.operand(&padded_view)?;
        self.copies.push(buffer);
        Ok(operand)
    }

    /// Returns the operand of a result, and its temporary buffer if it is not aligned.
    fn output(&self, view: &View<'_>) -> Result<(Operand, Option<StagedOutput>)> {
        if self.is_aligned(view)? {
            return Ok((self.operand(view)?, None));
        }
        let (buffer, padded, unpadded) = self.alloc_padded(view)?;
        let operand = self.operand(&View { buffer: &buffer, dtype: view.dtype, layout: &padded })?;
        Ok((operand, Some(StagedOutput { buffer, layout: unpadded })))
    }

    /// Copies a result from its temporary buffer to its destination.
    fn store_staged(&self, staged: Option<StagedOutput>, view: &View<'_>) -> Result<()> {
        let Some(StagedOutput { buffer, layout }) = staged else { return Ok(()) };
        copy(self.gpu, self.op, &View { buffer: &buffer, dtype: view.dtype, layout: &layout }, view)
    }
}

/// Returns the grid of a launch with `blocks` blocks for each of `heads` heads.
fn grid(op: &'static str, heads: usize, blocks: usize) -> Result<u32> {
    u32::try_from(heads * blocks)
        .ok()
        .filter(|&grid| (grid as usize) < super::INDEX_LIMIT)
        .ok_or_else(|| Error::invalid(op, "more blocks than one launch can have"))
}

fn run_attention(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Attention(Attention { config }) = op else {
        return Err(Error::invalid(call.name, "is not attention"));
    };
    let [q, k, v] = [0, 1, 2].map(|input| &call.inputs[input]);
    let mask = config.mask.then(|| &call.inputs[3]);
    let mut plan = Plan::new(call, false, config, mask)?;
    let mut operands = Operands { gpu: call.gpu, op: call.name, copies: Vec::new() };
    let (y, staged) = operands.output(&call.outputs[0])?;
    let mut tensors = Forward {
        q: operands.input(q)?,
        k: operands.input(k)?,
        v: operands.input(v)?,
        mask: mask.map_or(Ok(Operand::default()), |mask| operands.mask(mask))?,
        y,
        lse: call.gpu.address(call.name, &call.outputs[1])?,
        lse_errors: call.outputs.get(2).map_or(Ok(0), |errors| call.gpu.address(call.name, errors))?,
        blocks: 0,
        sizes: plan.sizes,
        dropout_params: DropoutParams::of(call, config)?,
        varlen: Varlen::of(call, config, 3)?,
        kv_split_params: KvSplitParams::default(),
    };
    plan.fold_heads_into_rows(&mut tensors, config, q.dtype);
    let (dtype, multiprocessors) = (q.dtype, call.gpu.multiprocessors());
    if plan.uses_tma(&tensors, multiprocessors) {
        plan.launch_tma(call, dtype, &tensors, plan.is_long(multiprocessors))?;
    } else {
        plan.skip_masked_keys(&mut tensors, config, dtype);
        match plan.kv_split(config, multiprocessors) {
            Some(kv_split) => plan.launch_split_kv(call, dtype, tensors, kv_split)?,
            None => plan.launch_forward(call, dtype, tensors)?,
        }
    }
    operands.store_staged(staged, &call.outputs[0])
}

impl Plan {
    /// Queues the kernel in which a block processes one tile of queries and loops over all keys.
    fn launch_forward(&self, call: &Call<'_>, dtype: DType, tensors: Forward) -> Result<()> {
        let LaunchShape { rows, threads, shared_bytes } = forward_launch(self.kernel_config, dtype.size());
        let blocks = tensors.varlen.tiles(self.sizes.queries, rows);
        let grid = grid(call.name, self.batch * self.sizes.heads as usize, blocks)?;
        let parameters = Forward { blocks: blocks as u32, ..tensors };
        let variant = AttentionVariant::Forward { kernel_config: self.kernel_config, dtype };
        let shared_bytes = (shared_bytes + tensors.varlen.parameter_bytes::<Forward>()) as u32;
        call.gpu.launch(
            call.name,
            Launch { shared_bytes, ..Launch::new(variant, 0, grid, threads) },
            &parameters,
        )
    }
}

/// Returns the dynamic shared memory of the f32 forward kernel: one tile of queries, one of keys or
/// weights, and one of values. Rows of queries, keys and values have a pitch of `width` + 4 floats,
/// an odd number of packs, which avoids bank conflicts; rows of weights have a pitch of 72.
fn simt_shared_bytes(width: usize) -> usize {
    (64 * (width + 4) + 64 * (width + 4).max(72) + 64 * (width + 4)) * 4
}

/// The kernels of the gradient, in the order of their source.
const QUERIES_KERNEL: usize = 0;
const KEYS_KERNEL: usize = 1;
const VALUES_KERNEL: usize = 2;

fn run_attention_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AttentionGrad(AttentionGrad { config }) = op else {
        return Err(Error::invalid(call.name, "is not attention_grad"));
    };
    let [q, k, v, y, lse, dy] = [0, 1, 2, 3, 4, 5].map(|input| &call.inputs[input]);
    let mask = config.mask.then(|| &call.inputs[6]);
    let plan = Plan::new(call, true, config, mask)?;
    let mut operands = Operands { gpu: call.gpu, op: call.name, copies: Vec::new() };
    let [(dq, dq_staged), (dk, dk_staged), (dv, dv_staged)] = [
        operands.output(&call.outputs[0])?,
        operands.output(&call.outputs[1])?,
        operands.output(&call.outputs[2])?,
    ];
    let tensors = BackwardTensors {
        q: operands.input(q)?,
        k: operands.input(k)?,
        v: operands.input(v)?,
        y: operands.input(y)?,
        dy: operands.input(dy)?,
        mask: mask.map_or(Ok(Operand::default()), |mask| operands.mask(mask))?,
        lse: operands.operand_with_strides(lse)?,
        dq,
        dk,
        dv,
    };
    let dropout_params = DropoutParams::of(call, config)?;
    if plan.uses_one_pass(&tensors, &dropout_params) {
        plan.launch_one_pass(call, q.dtype, &tensors, dropout_params, SumOrder::Fixed)?;
    } else {
        plan.launch_two_passes(call, config, &tensors)?;
    }
    operands.store_staged(dq_staged, &call.outputs[0])?;
    operands.store_staged(dk_staged, &call.outputs[1])?;
    operands.store_staged(dv_staged, &call.outputs[2])
}

impl Plan {
    /// Queues the kernels of the gradient in two passes: over keys, for dq, and over queries, for
    /// dk and dv.
    fn launch_two_passes(
        &self,
        call: &Call<'_>,
        config: &AttentionConfig,
        tensors: &BackwardTensors,
    ) -> Result<()> {
        let (dtype, varlen) = (call.inputs[0].dtype, Varlen::of(call, config, 6)?);
        let [for_queries, for_keys] = grad_launches(self.kernel_config, dtype.size());
        let heads = self.batch * self.sizes.heads as usize;
        let padded = varlen.tiles(self.sizes.queries, ROWS) * ROWS;
        let query_blocks = varlen.tiles(self.sizes.queries, for_queries.rows);
        let key_blocks = varlen.tiles(self.sizes.keys, for_keys.rows);
        let rows = call.gpu.workspace(heads * 2 * padded * 4)?;
        let parameters = Backward {
            tensors: *tensors,
            rows: rows.address(),
            padded: padded as u32,
            query_blocks: query_blocks as u32,
            key_blocks: key_blocks as u32,
            sizes: self.sizes,
            dropout_params: DropoutParams::of(call, config)?,
            varlen,
        };
        let variant =
            AttentionVariant::GradRows { mask: self.kernel_config.mask_mode.row_kernel_mode(), dtype };
        let row_grid = grid(call.name, heads, padded / ROWS)?;
        call.gpu.launch(call.name, Launch::new(variant, 0, row_grid, 256), &parameters)?;
        let variant = AttentionVariant::Grad { kernel_config: self.kernel_config, dtype };
        let launch = |kernel: usize, grid: u32, shape: &LaunchShape| Launch {
            shared_bytes: (shape.shared_bytes + varlen.parameter_bytes::<Backward>()) as u32,
            ..Launch::new(variant, kernel, grid, shape.threads)
        };
        let query_grid = grid(call.name, heads, query_blocks)?;
        call.gpu.launch(call.name, launch(QUERIES_KERNEL, query_grid, &for_queries), &parameters)?;
        let key_grid = grid(call.name, self.batch * self.kv_heads, key_blocks)?;
        call.gpu.launch(call.name, launch(KEYS_KERNEL, key_grid, &for_keys), &parameters)?;
        if self.kernel_config.has_values_kernel() {
            call.gpu.launch(call.name, launch(VALUES_KERNEL, key_grid, &for_keys), &parameters)?;
        }
        Ok(())
    }
}

/// The rows of a block, its threads and its dynamic shared memory, for forward or for one of the
/// gradient's two passes.
struct LaunchShape {
    rows: usize,
    threads: u32,
    shared_bytes: usize,
}

/// Returns the dynamic shared memory of forward on tensor cores: a tile of queries, two of keys and
/// two of values.
fn forward_shared_bytes(kernel_config: KernelConfig, tiles: Tiles, element: usize) -> usize {
    (tiles.rows() + 4 * tiles.step) * usize::from(kernel_config.width) * element
}

/// Returns the launch shape of the kernel in which a block processes one tile of queries and loops
/// over all keys.
fn forward_launch(kernel_config: KernelConfig, element: usize) -> LaunchShape {
    if kernel_config.engine == Engine::Simt {
        return LaunchShape {
            rows: 64,
            threads: 128,
            shared_bytes: simt_shared_bytes(usize::from(kernel_config.width)),
        };
    }
    let tiles = kernel_config.forward_tiles();
    let shared_bytes = forward_shared_bytes(kernel_config, tiles, element);
    LaunchShape { rows: tiles.rows(), threads: tiles.threads(), shared_bytes }
}

/// Returns the dynamic shared memory of the f32 gradient: two tiles of 64 own rows and two of 32
/// streamed rows with a pitch of `width` + 4 floats, one of weights with 64 rows and a pitch of 40,
/// and two statistics (log-sum-exp and row_dot) for each of 64 queries.
fn simt_grad_shared_bytes(width: usize) -> usize {
    (2 * (64 + 32) * (width + 4) + 64 * 40 + 2 * 64) * 4
}

/// Returns the launch shapes of the pass for the gradient of queries, and of the pass for the
/// gradients of keys and values.
fn grad_launches(kernel_config: KernelConfig, element: usize) -> [LaunchShape; 2] {
    let width = usize::from(kernel_config.width);
    if kernel_config.engine == Engine::Simt {
        let shared_bytes = simt_grad_shared_bytes(width);
        return [(); 2].map(|()| LaunchShape { rows: 64, threads: 128, shared_bytes });
    }
    let [queries, keys] = kernel_config.backward_tiles();
    let shape = |tiles: &Tiles, bytes_per_query: usize| LaunchShape {
        rows: tiles.rows(),
        threads: tiles.threads(),
        shared_bytes: (tiles.rows() + 2 * tiles.step) * 2 * width * element
            + 2 * tiles.step * bytes_per_query,
    };
    // In addition to its tiles, each step of the second pass loads two floats per query.
    [shape(&queries, 0), shape(&keys, 8)]
}
