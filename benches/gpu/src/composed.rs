//! Attention without the op, as core composes it or as written by hand: the op must be faster than
//! this.

use ternion::decorators;
use ternion::{AttentionOptions, Causal, DType, Device, Result, Tensor};

/// The maximum bytes of scores at a time: an adapter limits the size of a binding, and its memory
/// is limited.
const MAX_BYTES: usize = 1 << 30;

/// What attention is composed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composer {
    /// The primitives of the op's composition. Its gradient is that of the op, which recomputes the
    /// weights.
    Core,
    /// Two products and a softmax. Its gradient is that of these ops, which save the weights of all
    /// heads.
    Hand,
}

/// Queries, keys and values, split by heads into as few parts as the size of their scores allows.
pub struct Composed {
    composer: Composer,
    causal: bool,
    /// Each `[heads, tokens, head_dim]`.
    parts: Vec<[Tensor; 3]>,
    /// Added to the scores: -infinity for a masked key, `[tokens, tokens]`.
    mask: Option<Tensor>,
    scale: f64,
}

impl Composed {
    /// Creates the composition of q, k and v, each `[batch, heads, tokens, head_dim]`. The parts
    /// are leaves that require gradients. A part has at most `limit` scores, or those of one head.
    ///
    /// # Errors
    /// The tensors have another rank, or there is not enough memory.
    pub fn new(composer: Composer, inputs: [&Tensor; 3], causal: bool, limit: usize) -> Result<Composed> {
        let [batch, heads, tokens, head_dim]: [usize; 4] = inputs[0].sizes()?;
        let step = (limit / (tokens * tokens)).clamp(1, batch * heads);
        let device = match composer {
            Composer::Core => decorators::Composed::new(inputs[0].device().clone()),
            Composer::Hand => inputs[0].device().clone(),
        };
        let part = |x: &Tensor, first: usize| {
            let rows = x.detach().reshape([batch * heads, tokens, head_dim])?;
            let count = step.min(batch * heads - first);
            rows.narrow(0, first, count)?.contiguous()?.to_device(&device)?.detach().requires_grad()
        };
        let parts = (0..batch * heads).step_by(step).map(|first| {
            let [q, k, v] = inputs;
            Ok([part(q, first)?, part(k, first)?, part(v, first)?])
        });
        let is_added = causal && composer == Composer::Hand;
        let mask = is_added.then(|| causal_mask(tokens, inputs[0].dtype(), &device)).transpose()?;
        let scale = 1.0 / (head_dim as f64).sqrt();
        Ok(Composed { composer, causal, parts: parts.collect::<Result<_>>()?, mask, scale })
    }

    /// Creates the composition with as many scores in a part as an adapter supports.
    pub fn large(composer: Composer, inputs: [&Tensor; 3], causal: bool) -> Result<Composed> {
        Composed::new(composer, inputs, causal, MAX_BYTES / inputs[0].dtype().size())
    }

    /// Returns everything that the outputs depend on, part by part.
    pub fn leaves(&self) -> Vec<Tensor> {
        self.parts.iter().flatten().cloned().collect()
    }

    /// Returns the outputs, each `[heads, tokens, head_dim]`.
    ///
    /// # Errors
    /// There is not enough memory for the scores, or the device has a fault.
    pub fn attend(&self) -> Result<Vec<Tensor>> {
        self.parts.iter().map(|[q, k, v]| self.attend_part(q, k, v)).collect()
    }

    fn attend_part(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        if self.composer == Composer::Core {
            let options =
                AttentionOptions { causal: Causal::lower_right(self.causal), ..AttentionOptions::default() };
            let batched = |x: &Tensor| x.unsqueeze(0);
            return batched(q)?.scaled_dot_product_attention(&batched(k)?, &batched(v)?, options)?.squeeze(0);
        }
        // The queries are scaled instead of the scores, because there are fewer of them.
        let mut scores = q.mul_scalar(self.scale)?.matmul(&k.t()?)?;
        if let Some(mask) = &self.mask {
            scores = scores.add(mask)?;
        }
        scores.softmax(-1)?.matmul(v)
    }
}

/// Returns 0 where the key is not later than the query, otherwise -infinity: `[tokens, tokens]`.
fn causal_mask(tokens: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let position = Tensor::iota(tokens, DType::I32, 0, 1, device)?;
    let is_masked = position.unsqueeze(0)?.gt(&position.unsqueeze(1)?)?;
    Tensor::zeros([tokens, tokens], dtype, device)?.masked_fill(&is_masked, f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion::{GradOptions, grad};

    /// Returns the largest difference of two tensors with equal numbers of elements.
    fn difference(a: &Tensor, b: &Tensor) -> f64 {
        let (a, b) = (a.to_vec::<f64>().expect("read"), b.to_vec::<f64>().expect("read"));
        assert_eq!(a.len(), b.len());
        a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    fn compare(composer: Composer, causal: bool, max_scores: usize, parts: usize) -> Result<()> {
        let device = ternion_cpu::device();
        let random = || Tensor::randn([2, 3, 5, 4], DType::F64, &device)?.requires_grad();
        let (q, k, v) = (random()?, random()?, random()?);
        let options = AttentionOptions { causal: Causal::lower_right(causal), ..AttentionOptions::default() };
        let y = q.scaled_dot_product_attention(&k, &v, options)?;
        let dy = Tensor::randn(*y.shape(), DType::F64, &device)?;
        let expected =
            grad(&[y.clone()], &[q.clone(), k.clone(), v.clone()], &[dy.clone()], GradOptions::default())?;
        let composed = Composed::new(composer, [&q, &k, &v], causal, max_scores)?;
        let ys = composed.attend()?;
        assert_eq!(ys.len(), parts);
        let part_device = composed.leaves()[0].device().clone();
        let joined = |all: Vec<&Tensor>| Tensor::concat(&all, 0)?.to_device(&device);
        assert!(difference(&joined(ys.iter().collect())?, &y) < 1e-12);
        let heads = dy.reshape([6, 5, 4])?.to_device(&part_device)?;
        let mut first = 0;
        let mut dys = Vec::new();
        for y in &ys {
            dys.push(heads.narrow(0, first, y.dims()[0])?);
            first += y.dims()[0];
        }
        let found = grad(&ys, &composed.leaves(), &dys, GradOptions::default())?;
        for (input, expected) in expected.iter().enumerate() {
            let of_input = found.iter().skip(input).step_by(3).map(|one| one.as_ref().expect("used"));
            assert!(difference(&joined(of_input.collect())?, expected.as_ref().expect("used")) < 1e-12);
        }
        Ok(())
    }

    #[test]
    fn it_is_the_attention_of_the_op_in_any_number_of_parts() -> Result<()> {
        for (composer, causal) in
            [Composer::Core, Composer::Hand].into_iter().flat_map(|of| [(of, false), (of, true)])
        {
            compare(composer, causal, 1 << 20, 1)?;
            compare(composer, causal, 4 * 25, 2)?;
            compare(composer, causal, 1, 6)?;
        }
        Ok(())
    }
}
