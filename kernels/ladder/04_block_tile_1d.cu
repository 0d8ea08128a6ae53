// GEMM ladder, file 4 (1D block tile): y = a b in f32, a column of accumulators per thread. A study
// kernel; operands and shapes are in ladder/matrices.cuh.
//
// Idea: a thread computes THREAD_M rows of one column of y. It reads an element of b from shared
// memory once and uses it THREAD_M times from a register. An FMA takes 1 + 1 / THREAD_M loads from
// shared memory instead of two, and each load of a is of one element for the whole warp.
//
//                      b: TILE_K x TILE_N
//                         +---+-+---+
//    a: TILE_M x TILE_K   |   |x|   |          for each k of the tile:
//        +-------+        +---+-+---+            x = b[k][column]
//        |-------|        |   | |   |            THREAD_M times: sums[i] += a[row + i][k] * x
//        |-------|        |   |y|   |
//        +-------+        +---+-+---+
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of TILE_M TILE_N / THREAD_M threads.
//
// Limits: only those of ladder/matrices.cuh; elements outside a and b are read as 0, and nothing is
// stored outside y.

#ifdef HOST_SHIM
#define TILE_M 64
#define TILE_N 64
#define TILE_K 8
#define THREAD_M 8
#define THREAD_N 1
#endif

#include "ladder/matrices.cuh"

constexpr int THREADS = TILE_M * TILE_N / THREAD_M;
static_assert(THREAD_N == 1, "a column of accumulators");
static_assert(TILE_M * TILE_K == THREADS && TILE_K * TILE_N == THREADS, "a thread copies one element of each operand");

extern "C" __global__ void __launch_bounds__(THREADS) product(const __grid_constant__ Matrices<float> p) {
    __shared__ float a[TILE_M][TILE_K], b[TILE_K][TILE_N];
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    u32 a_row = threadIdx.x / TILE_K, a_column = threadIdx.x % TILE_K;
    u32 b_row = threadIdx.x / TILE_N, b_column = threadIdx.x % TILE_N;
    // The thread accumulates rows first to first + THREAD_M - 1 of the tile, in column b_column.
    u32 first = threadIdx.x / TILE_N * THREAD_M;
    float accumulators[THREAD_M] = {};
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K) {
        a[a_row][a_column] = element_or_zero(p.a, row + a_row, k + a_column, p.m, p.k);
        b[b_row][b_column] = element_or_zero(p.b, k + b_row, column + b_column, p.k, p.n);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE_K; ++e) {
            float x = b[e][b_column];
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) accumulators[i] = fmaf(a[first + i][e], x, accumulators[i]);
        }
        __syncthreads();
    }
    if (column + b_column >= p.n) return;
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i)
        if (row + first + i < p.m) p.y[(row + first + i) * p.n + column + b_column] = accumulators[i];
}
