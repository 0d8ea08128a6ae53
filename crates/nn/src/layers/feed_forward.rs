//! The feed-forward part of a transformer, which processes each token independently.

use super::dropout::Dropout;
use super::linear::{Linear, LinearConfig};
use crate::module::{Forward, Module, in_layer};
use ternion_core::autograd::is_layer_fusion_disabled;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{DType, Device, Result, Tensor, UnaryOp};

/// The function that a [`FeedForward`] computes of its input `x`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedForwardKind {
    /// `linear2(relu(linear1(x)))` (Vaswani et al. 2017, eq. 2).
    ReLU,
    /// `linear2(gelu(linear1(x)))`.
    #[default]
    GELU,
    /// Like GELU, with the tanh approximation, as in GPT-2.
    GELUTanh,
    /// `linear2(silu(linear_gate(x)) * linear1(x))` (Shazeer 2020).
    SwiGLU,
}

/// Two linear layers with an activation between them, applied to each token independently.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// From the width to the hidden width.
    pub linear1: Linear,
    /// From the width to the hidden width; only for [`FeedForwardKind::SwiGLU`].
    pub linear_gate: Option<Linear>,
    dropout: Dropout,
    /// From the hidden width back to the width.
    pub linear2: Linear,
    #[module(skip)]
    kind: FeedForwardKind,
}

/// Configuration of a [`FeedForward`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForwardConfig {
    /// GELU by default.
    pub kind: FeedForwardKind,
    /// The hidden width. By default four times the width; for SwiGLU, which has a third matrix, 8/3
    /// of the width, rounded up to a multiple of 8.
    pub hidden: Option<usize>,
    /// Whether the layers have a bias; true by default.
    pub bias: bool,
    /// The probability that a hidden activation is set to 0 in training mode; 0 by default.
    pub dropout: f64,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for FeedForwardConfig {
    fn default() -> Self {
        FeedForwardConfig {
            kind: FeedForwardKind::default(),
            hidden: None,
            bias: true,
            dropout: 0.0,
            dtype: DType::F32,
        }
    }
}

impl FeedForward {
    /// Creates a layer for rows of `width` columns.
    ///
    /// # Errors
    /// Returns an error if the dropout is outside `0..=1`, the dtype is not floating, or memory is
    /// exhausted.
    pub fn new(width: usize, config: FeedForwardConfig, device: &Device) -> Result<FeedForward> {
        let FeedForwardConfig { kind, hidden, bias, dropout, dtype } = config;
        let is_gated = kind == FeedForwardKind::SwiGLU;
        let default_hidden = if is_gated { (width * 8).div_ceil(3).next_multiple_of(8) } else { 4 * width };
        let hidden = hidden.unwrap_or(default_hidden);
        let linear = |inputs, outputs| {
            Linear::with_config(inputs, outputs, LinearConfig { bias, dtype, ..Default::default() }, device)
        };
        Ok(FeedForward {
            linear1: linear(width, hidden)?,
            linear_gate: is_gated.then(|| linear(width, hidden)).transpose()?,
            dropout: Dropout::new(dropout)?,
            linear2: linear(hidden, width)?,
            kind,
        })
    }

    fn hidden(&self, input: &Tensor) -> Result<Tensor> {
        match (self.activation(), &self.linear_gate) {
            (Some(activation), _) => self.linear1.forward_activation(input, activation),
            (None, Some(gate)) => {
                let gate = gate.forward_activation(input, UnaryOp::Silu)?;
                gate.mul(&self.linear1.forward(input)?)
            }
            (None, None) => self.linear1.forward(input),
        }
    }
}

impl FeedForward {
    /// Returns the activation between the layers; `None` for SwiGLU, which multiplies by a gate
    /// instead.
    fn activation(&self) -> Option<UnaryOp> {
        match self.kind {
            FeedForwardKind::ReLU => Some(UnaryOp::Relu),
            FeedForwardKind::GELU => Some(UnaryOp::GeluErf),
            FeedForwardKind::GELUTanh => Some(UnaryOp::GeluTanh),
            FeedForwardKind::SwiGLU => None,
        }
    }

    /// Returns `residual + forward(input)`. The sum is fused into the last matrix product, unless
    /// layers are observed.
    ///
    /// # Shapes
    /// input `[.., width]`, residual the same ` -> ` same
    ///
    /// # Errors
    /// Same as [`forward`](Forward::forward); also if the residual has another shape.
    pub fn forward_add(&self, input: &Tensor, residual: &Tensor) -> Result<Tensor> {
        match is_layer_fusion_disabled() {
            true => residual.add(&self.forward(input)?),
            false => self.output(input, Some(residual)),
        }
    }

    /// Returns the output, plus the residual if there is one.
    fn output(&self, input: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        if let (Some(activation), true) = (self.activation(), self.dropout.is_identity()) {
            let [(w1, b1), (w2, b2)] = [self.linear1.tensors(), self.linear2.tensors()];
            let [first_layer, second_layer] = [(&w1, &b1), (&w2, &b2)]
                .map(|(weight, bias)| LinearParameters { weight, bias: bias.as_ref() });
            return input.feed_forward(first_layer, activation, second_layer, residual);
        }
        let hidden = self.dropout.forward(&self.hidden(input)?)?;
        match residual {
            Some(residual) => self.linear2.forward_add(&hidden, residual),
            None => self.linear2.forward(&hidden),
        }
    }
}

impl Forward for FeedForward {
    /// # Shapes
    /// `[.., width] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "FeedForward", || self.output(input, None))
    }
}
