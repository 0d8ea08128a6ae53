//! How a shader stores its output `y` with the functions of write.wgsl: by words if y is
//! contiguous, otherwise by elements.

use super::GROUP;
use crate::names::{SlotName, Write};
use crate::pipelines::Variant;
use crate::slots::{Access, StorageFormat};
use ternion_core::backend::View;

/// How a view is written: a function of write.wgsl, the format and access of the view, and the
/// number of threads.
#[derive(Clone, Copy)]
pub(crate) struct Writing {
    function: Write,
    store: StorageFormat,
    access: Access,
    threads: usize,
}

impl Writing {
    /// Returns the way to write `y`, whose elements are stored as `store`.
    pub(crate) fn of(y: &View<'_>, store: StorageFormat) -> Writing {
        let (count, per_word) = (y.layout.elements(), store.per_word());
        let (function, access) = match (y.layout.is_contiguous(), per_word) {
            (false, _) => (Write::Anywhere, Access::Scattered),
            (true, 1) => (Write::Single, Access::Words),
            (true, _) => (Write::Packed, Access::Words),
        };
        // One more word, because the first element may be in the middle of a word.
        let words = count.div_ceil(per_word) + usize::from(per_word > 1);
        let threads = if access == Access::Words { words } else { count };
        Writing { function, store, access, threads }
    }

    /// Adds the function, and the slot `y` as the first slot, to `variant`.
    pub(crate) fn slot(&self, variant: Variant) -> Variant {
        variant.fill(self.function).slot(SlotName::Y, self.store, self.access)
    }

    /// Returns the number of workgroups, with one thread for each word or element.
    pub(crate) fn groups(&self) -> usize {
        self.threads.div_ceil(GROUP)
    }
}
