//! A device that stops at the first op that produces a NaN.

use super::snapshot::{Snapshot, unravel};
use crate::anomaly::{Unwanted, defer_to_function};
use crate::backend::{Backend, Meta, Plan, Unsupported, View};
use crate::delegate_backend;
use crate::device::Device;
use crate::dtype::Scalar;
use crate::error::{Error, Result, Text};
use crate::op::Op;
use crate::text;

/// Copies every floating output to the host. If it contains NaN (or, if requested, infinity), and
/// no input does, the op returns an error.
///
/// A NaN that the program itself writes (uploaded, or as the scalar of a fill, pad or scalar op) is
/// not an error. A function that is composed of ops is checked as a whole, and reported by its own
/// name. This is slow, and intended for debugging.
#[derive(Debug)]
pub struct NanCheck {
    name: String,
    inner: Device,
    /// Whether an infinity is an error too.
    includes_infinity: bool,
}

impl NanCheck {
    /// Wraps `device` so that outputs are checked for NaN.
    #[allow(clippy::new_ret_no_self, reason = "a decorator is used as the device that it makes")]
    pub fn new(device: Device) -> Device {
        Device::new(NanCheck {
            name: format!("nan_check({device})"),
            inner: device,
            includes_infinity: false,
        })
    }

    /// Wraps `device` so that outputs are checked for NaN and infinity.
    pub fn with_infinity(device: Device) -> Device {
        Device::new(NanCheck {
            name: format!("finite_check({device})"),
            inner: device,
            includes_infinity: true,
        })
    }

    /// Returns whether an output must not contain `value`.
    fn is_bad(&self, value: f64) -> bool {
        value.is_nan() || (self.includes_infinity && value.is_infinite())
    }

    /// Returns the number of bad values, and the row-major index of the first one; `None` if there
    /// are none.
    fn bad_values(&self, snapshot: &Snapshot) -> Option<(usize, usize)> {
        if !snapshot.dtype.is_float() {
            return None;
        }
        let values = snapshot.values();
        let first = values.iter().position(|&value| self.is_bad(value))?;
        Some((values.iter().filter(|&&value| self.is_bad(value)).count(), first))
    }

    /// Checks the outputs of an op that has run. `before` contains the inputs that it overwrote.
    fn check(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &[View<'_>],
        before: Vec<Option<Snapshot>>,
    ) -> Result<()> {
        let backend = self.inner.backend();
        for (index, output) in outputs.iter().enumerate().filter(|(_, output)| output.dtype.is_float()) {
            let output = Snapshot::dense(backend, output)?;
            let Some((count, first)) = self.bad_values(&output) else { continue };
            let inputs = before
                .into_iter()
                .zip(inputs)
                .map(|(snapshot, view)| snapshot.map_or_else(|| Snapshot::of(backend, view), Ok))
                .collect::<Result<Vec<_>>>()?;
            if inputs.iter().any(|input| self.bad_values(input).is_some())
                || scalar_argument(op).is_some_and(|value| self.is_bad(value))
            {
                return Ok(());
            }
            let unwanted = if self.includes_infinity { Unwanted::NanOrInfinity } else { Unwanted::Nan };
            if defer_to_function(unwanted) {
                return Ok(());
            }
            return Err(Error::NotFinite {
                op: op.name(),
                detail: self.report(index, &output, count, first, &inputs),
            });
        }
        Ok(())
    }

    /// Describes a bad output and the inputs, for the error.
    fn report(
        &self,
        index: usize,
        output: &Snapshot,
        count: usize,
        first: usize,
        inputs: &[Snapshot],
    ) -> Text {
        let what = if self.includes_infinity { "NaN or infinity" } else { "NaN" };
        let elements = output.shape.elements();
        let position = unravel(first, &output.shape);
        let of_inputs = inputs.iter().enumerate().map(|(index, input)| {
            text![format!(" input {index} ("), input.describe(), format!("): {}", input.stats())]
        });
        text![
            format!("{what} in {count} of {elements} elements of output {index} ("),
            output.describe(),
            format!("), first at {position:?}, on {}; inputs had none:", self.inner.name()),
            Text::joined(of_inputs, ";")
        ]
    }
}

/// Returns the scalar that the program passed as part of the op.
pub(crate) fn scalar_argument(op: &Op) -> Option<f64> {
    match op {
        Op::Fill(fill) => Some(fill.value),
        Op::Pad(pad) => Some(pad.value),
        Op::BinaryScalar(binary) => Some(binary.scalar),
        _ => None,
    }
    .map(Scalar::as_f64)
}

impl Backend for NanCheck {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory, interop);

    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        self.inner.backend().plan(op, inputs)
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let backend = self.inner.backend();
        // Only inputs that the op overwrites must be read before it runs. The others are read only
        // to explain a bad output.
        let is_overwritten = |input: &View<'_>| outputs.iter().any(|output| output.buffer.is(input.buffer));
        let before = inputs
            .iter()
            .map(|input| is_overwritten(input).then(|| Snapshot::of(backend, input)).transpose())
            .collect::<Result<Vec<_>>>()?;
        backend.run(op, inputs, outputs)?;
        self.check(op, inputs, outputs, before)
    }
}
