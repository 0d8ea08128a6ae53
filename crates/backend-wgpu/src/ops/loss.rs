//! Cross-entropy and its gradient.

use super::rows::fours::{Held, MOST_THREADS};
use super::rows::{Accumulator, Cut, Dense, Finish, Rows, beside};
use crate::linker::Class;
use crate::select::Call;
use ternion_core::backend::View;
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyGrad, CrossEntropyGradUpdate, CrossEntropyWithGrad};
use ternion_core::{DType, Error, Op, Result};

/// The accumulator of the forward pass.
const LOGITS: Accumulator = Accumulator { merge: "loss_merge", ..Accumulator::EXPONENTIALS };
/// Of the gradient alone: the largest logit.
const LARGEST: Accumulator = Accumulator::number("lowest", "larger");

/// Loss and gradient of rows that stay in registers.
const WITH_GRAD: Held = Held {
    file: "exponentials_fours.wgsl",
    fours: &["y", "x"],
    any: true,
    most_threads: MOST_THREADS,
    values: "loss_slopes",
    kept_values: None,
    strange: Some("loss_slope"),
    texts: &[
        ("SKIPS", "nothing_is_skipped"),
        ("MOVED", "loss_sum_moved"),
        ("PREPARE", "loss_with_grad_state"),
        ("REGULAR", "loss_is_regular"),
    ],
    numbers: &[("SUMS", 1)],
};
const LOSS: Held = Held {
    fours: &["x"],
    texts: &[("SKIPS", "nothing_is_skipped"), ("MOVED", "loss_sum_moved"), ("RESULT", "loss_finish")],
    ..WITH_GRAD
};
const GRAD: Held = Held {
    texts: &[("SKIPS", "nothing_is_skipped"), ("PREPARE", "loss_grad_state"), ("REGULAR", "loss_is_regular")],
    numbers: &[("SUMS", 0)],
    ..WITH_GRAD
};
const UPDATE: Held = Held {
    // Most rows stay as they are: what they take is threads that come and go.
    most_threads: 128,
    texts: &[("SKIPS", "loss_update_skips"), ("PREPARE", "loss_grad_state"), ("REGULAR", "loss_is_regular")],
    ..GRAD
};

/// How a loss counts.
#[derive(Clone, Copy)]
struct Counting {
    ignore_index: i64,
    label_smoothing: f64,
}

/// What a launch has of the tensors with an element for each row, and of dlogits.
#[derive(Default)]
struct PerRow<'a, 'b> {
    dlogits: Option<&'b View<'a>>,
    dloss: Option<&'b View<'a>>,
    formed: Option<&'b View<'a>>,
}

/// The launch over rows of logits, with their targets.
fn rows<'a>(
    call: &Call<'a>,
    accumulator: Accumulator,
    counting: Counting,
    target: &View<'a>,
    per_row: &PerRow<'a, '_>,
) -> Result<Rows<'a>> {
    let logits = &call.inputs[0];
    let [count, classes] = logits.layout.shape().to_array(call.name)?;
    let stride =
        |view: Option<&View<'_>>, axis: usize| view.map_or(0, |view| view.layout.strides()[axis] as i64);
    let y = per_row.dlogits;
    let axes = vec![(
        count,
        vec![stride(y, 0), stride(Some(logits), 0), stride(per_row.dloss, 0), stride(per_row.formed, 0)],
    )];
    let over = vec![(classes, vec![stride(y, 1), stride(Some(logits), 1), 0, 0])];
    let cut = Cut::of(call.name, count, classes, beside(&axes, &over))?;
    let ignored = counting.ignore_index as u64;
    let smoothing = counting.label_smoothing;
    let mut rows = Rows::new(call.gpu, call.name, Class::Float, cut, accumulator)
        .space(&axes)
        .over(&over)
        .with("BASES", "four_bases")
        .with("WIDEN", if target.dtype == DType::I64 { "loss_wide" } else { "loss_wide_from_int" })
        .number(0, ignored as u32)
        .number(1, (ignored >> 32) as u32)
        .float(2, 1.0 - smoothing)
        .float(3, smoothing / classes.max(1) as f64)
        .input("x", 1, logits)?
        .dense_input("wanted", 0, target)?;
    if let Some(dlogits) = y {
        rows = rows.output("y", 0, dlogits)?;
    }
    if let Some(dloss) = per_row.dloss {
        rows = rows.input("d", 2, dloss)?;
    }
    if let Some(formed) = per_row.formed {
        rows = rows.input("formed", 3, formed)?;
    }
    Ok(rows)
}

/// Loss and log_sum, and dlogits if it is asked for.
fn forward(call: &Call<'_>, counting: Counting, per_row: &PerRow<'_, '_>) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let target = Dense::input(gpu, op, &call.inputs[1])?;
    let loss = Dense::output(gpu, &call.outputs[0])?;
    let log_sum = Dense::output(gpu, &call.outputs[1])?;
    let (held, finish) = match per_row.dlogits {
        Some(_) => (&WITH_GRAD, Finish::Elements("loss_with_grad_state", "loss_slope")),
        None => (&LOSS, Finish::Result("loss_finish")),
    };
    rows(call, LOGITS, counting, &target.view(), per_row)?
        .dense_output("log_sum", 1, &log_sum.view())?
        .dense_output("loss", 2, &loss.view())?
        .faults(call.inputs[0].layout.shape().dim(1))
        .launch_held(held, "loss_gather", finish)?;
    loss.finish(gpu, op)?;
    log_sum.finish(gpu, op)
}

fn gradient(
    call: &Call<'_>,
    counting: Counting,
    per_row: &PerRow<'_, '_>,
    held: &Held,
    gather: &'static str,
    finish: Finish,
) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let target = Dense::input(gpu, op, &call.inputs[1])?;
    let log_sum = Dense::input(gpu, op, &call.inputs[2])?;
    rows(call, LARGEST, counting, &target.view(), per_row)?
        .dense_input("log_sum", 1, &log_sum.view())?
        .faults(call.inputs[0].layout.shape().dim(1))
        .launch_held(held, gather, finish)
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    match *op {
        Op::CrossEntropy(CrossEntropy { ignore_index, label_smoothing }) => {
            forward(call, Counting { ignore_index, label_smoothing }, &PerRow::default())
        }
        Op::CrossEntropyWithGrad(CrossEntropyWithGrad { ignore_index, label_smoothing }) => {
            let per_row =
                PerRow { dlogits: Some(&call.outputs[2]), dloss: Some(&call.inputs[2]), formed: None };
            forward(call, Counting { ignore_index, label_smoothing }, &per_row)
        }
        Op::CrossEntropyGrad(CrossEntropyGrad { ignore_index, label_smoothing }) => {
            let per_row =
                PerRow { dlogits: Some(&call.outputs[0]), dloss: Some(&call.inputs[3]), formed: None };
            let finish = Finish::Elements("loss_grad_state", "loss_slope");
            gradient(
                call,
                Counting { ignore_index, label_smoothing },
                &per_row,
                &GRAD,
                "loss_largest_gather",
                finish,
            )
        }
        Op::CrossEntropyGradUpdate(CrossEntropyGradUpdate { ignore_index, label_smoothing }) => {
            let per_row = PerRow {
                dlogits: Some(&call.outputs[0]),
                dloss: Some(&call.inputs[3]),
                formed: Some(&call.inputs[4]),
            };
            let finish = Finish::SomeElements("loss_update_finish", "loss_grad_state", "loss_slope");
            gradient(
                call,
                Counting { ignore_index, label_smoothing },
                &per_row,
                &UPDATE,
                "loss_update_gather",
                finish,
            )
        }
        _ => Err(Error::invalid(call.name, "is not of the cross-entropy family")),
    }
}
