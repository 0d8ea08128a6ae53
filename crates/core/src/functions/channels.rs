//! Channels in another order, as pixels, divided by their neighbors, normalized each by itself, and dropped as a whole.

use super::{check_floating, in_accumulator};
use crate::error::{Error, Result};
use crate::ops::random::check_probability;
use crate::{RunningStatistics, Shape, Tensor};

impl Tensor {
    /// Channels as pixels (Shi et al. 2016, "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural network").
    ///
    /// # Shapes
    /// `[.., channels * factor^2, height, width]` to `[.., channels, height * factor, width * factor]`.
    ///
    /// # Errors
    /// Fewer than 3 axes, a factor of 0, channels that its square does not divide.
    pub fn pixel_shuffle(&self, factor: usize) -> Result<Tensor> {
        let op = "pixel_shuffle";
        let (outer, [channels, height, width]) = images(op, self)?;
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

    /// Pixels as channels: what [`pixel_shuffle`](Tensor::pixel_shuffle) takes back.
    ///
    /// # Shapes
    /// `[.., channels, height * factor, width * factor]` to `[.., channels * factor^2, height, width]`.
    ///
    /// # Errors
    /// Fewer than 3 axes, a factor of 0, a height or width that it does not divide.
    pub fn pixel_unshuffle(&self, factor: usize) -> Result<Tensor> {
        let op = "pixel_unshuffle";
        let (outer, [channels, height, width]) = images(op, self)?;
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

    /// Each channel of each sample shifted to mean 0 and scaled to variance 1, then `* weight + bias` (Ulyanov et al. 2016, "Instance normalization").
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, weight and bias `[channels]` -> as self
    ///
    /// # Errors
    /// Fewer than 3 axes, fewer than 2 values in a channel; shapes or dtypes that do not fit, a dtype that is not floating.
    pub fn instance_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let name = "instance_norm";
        check_floating(name, self)?;
        let values = self.dims().iter().skip(2).product::<usize>();
        if self.rank() < 3 || (self.elements() > 0 && values < 2) {
            let detail =
                format!("an input of shape {:?}, expected more than 1 value in each channel", self.shape());
            return Err(Error::invalid(name, detail));
        }
        // Of no channels there is one group of none.
        self.group_norm(self.dims()[1].max(1), weight, bias, eps)
    }

    /// As [`instance_norm`](Tensor::instance_norm), and running statistics follow the means over the batch of each sample's mean and unbiased variance, in place
    /// (in f32 for f16 and bf16): see [`RunningStatistics::follow`]. They stay as they are where there is no value.
    ///
    /// # Shapes
    /// self `[batch, channels, ..]`, all others `[channels]` -> as self
    ///
    /// # Errors
    /// As there; statistics of another shape, or that are not floating.
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
            let of_batch = |each: Tensor| each.reshape([batch, channels])?.mean(0);
            running.follow([&of_batch(means)?, &of_batch(variances)?], count, momentum)?;
        }
        Ok(output)
    }

    /// [`dropout`](Tensor::dropout) of whole channels of sequences (Tompson et al. 2015, "Efficient object localization using convolutional networks").
    ///
    /// # Shapes
    /// `[batch, channels, length]` or `[channels, length]`, unchanged
    ///
    /// # Errors
    /// A probability outside `0..=1`, other axes, a dtype that is not floating.
    pub fn dropout1d(&self, p: f64) -> Result<Tensor> {
        let kept = if self.rank() == 2 { 1 } else { 2 };
        dropped("dropout1d", self, p, kept, [2, 3])
    }

    /// [`dropout`](Tensor::dropout) of whole channels of images (Tompson et al. 2015, "Efficient object localization using convolutional networks").
    ///
    /// # Shapes
    /// `[batch, channels, height, width]` or `[batch, channels, length]`, unchanged
    ///
    /// # Errors
    /// A probability outside `0..=1`, other axes, a dtype that is not floating.
    pub fn dropout2d(&self, p: f64) -> Result<Tensor> {
        dropped("dropout2d", self, p, 2, [3, 4])
    }

    /// The channels of `groups` groups in turn: the first of each, the second of each, and so on (Zhang et al. 2018, "ShuffleNet").
    ///
    /// # Shapes
    /// `[batch, channels, ..]`, at least 3 axes, to the same.
    ///
    /// # Errors
    /// Fewer than 3 axes, no groups, channels that they do not divide.
    pub fn channel_shuffle(&self, groups: usize) -> Result<Tensor> {
        let op = "channel_shuffle";
        let channels = more_than_two(op, self)?;
        if groups == 0 || !channels.is_multiple_of(groups) {
            let detail = format!("{channels} channels in {groups} groups, expected a multiple");
            return Err(Error::invalid(op, detail));
        }
        let inner: usize = self.dims()[2..].iter().product();
        let parts = self.reshape([self.shape().dim(0), groups, channels / groups, inner])?;
        parts.permute([0, 2, 1, 3])?.contiguous()?.reshape(*self.shape())
    }

    /// Elements divided by the activity of neighboring channels: `x / (k + alpha / size * sum of squares)^beta`, the sum over channels from `size / 2` before
    /// to `(size - 1) / 2` behind (Krizhevsky et al. 2012, section 3.3, where alpha is not divided by the size).
    ///
    /// # Shapes
    /// `[batch, channels, ..]`, at least 3 axes, to the same.
    ///
    /// # Errors
    /// Fewer than 3 axes, a size of 0, a dtype that is not floating.
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Result<Tensor> {
        let op = "local_response_norm";
        check_floating(op, self)?;
        let channels = more_than_two(op, self)?;
        if size == 0 {
            return Err(Error::invalid(op, "a size of 0, expected at least 1"));
        }
        if self.elements() == 0 {
            return Ok(self.clone());
        }
        in_accumulator([self], |[x]| {
            let squares = around(&x.square()?, channels, size / 2, (size - 1) / 2)?;
            let activity = squares.mul_scalar(alpha / size as f64)?;
            x.div(&activity.add_scalar(k)?.powf(beta)?)
        })
    }
}

/// The sums of so many channels before and behind each, itself included: of runs of a power of 2 channels, found by doubling.
fn around(x: &Tensor, channels: usize, before: usize, behind: usize) -> Result<Tensor> {
    let (before, behind) = (before.min(channels - 1), behind.min(channels - 1));
    let mut border = vec![[0, 0]; x.rank()];
    border[1] = [before, behind];
    let mut runs = x.pad(&border, 0)?;
    let length = before + behind + 1;
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

/// The sizes of images, and of the axes before them.
fn images<'a>(op: &'static str, x: &'a Tensor) -> Result<(&'a [usize], [usize; 3])> {
    match x.dims() {
        [outer @ .., channels, height, width] => Ok((outer, [*channels, *height, *width])),
        _ => Err(Error::Rank { op, expected: "at least 3".into(), shape: Box::new(*x.shape()) }),
    }
}

/// The channels of a tensor that has elements of each.
fn more_than_two(op: &'static str, x: &Tensor) -> Result<usize> {
    match x.dims() {
        [_, channels, _, ..] => Ok(*channels),
        _ => Err(Error::Rank { op, expected: "at least 3".into(), shape: Box::new(*x.shape()) }),
    }
}

/// Each index of the first `kept` axes is dropped with everything behind it, or nothing of it.
fn dropped(name: &'static str, x: &Tensor, p: f64, kept: usize, ranks: [usize; 2]) -> Result<Tensor> {
    check_floating(name, x)?;
    check_probability(name, p)?;
    if !ranks.contains(&x.rank()) {
        let expected = format!("{} or {}", ranks[0], ranks[1]);
        return Err(Error::Rank { op: name, expected, shape: Box::new(*x.shape()) });
    }
    let mut dims = vec![1; x.rank()];
    dims[..kept].copy_from_slice(&x.dims()[..kept]);
    let mask = Tensor::ones(&dims[..], x.dtype(), x.device())?.dropout(p)?;
    x.mul(&mask)
}
