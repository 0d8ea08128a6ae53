// Half-precision tiles in shared memory and their products on tensor cores (mma.sync m16n8k16), for
// the f16 and bf16 attention kernels.
//
// A tile has rows of WIDTH elements in shared memory. A row is split into chunks of 16 bytes. Chunk
// c of row r is stored at chunk index c ^ swizzle(r): the 8 rows that one ldmatrix phase reads at
// the same c are then in 8 different groups of banks.

#pragma once

#include "attention/half.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

template <int ROWS, int WIDTH> struct Tile {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int ROW_BYTES = WIDTH * 2;
    // Rows of a multiple of 128 bytes begin at bank 0: XOR with the row. Other rows begin at bank 0
    // or 16: XOR with row / 2.
    INLINE static u32 swizzle(u32 row) { return WIDTH % 64 == 0 ? row & 7 : (row >> 1) & 3; }
    INLINE static u32 at(u32 row, u32 chunk) { return row * ROW_BYTES + ((chunk ^ swizzle(row)) << 4); }
};

// Rows that are multiplied together: either all take part in a product, or none.
INLINE constexpr int rows_per_product(int row_tiles) { return row_tiles * 16; }

// A product is complete before the next instruction begins: there is nothing to wait for, and no
// gain from issuing it early.
#define ASYNC_PRODUCTS 0
INLINE void wait_for_copies() { cp_async_wait_group<0>(); }
INLINE void warpgroup_arrive() {}
INLINE void warpgroup_commit_batch() {}
template <int PENDING> INLINE void warpgroup_wait() {}
template <int ROW_BLOCKS, int COLUMN_BLOCKS> INLINE void fence_accumulator(float (&)[ROW_BLOCKS][COLUMN_BLOCKS][4]) {}

// Smem address of a lane's row in a 16 x 16 block, for the two orders in which ldmatrix takes the
// four 8 x 8 blocks:
//
//   down    | 0 2 |   left operand; transposed: right operand, k along the tile's rows
//           | 1 3 |
//   across  | 0 1 |   right operand, k along the tile's columns
//           | 2 3 |
template <int WIDTH> struct Reader {
    u32 row, swizzled;
    INLINE static Reader down(u32 tile) {
        u32 lane = threadIdx.x % WARP;
        return make(tile, lane & 15, lane >> 4);
    }
    INLINE static Reader across(u32 tile) {
        u32 lane = threadIdx.x % WARP;
        return make(tile, (lane & 7) | (lane >> 4) << 3, lane >> 3 & 1);
    }
    INLINE static Reader make(u32 tile, u32 row, u32 half) {
        Reader reader;
        reader.row = tile + row * Tile<16, WIDTH>::ROW_BYTES;
        reader.swizzled = (half ^ Tile<16, WIDTH>::swizzle(row)) << 4;
        return reader;
    }
    // The 16 x 16 block at block row `down` and block column `over`.
    INLINE u32 block(int down, int over) const {
        return row + down * 16 * Tile<16, WIDTH>::ROW_BYTES + ((over * 32) ^ swizzled);
    }
};

// c = a b^T over WIDTH columns: ROW_BLOCKS * 16 rows of tile a from `row`, COLUMN_BLOCKS * 8 rows
// of tile b.
template <int A_ROWS, int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void gemm_nt(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4], u32 a_tile, u32 row, u32 b_tile) {
    Reader<WIDTH> a = Reader<WIDTH>::down(a_tile + row * Tile<A_ROWS, WIDTH>::ROW_BYTES),
                  b = Reader<WIDTH>::across(b_tile);
    clear(c);
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step) {
        u32 left[ROW_BLOCKS][4];
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) ldmatrix_x4(left[i], a.block(i, step));
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS / 2; ++j) {
            u32 right[4];
            ldmatrix_x4(right, b.block(j, step));
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS; ++i) {
                mma_m16n8k16(c[i][2 * j], left[i], right[0], right[1], Element());
                mma_m16n8k16(c[i][2 * j + 1], left[i], right[2], right[3], Element());
            }
        }
    }
}

// c += a b, where b is a tile of STEPS * 16 rows and WIDTH columns.
template <int WIDTH, int ROW_BLOCKS, int STEPS>
INLINE void accumulate_gemm_nn(float (&c)[ROW_BLOCKS][WIDTH / 8][4], const u32 (&a)[ROW_BLOCKS][STEPS][4], u32 b_tile) {
    Reader<WIDTH> b = Reader<WIDTH>::down(b_tile);
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int j = 0; j < WIDTH / 16; ++j) {
            u32 right[4];
            ldmatrix_x4_trans(right, b.block(step, j));
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS; ++i) {
                mma_m16n8k16(c[i][2 * j], a[i][step], right[0], right[1], Element());
                mma_m16n8k16(c[i][2 * j + 1], a[i][step], right[2], right[3], Element());
            }
        }
}
