// GEMM ladder, file 7 (warp tile; kernel 8 of docs/kernels/gemm-ladder.md): y = a b in f32, a
// rectangular warp tile for each warp. A study kernel; operands and shapes are in
// ladder/matrices.cuh.
//
// Idea: the cost of a shared-memory read depends on how many distinct bytes the lanes of a warp
// read; lanes that read the same element share it. In 06_vectorized.cu the lanes of a warp are two
// rows of 16 threads: for one pack of a and one of b per lane, they read 2 and 16 distinct packs,
// 288 bytes. Here a warp has a tile of WARP_M x WARP_N and its lanes are arranged LANES_M x
// LANES_N: with 8 x 4 lanes they read 8 and 4 packs, 192 bytes. The tensor cores of the next
// kernels also work on warp tiles.
//
//                      b: TILE_K x TILE_N
//                         +---------+---------+   a warp tile:  lanes  0  1  2  3  |  0  1  2  3
//    a: TILE_M x TILE_K   |         |         |                        4  5  6  7  |  4  5  6  7
//        +-------+        +---------+---------+                        ..          |  ..
//        |       |        | WARP_M  |         |
//        |       |        | x WARP_N|   y     |   a lane: a pack of rows by a pack of columns,
//        +-------+        +---------+---------+   repeated THREAD_M / 4 times down and
//                                                 THREAD_N / 4 times across
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of TILE_M TILE_N / (THREAD_M THREAD_N)
// threads.
//
// Limits: those of ladder/packs.cuh: n and k are multiples of 4, a, b and y are aligned to 16
// bytes. Tiles at the edges are bounds-checked.

#ifdef HOST_SHIM
#define TILE_M 128
#define TILE_N 128
#define TILE_K 16
#define THREAD_M 8
#define THREAD_N 8
#define WARP_M 64
#define WARP_N 32
#endif

#include "ladder/packs.cuh"

constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = TILE_M / WARP_M * WARPS_N * WARP;
constexpr int LANES_M = WARP_M / THREAD_M, LANES_N = WARP_N / THREAD_N;
constexpr int PACK_STRIDE_M = LANES_M * PACK, PACK_STRIDE_N = LANES_N * PACK;
static_assert(LANES_M * LANES_N == WARP, "each warp has one warp tile");

extern "C" __global__ void __launch_bounds__(THREADS, 2) product(const __grid_constant__ Matrices<float> p) {
    __shared__ alignas(16) float a_tile[TILE_K][TILE_M + PACK], b_tile[TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int first_row = warp / WARPS_N * WARP_M + lane / LANES_N * PACK;
    int first_column = warp % WARPS_N * WARP_N + lane % LANES_N * PACK;
    TilePacks<TILE_M, TILE_K, THREADS> a;
    TilePacks<TILE_K, TILE_N, THREADS> b;
    float accumulators[THREAD_M][THREAD_N] = {};
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
        a.fetch(p.a, row, k, p.m, p.k);
        b.fetch(p.b, k, column, p.k, p.n);
        a.store_transposed(a_tile);
        b.store_rows(b_tile);
        __syncthreads();
        multiply_tiles<PACK_STRIDE_M, PACK_STRIDE_N>(accumulators, a_tile, b_tile, first_row, first_column);
        __syncthreads();
    }
    store_accumulators<PACK_STRIDE_M, PACK_STRIDE_N>(p, accumulators, row + first_row, column + first_column);
}
