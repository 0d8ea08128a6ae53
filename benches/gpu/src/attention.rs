//! Attention, forward and backward.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::{AttentionOptions, DType, GradOptions, Result, Tensor, grad, no_grad};

/// 16,384 tokens of width 2,048, as in the PyTorch script.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for head_dim in [64, 128] {
        for tokens in [512, 1024, 4096, 16384] {
            for causal in [false, true] {
                for backward in [false, true] {
                    let pass = if backward { "bwd" } else { "fwd" };
                    let mask = if causal { "causal" } else { "full" };
                    let name = format!("attention/{pass}/bf16/d{head_dim}/t{tokens}/{mask}");
                    cases.push(Case::new(name, move |clock, name| {
                        run(clock, name, head_dim, tokens, causal, backward)
                    }));
                }
            }
        }
    }
    cases
}

fn run(
    clock: &Clock,
    name: &str,
    head_dim: usize,
    tokens: usize,
    causal: bool,
    backward: bool,
) -> Result<()> {
    let (batch, heads) = (16384 / tokens, 2048 / head_dim);
    let random = || clock.randn(&[batch, heads, tokens, head_dim], DType::BF16)?.requires_grad();
    let (q, k, v) = (random()?, random()?, random()?);
    let options = || AttentionOptions { causal, ..AttentionOptions::default() };
    let attend = || q.scaled_dot_product_attention(&k, &v, options());
    let mut operations = 4.0 * (batch * heads * tokens * tokens * head_dim) as f64;
    if causal {
        operations *= 0.5;
    }
    let milliseconds = if backward {
        operations *= 2.5;
        let y = attend()?;
        let dy = Tensor::randn(*y.shape(), y.dtype(), &clock.device)?;
        let retain = || GradOptions { retain_graph: true, ..GradOptions::default() };
        clock.median(|| {
            grad(&[y.clone()], &[q.clone(), k.clone(), v.clone()], &[dy.clone()], retain()).map(drop)
        })?
    } else {
        clock.median(|| no_grad(|| attend().map(drop)))?
    };
    emit(name, "ternion", milliseconds, operations / milliseconds / 1e9, "TFLOP/s");
    Ok(())
}
