//! Layer and RMS normalisation of the last axis, and their gradients.

use super::rows::fours::{Held, MOST_THREADS, Walk};
use super::rows::{Accumulator, Cut, Dense, Finish, Rows, axes_but, beside};
use crate::linker::Class;
use crate::select::Call;
use ternion_core::backend::View;
use ternion_core::ops::norm::{LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad};
use ternion_core::{Error, Layout, Op, Result};

/// What tells layer from RMS normalisation: functions of norm.wgsl.
struct Kind {
    accumulator: Accumulator,
    gather: &'static str,
    statistics: &'static str,
    kept: &'static str,
    centre: &'static str,
    centred: bool,
    /// The forward pass of rows that stay in registers.
    held: Held,
}

const HELD: Held = Held {
    file: "sums_fours.wgsl",
    fours: &["y", "x", "weight", "bias"],
    any: false,
    most_threads: MOST_THREADS,
    values: "norm_values",
    kept_values: None,
    strange: None,
    texts: &[("TERM", "norm_terms"), ("ACCUMULATED", "norm_layer_moments"), ("PREPARE", "norm_state")],
    numbers: &[("WITH_D", 0), ("SQUARES", 1)],
};

const LAYER: Kind = Kind {
    accumulator: Accumulator::MOMENTS,
    gather: "moments_gather",
    statistics: "norm_layer_statistics",
    kept: "norm_layer_kept",
    centre: "norm_centred",
    centred: true,
    held: HELD,
};
const RMS: Kind = Kind {
    accumulator: Accumulator::SUMS,
    gather: "norm_squares_gather",
    statistics: "norm_rms_statistics",
    kept: "norm_rms_kept",
    centre: "norm_uncentred",
    centred: false,
    held: Held {
        texts: &[
            ("TERM", "norm_square_terms"),
            ("ACCUMULATED", "norm_rms_moments"),
            ("PREPARE", "norm_state"),
        ],
        numbers: &[("WITH_D", 0), ("SQUARES", 0)],
        ..HELD
    },
};

/// The launch over rows of the last axis of `views`: the output, then the inputs that have its shape.
fn rows_of<'a>(
    call: &Call<'a>,
    accumulator: Accumulator,
    views: &[&View<'a>],
    cut: Option<Cut>,
) -> Result<Rows<'a>> {
    let layouts: Vec<&Layout> = views.iter().map(|view| view.layout).collect();
    let axis = layouts[0].shape().rank() - 1;
    let axes = axes_but(axis, &layouts);
    let steps: Vec<i64> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
    let length = layouts[0].shape().dim(axis);
    let count = axes.iter().map(|(size, _)| size).product();
    let cut = match cut {
        Some(cut) => cut,
        None => Cut::of(call.name, count, length, beside(&axes, &[(length, steps.clone())]))?,
    };
    Ok(Rows::new(call.gpu, call.name, Class::Float, cut, accumulator).space(&axes).over(&[(length, steps)]))
}

fn forward(call: &Call<'_>, kind: &Kind, eps: f64, weight: bool, bias: bool) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let parameters: Vec<Dense<'_>> =
        call.inputs[1..].iter().map(|view| Dense::input(gpu, op, view)).collect::<Result<_>>()?;
    let statistics: Vec<Dense<'_>> =
        call.outputs[1..].iter().map(|view| Dense::output(gpu, view)).collect::<Result<_>>()?;
    let views: Vec<View<'_>> = parameters.iter().chain(&statistics).map(Dense::view).collect();
    let (parameter_views, statistic_views) = views.split_at(parameters.len());
    let mut rows = rows_of(call, kind.accumulator, &[y, x], None)?
        .with("BASES", "two_bases")
        .with("STATISTICS", kind.statistics)
        .with("WEIGHT", if weight { "norm_weight_of_element" } else { "norm_no_weight" })
        .with("BIAS", if bias { "norm_bias_of_element" } else { "norm_no_bias" })
        .with("WEIGHTS", if weight { "norm_weights" } else { "norm_no_weights" })
        .with("BIASES", if bias { "norm_biases" } else { "norm_no_biases" })
        .float(0, eps)
        .output("y", 0, y)?
        .input("x", 1, x)?;
    if weight {
        rows = rows.dense_input("weight", 0, &parameter_views[0])?;
    }
    if bias {
        rows = rows.dense_input("bias", 1, &parameter_views[parameter_views.len() - 1])?;
    }
    if kind.centred {
        rows = rows.dense_output("mean", 2, &statistic_views[0])?;
    }
    rows.dense_output("reciprocal", 3, &statistic_views[statistic_views.len() - 1])?.launch_held(
        &kind.held,
        kind.gather,
        Finish::Elements("norm_state", "norm_value"),
    )?;
    statistics.iter().try_for_each(|statistic| statistic.finish(gpu, op))
}

pub(crate) fn run_layer(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::LayerNorm(LayerNorm { eps, weight, bias }) = op else { return Err(wrong(call)) };
    forward(call, &LAYER, *eps, *weight, *bias)
}

pub(crate) fn run_rms(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::RmsNorm(RmsNorm { eps, weight }) = op else { return Err(wrong(call)) };
    forward(call, &RMS, *eps, *weight, false)
}

fn wrong(call: &Call<'_>) -> Error {
    Error::invalid(call.name, "another op's shader was chosen")
}

/// What a gradient reads beside x and dy.
struct Saved<'a> {
    mean: Option<View<'a>>,
    reciprocal: View<'a>,
    weight: Option<View<'a>>,
}

impl<'a> Saved<'a> {
    fn bind(&self, mut rows: Rows<'a>) -> Result<Rows<'a>> {
        if let Some(mean) = &self.mean {
            rows = rows.dense_input("mean", 2, mean)?;
        }
        rows.dense_input("reciprocal", 3, &self.reciprocal)
    }
}

/// dx: rows of x, dy and dx, cut as usual or by `cut`.
fn input_gradient<'a>(
    call: &Call<'a>,
    kind: &Kind,
    saved: &Saved<'a>,
    dy: &View<'a>,
    cut: Option<Cut>,
) -> Result<Rows<'a>> {
    let (x, dx) = (&call.inputs[0], &call.outputs[0]);
    let width = x.layout.shape().dim(x.layout.shape().rank() - 1);
    let mut rows = rows_of(call, Accumulator::SUMS, &[dx, x, dy], cut)?
        .with("BASES", "three_bases")
        .with("KEPT", kind.kept)
        .with("CENTRE", kind.centre)
        .with("WEIGHT", if saved.weight.is_some() { "norm_weight_of_element" } else { "norm_no_weight" })
        .with("WEIGHTS", if saved.weight.is_some() { "norm_weights" } else { "norm_no_weights" })
        .float(1, 1.0 / width as f64)
        .output("y", 0, dx)?
        .input("x", 1, x)?
        .input("d", 2, dy)?;
    if let Some(weight) = &saved.weight {
        rows = rows.dense_input("weight", 0, weight)?;
    }
    saved.bind(rows)
}

/// Binds the gradients of the parameters, if there is one.
fn bind_parameter_gradients<'a>(
    rows: Rows<'a>,
    [dweight, dbias]: [Option<&View<'a>>; 2],
) -> Result<Rows<'a>> {
    let function = match (dweight, dbias) {
        (Some(_), Some(_)) => "norm_put_both",
        (Some(_), None) => "norm_put_weight",
        _ => "norm_put_bias",
    };
    let mut rows = rows.with("PARAMETER_GRADS", function);
    if let Some(dweight) = dweight {
        rows = rows.dense_output("dweight", 4, dweight)?;
    }
    match dbias {
        Some(dbias) => rows.dense_output("dbias", 5, dbias),
        None => Ok(rows),
    }
}

/// What norm_grad_fours.wgsl takes by fours.
const WALKING: [&str; 4] = ["y", "x", "d", "weight"];

/// All gradients in one reading, and the sums that it left added up.
fn gradients_walking<'a>(
    call: &Call<'a>,
    kind: &Kind,
    saved: &Saved<'a>,
    dy: &View<'a>,
    grads: [Option<&View<'_>>; 2],
    (cut, mut teams): (Cut, usize),
) -> Result<()> {
    let width = cut.length as usize;
    let rows = input_gradient(call, kind, saved, dy, Some(cut))?;
    let walk = rows.walking(&WALKING);
    teams = walk.as_ref().map_or(teams, Walk::teams);
    let sums = call.gpu.alloc(teams * width * 8)?;
    match walk {
        Some(walk) => rows.launch_walk(&walk, &WALKING, &sums)?,
        None => rows.launch_walking(&sums)?,
    }
    let cut = Cut::of_teams(width, teams);
    let rows = Rows::new(call.gpu, call.name, Class::Float, cut, Accumulator::SUMS)
        .with("BASES", "no_bases")
        .teams(&sums)?;
    bind_parameter_gradients(rows, grads)?.launch("norm_teams_gather", Finish::Result("norm_columns_finish"))
}

/// dweight and dbias: sums over columns, each a row of its own here.
fn parameter_gradients<'a>(
    call: &Call<'a>,
    kind: &Kind,
    saved: &Saved<'a>,
    dy: &View<'a>,
    grads: [Option<&View<'a>>; 2],
) -> Result<()> {
    let x = &call.inputs[0];
    let layouts = [x.layout, x.layout, dy.layout];
    let axis = x.layout.shape().rank() - 1;
    let width = x.layout.shape().dim(axis);
    let mut over = axes_but(axis, &layouts);
    if over.is_empty() {
        over.push((1, vec![0; 3]));
    }
    let columns = vec![(width, layouts.iter().map(|layout| layout.strides()[axis] as i64).collect())];
    let count = over.iter().map(|(size, _)| size).product();
    let cut = Cut::of(call.name, width, count, beside(&columns, &over))?;
    let rows = Rows::new(call.gpu, call.name, Class::Float, cut, Accumulator::SUMS)
        .space(&columns)
        .over(&over)
        .with("BASES", "three_bases")
        .with("KEPT", kind.kept)
        .input("x", 1, x)?
        .input("d", 2, dy)?;
    let rows = saved.bind(bind_parameter_gradients(rows, grads)?)?;
    rows.launch("norm_columns_gather", Finish::Result("norm_columns_finish"))
}

fn gradients<'a>(
    call: &Call<'a>,
    kind: &Kind,
    saved: &Saved<'a>,
    dy: &View<'a>,
    grads: [Option<&View<'a>>; 2],
) -> Result<()> {
    let shape = call.inputs[0].layout.shape();
    let width = shape.dim(shape.rank() - 1);
    if width == 0 {
        return Ok(());
    }
    let has_parameters = grads.iter().any(Option::is_some);
    if let (true, Some(walk)) = (has_parameters, Cut::walking(shape.elements() / width, width)) {
        return gradients_walking(call, kind, saved, dy, grads, walk);
    }
    if has_parameters {
        parameter_gradients(call, kind, saved, dy, grads)?;
    }
    input_gradient(call, kind, saved, dy, None)?
        .launch("norm_grad_gather", Finish::Elements("norm_grad_state", "norm_grad_value"))
}

/// `statistics` inputs lie between x and dy; then a weight, if there was one.
fn gradient(call: &Call<'_>, kind: &Kind, weight: bool, bias: bool) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let statistics = if kind.centred { 2 } else { 1 };
    let dense: Vec<Dense<'_>> =
        call.inputs[1..].iter().map(|view| Dense::input(gpu, op, view)).collect::<Result<_>>()?;
    let views: Vec<View<'_>> = dense.iter().map(Dense::view).collect();
    let grads: Vec<Dense<'_>> =
        call.outputs[1..].iter().map(|view| Dense::output(gpu, view)).collect::<Result<_>>()?;
    let grad_views: Vec<View<'_>> = grads.iter().map(Dense::view).collect();
    let saved = Saved {
        mean: kind.centred.then(|| views[0]),
        reciprocal: views[statistics - 1],
        weight: weight.then(|| views[statistics + 1]),
    };
    let dy = &call.inputs[statistics + 1];
    let dbias = bias.then(|| grad_views.last()).flatten();
    let wanted = [weight.then(|| &grad_views[0]), dbias];
    gradients(call, kind, &saved, dy, wanted)?;
    grads.iter().try_for_each(|grad| grad.finish(gpu, op))
}

pub(crate) fn run_layer_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::LayerNormGrad(LayerNormGrad { weight, bias }) = op else { return Err(wrong(call)) };
    gradient(call, &LAYER, *weight, *bias)
}

pub(crate) fn run_rms_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::RmsNormGrad(RmsNormGrad { weight }) = op else { return Err(wrong(call)) };
    gradient(call, &RMS, *weight, false)
}
