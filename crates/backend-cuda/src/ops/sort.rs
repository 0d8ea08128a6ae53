//! Sorting along an axis, and of pairs of a key and an index for scattering.

use crate::call::{Call, Selected};
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::memory::workspace::Workspace;
use crate::space::Space;
use crate::variant::index::IndexVariant;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::ops::index::Sort;
use ternion_core::{Error, MAX_RANK, Op, Result};

const THREADS: usize = 256;
/// The longest line that one block sorts.
const MAX_LINE: usize = 2048;
/// Elements whose digits are counted by one block.
const TILE: usize = 2048;
/// The number of values of a digit.
const DIGITS: usize = 256;
/// The bits of a digit.
const DIGIT_BITS: u32 = 8;
/// Lines of one launch of the tiled kernels: the maximum number of blocks along the second axis of
/// a grid.
const MAX_LINES: usize = 65535;

/// The kernels of the variant of an element type, in the order of the source.
const BLOCK: usize = 0;
const MAKE_KEYS: usize = 1;
/// The first of the three kernels of [`Pairs::sort`].
const COUNT: usize = 2;
const TAKE: usize = 5;

/// Supports every dtype.
pub(crate) fn select(_: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    Ok(Selected::row_major(run_sort))
}

/// The parameters; mirrors `SortLines` in the kernels.
#[repr(C)]
struct LineParameters {
    values: u64,
    positions: u64,
    x: u64,
    length: u32,
    descending: u32,
    value_step: i64,
    position_step: i64,
    x_step: i64,
    lines: Space<3>,
}

/// The parameters; mirrors `MakeKeys` in the kernels.
#[repr(C)]
struct KeyParameters {
    keys: u64,
    indices: u64,
    x: u64,
    length: u32,
    descending: u32,
    x_step: i64,
    lines: Space<1>,
}

/// The parameters; mirrors `Digits` in the kernels.
#[repr(C)]
struct DigitParameters {
    keys: u64,
    indices: u64,
    keys_out: u64,
    indices_out: u64,
    /// How often each digit occurs in each tile.
    counts: u64,
    length: u32,
    tiles: u32,
    /// The position of the digit's lowest bit in a key.
    shift: u32,
}

/// The parameters; mirrors `Take` in the kernels.
#[repr(C)]
struct TakeParameters {
    values: u64,
    positions: u64,
    x: u64,
    indices: u64,
    length: u32,
    value_step: i64,
    position_step: i64,
    x_step: i64,
    lines: Space<3>,
}

/// The lines of values, positions and x along the sorted axis.
struct Lines {
    /// The other axes, of values, positions and x.
    space: Space<3>,
    /// The other axes, of x.
    x_only: Space<1>,
    /// The number of lines.
    count: usize,
    length: usize,
    /// Strides of values, positions and x along the sorted axis.
    steps: [i64; 3],
}

impl Lines {
    fn of(axis: usize, views: [&View<'_>; 3]) -> Lines {
        let shape = views[2].layout.shape();
        let strides = |axis: usize| views.map(|view| view.layout.strides()[axis] as i64);
        let axes: SmallVec<[(usize, [i64; 3]); MAX_RANK]> = (0..shape.rank())
            .filter(|&other| other != axis)
            .map(|other| (shape.dim(other), strides(other)))
            .collect();
        let of_x: SmallVec<[(usize, [i64; 1]); MAX_RANK]> =
            axes.iter().map(|&(size, strides)| (size, [strides[2]])).collect();
        Lines {
            space: Space::in_order(&axes),
            x_only: Space::in_order(&of_x),
            count: axes.iter().map(|(size, _)| size).product(),
            length: shape.dim(axis),
            steps: strides(axis),
        }
    }
}

fn run_sort(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Sort(payload) = op else { return Err(Error::invalid(call.name, "is not sort")) };
    sort(call, payload, [&call.outputs[0], &call.outputs[1], &call.inputs[0]])
}

fn sort(call: &Call<'_>, payload: &Sort, views: [&View<'_>; 3]) -> Result<()> {
    let lines = Lines::of(payload.axis, views);
    super::check_fits(call.name, &[lines.count, lines.length])?;
    if lines.count == 0 || lines.length == 0 {
        return Ok(());
    }
    if lines.length > MAX_LINE && lines.count > MAX_LINES {
        return sort_in_groups(call, payload, views, lines.count);
    }
    let [values, positions, x] = views.map(|view| call.gpu.address(call.name, view));
    let addresses = [values?, positions?, x?];
    let descending = u32::from(payload.descending);
    match lines.length <= MAX_LINE {
        true => short(call, &lines, addresses, descending),
        false => long(call, &lines, addresses, descending),
    }
}

/// Sorts more lines than the tiled kernels support at once, in groups that are split along the
/// longest of the other axes.
fn sort_in_groups(call: &Call<'_>, payload: &Sort, views: [&View<'_>; 3], count: usize) -> Result<()> {
    let shape = *views[2].layout.shape();
    let others = (0..shape.rank()).filter(|&axis| axis != payload.axis);
    let axis = others.max_by_key(|&axis| shape.dim(axis)).unwrap_or(0);
    for (from, size) in groups(shape.dim(axis), count, MAX_LINES) {
        let layouts = views.map(|view| view.layout.slice(axis, from, (from + size) as isize, 1));
        let [values, positions, x] = layouts;
        let layouts = [values?, positions?, x?];
        let group = |index: usize| View { layout: &layouts[index], ..*views[index] };
        sort(call, payload, [&group(0), &group(1), &group(2)])?;
    }
    Ok(())
}

/// Returns the start and the length of groups along an axis of `size`. Each group has at most
/// `max_lines` of the `count` lines, unless one index has more lines.
fn groups(size: usize, count: usize, max_lines: usize) -> impl Iterator<Item = (usize, usize)> {
    let group_size = (max_lines / (count / size.max(1)).max(1)).max(1);
    (0..size).step_by(group_size).map(move |from| (from, group_size.min(size - from)))
}

/// Sorts lines of at most [`MAX_LINE`] elements, each by one block.
fn short(call: &Call<'_>, lines: &Lines, [values, positions, x]: [u64; 3], descending: u32) -> Result<()> {
    let [value_step, position_step, x_step] = lines.steps;
    let parameters = LineParameters {
        values,
        positions,
        x,
        length: lines.length as u32,
        descending,
        value_step,
        position_step,
        x_step,
        lines: lines.space,
    };
    let variant = IndexVariant::Sort(call.inputs[0].dtype);
    call.gpu.launch(call.name, Launch::new(variant, BLOCK, lines.count as u32, THREADS as u32), &parameters)
}

/// Sorts longer lines by their digits: makes keys, sorts them, and stores the elements in the order
/// of the keys.
fn long(call: &Call<'_>, lines: &Lines, [values, positions, x]: [u64; 3], descending: u32) -> Result<()> {
    let (gpu, op, dtype) = (call.gpu, call.name, call.inputs[0].dtype);
    let variant = IndexVariant::Sort(dtype);
    let mut pairs = Pairs::new(gpu, lines.count, lines.length, if dtype.size() == 8 { 8 } else { 4 })?;
    let [value_step, position_step, x_step] = lines.steps;
    let grid = [lines.length.div_ceil(THREADS) as u32, lines.count as u32, 1];
    let launch = |kernel: usize| Launch { grid, ..Launch::new(variant, kernel, 0, THREADS as u32) };
    let keys = KeyParameters {
        keys: pairs.keys[0].address(),
        indices: pairs.indices[0].address(),
        x,
        length: lines.length as u32,
        descending,
        x_step,
        lines: lines.x_only,
    };
    gpu.launch(op, launch(MAKE_KEYS), &keys)?;
    pairs.sort(gpu, op, variant, COUNT, 8 * dtype.size() as u32)?;
    let take = TakeParameters {
        values,
        positions,
        x,
        indices: pairs.indices[0].address(),
        length: lines.length as u32,
        value_step,
        position_step,
        x_step,
        lines: lines.space,
    };
    gpu.launch(op, launch(TAKE), &take)
}

/// Keys and their indices, with a second buffer for each, to which a pass moves them.
pub(crate) struct Pairs {
    pub(crate) keys: [Workspace; 2],
    pub(crate) indices: [Workspace; 2],
    counts: Workspace,
    lines: usize,
    length: usize,
}

impl Pairs {
    /// Allocates lines of pairs, with keys of 4 or 8 bytes.
    pub(crate) fn new(gpu: &Gpu, lines: usize, length: usize, key_bytes: usize) -> Result<Pairs> {
        let total = lines * length;
        let workspace = |bytes: usize| gpu.workspace(total * bytes);
        Ok(Pairs {
            keys: [workspace(key_bytes)?, workspace(key_bytes)?],
            indices: [workspace(4)?, workspace(4)?],
            counts: gpu.workspace(lines * DIGITS * length.div_ceil(TILE) * 4)?,
            lines,
            length,
        })
    }

    /// Sorts by the lowest `bits` bits of the keys. `first` is the index of the kernel `count` in
    /// `variant`, which is followed by `offsets` and `scatter_sorted`.
    pub(crate) fn sort(
        &mut self,
        gpu: &Gpu,
        op: &'static str,
        variant: IndexVariant,
        first: usize,
        bits: u32,
    ) -> Result<()> {
        let tiles = self.length.div_ceil(TILE) as u32;
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            let parameters = DigitParameters {
                keys: self.keys[0].address(),
                indices: self.indices[0].address(),
                keys_out: self.keys[1].address(),
                indices_out: self.indices[1].address(),
                counts: self.counts.address(),
                length: self.length as u32,
                tiles,
                shift,
            };
            let launch = |kernel: usize, grid: [u32; 3]| Launch {
                grid,
                ..Launch::new(variant, first + kernel, 0, THREADS as u32)
            };
            let lines = self.lines as u32;
            gpu.launch(op, launch(0, [tiles, lines, 1]), &parameters)?;
            gpu.launch(op, launch(1, [lines, 1, 1]), &parameters)?;
            gpu.launch(op, launch(2, [tiles, lines, 1]), &parameters)?;
            self.keys.swap(0, 1);
            self.indices.swap(0, 1);
        }
        Ok(())
    }
}

/// Sorts pairs of one line with 32-bit keys by their lowest `bits` bits.
pub(crate) fn sort_keys(gpu: &Gpu, op: &'static str, pairs: &mut Pairs, bits: u32) -> Result<()> {
    pairs.sort(gpu, op, IndexVariant::SortKeys, 0, bits)
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn groups_cover_an_axis_once() {
        let of = |size, count, most| groups(size, count, most).collect::<Vec<_>>();
        assert_eq!(of(100_000, 100_000, 65_535), [(0, 65_535), (65_535, 34_465)]);
        assert_eq!(of(5, 500_000, 65_535), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        assert_eq!(of(300, 90_000, 65_535), [(0, 218), (218, 82)]);
    }
}
