//! The cost of a fixed order of sums in the gradient of attention: the kernel that the op uses, and
//! a variant for measurement that adds in any order (`docs/kernels/attention.md`). Only for CUDA.

use crate::Case;
use crate::attention::CaseSpec;
use crate::clock::{Clock, emit, emit_error, emit_with};
use crate::device::{Kind, backend};
use serde_json::json;
use ternion::{DType, Result, Tensor};
use ternion_core::dispatch::apply;
use ternion_core::ops::attention::Attention;
use ternion_cuda::CudaBackend;
use ternion_cuda::attention_study::{self, SumOrder};

/// Returns backward cases at the widths of the unordered variant, `order/bf16/d64/t4096/causal`.
/// Otherwise they are like the cases of attention.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for head_dim in [64, 128] {
        for tokens in [512, 1024, 4096, 16384] {
            for causal in [false, true] {
                let spec = CaseSpec::plain(head_dim, tokens, causal, true);
                cases.push(Case::new(spec.name_in("order"), move |clock, name| run(clock, name, spec)));
            }
        }
    }
    cases
}

/// Prints the fixed order as `ternion`, and any order as `ternion/unordered`: the faster of its
/// variants with and without lag, with the milliseconds of both.
fn run(clock: &Clock, name: &str, spec: CaseSpec) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let backend = backend::<CudaBackend>(&clock.device)?;
    let unordered = format!("{}/unordered", clock.implementation());
    if !attention_study::runs(backend) {
        emit_error(name, clock.implementation(), &"the device lacks the kernels' instructions");
        return Ok(());
    }
    let operands = Operands::new(clock, spec)?;
    let time = |order| clock.median(|| operands.gradient(backend, spec, order));
    let fixed = time(SumOrder::Fixed)?;
    let [at_once, lagging] = [time(SumOrder::Any { lags: false })?, time(SumOrder::Any { lags: true })?];
    emit(name, clock.implementation(), fixed, spec.operations() / fixed / 1e9, "TFLOP/s");
    let fastest = at_once.min(lagging);
    let extra_fields = [("at_once_ms", json!(at_once)), ("lagging_ms", json!(lagging))];
    emit_with(name, &unordered, fastest, spec.operations() / fastest / 1e9, "TFLOP/s", &extra_fields);
    Ok(())
}

/// q, k, v, y, the log-sum-exp and dy, and the outputs dq, dk and dv.
struct Operands {
    inputs: [Tensor; 6],
    outputs: [Tensor; 3],
}

impl Operands {
    fn new(clock: &Clock, spec: CaseSpec) -> Result<Operands> {
        let random = || clock.randn(&spec.shape(), DType::BF16);
        let empty = || Tensor::zeros(spec.shape(), DType::BF16, &clock.device);
        let (q, k, v) = (random()?, random()?, random()?);
        let results = apply(Attention { config: spec.config() }, &[&q, &k, &v])?;
        let (y, lse) = (results[0].clone(), results[1].clone());
        Ok(Operands { inputs: [q, k, v, y, lse, random()?], outputs: [empty()?, empty()?, empty()?] })
    }

    fn gradient(&self, backend: &CudaBackend, spec: CaseSpec, order: SumOrder) -> Result<()> {
        let (inputs, outputs) =
            (self.inputs.each_ref().map(Tensor::view), self.outputs.each_ref().map(Tensor::view));
        attention_study::gradient(backend, &spec.config(), order, inputs.each_ref(), outputs.each_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_operations_are_those_of_attention() {
        let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
        assert_eq!(names.len(), 16);
        assert!(names.contains(&"order/bf16/d128/t16384/causal".to_string()), "{names:?}");
        let spec = CaseSpec::plain(64, 4096, true, true);
        // 4 of 4 * 32 * 4096^2 * 64 forward, half of it masked, two and a half times as many
        // backward.
        assert_eq!(spec.operations(), 4.0 * 128.0 * 4096.0 * 4096.0 * 64.0 * 0.5 * 2.5);
    }
}
