//! Attention of 16-bit floats by cooperative matrices: halves and records first, then the products.

use super::{EVERYWHERE, FORWARD_FOURS, Slots, in_fours, strides};
use crate::gpu::Binding;
use crate::pipelines::Define;
use crate::select::Call;
use crate::slots::{Access, Store};
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::{Buffer, View};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Result};

/// Lines of a chunk of attention_halves.wgsl: heads are padded to whole ones.
const CHUNK: usize = 128;
/// Words of a record.
const RECORD_WORDS: usize = 8;
/// Rows that are narrower are not worth being padded to 64.
const NARROWEST: usize = 33;
/// Fewer queries read each key once or twice: not worth halves of them all.
const FEWEST_QUERIES: usize = 5;
/// Bytes of memory of the largest work group, of 128 queries with rows of 128.
const GROUP_BYTES: u32 = 2 * 32 * 34 * 8 + 128 * (9 * 16 + 10 * 8 + 4);
/// Bindings of the launch that has most: four tensors, their halves, ranges and records, and the parameters.
const MOST_BINDINGS: u32 = 11;

/// The parameters, as in attention_halves.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct HalvesParameters {
    zero: u32,
    scale: f32,
    spare: [u32; 2],
    counts: [[u32; 4]; 4],
    sizes: [[u32; 4]; 4],
    strides: [[u32; 4]; 4],
}

/// The parameters, as in attention_cooperative.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ForwardParameters {
    zero: u32,
    queries: u32,
    keys: u32,
    value_dim: u32,
    heads: u32,
    shared_by: u32,
    tiles: u32,
    padded_queries: u32,
    padded_keys: u32,
    back: i32,
    ahead: i32,
    spare: u32,
    offsets: [u32; 4],
    y: [u32; 4],
    lse: [u32; 4],
}

/// The parameters, as in attention_cooperative_grad.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GradParameters {
    zero: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    heads: u32,
    shared_by: u32,
    tiles: u32,
    padded_queries: u32,
    padded_keys: u32,
    back: i32,
    ahead: i32,
    scale: f32,
    spare: [u32; 3],
    offsets: [u32; 4],
    out: [u32; 4],
    other: [u32; 4],
}

/// The sizes of a call.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    /// Of packed rows.
    width: usize,
}

impl Sizes {
    fn of(call: &Call<'_>) -> Result<Sizes> {
        let [batch, heads, queries, head_dim] = call.inputs[0].layout.shape().to_array(call.name)?;
        let [_, kv_heads, keys, _] = call.inputs[1].layout.shape().to_array(call.name)?;
        let [.., value_dim] = call.inputs[2].layout.shape().to_array::<4>(call.name)?;
        let width = head_dim.max(value_dim).next_multiple_of(64);
        Ok(Sizes { batch, heads, kv_heads, queries, keys, head_dim, value_dim, width })
    }

    fn padded_queries(&self) -> usize {
        self.queries.next_multiple_of(CHUNK)
    }

    fn padded_keys(&self) -> usize {
        self.keys.next_multiple_of(CHUNK)
    }

    /// Heads and lines of q, k, v and dy.
    fn lines(&self, tensor: usize) -> [usize; 2] {
        if tensor == 1 || tensor == 2 { [self.kv_heads, self.keys] } else { [self.heads, self.queries] }
    }

    fn chunks(&self, tensor: usize) -> usize {
        let [heads, lines] = self.lines(tensor);
        self.batch * heads * lines.div_ceil(CHUNK)
    }

    fn packed_bytes(&self, tensor: usize) -> usize {
        self.chunks(tensor) * CHUNK * self.width * 2
    }
}

/// How far back and ahead queries see.
fn reach(config: &AttentionConfig) -> [i32; 2] {
    let window = config.window.map_or(EVERYWHERE, |window| window.min(EVERYWHERE as usize) as i32);
    [window, if config.causal { 1 } else { window }]
}

/// The factor of scores for powers of two.
fn binary_scale(config: &AttentionConfig) -> f32 {
    (config.scale * std::f64::consts::LOG2_E) as f32
}

/// What shaders name the tensors.
const NAMES: [&str; 4] = ["q", "k", "v", "dy"];
const PACKED: [&str; 4] = ["packed_q", "packed_k", "packed_v", "packed_dy"];
const PACKED_HALVES: [&str; 4] =
    ["packed_q_halves", "packed_k_halves", "packed_v_halves", "packed_dy_halves"];

/// Whether these tensors, q, k, v and of gradients dy, are taken: 16-bit floats without a mask, in fours, where the device can.
fn takes(
    call: &Call<'_>,
    config: &AttentionConfig,
    tensors: &[View<'_>],
    written: &[View<'_>],
) -> Result<bool> {
    let limits = &call.gpu.limits;
    let can = call.gpu.multiplies_halves()
        && limits.max_compute_workgroup_storage_size >= GROUP_BYTES
        && limits.max_storage_buffers_per_shader_stage >= MOST_BINDINGS;
    let wanted = matches!(tensors[0].dtype, DType::F16 | DType::BF16)
        && !config.mask
        && binary_scale(config).is_finite();
    if !can || !wanted || !in_fours(call, tensors, written, FORWARD_FOURS)? {
        return Ok(false);
    }
    let sizes = Sizes::of(call)?;
    let is_large = sizes.head_dim.max(sizes.value_dim) >= NARROWEST && sizes.queries >= FEWEST_QUERIES;
    // Matrices are read from one binding: the shaders find no windows.
    let most = limits.max_storage_buffer_binding_size as usize;
    let fits = (0..tensors.len()).all(|tensor| sizes.packed_bytes(tensor) <= most);
    for view in tensors {
        if !call.gpu.fits(call.name, view)? {
            return Ok(false);
        }
    }
    Ok(fits && is_large && sizes.batch > 0)
}

/// Halves of the tensors, and which groups of heads are taken.
pub(super) struct Halves {
    sizes: Sizes,
    packed: Vec<Buffer>,
    records: Buffer,
}

impl Halves {
    /// Queues what makes them of q, k, v and, of gradients, dy.
    fn of(call: &Call<'_>, config: &AttentionConfig, tensors: &[View<'_>]) -> Result<Halves> {
        let sizes = Sizes::of(call)?;
        let alloc = |bytes: usize| call.gpu.alloc(bytes);
        let packed = (0..tensors.len()).map(|tensor| alloc(sizes.packed_bytes(tensor)));
        let halves = Halves {
            sizes,
            packed: packed.collect::<Result<_>>()?,
            records: alloc(sizes.batch * sizes.kv_heads * RECORD_WORDS * 4)?,
        };
        let groups: usize = (0..tensors.len()).map(|tensor| sizes.chunks(tensor)).sum();
        let ranges = alloc(groups * 8)?;
        let ranges = call.gpu.scratch(call.name, &ranges)?;
        for packs in [false, true] {
            halves.launch(call, config, tensors, ranges, packs, groups)?;
        }
        Ok(halves)
    }

    fn launch<'a>(
        &'a self,
        call: &Call<'a>,
        config: &AttentionConfig,
        tensors: &[View<'a>],
        ranges: Binding<'a>,
        packs: bool,
        groups: usize,
    ) -> Result<()> {
        let mut slots = Slots::new("attention_halves.wgsl");
        let mut parameters = HalvesParameters { scale: binary_scale(config), ..Zeroable::zeroed() };
        let mut first = 0;
        for (tensor, view) in tensors.iter().enumerate() {
            let offset = slots.bind(call, NAMES[tensor], view, Access::Fours)?;
            let [heads, lines] = self.sizes.lines(tensor);
            let chunks = lines.div_ceil(CHUNK);
            let of_group = heads / self.sizes.kv_heads * chunks;
            let width = view.layout.shape().dim(3);
            parameters.counts[tensor] = [first, chunks as u32, heads as u32, lines as u32];
            parameters.sizes[tensor] = [width as u32 / 4, offset, of_group as u32, 0];
            parameters.strides[tensor] = strides(view);
            first += self.sizes.chunks(tensor) as u32;
        }
        if packs {
            for (name, packed) in PACKED.into_iter().zip(&self.packed) {
                slots.bound(name, Store::F16, Access::FoursWritten, call.gpu.scratch(call.name, packed)?);
            }
            slots.bound("records", Store::Word, Access::Words, self.records(call)?);
        }
        slots.bound("ranges", Store::Word, if packs { Access::Read } else { Access::Words }, ranges);
        slots.define([
            ("TENSORS", Define::Number(tensors.len() as u32)),
            ("GRADIENT", number(tensors.len() == 4)),
            ("FOURS", Define::Number(self.sizes.width as u32 / 4)),
            ("RANGES", number(!packs)),
            ("PACKS", number(packs)),
        ]);
        slots.launch(call, groups, bytemuck::bytes_of(&parameters))
    }

    /// The records, for shaders that take what these refuse.
    pub(super) fn records<'a>(&'a self, call: &Call<'a>) -> Result<Binding<'a>> {
        call.gpu.scratch(call.name, &self.records)
    }

    /// What the shaders of products are linked with: work groups of so many lines.
    fn slots<'a>(&'a self, call: &Call<'a>, file: &'static str, lines: u32) -> Result<Slots<'a>> {
        let mut slots = Slots::new(file);
        for (name, packed) in PACKED.into_iter().zip(&self.packed) {
            slots.bound(name, Store::F16, Access::Halves, call.gpu.scratch(call.name, packed)?);
        }
        slots.bound("records", Store::Word, Access::Read, self.records(call)?);
        let fours = self.sizes.width as u32 / 4;
        slots.define([
            ("LINES", Define::Number(lines)),
            ("THREADS", Define::Number(2 * lines)),
            ("DEPTHS", Define::Number(fours / 4)),
            ("FOURS", Define::Number(fours)),
            ("STRIDE", Define::Number(fours + 2)),
            ("LOADS", Define::Number(32 * fours / (2 * lines))),
            ("TILE_FOURS", Define::Number(32 * (fours + 2))),
            ("SCORE_FOURS", Define::Number(9 * lines)),
            ("WEIGHT_FOURS", Define::Number(10 * lines)),
            // The roles A, B, C of matrices must be no other names.
            ("C", Define::Text("f32")),
            ("SUM", Define::Text("C")),
        ]);
        Ok(slots)
    }

    /// Queues y and lse of the groups that are taken.
    pub(super) fn launch_forward(&self, call: &Call<'_>, config: &AttentionConfig) -> Result<()> {
        let sizes = self.sizes;
        let [y, lse] = [0, 1].map(|at| call.outputs[at]);
        let lines = if sizes.width == 64 { 64 } else { 128 };
        let mut slots = self.slots(call, "attention_cooperative.wgsl", lines)?;
        let y_offset = slots.bind(call, "y", &y, Access::FoursWritten)?;
        let lse_offset = slots.bind(call, "lse", &lse, Access::Scattered)?;
        let tiles = sizes.queries.div_ceil(lines as usize);
        let [back, ahead] = reach(config);
        let parameters = ForwardParameters {
            zero: 0,
            queries: sizes.queries as u32,
            keys: sizes.keys as u32,
            value_dim: sizes.value_dim as u32,
            heads: sizes.heads as u32,
            shared_by: (sizes.heads / sizes.kv_heads) as u32,
            tiles: tiles as u32,
            padded_queries: sizes.padded_queries() as u32,
            padded_keys: sizes.padded_keys() as u32,
            back,
            ahead,
            spare: 0,
            offsets: [y_offset, lse_offset, 0, 0],
            y: strides(&y),
            lse: strides(&lse),
        };
        slots.launch(call, sizes.batch * sizes.heads * tiles, bytemuck::bytes_of(&parameters))
    }

    /// Queues dq, dk and dv of the groups that are taken; `row_numbers` are those of attention_grad_rows.wgsl.
    pub(super) fn launch_gradients<'a>(
        &'a self,
        call: &Call<'a>,
        config: &AttentionConfig,
        row_numbers: Binding<'a>,
    ) -> Result<()> {
        let made: &[Made] = match self.sizes.width {
            64 => &[Made::Query, Made::KeyAndValue],
            _ => &[Made::Query, Made::Key, Made::Value],
        };
        made.iter().try_for_each(|&made| self.launch_gradient(call, config, row_numbers, made))
    }

    fn launch_gradient<'a>(
        &'a self,
        call: &Call<'a>,
        config: &AttentionConfig,
        row_numbers: Binding<'a>,
        made: Made,
    ) -> Result<()> {
        const LINES: u32 = 64;
        let sizes = self.sizes;
        let mut slots = self.slots(call, "attention_cooperative_grad.wgsl", LINES)?;
        slots.bound("row_numbers", Store::F32, Access::Read, row_numbers);
        slots.define(made.operands());
        let (out, other) = made.outputs(call);
        let mut offsets = [0; 4];
        for (offset, (name, view)) in offsets.iter_mut().zip([("out", out), ("other", other)]) {
            if let Some(view) = view {
                *offset = slots.bind(call, name, &view, Access::FoursWritten)?;
            }
        }
        let by_keys = made != Made::Query;
        let (heads, lines) =
            if by_keys { (sizes.kv_heads, sizes.keys) } else { (sizes.heads, sizes.queries) };
        let tiles = lines.div_ceil(LINES as usize);
        let [back, ahead] = reach(config);
        let parameters = GradParameters {
            zero: 0,
            queries: sizes.queries as u32,
            keys: sizes.keys as u32,
            head_dim: sizes.head_dim as u32,
            value_dim: sizes.value_dim as u32,
            heads: heads as u32,
            shared_by: (sizes.heads / sizes.kv_heads) as u32,
            tiles: tiles as u32,
            padded_queries: sizes.padded_queries() as u32,
            padded_keys: sizes.padded_keys() as u32,
            back,
            ahead,
            scale: config.scale as f32,
            spare: [0; 3],
            offsets,
            out: out.as_ref().map_or([0; 4], strides),
            other: other.as_ref().map_or([0; 4], strides),
        };
        slots.launch(call, sizes.batch * heads * tiles, bytemuck::bytes_of(&parameters))
    }
}

/// A number of 0 or 1: how often lines are repeated that stand under a condition.
fn number(flag: bool) -> Define {
    Define::Number(u32::from(flag))
}

/// What a launch of gradients makes.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    Query,
    Key,
    Value,
    KeyAndValue,
}

impl Made {
    /// Names of the operands, and what is made of them.
    fn operands(self) -> [(&'static str, Define); 8] {
        let [q, k, v, dy] = [0, 1, 2, 3];
        let by_keys = self != Made::Query;
        let [left, right, slope_left, slope_right] = if by_keys { [k, q, v, dy] } else { [q, k, dy, v] };
        [
            ("LEFT", Define::Text(PACKED[left])),
            ("RIGHT_HALVES", Define::Text(PACKED_HALVES[right])),
            ("SLOPE_LEFT", Define::Text(PACKED[slope_left])),
            ("SLOPE_RIGHT_HALVES", Define::Text(PACKED_HALVES[slope_right])),
            ("BY_KEYS", number(by_keys)),
            ("BY_QUERIES", number(!by_keys)),
            ("SLOPES", number(self != Made::Value)),
            ("WEIGHTS", number(matches!(self, Made::Value | Made::KeyAndValue))),
        ]
    }

    /// What `out` and `other` are.
    fn outputs<'a>(self, call: &Call<'a>) -> (Option<View<'a>>, Option<View<'a>>) {
        let [dq, dk, dv] = [0, 1, 2].map(|at| call.outputs[at]);
        match self {
            Made::Query => (Some(dq), None),
            Made::Key => (Some(dk), None),
            Made::Value => (None, Some(dv)),
            Made::KeyAndValue => (Some(dk), Some(dv)),
        }
    }
}

/// Halves of the tensors of a call, where it takes them.
pub(super) fn halves(
    call: &Call<'_>,
    config: &AttentionConfig,
    tensors: &[View<'_>],
    written: &[View<'_>],
) -> Result<Option<Halves>> {
    takes(call, config, tensors, written)?.then(|| Halves::of(call, config, tensors)).transpose()
}
