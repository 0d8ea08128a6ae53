//! The cache of a scope's casts. Only casts of leaves (parameters) are cached, each for one version
//! of the values.

use super::half_copy;
use crate::autograd::{TensorId, record_copy, wants_record};
use crate::backend::WeakBuffer;
use crate::error::Result;
use crate::{DType, Tensor};
use std::cell::RefCell;
use std::collections::HashMap;

/// The minimum of [`Casts::prune_above`].
const MIN_PRUNED: usize = 64;

/// The casts of one outermost scope.
#[derive(Default)]
pub(super) struct Casts {
    entries: HashMap<(TensorId, DType), Cast>,
    /// The number of casts above which outdated ones are removed.
    prune_above: usize,
}

struct Cast {
    source: WeakBuffer,
    version: u64,
    /// Without history: each use records a separate cast, so that the gradients of several uses are
    /// added in f32, and so that it does not matter whether the first use was recorded.
    values: Tensor,
}

impl Cast {
    fn is_current(&self) -> bool {
        self.source.upgrade().is_some_and(|source| source.version() == self.version)
    }
}

impl Casts {
    fn find(&self, id: TensorId, dtype: DType) -> Option<Tensor> {
        self.entries.get(&(id, dtype)).filter(|cast| cast.is_current()).map(|cast| cast.values.clone())
    }

    fn keep(&mut self, id: TensorId, dtype: DType, cast: Cast) {
        self.entries.insert((id, dtype), cast);
        if self.entries.len() > self.prune_above.max(MIN_PRUNED) {
            self.entries.retain(|_, cast| cast.is_current());
            self.prune_above = 2 * self.entries.len();
        }
    }
}

/// Casts `tensor` to `dtype`, with recording. The values are cast once for each version of a leaf,
/// or not at all if its optimizer has written a copy.
pub(super) fn cast(
    casts: &'static std::thread::LocalKey<RefCell<Casts>>,
    tensor: &Tensor,
    dtype: DType,
) -> Result<Tensor> {
    let Some(id) = tensor.id().filter(|_| tensor.is_leaf()) else { return tensor.to_dtype(dtype) };
    if let Some(values) = casts.with_borrow(|casts| casts.find(id, dtype)) {
        return Ok(if wants_record(&[tensor]) { record_copy(tensor, values) } else { values });
    }
    // Read before the cast: if the values are changed during the cast, it is outdated.
    let version = tensor.buffer().version();
    let result = match half_copy::find(tensor, dtype)? {
        Some(values) => values,
        None => tensor.to_dtype(dtype)?,
    };
    let cast = Cast { source: tensor.buffer().downgrade(), version, values: result.detach() };
    casts.with_borrow_mut(|casts| casts.keep(id, dtype, cast));
    Ok(result)
}
