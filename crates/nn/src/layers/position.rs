//! Positions of tokens: as vectors that are added, or as angles by which queries and keys are
//! rotated.

use std::sync::{Mutex, PoisonError};
use ternion_core::{Device, Error, Result, Tensor, host_values, no_grad};

/// The longest wavelength of positions in the papers, as a multiple of 2 pi.
pub const BASE: f64 = 10_000.0;

/// Returns sinusoidal embeddings of `positions` positions, `[positions, width]` f32: column `2 i`
/// is `sin(position / 10000^(2 i / width))`, column `2 i + 1` is its cosine (Vaswani et al. 2017,
/// section 3.5).
///
/// # Errors
/// Returns an error if the width is odd, memory is exhausted, or the number of elements overflows.
pub fn sinusoidal(positions: usize, width: usize, device: &Device) -> Result<Tensor> {
    if !width.is_multiple_of(2) {
        return Err(Error::invalid("sinusoidal", format!("width {width}, expected an even one")));
    }
    let value = |at: usize| {
        let (position, column) = (at / width, at % width);
        let (sine, cosine) = (position as f64 * frequency(column / 2, width, BASE)).sin_cos();
        if column.is_multiple_of(2) { sine as f32 } else { cosine as f32 }
    };
    let count = table_elements("sinusoidal", positions, width)?;
    Tensor::from_vec(host_values(count, value)?, [positions, width], device)
}

/// Returns the number of elements of a table.
fn table_elements(op: &'static str, rows: usize, columns: usize) -> Result<usize> {
    rows.checked_mul(columns).ok_or_else(|| {
        Error::invalid(op, format!("a table of {rows} positions and {columns} columns is too large"))
    })
}

/// Returns the frequency, in radians per position, of pair `pair` of a vector with `width` columns.
fn frequency(pair: usize, width: usize, base: f64) -> f64 {
    base.powf(-(2.0 * pair as f64) / width as f64)
}

/// Tensors that are derived from a configuration. They are created on the device of the first
/// input, and again when the device changes. They are not part of the state dict.
#[derive(Debug, Default)]
pub(crate) struct Tables(Mutex<Vec<Tensor>>);

impl Tables {
    /// Returns the tables on `device`, which `make` creates in the first call and when the device
    /// changes.
    pub(crate) fn on(
        &self,
        device: &Device,
        make: impl FnOnce() -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.first().is_none_or(|table| !table.device().is(device)) {
            *tables = no_grad(make)?;
        }
        Ok(tables.clone())
    }
}

/// Which columns of a head are rotated together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RotaryLayout {
    /// Column `i` with `i + head_dim / 2`, as in Llama and GPT-NeoX.
    #[default]
    Half,
    /// Column `2 i` with `2 i + 1`, as in the paper.
    Interleaved,
}

/// Configuration of a [`Rotary`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotaryConfig {
    /// Pair `i` is rotated by `position * base^(-2 i / head_dim)`; 10,000 by default.
    pub base: f64,
    /// [`RotaryLayout::Half`] by default.
    pub pairs: RotaryLayout,
}

impl Default for RotaryConfig {
    fn default() -> Self {
        RotaryConfig { base: BASE, pairs: RotaryLayout::default() }
    }
}

/// Rotary embedding: rotates pairs of columns of queries and keys by angles that grow with the
/// position, so that their dot products depend only on the distance (Su et al. 2021).
#[derive(Debug)]
pub struct Rotary {
    positions: usize,
    head_dim: usize,
    config: RotaryConfig,
    /// Cosines and sines, `[positions, head_dim / 2]` f32.
    tables: Tables,
}

impl crate::module::ModuleField for Rotary {}

impl Rotary {
    /// Creates a rotary embedding for heads of `head_dim` columns and up to `positions` positions.
    ///
    /// # Errors
    /// Returns an error if `head_dim` is odd, or if the base is not a finite number above 0.
    pub fn new(positions: usize, head_dim: usize, config: RotaryConfig) -> Result<Rotary> {
        if !head_dim.is_multiple_of(2) {
            return Err(Error::invalid("rotary", format!("heads of {head_dim}, expected an even width")));
        }
        if !(config.base.is_finite() && config.base > 0.0) {
            return Err(Error::invalid(
                "rotary",
                format!("base {}, expected a finite number above 0", config.base),
            ));
        }
        Ok(Rotary { positions, head_dim, config, tables: Tables::default() })
    }

    /// Returns `input` rotated. Its first row along the second-to-last axis is at position `first`.
    ///
    /// # Shapes
    /// `[.., length, head_dim] -> ` same
    ///
    /// # Errors
    /// Returns an error if `head_dim` differs, a position is not below the number of positions, or
    /// the dtype is not floating.
    pub fn forward(&self, input: &Tensor, first: usize) -> Result<Tensor> {
        let [length, width] = row_sizes(input)?;
        if width != self.head_dim || first.saturating_add(length) > self.positions {
            let detail = format!(
                "{length} rows of {width} from position {first}, expected rows of {} at positions below {}",
                self.head_dim, self.positions
            );
            return Err(Error::invalid("rotary", detail));
        }
        self.rotate(input, |table| table.narrow(0, first, length))
    }

    /// Returns `input` rotated. `positions` contains the positions of its rows along the
    /// second-to-last axis.
    ///
    /// # Shapes
    /// input `[.., length, head_dim]`, positions integer `[length]` -> same as input
    ///
    /// # Errors
    /// Returns an error if `head_dim` or the number of positions differs, a position is out of
    /// range, or the dtype is not floating.
    pub fn forward_at(&self, input: &Tensor, positions: &Tensor) -> Result<Tensor> {
        let [length, width] = row_sizes(input)?;
        if width != self.head_dim || positions.dims() != [length] {
            let detail = format!(
                "{length} rows of {width} at positions {:?}, expected rows of {} and a position of each",
                positions.shape(),
                self.head_dim
            );
            return Err(Error::invalid("rotary", detail));
        }
        self.rotate(input, |table| table.index_select(0, positions))
    }

    /// Returns `input` rotated by the rows of the tables that `select_rows` selects.
    fn rotate(&self, input: &Tensor, select_rows: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let width = self.head_dim;
        let tables = self.tables.on(input.device(), || self.create_tables(input.device()))?;
        let select_rows = |table: &Tensor| select_rows(table)?.to_dtype(input.dtype());
        let (cosine, sine) = (select_rows(&tables[0])?, select_rows(&tables[1])?);
        match self.config.pairs {
            RotaryLayout::Half => {
                let parts = [input.narrow(-1, 0, width / 2)?, input.narrow(-1, width / 2, width / 2)?];
                let [left, right] = rotate_pairs(parts, &cosine, &sine)?;
                Tensor::concat(&[&left, &right], -1)
            }
            RotaryLayout::Interleaved => {
                let mut pairs = input.dims().to_vec();
                pairs.pop();
                pairs.extend([width / 2, 2]);
                let pairs = input.reshape(pairs)?;
                let [left, right] =
                    rotate_pairs([pairs.select(-1, 0)?, pairs.select(-1, 1)?], &cosine, &sine)?;
                Tensor::stack(&[&left, &right], -1)?.reshape(*input.shape())
            }
        }
    }

    /// Returns the tables on `device`: cosines, then sines.
    fn create_tables(&self, device: &Device) -> Result<Vec<Tensor>> {
        let half = self.head_dim / 2;
        let table = |of: fn(f64) -> f64| {
            let angle =
                |at: usize| (at / half) as f64 * frequency(at % half, self.head_dim, self.config.base);
            let count = table_elements("rotary", self.positions, half)?;
            Tensor::from_vec(host_values(count, |at| of(angle(at)) as f32)?, [self.positions, half], device)
        };
        Ok(vec![table(f64::cos)?, table(f64::sin)?])
    }
}

/// Returns the last two sizes.
fn row_sizes(input: &Tensor) -> Result<[usize; 2]> {
    input.dims().last_chunk().copied().ok_or_else(|| Error::Rank {
        op: "rotary",
        expected: "at least 2".into(),
        shape: Box::new(*input.shape()),
    })
}

/// Maps pairs `(x, y)` to `(x cos - y sin, y cos + x sin)`.
fn rotate_pairs([x, y]: [Tensor; 2], cosine: &Tensor, sine: &Tensor) -> Result<[Tensor; 2]> {
    Ok([x.mul(cosine)?.sub(&y.mul(sine)?)?, y.mul(cosine)?.add(&x.mul(sine)?)?])
}
