// Tiles of f32 in packs of four (16 bytes), for 06_vectorized.cu, 07_warp_tile.cu and 08_double_buffered.cu: from global memory into registers, from
// there into shared memory, and the sums that a thread makes of them.
//
// In shared memory both tiles are read along their rows, so that of a is turned, with rows longer by a pack, whose stores then meet different banks:
//
//   a_tile [TILE_K][TILE_M + PACK]      b_tile [TILE_K][TILE_N]
//
// A thread has packs of rows that are STEP_M apart, by packs of columns that are STEP_N apart. Neighboring threads have neighboring packs:
//
//   THREAD_N = 8, three threads of a row:    |0000|1111|2222|0000|1111|2222|
//
// Limits: rows of a and b are whole packs (4 divides k and n) that begin at multiples of 16 bytes. Beyond a and b there are zeros.

#pragma once

#include "ladder/matrices.cuh"
#include "lib/vec.cuh"

constexpr int PACK = 4;
typedef Pack<float, PACK> Floats;

// A thread's share of a tile of ROWS x COLUMNS on its way.
template <int ROWS, int COLUMNS, int THREADS> struct TilePacks {
    static constexpr int PER_ROW = COLUMNS / PACK;
    static constexpr int COUNT = ROWS * PER_ROW / THREADS;
    static_assert(ROWS * PER_ROW % THREADS == 0, "every thread copies as many packs");
    Floats held[COUNT];

    INLINE static int row(int i) { return (threadIdx.x + i * THREADS) / PER_ROW; }
    INLINE static int column(int i) { return (threadIdx.x + i * THREADS) % PER_ROW * PACK; }

    // The tile from [first_row, first_column] of a matrix of `rows` rows and `columns` columns on.
    INLINE void fetch(const float* matrix, u32 first_row, u32 first_column, u32 rows, u32 columns) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            u32 r = first_row + row(i), c = first_column + column(i);
            bool is_inside = r < rows && c < columns;
            held[i] = is_inside ? load<float, PACK>(matrix + r * columns + c) : Floats{};
        }
    }
    INLINE void store_rows(float (&tile)[ROWS][COLUMNS]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) store<float, PACK>(&tile[row(i)][column(i)], held[i]);
    }
    INLINE void store_turned(float (&tile)[COLUMNS][ROWS + PACK]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int e = 0; e < PACK; ++e) tile[column(i) + e][row(i)] = held[i].of[e];
    }
};

// COUNT numbers of a row of a tile: packs that are STEP apart.
template <int COUNT, int STEP> INLINE void read_packs(float (&to)[COUNT], const float* from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += PACK) {
        Floats pack = load<float, PACK>(from + i / PACK * STEP);
#pragma unroll
        for (int e = 0; e < PACK; ++e) to[i + e] = pack.of[e];
    }
}

// The products of both tiles are added to a thread's sums, whose first is that of [row, column] of the tile of y.
template <int STEP_M, int STEP_N, int SUMS_M, int SUMS_N, int LENGTH, int LEAD_A, int LEAD_B>
INLINE void multiply_tiles(float (&sums)[SUMS_M][SUMS_N], const float (&a_tile)[LENGTH][LEAD_A],
                           const float (&b_tile)[LENGTH][LEAD_B], int row, int column) {
#pragma unroll
    for (int k = 0; k < LENGTH; ++k) {
        float ws[SUMS_M], xs[SUMS_N];
        read_packs<SUMS_M, STEP_M>(ws, &a_tile[k][row]);
        read_packs<SUMS_N, STEP_N>(xs, &b_tile[k][column]);
#pragma unroll
        for (int i = 0; i < SUMS_M; ++i)
#pragma unroll
            for (int j = 0; j < SUMS_N; ++j) sums[i][j] = fmaf(ws[i], xs[j], sums[i][j]);
    }
}

// The sums into y, whose element [row, column] is the first of them.
template <int STEP_M, int STEP_N, int SUMS_M, int SUMS_N>
INLINE void store_sums(const Matrices<float>& p, const float (&sums)[SUMS_M][SUMS_N], u32 row, u32 column) {
#pragma unroll
    for (int i = 0; i < SUMS_M; ++i) {
        u32 r = row + i / PACK * STEP_M + i % PACK;
#pragma unroll
        for (int j = 0; j < SUMS_N; j += PACK) {
            u32 c = column + j / PACK * STEP_N;
            Floats pack = {{sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}};
            if (r < p.m && c < p.n) store<float, PACK>(p.y + r * p.n + c, pack);
        }
    }
}
