//! The predicted time of a product with a tile. The costs of tiles and these constants are fitted
//! together (`benches/peers/fit_tiles.py`, whose `tile_times.py` predicts as this file does).

use super::Sizes;
use crate::gpu::Gpu;
use crate::variant::gemm::{EpilogueVariant, Tile};
use ternion_core::DType;

/// Microseconds that the second kernel of split-K, which adds the partial sums, takes in addition
/// to its memory traffic.
const SPLIT_MICROSECONDS: f64 = 1.27;
/// As [`SPLIT_MICROSECONDS`], if the product kernel adds the partial sums itself.
const ARRIVAL_MICROSECONDS: f64 = 2.28;
/// The additional time per split: the splits of a consumer's part of a tile are counted in one
/// word, to which they add one after another.
const ARRIVAL_MICROSECONDS_OF_PART: f64 = 0.155;
/// Microseconds that the blocks of a cluster take to wait for each other and to add their partial
/// sums. The fit gives 1.03, with which the benchmark's product of 16 x 4096 x 4096 would be split
/// although that is slower (22.3 instead of 21.6 microseconds).
const CLUSTER_SPLIT_MICROSECONDS: f64 = 1.9;
/// The additional time per block of the cluster.
const CLUSTER_SPLIT_MICROSECONDS_OF_PART: f64 = 0.179;
/// Bytes of partial sums that are written and read again per microsecond: most stay in the cache.
const SUMMED_BYTES_PER_MICROSECOND: f64 = 3.35e6;
/// Bytes of device memory that a product on tensor cores reads and writes per microsecond by tensor
/// maps, including what a cold cache writes back. The fit to an H100 gives 2.85e6. With 4e6 the
/// choice loses less time on an H200, whose memory is faster, and no more on average on an H100.
const MAPPED_BYTES_PER_MICROSECOND: f64 = 4e6;
/// As [`MAPPED_BYTES_PER_MICROSECOND`], for copies without tensor maps.
const LOADED_BYTES_PER_MICROSECOND: f64 = 2.99e6;
/// Bytes that the blocks of a product read from the L2 cache per microsecond.
const CACHED_BYTES_PER_MICROSECOND: f64 = 1.8e7;
/// The factor of cache traffic for an operand whose lines are not aligned to 128 bytes: each 128
/// bytes that are loaded are then in two cache lines.
const STRADDLING_FACTOR: f64 = 2.3;

impl Tile {
    /// Returns the predicted microseconds of a product with this number of splits.
    pub(super) fn predicted(&self, sizes: &Sizes, splits: usize, multiprocessors: usize) -> f64 {
        let (cost, tiles) = (&self.cost, self.count(sizes) * splits);
        let tile = cost.nanoseconds_per_k * sizes.k.div_ceil(splits) as f64 / 1000.0;
        // With larger clusters ten of eleven multiprocessors have blocks: an H100's groups of 16
        // and 18 multiprocessors run four clusters of four each.
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
        // Multiplications wait for memory, and loads wait for multiplications: when both are near
        // their limits, each delays the other.
        let sums = ((full * self.resident) as f64 + last) * tile;
        let sums = sums.hypot(self.traffic_microseconds(sizes, splits));
        let waves = tiles.div_ceil(slots) as f64 * cost.wave_microseconds;
        cost.start_microseconds + sums + waves + self.split_k_microseconds(sizes, splits)
    }

    /// Returns the microseconds of reading or writing the tensors of a fused epilogue if no
    /// products run at the same time, because all blocks reach the epilogue together.
    pub(super) fn epilogue_microseconds(&self, sizes: &Sizes, epilogue: EpilogueVariant) -> f64 {
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

    /// Returns the microseconds of adding the partial sums.
    fn split_k_microseconds(&self, sizes: &Sizes, splits: usize) -> f64 {
        if splits <= 1 {
            return 0.0;
        }
        if self.engine.reduces_in_cluster() {
            return CLUSTER_SPLIT_MICROSECONDS + splits as f64 * CLUSTER_SPLIT_MICROSECONDS_OF_PART;
        }
        let overhead = match self.reduces_splits(self.count(sizes)) {
            true => ARRIVAL_MICROSECONDS + splits as f64 * ARRIVAL_MICROSECONDS_OF_PART,
            false => SPLIT_MICROSECONDS,
        };
        let traffic = (sizes.outputs() * (splits + 1) * DType::F32.size()) as f64;
        overhead + traffic / SUMMED_BYTES_PER_MICROSECOND
    }

    /// Returns whether the kernel adds the partial sums of this many tiles itself. It does on
    /// warpgroups, if there is a word for every consumer's part of a tile.
    pub(super) fn reduces_splits(&self, tiles: usize) -> bool {
        let consumers = if self.is_ping_pong() { 1 } else { 2 };
        let reduces = self.engine.uses_tensor_maps() && !self.engine.reduces_in_cluster();
        reduces && tiles * consumers <= Gpu::ARRIVAL_COUNTERS
    }

    /// Returns the microseconds in which a product on tensor cores reads its operands and writes
    /// its result, or its partial sums. The times of device memory and of the cache delay each
    /// other.
    fn traffic_microseconds(&self, sizes: &Sizes, splits: usize) -> f64 {
        let [operand, output] = sizes.element_bytes;
        let stores_partials = splits > 1 && output > 0 && !self.engine.reduces_in_cluster();
        let stored = if stores_partials { DType::F32.size() * splits } else { output };
        let read = (sizes.m + sizes.n) * sizes.k * sizes.matrices * operand;
        let bandwidth = match self.engine.uses_tensor_maps() {
            true => MAPPED_BYTES_PER_MICROSECOND,
            false => LOADED_BYTES_PER_MICROSECOND,
        };
        let memory = (read + sizes.outputs() * stored) as f64 / bandwidth;
        memory.hypot(self.cached_bytes(sizes) / CACHED_BYTES_PER_MICROSECOND)
    }

    /// Returns the bytes that all blocks read from the L2 cache: every row of a once for each
    /// column of clusters, and every column of b once for each row of clusters. An operand that
    /// straddles cache lines counts more.
    fn cached_bytes(&self, sizes: &Sizes) -> f64 {
        let [rows, columns] = sizes.extents(self);
        let mut factors =
            sizes.unaligned_to_l2_line.map(|straddles| if straddles { STRADDLING_FACTOR } else { 1.0 });
        if sizes.swaps_operands(self) {
            factors.reverse();
        }
        let [along_m, along_n] = self.cluster_shape();
        let (cluster_rows, cluster_columns) =
            (rows.div_ceil(self.block.m * along_m), columns.div_ceil(self.block.n * along_n));
        let lines =
            (rows * cluster_columns) as f64 * factors[0] + (columns * cluster_rows) as f64 * factors[1];
        lines * (sizes.k * sizes.matrices * sizes.element_bytes[0]) as f64
    }
}
