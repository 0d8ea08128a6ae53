//! Scattering along an axis. Sources are sorted by the index that they are written to, so that the
//! result does not depend on the order of threads.

use super::copy::copy;
use super::index::{SCATTER_KEYS_KERNEL, broadcast_index, merged_strides, variant};
use super::sort::{Pairs, sort_keys};
use crate::call::{Call, Selected};
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::space::Space;
use crate::submit::errors::IndexErrors;
use crate::variant::index::IndexVariant;
use crate::variant::{ACCESS, bits_like, pack_of, wrapping_like};
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::ops::index::ScatterMode;
use ternion_core::{Error, Layout, MAX_RANK, Op, Result};

const THREADS: usize = 256;
/// Lanes of a warp of `add_rows`, which access adjacent elements of a row.
const LANES: usize = 32;
/// Destination indices of a block of `add_rows`, one for each warp.
const DESTINATIONS: usize = THREADS / LANES;

/// The kernels of `scatter.cu`, in the order of their source.
const SCATTER: usize = 0;
const ADD_ROWS: usize = 1;
const ADD_ROWS_PACKED: usize = 2;
/// The maximum number of blocks along the second and third axes of a grid.
const MAX_BLOCKS: usize = 65535;

/// The parameters; mirrors `ScatterKeys` in the kernels.
#[repr(C)]
struct KeyParameters {
    keys: u64,
    indices: u64,
    index: u64,
    /// The address of the record of an index out of range (see [`IndexErrors`]).
    fault: u64,
    /// What is recorded with such an index.
    site: u64,
    count: u32,
    /// The key of an index outside the axis, above all others.
    out_of_range: u32,
    size: u64,
    destination_step: i64,
    space: Space<2>,
}

/// The parameters; mirrors `Scatter` in the kernels.
#[repr(C)]
struct ScatterParameters {
    y: u64,
    source: u64,
    keys: u64,
    indices: u64,
    count: u32,
    out_of_range: u32,
    destinations: Space<1>,
    sources: Space<1>,
}

/// The parameters; mirrors `AddRows` in the kernels.
#[repr(C)]
struct RowParameters {
    y: u64,
    source: u64,
    keys: u64,
    indices: u64,
    count: u32,
    out_of_range: u32,
    columns: u32,
    /// Strides before the axis, along it, and after it.
    y_strides: [i64; 3],
    source_strides: [i64; 3],
}

/// Supports every dtype that core accepts.
pub(crate) fn select(_: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    Ok(Selected::row_major(run))
}

fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let (base, y) = (&call.inputs[0], &call.outputs[0]);
    if !y.is(base) {
        copy(call.gpu, call.name, base, y)?;
    }
    match op {
        Op::Scatter(payload) => scatter(call, payload.axis, payload.mode, &call.inputs[1]),
        Op::IndexAdd(payload) => index_add(call, payload.axis),
        _ => Err(Error::invalid(call.name, "is not scatter")),
    }
}

/// Returns pairs of a destination and the index of its source, sorted by destination.
/// `(size, destination_step)` are the size and the stride of the axis; `destinations` is the number
/// of elements, or rows, that the sources are written to.
fn sorted_destinations(
    gpu: &Gpu,
    call: &Call<'_>,
    index: &View<'_>,
    (size, destination_step): (usize, usize),
    destinations: usize,
    space: Space<2>,
) -> Result<Pairs> {
    let count = index.layout.elements();
    super::check_fits(call.name, &[count, destinations])?;
    let mut pairs = Pairs::new(gpu, 1, count, 4)?;
    let parameters = KeyParameters {
        keys: pairs.keys[0].address(),
        indices: pairs.indices[0].address(),
        index: gpu.address(call.name, index)?,
        fault: gpu.index_errors.address,
        site: IndexErrors::site(call.name, size),
        count: count as u32,
        out_of_range: destinations as u32,
        size: size as u64,
        destination_step: destination_step as i64,
        space,
    };
    let blocks = count.div_ceil(THREADS);
    let variant = variant(call.inputs[0].dtype, index.dtype);
    gpu.launch(
        call.name,
        Launch::new(variant, SCATTER_KEYS_KERNEL, blocks as u32, THREADS as u32),
        &parameters,
    )?;
    sort_keys(gpu, call.name, &mut pairs, u32::BITS - (destinations as u32).leading_zeros())?;
    Ok(pairs)
}

/// Returns the space of the axes of a layout, in the order of its shape.
fn space_in_order(layout: &Layout) -> Space<1> {
    let axes: SmallVec<[(usize, [i64; 1]); MAX_RANK]> = (0..layout.shape().rank())
        .map(|axis| (layout.shape().dim(axis), [layout.strides()[axis] as i64]))
        .collect();
    Space::in_order(&axes)
}

fn scatter(call: &Call<'_>, axis: usize, mode: ScatterMode, index: &View<'_>) -> Result<()> {
    let (gpu, op, y, source) = (call.gpu, call.name, &call.outputs[0], &call.inputs[2]);
    let count = index.layout.elements();
    if count == 0 {
        return Ok(());
    }
    let destination_strides = y.layout.shape().row_major_strides();
    let axes: SmallVec<[(usize, [i64; 2]); MAX_RANK]> = (0..y.layout.shape().rank())
        .map(|other| {
            let stride = if other == axis { 0 } else { destination_strides[other] };
            (index.layout.shape().dim(other), [index.layout.strides()[other] as i64, stride as i64])
        })
        .collect();
    let along_axis = (y.layout.shape().dim(axis), destination_strides[axis] as usize);
    let destinations = y.layout.elements();
    let pairs = sorted_destinations(gpu, call, index, along_axis, destinations, Space::in_order(&axes))?;
    let parameters = ScatterParameters {
        y: gpu.address(op, y)?,
        source: gpu.address(op, source)?,
        keys: pairs.keys[0].address(),
        indices: pairs.indices[0].address(),
        count: count as u32,
        out_of_range: destinations as u32,
        destinations: space_in_order(y.layout),
        sources: space_in_order(source.layout),
    };
    let variant = match mode {
        ScatterMode::Set => IndexVariant::ScatterSet(bits_like(y.dtype)),
        ScatterMode::Add => IndexVariant::ScatterAdd(wrapping_like(y.dtype)),
    };
    gpu.launch(op, Launch::new(variant, SCATTER, count.div_ceil(THREADS) as u32, THREADS as u32), &parameters)
}

/// Adds whole rows, if those of y and of the source are evenly spaced; otherwise element by
/// element.
fn index_add(call: &Call<'_>, axis: usize) -> Result<()> {
    let (gpu, op, y, index, source) =
        (call.gpu, call.name, &call.outputs[0], &call.inputs[1], &call.inputs[2]);
    let dims = y.layout.shape().dims();
    let (outer, columns) =
        (dims[..axis].iter().product::<usize>(), dims[axis + 1..].iter().product::<usize>());
    let count = index.layout.elements();
    if count == 0 || outer == 0 || columns == 0 {
        return Ok(());
    }
    let (Some(y_strides), Some(source_strides)) = (merged_strides(y, axis), merged_strides(source, axis))
    else {
        let expanded = broadcast_index(axis, index.layout, source.layout)?;
        return scatter(call, axis, ScatterMode::Add, &View { layout: &expanded, ..*index });
    };
    if outer > MAX_BLOCKS || columns.div_ceil(LANES) > MAX_BLOCKS {
        let expanded = broadcast_index(axis, index.layout, source.layout)?;
        return scatter(call, axis, ScatterMode::Add, &View { layout: &expanded, ..*index });
    }
    let vector = Space::in_order(&[(count, [index.layout.strides()[0] as i64, 0])]);
    let pairs = sorted_destinations(gpu, call, index, (dims[axis], 1), dims[axis], vector)?;
    let parameters = RowParameters {
        y: gpu.address(op, y)?,
        source: gpu.address(op, source)?,
        keys: pairs.keys[0].address(),
        indices: pairs.indices[0].address(),
        count: count as u32,
        out_of_range: dims[axis] as u32,
        columns: columns as u32,
        y_strides,
        source_strides,
    };
    let pack = pack_of(&[y.dtype]);
    let sides = [(parameters.y, y_strides), (parameters.source, source_strides)];
    let (kernel, pack) =
        match columns.is_multiple_of(pack) && sides.iter().all(|side| is_packed(side, outer, pack)) {
            true => (ADD_ROWS_PACKED, pack),
            false => (ADD_ROWS, 1),
        };
    let launch = Launch {
        grid: [count.div_ceil(DESTINATIONS) as u32, columns.div_ceil(LANES * pack) as u32, outer as u32],
        ..Launch::new(IndexVariant::ScatterAdd(wrapping_like(y.dtype)), kernel, 0, THREADS as u32)
    };
    gpu.launch(op, launch, &parameters)
}

/// Returns whether the rows of a tensor, in `outer` blocks, are contiguous and begin at multiples
/// of `pack` elements, which are 16 bytes.
fn is_packed(&(address, [outer_stride, row, column]): &(u64, [i64; 3]), outer: usize, pack: usize) -> bool {
    let is_multiple = |stride: i64| stride % pack as i64 == 0;
    address.is_multiple_of(ACCESS as u64)
        && column == 1
        && is_multiple(row)
        && (outer == 1 || is_multiple(outer_stride))
}
