//! f32 attention with each way to compute its products: fused multiply-adds; bf16x6, which is as
//! accurate; and TF32, which is not. The times decide which one f32 uses
//! (`docs/kernels/attention.md`). Only for CUDA.

use crate::Case;
use crate::attention::{CaseSpec, time};
use crate::clock::{Clock, emit_with};
use crate::device::Kind;
use serde_json::json;
use ternion::{AttentionOptions, Causal, DType, Precision, Result, with_precision};
use ternion_cuda::with_attention_bf16x6;

/// Returns the cases, `f32_products/fwd/d64/t512/causal`.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for head_dim in [32, 64, 128] {
        for tokens in [512, 4096] {
            for causal in [false, true] {
                for backward in [false, true] {
                    let spec =
                        CaseSpec { dtype: DType::F32, ..CaseSpec::plain(head_dim, tokens, causal, backward) };
                    cases.push(Case::new(name(spec), move |clock, name| run(clock, name, spec)));
                }
            }
        }
    }
    cases
}

fn name(CaseSpec { head_dim, tokens, causal, backward, .. }: CaseSpec) -> String {
    let pass = if backward { "bwd" } else { "fwd" };
    format!("f32_products/{pass}/d{head_dim}/t{tokens}/{}", if causal { "causal" } else { "full" })
}

/// Prints the time of the op as `ternion`, with the milliseconds of each way to compute the
/// products.
fn run(clock: &Clock, name: &str, spec: CaseSpec) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let random = || clock.randn(&spec.shape(), spec.dtype)?.requires_grad();
    let inputs = [random()?, random()?, random()?];
    let [q, k, v] = &inputs;
    let options =
        || AttentionOptions { causal: Causal::lower_right(spec.causal), ..AttentionOptions::default() };
    let attend = || Ok(vec![q.scaled_dot_product_attention(k, v, options())?]);
    let measure = || time(clock, spec, &inputs, &attend);
    let default_time = with_precision(Precision::F32, measure)?;
    // bf16x6 is not allowed with this precision.
    let fma = with_precision(Precision::Ieee, measure)?;
    let bf16x6 = with_attention_bf16x6(|| with_precision(Precision::F32, measure))?;
    let tf32 = with_precision(Precision::Tf32, measure)?;
    emit_with(
        name,
        clock.implementation(),
        default_time,
        spec.operations() / default_time / 1e9,
        "TFLOP/s",
        &[("fused_ms", json!(fma)), ("parts_ms", json!(bf16x6)), ("tf32_ms", json!(tf32))],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_of_both_passes() {
        let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
        assert_eq!(names.len(), 24);
        assert!(names.contains(&"f32_products/bwd/d128/t4096/causal".to_string()), "{names:?}");
    }
}
