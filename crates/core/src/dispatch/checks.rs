//! Rejects calls that no path may run: inputs on different devices, in-place changes that would not
//! be recorded, and reads of expanded views that would take days.

use super::collect_inline;
use crate::Device;
use crate::autograd;
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Op, Output, Outputs, Role, Rule};
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// Checks that all inputs are on `device`.
#[inline]
pub(super) fn same_device(rule: &dyn Rule, device: &Device, inputs: &[&Tensor]) -> Result<()> {
    match inputs.iter().find(|tensor| !tensor.device().is(device)) {
        None => Ok(()),
        Some(other) => Err(Error::DeviceMismatch {
            op: rule.name(),
            left: device.name().into(),
            right: other.device().name().into(),
        }),
    }
}

/// Rejects an op that changes an input in place (role `Aliases` or `Accumulates`) if the op would
/// be recorded, or if the changed memory overlaps itself or another input.
pub(super) fn reject_recorded_change(op: &Op, inputs: &[&Tensor], specs: &Outputs) -> Result<()> {
    if !specs.iter().any(|spec| matches!(spec.role, Role::Aliases(_) | Role::Accumulates(_))) {
        return Ok(());
    }
    // Sorted, because an optimizer step may have hundreds of inputs, and a comparison of all pairs
    // would take longer than the step.
    let mut addresses: SmallVec<[usize; 8]> =
        collect_inline(inputs.iter().map(|tensor| tensor.buffer().address()));
    addresses.sort_unstable();
    let is_shared = |tensor: &Tensor| {
        let address = tensor.buffer().address();
        let first = addresses.partition_point(|&other| other < address);
        addresses.get(first + 1) == Some(&address)
    };
    for spec in specs {
        let (Role::Aliases(index) | Role::Accumulates(index)) = spec.role else { continue };
        if autograd::is_recording() && inputs.iter().any(|tensor| tensor.needs_grad()) {
            return Err(Error::autograd(format!(
                "{} changes its input {index} in place: run it in no_grad",
                op.name()
            )));
        }
        let target = inputs[index];
        if target.layout().overlaps_itself() {
            return Err(Error::invalid(
                op.name(),
                format!("in place on a tensor of shape {:?} whose elements share memory", target.shape()),
            ));
        }
        let shared = is_shared(target)
            && inputs.iter().enumerate().any(|(other, tensor)| {
                other != index && tensor.buffer().is(target.buffer()) && overlap(tensor, target)
            });
        if shared {
            return Err(Error::invalid(
                op.name(),
                format!("input {index} is changed in place and shares memory with another input"),
            ));
        }
    }
    Ok(())
}

/// Returns whether the memory ranges of two tensors in one buffer overlap. (May be true for
/// interleaved views that share no element.)
fn overlap(left: &Tensor, right: &Tensor) -> bool {
    let range = |tensor: &Tensor| {
        let (low, high) = tensor.layout().bounds().unwrap_or((0, usize::MAX - 1));
        let size = tensor.dtype().size();
        (low.saturating_mul(size), (high + 1).saturating_mul(size))
    };
    let ((left_start, left_end), (right_start, right_end)) = (range(left), range(right));
    left.elements() > 0 && right.elements() > 0 && left_start < right_end && right_start < left_end
}

/// The maximum number of elements that an op may read. At one byte each this is 17 TB, more than
/// any device memory, and more than an op processes within hours.
const MAX_ELEMENTS: u64 = 1 << 44;

/// Rejects an op that would read an expanded view for days to compute a result that fits in memory.
/// (If the result does not fit, its allocation fails.)
#[inline]
pub(super) fn reject_endless(op: &Op, inputs: &[Meta<'_>], output: &Output) -> Result<()> {
    match inputs.iter().find(|input| input.layout.elements() as u64 > MAX_ELEMENTS) {
        Some(input) if output.shape.elements() as u64 <= MAX_ELEMENTS => Err(Error::invalid(
            op.name(),
            format!(
                "input of shape {:?}, an expanded view, has more elements than an op can read",
                input.shape()
            ),
        )),
        _ => Ok(()),
    }
}
