//! The gradient in one walk by an order of the caller's choice, for [`crate::attention_study`].

use super::{Dropping, Gradients, Operand, Operands, Plan, SumOrder};
use crate::call::Call;
use ternion_core::backend::View;
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{Error, Result};

/// Queues the kernels. Inputs are q, k, v, y, the log-sum-exp and dy, outputs dq, dk and dv, in shapes and dtypes that core has checked; the
/// configuration has no mask, dropout or lengths.
pub(crate) fn gradient(call: &Call<'_>, config: &AttentionConfig, order: SumOrder) -> Result<()> {
    let plan = Plan::new(call, true, config, None)?;
    let operands = Operands { gpu: call.gpu, op: call.name, copies: Vec::new() };
    let plain = |name: &str, view: &View<'_>| match operands.is_aligned(view)? {
        true => operands.plain(view),
        false => Err(Error::invalid(
            call.name,
            format!(
                "expected {name} with rows of whole packs of 16 bytes, got strides {:?}",
                view.layout.strides()
            ),
        )),
    };
    let [q, k, v, y, log_sums, dy] = [0, 1, 2, 3, 4, 5].map(|at| &call.inputs[at]);
    let [dq, dk, dv] = [0, 1, 2].map(|at| &call.outputs[at]);
    let gradients = Gradients {
        q: plain("q", q)?,
        k: plain("k", k)?,
        v: plain("v", v)?,
        y: plain("y", y)?,
        dy: plain("dy", dy)?,
        mask: Operand::default(),
        log_sums: operands.plain_strides(log_sums)?,
        dq: plain("dq", dq)?,
        dk: plain("dk", dk)?,
        dv: plain("dv", dv)?,
    };
    let dropping = Dropping::of(call, config)?;
    if !plan.is_by_keys(&gradients, &dropping) {
        const EXPECTED: &str = "expected f16 or bf16 on a device of compute capability 9.0, heads of 33 to 128 columns, \
             queries that each see a key, and no repeated axis";
        return Err(Error::invalid(call.name, EXPECTED));
    }
    plan.launch_by_keys(call, q.dtype, &gradients, dropping, order)
}
