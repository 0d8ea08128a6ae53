//! Images of another size.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{DType, Device, Error, Result, Tensor};

/// How [`Upsample`] finds the elements of an image of another size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpsampleMode {
    /// The element at the place, rounded down: `floor(i * inputs / outputs)`, or, of a factor, `floor(i / factor)`.
    #[default]
    Nearest,
    /// The mean of the four around the place, weighted by nearness. Centres of corner elements lie half an element inside the corners; with `align_corners` they
    /// lie on them.
    Bilinear {
        /// Whether the first and last elements of the input are those of the output.
        align_corners: bool,
    },
}

/// Images of another size, larger or smaller, as PyTorch's `nn.Upsample` of two axes: by `size` or by `scale_factor`, with `recompute_scale_factor` unset.
///
/// Its public fields are its settings: `Upsample { size: UpsampleSize::Times([1.5, 2.0]), mode: UpsampleMode::default() }`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct Upsample {
    /// Rows and columns of the output, or factors.
    #[module(skip)]
    pub size: UpsampleSize,
    /// [`UpsampleMode::Nearest`] by default.
    #[module(skip)]
    pub mode: UpsampleMode,
}

/// The size of what [`Upsample`] makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpsampleSize {
    /// Rows and columns.
    To([usize; 2]),
    /// So many times the rows and columns of the input, rounded down; finite numbers above 0.
    ///
    /// As in PyTorch, the places of the output's elements are those of the factor, and not of the rounded size: 3 columns times 1.5 are 4, at distances of `1 / 1.5` columns
    /// of the input, and not of `3 / 4`. Three cases are as if the size were given: as many rows or columns as the input has; twice as many, of the nearest elements; corners
    /// that are aligned.
    Times([f64; 2]),
}

impl Upsample {
    /// So many times the rows and columns of the input, by the nearest elements.
    pub fn times(factor: f64) -> Upsample {
        Upsample { size: UpsampleSize::Times([factor; 2]), mode: UpsampleMode::Nearest }
    }

    /// To `size` rows and columns, by the nearest elements.
    pub fn to(size: [usize; 2]) -> Upsample {
        Upsample { size: UpsampleSize::To(size), mode: UpsampleMode::Nearest }
    }

    /// The same, bilinear.
    #[must_use]
    pub fn bilinear(self, align_corners: bool) -> Upsample {
        Upsample { mode: UpsampleMode::Bilinear { align_corners }, ..self }
    }

    fn resize(&self, input: &Tensor) -> Result<Tensor> {
        let [_, _, height, width] = input.shape().to_array("upsample")?;
        let [rows, columns] = match self.size {
            UpsampleSize::To([rows, columns]) => [Resized::to(height, rows), Resized::to(width, columns)],
            UpsampleSize::Times([down, across]) => {
                [Resized::times(height, down)?, Resized::times(width, across)?]
            }
        };
        if [height, width, rows.outputs, columns.outputs].contains(&0) {
            let detail = format!("an image of {height} x {width} to {} x {}", rows.outputs, columns.outputs);
            return Err(Error::invalid("upsample", detail));
        }
        along(&along(input, 2, rows, self.mode)?, 3, columns, self.mode)
    }
}

/// An axis with as many elements as it has, and as it shall have.
#[derive(Clone, Copy)]
struct Resized {
    inputs: usize,
    outputs: usize,
    /// From one element of the output to the next, in elements of the input, where corners are not aligned.
    distance: f64,
}

impl Resized {
    fn to(inputs: usize, outputs: usize) -> Resized {
        Resized { inputs, outputs, distance: inputs as f64 / outputs as f64 }
    }

    fn times(inputs: usize, factor: f64) -> Result<Resized> {
        if !factor.is_finite() || factor <= 0.0 {
            let detail = format!("a factor of {factor}, expected a finite number above 0");
            return Err(Error::invalid("upsample", detail));
        }
        // A product beyond all sizes becomes the largest one, for which there is no memory.
        let outputs = (inputs as f64 * factor) as usize;
        Ok(Resized { inputs, outputs, distance: factor.recip() })
    }
}

/// The elements of the output along `axis`.
fn along(input: &Tensor, axis: usize, resized: Resized, mode: UpsampleMode) -> Result<Tensor> {
    let Resized { inputs, outputs, distance } = resized;
    if inputs == outputs {
        return Ok(input.clone());
    }
    match mode {
        UpsampleMode::Nearest => {
            // In f32 whatever the image is, as in PyTorch: a place that rounding moves is another element.
            let distance = if outputs == 2 * inputs { 0.5 } else { f64::from(distance as f32) };
            let places = numbers(outputs, DType::F32, input.device())?.mul_scalar(distance)?;
            input.index_select(axis, &whole(&places, inputs)?)
        }
        UpsampleMode::Bilinear { align_corners } => {
            // Of halves in f32, of f64 in f64.
            let dtype = input.dtype().accumulator();
            between(input, axis, &places(resized, align_corners, dtype, input.device())?)
        }
    }
}

/// 0, 1, 2 and so on. Places are computed on the device: nothing is uploaded, so that a recorded step holds them, too.
fn numbers(count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::arange(0, count as f64, 1, dtype, device)
}

/// Places rounded down, as indices of `inputs` elements.
fn whole(places: &Tensor, inputs: usize) -> Result<Tensor> {
    places.floor()?.minimum_scalar((inputs - 1) as f64)?.to_dtype(DType::I32)
}

/// Where the elements of the output lie among those of the input.
fn places(resized: Resized, align_corners: bool, dtype: DType, device: &Device) -> Result<Tensor> {
    let Resized { inputs, outputs, distance } = resized;
    let rounded = |number: f64| if dtype == DType::F64 { number } else { f64::from(number as f32) };
    let at = numbers(outputs, dtype, device)?;
    if align_corners {
        let ratio = if outputs > 1 { (inputs - 1) as f64 / (outputs - 1) as f64 } else { 0.0 };
        return at.mul_scalar(rounded(ratio));
    }
    at.add_scalar(0.5)?.mul_scalar(rounded(distance))?.sub_scalar(0.5)?.maximum_scalar(0.0)
}

/// Elements between neighbours along `axis`: `x[low] + (place - low) (x[low + 1] - x[low])`.
fn between(input: &Tensor, axis: usize, places: &Tensor) -> Result<Tensor> {
    let inputs = input.dims()[axis];
    let low = whole(places, inputs)?;
    let high = low.add_scalar(1i32)?.minimum_scalar((inputs - 1) as i32)?;
    let mut shape = [1; 4];
    shape[axis] = places.elements();
    let share = places.sub(&low.to_dtype(places.dtype())?)?.reshape(shape)?.to_dtype(input.dtype())?;
    let low = input.index_select(axis, &low)?;
    let rise = input.index_select(axis, &high)?.sub(&low)?;
    low.add(&rise.mul(&share)?)
}

impl Forward for Upsample {
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, channels, rows, columns]`; of factors `rows = floor(height * factor)`
    ///
    /// # Errors
    /// An image without elements, or of none; a factor that is not a finite number above 0.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Upsample", || self.resize(input))
    }
}
