//! Rows of window functions for signals.

use crate::prelude::*;
use std::f64::consts::PI;
use ternion_core::SignalWindow;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let cosines = |a: &'static [f64]| {
        move |n: f64, count: f64| {
            let terms = a.iter().enumerate();
            terms.map(|(k, a)| (-1f64).powi(k as i32) * a * (2.0 * PI * k as f64 * n / (count - 1.0)).cos()).sum()
        }
    };
    vec![
        row("bartlett_window", SignalWindow::Bartlett, |n, count| 1.0 - (2.0 * n / (count - 1.0) - 1.0).abs()),
        row("blackman_window", SignalWindow::Blackman, cosines(&[0.42, 0.5, 0.08])),
        row("cosine_window", SignalWindow::Cosine, |n, count| (PI * (n + 0.5) / count).sin()),
        row("exponential_window", SignalWindow::Exponential { center: None, tau: 2.5 }, |n, count| {
            (-(n - (count - 1.0) / 2.0).abs() / 2.5).exp()
        })
        .rejects("exponential: tau of 0, expected above 0", |device| {
            SignalWindow::Exponential { center: None, tau: 0.0 }.make(3, true, F32, device)
        })
        .rejects("exponential: a center of a symmetric window, whose center is its middle", |device| {
            SignalWindow::Exponential { center: Some(1.0), tau: 1.0 }.make(3, true, F32, device)
        }),
        centered(),
        row("gaussian_window", SignalWindow::Gaussian { std: 1.5 }, |n, count| {
            (-((n - (count - 1.0) / 2.0) / 1.5).powi(2) / 2.0).exp()
        })
        .rejects("gaussian: std of -1, expected above 0", |device| {
            SignalWindow::Gaussian { std: -1.0 }.make(3, true, F32, device)
        }),
        row("general_cosine_window", SignalWindow::GeneralCosine(vec![0.4, 0.3, 0.2, 0.1]), cosines(&[0.4, 0.3, 0.2, 0.1]))
            .rejects("general_cosine: no coefficients, expected at least one", |device| {
                SignalWindow::GeneralCosine(Vec::new()).make(3, true, F32, device)
            }),
        row("general_hamming_window", SignalWindow::GeneralHamming { alpha: 0.6 }, cosines(&[0.6, 0.4])),
        row("hamming_window", SignalWindow::Hamming, cosines(&[0.54, 0.46])),
        row("hann_window", SignalWindow::Hann, cosines(&[0.5, 0.5]))
            .rejects("hann: output is i64, expected a floating dtype", |device| {
                SignalWindow::Hann.make(3, true, I64, device)
            }),
        row("kaiser_window", SignalWindow::Kaiser { beta: 12.0 }, |n, count| kaiser(n, count, 12.0))
            .rejects("kaiser: beta of -1, expected at least 0", |device| {
                SignalWindow::Kaiser { beta: -1.0 }.make(3, true, F32, device)
            }),
        large_kaiser(),
        row("nuttall_window", SignalWindow::Nuttall, cosines(&[0.363_581_9, 0.489_177_5, 0.136_599_5, 0.010_641_1])),
    ]
}

/// Symmetric and periodic windows of even and odd length, of length 2, 1 and 0.
/// `value_at(n, count)` is element `n` of the symmetric window of length `count`. A periodic window
/// is a symmetric one of one more element, without the last.
fn row(
    op: &'static str,
    window: SignalWindow,
    value_at: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> OpCase {
    let lengths = [8, 13, 2, 1, 0];
    OpCase::new(op, "")
        .on([])
        .forward_only("made of nothing")
        .run_on(move |_, device, dtype| {
            let both = lengths.iter().flat_map(|&length| [(length, true), (length, false)]);
            both.map(|(length, is_symmetric)| window.make(length, is_symmetric, dtype, device)).collect::<Result<Vec<_>>>()
        })
        .oracle(move |_| {
            let both = lengths.iter().flat_map(|&length| [(length, length), (length, length + 1)]);
            let windows = both.map(|(length, count)| {
                let value = |n: usize| if length == 1 { 1.0 } else { value_at(n as f64, count as f64) };
                Array::new(&[length], (0..length).map(value).collect())
            });
            windows.collect::<Vec<_>>()
        })
}

fn centered() -> OpCase {
    OpCase::new("exponential_window", "center=1")
        .on([])
        .forward_only("made of nothing")
        .run_on(|_, device, dtype| {
            let window = SignalWindow::Exponential { center: Some(1.0), tau: 2.0 };
            Ok((window.make(5, false, dtype, device)?, window.make(1, false, dtype, device)?))
        })
        .oracle(|_| {
            let at = |n: usize| (-(n as f64 - 1.0).abs() / 2.0).exp();
            (Array::new(&[5], (0..5).map(at).collect()), Array::new(&[1], vec![at(0)]))
        })
}

/// Returns the integral of `e^(x cos t)` over 0 to pi, divided by pi (DLMF 10.32.1), times
/// `e^-shift`: by the trapezoidal rule, which is exact for periodic functions.
fn i0(x: f64, shift: f64) -> f64 {
    let steps = 4000;
    let at = |step: i32| (x * (PI * f64::from(step) / f64::from(steps)).cos() - shift).exp();
    ((1..steps).map(at).sum::<f64>() + 0.5 * (at(0) + at(steps))) / f64::from(steps)
}

fn kaiser(n: f64, count: f64, beta: f64) -> f64 {
    let x = 2.0 * n / (count - 1.0) - 1.0;
    i0(beta * (1.0 - x * x).max(0.0).sqrt(), beta) / i0(beta, beta)
}

/// With a beta for which Bessel functions overflow.
fn large_kaiser() -> OpCase {
    OpCase::new("kaiser_window", "beta=800")
        .on([])
        .dtypes(&[F64, F32])
        .forward_only("made of nothing")
        .run_on(|_, device, dtype| SignalWindow::Kaiser { beta: 800.0 }.make(9, true, dtype, device))
        .oracle(|_| Array::new(&[9], (0..9).map(|n| kaiser(f64::from(n), 9.0, 800.0)).collect()))
        .f64_limit(1e-12, 1e-12)
}
