// GEMM ladder, file 3 (shared memory): y = a b in f32 by tiles in shared memory. A study kernel;
// operands and shapes are in ladder/matrices.cuh.
//
// Idea: the TILE_M TILE_N threads of a block need the same TILE_M rows of a and TILE_N columns of
// b. They copy these to shared memory together, TILE_K of k at a time. Each thread copies one
// element of a and one of b, and then reads all operands from shared memory. An element is loaded
// from global memory once per block, not once per thread that uses it: 1 / 32 of the loads of the
// previous kernels.
//
//                      b: TILE_K x TILE_N
//                         +---------+        for each TILE_K of k:
//    a: TILE_M x TILE_K   |         |          copy both tiles (a thread: one element of each)
//        +-------+        +---------+          __syncthreads
//        |       |        |  y      |          TILE_K FMAs    (each: two loads from shared memory)
//        +-------+        +---------+          __syncthreads
//
// Bottleneck: every FMA still takes two loads from shared memory.
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of TILE_M TILE_N threads.
//
// Limits: only those of ladder/matrices.cuh; elements outside a and b are read as 0, and threads
// outside y store nothing. TILE_M = TILE_N = TILE_K.

#ifdef HOST_SHIM
#define TILE_M 32
#define TILE_N 32
#define TILE_K 32
#endif

#include "ladder/matrices.cuh"

static_assert(TILE_M == TILE_K && TILE_N == TILE_K, "a thread copies one element of each operand");

extern "C" __global__ void __launch_bounds__(TILE_M* TILE_N) product(const __grid_constant__ Matrices<float> p) {
    __shared__ float a[TILE_M][TILE_K], b[TILE_K][TILE_N];
    u32 tile_row = threadIdx.x / TILE_N, tile_column = threadIdx.x % TILE_N;
    u32 row = blockIdx.y * TILE_M + tile_row, column = blockIdx.x * TILE_N + tile_column;
    float sum = 0;
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
        a[tile_row][tile_column] = element_or_zero(p.a, row, k + tile_column, p.m, p.k);
        b[tile_row][tile_column] = element_or_zero(p.b, k + tile_row, column, p.k, p.n);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE_K; ++e) sum = fmaf(a[tile_row][e], b[e][tile_column], sum);
        // All threads have read the tiles before they are overwritten.
        __syncthreads();
    }
    if (row < p.m && column < p.n) p.y[row * p.n + column] = sum;
}
