//! Cross-entropy and its gradient.

use super::rows::registers::MAX_THREADS;
use super::rows::template::{RegisterOutput, RegisterRows, RegisterTemplate, SingleElements};
use super::rows::{Accumulator, Dense, Partition, RowFamily, RowFinish, RowKernel, Rows, contiguous_axis};
use crate::call::Call;
use crate::names::{
    Accumulate, Bases, Finish, LossTarget, Merge, Prepare, RowIsFinite, RowResult, RowShiftedSum, RowSkips,
    RowValue, RowValues, SlotName, Start,
};
use crate::shaders::Class;
use ternion_core::backend::View;
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyGrad, CrossEntropyGradUpdate, CrossEntropyWithGrad};
use ternion_core::{DType, Error, Op, Result};

/// The accumulator of the forward pass.
const LOGITS: Accumulator = Accumulator { merge: Merge::Loss, ..Accumulator::EXPONENTIALS };
/// The accumulator of the gradient without the loss: the largest logit.
const MAX: Accumulator = Accumulator::number(Start::Lowest, Merge::Larger);

/// How an op of the family processes a row.
struct LossKernel {
    accumulator: Accumulator,
    accumulate: Accumulate,
    finish: RowFinish,
    /// How it processes a row that is kept in registers.
    register_rows: RegisterRows,
}

const LOSS: LossKernel = LossKernel {
    accumulator: LOGITS,
    accumulate: Accumulate::Loss,
    finish: RowFinish::Row(Finish::Loss),
    register_rows: RegisterRows {
        vec4: &[SlotName::X],
        any_length: true,
        max_threads: MAX_THREADS,
        template: SUMS,
        output: RegisterOutput::Row(RowResult::Loss),
    },
};
const LOSS_WITH_GRAD: LossKernel = LossKernel {
    accumulator: LOGITS,
    accumulate: Accumulate::Loss,
    finish: RowFinish::Elements { prepare: Prepare::Loss, value: RowValue::LossGrad },
    register_rows: gradient_in_registers(SUMS, Prepare::Loss, MAX_THREADS),
};
const GRAD: LossKernel = LossKernel {
    accumulator: MAX,
    accumulate: Accumulate::LossMax,
    finish: RowFinish::Elements { prepare: Prepare::LossGrad, value: RowValue::LossGrad },
    register_rows: gradient_in_registers(
        RegisterTemplate::Exponentials { skips: RowSkips::Nothing, sums: None },
        Prepare::LossGrad,
        MAX_THREADS,
    ),
};
const UPDATE: LossKernel = LossKernel {
    accumulator: MAX,
    accumulate: Accumulate::LossUpdate,
    finish: RowFinish::SomeElements {
        finish: Finish::LossUpdate,
        prepare: Prepare::LossGrad,
        value: RowValue::LossGrad,
    },
    register_rows: gradient_in_registers(
        RegisterTemplate::Exponentials { skips: RowSkips::LossUpdate, sums: None },
        Prepare::LossGrad,
        // Most rows are unchanged, so the cost is mostly that of starting and ending threads.
        128,
    ),
};

/// The maximum and the sum of exponentials of all logits.
const SUMS: RegisterTemplate =
    RegisterTemplate::Exponentials { skips: RowSkips::Nothing, sums: Some(RowShiftedSum::Loss) };

/// Returns how the gradient of a row in registers is computed.
const fn gradient_in_registers(
    template: RegisterTemplate,
    prepare: Prepare,
    max_threads: u32,
) -> RegisterRows {
    RegisterRows {
        vec4: &[SlotName::Y, SlotName::X],
        any_length: true,
        max_threads,
        template,
        output: RegisterOutput::Elements {
            prepare,
            values: RowValues::LossGrad,
            kept: None,
            single: Some(SingleElements { is_finite: RowIsFinite::Loss, value: RowValue::LossGrad }),
        },
    }
}

/// The options of a loss.
#[derive(Clone, Copy)]
struct LossOptions {
    ignore_index: i64,
    label_smoothing: f64,
}

/// The optional tensors of a launch.
#[derive(Default)]
struct OptionalTensors<'a, 'b> {
    /// The gradient of the logits, `[rows, classes]`.
    dlogits: Option<&'b View<'a>>,
    /// The gradient of the loss, `[rows]`, and the one for which dlogits was computed before.
    dloss: Option<&'b View<'a>>,
    saved_dloss: Option<&'b View<'a>>,
}

/// Returns the launch over rows of logits, with their targets.
fn rows<'a>(
    call: &Call<'a>,
    kernel: &LossKernel,
    options: LossOptions,
    target: &View<'a>,
    optional: &OptionalTensors<'a, '_>,
) -> Result<Rows<'a>> {
    let logits = &call.inputs[0];
    let [count, classes] = logits.layout.shape().to_array(call.name)?;
    let stride =
        |view: Option<&View<'_>>, axis: usize| view.map_or(0, |view| view.layout.strides()[axis] as i64);
    let y = optional.dlogits;
    let axes = vec![(
        count,
        vec![
            stride(y, 0),
            stride(Some(logits), 0),
            stride(optional.dloss, 0),
            stride(optional.saved_dloss, 0),
        ],
    )];
    let over = vec![(classes, vec![stride(y, 1), stride(Some(logits), 1), 0, 0])];
    let partition = Partition::of(call.name, count, classes, contiguous_axis(&axes, &over))?;
    let ignored = options.ignore_index as u64;
    let smoothing = options.label_smoothing;
    let kernel = RowKernel {
        accumulator: kernel.accumulator,
        bases: Bases::Four,
        family: RowFamily::Loss {
            target: if target.dtype == DType::I64 { LossTarget::I64 } else { LossTarget::I32 },
        },
        accumulate: kernel.accumulate,
        finish: kernel.finish,
    };
    let mut rows = Rows::new(call.gpu, call.name, Class::Float, partition, kernel)
        .space(&axes)
        .over(&over)
        .number(0, ignored as u32)
        .number(1, (ignored >> 32) as u32)
        .float(2, 1.0 - smoothing)
        .float(3, smoothing / classes.max(1) as f64)
        .input(SlotName::X, 1, logits)?
        .dense_input(SlotName::Targets, 0, target)?;
    if let Some(dlogits) = y {
        rows = rows.output(SlotName::Y, 0, dlogits)?;
    }
    if let Some(dloss) = optional.dloss {
        rows = rows.input(SlotName::D, 2, dloss)?;
    }
    if let Some(saved_dloss) = optional.saved_dloss {
        rows = rows.input(SlotName::SavedDLoss, 3, saved_dloss)?;
    }
    Ok(rows)
}

/// Computes the loss and log_sum, and dlogits if requested.
fn forward(call: &Call<'_>, options: LossOptions, optional: &OptionalTensors<'_, '_>) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let target = Dense::input(gpu, op, &call.inputs[1])?;
    let loss = Dense::output(gpu, &call.outputs[0])?;
    let log_sum = Dense::output(gpu, &call.outputs[1])?;
    let kernel = if optional.dlogits.is_some() { &LOSS_WITH_GRAD } else { &LOSS };
    rows(call, kernel, options, &target.view(), optional)?
        .dense_output(SlotName::LogSum, 1, &log_sum.view())?
        .dense_output(SlotName::Loss, 2, &loss.view())?
        .check_indices(call.inputs[0].layout.shape().dim(1))
        .launch_in_registers(&kernel.register_rows)?;
    loss.finish(gpu, op)?;
    log_sum.finish(gpu, op)
}

/// Computes dlogits, from the log_sum that the forward pass saved.
fn gradient(
    call: &Call<'_>,
    options: LossOptions,
    optional: &OptionalTensors<'_, '_>,
    kernel: &LossKernel,
) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let target = Dense::input(gpu, op, &call.inputs[1])?;
    let log_sum = Dense::input(gpu, op, &call.inputs[2])?;
    rows(call, kernel, options, &target.view(), optional)?
        .dense_input(SlotName::LogSum, 1, &log_sum.view())?
        .check_indices(call.inputs[0].layout.shape().dim(1))
        .launch_in_registers(&kernel.register_rows)
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    match *op {
        Op::CrossEntropy(CrossEntropy { ignore_index, label_smoothing }) => {
            forward(call, LossOptions { ignore_index, label_smoothing }, &OptionalTensors::default())
        }
        Op::CrossEntropyWithGrad(CrossEntropyWithGrad { ignore_index, label_smoothing, .. }) => {
            let optional = OptionalTensors {
                dlogits: Some(&call.outputs[2]),
                dloss: Some(&call.inputs[2]),
                saved_dloss: None,
            };
            forward(call, LossOptions { ignore_index, label_smoothing }, &optional)
        }
        Op::CrossEntropyGrad(CrossEntropyGrad { ignore_index, label_smoothing }) => {
            let optional = OptionalTensors {
                dlogits: Some(&call.outputs[0]),
                dloss: Some(&call.inputs[3]),
                saved_dloss: None,
            };
            gradient(call, LossOptions { ignore_index, label_smoothing }, &optional, &GRAD)
        }
        Op::CrossEntropyGradUpdate(CrossEntropyGradUpdate { ignore_index, label_smoothing }) => {
            let optional = OptionalTensors {
                dlogits: Some(&call.outputs[0]),
                dloss: Some(&call.inputs[3]),
                saved_dloss: Some(&call.inputs[4]),
            };
            gradient(call, LossOptions { ignore_index, label_smoothing }, &optional, &UPDATE)
        }
        _ => Err(Error::invalid(call.name, "is not of the cross-entropy family")),
    }
}
