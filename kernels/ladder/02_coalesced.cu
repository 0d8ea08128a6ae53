// Ladder, 2: y = a b in f32, neighboring threads in neighboring columns, for study (ladder/matrices.cuh says what is computed).
//
// Idea: the same loop as in 01_naive.cu with row and column of a thread exchanged. Memory is read in sectors of 32 bytes, and a warp's load takes as
// many of them as its lanes touch. Now a warp reads 32 neighbors of a row of b, which are four sectors, and one number of a for all its lanes; before
// it were 33 sectors. The number of loads is the same; each moves less.
//
//        column of lane 0, 1, 2, ..    lanes of a warp stand side by side:
//          | | | |                     a   one number for all
//     +----+-+-+-+--+                  b   32 neighbors, 4 sectors for each k
//     |    0 1 2 .. |                  y   32 neighbors, 4 sectors
//     |             | y
//     +-------------+
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
    u32 row = blockIdx.y * TILE_M + threadIdx.x / TILE_N;
    u32 column = blockIdx.x * TILE_N + threadIdx.x % TILE_N;
    if (row >= p.m || column >= p.n) return;
    float sum = 0;
    for (u32 k = 0; k < p.k; ++k) sum = fmaf(p.a[row * p.k + k], p.b[k * p.n + column], sum);
    p.y[row * p.n + column] = sum;
}
