//! Attention that is not fused into one shader: matrix products whose weights are stored in memory,
//! for some heads at a time.

use super::{FORWARD_VEC4S, MAX_WIDTH, Sizes, Slots, strides, supports_vec4};
use crate::call::Call;
use crate::gpu::Binding;
use crate::names::{
    AttentionOutput, AttentionStep, Constant, FindFactors, LeftFactor, LeftKMajor, LeftPrefetch, LeftVec4,
    RightKMajor, RightVec4, SlotName, StoreLseError, Switch,
};
use crate::ops::matmul::VEC4_TILE_BYTES;
use crate::shaders::Shader;
use crate::slots::{Access, StorageFormat};
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::{Buffer, View};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{Error, Result};

/// Rows of a tile.
const TILE: usize = 128;
/// Maximum width of an output for tiles of 64 columns.
const NARROW_TILE: usize = 64;
/// Minimum number of queries and keys: fewer leave most of a tile empty.
const MIN_LINES: usize = 65;
/// Minimum number of tiles of weights: fewer leave multiprocessors of a large GPU idle, and one
/// launch with tiles of half the size then takes less time. Measured on an H100: 32 tiles took 1.5
/// (forward) and 1.8 (backward) times as long, 96 tiles of 64 columns 1.2 and 1.0, of 128 columns
/// 0.7, 192 tiles 1.0 and 0.7.
const MIN_TILES: usize = 96;
/// Sums over keys or queries are split (split-K) until a launch has about this number of threads:
/// one workgroup of 256 threads on each of the 132 multiprocessors of an H100.
const TARGET_THREADS: usize = 256 * 132;

/// The parameters of gemm.wgsl, which describes the fields.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    heads: u32,
    q_heads_per_kv: u32,
    first_head: u32,
    padded_queries: u32,
    padded_keys: u32,
    scale: f32,
    window_left: i32,
    window_right: i32,
    splits: u32,
    m: u32,
    n: u32,
    inner: u32,
    lines: u32,
    factor: f32,
    split_stride: u32,
    mask_offset: u32,
    lse_offset: u32,
    left_heads: [u32; 4],
    right_heads: [u32; 4],
    out_heads: [u32; 4],
    offsets: [u32; 4],
    strides: [u32; 4],
    mask: [u32; 4],
    lse: [u32; 4],
}

/// An operand or an output of a product. `heads` contains the strides of batches, of heads and of
/// heads within the launch, and the number of query heads that share a head. `line` and `inner` are
/// the strides of rows and of inner indices.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    binding: Binding<'a>,
    store: StorageFormat,
    /// Index of the first element.
    first: u32,
    heads: [u32; 4],
    line: u32,
    inner: u32,
}

impl<'a> Matrix<'a> {
    /// Describes a tensor with heads that are shared by `q_heads_per_kv` query heads each. Its rows
    /// are the rows of the product or, if `is_transposed`, its inner indices.
    fn of(call: &Call<'a>, view: &View<'a>, q_heads_per_kv: u32, is_transposed: bool) -> Result<Matrix<'a>> {
        let (binding, first) = call.gpu.bind(call.name, view)?;
        let [batch, head, line, column] = strides(view);
        let (line, inner) = if is_transposed { (column, line) } else { (line, column) };
        Ok(Matrix {
            binding,
            store: StorageFormat::of(view.dtype),
            first,
            heads: [batch, head, 0, q_heads_per_kv],
            line,
            inner,
        })
    }

    /// Returns whether the elements of a vec4 are neighbors along the inner axis.
    fn is_k_major(&self) -> bool {
        self.inner == 1
    }
}

/// The width of an output, and whether its rows are keys instead of queries.
#[derive(Clone, Copy)]
struct Output {
    width: usize,
    by_keys: bool,
}

impl Output {
    /// Iterates over the columns of each tile: the first one, and an output of their width.
    fn by_tile(self) -> impl Iterator<Item = (usize, Output)> {
        (0..self.width)
            .step_by(TILE)
            .map(move |first| (first, Output { width: TILE.min(self.width - first), ..self }))
    }
}

/// How an output of some heads is split into tiles, and its sums into partial sums.
struct Tiling {
    /// Columns of a tile.
    columns: usize,
    /// Rows of the output of a head, without and with padding to whole tiles.
    lines: usize,
    padded: usize,
    /// Number of tiles of all heads, and number of partial sums of each element.
    tiles: usize,
    splits: usize,
    /// Elements of the heads' output: the distance from one partial sum to the next.
    stride: usize,
}

/// The heads of a launch: the index of the first one, counted over all batches, and their number.
#[derive(Clone, Copy)]
struct Heads {
    first: usize,
    count: usize,
}

/// The sizes that all launches of an op share.
#[derive(Clone, Copy)]
struct Shape {
    sizes: Sizes,
    /// Number of heads of all batches, and of one batch.
    all_heads: usize,
    heads: usize,
    /// Numbers of queries and of keys, padded to whole tiles.
    padded: [usize; 2],
    /// Number of heads of a launch.
    heads_at_a_time: usize,
}

impl Shape {
    /// Returns the sizes if the weights of the heads that share a key head are within the memory
    /// limit, and there are enough rows and tiles. If `is_wide`, any number is enough, and the
    /// limit is that of a binding: shaders that keep the weights on chip compute the scores again
    /// for every 64 columns of wide heads.
    fn of(call: &Call<'_>, config: &AttentionConfig, is_wide: bool) -> Result<Option<Shape>> {
        let [batch, heads, queries, width] = call.inputs[0].layout.shape().to_array(call.name)?;
        let sizes = Sizes::of(call, config, [heads, queries, width])?;
        let (keys, all_heads) = (sizes.keys as usize, batch * heads);
        let padded = [queries, keys].map(|lines| lines.next_multiple_of(TILE));
        let tiles = all_heads * padded.map(|lines| lines / TILE).iter().product::<usize>();
        let is_small = queries.min(keys) < MIN_LINES || tiles < MIN_TILES && !call.gpu.small_products;
        if all_heads == 0 || queries.min(keys) == 0 || is_small && !is_wide {
            return Ok(None);
        }
        let bytes = (padded[0] * padded[1] * 4).saturating_mul(sizes.q_heads_per_kv as usize) as u64;
        let max_bytes = match is_wide {
            true => call.gpu.limits.max_storage_buffer_binding_size,
            false => call.gpu.workspace_bytes,
        };
        if bytes > max_bytes {
            return Ok(None);
        }
        let groups_at_a_time = (call.gpu.workspace_bytes / bytes).max(1) as usize;
        let heads_at_a_time = (groups_at_a_time * sizes.q_heads_per_kv as usize).min(all_heads);
        Ok(Some(Shape { sizes, all_heads, heads, padded, heads_at_a_time }))
    }

    /// Iterates over the heads in chunks.
    fn head_chunks(&self) -> impl Iterator<Item = Heads> {
        let Shape { all_heads, heads_at_a_time, .. } = *self;
        (0..all_heads)
            .step_by(heads_at_a_time)
            .map(move |first| Heads { first, count: heads_at_a_time.min(all_heads - first) })
    }

    fn tiling(&self, heads: usize, output: Output) -> Tiling {
        let columns = if output.width > NARROW_TILE { TILE } else { NARROW_TILE };
        let Sizes { queries, keys, q_heads_per_kv, .. } = self.sizes;
        let [padded_queries, padded_keys] = self.padded;
        let (count, lines, padded, inner) = match output.by_keys {
            true => (heads / q_heads_per_kv as usize, keys as usize, padded_keys, padded_queries),
            false => (heads, queries as usize, padded_queries, padded_keys),
        };
        let tiles = count * (padded / TILE);
        let splits = (TARGET_THREADS / (tiles * 2 * columns)).clamp(1, inner / TILE);
        Tiling { columns, lines, padded, tiles, splits, stride: count * lines * output.width }
    }
}

/// Memory for intermediate results between launches.
struct Memory {
    /// The weights of the heads of a launch, f32.
    weights: Buffer,
    /// In the forward pass, the largest score and the sum of weights of each tile's rows.
    parts: Option<Buffer>,
    /// Partial sums, if the sums of outputs are split.
    sums: Option<Buffer>,
}

impl Memory {
    /// Allocates the memory for these outputs, before anything is launched.
    fn of(call: &Call<'_>, shape: &Shape, outputs: &[Output], is_forward: bool) -> Result<Memory> {
        let Shape { padded: [queries, keys], heads_at_a_time, .. } = *shape;
        let bytes_of_sums = |heads: Heads, output: Output| {
            let Tiling { splits, stride, .. } = shape.tiling(heads.count, output);
            if splits > 1 { splits * stride * 4 } else { 0 }
        };
        let each = shape.head_chunks().flat_map(|heads| outputs.iter().map(move |&output| (heads, output)));
        let sums = each.map(|(heads, output)| bytes_of_sums(heads, output)).max().unwrap_or(0);
        let rows = heads_at_a_time * (keys / TILE) * queries;
        Ok(Memory {
            weights: call.gpu.alloc(heads_at_a_time * queries * keys * 4)?,
            parts: is_forward.then(|| call.gpu.alloc(rows * 8)).transpose()?,
            sums: (sums > 0).then(|| call.gpu.alloc(sums)).transpose()?,
        })
    }
}

/// An op and its sizes, and memory for the weights of the heads that are computed at a time.
pub(super) struct UnfusedAttention<'a, 'b> {
    call: &'b Call<'a>,
    shape: Shape,
    memory: Memory,
    mask: Option<View<'a>>,
}

impl<'a, 'b> UnfusedAttention<'a, 'b> {
    /// Returns `None` if these tensors are not supported. They must be accessible as vec4 and have
    /// enough rows, and there must be memory for the weights of the heads that share a key head.
    /// `written` is y, or dq, dk and dv.
    pub(super) fn of(
        call: &'b Call<'a>,
        config: &AttentionConfig,
        read: &[View<'a>],
        written: &[View<'a>],
        mask: Option<View<'a>>,
    ) -> Result<Option<UnfusedAttention<'a, 'b>>> {
        let memory_vec4s = FORWARD_VEC4S.max(VEC4_TILE_BYTES / 16);
        if !supports_vec4(call, read, written, memory_vec4s, usize::MAX)? {
            return Ok(None);
        }
        let is_wide = read.iter().chain(written).any(|view| width_of(view) > MAX_WIDTH);
        let Some(shape) = Shape::of(call, config, is_wide)? else { return Ok(None) };
        let columns_of = |(index, view): (usize, &View<'_>)| {
            Output { width: width_of(view), by_keys: index > 0 }.by_tile().map(|(_, columns)| columns)
        };
        let outputs: Vec<Output> = written.iter().enumerate().flat_map(columns_of).collect();
        match Memory::of(call, &shape, &outputs, written.len() == 1) {
            Ok(memory) => Ok(Some(UnfusedAttention { call, shape, memory, mask })),
            // Without memory, shaders that keep the weights on chip are used instead.
            Err(Error::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn workspace<'c>(&self, buffer: &'c Buffer) -> Result<Binding<'c>> {
        self.call.gpu.workspace(self.call.name, buffer)
    }

    /// Queues y and lse.
    pub(super) fn launch_forward(&self) -> Result<()> {
        let call = self.call;
        let [y, lse] = [0, 1].map(|output| call.outputs[output]);
        let parts = self.memory.parts.as_ref().ok_or_else(|| call.wrong_op())?;
        let parts = self.workspace(parts)?;
        self.shape.head_chunks().try_for_each(|heads| {
            self.launch_weights(
                heads,
                [0, 1],
                AttentionStep::Weights,
                (SlotName::Parts, Access::Scattered, parts),
            )?;
            let v = Matrix::of(call, &call.inputs[2], self.shape.sizes.q_heads_per_kv, true)?;
            let out = Matrix::of(call, &y, 1, false)?;
            let y_output = Output { width: width_of(&y), by_keys: false };
            self.launch_output(heads, y_output, [v, out], 1.0, Some((parts, &lse)))
        })
    }

    /// Queues dq, dk and dv; `lse_and_delta` is the output of grad_rows.wgsl.
    pub(super) fn launch_gradients(&self, lse_and_delta: Binding<'a>) -> Result<()> {
        let (call, Sizes { q_heads_per_kv, scale, .. }) = (self.call, self.shape.sizes);
        let [q, k, dy] = [0, 1, 5].map(|input| call.inputs[input]);
        let [dq, dk, dv] = [0, 1, 2].map(|output| call.outputs[output]);
        let lse_and_delta = (SlotName::LseAndDelta, Access::Read, lse_and_delta);
        let by_keys = |heads: Heads, right: &View<'a>, out: &View<'a>, factor: f32| {
            let operands = [Matrix::of(call, right, 1, true)?, Matrix::of(call, out, q_heads_per_kv, false)?];
            self.launch_output(heads, Output { width: width_of(out), by_keys: true }, operands, factor, None)
        };
        self.shape.head_chunks().try_for_each(|heads| {
            self.launch_weights(heads, [0, 1], AttentionStep::Probabilities, lse_and_delta)?;
            by_keys(heads, &dy, &dv, 1.0)?;
            self.launch_weights(heads, [5, 2], AttentionStep::ScoreGrads, lse_and_delta)?;
            by_keys(heads, &q, &dk, scale)?;
            let operands = [Matrix::of(call, &k, q_heads_per_kv, true)?, Matrix::of(call, &dq, 1, false)?];
            self.launch_output(heads, Output { width: width_of(&dq), by_keys: false }, operands, scale, None)
        })
    }

    /// Returns the weights as a left operand: queries by keys or, if `is_transposed`, keys by
    /// queries.
    fn weights(&self, is_transposed: bool) -> Result<Matrix<'_>> {
        let [queries, keys] = self.shape.padded.map(|lines| lines as u32);
        let (line, inner) = if is_transposed { (1, keys) } else { (keys, 1) };
        let binding = self.workspace(&self.memory.weights)?;
        Ok(Matrix {
            binding,
            store: StorageFormat::F32,
            first: 0,
            heads: [0, 0, queries * keys, 1],
            line,
            inner,
        })
    }

    fn parameters(&self, heads: Heads) -> Parameters {
        let Sizes { queries, keys, q_heads_per_kv, scale, window_left, window_right, .. } = self.shape.sizes;
        let [padded_queries, padded_keys] = self.shape.padded.map(|lines| lines as u32);
        let (heads, first_head) = (self.shape.heads as u32, heads.first as u32);
        Parameters {
            queries,
            keys,
            heads,
            q_heads_per_kv,
            first_head,
            padded_queries,
            padded_keys,
            scale,
            window_left,
            window_right,
            splits: 1,
            factor: 1.0,
            ..Zeroable::zeroed()
        }
    }

    /// Queues a step that computes tiles of weights from these two inputs. The last argument is the
    /// slot of what the step needs in addition: `parts` to write, or `lse_and_delta` to read.
    fn launch_weights<'c>(
        &'c self,
        heads: Heads,
        inputs: [usize; 2],
        step: AttentionStep,
        (name, access, binding): (SlotName, Access, Binding<'c>),
    ) -> Result<()>
    where
        'a: 'c,
    {
        let call = self.call;
        let [left, right] = inputs.map(|input| call.inputs[input]);
        let Shape { sizes, padded, .. } = self.shape;
        let width = width_of(&left) as u32;
        let [left, right] =
            [Matrix::of(call, &left, 1, false)?, Matrix::of(call, &right, sizes.q_heads_per_kv, false)?];
        let mut slots = self.slots(step, [left, right], TILE);
        slots.bind_memory(
            SlotName::Weights,
            StorageFormat::F32,
            Access::WriteVec4,
            self.workspace(&self.memory.weights)?,
        );
        slots.bind_memory(name, StorageFormat::F32, access, binding);
        let mut parameters = Parameters {
            m: sizes.queries,
            n: sizes.keys,
            inner: width,
            left_heads: left.heads,
            right_heads: right.heads,
            offsets: [left.first, right.first, 0, 0],
            strides: [left.line, left.inner, right.line, right.inner],
            ..self.parameters(heads)
        };
        slots.fill([
            Switch::LeftScaled.is(false),
            LeftPrefetch::Nothing.into(),
            LeftFactor::None.into(),
            Switch::HasMask.is(self.mask.is_some()),
        ]);
        if step != AttentionStep::ScoreGrads {
            parameters.mask_offset = slots.bind_mask(call, self.mask.as_ref())?;
            parameters.mask = self.mask.as_ref().map_or([0; 4], strides);
        }
        let tiles = padded[0] / TILE * (padded[1] / TILE);
        slots.launch(call, heads.count * tiles, bytemuck::bytes_of(&parameters))
    }

    /// Returns the slots and placeholders that all steps need, for tiles of this many columns.
    fn slots<'c>(&self, step: AttentionStep, [left, right]: [Matrix<'c>; 2], columns: usize) -> Slots<'c> {
        let mut slots = Slots::new(Shader::AttentionGemm);
        slots.bind_memory(SlotName::Left, left.store, Access::ReadVec4, left.binding);
        slots.bind_memory(SlotName::Right, right.store, Access::ReadVec4, right.binding);
        slots.fill([
            step.into(),
            Constant::Threads.is(2 * columns as u32),
            Constant::Vec4Columns.is(columns as u32),
            LeftVec4::Left.into(),
            RightVec4::Right.into(),
            if left.is_k_major() { LeftKMajor::Yes } else { LeftKMajor::No }.into(),
            if right.is_k_major() { RightKMajor::Yes } else { RightKMajor::No }.into(),
        ]);
        slots
    }

    /// Queues the product of weights and `right`, times `factor`, for as many columns at a time as
    /// a tile has. In the forward pass, `forward` contains the maxima and sums of the tiles' rows,
    /// and the output lse.
    fn launch_output<'c>(
        &'c self,
        heads: Heads,
        output: Output,
        matrices: [Matrix<'c>; 2],
        factor: f32,
        forward: Option<(Binding<'c>, &View<'c>)>,
    ) -> Result<()> {
        output.by_tile().try_for_each(|(first, columns)| {
            // Columns of `right` are contiguous, and so are those of the output.
            let from_first = |matrix: Matrix<'c>| Matrix { first: matrix.first + first as u32, ..matrix };
            self.launch_columns(heads, columns, matrices.map(from_first), factor, forward)
        })
    }

    /// Queues the product of weights and `right` for the columns of one tile.
    fn launch_columns<'c>(
        &'c self,
        heads: Heads,
        output: Output,
        [right, out]: [Matrix<'c>; 2],
        factor: f32,
        forward: Option<(Binding<'c>, &View<'c>)>,
    ) -> Result<()> {
        let tiling = self.shape.tiling(heads.count, output);
        let left = self.weights(output.by_keys)?;
        let destination = self.sum_destination(&tiling, output, out)?;
        let step = if output.by_keys { AttentionStep::KeyOutput } else { AttentionStep::Output };
        let mut slots = self.slots(step, [left, right], tiling.columns);
        slots.bind_memory(SlotName::Out, destination.store, Access::WriteVec4, destination.binding);
        let mut parameters = Parameters {
            m: tiling.padded as u32,
            n: output.width as u32,
            lines: tiling.lines as u32,
            splits: tiling.splits as u32,
            split_stride: tiling.stride as u32,
            factor,
            left_heads: left.heads,
            right_heads: right.heads,
            out_heads: destination.heads,
            offsets: [left.first, right.first, destination.first, destination.line],
            strides: [left.line, left.inner, right.line, right.inner],
            ..self.parameters(heads)
        };
        slots.fill_factors(forward.is_some());
        if let Some((parts, lse)) = forward {
            slots.bind_memory(SlotName::Parts, StorageFormat::F32, Access::Read, parts);
            parameters.lse_offset = slots.bind(self.call, SlotName::LogSumExp, lse, Access::Scattered)?;
            parameters.lse = strides(lse);
            parameters.lse[3] = slots.bind_error(self.call)?;
        } else {
            slots.fill([StoreLseError::None.into()]);
        }
        slots.launch(self.call, tiling.tiles * tiling.splits, bytemuck::bytes_of(&parameters))?;
        match tiling.splits {
            1 => Ok(()),
            _ => self.add_parts(destination, out, parameters, tiling.stride / 4),
        }
    }

    /// Returns the matrix to which sums are written: the output, or partial sums
    /// `[splits][heads][lines][columns]`.
    fn sum_destination<'c>(&'c self, tiling: &Tiling, output: Output, out: Matrix<'c>) -> Result<Matrix<'c>> {
        let Some(sums) = self.memory.sums.as_ref().filter(|_| tiling.splits > 1) else { return Ok(out) };
        Ok(Matrix {
            binding: self.workspace(sums)?,
            store: StorageFormat::F32,
            first: 0,
            heads: [0, 0, (tiling.lines * output.width) as u32, out.heads[3]],
            line: output.width as u32,
            inner: 1,
        })
    }

    /// Queues the shader that adds the partial sums `part`, of `vec4s` vec4, and stores them in
    /// `out`.
    fn add_parts<'c>(
        &self,
        part: Matrix<'c>,
        out: Matrix<'c>,
        parameters: Parameters,
        vec4s: usize,
    ) -> Result<()> {
        let mut slots = Slots::new(Shader::AttentionGemm);
        slots.bind_memory(SlotName::Left, StorageFormat::F32, Access::ReadVec4, part.binding);
        slots.bind_memory(SlotName::Out, out.store, Access::WriteVec4, out.binding);
        slots.fill([AttentionStep::AddParts.into(), Constant::Threads.is(256)]);
        let parameters = Parameters {
            m: (vec4s * 4 / (parameters.lines * parameters.n) as usize) as u32,
            out_heads: out.heads,
            offsets: [0, 0, out.first, out.line],
            ..parameters
        };
        slots.launch(self.call, vec4s.div_ceil(256), bytemuck::bytes_of(&parameters))
    }
}

impl Slots<'_> {
    /// Sets whether weights must be rescaled, because they are relative to the largest score of
    /// their tile, as in the forward pass.
    fn fill_factors(&mut self, is_forward: bool) {
        self.fill([Switch::LeftScaled.is(is_forward)]);
        self.fill(match is_forward {
            true => [
                FindFactors::OfParts.into(),
                LeftPrefetch::MaxOfPart.into(),
                LeftFactor::FactorOfPart.into(),
                AttentionOutput::UnmaskedRows.into(),
            ],
            false => [
                FindFactors::None.into(),
                LeftPrefetch::Nothing.into(),
                LeftFactor::None.into(),
                AttentionOutput::AllRows.into(),
            ],
        });
    }
}

/// Returns the number of columns of a tensor.
fn width_of(view: &View<'_>) -> usize {
    view.layout.shape().dim(3)
}
