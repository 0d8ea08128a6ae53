// Tiles of halves in shared memory and products of them on the tensor cores (mma.sync m16n8k16), for the attention kernels of f16 and bf16.
//
// A tile is rows of WIDTH halves in shared memory. A row is cut into chunks of 16 bytes, and chunk c of row r lies at place c ^ swizzle(r):
// the 8 rows that one ldmatrix phase reads at the same c then lie in 8 different groups of banks.

#pragma once

#include "attention/half.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

template <int ROWS, int WIDTH> struct Tile {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int ROW_BYTES = WIDTH * 2;
    // Rows of 128 bytes and multiples begin at bank 0: turn by the row. Others begin at bank 0 or 16: by half the row.
    INLINE static u32 swizzle(u32 row) { return WIDTH % 64 == 0 ? row & 7 : (row >> 1) & 3; }
    INLINE static u32 at(u32 row, u32 chunk) { return row * ROW_BYTES + ((chunk ^ swizzle(row)) << 4); }
};

// Rows that are multiplied together: all of them take part in a product, or none.
INLINE constexpr int team_rows(int row_tiles) { return row_tiles * 16; }

// A product is done when the next instruction begins: nothing is to be awaited, and nothing gained by beginning it early.
#define ASYNC_PRODUCTS 0
INLINE void publish_copies() { cp_async_wait_group<0>(); }
INLINE void begin_products() {}
INLINE void commit_products() {}
template <int PENDING> INLINE void await_products() {}
template <int DOWN, int OVER> INLINE void fence_accumulator(float (&)[DOWN][OVER][4]) {}

// Where a lane's row of a 16 x 16 block lies, for the two orders in which ldmatrix takes the four 8 x 8 blocks:
//
//   down    | 0 2 |   the left operand; and, transposed, the right one of a product over rows
//           | 1 3 |
//   across  | 0 1 |   the right operand of a product over columns
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
    // The 16 x 16 block number (down, over) of the tile.
    INLINE u32 block(int down, int over) const {
        return row + down * 16 * Tile<16, WIDTH>::ROW_BYTES + ((over * 32) ^ swizzled);
    }
};

// c = a b^T over WIDTH columns: the DOWN * 16 rows from `row` on of tile a, OVER * 8 rows of tile b.
template <int A_ROWS, int WIDTH, int DOWN, int OVER>
INLINE void product_of_rows(float (&c)[DOWN][OVER][4], u32 a_tile, u32 row, u32 b_tile) {
    Reader<WIDTH> a = Reader<WIDTH>::down(a_tile + row * Tile<A_ROWS, WIDTH>::ROW_BYTES),
                  b = Reader<WIDTH>::across(b_tile);
    clear(c);
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step) {
        u32 left[DOWN][4];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) ldmatrix_x4(left[i], a.block(i, step));
#pragma unroll
        for (int j = 0; j < OVER / 2; ++j) {
            u32 right[4];
            ldmatrix_x4(right, b.block(j, step));
#pragma unroll
            for (int i = 0; i < DOWN; ++i) {
                mma_m16n8k16(c[i][2 * j], left[i], right[0], right[1], Element());
                mma_m16n8k16(c[i][2 * j + 1], left[i], right[2], right[3], Element());
            }
        }
    }
}

// c += a b, where b is a tile of STEPS * 16 rows and WIDTH columns.
template <int WIDTH, int DOWN, int STEPS>
INLINE void add_product(float (&c)[DOWN][WIDTH / 8][4], const u32 (&a)[DOWN][STEPS][4], u32 b_tile) {
    Reader<WIDTH> b = Reader<WIDTH>::down(b_tile);
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int j = 0; j < WIDTH / 16; ++j) {
            u32 right[4];
            ldmatrix_x4_trans(right, b.block(step, j));
#pragma unroll
            for (int i = 0; i < DOWN; ++i) {
                mma_m16n8k16(c[i][2 * j], a[i][step], right[0], right[1], Element());
                mma_m16n8k16(c[i][2 * j + 1], a[i][step], right[2], right[3], Element());
            }
        }
}
