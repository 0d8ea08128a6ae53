//! Attention by a form of the caller's choice, for study and measurement, outside the product path. Forward by TMA (`kernels/attention/forward_tma.cu`)
//! with its tiles for few or for many keys: which are faster. The gradient in one walk (`kernels/attention/grad_by_keys.cu`) with its sums in a fixed
//! order, as tensors get it, or in any: what two runs with the same bits cost.

use crate::backend::CudaBackend;
use crate::call::Call;
use crate::ops::attention::{study_forward, study_gradient};
use crate::variant::attention::Engine;
use ternion_core::backend::{Meta, View};
use ternion_core::op::Rule;
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::{Error, Result};

pub use crate::ops::attention::{ForwardTiles, SumOrder, with_resident_blocks};

const OP: &str = "attention_study";

/// Whether the backend's device has the kernels' instructions.
pub fn runs(backend: &CudaBackend) -> bool {
    Engine::Wgmma.architectures().contain(backend.gpu.architecture())
}

/// Queues attention with tiles of the caller's choice: of q, k and v, as [`Attention`] takes them, into y and the log-sum-exp of its shapes and dtypes.
///
/// # Errors
/// What [`Attention`] does not take; results of other shapes or dtypes; a mask, dropout or sequences of different lengths; dtypes other than f16 and
/// bf16, heads of less than 33 columns or more than 256, tiles that the width does not have, too few queries for a kernel by TMA, operands that are
/// repeated along an axis or whose rows are not whole packs of 16 bytes; a device of another compute capability than 9.0.
pub fn forward(
    backend: &CudaBackend,
    config: &AttentionConfig,
    tiles: ForwardTiles,
    inputs: [&View<'_>; 3],
    outputs: [&View<'_>; 2],
) -> Result<()> {
    check(config, &Attention { config: *config }, inputs, ["y", "log_sums"].into_iter().zip(outputs))?;
    run(backend, &inputs, &outputs, |call| study_forward(call, config, tiles))
}

/// Queues the gradient of attention: of q, k, v, y, the log-sum-exp and dy, as [`AttentionGrad`] takes them, into dq, dk and dv of the shapes and the dtype
/// of q, k and v.
///
/// # Errors
/// What [`AttentionGrad`] does not take; results of other shapes or dtypes; a mask, dropout or sequences of different lengths; dtypes other than f16 and
/// bf16, heads of less than 33 columns or more than 128, queries that see no key, operands that are repeated along an axis or whose rows are not whole
/// packs of 16 bytes; a device of another compute capability than 9.0.
pub fn gradient(
    backend: &CudaBackend,
    config: &AttentionConfig,
    order: SumOrder,
    inputs: [&View<'_>; 6],
    outputs: [&View<'_>; 3],
) -> Result<()> {
    check(config, &AttentionGrad { config: *config }, inputs, ["dq", "dk", "dv"].into_iter().zip(outputs))?;
    run(backend, &inputs, &outputs, |call| study_gradient(call, config, order))
}

/// Holds the tensors' memory and has the kernels queued.
fn run(
    backend: &CudaBackend,
    inputs: &[&View<'_>],
    outputs: &[&View<'_>],
    launch: impl FnOnce(&Call<'_>) -> Result<()>,
) -> Result<()> {
    let gpu = &backend.gpu;
    let [inputs, outputs] =
        [inputs, outputs].map(|views| views.iter().map(|view| copied(view)).collect::<Vec<_>>());
    let _guard = gpu.submission_guard();
    gpu.hold(inputs.iter().chain(&outputs).map(|view| view.buffer))?;
    launch(&Call { gpu, name: OP, inputs: &inputs, outputs: &outputs })
}

fn copied<'a>(view: &View<'a>) -> View<'a> {
    View { buffer: view.buffer, dtype: view.dtype, layout: view.layout }
}

/// That the configuration has nothing that the forms lack, that the op takes the inputs, and that results are what it gives.
fn check<'a, const N: usize>(
    config: &AttentionConfig,
    op: &impl Rule,
    inputs: [&View<'_>; N],
    results: impl Iterator<Item = (&'static str, &'a View<'a>)>,
) -> Result<()> {
    if config.mask || config.varlen || config.dropout.is_some() {
        return Err(Error::invalid(OP, "expected no mask, no lengths of sequences and no dropout"));
    }
    let metas: [Meta<'_>; N] = inputs.map(|view| view.meta());
    for ((name, view), expected) in results.zip(op.infer(&metas)?) {
        if view.dtype != expected.dtype || *view.layout.shape() != expected.shape {
            return Err(Error::invalid(
                OP,
                format!(
                    "expected {name} of {} and shape {:?}, got {} and {:?}",
                    expected.dtype,
                    expected.shape.dims(),
                    view.dtype,
                    view.layout.shape().dims()
                ),
            ));
        }
    }
    Ok(())
}
