//! Layer and RMS normalization of rows, and their gradients.

use crate::call::Call;
use crate::launch::Launch;
use crate::operands::Operands;
use crate::ops::copy::copy;
use crate::ops::elementwise::run_binary;
use crate::rows::{RowKernel, RowLayout, RowRequest};
use crate::variant::norm::{NormVariant, grad_teams, mixes, rows_together, teams};
use crate::variant::rows::{RowStorage, Rows};
use smallvec::SmallVec;
use ternion_core::backend::{Buffer, View};
use ternion_core::ops::binary::{Binary, BinaryOp};
use ternion_core::ops::norm::{LayerNormGrad, RmsNormGrad};
use ternion_core::{DType, Error, Layout, Op, Result};

/// The kernels of [`NormVariant::Sums`].
const PARAMETER_GRAD: usize = 0;
const COLUMN_SUMS: usize = 1;

/// Rows per thread that the gradient's kernel keeps in shared memory, like `STAGES` there.
const STAGES: usize = 3;
/// The numbers of blocks that loop over the rows, each with separate sums, if a multiprocessor of
/// an H100 runs four, two or one of them at a time. They are the same on every device, so that the
/// order of the sums is the same.
const BLOCKS: [usize; 3] = [528, 264, 132];
/// The maximum number of threads of a block if a multiprocessor runs four blocks.
const QUARTER_THREADS: usize = 64;
/// The maximum bytes of shared memory of a block if a multiprocessor runs two blocks.
const HALF_SHARED_BYTES: usize = 64 << 10;

/// For the kernel `norm_rows_parameter_grad`: the threads, the columns and the minimum number of
/// rows of a block, and the maximum number of blocks along the rows.
const PARAMETER_THREADS: u32 = 256;
const PARAMETER_COLUMNS: usize = 32;
const PARAMETER_ROWS: usize = 64;
const PARAMETER_BLOCKS: usize = 4096;

/// For the kernel `column_sums`: the threads and the columns of a block.
const SUM_THREADS: u32 = 1024;
const SUM_COLUMNS: usize = 32;

/// The parameters; mirrors `Norm` in the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    /// The mean of each row; 0 for RMS normalization.
    mean: u64,
    /// The reciprocal standard deviation of each row; for RMS normalization, the reciprocal root
    /// mean square.
    rstd: u64,
    x: u64,
    weight: u64,
    bias: u64,
    rows: u64,
    y_stride: i64,
    x_stride: i64,
    eps: f64,
    columns: u32,
}

/// The parameters; mirrors `NormGrad` in the kernels.
#[repr(C)]
struct GradParameters {
    dx: u64,
    /// The partial sums of the parameters' gradients.
    partials: u64,
    x: u64,
    dy: u64,
    mean: u64,
    rstd: u64,
    weight: u64,
    /// A gradient that is added to dx, or 0.
    residual: u64,
    /// A copy of dx in the dtype of dy, or 0.
    rounded: u64,
    rows: u64,
    dx_stride: i64,
    x_stride: i64,
    dy_stride: i64,
    residual_stride: i64,
    rounded_stride: i64,
    columns: u32,
    rows_per_block: u32,
}

/// The parameters; mirrors `ColumnSums` in the kernels.
#[repr(C)]
struct SumParameters {
    sums: [u64; 2],
    partials: u64,
    columns: u32,
    count: u32,
}

/// Returns the rows and columns of `[.., columns]`.
fn rows_and_columns(view: &View<'_>) -> (usize, usize) {
    match view.layout.shape().dims().split_last() {
        Some((&columns, rows)) => (rows.iter().product(), columns),
        None => (1, 1),
    }
}

/// Returns whether the chosen kernel supports rows of dtype `other` together with rows of `dtype`,
/// and can add the gradient of a residual.
fn fuses(row_kernel: &RowKernel, dtype: DType, other: DType) -> bool {
    let Rows { packing, team } = row_kernel.rows;
    (other == dtype || mixes(dtype, packing, other)) && team.storage == RowStorage::Registers
}

/// Allocates a contiguous tensor of `dtype` with the shape of `view`.
fn dense(call: &Call<'_>, view: &View<'_>, dtype: DType) -> Result<(Buffer, Layout)> {
    let layout = Layout::row_major(*view.layout.shape());
    Ok((Buffer::new(call.gpu.alloc(layout.elements() * dtype.size())?), layout))
}

/// Computes f32 rows and then casts them to the requested dtype.
#[cold]
fn run_and_cast(op: &Op, call: &Call<'_>) -> Result<()> {
    let dtype = call.inputs[0].dtype;
    let (buffer, layout) = dense(call, &call.outputs[0], dtype)?;
    let mut outputs: SmallVec<[View<'_>; 3]> = call.outputs.into();
    outputs[0] = View { buffer: &buffer, dtype, layout: &layout };
    run(op, &Call { outputs: &outputs, ..*call })?;
    copy(call.gpu, call.name, &outputs[0], &call.outputs[0])
}

/// Computes the gradient with a kernel that takes dy in the dtype of x, and then adds the
/// residual's gradient.
#[cold]
fn run_grad_unfused(op: &Op, call: &Call<'_>, grad: &Grad) -> Result<()> {
    let dtype = call.inputs[0].dtype;
    let (buffer, layout) = dense(call, &call.inputs[grad.dy], dtype)?;
    let mut inputs: SmallVec<[View<'_>; 6]> = call.inputs.into();
    let residual = if grad.residual { inputs.pop() } else { None };
    let dy = View { buffer: &buffer, dtype, layout: &layout };
    copy(call.gpu, call.name, &inputs[grad.dy], &dy)?;
    inputs[grad.dy] = dy;
    let plain = match op {
        Op::LayerNormGrad(op) => Op::from(LayerNormGrad { residual: false, rounds: false, ..*op }),
        Op::RmsNormGrad(op) => Op::from(RmsNormGrad { residual: false, rounds: false, ..*op }),
        _ => return Err(Error::invalid(call.name, "is not a gradient of a normalization of rows")),
    };
    let (outputs, rounded) = call.outputs.split_at(call.outputs.len() - usize::from(grad.rounds));
    run_grad(&plain, &Call { inputs: &inputs, outputs, ..*call })?;
    if let Some(residual) = residual {
        let sum = Call { inputs: &[residual, outputs[0]], outputs: &outputs[..1], ..*call };
        run_binary(&Op::from(Binary { op: BinaryOp::Add }), &sum)?;
    }
    rounded.iter().try_for_each(|rounded| copy(call.gpu, call.name, &outputs[0], rounded))
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let (centered, eps, weight, bias) = match op {
        Op::LayerNorm(op) => (true, op.eps, op.weight, op.bias),
        Op::RmsNorm(op) => (false, op.eps, op.weight, false),
        _ => return Err(Error::invalid(call.name, "is not a normalization of rows")),
    };
    let (gpu, dtype) = (call.gpu, call.inputs[0].dtype);
    let (count, columns) = rows_and_columns(&call.inputs[0]);
    super::check_fits_rows(call.name, columns)?;
    let mut operands = Operands::new(call);
    let last_axis = call.inputs[0].layout.shape().rank() - 1;
    let (x, y) = (operands.input_rows(0, last_axis)?, operands.output_rows(0, last_axis)?);
    let mut vector = |index: Option<usize>| index.map_or(Ok(0), |index| operands.dense_input(index));
    let weight_address = vector(weight.then_some(1))?;
    let bias_address = vector(bias.then_some(1 + usize::from(weight)))?;
    // An absent vector has address 0, which has every alignment.
    let layouts = [
        x,
        y,
        RowLayout { address: weight_address, stride: 0 },
        RowLayout { address: bias_address, stride: 0 },
    ];
    let request =
        RowRequest { dtype, columns, layouts: &layouts, max_shared_memory: gpu.max_shared_memory() };
    let row_kernel = Rows::choose(&request, |packing| teams(dtype, packing), |_, _| 0)?;
    let y_dtype = call.outputs[0].dtype;
    if y_dtype != dtype && !fuses(&row_kernel, dtype, y_dtype) {
        return run_and_cast(op, call);
    }
    let parameters = Parameters {
        y: y.address,
        mean: if centered { operands.dense_output(1)? } else { 0 },
        rstd: operands.dense_output(1 + usize::from(centered))?,
        x: x.address,
        weight: weight_address,
        bias: bias_address,
        rows: count as u64,
        y_stride: y.stride,
        x_stride: x.stride,
        eps,
        columns: columns as u32,
    };
    let variant = NormVariant::Forward { centered, rows: row_kernel.rows, dtype, y: y_dtype };
    gpu.launch(call.name, row_kernel.launch(call.name, variant, 0, count)?, &parameters)?;
    operands.finish()
}

/// Returns the number of blocks that loop over `count` rows.
fn persistent_blocks(row_kernel: &RowKernel, count: usize) -> usize {
    let max_blocks = match row_kernel {
        _ if row_kernel.rows.team.threads() <= QUARTER_THREADS => BLOCKS[0],
        _ if row_kernel.shared_bytes <= HALF_SHARED_BYTES => BLOCKS[1],
        _ => BLOCKS[2],
    };
    count.div_ceil(row_kernel.rows.per_block()).min(max_blocks)
}

/// The properties of a normalization's gradient.
struct Grad {
    /// True for layer normalization, false for RMS normalization.
    centered: bool,
    /// The index of the input dy.
    dy: usize,
    /// Whether there is a weight.
    weight: bool,
    /// Whether there is a bias.
    bias: bool,
    /// Whether the residual's gradient is the last input.
    residual: bool,
    /// Whether dx, rounded, is the last output.
    rounds: bool,
}

impl Grad {
    fn of(op: &Op, call: &Call<'_>) -> Result<Grad> {
        match *op {
            Op::LayerNormGrad(LayerNormGrad { weight, bias, residual, rounds }) => {
                Ok(Grad { centered: true, dy: 3, weight, bias, residual, rounds })
            }
            Op::RmsNormGrad(RmsNormGrad { weight, residual, rounds }) => {
                Ok(Grad { centered: false, dy: 2, weight, bias: false, residual, rounds })
            }
            _ => Err(Error::invalid(call.name, "is not a gradient of a normalization of rows")),
        }
    }

    fn has_sums(&self) -> bool {
        self.weight || self.bias
    }
}

/// Returns the kernel for rows of the gradient, with its shared memory: a ring buffer for rows, if
/// blocks loop over them.
fn grad_row_kernel(call: &Call<'_>, columns: usize, layouts: &[RowLayout]) -> Result<RowKernel> {
    let dtype = call.inputs[0].dtype;
    let request = RowRequest { dtype, columns, layouts, max_shared_memory: call.gpu.max_shared_memory() };
    let ring = |rows: &Rows, _: usize| match rows.team.storage {
        RowStorage::Registers => {
            let packs = 2 * STAGES * rows_together(rows, dtype) * rows.team.packs() * rows.threads();
            packs * rows.packing.pack(dtype) * dtype.size()
        }
        _ => 0,
    };
    Rows::choose(&request, |packing| grad_teams(dtype, packing), ring)
}

/// How the sums of the parameters' gradients are split. If blocks loop over rows, each block has a
/// partial sum; otherwise each chunk of rows has one.
struct Partials {
    /// Whether the kernel of the gradient computes them.
    is_persistent: bool,
    count: usize,
    /// The number of sums of each column.
    sums: usize,
    rows_per_block: usize,
}

impl Partials {
    fn of(grad: &Grad, row_kernel: &RowKernel, rows: usize) -> Partials {
        let is_persistent = row_kernel.rows.team.storage == RowStorage::Registers;
        let rows_per_block = PARAMETER_ROWS.max(rows.div_ceil(PARAMETER_BLOCKS));
        let (count, sums) = match is_persistent {
            true => (persistent_blocks(row_kernel, rows), 1 + usize::from(grad.centered)),
            false if grad.has_sums() => (rows.div_ceil(rows_per_block), 2),
            false => (0, 2),
        };
        Partials { is_persistent, count, sums, rows_per_block }
    }

    /// Computes the parameters' gradients, given the `parameters` of the gradient's kernel.
    fn sum(&self, call: &Call<'_>, parameters: &GradParameters, sums: [u64; 2]) -> Result<()> {
        let (gpu, variant) = (call.gpu, NormVariant::Sums(call.inputs[0].dtype));
        let columns = parameters.columns as usize;
        if !self.is_persistent {
            let blocks = columns.div_ceil(PARAMETER_COLUMNS) as u32;
            let launch = Launch::new(variant, PARAMETER_GRAD, blocks, PARAMETER_THREADS);
            gpu.launch(call.name, Launch { grid: [blocks, self.count as u32, 1], ..launch }, parameters)?;
        }
        let blocks = columns.div_ceil(SUM_COLUMNS) as u32;
        let sums = SumParameters {
            sums,
            partials: parameters.partials,
            columns: parameters.columns,
            count: self.count as u32,
        };
        let launch = Launch::new(variant, COLUMN_SUMS, blocks, SUM_THREADS);
        gpu.launch(call.name, Launch { grid: [blocks, self.sums as u32, 1], ..launch }, &sums)
    }
}

pub(crate) fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let grad = Grad::of(op, call)?;
    let (gpu, dtype) = (call.gpu, call.inputs[0].dtype);
    let (count, columns) = rows_and_columns(&call.inputs[0]);
    super::check_fits_rows(call.name, columns)?;
    let mut operands = Operands::new(call);
    let last_axis = call.inputs[0].layout.shape().rank() - 1;
    let (x, dx) = (operands.input_rows(0, last_axis)?, operands.output_rows(0, last_axis)?);
    let mean = if grad.centered { operands.dense_input(1)? } else { 0 };
    let rstd = operands.dense_input(grad.dy - 1)?;
    let dy = operands.input_rows(grad.dy, last_axis)?;
    let weight = if grad.weight { operands.dense_input(grad.dy + 1)? } else { 0 };
    let dweight = if grad.weight { operands.dense_output(1)? } else { 0 };
    let dbias = if grad.bias { operands.dense_output(1 + usize::from(grad.weight))? } else { 0 };

    let no_rows = RowLayout { address: 0, stride: 0 };
    let residual =
        if grad.residual { operands.input_rows(call.inputs.len() - 1, last_axis)? } else { no_rows };
    let rounded =
        if grad.rounds { operands.output_rows(call.outputs.len() - 1, last_axis)? } else { no_rows };
    let layouts = [x, dx, dy, residual, rounded, RowLayout { address: weight, stride: 0 }];
    let row_kernel = grad_row_kernel(call, columns, &layouts)?;
    let dy_dtype = call.inputs[grad.dy].dtype;
    if (dy_dtype != dtype || grad.residual || grad.rounds) && !fuses(&row_kernel, dtype, dy_dtype) {
        return run_grad_unfused(op, call, &grad);
    }
    let partials = Partials::of(&grad, &row_kernel, count);
    let workspace = gpu.workspace(partials.count * partials.sums * columns * dtype.accumulator().size())?;
    let parameters = GradParameters {
        dx: dx.address,
        partials: workspace.address(),
        x: x.address,
        dy: dy.address,
        mean,
        rstd,
        weight,
        residual: residual.address,
        rounded: rounded.address,
        rows: count as u64,
        dx_stride: dx.stride,
        x_stride: x.stride,
        dy_stride: dy.stride,
        residual_stride: residual.stride,
        rounded_stride: rounded.stride,
        columns: columns as u32,
        rows_per_block: partials.rows_per_block as u32,
    };
    let variant = NormVariant::Grad { centered: grad.centered, rows: row_kernel.rows, dtype, dy: dy_dtype };
    let mut launch = row_kernel.launch(call.name, variant, 0, count)?;
    if partials.is_persistent {
        launch.grid[0] = partials.count as u32;
    }
    gpu.launch(call.name, launch, &parameters)?;
    if grad.has_sums() {
        partials.sum(call, &parameters, [dweight, dbias])?;
    }
    operands.finish()
}
