//! Attention in f16 and bf16 with cooperative matrices. The first shader packs the operands as f16
//! and records for each group of heads whether f16 represents them; the next shaders compute the
//! products of the accepted groups.

use super::{FORWARD_VEC4S, MAX_WIDTH, Slots, UNBOUNDED, strides, supports_vec4};
use crate::call::Call;
use crate::gpu::Binding;
use crate::names::{
    Constant, CooperativeNumber, CooperativeSum, Fill, PackedGradLeft, PackedGradRight, PackedLeft,
    PackedRight, SlotName,
};
use crate::shaders::Shader;
use crate::slots::{Access, StorageFormat};
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::{Buffer, View};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Error, Result};

/// Rows of a chunk, which a workgroup of pack_f16.wgsl packs. Heads are padded to whole chunks.
const CHUNK: usize = 128;
/// Words of a record of pack_f16.wgsl: whether a group of heads is accepted, its factor and powers.
const RECORD_WORDS: usize = 8;
/// Minimum width: padding narrower rows to 64 costs more than it saves.
const MIN_WIDTH: usize = 33;
/// Minimum number of queries: with fewer, each key is read only once or twice, and packing costs
/// more than it saves.
const MIN_QUERIES: usize = 5;
/// Minimum number of rows of a workgroup; each subgroup computes 16 of them.
const MIN_LINES: u32 = 32;
/// The largest number of bindings of a launch: four tensors, four packed tensors, ranges, records,
/// and the parameters.
const MAX_BINDINGS: u32 = 11;

/// The parameters of pack_f16.wgsl, which describes the fields.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PackParameters {
    launched: u32,
    scale: f32,
    _padding: [u32; 2],
    counts: [[u32; 4]; 4],
    sizes: [[u32; 4]; 4],
    strides: [[u32; 4]; 4],
}

/// The parameters of cooperative.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ForwardParameters {
    launched: u32,
    queries: u32,
    keys: u32,
    value_dim: u32,
    heads: u32,
    q_heads_per_kv: u32,
    tiles: u32,
    padded_queries: u32,
    padded_keys: u32,
    window_left: i32,
    window_right: i32,
    _padding: u32,
    offsets: [u32; 4],
    y: [u32; 4],
    lse: [u32; 4],
}

/// The parameters of cooperative_grad.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GradParameters {
    launched: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    heads: u32,
    q_heads_per_kv: u32,
    tiles: u32,
    padded_queries: u32,
    padded_keys: u32,
    window_left: i32,
    window_right: i32,
    scale: f32,
    _padding: [u32; 3],
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
    /// Width of packed rows.
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

    /// Returns the number of heads and rows of tensor 0 (q), 1 (k), 2 (v) or 3 (dy).
    fn lines(&self, tensor: usize) -> [usize; 2] {
        if tensor == 1 || tensor == 2 { [self.kv_heads, self.keys] } else { [self.heads, self.queries] }
    }

    /// Returns the number of chunks of all heads and batches of a tensor.
    fn chunks(&self, tensor: usize) -> usize {
        let [heads, lines] = self.lines(tensor);
        self.batch * heads * lines.div_ceil(CHUNK)
    }

    /// Returns the size of a packed tensor in bytes.
    fn packed_bytes(&self, tensor: usize) -> usize {
        self.chunks(tensor) * CHUNK * self.width * 2
    }
}

/// Returns the bounds of the window before and after each query.
fn window_bounds(config: &AttentionConfig) -> [i32; 2] {
    let window = config.window.map_or(UNBOUNDED, |window| window.min(UNBOUNDED as usize) as i32);
    [window, if config.causal { 1 } else { window }]
}

/// Returns the scale of scores whose weights are computed as powers of two.
fn binary_scale(config: &AttentionConfig) -> f32 {
    (config.scale * std::f64::consts::LOG2_E) as f32
}

/// The names in shaders of the tensors and of their packed copies.
const NAMES: [SlotName; 4] = [SlotName::Q, SlotName::K, SlotName::V, SlotName::Dy];
const PACKED: [SlotName; 4] = [SlotName::PackedQ, SlotName::PackedK, SlotName::PackedV, SlotName::PackedDy];

/// Returns whether these tensors (q, k, v, and dy for gradients) are supported: 16-bit floats
/// without a mask, accessible as vec4, on a device with the required features.
fn is_supported(
    call: &Call<'_>,
    config: &AttentionConfig,
    tensors: &[View<'_>],
    written: &[View<'_>],
) -> Result<bool> {
    let limits = &call.gpu.limits;
    let has_features =
        call.gpu.has_cooperative_f16() && limits.max_storage_buffers_per_shader_stage >= MAX_BINDINGS;
    let is_candidate = matches!(tensors[0].dtype, DType::F16 | DType::BF16)
        && !config.mask
        && binary_scale(config).is_finite();
    if !has_features || !is_candidate || !supports_vec4(call, tensors, written, FORWARD_VEC4S, MAX_WIDTH)? {
        return Ok(false);
    }
    let sizes = Sizes::of(call)?;
    let launch_outputs =
        [LaunchOutput::Output].into_iter().chain(LaunchOutput::gradients(sizes.width).iter().copied());
    let has_memory = launch_outputs.map(|output| output.bytes(sizes.width, MIN_LINES)).max();
    let has_memory = has_memory <= Some(limits.max_compute_workgroup_storage_size);
    let is_large = sizes.head_dim.max(sizes.value_dim) >= MIN_WIDTH && sizes.queries >= MIN_QUERIES;
    // Cooperative matrices are read from one binding: the shaders do not select windows.
    let max_bytes = limits.max_storage_buffer_binding_size as usize;
    let fits = (0..tensors.len()).all(|tensor| sizes.packed_bytes(tensor) <= max_bytes);
    for view in tensors {
        if !call.gpu.fits(call.name, view)? {
            return Ok(false);
        }
    }
    Ok(fits && has_memory && is_large && sizes.batch > 0)
}

/// The tensors packed as f16, and the records of which groups of heads are accepted.
pub(super) struct PackedF16 {
    sizes: Sizes,
    packed: Vec<Buffer>,
    records: Buffer,
}

impl PackedF16 {
    /// Queues the packing of q, k, v and, for gradients, dy.
    fn of(call: &Call<'_>, config: &AttentionConfig, tensors: &[View<'_>]) -> Result<PackedF16> {
        let sizes = Sizes::of(call)?;
        let alloc = |bytes: usize| call.gpu.alloc(bytes);
        let packed = (0..tensors.len()).map(|tensor| alloc(sizes.packed_bytes(tensor)));
        let result = PackedF16 {
            sizes,
            packed: packed.collect::<Result<_>>()?,
            records: alloc(sizes.batch * sizes.kv_heads * RECORD_WORDS * 4)?,
        };
        let groups: usize = (0..tensors.len()).map(|tensor| sizes.chunks(tensor)).sum();
        let ranges = alloc(groups * 8)?;
        let ranges = call.gpu.workspace(call.name, &ranges)?;
        for packs in [false, true] {
            result.launch(call, config, tensors, ranges, packs, groups)?;
        }
        Ok(result)
    }

    /// Queues one of the two launches of pack_f16.wgsl: without `packs` it finds the ranges of the
    /// elements, with `packs` it writes the f16 and the records. `groups`: number of workgroups.
    fn launch<'a>(
        &'a self,
        call: &Call<'a>,
        config: &AttentionConfig,
        tensors: &[View<'a>],
        ranges: Binding<'a>,
        packs: bool,
        groups: usize,
    ) -> Result<()> {
        let mut slots = Slots::new(Shader::AttentionPackF16);
        let mut parameters = PackParameters { scale: binary_scale(config), ..Zeroable::zeroed() };
        let mut first = 0;
        for (tensor, view) in tensors.iter().enumerate() {
            let offset = slots.bind(call, NAMES[tensor], view, Access::ReadVec4)?;
            let [heads, lines] = self.sizes.lines(tensor);
            let chunks = lines.div_ceil(CHUNK);
            let chunks_per_group = heads / self.sizes.kv_heads * chunks;
            let width = view.layout.shape().dim(3);
            parameters.counts[tensor] = [first, chunks as u32, heads as u32, lines as u32];
            parameters.sizes[tensor] = [width as u32 / 4, offset, chunks_per_group as u32, 0];
            parameters.strides[tensor] = strides(view);
            first += self.sizes.chunks(tensor) as u32;
        }
        if packs {
            for (name, packed) in PACKED.into_iter().zip(&self.packed) {
                slots.bind_memory(
                    name,
                    StorageFormat::F16,
                    Access::WriteVec4,
                    call.gpu.workspace(call.name, packed)?,
                );
            }
            slots.bind_memory(SlotName::Records, StorageFormat::RawWord, Access::Words, self.records(call)?);
        }
        slots.bind_memory(
            SlotName::Ranges,
            StorageFormat::RawWord,
            if packs { Access::Read } else { Access::Words },
            ranges,
        );
        slots.fill([
            Constant::Tensors.is(tensors.len() as u32),
            Constant::Gradient.is_one_if(tensors.len() == 4),
            Constant::Vec4s.is(self.sizes.width as u32 / 4),
            Constant::Ranges.is_one_if(!packs),
            Constant::Packs.is_one_if(packs),
        ]);
        slots.launch(call, groups, bytemuck::bytes_of(&parameters))
    }

    /// Returns the records, for shaders that compute the rejected groups.
    pub(super) fn records<'a>(&'a self, call: &Call<'a>) -> Result<Binding<'a>> {
        call.gpu.workspace(call.name, &self.records)
    }

    /// Returns the slots and placeholders of the product shaders, for workgroups of `lines` rows.
    fn slots<'a>(&'a self, call: &Call<'a>, output: LaunchOutput, lines: u32) -> Result<Slots<'a>> {
        let mut slots = Slots::new(output.shader());
        for (name, packed) in PACKED.into_iter().zip(&self.packed) {
            slots.bind_memory(
                name,
                StorageFormat::F16,
                Access::ReadHalfVec4,
                call.gpu.workspace(call.name, packed)?,
            );
        }
        slots.bind_memory(SlotName::Records, StorageFormat::RawWord, Access::Read, self.records(call)?);
        let vec4s = self.sizes.width as u32 / 4;
        slots.fill([
            Constant::Lines.is(lines),
            Constant::Threads.is(2 * lines),
            Constant::Depths.is(vec4s / 4),
            Constant::Vec4s.is(vec4s),
            Constant::Stride.is(vec4s + 2),
            Constant::Loads.is(32 * vec4s / (2 * lines)),
            Constant::TileVec4s.is(32 * (vec4s + 2)),
            Constant::ScoreVec4s.is(9 * lines),
            Constant::WeightVec4s.is(10 * lines),
            // The roles A, B and C of matrices must not be names of anything else.
            CooperativeNumber::F32.into(),
            CooperativeSum::C.into(),
        ]);
        Ok(slots)
    }

    /// Queues y and lse of the accepted groups.
    pub(super) fn launch_forward(&self, call: &Call<'_>, config: &AttentionConfig) -> Result<()> {
        let sizes = self.sizes;
        let [y, lse] = [0, 1].map(|output| call.outputs[output]);
        let lines = LaunchOutput::Output.lines(call, sizes.width);
        let mut slots = self.slots(call, LaunchOutput::Output, lines)?;
        let y_offset = slots.bind(call, SlotName::Y, &y, Access::WriteVec4)?;
        let lse_offset = slots.bind(call, SlotName::LogSumExp, &lse, Access::Scattered)?;
        let tiles = sizes.queries.div_ceil(lines as usize);
        let [window_left, window_right] = window_bounds(config);
        let parameters = ForwardParameters {
            launched: 0,
            queries: sizes.queries as u32,
            keys: sizes.keys as u32,
            value_dim: sizes.value_dim as u32,
            heads: sizes.heads as u32,
            q_heads_per_kv: (sizes.heads / sizes.kv_heads) as u32,
            tiles: tiles as u32,
            padded_queries: sizes.padded_queries() as u32,
            padded_keys: sizes.padded_keys() as u32,
            window_left,
            window_right,
            _padding: 0,
            offsets: [y_offset, lse_offset, 0, 0],
            y: strides(&y),
            lse: strides(&lse),
        };
        slots.launch(call, sizes.batch * sizes.heads * tiles, bytemuck::bytes_of(&parameters))
    }

    /// Queues dq, dk and dv of the accepted groups; `lse_and_delta` is the output of
    /// grad_rows.wgsl.
    pub(super) fn launch_gradients<'a>(
        &'a self,
        call: &Call<'a>,
        config: &AttentionConfig,
        lse_and_delta: Binding<'a>,
    ) -> Result<()> {
        let outputs = LaunchOutput::gradients(self.sizes.width);
        outputs.iter().try_for_each(|&output| self.launch_gradient(call, config, lse_and_delta, output))
    }

    fn launch_gradient<'a>(
        &'a self,
        call: &Call<'a>,
        config: &AttentionConfig,
        lse_and_delta: Binding<'a>,
        output: LaunchOutput,
    ) -> Result<()> {
        let sizes = self.sizes;
        let count = output.lines(call, sizes.width);
        let mut slots = self.slots(call, output, count)?;
        slots.bind_memory(SlotName::LseAndDelta, StorageFormat::F32, Access::Read, lse_and_delta);
        slots.fill(output.operands());
        let (out, other) = output.outputs(call);
        let mut offsets = [0; 4];
        for (offset, (name, view)) in offsets.iter_mut().zip([(SlotName::Out, out), (SlotName::Other, other)])
        {
            if let Some(view) = view {
                *offset = slots.bind(call, name, &view, Access::WriteVec4)?;
            }
        }
        let by_keys = output.by_keys();
        let (heads, lines) =
            if by_keys { (sizes.kv_heads, sizes.keys) } else { (sizes.heads, sizes.queries) };
        let tiles = lines.div_ceil(count as usize);
        let [window_left, window_right] = window_bounds(config);
        let parameters = GradParameters {
            launched: 0,
            queries: sizes.queries as u32,
            keys: sizes.keys as u32,
            head_dim: sizes.head_dim as u32,
            value_dim: sizes.value_dim as u32,
            heads: heads as u32,
            q_heads_per_kv: (sizes.heads / sizes.kv_heads) as u32,
            tiles: tiles as u32,
            padded_queries: sizes.padded_queries() as u32,
            padded_keys: sizes.padded_keys() as u32,
            window_left,
            window_right,
            scale: config.scale as f32,
            _padding: [0; 3],
            offsets,
            out: out.as_ref().map_or([0; 4], strides),
            other: other.as_ref().map_or([0; 4], strides),
        };
        slots.launch(call, sizes.batch * heads * tiles, bytemuck::bytes_of(&parameters))
    }
}

/// The outputs of a launch.
#[derive(Clone, Copy, PartialEq)]
enum LaunchOutput {
    /// y and lse.
    Output,
    /// dq.
    Query,
    /// dk.
    Key,
    /// dv.
    Value,
    /// dk and dv.
    KeyAndValue,
}

impl LaunchOutput {
    /// Returns the launches of the gradients: dk and dv are computed in one launch if both fit in
    /// registers.
    fn gradients(width: usize) -> &'static [LaunchOutput] {
        if width <= 64 {
            &[LaunchOutput::Query, LaunchOutput::KeyAndValue]
        } else {
            &[LaunchOutput::Query, LaunchOutput::Key, LaunchOutput::Value]
        }
    }

    fn shader(self) -> Shader {
        if self == LaunchOutput::Output {
            Shader::AttentionCooperative
        } else {
            Shader::AttentionCooperativeGrad
        }
    }

    /// Returns whether rows of the output are keys instead of queries.
    fn by_keys(self) -> bool {
        !matches!(self, LaunchOutput::Output | LaunchOutput::Query)
    }

    /// Returns whether the launch computes the gradients of scores, for dq and dk.
    fn has_score_grads(self) -> bool {
        !matches!(self, LaunchOutput::Output | LaunchOutput::Value)
    }

    /// Returns whether the launch stores weights in workgroup memory, for y and dv.
    fn has_weights(self) -> bool {
        !matches!(self, LaunchOutput::Query | LaunchOutput::Key)
    }

    /// Returns the workgroup memory for `lines` rows in bytes, as the shaders declare it.
    fn bytes(self, width: usize, lines: u32) -> u32 {
        let tiles = 2 * 32 * (width as u32 / 4 + 2) * 8;
        let (scores, f16_scores) = (9 * 16, 10 * 8);
        let [score_grads, weights] = [self.has_score_grads(), self.has_weights()].map(u32::from);
        let line = scores + score_grads * (scores + f16_scores) + weights * f16_scores;
        let numbers = match self {
            LaunchOutput::Output => 4 * lines,
            _ if self.by_keys() => 32 * 8,
            _ => 0,
        };
        tiles + lines * line + numbers
    }

    /// Returns the number of rows of a workgroup: the one that was fastest in measurements, or
    /// fewer if workgroup memory is too small.
    fn lines(self, call: &Call<'_>, width: usize) -> u32 {
        let best = if self == LaunchOutput::Output && width > 64 { 128 } else { 64 };
        let max_bytes = call.gpu.limits.max_compute_workgroup_storage_size;
        [best, 64].into_iter().find(|&lines| self.bytes(width, lines) <= max_bytes).unwrap_or(MIN_LINES)
    }

    /// Returns the placeholders of gradients: the operands, and which matrices are computed from
    /// them.
    fn operands(self) -> [Fill; 8] {
        let by_keys = self.by_keys();
        [
            if by_keys { PackedLeft::K } else { PackedLeft::Q }.into(),
            if by_keys { PackedRight::Q } else { PackedRight::K }.into(),
            if by_keys { PackedGradLeft::V } else { PackedGradLeft::Dy }.into(),
            if by_keys { PackedGradRight::Dy } else { PackedGradRight::V }.into(),
            Constant::ByKeys.is_one_if(by_keys),
            Constant::ByQueries.is_one_if(!by_keys),
            Constant::ScoreGrads.is_one_if(self.has_score_grads()),
            Constant::Weights.is_one_if(self.has_weights()),
        ]
    }

    /// Returns the tensors that the gradient shader writes as `out` and `other`.
    fn outputs<'a>(self, call: &Call<'a>) -> (Option<View<'a>>, Option<View<'a>>) {
        let score_grads = call.outputs[usize::from(self.by_keys())];
        let weights = self.has_weights().then(|| call.outputs[2]);
        (self.has_score_grads().then_some(score_grads), weights)
    }
}

/// Packs the tensors of a call, if this path supports them.
pub(super) fn pack(
    call: &Call<'_>,
    config: &AttentionConfig,
    tensors: &[View<'_>],
    written: &[View<'_>],
) -> Result<Option<PackedF16>> {
    if !is_supported(call, config, tensors, written)? {
        return Ok(None);
    }
    match PackedF16::of(call, config, tensors) {
        // Without memory, shaders that read the original tensors are used instead.
        Err(Error::OutOfMemory { .. }) => Ok(None),
        packed => packed.map(Some),
    }
}

/// These tests run if `TERNION_EXPECT` names wgpu.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::options::Options;
    use half::{bf16, f16};
    use std::sync::Arc;
    use ternion_core::{Layout, Shape};
    use ternion_testing::suite;

    const HEADS: usize = 3;
    const LINES: usize = 130;
    const WIDTH: usize = 40;

    /// Returns the values of a tensor of three heads: multiples of 1/64 below 4, times a power of
    /// two that depends on the tensor.
    fn numbers(tensor: usize) -> Vec<f32> {
        let number = |index: usize| ((index * 7919 + tensor * 131) % 511) as f32 / 64.0 - 3.5;
        let factor = [1.0, 1024.0, 1.0 / 4096.0][tensor];
        (0..HEADS * LINES * WIDTH).map(|index| (bf16::from_f32(number(index)).to_f32()) * factor).collect()
    }

    /// Returns the exponent of the power of two that scales the largest value to between 2^15 and
    /// 2^16.
    fn power_of(numbers: &[f32]) -> i32 {
        let largest = numbers.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        15 - largest.log2().floor() as i32
    }

    fn read(gpu: &Arc<Gpu>, buffer: &Buffer, bytes: usize) -> Vec<u8> {
        let mut host = vec![0; bytes];
        gpu.download(buffer, 0, &mut host).expect("read");
        host
    }

    /// Packs q, k and v, `[1, 3, 130, 40]` each.
    fn pack_tensors(gpu: &Arc<Gpu>, numbers: &[Vec<f32>; 3]) -> PackedF16 {
        let layout = Layout::row_major(Shape::new(&[1, HEADS, LINES, WIDTH]).expect("a shape"));
        let upload = |numbers: &Vec<f32>| {
            let bits: Vec<u16> = numbers.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
            let buffer = gpu.alloc(bits.len() * 2).expect("memory");
            gpu.upload(bytemuck::cast_slice(&bits), &buffer, 0).expect("written");
            buffer
        };
        let buffers = numbers.each_ref().map(upload);
        let views = buffers.each_ref().map(|buffer| View { buffer, dtype: DType::BF16, layout: &layout });
        let config = AttentionConfig { scale: 0.25, ..AttentionConfig::PLAIN };
        let call = Call { gpu, name: "attention", inputs: &views, outputs: &[] };
        PackedF16::of(&call, &config, &views).expect("queued")
    }

    /// Head 0 is accepted. One of its elements is too small for f16, but negligible relative to its
    /// neighbors. Head 1 has a NaN among its keys, and head 2 has four values that f16 cannot
    /// represent.
    #[test]
    fn f16_operands_are_exact_or_rejected() {
        if !suite::expects("wgpu") {
            return;
        }
        let gpu = Gpu::open(0, Options::default()).expect("TERNION_EXPECT names wgpu");
        let mut all = [0, 1, 2].map(numbers);
        all[1][LINES * WIDTH + 77] = f32::NAN;
        all[0][9] = 1e-17;
        all[2][2 * LINES * WIDTH..][4..8].iter_mut().for_each(|x| *x *= 2f32.powi(-40));
        let packed = pack_tensors(&gpu, &all);
        let records: Vec<u32> =
            bytemuck::pod_collect_to_vec(&read(&gpu, &packed.records, HEADS * RECORD_WORDS * 4));
        let accepted: Vec<u32> = records.chunks(RECORD_WORDS).map(|record| record[0]).collect();
        assert_eq!(accepted, [1, 0, 0]);
        let powers = all.each_ref().map(|tensor| power_of(&tensor[..LINES * WIDTH]));
        assert_eq!(records[2..5], powers.map(|power| power as u32));
        let factor = f64::from(f32::from_bits(records[1])) / 2f64.powi(-powers[0] - powers[1]);
        assert!((factor / (0.25 * std::f64::consts::LOG2_E) - 1.0).abs() < 1e-6, "{factor}");
        for (tensor, power) in powers.into_iter().enumerate() {
            let bytes = packed.sizes.packed_bytes(tensor);
            let bits: Vec<u16> = bytemuck::pod_collect_to_vec(&read(&gpu, &packed.packed[tensor], bytes));
            for (index, &bits) in bits[..2 * CHUNK * 64].iter().enumerate() {
                let (line, column) = (index / 64, index % 64);
                let inside = line < LINES && column < WIDTH;
                let kept = inside && (tensor, index) != (0, 9);
                let expected = if kept { all[tensor][line * WIDTH + column] * 2f32.powi(power) } else { 0.0 };
                assert_eq!(
                    f16::from_bits(bits).to_f32(),
                    expected,
                    "tensor {tensor} line {line} column {column}"
                );
            }
        }
    }
}
