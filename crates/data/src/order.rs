//! Which examples are in which batch, and their pixels as floats. This module works on the host and
//! does not use tensors.

use crate::error::{DataError, Result};
use crate::random::Philox;
use crate::split::Split;
use crate::transform::{Image, Transforms};

/// How a last batch that is not full is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastBatch {
    /// The last batch is smaller than the others.
    #[default]
    Keep,
    /// The last batch is dropped.
    Drop,
    /// The last batch is padded with black images of label 0. Every batch has a mask: 1 for an
    /// example, 0 for padding.
    PadWithMask,
}

/// The order of the examples in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    AsStored,
    Shuffled { seed: u64 },
}

impl Order {
    /// Returns the indices of `count` examples in the order of `epoch`.
    pub(crate) fn positions(self, count: usize, epoch: u64) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..count).collect();
        if let Order::Shuffled { seed } = self {
            Philox::new(seed, epoch).shuffle(&mut positions);
        }
        positions
    }
}

/// `(pixel / 255 - mean) / std`
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normalization {
    mean: f32,
    std: f32,
}

impl Default for Normalization {
    /// `pixel / 255`, exactly: subtracting 0 and dividing by 1 change no bit.
    fn default() -> Self {
        Normalization { mean: 0.0, std: 1.0 }
    }
}

impl Normalization {
    /// # Errors
    /// Returns an error if a number is not finite, or the standard deviation is not positive.
    pub(crate) fn new(mean: f32, std: f32) -> Result<Self> {
        if mean.is_finite() && std.is_finite() && std > 0.0 {
            Ok(Normalization { mean, std })
        } else {
            Err(DataError::Normalization { mean, std })
        }
    }

    /// Returns one normalization for each of `channels`.
    ///
    /// # Errors
    /// Same as [`Normalization::new`]; also if the number of means or standard deviations is not
    /// `channels`.
    pub(crate) fn of_channels(means: &[f32], stds: &[f32], channels: usize) -> Result<Vec<Self>> {
        if means.len() != channels || stds.len() != channels {
            let (means, stds) = (means.len(), stds.len());
            return Err(DataError::ScaleCount { expected: channels, means, stds });
        }
        let each = means.iter().zip(stds);
        each.map(|(&mean, &std)| Normalization::new(mean, std)).collect()
    }

    fn apply(self, pixel: u8) -> f32 {
        (f32::from(pixel) / 255.0 - self.mean) / self.std
    }
}

/// How an epoch is divided into batches.
#[derive(Debug, Clone)]
pub(crate) struct BatchPlan {
    pub split: Split,
    pub order: Order,
    pub epoch: u64,
    pub batch_size: usize,
    pub last_batch: LastBatch,
    /// One normalization per channel.
    pub normalization: Vec<Normalization>,
    pub transforms: Transforms,
}

impl BatchPlan {
    /// Returns the number of batches in an epoch; 0 for a batch size of 0.
    pub(crate) fn batch_count(&self) -> usize {
        let count = self.split.len();
        match self.last_batch {
            LastBatch::Drop => count.checked_div(self.batch_size).unwrap_or(0),
            LastBatch::Keep | LastBatch::PadWithMask if self.batch_size == 0 => 0,
            LastBatch::Keep | LastBatch::PadWithMask => count.div_ceil(self.batch_size),
        }
    }

    /// Returns the batches of the epoch.
    ///
    /// # Errors
    /// Returns an error if the batch size is 0, or so large that a padded batch would exhaust
    /// memory.
    pub(crate) fn host_batches(self) -> Result<HostBatches> {
        if self.batch_size == 0 {
            return Err(DataError::ZeroBatchSize);
        }
        // Far above any useful size: at twice the number of examples, at least half of a batch is
        // padding.
        let (examples, limit) = (self.split.len(), self.split.len().saturating_mul(2).max(1 << 20));
        if self.last_batch == LastBatch::PadWithMask && self.batch_size > limit {
            return Err(DataError::LargeBatchSize { batch_size: self.batch_size, examples, limit });
        }
        let positions = self.order.positions(self.split.len(), self.epoch);
        let remaining = self.batch_count();
        Ok(HostBatches { plan: self, positions, next_position: 0, remaining })
    }
}

/// A batch before conversion to tensors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostBatch {
    /// `[capacity, channels, rows, cols]`
    pub images: Vec<f32>,
    /// `[capacity]`
    pub labels: Vec<i64>,
    /// `[capacity]`
    pub mask: Option<Vec<f32>>,
    /// The number of examples, without padding.
    pub size: usize,
    /// `[channels, rows, cols]` of an image.
    pub image_size: [usize; 3],
}

/// The batches of one epoch.
#[derive(Debug)]
pub(crate) struct HostBatches {
    plan: BatchPlan,
    positions: Vec<usize>,
    next_position: usize,
    remaining: usize,
}

impl HostBatches {
    fn gather(&self, positions: &[usize]) -> HostBatch {
        let BatchPlan { split, batch_size, last_batch, transforms, .. } = &self.plan;
        let capacity = if *last_batch == LastBatch::PadWithMask { *batch_size } else { positions.len() };
        let [rows, cols] = transforms.output_size([split.rows(), split.cols()]);
        let image_size = [split.channels(), rows, cols];
        let mut images = Vec::with_capacity(capacity * image_size.iter().product::<usize>());
        let mut labels = Vec::with_capacity(capacity);
        for &position in positions {
            self.extend_by_image(&mut images, position);
            labels.push(i64::from(split.labels()[position]));
        }
        for _ in positions.len()..capacity {
            images.extend(self.black().iter().flat_map(|&black| std::iter::repeat_n(black, rows * cols)));
        }
        labels.resize(capacity, 0);
        let is_example = |row| if row < positions.len() { 1.0 } else { 0.0 };
        let mask = (*last_batch == LastBatch::PadWithMask).then(|| (0..capacity).map(is_example).collect());
        HostBatch { images, labels, mask, size: positions.len(), image_size }
    }

    /// Appends the image at `position`, normalized and transformed.
    fn extend_by_image(&self, images: &mut Vec<f32>, position: usize) {
        let BatchPlan { split, epoch, normalization, transforms, .. } = &self.plan;
        let size = [split.rows(), split.cols()];
        let pixels = &split.pixels()[position * split.image_bytes()..(position + 1) * split.image_bytes()];
        let channels = pixels.chunks_exact(size[0] * size[1]).zip(normalization);
        let extend = |values: &mut Vec<f32>| {
            channels
                .for_each(|(channel, scale)| values.extend(channel.iter().map(|&pixel| scale.apply(pixel))));
        };
        if transforms.is_empty() {
            extend(images);
        } else {
            let mut values = Vec::with_capacity(pixels.len());
            extend(&mut values);
            images.extend(transforms.apply(Image { values, size }, &self.black(), *epoch, position).values);
        }
    }

    /// Returns the value of black in each channel.
    fn black(&self) -> Vec<f32> {
        self.plan.normalization.iter().map(|scale| scale.apply(0)).collect()
    }
}

impl Iterator for HostBatches {
    type Item = HostBatch;

    fn next(&mut self) -> Option<HostBatch> {
        self.remaining = self.remaining.checked_sub(1)?;
        let start = self.next_position;
        self.next_position = (start + self.plan.batch_size).min(self.positions.len());
        Some(self.gather(&self.positions[start..self.next_position]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten images of 1 x 2 pixels; image `i` is `[i, 255]` with label `i % 3`.
    fn plan(batch_size: usize, last_batch: LastBatch) -> BatchPlan {
        let pixels = (0..10).flat_map(|number| [number, 255]).collect();
        let labels = (0..10).map(|number| number % 3).collect();
        BatchPlan {
            split: Split::new(pixels, labels, [1, 2], 3).unwrap(),
            order: Order::AsStored,
            epoch: 0,
            batch_size,
            last_batch,
            normalization: vec![Normalization::default()],
            transforms: Transforms::default(),
        }
    }

    fn batches(plan: BatchPlan) -> Vec<HostBatch> {
        let expected = plan.batch_count();
        let batches: Vec<_> = plan.host_batches().unwrap().collect();
        assert_eq!(batches.len(), expected);
        batches
    }

    /// Returns the indices of the images, recovered from their first pixels.
    fn numbers(batches: &[HostBatch]) -> Vec<usize> {
        let first_pixel = |image: &[f32]| (image[0] * 255.0).round() as usize;
        batches.iter().flat_map(|batch| batch.images.chunks(2).map(first_pixel)).collect()
    }

    /// These orders must not change: the same seed gives the same training run on every platform
    /// and in every version.
    #[test]
    fn shuffled_orders_are_pinned() {
        let order = |seed, epoch| Order::Shuffled { seed }.positions(10, epoch);
        assert_eq!(order(0, 0), [5, 2, 0, 8, 7, 3, 1, 4, 6, 9]);
        assert_eq!(order(0, 1), [4, 0, 7, 9, 5, 8, 2, 6, 1, 3]);
        assert_eq!(order(1, 0), [7, 2, 5, 4, 1, 6, 9, 3, 0, 8]);
        let large = Order::Shuffled { seed: 42 }.positions(60_000, 3);
        assert_eq!(large[..5], [43635, 48063, 27230, 3082, 28594]);
        let mut sorted = large;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..60_000));
    }

    #[test]
    fn a_kept_last_batch_is_smaller() {
        let batches = batches(plan(4, LastBatch::Keep));
        assert_eq!(batches.iter().map(|batch| batch.size).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(numbers(&batches), (0..10).collect::<Vec<_>>());
        assert_eq!(batches[2].labels, [2, 0]);
        assert!(batches.iter().all(|batch| batch.mask.is_none()));
    }

    #[test]
    fn dropped_last_batch_is_omitted() {
        let dropped = batches(plan(4, LastBatch::Drop));
        assert_eq!(numbers(&dropped), (0..8).collect::<Vec<_>>());
        assert!(batches(plan(11, LastBatch::Drop)).is_empty());
        assert_eq!(batches(plan(5, LastBatch::Drop)).len(), 2);
    }

    #[test]
    fn a_padded_last_batch_has_the_full_size_and_a_mask() {
        let mut plan = plan(4, LastBatch::PadWithMask);
        plan.normalization = vec![Normalization::new(0.5, 0.25).unwrap()];
        let batches = batches(plan);
        assert_eq!(batches[0].mask, Some(vec![1.0; 4]));
        let last = &batches[2];
        assert_eq!((last.size, last.labels.as_slice()), (2, &[2, 0, 0, 0][..]));
        assert_eq!(last.mask, Some(vec![1.0, 1.0, 0.0, 0.0]));
        // Black is -2 with this normalization.
        assert_eq!(last.images[4..], [-2.0; 4]);
        assert_eq!(last.images[3], 2.0);
    }

    #[test]
    fn each_epoch_has_every_example_once_in_a_different_order() {
        let order_of = |epoch| {
            let plan = BatchPlan { order: Order::Shuffled { seed: 5 }, epoch, ..plan(3, LastBatch::Keep) };
            let batches = batches(plan);
            let labels: Vec<i64> = batches.iter().flat_map(|batch| batch.labels.clone()).collect();
            let numbers = numbers(&batches);
            assert!(numbers.iter().zip(labels).all(|(&number, label)| (number % 3) as i64 == label));
            numbers
        };
        let (first, second) = (order_of(0), order_of(1));
        assert_ne!(first, second);
        assert_eq!(first, order_of(0));
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn pixels_are_normalized_by_the_documented_formula() {
        let images = &batches(plan(10, LastBatch::Keep))[0].images;
        assert_eq!(images[..4], [0.0, 1.0, 1.0 / 255.0, 1.0]);
        let normalization = Normalization::new(0.1307, 0.3081).unwrap();
        assert!((normalization.apply(51) - (0.2 - 0.1307) / 0.3081).abs() < 1e-6);
    }

    #[test]
    fn invalid_settings_are_errors() {
        assert!(matches!(plan(0, LastBatch::Keep).host_batches(), Err(DataError::ZeroBatchSize)));
        let message = plan(usize::MAX, LastBatch::PadWithMask).host_batches().unwrap_err().to_string();
        assert!(message.contains("expected at most 1048576"), "{message}");
        assert_eq!(plan(usize::MAX, LastBatch::Keep).host_batches().expect("one batch").count(), 1);
        assert_eq!(plan(0, LastBatch::Drop).batch_count() + plan(0, LastBatch::Keep).batch_count(), 0);
        for (mean, std) in [(f32::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, f32::INFINITY)] {
            assert!(Normalization::new(mean, std).is_err(), "{mean} {std}");
        }
    }
}
