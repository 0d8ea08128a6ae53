//! The gradient of attention in one walk (`kernels/attention/grad_by_keys.cu`) with its sums in a fixed order, as tensors get it, or in any: what two runs
//! with the same bits cost. For study and measurement, outside the product path: a backward pass never asks for the order here.

use crate::backend::CudaBackend;
use crate::call::Call;
use crate::ops::attention::study_gradient;
use crate::variant::attention::Engine;
use ternion_core::backend::{Meta, View};
use ternion_core::op::Rule;
use ternion_core::ops::attention::{AttentionConfig, AttentionGrad};
use ternion_core::{Error, Result};

pub use crate::ops::attention::SumOrder;

const OP: &str = "attention_study";

/// Whether the backend's device has the kernels' instructions.
pub fn runs(backend: &CudaBackend) -> bool {
    Engine::Wgmma.architectures().contain(backend.gpu.architecture())
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
    if config.mask || config.varlen || config.dropout.is_some() {
        return Err(Error::invalid(OP, "expected no mask, no lengths of sequences and no dropout"));
    }
    check_shapes(config, inputs, outputs)?;
    let gpu = &backend.gpu;
    let (inputs, outputs) = (inputs.map(copied), outputs.map(copied));
    let _guard = gpu.submission_guard();
    gpu.hold(inputs.iter().chain(&outputs).map(|view| view.buffer))?;
    study_gradient(&Call { gpu, name: OP, inputs: &inputs, outputs: &outputs }, config, order)
}

fn copied<'a>(view: &View<'a>) -> View<'a> {
    View { buffer: view.buffer, dtype: view.dtype, layout: view.layout }
}

fn check_shapes(config: &AttentionConfig, inputs: [&View<'_>; 6], outputs: [&View<'_>; 3]) -> Result<()> {
    let metas: [Meta<'_>; 6] = inputs.map(|view| view.meta());
    let expected = AttentionGrad { config: *config }.infer(&metas)?;
    for (name, (view, expected)) in ["dq", "dk", "dv"].into_iter().zip(outputs.into_iter().zip(expected)) {
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
