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
// A thread computes packs of rows that are PACK_STRIDE_M apart, by packs of columns that are
// PACK_STRIDE_N apart. Neighboring threads have neighboring packs:
//
//   THREAD_N = 8, three threads of a row:    |0000|1111|2222|0000|1111|2222|
//
// Limits: n and k are multiples of 4, and a, b and y are aligned to 16 bytes, so that rows consist
// of aligned packs. Elements outside a and b are read as 0.

#pragma once

#include "ladder/matrices.cuh"
#include "lib/vec.cuh"

constexpr int PACK = 4;
typedef Pack<float, PACK> FloatPack;

// The part of a ROWS x COLUMNS tile that a thread copies, in registers between global and shared
// memory.
template <int ROWS, int COLUMNS, int THREADS> struct TilePacks {
    static constexpr int PER_ROW = COLUMNS / PACK;
    static constexpr int COUNT = ROWS * PER_ROW / THREADS;
    static_assert(ROWS * PER_ROW % THREADS == 0, "all threads copy the same number of packs");
    FloatPack packs[COUNT];

    INLINE static int row(int i) { return (threadIdx.x + i * THREADS) / PER_ROW; }
    INLINE static int column(int i) { return (threadIdx.x + i * THREADS) % PER_ROW * PACK; }

    // Loads from the tile that starts at [first_row, first_column] of a `rows` x `columns` matrix.
    INLINE void fetch(const float* matrix, u32 first_row, u32 first_column, u32 rows, u32 columns) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            u32 r = first_row + row(i), c = first_column + column(i);
            bool is_inside = r < rows && c < columns;
            packs[i] = is_inside ? load<float, PACK>(matrix + r * columns + c) : FloatPack{};
        }
    }
    INLINE void store_rows(float (&tile)[ROWS][COLUMNS]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) store<float, PACK>(&tile[row(i)][column(i)], packs[i]);
    }
    INLINE void store_transposed(float (&tile)[COLUMNS][ROWS + PACK]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int e = 0; e < PACK; ++e) tile[column(i) + e][row(i)] = packs[i].of[e];
    }
};

// Reads COUNT elements of a tile row: packs that are STRIDE elements apart.
template <int COUNT, int STRIDE> INLINE void read_packs(float (&to)[COUNT], const float* from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += PACK) {
        FloatPack pack = load<float, PACK>(from + i / PACK * STRIDE);
#pragma unroll
        for (int e = 0; e < PACK; ++e) to[i + e] = pack.of[e];
    }
}

// Multiplies both tiles into the accumulators of a thread, the first of which is element
// [row, column] of the tile of y.
template <int PACK_STRIDE_M, int PACK_STRIDE_N, int SUMS_M, int SUMS_N, int LENGTH, int LDA, int LDB>
INLINE void multiply_tiles(float (&accumulators)[SUMS_M][SUMS_N], const float (&a_tile)[LENGTH][LDA],
                           const float (&b_tile)[LENGTH][LDB], int row, int column) {
#pragma unroll
    for (int k = 0; k < LENGTH; ++k) {
        float a_fragment[SUMS_M], b_fragment[SUMS_N];
        read_packs<SUMS_M, PACK_STRIDE_M>(a_fragment, &a_tile[k][row]);
        read_packs<SUMS_N, PACK_STRIDE_N>(b_fragment, &b_tile[k][column]);
#pragma unroll
        for (int i = 0; i < SUMS_M; ++i)
#pragma unroll
            for (int j = 0; j < SUMS_N; ++j)
                accumulators[i][j] = fmaf(a_fragment[i], b_fragment[j], accumulators[i][j]);
    }
}

// Stores the accumulators of a thread to y; the first is element [row, column] of y.
template <int PACK_STRIDE_M, int PACK_STRIDE_N, int SUMS_M, int SUMS_N>
INLINE void store_accumulators(const Matrices<float>& p, const float (&accumulators)[SUMS_M][SUMS_N], u32 row,
                               u32 column) {
#pragma unroll
    for (int i = 0; i < SUMS_M; ++i) {
        u32 r = row + i / PACK * PACK_STRIDE_M + i % PACK;
#pragma unroll
        for (int j = 0; j < SUMS_N; j += PACK) {
            u32 c = column + j / PACK * PACK_STRIDE_N;
            FloatPack pack = {
                {accumulators[i][j], accumulators[i][j + 1], accumulators[i][j + 2], accumulators[i][j + 3]}};
            if (r < p.m && c < p.n) store<float, PACK>(p.y + r * p.n + c, pack);
        }
    }
}
