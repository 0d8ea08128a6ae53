// Ladder, 12: y = a b in bf16 by wgmma, two blocks that share their tiles of b, persistent (sm_90a), for study (ladder/wgmma_tiles.cuh says what is
// computed and how shared memory is laid out).
//
// Idea: tiles of y below each other need the same columns of b. Two blocks of a cluster, which run at the same time on neighboring multiprocessors,
// take two such tiles; each has TMA bring one half of the tile of b into the shared memory of both (multicast). So b comes from the L2 cache once for
// both, and a block asks it for 16 + 16 KiB for each stage instead of 16 + 32.
//
//                              b: TILE_K x TILE_N
//                            +---------+---------+
//                            | loaded  | loaded  |        each half is written into the shared memory of block 0 and block 1
//                            | by 0    | by 1    |
//                            +---------+---------+
//        a of block 0        |                   |
//        a of block 1        |     y of 0        |
//                            +-------------------+
//                            |     y of 1        |
//                            +-------------------+
//
// The barriers of 11_warp_specialized.cu, for two blocks:
//
//   full    of each block: its producer announces all the bytes that come into its own stage, whoever loads them: a, and both halves of b. The half
//           of the other block may come before they are announced; the phase does not end before this block's producer has arrived.
//   empty   of each block: arrivals of the consumers of both blocks, since what its producer loads is written into the stages of both.
//
// Both blocks take the same steps: tile number i of a cluster is a pair of tiles, and the lower one may be beyond y (zeros are multiplied, nothing is
// stored). No block begins before both have their barriers, and none ends while the other one still writes to it or arrives at its barriers.
//
// Limits: those of ladder/wgmma_tiles.cuh. CONSUMERS is 2.
//
// Launch: clusters of 2 blocks of THREADS, as many clusters as there are pairs of tiles, or half of the multiprocessors; SHARED bytes of shared memory.

#include "ladder/wgmma_tiles.cuh"
#include "ptx/cluster.cuh"
#include "ptx/registers.cuh"

constexpr int CLUSTER = 2;
constexpr u32 ALL_BLOCKS = (1u << CLUSTER) - 1;
constexpr int PAIR_M = CLUSTER * TILE_M;
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int BAND_HEIGHT = 4;
// 504 registers of three warpgroups' threads: 168 each at launch, which 65536 / THREADS rounds down to.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(CONSUMERS == 2, "registers are shared out among three warpgroups");

constexpr int SLABS = TILE_N / 64 / CLUSTER;  // slabs of b that a block loads
static_assert(SLABS * CLUSTER * 64 == TILE_N, "blocks load equal parts of b");

// Where this block stands: blocks of a cluster are neighbors in the grid, which is a row.
struct Cluster {
    u32 rank = read_cluster_ctarank();
    u32 number = blockIdx.x / CLUSTER, count = gridDim.x / CLUSTER;

    // The block's tile of pair number `pair`.
    INLINE Tile tile(const MappedMatrices& p, u32 pair) const {
        Tile tile = tile_of<PAIR_M, BAND_HEIGHT>(p, pair);
        return Tile{tile.row + rank * TILE_M, tile.column};
    }
};

INLINE void produce(const MappedMatrices& p, u32 shared) {
    Ring ring(shared);
    Cluster cluster;
    u32 pairs = count_tiles<PAIR_M>(p), count = stages_of(p);
    u32 first = cluster.rank * SLABS;
#pragma unroll 1
    for (u32 pair = cluster.number; pair < pairs; pair += cluster.count) {
        Tile tile = cluster.tile(p, pair);
#pragma unroll 1
        for (u32 stage = 0, k = 0; stage < count; ++stage, k += TILE_K, ring.advance()) {
            // The stage is free in both blocks. In the first turn it is: the parity is that of the phase before the first.
            mbarrier_wait_parity_cluster(ring.empty(), ring.parity ^ 1);
            mbarrier_arrive_expect_tx(ring.full(), STAGE);
            cp_async_bulk_tensor_2d(ring.a(), p.a, k, tile.row, ring.full());
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab)
                cp_async_bulk_tensor_2d_multicast(ring.b() + (first + slab) * SLAB, p.b,
                                                  tile.column + (first + slab) * 64, k, ring.full(), ALL_BLOCKS);
        }
    }
}

// The stage may be filled anew, by either block. Of each warp, since each waits for its own products: lane r arrives at the barrier of block r.
INLINE void release(u32 empty) {
    u32 lane = threadIdx.x % WARP;
    if (lane < CLUSTER) mbarrier_arrive_cluster(mapa_shared_cluster(empty, lane));
}

INLINE void consume(const MappedMatrices& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    Cluster cluster;
    Sums sums;
    u32 pairs = count_tiles<PAIR_M>(p), count = stages_of(p);
#pragma unroll 1
    for (u32 pair = cluster.number; pair < pairs; pair += cluster.count) {
        u32 before = 0;
#pragma unroll 1
        for (u32 stage = 0; stage < count; ++stage, ring.advance()) {
            mbarrier_wait_parity(ring.full(), ring.parity);
            multiply(sums, ring.a(), ring.b(), consumer * PART_M, stage > 0);
            // The products of the stage before are complete; those of this one run on.
            wgmma_wait_group<1>();
            if (stage > 0) release(before);
            before = ring.empty();
        }
        await_sums(sums);
        release(before);
        store_sums(p, shared, sums, cluster.tile(p, pair), consumer);
    }
}

// All threads of both blocks, as whole warps.
INLINE void meet() {
    __syncwarp();
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) product(const __grid_constant__ MappedMatrices p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    if (threadIdx.x == 0) {
        Ring ring(shared);
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
            mbarrier_init(ring.full(), 1);
            mbarrier_init(ring.empty(), CLUSTER * CONSUMERS * WARPGROUP / WARP);
        }
        fence_mbarrier_init();
    }
    meet();
    u32 warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) produce(p, shared);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(p, shared, warpgroup);
    }
    meet();
}
