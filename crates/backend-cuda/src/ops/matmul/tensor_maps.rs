//! Products whose operands and results are copied by TMA: which layouts it supports, and the
//! launch.

use super::choice::Choice;
use super::operand::Operand;
use super::tile_grid::TileGrid;
use super::{PRODUCT, Parameters, SUM_PARTS, SUM_SPLITS, Sizes};
use crate::call::Call;
use crate::driver::tensor_map::{ALIGNMENT, Axes, Swizzle, TensorMap, TensorMapSpec};
use crate::launch::Launch;
use crate::memory::workspace::Workspace;
use crate::ops::copy::copy;
use crate::space::Space;
use crate::variant::gemm::{EpilogueVariant, GemmVariant, LoadMode, Tile};
use smallvec::smallvec;
use ternion_core::backend::{Buffer, View};
use ternion_core::ops::matmul::Epilogue;
use ternion_core::{DType, Error, Layout, Result, Shape};

/// Batch axes of a map, in addition to the axes of its matrices.
pub(super) const BATCH_AXES: usize = 2;
/// Bytes of a row of a box: the width of the swizzle.
const LINE: usize = 128;
/// Threads of a block that adds partial sums.
const SUM_THREADS: usize = 256;
/// Rows of a whose partial sums a block adds: one for each lane.
const SUM_ROWS: usize = 32;

/// The parameters, like `TensorMapProduct` in the kernel.
#[repr(C)]
struct TensorMapParameters {
    maps: [TensorMap; 4],
    tiles: TileGrid,
    k: u32,
    split_length: u32,
    a_batch_axes: u32,
    b_batch_axes: u32,
    a_term_stride: u32,
    b_term_stride: u32,
    m: u32,
    n: u32,
    splits: u32,
    /// 1 if the kernel stores partial sums, which another kernel adds.
    is_partial: u32,
    alpha: f32,
    bias: u64,
    sums: u64,
    constants: [u64; 2],
    not_splittable: u64,
    /// The addresses of the partial sums and of the counters of splits, if the kernel adds the
    /// partial sums itself; otherwise 0.
    parts: u64,
    states: u64,
}

/// Returns whether boxes of `y` can be stored: its rows are contiguous and begin at multiples of 16
/// bytes.
pub(super) fn supports_output(y: &View<'_>, address: u64) -> bool {
    let (shape, strides) = (y.layout.shape(), y.layout.strides());
    let rank = shape.rank();
    let is_aligned = |axis: usize| {
        let stride = strides[axis];
        shape.dim(axis) <= 1
            || (stride > 0 && (stride as u64 * y.dtype.size() as u64).is_multiple_of(ALIGNMENT))
    };
    let rows_are_contiguous = strides[rank - 1] == 1 || shape.dim(rank - 1) == 1;
    // The partial sums of split-K have rows of n f32 elements.
    let columns = shape.dim(rank - 1) * y.dtype.size().min(4);
    // If y is row-major, its other strides are multiples of its columns.
    address.is_multiple_of(ALIGNMENT)
        && (columns as u64).is_multiple_of(ALIGNMENT)
        && (y.layout.is_row_major() || (rows_are_contiguous && (0..rank - 1).all(is_aligned)))
}

/// Returns whether boxes of the operand, or of its copy, can be loaded: its strides are not
/// negative, and the axes of its matrices are not broadcast.
pub(super) fn supports_operand(operand: &Operand<'_>) -> bool {
    let (shape, strides) = (operand.view.layout.shape(), operand.view.layout.strides());
    let rank = shape.rank();
    (0..rank).all(|axis| {
        let is_repeated = strides[axis] == 0 && axis >= rank - 2;
        shape.dim(axis) <= 1 || (strides[axis] >= 0 && !is_repeated)
    })
}

/// Returns whether a map has enough axes for the batch.
pub(super) fn supports_batch(batch: &Space<3>) -> bool {
    batch.rank as usize <= BATCH_AXES
}

/// A tensor of a product, as described by a map.
pub(super) struct MappedTensor {
    pub(super) address: u64,
    pub(super) dtype: DType,
    pub(super) rounds_to_tf32: bool,
    /// Elements of a contiguous run.
    pub(super) run: usize,
    /// The number of runs.
    pub(super) lines: usize,
    /// Elements between the starts of two runs.
    pub(super) line_stride: i64,
    /// The sizes of a box.
    pub(super) extents: [usize; 2],
    /// Size and stride of the axes of the batch, the inner one first; a stride of 0 for a broadcast
    /// axis.
    pub(super) batch: [(usize, i64); BATCH_AXES],
}

impl MappedTensor {
    pub(super) fn map(&self, op: &'static str) -> Result<TensorMap> {
        let swizzle = match self.extents[0] * self.dtype.size() {
            64 => Swizzle::Bytes64,
            _ => Swizzle::Bytes128,
        };
        let (mut axes, run) = Axes::beginning(self.dtype, self.run, self.extents[0]);
        let lines = axes.next(self.lines, self.line_stride, self.extents[1]);
        let batch = self.batch.map(|(count, stride)| axes.next(count, stride, 1));
        TensorMapSpec {
            address: self.address,
            dtype: self.dtype,
            rounds_to_tf32: self.rounds_to_tf32,
            swizzle,
            axes: smallvec![run, lines, batch[0], batch[1]],
        }
        .map(op)
    }
}

/// Returns the batch axes of the tensor with index `tensor` in the space (y, a, b), the inner one
/// first.
pub(super) fn batch_axes(batch: &Space<3>, tensor: usize) -> [(usize, i64); BATCH_AXES] {
    let rank = batch.rank as usize;
    let axis = |index: usize| match rank.checked_sub(index + 1) {
        Some(axis) if batch.sizes[axis] > 1 => (batch.sizes[axis] as usize, batch.strides[tensor][axis]),
        _ => (1, 0),
    };
    [axis(0), axis(1)]
}

/// Returns a bit for each batch axis that the tensor has.
pub(super) fn axes_bits(batch: [(usize, i64); BATCH_AXES]) -> u32 {
    (0..BATCH_AXES).filter(|&axis| batch[axis].1 != 0).map(|axis| 1 << axis).sum()
}

/// The map of an operand, and the other values that the kernel needs for it.
pub(super) struct OperandMap {
    pub(super) map: TensorMap,
    /// A bit for each batch axis that it has.
    pub(super) axes: u32,
    /// For operands in bf16 terms, the distance between terms along the outer axis of the batch.
    pub(super) term_stride: u32,
}

/// Returns the maps of the operands, or of their copies: the kernel's a and b, which are exchanged
/// if the tile swaps them.
pub(super) fn operand_maps(
    [a, b]: [&Operand<'_>; 2],
    choice: &Choice,
    batch: &Space<3>,
    op: &'static str,
) -> Result<[OperandMap; 2]> {
    let (tile, [a_load, b_load]) = (choice.tile, choice.loads);
    let [a_batch, b_batch] = [batch_axes(batch, 1), batch_axes(batch, 2)];
    let [row_operand, column_operand] = match tile.swaps_operands(choice.loads) {
        true => [(b, b_load, b_batch), (a, a_load, a_batch)],
        false => [(a, a_load, a_batch), (b, b_load, b_batch)],
    };
    // A block of a cluster loads a part of the lines: tiles that are adjacent along n share the row
    // operand, and tiles that are adjacent along m share the column operand.
    let map = |(operand, load, batch): (&Operand<'_>, _, _), lines: usize, blocks: usize| {
        let [run, lines] = operand_extents(load, tile, lines, operand.view.dtype.size());
        operand_map(operand, [run, lines / blocks], load, batch, op)
    };
    let [along_m, along_n] = tile.cluster_shape();
    Ok([map(row_operand, tile.block.m, along_n)?, map(column_operand, tile.block.n, along_m)?])
}

/// Returns the sizes of a box of an operand with elements of `size` bytes: along a run, and its
/// lines. If the operand is not k-major, the run is 128 bytes, and the lines are those of k.
pub(super) fn operand_extents(load: LoadMode, tile: &Tile, lines: usize, size: usize) -> [usize; 2] {
    match load.is_k_major() {
        true => [tile.block.k, lines],
        false => [LINE / size, tile.block.k],
    }
}

fn operand_map(
    operand: &Operand<'_>,
    extents: [usize; 2],
    load: LoadMode,
    batch: [(usize, i64); BATCH_AXES],
    op: &'static str,
) -> Result<OperandMap> {
    let (shape, strides) = (operand.view.layout.shape(), operand.view.layout.strides());
    let (run, line_axis) = match load.is_k_major() {
        true => (operand.inner_axis, operand.line_axis),
        false => (operand.line_axis, operand.inner_axis),
    };
    let mapped = MappedTensor {
        address: operand.address,
        dtype: operand.view.dtype,
        rounds_to_tf32: operand.view.dtype == DType::F32,
        run: shape.dim(run),
        lines: shape.dim(line_axis),
        line_stride: strides[line_axis] as i64,
        extents,
        batch,
    };
    Ok(OperandMap { map: mapped.map(op)?, axes: axes_bits(batch), term_stride: 0 })
}

/// Returns the map of a tensor that the kernel stores or that its epilogue reads: y or a tensor of
/// its shape.
fn output_map(
    y: &View<'_>,
    address: u64,
    sizes: &Sizes,
    batch: [(usize, i64); BATCH_AXES],
    box_lines: usize,
    op: &'static str,
) -> Result<TensorMap> {
    let stride = y.layout.strides()[y.layout.shape().rank() - 2] as i64;
    let extents = [LINE / y.dtype.size(), box_lines];
    let (dtype, rounds_to_tf32) = (y.dtype, false);
    MappedTensor {
        address,
        dtype,
        rounds_to_tf32,
        run: sizes.n,
        lines: sizes.m,
        line_stride: stride,
        extents,
        batch,
    }
    .map(op)
}

fn partial_map(
    address: u64,
    sizes: &Sizes,
    splits: usize,
    box_lines: usize,
    op: &'static str,
) -> Result<TensorMap> {
    let matrix = (sizes.m * sizes.n) as i64;
    MappedTensor {
        address,
        dtype: DType::F32,
        rounds_to_tf32: false,
        run: sizes.n,
        lines: sizes.m,
        line_stride: sizes.n as i64,
        extents: [LINE / DType::F32.size(), box_lines],
        batch: [(sizes.matrices, matrix), (splits, matrix * sizes.matrices as i64)],
    }
    .map(op)
}

/// The bias of a call, which the kernel reads in pairs of adjacent elements.
enum Bias {
    Unchanged,
    Copied(Buffer, Layout),
}

impl Bias {
    fn of(call: &Call<'_>) -> Result<Bias> {
        let view = &call.inputs[2];
        let address = call.gpu.address(call.name, view)?;
        if view.layout.is_contiguous() && address.is_multiple_of(2 * view.dtype.size() as u64) {
            return Ok(Bias::Unchanged);
        }
        let layout = Layout::row_major(*view.layout.shape());
        let buffer = Buffer::new(call.gpu.alloc(layout.elements() * view.dtype.size())?);
        copy(call.gpu, call.name, view, &View { buffer: &buffer, dtype: view.dtype, layout: &layout })?;
        Ok(Bias::Copied(buffer, layout))
    }

    fn address(&self, call: &Call<'_>) -> Result<u64> {
        let view = call.inputs[2];
        match self {
            Bias::Unchanged => call.gpu.address(call.name, &view),
            Bias::Copied(buffer, layout) => call.gpu.address(call.name, &View { buffer, layout, ..view }),
        }
    }
}

/// Partial sums of the columns of a result, each over some rows, before they are added.
struct ColumnSums {
    buffer: Buffer,
    layout: Layout,
}

impl ColumnSums {
    fn of(
        call: &Call<'_>,
        epilogue: &Epilogue,
        sizes: &Sizes,
        variant: &GemmVariant,
    ) -> Result<Option<ColumnSums>> {
        if !epilogue.column_sums {
            return Ok(None);
        }
        let layout = Layout::row_major(Shape::new(&[variant.column_sum_partials(sizes.m), sizes.n])?);
        let buffer = Buffer::new(call.gpu.alloc(layout.elements() * DType::F32.size())?);
        Ok(Some(ColumnSums { buffer, layout }))
    }

    fn view(&self) -> View<'_> {
        View { buffer: &self.buffer, dtype: DType::F32, layout: &self.layout }
    }

    fn address(&self, call: &Call<'_>) -> Result<u64> {
        call.gpu.address(call.name, &self.view())
    }

    fn launch_sums(&self, call: &Call<'_>) -> Result<()> {
        super::compute_column_sums(call, self.view(), call.outputs[1])
    }
}

/// Partial sums of the rows of a, each over some stages, before they are added.
struct RowSums {
    workspace: Workspace,
    parts: usize,
}

/// The parameters, like `SumParts` in the kernel.
#[repr(C)]
struct SumPartsParameters {
    product: Parameters,
    sums: u64,
    sums_of_a: u64,
    parts: u32,
    blocks: u32,
}

impl RowSums {
    fn of(call: &Call<'_>, sizes: &Sizes, choice: &Choice, variant: &GemmVariant) -> Result<Option<RowSums>> {
        if variant.epilogue != EpilogueVariant::RowSumsOfA {
            return Ok(None);
        }
        let parts = variant.row_sum_partials(sizes.n, choice.splits);
        let workspace = call.gpu.workspace(parts * sizes.m * DType::F32.size())?;
        Ok(Some(RowSums { workspace, parts }))
    }

    /// Launches one kernel that adds the row sums and, with `sum_blocks` more blocks, the result's
    /// partial sums.
    fn launch_sums(
        &self,
        call: &Call<'_>,
        product: &Parameters,
        variant: GemmVariant,
        sum_blocks: u32,
    ) -> Result<()> {
        let Some(sums) = call.outputs.get(1) else { return Ok(()) };
        let blocks = product.m.div_ceil(SUM_ROWS as u32);
        let parameters = SumPartsParameters {
            product: *product,
            sums: self.workspace.address(),
            sums_of_a: call.gpu.address(call.name, sums)?,
            parts: self.parts as u32,
            blocks,
        };
        let launch = Launch::new(variant, SUM_PARTS, blocks + sum_blocks, SUM_THREADS as u32);
        call.gpu.launch(call.name, launch, &parameters)
    }
}

/// Launches the product of these operands, and the kernel that adds its partial sums if the product
/// does not do that itself. `parameters` are those of the other kernels.
pub(super) fn launch(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [OperandMap; 2],
    parameters: &Parameters,
    variant: GemmVariant,
) -> Result<()> {
    let (gpu, op, batch) = (call.gpu, call.name, &parameters.batch);
    if !supports_batch(batch) {
        let detail = format!("tensor maps: expected at most {BATCH_AXES} batch axes, got {}", batch.rank);
        return Err(Error::invalid(op, detail));
    }
    let y_batch = batch_axes(batch, 0);
    let fuses_sums = choice.fused_partial_bytes().is_some();
    let is_partial = choice.splits > 1 && !fuses_sums;
    let [y, epilogue_map] = result_maps(call, sizes, choice, parameters, variant, y_batch, is_partial)?;
    let bias = match is_partial || !epilogue.bias {
        true => None,
        false => Some(Bias::of(call)?),
    };
    let column_sums = ColumnSums::of(call, epilogue, sizes, &variant)?;
    let row_sums = RowSums::of(call, sizes, choice, &variant)?;
    let [m, n] = match variant.swaps_operands() {
        true => [parameters.n, parameters.m],
        false => [parameters.m, parameters.n],
    };
    let mapped = TensorMapParameters {
        maps: [a.map, b.map, y, epilogue_map],
        bias: bias.as_ref().map_or(Ok(0), |bias| bias.address(call))?,
        sums: match (&column_sums, &row_sums) {
            (Some(sums), _) => sums.address(call)?,
            (None, Some(sums)) => sums.workspace.address(),
            (None, None) => 0,
        },
        constants: if is_partial { [0; 2] } else { parameters.constants },
        alpha: if is_partial { 1.0 } else { epilogue.alpha as f32 },
        m,
        n,
        k: parameters.k,
        splits: parameters.splits,
        split_length: parameters.split_length,
        a_batch_axes: a.axes,
        b_batch_axes: b.axes,
        is_partial: u32::from(is_partial),
        a_term_stride: a.term_stride,
        b_term_stride: b.term_stride,
        not_splittable: parameters.condition.address,
        parts: if fuses_sums { parameters.partial } else { 0 },
        states: if fuses_sums { gpu.arrival_counters() } else { 0 },
        tiles: tiles_of_clusters(choice.tile, [m, n], parameters, y_batch[0].0),
    };
    let output = if is_partial { DType::F32 } else { variant.output };
    let blocks = choice.tile.blocks(choice.blocks, gpu.multiprocessors()) as u32;
    let product = Launch {
        shared_bytes: choice.shared_bytes as u32,
        ..Launch::new(GemmVariant { output, ..variant }, PRODUCT, blocks, choice.threads as u32)
    };
    gpu.launch(op, product, &mapped)?;
    let sum_blocks = if is_partial { sizes.outputs().div_ceil(SUM_THREADS) as u32 } else { 0 };
    launch_sums(call, parameters, variant, column_sums, row_sums, sum_blocks)
}

/// Returns the grid of clusters: the tiles of a cluster's blocks together, for a result of the
/// kernel's `m` rows and `n` columns.
fn tiles_of_clusters(tile: &Tile, sizes: [u32; 2], parameters: &Parameters, inner_batch: usize) -> TileGrid {
    let [along_m, along_n] = tile.cluster_shape();
    let extents = [tile.block.m * along_m, tile.block.n * along_n];
    let [matrices, splits] = [parameters.matrices, parameters.splits].map(|count| count as usize);
    TileGrid::new(sizes.map(|size| size as usize), extents, matrices, splits, inner_batch)
}

/// Returns the map of the product's output, which is its result or the partial sums, and the map of
/// the tensor that the epilogue reads or writes in addition.
fn result_maps(
    call: &Call<'_>,
    sizes: &Sizes,
    choice: &Choice,
    parameters: &Parameters,
    variant: GemmVariant,
    y_batch: [(usize, i64); 2],
    is_partial: bool,
) -> Result<[TensorMap; 2]> {
    let (op, box_lines) = (call.name, variant.box_lines());
    let y = match is_partial {
        true => partial_map(parameters.partial, sizes, choice.splits, box_lines, op)?,
        false => output_map(&call.outputs[0], parameters.y, sizes, y_batch, box_lines, op)?,
    };
    let epilogue_map = match super::epilogue_tensor(call, variant.epilogue) {
        Some(view) => output_map(view, call.gpu.address(op, view)?, sizes, y_batch, box_lines, op)?,
        None => TensorMap::ABSENT,
    };
    Ok([y, epilogue_map])
}

/// Launches the kernels that add sums of columns or rows and, with `sum_blocks` blocks, the partial
/// sums of the product.
fn launch_sums(
    call: &Call<'_>,
    parameters: &Parameters,
    variant: GemmVariant,
    column_sums: Option<ColumnSums>,
    row_sums: Option<RowSums>,
    sum_blocks: u32,
) -> Result<()> {
    match (column_sums, row_sums) {
        (Some(sums), _) => sums.launch_sums(call),
        (None, Some(sums)) => sums.launch_sums(call, parameters, variant, sum_blocks),
        (None, None) if sum_blocks == 0 => Ok(()),
        (None, None) => {
            let launch = Launch::new(variant, SUM_SPLITS, sum_blocks, SUM_THREADS as u32);
            call.gpu.launch(call.name, launch, parameters)
        }
    }
}
