//! The time that a product is predicted to take by a tile. Its costs and these constants are fitted together (`benches/peers/fit_tiles.py`, whose
//! `tile_times.py` predicts as this file does).

use super::Sizes;
use crate::gpu::Gpu;
use crate::variant::gemm::{EpilogueVariant, Tile};
use ternion_core::DType;

/// Microseconds that the second kernel takes beside its memory traffic, which adds up the parts of
/// sums.
const SPLIT_MICROSECONDS: f64 = 1.27;
/// The same where the product itself adds them up, and what each part takes beside: those of a unit arrive at one word.
const ARRIVAL_MICROSECONDS: f64 = 2.28;
const ARRIVAL_MICROSECONDS_OF_PART: f64 = 0.155;
/// Microseconds that blocks of a cluster take to wait for each other and to add up theirs, and what each takes beside. The fit has 1.03 for the former,
/// by which the product of 16 x 4096 x 4096 of the benchmark is cut in vain (22.3 beside 21.6 microseconds).
const CLUSTER_SPLIT_MICROSECONDS: f64 = 1.9;
const CLUSTER_SPLIT_MICROSECONDS_OF_PART: f64 = 0.179;
/// Bytes of parts of sums that are written and read again in a microsecond: most stay in the cache.
const SUMMED_BYTES_PER_MICROSECOND: f64 = 3.35e6;
/// Bytes of device memory that a product on tensor cores reads and writes in a microsecond, by tensor maps and by other copies, with what a cold cache writes
/// back beside. The fit to an H100 has 2.85e6 for the former; by 4e6 the choice loses less on an H200, whose memory is faster, and in the mean no more on an H100.
const MAPPED_BYTES_PER_MICROSECOND: f64 = 4e6;
const LOADED_BYTES_PER_MICROSECOND: f64 = 2.99e6;
/// Bytes that its blocks read of the L2 cache in a microsecond.
const CACHED_BYTES_PER_MICROSECOND: f64 = 1.8e7;
/// How much more of the cache an operand takes up whose lines begin beside multiples of 128 bytes: pieces of 128 bytes are then parts of two lines of the cache.
const STRADDLING_FACTOR: f64 = 2.3;

impl Tile {
    /// Microseconds that a product takes with so many parts of its sums.
    pub(super) fn predicted(&self, sizes: &Sizes, splits: usize, multiprocessors: usize) -> f64 {
        let (cost, tiles) = (&self.cost, self.count(sizes) * splits);
        let tile = cost.nanoseconds_per_k * sizes.k.div_ceil(splits) as f64 / 1000.0;
        // Of larger clusters ten in eleven multiprocessors have blocks: an H100's groups of 16 and 18 have four clusters of four each.
        let multiprocessors = match self.cluster {
            1 | 2 => multiprocessors,
            cluster => (multiprocessors * 10 / 11 / cluster).max(1) * cluster,
        };
        let slots = multiprocessors * self.resident;
        let (full, rest) = (tiles / slots, tiles % slots);
        let last = match rest {
            0 => 0.0,
            _ => cost.lone_block_factor.max(rest.div_ceil(multiprocessors) as f64),
        };
        // Who multiplies waits for who reads and the other way around: near its limit, each delays the other.
        let sums = ((full * self.resident) as f64 + last) * tile;
        let sums = sums.hypot(self.traffic_microseconds(sizes, splits));
        let waves = tiles.div_ceil(slots) as f64 * cost.wave_microseconds;
        cost.start_microseconds + sums + waves + self.parts_microseconds(sizes, splits)
    }

    /// Microseconds that the tensors take which a fused epilogue reads or writes, where no products run meanwhile: all blocks come to it at the same time.
    pub(super) fn beside_microseconds(&self, sizes: &Sizes, epilogue: EpilogueVariant) -> f64 {
        let element = match epilogue {
            EpilogueVariant::Residual => DType::F32.size(),
            EpilogueVariant::PreActivation(_) | EpilogueVariant::ActivationGrad(_) => sizes.element_bytes[0],
            EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => return 0.0,
        };
        match self.is_ping_pong() {
            true => 0.0,
            false => (2 * sizes.outputs() * element) as f64 / MAPPED_BYTES_PER_MICROSECOND,
        }
    }

    /// Microseconds to add up the parts of sums.
    fn parts_microseconds(&self, sizes: &Sizes, splits: usize) -> f64 {
        if splits <= 1 {
            return 0.0;
        }
        if self.engine.adds_up_in_clusters() {
            return CLUSTER_SPLIT_MICROSECONDS + splits as f64 * CLUSTER_SPLIT_MICROSECONDS_OF_PART;
        }
        let beside = match self.adds_up_parts(self.count(sizes)) {
            true => ARRIVAL_MICROSECONDS + splits as f64 * ARRIVAL_MICROSECONDS_OF_PART,
            false => SPLIT_MICROSECONDS,
        };
        let traffic = (sizes.outputs() * (splits + 1) * DType::F32.size()) as f64;
        beside + traffic / SUMMED_BYTES_PER_MICROSECOND
    }

    /// Whether the kernel adds up the parts of so many tiles by itself: it does on warpgroups, where every consumer's share of a tile has a word.
    pub(super) fn adds_up_parts(&self, tiles: usize) -> bool {
        let consumers = if self.is_ping_pong() { 1 } else { 2 };
        let adds_up = self.engine.uses_tensor_maps() && !self.engine.adds_up_in_clusters();
        adds_up && tiles * consumers <= Gpu::COUNTS
    }

    /// Microseconds in which a product on tensor cores reads its operands and writes its result, or its partial sums; those of device memory and of the cache
    /// delay each other.
    fn traffic_microseconds(&self, sizes: &Sizes, splits: usize) -> f64 {
        let [operand, output] = sizes.element_bytes;
        let stores_parts = splits > 1 && output > 0 && !self.engine.adds_up_in_clusters();
        let stored = if stores_parts { DType::F32.size() * splits } else { output };
        let read = (sizes.m + sizes.n) * sizes.k * sizes.matrices * operand;
        let bandwidth = match self.engine.uses_tensor_maps() {
            true => MAPPED_BYTES_PER_MICROSECOND,
            false => LOADED_BYTES_PER_MICROSECOND,
        };
        let memory = (read + sizes.outputs() * stored) as f64 / bandwidth;
        memory.hypot(self.cached_bytes(sizes) / CACHED_BYTES_PER_MICROSECOND)
    }

    /// Bytes that all blocks read of the L2 cache: every row of a once for each column of clusters, every column of b once for each row of them. One that
    /// straddles counts more.
    fn cached_bytes(&self, sizes: &Sizes) -> f64 {
        let [rows, columns] = sizes.extents(self);
        let mut factors = sizes.straddles.map(|straddles| if straddles { STRADDLING_FACTOR } else { 1.0 });
        if sizes.are_exchanged(self) {
            factors.reverse();
        }
        let [down, across] = self.cluster_shape();
        let (high, wide) = (rows.div_ceil(self.block.m * down), columns.div_ceil(self.block.n * across));
        let lines = (rows * wide) as f64 * factors[0] + (columns * high) as f64 * factors[1];
        lines * (sizes.k * sizes.matrices * sizes.element_bytes[0]) as f64
    }
}
