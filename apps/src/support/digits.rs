//! A set of digits on a device: batches are gathered there, so that the host only provides the
//! indices of a step's images.

use ternion::prelude::*;

/// Mean and standard deviation of MNIST's pixels, as fractions of white.
const PIXEL_MEAN: f32 = 0.1307;
const PIXEL_STD: f32 = 0.3081;

/// The label that `cross_entropy` ignores.
const NO_LABEL: i32 = -100;

/// Images and labels, followed by one black image without a label: the padding of incomplete
/// batches.
pub struct DigitSet {
    /// `[count + 1, 1, rows, cols]`, f32, normalized.
    images: Tensor,
    /// `[count + 1]`, i32.
    labels: Tensor,
    count: usize,
}

impl DigitSet {
    /// Copies the whole split to `device`, with `(pixel / 255 - mean) / std` for each pixel.
    pub fn new(split: &Split, device: &Device) -> Result<DigitSet> {
        let (count, rows, cols) = (split.len(), split.rows(), split.cols());
        // Pixels are uploaded as bytes, a quarter of their size as f32.
        let pixels = Tensor::from_slice(split.pixels(), [count, 1, rows, cols], device)?;
        let padding = Tensor::zeros([1, 1, rows, cols], DType::U8, device)?;
        let images = Tensor::concat(&[&pixels, &padding], 0)?.to_dtype(DType::F32)?;
        images.div_scalar_(255.0)?;
        images.sub_scalar_(f64::from(PIXEL_MEAN))?;
        images.div_scalar_(f64::from(PIXEL_STD))?;
        let labels = split.labels().iter().map(|&label| i32::from(label)).chain([NO_LABEL]).collect();
        Ok(DigitSet { images, labels: Tensor::from_vec(labels, count + 1, device)?, count })
    }

    /// Returns the device of the digits.
    pub fn device(&self) -> &Device {
        self.images.device()
    }

    /// Returns the number of digits, without the padding.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns images and labels of the digits with indices `rows`, `[batch]` i64.
    pub fn gather(&self, rows: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok((self.images.index_select(0, rows)?, self.labels.index_select(0, rows)?))
    }

    /// Returns at most `most` images from index `start` on, without a copy.
    pub fn images(&self, start: usize, most: usize) -> Result<Tensor> {
        self.images.narrow(0, start, most.min(self.count - start.min(self.count)))
    }

    /// Returns the indices of the images of each batch, `[batches, batch]` i64: all batches have
    /// the same size, the last one is padded.
    pub fn batches(&self, order: &[usize], batch: usize) -> Result<Tensor> {
        let count = order.len().div_ceil(batch);
        let mut rows: Vec<i64> = order.iter().map(|&index| index as i64).collect();
        rows.resize(count * batch, self.count as i64);
        Tensor::from_vec(rows, [count, batch], self.device())
    }
}
