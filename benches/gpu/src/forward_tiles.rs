//! Attention's TMA forward kernel with its tiles for few and for many keys, at the widths that have
//! both, to decide which one a size should use (`docs/kernels/attention.md`). Only for CUDA.

use crate::Case;
use crate::attention::CaseSpec;
use crate::clock::{Clock, emit_error, emit_with};
use crate::device::{Kind, backend};
use serde_json::json;
use ternion::{AttentionOptions, Causal, DType, Result, Tensor, no_grad};
use ternion_cuda::CudaBackend;
use ternion_cuda::attention_study::{self, ForwardTiles};

/// Returns the cases, `forward_tiles/bf16/d64/t512/causal`.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for head_dim in [64, 192] {
        for tokens in [512, 1024, 2048, 4096, 16384] {
            for causal in [false, true] {
                let spec = CaseSpec::plain(head_dim, tokens, causal, false);
                cases.push(Case::new(spec.name_in("forward_tiles"), move |clock, name| {
                    run(clock, name, spec)
                }));
            }
        }
    }
    cases
}

/// Prints the time of the op as `ternion`, with the milliseconds of the tiles for few and for many
/// keys.
fn run(clock: &Clock, name: &str, spec: CaseSpec) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let backend = backend::<CudaBackend>(&clock.device)?;
    if !attention_study::runs(backend) {
        emit_error(name, clock.implementation(), &"the device lacks the kernels' instructions");
        return Ok(());
    }
    let operands = Operands::new(clock, spec)?;
    let [few, many] = [ForwardTiles::Few, ForwardTiles::Many]
        .map(|tiles| clock.median(|| operands.forward(backend, tiles)));
    let op_time_ms = clock.median(|| operands.run_op())?;
    let more = [("few_ms", json!(few?)), ("many_ms", json!(many?))];
    emit_with(
        name,
        clock.implementation(),
        op_time_ms,
        spec.operations() / op_time_ms / 1e9,
        "TFLOP/s",
        &more,
    );
    Ok(())
}

/// q, k and v, and the outputs y and log-sum-exp.
struct Operands {
    spec: CaseSpec,
    inputs: [Tensor; 3],
    outputs: [Tensor; 2],
}

impl Operands {
    fn new(clock: &Clock, spec: CaseSpec) -> Result<Operands> {
        let shape = spec.shape();
        let random = || clock.randn(&shape, DType::BF16);
        let empty = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &clock.device);
        Ok(Operands {
            spec,
            inputs: [random()?, random()?, random()?],
            outputs: [empty(&shape, DType::BF16)?, empty(&shape[..3], DType::F32)?],
        })
    }

    fn forward(&self, backend: &CudaBackend, tiles: ForwardTiles) -> Result<()> {
        let (inputs, outputs) =
            (self.inputs.each_ref().map(Tensor::view), self.outputs.each_ref().map(Tensor::view));
        attention_study::forward(backend, &self.spec.config(), tiles, inputs.each_ref(), outputs.each_ref())
    }

    fn run_op(&self) -> Result<()> {
        let [q, k, v] = &self.inputs;
        let causal = Causal::lower_right(self.spec.causal);
        let options = AttentionOptions { causal, ..AttentionOptions::default() };
        no_grad(|| q.scaled_dot_product_attention(k, v, options)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_operations_are_those_of_attention() {
        let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
        assert_eq!(names.len(), 20);
        assert!(names.contains(&"forward_tiles/bf16/d192/t2048/full".to_string()), "{names:?}");
        let spec = CaseSpec::plain(192, 4096, true, false);
        // Four sequences of ten heads, half of the scores masked.
        assert_eq!(spec.operations(), 4.0 * 40.0 * 4096.0 * 4096.0 * 192.0 * 0.5);
    }
}
