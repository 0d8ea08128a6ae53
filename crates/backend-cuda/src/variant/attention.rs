//! Variants of attention and its gradient: the instructions of the products, the tiles, and the
//! mask mode.

use super::architecture::Architectures;
use ternion_core::DType;

/// The instructions that compute the products.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Engine {
    /// `mma.sync` of 16-bit operands, from compute capability 8.0 on.
    Mma,
    /// `wgmma`, on 9.0.
    Wgmma,
    /// Fused multiply-adds of f32.
    Simt,
    /// `mma.sync` of f32 rounded to TF32, from compute capability 8.0 on.
    Tf32,
    /// `mma.sync` of f32 split into three bf16 terms (bf16x6), as accurate as [`Engine::Simt`],
    /// from compute capability 8.0 on.
    Bf16x6,
}

impl Engine {
    pub(crate) fn architectures(self) -> Architectures {
        match self {
            Engine::Mma | Engine::Simt | Engine::Tf32 | Engine::Bf16x6 => Architectures::ALL,
            Engine::Wgmma => Architectures::Exact((9, 0)),
        }
    }

    /// Returns the head widths of the forward kernels.
    fn forward_widths(self) -> &'static [u16] {
        match self {
            Engine::Mma => &[32, 64, 128, 192, 256],
            Engine::Wgmma => &[64, 128, 192, 256],
            Engine::Tf32 => &[32, 64, 128, 256],
            Engine::Simt | Engine::Bf16x6 => &[32, 64, 128],
        }
    }

    /// Returns the head widths of the gradient kernels.
    pub(crate) fn grad_widths(self) -> &'static [u16] {
        match self {
            Engine::Mma => &[32, 64, 128, 256],
            Engine::Wgmma => &[64, 128, 256],
            Engine::Simt | Engine::Tf32 | Engine::Bf16x6 => &[32, 64, 128],
        }
    }

    /// Returns the tile width for heads of `columns` columns, in the forward kernels or in those of
    /// the gradient; `None` if no kernel is wide enough.
    pub(crate) fn width_of(self, columns: usize, is_grad: bool) -> Option<u16> {
        let widths = if is_grad { self.grad_widths() } else { self.forward_widths() };
        widths.iter().copied().find(|&width| usize::from(width) >= columns)
    }

    /// Returns whether operands are f32 on tensor cores.
    pub(crate) fn is_f32_on_tensor_cores(self) -> bool {
        matches!(self, Engine::Tf32 | Engine::Bf16x6)
    }

    /// Returns whether there are split-KV kernels, which also process query heads that share keys
    /// as rows of one head.
    pub(crate) fn has_split_kv(self) -> bool {
        matches!(self, Engine::Mma | Engine::Wgmma)
    }

    /// Returns the dtypes of operands.
    fn dtypes(self) -> &'static [DType] {
        match self {
            Engine::Mma | Engine::Wgmma => &[DType::F16, DType::BF16],
            Engine::Simt | Engine::Tf32 | Engine::Bf16x6 => &[DType::F32],
        }
    }
}

/// Which keys a query attends to, and whether there is dropout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MaskMode {
    /// All keys.
    Full,
    /// The keys between two indices, which depend on the query's index.
    Band,
    /// The keys that a bool mask selects. There may be dropout.
    BoolMask,
    /// All keys, with a mask added to the scores. There may be dropout.
    AdditiveMask,
    /// A band, with dropout.
    Dropout,
    /// A band within sequences of different lengths.
    Varlen,
    /// As `Varlen`, with dropout.
    VarlenDropout,
}

impl MaskMode {
    const ALL: [MaskMode; 7] = [
        MaskMode::Full,
        MaskMode::Band,
        MaskMode::BoolMask,
        MaskMode::AdditiveMask,
        MaskMode::Dropout,
        MaskMode::Varlen,
        MaskMode::VarlenDropout,
    ];

    pub(crate) fn is_masked(self) -> bool {
        matches!(self, MaskMode::BoolMask | MaskMode::AdditiveMask)
    }

    pub(crate) fn is_varlen(self) -> bool {
        matches!(self, MaskMode::Varlen | MaskMode::VarlenDropout)
    }

    /// Returns whether there is always dropout. Masked modes may or may not have it.
    fn always_drops(self) -> bool {
        matches!(self, MaskMode::Dropout | MaskMode::VarlenDropout)
    }

    /// Returns whether there is a split-KV kernel.
    pub(crate) fn has_split_kv(self) -> bool {
        !self.always_drops() && !self.is_varlen()
    }

    /// Returns whether the kernels have code for dropout.
    pub(crate) fn may_drop(self) -> bool {
        self.is_masked() || self.always_drops()
    }

    /// Returns the mode of the kernels without matrix products: the one that prepares the gradient,
    /// and the one that merges splits. It depends only on the mask and on whether lengths differ.
    pub(crate) fn row_kernel_mode(self) -> MaskMode {
        match self {
            MaskMode::BoolMask | MaskMode::AdditiveMask => self,
            MaskMode::Varlen | MaskMode::VarlenDropout => MaskMode::Varlen,
            MaskMode::Full | MaskMode::Band | MaskMode::Dropout => MaskMode::Full,
        }
    }
}

/// The configuration of the kernels that forward and backward share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KernelConfig {
    pub(crate) engine: Engine,
    /// Width of the tiles: that of the wider of keys and values, rounded up.
    pub(crate) width: u16,
    pub(crate) mask_mode: MaskMode,
}

/// Widths of [`AttentionVariant::GradByKeys`].
const GRAD_BY_KEYS_WIDTHS: [u16; 4] = [64, 128, 192, 256];
/// Widths of [`AttentionVariant::GradByKeysUnordered`].
pub(crate) const GRAD_BY_KEYS_UNORDERED_WIDTHS: [u16; 2] = [64, 128];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum AttentionVariant {
    /// Forward in which a block processes a tile of queries and loops over all keys.
    Forward { kernel_config: KernelConfig, dtype: DType },
    /// Forward for few queries of many keys, on tensor cores. The keys are split among blocks
    /// (split-KV).
    ForwardSplitKv { kernel_config: KernelConfig, dtype: DType },
    /// The kernel that merges the results of split-KV.
    MergeSplitKv { width: u16, mask: MaskMode, dtype: DType },
    /// Forward with operands loaded by TMA, with wgmma.
    ForwardTma {
        width: u16,
        /// Whether it has the tiles for many keys. Only some widths have them.
        is_long: bool,
        /// All keys, a band, or a band with dropout.
        mask_mode: MaskMode,
        dtype: DType,
    },
    /// The kernel that computes the dropout mask as bits, for TMA kernels.
    DropoutBits,
    /// The gradient in two passes: over keys, for dq, and over queries, for dk and dv.
    Grad { kernel_config: KernelConfig, dtype: DType },
    /// The gradient in one pass over queries, with wgmma.
    GradByKeys {
        width: u16,
        /// Whether the gradient of queries is computed one tile later than those of keys and
        /// values.
        lags: bool,
        /// All keys, a band, or a band with dropout.
        mask_mode: MaskMode,
        dtype: DType,
    },
    /// The gradient of an additive mask.
    GradMask { kernel_config: KernelConfig, dtype: DType },
    /// As `GradByKeys`, but work tiles add to the gradient of queries in any order. For study; no
    /// op uses it.
    GradByKeysUnordered { width: u16, lags: bool, mask_mode: MaskMode, dtype: DType },
    /// The kernel that computes the gradient's values per query (row statistics) before its
    /// products.
    GradRows { mask: MaskMode, dtype: DType },
}

impl AttentionVariant {
    pub(super) fn architectures(&self) -> Architectures {
        match self {
            AttentionVariant::Forward { kernel_config, .. }
            | AttentionVariant::ForwardSplitKv { kernel_config, .. }
            | AttentionVariant::Grad { kernel_config, .. }
            | AttentionVariant::GradMask { kernel_config, .. } => kernel_config.engine.architectures(),
            AttentionVariant::ForwardTma { .. }
            | AttentionVariant::DropoutBits
            | AttentionVariant::GradByKeys { .. }
            | AttentionVariant::GradByKeysUnordered { .. } => Engine::Wgmma.architectures(),
            AttentionVariant::GradRows { .. } | AttentionVariant::MergeSplitKv { .. } => Architectures::ALL,
        }
    }
}

/// Tiles of a block on tensor cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tiles {
    /// Row tiles of a warp, each of 16 rows.
    pub(crate) row_tiles: usize,
    /// Rows of the other operand in one step of the main loop.
    pub(crate) step: usize,
    pub(crate) warps: usize,
    /// The minimum number of resident blocks on a multiprocessor.
    pub(crate) blocks: usize,
}

// Named by the rows of a block (four warps of 16 or 32), the rows of the other operand in a step,
// and the blocks of a multiprocessor. The choice for each kernel was measured: see `KernelConfig`.
const ROWS_64_STEP_16_BLOCKS_1: Tiles = Tiles { row_tiles: 1, step: 16, warps: 4, blocks: 1 };
const ROWS_64_STEP_32_BLOCKS_1: Tiles = Tiles { row_tiles: 1, step: 32, warps: 4, blocks: 1 };
const ROWS_64_STEP_64_BLOCKS_1: Tiles = Tiles { row_tiles: 1, step: 64, warps: 4, blocks: 1 };
const ROWS_64_STEP_16_BLOCKS_2: Tiles = Tiles { row_tiles: 1, step: 16, warps: 4, blocks: 2 };
const ROWS_64_STEP_32_BLOCKS_2: Tiles = Tiles { row_tiles: 1, step: 32, warps: 4, blocks: 2 };
const ROWS_64_STEP_64_BLOCKS_2: Tiles = Tiles { row_tiles: 1, step: 64, warps: 4, blocks: 2 };
const ROWS_64_STEP_64_BLOCKS_3: Tiles = Tiles { row_tiles: 1, step: 64, warps: 4, blocks: 3 };
const ROWS_64_STEP_128_BLOCKS_3: Tiles = Tiles { row_tiles: 1, step: 128, warps: 4, blocks: 3 };
const ROWS_128_STEP_16_BLOCKS_2: Tiles = Tiles { row_tiles: 2, step: 16, warps: 4, blocks: 2 };
const ROWS_128_STEP_32_BLOCKS_2: Tiles = Tiles { row_tiles: 2, step: 32, warps: 4, blocks: 2 };
const ROWS_128_STEP_64_BLOCKS_2: Tiles = Tiles { row_tiles: 2, step: 64, warps: 4, blocks: 2 };

impl Tiles {
    pub(crate) fn rows(&self) -> usize {
        self.warps * self.row_tiles * 16
    }

    pub(crate) fn threads(&self) -> u32 {
        self.warps as u32 * 32
    }
}

/// Tiles of [`AttentionVariant::ForwardTma`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WarpgroupTiles {
    /// Consumer warpgroups of a block, each for 64 queries.
    pub(crate) consumers: usize,
    /// Keys of one step of the main loop.
    pub(crate) step: usize,
    /// Buffers of keys, and of values.
    pub(crate) stages: usize,
    /// Buffers of queries.
    pub(crate) query_stages: usize,
}

/// Returns the tiles for heads of `width` columns. They are limited by shared memory, and for
/// accumulators of 192 and 256 columns also by registers. Of several that fit, the fastest on an
/// H200 was chosen (docs/kernels/attention.md).
pub(crate) fn forward_tma_tiles(width: usize, is_long: bool, mask_mode: MaskMode) -> WarpgroupTiles {
    let (consumers, step, stages, query_stages) = match (width, is_long) {
        (64, false) => (2, 128, 4, 4),
        (64, true) => (3, 128, 3, 4),
        (128, _) => (2, 128, 2, 3),
        // Dropout bits are computed for 128 keys, which must be a multiple of the step.
        (192, _) if mask_mode.always_drops() => (2, 64, 2, 2),
        (_, _) if mask_mode.always_drops() => (2, 64, 2, 1),
        (192, false) => (2, 80, 2, 2),
        (192, true) => (2, 112, 2, 1),
        _ => (2, 80, 2, 1),
    };
    WarpgroupTiles { consumers, step, stages, query_stages }
}

/// Returns the minimum number of queries, and of keys per query, for which the tiles for many keys
/// are used; `None` if there are no such tiles.
pub(crate) fn forward_tma_long(width: usize, mask_mode: MaskMode) -> Option<usize> {
    match (width, mask_mode) {
        (64, MaskMode::Full) => Some(512),
        (64, _) => Some(2048),
        (192, _) if !mask_mode.always_drops() => Some(4096),
        _ => None,
    }
}

impl KernelConfig {
    /// Returns the tiles of a forward kernel on tensor cores: the fastest of those without spills
    /// that were tried on an H100.
    pub(crate) fn forward_tiles(self) -> Tiles {
        match (self.engine, self.width) {
            // A fragment of keys or values is read and converted once for two tiles of rows, if
            // there are registers for both.
            (Engine::Tf32, ..=64) => ROWS_128_STEP_32_BLOCKS_2,
            // 128 KiB of shared memory.
            (Engine::Tf32, 256) => ROWS_64_STEP_16_BLOCKS_1,
            // With more keys registers spill, for some mask modes and architectures.
            (Engine::Bf16x6, 128) => ROWS_64_STEP_16_BLOCKS_2,
            (Engine::Tf32 | Engine::Bf16x6, _) => ROWS_64_STEP_32_BLOCKS_2,
            // For wide heads, the accumulators of y take most of the registers.
            (Engine::Wgmma, 192..) => ROWS_64_STEP_64_BLOCKS_1,
            (_, 192..) => ROWS_64_STEP_32_BLOCKS_1,
            _ if self.mask_mode.is_masked() => ROWS_64_STEP_64_BLOCKS_2,
            // The dropout bits of 64 keys fit the words that store them.
            (Engine::Wgmma, 64) if self.mask_mode.always_drops() => ROWS_64_STEP_64_BLOCKS_3,
            (Engine::Wgmma, 64) => ROWS_64_STEP_128_BLOCKS_3,
            (Engine::Wgmma, _) => ROWS_64_STEP_64_BLOCKS_2,
            (_, 128) => ROWS_128_STEP_32_BLOCKS_2,
            _ => ROWS_128_STEP_64_BLOCKS_2,
        }
    }

    /// Returns the tiles of [`AttentionVariant::ForwardSplitKv`], which have few rows, with any
    /// mask.
    pub(crate) fn split_kv_tiles(self) -> Tiles {
        if self.width > 128 { self.forward_tiles() } else { ROWS_64_STEP_64_BLOCKS_2 }
    }

    /// Returns the tiles of the gradient on tensor cores: first those of the kernel for queries,
    /// then those of the kernel for keys and values.
    pub(crate) fn backward_tiles(self) -> [Tiles; 2] {
        let is_plain = !self.mask_mode.may_drop();
        match (self.engine, self.width) {
            // Fits into 99 KiB, with f32 operands.
            (Engine::Tf32 | Engine::Bf16x6, 128) => [ROWS_64_STEP_16_BLOCKS_2; 2],
            (Engine::Tf32 | Engine::Bf16x6, _) => [ROWS_64_STEP_32_BLOCKS_2; 2],
            (Engine::Wgmma, 256) => [ROWS_64_STEP_64_BLOCKS_1; 2],
            // Fits into the 99 KiB of shared memory of compute capability 8.6, 8.9 and 12.0.
            (_, 256) => [ROWS_64_STEP_16_BLOCKS_1; 2],
            (Engine::Wgmma, 64) if is_plain => [ROWS_64_STEP_64_BLOCKS_3, ROWS_64_STEP_64_BLOCKS_2],
            (Engine::Wgmma, _) => [ROWS_64_STEP_64_BLOCKS_2, ROWS_64_STEP_64_BLOCKS_2],
            // The sequence's position takes registers in addition to those of dropout.
            (_, 128) if self.mask_mode == MaskMode::VarlenDropout => [ROWS_64_STEP_16_BLOCKS_2; 2],
            _ if !is_plain => [ROWS_64_STEP_32_BLOCKS_2, ROWS_64_STEP_32_BLOCKS_2],
            (_, 128) => [ROWS_128_STEP_16_BLOCKS_2, ROWS_64_STEP_32_BLOCKS_2],
            // Two blocks with the parameters of their sequences fit into the 100 KiB of compute
            // capability 8.6 and 8.9.
            _ if self.mask_mode == MaskMode::Varlen => [ROWS_128_STEP_32_BLOCKS_2, ROWS_64_STEP_32_BLOCKS_2],
            _ => [ROWS_128_STEP_32_BLOCKS_2, ROWS_64_STEP_64_BLOCKS_2],
        }
    }

    /// Returns the tiles of [`AttentionVariant::GradMask`] on tensor cores, which fit into shared
    /// memory and into the registers without spills.
    pub(crate) fn grad_mask_tiles(self) -> Tiles {
        match (self.engine, self.width) {
            (Engine::Mma, 256) => ROWS_64_STEP_16_BLOCKS_1,
            (_, 256) => ROWS_64_STEP_64_BLOCKS_1,
            (Engine::Wgmma, _) => ROWS_64_STEP_64_BLOCKS_3,
            _ => ROWS_64_STEP_64_BLOCKS_2,
        }
    }

    /// Returns whether the gradients of keys and of values have separate kernels, because their
    /// accumulators do not fit into the registers together.
    pub(crate) fn has_values_kernel(self) -> bool {
        self.width > 128 || (self.engine == Engine::Bf16x6 && self.width == 128)
    }
}

pub(super) fn variants() -> Vec<AttentionVariant> {
    let mut all = Vec::new();
    for engine in [Engine::Mma, Engine::Wgmma, Engine::Simt, Engine::Tf32, Engine::Bf16x6] {
        for mask_mode in MaskMode::ALL {
            for &dtype in engine.dtypes() {
                let kernel_config = |&width: &u16| KernelConfig { engine, width, mask_mode };
                let forward_configs = engine.forward_widths().iter().map(kernel_config);
                let grad_configs = engine.grad_widths().iter().map(kernel_config);
                all.extend(
                    forward_configs.map(|kernel_config| AttentionVariant::Forward { kernel_config, dtype }),
                );
                if mask_mode == MaskMode::AdditiveMask && !engine.is_f32_on_tensor_cores() {
                    all.extend(
                        grad_configs
                            .clone()
                            .map(|kernel_config| AttentionVariant::GradMask { kernel_config, dtype }),
                    );
                }
                all.extend(grad_configs.map(|kernel_config| AttentionVariant::Grad { kernel_config, dtype }));
            }
        }
    }
    all.push(AttentionVariant::DropoutBits);
    for mask_mode in [MaskMode::Full, MaskMode::Band, MaskMode::Dropout] {
        for &dtype in Engine::Wgmma.dtypes() {
            for &width in Engine::Wgmma.forward_widths() {
                let has_long = forward_tma_long(usize::from(width), mask_mode).is_some();
                let is_long_values = if has_long { &[false, true][..] } else { &[false] };
                let forward =
                    |&is_long: &bool| AttentionVariant::ForwardTma { width, is_long, mask_mode, dtype };
                all.extend(is_long_values.iter().map(forward));
            }
        }
    }
    for mask_mode in [MaskMode::Full, MaskMode::Band, MaskMode::Dropout] {
        for &dtype in Engine::Wgmma.dtypes() {
            let grad = |width| AttentionVariant::GradByKeys { width, lags: true, mask_mode, dtype };
            all.extend(GRAD_BY_KEYS_WIDTHS.map(grad));
        }
    }
    for mask_mode in [MaskMode::Band, MaskMode::Dropout] {
        let grad = |&dtype: &DType| AttentionVariant::GradByKeys { width: 64, lags: false, mask_mode, dtype };
        all.extend(Engine::Wgmma.dtypes().iter().map(grad));
    }
    for engine in [Engine::Mma, Engine::Wgmma] {
        for mask_mode in MaskMode::ALL.into_iter().filter(|mask_mode| mask_mode.has_split_kv()) {
            for &dtype in engine.dtypes() {
                let split_kv = |&width: &u16| AttentionVariant::ForwardSplitKv {
                    kernel_config: KernelConfig { engine, width, mask_mode },
                    dtype,
                };
                all.extend(engine.forward_widths().iter().map(split_kv));
            }
        }
    }
    for mask in [MaskMode::Full, MaskMode::BoolMask, MaskMode::AdditiveMask] {
        for &dtype in Engine::Mma.dtypes() {
            let merge = |&width: &u16| AttentionVariant::MergeSplitKv { width, mask, dtype };
            all.extend(Engine::Mma.forward_widths().iter().map(merge));
        }
    }
    for mask in [MaskMode::Full, MaskMode::BoolMask, MaskMode::AdditiveMask, MaskMode::Varlen] {
        let dtypes = [DType::F32, DType::F16, DType::BF16];
        all.extend(dtypes.map(|dtype| AttentionVariant::GradRows { mask, dtype }));
    }
    all
}

/// The variants for study.
pub(super) fn study_variants() -> Vec<AttentionVariant> {
    let mut all = Vec::new();
    for mask_mode in [MaskMode::Full, MaskMode::Band] {
        for &dtype in Engine::Wgmma.dtypes() {
            for width in GRAD_BY_KEYS_UNORDERED_WIDTHS {
                let unordered =
                    |lags| AttentionVariant::GradByKeysUnordered { width, lags, mask_mode, dtype };
                all.extend([false, true].map(unordered));
            }
        }
    }
    all
}
