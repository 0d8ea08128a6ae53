//! Variants of matrix products: tiles, and how operands are loaded into them.

mod bf16x6;
mod epilogue;
mod split_k_tiles;
mod tiles;
mod warpgroup_tiles;

pub(crate) use bf16x6::*;
pub(crate) use epilogue::*;
pub(crate) use split_k_tiles::*;
pub(crate) use tiles::*;
pub(crate) use warpgroup_tiles::*;

use super::architecture::Architectures;
use super::dtypes::{ACCESS, arithmetic_dtypes};
use std::fmt;
use std::hash::{Hash, Hasher};
use ternion_core::DType;

/// The instructions that multiply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Engine {
    /// Fused multiply-adds of single elements.
    Simt,
    /// `mma.sync` of f16 or bf16.
    Mma,
    /// `mma.sync` of f32 rounded to TF32.
    Tf32,
    /// `wgmma` of f16 or bf16, with operands loaded by TMA.
    Wgmma,
    /// As [`Engine::Wgmma`], for few tiles: k is split among the blocks of a cluster, which add
    /// their partial sums.
    WgmmaSplitK,
    /// As [`Engine::Wgmma`], for f32 rounded to TF32.
    WgmmaTf32,
    /// As [`Engine::Wgmma`], for f32 split into bf16 terms, of which six pairs are multiplied
    /// (bf16x6).
    WgmmaBf16x6,
}

impl Engine {
    /// Returns the architectures that have its instructions.
    pub(crate) fn architectures(self) -> Architectures {
        match self {
            Engine::Simt | Engine::Mma | Engine::Tf32 => Architectures::ALL,
            Engine::Wgmma | Engine::WgmmaSplitK | Engine::WgmmaTf32 | Engine::WgmmaBf16x6 => {
                Architectures::Exact((9, 0))
            }
        }
    }

    /// Returns whether operands are loaded by TMA.
    pub(crate) fn uses_tensor_maps(self) -> bool {
        self.architectures() == Architectures::Exact((9, 0))
    }

    /// Returns whether partial sums of split-K are added by the blocks of a cluster, each of which
    /// has one, and not by a second kernel.
    pub(crate) fn reduces_in_cluster(self) -> bool {
        self == Engine::WgmmaSplitK
    }

    /// Returns whether at least one operand must be k-major: tensor cores read the other one from
    /// registers, where it is transposed.
    pub(crate) fn needs_one_k_major(self) -> bool {
        self == Engine::WgmmaTf32
    }

    pub(crate) fn uses_tensor_cores(self) -> bool {
        self != Engine::Simt
    }

    /// Returns the dtype that it multiplies for operands of `dtype`.
    pub(crate) fn operands(self, dtype: DType) -> DType {
        if self == Engine::WgmmaBf16x6 { DType::BF16 } else { dtype }
    }
}

/// The type of the operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MmaInput {
    /// Elements of a dtype, unchanged.
    Of(DType),
    /// f32 elements, rounded to TF32.
    Tf32,
    /// f32 elements, unchanged or, if one of [these tiles](BF16X6_TILES) is faster, split into bf16
    /// terms.
    Bf16x6,
}

impl MmaInput {
    /// Returns the dtype of the operands.
    pub(crate) fn dtype(self) -> DType {
        match self {
            MmaInput::Of(dtype) => dtype,
            MmaInput::Tf32 | MmaInput::Bf16x6 => DType::F32,
        }
    }

    /// Returns whether its tiles belong to engines that
    /// [use tensor cores](Engine::uses_tensor_cores). There may be several of these engines, for
    /// different architectures.
    pub(crate) fn uses_tensor_cores(self) -> bool {
        match self {
            MmaInput::Tf32 => true,
            MmaInput::Bf16x6 => false,
            MmaInput::Of(dtype) => dtype.is_half(),
        }
    }

    /// Returns every input type except [`MmaInput::Bf16x6`], which has the tiles of f32.
    pub(crate) fn all() -> impl Iterator<Item = MmaInput> {
        arithmetic_dtypes().map(MmaInput::Of).chain([MmaInput::Tf32])
    }
}

/// Threads of a warpgroup.
const WARPGROUP: usize = 128;
/// Bytes of a line of a stage that wgmma reads.
const LINE: usize = 128;
/// The alignment of stages in bytes.
const SWIZZLE_ALIGNMENT: usize = 1024;
/// Rows of a slab of results, which a consumer warpgroup stores at a time.
const SLAB_LINES: usize = 64;
/// Rows of a strip of results, which one warp of a consumer stores at a time.
const STRIP_LINES: usize = 16;
/// Consumer warpgroups of a block.
const CONSUMERS: usize = 2;
/// Warps of all consumer warpgroups.
const CONSUMER_WARPS: usize = 8;
/// An upper bound of the number of barriers of a tile.
const MAX_BARRIERS: usize = 64;
/// Maximum bytes of shared memory of a block on devices that support tiles of warpgroups.
const MAX_SHARED: usize = 227 << 10;

/// The sizes of a tile: rows and columns of the result, and the length of k in one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockShape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// The part of a tile that one thread, warp or warpgroup computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// SIMT: elements of a thread, and lanes of a warp along m.
    Thread { m: usize, n: usize, lanes_m: usize },
    /// Tensor cores: elements of a warp.
    Warp { m: usize, n: usize },
    /// Tensor cores: elements of a warpgroup. If two warpgroups share a tile, each has half of its
    /// rows. If each has its own tile, they alternate (the ping-pong schedule).
    Warpgroup { m: usize, n: usize },
    /// Tensor cores: elements of the only consumer warpgroup of a block. The rows of its
    /// accumulators are columns of the result. An additional warp loads the operands.
    SwappedWarpgroup { m: usize, n: usize },
}

impl Part {
    pub(crate) fn m(self) -> usize {
        match self {
            Part::Thread { m, .. }
            | Part::Warp { m, .. }
            | Part::Warpgroup { m, .. }
            | Part::SwappedWarpgroup { m, .. } => m,
        }
    }

    pub(crate) fn n(self) -> usize {
        match self {
            Part::Thread { n, .. }
            | Part::Warp { n, .. }
            | Part::Warpgroup { n, .. }
            | Part::SwappedWarpgroup { n, .. } => n,
        }
    }
}

/// The products that a tile is meant for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Any,
    /// Products with at most as many rows as the tile has.
    FewRows,
    /// Products with an operand that tensor cores can only load element by element.
    UnalignedOperands,
}

/// The cost of a tile on an H100, fitted by `benches/peers/fit_tiles.py` to measurements of
/// products of random sizes with a cold L2 cache (`docs/kernels/matmul.md` says how much time is
/// lost by choosing tiles by these costs). The costs of f64 and of unaligned operands come from an
/// earlier fit, the latter with the start time of the tile of the same size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cost {
    /// Nanoseconds that a fully occupied multiprocessor needs for a tile, per element of k.
    pub(crate) nanoseconds_per_k: f64,
    /// Microseconds from the launch to the first products, plus those from the last products to the
    /// end.
    pub(crate) start_microseconds: f64,
    /// The factor by which a block takes longer if it is the only one on its multiprocessor.
    pub(crate) lone_block_factor: f64,
    /// Microseconds for the begin and end of a wave of blocks.
    pub(crate) wave_microseconds: f64,
}

/// A tile of the result, computed by one block. Every tile is a static and equal only to itself:
/// tiles are compared by address.
pub(crate) struct Tile {
    /// The name in messages.
    pub(crate) name: &'static str,
    pub(crate) engine: Engine,
    pub(crate) block: BlockShape,
    pub(crate) part: Part,
    pub(crate) stages: usize,
    /// Resident blocks of a multiprocessor.
    pub(crate) resident: usize,
    /// Blocks of a cluster, a power of two. Their tiles form [its shape](Tile::cluster_shape).
    /// Operands are loaded once for all blocks that share them.
    pub(crate) cluster: usize,
    pub(crate) purpose: Purpose,
    pub(crate) cost: Cost,
}

impl PartialEq for Tile {
    #[inline]
    fn eq(&self, other: &Tile) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Tile {}

impl Hash for Tile {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl fmt::Debug for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Tile {
    /// Returns whether it supports operands of any strides, element by element. Tensor cores need
    /// accesses of 16 bytes to be kept busy.
    pub(crate) fn supports_elements(&self) -> bool {
        !self.engine.uses_tensor_cores() || self.purpose == Purpose::UnalignedOperands
    }

    /// Returns whether the tile supports operands with these load modes. If not, one or both are
    /// copied first.
    pub(crate) fn supports(&self, loads: [LoadMode; 2]) -> bool {
        let is_supported = |load: LoadMode| !load.is_unaligned() || self.supports_elements();
        let has_k_major = loads.into_iter().any(LoadMode::is_k_major);
        loads.into_iter().all(is_supported)
            && (has_k_major || !self.engine.needs_one_k_major())
            && (loads[0].is_k_major() || !self.needs_k_major_a())
    }

    /// Returns whether a must be k-major: from any other a the kernel would load more rows than the
    /// tile has.
    pub(crate) fn needs_k_major_a(&self) -> bool {
        matches!(self.part, Part::SwappedWarpgroup { m, .. } if m < SLAB_LINES)
    }

    /// Returns whether the kernel swaps a and b, so that columns of the result are its rows. It
    /// does if b is the operand that must be read from registers.
    pub(crate) fn swaps_operands(&self, [a, b]: [LoadMode; 2]) -> bool {
        self.engine.needs_one_k_major() && a.is_k_major() && !b.is_k_major()
    }

    /// Returns whether it may load a as vectors along k.
    pub(crate) fn loads_a_along_k(&self) -> bool {
        self.part.m() * self.part.n() < 64
    }

    pub(crate) fn threads(&self) -> usize {
        let parts = (self.block.m / self.part.m()) * (self.block.n / self.part.n());
        match self.part {
            Part::Thread { .. } => parts,
            Part::Warp { .. } => parts * 32,
            Part::Warpgroup { .. } => 3 * WARPGROUP,
            Part::SwappedWarpgroup { .. } => WARPGROUP + 32,
        }
    }

    /// Returns the tiles of a cluster along m and along n: the same number along both, or twice as
    /// many along m.
    pub(crate) fn cluster_shape(&self) -> [usize; 2] {
        let along_n = 1 << (self.cluster.ilog2() / 2);
        [self.cluster / along_n, along_n]
    }

    /// Returns the blocks of a product of `tiles` tiles on a device with this number of
    /// multiprocessors. `tiles` is a multiple of the cluster's blocks.
    pub(crate) fn blocks(&self, tiles: usize, multiprocessors: usize) -> usize {
        match self.cluster {
            // Two multiprocessors are always adjacent, so every pair of blocks fits.
            1 | 2 => tiles.min(multiprocessors / self.cluster * self.cluster),
            // How many larger clusters fit at once depends on how many multiprocessors each group
            // of the device has. A block that starts only after others have ended should not have
            // to compute as many tiles as they did, so each block computes one tile.
            _ => tiles,
        }
    }

    /// Returns whether its two consumers have separate tiles and alternate.
    pub(crate) fn is_ping_pong(&self) -> bool {
        matches!(self.part, Part::Warpgroup { m, .. } if m == self.block.m)
    }

    /// Returns the bytes of a stage that is loaded by tensor maps, with all bf16 terms.
    pub(crate) fn stage_bytes(&self) -> usize {
        let BlockShape { m, n, k } = self.block;
        match self.engine {
            Engine::WgmmaBf16x6 => 3 * (m + n) * k * DType::BF16.size(),
            _ => (m + n) * LINE,
        }
    }

    /// Returns the bytes of dynamic shared memory: the stages, or the results that are staged for
    /// the store.
    pub(crate) fn shared_bytes(&self, dtype: DType, loads: [LoadMode; 2]) -> usize {
        let BlockShape { m, n, k } = self.block;
        let warps = self.threads() / 32;
        match self.part {
            Part::Warpgroup { .. } => {
                // For each consumer two slabs of 64 lines that are staged for the store; the
                // barriers, a notice of each consumer that it has split-K sums to add, and the
                // padding for alignment.
                let out = CONSUMERS * 2 * SLAB_LINES * LINE;
                let barriers = 2 * self.stages + 2 * CONSUMERS;
                self.stages * self.stage_bytes() + out + 8 * barriers + SWIZZLE_ALIGNMENT
            }
            // The stages, whose memory is reused for the accumulators, and two barriers of each
            // stage.
            Part::SwappedWarpgroup { .. } => self.stages * ((m + n) * LINE + 2 * 8) + SWIZZLE_ALIGNMENT,
            Part::Warp { m: warp_m, n: warp_n } => {
                // gemm/tf32.cu stores the rows of a lane together: four, or two.
                let rows_out = if dtype == DType::F32 && warp_m.is_multiple_of(32) { 32 } else { 16 };
                let operands = self.stages * (m + n) * k * dtype.size();
                operands.max(warps * rows_out * (warp_n + 8) * 4)
            }
            Part::Thread { n: thread_n, lanes_m, .. } => {
                let size = if dtype.size() == 8 { 8 } else { 4 };
                let pack = ACCESS / size;
                let of = |lines: usize, load: LoadMode| match load {
                    LoadMode::VectorK => lines * (k + pack),
                    _ => k * (lines + pack),
                };
                let stages = self.stages * (of(m, loads[0]) + of(n, loads[1]));
                let sums = warps * lanes_m * pack * (32 / lanes_m * thread_n + pack);
                stages.max(sums) * size
            }
        }
    }

    /// Returns the maximum of these bytes over all load modes.
    pub(crate) fn max_shared_bytes(&self, dtype: DType) -> usize {
        let [k_load, mn_load] = match self.engine.uses_tensor_cores() {
            true => [LoadMode::KMajor, LoadMode::MnMajor],
            false => [LoadMode::VectorK, LoadMode::VectorMn],
        };
        self.shared_bytes(dtype, [k_load; 2]).max(self.shared_bytes(dtype, [mn_load; 2]))
    }
}

/// How an operand is loaded into shared memory. A vector is 16 bytes; "k" is the inner axis, "mn"
/// the other one: m of a, n of b. The mode includes the alignment: vectors are for operands whose
/// lines begin at multiples of 16 bytes, elements for all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LoadMode {
    /// SIMT: vectors along mn.
    VectorMn,
    /// SIMT: vectors along k.
    VectorK,
    /// SIMT: elements that are contiguous along k.
    ElementsK,
    /// SIMT: elements with any strides.
    Elements,
    /// Tensor cores: vectors along k.
    KMajor,
    /// Tensor cores: vectors along mn.
    MnMajor,
    /// Tensor cores: unaligned elements along k.
    KMajorElements,
    /// Tensor cores: unaligned elements along mn.
    MnMajorElements,
}

impl LoadMode {
    pub(crate) const SIMT: [LoadMode; 4] =
        [LoadMode::VectorMn, LoadMode::VectorK, LoadMode::ElementsK, LoadMode::Elements];
    pub(crate) const TENSOR: [LoadMode; 4] =
        [LoadMode::KMajor, LoadMode::MnMajor, LoadMode::KMajorElements, LoadMode::MnMajorElements];

    /// Returns the modes of an engine.
    fn of(engine: Engine) -> &'static [LoadMode; 4] {
        if engine.uses_tensor_cores() { &LoadMode::TENSOR } else { &LoadMode::SIMT }
    }

    /// Returns whether tensor cores load it element by element.
    pub(crate) fn is_unaligned(self) -> bool {
        matches!(self, LoadMode::KMajorElements | LoadMode::MnMajorElements)
    }

    /// Returns whether tensor cores load it along k.
    pub(crate) fn is_k_major(self) -> bool {
        matches!(self, LoadMode::KMajor | LoadMode::KMajorElements)
    }

    /// Returns whether the SIMT kernel loads vectors.
    fn is_vector(self) -> bool {
        matches!(self, LoadMode::VectorMn | LoadMode::VectorK)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GemmVariant {
    pub(crate) tile: &'static Tile,
    pub(crate) a: LoadMode,
    pub(crate) b: LoadMode,
    /// The dtype of a and b.
    pub(crate) operands: DType,
    pub(crate) output: DType,
    pub(crate) epilogue: EpilogueVariant,
}

/// The kernels of each launch are looked up, so everything that distinguishes most variants is
/// hashed as one word, not field after field. Epilogues are only compared.
impl Hash for GemmVariant {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let tile = std::ptr::from_ref(self.tile) as usize;
        let fields = [self.a as usize, self.b as usize, self.operands as usize, self.output as usize];
        state.write_usize(fields.into_iter().fold(tile, |word, field| word.rotate_left(8) ^ field));
    }
}

impl GemmVariant {
    /// Returns the stages of the ring buffer: as many as the tile has, or as fit next to the
    /// epilogue's buffers.
    pub(crate) fn stages(&self) -> usize {
        let stage = self.tile.stage_bytes();
        let others = self.store_bytes() + 8 * MAX_BARRIERS + SWIZZLE_ALIGNMENT;
        match self.epilogue.stores_slabs() {
            true => self.tile.stages,
            false => self.tile.stages.min((MAX_SHARED - others) / stage),
        }
    }

    /// Returns the bytes of the buffers for the store, and of each consumer's current and next
    /// bias, as in `gemm/wgmma_tile.cuh`.
    fn store_bytes(&self) -> usize {
        let strips = CONSUMER_WARPS * self.epilogue.buffers() * STRIP_LINES * LINE;
        match self.epilogue {
            EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => CONSUMERS * 2 * SLAB_LINES * LINE,
            EpilogueVariant::ActivationGrad(_) => strips,
            EpilogueVariant::PreActivation(_) | EpilogueVariant::Residual => {
                strips + CONSUMERS * 2 * self.tile.block.n * self.output.size()
            }
        }
    }

    /// Returns whether the kernel [swaps a and b](Tile::swaps_operands).
    pub(crate) fn swaps_operands(&self) -> bool {
        self.tile.swaps_operands([self.a, self.b])
    }

    /// Returns whether tensor cores read an operand from registers, because it is not k-major.
    pub(crate) fn reads_registers(&self) -> bool {
        self.tile.engine.needs_one_k_major() && !(self.a.is_k_major() && self.b.is_k_major())
    }

    /// Returns the lines of a box that is stored, or read by the epilogue: a slab, half of one, or
    /// a warp's strip.
    pub(crate) fn box_lines(&self) -> usize {
        match self.epilogue.stores_slabs() {
            true if self.swaps_operands() => SLAB_LINES / 2,
            true => SLAB_LINES,
            false => STRIP_LINES,
        }
    }

    /// Returns the rows of the matrix of row sums of a, for `n` columns of the result: one for each
    /// tile in a row of tiles, for each split of k.
    pub(crate) fn row_sum_partials(&self, n: usize, splits: usize) -> usize {
        splits * n.div_ceil(self.tile.block.n)
    }

    /// Returns the rows of the matrix of column sums for `m` rows of the result: one for each warp
    /// that computes a part of a tile.
    pub(crate) fn column_sum_partials(&self, m: usize) -> usize {
        let warps = if self.tile.is_ping_pong() { CONSUMER_WARPS / CONSUMERS } else { CONSUMER_WARPS };
        m.div_ceil(self.tile.block.m) * warps
    }

    /// Returns the bytes of dynamic shared memory of a tile of warpgroups: the stages, the buffers
    /// for the store, the barriers and words for broadcasts, and the padding for alignment.
    pub(crate) fn shared_bytes(&self) -> usize {
        if let Part::SwappedWarpgroup { .. } = self.tile.part {
            return self.tile.shared_bytes(self.operands, [self.a, self.b]);
        }
        let stages = self.stages() * self.tile.stage_bytes();
        let barriers = 2 * self.stages() + 2 * CONSUMERS + CONSUMER_WARPS * self.epilogue.buffers();
        stages + self.store_bytes() + 8 * barriers + SWIZZLE_ALIGNMENT
    }
}

/// Returns whether there is a kernel that fuses the product with an epilogue beyond bias and relu.
pub(crate) fn is_fused(variant: &GemmVariant) -> bool {
    let GemmVariant { tile, a, b, operands, output, epilogue } = *variant;
    epilogue.tiles().contains(&tile)
        && operands.is_half()
        && epilogue.outputs(operands).contains(&output)
        && epilogue.loads().contains(&[a, b])
}

/// Returns whether there are kernels of a tile with these load modes of a and b.
pub(crate) fn has_variant(tile: &Tile, dtype: DType, [a, b]: [LoadMode; 2]) -> bool {
    let modes = LoadMode::of(tile.engine);
    if !modes.contains(&a) || !modes.contains(&b) {
        return false;
    }
    if tile.engine.uses_tensor_maps() {
        return tile.supports([a, b]);
    }
    if tile.engine.uses_tensor_cores() {
        return (a.is_unaligned() || b.is_unaligned()) == tile.supports_elements();
    }
    (a != LoadMode::VectorK || tile.loads_a_along_k())
        && !(dtype.is_int() && dtype.size() < 4 && (a.is_vector() || b.is_vector()))
}

pub(super) fn variants() -> Vec<GemmVariant> {
    let mut all = Vec::new();
    for input in MmaInput::all() {
        let operands = input.dtype();
        for &tile in tiles(input) {
            let modes = LoadMode::of(tile.engine);
            let pairs = modes.iter().flat_map(|&a| modes.iter().map(move |&b| [a, b]));
            for [a, b] in pairs.filter(|&pair| has_variant(tile, operands, pair)) {
                let epilogue = EpilogueVariant::BiasRelu;
                let variant = GemmVariant { tile, a, b, operands, output: operands, epilogue };
                all.push(variant);
                let is_widened = operands.is_half();
                all.extend(is_widened.then_some(GemmVariant { output: DType::F32, ..variant }));
            }
        }
    }
    all.extend(fused_variants());
    all.extend(bf16x6_variants());
    all
}

fn fused_variants() -> impl Iterator<Item = GemmVariant> {
    let epilogues = EpilogueVariant::all_fused()
        .flat_map(|epilogue| epilogue.tiles().iter().map(move |&tile| (epilogue, tile)));
    let of_dtypes = epilogues.flat_map(|of| [DType::F16, DType::BF16].map(|operands| (of, operands)));
    of_dtypes.flat_map(|((epilogue, tile), operands)| {
        epilogue.outputs(operands).into_iter().flat_map(move |output| {
            epilogue.loads().iter().map(move |&[a, b]| GemmVariant { tile, a, b, operands, output, epilogue })
        })
    })
}
