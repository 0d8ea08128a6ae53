//! Attention, forward and backward; on wgpu also core's composition, and a composition written by
//! hand.

use crate::Case;
use crate::clock::{Clock, emit, emit_error};
use crate::composed::{Composed, Composer};
use crate::device::Kind;
use ternion::{
    AttentionOptions, Causal, CumulativeLengths, DType, GradOptions, Result, Tensor, grad, no_grad,
};
use ternion_core::ops::attention::AttentionConfig;

/// 16,384 tokens of width 2,048, as in the PyTorch script; two lengths for wide heads and for f32,
/// which that script omits.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, lengths) in [(DType::BF16, &[512, 1024, 4096, 16384][..]), (DType::F32, &[512, 4096])] {
        for head_dim in [64, 128, 256] {
            for &tokens in lengths {
                if head_dim > 128 && (dtype == DType::F32 || [512, 16384].contains(&tokens)) {
                    continue;
                }
                for causal in [false, true] {
                    for backward in [false, true] {
                        cases.push(CaseSpec { dtype, head_dim, tokens, causal, backward, dropout: 0.0 });
                        if causal && dtype == DType::BF16 && [1024, 4096].contains(&tokens) {
                            cases.push(CaseSpec {
                                dtype,
                                head_dim,
                                tokens,
                                causal,
                                backward,
                                dropout: DROPOUT,
                            });
                        }
                    }
                }
            }
        }
    }
    let case = |spec: CaseSpec| Case::new(spec.name(), move |clock, name| run(clock, name, spec));
    cases.into_iter().map(case).chain(varlen_cases()).chain(decode_cases()).chain(biased_cases()).collect()
}

/// Batch, heads, key heads, queries, keys: a step of generation with grouped queries, one with as
/// many key heads as heads, one for a batch of 16, and one of four sequences with several queries.
const DECODE: [[usize; 5]; 4] =
    [[1, 32, 8, 1, 8192], [1, 32, 32, 1, 8192], [16, 32, 8, 1, 8192], [4, 32, 8, 8, 32768]];

fn decode_cases() -> impl Iterator<Item = Case> {
    DECODE.into_iter().map(|sizes| {
        let [batch, heads, kv_heads, queries, keys] = sizes;
        let name = format!("attention/decode/bf16/d128/b{batch}h{heads}kv{kv_heads}q{queries}k{keys}");
        Case::new(name, move |clock, name| run_decode(clock, name, sizes))
    })
}

/// The last queries of a long sequence of keys. The rate counts the bytes of keys and values, each
/// read once.
fn run_decode(clock: &Clock, name: &str, sizes: [usize; 5]) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let [batch, heads, kv_heads, queries, keys] = sizes;
    let random = |heads, rows| clock.randn(&[batch, heads, rows, 128], DType::BF16);
    let (q, k, v) = (random(heads, queries)?, random(kv_heads, keys)?, random(kv_heads, keys)?);
    let options =
        || AttentionOptions { causal: Causal::lower_right(queries == 1), ..AttentionOptions::default() };
    let attend = || no_grad(|| q.scaled_dot_product_attention(&k, &v, options()).map(drop));
    let milliseconds = clock.median(attend)?;
    let bytes = (2 * batch * kv_heads * keys * 128 * 2) as f64;
    emit(name, clock.implementation(), milliseconds, bytes / milliseconds / 1e6, "GB/s");
    Ok(())
}

/// Lengths of sequences with 16,384 tokens in total, as in the PyTorch script.
const LENGTHS: [usize; 12] = [4096, 256, 1024, 2048, 512, 3072, 128, 768, 1536, 64, 2368, 512];

fn varlen_cases() -> impl Iterator<Item = Case> {
    let all = [64, 128].into_iter().flat_map(|head_dim| {
        [false, true].into_iter().flat_map(move |causal| {
            [false, true].map(|backward| CaseSpec::plain(head_dim, 16384, causal, backward))
        })
    });
    all.map(|spec| {
        let name = spec.name().replace("/t16384/", "/varlen/");
        Case::new(name, move |clock, name| run_varlen(clock, name, spec))
    })
}

/// Sequences of different lengths in one tensor. Other backends have no kernel: core composes the
/// op, with all scores.
fn run_varlen(clock: &Clock, name: &str, spec: CaseSpec) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let [_, heads, tokens, head_dim] = spec.shape();
    let random = || clock.randn(&[tokens, heads, head_dim], spec.dtype)?.requires_grad();
    let (q, k, v) = (random()?, random()?, random()?);
    let mut ends = vec![0];
    ends.extend(LENGTHS.iter().scan(0, |end, &length| {
        *end += length as i32;
        Some(*end)
    }));
    let lengths = Tensor::from_slice(&ends, [ends.len()], q.device())?;
    let squares: usize = LENGTHS.iter().map(|length| length * length).sum();
    let operations = spec.operations() * squares as f64 / (tokens * tokens) as f64;
    let attend = || {
        let options =
            AttentionOptions { causal: Causal::lower_right(spec.causal), ..AttentionOptions::default() };
        let lengths = CumulativeLengths { queries: &lengths, keys: &lengths };
        Ok(vec![q.scaled_dot_product_attention_varlen(&k, &v, lengths, options)?])
    };
    let milliseconds = time(clock, spec, &[q.clone(), k.clone(), v.clone()], &attend)?;
    emit(name, clock.implementation(), milliseconds, operations / milliseconds / 1e9, "TFLOP/s");
    Ok(())
}

/// Forward and backward with a bias that all sequences of the batch share. Backward computes its
/// gradient, too.
fn biased_cases() -> impl Iterator<Item = Case> {
    let shapes = [64, 128].into_iter().flat_map(|head_dim| [512, 2048].map(|tokens| (head_dim, tokens)));
    shapes.flat_map(|(head_dim, tokens)| {
        [false, true].map(|backward| {
            let spec = CaseSpec::plain(head_dim, tokens, false, backward);
            let name = spec.name().replace("/full", "/bias");
            Case::new(name, move |clock, name| run_biased(clock, name, spec))
        })
    })
}

/// Operations are counted as without the bias. On other backends core composes the gradient of the
/// bias.
fn run_biased(clock: &Clock, name: &str, spec: CaseSpec) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let [_, heads, tokens, _] = spec.shape();
    let random = |shape: &[usize]| clock.randn(shape, spec.dtype)?.requires_grad();
    let (q, k, v) = (random(&spec.shape())?, random(&spec.shape())?, random(&spec.shape())?);
    let bias = random(&[1, heads, tokens, tokens])?;
    let attend = || {
        let options = AttentionOptions { mask: Some(&bias), ..AttentionOptions::default() };
        Ok(vec![q.scaled_dot_product_attention(&k, &v, options)?])
    };
    let inputs = [q.clone(), k.clone(), v.clone(), bias.clone()];
    let milliseconds = time(clock, spec, &inputs, &attend)?;
    emit(name, clock.implementation(), milliseconds, spec.operations() / milliseconds / 1e9, "TFLOP/s");
    Ok(())
}

/// The dropout probability, in cases with dropout.
const DROPOUT: f64 = 0.1;

/// The parameters of a case: 16,384 tokens of width 2,048, or of as many heads as fit into that
/// width.
#[derive(Clone, Copy)]
pub struct CaseSpec {
    pub dtype: DType,
    pub head_dim: usize,
    pub tokens: usize,
    pub causal: bool,
    pub backward: bool,
    pub dropout: f64,
}

impl CaseSpec {
    /// Returns a case of bf16 without dropout.
    pub fn plain(head_dim: usize, tokens: usize, causal: bool, backward: bool) -> CaseSpec {
        CaseSpec { dtype: DType::BF16, head_dim, tokens, causal, backward, dropout: 0.0 }
    }

    /// Returns the name of the case in another family, `FAMILY/bf16/d64/t512/causal`.
    pub fn name_in(self, family: &str) -> String {
        let CaseSpec { dtype, head_dim, tokens, causal, .. } = self;
        format!("{family}/{dtype}/d{head_dim}/t{tokens}/{}", if causal { "causal" } else { "full" })
    }

    pub fn config(self) -> AttentionConfig {
        let scale = 1.0 / (self.head_dim as f64).sqrt();
        AttentionConfig { scale, causal: self.causal, ..AttentionConfig::PLAIN }
    }

    fn name(self) -> String {
        let CaseSpec { dtype, head_dim, tokens, .. } = self;
        let pass = if self.backward { "bwd" } else { "fwd" };
        let mask = if self.causal { "causal" } else { "full" };
        let dropout = if self.dropout > 0.0 { "-dropout" } else { "" };
        format!("attention/{pass}/{dtype}/d{head_dim}/t{tokens}/{mask}{dropout}")
    }

    pub fn shape(self) -> [usize; 4] {
        [16384 / self.tokens, 2048 / self.head_dim, self.tokens, self.head_dim]
    }

    /// Returns the multiplications and additions of the unmasked scores; backward has two and a
    /// half times as many.
    pub fn operations(self) -> f64 {
        let [batch, heads, tokens, head_dim] = self.shape();
        let all = 4.0 * (batch * heads * tokens * tokens * head_dim) as f64;
        all * if self.causal { 0.5 } else { 1.0 } * if self.backward { 2.5 } else { 1.0 }
    }
}

fn run(clock: &Clock, name: &str, spec: CaseSpec) -> Result<()> {
    // Other backends have no kernel with dropout: core composes it.
    if spec.dropout > 0.0 && clock.kind != Kind::Cuda {
        return Ok(());
    }
    let random = || clock.randn(&spec.shape(), spec.dtype)?.requires_grad();
    let (q, k, v) = (random()?, random()?, random()?);
    let rate = |milliseconds: f64| spec.operations() / milliseconds / 1e9;
    let options = || AttentionOptions {
        causal: Causal::lower_right(spec.causal),
        dropout: spec.dropout,
        ..AttentionOptions::default()
    };
    let attend = || Ok(vec![q.scaled_dot_product_attention(&k, &v, options())?]);
    let inputs = [q.clone(), k.clone(), v.clone()];
    let milliseconds = time(clock, spec, &inputs, &attend)?;
    emit(name, clock.implementation(), milliseconds, rate(milliseconds), "TFLOP/s");
    if clock.kind == Kind::Cuda || clock.is_once() {
        return Ok(());
    }
    // Core's composition makes about twenty passes over all scores, so it is measured only in f32,
    // which has no case of 16,384 tokens. The one written by hand is faster.
    let composers =
        [(Composer::Core, "composed", spec.dtype == DType::F32), (Composer::Hand, "by-hand", true)];
    for (composer, what, _) in composers.into_iter().filter(|(.., is_measured)| *is_measured) {
        let kind = format!("{}-{what}", clock.implementation());
        let compose = || {
            let composed = Composed::large(composer, [&q, &k, &v], spec.causal)?;
            time(clock, spec, &composed.leaves(), &|| composed.attend())
        };
        match compose() {
            Ok(milliseconds) => emit(name, &kind, milliseconds, rate(milliseconds), "TFLOP/s"),
            // A composition that fails does not make the op fail.
            Err(error) => emit_error(name, &kind, &error),
        }
    }
    Ok(())
}

/// Returns the median milliseconds of the requested pass.
pub fn time(
    clock: &Clock,
    spec: CaseSpec,
    inputs: &[Tensor],
    attend: &dyn Fn() -> Result<Vec<Tensor>>,
) -> Result<f64> {
    if !spec.backward {
        return clock.median(|| no_grad(|| attend().map(drop)));
    }
    let ys = attend()?;
    let random = |y: &Tensor| Tensor::randn(*y.shape(), y.dtype(), y.device());
    let dys = ys.iter().map(random).collect::<Result<Vec<_>>>()?;
    let retain = || GradOptions { retain_graph: true, ..GradOptions::default() };
    clock.median(|| grad(&ys, inputs, &dys, retain()).map(drop))
}
