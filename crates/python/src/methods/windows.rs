//! Pooling, convolution, padding and interpolation over one to three axes: native functions of
//! `ternion.nn.functional`, which checks their arguments.

use crate::arguments::Real;
use crate::error::{Outcome, RaisedError};
use crate::gil::run;
use crate::methods::images::parse_mode;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{
    Conv3dOptions, ConvTranspose1dOptions, ConvTranspose3dOptions, DType, GridMode, GridPadding,
    InterpolateSize, PoolOptions, Result, Tensor,
};

type Input<'py> = Bound<'py, PyTensor>;

fn to_array<const N: usize>(values: &[usize]) -> Outcome<[usize; N]> {
    values
        .try_into()
        .map_err(|_| RaisedError::value_error(format!("expected {N} numbers, got {}", values.len())))
}

fn axis_count_error(count: usize) -> RaisedError {
    RaisedError::value_error(format!("expected 1 to 3 axes, got {count}"))
}

/// Wraps a result of values and of positions, which are converted to int64.
fn with_indices(
    py: Python<'_>,
    x: &Tensor,
    f: impl FnOnce() -> Result<(Tensor, Tensor)> + Send,
) -> Outcome<(PyTensor, PyTensor)> {
    let (values, indices) = run(py, x.elements(), || {
        let (values, indices) = f()?;
        Ok((values, indices.to_dtype(DType::I64)?))
    })?;
    Ok((PyTensor::new(values), PyTensor::new(indices)))
}

/// Kernel, stride, padding, dilation; whether the last window may be partial (`ceil_mode`), whether
/// the padding counts (`count_include_pad`), and a divisor.
#[derive(FromPyObject)]
struct Options(Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>, bool, bool, Option<i64>);

impl Options {
    fn of<const N: usize>(&self) -> Outcome<PoolOptions<N>> {
        Ok(PoolOptions {
            kernel: to_array(&self.0)?,
            stride: to_array(&self.1)?,
            padding: to_array(&self.2)?,
            dilation: to_array(&self.3)?,
            ceil_mode: self.4,
            count_include_pad: self.5,
            divisor_override: self.6,
        })
    }
}

/// Returns the largest element of each window, and its position.
#[pyfunction]
fn _max_pool(py: Python<'_>, input: Input<'_>, options: Options) -> Outcome<(PyTensor, PyTensor)> {
    let x = input.get().tensor();
    match options.0.len() {
        1 => {
            let options = options.of()?;
            with_indices(py, &x, || x.max_pool1d_with_positions(options))
        }
        2 => {
            let options = options.of()?;
            with_indices(py, &x, || x.max_pool2d_with_positions(options))
        }
        3 => {
            let options = options.of()?;
            with_indices(py, &x, || x.max_pool3d_with_positions(options))
        }
        count => Err(axis_count_error(count)),
    }
}

/// Returns the mean of each window, or, with `p`, the root of its sum of powers.
#[pyfunction]
fn _avg_pool(py: Python<'_>, input: Input<'_>, options: Options, p: Option<Real>) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let pool = |f: &(dyn Fn() -> Result<Tensor> + Sync)| run(py, x.elements(), f).map(PyTensor::new);
    match options.0.len() {
        1 => {
            let options = options.of()?;
            pool(&|| p.map_or_else(|| x.avg_pool1d(options), |p| x.lp_pool1d(p.0, options)))
        }
        2 => {
            let options = options.of()?;
            pool(&|| p.map_or_else(|| x.avg_pool2d(options), |p| x.lp_pool2d(p.0, options)))
        }
        3 => {
            let options = options.of()?;
            pool(&|| p.map_or_else(|| x.avg_pool3d(options), |p| x.lp_pool3d(p.0, options)))
        }
        count => Err(axis_count_error(count)),
    }
}

/// Returns the means of windows that divide the input into the requested number of parts.
#[pyfunction]
fn _adaptive_avg_pool(py: Python<'_>, input: Input<'_>, size: Vec<usize>) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let pooled = || match *size {
        [length] => x.adaptive_avg_pool1d([length]),
        [rows, columns] => x.adaptive_avg_pool2d([rows, columns]),
        [planes, rows, columns] => x.adaptive_avg_pool3d([planes, rows, columns]),
        _ => Err(ternion::Error::invalid("adaptive_avg_pool", format!("{} sizes", size.len()))),
    };
    run(py, x.elements(), pooled).map(PyTensor::new)
}

/// Returns the largest elements of windows that divide the input into the requested number of
/// parts, and their positions.
#[pyfunction]
fn _adaptive_max_pool(py: Python<'_>, input: Input<'_>, size: Vec<usize>) -> Outcome<(PyTensor, PyTensor)> {
    let x = input.get().tensor();
    with_indices(py, &x, || match *size {
        [length] => x.adaptive_max_pool1d([length]),
        [rows, columns] => x.adaptive_max_pool2d([rows, columns]),
        [planes, rows, columns] => x.adaptive_max_pool3d([planes, rows, columns]),
        _ => Err(ternion::Error::invalid("adaptive_max_pool", format!("{} sizes", size.len()))),
    })
}

/// Returns the largest elements of windows at random distances, and their positions.
#[pyfunction]
fn _fractional_max_pool(
    py: Python<'_>,
    input: Input<'_>,
    kernel: Vec<usize>,
    size: Vec<usize>,
    samples: Input<'_>,
) -> Outcome<(PyTensor, PyTensor)> {
    let (x, samples) = (input.get().tensor(), samples.get().tensor());
    match kernel.len() {
        2 => {
            let (kernel, size) = (to_array(&kernel)?, to_array(&size)?);
            with_indices(py, &x, || x.fractional_max_pool2d(kernel, size, &samples))
        }
        3 => {
            let (kernel, size) = (to_array(&kernel)?, to_array(&size)?);
            with_indices(py, &x, || x.fractional_max_pool3d(kernel, size, &samples))
        }
        count => Err(RaisedError::value_error(format!("expected 2 or 3 axes, got {count}"))),
    }
}

/// Writes the elements to their positions in a tensor of zeros.
#[pyfunction]
fn _max_unpool(py: Python<'_>, input: Input<'_>, indices: Input<'_>, size: Vec<usize>) -> Outcome<PyTensor> {
    let (x, indices) = (input.get().tensor(), indices.get().tensor());
    let unpooled = || match *size {
        [length] => x.max_unpool1d(&indices, [length]),
        [rows, columns] => x.max_unpool2d(&indices, [rows, columns]),
        [planes, rows, columns] => x.max_unpool3d(&indices, [planes, rows, columns]),
        _ => Err(ternion::Error::invalid("max_unpool", format!("{} sizes", size.len()))),
    };
    run(py, x.elements(), unpooled).map(PyTensor::new)
}

/// Applies a convolution over three axes.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn _conv3d(
    py: Python<'_>,
    input: Input<'_>,
    weight: Input<'_>,
    bias: Option<Input<'_>>,
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
) -> Outcome<PyTensor> {
    let (x, weight, bias) =
        (input.get().tensor(), weight.get().tensor(), bias.map(|bias| bias.get().tensor()));
    let options = Conv3dOptions { stride, padding, dilation, groups };
    run(py, x.elements(), || x.conv3d(&weight, bias.as_ref(), options)).map(PyTensor::new)
}

/// Applies a transposed convolution over one or three axes.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn _conv_transpose(
    py: Python<'_>,
    input: Input<'_>,
    weight: Input<'_>,
    bias: Option<Input<'_>>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    output_padding: Vec<usize>,
    groups: usize,
    dilation: Vec<usize>,
) -> Outcome<PyTensor> {
    let (x, weight, bias) =
        (input.get().tensor(), weight.get().tensor(), bias.map(|bias| bias.get().tensor()));
    if stride.len() == 1 {
        let one = |values: &[usize]| to_array::<1>(values).map(|[value]| value);
        let (stride, padding) = (one(&stride)?, one(&padding)?);
        let (output_padding, dilation) = (one(&output_padding)?, one(&dilation)?);
        let options = ConvTranspose1dOptions { stride, padding, output_padding, dilation, groups };
        return run(py, x.elements(), || x.conv_transpose1d(&weight, bias.as_ref(), options))
            .map(PyTensor::new);
    }
    let options = ConvTranspose3dOptions {
        stride: to_array(&stride)?,
        padding: to_array(&padding)?,
        output_padding: to_array(&output_padding)?,
        dilation: to_array(&dilation)?,
        groups,
    };
    run(py, x.elements(), || x.conv_transpose3d(&weight, bias.as_ref(), options)).map(PyTensor::new)
}

/// Resizes images to given sizes, or by given factors.
#[pyfunction]
fn _interpolate(
    py: Python<'_>,
    input: Input<'_>,
    size: Option<Vec<usize>>,
    factors: Option<Vec<Real>>,
    mode: String,
    align_corners: bool,
) -> Outcome<PyTensor> {
    let mode = parse_mode(&mode, align_corners)?;
    let factors = factors.map(|factors| factors.into_iter().map(f64::from).collect::<Vec<_>>());
    input.get().map_copied(py, |x| match (&size, &factors) {
        (Some(size), _) => x.interpolate(InterpolateSize::To(size), mode),
        (None, factors) => x.interpolate(InterpolateSize::Times(factors.as_deref().unwrap_or(&[])), mode),
    })
}

/// Pads with elements of the tensor, by the given amounts for each axis.
#[pyfunction]
fn _pad_around(
    py: Python<'_>,
    input: Input<'_>,
    amounts: Vec<[isize; 2]>,
    mode: String,
) -> Outcome<PyTensor> {
    input.get().map_copied(py, |x| match mode.as_str() {
        "reflect" => x.reflection_pad(&amounts),
        "replicate" => x.replication_pad(&amounts),
        _ => x.circular_pad(&amounts),
    })
}

/// Rearranges channels to pixels, pixels to channels, or channels between groups: by a factor or a
/// number of groups.
#[pyfunction]
fn _shuffle(py: Python<'_>, input: Input<'_>, function: String, by: usize) -> Outcome<PyTensor> {
    input.get().map_copied(py, |x| match function.as_str() {
        "pixel_shuffle" => x.pixel_shuffle(by),
        "pixel_unshuffle" => x.pixel_unshuffle(by),
        _ => x.channel_shuffle(by),
    })
}

/// Divides each element by a norm of the neighboring channels.
#[pyfunction]
fn _local_response_norm(
    py: Python<'_>,
    input: Input<'_>,
    size: usize,
    alpha: Real,
    beta: Real,
    k: Real,
) -> Outcome<PyTensor> {
    input.get().map_copied(py, |x| x.local_response_norm(size, alpha.0, beta.0, k.0))
}

/// Samples images at the positions of a grid.
#[pyfunction]
fn _grid_sample(
    py: Python<'_>,
    input: Input<'_>,
    grid: Input<'_>,
    mode: String,
    padding: String,
    align_corners: bool,
) -> Outcome<PyTensor> {
    let (x, grid) = (input.get().tensor(), grid.get().tensor());
    let mode = match mode.as_str() {
        "nearest" => GridMode::Nearest,
        "bicubic" => GridMode::Bicubic,
        _ => GridMode::Bilinear,
    };
    let padding = match padding.as_str() {
        "border" => GridPadding::Border,
        "reflection" => GridPadding::Reflection,
        _ => GridPadding::Zeros,
    };
    run(py, x.elements().max(grid.elements()), || x.grid_sample(&grid, mode, padding, align_corners))
        .map(PyTensor::new)
}

/// Returns the sampling positions of affine maps.
#[pyfunction]
fn _affine_grid(
    py: Python<'_>,
    theta: Input<'_>,
    size: Vec<usize>,
    align_corners: bool,
) -> Outcome<PyTensor> {
    theta.get().map_copied(py, |theta| theta.affine_grid(&size, align_corners))
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_max_pool, module)?)?;
    module.add_function(wrap_pyfunction!(_avg_pool, module)?)?;
    module.add_function(wrap_pyfunction!(_adaptive_avg_pool, module)?)?;
    module.add_function(wrap_pyfunction!(_adaptive_max_pool, module)?)?;
    module.add_function(wrap_pyfunction!(_fractional_max_pool, module)?)?;
    module.add_function(wrap_pyfunction!(_max_unpool, module)?)?;
    module.add_function(wrap_pyfunction!(_conv3d, module)?)?;
    module.add_function(wrap_pyfunction!(_conv_transpose, module)?)?;
    module.add_function(wrap_pyfunction!(_interpolate, module)?)?;
    module.add_function(wrap_pyfunction!(_pad_around, module)?)?;
    module.add_function(wrap_pyfunction!(_shuffle, module)?)?;
    module.add_function(wrap_pyfunction!(_grid_sample, module)?)?;
    module.add_function(wrap_pyfunction!(_affine_grid, module)?)?;
    module.add_function(wrap_pyfunction!(_local_response_norm, module)?)
}
