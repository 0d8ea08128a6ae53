//! The instructions for the products of f32 attention: fused multiply-adds, or tensor cores, in
//! TF32 if that is permitted, or as bf16x6.

use super::{Backward, Forward, forward_launch, grad_launches, varlen};
use crate::gpu::Gpu;
use crate::variant::attention::{Engine, KernelConfig, MaskMode};
use crate::variant::{Architecture, Architectures};
use std::cell::Cell;
use ternion_core::backend::Unsupported;
use ternion_core::ops::attention::AttentionConfig;

thread_local! {
    static FORCE_BF16X6: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with this thread's f32 attention computed as bf16x6 wherever that is permitted, whether
/// or not it is faster: for tests and measurements.
pub fn with_attention_bf16x6<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORCE_BF16X6.set(self.0);
        }
    }
    let _restore = Restore(FORCE_BF16X6.replace(true));
    f()
}

/// The properties of a device that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    /// The maximum shared memory of a block, in bytes.
    pub(crate) max_shared_memory: usize,
    pub(crate) architecture: Architecture,
}

impl Device {
    pub(crate) fn of(gpu: &Gpu) -> Device {
        Device { max_shared_memory: gpu.max_shared_memory(), architecture: gpu.architecture() }
    }
}

/// Returns whether attention with heads of `widest` columns is faster as bf16x6 than with fused
/// multiply-adds, according to the table in docs/kernels/attention.md for compute capability 9.0,
/// the only one that was measured. bf16x6 splits each f32 operand into three bf16 numbers, and
/// needs six of their products for one of f32.
fn is_bf16x6_faster(device: Device, widest: usize) -> bool {
    widest <= 64 && Architectures::Exact((9, 0)).contain(device.architecture)
}

/// Returns the engine of f32 products for heads of up to `widest` columns: TF32 if that is
/// permitted, as for matrix products; otherwise one with the accuracy of f32.
pub(crate) fn engine(config: &AttentionConfig, device: Device, widest: usize) -> Engine {
    let uses_bf16x6 = config.bf16x6 && (FORCE_BF16X6.get() || is_bf16x6_faster(device, widest));
    match (config.tf32, uses_bf16x6) {
        (true, _) => Engine::Tf32,
        (false, true) => Engine::Bf16x6,
        (false, false) => Engine::Simt,
    }
}

/// Returns the reason if a device has no kernels for heads of up to `widest` columns.
pub(super) fn select(
    config: &AttentionConfig,
    device: Device,
    widest: usize,
    is_grad: bool,
) -> Result<(), Unsupported> {
    let engine = engine(config, device, widest);
    let Some(width) = engine.width_of(widest, is_grad) else {
        return Err(Unsupported::because("head_dim or value_dim above 128 in f32"));
    };
    // f32 tiles are the same for every mask mode.
    let kernel_config = KernelConfig { engine, width, mask_mode: MaskMode::Full };
    if shared_bytes(kernel_config, is_grad, config.varlen) > device.max_shared_memory {
        return Err(Unsupported::because("wide heads in f32 need more shared memory than the device has"));
    }
    Ok(())
}

/// Returns the bytes of shared memory that the kernels need.
fn shared_bytes(kernel_config: KernelConfig, is_grad: bool, is_varlen: bool) -> usize {
    let (kernel_bytes, varlen_bytes) = match is_grad {
        true => {
            let [queries, keys] = grad_launches(kernel_config, 4);
            (queries.shared_bytes.max(keys.shared_bytes), varlen::parameter_bytes::<Backward>())
        }
        false => (forward_launch(kernel_config, 4).shared_bytes, varlen::parameter_bytes::<Forward>()),
    };
    kernel_bytes + if is_varlen { varlen_bytes } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::Capability;

    const PLAIN: AttentionConfig = AttentionConfig::PLAIN;
    const TF32: AttentionConfig = AttentionConfig { tf32: true, ..PLAIN };
    /// The configuration in a scope of IEEE 754 precision.
    const IEEE: AttentionConfig = AttentionConfig { bf16x6: false, ..PLAIN };

    fn device(capability: Capability, max_shared_memory: usize) -> Device {
        Device { max_shared_memory, architecture: Architecture::of_device(capability) }
    }

    #[test]
    fn tf32_is_used_exactly_where_it_is_permitted() {
        for capability in [(8, 0), (9, 0), (12, 0)] {
            let device = device(capability, 227 << 10);
            for width in [1, 32, 64, 65, 100, 128] {
                assert_eq!(engine(&TF32, device, width), Engine::Tf32);
                assert_eq!(engine(&AttentionConfig { bf16x6: false, ..TF32 }, device, width), Engine::Tf32);
                let accurate =
                    if capability == (9, 0) && width <= 64 { Engine::Bf16x6 } else { Engine::Simt };
                assert_eq!(engine(&PLAIN, device, width), accurate, "{capability:?}, {width}");
                assert_eq!(engine(&IEEE, device, width), Engine::Simt);
            }
        }
    }

    #[test]
    fn bf16x6_is_used_where_it_is_forced_and_permitted() {
        let engines = || [&PLAIN, &TF32, &IEEE].map(|config| engine(config, device((8, 0), 163 << 10), 64));
        assert_eq!(with_attention_bf16x6(engines), [Engine::Bf16x6, Engine::Tf32, Engine::Simt]);
        let panicked = std::panic::catch_unwind(|| with_attention_bf16x6(|| panic!("a fault of the caller")));
        assert!(panicked.is_err());
        assert_eq!(engines(), [Engine::Simt, Engine::Tf32, Engine::Simt]);
    }

    /// The limit is that of compute capability 8.6, 8.9 and 12.0; for the widest heads that of 8.0
    /// and 9.0.
    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        for (engine, width) in [Engine::Tf32, Engine::Bf16x6]
            .into_iter()
            .flat_map(|engine| [32, 64, 128].map(|width| (engine, width)))
        {
            let kernel_config = KernelConfig { engine, width, mask_mode: MaskMode::VarlenDropout };
            for is_grad in [false, true] {
                assert!(
                    shared_bytes(kernel_config, is_grad, true) <= 99 << 10,
                    "{kernel_config:?}, gradient: {is_grad}"
                );
            }
            let [queries, keys] = kernel_config.backward_tiles();
            assert_eq!(queries, keys, "one source has both kernels");
        }
        let widest = KernelConfig { engine: Engine::Tf32, width: 256, mask_mode: MaskMode::VarlenDropout };
        assert!((99 << 10..=163 << 10).contains(&shared_bytes(widest, false, true)));
    }

    #[test]
    fn heads_wider_than_128_have_a_forward_kernel_in_tf32() {
        let hopper = device((9, 0), 227 << 10);
        let is_supported = |config, widest, is_grad| select(config, hopper, widest, is_grad).is_ok();
        for widest in [1, 64, 128] {
            assert!([&PLAIN, &TF32, &IEEE].iter().all(|config| is_supported(config, widest, false)));
            assert!([&PLAIN, &TF32, &IEEE].iter().all(|config| is_supported(config, widest, true)));
        }
        assert!(
            is_supported(&TF32, 129, false)
                && is_supported(&TF32, 256, false)
                && !is_supported(&TF32, 129, true)
        );
        assert!(!is_supported(&PLAIN, 129, false) && !is_supported(&IEEE, 129, false));
        assert!(!with_attention_bf16x6(|| is_supported(&PLAIN, 129, false)));
        let ampere = device((8, 6), 99 << 10);
        assert!(select(&TF32, ampere, 256, false).is_err(), "too little shared memory");
        assert!(select(&TF32, ampere, 128, true).is_ok() && select(&PLAIN, ampere, 128, true).is_err());
    }
}
