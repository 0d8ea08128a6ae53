// GEMM ladder, file 12 (multicast; kernel 13 of docs/kernels/gemm-ladder.md): y = a b in bf16 by
// wgmma, a cluster of two blocks that share their tiles of b, persistent (sm_90a). A study kernel;
// operands, shapes and the shared-memory layout are in ladder/wgmma_tiles.cuh.
//
// Idea: vertically adjacent tiles of y need the same columns of b. The two blocks of a cluster run
// at the same time on neighboring multiprocessors and compute two such tiles. Each block loads one
// half of the tile of b by TMA multicast into the shared memory of both. So b is read from the L2
// cache once for both blocks, and a block requests 16 + 16 KiB per stage instead of 16 + 32.
//
//                              b: TILE_K x TILE_N
//                            +---------+---------+
//                            | loaded  | loaded  |        each half is written to the shared memory
//                            | by 0    | by 1    |        of block 0 and of block 1
//                            +---------+---------+
//        a of block 0        |     y of 0        |
//                            +-------------------+
//        a of block 1        |     y of 1        |
//                            +-------------------+
//
// The barriers of 11_warp_specialized.cu, for two blocks:
//
//   full    of each block: its producer announces (expect_tx) all bytes that arrive in its own
//           stage, from either block: a, and both halves of b. The half of the other block may
//           arrive before it is announced; the phase cannot complete before this block's producer
//           has arrived.
//   empty   of each block: the consumers of both blocks arrive, since what its producer loads is
//           written to the stages of both.
//
// Both blocks run the same number of steps. A cluster computes one pair of tiles after another; the
// lower tile of a pair may be outside y (zeros are multiplied, nothing is stored). No block starts
// before the barriers of both are initialized, and none exits while the other may still write to
// its shared memory or arrive at its barriers.
//
// Launch: min(pairs of tiles, multiprocessors / 2) clusters, at least 1, of 2 blocks of THREADS,
// SHARED bytes of dynamic shared memory.
//
// Limits: those of ladder/wgmma_tiles.cuh. CONSUMERS is 2.

#include "ladder/wgmma_tiles.cuh"
#include "ptx/cluster.cuh"
#include "ptx/registers.cuh"

constexpr int CLUSTER = 2;
constexpr u32 MULTICAST_MASK = (1u << CLUSTER) - 1;
constexpr int PAIR_M = CLUSTER * TILE_M;
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int BAND_HEIGHT = 4;
// At launch a thread has 168 registers, 65536 / THREADS rounded down to a multiple of 8. The three
// warpgroups redistribute 3 * 168 = 504 registers: 24 + 2 * 240.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(CONSUMERS == 2, "registers are distributed among three warpgroups");

constexpr int SLABS = TILE_N / 64 / CLUSTER;  // slabs of b per block
static_assert(SLABS * CLUSTER * 64 == TILE_N, "blocks load equal parts of b");

// This block's rank in its cluster, the cluster's index, and the number of clusters. The grid is
// one-dimensional, and the blocks of a cluster are consecutive.
struct Cluster {
    u32 rank = read_cluster_ctarank();
    u32 index = blockIdx.x / CLUSTER, count = gridDim.x / CLUSTER;

    // Returns this block's tile of the pair with index `pair`.
    INLINE Tile tile(const MappedMatrices& p, u32 pair) const {
        Tile tile = tile_of<PAIR_M, BAND_HEIGHT>(p, pair);
        return Tile{tile.row + rank * TILE_M, tile.column};
    }
};

INLINE void produce(const MappedMatrices& p, u32 shared) {
    PipelineState ring(shared);
    Cluster cluster;
    u32 pairs = count_tiles<PAIR_M>(p), count = k_tile_count(p);
    u32 first = cluster.rank * SLABS;
#pragma unroll 1
    for (u32 pair = cluster.index; pair < pairs; pair += cluster.count) {
        Tile tile = cluster.tile(p, pair);
#pragma unroll 1
        for (u32 stage = 0, k = 0; stage < count; ++stage, k += TILE_K, ring.advance()) {
            // The stage is empty in both blocks. In the first pass over the ring all stages are
            // empty: this is the parity of the phase before the first, so the wait returns at once.
            mbarrier_wait_parity_cluster(ring.empty(), ring.parity ^ 1);
            mbarrier_arrive_expect_tx(ring.full(), STAGE_BYTES);
            cp_async_bulk_tensor_2d(ring.a(), p.a, k, tile.row, ring.full());
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab)
                cp_async_bulk_tensor_2d_multicast(ring.b() + (first + slab) * SLAB_BYTES, p.b,
                                                  tile.column + (first + slab) * 64, k, ring.full(), MULTICAST_MASK);
        }
    }
}

// Releases a stage to the producers of both blocks. In each warp, since a warp waits only for its
// own wgmmas, lane r arrives at the empty barrier of block r.
INLINE void release(u32 empty) {
    u32 lane = threadIdx.x % WARP;
    if (lane < CLUSTER) mbarrier_arrive_cluster(mapa_shared_cluster(empty, lane));
}

INLINE void consume(const MappedMatrices& p, u32 shared, u32 consumer) {
    PipelineState ring(shared);
    Cluster cluster;
    Accumulators accumulators;
    u32 pairs = count_tiles<PAIR_M>(p), count = k_tile_count(p);
#pragma unroll 1
    for (u32 pair = cluster.index; pair < pairs; pair += cluster.count) {
        u32 previous_empty = 0;
#pragma unroll 1
        for (u32 stage = 0; stage < count; ++stage, ring.advance()) {
            mbarrier_wait_parity(ring.full(), ring.parity);
            issue_wgmma(accumulators, ring.a(), ring.b(), consumer * CONSUMER_M, stage > 0);
            // The wgmmas of the previous stage are complete; those of this stage are in flight.
            wgmma_wait_group<1>();
            if (stage > 0) release(previous_empty);
            previous_empty = ring.empty();
        }
        wait_accumulators(accumulators);
        release(previous_empty);
        store_accumulators(p, shared, accumulators, cluster.tile(p, pair), consumer);
    }
}

// Synchronizes all threads of the cluster. The warps reconverge first.
INLINE void sync() {
    __syncwarp();
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) product(const __grid_constant__ MappedMatrices p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    if (threadIdx.x == 0) {
        PipelineState ring(shared);
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
            mbarrier_init(ring.full(), 1);
            mbarrier_init(ring.empty(), CLUSTER * CONSUMERS * WARPGROUP / WARP);
        }
        fence_mbarrier_init();
    }
    sync();
    u32 warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) produce(p, shared);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(p, shared, warpgroup);
    }
    sync();
}
