//! Losses of the distances and angles between vectors.

use super::{above_zero, floating_as};
use crate::op::check;
use crate::ops::reduce::in_length_units;
use crate::shape::AxisSet;
use crate::{Axis, Error, Reduction, Result, Tensor};

/// How [`Tensor::triplet_margin_loss`] counts.
#[derive(Clone, Copy, Debug)]
pub struct TripletOptions {
    /// How much farther the negative is to be than the positive; 1 by default.
    pub margin: f64,
    /// Which norm is the distance; 2 by default.
    pub p: f64,
    /// What is added to each difference; 1e-6 by default.
    pub eps: f64,
    /// Whether the distance of positive and negative counts where it is the smaller one (Balntas et al. 2016); no by default.
    pub swap: bool,
    /// How the losses become one; their mean by default.
    pub reduction: Reduction,
}

impl Default for TripletOptions {
    fn default() -> Self {
        TripletOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

/// Added to squared lengths, so that vectors of zeros have an angle: PyTorch's.
const LENGTH_EPS: f64 = 1e-12;

impl Tensor {
    /// The cosine of the angle between vectors along `axis`, broadcast: each vector is divided by its length, or by `eps` if that is less, through which no
    /// gradient flows.
    ///
    /// # Shapes
    /// `[.., n, ..]` and the same -> without `axis`
    ///
    /// # Errors
    /// Shapes that do not broadcast, an axis that does not exist, dtypes that differ or are not floating, an `eps` below 0.
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

    /// The `p`-norm of the differences along the last axis, to each of which `eps` is added; broadcast. With `keep` the last axis stays, with size 1.
    ///
    /// # Shapes
    /// `[.., n]` and the same -> `[..]`
    ///
    /// # Errors
    /// Shapes that do not broadcast or have no axis, dtypes that differ or are not floating, a `p` below 0.
    pub fn pairwise_distance(&self, other: &Tensor, p: f64, eps: f64, keep: bool) -> Result<Tensor> {
        let name = "pairwise_distance";
        crate::functions::check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let last = self.shape().broadcast(other.shape(), name)?.rank().checked_sub(1);
        let Some(last) = last else { return Err(Error::invalid(name, "vectors without an axis")) };
        crate::functions::in_accumulator([self, other], |[x, other]| {
            let apart = x.sub(other)?.add_scalar(eps)?;
            let norms = crate::functions::distances::norm_along(name, &apart, p, last)?;
            if keep { Ok(norms) } else { norms.squeeze(last) }
        })
    }

    /// `1 - cos` of vectors along the last axis where the target is 1, `max(0, cos - margin)` where it is -1, 0 where it is neither. Of squared lengths
    /// 1e-12 more counts, as in PyTorch.
    ///
    /// # Shapes
    /// `[batch, width]`, the same, and targets `[batch]` (floats, integers or truth values) -> `[batch]`, or `[]` if reduced; or without the batch
    ///
    /// # Errors
    /// Other shapes, dtypes that differ or are not floating.
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
        let other = floating_as(name, "other", other, x.dtype())?;
        let target = target.to_dtype(x.dtype())?;
        let last = x.rank() - 1;
        // In units of their own, on which the cosine does not depend: squares of large numbers overflow.
        let (x, unit) = in_length_units(&x, AxisSet::one(last))?;
        let (other, other_unit) = in_length_units(&other, AxisSet::one(last))?;
        let length = |x: &Tensor, unit: &Tensor| {
            let eps = unit.squeeze(last)?.recip()?.mul_scalar(LENGTH_EPS.sqrt())?.square()?;
            x.square()?.sum(last)?.add(&eps)?.sqrt()
        };
        let cosine =
            x.mul(&other)?.sum(last)?.div(&length(&x, &unit)?)?.div(&length(&other, &other_unit)?)?;
        let alike = cosine.rsub_scalar(1)?.masked_fill(&target.ne_scalar(1)?, 0)?;
        let apart = above_zero(&cosine.sub_scalar(margin)?)?.masked_fill(&target.ne_scalar(-1)?, 0)?;
        reduction.apply(name, &alike.add(&apart)?)
    }

    /// `max(0, d(anchor, positive) - d(anchor, negative) + margin)` of this tensor as the anchor, where d is the
    /// [`pairwise_distance`](Tensor::pairwise_distance).
    ///
    /// # Shapes
    /// All three `[.., width]`, broadcast -> `[..]`, or `[]` if reduced
    ///
    /// # Errors
    /// Numbers of axes or dtypes that differ, shapes that do not broadcast, a dtype that is not floating, a margin that is not above 0, a `p` below 0.
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
            others.push(floating_as(name, what, x, dtype)?);
        }
        let distance = |a: &Tensor, b: &Tensor| a.pairwise_distance(b, p, eps, false);
        of_triplets(name, distance, [&self.to_dtype(dtype)?, &others[0], &others[1]], options)
    }

    /// [`triplet_margin_loss`](Tensor::triplet_margin_loss) of any distance between two tensors; options `p` and `eps` do not count.
    ///
    /// # Errors
    /// Those of `distance`, a margin that is not above 0, distances whose shapes do not broadcast.
    pub fn triplet_margin_with_distance_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
        options: TripletOptions,
    ) -> Result<Tensor> {
        of_triplets("triplet_margin_with_distance_loss", distance, [self, positive, negative], options)
    }
}

fn of_triplets(
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
    reduction.apply(name, &above_zero(&near.sub(&far)?.add_scalar(margin)?)?)
}
