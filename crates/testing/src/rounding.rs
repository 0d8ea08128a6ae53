//! A device that shows the cost of rounding: it computes in float64 and rounds every result to a
//! narrower dtype, op by op.

use crate::compare::round_to;
use ternion_core::{Backend, DType, Device, Meta, Op, Plan, Result, Unsupported, View};

/// When results are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundingStep {
    /// After every op, as on a device that has kernels for composite ops and computes in a wider
    /// dtype inside them.
    Ops,
    /// After every primitive, as on a device that composes.
    Primitives,
}

/// A decorator that runs ops in float64 on another device and rounds their results.
#[derive(Debug)]
pub struct Rounding {
    inner: Device,
    /// The dtype to which results are rounded.
    to: DType,
    rounding_step: RoundingStep,
}

impl Rounding {
    /// Creates a device that computes on `inner` and rounds to `to`.
    pub fn device(inner: &Device, to: DType, rounding_step: RoundingStep) -> Device {
        Device::new(Rounding { inner: inner.clone(), to, rounding_step })
    }

    /// Returns the dtype that each output would have if the inputs had the narrow dtype. Outputs
    /// that are statistics have a wider one.
    fn narrow_outputs(&self, op: &Op, inputs: &[View<'_>], count: usize) -> Vec<DType> {
        let narrow = |dtype: DType| if dtype == DType::F64 { self.to } else { dtype };
        let metas: Vec<Meta<'_>> =
            inputs.iter().map(|view| Meta { dtype: narrow(view.dtype), layout: view.layout }).collect();
        match op.rule().infer(&metas) {
            Ok(outputs) => outputs.iter().map(|output| narrow(output.dtype)).collect(),
            // An op that takes statistics rejects narrow inputs: its outputs are narrow.
            Err(_) => vec![self.to; count],
        }
    }

    fn round(&self, view: &View<'_>, to: DType) -> Result<()> {
        let backend = self.inner.backend();
        let mut bytes = vec![0; view.buffer.bytes()];
        backend.download(view.buffer, 0, &mut bytes)?;
        for position in view.layout.positions() {
            match view.dtype {
                DType::F64 => {
                    let element = &mut bytes[position * 8..position * 8 + 8];
                    let value = f64::from_ne_bytes(element.try_into().expect("eight bytes"));
                    element.copy_from_slice(&round_to(to, value).to_ne_bytes());
                }
                _ => {
                    let element = &mut bytes[position * 4..position * 4 + 4];
                    let value = f32::from_ne_bytes(element.try_into().expect("four bytes"));
                    element.copy_from_slice(&(round_to(to, f64::from(value)) as f32).to_ne_bytes());
                }
            }
        }
        backend.upload(&bytes, view.buffer, 0)
    }
}

impl Backend for Rounding {
    ternion_core::delegate_backend!(inner: alloc, upload, download, synchronize, memory);

    fn name(&self) -> &str {
        "rounding"
    }
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        match op.is_primitive() || self.rounding_step == RoundingStep::Ops {
            true => self.inner.backend().plan(op, inputs),
            false => Err(Unsupported::because("rounding is shown primitive by primitive")),
        }
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        self.inner.backend().run(op, inputs, outputs)?;
        let narrow = self.narrow_outputs(op, inputs, outputs.len());
        for (view, to) in outputs.iter().zip(narrow) {
            if matches!(view.dtype, DType::F64 | DType::F32) {
                self.round(view, to)?;
            }
        }
        Ok(())
    }
}
