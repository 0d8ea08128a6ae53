//! Image patches as columns of a matrix (im2col), and back (col2im).

use super::window::{Extent, WindowAxis, strides, supports_runs, window_axes};
use crate::call::Call;
use crate::launch::Launch;
use crate::variant::KernelFamily;
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{Error, Op, Result};

const THREADS: usize = 256;
/// Bytes that a thread writes to a contiguous matrix.
const PATCH_RUN: usize = 16;
/// Bytes that a thread writes to a contiguous image.
const IMAGE_RUN: usize = 8;

/// The kernels, in the order of the source. Each is followed by its version for contiguous outputs.
const IM2COL: usize = 0;
const COL2IM: usize = 2;

/// The parameters; mirrors `Patches` in the kernels.
#[repr(C)]
struct Parameters {
    to: u64,
    from: u64,
    count: u32,
    /// The windows along the height and along the width of the image.
    down: WindowAxis,
    across: WindowAxis,
    /// The sizes of the image.
    image: Extent,
    /// The channels and the sizes of the kernel of the convolution.
    taps: Extent,
    /// The number of windows along the height and along the width.
    windows: Extent,
    image_strides: [i64; 4],
    /// Strides of the matrix.
    batch_stride: i64,
    row_stride: i64,
    column_stride: i64,
}

pub(crate) fn run_im2col(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Im2col(patches) = op else { return Err(Error::invalid(call.name, "is not im2col")) };
    let views = [&call.inputs[0], &call.outputs[0]];
    launch(call, &patches.window, views, IM2COL, PATCH_RUN)
}

pub(crate) fn run_col2im(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Col2im(patches) = op else { return Err(Error::invalid(call.name, "is not col2im")) };
    let views = [&call.outputs[0], &call.inputs[0]];
    launch(call, &patches.window, views, COL2IM, IMAGE_RUN)
}

/// Launches a kernel that reads the call's input and writes its output. One of them is `image`, the
/// other `matrix`. If runs of `run` bytes of the output are contiguous and aligned, it is the
/// kernel after `first`, otherwise `first`.
fn launch(
    call: &Call<'_>,
    window: &Window,
    [image, matrix]: [&View<'_>; 2],
    first: usize,
    run: usize,
) -> Result<()> {
    let (gpu, op, from, to) = (call.gpu, call.name, &call.inputs[0], &call.outputs[0]);
    let count = to.layout.elements();
    if count == 0 {
        return Ok(());
    }
    super::check_fits(op, &[count])?;
    let [_, channels, height, width] = image.layout.shape().to_array(op)?;
    let windows = window.output_size(op, [height, width])?;
    let [down, across] = window_axes(op, window, [height, width], windows)?;
    let [batch_stride, row_stride, column_stride] = strides(matrix);
    let parameters = Parameters {
        to: gpu.address(op, to)?,
        from: gpu.address(op, from)?,
        count: count as u32,
        down,
        across,
        image: Extent::new(channels, [height, width]),
        taps: Extent::new(channels, window.kernel),
        windows: Extent::new(1, windows),
        image_strides: strides(image),
        batch_stride,
        row_stride,
        column_stride,
    };
    let (kernel, elements) = match supports_runs(gpu, op, to, run as u64)? {
        true => (first + 1, run / to.dtype.size()),
        false => (first, 1),
    };
    let blocks = count.div_ceil(THREADS * elements) as u32;
    let variant = KernelFamily::Patches(to.dtype);
    gpu.launch(op, Launch::new(variant, kernel, blocks, THREADS as u32), &parameters)
}
