// Ladder, 3: y = a b in f32 by tiles in shared memory, for study (ladder/matrices.cuh says what is computed).
//
// Idea: the TILE_M TILE_N threads of a block need the same TILE_M rows of a and TILE_N columns of b. They copy them to shared memory together, TILE_K
// of k at a time, each thread one number of either, and then every thread reads what it needs from there. A number comes from global memory once for
// the block, not once for each thread that uses it: 1 / 32 of the loads before.
//
//                      b: TILE_K x TILE_N
//                         +---------+                    for each TILE_K of k:
//    a: TILE_M x TILE_K   |         |                      copy both tiles       (a thread: one number of a, one of b)
//        +-------+        +---------+                      wait for the block
//        |       |        |  y      |                      TILE_K multiply-adds  (a thread: two loads from shared memory each)
//        +-------+        +---------+                      wait for the block
//
// Every multiply-add still takes two loads from shared memory, and those are what limits it.
//
// Limits: none but those of ladder/matrices.cuh; beyond a and b there are zeros, threads beyond y store nothing. The tile is a cube.
//
// Launch: blocks of TILE_M TILE_N threads, ceil(n / TILE_N) x ceil(m / TILE_M) of them.

#ifdef HOST_SHIM
#define TILE_M 32
#define TILE_N 32
#define TILE_K 32
#endif

#include "ladder/matrices.cuh"

static_assert(TILE_M == TILE_K && TILE_N == TILE_K, "a thread copies one number of either operand");

extern "C" __global__ void __launch_bounds__(TILE_M* TILE_N) product(const __grid_constant__ Matrices<float> p) {
    __shared__ float a[TILE_M][TILE_K], b[TILE_K][TILE_N];
    u32 in_row = threadIdx.x / TILE_N, in_column = threadIdx.x % TILE_N;
    u32 row = blockIdx.y * TILE_M + in_row, column = blockIdx.x * TILE_N + in_column;
    float sum = 0;
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
        a[in_row][in_column] = element_or_zero(p.a, row, k + in_column, p.m, p.k);
        b[in_row][in_column] = element_or_zero(p.b, k + in_row, column, p.k, p.n);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE_K; ++e) sum = fmaf(a[in_row][e], b[e][in_column], sum);
        // Nobody overwrites what another one still reads.
        __syncthreads();
    }
    if (row < p.m && column < p.n) p.y[row * p.n + column] = sum;
}
