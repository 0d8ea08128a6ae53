//! Rows of resized images.

use crate::prelude::*;
use ternion_core::InterpolateMode::{self, Area, Cubic, Linear, Nearest, NearestExact};
use ternion_core::InterpolateSize::{self, Times, To};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [nearest(), linear_and_cubic(), areas()].concat()
}

/// The output size, or scale factors.
#[derive(Clone, Copy)]
enum OutputSize {
    To(&'static [usize]),
    Times(&'static [f64]),
}

impl OutputSize {
    fn size(self) -> InterpolateSize<'static> {
        match self {
            OutputSize::To(size) => To(size),
            OutputSize::Times(factors) => Times(factors),
        }
    }

    fn text(self) -> String {
        match self {
            OutputSize::To(size) => format!("to {size:?}"),
            OutputSize::Times(factors) => format!("times {factors:?}"),
        }
    }

    /// Returns the size of an output axis, and the distance between neighbors on it, in elements of
    /// the input.
    fn axis(self, axis: usize, inputs: usize) -> (usize, f64) {
        match self {
            OutputSize::To(size) => (size[axis], inputs as f64 / size[axis] as f64),
            OutputSize::Times(factors) => ((inputs as f64 * factors[axis]) as usize, 1.0 / factors[axis]),
        }
    }
}

/// Keys's cubic convolution kernel with a = -0.75.
fn keys(distance: f64) -> f64 {
    let (a, d) = (-0.75, distance.abs());
    match d {
        d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
        d if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
        _ => 0.0,
    }
}

/// Returns the elements of the input that contribute to element `at` of the output, with their
/// weights.
fn taps(
    mode: InterpolateMode,
    at: usize,
    inputs: usize,
    (outputs, distance): (usize, f64),
    is_image: bool,
) -> Vec<(usize, f64)> {
    let last = inputs as f64 - 1.0;
    let source_position = |align_corners: bool| match (align_corners, outputs) {
        (true, 1) => 0.0,
        (true, _) => at as f64 * last / (outputs as f64 - 1.0),
        (false, _) => (at as f64 + 0.5) * distance - 0.5,
    };
    match mode {
        // As in PyTorch: positions by factor differ from those by size, except in two cases for
        // images.
        Nearest if inputs == outputs && is_image => vec![(at, 1.0)],
        Nearest if outputs == 2 * inputs && is_image => vec![(at / 2, 1.0)],
        Nearest => vec![((at as f64 * distance).floor().min(last) as usize, 1.0)],
        NearestExact => vec![(((at as f64 + 0.5) * distance).floor().min(last) as usize, 1.0)],
        Linear { .. } if inputs == outputs => vec![(at, 1.0)],
        Linear { align_corners } => {
            let position = source_position(align_corners).max(0.0);
            let low = position.floor().min(last);
            vec![(low as usize, 1.0 - (position - low)), ((low + 1.0).min(last) as usize, position - low)]
        }
        Cubic { align_corners } => {
            let position = source_position(align_corners);
            let tap = |step: i32| {
                let at = position.floor() + f64::from(step);
                (at.clamp(0.0, last) as usize, keys(position - at))
            };
            (-1..=2).map(tap).collect()
        }
        Area => {
            let (start, end) = (at * inputs / outputs, ((at + 1) * inputs).div_ceil(outputs));
            (start..end).map(|index| (index, 1.0 / (end - start) as f64)).collect()
        }
    }
}

fn interpolated(x: &Array, output_size: OutputSize, mode: InterpolateMode) -> Array {
    (2..x.rank()).fold(x.clone(), |x, axis| {
        let inputs = x.shape[axis];
        let (outputs, distance) = output_size.axis(axis - 2, inputs);
        let mut shape = x.shape.clone();
        shape[axis] = outputs;
        Array::from_fn(&shape, |at| {
            let mut from = at.to_vec();
            let mut sum = 0.0;
            for (index, weight) in taps(mode, at[axis], inputs, (outputs, distance), x.rank() == 4) {
                from[axis] = index;
                sum += weight * x.at(&from);
            }
            sum
        })
    })
}

/// Creates a row for one small shape: every dtype and memory layout runs on every device.
fn row(output_size: OutputSize, mode: InterpolateMode, shape: &[usize]) -> OpCase {
    OpCase::new("interpolate", format!("{} {mode:?}", output_size.text()))
        .input(Uniform(-4.0, 4.0))
        .on([shape])
        .double_backward()
        .run(move |x| x[0].interpolate(output_size.size(), mode))
        .oracle(move |x| interpolated(&x[0], output_size, mode))
}

fn nearest() -> Vec<OpCase> {
    let zeros = |shape: &[usize], device: &Device| Tensor::zeros(shape, F32, device);
    let mut rows = Vec::new();
    for mode in [Nearest, NearestExact] {
        rows.extend([
            row(OutputSize::To(&[5]), mode, &[2, 2, 3]),
            row(OutputSize::Times(&[2.0, 0.7]), mode, &[2, 1, 3, 5]),
            row(OutputSize::Times(&[1.3, 1.75, 1.0]), mode, &[1, 2, 3, 4, 2]),
        ]);
    }
    rows = rows.into_iter().map(|row| row.exact().also(INTEGERS)).collect();
    rows[1] = rows[1]
        .clone()
        .on([&[0, 2, 3, 5]])
        .adversarial("special", [Array::new(&[1, 1, 1, 4], vec![f64::NAN, f64::INFINITY, -0.0, 1.0])])
        .rejects("interpolate: expected 3 to 5 axes, got shape [2, 3]", move |device| {
            zeros(&[2, 3], device)?.interpolate(To(&[3]), Nearest)
        })
        .rejects("interpolate: 1 sizes or factors for the 2 axes of [3, 4]", move |device| {
            zeros(&[1, 1, 3, 4], device)?.interpolate(To(&[3]), Nearest)
        })
        .rejects("interpolate: an image of [1, 3, 4] to [0, 3]", move |device| {
            zeros(&[1, 1, 3, 4], device)?.interpolate(To(&[0, 3]), Nearest)
        })
        .rejects("interpolate: an image of [0, 3, 4] to [3, 3]", move |device| {
            zeros(&[1, 0, 3, 4], device)?.interpolate(To(&[3, 3]), Nearest)
        })
        .rejects("interpolate: a factor of -1, expected a finite number above 0", move |device| {
            zeros(&[1, 1, 3], device)?.interpolate(Times(&[-1.0]), Nearest)
        })
        .rejects("interpolate: input is i32, expected a floating dtype", |device| {
            let x = Tensor::zeros([1, 1, 3], I32, device)?;
            x.interpolate(To(&[3]), Linear { align_corners: false })
        });
    rows
}

/// Positions in f32 are accurate to 6e-8 of the axis, and neighbors differ by up to 8.
fn linear_and_cubic() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for align_corners in [false, true] {
        let linear = Linear { align_corners };
        let cubic = Cubic { align_corners };
        rows.extend([
            row(OutputSize::To(&[5]), linear, &[2, 2, 3]),
            row(OutputSize::To(&[1]), linear, &[1, 2, 4]),
            row(OutputSize::Times(&[1.5, 0.7]), linear, &[2, 1, 3, 5]),
            row(OutputSize::To(&[3, 2, 5]), linear, &[1, 2, 2, 2, 3]),
            row(OutputSize::To(&[4, 1]), cubic, &[2, 1, 3, 4]),
            row(OutputSize::Times(&[1.2, 2.0]), cubic, &[1, 2, 4, 3]),
        ]);
    }
    rows[2] = rows[2]
        .clone()
        .on([&[0, 2, 3, 5]])
        .adversarial("special", [Array::new(&[1, 1, 2, 2], vec![f64::NAN, f64::INFINITY, -0.0, 1.0])]);
    rows.into_iter().map(|row| row.f32_limit(5e-6, 4e-6)).collect()
}

fn areas() -> Vec<OpCase> {
    vec![
        row(OutputSize::To(&[4]), Area, &[2, 2, 6]),
        row(OutputSize::Times(&[0.7, 1.5]), Area, &[2, 1, 5, 4]),
        row(OutputSize::To(&[2, 3, 1]), Area, &[1, 2, 3, 3, 2]),
    ]
    .into_iter()
    .map(|row| row.f32_limit(2e-6, 2e-6))
    .collect()
}
