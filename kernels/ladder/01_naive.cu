// Ladder, 1: y = a b in f32 by the definition, for study (ladder/matrices.cuh says what is computed).
//
// Idea: a thread has one element of y and adds up its k products. Nothing is shared: each of the 2 k numbers that it needs is a load from global
// memory of its own. Neighboring threads have neighboring rows, which is the wrong way round: what a warp reads of a, and writes to y, is 32 numbers
// in 32 rows, each in another sector of 32 bytes.
//
//        column                        lanes of a warp stand below each other:
//          |                           a   32 rows, 32 sectors for each k
//     +----+------+                    b   one number for all
//     |  lane 0   |                    y   32 rows, 32 sectors
//     |  lane 1   |
//     |  lane 2   |
//     |   ..      | y
//     +-----------+
//
// Limits: none but those of ladder/matrices.cuh; threads beyond y do nothing.
//
// Launch: blocks of TILE_M TILE_N threads, ceil(n / TILE_N) x ceil(m / TILE_M) of them.

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
