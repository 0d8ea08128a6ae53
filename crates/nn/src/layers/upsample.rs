//! Resizing of images.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{InterpolateMode, InterpolateSize, Result, Tensor};

/// How [`Upsample`] interpolates the elements of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpsampleMode {
    /// The nearest element, with the position rounded down: `floor(i * inputs / outputs)`, or for a
    /// factor `floor(i / factor)`.
    #[default]
    Nearest,
    /// The mean of the four elements around the position, weighted by distance. The centers of
    /// corner elements are half an element inside the corners; with `align_corners` they are at the
    /// corners.
    Bilinear {
        /// Whether the first and last elements of the input and the output coincide.
        align_corners: bool,
    },
    /// The element at the center: `floor((i + 0.5) * inputs / outputs)`, or for a factor `floor((i
    /// + 0.5) / factor)`.
    NearestExact,
    /// Cubic convolution of the sixteen elements around the position, as PyTorch's "bicubic".
    Bicubic {
        /// Whether the first and last elements of the input and the output coincide.
        align_corners: bool,
    },
    /// The means of windows that divide the image into the output's rows and columns.
    Area,
}

/// Enlarges or shrinks images, as PyTorch's `nn.Upsample` for two axes ([`Tensor::interpolate`]
/// supports one to three), by `size` or by `scale_factor`, with `recompute_scale_factor` unset.
///
/// The public fields are its settings: `Upsample { size: UpsampleSize::Times([1.5, 2.0]), mode:
/// UpsampleMode::default() }`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct Upsample {
    /// Rows and columns of the output, or factors.
    #[module(skip)]
    pub size: UpsampleSize,
    /// [`UpsampleMode::Nearest`] by default.
    #[module(skip)]
    pub mode: UpsampleMode,
}

/// The output size of [`Upsample`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpsampleSize {
    /// Rows and columns.
    To([usize; 2]),
    /// Factors of the rows and columns of the input, with the product rounded down; finite numbers
    /// above 0.
    ///
    /// As in PyTorch, the positions of the output's elements are computed from the factor, and not
    /// from the rounded size: 3 columns times 1.5 give 4 columns, at distances of `1 / 1.5` columns
    /// of the input instead of `3 / 4`. There are three exceptions, which are computed as if the
    /// size were given: an output with as many rows or columns as the input; a factor of 2 with the
    /// nearest elements; aligned corners.
    Times([f64; 2]),
}

impl Upsample {
    /// Creates a layer that multiplies rows and columns by `factor`, with the nearest elements.
    pub fn times(factor: f64) -> Upsample {
        Upsample { size: UpsampleSize::Times([factor; 2]), mode: UpsampleMode::Nearest }
    }

    /// Creates a layer with `size` output rows and columns, with the nearest elements.
    pub fn to(size: [usize; 2]) -> Upsample {
        Upsample { size: UpsampleSize::To(size), mode: UpsampleMode::Nearest }
    }

    /// Returns the same layer with bilinear interpolation.
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
    /// `[batch, channels, height, width] -> [batch, channels, rows, columns]`; for factors, `rows =
    /// floor(height * factor)`
    ///
    /// # Errors
    /// Returns an error if the input or the output has no rows or columns, or if a factor is not a
    /// finite number above 0.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Upsample", || self.resize(input))
    }
}
