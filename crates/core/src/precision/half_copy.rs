//! Copies of parameters in half precision that an optimizer's step writes along, so that scopes find their casts done.
//!
//! ```text
//!            cast                          finds the copy
//!   forward --------> scope     forward ------------------> scope
//!      |   notes the use          |    notes the use
//!      v                          v
//!   step: makes the copy,      step: writes parameter and copy     ..
//!         writes both
//! ```
//!
//! The optimizer owns the copy; the leaf knows it only as long as it is there. A leaf that no scope has cast since the last step has none.

use crate::autograd::{is_fusing, no_grad, record_copy, wants_record};
use crate::backend::{Buffer, WeakBuffer};
use crate::capture::{before_replay, is_recording_step};
use crate::error::{Error, Result};
use crate::observe::{self, OpCall, apply_observed, unobserved};
use crate::op::Op;
use crate::ops::copy::Copy;
use crate::precision::without_precision;
use crate::{DType, Tensor};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The values of a leaf of f32 in f16 or bf16, in memory of their own, which whoever changes the leaf writes along.
///
/// A scope of precision takes them instead of a cast as long as nobody else has changed the leaf since.
pub struct HalfCopy {
    values: Tensor,
    source: WeakBuffer,
    /// By how much the version of the source is ahead of that of the copy while they agree. A step, and each replay of a recorded one, counts up both; whoever changes only
    /// the source makes another difference.
    lead: AtomicU64,
}

/// The lead of a copy that was not written yet.
const UNWRITTEN: u64 = 1 << 63;

impl HalfCopy {
    /// Memory for a copy of `leaf` in `dtype`, of unspecified values: `leaf` knows it when it is [`written`](HalfCopy::written).
    ///
    /// # Errors
    /// What [`half_copy_wanted`] does not ask for: another dtype than f16 and bf16, a tensor that is no dense leaf of f32. No memory.
    pub fn new(leaf: &Tensor, dtype: DType) -> Result<Arc<HalfCopy>> {
        if !dtype.is_half() {
            let expected = crate::text![DType::F16, " or ", DType::BF16];
            return Err(Error::dtype("half_copy", "copy", dtype, expected));
        }
        if !may_have_copy(leaf) {
            let expected = crate::text!["expected a dense leaf of ", DType::F32, " whose memory is its own"];
            return Err(Error::invalid("half_copy", expected));
        }
        let values = Tensor::uninitialized(*leaf.shape(), dtype, leaf.device())?;
        let (source, lead) = (leaf.buffer().downgrade(), AtomicU64::new(UNWRITTEN));
        Ok(Arc::new(HalfCopy { values, source, lead }))
    }

    /// The values, to be written along with those of the leaf.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Whether this is a copy of what `leaf` is now, in `dtype`.
    pub fn serves(&self, leaf: &Tensor, dtype: DType) -> bool {
        self.values.dtype() == dtype
            && self.values.shape() == leaf.shape()
            && self.source.upgrade().is_some_and(|source| source.is(leaf.buffer()))
    }

    /// Notes that the copy now holds the values of `leaf`, whose scopes take it from now on.
    pub fn written(self: &Arc<Self>, leaf: &Tensor) {
        self.lead.store(self.lead_now(leaf.buffer()), Ordering::Release);
        if let Some(node) = leaf.node() {
            node.with_half_copy(|of_leaf| of_leaf.copy = Arc::downgrade(self));
        }
    }

    fn lead_now(&self, source: &Buffer) -> u64 {
        source.version().wrapping_sub(self.values.buffer().version())
    }

    fn is_current(&self, source: &Buffer) -> bool {
        self.lead.load(Ordering::Acquire) == self.lead_now(source) && !source.is_shared_outside()
    }

    /// Casts `leaf` anew if somebody else has changed it.
    fn refresh(self: &Arc<Self>, leaf: &Tensor) -> Result<()> {
        if !self.is_current(leaf.buffer()) {
            unobserved(|| no_grad(|| without_precision(|| self.values.copy_(leaf))))?;
            self.lead.store(self.lead_now(leaf.buffer()), Ordering::Release);
        }
        Ok(())
    }
}

impl fmt::Debug for HalfCopy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HalfCopy({:?} {})", self.values.shape(), self.values.dtype())
    }
}

/// What a leaf knows of its half copy.
#[derive(Default)]
pub(crate) struct HalfCopyOfLeaf {
    copy: Weak<HalfCopy>,
    /// The dtypes to which scopes have cast the leaf since its optimizer asked, as bits of [`bit`].
    uses: u8,
}

const fn bit(dtype: DType) -> u8 {
    match dtype {
        DType::F16 => 1,
        DType::BF16 => 2,
        _ => 0,
    }
}

/// Whether a copy of this tensor can be kept: it is a leaf, dense, of f32, and no other library may write to its memory.
fn may_have_copy(tensor: &Tensor) -> bool {
    tensor.dtype() == DType::F32
        && tensor.is_leaf()
        && tensor.is_contiguous()
        && !tensor.buffer().is_shared_outside()
}

/// The half precision to which scopes have cast `leaf` since this was last asked: that of `present`, the copy that there is, if it is among them. `None` if there was no use,
/// or no copy can be kept: of what is not dense, not f32, or in memory that other libraries may write to.
pub fn half_copy_wanted(leaf: &Tensor, present: Option<&HalfCopy>) -> Option<DType> {
    let uses = leaf.node()?.with_half_copy(|of_leaf| std::mem::take(&mut of_leaf.uses))?;
    let present = present.map(|copy| copy.values.dtype());
    let dtypes = present.into_iter().chain([DType::BF16, DType::F16]);
    dtypes.filter(|_| may_have_copy(leaf)).find(|&dtype| uses & bit(dtype) != 0)
}

/// The current copy of a leaf in `dtype`; whether or not there is one, the use is noted.
fn used(leaf: &Tensor, dtype: DType) -> Option<Arc<HalfCopy>> {
    if leaf.dtype() != DType::F32 || !dtype.is_half() {
        return None;
    }
    let copy = leaf.node()?.with_half_copy(|of_leaf| {
        of_leaf.uses |= bit(dtype);
        of_leaf.copy.upgrade()
    })?;
    copy.filter(|copy| copy.serves(leaf, dtype) && copy.is_current(leaf.buffer()))
}

/// The values of a leaf in `dtype` as its optimizer wrote them, recorded as the cast that they stand for; `None` if they must be cast.
pub(super) fn find(leaf: &Tensor, dtype: DType) -> Result<Option<Tensor>> {
    // Unfused, a cast is an op of its own: the step that would write it along is not asked to.
    let Some(copy) = is_fusing().then(|| used(leaf, dtype)).flatten() else { return Ok(None) };
    let values = copy.values.clone();
    let cast = || match wants_record(&[leaf]) {
        true => record_copy(leaf, values),
        false => values,
    };
    let cast = match observe::is_watched() {
        // Who watches sees the same ops with a copy as without.
        true => apply_observed(&Op::Copy(Copy { dtype }), &[leaf], || Ok(cast()), std::slice::from_ref)?,
        false => cast(),
    };
    if is_recording_step() {
        let leaf = leaf.clone();
        before_replay(move || {
            // Replays cast nothing themselves, but are uses all the same.
            used(&leaf, dtype);
            copy.refresh(&leaf)
        })?;
    }
    Ok(Some(cast))
}

/// Whether a call stands for a cast that was found done: it wrote nothing.
pub(crate) fn is_found(call: &OpCall<'_>) -> bool {
    let ([leaf], [output]) = (call.inputs, call.outputs) else { return false };
    if !matches!(call.op, Op::Copy(_)) || !output.dtype().is_half() || !leaf.is_leaf() {
        return false;
    }
    let copy = leaf.node().and_then(|node| node.with_half_copy(|of_leaf| of_leaf.copy.upgrade()));
    copy.flatten().is_some_and(|copy| copy.values.buffer().is(output.buffer()))
}
