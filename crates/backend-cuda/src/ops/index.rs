//! Gathering along an axis.

use crate::call::Call;
use crate::launch::Launch;
use crate::space::{Divisor, Space};
use crate::submit::errors::IndexErrors;
use crate::variant::bits_like;
use crate::variant::index::IndexVariant;
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::geometry::sort_slowest_first;
use ternion_core::{DType, Error, Layout, MAX_RANK, Op, Result};

const THREADS: usize = 256;
const PER_THREAD: usize = 4;

/// The kernels of `index.cu`, in the order of their source.
const GATHER_KERNEL: usize = 0;
const GATHER_ROWS_KERNEL: usize = 1;
pub(super) const SCATTER_KEYS_KERNEL: usize = 2;

/// Returns the variant of `index.cu` for elements and indices of these dtypes.
pub(crate) fn variant(dtype: DType, index: DType) -> IndexVariant {
    IndexVariant::Gather { bits: bits_like(dtype), index }
}

/// The parameters; mirrors `Gather` in the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    x: u64,
    index: u64,
    /// The address of the record of an index out of range (see [`IndexErrors`]).
    fault: u64,
    /// What is recorded with such an index.
    site: u64,
    count: u32,
    /// The size of the axis.
    size: u64,
    /// The stride of x along the axis.
    x_step: i64,
    space: Space<3>,
}

pub(crate) fn run_gather(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Gather(payload) = op else { return Err(Error::invalid(call.name, "is not gather")) };
    gather(call, payload.axis, &call.inputs[1])
}

pub(crate) fn run_index_select(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::IndexSelect(payload) = op else { return Err(Error::invalid(call.name, "is not index_select")) };
    if gather_rows(call, payload.axis)? {
        return Ok(());
    }
    let expanded = broadcast_index(payload.axis, call.inputs[1].layout, call.outputs[0].layout)?;
    gather(call, payload.axis, &View { layout: &expanded, ..call.inputs[1] })
}

/// Returns the vector `index` broadcast to the shape of `target`: it varies only along `axis`.
pub(crate) fn broadcast_index(axis: usize, index: &Layout, target: &Layout) -> Result<Layout> {
    let mut strides = [0; MAX_RANK];
    strides[axis] = index.strides()[0];
    Layout::new(*target.shape(), &strides[..target.shape().rank()], index.offset())
}

fn gather(call: &Call<'_>, axis: usize, index: &View<'_>) -> Result<()> {
    let (gpu, op, x, y) = (call.gpu, call.name, &call.inputs[0], &call.outputs[0]);
    let count = y.layout.elements();
    super::check_fits(op, &[count])?;
    let mut axes: SmallVec<[(usize, [i64; 3]); MAX_RANK]> = (0..y.layout.shape().rank())
        .map(|other| {
            let x_stride = if other == axis { 0 } else { x.layout.strides()[other] };
            let strides = [y.layout.strides()[other], index.layout.strides()[other], x_stride];
            (y.layout.shape().dim(other), strides.map(|stride| stride as i64))
        })
        .collect();
    sort_slowest_first(&mut axes, 0);
    let size = x.layout.shape().dim(axis);
    let parameters = Parameters {
        y: gpu.address(op, y)?,
        x: gpu.address(op, x)?,
        index: gpu.address(op, index)?,
        fault: gpu.index_errors.address,
        site: IndexErrors::site(op, size),
        count: count as u32,
        size: size as u64,
        x_step: x.layout.strides()[axis] as i64,
        space: Space::in_order(&axes),
    };
    let blocks = count.div_ceil(THREADS * PER_THREAD);
    gpu.launch(
        op,
        Launch::new(variant(x.dtype, index.dtype), GATHER_KERNEL, blocks as u32, THREADS as u32),
        &parameters,
    )
}

/// The parameters; mirrors `GatherRows` in the kernels.
#[repr(C)]
struct RowParameters {
    y: u64,
    x: u64,
    index: u64,
    fault: u64,
    site: u64,
    /// Words of y.
    total: u64,
    /// The size of the axis.
    size: u64,
    index_step: i64,
    /// Strides of x before the axis and along it, and the length of a row, in words.
    x_outer: i64,
    x_row: i64,
    inner: Divisor,
    /// The number of indices.
    count: Divisor,
}

/// Returns the strides of `view` as `[outer, axis, inner]`, if the axes before `axis` can be merged
/// into one, and also the axes after it.
pub(crate) fn merged_strides(view: &View<'_>, axis: usize) -> Option<[i64; 3]> {
    let merged = |range: std::ops::Range<usize>| {
        let axes: SmallVec<[(usize, [i64; 1]); MAX_RANK]> =
            range.map(|axis| (view.layout.shape().dim(axis), [view.layout.strides()[axis] as i64])).collect();
        let space = Space::in_order(&axes);
        (space.rank == 1).then(|| space.strides[0][0])
    };
    let rank = view.layout.shape().rank();
    Some([merged(0..axis)?, view.layout.strides()[axis] as i64, merged(axis + 1..rank)?])
}

/// Gathers whole rows in 8-byte words, if rows consist of whole words. Returns whether it did.
fn gather_rows(call: &Call<'_>, axis: usize) -> Result<bool> {
    let (gpu, op, x, y, index) = (call.gpu, call.name, &call.inputs[0], &call.outputs[0], &call.inputs[1]);
    let inner: usize = y.layout.shape().dims()[axis + 1..].iter().product();
    let (Some([outer, row, 1]), true) = (merged_strides(x, axis), y.layout.is_contiguous()) else {
        return Ok(false);
    };
    // If all outer axes have size 1, their stride is not used.
    let outer = if x.layout.shape().dims()[..axis].iter().all(|&size| size == 1) { 0 } else { outer };
    let word = 8 / x.dtype.size();
    let (x_address, y_address) = (gpu.address(op, x)?, gpu.address(op, y)?);
    let is_whole = |count: i64| count.unsigned_abs().is_multiple_of(word as u64);
    let are_aligned = [x_address, y_address].iter().all(|address| address.is_multiple_of(8));
    let total = y.layout.elements() / word;
    if inner < 2
        || !(are_aligned && is_whole(inner as i64) && is_whole(outer) && is_whole(row))
        || total >= super::INDEX_LIMIT
    {
        return Ok(false);
    }
    let size = x.layout.shape().dim(axis);
    let parameters = RowParameters {
        y: y_address,
        x: x_address,
        index: gpu.address(op, index)?,
        fault: gpu.index_errors.address,
        site: IndexErrors::site(op, size),
        total: total as u64,
        size: size as u64,
        index_step: index.layout.strides()[0] as i64,
        x_outer: outer / word as i64,
        x_row: row / word as i64,
        inner: Divisor::new(inner / word),
        count: Divisor::new(index.layout.elements()),
    };
    let blocks = total.div_ceil(THREADS);
    gpu.launch(
        op,
        Launch::new(variant(DType::I64, index.dtype), GATHER_ROWS_KERNEL, blocks as u32, THREADS as u32),
        &parameters,
    )?;
    Ok(true)
}
