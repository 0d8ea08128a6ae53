//! Running sums.

use super::rows::{Accumulator, Cut, PLAIN_FROM_LANE, Rows, axes_but, beside};
use crate::linker::Class;
use crate::select::Call;
use crate::slots::Store;
use ternion_core::ops::reduce::CumulativeSum;
use ternion_core::{Error, Op, Result};

/// A float sum and what its rounding lost.
const PAIR: Accumulator = Accumulator {
    dtype: "vec2<f32>",
    start: "pair_start",
    merge: "pair_merge",
    words: "pair_words",
    from: "pair_from",
    from_lane: PLAIN_FROM_LANE,
};

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CumulativeSum(CumulativeSum { axis }) = op else {
        return Err(Error::invalid(call.name, "is not a running sum"));
    };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    if x.layout.elements() == 0 {
        return Ok(());
    }
    let layouts = [y.layout, x.layout];
    let axes = axes_but(*axis, &layouts);
    let over = vec![(
        x.layout.shape().dim(*axis),
        layouts.iter().map(|layout| layout.strides()[*axis] as i64).collect(),
    )];
    let lines = axes.iter().map(|(size, _)| size).product();
    let cut = Cut::of(call.name, lines, over[0].0, beside(&axes, &over))?;
    let class = Store::of(x.dtype).class();
    let (accumulator, enter, leave) = match class {
        Class::Float => (PAIR, "pair_enter", "pair_leave"),
        _ => (Accumulator::SUM, "reduce_plain", "reduce_itself"),
    };
    Rows::new(call.gpu, call.name, class, cut, accumulator)
        .with("BASES", "two_bases")
        .with("ENTER", enter)
        .with("LEAVE", leave)
        .space(&axes)
        .over(&over)
        .output("y", 0, y)?
        .input("x", 1, x)?
        .launch_running()
}
