//! Scaled dot-product attention and its gradients: the choice of the algorithm, the bounds of the
//! window, and the number of tiles and workgroups.

mod cooperative;
mod gemm;
mod inputs;
mod tile_layout;

use super::matmul::is_vec4_aligned;
use crate::call::Call;
use crate::gpu::{Binding, Launch};
use crate::names::{
    Constant, Fill, LeftElement, LeftRow, LeftWords, MaskMode, MatrixElement, MatrixIndex, MatrixWords,
    RightElement, RightRow, RightWords, SlotName, StoreLseError, StoreOther, StoreOtherPair, StoreOtherVec4,
    Switch,
};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, Slot, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use gemm::UnfusedAttention;
pub(crate) use inputs::select;
use inputs::{Vec4Copies, has_wide_heads};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::{DType, Error, Op, Result};
use tile_layout::{FORWARD_TILES, GRAD_TILES, TileLayout};

/// Rows of a tile of outputs; also its columns, unless one tile has all columns (vec4 shaders).
const TILE: usize = 64;
/// Maximum width of rows in tile_vec4.wgsl.
const MAX_WIDTH: usize = 128;
/// Workgroup memory of attention_vec4.wgsl and grad_vec4.wgsl, in vec4.
const FORWARD_VEC4S: u32 = 1632;
const GRAD_VEC4S: u32 = 1744;
/// Rows of a workgroup of grad_rows.wgsl.
const GROUP_ROWS: usize = 16;
/// A window bound that excludes no key, and small enough that its sum with a position fits in i32.
const UNBOUNDED: i32 = 0x3fff_ffff;
/// Maximum number of queries, and of keys: positions and window bounds are i32.
const MAX_LINES: usize = 1 << 29;

/// The parameters of attention.wgsl and attention_vec4.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    sizes: Sizes,
    /// First elements of q, k, v and y; of lse, mask and lse_error.
    offsets: [u32; 4],
    more_offsets: [u32; 4],
    /// The strides of each tensor.
    q: [u32; 4],
    k: [u32; 4],
    v: [u32; 4],
    y: [u32; 4],
    lse: [u32; 4],
    mask: [u32; 4],
}

/// The parameters of grad.wgsl and grad_vec4.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GradParameters {
    sizes: Sizes,
    /// Number of chunks of dk, which are followed by those of dv.
    key_chunks: u32,
    /// Number of query heads.
    all_heads: u32,
    _padding: [u32; 2],
    /// First elements of q, k, v and dy; of mask, `out` and `other`.
    offsets: [u32; 4],
    more_offsets: [u32; 4],
    /// The strides of each tensor. `out` is dq or dk; `other` is dv.
    q: [u32; 4],
    k: [u32; 4],
    v: [u32; 4],
    dy: [u32; 4],
    mask: [u32; 4],
    out: [u32; 4],
    other: [u32; 4],
}

/// The first fields of both parameter structs.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Sizes {
    launched: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    /// Heads of the output.
    heads: u32,
    /// Number of query heads that share a key head.
    q_heads_per_kv: u32,
    /// Tiles of an output along its columns, and along its rows.
    chunks: u32,
    tiles: u32,
    scale: f32,
    /// A query attends to keys above position - `window_left` and below position + `window_right`.
    window_left: i32,
    window_right: i32,
}

/// The parameters of grad_rows.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RowParameters {
    launched: u32,
    count: u32,
    rank: u32,
    width: u32,
    /// First elements of dy, y and lse.
    offsets: [u32; 4],
    /// Strides of dy and y along a row.
    steps: [u32; 4],
    space: Space,
}

impl Sizes {
    /// Returns the sizes for an output with this many heads, rows and columns.
    fn of(call: &Call<'_>, config: &AttentionConfig, [heads, lines, width]: [usize; 3]) -> Result<Sizes> {
        let [_, all_heads, queries, head_dim] = call.inputs[0].layout.shape().to_array(call.name)?;
        let [_, kv_heads, keys, _] = call.inputs[1].layout.shape().to_array(call.name)?;
        let [_, _, _, value_dim] = call.inputs[2].layout.shape().to_array(call.name)?;
        if queries.max(keys) > MAX_LINES {
            return Err(Error::invalid(
                call.name,
                format!("expected at most {MAX_LINES} queries and keys, got {queries} and {keys}"),
            ));
        }
        let window = config.window.map_or(UNBOUNDED, |window| window.min(UNBOUNDED as usize) as i32);
        Ok(Sizes {
            launched: 0,
            queries: queries as u32,
            keys: keys as u32,
            head_dim: head_dim as u32,
            value_dim: value_dim as u32,
            heads: heads as u32,
            q_heads_per_kv: (all_heads / kv_heads) as u32,
            chunks: width.div_ceil(TILE).max(1) as u32,
            tiles: lines.div_ceil(TILE) as u32,
            scale: config.scale as f32,
            window_left: window,
            window_right: if config.causal { 1 } else { window },
        })
    }

    /// Returns the sizes for tiles that have all columns of the output.
    fn in_one_chunk(self) -> Sizes {
        Sizes { chunks: 1, ..self }
    }

    fn groups(&self, batch: usize) -> usize {
        batch * self.heads as usize * self.tiles as usize * self.chunks as usize
    }
}

/// Returns the strides of up to four axes, with 0 for an axis of size 1, along which a mask is
/// broadcast.
fn strides(view: &View<'_>) -> [u32; 4] {
    let mut all = [0; 4];
    for (axis, &stride) in view.layout.strides().iter().enumerate().take(4) {
        if view.layout.shape().dim(axis) > 1 {
            all[axis] = stride as u32;
        }
    }
    all
}

/// Returns the function of tile.wgsl that applies the mask.
fn mask_mode(mask: Option<&View<'_>>) -> MaskMode {
    match mask {
        None => MaskMode::None,
        Some(mask) if mask.dtype == DType::Bool => MaskMode::Bool,
        Some(_) => MaskMode::Additive,
    }
}

/// Returns whether shaders that access vec4 support these tensors, and the device has
/// `memory_vec4s` vec4 of workgroup memory. Each tensor must have rows of up to `max_width`
/// elements that can be accessed as vec4. No tensor that is read may share a buffer with one that
/// is written.
fn supports_vec4(
    call: &Call<'_>,
    read: &[View<'_>],
    written: &[View<'_>],
    memory_vec4s: u32,
    max_width: usize,
) -> Result<bool> {
    if call.gpu.limits.max_compute_workgroup_storage_size < memory_vec4s * 16 {
        return Ok(false);
    }
    for view in read.iter().chain(written) {
        let (_, offset) = call.gpu.bind(call.name, view)?;
        let [.., lines, width] = view.layout.shape().to_array::<4>(call.name)?;
        if lines == 0 || !(1..=max_width).contains(&width) || !is_vec4_aligned(view, offset, 3) {
            return Ok(false);
        }
    }
    // Memory that is written is declared with the type of the written tensor.
    Ok(!read.iter().any(|view| written.iter().any(|written| view.buffer.is(written.buffer))))
}

/// The slots, bindings and placeholders of a launch. `bind` adds a tensor and returns the index of
/// its first element in its binding.
struct Slots<'a> {
    variant: Variant,
    bindings: SmallVec<[Binding<'a>; 6]>,
}

impl<'a> Slots<'a> {
    fn new(shader: Shader) -> Slots<'a> {
        Slots { variant: Variant::new(shader, Class::Float), bindings: SmallVec::new() }
    }

    fn bind(&mut self, call: &Call<'a>, name: SlotName, view: &View<'a>, access: Access) -> Result<u32> {
        let (binding, offset) = call.gpu.bind(call.name, view)?;
        self.bind_memory(name, StorageFormat::of(view.dtype), access, binding);
        Ok(offset)
    }

    fn bind_memory(&mut self, name: SlotName, store: StorageFormat, access: Access, binding: Binding<'a>) {
        self.variant.slots.push(Slot::new(name, store, access));
        self.bindings.push(binding);
    }

    /// Binds q, k and v, which are accessed with `read`, and a fourth tensor. Returns the index of
    /// the first element of each.
    fn bind_operands(
        &mut self,
        call: &Call<'a>,
        read: Access,
        fourth: (SlotName, &View<'a>, Access),
    ) -> Result<[u32; 4]> {
        let [q, k, v] = [0, 1, 2].map(|input| &call.inputs[input]);
        Ok([
            self.bind(call, SlotName::Q, q, read)?,
            self.bind(call, SlotName::K, k, read)?,
            self.bind(call, SlotName::V, v, read)?,
            self.bind(call, fourth.0, fourth.1, fourth.2)?,
        ])
    }

    /// Sets placeholders of the template.
    fn fill<const N: usize>(&mut self, fills: [Fill; N]) {
        self.variant.fills.extend(fills);
    }

    /// Selects the groups of heads that are computed: with `records`, only those that the records
    /// of pack_f16.wgsl reject, otherwise all.
    fn select_groups(&mut self, records: Option<Binding<'a>>) {
        self.fill([Constant::Leftover.is_one_if(records.is_some())]);
        if let Some(records) = records {
            self.bind_memory(SlotName::Records, StorageFormat::RawWord, Access::Read, records);
        }
    }

    /// Sets the layout of tile_vec4.wgsl's tiles in workgroup memory, for outputs of this width.
    fn fill_tiles(&mut self, width: usize, tiles: TileLayout) {
        let is_wide = width > TILE;
        self.fill([
            Switch::Wide.is(is_wide),
            Constant::Vec4sAcross.is(if is_wide { 32 } else { 16 }),
            Constant::OperandsAt.is(tiles.operands_at),
            Constant::OperandsStride.is(tiles.operands_stride),
            Constant::MatrixAt.is(tiles.matrix_at),
            Constant::TileMemory.is(tiles.size),
        ]);
    }

    /// Binds the mask, if there is one, and selects the function that applies it. Returns the index
    /// of its first element.
    fn bind_mask(&mut self, call: &Call<'a>, mask: Option<&View<'a>>) -> Result<u32> {
        self.fill([mask_mode(mask).into()]);
        mask.map_or(Ok(0), |mask| self.bind(call, SlotName::Mask, mask, Access::Read))
    }

    /// Binds the rounding error of the log-sum-exp, the third output of the forward pass, which
    /// exists only with an additive mask. Returns the index of its first element.
    fn bind_error(&mut self, call: &Call<'a>) -> Result<u32> {
        let error = call.outputs.get(2);
        self.fill([if error.is_some() { StoreLseError::Error } else { StoreLseError::None }.into()]);
        error.map_or(Ok(0), |error| self.bind(call, SlotName::LogSumExpError, error, Access::Scattered))
    }

    fn launch(self, call: &Call<'_>, groups: usize, parameters: &[u8]) -> Result<()> {
        call.gpu.launch(
            call.name,
            Launch { variant: self.variant, bindings: self.bindings, groups },
            parameters,
        )
    }
}

fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Attention(attention) = op else { return Err(call.wrong_op()) };
    if !has_wide_heads(call) {
        return run_forward(attention, call);
    }
    let copies = Vec4Copies::of(call, |input| input < 3)?;
    run_forward(attention, &Call { inputs: &copies.views(), ..*call })
}

fn run_forward(attention: &Attention, call: &Call<'_>) -> Result<()> {
    let [batch, heads, queries, width] = call.outputs[0].layout.shape().to_array(call.name)?;
    if batch * heads * queries == 0 {
        return Ok(());
    }
    let sizes = Sizes::of(call, &attention.config, [heads, queries, width])?;
    let (config, [inputs, outputs]) = (&attention.config, [&call.inputs[..3], &call.outputs[..1]]);
    let supports_tiles = supports_vec4(call, inputs, outputs, FORWARD_VEC4S, MAX_WIDTH)?;
    let packed = match supports_tiles {
        true => cooperative::pack(call, config, inputs, outputs)?,
        false => None,
    };
    if let Some(packed) = &packed {
        packed.launch_forward(call, config)?;
    } else if let Some(products) =
        UnfusedAttention::of(call, config, inputs, outputs, call.inputs.get(3).copied())?
    {
        return products.launch_forward();
    }
    if supports_tiles {
        let records = packed.as_ref().map(|packed| packed.records(call)).transpose()?;
        return launch_vec4(call, sizes.in_one_chunk(), [batch, width], records);
    }
    let mut slots = Slots::new(Shader::Attention);
    slots.fill([LeftElement::Query.into(), RightElement::Key.into(), MatrixElement::Value.into()]);
    launch_forward(call, slots, sizes, batch, [Access::Read, Access::Scattered])
}

/// Launches the forward pass with the tiles of tile_vec4.wgsl. With `records`, it computes only the
/// groups of heads that the records reject.
fn launch_vec4<'a>(
    call: &Call<'a>,
    sizes: Sizes,
    [batch, width]: [usize; 2],
    records: Option<Binding<'a>>,
) -> Result<()> {
    let mut slots = Slots::new(Shader::AttentionVec4);
    slots.select_groups(records);
    slots.fill_tiles(width, FORWARD_TILES);
    slots.fill([
        LeftRow::Query.into(),
        LeftWords::Query.into(),
        RightRow::Key.into(),
        RightWords::Key.into(),
        MatrixIndex::Value.into(),
        MatrixWords::Value.into(),
        Switch::HasMask.is(call.inputs.len() > 3),
    ]);
    launch_forward(call, slots, sizes, batch, [Access::ReadVec4, Access::WriteVec4])
}

fn launch_forward<'a>(
    call: &Call<'a>,
    mut slots: Slots<'a>,
    sizes: Sizes,
    batch: usize,
    [read, written]: [Access; 2],
) -> Result<()> {
    let [q, k, v] = [0, 1, 2].map(|input| &call.inputs[input]);
    let [y, lse] = [0, 1].map(|output| call.outputs[output]);
    let mask = call.inputs.get(3);
    let offsets = slots.bind_operands(call, read, (SlotName::Y, &y, written))?;
    let lse_offset = slots.bind(call, SlotName::LogSumExp, &lse, Access::Scattered)?;
    let error_offset = slots.bind_error(call)?;
    let mask_offset = slots.bind_mask(call, mask)?;
    let parameters = Parameters {
        sizes,
        offsets,
        more_offsets: [lse_offset, mask_offset, error_offset, 0],
        q: strides(q),
        k: strides(k),
        v: strides(v),
        y: strides(&y),
        lse: strides(&lse),
        mask: mask.map_or([0; 4], strides),
    };
    slots.launch(call, sizes.groups(batch), bytemuck::bytes_of(&parameters))
}

/// The outputs of a launch: dq, or dk and dv.
#[derive(Clone, Copy, PartialEq)]
enum GradTarget {
    Query,
    KeyAndValue,
}

impl GradTarget {
    /// Returns the functions of grad.wgsl that read the operands of the scores, and the matrix by
    /// which their weights are multiplied.
    fn operands(self) -> [Fill; 3] {
        match self {
            GradTarget::Query => {
                [LeftElement::Query.into(), RightElement::Key.into(), MatrixElement::Key.into()]
            }
            GradTarget::KeyAndValue => {
                [LeftElement::Key.into(), RightElement::Query.into(), MatrixElement::Query.into()]
            }
        }
    }

    /// Returns the functions of grad_vec4.wgsl for the same matrices: they return the index of a
    /// row, and the words of its vec4.
    fn vec4_operands(self) -> [Fill; 6] {
        match self {
            GradTarget::Query => [
                LeftRow::Query.into(),
                LeftWords::Query.into(),
                RightRow::Key.into(),
                RightWords::Key.into(),
                MatrixIndex::Key.into(),
                MatrixWords::Key.into(),
            ],
            GradTarget::KeyAndValue => [
                LeftRow::Key.into(),
                LeftWords::Key.into(),
                RightRow::Query.into(),
                RightWords::Query.into(),
                MatrixIndex::Query.into(),
                MatrixWords::Query.into(),
            ],
        }
    }

    /// Returns the functions that write dv, if the launch computes it.
    fn store_functions(self) -> [Fill; 3] {
        match self {
            GradTarget::Query => {
                [StoreOther::Out.into(), StoreOtherPair::Out.into(), StoreOtherVec4::Out.into()]
            }
            GradTarget::KeyAndValue => {
                [StoreOther::Other.into(), StoreOtherPair::Other.into(), StoreOtherVec4::Other.into()]
            }
        }
    }

    /// Returns the outputs of the call that the launch computes.
    fn outputs<'a>(self, call: &Call<'a>) -> &'a [View<'a>] {
        match self {
            GradTarget::Query => &call.outputs[..1],
            GradTarget::KeyAndValue => &call.outputs[1..],
        }
    }
}

fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AttentionGrad(attention) = op else { return Err(call.wrong_op()) };
    let is_wide = has_wide_heads(call);
    let is_whole = call.inputs[5].layout.shape().dim(3).is_multiple_of(4);
    let copies = Vec4Copies::of(call, |input| (input < 3 && is_wide) || (input == 5 && is_whole))?;
    run_backward(attention, &Call { inputs: &copies.views(), ..*call })
}

fn run_backward(attention: &AttentionGrad, call: &Call<'_>) -> Result<()> {
    let [batch, heads, queries, _] = call.inputs[0].layout.shape().to_array(call.name)?;
    let rows = batch * heads * queries;
    // Two f32 for each row.
    let workspace = call.gpu.alloc(rows.max(1) * 8)?;
    let lse_and_delta = call.gpu.workspace(call.name, &workspace)?;
    launch_rows(call, lse_and_delta, rows)?;
    let config = &attention.config;
    let tensors = [0, 1, 2, 5].map(|input| call.inputs[input]);
    let packed = cooperative::pack(call, config, &tensors, call.outputs)?;
    if let Some(packed) = &packed {
        packed.launch_gradients(call, config, lse_and_delta)?;
    } else if let Some(products) =
        UnfusedAttention::of(call, config, &tensors, call.outputs, call.inputs.get(6).copied())?
    {
        return products.launch_gradients(lse_and_delta);
    }
    let records = packed.as_ref().map(|packed| packed.records(call)).transpose()?;
    launch_gradient(call, config, lse_and_delta, records, GradTarget::Query)?;
    launch_gradient(call, config, lse_and_delta, records, GradTarget::KeyAndValue)
}

/// Queues the shader that writes the log-sum-exp (lse) and the sum of `dy * y` (delta) of each row
/// to `lse_and_delta`, `[batch, heads, queries, 2]`.
fn launch_rows<'a>(call: &Call<'a>, lse_and_delta: Binding<'a>, rows: usize) -> Result<()> {
    let (dy, y, lse) = (call.inputs[5], call.inputs[3], call.inputs[4]);
    let [_, _, _, width] = y.layout.shape().to_array(call.name)?;
    let axes: Vec<(usize, Vec<i64>)> = (0..3)
        .map(|axis| {
            let stride = |view: &View<'_>| view.layout.strides()[axis] as i64;
            (y.layout.shape().dim(axis), vec![stride(&dy), stride(&y), stride(&lse)])
        })
        .collect();
    let (space, rank) = Space::from_axes(&axes);
    let mut slots = Slots::new(Shader::AttentionGradRows);
    slots.bind_memory(SlotName::LseAndDelta, StorageFormat::F32, Access::Scattered, lse_and_delta);
    let vec4 = [dy, y].iter().try_fold(true, |all, view| {
        let (_, offset) = call.gpu.bind(call.name, view)?;
        Ok::<_, Error>(all && is_vec4_aligned(view, offset, 3))
    })?;
    slots.fill([Constant::Vec4s.is_one_if(vec4), Constant::Elements.is_one_if(!vec4)]);
    let access = if vec4 { Access::ReadVec4 } else { Access::Read };
    let dy_offset = slots.bind(call, SlotName::Dy, &dy, access)?;
    let y_offset = slots.bind(call, SlotName::Y, &y, access)?;
    let lse_offset = slots.bind(call, SlotName::LogSumExp, &lse, Access::Read)?;
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

/// Launches the gradients of `target`, with vec4 access if the tensors allow it. With `records`,
/// which exist only if they allow it, computes only the groups of heads that the records reject.
fn launch_gradient<'a>(
    call: &Call<'a>,
    config: &AttentionConfig,
    lse_and_delta: Binding<'a>,
    records: Option<Binding<'a>>,
    target: GradTarget,
) -> Result<()> {
    let [q, k, v, dy] = [0, 1, 2, 5].map(|input| call.inputs[input]);
    let outputs = target.outputs(call);
    if outputs.iter().all(|out| out.layout.elements() == 0) {
        return Ok(());
    }
    let [_, heads, lines, key_width] = outputs[0].layout.shape().to_array(call.name)?;
    let [.., value_width] = v.layout.shape().to_array::<4>(call.name)?;
    let sizes = Sizes::of(call, config, [heads, lines, key_width])?;
    let by_keys = Switch::ByKeys.is(target == GradTarget::KeyAndValue);
    if supports_vec4(call, &[q, k, v, dy], outputs, GRAD_VEC4S, MAX_WIDTH)? {
        let mut slots = Slots::new(Shader::AttentionGradVec4);
        slots.select_groups(records);
        let width = if target == GradTarget::Query { key_width } else { key_width.max(value_width) };
        slots.fill_tiles(width, GRAD_TILES);
        slots.fill(target.vec4_operands());
        slots.fill([by_keys, Switch::HasMask.is(call.inputs.len() > 6)]);
        let access = [Access::ReadVec4, Access::WriteVec4];
        return launch_tiles(call, slots, sizes.in_one_chunk(), lse_and_delta, target, access);
    }
    let mut slots = Slots::new(Shader::AttentionGrad);
    slots.fill(target.operands());
    slots.fill([by_keys]);
    let chunks = outputs.iter().map(|out| out.layout.shape().dim(3).div_ceil(TILE) as u32).sum();
    let access = [Access::Read, Access::Scattered];
    launch_tiles(call, slots, Sizes { chunks, ..sizes }, lse_and_delta, target, access)
}

fn launch_tiles<'a>(
    call: &Call<'a>,
    mut slots: Slots<'a>,
    sizes: Sizes,
    lse_and_delta: Binding<'a>,
    target: GradTarget,
    [read, written]: [Access; 2],
) -> Result<()> {
    let [q, k, v, dy] = [0, 1, 2, 5].map(|input| call.inputs[input]);
    let (mask, outputs) = (call.inputs.get(6), target.outputs(call));
    let offsets = slots.bind_operands(call, read, (SlotName::Dy, &dy, read))?;
    slots.bind_memory(SlotName::LseAndDelta, StorageFormat::F32, Access::Read, lse_and_delta);
    let mut more_offsets = [slots.bind_mask(call, mask)?, 0, 0, 0];
    for ((name, out), offset) in
        [SlotName::Out, SlotName::Other].into_iter().zip(outputs).zip(&mut more_offsets[1..])
    {
        *offset = slots.bind(call, name, out, written)?;
    }
    slots.fill(target.store_functions());
    let parameters = GradParameters {
        sizes,
        key_chunks: outputs[0].layout.shape().dim(3).div_ceil(TILE) as u32,
        all_heads: q.layout.shape().dim(1) as u32,
        _padding: [0; 2],
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
