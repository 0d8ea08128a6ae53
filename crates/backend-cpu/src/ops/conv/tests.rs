//! Comparison with the definitions, pixel by pixel, in f64.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor};
use ternion_core::DType;
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::conv::{
    Col2im, Conv2d, Conv2dGradInput, Conv2dGradWeight, ConvConfig, Im2col, Window,
};

struct Case {
    image: [usize; 4],
    outs: usize,
    groups: usize,
    window: Window,
}

fn cases() -> Vec<Case> {
    let window = |kernel, stride, padding, dilation| Window { kernel, stride, padding, dilation };
    let plain = window([3, 3], [1, 1], [0, 0], [1, 1]);
    vec![
        Case { image: [2, 3, 6, 7], outs: 4, groups: 1, window: plain },
        Case { image: [1, 4, 5, 6], outs: 6, groups: 2, window: window([2, 3], [2, 1], [1, 2], [1, 2]) },
        Case { image: [3, 2, 7, 5], outs: 2, groups: 2, window: window([3, 1], [1, 3], [4, 0], [2, 1]) },
        Case { image: [2, 5, 4, 4], outs: 3, groups: 1, window: window([1, 1], [1, 1], [0, 0], [1, 1]) },
        Case { image: [2, 2, 5, 5], outs: 3, groups: 1, window: window([1, 1], [2, 2], [1, 1], [1, 1]) },
        Case { image: [1, 1, 1, 1], outs: 1, groups: 1, window: window([1, 1], [1, 1], [0, 0], [1, 1]) },
        Case { image: [0, 2, 5, 5], outs: 2, groups: 1, window: plain },
        // Several tiles of positions, several blocks of channels, several ranges of images.
        Case { image: [1, 9, 130, 64], outs: 3, groups: 1, window: window([3, 3], [1, 1], [1, 1], [1, 1]) },
        Case { image: [20, 1, 9, 9], outs: 5, groups: 1, window: plain },
        Case { image: [2, 70, 5, 5], outs: 4, groups: 1, window: plain },
    ]
}

/// One product of the convolution: the elements of the image, the weight and the output that it
/// involves.
struct ProductTerm {
    image: usize,
    weight: usize,
    output: usize,
    /// Element of the patch matrix `[batch, channels * kh * kw, oh * ow]`; the same for every
    /// output channel.
    column: usize,
    first_out: bool,
}

impl Case {
    fn small(&self) -> [usize; 2] {
        self.window.output_size("conv", [self.image[2], self.image[3]]).unwrap()
    }

    fn weight_shape(&self) -> [usize; 4] {
        [self.outs, self.image[1] / self.groups, self.window.kernel[0], self.window.kernel[1]]
    }

    fn output_shape(&self) -> [usize; 4] {
        let [oh, ow] = self.small();
        [self.image[0], self.outs, oh, ow]
    }

    fn column_shape(&self) -> [usize; 3] {
        let [oh, ow] = self.small();
        [self.image[0], self.image[1] * self.window.kernel[0] * self.window.kernel[1], oh * ow]
    }

    fn for_each_term(&self, mut visit: impl FnMut(ProductTerm)) {
        let ([batch, channels, height, width], [oh, ow]) = (self.image, self.small());
        let [_, per_group, kh, kw] = self.weight_shape();
        let Window { stride, padding, dilation, .. } = self.window;
        for index in 0..batch * self.outs * oh * ow * per_group * kh * kw {
            let (rest, j) = (index / kw, index % kw);
            let (rest, i) = (rest / kh, rest % kh);
            let (output, c) = (rest / per_group, rest % per_group);
            let (row, column) = (output / ow % oh, output % ow);
            let (n, out) = (output / (ow * oh * self.outs), output / (ow * oh) % self.outs);
            let y = (row * stride[0] + i * dilation[0]) as isize - padding[0] as isize;
            let x = (column * stride[1] + j * dilation[1]) as isize - padding[1] as isize;
            if !(0..height as isize).contains(&y) || !(0..width as isize).contains(&x) {
                continue;
            }
            let out_per_group = self.outs / self.groups;
            let channel = out / out_per_group * per_group + c;
            visit(ProductTerm {
                image: ((n * channels + channel) * height + y as usize) * width + x as usize,
                weight: ((out * per_group + c) * kh + i) * kw + j,
                output,
                column: ((n * channels + channel) * kh * kw + i * kw + j) * oh * ow + row * ow + column,
                first_out: out % out_per_group == 0,
            });
        }
    }
}

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

#[test]
fn convolutions_and_gradients() {
    let device = crate::device();
    let mut numbers = Numbers::new(14);
    for case in cases() {
        let config = ConvConfig { window: case.window, groups: case.groups, tf32: false };
        for dtype in DType::FLOATS {
            let mut some = |shape: &[usize]| rounded(dtype, &numbers.between(-1.0, 1.0, count(shape)));
            let (x, weight, dy) = (some(&case.image), some(&case.weight_shape()), some(&case.output_shape()));
            let bias = some(&[case.outs]);
            let (mut y, mut dx, mut dweight) =
                (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; weight.len()]);
            case.for_each_term(|at| {
                y[at.output] += x[at.image] * weight[at.weight];
                dx[at.image] += dy[at.output] * weight[at.weight];
                dweight[at.weight] += dy[at.output] * x[at.image];
            });
            let [_, _, oh, ow] = case.output_shape();
            let biased: Vec<f64> =
                y.iter().enumerate().map(|(index, y)| y + bias[index / (oh * ow) % case.outs]).collect();
            let xs = layouts(dtype, &x, &case.image, &device);
            let weights = layouts(dtype, &weight, &case.weight_shape(), &device);
            let dys = layouts(dtype, &dy, &case.output_shape(), &device);
            let bias = tensor(dtype, &bias, &[case.outs], &device);
            // Sums of products below 1, in f32 or wider: errors grow with the square root of their
            // number.
            let depth = |terms: usize| 8.0 + 2.0 * (terms as f64).sqrt();
            let forward = depth(count(&case.weight_shape()[1..]));
            for (index, x) in xs.iter().enumerate() {
                let (weight, dy) = (&weights[(index + 1) % 4], &dys[(index + 2) % 4]);
                let what = format!("{:?} {:?}", case.image, case.window);
                let got = apply_one(Conv2d { config, bias: false }, &[x, weight]).unwrap();
                assert_close(&format!("conv2d {what}"), &got, &y, forward);
                let got = apply_one(Conv2d { config, bias: true }, &[x, weight, &bias]).unwrap();
                assert_close(&format!("conv2d with bias {what}"), &got, &biased, forward);
                let op = Conv2dGradInput { config, size: [case.image[2], case.image[3]] };
                let got = apply_one(op, &[weight, dy]).unwrap();
                assert_close(
                    &format!("conv2d_grad_input {what}"),
                    &got,
                    &dx,
                    depth(count(&case.weight_shape()) / case.image[1]),
                );
                let got = apply(Conv2dGradWeight { config }, &[x, dy]).unwrap();
                assert_close(
                    &format!("conv2d_grad_weight {what}"),
                    &got[0],
                    &dweight,
                    depth(case.image[0] * oh * ow),
                );
            }
        }
    }
}

#[test]
fn columns_and_back() {
    let device = crate::device();
    let mut numbers = Numbers::new(15);
    for case in cases() {
        for dtype in DType::FLOATS {
            let x = rounded(dtype, &numbers.between(-1.0, 1.0, count(&case.image)));
            let patches = rounded(dtype, &numbers.between(-1.0, 1.0, count(&case.column_shape())));
            let (mut columns, mut image) = (vec![0.0; patches.len()], vec![0.0; x.len()]);
            case.for_each_term(|at| {
                if at.first_out {
                    columns[at.column] = x[at.image];
                    image[at.image] += patches[at.column];
                }
            });
            for x in layouts(dtype, &x, &case.image, &device) {
                let got = apply_one(Im2col { window: case.window }, &[&x]).unwrap();
                assert_close("im2col", &got, &columns, 0.0);
            }
            for patches in layouts(dtype, &patches, &case.column_shape(), &device) {
                let op = Col2im { window: case.window, size: [case.image[2], case.image[3]] };
                assert_close("col2im", &apply_one(op, &[&patches]).unwrap(), &image, 4.0);
            }
        }
    }
}
