// Ladder, 10: y = a b in bf16 by wgmma, tiles by the tensor memory accelerator (sm_90a), for study (ladder/wgmma_tiles.cuh says what is computed and
// how shared memory is laid out).
//
// Idea: two instructions of Hopper. wgmma is a product of a warpgroup (four warps): 64 x TILE_N x 16 in one instruction, with both operands read from
// shared memory by the tensor cores themselves, so that no ldmatrix and no registers of operands stand between them; it runs on while the warps go on.
// The tensor memory accelerator (TMA) copies a whole box of a matrix by one instruction of one thread, in the swizzle that wgmma reads, with zeros
// beyond the matrix; no thread works out an address. Its bytes count at a barrier in shared memory, for which the others wait.
//
//    thread 0           TMA -> | stage 0 | stage 1 | stage 2 | -> wgmma, all 128 threads -> sums in registers -> y
//
//    for each stage:    wait until its bytes have come
//                       begin its products; wait for those of the stage before
//                       when all four warps have, thread 0 has the stage before filled anew
//
// Two blocks share a multiprocessor: one multiplies while the other one begins or ends its tile.
//
// Limits: those of ladder/wgmma_tiles.cuh. CONSUMERS is 1.
//
// Launch: blocks of 128, ceil(n / TILE_N) x ceil(m / TILE_M) of them, SHARED bytes of shared memory.

#ifdef HOST_SHIM
#define TILE_M 128
#define TILE_N 128
#define TILE_K 64
#define STAGES 3
#define CONSUMERS 1
#endif

#include "ladder/wgmma_tiles.cuh"

static_assert(CONSUMERS == 1, "the block is one warpgroup");

// Has TMA fill the ring's stage with the tiles at k.
INLINE void fill(const MappedMatrices& p, const Ring& ring, Tile tile, u32 k) {
    mbarrier_arrive_expect_tx(ring.full(), STAGE);
    cp_async_bulk_tensor_2d(ring.a(), p.a, k, tile.row, ring.full());
#pragma unroll
    for (int slab = 0; slab < TILE_N / 64; ++slab)
        cp_async_bulk_tensor_2d(ring.b() + slab * SLAB, p.b, tile.column + slab * 64, k, ring.full());
}

extern "C" __global__ void __launch_bounds__(WARPGROUP, 2) product(const __grid_constant__ MappedMatrices p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    bool leads = threadIdx.x == 0;
    Tile tile = {blockIdx.y * TILE_M, blockIdx.x * TILE_N};
    u32 count = stages_of(p);
    if (leads) {
        Ring ring(shared);
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) mbarrier_init(ring.full(), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    Ring filling(shared), reading(shared);
    u32 filled = 0;
    if (leads)
        for (; filled < STAGES && filled < count; ++filled, filling.advance()) fill(p, filling, tile, filled * TILE_K);
    __syncwarp();
    Sums sums;
#pragma unroll 1
    for (u32 stage = 0; stage < count; ++stage, reading.advance()) {
        mbarrier_wait_parity(reading.full(), reading.parity);
        multiply(sums, reading.a(), reading.b(), 0, stage > 0);
        // The products of the stage before are complete; those of this one run on.
        wgmma_wait_group<1>();
        if (stage == 0) continue;
        // Each warp waits for its own products alone: the stage is free when all have.
        __syncthreads();
        if (leads && filled < count) {
            fill(p, filling, tile, filled * TILE_K);
            ++filled;
            filling.advance();
        }
        __syncwarp();
    }
    await_sums(sums);
    store_sums(p, shared, sums, tile, 0);
}
