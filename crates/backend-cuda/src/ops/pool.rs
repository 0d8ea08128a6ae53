//! Pooling over windows of two axes.

use super::window::{Extent, Slide, slides, strides, takes_runs};
use crate::faults::Faults;
use crate::gpu::Launch;
use crate::select::Call;
use crate::sources::{Family, Unit};
use std::sync::atomic::{AtomicU64, Ordering};
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{Error, Op, Result};

const THREADS: usize = 256;
/// Bytes that a thread of a gradient writes where dx is dense.
const RUN: usize = 8;
/// Blocks of `max_pool_grad_strays` for each multiprocessor: as many as are there at once.
const STRAY_BLOCKS: usize = 8;

/// The kernels, in the order of the source: three for each forward op, by size of the window.
const MAX_POOL: usize = 0;
const AVG_POOL: usize = 3;
const MAX_POOL_GRAD: usize = 6;
const AVG_POOL_GRAD: usize = 8;
const MAX_POOL_GRAD_STRAYS: usize = 10;

/// The parameters, as `Pooling` of the kernels.
#[repr(C)]
struct Parameters {
    to: u64,
    from: u64,
    positions: u64,
    fault: u64,
    site: u64,
    stray: u64,
    call: u64,
    whole: f64,
    count: u32,
    down: Slide,
    across: Slide,
    extent: Extent,
    to_strides: [i64; 4],
    from_strides: [i64; 4],
    position_strides: [i64; 4],
}

fn image(op: &'static str, view: &View<'_>) -> Result<[usize; 2]> {
    let [_, _, height, width] = view.layout.shape().to_array(op)?;
    Ok([height, width])
}

/// For windows of `large`, one for each element of `small`, from `from` to `to`, which are one of these each.
fn parameters(
    call: &Call<'_>,
    window: &Window,
    [large, small]: [&View<'_>; 2],
    [from, to]: [&View<'_>; 2],
) -> Result<Parameters> {
    let (gpu, op) = (call.gpu, call.name);
    let [_, channels, _, _] = to.layout.shape().to_array(op)?;
    let count = to.layout.elements();
    super::fits(op, &[count])?;
    let [down, across] = slides(op, window, image(op, large)?, image(op, small)?)?;
    Ok(Parameters {
        to: gpu.address(op, to)?,
        from: gpu.address(op, from)?,
        positions: 0,
        fault: 0,
        site: 0,
        stray: 0,
        call: 0,
        whole: 0.0,
        count: count as u32,
        down,
        across,
        extent: Extent::new(channels, image(op, to)?),
        to_strides: strides(to),
        from_strides: strides(from),
        position_strides: [0; 4],
    })
}

/// By what every window's sum is divided; 0 where that differs.
fn whole(window: &Window, count_include_pad: bool) -> f64 {
    match count_include_pad || window.padding == [0, 0] {
        true => window.kernel[0] as f64 * window.kernel[1] as f64,
        false => 0.0,
    }
}

/// One thread for each window.
fn forward(call: &Call<'_>, window: &Window, first: usize, parameters: &Parameters) -> Result<()> {
    let kernel = match window.kernel {
        [2, 2] => first + 1,
        [3, 3] => first + 2,
        _ => first,
    };
    let blocks = (parameters.count as usize).div_ceil(THREADS) as u32;
    let unit = Unit::of(Family::Pool, "", call.inputs[0].dtype);
    call.gpu.launch(call.name, Launch::new(unit, kernel, blocks, THREADS as u32), parameters)
}

/// One thread for each pixel, or for a run of them.
fn backward(call: &Call<'_>, first: usize, parameters: &Parameters) -> Result<()> {
    let dx = &call.outputs[0];
    let (kernel, pixels) = match takes_runs(call.gpu, call.name, dx, RUN as u64)? {
        true => (first + 1, RUN / dx.dtype.size()),
        false => (first, 1),
    };
    let blocks = (parameters.count as usize).div_ceil(THREADS * pixels) as u32;
    let unit = Unit::of(Family::Pool, "", dx.dtype);
    call.gpu.launch(call.name, Launch::new(unit, kernel, blocks, THREADS as u32), parameters)
}

pub(crate) fn run_max_pool2d(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::MaxPool2d(pool) = op else { return Err(Error::invalid(call.name, "is not max_pool2d")) };
    let (x, y, positions) = (&call.inputs[0], &call.outputs[0], &call.outputs[1]);
    if y.layout.elements() == 0 {
        return Ok(());
    }
    super::fits(call.name, &[pixels(call.name, x)?])?;
    let parameters = Parameters {
        positions: call.gpu.address(call.name, positions)?,
        position_strides: strides(positions),
        ..parameters(call, &pool.window, [x, y], [x, y])?
    };
    forward(call, &pool.window, MAX_POOL, &parameters)
}

/// Elements of an image plane.
fn pixels(op: &'static str, view: &View<'_>) -> Result<usize> {
    let [height, width] = image(op, view)?;
    Ok(height.saturating_mul(width))
}

pub(crate) fn run_avg_pool2d(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AvgPool2d(pool) = op else { return Err(Error::invalid(call.name, "is not avg_pool2d")) };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    if y.layout.elements() == 0 {
        return Ok(());
    }
    let parameters = Parameters {
        whole: whole(&pool.window, pool.count_include_pad),
        ..parameters(call, &pool.window, [x, y], [x, y])?
    };
    forward(call, &pool.window, AVG_POOL, &parameters)
}

/// Numbers of calls: a stray's mark names the call, so that no memory has to be cleared first.
static CALLS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn run_max_pool2d_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::MaxPool2dGrad(pool) = op else { return Err(Error::invalid(call.name, "is not max_pool2d_grad")) };
    let (positions, dy, dx) = (&call.inputs[0], &call.inputs[1], &call.outputs[0]);
    if dx.layout.elements() == 0 {
        return Ok(());
    }
    let gpu = call.gpu;
    let stray = gpu.scratch(size_of::<u64>())?;
    let parameters = Parameters {
        positions: gpu.address(call.name, positions)?,
        position_strides: strides(positions),
        fault: gpu.faults.address,
        site: Faults::site(call.name, pixels(call.name, dx)?)?,
        stray: stray.address(),
        call: CALLS.fetch_add(1, Ordering::Relaxed),
        ..parameters(call, &pool.window, [dx, dy], [dy, dx])?
    };
    backward(call, MAX_POOL_GRAD, &parameters)?;
    let blocks = (parameters.count as usize).div_ceil(THREADS).min(gpu.multiprocessors() * STRAY_BLOCKS);
    let unit = Unit::of(Family::Pool, "", dx.dtype);
    let launch = Launch::new(unit, MAX_POOL_GRAD_STRAYS, blocks as u32, THREADS as u32);
    gpu.launch(call.name, launch, &parameters)
}

pub(crate) fn run_avg_pool2d_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AvgPool2dGrad(pool) = op else { return Err(Error::invalid(call.name, "is not avg_pool2d_grad")) };
    let (dy, dx) = (&call.inputs[0], &call.outputs[0]);
    if dx.layout.elements() == 0 {
        return Ok(());
    }
    let parameters = Parameters {
        whole: whole(&pool.window, pool.count_include_pad),
        ..parameters(call, &pool.window, [dx, dy], [dy, dx])?
    };
    backward(call, AVG_POOL_GRAD, &parameters)
}
