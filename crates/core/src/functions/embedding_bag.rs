//! Embedding bags: table rows that are looked up and reduced within bags.

use super::index_tensor;
use crate::autograd::no_grad;
use crate::error::{Error, Result, with_index_error_op};
use crate::functions::indexing::ScatterReduction;
use crate::op::check;
use crate::ops::index::index_dtype;
use crate::{DType, Tensor};

/// How the rows of a bag are reduced to one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// The sum of the rows.
    Sum,
    /// The mean of the rows.
    #[default]
    Mean,
    /// The maximum of each column.
    Max,
}

/// Options of [`Tensor::embedding_bag`].
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddingBagOptions<'a> {
    /// The start of each bag in indices of shape `[count]`; i32 or i64, nondecreasing, the first
    /// one 0. `None` if the indices have the shape `[bags, size]`.
    pub offsets: Option<&'a Tensor>,
    /// Whether the last offset is the end of the last bag rather than the start of another one.
    /// Default: false.
    pub include_last_offset: bool,
    /// How the rows of a bag are reduced. Default: mean.
    pub mode: BagMode,
    /// The weight of each row in its sum, with the shape of the indices.
    pub per_sample_weights: Option<&'a Tensor>,
    /// A row that is ignored in every bag and gets no gradient.
    pub padding_idx: Option<usize>,
}

impl Tensor {
    /// Looks up rows of this table at `indices` and reduces them within bags:
    /// [`embedding`](Tensor::embedding) followed by a sum, mean or maximum. A bag without rows
    /// is 0. Half-precision rows are accumulated in f32 and rounded once. Among equal maxima the
    /// first one gets the gradient. Copies the offsets to the host.
    ///
    /// # Shapes
    /// `[rows, width]`, indices `[bags, size]` (i32 or i64), or `[count]` with offsets `[bags]` ->
    /// `[bags, width]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if an index is out of range, if the
    /// offsets do not begin with 0, decrease, or exceed the number of indices, if there are weights
    /// in a mode other than the sum, or if `padding_idx` is not a row of the table.
    pub fn embedding_bag(&self, indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<Tensor> {
        self.reduce_bags(indices, options)?.values(self.dtype())
    }

    /// Returns the result of [`embedding_bag`](Tensor::embedding_bag) together with the other
    /// outputs of PyTorch's `embedding_bag` on the CPU.
    ///
    /// # Shapes
    /// `[rows, width]`, indices `[count]` with offsets `[bags]` -> `[bags, width]`, `[count]`,
    /// `[bags]` and `[bags, width]` or `[bags]`
    ///
    /// # Errors
    /// Same as [`embedding_bag`](Tensor::embedding_bag).
    pub fn embedding_bag_parts(
        &self,
        indices: &Tensor,
        options: EmbeddingBagOptions<'_>,
    ) -> Result<EmbeddingBagParts> {
        let reduced = self.reduce_bags(indices, options)?;
        let values = reduced.values(self.dtype())?;
        let dtype = match options.offsets {
            Some(offsets) if offsets.dtype() != indices.dtype() => DType::I64,
            _ => indices.dtype(),
        };
        let [bag_of, sizes, rows] = no_grad(|| match options.mode {
            BagMode::Sum => self.sum_parts(&reduced, options, dtype),
            _ => reduced.parts(indices, options),
        })?
        .map(|part| part.to_dtype(dtype));
        Ok(EmbeddingBagParts { values, bag_of: bag_of?, sizes: sizes?, rows: rows? })
    }

    /// Returns the additional outputs of a sum, which needs no sizes: they are zeros, with one
    /// element more for the last offset if the table requires no gradient. `bag_of` is computed
    /// only where it is used and is empty otherwise.
    fn sum_parts(
        &self,
        reduced: &ReducedBags,
        options: EmbeddingBagOptions<'_>,
        dtype: DType,
    ) -> Result<[Tensor; 3]> {
        let with_last = options.include_last_offset && reduced.bags > 0 && !self.needs_grad();
        let sizes = Tensor::zeros([reduced.bags + usize::from(with_last)], dtype, self.device())?;
        let is_used = self.dtype() == DType::F64 || options.padding_idx.is_some();
        let bag_of = if is_used { reduced.bag_of()? } else { Tensor::zeros([0], dtype, self.device())? };
        Ok([bag_of, sizes.clone(), sizes])
    }

    fn reduce_bags(&self, indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<ReducedBags> {
        let EmbeddingBagOptions { mode, per_sample_weights, padding_idx, .. } = options;
        check::float(NAME, "table", &self.meta())?;
        let [rows, width] = self.shape().to_array(NAME)?;
        check::index(NAME, "indices", &indices.meta())?;
        if let Some(padding) = padding_idx.filter(|&padding| padding >= rows) {
            return Err(Error::invalid(NAME, format!("padding_idx {padding} of {rows} rows")));
        }
        let (bags, bag_indices) = assign_bags(indices, options)?;
        let indices_flat = indices.reshape([indices.elements()])?;
        let target_bags = match padding_idx {
            // Padding indices go into one additional bag, which is dropped.
            Some(padding) => indices_flat
                .eq_scalar(padding as i64)?
                .where_(&bag_indices.scalar_like(bags as i64)?, &bag_indices)?,
            None => bag_indices.clone(),
        };
        let dtype = self.dtype().accumulator();
        let mut table_rows = with_index_error_op(NAME, || self.embedding(&indices_flat))?.to_dtype(dtype)?;
        if let Some(weights) = per_sample_weights {
            let weights = check_weights(weights, indices, mode)?;
            table_rows = table_rows.mul(&weights.reshape([indices.elements(), 1])?.to_dtype(dtype)?)?;
        }
        let zeros = Tensor::zeros([bags + 1, width], dtype, self.device())?;
        let output = match mode {
            BagMode::Max => bag_maxima(&zeros, &target_bags, &table_rows)?,
            BagMode::Sum => zeros.index_add(0, &target_bags, &table_rows)?,
            BagMode::Mean => {
                let ones = Tensor::ones([indices.elements()], dtype, self.device())?;
                let counts =
                    Tensor::zeros([bags + 1], dtype, self.device())?.index_add(0, &target_bags, &ones)?;
                zeros
                    .index_add(0, &target_bags, &table_rows)?
                    .div(&counts.maximum_scalar(1)?.unsqueeze(1)?)?
            }
        };
        Ok(ReducedBags { bags, bag_indices, target_bags, table_rows, output })
    }
}

/// The outputs of [`Tensor::embedding_bag_parts`].
#[derive(Clone, Debug)]
pub struct EmbeddingBagParts {
    /// The reduced rows, one for each bag.
    pub values: Tensor,
    /// The bag of each index; indices after the end of the last bag are assigned to the last bag.
    /// Empty for a sum, unless it is in f64 or has a `padding_idx`.
    pub bag_of: Tensor,
    /// The number of indices in each bag, without padding. For a sum these are zeros, with the
    /// shape of the offsets if the table requires no gradient.
    pub sizes: Tensor,
    /// For a maximum, the table row from which each element comes: the first one of equal rows, 0
    /// for bags without rows. Otherwise the same as `sizes`.
    pub rows: Tensor,
}

/// Rows that were reduced within bags, with one additional bag for ignored indices.
struct ReducedBags {
    bags: usize,
    /// The bag of each index. `target_bags` is the same, except that padding is in the additional
    /// bag.
    bag_indices: Tensor,
    target_bags: Tensor,
    table_rows: Tensor,
    output: Tensor,
}

impl ReducedBags {
    fn values(&self, dtype: DType) -> Result<Tensor> {
        self.output.narrow(0, 0, self.bags)?.to_dtype(dtype)
    }

    fn bag_of(&self) -> Result<Tensor> {
        self.bag_indices.minimum_scalar(self.bags.saturating_sub(1) as i64)
    }

    /// Returns the bag of each index, the sizes of the bags, and the rows of the maxima.
    fn parts(&self, indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<[Tensor; 3]> {
        let (device, bag_of) = (self.table_rows.device(), self.bag_of()?);
        // Indices after the end of the last bag are counted in the last bag.
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
        let first =
            first_argmax(&self.output, &self.target_bags, &self.table_rows)?.narrow(0, 0, self.bags)?;
        let none = Tensor::zeros([1], indices.dtype(), device)?;
        let row_indices = Tensor::concat(&[&indices.reshape([indices.elements()])?, &none], 0)?;
        let rows = row_indices.index_select(0, &first.reshape([first.elements()])?)?;
        Ok([bag_of, sizes, rows.reshape(*first.shape())?])
    }
}

/// Returns the maximum of each column over the rows of each bag, and the elements of `zeros` for
/// bags without rows. If a gradient is needed, the maxima are gathered from the rows: the first
/// element that equals the maximum, or the first NaN.
fn bag_maxima(zeros: &Tensor, bags: &Tensor, rows: &Tensor) -> Result<Tensor> {
    let maxima = no_grad(|| zeros.index_reduce(0, bags, rows, ScatterReduction::Amax, false))?;
    if !rows.needs_grad() {
        return Ok(maxima);
    }
    let first = no_grad(|| first_argmax(&maxima, bags, rows))?;
    // The additional last row is the result for bags without rows.
    let last = Tensor::zeros([1, rows.dims()[1]], rows.dtype(), rows.device())?;
    Tensor::concat(&[rows, &last], 0)?.gather(0, &first)
}

/// Returns, for each bag and column, the index of the first row that equals its value in `maxima`
/// or is NaN. For bags without rows it returns the number of rows.
fn first_argmax(maxima: &Tensor, bags: &Tensor, rows: &Tensor) -> Result<Tensor> {
    let count = rows.dims()[0];
    let is_maximum = rows.eq(&maxima.index_select(0, bags)?)?.logical_or(&rows.ne(rows)?)?;
    let row_indices = Tensor::iota(count, index_dtype(count), 0, 1, rows.device())?.unsqueeze(1)?;
    let none = row_indices.scalar_like(count as i64)?;
    let row_indices = is_maximum.where_(&row_indices, &none)?;
    none.expand(*maxima.shape())?.index_reduce(0, bags, &row_indices, ScatterReduction::Amin, true)
}

const NAME: &str = "embedding_bag";

fn check_weights<'a>(weights: &'a Tensor, indices: &Tensor, mode: BagMode) -> Result<&'a Tensor> {
    if mode != BagMode::Sum {
        return Err(Error::invalid(NAME, format!("per_sample_weights of mode {mode:?}, expected Sum")));
    }
    check::float(NAME, "per_sample_weights", &weights.meta())?;
    check::shape(NAME, "per_sample_weights", &weights.meta(), *indices.shape())?;
    Ok(weights)
}

/// Returns the number of bags, and the bag of each index.
fn assign_bags(indices: &Tensor, options: EmbeddingBagOptions<'_>) -> Result<(usize, Tensor)> {
    let device = indices.device();
    let (starts, count) = match (indices.dims(), options.offsets) {
        (&[bags, size], None) => {
            let bag_indices = (0..bags).flat_map(|bag| std::iter::repeat_n(bag, size)).collect();
            return Ok((bags, index_tensor(bag_indices, [bags * size], device)?));
        }
        (&[count], Some(offsets)) => (read_offsets(offsets)?, count),
        (_, offsets) => {
            let with = if offsets.is_some() { "with" } else { "without" };
            let detail = format!("indices of shape {:?} {with} offsets", indices.shape());
            return Err(Error::invalid(NAME, detail));
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
    // Indices after the last end, or without any bag, belong to the additional bag, which is
    // dropped.
    let mut bag_indices = vec![bags; count];
    for (bag, (&start, &end)) in starts.iter().zip(&ends).enumerate() {
        bag_indices[start..end].fill(bag);
    }
    Ok((bags, index_tensor(bag_indices, [count], device)?))
}

fn read_offsets(offsets: &Tensor) -> Result<Vec<usize>> {
    check::index(NAME, "offsets", &offsets.meta())?;
    let [_] = offsets.shape().to_array(NAME)?;
    let starts = offsets.to_dtype(DType::I64)?.to_vec::<i64>()?;
    let negative_error =
        |start: i64| Error::invalid(NAME, format!("an offset of {start}, expected at least 0"));
    starts.into_iter().map(|start| usize::try_from(start).map_err(|_| negative_error(start))).collect()
}
