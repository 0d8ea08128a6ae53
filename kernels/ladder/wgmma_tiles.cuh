// Shared by 10_wgmma_tma.cu, 11_warp_specialized.cu and 12_multicast.cu: the layout of tiles of a
// and b in shared memory, the wgmmas of a stage, and the epilogue.
//
//   y = a b        a [m, k], b [k, n], y [m, n], bf16, row-major
//
// Accumulators are f32, rounded once.
//
// A stage has TILE_K = 64 of k, in slabs of 64 lines of 128 bytes, as TMA writes a box. With the
// 128-byte swizzle, chunk c (16 bytes) of line r is stored at c ^ (r % 8):
//
//   a   a line is a row of a, contiguous along k:         TILE_M lines              (K-major)
//   b   a line is one k, contiguous along n:              TILE_N / 64 slabs of 64   (MN-major)
//
// Shared memory, from an address that is a multiple of 1024 on:
//
//   | stage 0: a, b | stage 1 | .. | staging: 2 KiB per consumer warp | barriers: full[], empty[] |
//
// full[] and empty[] have one mbarrier per stage.
//
// Macros: TILE_M, TILE_N, TILE_K, STAGES, and CONSUMERS, the number of consumer warpgroups, each of
// which computes TILE_M / CONSUMERS rows of the tile.
//
// Limits: n and k are multiples of 8, and a, b and y are aligned to 16 bytes. TMA reads elements
// outside a and b as 0; stores outside y are skipped.

#pragma once

#if defined(HOST_SHIM) && !defined(TILE_M)
#define TILE_M 128
#define TILE_N 256
#define TILE_K 64
#define STAGES 4
#define CONSUMERS 2
#endif
#define WGMMA_N TILE_N

#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma_ss.cuh"

constexpr int LINE_BYTES = 128;              // bytes
constexpr int SLAB_BYTES = 64 * LINE_BYTES;  // bytes of 64 lines
constexpr int WARPGROUP = 128;
constexpr int CONSUMER_M = TILE_M / CONSUMERS;  // rows per consumer
constexpr int ATOMS_M = CONSUMER_M / 64;        // 64-row wgmma tiles per consumer
constexpr int STAGE_A_BYTES = TILE_M * LINE_BYTES;
constexpr int STAGE_BYTES = STAGE_A_BYTES + TILE_N * LINE_BYTES;
constexpr int STAGING_BYTES = 16 * LINE_BYTES;  // a warp's epilogue buffer: 16 rows of 64 columns
constexpr int STAGING_OFFSET = STAGES * STAGE_BYTES;
constexpr int BARRIERS_OFFSET = STAGING_OFFSET + CONSUMERS * WARPGROUP / WARP * STAGING_BYTES;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = BARRIERS_OFFSET + 16 * STAGES + SWIZZLE_ALIGNMENT

static_assert(TILE_K * sizeof(bf16) == LINE_BYTES, "a line of a is one swizzle period");
static_assert(CONSUMER_M % 64 == 0 && TILE_N % 64 == 0, "rows and columns are multiples of a slab");

struct MappedMatrices {
    TensorMap a;  // axes k, m; boxes of 64 x TILE_M
    TensorMap b;  // axes n, k; boxes of 64 x 64
    bf16* y;
    u32 m, n, k;  // at least 1; m n is below 2^31
};

// Returns the aligned start of the tiles in dynamic shared memory, which may start anywhere.
INLINE u32 aligned_shared(const u8* memory) {
    return (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
}

INLINE u32 k_tile_count(const MappedMatrices& p) { return (p.k + TILE_K - 1) / TILE_K; }

// ---------------------------------------------------------------- ring buffer

// A position in the ring buffer: the current stage and the parity of its mbarrier phase. full: the
// bytes of the stage have arrived; empty: no consumer still reads it.
struct PipelineState {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE PipelineState(u32 first) : shared(first) {}
    INLINE u32 a() const { return shared + stage * STAGE_BYTES; }
    INLINE u32 b() const { return a() + STAGE_A_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS_OFFSET + stage * 8; }
    INLINE u32 empty() const { return shared + BARRIERS_OFFSET + (STAGES + stage) * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// ---------------------------------------------------------------- tile scheduler

struct Tile {
    u32 row, column;
};

// Returns the number of tiles of ROWS x TILE_N in y.
template <int ROWS> INLINE u32 count_tiles(const MappedMatrices& p) {
    return (p.m + ROWS - 1) / ROWS * ((p.n + TILE_N - 1) / TILE_N);
}
// Returns the tile with index `tile_index`. Tiles are ordered in bands of BAND_ROWS rows of tiles,
// column by column within a band, so that tiles in flight at the same time share rows of a and
// columns of b in the L2 cache:
//
//     0 3 6 9       (BAND_ROWS = 3)
//     1 4 7 10
//     2 5 8 11
//     12 13 14 15
template <int ROWS, int BAND_ROWS> INLINE Tile tile_of(const MappedMatrices& p, u32 tile_index) {
    u32 rows = (p.m + ROWS - 1) / ROWS, columns = (p.n + TILE_N - 1) / TILE_N;
    u32 band = tile_index / (BAND_ROWS * columns);
    u32 height = min(rows - band * BAND_ROWS, u32(BAND_ROWS));
    u32 in_band = tile_index - band * BAND_ROWS * columns;
    u32 column = in_band / height;
    return Tile{(band * BAND_ROWS + in_band - column * height) * ROWS, column * TILE_N};
}

// ---------------------------------------------------------------- main loop

typedef float Accumulators[ATOMS_M][TILE_N / 8][4];

// Issues the wgmmas of one stage for the rows of a from line `row` on. A step is 16 of k: 32 bytes
// of each line of a, 16 lines of b.
INLINE void issue_wgmma(Accumulators& accumulators, u32 a, u32 b, u32 row, bool accumulate) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < TILE_K / 16; ++step) {
        u64 b_step = smem_descriptor(b + step * (16 * LINE_BYTES), SLAB_BYTES, 8 * LINE_BYTES);
#pragma unroll
        for (int block = 0; block < ATOMS_M; ++block)
            wgmma_ss_wide<false, true>(
                accumulators[block],
                smem_descriptor(a + row * LINE_BYTES + block * SLAB_BYTES + step * 32, SLAB_BYTES, 8 * LINE_BYTES),
                b_step, accumulate || step > 0, bf16());
    }
    wgmma_commit_group();
}
// Waits until all wgmmas are complete: after this the accumulators may be read.
INLINE void wait_accumulators(Accumulators& accumulators) {
    wgmma_wait_group<0>();
#pragma unroll
    for (int block = 0; block < ATOMS_M; ++block)
#pragma unroll
        for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) wgmma_fence_operand(accumulators[block][j][e]);
}

// ---------------------------------------------------------------- epilogue

// Writes 16 rows and the 64 columns from 8 * FIRST on of a warp's accumulators to its staging
// buffer, in the swizzle of the stages. Of each 8 columns, lane l has columns 2 (l % 4) and
// 2 (l % 4) + 1 of rows l / 4 and l / 4 + 8.
template <int FIRST> INLINE void stage_accumulators(u32 staging, const float (&accumulators)[TILE_N / 8][4]) {
    u32 lane = threadIdx.x % WARP, row = lane % 16;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        const float (&left)[4] = accumulators[FIRST + j], (&right)[4] = accumulators[FIRST + j + 1];
        u32 words[4] = {cvt_rn_bf16x2_f32(left[1], left[0]), cvt_rn_bf16x2_f32(left[3], left[2]),
                        cvt_rn_bf16x2_f32(right[1], right[0]), cvt_rn_bf16x2_f32(right[3], right[2])};
        stmatrix_x4(staging + row * LINE_BYTES + (((j + lane / 16) ^ row) & 7) * 16, words);
    }
}
// Copies the staging buffer to y from element [row, column] on: eight lanes store a line of 128
// bytes.
INLINE void store_staged(const MappedMatrices& p, u32 staging, u32 row, u32 column) {
    u32 lane = threadIdx.x % WARP, chunk = lane % 8;
#pragma unroll
    for (u32 r = lane / 8; r < 16; r += WARP / 8) {
        uint4 words = ld_shared_v4(staging + r * LINE_BYTES + ((chunk ^ r) & 7) * 16);
        u32 c = column + chunk * 8;
        if (row + r < p.m && c < p.n) *reinterpret_cast<uint4*>(p.y + (row + r) * p.n + c) = words;
    }
}
template <int FIRST>
INLINE void store_columns(const MappedMatrices& p, u32 staging, const float (&accumulators)[TILE_N / 8][4], u32 row,
                          u32 column) {
    stage_accumulators<FIRST>(staging, accumulators);
    __syncwarp();
    store_staged(p, staging, row, column + FIRST * 8);
    // All lanes have read the staging buffer before the next columns overwrite it.
    __syncwarp();
    if constexpr (FIRST + 8 < TILE_N / 8) store_columns<FIRST + 8>(p, staging, accumulators, row, column);
}
// Stores the accumulators of a consumer, warpgroup `consumer` of the block, to its rows of the
// tile.
INLINE void store_accumulators(const MappedMatrices& p, u32 shared, const Accumulators& accumulators, Tile tile,
                               u32 consumer) {
    u32 warp = threadIdx.x / WARP;
    u32 row = tile.row + consumer * CONSUMER_M + warp % 4 * 16;
#pragma unroll
    for (int block = 0; block < ATOMS_M; ++block)
        store_columns<0>(p, shared + STAGING_OFFSET + warp * STAGING_BYTES, accumulators[block], row + block * 64,
                         tile.column);
}
