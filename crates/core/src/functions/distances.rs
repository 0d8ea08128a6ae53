//! Distances of all pairs of vectors, in blocks: no more is in memory at once than a part of the differences.

use super::statistics::norm;
use super::{check_floating, in_accumulator};
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::interrupt::check_interrupt;
use crate::op::{Saves, check};
use crate::ops::index::index_dtype;
use crate::{Shape, Tensor};

/// How [`Tensor::cdist`] computes Euclidean distances: PyTorch's `compute_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CdistMode {
    /// By a matrix product where either side has more than 25 vectors.
    #[default]
    MatmulIfLarge,
    /// By a matrix product: `|x|^2 + |y|^2 - 2 x y`, fast, but of near vectors only as exact as the squares of their lengths.
    Matmul,
    /// By differences.
    Differences,
}

/// From so many vectors on a matrix product pays: PyTorch's number.
const LARGE: usize = 25;
/// Differences that are in memory at once.
const BLOCK: usize = 1 << 22;

impl Tensor {
    /// The `p`-norms of the differences of all pairs of vectors. Gradients of equal vectors are 0.
    ///
    /// # Shapes
    /// `[.., n, width]` and `[.., m, width]`, leading axes broadcast -> `[.., n, m]`
    ///
    /// # Errors
    /// Shapes that do not fit, dtypes that differ or are not floating, a `p` below 0.
    pub fn cdist(&self, other: &Tensor, p: f64, mode: CdistMode) -> Result<Tensor> {
        let name = "cdist";
        check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &other.meta())?;
        check_power(name, p)?;
        for x in [self, other] {
            if x.rank() < 2 {
                return Err(Error::Rank {
                    op: name,
                    expected: "at least 2".into(),
                    shape: Box::new(*x.shape()),
                });
            }
        }
        let [lead, other_lead] = [self, other].map(|x| &x.dims()[..x.rank() - 2]);
        let ([n, width], [m, other_width]) = (last_two(self), last_two(other));
        if width != other_width {
            let told = format!("vectors of {width} and of {other_width} numbers");
            return Err(Error::invalid(name, told));
        }
        let lead = Shape::new(lead)?.broadcast(&Shape::new(other_lead)?, name)?;
        let batch = lead.elements();
        let dims = [lead.dims(), &[n, m]].concat();
        self.device().check_room(&dims, self.dtype().accumulator())?;
        let of = |x: &Tensor, count: usize| {
            x.expand(&[lead.dims(), &[count, width]].concat()[..])?.reshape([batch, count, width])
        };
        let is_large = mode == CdistMode::Matmul || (mode == CdistMode::MatmulIfLarge && n.max(m) > LARGE);
        let found = in_accumulator([&of(self, n)?, &of(other, m)?], |[x, y]| match p {
            2.0 if is_large => euclidean(x, y),
            _ => by_differences(x, y, p),
        })?;
        found.reshape(&dims[..])
    }

    /// The `p`-norms of the differences of all pairs of rows, each pair once: of the first row and the others, of the second and those behind it, ..
    ///
    /// # Shapes
    /// `[rows, width]` -> `[rows * (rows - 1) / 2]`
    ///
    /// # Errors
    /// Another number of axes, a dtype that is not floating, a `p` below 0.
    pub fn pdist(&self, p: f64) -> Result<Tensor> {
        let name = "pdist";
        check_floating(name, self)?;
        check_power(name, p)?;
        let [rows, _] = self.shape().to_array(name)?;
        let of_pairs = self.cdist(self, p, CdistMode::Differences)?.reshape([rows * rows])?;
        let place = Tensor::iota(rows, index_dtype(rows * rows), 0, 1, self.device())?;
        let is_behind = place.unsqueeze(1)?.lt(&place)?.reshape([rows * rows])?;
        of_pairs.index_select(0, &is_behind.true_positions()?)
    }
}

fn last_two(x: &Tensor) -> [usize; 2] {
    [x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]]
}

fn check_power(name: &'static str, p: f64) -> Result<()> {
    match p.is_nan() || p < 0.0 {
        true => Err(Error::invalid(name, format!("p of {p}, expected at least 0"))),
        false => Ok(()),
    }
}

/// The `p`-norm along an axis, which stays; of `p` 0 the number of elements that are not 0.
///
/// # Errors
/// A `p` below 0.
pub(super) fn norm_along(name: &'static str, x: &Tensor, p: f64, axis: usize) -> Result<Tensor> {
    check_power(name, p)?;
    if x.shape().dim(axis) == 0 {
        return x.sum_keep(axis);
    }
    match p {
        0.0 => x.ne_scalar(0)?.to_dtype(x.dtype())?.sum_keep(axis),
        _ => norm(x, p, &axis.into()),
    }
}

/// Of `[batch, n, width]` and `[batch, m, width]`, by a matrix product.
fn euclidean(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let found = no_grad(|| {
        let lengths = x.sum_squares_keep(2)?.add(&y.sum_squares_keep(2)?.transpose(1, 2)?)?;
        lengths.sub(&x.matmul(&y.transpose(1, 2)?)?.mul_scalar(2)?)?.maximum_scalar(0)?.sqrt()
    })?;
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let (x, y, distance) = (context.input(0)?, context.input(1)?, context.output(0)?);
        let is_zero = distance.eq_scalar(0)?;
        let share = dy.div(&distance.masked_fill(&is_zero, 1)?)?.masked_fill(&is_zero, 0)?;
        // The sum of share * (x - y) over the other side.
        let of_x = x.mul(&share.sum_keep(2)?)?.sub(&share.matmul(y)?)?;
        let share = share.transpose(1, 2)?;
        let of_y = y.mul(&share.sum_keep(2)?)?.sub(&share.matmul(x)?)?;
        Ok([Some(of_x), Some(of_y)].into_iter().collect())
    };
    Ok(with_gradient("cdist", &[x, y], vec![found], Saves::ALL, rule)?.swap_remove(0))
}

/// Parts of the vectors of `x`, each with no more differences than a block has: first and number.
fn blocks(x: &Tensor, y: &Tensor) -> impl Iterator<Item = (usize, usize)> + use<> {
    let count = x.dims()[1];
    let rows = (BLOCK / y.elements().max(1)).max(1);
    (0..count).step_by(rows).map(move |first| (first, rows.min(count - first)))
}

/// `[batch, rows, m, width]`.
fn differences(x: &Tensor, y: &Tensor, (first, rows): (usize, usize)) -> Result<Tensor> {
    x.narrow(1, first, rows)?.unsqueeze(2)?.sub(&y.unsqueeze(1)?)
}

fn by_differences(x: &Tensor, y: &Tensor, p: f64) -> Result<Tensor> {
    let found = no_grad(|| {
        let mut parts = vec![Tensor::zeros([x.dims()[0], 0, y.dims()[1]], x.dtype(), x.device())?];
        for block in blocks(x, y) {
            check_interrupt()?;
            parts.push(norm_along("cdist", &differences(x, y, block)?, p, 3)?.squeeze(3)?);
        }
        Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)
    })?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let (x, y, distance) = (context.input(0)?, context.input(1)?, context.output(0)?);
        let mut of_x = vec![x.narrow(1, 0, 0)?.zeros_like()?];
        let mut of_y = y.zeros_like()?;
        for (first, rows) in blocks(x, y) {
            check_interrupt()?;
            let apart = differences(x, y, (first, rows))?;
            let slope = slope(&apart, &distance.narrow(1, first, rows)?.unsqueeze(3)?, p)?;
            let share = slope.mul(&dy.narrow(1, first, rows)?.unsqueeze(3)?)?;
            of_x.push(share.sum(2)?);
            of_y = of_y.sub(&share.sum(1)?)?;
        }
        let of_x = Tensor::concat(&of_x.iter().collect::<Vec<_>>(), 1)?;
        Ok([Some(of_x), Some(of_y)].into_iter().collect())
    };
    Ok(with_gradient("cdist", &[x, y], vec![found], Saves::ALL, rule)?.swap_remove(0))
}

/// The derivative of the norm of differences by each of them: 0 of those that are 0, as in PyTorch.
fn slope(apart: &Tensor, distance: &Tensor, p: f64) -> Result<Tensor> {
    let sign = apart.sign()?;
    match p {
        0.0 => sign.zeros_like(),
        1.0 => Ok(sign),
        f64::INFINITY => sign.masked_fill(&apart.abs()?.ne(distance)?, 0),
        _ => {
            let is_zero = apart.eq_scalar(0)?;
            // A share of the distance, whose power neither overflows nor vanishes.
            let distance = distance.masked_fill(&distance.eq_scalar(0)?, 1)?;
            let share = apart.abs()?.masked_fill(&is_zero, 1)?.div(&distance)?;
            if p == 2.0 {
                apart.div(&distance)
            } else {
                share.powf(p - 1.0)?.mul(&sign)?.masked_fill(&is_zero, 0)
            }
        }
    }
}
