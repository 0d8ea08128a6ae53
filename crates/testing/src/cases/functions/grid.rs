//! Rows of images sampled at arbitrary positions, and of affine grids.

use crate::cases::reduce::gradients;
use crate::prelude::*;
use ternion_core::GridMode::{self, Bicubic, Bilinear, Nearest};
use ternion_core::GridPadding::{self, Border, Reflection, Zeros};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [sampled(), affine()].concat()
}

/// Converts a coordinate between -1 and 1 to a position along an axis, in elements.
fn in_elements(coordinate: f64, size: usize, align_corners: bool) -> f64 {
    match align_corners {
        true => (coordinate + 1.0) / 2.0 * (size as f64 - 1.0),
        false => ((coordinate + 1.0) * size as f64 - 1.0) / 2.0,
    }
}

/// The sampling options, and whether the input is an image (two axes) or a volume.
#[derive(Clone, Copy)]
struct Sampling {
    mode: GridMode,
    padding: GridPadding,
    align_corners: bool,
    axes: usize,
}

/// Maps a position outside the input according to the padding mode.
fn padded(position: f64, size: usize, Sampling { padding, align_corners, axes, .. }: Sampling) -> f64 {
    let last = size as f64 - 1.0;
    let (low, span) = if align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
    match padding {
        Zeros => position,
        _ if !position.is_finite() && (position.is_nan() || padding == Reflection) => if axes == 2 { 0.0 } else { last },
        Border => position.clamp(0.0, last),
        Reflection if span == 0.0 => 0.0,
        Reflection => {
            // Reflection has a period of twice the span.
            let offset = (position - low).rem_euclid(2.0 * span);
            (offset.min(2.0 * span - offset) + low).clamp(0.0, last)
        }
    }
}

/// Keys's cubic convolution kernel with a = -0.75.
fn keys(distance: f64) -> f64 {
    let (a, d) = (-0.75, distance.abs());
    match d {
        d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
        d if d.is_nan() => d,
        d if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
        _ => 0.0,
    }
}

/// Returns the elements along an axis that a position reads, with their weights.
fn taps(coordinate: f64, size: usize, sampling: Sampling) -> Vec<(f64, f64)> {
    let position = in_elements(coordinate, size, sampling.align_corners);
    match sampling.mode {
        Nearest => vec![(padded(position, size, sampling).round_ties_even(), 1.0)],
        Bilinear => {
            let position = padded(position, size, sampling);
            let low = position.floor();
            vec![(low, 1.0 - (position - low)), (low + 1.0, position - low)]
        }
        Bicubic => {
            let tap = |step: f64| {
                let at = position.floor() + step;
                (padded(at, size, sampling).round(), keys(position - at))
            };
            [-1.0, 0.0, 1.0, 2.0].map(tap).to_vec()
        }
    }
}

/// Samples outside an image read zeros, so that a NaN weight gives NaN; samples outside a volume
/// are skipped.
fn sample(x: &Array, grid: &Array, sampling: Sampling) -> Array {
    let axes = sampling.axes;
    let sizes = &x.shape[2..];
    Array::from_fn(&[&x.shape[..2], &grid.shape[1..=axes]].concat(), |at| {
        let mut terms = vec![(Vec::new(), 1.0)];
        for (axis, &size) in sizes.iter().enumerate() {
            let coordinate = grid.at(&[&at[..1], &at[2..], &[axes - 1 - axis]].concat());
            let taps = taps(coordinate, size, sampling);
            let extended = |(position, weight): (Vec<f64>, f64)| {
                let taps = taps.clone();
                taps.into_iter().map(move |(at, factor)| ([&position[..], &[at]].concat(), weight * factor))
            };
            terms = terms.into_iter().flat_map(extended).collect();
        }
        let value = |(position, weight): (Vec<f64>, f64)| {
            let is_inside = position.iter().zip(sizes).all(|(&at, &size)| at >= 0.0 && at <= size as f64 - 1.0);
            let position: Vec<usize> = position.iter().map(|&at| at as usize).collect();
            match is_inside {
                true => weight * x.at(&[&at[..2], &position[..]].concat()),
                false if axes == 2 => weight * 0.0,
                false => 0.0,
            }
        };
        terms.into_iter().map(value).sum()
    })
}

/// Positions in f32 are accurate to 1e-7 of the axis, and neighbors differ by up to 8.
fn row(sampling: (GridMode, GridPadding, bool), x: &[usize], grid: &[usize]) -> OpCase {
    let (mode, padding, align_corners) = sampling;
    let sampling = Sampling { mode, padding, align_corners, axes: x.len() - 2 };
    let grid_input = Input::float(Uniform(-1.4, 1.4));
    let grid_input = if mode == Nearest { grid_input.constant() } else { grid_input };
    OpCase::new("grid_sample", format!("{mode:?} {padding:?} align_corners={align_corners}"))
        .input(Uniform(-4.0, 4.0))
        .input(grid_input)
        .on([x, grid])
        .f32_limit(1e-5, 1e-5)
        .run(move |x| x[0].grid_sample(&x[1], mode, padding, align_corners))
        .oracle(move |x| sample(&x[0], &x[1], sampling))
}

fn sampled() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for padding in [Zeros, Border, Reflection] {
        for align_corners in [false, true] {
            for mode in [Bilinear, Nearest, Bicubic] {
                rows.push(row((mode, padding, align_corners), &[2, 2, 4, 7], &[2, 2, 3, 2]));
            }
            rows.push(row((Bilinear, padding, align_corners), &[1, 2, 3, 4, 2], &[1, 1, 2, 3, 3]));
        }
    }
    rows.push(row((Nearest, Zeros, false), &[1, 2, 3, 4, 2], &[1, 1, 2, 3, 3]));
    let image = Array::from_fn(&[1, 1, 2, 3], |at| (at[2] * 3 + at[3]) as f64);
    let far = Array::new(&[1, 1, 3, 2], vec![f64::INFINITY, 0.0, 1e30, -1e30, 0.0, 0.0]);
    rows[0] = rows[0].clone().double_backward().on([&[0, 2, 2, 2], &[0, 3, 3, 2]]).adversarial("far away", [image, far]);
    for row in &mut rows {
        *row = row.clone().adversarial("no numbers", non_finite_positions(row.instances[0][0].len() - 2));
    }
    rows.extend(gradients_at_non_finite_positions());
    let last = rows.pop().expect("there are rows");
    rows.push(rejecting(last));
    rows
}

/// An image or a volume, and a grid in which every position except the second has a NaN or infinite
/// coordinate.
fn non_finite_positions(axes: usize) -> [Array; 2] {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    match axes {
        2 => [
            Array::from_fn(&[1, 1, 2, 3], |at| (at[2] * 3 + at[3] + 1) as f64),
            Array::new(&[1, 1, 6, 2], vec![0.25, 0.5, nan, 1.0, inf, -1.0, 0.25, -inf, 0.25, nan, inf, nan]),
        ],
        _ => [
            Array::from_fn(&[1, 1, 2, 2, 3], |at| (at[2] * 6 + at[3] * 3 + at[4] + 1) as f64),
            Array::new(&[1, 1, 1, 4, 3], vec![0.25, 0.5, 0.0, nan, 1.0, 0.5, 0.25, -inf, 0.25, 0.25, 0.5, inf]),
        ],
    }
}

/// The gradients of an image and a grid whose positions have a NaN or infinite coordinate, as in
/// PyTorch on the CPU: with zero padding, no gradient of the image, and NaN for the other
/// coordinate with `Bilinear`, for both with `Bicubic`.
fn gradients_at_non_finite_positions() -> Vec<OpCase> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let row = |mode: GridMode, x: &'static [usize], grid: Vec<f64>, expected: Vec<f64>| {
        let shape = [&[1, 1, 1][..x.len() - 2], &[grid.len() / (x.len() - 2), x.len() - 2]].concat();
        OpCase::new("grid_sample", format!("{mode:?} Zeros, gradients without numbers"))
            .input(Uniform(1.0, 4.0))
            .input(Input::float(Fixed(grid)))
            .on([x, &shape])
            .forward_only("compares gradients themselves")
            .run(move |x| {
                gradients(x, |x| x[0].grid_sample(&x[1], mode, Zeros, false))
            })
            .oracle(move |x| vec![x[0].map(|_| 0.0), Array::new(&x[1].shape, expected.clone())])
    };
    let grid = vec![nan, 0.25, inf, -0.25, 0.25, -inf];
    vec![
        row(Bilinear, &[1, 2, 3, 4], grid.clone(), vec![0.0, nan, 0.0, nan, nan, 0.0]),
        row(Nearest, &[1, 2, 3, 4], grid.clone(), vec![0.0; 6]),
        row(Bicubic, &[1, 2, 3, 4], grid, vec![nan; 6]),
        row(Bilinear, &[1, 2, 2, 3, 4], vec![nan, 0.25, 0.5, 0.25, inf, -0.5], vec![0.0; 6]),
    ]
}

fn rejecting(row: OpCase) -> OpCase {
    let call = |x: &'static [usize], grid: &'static [usize], mode: GridMode| {
        move |device: &Device| {
            let (x, grid) = (Tensor::zeros(x, F32, device)?, Tensor::zeros(grid, F32, device)?);
            x.grid_sample(&grid, mode, Zeros, false)
        }
    };
    row.rejects("grid_sample: expected 4 or 5 axes, got shape [2, 3, 3]", call(&[2, 3, 3], &[2, 3, 2], Bilinear))
        .rejects(
            "grid_sample: a grid of shape [2, 3, 3, 2] for an input of [1, 2, 4, 4]",
            call(&[1, 2, 4, 4], &[2, 3, 3, 2], Bilinear),
        )
        .rejects(
            "grid_sample: an input of shape [1, 2, 0, 4] without elements",
            call(&[1, 2, 0, 4], &[1, 3, 3, 2], Bilinear),
        )
        .rejects(
            "grid_sample: bicubic of a volume, expected an image",
            call(&[1, 1, 2, 2, 2], &[1, 1, 1, 1, 3], Bicubic),
        )
        .rejects("grid_sample: input is i64, expected a floating dtype", |device| {
            let (x, grid) = (Tensor::zeros([1, 1, 2, 2], I64, device)?, Tensor::zeros([1, 1, 1, 2], F32, device)?);
            x.grid_sample(&grid, Bilinear, Zeros, false)
        })
}

fn affine() -> Vec<OpCase> {
    let row = |size: &'static [usize], align_corners: bool, batch: usize| {
        let axes = size.len();
        OpCase::new("affine_grid", format!("{size:?} align_corners={align_corners}"))
            .input(Uniform(-2.0, 2.0))
            .on([&[batch, axes, axes + 1]])
            .f32_limit(2e-6, 2e-6)
            .double_backward()
            .run(move |x| x[0].affine_grid(size, align_corners))
            .oracle(move |x| {
                Array::from_fn(&[&[x[0].shape[0]], size, &[axes]].concat(), |at| {
                    let position = |axis: usize| {
                        let (at, count) = (at[1 + axis] as f64, size[axis] as f64);
                        match align_corners {
                            true if count == 1.0 => 0.0,
                            true => 2.0 * at / (count - 1.0) - 1.0,
                            false => (2.0 * at + 1.0) / count - 1.0,
                        }
                    };
                    let coefficient = |column: usize| x[0].at(&[at[0], at[1 + axes], column]);
                    (0..axes).map(|axis| coefficient(axis) * position(axes - 1 - axis)).sum::<f64>() + coefficient(axes)
                })
            })
    };
    vec![
        row(&[2, 3], false, 2),
        row(&[1, 4], true, 2),
        row(&[2, 1, 3], false, 1),
        row(&[2, 3, 2], true, 1).rejects(
            "affine_grid: maps of shape [1, 2, 3] to [2, 0], expected [batch, 2, 3] to 2 sizes above 0, or [batch, 3, 4] to 3",
            |device| Tensor::zeros([1, 2, 3], F32, device)?.affine_grid(&[2, 0], false),
        ),
    ]
}
