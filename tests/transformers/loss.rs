//! The loss of a GPT without computing the scores of all tokens at once.

use ternion::LinearCrossEntropyOptions;
use ternion::nn::{GPT, GPTConfig, observe_layers};
use ternion::prelude::*;

/// With a separate head and with the embedding's weight, whether layers are observed or not.
#[test]
fn the_loss_of_a_gpt_is_the_cross_entropy_of_its_logits() -> Result<()> {
    let device = ternion::cpu()?;
    for tied in [true, false] {
        let config = GPTConfig {
            vocabulary: 11,
            context: 6,
            layers: 1,
            heads: 2,
            width: 8,
            tied,
            ..Default::default()
        };
        let model = GPT::new(config, &device)?;
        let tokens = Tensor::randint(0, 11, [2, 6], DType::I64, &device)?;
        let targets = Tensor::randint(0, 11, [2, 6], DType::I64, &device)?;
        let options = LinearCrossEntropyOptions { chunk_rows: Some(5), ..Default::default() };
        let logits = model.logits(&tokens)?.reshape([12, 11])?;
        let expected = logits.cross_entropy(&targets.reshape([12])?)?;
        let of = expected.backward()?;
        let check = |loss: Tensor| -> Result<()> {
            let difference = (loss.item::<f32>()? - expected.item::<f32>()?).abs();
            assert!(difference < 1e-6, "tied {tied}: {difference}");
            let gradients = loss.backward()?;
            for (name, parameter) in model.named_parameters() {
                let tensor = parameter.tensor();
                let [found, expected] =
                    [&gradients, &of].map(|from| from.get(&tensor).cloned().expect("a gradient"));
                let largest = found.sub(&expected)?.max_abs(..)?.item::<f32>()?;
                assert!(largest < 1e-6, "tied {tied}, {name}: {largest}");
            }
            Ok(())
        };
        check(model.loss(&tokens, &targets, options)?)?;
        check(observe_layers(&model, |_, _| Ok(()), || model.loss(&tokens, &targets, options))?)?;
    }
    Ok(())
}
