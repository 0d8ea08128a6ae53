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
use super::dtypes::{ACCESS, numbers};
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
    /// `wgmma` of f16 or bf16, operands by the tensor memory accelerator.
    Wgmma,
    /// The same of few tiles: blocks of a cluster add up parts of the sums.
    WgmmaSplitK,
    /// As [`Engine::Wgmma`], of f32 rounded to TF32.
    WgmmaTf32,
    /// The same of f32 in parts of bf16, of which six pairs are multiplied.
    WgmmaBf16x6,
}

impl Engine {
    /// The devices that have its instructions.
    pub(crate) fn architectures(self) -> Architectures {
        match self {
            Engine::Simt | Engine::Mma | Engine::Tf32 => Architectures::ALL,
            Engine::Wgmma | Engine::WgmmaSplitK | Engine::WgmmaTf32 | Engine::WgmmaBf16x6 => {
                Architectures::Exact((9, 0))
            }
        }
    }

    /// Whether operands are copied by the tensor memory accelerator.
    pub(crate) fn uses_tensor_maps(self) -> bool {
        self.architectures() == Architectures::Exact((9, 0))
    }

    /// Whether parts of sums are added up by the blocks of a cluster, of which each has one, and no second kernel.
    pub(crate) fn adds_up_in_clusters(self) -> bool {
        self == Engine::WgmmaSplitK
    }

    /// Whether one operand at least is runs along k: tensor cores read the other one from registers, where it is turned.
    pub(crate) fn needs_one_k_major(self) -> bool {
        self == Engine::WgmmaTf32
    }

    pub(crate) fn uses_tensor_cores(self) -> bool {
        self != Engine::Simt
    }

    /// The dtype that it multiplies for operands of `dtype`.
    pub(crate) fn operands(self, dtype: DType) -> DType {
        if self == Engine::WgmmaBf16x6 { DType::BF16 } else { dtype }
    }
}

/// What is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MmaInput {
    /// Elements of a dtype as they are.
    Of(DType),
    /// Those of f32, rounded to TF32.
    Tf32,
    /// Those of f32 as they are, or in parts of bf16 where [tiles for these](BF16X6_TILES) are faster.
    Bf16x6,
}

impl MmaInput {
    /// The dtype of the operands.
    pub(crate) fn dtype(self) -> DType {
        match self {
            MmaInput::Of(dtype) => dtype,
            MmaInput::Tf32 | MmaInput::Bf16x6 => DType::F32,
        }
    }

    /// Whether its tiles are of engines that [use tensor cores](Engine::uses_tensor_cores). There may be several of
    /// such, for different architectures.
    pub(crate) fn uses_tensor_cores(self) -> bool {
        match self {
            MmaInput::Tf32 => true,
            MmaInput::Bf16x6 => false,
            MmaInput::Of(dtype) => dtype.is_half(),
        }
    }

    /// Everything that is multiplied; for [`MmaInput::Bf16x6`] that is f32.
    pub(crate) fn all() -> impl Iterator<Item = MmaInput> {
        numbers().map(MmaInput::Of).chain([MmaInput::Tf32])
    }
}

/// Threads of a warpgroup.
const WARPGROUP: usize = 128;
/// Bytes of a line of a stage that is read by wgmma, and what stages begin at multiples of.
const LINE: usize = 128;
const SWIZZLE_ALIGNMENT: usize = 1024;
/// Lines of a slab that a consumer stores, and of a strip that one of its warps does.
const SLAB_LINES: usize = 64;
const STRIP_LINES: usize = 16;
/// Warpgroups that multiply, and their warps.
const CONSUMERS: usize = 2;
const CONSUMER_WARPS: usize = 8;
/// More barriers than any tile has.
const MOST_BARRIERS: usize = 64;
/// Bytes of shared memory that a block may have where there are tiles of warpgroups.
const MOST_SHARED: usize = 227 << 10;

/// Sizes of a tile: rows and columns of the result, and the length of the inner axis that a stage
/// holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockShape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// What one thread, or one warp, computes of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// SIMT: elements of a thread, and lanes of a warp along m.
    Thread { m: usize, n: usize, lanes_m: usize },
    /// Tensor cores: elements of a warp.
    Warp { m: usize, n: usize },
    /// Tensor cores: elements of a warpgroup. Where two have a tile together, each has half of its rows; where each has
    /// a tile of its own, they multiply in turn (the ping-pong schedule).
    Warpgroup { m: usize, n: usize },
    /// Tensor cores: elements of the one warpgroup of a block, whose rows are columns of the result. A warp beside it loads.
    TurnedWarpgroup { m: usize, n: usize },
}

impl Part {
    pub(crate) fn m(self) -> usize {
        match self {
            Part::Thread { m, .. }
            | Part::Warp { m, .. }
            | Part::Warpgroup { m, .. }
            | Part::TurnedWarpgroup { m, .. } => m,
        }
    }

    pub(crate) fn n(self) -> usize {
        match self {
            Part::Thread { n, .. }
            | Part::Warp { n, .. }
            | Part::Warpgroup { n, .. }
            | Part::TurnedWarpgroup { n, .. } => n,
        }
    }
}

/// The products that a tile is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Any,
    /// Those of at most as many rows as the tile has.
    FewRows,
    /// Those with an operand that tensor cores can only get element by element.
    UnalignedOperands,
}

/// What a tile costs on an H100: fitted by `benches/peers/fit_tiles.py` to measurements of products of random sizes with a cold L2 cache
/// (`docs/kernels/matmul.md` has how much the choice by these numbers loses). Those of f64, and of lines that begin anywhere, are of an
/// earlier fit, the latter with the start of the tile of the same size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cost {
    /// Nanoseconds that a full multiprocessor needs for a tile, per inner element.
    pub(crate) nanoseconds_per_k: f64,
    /// Microseconds from a launch to the first products, and from the last ones to its end.
    pub(crate) start_microseconds: f64,
    /// How much longer a block takes that has a multiprocessor alone.
    pub(crate) lone_block_factor: f64,
    /// Microseconds that a wave of blocks takes to begin and end.
    pub(crate) wave_microseconds: f64,
}

/// A tile of the result, as one block computes it. Every tile is a static, and is itself alone:
/// tiles are compared by address.
pub(crate) struct Tile {
    /// For messages.
    pub(crate) name: &'static str,
    pub(crate) engine: Engine,
    pub(crate) block: BlockShape,
    pub(crate) part: Part,
    pub(crate) stages: usize,
    /// Blocks on a multiprocessor.
    pub(crate) resident: usize,
    /// Blocks of a cluster, a power of two: tiles of [its shape](Tile::cluster_shape), whose operands are loaded once for all that share them.
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
    /// Whether it takes operands of any strides, element by element. Tensor cores ask for 16 bytes
    /// at a time where they are to be kept busy.
    pub(crate) fn takes_elements(&self) -> bool {
        !self.engine.uses_tensor_cores() || self.purpose == Purpose::UnalignedOperands
    }

    /// Whether tensor cores take operands that are loaded so, of which else one or both are copied first.
    pub(crate) fn takes(&self, loads: [LoadMode; 2]) -> bool {
        let is_taken = |load: LoadMode| !load.is_unaligned() || self.takes_elements();
        let has_k_major = loads.into_iter().any(LoadMode::is_k_major);
        loads.into_iter().all(is_taken)
            && (has_k_major || !self.engine.needs_one_k_major())
            && (loads[0].is_k_major() || !self.needs_rows_along_k())
    }

    /// Whether a is runs along k: of one across k it would load more rows than it has.
    pub(crate) fn needs_rows_along_k(&self) -> bool {
        matches!(self.part, Part::TurnedWarpgroup { m, .. } if m < SLAB_LINES)
    }

    /// Whether the kernel has a and b change places, and so columns of the result are its rows: of two operands that are loaded so
    /// the one that is read from registers is b.
    pub(crate) fn is_turned(&self, [a, b]: [LoadMode; 2]) -> bool {
        self.engine.needs_one_k_major() && a.is_k_major() && !b.is_k_major()
    }

    /// Whether its copies of a may be vectors along the inner axis.
    pub(crate) fn loads_a_along_k(&self) -> bool {
        self.part.m() * self.part.n() < 64
    }

    pub(crate) fn threads(&self) -> usize {
        let parts = (self.block.m / self.part.m()) * (self.block.n / self.part.n());
        match self.part {
            Part::Thread { .. } => parts,
            Part::Warp { .. } => parts * 32,
            Part::Warpgroup { .. } => 3 * WARPGROUP,
            Part::TurnedWarpgroup { .. } => WARPGROUP + 32,
        }
    }

    /// Tiles of a cluster below each other and side by side: as many of both, or twice as many below each other.
    pub(crate) fn cluster_shape(&self) -> [usize; 2] {
        let across = 1 << (self.cluster.ilog2() / 2);
        [self.cluster / across, across]
    }

    /// Blocks of a product of `tiles` tiles on a device of so many multiprocessors; `tiles` are those of whole clusters.
    pub(crate) fn blocks(&self, tiles: usize, multiprocessors: usize) -> usize {
        match self.cluster {
            // Two multiprocessors are neighbors always: every pair of blocks fits.
            1 | 2 => tiles.min(multiprocessors / self.cluster * self.cluster),
            // How many larger clusters fit at once depends on how many multiprocessors each of the device's groups has. A block that waits until others
            // have ended should not have as many tiles before it as those: each has one.
            _ => tiles,
        }
    }

    /// Whether its two consumers have tiles of their own, in turn.
    pub(crate) fn is_ping_pong(&self) -> bool {
        matches!(self.part, Part::Warpgroup { m, .. } if m == self.block.m)
    }

    /// Bytes of a stage of what is loaded by tensor maps, in all parts.
    pub(crate) fn stage_bytes(&self) -> usize {
        let BlockShape { m, n, k } = self.block;
        match self.engine {
            Engine::WgmmaBf16x6 => 3 * (m + n) * k * DType::BF16.size(),
            _ => (m + n) * LINE,
        }
    }

    /// Bytes of dynamic shared memory: the stages, or the sums on their way out.
    pub(crate) fn shared(&self, dtype: DType, loads: [LoadMode; 2]) -> usize {
        let BlockShape { m, n, k } = self.block;
        let warps = self.threads() / 32;
        match self.part {
            Part::Warpgroup { .. } => {
                // Two slabs of 64 lines on the way out of each consumer, the barriers, the notices, and what alignment takes.
                let out = CONSUMERS * 2 * SLAB_LINES * LINE;
                let barriers = 2 * self.stages + 2 * CONSUMERS;
                self.stages * self.stage_bytes() + out + 8 * barriers + SWIZZLE_ALIGNMENT
            }
            // The stages, whose room the sums take, and two barriers of each.
            Part::TurnedWarpgroup { .. } => self.stages * ((m + n) * LINE + 2 * 8) + SWIZZLE_ALIGNMENT,
            Part::Warp { m: warp_m, n: warp_n } => {
                // gemm/tf32.cu lays out rows of a lane together: four, or two.
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

    /// The most bytes that it takes, however its operands are loaded.
    pub(crate) fn most_shared(&self, dtype: DType) -> usize {
        let [one, other] = match self.engine.uses_tensor_cores() {
            true => [LoadMode::KMajor, LoadMode::MnMajor],
            false => [LoadMode::VectorK, LoadMode::VectorMn],
        };
        self.shared(dtype, [one; 2]).max(self.shared(dtype, [other; 2]))
    }
}

/// How an operand is loaded into shared memory. A vector is 16 bytes; "k" is the inner axis, "mn"
/// the other one: m of a, n of b. How an operand is aligned is part of this: vectors are for those
/// whose lines begin at multiples of 16 bytes, elements for all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LoadMode {
    /// SIMT: vectors along mn.
    VectorMn,
    /// SIMT: vectors along k.
    VectorK,
    /// SIMT: elements that are runs along k.
    ElementsK,
    /// SIMT: elements, anywhere.
    Elements,
    /// Tensor cores: vectors along k.
    KMajor,
    /// Tensor cores: vectors along mn.
    MnMajor,
    /// Tensor cores: elements, anywhere, along k.
    KMajorElements,
    /// Tensor cores: elements, anywhere, along mn.
    MnMajorElements,
}

impl LoadMode {
    pub(crate) const SIMT: [LoadMode; 4] =
        [LoadMode::VectorMn, LoadMode::VectorK, LoadMode::ElementsK, LoadMode::Elements];
    pub(crate) const TENSOR: [LoadMode; 4] =
        [LoadMode::KMajor, LoadMode::MnMajor, LoadMode::KMajorElements, LoadMode::MnMajorElements];

    /// Those of an engine.
    fn of(engine: Engine) -> &'static [LoadMode; 4] {
        if engine.uses_tensor_cores() { &LoadMode::TENSOR } else { &LoadMode::SIMT }
    }

    /// Whether tensor cores get it element by element.
    pub(crate) fn is_unaligned(self) -> bool {
        matches!(self, LoadMode::KMajorElements | LoadMode::MnMajorElements)
    }

    /// Whether tensor cores get it along k.
    pub(crate) fn is_k_major(self) -> bool {
        matches!(self, LoadMode::KMajor | LoadMode::KMajorElements)
    }

    /// Whether the SIMT kernel loads vectors.
    fn is_vector(self) -> bool {
        matches!(self, LoadMode::VectorMn | LoadMode::VectorK)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GemmVariant {
    pub(crate) tile: &'static Tile,
    pub(crate) a: LoadMode,
    pub(crate) b: LoadMode,
    /// Of a and b.
    pub(crate) operands: DType,
    pub(crate) output: DType,
    pub(crate) epilogue: EpilogueVariant,
}

impl GemmVariant {
    /// Buffers of the ring: as many as the tile has, or as leave room for what follows the sum.
    pub(crate) fn stages(&self) -> usize {
        let stage = self.tile.stage_bytes();
        let others = self.bytes_out() + 8 * MOST_BARRIERS + SWIZZLE_ALIGNMENT;
        match self.epilogue.stores_slabs() {
            true => self.tile.stages,
            false => self.tile.stages.min((MOST_SHARED - others) / stage),
        }
    }

    /// Bytes of what is on its way out, and of each consumer's bias and its next one beside it, as in `gemm/wgmma_tile.cuh`.
    fn bytes_out(&self) -> usize {
        let strips = CONSUMER_WARPS * self.epilogue.buffers() * STRIP_LINES * LINE;
        match self.epilogue {
            EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => CONSUMERS * 2 * SLAB_LINES * LINE,
            EpilogueVariant::ActivationGrad(_) => strips,
            EpilogueVariant::PreActivation(_) | EpilogueVariant::Residual => {
                strips + CONSUMERS * 2 * self.tile.block.n * self.output.size()
            }
        }
    }

    /// Whether the kernel [has a and b change places](Tile::is_turned).
    pub(crate) fn is_turned(&self) -> bool {
        self.tile.is_turned([self.a, self.b])
    }

    /// Whether tensor cores get an operand from registers, since it is no run along k.
    pub(crate) fn reads_registers(&self) -> bool {
        self.tile.engine.needs_one_k_major() && !(self.a.is_k_major() && self.b.is_k_major())
    }

    /// Lines of a box that is stored, or read beside: a slab, a half of one, or a warp's strip.
    pub(crate) fn box_lines(&self) -> usize {
        match self.epilogue.stores_slabs() {
            true if self.is_turned() => SLAB_LINES / 2,
            true => SLAB_LINES,
            false => STRIP_LINES,
        }
    }

    /// Rows of the matrix of sums of rows of a, for so many columns of the result: one for each tile of a row of tiles, in each part.
    pub(crate) fn parts_of_row_sums(&self, n: usize, splits: usize) -> usize {
        splits * n.div_ceil(self.tile.block.n)
    }

    /// Rows of the matrix of column sums for so many rows of the result: one for each warp that has a part of a tile.
    pub(crate) fn rows_of_column_sums(&self, m: usize) -> usize {
        let warps = if self.tile.is_ping_pong() { CONSUMER_WARPS / CONSUMERS } else { CONSUMER_WARPS };
        m.div_ceil(self.tile.block.m) * warps
    }

    /// Bytes of dynamic shared memory of a tile of warpgroups: the stages, what is on its way out, the barriers and notices, and what alignment takes.
    pub(crate) fn shared(&self) -> usize {
        if let Part::TurnedWarpgroup { .. } = self.tile.part {
            return self.tile.shared(self.operands, [self.a, self.b]);
        }
        let stages = self.stages() * self.tile.stage_bytes();
        let barriers = 2 * self.stages() + 2 * CONSUMERS + CONSUMER_WARPS * self.epilogue.buffers();
        stages + self.bytes_out() + 8 * barriers + SWIZZLE_ALIGNMENT
    }
}

/// Whether a product is fused with what follows it, beside bias and relu.
pub(crate) fn is_fused(variant: &GemmVariant) -> bool {
    let GemmVariant { tile, a, b, operands, output, epilogue } = *variant;
    epilogue.tiles().contains(&tile)
        && operands.is_half()
        && epilogue.outputs(operands).contains(&output)
        && epilogue.loads().contains(&[a, b])
}

/// Whether there are kernels of a tile that load a and b so.
pub(crate) fn has_variant(tile: &Tile, dtype: DType, [a, b]: [LoadMode; 2]) -> bool {
    let modes = LoadMode::of(tile.engine);
    if !modes.contains(&a) || !modes.contains(&b) {
        return false;
    }
    if tile.engine.uses_tensor_maps() {
        return tile.takes([a, b]);
    }
    if tile.engine.uses_tensor_cores() {
        return (a.is_unaligned() || b.is_unaligned()) == tile.takes_elements();
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
