//! Softmax, its logarithm, and their gradients, along any axis.

use crate::call::Call;
use crate::launch::Launch;
use crate::operands::{Operands, merged_stride};
use crate::rows::{RowLayout, RowRequest, grid};
use crate::variant::pack_of;
use crate::variant::rows::{Packing, Rows};
use crate::variant::softmax::{CHUNKS, ColumnTile, SoftmaxVariant, teams};
use ternion_core::{DType, Error, Layout, Op, Result};

/// The kernels of the variants of rows and of columns, in the order of the source.
const FORWARD: usize = 0;
const GRADIENT: usize = 1;

/// Rows are split into chunks if there are fewer than `MAX_ROWS` (half of the multiprocessors of an
/// H100) and each has at least `MIN_COLUMNS` elements: with one block per row, most of the device
/// would be idle.
const MAX_ROWS: usize = 66;
const MIN_COLUMNS: usize = 32 << 10;
/// Packs of a chunk: eight iterations of a block.
const CHUNK_PACKS: usize = 4096;

const THREADS: usize = 256;

/// What distinguishes the ops.
struct SoftmaxParams {
    /// Whether the op is a log-softmax.
    is_log: bool,
    axis: usize,
    is_grad: bool,
}

fn params(op: &Op) -> Result<SoftmaxParams> {
    match op {
        Op::Softmax(op) => Ok(SoftmaxParams { is_log: false, axis: op.axis, is_grad: false }),
        Op::SoftmaxGrad(op) => Ok(SoftmaxParams { is_log: false, axis: op.axis, is_grad: true }),
        Op::LogSoftmax(op) => Ok(SoftmaxParams { is_log: true, axis: op.axis, is_grad: false }),
        Op::LogSoftmaxGrad(op) => Ok(SoftmaxParams { is_log: true, axis: op.axis, is_grad: true }),
        _ => Err(Error::invalid(op.name(), "is not softmax")),
    }
}

/// The parameters; mirrors `Softmax` in the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    x: u64,
    /// The statistics of each chunk, if rows are split.
    parts: u64,
    rows: u64,
    y_stride: i64,
    x_stride: i64,
    columns: u32,
    /// Packs of a chunk.
    chunk: u32,
}

/// The parameters; mirrors `SoftmaxGrad` in the kernels.
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
    chunk: u32,
}

/// The parameters; mirrors `SoftmaxColumns` in the kernels.
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
    let params = params(op)?;
    let dims = call.outputs[0].layout.shape().dims();
    let inner: usize = dims[params.axis + 1..].iter().product();
    super::check_fits_rows(call.name, dims[params.axis].max(inner))?;
    if call.outputs[0].layout.elements() == 0 {
        return Ok(());
    }
    match inner {
        1 => launch_rows(call, &params),
        _ => launch_columns(call, &params, inner),
    }
}

fn launch_rows(call: &Call<'_>, params: &SoftmaxParams) -> Result<()> {
    let (gpu, dtype) = (call.gpu, call.outputs[0].dtype);
    let columns = call.outputs[0].layout.shape().dim(params.axis);
    let count = call.outputs[0].layout.elements() / columns;
    let mut operands = Operands::new(call);
    let tensors = if params.is_grad { 2 } else { 1 };
    // x, or y and dy, followed by the output.
    let mut layouts = [RowLayout { address: 0, stride: 0 }; 3];
    for index in 0..tensors {
        layouts[index] = operands.input_rows(index, params.axis)?;
    }
    layouts[tensors] = operands.output_rows(0, params.axis)?;
    let layouts = &layouts[..=tensors];
    let request = RowRequest { dtype, columns, layouts, max_shared_memory: gpu.max_shared_memory() };
    let row_kernel = Rows::choose(
        &request,
        |packing| teams(params.is_log, dtype, packing),
        |rows, packs| rows.stored_bytes(dtype, packs, tensors),
    )?;
    let is_chunked = !params.is_log
        && row_kernel.rows.packing != Packing::Single
        && count < MAX_ROWS
        && columns >= MIN_COLUMNS;
    let chunks = if is_chunked { row_kernel.packs.div_ceil(CHUNK_PACKS) } else { 0 };
    let workspace = gpu.workspace(chunks * count * 2 * dtype.accumulator().size())?;
    let launches = match is_chunked {
        true => {
            // Two kernels of forward, then two of the gradient: statistics of chunks, then results.
            let variant = SoftmaxVariant::Chunks(dtype);
            let kernel = if params.is_grad { 2 } else { 0 };
            let launch = Launch {
                grid: [chunks as u32, count as u32, 1],
                ..Launch::new(variant, kernel, 0, CHUNKS.threads() as u32)
            };
            [Some(launch), Some(Launch { kernel: kernel + 1, ..launch })]
        }
        false => {
            let variant = SoftmaxVariant::Rows { log: params.is_log, rows: row_kernel.rows, dtype };
            let kernel = if params.is_grad { GRADIENT } else { FORWARD };
            [Some(row_kernel.launch(call.name, variant, kernel, count)?), None]
        }
    };
    for launch in launches.into_iter().flatten() {
        match layouts {
            [y, dy, dx] => {
                let parameters = GradParameters {
                    dx: dx.address,
                    y: y.address,
                    dy: dy.address,
                    parts: workspace.address(),
                    rows: count as u64,
                    dx_stride: dx.stride,
                    y_stride: y.stride,
                    dy_stride: dy.stride,
                    columns: columns as u32,
                    chunk: CHUNK_PACKS as u32,
                };
                gpu.launch(call.name, launch, &parameters)?;
            }
            _ => {
                let [x, y] = [layouts[0], layouts[1]];
                let parameters = Parameters {
                    y: y.address,
                    x: x.address,
                    parts: workspace.address(),
                    rows: count as u64,
                    y_stride: y.stride,
                    x_stride: x.stride,
                    columns: columns as u32,
                    chunk: CHUNK_PACKS as u32,
                };
                gpu.launch(call.name, launch, &parameters)?;
            }
        }
    }
    operands.finish()
}

/// Returns the strides of the merged axes before `axis` and of `axis`, if those before it can be
/// merged and those after it are contiguous.
fn outer_and_axis(layout: &Layout, axis: usize) -> Option<[i64; 2]> {
    let (outer, inner) =
        (merged_stride(layout, 0..axis)?, merged_stride(layout, axis + 1..layout.shape().rank())?);
    (inner == 1).then(|| [outer, layout.strides()[axis] as i64])
}

fn launch_columns(call: &Call<'_>, params: &SoftmaxParams, inner: usize) -> Result<()> {
    let (gpu, dtype) = (call.gpu, call.outputs[0].dtype);
    let axis = call.outputs[0].layout.shape().dim(params.axis);
    let outer = call.outputs[0].layout.elements() / (axis * inner);
    let mut operands = Operands::new(call);
    let strides = |layout: &Layout| outer_and_axis(layout, params.axis);
    let (x, x_stride) = operands.input(0, strides)?;
    let (dy, dy_stride) = if params.is_grad { operands.input(1, strides)? } else { (0, [0; 2]) };
    let (y, y_stride) = operands.output(0, strides)?;
    let pack = pack_of(&[dtype]);
    let addresses_are_aligned = [x, dy, y].iter().all(|address| address.is_multiple_of(16));
    let strides_are_aligned =
        [x_stride, dy_stride, y_stride].iter().flatten().all(|stride| stride % pack as i64 == 0);
    let is_packed =
        dtype != DType::F64 && addresses_are_aligned && strides_are_aligned && inner.is_multiple_of(pack);
    let tile = ColumnTile::of(if is_packed { pack } else { 1 }, axis);
    let blocks = grid(call.name, outer * inner.div_ceil(tile.columns()))?;
    let variant = SoftmaxVariant::Columns { log: params.is_log, tile, dtype };
    let kernel = if params.is_grad { GRADIENT } else { FORWARD };
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
    gpu.launch(call.name, Launch::new(variant, kernel, blocks, THREADS as u32), &parameters)?;
    operands.finish()
}
