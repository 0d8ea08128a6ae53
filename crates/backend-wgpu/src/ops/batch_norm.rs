//! Batch normalization and its gradient: a row consists of all elements of a channel.

use super::copy::copy;
use super::rows::{
    Accumulator, Dense, Partition, RowFamily, RowFinish, RowKernel, Rows, axes_but, contiguous_axis,
};
use crate::call::Call;
use crate::names::{
    Accumulate, Bases, NormBias, NormParameterGrads, NormRowWeight, NormStatistics, NormWeight, Prepare,
    RowValue, SlotName,
};
use crate::shaders::Class;
use ternion_core::backend::View;
use ternion_core::ops::norm::{BatchNorm, BatchNormGrad};
use ternion_core::{AxisSet, Error, Layout, Op, Result, Shape};

/// Returns the launch over the channels of `views`, and the number of elements of each channel.
fn rows_of<'a>(call: &Call<'a>, kernel: RowKernel, views: &[&View<'a>]) -> Result<(Rows<'a>, usize)> {
    let layouts: Vec<&Layout> = views.iter().map(|view| view.layout).collect();
    let over = axes_but(1, &layouts);
    let channels = layouts[0].shape().dim(1);
    let axes = vec![(channels, layouts.iter().map(|layout| layout.strides()[1] as i64).collect())];
    let length = over.iter().map(|(size, _)| size).product();
    let partition = Partition::of(call.name, channels, length, contiguous_axis(&axes, &over))?;
    let rows = Rows::new(call.gpu, call.name, Class::Float, partition, kernel).space(&axes).over(&over);
    Ok((rows, length))
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BatchNorm(BatchNorm { eps, affine }) = op else {
        return Err(Error::invalid(call.name, "is not batch_norm"));
    };
    let (gpu, name) = (call.gpu, call.name);
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let parameters: Vec<Dense<'_>> =
        call.inputs[1..].iter().map(|view| Dense::input(gpu, name, view)).collect::<Result<_>>()?;
    let (mean, variance) = (Dense::output(gpu, &call.outputs[1])?, Dense::output(gpu, &call.outputs[2])?);
    let views: Vec<View<'_>> = parameters.iter().map(Dense::view).collect();
    let (mean_view, variance_view) = (mean.view(), variance.view());
    let kernel = RowKernel {
        accumulator: Accumulator::MOMENTS,
        bases: Bases::Two,
        family: RowFamily::Norm {
            statistics: NormStatistics::Batch,
            weight: if *affine { NormWeight::Row } else { NormWeight::None },
            bias: if *affine { NormBias::Row } else { NormBias::None },
        },
        accumulate: Accumulate::Moments,
        finish: RowFinish::Elements { prepare: Prepare::Norm, value: RowValue::Norm },
    };
    let (mut rows, _) = rows_of(call, kernel, &[y, x])?;
    rows = rows
        .float(0, *eps)
        .output(SlotName::Y, 0, y)?
        .input(SlotName::X, 1, x)?
        .dense_output(SlotName::Mean, 2, &mean_view)?
        .dense_output(SlotName::Reciprocal, 3, &variance_view)?;
    if *affine {
        rows = rows.dense_input(SlotName::Weight, 0, &views[0])?.dense_input(SlotName::Bias, 1, &views[1])?;
    }
    rows.launch()?;
    mean.finish(gpu, name)?;
    variance.finish(gpu, name)
}

pub(crate) fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BatchNormGrad(BatchNormGrad { eps, affine }) = op else {
        return Err(Error::invalid(call.name, "is not batch_norm_grad"));
    };
    let (gpu, name) = (call.gpu, call.name);
    let (x, dy, dx) = (&call.inputs[0], &call.inputs[3], &call.outputs[0]);
    let mut saved: Vec<Dense<'_>> = Vec::new();
    for input in [Some(1), Some(2), affine.then_some(4)].into_iter().flatten() {
        saved.push(Dense::input(gpu, name, &call.inputs[input])?);
    }
    let channels = x.layout.shape().dim(1);
    let workspace = gpu.alloc(2 * channels * x.dtype.size())?;
    let dparameters = Layout::row_major(Shape::new(&[2, channels])?);
    let dparameters = View { buffer: &workspace, dtype: x.dtype, layout: &dparameters };
    let views: Vec<View<'_>> = saved.iter().map(Dense::view).collect();
    let kernel = RowKernel {
        accumulator: Accumulator::SUMS,
        bases: Bases::Three,
        family: RowFamily::BatchNormGrad {
            weight: if *affine { NormRowWeight::Row } else { NormRowWeight::None },
            grads: if *affine { NormParameterGrads::Channel } else { NormParameterGrads::None },
        },
        accumulate: Accumulate::NormGrad,
        finish: RowFinish::Elements { prepare: Prepare::BatchNormGrad, value: RowValue::BatchNormGrad },
    };
    let (mut rows, length) = rows_of(call, kernel, &[dx, x, dy])?;
    rows = rows
        .float(0, *eps)
        .float(1, 1.0 / length as f64)
        .output(SlotName::Y, 0, dx)?
        .input(SlotName::X, 1, x)?
        .input(SlotName::D, 2, dy)?
        .dense_input(SlotName::Mean, 2, &views[0])?
        .dense_input(SlotName::Reciprocal, 3, &views[1])?;
    if *affine {
        rows = rows.dense_input(SlotName::Weight, 0, &views[2])?.dense_output(
            SlotName::DParameters,
            4,
            &dparameters,
        )?;
    }
    rows.launch()?;
    for (row, grad) in call.outputs[1..].iter().enumerate() {
        let layout = dparameters.layout.slice(0, row, row as isize + 1, 1)?.squeeze(AxisSet::one(0));
        copy(gpu, name, &View { layout: &layout, ..dparameters }, grad)?;
    }
    Ok(())
}
