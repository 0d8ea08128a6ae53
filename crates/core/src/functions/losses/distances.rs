//! Losses of distances and angles between vectors.

use super::{float_input, hinge};
use crate::op::check;
use crate::ops::reduce::in_length_units;
use crate::shape::AxisSet;
use crate::{Axis, Error, Reduction, Result, Tensor};

/// Options of [`Tensor::triplet_margin_loss`].
#[derive(Clone, Copy, Debug)]
pub struct TripletOptions {
    /// By how much the distance to the negative should exceed that to the positive. Default: 1.
    pub margin: f64,
    /// The exponent of the norm. Default: 2.
    pub p: f64,
    /// Added to each difference. Default: 1e-6.
    pub eps: f64,
    /// Whether the distance between positive and negative is used where it is smaller than that
    /// between anchor and negative (Balntas et al. 2016). Default: false.
    pub swap: bool,
    /// How the losses are reduced. Default: mean.
    pub reduction: Reduction,
}

impl Default for TripletOptions {
    fn default() -> Self {
        TripletOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

/// Added to squared lengths, so that zero vectors have an angle. The value is PyTorch's.
const LENGTH_EPS: f64 = 1e-12;

impl Tensor {
    /// Returns the cosine of the angle between vectors along `axis`, with broadcasting. Each vector
    /// is divided by its length, or by `eps` if the length is smaller; no gradient flows through
    /// `eps`.
    ///
    /// # Shapes
    /// `[.., n, ..]` and the same -> the shape without `axis`
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, if the axis does not exist, if the dtypes
    /// differ or are not floating-point, or if `eps` is negative.
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl Into<Axis>, eps: f64) -> Result<Tensor> {
        let name = "cosine_similarity";
        if eps.is_nan() || eps < 0.0 {
            return Err(Error::invalid(name, format!("eps {eps}, expected at least 0")));
        }
        crate::functions::check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let shape = self.shape().broadcast(other.shape(), name)?;
        let axis = axis.into().resolve(&shape, name)?;
        crate::functions::in_accumulator([self, other], |pair| {
            let mut directions = Vec::with_capacity(2);
            for x in pair {
                let x = x.expand(shape)?;
                let length = x.norm_keep(axis)?;
                let is_short = length.lt_scalar(eps)?;
                directions.push(x.div(&is_short.where_(&length.scalar_like(eps)?, &length)?)?);
            }
            directions[0].mul(&directions[1])?.sum(axis)
        })
    }

    /// Returns the `p`-norm of the differences along the last axis, with broadcasting. `eps` is
    /// added to each difference. With `keep` the last axis is kept with size 1.
    ///
    /// # Shapes
    /// `[.., n]` and the same -> `[..]`
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast or have no axis, if the dtypes differ or are
    /// not floating-point, or if `p` is negative.
    pub fn pairwise_distance(&self, other: &Tensor, p: f64, eps: f64, keep: bool) -> Result<Tensor> {
        let name = "pairwise_distance";
        crate::functions::check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let last = self.shape().broadcast(other.shape(), name)?.rank().checked_sub(1);
        let Some(last) = last else { return Err(Error::invalid(name, "vectors without an axis")) };
        crate::functions::in_accumulator([self, other], |[x, other]| {
            let difference = x.sub(other)?.add_scalar(eps)?;
            let norms = crate::functions::distances::norm_along(name, &difference, p, last)?;
            if keep { Ok(norms) } else { norms.squeeze(last) }
        })
    }

    /// Returns `1 - cos` of vectors along the last axis where the target is 1,
    /// `max(0, cos - margin)` where it is -1, and 0 elsewhere. 1e-12 is added to squared lengths,
    /// as in PyTorch.
    ///
    /// # Shapes
    /// `[batch, width]`, the same, and targets `[batch]` (float, integer or bool) -> `[batch]`, or
    /// `[]` if reduced; the batch axis is optional
    ///
    /// # Errors
    /// Returns an error if the shapes do not match, or if the dtypes differ or are not
    /// floating-point.
    pub fn cosine_embedding_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "cosine_embedding_loss";
        check::float(name, "input", &self.meta())?;
        if !matches!(self.rank(), 1 | 2) {
            return Err(Error::Rank { op: name, expected: "1 or 2".into(), shape: Box::new(*self.shape()) });
        }
        check::shape(name, "other", &other.meta(), *self.shape())?;
        check::shape(name, "target", &target.meta(), self.shape().without_axis(self.rank() - 1))?;
        let x = self.to_dtype(self.dtype().accumulator())?;
        let other = float_input(name, "other", other, x.dtype())?;
        let target = target.to_dtype(x.dtype())?;
        let last = x.rank() - 1;
        // Rescales both vectors, which does not change the cosine, so that squares of large numbers
        // do not overflow.
        let (x, unit) = in_length_units(&x, AxisSet::one(last))?;
        let (other, other_unit) = in_length_units(&other, AxisSet::one(last))?;
        let length = |x: &Tensor, unit: &Tensor| {
            let eps = unit.squeeze(last)?.recip()?.mul_scalar(LENGTH_EPS.sqrt())?.square()?;
            x.square()?.sum(last)?.add(&eps)?.sqrt()
        };
        let cosine =
            x.mul(&other)?.sum(last)?.div(&length(&x, &unit)?)?.div(&length(&other, &other_unit)?)?;
        let similar = cosine.rsub_scalar(1)?.masked_fill(&target.ne_scalar(1)?, 0)?;
        let dissimilar = hinge(&cosine.sub_scalar(margin)?)?.masked_fill(&target.ne_scalar(-1)?, 0)?;
        reduction.apply(name, &similar.add(&dissimilar)?)
    }

    /// Returns `max(0, d(anchor, positive) - d(anchor, negative) + margin)`, where this tensor is
    /// the anchor and d is [`pairwise_distance`](Tensor::pairwise_distance).
    ///
    /// # Shapes
    /// All three `[.., width]`, with broadcasting -> `[..]`, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if ranks or dtypes differ, if the shapes do not broadcast, if the dtype is
    /// not floating-point, if the margin is not above 0, or if `p` is negative.
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        options: TripletOptions,
    ) -> Result<Tensor> {
        let name = "triplet_margin_loss";
        let TripletOptions { p, eps, .. } = options;
        check::float(name, "anchor", &self.meta())?;
        let dtype = self.dtype().accumulator();
        let mut others = Vec::with_capacity(2);
        for (what, x) in [("positive", positive), ("negative", negative)] {
            if x.rank() != self.rank() {
                let shapes = format!("anchor {:?} and {what} {:?}", self.shape(), x.shape());
                return Err(Error::invalid(name, format!("numbers of axes that differ: {shapes}")));
            }
            others.push(float_input(name, what, x, dtype)?);
        }
        let distance = |a: &Tensor, b: &Tensor| a.pairwise_distance(b, p, eps, false);
        triplet_loss(name, distance, [&self.to_dtype(dtype)?, &others[0], &others[1]], options)
    }

    /// Same as [`triplet_margin_loss`](Tensor::triplet_margin_loss), with any distance between two
    /// tensors. The options `p` and `eps` are ignored.
    ///
    /// # Errors
    /// Returns the errors of `distance`, and an error if the margin is not above 0, or if the
    /// shapes of the distances do not broadcast.
    pub fn triplet_margin_with_distance_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
        options: TripletOptions,
    ) -> Result<Tensor> {
        triplet_loss("triplet_margin_with_distance_loss", distance, [self, positive, negative], options)
    }
}

fn triplet_loss(
    name: &'static str,
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    [anchor, positive, negative]: [&Tensor; 3],
    options: TripletOptions,
) -> Result<Tensor> {
    let TripletOptions { margin, swap, reduction, .. } = options;
    if margin.is_nan() || margin <= 0.0 {
        return Err(Error::invalid(name, format!("margin {margin}, expected above 0")));
    }
    let (near, mut far) = (distance(anchor, positive)?, distance(anchor, negative)?);
    if swap {
        far = far.minimum(&distance(positive, negative)?)?;
    }
    reduction.apply(name, &hinge(&near.sub(&far)?.add_scalar(margin)?)?)
}
