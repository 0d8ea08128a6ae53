//! Rows of convolutions over one and three axes, and of integers.

use super::pools::combinations;
use crate::cases::unary::wrap;
use crate::prelude::*;
use ternion_core::ops::conv::Window;
use ternion_core::{
    Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvTranspose1dOptions, ConvTranspose2dOptions,
    ConvTranspose3dOptions,
};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [volumes(), transposed_volumes(), transposed_1d(), integers(), patches()].concat()
}

/// The parameters of a convolution over any number of axes. Only transposed convolutions have an
/// output padding.
#[derive(Clone)]
struct ConvParameters {
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    output_padding: Vec<usize>,
    groups: usize,
}

impl From<Conv3dOptions> for ConvParameters {
    fn from(options: Conv3dOptions) -> ConvParameters {
        let Conv3dOptions { stride, padding, dilation, groups } = options;
        ConvParameters {
            stride: stride.into(),
            padding: padding.into(),
            dilation: dilation.into(),
            output_padding: Vec::new(),
            groups,
        }
    }
}

impl From<ConvTranspose3dOptions> for ConvParameters {
    fn from(options: ConvTranspose3dOptions) -> ConvParameters {
        let ConvTranspose3dOptions { stride, padding, output_padding, dilation, groups } = options;
        ConvParameters {
            stride: stride.into(),
            padding: padding.into(),
            dilation: dilation.into(),
            output_padding: output_padding.into(),
            groups,
        }
    }
}

/// Returns all indices of an array of these sizes.
fn indices_of(sizes: &[usize]) -> Vec<Vec<usize>> {
    combinations(&sizes.iter().map(|&size| (0..size).collect()).collect::<Vec<_>>())
}

/// Cross-correlation with zero padding: `y[n, o, ..] = bias[o] + sum x[n, c, ..] weight[o, c, ..]`.
fn convolved(x: &Array, weight: &Array, bias: &Array, parameters: &ConvParameters) -> Array {
    let axes = x.rank() - 2;
    let output: Vec<usize> = (0..axes)
        .map(|axis| {
            let span = parameters.dilation[axis] * (weight.shape[2 + axis] - 1) + 1;
            (x.shape[2 + axis] + 2 * parameters.padding[axis] - span) / parameters.stride[axis] + 1
        })
        .collect();
    let (outputs, per_group) = (weight.shape[0], weight.shape[1]);
    let taps = indices_of(&weight.shape[2..]);
    Array::from_fn(&[&[x.shape[0], outputs], &output[..]].concat(), |at| {
        let first = at[1] / (outputs / parameters.groups) * per_group;
        let mut sum = bias.data[at[1]];
        for tap in &taps {
            let input_index: Option<Vec<usize>> = (0..axes)
                .map(|axis| {
                    (at[2 + axis] * parameters.stride[axis] + tap[axis] * parameters.dilation[axis])
                        .checked_sub(parameters.padding[axis])
                        .filter(|&index| index < x.shape[2 + axis])
                })
                .collect();
            let Some(input_index) = input_index else { continue };
            for channel in 0..per_group {
                let of_x = x.at(&[&[at[0], first + channel], &input_index[..]].concat());
                sum += of_x * weight.at(&[&[at[1], channel], &tap[..]].concat());
            }
        }
        sum
    })
}

/// Each input element adds its multiple of the kernel to the output.
fn transposed(x: &Array, weight: &Array, bias: &Array, parameters: &ConvParameters) -> Array {
    let axes = x.rank() - 2;
    let output: Vec<usize> = (0..axes)
        .map(|axis| {
            (x.shape[2 + axis] - 1) * parameters.stride[axis]
                + parameters.dilation[axis] * (weight.shape[2 + axis] - 1)
                + parameters.output_padding[axis]
                + 1
                - 2 * parameters.padding[axis]
        })
        .collect();
    let (channels, per_group) = (x.shape[1], weight.shape[1]);
    let shape = [&[x.shape[0], per_group * parameters.groups], &output[..]].concat();
    let mut y = Array::from_fn(&shape, |at| bias.data[at[1]]);
    let taps = indices_of(&weight.shape[2..]);
    Array::from_fn(&x.shape, |at| {
        let group = at[1] / (channels / parameters.groups);
        for tap in &taps {
            let target: Option<Vec<usize>> = (0..axes)
                .map(|axis| {
                    (at[2 + axis] * parameters.stride[axis] + tap[axis] * parameters.dilation[axis])
                        .checked_sub(parameters.padding[axis])
                        .filter(|&index| index < output[axis])
                })
                .collect();
            let Some(target) = target else { continue };
            for o in 0..per_group {
                *y.at_mut(&[&[at[0], group * per_group + o], &target[..]].concat()) +=
                    x.at(at) * weight.at(&[&[at[1], o], &tap[..]].concat());
            }
        }
        0.0
    });
    y
}

/// Input, weight and bias: sums of tens of products of magnitude 1, which may cancel.
fn of_sums(op: &'static str, parameters: String) -> OpCase {
    OpCase::new(op, parameters)
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .f32_limit(3e-6, 2e-6)
}

fn volumes() -> Vec<OpCase> {
    let row = |options: Conv3dOptions| {
        let parameters = ConvParameters::from(options);
        // Gradients in half precision are rounded for each plane, and again where planes are added.
        of_sums("conv3d", format!("{options:?}"))
            .on([&[2, 2, 3, 4, 3], &[4, 2 / options.groups, 2, 3, 2], &[4]])
            .grad_roundings(2)
            .run(move |x| x[0].conv3d(&x[1], Some(&x[2]), options))
            .oracle(move |x| convolved(&x[0], &x[1], &x[2], &parameters))
    };
    let plain = Conv3dOptions::default();
    let zeros = |shape: &[usize], device: &Device| Tensor::zeros(shape, F32, device);
    vec![
        row(plain)
            .double_backward()
            .on([&[0, 2, 2, 3, 3], &[4, 2, 1, 1, 2], &[4]])
            .rejects("conv3d: expected 5 axes, got shape [2, 9, 3, 3]", move |device| {
                zeros(&[2, 9, 3, 3], device)?.conv3d(&zeros(&[6, 4, 3, 1, 1], device)?, None, plain)
            })
            .rejects("conv3d: input of shape [1, 2, 9, 3, 3], expected 4 channels along axis 1, as weight of shape [6, 4, 3, 1, 1] takes", move |device| {
                zeros(&[1, 2, 9, 3, 3], device)?.conv3d(&zeros(&[6, 4, 3, 1, 1], device)?, None, plain)
            })
            .rejects(
                "conv3d: window [3, 1, 1] with dilation [2, 1, 1] is larger than input [4, 3, 3] with padding [0, 0, 0]",
                move |device| {
                    let options = Conv3dOptions { dilation: [2, 1, 1], ..plain };
                    zeros(&[1, 2, 4, 3, 3], device)?.conv3d(&zeros(&[6, 2, 3, 1, 1], device)?, None, options)
                },
            )
            .rejects("conv3d: kernel [3, 1, 1], stride [1, 0, 1] and dilation [1, 1, 1] must be at least 1", move |device| {
                let options = Conv3dOptions { stride: [1, 0, 1], ..plain };
                zeros(&[1, 2, 4, 3, 3], device)?.conv3d(&zeros(&[6, 2, 3, 1, 1], device)?, None, options)
            })
            .rejects("conv3d: bias has shape [5], expected [6]", move |device| {
                let (weight, bias) = (zeros(&[6, 2, 3, 1, 1], device)?, zeros(&[5], device)?);
                zeros(&[1, 2, 4, 3, 3], device)?.conv3d(&weight, Some(&bias), plain)
            })
            .rejects("conv3d: input is bool, expected a number", move |device| {
                Tensor::zeros([1, 2, 4, 3, 3], Bool, device)?.conv3d(&zeros(&[6, 2, 3, 1, 1], device)?, None, plain)
            }),
        row(Conv3dOptions { stride: [2, 1, 2], padding: [1, 0, 2], ..plain }),
        row(Conv3dOptions { dilation: [2, 1, 2], padding: [1, 1, 0], groups: 2, ..plain }),
    ]
}

fn transposed_volumes() -> Vec<OpCase> {
    let row = |options: ConvTranspose3dOptions| {
        let parameters = ConvParameters::from(options);
        of_sums("conv_transpose3d", format!("{options:?}"))
            .on([&[2, 2, 2, 3, 2], &[2, 2, 2, 1, 3], &[2 * options.groups]])
            .run(move |x| x[0].conv_transpose3d(&x[1], Some(&x[2]), options))
            .oracle(move |x| transposed(&x[0], &x[1], &x[2], &parameters))
    };
    let plain = ConvTranspose3dOptions::default();
    let zeros = |shape: &[usize], device: &Device| Tensor::zeros(shape, F32, device);
    vec![
        row(plain)
            .double_backward()
            .rejects("conv_transpose3d: output padding 1 must be below stride 1 or dilation 1", move |device| {
                let options = ConvTranspose3dOptions { output_padding: [1, 0, 0], ..plain };
                zeros(&[1, 2, 4, 3, 3], device)?.conv_transpose3d(&zeros(&[2, 2, 3, 1, 1], device)?, None, options)
            })
            .rejects("conv_transpose3d: input of shape [1, 2, 4, 3, 3], expected 3 channels along axis 1, as weight of shape [3, 2, 3, 1, 1] takes", move |device| {
                zeros(&[1, 2, 4, 3, 3], device)?.conv_transpose3d(&zeros(&[3, 2, 3, 1, 1], device)?, None, plain)
            })
            .rejects(
                "conv_transpose3d: an axis of 2 with kernel 3, stride 1, padding 2 and dilation 1 leaves no output",
                move |device| {
                    let options = ConvTranspose3dOptions { padding: [2, 0, 0], ..plain };
                    zeros(&[1, 2, 2, 3, 3], device)?.conv_transpose3d(&zeros(&[2, 2, 3, 1, 1], device)?, None, options)
                },
            ),
        row(ConvTranspose3dOptions { stride: [2, 1, 3], padding: [1, 0, 1], output_padding: [1, 0, 2], ..plain }),
        row(ConvTranspose3dOptions { dilation: [3, 2, 1], output_padding: [2, 1, 0], padding: [1, 0, 0], groups: 2, ..plain }),
    ]
}

fn transposed_1d() -> Vec<OpCase> {
    let row = |options: ConvTranspose1dOptions| {
        let ConvTranspose1dOptions { stride, padding, output_padding, dilation, groups } = options;
        let parameters = ConvParameters {
            stride: vec![stride],
            padding: vec![padding],
            dilation: vec![dilation],
            output_padding: vec![output_padding],
            groups,
        };
        of_sums("conv_transpose1d", format!("{options:?}"))
            .on([&[2, 4, 5], &[4, 2, 3], &[2 * groups]])
            .steps()
            .run(move |x| x[0].conv_transpose1d(&x[1], Some(&x[2]), options))
            .oracle(move |x| transposed(&x[0], &x[1], &x[2], &parameters))
    };
    let plain = ConvTranspose1dOptions::default();
    vec![
        row(plain)
            .rejects("conv_transpose1d: expected 3 axes, got shape [2, 5]", move |device| {
                let weight = Tensor::zeros([2, 3, 3], F32, device)?;
                Tensor::zeros([2, 5], F32, device)?.conv_transpose1d(&weight, None, plain)
            })
            .rejects("conv_transpose1d: kernel 3, stride 0 and dilation 1 must be at least 1", move |device| {
                let weight = Tensor::zeros([2, 3, 3], F32, device)?;
                let options = ConvTranspose1dOptions { stride: 0, ..plain };
                Tensor::zeros([1, 2, 5], F32, device)?.conv_transpose1d(&weight, None, options)
            }),
        row(ConvTranspose1dOptions { stride: 2, padding: 1, output_padding: 1, groups: 2, ..plain }),
        row(ConvTranspose1dOptions { dilation: 2, output_padding: 1, ..plain }),
    ]
}

/// Integers whose sums of products fit i64 exactly, and wrap in narrower dtypes.
fn convolution_row(op: &'static str, parameters: String) -> OpCase {
    let values = || Integers(-11, 11);
    OpCase::new(op, parameters).input(values()).input(values()).input(values()).dtypes(INTEGERS).exact()
}

fn wrapped(dtype: DType, y: &Array) -> Array {
    y.map(|y| wrap(dtype, y))
}

fn integers() -> Vec<OpCase> {
    let options_1d = Conv1dOptions { stride: 2, padding: 1, dilation: 1, groups: 2 };
    let options_2d = Conv2dOptions { stride: [1, 2], padding: [1, 0], dilation: [2, 1], groups: 2 };
    let options_3d = Conv3dOptions { stride: [2, 1, 1], padding: [1, 0, 1], ..Conv3dOptions::default() };
    let transposed_2d = ConvTranspose2dOptions { stride: [2, 1], padding: [1, 0], output_padding: [1, 0], dilation: [1, 2], groups: 2 };
    let transposed_3d = ConvTranspose3dOptions { stride: [2, 1, 1], output_padding: [1, 0, 0], ..ConvTranspose3dOptions::default() };
    let parameters = |stride: &[usize], padding: &[usize], dilation: &[usize], output_padding: &[usize]| ConvParameters {
        stride: stride.into(),
        padding: padding.into(),
        dilation: dilation.into(),
        output_padding: output_padding.into(),
        groups: 2,
    };
    let (parameters_1d, parameters_2d) = (parameters(&[2], &[1], &[1], &[]), parameters(&[1, 2], &[1, 0], &[2, 1], &[]));
    let transposed_parameters_2d = parameters(&[2, 1], &[1, 0], &[1, 2], &[1, 0]);
    vec![
        convolution_row("conv1d", "integers".into())
            .on([&[2, 4, 7], &[6, 2, 3], &[6]])
            .run(move |x| x[0].conv1d(&x[1], Some(&x[2]), options_1d))
            .oracle_for(move |dtype, x| wrapped(dtype, &convolved(&x[0], &x[1], &x[2], &parameters_1d))),
        convolution_row("conv2d", "integers".into())
            .on([&[2, 4, 5, 6], &[6, 2, 2, 3], &[6]])
            .on([&[0, 4, 5, 6], &[6, 2, 2, 3], &[6]])
            .run(move |x| x[0].conv2d(&x[1], Some(&x[2]), options_2d))
            .oracle_for(move |dtype, x| wrapped(dtype, &convolved(&x[0], &x[1], &x[2], &parameters_2d)))
            .rejects("conv2d: input of shape [1, 2, 4, 4], expected 4 channels along axis 1, as weight of shape [6, 4, 2, 3] takes", |device| {
                let weight = Tensor::zeros([6, 4, 2, 3], I32, device)?;
                let x = Tensor::zeros([1, 2, 4, 4], I32, device)?;
                x.conv2d(&weight, None, Conv2dOptions::default())
            }),
        convolution_row("conv3d", "integers".into())
            .on([&[1, 2, 3, 3, 4], &[2, 2, 2, 1, 3], &[2]])
            .run(move |x| x[0].conv3d(&x[1], Some(&x[2]), options_3d))
            .oracle_for(move |dtype, x| wrapped(dtype, &convolved(&x[0], &x[1], &x[2], &options_3d.into()))),
        convolution_row("conv_transpose2d", "integers".into())
            .on([&[2, 4, 3, 2], &[4, 3, 2, 3], &[6]])
            .run(move |x| x[0].conv_transpose2d(&x[1], Some(&x[2]), transposed_2d))
            .oracle_for(move |dtype, x| wrapped(dtype, &transposed(&x[0], &x[1], &x[2], &transposed_parameters_2d))),
        convolution_row("conv_transpose3d", "integers".into())
            .on([&[1, 2, 2, 3, 2], &[2, 2, 2, 1, 3], &[2]])
            .run(move |x| x[0].conv_transpose3d(&x[1], Some(&x[2]), transposed_3d))
            .oracle_for(move |dtype, x| wrapped(dtype, &transposed(&x[0], &x[1], &x[2], &transposed_3d.into()))),
    ]
}

/// Patches of integers and bools.
fn patches() -> Vec<OpCase> {
    let window = Window { kernel: [2, 3], stride: [2, 1], padding: [1, 0], dilation: [1, 2] };
    vec![
        OpCase::new("im2col", "integers")
            .input(Integers(-90, 90))
            .dtypes(INTEGERS)
            .also(BOOL)
            .exact()
            .on([&[2, 2, 4, 6]])
            .on([&[0, 1, 4, 5]])
            .run(move |x| x[0].im2col(window))
            .oracle(move |x| {
                let [batch, channels, height, width] = x[0].sizes();
                let (oh, ow) = (height / 2 + 1, width - 4);
                Array::from_fn(&[batch, channels * 6, oh * ow], |at| {
                    let (channel, i, j) = (at[1] / 6, at[1] % 6 / 3, at[1] % 3);
                    let (row, column) = (at[2] / ow * 2 + i, at[2] % ow + 2 * j);
                    match row.checked_sub(1).filter(|&row| row < height) {
                        Some(row) => x[0].at(&[at[0], channel, row, column]),
                        None => 0.0,
                    }
                })
            }),
    ]
}
