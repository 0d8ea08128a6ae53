// GEMM ladder, file 8 (double-buffered; kernel 9 of docs/kernels/gemm-ladder.md): y = a b in f32,
// the next tile is loaded while the current one is multiplied. A study kernel; operands and shapes
// are in ladder/matrices.cuh.
//
// Idea: in the previous kernels a block waits for global memory, multiplies, and waits again. Only
// other blocks on the multiprocessor hide this latency. Here the loads of the next tile into
// registers are issued before the current tile is multiplied. Shared memory has two pairs of tile
// buffers: the next tile is stored to the pair that is not being read. So a block needs one barrier
// per tile, not two.
//
//    tile 0:  load  store |                            a_tile[0], b_tile[0]
//    tile 1:              | load  multiply 0  store |  a_tile[1], b_tile[1]
//    tile 2:                                        | load  multiply 1  store |  as tile 0
//                         ^ barrier                 ^ barrier                 ^ barrier
//
// The warp tile is that of 07_warp_tile.cu.
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
    __shared__ alignas(16) float a_tile[2][TILE_K][TILE_M + PACK], b_tile[2][TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int first_row = warp / WARPS_N * WARP_M + lane / LANES_N * PACK;
    int first_column = warp % WARPS_N * WARP_N + lane % LANES_N * PACK;
    TilePacks<TILE_M, TILE_K, THREADS> a;
    TilePacks<TILE_K, TILE_N, THREADS> b;
    float accumulators[THREAD_M][THREAD_N] = {};
    // Prologue: tile 0. The last iteration fetches a tile after the end of k: fetch() then loads
    // nothing and returns zeros.
    a.fetch(p.a, row, 0, p.m, p.k);
    b.fetch(p.b, 0, column, p.k, p.n);
    a.store_transposed(a_tile[0]);
    b.store_rows(b_tile[0]);
    __syncthreads();
    int read_stage = 0;
#pragma unroll 1
    for (u32 k = TILE_K; k < p.k + TILE_K; k += TILE_K) {
        a.fetch(p.a, row, k, p.m, p.k);
        b.fetch(p.b, k, column, p.k, p.n);
        multiply_tiles<PACK_STRIDE_M, PACK_STRIDE_N>(accumulators, a_tile[read_stage], b_tile[read_stage], first_row,
                                                     first_column);
        // All threads have passed the last barrier, so no thread still reads the other pair.
        read_stage ^= 1;
        a.store_transposed(a_tile[read_stage]);
        b.store_rows(b_tile[read_stage]);
        __syncthreads();
    }
    store_accumulators<PACK_STRIDE_M, PACK_STRIDE_N>(p, accumulators, row + first_row, column + first_column);
}
