//! Attention by whole matrix products, whose weights pass through memory, some heads at a time.

use super::{FORWARD_FOURS, Sizes, Slots, in_fours, strides};
use crate::gpu::Binding;
use crate::ops::matmul::FOURS_BYTES;
use crate::pipelines::Define;
use crate::select::Call;
use crate::slots::{Access, Store};
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::{Buffer, View};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{Error, Result};

/// Lines of a tile.
const TILE: usize = 128;
/// The widest output of tiles of 64 columns.
const NARROW: usize = 64;
/// Fewer queries or keys leave most of a tile empty.
const FEWEST_LINES: usize = 65;
/// Fewer tiles of weights than this leave processors of a large GPU idle: one launch with tiles of half the size takes less time then. Measured on an H100:
/// 32 tiles took 1.5 (forward) and 1.8 (backward) times as long, 96 tiles of 64 columns 1.2 and 1.0, of 128 columns 0.7, 192 tiles 1.0 and 0.7.
const FEWEST_TILES: usize = 96;
/// Threads that tiles of outputs are to keep busy, where sums are made in parts otherwise: a work group of 256 on each processor of a large device.
const WANTED_THREADS: usize = 256 * 132;

/// The parameters, as in attention_products.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    heads: u32,
    shared_by: u32,
    first_head: u32,
    padded_queries: u32,
    padded_keys: u32,
    scale: f32,
    back: i32,
    ahead: i32,
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

/// An operand or an output of a product: memory, first element, strides of batches, heads, heads of the launch and how many heads share one, of lines
/// and of inner places.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    binding: Binding<'a>,
    store: Store,
    first: u32,
    heads: [u32; 4],
    line: u32,
    inner: u32,
}

impl<'a> Matrix<'a> {
    /// Of a tensor whose heads are shared by so many. Its lines are those of the product, or, `turned`, its inner places.
    fn of(call: &Call<'a>, view: &View<'a>, shared_by: u32, turned: bool) -> Result<Matrix<'a>> {
        let (binding, first) = call.gpu.bind(call.name, view)?;
        let [batch, head, line, column] = strides(view);
        let (line, inner) = if turned { (column, line) } else { (line, column) };
        Ok(Matrix {
            binding,
            store: Store::of(view.dtype),
            first,
            heads: [batch, head, 0, shared_by],
            line,
            inner,
        })
    }

    /// Whether fours lie along the inner places.
    fn runs(&self) -> bool {
        self.inner == 1
    }
}

/// What takes part in an op: how many heads at a time, and memory for their weights.
pub(super) struct Products<'a, 'b> {
    call: &'b Call<'a>,
    sizes: Sizes,
    batch: usize,
    heads: usize,
    padded: [usize; 2],
    heads_at_a_time: usize,
    weights: Buffer,
    mask: Option<View<'a>>,
}

/// Heads of a launch: the first of all batches' and how many.
#[derive(Clone, Copy)]
struct Heads {
    first: usize,
    count: usize,
}

impl<'a, 'b> Products<'a, 'b> {
    /// If these tensors are taken: in fours, with enough lines, and memory for the weights of heads that share one.
    pub(super) fn of(
        call: &'b Call<'a>,
        config: &AttentionConfig,
        read: &[View<'a>],
        written: &[View<'a>],
        mask: Option<View<'a>>,
    ) -> Result<Option<Products<'a, 'b>>> {
        if !in_fours(call, read, written, FORWARD_FOURS.max(FOURS_BYTES / 16))? {
            return Ok(None);
        }
        let [batch, heads, queries, width] = call.inputs[0].layout.shape().to_array(call.name)?;
        let sizes = Sizes::of(call, config, [heads, queries, width])?;
        let keys = sizes.keys as usize;
        let padded = [queries, keys].map(|lines| lines.next_multiple_of(TILE));
        let bytes = (padded[0] * padded[1] * 4).saturating_mul(sizes.shared_by as usize) as u64;
        let most = call.gpu.work_bytes;
        let tiles = batch * heads * padded.map(|lines| lines / TILE).iter().product::<usize>();
        if tiles < FEWEST_TILES && !call.gpu.small_products {
            return Ok(None);
        }
        if queries.min(keys) < FEWEST_LINES || bytes > most || batch == 0 {
            return Ok(None);
        }
        let heads_at_a_time = ((most / bytes) as usize * sizes.shared_by as usize).min(batch * heads);
        match call.gpu.alloc(heads_at_a_time * padded[0] * padded[1] * 4) {
            Ok(weights) => {
                Ok(Some(Products { call, sizes, batch, heads, padded, heads_at_a_time, weights, mask }))
            }
            // Shaders that keep weights to themselves need none.
            Err(Error::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls `each` with some heads after others.
    fn for_heads(&self, each: impl Fn(Heads) -> Result<()>) -> Result<()> {
        let all = self.batch * self.heads;
        (0..all).step_by(self.heads_at_a_time).try_for_each(|first| {
            let count = self.heads_at_a_time.min(all - first);
            each(Heads { first, count })
        })
    }

    /// Queues y and lse.
    pub(super) fn launch_forward(&self) -> Result<()> {
        let call = self.call;
        let [y, lse] = [0, 1].map(|at| call.outputs[at]);
        let tiles = self.padded[1] / TILE;
        let pairs = self.heads_at_a_time * tiles * self.padded[0];
        let parts = call.gpu.alloc(pairs * 8)?;
        self.for_heads(|heads| {
            let parts = call.gpu.scratch(call.name, &parts)?;
            let found = ("parts", Access::Scattered, parts);
            self.launch_weights(heads, [0, 1], "tile_of_weights", found)?;
            let left = self.weights(false)?;
            let right = Matrix::of(call, &call.inputs[2], self.sizes.shared_by, true)?;
            let out = Matrix::of(call, &y, 1, false)?;
            let with = Some((parts, &lse));
            self.launch_output(heads, [left, right, out], y.layout.shape().dim(3), 1.0, with)
        })
    }

    /// Queues dq, dk and dv; `row_numbers` are those of attention_grad_rows.wgsl.
    pub(super) fn launch_gradients(&self, row_numbers: Binding<'a>) -> Result<()> {
        let (call, by) = (self.call, self.sizes.shared_by);
        let [q, k, dy] = [0, 1, 5].map(|at| call.inputs[at]);
        let [dq, dk, dv] = [0, 1, 2].map(|at| call.outputs[at]);
        let numbers = ("row_numbers", Access::Read, row_numbers);
        let scale = self.sizes.scale;
        self.for_heads(|heads| {
            let (lines, turned) = (self.weights(false)?, self.weights(true)?);
            let right = |view: &View<'a>, by: u32| Matrix::of(call, view, by, true);
            let out = |view: &View<'a>, by: u32| Matrix::of(call, view, by, false);
            self.launch_weights(heads, [0, 1], "tile_of_shares", numbers)?;
            self.launch_output(
                heads,
                [turned, right(&dy, 1)?, out(&dv, by)?],
                dv.layout.shape().dim(3),
                1.0,
                None,
            )?;
            self.launch_weights(heads, [5, 2], "tile_of_slopes", numbers)?;
            self.launch_output(
                heads,
                [turned, right(&q, 1)?, out(&dk, by)?],
                dk.layout.shape().dim(3),
                scale,
                None,
            )?;
            self.launch_output(
                heads,
                [lines, right(&k, by)?, out(&dq, 1)?],
                dq.layout.shape().dim(3),
                scale,
                None,
            )
        })
    }

    /// The weights as a left operand: queries by keys, or, `turned`, keys by queries.
    fn weights(&self, turned: bool) -> Result<Matrix<'_>> {
        let [queries, keys] = self.padded.map(|lines| lines as u32);
        let (line, inner) = if turned { (1, keys) } else { (keys, 1) };
        let binding = self.call.gpu.scratch(self.call.name, &self.weights)?;
        Ok(Matrix { binding, store: Store::F32, first: 0, heads: [0, 0, queries * keys, 1], line, inner })
    }

    fn parameters(&self, heads: Heads) -> Parameters {
        let Sizes { queries, keys, shared_by, scale, back, ahead, .. } = self.sizes;
        let [padded_queries, padded_keys] = self.padded.map(|lines| lines as u32);
        let (heads, first_head) = (self.heads as u32, heads.first as u32);
        Parameters {
            queries,
            keys,
            heads,
            shared_by,
            first_head,
            padded_queries,
            padded_keys,
            scale,
            back,
            ahead,
            splits: 1,
            factor: 1.0,
            ..Zeroable::zeroed()
        }
    }

    /// Queues a step that makes tiles of weights, of these two inputs.
    fn launch_weights<'c>(
        &'c self,
        heads: Heads,
        inputs: [usize; 2],
        step: &'static str,
        (name, access, numbers): (&'static str, Access, Binding<'c>),
    ) -> Result<()>
    where
        'a: 'c,
    {
        let call = self.call;
        let [left, right] = inputs.map(|at| call.inputs[at]);
        let width = left.layout.shape().dim(3) as u32;
        let [left, right] =
            [Matrix::of(call, &left, 1, false)?, Matrix::of(call, &right, self.sizes.shared_by, false)?];
        let mut slots = self.slots(step, [left, right], TILE);
        slots.bound("weights", Store::F32, Access::FoursWritten, call.gpu.scratch(call.name, &self.weights)?);
        slots.bound(name, Store::F32, access, numbers);
        let mut parameters = Parameters {
            m: self.sizes.queries,
            n: self.sizes.keys,
            inner: width,
            left_heads: left.heads,
            right_heads: right.heads,
            offsets: [left.first, right.first, 0, 0],
            strides: [left.line, left.inner, right.line, right.inner],
            ..self.parameters(heads)
        };
        slots.define([
            ("LEFT_SCALED", Define::Flag(false)),
            ("LEFT_KNOWN", Define::Text("nothing_known")),
            ("LEFT_FACTOR", Define::Text("no_factor")),
            ("HAS_MASK", Define::Flag(self.mask.is_some())),
        ]);
        if step != "tile_of_slopes" {
            parameters.mask_offset = slots.bind_mask(call, self.mask.as_ref())?;
            parameters.mask = self.mask.as_ref().map_or([0; 4], strides);
        }
        let tiles = self.padded[0] / TILE * (self.padded[1] / TILE);
        slots.launch(call, heads.count * tiles, bytemuck::bytes_of(&parameters))
    }

    /// What all steps are linked with, for tiles of so many columns.
    fn slots<'c>(&self, step: &'static str, [left, right]: [Matrix<'c>; 2], columns: usize) -> Slots<'c> {
        let mut slots = Slots::new("attention_products.wgsl");
        slots.bound("left", left.store, Access::Fours, left.binding);
        slots.bound("right", right.store, Access::Fours, right.binding);
        slots.define([
            ("STEP", Define::Text(step)),
            ("THREADS", Define::Number(2 * columns as u32)),
            ("FOURS_COLUMNS", Define::Number(columns as u32)),
            ("LEFT_FOUR", Define::Text("left_four")),
            ("RIGHT_FOUR", Define::Text("right_four")),
            ("LEFT_RUNS", Define::Flag(left.runs())),
            ("RIGHT_RUNS", Define::Flag(right.runs())),
        ]);
        slots
    }

    /// Queues a product of weights that is so wide, times `factor`; forward with what was found of its parts, and lse.
    fn launch_output<'c>(
        &self,
        heads: Heads,
        [left, right, out]: [Matrix<'c>; 3],
        width: usize,
        factor: f32,
        with: Option<(Binding<'c>, &View<'c>)>,
    ) -> Result<()> {
        if width == 0 {
            return Ok(());
        }
        let call = self.call;
        let columns = if width > NARROW { TILE } else { NARROW };
        let by_keys = !left.runs();
        let count = heads.count / out.heads[3] as usize;
        let (lines, inner) = if by_keys { (self.sizes.keys, 0) } else { (self.sizes.queries, 1) };
        let down = self.padded[1 - inner] / TILE;
        let tiles = count * down;
        let splits = (WANTED_THREADS / (tiles * 2 * columns)).clamp(1, self.padded[inner] / TILE);
        let step = if by_keys { "tile_of_key_output" } else { "tile_of_output" };
        let stride = count * lines as usize * width;
        let scratch = call.gpu.alloc(if splits > 1 { splits * stride * 4 } else { 4 })?;
        let part = Matrix {
            binding: call.gpu.scratch(call.name, &scratch)?,
            store: Store::F32,
            first: 0,
            heads: [0, 0, lines * width as u32, out.heads[3]],
            line: width as u32,
            inner: 1,
        };
        let made = if splits > 1 { part } else { out };
        let mut slots = self.slots(step, [left, right], columns);
        slots.bound("out", made.store, Access::FoursWritten, made.binding);
        let mut parameters = Parameters {
            m: self.padded[1 - inner] as u32,
            n: width as u32,
            lines,
            splits: splits as u32,
            split_stride: stride as u32,
            factor,
            left_heads: left.heads,
            right_heads: right.heads,
            out_heads: made.heads,
            offsets: [left.first, right.first, made.first, made.line],
            strides: [left.line, left.inner, right.line, right.inner],
            ..self.parameters(heads)
        };
        let [finds, known, factor] = match with {
            Some(_) => ["find_shares", "largest_of_part", "share_of_part"],
            None => ["no_shares", "nothing_known", "no_factor"],
        };
        slots.define([
            ("LEFT_SCALED", Define::Flag(with.is_some())),
            ("FIND_SHARES", Define::Text(finds)),
            ("LEFT_KNOWN", Define::Text(known)),
            ("LEFT_FACTOR", Define::Text(factor)),
        ]);
        if let Some((parts, lse)) = with {
            slots.bound("parts", Store::F32, Access::Read, parts);
            parameters.lse_offset = slots.bind(call, "lse", lse, Access::Scattered)?;
            parameters.lse = strides(lse);
        }
        slots.launch(call, tiles * splits, bytemuck::bytes_of(&parameters))?;
        match splits {
            1 => Ok(()),
            _ => self.add_parts(part, out, parameters, count * lines as usize * width / 4),
        }
    }

    fn add_parts<'c>(
        &self,
        part: Matrix<'c>,
        out: Matrix<'c>,
        parameters: Parameters,
        fours: usize,
    ) -> Result<()> {
        let mut slots = Slots::new("attention_products.wgsl");
        slots.bound("left", Store::F32, Access::Fours, part.binding);
        slots.bound("out", out.store, Access::FoursWritten, out.binding);
        slots.define([("STEP", Define::Text("add_parts")), ("THREADS", Define::Number(256))]);
        let parameters = Parameters {
            m: (fours * 4 / (parameters.lines * parameters.n) as usize) as u32,
            out_heads: out.heads,
            offsets: [0, 0, out.first, out.line],
            ..parameters
        };
        slots.launch(self.call, fours.div_ceil(256), bytemuck::bytes_of(&parameters))
    }
}
