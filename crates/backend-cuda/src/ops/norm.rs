//! Layer and RMS normalisation of rows, and their gradients.

use crate::gpu::Launch;
use crate::operands::Operands;
use crate::rows::{Chosen, Hold, Packing, Place, Rows, Team, Wanted};
use crate::select::Call;
use crate::sources::{Family, Unit};
use ternion_core::backend::View;
use ternion_core::{DType, Error, Op, Result};

/// The kernels of [`Family::NormSums`].
const PARAMETER_GRAD: usize = 0;
const COLUMN_SUMS: usize = 1;

/// Rows of a thread that the gradient's kernel has in shared memory: as `STAGES` there.
const STAGES: usize = 3;
/// Blocks that walk over the rows, each with sums of its own, by how much of a multiprocessor one takes: a quarter, a half, or all of it.
/// Numbers that do not depend on the device, so that the order of the sums does not either; they are those of an H100.
const BLOCKS: [usize; 3] = [528, 264, 132];
/// Threads of a block of which a multiprocessor has four, and bytes of shared memory of one of which it has two.
const QUARTER: usize = 64;
const HALF: usize = 64 << 10;

/// Blocks of `norm_rows_parameter_grad`: columns and, at least, rows of one; and how many there may be along the rows.
const PARAMETER_THREADS: u32 = 256;
const PARAMETER_COLUMNS: usize = 32;
const PARAMETER_ROWS: usize = 64;
const PARAMETER_BLOCKS: usize = 4096;

const SUM_THREADS: u32 = 1024;
const SUM_COLUMNS: usize = 32;

/// Both normalisations, by the names of their units.
const NAMES: [&str; 2] = ["layer", "rms"];

fn teams(dtype: DType, packing: Packing) -> &'static [Team] {
    match (packing, dtype) {
        (Packing::Masked, _) => &[],
        (Packing::Whole, DType::F32) => &[
            const { Team::registers(8, 1) },
            const { Team::registers(8, 4) },
            const { Team::registers(32, 4) },
            const { Team::registers(32, 8) },
            const { Team::registers(128, 4) },
            const { Team::registers(128, 8) },
            const { Team::registers(256, 8) },
            const { Team::registers(512, 8) },
        ],
        (Packing::Whole, _) => &[
            const { Team::registers(8, 1) },
            const { Team::registers(8, 4) },
            const { Team::registers(32, 2) },
            const { Team::registers(32, 4) },
            const { Team::registers(128, 2) },
            const { Team::registers(128, 4) },
            const { Team::registers(256, 4) },
            const { Team::registers(512, 4) },
        ],
        (Packing::Single, _) => &[const { Team::registers(32, 8) }, Team::LONGEST],
    }
}

/// Teams of the gradient. Those with registers form the parameters' sums on the way; the longest rows are read once more for them.
fn grad_teams(dtype: DType, packing: Packing) -> &'static [Team] {
    match (packing, dtype) {
        (Packing::Masked, _) => &[],
        (Packing::Whole, DType::F32) => &[
            const { Team::registers(16, 2) },
            const { Team::registers(32, 4) },
            const { Team::registers(64, 4) },
            const { Team::registers(256, 2) },
            const { Team::registers(512, 2) },
            const { Team::registers(512, 4) },
        ],
        (Packing::Whole, _) => &[
            const { Team::registers(16, 2) },
            const { Team::registers(32, 2) },
            const { Team::registers(64, 2) },
            const { Team::registers(128, 2) },
            const { Team::registers(512, 1) },
            const { Team::registers(512, 2) },
        ],
        (Packing::Single, _) => &[const { Team::registers(32, 4) }, Team::LONGEST],
    }
}

/// Rows of a team in one turn of the gradient's kernel, `TOGETHER` there. Halves have twice the work for their bytes: two rows of theirs share
/// the exchange of their sums; with one the kernel waits for itself, not for memory.
pub(crate) fn rows_together(rows: &Rows, dtype: DType) -> usize {
    let halves = dtype.size() == 2 && rows.packing == Packing::Whole;
    if halves && rows.team.hold == Hold::Registers && rows.team.threads >= 32 { 2 } else { 1 }
}

/// Everything that the functions here ask for.
pub(crate) fn units() -> Vec<Unit> {
    let mut units: Vec<Unit> = DType::FLOATS.map(|dtype| Unit::of(Family::NormSums, "", dtype)).into();
    for (name, dtype) in NAMES.iter().flat_map(|&name| DType::FLOATS.map(|dtype| (name, dtype))) {
        for packing in [Packing::Whole, Packing::Single] {
            if dtype == DType::F64 && packing == Packing::Whole {
                continue;
            }
            let rows = |&team: &Team| Rows { packing, team };
            let forward = teams(dtype, packing).iter().map(rows);
            units.extend(forward.map(|rows| Unit::of(Family::Norm(rows), name, dtype)));
            let gradient = grad_teams(dtype, packing).iter().map(rows);
            units.extend(gradient.map(|rows| Unit::of(Family::NormGrad(rows), name, dtype)));
        }
    }
    units
}

/// The parameters, as `Norm` of the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    mean: u64,
    reciprocal: u64,
    x: u64,
    weight: u64,
    bias: u64,
    rows: u64,
    y_stride: i64,
    x_stride: i64,
    eps: f64,
    columns: u32,
}

/// The parameters, as `NormGrad` of the kernels.
#[repr(C)]
struct GradParameters {
    dx: u64,
    partials: u64,
    x: u64,
    dy: u64,
    mean: u64,
    reciprocal: u64,
    weight: u64,
    rows: u64,
    dx_stride: i64,
    x_stride: i64,
    dy_stride: i64,
    columns: u32,
    rows_per_block: u32,
}

/// The parameters, as `ColumnSums` of the kernels.
#[repr(C)]
struct SumParameters {
    sums: [u64; 2],
    partials: u64,
    columns: u32,
    count: u32,
}

/// Rows and columns of `[.., columns]`.
fn matrix(view: &View<'_>) -> (usize, usize) {
    match view.layout.shape().dims().split_last() {
        Some((&columns, rows)) => (rows.iter().product(), columns),
        None => (1, 1),
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let (name, eps, weight, bias) = match op {
        Op::LayerNorm(op) => (NAMES[0], op.eps, op.weight, op.bias),
        Op::RmsNorm(op) => (NAMES[1], op.eps, op.weight, false),
        _ => return Err(Error::invalid(call.name, "is no normalisation of rows")),
    };
    let (gpu, dtype) = (call.gpu, call.inputs[0].dtype);
    let (count, columns) = matrix(&call.inputs[0]);
    super::fits_rows(call.name, columns)?;
    let mut operands = Operands::new(call);
    let last = call.inputs[0].layout.shape().rank() - 1;
    let (x, y) = (operands.input_rows(0, last)?, operands.output_rows(0, last)?);
    let mut vector = |at: Option<usize>| at.map_or(Ok(0), |at| operands.dense_input(at));
    let weight_address = vector(weight.then_some(1))?;
    let bias_address = vector(bias.then_some(1 + usize::from(weight)))?;
    // An absent vector has address 0, which suits everything.
    let places =
        [x, y, Place { address: weight_address, stride: 0 }, Place { address: bias_address, stride: 0 }];
    let wanted = Wanted { dtype, columns, places: &places, room: gpu.shared_memory() };
    let chosen = Rows::choose(&wanted, |packing| teams(dtype, packing), |_, _| 0)?;
    let is_centred = name == NAMES[0];
    let parameters = Parameters {
        y: y.address,
        mean: if is_centred { operands.dense_output(1)? } else { 0 },
        reciprocal: operands.dense_output(1 + usize::from(is_centred))?,
        x: x.address,
        weight: weight_address,
        bias: bias_address,
        rows: count as u64,
        y_stride: y.stride,
        x_stride: x.stride,
        eps,
        columns: columns as u32,
    };
    let unit = Unit::of(Family::Norm(chosen.rows), name, dtype);
    gpu.launch(call.name, chosen.launch(call.name, unit, 0, count)?, &parameters)?;
    operands.finish()
}

/// Blocks that walk over `count` rows.
fn walkers(chosen: &Chosen, count: usize) -> usize {
    let most = match chosen {
        _ if chosen.rows.team.threads <= QUARTER => BLOCKS[0],
        _ if chosen.shared <= HALF => BLOCKS[1],
        _ => BLOCKS[2],
    };
    count.div_ceil(chosen.rows.per_block()).min(most)
}

pub(crate) fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    // The place of dy, and which parameters there are.
    let (name, dy, weight, bias) = match op {
        Op::LayerNormGrad(op) => (NAMES[0], 3, op.weight, op.bias),
        Op::RmsNormGrad(op) => (NAMES[1], 2, op.weight, false),
        _ => return Err(Error::invalid(call.name, "is no gradient of a normalisation of rows")),
    };
    let is_centred = name == NAMES[0];
    let (gpu, dtype) = (call.gpu, call.inputs[0].dtype);
    let (count, columns) = matrix(&call.inputs[0]);
    super::fits_rows(call.name, columns)?;
    let mut operands = Operands::new(call);
    let last = call.inputs[0].layout.shape().rank() - 1;
    let (x, dx) = (operands.input_rows(0, last)?, operands.output_rows(0, last)?);
    let mean = if is_centred { operands.dense_input(1)? } else { 0 };
    let reciprocal = operands.dense_input(dy - 1)?;
    let dy_place = operands.input_rows(dy, last)?;
    let weight_address = if weight { operands.dense_input(dy + 1)? } else { 0 };
    let dweight = if weight { operands.dense_output(1)? } else { 0 };
    let dbias = if bias { operands.dense_output(1 + usize::from(weight))? } else { 0 };

    let places = [x, dx, dy_place, Place { address: weight_address, stride: 0 }];
    let wanted = Wanted { dtype, columns, places: &places, room: gpu.shared_memory() };
    let ring = |rows: &Rows, _: usize| match rows.team.hold {
        Hold::Registers => {
            let packs = 2 * STAGES * rows_together(rows, dtype) * rows.team.packs * rows.threads();
            packs * rows.packing.pack(dtype) * dtype.size()
        }
        _ => 0,
    };
    let chosen = Rows::choose(&wanted, |packing| grad_teams(dtype, packing), ring)?;
    let walks = chosen.rows.team.hold == Hold::Registers;
    let has_sums = weight || bias;
    // Where rows are walked over the partials are those of the blocks; where not, those of stretches of the rows.
    let rows_per_block = PARAMETER_ROWS.max(count.div_ceil(PARAMETER_BLOCKS));
    let (partials, sums) = match walks {
        true => (walkers(&chosen, count), 1 + usize::from(is_centred)),
        false if has_sums => (count.div_ceil(rows_per_block), 2),
        false => (0, 2),
    };
    let scratch = gpu.scratch(partials * sums * columns * dtype.accumulator().size())?;
    let parameters = GradParameters {
        dx: dx.address,
        partials: scratch.address(),
        x: x.address,
        dy: dy_place.address,
        mean,
        reciprocal,
        weight: weight_address,
        rows: count as u64,
        dx_stride: dx.stride,
        x_stride: x.stride,
        dy_stride: dy_place.stride,
        columns: columns as u32,
        rows_per_block: rows_per_block as u32,
    };
    let unit = Unit::of(Family::NormGrad(chosen.rows), name, dtype);
    let mut launch = chosen.launch(call.name, unit, 0, count)?;
    if walks {
        launch.grid[0] = partials as u32;
    }
    gpu.launch(call.name, launch, &parameters)?;
    if has_sums {
        let unit = Unit::of(Family::NormSums, "", dtype);
        if !walks {
            let across = columns.div_ceil(PARAMETER_COLUMNS) as u32;
            let launch = Launch::new(unit, PARAMETER_GRAD, across, PARAMETER_THREADS);
            gpu.launch(call.name, Launch { grid: [across, partials as u32, 1], ..launch }, &parameters)?;
        }
        let across = columns.div_ceil(SUM_COLUMNS) as u32;
        let parameters = SumParameters {
            sums: [dweight, dbias],
            partials: scratch.address(),
            columns: columns as u32,
            count: partials as u32,
        };
        let launch = Launch::new(unit, COLUMN_SUMS, across, SUM_THREADS);
        gpu.launch(call.name, Launch { grid: [across, sums as u32, 1], ..launch }, &parameters)?;
    }
    operands.finish()
}
