// GEMM ladder, file 10 (wgmma and TMA; kernel 11 of docs/kernels/gemm-ladder.md): y = a b in bf16
// by wgmma, with tiles loaded by TMA (sm_90a). A study kernel; operands, shapes and the
// shared-memory layout are in ladder/wgmma_tiles.cuh.
//
// Idea: two instructions of Hopper.
//
//   wgmma   multiplies 64 x TILE_N x 16 in one instruction of a warpgroup (four warps). The tensor
//           cores read both operands from shared memory themselves, without ldmatrix and operand
//           registers. It is asynchronous: the warps continue while it runs.
//   TMA     (Tensor Memory Accelerator) copies a box of a matrix by one instruction of one thread,
//           in the swizzle that wgmma reads, with zeros outside the matrix; no thread computes
//           element addresses. Its bytes count toward the phase of an mbarrier in shared memory,
//           on which the other threads wait.
//
//    thread 0   TMA -> | stage 0 | stage 1 | stage 2 | -> wgmma, all 128 threads -> registers -> y
//
//    for each stage:    wait on its full barrier
//                       issue its wgmmas; wait for those of the previous stage
//                       when all four warps have waited, thread 0 refills the previous stage
//
// Two blocks share a multiprocessor: one multiplies while the other is in its prologue or epilogue.
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of 128 threads, SHARED bytes of dynamic shared
// memory.
//
// Limits: those of ladder/wgmma_tiles.cuh. CONSUMERS is 1.

#ifdef HOST_SHIM
#define TILE_M 128
#define TILE_N 128
#define TILE_K 64
#define STAGES 3
#define CONSUMERS 1
#endif

#include "ladder/wgmma_tiles.cuh"

static_assert(CONSUMERS == 1, "the block is one warpgroup");

// Issues the TMA loads of the tiles at k into the ring's current stage.
INLINE void load_stage(const MappedMatrices& p, const PipelineState& ring, Tile tile, u32 k) {
    mbarrier_arrive_expect_tx(ring.full(), STAGE_BYTES);
    cp_async_bulk_tensor_2d(ring.a(), p.a, k, tile.row, ring.full());
#pragma unroll
    for (int slab = 0; slab < TILE_N / 64; ++slab)
        cp_async_bulk_tensor_2d(ring.b() + slab * SLAB_BYTES, p.b, tile.column + slab * 64, k, ring.full());
}

extern "C" __global__ void __launch_bounds__(WARPGROUP, 2) product(const __grid_constant__ MappedMatrices p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    bool is_leader = threadIdx.x == 0;
    Tile tile = {blockIdx.y * TILE_M, blockIdx.x * TILE_N};
    u32 count = k_tile_count(p);
    if (is_leader) {
        PipelineState ring(shared);
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) mbarrier_init(ring.full(), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    PipelineState pipe_write(shared), pipe_read(shared);
    u32 loads_issued = 0;
    if (is_leader)
        for (; loads_issued < STAGES && loads_issued < count; ++loads_issued, pipe_write.advance())
            load_stage(p, pipe_write, tile, loads_issued * TILE_K);
    __syncwarp();
    Accumulators accumulators;
#pragma unroll 1
    for (u32 stage = 0; stage < count; ++stage, pipe_read.advance()) {
        mbarrier_wait_parity(pipe_read.full(), pipe_read.parity);
        issue_wgmma(accumulators, pipe_read.a(), pipe_read.b(), 0, stage > 0);
        // The wgmmas of the previous stage are complete; those of this stage are in flight.
        wgmma_wait_group<1>();
        if (stage == 0) continue;
        // A warp waits only for its own wgmmas: the stage is empty when all warps have waited.
        __syncthreads();
        if (is_leader && loads_issued < count) {
            load_stage(p, pipe_write, tile, loads_issued * TILE_K);
            ++loads_issued;
            pipe_write.advance();
        }
        __syncwarp();
    }
    wait_accumulators(accumulators);
    store_accumulators(p, shared, accumulators, tile, 0);
}
