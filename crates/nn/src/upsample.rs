//! Images of another size.

use crate::{Forward, Module, in_layer};
use ternion_core::{DType, Device, Error, Result, Tensor};

/// How [`Upsample`] finds the elements of an image of another size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpsampleMode {
    /// The element at the place, rounded down: `floor(i * inputs / outputs)`.
    #[default]
    Nearest,
    /// The mean of the four around the place, weighted by nearness. Centres of corner elements lie half an element inside the corners; with `align_corners` they
    /// lie on them.
    Bilinear {
        /// Whether the first and last elements of the input are those of the output.
        align_corners: bool,
    },
}

/// Images of another size, as PyTorch's `nn.Upsample` of two axes with `size` given.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upsample {
    /// Rows and columns of the output.
    pub size: UpsampleSize,
    /// [`UpsampleMode::Nearest`] by default.
    #[module(skip)]
    pub mode: UpsampleMode,
}

/// The size of what [`Upsample`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsampleSize {
    /// Rows and columns.
    To([usize; 2]),
    /// So many times the rows and columns of the input.
    Times([usize; 2]),
}

impl crate::ModuleField for UpsampleSize {}

impl Upsample {
    /// So many times the rows and columns of the input, by the nearest elements.
    pub fn times(factor: usize) -> Upsample {
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
            UpsampleSize::To(size) => size,
            UpsampleSize::Times([down, across]) => {
                [height.saturating_mul(down), width.saturating_mul(across)]
            }
        };
        if [height, width, rows, columns].contains(&0) {
            let detail = format!("an image of {height} x {width} to {rows} x {columns}");
            return Err(Error::invalid("upsample", detail));
        }
        along(&along(input, 2, rows, self.mode)?, 3, columns, self.mode)
    }
}

/// `count` elements along `axis`.
fn along(input: &Tensor, axis: usize, count: usize, mode: UpsampleMode) -> Result<Tensor> {
    let inputs = input.dims()[axis];
    if inputs == count {
        return Ok(input.clone());
    }
    match mode {
        UpsampleMode::Nearest => {
            let ratio = inputs as f32 / count as f32;
            let places = numbers(count, input.device())?.mul_scalar(ratio)?;
            input.index_select(axis, &whole(&places, inputs)?)
        }
        UpsampleMode::Bilinear { align_corners } => {
            between(input, axis, &places(inputs, count, align_corners, input.device())?)
        }
    }
}

/// 0, 1, 2 and so on. Places are computed on the device: nothing is uploaded, so that a recorded step holds them, too.
fn numbers(count: usize, device: &Device) -> Result<Tensor> {
    Tensor::arange(0, count as f64, 1, DType::F32, device)
}

/// Places rounded down, as indices of `inputs` elements.
fn whole(places: &Tensor, inputs: usize) -> Result<Tensor> {
    places.floor()?.minimum_scalar((inputs - 1) as f64)?.to_dtype(DType::I32)
}

/// Where the elements of the output lie among those of the input.
fn places(inputs: usize, count: usize, align_corners: bool, device: &Device) -> Result<Tensor> {
    let at = numbers(count, device)?;
    if align_corners {
        let ratio = if count > 1 { (inputs - 1) as f32 / (count - 1) as f32 } else { 0.0 };
        return at.mul_scalar(ratio);
    }
    let ratio = inputs as f32 / count as f32;
    at.add_scalar(0.5)?.mul_scalar(ratio)?.sub_scalar(0.5)?.maximum_scalar(0.0)
}

/// Elements between neighbours along `axis`: `x[low] + (place - low) (x[low + 1] - x[low])`.
fn between(input: &Tensor, axis: usize, places: &Tensor) -> Result<Tensor> {
    let inputs = input.dims()[axis];
    let low = whole(places, inputs)?;
    let high = low.add_scalar(1i32)?.minimum_scalar((inputs - 1) as i32)?;
    let mut shape = [1; 4];
    shape[axis] = places.elements();
    let share = places.sub(&low.to_dtype(DType::F32)?)?.reshape(shape)?.to_dtype(input.dtype())?;
    let low = input.index_select(axis, &low)?;
    let rise = input.index_select(axis, &high)?.sub(&low)?;
    low.add(&rise.mul(&share)?)
}

impl Forward for Upsample {
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, channels, rows, columns]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Upsample", || self.resize(input))
    }
}
