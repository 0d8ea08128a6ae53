//! By what products of f32 attention are formed: fused multiply-adds, or the tensor cores, in TF32 where that is permitted or of parts of bf16.

use super::{Backward, Forward, forward_launch, grad_launches, varlen};
use crate::variant::attention::{Engine, Products, Reach};
use std::cell::Cell;
use ternion_core::backend::Unsupported;
use ternion_core::ops::attention::AttentionConfig;

thread_local! {
    static PARTS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with f32 attention of this thread formed by parts of bf16 wherever that is permitted, whether or not it is faster: for tests and
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

/// Whether there are kernels for heads of up to so many columns, on a device with so much shared memory for a block; else why not.
pub(super) fn select(
    config: &AttentionConfig,
    widest: usize,
    is_grad: bool,
    room: usize,
) -> Result<(), Unsupported> {
    let engine = engine(config, widest);
    let Some(width) = engine.width_of(widest, is_grad) else {
        return Err(Unsupported::because("heads in f32 wider than 128"));
    };
    // Tiles of f32 are the same for every reach.
    let products = Products { engine, width, reach: Reach::Full };
    if shared(products, is_grad, config.varlen) > room {
        return Err(Unsupported::because("wide heads in f32 need more shared memory than the device has"));
    }
    Ok(())
}

/// Bytes of shared memory that the kernels take.
fn shared(products: Products, is_grad: bool, is_varlen: bool) -> usize {
    let (own, room) = match is_grad {
        true => {
            let [queries, keys] = grad_launches(products, 4);
            (queries.shared.max(keys.shared), varlen::room::<Backward>())
        }
        false => (forward_launch(products, 4).shared, varlen::room::<Forward>()),
    };
    own + if is_varlen { room } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Of compute capability 8.6, 8.9 and 12.0; the widest heads that of 8.0 and 9.0.
    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        for (engine, width) in [Engine::Tf32, Engine::Bf16x6]
            .into_iter()
            .flat_map(|engine| [32, 64, 128].map(|width| (engine, width)))
        {
            let products = Products { engine, width, reach: Reach::VarlenDropout };
            for is_grad in [false, true] {
                assert!(shared(products, is_grad, true) <= 99 << 10, "{products:?}, gradient: {is_grad}");
            }
            let [queries, keys] = products.backward_tiles();
            assert_eq!(queries, keys, "one source has both kernels");
        }
        let widest = Products { engine: Engine::Tf32, width: 256, reach: Reach::VarlenDropout };
        assert!((99 << 10..=163 << 10).contains(&shared(widest, false, true)));
    }

    #[test]
    fn heads_wider_than_128_have_a_forward_kernel_in_tf32() {
        let room = 227 << 10;
        let is_taken = |config, widest, is_grad| select(config, widest, is_grad, room).is_ok();
        for widest in [1, 64, 128] {
            assert!([&PLAIN, &TF32, &IEEE].iter().all(|config| is_taken(config, widest, false)));
            assert!([&PLAIN, &TF32, &IEEE].iter().all(|config| is_taken(config, widest, true)));
        }
        assert!(is_taken(&TF32, 129, false) && is_taken(&TF32, 256, false) && !is_taken(&TF32, 129, true));
        assert!(!is_taken(&PLAIN, 129, false) && !is_taken(&IEEE, 129, false));
        assert!(!with_attention_by_parts(|| is_taken(&PLAIN, 129, false)));
        assert!(select(&TF32, 256, false, 99 << 10).is_err(), "composed where memory is short");
        assert!(select(&TF32, 128, true, 99 << 10).is_ok() && select(&PLAIN, 128, true, 99 << 10).is_err());
    }
}
