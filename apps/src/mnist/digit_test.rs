//! Tests a model on a set of digits.

use crate::support::digits::DigitSet;
use ternion::prelude::*;

/// Batch size of tests, which save nothing for the backward pass.
const TEST_BATCH: usize = 1000;

/// The predictions of a model for the test set.
pub struct Test {
    /// The predicted digit of each image.
    pub predicted: Vec<u8>,
    hits: usize,
}

impl Test {
    pub fn run(model: &dyn Forward, digits: &DigitSet, split: &Split) -> Result<Test> {
        model.eval();
        let mut predicted = Vec::with_capacity(digits.count());
        for start in (0..digits.count()).step_by(TEST_BATCH) {
            let images = digits.images(start, TEST_BATCH)?;
            let logits = no_grad(|| model.forward(&images))?;
            predicted.extend(logits.argmax(1)?.to_vec::<i32>()?.into_iter().map(|class| class as u8));
        }
        model.train();
        let hits =
            predicted.iter().zip(split.labels()).filter(|(predicted, label)| predicted == label).count();
        Ok(Test { predicted, hits })
    }

    pub fn accuracy(&self) -> f64 {
        self.hits as f64 / self.predicted.len() as f64
    }
}
