// GEMM ladder, file 11 (warp-specialized, persistent; kernel 12 of docs/kernels/gemm-ladder.md):
// y = a b in bf16 by wgmma, one producer warpgroup and two consumer warpgroups (sm_90a). A study
// kernel; operands, shapes and the shared-memory layout are in ladder/wgmma_tiles.cuh.
//
// Idea: in 10_wgmma_tma.cu all threads stop at a block barrier in each stage, so that one of them
// can issue a copy. Here the roles are split. The producer, one thread of a separate warpgroup,
// fills stages as soon as they are empty. The consumers, two warpgroups, multiply stages as soon as
// they are full. They synchronize only through two mbarriers per stage, full and empty. The
// producer warpgroup releases registers to the consumers (setmaxnreg), which makes room for a tile
// of 128 x 256: 85 operations per byte that is copied, not 64. The grid is persistent: a block
// computes one tile after another, so that the loads of the next tile run during the epilogue of
// the current one.
//
//    producer    | fill 0 | fill 1 | fill 2 | .. wait on empty, issue TMA, next tile ..
//                     |  full      ^  empty
//                     v            |
//    consumer 0       | multiply 0 | multiply 1 | ..  | store its 64 rows of y |
//    consumer 1       | multiply 0 | multiply 1 | ..  | store its 64 rows of y |
//
// Launch: min(tiles, multiprocessors) blocks of THREADS, SHARED bytes of dynamic shared memory.
//
// Limits: those of ladder/wgmma_tiles.cuh. CONSUMERS is 2.

#include "ladder/wgmma_tiles.cuh"
#include "ptx/registers.cuh"

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int BAND_HEIGHT = 8;
// At launch a thread has 168 registers, 65536 / THREADS rounded down to a multiple of 8. The three
// warpgroups redistribute 3 * 168 = 504 registers: 24 + 2 * 240.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(CONSUMERS == 2, "registers are distributed among three warpgroups");

INLINE void produce(const MappedMatrices& p, u32 shared) {
    PipelineState ring(shared);
    u32 tiles = count_tiles<TILE_M>(p), count = k_tile_count(p);
#pragma unroll 1
    for (u32 tile_index = blockIdx.x; tile_index < tiles; tile_index += gridDim.x) {
        Tile tile = tile_of<TILE_M, BAND_HEIGHT>(p, tile_index);
#pragma unroll 1
        for (u32 stage = 0, k = 0; stage < count; ++stage, k += TILE_K, ring.advance()) {
            // In the first pass over the ring all stages are empty: this is the parity of the phase
            // before the first, so the wait returns at once.
            mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
            mbarrier_arrive_expect_tx(ring.full(), STAGE_BYTES);
            cp_async_bulk_tensor_2d(ring.a(), p.a, k, tile.row, ring.full());
#pragma unroll
            for (int slab = 0; slab < TILE_N / 64; ++slab)
                cp_async_bulk_tensor_2d(ring.b() + slab * SLAB_BYTES, p.b, tile.column + slab * 64, k, ring.full());
        }
    }
}

// Releases a stage to the producer. One lane of each warp arrives, since a warp waits only for its
// own wgmmas.
INLINE void release(u32 empty) {
    if (threadIdx.x % WARP == 0) mbarrier_arrive(empty);
}

INLINE void consume(const MappedMatrices& p, u32 shared, u32 consumer) {
    PipelineState ring(shared);
    Accumulators accumulators;
    u32 tiles = count_tiles<TILE_M>(p), count = k_tile_count(p);
#pragma unroll 1
    for (u32 tile_index = blockIdx.x; tile_index < tiles; tile_index += gridDim.x) {
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
        store_accumulators(p, shared, accumulators, tile_of<TILE_M, BAND_HEIGHT>(p, tile_index), consumer);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) product(const __grid_constant__ MappedMatrices p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    if (threadIdx.x == 0) {
        PipelineState ring(shared);
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
