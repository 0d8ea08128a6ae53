//! A model tested on a set of digits.

use crate::support::digits::DigitSet;
use ternion::prelude::*;

/// Batch size, where nothing is kept for backward.
const TEST_BATCH: usize = 1000;

/// What a model makes of the test set.
pub struct Test {
    /// The digit that each image was taken for.
    pub found: Vec<u8>,
    hits: usize,
}

impl Test {
    pub fn of(model: &dyn Forward, digits: &DigitSet, split: &Split) -> Result<Test> {
        model.eval();
        let mut found = Vec::with_capacity(digits.count());
        for start in (0..digits.count()).step_by(TEST_BATCH) {
            let images = digits.images(start, TEST_BATCH)?;
            let logits = no_grad(|| model.forward(&images))?;
            found.extend(logits.argmax(1)?.to_vec::<i32>()?.into_iter().map(|class| class as u8));
        }
        model.train();
        let hits = found.iter().zip(split.labels()).filter(|(found, label)| found == label).count();
        Ok(Test { found, hits })
    }

    pub fn accuracy(&self) -> f64 {
        self.hits as f64 / self.found.len() as f64
    }
}
