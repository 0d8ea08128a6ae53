//! How well a [`GPT`] predicts a text.

use super::gpt::GPT;
use ternion_core::{Error, Result, Tensor, no_grad};

/// What [`GPT::text_loss`] finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextLoss {
    /// Mean of minus the logarithm of the probability that each token had before it was known.
    pub loss: f64,
    /// Tokens that were predicted: all but the first.
    pub tokens: usize,
}

impl TextLoss {
    /// `e^loss`: among how many equally likely tokens the model was in doubt.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }
}

impl GPT {
    /// Predicts each token but the first from those before it, of which windows of `context` tokens see the last ones.
    ///
    /// A window begins every `stride` tokens. It counts only the tokens that no earlier window has predicted, so that each counts once, and is predicted from at least
    /// `context - stride` tokens where there are as many. A stride of the whole context is quickest; the smaller it is, the more each token is predicted from.
    /// `each` is told after every window how many tokens are predicted. Layers must be in use ([`eval`](crate::Module::eval)), or dropout takes part.
    ///
    /// # Errors
    /// Fewer than 2 tokens, one outside the vocabulary, a stride of 0 or beyond the context, what `each` says.
    pub fn text_loss(
        &self,
        tokens: &[i64],
        stride: usize,
        mut each: impl FnMut(usize) -> Result<()>,
    ) -> Result<TextLoss> {
        let context = self.config().context;
        if stride == 0 || stride > context {
            let detail = format!("stride {stride}, expected 1 to the context, {context}");
            return Err(Error::invalid("text_loss", detail));
        }
        let Some(all) = tokens.len().checked_sub(1).filter(|all| *all > 0) else {
            return Err(Error::invalid("text_loss", format!("{} tokens, expected at least 2", tokens.len())));
        };
        let (mut sum, mut begin, mut predicted) = (0.0, 0, 0);
        while predicted < all {
            let end = all.min(begin + context);
            sum += self.window_loss(&tokens[begin..=end], end - predicted)?;
            predicted = end;
            each(predicted)?;
            begin += stride;
        }
        Ok(TextLoss { loss: sum / all as f64, tokens: all })
    }

    /// The summed loss of the last `count` tokens, each of which is predicted from those before it.
    fn window_loss(&self, window: &[i64], count: usize) -> Result<f64> {
        let device = self.wte.weight.device();
        let length = window.len() - 1;
        no_grad(|| {
            let inputs = Tensor::from_slice(&window[..length], [1, length], &device)?;
            let targets = Tensor::from_slice(&window[window.len() - count..], [count], &device)?;
            let logits = self.logits(&inputs)?.narrow(1, length - count, count)?;
            let loss = logits.reshape([count, self.config().vocabulary])?.cross_entropy(&targets)?;
            Ok(loss.item_f64()? * count as f64)
        })
    }
}
