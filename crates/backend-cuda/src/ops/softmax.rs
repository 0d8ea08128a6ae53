//! Softmax, its logarithm, and their gradients, along any axis.

use crate::gpu::Launch;
use crate::operands::{Operands, even};
use crate::rows::{Packing, Place, Rows, Team, Wanted, grid};
use crate::select::Call;
use crate::sources::{Family, Unit, pack_of};
use ternion_core::{DType, Error, Layout, Op, Result};

/// The kernels of each form: the ops themselves, or the first of two launches, then their gradients.
const FORWARD: usize = 0;
const GRADIENT: usize = 1;

/// Rows that are fewer than this and longer than that are cut into stretches: a block for a row would leave most of the device idle.
const FEW: usize = 66;
const LONG: usize = 32 << 10;
/// Packs of a stretch: eight rounds of a block.
const STRETCH: usize = 4096;
/// What takes its stretches.
const STRETCHES: Rows = Rows { packing: Packing::Masked, team: Team::LONGEST };

const THREADS: usize = 256;

/// What an op asks for: its logarithm, its axis, and whether it is a gradient.
struct Form {
    name: &'static str,
    axis: usize,
    gradient: bool,
}

fn form(op: &Op) -> Result<Form> {
    match op {
        Op::Softmax(op) => Ok(Form { name: "softmax", axis: op.axis, gradient: false }),
        Op::SoftmaxGrad(op) => Ok(Form { name: "softmax", axis: op.axis, gradient: true }),
        Op::LogSoftmax(op) => Ok(Form { name: "log_softmax", axis: op.axis, gradient: false }),
        Op::LogSoftmaxGrad(op) => Ok(Form { name: "log_softmax", axis: op.axis, gradient: true }),
        _ => Err(Error::invalid(op.name(), "is not softmax")),
    }
}

/// The teams of rows. Of the logarithm, which mostly is part of a loss that has a kernel of its own, only some.
fn teams(name: &str, dtype: DType, packing: Packing) -> &'static [Team] {
    const fn registers(threads: usize, packs: usize) -> Team {
        Team::registers(threads, packs)
    }
    let is_log = name == "log_softmax";
    // 64 bytes of a thread in halves, 128 in f32, whose exponentials take longer.
    match (packing, dtype) {
        (_, DType::F64) => &[const { registers(32, 8) }, Team::LONGEST],
        (Packing::Single, _) => &[const { Team::memory(32, 2048) }, Team::LONGEST],
        (Packing::Whole, _) if is_log => &[],
        (_, DType::F32) if is_log => &[
            const { registers(32, 8) },
            const { registers(128, 8) },
            const { registers(512, 8) },
            Team::LONGEST,
        ],
        (_, _) if is_log => &[
            const { registers(32, 4) },
            const { registers(128, 4) },
            const { registers(512, 4) },
            Team::LONGEST,
        ],
        (Packing::Whole, DType::F32) => &[
            const { registers(8, 1) },
            const { registers(8, 4) },
            const { registers(32, 4) },
            const { registers(32, 8) },
            const { registers(128, 4) },
            const { registers(128, 8) },
            const { registers(256, 8) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Whole, _) => &[
            const { registers(8, 1) },
            const { registers(8, 4) },
            const { registers(32, 2) },
            const { registers(32, 4) },
            const { registers(128, 2) },
            const { registers(128, 4) },
            const { registers(256, 4) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Masked, DType::F32) => &[
            const { registers(8, 1) },
            const { registers(32, 8) },
            const { registers(128, 8) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Masked, _) => &[
            const { registers(8, 1) },
            const { registers(32, 4) },
            const { registers(128, 4) },
            Team::SHARED,
            Team::LONGEST,
        ],
    }
}

/// How the kernels of columns are cut: elements of a pack, and packs of a block side by side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tile {
    pub(crate) pack: usize,
    pub(crate) across: usize,
}

impl Tile {
    const NARROW: usize = 4;
    const WIDE: usize = 32;

    /// Long columns want many threads along themselves, so that few packs lie side by side.
    fn of(pack: usize, axis: usize) -> Tile {
        Tile { pack, across: if pack > 1 && axis > 128 { Tile::NARROW } else { Tile::WIDE } }
    }
}

/// Everything that the functions here ask for.
pub(crate) fn units() -> Vec<Unit> {
    let mut units = Vec::new();
    for (name, dtype) in
        ["softmax", "log_softmax"].iter().flat_map(|&name| DType::FLOATS.map(|dtype| (name, dtype)))
    {
        for packing in [Packing::Whole, Packing::Masked, Packing::Single] {
            if dtype == DType::F64 && packing != Packing::Single {
                continue;
            }
            let teams = teams(name, dtype, packing).iter();
            units.extend(teams.map(|&team| Unit::of(Family::Softmax(Rows { packing, team }), name, dtype)));
        }
        if dtype != DType::F64 && name == "softmax" {
            units.push(Unit::of(Family::SoftmaxStretches(STRETCHES), name, dtype));
        }
        let pack = pack_of(&[dtype]);
        let mut tiles = vec![Tile::of(1, 0)];
        if dtype != DType::F64 {
            tiles.extend([Tile::of(pack, 0), Tile::of(pack, 1024)]);
        }
        units.extend(tiles.iter().map(|&tile| Unit::of(Family::SoftmaxColumns(tile), name, dtype)));
    }
    units
}

/// The parameters, as `Softmax` of the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    x: u64,
    parts: u64,
    rows: u64,
    y_stride: i64,
    x_stride: i64,
    columns: u32,
    stretch: u32,
}

/// The parameters, as `SoftmaxGrad` of the kernels.
#[repr(C)]
struct GradParameters {
    dx: u64,
    y: u64,
    dy: u64,
    parts: u64,
    rows: u64,
    dx_stride: i64,
    y_stride: i64,
    dy_stride: i64,
    columns: u32,
    stretch: u32,
}

/// The parameters, as `SoftmaxColumns` of the kernels.
#[repr(C)]
struct ColumnParameters {
    y: u64,
    x: u64,
    dy: u64,
    outer: u64,
    y_stride: [i64; 2],
    x_stride: [i64; 2],
    dy_stride: [i64; 2],
    axis: u32,
    inner: u32,
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let form = form(op)?;
    let dims = call.outputs[0].layout.shape().dims();
    let inner: usize = dims[form.axis + 1..].iter().product();
    super::fits_rows(call.name, dims[form.axis].max(inner))?;
    if call.outputs[0].layout.elements() == 0 {
        return Ok(());
    }
    match inner {
        1 => rows(call, &form),
        _ => columns(call, &form, inner),
    }
}

fn rows(call: &Call<'_>, form: &Form) -> Result<()> {
    let (gpu, dtype) = (call.gpu, call.outputs[0].dtype);
    let columns = call.outputs[0].layout.shape().dim(form.axis);
    let count = call.outputs[0].layout.elements() / columns;
    let mut operands = Operands::new(call);
    let tensors = if form.gradient { 2 } else { 1 };
    // x, or y and dy; then what is written.
    let mut places = [Place { address: 0, stride: 0 }; 3];
    for at in 0..tensors {
        places[at] = operands.input_rows(at, form.axis)?;
    }
    places[tensors] = operands.output_rows(0, form.axis)?;
    let places = &places[..=tensors];
    let wanted = Wanted { dtype, columns, places, room: gpu.shared_memory() };
    let chosen = Rows::choose(
        &wanted,
        |packing| teams(form.name, dtype, packing),
        |rows, packs| rows.held(dtype, packs, tensors),
    )?;
    let in_stretches =
        form.name == "softmax" && chosen.rows.packing != Packing::Single && count < FEW && columns >= LONG;
    let stretches = if in_stretches { chosen.packs.div_ceil(STRETCH) } else { 0 };
    let scratch = gpu.scratch(stretches * count * 2 * dtype.accumulator().size())?;
    let launches = match in_stretches {
        true => {
            let unit = Unit::of(Family::SoftmaxStretches(STRETCHES), form.name, dtype);
            let kernel = if form.gradient { 2 } else { 0 };
            let launch = Launch {
                grid: [stretches as u32, count as u32, 1],
                ..Launch::new(unit, kernel, 0, STRETCHES.threads() as u32)
            };
            [Some(launch), Some(Launch { kernel: kernel + 1, ..launch })]
        }
        false => {
            let unit = Unit::of(Family::Softmax(chosen.rows), form.name, dtype);
            let kernel = if form.gradient { GRADIENT } else { FORWARD };
            [Some(chosen.launch(call.name, unit, kernel, count)?), None]
        }
    };
    for launch in launches.into_iter().flatten() {
        match places {
            [y, dy, dx] => {
                let parameters = GradParameters {
                    dx: dx.address,
                    y: y.address,
                    dy: dy.address,
                    parts: scratch.address(),
                    rows: count as u64,
                    dx_stride: dx.stride,
                    y_stride: y.stride,
                    dy_stride: dy.stride,
                    columns: columns as u32,
                    stretch: STRETCH as u32,
                };
                gpu.launch(call.name, launch, &parameters)?;
            }
            _ => {
                let [x, y] = [places[0], places[1]];
                let parameters = Parameters {
                    y: y.address,
                    x: x.address,
                    parts: scratch.address(),
                    rows: count as u64,
                    y_stride: y.stride,
                    x_stride: x.stride,
                    columns: columns as u32,
                    stretch: STRETCH as u32,
                };
                gpu.launch(call.name, launch, &parameters)?;
            }
        }
    }
    operands.finish()
}

/// Strides of the axes before `axis` and of `axis`, where the former lie evenly and those behind it next to each other.
fn outer_and_axis(layout: &Layout, axis: usize) -> Option<[i64; 2]> {
    let (outer, inner) = (even(layout, 0..axis)?, even(layout, axis + 1..layout.shape().rank())?);
    (inner == 1).then(|| [outer, layout.strides()[axis] as i64])
}

fn columns(call: &Call<'_>, form: &Form, inner: usize) -> Result<()> {
    let (gpu, dtype) = (call.gpu, call.outputs[0].dtype);
    let axis = call.outputs[0].layout.shape().dim(form.axis);
    let outer = call.outputs[0].layout.elements() / (axis * inner);
    let mut operands = Operands::new(call);
    let suits = |layout: &Layout| outer_and_axis(layout, form.axis);
    let (x, x_stride) = operands.input(0, suits)?;
    let (dy, dy_stride) = if form.gradient { operands.input(1, suits)? } else { (0, [0; 2]) };
    let (y, y_stride) = operands.output(0, suits)?;
    let pack = pack_of(&[dtype]);
    let even_addresses = [x, dy, y].iter().all(|address| address.is_multiple_of(16));
    let even_strides =
        [x_stride, dy_stride, y_stride].iter().flatten().all(|stride| stride % pack as i64 == 0);
    let is_packed = dtype != DType::F64 && even_addresses && even_strides && inner.is_multiple_of(pack);
    let tile = Tile::of(if is_packed { pack } else { 1 }, axis);
    let blocks = grid(call.name, outer * inner.div_ceil(tile.pack * tile.across))?;
    let unit = Unit::of(Family::SoftmaxColumns(tile), form.name, dtype);
    let kernel = if form.gradient { GRADIENT } else { FORWARD };
    let parameters = ColumnParameters {
        y,
        x,
        dy,
        outer: outer as u64,
        y_stride,
        x_stride,
        dy_stride,
        axis: axis as u32,
        inner: inner as u32,
    };
    gpu.launch(call.name, Launch::new(unit, kernel, blocks, THREADS as u32), &parameters)?;
    operands.finish()
}
