//! Attention with kernels chosen by the caller, for study and measurement only. The forward TMA
//! kernel (`kernels/attention/forward_tma.cu`) runs with its tiles for few or for many keys, to
//! measure which are faster. The gradient in one pass (`kernels/attention/grad_by_keys.cu`) adds
//! its partial sums in a fixed order, as the op does, or in any order, to measure the cost of
//! bit-identical runs.

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

/// Returns whether the backend's device has the kernels' instructions.
pub fn runs(backend: &CudaBackend) -> bool {
    Engine::Wgmma.architectures().contain(backend.gpu.architecture())
}

/// Queues attention with tiles chosen by the caller. It reads q, k and v, as for [`Attention`], and
/// writes y and the log-sum-exp with that op's shapes and dtypes.
///
/// # Errors
/// [`Attention`] rejects the inputs; the results have other shapes or dtypes; the config has a
/// mask, dropout or sequences of different lengths; the dtype is not f16 or bf16; heads have fewer
/// than 33 columns or more than 256; the width does not have these tiles; there are too few queries
/// for a TMA kernel; operands are broadcast along an axis, or their rows are not whole packs of 16
/// bytes; or the compute capability of the device is not 9.0.
pub fn forward(
    backend: &CudaBackend,
    config: &AttentionConfig,
    tiles: ForwardTiles,
    inputs: [&View<'_>; 3],
    outputs: [&View<'_>; 2],
) -> Result<()> {
    check(config, &Attention { config: *config }, inputs, ["y", "lse"].into_iter().zip(outputs))?;
    run(backend, &inputs, &outputs, |call| study_forward(call, config, tiles))
}

/// Queues the gradient of attention. It reads q, k, v, y, the log-sum-exp and dy, as for
/// [`AttentionGrad`], and writes dq, dk and dv with the shapes and the dtype of q, k and v.
///
/// # Errors
/// [`AttentionGrad`] rejects the inputs; the results have other shapes or dtypes; the config has a
/// mask, dropout or sequences of different lengths; the dtype is not f16 or bf16; heads have fewer
/// than 33 columns or more than 128; a query attends to no key; operands are broadcast along an
/// axis, or their rows are not whole packs of 16 bytes; or the compute capability of the device is
/// not 9.0.
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

/// Retains the tensors' memory and queues the kernels.
fn run(
    backend: &CudaBackend,
    inputs: &[&View<'_>],
    outputs: &[&View<'_>],
    launch: impl FnOnce(&Call<'_>) -> Result<()>,
) -> Result<()> {
    let gpu = &backend.gpu;
    let [inputs, outputs] =
        [inputs, outputs].map(|views| views.iter().map(|view| copy_view(view)).collect::<Vec<_>>());
    let _guard = gpu.submission_guard();
    gpu.retain(inputs.iter().chain(&outputs).map(|view| view.buffer))?;
    launch(&Call { gpu, name: OP, inputs: &inputs, outputs: &outputs })
}

fn copy_view<'a>(view: &View<'a>) -> View<'a> {
    View { buffer: view.buffer, dtype: view.dtype, layout: view.layout }
}

/// Checks that the configuration uses nothing that these kernels lack, that the op accepts the
/// inputs, and that the results have its shapes and dtypes.
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
