// Copies between tensors with different fastest axes: y[.., i, j] = x[.., i, j], x contiguous along
// i, y contiguous along j.
//
//   in   x, elements `x_stride` apart along j, adjacent along i
//   out  y, elements `y_stride` apart along i, adjacent along j
//
// A block moves one tile through shared memory, so that loads and stores access whole sectors:
//
//       j ->                     tile [j][i]                  i
//   i   x . . .     read along i     | | |     written along j   y - - -
//
// tiles_packed moves VECTOR elements (4 bytes) per access where everything is a multiple of VECTOR;
// `tiles` moves one. A tile is twice as long along j as along i: stores gain more from long runs
// than loads. The other axes are batch axes.
//
// Limits: i and j below 2^31; fewer than 2^31 tiles. Casts and all other copies: elementwise.cu.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"

typedef TYPE E;
constexpr int SIDE = 32;  // threads along a row: a warp reads 128 bytes at once
constexpr int ROWS = 8;   // rows of threads: 256 threads, each moves 8 x VECTOR x VECTOR elements
constexpr int THREADS = SIDE * ROWS;
constexpr int DEPTH = 2;  // packs per thread along j
constexpr int VECTOR = sizeof(E) < 4 ? 4 / sizeof(E) : 1;

struct Transposition {
    const E* x;
    E* y;
    u32 i_count, j_count;
    i64 x_stride, y_stride;
    Divisor i_tiles, j_tiles;
    Space<2> batch;
};

template <int V> INLINE void move_tile(const Transposition& p) {
    constexpr int ALONG_I = SIDE * V, ALONG_J = SIDE * V * DEPTH;
    // Rows are padded by V elements (one word of 4 bytes; two for elements of 8 bytes): the
    // elements of a column are then in different banks.
    constexpr int PITCH = ALONG_I + V;
    __shared__ alignas(16) E tile[ALONG_J * PITCH];
    u32 rest = divide(blockIdx.x, p.j_tiles);
    u32 j_first = (blockIdx.x - rest * p.j_tiles.divisor) * ALONG_J;
    u32 batch = divide(rest, p.i_tiles);
    u32 i_first = (rest - batch * p.i_tiles.divisor) * ALONG_I;
    i64 at[2];
    locate(p.batch, batch, at);
    const E* x = p.x + at[0];
    E* y = p.y + at[1];
    u32 i = i_first + threadIdx.x * V;
#pragma unroll
    for (int row = threadIdx.y; row < ALONG_J; row += ROWS) {
        u32 j = j_first + row;
        if (i < p.i_count && j < p.j_count)
            store<E, V>(&tile[row * PITCH + threadIdx.x * V], load<E, V>(x + i64(j) * p.x_stride + i));
    }
    __syncthreads();
#pragma unroll
    for (int row = threadIdx.y; row < ALONG_I; row += ROWS) {
        u32 i = i_first + row;
#pragma unroll
        for (int part = 0; part < DEPTH; ++part) {
            u32 in_tile = (part * SIDE + threadIdx.x) * V, j = j_first + in_tile;
            if (i < p.i_count && j < p.j_count) {
                Pack<E, V> pack;
#pragma unroll
                for (int e = 0; e < V; ++e) pack.of[e] = tile[(in_tile + e) * PITCH + row];
                store<E, V>(y + i64(i) * p.y_stride + j, pack);
            }
        }
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) tiles(const __grid_constant__ Transposition p) {
    wait_for_earlier_launches();
    move_tile<1>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) tiles_packed(const __grid_constant__ Transposition p) {
    wait_for_earlier_launches();
    move_tile<VECTOR>(p);
}
