//! Text generation with a [`GPT`], one token after another.

use super::gpt::GPT;
use crate::layers::KeyValueCache;
use ternion_core::{DType, Device, Error, Result, Tensor, no_grad};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the scores: values below 1 make likely tokens more likely. At 0 the most likely
    /// token is chosen. 1 by default.
    pub temperature: f64,
    /// Samples only from this number of most likely tokens; from all by default.
    pub top_k: Option<usize>,
    /// Samples only from the most likely tokens whose probabilities together reach this value
    /// (Holtzman et al. 2020); from all by default.
    pub top_p: Option<f64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 1.0, top_k: None, top_p: None }
    }
}

impl Sampling {
    fn check(&self) -> Result<()> {
        let Sampling { temperature, top_k, top_p } = *self;
        let error_message = if !(temperature.is_finite() && temperature >= 0.0) {
            format!("temperature {temperature}, expected a finite number of at least 0")
        } else if top_k == Some(0) {
            "top_k 0, expected at least 1".to_owned()
        } else if let Some(p) = top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            format!("top_p {p}, expected above 0 and at most 1")
        } else {
            return Ok(());
        };
        Err(Error::invalid("sampling", error_message))
    }

    /// Returns the token for `chance`, which is uniform on `0..1`: in order of decreasing
    /// probability, the first token at which the cumulative probability exceeds `chance`.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range, there are no scores, or a score is NaN or
    /// infinity.
    pub fn choose(&self, logits: &[f32], chance: f64) -> Result<usize> {
        self.check()?;
        if let Some(at) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            let detail = format!("the score of token {at} is {}, expected a finite number", logits[at]);
            return Err(Error::invalid("sampling", detail));
        }
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // Equal scores are ordered by token, so that the choice is the same on every device.
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        let Some(&first) = order.first() else {
            return Err(Error::invalid("sampling", "no scores: expected at least 1"));
        };
        if self.temperature == 0.0 {
            return Ok(first);
        }
        order.truncate(self.top_k.unwrap_or(usize::MAX));
        let largest = f64::from(logits[first]);
        let weight = |&token: &usize| ((f64::from(logits[token]) - largest) / self.temperature).exp();
        let weights: Vec<f64> = order.iter().map(weight).collect();
        let candidates = top_p_count(&weights, self.top_p.unwrap_or(1.0));
        let mut remaining = chance * weights[..candidates].iter().sum::<f64>();
        for (token, weight) in order[..candidates].iter().zip(&weights) {
            remaining -= weight;
            if remaining < 0.0 {
                return Ok(*token);
            }
        }
        // Rounding may leave a remainder even after the last token.
        Ok(order[candidates - 1])
    }
}

/// Returns how many of the first weights, which are in descending order, are needed to reach the
/// fraction `p` of their total.
fn top_p_count(weights: &[f64], p: f64) -> usize {
    let threshold = p * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= threshold
    });
    reached.map_or(weights.len(), |at| at + 1)
}

impl GPT {
    /// Generates `count` tokens that follow `prompt`. `each` is called with every token as soon as
    /// it is chosen.
    ///
    /// Keys and values of earlier tokens are cached, so that a step computes only one token. Beyond
    /// the context, as in nanoGPT, each step recomputes the last `context` tokens at new positions.
    /// Random numbers come from the device's generator, which [`Device::seed`] seeds. Switch the
    /// model to evaluation mode ([`eval`](crate::Module::eval)) first, otherwise dropout is
    /// applied.
    ///
    /// # Errors
    /// Returns an error for an empty prompt, a token outside the vocabulary, a setting out of
    /// range, scores that are NaN or infinity, and the errors of `each`.
    pub fn generate(
        &self,
        prompt: &[i64],
        count: usize,
        sampling: Sampling,
        mut each: impl FnMut(i64) -> Result<()>,
    ) -> Result<Vec<i64>> {
        sampling.check()?;
        if prompt.is_empty() {
            return Err(Error::invalid("generate", "an empty prompt: expected at least 1 token"));
        }
        let device = self.wte.weight.device();
        let mut tokens = prompt.to_vec();
        let mut caches = self.caches();
        no_grad(|| {
            for _ in 0..count {
                let logits = self.step(&tokens, &mut caches, &device)?;
                let chance = Tensor::rand([1], DType::F32, &device)?.item_f64()?;
                let token = sampling.choose(&logits, chance)? as i64;
                tokens.push(token);
                each(token)?;
            }
            Ok(tokens.split_off(prompt.len()))
        })
    }

    /// Returns the scores of the token that follows `tokens`, the first of which may be cached.
    fn step(&self, tokens: &[i64], caches: &mut [KeyValueCache], device: &Device) -> Result<Vec<f32>> {
        let context = self.config().context;
        let mut cached = caches.first().map_or(0, KeyValueCache::len);
        let window = &tokens[tokens.len().saturating_sub(context)..];
        if tokens.len() > context || cached >= window.len() {
            caches.iter_mut().for_each(KeyValueCache::clear);
            cached = 0;
        }
        let new = Tensor::from_slice(&window[cached..], [1, window.len() - cached], device)?;
        self.next_logits(&new, caches)?
            .to_dtype(DType::F32)?
            .reshape([self.config().vocabulary])?
            .to_vec::<f32>()
    }
}
