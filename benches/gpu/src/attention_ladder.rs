//! The attention ladder, beginning with the naive kernels, compared with the attention op
//! (`docs/kernels/attention-ladder.md`). Only for CUDA.

use crate::Case;
use crate::clock::{Calls, Clock, emit_error, emit_with};
use crate::device::{Kind, backend};
use serde_json::json;
use ternion::{AttentionOptions, Causal, DType, Result, Tensor, no_grad};
use ternion_cuda::CudaBackend;
use ternion_cuda::attention_ladder::{self, Mask, Operands, Options, Rung, WIDTHS};

const TOKENS: [usize; 9] = [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/// Milliseconds above which only one call is measured: naive attention of 16,384 tokens takes
/// seconds.
const LIMIT: f64 = 100.0;

/// The maximum bytes of scores that a rung may store; larger cases are omitted.
const MAX_WORKSPACE_BYTES: usize = 16 << 30;

/// Heads of a width with a number of tokens.
#[derive(Clone, Copy)]
struct Sizes {
    tokens: usize,
    width: usize,
    mask: Mask,
}

/// What a case measures: a rung, or `None` for the attention op.
#[derive(Clone, Copy)]
struct CaseSpec {
    dtype: DType,
    rung: Option<Rung>,
    sizes: Sizes,
}

/// Returns a case for every rung, width, mask and number of tokens,
/// `attention_ladder/f32/d64/full/naive/128`, and among them
/// `attention_ladder/f32/d64/full/ternion/128` for the attention op.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        let rungs = Rung::ALL.into_iter().filter(|rung| rung.dtype() == dtype).map(Some).chain([None]);
        let rungs: Vec<_> = rungs.collect();
        for (width, mask) in WIDTHS.into_iter().flat_map(|width| MASKS.map(|mask| (width, mask))) {
            for &rung in &rungs {
                let sizes = TOKENS.map(|tokens| Sizes { tokens, width, mask });
                let specs = sizes.map(|sizes| CaseSpec { dtype, rung, sizes });
                cases.extend(specs.into_iter().filter(CaseSpec::fits).map(CaseSpec::case));
            }
        }
    }
    cases
}

const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];

impl Sizes {
    /// 16,384 tokens in total, or one longer sequence; 2,048 columns of all heads.
    fn batch_and_heads(self) -> [usize; 2] {
        [(16384 / self.tokens).max(1), 2048 / self.width]
    }

    /// Returns the heads of the whole batch.
    fn heads(self) -> usize {
        self.batch_and_heads().iter().product()
    }

    /// Returns the elements of q, of k, of v and of y.
    fn elements(self) -> usize {
        self.heads() * self.tokens * self.width
    }

    /// Returns the multiplications and additions of the unmasked scores.
    fn operations(self) -> f64 {
        4.0 * (self.elements() * self.tokens) as f64 * self.mask.unmasked_fraction()
    }
}

impl CaseSpec {
    fn name(&self) -> String {
        let CaseSpec { dtype, rung, sizes: Sizes { tokens, width, mask } } = self;
        let mask = if *mask == Mask::Causal { "causal" } else { "full" };
        format!("attention_ladder/{dtype}/d{width}/{mask}/{}/{tokens}", rung.map_or("ternion", Rung::name))
    }

    /// Returns the bytes of the workspace.
    fn workspace_bytes(&self) -> usize {
        let elements_of = |rung: Rung| rung.workspace_elements(self.sizes.heads(), self.sizes.tokens);
        4 * self.rung.map_or(0, elements_of)
    }

    fn fits(&self) -> bool {
        self.workspace_bytes() <= MAX_WORKSPACE_BYTES
    }

    fn case(self) -> Case {
        Case::new(self.name(), move |clock, name| match self.rung {
            _ if clock.kind != Kind::Cuda => Ok(()),
            Some(rung) => self.run_rung(clock, name, rung),
            None => self.run_tensors(clock, name),
        })
    }

    fn run_rung(&self, clock: &Clock, name: &str, rung: Rung) -> Result<()> {
        let backend = backend::<CudaBackend>(&clock.device)?;
        if !attention_ladder::runs(backend, rung) {
            emit_error(name, clock.implementation(), &"the device lacks the form's instructions");
            return Ok(());
        }
        let Sizes { tokens, width, mask } = self.sizes;
        let shape = [self.sizes.heads(), tokens, width];
        let random = || clock.randn(&shape, self.dtype);
        let (q, k, v) = (random()?, random()?, random()?);
        let y = Tensor::zeros(shape, self.dtype, &clock.device)?;
        let workspace = match self.workspace_bytes() {
            0 => None,
            bytes => Some(Tensor::zeros([bytes / 4], DType::F32, &clock.device)?),
        };
        let workspace = workspace.as_ref().map(Tensor::view);
        let options = Options { scale: 1.0 / (width as f32).sqrt(), mask };
        let call = || {
            let (q, k, v, y) = (q.view(), k.view(), v.view(), y.view());
            let operands = Operands { q: &q, k: &k, v: &v, y: &y, workspace: workspace.as_ref() };
            attention_ladder::forward(backend, rung, options, operands)
        };
        let (milliseconds, calls) = clock.median_or_one(LIMIT, call)?;
        let global_bytes = rung.global_bytes(self.sizes.heads(), tokens, width, mask);
        let memory = 4 * self.sizes.elements() * self.dtype.size() + self.workspace_bytes();
        let mut extra_fields = vec![("moved_bytes", json!(global_bytes)), ("memory_bytes", json!(memory))];
        if calls == Calls::One {
            extra_fields.push(("calls", json!(1)));
        }
        self.emit(clock, name, milliseconds, extra_fields);
        Ok(())
    }

    fn run_tensors(&self, clock: &Clock, name: &str) -> Result<()> {
        let Sizes { tokens, width, mask } = self.sizes;
        let [batch, heads] = self.sizes.batch_and_heads();
        let random = || clock.randn(&[batch, heads, tokens, width], self.dtype);
        let (q, k, v) = (random()?, random()?, random()?);
        let causal = || Causal::lower_right(mask == Mask::Causal);
        let options = || AttentionOptions { causal: causal(), ..AttentionOptions::default() };
        let attend = || no_grad(|| q.scaled_dot_product_attention(&k, &v, options()).map(drop));
        let (milliseconds, calls) = clock.median_or_one(LIMIT, attend)?;
        let extra_fields = if calls == Calls::One { vec![("calls", json!(1))] } else { Vec::new() };
        self.emit(clock, name, milliseconds, extra_fields);
        Ok(())
    }

    /// Prints TFLOP/s, tokens per second, and the additional values.
    fn emit(
        &self,
        clock: &Clock,
        name: &str,
        milliseconds: f64,
        mut extra_fields: Vec<(&'static str, serde_json::Value)>,
    ) {
        let [batch, _] = self.sizes.batch_and_heads();
        let tokens = (batch * self.sizes.tokens) as f64 / milliseconds * 1e3;
        extra_fields.push(("tokens_per_second", json!(tokens.round())));
        let rate = self.sizes.operations() / milliseconds / 1e9;
        emit_with(name, clock.implementation(), milliseconds, rate, "TFLOP/s", &extra_fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(prefix: &str) -> usize {
        cases().iter().filter(|case| case.name.starts_with(prefix)).count()
    }

    #[test]
    fn every_form_is_measured_at_every_size_that_fits() {
        for name in ["f32/d64/full/online_softmax", "bf16/d128/causal/ping_pong", "f32/d128/full/ternion"] {
            assert_eq!(count(&format!("attention_ladder/{name}/")), TOKENS.len(), "{name}");
        }
        // Scores of 16 heads and 16,384 tokens are 16 GiB, those of 32 heads twice as many.
        assert_eq!(count("attention_ladder/f32/d128/causal/naive/"), 8);
        assert_eq!(count("attention_ladder/f32/d64/full/tiled/"), 7);
    }

    #[test]
    fn operations_are_those_of_two_products() {
        let sizes = Sizes { tokens: 16384, width: 128, mask: Mask::Full };
        assert_eq!(sizes.operations(), 4.0 * 16.0 * 16384f64.powi(2) * 128.0);
        let causal = Sizes { mask: Mask::Causal, ..sizes };
        assert_eq!(causal.operations(), sizes.operations() / 2.0);
        assert_eq!(Sizes { tokens: 32768, ..sizes }.batch_and_heads(), [1, 16]);
        assert_eq!(Sizes { tokens: 128, width: 64, ..sizes }.batch_and_heads(), [128, 32]);
    }
}
