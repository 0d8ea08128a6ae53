//! Cross-entropy and its gradient.

use crate::call::{Call, Selected};
use crate::operands::Operands;
use crate::rows::{RowKernel, RowLayout, RowRequest};
use crate::submit::errors::IndexErrors;
use crate::variant::loss::{LossVariant, grad_teams, teams};
use crate::variant::rows::Rows;
use ternion_core::backend::{Meta, Unsupported};
use ternion_core::{DType, Error, Layout, Op, Result};

/// Blocks per multiprocessor of the kernel that updates a gradient where dloss differs from the
/// predicted one: enough to compute it again, and few enough to end quickly if nothing differs.
const UPDATE_BLOCKS_EACH: usize = 4;

/// The parameters; mirrors `CrossEntropy` in the kernels.
#[repr(C)]
struct Parameters {
    dx: u64,
    loss: u64,
    /// The log-sum-exp of each row.
    log_sum: u64,
    /// The logits.
    x: u64,
    target: u64,
    dloss: u64,
    /// Only in the update: the dloss that dx was computed for.
    predicted_dloss: u64,
    /// The address of the record of a target out of range (see [`IndexErrors`]).
    fault: u64,
    /// What is recorded with such a target.
    site: u64,
    rows: u64,
    dx_stride: i64,
    x_stride: i64,
    dloss_stride: i64,
    predicted_stride: i64,
    ignore_index: i64,
    /// The weight of the target's log-probability, in addition to that of every class:
    /// 1 - smoothing.
    target_weight: f64,
    /// The weight of the log-probability of every class: smoothing / columns.
    class_weight: f64,
    columns: u32,
    target_is_long: u32,
}

/// Returns the parameters that the op and its gradient have in common; `x` are the logits.
fn parameters(
    call: &Call<'_>,
    x: RowLayout,
    target: u64,
    ignore_index: i64,
    smoothing: f64,
) -> Result<Parameters> {
    let [rows, columns] = call.inputs[0].layout.shape().to_array(call.name)?;
    super::check_fits_rows(call.name, columns)?;
    Ok(Parameters {
        dx: 0,
        loss: 0,
        log_sum: 0,
        x: x.address,
        target,
        dloss: 0,
        predicted_dloss: 0,
        fault: call.gpu.index_errors.address,
        site: IndexErrors::site(call.name, columns),
        rows: rows as u64,
        dx_stride: 0,
        x_stride: x.stride,
        dloss_stride: 0,
        predicted_stride: 0,
        ignore_index,
        target_weight: 1.0 - smoothing,
        class_weight: smoothing / columns.max(1) as f64,
        columns: columns as u32,
        target_is_long: u32::from(call.inputs[1].dtype == DType::I64),
    })
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CrossEntropy(payload) = op else { return Err(Error::invalid(call.name, "is not cross_entropy")) };
    let (gpu, dtype) = (call.gpu, call.inputs[0].dtype);
    let smoothed = payload.label_smoothing != 0.0;
    let mut operands = Operands::new(call);
    let (x, target) = (operands.input_rows(0, 1)?, operands.dense_input(1)?);
    let parameters = Parameters {
        loss: operands.dense_output(0)?,
        log_sum: operands.dense_output(1)?,
        ..parameters(call, x, target, payload.ignore_index, payload.label_smoothing)?
    };
    let columns = parameters.columns as usize;
    let request = RowRequest { dtype, columns, layouts: &[x], max_shared_memory: gpu.max_shared_memory() };
    let row_kernel = Rows::choose(&request, |packing| teams(smoothed, dtype, packing), |_, _| 0)?;
    let variant = LossVariant::Forward { smoothed, rows: row_kernel.rows, dtype };
    gpu.launch(call.name, row_kernel.launch(call.name, variant, 0, parameters.rows as usize)?, &parameters)?;
    operands.finish()
}

/// Returns the kernel for rows of logits and of their gradient, in ops that access both.
fn grad_row_kernel(call: &Call<'_>, x: RowLayout, dx: RowLayout) -> Result<RowKernel> {
    let (dtype, layout) = (call.inputs[0].dtype, call.inputs[0].layout);
    let columns = layout.shape().dim(1);
    let request =
        RowRequest { dtype, columns, layouts: &[x, dx], max_shared_memory: call.gpu.max_shared_memory() };
    Rows::choose(
        &request,
        |packing| grad_teams(dtype, packing),
        |rows, packs| rows.stored_bytes(dtype, packs, 1),
    )
}

pub(crate) fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CrossEntropyGrad(payload) = op else {
        return Err(Error::invalid(call.name, "is not cross_entropy_grad"));
    };
    let mut operands = Operands::new(call);
    let (x, target) = (operands.input_rows(0, 1)?, operands.dense_input(1)?);
    let dx = operands.output_rows(0, 1)?;
    let (dloss, dloss_stride) = operands.input(3, |layout| Some(layout.strides()[0] as i64))?;
    let parameters = Parameters {
        dx: dx.address,
        log_sum: operands.dense_input(2)?,
        dloss,
        dx_stride: dx.stride,
        dloss_stride,
        ..parameters(call, x, target, payload.ignore_index, payload.label_smoothing)?
    };
    let row_kernel = grad_row_kernel(call, x, dx)?;
    let variant = LossVariant::Grad { rows: row_kernel.rows, dtype: call.inputs[0].dtype };
    call.gpu.launch(
        call.name,
        row_kernel.launch(call.name, variant, 0, parameters.rows as usize)?,
        &parameters,
    )?;
    operands.finish()
}

pub(crate) fn run_with_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CrossEntropyWithGrad(payload) = op else {
        return Err(Error::invalid(call.name, "is not cross_entropy_with_grad"));
    };
    let mut operands = Operands::new(call);
    let (x, target) = (operands.input_rows(0, 1)?, operands.dense_input(1)?);
    let (dloss, dloss_stride) = operands.input(2, |layout| Some(layout.strides()[0] as i64))?;
    let dx = operands.output_rows(2, 1)?;
    let parameters = Parameters {
        dx: dx.address,
        loss: operands.dense_output(0)?,
        log_sum: operands.dense_output(1)?,
        dloss,
        dx_stride: dx.stride,
        dloss_stride,
        ..parameters(call, x, target, payload.ignore_index, payload.label_smoothing)?
    };
    let smoothed = payload.label_smoothing != 0.0;
    let row_kernel = grad_row_kernel(call, x, dx)?;
    let variant = LossVariant::WithGrad { smoothed, rows: row_kernel.rows, dtype: call.inputs[0].dtype };
    call.gpu.launch(
        call.name,
        row_kernel.launch(call.name, variant, 0, parameters.rows as usize)?,
        &parameters,
    )?;
    operands.finish()
}

/// The gradient that is changed in place must be contiguous.
pub(crate) fn select_update(inputs: &[Meta<'_>]) -> Result<Selected, Unsupported> {
    match inputs[5].layout.is_contiguous() {
        true => Ok(Selected::row_major(run_update)),
        false => Err(Unsupported::because("the gradient to be changed is not row-major")),
    }
}

fn run_update(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CrossEntropyGradUpdate(payload) = op else {
        return Err(Error::invalid(call.name, "is not cross_entropy_grad_update"));
    };
    let mut operands = Operands::new(call);
    let (x, target) = (operands.input_rows(0, 1)?, operands.dense_input(1)?);
    let dx = operands.output_rows(0, 1)?;
    let stride = |layout: &Layout| Some(layout.strides()[0] as i64);
    let (dloss, dloss_stride) = operands.input(3, stride)?;
    let (predicted_dloss, predicted_stride) = operands.input(4, stride)?;
    let parameters = Parameters {
        dx: dx.address,
        log_sum: operands.dense_input(2)?,
        dloss,
        predicted_dloss,
        dx_stride: dx.stride,
        dloss_stride,
        predicted_stride,
        ..parameters(call, x, target, payload.ignore_index, payload.label_smoothing)?
    };
    let row_kernel = grad_row_kernel(call, x, dx)?;
    let variant = LossVariant::GradUpdate { rows: row_kernel.rows, dtype: call.inputs[0].dtype };
    let mut launch = row_kernel.launch(call.name, variant, 0, parameters.rows as usize)?;
    launch.grid[0] = launch.grid[0].min((call.gpu.multiprocessors() * UPDATE_BLOCKS_EACH) as u32);
    call.gpu.launch(call.name, launch, &parameters)?;
    operands.finish()
}
