//! Half-precision copies of parameters, which an optimizer step writes together with the
//! parameters, so that precision scopes need no casts.
//!
//! ```text
//!            cast                          uses the copy
//!   forward --------> scope     forward ------------------> scope
//!      |   records the use        |    records the use
//!      v                          v
//!   step: creates the copy,    step: writes parameter and copy     ..
//!         writes both
//! ```
//!
//! The optimizer owns the copy; the leaf has only a weak reference. A leaf that no scope has cast
//! since the last step has no copy.

use crate::autograd::{is_fusing, no_grad, record_copy, wants_record};
use crate::backend::{Buffer, WeakBuffer};
use crate::capture::{is_recording_step, on_replay};
use crate::error::{Error, Result};
use crate::observe::{self, OpCall, apply_observed, unobserved};
use crate::op::Op;
use crate::ops::copy::Copy;
use crate::precision::without_precision;
use crate::{DType, Tensor};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The values of an f32 leaf in f16 or bf16, in separate memory. Code that changes the leaf also
/// writes the copy.
///
/// A precision scope uses them instead of a cast as long as no other code has changed the leaf
/// since.
pub struct HalfCopy {
    values: Tensor,
    source: WeakBuffer,
    /// The difference between the version of the source and that of the copy while they are equal
    /// in value. A step, and each replay of a captured one, increments both. Code that changes only
    /// the source changes the difference.
    lead: AtomicU64,
}

/// The lead of a copy that has not been written.
const UNWRITTEN: u64 = 1 << 63;

impl HalfCopy {
    /// Allocates a copy of `leaf` in `dtype`, with unspecified values. `leaf` refers to it after
    /// [`written`](HalfCopy::written).
    ///
    /// # Errors
    /// Returns an error for cases that [`half_copy_wanted`] excludes: a dtype other than f16 and
    /// bf16, or a tensor that is not a contiguous f32 leaf. Returns an error if there is not enough
    /// memory.
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

    /// Returns the values, which must be written together with those of the leaf.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Returns whether this is a copy in `dtype` for the current buffer of `leaf`.
    pub fn serves(&self, leaf: &Tensor, dtype: DType) -> bool {
        self.values.dtype() == dtype
            && self.values.shape() == leaf.shape()
            && self.source.upgrade().is_some_and(|source| source.is(leaf.buffer()))
    }

    /// Records that the copy now has the values of `leaf`. Scopes use it from now on.
    pub fn written(self: &Arc<Self>, leaf: &Tensor) {
        self.lead.store(self.current_lead(leaf.buffer()), Ordering::Release);
        if let Some(node) = leaf.node() {
            node.with_half_copy(|of_leaf| of_leaf.copy = Arc::downgrade(self));
        }
    }

    fn current_lead(&self, source: &Buffer) -> u64 {
        source.version().wrapping_sub(self.values.buffer().version())
    }

    fn is_current(&self, source: &Buffer) -> bool {
        self.lead.load(Ordering::Acquire) == self.current_lead(source) && !source.is_externally_shared()
    }

    /// Casts `leaf` again if other code has changed it.
    fn refresh(self: &Arc<Self>, leaf: &Tensor) -> Result<()> {
        if !self.is_current(leaf.buffer()) {
            unobserved(|| no_grad(|| without_precision(|| self.values.copy_(leaf))))?;
            self.lead.store(self.current_lead(leaf.buffer()), Ordering::Release);
        }
        Ok(())
    }
}

impl fmt::Debug for HalfCopy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HalfCopy({:?} {})", self.values.shape(), self.values.dtype())
    }
}

/// The state of a leaf's half-precision copy.
#[derive(Default)]
pub(crate) struct HalfCopyOfLeaf {
    copy: Weak<HalfCopy>,
    /// The dtypes to which scopes have cast the leaf since its optimizer last queried them, as bits
    /// of [`bit`].
    uses: u8,
}

const fn bit(dtype: DType) -> u8 {
    match dtype {
        DType::F16 => 1,
        DType::BF16 => 2,
        _ => 0,
    }
}

/// Returns whether this tensor can have a copy: it must be a contiguous f32 leaf, and no other
/// library may write to its memory.
fn may_have_copy(tensor: &Tensor) -> bool {
    tensor.dtype() == DType::F32
        && tensor.is_leaf()
        && tensor.is_contiguous()
        && !tensor.buffer().is_externally_shared()
}

/// Returns the half precision to which scopes have cast `leaf` since the last call: the dtype of
/// `present`, the existing copy, if scopes have used it. `None` if there was no use, or if the
/// tensor cannot have a copy because it is not contiguous, not f32, or in memory to which other
/// libraries may write.
pub fn half_copy_wanted(leaf: &Tensor, present: Option<&HalfCopy>) -> Option<DType> {
    let uses = leaf.node()?.with_half_copy(|of_leaf| std::mem::take(&mut of_leaf.uses))?;
    let present = present.map(|copy| copy.values.dtype());
    let dtypes = present.into_iter().chain([DType::BF16, DType::F16]);
    dtypes.filter(|_| may_have_copy(leaf)).find(|&dtype| uses & bit(dtype) != 0)
}

/// Returns the current copy of a leaf in `dtype`, and records the use even if there is none.
fn record_use(leaf: &Tensor, dtype: DType) -> Option<Arc<HalfCopy>> {
    if leaf.dtype() != DType::F32 || !dtype.is_half() {
        return None;
    }
    let copy = leaf.node()?.with_half_copy(|of_leaf| {
        of_leaf.uses |= bit(dtype);
        of_leaf.copy.upgrade()
    })?;
    copy.filter(|copy| copy.serves(leaf, dtype) && copy.is_current(leaf.buffer()))
}

/// Returns the values of a leaf in `dtype` as its optimizer wrote them, recorded as the cast that
/// they replace; `None` if they must be cast.
pub(super) fn find(leaf: &Tensor, dtype: DType) -> Result<Option<Tensor>> {
    // Without fusion, a cast is a separate op, and the use is not recorded, so that the step does
    // not write a copy.
    let Some(copy) = is_fusing().then(|| record_use(leaf, dtype)).flatten() else { return Ok(None) };
    let values = copy.values.clone();
    let cast = || match wants_record(&[leaf]) {
        true => record_copy(leaf, values),
        false => values,
    };
    let cast = match observe::is_observed() {
        // Observers see the same ops with a copy as without.
        true => apply_observed(&Op::Copy(Copy { dtype }), &[leaf], || Ok(cast()), std::slice::from_ref)?,
        false => cast(),
    };
    if is_recording_step() {
        let leaf = leaf.clone();
        on_replay(move || {
            // Replays do not cast, but count as uses.
            record_use(&leaf, dtype);
            copy.refresh(&leaf)
        })?;
    }
    Ok(Some(cast))
}

/// Returns whether a call represents a cast that an existing copy replaced: it wrote nothing.
pub(crate) fn is_elided_cast(call: &OpCall<'_>) -> bool {
    let ([leaf], [output]) = (call.inputs, call.outputs) else { return false };
    if !matches!(call.op, Op::Copy(_)) || !output.dtype().is_half() || !leaf.is_leaf() {
        return false;
    }
    let copy = leaf.node().and_then(|node| node.with_half_copy(|of_leaf| of_leaf.copy.upgrade()));
    copy.flatten().is_some_and(|copy| copy.values.buffer().is(output.buffer()))
}
