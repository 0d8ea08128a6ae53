//! Rows of a table, reduced by bags.

use super::places_of;
use crate::autograd::no_grad;
use crate::error::{Error, Result, index_told_as};
use crate::functions::indexing::ScatterReduction;
use crate::op::check;
use crate::ops::index::index_dtype;
use crate::{DType, Tensor};

/// How the rows of a bag become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest of each column.
    Max,
}

/// How [`Tensor::embedding_bag`] reads its indices.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddingBagOptions<'a> {
    /// Where each bag begins among indices `[count]`, i32 or i64: 0 first, then in order. `None` for indices `[bags, size]`.
    pub offsets: Option<&'a Tensor>,
    /// Whether the last offset is the end of the last bag, no bag of its own; no by default.
    pub include_last_offset: bool,
    /// How the rows of a bag become one; their mean by default.
    pub mode: BagMode,
    /// What each row counts in its sum, of the indices' shape.
    pub per_sample_weights: Option<&'a Tensor>,
    /// A row that counts nothing in any bag, and gets no gradient.
    pub padding_idx: Option<usize>,
}

impl Tensor {
    /// The rows of this table at `indices`, reduced by bags: [`embedding`](Tensor::embedding) and a sum, a mean or a maximum, of a bag without rows 0. Rows of
    /// half precision are summed in f32 and rounded once. Of equal largest elements the first gets the gradient. Reads the offsets back to the host.
    ///
    /// # Shapes
    /// `[rows, width]`, indices `[bags, size]` (i32 or i64), or `[count]` with offsets `[bags]` -> `[bags, width]`
    ///
    /// # Errors
    /// Other shapes or dtypes, an index out of range, offsets that do not begin with 0, are not in order or reach beyond the indices, weights in another mode
    /// than the sum, a `padding_idx` that is no row.
    pub fn embedding_bag(&self, indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<Tensor> {
        self.reduced_by_bags(indices, options)?.values(self.dtype())
    }

    /// [`embedding_bag`](Tensor::embedding_bag), and what belongs to it, as PyTorch's `embedding_bag` on the CPU.
    ///
    /// # Shapes
    /// `[rows, width]`, indices `[count]` with offsets `[bags]` -> `[bags, width]`, `[count]`, `[bags]` and `[bags, width]` or `[bags]`
    ///
    /// # Errors
    /// As [`embedding_bag`](Tensor::embedding_bag).
    pub fn embedding_bag_parts(
        &self,
        indices: &Tensor,
        options: EmbeddingBagOptions<'_>,
    ) -> Result<EmbeddingBagParts> {
        let reduced = self.reduced_by_bags(indices, options)?;
        let values = reduced.values(self.dtype())?;
        let dtype = match options.offsets {
            Some(offsets) if offsets.dtype() != indices.dtype() => DType::I64,
            _ => indices.dtype(),
        };
        let [bag_of, sizes, rows] = no_grad(|| match options.mode {
            BagMode::Sum => self.parts_of_sum(&reduced, options, dtype),
            _ => reduced.parts(indices, options),
        })?
        .map(|part| part.to_dtype(dtype));
        Ok(EmbeddingBagParts { values, bag_of: bag_of?, sizes: sizes?, rows: rows? })
    }

    /// Zeros in place of sizes, which a sum needs not, with one for the last offset where there is no gradient, and the numbers of bags only where they are used.
    fn parts_of_sum(
        &self,
        reduced: &Reduced,
        options: EmbeddingBagOptions<'_>,
        dtype: DType,
    ) -> Result<[Tensor; 3]> {
        let with_last = options.include_last_offset && reduced.bags > 0 && !self.needs_grad();
        let sizes = Tensor::zeros([reduced.bags + usize::from(with_last)], dtype, self.device())?;
        let is_used = self.dtype() == DType::F64 || options.padding_idx.is_some();
        let bag_of = if is_used { reduced.bag_of()? } else { Tensor::zeros([0], dtype, self.device())? };
        Ok([bag_of, sizes.clone(), sizes])
    }

    fn reduced_by_bags(&self, indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<Reduced> {
        let EmbeddingBagOptions { mode, per_sample_weights, padding_idx, .. } = options;
        check::float(NAME, "table", &self.meta())?;
        let [rows, width] = self.shape().to_array(NAME)?;
        check::index(NAME, "indices", &indices.meta())?;
        if let Some(padding) = padding_idx.filter(|&padding| padding >= rows) {
            return Err(Error::invalid(NAME, format!("padding_idx {padding} of {rows} rows")));
        }
        let (bags, places) = bags_of(indices, options)?;
        let indices_flat = indices.reshape([indices.elements()])?;
        let counted = match padding_idx {
            // What counts nothing goes into one more bag, which is dropped.
            Some(padding) => {
                indices_flat.eq_scalar(padding as i64)?.where_(&places.scalar_like(bags as i64)?, &places)?
            }
            None => places.clone(),
        };
        let dtype = self.dtype().accumulator();
        let mut picked = index_told_as(NAME, || self.embedding(&indices_flat))?.to_dtype(dtype)?;
        if let Some(weights) = per_sample_weights {
            let weights = weights_of(weights, indices, mode)?;
            picked = picked.mul(&weights.reshape([indices.elements(), 1])?.to_dtype(dtype)?)?;
        }
        let zeros = Tensor::zeros([bags + 1, width], dtype, self.device())?;
        let found = match mode {
            BagMode::Max => largest(&zeros, &counted, &picked)?,
            BagMode::Sum => zeros.index_add(0, &counted, &picked)?,
            BagMode::Mean => {
                let ones = Tensor::ones([indices.elements()], dtype, self.device())?;
                let counts =
                    Tensor::zeros([bags + 1], dtype, self.device())?.index_add(0, &counted, &ones)?;
                zeros.index_add(0, &counted, &picked)?.div(&counts.maximum_scalar(1)?.unsqueeze(1)?)?
            }
        };
        Ok(Reduced { bags, places, counted, picked, found })
    }
}

/// What [`Tensor::embedding_bag_parts`] finds.
#[derive(Clone, Debug)]
pub struct EmbeddingBagParts {
    /// The rows of each bag, reduced.
    pub values: Tensor,
    /// The bag of each index, of those behind the last end the last bag. Empty for a sum unless it is in f64 or has a `padding_idx`.
    pub bag_of: Tensor,
    /// How many indices of each bag count; zeros for a sum, in the offsets' shape if the table gets no gradient.
    pub sizes: Tensor,
    /// For a maximum the row that each of the largest elements is from, the first of equal ones, 0 for bags without rows; else as the sizes.
    pub rows: Tensor,
}

/// Rows that are reduced by bags, with one more bag for what counts nothing.
struct Reduced {
    bags: usize,
    /// The bag of each index, and the bag that it counts in.
    places: Tensor,
    counted: Tensor,
    picked: Tensor,
    found: Tensor,
}

impl Reduced {
    fn values(&self, dtype: DType) -> Result<Tensor> {
        self.found.narrow(0, 0, self.bags)?.to_dtype(dtype)
    }

    fn bag_of(&self) -> Result<Tensor> {
        self.places.minimum_scalar(self.bags.saturating_sub(1) as i64)
    }

    /// The bag of each index, the sizes of bags, and the rows of largest elements.
    fn parts(&self, indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<[Tensor; 3]> {
        let (device, bag_of) = (self.picked.device(), self.bag_of()?);
        // Indices behind the last end count here.
        let counts = match options.padding_idx {
            Some(padding) => {
                indices.reshape([indices.elements()])?.ne_scalar(padding as i64)?.to_dtype(DType::I32)?
            }
            None => Tensor::ones([indices.elements()], DType::I32, device)?,
        };
        let sizes = Tensor::zeros([self.bags.max(1)], DType::I32, device)?.index_add(0, &bag_of, &counts)?;
        let sizes = sizes.narrow(0, 0, self.bags)?;
        if options.mode != BagMode::Max {
            return Ok([bag_of, sizes.clone(), sizes]);
        }
        let first = first_of_largest(&self.found, &self.counted, &self.picked)?.narrow(0, 0, self.bags)?;
        let none = Tensor::zeros([1], indices.dtype(), device)?;
        let numbers = Tensor::concat(&[&indices.reshape([indices.elements()])?, &none], 0)?;
        let rows = numbers.index_select(0, &first.reshape([first.elements()])?)?;
        Ok([bag_of, sizes, rows.reshape(*first.shape())?])
    }
}

/// The largest of each column of the rows that go into each of the bags, `zeros` before. With a gradient they are picked: the first of those that equal it, NaN
/// as well.
fn largest(zeros: &Tensor, bags: &Tensor, rows: &Tensor) -> Result<Tensor> {
    let found = no_grad(|| zeros.index_reduce(0, bags, rows, ScatterReduction::Amax, false))?;
    if !rows.needs_grad() {
        return Ok(found);
    }
    let first = no_grad(|| first_of_largest(&found, bags, rows))?;
    // Behind the last row: what bags without rows are.
    let last = Tensor::zeros([1, rows.dims()[1]], rows.dtype(), rows.device())?;
    Tensor::concat(&[rows, &last], 0)?.gather(0, &first)
}

/// The number of the first row of each bag that has its largest element `found`, or a NaN; the number of rows for bags without any.
fn first_of_largest(found: &Tensor, bags: &Tensor, rows: &Tensor) -> Result<Tensor> {
    let count = rows.dims()[0];
    let is_largest = rows.eq(&found.index_select(0, bags)?)?.logical_or(&rows.ne(rows)?)?;
    let numbers = Tensor::iota(count, index_dtype(count), 0, 1, rows.device())?.unsqueeze(1)?;
    let none = numbers.scalar_like(count as i64)?;
    let numbers = is_largest.where_(&numbers, &none)?;
    none.expand(*found.shape())?.index_reduce(0, bags, &numbers, ScatterReduction::Amin, true)
}

const NAME: &str = "embedding_bag";

fn weights_of<'a>(weights: &'a Tensor, indices: &Tensor, mode: BagMode) -> Result<&'a Tensor> {
    if mode != BagMode::Sum {
        return Err(Error::invalid(NAME, format!("per_sample_weights of mode {mode:?}, expected Sum")));
    }
    check::float(NAME, "per_sample_weights", &weights.meta())?;
    check::shape(NAME, "per_sample_weights", &weights.meta(), *indices.shape())?;
    Ok(weights)
}

/// The number of bags, and the bag of each index.
fn bags_of(indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<(usize, Tensor)> {
    let device = indices.device();
    let (starts, count) = match (indices.dims(), options.offsets) {
        (&[bags, size], None) => {
            let places = (0..bags).flat_map(|bag| std::iter::repeat_n(bag, size)).collect();
            return Ok((bags, places_of(places, [bags * size], device)?));
        }
        (&[count], Some(offsets)) => (starts_of(offsets)?, count),
        (_, offsets) => {
            let with = if offsets.is_some() { "with" } else { "without" };
            let told = format!("indices of shape {:?} {with} offsets", indices.shape());
            return Err(Error::invalid(NAME, told));
        }
    };
    let bags = if options.include_last_offset { starts.len().checked_sub(1) } else { Some(starts.len()) };
    let Some(bags) = bags else { return Err(Error::invalid(NAME, "no last offset among none")) };
    let mut ends: Vec<usize> = starts.iter().skip(1).copied().collect();
    if !options.include_last_offset && bags > 0 {
        ends.push(count);
    }
    let is_in_order = starts.first().is_none_or(|&first| first == 0)
        && starts.iter().zip(&ends).all(|(start, end)| start <= end)
        && ends.last().is_none_or(|&last| last <= count);
    if !is_in_order {
        return Err(Error::invalid(NAME, format!("offsets that are not in order from 0 to {count}")));
    }
    // Indices behind the last end, or of no bag at all, belong to the one that is dropped.
    let mut places = vec![bags; count];
    for (bag, (&start, &end)) in starts.iter().zip(&ends).enumerate() {
        places[start..end].fill(bag);
    }
    Ok((bags, places_of(places, [count], device)?))
}

fn starts_of(offsets: &Tensor) -> Result<Vec<usize>> {
    check::index(NAME, "offsets", &offsets.meta())?;
    let [_] = offsets.shape().to_array(NAME)?;
    let starts = offsets.to_dtype(DType::I64)?.to_vec::<i64>()?;
    let outside = |start: i64| Error::invalid(NAME, format!("an offset of {start}, expected at least 0"));
    starts.into_iter().map(|start| usize::try_from(start).map_err(|_| outside(start))).collect()
}
