// Split-K GEMM of few tiles, of f16 or bf16 with WGMMA (sm_90a), accumulated in f32: the sum over k
// is split among the blocks of a cluster, which add their partial sums. For products of few rows,
// as in decoding, whose time is that of reading b once if enough of it is in flight; and for small
// products, in which each block loads less the more blocks there are. gemm.cuh states what is
// computed and the macros of the epilogue.
//
// The M of WGMMA (64) is columns of y, and its N is rows of y: y^T = b^T a^T. So a tile may have 16
// rows. The blocks of a cluster have the same tile of y and consecutive ranges of k:
//
//         m = 16, n = 4096: 64 tiles of 64 columns
//
//    k    +-------+-------+-------+--
//    |    | rank 0| rank 0| rank 0|        Each of the STAGES stages of a block's ring holds TILE_K
//    v    +-------+-------+-------+--      indices of k of both operands:
//         | rank 1| rank 1| rank 1|
//         +-------+-------+-------+--      producer (one thread):
//          cluster cluster cluster           a, b ---TMA---> [ stage | stage | .. ]
//                                          consumers (a warpgroup):
//                                            stage ---WGMMA---> accumulators in registers
//
// Then every block stores its partial sums to its shared memory. After the cluster's barrier, each
// block adds those of all ranks, for some of the tile's rows, in the order of the ranks, which is
// that of k. So the result depends only on shapes, values and the number of ranks, and there is no
// second kernel.
//
// A stage has 128 bytes of each line in the 128-byte swizzle, as in gemm/wgmma.cu: lines are rows
// of a and columns of b (A_K_MAJOR, B_K_MAJOR 1: K-major), or indices of k with 64 rows or columns
// each (0).
//
// Launch: tiles * ranks blocks of THREADS threads, in clusters of `ranks`, with SHARED bytes of
// shared memory.
//
// Limits: TILE_M is 16, 32 or 64, and 64 where A_K_MAJOR is 0; the contiguous axis and all lines
// begin at multiples of 16 bytes, those of y too; at most two batch axes that cannot be merged.
// Ranges of k (split_length) are multiples of TILE_K; there are up to 8 ranks.

#ifdef HOST_SHIM
#define TYPE f16
#define TILE_M 16
#define TILE_N 64
#define STAGES 4
#define BLOCKS_PER_SM 2
#define A_K_MAJOR 1
#define B_K_MAJOR 1
#endif
#define WGMMA_N TILE_M

#include "gemm/gemm.cuh"
#include "ptx/barrier.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma_ss.cuh"

constexpr int LINE_BYTES = 128;  // bytes of a line of a stage: the swizzle width
constexpr int TILE_K = LINE_BYTES / int(sizeof(Element));
constexpr int STEPS = LINE_BYTES / 32;  // a WGMMA takes 32 bytes along k
constexpr int CONSUMERS = 128;
constexpr int THREADS = CONSUMERS + WARP;
constexpr int STAGE_B_BYTES = TILE_N * LINE_BYTES;
constexpr int STAGE_BYTES = STAGE_B_BYTES + TILE_M * LINE_BYTES;
constexpr int BARRIERS_OFFSET = STAGES * STAGE_BYTES;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = BARRIERS_OFFSET + 8 * 2 * STAGES + SWIZZLE_ALIGNMENT

// A block's partial sums in shared memory are rows of y with a stride of ROW_STRIDE: the lanes
// of a store access every bank once.
constexpr int ROW_STRIDE = TILE_N + 4;
// A thread finishes one pack of columns, in one of every ROWS rows of its block.
constexpr int PACK = 4;
constexpr int ROWS = CONSUMERS * PACK / TILE_N;

static_assert(sizeof(Element) == 2, "operands of 16 bits");
static_assert(TILE_N == 64, "the rows of wgmma");
static_assert(TILE_M % 16 == 0 && (A_K_MAJOR ? TILE_M <= 64 : TILE_M == 64), "a slab of a");
static_assert(TILE_M * ROW_STRIDE * 4 <= BARRIERS_OFFSET, "partial sums overwrite the stages");

struct SplitKProduct {
    TensorMap a, b;  // axes: contiguous axis, line, inner and outer batch axis
    // The fields that the first loads need are adjacent: parameters are fetched from device memory,
    // 64 bytes at a time.
    TileGrid tiles;
    u32 k, split_length;
    // Bit 0: the operand has the inner batch axis, bit 1: the outer one.
    u32 a_batch_axes, b_batch_axes;
    u32 reads_b_once;
    GemmParams product;  // splits is 1: there are no partial sums in global memory
};

// A position in the ring of stages, each of which holds one k-tile of a and of b: the index of the
// next stage, and the parity of its mbarrier phase.
struct Ring {
    u32 shared;  // address of stage 0
    u32 stage = 0, parity = 0;

    INLINE Ring(u32 address) : shared(address) {}
    INLINE u32 address() const { return shared + stage * STAGE_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS_OFFSET + stage * 8; }
    INLINE u32 empty() const { return shared + BARRIERS_OFFSET + (STAGES + stage) * 8; }
    // The empty barrier of the previous stage.
    INLINE u32 empty_before() const { return empty() + (stage == 0 ? STAGES - 1 : -1) * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// What a thread block computes: a tile of y, over `k_tiles` stages from index `first_k` on.
struct Range {
    Tile tile;
    u32 first_k, k_tiles;

    INLINE Range(const SplitKProduct& p) : tile(p.tiles.tile(read_clusterid_x())) {
        tile.row *= TILE_M;
        tile.column *= TILE_N;
        first_k = read_cluster_ctarank() * p.split_length;
        k_tiles = first_k < p.k ? (min(p.k - first_k, p.split_length) + TILE_K - 1) / TILE_K : 0;
    }
};

INLINE void init_barriers(u32 shared) {
    Ring ring(shared);
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
        mbarrier_init(ring.full(), 1);
        mbarrier_init(ring.empty(), CONSUMERS / WARP);
    }
    fence_mbarrier_init();
}

// Producer loop: loads the stages of the block's range. If b is read only once, it is evicted first
// from the L2 cache, so that it does not displace other data: with that hint the product is faster
// between kernels whose results are in the cache (docs/kernels/matmul.md, What was tried).
INLINE void producer_loop(const SplitKProduct& p, u32 shared, const Range& range) {
    Ring ring(shared);
    u64 policy = p.reads_b_once ? createpolicy_evict_first() : createpolicy_evict_normal();
    i32 outer_batch = divide(range.tile.matrix, p.tiles.inner_batch),
        inner_batch = range.tile.matrix - outer_batch * p.tiles.inner_batch.divisor;
    i32 a_inner = p.a_batch_axes & 1 ? inner_batch : 0, a_outer = p.a_batch_axes & 2 ? outer_batch : 0;
    i32 b_inner = p.b_batch_axes & 1 ? inner_batch : 0, b_outer = p.b_batch_axes & 2 ? outer_batch : 0;
    u32 row = range.tile.row, column = range.tile.column, k = range.first_k;
#pragma unroll 1
    for (u32 k_tile = 0; k_tile < range.k_tiles; ++k_tile, k += TILE_K, ring.advance()) {
        // In the first round the stages are free: the parity is that of the phase before the first.
        mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
        mbarrier_arrive_expect_tx(ring.full(), STAGE_BYTES);
        u32 to = ring.address();
        cp_async_bulk_tensor_4d_cache_hint(to, p.b, B_K_MAJOR ? k : column, B_K_MAJOR ? column : k, b_inner, b_outer,
                                           ring.full(), policy);
        cp_async_bulk_tensor_4d(to + STAGE_B_BYTES, p.a, A_K_MAJOR ? k : row, A_K_MAJOR ? row : k, a_inner, a_outer,
                                ring.full());
    }
}

typedef float Sums[TILE_M / 8][4];

// Issues the WGMMAs of one stage.
INLINE void multiply(Sums& sums, u32 stage, bool accumulate) {
    u64 b = smem_descriptor(stage, STAGE_B_BYTES, 8 * LINE_BYTES),
        a = smem_descriptor(stage + STAGE_B_BYTES, STAGE_B_BYTES, 8 * LINE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        wgmma_ss_wide<!B_K_MAJOR, !A_K_MAJOR>(sums, smem_descriptor_at(b, step * (B_K_MAJOR ? 32 : 16 * LINE_BYTES)),
                                              smem_descriptor_at(a, step * (A_K_MAJOR ? 32 : 16 * LINE_BYTES)),
                                              accumulate || step > 0, Element());
    wgmma_commit_group();
}

INLINE void mainloop(Sums& sums, u32 shared, u32 k_tiles) {
    Ring ring(shared);
#pragma unroll
    for (int j = 0; j < TILE_M / 2; ++j) sums[j / 4][j % 4] = 0;
#pragma unroll 1
    for (u32 k_tile = 0; k_tile < k_tiles; ++k_tile) {
        mbarrier_wait_parity(ring.full(), ring.parity);
        multiply(sums, ring.address(), k_tile > 0);
        // The WGMMAs of the previous stage are complete; those of this one stay in flight.
        wgmma_wait_group<1>();
        if (k_tile > 0 && threadIdx.x % WARP == 0) mbarrier_arrive(ring.empty_before());
        ring.advance();
    }
    wgmma_wait_group<0>();
#pragma unroll
    for (int j = 0; j < TILE_M / 2; ++j) wgmma_fence_operand(sums[j / 4][j % 4]);
}

// Stores the partial sums to shared memory as rows of y. Lane l of warp w has columns 16 w + l / 4
// and 16 w + l / 4 + 8 of y, and of each 8 rows 2 (l % 4) and the next.
INLINE void store_sums(const Sums& sums, u32 shared) {
    u32 lane = threadIdx.x % WARP;
    u32 to = shared + (lane % 4 * 2 * ROW_STRIDE + threadIdx.x / WARP * 16 + lane / 4) * 4;
#pragma unroll
    for (int j = 0; j < TILE_M / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            st_shared(to + ((j * 8 + e % 2) * ROW_STRIDE + e / 2 * 8) * 4, __float_as_uint(sums[j][e]));
}

typedef Pack<Output, PACK> Outputs;

// The bias of a thread's columns, loaded before the main loop.
INLINE Outputs bias_of(const GemmParams& p, u32 column) {
    Outputs bias = {};
    if (p.bias && column < p.n)
#pragma unroll
        for (int e = 0; e < PACK; ++e) bias.of[e] = p.bias[(column + e) * p.bias_stride];
    return bias;
}
INLINE u32 column_of_pack() { return threadIdx.x % (TILE_N / PACK) * PACK; }

// Adds and stores the rows of the tile that the block finishes, each element in the order of the
// ranks.
INLINE void finish_rows(const GemmParams& p, u32 shared, const Tile& tile, const Outputs& bias) {
    u32 ranks = read_cluster_nctarank(), column = tile.column + column_of_pack();
    if (column >= p.n) return;
    i64 at[3];
    locate_matrix(p, tile.matrix, at);
    Output* y = p.y + at[0] + column;
#pragma unroll 4
    for (u32 row = read_cluster_ctarank() * ROWS + threadIdx.x / (TILE_N / PACK); row < TILE_M; row += ranks * ROWS) {
        u32 from = shared + (row * ROW_STRIDE + column_of_pack()) * 4;
        float sums[PACK] = {};
#pragma unroll 2
        for (u32 rank = 0; rank < ranks; ++rank) {
            float part[PACK];
            ld_shared_cluster_v4(part, mapa_shared_cluster(from, rank));
#pragma unroll
            for (int e = 0; e < PACK; ++e) sums[e] += part[e];
        }
        Outputs pack;
#pragma unroll
        for (int e = 0; e < PACK; ++e) pack.of[e] = apply_epilogue(p, sums[e], bias.of[e]);
        if (tile.row + row < p.m) store<Output, PACK>(y + (tile.row + row) * p.y_row, pack);
    }
}

// Synchronizes the blocks of the cluster: what they stored before is visible after it.
INLINE void cluster_sync() {
    __syncwarp();
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) product(const __grid_constant__ SplitKProduct p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
    // From lane 0, so that the compiler knows that it is warp-uniform.
    bool consumes = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0) < CONSUMERS / WARP;
    bool leads = threadIdx.x == CONSUMERS;
    if (leads) {
        prefetch_tensormap(p.b);
        prefetch_tensormap(p.a);
        init_barriers(shared);
    }
    __syncthreads();
    wait_for_earlier_launches();
    Range range(p);
    if (leads) producer_loop(p, shared, range);
    Outputs bias;
    if (consumes) {
        bias = bias_of(p.product, range.tile.column + column_of_pack());
        Sums sums;
        mainloop(sums, shared, range.k_tiles);
        // All warps have read the stages that the partial sums overwrite.
        barrier_sync(1, CONSUMERS);
        store_sums(sums, shared);
    }
    cluster_sync();
    if (consumes) finish_rows(p.product, shared, range.tile, bias);
    // No block ends while another block still reads from its shared memory.
    if (read_cluster_nctarank() > 1) cluster_sync();
}
