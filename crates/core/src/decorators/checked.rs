//! A device that also runs each op on a second device, and compares the results.

use super::snapshot::{Snapshot, describe_all, run_on, unravel};
use crate::DType;
use crate::backend::{Backend, Meta, Plan, Unsupported, View};
use crate::delegate_backend;
use crate::device::Device;
use crate::error::{Error, Result, Text};
use crate::op::Op;
use crate::ops::index::ScatterMode;
use crate::text;

/// Runs every op on two devices and stops at the first one that differs, with [`Error::Mismatch`].
///
/// Each op gets the same inputs on both devices, so that the error names the first wrong op and not
/// its consequences. The inputs are copied to the host before the op runs, so that in-place ops are
/// compared too. The oracle uses dispatch: ops without a kernel on it are composed there. Outputs
/// are compared element by element: integers and bool must be equal, NaN must match NaN and
/// infinity the same infinity, and finite numbers may differ by
///
/// `tolerance(dtype) * (|want| + largest finite |want| of the slice along the last axis)`.
///
/// If an op sums or cancels, its rounding error may be larger. A difference in such an op is
/// therefore compared with the op's condition before it is reported: the oracle runs again with
/// every floating input changed by one ulp, and 64 times the largest resulting change is allowed
/// too. (For elementwise formulas that cancel, such as gelu's: 4 ulps of the largest input.) An
/// output of a product, a convolution or attention that permits TF32 is also correct if it equals
/// the oracle's result for operands rounded to TF32; for attention within the tolerance of f16,
/// which has the same number of mantissa bits, because attention rounds weights too.
#[derive(Debug)]
pub struct Checked {
    name: String,
    inner: Device,
    oracle: Device,
}

/// The difference that [`Checked`] allows, relative to the values: 0 for dtypes that are not
/// floating.
///
/// In half precision, two ulps: two devices that are each correct to one ulp differ by at most
/// that.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-10,
        DType::F32 => 1e-4,
        DType::F16 => 2.0 * DType::F16.epsilon(),
        DType::BF16 => 2.0 * DType::BF16.epsilon(),
        _ => 0.0,
    }
}

impl Checked {
    /// Wraps `device` so that every op is compared with `oracle`.
    #[allow(clippy::new_ret_no_self, reason = "a decorator is used as the device that it makes")]
    pub fn new(device: Device, oracle: Device) -> Device {
        Device::new(Checked { name: format!("checked({device}, {oracle})"), inner: device, oracle })
    }
}

/// The comparison of an op's outputs on one device with those that another device computes from the
/// same inputs.
pub(crate) struct Comparison<'a> {
    pub(crate) device: &'a Device,
    pub(crate) oracle: &'a Device,
    /// Factor of the tolerances.
    pub(crate) factor: f64,
}

impl Comparison<'_> {
    fn mismatch(&self, op: &Op, detail: Text) -> Error {
        Error::Mismatch {
            op: op.name(),
            left: self.device.name().into(),
            right: self.oracle.name().into(),
            detail,
        }
    }

    /// Computes the oracle's outputs for `inputs`.
    fn run_oracle(&self, op: &Op, inputs: &[Snapshot]) -> Result<Vec<Snapshot>> {
        let outputs = run_on(op, inputs, self.oracle)?;
        outputs.iter().map(|output| Snapshot::dense(self.oracle.backend(), &output.view())).collect()
    }

    /// Returns an error that describes the first output that differs, if any.
    pub(crate) fn compare(&self, op: &Op, inputs: &[Snapshot], outputs: &[View<'_>]) -> Result<()> {
        let expected = self.run_oracle(op, inputs).map_err(|error| {
            self.mismatch(
                op,
                text!["the oracle failed where the device did not, on ", describe_all(inputs), ": ", error],
            )
        })?;
        for (index, (view, want)) in outputs.iter().zip(&expected).enumerate() {
            let got = Snapshot::dense(self.device.backend(), view)?;
            if self.differences(&got, want, 0.0).is_none() {
                continue;
            }
            let noise = self.noise_of(op, inputs, index, &expected)?;
            let Some(differences) = self.differences(&got, want, noise) else { continue };
            let factors = tf32_factors(op);
            if !factors.is_empty() {
                let rounded = self.expected_in_tf32(op, inputs, factors)?;
                let (want, relative) = (&rounded[index], self.factor * tolerance_in_tf32(op));
                if Differences::of(&got, want, relative, self.factor * noise).is_none() {
                    continue;
                }
            }
            let output = format!("output {index} from ");
            let detail = text![output, describe_all(inputs), ": ", differences.report(&got, want)];
            return Err(self.mismatch(op, detail));
        }
        Ok(())
    }

    /// Returns the differences beyond the tolerance of the dtype and `noise`, if any.
    fn differences(&self, got: &Snapshot, want: &Snapshot, noise: f64) -> Option<Differences> {
        Differences::of(got, want, self.factor * tolerance(want.dtype), self.factor * noise)
    }

    /// Computes the oracle's outputs for `inputs`, with the operands at the indices `factors`
    /// rounded to TF32.
    fn expected_in_tf32(&self, op: &Op, inputs: &[Snapshot], factors: &[usize]) -> Result<Vec<Snapshot>> {
        let rounded = |(index, input): (usize, &Snapshot)| match factors.contains(&index) {
            true => input.in_tf32(),
            false => input.clone(),
        };
        self.run_oracle(op, &inputs.iter().enumerate().map(rounded).collect::<Vec<_>>())
    }

    /// Returns the error that rounding inside the op may cause in output `index`.
    fn noise_of(&self, op: &Op, inputs: &[Snapshot], index: usize, expected: &[Snapshot]) -> Result<f64> {
        let want = &expected[index];
        if let (Op::Attention(_), 2) = (op, index) {
            // This output is the rounding error of the log-sum-exp, which may be any fraction of
            // its ulp.
            return Ok(want.dtype.epsilon() * expected[1].largest());
        }
        match Rounding::of(op) {
            Rounding::Once => Ok(0.0),
            Rounding::OfInputs => {
                let largest = inputs.iter().filter(|input| input.dtype.is_float()).map(Snapshot::largest);
                Ok(4.0 * want.dtype.epsilon() * largest.fold(0.0, f64::max))
            }
            Rounding::OfSums => {
                let nudged_inputs: Vec<Snapshot> = inputs.iter().map(Snapshot::nudged).collect();
                let nudged_output = self.run_oracle(op, &nudged_inputs)?[index].values();
                let changes = nudged_output
                    .into_iter()
                    .zip(want.values())
                    .map(|(nudged_output, want)| (nudged_output - want).abs());
                Ok(64.0 * changes.filter(|change| change.is_finite()).fold(0.0, f64::max))
            }
        }
    }
}

/// Returns the indices of the inputs of `op` that a device may round to TF32.
fn tf32_factors(op: &Op) -> &'static [usize] {
    match op {
        Op::Matmul(product) if product.tf32 => &[0, 1],
        Op::Conv2d(conv) if conv.config.tf32 => &[0, 1],
        Op::Conv2dGradInput(conv) if conv.config.tf32 => &[0, 1],
        Op::Conv2dGradWeight(conv) if conv.config.tf32 => &[0, 1],
        Op::Attention(attention) if attention.config.tf32 => &[0, 1, 2],
        // Queries, keys, values and the gradient of the output.
        Op::AttentionGrad(attention) if attention.config.tf32 => &[0, 1, 2, 5],
        _ => &[],
    }
}

/// The tolerance of a comparison with an oracle of rounded operands. Attention multiplies its own
/// intermediate results, weights and gradients of scores, which are rounded to the mantissa bits of
/// f16.
fn tolerance_in_tf32(op: &Op) -> f64 {
    match op {
        Op::Attention(_) | Op::AttentionGrad(_) => tolerance(DType::F16),
        _ => tolerance(DType::F32),
    }
}

/// Where an op may have rounding errors beyond that of its result.
enum Rounding {
    /// Nowhere: it moves values, or computes each with one function.
    Once,
    /// In an elementwise formula that may cancel: proportional to the inputs.
    OfInputs,
    /// In sums: estimated by the effect of changing the inputs by one ulp, which is small because
    /// these ops are all continuous.
    OfSums,
}

impl Rounding {
    fn of(op: &Op) -> Rounding {
        match op {
            Op::Unary(unary) if !unary.op.is_primitive() => Rounding::OfInputs,
            Op::UnaryGrad(_) => Rounding::OfInputs,
            Op::Fill(_) | Op::Iota(_) | Op::Copy(_) | Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(_) => {
                Rounding::Once
            }
            Op::Compare(_) | Op::CompareScalar(_) | Op::Select(_) | Op::Gather(_) | Op::IndexSelect(_) => {
                Rounding::Once
            }
            Op::Scatter(scatter) if scatter.mode == ScatterMode::Set => Rounding::Once,
            Op::Sort(_)
            | Op::Im2col(_)
            | Op::MaxPool2d(_)
            | Op::Pad(_)
            | Op::Concat(_)
            | Op::SliceAssign(_) => Rounding::Once,
            Op::RandomBits(_) | Op::Uniform(_) | Op::Normal(_) | Op::Dropout(_) => Rounding::Once,
            _ => Rounding::OfSums,
        }
    }
}

/// The elements in which two snapshots of one shape differ by more than the tolerance.
struct Differences {
    /// Number of these elements.
    count: usize,
    /// The row-major index of the first one.
    first: usize,
    /// The difference that was allowed for the first one.
    allowed: f64,
}

impl Differences {
    /// Returns `None` if all elements agree within `relative` and `noise`.
    fn of(got_bits: &Snapshot, want_bits: &Snapshot, relative: f64, noise: f64) -> Option<Differences> {
        if got_bits.shape != want_bits.shape || got_bits.dtype != want_bits.dtype {
            return Some(Differences { count: want_bits.shape.elements(), first: 0, allowed: 0.0 });
        }
        let (got_values, want_values) = (got_bits.values(), want_bits.values());
        let width = want_bits.shape.dims().last().copied().unwrap_or(1).max(1);
        let mut differences: Option<Differences> = None;
        for (row, (got_row, want_row)) in got_values.chunks(width).zip(want_values.chunks(width)).enumerate()
        {
            let largest = want_row
                .iter()
                .copied()
                .filter(|value| value.is_finite())
                .fold(0.0, |a: f64, b| a.max(b.abs()));
            for (column, (&got, &want)) in got_row.iter().zip(want_row).enumerate() {
                let allowed = relative * (want.abs() + largest) + noise;
                let index = row * width + column;
                let same_integer =
                    !got_bits.dtype.is_int() || got_bits.element(index) == want_bits.element(index);
                if !(same_integer && agrees(got, want, allowed)) {
                    let first = Differences { count: 0, first: index, allowed };
                    differences.get_or_insert(first).count += 1;
                }
            }
        }
        differences
    }

    fn report(&self, got: &Snapshot, want: &Snapshot) -> Text {
        if got.shape != want.shape || got.dtype != want.dtype {
            return text!["got ", got.describe(), ", want ", want.describe()];
        }
        let first = format!(
            "; first at {:?}: got {:e}, want {:e}, allowed difference {:e}; got {}; want {}",
            unravel(self.first, &want.shape),
            got.values()[self.first],
            want.values()[self.first],
            self.allowed,
            got.stats(),
            want.stats()
        );
        text![self.count, " of ", want.shape.elements(), " elements of ", want.describe(), first]
    }
}

/// Compares two values. NaN agrees only with NaN.
fn agrees(got: f64, want: f64, allowed: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan()) || (got.is_finite() && (got - want).abs() <= allowed)
}

impl Backend for Checked {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory, interop);

    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        self.inner.backend().plan(op, inputs)
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let before = Snapshot::of_all(self.inner.backend(), inputs)?;
        self.inner.backend().run(op, inputs, outputs)?;
        let comparison = Comparison { device: &self.inner, oracle: &self.oracle, factor: 1.0 };
        comparison.compare(op, &before, outputs)
    }
}
