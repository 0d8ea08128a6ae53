//! Softmax, its logarithm and their gradients.

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

fn forward(call: &Call<'_>, axis: usize, value: &'static str, factor: &'static str) -> Result<()> {
    rows(call, axis, Accumulator::EXPONENTIALS)?
        .with("BASES", "two_bases")
        .with("FACTOR", factor)
        .launch("exponentials_gather", Finish::Elements("softmax_statistics", value))
}

fn gradient(call: &Call<'_>, axis: usize, term: &'static str, value: &'static str) -> Result<()> {
    rows(call, axis, Accumulator::SUM)?
        .with("BASES", "three_bases")
        .with("SLOPE_TERM", term)
        .input("d", 2, &call.inputs[1])?
        .launch("softmax_grad_gather", Finish::ManyElements("softmax_grad_state", value))
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    match op {
        Op::Softmax(Softmax { axis }) => forward(call, *axis, "softmax_value", "softmax_factor"),
        Op::LogSoftmax(LogSoftmax { axis }) => forward(call, *axis, "log_softmax_value", "log_of"),
        Op::SoftmaxGrad(SoftmaxGrad { axis }) => {
            gradient(call, *axis, "softmax_slope_term", "softmax_grad_value")
        }
        Op::LogSoftmaxGrad(LogSoftmaxGrad { axis }) => {
            gradient(call, *axis, "log_softmax_slope_term", "log_softmax_grad_value")
        }
        _ => Err(Error::invalid(call.name, "is not of the softmax family")),
    }
}
