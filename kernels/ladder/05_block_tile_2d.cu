// GEMM ladder, file 5 (2D block tile): y = a b in f32, a rectangle of accumulators per thread. A
// study kernel; operands and shapes are in ladder/matrices.cuh.
//
// Idea: a thread has THREAD_M x THREAD_N accumulators. For each k it reads THREAD_M elements of a
// and THREAD_N elements of b into registers and computes their outer product: THREAD_M THREAD_N
// FMAs for THREAD_M + THREAD_N loads, which is four FMAs per load with 8 x 8. The block tile has
// the same kind of reuse: a tile of 128 x 128 does 64 FMAs per element that is loaded from global
// memory, a tile of 64 x 64 does 32.
//
//                      b: TILE_K x TILE_N
//                         +--+----+--+
//    a: TILE_M x TILE_K   |  |xxxx|  |         for each k of the tile:
//        +-------+        +--+----+--+           xs = THREAD_N elements of b
//        |   x   |        |  |    |  |           ws = THREAD_M elements of a
//        |   x   |        |  | y  |  |           sums[i][j] += ws[i] * xs[j]
//        +-------+        +--+----+--+
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of TILE_M TILE_N / (THREAD_M THREAD_N)
// threads.
//
// Limits: only those of ladder/matrices.cuh; elements outside a and b are read as 0, and nothing is
// stored outside y.

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
              "all threads copy the same number of elements");

extern "C" __global__ void __launch_bounds__(THREADS, 2) product(const __grid_constant__ Matrices<float> p) {
    __shared__ float a[TILE_M][TILE_K], b[TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    u32 first_row = threadIdx.x / THREADS_N * THREAD_M, first_column = threadIdx.x % THREADS_N * THREAD_N;
    float accumulators[THREAD_M][THREAD_N] = {};
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
#pragma unroll
        for (u32 index = threadIdx.x; index < TILE_M * TILE_K; index += THREADS)
            a[index / TILE_K][index % TILE_K] =
                element_or_zero(p.a, row + index / TILE_K, k + index % TILE_K, p.m, p.k);
#pragma unroll
        for (u32 index = threadIdx.x; index < TILE_K * TILE_N; index += THREADS)
            b[index / TILE_N][index % TILE_N] =
                element_or_zero(p.b, k + index / TILE_N, column + index % TILE_N, p.k, p.n);
        __syncthreads();
        // Full unrolling needs more registers than two resident blocks per multiprocessor allow.
#pragma unroll 2
        for (int e = 0; e < TILE_K; ++e) {
            float a_fragment[THREAD_M], b_fragment[THREAD_N];
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) a_fragment[i] = a[first_row + i][e];
#pragma unroll
            for (int j = 0; j < THREAD_N; ++j) b_fragment[j] = b[e][first_column + j];
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
                for (int j = 0; j < THREAD_N; ++j)
                    accumulators[i][j] = fmaf(a_fragment[i], b_fragment[j], accumulators[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
            u32 r = row + first_row + i, c = column + first_column + j;
            if (r < p.m && c < p.n) p.y[r * p.n + c] = accumulators[i][j];
        }
}
