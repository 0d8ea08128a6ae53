// Ladder, 5: y = a b in f32, a thread with a square of sums, for study (ladder/matrices.cuh says what is computed).
//
// Idea: a thread has THREAD_M x THREAD_N sums. For each k it reads THREAD_M numbers of a and THREAD_N of b into registers, and multiplies each with
// each: THREAD_M THREAD_N multiply-adds for THREAD_M + THREAD_N loads, with 8 x 8 four of them for a load. The same reuse goes for the block: a tile
// of 128 x 128 makes 64 multiply-adds of each number that comes from global memory, one of 64 x 64 makes 32.
//
//                      b: TILE_K x TILE_N
//                         +--+----+--+
//    a: TILE_M x TILE_K   |  |xxxx|  |         for each k of the tile:
//        +-------+        +--+----+--+           xs = THREAD_N numbers of b
//        |   x   |        |  |    |  |           ws = THREAD_M numbers of a
//        |   x   |        |  | y  |  |           sums[i][j] += ws[i] * xs[j]
//        +-------+        +--+----+--+
//
// Limits: none but those of ladder/matrices.cuh; beyond a and b there are zeros, and nothing is stored beyond y.
//
// Launch: blocks of TILE_M TILE_N / (THREAD_M THREAD_N) threads, ceil(n / TILE_N) x ceil(m / TILE_M) of them.

#ifdef HOST_SHIM
#define TILE_M 128
#define TILE_N 128
#define TILE_K 8
#define THREAD_M 8
#define THREAD_N 8
#endif

#include "ladder/matrices.cuh"

constexpr int THREADS_N = TILE_N / THREAD_N;
constexpr int THREADS = TILE_M / THREAD_M * THREADS_N;
static_assert(TILE_M * TILE_K % THREADS == 0 && TILE_K * TILE_N % THREADS == 0,
              "every thread copies as many numbers of an operand");

extern "C" __global__ void __launch_bounds__(THREADS, 2) product(const __grid_constant__ Matrices<float> p) {
    __shared__ float a[TILE_M][TILE_K], b[TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    u32 first_row = threadIdx.x / THREADS_N * THREAD_M, first_column = threadIdx.x % THREADS_N * THREAD_N;
    float sums[THREAD_M][THREAD_N] = {};
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
#pragma unroll
        for (u32 at = threadIdx.x; at < TILE_M * TILE_K; at += THREADS)
            a[at / TILE_K][at % TILE_K] = element_or_zero(p.a, row + at / TILE_K, k + at % TILE_K, p.m, p.k);
#pragma unroll
        for (u32 at = threadIdx.x; at < TILE_K * TILE_N; at += THREADS)
            b[at / TILE_N][at % TILE_N] = element_or_zero(p.b, k + at / TILE_N, column + at % TILE_N, p.k, p.n);
        __syncthreads();
        // All of them at once take more registers than two blocks on a multiprocessor have.
#pragma unroll 2
        for (int e = 0; e < TILE_K; ++e) {
            float ws[THREAD_M], xs[THREAD_N];
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) ws[i] = a[first_row + i][e];
#pragma unroll
            for (int j = 0; j < THREAD_N; ++j) xs[j] = b[e][first_column + j];
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
                for (int j = 0; j < THREAD_N; ++j) sums[i][j] = fmaf(ws[i], xs[j], sums[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
            u32 r = row + first_row + i, c = column + first_column + j;
            if (r < p.m && c < p.n) p.y[r * p.n + c] = sums[i][j];
        }
}
