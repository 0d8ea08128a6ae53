// Half-precision tiles in shared memory and their products by warpgroups (wgmma), for the f16 and
// bf16 attention kernels on sm_90a. The counterpart of mma.cuh, for widths that are multiples
// of 64.
//
// A tile is split into slabs of 64 columns, with rows of 128 bytes. Chunk c (16 bytes) of row r of
// a slab is stored at chunk index c ^ (r % 8): wgmma's 128-byte swizzle. Four warps multiply
// together. Each has 16 rows of the result, with the lane layout of mma.sync.

#pragma once

#include "attention/half.cuh"
#include "ptx/ldmatrix.cuh"
#if HEAD_DIM > 128 || VALUE_DIM > 128
#define WGMMA_WIDE 1
#endif
#include "ptx/wgmma.cuh"

static_assert(HEAD_DIM % 64 == 0 && VALUE_DIM % 64 == 0, "widths must be multiples of a slab's 64 columns");

// Rows that are multiplied together: either all take part in a product, or none.
INLINE constexpr int rows_per_product(int) { return 64; }

// Products run asynchronously until the matching wait.
#define ASYNC_PRODUCTS 1

template <int ROWS, int WIDTH> struct Tile {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int SLAB_BYTES = ROWS * 128;
    INLINE static u32 at(u32 row, u32 chunk) { return chunk / 8 * SLAB_BYTES + row * 128 + (((chunk ^ row) & 7) << 4); }
};

// Waits for this thread's copies. After the next barrier, wgmma can read what copies and stores
// have written to shared memory.
INLINE void wait_for_copies() {
    cp_async_wait_group<0>();
    fence_proxy_async_shared();
}

// The synchronization of products in forward.cu and grad.cu. In mma.cuh these are empty.
INLINE void warpgroup_arrive() { wgmma_fence(); }
INLINE void warpgroup_commit_batch() { wgmma_commit_group(); }
template <int PENDING> INLINE void warpgroup_wait() { wgmma_wait_group<PENDING>(); }
// Keeps the compiler from moving accumulators across a wait.
template <int COLUMN_BLOCKS> INLINE void fence_accumulator(float (&c)[1][COLUMN_BLOCKS][4]) {
#pragma unroll
    for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) wgmma_fence_operand(c[0][j][e]);
}

// Issues c = a b^T over WIDTH columns, with the 64-row group of tile a (A_ROWS rows) that contains
// `row`, and all COLUMN_BLOCKS * 8 rows of tile b.
template <int A_ROWS, int WIDTH, int COLUMN_BLOCKS>
INLINE void gemm_nt(float (&c)[1][COLUMN_BLOCKS][4], u32 a, u32 row, u32 b) {
    row = row / 64 * 64;
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
        wgmma_ss(c[0],
                 smem_descriptor(a + step / 4 * Tile<A_ROWS, WIDTH>::SLAB_BYTES + row * 128 + step % 4 * 32, 16, 1024),
                 smem_descriptor(b + step / 4 * Tile<COLUMN_BLOCKS * 8, WIDTH>::SLAB_BYTES + step % 4 * 32, 16, 1024),
                 step > 0, Element());
}

// Loads a warp's 16 rows of a tile as left operands.
template <int A_ROWS, int WIDTH> INLINE void load_rows(u32 (&loaded)[WIDTH / 16][4], u32 a, u32 row) {
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
        ldmatrix_x4(loaded[step], a + Tile<A_ROWS, WIDTH>::at(row + lane % 16, step * 2 + lane / 16));
}
// Issues c = a b^T with a from load_rows.
template <int WIDTH, int COLUMN_BLOCKS>
INLINE void gemm_nt_rs(float (&c)[1][COLUMN_BLOCKS][4], const u32 (&loaded)[WIDTH / 16][4], u32 b) {
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
        wgmma_rs(c[0], loaded[step],
                 smem_descriptor(b + step / 4 * Tile<COLUMN_BLOCKS * 8, WIDTH>::SLAB_BYTES + step % 4 * 32, 16, 1024),
                 step > 0, Element());
}

// Issues c += a b: b is a tile of STEPS * 16 rows and WIDTH columns.
template <int WIDTH, int STEPS>
INLINE void accumulate_gemm_nn(float (&c)[1][WIDTH / 8][4], const u32 (&a)[1][STEPS][4], u32 b) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        wgmma_rs_trans(c[0], a[0][step],
                       smem_descriptor(b + step * 16 * 128, Tile<STEPS * 16, WIDTH>::SLAB_BYTES, 1024), Element());
}
