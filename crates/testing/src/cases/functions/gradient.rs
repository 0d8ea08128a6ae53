//! Rows of numerical derivatives and integrals.

use crate::prelude::*;
use ternion_core::Spacing;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [gradients(), areas()].concat()
}

/// Returns the derivative at `at` of the parabola through three points (Lagrange's formula), or of
/// the line through two.
fn parabola_derivative(x: &[f64], y: &[f64], at: f64) -> f64 {
    match *x {
        [a, b] => (y[1] - y[0]) / (b - a),
        [a, b, c] => {
            y[0] * (2.0 * at - b - c) / ((a - b) * (a - c))
                + y[1] * (2.0 * at - a - c) / ((b - a) * (b - c))
                + y[2] * (2.0 * at - a - b) / ((c - a) * (c - b))
        }
        _ => f64::NAN,
    }
}

fn numerical_gradient(y: &[f64], x: &[f64], edge_order: usize) -> Vec<f64> {
    let (last, order) = (y.len() - 1, edge_order);
    let at = |index: usize| match index {
        0 => parabola_derivative(&x[..=order], &y[..=order], x[0]),
        index if index == last => parabola_derivative(&x[last - order..], &y[last - order..], x[last]),
        _ => parabola_derivative(&x[index - 1..=index + 1], &y[index - 1..=index + 1], x[index]),
    };
    (0..y.len()).map(at).collect()
}

const COORDINATES: [f64; 5] = [0.0, 0.5, 2.0, 2.75, 4.0];

fn gradients() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for order in [1, 2] {
        rows.push(
            OpCase::new("gradient", format!("axis=1 spacing=0.5 edge_order={order}"))
                .input(Uniform(-3.0, 3.0))
                .shapes([&[2, 5], &[1, 3, 2]])
                .double_backward()
                .f32_limit(8e-6, 4e-6)
                .run(move |x| x[0].gradient(1, Spacing::Even(0.5), order))
                .oracle(move |x| {
                    x[0].map_slices(1, move |y| {
                        let coordinates: Vec<f64> = (0..y.len()).map(|at| 0.5 * at as f64).collect();
                        numerical_gradient(y, &coordinates, order)
                    })
                }),
        );
        rows.push(
            OpCase::new("gradient", format!("axis=0 positions edge_order={order}"))
                .input(Uniform(-3.0, 3.0))
                .input(Input::float(Fixed(COORDINATES.to_vec())).constant())
                .on([&[5, 3], &[5]])
                .double_backward()
                .f32_limit(1e-5, 8e-6)
                .run(move |x| x[0].gradient(0, Spacing::Positions(&x[1]), order))
                .oracle(move |x| x[0].map_slices(0, move |y| numerical_gradient(y, &COORDINATES, order))),
        );
    }
    let last = rows.pop().map(|row| {
        row.rejects("gradient: edge_order of 3, expected 1 or 2", |device| {
            Tensor::zeros([9], F32, device)?.gradient(0, Spacing::Even(1.0), 3)
        })
        .rejects("gradient: 2 elements along axis 0, expected more than the edge_order of 2", |device| {
            Tensor::zeros([2], F32, device)?.gradient(0, Spacing::Even(1.0), 2)
        })
        .rejects("gradient: spacing has shape [3], expected [4]", |device| {
            let coordinates = Tensor::zeros([3], F32, device)?;
            Tensor::zeros([4], F32, device)?.gradient(0, Spacing::Positions(&coordinates), 1)
        })
    });
    rows.extend(last);
    rows.push(
        OpCase::new("gradient", "two elements")
            .input(Uniform(-3.0, 3.0))
            .shapes([&[2]])
            .f32_limit(4e-6, 2e-6)
            .run(|x| x[0].gradient(0, Spacing::Even(2.0), 1))
            .oracle(|x| Array::full(&[2], (x[0].data[1] - x[0].data[0]) / 2.0)),
    );
    rows
}

/// Returns the integrals up to each element except the first.
fn cumulative_areas(y: &[f64], x: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut sum = 0.0;
    let area = |at: usize| {
        sum += (y[at] + y[at - 1]) / 2.0 * (x(at) - x(at - 1));
        sum
    };
    (1..y.len()).map(area).collect()
}

fn areas() -> Vec<OpCase> {
    let full = OpCase::new("trapezoid", "axis=1 spacing=0.5")
        .input(Uniform(-3.0, 3.0))
        .shapes([&[3, 5], &[2, 1, 3], &[2, 0]])
        .double_backward()
        .f32_limit(4e-6, 2e-6)
        .run(|x| x[0].trapezoid(1, Spacing::Even(0.5)))
        .oracle(|x| {
            x[0].reduce(&[1], Keep::No, |y| cumulative_areas(y, |at| 0.5 * at as f64).last().copied().unwrap_or(0.0))
        })
        .rejects("trapezoid: positions of shape [3] for elements of [4]", |device| {
            let coordinates = Tensor::zeros([3], F32, device)?;
            Tensor::zeros([4], F32, device)?.trapezoid(0, Spacing::Positions(&coordinates))
        })
        .rejects("trapezoid: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([4], I64, device)?.trapezoid(0, Spacing::Even(1.0))
        });
    let coordinates = OpCase::new("trapezoid", "axis=0 positions")
        .input(Uniform(-3.0, 3.0))
        .input(Uniform(-3.0, 3.0))
        .on([&[5, 3], &[5]])
        .on([&[5, 3], &[5, 3]])
        .on([&[5, 3], &[5, 1]])
        .double_backward()
        .f32_limit(8e-6, 4e-6)
        .run(|x| x[0].trapezoid(0, Spacing::Positions(&x[1])))
        .oracle(|x| {
            let [size, columns] = x[0].sizes();
            let coordinates = match x[1].rank() {
                1 => x[1].reshape(&[size, 1]).expand(&[size, columns]),
                _ => x[1].expand(&[size, columns]),
            };
            Array::from_fn(&[columns], |at| {
                let y: Vec<f64> = (0..size).map(|row| x[0].at(&[row, at[0]])).collect();
                cumulative_areas(&y, |row| coordinates.at(&[row, at[0]])).last().copied().unwrap_or(0.0)
            })
        });
    let cumulative = OpCase::new("cumulative_trapezoid", "axis=1 spacing=0.5")
        .input(Uniform(-3.0, 3.0))
        .shapes([&[3, 5], &[2, 3, 2], &[2, 1]])
        .double_backward()
        .f32_limit(4e-6, 2e-6)
        .run(|x| x[0].cumulative_trapezoid(1, Spacing::Even(0.5)))
        .oracle(|x| x[0].map_slices(1, |y| cumulative_areas(y, |at| 0.5 * at as f64)));
    vec![full, coordinates, cumulative]
}
