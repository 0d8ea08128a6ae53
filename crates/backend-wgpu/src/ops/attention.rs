//! Scaled dot-product attention and its gradients: how far queries see, and how many groups of tiles there are.

mod cooperative;
mod products;

use super::matmul::{lies_in_fours, wrong};
use crate::gpu::{Binding, Launch};
use crate::linker::Class;
use crate::pipelines::{Define, Variant};
use crate::select::Call;
use crate::slots::{Access, Slot, Store};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use products::Products;
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Error, Op, Result};

/// Lines and columns of a tile of outputs.
const TILE: usize = 64;
/// The widest rows of attention_fours_tile.wgsl.
const MOST_WIDTH: usize = 128;
/// Fours of memory of attention_fours.wgsl and attention_fours_grad.wgsl.
const FORWARD_FOURS: u32 = 1632;
const GRAD_FOURS: u32 = 1744;
/// Rows of a work group of attention_grad_rows.wgsl.
const GROUP_ROWS: usize = 16;
/// Farther than any key, and small enough for sums of two with a position.
const EVERYWHERE: i32 = 0x3fff_ffff;
/// Queries and keys, each: positions and reach are i32.
const MOST_LINES: usize = 1 << 29;

/// The parameters, as in attention.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    sizes: Sizes,
    offsets: [u32; 4],
    more_offsets: [u32; 4],
    q: [u32; 4],
    k: [u32; 4],
    v: [u32; 4],
    y: [u32; 4],
    lse: [u32; 4],
    mask: [u32; 4],
}

/// The parameters, as in attention_grad.wgsl and attention_fours_grad.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GradParameters {
    sizes: Sizes,
    key_chunks: u32,
    all_heads: u32,
    spare: [u32; 2],
    offsets: [u32; 4],
    more_offsets: [u32; 4],
    q: [u32; 4],
    k: [u32; 4],
    v: [u32; 4],
    dy: [u32; 4],
    mask: [u32; 4],
    out: [u32; 4],
    other: [u32; 4],
}

/// What the parameters of both begin with.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Sizes {
    launched: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    heads: u32,
    shared_by: u32,
    chunks: u32,
    tiles: u32,
    scale: f32,
    back: i32,
    ahead: i32,
}

/// The parameters, as in attention_grad_rows.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RowParameters {
    launched: u32,
    count: u32,
    rank: u32,
    width: u32,
    offsets: [u32; 4],
    steps: [u32; 4],
    space: Space,
}

impl Sizes {
    /// Of an output of so many heads, lines and columns.
    fn of(call: &Call<'_>, config: &AttentionConfig, [heads, lines, width]: [usize; 3]) -> Result<Sizes> {
        let [_, all_heads, queries, head_dim] = call.inputs[0].layout.shape().to_array(call.name)?;
        let [_, kv_heads, keys, _] = call.inputs[1].layout.shape().to_array(call.name)?;
        let [_, _, _, value_dim] = call.inputs[2].layout.shape().to_array(call.name)?;
        if queries.max(keys) > MOST_LINES {
            return Err(Error::invalid(
                call.name,
                format!("{queries} queries and {keys} keys: a tile takes {MOST_LINES}"),
            ));
        }
        let window = config.window.map_or(EVERYWHERE, |window| window.min(EVERYWHERE as usize) as i32);
        Ok(Sizes {
            launched: 0,
            queries: queries as u32,
            keys: keys as u32,
            head_dim: head_dim as u32,
            value_dim: value_dim as u32,
            heads: heads as u32,
            shared_by: (all_heads / kv_heads) as u32,
            chunks: width.div_ceil(TILE).max(1) as u32,
            tiles: lines.div_ceil(TILE) as u32,
            scale: config.scale as f32,
            back: window,
            ahead: if config.causal { 1 } else { window },
        })
    }

    /// For tiles as wide as the output.
    fn in_one_chunk(self) -> Sizes {
        Sizes { chunks: 1, ..self }
    }

    fn groups(&self, batch: usize) -> usize {
        batch * self.heads as usize * self.tiles as usize * self.chunks as usize
    }
}

/// Strides of up to four axes.
fn strides(view: &View<'_>) -> [u32; 4] {
    let mut all = [0; 4];
    for (to, &stride) in all.iter_mut().zip(view.layout.strides()) {
        *to = stride as u32;
    }
    all
}

/// The function of attention_tile.wgsl that takes the mask into account.
fn masked(mask: Option<&View<'_>>) -> &'static str {
    match mask {
        None => "not_masked",
        Some(mask) if mask.dtype == DType::Bool => "masked_by_truth",
        Some(_) => "masked_by_sum",
    }
}

/// Whether tiles of attention_fours_tile.wgsl can take these tensors, of which the last is written, in so many fours of memory: rows of up to 128 elements,
/// read and written four at a time.
fn in_fours(call: &Call<'_>, read: &[View<'_>], written: &[View<'_>], memory_fours: u32) -> Result<bool> {
    if call.gpu.limits.max_compute_workgroup_storage_size < memory_fours * 16 {
        return Ok(false);
    }
    for view in read.iter().chain(written) {
        let (_, offset) = call.gpu.bind(call.name, view)?;
        let [.., lines, width] = view.layout.shape().to_array::<4>(call.name)?;
        if lines == 0 || !(1..=MOST_WIDTH).contains(&width) || !lies_in_fours(view, offset, 3) {
            return Ok(false);
        }
    }
    // Memory that is written is declared as what is written there.
    Ok(!read.iter().any(|view| written.iter().any(|written| view.buffer.is(written.buffer))))
}

/// The tensors of a launch in the order of its slots: with `bind` each is bound, and tells its first element.
struct Slots<'a> {
    variant: Variant,
    bindings: SmallVec<[Binding<'a>; 6]>,
}

impl<'a> Slots<'a> {
    fn new(file: &'static str) -> Slots<'a> {
        Slots { variant: Variant::new(file, Class::Float), bindings: SmallVec::new() }
    }

    fn bind(&mut self, call: &Call<'a>, name: &'static str, view: &View<'a>, access: Access) -> Result<u32> {
        let (binding, offset) = call.gpu.bind(call.name, view)?;
        self.bound(name, Store::of(view.dtype), access, binding);
        Ok(offset)
    }

    fn bound(&mut self, name: &'static str, store: Store, access: Access, binding: Binding<'a>) {
        self.variant.slots.push(Slot::new(name, store, access));
        self.bindings.push(binding);
    }

    /// The tensors that all shaders but one have: q, k, v, which are read as `read`, and their fourth.
    fn bind_four(
        &mut self,
        call: &Call<'a>,
        read: Access,
        fourth: (&'static str, &View<'a>, Access),
    ) -> Result<[u32; 4]> {
        let [q, k, v] = [0, 1, 2].map(|at| &call.inputs[at]);
        Ok([
            self.bind(call, "q", q, read)?,
            self.bind(call, "k", k, read)?,
            self.bind(call, "v", v, read)?,
            self.bind(call, fourth.0, fourth.1, fourth.2)?,
        ])
    }

    /// What the shader makes of these names.
    fn define<const N: usize>(&mut self, defines: [(&'static str, Define); N]) {
        self.variant.defines.extend(defines);
    }

    /// All groups of heads, or only those that the records of attention_halves.wgsl refuse.
    fn leave(&mut self, records: Option<Binding<'a>>) {
        self.define([("LEFTOVER", Define::Number(u32::from(records.is_some())))]);
        if let Some(records) = records {
            self.bound("records", Store::Word, Access::Read, records);
        }
    }

    /// How tiles of attention_fours_tile.wgsl lie in memory, for outputs of this width. `turn`: fours from one step's operands to the next one's.
    fn define_tiles(&mut self, width: usize, [operands, turn, matrix, all]: [u32; 4]) {
        let is_wide = width > TILE;
        self.define([
            ("WIDE", Define::Flag(is_wide)),
            ("FOURS_ACROSS", Define::Number(if is_wide { 32 } else { 16 })),
            ("OPERANDS_AT", Define::Number(operands)),
            ("OPERANDS_TURN", Define::Number(turn)),
            ("MATRIX_AT", Define::Number(matrix)),
            ("TILE_MEMORY", Define::Number(all)),
        ]);
    }

    /// The mask, if there is one, and which function takes it into account.
    fn bind_mask(&mut self, call: &Call<'a>, mask: Option<&View<'a>>) -> Result<u32> {
        self.define([("MASKED", Define::Text(masked(mask)))]);
        mask.map_or(Ok(0), |mask| self.bind(call, "mask", mask, Access::Read))
    }

    fn launch(self, call: &Call<'_>, groups: usize, parameters: &[u8]) -> Result<()> {
        call.gpu.launch(
            call.name,
            Launch { variant: self.variant, bindings: self.bindings, groups },
            parameters,
        )
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Attention(attention) = op else { return Err(wrong(call)) };
    let [batch, heads, queries, width] = call.outputs[0].layout.shape().to_array(call.name)?;
    if batch * heads * queries == 0 {
        return Ok(());
    }
    let sizes = Sizes::of(call, &attention.config, [heads, queries, width])?;
    if in_fours(call, &call.inputs[..3], &call.outputs[..1], FORWARD_FOURS)? {
        let config = &attention.config;
        let halves = cooperative::halves(call, config, &call.inputs[..3], &call.outputs[..1])?;
        if let Some(halves) = &halves {
            halves.launch_forward(call, config)?;
        }
        if halves.is_none() {
            let [y] = [0].map(|at| call.outputs[at]);
            let products = Products::of(call, config, &call.inputs[..3], &[y], call.inputs.get(3).copied())?;
            if let Some(products) = products {
                return products.launch_forward();
            }
        }
        let records = halves.as_ref().map(|halves| halves.records(call)).transpose()?;
        return launch_fours(call, sizes.in_one_chunk(), [batch, width], records);
    }
    let mut slots = Slots::new("attention.wgsl");
    slots.define([
        ("LEFT", Define::Text("query_element")),
        ("RIGHT", Define::Text("key_element")),
        ("MATRIX", Define::Text("value_element")),
    ]);
    launch_forward(call, slots, sizes, batch, [Access::Read, Access::Scattered])
}

/// By the tiles of attention_fours_tile.wgsl; with records, what these refuse.
fn launch_fours<'a>(
    call: &Call<'a>,
    sizes: Sizes,
    [batch, width]: [usize; 2],
    records: Option<Binding<'a>>,
) -> Result<()> {
    let mut slots = Slots::new("attention_fours.wgsl");
    slots.leave(records);
    slots.define_tiles(width, [0, 656, 1088, FORWARD_FOURS]);
    slots.define([
        ("LEFT_ROW", Define::Text("query_row")),
        ("LEFT_WORDS", Define::Text("query_words")),
        ("RIGHT_ROW", Define::Text("key_row")),
        ("RIGHT_WORDS", Define::Text("key_words")),
        ("MATRIX_PLACE", Define::Text("value_place")),
        ("MATRIX_WORDS", Define::Text("value_words")),
        ("HAS_MASK", Define::Flag(call.inputs.len() > 3)),
    ]);
    launch_forward(call, slots, sizes, batch, [Access::Fours, Access::FoursWritten])
}

fn launch_forward<'a>(
    call: &Call<'a>,
    mut slots: Slots<'a>,
    sizes: Sizes,
    batch: usize,
    [read, written]: [Access; 2],
) -> Result<()> {
    let [q, k, v] = [0, 1, 2].map(|at| &call.inputs[at]);
    let [y, lse] = [0, 1].map(|at| call.outputs[at]);
    let mask = call.inputs.get(3);
    let offsets = slots.bind_four(call, read, ("y", &y, written))?;
    let lse_offset = slots.bind(call, "lse", &lse, Access::Scattered)?;
    let mask_offset = slots.bind_mask(call, mask)?;
    let parameters = Parameters {
        sizes,
        offsets,
        more_offsets: [lse_offset, mask_offset, 0, 0],
        q: strides(q),
        k: strides(k),
        v: strides(v),
        y: strides(&y),
        lse: strides(&lse),
        mask: mask.map_or([0; 4], strides),
    };
    slots.launch(call, sizes.groups(batch), bytemuck::bytes_of(&parameters))
}

/// What a launch makes: dq, or dk and dv.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Query,
    KeyAndValue,
}

impl Wanted {
    /// Functions of attention_grad.wgsl: what the scores are made of, and what their weights are multiplied with.
    fn operands(self) -> [(&'static str, Define); 3] {
        let [left, right, matrix] = match self {
            Wanted::Query => ["query_element", "key_element", "key_matrix"],
            Wanted::KeyAndValue => ["key_element", "query_element", "query_matrix"],
        };
        [("LEFT", Define::Text(left)), ("RIGHT", Define::Text(right)), ("MATRIX", Define::Text(matrix))]
    }

    /// The same of attention_fours_grad.wgsl: their rows, and fours of them.
    fn fours(self) -> [(&'static str, Define); 6] {
        let (query, key) = (["query_row", "query_words"], ["key_row", "key_words"]);
        let (left, right, matrix) = match self {
            Wanted::Query => (query, key, ["key_place", "key_words"]),
            Wanted::KeyAndValue => (key, query, ["query_place", "query_words"]),
        };
        [
            ("LEFT_ROW", Define::Text(left[0])),
            ("LEFT_WORDS", Define::Text(left[1])),
            ("RIGHT_ROW", Define::Text(right[0])),
            ("RIGHT_WORDS", Define::Text(right[1])),
            ("MATRIX_PLACE", Define::Text(matrix[0])),
            ("MATRIX_WORDS", Define::Text(matrix[1])),
        ]
    }

    /// Functions that write dv, where a launch makes it.
    fn puts(self) -> [(&'static str, Define); 3] {
        let [one, pair, four] = match self {
            Wanted::Query => ["out_put", "out_put_pair", "out_put_four"],
            Wanted::KeyAndValue => ["other_put", "other_put_pair", "other_put_four"],
        };
        [
            ("OTHER_PUT", Define::Text(one)),
            ("OTHER_PUT_PAIR", Define::Text(pair)),
            ("OTHER_PUT_FOUR", Define::Text(four)),
        ]
    }

    /// Those among the outputs.
    fn outputs<'a>(self, call: &Call<'a>) -> &'a [View<'a>] {
        match self {
            Wanted::Query => &call.outputs[..1],
            Wanted::KeyAndValue => &call.outputs[1..],
        }
    }
}

pub(crate) fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AttentionGrad(attention) = op else { return Err(wrong(call)) };
    let [batch, heads, queries, _] = call.inputs[0].layout.shape().to_array(call.name)?;
    let rows = batch * heads * queries;
    let scratch = call.gpu.alloc(rows.max(1) * 8)?;
    let row_numbers = call.gpu.scratch(call.name, &scratch)?;
    launch_rows(call, row_numbers, rows)?;
    let config = &attention.config;
    let tensors = [0, 1, 2, 5].map(|at| call.inputs[at]);
    let halves = cooperative::halves(call, config, &tensors, call.outputs)?;
    if let Some(halves) = &halves {
        halves.launch_gradients(call, config, row_numbers)?;
    } else if let Some(products) =
        Products::of(call, config, &tensors, call.outputs, call.inputs.get(6).copied())?
    {
        return products.launch_gradients(row_numbers);
    }
    let records = halves.as_ref().map(|halves| halves.records(call)).transpose()?;
    launch_grad(call, config, row_numbers, records, Wanted::Query)?;
    launch_grad(call, config, row_numbers, records, Wanted::KeyAndValue)
}

/// The log-sum-exp of each row, and its sum of `dy * y`.
fn launch_rows<'a>(call: &Call<'a>, row_numbers: Binding<'a>, rows: usize) -> Result<()> {
    let (dy, y, lse) = (call.inputs[5], call.inputs[3], call.inputs[4]);
    let [_, _, _, width] = y.layout.shape().to_array(call.name)?;
    let axes: Vec<(usize, Vec<i64>)> = (0..3)
        .map(|axis| {
            let stride = |view: &View<'_>| view.layout.strides()[axis] as i64;
            (y.layout.shape().dim(axis), vec![stride(&dy), stride(&y), stride(&lse)])
        })
        .collect();
    let (space, rank) = Space::in_order(&axes);
    let mut slots = Slots::new("attention_grad_rows.wgsl");
    slots.bound("row_numbers", Store::F32, Access::Scattered, row_numbers);
    let fours = [dy, y].iter().try_fold(true, |all, view| {
        let (_, offset) = call.gpu.bind(call.name, view)?;
        Ok::<_, Error>(all && lies_in_fours(view, offset, 3))
    })?;
    slots.define([
        ("FOURS", Define::Number(u32::from(fours))),
        ("ELEMENTS", Define::Number(u32::from(!fours))),
    ]);
    let access = if fours { Access::Fours } else { Access::Read };
    let dy_offset = slots.bind(call, "dy", &dy, access)?;
    let y_offset = slots.bind(call, "y", &y, access)?;
    let lse_offset = slots.bind(call, "lse", &lse, Access::Read)?;
    let parameters = RowParameters {
        launched: 0,
        count: rows as u32,
        rank,
        width: width as u32,
        offsets: [dy_offset, y_offset, lse_offset, 0],
        steps: [strides(&dy)[3], strides(&y)[3], 0, 0],
        space,
    };
    slots.launch(call, rows.div_ceil(GROUP_ROWS), bytemuck::bytes_of(&parameters))
}

/// Gradients by tiles of fours, where the tensors allow it; with records, which only those have, what these refuse.
fn launch_grad<'a>(
    call: &Call<'a>,
    config: &AttentionConfig,
    row_numbers: Binding<'a>,
    records: Option<Binding<'a>>,
    wanted: Wanted,
) -> Result<()> {
    let [q, k, v, dy] = [0, 1, 2, 5].map(|at| call.inputs[at]);
    let outputs = wanted.outputs(call);
    if outputs.iter().all(|out| out.layout.elements() == 0) {
        return Ok(());
    }
    let [_, heads, lines, key_width] = outputs[0].layout.shape().to_array(call.name)?;
    let [.., value_width] = v.layout.shape().to_array::<4>(call.name)?;
    let sizes = Sizes::of(call, config, [heads, lines, key_width])?;
    let by_keys = Define::Flag(wanted == Wanted::KeyAndValue);
    if in_fours(call, &[q, k, v, dy], outputs, GRAD_FOURS)? {
        let mut slots = Slots::new("attention_fours_grad.wgsl");
        slots.leave(records);
        let width = if wanted == Wanted::Query { key_width } else { key_width.max(value_width) };
        slots.define_tiles(width, [1088, 0, 1088, GRAD_FOURS]);
        slots.define(wanted.fours());
        slots.define([("BY_KEYS", by_keys), ("HAS_MASK", Define::Flag(call.inputs.len() > 6))]);
        let access = [Access::Fours, Access::FoursWritten];
        return launch_tiles(call, slots, sizes.in_one_chunk(), row_numbers, wanted, access);
    }
    let mut slots = Slots::new("attention_grad.wgsl");
    slots.define(wanted.operands());
    slots.define([("BY_KEYS", by_keys)]);
    let chunks = outputs.iter().map(|out| out.layout.shape().dim(3).div_ceil(TILE) as u32).sum();
    let access = [Access::Read, Access::Scattered];
    launch_tiles(call, slots, Sizes { chunks, ..sizes }, row_numbers, wanted, access)
}

fn launch_tiles<'a>(
    call: &Call<'a>,
    mut slots: Slots<'a>,
    sizes: Sizes,
    row_numbers: Binding<'a>,
    wanted: Wanted,
    [read, written]: [Access; 2],
) -> Result<()> {
    let [q, k, v, dy] = [0, 1, 2, 5].map(|at| call.inputs[at]);
    let (mask, outputs) = (call.inputs.get(6), wanted.outputs(call));
    let offsets = slots.bind_four(call, read, ("dy", &dy, read))?;
    slots.bound("row_numbers", Store::F32, Access::Read, row_numbers);
    let mut more_offsets = [slots.bind_mask(call, mask)?, 0, 0, 0];
    for ((name, out), offset) in ["out", "other"].into_iter().zip(outputs).zip(&mut more_offsets[1..]) {
        *offset = slots.bind(call, name, out, written)?;
    }
    slots.define(wanted.puts());
    let parameters = GradParameters {
        sizes,
        key_chunks: outputs[0].layout.shape().dim(3).div_ceil(TILE) as u32,
        all_heads: q.layout.shape().dim(1) as u32,
        spare: [0; 2],
        offsets,
        more_offsets,
        q: strides(&q),
        k: strides(&k),
        v: strides(&v),
        dy: strides(&dy),
        mask: mask.map_or([0; 4], strides),
        out: strides(&outputs[0]),
        other: outputs.get(1).map_or([0; 4], strides),
    };
    slots.launch(call, sizes.groups(q.layout.shape().dim(0)), bytemuck::bytes_of(&parameters))
}
