//! Distances between all pairs of vectors, computed in blocks, so that only part of the differences
//! is in memory at a time.

use super::statistics::{norm, unit};
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
    /// By a matrix product if either side has more than 25 vectors.
    #[default]
    MatmulIfLarge,
    /// By a matrix product, `|x|^2 + |y|^2 - 2 x y`. This is fast, but the error is relative to the
    /// squared lengths of the vectors, so it is large for vectors that are close together.
    Matmul,
    /// From the differences.
    Differences,
}

/// Above this number of vectors a matrix product is faster. The value is PyTorch's.
const LARGE: usize = 25;
/// Number of differences that are in memory at a time: they fit in a CPU cache and are enough to
/// fill a GPU.
const BLOCK: usize = 1 << 20;

impl Tensor {
    /// Returns the `p`-norms of the differences of all pairs of vectors. The gradient of equal
    /// vectors is 0.
    ///
    /// # Shapes
    /// `[.., n, width]` and `[.., m, width]`, leading axes broadcast -> `[.., n, m]`
    ///
    /// # Errors
    /// Returns an error if the shapes do not match, if the dtypes differ or are not floating-point,
    /// or if `p` is negative.
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
            let detail = format!("vectors of {width} and of {other_width} numbers");
            return Err(Error::invalid(name, detail));
        }
        let lead = Shape::new(lead)?.broadcast(&Shape::new(other_lead)?, name)?;
        let batch = lead.elements();
        let dims = [lead.dims(), &[n, m]].concat();
        self.device().check_room(&dims, self.dtype().accumulator())?;
        let expand = |x: &Tensor, count: usize| {
            x.expand(&[lead.dims(), &[count, width]].concat()[..])?.reshape([batch, count, width])
        };
        let is_large = mode == CdistMode::Matmul || (mode == CdistMode::MatmulIfLarge && n.max(m) > LARGE);
        let distances = in_accumulator([&expand(self, n)?, &expand(other, m)?], |[x, y]| match p {
            2.0 if is_large => euclidean_distances(x, y),
            _ => by_differences(x, y, p, Pairs::All),
        })?;
        distances.reshape(&dims[..])
    }

    /// Returns the `p`-norms of the differences of all pairs of rows, each pair once: the first row
    /// with all later ones, the second row with all later ones, and so on.
    ///
    /// # Shapes
    /// `[rows, width]` -> `[rows * (rows - 1) / 2]`
    ///
    /// # Errors
    /// Returns an error if the tensor does not have 2 axes, if the dtype is not floating-point, or
    /// if `p` is negative.
    pub fn pdist(&self, p: f64) -> Result<Tensor> {
        let name = "pdist";
        check_floating(name, self)?;
        check_power(name, p)?;
        let [rows, _] = self.shape().to_array(name)?;
        self.device().check_room(&[rows, rows], self.dtype().accumulator())?;
        let all_distances = in_accumulator([self], |[x]| {
            let x = x.unsqueeze(0)?;
            by_differences(&x, &x, p, Pairs::Later)?.reshape([rows * rows])
        })?;
        let index = Tensor::iota(rows, index_dtype(rows * rows), 0, 1, self.device())?;
        let is_later = index.unsqueeze(1)?.lt(&index)?.reshape([rows * rows])?;
        all_distances.index_select(0, &is_later.true_positions()?)
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

/// Returns the `p`-norm along an axis, which is kept with size 1. For `p` 0 it is the number of
/// nonzero elements.
///
/// # Errors
/// Returns an error if `p` is negative.
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

/// Returns the distances between `[batch, n, width]` and `[batch, m, width]`, computed by a matrix
/// product.
fn euclidean_distances(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let distances = no_grad(|| {
        let lengths = x.sum_squares_keep(2)?.add(&y.sum_squares_keep(2)?.transpose(1, 2)?)?;
        lengths.sub(&x.matmul(&y.transpose(1, 2)?)?.mul_scalar(2)?)?.maximum_scalar(0)?.sqrt()
    })?;
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let (x, y, distance) = (context.input(0)?, context.input(1)?, context.output(0)?);
        let is_zero = distance.eq_scalar(0)?;
        let ratio = dy.div(&distance.masked_fill(&is_zero, 1)?)?.masked_fill(&is_zero, 0)?;
        // The sum of `ratio * (x - y)` over the vectors of the other side.
        let x_grad = x.mul(&ratio.sum_keep(2)?)?.sub(&ratio.matmul(y)?)?;
        let ratio = ratio.transpose(1, 2)?;
        let y_grad = y.mul(&ratio.sum_keep(2)?)?.sub(&ratio.matmul(x)?)?;
        Ok([Some(x_grad), Some(y_grad)].into_iter().collect())
    };
    Ok(with_gradient("cdist", &[x, y], vec![distances], Saves::ALL, rule)?.swap_remove(0))
}

/// The pairs whose distances are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairs {
    All,
    /// Pairs whose second vector has the larger index. Other elements of the result are 0, or
    /// distances that were computed because they belong to the same block.
    Later,
}

/// Blocks of vectors on both sides, as (first, count).
struct Blocks {
    rows: Vec<(usize, usize)>,
    columns: Vec<(usize, usize)>,
    pairs: Pairs,
}

impl Blocks {
    /// Returns blocks such that each pair of blocks has at most [`BLOCK`] differences and is as
    /// square as possible.
    fn of(x: &Tensor, y: &Tensor, pairs: Pairs) -> Blocks {
        let ([batch, width], n, m) = ([x.dims()[0], x.dims()[2]], x.dims()[1], y.dims()[1]);
        let pairs_per_block = (BLOCK / (batch * width).max(1)).max(1);
        let columns = pairs_per_block.isqrt().clamp(1, m.max(1));
        let rows = (pairs_per_block / columns).clamp(1, n.max(1));
        let columns = (pairs_per_block / rows).clamp(1, m.max(1));
        let split = |count: usize, size: usize| -> Vec<(usize, usize)> {
            (0..count).step_by(size).map(|first| (first, size.min(count - first))).collect()
        };
        Blocks { rows: split(n, rows), columns: split(m, columns), pairs }
    }

    /// Returns whether this pair of blocks contains a requested pair of vectors.
    fn has(&self, (row, _): (usize, usize), (column, columns): (usize, usize)) -> bool {
        self.pairs == Pairs::All || column + columns > row + 1
    }
}

/// Returns differences of shape `[batch, rows, columns, width]`.
fn differences(x: &Tensor, y: &Tensor, rows: (usize, usize), columns: (usize, usize)) -> Result<Tensor> {
    let [x, y] = [(x, rows), (y, columns)].map(|(tensor, (first, count))| tensor.narrow(1, first, count));
    x?.unsqueeze(2)?.sub(&y?.unsqueeze(1)?)
}

fn by_differences(x: &Tensor, y: &Tensor, p: f64, pairs: Pairs) -> Result<Tensor> {
    let distances = no_grad(|| {
        let blocks = Blocks::of(x, y, pairs);
        let zeros =
            |rows: usize, columns: usize| Tensor::zeros([x.dims()[0], rows, columns], x.dtype(), x.device());
        let mut parts = vec![zeros(0, y.dims()[1])?];
        for &rows in &blocks.rows {
            let mut part = vec![zeros(rows.1, 0)?];
            for &columns in &blocks.columns {
                check_interrupt()?;
                part.push(match blocks.has(rows, columns) {
                    true => norms(&differences(x, y, rows, columns)?, p)?,
                    false => zeros(rows.1, columns.1)?,
                });
            }
            parts.push(Tensor::concat(&part.iter().collect::<Vec<_>>(), 2)?);
        }
        Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)
    })?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let inputs = [context.input(0)?, context.input(1)?];
        let input_grads = gradients(inputs, context.output(0)?, dy, p, pairs)?;
        Ok(input_grads.map(Some).into_iter().collect())
    };
    Ok(with_gradient("cdist", &[x, y], vec![distances], Saves::ALL, rule)?.swap_remove(0))
}

/// Returns the gradients of both sides. Each block of differences is recomputed.
fn gradients(
    [x, y]: [&Tensor; 2],
    distance: &Tensor,
    dy: &Tensor,
    p: f64,
    pairs: Pairs,
) -> Result<[Tensor; 2]> {
    let blocks = Blocks::of(x, y, pairs);
    let zeros =
        |tensor: &Tensor, (first, count): (usize, usize)| tensor.narrow(1, first, count)?.zeros_like();
    let mut x_grads = vec![zeros(x, (0, 0))?];
    let mut y_grads = vec![zeros(y, (0, 0))?];
    for &columns in &blocks.columns {
        y_grads.push(zeros(y, columns)?);
    }
    for &rows in &blocks.rows {
        let mut sum = zeros(x, rows)?;
        for (block_index, &columns) in
            blocks.columns.iter().enumerate().filter(|(_, columns)| blocks.has(rows, **columns))
        {
            check_interrupt()?;
            let part =
                |from: &Tensor| from.narrow(1, rows.0, rows.1)?.narrow(2, columns.0, columns.1)?.unsqueeze(3);
            let norm_grad = norm_grad(&differences(x, y, rows, columns)?, &part(distance)?, p)?;
            let block_grad = norm_grad.mul(&part(dy)?)?;
            sum = sum.add(&block_grad.sum(2)?)?;
            y_grads[block_index + 1] = y_grads[block_index + 1].sub(&block_grad.sum(1)?)?;
        }
        x_grads.push(sum);
    }
    let [x_grads, y_grads] =
        [x_grads, y_grads].map(|parts| Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1));
    Ok([x_grads?, y_grads?])
}

/// Returns the norms of `[batch, rows, columns, width]` along the last axis, without a gradient.
fn norms(difference: &Tensor, p: f64) -> Result<Tensor> {
    if matches!(p, 0.0 | 1.0 | 2.0 | f64::INFINITY) || difference.dims()[3] == 0 {
        return norm_along("cdist", difference, p, 3)?.squeeze(3);
    }
    // Zeros need no special treatment: unlike in `norm`, no gradient is computed here.
    let unit = unit(difference, &3.into())?;
    power(&difference.abs()?.div(&unit)?, p)?.sum_keep(3)?.powf(1.0 / p)?.mul(&unit)?.squeeze(3)
}

/// Raises to a power; small integer powers are computed by products.
fn power(x: &Tensor, p: f64) -> Result<Tensor> {
    match p {
        1.0 => Ok(x.clone()),
        2.0 => x.square(),
        3.0 => x.square()?.mul(x),
        4.0 => x.square()?.square(),
        _ => x.powf(p),
    }
}

/// Returns the derivative of the norm with respect to each difference. For a difference of 0 it is
/// 0, as in PyTorch.
fn norm_grad(difference: &Tensor, distance: &Tensor, p: f64) -> Result<Tensor> {
    match p {
        0.0 => return difference.zeros_like(),
        1.0 => return difference.sign(),
        f64::INFINITY => return difference.sign()?.masked_fill(&difference.abs()?.ne(distance)?, 0),
        _ => {}
    }
    // A fraction of the distance, whose power neither overflows nor underflows.
    let ratio = difference.div(&distance.masked_fill(&distance.eq_scalar(0)?, 1)?)?;
    match p {
        2.0 => Ok(ratio),
        // Its derivative at 0 is also 0.
        3.0 => ratio.mul(&ratio.abs()?),
        _ => {
            let is_zero = ratio.eq_scalar(0)?;
            let size = ratio.abs()?.masked_fill(&is_zero, 1)?;
            power(&size, p - 1.0)?.mul(&ratio.sign()?)?.masked_fill(&is_zero, 0)
        }
    }
}
