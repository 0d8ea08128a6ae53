//! Membership tests and combinations of elements.

use super::index_tensor;
use crate::error::{Error, Result};
use crate::op::check;
use crate::{DType, Tensor};

impl Tensor {
    /// Returns whether each element is one of `others`, or with `invert` whether it is none of
    /// them. NaN is never one of them.
    ///
    /// # Shapes
    /// `[..]` and others of any shape -> `[..]`, bool
    ///
    /// # Errors
    /// Returns an error if the dtypes differ.
    pub fn isin(&self, others: &Tensor, invert: bool) -> Result<Tensor> {
        let name = "isin";
        check::same_dtype(name, &self.meta(), &others.meta())?;
        let count = others.elements();
        if count == 0 {
            return Tensor::full(*self.shape(), invert, DType::Bool, self.device());
        }
        let (x, others) = (self.detach(), others.detach().reshape([count])?);
        let sorted = others.sort(0, false)?.0;
        let indices = sorted
            .searchsorted(&x.reshape([x.elements()])?, false, None)?
            .minimum_scalar(count as i64 - 1)?;
        let is_member = sorted.index_select(0, &indices)?.reshape(*x.shape())?.eq(&x)?;
        if invert { is_member.logical_not() } else { Ok(is_member) }
    }

    /// Returns all combinations of `r` elements, in the order of this tensor. With
    /// `with_replacement` an element may be chosen more than once.
    ///
    /// # Shapes
    /// `[n]` -> `[choices, r]`; for `r` 0 `[0]`, as in PyTorch
    ///
    /// # Errors
    /// Returns an error if the tensor does not have exactly one axis, or if the combinations do not
    /// fit in memory.
    pub fn combinations(&self, r: usize, with_replacement: bool) -> Result<Tensor> {
        let name = "combinations";
        let [count] = self.shape().to_array(name)?;
        let rows = combination_count(count, r, with_replacement)
            .filter(|rows| rows.checked_mul(r.max(1)).is_some_and(|indices| indices < 1 << 31));
        let Some(rows) = rows else {
            return Err(Error::invalid(
                name,
                format!("choices of {r} of {count} elements do not fit into memory"),
            ));
        };
        if r == 0 || rows == 0 {
            let empty = self.narrow(0, 0, 0)?;
            return if r == 0 { Ok(empty) } else { empty.reshape([0, r]) };
        }
        let mut indices = Vec::new();
        if indices.try_reserve_exact(rows * r).is_err() {
            return Err(Error::host_memory(rows.saturating_mul(r * size_of::<usize>())));
        }
        let mut row: Vec<usize> = if with_replacement { vec![0; r] } else { (0..r).collect() };
        for _ in 0..rows {
            indices.extend(&row);
            next_combination(&mut row, count, with_replacement);
        }
        self.index_select(0, &index_tensor(indices, [rows * r], self.device())?)?.reshape([rows, r])
    }
}

/// Returns the number of combinations, or `None` if it is too large.
fn combination_count(count: usize, r: usize, with_replacement: bool) -> Option<usize> {
    let pool_size = match with_replacement {
        true if count == 0 => return Some(usize::from(r == 0)),
        true => count.checked_add(r)? - 1,
        false if r > count => return Some(0),
        false => count,
    };
    let r = r.min(pool_size - r);
    // Each partial product is itself a binomial coefficient, so the division is exact.
    (0..r)
        .try_fold(1u128, |rows, i| Some(rows.checked_mul((pool_size - i) as u128)? / (i as u128 + 1)))?
        .try_into()
        .ok()
}

/// Advances to the next combination.
fn next_combination(row: &mut [usize], count: usize, with_replacement: bool) {
    let r = row.len();
    let last = |position: usize| if with_replacement { count - 1 } else { count - r + position };
    let Some(position) = (0..r).rev().find(|&position| row[position] < last(position)) else { return };
    let value = row[position] + 1;
    for (step, element) in row[position..].iter_mut().enumerate() {
        *element = if with_replacement { value } else { value + step };
    }
}
