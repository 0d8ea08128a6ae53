//! Softmax, its logarithm and their gradients.

use super::rows::registers::MAX_THREADS;
use super::rows::template::{RegisterOutput, RegisterRows, RegisterTemplate};
use super::rows::{Accumulator, Partition, RowFamily, RowFinish, RowKernel, Rows, axes_but, contiguous_axis};
use crate::call::Call;
use crate::names::{
    Accumulate, Bases, Prepare, RowAccumulator, RowShiftedSum, RowSkips, RowTerms, RowValue, RowValues,
    SlotName, SoftmaxFactor, SoftmaxGradTerm,
};
use crate::shaders::Class;
use ternion_core::geometry::sort_slowest_first;
use ternion_core::ops::softmax::{LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad};
use ternion_core::{Error, Layout, Op, Result};

/// Returns the launch over rows along `axis` of the output and the inputs.
fn rows<'a>(call: &Call<'a>, axis: usize, kernel: RowKernel) -> Result<Rows<'a>> {
    let layouts: Vec<&Layout> =
        [call.outputs[0].layout].into_iter().chain(call.inputs.iter().map(|view| view.layout)).collect();
    let mut axes = axes_but(axis, &layouts);
    sort_slowest_first(&mut axes, 1);
    let steps: Vec<i64> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
    let length = layouts[0].shape().dim(axis);
    let count = axes.iter().map(|(size, _)| size).product();
    let contiguous_axis = contiguous_axis(&axes, &[(length, steps.clone())]);
    let partition = Partition::of(call.name, if length == 0 { 0 } else { count }, length, contiguous_axis)?;
    let rows =
        Rows::new(call.gpu, call.name, Class::Float, partition, kernel).space(&axes).over(&[(length, steps)]);
    rows.output(SlotName::Y, 0, &call.outputs[0])?.input(SlotName::X, 1, &call.inputs[0])
}

/// The kernels of softmax and of log-softmax.
const SOFTMAX: RowKernel = forward(SoftmaxFactor::Reciprocal, RowValue::Softmax);
const LOG_SOFTMAX: RowKernel = forward(SoftmaxFactor::Logarithm, RowValue::LogSoftmax);

const fn forward(factor: SoftmaxFactor, value: RowValue) -> RowKernel {
    RowKernel {
        accumulator: Accumulator::EXPONENTIALS,
        bases: Bases::Two,
        family: RowFamily::Softmax { factor },
        accumulate: Accumulate::Exponentials,
        finish: RowFinish::Elements { prepare: Prepare::Softmax, value },
    }
}

/// The kernels of their gradients.
const SOFTMAX_GRAD: RowKernel = gradient(SoftmaxGradTerm::Softmax, RowValue::SoftmaxGrad);
const LOG_SOFTMAX_GRAD: RowKernel = gradient(SoftmaxGradTerm::LogSoftmax, RowValue::LogSoftmaxGrad);

const fn gradient(term: SoftmaxGradTerm, value: RowValue) -> RowKernel {
    RowKernel {
        accumulator: Accumulator::SUM,
        bases: Bases::Three,
        family: RowFamily::SoftmaxGrad { term },
        accumulate: Accumulate::SoftmaxGrad,
        finish: RowFinish::ManyElements { prepare: Prepare::SoftmaxGrad, value },
    }
}

/// The same kernels for rows that are kept in registers.
const SOFTMAX_IN_REGISTERS: RegisterRows =
    forward_in_registers(RowValues::Softmax, Some(RowValues::SoftmaxKept));
const LOG_SOFTMAX_IN_REGISTERS: RegisterRows = forward_in_registers(RowValues::LogSoftmax, None);

const fn forward_in_registers(values: RowValues, kept: Option<RowValues>) -> RegisterRows {
    RegisterRows {
        vec4: &[SlotName::Y, SlotName::X],
        any_length: true,
        max_threads: MAX_THREADS,
        template: RegisterTemplate::Exponentials {
            skips: RowSkips::Nothing,
            sums: Some(RowShiftedSum::Nothing),
        },
        output: RegisterOutput::Elements { prepare: Prepare::Softmax, values, kept, single: None },
    }
}

const SOFTMAX_GRAD_IN_REGISTERS: RegisterRows =
    gradient_in_registers(RowTerms::SoftmaxGrad, RowValues::SoftmaxGrad);
const LOG_SOFTMAX_GRAD_IN_REGISTERS: RegisterRows =
    gradient_in_registers(RowTerms::LogSoftmaxGrad, RowValues::LogSoftmaxGrad);

const fn gradient_in_registers(terms: RowTerms, values: RowValues) -> RegisterRows {
    RegisterRows {
        vec4: &[SlotName::Y, SlotName::X, SlotName::D],
        any_length: false,
        max_threads: MAX_THREADS,
        template: RegisterTemplate::Sums {
            terms,
            accumulator: RowAccumulator::SoftmaxGrad,
            with_d: true,
            squares: false,
        },
        output: RegisterOutput::Elements { prepare: Prepare::SoftmaxGrad, values, kept: None, single: None },
    }
}

fn launch_forward(
    call: &Call<'_>,
    axis: usize,
    kernel: RowKernel,
    register_rows: &RegisterRows,
) -> Result<()> {
    rows(call, axis, kernel)?.launch_in_registers(register_rows)
}

fn launch_gradient(
    call: &Call<'_>,
    axis: usize,
    kernel: RowKernel,
    register_rows: &RegisterRows,
) -> Result<()> {
    rows(call, axis, kernel)?.input(SlotName::D, 2, &call.inputs[1])?.launch_in_registers(register_rows)
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    match *op {
        Op::Softmax(Softmax { axis }) => launch_forward(call, axis, SOFTMAX, &SOFTMAX_IN_REGISTERS),
        Op::LogSoftmax(LogSoftmax { axis }) => {
            launch_forward(call, axis, LOG_SOFTMAX, &LOG_SOFTMAX_IN_REGISTERS)
        }
        Op::SoftmaxGrad(SoftmaxGrad { axis }) => {
            launch_gradient(call, axis, SOFTMAX_GRAD, &SOFTMAX_GRAD_IN_REGISTERS)
        }
        Op::LogSoftmaxGrad(LogSoftmaxGrad { axis }) => {
            launch_gradient(call, axis, LOG_SOFTMAX_GRAD, &LOG_SOFTMAX_GRAD_IN_REGISTERS)
        }
        _ => Err(Error::invalid(call.name, "is not of the softmax family")),
    }
}
