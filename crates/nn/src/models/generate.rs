//! Text from a [`GPT`]: one token after the other.

use super::gpt::GPT;
use crate::layers::KeyValueCache;
use ternion_core::{DType, Device, Error, Result, Tensor, no_grad};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Scores are divided by it: below 1 likely tokens become likelier. At 0 the likeliest is taken. 1 by default.
    pub temperature: f64,
    /// Only so many of the likeliest tokens are chosen from; all by default.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens are chosen from whose probabilities together reach this (Holtzman et al. 2020); all by default.
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
        let problem = if !(temperature.is_finite() && temperature >= 0.0) {
            format!("temperature {temperature}, expected a finite number of at least 0")
        } else if top_k == Some(0) {
            "top_k 0, expected at least 1".to_owned()
        } else if let Some(p) = top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            format!("top_p {p}, expected above 0 and at most 1")
        } else {
            return Ok(());
        };
        Err(Error::invalid("sampling", problem))
    }

    /// The token for `chance`, even over `0..1`: the first whose probability, added to those of likelier ones, exceeds it.
    ///
    /// # Errors
    /// Settings out of range; no score that is a number: NaN, or infinity.
    pub fn choose(&self, logits: &[f32], chance: f64) -> Result<usize> {
        self.check()?;
        if let Some(at) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            let detail = format!("the score of token {at} is {}, expected a finite number", logits[at]);
            return Err(Error::invalid("sampling", detail));
        }
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // Of equal scores the first token is the likelier one, so that the choice is the same everywhere.
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
        let kept = kept_of(&weights, self.top_p.unwrap_or(1.0));
        let mut left = chance * weights[..kept].iter().sum::<f64>();
        for (token, weight) in order[..kept].iter().zip(&weights) {
            left -= weight;
            if left < 0.0 {
                return Ok(*token);
            }
        }
        // Rounding may leave something of the last chance.
        Ok(order[kept - 1])
    }
}

/// How many of these weights, largest first, together reach the share `p` of all.
fn kept_of(weights: &[f64], p: f64) -> usize {
    let wanted = p * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= wanted
    });
    reached.map_or(weights.len(), |at| at + 1)
}

impl GPT {
    /// `count` tokens that follow `prompt`; `each` is told of every one as soon as it is chosen.
    ///
    /// Keys and values of earlier tokens are kept, so that a step computes one token. Beyond the context, as in nanoGPT, each step sees the last `context` tokens at new
    /// positions, and computes them all. Chances come from the device's random numbers: [`Device::seed`] decides them. Layers must be in use
    /// ([`eval`](crate::Module::eval)), or dropout takes part.
    ///
    /// # Errors
    /// An empty prompt, a token outside the vocabulary, settings out of range, scores that are no numbers, what `each` says.
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

    /// Scores of what follows `tokens`, of which the caches keep the first ones.
    fn step(&self, tokens: &[i64], caches: &mut [KeyValueCache], device: &Device) -> Result<Vec<f32>> {
        let context = self.config().context;
        let mut kept = caches.first().map_or(0, KeyValueCache::len);
        let seen = &tokens[tokens.len().saturating_sub(context)..];
        if tokens.len() > context || kept >= seen.len() {
            caches.iter_mut().for_each(KeyValueCache::clear);
            kept = 0;
        }
        let new = Tensor::from_slice(&seen[kept..], [1, seen.len() - kept], device)?;
        self.next_logits(&new, caches)?
            .to_dtype(DType::F32)?
            .reshape([self.config().vocabulary])?
            .to_vec::<f32>()
    }
}
