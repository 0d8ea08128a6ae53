// Ladder, 6: y = a b in f32, every access of 16 bytes, for study (ladder/matrices.cuh says what is computed). The same file with other sizes is the
// autotuned tile.
//
// Idea: an instruction that loads four numbers costs about as much to issue as one that loads one. Copies from global memory, reads from shared memory
// and stores to y are packs of four. For reads of a to be packs, its tile is turned on the way into shared memory: its rows then are along m.
//
//                      b_tile: TILE_K x TILE_N
//                         +-----------------+
//                         |    |xxxx|  |xxxx|             for each k of the tile:
//    a_tile: turned       +-----------------+               THREAD_N / 4 packs of b
//        +-------+        |    |    |  |    |               THREAD_M / 4 packs of a
//        |       |        |    | y  |  | y  |               sums[i][j] += ws[i] * xs[j]
//        +-------+        +-----------------+
//
// Autotuned tile: no rule says which sizes are the best. Larger tiles make more of each number that is loaded, smaller ones make more blocks for the
// multiprocessors of a small product, and a longer TILE_K waits less often for the block. The host compiles the file with each of several sizes
// (variant/ladder.rs), and the one that was measured to be the fastest is taken, for each size of the product anew.
//
// Limits: those of ladder/packs.cuh: 4 divides k and n, rows begin at multiples of 16 bytes. Edges of the tiles are guarded.
//
// Launch: blocks of TILE_M TILE_N / (THREAD_M THREAD_N) threads, ceil(n / TILE_N) x ceil(m / TILE_M) of them.

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
constexpr int STEP_M = THREADS_M * PACK, STEP_N = THREADS_N * PACK;

extern "C" __global__ void __launch_bounds__(THREADS) product(const __grid_constant__ Matrices<float> p) {
    __shared__ alignas(16) float a_tile[TILE_K][TILE_M + PACK], b_tile[TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    int first_row = threadIdx.x / THREADS_N * PACK, first_column = threadIdx.x % THREADS_N * PACK;
    TilePacks<TILE_M, TILE_K, THREADS> a;
    TilePacks<TILE_K, TILE_N, THREADS> b;
    float sums[THREAD_M][THREAD_N] = {};
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
        a.fetch(p.a, row, k, p.m, p.k);
        b.fetch(p.b, k, column, p.k, p.n);
        a.store_turned(a_tile);
        b.store_rows(b_tile);
        __syncthreads();
        multiply_tiles<STEP_M, STEP_N>(sums, a_tile, b_tile, first_row, first_column);
        __syncthreads();
    }
    store_sums<STEP_M, STEP_N>(p, sums, row + first_row, column + first_column);
}
