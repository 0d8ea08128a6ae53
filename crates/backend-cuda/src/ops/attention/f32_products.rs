//! By what products of f32 attention are formed: fused multiply-adds, or the tensor cores, in TF32 where that is permitted or of parts of bf16.

use crate::variant::attention::Engine;
use std::cell::Cell;
use ternion_core::ops::attention::AttentionConfig;

thread_local! {
    static PARTS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with f32 attention of this thread formed by parts of bf16 wherever that is permitted, whether or not it is [faster](parts_are_faster): for tests and
/// measurements.
pub fn with_attention_by_parts<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PARTS_WANTED.set(self.0);
        }
    }
    let _restore = Restore(PARTS_WANTED.replace(true));
    f()
}

/// Whether attention of heads of so many columns is faster by parts of bf16 than by fused multiply-adds. Six products of 16-bit operands stand for one of f32, beside
/// what splitting takes; this has not been measured on a device yet, so no width takes them.
const fn parts_are_faster(_widest: usize) -> bool {
    false
}

/// By what products of f32 are formed for heads of up to so many columns: in TF32 where that is permitted, as products of matrices are; else as accurately as f32.
pub(crate) fn engine(config: &AttentionConfig, widest: usize) -> Engine {
    let takes_parts = config.bf16x6 && (PARTS_WANTED.get() || parts_are_faster(widest));
    match (config.tf32, takes_parts) {
        (true, _) => Engine::Tf32,
        (false, true) => Engine::Bf16x6,
        (false, false) => Engine::Simt,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backward, Forward, Plan, Sizes, grad_launches, varlen};
    use super::*;
    use crate::variant::attention::{Products, Reach};

    const PLAIN: AttentionConfig = AttentionConfig::PLAIN;
    const TF32: AttentionConfig = AttentionConfig { tf32: true, ..PLAIN };
    /// As the scope of IEEE 754 has it.
    const IEEE: AttentionConfig = AttentionConfig { bf16x6: false, ..PLAIN };

    #[test]
    fn tf32_is_taken_where_it_is_permitted_and_there_alone() {
        for width in [1, 32, 64, 100, 128] {
            assert_eq!(engine(&TF32, width), Engine::Tf32);
            assert_eq!(engine(&AttentionConfig { bf16x6: false, ..TF32 }, width), Engine::Tf32);
            assert_eq!(engine(&PLAIN, width), Engine::Simt, "not measured");
            assert_eq!(engine(&IEEE, width), Engine::Simt);
        }
    }

    #[test]
    fn parts_that_are_wanted_are_taken_where_they_are_permitted() {
        let engines = || [&PLAIN, &TF32, &IEEE].map(|config| engine(config, 64));
        assert_eq!(with_attention_by_parts(engines), [Engine::Bf16x6, Engine::Tf32, Engine::Simt]);
        let panicked =
            std::panic::catch_unwind(|| with_attention_by_parts(|| panic!("a fault of the caller")));
        assert!(panicked.is_err());
        assert_eq!(engines(), [Engine::Simt, Engine::Tf32, Engine::Simt]);
    }

    /// Of compute capability 8.6, 8.9 and 12.0, with the parameters of a sequence.
    #[test]
    fn tiles_fit_99_kib_of_shared_memory() {
        let sizes = Sizes {
            heads: 1,
            group: 1,
            queries: 1,
            keys: 1,
            head_dim: 1,
            value_dim: 1,
            reach_first: 0,
            reach_end: 1,
            scale: 1.0,
        };
        let room = 99 << 10;
        for engine in [Engine::Tf32, Engine::Bf16x6] {
            for width in [32, 64, 128] {
                let products = Products { engine, width, reach: Reach::VarlenDropout };
                let plan = Plan { products, sizes, batch: 1, kv_heads: 1 };
                let tiles = products.forward_tiles();
                assert!(plan.forward_shared(tiles, 4) + varlen::room::<Forward>() <= room, "{products:?}");
                let [queries, keys] = products.backward_tiles();
                assert_eq!(queries, keys, "one source has both kernels");
                for pass in grad_launches(&plan, 4) {
                    assert!(pass.shared + varlen::room::<Backward>() <= room, "{products:?}");
                }
            }
        }
    }
}
