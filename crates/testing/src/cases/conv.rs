//! Rows of convolutions.

use crate::prelude::*;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::conv::{Conv2d, Conv2dGradInput, Conv2dGradWeight, ConvConfig, Window};
use ternion_core::ops::conv_methods::{Conv1dOptions, Conv2dOptions, ConvTranspose2dOptions};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [patches(), forward(), gradients(), tf32_permitted(), one_axis(), transposed()].concat()
}

const PLAIN: Window = Window { kernel: [3, 2], stride: [1, 1], padding: [0, 0], dilation: [1, 1] };
const SQUARE: Window = Window { kernel: [3, 3], ..PLAIN };

fn config(window: Window, groups: usize) -> ConvConfig {
    ConvConfig { window, groups, tf32: false }
}

fn options(window: Window, groups: usize) -> Conv2dOptions {
    let Window { stride, padding, dilation, .. } = window;
    Conv2dOptions { stride, padding, dilation, groups }
}

fn text(window: Window) -> String {
    let Window { kernel, stride, padding, dilation } = window;
    format!("kernel={kernel:?} stride={stride:?} padding={padding:?} dilation={dilation:?}")
}

/// Returns how many windows fit on `size` pixels.
fn output_size(window: Window, axis: usize, size: usize) -> usize {
    (size + 2 * window.padding[axis] - window.dilation[axis] * (window.kernel[axis] - 1) - 1)
        / window.stride[axis]
        + 1
}

/// Returns the pixel under element `within` of window `output_index` along `axis`, if it is inside
/// the image.
fn pixel(window: Window, axis: usize, output_index: usize, within: usize, size: usize) -> Option<usize> {
    (output_index * window.stride[axis] + within * window.dilation[axis])
        .checked_sub(window.padding[axis])
        .filter(|&at| at < size)
}

/// Calls `f(output index, weight index, input index)` for every product of a convolution.
fn each_product(
    [batch, channels, height, width]: [usize; 4],
    out_channels: usize,
    ConvConfig { window, groups, .. }: ConvConfig,
    mut f: impl FnMut([usize; 4], [usize; 4], [usize; 4]),
) {
    let (group_in, group_out) = (channels / groups, out_channels / groups);
    let [oh, ow] = [output_size(window, 0, height), output_size(window, 1, width)];
    for n in 0..batch {
        for o in 0..out_channels {
            for (y, x) in (0..oh * ow).map(|output_index| (output_index / ow, output_index % ow)) {
                for c in 0..group_in {
                    for (i, j) in (0..window.kernel[0] * window.kernel[1])
                        .map(|at| (at / window.kernel[1], at % window.kernel[1]))
                    {
                        let in_window = (pixel(window, 0, y, i, height), pixel(window, 1, x, j, width));
                        if let (Some(row), Some(column)) = in_window {
                            f([n, o, y, x], [o, c, i, j], [n, o / group_out * group_in + c, row, column]);
                        }
                    }
                }
            }
        }
    }
}

fn conv2d(x: &Array, weight: &Array, bias: Option<&Array>, config: ConvConfig) -> Array {
    let [batch, _, height, width] = x.sizes();
    let out_channels = weight.shape[0];
    let window = config.window;
    let shape = [batch, out_channels, output_size(window, 0, height), output_size(window, 1, width)];
    let mut y = Array::from_fn(&shape, |at| bias.map_or(0.0, |bias| bias.data[at[1]]));
    each_product(x.sizes(), out_channels, config, |output, tap, input| {
        *y.at_mut(&output) += weight.at(&tap) * x.at(&input);
    });
    y
}

fn grad_input(weight: &Array, dy: &Array, size: [usize; 2], config: ConvConfig) -> Array {
    let shape = [dy.shape[0], weight.shape[1] * config.groups, size[0], size[1]];
    let mut dx = Array::zeros(&shape);
    each_product(shape, weight.shape[0], config, |output, tap, input| {
        *dx.at_mut(&input) += weight.at(&tap) * dy.at(&output);
    });
    dx
}

fn grad_weight(x: &Array, dy: &Array, config: ConvConfig) -> Array {
    let [kh, kw] = config.window.kernel;
    let mut dw = Array::zeros(&[dy.shape[1], x.shape[1] / config.groups, kh, kw]);
    each_product(x.sizes(), dy.shape[1], config, |output, tap, input| {
        *dw.at_mut(&tap) += x.at(&input) * dy.at(&output);
    });
    dw
}

fn im2col(x: &Array, window: Window) -> Array {
    let [batch, channels, height, width] = x.sizes();
    let ([oh, ow], [kh, kw]) = ([output_size(window, 0, height), output_size(window, 1, width)], window.kernel);
    Array::from_fn(&[batch, channels * kh * kw, oh * ow], |at| {
        let (c, i, j) = (at[1] / (kh * kw), at[1] / kw % kh, at[1] % kw);
        let row = pixel(window, 0, at[2] / ow, i, height);
        let column = pixel(window, 1, at[2] % ow, j, width);
        row.zip(column).map_or(0.0, |(row, column)| x.at(&[at[0], c, row, column]))
    })
}

fn col2im(columns: &Array, window: Window, [height, width]: [usize; 2]) -> Array {
    let ([_, ow], [kh, kw]) = ([output_size(window, 0, height), output_size(window, 1, width)], window.kernel);
    let [batch, rows, _] = columns.sizes();
    let mut image = Array::zeros(&[batch, rows / (kh * kw), height, width]);
    Array::from_fn(&columns.shape, |at| {
        let (c, i, j) = (at[1] / (kh * kw), at[1] / kw % kh, at[1] % kw);
        let row = pixel(window, 0, at[2] / ow, i, height);
        let column = pixel(window, 1, at[2] % ow, j, width);
        if let Some((row, column)) = row.zip(column) {
            *image.at_mut(&[at[0], c, row, column]) += columns.at(at);
        }
        0.0
    });
    image
}

/// Windows that each differ from the plain one in one parameter, and one that differs in all.
fn windows() -> [Window; 5] {
    [
        PLAIN,
        Window { stride: [2, 3], ..PLAIN },
        Window { padding: [1, 2], ..PLAIN },
        Window { dilation: [2, 3], ..PLAIN },
        Window { kernel: [2, 3], stride: [2, 1], padding: [2, 1], dilation: [1, 2] },
    ]
}

fn patches() -> Vec<OpCase> {
    let columns_of = |window: Window| {
        OpCase::new("im2col", text(window))
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 3, 6, 5]])
            .on([&[1, 1, 5, 7]])
            .exact()
            .double_backward()
            .run(move |x| x[0].im2col(window))
            .oracle(move |x| im2col(&x[0], window))
    };
    let image_of = |window: Window| {
        let size = [6, 5];
        let outputs = output_size(window, 0, size[0]) * output_size(window, 1, size[1]);
        OpCase::new("col2im", text(window))
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 12, outputs]])
            .on([&[1, 6, outputs]])
            // A pixel is the sum of up to six elements of magnitude 4, which may cancel.
            .f32_limit(2e-6, 2e-6)
            .double_backward()
            .run(move |x| x[0].col2im(window, size))
            .oracle(move |x| col2im(&x[0], window, size))
    };
    let mut rows: Vec<OpCase> = windows().into_iter().map(columns_of).collect();
    rows.extend(windows().into_iter().map(image_of));
    rows.push(
        columns_of(Window { kernel: [1, 1], ..PLAIN })
            .on([&[0, 2, 3, 3]])
            .on([&[2, 0, 3, 3]])
            .rejects("im2col: expected 4 axes, got shape [3, 3]", |device| {
                Tensor::zeros([3, 3], F32, device)?.im2col(PLAIN)
            })
            .rejects(
                "im2col: window [3, 2] with dilation [1, 1] is larger than image [2, 4] with padding [0, 0]",
                |device| Tensor::zeros([1, 1, 2, 4], F32, device)?.im2col(PLAIN),
            )
            .rejects("im2col: kernel [3, 2], stride [1, 0] and dilation [1, 1] must be at least 1", |device| {
                Tensor::zeros([1, 1, 4, 4], F32, device)?.im2col(Window { stride: [1, 0], ..PLAIN })
            })
            .rejects("im2col: expected 4 axes, got shape [4, 4]", |device| {
                Tensor::zeros([4, 4], I32, device)?.im2col(PLAIN)
            })
            .rejects("col2im: 7 channels are not a multiple of 6 groups", |device| {
                Tensor::zeros([1, 7, 4], F32, device)?.col2im(PLAIN, [4, 3])
            })
            .rejects("col2im: columns has shape [1, 6, 5], expected [1, 6, 4]", |device| {
                Tensor::zeros([1, 6, 5], F32, device)?.col2im(PLAIN, [4, 3])
            }),
    );
    rows
}

/// Sums of tens or hundreds of products of magnitude 1, which may cancel: rounding errors are
/// absolute.
fn of_sums(row: OpCase) -> OpCase {
    row.f32_limit(3e-6, 2e-6)
}

fn forward() -> Vec<OpCase> {
    let without_bias = |window: Window, groups: usize| {
        of_sums(OpCase::new("conv2d", format!("{} groups={groups}", text(window))))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .double_backward()
            .run(move |x| x[0].conv2d(&x[1], None, options(window, groups)))
            .oracle(move |x| conv2d(&x[0], &x[1], None, config(window, groups)))
    };
    let mut rows: Vec<OpCase> = windows()
        .into_iter()
        .map(|window| {
            let [kh, kw] = window.kernel;
            without_bias(window, 1).on([&[2, 3, 6, 5], &[4, 3, kh, kw]])
        })
        .collect();
    let square = Window { padding: [1, 1], ..SQUARE };
    rows.push(
        without_bias(square, 1)
            .on([&[1, 9, 4, 5], &[2, 9, 3, 3]])
            .on([&[0, 2, 4, 4], &[3, 2, 3, 3]])
            .perf([&[64, 32, 28, 28], &[64, 32, 3, 3]])
            .perf([&[32, 64, 56, 56], &[64, 64, 3, 3]]),
    );
    rows.push(without_bias(PLAIN, 3).on([&[2, 6, 4, 3], &[9, 2, 3, 2]]));
    rows.push(without_bias(square, 4).on([&[2, 4, 5, 3], &[4, 1, 3, 3]]));
    rows.push(without_bias(Window { kernel: [1, 1], ..PLAIN }, 1).on([&[2, 5, 3, 3], &[3, 5, 1, 1]]));
    rows.push(with_bias());
    rows.push(many_outputs());
    rows
}

/// More output positions than fit in one block of columns.
fn many_outputs() -> OpCase {
    let window = Window { kernel: [7, 7], padding: [3, 3], ..PLAIN };
    OpCase::new("conv2d", "bias, many positions")
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .on([&[1, 2, 31, 46], &[2, 2, 7, 7], &[2]])
        .dtypes(&[F32, BF16])
        .f32_limit(1e-5, 2e-6)
        .forward_only("small images show the gradients")
        .run(move |x| x[0].conv2d(&x[1], Some(&x[2]), options(window, 1)))
        .oracle(move |x| conv2d(&x[0], &x[1], Some(&x[2]), config(window, 1)))
}

fn with_bias() -> OpCase {
    let window = Window { stride: [2, 1], padding: [1, 0], ..PLAIN };
    let zeros = |device: &Device, shape: [usize; 4]| Tensor::zeros(shape, F32, device);
    of_sums(OpCase::new("conv2d", "bias groups=2"))
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .on([&[2, 4, 5, 4], &[6, 2, 3, 2], &[6]])
        .double_backward()
        .run(move |x| x[0].conv2d(&x[1], Some(&x[2]), options(window, 2)))
        .oracle(move |x| conv2d(&x[0], &x[1], Some(&x[2]), config(window, 2)))
        .rejects("conv2d: input of shape [1, 3, 5, 5], expected 2 channels along axis 1, as weight of shape [4, 2, 3, 3] takes", move |device| {
            zeros(device, [1, 3, 5, 5])?.conv2d(&zeros(device, [4, 2, 3, 3])?, None, Conv2dOptions::default())
        })
        .rejects("conv2d: 3 channels are not a multiple of 2 groups", move |device| {
            let options = Conv2dOptions { groups: 2, ..Conv2dOptions::default() };
            zeros(device, [1, 3, 5, 5])?.conv2d(&zeros(device, [4, 2, 3, 3])?, None, options)
        })
        .rejects("conv2d: bias has shape [3], expected [4]", move |device| {
            let bias = Tensor::zeros([3], F32, device)?;
            let weight = zeros(device, [4, 3, 3, 3])?;
            zeros(device, [1, 3, 5, 5])?.conv2d(&weight, Some(&bias), Conv2dOptions::default())
        })
        .rejects("conv2d: dtypes f32 and f64 differ; cast one of them with to_dtype", move |device| {
            let weight = Tensor::zeros([4, 3, 3, 3], F64, device)?;
            zeros(device, [1, 3, 5, 5])?.conv2d(&weight, None, Conv2dOptions::default())
        })
        .rejects("conv2d: expected 4 axes, got shape [5, 5]", move |device| {
            let weight = zeros(device, [4, 3, 3, 3])?;
            Tensor::zeros([5, 5], F32, device)?.conv2d(&weight, None, Conv2dOptions::default())
        })
        .rejects(
            "conv2d: window [3, 3] with dilation [1, 1] is larger than image [2, 5] with padding [0, 0]",
            move |device| {
                let weight = zeros(device, [4, 3, 3, 3])?;
                zeros(device, [1, 3, 2, 5])?.conv2d(&weight, None, Conv2dOptions::default())
            },
        )
}

/// Convolutions and gradient ops that permit TF32: a device that does not round has the same limits
/// as without the permission.
fn tf32_permitted() -> Vec<OpCase> {
    let window = Window { stride: [2, 1], padding: [1, 0], ..PLAIN };
    let config = ConvConfig { tf32: true, ..config(window, 2) };
    let row = |op: &'static str| {
        of_sums(OpCase::new(op, "tf32 groups=2"))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .tf32_factors(2)
    };
    vec![
        row("conv2d")
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 4, 5, 4], &[6, 2, 3, 2], &[6]])
            .run(move |x| apply_one(Conv2d { config, bias: true }, &[&x[0], &x[1], &x[2]]))
            .oracle(move |x| conv2d(&x[0], &x[1], Some(&x[2]), config)),
        row("conv2d_grad_input")
            .on([&[6, 2, 3, 2], &[2, 6, 3, 3]])
            .run(move |x| apply_one(Conv2dGradInput { config, size: [5, 4] }, &[&x[0], &x[1]]))
            .oracle(move |x| grad_input(&x[0], &x[1], [5, 4], config)),
        row("conv2d_grad_weight")
            .on([&[2, 4, 5, 4], &[2, 6, 3, 3]])
            .run(move |x| apply_one(Conv2dGradWeight { config }, &[&x[0], &x[1]]))
            .oracle(move |x| grad_weight(&x[0], &x[1], config)),
    ]
}

/// The gradient ops themselves, which have gradients too.
fn gradients() -> Vec<OpCase> {
    let size = [6, 5];
    let grad_input_row = |window: Window, groups: usize, size: [usize; 2]| {
        let config = config(window, groups);
        of_sums(OpCase::new("conv2d_grad_input", format!("{} groups={groups} size={size:?}", text(window))))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .double_backward()
            .run(move |x| apply_one(Conv2dGradInput { config, size }, &[&x[0], &x[1]]))
            .oracle(move |x| grad_input(&x[0], &x[1], size, config))
    };
    let grad_input_case = |window: Window, groups: usize| {
        let [kh, kw] = window.kernel;
        let [oh, ow] = [output_size(window, 0, size[0]), output_size(window, 1, size[1])];
        grad_input_row(window, groups, size).on([&[4, 3, kh, kw], &[2, 4, oh, ow]])
    };
    let grad_weight_row = |window: Window, groups: usize| {
        let config = config(window, groups);
        of_sums(OpCase::new("conv2d_grad_weight", format!("{} groups={groups}", text(window))))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .double_backward()
            .run(move |x| apply_one(Conv2dGradWeight { config }, &[&x[0], &x[1]]))
            .oracle(move |x| grad_weight(&x[0], &x[1], config))
    };
    let grad_weight_case = |window: Window, groups: usize| {
        let [oh, ow] = [output_size(window, 0, size[0]), output_size(window, 1, size[1])];
        grad_weight_row(window, groups)
            .on([&[2, 2 * groups, size[0], size[1]], &[2, 4, oh, ow]])
            .on([&[0, 2 * groups, size[0], size[1]], &[0, 4, oh, ow]])
    };
    let mut rows: Vec<OpCase> = windows().into_iter().map(|window| grad_input_case(window, 1)).collect();
    rows.extend(windows().into_iter().map(|window| grad_weight_case(window, 1)));
    // Sums of hundreds of products, here and in the second-order gradients.
    rows.push(grad_input_row(SQUARE, 1, [3, 3]).on([&[2, 28, 3, 3], &[1, 2, 1, 1]]));
    rows.push(grad_input_row(SQUARE, 1, [5, 5]).on([&[28, 2, 3, 3], &[1, 28, 3, 3]]));
    rows.push(grad_input_row(SQUARE, 1, [15, 15]).on([&[1, 1, 3, 3], &[2, 1, 13, 13]]));
    rows.push(
        grad_weight_row(SQUARE, 1)
            .on([&[1, 28, 3, 3], &[1, 2, 1, 1]])
            .on([&[1, 2, 5, 5], &[1, 28, 3, 3]])
            .on([&[2, 1, 15, 15], &[2, 1, 13, 13]]),
    );
    rows.push(grad_input_case(PLAIN, 2).rejects(
        "conv2d_grad_input: grad_output has shape [2, 4, 4, 5], expected [2, 4, 4, 4]",
        move |device| {
            let weight = Tensor::zeros([4, 3, 3, 2], F32, device)?;
            let op = Conv2dGradInput { config: config(PLAIN, 1), size };
            apply_one(op, &[&weight, &Tensor::zeros([2, 4, 4, 5], F32, device)?])
        },
    ));
    rows.push(grad_weight_case(PLAIN, 2).rejects(
        "conv2d_grad_weight: grad_output has shape [3, 4, 4, 4], expected [2, 4, 4, 4]",
        move |device| {
            let x = Tensor::zeros([2, 3, 6, 5], F32, device)?;
            let op = Conv2dGradWeight { config: config(PLAIN, 1) };
            apply_one(op, &[&x, &Tensor::zeros([3, 4, 4, 4], F32, device)?])
        },
    ));
    rows
}

fn one_axis() -> Vec<OpCase> {
    let row = |options: Conv1dOptions| {
        let Conv1dOptions { stride, padding, dilation, groups } = options;
        let window =
            Window { kernel: [1, 3], stride: [1, stride], padding: [0, padding], dilation: [1, dilation] };
        let with_height_1 = |x: &Array| x.reshape(&[x.shape[0], x.shape[1], 1, x.shape[2]]);
        of_sums(OpCase::new("conv1d", format!("{options:?}")))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 4, 9], &[6, 4 / groups, 3], &[6]])
            .run(move |x| x[0].conv1d(&x[1], Some(&x[2]), options))
            .oracle(move |x| {
                let y = conv2d(&with_height_1(&x[0]), &with_height_1(&x[1]), Some(&x[2]), config(window, groups));
                y.reshape(&[y.shape[0], y.shape[1], y.shape[3]])
            })
    };
    vec![
        row(Conv1dOptions::default())
            .rejects("conv1d: expected 3 axes, got shape [2, 9]", |device| {
                let weight = Tensor::zeros([6, 4, 3], F32, device)?;
                Tensor::zeros([2, 9], F32, device)?.conv1d(&weight, None, Conv1dOptions::default())
            })
            .rejects("conv1d: input of shape [1, 2, 9], expected 4 channels along axis 1, as weight of shape [6, 4, 3] takes", |device| {
                let weight = Tensor::zeros([6, 4, 3], F32, device)?;
                Tensor::zeros([1, 2, 9], F32, device)?.conv1d(&weight, None, Conv1dOptions::default())
            })
            .rejects("conv1d: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let weight = Tensor::zeros([6, 2, 3], F64, device)?;
                Tensor::zeros([1, 2, 9], F32, device)?.conv1d(&weight, None, Conv1dOptions::default())
            })
            .rejects("conv1d: 3 channels are not a multiple of 2 groups", |device| {
                let weight = Tensor::zeros([6, 3, 3], F32, device)?;
                let options = Conv1dOptions { groups: 2, ..Conv1dOptions::default() };
                Tensor::zeros([1, 3, 9], F32, device)?.conv1d(&weight, None, options)
            })
            .rejects("conv1d: bias has shape [2], expected [6]", |device| {
                let (weight, bias) = (Tensor::zeros([6, 2, 3], F32, device)?, Tensor::zeros([2], F32, device)?);
                let x = Tensor::zeros([1, 2, 9], F32, device)?;
                x.conv1d(&weight, Some(&bias), Conv1dOptions::default())
            })
            .rejects("conv1d: window 3 with dilation 2 is larger than input 2 with padding 1", |device| {
                let weight = Tensor::zeros([6, 2, 3], F32, device)?;
                let options = Conv1dOptions { dilation: 2, padding: 1, ..Conv1dOptions::default() };
                Tensor::zeros([1, 2, 2], F32, device)?.conv1d(&weight, None, options)
            })
            .rejects("conv1d: kernel 3, stride 0 and dilation 1 must be at least 1", |device| {
                let weight = Tensor::zeros([6, 2, 3], F32, device)?;
                let options = Conv1dOptions { stride: 0, ..Conv1dOptions::default() };
                Tensor::zeros([1, 2, 9], F32, device)?.conv1d(&weight, None, options)
            }),
        row(Conv1dOptions { stride: 2, padding: 1, ..Conv1dOptions::default() }),
        row(Conv1dOptions { dilation: 3, groups: 2, ..Conv1dOptions::default() }),
    ]
}

/// Each input element adds its multiple of the kernel to the output (PyTorch's `ConvTranspose2d`).
fn conv_transpose2d(x: &Array, weight: &Array, bias: &Array, options: ConvTranspose2dOptions) -> Array {
    let ([batch, channels, height, width], [_, group_out, kh, kw]) = (x.sizes(), weight.sizes());
    let ConvTranspose2dOptions { stride, padding, output_padding, dilation, groups } = options;
    let size = [(0, height, kh), (1, width, kw)].map(|(axis, size, kernel)| {
        (size - 1) * stride[axis] + dilation[axis] * (kernel - 1) + output_padding[axis] + 1 - 2 * padding[axis]
    });
    let mut y = Array::from_fn(&[batch, group_out * groups, size[0], size[1]], |at| bias.data[at[1]]);
    Array::from_fn(&x.shape, |at| {
        for o in 0..group_out {
            for (i, j) in (0..kh * kw).map(|within| (within / kw, within % kw)) {
                let coordinate = |axis: usize, within: usize| {
                    (at[2 + axis] * stride[axis] + within * dilation[axis])
                        .checked_sub(padding[axis])
                        .filter(|&coordinate| coordinate < size[axis])
                };
                if let (Some(row), Some(column)) = (coordinate(0, i), coordinate(1, j)) {
                    let group = at[1] / (channels / groups);
                    *y.at_mut(&[at[0], group * group_out + o, row, column]) +=
                        x.at(at) * weight.at(&[at[1], o, i, j]);
                }
            }
        }
        0.0
    });
    y
}

fn transposed() -> Vec<OpCase> {
    let row = |parameters: &str, options: ConvTranspose2dOptions| {
        of_sums(OpCase::new("conv_transpose2d", parameters))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 4, 3, 4], &[4, 3, 3, 2], &[3 * options.groups]])
            .steps()
            .run(move |x| x[0].conv_transpose2d(&x[1], Some(&x[2]), options))
            .oracle(move |x| conv_transpose2d(&x[0], &x[1], &x[2], options))
    };
    let plain = ConvTranspose2dOptions::default();
    let rejected = |options: ConvTranspose2dOptions| {
        move |device: &Device| {
            let weight = Tensor::zeros([4, 3, 3, 2], F32, device)?;
            Tensor::zeros([2, 4, 3, 4], F32, device)?.conv_transpose2d(&weight, None, options)
        }
    };
    vec![
        row("plain", plain)
            .rejects(
                "conv_transpose2d: output padding [1, 0] must be below stride [1, 1] or dilation [1, 1]",
                rejected(ConvTranspose2dOptions { output_padding: [1, 0], ..plain }),
            )
            .rejects("conv_transpose2d: input of shape [1, 4, 3, 4], expected 5 channels along axis 1, as weight of shape [5, 3, 3, 2] takes", |device| {
                let weight = Tensor::zeros([5, 3, 3, 2], F32, device)?;
                let x = Tensor::zeros([1, 4, 3, 4], F32, device)?;
                x.conv_transpose2d(&weight, None, ConvTranspose2dOptions::default())
            })
            .rejects("conv_transpose2d: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let weight = Tensor::zeros([4, 3, 3, 2], F64, device)?;
                let x = Tensor::zeros([1, 4, 3, 4], F32, device)?;
                x.conv_transpose2d(&weight, None, ConvTranspose2dOptions::default())
            })
            .rejects("conv_transpose2d: input is bool, expected a number", |device| {
                let weight = Tensor::zeros([4, 3, 3, 2], Bool, device)?;
                let x = Tensor::zeros([1, 4, 3, 4], Bool, device)?;
                x.conv_transpose2d(&weight, None, ConvTranspose2dOptions::default())
            })
            .rejects(
                "conv_transpose2d: 4 channels are not a multiple of 3 groups",
                rejected(ConvTranspose2dOptions { groups: 3, ..plain }),
            )
            .rejects(
                "conv_transpose2d: kernel [3, 2], stride [0, 1] and dilation [1, 1] must be at least 1",
                rejected(ConvTranspose2dOptions { stride: [0, 1], ..plain }),
            )
            .rejects("conv_transpose2d: bias has shape [2], expected [3]", |device| {
                let (x, weight) =
                    (Tensor::zeros([1, 4, 3, 4], F32, device)?, Tensor::zeros([4, 3, 3, 2], F32, device)?);
                let bias = Tensor::zeros([2], F32, device)?;
                x.conv_transpose2d(&weight, Some(&bias), ConvTranspose2dOptions::default())
            }),
        row("stride=[2, 3]", ConvTranspose2dOptions { stride: [2, 3], ..plain }),
        row(
            "stride=[2, 3] padding=[1, 0] output_padding=[1, 2]",
            ConvTranspose2dOptions { stride: [2, 3], padding: [1, 0], output_padding: [1, 2], ..plain },
        ),
        row(
            "stride=[2, 1] dilation=[2, 3] output_padding=[0, 2]",
            ConvTranspose2dOptions {
                stride: [2, 1],
                dilation: [2, 3],
                output_padding: [0, 2],
                padding: [0, 1],
                ..plain
            },
        ),
        row("groups=2", ConvTranspose2dOptions { groups: 2, padding: [1, 0], ..plain }),
    ]
}
