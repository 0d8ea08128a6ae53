//! The part of a transformer that looks at each token by itself.

use super::dropout::Dropout;
use super::linear::{Linear, LinearConfig};
use crate::module::{Forward, Module, in_layer};
use ternion_core::autograd::are_layers_apart;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{DType, Device, Result, Tensor, UnaryOp};

/// What a [`FeedForward`] computes of its input `x`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedForwardForm {
    /// `linear2(relu(linear1(x)))` (Vaswani et al. 2017, eq. 2).
    ReLU,
    /// `linear2(gelu(linear1(x)))`.
    #[default]
    GELU,
    /// As GELU, in the form of the hyperbolic tangent, as in GPT-2.
    GELUTanh,
    /// `linear2(silu(linear_gate(x)) * linear1(x))` (Shazeer 2020).
    SwiGLU,
}

/// Two layers with an activation between, for each token by itself.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// From the width to the hidden width.
    pub linear1: Linear,
    /// Of [`FeedForwardForm::SwiGLU`]: from the width to the hidden width.
    pub linear_gate: Option<Linear>,
    dropout: Dropout,
    /// From the hidden width back.
    pub linear2: Linear,
    #[module(skip)]
    form: FeedForwardForm,
}

/// How a [`FeedForward`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForwardConfig {
    /// GELU by default.
    pub form: FeedForwardForm,
    /// The hidden width. By default four times the width; of SwiGLU, which has a third matrix, 8/3 of it, rounded up to a multiple of 8.
    pub hidden: Option<usize>,
    /// Whether the layers have a bias; yes by default.
    pub bias: bool,
    /// In training, the probability that a hidden number becomes 0; 0 by default.
    pub dropout: f64,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for FeedForwardConfig {
    fn default() -> Self {
        FeedForwardConfig {
            form: FeedForwardForm::default(),
            hidden: None,
            bias: true,
            dropout: 0.0,
            dtype: DType::F32,
        }
    }
}

impl FeedForward {
    /// On rows of `width`.
    ///
    /// # Errors
    /// A dropout outside `0..=1`, a dtype that is not floating, no memory.
    pub fn new(width: usize, config: FeedForwardConfig, device: &Device) -> Result<FeedForward> {
        let FeedForwardConfig { form, hidden, bias, dropout, dtype } = config;
        let is_gated = form == FeedForwardForm::SwiGLU;
        let usual = if is_gated { (width * 8).div_ceil(3).next_multiple_of(8) } else { 4 * width };
        let hidden = hidden.unwrap_or(usual);
        let linear = |inputs, outputs| {
            Linear::with_config(inputs, outputs, LinearConfig { bias, dtype, ..Default::default() }, device)
        };
        Ok(FeedForward {
            linear1: linear(width, hidden)?,
            linear_gate: is_gated.then(|| linear(width, hidden)).transpose()?,
            dropout: Dropout::new(dropout)?,
            linear2: linear(hidden, width)?,
            form,
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
    /// The activation between the layers; none of SwiGLU, which has a product there.
    fn activation(&self) -> Option<UnaryOp> {
        match self.form {
            FeedForwardForm::ReLU => Some(UnaryOp::Relu),
            FeedForwardForm::GELU => Some(UnaryOp::GeluErf),
            FeedForwardForm::GELUTanh => Some(UnaryOp::GeluTanh),
            FeedForwardForm::SwiGLU => None,
        }
    }

    /// `residual + forward(input)`, with the residual added by the last product where nobody looks at what layers give.
    ///
    /// # Shapes
    /// input `[.., width]`, residual the same ` -> ` same
    ///
    /// # Errors
    /// As [`forward`](Forward::forward); a residual of another shape.
    pub fn forward_add(&self, input: &Tensor, residual: &Tensor) -> Result<Tensor> {
        match are_layers_apart() {
            true => residual.add(&self.forward(input)?),
            false => self.output(input, Some(residual)),
        }
    }

    /// The output, added to a residual.
    fn output(&self, input: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        if let (Some(activation), true) = (self.activation(), self.dropout.may_be_skipped()) {
            let [(w1, b1), (w2, b2)] = [self.linear1.tensors(), self.linear2.tensors()];
            let [first, second] = [(&w1, &b1), (&w2, &b2)]
                .map(|(weight, bias)| LinearParameters { weight, bias: bias.as_ref() });
            return input.feed_forward(first, activation, second, residual);
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
