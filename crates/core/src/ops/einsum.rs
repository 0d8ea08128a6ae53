//! Einstein summation, reduced to matrix products.

use super::matmul::{Matmul, check_same_numeric_dtype};
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::check;
use crate::precision::{self, Precision, without_precision};
use crate::shape::{AxisSet, MAX_RANK};
use crate::{DType, Shape, Tensor};

/// Computes products of tensors, summed over named axes, as NumPy's and PyTorch's `einsum`:
/// `einsum("bij,bjk->bik", &[&a, &b])`.
///
/// A letter names an axis. A letter that occurs twice in one operand selects the diagonal. Letters
/// that are missing in the output are summed over. Without `->` the output has the letters that
/// occur exactly once, in alphabetical order.
///
/// `...` stands for additional axes, aligned at the last one and broadcast. They are the first axes
/// of an implicit output, and are summed over if an explicit output lacks them.
///
/// Operands are combined from left to right. As in PyTorch, integers and bool are converted to i64
/// when an axis of a single operand is summed over. Matrix products keep the dtype: integers wrap,
/// and bool is not supported.
///
/// # Errors
/// Returns an error
/// - if a character is not a letter
/// - if the number of operands differs from that in the equation
/// - if the letters do not match the axes of an operand
/// - if a letter has different sizes
/// - if an output letter is in no operand, or occurs twice
/// - if dtypes differ
/// - for matrix products of bool
pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
    let Some(scope) = precision::current() else { return einsum_with(equation, operands, Matmul::PLAIN) };
    // With one operand the result may be a view. It must not alias a cast that the scope caches.
    let separate_cast = |operand: &Tensor| scope.separate_operand(operand);
    let shared_cast = |operand: &Tensor| scope.operand(operand);
    let cast =
        |operand: &&Tensor| if operands.len() == 1 { separate_cast(operand) } else { shared_cast(operand) };
    let operands = operands.iter().map(cast).collect::<Result<Vec<_>>>()?;
    let operands: Vec<&Tensor> = operands.iter().collect();
    // Everything is computed in the scope's dtype, including sums and products that are not matrix
    // products.
    let product =
        Matmul { tf32: scope == Precision::Tf32, bf16x6: scope != Precision::Ieee, ..Matmul::PLAIN };
    without_precision(|| einsum_with(equation, &operands, product))
}

/// Same as [`einsum`], independent of the precision scope, with `product` as the matrix product.
fn einsum_with(equation: &str, operands: &[&Tensor], product: Matmul) -> Result<Tensor> {
    let equation = Equation::parse(equation, operands)?;
    for operand in operands {
        check::same_dtype("einsum", &operands[0].meta(), &operand.meta())?;
    }
    let mut terms = equation.terms(operands)?.into_iter().enumerate();
    let Some((_, mut result)) = terms.next() else {
        return Err(Error::invalid("einsum", "expected at least 1 operand"));
    };
    for (index, term) in terms {
        let needed = equation.labels_needed_after(index);
        result = result.combine(term, &needed, &product)?;
    }
    let result = result.sum_others(&equation.output)?;
    result.tensor.permute_axes(&result.positions(&equation.output))
}

/// Axis labels: letters of the equation; digits for the axes of an ellipsis, counted from the last.
type Labels = Vec<char>;

struct Equation {
    inputs: Vec<Labels>,
    output: Labels,
}

impl Equation {
    fn parse(equation: &str, operands: &[&Tensor]) -> Result<Equation> {
        let fail = |detail: String| Error::invalid("einsum", format!("{equation:?}: {detail}"));
        let stripped: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (left, right) = match stripped.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (stripped.as_str(), None),
        };
        let parts: Vec<&str> = left.split(',').collect();
        if parts.len() != operands.len() {
            return Err(fail(format!("names {} operands, got {}", parts.len(), operands.len())));
        }
        let mut inputs = Vec::new();
        for (index, (part, operand)) in parts.into_iter().zip(operands).enumerate() {
            let letters = part.replacen("...", "", 1).chars().count();
            let rest = operand.rank().checked_sub(letters).filter(|&rest| rest == 0 || part.contains("..."));
            let rest = rest.ok_or_else(|| {
                fail(format!("{part:?} does not fit operand {index} of shape {:?}", operand.shape()))
            })?;
            inputs.push(parse_labels(part, rest).map_err(&fail)?);
        }
        let ellipsis = inputs.iter().flatten().filter(|label| label.is_ascii_digit()).max();
        let ellipsis_axes = ellipsis.map_or(0, |&label| label as usize - '0' as usize + 1);
        let output = match right {
            Some(right) => parse_labels(right, ellipsis_axes).map_err(&fail)?,
            None => implicit_output(&inputs, ellipsis_axes),
        };
        for (index, label) in output.iter().enumerate() {
            if output[..index].contains(label) {
                return Err(fail(format!("the output names {label} twice")));
            }
            if !inputs.iter().flatten().any(|other| other == label) {
                return Err(fail(format!("no operand has the output's {label}")));
            }
        }
        Ok(Equation { inputs, output })
    }

    /// Returns the operands with their labels. Repeated labels are reduced to diagonals, and axes
    /// of ellipses are expanded to their broadcast size.
    fn terms(&self, operands: &[&Tensor]) -> Result<Vec<Term>> {
        let mut terms = Vec::new();
        for (labels, &operand) in self.inputs.iter().zip(operands) {
            terms.push(Term { tensor: operand.clone(), labels: labels.clone() }.take_diagonals()?);
        }
        let mut sizes: Vec<(char, usize)> = Vec::new();
        for term in &terms {
            for (&label, &size) in term.labels.iter().zip(term.tensor.dims()) {
                match sizes.iter_mut().find(|(known, _)| *known == label) {
                    None => sizes.push((label, size)),
                    Some((_, known)) if *known == size || (label.is_ascii_digit() && size == 1) => {}
                    Some((_, known)) if label.is_ascii_digit() && *known == 1 => *known = size,
                    Some((_, known)) if label.is_ascii_digit() => {
                        let detail = format!("axes of ... of sizes {known} and {size} do not broadcast");
                        return Err(Error::invalid("einsum", detail));
                    }
                    Some((_, known)) => {
                        return Err(Error::invalid(
                            "einsum",
                            format!("{label} has sizes {known} and {size}"),
                        ));
                    }
                }
            }
        }
        for term in &mut terms {
            let size = |label| sizes.iter().find(|(known, _)| *known == label).map_or(1, |&(_, size)| size);
            let dims: Vec<usize> = term.labels.iter().map(|&label| size(label)).collect();
            term.tensor = term.tensor.expand(dims)?;
        }
        Ok(terms)
    }

    /// Returns the labels of the output and of the operands after `index`.
    fn labels_needed_after(&self, index: usize) -> Labels {
        self.output.iter().chain(self.inputs[index + 1..].iter().flatten()).copied().collect()
    }
}

/// Parses the labels of `part`, with `rest` axes for its ellipsis.
fn parse_labels(part: &str, rest: usize) -> Result<Labels, String> {
    let ellipsis_axes = (0..rest as u8).rev().map(|from_last| (b'0' + from_last) as char);
    let (before, after) = match part.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (part, None),
    };
    if let Some(other) = part.replacen("...", "", 1).chars().find(|letter| !letter.is_ascii_alphabetic()) {
        return Err(format!("{other:?} is not a letter"));
    }
    Ok(match after {
        Some(after) => before.chars().chain(ellipsis_axes).chain(after.chars()).collect(),
        None => before.chars().collect(),
    })
}

/// Returns the axes of ellipses, then the letters that occur exactly once, in alphabetical order.
fn implicit_output(inputs: &[Labels], ellipsis_axes: usize) -> Labels {
    let all: Labels = inputs.iter().flatten().copied().collect();
    let once = |label: &&char| all.iter().filter(|other| other == label).count() == 1;
    let mut letters: Labels =
        all.iter().filter(|label| label.is_ascii_alphabetic()).filter(once).copied().collect();
    letters.sort_unstable();
    (0..ellipsis_axes as u8).rev().map(|from_last| (b'0' + from_last) as char).chain(letters).collect()
}

/// A tensor with labeled axes.
struct Term {
    tensor: Tensor,
    labels: Labels,
}

impl Term {
    fn positions(&self, labels: &[char]) -> Vec<usize> {
        labels
            .iter()
            .filter_map(|label| self.labels.iter().position(|own_label| own_label == label))
            .collect()
    }

    /// Returns the product of the sizes of `labels`.
    fn size(&self, labels: &[char]) -> usize {
        self.positions(labels).into_iter().map(|axis| self.tensor.dims()[axis]).product()
    }

    /// Reduces each label that occurs twice to the diagonal of its axes.
    fn take_diagonals(mut self) -> Result<Term> {
        while let Some((first, second)) = find_repeated(&self.labels) {
            let (size, other) = (self.tensor.dims()[first], self.tensor.dims()[second]);
            if size != other {
                let detail = format!("{} has sizes {size} and {other}", self.labels[first]);
                return Err(Error::invalid("einsum", detail));
            }
            let label = self.labels.remove(second);
            self.labels.remove(first);
            self.labels.push(label);
            self.tensor = self.tensor.diagonal(0, first, second)?;
        }
        Ok(self)
    }

    /// Sums over every axis that is not in `needed`.
    fn sum_others(self, needed: &[char]) -> Result<Term> {
        let others = (0..self.labels.len()).filter(|&axis| !needed.contains(&self.labels[axis]));
        let axes = others.fold(AxisSet::EMPTY, AxisSet::with);
        if axes.is_empty() {
            return Ok(self);
        }
        let labels = self.labels.iter().filter(|label| needed.contains(label)).copied().collect();
        // Integers and bool are summed in i64, as in `sum`.
        Ok(Term { tensor: self.tensor.sum_widened(axes)?, labels })
    }

    /// Computes the product of two terms, summed over the labels that are not in `needed`.
    fn combine(self, other: Term, needed: &[char], product: &Matmul) -> Result<Term> {
        let needed_or_in = |labels: &Labels| needed.iter().chain(labels).copied().collect::<Labels>();
        let left = self.sum_others(&needed_or_in(&other.labels))?;
        let right = other.sum_others(&needed_or_in(&left.labels))?;
        let is_shared = |label: &&char| right.labels.contains(label);
        let (shared, rows): (Labels, Labels) = left.labels.iter().partition(is_shared);
        let (batch, inner): (Labels, Labels) = shared.into_iter().partition(|label| needed.contains(label));
        let columns: Labels =
            right.labels.iter().filter(|label| !left.labels.contains(label)).copied().collect();
        let labels: Labels = batch.iter().chain(&rows).chain(&columns).copied().collect();
        if labels.len() > MAX_RANK {
            let detail =
                format!("an intermediate result has {} axes, at most {MAX_RANK} are possible", labels.len());
            return Err(Error::invalid("einsum", detail));
        }
        let mut dims = left.tensor.shape().dims_at(&left.positions(&batch));
        dims.extend(left.tensor.shape().dims_at(&left.positions(&rows)));
        dims.extend(right.tensor.shape().dims_at(&right.positions(&columns)));
        let (a, b) = (left.stack(&batch, &rows, &inner)?, right.stack(&batch, &inner, &columns)?);
        let product = multiply(&a, &b, if inner.is_empty() { None } else { Some(product) })?;
        Ok(Term { tensor: product.reshape(dims)?, labels })
    }

    /// Merges the axes of each list into one axis: `[batch, first, second]`.
    fn stack(&self, batch: &[char], first: &[char], second: &[char]) -> Result<Tensor> {
        let order: Vec<usize> =
            [batch, first, second].into_iter().flat_map(|labels| self.positions(labels)).collect();
        self.tensor.permute_axes(&order)?.reshape([self.size(batch), self.size(first), self.size(second)])
    }
}

/// Computes elementwise or matrix products. If one factor was summed in i64, the other is converted
/// to i64 too. Elementwise products of bool are a logical AND.
fn multiply(a: &Tensor, b: &Tensor, matrices: Option<&Matmul>) -> Result<Tensor> {
    let (a, b) = match a.dtype() == b.dtype() {
        true => (a.clone(), b.clone()),
        false => (a.to_dtype(DType::I64)?, b.to_dtype(DType::I64)?),
    };
    match matrices {
        Some(product) => {
            check_same_numeric_dtype("einsum", &[&a, &b])?;
            apply_one(product.clone(), &[&a, &b])
        }
        None if a.dtype() == DType::Bool => a.logical_and(&b),
        None => a.mul(&b),
    }
}

/// Returns the first two axes with the same label.
fn find_repeated(labels: &[char]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(second, label)| {
        labels[..second].iter().position(|other| other == label).map(|first| (first, second))
    })
}

impl Shape {
    /// Returns the sizes along `axes`, which are in range.
    fn dims_at(&self, axes: &[usize]) -> Vec<usize> {
        axes.iter().map(|&axis| self.dim(axis)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::parse_labels;

    #[test]
    fn an_ellipsis_stands_for_the_axes_that_are_left() {
        assert_eq!(parse_labels("a...b", 2), Ok(vec!['a', '1', '0', 'b']));
        assert_eq!(parse_labels("...", 0), Ok(vec![]));
        assert_eq!(parse_labels("ab", 0), Ok(vec!['a', 'b']));
    }

    #[test]
    fn what_is_no_letter_is_named() {
        assert_eq!(parse_labels("a1", 0), Err("'1' is not a letter".to_string()));
        assert_eq!(parse_labels("a......", 0), Err("'.' is not a letter".to_string()));
    }
}
