//! How a shader stores its output by write.wgsl: `y` in words where it lies dense, else element by element.

use super::GROUP;
use crate::names::{SlotName, Write};
use crate::pipelines::Variant;
use crate::slots::{Access, Store};
use ternion_core::backend::View;

/// The way that fits a view.
#[derive(Clone, Copy)]
pub(crate) struct Writing {
    function: Write,
    store: Store,
    access: Access,
    threads: usize,
}

impl Writing {
    /// For `y`, whose elements are stored as `store` says.
    pub(crate) fn of(y: &View<'_>, store: Store) -> Writing {
        let (count, per_word) = (y.layout.elements(), store.per_word());
        let (function, access) = match (y.layout.is_contiguous(), per_word) {
            (false, _) => (Write::Anywhere, Access::Scattered),
            (true, 1) => (Write::Single, Access::Words),
            (true, _) => (Write::Packed, Access::Words),
        };
        // A word more where the first one begins in the middle.
        let words = count.div_ceil(per_word) + usize::from(per_word > 1);
        let threads = if access == Access::Words { words } else { count };
        Writing { function, store, access, threads }
    }

    /// `variant` with the slot `y` as its first, stored so.
    pub(crate) fn slot(&self, variant: Variant) -> Variant {
        variant.fill(self.function).slot(SlotName::Y, self.store, self.access)
    }

    /// Work groups of one thread for each word or element.
    pub(crate) fn groups(&self) -> usize {
        self.threads.div_ceil(GROUP)
    }
}
