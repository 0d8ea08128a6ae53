//! Losses and hits of the steps of an epoch, which stay on the device until they are read.

use crate::support::program::Outcome;
use ternion::prelude::*;

/// The results of the steps of an epoch. They stay on the device, so that no step waits for a
/// reading.
pub struct Log {
    /// `[steps, 2]`, f32: mean loss and hits.
    entries: Tensor,
    /// The number of recorded steps.
    recorded: usize,
    batch: usize,
    /// Images in the epoch.
    images: usize,
}

impl Log {
    pub fn new(steps: usize, batch: usize, images: usize, device: &Device) -> Outcome<Log> {
        Ok(Log { entries: Tensor::zeros([steps, 2], DType::F32, device)?, recorded: 0, batch, images })
    }

    /// Appends the result of a step.
    pub fn push(&mut self, result: &Tensor) -> Outcome<()> {
        self.entries.select(0, self.recorded)?.copy_(result)?;
        self.recorded += 1;
        Ok(())
    }

    /// Removes all entries, for the next epoch.
    pub fn clear(&mut self) {
        self.recorded = 0;
    }

    /// Returns the values of the recorded steps, for a checkpoint.
    pub fn values(&self) -> Result<Vec<f64>> {
        let values = self.entries.narrow(0, 0, self.recorded)?.to_vec::<f32>()?;
        Ok(values.into_iter().map(f64::from).collect())
    }

    /// Restores the values of earlier steps, exactly.
    pub fn restore(&mut self, numbers: &[f64]) -> Result<()> {
        self.recorded = numbers.len() / 2;
        let values = numbers.iter().map(|&number| number as f32).collect();
        let recorded = Tensor::from_vec(values, [self.recorded, 2], self.entries.device())?;
        self.entries.narrow(0, 0, self.recorded)?.copy_(&recorded)
    }

    /// Returns the recorded values. Waits for the device.
    pub fn read(&self) -> Outcome<Readings> {
        let values = self.entries.narrow(0, 0, self.recorded)?.to_vec::<f32>()?;
        let reading = |(step, values): (usize, &[f32])| {
            let images = self.batch.min(self.images - step * self.batch);
            Reading { loss: f64::from(values[0]) * images as f64, hits: f64::from(values[1]), images }
        };
        Ok(Readings(values.chunks_exact(2).enumerate().map(reading).collect()))
    }
}

/// One reading per step.
pub struct Readings(pub Vec<Reading>);

impl Readings {
    /// Returns the sum over the last `steps` steps.
    pub fn sum_of_last(&self, steps: usize) -> Reading {
        Reading::sum(&self.0[self.0.len().saturating_sub(steps)..])
    }
}

/// Sums over images.
#[derive(Clone, Copy, Default)]
pub struct Reading {
    pub loss: f64,
    pub hits: f64,
    pub images: usize,
}

impl Reading {
    pub fn sum(readings: &[Reading]) -> Reading {
        readings.iter().fold(Reading::default(), |sum, one| Reading {
            loss: sum.loss + one.loss,
            hits: sum.hits + one.hits,
            images: sum.images + one.images,
        })
    }

    pub fn mean_loss(&self) -> f64 {
        self.loss / self.images as f64
    }
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accuracy = 100.0 * self.hits / self.images as f64;
        write!(f, "loss {:.4}  accuracy {accuracy:.2} %", self.mean_loss())
    }
}
