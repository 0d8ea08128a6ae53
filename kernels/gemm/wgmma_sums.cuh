// The sums over k of the rows of a, computed with the product of gemm/wgmma.cu (SUMS_OF_A 1,
// A_K_MAJOR 0). If a is the transposed gradient of a linear layer's output, they are the gradient
// of the layer's bias. They need no second read of a from global memory: two more warps of the
// producer's warpgroup wait for each stage of a as a consumer does, and release it as one.
//
//   a stage of a, 64 lines of k:
//
//   slab 0, 64 rows of a    warp 1      16 lanes read a line, 4 rows each, the other 16 lanes the
//   slab 1                  warp 2      next line: each half of the warp accesses every bank once
//
// All tiles in a row of tiles have the same a. So each sums some of its stages, in rotation, and
// none takes longer than the others:
//
//   stage                      0 1 2 3 4 5 6 7 8 9
//   tile 0 of 3 (columns)      x . . x . . x . . x      -> p.sums[split * 3 + 0]
//   tile 1                     . x . . x . . x . .      -> p.sums[split * 3 + 1]
//   tile 2                     . . x . . x . . x .      -> p.sums[split * 3 + 2]
//
// sum_parts adds these partial sums: first, each of eight warps adds every eighth part, starting
// with the part of its warp index; then one warp adds the results of the eight and rounds once to
// the dtype of y. So only a few loads of a thread wait for one another, however many parts exist.
//
//   p.sums[0] p.sums[8]  p.sums[16] ..  -> warp 0 \
//   p.sums[1] p.sums[9]  p.sums[17] ..  -> warp 1  > smem -> warp 0 -> sums_of_a     a row per lane
//   ..                                            /
//
// No atomics: the result depends only on shapes, values and the tile. Sums are f32: first over
// every second line of a stage, then over stages, then over both kinds of lines, then over parts.
// TMA fills rows and lines outside the matrix with zeros.
//
// Limits: one matrix, an M-major a of 16-bit elements, CLUSTER 1.

#pragma once

#include "gemm/wgmma_loop.cuh"
#include "gemm/wgmma_tile.cuh"
#include "ptx/memory.cuh"

#if SUMS_OF_A || defined(HOST_SHIM)

// A lane's sums of four rows of a, over every second line of k: the other half of the warp has the
// other lines.
typedef float SumsOfRows[4];

// Adds the lines of k of a stage. `from` is the address of a lane's rows in its first line. In line
// k of a slab, 16-byte chunk c is stored at c ^ k % 8.
INLINE void add_stage(SumsOfRows& sums, u32 from) {
    constexpr int LOADS = 8;
    SumsOfRows of_stage = {0, 0, 0, 0};
#pragma unroll 1
    for (u32 end = from + SLAB_BYTES; from != end; from += LOADS * 2 * LINE_BYTES) {
        u32 pairs[LOADS][2];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) ld_shared_v2_unordered(pairs[i], (from ^ 2 * i % 8 * 16) + 2 * i * LINE_BYTES);
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                of_stage[e] += low_of(pairs[i][e / 2], Element());
                of_stage[e + 1] += high_of(pairs[i][e / 2], Element());
            }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[e] += of_stage[e];
}

// Adds the sums of both halves of the warp. The first half stores them at `to`. `rows` rows, from
// the lane's first one on, are inside the matrix.
INLINE void store_sums(const SumsOfRows& sums, float* to, i32 rows) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        float sum = sums[e] + __shfl_xor_sync(ALL_LANES, sums[e], WARP / 2);
        if (threadIdx.x % WARP < WARP / 2 && e < rows) to[e] = sum;
    }
}

// One of SUM_WARPS warps: it sums rows of slab `slab` of each tile. It waits for and releases all
// stages of the ring, also those that another tile sums.
INLINE void sum_rows_of_a(const TensorMapProduct& p, u32 shared, u32 slab) {
    Ring ring(shared);
    u32 half = threadIdx.x % WARP / 16, lane = threadIdx.x % 16, columns = (p.n + TILE_N - 1) / TILE_N;
    u32 first = slab * SLAB_BYTES + half * LINE_BYTES + (lane * 8 ^ half * 16);
#pragma unroll 1
    for (u32 tile_index = first_tile_index(); tile_index < p.tiles.count; tile_index = next_tile_index(tile_index)) {
        WorkTile work(p, tile_index);
        u32 column = work.tile.column / TILE_N, next = column;
        SumsOfRows sums = {0, 0, 0, 0};
#pragma unroll 1
        for (u32 k_tile = 0; k_tile < work.k_tiles; ++k_tile) {
            mbarrier_wait_parity(ring.full(), ring.parity);
            if (k_tile == next) {
                add_stage(sums, ring.address() + first);
                next += columns;
            }
            // All lanes have read the stage.
            __syncwarp();
            release(ring, ring.empty());
            ring.advance();
        }
        u32 row = work.tile.row + slab * 64 + lane * 4;
        store_sums(sums, p.sums + u64(work.tile.split * columns + column) * p.m + row, i32(p.m) - i32(row));
    }
}

struct SumParts {
    GemmParams product;
    const float* sums;  // [parts, m]
    Output* sums_of_a;
    u32 parts;
    u32 blocks;  // blocks that sum rows of a; later blocks add the partial sums of y
};

// sum_parts has blocks of 256 threads, for 32 rows. Each warp adds every eighth part, and loads
// eight of them at a time.
constexpr u32 PART_WARPS = 256 / WARP, LOADS_AT_ONCE = 8;

// Adds a warp's parts of a row of a: every PART_WARPS-th one, from `number` on.
INLINE float sum_of_parts(const SumParts& p, u32 number, u32 row) {
    float sum = 0;
#pragma unroll 1
    for (; number < p.parts; number += LOADS_AT_ONCE * PART_WARPS) {
        float loaded[LOADS_AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < LOADS_AT_ONCE; ++i) {
            u32 next = number + i * PART_WARPS;
            loaded[i] = next < p.parts ? p.sums[u64(next) * p.product.m + row] : 0;
        }
#pragma unroll
        for (u32 i = 0; i < LOADS_AT_ONCE; ++i) sum += loaded[i];
    }
    return sum;
}

// Adds the partial row sums of a and, if y has partial sums, those: one thread per element, as in
// sum_splits.
extern "C" __global__ void __launch_bounds__(256) sum_parts(const __grid_constant__ SumParts p) {
    wait_for_earlier_launches();
    if (blockIdx.x >= p.blocks) {
        sum_splits_of(p.product, blockIdx.x - p.blocks);
        return;
    }
    __shared__ float sums[PART_WARPS][WARP];
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = blockIdx.x * WARP + lane;
    bool is_inside = row < p.product.m;
    sums[warp][lane] = is_inside ? sum_of_parts(p, warp, row) : 0;
    __syncthreads();
    if (warp > 0 || !is_inside) return;
    float sum = 0;
#pragma unroll
    for (u32 part = 0; part < PART_WARPS; ++part) sum += sums[part][lane];
    p.sums_of_a[row] = narrow<Output>(sum);
}

#endif
