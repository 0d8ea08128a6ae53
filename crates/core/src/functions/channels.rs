//! Ops on channels: pixel shuffle, channel shuffle, instance normalization, local response
//! normalization and channel-wise dropout.

use super::{check_floating, in_accumulator};
use crate::error::{Error, Result};
use crate::ops::random::check_probability;
use crate::{RunningStatistics, Shape, Tensor};

impl Tensor {
    /// Rearranges channels into pixels (Shi et al. 2016, "Real-time single image and video
    /// super-resolution using an efficient sub-pixel convolutional neural network").
    ///
    /// # Shapes
    /// `[.., channels * factor^2, height, width]` ->
    /// `[.., channels, height * factor, width * factor]`
    ///
    /// # Errors
    /// Returns an error if there are fewer than 3 axes, if `factor` is 0, or if the number of
    /// channels is not a multiple of its square.
    pub fn pixel_shuffle(&self, factor: usize) -> Result<Tensor> {
        let op = "pixel_shuffle";
        let (outer, [channels, height, width]) = image_dims(op, self)?;
        let square = factor.saturating_mul(factor);
        if factor == 0 || !channels.is_multiple_of(square) {
            let detail =
                format!("{channels} channels by a factor of {factor}, expected a multiple of its square");
            return Err(Error::invalid(op, detail));
        }
        let batch: usize = outer.iter().product();
        let parts = self.reshape([batch, channels / square, factor, factor, height, width])?;
        let shape = [outer, &[channels / square, height * factor, width * factor]].concat();
        parts.permute([0, 1, 4, 2, 5, 3])?.contiguous()?.reshape(Shape::new(&shape)?)
    }

    /// Rearranges pixels into channels: the inverse of [`pixel_shuffle`](Tensor::pixel_shuffle).
    ///
    /// # Shapes
    /// `[.., channels, height * factor, width * factor]` ->
    /// `[.., channels * factor^2, height, width]`
    ///
    /// # Errors
    /// Returns an error if there are fewer than 3 axes, if `factor` is 0, or if height or width is
    /// not a multiple of it.
    pub fn pixel_unshuffle(&self, factor: usize) -> Result<Tensor> {
        let op = "pixel_unshuffle";
        let (outer, [channels, height, width]) = image_dims(op, self)?;
        if factor == 0 || !height.is_multiple_of(factor) || !width.is_multiple_of(factor) {
            let detail =
                format!("images of {height} x {width} by a factor of {factor}, expected multiples of it");
            return Err(Error::invalid(op, detail));
        }
        let batch: usize = outer.iter().product();
        let (rows, columns) = (height / factor, width / factor);
        let parts = self.reshape([batch, channels, rows, factor, columns, factor])?;
        let shape =
            [outer, &[channels.saturating_mul(factor).saturating_mul(factor), rows, columns]].concat();
        parts.permute([0, 1, 3, 5, 2, 4])?.contiguous()?.reshape(Shape::new(&shape)?)
    }

    /// Normalizes each channel of each sample to mean 0 and variance 1, then applies
    /// `* weight + bias` (Ulyanov et al. 2016, "Instance normalization").
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, weight and bias `[channels]` -> same shape as self
    ///
    /// # Errors
    /// Returns an error if there are fewer than 3 axes, if a channel has fewer than 2 values, if
    /// shapes or dtypes do not match, or if the dtype is not floating-point.
    pub fn instance_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let name = "instance_norm";
        check_floating(name, self)?;
        let values = self.dims().iter().skip(2).product::<usize>();
        if self.rank() < 3 || (self.elements() > 0 && values < 2) {
            let detail =
                format!("an input of shape {:?}, expected more than 1 value in each channel", self.shape());
            return Err(Error::invalid(name, detail));
        }
        // Zero channels form one empty group.
        self.group_norm(self.dims()[1].max(1), weight, bias, eps)
    }

    /// Same as [`instance_norm`](Tensor::instance_norm), and also updates running statistics in
    /// place (in f32 for f16 and bf16) with the mean and the unbiased variance of each sample,
    /// averaged over the batch: see [`RunningStatistics::follow`]. They are unchanged if the input
    /// has no elements.
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, all others `[channels]` -> same shape as self
    ///
    /// # Errors
    /// Same as [`instance_norm`](Tensor::instance_norm). Also returns an error if the statistics
    /// have another shape or are not floating-point.
    pub fn instance_norm_tracked(
        &self,
        [weight, bias]: [Option<&Tensor>; 2],
        [running_mean, running_var]: [&Tensor; 2],
        momentum: f64,
        eps: f64,
    ) -> Result<Tensor> {
        let running = RunningStatistics::new("instance_norm", self, running_mean, running_var)?;
        let output = self.instance_norm(weight, bias, eps)?;
        let &[batch, channels, ref inner @ ..] = self.dims() else { return Ok(output) };
        if self.elements() > 0 {
            let count = inner.iter().product();
            let samples = self.detach().reshape([batch * channels, count])?;
            let samples = samples.to_dtype(self.dtype().accumulator())?;
            let means = samples.mean_keep(1)?;
            let variances = samples.sub(&means)?.square()?.mean(1)?;
            let batch_mean = |each: Tensor| each.reshape([batch, channels])?.mean(0);
            running.follow([&batch_mean(means)?, &batch_mean(variances)?], count, momentum)?;
        }
        Ok(output)
    }

    /// Applies [`dropout`](Tensor::dropout) to whole channels of sequences (Tompson et al. 2015,
    /// "Efficient object localization using convolutional networks").
    ///
    /// # Shapes
    /// `[batch, channels, length]` or `[channels, length]` -> same shape
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`, if the rank is not one of these, or
    /// if the dtype is not floating-point.
    pub fn dropout1d(&self, p: f64) -> Result<Tensor> {
        let mask_axes = if self.rank() == 2 { 1 } else { 2 };
        feature_dropout("dropout1d", self, p, mask_axes, [2, 3])
    }

    /// Applies [`dropout`](Tensor::dropout) to whole channels of images (Tompson et al. 2015,
    /// "Efficient object localization using convolutional networks").
    ///
    /// # Shapes
    /// `[batch, channels, height, width]` or `[batch, channels, length]` -> same shape
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`, if the rank is not one of these, or
    /// if the dtype is not floating-point.
    pub fn dropout2d(&self, p: f64) -> Result<Tensor> {
        feature_dropout("dropout2d", self, p, 2, [3, 4])
    }

    /// Interleaves the channels of `groups` groups: the first channel of each group, then the
    /// second of each, and so on (Zhang et al. 2018, "ShuffleNet").
    ///
    /// # Shapes
    /// `[batch, channels, ..]`, at least 3 axes -> same shape
    ///
    /// # Errors
    /// Returns an error if there are fewer than 3 axes, if `groups` is 0, or if the number of
    /// channels is not a multiple of it.
    pub fn channel_shuffle(&self, groups: usize) -> Result<Tensor> {
        let op = "channel_shuffle";
        let channels = channel_count(op, self)?;
        if groups == 0 || !channels.is_multiple_of(groups) {
            let detail = format!("{channels} channels in {groups} groups, expected a multiple");
            return Err(Error::invalid(op, detail));
        }
        let inner: usize = self.dims()[2..].iter().product();
        let parts = self.reshape([self.shape().dim(0), groups, channels / groups, inner])?;
        parts.permute([0, 2, 1, 3])?.contiguous()?.reshape(*self.shape())
    }

    /// Divides each element by the activity of neighboring channels:
    /// `x / (k + alpha / size * sum of squares)^beta`. The sum covers the channels from `size / 2`
    /// before to `(size - 1) / 2` after (Krizhevsky et al. 2012, section 3.3, where alpha is not
    /// divided by the size).
    ///
    /// # Shapes
    /// `[batch, channels, ..]`, at least 3 axes -> same shape
    ///
    /// # Errors
    /// Returns an error if there are fewer than 3 axes, if `size` is 0, or if the dtype is not
    /// floating-point.
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Result<Tensor> {
        let op = "local_response_norm";
        check_floating(op, self)?;
        let channels = channel_count(op, self)?;
        if size == 0 {
            return Err(Error::invalid(op, "a size of 0, expected at least 1"));
        }
        if self.elements() == 0 {
            return Ok(self.clone());
        }
        in_accumulator([self], |[x]| {
            let squares = window_sums(&x.square()?, channels, size / 2, (size - 1) / 2)?;
            let activity = squares.mul_scalar(alpha / size as f64)?;
            x.div(&activity.add_scalar(k)?.powf(beta)?)
        })
    }
}

/// Returns, for each channel, the sum over itself, `before` channels before it and `after`
/// channels after it. The sum is composed of sums over 2^i consecutive channels, which are computed
/// by doubling.
fn window_sums(x: &Tensor, channels: usize, before: usize, after: usize) -> Result<Tensor> {
    let (before, after) = (before.min(channels - 1), after.min(channels - 1));
    let mut border = vec![[0, 0]; x.rank()];
    border[1] = [before, after];
    let mut runs = x.pad(&border, 0)?;
    let length = before + after + 1;
    let mut sum = None::<Tensor>;
    for level in 0..=length.ilog2() {
        let width = 1usize << level;
        if length & width != 0 {
            let part = runs.narrow(1, length & (width - 1), channels)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
        if level < length.ilog2() {
            let rest = runs.shape().dim(1) - width;
            runs = runs.narrow(1, 0, rest)?.add(&runs.narrow(1, width, rest)?)?;
        }
    }
    sum.ok_or_else(|| Error::invalid("local_response_norm", "no channels"))
}

/// Returns the sizes of the leading axes, and channels, height and width.
fn image_dims<'a>(op: &'static str, x: &'a Tensor) -> Result<(&'a [usize], [usize; 3])> {
    match x.dims() {
        [outer @ .., channels, height, width] => Ok((outer, [*channels, *height, *width])),
        _ => Err(Error::Rank { op, expected: "at least 3".into(), shape: Box::new(*x.shape()) }),
    }
}

/// Returns the number of channels of a tensor with at least 3 axes.
fn channel_count(op: &'static str, x: &Tensor) -> Result<usize> {
    match x.dims() {
        [_, channels, _, ..] => Ok(*channels),
        _ => Err(Error::Rank { op, expected: "at least 3".into(), shape: Box::new(*x.shape()) }),
    }
}

/// For each index of the first `mask_axes` axes, drops either all elements or none.
fn feature_dropout(
    name: &'static str,
    x: &Tensor,
    p: f64,
    mask_axes: usize,
    ranks: [usize; 2],
) -> Result<Tensor> {
    check_floating(name, x)?;
    check_probability(name, p)?;
    if !ranks.contains(&x.rank()) {
        let expected = format!("{} or {}", ranks[0], ranks[1]);
        return Err(Error::Rank { op: name, expected, shape: Box::new(*x.shape()) });
    }
    let mut dims = vec![1; x.rank()];
    dims[..mask_axes].copy_from_slice(&x.dims()[..mask_axes]);
    let mask = Tensor::ones(&dims[..], x.dtype(), x.device())?.dropout(p)?;
    x.mul(&mask)
}
