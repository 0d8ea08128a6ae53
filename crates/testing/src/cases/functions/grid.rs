//! Rows of images read at any places, and of the places of affine maps.

use crate::prelude::*;
use ternion_core::GridMode::{self, Bicubic, Bilinear, Nearest};
use ternion_core::GridPadding::{self, Border, Reflection, Zeros};

/// The rows.
pub fn rows() -> Vec<OpCase> {
    [sampled(), affine()].concat()
}

/// A place between -1 and 1 in elements of an axis.
fn in_elements(coordinate: f64, size: usize, align_corners: bool) -> f64 {
    match align_corners {
        true => (coordinate + 1.0) / 2.0 * (size as f64 - 1.0),
        false => ((coordinate + 1.0) * size as f64 - 1.0) / 2.0,
    }
}

/// Where a place outside leads to.
fn padded(place: f64, size: usize, padding: GridPadding, align_corners: bool) -> f64 {
    let last = size as f64 - 1.0;
    let (low, span) = if align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
    match padding {
        Zeros => place,
        _ if !place.is_finite() && (place.is_nan() || padding == Reflection) => 0.0,
        Border => place.clamp(0.0, last),
        Reflection if span == 0.0 => 0.0,
        Reflection => {
            // There and back again takes twice the span.
            let along = (place - low).rem_euclid(2.0 * span);
            (along.min(2.0 * span - along) + low).clamp(0.0, last)
        }
    }
}

fn keys(distance: f64) -> f64 {
    let (a, d) = (-0.75, distance.abs());
    match d {
        d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
        d if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
        _ => 0.0,
    }
}

/// The elements along an axis that a place reads, with their weights.
fn taps(
    coordinate: f64,
    size: usize,
    (mode, padding, align_corners): (GridMode, GridPadding, bool),
) -> Vec<(f64, f64)> {
    let place = in_elements(coordinate, size, align_corners);
    match mode {
        Nearest => vec![(padded(place, size, padding, align_corners).round_ties_even(), 1.0)],
        Bilinear => {
            let place = padded(place, size, padding, align_corners);
            let low = place.floor();
            vec![(low, 1.0 - (place - low)), (low + 1.0, place - low)]
        }
        Bicubic => {
            let tap = |by: f64| {
                let at = place.floor() + by;
                (padded(at, size, padding, align_corners).round(), keys(place - at))
            };
            [-1.0, 0.0, 1.0, 2.0].map(tap).to_vec()
        }
    }
}

fn sample(x: &Array, grid: &Array, how: (GridMode, GridPadding, bool)) -> Array {
    let axes = x.rank() - 2;
    let sizes = &x.shape[2..];
    Array::from_fn(&[&x.shape[..2], &grid.shape[1..=axes]].concat(), |at| {
        let mut parts = vec![(Vec::new(), 1.0)];
        for (axis, &size) in sizes.iter().enumerate() {
            let coordinate = grid.at(&[&at[..1], &at[2..], &[axes - 1 - axis]].concat());
            let taps = taps(coordinate, size, how);
            let extended = |(place, weight): (Vec<f64>, f64)| {
                let taps = taps.clone();
                taps.into_iter().map(move |(at, share)| ([&place[..], &[at]].concat(), weight * share))
            };
            parts = parts.into_iter().flat_map(extended).collect();
        }
        let value = |(place, weight): (Vec<f64>, f64)| {
            let is_inside = place.iter().zip(sizes).all(|(&at, &size)| at >= 0.0 && at <= size as f64 - 1.0);
            let place: Vec<usize> = place.iter().map(|&at| at as usize).collect();
            if is_inside { weight * x.at(&[&at[..2], &place[..]].concat()) } else { 0.0 }
        };
        parts.into_iter().map(value).sum()
    })
}

/// Places in f32 are good to 1e-7 of the axis, and neighbors differ by 8.
fn row(how: (GridMode, GridPadding, bool), x: &[usize], grid: &[usize]) -> OpCase {
    let (mode, padding, align_corners) = how;
    let places = Input::float(Uniform(-1.4, 1.4));
    let places = if mode == Nearest { places.constant() } else { places };
    OpCase::new("grid_sample", format!("{mode:?} {padding:?} align_corners={align_corners}"))
        .input(Uniform(-4.0, 4.0))
        .input(places)
        .on([x, grid])
        .f32_limit(1e-5, 1e-5)
        .run(move |x| x[0].grid_sample(&x[1], mode, padding, align_corners))
        .oracle(move |x| sample(&x[0], &x[1], how))
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
    rows[0] = rows[0].clone().twice().on([&[0, 2, 2, 2], &[0, 3, 3, 2]]).hostile("far away", [image, far]);
    let image = Array::from_fn(&[1, 1, 2, 3], |at| (at[2] * 3 + at[3]) as f64);
    let unknown = Array::new(&[1, 1, 3, 2], vec![f64::NAN, 1.0, f64::INFINITY, -1.0, 0.25, f64::NEG_INFINITY]);
    for row in rows.iter_mut().filter(|row| row.parameters.starts_with("Bilinear") && row.instances[0][0].len() == 4) {
        *row = row.clone().hostile("no numbers", [image.clone(), unknown.clone()]);
    }
    let last = rows.pop().expect("there are rows");
    rows.push(rejecting(last));
    rows
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
            .twice()
            .run(move |x| x[0].affine_grid(size, align_corners))
            .oracle(move |x| {
                Array::from_fn(&[&[x[0].shape[0]], size, &[axes]].concat(), |at| {
                    let place = |axis: usize| {
                        let (at, count) = (at[1 + axis] as f64, size[axis] as f64);
                        match align_corners {
                            true if count == 1.0 => 0.0,
                            true => 2.0 * at / (count - 1.0) - 1.0,
                            false => (2.0 * at + 1.0) / count - 1.0,
                        }
                    };
                    let map = |column: usize| x[0].at(&[at[0], at[1 + axes], column]);
                    (0..axes).map(|axis| map(axis) * place(axes - 1 - axis)).sum::<f64>() + map(axes)
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
