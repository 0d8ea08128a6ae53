//! The instructions for the products of attention in half precision: WGMMA if the device has it and
//! heads are wider than 32, else `mma.sync`.

use crate::variant::Architecture;
use crate::variant::attention::Engine;
use std::cell::Cell;

/// Up to this head_dim, tiles of WGMMA would be mostly padding.
const MAX_HEAD_DIM_WITHOUT_WGMMA: usize = 32;

thread_local! {
    static FORCE_MMA: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with this thread's attention in half precision computed by `mma.sync` on every device,
/// as on devices without WGMMA: for tests.
pub fn with_attention_mma<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORCE_MMA.set(self.0);
        }
    }
    let _restore = Restore(FORCE_MMA.replace(true));
    f()
}

/// Returns the engine for heads of up to `widest` columns.
pub(super) fn engine(architecture: Architecture, widest: usize) -> Engine {
    let has_wgmma = Engine::Wgmma.architectures().contain(architecture);
    match has_wgmma && widest > MAX_HEAD_DIM_WITHOUT_WGMMA && !FORCE_MMA.get() {
        true => Engine::Wgmma,
        false => Engine::Mma,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(capability: (i32, i32)) -> [Engine; 4] {
        [1, 32, 33, 256].map(|width| engine(Architecture::of_device(capability), width))
    }

    #[test]
    fn wgmma_is_used_where_it_exists_and_heads_are_wide() {
        assert_eq!(engines((8, 0)), [Engine::Mma; 4]);
        assert_eq!(engines((10, 0)), [Engine::Mma; 4]);
        assert_eq!(engines((9, 0)), [Engine::Mma, Engine::Mma, Engine::Wgmma, Engine::Wgmma]);
    }

    #[test]
    fn mma_is_used_where_it_is_forced() {
        assert_eq!(with_attention_mma(|| engines((9, 0))), [Engine::Mma; 4]);
        let panicked = std::panic::catch_unwind(|| with_attention_mma(|| panic!("a fault of the caller")));
        assert!(panicked.is_err());
        assert_eq!(engines((9, 0))[3], Engine::Wgmma);
    }
}
