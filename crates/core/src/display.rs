//! Tensors as text: [`Display`](fmt::Display) shows the values as NumPy does, [`Debug`](fmt::Debug)
//! shows shape, dtype and device.

use crate::autograd;
use crate::dtype::with_element;
use crate::dtype::{Element, Scalar};
use crate::error::Result;
use crate::shape::MAX_RANK;
use crate::tensor::Tensor;
use std::fmt::{self, Write};

/// Tensors with more elements are shown shortened to the ends of their axes.
const MAX_SHOWN: usize = 1000;
/// Number of elements that are shown at each end of a shortened axis.
const EDGE: usize = 3;
/// Digits after the decimal point.
const DIGITS: usize = 4;
/// Maximum number of columns of a line.
const WIDTH: usize = 100;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?} {} on {}", self.shape(), self.dtype(), self.device())?;
        f.write_str(if self.needs_grad() { ", needs_grad)" } else { ")" })
    }
}

/// Shows the values, then a line with shape, dtype and device. `{:.2}` shows exactly two digits
/// after the decimal point; otherwise there are up to four.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shorten = self.elements() > MAX_SHOWN;
        match autograd::no_grad(|| shown_elements(self, shorten)) {
            Ok(elements) => {
                let page = Page { dims: self.dims(), shorten, cells: format_cells(&elements, f.precision()) };
                page.write(f)?;
            }
            // Display cannot return an error with a reason, so the reason is shown instead of the
            // values.
            Err(error) => write!(f, "<unreadable: {error}>")?,
        }
        write!(f, "\n{:?} {} on {}", self.shape(), self.dtype(), self.device())
    }
}

/// Returns whether only the ends of an axis of size `dim` are shown.
fn is_shortened(dim: usize, shorten: bool) -> bool {
    shorten && dim > 2 * EDGE
}

/// Returns the elements that are shown, in row-major order.
fn shown_elements(tensor: &Tensor, shorten: bool) -> Result<Vec<Scalar>> {
    let long: Vec<usize> =
        (0..tensor.rank()).filter(|&axis| is_shortened(tensor.dims()[axis], shorten)).collect();
    if tensor.rank() + long.len() > MAX_RANK {
        return read_rows(tensor, shorten);
    }
    // The ends of an axis are two windows of a view, so that only they are copied to the host.
    let mut ends = tensor.clone();
    for &axis in long.iter().rev() {
        let rank = ends.rank();
        ends = ends.unfold(axis, EDGE, ends.dims()[axis] - EDGE)?;
        let mut order: Vec<isize> = (0..rank as isize).collect();
        order.insert(axis + 1, rank as isize);
        ends = ends.permute(order.as_slice())?;
    }
    fn read<T: Element>(tensor: &Tensor) -> Result<Vec<Scalar>> {
        Ok(tensor.to_vec::<T>()?.into_iter().map(T::to_scalar).collect())
    }
    with_element!(tensor.dtype(), T => read::<T>(&ends))
}

/// Same as [`shown_elements`], but reads one row of the first axis after another, for tensors with
/// too many axes for one view.
fn read_rows(tensor: &Tensor, shorten: bool) -> Result<Vec<Scalar>> {
    let mut elements = Vec::new();
    for row in shown_rows(tensor.dims()[0], shorten).flatten() {
        elements.extend(shown_elements(&tensor.select(0, row)?, shorten)?);
    }
    Ok(elements)
}

/// Returns the indices along an axis that are shown, with `None` for the gap.
fn shown_rows(dim: usize, shorten: bool) -> impl Iterator<Item = Option<usize>> {
    let (head, tail) = if is_shortened(dim, shorten) { (EDGE, dim - EDGE) } else { (dim, dim) };
    let gap = (head < dim).then_some(None);
    (0..head).map(Some).chain(gap).chain((tail..dim).map(Some))
}

/// Formats every element, padded to a common width.
fn format_cells(elements: &[Scalar], digits: Option<usize>) -> Vec<String> {
    let notation = digits.map_or_else(|| Notation::of(elements), Notation::Fixed);
    let texts: Vec<String> = elements.iter().map(|&element| notation.text(element)).collect();
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    texts.into_iter().map(|text| format!("{text:>width$}")).collect()
}

/// The notation of floats.
enum Notation {
    /// This number of digits after the decimal point.
    Fixed(usize),
    /// This number of digits after the decimal point, and a power of ten.
    Scientific(usize),
}

impl Notation {
    /// Selects scientific notation if fixed digits would lose small numbers or become long, with no
    /// more digits than some element needs.
    fn of(elements: &[Scalar]) -> Notation {
        let finite = || {
            elements.iter().filter_map(|element| match element {
                Scalar::Float(value) if value.is_finite() && *value != 0.0 => Some(value.abs()),
                _ => None,
            })
        };
        let (low, high) = finite().fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        let all_integers = finite().all(|value| value.fract() == 0.0);
        if high >= 1e8 || low < 1e-4 || (!all_integers && high > 1e3 * low && low < 1e-2) {
            let digits = finite().map(|value| digits_needed(&format!("{value:.DIGITS$e}"))).max();
            return Notation::Scientific(digits.unwrap_or(0));
        }
        Notation::Fixed(finite().map(|value| digits_needed(&format!("{value:.DIGITS$}"))).max().unwrap_or(0))
    }

    fn text(&self, element: Scalar) -> String {
        match (element, self) {
            (Scalar::Float(value), _) if value.is_nan() => "nan".into(),
            (Scalar::Float(value), _) if !value.is_finite() => format!("{value}"),
            (Scalar::Float(value), Notation::Fixed(0)) => format!("{value:.0}."),
            (Scalar::Float(value), Notation::Fixed(digits)) => format!("{value:.digits$}"),
            (Scalar::Float(value), Notation::Scientific(digits)) => format!("{value:.digits$e}"),
            (other, _) => other.to_string(),
        }
    }
}

/// Returns the number of digits after the decimal point without trailing zeros.
fn digits_needed(text: &str) -> usize {
    let mantissa = text.split('e').next().unwrap_or(text);
    mantissa.split('.').nth(1).map_or(0, |digits| digits.trim_end_matches('0').len())
}

/// Formatted elements that are arranged in brackets.
struct Page<'a> {
    dims: &'a [usize],
    shorten: bool,
    cells: Vec<String>,
}

impl Page<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        match self.cells.as_slice() {
            [] => text.push_str("[]"),
            [only] if self.dims.is_empty() => text.push_str(only),
            cells => self.write_block(&mut text, 0, &mut cells.iter())?,
        }
        f.write_str(&text)
    }

    /// Writes axis `axis` and the axes after it from the next cells.
    fn write_block<'c>(
        &self,
        text: &mut String,
        axis: usize,
        cells: &mut impl Iterator<Item = &'c String>,
    ) -> fmt::Result {
        text.push('[');
        if axis + 1 == self.dims.len() {
            self.write_row(text, cells)?;
        } else {
            // A new line for each row, and an additional empty line for each axis before the rows.
            let newlines = "\n".repeat(self.dims.len() - axis - 1);
            for (index, row) in shown_rows(self.dims[axis], self.shorten).enumerate() {
                if index > 0 {
                    write!(text, ",{newlines}{}", " ".repeat(axis + 1))?;
                }
                match row {
                    Some(_) => self.write_block(text, axis + 1, cells)?,
                    None => text.push_str("..."),
                }
            }
        }
        text.push(']');
        Ok(())
    }

    fn write_row<'c>(&self, text: &mut String, cells: &mut impl Iterator<Item = &'c String>) -> fmt::Result {
        let indent = self.dims.len();
        let mut column = indent;
        for (index, entry) in shown_rows(self.dims[indent - 1], self.shorten).enumerate() {
            let cell = match entry {
                Some(_) => cells.next().map_or("", String::as_str),
                None => "...",
            };
            if index > 0 && column + 2 + cell.len() > WIDTH {
                write!(text, ",\n{}", " ".repeat(indent))?;
                column = indent;
            } else if index > 0 {
                text.push_str(", ");
                column += 2;
            }
            text.push_str(cell);
            column += cell.len();
        }
        Ok(())
    }
}
