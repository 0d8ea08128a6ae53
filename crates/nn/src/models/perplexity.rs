//! Evaluation of how well a [`GPT`] predicts a text.

use super::gpt::GPT;
use ternion_core::{Error, Result, Tensor, no_grad};

/// The result of [`GPT::text_loss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextLoss {
    /// Mean negative log-probability of the tokens, each predicted from the preceding ones.
    pub loss: f64,
    /// Number of predicted tokens: all but the first.
    pub tokens: usize,
}

impl TextLoss {
    /// Returns `e^loss`: the number of equally likely tokens that would have the same loss.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }
}

impl GPT {
    /// Predicts each token except the first from the preceding tokens in a window of `context`
    /// tokens.
    ///
    /// A window begins every `stride` tokens. It counts only the tokens that no earlier window has
    /// predicted. Each token therefore counts once, and is predicted from at least `context -
    /// stride` tokens if there are that many. A stride equal to the context is fastest; a smaller
    /// stride gives each token more context. After every window `each` is called with the number of
    /// tokens predicted so far. Switch the model to evaluation mode ([`eval`](crate::Module::eval))
    /// first, otherwise dropout is applied.
    ///
    /// # Errors
    /// Returns an error for fewer than 2 tokens, a token outside the vocabulary, a stride of 0 or
    /// above the context, and the errors of `each`.
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

    /// Returns the summed loss of the last `count` tokens, each of which is predicted from the
    /// preceding ones.
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
