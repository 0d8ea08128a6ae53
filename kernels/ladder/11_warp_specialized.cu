// Ladder, 11: y = a b in bf16 by wgmma, a warpgroup that copies and two that multiply, persistent (sm_90a), for study (ladder/wgmma_tiles.cuh says what
// is computed and how shared memory is laid out).
//
// Idea: in 10_wgmma_tma.cu every thread waits at a barrier of the block for each stage, to let one of them start a copy. Here roles are split. The
// producer, one thread of a warpgroup of its own, fills stages as soon as they are empty; the consumers, two warpgroups, multiply stages as soon as
// they are full. Two barriers for each stage are all that they say to each other. The producer gives its registers to the consumers (setmaxnreg),
// which makes room for a tile of 128 x 256: 85 operations for each byte that is copied, not 64. And the grid is persistent: a block takes tile after
// tile, so that the copies of the next one run while this one's sums are stored.
//
//    producer    | fill 0 | fill 1 | fill 2 | .. waits for empty, has TMA fill, goes on to the next tile ..
//                     |  full      ^  empty
//                     v            |
//    consumer 0       | multiply 0 | multiply 1 | ..  | store its 64 rows of y |
//    consumer 1       | multiply 0 | multiply 1 | ..  | store its 64 rows of y |
//
// Limits: those of ladder/wgmma_tiles.cuh. CONSUMERS is 2.
//
// Launch: blocks of THREADS, as many as there are tiles or multiprocessors, SHARED bytes of shared memory.

#include "ladder/wgmma_tiles.cuh"
#include "ptx/registers.cuh"

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int BAND_HEIGHT = 8;
// 504 registers of three warpgroups' threads: 168 each at launch, which 65536 / THREADS rounds down to.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(CONSUMERS == 2, "registers are shared out among three warpgroups");

INLINE void produce(const MappedMatrices& p, u32 shared) {
    Ring ring(shared);
    u32 tiles = count_tiles<TILE_M>(p), count = stages_of(p);
#pragma unroll 1
    for (u32 number = blockIdx.x; number < tiles; number += gridDim.x) {
        Tile tile = tile_of<TILE_M, BAND_HEIGHT>(p, number);
#pragma unroll 1
        for (u32 stage = 0, k = 0; stage < count; ++stage, k += TILE_K, ring.advance()) {
            // In the first turn the stages are free: the parity is that of the phase before the first.
            mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
            mbarrier_arrive_expect_tx(ring.full(), STAGE);
            cp_async_bulk_tensor_2d(ring.a(), p.a, k, tile.row, ring.full());
#pragma unroll
            for (int slab = 0; slab < TILE_N / 64; ++slab)
                cp_async_bulk_tensor_2d(ring.b() + slab * SLAB, p.b, tile.column + slab * 64, k, ring.full());
        }
    }
}

// The stage may be filled anew. Of each warp, since each waits for its own products.
INLINE void release(u32 empty) {
    if (threadIdx.x % WARP == 0) mbarrier_arrive(empty);
}

INLINE void consume(const MappedMatrices& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    Sums sums;
    u32 tiles = count_tiles<TILE_M>(p), count = stages_of(p);
#pragma unroll 1
    for (u32 number = blockIdx.x; number < tiles; number += gridDim.x) {
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
        store_sums(p, shared, sums, tile_of<TILE_M, BAND_HEIGHT>(p, number), consumer);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) product(const __grid_constant__ MappedMatrices p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    if (threadIdx.x == 0) {
        Ring ring(shared);
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
            mbarrier_init(ring.full(), 1);
            mbarrier_init(ring.empty(), CONSUMERS * WARPGROUP / WARP);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    u32 warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) produce(p, shared);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(p, shared, warpgroup);
    }
}
