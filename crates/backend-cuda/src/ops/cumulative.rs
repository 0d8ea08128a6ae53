//! Cumulative sums.

use crate::call::{Call, Selected};
use crate::launch::Launch;
use crate::space::Space;
use crate::variant::reduction::ReductionVariant;
use crate::variant::wrapping_like;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported};
use ternion_core::geometry::sort_slowest_first;
use ternion_core::{Error, MAX_RANK, Op, Result};

const THREADS: usize = 256;

/// The kernels, in the order of the source: a block for each line, or a thread for each line.
const BLOCK_PER_LINE: usize = 0;
const THREAD_PER_LINE: usize = 1;

/// The minimum number of adjacent lines for which each thread processes one line.
const MIN_ADJACENT_LINES: usize = 4096;

/// The parameters; mirrors `Cumulative` in the kernels.
#[repr(C)]
struct Parameters {
    x: u64,
    y: u64,
    lines: u32,
    length: u64,
    x_step: i64,
    y_step: i64,
    space: Space<2>,
}

/// Supports every dtype that core accepts.
pub(crate) fn select(_: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    Ok(Selected::row_major(run_cumulative_sum))
}

fn run_cumulative_sum(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CumulativeSum(payload) = op else { return Err(Error::invalid(call.name, "is not cumsum")) };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let shape = x.layout.shape();
    let strides = |axis: usize| [y, x].map(|view| view.layout.strides()[axis] as i64);
    let mut axes: SmallVec<[(usize, [i64; 2]); MAX_RANK]> = (0..shape.rank())
        .filter(|&axis| axis != payload.axis)
        .map(|axis| (shape.dim(axis), strides(axis)))
        .collect();
    sort_slowest_first(&mut axes, 0);
    let lines: usize = axes.iter().map(|(size, _)| size).product();
    super::check_fits(call.name, &[lines])?;
    let length = shape.dim(payload.axis);
    if lines == 0 || length == 0 {
        return Ok(());
    }
    let [y_step, x_step] = strides(payload.axis);
    let parameters = Parameters {
        x: call.gpu.address(call.name, x)?,
        y: call.gpu.address(call.name, y)?,
        lines: lines as u32,
        length: length as u64,
        x_step,
        y_step,
        space: Space::in_order(&axes),
    };
    let are_adjacent = parameters.space.strides[0][parameters.space.last()] == 1;
    let (kernel, blocks) = match lines >= MIN_ADJACENT_LINES && are_adjacent {
        true => (THREAD_PER_LINE, lines.div_ceil(THREADS)),
        false => (BLOCK_PER_LINE, lines),
    };
    let variant = ReductionVariant::CumulativeSum(wrapping_like(x.dtype));
    call.gpu.launch(call.name, Launch::new(variant, kernel, blocks as u32, THREADS as u32), &parameters)
}
