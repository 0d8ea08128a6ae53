//! Forward by TMA with tiles chosen by the caller, and the gradient in one pass with an order
//! chosen by the caller, for [`crate::attention_study`].

use super::{
    BackwardTensors, DropoutParams, Forward, KvSplitParams, Operand, Operands, Plan, SumOrder, Varlen,
};
use crate::call::Call;
use crate::variant::attention::{GRAD_BY_KEYS_UNORDERED_WIDTHS, forward_tma_long};
use ternion_core::backend::View;
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{Error, Result};

/// The tiles of forward by TMA, for a width that has separate tiles for few and for many keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForwardTiles {
    /// The tiles for few keys or queries.
    Few,
    /// The tiles for many keys and queries.
    Many,
}

/// Returns an operand that kernels can read without a copy, or an error.
fn aligned_operand(operands: &Operands<'_>, name: &str, view: &View<'_>) -> Result<Operand> {
    match operands.is_aligned(view)? {
        true => operands.operand(view),
        false => Err(Error::invalid(
            operands.op,
            format!(
                "expected {name} with rows of whole packs of 16 bytes, got strides {:?}",
                view.layout.strides()
            ),
        )),
    }
}

/// Queues the kernel. Inputs are q, k and v, outputs y and the log-sum-exp, in shapes and dtypes
/// that core has checked. The configuration has no mask, dropout or lengths.
pub(crate) fn forward(call: &Call<'_>, config: &AttentionConfig, tiles: ForwardTiles) -> Result<()> {
    let plan = Plan::new(call, false, config, None)?;
    let operands = Operands { gpu: call.gpu, op: call.name, copies: Vec::new() };
    let [q, k, v] = [0, 1, 2].map(|index| &call.inputs[index]);
    let tensors = Forward {
        q: aligned_operand(&operands, "q", q)?,
        k: aligned_operand(&operands, "k", k)?,
        v: aligned_operand(&operands, "v", v)?,
        mask: Operand::default(),
        y: aligned_operand(&operands, "y", &call.outputs[0])?,
        lse: call.gpu.address(call.name, &call.outputs[1])?,
        lse_errors: 0,
        blocks: 0,
        sizes: plan.sizes,
        dropout_params: DropoutParams::of(call, config)?,
        varlen: Varlen::default(),
        kv_split_params: KvSplitParams::default(),
    };
    let has_tiles =
        tiles == ForwardTiles::Few || forward_tma_long(plan.width(), plan.kernel_config.mask_mode).is_some();
    if !has_tiles || !plan.uses_tma(&tensors, call.gpu.multiprocessors()) {
        const EXPECTED: &str = "expected f16 or bf16 on a device of compute capability 9.0, heads of more than 32 columns (tiles for many \
             keys: 33 to 64 or 129 to 192), more than 64 queries and more tiles of 64 of them than multiprocessors, and no repeated axis";
        return Err(Error::invalid(call.name, EXPECTED));
    }
    plan.launch_tma(call, q.dtype, &tensors, tiles == ForwardTiles::Many)
}

/// Queues the kernels. Inputs are q, k, v, y, the log-sum-exp and dy, outputs dq, dk and dv, in
/// shapes and dtypes that core has checked. The configuration has no mask, dropout or lengths.
pub(crate) fn gradient(call: &Call<'_>, config: &AttentionConfig, order: SumOrder) -> Result<()> {
    let plan = Plan::new(call, true, config, None)?;
    let operands = Operands { gpu: call.gpu, op: call.name, copies: Vec::new() };
    let operand = |name: &str, view: &View<'_>| aligned_operand(&operands, name, view);
    let [q, k, v, y, lse, dy] = [0, 1, 2, 3, 4, 5].map(|index| &call.inputs[index]);
    let [dq, dk, dv] = [0, 1, 2].map(|index| &call.outputs[index]);
    let tensors = BackwardTensors {
        q: operand("q", q)?,
        k: operand("k", k)?,
        v: operand("v", v)?,
        y: operand("y", y)?,
        dy: operand("dy", dy)?,
        mask: Operand::default(),
        lse: operands.operand_with_strides(lse)?,
        dq: operand("dq", dq)?,
        dk: operand("dk", dk)?,
        dv: operand("dv", dv)?,
    };
    let dropout_params = DropoutParams::of(call, config)?;
    let has_variant =
        GRAD_BY_KEYS_UNORDERED_WIDTHS.iter().any(|&width| usize::from(width) == plan.one_pass_width());
    if !has_variant || !plan.uses_one_pass(&tensors, &dropout_params) {
        const EXPECTED: &str = "expected f16 or bf16 on a device of compute capability 9.0, heads of 33 to 128 columns, \
             queries that each attend to a key, and no repeated axis";
        return Err(Error::invalid(call.name, EXPECTED));
    }
    plan.launch_one_pass(call, q.dtype, &tensors, dropout_params, order)
}
