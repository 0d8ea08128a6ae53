//! Reductions over any axes.

use crate::call::{Call, Selected};
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::space::Space;
use crate::variant::pack_of;
use crate::variant::reduction::ReductionVariant;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::geometry::{ReductionAxes, ReductionOrder};
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::{DType, Error, Op, Result};

const THREADS: usize = 256;
/// Results of a block of `warps`.
const WARPS: usize = 8;
/// Results of a block of `columns`.
const COLUMNS: usize = 32;

/// The kernels, in the order of the source.
const ROWS_KERNEL: usize = 0;
const ROWS_IN_PARTS_KERNEL: usize = 1;
const WARPS_KERNEL: usize = 2;
const COLUMNS_KERNEL: usize = 3;
const COLUMNS_PACKED_KERNEL: usize = 4;

/// Blocks per multiprocessor into which a reduction of rows is split, for elements of at most two
/// bytes. It is twice as many for larger elements, of which a block processes more bytes.
const ROW_BLOCKS_EACH: usize = 4;
/// As [`ROW_BLOCKS_EACH`], for a reduction of columns. It is small, because the last block adds the
/// partial results of many columns.
const COLUMN_BLOCKS_EACH: usize = 1;
/// The number of elements per split is a multiple of this, which is one iteration of a block of
/// `rows` in the narrowest type.
const SPLIT_MULTIPLE: usize = THREADS * 16 * 4;
/// The minimum number of rows per split of `columns`: eight for each of its rows of threads.
const MIN_SPLIT_ROWS: usize = 64;
/// The maximum number of elements that one warp reduces: for so few, a block's barrier would cost
/// more than its threads save.
const MAX_WARP_ELEMENTS: usize = 1024;
/// The same limit in bytes, if there are enough results for the warps to fill the device.
const MAX_WARP_BYTES: usize = 4096;
/// The number of warps that fill a multiprocessor.
const FULL_WARPS: usize = 32;

/// The parameters; mirrors `Reduction` in the kernels.
#[repr(C)]
struct Parameters {
    x: u64,
    y: u64,
    /// The results of each split, if there are several.
    partial: u64,
    /// The address of the arrival counters: the last block of a result adds its splits.
    arrived: u64,
    results: u32,
    /// Elements that are reduced to one result.
    reduced: u32,
    /// The number of splits, and the elements of each.
    parts: u32,
    per_part: u32,
    /// 1 if the elements of each result are contiguous and aligned to 16 bytes.
    line: u32,
    /// The same number as `reduced`, for means.
    count: f64,
    /// The kept axes, of y and x.
    kept: Space<2>,
    /// The reduced axes, of x.
    over: Space<1>,
}

/// Supports every reduction in every dtype that core accepts.
pub(crate) fn select(_: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    Ok(Selected::row_major(run_reduce))
}

/// Returns the bytes of the reducer's accumulator.
fn accumulator_bytes(op: ReduceOp, dtype: DType) -> usize {
    let size = dtype.accumulator().size();
    match op {
        ReduceOp::ArgMax | ReduceOp::ArgMin => 16,
        ReduceOp::LogSumExp => 2 * size,
        ReduceOp::Norm => 3 * size,
        ReduceOp::Sum
        | ReduceOp::Prod
        | ReduceOp::Max
        | ReduceOp::Min
        | ReduceOp::Mean
        | ReduceOp::SumSquares
        | ReduceOp::MaxAbs => size,
    }
}

fn run_reduce(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Reduce(payload) = op else { return Err(Error::invalid(call.name, "is not a reduction")) };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let accumulator = accumulator_bytes(payload.op, x.dtype);
    let variant = ReductionVariant::reduce(payload.op, x.dtype, y.dtype);
    let spaces = Spaces::of(payload, x, y);
    super::check_fits(call.name, &[spaces.results, spaces.reduced])?;
    if spaces.results == 0 {
        return Ok(());
    }
    reduce(call.gpu, call.name, variant, x, y, spaces, accumulator)
}

/// The axes that are kept and those that are reduced.
struct Spaces {
    /// The kept axes, of y and x.
    kept: Space<2>,
    /// The reduced axes, of x.
    over: Space<1>,
    /// The number of results.
    results: usize,
    /// Elements that are reduced to one result.
    reduced: usize,
}

impl Spaces {
    fn of(payload: &Reduce, x: &View<'_>, y: &View<'_>) -> Spaces {
        let axes = ReductionAxes::new(x.layout, y.layout, payload.axes, ReductionOrder::of(payload.op));
        Spaces {
            results: axes.results(),
            reduced: axes.elements_of_each(),
            kept: Space::in_order(&axes.kept),
            over: Space::in_order(&axes.reduced),
        }
    }

    /// Returns whether every result's elements begin at a multiple of `pack` elements.
    fn results_begin_at_multiples_of(&self, pack: i64) -> bool {
        let axes = 0..self.kept.rank as usize;
        axes.into_iter().all(|axis| self.kept.sizes[axis] == 1 || self.kept.strides[1][axis] % pack == 0)
    }

    /// Returns the number of adjacent columns that can be read at once: the length of the kernels'
    /// packs, or one.
    fn column_pack(&self, dtype: DType, address: u64) -> usize {
        let pack = if dtype.size() == 1 { 4 } else { pack_of(&[dtype]) };
        let (last, is_multiple) = (self.kept.last(), |stride: i64| stride % pack as i64 == 0);
        let is_aligned = address.is_multiple_of((pack * dtype.size()) as u64)
            && is_multiple(self.kept.sizes[last])
            && self.kept.strides[1][..last].iter().all(|&stride| is_multiple(stride))
            && self.over.strides[0][..self.over.rank as usize].iter().all(|&stride| is_multiple(stride));
        if is_aligned { pack } else { 1 }
    }
}

/// How a reduction is split: the kernel, its blocks along the results, and the splits of the
/// reduced elements.
struct Partition {
    kernel: usize,
    blocks: usize,
    /// The number of splits.
    parts: usize,
    /// Elements of a split.
    per_part: usize,
}

impl Partition {
    fn of(gpu: &Gpu, spaces: &Spaces, element: usize, column_pack: usize) -> Partition {
        let (results, reduced) = (spaces.results, spaces.reduced);
        let result_stride = spaces.kept.strides[1][spaces.kept.last()];
        let reduced_stride = spaces.over.strides[0][spaces.over.last()];
        let partition = |kernel: usize, blocks: usize, multiple: usize, blocks_each: usize| {
            let target =
                (gpu.multiprocessors() * blocks_each * element.div_ceil(2).min(2)).min(Gpu::ARRIVAL_COUNTERS);
            // At most 1024 splits, whose results one block adds.
            let parts = (target / blocks.max(1)).clamp(1, reduced.div_ceil(multiple).max(1)).min(1024);
            let per_part = reduced.div_ceil(parts).next_multiple_of(multiple);
            Partition { kernel, blocks, parts: reduced.div_ceil(per_part).max(1), per_part }
        };
        // Adjacent threads read the elements of adjacent results, if there are at least 8.
        if result_stride == 1
            && reduced_stride != 1
            && spaces.kept.sizes[spaces.kept.last()] >= 8
            && reduced > 1
        {
            let kernel = if column_pack > 1 { COLUMNS_PACKED_KERNEL } else { COLUMNS_KERNEL };
            return partition(
                kernel,
                results.div_ceil(COLUMNS * column_pack),
                MIN_SPLIT_ROWS,
                COLUMN_BLOCKS_EACH,
            );
        }
        let fills_device = results >= gpu.multiprocessors() * FULL_WARPS;
        if reduced <= MAX_WARP_ELEMENTS || (fills_device && reduced * element <= MAX_WARP_BYTES) {
            return Partition {
                kernel: WARPS_KERNEL,
                blocks: results.div_ceil(WARPS),
                parts: 1,
                per_part: reduced,
            };
        }
        let rows = partition(ROWS_KERNEL, results, SPLIT_MULTIPLE, ROW_BLOCKS_EACH);
        let kernel = if rows.parts > 1 { ROWS_IN_PARTS_KERNEL } else { ROWS_KERNEL };
        Partition { kernel, ..rows }
    }
}

fn reduce(
    gpu: &Gpu,
    op: &'static str,
    variant: ReductionVariant,
    x: &View<'_>,
    y: &View<'_>,
    spaces: Spaces,
    accumulator: usize,
) -> Result<()> {
    let address = gpu.address(op, x)?;
    let pack = pack_of(&[x.dtype]) as i64;
    let partition = Partition::of(gpu, &spaces, x.dtype.size(), spaces.column_pack(x.dtype, address));
    let is_one_run = spaces.over.rank == 1 && spaces.over.strides[0][0] == 1;
    let is_vectorizable =
        is_one_run && address.is_multiple_of(16) && spaces.results_begin_at_multiples_of(pack);
    let workspace =
        gpu.workspace(if partition.parts > 1 { partition.parts * spaces.results * accumulator } else { 0 })?;
    let parameters = Parameters {
        x: address,
        y: gpu.address(op, y)?,
        partial: workspace.address(),
        arrived: gpu.arrival_counters(),
        results: spaces.results as u32,
        reduced: spaces.reduced as u32,
        parts: partition.parts as u32,
        per_part: partition.per_part as u32,
        line: u32::from(is_vectorizable),
        count: spaces.reduced as f64,
        kept: spaces.kept,
        over: spaces.over,
    };
    let launch = Launch::new(variant, partition.kernel, partition.blocks as u32, THREADS as u32);
    gpu.launch(
        op,
        Launch { grid: [partition.blocks as u32, partition.parts as u32, 1], ..launch },
        &parameters,
    )
}
