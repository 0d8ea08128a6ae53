// Tiles of f32 in packs of four elements (16 bytes), for 06_vectorized.cu, 07_warp_tile.cu,
// 08_double_buffered.cu and the f32 kernels of the attention ladder: loads from global memory to
// registers, stores to shared memory, and the FMAs of a thread.
//
// Both tiles are read along their rows in shared memory, so the tile of a is transposed:
//
//   a_tile [TILE_K][TILE_M + PACK]      b_tile [TILE_K][TILE_N]
//
// The rows of a_tile are padded by a pack, which halves the bank conflicts of the transposed
// stores: none with TILE_K = 8, 2-way with 16, 4-way with 32.
//
// A thread computes packs of rows that are STEP_M apart, by packs of columns that are STEP_N apart.
// Neighboring threads have neighboring packs:
//
//   THREAD_N = 8, three threads of a row:    |0000|1111|2222|0000|1111|2222|
//
// Limits: n and k are multiples of 4, and a, b and y are aligned to 16 bytes, so that rows consist
// of aligned packs. Elements outside a and b are read as 0.

#pragma once

#include "ladder/matrices.cuh"
#include "lib/vec.cuh"

constexpr int PACK = 4;
typedef Pack<float, PACK> Floats;

// The part of a ROWS x COLUMNS tile that a thread copies, in registers between global and shared
// memory.
template <int ROWS, int COLUMNS, int THREADS> struct TilePacks {
    static constexpr int PER_ROW = COLUMNS / PACK;
    static constexpr int COUNT = ROWS * PER_ROW / THREADS;
    static_assert(ROWS * PER_ROW % THREADS == 0, "every thread copies as many packs");
    Floats held[COUNT];

    INLINE static int row(int i) { return (threadIdx.x + i * THREADS) / PER_ROW; }
    INLINE static int column(int i) { return (threadIdx.x + i * THREADS) % PER_ROW * PACK; }

    // Loads from the tile that starts at [first_row, first_column] of a `rows` x `columns` matrix.
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

// Reads COUNT elements of a tile row: packs that are STEP elements apart.
template <int COUNT, int STEP> INLINE void read_packs(float (&to)[COUNT], const float* from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += PACK) {
        Floats pack = load<float, PACK>(from + i / PACK * STEP);
#pragma unroll
        for (int e = 0; e < PACK; ++e) to[i + e] = pack.of[e];
    }
}

// Multiplies both tiles into the accumulators of a thread, the first of which is element
// [row, column] of the tile of y.
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

// Stores the accumulators of a thread to y; the first is element [row, column] of y.
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
