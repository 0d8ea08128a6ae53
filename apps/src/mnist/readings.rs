//! What the steps of an epoch leave: losses and hits, kept on the device until they are read.

use crate::support::program::Outcome;
use ternion::prelude::*;

/// What the steps of an epoch leave; it stays on the device, so that no step waits for a reading.
pub struct Log {
    /// `[steps, 2]`, f32: mean loss and hits.
    entries: Tensor,
    /// How many steps have been noted.
    noted: usize,
    batch: usize,
    /// Images of the epoch.
    images: usize,
}

impl Log {
    pub fn new(steps: usize, batch: usize, images: usize, device: &Device) -> Outcome<Log> {
        Ok(Log { entries: Tensor::zeros([steps, 2], DType::F32, device)?, noted: 0, batch, images })
    }

    /// Takes over what a step has left.
    pub fn note(&mut self, result: &Tensor) -> Outcome<()> {
        self.entries.select(0, self.noted)?.copy_(result)?;
        self.noted += 1;
        Ok(())
    }

    /// Begins anew, with the next epoch.
    pub fn clear(&mut self) {
        self.noted = 0;
    }

    /// The numbers of the steps noted so far, for a checkpoint.
    pub fn numbers(&self) -> Result<Vec<f64>> {
        let values = self.entries.narrow(0, 0, self.noted)?.to_vec::<f32>()?;
        Ok(values.into_iter().map(f64::from).collect())
    }

    /// Begins with steps that were noted before; their numbers are exact.
    pub fn restore(&mut self, numbers: &[f64]) -> Result<()> {
        self.noted = numbers.len() / 2;
        let values = numbers.iter().map(|&number| number as f32).collect();
        let noted = Tensor::from_vec(values, [self.noted, 2], self.entries.device())?;
        self.entries.narrow(0, 0, self.noted)?.copy_(&noted)
    }

    /// What was noted so far. Waits for the device.
    pub fn read(&self) -> Outcome<Readings> {
        let values = self.entries.narrow(0, 0, self.noted)?.to_vec::<f32>()?;
        let reading = |(step, values): (usize, &[f32])| {
            let images = self.batch.min(self.images - step * self.batch);
            Reading { loss: f64::from(values[0]) * images as f64, hits: f64::from(values[1]), images }
        };
        Ok(Readings(values.chunks_exact(2).enumerate().map(reading).collect()))
    }
}

/// One for each step.
pub struct Readings(pub Vec<Reading>);

impl Readings {
    /// The sum of the last `steps` steps.
    pub fn of_last(&self, steps: usize) -> Reading {
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
