//! Batches as tensors on a device: the only file of this crate that makes tensors.

use crate::error::{DataError, Result};
use crate::order::{BatchPlan, HostBatch, HostBatches, LastBatch, Normalisation, Order};
use crate::prefetch::Prefetched;
use crate::split::Split;
use crate::transform::{Transform, Transforms};
use ternion_core::{Device, Tensor};

/// Some examples of a split, on a device.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `[batch, channels, rows, cols]`, f32.
    pub images: Tensor,
    /// `[batch]`, i64.
    pub labels: Tensor,
    /// `[batch]`, f32: 1 for an example, 0 for filling. Only with [`LastBatch::PadWithMask`].
    pub mask: Option<Tensor>,
    /// How many examples there are, without filling.
    pub size: usize,
}

impl Batch {
    fn on_device(host: HostBatch, device: &Device) -> Result<Batch> {
        let capacity = host.labels.len();
        let [channels, rows, cols] = host.image_size;
        let mask = match host.mask {
            Some(mask) => Some(Tensor::from_vec(mask, [capacity], device)?),
            None => None,
        };
        Ok(Batch {
            images: Tensor::from_vec(host.images, [capacity, channels, rows, cols], device)?,
            labels: Tensor::from_vec(host.labels, [capacity], device)?,
            mask,
            size: host.size,
        })
    }
}

/// A split whose examples come in another random order in each epoch, made by [`Split::shuffled`].
#[derive(Debug, Clone)]
pub struct Shuffled {
    split: Split,
    seed: u64,
}

impl Shuffled {
    /// Cuts the split into batches on `device`: see [`Batches`].
    pub fn batches(&self, batch_size: usize, device: &Device) -> Batches {
        Batches::new(&self.split, Order::Shuffled { seed: self.seed }, batch_size, device)
    }

    /// The positions of the examples, in the order in which [`batches`](Shuffled::batches) of this epoch have them: for programs that keep a split on the
    /// device and pick its examples there.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        Order::Shuffled { seed: self.seed }.positions(self.split.len(), epoch)
    }
}

impl Split {
    /// The same examples in random order. The order of an epoch is a matter of `seed`, the number of the
    /// epoch and the length of the split alone: equal on every platform.
    pub fn shuffled(&self, seed: u64) -> Shuffled {
        Shuffled { split: self.clone(), seed }
    }

    /// Cuts the split into batches on `device`, in the order as stored: see [`Batches`].
    pub fn batches(&self, batch_size: usize, device: &Device) -> Batches {
        Batches::new(self, Order::AsStored, batch_size, device)
    }
}

/// One epoch of batches, to be iterated over; each item is a `Result<Batch>`.
///
/// By default it is epoch 0, the last batch may be smaller, pixels are divided by 255, and nothing is
/// prefetched. The batch size must not be 0; otherwise the only item is that error.
///
/// ```
/// # use ternion_data::{LastBatch, Split};
/// # fn main() -> ternion_data::Result<()> {
/// # let device = ternion_cpu::device();
/// let split = Split::new(vec![0; 10 * 28 * 28], vec![7; 10], [28, 28], 10)?;
/// let batches = split.shuffled(1).batches(4, &device).last_batch(LastBatch::Drop).prefetch(2);
/// for epoch in 0..3 {
///     for batch in batches.epoch(epoch) {
///         let batch = batch?;
///         assert_eq!(batch.size, 4);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Batches {
    plan: BatchPlan,
    device: Device,
    prefetched: usize,
}

impl Batches {
    fn new(split: &Split, order: Order, batch_size: usize, device: &Device) -> Self {
        let plan = BatchPlan {
            split: split.clone(),
            order,
            epoch: 0,
            batch_size,
            last_batch: LastBatch::default(),
            normalisation: vec![Normalisation::default(); split.channels()],
            transforms: Transforms::default(),
        };
        Batches { plan, device: device.clone(), prefetched: 0 }
    }

    /// The batches of another epoch: in another order, if shuffled.
    pub fn epoch(&self, epoch: u64) -> Batches {
        let mut batches = self.clone();
        batches.plan.epoch = epoch;
        batches
    }

    /// What becomes of a last batch that is not full.
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.plan.last_batch = last_batch;
        self
    }

    /// Makes up to `count` batches (of an epoch at most) ahead on a thread; 0 makes each when it is asked for.
    ///
    /// What is made ahead is in the host's memory. The thread that asks for a batch puts it on the device, so that it may record a step
    /// ([`Device::capture`]) between two batches: while one thread records, a device refuses what others upload.
    ///
    /// The thread ends with the iterator, also with one that is dropped early. An error of the thread, even a
    /// panic, is the last item.
    pub fn prefetch(mut self, count: usize) -> Self {
        self.prefetched = count;
        self
    }

    /// Pixels become `(pixel / 255 - mean) / deviation`; for MNIST, 0.1307 and 0.3081 are customary.
    ///
    /// # Errors
    /// If a number is not finite, or the deviation is not above 0.
    pub fn normalise(mut self, mean: f32, deviation: f32) -> Result<Self> {
        self.plan.normalisation = vec![Normalisation::new(mean, deviation)?; self.plan.split.channels()];
        Ok(self)
    }

    /// As [`normalise`](Batches::normalise), with a mean and a deviation for each channel.
    ///
    /// # Errors
    /// As [`normalise`](Batches::normalise), and if there are not as many of each as channels.
    pub fn normalise_channels(mut self, means: &[f32], deviations: &[f32]) -> Result<Self> {
        self.plan.normalisation = Normalisation::of_channels(means, deviations, self.plan.split.channels())?;
        Ok(self)
    }

    /// Changes each image at random, in the order of this list, after it was normalised.
    ///
    /// What becomes of an image is a matter of `seed`, the epoch and the example's position in the split alone:
    /// the same in every batch, thread and resumed run, and on every platform.
    ///
    /// # Errors
    /// If the images do not allow one of the transforms.
    pub fn transforms(mut self, list: &[Transform], seed: u64) -> Result<Self> {
        let split = &self.plan.split;
        self.plan.transforms = Transforms::new(list, seed, [split.rows(), split.cols()])?;
        Ok(self)
    }

    /// How many batches the epoch has.
    pub fn len(&self) -> usize {
        self.plan.batch_count()
    }

    /// Whether the epoch has no batch: a short split with [`LastBatch::Drop`], or a batch size of 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn start(self) -> Result<Making> {
        let count = self.plan.batch_count().max(1);
        let batches = self.plan.host_batches()?;
        Ok(match self.prefetched.min(count) {
            0 => Making::OnDemand(Box::new(batches)),
            ahead => Making::Ahead(Prefetched::start(batches.map(Ok), ahead)?),
        })
    }
}

impl IntoIterator for Batches {
    type Item = Result<Batch>;
    type IntoIter = BatchIterator;

    fn into_iter(self) -> BatchIterator {
        let device = self.device.clone();
        BatchIterator { making: self.start().unwrap_or_else(|error| Making::Failed(Some(error))), device }
    }
}

impl IntoIterator for &Batches {
    type Item = Result<Batch>;
    type IntoIter = BatchIterator;

    fn into_iter(self) -> BatchIterator {
        self.clone().into_iter()
    }
}

/// The batches of one epoch, one after the other. Ends after the first error.
#[derive(Debug)]
pub struct BatchIterator {
    making: Making,
    device: Device,
}

#[derive(Debug)]
enum Making {
    OnDemand(Box<HostBatches>),
    Ahead(Prefetched<HostBatch>),
    /// `None` once the error is told, or the first one has come.
    Failed(Option<DataError>),
}

impl Iterator for BatchIterator {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let made = match &mut self.making {
            Making::OnDemand(batches) => batches.next().map(Ok),
            Making::Ahead(batches) => batches.next(),
            Making::Failed(error) => error.take().map(Err),
        };
        let item = made.map(|host| Batch::on_device(host?, &self.device));
        if matches!(item, Some(Err(_))) {
            self.making = Making::Failed(None);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_made_ahead_only_on_request() {
        let split = Split::new(vec![0; 6], vec![0; 6], [1, 1], 1).unwrap();
        let batches = split.batches(2, &ternion_cpu::device());
        assert!(matches!((&batches).into_iter().making, Making::OnDemand(_)));
        assert!(matches!(batches.clone().prefetch(1).into_iter().making, Making::Ahead(_)));
        assert!(batches.prefetch(usize::MAX).into_iter().all(|batch| batch.is_ok()));
    }

    #[test]
    fn the_order_that_is_told_is_that_of_the_batches() {
        let shuffled = Split::new(vec![0; 9], (0..9).collect(), [1, 1], 9).unwrap().shuffled(4);
        for epoch in [0, 3] {
            let batches = shuffled.batches(4, &ternion_cpu::device()).epoch(epoch);
            let labels: Vec<Vec<i64>> =
                batches.into_iter().map(|batch| batch.unwrap().labels.to_vec().unwrap()).collect();
            let order: Vec<i64> = shuffled.order(epoch).into_iter().map(|position| position as i64).collect();
            assert_eq!(labels.concat(), order);
        }
        assert_ne!(shuffled.order(0), shuffled.order(3));
    }
}
