//! Softmax, its logarithm and their gradients.

use super::rows::fours::{Held, MOST_THREADS};
use super::rows::{Accumulator, Cut, Finish, Rows, axes_but, beside};
use crate::linker::Class;
use crate::select::Call;
use ternion_core::ops::softmax::{LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad};
use ternion_core::{Error, Layout, Op, Result};

/// The launch over rows along `axis`: of the output and the inputs.
fn rows<'a>(call: &Call<'a>, axis: usize, accumulator: Accumulator) -> Result<Rows<'a>> {
    let layouts: Vec<&Layout> =
        [call.outputs[0].layout].into_iter().chain(call.inputs.iter().map(|view| view.layout)).collect();
    let mut axes = axes_but(axis, &layouts);
    axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[1].unsigned_abs()));
    let steps: Vec<i64> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
    let length = layouts[0].shape().dim(axis);
    let count = axes.iter().map(|(size, _)| size).product();
    let beside = beside(&axes, &[(length, steps.clone())]);
    let cut = Cut::of(call.name, if length == 0 { 0 } else { count }, length, beside)?;
    let rows =
        Rows::new(call.gpu, call.name, Class::Float, cut, accumulator).space(&axes).over(&[(length, steps)]);
    rows.output("y", 0, &call.outputs[0])?.input("x", 1, &call.inputs[0])
}

/// The forward pass of rows that stay in registers.
const SOFTMAX: Held = Held {
    file: "exponentials_fours.wgsl",
    fours: &["y", "x"],
    any: true,
    most_threads: MOST_THREADS,
    values: "softmax_values",
    kept_values: Some("softmax_kept_values"),
    strange: None,
    texts: &[
        ("SKIPS", "nothing_is_skipped"),
        ("MOVED", "nothing_is_moved"),
        ("PREPARE", "softmax_statistics"),
    ],
    numbers: &[("SUMS", 1)],
};
const LOG_SOFTMAX: Held = Held {
    values: "log_softmax_values",
    kept_values: None,
    texts: &[
        ("SKIPS", "nothing_is_skipped"),
        ("MOVED", "nothing_is_moved"),
        ("PREPARE", "softmax_statistics"),
    ],
    ..SOFTMAX
};

/// The gradient of such rows.
const SOFTMAX_GRAD: Held = Held {
    file: "sums_fours.wgsl",
    fours: &["y", "x", "d"],
    any: false,
    most_threads: MOST_THREADS,
    values: "softmax_grad_values",
    kept_values: None,
    strange: None,
    texts: &[
        ("TERM", "softmax_slope_terms"),
        ("ACCUMULATED", "softmax_slope_sum"),
        ("PREPARE", "softmax_grad_state"),
    ],
    numbers: &[("WITH_D", 1), ("SQUARES", 0)],
};
const LOG_SOFTMAX_GRAD: Held = Held {
    values: "log_softmax_grad_values",
    texts: &[
        ("TERM", "log_softmax_slope_terms"),
        ("ACCUMULATED", "softmax_slope_sum"),
        ("PREPARE", "softmax_grad_state"),
    ],
    ..SOFTMAX_GRAD
};

fn forward(
    call: &Call<'_>,
    axis: usize,
    held: &Held,
    value: &'static str,
    factor: &'static str,
) -> Result<()> {
    rows(call, axis, Accumulator::EXPONENTIALS)?
        .with("BASES", "two_bases")
        .with("FACTOR", factor)
        .launch_held(held, "exponentials_gather", Finish::Elements("softmax_statistics", value))
}

fn gradient(
    call: &Call<'_>,
    axis: usize,
    held: &Held,
    term: &'static str,
    value: &'static str,
) -> Result<()> {
    rows(call, axis, Accumulator::SUM)?
        .with("BASES", "three_bases")
        .with("SLOPE_TERM", term)
        .input("d", 2, &call.inputs[1])?
        .launch_held(held, "softmax_grad_gather", Finish::ManyElements("softmax_grad_state", value))
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    match op {
        Op::Softmax(Softmax { axis }) => forward(call, *axis, &SOFTMAX, "softmax_value", "softmax_factor"),
        Op::LogSoftmax(LogSoftmax { axis }) => {
            forward(call, *axis, &LOG_SOFTMAX, "log_softmax_value", "log_of")
        }
        Op::SoftmaxGrad(SoftmaxGrad { axis }) => {
            gradient(call, *axis, &SOFTMAX_GRAD, "softmax_slope_term", "softmax_grad_value")
        }
        Op::LogSoftmaxGrad(LogSoftmaxGrad { axis }) => {
            gradient(call, *axis, &LOG_SOFTMAX_GRAD, "log_softmax_slope_term", "log_softmax_grad_value")
        }
        _ => Err(Error::invalid(call.name, "is not of the softmax family")),
    }
}
