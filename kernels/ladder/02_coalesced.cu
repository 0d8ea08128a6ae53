// GEMM ladder, file 2 (coalesced): y = a b in f32, neighboring threads in neighboring columns. A
// study kernel; operands and shapes are in ladder/matrices.cuh.
//
// Idea: the loop of 01_naive.cu with the row and column of a thread exchanged. Memory is read in
// sectors of 32 bytes, and a load of a warp moves every sector that one of its lanes accesses. Now
// a warp reads 32 adjacent elements of a row of b, which are four sectors, and one element of a for
// all lanes: 5 sectors for each k, where 01_naive.cu reads 33. The number of loads is the same;
// each moves less.
//
//        column of lane 0, 1, 2, ..    lanes of a warp are consecutive columns:
//          | | | |                     a   one element for all lanes
//     +----+-+-+-+--+                  b   32 adjacent elements, 4 sectors for each k
//     |    0 1 2 .. |                  y   32 adjacent elements, 4 sectors
//     |             | y
//     +-------------+
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
    u32 row = blockIdx.y * TILE_M + threadIdx.x / TILE_N;
    u32 column = blockIdx.x * TILE_N + threadIdx.x % TILE_N;
    if (row >= p.m || column >= p.n) return;
    float sum = 0;
    for (u32 k = 0; k < p.k; ++k) sum = fmaf(p.a[row * p.k + k], p.b[k * p.n + column], sum);
    p.y[row * p.n + column] = sum;
}
