//! Sorting along an axis, and of (key, number) pairs for scattering.

use crate::gpu::{Gpu, Launch, Scratch};
use crate::select::{Call, Variant};
use crate::sources::{Family, Unit};
use crate::space::Space;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::{DType, Error, MAX_RANK, Op, Result};

const THREADS: usize = 256;
/// The longest line that one block sorts.
const LINE: usize = 2048;
/// Elements whose digits are counted by one block.
const TILE: usize = 2048;
/// Values of a digit, and its bits.
const DIGITS: usize = 256;
const DIGIT_BITS: u32 = 8;
/// Lines of one launch of the tiled kernels: the most blocks along the second axis of a grid.
const LINES: usize = 65535;

/// The kernels of the unit of an element type, in the order of the source.
const BLOCK: usize = 0;
const MAKE_KEYS: usize = 1;
const COUNT: usize = 2;
const TAKE: usize = 5;

/// Every dtype.
pub(crate) fn select(_: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant::row_major(run_sort))
}

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

#[repr(C)]
struct KeyParameters {
    keys: u64,
    numbers: u64,
    x: u64,
    length: u32,
    descending: u32,
    x_step: i64,
    lines: Space<1>,
}

#[repr(C)]
struct DigitParameters {
    keys: u64,
    numbers: u64,
    keys_out: u64,
    numbers_out: u64,
    counts: u64,
    length: u32,
    tiles: u32,
    shift: u32,
}

#[repr(C)]
struct TakeParameters {
    values: u64,
    positions: u64,
    x: u64,
    numbers: u64,
    length: u32,
    value_step: i64,
    position_step: i64,
    x_step: i64,
    lines: Space<3>,
}

/// The lines along the sorted axis: of values, positions and x.
struct Lines {
    space: Space<3>,
    x_only: Space<1>,
    count: usize,
    length: usize,
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
    let views = [&call.outputs[0], &call.outputs[1], &call.inputs[0]];
    let lines = Lines::of(payload.axis, views);
    super::fits(call.name, &[lines.count, lines.length])?;
    if lines.count == 0 || lines.length == 0 {
        return Ok(());
    }
    let [values, positions, x] = views.map(|view| call.gpu.address(call.name, view));
    let addresses = [values?, positions?, x?];
    let descending = u32::from(payload.descending);
    match lines.length <= LINE {
        true => short(call, &lines, addresses, descending),
        false => long(call, &lines, addresses, descending),
    }
}

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
    let unit = Unit::of(Family::Sort, "", call.inputs[0].dtype);
    call.gpu.launch(call.name, Launch::new(unit, BLOCK, lines.count as u32, THREADS as u32), &parameters)
}

fn long(call: &Call<'_>, lines: &Lines, [values, positions, x]: [u64; 3], descending: u32) -> Result<()> {
    if lines.count > LINES {
        let detail = format!(
            "{} lines of {} elements: fewer than 65536 lines of more than 2048 elements are sorted at once",
            lines.count, lines.length
        );
        return Err(Error::invalid(call.name, detail));
    }
    let (gpu, op, dtype) = (call.gpu, call.name, call.inputs[0].dtype);
    let unit = Unit::of(Family::Sort, "", dtype);
    let mut pairs = Pairs::new(gpu, lines.count, lines.length, if dtype.size() == 8 { 8 } else { 4 })?;
    let [value_step, position_step, x_step] = lines.steps;
    let grid = [lines.length.div_ceil(THREADS) as u32, lines.count as u32, 1];
    let launch = |kernel: usize| Launch { grid, ..Launch::new(unit, kernel, 0, THREADS as u32) };
    let keys = KeyParameters {
        keys: pairs.keys[0].address(),
        numbers: pairs.numbers[0].address(),
        x,
        length: lines.length as u32,
        descending,
        x_step,
        lines: lines.x_only,
    };
    gpu.launch(op, launch(MAKE_KEYS), &keys)?;
    pairs.sort(gpu, op, unit, COUNT, 8 * dtype.size() as u32)?;
    let take = TakeParameters {
        values,
        positions,
        x,
        numbers: pairs.numbers[0].address(),
        length: lines.length as u32,
        value_step,
        position_step,
        x_step,
        lines: lines.space,
    };
    gpu.launch(op, launch(TAKE), &take)
}

/// Keys and the numbers that belong to them, with room to move them to.
pub(crate) struct Pairs {
    pub(crate) keys: [Scratch; 2],
    pub(crate) numbers: [Scratch; 2],
    counts: Scratch,
    lines: usize,
    length: usize,
}

impl Pairs {
    /// Room for lines of pairs, with keys of 4 or 8 bytes.
    pub(crate) fn new(gpu: &Gpu, lines: usize, length: usize, key_bytes: usize) -> Result<Pairs> {
        let total = lines * length;
        let room = |bytes: usize| gpu.scratch(total * bytes);
        Ok(Pairs {
            keys: [room(key_bytes)?, room(key_bytes)?],
            numbers: [room(4)?, room(4)?],
            counts: gpu.scratch(lines * DIGITS * length.div_ceil(TILE) * 4)?,
            lines,
            length,
        })
    }

    /// Sorts by the lowest `bits` bits of the keys; `first` is the kernel `count` of `unit`, after which `offsets` and `place` come.
    pub(crate) fn sort(
        &mut self,
        gpu: &Gpu,
        op: &'static str,
        unit: Unit,
        first: usize,
        bits: u32,
    ) -> Result<()> {
        let tiles = self.length.div_ceil(TILE) as u32;
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            let parameters = DigitParameters {
                keys: self.keys[0].address(),
                numbers: self.numbers[0].address(),
                keys_out: self.keys[1].address(),
                numbers_out: self.numbers[1].address(),
                counts: self.counts.address(),
                length: self.length as u32,
                tiles,
                shift,
            };
            let launch = |kernel: usize, grid: [u32; 3]| Launch {
                grid,
                ..Launch::new(unit, first + kernel, 0, THREADS as u32)
            };
            let lines = self.lines as u32;
            gpu.launch(op, launch(0, [tiles, lines, 1]), &parameters)?;
            gpu.launch(op, launch(1, [lines, 1, 1]), &parameters)?;
            gpu.launch(op, launch(2, [tiles, lines, 1]), &parameters)?;
            self.keys.swap(0, 1);
            self.numbers.swap(0, 1);
        }
        Ok(())
    }
}

/// Sorts pairs of one line with 32-bit keys by their lowest `bits` bits.
pub(crate) fn sort_keys(gpu: &Gpu, op: &'static str, pairs: &mut Pairs, bits: u32) -> Result<()> {
    pairs.sort(gpu, op, Unit::of(Family::SortKeys, "", DType::I32), 0, bits)
}
