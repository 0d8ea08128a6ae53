//! A set of digits on a device: batches are picked there, so that a step needs nothing from the host but the numbers of its images.

use ternion::prelude::*;

/// Mean and standard deviation of MNIST's pixels, as a share of white.
const PIXEL_MEAN: f32 = 0.1307;
const PIXEL_DEVIATION: f32 = 0.3081;

/// The label that `cross_entropy` counts for nothing.
const NO_LABEL: i32 = -100;

/// Images and labels, and behind the last of them a black image without a label: filling for batches that are not full.
pub struct DigitSet {
    /// `[count + 1, 1, rows, cols]`, f32, normalised.
    images: Tensor,
    /// `[count + 1]`, i32.
    labels: Tensor,
    count: usize,
}

impl DigitSet {
    /// The whole split, with `(pixel / 255 - mean) / deviation` in place of its pixels.
    pub fn new(split: &Split, device: &Device) -> Result<DigitSet> {
        let (count, rows, cols) = (split.len(), split.rows(), split.cols());
        // Pixels go to the device as bytes: a quarter of what they are there.
        let pixels = Tensor::from_slice(split.pixels(), [count, 1, rows, cols], device)?;
        let filling = Tensor::zeros([1, 1, rows, cols], DType::U8, device)?;
        let images = Tensor::concat(&[&pixels, &filling], 0)?.to_dtype(DType::F32)?;
        images.div_scalar_(255.0)?;
        images.sub_scalar_(f64::from(PIXEL_MEAN))?;
        images.div_scalar_(f64::from(PIXEL_DEVIATION))?;
        let labels = split.labels().iter().map(|&label| i32::from(label)).chain([NO_LABEL]).collect();
        Ok(DigitSet { images, labels: Tensor::from_vec(labels, count + 1, device)?, count })
    }

    /// Where the digits are.
    pub fn device(&self) -> &Device {
        self.images.device()
    }

    /// How many digits there are, without the filling.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Images and labels of the digits numbered by `rows`, `[batch]` i64.
    pub fn pick(&self, rows: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok((self.images.index_select(0, rows)?, self.labels.index_select(0, rows)?))
    }

    /// The images from number `start` on, at most `most` of them, without a copy.
    pub fn images(&self, start: usize, most: usize) -> Result<Tensor> {
        self.images.narrow(0, start, most.min(self.count - start.min(self.count)))
    }

    /// The numbers of the images of each batch, `[batches, batch]` i64: every batch is of one size, the last one filled up.
    pub fn batches(&self, order: &[usize], batch: usize) -> Result<Tensor> {
        let count = order.len().div_ceil(batch);
        let mut rows: Vec<i64> = order.iter().map(|&number| number as i64).collect();
        rows.resize(count * batch, self.count as i64);
        Tensor::from_vec(rows, [count, batch], self.device())
    }
}
