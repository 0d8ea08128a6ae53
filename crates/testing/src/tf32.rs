//! A device that rounds to TF32 wherever products permit it: it shows on any machine the effect of
//! TF32 on a program.

use crate::compare::round_to_tf32;
use ternion_core::{Backend, Buffer, DType, Device, Meta, Op, Plan, Result, Unsupported, View};

/// How operands are rounded to TF32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To nearest, ties away from zero: the permitted rounding.
    Nearest,
    /// Toward zero, by truncation: the error is twice as large, and always has the same sign. A
    /// fault, for tests of the tools that detect faults.
    Truncate,
}

/// A decorator on which products that permit TF32 are computed with rounded operands. Sums are f32.
/// Convolutions and attention are composed of such products.
#[derive(Debug)]
pub struct Tf32 {
    inner: Device,
    mode: Mode,
}

impl Tf32 {
    /// Creates a device that rounds and computes on `inner`.
    pub fn device(inner: &Device, mode: Mode) -> Device {
        Device::new(Tf32 { inner: inner.clone(), mode })
    }

    /// Returns a copy of the buffer of `view` with every f32 rounded.
    fn rounded(&self, view: &View<'_>) -> Result<Buffer> {
        let backend = self.inner.backend();
        let mut bytes = vec![0; view.buffer.bytes()];
        backend.download(view.buffer, 0, &mut bytes)?;
        for word in bytes.as_chunks_mut::<4>().0 {
            let value = f32::from_ne_bytes(*word);
            let rounded = match self.mode {
                Mode::Nearest => round_to_tf32(f64::from(value)) as f32,
                Mode::Truncate => f32::from_bits(value.to_bits() & !0x1fff),
            };
            *word = rounded.to_ne_bytes();
        }
        let buffer = backend.alloc(bytes.len())?;
        backend.upload(&bytes, &buffer, 0)?;
        Ok(buffer)
    }
}

impl Backend for Tf32 {
    ternion_core::delegate_backend!(inner: alloc, upload, download, synchronize, memory);

    fn name(&self) -> &str {
        "tf32"
    }
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        let is_permitted = match op {
            Op::Conv2d(conv) => conv.config.tf32,
            Op::Conv2dGradInput(conv) => conv.config.tf32,
            Op::Conv2dGradWeight(conv) => conv.config.tf32,
            Op::Attention(attention) => attention.config.tf32,
            Op::AttentionGrad(attention) => attention.config.tf32,
            _ => false,
        };
        match is_permitted {
            true => Err(Unsupported::because("products are rounded one by one")),
            false => self.inner.backend().plan(op, inputs),
        }
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let backend = self.inner.backend();
        let is_permitted = matches!(op, Op::Matmul(product) if product.tf32);
        match inputs {
            [a, b, rest @ ..] if is_permitted && a.dtype == DType::F32 => {
                let [left, right] = [self.rounded(a)?, self.rounded(b)?];
                let mut rounded = vec![View { buffer: &left, ..*a }, View { buffer: &right, ..*b }];
                rounded.extend(rest.iter().copied());
                backend.run(op, &rounded, outputs)
            }
            _ => backend.run(op, inputs, outputs),
        }
    }
}
