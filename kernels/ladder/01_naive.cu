// GEMM ladder, file 1 (naive): y = a b in f32 by the definition. A study kernel; operands and
// shapes are in ladder/matrices.cuh.
//
// Idea: a thread computes one element of y as a sum of k products. Threads share nothing: each of
// the 2 k elements that a thread needs is a separate load from global memory. Neighboring threads
// compute neighboring rows, which is the wrong order: the 32 elements of a that a warp reads, and
// the 32 elements of y that it writes, are in 32 rows, each in another sector of 32 bytes.
//
//        column                        lanes of a warp are consecutive rows:
//          |                           a   32 rows, 32 sectors for each k
//     +----+------+                    b   one element for all lanes
//     |  lane 0   |                    y   32 rows, 32 sectors
//     |  lane 1   |
//     |  lane 2   |
//     |   ..      | y
//     +-----------+
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of TILE_M TILE_N threads.
//
// Limits: only those of ladder/matrices.cuh; threads outside y exit.

#ifdef HOST_SHIM
#define TILE_M 32
#define TILE_N 32
#endif

#include "ladder/matrices.cuh"

extern "C" __global__ void __launch_bounds__(TILE_M* TILE_N) product(const __grid_constant__ Matrices<float> p) {
    u32 row = blockIdx.y * TILE_M + threadIdx.x % TILE_M;
    u32 column = blockIdx.x * TILE_N + threadIdx.x / TILE_M;
    if (row >= p.m || column >= p.n) return;
    float sum = 0;
    for (u32 k = 0; k < p.k; ++k) sum = fmaf(p.a[row * p.k + k], p.b[k * p.n + column], sum);
    p.y[row * p.n + column] = sum;
}
