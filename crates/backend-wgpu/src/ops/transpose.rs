//! Tiled copies of tensors that are transposed in memory.

use crate::gpu::{Gpu, Launch};
use crate::names::{Constant, CopyTile, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::smallvec;
use ternion_core::Result;
use ternion_core::backend::View;

/// The parameters of transpose.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct Parameters {
    launched: u32,
    rank: u32,
    x_step: u32,
    y_step: u32,
    lines: u32,
    columns: u32,
    horizontal_tiles: u32,
    vertical_tiles: u32,
    batches: u32,
    _padding: [u32; 3],
    offsets: [u32; 4],
    space: Space,
}

/// Columns of x in a tile, as in transpose.wgsl.
const COLUMNS: u32 = 64;

/// Minimum number of rows and columns for which a tiled copy is faster, despite the pass through
/// workgroup memory.
const MIN_SIZE: u32 = 16;

/// A tiled copy.
pub(crate) struct Transpose {
    parameters: Parameters,
    /// Elements in a word: 1 or 2.
    per_word: u32,
}

impl Transpose {
    /// Returns the copy if `y` is contiguous and `x` is contiguous along an axis other than the
    /// last one. With two elements in a word, all sizes and steps must be even.
    pub(crate) fn of(gpu: &Gpu, op: &'static str, x: &View<'_>, y: &View<'_>) -> Result<Option<Transpose>> {
        let per_word = match x.dtype.size() {
            4 => 1,
            2 => 2,
            _ => return Ok(None),
        };
        let countable = (1..1 << 31).contains(&y.layout.elements());
        if x.dtype != y.dtype || !countable || !y.layout.is_contiguous() || x.layout.is_contiguous() {
            return Ok(None);
        }
        // Tensors with several bindings are copied by elementwise.wgsl, one slice after another.
        if !gpu.fits(op, x)? || !gpu.fits(op, y)? {
            return Ok(None);
        }
        let (space, rank) = Space::of(&[y.layout, x.layout]);
        let offsets = [gpu.bind(op, y)?.1, gpu.bind(op, x)?.1];
        Ok(Transpose::of_space(&space, rank as usize, offsets, per_word))
    }

    fn of_space(space: &Space, rank: usize, offsets: [u32; 2], per_word: u32) -> Option<Transpose> {
        let [y, x, ..] = &space.strides;
        let last = rank - 1;
        let vertical = (0..last).rfind(|&axis| x[axis] == 1)?;
        let [rows, columns] = [vertical, last].map(|axis| space.sizes[axis]);
        let is_word_aligned =
            |number: &u32| number.is_multiple_of(per_word) && (per_word == 1 || number >> 31 == 0);
        // The strides of all axes except the last axis of y and axis `vertical` of x. x may have
        // stride 1 along several axes, which overlap.
        let y_steps = (0..last).map(|axis| y[axis]);
        let mut steps = y_steps.chain((0..rank).filter(|&axis| axis != vertical).map(|axis| x[axis]));
        let all_aligned = offsets.iter().chain([&rows, &columns]).all(is_word_aligned)
            && steps.all(|step| is_word_aligned(&step));
        if x[last] == 1 || rows.min(columns) < MIN_SIZE || !all_aligned {
            return None;
        }
        let batch = (0..last).filter(|&axis| axis != vertical);
        let batch: Vec<(usize, Vec<i64>)> = batch
            .map(|axis| {
                (space.sizes[axis] as usize, [y, x].map(|steps| i64::from(steps[axis] / per_word)).to_vec())
            })
            .collect();
        let batches = batch.iter().map(|(size, _)| *size as u32).product();
        let (space, batch_rank) = if batch.is_empty() { (Space::EMPTY, 1) } else { Space::from_axes(&batch) };
        let lines = rows / per_word;
        let parameters = Parameters {
            launched: 0,
            rank: batch_rank,
            x_step: x[last] / per_word,
            y_step: y[vertical] / per_word,
            lines,
            columns,
            horizontal_tiles: columns.div_ceil(COLUMNS),
            vertical_tiles: lines.div_ceil(COLUMNS / per_word),
            batches,
            _padding: [0; 3],
            offsets: [offsets[0] / per_word, offsets[1] / per_word, 0, 0],
            space,
        };
        Some(Transpose { parameters, per_word })
    }

    /// Queues the copy.
    pub(crate) fn launch(&self, gpu: &Gpu, op: &'static str, x: &View<'_>, y: &View<'_>) -> Result<()> {
        let Transpose { parameters, per_word } = self;
        let variant = Variant::new(Shader::Transpose, Class::Byte)
            .fill(if *per_word == 1 { CopyTile::Words } else { CopyTile::Pairs })
            .fill(Constant::Lines.is(COLUMNS / per_word))
            .slot(SlotName::Y, StorageFormat::RawWord, Access::Words)
            .slot(SlotName::X, StorageFormat::RawWord, Access::Read);
        let bindings = smallvec![gpu.bind(op, y)?.0, gpu.bind(op, x)?.0];
        let tiles = [parameters.horizontal_tiles, parameters.vertical_tiles, parameters.batches];
        let groups = tiles.iter().map(|&number| number as usize).product();
        gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(parameters))
    }
}
