//! Layer and RMS normalization of the last axis, and their gradients.

use super::rows::registers::{MAX_THREADS, RowLoop};
use super::rows::template::{RegisterOutput, RegisterRows, RegisterTemplate};
use super::rows::{
    Accumulator, Dense, Partition, RowFamily, RowFinish, RowKernel, Rows, axes_but, contiguous_axis,
};
use crate::call::{Call, LaunchFn};
use crate::names::{
    Accumulate, Bases, Finish, NormBias, NormCenter, NormParameterGrads, NormSaved, NormStatistics,
    NormWeight, Prepare, RowAccumulator, RowTerms, RowValue, RowValues, SlotName,
};
use crate::shaders::Class;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::ops::norm::{LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad};
use ternion_core::{Layout, Op, Result};

/// Layer or RMS normalization: the functions of norm.wgsl that differ.
struct NormKind {
    accumulator: Accumulator,
    accumulate: Accumulate,
    statistics: NormStatistics,
    saved: NormSaved,
    center: NormCenter,
    /// Whether the mean is subtracted.
    is_centered: bool,
    /// The forward pass for rows that are kept in registers.
    register_rows: RegisterRows,
}

const LAYER: NormKind = NormKind {
    accumulator: Accumulator::MOMENTS,
    accumulate: Accumulate::Moments,
    statistics: NormStatistics::Layer,
    saved: NormSaved::Layer,
    center: NormCenter::Centered,
    is_centered: true,
    register_rows: in_registers(RowTerms::Norm, RowAccumulator::LayerNorm, true),
};
const RMS: NormKind = NormKind {
    accumulator: Accumulator::SUMS,
    accumulate: Accumulate::NormSquares,
    statistics: NormStatistics::Rms,
    saved: NormSaved::Rms,
    center: NormCenter::Uncentered,
    is_centered: false,
    register_rows: in_registers(RowTerms::NormSquares, RowAccumulator::RmsNorm, false),
};

const fn in_registers(terms: RowTerms, accumulator: RowAccumulator, squares: bool) -> RegisterRows {
    RegisterRows {
        vec4: &[SlotName::Y, SlotName::X, SlotName::Weight, SlotName::Bias],
        any_length: false,
        max_threads: MAX_THREADS,
        template: RegisterTemplate::Sums { terms, accumulator, with_d: false, squares },
        output: RegisterOutput::Elements {
            prepare: Prepare::Norm,
            values: RowValues::Norm,
            kept: None,
            single: None,
        },
    }
}

impl NormKind {
    fn forward(&self, has_weight: bool, has_bias: bool) -> RowKernel {
        RowKernel {
            accumulator: self.accumulator,
            bases: Bases::Two,
            family: RowFamily::Norm {
                statistics: self.statistics,
                weight: if has_weight { NormWeight::Element } else { NormWeight::None },
                bias: if has_bias { NormBias::Element } else { NormBias::None },
            },
            accumulate: self.accumulate,
            finish: RowFinish::Elements { prepare: Prepare::Norm, value: RowValue::Norm },
        }
    }

    fn input_gradient(&self, has_weight: bool) -> RowKernel {
        RowKernel {
            accumulator: Accumulator::SUMS,
            bases: Bases::Three,
            family: RowFamily::NormGrad {
                saved: self.saved,
                center: self.center,
                weight: if has_weight { NormWeight::Element } else { NormWeight::None },
            },
            accumulate: Accumulate::NormGrad,
            finish: RowFinish::Elements { prepare: Prepare::NormGrad, value: RowValue::NormGrad },
        }
    }
}

/// Returns the kernel that sums over columns, for the gradients of the parameters. It reads the
/// tensors, or the partial sums of teams.
fn column_sums(saved: Option<NormSaved>, [dweight, dbias]: [Option<&View<'_>>; 2]) -> RowKernel {
    let grads = match (dweight, dbias) {
        (Some(_), Some(_)) => NormParameterGrads::Both,
        (Some(_), None) => NormParameterGrads::Weight,
        _ => NormParameterGrads::Bias,
    };
    RowKernel {
        accumulator: Accumulator::SUMS,
        bases: if saved.is_some() { Bases::Three } else { Bases::None },
        family: RowFamily::NormColumns { saved, grads },
        accumulate: if saved.is_some() { Accumulate::NormColumns } else { Accumulate::NormTeams },
        finish: RowFinish::Row(Finish::NormColumns),
    }
}

/// Returns the launch over rows along the last axis of `views`: the output, then the inputs that
/// have its shape.
fn rows_of<'a>(
    call: &Call<'a>,
    kernel: RowKernel,
    views: &[&View<'a>],
    partition: Option<Partition>,
) -> Result<Rows<'a>> {
    let layouts: Vec<&Layout> = views.iter().map(|view| view.layout).collect();
    let axis = layouts[0].shape().rank() - 1;
    let axes = axes_but(axis, &layouts);
    let steps: Vec<i64> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
    let length = layouts[0].shape().dim(axis);
    let count = axes.iter().map(|(size, _)| size).product();
    let partition = match partition {
        Some(partition) => partition,
        None => Partition::of(call.name, count, length, contiguous_axis(&axes, &[(length, steps.clone())]))?,
    };
    Ok(Rows::new(call.gpu, call.name, Class::Float, partition, kernel).space(&axes).over(&[(length, steps)]))
}

fn forward(call: &Call<'_>, kind: &NormKind, eps: f64, has_weight: bool, has_bias: bool) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let parameters: Vec<Dense<'_>> =
        call.inputs[1..].iter().map(|view| Dense::input(gpu, op, view)).collect::<Result<_>>()?;
    let statistics: Vec<Dense<'_>> =
        call.outputs[1..].iter().map(|view| Dense::output(gpu, view)).collect::<Result<_>>()?;
    let views: Vec<View<'_>> = parameters.iter().chain(&statistics).map(Dense::view).collect();
    let (parameter_views, statistic_views) = views.split_at(parameters.len());
    let mut rows = rows_of(call, kind.forward(has_weight, has_bias), &[y, x], None)?
        .float(0, eps)
        .output(SlotName::Y, 0, y)?
        .input(SlotName::X, 1, x)?;
    if has_weight {
        rows = rows.dense_input(SlotName::Weight, 0, &parameter_views[0])?;
    }
    if has_bias {
        rows = rows.dense_input(SlotName::Bias, 1, &parameter_views[parameter_views.len() - 1])?;
    }
    if kind.is_centered {
        rows = rows.dense_output(SlotName::Mean, 2, &statistic_views[0])?;
    }
    rows.dense_output(SlotName::Reciprocal, 3, &statistic_views[statistic_views.len() - 1])?
        .launch_in_registers(&kind.register_rows)?;
    statistics.iter().try_for_each(|statistic| statistic.finish(gpu, op))
}

/// Returns the function that queues the shaders of a norm or its gradient, if all tensors have the
/// same dtype and no gradient of a residual is added. All others are composed.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<LaunchFn, Unsupported> {
    let dtype = inputs[0].dtype;
    let is_mixed = match op {
        Op::LayerNorm(LayerNorm { out_dtype, .. }) | Op::RmsNorm(RmsNorm { out_dtype, .. }) => {
            out_dtype.is_some_and(|out_dtype| out_dtype != dtype)
        }
        Op::LayerNormGrad(_) => inputs[3].dtype != dtype,
        _ => inputs[2].dtype != dtype,
    };
    // Whether the residual's gradient is added to dx, or the sum is rounded.
    let has_epilogue = match op {
        Op::LayerNormGrad(grad) => grad.residual || grad.rounds,
        Op::RmsNormGrad(grad) => grad.residual || grad.rounds,
        _ => false,
    };
    match op {
        _ if is_mixed => Err(Unsupported::because("rows of f32 and half precision are cast on their own")),
        _ if has_epilogue => {
            Err(Unsupported::because("the residual's gradient is added, and the sum rounded, on its own"))
        }
        Op::LayerNorm(_) => Ok(run_layer),
        Op::LayerNormGrad(_) => Ok(run_layer_grad),
        Op::RmsNorm(_) => Ok(run_rms),
        _ => Ok(run_rms_grad),
    }
}

fn run_layer(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::LayerNorm(LayerNorm { eps, weight, bias, .. }) = op else { return Err(call.wrong_op()) };
    forward(call, &LAYER, *eps, *weight, *bias)
}

fn run_rms(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::RmsNorm(RmsNorm { eps, weight, .. }) = op else { return Err(call.wrong_op()) };
    forward(call, &RMS, *eps, *weight, false)
}

/// The tensors that a gradient reads in addition to x and dy.
struct Saved<'a> {
    mean: Option<View<'a>>,
    reciprocal: View<'a>,
    weight: Option<View<'a>>,
}

impl<'a> Saved<'a> {
    fn bind(&self, mut rows: Rows<'a>) -> Result<Rows<'a>> {
        if let Some(mean) = &self.mean {
            rows = rows.dense_input(SlotName::Mean, 2, mean)?;
        }
        rows.dense_input(SlotName::Reciprocal, 3, &self.reciprocal)
    }
}

/// Returns the launch that computes dx, over rows of x, dy and dx. `partition` replaces the default
/// partition.
fn input_gradient<'a>(
    call: &Call<'a>,
    kind: &NormKind,
    saved: &Saved<'a>,
    dy: &View<'a>,
    partition: Option<Partition>,
) -> Result<Rows<'a>> {
    let (x, dx) = (&call.inputs[0], &call.outputs[0]);
    let width = x.layout.shape().dim(x.layout.shape().rank() - 1);
    let kernel = kind.input_gradient(saved.weight.is_some());
    let mut rows = rows_of(call, kernel, &[dx, x, dy], partition)?
        .float(1, 1.0 / width as f64)
        .output(SlotName::Y, 0, dx)?
        .input(SlotName::X, 1, x)?
        .input(SlotName::D, 2, dy)?;
    if let Some(weight) = &saved.weight {
        rows = rows.dense_input(SlotName::Weight, 0, weight)?;
    }
    saved.bind(rows)
}

/// Binds the gradients of the parameters that exist.
fn bind_parameter_gradients<'a>(
    mut rows: Rows<'a>,
    [dweight, dbias]: [Option<&View<'a>>; 2],
) -> Result<Rows<'a>> {
    if let Some(dweight) = dweight {
        rows = rows.dense_output(SlotName::DWeight, 4, dweight)?;
    }
    match dbias {
        Some(dbias) => rows.dense_output(SlotName::DBias, 5, dbias),
        None => Ok(rows),
    }
}

/// The tensors that norm_grad_vec4.wgsl accesses as vec4.
const VEC4: [SlotName; 4] = [SlotName::Y, SlotName::X, SlotName::D, SlotName::Weight];

/// Queues the shader that computes dx and the partial sums of dweight and dbias in one pass over
/// the inputs, then the shader that adds these sums.
fn gradients_one_pass<'a>(
    call: &Call<'a>,
    kind: &NormKind,
    saved: &Saved<'a>,
    dy: &View<'a>,
    grads: [Option<&View<'_>>; 2],
    (partition, mut teams): (Partition, usize),
) -> Result<()> {
    let width = partition.length as usize;
    let rows = input_gradient(call, kind, saved, dy, Some(partition))?;
    let row_loop = rows.row_loop(&VEC4);
    teams = row_loop.as_ref().map_or(teams, RowLoop::teams);
    let sums = call.gpu.alloc(teams * width * 8)?;
    match row_loop {
        Some(row_loop) => rows.launch_norm_grad_vec4(&row_loop, &VEC4, &sums)?,
        None => rows.launch_norm_grad(&sums)?,
    }
    let partition = Partition::of_teams(width, teams);
    let kernel = column_sums(None, grads);
    let rows = Rows::new(call.gpu, call.name, Class::Float, partition, kernel).teams(&sums)?;
    bind_parameter_gradients(rows, grads)?.launch()
}

/// Computes dweight and dbias: sums for each column. A column of x is a row of this launch.
fn parameter_gradients<'a>(
    call: &Call<'a>,
    kind: &NormKind,
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
    let partition = Partition::of(call.name, width, count, contiguous_axis(&columns, &over))?;
    let rows = Rows::new(call.gpu, call.name, Class::Float, partition, column_sums(Some(kind.saved), grads))
        .space(&columns)
        .over(&over)
        .input(SlotName::X, 1, x)?
        .input(SlotName::D, 2, dy)?;
    let rows = saved.bind(bind_parameter_gradients(rows, grads)?)?;
    rows.launch()
}

fn gradients<'a>(
    call: &Call<'a>,
    kind: &NormKind,
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
    if let (true, Some(row_loop)) = (has_parameters, Partition::row_loop(shape.elements() / width, width)) {
        return gradients_one_pass(call, kind, saved, dy, grads, row_loop);
    }
    if has_parameters {
        parameter_gradients(call, kind, saved, dy, grads)?;
    }
    input_gradient(call, kind, saved, dy, None)?.launch()
}

/// Queues the gradients. Between the inputs x and dy there are `statistics` inputs; the weight, if
/// any, follows dy.
fn gradient(call: &Call<'_>, kind: &NormKind, has_weight: bool, has_bias: bool) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let statistics = if kind.is_centered { 2 } else { 1 };
    let dense: Vec<Dense<'_>> =
        call.inputs[1..].iter().map(|view| Dense::input(gpu, op, view)).collect::<Result<_>>()?;
    let views: Vec<View<'_>> = dense.iter().map(Dense::view).collect();
    let grads: Vec<Dense<'_>> =
        call.outputs[1..].iter().map(|view| Dense::output(gpu, view)).collect::<Result<_>>()?;
    let grad_views: Vec<View<'_>> = grads.iter().map(Dense::view).collect();
    let saved = Saved {
        mean: kind.is_centered.then(|| views[0]),
        reciprocal: views[statistics - 1],
        weight: has_weight.then(|| views[statistics + 1]),
    };
    let dy = &call.inputs[statistics + 1];
    let dbias = has_bias.then(|| grad_views.last()).flatten();
    let parameter_grads = [has_weight.then(|| &grad_views[0]), dbias];
    gradients(call, kind, &saved, dy, parameter_grads)?;
    grads.iter().try_for_each(|grad| grad.finish(gpu, op))
}

fn run_layer_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::LayerNormGrad(LayerNormGrad { weight, bias, .. }) = op else { return Err(call.wrong_op()) };
    gradient(call, &LAYER, *weight, *bias)
}

fn run_rms_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::RmsNormGrad(RmsNormGrad { weight, .. }) = op else { return Err(call.wrong_op()) };
    gradient(call, &RMS, *weight, false)
}
