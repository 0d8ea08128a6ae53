//! Kernels of attention.

use super::{Source, TYPE, element};
use crate::variant::attention::{AttentionVariant, Engine, KernelConfig, MaskMode, Tiles, forward_tma_tiles};
use ternion_core::DType;

pub(super) fn source(variant: AttentionVariant) -> Source {
    match variant {
        AttentionVariant::Forward { kernel_config, dtype } => forward(kernel_config, dtype),
        AttentionVariant::ForwardSplitKv { kernel_config, dtype } => {
            let source =
                Source::new("attention/forward.cu", &["attention"]).kernel_config(kernel_config, dtype);
            source
                .tiles(kernel_config.split_kv_tiles())
                .define("SPLIT_KV", 1)
                .named(&format!("{}, parts", name_of(kernel_config, dtype)))
        }
        AttentionVariant::MergeSplitKv { width, mask, dtype } => {
            let source = Source::new("attention/merge_splits.cu", &["attention_merge_splits"]);
            let source = source.mask_mode(mask, false, dtype).define("VALUE_DIM", width);
            source.named(&format!("{width} {mask:?}: {}", element(dtype)))
        }
        AttentionVariant::ForwardTma { width, is_long, mask_mode, dtype } => {
            let kernel_config = KernelConfig { engine: Engine::Wgmma, width, mask_mode };
            let tiles = forward_tma_tiles(usize::from(width), is_long, mask_mode);
            let source = Source::new("attention/forward_tma.cu", &["attention_tma"])
                .kernel_config(kernel_config, dtype);
            let source = if is_long {
                source.named(&format!("{}, many keys", name_of(kernel_config, dtype)))
            } else {
                source
            };
            source
                .define_all([("CONSUMERS", tiles.consumers), ("STEP", tiles.step)])
                .define_all([("STAGES", tiles.stages), ("QUERY_STAGES", tiles.query_stages)])
        }
        AttentionVariant::DropoutBits => {
            let source = Source::new(
                "attention/dropout_bits.cu",
                &["attention_dropout_bits", "attention_dropout_bits_by_keys"],
            );
            // The dtype of the operands does not matter.
            source.mask_mode(MaskMode::Dropout, true, DType::BF16)
        }
        AttentionVariant::Grad { kernel_config, dtype } => grad(kernel_config, dtype),
        AttentionVariant::GradByKeys { width, lags, mask_mode, dtype } => {
            let kernels = &["attention_grad_tile_rows", "attention_grad_by_keys"];
            let kernel_config = KernelConfig { engine: Engine::Wgmma, width, mask_mode };
            match width {
                192.. => {
                    Source::new("attention/grad_by_keys_wide.cu", kernels).kernel_config(kernel_config, dtype)
                }
                _ => Source::new("attention/grad_by_keys.cu", kernels)
                    .kernel_config(kernel_config, dtype)
                    .define("LAG", usize::from(lags)),
            }
        }
        AttentionVariant::GradMask { kernel_config, dtype } => grad_mask(kernel_config, dtype),
        AttentionVariant::GradByKeysUnordered { width, lags, mask_mode, dtype } => {
            let kernels =
                &["attention_grad_tile_rows", "attention_grad_by_keys", "attention_grad_convert_queries"];
            let kernel_config = KernelConfig { engine: Engine::Wgmma, width, mask_mode };
            let lag = if lags { "lagging" } else { "not lagging" };
            Source::new("attention/grad_by_keys.cu", kernels)
                .kernel_config(kernel_config, dtype)
                .define_all([("LAG", usize::from(lags)), ("UNORDERED", 1)])
                .named(&format!("{}, unordered, {lag}", name_of(kernel_config, dtype)))
        }
        AttentionVariant::GradRows { mask, dtype } => {
            let source = Source::new("attention/grad_rows.cu", &["attention_grad_rows"]);
            source.mask_mode(mask, false, dtype).named(&format!("{mask:?}: {}", element(dtype)))
        }
    }
}

impl Source {
    /// Adds the dtype and the mask mode.
    fn mask_mode(self, mask_mode: MaskMode, band: bool, dtype: DType) -> Source {
        let mask = match mask_mode {
            MaskMode::Full
            | MaskMode::Band
            | MaskMode::Dropout
            | MaskMode::Varlen
            | MaskMode::VarlenDropout => 0,
            MaskMode::BoolMask => 1,
            MaskMode::AdditiveMask => 2,
        };
        let source = self.define_type(TYPE, dtype).define_all([
            ("BAND", usize::from(band)),
            ("MASK", mask),
            ("DROPOUT", usize::from(mask_mode.may_drop())),
        ]);
        if mask_mode.is_varlen() { source.define("VARLEN", 1) } else { source }
    }

    /// Adds the tiles that all kernels of a source have.
    fn tiles(self, tiles: Tiles) -> Source {
        self.define_all([
            ("ROW_TILES", tiles.row_tiles),
            ("STEP", tiles.step),
            ("WARPS", tiles.warps),
            ("BLOCKS", tiles.blocks),
        ])
    }

    /// Adds what the forward and the backward kernels of an engine have in common.
    fn kernel_config(self, kernel_config: KernelConfig, dtype: DType) -> Source {
        let KernelConfig { engine, width, mask_mode } = kernel_config;
        let source = self
            .mask_mode(mask_mode, mask_mode != MaskMode::Full, dtype)
            .define("HEAD_DIM", width)
            .define("VALUE_DIM", width)
            .named(&name_of(kernel_config, dtype));
        match engine {
            Engine::Wgmma => source.define("WGMMA", 1),
            Engine::Tf32 => source.define("SPLIT", 0),
            Engine::Bf16x6 => source.define("SPLIT", 1),
            Engine::Mma | Engine::Simt => source,
        }
    }
}

fn name_of(KernelConfig { engine, width, mask_mode }: KernelConfig, dtype: DType) -> String {
    format!("{engine:?} {width} {mask_mode:?}: {}", element(dtype))
}

fn forward(kernel_config: KernelConfig, dtype: DType) -> Source {
    let file = match kernel_config.engine {
        Engine::Simt => "attention/simt_forward.cu",
        Engine::Tf32 | Engine::Bf16x6 => "attention/f32_forward.cu",
        Engine::Mma | Engine::Wgmma => "attention/forward.cu",
    };
    let source = Source::new(file, &["attention"]).kernel_config(kernel_config, dtype);
    if kernel_config.engine == Engine::Simt { source } else { source.tiles(kernel_config.forward_tiles()) }
}

fn grad_mask(kernel_config: KernelConfig, dtype: DType) -> Source {
    let kernels = &["attention_grad_mask", "attention_grad_mask_sum"];
    if kernel_config.engine == Engine::Simt {
        return Source::new("attention/simt_grad_mask.cu", kernels).kernel_config(kernel_config, dtype);
    }
    let source = Source::new("attention/grad_mask.cu", kernels).kernel_config(kernel_config, dtype);
    source.tiles(kernel_config.grad_mask_tiles())
}

fn grad(kernel_config: KernelConfig, dtype: DType) -> Source {
    let kernels: &[&str] = &["attention_grad_queries", "attention_grad_keys", "attention_grad_values"];
    let splits = kernel_config.has_values_kernel();
    let kernels = if splits { kernels } else { &kernels[..2] };
    if kernel_config.engine == Engine::Simt {
        return Source::new("attention/simt_grad.cu", kernels).kernel_config(kernel_config, dtype);
    }
    let [queries, keys] = kernel_config.backward_tiles();
    if kernel_config.engine.is_f32_on_tensor_cores() {
        // Both kernels have the same tiles.
        return Source::new("attention/f32_grad.cu", kernels)
            .kernel_config(kernel_config, dtype)
            .tiles(queries)
            .define("K_SPLIT", usize::from(splits));
    }
    Source::new("attention/grad.cu", kernels).kernel_config(kernel_config, dtype).define_all([
        ("Q_ROW_TILES", queries.row_tiles),
        ("Q_STEP", queries.step),
        ("Q_WARPS", queries.warps),
        ("Q_BLOCKS", queries.blocks),
        ("K_ROW_TILES", keys.row_tiles),
        ("K_STEP", keys.step),
        ("K_WARPS", keys.warps),
        ("K_BLOCKS", keys.blocks),
        ("K_SPLIT", usize::from(splits)),
    ])
}
