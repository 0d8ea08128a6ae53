//! Batches as tensors on a device. This is the only file of the crate that creates tensors.

use crate::error::{DataError, Result};
use crate::order::{BatchPlan, HostBatch, HostBatches, LastBatch, Normalization, Order};
use crate::prefetch::Prefetched;
use crate::split::Split;
use crate::transform::{Transform, Transforms};
use ternion_core::{Device, Tensor};

/// A batch of examples of a split, on a device.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `[batch, channels, rows, cols]`, f32.
    pub images: Tensor,
    /// `[batch]`, i64.
    pub labels: Tensor,
    /// `[batch]`, f32: 1 for an example, 0 for padding. `Some` only with
    /// [`LastBatch::PadWithMask`].
    pub mask: Option<Tensor>,
    /// The number of examples, without padding.
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

/// A split whose examples are shuffled differently in each epoch. Created by [`Split::shuffled`].
#[derive(Debug, Clone)]
pub struct Shuffled {
    split: Split,
    seed: u64,
}

impl Shuffled {
    /// Divides the split into batches on `device`: see [`Batches`].
    pub fn batches(&self, batch_size: usize, device: &Device) -> Batches {
        Batches::new(&self.split, Order::Shuffled { seed: self.seed }, batch_size, device)
    }

    /// Returns the indices of the examples in the order in which [`batches`](Shuffled::batches) of
    /// this epoch yields them, for programs that keep a split on the device and gather its examples
    /// there.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        Order::Shuffled { seed: self.seed }.positions(self.split.len(), epoch)
    }
}

impl Split {
    /// Returns the same examples in random order. The order of an epoch depends only on `seed`, the
    /// epoch and the length of the split. It is the same on every platform.
    pub fn shuffled(&self, seed: u64) -> Shuffled {
        Shuffled { split: self.clone(), seed }
    }

    /// Divides the split into batches on `device`, in stored order: see [`Batches`].
    pub fn batches(&self, batch_size: usize, device: &Device) -> Batches {
        Batches::new(self, Order::AsStored, batch_size, device)
    }
}

/// One epoch of batches. Iterating over it yields a `Result<Batch>` per batch.
///
/// By default, the epoch is 0, the last batch may be smaller, pixels are divided by 255, and no
/// batch is prefetched. With a batch size of 0, the only item is an error.
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
            normalization: vec![Normalization::default(); split.channels()],
            transforms: Transforms::default(),
        };
        Batches { plan, device: device.clone(), prefetched: 0 }
    }

    /// Returns the batches of another epoch: in another order, if shuffled.
    pub fn epoch(&self, epoch: u64) -> Batches {
        let mut batches = self.clone();
        batches.plan.epoch = epoch;
        batches
    }

    /// Sets how a last batch that is not full is handled.
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.plan.last_batch = last_batch;
        self
    }

    /// Prepares up to `count` batches ahead on a separate thread, at most one epoch. With 0, each
    /// batch is prepared when it is requested.
    ///
    /// Prefetched batches are in host memory. The thread that requests a batch uploads it to the
    /// device, so that this thread may record a step ([`Device::capture`]) between two batches:
    /// while one thread records, a device rejects uploads from other threads.
    ///
    /// The prefetching thread ends with the iterator, even if the iterator is dropped early. An
    /// error of the thread, including a panic, is the last item.
    pub fn prefetch(mut self, count: usize) -> Self {
        self.prefetched = count;
        self
    }

    /// Sets the normalization of pixels to `(pixel / 255 - mean) / std`. For MNIST, 0.1307
    /// and 0.3081 are customary.
    ///
    /// # Errors
    /// Returns an error if a number is not finite, or the standard deviation is not positive.
    pub fn normalize(mut self, mean: f32, std: f32) -> Result<Self> {
        self.plan.normalization = vec![Normalization::new(mean, std)?; self.plan.split.channels()];
        Ok(self)
    }

    /// Like [`normalize`](Batches::normalize), with a mean and a standard deviation for each
    /// channel.
    ///
    /// # Errors
    /// Same as [`normalize`](Batches::normalize); also if the number of means or standard
    /// deviations is not the number of channels.
    pub fn normalize_channels(mut self, means: &[f32], stds: &[f32]) -> Result<Self> {
        self.plan.normalization = Normalization::of_channels(means, stds, self.plan.split.channels())?;
        Ok(self)
    }

    /// Applies random transforms to each image, in the order of `list`, after normalization.
    ///
    /// The result depends only on `seed`, the epoch and the index of the example in the split. It
    /// is the same in every batch, on every thread, in a resumed run and on every platform.
    ///
    /// # Errors
    /// Returns an error if a transform is not possible with the size of the images.
    pub fn transforms(mut self, list: &[Transform], seed: u64) -> Result<Self> {
        let split = &self.plan.split;
        self.plan.transforms = Transforms::new(list, seed, [split.rows(), split.cols()])?;
        Ok(self)
    }

    /// Returns the number of batches in the epoch.
    pub fn len(&self) -> usize {
        self.plan.batch_count()
    }

    /// Returns whether the epoch has no batches: a short split with [`LastBatch::Drop`], or a batch
    /// size of 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn start(self) -> Result<BatchSource> {
        let count = self.plan.batch_count().max(1);
        let batches = self.plan.host_batches()?;
        Ok(match self.prefetched.min(count) {
            0 => BatchSource::OnDemand(Box::new(batches)),
            ahead => BatchSource::Ahead(Prefetched::start(batches.map(Ok), ahead)?),
        })
    }
}

impl IntoIterator for Batches {
    type Item = Result<Batch>;
    type IntoIter = BatchIterator;

    fn into_iter(self) -> BatchIterator {
        let device = self.device.clone();
        BatchIterator {
            source: self.start().unwrap_or_else(|error| BatchSource::Failed(Some(error))),
            device,
        }
    }
}

impl IntoIterator for &Batches {
    type Item = Result<Batch>;
    type IntoIter = BatchIterator;

    fn into_iter(self) -> BatchIterator {
        self.clone().into_iter()
    }
}

/// An iterator over the batches of one epoch. It ends after the first error.
#[derive(Debug)]
pub struct BatchIterator {
    source: BatchSource,
    device: Device,
}

#[derive(Debug)]
enum BatchSource {
    OnDemand(Box<HostBatches>),
    Ahead(Prefetched<HostBatch>),
    /// `None` once the error has been returned, or after another item was an error.
    Failed(Option<DataError>),
}

impl Iterator for BatchIterator {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let next_batch = match &mut self.source {
            BatchSource::OnDemand(batches) => batches.next().map(Ok),
            BatchSource::Ahead(batches) => batches.next(),
            BatchSource::Failed(error) => error.take().map(Err),
        };
        let item = next_batch.map(|host| Batch::on_device(host?, &self.device));
        if matches!(item, Some(Err(_))) {
            self.source = BatchSource::Failed(None);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_prefetched_only_on_request() {
        let split = Split::new(vec![0; 6], vec![0; 6], [1, 1], 1).unwrap();
        let batches = split.batches(2, &ternion_cpu::device());
        assert!(matches!((&batches).into_iter().source, BatchSource::OnDemand(_)));
        assert!(matches!(batches.clone().prefetch(1).into_iter().source, BatchSource::Ahead(_)));
        assert!(batches.prefetch(usize::MAX).into_iter().all(|batch| batch.is_ok()));
    }

    #[test]
    fn the_returned_order_is_that_of_the_batches() {
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
