// GEMM ladder, file 6 (vectorized): y = a b in f32, every access of 16 bytes. A study kernel;
// operands and shapes are in ladder/matrices.cuh. The autotuned tile is this file with other tile
// sizes.
//
// Idea: an instruction that loads four elements costs about as much to issue as one that loads one.
// Loads from global memory, reads from shared memory and stores to y are packs of four elements.
// The tile of a is transposed when it is stored to shared memory: its rows are then along m, so
// that reads of a are packs too.
//
//                      b_tile: TILE_K x TILE_N
//                         +-----------------+
//    a_tile: transposed   |    |xxxx|  |xxxx|             for each k of the tile:
//    (TILE_K x TILE_M)    +-----------------+               THREAD_N / 4 packs of b
//        +-------+        |    |    |  |    |               THREAD_M / 4 packs of a
//        |       |        |    | y  |  | y  |               sums[i][j] += ws[i] * xs[j]
//        +-------+        +-----------------+
//
// Autotuned tile: no rule predicts the best sizes. Larger tiles reuse each loaded element more
// often, smaller tiles give a small product enough blocks for all multiprocessors, and a longer
// TILE_K needs fewer block barriers. The host compiles the file with each of several sizes
// (variant/ladder.rs), and the fastest is determined by measurement for each size of the product.
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of TILE_M TILE_N / (THREAD_M THREAD_N)
// threads.
//
// Limits: those of ladder/packs.cuh: n and k are multiples of 4, a, b and y are aligned to 16
// bytes. Tiles at the edges are bounds-checked.

#ifdef HOST_SHIM
#define TILE_M 128
#define TILE_N 128
#define TILE_K 8
#define THREAD_M 8
#define THREAD_N 8
#endif

#include "ladder/packs.cuh"

constexpr int THREADS_M = TILE_M / THREAD_M, THREADS_N = TILE_N / THREAD_N;
constexpr int THREADS = THREADS_M * THREADS_N;
constexpr int PACK_STRIDE_M = THREADS_M * PACK, PACK_STRIDE_N = THREADS_N * PACK;

extern "C" __global__ void __launch_bounds__(THREADS) product(const __grid_constant__ Matrices<float> p) {
    __shared__ alignas(16) float a_tile[TILE_K][TILE_M + PACK], b_tile[TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    int first_row = threadIdx.x / THREADS_N * PACK, first_column = threadIdx.x % THREADS_N * PACK;
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
