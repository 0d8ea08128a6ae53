//! Pooling over windows of two axes.

use super::window::{Extent, WindowAxis, strides, supports_runs, window_axes};
use crate::call::Call;
use crate::launch::Launch;
use crate::space::Divisor;
use crate::submit::errors::IndexErrors;
use crate::variant::KernelFamily;
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{DType, Error, Op, Result};

const THREADS: usize = 256;
/// Blocks of `max_pool_grad_strays` for each multiprocessor: as many as are resident at once.
const STRAY_BLOCKS: usize = 8;

/// The kernels, in the order of the source: three for each forward op, by size of the window.
const MAX_POOL: usize = 0;
const AVG_POOL: usize = 3;
const MAX_POOL_GRAD: usize = 6;
const MAX_POOL_GRAD_STRAYS: usize = 7;
const AVG_POOL_GRAD: usize = 8;

/// The parameters; mirrors `Pooling` in the kernels.
#[repr(C)]
struct Parameters {
    /// y or dx.
    to: u64,
    /// x or dy.
    from: u64,
    /// The index of each maximum in its image plane. Only in max pooling.
    positions: u64,
    /// The address of the record of a position out of range (see [`IndexErrors`]).
    fault: u64,
    /// What is recorded with such a position.
    site: u64,
    /// The address of a word that is set to `call` if a position is inside the plane but outside
    /// its window. A second kernel then computes the gradient again, more slowly.
    stray: u64,
    call: u64,
    /// The divisor of a window's sum in average pooling; 0 if it differs between windows.
    whole: f64,
    /// 1 / `whole`.
    part: f64,
    /// Elements of y, or runs of dx.
    count: u32,
    /// 1 if dx is written in runs.
    packed: u32,
    /// 1 if adjacent threads process adjacent channels, as x is stored.
    channels_last: u32,
    down: WindowAxis,
    across: WindowAxis,
    extent: Extent,
    width: Divisor,
    to_strides: [i64; 4],
    from_strides: [i64; 4],
    position_strides: [i64; 4],
}

/// Returns the pixels per thread in a gradient.
fn pixels_per_thread(dtype: DType) -> usize {
    if dtype.size() == 8 { 2 } else { 4 }
}

/// Returns the height and the width of `[batch, channels, height, width]`.
fn image_size(op: &'static str, view: &View<'_>) -> Result<[usize; 2]> {
    let [_, _, height, width] = view.layout.shape().to_array(op)?;
    Ok([height, width])
}

/// Returns the parameters for windows of `large`, one for each element of `small`. The kernel reads
/// `from` and writes `to`, which are these two tensors in either order.
fn parameters(
    call: &Call<'_>,
    window: &Window,
    [large, small]: [&View<'_>; 2],
    [from, to]: [&View<'_>; 2],
) -> Result<Parameters> {
    let (gpu, op) = (call.gpu, call.name);
    let [_, channels, _, _] = to.layout.shape().to_array(op)?;
    let count = to.layout.elements();
    super::check_fits(op, &[count])?;
    let size = image_size(op, large)?;
    let [down, across] = window_axes(op, window, size, image_size(op, small)?)?;
    Ok(Parameters {
        to: gpu.address(op, to)?,
        from: gpu.address(op, from)?,
        positions: 0,
        fault: 0,
        site: 0,
        stray: 0,
        call: 0,
        whole: 0.0,
        part: 0.0,
        count: count as u32,
        packed: 0,
        channels_last: 0,
        down,
        across,
        extent: Extent::new(channels, image_size(op, to)?),
        width: Divisor::new(size[1]),
        to_strides: strides(to),
        from_strides: strides(from),
        position_strides: [0; 4],
    })
}

/// Returns the divisor of every window's sum; 0 if it differs between windows.
fn window_divisor(window: &Window, count_include_pad: bool) -> f64 {
    match count_include_pad || window.padding == [0, 0] {
        true => window.kernel[0] as f64 * window.kernel[1] as f64,
        false => 0.0,
    }
}

/// Launches a kernel with one thread for each window. `first` is the kernel for windows of any
/// size; those for 2 x 2 and 3 x 3 follow it.
fn forward(call: &Call<'_>, window: &Window, first: usize, parameters: Parameters) -> Result<()> {
    let kernel = match window.kernel {
        [2, 2] => first + 1,
        [3, 3] => first + 2,
        _ => first,
    };
    let [_, channel, _, column] = parameters.from_strides;
    let parameters =
        Parameters { channels_last: u32::from(channel.abs() == 1 && column.abs() > 1), ..parameters };
    let blocks = (parameters.count as usize).div_ceil(THREADS) as u32;
    let variant = KernelFamily::Pool(call.inputs[0].dtype);
    call.gpu.launch(call.name, Launch::new(variant, kernel, blocks, THREADS as u32), &parameters)
}

/// Changes `parameters` to a launch with one thread per run of pixels.
fn with_runs(call: &Call<'_>, parameters: Parameters) -> Result<Parameters> {
    let dx = &call.outputs[0];
    let [batch, channels, height, width] = dx.layout.shape().to_array(call.name)?;
    let run = pixels_per_thread(dx.dtype);
    let runs = width.div_ceil(run);
    let packed =
        width.is_multiple_of(run) && supports_runs(call.gpu, call.name, dx, (run * dx.dtype.size()) as u64)?;
    Ok(Parameters {
        count: (batch * channels * height * runs) as u32,
        packed: u32::from(packed),
        extent: Extent::new(channels, [height, runs]),
        ..parameters
    })
}

pub(crate) fn run_max_pool2d(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::MaxPool2d(pool) = op else { return Err(Error::invalid(call.name, "is not max_pool2d")) };
    let (x, y, positions) = (&call.inputs[0], &call.outputs[0], &call.outputs[1]);
    if y.layout.elements() == 0 {
        return Ok(());
    }
    super::check_fits(call.name, &[pixels(call.name, x)?])?;
    let parameters = Parameters {
        positions: call.gpu.address(call.name, positions)?,
        position_strides: strides(positions),
        ..parameters(call, &pool.window, [x, y], [x, y])?
    };
    forward(call, &pool.window, MAX_POOL, parameters)
}

/// Returns the number of elements of an image plane.
fn pixels(op: &'static str, view: &View<'_>) -> Result<usize> {
    let [height, width] = image_size(op, view)?;
    Ok(height.saturating_mul(width))
}

pub(crate) fn run_avg_pool2d(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AvgPool2d(pool) = op else { return Err(Error::invalid(call.name, "is not avg_pool2d")) };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    if y.layout.elements() == 0 {
        return Ok(());
    }
    let parameters = Parameters {
        whole: window_divisor(&pool.window, pool.count_include_pad),
        ..parameters(call, &pool.window, [x, y], [x, y])?
    };
    forward(call, &pool.window, AVG_POOL, parameters)
}

pub(crate) fn run_max_pool2d_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::MaxPool2dGrad(pool) = op else { return Err(Error::invalid(call.name, "is not max_pool2d_grad")) };
    let (positions, dy, dx) = (&call.inputs[0], &call.inputs[1], &call.outputs[0]);
    if dx.layout.elements() == 0 {
        return Ok(());
    }
    let gpu = call.gpu;
    // Allocated for this call, because kernels of other threads may run between its two kernels.
    let stray = gpu.zeroed_workspace(size_of::<u64>())?;
    let parameters = Parameters {
        positions: gpu.address(call.name, positions)?,
        position_strides: strides(positions),
        fault: gpu.index_errors.address,
        site: IndexErrors::site(call.name, pixels(call.name, dx)?),
        stray: stray.address(),
        call: 1,
        ..parameters(call, &pool.window, [dx, dy], [dy, dx])?
    };
    let parameters = with_runs(call, parameters)?;
    let blocks = (parameters.count as usize).div_ceil(THREADS);
    let variant = KernelFamily::Pool(dx.dtype);
    let launch = |kernel: usize, blocks: usize| Launch::new(variant, kernel, blocks as u32, THREADS as u32);
    gpu.launch(call.name, launch(MAX_POOL_GRAD, blocks), &parameters)?;
    let stray_blocks = blocks.min(gpu.multiprocessors() * STRAY_BLOCKS);
    gpu.launch(call.name, launch(MAX_POOL_GRAD_STRAYS, stray_blocks), &parameters)
}

pub(crate) fn run_avg_pool2d_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::AvgPool2dGrad(pool) = op else { return Err(Error::invalid(call.name, "is not avg_pool2d_grad")) };
    let (dy, dx) = (&call.inputs[0], &call.outputs[0]);
    if dx.layout.elements() == 0 {
        return Ok(());
    }
    let whole = window_divisor(&pool.window, pool.count_include_pad);
    let parameters =
        Parameters { whole, part: whole.recip(), ..parameters(call, &pool.window, [dx, dy], [dy, dx])? };
    let parameters = with_runs(call, parameters)?;
    let blocks = (parameters.count as usize).div_ceil(THREADS);
    let variant = KernelFamily::Pool(dx.dtype);
    let launch = Launch::new(variant, AVG_POOL_GRAD, blocks as u32, THREADS as u32);
    call.gpu.launch(call.name, launch, &parameters)
}
