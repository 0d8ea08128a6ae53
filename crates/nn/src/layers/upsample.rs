//! Images of another size.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{InterpolateMode, InterpolateSize, Result, Tensor};

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
    /// The element under the centre: `floor((i + 0.5) * inputs / outputs)`, or, of a factor, `floor((i + 0.5) / factor)`.
    NearestExact,
    /// The cubic convolution of the sixteen around the place, as PyTorch's "bicubic".
    Bicubic {
        /// Whether the first and last elements of the input are those of the output.
        align_corners: bool,
    },
    /// The means of windows that divide the image into as many rows and columns.
    Area,
}

/// Images of another size, larger or smaller, as PyTorch's `nn.Upsample` of two axes ([`Tensor::interpolate`] takes one to three): by `size` or by `scale_factor`, with `recompute_scale_factor` unset.
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
        let mode = match self.mode {
            UpsampleMode::Nearest => InterpolateMode::Nearest,
            UpsampleMode::NearestExact => InterpolateMode::NearestExact,
            UpsampleMode::Bilinear { align_corners } => InterpolateMode::Linear { align_corners },
            UpsampleMode::Bicubic { align_corners } => InterpolateMode::Cubic { align_corners },
            UpsampleMode::Area => InterpolateMode::Area,
        };
        match &self.size {
            UpsampleSize::To(size) => input.interpolate(InterpolateSize::To(size), mode),
            UpsampleSize::Times(factors) => input.interpolate(InterpolateSize::Times(factors), mode),
        }
    }
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
